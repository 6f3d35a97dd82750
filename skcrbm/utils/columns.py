"""Scale the columns of X, and convert coefficients between scaled and given columns."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from scipy import sparse

from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.pickling import Versioned
from skcrbm.utils.warnings import warn_user

# A sparse column is constant up to rounding if its standard deviation is less than this number
# times its largest absolute value.
_CONSTANT = 1e-7
# A column whose range is less than this number counts as constant, because 1 / range would
# overflow.
_LEAST_WIDTH = 1e-290
# After scaling, the scale of each sparse column lies between 1 / _MOST_RATIO and _MOST_RATIO. The
# median of the scales is then 1.
_MOST_RATIO = 8.0
# X is stored as a sparse matrix in a fit if less than this share of its entries differs from 0. The
# kernels and products for sparse matrices are then faster.
_MOSTLY_ZERO = 0.1
# A stochastic fit makes no sparse copy of a memory-mapped X with more bytes than this (1 GB).
_MOST_MAPPED = 2**30
# A sparse column with few zeros is centred, which fills its zeros, if its mean is larger than this
# number times its standard deviation (sd). Columns with a smaller mean are not centred. They are
# divided by their root mean square, which is at most 1.6 times 2 sd, the divisor of a centred
# column.
_FAR_FROM_0 = 3.0
# First words of the warning about columns on different scales. Filters that ignore the warning find
# it by these words.
SCALES = "The columns of X have standard deviations that differ much, or are far from 1"
# `warn_of_scales` warns if the largest standard deviation of a column is outside of _LEAST_SD to
# _MOST_SD, or if the upper quartile of the standard deviations exceeds the lower quartile by more
# than the factor _SD_RATIO. Images, whose border pixels are nearly always off, stay far below this
# factor.
_LEAST_SD, _MOST_SD, _SD_RATIO = 0.01, 20.0, 1000.0
_ROWS_CHECKED = 4096  # `warn_of_scales` reads about this number of rows


class Columns(Versioned):
    """Scaling of the columns of X, after which a fit does not depend on their units.

    The scaled column is ``z = (x - shift) * factor``:

    - A dense column of two values becomes 0 and 1.
    - Any other dense column becomes (x - mean) / (2 sd). Its standard deviation is then 0.5, as in
      a balanced 0/1 column.
    - Most columns of a sparse X are not shifted, so that their zeros remain 0. They are divided by
      a common divisor, the median of the scales of the columns, so that the weights of TF-IDF keep
      their effect. (In experiments with texts, a separate divisor for each column lowered the
      ranking average precision by up to .015.) The scale of a column is the root mean square of its
      nonzero entries, or 2 sd if that is larger. If a scale differs from the median by more than
      the factor `_MOST_RATIO`, the column gets a divisor of its own that limits the ratio, so that
      a column in other units does not dominate. Columns of 0 and 1 remain unchanged.
    - A column of a sparse X with few zeros that contains negative values, such as a number beside
      words, is divided by 2 sd. If such a column lies far from 0, with or without negative values,
      as a year does, it is centred, so that all of its entries are stored. It is divided by 2 sd or
      by the common divisor, whichever is larger, because it may also be a frequent word.
    - A column that is constant up to rounding becomes 0.

    X is an ndarray or CSR matrix (N, D), and a row of weight k counts as k copies. `centre` also
    shifts two-valued columns of a dense X to mean 0. Gradient descent needs this, because it
    decouples the intercepts from the coefficients. If the intercepts are not penalised, the shift
    does not change the best model.
    """

    _warns_of_version = False

    shift: np.ndarray  # (D,) float64, subtracted from the columns
    factor: np.ndarray  # (D,) float64, multiplied with the shifted columns
    variance: float  # sum of the variances of the columns z

    _saved = ("shift", "factor", "variance")

    def __init__(self, X: Any, weight: np.ndarray, centre: bool = False):
        share = weight / weight.sum()
        scales = _sparse_scales if sparse.issparse(X) else _dense_scales
        shift, width, unit, second, varies = scales(X, share, centre)
        # `unit` and `second` (a variance) describe the column after a division by `width`, which
        # keeps squares from overflowing.
        inside = np.divide(1.0, unit, out=np.zeros_like(unit), where=varies & (unit > 0))
        narrow = varies & (width < _LEAST_WIDTH)
        if narrow.any():
            warn_user(
                f"{narrow.sum()} columns of X vary by less than {_LEAST_WIDTH:g} and are treated "
                "as constant. Multiply X by a large number, or use a scaler"
            )
        inside[narrow] = 0.0
        self.shift = shift
        self.factor = inside / width
        self.variance = float((second * inside**2).sum())

    def transform(self, X: Any, dtype: Any = np.float64) -> Any:
        """Return the scaled columns z (N, D) of X, an ndarray or CSR matrix."""
        if not sparse.issparse(X):
            if dtype == np.float64:
                Z = np.subtract(X, self.shift, dtype=dtype)
                Z *= self.factor
                return Z
            Z = np.empty(X.shape, dtype)
            for rows in dense_chunks(X):  # compute in float64 and round the result once
                Z[rows] = (X[rows] - self.shift) * self.factor
            return Z
        Z = X.astype(np.float64)  # a copy
        Z.data *= self.factor[Z.indices]
        moved = np.flatnonzero(self.shift)
        if len(moved):
            n_rows = X.shape[0]
            offsets = np.tile((self.shift * self.factor)[moved], n_rows)
            ends = len(moved) * np.arange(n_rows + 1)
            Z = Z - sparse.csr_matrix((offsets, np.tile(moved, n_rows), ends), X.shape)
        return Z.astype(dtype, copy=False)

    def for_rows(self, X: Any) -> Columns:
        """Return the scaling for other rows X.

        If X is sparse and the scaling shifts many columns, the result shifts no column, so that X
        stays sparse. A shift changes the intercepts of a model only.
        """
        few = np.count_nonzero(self.shift) < _MOSTLY_ZERO * len(self.shift)
        if few or not sparse.issparse(X):
            return self
        unshifted = copy(self)
        unshifted.shift = np.zeros_like(self.shift)
        return unshifted

    def inside(self, coef, intercept):
        """Convert coefficients (K, D) and intercepts (K,) from x to the scaled columns z.

        The effect of constant dense columns moves into the intercepts.
        """
        scale = np.divide(1.0, self.factor, out=np.zeros_like(self.factor), where=self.factor > 0)
        return coef * scale, intercept + coef @ self.shift

    def as_given(self, coef, intercept):
        """Convert coefficients (K, D) and intercepts (K,) from the scaled columns z to x."""
        coef = coef * self.factor
        return coef, intercept - coef @ self.shift


class LazyRows:
    """View of a dense X (N, D) that converts rows to float64 only when NumPy reads them.

    This avoids a float64 copy of a large X. `columns` scales the rows, unless it is None. `index`
    selects rows of X without a copy; by default all rows are selected.
    """

    def __init__(
        self, X: np.ndarray, columns: Columns | None = None, index: np.ndarray | None = None
    ):
        self.X, self.columns, self.index = X, columns, index
        self.shape = X.shape if index is None else (len(index), *X.shape[1:])
        self.dtype = np.dtype(np.float64)

    def __getitem__(self, rows):
        """Return the selected rows as `LazyRows`, without computing them."""
        if self.index is None and isinstance(rows, slice):
            return LazyRows(self.X[rows], self.columns)
        index = np.arange(len(self.X)) if self.index is None else self.index
        return LazyRows(self.X, self.columns, index[rows])

    def __array__(self, dtype=None, copy=None):
        """Compute all selected rows."""
        X = self.X if self.index is None else self.X[self.index]
        return X.astype(np.float64) if self.columns is None else self.columns.transform(X)


def in_faster_storage(X: Any, mapped: bool = False) -> Any:
    """Return X (N, D) as a CSR matrix if few entries differ from 0, else as an ndarray.

    The choice does not depend on whether X is sparse or dense, so that a fit to a dense array and a
    fit to the same values in a CSR matrix give the same model. There is an exception: if `mapped`
    is True, a large memory-mapped X is returned unchanged, because it may be larger than the
    memory.
    """
    if mapped and not sparse.issparse(X) and X.nbytes > _MOST_MAPPED and _is_memory_mapped(X):
        return X
    if sparse.issparse(X):
        filled = np.count_nonzero(X.data)
    else:
        filled = sum(np.count_nonzero(X[rows]) for rows in dense_chunks(X))
    if filled >= _MOSTLY_ZERO * X.shape[0] * X.shape[1]:
        return X.toarray() if sparse.issparse(X) else X
    if not sparse.issparse(X):
        return sparse.csr_matrix(X)
    if filled < X.nnz or not X.has_sorted_indices:
        X = X.copy()
        X.eliminate_zeros()
        X.sort_indices()
    return X


def _is_memory_mapped(X):
    while X is not None and not isinstance(X, np.memmap):  # go from a view to its array
        X = getattr(X, "base", None)
    return X is not None


def in_double(X: Any, columns: Columns | None = None) -> Any:
    """Return X in float64, scaled by `columns` unless `columns` is None.

    A large dense X is returned as `LazyRows`, which converts rows only when they are read.
    """
    if sparse.issparse(X) or X.size <= BLOCK_ENTRIES:
        return X.astype(np.float64, copy=False) if columns is None else columns.transform(X)
    return X if columns is None and X.dtype == np.float64 else LazyRows(X, columns)


def dense_chunks(X: np.ndarray, n_more: int = 0) -> list[slice]:
    """Cut the rows of a dense X into blocks of some megabytes.

    `n_more` is the number of values per row that the caller computes in addition to X.
    """
    return row_chunks(X.shape[0], max(1, BLOCK_ENTRIES // max(1, X.shape[1] + n_more)))


def warn_of_scales(
    X: Any, weight: np.ndarray, name: str, partial: bool = False, remedy: str | None = None
) -> None:
    """Warn if the columns of X have very different scales, or if the largest is far from 1.

    The scale of a column is its standard deviation. Columns with NaN are ignored. Estimators that
    do not scale the columns themselves call this function. `name` is the name of the estimator,
    `partial` is True if X holds only a part of the rows, and `remedy` replaces the advice to use a
    scaler.
    """
    scales = _sparse_scales if sparse.issparse(X) else _dense_scales
    # Read a sample of the rows only, because X may be a memory map that is larger than the memory.
    step = -(-len(weight) // _ROWS_CHECKED)
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
        remedy = f"Fit one {scaler} and scale all parts of X with it"
    elif remedy is None:
        remedy = f"Scale X, as in skcrbm.pipeline.make_pipeline({scaler}, {name}())"
    warn_user(
        f"{SCALES} ({low:.2g} to {high:.2g}). {name} does not scale the columns and may learn "
        f"from the largest columns only, or overfit. {remedy}"
    )


def _dense_scales(X, share, centre):
    """Return five arrays (D,) that describe the columns: shift, width, unit, variance, varies.

    To avoid overflow, a column is scaled in two steps: (x - shift) is divided by `width`, the range
    of the column, and then by `unit`. The variance is measured between the two steps. `varies` is
    False for columns that are constant up to rounding.
    """
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    rounding = 10.0 * np.finfo(X.dtype).eps * np.maximum(np.abs(low), np.abs(high))
    varies = high - low > rounding
    width = np.where(varies, high - low, 1.0)
    two_valued = np.ones(X.shape[1], dtype=bool)
    mean, second = np.zeros((2, X.shape[1]))

    def units():  # yields the columns mapped to [0, 1], so that their squares do not overflow
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
    """Return the arrays of `_dense_scales` for a CSR matrix.

    The width of a column is its largest absolute value. The shift is the mean if less than half
    of the entries of the column are 0 and the mean is far from 0, else 0.
    """
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
    # Compute the variance around the mean. Each entry that is not stored is 0 and lies at the
    # distance `mean` from the mean, so these entries add their share of the rows times mean^2.
    second = total(shares * ((values - mean[X.indices]) ** 2 - mean[X.indices] ** 2)) + mean**2
    varies = second > _CONSTANT**2 * square
    second = np.where(varies, second, 0.0)
    deviation = np.sqrt(second)
    unit = np.maximum(np.sqrt(square / np.where(varies, filled, 1.0)), 2.0 * deviation)
    few_zeros = varies & (filled > 0.5)
    # Weights can hide that a column has many zeros, which a shift would fill.
    stored = np.bincount(X.indices[X.data != 0], minlength=n_columns)
    far = few_zeros & (4 * stored > X.shape[0]) & (np.abs(mean) > _FAR_FROM_0 * deviation)
    signed = few_zeros & (total(X.data < 0) > 0)  # words have no negative values
    unit = np.where(far | signed, 2.0 * deviation, unit)
    ratio = _relative_scales(width * unit, varies & ~(far | signed))
    ratio[signed] = 1.0
    ratio[far] = np.minimum(ratio[far], 1.0)
    return np.where(far, width * mean, 0.0), width, unit / ratio, second, varies


def _relative_scales(scale, varies):
    """Return the scales (D,) of sparse columns divided by their median, within limits.

    The limits are 1 / _MOST_RATIO and _MOST_RATIO.
    """
    if not varies.any():
        return np.ones_like(scale)
    common = np.quantile(scale[varies], 0.5, method="nearest")
    return np.clip(scale / common, 1 / _MOST_RATIO, _MOST_RATIO)
