"""Dual coordinate descent: the training of the large margin Boltzmann machine."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from skcrbm.learning._dual_newton import newton_steps
from skcrbm.utils._parallel import one_blas_thread
from skcrbm.utils._validation import kernel_array

# With at most so many variables between their bounds, of all labels or of one, Newton steps
# are cheap: now and then in training, and once `tol` is reached up to 10 times, until the
# violation is below _EXACT. So the result of a small problem does not depend on the way.
_FEW_FREE = 250
_NEWTON_EVERY = 100
_EXACT, _POLISH = 1e-11, 10
# On the way the goal is this share of the violation at the last look at all labels; labels
# that meet it rest, so that the passes go to those that are behind.
_STAGE = 0.1


@dataclass
class LargeMarginProblem:
    """A large margin Boltzmann machine to be learned.

    Minimise ``1/2 (|A|^2 + |b|^2) + eta/2 sum_{i<k} s_ik^2 + sum_in U_in [gamma - m_in]_+``
    with the margins ``m_in = y_in (a_i . x_n + b_i + sum_{k != i} s_ik y_kn)``.

    Attributes
    ----------
    X : ndarray or CSR matrix (N, D)
    signs : ndarray (N, L)
        Labels y in {-1, 0, +1}; 0 where not observed, which takes the label out of the
        other labels' margins too.
    limit : ndarray (N, L)
        U. It is taken for 0 where a label is not observed.
    margin : float
        gamma.
    penalty : float
        eta; infinite without pair weights.
    """

    X: object
    signs: np.ndarray
    limit: np.ndarray
    margin: float
    penalty: float

    def __post_init__(self):
        if sparse.issparse(self.X):
            self.X = self.X.tocsr()
        self.signs = kernel_array(self.signs, np.float64)
        self.limit = kernel_array(np.where(self.signs != 0, self.limit, 0.0), np.float64)

    @property
    def spread(self):
        """1 / eta: how much a dual variable moves a pair weight."""
        return 1.0 / self.penalty

    def weights(self, dual):
        """Weights A (L, D), b (L,), S (L, L) of dual variables (N, L)."""
        signed = dual * self.signs
        half = self.spread * (signed.T @ self.signs)
        pairwise = half + half.T
        np.fill_diagonal(pairwise, 0.0)
        coef = np.asarray(safe_sparse_dot(self.X.T, signed)).T.astype(np.float64, order="C")
        return coef, signed.sum(axis=0), pairwise

    def objectives(self, dual, weights):
        """Value of the primal and of the dual; the second is never the larger one."""
        coef, intercept, pairwise = weights
        fields = np.asarray(safe_sparse_dot(self.X, coef.T)) + intercept + self.signs @ pairwise
        # Half of the symmetric matrix: its pairs once. 0 times infinity would be NaN.
        norm = 0.5 * ((coef**2).sum() + (intercept**2).sum())
        if self.spread > 0:
            norm += 0.25 * self.penalty * (pairwise**2).sum()
        loss = (self.limit * np.maximum(self.margin - self.signs * fields, 0.0)).sum()
        return norm + loss, self.margin * dual.sum() - norm


@dataclass
class LargeMarginFit:
    """What `fit_large_margin` found.

    Attributes
    ----------
    coef, intercept, pairwise : ndarray (L, D), (L,), (L, L)
    dual : ndarray (N, L)
    gap : float
        (primal - dual objective) / primal.
    n_iter : int
        Passes over the rows.
    reason : {"tol", "max_iter", "interrupted"}
        Why it ended.
    """

    coef: np.ndarray
    intercept: np.ndarray
    pairwise: np.ndarray
    dual: np.ndarray
    gap: float
    n_iter: int
    reason: str


def fit_large_margin(problem, *, tol, max_iter, rng, dual=None, report=None):
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
        Where to start; 0 by default.
    report : callable, default=None
        Called after each pass with its number, the range of the projected gradients and
        the share of dual variables still in play.

    Returns
    -------
    LargeMarginFit
    """
    alpha = np.zeros_like(problem.limit) if dual is None else np.clip(dual, 0, problem.limit)
    with one_blas_thread():
        weights = problem.weights(alpha)
        n_iter, reason = _descend(problem, alpha, weights, tol, max_iter, rng, report)
        # Free of what rounding has added up.
        weights = problem.weights(alpha)
        primal, value = problem.objectives(alpha, weights)
    # Below 0 it is rounding; without any weight on the losses both are 0.
    gap = max(float((primal - value) / primal), 0.0) if primal > 0 else 0.0
    return LargeMarginFit(*weights, alpha, gap, n_iter, reason)


