"""RBM whose visible units are the states of one categorical variable."""

import numpy as np
from scipy.special import expit

from skcrbm.energies._rbm import RBMEnergy
from skcrbm.utils.categorical import one_against_rest


class OneHotRBMEnergy(RBMEnergy):
    """An RBM restricted to visible vectors with exactly one unit on.

    With V = K visible units, unit k stands for class k and
    ``p(k) ∝ exp(b_k + sum_j sp(W_kj + c_j))``: the classification RBM [1]_, for which
    every query is exact and cheap. Parameters and attributes as `RBMEnergy`. A visible unit
    that is held on fixes the class, one that is held off excludes its class.

    References
    ----------
    .. [1] Larochelle and Bengio (2008). Classification using discriminative restricted
       Boltzmann machines. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.energies import OneHotRBMEnergy
    >>> energy = OneHotRBMEnergy(np.zeros((3, 1)), [0.0, 0.0, np.log(2)], [0.0])
    >>> np.exp(energy.class_log_weights() - np.log(4 * 2)).round(2)
    array([[0.25, 0.25, 0.5 ]])
    """

    categorical = True

    def n_enumerated(self, query="log_partition"):
        """0: all is a sum over the classes; see the base."""
        return 0

    def own_log_odds(self):
        """As of `RBMEnergy` for the hidden units; the visible ones depend on each other."""
        log_odds, influence = super().own_log_odds()
        influence[: self.n_visible] = np.inf
        return log_odds, influence

    def class_log_weights(self, hidden="marginal"):
        """``b_k + sum_j sp(W_kj + c_j)`` of each class, relu for "max"; (N, K), float64."""
        return self.log_weight_of_sets(np.eye(self.n_visible), hidden)

    def marginal_modes(self, log_odds):
        """One-hot visible units (N, K) of the most probable class."""
        return np.eye(self.n_visible, dtype=np.int8)[log_odds.argmax(axis=1)]

    def _check_evidence(self):
        held = self._held()[0]
        on = (held == 1).sum(axis=1)
        if ((on > 1) | (held == 0).all(axis=1)).any():
            raise ValueError(
                "clamp contradicts itself: of the visible units, exactly one of which is on, it "
                "holds two on or all off"
            )

    def _score(self, states):
        one = states[:, : self.n_visible].sum(axis=1) == 1
        return np.where(one, super()._score(states), -np.inf)

    def _log_weight_of(self, visible, inputs, hidden):
        one = visible.sum(axis=1) == 1
        return np.where(one, super()._log_weight_of(visible, inputs, hidden), -np.inf)

    def log_weight_of_sets(self, visible_sets, hidden="marginal"):
        """Negative free energy (N, S) of S visible states, -inf unless one unit is on."""
        weights = super().log_weight_of_sets(visible_sets, hidden)
        return np.where(visible_sets.sum(axis=1) == 1, weights, -np.inf)

    def visible_log_odds(self, visible, hidden="marginal"):
        """±inf: a unit is certain given all the others."""
        others = visible.sum(axis=1, keepdims=True) - visible
        return np.where(others == 0, np.inf, -np.inf).astype(self.dtype)

    def class_log_odds(self, log_weights):
        """Log-odds (..., K) of each class against all others, given log-weights (..., K)."""
        return one_against_rest(log_weights)

    def conditional_log_odds(self, states, block):
        """As in the base; the visible units are drawn together, given the hidden ones."""
        if not self._is_visible(block):
            return super().conditional_log_odds(states, block)
        scores = self._conditional_log_odds(states, block)
        if self.evidence is not None:
            held = self._held()[0][:, None]
            chosen = (held == 1).any(axis=2, keepdims=True)
            scores = np.where((held == 0) | (chosen & (held != 1)), -np.inf, scores)
        return self.class_log_odds(scores)

    def draw(self, log_odds, u, block):
        """Draw the variables of a block; a class by the first uniform number of its chain."""
        if not self._is_visible(block):
            return super().draw(log_odds, u, block)
        mass = expit(log_odds).cumsum(axis=2)
        u = np.broadcast_to(u, log_odds.shape)[..., :1]
        index = (u * mass[..., -1:] > mass[..., :-1]).sum(axis=2)
        return np.eye(self.n_visible, dtype=bool)[index]

    def _is_visible(self, block):
        return block.start == 0 and block.stop == self.n_visible
