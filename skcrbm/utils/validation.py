"""Validate arguments of users: arrays for kernels, counts, X and row weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import combinations
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import validate_data

from skcrbm.utils.advice import supporting
from skcrbm.utils.sklearn_private import check_weights, num_samples, safe_indexing
from skcrbm.utils.wrong_features import one_dimension_text, place_of_wrong, text_advice


class NothingToLearnError(ValueError):
    """Raised if no row with a positive weight has an observed label.

    `fit` raises this error, while `partial_fit` skips the batch.
    """


def kernel_array(array: Any, dtype: Any = None) -> np.ndarray:
    """Return `array` in the layout for which kernels are compiled: C order, aligned, writable.

    For Numba a read-only array has another type, so a kernel would be compiled again for it.
    """
    array = np.asarray(array)
    if array.flags.carray and (dtype is None or array.dtype == dtype):
        return array  # the fast path, because training calls this thousands of times
    return np.require(array, dtype, "CAW")


def own_array(array: Any, dtype: Any = None) -> np.ndarray:
    """Return a copy of `array` in the layout of `kernel_array`, so that no caller can change it."""
    return np.array(array, dtype, order="C")


def has_labels(values: Any) -> bool:
    """Return True for mappings, pandas objects, and data frames of any library.

    `skcrbm.utils.labels` reads their labels.
    """
    if isinstance(values, np.ndarray) or sparse.issparse(values):
        return False
    return hasattr(values, "items") or hasattr(values, "columns")


def as_real(array: Any, name: str, shape: str) -> np.ndarray:
    """Return `array` as a float32 or float64 ndarray in the byte order of the machine.

    float16 becomes float32, and all other numbers become float64. If `array` is ragged or not
    real-valued, a ValueError names the argument and the expected shape.
    """
    try:
        result = np.asarray(array)
        if np.ma.is_masked(array):
            raise TypeError("it has masked entries")
        if result.dtype.kind in "cSUMm":
            raise TypeError(f"values of type {result.dtype}")
        if result.dtype in (np.float32, np.float64):
            return result
        single = result.dtype.newbyteorder("=") in (np.float16, np.float32)
        return result.astype(np.float32 if single else np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a real array of shape {shape}: {error}") from error


def as_float_array(array: Any, name: str, shape: str) -> np.ndarray:
    """Return `array` as a float32 or float64 array for kernels, with finite entries.

    `shape` is the expected shape as text, such as "(N, L)". Only its number of dimensions is
    checked. If `array` is invalid, a ValueError names the argument and the shape.
    """
    result = as_real(array, name, shape)
    if result.ndim != shape.count(",") + (not shape.endswith(",)")):
        raise ValueError(f"{name} must have shape {shape}, got an array of shape {result.shape}")
    return _finite(result, name, shape)


def as_row_fields(array: Any, name: str, width: int, n_label: str) -> np.ndarray:
    """Return finite fields as an array (N, width); a single row (width,) becomes (1, width).

    `n_label` is the letter for the width in error messages, such as "H".
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
    """Return an argument as int, or raise a ValueError unless it is an int of at least `least`."""
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

    If `reset` is True, `n_features_in_` and `feature_names_in_` of the estimator are set; otherwise
    X must agree with these attributes. `as_rows` is a function that converts an X with more than
    two dimensions, such as images, to a 2-D array; without it such an X is an error. Dask arrays
    and data frames are computed. All error messages name X.
    """
    try:
        X = np.asarray(X) if isinstance(X, (list, tuple)) else X
        # Only a Dask array itself can put its sparse blocks together.
        X = X.compute() if hasattr(type(X), "__dask_graph__") else X
        if getattr(X, "ndim", 2) > 2 and as_rows is not None:
            X = as_rows(np.asarray(X))
        if getattr(X, "ndim", 2) > 2:
            raise ValueError(
                f"{_FORM}, got {X.ndim} dimensions; use X.reshape(len(X), -1), or to predict "
                f"images skcrbm.{supporting('images')}, which takes X and y as images"
            )
        if np.ma.is_masked(X):
            remedy = "X.astype(float).filled(np.nan)" if allow_nan else "an imputed X"
            raise ValueError(
                "X must not have masked entries, because their hidden values would be used; pass "
                f"{remedy}"
            )
        if hold_dates(X):
            raise TypeError("it holds dates or times; convert them to numbers with a unit")
        if getattr(X, "ndim", 2) == 1 and text_advice(X, type(estimator).__name__) is None:
            raise ValueError(f"{_FORM}. {one_dimension_text(X.shape)}")
        with np.errstate(over="ignore", invalid="ignore"):  # infinity raises an error below
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
        name = type(estimator).__name__
        if "NAType" in str(error):
            X = na_as_nan(X)
            return checked_features(estimator, X, allow_nan=allow_nan, reset=reset, as_rows=as_rows)
        if "could not convert string" in str(error) and (advice := text_advice(X, name)):
            raise ValueError(f"{_FORM}, but {advice}. The first error: {error}") from error
        if "X contains infinity" in str(error):
            place = place_of_wrong(X, infinite=True)
            raise ValueError(f"{str(error).strip().rstrip('.')}{place}") from error
        if "X contains NaN" in str(error):
            raise ValueError(
                f"Input X contains NaN{place_of_wrong(X, infinite=False)}, and "
                f"{name} does not support missing features. Impute the missing values, as in "
                f"make_pipeline(SimpleImputer(), {name}()), or, if y has no "
                "missing labels, use a classifier that supports NaN in X, as in "
                f"{supporting('missing features')}"
            ) from error
        if "X" in str(error):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{_FORM}: {error}") from error


def canonical(matrix: Any, ensure_all_finite: bool | str = "allow-nan") -> Any:
    """Return a CSR or CSC matrix with sorted indices, without duplicate entries and stored zeros.

    Entries with the same indices are added up, as SciPy does in products. Code that reads `indices`
    and `data` directly would treat them as separate entries. The given matrix is not changed.
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
    """Set `n_features_in_` and `feature_names_in_` of an estimator, without validating X.

    Meta-estimators call this function, because they pass X unchanged to their inner estimator,
    which validates it.
    """
    try:
        validate_data(estimator, X, skip_check_array=True)
    except (LookupError, TypeError, ValueError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{_FORM}: {error!r}") from error


def count_rows(X: Any) -> int:
    """Return the number of rows of X; raise a TypeError if X is an object without a length."""
    try:
        return num_samples(X)
    except TypeError as error:
        raise TypeError(f"{_FORM}: {error}") from error


def take_rows(X: Any, rows: Any) -> Any:
    """Return the rows of X at the indices `rows`; X may be a data frame or of any sparse format."""
    return safe_indexing(X.tocsr() if sparse.issparse(X) else X, rows)


def check_same_rows(X: Any, y: Any, sample_weight: Any = None, y_known: Any = None) -> None:
    """Raise an error unless all arrays have the same number of rows in the same order.

    None is ignored. The order can be compared for pandas objects only, see `check_index`; the rows
    of `y_known` may be in another order, because they are matched by the index.
    """
    try:
        check_consistent_length(X, y, sample_weight, y_known)
    except TypeError as error:
        raise TypeError(f"X and y must be arrays with a row for each sample: {error}") from error
    check_order(X=X, y=y, sample_weight=sample_weight)


def check_order(**arguments: Any) -> None:
    """Raise a ValueError if two of the arguments have rows in another order, see `check_index`.

    The keywords are the names of the arguments. None is ignored.
    """
    for (rows_of, first), (name, second) in combinations(arguments.items(), 2):
        check_index(first, second, name, rows_of)


def check_index(X: Any, values: Any, name: str, rows_of: str = "X") -> None:
    """Raise a ValueError if two pandas objects have rows with the same labels in another order.

    Rows are taken by position, as in scikit-learn. If the indices contain the same labels in
    another order, then either the order or the labels are wrong. This holds as well for indices
    that share some of their labels, unless one of them only counts the rows from 0. `name` and
    `rows_of` are the names of `values` and X in the message. In lists of pandas objects, such as
    sequences and their labels, the items at the same position are compared.
    """
    rows, own = row_index(X), row_index(values)
    if rows is None and own is None:
        for i, (first, second, part) in enumerate(items_with_index(X, values)):
            check_index(first, second, f"{name}[{i}]", f"{rows_of}[{i}]{part}")
    if rows is None or own is None:
        return
    if len(rows) != len(own) or len(rows) < 2 or own.equals(rows):
        return  # the caller raises an error about a wrong number of rows
    shared = own.isin(rows)
    if not shared.any() or ((_counts_rows(rows) or _counts_rows(own)) and not shared.all()):
        return
    raise ValueError(
        f"The rows of {name} and of {rows_of} have the labels of each other in another order, or "
        f"only some of them. Rows are taken by position: pass {name}.loc[{rows_of}.index] if each "
        f"row belongs to the row of {rows_of} with its label, or "
        f"{name}.set_axis({rows_of}.index) if the rows are in the same order"
    )


def row_index(values: Any) -> Any:
    """Return the index of a pandas object, or None for any other object.

    An index is returned as it is.
    """
    index = values if hasattr(values, "get_indexer") else getattr(values, "index", None)
    return index if hasattr(index, "get_indexer") else None


def items_with_index(X: Any, values: Any) -> list[tuple[Any, Any, str]]:
    """Return triples of an item of X, the item of `values` beside it, and its place in its item.

    X and `values` are lists. The result is empty if X or `values` has no pandas objects as items.
    The items of a graph are its nodes, at the place ".nodes".
    """
    if not (_has_pandas_items(X) and _has_pandas_items(values)):
        return []
    return [
        (first.nodes, second, ".nodes") if hasattr(first, "nodes") else (first, second, "")
        for first, second in zip(X, values)
    ]


def _has_pandas_items(values):
    """Return True if `values` is a list with pandas objects or graphs."""
    if not isinstance(values, (list, tuple)) and getattr(values, "dtype", 0) != "O":
        return False
    return any(hasattr(kind, "iloc") or hasattr(kind, "nodes") for kind in set(map(type, values)))


def _counts_rows(index):
    """Return True if a pandas index is 0, 1, 2, ..., as pandas makes it by default."""
    return type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)


