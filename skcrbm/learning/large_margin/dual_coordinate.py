"""Dual coordinate descent: the training of the large margin Boltzmann machine.

It is no `Objective` of the training loop: what moves is one dual variable per row and label,
each to its exact optimum, and what ends it is the duality gap; there is no gradient in the
parameters to follow, and no step size.
"""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from skcrbm.inference.random_numbers import random_key
from skcrbm.learning.large_margin._newton import NewtonSteps
from skcrbm.learning.large_margin.cliques import clique_problem, fit_cliques, label_weights
from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import one_blas_thread, row_chunks
from skcrbm.utils.validation import kernel_array

# Newton steps on what is between its bounds come after so many passes, and again after so many,
# for at most a multiple of the work of the passes.
_FIRST_NEWTON, _NEWTON_EVERY, _NEWTON_SHARE = 60, 15, 2.0
_ASK_AGAIN = 5  # passes after a step that would have cost too much
# With at most so many such variables there are up to 10 more once `tol` is reached, until the
# violation is below _EXACT. So the result of a small problem does not depend on the way.
_FEW_FREE, _EXACT, _POLISH = 400, 1e-11, 10
# On the way the goal is this share of the violation at the last look at all labels; labels
# that meet it rest, so that the passes go to those that are behind.
_STAGE = 0.1


