"""Columns of X on one scale, dense or CSR, and coefficients for the columns as given."""

from copy import copy

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.pickling import Versioned
from skcrbm.utils.warnings import warn_user

# Of the largest absolute value of a sparse column: variance below its square is rounding.
_CONSTANT = 1e-7
# Columns that vary less have a scale whose inverse is no number: they count as constant.
_LEAST_WIDTH = 1e-290
# Beginning of the warning about columns that nothing brings to one scale.
SCALES = "The columns of X are not on one scale, or far from standard deviation 1"
# Largest standard deviations with which nothing needs to be said; and what the upper quartile
# may be, relative to the lower one. Pixels that are nearly always off are far below that.
_LEAST_SD, _MOST_SD, _SD_RATIO = 0.01, 20.0, 1000.0
_ROWS_LOOKED_AT = 4096  # for a warning
_LEAST_ROWS = 64  # of a product, as each reads all coefficients


class Columns(Versioned):
    """Columns of X brought to a scale that does not depend on their units.

    ``z = (x - shift) * factor``: a dense column of two values becomes 0 and 1, any other
    (x - mean) / (2 sd), which is the sd of a balanced 0/1 column. A sparse column keeps its
    zeros: it is divided by the root mean square of what is not 0, or by 2 sd if that is more,
    so that one of 0 and c becomes 0 and 1, too. Columns that are constant up to rounding become 0.

    Parameters
    ----------
    X : ndarray or CSR matrix (N, D)
    weight : ndarray (N,), positive
        A weight k counts as k copies of the row.
    centre : bool, default=False
        Whether two-valued columns of a dense X are shifted to mean 0 as well: intercepts then
        learn on their own, as gradient descent needs. With intercepts that are free the best
        model is the same.

    Attributes
    ----------
    shift, factor : ndarray (D,) float64
    variance : float
        Sum of the variances of the columns z.
    """

    _saved = ("shift", "factor", "variance")

    def __init__(self, X, weight, centre=False):
        share = weight / weight.sum()
        scales = _sparse_scales if sparse.issparse(X) else _dense_scales
        shift, width, unit, second, varies = scales(X, share, centre)
        # Columns are `width` times ones of this unit and variance.
        inside = np.divide(1.0, unit, out=np.zeros_like(unit), where=varies & (unit > 0))
        inside[width < _LEAST_WIDTH] = 0.0
        self.shift = shift
        self.factor = inside / width
        self.variance = float((second * inside**2).sum())

    def transform(self, X, dtype=np.float64):
        """Return z (N, D) for X, dense or CSR."""
        if not sparse.issparse(X):
            if dtype == np.float64:
                Z = np.subtract(X, self.shift, dtype=dtype)
                Z *= self.factor
                return Z
            Z = np.empty(X.shape, dtype)
            for rows in dense_chunks(X):  # rounded once
                Z[rows] = (X[rows] - self.shift) * self.factor
            return Z
        Z = X.astype(np.float64)  # a copy
        Z.data *= self.factor[Z.indices]
        return Z.astype(dtype, copy=False)

    def for_rows(self, X):
        """Return these columns for a further X: one that is sparse cannot be shifted."""
        if not sparse.issparse(X) or not self.shift.any():
            return self
        unshifted = copy(self)
        unshifted.shift = np.zeros_like(self.shift)
        return unshifted

    def inside(self, coef, intercept):
        """Coefficients (K, D) and intercepts (K,) for z, of those for x.

        What constant columns do goes to the intercepts, but for sparse ones.
        """
        scale = np.divide(1.0, self.factor, out=np.zeros_like(self.factor), where=self.factor > 0)
        return coef * scale, intercept + coef @ self.shift

    def as_given(self, coef, intercept):
        """Coefficients (K, D) and intercepts (K,) for x, of those for z."""
        coef = coef * self.factor
        return coef, intercept - coef @ self.shift


class LazyRows:
    """Rows of a dense X in float64, worked out when they are asked for.

    Parameters
    ----------
    X : ndarray (N, D)
    columns : Columns or None
        None: the columns stay as they are.
    index : ndarray of int or None
        Which rows of X, all by default; they are not copied before.
    """

    def __init__(self, X, columns=None, index=None):
        self.X, self.columns, self.index = X, columns, index
        self.shape = X.shape if index is None else (len(index), *X.shape[1:])
        self.dtype = np.dtype(np.float64)

    def __getitem__(self, rows):
        """Return the given rows, not worked out either."""
        if self.index is None and isinstance(rows, slice):
            return LazyRows(self.X[rows], self.columns)
        index = np.arange(len(self.X)) if self.index is None else self.index
        return LazyRows(self.X, self.columns, index[rows])

    def __array__(self, dtype=None, copy=None):
        """Work out all rows."""
        X = self.X if self.index is None else self.X[self.index]
        return X.astype(np.float64) if self.columns is None else self.columns.transform(X)


