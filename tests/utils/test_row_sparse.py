"""Gradients of few rows stand for flat arrays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from skcrbm.utils.row_sparse import RowSparse, columns_used

N_ROWS, WIDTH = 6, 2


def make(rows, seed=0, dtype=np.float64):
    values = np.random.default_rng(seed).normal(size=(len(rows), WIDTH)).astype(dtype)
    return RowSparse(np.array(sorted(rows), int), values, N_ROWS)


def test_entries():
    g = make([1, 4])
    full = np.zeros((N_ROWS, WIDTH))
    full[[1, 4]] = g.values
    np.testing.assert_array_equal(g.toarray(), full.ravel())
    np.testing.assert_array_equal(np.asarray(g), full.ravel())
    assert np.asarray(g, np.float32).dtype == np.float32
    flat = np.arange(12.0)
    np.testing.assert_array_equal(g.of(flat), [[2, 3], [8, 9]])
    assert g.shape == (N_ROWS, WIDTH)


sets = st.sets(st.integers(0, N_ROWS - 1))


@given(sets, sets)
def test_sums_and_differences(a, b):
    a, b = make(a, 0), make(b, 1)
    x, y = a.toarray(), b.toarray()
    flat = np.arange(12.0)
    for found, expected in (
        (a + b, x + y),
        (a - b, x - y),
        (-a, -x),
        (a + flat, x + flat),
        (flat + a, flat + x),
        (a - flat, x - flat),
        (flat - a, flat - x),
    ):
        np.testing.assert_array_equal(np.asarray(found), expected)
    np.testing.assert_array_equal(flat, np.arange(12.0))
    assert isinstance(a + b, RowSparse)
    assert isinstance(a + flat, np.ndarray)


def test_columns_used():
    parts = np.ones(3), np.array([4, 0, 4]), np.array([0, 2, 3])
    np.testing.assert_array_equal(columns_used(sparse.csr_matrix(parts, shape=(2, 6))), [0, 4])


def test_division_in_place_and_dtypes():
    g = make([0, 5])
    expected = g.toarray() / 4
    kept = g
    g /= 4
    assert g is kept
    np.testing.assert_array_equal(g.toarray(), expected)
    single = g.astype(np.float32)
    assert single.dtype == np.float32
    assert g.dtype == np.float64
    assert g.astype(np.float64, copy=False).values is g.values
    with pytest.raises(TypeError):
        np.add(np.ones(12), g, dtype=float)
