"""Train the structural support vector machine with label pairs by cutting planes.

Each iteration finds, for every row, the label vector that violates the margin most. The constraints
of these label vectors, added up over all rows, are a single linear constraint, called a plane. A
quadratic program with a variable for each plane then gives the next weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

from skcrbm.energies import IsingEnergy
from skcrbm.inference import ICM, InferenceMethod, infer
from skcrbm.inference.base import MagnitudeError
from skcrbm.utils.parallel import linear_fields, one_blas_thread

# Ridge of the linear system in `_face_maximum`, as a multiple of the mean squared slope of the
# active planes. The ridge keeps the system regular if planes are linearly dependent.
_RIDGE = 1e-13
# The objective of the quadratic program is divided by a scale, which is computed from the slopes of
# the planes. The scale is at least this number times the largest offset, because planes with slope
# 0 would give a scale of 0.
_LEAST_UNIT = 1e-30
# Relative tolerance of the quadratic program. The program is solved if no derivative of its
# objective exceeds the common derivative of the active variables by more than this tolerance.
_SLOPE = 1e-12
# A plane is dropped if its dual variable is 0 in more than this number of iterations in a row.
_IDLE = 50
# To save time, most iterations search for labels by the fast method ICM. If the plane of these
# labels does not raise the lower bound at the current vector, the iteration searches again by the
# problem's own method, whose planes also give the objective. Every `_DRAFTS`-th iteration uses the
# problem's own method from the start, unless the lower bound of the objective has grown by more
# than the factor `_RISE` since `_DRAFTS` iterations. At such early vectors branch and bound takes
# long, and the objective is far from the minimum. The same holds if its last search reached the
# limit of nodes in a row, as with 50 labels, where a search takes as long as hundreds of searches
# by ICM. But a fit that is stopped returns the best vector at which the problem's own method has
# searched, and this should not be the start. So the method is used at the latest after `_STALE`
# times as many iterations as there were before its last search.
_DRAFTS = 10
_RISE = 1.05
_STALE = 4
# Training ends if the violation is at most _ROUNDING times the objective, because such a small
# violation comes from rounding.
_ROUNDING = 1e-9


@dataclass
class StructuralMarginProblem:
    """The training problem of the structural support vector machine with label pairs.

    Minimise ``1/2 (|A|^2 + |b|^2) + eta/2 sum_{i<k} s_ik^2 + sum_n C_n max_y [D(y, y_n) +
    F_n(y) - F_n(y_n)]`` with ``F_n(y) = sum_i y_i (a_i . x_n + b_i) + sum_{i<k} s_ik y_i y_k``
    where D is the number of labels that differ, and y_n holds the observed labels of row n. The
    last sum is called the risk.
    """

    X: Any  # array or CSR matrix (N, D)
    signs: np.ndarray  # (N, L): labels y_n in {-1, +1}
    limit: np.ndarray  # (N,) factors C_n of the losses of the rows
    penalty: float  # eta; infinite without pair weights
    one_hot: bool  # True if the maximum is over label vectors y with exactly one label on
    # Method that finds the maximum if not `one_hot`: "branch_and_bound", "icm" or "linear_program",
    # which maximises over the local polytope.
    method: InferenceMethod
    n_jobs: int | None = None

    def __post_init__(self):
        # Convert X to float64, because training depends on small differences of large sums.
        self.X = self.X.astype(np.float64)
        if sparse.issparse(self.X):
            self.X = self.X.tocsr()
        n_labels = self.signs.shape[1]
        self._upper = np.triu_indices(n_labels, 1) if np.isfinite(self.penalty) else None
        self._unit = np.sqrt(self.penalty)

    @property
    def n_parameters(self):
        """Number of parameters in A, b and the pair weights (if any): the length of a vector."""
        n_labels = self.signs.shape[1]
        n_pairs = 0 if self._upper is None else len(self._upper[0])
        return n_labels * (self.X.shape[1] + 1) + n_pairs

    def weights(self, vector):
        """Split a vector into A (L, D), b (L,) and S (L, L).

        The vector has the pair weights times sqrt(eta), so that all parameters have penalty 1.
        """
        n_labels, n_columns = self.signs.shape[1], self.X.shape[1]
        coef, intercept, pairs = np.split(
            vector, [n_labels * n_columns, n_labels * (n_columns + 1)]
        )
        pairwise = np.zeros((n_labels, n_labels))
        if self._upper is not None:
            pairwise[self._upper] = pairs / self._unit
            pairwise += pairwise.T
        return coef.reshape(n_labels, n_columns), intercept, pairwise

    @property
    def start(self):
        """The vector of parameters from which training starts."""
        return np.zeros(self.n_parameters)

    def result(self, vector, objective, gap, n_iter, n_open, reason):
        """Return the `StructuralMarginFit` with the weights that are stored in a vector."""
        weights = self.weights(vector)
        return StructuralMarginFit(*weights, objective, gap, n_iter, n_open, reason)

    @property
    def draft(self):
        """Faster method that may miss the maximum; None if `method` itself is fast."""
        quick = self.one_hot or self._upper is None or self.method.name == "icm"
        return None if quick else ICM()

    def plane(self, vector, method):
        """Find the constraint that the parameters in `vector` (n_parameters,) violate most.

        Returns the slope (n_parameters,) and the offset of a plane: the risk of every parameter
        vector w is at least ``offset - slope . w``. The third result is the number of rows for
        which branch and bound has not proved that its label vector is the maximum.
        """
        coef, intercept, pairwise = self.weights(vector)
        fields = linear_fields(self.X, coef, intercept)
        means, converged = self._worst(fields, pairwise, method)
        missed = self.signs - means
        halves = (means == 0).astype(np.float64)
        # The observed labels of a row have the violation 0. If an approximate search returns labels
        # with a negative violation, use the observed labels instead.
        gain = (0.5 * self.signs * missed - fields * missed).sum(axis=1)
        gain += self._pair_score(means, halves, pairwise) - self._pair_score(
            self.signs, 0.0 * halves, pairwise
        )
        lost = gain < 0
        means[lost], missed[lost], halves[lost] = self.signs[lost], 0.0, 0.0
        pull = self.limit[:, None] * missed
        parts = [np.asarray(safe_sparse_dot(self.X.T, pull)).T.ravel(), pull.sum(axis=0)]
        if self._upper is not None:
            weighted = self.limit[:, None]
            pairs = self.signs.T @ (weighted * self.signs) - means.T @ (weighted * means)
            pairs -= np.sign(pairwise) * (halves.T @ (weighted * halves))
            parts.append(pairs[self._upper] / self._unit)
        offset = 0.5 * (pull * self.signs).sum()
        return np.concatenate(parts), offset, int(np.count_nonzero(~converged))

    def _pair_score(self, means, halves, pairwise):
        """Return the sum (N,) of the scores of all pairs of labels in each row.

        `means` (N, L) is -1, 0 or +1. The mean 0 stands for a label that is on with probability 1/2
        in the solution of the linear program; `halves` is 1 for these labels. If both labels of a
        pair have the mean 0, the linear program lets them be equal or different, whichever gives
        the higher score.
        """
        score = 0.5 * ((means @ pairwise) * means).sum(axis=1)
        return score + 0.5 * ((halves @ np.abs(pairwise)) * halves).sum(axis=1)

    def _worst(self, fields, pairwise, method):
        """Return the labels (N, L) that violate the margin most, and an array (N,) of bools.

        The labels are in {-1, 0, 1}. Only "linear_program" returns 0, for a label that its
        solution leaves undecided. The array is False for rows in which branch and bound has not
        proved that no labels violate the margin more.
        """
        fields = fields - 0.5 * self.signs
        if self.one_hot:
            found = 2.0 * np.eye(fields.shape[1])[fields.argmax(axis=1)] - 1.0
            return found, np.ones(len(found), bool)
        energy = IsingEnergy(pairwise, fields)
        if method.name == "linear_program":
            from skcrbm.inference.ising.roof_dual import relaxed_labels  # loads kernels

            means, _, _ = relaxed_labels(energy, self.n_jobs)
            return means.astype(np.float64), np.ones(len(means), bool)
        try:
            found = infer(energy, method, returns="map", n_jobs=self.n_jobs)
        except MagnitudeError as error:
            raise ValueError(
                "X times coef_ is too large for inference; scale the columns of X or lower C"
            ) from error
        proven = found.converged | (method.name != "branch_and_bound")
        return 2.0 * found.assignment - 1.0, proven


@dataclass
class StructuralMarginFit:
    """The result of `fit_cutting_planes`."""

    coef: np.ndarray  # (L, D) coefficients A of the columns of X
    intercept: np.ndarray  # (L,) intercepts b
    pairwise: np.ndarray  # (L, L) pair weights S
    objective: float  # objective of the weights, computed from the maxima that the searches found
    gap: float  # (objective - lower bound) / objective
    n_iter: int  # number of iterations, each with a search in all rows
    # Number of rows for which branch and bound has not proved the maximum, in the last iteration
    # that used the problem's own method.
    n_open: int
    # Why training ended: "tol", "max_iter", "callback", "interrupted" or "rounding". "rounding"
    # means that the gap is above `tol`, but all violations are as small as rounding errors.
    reason: str


class _Planes:
    """K planes with slopes (K, P) and offsets (K,), and the quadratic program over the planes.

    The dual variables (K,) of the planes sum to 1. The first plane is the constant 0, because the
    risk is never negative.
    """

    def __init__(self, n_parameters):
        self.slopes = np.zeros((1, n_parameters))
        self.offsets, self.gram, self.dual = np.zeros(1), np.zeros((1, 1)), np.ones(1)
        self._idle = np.zeros(1, int)

    def add(self, slope, offset):
        """Add a plane, and drop planes whose dual variables have been 0 for `_IDLE` iterations."""
        keep = self._idle <= _IDLE
        keep[0] = True
        self.slopes = np.vstack([self.slopes[keep], slope])
        self.offsets = np.append(self.offsets[keep], offset)
        products = self.slopes @ slope
        gram = self.gram[np.ix_(keep, keep)]
        self.gram = np.block([[gram, products[:-1, None]], [products[None, :-1], products[-1]]])
        self.dual = np.append(self.dual[keep], 0.0)
        self._idle = np.append(self._idle[keep], 0)

    def solve(self):
        """Return the optimal vector for the planes, and a lower bound of the smallest objective."""
        self.dual = maximise_over_simplex(self.gram, self.offsets, self.dual)
        self._idle = np.where(self.dual > 0, 0, self._idle + 1)
        vector = self.dual @ self.slopes
        return vector, self.dual @ self.offsets - 0.5 * (vector @ vector)

    def risk(self, vector):
        """Return the largest value of a plane at `vector`, which is a lower bound of the risk."""
        return (self.offsets - self.slopes @ vector).max()


def fit_cutting_planes(
    problem: StructuralMarginProblem,
    *,
    tol: float,
    max_iter: int,
    on_pass_begin: Callable | None = None,
    on_pass_end: Callable | None = None,
) -> StructuralMarginFit:
    """Solve a `StructuralMarginProblem` by cutting planes with one slack variable.

    To save time, most planes are found by the fast method ICM, as long as its planes raise the
    lower bound of the risk. A plane is a valid constraint even if ICM misses the maximum. The
    objective is computed only from planes that the problem's own method has found.

    The training ends when the relative gap between the best objective and the lower bound of the
    quadratic program is at most `tol`, when no constraint is violated by more than rounding errors,
    or after `max_iter` iterations.

    `on_pass_begin` is called before each iteration with its number, from 0. `on_pass_end` is called
    after each iteration with four arguments: the number of the iteration, the relative gap, the
    number of planes, and a function that returns the current `StructuralMarginFit`. `on_pass_end`
    returns True to stop the training.

    A ValueError is raised if the numbers overflow.
    """
    return cut_planes(problem, tol, max_iter, on_pass_begin, on_pass_end)


def cut_planes(problem: Any, tol, max_iter, on_pass_begin=None, on_pass_end=None) -> Any:
    """Run the algorithm of `fit_cutting_planes` on any kind of training problem.

    The problem must have the members `start`, `plane`, `result`, `method` and `draft`, which have
    the same meaning as in `StructuralMarginProblem`.
    """
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        return _cut(problem, tol, max_iter, on_pass_begin, on_pass_end)


def _cut(problem, tol, max_iter, on_pass_begin, on_pass_end):
    vector, lower = problem.start, 0.0
    planes = _Planes(len(vector))
    # The vector with the lowest objective, as a tuple (vector, half its squared length, its risk).
    best: Any = None
    n_iter, n_open, reason = 0, 0, "max_iter"
    draft, lower_before = problem.draft, 0.0
    searched = 0  # number of iterations before the last search by the problem's own method

    def current_fit(reason="callback"):
        objective = best[1] + best[2]
        gap = _gap(objective, lower)
        return problem.result(best[0], objective, gap, n_iter, n_open, reason)

    try:
        while n_iter < max_iter:
            if on_pass_begin is not None:
                on_pass_begin(n_iter)
            half, known = 0.5 * (vector @ vector), planes.risk(vector)
            slope: Any = None
            proper = n_iter in (0, max_iter - 1)
            if n_iter % _DRAFTS == 0:
                proper |= n_open == 0 and lower <= _RISE * lower_before
                proper |= n_iter >= _STALE * searched
                lower_before = lower
            if draft is not None and not proper:
                slope, offset, _ = problem.plane(vector, draft)
                if offset - slope @ vector - known <= tol * (half + known):
                    slope = None
            proper = slope is None
            if proper:
                slope, offset, n_open = problem.plane(vector, problem.method)
                searched = n_iter
            found = offset - slope @ vector
            if not (np.isfinite(offset) and np.isfinite(slope @ slope)):
                raise ValueError(
                    "training overflowed: X, C or 1 / pairwise_penalty is too large; scale the "
                    "columns of X"
                )
            if best is not None:
                # The new plane may show that the risk at the best vector is higher than the risk
                # that the search at this vector found.
                best = best[0], best[1], max(best[2], offset - slope @ best[0])
            if proper and (best is None or half + max(found, known) < best[1] + best[2]):
                best = vector, half, max(found, known)
            assert best is not None  # the first iteration uses the problem's own method and sets it
            n_iter += 1
            if proper and found - known <= _ROUNDING * (half + known):
                reason = "tol" if _gap(best[1] + best[2], lower) <= tol else "rounding"
            else:
                planes.add(slope, offset)
                vector, lower_now = planes.solve()
                lower = max(lower, lower_now)
                if _gap(best[1] + best[2], lower) <= tol:
                    reason = "tol"
            gap = _gap(best[1] + best[2], lower)
            if on_pass_end is not None and on_pass_end(
                n_iter - 1, gap, len(planes.dual), current_fit
            ):
                reason = "callback"
            if reason != "max_iter":
                break
    except KeyboardInterrupt:
        if best is None:
            raise
        reason = "interrupted"
    return current_fit(reason)


def _gap(objective, lower):
    return max(float((objective - lower) / objective), 0.0) if objective > 0 else 0.0


# ------------------------------------- the quadratic program of the planes


def maximise_over_simplex(gram, offset, start):
    """Maximise ``offset.a - 1/2 a'(gram)a`` over a >= 0 with a sum of 1, up to rounding.

    Only active variables may differ from 0. Each step moves towards the maximum over the active
    variables. If a variable reaches 0 on the way, the step ends there and the variable becomes
    inactive. At the maximum, the derivatives of the objective are equal for all active variables.
    If inactive variables have larger derivatives than the active variables, the inactive variable
    with the largest derivative becomes active.
    `gram` (K, K) is symmetric and positive semidefinite, and `start` (K,) is a point of the
    simplex.
    """
    point = start.copy()
    active = point > 0
    best = _value(gram, offset, point), point
    for _ in range(10 * len(offset) + 100):
        index = np.flatnonzero(active)
        target = _face_maximum(gram[np.ix_(index, index)], offset[index])
        falling = target < 0
        if falling.any():
            here = point[index]
            reach = here[falling] / (here[falling] - target[falling])
            moved = here + reach.min() * (target - here)
            moved[np.flatnonzero(falling)[reach == reach.min()]] = 0.0
            point[index] = np.maximum(moved, 0.0)
            active[index] = point[index] > 0
        else:
            point[index] = target
            slope = offset - gram @ point
            level = slope @ point
            rival = int(slope.argmax())
            size = np.abs(offset).max() + np.abs(level)
            if active[rival] or slope[rival] <= level + _SLOPE * size:
                break
            active[rival] = True
        if not active.any():
            break
        point /= point.sum()
        value = _value(gram, offset, point)
        if value > best[0]:
            best = value, point.copy()
    value = _value(gram, offset, point)
    return point if value > best[0] else best[1]


def _value(gram, offset, point):
    return offset @ point - 0.5 * (point @ gram @ point)


def _face_maximum(gram, offset):
    """Return the point (n,) with a sum of 1 that maximises `_value`; entries may be negative."""
    n = len(offset)
    unit = max(np.trace(gram) / n, _LEAST_UNIT * np.abs(offset).max(), np.finfo(float).tiny)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = gram / unit
    system[np.arange(n), np.arange(n)] += _RIDGE
    system[n, :n] = system[:n, n] = 1.0
    return np.linalg.solve(system, np.append(offset / unit, 1.0))[:n]
