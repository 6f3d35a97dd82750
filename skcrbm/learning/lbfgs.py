"""Run L-BFGS on all rows at once, for exact objectives that draw no random numbers.

`descend` minimises the mean loss of the rows plus a penalty. `CenteredCoordinates` converts the
parameters to a vector that is easier to optimise, and `Minimizer` runs the algorithm one iteration
at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.linalg.blas import (
    daxpy,  # pyright: ignore[reportAttributeAccessIssue]  # not in the stubs
    ddot,  # pyright: ignore[reportAttributeAccessIssue]
)
from scipy.sparse import issparse

from skcrbm.inference.base import MagnitudeError
from skcrbm.learning.data import Batch, Clock
from skcrbm.learning.objectives import Objective, Step
from skcrbm.learning.penalties import L2, ElasticNet
from skcrbm.targets.indicator import observed_weight
from skcrbm.utils.columns import dense_chunks
from skcrbm.utils.limits import HIDDEN_STATES, LARGE_CONVEX_LABELS
from skcrbm.utils.parallel import one_blas_thread

# A fit has converged if `_WINDOW` iterations lower the objective by no more than `tol`, or by no
# more than a share of the objective's value. Without hidden units the share is `_CONVEX_SHARE`:
# there is a single minimum, and few more iterations reach it. With hidden units the share is
# `_SHARE`: there are many minima, and further iterations do not improve the score on held-out rows.
_WINDOW = 10
# For large data an iteration is expensive, so the shares are larger, `_LARGE_CONVEX_SHARE` and
# `_LARGE_SHARE`. On 13,000 rows with 983 labels, the iterations that the larger shares save would
# have changed the log-likelihood of new rows by a thousandth only.
_SHARE, _CONVEX_SHARE = 5e-4, 1e-8
_LARGE_SHARE, _LARGE_CONVEX_SHARE = 5e-3, 1e-4

# Ratios of two curvatures of the objective along a parameter: the curvature if all other parameters
# adapt to it, divided by the curvature if they are fixed. The three estimates are for the weights
# W, the intercepts and the hidden units. The ratio of W is small, because the intercepts can undo
# the effect of W on the marginals. The values were chosen such that L-BFGS needs few iterations on
# Scene, Emotions, Birds and Medical; a change by a factor of two hardly matters.
_WEIGHTS, _INTERCEPT, _HIDDEN = 0.02, 0.25, 0.09
_HIDDEN_COEF = 0.02
# Number added to the variance of each label, so that it is not 0 if a label is always on or off.
_LEAST = 1e-3

# Number of pairs (step, change of the gradient) from which the inverse Hessian is approximated.
_MEMORY = 10
# Constants of the weak Wolfe conditions. A step must lower the value by at least _DECREASE times
# the decrease that the initial slope predicts, and the slope at its end must be flatter than
# _CURVATURE times the initial slope.
_DECREASE, _CURVATURE = 1e-4, 0.9
_MAX_EVALUATIONS = 25  # largest number of evaluations in one line search
# `descend` rounds every point to a grid. The rounding may raise the objective by about
# _OF_TOLERANCE times the decrease at which the fit stops.
_OF_TOLERANCE = 1e-4


def descend(
    model,
    batch: Any,
    objective: Objective,
    penalty: L2,
    max_iter: int,
    share: float,
    tol: float = 0.0,
) -> Iterator[tuple[RowsObjective, Minimizer, bool]]:
    """Minimise the objective by L-BFGS.

    After each iteration the generator yields a `RowsObjective`, a `Minimizer` at its current point,
    and a bool that is True if the objective has converged.

    The last iteration is the first at which the objective has converged: `_WINDOW` iterations have
    lowered it by no more than `tol`, or by no more than `share` times its value.

    All points are rounded to a grid, so that rounding errors, which differ between processors, have
    no effect. Without the grid these differences would grow from iteration to iteration, and could
    lead to another minimum.
    """
    # Ignore overflow on purpose: the objective becomes inf, and the line search rejects the step.
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        smooth = L2(penalty.factors) if isinstance(penalty, ElasticNet) else penalty
        function = RowsObjective(model, batch, objective, smooth)
        start = function.coordinates.vector(model.params)
        if isinstance(penalty, ElasticNet):
            minimizer = OrthantMinimizer(function, start, function.coordinates.lengths(penalty))
        else:
            minimizer = Minimizer(function, start)
    minimizer.grid = _grid_of(max(tol, share * abs(minimizer.value)), len(start))
    if not np.isfinite(minimizer.value):
        raise FloatingPointError(
            "the objective is not finite at the initial parameters; scale the columns of X"
        )
    values = [minimizer.value]
    for _ in range(max_iter):
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            moved = minimizer.iterate()
        values.append(minimizer.value)
        converged = not moved
        if len(values) > _WINDOW:
            gain = values[-1 - _WINDOW] - values[-1]
            converged |= gain <= max(tol, share * abs(values[-1]))
        yield function, minimizer, converged
        if converged:
            return


def _grid_of(decrease: float, n: int) -> float:
    """Return the width of the grid, a power of two, for a vector of length n.

    The coordinates have a curvature of about 1. Rounding a coordinate to a grid of width w then
    raises the objective by w^2 / 24 on average. A fit that stops at a decrease of 0 has no grid.
    """
    width = np.sqrt(24 * _OF_TOLERANCE * decrease / max(n, 1))
    return float(2.0 ** np.floor(np.log2(width))) if 0 < width < np.inf else 0.0


def fit_rows(model, batch: Batch, objective: Objective, penalty: L2, max_iter: int, share: float):
    """Minimise the objective with `descend` and return the trained model."""
    for function, minimizer, _ in descend(model, batch, objective, penalty, max_iter, share):
        best = function, minimizer
    function, minimizer = best
    return model._replace(params=function.coordinates.params(minimizer.x))


def relative_tolerance(objective: Objective, model, n_rows: int) -> float:
    """Return the relative tolerance of a final fit, which is the argument `share` of `descend`."""
    if objective.share is not None:
        return objective.share
    n = n_rows * n_states(model)
    if model.params.weights.shape[1] == 0:
        return _CONVEX_SHARE if n <= LARGE_CONVEX_LABELS else _LARGE_CONVEX_SHARE
    return _SHARE if n <= HIDDEN_STATES else _LARGE_SHARE


def n_states(model) -> int:
    """Return a measure of the time that exact inference of a conditional RBM takes per row.

    Exact inference enumerates the states of the smaller layer, or the classes of a categorical
    output. The measure is the number of these states times the number of units in the other layer.
    """
    layers = model.params.weights.shape
    if model.energy_type.categorical:
        return max(1, layers[0] * layers[1])
    return max(1, max(layers) << min(layers))


class RowsObjective:
    """Mean loss of fixed rows plus a penalty, as a function of a vector in float64.

    `coordinates` converts the vector to parameters. The objective must not draw random numbers, and
    its gradient must be the gradient of its loss.
    """

    def __init__(self, model, batch: Any, objective: Objective, penalty: L2):
        self.model, self.objective, self.penalty = model, objective, penalty
        self.blocks = batch.blocks()
        self.coordinates: Any = objective.coordinates(model, batch, penalty)
        if self.coordinates is None:
            self.coordinates = CenteredCoordinates(model, batch, penalty)
        self.total = float(batch.weight.sum())
        self.n_evaluations = 0

    def __call__(self, vector):
        """Return the value, the gradient, and the number of rows whose inference converged.

        The value is infinite if the parameters are so large that the loss overflows.
        """
        params = self.coordinates.params(vector)
        if not all(np.isfinite(np.vdot(p, p)) for p in params):
            return np.inf, vector, 0
        clock = Clock(0, self.n_evaluations)
        self.n_evaluations += 1
        model = self.model._replace(params=params)
        try:
            step = Step.total(self._step(model, block, clock) for block in self.blocks)
        except MagnitudeError:
            return np.inf, vector, 0
        gradient = type(params)(*(np.asarray(g, np.float64) / self.total for g in step.gradient))
        self.penalty.add_gradient(gradient, params)
        value = step.loss / self.total + self.penalty.value(params)
        return value, self.coordinates.gradient(gradient), step.n_converged

    def _step(self, model, block, clock):
        step, _ = self.objective.step(model, block.computed(), clock, self.objective.start(0))
        return step


class Minimizer:
    """Minimiser of a smooth function (Nocedal and Wright 2006, algorithm 7.5).

    SciPy's L-BFGS would find the same iterates in principle. But its overhead exceeds the cost of
    an evaluation if there are some ten thousand variables, and it cannot pause between iterations.

    ``evaluate(x)`` returns the value, the gradient (a new array) and other information. The results
    at the current point `x` (n,) are stored in `value`, `gradient` and `info`. The array `x` is
    replaced, never changed in place. If `grid` is not 0, the entries of every new point are
    multiples of `grid`.
    """

    def __init__(self, evaluate: Callable[[np.ndarray], tuple[float, np.ndarray, Any]], x):
        self.evaluate = evaluate
        self.grid = 0.0
        self.x = x
        self.value, self.gradient, self.info = evaluate(x)
        self._pairs = deque(maxlen=_MEMORY)

    def iterate(self):
        """Do one iteration; return False if no step lowers the value, as at a minimum."""
        if not len(self.x):  # a model without parameters, such as a model of a single class
            return False
        direction = self._direction()
        slope = ddot(self.gradient, direction)
        # If the direction leads uphill because of rounding errors, follow the negative gradient.
        if not slope < 0:
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
            # Try again along the negative gradient. First evaluate the current point again: if the
            # objective is approximate, its messages have converged further since the point was
            # evaluated.
            self._pairs.clear()
            self.value, self.gradient, self.info = self.evaluate(self.x)
            return self.iterate()
        x, value, gradient, info = found
        moved, change = x - self.x, gradient - self.gradient
        curvature = ddot(moved, change)
        if curvature > 1e-10 * ddot(change, change):
            self._pairs.append((moved, change, curvature))
        self.x, self.value, self.gradient, self.info = x, value, gradient, info
        return True

    def _on_grid(self, x):
        """Round the entries of a new array to multiples of `grid`, in place."""
        if self.grid:
            x /= self.grid
            np.rint(x, out=x)
            x *= self.grid
        return x

    def _direction(self):
        """Return minus the approximate inverse Hessian times the gradient."""
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
        """Find a point along the direction that meets the weak Wolfe conditions, by bisection.

        If `_MAX_EVALUATIONS` evaluations find no such point, return the last point with sufficient
        decrease, or None if there is no point with sufficient decrease.
        """
        low, high, lower = 0.0, np.inf, None
        for _ in range(_MAX_EVALUATIONS):
            x = self._on_grid(self.x + step * direction)
            if self.grid and np.array_equal(x, self.x):
                return lower
            value, gradient, info = self.evaluate(x)
            if not value <= self.value + _DECREASE * step * slope:  # also True for NaN
                high = step
                excess = value - self.value - step * slope
                # Go to the minimum of the parabola through the two values, with the initial slope.
                if low == 0 and np.isfinite(excess) and excess > 0:
                    step *= float(np.clip(-0.5 * step * slope / excess, 0.1, 0.5))
                    continue
            elif ddot(gradient, direction) < _CURVATURE * slope:
                low, lower = step, (x, value, gradient, info)
            else:
                return x, value, gradient, info
            step = 2 * low if high == np.inf else (low + high) / 2
        return lower


class OrthantMinimizer(Minimizer):
    """Minimiser of a smooth function plus ``sum of lengths * |x|`` (OWL-QN [1]_).

    ``evaluate(x)`` returns the value and the gradient of the smooth function. `lengths` (n,) are
    the factors of the absolute values. A step stays in one orthant: an entry that would change its
    sign is set to 0, so that many parameters become exactly 0. The attribute `value` includes the
    absolute values.

    References
    ----------
    .. [1] Andrew and Gao (2007). Scalable training of L1-regularized log-linear models. ICML.
    """

    def __init__(self, evaluate, x, lengths: np.ndarray):
        self.lengths = lengths

        def with_lengths(x):
            value, gradient, info = evaluate(x)
            return value + float(lengths @ np.abs(x)), gradient, info

        super().__init__(with_lengths, x)

    def iterate(self):
        """Do one iteration; return False if no step lowers the value, as at a minimum."""
        if not len(self.x):  # a model without parameters, such as a model of a single class
            return False
        x = self.x
        slope = self._pseudo_gradient()
        smooth, self.gradient = self.gradient, slope
        direction = self._direction()
        self.gradient = smooth
        direction[direction * slope >= 0] = 0.0
        if not -ddot(slope, direction) > 0:
            if not self._pairs:
                return False
            self._pairs.clear()
            return self.iterate()
        orthant = np.where(x != 0, np.sign(x), -np.sign(slope))
        step = 1.0 if self._pairs else min(1.0, 1 / np.sqrt(-ddot(slope, direction)))
        for _ in range(_MAX_EVALUATIONS):
            new = self._on_grid(x + step * direction)
            new[new * orthant < 0] = 0.0
            value, gradient, info = self.evaluate(new)
            if value <= self.value + _DECREASE * ddot(slope, new - x):
                break
            step /= 2
        else:
            if not self._pairs:
                return False
            self._pairs.clear()
            return self.iterate()
        moved, change = new - x, gradient - self.gradient
        curvature = ddot(moved, change)
        if curvature > 1e-10 * ddot(change, change):
            self._pairs.append((moved, change, curvature))
        self.x, self.value, self.gradient, self.info = new, value, gradient, info
        return True

    def _pseudo_gradient(self):
        """Return the subgradient with the smallest length, which is 0 at a minimum."""
        x, g, lengths = self.x, self.gradient, self.lengths
        outside = g + np.sign(x) * lengths
        at_zero = np.where(g + lengths < 0, g + lengths, np.where(g - lengths > 0, g - lengths, 0))
        return np.where(x != 0, outside, at_zero)


class CenteredCoordinates:
    """Linear conversion between the parameters and a vector with better conditioning.

    The model is rewritten for centred units and columns of X, whose means are 0 [1]_. Centring
    changes the intercepts. Each entry of the vector is a parameter of the rewritten model
    times the square root of the parameter's estimated curvature, including the curvature of the
    penalty.

    References
    ----------
    .. [1] Melchior, Fischer and Wiskott (2016). How to center deep Boltzmann machines. JMLR.
    """

    def __init__(self, model, batch: Batch, penalty: L2):
        self.params_type = type(model.params)
        self.shapes = [p.shape for p in model.params]
        self.ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        weight = batch.weight / batch.weight.sum()
        self.x_mean, x_variance = column_moments(batch.X, weight)
        on, observed = observed_weight(batch.visible, weight)
        share = np.divide(on, observed, out=np.full(len(on), 0.5), where=observed > 0)
        self.v_mean = share
        n_hidden = model.params.weights.shape[1]
        self.h_mean = np.full(n_hidden, 0.5)
        spread = share * (1 - share) + _LEAST
        factors = penalty.factors
        self.scales = self.params_type(
            np.sqrt(_WEIGHTS * spread[:, None] + factors.weights),
            _scales(spread[:, None] * x_variance + factors.visible_coef),
            _scales(_HIDDEN_COEF * x_variance + factors.hidden_coef),
            np.sqrt(_INTERCEPT * spread),
            np.sqrt(_HIDDEN),
        )

    def vector(self, params):
        """Convert parameters to a vector."""
        p = params
        centred = p._replace(
            visible_intercept=p.visible_intercept
            + p.weights @ self.h_mean
            + p.visible_coef @ self.x_mean,
            hidden_intercept=p.hidden_intercept
            + self.v_mean @ p.weights
            + p.hidden_coef @ self.x_mean,
        )
        return self._flat(a * s for a, s in zip(centred, self.scales))

    def params(self, vector):
        """Convert a vector to parameters."""
        parts = np.split(vector, self.ends[:-1])
        parts = (p.reshape(shape) for p, shape in zip(parts, self.shapes))
        p = self.params_type(*(a / s for a, s in zip(parts, self.scales)))
        return p._replace(
            visible_intercept=p.visible_intercept
            - p.weights @ self.h_mean
            - p.visible_coef @ self.x_mean,
            hidden_intercept=p.hidden_intercept
            - self.v_mean @ p.weights
            - p.hidden_coef @ self.x_mean,
        )

    def gradient(self, gradient):
        """Convert a gradient for the parameters to the gradient for the vector."""
        g = gradient
        b, c = g.visible_intercept, g.hidden_intercept
        centred = g._replace(
            weights=g.weights - np.outer(b, self.h_mean) - np.outer(self.v_mean, c),
            visible_coef=g.visible_coef - np.outer(b, self.x_mean),
            hidden_coef=g.hidden_coef - np.outer(c, self.x_mean),
        )
        return self._flat(a / s for a, s in zip(centred, self.scales))

    @staticmethod
    def _flat(arrays):
        return np.concatenate([a.ravel() for a in arrays])


def _scales(curvature):
    """Return the square root of the curvature; 1 if it is 0 (for example of a constant column)."""
    return np.sqrt(np.where(curvature > 0, curvature, 1.0))


def column_moments(X, weight):
    """Return the weighted mean (D,) and variance (D,) of the columns of X."""
    if issparse(X):
        mean = np.asarray(weight @ X).ravel()
        second = np.asarray(weight @ X.multiply(X)).ravel()
        return mean, np.maximum(second - mean**2, 0)
    start = np.asarray(X[:1])
    mean, first, second = np.zeros((3, X.shape[1]))
    for rows in dense_chunks(X):
        part, share = np.asarray(X[rows]), weight[rows]
        mean += share @ part
        # Subtract the first row, so that a large mean does not cost precision.
        away = part - start
        first += share @ away
        second += np.einsum("n,nd,nd->d", share, away, away)
    return mean, np.maximum(second - first**2, 0)
