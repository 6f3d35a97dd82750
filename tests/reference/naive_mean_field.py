"""Naive mean field on one RBM, unit by unit."""

from typing import NamedTuple

import numpy as np


class MeanFieldBeliefs(NamedTuple):
    log_odds: np.ndarray  # (V + H,)
    log_partition: float  # lower bound
    trace: np.ndarray  # largest change of a belief


def _sigma(x):
    return np.exp(-np.logaddexp(0.0, -x))


def _entropy(q):
    return -sum(p * np.log(p) for p in (q, 1 - q) if p > 0)


def naive_mean_field(weights, visible_bias, hidden_bias, n_iter):
    w = np.asarray(weights, np.float64)
    b, c = np.asarray(visible_bias, np.float64), np.asarray(hidden_bias, np.float64)
    n_visible, n_hidden = w.shape
    theta_v, theta_h = b.copy(), c.copy()
    trace = []
    for _ in range(n_iter):
        old = _sigma(np.concatenate([theta_v, theta_h]))
        q_v = _sigma(theta_v)
        for j in range(n_hidden):
            theta_h[j] = c[j] + sum(w[i, j] * q_v[i] for i in range(n_visible))
        q_h = _sigma(theta_h)
        for i in range(n_visible):
            theta_v[i] = b[i] + sum(w[i, j] * q_h[j] for j in range(n_hidden))
        trace.append(np.abs(_sigma(np.concatenate([theta_v, theta_h])) - old).max(initial=0.0))
    q_v, q_h = _sigma(theta_v), _sigma(theta_h)
    bound = q_v @ b + q_h @ c + q_v @ w @ q_h
    bound += sum(_entropy(q) for q in q_v) + sum(_entropy(q) for q in q_h)
    return MeanFieldBeliefs(np.concatenate([theta_v, theta_h]), bound, np.array(trace))
