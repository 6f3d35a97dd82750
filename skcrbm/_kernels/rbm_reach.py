"""How far products over the rows of a weight matrix can go."""

import numpy as np

from skcrbm._kernels._jit import jit


@jit(fastmath={"contract", "reassoc"})
def _row_norm(weights, i):
    """Sum of |weights[i]|."""
    total = weights.dtype.type(0)
    for j in range(np.uintp(weights.shape[1])):
        total += abs(weights[i, j])
    return total


@jit
def row_norms(weights, out):
    """Fill out (V,) float64 with the sums of |weights| (V, H) over rows."""
    for i in range(weights.shape[0]):
        out[i] = _row_norm(weights, np.uintp(i))
