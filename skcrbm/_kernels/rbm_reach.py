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
def _row_max(bits, i):
    """Largest entry of bits[i] without its sign bit."""
    sign = bits.dtype.type(1) << bits.dtype.type(8 * bits.itemsize - 1)
    largest = bits.dtype.type(0)
    for j in range(np.uintp(bits.shape[1])):
        magnitude = bits[i, j] & ~sign
        largest = magnitude if magnitude > largest else largest
    return largest


@jit
def row_norms(weights, bits, norms, largest):
    """Compute sums and maxima of |weights| (V, H) over rows.

    Parameters
    ----------
    weights, bits : (V, H); bits are those of weights as unsigned integers, which order
        positive floats as the floats do, and whose maximum is a vector operation
    norms : (V,) float64 output, sums
    largest : (V,) unsigned output, bits of the maxima
    """
    for i in range(weights.shape[0]):
        norms[i] = _row_norm(weights, np.uintp(i))
        largest[i] = _row_max(bits, np.uintp(i))
