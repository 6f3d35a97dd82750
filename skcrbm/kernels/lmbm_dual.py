"""Dual coordinate descent for the large margin Boltzmann machine, a row at a time.

The margins of a row's labels cost a dot product each; once they are there, one step on
label i moves the margins of the others by the same D / eta, so that all labels of the row
are settled among themselves before the weights are touched.
"""

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import shuffle

_SWEEPS = 10  # over the labels of one row
_ZERO = 1e-12  # projected gradients below are rounding


@jit(fastmath={"contract", "reassoc"})
def _dense_dot(matrix, i, other, n):
    """matrix[i] . other[n]."""
    result = 0.0
    for d in range(np.uintp(matrix.shape[1])):
        result += matrix[i, d] * other[n, d]
    return result


@jit(fastmath={"contract"})
def _dense_add(matrix, i, step, other, n):
    """matrix[i] += step * other[n]."""
    for d in range(np.uintp(matrix.shape[1])):
        matrix[i, d] += step * other[n, d]


@jit
def _csr_dot(matrix, i, data, indices, start, stop):
    """matrix[i] . a sparse row."""
    result = 0.0
    for j in range(start, stop):
        result += matrix[i, indices[j]] * data[j]
    return result


@jit
def _csr_add(matrix, i, step, data, indices, start, stop):
    """matrix[i] += step * a sparse row."""
    for j in range(start, stop):
        matrix[i, indices[j]] += step * data[j]


@jit
def _settle_row(
    n, square, spread, target, limit, alpha, labels, n_active, bounds, margin, change
):  # fmt: skip
    """Solve for the dual variables of row n, shrinking what the bounds of the last pass allow.

    Parameters
    ----------
    square : |x_n|^2 + 1 + (number of observed labels - 1) / eta
    spread : 1 / eta
    target : gamma
    limit : (N, L) or (N, 1)
    alpha : (N, L)
    labels : (N, L), the first n_active[n] of a row are active
    bounds : (4, L), largest and smallest projected gradient of each label in the last
        pass, (-inf, inf) for a label that is to rest, and in this one
    margin, change : (L,), at the positions of `labels`; the second is output
    """
    worst = 0.0
    own = 1 if limit.shape[1] > 1 else 0
    count = n_active[n]
    j = 0
    while j < count:
        i = labels[n, j]
        slope = margin[j] - target
        projected = slope
        keep = bounds[0, i] > -np.inf
        if alpha[n, i] == 0:
            keep = slope <= bounds[0, i]
            projected = min(slope, 0.0)
        elif alpha[n, i] == limit[n, own * i]:
            keep = slope >= bounds[1, i]
            projected = max(slope, 0.0)
        if keep:
            bounds[2, i] = max(bounds[2, i], projected)
            bounds[3, i] = min(bounds[3, i], projected)
            worst = max(worst, abs(projected))
            change[j] = 0.0
            j += 1
        else:  # the last one takes its place
            count -= 1
            labels[n, j], labels[n, count] = labels[n, count], i
            margin[j] = margin[count]
    n_active[n] = count
    if worst <= _ZERO:
        return
    inverse = 1.0 / square
    total = 0.0
    sweeps = _SWEEPS if spread > 0 and count > 1 else 1
    for _ in range(sweeps):
        largest = 0.0
        for j in range(count):
            i = labels[n, j]
            slope = margin[j] - target + square * change[j] + spread * (total - change[j])
            old = alpha[n, i]
            new = min(max(old + change[j] - slope * inverse, 0.0), limit[n, own * i])
            step = new - old - change[j]
            change[j] += step
            total += step
            largest = max(largest, abs(step))
        if largest * spread <= 0.01 * worst:
            break
    for j in range(count):
        i = labels[n, j]
        new, top = alpha[n, i] + change[j], limit[n, own * i]
        # Exactly at a bound, as shrinking looks for it.
        if top - new <= _ZERO * top:
            new = top
        elif new <= _ZERO * alpha[n, i]:
            new = 0.0
        change[j] = new - alpha[n, i]
        alpha[n, i] = new


@jit
def _couple(n, spread, signs, labels, count, change, pairwise):
    """Turn changes (count,) of row n's dual variables into steps, and add them to (L, L)."""
    for j in range(count):
        change[j] *= signs[n, labels[n, j]]
    if spread == 0:
        return
    for j in range(count):
        if change[j] != 0:
            i = labels[n, j]
            _dense_add(pairwise, i, spread * change[j], signs, n)
            for k in range(signs.shape[1]):
                pairwise[k, i] += spread * change[j] * signs[n, k]
            pairwise[i, i] = 0.0


