"""Read arguments whose entries have labels: pandas objects, frames of other libraries, mappings.

An argument with a value for each variable is read by the labels of the variables, in whatever order
the argument has them. Without labels the variables are 0, 1, 2, ... An axis that only counts its
entries from 0 has no labels.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from skcrbm.utils.validation import has_labels

#: Labels of the variables of a model, or None if the variables have no labels.
Labels = tuple[Hashable, ...] | None


def by_label(
    values: Any, name: str, width: int, labels: Labels = None, *, partial: bool = False
) -> Any:
    """Return values with an entry for each variable on the last axis, in the order of `labels`.

    Parameters
    ----------
    values : object
        Values without labels are returned unchanged. The columns of a frame, the index of a Series
        and the keys of a mapping are labels.
    name : str
        Name of the argument, for messages.
    width : int
        Number of variables.
    labels : tuple (width,) or None
        Labels of the variables. None: 0 to ``width - 1``.
    partial : bool, default=False
        Whether variables may lack an entry; they get NaN.

    Raises
    ------
    ValueError
        If a label occurs twice or belongs to no variable, or a variable lacks an entry.
    """
    if not has_labels(values):
        return values
    keys, array = _entries(values, name)
    axis = getattr(values, "columns", getattr(values, "index", None))
    counted = type(axis).__name__ == "RangeIndex"
    expected = range(width) if labels is None else labels
    order = _order(keys, name, expected, labels, partial, counted)
    return _taken(array, order, -1)


def with_indices(values: Any, name: str) -> Any:
    """Return values whose labels are the indices of variables; the others get NaN."""
    if not has_labels(values):
        return values
    keys, array = _entries(values, name)
    indices = [key for key in keys if isinstance(key, Integral)]
    width = max([len(keys) - 1, *indices], default=-1) + 1 if indices else len(keys)
    return _taken(array, _order(keys, name, range(width), None, True), -1)


def with_new_labels(values: Any, name: str, labels: Labels = None) -> tuple[Any, Labels]:
    """Return the values of a new model in the order of its labels, and the labels.

    If `labels` is None, the labels of the values, if there are any, become those of the variables.
    Integers are not accepted as such labels, because other arguments hold indices of variables. See
    `by_label` for the other arguments.
    """
    if not has_labels(values):
        return values, labels
    keys, array = _entries(values, name)
    if labels is not None:
        return _taken(array, _order(keys, name, labels, labels, False), -1), labels
    order, labels = _own_order(keys, name)
    if labels is not None and any(isinstance(label, Integral) for label in labels):
        raise ValueError(
            f"{name} must have the labels 0 to {len(keys) - 1} if its labels are integers; got "
            f"{_shown(keys)}. Pass the values in the order of the variables, without labels"
        )
    return _taken(array, order, -1), labels


def matrix_with_labels(matrix: Any, name: str, symmetric: bool) -> tuple[Any, Labels, Labels]:
    """Return a matrix in the order of its labels, the labels of its rows, and of its columns.

    If `symmetric` is True, rows and columns have the same labels, and the columns are put into the
    order of the rows. Matrices that are not data frames are returned unchanged, without labels.
    """
    if not (has_labels(matrix) and hasattr(matrix, "columns")):
        return matrix, None, None
    array = np.asarray(matrix)
    if array.ndim != 2 or (symmetric and len(array) != array.shape[1]):
        return array, None, None  # the caller raises an error about the shape
    row_order, rows = _own_order(_index(matrix, len(array)), name)
    column_order, columns = _own_order(list(matrix.columns), name)
    if symmetric and rows is not None and columns is not None:
        column_order = _order(list(columns), name, rows, rows, False)
    elif symmetric and (rows is not None or columns is not None):
        unlabelled = row_order if rows is None else column_order
        if unlabelled is not None and (np.diff(unlabelled) < 0).any():
            raise ValueError(f"{name} must have the same labels for its rows and its columns")
        row_order = column_order = None
        rows = columns if rows is None else rows
    return _taken(_taken(array, row_order, 0), column_order, 1), rows, columns


def table_by_row(table: Any, name: str, labels: Labels = None) -> tuple[Any, Labels]:
    """Return a frame with a row for each variable and a column for each state, and the labels.

    `labels` are the labels of the variables, if they are known. Columns 0, 1, 2, ... are put into
    order; other names of columns are ignored.
    """
    array, rows, _ = matrix_with_labels(table, name, symmetric=False)
    if labels is None:
        return array, rows
    keys = range(len(array)) if rows is None else rows
    return _taken(array, _order(list(keys), name, labels, labels, False), 0), labels


def _entries(values, name):
    """Return the labels of the last axis as a list, and the values as an array."""
    if hasattr(values, "columns"):
        return list(values.columns), np.asarray(values)
    if hasattr(values, "index") and hasattr(values.index, "tolist"):
        return values.index.tolist(), np.asarray(values)
    items = list(values.items())
    array = np.array([value for _, value in items])
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must have numbers as values, got {values!r}")
    return [key for key, _ in items], array


def _index(frame, n_rows):
    """Return the labels of the rows; a frame without an index has 0, 1, 2, ..."""
    index = getattr(frame, "index", None)
    return index.tolist() if hasattr(index, "tolist") else list(range(n_rows))


def _places(keys, name):
    """Return a dict from each label to its position."""
    place = {key: i for i, key in enumerate(keys)}
    if len(place) < len(keys):
        twice = next(key for i, key in enumerate(keys) if place[key] != i)
        raise ValueError(f"{name} must hold each label once, but it holds {twice!r} twice")
    return place


def _own_order(keys, name):
    """Return the order of the keys, None as they are, and the labels that they give a new model."""
    place = _places(keys, name)
    if set(keys) != set(range(len(keys))):
        return None, tuple(keys)
    return np.array([place[i] for i in range(len(keys))], np.int64), None


def _order(keys, name, expected: Sequence, labels, partial, counted=False):
    """Return the position of each expected label in `keys`, -1 if it is missing."""
    place = _places(keys, name)
    known = set(expected)
    unknown = [key for key in keys if key not in known]
    if unknown and keys == list(range(len(expected))):
        return None  # the keys are only counted
    if unknown:
        found = f"its labels are {_shown(expected)}"
        if labels is None:
            found = (
                f"its variables are 0 to {len(expected) - 1} and have no labels. Pass the values "
                "in the order of the variables, as an array"
            )
        raise ValueError(
            f"{name} has the label {unknown[0]!r}, but no variable of the energy has it; {found}"
        )
    missing = [label for label in expected if label not in place]
    if missing and partial and labels is None and counted:
        raise ValueError(
            f"{name} must have {len(expected)} values, one for each variable, or the indices of "
            f"some variables as labels; got {len(keys)} values"
        )
    if missing and not partial:
        raise ValueError(
            f"{name} must have an entry for each variable, but {missing[0]!r} is missing"
        )
    return np.array([place.get(label, -1) for label in expected], np.int64)


def _taken(array, order, axis):
    """Return the entries of an array in an order, with NaN where the order is -1."""
    if order is None:
        return array
    if (order >= 0).all():
        return np.take(array, order, axis)
    padded = np.concatenate([array, np.full((*array.shape[:-1], 1), np.nan)], axis=-1)
    return padded[..., order]


def _shown(labels):
    """Return the first labels as text."""
    text = ", ".join(map(repr, list(labels)[:5]))
    return f"{text}, ..." if len(labels) > 5 else text
