"""Scores over the observed entries only, of arrays and, for model selection, of estimators."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils.metadata_routing import UNCHANGED, MetadataRequest
from sklearn.utils.validation import check_array

from skcrbm.metrics.scores import SCORES
from skcrbm.utils.classifiers import (
    call_given,
    final_model,
    is_list_of_outputs,
    positive_columns,
)
from skcrbm.utils.labels import (
    in_order_of,
    indicator_by_name,
    is_frame,
    require_observed,
    require_zero_or_one,
    without_known,
)
from skcrbm.utils.validation import filled_with_nan


def _check_name(name):
    """Raise a ValueError with close matches unless `name` is the name of a score."""
    if isinstance(name, str) and name in SCORES:
        return
    close = get_close_matches(str(name), SCORES, n=3)
    meant = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise ValueError(f"name should be one of {', '.join(SCORES)}; got {name!r}.{meant}")


def _dense_2d(values, name):
    array = check_array(
        filled_with_nan(values),
        accept_sparse=True,
        dtype=(np.float64, np.float32),  # pyright: ignore[reportArgumentType]  # also a sequence
        ensure_2d=False,
        allow_nd=True,
        ensure_all_finite=False,
        input_name=name,
    )
    if array.ndim != 2:
        raise ValueError(f"{name} should have the shape (n_samples, n_labels), got {array.shape}")
    return array.toarray() if sp.issparse(array) else array


def _check_predictions(values, name, kind, observed):
    """Return the predictions as an array that is valid wherever `observed` is True."""
    if kind != "labels" and is_list_of_outputs(values):
        values = positive_columns(values, name=name)
    array = _dense_2d(values, name)
    if array.shape != observed.shape:
        raise ValueError(
            f"{name} should have the shape of y_true, {observed.shape}, got {array.shape}"
        )
    seen = array[observed]
    if kind == "labels":
        valid, wanted = np.isin(seen, (0, 1)).all(), "0 or 1"
    elif kind == "probabilities":
        valid, wanted = ((seen >= 0) & (seen <= 1)).all(), "in [0, 1]"
    else:
        valid, wanted = np.isfinite(seen).all(), "finite"
    if not valid:
        raise ValueError(f"{name} should be {wanted} wherever y_true is observed")
    return np.where(observed, array, array.dtype.type(0))


def _check_weight(sample_weight, n_samples):
    if sample_weight is None:
        return np.ones(n_samples)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_samples,) or not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError(
            f"sample_weight should hold {n_samples} finite numbers of at least 0, for the rows of "
            "y_true"
        )
    return weight


def check_scored(kind: str, y_true, values, argument: str, sample_weight) -> tuple:
    """Validate targets, predictions and weights, as users pass them.

    `kind` is the `needs` of a `Score`, `argument` the name of `values` in error messages.

    Returns
    -------
    y, p : ndarray (n, L), 0 where not observed
    observed : ndarray (n, L) of bool; False in rows of weight 0
    weight : ndarray (n,)
    """
    values = in_order_of(values, y_true, argument)
    y = _dense_2d(y_true, "y_true")
    observed = ~np.isnan(y)
    require_zero_or_one(y[observed], "y_true")
    p = _check_predictions(values, argument, kind, observed)
    weight = _check_weight(sample_weight, len(y))
    observed &= (weight > 0)[:, None]
    require_observed(observed, "y_true")
    return np.where(observed, y, 0.0), p, observed, weight


def masked_score(
    name: str,
    y_true: ArrayLike | sp.spmatrix,
    *,
    y_pred: ArrayLike | sp.spmatrix | None = None,
    y_score: ArrayLike | list | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Score predictions over the observed entries of a multi-label target.

    On a target without NaN, every score equals scikit-learn's function of this name, except that
    labels with a single class are left out of the means "roc_auc" and "average_precision".
    An entry that is NaN in `y_true` is ignored, and so is its prediction:

    - ``accuracy`` (a row is right if all its observed entries are), the ``samples`` averages
      and the rankings of the labels of a row are over the rows with at least one observed
      entry;
    - the ``macro`` and ``weighted`` averages are over the labels with at least one observed
      entry, each scored on the rows in which it is observed;
    - the other scores are over the observed entries.

    Parameters
    ----------
    name : str
        One of "accuracy", "neg_hamming_loss"; "f1", "jaccard", "precision" or "recall" with
        "_samples", "_micro", "_macro" or "_weighted" (all from `y_pred`; a ratio 0 / 0 is
        0); "neg_log_loss", "neg_brier_score", "neg_calibration_error" (over all entries, from
        probabilities in `y_score`; the last of :func:`expected_calibration_error`);
        "roc_auc", "roc_auc_micro", "average_precision", "average_precision_micro",
        "label_ranking_average_precision", "neg_label_ranking_loss", "neg_coverage_error"
        (from any `y_score` that ranks). "roc_auc" and "average_precision" are means over
        the labels that have both classes among their observed entries.
    y_true : {array-like, sparse matrix} of shape (n_samples, n_labels)
        Targets 0 or 1, NaN where not observed. The zeros of a sparse matrix are observed.
        If this and the predictions are data frames, columns are matched by name.
    y_pred : {array-like, sparse matrix} of shape (n_samples, n_labels), default=None
        Predicted labels, 0 or 1. Ignored by the scores that need `y_score`.
    y_score : array-like of shape (n_samples, n_labels) or list of arrays, default=None
        Predicted P(y = 1), or for a ranking score any finite score; or a list of
        n_labels arrays of shape (n_samples, 2) as from scikit-learn's multi-output
        estimators. Ignored by the scores that need `y_pred`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows. A row of weight 0 is ignored.

    Returns
    -------
    score : float
        Higher is better.

    Raises
    ------
    ValueError
        If `name` is unknown, the array it needs is missing, an array has a wrong shape or
        a wrong value at an observed entry, no entry is observed, or a ranking score finds no
        label with both classes.

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
        raise ValueError(f"{argument} should be given: {name!r} is computed from it")
    y, p, observed, weight = check_scored(kind, y_true, values, argument, sample_weight)
    rows, labels = observed.any(axis=1), observed.any(axis=0)
    kept = np.ix_(rows, labels)
    return float(function(y[kept], p[kept], observed[kept], weight[rows]))


@dataclass(frozen=True, repr=False)
class _MaskedScorer:
    """Callable ``scorer(estimator, X, y)`` that computes a masked score."""

    name: str
    weight_request: bool | str | None = None
    known_request: bool | str | None = None

    def __repr__(self):
        return f"masked_scorer({self.name!r})"

    def set_score_request(
        self,
        *,
        sample_weight: bool | str | None = UNCHANGED,
        y_known: bool | str | None = UNCHANGED,
    ) -> _MaskedScorer:
        """Return this scorer with routing requests, each of them True, False, None or an alias.

        For scikit-learn's metadata routing, as with its own scorers. A request that is not given
        does not change.
        """
        given = {"weight_request": sample_weight, "known_request": y_known}
        return replace(self, **{name: v for name, v in given.items() if v != UNCHANGED})

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the routing requests of this scorer."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="sample_weight", alias=self.weight_request)
        request.score.add_request(param="y_known", alias=self.known_request)
        return request

    def __call__(self, estimator, X, y, *, sample_weight=None, y_known=None) -> float:
        kind = SCORES[self.name].needs
        # Names in our own models; `label_names_` holds only names that are strings.
        names = getattr(getattr(final_model(estimator)[0], "_targets", None), "names", None)
        if names is not None and is_frame(y):
            y = indicator_by_name(y, names, len(names))
        y = _rows_of(y)
        if y_known is not None:
            y = _dense_2d(y, "y")
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
                f"estimator should have predict_proba for {self.name!r}; "
                f"{type(estimator).__name__} has not"
            )
        y_score = _rows_of(y_score)
        return masked_score(self.name, y, y_score=y_score, sample_weight=sample_weight)


def _rows_of(values):
    """Return images (N, height, width) as rows of pixels, anything else as it is."""
    images = isinstance(values, np.ndarray) and values.ndim == 3
    return values.reshape(len(values), -1) if images else values


def masked_scorer(name: str) -> _MaskedScorer:
    """Return a scorer that scores the observed entries of a multi-label target.

    scikit-learn's own scorers refuse a target with NaN. This scorer takes NaN for "not
    observed" and can be the `scoring` of :class:`~sklearn.model_selection.GridSearchCV`,
    :func:`~sklearn.model_selection.cross_val_score` and the like. Give these a `cv` that
    takes NaN, such as ``KFold(5)`` or
    :class:`~skcrbm.model_selection.MultilabelStratifiedKFold`; an integer does not. For
    predictions out of fold there is :func:`skcrbm.model_selection.cross_val_predict`.

    Parameters
    ----------
    name : str
        Name of the score; :func:`masked_score` lists them.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y, *, sample_weight=None, y_known=None)`` returns a float, higher is
        better. It calls `predict`; for scores of probabilities `predict_proba`; for ranking
        scores `decision_function`, or `predict_proba` if the estimator has no decision function.
        `y_known` holds labels that the estimator knows beforehand, NaN elsewhere; they do not
        count. With metadata routing, ``set_score_request(sample_weight=True, y_known=True)`` gives
        it weights and known labels.

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
