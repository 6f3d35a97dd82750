"""Access to classifiers of any library inside of other estimators.

The functions find the model inside a pipeline or search, call its methods, and explain its errors.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skcrbm.targets.names import in_rows_of, label_names_of
from skcrbm.targets.proba import label_marginals
from skcrbm.utils.sklearn_private import is_search, safe_indexing


def final_model(model: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the final model inside of pipelines and searches, and the X that it gets.

    The final model is the last step of a `Pipeline`, the model inside of a `FrozenEstimator`, the
    best model of a fitted search such as `GridSearchCV`, or the estimator of a search that is not
    fitted. If X is given, it is transformed by the earlier steps of the pipeline, which must be
    fitted.
    """
    while True:
        if isinstance(model, Pipeline):
            for _, step in model.steps[:-1]:
                if X is not None and step is not None and step != "passthrough":
                    X = step.transform(X)
            model = model.steps[-1][1]
        elif isinstance(model, FrozenEstimator):
            model = model.estimator
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif is_search(model):
            model = model.estimator
        else:
            return model, X


def inner_method(model: Any, method: str) -> Callable | None:
    """Return a method of the final model as a function that takes the X of the outer model.

    For example, the function for a `Pipeline` first applies the earlier steps to X, then calls the
    method of the last step. The result is None if the final model has no method of this name. The
    rows of `y_known` are matched with the rows of X before the steps of a pipeline, because the
    steps may return arrays without an index.
    """
    bound = getattr(final_model(model)[0], method, None)
    if bound is None:
        return None

    @functools.wraps(bound)
    def inner(X, *args, **options):
        call = inspect.signature(bound).bind(final_model(model, X)[1], *args, **options)
        if "y_known" in call.arguments:
            call.arguments["y_known"] = in_rows_of(call.arguments["y_known"], X)
        return bound(*call.args, **call.kwargs)

    return inner


@contextlib.contextmanager
def explained_fit(estimator: Any, X: Any, y: Any) -> Iterator[None]:
    """Add advice to the error of a `fit` that lacks support for y or for weights of labels.

    The `fit` may not support a 2-D y, missing labels or weights of single labels.

    The `fit` of a `FrozenEstimator` ignores y, so this function compares the labels of y with the
    labels that the frozen model predicts, and raises a ValueError if they differ.
    """
    _check_frozen(estimator, X, y)
    try:
        yield
    except ValueError as error:
        kind = type(final_model(estimator)[0])
        name = getattr(kind, "shown_name", kind.__name__)
        if "y should be a 1d array" in str(error) and np.ndim(y) == 2:
            raise ValueError(
                f"{name} takes a 1-D y only. For a 2-D y, fit a copy of {name} for each label with "
                f"sklearn.multiclass.OneVsRestClassifier({name}()). The error of {name}: {error}"
            ) from error
        if "Sample weights must be 1D array" in str(error) and np.ndim(y) == 2:
            raise ValueError(
                f"{name} takes a weight for each row only: sample_weight must have shape "
                "(n_samples,). Weights of single labels, which have the shape of a 2-D y, need an "
                "estimator that takes them: CRBMClassifier, MSSVMCRBM, LMBMClassifier, "
                "LabelGraphCRF, LayeredGMClassifier or a stack from make_stacked. The error of "
                f"{name}: {error}"
            ) from error
        if "y contains NaN" in str(error):
            raise ValueError(
                f"{name} does not take missing labels (NaN in y, or labels of weight 0). "
                "CRBMClassifier, MSSVMCRBM, LMBMClassifier, LayeredGMClassifier and stacks from "
                f"make_stacked take them, also inside of DecodedClassifier. The error of {name}: "
                f"{error}"
            ) from error
        raise


