"""Counter-based random numbers: a hash of (key, stream, step, site).

No state is kept, so the numbers depend neither on threads nor on the order of the
rows. The hash of (key, stream, step) is the seed of a SplitMix64 sequence over the
sites (Steele, Lea and Flood 2014, Fast splittable pseudorandom number generators).
"""

import numpy as np

from skcrbm.kernels.jit import jit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_ONE = np.uint64(1)
_S27, _S30, _S31, _S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)


@jit
def _mix(x):
    """Scramble the 64 bits of x; SplitMix64's finaliser."""
    x = (x ^ (x >> _S30)) * _FIRST
    x = (x ^ (x >> _S27)) * _SECOND
    return x ^ (x >> _S31)


@jit
def _seed(key, stream, step):
    """Seed of the sequence over sites."""
    inner = _mix(key + _GOLDEN * (stream + _ONE))
    return _mix(inner + _GOLDEN * (step + _ONE))


@jit
def fill_uniform(key, streams, step, out):
    """Fill out (N, K) with uniform numbers on (0, 1), equal for equal counters.

    Parameters
    ----------
    key, step : uint64
    streams : (N,) uint64, one per row
    out : (N, K) float64 output
    """
    for n in range(out.shape[0]):
        seed = _seed(key, streams[n], step)
        for k in range(np.uintp(out.shape[1])):
            seed += _GOLDEN
            # 2^-53 (integer + 1/2): never 0, never 1
            out[n, k] = (np.float64(_mix(seed) >> _S11) + 0.5) * 1.1102230246251565e-16
