"""Names of labels: the columns of data frames, their order, and the rows of X and y."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from skcrbm.utils.validation import has_labels, items_with_index, row_index
from skcrbm.utils.warnings import warn_user

_MAX_LISTED = 20  # largest number of names in an error message

RANK = "rank"  # name of the index level that numbers the k label vectors predicted for a row


def is_frame(y: Any) -> bool:
    """Return True if y is a data frame of any library."""
    return all(hasattr(y, name) for name in ("shape", "columns", "dtypes"))  # not lazy frames


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


def all_strings(names: Any) -> bool:
    """Return True if `names` is not None and all names are strings."""
    return names is not None and all(isinstance(name, str) for name in names)


def listed(names):
    """Return the names as text, at most `_MAX_LISTED` of them, and the number of the others."""
    text = ", ".join(repr(name) for name in list(names)[:_MAX_LISTED])
    return f"{text} and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else text


def in_order_of(y: Any, names: Any, argument: str = "y") -> Any:
    """Return a data frame y with its columns in the order of `names`.

    `names` are the names of the labels, or their numbers from 0 if they have no names. The columns
    of y may have these names, also as strings, or the numbers from 0 in place of the names. y is
    returned unchanged if it is not a data frame, if `names` is None, or if the columns of y have no
    names, as in a frame made of an array. A ValueError is raised if y has other names. If `names`
    are numbers, which say little, there is a warning instead, and y is returned unchanged.
    """
    if not is_frame(y) or names is None:
        return y
    has, wanted = list(_names(y, argument)), list(names)
    place = {str(name): i for i, name in enumerate(has)}
    if has == wanted:
        return y
    same = len(place) == len(has) and set(place) == set(map(str, wanted))
    if same and _are_numbered(y):
        raise ValueError(
            f"{argument} has columns numbered 0 to {len(has) - 1}, but the expected names are "
            f"{listed(wanted)}: the numbers may be names or positions. Name the columns, or pass "
            f"{argument} as an array in the order of these names"
        )
    if same:
        return y[[has[place[str(name)]] for name in wanted]]
    if _are_numbered(y):
        return y
    numbers = list(map(str, range(len(wanted))))
    if set(place) == set(numbers):
        return y[[has[place[number]] for number in numbers]]
    if wanted == list(range(len(wanted))) and not set(place) & set(map(str, wanted)):
        warn_user(
            f"{argument} has column names, but the labels have none. The columns of {argument} are "
            "taken by position"
        )
        return y
    raise ValueError(
        f"{argument} has columns with the names {listed(has)}, but the expected names are "
        f"{listed(wanted)}"
    )


def entries_in_order_of(values: Any, names: Any, n_labels: int, argument: str) -> Any:
    """Return a value for each of the labels: a Series or a dict is read by label.

    `names` are the names of the labels, or None if the labels are numbered from 0. Values without
    labels, frames, and a Series that only counts its entries are returned unchanged.
    """
    if not has_labels(values) or is_frame(values):
        return values
    keys = list(values.keys())
    if type(getattr(values, "index", None)).__name__ == "RangeIndex" and keys == list(
        range(len(keys))
    ):
        return values
    wanted = list(range(n_labels) if names is None else names)
    entries = {str(key): value for key, value in values.items()}
    if len(entries) < len(keys) or set(entries) != set(map(str, wanted)):
        raise ValueError(
            f"{argument} has values for the labels {listed(keys)}, but the labels are "
            f"{listed(wanted)}: each label needs one value"
        )
    return [entries[str(name)] for name in wanted]


def _names(frame, argument):
    """Return the names of the columns of a data frame."""
    names = label_names_of(frame, argument)
    assert names is not None
    return names


def _are_numbered(frame):
    """Return True if the columns of a data frame have the names that its library makes itself."""
    columns = frame.columns
    if type(columns).__name__ == "RangeIndex":
        return (columns.start, columns.step) == (0, 1)
    return list(columns) == [f"column_{i}" for i in range(len(columns))]  # polars


def in_rows_of(y_known: Any, X: Any, name: str = "y_known", rows_of: str = "X") -> Any:
    """Return a pandas `y_known` with its rows in the order of the index of X.

    `y_known` is returned unchanged if X or `y_known` has no pandas index, or if there is a single
    row. In lists of pandas objects, such as sequences and their labels, the items of each sequence
    are put in order. A ValueError is raised if the two indices differ and cannot be matched,
    because they hold different or repeated values. `name` and `rows_of` are the names of `y_known`
    and X in the message.
    """
    rows, known_rows = row_index(X), row_index(y_known)
    if rows is None and known_rows is None and (pairs := items_with_index(X, y_known)):
        ordered = [
            in_rows_of(second, first, f"{name}[{i}]", f"{rows_of}[{i}]{part}")
            for i, (first, second, part) in enumerate(pairs)
        ]
        return [*ordered, *y_known[len(ordered) :]]  # the caller refuses a wrong number of rows
    if rows is None or known_rows is None:
        return y_known
    if len(rows) != len(known_rows) or len(rows) == 1 or known_rows.equals(rows):
        return y_known  # the caller raises an error about a wrong number of rows
    if rows.is_unique and known_rows.is_unique:
        place = known_rows.get_indexer(rows)
        if (place >= 0).all():
            return y_known.iloc[place]
    raise ValueError(
        f"The rows of {name} cannot be matched with the rows of {rows_of}: their indices differ, "
        f"and hold different or repeated values. If the rows of {rows_of} and {name} are in the "
        f"same order, pass {rows_of}.reset_index(drop=True) and {name}.reset_index(drop=True)"
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
