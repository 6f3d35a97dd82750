"""Score predicted labels of the items of sequences, graphs and images, and make scorers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    f1_score,
    jaccard_score,
    precision_score,
    recall_score,
)

from skcrbm.metrics._masked import RoutedScorer, close_names
from skcrbm.targets.codes import is_missing, label_list, warn_of_new_label
from skcrbm.targets.names import in_rows_of
from skcrbm.targets.sequences import Structure, item_weights
from skcrbm.targets.wrapped import call_given
from skcrbm.utils.validation import check_order, check_sample_weight, filled_with_nan

_ROW = Structure("row", "item")
_RATIOS = {
    "f1": f1_score,
    "jaccard": jaccard_score,
    "precision": precision_score,
    "recall": recall_score,
}
_AVERAGES = ("micro", "macro", "weighted")


def _ratio(y, p, weight, labels, function, average):
    return function(y, p, sample_weight=weight, labels=labels, average=average, zero_division=0)


def _without_labels(function: Callable) -> Callable:
    return lambda y, p, weight, labels: function(y, p, sample_weight=weight)


_SCORES: dict[str, Callable] = {
    "accuracy": _without_labels(accuracy_score),
    "balanced_accuracy": _without_labels(balanced_accuracy_score),
    **{
        f"{name}_{average}": partial(_ratio, function=function, average=average)
        for name, function in _RATIOS.items()
        for average in _AVERAGES
    },
}
# Scores that are not computed from the pooled labels of all items.
_NAMES = (*_SCORES, "row_accuracy", "neg_log_loss")
# Scores that are means over classes, which the option `labels` chooses.
_OF_CLASSES = tuple(name for name in _SCORES if name.partition("_")[0] in _RATIOS)


@dataclass(frozen=True, repr=False)
class _ItemScorer(RoutedScorer):
    """Callable ``scorer(estimator, X, y)`` that scores the labels of all items."""

    labels: tuple | None = None

    def __repr__(self):
        options = "" if self.labels is None else f", labels={list(self.labels)!r}"
        return f"item_scorer({self.name!r}{options})"

    def __call__(self, estimator, X, y, *, sample_weight=None, y_known=None) -> float:
        check_order(X=X, y=y, sample_weight=sample_weight)
        y_known = in_rows_of(y_known, X)
        loss = self.name == "neg_log_loss"
        answers = call_given(estimator, "predict_proba" if loss else "predict", X, y_known)
        items = _Items(y, answers, loss, sample_weight, y_known)
        if loss:
            return items.mean_log_proba(estimator.classes_)
        items.warn_of_new_labels(getattr(estimator, "classes_", None))
        if self.name == "row_accuracy":
            return items.share_of_right_rows()
        labels = None if self.labels is None else list(self.labels)
        return float(_SCORES[self.name](*items.observed(), labels))


class _Items:
    """Labels, answers and weights of the items of all rows, without a division into rows."""

    def __init__(self, y, answers, proba, sample_weight, y_known):
        answers = [np.asarray(answer) for answer in answers]
        shapes = [answer.shape[:-1] if proba else answer.shape for answer in answers]
        self.start = np.concatenate([[0], np.cumsum([int(np.prod(s)) for s in shapes])])
        self.labels = _flat(y, shapes, "y")
        self.seen = np.array([label is not None for label in self.labels], bool)
        if y_known is not None:
            known = _flat(y_known, shapes, "y_known")
            self.seen &= np.array([label is None for label in known], bool)
        widths = answers[0].shape[-1:] if proba and answers else ()
        self.answers = np.concatenate([a.reshape(-1, *widths) for a in answers])
        self.weight = self._weight(sample_weight) * self.seen
        if not self.weight.any():
            raise ValueError("y holds no observed label with a positive weight")

    def _weight(self, sample_weight):
        lengths = np.diff(self.start)
        if sample_weight is None:
            return np.ones(self.start[-1])
        if isinstance(sample_weight, Iterable) and not hasattr(sample_weight, "iloc"):
            sample_weight = [w if np.ndim(w) < 2 else np.ravel(w) for w in sample_weight]
        weight = item_weights(sample_weight, self.start, _ROW)
        if weight is not None:
            return weight
        return np.repeat(check_sample_weight(sample_weight, lengths[:, None]), lengths)

    def observed(self):
        """Return the labels, the answers and the weights of the items with a positive weight."""
        used = np.flatnonzero(self.weight)
        labels = [self.labels[i] for i in used.tolist()]
        return np.array(labels), self.answers[used], self.weight[used]

    def warn_of_new_labels(self, classes):
        """Warn if observed labels are not among the classes of the model."""
        if classes is None or isinstance(classes, list):
            return
        known = set(classes.tolist())
        new = [v for v, seen in zip(self.labels, self.seen) if seen and v not in known]
        if new:
            warn_of_new_label(new[0])

    def share_of_right_rows(self):
        """Return the share of rows whose observed labels are all right.

        A row counts with the largest weight of its items.
        """
        right, weight = [], []
        wrong = np.array([a != v for a, v in zip(self.answers.tolist(), self.labels)], bool)
        for a, b in zip(self.start[:-1], self.start[1:]):
            own = self.weight[a:b]
            weight.append(own.max(initial=0.0))
            right.append(not (wrong[a:b] & (own > 0)).any())
        return float(np.average(right, weights=weight))

    def mean_log_proba(self, classes):
        """Return the mean log-probability of the observed labels, at least log(machine epsilon)."""
        self.warn_of_new_labels(classes)
        labels, proba, weight = self.observed()
        place = {label: k for k, label in enumerate(classes.tolist())}
        columns = np.array([place.get(label, -1) for label in labels.tolist()])
        chosen = np.where(columns >= 0, proba[np.arange(len(columns)), columns], 0.0)
        floor = np.finfo(proba.dtype).eps
        return float(np.average(np.log(np.maximum(chosen, floor)), weights=weight))


def _flat(rows, shapes, name):
    """Return the labels of all items as a list, with None for missing labels."""
    rows = list(rows)
    if len(rows) != len(shapes):
        raise ValueError(f"{name} has {len(rows)} rows, but X has {len(shapes)}")
    found = []
    for i, (row, shape) in enumerate(zip(rows, shapes)):
        if row is None:
            found += [None] * int(np.prod(shape))
            continue
        if len(shape) == 2:
            row = np.asarray(filled_with_nan(row))
            given, part = row.shape, [None if is_missing(v) else v for v in row.ravel().tolist()]
        else:
            part = label_list(row, f"row {i} of {name}")
            given = (len(part),)
        if given != shape:
            raise ValueError(f"row {i} of {name} should have the shape {shape}, got {given}")
        found += part
    return found


def item_scorer(name: str, *, labels: Sequence[Any] | None = None) -> _ItemScorer:
    """Return a scorer of the labels of sequences, graphs or images, for ``scoring=``.

    The scorers of scikit-learn, such as ``scoring="accuracy"``, cannot score lists of sequences.
    This scorer puts the items of all rows (the positions of sequences, the nodes of graphs, the
    pixels of images) into a single vector, leaves out the missing labels, and scores the rest. It
    can be passed as `scoring` to :class:`~sklearn.model_selection.GridSearchCV`,
    :func:`~sklearn.model_selection.cross_val_score` and similar functions, for `ChainCRF`,
    `GraphCRF`, `GridCRF` and pipelines that end with them.

    Parameters
    ----------
    name : str
        Name of the score:

        - "accuracy": share of the items with the right label, as the method `score` returns;
        - "row_accuracy": share of the rows whose observed labels are all right;
        - "balanced_accuracy", and "f1", "jaccard", "precision" or "recall" followed by "_micro",
          "_macro" or "_weighted": the functions of scikit-learn. A ratio 0 / 0 counts as 0;
        - "neg_log_loss": mean log-probability of the right label, from `predict_proba`. A
          probability below the machine epsilon counts as the machine epsilon.
    labels : sequence of labels, default=None
        Classes over which the scores "f1", "jaccard", "precision" and "recall" are averaged, for
        example all classes except "O". None means all classes.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y, *, sample_weight=None, y_known=None)`` returns a float; higher is
        better. `sample_weight` holds weights of rows, or a list with the weights of the items of
        each row. `y_known` holds labels that are given to the estimator; they are not scored. A
        label that training did not have counts as wrong, with a warning. To pass weights and known
        labels by metadata routing, call ``set_score_request(sample_weight=True, y_known=True)`` on
        the scorer.

    Raises
    ------
    ValueError
        If `name` is unknown, or `labels` is given for a score without averages over classes.

    See Also
    --------
    masked_scorer : Scorer of multi-label predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from skcrbm import ChainCRF
    >>> from skcrbm.metrics import item_scorer
    >>> X = [np.array([[0.0], [1.0], [1.0]]), np.array([[1.0], [0.0]])] * 4
    >>> y = [["O", "B", "B"], ["B", "O"]] * 4
    >>> f1 = item_scorer("f1_micro", labels=["B"])
    >>> f1
    item_scorer('f1_micro', labels=['B'])
    >>> cross_val_score(ChainCRF(alpha=0.01), X, y, cv=2, scoring=f1).tolist()
    [1.0, 1.0]
    """
    if not isinstance(name, str) or name not in _NAMES:
        raise ValueError(
            f"name should be one of {', '.join(_NAMES)}; got {name!r}.{close_names(name, _NAMES)}"
        )
    if labels is not None and name not in _OF_CLASSES:
        raise ValueError(f"labels is for the scores {', '.join(_OF_CLASSES)}; got name={name!r}")
    if isinstance(labels, (str, bytes)):
        raise ValueError(
            f"labels should be a list of classes, such as [{labels!r}]; got {labels!r}"
        )
    return _ItemScorer(name, labels=None if labels is None else tuple(labels))
