"""What all estimators share: tags, the gates for X, y and known labels, scoring."""

from abc import ABCMeta, abstractmethod

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from skcrbm.estimators._targets import indicator_with_nan, make_targets
from skcrbm.metrics import masked_score


class BaseStructuredClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of the classifiers: 2-D indicator y with NaN, 1-D binary or multiclass y."""

    #: Whether X may hold NaN.
    _allow_nan = False

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._allow_nan
        return tags

    @abstractmethod
    def predict(self, X):
        """Labels of each row."""

    def _check_training_data(self, X, y, sample_weight, *, reset, classes=None):
        """Pass X, y and the weights through their gates.

        Returns
        -------
        X : ndarray or CSR matrix (N, D), float32 or float64
        visible : ndarray (N, V), dtype of X, NaN where not observed
        weight : ndarray (N,), positive; rows of weight 0 are gone from all three
        """
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        X = self._validate_X(X, reset)
        targets = make_targets(y, classes) if reset else self._targets
        # One memory layout, as sums run along it: a DataFrame's is another.
        visible = targets.encode(y).astype(X.dtype, order="C")
        if len(visible) != X.shape[0]:
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: "
                f"X has {X.shape[0]} rows, y has {len(visible)}"
            )
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        keep = weight > 0
        if not keep.any():
            raise ValueError("sample_weight is 0 for every row: there is nothing to fit")
        if reset:
            self._targets = targets
            self.classes_ = targets.classes
        if keep.all():
            return X, visible, weight
        return X[keep], visible[keep], weight[keep]

    def _check_predict_data(self, X):
        check_is_fitted(self)
        return self._validate_X(X, False)

    def _validate_X(self, X, reset):
        return validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            ensure_all_finite="allow-nan" if self._allow_nan else True,
            reset=reset,
        )

    def _check_known(self, y_known, n_rows):
        """Known labels (N, L) with NaN elsewhere, or None."""
        if y_known is None:
            return None
        if self._targets.kind != "multilabel":
            raise ValueError("y_known is for 2-D indicator y; this model was fitted on a 1-D y")
        known = indicator_with_nan(y_known, "y_known")
        shape = (n_rows, self._targets.n_visible)
        if known.shape != shape:
            raise ValueError(f"y_known must have shape {shape}, got {known.shape}")
        return known

    def score(self, X, y, sample_weight=None):
        """Accuracy; for 2-D y subset accuracy over the observed entries.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            NaN in 2-D y = not observed; rows without an observed entry are left out.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        check_is_fitted(self)
        check_consistent_length(X, y, sample_weight)
        if self._targets.kind != "multilabel":
            return super().score(X, y, sample_weight)
        return masked_score(
            "accuracy", self._targets.encode(y), y_pred=self.predict(X), sample_weight=sample_weight
        )
