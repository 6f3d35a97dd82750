"""Store rows of different lengths, such as sequences and images, one after the other.

A row has items: the positions of a sequence, the nodes of a graph, or the pixels of an image. The
items of the first row come first, then the items of the second row, and so on. An array `start` (n
+ 1,) holds the first item of each row and, as the last entry, the number T of all items.

The classes of arrays have a method `take`. It returns the arrays of some rows, and the indices of
their items among all items. `GraphArrays` (`utils/graphs.py`) is such a class, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, issparse


def ranges(start: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all indices in the ranges ``start[i]:start[i + 1]`` for i in `numbers` (n,).

    The second result (n + 1,) holds the first position of each range among the returned indices.
    """
    lengths = np.diff(start)[numbers]
    first = np.concatenate([[0], np.cumsum(lengths)])
    return np.arange(first[-1]) + np.repeat(start[numbers] - first[:-1], lengths), first


def sums_of_rows(values: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the sum (n,) of the values (T,) of the items of each row, or 0 without items."""
    sums = np.zeros(len(start) - 1)
    used = np.flatnonzero(np.diff(start))
    if len(used):
        sums[used] = np.add.reduceat(values, start[used])
    return sums


class SequenceArrays(NamedTuple):
    """Features of the positions of all sequences of a list."""

    X: Any  # ndarray or CSR matrix (T, D)
    start: np.ndarray  # (n + 1,): sequence c has the positions start[c] to start[c + 1] - 1

    def take(self, numbers: np.ndarray) -> tuple[SequenceArrays, np.ndarray]:
        """Return the sequences with the indices `numbers`, and the indices of their positions.

        Successive sequences share the memory of X.
        """
        positions, start = ranges(self.start, numbers)
        if len(numbers) and (np.diff(numbers) == 1).all():
            first, last = numbers[0], numbers[-1]
            X = rows_without_copy(self.X, self.start[first], self.start[last + 1])
        else:
            X = self.X[positions]
        return SequenceArrays(X, start), positions


class ImageArrays(NamedTuple):
    """Pixels of all images of a list, row by row."""

    values: np.ndarray  # (C, T) values of the channels
    start: np.ndarray  # (n + 1,): image c has the pixels start[c] to start[c + 1] - 1
    shapes: np.ndarray  # (n, 2) height and width of each image

    def take(self, numbers: np.ndarray) -> tuple[ImageArrays, np.ndarray]:
        """Return the images with the indices `numbers`, and the indices of their pixels."""
        pixels, start = ranges(self.start, numbers)
        return ImageArrays(self.values[:, pixels], start, self.shapes[numbers]), pixels


def rows_without_copy(X: Any, first: int, stop: int) -> Any:
    """Return the rows `first` to ``stop - 1`` of an array or CSR matrix without a copy of the data.

    Slices of a CSR matrix would copy the data, and the parts of a batch would double its memory.
    """
    if not issparse(X):
        return X[first:stop]
    a, b = X.indptr[first], X.indptr[stop]
    part = csr_matrix((stop - first, X.shape[1]), dtype=X.dtype)
    # The constructor of `csr_matrix` would copy an array that is a view of a much larger array.
    part.data, part.indices = X.data[a:b], X.indices[a:b]
    part.indptr = X.indptr[first : stop + 1] - a
    return part
