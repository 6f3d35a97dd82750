"""Validation of the arrays that users pass: kernel arrays, X, row weights."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_sample_weight, _num_samples, validate_data


def kernel_array(array, dtype=None):
    """Return `array` in the one layout for which kernels are compiled.

    C order, aligned and writable: a read-only array is another type to the compiler,
    which would take seconds to compile every kernel again.
    """
    array = np.asarray(array)
    if array.flags.carray and (dtype is None or array.dtype == dtype):
        return array  # as training asks thousands of times
    return np.require(array, dtype, "CAW")


def as_real(array, name, shape):
    """Return `array` as a float32 or float64 ndarray.

    Parameters
    ----------
    array : array-like
    name, shape : str
        Argument name and the shape it should have, for the error message.

    Returns
    -------
    ndarray

    Raises
    ------
    ValueError
        If `array` is ragged, or not real and numeric.
    """
    try:
        result = np.asarray(array)
        if result.dtype.kind in "cSUMm":
            raise TypeError(f"values of type {result.dtype}")
        if result.dtype in (np.float32, np.float64):
            return result
        return result.astype(np.float32 if result.dtype == np.float16 else np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a real array of shape {shape}: {error}") from error


def as_float_array(array, name, shape):
    """Return `array` as a float32 or float64 array of the given rank, ready for kernels.

    Parameters
    ----------
    array : array-like
    name : str
        Argument name, for the error message.
    shape : str
        What the shape should be, for the error message; its rank is the number of
        comma-separated entries.

    Returns
    -------
    ndarray

    Raises
    ------
    ValueError
        If `array` has another rank, is not real and numeric, or is not finite.
    """
    result = as_real(array, name, shape)
    if result.ndim != shape.count(",") + (not shape.endswith(",)")):
        raise ValueError(f"{name} must have shape {shape}, got an array of shape {result.shape}")
    return _finite(result, name, shape)


def as_row_fields(array, name, width, n_label):
    """Return fields as (N, width): a single (width,) row becomes (1, width).

    Raises
    ------
    ValueError
        If the last axis is not `width`, or values are not real and finite.
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


_FORM = "X must be a numeric array, data frame or sparse matrix (n_samples, n_features)"


def checked_features(estimator, X, *, allow_nan, reset, as_rows=None):
    """Return X as an ndarray or CSR matrix (N, D), float32 or float64, in C order.

    Parameters
    ----------
    estimator : estimator
        Gets `n_features_in_` and `feature_names_in_`, or has them.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    allow_nan, reset : bool
    as_rows : callable, default=None
        Makes rows of an ndarray X of more dimensions, which are refused without it.

    Raises
    ------
    ValueError, TypeError
        On any other X, naming it.
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
        if hold_dates(X):
            raise TypeError("it holds dates or times, which would silently be counts of a unit")
        with np.errstate(over="ignore", invalid="ignore"):  # of casts and sums: inf is refused
            return validate_data(
                estimator,
                X,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                order="C",
                ensure_all_finite="allow-nan" if allow_nan else True,
                reset=reset,
            )
    except (OverflowError, TypeError, ValueError) as error:
        if "X" in str(error):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{_FORM}: {error}") from error


def note_features(estimator, X):
    """Set `n_features_in_` and `feature_names_in_` of an estimator that passes X on as it is."""
    try:
        validate_data(estimator, X, skip_check_array=True)
    except (LookupError, TypeError, ValueError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{_FORM}: {error!r}") from error


def count_rows(X):
    """Return the number of rows of an X that is passed on as it is; a TypeError names it."""
    try:
        return _num_samples(X)
    except TypeError as error:
        raise TypeError(f"{_FORM}: {error}") from error


def check_same_length(X, y, *others):
    """Raise a TypeError or ValueError unless all have as many rows; None is left out."""
    try:
        check_consistent_length(X, y, *others)
    except TypeError as error:
        raise TypeError(f"X and y must be arrays with a row for each sample: {error}") from error


def hold_dates(values):
    """Whether there are dates or times in an array-like: casts to float take NumPy's for counts."""
    if hasattr(values, "dtypes") and hasattr(values, "columns"):  # a data frame, of any library
        kinds = {getattr(dtype, "kind", "") for dtype in values.dtypes}
    else:
        kinds = {getattr(getattr(values, "dtype", None), "kind", "")}
    if kinds & {"M", "m"}:
        return True
    elements = np.asarray(values, dtype=object).flat if "O" in kinds else ()
    return any(isinstance(value, (np.datetime64, np.timedelta64)) for value in elements)


def check_sample_weight(sample_weight, X):
    """Return the weights of rows, (N,) of float64.

    Parameters
    ----------
    sample_weight : array-like (N,), float or None
    X : array or sparse matrix with N rows

    Raises
    ------
    ValueError
        On weights that are negative, no numbers, or all 0.
    """
    try:
        given = np.asarray(sample_weight)
        if hold_dates(given):
            raise TypeError("they are dates or times")
        if given.dtype.kind in "buif" and not given.any():
            raise ValueError("sample_weight is zero for every row: there is nothing to fit")
        return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    except (OverflowError, TypeError, ValueError) as error:
        if "sample_weight" in str(error):
            raise
        raise ValueError(f"sample_weight must be numbers of shape (n_samples,): {error}") from error


def weighted_rows(arrays, sample_weight):
    """Validate the weights of rows, and leave out rows of weight 0.

    Parameters
    ----------
    arrays : tuple of ndarray or CSR matrix (N, ...)
    sample_weight : array-like (N,), float or None

    Returns
    -------
    arrays : tuple
    weight : ndarray (N,), float64, positive

    Raises
    ------
    ValueError
        As of `check_sample_weight`.
    """
    weight = check_sample_weight(sample_weight, arrays[0])
    keep = weight > 0
    if keep.all():
        return arrays, weight
    return tuple(array[keep] for array in arrays), weight[keep]
