"""Averages of the iterates of a stochastic subgradient method."""

import numpy as np


class PolynomialAverage:
    """Average that forgets early iterates: iterate t has a weight of about ``t^power``.

    ``mean += (power + 1) / (t + power) (iterate - mean)`` (Shamir and Zhang 2013, section 4).

    Parameters
    ----------
    power : float, default=3
        0 is the plain average.

    Attributes
    ----------
    mean, last : params
        The average, and the iterate from which training goes on.
    """

    def __init__(self, power=3.0):
        self.power = power
        self.forget()

    def forget(self):
        """Begin anew."""
        self.n_steps = 0
        self.mean = self.last = None

    def resume(self, params):
        """Iterate to go on from when `params` are kept: the last one if they are its average."""
        if self.mean is not None and all(map(np.array_equal, self.mean, params)):
            return self.last
        self.forget()
        return params

    def add(self, params):
        """Take in the next iterate."""
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
        """Copy of the average as it is now."""
        return type(self.mean)(*(mean.copy() for mean in self.mean))
