"""Distances between samples and data."""

import time

import numpy as np
import pandas as pd
import pytest

from skcrbm.metrics import covariance_error, log_mmd


def rows(seed, n, width, mean=0.4):
    return (np.random.RandomState(seed).uniform(size=(n, width)) < mean).astype(np.int8)


def naive_mean(X, Y, bandwidth):
    distance = (X[:, None] != Y[None]).mean(axis=2)
    return np.exp(-distance / bandwidth).mean()


@pytest.mark.parametrize("bandwidth", [1.0, 0.05, 3])
@pytest.mark.parametrize(("n", "m", "width"), [(40, 70, 12), (1, 3, 1), (90, 30, 200)])
def test_log_mmd_by_its_formula(n, m, width, bandwidth, monkeypatch):
    X, Y = rows(0, n, width), rows(1, m, width, 0.6)
    squared = naive_mean(X, X, bandwidth) + naive_mean(Y, Y, bandwidth)
    squared -= 2 * naive_mean(X, Y, bandwidth)
    assert log_mmd(X, Y, bandwidth=bandwidth) == pytest.approx(np.log(squared), rel=1e-9)
    assert log_mmd(Y, X, bandwidth=bandwidth) == pytest.approx(np.log(squared), rel=1e-9)
    whole = log_mmd(X, Y, bandwidth=bandwidth)
    monkeypatch.setattr("skcrbm.metrics._samples.BLOCK_ENTRIES", 7 * m)
    assert log_mmd(X[::-1] == 1, Y.astype(float), bandwidth=bandwidth) == whole


def test_equal_sets_do_not_differ():
    X = rows(0, 50, 30)
    assert log_mmd(X, X) == -np.inf
    assert log_mmd(X, X[np.random.RandomState(0).permutation(50)]) == -np.inf
    assert log_mmd(X, np.repeat(X, 3, axis=0), bandwidth=0.05) == -np.inf


@pytest.mark.deep
def test_what_a_bandwidth_of_one_hides():
    """Pairs of equal features: the right means without the pairs beat the pairs with others."""
    n, width = 2000, 20
    half, shifted = rows(0, n, width, 0.5), rows(1, n, width, 0.6)
    data, pairs, coins = np.hstack([half, half]), np.hstack([shifted] * 2), rows(2, n, 40, 0.5)
    # From means that are off by 0.1 alone: 2 * 0.1^2 exp(-0.5); without, of the order 1 / n.
    assert log_mmd(data, pairs) == pytest.approx(np.log(0.02 * np.exp(-0.5)), abs=0.4)
    assert log_mmd(data, coins) < log_mmd(data, pairs) - 1.5
    # C_X is a matrix of 80 quarters; 40 of these are missing in the matrix of the coins.
    assert covariance_error(data, coins) == pytest.approx(0.5**0.5, abs=0.1)
    assert covariance_error(data, pairs) < 0.25


@pytest.mark.deep
def test_many_rows():
    X, Y = rows(0, 4000, 100), rows(1, 5000, 100)
    start = time.process_time()
    # Drawn alike: E MMD^2 = (1 / n + 1 / m) (1 - E k), k near exp(-0.48).
    expected = np.log((1 / 4000 + 1 / 5000) * (1 - np.exp(-0.48)))
    assert log_mmd(X, Y) == pytest.approx(expected, abs=0.5)
    assert time.process_time() - start < 10


def test_covariance_error_by_its_formula():
    rng = np.random.RandomState(0)
    X, Y = rng.normal(size=(30, 4)), rng.normal(size=(20, 4)) @ rng.normal(size=(4, 4)) + 5
    of_x, of_y = np.cov(X.T, bias=True), np.cov(Y.T, bias=True)
    expected = np.linalg.norm(of_x - of_y) / np.linalg.norm(of_x)
    assert covariance_error(X, Y) == pytest.approx(expected)
    assert covariance_error(X.astype(np.float32), Y) == pytest.approx(expected, rel=1e-5)
    assert covariance_error(X, X) == 0
    assert covariance_error(X, np.zeros((1, 4))) == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: log_mmd([[0.5]], [[1]]), "X must be a non-empty array"),
        (lambda: log_mmd([[1]], [1]), "Y must be a non-empty array"),
        (lambda: log_mmd(np.empty((0, 3)), np.ones((1, 3))), "X must be a non-empty array"),
        (lambda: log_mmd([[1]], [[1, 0]]), "same number of columns, got 1 and 2"),
        (lambda: log_mmd([[1]], [[0]], bandwidth=0), "bandwidth must be a positive number"),
        (lambda: log_mmd([[1]], [[0]], bandwidth=np.nan), "bandwidth must be a positive number"),
        (lambda: covariance_error([[1]], [[1, 0]]), "same number of columns"),
        (lambda: covariance_error([[np.nan]], [[1]]), "X must be finite"),
        (lambda: covariance_error([[1, 2]], [[1, 0]]), "X must have rows that differ"),
        (lambda: covariance_error([[0.1]] * 3, [[1], [0]]), "X must have rows that differ"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("distance", [covariance_error, log_mmd])
def test_columns_of_frames_are_matched_by_name(distance):
    X = pd.DataFrame(rows(0, 30, 3, [[0.2, 0.5, 0.8]]), columns=list("abc"))
    Y = pd.DataFrame(rows(1, 30, 3, [[0.3, 0.5, 0.7]]), columns=list("abc"))
    assert distance(X, Y[["c", "a", "b"]]) == distance(X.to_numpy(), Y.to_numpy())
    assert distance(X, Y.to_numpy()) == distance(X.to_numpy(), Y.to_numpy())
    with pytest.raises(ValueError, match="Y has columns with the names 'u', 'v', 'w'"):
        distance(X, Y.set_axis(list("uvw"), axis=1))
