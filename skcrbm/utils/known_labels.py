"""Whether and how a fitted classifier, also one inside of others, conditions on known labels."""

import inspect

from sklearn.pipeline import Pipeline


def given_labels(model, method):
    """Find the method of a fitted model that conditions on known labels.

    A `Pipeline` conditions if its last step does, a search such as `GridSearchCV` if its best
    estimator does.

    Parameters
    ----------
    model : estimator
        Fitted.
    method : str

    Returns
    -------
    function of X with the keyword argument y_known, or None if there is none
    """
    bound = getattr(model, method, None)
    if bound is not None and "y_known" in inspect.signature(bound).parameters:
        return bound
    if isinstance(model, Pipeline):
        last = given_labels(model.steps[-1][1], method)
        if last is None:
            return None
        return lambda X, **options: last(_transformed(model.steps[:-1], X), **options)
    if hasattr(model, "best_estimator_"):
        return given_labels(model.best_estimator_, method)
    return None


def _transformed(steps, X):
    for _, step in steps:
        if step is not None and step != "passthrough":
            X = step.transform(X)
    return X


def call_given(model, method, X, y_known, **options):
    """Call a method of a fitted model, given known labels if there are any.

    Parameters
    ----------
    model : estimator
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
    if y_known is None:
        return getattr(model, method)(X, **options)
    function = given_labels(model, method)
    if function is None:
        raise ValueError(
            f"y_known needs an estimator whose {method} takes y_known, as that of CRBMClassifier, "
            "MSSVMCRBM or LMBMClassifier does: itself, as the last step of a Pipeline, or in "
            f"GridSearchCV. {type(model).__name__} returns probabilities label by label and cannot "
            "condition them on known labels; if "
            "labels do not depend on each other given x, set the probabilities of the known ones "
            "to 0 or 1 and use skcrbm.decoding.decode_marginals"
        )
    return function(X, y_known=y_known, **options)
