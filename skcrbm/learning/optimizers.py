"""First-order optimizers that move named tuples of arrays, and the average of their iterates.

`LateRows` serves Adam: rows of a parameter matrix that are moved when a step next reads them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import Any

import numpy as np

from skcrbm.kernels.adam import bring_up_rows, step_rows
from skcrbm.utils.row_sparse import RowSparse

# Entries that Adam moves at once, few enough to stay in the cache.
_BLOCK = 2**17
# (beta1 / sqrt(beta2))^400 is 1e-18: mean gradients older than that move nothing.
_LONGEST = 400
# beta2^40000 is 1e-17: from then on a step has its full length.
_SETTLED = 40000


class PolynomialAverage:
    """Average that forgets early iterates: iterate t has a weight of about ``t^power``.

    ``mean += (power + 1) / (t + power) (iterate - mean)`` (Shamir and Zhang 2013, section 4);
    power 0 is the plain average. `mean` is the average, `last` the iterate from which training
    goes on.
    """

    def __init__(self, power: float = 3.0):
        self.power = power
        self.forget()

    def forget(self):
        """Start a new average."""
        self.n_steps = 0
        self.mean: Any = None
        self.last: Any = None

    def resume(self, params):
        """Return the iterate to go on from if `params` are the average; else start anew."""
        if self.mean is not None and all(map(np.array_equal, self.mean, params)):
            return self.last
        self.forget()
        return params

    def add(self, params):
        """Add the next iterate to the average."""
        self.last = params
        self.n_steps += 1
        if self.mean is None:
            self.mean = type(params)(*(p.copy() for p in params))
            return
        share = (self.power + 1) / (self.n_steps + self.power)
        for mean, p in zip(self.mean, params):
            step = p - mean
            step *= p.dtype.type(share)
            mean += step

    def snapshot(self):
        """Return a copy of the current average."""
        return type(self.mean)(*(mean.copy() for mean in self.mean))


class Optimizer(ABC):
    """Base of the optimizers: moves the parameters and says which iterate to keep.

    Parameters
    ----------
    learning_rates : params of float
        One rate per parameter array.
    average : PolynomialAverage or None
        Average to keep instead of the last iterate.
    """

    #: True if gradients may be `RowSparse`.
    takes_rows = False

    def __init__(self, learning_rates, average=None):
        self.learning_rates = learning_rates
        self.average = average

    def start(self, params):
        """Return the iterate to go on from, given the parameters that were kept."""
        return params if self.average is None else self.average.resume(params)

    def ready(self, params, rows_read):
        """Return the parameters with every row that a step will read brought up to date.

        `rows_read` returns the answer of `Objective.rows_read`; it is called if some rows are late.
        """
        return params

    def update(self, params, gradient):
        """Return the parameters after one step.

        The arguments are not changed, with one exception: if gradients are `RowSparse`, arrays
        that `ready` or `update` returned are changed in place. Arrays from `keep` never are.
        """
        params = self._move(params, gradient)
        if self.average is not None:
            self.average.add(params)
        return params

    def keep(self, params):
        """Return the parameters to keep, given the last iterate."""
        return params if self.average is None else self.average.snapshot()

    @abstractmethod
    def _move(self, params, gradient):
        """Return the next iterate."""


class GradientSteps(Optimizer):
    """Gradient descent with classical momentum in [0, 1)."""

    def __init__(self, learning_rates, momentum=0.0, average=None):
        super().__init__(learning_rates, average)
        self.momentum = momentum
        self.velocity = None

    def _move(self, params, gradient):
        if not self.momentum:
            new = []
            for p, g, rate in zip(params, gradient, self.learning_rates):
                step = p.dtype.type(rate) * g
                # In place: large temporary arrays cost more than the arithmetic.
                new.append(np.subtract(p, step, out=step))
            return type(params)(*new)
        if self.velocity is None:
            self.velocity = [np.zeros_like(p) for p in params]
        new = []
        for p, g, v, rate in zip(params, gradient, self.velocity, self.learning_rates):
            v *= self.momentum
            v -= rate * g
            new.append(p + v)
        return type(params)(*new)


class AdamSteps(Optimizer):
    """Adam (Kingma and Ba 2015) with its usual constants."""

    beta1, beta2, epsilon = 0.9, 0.999, 1e-8

    def __init__(self, learning_rates, average=None):
        super().__init__(learning_rates, average)
        self.n_steps = 0
        self.first: Any = None
        self.second: Any = None
        # By number of array: the arrays whose gradients have had few rows.
        self.late = {}

    @property
    def takes_rows(self):
        """True if gradients may be `RowSparse`; an average needs all rows at each step."""
        return self.average is None

    def ready(self, params, rows_read):
        """Make up for the steps that late rows have missed; see `Optimizer`."""
        if not self.late:
            return params
        rows = rows_read()

        def bring_up(k, late, *state):
            few = None if rows is None else rows[k]
            return late.release(*state) if few is None else late.ready(*state, few)

        return self._each_late(params, bring_up)

    def keep(self, params):
        """Return the parameters to keep, all rows brought up to date."""
        params = self._each_late(params, lambda k, late, *state: late.release(*state))
        return super().keep(params)

    def _each_late(self, params, change):
        """Return the parameters with `change` applied to the arrays that have late rows."""
        new = list(params)
        for k, late in self.late.items():
            new[k] = change(k, late, params[k], (self.first[k], self.second[k]), self.n_steps)
        return type(params)(*new)

    def _move(self, params, gradient):
        if self.first is None:
            self.first = [np.zeros_like(p) for p in params]
            self.second = [np.zeros_like(p) for p in params]
        self.n_steps += 1
        correction = step_length(self.n_steps, self.beta1, self.beta2)
        new = []
        for k, (p, g, rate) in enumerate(zip(params, gradient, self.learning_rates)):
            moments = self.first[k], self.second[k]
            if isinstance(g, RowSparse):
                new.append(self._late_rows(k, g.shape).step(p, moments, self.n_steps, g))
                continue
            if k in self.late:
                p = self.late[k].release(p, moments, self.n_steps - 1)
            moved = np.empty_like(p)
            step = p.dtype.type(rate * correction)
            for rows in _blocks(p):
                m, s = (moment[rows] for moment in moments)
                self._move_block(p[rows], g[rows], m, s, step, moved[rows])
            new.append(moved)
        return type(params)(*new)

    def _late_rows(self, k, shape):
        """Return the state of an array whose gradients have few rows."""
        if k not in self.late:
            constants = self.learning_rates[k], self.beta1, self.beta2, self.epsilon
            self.late[k] = LateRows(shape, self.n_steps - 1, *constants)
        return self.late[k]

    def _move_block(self, p, g, m, s, step, work):
        """Write the new values of a block of entries to `work`; update the moments m and s."""
        np.subtract(g, m, out=work)  # all operations are in place
        work *= 1 - self.beta1
        m += work
        np.multiply(g, g, out=work)
        work -= s
        work *= 1 - self.beta2
        s += work
        np.sqrt(s, out=work)
        work += self.epsilon
        np.divide(m, work, out=work)
        work *= step
        np.subtract(p, work, out=work)


def _blocks(p):
    """Return slices of the first axis of an array with about `_BLOCK` entries each."""
    n = len(p)
    length = max(1, _BLOCK // max(1, p.size // max(1, n)))
    return [slice(first, first + length) for first in range(0, n, length)]


# ------------------------------------------- rows that Adam moves when they are next read


def step_length(n_steps, beta1, beta2):
    """Return the length of step number `n_steps` at rate 1, corrected for means that start at 0."""
    return np.sqrt(1 - beta2**n_steps) / (1 - beta1**n_steps)


@cache
def _missed_steps(beta1, beta2):
    """Return the arrays of step lengths that `bring_up_rows` takes."""
    steps = np.arange(1, _SETTLED + 1)
    delays = steps[:_LONGEST]
    grown = beta2 ** (-0.5 * delays)
    return step_length(steps, beta1, beta2), beta1**delays * grown, grown


class LateRows:
    """Record of the steps that the rows of a flat parameter array have missed.

    A row without a gradient is not moved until a step reads it; then it makes up for all missed
    steps at once. The result is the result of Adam with all rows moved at each step, at the cost of
    the rows that are read. It is exact up to rounding, and up to a share of 1e-4 of the moves of
    entries whose gradients are no larger than epsilon.

    `shape` is the shape of the matrix that the array holds, `n_steps` the number of steps so far;
    the other arguments are the options of Adam.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        n_steps: int,
        rate: float,
        beta1: float,
        beta2: float,
        epsilon: float,
    ):
        self._shape = shape
        self._rate, self._betas, self._epsilon = float(rate), (beta1, beta2), epsilon
        self._done = np.full(shape[0], n_steps, np.int64)
        # A private copy that is changed in place; if it is None, no row is late.
        self._own: Any = None

    def ready(self, params, moments, n_steps, rows):
        """Bring some rows up to date with a step and return the flat parameters.

        `moments`, the mean gradients and mean squares, are changed in place. Later calls change
        the returned array.
        """
        if params is not self._own:
            self.release(
                params, moments, n_steps
            )  # the moments of parameters that were given up count
            self._own = params.copy()
        self._bring_up(moments, n_steps, rows)
        return self._own

    def step(self, params, moments, n_steps, gradient):
        """Make step number `n_steps` with a `RowSparse` gradient; return the result of `ready`."""
        params = self.ready(params, moments, n_steps - 1, gradient.rows)
        length = self._rate * step_length(n_steps, *self._betas)
        rows = gradient.rows.astype(np.int64, copy=False)
        arrays = [a.reshape(self._shape) for a in (params, *moments)]
        step_rows(*arrays, rows, gradient.values, length, self._betas, self._epsilon)
        self._done[rows] = n_steps
        return params

    def release(self, params, moments, n_steps):
        """Return the parameters with all rows up to date; later calls do not change them."""
        if self._own is not None:
            self._bring_up(moments, n_steps, np.arange(self._shape[0]))
            self._own = None
        self._done[:] = n_steps
        return params

    def _bring_up(self, moments, n_steps, rows):
        bring_up_rows(
            *(a.reshape(self._shape) for a in (self._own, *moments)),
            rows.astype(np.int64, copy=False),
            self._done,
            n_steps,
            self._rate,
            *_missed_steps(*self._betas),
            self._betas,
            self._epsilon,
        )
