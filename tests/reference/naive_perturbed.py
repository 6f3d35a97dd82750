"""Perturb-and-max-product by plain loops: messages of tables, and maxima over all states."""

from itertools import product

import numpy as np

from reference.naive_factor_graph import factor_tables
from skcrbm.inference import logistic_noise
from skcrbm.utils.random import random_key

FAR = 1e5


def naive_messages(energy, noise, n_iter, damping, evidence=None):
    """Log-odds of all messages factor -> variable, and of beliefs, of a `FactorGraphEnergy`.

    Max-product over the joint table of each factor, all messages from the old ones, of the first
    model with noise (n,) on its field; (E,) in the order of the factors as given, and (n,).
    """
    field = energy.field[0].astype(float) + noise
    factors = factor_tables(energy)
    messages = [np.zeros(len(scope)) for scope, _ in factors]

    def beliefs():
        total = field.copy()
        for (scope, _), message in zip(factors, messages, strict=True):
            for v, m in zip(scope, message, strict=True):
                total[v] += m
        return total

    for _ in range(n_iter):
        belief, new = beliefs(), []
        for (scope, table), message in zip(factors, messages, strict=True):
            cavity = belief[scope] - message
            if evidence is not None:
                held = evidence[scope]
                cavity = np.where(np.isnan(held), cavity, np.where(held == 1, FAR, -FAR))
            sent = np.empty(len(scope))
            for j in range(len(scope)):
                best = [-np.inf, -np.inf]
                for state in product((0, 1), repeat=len(scope)):
                    others = sum(c * s for i, (c, s) in enumerate(zip(cavity, state)) if i != j)
                    best[state[j]] = max(best[state[j]], table[state] + others)
                sent[j] = best[1] - best[0]
            new.append(damping * message + (1 - damping) * sent)
        messages = new
    return np.concatenate(messages), beliefs()


def all_states(n):
    return np.array(list(product((0, 1), repeat=n)))


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
