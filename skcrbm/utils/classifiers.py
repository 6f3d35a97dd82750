"""Other classifiers: the model inside a pipeline or search, and the forms of its probabilities."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skcrbm.utils.labels import in_rows_of
from skcrbm.utils.validation import as_float_array


def final_model(model: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the model that predicts, and the rows X as this model gets them.

    It is the last step of a `Pipeline`, the model inside of a `FrozenEstimator`, the best model of
    a fitted search such as `GridSearchCV`, and the estimator that a search tries if it was not
    fitted. `model` must be fitted if X is given.
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
        elif isinstance(model, BaseSearchCV):
            model = model.estimator
        else:
            return model, X


def inner_method(model: Any, method: str) -> Callable | None:
    """Return a method of the final model as a function of the rows for the fitted outer model.

    The result is None if the final model has no such method. The rows of known labels are matched
    with X before the steps of a pipeline, because these may return arrays without an index.
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
def explained_fit(estimator: Any, y: Any) -> Iterator[None]:
    """Name the alternative if the `fit` of an estimator refuses a 2-D y or missing labels."""
    try:
        yield
    except ValueError as error:
        name = type(final_model(estimator)[0]).__name__
        if np.ndim(y) == 2 and "y should be a 1d array" in str(error):
            raise ValueError(
                f"{name} takes a 1-D y only. For a 2-D y fit it for each label, as in "
                f"sklearn.multiclass.OneVsRestClassifier({name}()). Its error: {error}"
            ) from error
        if "y contains NaN" in str(error):
            raise ValueError(
                f"{name} does not take missing labels (NaN in y): CRBMClassifier, MSSVMCRBM, "
                "LMBMClassifier and LayeredGMClassifier do, by themselves and inside of "
                f"DecodedClassifier. Its error: {error}"
            ) from error
        raise


def check_outer_fitted(model: Any, attributes: Any = None) -> None:
    """Raise a NotFittedError that names FrozenEstimator if only the inner estimator is fitted."""
    try:
        check_is_fitted(model, attributes)
    except NotFittedError as error:
        inner = getattr(model, "estimator", None)
        try:
            check_is_fitted(inner)
        except (AttributeError, NotFittedError, TypeError):
            raise error from None
        outer, name = type(model).__name__, type(inner).__name__
        raise NotFittedError(
            f"This {outer} is not fitted yet, although its {name} is: fit would fit a clone of it. "
            f"To keep the fitted {name}, use sklearn.frozen: "
            f"{outer}(FrozenEstimator(model)).fit(X, y)"
        ) from None


def call_given(model: Any, method: str, X: Any, y_known: Any, **options: Any) -> Any:
    """Call a method of a fitted model, given known labels unless `y_known` is None.

    The model itself or its final model has the method. A ValueError is raised if labels are known
    and the model cannot condition on them.
    """
    if y_known is None and hasattr(model, method):
        return getattr(model, method)(X, **options)
    function = inner_method(model, method)
    if y_known is None:
        return function(X, **options)
    if function is None or "y_known" not in inspect.signature(function).parameters:
        raise ValueError(
            f"y_known needs an estimator whose {method} takes y_known, such as CRBMClassifier, "
            "MSSVMCRBM or LMBMClassifier: itself, as the last step of a Pipeline, or in "
            f"GridSearchCV. {type(model).__name__} returns probabilities label by label and cannot "
            "condition them on known labels; if labels are independent given x, set the "
            "probabilities of the known labels to 0 or 1 and use skcrbm.decoding.decode_marginals"
        )
    return function(X, y_known=y_known, **options)


# Units in the last place of 1 by which probabilities may lie outside of [0, 1], as means over the
# trees of a forest do.
_ROUNDING = 8


def is_list_of_outputs(values: Any) -> bool:
    """Return True for a list of 2-D arrays, the form of scikit-learn's multi-output estimators."""
    return isinstance(values, (list, tuple)) and all(np.ndim(value) == 2 for value in values)


def positive_columns(
    outputs: Sequence, classes: Sequence | None = None, name: str = "proba"
) -> np.ndarray:
    """Return the second columns of L arrays (N, 2) as an array (N, L).

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
    """Return P(y_i = 1), (N, L) of float64, from both forms in which classifiers return it.

    `proba` is an array (N, L) or a list of L arrays (N, 2). `classes` are the classes of each
    label; with these a label may have an array (N, 1) if its classifier saw a single class.
    Error messages call `proba` by `name`.
    """
    if is_list_of_outputs(proba):
        proba = positive_columns(proba, classes, name)
    proba = as_float_array(proba, name, "(n_samples, n_labels)")
    slack = _ROUNDING * np.finfo(proba.dtype).eps
    if proba.size and not (proba.min() >= -slack and proba.max() <= 1 + slack):
        raise ValueError(f"{name} must hold probabilities in [0, 1]")
    return np.clip(proba.astype(np.float64), 0.0, 1.0)


def _both(part, classes):
    """Return the columns of both classes, although fit may have seen a single class."""
    if part.shape[1:] != (1,):
        return part
    return np.hstack([1 - part, part] if classes[0] == 1 else [part, 1 - part])


def proba_of_classes(proba: Any, classes: Any, all_classes: np.ndarray) -> np.ndarray:
    """Return probabilities (N, K) of all classes, 0 for classes that a classifier did not see."""
    proba = np.asarray(proba)
    if classes is None or len(classes) == len(all_classes):
        return proba
    full = np.zeros((len(proba), len(all_classes)))
    full[:, np.searchsorted(all_classes, classes)] = proba
    return full
