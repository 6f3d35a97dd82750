"""Rows of a parameter matrix that Adam moves when they are next needed."""

import numpy as np

from skcrbm.kernels.adam import bring_up_rows, step_rows


class LateRows:
    """When the rows of a flat parameter array were last moved, and by what they have missed.

    A row without a gradient is left as it is until a step reads it, and then makes at once all
    steps that it has missed: what comes out is what Adam makes of all rows at each step, up to
    rounding, for the price of the rows that are read.

    Parameters
    ----------
    shape : (int, int)
        Of the matrix that the array holds.
    n_steps : int
        Made so far.
    rate : float
    adam : Adam
        For its constants.
    """

    # (beta1 / sqrt(beta2))^400 is 1e-18: mean gradients move nothing afterwards.
    _longest = 400
    # beta2^40000 is 1e-17: from then on a step has its full length.
    _settled = 40000

    def __init__(self, shape, n_steps, rate, adam):
        self._shape = shape
        self._done = np.full(shape[0], n_steps, np.int64)
        self._rate = float(rate)
        self._betas, self._epsilon = (adam.beta1, adam.beta2), adam.epsilon
        steps = np.arange(1, self._settled + 1)
        self._lengths = adam.correction(steps)
        delays = steps[: self._longest]
        self._grown = adam.beta2 ** (-0.5 * delays)
        self._lost = adam.beta1**delays * self._grown
        # The array that is changed in place: one of our own, which nobody else keeps.
        self._own = None

    def ready(self, params, moments, n_steps, rows=None):
        """Bring rows up to a step.

        Parameters
        ----------
        params : ndarray, flat
        moments : (ndarray, ndarray), flat
            Mean gradients and mean squares, changed in place.
        n_steps : int
        rows : ndarray of int or None
            All if None.

        Returns
        -------
        ndarray, flat
            The parameters, to be changed by later calls where others do not keep them.
        """
        if params is not self._own:
            if self._own is not None:  # given up, with steps that rows of it have missed
                self._bring_up(self._own, moments, n_steps, None, 0.0)
            self._own = params.copy()
        self._bring_up(self._own, moments, n_steps, rows, self._rate)
        return self._own

    def step(self, params, moments, n_steps, gradient):
        """Make step number `n_steps` with a `RowSparse` gradient; returns as `ready`."""
        params = self.ready(params, moments, n_steps - 1, gradient.rows)
        length = self._rate * self._lengths[min(n_steps, self._settled) - 1]
        rows = gradient.rows.astype(np.int64, copy=False)
        arrays = (a.reshape(self._shape) for a in (params, *moments))
        step_rows(*arrays, rows, gradient.values, length, self._betas, self._epsilon)
        self._done[rows] = n_steps
        return params

    def release(self, params, moments, n_steps):
        """Return the parameters with all rows brought up, for others to keep."""
        if self._own is not None:
            params = self.ready(params, moments, n_steps)
            self._own = None
        return params

    def skip(self):
        """Take it that all rows have made one step more."""
        self._done += 1

    def _bring_up(self, params, moments, n_steps, rows, rate):
        rows = np.arange(self._shape[0]) if rows is None else rows
        bring_up_rows(
            *(a.reshape(self._shape) for a in (params, *moments)),
            rows.astype(np.int64, copy=False),
            self._done,
            n_steps,
            rate,
            self._lengths,
            self._lost,
            self._grown,
            self._betas,
            self._epsilon,
        )
