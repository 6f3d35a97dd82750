"""The base of all classifiers: tags, validation of X, y and weights, predictions by kind of y."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skcrbm.targets.kinds import make_targets
from skcrbm.targets.mixin import TargetsMixin
from skcrbm.utils.fitting import forget
from skcrbm.utils.labels import may_be_empty, unseen_share
from skcrbm.utils.options import check_parameters
from skcrbm.utils.validation import checked_features, weighted_rows


class Rows(NamedTuple):
    """Validated training rows; rows of weight 0 have been dropped."""

    X: Any  # ndarray or CSR matrix (N, D), float32 or float64
    visible: np.ndarray  # (N, V), dtype of X, NaN if not observed
    weight: np.ndarray  # (N,), positive


class StructuredClassifier(TargetsMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of the classifiers: 2-D indicator y with NaN, 1-D binary or multiclass y.

    A subclass computes something from the rows of X (a posterior, for example), and from that the
    scores of each kind of y. `_predict`, `_decision` and `_proba` arrange them as the kind of y
    requires.
    """

    _targets: Any  # the kind of y, set by a fit
    _progress: Any  # progress of training epoch by epoch, set by a fit

    #: True if X may hold NaN.
    _allow_nan = False
    #: Attributes without a trailing underscore that belong to a fit.
    _state: tuple[str, ...] = ("_targets",)
    #: Hyperparameters that predictions depend on; they are validated before each prediction.
    _prediction_parameters: tuple[str, ...] = ("decode", "n_jobs")
    #: Log-odds of binary 1-D y per unit of `decision_function`.
    _log_odds_scale = 1.0

    @abstractmethod
    def _label_scores(self, rows):
        """Return decision scores (N, L) of 2-D y."""

    @abstractmethod
    def _label_log_odds(self, rows):
        """Return log-odds (N, L) of the marginal of each label of 2-D y."""

    @abstractmethod
    def _labels(self, rows):
        """Return decoded 0/1 labels (N, L) of 2-D y."""

    @abstractmethod
    def _binary_scores(self, rows):
        """Return scores (N, 1) of the second of two classes against the first."""

    @abstractmethod
    def _class_scores(self, rows):
        """Return unnormalised log-probabilities (N, K) of the classes."""

    @abstractmethod
    def predict(self, X):
        """Predict the labels of each row."""

    def _predict(self, rows):
        return self._targets.predict(self, rows)

    def _decision(self, rows):
        return self._targets.decision(self._targets.scores(self, rows))

    def _proba(self, rows):
        return self._targets.proba(self._targets.log_odds(self, rows))

    # -------------------------------------------------------------- validation

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._allow_nan
        return tags

    def _check_training_data(
        self, X, y, sample_weight, *, reset: bool, classes=None, partial: bool = False
    ) -> Rows:
        """Validate X, y and the weights; drop rows of weight 0.

        Sets the attributes that describe y: `classes_`, `allow_empty_`, `unseen_share_`. Without
        `reset` the rows must fit the rows of earlier calls, and all rows count in these attributes.
        """
        if not reset:
            self._targets.check_classes(classes)
        targets = self._make_targets(y, classes) if reset or y is None else self._targets
        X = self._validate_X(X, reset)
        # Sums depend on the memory layout, and the array of a data frame has another layout.
        visible = targets.encode(y, X.dtype).astype(X.dtype, order="C", copy=False)
        if len(visible) != X.shape[0]:
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: "
                f"X has {X.shape[0]} rows, y has {len(visible)}"
            )
        (X, visible), weight = weighted_rows((X, visible), sample_weight)
        if not partial:
            targets.warn_of_one_value(visible)
        empty = not targets.multilabel or may_be_empty(visible)
        unseen = unseen_share(visible) if targets.multilabel else 1.0
        if reset:
            self._targets = targets
            self.classes_ = targets.classes
            self.allow_empty_, self.unseen_share_ = empty, unseen
        else:
            self.allow_empty_ |= empty
            self.unseen_share_ = max(self.unseen_share_, unseen)
        return Rows(X, visible, weight)

    def _check_partial_data(self, X, y, sample_weight, *, reset: bool, classes) -> Rows:
        """Do the same for `partial_fit`, whose rows need not hold both values of each label."""
        return self._check_training_data(
            X, y, sample_weight, reset=reset, classes=classes, partial=True
        )

    def _with_class_weight(self, rows: Rows) -> Rows:
        """Return the rows with the weights of their classes, rows of weight 0 dropped."""
        class_weight = getattr(self, "class_weight", None)
        if class_weight is None:
            return rows
        weight = self._targets.class_weighted(class_weight, rows.visible, rows.weight)
        (X, visible), weight = weighted_rows((rows.X, rows.visible), weight)
        return Rows(X, visible, weight)

    def _check_predict_data(self, X):
        check_is_fitted(self)
        check_parameters(self, self._prediction_parameters)
        return self._validate_X(X, False)

    def _make_targets(self, y, classes):
        return make_targets(y, classes, self)

    def _validate_X(self, X, reset, as_rows=None):
        return checked_features(self, X, allow_nan=self._allow_nan, reset=reset, as_rows=as_rows)

    def _forget(self):
        """Drop the attributes of an earlier fit."""
        forget(self, self._state)


def refuse_balanced_weights(class_weight) -> None:
    """Raise a ValueError if `partial_fit` would have to balance classes from a part of the rows."""
    if isinstance(class_weight, str):
        raise ValueError(
            "partial_fit does not support class_weight='balanced', because it sees only a part of "
            "the rows; give the weights of the classes"
        )
