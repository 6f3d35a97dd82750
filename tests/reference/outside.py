"""An extension of skcrbm in a separate package: an energy, a method, and a solver for both."""

import numpy as np

from skcrbm.energies import BaseEnergy
from skcrbm.inference import IterativeMethod, register_method, register_solver


class TripleEnergy(BaseEnergy):
    """``-E(s) = f' s + sum_t w_t s_i s_j s_k`` over triples t = (i, j, k) of variables."""

    def __init__(self, triples, weights, field):
        self.triples = np.asarray(triples)  # (T, 3)
        self.weights = np.asarray(weights)  # (T,)
        self.field = np.atleast_2d(field)  # (N, n)

    @property
    def fields(self):
        return (self.field,)

    @property
    def n_variables(self):
        return self.field.shape[1]

    @property
    def statistic_shapes(self):
        return (self.weights.shape,)

    def _with_fields(self, field):
        return self._copy_with(field=np.asarray(field, self.dtype))

    def scaled(self, beta):
        return self._copy_with(weights=self.weights * beta)

    def _score(self, states):
        states = np.asarray(states, np.float64)
        return (states * self.field).sum(1) + states[:, self.triples].prod(2) @ self.weights

    def sum_statistics(self, means, weight):
        return (weight @ means[:, self.triples].prod(2),)


class GreedyFlips(IterativeMethod):
    """Flip the variable that raises the score most, until no flip raises it."""

    name = "greedy_flips"
    answers = frozenset({"map"})
    default_returns = ("map",)

    def __init__(self, max_iter=None):
        self.max_iter = max_iter


def solve_greedy_flips(method, energy, query):
    """Solve any energy without hidden variables, by `visible_log_odds`, which all energies have."""
    state = np.zeros((energy.n_models, energy.n_variables))
    if energy.evidence is not None:
        state = np.nan_to_num(energy.evidence)
    converged = np.zeros(energy.n_models, bool)
    n_iter = np.zeros(energy.n_models, int)
    for _ in range(method.iterations):
        gain = np.where(state == 1, -1, 1) * energy.visible_log_odds(state)
        best = gain.argmax(axis=1)
        rows = np.flatnonzero(gain[np.arange(len(gain)), best] > 0)
        converged[np.setdiff1d(np.arange(len(gain)), rows)] = True
        if len(rows) == 0:
            break
        state[rows, best[rows]] = 1 - state[rows, best[rows]]
        n_iter[rows] += 1
    return {"assignment": state.astype(np.int8), "n_iter": n_iter, "converged": converged}


def register():
    """Register both, so that `infer` treats them like built-ins."""
    register_method("greedy_flips", "reference.outside:GreedyFlips")
    register_solver("greedy_flips", "TripleEnergy", "reference.outside:solve_greedy_flips")
    register_solver("greedy_flips", "IsingEnergy", "reference.outside:solve_greedy_flips")
