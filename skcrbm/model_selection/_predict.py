"""Cross-validated predictions; y may hold NaN, columns of classes, sequences, graphs or images."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn import model_selection

from skcrbm.model_selection._kinds import split_target
from skcrbm.model_selection.folds import out_of_fold
from skcrbm.targets.groups import check_groups
from skcrbm.targets.names import label_names_of
from skcrbm.targets.proba import (
    dense_answer,
    is_list_of_outputs,
    label_marginals,
    names_or_numbers,
    require_rows,
)
from skcrbm.utils.options import Integer
from skcrbm.utils.sklearn_private import HasMethods, StrOptions, validate_params
from skcrbm.utils.validation import check_order, count_rows


@validate_params(
    {
        "estimator": [HasMethods(["fit"])],
        "groups": ["array-like", None],
        "cv": ["cv_object"],
        "method": [
            StrOptions({"predict", "predict_proba", "predict_log_proba", "decision_function"})
        ],
        "n_jobs": [Integer(), None],
        "params": [dict, None],
    },
    prefer_skip_nested_validation=False,
)
def cross_val_predict(
    estimator, X, y, *, groups=None, cv=None, method="predict", n_jobs=None, params=None
):
    """Predict each row by a model that was fitted without this row; y may hold NaN.

    scikit-learn's function of the same name turns NaN in y into an additional class "2", raises an
    error for NaN if `cv` is a number, and cannot return probabilities for lists of sequences,
    graphs or images.

    Parameters
    ----------
    estimator : classifier
        Classifier, which is cloned for each fold.
    X : {array-like, sparse matrix} of shape (n_samples, n_features), or list
        Rows to predict; for `ChainCRF`, `GraphCRF` and `GridCRF` a list of sequences, graphs or
        images.
    y : array-like of shape (n_samples, n_outputs) or (n_samples,), or list
        Labels. NaN in a 2-D y means not observed, if the estimator accepts it. If y is a data
        frame, the estimator gets its column names, too. A 1-D y goes to scikit-learn's function.
        `ImageCRBM` takes images (n_samples, height, width). The columns of y may hold classes, with
        NaN or None for missing entries, if the estimator accepts them, as `LabelGraphCRF` and
        scikit-learn's random forests do. For sequences, graphs and images of any sizes y is a list.
    groups : array-like of shape (n_samples,), default=None
        Group of each row. The rows of a group are in the same fold if `cv` is None, an int, or a
        splitter such as `GroupKFold`.
    cv : int, splitter or iterable, default=None
        Folds that test each row once. If `cv` is an int, :class:`MultilabelStratifiedKFold`, or
        :class:`MultilabelStratifiedGroupKFold` with `groups`, makes this number of folds; None
        makes 5 folds. For lists of sequences, graphs or images,
        scikit-learn's `KFold` makes them, so each fold consists of consecutive items.
    method : {"predict", "predict_proba", "predict_log_proba", "decision_function"}, \
