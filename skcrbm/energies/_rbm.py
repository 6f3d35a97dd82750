"""Restricted Boltzmann machines with 0/1 units."""

import numpy as np
from scipy.special import expit

from skcrbm.energies._base import PINNED_OFF, BaseEnergy, Conditioned
from skcrbm.utils._parallel import row_chunks
from skcrbm.utils._validation import as_float_array, as_row_fields, kernel_array

_BLOCK_ENTRIES = 2**16
# What a hidden unit adds to the score of a visible state: _GAIN[...](0, its input).
_GAIN = {"marginal": np.logaddexp, "max": np.maximum}


class RBMEnergy(BaseEnergy):
    """A batch of restricted Boltzmann machines that share their couplings.

    ``-E_n(v, h) = v' W h + v' b_n + h' c_n`` with 0/1 units v (V of them) and h (H).
    A conditional RBM given x is this energy with ``b_n = b + U x_n`` and
    ``c_n = c + S x_n`` [1]_, eq. 3.

    Parameters
    ----------
    weights : array-like of shape (V, H)
        W. Either side may be empty.
    visible_bias : array-like of shape (V,) or (N, V)
        b, one row per model.
    hidden_bias : array-like of shape (H,) or (N, H)
        c, one row per model. A single row is shared by all N models.

    Attributes
    ----------
    weights : ndarray (V, H)
    visible_bias, hidden_bias : ndarray (N, V), (N, H)
    n_models, n_visible, n_hidden, n_variables : int
    dtype : numpy dtype
        float32 if all inputs are float32, else float64. Inference runs in it.

    Raises
    ------
    ValueError
        If an array has the wrong shape or is not finite.

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

    def __init__(self, weights, visible_bias, hidden_bias):
        weights = as_float_array(weights, "weights", "(V, H)")
        n_visible, n_hidden = weights.shape
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
        self.weights = weights.astype(dtype, copy=False)
        self.visible_bias = self._broadcast(visible_bias, n_models, dtype)
        self.hidden_bias = self._broadcast(hidden_bias, n_models, dtype)

    @staticmethod
    def _broadcast(fields, n_models, dtype):
        fields = np.broadcast_to(fields[: n_models or None], (n_models, fields.shape[1]))
        return kernel_array(fields, dtype)

    @property
    def fields(self):
        """(visible_bias, hidden_bias)."""
        return self.visible_bias, self.hidden_bias

    @property
    def n_visible(self):
        """Number of visible units V."""
        return self.weights.shape[0]

    @property
    def n_hidden(self):
        """Number of hidden units H."""
        return self.weights.shape[1]

    @property
    def n_variables(self):
        """V + H, visible units first."""
        return self.n_visible + self.n_hidden

    @property
    def pairwise_shape(self):
        """(V, H)."""
        return self.weights.shape

    def with_fields(self, visible_bias, hidden_bias):
        """Return the same couplings with other biases, (N, V) and (N, H), of the same dtype."""
        return self._copy_with(
            visible_bias=kernel_array(visible_bias, self.dtype),
            hidden_bias=kernel_array(hidden_bias, self.dtype),
        )

    def condition(self, clamp):
        """Fold clamped units into the biases of their neighbours.

        Parameters
        ----------
        clamp : ndarray of shape (N, V + H)
            NaN = free, 0 or 1 = fixed.

        Returns
        -------
        Conditioned
        """
        clamped = ~np.isnan(clamp)
        values = np.where(clamped, clamp, 0).astype(self.dtype)
        v, h = values[:, : self.n_visible], values[:, self.n_visible :]
        b = self.visible_bias + h @ self.weights.T
        c = self.hidden_bias + v @ self.weights
        # v' W h of two clamped units stands in both fields: count it once.
        offset = (v * b).sum(1, dtype=np.float64) + (h * self.hidden_bias).sum(1, dtype=np.float64)
        off = self.dtype.type(PINNED_OFF)
        b[clamped[:, : self.n_visible]] = off
        c[clamped[:, self.n_visible :]] = off
        return Conditioned(self.with_fields(b, c), values, clamped, offset)

    def clamped_pairs(self, values, free):
        """Factors of the pair probabilities (N, V, H) with a clamped unit."""
        v, h = values[:, : self.n_visible], values[:, self.n_visible :]
        free_v, free_h = free[:, : self.n_visible], free[:, self.n_visible :]
        return ((v, h + free_h), (free_v, h))

    def hidden_given_visible(self, visible, hidden="marginal"):
        """P(h_j = 1 | v), or with ``hidden="max"`` the best h; (N, H), for 0/1 visible (N, V)."""
        inputs = self.hidden_bias + visible.astype(self.dtype, copy=False) @ self.weights
        return expit(inputs) if hidden == "marginal" else (inputs > 0).astype(self.dtype)

    def score(self, state):
        """``-E(v, h)`` of 0/1 states (N, V + H), one per model; (N,) float64."""
        v = state[:, : self.n_visible].astype(np.float64)
        h = state[:, self.n_visible :].astype(np.float64)
        linear = (v * self.visible_bias).sum(1) + (h * self.hidden_bias).sum(1)
        return linear + ((v @ self.weights.astype(np.float64)) * h).sum(1)

    def log_weight(self, visible, hidden="marginal"):
        """Negative free energy ``-F(v) = v' b + sum_j sp(v' W_j + c_j)``.

        Parameters
        ----------
        visible : ndarray of shape (N, V)
            0/1 states, one per model.
        hidden : {"marginal", "max"}, default="marginal"
            Whether the hidden units are summed out or take their best values:
            ``max_h -E(v, h)``, with relu in place of the softplus.

        Returns
        -------
        ndarray of shape (N,), float64
        """
        visible = visible.astype(self.dtype, copy=False)
        inputs = self.hidden_bias + visible @ self.weights
        linear = (visible * self.visible_bias).sum(1, dtype=np.float64)
        return linear + _GAIN[hidden](0, inputs).sum(1, dtype=np.float64)

    def visible_log_odds(self, visible, hidden="marginal"):
        """Log-odds of each visible unit given all the others, h summed or maximised out.

        Parameters
        ----------
        visible : ndarray of shape (N, V)
            0/1 states, one per model.
        hidden : {"marginal", "max"}, default="marginal"

        Returns
        -------
        ndarray of shape (N, V)
        """
        visible = visible.astype(self.dtype, copy=False)
        inputs = self.hidden_bias + visible @ self.weights
        log_odds = self.visible_bias.copy()
        gain = _GAIN[hidden]
        for rows in self.row_blocks(self.weights.size):
            off = inputs[rows, None, :] - visible[rows, :, None] * self.weights
            log_odds[rows] += (gain(0, off + self.weights) - gain(0, off)).sum(2)
        return log_odds

    def log_weight_of_sets(self, visible_sets, hidden="marginal"):
        """Negative free energy of each of K visible states under each of N models.

        Parameters
        ----------
        visible_sets : ndarray of shape (K, V)
        hidden : {"marginal", "max"}, default="marginal"
            As in `log_weight`.

        Returns
        -------
        ndarray of shape (N, K), float64
        """
        sets = visible_sets.astype(self.dtype, copy=False)
        coupling = sets @ self.weights
        result = (self.visible_bias @ sets.T).astype(np.float64)
        for rows in self.row_blocks(coupling.size):
            inputs = coupling + self.hidden_bias[rows, None, :]
            result[rows] += _GAIN[hidden](0, inputs).sum(2, dtype=np.float64)
        return result

    def row_blocks(self, entries_per_row):
        """Slices of the rows that keep a temporary of so many entries a row in the cache."""
        return row_chunks(self.n_models, max(1, _BLOCK_ENTRIES // max(1, entries_per_row)))
