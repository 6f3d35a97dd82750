"""Random numbers that depend on `random_state` and on counters, and on nothing else."""

import numpy as np

from skcrbm.kernels.random_uniform import fill_seeds, fill_uniform


def uniforms(key, streams, step, n_sites):
    """Uniform numbers on (0, 1), (len(streams), n_sites) float64.

    Parameters
    ----------
    key : uint64
        One per call or fit, see `random_key`.
    streams : array-like of int
        Chain or row of each row of the result.
    step : int
        Counts the draws of a stream.
    """
    out = np.empty((len(streams), n_sites))
    with np.errstate(over="ignore"):  # 64-bit numbers wrap around; heard of without the JIT only
        fill_uniform(key, np.asarray(streams, np.uint64), np.uint64(step), out)
    return out


def seeds(key, streams, step):
    """Return what kernels make the numbers of `uniforms` of, (len(streams),) uint64."""
    out = np.empty(len(streams), np.uint64)
    with np.errstate(over="ignore"):
        fill_seeds(key, np.asarray(streams, np.uint64), np.uint64(step), out)
    return out


def logistic_noise(key, streams, step, n_sites):
    """Logistic(0, 1) numbers: Gumbel noise on both states of a unit, as log-odds."""
    u = uniforms(key, streams, step, n_sites)
    return np.log(u) - np.log1p(-u)