default="predict"
        Method of the estimator that computes the predictions.
    n_jobs : int, default=None
        Number of folds fitted at the same time.
    params : dict, default=None
        Parameters of `fit`, such as `sample_weight`. If a value has an entry for each row of X,
        `fit` gets the entries of the training rows.

    Returns
    -------
    predictions : ndarray of shape (n_samples, n_outputs), or as in scikit-learn for a 1-D y
        Predictions. "predict_proba" returns P(y_i = 1 | x), and "predict_log_proba" returns its
        logarithm, also for estimators whose own result is a list of arrays. If the columns of y
        hold classes, both return a list with an array (n_samples, n_classes) for each output, in
        the order of the sorted classes of its column. For sequences, graphs and images the result
        has the format of the estimator's own predictions. If a class does not occur in the training
        rows of a fold, its probability is 0 in this fold.

    Raises
    ------
    ValueError
        If y is invalid, or a row is not in exactly one test fold.

    See Also
    --------
    cross_validate, GridSearchCV : Scores and searches that also accept NaN in y.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.model_selection import cross_val_predict
    >>> X, Y = make_multilabel_classification(n_samples=150, random_state=0)
    >>> Y = np.where(np.random.RandomState(0).random_sample(Y.shape) < 0.2, np.nan, Y)
    >>> model = CRBMClassifier(alpha=0.1, random_state=0)
    >>> cross_val_predict(model, X, Y, cv=3, method="predict_proba").shape
    (150, 5)
    """
    check_order(X=X, y=y, **(params or {}))
    groups = None if groups is None else check_groups(groups, X)
    target = split_target(estimator, y)
    if target.kind == "classes of rows":
        cv = cv if groups is None else target.splitter(cv, groups)
        return model_selection.cross_val_predict(
            estimator,
            X,
            target.y,
            groups=groups,
            cv=cv,
            method=method,
            n_jobs=n_jobs,
            params=params,
        )
    options: dict[str, Any] = {"groups": groups, "n_jobs": n_jobs, "fit_params": params}
    options["stratify"] = target.stratify
    if target.kind == "structures":
        respond = partial(_respond_by_structure, method=method)
        cv = target.splitter(cv, groups)
        found = out_of_fold(estimator, X, target.y, cv=cv, respond=respond, **options)
        return _structures(found, method)
    if target.kind == "columns of classes":
        respond = partial(_respond_by_column, method=method, classes=target.classes)
    else:
        shape = target.stratify.shape[1:]
        names = names_or_numbers(label_names_of(target.y), shape[0])
        respond = partial(_respond, method=method, shape=shape, names=names)
    return out_of_fold(estimator, X, target.y, cv=cv, respond=respond, **options)


# ------------------------------------------------------------------- 0/1 labels and images


def _respond(model, X, method, shape, names):
    """Return the predictions (n, *shape) of a method; "predict_proba" returns P(y_i = 1 | x).

    `shape` is (L,) for L labels, which may have `names`, or the shape of images.
    """
    name = f"{method}(X)"
    found = _checked(getattr(model, method)(X), model, method, name, shape, names)
    require_rows(found, count_rows(X), name)
    return found


def _checked(answer, model, method, name, shape, names):
    """Return an answer as an array (n, *shape); see `_respond`."""
    classes = getattr(model, "classes_", None)
    if method == "predict_proba" and len(shape) == 1:
        return label_marginals(answer, classes, name, *shape, names)
    if method == "predict_log_proba" and is_list_of_outputs(answer):
        proba = [np.exp(dense_answer(part)) for part in answer]
        with np.errstate(divide="ignore"):
            return np.log(label_marginals(proba, classes, name, *shape))
    answer = dense_answer(answer, names, name)
    if answer.shape[1:] != shape:
        raise ValueError(f"{name} should have the shape (n_samples, *{shape}), got {answer.shape}")
    return answer


# ---------------------------------------------------------------------- columns of classes


def _respond_by_column(model, X, method, classes):
    """Return predictions (n, L), or a list of the probabilities (n, K) of each column."""
    answer = getattr(model, method)(X)
    if method == "predict":
        return np.asarray(answer)
    if not is_list_of_outputs(answer):
        raise ValueError(
            f"method={method!r} needs an estimator that returns a list with an array for each "
            "output if the columns of y hold classes"
        )
    fill = 0.0 if method == "predict_proba" else -np.inf
    return [
        _in_classes(np.asarray(part), np.asarray(own).tolist(), every, fill)
        for part, own, every in zip(answer, model.classes_, classes)
    ]


def _in_classes(values, own, every, fill):
    """Extend values for the K classes in `own` to all classes in `every`.

    The last axis of `values` (..., K) has the order of `own`, and the last axis of the result has
    the order of `every`. The value of a class that is missing from `own` is `fill`.
    """
    if own == every:
        return values
    place = {label: i for i, label in enumerate(every)}
    found = np.full((*values.shape[:-1], len(every)), fill)
    found[..., [place[label] for label in own]] = values
    return found


# -------------------------------------------------------------- sequences, graphs and images


class _Structure(NamedTuple):
    """Prediction for a sequence, a graph or an image."""

    values: np.ndarray
    classes: list  # classes of the model that made the prediction
    stacked: bool  # True if the model predicts an array of all images


def _respond_by_structure(model, X, method):
    """Return an object array of the predictions, each a `_Structure`."""
    answer = getattr(model, method)(X)
    stacked = isinstance(answer, np.ndarray) and answer.dtype != object
    classes = np.asarray(model.classes_).tolist()
    found = np.empty(len(answer), object)
    for i, values in enumerate(answer):
        found[i] = _Structure(values, classes, stacked)
    return found


def _structures(found, method):
    """Return the predictions for all rows in the format of the model's own predictions."""
    values = [part.values for part in found]
    if method != "predict" and any(part.classes != found[0].classes for part in found):
        every = sorted({label for part in found for label in part.classes})
        fill = 0.0 if method == "predict_proba" else -np.inf
        values = [_in_classes(part.values, part.classes, every, fill) for part in found]
    if found[0].stacked:
        return np.stack(values)
    result = np.empty(len(values), object)
    for i, part in enumerate(values):
        result[i] = part
    return result
