"""Update parameters (named tuples of arrays) by first-order steps, and average the iterates.

`LateRows` lets Adam postpone the update of rows of a parameter matrix until a step reads them. This
saves time if X is sparse.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from functools import cache
from typing import Any

import numpy as np

from skcrbm.kernels.adam import bring_up_rows, step_rows
from skcrbm.utils.row_sparse import RowSparse

# Number of array entries that Adam updates at once. A block of this size fits into the cache of the
# processor.
_BLOCK = 2**17
# Number of steps after which an old gradient no longer moves a parameter: its factor is then (beta1
# / sqrt(beta2))^400, which is only 1e-18.
_LONGEST = 400
# Number of steps after which Adam's bias correction is 1 up to rounding, because beta2^40000 is
# only 1e-17.
_SETTLED = 40000
# Number of steps after which the first rates of Adam begin to decline, see `AdamSteps`.
_FIRST_STEPS = 10


class PolynomialAverage:
    """Average of iterates that forgets early iterates: iterate t has a weight of about ``t^power``.

    Each iterate updates the average by ``mean += (power + 1) / (t + power) (iterate - mean)``
    (Shamir and Zhang 2013, section 4). Power 0 gives the plain average. `mean` is the average, and
    `last` is the iterate from which training continues.
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
        """Return the last iterate if `params` are the stored average; else start a new average.

        Training continues from the returned iterate.
        """
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
    """Base class of the optimizers, which update the parameters and choose which iterate to keep.

    `learning_rates` has one rate per parameter array. `average` is None to keep the last iterate,
    or a `PolynomialAverage` to keep the average of the iterates.
    """

    #: True if gradients may be `RowSparse`.
    takes_rows = False

    def __init__(self, learning_rates, average=None):
        self.learning_rates = learning_rates
        self.average = average

    def start(self, params):
        """Return the iterate from which training continues, given the kept parameters."""
        return params if self.average is None else self.average.resume(params)

    def ready(self, params, rows_read):
        """Do all postponed updates of rows that the next step reads, and return the parameters.

        ``rows_read()`` returns the result of `Objective.rows_read`; this function is called only if
        updates have been postponed.
        """
        return params

    def update(self, params, gradient):
        """Return the parameters after one step.

        The arguments are not changed, with one exception: if gradients are `RowSparse`, parameter
        arrays that `ready` or `update` has returned are changed in place. Arrays that `keep` has
        returned never change.
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

    def with_more_rows(self, n_new) -> Optimizer | None:
        """Return a copy for parameter arrays with more rows, or None if a new optimizer is needed.

        `n_new` holds the number of new rows at the end of each parameter array.
        """
        return None


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
                # Subtract in place, because large temporary arrays cost more than the arithmetic.
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
    """Adam (Kingma and Ba 2015) with its usual constants.

    `first_rates` has an initial rate per parameter array. The rate declines as the inverse square
    root of the number of steps until it reaches the learning rate of the array. If the tuple is
    empty, the learning rates apply from the first step on. First rates apply to dense gradients
    only, and later batches may lower them, see `lower_rates`.
    """

    beta1, beta2, epsilon = 0.9, 0.999, 1e-8
    first_rates: Any = ()

    def __init__(self, learning_rates, average=None):
        super().__init__(learning_rates, average)
        self.n_steps = 0
        self.first: Any = None
        self.second: Any = None
        # Map from the index of each parameter array with `RowSparse` gradients to its `LateRows`.
        self.late = {}

    def lower_rates(self, first_rates):
        """Replace each of the first rates by the rate in the argument, if this rate is smaller."""
        if len(self.first_rates) and len(first_rates):
            first_rates = type(first_rates)(*map(min, self.first_rates, first_rates))
        self.first_rates = first_rates if len(first_rates) else self.first_rates

    @property
    def takes_rows(self):
        """True if gradients may be `RowSparse`; False if the iterates are averaged."""
        return self.average is None

    def ready(self, params, rows_read):
        """Do the postponed updates of the rows that the next step reads; see `Optimizer`."""
        if not self.late:
            return params
        rows = rows_read()

        def bring_up(k, late, *state):
            few = None if rows is None else rows[k]
            return late.release(*state) if few is None else late.ready(*state, few)

        return self._each_late(params, bring_up)

    def keep(self, params):
        """Return the parameters to keep, after all postponed updates."""
        params = self._each_late(params, lambda k, late, *state: late.release(*state))
        return super().keep(params)

    def _each_late(self, params, change):
        """Return the parameters with `change` applied to the arrays with postponed updates."""
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
        rates = self.learning_rates
        if len(self.first_rates):
            decline = 1 / np.sqrt(1 + (self.n_steps - 1) / _FIRST_STEPS)
            rates = [max(rate, decline * r) for rate, r in zip(rates, self.first_rates)]
        new = []
        for k, (p, g, rate) in enumerate(zip(params, gradient, rates)):
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

    def with_more_rows(self, n_new) -> AdamSteps | None:
        """Return a copy for more rows; see `Optimizer`.

        For new rows the mean gradient is 0, and the mean squared gradient is its average over the
        old rows, so that the first steps of new rows are not longer than the steps of old rows.
        """
        if self.average is not None or self.late or self.first is None:
            return None
        grown = copy(self)
        grown.first = [_with_rows(m, k, 0.0) for m, k in zip(self.first, n_new)]
        grown.second = [_with_rows(s, k, s.mean(axis=0)) for s, k in zip(self.second, n_new)]
        return grown

    def _late_rows(self, k, shape):
        """Return the `LateRows` of parameter array k, which is created at the first call."""
        if k not in self.late:
            constants = self.learning_rates[k], self.beta1, self.beta2, self.epsilon
            self.late[k] = LateRows(shape, self.n_steps - 1, *constants)
        return self.late[k]

    def _move_block(self, p, g, m, s, step, work):
        """Write the new values of a block of entries to `work`; update the moments m and s."""
        np.subtract(g, m, out=work)  # every operation is in place, to avoid temporary arrays
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


def _with_rows(array, n_new, value):
    """Return the array with `n_new` rows appended, which are filled with `value`."""
    return np.concatenate([array, np.zeros((n_new, *array.shape[1:]), array.dtype) + value])


def _blocks(p):
    """Split the first axis of an array into slices with about `_BLOCK` array entries each."""
    n = len(p)
    length = max(1, _BLOCK // max(1, p.size // max(1, n)))
    return [slice(first, first + length) for first in range(0, n, length)]


# ------------------------------------------------------------- postponed updates of rows


def step_length(n_steps, beta1, beta2):
    """Return Adam's bias correction at step `n_steps`, a factor of the learning rate."""
    return np.sqrt(1 - beta2**n_steps) / (1 - beta1**n_steps)


