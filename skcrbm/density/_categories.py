"""Convert columns of categories to codes 0, 1, ..., with NaN for missing values, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from skcrbm.targets.codes import is_missing, refuse_text_of_missing, warn_of_codes

_FORM = "'auto' or a list with the categories of each column"


def read_columns(estimator: Any, X: Any, reset: bool) -> np.ndarray:
    """Return X as an array of objects (N, n_features).

    If `reset`, `n_features_in_` of the estimator is set; otherwise X must agree with it.
    """
    if sparse.issparse(X):
        X = X.toarray()
    if isinstance(X, (list, tuple)):
        X = np.asarray(X, object)
    if isinstance(X, np.ndarray):
        refuse_text_of_missing(X, "X")
    options: Any = {"dtype": object, "ensure_all_finite": False}
    validate: Any = validate_data
    return validate(estimator, X, reset=reset, **options)


def find_categories(categories: Any, columns: np.ndarray) -> list[np.ndarray]:
    """Return the categories of each column; "auto" stands for the sorted values in X.

    Raises
    ------
    ValueError
        If `categories` is invalid, or if "auto" finds values that cannot be sorted.
    """
    n_features = columns.shape[1]
    if isinstance(categories, str) and categories == "auto":
        return [_sorted_values(columns[:, i], i) for i in range(n_features)]
    if isinstance(categories, (str, bytes)) or not hasattr(categories, "__len__"):
        raise ValueError(f"categories must be None, {_FORM}; got {categories!r}")
    if len(categories) != n_features:
        raise ValueError(
            f"categories must be {_FORM}; it has {len(categories)} lists, and X has {n_features} "
            "columns"
        )
    found = [np.asarray(values) for values in categories]
    for i, values in enumerate(found):
        if values.ndim != 1 or not len(values) or len(set(values.tolist())) < len(values):
            raise ValueError(
                f"categories must be {_FORM}; the list of column {i} must hold at least one "
                f"value, each value once; got {categories[i]!r}"
            )
    return found


def _sorted_values(column, i):
    """Return the sorted values of a column."""
    values = {value for value in column.tolist() if not is_missing(value)}
    if not values:
        raise ValueError(
            f"column {i} of X has only missing values; list the categories of the column by "
            "categories="
        )
    try:
        found = np.array(sorted(values))
        warn_of_codes(found, f"column {i} of X")
        return found
    except TypeError as error:
        raise ValueError(
            f"X has values of different types in column {i}, which cannot be sorted; list the "
            f"categories of the columns by categories=: {error}"
        ) from error


def encode(columns: np.ndarray, categories: list[np.ndarray], name: str = "X") -> np.ndarray:
    """Return the codes of the values as float64 (N, n_features), with NaN for missing values.

    Raises
    ------
    ValueError
        If a column holds a value that is not among its categories.
    """
    codes = np.empty(columns.shape)
    for i, values in enumerate(categories):
        code = {value: k for k, value in enumerate(values.tolist())}
        for row, value in enumerate(columns[:, i].tolist()):
            if is_missing(value):
                codes[row, i] = np.nan
            elif value in code:
                codes[row, i] = code[value]
            else:
                raise ValueError(
                    f"{name} has the value {value!r} in column {i}, whose categories are "
                    f"{values.tolist()}"
                )
    return codes


def decode(codes: np.ndarray, categories: list[np.ndarray]) -> np.ndarray:
    """Return the categories that belong to the codes, as an array (N rows, n_features).

    The array has dtype object if the columns have categories of different types.
    """
    columns = [values[codes[:, i]] for i, values in enumerate(categories)]
    same = len({values.dtype.kind for values in categories}) == 1
    return np.column_stack([c if same else c.astype(object) for c in columns])
