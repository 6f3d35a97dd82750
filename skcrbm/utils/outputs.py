"""Probabilities of labels, in the forms that scikit-learn's classifiers return them."""

import numpy as np

from skcrbm.utils.validation import as_float_array

# How many units in the last place of 1 probabilities may lie outside of [0, 1]: means over the
# trees of a forest do.
_ROUNDING = 8


def is_list_of_outputs(values):
    """Whether `values` are in the form of scikit-learn's multi-output estimators."""
    return isinstance(values, (list, tuple)) and all(np.ndim(value) == 2 for value in values)


def positive_columns(outputs, classes=None, name="proba"):
    """Return the second columns of L arrays (N, 2) as one array (N, L).

    Parameters
    ----------
    outputs : list of L array-likes (N, 2)
    classes, name
        As for `label_marginals`.

    Raises
    ------
    ValueError
        On another shape.
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


def label_marginals(proba, classes=None, name="proba"):
    """Return P(y_i = 1) of shape (N, L), from either form that classifiers give.

    Parameters
    ----------
    proba : array-like (N, L), or list of L arrays (N, 2)
        The list is that of scikit-learn's multi-output estimators.
    classes : list of L arrays, default=None
        Classes of each label; with these a label of which only one class was seen may have
        an array (N, 1).
    name : str
        Argument name, for the error messages.

    Returns
    -------
    ndarray (N, L) of float64

    Raises
    ------
    ValueError
        On another shape, or values outside [0, 1], rounding apart.
    """
    if is_list_of_outputs(proba):
        proba = positive_columns(proba, classes, name)
    proba = as_float_array(proba, name, "(n_samples, n_labels)")
    slack = _ROUNDING * np.finfo(proba.dtype).eps
    if proba.size and not (proba.min() >= -slack and proba.max() <= 1 + slack):
        raise ValueError(f"{name} must hold probabilities in [0, 1]")
    return np.clip(proba.astype(np.float64), 0.0, 1.0)


def _both(part, classes):
    """Columns of both classes, where fit saw one of them only."""
    if part.shape[1:] != (1,):
        return part
    return np.hstack([1 - part, part] if classes[0] == 1 else [part, 1 - part])
