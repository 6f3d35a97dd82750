"""Train large margin Boltzmann machines by dual coordinate descent, one row after the other.

Computing the margin of a label takes a dot product with the inputs of the row. After that, a step
of size D on the dual variable of a label changes the margins of all other labels of the row by
D / eta, where eta is the penalty of the couplings. This change takes no dot product. So a visit of
a row makes several steps on its labels before it updates the weights.

If most labels are -1 in most rows, `RarePairs` stores the couplings as sums over the few labels
that are not -1. A visit then takes time in proportion to the number of these labels in the row,
instead of the number of all labels.
"""

from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import shuffle

_SWEEPS = 10  # largest number of sweeps over the labels of a row
# Projected gradients up to this size count as 0, because they may be rounding errors. If the
# relative distance of a dual variable to its bound is below this number, it is set to the bound.
_ZERO = 1e-12


class LabelRows(NamedTuple):
    """Labels of a training problem, and the parameters of its loss.

    There are N rows, L labels and D inputs. The loss is a sum of terms, one term for the margin of
    each label.
    """

    # (N,) second derivative of the dual with respect to a dual variable of each row:
    # |x_n|^2 + 1 + (number of observed labels - 1) / eta
    square: np.ndarray
    signs: np.ndarray  # (N, L) int8 in {-1, 0, +1}, 0 if not observed
    target: float  # gamma, the margin from which the loss is 0
    spread: float  # 1 / eta
    limit: np.ndarray  # (N, L) upper bounds of alpha, or (N, 1) if labels share bounds


class LabelDual(NamedTuple):
    """Dual variables, and the weights that follow from them. Kernels change all arrays in place."""

    alpha: np.ndarray  # (N, L) dual variables
    labels: np.ndarray  # (N, L), a permutation of the labels in each row, active labels first
    n_active: np.ndarray  # (N,) intp, number of active labels of each row
    coef: np.ndarray  # (L, D) weights of the inputs
    intercept: np.ndarray  # (L,) intercepts
    pairwise: np.ndarray  # (L, L) couplings of the labels
    # (4, L): largest and smallest projected gradient of each label, in the previous pass (rows 0
    # and 1) and in this pass (rows 2 and 3); -inf and inf if a pass skips the label.
    bounds: np.ndarray
    work: np.ndarray  # (3, L), work space for a row: margins, changes of alpha, and 2 sums


class RarePairs(NamedTuple):
    """Labels other than -1, and couplings that follow from them. Kernels change the sums in place.

    The sign of label k in row n is -1 + e_nk with an excess e_nk, which is 0 for most labels. Let
    d_ni be the dual variable of label i in row n, times its sign. The couplings are then
    ``s_ik = (p_ik + p_ki - d_i - d_k) / eta`` with ``p_ik = sum_n d_ni e_nk`` and ``d_i = sum_n
    d_ni``.
    """

    starts: np.ndarray  # (N + 1,) intp, where the labels of each row begin in `members`
    members: np.ndarray  # labels with an excess, row by row
    excess: np.ndarray  # float64: 2 for labels that are +1, 1 for labels that are not observed
    products: np.ndarray  # (L, L), p
    sums: np.ndarray  # (3, L): sums of p over its columns, sums of p over its rows, and d
    total: np.ndarray  # (1,), sum of d


@jit(fastmath={"contract", "reassoc"})
def _dense_dot(matrix, i, other, n):
    """Return the inner product of matrix[i] and other[n]."""
    result = 0.0
    for d in range(np.uintp(matrix.shape[1])):
        result += matrix[i, d] * other[n, d]
    return result


@jit(fastmath={"contract"})
def _dense_add(matrix, i, step, other, n):
    """Add step * other[n] to matrix[i]."""
    for d in range(np.uintp(matrix.shape[1])):
        matrix[i, d] += step * other[n, d]


@jit
def _csr_dot(matrix, i, csr, n):
    """Return the inner product of matrix[i] and row n of a CSR matrix."""
    data, indices, indptr = csr
    result = 0.0
    for j in range(indptr[n], indptr[n + np.uintp(1)]):
        result += matrix[i, indices[j]] * data[j]
    return result


@jit
def _csr_add(matrix, i, step, csr, n):
    """Add row n of a CSR matrix, multiplied by `step`, to matrix[i]."""
    data, indices, indptr = csr
    for j in range(indptr[n], indptr[n + np.uintp(1)]):
        matrix[i, indices[j]] += step * data[j]