def _check_frozen(estimator, X, y):
    """Raise a ValueError if the labels or classes of a frozen classifier differ from those in y."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
        X = None  # the X of the last step is not known before the earlier steps are fitted
    if not isinstance(estimator, FrozenEstimator) or not hasattr(estimator, "predict_proba"):
        return
    classes = getattr(estimator, "classes_", None)
    if np.ndim(y) == 2:
        if X is None:
            n_labels = len(classes) if classes is not None else y.shape[1]
        else:
            row = X.tocsr()[:1] if issparse(X) else safe_indexing(X, slice(0, 1))
            proba = estimator.predict_proba(row)
            n_labels = label_marginals(proba, classes, "predict_proba(X)").shape[1]
        if n_labels != y.shape[1]:
            raise ValueError(
                f"estimator is frozen and predicts {n_labels} labels, but y has {y.shape[1]} "
                "columns"
            )
        names, given = getattr(estimator, "label_names_", None), label_names_of(y)
        if names is not None and given is not None and list(names) != list(given):
            raise ValueError(
                f"estimator is frozen and predicts the labels {list(names)}, but y has the columns "
                f"{list(given)}"
            )
    elif classes is not None and not np.array_equal(classes, np.unique(y)):
        raise ValueError(
            f"estimator is frozen and predicts the classes {np.asarray(classes).tolist()}, but y "
            f"has the classes {np.unique(y).tolist()}"
        )


def check_outer_fitted(model: Any, attributes: Any = None) -> None:
    """Raise a NotFittedError if a meta-estimator is not fitted.

    If the inner estimator is fitted already, the message recommends `FrozenEstimator`, because
    `fit` of the meta-estimator would otherwise fit a clone of the inner estimator.
    """
    try:
        check_is_fitted(model, attributes)
    except NotFittedError as error:
        inner = getattr(model, "estimator", None)
        try:
            check_is_fitted(inner)
        except (AttributeError, NotFittedError, TypeError):
            raise error from None
        outer, name = type(model).__name__, type(inner).__name__
        if isinstance(inner, FrozenEstimator):
            raise NotFittedError(
                f"This {outer} is not fitted yet. Call fit(X, y) with labelled rows that its "
                "estimator was not fitted on; the frozen estimator is kept as it is"
            ) from None
        raise NotFittedError(
            f"This {outer} is not fitted yet. Its {name} is fitted, but fit of {outer} would fit a "
            f"clone of it. To keep the fitted {name}, use sklearn.frozen: "
            f"{outer}(FrozenEstimator(model)).fit(X, y)"
        ) from None


def call_given(model: Any, method: str, X: Any, y_known: Any, **options: Any) -> Any:
    """Call a method of a fitted model with X, and with the known labels unless `y_known` is None.

    If the model does not have the method, the method of its final model is called. A ValueError is
    raised if `y_known` is given and the method does not take it.
    """
    if y_known is None and hasattr(model, method):
        return getattr(model, method)(X, **options)
    function = inner_method(model, method)
    if y_known is None:
        return function(X, **options)
    if function is None or "y_known" not in inspect.signature(function).parameters:
        raise ValueError(
            f"y_known needs an estimator whose {method} takes y_known, such as CRBMClassifier, "
            "MSSVMCRBM or LMBMClassifier. The estimator may also be the last step of a Pipeline, "
            f"or the estimator of GridSearchCV. {type(model).__name__} predicts each label "
            "separately and cannot condition its probabilities on known labels. If you assume "
            "that labels are independent given x, set the probabilities of the known labels to 0 "
            "or 1 and use skcrbm.decoding.decode_marginals"
        )
    return function(X, y_known=y_known, **options)


def takes_known(model: Any) -> bool:
    """Return True if `predict_proba` of a classifier conditions on known labels, `y_known`."""
    function = inner_method(model, "predict_proba")
    if function is None or "y_known" not in inspect.signature(function).parameters:
        return False
    final = final_model(model)[0]
    # A `Constrained` classifier computes probabilities given known labels itself. Other wrappers,
    # such as `DecodedClassifier`, pass known labels on to the estimator inside.
    inner = None if hasattr(final, "satisfies") else getattr(final, "estimator", None)
    return inner is None or takes_known(inner)


def rule_check(model: Any) -> Callable | None:
    """Return the method `satisfies` of the `Constrained` classifier in a fitted model, or None.

    The classifier may be inside of pipelines, searches and wrappers such as `CalibratedMarginals`.
    """
    while model is not None:
        model = final_model(model)[0]
        if hasattr(model, "satisfies"):
            return model.satisfies
        model = getattr(model, "estimator_", None)
    return None
