"""Sets of label vectors: the distinct rows of valid 0/1 matrices, and their shares."""

from __future__ import annotations

from collections import Counter

import numpy as np

from skcrbm.targets.indicator import row_blocks


def _bits(y, complete):
    """Pack rows of a 0/1 matrix y (N, L) into bytes; `complete` drops the rows with NaN."""
    parts = [np.empty((0, -(-y.shape[1] // 8)), np.uint8)]
    for rows in row_blocks(y):
        part = y[rows]
        part = part[~np.isnan(part).any(axis=1)] if complete else part
        parts.append(np.packbits(part.astype(bool), axis=1))
    return np.concatenate(parts)


def _distinct(bits, n_labels):
    # Sorting bytes objects takes milliseconds; np.unique(axis=0) would take many seconds.
    found = sorted({row.tobytes() for row in bits})
    bits = np.frombuffer(b"".join(found), np.uint8).reshape(len(found), bits.shape[1])
    return np.unpackbits(bits, axis=1, count=n_labels).astype(np.int8)


def distinct_rows(rows: np.ndarray) -> np.ndarray:
    """Return the distinct rows of a 0/1 array (N, V) in lexicographic order, as int8."""
    return _distinct(_bits(rows, complete=False), rows.shape[1])


def all_label_vectors(n_labels: int) -> np.ndarray:
    """Return all 0/1 vectors (2^L, L) in lexicographic order, as int8."""
    numbers = np.arange(2**n_labels)[:, None]
    return ((numbers >> np.arange(n_labels)[::-1]) & 1).astype(np.int8)


def label_sets_of(visible: np.ndarray) -> np.ndarray:
    """Return the distinct rows of visible (N, V) without NaN as int8; the result may be empty."""
    return _distinct(_bits(visible, complete=True), visible.shape[1])


def may_be_empty(y: np.ndarray) -> bool:
    """Return True if new rows may have no positive label, judging by the rows of y (N, L).

    The result is False if y has several labels, some row has a positive label, and no complete row
    is all 0. Rows with missing entries and no positive label are ignored.
    """
    if y.shape[1] < 2:
        return True
    return bool((y == 0).all(axis=1).any() or not (y == 1).any())


def unseen_share(y: np.ndarray) -> float:
    """Estimate the share of new rows whose label set does not occur in y, a 0/1/NaN matrix (N, L).

    The Good-Turing estimate is the share of complete rows whose label set no other row has. If no
    row is complete, the result is 1.
    """
    bits = _bits(y, complete=True)
    if not len(bits):
        return 1.0
    counts = Counter(row.tobytes() for row in bits)
    return sum(count == 1 for count in counts.values()) / len(bits)