@jit
def _end_pass(order, count, n_active, goal, bounds):
    """Drop rows without anything active, turn the bounds of this pass into those of the last.

    Returns
    -------
    Number of rows left and the largest range of projected gradients, 0 included; where
    that is at most the goal, rows and bounds are left as they are.
    """
    violation = 0.0
    for i in range(bounds.shape[1]):
        if bounds[2, i] > -np.inf:  # which it is for a label without anything active
            bounds[2, i] = max(bounds[2, i], 0.0)
            bounds[3, i] = min(bounds[3, i], 0.0)
            violation = max(violation, bounds[2, i] - bounds[3, i])
    if violation <= goal:
        return count, violation
    kept = 0
    for r in range(count):
        if n_active[order[r]] > 0:
            order[kept] = order[r]
            kept += 1
    for i in range(bounds.shape[1]):
        width = bounds[2, i] - bounds[3, i]
        bounds[0, i] = bounds[2, i] if bounds[2, i] > 0 else width
        bounds[1, i] = bounds[3, i] if bounds[3, i] < 0 else -width
        if width <= goal:  # it rests
            bounds[0, i] = -np.inf
            bounds[1, i] = np.inf
        bounds[2, i] = -np.inf
        bounds[3, i] = np.inf
    return kept, violation


@jit
def dense_passes(
    n_passes, state, order, count, goal, X, square, signs, target, spread, limit,
    alpha, labels, n_active, coef, intercept, pairwise, bounds,
):  # fmt: skip
    """Pass over the rows until all labels are within the goal; changes what follows `limit`.

    Parameters
    ----------
    n_passes : int, at most
    state : (1,) uint64, of the random numbers
    order : (N,) intp, rows active first
    count : int, how many
    goal : for the ranges of projected gradients
    X : (N, D)
    square : (N,) diagonal of the dual's quadratic form
    signs : (N, L) int8 in {-1, 0, +1}, 0 where not observed
    target, spread : gamma, 1 / eta
    limit : (N, L) or (N, 1), upper bounds of alpha; one column where labels share them
    alpha : (N, L)
    labels : (N, L) int32, a permutation of the labels in each row
    n_active : (N,) intp; so many labels of a row, the first in `labels`, are active
    coef, intercept, pairwise : (L, D), (L,), (L, L)
    bounds : (4, L) as in `_settle_row`

    Returns
    -------
    Number of passes done, number of rows active, largest range of projected gradients, and the
    number of active dual variables, summed over passes.
    """
    margin = np.empty(signs.shape[1])
    change = np.empty(signs.shape[1])
    done = visited = 0
    violation = np.inf
    while done < n_passes and count > 0 and violation > goal:
        shuffle(order, count, state)
        for r in range(count):
            n = np.uintp(order[r])
            for j in range(n_active[n]):
                i = labels[n, j]
                field = intercept[i] + _dense_dot(coef, i, X, n)
                if spread > 0:
                    field += _dense_dot(pairwise, i, signs, n)
                margin[j] = signs[n, i] * field
            _settle_row(
                n, square[n], spread, target, limit, alpha, labels, n_active, bounds, margin, change
            )
            _couple(n, spread, signs, labels, n_active[n], change, pairwise)
            for j in range(n_active[n]):
                if change[j] != 0:
                    i = labels[n, j]
                    _dense_add(coef, i, change[j], X, n)
                    intercept[i] += change[j]
        done += 1
        count, violation = _end_pass(order, count, n_active, goal, bounds)
        visited += n_active.sum()
    return done, count, violation, visited


@jit
def csr_passes(
    n_passes, state, order, count, goal, data, indices, indptr,
    square, signs, target, spread, limit,
    alpha, labels, n_active, coef, intercept, pairwise, bounds,
):  # fmt: skip
    """`dense_passes` for X in compressed rows: data, indices (nnz,), indptr (N + 1,)."""
    margin = np.empty(signs.shape[1])
    change = np.empty(signs.shape[1])
    done = visited = 0
    violation = np.inf
    while done < n_passes and count > 0 and violation > goal:
        shuffle(order, count, state)
        for r in range(count):
            n = np.uintp(order[r])
            start, stop = indptr[n], indptr[n + np.uintp(1)]
            for j in range(n_active[n]):
                i = labels[n, j]
                field = intercept[i] + _csr_dot(coef, i, data, indices, start, stop)
                if spread > 0:
                    field += _dense_dot(pairwise, i, signs, n)
                margin[j] = signs[n, i] * field
            _settle_row(
                n, square[n], spread, target, limit, alpha, labels, n_active, bounds, margin, change
            )
            _couple(n, spread, signs, labels, n_active[n], change, pairwise)
            for j in range(n_active[n]):
                if change[j] != 0:
                    i = labels[n, j]
                    _csr_add(coef, i, change[j], data, indices, start, stop)
                    intercept[i] += change[j]
        done += 1
        count, violation = _end_pass(order, count, n_active, goal, bounds)
        visited += n_active.sum()
    return done, count, violation, visited
