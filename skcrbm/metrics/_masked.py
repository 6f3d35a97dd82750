"""Score predictions over the observed labels, and make scorers that do so for an estimator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils.metadata_routing import UNCHANGED, MetadataRequest

from skcrbm.metrics.scores import SCORES
from skcrbm.targets.indicator import (
    indicator_by_name,
    without_known,
)
from skcrbm.targets.names import in_order_of, in_rows_of, is_frame, label_names_of
from skcrbm.targets.proba import is_list_of_outputs, positive_columns
from skcrbm.targets.scored import check_scored, dense_2d
from skcrbm.targets.wrapped import call_given, final_model
from skcrbm.utils.validation import check_order


def _check_name(name):
    """Raise a ValueError with close matches unless `name` is the name of a score."""
    if isinstance(name, str) and name in SCORES:
        return
    meant = close_names(name, SCORES)
    raise ValueError(f"name should be one of {', '.join(SCORES)}; got {name!r}.{meant}")


def close_names(name, names):
    """Return a sentence that proposes the names that are similar to `name`, or ""."""
    close = get_close_matches(str(name), names, n=3)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


def masked_score(
    name: str,
    y_true: ArrayLike | sp.spmatrix,
    *,
    y_pred: ArrayLike | sp.spmatrix | None = None,
    y_score: ArrayLike | list | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Score predictions over the observed entries of a multi-label target.

    If the target has no NaN, every score equals scikit-learn's function of the same name, except
    that the means "roc_auc" and "average_precision" skip labels with a single class. If an entry
    of `y_true` is NaN, the entry and its prediction are ignored:

    - ``accuracy``, the ``samples`` averages, and scores that rank the labels of a row are means
      over the rows with at least one observed entry. For ``accuracy``, a row is correct if all its
      observed entries are predicted correctly.
    - The ``macro`` and ``weighted`` averages are means over the labels with at least one observed
      entry. Each label is scored on the rows in which it is observed.
    - All other scores are computed from the pooled observed entries.

    Parameters
    ----------
    name : str
        Name of the score:

        - Scores of predicted labels in `y_pred`: "accuracy", "neg_hamming_loss", and "f1",
          "jaccard", "precision" or "recall" followed by "_samples", "_micro", "_macro" or
          "_weighted", such as "f1_macro". A ratio 0 / 0 counts as 0.
        - Scores of probabilities in `y_score`: "neg_log_loss", "neg_brier_score" and
          "neg_calibration_error" (see :func:`expected_calibration_error`), over all entries.
        - Scores of a ranking by `y_score`: "roc_auc", "roc_auc_micro", "average_precision",
          "average_precision_micro", "label_ranking_average_precision",
          "neg_label_ranking_loss", "neg_coverage_error". "roc_auc" and "average_precision" are
          means over the labels that have both classes among their observed entries.
          "average_precision_micro" is 0 if all observed entries are 0, and 1 if all are 1.
    y_true : {array-like, sparse matrix} of shape (n_samples, n_labels)
        Targets of 0 and 1, with NaN for entries that are not observed. The zeros of a sparse
        matrix count as observed. If `y_true` and the predictions are data frames, their columns
        are matched by name.
    y_pred : {array-like, sparse matrix} of shape (n_samples, n_labels), default=None
        Predicted labels, 0 or 1. Ignored by scores that need `y_score`.
    y_score : array-like of shape (n_samples, n_labels) or list of arrays, default=None
        Predicted P(y = 1), or any finite scores if the score is a ranking score. A list of
        n_labels arrays of shape (n_samples, 2), as returned by scikit-learn's multi-output
        estimators, is accepted, too. Ignored by scores that need `y_pred`.
    sample_weight : array-like (n_samples,) or (n_samples, n_labels), default=None
        Weights of the rows, or of single labels. A row or label of weight 0 is ignored. If single
        labels have weights, each row is replaced by weighted copies, with a copy for each distinct
        weight t in the row. In the copy for t, the labels of weight at least t are observed. The
        weight of the copy is t minus the next smaller weight in the row, or t if there is no
        smaller weight. For example, a row with the weights 1 and 3 becomes a copy of weight 1 with
        both labels, and a copy of weight 2 with the second label.

    Returns
    -------
    score : float
        Value of the score; higher is better.

    Raises
    ------
    ValueError
        If `name` is unknown, if a needed `y_pred` or `y_score` is missing, if an array has a wrong
        shape or a wrong value at an observed entry, if no entry is observed, or, for "roc_auc" and
        "average_precision", if no label has both classes, or, for "roc_auc_micro", if all observed
        entries are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.metrics import masked_score
    >>> y_true = np.array([[1, 0, np.nan], [0, np.nan, 1]])
    >>> y_pred = np.array([[1, 1, 1], [0, 1, 1]])
    >>> masked_score("accuracy", y_true, y_pred=y_pred)
    0.5
    >>> masked_score("neg_hamming_loss", y_true, y_pred=y_pred)
    -0.25
    """
    _check_name(name)
    kind, function = SCORES[name].needs, SCORES[name].function
    argument, values = ("y_pred", y_pred) if kind == "labels" else ("y_score", y_score)
    if values is None:
        raise ValueError(f"{argument} should be given, because {name!r} is computed from it")
    y, p, observed, weight = check_scored(kind, y_true, values, argument, sample_weight)
    rows, labels = observed.any(axis=1), observed.any(axis=0)
    kept = np.ix_(rows, labels)
    return float(function(y[kept], p[kept], observed[kept], weight[rows]))


