"""Row and column norms of a weight matrix, which bound products and sums over its entries."""

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import fill


@jit(fastmath={"contract", "reassoc"})
def _row_norm(weights, i):
    """Return the sum of |weights[i]|, the norm of row i."""
    total = weights.dtype.type(0)
    for j in range(np.uintp(weights.shape[1])):
        total += abs(weights[i, j])
    return total


@jit
def _row_max(bits, i):
    """Return the largest number in row i of `bits` after all sign bits are set to 0."""
    sign = bits.dtype.type(1) << bits.dtype.type(8 * bits.itemsize - 1)
    largest = bits.dtype.type(0)
    for j in range(np.uintp(bits.shape[1])):
        magnitude = bits[i, j] & ~sign
        largest = magnitude if magnitude > largest else largest
    return largest


@jit
def _add_magnitudes(weights, i, columns):
    """Add |weights[i]| to `columns` (H,)."""
    for j in range(np.uintp(weights.shape[1])):
        columns[j] += abs(weights[i, j])


@jit
def row_norms(weights, bits, norms, largest, columns):
    """Compute the sum and the maximum of |weights| in each row, and the sum in each column.

    Parameters
    ----------
    weights : (V, H)
    bits : (V, H), view of the weights as unsigned integers
        Positive floats have the same order as their bits, and the maximum of integers is a vector
        operation.
    norms : (V,) float64 output, sum of |weights| in each row
    largest : (V,) unsigned output, largest |weight| in each row, as bits
    columns : (H,) output, sum of |weights| in each column, in the dtype of the weights
    """
    fill(columns, 0)
    for i in range(weights.shape[0]):
        norms[i] = _row_norm(weights, np.uintp(i))
        largest[i] = _row_max(bits, np.uintp(i))
        _add_magnitudes(weights, np.uintp(i), columns)
