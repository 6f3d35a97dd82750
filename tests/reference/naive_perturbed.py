"""Perturb-and-max-product by plain loops: messages, and maxima over all states."""

from itertools import product

import numpy as np

from reference.naive_factor_graph import factor_tables
from reference.states import all_states
from skcrbm.inference.random_numbers import logistic_noise, random_key

FAR = 1e5


def relays_of(factors):
    """Map each output variable to its OR or AND factor: at most 1 for a variable, no cycles.

    Tables with impossible states are taken for OR or AND: their last variable is the output.
    """
    return {scope[-1]: f for f, (scope, table) in enumerate(factors) if is_logic(table)}


def is_logic(table):
    """Whether the last variable is a function of the others."""
    return bool(((table > -np.inf).sum(axis=-1) == 1).all() and set(table.flat) == {0.0, -np.inf})


def sent_to(table, cavity, j):
    """Log-odds of variable j in a table, the best of the states of the others."""
    best = [-np.inf, -np.inf]
    for state in product((0, 1), repeat=table.ndim):
        others = sum(c * s for i, (c, s) in enumerate(zip(cavity, state)) if i != j)
        best[state[j]] = max(best[state[j]], table[state] + others)
    return best[1] - best[0]


def naive_messages(energy, noise, n_iter, damping, evidence=None):
    """Log-odds of all messages factor -> variable, and of beliefs, of a `FactorGraphEnergy`.

    Max-product over the joint table of each factor, for the first model with noise (n,) on its
    field. In a sweep the OR and AND factors first send to their outputs, in the order from inputs
    to outputs; then they send to their inputs, in the opposite order. All other variables keep
    the beliefs of the sweep before. Returns messages (E,) in the order of the given factors, and
    beliefs (n,).
    """
    field = energy.field[0].astype(float) + noise
    factors = factor_tables(energy)
    old = [np.zeros(len(scope)) for scope, _ in factors]
    relays = relays_of(factors)

    def depth(f):
        return 1 + max((depth(relays[v]) for v in factors[f][0][:-1] if v in relays), default=0)

    gates = sorted(relays.values(), key=depth)

    def cavity_of(v, f, heard):
        """Log-odds that v sends to f, of the messages (f, j) that it has `heard`."""
        if evidence is not None and not np.isnan(evidence[v]):
            return FAR if evidence[v] == 1 else -FAR
        return field[v] + sum(
            heard(g)[scope.index(v)]
            for g, (scope, _) in enumerate(factors)
            if v in scope and g != f
        )

    for _ in range(n_iter):
        new = [message.copy() for message in old]
        up = [message.copy() for message in old]
        for f in gates:
            scope, table = factors[f]
            cavity = [cavity_of(v, f, up.__getitem__) for v in scope]
            up[f][-1] = new[f][-1] = sent_to(table, cavity, len(scope) - 1)
        tables = [f for f in range(len(factors)) if f not in gates]
        for f in [*tables, *reversed(gates)]:
            scope, table = factors[f]
            cavity = [cavity_of(v, f, up.__getitem__) for v in scope]
            if f in gates:
                cavity[-1] = cavity_of(scope[-1], f, new.__getitem__)
            for j, v in enumerate(scope):
                if f in gates and j == len(scope) - 1:
                    continue
                keep = 0.0 if f in gates and v in relays else damping
                new[f][j] = keep * old[f][j] + (1 - keep) * sent_to(table, cavity, j)
        old = new
    belief = field.copy()
    for (scope, _), message in zip(factors, old, strict=True):
        belief[scope] += message
    return np.concatenate(old), belief


def distribution_of_maxima(energy, n_draws, noisy, seed=0):
    """Which states are the best of all, with independent noise, in the first model.

    Evidence of the energy counts. `noisy` (n,) is 1 for the variables that get noise, else 0.

    Returns
    -------
    share : ndarray (2^n,), of the draws in which a state is the best
    mean, error : float, of the best perturbed score
    probability : ndarray (2^n,), of the states themselves
    """
    rng = np.random.default_rng(seed)
    states = all_states(energy.n_variables)
    scores = energy.rows([0] * len(states)).score(states)
    possible = np.flatnonzero(scores > -np.inf)
    share, best = np.zeros(len(states)), np.empty(n_draws)
    for first in range(0, n_draws, 10000):
        noise = rng.logistic(size=(10000, energy.n_variables)) * noisy
        perturbed = scores[possible] + noise @ (states[possible] - 0.5).T
        best[first : first + 10000] = perturbed.max(axis=1)
        share += np.bincount(possible[perturbed.argmax(axis=1)], minlength=len(states)) / n_draws
    weight = np.exp(scores - scores.max())
    return share, best.mean(), best.std() / np.sqrt(n_draws), weight / weight.sum()


def shares(samples):
    """Share (2^n,) of each state among samples (K, n), in the order of `all_states`."""
    codes = samples @ (1 << np.arange(samples.shape[1])[::-1])
    return np.bincount(codes, minlength=2 ** samples.shape[1]) / len(samples)


def first_noise(n_samples, n, seed):
    """Noise of the samples of one model in a first call with this seed."""
    return logistic_noise(random_key(seed), np.arange(n_samples), 0, n)
