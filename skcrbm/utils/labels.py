"""Validation of labels: 0/1 matrices, vectors of classes, images, and names of labels.

All public functions validate labels with this module, so that the same mistake always gives the
same error message. In matrices, NaN stands for a missing label. `skcrbm.targets` finds out which
kind of y a user passes. The last section of this module computes properties of valid matrices, such
as their distinct rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.validation import NothingToLearnError, canonical, filled_with_nan, hold_dates
from skcrbm.utils.warnings import warn_user

_LISTS = (list, tuple, set, frozenset, np.ndarray)
_PREFIX = "y must be a 0/1 indicator matrix (n_samples, n_outputs), NaN where not observed"
_MAX_LISTED = 20  # largest number of names in an error message
# First words of the warning about labels that were observed with a single value.
ONE_VALUE = "y holds labels whose observed entries are all equal"
RANK = "rank"  # name of the index level that numbers the k label vectors predicted for a row


# ----------------------------------------------------------------------- 0/1 matrices


def with_dimensions(y: Any, name: str = "y") -> Any:
    """Return y with an attribute `ndim`: lists become arrays, and masked entries become NaN.

    A ValueError is raised if y is ragged, is not a sequence of rows (for example a scalar or a
    generator), or holds lists of strings such as tags.
    """
    try:
        array = y if hasattr(y, "ndim") else np.asarray(y)
    except ValueError as error:
        raise ValueError(ragged_text(name)) from error
    if array.ndim == 1 and array.dtype == object and any(isinstance(row, _LISTS) for row in array):
        raise ValueError(ragged_text(name))
    if array.ndim == 0:
        raise ValueError(
            f"{name} must be an array, data frame or sparse matrix with a row for each sample, got "
            f"{type(y).__name__}; collect a lazy frame, or convert a generator to a list"
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
    if marks := {"", "?", "NA", "NaN"}.intersection(values):
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
    prefix = _PREFIX.replace("y", name, 1)
    if sparse.issparse(y):
        y = y.toarray()
    columns = is_frame(y)
    if hasattr(y, "isna"):  # pandas: None, NaN and pd.NA all mean "not observed"
        y = y.astype(object).where(y.notna(), np.nan)
    y = np.asarray(with_dimensions(y, name))
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
        raise ValueError(f"{prefix}; it holds -1 and +1: convert them with (y + 1) / 2")
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


def _row_blocks(y):
    """Cut the rows of y into blocks, so that temporary arrays stay small compared with y."""
    return row_chunks(len(y), max(1, BLOCK_ENTRIES // max(1, y[:1].size)))


def _is_indicator(y):
    """Return True if all entries of a numeric array y (N, ...) are 0, 1 or NaN."""
    for rows in _row_blocks(y):
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


# -------------------------------------------------------------------- vectors of classes


def class_vector(y: Any, warn: bool) -> np.ndarray:
    """Return y as a vector of classes, which must not have missing values.

    A matrix of one column is converted to a vector, with scikit-learn's warning if `warn` is True.
    """
    y = y.toarray() if sparse.issparse(y) else y
    y = with_dimensions(y)
    column = y.ndim == 2
    try:
        y = column_or_1d(y)
    except ValueError as error:
        raise ValueError(f"y must hold a label for each row: {error}") from error
    if column and warn:  # scikit-learn would issue this warning with the line number of this file
        warn_user(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of "
            "y to (n_samples,), for example using ravel().",
            DataConversionWarning,
        )
    found = _missing_classes(y)
    if found and column:
        raise ValueError(
            f"y contains {found}. A y with a single column is treated as a 1-D y, which needs a "
            "label in every row: drop the rows without a label. Only a y with two or more columns "
            "may contain NaN (not observed)"
        )
    if found:
        raise ValueError(f"y contains {found}; only a 2-D indicator y may hold NaN (not observed)")
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # casts to integers may overflow
            check_classification_targets(y)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold labels of a single, sortable type: {error}") from error
    return y


def distinct_classes(classes: Any) -> np.ndarray:
    """Validate an argument `classes` and return its sorted distinct labels (K,)."""
    form = "classes must be a vector of labels of a single, sortable type"
    try:
        labels = np.asarray(classes)
        if labels.ndim == 1 and len(labels) and not _missing_classes(labels):
            return np.unique(labels)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{form}: {error}") from error
    raise ValueError(f"{form}, without NaN; got {classes!r}")


def _missing_classes(y):
    """Return "NaN", "infinity" or a similar word if y (N,) holds such a value, else ""."""
    if y.dtype == object and any(v is None or v != v for v in y):
        return "NaN or None"
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        return "NaN or infinity"
    if y.dtype.kind in "mM" and np.isnat(y).any():
        return "NaT"
    return ""


def require_two_classes(classes: np.ndarray) -> None:
    """Raise a ValueError if a 1-D y holds fewer than two classes."""
    if len(classes) < 2:
        raise ValueError(f"y must hold at least 2 classes, got {len(classes)} class")


# ---------------------------------------------------------------------------- images


def is_images(y: Any, name: str) -> bool:
    """Return True if y has more than two dimensions."""
    return y is not None and not is_frame(y) and with_dimensions(y, name).ndim > 2


def binary_images(images: Any, name: str) -> np.ndarray:
    """Return images as an ndarray, after checking that they are binary.

    A ValueError about grey images recommends a conversion.
    """
    images = np.asarray(with_dimensions(images, name))
    if images.dtype.kind in "iuf" and not np.isin(images[~np.isnan(images)], (0, 1)).all():
        if np.isnan(images).any():  # a plain comparison would turn NaN into 0
            recipe = f"np.where(np.isnan({name}), np.nan, {name} > np.nanmax({name}) / 2)"
        else:
            recipe = f"{name} > {name}.max() / 2"
        raise ValueError(
            f"{name} must hold binary images of 0 and 1, with NaN for pixels that are not "
            f"observed. Convert grey images, as in {recipe}; for classes of pixels use GridCRF"
        )
    return images


def flat_images(
    images: np.ndarray,
    name: str,
    n_pixels: int | None = None,
    shape: tuple[int, int] | None = None,
) -> np.ndarray:
    """Return images (N, height, width) as rows of pixels (N, height * width).

    A ValueError is raised if the images have no pixels, if their number of pixels is not
    `n_pixels`, or if their size is not `shape`, (height, width). None allows any number or size.
    """
    found = images.shape[1:]
    pixels = math.prod(found)
    fits = shape in (None, found) and n_pixels in (None, pixels)
    if len(found) == 2 and pixels > 0 and fits:
        return images.reshape(len(images), pixels)
    if n_pixels is None:
        wanted = "(n_samples, height, width) or (n_samples, n_pixels)"
    elif shape is None:
        wanted = f"(n_samples, height, width) of {n_pixels} pixels or (n_samples, {n_pixels})"
    else:
        wanted = f"(n_samples, {shape[0]}, {shape[1]}) as in fit, or (n_samples, {n_pixels})"
    raise ValueError(f"{name} must have shape {wanted}, got {images.shape}")


# ------------------------------------------------------------------- names of columns


def label_names_of(y: Any, argument: str = "y") -> np.ndarray | None:
    """Return the column names (L,) of a data frame, or the name (1,) of a series.

    The data frame may come from any library. The result is None if y has no names. A ValueError is
    raised if two columns have the same name.
    """
    if is_frame(y):
        names = list(y.columns)
    elif hasattr(y, "to_frame") and y.name is not None:
        names = [y.name]
    else:
        return None
    doubled = sorted({str(name) for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"{argument} has several columns with the same name: {', '.join(doubled)}")
    found = np.empty(len(names), dtype=object)  # np.array would split names that are tuples
    for i, name in enumerate(names):
        found[i] = name
    return found


def is_frame(y: Any) -> bool:
    """Return True if y is a data frame of any library."""
    return all(hasattr(y, name) for name in ("shape", "columns", "dtypes"))  # not lazy frames


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


def in_rows_of(y_known: Any, X: Any) -> Any:
    """Return a pandas `y_known` with its rows in the order of the index of X.

    `y_known` is returned unchanged if X or `y_known` has no pandas index, or if there is a single
    row. A ValueError is raised if the two indices differ and cannot be matched, because they hold
    different or repeated values.
    """
    rows, known_rows = getattr(X, "index", None), getattr(y_known, "index", None)
    if not (hasattr(rows, "get_indexer") and hasattr(known_rows, "get_indexer")):
        return y_known
    if len(rows) != len(known_rows) or len(rows) == 1 or known_rows.equals(rows):
        return y_known  # the caller raises an error about a wrong number of rows
    if rows.is_unique and known_rows.is_unique:
        place = known_rows.get_indexer(rows)
        if (place >= 0).all():
            return y_known.iloc[place]
    raise ValueError(
        "The rows of y_known cannot be matched with the rows of X: their indices differ, and hold "
        "different or repeated values. If the rows of X and y_known are in the same order, pass "
        "X.reset_index(drop=True) and y_known.reset_index(drop=True)"
    )


def refuse_sparse_known(y_known: Any) -> None:
    """Raise a ValueError if `y_known` is a sparse matrix or frame that does not store zeros."""
    dtypes = y_known.dtypes if is_frame(y_known) else ()
    fills = [dtype.fill_value for dtype in dtypes if hasattr(dtype, "fill_value")]
    # A sparse column may leave out NaN: entries that are not stored are then unknown labels.
    if sparse.issparse(y_known) or any(fill == fill for fill in fills):
        raise ValueError(
            "y_known must be dense, with NaN for labels that are not known. The zeros that a "
            "sparse matrix does not store would count as labels known to be 0. Start with "
            "known = np.full((n_samples, n_outputs), np.nan) and fill in the known labels"
        )


def warn_of_one_value(visible: np.ndarray, names: Sequence) -> None:
    """Warn about labels of a 0/1/NaN matrix (N, L) whose observed entries are all equal.

    A label that is always 0 gets the warning only if some of its entries are missing. If it has no
    missing entries, it may well be a rare label that has no positive row in this sample.
    """
    off, on = np.zeros((2, visible.shape[1]), bool)
    gaps = np.zeros(visible.shape[1], bool)
    for rows in _row_blocks(visible):
        part = visible[rows]
        off |= (part == 0).any(axis=0)
        on |= (part == 1).any(axis=0)
        gaps |= np.isnan(part).any(axis=0)
    found = []
    for value, lacking in ((0, ~off), (1, ~on & gaps)):
        few = [names[i] for i in np.flatnonzero(lacking)]
        if few:
            found.append(f"{listed(few)} {'has' if len(few) == 1 else 'have'} no observed {value}")
    if found:
        warn_user(
            f"{ONE_VALUE}: {'; '.join(found)}. The model will always predict this value. Write NaN "
            "only for labels that are unknown, and 0 for labels that are off"
        )


def in_order_of(y: Any, names: Any, argument: str = "y") -> Any:
    """Return a data frame y with its columns in the order of `names`.

    `names` is an array of names, or a data frame whose columns are in the wanted order. y is
    returned unchanged if it is not a data frame or `names` has no names. If the columns of y have
    other names, there are two cases: if all names are strings, a ValueError is raised; otherwise,
    as for the column numbers of a frame made of an array, y is returned unchanged.
    """
    if not is_frame(y) or not (is_frame(names) or all_strings(names)):
        return y
    has = label_names_of(y, argument)
    wanted = label_names_of(names) if is_frame(names) else names
    if list(has) == list(wanted):
        return y
    if set(has) != set(wanted):
        if not (all_strings(has) and all_strings(wanted)):
            return y
        raise ValueError(
            f"{argument} has columns with the names {listed(has)}, but the expected names are "
            f"{listed(wanted)}"
        )
    return y[list(wanted)]


def ranked_index(index: Any, n_ranks: int) -> Any:
    """Return a pandas index that repeats each entry of `index` for n_ranks ranks.

    The rank is the last level of the new index.
    """
    import pandas as pd

    rows = [row if isinstance(row, tuple) else (row,) for row in index]
    ranked = [(*row, rank) for row in rows for rank in range(n_ranks)]
    names = [*getattr(index, "names", [None]), RANK]
    if not ranked:
        return pd.MultiIndex.from_arrays([[] for _ in names], names=names)
    return pd.MultiIndex.from_tuples(ranked, names=names)


def all_strings(names: Any) -> bool:
    """Return True if `names` is not None and all names are strings."""
    return names is not None and all(isinstance(name, str) for name in names)


def listed(names):
    """Return the names as text, at most `_MAX_LISTED` of them, and the number of the others."""
    text = ", ".join(repr(name) for name in list(names)[:_MAX_LISTED])
    return f"{text} and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else text


# ------------------------------------------------------- questions about valid matrices


def observed_weight(visible: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each label, the total weight (L,) of its 1s, and of its observed entries.

    `visible` is a 0/1/NaN matrix (N, L), and `weight` (N,) holds the weights of the rows. The
    second array includes the rows in which the label is 0.
    """
    on, observed = np.zeros((2, visible.shape[1]))
    for rows in _row_blocks(visible):
        part = visible[rows]
        on += weight[rows] @ np.nan_to_num(part)
        observed += weight[rows] @ ~np.isnan(part)
    return on, observed


