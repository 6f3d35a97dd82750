"""Naive mean field and message passing on one pairwise Boltzmann machine, label by label."""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq


class IsingBeliefs(NamedTuple):
    log_odds: np.ndarray  # (L,)
    pairwise: np.ndarray  # (L, L)
    log_partition: float
    trace: np.ndarray  # largest change of a belief, per iteration


def _sigma(x):
    return np.exp(-np.logaddexp(0.0, -x))


def _entropy(probabilities):
    return -sum(p * np.log(p) for p in probabilities if p > 0)


def naive_mean_field_ising(coupling, field, n_iter):
    s, f = np.asarray(coupling, float), np.asarray(field, float)
    n = len(f)
    theta = 2 * f
    trace = []
    for _ in range(n_iter):
        old = _sigma(theta)
        for i in range(n):
            theta[i] = 2 * f[i] + 2 * sum(s[i, k] * np.tanh(theta[k] / 2) for k in range(n))
        trace.append(np.abs(_sigma(theta) - old).max(initial=0.0))
    q, m = _sigma(theta), np.tanh(theta / 2)
    bound = f @ m + m @ s @ m / 2 + sum(_entropy((p, 1 - p)) for p in q)
    pairwise = np.outer(q, q)
    pairwise[np.diag_indices(n)] = q
    return IsingBeliefs(theta, pairwise, bound, np.array(trace))


def _both_on(q, r, log_ratio):
    """P(both on) given P(on) of each and the log odds-ratio of the four joint states."""

    def excess(p):
        joint = np.array([p, 1 - q - r + p, q - p, r - p])
        return np.log(joint[:2]).sum() - np.log(joint[2:]).sum() - log_ratio

    low, high = max(0.0, q + r - 1), min(q, r)
    margin = 1e-13 * (high - low)
    return brentq(excess, low + margin, high - margin, xtol=1e-15)


def naive_messages_ising(coupling, field, rho, n_iter, damping=0.0, pairs=True):
    """Messages in the order of the labels; rho (L, L) is 1 for sum-product.

    Without `pairs` there are no pair beliefs, whose equation defeats plain arithmetic on
    strong models, and no log Z.
    """
    s, f = np.asarray(coupling, float), np.asarray(field, float)
    n = len(f)
    message = np.zeros((n, n))  # [i, k]: log-odds of the message k -> i
    theta = 2 * f
    trace = []
    for _ in range(n_iter):
        change = 0.0
        for i in range(n):
            new = 2 * f[i] + sum(rho[i, k] * message[i, k] for k in range(n))
            change = max(change, abs(_sigma(new) - _sigma(theta[i])))
            theta[i] = new
            for k in range(n):
                w, x = 2 * s[i, k] / rho[i, k], new - message[i, k]
                sent = np.logaddexp(w + x, 0.0) - np.logaddexp(x, w)
                message[k, i] = damping * message[k, i] + (1 - damping) * sent
        trace.append(change)
    for i in range(n):
        theta[i] = 2 * f[i] + sum(rho[i, k] * message[i, k] for k in range(n))
    if not pairs:
        return IsingBeliefs(theta, None, None, np.array(trace))
    q = _sigma(theta)
    pairwise = np.diag(q)
    log_z = f @ (2 * q - 1) + sum(_entropy((p, 1 - p)) for p in q)
    for i, k in combinations(range(n), 2):
        p = _both_on(q[i], q[k], 4 * s[i, k] / rho[i, k])
        pairwise[i, k] = pairwise[k, i] = p
        joint = (p, q[i] - p, q[k] - p, 1 - q[i] - q[k] + p)
        log_z += s[i, k] * (joint[0] + joint[3] - joint[1] - joint[2])
        single = _entropy((q[i], 1 - q[i])) + _entropy((q[k], 1 - q[k]))
        log_z += rho[i, k] * (_entropy(joint) - single)
    return IsingBeliefs(theta, pairwise, log_z, np.array(trace))


def naive_edge_appearance(coupling):
    """Share of the spanning trees of a connected graph that hold each edge."""
    n = len(coupling)
    edges = [(i, k) for i, k in combinations(range(n), 2) if coupling[i, k] != 0]
    count, held = 0, np.zeros((n, n))
    for tree in combinations(edges, n - 1):
        root = list(range(n))
        for i, k in tree:
            a, b = root[i], root[k]
            root = [a if r == b else r for r in root]
        if len(set(root)) == 1:
            count += 1
            for i, k in tree:
                held[i, k] += 1
                held[k, i] += 1
    return np.where(coupling != 0, held / count, 1.0)
