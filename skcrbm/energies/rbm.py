"""Energies of restricted Boltzmann machines, and the conditional RBM that maps X to an energy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from scipy.special import expit

from skcrbm.energies.base import Block, checked_beta
from skcrbm.energies.pairs import PairwiseEnergy
from skcrbm.energies.states import infinite_where_held
from skcrbm.utils.labels import Labels, matrix_with_labels, with_new_labels
from skcrbm.utils.limits import CACHED_ENTRIES
from skcrbm.utils.parallel import linear_fields, row_chunks
from skcrbm.utils.validation import (
    as_float_array,
    as_row_fields,
    has_labels,
    kernel_array,
    own_array,
)

# A hidden unit with the input c (bias plus weighted visible units) adds _GAIN["marginal"](0, c) =
# softplus(c) to the log-weight of a visible state if the hidden units are summed out. If they are
# maximised instead, it adds _GAIN["max"](0, c) = max(0, c).
_GAIN = {"marginal": np.logaddexp, "max": np.maximum}


class RBMEnergy(PairwiseEnergy):
    """A batch of restricted Boltzmann machines that share their couplings.

    The score is ``-E_n(v, h) = v' W h + v' b_n + h' c_n`` with V visible units v and H hidden units
    h, all of them 0/1. Given the features x_n, a conditional RBM is this energy with
    ``b_n = b + U x_n`` and ``c_n = c + S x_n`` ([1]_, eq. 3).

    Parameters
    ----------
    weights : array-like of shape (V, H)
        Couplings W; V or H may be 0.
    visible_bias : array-like of shape (V,) or (N, V)
        Biases b of the visible units, with a row per model. A single row is used for all models.
    hidden_bias : array-like of shape (H,) or (N, H)
        Biases c of the hidden units, with a row per model. A single row is used for all models.

    Attributes
    ----------
    weights : ndarray (V, H)
        Couplings W.
    visible_bias, hidden_bias : ndarray (N, V), (N, H)
        Biases b and c of each model.
    n_models, n_visible, n_hidden, n_variables : int
        Numbers of models, visible units, hidden units, and all units.
    labels : tuple (V + H,) or None
        Labels of the units, if a data frame or Series has labels: its rows belong to visible and
        its columns to hidden units. A unit without a label has its index. See `BaseEnergy`.
    dtype : numpy dtype
        Dtype of inference: float32 if all inputs are float32, else float64.

    Raises
    ------
    ValueError
        If an array has the wrong shape or is not finite, or labels do not match.

    References
    ----------
    .. [1] Ping and Ihler (2017). Belief propagation in conditional RBMs for structured
       prediction. AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.energies import RBMEnergy
    >>> energy = RBMEnergy(np.ones((3, 2)), np.zeros(3), np.zeros((5, 2)))
    >>> energy.n_models, energy.n_visible, energy.n_hidden
    (5, 3, 2)
    """

    _saved = ("weights", "visible_bias", "hidden_bias")

    def __init__(self, weights: ArrayLike, visible_bias: ArrayLike, hidden_bias: ArrayLike):
        rows = columns = None
        if has_labels(weights):
            weights, rows, columns = matrix_with_labels(weights, "weights", symmetric=False)
        weights = as_float_array(weights, "weights", "(V, H)")
        n_visible, n_hidden = weights.shape
        if has_labels(visible_bias):
            visible_bias, rows = with_new_labels(visible_bias, "visible_bias", rows)
        if has_labels(hidden_bias):
            hidden_bias, columns = with_new_labels(hidden_bias, "hidden_bias", columns)
        visible_bias = as_row_fields(visible_bias, "visible_bias", n_visible, "V")
        hidden_bias = as_row_fields(hidden_bias, "hidden_bias", n_hidden, "H")
        dtype = np.result_type(weights, visible_bias, hidden_bias)
        n_models = max(len(visible_bias), len(hidden_bias))
        if min(len(visible_bias), len(hidden_bias)) == 0:
            n_models = 0
        for name, fields in (("visible_bias", visible_bias), ("hidden_bias", hidden_bias)):
            if len(fields) not in (1, n_models):
                raise ValueError(
                    f"{name} has {len(fields)} rows, but the other bias has {n_models}; "
                    "both must have one row per model, or a single row"
                )
        self.weights = own_array(weights, dtype)
        self.visible_bias = self._broadcast(visible_bias, n_models, dtype)
        self.hidden_bias = self._broadcast(hidden_bias, n_models, dtype)
        if rows is not None or columns is not None:
            self._set_labels(rows, columns)

    def _set_labels(self, rows, columns):
        rows = range(self.n_visible) if rows is None else rows
        columns = range(self.n_visible, self.n_variables) if columns is None else columns
        self.labels = (*rows, *columns)
        if len(set(self.labels)) < len(self.labels):
            raise ValueError("weights must have different labels for visible and hidden units")

    def _field_labels(self) -> tuple[Labels, ...]:
        if self.labels is None:
            return None, None
        rows, columns = self.labels[: self.n_visible], self.labels[self.n_visible :]
        return rows, None if columns == tuple(range(self.n_visible, self.n_variables)) else columns

    @staticmethod
    def _broadcast(fields, n_models, dtype):
        if len(fields) != n_models:
            fields = np.broadcast_to(fields[: n_models or None], (n_models, fields.shape[1]))
        return own_array(fields, dtype)

    @property
    def fields(self) -> tuple[np.ndarray, ...]:
        """Tuple with the arrays `visible_bias` and `hidden_bias`."""
        return self.visible_bias, self.hidden_bias

    @property
    def couplings(self) -> tuple[np.ndarray, ...]:
        """Tuple that holds only the array `weights`."""
        return (self.weights,)

    @property
    def n_models(self) -> int:
        """Number of models N in the batch."""
        return self.visible_bias.shape[0]

    @property
    def dtype(self) -> np.dtype:
        """Dtype of inference: float32 if all inputs are float32, else float64."""
        return self.weights.dtype

    @property
    def exclusive(self) -> np.ndarray:
        """Bool array (V,), True for the units of outputs with three or more classes.

        An output with K classes has K units, of which exactly one is 1. In a plain RBM all values
        are False.
        """
        return np.zeros(self.n_visible, bool)

    def own_log_odds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-odds and the influence of each unit, as in `BaseEnergy.own_log_odds`.

        The log-odds of a unit are its bias. The influence, a bound on the change of the log-odds by
        the other units, is the sum of the absolute weights of the unit.
        """
        size = np.abs(self.weights).astype(np.float64)
        influence = np.concatenate([size.sum(axis=1), size.sum(axis=0)])
        return np.hstack(self.fields).astype(np.float64), influence

    @property
    def n_visible(self) -> int:
        """Number of visible units V."""
        return self.weights.shape[0]

    @property
    def n_hidden(self) -> int:
        """Number of hidden units H."""
        return self.weights.shape[1]

    @property
    def n_variables(self) -> int:
        """Number of units V + H; the visible units come first."""
        return self.n_visible + self.n_hidden

    def n_enumerated(self, query: str = "log_partition") -> int:
        """Return the number of units in the layer whose states exact inference enumerates.

        This is the smaller layer, and the larger layer is summed out analytically. For the query
        "marginal_map", inference must enumerate the visible layer.
        """
        return self.n_visible if query == "marginal_map" else min(self.n_visible, self.n_hidden)

    def _with_fields(self, visible_bias, hidden_bias):
        return self._copy_with(
            visible_bias=kernel_array(visible_bias, self.dtype),
            hidden_bias=kernel_array(hidden_bias, self.dtype),
        )

    def scaled(self, beta: float) -> Self:
        """Return the energy with the weights multiplied by `beta`."""
        return self._copy_with(weights=self.weights * self.dtype.type(checked_beta(beta)))

    # -------------------------------------------------------------- evidence

    def _held(self):
        """Return the values of clamped units, visible (N, V) and hidden (N, H); NaN if free."""
        assert self.evidence is not None
        return self.evidence[:, : self.n_visible], self.evidence[:, self.n_visible :]

    def fold_evidence(self) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Add the effect of clamped units to the biases of free units.

        Return a tuple of the new biases, which are 0 for clamped units, and an offset (N,) for each
        model. The offset is the sum of the terms of the score that depend only on clamped units.
        """
        if self.evidence is None:
            return self.fields, np.zeros(self.n_models)
        held = [~np.isnan(part) for part in self._held()]
        v, h = (np.nan_to_num(part).astype(self.dtype) for part in self._held())
        pull = h @ self.weights.T
        b = self.visible_bias + pull
        c = self.hidden_bias + v @ self.weights
        # The sums of biases and of couplings are computed separately, because adding a bias and a
        # coupling may lose digits in float32. The term v' W h of clamped units is added to the sum
        # of the visible units only, so that it counts once.
        parts = (v, self.visible_bias), (v, pull), (h, self.hidden_bias)
        offset = np.zeros(self.n_models)
        for x, field in parts:
            offset += (x * field).sum(1, dtype=np.float64)
        b[held[0]] = 0
        c[held[1]] = 0
        return (b, c), offset

    def held_pairs(
        self, values: np.ndarray, free: np.ndarray
    ) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Return P(v_i = 1, h_j = 1) of pairs that include a clamped unit, as products of arrays.

        See `PairwiseEnergy.held_pairs`.
        """
        v, h = values[:, : self.n_visible], values[:, self.n_visible :]
        free_v, free_h = free[:, : self.n_visible], free[:, self.n_visible :]
        return ((v, h + free_h), (free_v, h))

    def _hidden_gain(self, inputs, hidden):
        """Return the term that each hidden unit adds to the log-weight of a visible state.

        `inputs` (N, ..., H) holds the input of each hidden unit, and the result has the same shape.
        """
        gain = _GAIN[hidden](0, inputs)
        if self.evidence is None:
            return gain
        held = self._held()[1]
        held = held.reshape(len(held), *(1,) * (inputs.ndim - 2), held.shape[1])
        return np.where(np.isnan(held), gain, np.nan_to_num(held) * inputs)

    # --------------------------------------------------------- conditionals

    @property
    def sampling_blocks(self) -> tuple[Block, ...]:
        """Tuple of two slices: all visible units, then all hidden units."""
        return slice(0, self.n_visible), slice(self.n_visible, self.n_variables)

    def _conditional_log_odds(self, states: np.ndarray, block: slice):
        n, n_chains, _ = states.shape
        if block.start == 0 and block.stop == self.n_visible:
            others, bias, coupling = (
                states[..., self.n_visible :],
                self.visible_bias,
                self.weights.T,
            )
        else:
            others, bias, coupling = states[..., : self.n_visible], self.hidden_bias, self.weights
        flat = others.reshape(n * n_chains, others.shape[2]).astype(self.dtype, copy=False)
        # BLAS may read memory beyond the end of `flat`, and the arbitrary numbers in that memory
        # would cause warnings.
        with np.errstate(invalid="ignore"):
            inputs = flat @ coupling
        return bias[:, None, :] + inputs.reshape(n, n_chains, bias.shape[1])

    def _hidden_inputs(self, visible):
        """Return the inputs (N, H) of the hidden units.

        `visible` (N, V) must have the dtype of the energy.
        """
        return self.hidden_bias + visible @ self.weights

    def hidden_given_visible(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return P(h_j = 1 | v), or the most probable h given v if `hidden` is "max": (N, H)."""
        return self._hidden_of(self._hidden_inputs(visible.astype(self.dtype, copy=False)), hidden)

    def _hidden_of(self, inputs, hidden):
        found = expit(inputs) if hidden == "marginal" else (inputs > 0).astype(self.dtype)
        if self.evidence is None:
            return found
        held = self._held()[1]
        return np.where(np.isnan(held), found, held).astype(self.dtype)

    def hidden_and_log_weight(
        self, visible: np.ndarray, hidden: str = "marginal"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the results of `hidden_given_visible` and `log_weight` by one matrix product."""
        visible = visible.astype(self.dtype, copy=False)
        inputs = self._hidden_inputs(visible)
        return self._hidden_of(inputs, hidden), self._log_weight_of(visible, inputs, hidden)

    def visible_log_odds(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the log-odds (N, V) of each visible unit given all other visible units."""
        visible = visible.astype(self.dtype, copy=False)
        inputs = self.hidden_bias + visible @ self.weights
        log_odds = self.visible_bias.copy()
        for rows in self.row_blocks(self.weights.size):
            part = self if self.evidence is None else self.rows(rows)
            off = inputs[rows, None, :] - visible[rows, :, None] * self.weights
            on = part._hidden_gain(off + self.weights, hidden)
            log_odds[rows] += (on - part._hidden_gain(off, hidden)).sum(2)
        if self.evidence is not None:
            held = self._held()[0]
            log_odds = infinite_where_held(log_odds, held)
        return log_odds.astype(self.dtype, copy=False)

    # ----------------------------------------------------- weights of states

    def _score(self, states):
        v = states[:, : self.n_visible].astype(np.float64)
        h = states[:, self.n_visible :].astype(np.float64)
        linear = (v * self.visible_bias).sum(1) + (h * self.hidden_bias).sum(1)
        return linear + ((v @ self.weights.astype(np.float64)) * h).sum(1)

    def log_weight(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the negative free energy (N,), ``v' b + sum_j softplus(v' W_j + c_j)``.

        If `hidden` is "max", the result is ``max_h -E(v, h)``, that is, relu replaces softplus.
        """
        visible = visible.astype(self.dtype, copy=False)
        return self._log_weight_of(visible, self._hidden_inputs(visible), hidden)

    def _log_weight_of(self, visible, inputs, hidden):
        linear = (visible * self.visible_bias).sum(1, dtype=np.float64)
        weight = linear + self._hidden_gain(inputs, hidden).sum(1, dtype=np.float64)
        if self.evidence is not None:
            weight[~self._agrees(visible)] = -np.inf
        return weight

    def log_weight_of_sets(self, visible_sets: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the negative free energy (N, K) of K visible states (K, V) in each of N models."""
        # Enumeration is in float64: a large bias would hide the differences between the states.
        sets = visible_sets.astype(np.float64)
        coupling = sets @ self.weights.astype(np.float64)
        result = self.visible_bias.astype(np.float64) @ sets.T
        for rows in self.row_blocks(coupling.size):
            part = self if self.evidence is None else self.rows(rows)
            inputs = coupling + self.hidden_bias[rows, None, :]
            result[rows] += part._hidden_gain(inputs, hidden).sum(2, dtype=np.float64)
        return self._without_contradictions(result, sets)

    # ------------------------------------------------- sufficient statistics

    @property
    def statistic_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the statistics: one array of shape (V, H) with P(v_i = 1, h_j = 1)."""
        return (self.weights.shape,)

    def sum_statistics(self, means: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return a tuple with a single array (V, H), the weighted sum of ``v h'``."""
        v, h = means[:, : self.n_visible], means[:, self.n_visible :]
        weight = weight[:, None].astype(self.dtype)
        return ((weight * v).T @ h.astype(self.dtype, copy=False),)

    def expected_score(self, means: np.ndarray, statistics: tuple[np.ndarray, ...]) -> float:
        """Return the mean score of states, given the means and pair statistics of the states."""
        fields = np.concatenate([self.visible_bias[0], self.hidden_bias[0]]).astype(np.float64)
        return float(fields @ means + np.vdot(self.weights, statistics[0]))

    def row_blocks(self, entries_per_row: int) -> Sequence[slice]:
        """Split the rows into slices, so that temporary arrays of a slice fit into the cache.

        `entries_per_row` is the size of the temporary arrays for one row.
        """
        return row_chunks(self.n_models, max(1, CACHED_ENTRIES // max(1, entries_per_row)))


class CRBMParams(NamedTuple):
    """Parameters of a conditional RBM, in the notation of Ping and Ihler (2017), eq. 3."""

    weights: Any  # ndarray W (V, H)
    visible_coef: Any  # ndarray U (V, D)
    hidden_coef: Any  # ndarray S (H, D)
    visible_intercept: Any  # ndarray b (V,)
    hidden_intercept: Any  # ndarray c (H,)


class ConditionalRBM(NamedTuple):
    """A conditional RBM, ``p(v, h | x) ∝ exp(v' W h + v' U x + h' S x + v' b + h' c)``."""

    params: CRBMParams
    energy_type: type[RBMEnergy] = RBMEnergy  # or `OneHotRBMEnergy`, if y has classes
    units: Any = None  # `OutputUnits` of the visible units, if the energies are `GroupedRBMEnergy`

    def energy(self, X: Any) -> RBMEnergy:
        """Return the energies of (v, h) given the rows of X (N, D), an ndarray or CSR matrix.

        A ValueError is raised if a product of X with a matrix of coefficients overflows.
        """
        p = self.params
        with np.errstate(over="ignore", invalid="ignore"):
            visible = linear_fields(X, p.visible_coef, p.visible_intercept)
            hidden = linear_fields(X, p.hidden_coef, p.hidden_intercept)
        try:
            units = () if self.units is None else (self.units,)
            return self.energy_type(p.weights, visible, hidden, *units)
        except ValueError:
            if np.isfinite(visible).all() and np.isfinite(hidden).all():
                raise
            raise ValueError(
                "X times the coefficients is too large; scale the columns of X"
            ) from None

    def gradient(self, X: Any, unary: np.ndarray, statistics: tuple[np.ndarray, ...]) -> CRBMParams:
        """Convert gradients for the energies to gradients for the parameters by the chain rule.

        `unary` (N, V + H) holds the gradients for the fields of each row. `statistics` is a tuple
        that holds the gradient (V, H) for the couplings, summed over the rows.
        """
        (pairwise,) = statistics
        n_visible = len(pairwise)
        coef, intercept = _left_product(unary, X), unary.sum(axis=0)
        return CRBMParams(
            pairwise,
            coef[:n_visible],
            coef[n_visible:],
            intercept[:n_visible],
            intercept[n_visible:],
        )


def _left_product(moments, X):
    """Return the product ``moments' X``, shape (n_units, D), for a dense or sparse X."""
    if issparse(X):
        return np.ascontiguousarray((X.T @ moments).T)
    return moments.T @ X