def _bits(y, complete):
    """Pack rows of a 0/1 matrix y (N, L) into bytes; `complete` drops the rows with NaN."""
    parts = [np.empty((0, -(-y.shape[1] // 8)), np.uint8)]
    for rows in _row_blocks(y):
        part = y[rows]
        part = part[~np.isnan(part).any(axis=1)] if complete else part
        parts.append(np.packbits(part.astype(bool), axis=1))
    return np.concatenate(parts)


def _distinct(bits, n_labels):
    # Sorting bytes objects takes milliseconds; np.unique(axis=0) would take many seconds.
    found = sorted({row.tobytes() for row in bits})
    bits = np.frombuffer(b"".join(found), np.uint8).reshape(len(found), bits.shape[1])
    return np.unpackbits(bits, axis=1, count=n_labels).astype(np.int8)


def distinct_rows(rows: np.ndarray) -> np.ndarray:
    """Return the distinct rows of a 0/1 array (N, V) in lexicographic order, as int8."""
    return _distinct(_bits(rows, complete=False), rows.shape[1])


def all_label_vectors(n_labels: int) -> np.ndarray:
    """Return all 0/1 vectors (2^L, L) in lexicographic order, as int8."""
    numbers = np.arange(2**n_labels)[:, None]
    return ((numbers >> np.arange(n_labels)[::-1]) & 1).astype(np.int8)


def signs_of(visible: np.ndarray) -> np.ndarray:
    """Return 0/1/NaN entries as int8 signs: -1 for 0, +1 for 1, 0 for NaN."""
    return np.subtract(visible == 1, visible == 0, dtype=np.int8)


def visible_of(signs: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the 0/1/NaN entries for int8 signs, the inverse of `signs_of`."""
    return np.where(signs == 0, dtype.type(np.nan), (signs > 0).astype(dtype))


def label_sets_of(visible: np.ndarray) -> np.ndarray:
    """Return the distinct rows of visible (N, V) without NaN as int8; the result may be empty."""
    return _distinct(_bits(visible, complete=True), visible.shape[1])


def may_be_empty(y: np.ndarray) -> bool:
    """Return True if new rows may have no positive label, judging by the rows of y (N, L).

    The result is False if y has several labels, some row has a positive label, and no complete row
    is all 0. Rows with missing entries and no positive label are ignored.
    """
    if y.shape[1] < 2:
        return True
    return bool((y == 0).all(axis=1).any() or not (y == 1).any())


def unseen_share(y: np.ndarray) -> float:
    """Estimate the share of new rows whose label set does not occur in y, a 0/1/NaN matrix (N, L).

    The Good-Turing estimate is the share of complete rows whose label set no other row has. If no
    row is complete, the result is 1.
    """
    bits = _bits(y, complete=True)
    if not len(bits):
        return 1.0
    counts = Counter(row.tobytes() for row in bits)
    return sum(count == 1 for count in counts.values()) / len(bits)
