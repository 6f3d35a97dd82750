"""Train the large margin Boltzmann machine by dual coordinate descent.

Each step sets the dual variable of one row and one label to its exact optimum, so that no step size
is needed. Training ends when, for each label, the projected gradients of its dual variables are
nearly equal. This solver has its own loop, because the loop of `learning/loop.py` follows gradients
of the parameters, and this solver changes dual variables.

The module `cliques` solves the same problem with cliques of any size. With pairs alone, it takes 5
to 19 times as long as this module (600 to 1500 rows, 6 to 100 labels, a tolerance of 0.01).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from skcrbm.learning.large_margin._newton import NewtonSteps
from skcrbm.learning.large_margin.cliques import clique_problem, fit_cliques, label_weights
from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import one_blas_thread, row_chunks
from skcrbm.utils.validation import kernel_array

# Newton steps change the free variables, which are strictly between their bounds. The first step is
# made after _FIRST_NEWTON passes, and each further step after _NEWTON_EVERY passes. A step is
# skipped if the work of all steps would exceed _NEWTON_SHARE times the work of the passes.
_FIRST_NEWTON, _NEWTON_EVERY, _NEWTON_SHARE = 60, 15, 2.0
_NEWTON_RETRY = 5  # number of passes until the next attempt if a step would cost too much
# If at most _FEW_FREE variables are free when `tol` is reached, up to _POLISH exact Newton steps
# follow, until the violation is at most _EXACT. After these steps, the result of a small problem no
# longer depends on the starting point and on the order of the rows.
_FEW_FREE, _EXACT, _POLISH = 400, 1e-11, 10
# Each pass over all labels is followed by several passes over some of the labels, called a stage.
# The goal of the stage is a violation of at most _STAGE times the violation in the pass over all
# labels. A label that has reached the goal is skipped until all labels have reached it.
_STAGE = 0.1
# If there are at least _MANY_LABELS labels, and a row has on average at most this share of labels
# that are on or not observed, couplings are stored as `RarePairs`, whose updates are faster then.
_MANY_LABELS, _RARE_SHARE = 64, 0.125


@dataclass
class LargeMarginProblem:
    """The training problem of a large margin Boltzmann machine.

    Minimise ``1/2 (|A|^2 + |b|^2) + eta/2 sum_{i<k} s_ik^2 + sum_in U_in [gamma - m_in]_+``
    with the margins ``m_in = y_in (a_i . x_n + b_i + sum_{k != i} s_ik y_kn)``. Larger cliques C_j
    of labels add ``eta/2 sum_j w_j^2`` to the objective and ``sum_{j: i in C_j} w_j prod_{k in C_j}
    y_kn`` to the margins.
    """

    X: Any  # array or CSR matrix (N, D)
    # (N, L) of int8: labels y in {-1, +1}. A missing label is 0 and drops out of all margins.
    signs: np.ndarray
    # Limits U (N, L), or (N, 1) if all labels of a row have the same limit. The method `limits`
    # sets the limits of missing labels to 0.
    limit: np.ndarray
    margin: float  # gamma
    penalty: float  # eta; infinite without pair weights
    # Larger cliques C_j: tuples of three or more labels. They are ignored without pair weights.
    cliques: Sequence[tuple[int, ...]] = ()

    def __post_init__(self):
        if sparse.issparse(self.X):
            self.X = self.X.tocsr()
        self.signs = kernel_array(self.signs, np.int8)
        self.limit = kernel_array(self.limit, np.float64)

    @property
    def spread(self):
        """The number 1 / eta, by which a pair weight changes if a dual variable changes by 1."""
        return 1.0 / self.penalty

    def limits(self, rows=slice(None), labels=slice(None)):
        """Return the limits U of the given rows and labels, with 0 for missing labels."""
        limit = np.broadcast_to(self.limit, self.signs.shape)[rows, labels]
        return np.where(self.signs[rows, labels] != 0, limit, 0.0)

    def weights(self, dual):
        """Return the weights A (L, D), b (L,) and S (L, L) for dual variables (N, L)."""
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
        """Return the margins (n, L) of the given rows, with 0 for missing labels."""
        coef, intercept, pairwise = weights
        signs = self.signs[rows].astype(np.float64)
        inputs = np.asarray(safe_sparse_dot(self.X[rows], coef.T))
        return signs * (inputs + intercept + signs @ pairwise)

    def chunks(self):
        """Return slices of rows to process one after the other, to avoid a copy of all rows."""
        n_rows, n_labels = self.signs.shape
        # Count the entries of X, too, because rows of a CSR matrix are copied.
        size = self.X.nnz if sparse.issparse(self.X) else self.X.size
        row = size // max(1, n_rows) + 4 * n_labels
        return row_chunks(n_rows, max(1, BLOCK_ENTRIES // max(1, row)))

    def reaches(self, dual, margins, rows=slice(None)):
        """Return the range (2, L) of the projected gradients of each label over the given rows.

        Row 0 holds the largest projected gradient of each label. Row 1 holds minus the smallest
        projected gradient of each label. Negative entries are set to 0.
        """
        slope, limit = margins - self.margin, self.limits(rows)
        slope = np.where(dual == 0, np.minimum(slope, 0.0), slope)
        slope = np.where(dual == limit, np.maximum(slope, 0.0), slope)
        slope = np.where(limit > 0, slope, 0.0)
        return np.array([side.max(axis=0, initial=0.0) for side in (slope, -slope)])

    def violation(self, reaches):
        """Return the largest range of projected gradients among the labels, divided by the margin.

        `reaches` (2, L) is the result of the method `reaches`.
        """
        return float(reaches.sum(axis=0).max(initial=0.0)) / self.margin

    def certificate(self, dual, weights):
        """Return the primal objective, the dual objective and the violation.

        The dual objective is at most the primal objective.
        """
        coef, intercept, pairwise = weights
        # The factor of the pairs is 0.25 instead of 0.5, because the symmetric matrix has each pair
        # twice. Skip the pairs if eta is infinite (no pair weights), because infinity times 0 would
        # be NaN.
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
    """The result of `fit_large_margin`."""

    coef: np.ndarray  # (L, D) coefficients A of the columns of X
    intercept: np.ndarray  # (L,) intercepts b
    pairwise: np.ndarray  # (L, L) pair weights S
    dual: np.ndarray  # (N, L) dual variables
    gap: float  # (primal - dual) / primal objective
    violation: float  # see `LargeMarginProblem.violation`; at most `tol` if training has converged
    n_iter: int  # number of passes over the rows
    reason: str  # why training ended: "tol", "max_iter", "callback" or "interrupted"
    # (J,) weights of the larger cliques; empty if there are no larger cliques.
    clique: np.ndarray = field(default_factory=lambda: np.empty(0))


def fit_large_margin(
    problem: LargeMarginProblem,
    *,
    tol: float,
    max_iter: int,
    rng: np.random.RandomState,
    dual: np.ndarray | None = None,
    on_pass_begin: Callable | None = None,
    on_pass_end: Callable | None = None,
) -> LargeMarginFit:
    """Solve a `LargeMarginProblem` by dual coordinate descent with shrinking.

    The rows are visited in random order. The training ends when, for each label, the projected
    gradients of its dual variables differ by at most ``tol * margin``, or after `max_iter` passes
    over the rows. Training starts at the dual variables `dual` (N, L), by default 0; this array may
    be overwritten.

    `on_pass_begin` is called before each pass with its number, from 0. `on_pass_end` is called
    after each pass with four arguments: the number of the pass, the violation in the pass, the
    share of dual variables that are still active, and a function that returns the current
    `LargeMarginFit`. `on_pass_end` returns True to stop the training.

    A ValueError is raised if the numbers overflow.
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
    """Solve a problem with larger cliques by the solver of large margin Markov networks."""
    network = clique_problem(problem)
    on_pass_begin, on_pass_end = hooks

    def as_labels(found):
        coef, intercept, pairwise, clique = label_weights(problem, found)
        margins = network.margins(found.weight, found.input_weight)
        violation = problem.violation(problem.reaches(found.dual, margins))
        end = found.dual, found.gap, violation, found.n_iter, found.reason
        return LargeMarginFit(coef, intercept, pairwise, *end, clique)

    def pass_ended(number, violation, share, current_fit):
        return on_pass_end(number, violation, share, lambda: as_labels(current_fit()))

    return as_labels(
        fit_cliques(
            network,
            violation_tol=tol,
            max_iter=max_iter,
            rng=rng,
            dual=dual,
            on_pass_begin=on_pass_begin,
            on_pass_end=None if on_pass_end is None else pass_ended,
        )
    )


