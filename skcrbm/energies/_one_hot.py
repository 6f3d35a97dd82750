"""RBM whose visible units are the states of one categorical variable."""

import numpy as np

from skcrbm.energies._rbm import RBMEnergy


class OneHotRBMEnergy(RBMEnergy):
    """An RBM restricted to visible vectors with exactly one unit on.

    With V = K visible units, unit k stands for class k and
    ``p(k) ∝ exp(b_k + sum_j sp(W_kj + c_j))``: the classification RBM [1]_, for which
    every query is exact and cheap. Parameters and attributes as `RBMEnergy`.

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

    def class_log_weights(self, hidden="marginal"):
        """``b_k + sum_j sp(W_kj + c_j)`` of each class, relu for "max"; (N, K), float64."""
        return self.log_weight_of_sets(np.eye(self.n_visible), hidden)

    def marginal_modes(self, log_odds):
        """One-hot visible units (N, K) of the most probable class."""
        return np.eye(self.n_visible, dtype=np.int8)[log_odds.argmax(axis=1)]

    def condition(self, clamp):
        """Refuse: a class is known or it is not, and a known class needs no inference."""
        raise ValueError("clamp is not supported for an RBM with one categorical visible group")
