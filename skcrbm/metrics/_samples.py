"""Distances between samples of a model and data."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.validation import as_float_array


def log_mmd(X: ArrayLike, Y: ArrayLike, *, bandwidth: float = 1.0) -> float:
    r"""Log of the squared maximum mean discrepancy between two sets of 0/1 rows.

    ``log(mean k(x, x') + mean k(y, y') - 2 mean k(x, y))`` with
    ``k(x, y) = exp(-Hamming(x, y) / (bandwidth * n_features))`` [1]_, over all pairs, also of a
    row with itself [2]_. The lower, the more alike; about ``log(1 / n)`` for two sets of n rows
    from the same distribution.

    At a bandwidth of 1 the kernel hardly bends over the distances that occur, and the score mostly
    compares means: independent coins with the means of the data often score better than any
    model. Look at a bandwidth of 0.05, too, and at `covariance_error`, beside the scores of the
    other half of the data and of such coins.

    Parameters
    ----------
    X, Y : array-like of shape (n_samples_X, n_features), (n_samples_Y, n_features)
        Rows of 0 and 1.
    bandwidth : float, default=1.0
        Width of the kernel as a share of the features, positive.

    Returns
    -------
    float
        Logarithm of the squared discrepancy; -inf if it is not positive.

    Raises
    ------
    ValueError
        If X or Y is not 0/1 or empty, they differ in width, or the bandwidth is not positive.

    Notes
    -----
    Distances are counted, from products of matrices in blocks of some megabytes, so that no
    rounding adds up: the result is the same for any order of the rows.

    References
    ----------
    .. [1] Lazaro-Gredilla, Dedieu and George (2021). Perturb-and-max-product: sampling and
       learning in discrete energy-based models. NeurIPS.
    .. [2] Gretton, Borgwardt, Rasch, Schoelkopf and Smola (2012). A kernel two-sample test. JMLR
       13, the biased statistic.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.metrics import log_mmd
    >>> rng = np.random.RandomState(0)
    >>> data, same, other = (rng.uniform(size=(3, 500, 20)) < [[[0.3]], [[0.3]], [[0.6]]]) * 1
    >>> bool(log_mmd(data, same) < log_mmd(data, other))
    True
    """
    X, Y = _check_rows(X, "X"), _check_rows(Y, "Y")
    if X.shape[1] != Y.shape[1]:
        raise ValueError(
            f"X and Y must have the same number of columns, got {X.shape[1]} and {Y.shape[1]}"
        )
    if not isinstance(bandwidth, Real) or not 0 < bandwidth < np.inf:
        raise ValueError(f"bandwidth must be a positive number, got {bandwidth!r}")
    n, m, width = len(X), len(Y), X.shape[1]
    # Python integers do not overflow or round: equal sets differ by exactly 0.
    within_x, within_y, between = (
        _distances(*pair).astype(object) for pair in ((X, None), (Y, None), (X, Y))
    )
    counts = within_x * m**2 + within_y * n**2 - 2 * n * m * between
    total = math.fsum(
        count / (n * m) ** 2 * math.exp(-distance / (bandwidth * width))
        for distance, count in enumerate(counts.tolist())
    )
    return math.log(total) if total > 0 else -math.inf


def covariance_error(X: ArrayLike, Y: ArrayLike) -> float:
    """Distance of two covariance matrices, relative to the first: ``|C_X - C_Y| / |C_X|``.

    The norms are Frobenius norms. Rows of independent features with the means of X score near 1 if
    the features of X are correlated; a second set of data shows the noise floor at its size.

    Parameters
    ----------
    X, Y : array-like of shape (n_samples_X, n_features), (n_samples_Y, n_features)
        Data and samples.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If X or Y is not finite, or empty, they differ in width, or all rows of X are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.metrics import covariance_error
    >>> round(covariance_error([[0, 0], [1, 1]], [[0, 0], [0, 1], [1, 0], [1, 1]]), 3)
    0.707
    """
    X, Y = (
        as_float_array(X, "X", "(n_samples, n_features)"),
        as_float_array(Y, "Y", "(n_samples, n_features)"),
    )
    if X.shape[1] != Y.shape[1] or not X.size or not Y.size:
        raise ValueError(
            "X and Y must have the same number of columns, and rows; got shapes "
            f"{X.shape} and {Y.shape}"
        )
    if (X[0] == X).all():  # a rounded mean would hide it
        raise ValueError("X must have rows that differ: its covariance is 0")
    of_x, of_y = _covariance(X), _covariance(Y)
    return float(np.linalg.norm(of_x - of_y) / np.linalg.norm(of_x))


def _covariance(X):
    centred = X - X.mean(axis=0, dtype=np.float64)
    return centred.T @ centred / len(X)


def _check_rows(rows, name):
    rows = np.asarray(rows)
    if rows.ndim != 2 or rows.size == 0 or not np.isin(rows, (0, 1)).all():
        raise ValueError(
            f"{name} must be an array (n_samples, n_features) of 0 and 1, not empty; got shape "
            f"{rows.shape}"
        )
    return rows.astype(np.float32)


def _distances(X, Y):
    """Count the pairs of rows of X (n, D) and Y (m, D) by Hamming distance, int64 (D + 1,).

    None for Y stands for X itself, and half of the blocks are enough.
    """
    symmetric = Y is None
    Y = X if symmetric else Y
    # |x| + |y| - 2 x'y as one product of integers, which float32 holds exactly.
    left = np.column_stack([-2 * X, X.sum(axis=1), np.ones(len(X), X.dtype)])
    right = np.column_stack([Y, np.ones(len(Y), Y.dtype), Y.sum(axis=1)]).T
    counts = np.zeros(X.shape[1] + 1, np.int64)

    def count(part):
        return np.bincount(part.astype(np.intp).ravel(), minlength=len(counts))

    for rows in row_chunks(len(X), max(1, BLOCK_ENTRIES // len(Y))):
        if symmetric:
            counts += count(left[rows] @ right[:, rows])
            counts += 2 * count(left[rows] @ right[:, rows.stop :])
        else:
            counts += count(left[rows] @ right)
    return counts
