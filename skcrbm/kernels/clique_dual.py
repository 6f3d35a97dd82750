"""Train large margin Markov networks by dual coordinate descent, one row after the other.

Cliques are lists of variables. There are N rows, V variables, J cliques and T weights. The feature
of a clique is the product of the -1/+1 values of its variables, or 0 if a value is not observed.
The margin of a variable is a weighted sum of features and, if the rows have inputs, the value of
the variable times a weighted sum of the inputs. The values of row n are ``signs[n]``, where `signs`
is (N, V) float64 in {-1, 0, +1} and 0 stands for a missing value.
"""

from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import shuffle

# A projected gradient of at most this number times the target margin counts as a rounding error,
# and no step is made.
_ZERO = 1e-12


class CliqueFeatures(NamedTuple):
    """Cliques, and the coefficients of their features in the margins.

    The margin of variable i is a sum of terms. Each term is one of E entries: variable i has the
    entries place[i] to place[i + 1] - 1, and entry e adds the term
    ``coef[e] * weight[group[e]] * feature[clique[e]]``.
    """

    start: np.ndarray  # (J + 1,): the variables of clique j are members[start[j]:start[j + 1]]
    members: np.ndarray  # (M,) variables of the cliques
    place: np.ndarray  # (V + 1,) first entry of each variable
    clique: np.ndarray  # (E,) clique of each entry
    group: np.ndarray  # (E,) index of the weight; the entries of a variable are sorted by group
    coef: np.ndarray  # (E,) coefficient of each entry


class CliqueRows(NamedTuple):
    """Rows of training data, and parameters of the loss, which is a sum over all margins."""

    signs: np.ndarray  # (N, V) values -1, +1, or 0 if missing
    data: np.ndarray  # inputs (N, D) as a CSR matrix: data, indices and indptr
    indices: np.ndarray
    indptr: np.ndarray
    norm: np.ndarray  # (N,) squared length of the inputs of each row
    target: float  # gamma, the margin from which the loss is 0
    limit: np.ndarray  # (N, V) upper bounds of the dual variables
    penalty: np.ndarray  # (T,) L1 penalty of each weight


class CliqueDual(NamedTuple):
    """Dual variables, and the weights that follow from them. Kernels change all arrays in place."""

    alpha: np.ndarray  # (N, V) dual variables
    active: np.ndarray  # (N, V) int32; the first n_active[n] entries of a row are active variables
    n_active: np.ndarray  # (N,) intp, number of active variables of each row
    total: np.ndarray  # (T,) sum over all margins of alpha times the gradient of the margin
    weight: np.ndarray  # (T,) weights: `total` moved towards 0 by the penalty, see `shrunk`
    input_weight: np.ndarray  # (V, D) weights of the inputs
    bounds: np.ndarray  # (2,) largest and smallest projected gradient of the previous pass


@jit
def _features(n, signs, start, members, feature):
    """For each clique j, set feature[j] to the product of the signs of its variables in row n."""
    for j in range(feature.shape[0]):
        value = 1.0
        for e in range(start[j], start[j + 1]):
            value *= signs[n, members[e]]
        feature[j] = value


@jit
def _margin(i, place, clique, group, coef, feature, weight):
    """Return the margin of variable i, and the squared length of the margin's gradient.

    The gradient is taken with respect to the weights.
    """
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
    """Update `total` (T,) and the weights after the dual variable of variable i grew by `step`."""
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
    """Return the weighted sum of the inputs of row n for variable i."""
    total = 0.0
    for e in range(indptr[n], indptr[n + 1]):
        total += input_weight[i, indices[e]] * data[e]
    return total


@jit
def shrunk(value, by):
    """Return the soft threshold of a value: the value moved towards 0 by at most `by`."""
    if value > by:
        return value - by
    if value < -by:
        return value + by
    return 0.0


@jit
def clique_passes(n_passes, goal, state, order, count, features, rows, dual):
    """Make passes over the rows until the projected gradients differ by at most `goal`.

    Parameters
    ----------
    n_passes : int, largest number of passes
    goal : float, the kernel stops if the largest minus the smallest projected gradient is at most
        this number
    state : (1,) uint64, state of the random number generator, changed
    order : (N,) intp, row indices, of which the first `count` are active; changed
    count : int, number of active rows
    features, rows, dual : CliqueFeatures, CliqueRows, CliqueDual

    Returns
    -------
    Number of passes done, number of active rows, largest minus smallest projected gradient.
    """
    start, members, place, clique, group, coef = features
    signs, data, indices, indptr, norm, target, limit, penalty = rows
    alpha, active, n_active, total, weight, input_weight, bounds = dual
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
                # Remove the variable from the active variables by swapping it with the last active
                # variable.
                if not keep:
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
def clique_margins(signs, features, weight, margins):
    """Compute the margins of all variables from the clique features and the weights (T,).

    The margins are written to `margins` (N, V). They do not include the terms of the inputs. The
    margin of a variable that is in no clique is 0.
    """
    start, members, place, clique, group, coef = features
    feature = np.empty(start.shape[0] - 1)
    for n in range(signs.shape[0]):
        _features(n, signs, start, members, feature)
        for i in range(signs.shape[1]):
            margins[n, i], _ = _margin(i, place, clique, group, coef, feature, weight)


@jit
def clique_sums(signs, features, alpha, penalty, total, weight):
    """Add the gradients of all margins, times `alpha` (N, V), to `total`; update `weight`.

    `total` (T,) and `weight` (T,) have an entry for each weight. The weight is the total, moved
    towards 0 by the penalty of the weight.
    """
    start, members, place, clique, group, coef = features
    feature = np.empty(start.shape[0] - 1)
    for n in range(signs.shape[0]):
        _features(n, signs, start, members, feature)
        for i in range(signs.shape[1]):
            if alpha[n, i] > 0:
                step = alpha[n, i]
                _move(i, step, place, clique, group, coef, feature, penalty, total, weight)
