"""Cutting planes: the training of the structural support vector machine over label pairs.

Like `_dual_coordinate.py` it is no `Objective` of the training loop: each iteration looks for the
labels that violate the margin most, in all rows, adds their mean as one linear constraint, and
solves a quadratic program of all constraints so far, with a variable for each.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

from skcrbm.energies import IsingEnergy
from skcrbm.inference import ICM, infer
from skcrbm.utils.columns import linear_fields
from skcrbm.utils.parallel import one_blas_thread

# Of the mean square of the active planes: what keeps a system of dependent ones solvable.
_RIDGE = 1e-13
# Of the offsets: no smaller scale is needed, and all stays finite where planes have no slope.
_LEAST_UNIT = 1e-30
# Slopes closer to the highest than that, relatively, are not worth another step.
_SLOPE = 1e-12
# Planes that have not counted for so many iterations are dropped.
_IDLE = 50
# Planes are looked for by ICM while these are violated, but for one in so many.
_DRAFTS = 10
# A violation below this share of the objective is rounding.
_ROUNDING = 1e-9


@dataclass
class StructuralMarginProblem:
    """A pairwise machine to be learned for a large margin of whole label vectors.

    Minimise ``1/2 (|A|^2 + |b|^2) + eta/2 sum_{i<k} s_ik^2 + sum_n C_n max_y [D(y, y_n) +
    F_n(y) - F_n(y_n)]`` with ``F_n(y) = sum_i y_i (a_i . x_n + b_i) + sum_{i<k} s_ik y_i y_k``
    and D the number of labels that differ.

    Attributes
    ----------
    X : ndarray or CSR matrix (N, D)
    signs : ndarray (N, L)
        Labels y_n in {-1, +1}.
    limit : ndarray (N,)
        C_n.
    penalty : float
        eta; infinite without pair weights.
    one_hot : bool
        Whether the maximum is over the vectors with one label on.
    method : InferenceMethod
        What looks for the maximum, else: "branch_and_bound", "icm" or "linear_program". The last
        takes the maximum over the local polytope.
    n_jobs : int or None
    """

    X: object
    signs: np.ndarray
    limit: np.ndarray
    penalty: float
    one_hot: bool
    method: object
    n_jobs: int | None = None

    def __post_init__(self):
        # Sums in float64, whatever X is: the gap between two of them is what training goes by.
        self.X = self.X.astype(np.float64)
        if sparse.issparse(self.X):
            self.X = self.X.tocsr()
        n_labels = self.signs.shape[1]
        self._upper = np.triu_indices(n_labels, 1) if np.isfinite(self.penalty) else None
        self._unit = np.sqrt(self.penalty)

    @property
    def n_parameters(self):
        """Length of a vector of parameters: A, b and, if there are any, the pairs."""
        n_labels = self.signs.shape[1]
        n_pairs = 0 if self._upper is None else len(self._upper[0])
        return n_labels * (self.X.shape[1] + 1) + n_pairs

    def weights(self, vector):
        """Split a vector, whose pairs are in units of 1 / sqrt(eta): A (L, D), b (L,), S (L, L)."""
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
    def draft(self):
        """What finds violated label vectors sooner than `method`; None if nothing does."""
        quick = self.one_hot or self._upper is None or self.method.name == "icm"
        return None if quick else ICM()

    def plane(self, vector, method):
        """Find the most violated constraint: the risk is ``offset - slope . w`` or more for all w.

        Parameters
        ----------
        vector : ndarray (n_parameters,)
        method : InferenceMethod

        Returns
        -------
        slope : ndarray (n_parameters,)
        offset : float
        n_open : int
            Rows whose maximum is not proven by branch and bound.
        """
        coef, intercept, pairwise = self.weights(vector)
        fields = linear_fields(self.X, coef, intercept)
        means, converged = self._worst(fields, pairwise, method)
        missed = self.signs - means
        halves = (means == 0).astype(np.float64)
        # Where the search has found less than the row's own labels, these are its maximum.
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
        """Scores (N,) of the pairs; of two labels at one half the better value counts."""
        score = 0.5 * ((means @ pairwise) * means).sum(axis=1)
        return score + 0.5 * ((halves @ np.abs(pairwise)) * halves).sum(axis=1)

    def _worst(self, fields, pairwise, method):
        """Labels (N, L) in -1, 0, +1 of the maxima, 0 for one half; whether each is proven."""
        fields = fields - 0.5 * self.signs
        if self.one_hot:
            found = 2.0 * np.eye(fields.shape[1])[fields.argmax(axis=1)] - 1.0
            return found, np.ones(len(found), bool)
        energy = IsingEnergy(pairwise, fields)
        if method.name == "linear_program":
            from skcrbm.inference.ising.roof_dual import relaxed_labels  # needs kernels

            means, _, _ = relaxed_labels(energy, self.n_jobs)
            return means.astype(np.float64), np.ones(len(means), bool)
        found = infer(energy, method, returns="map", n_jobs=self.n_jobs)
        proven = found.converged | (method.name != "branch_and_bound")
        return 2.0 * found.assignment - 1.0, proven


@dataclass
class StructuralMarginFit:
    """What `fit_cutting_planes` found.

    Attributes
    ----------
    coef, intercept, pairwise : ndarray (L, D), (L,), (L, L)
    objective : float
        Of these weights, by the maxima that were found.
    gap : float
        (objective - lower bound) / objective.
    n_iter : int
        Searches through all rows.
    n_open : int
        Rows whose maximum was not proven by branch and bound in the last iteration.
    reason : {"tol", "rounding", "max_iter", "callback", "interrupted"}
        Why it ended. "rounding": the gap is above tol, but no violation can be told from it.
    """

    coef: np.ndarray
    intercept: np.ndarray
    pairwise: np.ndarray
    objective: float
    gap: float
    n_iter: int
    n_open: int
    reason: str


class _Planes:
    """Constraints, their quadratic program, and the vector that solves it.

    Attributes
    ----------
    slopes : ndarray (K, P)
    offsets : ndarray (K,)
    gram : ndarray (K, K)
    dual : ndarray (K,)
        Sums to 1; the first plane is 0, which bounds the risk from below.
    """

    def __init__(self, n_parameters):
        self.slopes = np.zeros((1, n_parameters))
        self.offsets, self.gram, self.dual = np.zeros(1), np.zeros((1, 1)), np.ones(1)
        self._idle = np.zeros(1, int)

    def add(self, slope, offset):
        """Add a plane; drop those that have not counted for long."""
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
        """Return the best vector for these planes, and a lower bound of every objective."""
        self.dual = maximise_over_simplex(self.gram, self.offsets, self.dual)
        self._idle = np.where(self.dual > 0, 0, self._idle + 1)
        vector = self.dual @ self.slopes
        return vector, self.dual @ self.offsets - 0.5 * (vector @ vector)

    def risk(self, vector):
        """Highest plane at a vector."""
        return (self.offsets - self.slopes @ vector).max()


def fit_cutting_planes(problem, *, tol, max_iter, on_pass_begin=None, on_pass_end=None):
    """Solve a `StructuralMarginProblem` by the cutting planes of one slack variable.

    Most planes are drafts by ICM, which are valid for every method, while these cut something off;
    objectives are those of planes by the problem's own method alone.

    It ends when the best objective found and the lower bound of the quadratic program are within
    `tol` of each other, relatively, or the search finds no constraint that is violated by more
    than rounding.

    Parameters
    ----------
    problem : StructuralMarginProblem
    tol : float
    max_iter : int
    on_pass_begin : callable, default=None
        Called before each iteration with its number, 0-based.
    on_pass_end : callable, default=None
        Called after each with its number, the relative gap, the number of planes, and a function
        that returns the `StructuralMarginFit` of now. Returns True to stop.

    Returns
    -------
    StructuralMarginFit

    Raises
    ------
    ValueError
        If the numbers overflow.
    """
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        return _cut(problem, tol, max_iter, on_pass_begin, on_pass_end)


def _cut(problem, tol, max_iter, on_pass_begin, on_pass_end):
    planes = _Planes(problem.n_parameters)
    vector, lower = np.zeros(problem.n_parameters), 0.0
    best = None  # vector, half its square, risk
    n_iter, n_open, reason = 0, 0, "max_iter"
    draft = problem.draft

    def now(reason="callback"):
        objective = best[1] + best[2]
        gap = _gap(objective, lower)
        return StructuralMarginFit(
            *problem.weights(best[0]), objective, gap, n_iter, n_open, reason
        )

    try:
        while n_iter < max_iter:
            if on_pass_begin is not None:
                on_pass_begin(n_iter)
            half, known = 0.5 * (vector @ vector), planes.risk(vector)
            slope = None
            if draft is not None and n_iter % _DRAFTS and n_iter < max_iter - 1:
                slope, offset, _ = problem.plane(vector, draft)
                if offset - slope @ vector - known <= tol * (half + known):
                    slope = None
            proper = slope is None
            if proper:
                slope, offset, n_open = problem.plane(vector, problem.method)
            found = offset - slope @ vector
            if not (np.isfinite(offset) and np.isfinite(slope @ slope)):
                raise ValueError(
                    "training overflowed: X, C or 1 / pairwise_penalty is too large; scale the "
                    "columns of X"
                )
            if best is not None:  # a search that is not exact may have missed this before
                best = best[0], best[1], max(best[2], offset - slope @ best[0])
            if proper and (best is None or half + max(found, known) < best[1] + best[2]):
                best = vector, half, max(found, known)
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
            if on_pass_end is not None and on_pass_end(n_iter - 1, gap, len(planes.dual), now):
                reason = "callback"
            if reason != "max_iter":
                break
    except KeyboardInterrupt:
        if best is None:
            raise
        reason = "interrupted"
    return now(reason)


def _gap(objective, lower):
    return max(float((objective - lower) / objective), 0.0) if objective > 0 else 0.0


# ------------------------------------- the quadratic program of the planes


def maximise_over_simplex(gram, offset, start):
    """Maximise ``offset.a - 1/2 a'(gram)a`` over a >= 0 with a sum of 1.

    Each step goes to the maximum on the face of the active variables, or as far as all stay
    positive. A variable whose slope is above that of the active ones becomes active, one that
    arrives at 0 rests. It ends at the maximum, up to rounding.

    Parameters
    ----------
    gram : ndarray (K, K)
        Symmetric, positive semidefinite.
    offset : ndarray (K,)
    start : ndarray (K,)
        A point of the simplex.

    Returns
    -------
    ndarray (K,)
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
    """Maximum over the points with a sum of 1, negative ones included."""
    n = len(offset)
    unit = max(np.trace(gram) / n, _LEAST_UNIT * np.abs(offset).max(), np.finfo(float).tiny)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = gram / unit
    system[np.arange(n), np.arange(n)] += _RIDGE
    system[n, :n] = system[:n, n] = 1.0
    return np.linalg.solve(system, np.append(offset / unit, 1.0))[:n]
