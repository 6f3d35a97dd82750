"""Validation of the arguments that users pass: kernel arrays, counts, X, row weights."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import _check_sample_weight, _num_samples, validate_data


class NothingToLearnError(ValueError):
    """No row with a positive weight has an observed entry: `fit` fails, `partial_fit` skips it."""


def kernel_array(array: Any, dtype: Any = None) -> np.ndarray:
    """Return `array` in the layout for which kernels are compiled: C order, aligned, writable.

    A read-only array has another type for the compiler, which would compile every kernel again.
    """
    array = np.asarray(array)
    if array.flags.carray and (dtype is None or array.dtype == dtype):
        return array  # a shortcut, because training calls this thousands of times
    return np.require(array, dtype, "CAW")


def as_real(array: Any, name: str, shape: str) -> np.ndarray:
    """Return `array` as a float32 or float64 ndarray.

    A ValueError names the argument and its expected shape if `array` is ragged, or not real and
    numeric.
    """
    try:
        result = np.asarray(array)
        if np.ma.is_masked(array):
            raise TypeError("it has masked entries")
        if result.dtype.kind in "cSUMm":
            raise TypeError(f"values of type {result.dtype}")
        if result.dtype in (np.float32, np.float64):
            return result
        return result.astype(np.float32 if result.dtype == np.float16 else np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a real array of shape {shape}: {error}") from error


def as_float_array(array: Any, name: str, shape: str) -> np.ndarray:
    """Return `array` as a finite float32 or float64 array of the given rank, ready for kernels.

    `shape` is the expected shape as text, as in "(N, L)"; the number of its comma-separated
    entries is the rank. A ValueError names the argument and the shape.
    """
    result = as_real(array, name, shape)
    if result.ndim != shape.count(",") + (not shape.endswith(",)")):
        raise ValueError(f"{name} must have shape {shape}, got an array of shape {result.shape}")
    return _finite(result, name, shape)


def as_row_fields(array: Any, name: str, width: int, n_label: str) -> np.ndarray:
    """Return finite fields as (N, width); a single row (width,) becomes (1, width).

    `n_label` is the letter for the width in the error message.
    """
    shape = f"({n_label},) or (N, {n_label}) with {n_label} = {width}"
    result = as_real(array, name, shape)
    if result.ndim not in (1, 2) or result.shape[-1] != width:
        raise ValueError(f"{name} must have shape {shape}, got an array of shape {result.shape}")
    return _finite(np.atleast_2d(result), name, shape)


def _finite(array, name, shape):
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, of shape {shape}; it contains NaN or infinity")
    return kernel_array(array)


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return an int argument; ValueError unless it is an int of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an int of at least {least}, got {value!r}")
    return int(value)


_FORM = "X must be a numeric array, data frame or sparse matrix (n_samples, n_features)"


def checked_features(
    estimator: Any,
    X: Any,
    *,
    allow_nan: bool,
    reset: bool,
    as_rows: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Any:
    """Return X as an ndarray or canonical CSR matrix (N, D), float32 or float64, in C order.

    `reset` sets `n_features_in_` and `feature_names_in_` of the estimator; otherwise X must agree
    with them. `as_rows` makes rows of an ndarray X with more than two dimensions, which is refused
    without it. Errors about any other X name it.
    """
    try:
        X = np.asarray(X) if isinstance(X, (list, tuple)) else X
        if getattr(X, "ndim", 2) > 2 and as_rows is not None:
            X = as_rows(np.asarray(X))
        if getattr(X, "ndim", 2) > 2:
            raise ValueError(
                f"{_FORM}, got {X.ndim} dimensions; use X.reshape(len(X), -1), or for images as "
                "outputs skcrbm.ImageCRBM, which takes them as they are"
            )
        if np.ma.is_masked(X):
            remedy = "X.astype(float).filled(np.nan)" if allow_nan else "an imputed X"
            raise ValueError(f"X must not have masked entries, which would be read; pass {remedy}")
        if hold_dates(X):
            raise TypeError("it holds dates or times, which would silently be counts of a unit")
        with np.errstate(over="ignore", invalid="ignore"):  # inf is refused
            finite = "allow-nan" if allow_nan else True
            X = validate_data(
                estimator,
                X,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                order="C",
                ensure_all_finite=finite,
                reset=reset,
            )
            return canonical(X, finite) if sparse.issparse(X) else X
    except (OverflowError, TypeError, ValueError) as error:
        if "X contains NaN" in str(error):
            raise ValueError(
                f"Input X contains NaN, and {type(estimator).__name__} takes no missing features. "
                "Impute them, or use a classifier that takes them, as in DecodedClassifier("
                "OneVsRestClassifier(HistGradientBoostingClassifier()))"
            ) from error
        if "X" in str(error):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{_FORM}: {error}") from error


def canonical(matrix: Any, ensure_all_finite: bool | str = "allow-nan") -> Any:
    """Return a CSR or CSC matrix with sorted indices and neither duplicate entries nor zeros.

    The given matrix is not changed. SciPy adds up entries with the same indices, but code that
    reads `indices` and `data` would treat them as different features.
    """
    stored = np.count_nonzero(matrix.data)
    if matrix.has_canonical_format and stored == matrix.nnz:
        return matrix
    matrix = matrix.copy()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if stored and matrix.nnz < stored:  # a sum of finite entries may overflow
        return check_array(
            matrix, accept_sparse=True, ensure_all_finite=ensure_all_finite, input_name="X"
        )
    return matrix


def note_features(estimator: Any, X: Any) -> None:
    """Set `n_features_in_` and `feature_names_in_` of an estimator that passes X on unchanged."""
    try:
        validate_data(estimator, X, skip_check_array=True)
    except (LookupError, TypeError, ValueError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{_FORM}: {error!r}") from error


def count_rows(X: Any) -> int:
    """Return the number of rows of an X that is passed on unchanged; a TypeError names X."""
    try:
        return _num_samples(X)
    except TypeError as error:
        raise TypeError(f"{_FORM}: {error}") from error


def check_same_length(X: Any, y: Any, *others: Any) -> None:
    """Raise a TypeError or ValueError unless all have the same number of rows; None is ignored."""
    try:
        check_consistent_length(X, y, *others)
    except TypeError as error:
        raise TypeError(f"X and y must be arrays with a row for each sample: {error}") from error


def filled_with_nan(array: Any) -> Any:
    """Return a masked array as an ndarray with NaN in its masked entries, any other as it is."""
    if not isinstance(array, np.ma.MaskedArray):
        return array
    if not np.ma.is_masked(array):
        return array.data
    return array.astype(np.float64 if array.dtype.kind in "biuf" else object).filled(np.nan)


def hold_dates(values: Any) -> bool:
    """Return True if an array-like holds dates or times, which casts to float turn into counts."""
    if hasattr(values, "dtypes") and hasattr(values, "columns"):  # a data frame, of any library
        kinds = {getattr(dtype, "kind", "") for dtype in values.dtypes}
    else:
        kinds = {getattr(getattr(values, "dtype", None), "kind", "")}
    if kinds & {"M", "m"}:
        return True
    elements = np.asarray(values, dtype=object).flat if "O" in kinds else ()
    return any(isinstance(value, (np.datetime64, np.timedelta64)) for value in elements)


def check_sample_weight(sample_weight: Any, X: Any) -> np.ndarray:
    """Return the weights (N,) of the rows of X as float64.

    `sample_weight` is an array (N,), a float for all rows, or None. A ValueError is raised if
    weights are negative, not numbers, or all 0.
    """
    try:
        given = np.asarray(sample_weight)
        if np.ma.is_masked(sample_weight):
            raise TypeError("they have masked entries")
        if hold_dates(given):
            raise TypeError("they are dates or times")
        if given.dtype.kind in "buif" and not given.any():
            raise NothingToLearnError(
                "sample_weight is zero for every row: there is nothing to fit"
            )
        return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    except (OverflowError, TypeError, ValueError) as error:
        if "sample_weight" in str(error):
            raise
        raise ValueError(f"sample_weight must be numbers of shape (n_samples,): {error}") from error


def weighted_rows(arrays: tuple, sample_weight: Any) -> tuple[tuple, np.ndarray]:
    """Return the rows with positive weight of all arrays (N, ...), and their weights."""
    weight = check_sample_weight(sample_weight, arrays[0])
    keep = weight > 0
    if keep.all():
        return arrays, weight
    return tuple(array[keep] for array in arrays), weight[keep]