@cache
def _missed_steps(beta1, beta2):
    """Return the arguments `lengths`, `lost` and `grown` of the kernel `bring_up_rows`."""
    steps = np.arange(1, _SETTLED + 1)
    delays = steps[:_LONGEST]
    grown = beta2 ** (-0.5 * delays)
    return step_length(steps, beta1, beta2), beta1**delays * grown, grown


class LateRows:
    """Postpones the Adam updates of rows of a parameter matrix until a step reads the rows.

    A row with gradient 0 is not updated until a step reads the row. Then all missed updates of the
    row are made at once. Only rows that are read cost time, but the result is the same as if every
    step updated all rows, up to rounding. There is one exception: updates of entries with gradients
    as small as epsilon have a relative error of up to 1e-4.

    The matrix is stored as a flat array, and `shape` is the shape of the matrix. `n_steps` is the
    number of steps before the first postponed update. The other arguments are the options of Adam.
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
        # Own copy of the parameters, which is changed in place; None if no update is postponed.
        self._own: Any = None

    def ready(self, params, moments, n_steps, rows):
        """Make the postponed updates of `rows` up to step `n_steps`; return the flat parameters.

        `moments` (mean gradients, mean squares) are changed in place. The next calls of `ready`
        and `step` change the returned array.
        """
        if params is not self._own:
            # The caller has replaced the parameters, but not `moments`. First make the postponed
            # updates of `moments`.
            self.release(params, moments, n_steps)
            self._own = params.copy()
        self._bring_up(moments, n_steps, rows)
        return self._own

    def step(self, params, moments, n_steps, gradient):
        """Make step number `n_steps` with a `RowSparse` gradient; return the flat parameters.

        As in `ready`, `moments` are changed in place and the next calls change the returned array.
        """
        params = self.ready(params, moments, n_steps - 1, gradient.rows)
        length = self._rate * step_length(n_steps, *self._betas)
        rows = gradient.rows.astype(np.int64, copy=False)
        arrays = [a.reshape(self._shape) for a in (params, *moments)]
        step_rows(*arrays, rows, gradient.values, length, self._betas, self._epsilon)
        self._done[rows] = n_steps
        return params

    def release(self, params, moments, n_steps):
        """Make all postponed updates; return the parameters, which later calls do not change."""
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