def filled_with_nan(array: Any) -> Any:
    """Return a masked array as an ndarray with NaN in masked entries; return other arrays as is."""
    if not isinstance(array, np.ma.MaskedArray):
        return array
    if not np.ma.is_masked(array):
        return array.data
    return array.astype(np.float64 if array.dtype.kind in "biuf" else object).filled(np.nan)


def na_as_nan(values: Any) -> Any:
    """Return an array or data frame with NaN in place of pandas' NA, None and NaT in objects.

    Other values are returned unchanged.
    """
    if hasattr(values, "isna"):  # a pandas object
        return values.astype(object).where(values.notna(), np.nan)
    if getattr(values, "dtype", None) != "O":
        return values
    missing = np.array([type(value).__name__ == "NAType" for value in values.flat], bool)
    return np.where(missing.reshape(values.shape), np.nan, values) if missing.any() else values


def nested_with_nan(values: Any) -> Any:
    """Return lists and arrays of objects as arrays with NaN in place of pandas' NA.

    Other values, and lists of different lengths, are returned unchanged.
    """
    if isinstance(values, (list, tuple)):
        try:
            array = np.asarray(values)
        except ValueError:
            return values
        return na_as_nan(array) if array.dtype == object else values
    return na_as_nan(values)


def hold_dates(values: Any) -> bool:
    """Return True if an array-like holds dates or times.

    A cast to float would silently turn dates into numbers that depend on their unit.
    """
    if hasattr(values, "dtypes") and hasattr(values, "columns"):  # a data frame of any library
        kinds = {getattr(dtype, "kind", "") for dtype in values.dtypes}
    else:
        kinds = {getattr(getattr(values, "dtype", None), "kind", "")}
    if kinds & {"M", "m"}:
        return True
    elements = np.asarray(values, dtype=object).flat if "O" in kinds else ()
    return any(isinstance(value, (np.datetime64, np.timedelta64)) for value in elements)