def _fit_of(problem, alpha, n_iter, reason):
    """Return the `LargeMarginFit` for dual variables `alpha`."""
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        # Compute the weights from scratch, to remove the rounding errors of the updates.
        weights = problem.weights(alpha)
        primal, value, violation = problem.certificate(alpha, weights)
    if not np.isfinite([primal, value]).all():
        raise ValueError(
            "training overflowed: X, C, sample_weight or 1 / pairwise_penalty is too large; scale "
            "the columns of X, or divide the weights by their mean"
        )
    # Clip a negative gap to 0, because it comes from rounding. Both objectives are 0 if all limits
    # are 0, so avoid a division by 0.
    gap = max(float((primal - value) / primal), 0.0) if primal > 0 else 0.0
    coef, intercept, pairwise = weights
    return LargeMarginFit(coef, intercept, pairwise, alpha, gap, violation, n_iter, reason)


def _descend(problem, alpha, tol, max_iter, rng, hooks):
    """Optimise `alpha` in place; return the number of passes and the reason why training ended."""
    on_pass_begin, on_pass_end = hooks
    weights = problem.weights(alpha)
    # Row n of `labels` lists all labels; the first ``n_active[n]`` labels of the list are active.
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
    seed = np.uint64(rng.randint(2**63 - 1, dtype=np.int64))
    state = np.array([seed | np.uint64(1)])
    rare = _RareCouplings(problem, alpha) if _labels_are_rare(problem) else None
    passes = _pass_kernel(problem, alpha, labels, n_active, weights, bounds, rare)
    goal = tol * problem.margin
    stage, polishing, n_iter, newton_at = goal, 0, 0, _FIRST_NEWTON
    newton, work, spent = NewtonSteps(problem), 0, 0.0
    fresh = True  # the next pass visits all labels
    try:
        while n_iter < max_iter:
            if fresh:
                n_active[:] = n_possible
                order = np.flatnonzero(n_possible)
                count = len(order)
                bounds[:] = [[np.inf], [-np.inf], [-np.inf], [np.inf]]
            # Make a single pass if it visits all labels, or if a callback must be called after each
            # pass. Otherwise make all passes until the next Newton step in one call of the kernel.
            wanted = 1 if fresh or on_pass_end else max(newton_at - n_iter, 1)
            wanted = min(wanted, max_iter - n_iter)
            if on_pass_begin is not None:
                on_pass_begin(n_iter)
            least = -1.0 if fresh else stage
            done, count, violation, visited = passes(wanted, state, order, count, least)
            n_iter += done
            if on_pass_end is not None:
                share = n_active.sum() / n_possible.sum()
                current_fit = partial(_fit_of, problem, alpha, n_iter, "callback")
                if on_pass_end(n_iter - 1, violation / problem.margin, share, current_fit):
                    return n_iter, "callback"
            if fresh and violation <= goal:
                if violation <= _EXACT * problem.margin or polishing == _POLISH:
                    return n_iter, "tol"
                free = (alpha > 0) & (alpha < problem.limit)
                if not 0 < np.count_nonzero(free) <= _FEW_FREE:
                    return n_iter, "tol"
                _newton_step(newton, alpha, weights, free, rare, exact=True)
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
                    _newton_step(newton, alpha, weights, free, rare)
                    spent += cost
                    newton_at = n_iter + _NEWTON_EVERY
                else:
                    newton_at = n_iter + _NEWTON_RETRY
    except KeyboardInterrupt:
        if n_iter == 0:
            raise
        return n_iter, "interrupted"
    return n_iter, "tol" if polishing else "max_iter"


