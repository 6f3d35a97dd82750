"""Codes of labels, and validation of vectors of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from skcrbm.targets.indicator import with_dimensions
from skcrbm.utils.warnings import warn_user

#: Code of a missing label.
MISSING = -1


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
