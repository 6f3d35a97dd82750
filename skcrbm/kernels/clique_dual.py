"""Dual coordinate descent for a large margin Markov network, a row at a time.

Cliques are lists of variables; their features are products of -1/+1 values, 0 where one is not
observed. A margin may have a linear part, too: the value of its variable times a weighted sum of
the row's inputs. Arrays that several kernels share:

signs : (N, V) float64 in {-1, 0, +1}
start, members : (J + 1,), (M,); the variables of clique j are members[start[j]:start[j + 1]]
place : (V + 1,); the margin of variable i is the sum over entries e from place[i] to
    place[i + 1] of ``coef[e] * weight[group[e]] * feature[clique[e]]``
clique, group, coef : (E,); entries of a variable in the order of their groups
data, indices, indptr : compressed rows of the inputs (N, D)
"""

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import shuffle

_ZERO = 1e-12  # projected gradients below are rounding


@jit
def _features(n, signs, start, members, feature):
    """Feature (J,) = products of row n."""
    for j in range(feature.shape[0]):
        value = 1.0
        for e in range(start[j], start[j + 1]):
            value *= signs[n, members[e]]
        feature[j] = value


@jit
def _margin(i, place, clique, group, coef, feature, weight):
    """Margin of variable i, and the square of the length of its gradient in the weights."""
    margin = square = part = 0.0
    stop = place[i + 1]
    for e in range(place[i], stop):
        part += coef[e] * feature[clique[e]]
        g = group[e]
        if e + 1 == stop or group[e + 1] != g:
            margin += weight[g] * part
            square += part * part
            part = 0.0
    return margin, square


@jit
def _move(i, step, place, clique, group, coef, feature, penalty, total, weight):
    """Add a step of the dual variable of i to the sums total (T,), and make weights of them."""
    part = 0.0
    stop = place[i + 1]
    for e in range(place[i], stop):
        part += coef[e] * feature[clique[e]]
        g = group[e]
        if e + 1 == stop or group[e + 1] != g:
            total[g] += step * part
            weight[g] = shrunk(total[g], penalty[g])
            part = 0.0


@jit
def _input_sum(i, n, data, indices, indptr, input_weight):
    """Weighted sum of the inputs of row n for variable i."""
    total = 0.0
    for e in range(indptr[n], indptr[n + 1]):
        total += input_weight[i, indices[e]] * data[e]
    return total


@jit
def shrunk(value, by):
    """Soft threshold: the value moved towards 0."""
    if value > by:
        return value - by
    if value < -by:
        return value + by
    return 0.0


@jit
def clique_passes(
    n_passes, state, order, count, goal, signs, start, members, place, clique, group, coef,
    data, indices, indptr, norm, target, limit, penalty,
    alpha, active, n_active, total, weight, input_weight, bounds,
):  # fmt: skip
    """Pass over the rows until the projected gradients are within the goal.

    Changes what follows `penalty`, and `state` and `order`.

    Parameters
    ----------
    n_passes : int, at most
    state : (1,) uint64, of the random numbers
    order : (N,) intp, rows active first
    count : int, how many
    goal : for the range of projected gradients
    norm : (N,) squares of the lengths of the inputs
    target : gamma
    limit : (N, V) upper bounds of alpha
    penalty : (T,) of the absolute values of weights
    alpha : (N, V)
    active : (N, V) int32; the first n_active[n] of a row are the variables in its turn
    n_active : (N,) intp
    total, weight : (T,), sums of alpha times gradients, and the same shrunk by the penalty
    input_weight : (V, D)
    bounds : (2,), largest and smallest projected gradient of the last pass

    Returns
    -------
    Number of passes done, number of rows active, range of projected gradients.
    """
    feature = np.empty(start.shape[0] - 1)
    done = np.int64(0)
    violation = np.inf
    while done < n_passes and count > 0 and violation > goal:
        shuffle(order, count, state)
        high = low = 0.0
        for r in range(count):
            n = order[r]
            _features(n, signs, start, members, feature)
            j = np.int64(0)
            left = n_active[n]
            while j < left:
                i = active[n, j]
                margin, square = _margin(i, place, clique, group, coef, feature, weight)
                margin += signs[n, i] * _input_sum(i, n, data, indices, indptr, input_weight)
                square += norm[n]
                slope = margin - target
                old = alpha[n, i]
                keep = True
                projected = slope
                if old == 0:
                    keep = slope <= bounds[0]
                    projected = min(slope, 0.0)
                elif old == limit[n, i]:
                    keep = slope >= bounds[1]
                    projected = max(slope, 0.0)
                if not keep:  # the last one takes its place
                    left -= 1
                    active[n, j], active[n, left] = active[n, left], i
                    continue
                high = max(high, projected)
                low = min(low, projected)
                if abs(projected) > _ZERO * target:
                    new = limit[n, i]
                    if square > 0:
                        new = min(max(old - slope / square, 0.0), new)
                    alpha[n, i] = new
                    step = new - old
                    _move(i, step, place, clique, group, coef, feature, penalty, total, weight)
                    step *= signs[n, i]
                    for e in range(indptr[n], indptr[n + 1]):
                        input_weight[i, indices[e]] += step * data[e]
                j += 1
            n_active[n] = left
        done += 1
        violation = high - low
        bounds[0] = high if high > 0 else np.inf
        bounds[1] = low if low < 0 else -np.inf
        kept = np.int64(0)
        for r in range(count):
            if n_active[order[r]] > 0:
                order[kept], order[r] = order[r], order[kept]
                kept += 1
        count = kept
    return done, count, violation


@jit
def clique_margins(signs, start, members, place, clique, group, coef, weight, margins):
    """Margins (N, V) of weights (T,); 0 of variables without entries."""
    feature = np.empty(start.shape[0] - 1)
    for n in range(signs.shape[0]):
        _features(n, signs, start, members, feature)
        for i in range(signs.shape[1]):
            margins[n, i], _ = _margin(i, place, clique, group, coef, feature, weight)


@jit
def clique_sums(signs, start, members, place, clique, group, coef, alpha, penalty, total, weight):
    """Add up dual variables alpha (N, V) times gradients in total (T,), 0 before; and weights."""
    feature = np.empty(start.shape[0] - 1)
    for n in range(signs.shape[0]):
        _features(n, signs, start, members, feature)
        for i in range(signs.shape[1]):
            if alpha[n, i] > 0:
                step = alpha[n, i]
                _move(i, step, place, clique, group, coef, feature, penalty, total, weight)
