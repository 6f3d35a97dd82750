"""Validation of matrices of 0/1 labels, in which NaN stands for a missing label.

All public functions validate labels with this module, so that the same mistake always gives the
same error message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from skcrbm.targets.names import is_frame, label_names_of, listed
from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.validation import (
    NothingToLearnError,
    canonical,
    filled_with_nan,
    hold_dates,
    na_as_nan,
)
from skcrbm.utils.warnings import warn_user

_LISTS = (list, tuple, set, frozenset, np.ndarray)

_PREFIX = "y must be a 0/1 indicator matrix (n_samples, n_outputs), NaN where not observed"

# Further forms of an argument that may be sparse.
_FORMS = {"y": ", data frame or sparse matrix"}

# First words of the warning about labels that were observed with a single value.
ONE_VALUE = "y holds labels whose observed entries are all equal"


def with_dimensions(y: Any, name: str = "y") -> Any:
    """Return y with an attribute `ndim`: lists become arrays, and masked entries become NaN.

    A ValueError is raised if y is ragged, is not a sequence of rows (for example a scalar or a
    generator), or holds lists of strings such as tags.
    """
    try:
        array = y if hasattr(y, "ndim") else np.asarray(y)
        if array is not y and array.dtype.kind in "US":
            given = np.asarray(y, object)
            # NumPy has turned the missing labels of a list into text.
            array = array if all(isinstance(v, (str, bytes)) for v in given.flat) else given
    except ValueError as error:
        raise ValueError(ragged_text(name)) from error
    if array.ndim == 1 and array.dtype == object and any(isinstance(row, _LISTS) for row in array):
        raise ValueError(ragged_text(name))
    if array.ndim == 0:
        raise ValueError(
            f"{name} must be an array{_FORMS.get(name, ' or data frame')} with a row for each "
            f"sample, got {type(y).__name__}; collect a lazy frame, or convert a generator to a "
            "list"
        )
    if isinstance(y, (list, tuple)) and _lists_tags(array):
        raise ValueError(
            f"{name} holds lists of strings. If each row lists its positive labels, convert them "
            f"with sklearn.preprocessing: {name} = MultiLabelBinarizer().fit_transform({name}). If "
            f"each column is a label, compare {name} with the value of a positive label, as in "
            f"np.asarray({name}) == {str(max(array.flat))!r}"
        )
    return filled_with_nan(array)


def _lists_tags(array):
    """Return True if each row of an array holds several distinct strings."""
    if array.ndim != 2 or array.dtype.kind not in "US" or array.shape[1] < 2:
        return False
    return all(len(set(row)) == len(row) for row in array.tolist())


def _lists_numbers(array):
    """Return True if each row of an array (N, L) holds several distinct whole numbers."""
    if array.ndim != 2 or array.shape[1] < 2 or not np.isfinite(array).all():
        return False
    if not ((array >= 0) & (array % 1 == 0)).all():
        return False
    return all(len(set(row)) == len(row) for row in array.tolist())


def ragged_text(name: str) -> str:
    """Return an error message about the argument `name`, whose rows have different lengths."""
    return (
        f"{name} holds sets, or lists of different lengths, instead of the rows of a matrix. "
        "Convert lists of positive labels to a 0/1 indicator matrix with sklearn.preprocessing: "
        f"{name} = MultiLabelBinarizer().fit_transform({name})"
    )


def _advice_on_strings(y, name, columns):
    """Return advice on how to convert strings y (N, L) to 0/1, guessed from their values."""
    values = sorted({str(v) for v in y.flat if isinstance(v, (str, bytes))})
    if marks := {"", "?", "NA", "NaN", "nan", "None", "<NA>"}.intersection(values):
        return f"if {min(marks)!r} marks missing labels, put NaN in its place"
    if len(values) <= 2:  # the last value in sorted order is probably positive, such as "yes"
        gaps = not all(isinstance(value, (str, bytes)) for value in y.flat)
        if gaps and len(values) == 1:  # the entries that are not positive were probably left empty
            return (
                f"convert it with {name} == {values[-1]!r}, which makes all other entries 0; write "
                "NaN only for labels that are unknown, not for labels that are off"
            )
        then = ", and put NaN where it is missing" if gaps else ""
        return f"convert it with {name} == {values[-1]!r}{then}"
    if columns:
        return (
            "compare each column with the value of a positive label, as in "
            f"{name}[column] == {values[-1]!r}"
        )
    return (
        "if each row lists its positive labels, convert it with MultiLabelBinarizer; if each "
        f"column has two values, compare it with the positive value, as in {name} == 'yes'"
    )


def indicator_with_nan(y: Any, name: str = "y", dtype: Any = np.float64) -> np.ndarray:
    """Return a copy of a 2-D y in a float `dtype`, with values 0, 1 and NaN.

    If y holds other values, a ValueError names the argument and recommends a conversion.
    """
    prefix, given = _PREFIX.replace("y", name, 1), y
    if sparse.issparse(y):
        y = y.toarray()
    columns = is_frame(y)
    # None, NaN and pandas' NA all mean "not observed".
    y = na_as_nan(np.asarray(with_dimensions(na_as_nan(y), name)))
    if y.dtype.kind in "US" or (
        y.dtype == object and any(isinstance(value, (str, bytes)) for value in y.flat)
    ):
        raise ValueError(f"{prefix}; it holds strings: {_advice_on_strings(y, name, columns)}")
    if y.dtype.kind not in "biufO":  # NumPy would silently cast complex numbers and dates
        raise ValueError(f"{prefix}; it holds values of type {y.dtype}")
    if y.dtype.kind in "biuf" and y.size and _is_indicator(y):
        return y.astype(dtype)
    if hold_dates(y):
        raise ValueError(f"{prefix}; it holds dates or times")
    try:
        y = y.astype(np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"{prefix}: {error}") from error
    observed = y[~np.isnan(y)]
    if np.isin(observed, (0, 1)).all():
        return y.astype(dtype, copy=False)
    if np.isin(observed, (-1, 1)).all():
        unknown = f"np.where({name} == -1, np.nan, {name})"
        raise ValueError(
            f"{prefix}; it holds -1 and +1. If -1 means unknown, put NaN in its place, as in "
            f"{unknown}; if it means off, convert with ({name} + 1) / 2"
        )
    if isinstance(given, (list, tuple)) and _lists_numbers(y):
        raise ValueError(
            f"{prefix}; it holds lists of distinct numbers. If each list holds the numbers of the "
            f"positive labels of a row, convert them with sklearn.preprocessing: {name} = "
            f"MultiLabelBinarizer().fit_transform({name})"
        )
    if np.isin(observed, (0, 1, 2)).all():
        advice = ". If y went through cross_val_predict of scikit-learn, NaN was turned into 2 "
        advice += "there: use skcrbm.model_selection.cross_val_predict instead"
        raise ValueError(f"{prefix}; it holds a 2{advice if name == 'y' else ''}")
    if np.isinf(observed).any():
        raise ValueError(f"{prefix}; it holds infinity")
    values = ", ".join(f"{value:g}" for value in np.unique(observed)[:5])
    codes = np.setdiff1d(observed, (0, 1))
    one_code = len(codes) == 1 and len(np.unique(observed)) == 3 and codes[0] % 1 == 0
    if one_code or (codes < 0).all():
        test = f"{name} == {codes[0]:g}" if len(codes) == 1 else f"{name} < 0"
        recipe = f"{name}.mask({test})" if columns else f"np.where({test}, np.nan, {name})"
        raise ValueError(
            f"{prefix}; it holds other values: {values}. If {test} "
            f"marks missing labels, put NaN in their place, as in {recipe}"
        )
    advice = ""
    if not columns and (observed == np.round(observed)).all():
        advice = " (if each row lists its positive labels, convert it with MultiLabelBinarizer)"
    raise ValueError(
        f"{prefix}; it holds other values: {values}{advice}. Unknown label type: continuous"
    )


def indicator_by_name(
    y: Any,
    names: np.ndarray | None,
    n_labels: int,
    argument: str = "y",
    dtype: Any = np.float64,
) -> np.ndarray:
    """Return y as a 0/1/NaN matrix (N, n_labels) with its columns in the order of the labels.

    The columns of a data frame are matched with the `names` of the labels, and labels without a
    column become NaN. If the labels of the model have no names (`names` is None), the columns are
    taken by position, with a warning. Other containers are always taken by position. A ValueError
    lists columns that are not labels of the model.
    """
    values = indicator_with_nan(y, argument, dtype)
    columns = label_names_of(y, argument) if is_frame(y) else None
    if columns is None:
        return values
    place = {name: i for i, name in enumerate(range(n_labels) if names is None else names)}
    unknown = [name for name in columns if name not in place]
    if unknown and names is None:
        warn_user(
            f"{argument} has column names, but this model was fitted on a y without column names. "
            f"The columns of {argument} are taken by position"
        )
        return values
    if unknown:
        raise ValueError(
            f"{argument} has columns that are not labels of this model: {listed(unknown)}. The "
            f"labels of the model are {listed(names)}"
        )
    full = np.full((len(values), n_labels), np.nan, dtype)
    full[:, [place[name] for name in columns]] = values
    return full


def row_blocks(y):
    """Cut the rows of y into blocks, so that temporary arrays stay small compared with y."""
    return row_chunks(len(y), max(1, BLOCK_ENTRIES // max(1, y[:1].size)))


def _is_indicator(y):
    """Return True if all entries of a numeric array y (N, ...) are 0, 1 or NaN."""
    for rows in row_blocks(y):
        part = y[rows]
        if not ((part == 0) | (part == 1) | (part != part)).all():
            return False
    return True


def positive_labels(y: Any) -> sparse.csc_matrix:
    """Return a CSC matrix (n, L) with a 1 for each positive label; NaN counts as 0."""
    if y is None or np.ndim(y) != 2:
        raise ValueError(
            f"{_PREFIX}; for the classes of a 1-D y use scikit-learn's StratifiedKFold or "
            "StratifiedShuffleSplit"
        )
    if not sparse.issparse(y):
        return sparse.csc_matrix(indicator_with_nan(y, dtype=np.float32) == 1)
    y = canonical(sparse.csc_matrix(y, dtype=np.float64))
    require_zero_or_one(y.data[~np.isnan(y.data)])
    present = y == 1
    present.eliminate_zeros()
    return present.tocsc()


def require_zero_or_one(observed: np.ndarray, name: str = "y") -> None:
    """Raise a ValueError unless all observed entries are 0 or 1."""
    if not np.isin(observed, (0, 1)).all():
        raise ValueError(f"{_PREFIX.replace('y', name, 1)}; it holds other values")


def without_known(y: np.ndarray, known: np.ndarray | None) -> np.ndarray:
    """Return a copy of y (N, L) in which known labels are NaN, so that a score ignores them.

    `known` (N, L) holds NaN for the labels that are not known, or is None.
    """
    if known is None:
        return y
    left = np.where(np.isnan(known), y, np.nan)
    if np.isnan(left).all():
        raise ValueError("y_known holds every observed label of y, so no label is left to score")
    return left


def require_observed(observed: np.ndarray, name: str = "y", entry: str = "entry") -> None:
    """Raise an error if no entry is observed; `observed` should be False in rows of weight 0."""
    if not observed.any():
        raise NothingToLearnError(
            f"{name} holds no observed {entry} in the rows with a positive sample_weight: "
            "all are NaN (not observed)"
        )


def require_complete(visible: np.ndarray, reason: str) -> None:
    """Raise a ValueError with the reason if an entry of y is missing."""
    if np.isnan(visible).any():
        raise ValueError(f"y holds NaN (not observed): {reason}")


def warn_of_one_value(visible: np.ndarray, names: Sequence) -> None:
    """Warn about labels of a 0/1/NaN matrix (N, L) whose observed entries are all equal.

    A label that is always 0 gets the warning only if some of its entries are missing. If it has no
    missing entries, it may well be a rare label that has no positive row in this sample.
    """
    off, on = np.zeros((2, visible.shape[1]), bool)
    gaps = np.zeros(visible.shape[1], bool)
    for rows in row_blocks(visible):
        part = visible[rows]
        off |= (part == 0).any(axis=0)
        on |= (part == 1).any(axis=0)
        gaps |= np.isnan(part).any(axis=0)
    found = []
    for value, lacking in (("0", ~off & on), ("1", ~on & off & gaps), ("entry", ~off & ~on)):
        few = [names[i] for i in np.flatnonzero(lacking)]
        if few:
            have = "label {} has" if len(few) == 1 else "labels {} have"
            found.append(f"{have.format(listed(few))} no observed {value}")
    if found:
        warn_user(
            f"{ONE_VALUE}: {'; '.join(found)}. The model will always predict the observed value, "
            "and the predictions of a label without an observed entry mean nothing. Write NaN only "
            "for labels that are unknown, and 0 for labels that are off"
        )


def observed_weight(visible: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each label, the total weight (L,) of its 1s, and of its observed entries.

    `visible` is a 0/1/NaN matrix (N, L), and `weight` (N,) holds the weights of the rows. The
    second array includes the rows in which the label is 0.
    """
    on, observed = np.zeros((2, visible.shape[1]))
    for rows in row_blocks(visible):
        part = visible[rows]
        on += weight[rows] @ np.nan_to_num(part)
        observed += weight[rows] @ ~np.isnan(part)
    return on, observed
