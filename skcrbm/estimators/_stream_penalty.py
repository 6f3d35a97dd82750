"""Choose the penalty of `partial_fit` by the number of different rows in the stream so far."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# Up to this number of different rows the penalty is that of the first call. Then it declines in
# inverse proportion to the number of rows, because the loss is a mean over rows, and a penalty
# should count as much as a fixed number of rows.
_FULL_PENALTY_ROWS = 2000
# Number of hash values in a sketch. The estimated number of rows has a relative standard error of
# 1 / sqrt(_N_HASHES), here 6 %.
_N_HASHES = 256


class StreamPenalty(NamedTuple):
    """Penalty of the first call of `partial_fit`, and a sketch of all rows of X since then.

    The sketch estimates the number of different rows in a constant amount of memory, so that rows
    which come again in another pass are not counted again (Bar-Yossef et al. 2002, Counting
    distinct elements in a data stream): `hashes` are the smallest hash values of the rows, in
    ascending order and at most `_N_HASHES`. The more rows there are, the smaller are the values.
    """

    first: float
    hashes: np.ndarray = np.empty(0, np.uint64)

    def with_rows(self, X: Any) -> StreamPenalty:
        """Add the rows of X, an ndarray or CSR matrix."""
        found = np.union1d(self.hashes, _hash_rows(X))
        return self._replace(hashes=found[:_N_HASHES])

    @property
    def n_rows(self) -> float:
        """Estimated number of different rows."""
        if len(self.hashes) < _N_HASHES:
            return float(len(self.hashes))
        return (_N_HASHES - 1) * 2.0**64 / float(self.hashes[-1])

    @property
    def alpha(self) -> float:
        """Penalty for the rows so far."""
        return self.first * min(1.0, _FULL_PENALTY_ROWS / max(1.0, self.n_rows))


def _hash_rows(X):
    """Return 64-bit hash values of the rows.

    Two random projections of each row are rounded to float32, so that the order of the terms in a
    product of matrices does not change the values. A single one has too few values for millions of
    rows. Their bits are then mixed as in SplitMix64 (Steele et al. 2014).
    """
    directions = np.random.RandomState(0).uniform(-1, 1, (X.shape[1], 2))
    with np.errstate(over="ignore", invalid="ignore"):
        projected = np.asarray(X @ directions, np.float32) + np.float32(0)  # turns -0 into 0
    value = projected.view(np.uint32).astype(np.uint64) @ np.array([1, 2**32], np.uint64)
    for shift, factor in ((16, 0x9E3779B97F4A7C15), (30, 0xBF58476D1CE4E5B9)):
        value = (value ^ (value >> np.uint64(shift))) * np.uint64(factor)
    return value ^ (value >> np.uint64(31))
