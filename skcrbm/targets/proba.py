"""Probabilities that classifiers of any library predict, in a common form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skcrbm.utils.validation import as_float_array

# Tolerance for probabilities outside of [0, 1], in units of machine epsilon. Means over the trees
# of a forest, for example, may exceed 1 by rounding.
_ROUNDING = 8


def is_list_of_outputs(values: Any) -> bool:
    """Return True if `values` is a list of 2-D arrays.

    The multi-output estimators of scikit-learn return probabilities as a list of one array per
    output.
    """
    return isinstance(values, (list, tuple)) and all(np.ndim(value) == 2 for value in values)


def positive_columns(
    outputs: Sequence, classes: Sequence | None = None, name: str = "proba"
) -> np.ndarray:
    """Return P(y_i = 1) as an array (N, L), the second columns of L arrays (N, 2).

    `classes` and `name` are described in `label_marginals`.
    """
    columns = [np.asarray(output) for output in outputs]
    if classes is not None:
        columns = [_both(part, label) for part, label in zip(columns, classes, strict=True)]
    if not columns or {part.shape for part in columns} != {(len(columns[0]), 2)}:
        raise ValueError(
            f"{name}, as a list, must hold one array of shape (n_samples, 2) for each label, "
            f"got shapes {[part.shape for part in columns]}"
        )
    return np.column_stack([part[:, 1] for part in columns])


def label_marginals(proba: Any, classes: Sequence | None = None, name: str = "proba") -> np.ndarray:
    """Return the probabilities P(y_i = 1) as a float64 array (N, L).

    `proba` is an array (N, L) or a list of L arrays (N, 2), the two forms that `predict_proba` of
    multi-label classifiers returns. `classes` holds the classes of each label. If it is given, the
    array of a label may be (N, 1), from a classifier that saw a single class in its fit. `name` is
    the name of the argument in error messages.
    """
    if is_list_of_outputs(proba):
        proba = positive_columns(proba, classes, name)
    proba = as_float_array(proba, name, "(n_samples, n_labels)")
    slack = _ROUNDING * np.finfo(proba.dtype).eps
    if proba.size and not (proba.min() >= -slack and proba.max() <= 1 + slack):
        raise ValueError(f"{name} must hold probabilities in [0, 1]")
    return np.clip(proba.astype(np.float64), 0.0, 1.0)


def _both(part, classes):
    """Return the probabilities (N, 2) of 0 and 1; a class that was not in the fit gets 0."""
    if part.shape[1:] != (1,):
        return part
    return np.hstack([1 - part, part] if classes[0] == 1 else [part, 1 - part])


def proba_of_classes(proba: Any, classes: Any, all_classes: np.ndarray) -> np.ndarray:
    """Return the probabilities (N, K) of all classes.

    `classes` holds the classes that the classifier saw in its fit. The other classes get
    probability 0.
    """
    proba = np.asarray(proba)
    if classes is None or len(classes) == len(all_classes):
        return proba
    full = np.zeros((len(proba), len(all_classes)))
    full[:, np.searchsorted(all_classes, classes)] = proba
    return full
