"""Factor graphs of variables with any number of states, enumerated by plain loops."""

import itertools

import numpy as np

from skcrbm.energies import AndFactors, FactorGraphEnergy, OrFactors, TableFactors


def naive_score(energy, n, state):
    """-E of a state of model n, factor by factor; -inf if it contradicts the evidence."""
    score = float(energy.constant)
    for v, k in enumerate(state):
        score += float(energy.field[n, v, k])
        if energy.evidence is not None and not np.isnan(energy.evidence[n, v]):
            score += 0.0 if energy.evidence[n, v] == k else -np.inf
    for part in energy.factors:
        if isinstance(part, TableFactors):
            for scope, table in zip(part.variables, part.log_potentials, strict=True):
                score += float(table.reshape(part.shape)[tuple(state[v] for v in scope)])
            continue
        rule = any if type(part).__name__ == "OrFactors" else all
        for f, output in enumerate(part.outputs):
            inputs = part.inputs[part.start[f] : part.start[f + 1]]
            if bool(state[output]) != rule(bool(state[v]) for v in inputs):
                score = -np.inf
    return score


class Enumerated:
    """All states of model n of a factor graph with an axis of states, with their scores.

    `states` (S, n), `scores` (S,), `log_z`, `probability` (S,), `marginals` (n, K),
    `entries` (n_entries,), `best` (the largest score) and `max_marginals` (n, K), the largest score
    of a state with each value.
    """

    def __init__(self, energy, n=0):
        counts = energy.n_states.tolist()
        self.states = np.array(list(itertools.product(*map(range, counts))), int)
        self.states = self.states.reshape(-1, len(counts))
        self.scores = np.array([naive_score(energy, n, state) for state in self.states])
        self.best = self.scores.max()
        weight = np.exp(self.scores - self.best)
        self.log_z = self.best + np.log(weight.sum())
        self.probability = weight / weight.sum()
        shape = len(counts), energy.n_levels
        self.marginals, self.max_marginals = np.zeros(shape), np.full(shape, -np.inf)
        for v, k in enumerate(counts):
            for value in range(k):
                here = self.states[:, v] == value
                self.marginals[v, value] = self.probability[here].sum()
                self.max_marginals[v, value] = self.scores[here].max()
        parts = []
        for part in energy.factors:
            if isinstance(part, TableFactors):
                for scope in part.variables:
                    table = np.zeros(part.shape)
                    np.add.at(table, tuple(self.states[:, scope].T), self.probability)
                    parts.append(table.ravel())
        self.entries = np.concatenate([np.empty(0), *parts])


def random_graph(seed, n_states=(2, 3, 4, 1, 2), scopes=None, n_models=2, scale=1.0, zeros=0.0):
    """A graph of several numbers of states, with normal tables; a share `zeros` of them is -inf.

    The default scopes hold a cycle, a table of three variables, an equal and a contained scope.
    """
    rng = np.random.default_rng(seed)
    if scopes is None:
        scopes = [(0, 1), (4, 1), (2, 1, 0), (3,), (0, 2), (1, 0), (4, 0)]
    tables = []
    for scope in scopes:
        table = rng.normal(0, scale, [n_states[v] for v in scope])
        table[rng.random(table.shape) < zeros] = -np.inf
        tables.append(table)
    field = rng.normal(0, 1, (n_models, len(n_states), max(n_states)))
    return FactorGraphEnergy.from_tables(scopes, tables, field, n_states=list(n_states))


def with_logic(seed, zeros=0.0):
    """A graph of several numbers of states, with an OR and an AND beside its tables."""
    base = random_graph(seed, (2, 3, 2, 2, 2), [(0, 1), (1, 2), (1,), (4, 1)], zeros=zeros)
    logic = [OrFactors([[0, 2]], [3]), AndFactors([[0, 3]], [4])]
    return FactorGraphEnergy([*base.factors, *logic], base.field)