def _newton_step(newton, alpha, weights, free, rare, exact=False):
    """Make a Newton step, and update `rare` (a `_RareCouplings` or None) after it."""
    if rare is not None:
        weights[2][:] = rare.pairwise()
    newton.step(alpha, weights, free, exact=exact)
    if rare is not None:
        rare.update(alpha)


def _labels_are_rare(problem):
    """Return True if storing the couplings as `RarePairs` makes passes faster."""
    n_rows, n_labels = problem.signs.shape
    if problem.spread == 0 or n_labels < _MANY_LABELS:
        return False
    return np.count_nonzero(problem.signs >= 0) <= _RARE_SHARE * n_rows * n_labels


class _RareCouplings:
    """Couplings of labels that are -1 in most rows; see `RarePairs`, which is in `arrays`."""

    def __init__(self, problem, alpha):
        from skcrbm.kernels.lmbm_dual import RarePairs

        self._problem = problem
        n_labels = problem.signs.shape[1]
        self._excess: Any = sparse.vstack(
            [sparse.csr_matrix(problem.signs[rows] + np.float64(1)) for rows in problem.chunks()],
            format="csr",
        )
        sums = np.empty((n_labels, n_labels)), np.empty((3, n_labels)), np.empty(1)
        starts, members = (
            a.astype(np.intp, copy=False) for a in (self._excess.indptr, self._excess.indices)
        )
        self.arrays = RarePairs(starts, members, self._excess.data, *sums)
        self.update(alpha)

    def update(self, alpha):
        """Compute the sums from the dual variables (N, L)."""
        _, _, _, products, sums, total = self.arrays
        products[:], sums[2] = 0.0, 0.0
        for rows in self._problem.chunks():
            signed = alpha[rows] * self._problem.signs[rows]
            products += np.asarray(safe_sparse_dot(self._excess[rows].T, signed)).T
            sums[2] += signed.sum(axis=0)
        sums[0], sums[1], total[0] = products.sum(axis=1), products.sum(axis=0), sums[2].sum()

    def pairwise(self):
        """Return the couplings (L, L)."""
        half = self.arrays.products - self.arrays.sums[2][:, None]
        pairwise = self._problem.spread * (half + half.T)
        np.fill_diagonal(pairwise, 0.0)
        return pairwise


