"""Fully visible pairwise Boltzmann machines (Ising models) over -1/+1 labels."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.energies._pairwise import PairwiseEnergy, symmetric_values
from skcrbm.energies.base import QUERIES
from skcrbm.energies.states import infinite_where_held, unchecked
from skcrbm.utils.validation import as_float_array, as_row_fields, kernel_array


class IsingEnergy(PairwiseEnergy):
    """A batch of pairwise Boltzmann machines that share their couplings.

    The score is ``-E_n(y) = f_n' y + 1/2 y' S y`` for y in {-1, +1}^L. Given the features x_n, a
    large margin Boltzmann machine [1]_ is this energy with the fields ``f_n = A x_n + b``.

    As in all energies, states in arguments and results are 0/1: 0 represents y = -1, and 1
    represents y = +1. Marginals are P(y_i = +1).

    Parameters
    ----------
    coupling : array-like of shape (L, L)
        Couplings S, symmetric with a zero diagonal.
    field : array-like of shape (L,) or (N, L)
        Fields f, with a row per model.

    Attributes
    ----------
    coupling : ndarray (L, L)
        Couplings S.
    field : ndarray (N, L)
        Fields f of each model.
    n_models, n_variables : int
        Number of models N and of labels L.
    dtype : numpy dtype
        Dtype of inference: float32 if both inputs are float32, else float64.

    Raises
    ------
    ValueError
        If an array has the wrong shape or is not finite, or `coupling` is not symmetric
        with a zero diagonal.

    References
    ----------
    .. [1] Miao and Rao (2009). Large margin Boltzmann machines. IJCAI.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.energies import IsingEnergy
    >>> from skcrbm.inference import infer
    >>> energy = IsingEnergy([[0.0, 1.0], [1.0, 0.0]], [[0.5, 0.0], [0.0, 0.0]])
    >>> infer(energy, "exact").marginals.round(3)
    array([[0.731, 0.676],
           [0.5  , 0.5  ]])
    """

    _saved = ("coupling", "field")

    queries = QUERIES - {"marginal_map"}

    def __init__(self, coupling: ArrayLike, field: ArrayLike):
        coupling = as_float_array(coupling, "coupling", "(L, L)")
        if coupling.shape[0] != coupling.shape[1]:
            raise ValueError(f"coupling must have shape (L, L), got {coupling.shape}")
        if np.diagonal(coupling).any():
            raise ValueError(
                "coupling must have a zero diagonal, because y_i y_i = 1 is a constant"
            )
        if not np.array_equal(coupling, coupling.T):
            pairs = np.triu_indices(len(coupling), 1)
            values, coupling = symmetric_values(coupling[pairs], coupling.T[pairs]), coupling.copy()
            coupling[pairs] = coupling.T[pairs] = values
        field = as_row_fields(field, "field", len(coupling), "L")
        dtype = np.result_type(coupling, field)
        self.coupling = kernel_array(coupling, dtype)
        self.field = kernel_array(field, dtype)

    @property
    def fields(self) -> tuple[np.ndarray, ...]:
        """Tuple that holds only the array `field`."""
        return (self.field,)

    @property
    def couplings(self) -> tuple[np.ndarray, ...]:
        """Tuple that holds only the array `coupling`."""
        return (self.coupling,)

    def own_log_odds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-odds (N, L) of the fields, and the influence (L,) of the couplings.

        If all couplings were 0, the log-odds of the labels would be twice the fields. The influence
        is the largest amount by which the other labels can change the log-odds of a label: twice
        the sum of the absolute couplings of the label.
        """
        return 2.0 * self.field, 2 * np.abs(self.coupling).sum(axis=0, dtype=np.float64)

    @property
    def n_variables(self) -> int:
        """Number of labels L."""
        return len(self.coupling)

    @property
    def statistic_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the statistics.

        There is one array, of shape (L, L), with P(y_i = +1, y_k = +1). Its diagonal holds the
        marginals.
        """
        return (self.coupling.shape,)

    def _with_fields(self, field):
        return self._copy_with(field=kernel_array(field, self.dtype))

    def tilted(self, shift: np.ndarray) -> tuple[Self, np.ndarray]:
        """Multiply the weight of each state by ``exp(shift' v)``, where v are the labels as 0/1."""
        half = np.broadcast_to(np.asarray(shift, np.float64) / 2, self.field.shape)
        return self.with_fields(self.field + half), half.sum(axis=1)

    def fold_evidence(self) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Add the effect of clamped labels to the fields of free labels, and to an offset.

        The first result is a tuple with the new fields (N, L), which are 0 for clamped labels. The
        second is the offset (N,): the sum of the terms of the score that depend only on clamped
        labels.
        """
        if self.evidence is None:
            return self.fields, np.zeros(self.n_models)
        held = ~np.isnan(self.evidence)
        signs = np.where(held, 2 * np.nan_to_num(self.evidence) - 1, 0.0)
        coupling = self.coupling.astype(np.float64)
        # Use `einsum`, because the rounding of a BLAS product depends on the other rows of the
        # batch.
        pull = np.einsum("nl,lk->nk", signs, coupling)
        offset = (signs * (self.field + 0.5 * pull)).sum(1)
        field = np.where(held, 0.0, self.field + pull)
        return (kernel_array(field, self.dtype),), offset

    def scaled(self, beta: float) -> Self:
        """Return the energy with the couplings multiplied by `beta`."""
        return self._copy_with(coupling=self.coupling * self.dtype.type(beta))

    def held_pairs(
        self, values: np.ndarray, free: np.ndarray
    ) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Return arrays whose outer products add up to the probabilities that two labels are 1.

        The sum is 0 for two free labels, so that it holds only the probabilities of label pairs
        with a clamped label. The result has two items (left, right) with arrays (N, L), as
        described in `PairwiseEnergy.held_pairs`.
        """
        return ((values, values + free), (free, values))

    def _conditional_log_odds(self, states, block):
        pull = (2.0 * states - 1.0) @ self.coupling[:, block].astype(np.float64)
        return 2 * (self.field[:, None, block] + pull)

    def _score(self, states):
        y = 2 * states.astype(np.float64) - 1
        return (y * self.field).sum(1) + 0.5 * ((y @ self.coupling.astype(np.float64)) * y).sum(1)

    def log_weight(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the score (N,) of a state of each model; `visible` (N, L) holds the states."""
        return unchecked(self.score)(visible)

    def log_weight_of_sets(self, visible_sets: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the score (N, K), float64, of K states (K, L) under each of N models."""
        y = 2 * visible_sets.astype(np.float64) - 1
        pairs = 0.5 * ((y @ self.coupling.astype(np.float64)) * y).sum(1)
        return self._without_contradictions(
            self.field.astype(np.float64) @ y.T + pairs, visible_sets
        )

    def visible_log_odds(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the log-odds ``2 (f_i + S_i y)`` (N, L) of each label given the other labels."""
        y = 2 * visible.astype(self.dtype) - 1
        log_odds = 2 * (self.field + y @ self.coupling)
        if self.evidence is not None:
            held = self.evidence
            log_odds = infinite_where_held(log_odds, held)
        return log_odds.astype(self.dtype, copy=False)

    def sum_statistics(self, means: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return a tuple with a single array (L, L): the weighted sum of outer products ``u u'``.

        Each row u of `means` is a 0/1 state (or its mean), and `weight` holds the weights of the
        rows.
        """
        means = means.astype(self.dtype, copy=False)
        weighted = weight[:, None].astype(self.dtype) * means
        pairs = weighted.T @ means
        pairs = (pairs + pairs.T) / 2  # removes asymmetry that is due to rounding
        np.fill_diagonal(pairs, weighted.sum(axis=0))
        return (pairs,)

    def expected_score(self, means: np.ndarray, statistics: tuple[np.ndarray, ...]) -> float:
        """Return the mean score over a distribution of states, computed from its moments."""
        y = 2 * means.astype(np.float64) - 1
        # With u = (y + 1) / 2, the mean of y_i y_k is 4 <u_i u_k> - 2 <u_i> - 2 <u_k> + 1. The sum
        # over all pairs, multiplied by the couplings, simplifies to the next expression.
        pairs = 2 * np.vdot(self.coupling, statistics[0]) - self.coupling.sum(axis=0) @ y
        return float(self.field[0] @ y + pairs - 0.5 * self.coupling.sum())