def _descend(problem, alpha, weights, tol, max_iter, rng, report):
    """Change alpha and the weights in place; number of passes and why they ended."""
    epoch = _epoch_kernel(problem)
    possible = problem.limit > 0
    n_possible = possible.sum(axis=1)
    # Of each row, the labels in play first.
    labels = np.argsort(~possible, axis=1, kind="stable").astype(np.int32)
    n_active = n_possible.copy()
    order = np.flatnonzero(n_active)
    bounds = np.empty((4, possible.shape[1]))
    _reset(bounds)
    goal = tol * problem.margin
    stage, polishing, n_iter = np.inf, 0, 0
    try:
        while n_iter < max_iter and n_active.any():
            rng.shuffle(order)
            epoch(order, alpha, labels, n_active, weights, bounds)
            n_iter += 1
            ranges = bounds[2] - bounds[3]  # -inf for a label without anything in play
            violation = max(ranges.max(), 0.0)
            if report is not None:
                report(n_iter, violation, n_active.sum() / n_possible.sum())
            whole = np.array_equal(n_active, n_possible)
            if violation <= goal and whole:
                if violation <= _EXACT * problem.margin or polishing == _POLISH:
                    break
                if not newton_steps(problem, alpha, weights, ranges > goal, _FEW_FREE):
                    break
                polishing += 1
            elif n_iter % _NEWTON_EVERY == 0:
                newton_steps(problem, alpha, weights, ranges > goal, _FEW_FREE)
            if violation <= stage:
                stage = max(goal, _STAGE * violation)
                n_active[:] = n_possible
                order = np.flatnonzero(n_active)
                _reset(bounds)
            else:
                order = order[n_active[order] > 0]
                bounds[0] = np.where(bounds[2] > 0, bounds[2], ranges)
                bounds[1] = np.where(bounds[3] < 0, bounds[3], -ranges)
                bounds[:2, ranges <= stage] = [[-np.inf], [np.inf]]
                bounds[2:] = [[-np.inf], [np.inf]]
        else:
            return n_iter, "max_iter" if n_active.any() and not polishing else "tol"
    except KeyboardInterrupt:
        if n_iter == 0:
            raise
        return n_iter, "interrupted"
    return n_iter, "tol"


def _reset(bounds):
    """Nothing is known of the last pass, nor of this one: no shrinking."""
    bounds[:] = [[np.inf], [-np.inf], [-np.inf], [np.inf]]


def _epoch_kernel(problem):
    """Return the pass over rows for this X, as a function of what it changes."""
    from skcrbm._kernels.lmbm_dual import csr_epoch, dense_epoch

    X, signs = problem.X, problem.signs
    pairs = np.maximum((signs != 0).sum(axis=1) - 1, 0)
    square = row_norms(X, squared=True).astype(np.float64) + 1.0 + pairs * problem.spread
    if sparse.issparse(X):
        rows, kernel = (X.data, X.indices, X.indptr), csr_epoch
    else:
        rows, kernel = (X,), dense_epoch
    rows = tuple(kernel_array(part) for part in rows)
    fixed = (square, signs, float(problem.margin), float(problem.spread), problem.limit)

    def epoch(order, alpha, labels, n_active, weights, bounds):
        kernel(order, *rows, *fixed, alpha, labels, n_active, *weights, bounds)

    return epoch
