"""Iterated conditional modes: coordinate ascent on the joint score."""

from numbers import Integral
from typing import ClassVar

import numpy as np
from scipy.special import expit
from sklearn.utils._param_validation import Interval

from skcrbm.energies import RBMEnergy
from skcrbm.inference._base import IterativeMethod, empty_result
from skcrbm.inference._restarts import best_of_restarts
from skcrbm.utils._parallel import one_blas_thread


class ICM(IterativeMethod):
    """Joint MAP by iterated conditional modes (Besag 1986).

    One iteration replaces all visible units by their best values given the hidden ones, then
    the hidden ones given the visible ones: on an RBM each half is one exact coordinate step,
    so the score never goes down. Ends at a state that no change of one layer improves. The
    log-odds are those of each unit given the other layer.

    Parameters
    ----------
    max_iter : int or None, default=None
        Iterations at most. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    n_restarts : int, default=1
        Number of runs: the first starts from the biases, the others from random states.
        Each model keeps the best state.
    random_state : int, RandomState or None, default=None
        Draws the random starts.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import ICM, infer
    >>> energy = RBMEnergy([[2.0], [-3.0]], [-1.0, 1.0], [0.5])
    >>> infer(energy, ICM(n_restarts=5, random_state=0)).assignment
    array([[1, 0, 1]], dtype=int8)
    """

    name: ClassVar = "icm"
    answers: ClassVar = frozenset({"map"})
    default_returns: ClassVar = ("map",)
    accepts: ClassVar = frozenset({"init"})
    solvers: ClassVar = {RBMEnergy: "_solve_rbm"}
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "n_restarts": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, max_iter=None, n_restarts=1, random_state=None):
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.random_state = random_state

    def _solve_rbm(self, energy, query):
        def solve(start):
            if start is None and query.start is None:
                return self._ascend(energy, query, expit(energy.visible_bias))
            log_odds = query.start.log_odds if start is None else start
            return self._ascend(energy, query, log_odds[:, : energy.n_visible] > 0)

        with one_blas_thread():
            return best_of_restarts(solve, energy, self.n_restarts, self.random_state)

    def _ascend(self, energy, query, visible):
        """Run all models from visible states or marginals (N, V); each stops on its own."""
        weights, dtype = energy.weights, energy.dtype
        fields = empty_result(energy, query)
        fields["converged"][:] = False
        active = np.arange(energy.n_models)
        b, c = energy.fields
        v = visible.astype(dtype)
        h = (c + v @ weights > 0).astype(dtype)
        for iteration in range(self.iterations):
            theta_v = b + h @ weights.T
            new_v = (theta_v > 0).astype(dtype)
            theta_h = c + new_v @ weights
            new_h = (theta_h > 0).astype(dtype)
            fields["log_odds"][active] = np.hstack([theta_v, theta_h])
            fields["assignment"][active] = np.hstack([new_v, new_h])
            fields["n_iter"][active] = iteration + 1
            moving = (new_v != v).any(1) | (new_h != h).any(1)
            fields["converged"][active[~moving]] = True
            active, b, c = active[moving], b[moving], c[moving]
            v, h = new_v[moving], new_h[moving]
            if not len(active):
                break
        return fields, energy.score(fields["assignment"])
