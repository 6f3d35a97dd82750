"""Matrices of 0/1 labels, NaN for missing labels: validation, column names, distinct rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy import sparse

from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.validation import hold_dates
from skcrbm.utils.warnings import warn_user

_LISTS = (list, tuple, set, frozenset, np.ndarray)
_PREFIX = "y must be a 0/1 indicator matrix (n_samples, n_outputs), NaN where not observed"


def with_dimensions(y, name="y"):
    """Return y as it is if it has `ndim`, else as an ndarray; a ValueError if it is ragged."""
    try:
        array = y if hasattr(y, "ndim") else np.asarray(y)
    except ValueError as error:
        raise ValueError(_label_lists(name)) from error
    if array.ndim == 1 and array.dtype == object and any(isinstance(row, _LISTS) for row in array):
        raise ValueError(_label_lists(name))
    return array


def _label_lists(name):
    return (
        f"{name} holds sets, or lists of different lengths, where rows of a matrix are wanted. "
        "Lists of the labels that are on become a 0/1 indicator matrix by sklearn.preprocessing: "
        f"{name} = MultiLabelBinarizer().fit_transform({name})"
    )


def _strings_advice(y, name, columns):
    """How strings (N, L) become 0/1, as far as can be told."""
    values = sorted({str(value) for value in y.flat if isinstance(value, (str, bytes))})
    if len(values) <= 2:  # the last in this order: "yes", "true", "on", "present", "1"
        gaps = not all(isinstance(value, (str, bytes)) for value in y.flat)
        then = ", and put NaN where it is missing" if gaps else ""
        return f"convert it with {name} == {values[-1]!r}{then}"
    if columns:
        return (
            "compare each column with the value that stands for a label that is on, as in "
            f"{name}[column] == {values[-1]!r}"
        )
    return (
        "if each row lists the labels that are on, convert it with MultiLabelBinarizer; if each "
        f"column has two values, compare it with the one for on, as in {name} == 'yes'"
    )


def indicator_with_nan(y, name="y", dtype=np.float64):
    """Return a copy of a 2-D y in a float `dtype`, with values 0, 1 and NaN.

    Parameters
    ----------
    y : array-like or sparse matrix (N, L)
    name : str
        Argument name, for the error messages.
    dtype : numpy dtype

    Raises
    ------
    ValueError
        On any other value, naming the conversion where there is a usual one.
    """
    prefix = _PREFIX.replace("y", name, 1)
    if sparse.issparse(y):
        y = y.toarray()
    columns = hasattr(y, "columns")
    if hasattr(y, "isna"):  # pandas: NA of any kind is not observed
        y = y.astype(object).where(y.notna(), np.nan)
    y = np.asarray(with_dimensions(y, name))
    if y.dtype.kind in "US" or (
        y.dtype == object and any(isinstance(value, (str, bytes)) for value in y.flat)
    ):
        raise ValueError(f"{prefix}; it holds strings: {_strings_advice(y, name, columns)}")
    if y.dtype.kind not in "biufO":  # complex numbers and dates would be cast in silence
        raise ValueError(f"{prefix}; it holds values of type {y.dtype}")
    if y.dtype.kind in "biuf" and y.size and _all_right(y):
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
        raise ValueError(f"{prefix}; it holds -1 and +1: convert it with (y + 1) / 2")
    if np.isin(observed, (0, 1, 2)).all():
        advice = ". Multiclass-multioutput targets are not supported; if y went through "
        advice += "cross_val_predict of scikit-learn, NaN was turned into 2 there: use "
        advice += "skcrbm.model_selection.cross_val_predict instead"
        raise ValueError(f"{prefix}; it holds a 2{advice if name == 'y' else ''}")
    if np.isinf(observed).any():
        raise ValueError(f"{prefix}; it holds infinity")
    values = ", ".join(f"{value:g}" for value in np.unique(observed)[:5])
    advice = ""
    if not columns and (observed == np.round(observed)).all():
        advice = " (if each row lists the labels that are on, convert it with MultiLabelBinarizer)"
    raise ValueError(
        f"{prefix}; it holds other values: {values}{advice}. Unknown label type: continuous"
    )


def _chunks(y):
    """Rows of y that are looked at together: what that takes is small beside large y."""
    return row_chunks(len(y), max(1, BLOCK_ENTRIES // max(1, y[:1].size)))


def _all_right(y):
    """Whether all entries of numbers y (N, ...) are 0, 1 or NaN."""
    for rows in _chunks(y):
        part = y[rows]
        if not ((part == 0) | (part == 1) | (part != part)).all():
            return False
    return True


def observed_weight(visible, weight):
    """Weight (L,) of the rows in which a label is on, and of those in which it is observed.

    Parameters
    ----------
    visible : ndarray (N, L)
        0/1, NaN where not observed.
    weight : ndarray (N,)
    """
    on, observed = np.zeros((2, visible.shape[1]))
    for rows in _chunks(visible):
        part = visible[rows]
        on += weight[rows] @ np.nan_to_num(part)
        observed += weight[rows] @ ~np.isnan(part)
    return on, observed


def _bits(y, complete):
    """Rows of y (N, L) of 0/1 as bytes of eight labels; only those without NaN if asked for."""
    parts = [np.empty((0, -(-y.shape[1] // 8)), np.uint8)]
    for rows in _chunks(y):
        part = y[rows]
        part = part[~np.isnan(part).any(axis=1)] if complete else part
        parts.append(np.packbits(part.astype(bool), axis=1))
    return np.concatenate(parts)


def _distinct(bits, n_labels):
    # Sorting strings of bits takes milliseconds where np.unique(axis=0) takes many seconds.
    found = sorted({row.tobytes() for row in bits})
    bits = np.frombuffer(b"".join(found), np.uint8).reshape(len(found), bits.shape[1])
    return np.unpackbits(bits, axis=1, count=n_labels).astype(np.int8)


def distinct_rows(rows):
    """Distinct rows of a 0/1 array (N, V) in lexicographic order, as int8."""
    return _distinct(_bits(rows, complete=False), rows.shape[1])


def signs_of(visible):
    """-1, +1, and 0 for NaN, as int8, of 0, 1 and NaN."""
    return np.subtract(visible == 1, visible == 0, dtype=np.int8)


def visible_of(signs, dtype):
    """0, 1 and NaN of signs, the other way round."""
    return np.where(signs == 0, dtype.type(np.nan), (signs > 0).astype(dtype))


def label_sets_of(visible):
    """Distinct complete rows of visible (N, V), as int8; (0, V) if there is none."""
    return _distinct(_bits(visible, complete=True), visible.shape[1])


def may_be_empty(y):
    """Whether y (N, L) of 0/1/NaN leaves open that no label of a row is on.

    It does not if some row has a label on and no complete row has none. Rows with an entry that
    is not observed and no label on decide nothing. A single label may always be off.
    """
    if y.shape[1] < 2:
        return True
    return bool((y == 0).all(axis=1).any() or not (y == 1).any())


def unseen_share(y):
    """Share of new rows whose label set is not among those of y (N, L) of 0/1/NaN.

    By Good and Turing: the share of the complete rows whose label set no other one has. 1 if no
    row is complete.
    """
    bits = _bits(y, complete=True)
    if not len(bits):
        return 1.0
    counts = Counter(row.tobytes() for row in bits)
    return sum(count == 1 for count in counts.values()) / len(bits)


_MOST_NAMES = 20  # in an error message
RANK = "rank"  # name of the level of an index that counts answers to a row


def label_names_of(y, argument="y"):
    """Names (L,) of the columns of a data frame, of any library, or the name (1,) of a series.

    Returns
    -------
    ndarray of object, or None
        None if y is neither, or a series without a name.

    Raises
    ------
    ValueError
        If two columns of y have the same name.
    """
    if is_frame(y):
        names = list(y.columns)
    elif hasattr(y, "to_frame") and y.name is not None:
        names = [y.name]
    else:
        return None
    doubled = sorted({str(name) for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(
            f"{argument} has more than one column of the same name: {', '.join(doubled)}"
        )
    found = np.empty(len(names), dtype=object)  # a name may be a tuple
    for i, name in enumerate(names):
        found[i] = name
    return found


def is_frame(y):
    """Whether y is a data frame, of any library."""
    return hasattr(y, "columns") and hasattr(y, "dtypes")


def indicator_by_name(y, names, n_labels, argument="y", dtype=np.float64):
    """Return a 2-D y as `indicator_with_nan`, the columns of a data frame matched by name.

    Labels without a column are not observed. Anything but a data frame is taken by position, and
    so, with a warning, is one with names of its own where the labels have none.

    Parameters
    ----------
    y : array-like or sparse matrix (N, L), or data frame
    names : ndarray (L,) or None
        None: the labels have numbers only.
    n_labels : int
        L.
    argument : str
        What y is called in messages.
    dtype : numpy dtype
        Of the result.

    Raises
    ------
    ValueError
        On columns that are no labels, or values that are not 0, 1 or NaN.
    """
    values = indicator_with_nan(y, argument, dtype)
    if not is_frame(y):
        return values
    columns = label_names_of(y, argument)
    place = {name: i for i, name in enumerate(range(n_labels) if names is None else names)}
    unknown = [name for name in columns if name not in place]
    if unknown and names is None:
        warn_user(
            f"{argument} has names of labels, but this model was fitted on a y without names: its "
            "columns are taken in the order in which they stand"
        )
        return values
    if unknown:
        raise ValueError(
            f"{argument} has columns that are no labels of this model: {_listed(unknown)}. Its "
            f"labels are {_listed(names)}"
        )
    full = np.full((len(values), n_labels), np.nan, dtype)
    full[:, [place[name] for name in columns]] = values
    return full


def in_order_of(y, names, argument="y"):
    """Return a data frame with its columns in a given order.

    Parameters
    ----------
    y : array-like or data frame
        Returned as it is unless there are names on both sides, and they are the same ones or
        all strings.
    names : data frame, ndarray of names, or anything else
        Of a data frame, those of its columns.
    argument : str
        What y is called in the error message.

    Raises
    ------
    ValueError
        If the names are not the same ones.
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
            f"{argument} has columns with the names {_listed(has)}, where {_listed(wanted)} are "
            "wanted"
        )
    return y[list(wanted)]


def ranked_index(index, n_ranks):
    """Return a pandas index of rows and ranks: all levels of an index, and `RANK`."""
    import pandas as pd

    rows = [row if isinstance(row, tuple) else (row,) for row in index]
    ranked = [(*row, rank) for row in rows for rank in range(n_ranks)]
    names = [*index.names, RANK]
    if not ranked:
        return pd.MultiIndex.from_arrays([[] for _ in names], names=names)
    return pd.MultiIndex.from_tuples(ranked, names=names)


def all_strings(names):
    """Whether there are names, and all are strings."""
    return names is not None and all(isinstance(name, str) for name in names)


def _listed(names):
    text = ", ".join(repr(name) for name in list(names)[:_MOST_NAMES])
    left = len(names) - _MOST_NAMES
    return f"{text} and {left} more" if left > 0 else text
