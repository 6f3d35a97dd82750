"""Linear chains of classes: forward-backward, best paths, samples, and sums over sparse features.

Chains of different lengths lie one after the other, without padding: chain c has the positions
start[c] to start[c + 1] - 1. There are n chains with T positions in total, and K states. The inner
loops run over the states of a position. `scores` (T, K) holds the log-weight of each state at each
position. The log-weight of states i and j at two neighbouring positions is pairs[0, i, j] if it is
the same at all positions. Otherwise `pairs` holds T matrices, and the log-weight for the positions
t - 1 and t is pairs[t, i, j].
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.exponentials import exp_in_place
from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import MARGINAL_ERROR, dot_rows, fill, keep_larger, times_row

# Smallest argument of the vectorised exponential. Smaller log-weights are replaced by this number
# before the call, and their weights are set to 0 afterwards.
_LEAST = -700.0


# ------------------------------------------------------------------ features of the positions


class Packed(NamedTuple):
    """Layout of the coefficients of sparse features.

    There are D feature columns, P coefficients and K states. Column j has the coefficients first[j]
    to first[j + 1] - 1. Coefficient p belongs to the state labels[p]. If a column has coefficients
    for many states, they are copied to a dense row with an entry for each state: dense[j] is the
    index of the row, or -1 if column j has no dense row.
    """

    first: np.ndarray  # (D + 1,) int64, first coefficient of each column
    labels: np.ndarray  # (P,) int32, state of each coefficient
    dense: np.ndarray  # (D,) int32, index of each column's dense row, or -1 without a row


@jit
def _fill_rows(packed, coef, rows):
    """Copy the coefficients of columns with dense rows to `rows` (R, K), which contains zeros."""
    for j in range(packed.dense.shape[0]):
        if packed.dense[j] >= 0:
            for p in range(packed.first[j], packed.first[j + 1]):
                rows[packed.dense[j], packed.labels[p]] = coef[p]


@jit
def _add_rows(packed, rows, gradient):
    """Add the entries of the dense rows (R, K) to the gradients of their coefficients."""
    for j in range(packed.dense.shape[0]):
        if packed.dense[j] >= 0:
            for p in range(packed.first[j], packed.first[j + 1]):
                gradient[p] += rows[packed.dense[j], packed.labels[p]]


@jit(fastmath={"contract"})
def add_features(data, indices, indptr, packed, coef, rows, scores):
    """Multiply a CSR matrix (T, D) by the coefficients, and add the product to `scores` (T, K).

    `rows` (R, K) is a work array of zeros for the dense rows (see `Packed`) of R columns.
    """
    _fill_rows(packed, coef, rows)
    for t in range(scores.shape[0]):
        for e in range(indptr[t], indptr[t + 1]):
            x = data[e]
            j = indices[e]
            row = packed.dense[j]
            if row >= 0:
                for k in range(np.uintp(scores.shape[1])):
                    scores[t, k] += x * rows[row, k]
            else:
                for p in range(packed.first[j], packed.first[j + 1]):
                    scores[t, packed.labels[p]] += x * coef[p]


@jit(fastmath={"contract"})
def add_feature_sums(data, indices, indptr, packed, values, rows, gradient):
    """Add ``sum_t x[t, j] * values[t, label]`` to the gradient of coefficient (j, label).

    This is the transpose of `add_features`. `values` is (T, K), `gradient` (P,) has an entry for
    each coefficient, and `rows` (R, K) is a work array of zeros.
    """
    for t in range(values.shape[0]):
        for e in range(indptr[t], indptr[t + 1]):
            x = data[e]
            j = indices[e]
            row = packed.dense[j]
            if row >= 0:
                for k in range(np.uintp(values.shape[1])):
                    rows[row, k] += x * values[t, k]
            else:
                for p in range(packed.first[j], packed.first[j + 1]):
                    gradient[p] += x * values[t, packed.labels[p]]
    _add_rows(packed, rows, gradient)


# ----------------------------------------------------------------------------- probabilities


@jit(fastmath={"contract", "reassoc"})
def _sum(row):
    total = 0.0
    for j in range(np.uintp(row.shape[0])):
        total += row[j]
    return total


@jit(fastmath={"contract"})
def _scale(row, factor):
    for j in range(np.uintp(row.shape[0])):
        row[j] *= factor


@jit(fastmath={"contract"})
def _set_products(row, v, weight, out):
    """Set `out` (K,) to ``weight * row * v``, with arrays `row` and `v` (K,)."""
    for j in range(np.uintp(row.shape[0])):
        out[j] = weight * (row[j] * v[j])


@jit
def _exponentials(row):
    """Replace `row` (K,) by exp(row - max) and return the maximum, which may be -inf."""
    most = -math.inf
    for j in range(row.shape[0]):
        most = max(most, row[j])
    if most == -math.inf:
        fill(row, 0.0)
        return most
    for j in range(row.shape[0]):
        x = row[j] - most
        row[j] = x if x > _LEAST else _LEAST
    exp_in_place(row, row.shape[0])
    for j in range(row.shape[0]):
        if row[j] < 1e-303:
            row[j] = 0.0
    return most


@jit
def _forward(begin, end, scores, factors, first, last, alpha):
    """Write the filtered probabilities of a chain to `alpha` (T, K), and return its log Z.

    Row t of `alpha` is the distribution of the state at t, given the scores up to t. The chain has
    the positions `begin` to ``end - 1``. Each row of `scores` is overwritten by its exponentials,
    divided by the normaliser of its position. The caller has divided `factors`, `first` and `last`
    by their maxima, and log Z does not include the logarithms of these maxima. log Z is NaN if
    numbers underflow, or if no path is possible.
    """
    log_z = 0.0
    several = factors.shape[0] > 1
    for t in range(begin, end):
        log_z += _exponentials(scores[t])
        fill(alpha[t], 0.0)
        if t == begin:
            times_row(1.0, first, alpha[t])
        else:
            matrix = factors[t] if several else factors[0]
            for i in range(scores.shape[1]):
                if alpha[t - 1, i] != 0:
                    times_row(alpha[t - 1, i], matrix[i], alpha[t])
        for j in range(np.uintp(scores.shape[1])):
            alpha[t, j] *= scores[t, j]
        total = _sum(alpha[t])
        if not 0 < total < math.inf:
            return math.nan
        _scale(alpha[t], 1 / total)
        _scale(scores[t], 1 / total)
        log_z += math.log(total)
    total = dot_rows(alpha[end - 1], last)
    return log_z + math.log(total) if total > 0 else math.nan


@jit
def forward_backward(
    start, scores, factors, first, last, weight, rows, sums, marginals, pair_sums, log_z
):
    """Compute marginals and log Z of chains by scaled probabilities.

    Parameters
    ----------
    start : ndarray of int64 (n + 1,)
    scores : ndarray of float64 (T, K)
        Log-weights, which may be -inf. They are overwritten.
    factors : ndarray (1 or T, K, K)
        exp of the log-weights of the pairs of states. Each matrix is divided by its maximum.
    first, last : ndarray (K,)
        exp of the log-weights of the first and of the last state, each divided by its maximum.
    weight : ndarray (n,)
        Weight of each chain, by which its probabilities in `marginals` and `pair_sums` are
        multiplied.
    rows : ndarray (2, K)
    sums : ndarray (K, K)
        Work space.
    marginals : ndarray (T, K)
        Filled with the probability of each state times the weight of its chain.
    pair_sums : ndarray (1 or T, K, K)
        If there is a single matrix, the weighted probabilities of all pairs, divided by factors[0],
        are added to it. If there are T matrices, matrix t is filled with the weighted probabilities
        of the pair (t - 1, t).
    log_z : ndarray (n,)
        Filled with log Z of the divided weights. The caller has to add the logarithms of the maxima
        by which it divided `factors`, `first` and `last`. If numbers underflow, log Z is NaN, and
        the marginals of the chain are invalid. If `pair_sums` is a single matrix, the chain then
        adds nothing to it.
    """
    n_states = scores.shape[1]
    several = factors.shape[0] > 1
    beta = rows[0]
    v = rows[1]
    for c in range(start.shape[0] - 1):
        begin, end = start[c], start[c + 1]
        log_z[c] = _forward(begin, end, scores, factors, first, last, marginals)
        if math.isnan(log_z[c]):
            continue
        if not several:
            for i in range(n_states):
                fill(sums[i], 0.0)
        normaliser = 1 / dot_rows(marginals[end - 1], last)
        for j in range(n_states):
            beta[j] = last[j] * normaliser
        valid = True
        for t in range(end - 1, begin - 1, -1):
            alpha = marginals[t]
            if t < end - 1:
                for j in range(np.uintp(n_states)):
                    v[j] = scores[t + 1, j] * beta[j]
                for i in range(n_states):
                    row = factors[t + 1 if several else 0, i]
                    beta[i] = dot_rows(row, v)
                    if several:
                        _set_products(row, v, weight[c] * alpha[i], pair_sums[t + 1, i])
                    else:
                        times_row(alpha[i], v, sums[i])
            for j in range(np.uintp(n_states)):
                alpha[j] *= beta[j]
            valid &= abs(_sum(alpha) - 1) < MARGINAL_ERROR  # False if a number is infinite or NaN
            _scale(alpha, weight[c])
        if not valid:
            log_z[c] = math.nan
        elif not several:
            for i in range(n_states):
                times_row(weight[c], sums[i], pair_sums[0, i])


@jit
def _log_sum(row):
    most = -math.inf
    for j in range(row.shape[0]):
        most = max(most, row[j])
    if most == -math.inf:
        return most
    total = 0.0
    for j in range(row.shape[0]):
        total += math.exp(row[j] - most)
    return most + math.log(total)


@jit
def log_forward_backward(scores, pairs, first, last, marginals, pair_marginals):
    """Compute marginals of a single chain from log-weights, and return log Z.

    This slower version is for chains whose weights underflow in `forward_backward`. `first` and
    `last` (K,) and `pairs` (1 or T, K, K) are log-weights. `marginals` (T, K) and `pair_marginals`
    (T, K, K) are output; pair_marginals[0] is not set. log Z is -inf if no path is possible.
    """
    length, n_states = scores.shape
    several = pairs.shape[0] > 1
    forward = np.empty((length, n_states))
    backward = np.empty((length, n_states))
    terms = np.empty(n_states)
    for t in range(length):
        for j in range(n_states):
            if t == 0:
                forward[t, j] = scores[t, j] + first[j]
                continue
            for i in range(n_states):
                terms[i] = forward[t - 1, i] + (pairs[t, i, j] if several else pairs[0, i, j])
            forward[t, j] = scores[t, j] + _log_sum(terms)
    for t in range(length - 1, -1, -1):
        for i in range(n_states):
            if t == length - 1:
                backward[t, i] = last[i]
                continue
            for j in range(n_states):
                pair = pairs[t + 1, i, j] if several else pairs[0, i, j]
                terms[j] = pair + scores[t + 1, j] + backward[t + 1, j]
            backward[t, i] = _log_sum(terms)
    for j in range(n_states):
        terms[j] = forward[length - 1, j] + last[j]
    log_z = _log_sum(terms)
    if log_z == -math.inf:
        return log_z
    for t in range(length):
        for j in range(n_states):
            marginals[t, j] = math.exp(forward[t, j] + backward[t, j] - log_z)
            if t > 0:
                right = scores[t, j] + backward[t, j] - log_z
                for i in range(n_states):
                    pair = pairs[t, i, j] if several else pairs[0, i, j]
                    pair_marginals[t, i, j] = math.exp(forward[t - 1, i] + pair + right)
    return log_z


@jit
def path_scores(start, scores, pairs, first, last, path, out):
    """Write the log-weight of the path of each chain to `out` (n,).

    `path` (T,) holds the states of all chains.
    """
    several = pairs.shape[0] > 1
    for c in range(start.shape[0] - 1):
        begin, end = start[c], start[c + 1]
        total = first[path[begin]] + last[path[end - 1]]
        for t in range(begin, end):
            total += scores[t, path[t]]
            if t > begin:
                total += (pairs[t] if several else pairs[0])[path[t - 1], path[t]]
        out[c] = total


# ------------------------------------------------------------------------------------- paths


@jit
def best_paths(start, scores, pairs, first, last, rows, back, path, value):
    """Find the path with the largest log-weight in each chain (Viterbi's algorithm).

    If paths are equally good, lower states are preferred.

    The states are written to `path` (T,), and the log-weights to `value` (n,). If no path is
    possible, the log-weight is -inf. `rows` (2, K) and `back` (length of the longest chain, K) are
    work space.
    """
    n_states = scores.shape[1]
    several = pairs.shape[0] > 1
    best = rows[0]
    previous = rows[1]
    for c in range(start.shape[0] - 1):
        begin, end = start[c], start[c + 1]
        for j in range(n_states):
            best[j] = first[j] + scores[begin, j]
        for t in range(begin + 1, end):
            matrix = pairs[t] if several else pairs[0]
            for j in range(n_states):
                previous[j] = best[j]
                best[j] = -math.inf
                back[t - begin, j] = 0
            for i in range(n_states):
                keep_larger(matrix[i], previous[i], i, best, back[t - begin])
            for j in range(np.uintp(n_states)):
                best[j] += scores[t, j]
        value[c] = -math.inf
        state = 0
        for j in range(n_states):
            if best[j] + last[j] > value[c]:
                value[c] = best[j] + last[j]
                state = j
        for t in range(end - 1, begin - 1, -1):
            path[t] = state
            if t > begin:
                state = back[t - begin, state]


@jit
def k_best_paths(scores, pairs, first, last, paths, values):
    """Find the k paths of a single chain with the largest log-weights.

    Return the number of paths found.

    The states are written to `paths` (k, T) and the log-weights to `values` (k,), in descending
    order of the log-weights. Fewer paths are found if fewer paths are possible.
    """
    length, n_states = scores.shape
    k = values.shape[0]
    several = pairs.shape[0] > 1
    # best[j, r] is the log-weight of the r-th best path that ends in state j. Without its last
    # state, this path is one of the k best paths that end in the previous state. `back` holds the
    # previous state times k, plus the rank of the shorter path.
    best = np.full((n_states, k), -math.inf)
    previous = np.empty((n_states, k))
    back = np.zeros((length, n_states, k), np.int64)
    taken = np.empty(n_states, np.int64)
    for j in range(n_states):
        best[j, 0] = first[j] + scores[0, j]
    for t in range(1, length):
        matrix = pairs[t] if several else pairs[0]
        for j in range(n_states):
            for r in range(k):
                previous[j, r] = best[j, r]
        for j in range(n_states):
            fill(taken, 0)
            for r in range(k):
                most, chosen = -math.inf, 0
                for i in range(n_states):
                    if taken[i] < k:
                        x = previous[i, taken[i]] + matrix[i, j]
                        if x > most:
                            most, chosen = x, i
                best[j, r] = most + scores[t, j]
                back[t, j, r] = chosen * k + min(taken[chosen], k - 1)
                taken[chosen] += 1
    fill(taken, 0)
    for r in range(k):
        most, state = -math.inf, 0
        for j in range(n_states):
            if taken[j] < k and best[j, taken[j]] + last[j] > most:
                most, state = best[j, taken[j]] + last[j], j
        if most == -math.inf:
            return r
        values[r] = most
        rank = taken[state]
        taken[state] += 1
        for t in range(length - 1, -1, -1):
            paths[r, t] = state
            if t > 0:
                code = back[t, state, rank]
                state, rank = code // k, code % k
    return k


@jit
def sample_paths(start, scores, factors, first, last, uniform, alpha, paths, log_z):
    """Draw S paths of each chain by forward filtering and backward sampling.

    The arguments `start` to `last` have the same meaning as in `forward_backward`. `alpha` (T, K)
    is a work array. `uniform` (S, T) holds a uniform random number for each state of the output
    `paths` (S, T). If log_z[c] is NaN, no path of chain c was drawn.
    """
    n_states = scores.shape[1]
    several = factors.shape[0] > 1
    p = np.empty(n_states)
    for c in range(start.shape[0] - 1):
        begin, end = start[c], start[c + 1]
        log_z[c] = _forward(begin, end, scores, factors, first, last, alpha)
        if math.isnan(log_z[c]):
            continue
        for s in range(paths.shape[0]):
            for t in range(end - 1, begin - 1, -1):
                total = 0.0
                for i in range(n_states):
                    if t == end - 1:
                        p[i] = alpha[t, i] * last[i]
                    else:
                        matrix = factors[t + 1] if several else factors[0]
                        p[i] = alpha[t, i] * matrix[i, paths[s, t + 1]]
                    total += p[i]
                rest = uniform[s, t] * total
                state = 0
                for i in range(n_states):
                    if p[i] > 0:
                        state = i
                        rest -= p[i]
                        if rest < 0:
                            break
                paths[s, t] = state


# -------------------------------------------------------------------------- pseudo-likelihood


@jit
def pseudo_likelihood(start, scores, pairs, first, last, path, weight, residuals, pair_sums, loss):
    """Compute pseudo-likelihoods: the product of P(state | neighbouring states) in each chain.

    `path` (T,) has the states of all chains.

    `loss` (n,) is output: the negative log pseudo-likelihood of each chain. `residuals` (T, K) is
    output: the gradient of the loss with respect to the scores, which is P(state | neighbours)
    minus the indicator of the state in `path`, times the weight of the chain. The gradient with
    respect to the log-weights of pairs is added to `pair_sums`. If `pair_sums` is a single matrix,
    all pairs are added to this matrix. If there are T matrices, the pair (t - 1, t) is added to
    matrix t.
    """
    n_states = scores.shape[1]
    several = pairs.shape[0] > 1
    for c in range(start.shape[0] - 1):
        begin, end = start[c], start[c + 1]
        loss[c] = 0.0
        for t in range(begin, end):
            row = residuals[t]
            for j in range(n_states):
                x = scores[t, j]
                x += first[j] if t == begin else pairs[t if several else 0, path[t - 1], j]
                x += last[j] if t == end - 1 else pairs[t + 1 if several else 0, j, path[t + 1]]
                row[j] = x
            log_z = _log_sum(row)
            loss[c] += log_z - row[path[t]]
            for j in range(n_states):
                row[j] = weight[c] * (math.exp(row[j] - log_z) - (j == path[t]))
            for j in range(n_states):
                if t > begin:
                    pair_sums[t if several else 0, path[t - 1], j] += row[j]
                if t < end - 1:
                    pair_sums[t + 1 if several else 0, j, path[t + 1]] += row[j]