@dataclass(frozen=True, repr=False)
class RoutedScorer:
    """Base class of scorers with requests for the metadata `sample_weight` and `y_known`."""

    name: str
    weight_request: bool | str | None = None
    known_request: bool | str | None = None

    def set_score_request(
        self,
        *,
        sample_weight: bool | str | None = UNCHANGED,
        y_known: bool | str | None = UNCHANGED,
    ) -> Self:
        """Return a copy of this scorer with new requests for scikit-learn's metadata routing.

        A request is True, False, None or an alias, as for the scorers of scikit-learn. Requests
        that are not passed do not change.
        """
        given = {"weight_request": sample_weight, "known_request": y_known}
        return replace(self, **{name: v for name, v in given.items() if v != UNCHANGED})

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the routing requests of this scorer."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="sample_weight", alias=self.weight_request)
        request.score.add_request(param="y_known", alias=self.known_request)
        return request


@dataclass(frozen=True, repr=False)
class _MaskedScorer(RoutedScorer):
    """Callable ``scorer(estimator, X, y)`` that computes a masked score of an estimator."""

    def __repr__(self):
        return f"masked_scorer({self.name!r})"

    def __call__(self, estimator, X, y, *, sample_weight=None, y_known=None) -> float:
        kind = SCORES[self.name].needs
        check_order(X=X, y=y, sample_weight=sample_weight)
        y_known = in_rows_of(y_known, X)
        # Models of this package store the names of all labels in `_targets`. Their attribute
        # `label_names_` contains only names that are strings.
        names = getattr(getattr(final_model(estimator)[0], "_targets", None), "names", None)
        wanted = names if names is not None else label_names_of(y)
        sample_weight = in_order_of(sample_weight, wanted, "sample_weight")
        if names is not None and is_frame(y):
            y = indicator_by_name(y, names, len(names))
        y = _rows_of(y)
        if y_known is not None:
            y = dense_2d(y, "y")
            known = indicator_by_name(_rows_of(y_known), names, y.shape[1], "y_known")
            y = without_known(y, known)
        if kind == "labels":
            y_pred = _rows_of(call_given(estimator, "predict", X, y_known))
            return masked_score(self.name, y, y_pred=y_pred, sample_weight=sample_weight)
        if kind in ("ranking", "classes") and hasattr(estimator, "decision_function"):
            y_score = call_given(estimator, "decision_function", X, y_known)
        elif hasattr(estimator, "predict_proba"):
            y_score = call_given(estimator, "predict_proba", X, y_known)
            if is_list_of_outputs(y_score):
                classes = getattr(estimator, "classes_", None)
                y_score = positive_columns(y_score, classes, "predict_proba(X)")
        else:
            raise AttributeError(
                f"estimator should have the method predict_proba for {self.name!r}; "
                f"{type(estimator).__name__} does not have it"
            )
        y_score = _rows_of(y_score)
        return masked_score(self.name, y, y_score=y_score, sample_weight=sample_weight)


def _rows_of(values):
    """Return images (N, height, width) as rows of pixels, and any other values unchanged."""
    images = isinstance(values, np.ndarray) and values.ndim == 3
    return values.reshape(len(values), -1) if images else values


def masked_scorer(name: str) -> _MaskedScorer:
    """Return a scorer that evaluates an estimator on the observed entries of a multi-label target.

    The scorers of scikit-learn raise an error if the target contains NaN. This scorer treats NaN as
    "not observed". It can be passed as `scoring` to :class:`~sklearn.model_selection.GridSearchCV`,
    :func:`~sklearn.model_selection.cross_val_score` and similar functions of scikit-learn, together
    with a `cv` that supports NaN, such as ``KFold(5)``; with an integer `cv` they end in "Input y
    contains NaN." The functions of the same names in `skcrbm.model_selection` take an integer `cv`,
    and make this scorer from its name.

    Parameters
    ----------
    name : str
        Name of the score. See :func:`masked_score` for the list.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y, *, sample_weight=None, y_known=None)`` returns a float; higher is
        better. The scorer calls `predict` for scores of labels, `predict_proba` for scores of
        probabilities, and `decision_function` for ranking scores (or `predict_proba` if the
        estimator has no `decision_function`). `y_known` holds labels that are given to the
        estimator, with NaN for all other labels; known labels are not scored. To pass weights and
        known labels by metadata routing, call
        ``set_score_request(sample_weight=True, y_known=True)`` on the scorer.

    Raises
    ------
    ValueError
        If `name` is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from skcrbm.metrics import masked_scorer
    >>> X, y = np.zeros((3, 1)), np.array([[1, 0], [1, 0], [1, 1]])
    >>> dummy = DummyClassifier(strategy="most_frequent").fit(X, y)
    >>> scorer = masked_scorer("neg_hamming_loss")
    >>> scorer
    masked_scorer('neg_hamming_loss')
    >>> scorer(dummy, X, np.array([[1, 0], [np.nan, 0], [0, np.nan]]))
    -0.25
    """
    _check_name(name)
    return _MaskedScorer(name)
