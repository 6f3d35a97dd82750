"""Second-order chains of classes: forward-backward and best paths.

The state of a position is a pair (a, b): the class a of the previous position, and its own class b.
For the first position, the previous class a is 0. Chains of different lengths lie one after the
other, as in `chains.py`. The log-weight of three neighbouring classes is triples[a, b, c]. A
position takes K^3 operations. A first-order chain with the K^2 states (a, b) in `chains.py` would
take K^4, because it also visits pairs of states (a, b), (c, d) with different b and c.
"""

import math

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import MARGINAL_ERROR, dot_rows, fill, keep_larger, times_row


@jit
def _total(matrix):
    total = 0.0
    for a in range(matrix.shape[0]):
        for b in range(matrix.shape[1]):
            total += matrix[a, b]
    return total


@jit
def _scale(matrix, factor):
    for a in range(matrix.shape[0]):
        for b in range(matrix.shape[1]):
            matrix[a, b] *= factor


@jit
def _product(matrix, other):
    total = 0.0
    for a in range(matrix.shape[0]):
        total += dot_rows(matrix[a], other[a])
    return total


@jit
def _forward(begin, end, weights, factors, first, last, alpha):
    """Write the filtered probabilities of a chain to `alpha` (T, K, K), and return its log Z.

    alpha[t] is the distribution of the state at t, given the weights up to t. The chain has the
    positions `begin` to ``end - 1``. `weights` (T, K, K) are divided by the normalisers of the
    positions, in place. log Z is NaN if numbers underflow, or if no path is possible.
    """
    k = first.shape[0]
    log_z = 0.0
    for t in range(begin, end):
        for b in range(k):
            fill(alpha[t, b], 0.0)
        if t == begin:
            for a in range(k):
                times_row(1.0, first[a], alpha[t, a])
        else:
            for a in range(k):
                for b in range(k):
                    if alpha[t - 1, a, b] != 0:
                        times_row(alpha[t - 1, a, b], factors[a, b], alpha[t, b])
        for b in range(k):
            for c in range(k):
                alpha[t, b, c] *= weights[t, b, c]
        total = _total(alpha[t])
        if not 0 < total < math.inf:
            return math.nan
        _scale(alpha[t], 1 / total)
        _scale(weights[t], 1 / total)
        log_z += math.log(total)
    total = _product(alpha[end - 1], last)
    return log_z + math.log(total) if total > 0 else math.nan


@jit
def forward_backward(start, weights, factors, first, last, weight, marginals, sums, log_z):
    """Compute marginals and log Z of n chains with T positions in total and K classes.

    The probabilities are scaled at each position, to avoid underflow.

    Parameters
    ----------
    start : ndarray of int64 (n + 1,)
        Chain c has the positions ``start[c]`` to ``start[c + 1] - 1``.
    weights : ndarray of float64 (T, K, K)
        exp of the log-weights of the states, which are overwritten.
    factors : ndarray (K, K, K)
        exp of the log-weights of three neighbouring classes.
    first, last : ndarray (K, K)
        exp of the log-weights of the first and of the last state.
    weight : ndarray (n,)
        Weight of each chain, by which its probabilities in `marginals` and `sums` are multiplied.
    marginals : ndarray (T, K, K)
        Filled with the probability of each state times the weight of its chain.
    sums : ndarray (K, K, K)
        The weighted probabilities of three classes, divided by `factors`, are added to it.
    log_z : ndarray (n,)
        Filled with log Z. If numbers underflow, log Z is NaN; the marginals of the chain are then
        invalid, and the chain has added nothing to `sums`.
    """
    k = first.shape[0]
    beta, v = np.empty((k, k)), np.empty((k, k))
    own = np.empty((k, k, k))
    for chain in range(start.shape[0] - 1):
        begin, end = start[chain], start[chain + 1]
        log_z[chain] = _forward(begin, end, weights, factors, first, last, marginals)
        if math.isnan(log_z[chain]):
            continue
        for a in range(k):
            for b in range(k):
                fill(own[a, b], 0.0)
        normaliser = 1 / _product(marginals[end - 1], last)
        for a in range(k):
            for b in range(k):
                beta[a, b] = last[a, b] * normaliser
        valid = True
        for t in range(end - 1, begin - 1, -1):
            alpha = marginals[t]
            if t < end - 1:
                for b in range(k):
                    for c in range(k):
                        v[b, c] = weights[t + 1, b, c] * beta[b, c]
                for a in range(k):
                    for b in range(k):
                        beta[a, b] = dot_rows(factors[a, b], v[b])
                        if alpha[a, b] != 0:
                            times_row(alpha[a, b], v[b], own[a, b])
            for a in range(k):
                for b in range(k):
                    alpha[a, b] *= beta[a, b]
            valid &= abs(_total(alpha) - 1) < MARGINAL_ERROR  # False if a number is infinite or NaN
            _scale(alpha, weight[chain])
        if not valid:
            log_z[chain] = math.nan
            continue
        for a in range(k):
            for b in range(k):
                times_row(weight[chain], own[a, b], sums[a, b])


@jit
def best_paths(start, scores, triples, first, last, path, value):
    """Find the path with the largest log-weight in each chain.

    If paths are equally good, lower classes are preferred.

    `scores` (T, K, K), `triples` (K, K, K), `first` and `last` (K, K) are log-weights. The states
    are written to `path` (T,) as a * K + b, and the log-weights to `value` (n,). If no path is
    possible, the log-weight is -inf.
    """
    k = first.shape[0]
    longest = 0
    for chain in range(start.shape[0] - 1):
        longest = max(longest, start[chain + 1] - start[chain])
    back = np.zeros((longest, k, k), np.int64)
    best, previous = np.empty((k, k)), np.empty((k, k))
    for chain in range(start.shape[0] - 1):
        begin, end = start[chain], start[chain + 1]
        for a in range(k):
            for b in range(k):
                best[a, b] = first[a, b] + scores[begin, a, b]
        for t in range(begin + 1, end):
            for b in range(k):
                for c in range(k):
                    previous[b, c] = best[b, c]
                    best[b, c] = -math.inf
                    back[t - begin, b, c] = 0
            for a in range(k):
                for b in range(k):
                    keep_larger(triples[a, b], previous[a, b], a, best[b], back[t - begin, b])
            for b in range(k):
                for c in range(k):
                    best[b, c] += scores[t, b, c]
        value[chain] = -math.inf
        a, b = 0, 0
        for i in range(k):
            for j in range(k):
                if best[i, j] + last[i, j] > value[chain]:
                    value[chain] = best[i, j] + last[i, j]
                    a, b = i, j
        for t in range(end - 1, begin - 1, -1):
            path[t] = a * k + b
            if t > begin:
                a, b = back[t - begin, a, b], a
