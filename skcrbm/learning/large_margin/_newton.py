"""Newton steps of the dual of large margin machines on its free variables.

Coordinate descent finds soon which dual variables lie at a bound, and then takes long to settle
the others among each other. Those are the solution of a linear system: a block for each label,
which the pair weights couple.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg, sparse
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

_ROUNDS = 5
# A step that does not raise the objective is shortened so much, so often.
_SHORTER, _SHORTENINGS = 0.35, 8
# What holds a step back is added to the diagonal, relative to its mean: less after a step of
# full length, more after one cut below `_SHORT`.
_RIDGE, _LEAST_RIDGE, _MOST_RIDGE = 1e-3, 1e-6, 1e-2
_LESS, _MORE, _SHORT = 0.33, 3.0, 0.2
# Cost in visits of single variables by coordinate descent: of a label, and of 1000
# multiplications; measured, roughly.
_PER_LABEL, _PER_THOUSAND = 3000, 1
# Larger systems of all pair weights would not be worth it: then each label moves as if its
# pair weights were its own.
_MOST_PAIRS = 1000
# Inputs of the free variables, up to which those of labels that move together are held: 32 MB.
# Beyond, those of a label with more free variables than columns are copied out of X when asked for.
_MOST_INPUTS = 4_000_000
# Signs of other labels on the rows of free variables, at most: 160 MB.
_MOST_SIGNS = 20_000_000
# Of the mean diagonal; twin rows make the system singular.
_TWINS = 1e-10
_BOX_ROUNDS = 10


@dataclass
class _Label:
    """The free dual variables of a label, times their signs.

    Attributes
    ----------
    label : int
    rows : ndarray (n,)
    work_out : callable
        Returns, for numbers of rows, those of X and a 1, (n, D + 1).
    held : ndarray (n, D + 1) or None
        The same for all rows, if it is held; where that is wide, their products (n, n).
    wide : bool
    mean_square : float
        Mean of the diagonal of the products of the inputs.
    right : ndarray (n, L + 1)
        Signs of the other labels, 0 at its own, and what the fields lack to the margin. Only
        the last where there are no pair weights; L is 0 below, then.
    low, high : ndarray (n,)
        Bounds of the change.
    change : ndarray (n,)
    free : ndarray of bool (n,)
        Which of them no step has taken to a bound.
    """

    label: int
    rows: np.ndarray
    work_out: Callable
    held: np.ndarray | None
    wide: bool
    mean_square: float
    right: np.ndarray
    low: np.ndarray
    high: np.ndarray
    change: np.ndarray = field(init=False)
    free: np.ndarray = field(init=False)

    def __post_init__(self):
        self.change = np.zeros(len(self.rows))
        self.free = np.ones(len(self.rows), dtype=bool)

    def inputs(self, kept=slice(None)):
        """Return those (n, D + 1) of the variables that are kept; where wide, their products."""
        if self.held is None:
            return self.work_out(self.rows[kept])
        inputs = self.held[kept]
        return inputs[:, kept] if self.wide else inputs

    def factorise(self, ridge):
        """Solve for what is free, as far as it does not depend on the pair weights.

        Returns
        -------
        ndarray (L, L + 1) :
            ``P' M^-1 [P, r]`` of signs P, residuals r and M, the products of the inputs with
            `ridge` on the diagonal.
        """
        kept = slice(None) if self.free.all() else np.flatnonzero(self.free)
        inputs, right = self.inputs(kept), self.right[kept]
        matrix = inputs.copy() if self.wide else inputs.T @ inputs
        matrix.flat[:: len(matrix) + 1] += ridge
        factor, failed = dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
        if failed:
            raise linalg.LinAlgError
        half, _ = dtrtrs(factor, right if self.wide else inputs.T @ right, lower=1)
        product = half[:, :-1].T @ half
        if not self.wide:
            product = (right[:, :-1].T @ right - product) / ridge
        self._system = kept, factor, half, ridge
        return product

    def direction(self, pairs):
        """Newton step (n,) given that of the label's pair weights (L,)."""
        kept, factor, half, ridge = self._system
        solved, _ = dtrtrs(factor, half[:, -1] - half[:, :-1] @ pairs, lower=1, trans=1)
        if not self.wide:
            right, solved = self.right[kept], self.inputs(kept) @ solved
            solved = (right[:, -1] - right[:, :-1] @ pairs - solved) / ridge
        step = np.zeros(len(self.rows))
        step[self.free] = solved
        return step

    def try_step(self, step):
        """Clip a step (n,) to the bounds.

        Returns
        -------
        new, pushed, gain, pairs :
            The change with it, how it changes the fields through X, the increase of the
            objective without the pair weights, and what it adds to those (L,), times eta.
        """
        new = np.minimum(np.maximum(self.change + step, self.low), self.high)
        step = new - self.change
        inputs = self.inputs()
        pushed = inputs @ (step if self.wide else step @ inputs)
        gain = step @ (self.right[:, -1] - 0.5 * pushed)
        return new, pushed, gain, step @ self.right[:, :-1]

    def accept(self, new, pushed, pairs):
        """Make a step; whether it took variables to a bound."""
        self.change = new
        self.right[:, -1] -= pushed + self.right[:, :-1] @ pairs
        inside = (new > self.low) & (new < self.high)
        lost = bool((self.free & ~inside).any())
        self.free &= inside
        return lost