@jit
def _optimise_row(
    n, square, spread, target, limit, alpha, labels, n_active, bounds, margin, change
):  # fmt: skip
    """Deactivate some labels of row n, and optimise the dual variables of its active labels.

    A label is deactivated if this pass skips it (see `LabelDual.bounds`). A label is also
    deactivated if its dual variable is at a bound, and the gradient that pushes it against the
    bound is larger in size than all projected gradients of the previous pass. `margin` (L,) holds
    the margins, and the output `change` (L,) the changes of the dual variables. Entry j of both
    belongs to label ``labels[n, j]``.
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
        else:  # the last active label takes the place of the deactivated label
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
        # Set alpha exactly to its bound, because shrinking compares alpha with the bound.
        if top - new <= _ZERO * top:
            new = top
        elif new <= _ZERO * alpha[n, i]:
            new = 0.0
        change[j] = new - alpha[n, i]
        alpha[n, i] = new


@jit
def _couple(n, spread, signs, labels, count, change, pairwise):
    """Update the couplings `pairwise` (L, L) after a visit of row n.

    `change` (count,) holds the changes of the dual variables of the active labels. The function
    multiplies these changes by the signs of the labels, in place.
    """
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
def _total(counts):
    """Return the sum of `counts` (N,). This loop compiles faster than `counts.sum()`."""
    total = 0
    for n in range(counts.shape[0]):
        total += counts[n]
    return total


@jit
def _end_pass(order, count, n_active, goal, bounds):
    """Finish a pass: remove rows without active labels, and update `bounds` for the next pass.

    `bounds` (4, L) is the array of `LabelDual`. The projected gradients of a label in this pass
    have a range: the largest, or 0 if all are negative, minus the smallest, or 0 if all are
    positive. Return the number of active rows, and the maximum of these ranges over all labels. If
    the maximum is at most `goal`, training has converged, and the rows and the bounds of the
    previous pass stay as they are.
    """
    violation = 0.0
    for i in range(bounds.shape[1]):
        if bounds[2, i] > -np.inf:  # the label is active in some row
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
        if width <= goal:  # converged: the next pass skips the label
            bounds[0, i] = -np.inf
            bounds[1, i] = np.inf
        bounds[2, i] = -np.inf
        bounds[3, i] = np.inf
    return kept, violation


@jit
def _rare_pull(n, i, sign, own, rare):
    """Return eta times the sum of s_ik y_k over all other labels k, the pull on label i of row n.

    The sign of label i is `sign`. `own[0]` is the sum of the signs y_k over all labels k, and
    `own[1]` the sum of y_k d_k. `RarePairs` defines s_ik and d_k.
    """
    starts, members, excess, products, sums, _ = rare
    pull = 0.0
    for m in range(starts[n], starts[n + 1]):
        k = members[m]
        pull += excess[m] * (products[i, k] + products[k, i])
    pull -= sums[0, i] + sums[1, i] + sums[2, i] * own[0] + own[1]
    return pull - 2.0 * (products[i, i] - sums[2, i]) * sign  # label i does not pull itself


@jit
def _rare_sums(n, n_labels, rare, own):
    """Write the sums of `_rare_pull` for row n to `own` (2,)."""
    starts, members, excess, _, sums, total = rare
    own[0] = -float(n_labels)
    own[1] = -total[0]
    for m in range(starts[n], starts[n + 1]):
        own[0] += excess[m]
        own[1] += excess[m] * sums[2, members[m]]


@jit
def _couple_rare(n, signs, labels, count, change, rare):
    """Do the same as `_couple` for couplings that are stored as `RarePairs`."""
    starts, members, excess, products, sums, total = rare
    moved = 0.0
    for j in range(count):
        i = labels[n, j]
        change[j] *= signs[n, i]
        if change[j] != 0:
            moved += change[j]
            sums[2, i] += change[j]
            for m in range(starts[n], starts[n + 1]):
                products[i, members[m]] += change[j] * excess[m]
                sums[0, i] += change[j] * excess[m]
    total[0] += moved
    for m in range(starts[n], starts[n + 1]):
        sums[1, members[m]] += moved * excess[m]


@jit
def label_passes(n_passes, goal, state, order, count, X, csr, rows, dual, rare):
    """Make passes over the rows until the projected gradients differ by at most `goal`.

    Parameters
    ----------
    n_passes : int, largest number of passes
    goal : float, the kernel stops if, for each label, the largest minus the smallest projected
        gradient is at most this number
    state : (1,) uint64, state of the random number generator, changed
    order : (N,) intp, row indices, of which the first `count` are active; changed
    count : int, number of active rows
    X : (N, D) inputs, or None if they are a CSR matrix
    csr : data (nnz,), indices (nnz,) and indptr (N + 1,) of the CSR matrix, or None
    rows, dual : LabelRows, LabelDual
    rare : RarePairs, or None; with RarePairs, `dual.pairwise` is neither read nor changed

    Returns
    -------
    Number of passes done, number of active rows, largest range of projected gradients, and the
    number of active dual variables, summed over passes.
    """
    square, signs, target, spread, limit = rows
    alpha, labels, n_active, coef, intercept, pairwise, bounds, work = dual
    margin = work[0]
    change = work[1]
    own = work[2]
    done = visited = 0
    violation = np.inf
    while done < n_passes and count > 0 and violation > goal:
        shuffle(order, count, state)
        for r in range(count):
            n = np.uintp(order[r])
            if rare is not None:
                _rare_sums(n, signs.shape[1], rare, own)
            for j in range(n_active[n]):
                i = labels[n, j]
                field = intercept[i]
                if X is not None:
                    field += _dense_dot(coef, i, X, n)
                if csr is not None:
                    field += _csr_dot(coef, i, csr, n)
                if rare is not None:
                    field += spread * _rare_pull(n, i, float(signs[n, i]), own, rare)
                elif spread > 0:
                    field += _dense_dot(pairwise, i, signs, n)
                margin[j] = signs[n, i] * field
            _optimise_row(
                n, square[n], spread, target, limit, alpha, labels, n_active, bounds, margin, change
            )
            if rare is not None:
                _couple_rare(n, signs, labels, n_active[n], change, rare)
            else:
                _couple(n, spread, signs, labels, n_active[n], change, pairwise)
            for j in range(n_active[n]):
                if change[j] != 0:
                    i = labels[n, j]
                    if X is not None:
                        _dense_add(coef, i, change[j], X, n)
                    if csr is not None:
                        _csr_add(coef, i, change[j], csr, n)
                    intercept[i] += change[j]
        done += 1
        count, violation = _end_pass(order, count, n_active, goal, bounds)
        visited += _total(n_active)
    return done, count, violation, visited
