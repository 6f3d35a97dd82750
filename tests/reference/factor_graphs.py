"""Factor graphs by plain loops over factors and states."""

from functools import lru_cache

import numpy as np

from skcrbm.energies import AndFactors, FactorGraphEnergy, OrFactors, TableFactors


@lru_cache(maxsize=1)
def factors_of(energy):
    """The factors, which an energy makes anew at each call."""
    return energy.factors


def naive_score(energy, n, state):
    """-E of one 0/1 state of model n, from `energy.factors` alone."""
    score = sum(state[i] * float(energy.field[n, i]) for i in range(len(state)))
    for part in factors_of(energy):
        if isinstance(part, TableFactors):
            for scope, table in zip(part.variables, part.log_potentials, strict=True):
                entry = table.reshape((2,) * len(scope))
                score += float(entry[tuple(int(state[i]) for i in scope)])
        else:
            decide = any if isinstance(part, OrFactors) else all
            for f, output in enumerate(part.outputs):
                inputs = part.inputs[part.start[f] : part.start[f + 1]]
                if state[output] != decide(state[i] for i in inputs):
                    return -np.inf
    return score


def naive_statistics(energy, state):
    """Products of units and their complements, entry by entry; for means, too."""
    found = []
    for part in factors_of(energy):
        if isinstance(part, TableFactors):
            for scope in part.variables:
                entry = np.ones(1)
                for i in scope:
                    entry = np.outer(entry, [1 - state[i], state[i]]).ravel()
                found.append(entry)
    return (np.concatenate(found),)


def random_graph(seed, n=9, n_models=3, per_arity=2, zeros=0.1, logic=True, dtype=np.float64):
    """Tables of one to six of n variables, some entries of weight 0, and ORs and ANDs."""
    rng = np.random.default_rng(seed)
    factors = []
    for k in (3, 1, 6, 2, 5, 4):
        scopes = np.array([rng.permutation(n)[:k] for _ in range(per_arity)])
        tables = rng.normal(0, 1.5, (per_arity, 2**k))
        if k > 2:
            tables[rng.random(tables.shape) < zeros] = -np.inf
        factors.append(TableFactors(scopes, tables.astype(dtype)))
    if logic:
        one, two, three = rng.permutation(n), rng.permutation(n), rng.permutation(n)
        factors.insert(2, OrFactors([one[:2], two[:4]], [one[2], two[4]]))
        factors.append(AndFactors([three[:3]], [three[3]]))
    return FactorGraphEnergy(factors, rng.normal(0, 1, (n_models, n)).astype(dtype))


def all_states(n):
    """0/1 states (2^n, n)."""
    return (np.arange(2**n)[:, None] >> np.arange(n)) & 1


def all_scores(energy, n):
    """-E (2^n,) of all states of model n, factor by factor."""
    states = all_states(energy.n_variables)
    scores = states @ energy.field[n].astype(np.float64)
    for part in factors_of(energy):
        if isinstance(part, TableFactors):
            for scope, table in zip(part.variables, part.log_potentials, strict=True):
                scores += table.reshape((2,) * len(scope))[tuple(states[:, scope].T)]
        else:
            decide = np.any if isinstance(part, OrFactors) else np.all
            for f, output in enumerate(part.outputs):
                inputs = part.inputs[part.start[f] : part.start[f + 1]]
                right = decide(states[:, inputs] == 1, axis=1) == (states[:, output] == 1)
                scores[~right] = -np.inf
    return scores


class Enumerated:
    """One model's states, log-probabilities and log Z, by `all_scores`."""

    def __init__(self, energy, n=0):
        self.energy = energy
        self.states = all_states(energy.n_variables)
        self.score = all_scores(energy, n)
        if energy.evidence is not None:
            held = energy.evidence[n]
            self.score[~(np.isnan(held) | (self.states == held)).all(axis=1)] = -np.inf
        self.best = self.score.max()
        self.log_z = self.best + np.log(np.exp(self.score - self.best).sum())
        self.probability = np.exp(self.score - self.log_z)

    def marginals(self):
        return self.probability @ self.states

    def entries(self):
        """Probabilities (n_entries,) of the entries of all tables."""
        found = []
        for part in self.energy.factors:
            if isinstance(part, TableFactors):
                k = part.variables.shape[1]
                for scope in part.variables:
                    code = self.states[:, scope] @ (1 << np.arange(k)[::-1])
                    found.append(np.bincount(code, self.probability, 2**k))
        return np.concatenate(found)