class NewtonSteps:
    """Newton steps on the free dual variables of a large margin machine.

    Parameters
    ----------
    problem : LargeMarginProblem
    """

    def __init__(self, problem):
        self._problem = problem
        n_labels = problem.signs.shape[1]
        self._ridge = np.full(n_labels, _RIDGE)
        self._joint = problem.spread > 0 and n_labels > 1
        self._n_pairs = n_labels * (n_labels - 1) // 2
        self._of_pairs = None
        if self._joint and self._n_pairs <= _MOST_PAIRS:
            index = np.zeros((n_labels, n_labels), dtype=np.intp)
            index[np.triu_indices(n_labels, 1)] = np.arange(self._n_pairs)
            index += index.T
            # Entries of a label with itself are 0, wherever they are added.
            self._of_pairs = index, index[:, :, None] * self._n_pairs + index[:, None, :]

    def cost(self, free):
        """Cost of `step`, in visits of single variables; infinite where it would fill the memory.

        Parameters
        ----------
        free : ndarray of bool (N, L)
        """
        n_free, width = free.sum(axis=0), self._problem.X.shape[1] + 1
        n_labels, least = len(n_free), np.minimum(n_free, width)
        if (n_free * least).sum() > max(_MOST_INPUTS, free.shape[0] * width):
            return np.inf
        each = least**3 / 3 + n_free * least * n_labels
        each += np.where(n_free > width, n_free * least**2, 0)
        if self._joint and self._of_pairs is None:
            if n_free.sum() * n_labels > max(_MOST_SIGNS, free.size):
                return np.inf
            each += np.where(n_free > 0, n_labels**2 * (n_free + n_labels / 3), 0)
        total = (n_free * least * width + _ROUNDS * each).sum()
        if self._of_pairs is not None:
            total += _ROUNDS * self._n_pairs**3 / 3
        return _PER_LABEL * np.count_nonzero(n_free) + _PER_THOUSAND * total / 1000

    def step(self, alpha, weights, free, exact=False):
        """Move free variables towards the optimum, those of all labels together.

        Variables that meet a bound stay there, and the others are solved for again. Changes alpha
        and the weights in place; the dual objective does not decrease.

        Parameters
        ----------
        alpha : ndarray (N, L)
        weights : tuple of ndarray (L, D), (L,), (L, L)
        free : ndarray of bool (N, L)
            Some or all of the variables between their bounds.
        exact : bool
            Do not hold the step back.
        """
        n_free = np.count_nonzero(free, axis=0)
        least = np.minimum(n_free, self._problem.X.shape[1] + 1)
        hold = (n_free * least).sum() <= _MOST_INPUTS
        columns = ((i, np.flatnonzero(column)) for i, column in enumerate(free.T))
        columns = [(i, rows) for i, rows in columns if len(rows)]
        if self._joint:
            labels = [self._label_of(alpha, weights, *column, hold) for column in columns]
            weights[2][:] += self._maximise(labels, exact)
            np.fill_diagonal(weights[2], 0.0)
            for each in labels:
                self._store(each, alpha, weights)
            return
        for column in columns:
            each = self._label_of(alpha, weights, *column, hold=True)
            self._maximise([each], exact)
            self._store(each, alpha, weights)

    def _inputs(self, rows):
        """Rows of X and a 1, (n, D + 1)."""
        X = self._problem.X[rows]
        inputs = np.ones((len(rows), X.shape[1] + 1))
        inputs[:, :-1] = X.toarray() if sparse.issparse(X) else X
        return inputs

    def _label_of(self, alpha, weights, i, rows, hold):
        """Return the `_Label` of free variables of label i; whether to hold its inputs."""
        coef, intercept, pairwise = weights
        X = self._problem.X[rows].astype(np.float64, copy=False)
        own, limit, start = (
            self._problem.signs[rows, i],
            self._problem.limits(rows, i),
            alpha[rows, i],
        )
        fields = X @ coef[i] + intercept[i]
        right = np.empty((len(rows), len(pairwise) + 1 if self._joint else 1))
        if self._joint:
            signs = right[:, :-1]
            signs[:] = self._problem.signs[rows]
            fields += signs @ pairwise[i]
            signs[:, i] = 0.0
        right[:, -1] = own * self._problem.margin - fields
        wide, held = X.shape[1] >= len(rows), None
        if wide:
            held = X @ X.T
            held = (held.toarray() if sparse.issparse(held) else held) + 1.0
        elif hold:
            held = self._inputs(rows)
        low, high = (
            np.where(own > 0, -start, start - limit),
            np.where(own > 0, limit - start, start),
        )
        values = X.data if sparse.issparse(X) else X
        mean_square = np.vdot(values, values) / len(rows) + 1.0
        return _Label(i, rows, self._inputs, held, wide, mean_square, right, low, high)

    def _store(self, label, alpha, weights):
        """Add the change of a label to the dual variables and their weights."""
        i, rows, change = label.label, label.rows, label.change
        positive, limit = self._problem.signs[rows, i] > 0, self._problem.limits(rows, i)
        new = np.clip(alpha[rows, i] + np.where(positive, change, -change), 0.0, limit)
        # Exactly at the bound, in spite of rounding.
        new[change == np.where(positive, label.low, label.high)] = 0.0
        top = change == np.where(positive, label.high, label.low)
        new[top] = limit[top]
        alpha[rows, i] = new
        weights[0][i] += self._problem.X[rows].T @ change
        weights[1][i] += change.sum()

    def _maximise(self, labels, exact):
        """Newton steps on labels, clipped; how they change the pair weights (L, L) if any."""
        n_labels = len(self._ridge)
        members = [each.label for each in labels]
        scale = max((each.mean_square for each in labels), default=1.0)
        moved = np.zeros((n_labels, n_labels) if self._joint else (n_labels, 0))
        for _ in range(_ROUNDS):
            left = [each for each in labels if each.free.any()]
            if not left:
                break
            ridge = _TWINS if exact else self._ridge[members[0]]
            try:
                pairs = self._pair_step(left, ridge * scale)
            except linalg.LinAlgError:
                break
            steps = [each.direction(pairs[each.label]) for each in left]
            share = 1.0
            for _ in range(_SHORTENINGS):
                tried = [each.try_step(share * step) for each, step in zip(left, steps)]
                half = np.zeros_like(moved)
                for each, found in zip(left, tried):
                    half[each.label] = found[3]
                pairs = self._problem.spread * (half + half.T) if self._joint else half
                gain = sum(found[2] for found in tried) - 0.5 * (half * pairs).sum()
                if gain > 0:
                    break
                share *= _SHORTER
            else:
                share = 0.0
            if not exact and share < _SHORT:
                self._ridge[members] = min(self._ridge[members[0]] * _MORE, _MOST_RIDGE)
            elif not exact and share == 1.0:
                self._ridge[members] = max(self._ridge[members[0]] * _LESS, _LEAST_RIDGE)
            if share == 0.0:
                break
            moved += pairs
            lost = [
                each.accept(found[0], found[1], pairs[each.label])
                for each, found in zip(left, tried)
            ]
            if share == 1.0 and not any(lost):
                break
        return moved

    def _pair_step(self, labels, ridge):
        """Newton step (L, L) of the pair weights, after which the labels solve for their own.

        (L, 0) without pair weights.
        """
        n_labels, penalty = len(self._ridge), self._problem.penalty
        result = np.zeros((n_labels, n_labels if self._joint else 0))
        if self._of_pairs is not None:
            products = np.zeros((n_labels, n_labels, n_labels + 1))
            for each in labels:
                products[each.label] = each.factorise(ridge)
            index, entries = self._of_pairs
            n_pairs = self._n_pairs
            matrix = np.bincount(entries.ravel(), products[:, :, :-1].ravel(), n_pairs**2)
            matrix = matrix.reshape(n_pairs, n_pairs)
            matrix.flat[:: n_pairs + 1] += penalty
            right = np.bincount(index.ravel(), products[:, :, -1].ravel(), n_pairs)
            factor, failed = dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
            if failed:
                raise linalg.LinAlgError
            result = dpotrs(factor, right, lower=1)[0][index]
            np.fill_diagonal(result, 0.0)
            return result
        for each in labels:  # one at a time: all products would fill the memory
            product = each.factorise(ridge)
            if self._joint:
                matrix = product[:, :-1] + penalty * np.eye(n_labels)
                result[each.label] = linalg.solve(matrix, product[:, -1], assume_a="pos")
        return result


def maximise_in_box(hessian, gradient, start, limit):
    """Maximise ``g . d - d' H d / 2`` over ``start + d`` in [0, limit], from d = 0.

    Newton steps on the variables that are free, each clipped to the box if that is an
    improvement and cut at the first bound otherwise. Variables do not leave bounds.
    """
    current = start.copy()
    free = np.arange(len(start))
    ridge = _TWINS * np.trace(hessian) / len(start)
    for _ in range(_BOX_ROUNDS):
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
