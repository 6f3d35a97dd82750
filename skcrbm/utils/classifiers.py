"""Other classifiers: the model inside a pipeline or search, and the forms of its probabilities."""

from __future__ import annotations

import functools
import inspect

import numpy as np
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline

from skcrbm.utils.validation import as_float_array


def final_model(model, X=None):
    """Return the model that predicts: the last step of a `Pipeline`, the best one of a search.

    Parameters
    ----------
    model : estimator
        Fitted, if X is given. Of a search that is not fitted, such as `GridSearchCV`, it is what
        is searched.
    X : array-like, default=None
        Rows for `model`.

    Returns
    -------
    model : estimator
    X : array-like or None
        The rows as this model gets them.
    """
    while True:
        if isinstance(model, Pipeline):
            for _, step in model.steps[:-1]:
                if X is not None and step is not None and step != "passthrough":
                    X = step.transform(X)
            model = model.steps[-1][1]
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif isinstance(model, BaseSearchCV):
            model = model.estimator
        else:
            return model, X


def inner_method(model, method):
    """Return a method of the model that predicts, as a function of rows for the outer one.

    Parameters
    ----------
    model : estimator
        Fitted.
    method : str

    Returns
    -------
    function of X and further arguments, or None if there is no such method
    """
    bound = getattr(final_model(model)[0], method, None)
    if bound is None:
        return None

    @functools.wraps(bound)
    def inner(X, *args, **options):
        return bound(final_model(model, X)[1], *args, **options)

    return inner


def call_given(model, method, X, y_known, **options):
    """Call a method of a fitted model, given known labels if there are any.

    Parameters
    ----------
    model : estimator
        That has the method, or that predicts with a model which has it.
    method : str
    X : array-like
    y_known : array-like or None
    **options : dict
        For the method.

    Raises
    ------
    ValueError
        If labels are known, and the model cannot condition on them.
    """
    if y_known is None and hasattr(model, method):
        return getattr(model, method)(X, **options)
    function = inner_method(model, method)
    if y_known is None:
        return function(X, **options)
    if function is None or "y_known" not in inspect.signature(function).parameters:
        raise ValueError(
            f"y_known needs an estimator whose {method} takes y_known, as that of CRBMClassifier, "
            "MSSVMCRBM or LMBMClassifier does: itself, as the last step of a Pipeline, or in "
            f"GridSearchCV. {type(model).__name__} returns probabilities label by label and cannot "
            "condition them on known labels; if "
            "labels do not depend on each other given x, set the probabilities of the known ones "
            "to 0 or 1 and use skcrbm.decoding.decode_marginals"
        )
    return function(X, y_known=y_known, **options)


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
