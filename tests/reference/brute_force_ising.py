"""Exact answers about a pairwise Boltzmann machine by visiting every state."""

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp


class IsingAnswers(NamedTuple):
    marginals: np.ndarray  # (L,) P(y_i = +1)
    log_odds: np.ndarray  # (L,)
    pairwise: np.ndarray  # (L, L) P(y_i = +1, y_k = +1)
    log_partition: float
    states: np.ndarray  # (K, L) of -1/+1
    scores: np.ndarray  # (K,)


def _log_sum_exp(values):
    return logsumexp(values) if len(values) else -np.inf


def brute_force_ising(coupling, field, clamp=None):
    """Enumerate one model; `clamp` (L,) with NaN = free, 0 = -1, 1 = +1."""
    coupling, field = np.asarray(coupling, float), np.asarray(field, float)
    n_labels = len(field)
    states = np.array(list(product((-1, 1), repeat=n_labels)), float).reshape(2**n_labels, n_labels)
    if clamp is not None:
        fixed = ~np.isnan(clamp)
        states = states[(states[:, fixed] == 2 * clamp[fixed] - 1).all(1)]
    scores = np.empty(len(states))
    for row, y in enumerate(states):
        scores[row] = sum(field[i] * y[i] for i in range(n_labels))
        for i in range(n_labels):
            for k in range(i + 1, n_labels):
                scores[row] += coupling[i, k] * y[i] * y[k]
    log_z = _log_sum_exp(scores)
    probability = np.exp(scores - log_z)
    on = states == 1
    log_odds = [
        _log_sum_exp(scores[on[:, i]]) - _log_sum_exp(scores[~on[:, i]]) for i in range(n_labels)
    ]
    marginals = np.array([probability[on[:, i]].sum() for i in range(n_labels)])
    pairwise = np.array(
        [[probability[on[:, i] & on[:, k]].sum() for k in range(n_labels)] for i in range(n_labels)]
    ).reshape(n_labels, n_labels)
    return IsingAnswers(marginals, np.array(log_odds), pairwise, log_z, states, scores)
