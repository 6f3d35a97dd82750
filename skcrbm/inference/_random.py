"""Random numbers that depend on `random_state` and on counters, and on nothing else."""

import numpy as np
from sklearn.utils import check_random_state

from skcrbm._kernels.random_uniform import fill_uniform


def random_key(random_state):
    """Draw the uint64 key of one call or fit from `random_state`."""
    return np.uint64(check_random_state(random_state).randint(2**63 - 1, dtype=np.int64))


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


def logistic_noise(key, streams, step, n_sites):
    """Logistic(0, 1) numbers: Gumbel noise on both states of a unit, as log-odds."""
    u = uniforms(key, streams, step, n_sites)
    return np.log(u) - np.log1p(-u)