def check_sample_weight(sample_weight: Any, X: Any) -> np.ndarray:
    """Return the weights (N,) of the rows of X as float64.

    `sample_weight` is an array (N,), a number for all rows, or None for weights of 1. A ValueError
    is raised if weights are negative, not numbers, or all 0.
    """
    try:
        given = np.asarray(sample_weight)
        if given.ndim == 2:
            refuse_label_weights(given)
        if np.ma.is_masked(sample_weight):
            raise TypeError("they have masked entries")
        if hold_dates(given):
            raise TypeError("they are dates or times")
        if given.dtype.kind in "buif" and given.size and not given.any():
            raise NothingToLearnError(
                "sample_weight is zero for every row; at least one row needs a positive weight"
            )
        weight = check_weights(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        require_normal(weight)
        return weight
    except (OverflowError, TypeError, ValueError) as error:
        if "sample_weight" in str(error):
            raise
        raise ValueError(f"sample_weight must be numbers of shape (n_samples,): {error}") from error


def require_normal(weight: np.ndarray) -> None:
    """Raise a ValueError if the sum of weights is too large, or the largest one too small."""
    with np.errstate(over="ignore"):
        if not np.isfinite(weight.sum()):
            raise ValueError("sample_weight is too large: the sum of the weights must be finite")
    if 0 < weight.max(initial=0) < np.finfo(np.float64).tiny:
        raise ValueError(
            f"sample_weight is too small: the largest weight is {weight.max():g}, below the "
            "smallest normal float; multiply the weights by a large number"
        )


def refuse_label_weights(sample_weight: Any) -> None:
    """Raise a ValueError if `sample_weight` is a matrix (N, L) of weights of single labels."""
    raise ValueError(
        f"sample_weight must have shape (n_samples,) here, got {np.shape(sample_weight)}. "
        "Weights of single labels, which have the shape of a 2-D y, need another estimator: "
        f"{supporting('weights of single labels')}"
    )


def weighted_rows(arrays: tuple, sample_weight: Any) -> tuple[tuple, np.ndarray]:
    """Remove the rows of weight 0 from all arrays (N, ...); return the arrays and the weights."""
    weight = check_sample_weight(sample_weight, arrays[0])
    keep = weight > 0
    if keep.all():
        return arrays, weight
    return tuple(array[keep] for array in arrays), weight[keep]


def distinct_rows(X: Any, y: np.ndarray, weight: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """Merge rows with the same X and y, and add up their weights.

    The order of the rows in the result depends on the contents of the rows alone. A solver that
    visits rows one after another then gives the same result for any order of the given rows, for
    sparse and dense X, and for copies of a row as for a row of larger weight.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (N, D)
        Validated features, as `checked_features` returns them.
    y : ndarray of shape (N, L)
    weight : ndarray of shape (N,)

    Returns
    -------
    X, y, weight
        Arrays of the same types with a row for each distinct row.
    """
    # Rows are compared by a digest of 128 bits, which takes less memory than their entries.
    digests = np.empty((len(y), 2), np.uint64)
    for i, labels in enumerate(y):
        if sparse.issparse(X):
            entries = slice(X.indptr[i], X.indptr[i + 1])
            columns, values = X.indices[entries], X.data[entries]
        else:
            columns = np.flatnonzero(X[i])
            values = X[i, columns]
        digest = hashlib.blake2b(columns.astype(np.int64).tobytes(), digest_size=16)
        digest.update(values.astype(np.float64).tobytes())
        digest.update(labels.astype(np.float64).tobytes())
        digests[i] = np.frombuffer(digest.digest(), np.uint64)
    _, first, group = np.unique(digests, axis=0, return_index=True, return_inverse=True)
    return X[first], y[first], np.bincount(group.ravel(), weight)
