"""Counter-based random numbers: each number is a hash of (key, stream, step, site).

A generator of random numbers usually has a state that each call changes. Here a number depends only
on four integers (key, stream, step and site), so results depend neither on threads nor on the order
of the rows. The hash of (key, stream, step) is the seed of a SplitMix64 sequence (Steele, Lea and
Flood 2014, Fast splittable pseudorandom number generators). The site is the position of a number in
this sequence.
"""

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import GOLDEN, mix, unit_interval


@jit
def _seed(key, stream, step):
    """Return the seed of the random sequence over sites: a hash of (key, stream, step)."""
    inner = mix(key + GOLDEN * (stream + np.uint64(1)))
    return mix(inner + GOLDEN * (step + np.uint64(1)))


@jit
def fill_uniform(key, streams, step, out):
    """Write uniform random numbers on (0, 1) to `out` (N, K).

    Calls with equal key, step and stream write equal numbers.

    Parameters
    ----------
    key, step : uint64
    streams : (N,) uint64, one per row
    out : (N, K) float64 output
    """
    for n in range(out.shape[0]):
        seed = _seed(key, streams[n], step)
        for k in range(np.uintp(out.shape[1])):
            seed += GOLDEN
            out[n, k] = unit_interval(seed)


@jit
def fill_seeds(key, streams, step, out):
    """Write the uint64 seeds of N streams at a step to `out` (N,).

    The k-th random number of stream n is then ``unit_interval(out[n] + GOLDEN * (k + 1))``, as in
    `fill_uniform`.
    """
    for n in range(out.shape[0]):
        out[n] = _seed(key, streams[n], step)
