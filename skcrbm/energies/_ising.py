"""Pairwise Boltzmann machines (Ising models) over -1/+1 labels."""

import numpy as np

from skcrbm.energies._base import PINNED_OFF, BaseEnergy, Conditioned
from skcrbm.utils._validation import as_float_array, as_row_fields, kernel_array


class IsingEnergy(BaseEnergy):
    """A batch of pairwise Boltzmann machines that share their couplings.

    ``-E_n(y) = f_n' y + 1/2 y' S y`` for y in {-1, +1}^L, the fully visible Boltzmann
    machine; given x, that of a large-margin Boltzmann machine has fields
    ``f_n = A x_n + b`` [1]_.

    Wherever a state is passed or returned as numbers (clamps, assignments), 0 stands for
    y = -1 and 1 for y = +1, as for every other energy; marginals are P(y_i = +1).

    Parameters
    ----------
    coupling : array-like of shape (L, L)
        S, symmetric with a zero diagonal.
    field : array-like of shape (L,) or (N, L)
        f, one row per model.

    Attributes
    ----------
    coupling : ndarray (L, L)
    field : ndarray (N, L)
    n_models, n_variables : int
    dtype : numpy dtype
        float32 if both inputs are float32, else float64. Inference runs in it.

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

    queries = BaseEnergy.queries - {"marginal_map"}

    def __init__(self, coupling, field):
        coupling = as_float_array(coupling, "coupling", "(L, L)")
        if coupling.shape[0] != coupling.shape[1]:
            raise ValueError(f"coupling must have shape (L, L), got {coupling.shape}")
        if np.diagonal(coupling).any():
            raise ValueError("coupling must have a zero diagonal: y_i y_i = 1 is a constant")
        if not np.array_equal(coupling, coupling.T):
            raise ValueError(
                "coupling must be symmetric; (coupling + coupling.T) / 2 gives the same model"
            )
        field = as_row_fields(field, "field", len(coupling), "L")
        dtype = np.result_type(coupling, field)
        self.coupling = kernel_array(coupling, dtype)
        self.field = kernel_array(field, dtype)

    @property
    def fields(self):
        """(field,)."""
        return (self.field,)

    @property
    def n_variables(self):
        """Number of labels L."""
        return len(self.coupling)

    @property
    def n_visible(self):
        """Number of labels L: all variables are outputs."""
        return len(self.coupling)

    @property
    def n_hidden(self):
        """0."""
        return 0

    @property
    def pairwise_shape(self):
        """(L, L)."""
        return self.coupling.shape

    def with_fields(self, field):
        """Return the same couplings with another field (N, L) of the same dtype."""
        return self._copy_with(field=kernel_array(field, self.dtype))

    def condition(self, clamp):
        """Fold clamped labels into the fields of the others.

        A label that is pinned off is -1 and goes on pulling at its neighbours as such; only
        what differs from that, ``s_ik (y_i + 1)``, is folded.

        Parameters
        ----------
        clamp : ndarray of shape (N, L)
            NaN = free, 0 = fixed to -1, 1 = fixed to +1.

        Returns
        -------
        Conditioned
        """
        clamped = ~np.isnan(clamp)
        values = np.where(clamped, clamp, 0).astype(self.dtype)
        field = self.field + 2 * values @ self.coupling
        # s_ik (y_i y_k - 1) of two clamped labels: -2 s_ik if they differ.
        coupling, on = self.coupling.astype(np.float64), values.astype(np.float64)
        differ = (on @ coupling * (clamped - on)).sum(1)
        signs = np.where(clamped, 2 * on - 1, 0)
        offset = (signs * self.field).sum(1) - 2 * differ
        field[clamped] = self.dtype.type(PINNED_OFF)
        return Conditioned(self.with_fields(field), values, clamped, offset)

    def clamped_pairs(self, values, free):
        """(N, L, L) terms of the pair probabilities with a clamped label, as factors."""
        both = values + free
        return ((values, both), (free, values))

    def base_score(self):
        """Score of the fields of free labels at y = (-1, ..., -1); (N,) float64."""
        field = self.field.astype(np.float64)
        return -np.where(self.field <= PINNED_OFF, 0.0, field).sum(1)

    def score(self, state):
        """``-E(y)`` of states (N, L), 0 for -1 and 1 for +1, one per model; (N,) float64."""
        y = 2 * state.astype(np.float64) - 1
        return (y * self.field).sum(1) + 0.5 * ((y @ self.coupling.astype(np.float64)) * y).sum(1)

    def log_weight(self, visible, hidden="marginal"):
        """Score of states (N, L), one per model; there are no hidden units to sum out."""
        return self.score(visible)

    def log_weight_of_sets(self, visible_sets, hidden="marginal"):
        """Score (N, K), float64, of each of K states (K, L) under each of N models."""
        y = 2 * visible_sets.astype(np.float64) - 1
        pairs = 0.5 * ((y @ self.coupling.astype(np.float64)) * y).sum(1)
        return self.field.astype(np.float64) @ y.T + pairs
