"""Rows of a parameter matrix that Adam moves when they are next needed."""

from functools import cache

import numpy as np

from skcrbm.kernels.adam import bring_up_rows, step_rows

# (beta1 / sqrt(beta2))^400 is 1e-18: mean gradients move nothing afterwards.
_LONGEST = 400
# beta2^40000 is 1e-17: from then on a step has its full length.
_SETTLED = 40000


def step_length(n_steps, beta1, beta2):
    """Length of step number `n_steps` by a rate of 1: Adam's means begin at 0."""
    return np.sqrt(1 - beta2**n_steps) / (1 - beta1**n_steps)


@cache
def _missed_steps(beta1, beta2):
    """Lengths, `lost` and `grown` of `bring_up_rows`."""
    steps = np.arange(1, _SETTLED + 1)
    delays = steps[:_LONGEST]
    grown = beta2 ** (-0.5 * delays)
    return step_length(steps, beta1, beta2), beta1**delays * grown, grown


class LateRows:
    """When the rows of a flat parameter array were last moved, and by what they have missed.

    A row without a gradient is left as it is until a step reads it, and then makes at once all
    steps that it has missed: what comes out is what Adam makes of all rows at each step, for the
    price of the rows that are read; up to rounding, and up to a share of 1e-4 of the moves of
    entries whose gradients are no larger than epsilon.

    Parameters
    ----------
    shape : (int, int)
        Of the matrix that the array holds.
    n_steps : int
        Made so far.
    rate, beta1, beta2, epsilon : float
        Of Adam.
    """

    def __init__(self, shape, n_steps, rate, beta1, beta2, epsilon):
        self._shape = shape
        self._rate, self._betas, self._epsilon = float(rate), (beta1, beta2), epsilon
        self._done = np.full(shape[0], n_steps, np.int64)
        # The array that is changed in place: one of our own, which nobody else keeps. Without one
        # no row is late.
        self._own = None

    def ready(self, params, moments, n_steps, rows):
        """Bring rows up to a step.

        Parameters
        ----------
        params : ndarray, flat
        moments : (ndarray, ndarray), flat
            Mean gradients and mean squares, changed in place.
        n_steps : int
        rows : ndarray of int

        Returns
        -------
        ndarray, flat
            The parameters, to be changed by later calls where others do not keep them.
        """
        if params is not self._own:
            self.release(params, moments, n_steps)  # of what is given up the moments count
            self._own = params.copy()
        self._bring_up(moments, n_steps, rows)
        return self._own

    def step(self, params, moments, n_steps, gradient):
        """Make step number `n_steps` with a `RowSparse` gradient; returns as `ready`."""
        params = self.ready(params, moments, n_steps - 1, gradient.rows)
        length = self._rate * step_length(n_steps, *self._betas)
        rows = gradient.rows.astype(np.int64, copy=False)
        arrays = (a.reshape(self._shape) for a in (params, *moments))
        step_rows(*arrays, rows, gradient.values, length, self._betas, self._epsilon)
        self._done[rows] = n_steps
        return params

    def release(self, params, moments, n_steps):
        """Return the parameters with all rows brought up, for others to keep."""
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
