"""The kinds of y that cross-validation accepts, and the folds of each kind."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import check_cv

from skcrbm.model_selection.folds import for_groups, resolve_cv
from skcrbm.targets.indicator import indicator_with_nan, with_dimensions
from skcrbm.targets.multioutput import class_columns
from skcrbm.targets.names import is_frame
from skcrbm.targets.wrapped import final_model
from skcrbm.utils.options import tags_of_inner


class SplitTarget(NamedTuple):
    """y as the estimator gets it, and as the splitter gets it."""

    #: "classes of rows" (1-D y), "labels" (0/1 labels or images), "columns of classes", or
    #: "structures" (sequences, graphs, or images of different sizes)
    kind: str
    y: Any
    stratify: np.ndarray  # the targets of the splitter, without None and text
    classes: list | None = None  # the sorted classes of each column, for "columns of classes"

    def splitter(self, cv: Any, groups: Any = None) -> Any:
        """Return the splitter for `cv`: a number, or None for 5 folds, becomes a splitter."""
        if self.kind == "structures":
            return for_groups(check_cv(5 if cv is None else cv), cv, groups)
        classes = self.kind == "classes of rows"
        return resolve_cv(cv, np.ravel(self.stratify) if classes else self.stratify, groups)


def split_target(estimator: Any, y: Any) -> SplitTarget:
    """Return the target of a cross-validation; raise a ValueError if y is invalid."""
    if _predicts_structures(estimator, y):
        return SplitTarget("structures", y, np.zeros(len(y)))
    y = y if is_frame(y) else with_dimensions(y)
    if len(y.shape) == 1 or y.shape[1:] == (1,):
        return SplitTarget("classes of rows", y, y)
    try:
        observed = indicator_with_nan(y)
    except ValueError:
        tags = tags_of_inner(final_model(estimator)[0])
        if len(y.shape) != 2 or tags is None or not tags.target_tags.multi_output:
            raise
        classes = _classes_of_columns(y)
        return SplitTarget("columns of classes", y, _one_hot(y, classes), classes)
    if not is_frame(y):
        y = observed if np.isnan(observed).any() else observed.astype(np.int64)
    return SplitTarget("labels", y, observed)


def _predicts_structures(estimator, y):
    """Return True if the rows of y are sequences, graphs, or images of different sizes."""
    tags = tags_of_inner(final_model(estimator)[0])
    if tags is not None and not (tags.input_tags.one_d_array or tags.input_tags.two_d_array):
        return True
    objects = isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype == object
    if not (objects or isinstance(y, (list, tuple))):
        return False
    dimensions = {getattr(image, "ndim", 0) for image in y if image is not None}
    return dimensions == {2}


def _classes_of_columns(y):
    """Return the sorted classes of each column of y; raise a ValueError for mixed types."""
    classes = []
    for i, column in enumerate(class_columns(y, "y")):
        try:
            classes.append(sorted(set(column) - {None}))
        except TypeError as error:
            raise ValueError(f"column {i} of y mixes labels of different types: {error}") from error
    return classes


def _one_hot(y, classes):
    """Return a 0/1 matrix (n, C) that has a column for each class of each column of y."""
    pairs = zip(class_columns(y, "y"), classes)
    states = [[value == k for value in column] for column, own in pairs for k in own]
    return np.column_stack(states).astype(np.int64)
