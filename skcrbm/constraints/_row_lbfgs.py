"""Minimise a function of each row of an array at the same time, by L-BFGS.

`scipy.optimize` minimises a single function, so each evaluation would answer for a single row only.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Number of earlier steps from which the curvature is approximated.
_MEMORY = 10
# A step is accepted if it lowers the value by this share of the decrease that the slope predicts.
_DECREASE = 1e-4
# A step is halved at most so often, and rounding may raise the value by this share.
_MAX_HALVINGS, _ROUNDING = 20, 1e-13


def minimise_rows(ask: Callable, x: np.ndarray, close: float, max_iter: int) -> np.ndarray:
    """Return the minima (n, L) of n smooth functions.

    ``ask(x, rows)`` returns the values (m,) and the gradients (m, L) at the points `x` (m, L) of
    the functions with the indices `rows` (m,). The search for a row ends if no entry of its
    gradient is larger than `close`, if rounding hides any decrease, or after `max_iter` iterations.
    A row does not depend on the other rows.
    """
    x = x.copy()
    value, gradient = ask(x, np.arange(len(x)))
    history = _History(*x.shape)
    active = np.flatnonzero(abs(gradient).max(axis=1, initial=0.0) > close)
    for _ in range(max_iter):
        if not len(active):
            break
        step = -history.times(gradient[active], active)
        slope = (step * gradient[active]).sum(axis=1)
        found = _search(ask, x[active], value[active], step, slope, active)
        new_x, new_value, new_gradient, moved = found
        history.add(
            active[moved], (new_x - x[active])[moved], (new_gradient - gradient[active])[moved]
        )
        x[active], value[active], gradient[active] = new_x, new_value, new_gradient
        active = active[moved & (abs(new_gradient).max(axis=1) > close)]
    return x


def _search(ask, x, value, step, slope, rows):
    """Halve the steps until the values are low enough; return points, values and gradients.

    The last result is a mask of the rows that moved.
    """
    size, waiting = np.ones(len(x)), np.arange(len(x))
    new_x, new_value, new_gradient = x.copy(), value.copy(), np.zeros_like(x)
    moved = np.zeros(len(x), bool)
    for _ in range(_MAX_HALVINGS):
        tried = x[waiting] + size[waiting, None] * step[waiting]
        at, slopes = ask(tried, rows[waiting])
        limit = value[waiting] + _DECREASE * size[waiting] * slope[waiting]
        good = at <= limit + _ROUNDING * abs(value[waiting])
        here = waiting[good]
        new_x[here], new_value[here], new_gradient[here] = tried[good], at[good], slopes[good]
        moved[here] = True
        waiting = waiting[~good]
        size[waiting] /= 2
        if not len(waiting):
            return new_x, new_value, new_gradient, moved
    new_gradient[waiting] = ask(x[waiting], rows[waiting])[1]
    return new_x, new_value, new_gradient, moved


class _History:
    """The last steps of each row, and the changes of its gradient along these steps."""

    def __init__(self, n_rows, n):
        self.steps = np.zeros((_MEMORY, n_rows, n))
        self.changes = np.zeros((_MEMORY, n_rows, n))
        self.share = np.zeros((_MEMORY, n_rows))  # 1 / (step @ change); 0 if there is no step
        self.scale = np.ones(n_rows)

    def add(self, rows, step, change):
        """Remember the last step (m, L) of the `rows` (m,) if its curvature is positive."""
        curvature, length = (step * change).sum(axis=1), (change**2).sum(axis=1)
        kept = curvature > 1e-12 * length
        rows = rows[kept]
        for array, new in ((self.steps, step), (self.changes, change)):
            array[:-1, rows] = array[1:, rows]
            array[-1, rows] = new[kept]
        self.share[:-1, rows] = self.share[1:, rows]
        self.share[-1, rows] = 1 / curvature[kept]
        self.scale[rows] = curvature[kept] / length[kept]

    def times(self, gradient, rows):
        """Return the approximate inverse Hessian times the gradient (m, L), for the `rows` (m,)."""
        result = gradient.copy()
        used = np.zeros((_MEMORY, len(rows)))
        for k in range(_MEMORY - 1, -1, -1):
            used[k] = self.share[k, rows] * (self.steps[k, rows] * result).sum(axis=1)
            result -= used[k][:, None] * self.changes[k, rows]
        result *= self.scale[rows, None]
        for k in range(_MEMORY):
            back = self.share[k, rows] * (self.changes[k, rows] * result).sum(axis=1)
            result += (used[k] - back)[:, None] * self.steps[k, rows]
        return result
