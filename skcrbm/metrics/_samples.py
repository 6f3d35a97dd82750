"""Distances between data and samples drawn from a model."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.targets.names import in_order_of, label_names_of
from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.validation import as_float_array


def log_mmd(X: ArrayLike, Y: ArrayLike, *, bandwidth: float = 1.0) -> float:
    r"""Compute the log of the squared maximum mean discrepancy between two sets of 0/1 rows.

    The result is ``log(mean k(x, x') + mean k(y, y') - 2 mean k(x, y))`` with the kernel
    ``k(x, y) = exp(-Hamming(x, y) / (bandwidth * n_features))`` [1]_. The means are over all pairs,
    including pairs of a row with itself [2]_. Lower values mean more similar sets. Two sets of n
    rows from the same distribution score about ``log(1 / n)``.

    With a bandwidth of 1 the kernel is nearly linear over the distances that occur, so the score
    mostly compares the means of the features. Rows whose features are drawn independently, with the
    means of the data, then often score better than samples of any model. So compute the score also
    with a bandwidth of 0.05, look at `covariance_error`, and compare with two baselines: a second
    set of data, and rows whose features are drawn independently with the means of the data.

    Parameters
    ----------
    X, Y : array-like of shape (n_samples_X, n_features), (n_samples_Y, n_features)
        Rows of 0 and 1. The columns of two data frames are matched by name.
    bandwidth : float, default=1.0
        Width of the kernel, as a positive share of the number of features.

    Returns
    -------
    float
        Logarithm of the squared discrepancy, or -inf if the discrepancy is 0 (for equal sets).

    Raises
    ------
    ValueError
        If X or Y is empty or holds values other than 0 and 1, their numbers of columns differ, or
        the bandwidth is not positive.

    Notes
    -----
    The pairs are counted by their Hamming distance, an integer, before the kernel is applied.
    Rounding errors therefore do not accumulate, and the result does not depend on the order of the
    rows.

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
    Y = in_order_of(Y, label_names_of(X, "X"), "Y")
    X, Y = _check_rows(X, "X"), _check_rows(Y, "Y")
    if X.shape[1] != Y.shape[1]:
        raise ValueError(
            f"X and Y must have the same number of columns, got {X.shape[1]} and {Y.shape[1]}"
        )
    if not isinstance(bandwidth, Real) or not 0 < bandwidth < np.inf:
        raise ValueError(f"bandwidth must be a positive number, got {bandwidth!r}")
    n, m, width = len(X), len(Y), X.shape[1]
    # Use Python integers, which neither overflow nor round, so that the discrepancy of equal sets
    # is exactly 0.
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
    """Compute the relative distance of two covariance matrices, ``|C_X - C_Y| / |C_X|``.

    The norms are Frobenius norms. To judge a value, compare it with two baselines. Samples of
    independent features score near 1 if the features of X are strongly correlated. A second set of
    data scores as low as sampling noise allows.

    Parameters
    ----------
    X, Y : array-like of shape (n_samples_X, n_features), (n_samples_Y, n_features)
        Data X, and samples Y from a model. The columns of two data frames are matched by name.

    Returns
    -------
    float
        Relative distance; 0 if the covariance matrices are equal.

    Raises
    ------
    ValueError
        If X or Y is not finite or is empty, their numbers of columns differ, or all rows of X are
        equal.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.metrics import covariance_error
    >>> round(covariance_error([[0, 0], [1, 1]], [[0, 0], [0, 1], [1, 0], [1, 1]]), 3)
    0.707
    """
    Y = in_order_of(Y, label_names_of(X, "X"), "Y")
    X, Y = (
        as_float_array(X, "X", "(n_samples, n_features)"),
        as_float_array(Y, "Y", "(n_samples, n_features)"),
    )
    if X.shape[1] != Y.shape[1] or not X.size or not Y.size:
        raise ValueError(
            "X and Y must have the same number of columns and at least one row; got shapes "
            f"{X.shape} and {Y.shape}"
        )
    if (X[0] == X).all():  # a rounded mean could make the covariance differ from 0
        raise ValueError("X must have rows that differ; all rows are equal, so the covariance is 0")
    of_x, of_y = _covariance(X), _covariance(Y)
    return float(np.linalg.norm(of_x - of_y) / np.linalg.norm(of_x))


def _covariance(X):
    centred = X - X.mean(axis=0, dtype=np.float64)
    return centred.T @ centred / len(X)


def _check_rows(rows, name):
    rows = np.asarray(rows)
    if rows.ndim != 2 or rows.size == 0 or not np.isin(rows, (0, 1)).all():
        raise ValueError(
            f"{name} must be a non-empty array (n_samples, n_features) of 0 and 1; got an array of "
            f"shape {rows.shape}"
        )
    return rows.astype(np.float32)


def _distances(X, Y):
    """Count the pairs of a row of X (n, D) and a row of Y (m, D) by their Hamming distance.

    The counts are int64 (D + 1,). If Y is None, pairs of rows of X are counted. Distances are
    symmetric, so the distances between two blocks of rows are computed once and counted twice.
    """
    symmetric = Y is None
    Y = X if symmetric else Y
    # Compute the Hamming distance |x| + |y| - 2 x'y by a matrix product. All its numbers are
    # integers, so it is exact in float32.
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