def in_double(X, columns=None):
    """Return X in float64, on one scale if `columns` are given; `LazyRows` if it is large."""
    if sparse.issparse(X) or X.size <= BLOCK_ENTRIES:
        return X.astype(np.float64, copy=False) if columns is None else columns.transform(X)
    return X if columns is None and X.dtype == np.float64 else LazyRows(X, columns)


def dense_chunks(X, n_more=0):
    """Cut the rows of a dense X, and n_more numbers with each, into blocks of a few megabytes."""
    return row_chunks(X.shape[0], max(1, BLOCK_ENTRIES // max(1, X.shape[1] + n_more)))


def linear_fields(X, coef, intercept):
    """``X coef' + intercept`` (N, K), with no copy of a dense X in another dtype."""
    dtype = np.result_type(X.dtype, coef)
    coef = coef.astype(dtype, copy=False)
    if sparse.issparse(X) or X.dtype == dtype:
        fields = np.asarray(safe_sparse_dot(X, coef.T))
    else:
        fields = np.empty((len(X), len(coef)), dtype)
        for rows in row_chunks(len(X), max(_LEAST_ROWS, BLOCK_ENTRIES // max(1, X.shape[1]))):
            np.matmul(X[rows], coef.T, out=fields[rows])
    return fields + intercept


def warn_of_scales(X, weight, name, partial=False, remedy=None):
    """Warn if columns that are trained on as they are have wildly different or large scales.

    Parameters
    ----------
    X : ndarray or CSR matrix (N, D)
        Columns with NaN are left out.
    weight : ndarray (N,), positive
    name : str
        Of the estimator.
    partial : bool, default=False
        Whether X is a piece of the rows.
    remedy : str, default=None
        What to do, if no scaler of columns.
    """
    scales = _sparse_scales if sparse.issparse(X) else _dense_scales
    step = -(-len(weight) // _ROWS_LOOKED_AT)  # X may be larger than the memory
    X, weight = X[::step], weight[::step]
    with np.errstate(invalid="ignore"):
        _, width, _, second, varies = scales(X, weight / weight.sum(), False)
    deviation = (width * np.sqrt(second))[varies & (second > 0)]
    if not len(deviation):
        return
    lower, upper = np.quantile(deviation, (0.25, 0.75), method="nearest")
    low, high = deviation.min(), deviation.max()
    if _LEAST_SD <= high <= _MOST_SD and upper <= _SD_RATIO * lower:
        return
    scaler = "MaxAbsScaler()" if sparse.issparse(X) else "StandardScaler()"
    if remedy is None and partial:
        remedy = f"Scale every piece alike, by a {scaler} that was fitted before"
    elif remedy is None:
        remedy = f"Scale X, as in skcrbm.pipeline.make_pipeline({scaler}, {name}())"
    warn_user(
        f"{SCALES} ({low:.2g} to {high:.2g}), and {name} trains on them as they are: it may learn "
        f"from the largest ones only, or overfit. {remedy}"
    )


def _dense_scales(X, share, centre):
    """Shift, width, unit, variance (D,) and whether a column varies."""
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    rounding = 10.0 * np.finfo(X.dtype).eps * np.maximum(np.abs(low), np.abs(high))
    varies = high - low > rounding
    width = np.where(varies, high - low, 1.0)
    two_valued = np.ones(X.shape[1], dtype=bool)
    mean, second = np.zeros((2, X.shape[1]))

    def units():  # in [0, 1]: their squares do not overflow
        for rows in dense_chunks(X):
            yield rows, (X[rows] - low) / width

    for rows, unit in units():
        mean += share[rows] @ unit
        two_valued &= ((X[rows] == low) | (X[rows] == high)).all(axis=0)
    for rows, unit in units():
        second += share[rows] @ (unit - mean) ** 2
    shift = np.where(two_valued & (not centre), low, low + width * mean)
    return shift, width, np.where(two_valued, 1.0, 2.0 * np.sqrt(second)), second, varies


def _sparse_scales(X, share, centre):
    """Of CSR, the same as `_dense_scales`; nothing is shifted."""
    n_columns = X.shape[1]
    top = np.zeros(n_columns)
    np.maximum.at(top, X.indices, np.abs(X.data))
    width = np.where(top > 0, top, 1.0)
    values = X.data / width[X.indices]
    shares = np.repeat(share, np.diff(X.indptr))

    def total(terms):
        return np.bincount(X.indices, terms, minlength=n_columns)

    filled = total(shares * (values != 0))
    square = total(shares * values**2)
    mean = total(shares * values)
    # Around the mean, where what is not stored is a 0.
    second = total(shares * ((values - mean[X.indices]) ** 2 - mean[X.indices] ** 2)) + mean**2
    varies = second > _CONSTANT**2 * square
    second = np.where(varies, second, 0.0)
    unit = np.sqrt(np.maximum(square / np.where(varies, filled, 1.0), 4.0 * second))
    return np.zeros(n_columns), width, unit, second, varies
