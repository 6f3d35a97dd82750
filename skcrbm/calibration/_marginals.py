"""Calibration of each label's marginal, on predictions out of fold."""

from numbers import Integral

import numpy as np
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, _fit_context, clone
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_consistent_length, get_tags
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from skcrbm.metrics import masked_score
from skcrbm.model_selection._out_of_fold import out_of_fold
from skcrbm.utils._indicator import indicator_with_nan
from skcrbm.utils._outputs import label_marginals

# Probabilities this near to 0 or 1 are taken for it.
_TINY = 1e-12


def _least(proba):
    """How far probabilities (n, L) are kept from 0 and 1 where their log-odds are taken, (L,).

    Half as far as the nearest that is neither: trees and neighbours count votes, and a 0 of
    five is not infinitely far from a 1 of five.
    """
    distance = np.minimum(proba, 1 - proba)
    nearest = np.where(distance > _TINY, distance, 1.0).min(axis=0)
    return np.where(nearest < 1, nearest / 2, _TINY)


class CalibratedMarginals(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Multi-label classifier with the marginal of each label calibrated.

    scikit-learn's `CalibratedClassifierCV` calibrates one target, and so takes a model of the
    joint distribution apart. This one fits the whole model on folds, and on its marginals out
    of fold a calibrator for each label; then the model once more on all rows (which there is
    ``ensemble=False``).

    Parameters
    ----------
    estimator : classifier
        Multi-label (or binary), with `predict_proba`, or else `decision_function`.
    method : {"sigmoid", "isotonic"}, default="sigmoid"
        "sigmoid": ``P(y_i = 1) = sigmoid(a_i s + b_i)`` of the log-odds s (or decisions), with
        Platt's smoothed targets [1]_, for few rows. "isotonic": any increasing function, for
        labels with hundreds of positives; of n rows, 1 / (n + 2) is the least that it says.
        In both, a row of weight w counts as w rows.
    cv : int, splitter or iterable, default=None
        Folds; a number (None is 5) of stratified ones.
    n_jobs : int, default=None
        Folds fitted at once.

    Attributes
    ----------
    estimator_ : classifier
        Fitted on all rows.
    calibrators_ : list of LogisticRegression, IsotonicRegression or None
        One per label, of the log-odds; None for a label without an observed entry, which is
        left as it is.
    classes_ : ndarray (n_outputs, 2) or (2,)
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    `predict` switches on the labels with a calibrated marginal of at least 0.5. For their
    log-odds marginals are kept from 0 and 1, each label's by half the least distance among those
    out of fold that are neither. NaN in y (not observed) is left out of the calibration, and
    needs an estimator that takes it.

    References
    ----------
    .. [1] Platt (1999). Probabilistic outputs for support vector machines and comparisons to
       regularized likelihood methods. Advances in Large Margin Classifiers.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.multioutput import MultiOutputClassifier
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcrbm.calibration import CalibratedMarginals
    >>> from skcrbm.datasets import make_structured_labels
    >>> from skcrbm.metrics import expected_calibration_error
    >>> X, Y = make_structured_labels(600, random_state=0)
    >>> X = np.hstack([X, X])  # naive Bayes counts everything twice
    >>> plain = MultiOutputClassifier(GaussianNB())
    >>> errors = [
    ...     expected_calibration_error(Y[400:], model.fit(X[:400], Y[:400]).predict_proba(X[400:]))
    ...     for model in (plain, CalibratedMarginals(plain))
    ... ]
    >>> errors[1] < 0.5 * errors[0]
    True
    """

    _parameter_constraints: dict = {
        "estimator": [
            HasMethods(["fit", "predict_proba"]),
            HasMethods(["fit", "decision_function"]),
        ],
        "method": [StrOptions({"sigmoid", "isotonic"})],
        "cv": ["cv_object"],
        "n_jobs": [Integral, None],
    }

    def __init__(self, estimator, *, method="sigmoid", cv=None, n_jobs=None):
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.n_jobs = n_jobs

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.classifier_tags.multi_label = inner.classifier_tags.multi_label
        tags.classifier_tags.multi_class = False
        return tags

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None):
        """Fit the calibrators on predictions out of fold, then the classifier on all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            0/1 indicator matrix with NaN where not observed, or two classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Passed to the classifier, if given, and used for the calibrators.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            On a y of another kind, or folds that do not hold each row once.
        """
        if y is None:
            raise ValueError(
                "CalibratedMarginals requires y to be passed, but the target y is None."
            )
        validate_data(self, X, skip_check_array=True)
        check_consistent_length(X, y)
        y, visible = self._targets(y)
        fit_params = {}
        weight = np.ones(len(y))
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, y, ensure_non_negative=True)
            fit_params["sample_weight"] = weight
        responses = out_of_fold(
            self.estimator,
            X,
            y,
            cv=self.cv,
            respond=self._responses,
            n_jobs=self.n_jobs,
            fit_params=fit_params,
        )
        self.estimator_ = clone(self.estimator).fit(X, y, **fit_params)
        self._least = _least(responses) if hasattr(self.estimator_, "predict_proba") else None
        self.calibrators_ = [
            self._calibrator(s, t, weight)
            for s, t in zip(self._scores(responses).T, visible.T, strict=True)
        ]
        return self

    def predict_proba(self, X):
        """Calibrated P(y_i = 1 | x) of each output, or the probabilities of two classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples, 2)
        """
        check_is_fitted(self, "estimator_")
        scores = self._scores(self._responses(self.estimator_, X))
        columns = [self._calibrated(c, s) for c, s in zip(self.calibrators_, scores.T, strict=True)]
        proba = np.column_stack(columns)
        return proba if self.classes_.ndim == 2 else np.hstack([1 - proba, proba])

    def predict(self, X):
        """Labels with a calibrated marginal of at least 0.5, or the more probable class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples,)
        """
        proba = self.predict_proba(X)
        if self.classes_.ndim == 2:
            return (proba >= 0.5).astype(np.int64)
        return self.classes_[proba.argmax(axis=1)]

    def score(self, X, y, sample_weight=None):
        """Accuracy; for 2-D y subset accuracy over the observed entries.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            NaN in 2-D y = not observed; rows without an observed entry are left out.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        check_is_fitted(self, "estimator_")
        if self.classes_.ndim == 1:
            return super().score(X, y, sample_weight)
        return masked_score("accuracy", y, y_pred=self.predict(X), sample_weight=sample_weight)

    # ------------------------------------------------------------------ inside

    def _targets(self, y):
        """Return y for the classifier, and 0/1 targets (n, L) with NaN; set `classes_`."""
        y = y if hasattr(y, "ndim") else np.asarray(y)
        if y.ndim == 2 and y.shape[1] > 1:
            visible = indicator_with_nan(y)
            self.classes_ = np.tile(np.array([0, 1]), (visible.shape[1], 1))
            return (visible if np.isnan(visible).any() else visible.astype(np.int64)), visible
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(y)}; scikit-learn's CalibratedClassifierCV is for it."
            )
        if len(self.classes_) < 2:
            raise ValueError("y must hold 2 classes, got 1 class")
        return y, (y == self.classes_[1])[:, None].astype(np.float64)

    def _responses(self, model, X):
        """Marginals, or else decisions, (n, L)."""
        if not hasattr(model, "predict_proba"):
            decision = np.asarray(model.decision_function(X), dtype=np.float64)
            return decision[:, None] if decision.ndim == 1 else decision
        proba = model.predict_proba(X)
        if self.classes_.ndim == 1:
            return np.asarray(proba)[:, 1:]
        return label_marginals(proba, getattr(model, "classes_", None), "predict_proba(X)")

    def _scores(self, responses):
        """Log-odds of marginals; decisions as they are."""
        if self._least is None:
            return responses
        return logit(np.clip(responses, self._least, 1 - self._least))

    def _calibrator(self, score, target, weight):
        """Fit the calibrator of one label on its observed entries of positive weight."""
        seen = ~np.isnan(target) & (weight > 0)
        if not seen.any():
            return None
        score, target, weight = score[seen], target[seen], weight[seen]
        if self.method == "isotonic":
            least = 1 / (weight.sum() + 2)  # or the log loss of new rows could be infinite
            regression = IsotonicRegression(y_min=least, y_max=1 - least, out_of_bounds="clip")
            return regression.fit(score, target, sample_weight=weight)
        # Platt's targets are (n_1 + 1) / (n_1 + 2) and 1 / (n_0 + 2): each row counts as both
        # classes, with these weights, so that the fit is finite whatever the scores are.
        n_on = weight @ target
        n_off = weight.sum() - n_on
        on = np.where(target == 1, (n_on + 1) / (n_on + 2), 1 / (n_off + 2))
        scale = max(np.abs(score).max(), 1.0)
        model = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000)
        model.fit(
            np.concatenate([score, score])[:, None] / scale,
            np.repeat([1, 0], len(score)),
            sample_weight=np.concatenate([weight * on, weight * (1 - on)]),
        )
        model.coef_ /= scale
        return model

    def _calibrated(self, calibrator, score):
        if calibrator is None:
            return expit(score)
        if self.method == "isotonic":
            return calibrator.predict(score)
        return calibrator.predict_proba(score[:, None])[:, 1]
