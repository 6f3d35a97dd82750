"""Read the argument `classes` of `partial_fit` for a 2-D y, which lists known and new labels."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from skcrbm.targets.indicator import indicator_with_nan, with_dimensions
from skcrbm.targets.names import all_strings, is_frame, label_names_of, listed


def listed_labels(classes: Any) -> list | None:
    """Return the labels in `classes`, or None if `classes` is None or the values 0 and 1.

    The result is also None if `classes` is a list with the values (0, 1) for each output, the
    format of scikit-learn. In all other cases, a ValueError is raised unless `classes` lists
    distinct labels.
    """
    if classes is None:
        return None
    try:
        if np.array_equal(np.unique(np.asarray(classes)), [0, 1]):
            return None
    except (TypeError, ValueError):  # `classes` is ragged, or its types are mixed
        pass
    try:
        labels = [label.item() if isinstance(label, np.generic) else label for label in classes]
        distinct = len(set(labels)) == len(labels) >= 2
        missing = any(label is None or label != label for label in labels)
        if distinct and not missing and not isinstance(classes, (str, bytes, set)):
            return labels
    except TypeError:  # `classes` or a label is not iterable or hashable
        pass
    raise ValueError(
        f"classes of a 2-D y must be 0 and 1, or a list of the distinct labels of all its columns; "
        f"got {classes!r}"
    )


def first_names(classes: Any, names: np.ndarray | None, n_columns: int) -> tuple:
    """Return the number and the names of the labels in the first call of `partial_fit`.

    The y of this call has `n_columns` columns with the `names` (None if they have no names). Names
    in `classes` become the names of the labels.
    """
    labels = listed_labels(classes)
    if labels is None:
        if np.ndim(classes) == 2 and len(classes) != n_columns:
            raise ValueError(
                f"`classes` has the values of {len(classes)} labels, but y has {n_columns} "
                "columns; these numbers must be equal"
            )
        return n_columns, names
    if names is None and len(labels) != n_columns:
        raise ValueError(
            f"`classes` has {len(labels)} labels, but y has {n_columns} columns; these numbers "
            "must be equal"
        )
    if labels == list(range(len(labels))):
        return len(labels), None
    if names is None and all(isinstance(label, Integral) for label in labels):
        raise ValueError(
            f"classes must be the numbers 0, 1, ... of the columns of y, or names; got {classes!r}"
        )
    return len(labels), _as_names(labels)


def names_with_new(targets: Any, classes: Any) -> tuple:
    """Return the number and the names of the known labels and of the new labels in `classes`.

    New labels follow the known labels, in their order in `classes`.
    """
    labels = listed_labels(classes)
    if labels is None:
        return targets.n_visible, targets.names
    if targets.names is None:
        if labels != list(range(max(targets.n_visible, len(labels)))):
            raise ValueError(
                f"classes must be the numbers 0, 1, ... of at least {targets.n_visible} labels, "
                f"because the labels of earlier calls have no names; got {classes!r}"
            )
        return len(labels), None
    if all_strings(targets.names) and not all(isinstance(label, str) for label in labels):
        raise ValueError(f"classes must be names of labels, as in earlier calls; got {classes!r}")
    known = list(targets.names)
    place = set(known)
    known += [label for label in labels if label not in place]
    return len(known), _as_names(known)


def refuse_unlisted_labels(targets: Any, y: Any, classes: Any) -> None:
    """Raise a ValueError if y has more columns than labels, or columns with unknown names.

    The error says how the argument `classes` of `partial_fit` adds labels. `targets` describes the
    labels of the model, with the labels that `classes` has added.
    """
    if y is None:
        return
    names, columns = targets.names, label_names_of(y) if is_frame(y) else None
    if names is not None and columns is not None:
        known = set(names)
        new = [name for name in columns if name not in known]
        if new:
            raise ValueError(
                f"y has columns that are not labels of this model: {listed(new)}. The labels "
                f"of the model are {listed(names)}. To add labels to the model, list them in "
                "classes, as in partial_fit(X, y, classes=list(y.columns))"
            )
    given = with_dimensions(y)
    n_columns = given.shape[1] if given.ndim == 2 else 0
    if listed_labels(classes) is None and n_columns > targets.n_visible:
        example = f", as in classes=range({n_columns})" if names is None else " by name"
        raise ValueError(
            f"y must have shape (n_samples, {targets.n_visible}) as in the first fit, got "
            f"{tuple(given.shape)}. To add labels to the model, list the labels of all columns of "
            f"y in classes{example}"
        )


def in_label_order(y: Any, classes: Any, targets: Any, dtype: Any) -> Any:
    """Return an array y with its columns in the order of the labels of the model.

    `classes` names the columns of y. Labels without a column become NaN. y is returned unchanged if
    it is a data frame, or if the labels have no names.
    """
    labels = listed_labels(classes) if targets.indicator else None
    if labels is None or targets.names is None or is_frame(y):
        return y
    given = with_dimensions(y)
    if given.shape[1:] != (len(labels),):
        raise ValueError(
            f"y must have a column for each of the {len(labels)} labels in classes, got shape "
            f"{given.shape}"
        )
    values = indicator_with_nan(given, "y", dtype)
    place = {name: i for i, name in enumerate(targets.names)}
    full = np.full((len(values), targets.n_visible), np.nan, dtype)
    full[:, [place[label] for label in labels]] = values
    return full


def _as_names(labels):
    names = np.empty(len(labels), dtype=object)  # np.array would split names that are tuples
    for i, label in enumerate(labels):
        names[i] = label
    return names
