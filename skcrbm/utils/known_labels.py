"""Classifiers inside of others: which one predicts, and whether it conditions on known labels."""

import functools
import inspect

from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline


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
