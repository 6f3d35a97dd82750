"""Store gradients in which most rows are 0, such as gradients of the weights of sparse inputs."""

from __future__ import annotations

from typing import Any

import numpy as np


def columns_used(matrix: Any) -> np.ndarray:
    """Return the indices of the columns of a CSR matrix that have entries, in increasing order."""
    used = np.zeros(matrix.shape[1], bool)
    used[matrix.indices] = True
    return np.flatnonzero(used)


class RowSparse:
    """A matrix in which only few rows are not 0.

    In sums with NumPy arrays it acts as the flat array of all entries. `rows` (n,) holds the
    indices of the nonzero rows in increasing order, `values` (n, H) holds the entries of these
    rows, and `n_rows` is the number of all rows.
    """

    # Makes NumPy call `__radd__` and `__rsub__` for array + matrix and array - matrix.
    __array_ufunc__ = None

    def __init__(self, rows: np.ndarray, values: np.ndarray, n_rows: int):
        self.rows = rows
        self.values = values
        self.shape = n_rows, values.shape[1]

    @property
    def dtype(self):
        """Dtype of the values."""
        return self.values.dtype

    def astype(self, dtype, copy=True):
        """Return the matrix with its values converted to another dtype."""
        return RowSparse(self.rows, self.values.astype(dtype, copy=copy), self.shape[0])

    def toarray(self):
        """Return all entries as a flat array."""
        full = np.zeros(self.shape, self.dtype)
        full[self.rows] = self.values
        return full.ravel()

    def of(self, flat):
        """Return a copy (n, H) of the rows `self.rows` of a matrix whose entries are in `flat`."""
        return flat.reshape(self.shape)[self.rows]

    def __array__(self, dtype=None, copy=None):
        return self.toarray() if dtype is None else self.toarray().astype(dtype, copy=False)

    def __itruediv__(self, divisor):
        self.values /= divisor
        return self

    def __neg__(self):
        return RowSparse(self.rows, -self.values, self.shape[0])

    def __add__(self, other):
        if not isinstance(other, RowSparse):
            total = np.array(other)
            total.reshape(self.shape)[self.rows] += self.values
            return total
        if np.array_equal(self.rows, other.rows):
            return RowSparse(self.rows, self.values + other.values, self.shape[0])
        rows = np.union1d(self.rows, other.rows)
        values = np.zeros((len(rows), self.shape[1]), self.dtype)
        for part in (self, other):
            values[np.searchsorted(rows, part.rows)] += part.values
        return RowSparse(rows, values, self.shape[0])

    __radd__ = __add__

    def __sub__(self, other):
        return self + -other

    def __rsub__(self, other):
        return -self + other
