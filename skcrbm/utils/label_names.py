"""Names of labels: those that a y brings, and columns of a further one put in their order."""

import numpy as np

from skcrbm.utils.indicator import indicator_with_nan
from skcrbm.utils.warnings import warn_user

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
