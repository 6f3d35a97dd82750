"""Newton steps of the dual of large margin machines on its free variables.

Coordinate descent finds soon which dual variables lie at a bound, and then takes long to settle
the others among each other. Those are the solution of a linear system.
"""

import numpy as np
from scipy import linalg, sparse

_ROUNDS = 10
# Of the mean diagonal; twin rows make the system singular.
_RIDGE = 1e-10


def newton_steps(problem, alpha, weights, behind, most, budget=np.inf):
    """Newton steps for all labels together or, where that is too large, for one at a time.

    They change alpha and the weights in place. The dual objective does not decrease.

    Parameters
    ----------
    problem : LargeMarginProblem
    alpha : ndarray (N, L)
    weights : tuple of ndarray (L, D), (L,), (L, L)
    behind : ndarray (L,) of bool
        Labels that are worth a step of their own.
    most : int
        Size of the largest system to solve.
    budget : float
        What the steps may cost, in visits of single variables by coordinate descent.

    Returns
    -------
    What they cost; 0 if none was done.
    """
    free = (alpha > 0) & (alpha < problem.limit)
    rows, labels = np.nonzero(free)
    if len(rows) <= most:
        groups = [(rows, labels)]
    else:
        groups = [(rows[labels == i], labels[labels == i]) for i in np.flatnonzero(behind)]
    spent = 0.0
    for group in groups:
        cost = _cost(len(group[0]), alpha.shape[1] + problem.X.shape[1])
        if 0 < len(group[0]) <= most and spent + cost <= budget:
            _newton_step(problem, alpha, weights, *group)
            spent += cost
    return spent


def _cost(n_free, width):
    """Cost of a step, in visits that go through `width` weights each; measured, roughly."""
    square = n_free**2
    return square / 10 + square * (30 + n_free / 6) / width


def _newton_step(problem, alpha, weights, rows, labels):
    """Move some free variables (m,) to their optimum; those that meet a bound stay there."""
    n_free = len(rows)
    X = problem.X[rows].astype(np.float64)  # the product of two float32 may be none
    signs = problem.signs[rows]
    own = signs[np.arange(n_free), labels]
    hessian = _hessian(X, signs, labels, own, problem.spread)
    if not np.isfinite(hessian).all():
        return
    coef, intercept, pairwise = weights
    fields = np.asarray(X @ coef.T)[np.arange(n_free), labels] + intercept[labels]
    fields += (signs * pairwise[labels]).sum(axis=1)
    start = alpha[rows, labels]
    limit = problem.limit[rows, labels]
    end = maximise_in_box(hessian, problem.margin - own * fields, start, limit)
    alpha[rows, labels] = end
    step = sparse.csr_matrix(
        ((end - start) * own, (labels, np.arange(n_free))), shape=(len(intercept), n_free)
    )
    moved = step @ X
    coef += moved.toarray() if sparse.issparse(moved) else moved
    intercept += np.asarray(step.sum(axis=1)).ravel()
    half = problem.spread * (step @ signs)
    pairwise += half + half.T
    np.fill_diagonal(pairwise, 0.0)


def _hessian(X, signs, labels, own, spread):
    """Quadratic form (m, m) of dual variables: of their labels, on their rows of X and signs."""
    products = X @ X.T
    products = (products.toarray() if sparse.issparse(products) else products) + 1.0
    sign = own[:, None] * own
    if spread > 0:
        products = products + spread * (signs @ signs.T - sign)
    same = labels[:, None] == labels
    other = signs[:, labels]  # on the row of one, the label of the other
    return sign * np.where(same, products, spread * other * other.T)


def maximise_in_box(hessian, gradient, start, limit):
    """Maximise ``g . d - d' H d / 2`` over ``start + d`` in [0, limit], from d = 0.

    Newton steps on the variables that are free, each clipped to the box if that is an
    improvement and cut at the first bound otherwise. Variables do not leave bounds.
    """
    current = start.copy()
    free = np.arange(len(start))
    ridge = _RIDGE * np.trace(hessian) / len(start)
    for _ in range(_ROUNDS):
        part = hessian[np.ix_(free, free)]
        part[np.diag_indices_from(part)] += ridge
        try:
            step = linalg.cho_solve(linalg.cho_factor(part, check_finite=False), gradient[free])
        except linalg.LinAlgError:
            break
        room = np.where(step > 0, limit[free] - current[free], current[free])
        share = np.min(room / np.maximum(np.abs(step), 1e-300))
        if share < 1:
            clipped = np.clip(current[free] + step, 0.0, limit[free]) - current[free]
            step *= share
            if _gain(hessian, gradient, free, clipped) > _gain(hessian, gradient, free, step):
                step = clipped
        moved = np.clip(current[free] + step, 0.0, limit[free])
        if share < 1:  # exactly at the bound, in spite of rounding
            moved = np.where(moved <= 1e-12 * current[free], 0.0, moved)
            near = limit[free] - moved <= 1e-12 * limit[free]
            moved = np.where(near, limit[free], moved)
        gradient = gradient - hessian[:, free] @ (moved - current[free])
        current[free] = moved
        if share >= 1:
            break
        free = free[(moved > 0) & (moved < limit[free])]
        if not len(free):
            break
    return current


def _gain(hessian, gradient, free, step):
    """Increase of the objective by a step of the free variables."""
    return gradient[free] @ step - 0.5 * step @ hessian[np.ix_(free, free)] @ step
