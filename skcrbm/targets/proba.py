"""Answers of classifiers of any library in a common form: probabilities, scores and labels.

Classifiers return arrays, sparse matrices, data frames, or lists with an array for each output, and
list their classes in any order. The functions of this file check an answer and put its columns in
the order of the labels or classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skcrbm.targets.names import in_order_of, is_frame
from skcrbm.utils.validation import as_float_array

# Tolerance for probabilities outside of [0, 1], in units of machine epsilon. Means over the trees
# of a forest, for example, may exceed 1 by rounding.
_ROUNDING = 8


def is_list_of_outputs(values: Any) -> bool:
    """Return True if `values` is a list of 2-D arrays.

    The multi-output estimators of scikit-learn return probabilities as a list of one array per
    output.
    """
    return isinstance(values, (list, tuple)) and all(len(_shape(value)) == 2 for value in values)


def dense_answer(answer: Any, names: Any = None, name: str = "predict_proba(X)") -> Any:
    """Return an answer as an array; the columns of a data frame are put in the order of `names`.

    `names` are names of labels, or classes, see `in_order_of`. If it is None, the columns keep
    their order. A ValueError, which refers to the answer as `name`, is raised if the data frame has
    other names.
    """
    if issparse(answer):
        return answer.toarray()
    if np.ma.is_masked(answer):
        raise ValueError(f"{name} must not have masked entries")
    answer = answer if names is None else in_order_of(answer, names, name)
    try:
        return np.asarray(answer)
    except ValueError as error:
        raise ValueError(f"{name} must be a matrix, with rows of equal length: {error}") from error


def names_or_numbers(names: Any, n_labels: int | None) -> Any:
    """Return the names of the labels, or their numbers if they have no names.

    The result is None if the number of labels is unknown, too.
    """
    return np.arange(n_labels) if names is None and n_labels is not None else names


def positive_columns(
    outputs: Sequence, classes: Sequence | None = None, name: str = "proba"
) -> np.ndarray:
    """Return P(y_i = 1) as an array (N, L), from L arrays (N, 2) of the classes of each label.

    `classes` and `name` are described in `label_marginals`. Without `classes` the second column
    belongs to class 1, or the column with the name 1.
    """
    if classes is None:
        own = [[0, 1]] * len(outputs)
    else:
        own = _classes_of_outputs(classes, len(outputs), name)
    columns = [dense_answer(part, labels, name) for part, labels in zip(outputs, own)]
    shapes = [part.shape for part in columns]
    if classes is None:
        found = [part[:, 1] for part in columns] if {s[1] for s in shapes} == {2} else []
    else:
        found = [_of_class_1(part, label, name) for part, label in zip(columns, own)]
    if not found or len({len(column) for column in found}) != 1:
        raise ValueError(
            f"{name}, as a list, must hold one array of shape (n_samples, 2) for each label, "
            f"got shapes {shapes}"
        )
    return np.column_stack(found)


def label_marginals(
    proba: Any,
    classes: Sequence | None = None,
    name: str = "proba",
    n_labels: int | None = None,
    names: Any = None,
) -> np.ndarray:
    """Return the probabilities P(y_i = 1 | x) as a float64 array (N, L).

    `proba` is an array, sparse matrix or data frame (N, L), or a list of L arrays (N, 2), the forms
    that `predict_proba` of multi-label classifiers returns. `classes` are the `classes_` of the
    classifier: for a list the classes of each label, in the order of its columns. If a label has a
    single class, its array may be (N, 1), from a classifier that saw a single class in its fit.
    `name` is the name of the argument in error messages. A ValueError is raised if the number of
    labels is not `n_labels`, or if `n_labels` is None the number of labels in `classes`. `names`
    are the names of the labels, by which the columns of a data frame are matched; if it is None,
    they are matched by their numbers.
    """
    if is_list_of_outputs(proba):
        proba = positive_columns(proba, classes, name)
    else:
        proba = dense_answer(proba, names_or_numbers(names, n_labels), name)
        order = _order_of_labels(classes, proba, names, name)
        proba = proba if order is None else proba[:, order]
    proba = as_float_array(proba, name, "(n_samples, n_labels)")
    if n_labels is None:
        _require_labels(proba, _number_of_labels(classes), name, "in classes_")
    _require_labels(proba, n_labels, name)
    slack = _ROUNDING * np.finfo(proba.dtype).eps
    if proba.size and not (proba.min() >= -slack and proba.max() <= 1 + slack):
        raise ValueError(f"{name} must hold probabilities in [0, 1]")
    return np.clip(proba.astype(np.float64), 0.0, 1.0)


def label_answers(labels: Any, n_labels: int, names: Any = None, name: str = "predict(X)") -> Any:
    """Return the labels (N, L) that a multi-label classifier predicts as an array of 0 and 1.

    `labels` are an array, sparse matrix or data frame (N, L).
    """
    labels = dense_answer(labels, names_or_numbers(names, n_labels), name)
    _require_labels(labels, n_labels, name)
    if not np.isin(labels, (0, 1)).all():
        raise ValueError(f"{name} must hold labels 0 and 1")
    return labels


def class_answers(labels: Any, name: str = "predict(X)") -> np.ndarray:
    """Return the classes (N,) that a classifier predicts for a 1-D y."""
    labels = dense_answer(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"{name} should have the shape (n_samples,), got {labels.shape}")
    return labels


def label_scores(scores: Any, n_labels: int, names: Any = None, name: str = "scores") -> np.ndarray:
    """Return the scores (N, L) of the labels as a finite float64 array."""
    scores = dense_answer(scores, names_or_numbers(names, n_labels), name)
    scores = as_float_array(scores, name, "(n_samples, n_labels)")
    _require_labels(scores, n_labels, name)
    return scores.astype(np.float64)


def _require_labels(values, n_labels, name, place="of y"):
    """Raise a ValueError unless an answer has a column for each label."""
    if n_labels is not None and values.shape[1:] != (n_labels,):
        raise ValueError(
            f"{name} should have the shape (n_samples, {n_labels}), with a column for each label "
            f"{place}, got {values.shape}"
        )


def _number_of_labels(classes):
    """Return the number of labels in `classes_`, or None if it may list the values of a label."""
    own = [] if classes is None else list(classes)
    values = all(np.ndim(label) == 0 for label in own) and set(own) <= {0, 1}
    return None if values else len(own)


def require_rows(values: Any, n_rows: int, name: str = "predict_proba(X)") -> None:
    """Raise a ValueError unless an answer has a row for each row of X."""
    if len(values) != n_rows:
        raise ValueError(f"{name} has {len(values)} rows, but X has {n_rows}")


def _shape(value):
    return value.shape if issparse(value) or is_frame(value) else np.shape(value)


def _classes_of_outputs(classes, n_outputs, name):
    """Return the classes of each of the outputs, from a list for each output or for all of them."""
    own = list(classes)
    if own and all(np.ndim(label) == 0 for label in own):  # the same classes for every output
        return [own] * n_outputs
    if len(own) != n_outputs:
        raise ValueError(
            f"{name} holds an array for each of {n_outputs} labels, but classes_ lists the classes "
            f"of {len(own)} labels"
        )
    return [list(np.ravel(part)) for part in own]


def _of_class_1(part, classes, name):
    """Return the column of class 1 in the probabilities (N, K) of the classes of one label."""
    if part.shape[1] != len(classes) or not set(classes) <= {0, 1}:
        if part.shape[1] == 2 and not {0, 1} & set(classes):
            return part[:, 1]  # the classes are other words for off and on, such as strings
        raise ValueError(
            f"{name} has an array of shape {part.shape} for a label with the classes "
            f"{list(map(str, classes))}; it needs a column for each class, 0 or 1"
        )
    if 1 in classes:
        return part[:, classes.index(1)]
    return 1 - part[:, 0]  # the classifier saw only 0 in its fit


def _order_of_labels(classes, proba, names, name):
    """Return the column of each label if `classes` lists the labels in another order, else None."""
    own = [] if classes is None else list(classes)
    if proba.ndim != 2 or not all(np.ndim(label) == 0 for label in own):
        return None
    labels = list(range(len(own)))
    if names is not None and set(own) == set(names):
        labels = list(names)
    if len(own) != proba.shape[1] or own == labels or set(own) != set(labels):
        return None
    if labels == [0, 1]:  # labels, or the values off and on?
        raise ValueError(
            f"{name} is a matrix with two columns, and classes_ is {own}: the labels of the "
            "columns, or the values of each label? Return a list with an array for each label"
        )
    return [own.index(label) for label in labels]


def proba_of_classes(
    proba: Any,
    classes: Any,
    all_classes: np.ndarray,
    name: str = "predict_proba(X)",
    fill: float = 0.0,
) -> np.ndarray:
    """Return the probabilities (N, K) of all classes, in the order of `all_classes`.

    `classes` holds the classes that the classifier saw in its fit, in the order of its columns. The
    other classes get the probability `fill`. The columns of a data frame may have the names of the
    classes.
    """
    known = all_classes.tolist()
    own = known if classes is None else np.asarray(classes).tolist()
    proba = dense_answer(proba, own, name)
    if len(known) == 1 and proba.ndim == 2:  # OneVsRestClassifier returns two columns
        return np.full((len(proba), 1), 1.0 if fill == 0 else 0.0)
    unknown = [label for label in own if label not in known]
    if proba.ndim != 2 or proba.shape[1] != len(own) or unknown:
        raise ValueError(
            f"{name} should have a column for each class of y, {known[:10]}, got the shape "
            f"{proba.shape} for the classes {own[:10]} of the estimator"
        )
    if fill == 0.0:
        proba = as_float_array(proba, name, "(n_samples, n_classes)")
    if own == known:
        return proba
    full = np.full((len(proba), len(known)), fill)
    full[:, [known.index(label) for label in own]] = proba
    return full
