"""Exact answers by visiting every joint state of (v, h)."""

from itertools import product
from typing import NamedTuple

import numpy as np

from reference.states import all_states


class Answers(NamedTuple):
    marginals: np.ndarray  # (V + H,)
    log_odds: np.ndarray  # (V + H,)
    pairwise: np.ndarray  # (V, H)
    log_partition: float


def _log_sum_exp(values):
    if len(values) == 0:
        return -np.inf
    high = np.max(values)
    return high + np.log(np.sum(np.exp(np.asarray(values) - high)))


def brute_force(weights, visible_bias, hidden_bias, clamp=None, one_hot=False):
    """Enumerate one RBM; `clamp` (V + H,) with NaN = free; `one_hot`: exactly one v_i is on."""
    weights = np.asarray(weights, np.float64)
    b, c = np.asarray(visible_bias, np.float64), np.asarray(hidden_bias, np.float64)
    n_visible, n_hidden = weights.shape
    n = n_visible + n_hidden
    states, scores = [], []
    for bits in product((0, 1), repeat=n):
        state = np.array(bits, dtype=np.float64)
        if clamp is not None and any(
            not np.isnan(k) and k != s for k, s in zip(clamp, state, strict=True)
        ):
            continue
        v, h = state[:n_visible], state[n_visible:]
        if one_hot and v.sum() != 1:
            continue
        states.append(state)
        scores.append(v @ weights @ h + v @ b + h @ c)
    states, scores = np.array(states).reshape(-1, n), np.array(scores)
    log_z = _log_sum_exp(scores)
    probability = np.exp(scores - log_z)
    log_odds = np.array(
        [
            _log_sum_exp(scores[states[:, r] == 1]) - _log_sum_exp(scores[states[:, r] == 0])
            for r in range(n)
        ]
    )
    v, h = states[:, :n_visible], states[:, n_visible:]
    return Answers(probability @ states, log_odds, (probability[:, None] * v).T @ h, log_z)


def best_states(weights, visible_bias, hidden_bias, clamp=None, one_hot=False):
    """All joint states (K, V + H), their scores, and log sum over h of each state's v."""
    weights = np.asarray(weights, np.float64)
    n_visible, n_hidden = weights.shape
    states = all_states(n_visible + n_hidden, float)
    states = states.reshape(-1, n_visible + n_hidden)
    if clamp is not None:
        fixed = ~np.isnan(clamp)
        states = states[(states[:, fixed] == clamp[fixed]).all(1)]
    if one_hot:
        states = states[states[:, :n_visible].sum(1) == 1]
    v, h = states[:, :n_visible], states[:, n_visible:]
    scores = v @ visible_bias + h @ hidden_bias + ((v @ weights) * h).sum(1)
    groups = v @ 2.0 ** np.arange(n_visible)
    summed = np.empty(len(states))
    for group in np.unique(groups):
        rows = groups == group
        summed[rows] = _log_sum_exp(scores[rows])
    return states, scores, summed