def _pass_kernel(problem, alpha, labels, n_active, weights, bounds, rare):
    """Return a function that makes passes over the rows with a compiled kernel.

    `rare` is a `_RareCouplings`, or None if `weights` holds the couplings.
    """
    from skcrbm.kernels.lmbm_dual import LabelDual, LabelRows, label_passes

    X, signs = problem.X, problem.signs
    square = np.empty(len(signs))
    for part in problem.chunks():
        pairs = np.maximum(np.count_nonzero(signs[part], axis=1) - 1, 0)
        # Convert X to float64 first, because the square of a small float32 underflows to 0.
        norms = row_norms(X[part].astype(np.float64, copy=False), squared=True)
        square[part] = norms + 1.0 + pairs * problem.spread
    dense = csr = None
    if sparse.issparse(X):
        csr = tuple(map(kernel_array, (X.data, X.indices, X.indptr)))
    else:
        dense = kernel_array(X)
    margin, spread = float(problem.margin), float(problem.spread)
    rows = LabelRows(square, signs, margin, spread, problem.limit)
    coef, intercept, pairwise = weights
    work = np.empty((3, max(2, signs.shape[1])))
    sums = None if rare is None else rare.arrays
    dual = LabelDual(alpha, labels, n_active, coef, intercept, pairwise, bounds, work)

    def passes(n_passes, state, order, count, goal):
        return label_passes(n_passes, goal, state, order, count, dense, csr, rows, dual, sums)

    return passes
