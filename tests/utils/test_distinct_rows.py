"""`distinct_rows` merges rows with the same entries, whatever their order and storage."""

import numpy as np
import pytest
from scipy import sparse

from skcrbm.utils.validation import distinct_rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_merged_and_weights_are_added(dtype):
    rng = np.random.default_rng(0)
    X = rng.integers(-1, 2, (200, 3)).astype(dtype)
    y = rng.integers(0, 2, (200, 2)).astype(dtype)
    weight = rng.random(200)
    expected: dict = {}
    for row, labels, w in zip(X, y, weight):
        key = (*row, *labels)
        expected[key] = expected.get(key, 0.0) + w
    assert len(expected) < 150

    def found(order, convert):
        merged = distinct_rows(convert(X[order]), y[order], weight[order])
        rows = merged[0].toarray() if sparse.issparse(merged[0]) else merged[0]
        assert merged[0].dtype == rows.dtype == dtype
        return rows, *merged[1:]

    first = found(np.arange(200), np.asarray)
    keys = [(*row, *labels) for row, labels in zip(first[0], first[1])]
    assert sorted(keys) == sorted(expected)
    np.testing.assert_allclose(first[2], [expected[key] for key in keys])
    for convert in (np.asarray, sparse.csr_matrix):
        again = found(rng.permutation(200), convert)
        np.testing.assert_array_equal(again[0], first[0])
        np.testing.assert_array_equal(again[1], first[1])
        np.testing.assert_allclose(again[2], first[2])


def test_zeros_of_both_signs_are_equal():
    X, y, weight = distinct_rows(np.array([[0.0, 1.0], [-0.0, 1.0]]), np.zeros((2, 1)), np.ones(2))
    assert X.shape == (1, 2)
    assert y.shape == (1, 1)
    np.testing.assert_array_equal(weight, [2.0])
