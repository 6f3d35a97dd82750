"""CalibratedMarginals: calibrate the marginals of labels on out-of-fold predictions."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from scipy.special import logit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import type_of_target

from skcrbm.model_selection.folds import out_of_fold
from skcrbm.targets.classifier import (
    check_outer_fitted,
    label_output,
    score_with_known,
)
from skcrbm.targets.codes import require_two_classes
from skcrbm.targets.proba import label_scores
from skcrbm.targets.wrapped import WrappingClassifier, marginals_of, wrapped_rows
from skcrbm.utils.fitting import all_or_nothing
from skcrbm.utils.options import Integer, check_parameters, tags_of_inner
from skcrbm.utils.sklearn_private import HasMethods, StrOptions, fit_context

# Probabilities that differ from 0 or 1 by less than this number count as 0 or 1.
_TINY = 1e-12


def _clip_distance(proba):
    """Return the distance (L,) from 0 and 1 at which the probabilities of each label are clipped.

    `proba` (n, L) holds the probabilities of L labels in n rows. The result for a label is half the
    smallest distance of its probabilities from 0 or 1, apart from probabilities that are 0 or 1.
    For example, forests and nearest neighbours count votes. With five voters, a label without votes
    is clipped to 1/10, because five voters cannot show that a label is impossible.
    """
    distance = np.minimum(proba, 1 - proba)
    nearest = np.where(distance > _TINY, distance, 1.0).min(axis=0)
    return np.where(nearest < 1, nearest / 2, _TINY)


class CalibratedMarginals(WrappingClassifier):
    """Multi-label classifier whose marginal probabilities are calibrated label by label.

    scikit-learn's `CalibratedClassifierCV` supports only 1-D targets, so it would need a separate
    model for each label. This class fits the multi-label model on folds, fits a calibrator for each
    label on the out-of-fold marginals, and then fits the model on all rows (like scikit-learn with
    ``ensemble=False``).

    Parameters
    ----------
    estimator : classifier
        Multi-label or binary classifier with `predict_proba` or, if it has no `predict_proba`, with
        `decision_function`.
    method : {"sigmoid", "isotonic"}, default="sigmoid"
        Form of the calibrators. "sigmoid" fits ``P(y_i = 1) = sigmoid(a_i s + b_i)``, where s are
        the log-odds (or decisions) of the label, with Platt's smoothed targets [1]_; it works with
        few rows. "isotonic" fits any increasing function and needs labels with hundreds of
        positives; on n rows, its probabilities are at least 1 / (n + 2). In both methods a row of
        weight w counts as w rows. If the mean weight is below 1, for example because the weights
        add up to 1, the weights are first scaled to a mean of 1. Otherwise the rows would count as
        fewer rows than there are, and the calibrated probabilities would be too close to 1/2.
    cv : int, splitter or iterable, default=None
        Cross-validation folds. An int is a number of stratified folds; None stands for 5.
    n_jobs : int, default=None
        Number of folds that are fitted in parallel.

    Attributes
    ----------
    estimator_ : classifier
        Classifier fitted on all rows.
    calibrators_ : list of LogisticRegression, IsotonicRegression or None
        Calibrator of the log-odds of each label. It is None for a label without observed entries,
        whose probabilities are not calibrated.
    classes_ : ndarray (n_outputs,) or (2,)
        Indices 0, ..., n_outputs - 1 of the labels of a 2-D y, or the classes of a 1-D y.
    label_names_ : ndarray of str (n_outputs,)
        Names of the labels if y is a data frame or a series with names, see `set_label_output`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X has names.

    Notes
    -----
    `predict` returns 1 for labels with a calibrated marginal of at least 0.5. Before log-odds are
    computed, the marginals of a label are clipped to [d, 1 - d], where d is half the smallest
    distance from 0 or 1 among its out-of-fold marginals that are not 0 or 1. Missing labels (NaN in
    y) are left out of the calibration; the estimator must support them.

    Known labels, `y_known`, are passed to the estimator's `predict_proba`. The calibrators are
    fitted on marginals given x alone. They would be wrong for marginals given x and known labels,
    which vary far more. So the marginals given x are calibrated, and the amount by which the known
    labels change the estimator's log-odds is added to the calibrated log-odds.

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

    _saved = ("n_features_in_", "classes_", "_targets", "estimator_", "calibrators_")

    _parameter_constraints: dict = {
        "estimator": [
            HasMethods(["fit", "predict_proba"]),
            HasMethods(["fit", "decision_function"]),
        ],
        "method": [StrOptions({"sigmoid", "isotonic"})],
        "cv": ["cv_object"],
        "n_jobs": [Integer(), None],
    }

    def __init__(self, estimator, *, method="sigmoid", cv=None, n_jobs=None):
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.n_jobs = n_jobs

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        inner = tags_of_inner(self.estimator)
        if inner is not None:
            tags.input_tags = inner.input_tags
            if inner.classifier_tags is not None:
                tags.classifier_tags.multi_label = inner.classifier_tags.multi_label
        return tags

    @all_or_nothing
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None):
        """Fit the calibrators on out-of-fold predictions, and the classifier on all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            0/1 indicator matrix with NaN for missing labels, or two classes.
        sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
            Weights of the rows, or of single labels if the classifier supports them, for the
            classifier and the calibrators.

        Returns
        -------
        self : object
            This object.

        Raises
        ------
        ValueError
            If y is multiclass or invalid, or a row is in no test fold or in several test folds.
        """
        labels = wrapped_rows(X, y, sample_weight, type(self).__name__, self)
        targets, visible = labels.targets, labels.visible
        if targets.one_hot:
            require_two_classes(targets.classes)
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(y)}; use scikit-learn's CalibratedClassifierCV for this type."
            )
        self._set_targets(targets)
        responses = out_of_fold(
            self.estimator,
            X,
            labels.y,
            cv=self.cv,
            respond=self._responses,
            n_jobs=self.n_jobs,
            fit_params=labels.params,
        )
        self._fit_wrapped(X, labels)
        weight = np.ones(len(visible)) if labels.weight is None else labels.weight
        self._clip = (
            _clip_distance(responses) if hasattr(self.estimator_, "predict_proba") else None
        )
        self.calibrators_ = [
            self._calibrator(s, t, w)
            for s, t, w in zip(
                self._scores(responses).T,
                visible.T,
                np.broadcast_to(weight.T, visible.T.shape),
                strict=True,
            )
        ]
        return self

    def __sklearn_is_fitted__(self):
        return hasattr(self, "calibrators_") and hasattr(self, "_targets")

    score: ClassVar[Callable[..., float]] = score_with_known

    @label_output
    def predict_proba(self, X, y_known=None):
        """Return the calibrated P(y_i = 1 | x) of each output, or the probabilities of two classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels that are known beforehand, and NaN for the other labels. The estimator must
            support known labels; see Notes.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_outputs) or (n_samples, 2)
            Calibrated probabilities.
        """
        log_odds = self._log_odds(X, y_known)
        return self._targets.proba(log_odds)

    @label_output
    def predict_log_proba(self, X, y_known=None):
        """Return the logarithms of `predict_proba`, computed from calibrated log-odds.

        Parameters
        ----------
        X, y_known
            As in `predict_proba`.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_outputs) or (n_samples, 2)
            Logarithms of the calibrated probabilities.
        """
        log_odds = self._log_odds(X, y_known)
        return self._targets.log_proba(log_odds)

    def _log_odds(self, X, y_known):
        """Return the calibrated log-odds (n rows, L labels) given the known labels."""
        check_outer_fitted(self)
        check_parameters(self, ["method"])
        known = self._targets.check_known(y_known, X)
        responses = self._responses(self.estimator_, X)
        scores = self._scores(responses)
        columns = [self._calibrated(c, s) for c, s in zip(self.calibrators_, scores.T, strict=True)]
        log_odds = np.column_stack(columns)
        if known is None:
            return log_odds
        given = marginals_of(self.estimator_, X, known, self._targets)
        given, alone = (logit(np.clip(p, _TINY, 1 - _TINY)) for p in (given, responses))
        certain = np.where(known == 1, np.inf, -np.inf)
        return np.where(np.isnan(known), log_odds + given - alone, certain)

    @label_output
    def predict(self, X, y_known=None):
        """Predict labels with a calibrated marginal of at least 0.5, or the more probable class.

        Parameters
        ----------
        X, y_known
            As in `predict_proba`.

        Returns
        -------
        labels : ndarray of shape (n_samples, n_outputs) or (n_samples,)
            Predicted labels.
        """
        log_odds = self._log_odds(X, y_known)
        return self._targets.labels(log_odds)

    # ------------------------------------------------------------------ inside

    def _responses(self, model, X):
        """Return marginals (n rows, L labels), or decisions if `model` has no `predict_proba`."""
        if not hasattr(model, "predict_proba"):
            return self._decisions(model.decision_function(X), model)
        return marginals_of(model, X, None, self._targets)

    def _decisions(self, decision, model):
        """Return decisions (n rows, L labels) that rise with the probability of each label."""
        targets = self._targets
        if np.ndim(decision) == 1:
            decision = np.asarray(decision)[:, None]
        found = label_scores(decision, targets.n_visible, targets.names, "decision_function(X)")
        classes = np.asarray(getattr(model, "classes_", targets.classes)).tolist()
        backwards = not targets.multilabel and classes == targets.classes.tolist()[::-1]
        return -found if backwards else found

    def _scores(self, responses):
        """Return the log-odds of `responses` if they are probabilities, and decisions unchanged."""
        if self._clip is None:
            return responses
        return logit(np.clip(responses, self._clip, 1 - self._clip))

    def _calibrator(self, score, target, weight):
        """Fit the calibrator of a label on the rows of positive weight in which it is observed."""
        seen = ~np.isnan(target) & (weight > 0)
        if not seen.any():
            return None
        score, target, weight = score[seen], target[seen], weight[seen]
        # scale small weights up, so that n rows count as n rows at least
        weight = weight / min(weight.mean(), 1.0)
        if self.method == "isotonic":
            least = 1 / (weight.sum() + 2)  # more than 0, for a finite log loss
            regression = IsotonicRegression(y_min=least, y_max=1 - least, out_of_bounds="clip")
            return regression.fit(score, target, sample_weight=weight)
        # Platt's targets are (n_1 + 1) / (n_1 + 2) for positive rows and 1 / (n_0 + 2) for negative
        # rows. A logistic regression on such soft targets is fitted with each row in both classes,
        # weighted by the targets. Its coefficients are always finite.
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
        """Return the calibrated log-odds (n,) of the scores (n,) of a label."""
        if calibrator is None:
            return score
        if isinstance(calibrator, IsotonicRegression):
            return logit(calibrator.predict(score))
        return calibrator.decision_function(score[:, None])