@dataclass
class LargeMarginProblem:
    """A large margin Boltzmann machine to be learned.

    Minimise ``1/2 (|A|^2 + |b|^2) + eta/2 sum_{i<k} s_ik^2 + sum_in U_in [gamma - m_in]_+``
    with the margins ``m_in = y_in (a_i . x_n + b_i + sum_{k != i} s_ik y_kn)``. Further cliques C_j
    of labels add ``eta/2 sum_j w_j^2`` and ``sum_{j: i in C_j} w_j prod_{k in C_j} y_kn``.

    Attributes
    ----------
    X : ndarray or CSR matrix (N, D)
    signs : ndarray of int8 (N, L)
        Labels y in {-1, 0, +1}; 0 where not observed, which takes the label out of the
        other labels' margins too.
    limit : ndarray (N, L) or (N, 1)
        U; one column where all labels of a row have the same. It is taken for 0 where a label is
        not observed.
    margin : float
        gamma.
    penalty : float
        eta; infinite without pair weights.
    cliques : sequence of tuples of int
        Of three labels or more; they are left out without pair weights.
    """

    X: object
    signs: np.ndarray
    limit: np.ndarray
    margin: float
    penalty: float
    cliques: tuple = ()

    def __post_init__(self):
        if sparse.issparse(self.X):
            self.X = self.X.tocsr()
        self.signs = kernel_array(self.signs, np.int8)
        self.limit = kernel_array(self.limit, np.float64)

    @property
    def spread(self):
        """1 / eta: how much a dual variable moves a pair weight."""
        return 1.0 / self.penalty

    def limits(self, rows=slice(None), labels=slice(None)):
        """U of these rows and labels, 0 where they are not observed."""
        limit = np.broadcast_to(self.limit, self.signs.shape)[rows, labels]
        return np.where(self.signs[rows, labels] != 0, limit, 0.0)

    def weights(self, dual):
        """Weights A (L, D), b (L,), S (L, L) of dual variables (N, L)."""
        n_labels = self.signs.shape[1]
        coef, intercept = np.zeros((n_labels, self.X.shape[1])), np.zeros(n_labels)
        half = np.zeros((n_labels, n_labels))
        for rows in self.chunks():
            signs = self.signs[rows].astype(np.float64)
            signed = dual[rows] * signs
            half += self.spread * (signed.T @ signs)
            coef += np.asarray(safe_sparse_dot(self.X[rows].T, signed)).T
            intercept += signed.sum(axis=0)
        pairwise = half + half.T
        np.fill_diagonal(pairwise, 0.0)
        return coef, intercept, pairwise

    def margins(self, weights, rows):
        """M (n, L) of rows; 0 where not observed."""
        coef, intercept, pairwise = weights
        signs = self.signs[rows].astype(np.float64)
        inputs = np.asarray(safe_sparse_dot(self.X[rows], coef.T))
        return signs * (inputs + intercept + signs @ pairwise)

    def chunks(self):
        """Rows that are worked on at once: sums over them need no copies of all."""
        n_rows, n_labels = self.signs.shape
        # Rows of a CSR matrix are copies, too.
        size = self.X.nnz if sparse.issparse(self.X) else self.X.size
        row = size // max(1, n_rows) + 4 * n_labels
        return row_chunks(n_rows, max(1, BLOCK_ENTRIES // max(1, row)))

    def reaches(self, dual, margins, rows=slice(None)):
        """How far the projected gradients of each label go above 0 and below, (2, L)."""
        slope, limit = margins - self.margin, self.limits(rows)
        slope = np.where(dual == 0, np.minimum(slope, 0.0), slope)
        slope = np.where(dual == limit, np.maximum(slope, 0.0), slope)
        slope = np.where(limit > 0, slope, 0.0)
        return np.array([side.max(axis=0, initial=0.0) for side in (slope, -slope)])

    def violation(self, reaches):
        """Largest range of the projected gradients of a label, in units of the margin."""
        return float(reaches.sum(axis=0).max(initial=0.0)) / self.margin

    def certificate(self, dual, weights):
        """Value of the primal and of the dual, never the larger one, and the violation."""
        coef, intercept, pairwise = weights
        # Half of the symmetric matrix: its pairs once. 0 times infinity would be NaN.
        norm = 0.5 * ((coef**2).sum() + (intercept**2).sum())
        if self.spread > 0:
            norm += 0.25 * self.penalty * (pairwise**2).sum()
        loss, reaches = 0.0, np.zeros((2, len(intercept)))
        for rows in self.chunks():
            margins = self.margins(weights, rows)
            loss += (self.limits(rows) * np.maximum(self.margin - margins, 0.0)).sum()
            reaches = np.maximum(reaches, self.reaches(dual[rows], margins, rows))
        return norm + loss, self.margin * dual.sum() - norm, self.violation(reaches)


@dataclass
class LargeMarginFit:
    """What `fit_large_margin` found.

    Attributes
    ----------
    coef, intercept, pairwise : ndarray (L, D), (L,), (L, L)
    dual : ndarray (N, L)
    gap : float
        (primal - dual objective) / primal.
    violation : float
        What `tol` is the limit of: the largest range of the projected gradients of a label.
    n_iter : int
        Passes over the rows.
    reason : {"tol", "max_iter", "callback", "interrupted"}
        Why it ended.
    clique : ndarray (J,)
        Weights of the problem's cliques; empty where they are left out.
    """

    coef: np.ndarray
    intercept: np.ndarray
    pairwise: np.ndarray
    dual: np.ndarray
    gap: float
    violation: float
    n_iter: int
    reason: str
    clique: np.ndarray = field(default_factory=lambda: np.empty(0))


def fit_large_margin(
    problem, *, tol, max_iter, rng, dual=None, on_pass_begin=None, on_pass_end=None
):
    """Solve a `LargeMarginProblem` by dual coordinate descent with shrinking.

    The rows are visited in random order; it ends when the projected gradients of all dual
    variables lie within ``tol * margin`` of each other.

    Parameters
    ----------
    problem : LargeMarginProblem
    tol : float
    max_iter : int
        Passes over the rows at most.
    rng : RandomState
    dual : ndarray (N, L), default=None
        Where to start; 0 by default. It may be overwritten.
    on_pass_begin : callable, default=None
        Called before each pass with its number, 0-based, where there is an `on_pass_end`.
    on_pass_end : callable, default=None
        Called after each pass with its number, the range of the projected gradients met, the
        share of dual variables still active, and a function that returns the
        `LargeMarginFit` of now. Returns True to stop.

    Returns
    -------
    LargeMarginFit

    Raises
    ------
    ValueError
        If the numbers overflow.
    """
    hooks = on_pass_begin, on_pass_end
    if len(problem.cliques) and problem.spread > 0:
        return _fit_with_cliques(problem, tol, max_iter, rng, dual, hooks)
    alpha = np.zeros(problem.signs.shape) if dual is None else dual
    for rows in problem.chunks():
        np.clip(alpha[rows], 0, problem.limits(rows), out=alpha[rows])
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        n_iter, reason = _descend(problem, alpha, tol, max_iter, rng, hooks)
    return _fit_of(problem, alpha, n_iter, reason)


def _fit_with_cliques(problem, tol, max_iter, rng, dual, hooks):
    """`fit_large_margin` of a problem with cliques, as a large margin Markov network."""
    network = clique_problem(problem)
    on_pass_begin, on_pass_end = hooks

    def as_labels(found):
        coef, intercept, pairwise, clique = label_weights(problem, found)
        margins = network.margins(found.weight, found.input_weight)
        violation = problem.violation(problem.reaches(found.dual, margins))
        end = found.dual, found.gap, violation, found.n_iter, found.reason
        return LargeMarginFit(coef, intercept, pairwise, *end, clique)

    def told(number, violation, share, now):
        return on_pass_end(number, violation, share, lambda: as_labels(now()))

    return as_labels(
        fit_cliques(
            network,
            violation_tol=tol,
            max_iter=max_iter,
            rng=rng,
            dual=dual,
            on_pass_begin=on_pass_begin,
            on_pass_end=None if on_pass_end is None else told,
        )
    )


def _fit_of(problem, alpha, n_iter, reason):
    """Return the `LargeMarginFit` of dual variables."""
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        # Free of what rounding has added up.
        weights = problem.weights(alpha)
        primal, value, violation = problem.certificate(alpha, weights)
    if not np.isfinite([primal, value]).all():
        raise ValueError(
            "training overflowed: X, C or 1 / pairwise_penalty is too large; scale the columns of X"
        )
    # Below 0 it is rounding; without any weight on the losses both are 0.
    gap = max(float((primal - value) / primal), 0.0) if primal > 0 else 0.0
    return LargeMarginFit(*weights, alpha, gap, violation, n_iter, reason)


def _descend(problem, alpha, tol, max_iter, rng, hooks):
    """Change alpha in place; number of passes and why they ended."""
    on_pass_begin, on_pass_end = hooks
    weights = problem.weights(alpha)
    # Of each row, the labels active first.
    n_rows, n_labels = problem.signs.shape
    labels = np.empty((n_rows, n_labels), np.int16 if n_labels < 2**15 else np.int32)
    n_possible = np.empty(n_rows, np.intp)
    for rows in problem.chunks():
        possible = problem.limits(rows) > 0
        n_possible[rows] = possible.sum(axis=1)
        labels[rows] = np.argsort(~possible, axis=1, kind="stable")
    if not n_possible.any():
        return 0, "tol"
    n_active = n_possible.copy()
    bounds = np.empty((4, n_labels))
    state = np.array([random_key(rng) | np.uint64(1)])
    passes = _pass_kernel(problem, alpha, labels, n_active, weights, bounds)
    goal = tol * problem.margin
    stage, polishing, n_iter, newton_at = goal, 0, 0, _FIRST_NEWTON
    newton, work, spent = NewtonSteps(problem), 0, 0.0
    fresh = True  # everything is active in the next pass
    try:
        while n_iter < max_iter:
            if fresh:
                n_active[:] = n_possible
                order = np.flatnonzero(n_possible)
                count = len(order)
                bounds[:] = [[np.inf], [-np.inf], [-np.inf], [np.inf]]
            # The pass over everything by itself; else until it is time for a Newton step.
            wanted = 1 if fresh or on_pass_end else max(newton_at - n_iter, 1)
            wanted = min(wanted, max_iter - n_iter)
            if on_pass_begin is not None:
                on_pass_begin(n_iter)
            least = -1.0 if fresh else stage
            done, count, violation, visited = passes(wanted, state, order, count, least)
            n_iter += done
            if on_pass_end is not None:
                share = n_active.sum() / n_possible.sum()
                now = partial(_fit_of, problem, alpha, n_iter, "callback")
                if on_pass_end(n_iter - 1, violation / problem.margin, share, now):
                    return n_iter, "callback"
            if fresh and violation <= goal:
                if violation <= _EXACT * problem.margin or polishing == _POLISH:
                    return n_iter, "tol"
                free = (alpha > 0) & (alpha < problem.limit)
                if not 0 < np.count_nonzero(free) <= _FEW_FREE:
                    return n_iter, "tol"
                newton.step(alpha, weights, free, exact=True)
                polishing += 1
                continue
            work += visited
            if fresh:
                stage = max(goal, _STAGE * violation)
            fresh = violation <= stage or count == 0
            if n_iter >= newton_at and not fresh:
                behind = bounds[0] - bounds[1] > goal
                free = (alpha > 0) & (alpha < problem.limit) & behind
                cost = newton.cost(free)
                if free.any() and spent + cost <= _NEWTON_SHARE * work:
                    newton.step(alpha, weights, free)
                    spent += cost
                    newton_at = n_iter + _NEWTON_EVERY
                else:
                    newton_at = n_iter + _ASK_AGAIN
    except KeyboardInterrupt:
        if n_iter == 0:
            raise
        return n_iter, "interrupted"
    return n_iter, "tol" if polishing else "max_iter"


def _pass_kernel(problem, alpha, labels, n_active, weights, bounds):
    """Return the passes over rows for this X, as a function of what is new in each call."""
    from skcrbm.kernels.lmbm_dual import LabelDual, LabelRows, csr_passes, dense_passes

    X, signs = problem.X, problem.signs
    square = np.empty(len(signs))
    for part in problem.chunks():
        pairs = np.maximum(np.count_nonzero(signs[part], axis=1) - 1, 0)
        # In float64: the square of a float32 may be none.
        norms = row_norms(X[part].astype(np.float64, copy=False), squared=True)
        square[part] = norms + 1.0 + pairs * problem.spread
    if sparse.issparse(X):
        inputs, kernel = (X.data, X.indices, X.indptr), csr_passes
    else:
        inputs, kernel = (X,), dense_passes
    inputs = tuple(kernel_array(part) for part in inputs)
    margin, spread = float(problem.margin), float(problem.spread)
    rows = LabelRows(square, signs, margin, spread, problem.limit)
    dual = LabelDual(alpha, labels, n_active, *weights, bounds)

    def passes(n_passes, state, order, count, goal):
        return kernel(n_passes, goal, state, order, count, *inputs, rows, dual)

    return passes
