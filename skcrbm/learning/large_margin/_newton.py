"""Newton steps on the free dual variables of large margin machines.

A dual variable is free if it is strictly between its bounds. Coordinate descent quickly finds out
which variables are free, but then converges slowly. As long as the other variables stay at their
bounds, the optimum of the free variables solves a linear system. The system has a block for each
label, and the pair weights couple the blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.linalg.lapack import (
    dpotrf,  # pyright: ignore[reportAttributeAccessIssue]  # not in the stubs
    dpotrs,  # pyright: ignore[reportAttributeAccessIssue]
    dtrtrs,  # pyright: ignore[reportAttributeAccessIssue]
)

# Largest number of Newton steps in one call of `NewtonSteps.step`.
_ROUNDS = 5
# A step that does not increase the objective is shortened: multiplied by `_SHORTER`, at most
# `_SHORTENINGS` times.
_SHORTER, _SHORTENINGS = 0.35, 8
# Each Newton system gets a ridge, a multiple of its mean diagonal entry, which shortens the step.
# The ridge starts at `_RIDGE`. It is multiplied by `_RIDGE_FALL` (down to `_MIN_RIDGE`) after a
# step of full length, and by `_RIDGE_RISE` (up to `_MAX_RIDGE`) after a step that is shortened to
# less than `_SHORT` times its length.
_RIDGE, _MIN_RIDGE, _MAX_RIDGE = 1e-3, 1e-6, 1e-2
_RIDGE_FALL, _RIDGE_RISE, _SHORT = 0.33, 3.0, 0.2
# Cost of a Newton step for each label, and for each 1000 multiplications, as measured on one
# machine. The unit is the cost of a coordinate-descent step on one variable.
_PER_LABEL, _PER_THOUSAND = 3000, 1
# If there are more pair weights than this number, it would be too slow to solve one system for all
# labels. Each label then makes its step as if the other labels did not change its pair weights.
_MAX_PAIRS = 1000
# A joint step keeps the inputs of the free variables in memory if they have at most this number of
# float64 values (32 MB). Otherwise, each step computes them again for labels with more free
# variables than columns of X.
_MAX_INPUTS = 4_000_000
# If there are more than `_MAX_PAIRS` pair weights, all arrays `_Label.right` together may have at
# most this number of float64 entries (160 MB), or one entry per dual variable if that is more. If
# the arrays would be larger, no Newton step is made.
_MAX_SIGNS = 20_000_000
# Ridge of exact steps, as a multiple of the mean diagonal entry. The ridge is not 0, because equal
# rows would make the system singular.
_EQUAL_ROWS = 1e-10
# Largest number of Newton steps in one call of `maximise_in_box`.
_BOX_ROUNDS = 10


@dataclass
class _Label:
    """The n free dual variables of one label, and the data that Newton steps need.

    A free variable belongs to a row of X, and is stored after multiplication by the sign of the
    label in this row. The inputs of a row are the row of X with a 1 appended.
    """

    label: int
    rows: np.ndarray  # (n,) indices of the rows of the free variables
    compute_inputs: Callable  # returns the inputs (n, D + 1) of given rows
    # Cached inputs (n, D + 1) of `rows`, or their products (n, n) if `wide`; None if not cached.
    held: np.ndarray | None
    wide: bool  # True if there are at least as many columns of X as free variables
    mean_square: float  # mean squared length of the inputs
    # Array (n, L + 1). The first L columns are the signs of the other labels in each row (0 for
    # this label). The last column has the residuals ``sign * margin - field``. If there are no pair
    # weights, there is only the last column, and L in the shapes of the methods means 0.
    right: np.ndarray
    low: np.ndarray  # (n,) lower bounds of `change`
    high: np.ndarray  # (n,) upper bounds of `change`
    change: np.ndarray = field(init=False)  # (n,) sum of the steps so far
    free: np.ndarray = field(init=False)  # (n,) of bool: False after a variable reaches a bound

    def __post_init__(self):
        self.change = np.zeros(len(self.rows))
        self.free = np.ones(len(self.rows), dtype=bool)

    def inputs(self, kept: Any = slice(None)):
        """Return the inputs (n, D + 1) of the chosen variables.

        If `wide` is True, only the inner products (n, n) of these inputs are returned. `kept` holds
        the indices of the n chosen variables in `rows`; by default all variables are chosen.
        """
        if self.held is None:
            return self.compute_inputs(self.rows[kept])
        inputs = self.held[kept]
        return inputs[:, kept] if self.wide else inputs

    def factorise(self, ridge):
        """Factorise M, the inner products of the inputs of free variables plus `ridge` times I.

        Returns ``P' M^-1 [P, r]`` (L, L + 1), where P are the signs in `right`, and r the residuals
        in its last column. The step of the pair weights is computed from this array. The method
        `direction` uses the stored factors.
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
        """Return the Newton step (n,) of the variables, given the step (L,) of the pair weights."""
        kept, factor, half, ridge = self._system
        solved, _ = dtrtrs(factor, half[:, -1] - half[:, :-1] @ pairs, lower=1, trans=1)
        if not self.wide:
            right, solved = self.right[kept], self.inputs(kept) @ solved
            solved = (right[:, -1] - right[:, :-1] @ pairs - solved) / ridge
        step = np.zeros(len(self.rows))
        step[self.free] = solved
        return step

    def try_step(self, step):
        """Clip a step (n,) to the bounds, without making the step.

        Returns four results: the new value of `change`; the change (n,) of the margins without the
        terms of pair weights; the increase of the objective if the pair weights stay fixed; and
        eta times the change (L,) of the pair weights that follows from the step, where eta is the
        factor of their penalty.
        """
        new = np.minimum(np.maximum(self.change + step, self.low), self.high)
        step = new - self.change
        inputs = self.inputs()
        pushed = inputs @ (step if self.wide else step @ inputs)
        gain = step @ (self.right[:, -1] - 0.5 * pushed)
        return new, pushed, gain, step @ self.right[:, :-1]

    def accept(self, new, pushed, pairs):
        """Make the step that `try_step` has tried; return True if a variable reached a bound.

        `new` and `pushed` are results of `try_step`. `pairs` (L,) is the change of the label's pair
        weights.
        """
        self.change = new
        self.right[:, -1] -= pushed + self.right[:, :-1] @ pairs
        inside = (new > self.low) & (new < self.high)
        lost = bool((self.free & ~inside).any())
        self.free &= inside
        return lost


