"""Exact answers by enumeration, for parameters of any size: scores are integers.

All floating point numbers are integers times a power of two. So scores of states are sums
without rounding, whatever cancels, and only their differences become floating point numbers.
"""

import numpy as np

from reference.states import all_states
from skcrbm.energies import (
    FactorGraphEnergy,
    IsingEnergy,
    LayeredEnergy,
    OneHotRBMEnergy,
    OrFactors,
    RBMEnergy,
    TableFactors,
)

# Numbers are kept as multiples of 2^-120.
_SCALE = 2**120


def _integers(values):
    """Return floats times 2^120 as Python integers, rounded towards 0; 0 for -inf."""
    finite = np.where(np.isfinite(values), values, 0.0).astype(float)
    found = [int(x) * _SCALE if abs(x) > 2.0**60 else int(x * _SCALE) for x in finite.ravel()]
    return np.array([*found, None], object)[:-1].reshape(finite.shape)


def _log_sum_exp(values):
    high = values.max(initial=-np.inf)
    return high if high == -np.inf else high + np.log(np.exp(values - high).sum())


class IntegerScores:
    """All states of one model that agree with its evidence, and answers from their scores.

    Attributes
    ----------
    states : ndarray (K, n) of int
        States of positive weight.
    scores : ndarray (K,) of int (object)
        Scores of the states, times 2^120.
    log_z : float
    """

    def __init__(self, energy, n):
        states = all_states(energy.n_variables)
        scores, possible = _scores(energy, n, states)
        if energy.evidence is not None:
            held = energy.evidence[n]
            possible &= (np.isnan(held) | (states == held)).all(axis=1)
        self.n_visible = energy.n_visible
        self.states, self.scores = states[possible], scores[possible]
        if len(self.scores) == 0:
            return
        self.top = self.scores.max()
        self.below = self._difference(self.scores, self.top)
        self.best_score = self.top / _SCALE
        self.excess = _log_sum_exp(self.below)
        self.log_z = self.best_score + self.excess
        self.probability = np.exp(self.below - self.excess)

    @staticmethod
    def _difference(scores, top):
        return np.array([(score - top) / _SCALE for score in scores], float)

    def below_best(self, state):
        """How far the score of a state is below the best one's; inf if it cannot be."""
        place = np.flatnonzero((self.states == state).all(axis=1))
        return -self.below[place[0]] if len(place) else np.inf

    def marginals(self):
        return np.clip(self.probability @ self.states, 0, 1)

    def log_odds(self):
        """Return the log-odds of all variables, ±inf if one value is impossible."""
        found = np.empty(self.states.shape[1])
        for i, on in enumerate(self.states.T == 1):
            if on.all() or not on.any():
                found[i] = np.inf if on.all() else -np.inf
                continue
            one, zero = self.scores[on], self.scores[~on]
            high, low = one.max(), zero.max()
            found[i] = (high - low) / _SCALE
            found[i] += _log_sum_exp(self._difference(one, high))
            found[i] -= _log_sum_exp(self._difference(zero, low))
        return found

    @property
    def visible_excess(self):
        """How far the best log-weight of a visible state is above the best score."""
        return max(self._visible_weights().values())

    def visible_below_best(self, visible):
        """How far the log-weight of a visible state, hidden ones summed out, is below the best."""
        number = int(visible @ (1 << np.arange(self.n_visible)))
        return self.visible_excess - self._visible_weights().get(number, -np.inf)

    def _visible_weights(self):
        """Log-weights of the visible states by their number, relative to the best score."""
        groups = self.states[:, : self.n_visible] @ (1 << np.arange(self.n_visible))
        return {g: _log_sum_exp(self.below[groups == g]) for g in np.unique(groups)}


def _scores(energy, n, states):
    """Scores (K,) as integers, and which states are of positive weight."""
    possible = np.ones(len(states), bool)
    if isinstance(energy, RBMEnergy):
        v = energy.n_visible
        total = _pairs(states[:, :v], states[:, v:], _integers(energy.weights))
        for part, field in (
            (states[:, :v], energy.visible_bias),
            (states[:, v:], energy.hidden_bias),
        ):
            total = total + part.astype(object) @ _integers(field[n])
        if isinstance(energy, OneHotRBMEnergy):
            possible = states[:, :v].sum(axis=1) == 1
        return total, possible
    if isinstance(energy, IsingEnergy):
        y = 2 * states - 1
        total = y.astype(object) @ _integers(energy.field[n])
        if energy.couplings_are_sparse:
            edges, strengths = energy.edges, energy.edge_coupling
        else:
            edges = np.argwhere(np.triu(energy.coupling, 1))
            strengths = energy.coupling[tuple(edges.T)]
        for (i, k), strength in zip(edges, _integers(strengths), strict=True):
            total = total + (y[:, i] * y[:, k]).astype(object) * strength
        return total, possible
    if isinstance(energy, FactorGraphEnergy):
        return _factor_scores(energy, n, states)
    if isinstance(energy, LayeredEnergy):
        return _layered_scores(energy, n, states)
    # Others by their own score, in float64.
    scores = energy.rows(np.full(len(states), n)).score(states)
    return _integers(scores), scores > -np.inf


def _pairs(left, right, weights):
    return (left.astype(object) @ weights * right).sum(axis=1) if right.shape[1] else 0


def _layered_scores(energy, n, states):
    """Fields, the connections as matrices between units, and no two units of a node on."""
    structure, possible = energy.structure, np.ones(len(states), bool)
    total = states.astype(object) @ _integers(energy.field[n])
    layers = [states[:, units] for units in structure.unit_slices[1:]]
    for left, right, part, weights in zip(
        layers, layers[1:], structure.connections[1:], energy.weights
    ):
        matrix = part.matrix(weights)
        matrix = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
        total = total + _pairs(left, right, _integers(matrix))
    for layer, k in zip(layers, structure.n_states[1:]):
        on = layer.reshape(len(states), -1, k - 1).sum(axis=2)
        possible &= (on <= 1).all(axis=1)
    return total, possible


def _factor_scores(energy, n, states):
    total = states.astype(object) @ _integers(energy.field[n]) + _integers(energy.offset[n : n + 1])
    possible = np.ones(len(states), bool)
    for part in energy.factors:
        if isinstance(part, TableFactors):
            k = part.variables.shape[1]
            for scope, table in zip(part.variables, part.log_potentials, strict=True):
                code = states[:, scope] @ (1 << np.arange(k)[::-1])
                total = total + _integers(table.ravel())[code]
                possible &= table.ravel()[code] > -np.inf
        else:
            decide = np.any if isinstance(part, OrFactors) else np.all
            for f, output in enumerate(part.outputs):
                inputs = part.inputs[part.start[f] : part.start[f + 1]]
                possible &= decide(states[:, inputs] == 1, axis=1) == (states[:, output] == 1)
    return total, possible
