"""Rows of a parameter matrix that Adam moves when a step next reads them."""

from __future__ import annotations

from functools import cache

import numpy as np

from skcrbm.kernels.adam import bring_up_rows, step_rows

# (beta1 / sqrt(beta2))^400 is 1e-18: mean gradients older than that move nothing.
_LONGEST = 400
# beta2^40000 is 1e-17: from then on a step has its full length.
_SETTLED = 40000


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
        self._own = None

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
        arrays = (a.reshape(self._shape) for a in (params, *moments))
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