class NewtonSteps:
    """Newton steps on the free dual variables of a `LargeMarginProblem`."""

    def __init__(self, problem):
        self._problem = problem
        n_labels = problem.signs.shape[1]
        self._ridge = np.full(n_labels, _RIDGE)
        self._joint = problem.spread > 0 and n_labels > 1
        self._n_pairs = n_labels * (n_labels - 1) // 2
        self._pair_index = None
        if self._joint and self._n_pairs <= _MAX_PAIRS:
            index = np.zeros((n_labels, n_labels), dtype=np.intp)
            index[np.triu_indices(n_labels, 1)] = np.arange(self._n_pairs)
            index += index.T
            # The diagonal of `index` is arbitrary: a label has no pair weight with itself, so the
            # values added there are 0.
            self._pair_index = index, index[:, :, None] * self._n_pairs + index[:, None, :]

    def cost(self, free):
        """Return the cost of `step`, or infinity if it would need too much memory.

        The unit is the cost of a coordinate-descent step on one variable. `free` (N, L) marks the
        variables that the step would change.
        """
        n_free, width = free.sum(axis=0), self._problem.X.shape[1] + 1
        n_labels, least = len(n_free), np.minimum(n_free, width)
        if (n_free * least).sum() > max(_MAX_INPUTS, free.shape[0] * width):
            return np.inf
        each = least**3 / 3 + n_free * least * n_labels
        each += np.where(n_free > width, n_free * least**2, 0)
        if self._joint and self._pair_index is None:
            if n_free.sum() * n_labels > max(_MAX_SIGNS, free.size):
                return np.inf
            each += np.where(n_free > 0, n_labels**2 * (n_free + n_labels / 3), 0)
        total = (n_free * least * width + _ROUNDS * each).sum()
        if self._pair_index is not None:
            total += _ROUNDS * self._n_pairs**3 / 3
        return _PER_LABEL * np.count_nonzero(n_free) + _PER_THOUSAND * total / 1000

    def step(self, alpha, weights, free, exact=False):
        """Move the free variables of all labels towards their joint optimum.

        If variables reach a bound, they stay there, and the system is solved again for the other
        variables. `alpha` (N, L) and the weights A, b and S are changed in place. The dual
        objective does not decrease. `free` (N, L) marks the variables to move; all of them must be
        strictly between their bounds. If `exact` is True, the ridge is nearly 0.
        """
        n_free = np.count_nonzero(free, axis=0)
        least = np.minimum(n_free, self._problem.X.shape[1] + 1)
        hold = (n_free * least).sum() <= _MAX_INPUTS
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
        """Return the inputs (n, D + 1) of the given rows: rows of X with a 1 appended."""
        X = self._problem.X[rows]
        inputs = np.ones((len(rows), X.shape[1] + 1))
        inputs[:, :-1] = X.toarray() if sparse.issparse(X) else X
        return inputs

    def _label_of(self, alpha, weights, i, rows, hold):
        """Return the `_Label` of label `i`, whose free variables are in `rows`.

        The inputs are cached if `hold` is True.
        """
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
        """Add the change of a label's variables to `alpha`, and update A and b in `weights`."""
        i, rows, change = label.label, label.rows, label.change
        positive, limit = self._problem.signs[rows, i] > 0, self._problem.limits(rows, i)
        new = np.clip(alpha[rows, i] + np.where(positive, change, -change), 0.0, limit)
        # Rounding may have moved variables slightly away from their bound, so set them to exactly 0
        # or `limit`.
        new[change == np.where(positive, label.low, label.high)] = 0.0
        top = change == np.where(positive, label.high, label.low)
        new[top] = limit[top]
        alpha[rows, i] = new
        weights[0][i] += self._problem.X[rows].T @ change
        weights[1][i] += change.sum()

    def _maximise(self, labels, exact):
        """Make joint Newton steps for the given labels, clipped to the bounds of the variables.

        Returns the total change (L, L) of the pair weights.
        """
        n_labels = len(self._ridge)
        members = [each.label for each in labels]
        scale = max((each.mean_square for each in labels), default=1.0)
        moved = np.zeros((n_labels, n_labels) if self._joint else (n_labels, 0))
        for _ in range(_ROUNDS):
            left = [each for each in labels if each.free.any()]
            if not left:
                break
            ridge = _EQUAL_ROWS if exact else self._ridge[members[0]]
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
                self._ridge[members] = min(self._ridge[members[0]] * _RIDGE_RISE, _MAX_RIDGE)
            elif not exact and share == 1.0:
                self._ridge[members] = max(self._ridge[members[0]] * _RIDGE_FALL, _MIN_RIDGE)
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
        """Return the Newton step (L, L) of the pair weights, or (L, 0) without pair weights.

        `_Label.direction` computes the step of each label from the step of the pair weights.
        """
        n_labels, penalty = len(self._ridge), self._problem.penalty
        result = np.zeros((n_labels, n_labels if self._joint else 0))
        if self._pair_index is not None:
            products = np.zeros((n_labels, n_labels, n_labels + 1))
            for each in labels:
                products[each.label] = each.factorise(ridge)
            index, entries = self._pair_index
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
        for each in labels:  # use one product at a time, to save memory
            product = each.factorise(ridge)
            if self._joint:
                matrix = product[:, :-1] + penalty * np.eye(n_labels)
                result[each.label] = linalg.solve(matrix, product[:, -1], assume_a="pos")
        return result


def maximise_in_box(hessian, gradient, start, limit):
    """Maximise ``g . d - d' H d / 2`` subject to ``start + d`` in [0, limit]; return start + d.

    The gradient g and the matrix H are the arguments `gradient` and `hessian`. The result may be
    approximate. Each iteration makes a Newton step on the free variables. If the step leaves the
    box, the step is either clipped to the box or shortened to end at the first bound, whichever
    gives the higher value. Variables that reach a bound stay there.
    """
    current = start.copy()
    free = np.arange(len(start))
    ridge = _EQUAL_ROWS * np.trace(hessian) / len(start)
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
        if share < 1:  # rounding may miss the bound, so set these variables exactly to it
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
    """Return the increase of the objective by a step of the free variables."""
    return gradient[free] @ step - 0.5 * step @ hessian[np.ix_(free, free)] @ step
