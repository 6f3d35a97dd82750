"""Classifiers of any library inside of other estimators.

`wrapped_rows` validates y and the weights for a fit, `fitted_clone` fits, and `marginals_of` asks
for probabilities. Other functions find the model inside a pipeline or search, call its methods,
and explain its errors.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from skcrbm.targets.classifier import TargetsMixin
from skcrbm.targets.kinds import Targets
from skcrbm.targets.multioutput import wrapped_targets
from skcrbm.targets.names import in_rows_of, label_names_of
from skcrbm.targets.proba import label_marginals, require_rows
from skcrbm.utils.advice import supporting
from skcrbm.utils.sklearn_private import is_search, safe_indexing
from skcrbm.utils.validation import check_order, check_same_rows, count_rows
from skcrbm.utils.wrong_features import one_dimension_text, text_advice


class WrappedRows(NamedTuple):
    """Labels and weights of N training rows for a classifier of any library."""

    targets: Targets
    y: Any  # y in the form that `fit` of the classifier takes
    visible: np.ndarray  # (N, V): 0/1 units, with NaN for missing labels
    weight: np.ndarray | None  # weights of rows (N,) or of single labels (N, L), or None

    @property
    def params(self) -> dict[str, Any]:
        """Keyword arguments of `fit`."""
        return {} if self.weight is None else {"sample_weight": self.weight}

    @property
    def row_weight(self) -> np.ndarray:
        """Weights (N,) of the rows; the smallest label weight of a row if labels have weights."""
        if self.weight is None:
            return np.ones(len(self.visible))
        return self.weight if self.weight.ndim == 1 else self.weight.min(axis=1)


def wrapped_rows(
    X: Any,
    y: Any,
    sample_weight: Any,
    name: str,
    estimator: Any = None,
    several: bool = False,
) -> WrappedRows:
    """Validate y and the weights for an estimator or function that takes a classifier.

    `name` is the name of the caller, and `estimator` the calling estimator. `several` is True if
    the caller needs a 2-D y.
    """
    targets = wrapped_targets(y, name, estimator)
    if several and not targets.multilabel:
        raise ValueError(
            f"{name} needs a 0/1 indicator matrix y (n_samples, n_outputs) with at least two "
            f"columns, got a y of shape {np.shape(y)}, which is a single output"
        )
    check_same_rows(X, y)
    check_order(X=X, y=y, sample_weight=sample_weight)
    y = targets.for_classifier(y)
    return WrappedRows(targets, y, targets.encode(y), targets.checked_weight(sample_weight, y))


def fitted_clone(estimator: Any, X: Any, y: Any, params: dict[str, Any]) -> Any:
    """Return a fitted clone of a classifier; errors about y are explained."""
    with explained_fit(estimator, X, y):
        return clone(estimator).fit(X, y, **params)


def features_of(model: Any) -> dict[str, Any]:
    """Return the attributes of a fitted model that describe the columns of X."""
    names = ("n_features_in_", "feature_names_in_")
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def marginals_of(
    model: Any, X: Any, known: np.ndarray | None = None, targets: Targets | None = None
) -> np.ndarray:
    """Return the probabilities P(visible unit = 1 | x) (N, V) of a fitted classifier.

    They are probabilities given the labels `known` (N, L), unless `known` is None. `targets` are
    the labels that the classifier should predict; None stands for a 2-D y of any number of labels
    without names. The answer of the classifier may have any form, see `targets/proba.py`. A
    ValueError is raised if it has the wrong shape, or is no probability.
    """
    n_rows = count_rows(X)  # raises an error that names X if X has no rows
    proba = call_given(model, "predict_proba", X, known)
    classes = getattr(model, "classes_", None)
    if targets is None:
        found = label_marginals(proba, classes, "predict_proba(X)")
    else:
        found = targets.marginals(proba, classes)
    require_rows(found, n_rows)
    return found


class WrappingClassifier(TargetsMixin, MetaEstimatorMixin, BaseEstimator):
    """Base class of the classifiers that fit a classifier of any library, `estimator`."""

    estimator: Any
    estimator_: Any
    _targets: Any

    def _set_targets(self, targets: Targets) -> None:
        """Set the attributes that describe y."""
        self._targets, self.classes_ = targets, targets.classes

    def _fit_wrapped(self, X: Any, rows: WrappedRows, params: dict[str, Any] | None = None) -> None:
        """Fit a clone of the classifier on all rows; set `estimator_` and the columns of X.

        `params` are further arguments of `fit`.
        """
        params = {**(params or {}), **rows.params}
        self.estimator_ = fitted_clone(self.estimator, X, rows.y, params)
        for name in ("n_features_in_", "feature_names_in_"):
            vars(self).pop(name, None)  # an earlier fit may have set this attribute
        vars(self).update(features_of(self.estimator_))


def is_frozen(estimator: Any) -> bool:
    """Return True if `fit` changes nothing: for a `FrozenEstimator`, or a pipeline of them."""
    if isinstance(estimator, Pipeline):
        steps = (step for _, step in estimator.steps)
        return all(step in (None, "passthrough") or is_frozen(step) for step in steps)
    return isinstance(estimator, FrozenEstimator)


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
        if "could not convert string" in str(error) or getattr(X, "ndim", 1) == 1:
            if advice := text_advice(X, name):
                raise ValueError(f"{advice}. The error of {name}: {error}") from error
            if "Expected 2D array, got 1D array" in str(error):
                raise ValueError(one_dimension_text(np.shape(X))) from error
        if "y should be a 1d array" in str(error) and np.ndim(y) == 2:
            raise ValueError(
                f"{name} takes a 1-D y only. For a 2-D y, fit a copy of {name} for each label with "
                f"sklearn.multiclass.OneVsRestClassifier({name}()). The error of {name}: {error}"
            ) from error
        if "y must have at least two dimensions" in str(error):
            raise ValueError(
                f"{name} takes a 2-D y of several labels only, but y is 1-D or has one column. "
                f"Use the classifier inside of {name}. The error of {name}: {error}"
            ) from error
        if "Sample weights must be 1D array" in str(error) and np.ndim(y) == 2:
            raise ValueError(
                f"{name} takes a weight for each row only: sample_weight must have shape "
                "(n_samples,). Weights of single labels, which have the shape of a 2-D y, need an "
                f"estimator that takes them: {supporting('weights of single labels')}. The error "
                f"of {name}: {error}"
            ) from error
        if re.search(r"one class|at least 2 classes", str(error)):
            raise ValueError(
                f"{name} needs rows of both values of each label, but a label of y has a single "
                "value in the rows of a fit, which may be those of a fold. Give more rows, or use "
                f"sklearn.multiclass.OneVsRestClassifier. The error of {name}: {error}"
            ) from error
        if "y contains NaN" in str(error):
            raise ValueError(
                f"{name} does not take missing labels (NaN in y, or labels of weight 0). They need "
                f"another estimator: {supporting('missing labels')}. The error of {name}: {error}"
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
            f"y_known needs an estimator whose {method} takes y_known, such as "
            f"{supporting('known labels')}. The estimator may also be the last step of a Pipeline, "
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
    # A classifier with rules between labels computes probabilities given known labels itself. Other
    # wrappers pass known labels on to the estimator inside.
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
