"""Limited-memory BFGS over one vector, an iteration at a time."""

from collections import deque

import numpy as np
from scipy.linalg.blas import daxpy, ddot

# Pairs of steps and gradient changes that stand for the curvature.
_MEMORY = 10
# Weak Wolfe conditions: enough decrease, and a slope that has become flatter.
_DECREASE, _CURVATURE = 1e-4, 0.9
_MAX_EVALUATIONS = 25


class LBFGS:
    """Minimiser of a smooth function (Nocedal and Wright 2006, algorithm 7.5).

    SciPy's has the same iterates in principle, but more overhead with some ten thousand
    variables than an evaluation costs here, and cannot be left and resumed between iterations.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(x) -> (value, gradient, info)``; the gradient is a new array.
    x : ndarray (n,), float64

    Attributes
    ----------
    x : ndarray (n,)
        Where it stands; never changed in place.
    value : float
    gradient : ndarray (n,)
    info : object
        What `evaluate` said of `x` besides.
    """

    def __init__(self, evaluate, x):
        self.evaluate = evaluate
        self.x = x
        self.value, self.gradient, self.info = evaluate(x)
        self._pairs = deque(maxlen=_MEMORY)

    def iterate(self):
        """Go down one step; False if there is none, as at a minimum to within rounding."""
        direction = self._direction()
        slope = ddot(self.gradient, direction)
        if not slope < 0:  # rounding has spoiled the curvature, or the gradient is 0
            self._pairs.clear()
            direction = -self.gradient
            slope = -ddot(self.gradient, self.gradient)
            if not slope < 0:
                return False
        step = 1.0 if self._pairs else min(1.0, 1 / np.sqrt(-slope))
        found = self._search(direction, slope, step)
        if found is None:
            if not self._pairs:
                return False
            self._pairs.clear()  # once more, straight down
            return self.iterate()
        x, value, gradient, info = found
        moved, change = x - self.x, gradient - self.gradient
        curvature = ddot(moved, change)
        if curvature > 1e-10 * ddot(change, change):
            self._pairs.append((moved, change, curvature))
        self.x, self.value, self.gradient, self.info = x, value, gradient, info
        return True

    def _direction(self):
        """Gradient times minus the inverse Hessian that the pairs stand for."""
        q = -self.gradient
        if not self._pairs:
            return q
        shares = []
        for moved, change, curvature in reversed(self._pairs):
            share = ddot(moved, q) / curvature
            daxpy(change, q, a=-share)
            shares.append(share)
        _, change, curvature = self._pairs[-1]
        q *= curvature / ddot(change, change)
        for (moved, change, curvature), share in zip(self._pairs, reversed(shares)):
            daxpy(moved, q, a=share - ddot(change, q) / curvature)
        return q

    def _search(self, direction, slope, step):
        """Point along the direction that meets the weak Wolfe conditions, by bisection.

        Where they cannot be met in the evaluations allowed, one that is lower than here; None if
        there is none.
        """
        low, high, lower = 0.0, np.inf, None
        for _ in range(_MAX_EVALUATIONS):
            x = self.x + step * direction
            value, gradient, info = self.evaluate(x)
            if not value <= self.value + _DECREASE * step * slope:  # NaN is too far as well
                high = step
                excess = value - self.value - step * slope
                if low == 0 and np.isfinite(excess) and excess > 0:  # where a parabola is lowest
                    step *= float(np.clip(-0.5 * step * slope / excess, 0.1, 0.5))
                    continue
            elif ddot(gradient, direction) < _CURVATURE * slope:
                low, lower = step, (x, value, gradient, info)
            else:
                return x, value, gradient, info
            step = 2 * low if high == np.inf else (low + high) / 2
        return lower
