"""ConformalRiskControl: predict sets of labels with a bound on the expected loss."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from scipy.stats import binom

from skcrbm.calibration._conformal import ConformalBase
from skcrbm.targets.classifier import check_outer_fitted, label_output
from skcrbm.targets.wrapped import marginals_of
from skcrbm.utils.fitting import all_or_nothing
from skcrbm.utils.options import Integer, ProbabilisticClassifier
from skcrbm.utils.sklearn_private import Interval, StrOptions, fit_context

# Number of thresholds that `fit` compares if the loss may rise when a label is added.
_N_THRESHOLDS = 50


class ConformalRiskControl(ConformalBase):
    """Classifier that predicts sets of labels with a bound on the expected loss.

    `predict` returns all labels whose probability is at least a threshold. The threshold is
    calibrated on rows that the classifier has not seen, so that the expected loss of a new row is
    at most `risk`, however good or bad the classifier is. With the loss "false_negative_rate" and
    ``risk=0.1``, the prediction misses on average at most a tenth of the true labels of a row [1]_.

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        Multi-label classifier.
    loss : {"false_negative_rate", "jaccard", "f1"} or callable, default="false_negative_rate"
        Loss of a row. "false_negative_rate" is the share of the true labels that the prediction
        lacks, and 0 for a row without true labels. "jaccard" and "f1" are 1 - Jaccard index and
        1 - F1, and 0 if both sets are empty. A function ``loss(y_true, y_pred)`` takes two 0/1
        arrays (n_samples, n_outputs) and returns the losses (n_samples,) in [0, 1].
    risk : float, default=0.1
        Bound on the expected loss, between 0 and 1.
    delta : float, default=0.1
        Probability that the bound fails, for all losses except "false_negative_rate"; see Notes.
    cv : int, splitter or iterable, default=None
        Folds of the rows. An int stands for this number of stratified folds, and None for 5 folds.
        A fitted classifier inside ``sklearn.frozen.FrozenEstimator`` is not fitted again, and all
        rows of `fit` are used to calibrate.
    n_jobs : int, default=None
        Number of folds fitted at the same time.

    Attributes
    ----------
    estimator_ : classifier
        Classifier fitted on all rows.
    threshold_ : float
        Least probability of a predicted label.
    calibration_risk_ : float
        Mean loss of the calibration rows at this threshold.
    classes_ : ndarray (n_outputs,)
        Indices of the labels.
    label_names_ : ndarray of str (n_outputs,)
        Names of the labels, if y is a data frame with names.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X has names.

    See Also
    --------
    ConformalLabelSets : Set of whole label vectors that holds the true vector.

    Notes
    -----
    The false negative rate never rises when a label is added. The largest threshold with ``(n R +
    1) / (n + 1) <= risk`` then bounds the expected loss, where R is the mean loss of the n
    calibration rows [1]_. The other losses may rise when a label is added. For these losses, `fit`
    tests at each of 50 fixed thresholds the hypothesis that the risk exceeds the bound, by the
    p-values of Hoeffding and Bentkus with Bonferroni's correction [2]_. The bound then holds with
    the probability 1 - delta over the calibration rows. Among the thresholds for which the
    hypothesis is rejected, `fit` takes the threshold with the least mean loss.

    With `cv` instead of a fitted classifier both bounds are approximate, as described in
    `ConformalLabelSets`. Only the ratios of weights matter: with weights, n is the effective number
    of rows, ``sum(w)^2 / sum(w^2)``.

    References
    ----------
    .. [1] Angelopoulos, Bates, Fisch, Lei and Schuster (2024). Conformal risk control. ICLR.
    .. [2] Angelopoulos, Bates, Candes, Jordan and Lei (2021). Learn then test: Calibrating
       predictive algorithms to achieve risk control. arXiv:2110.01052.

    Examples
    --------
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.calibration import ConformalRiskControl
    >>> from skcrbm.datasets import make_structured_labels
    >>> X, Y = make_structured_labels(700, n_labels=5, random_state=0)
    >>> model = ConformalRiskControl(CRBMClassifier(alpha=0.1, random_state=0), risk=0.2)
    >>> found = model.fit(X[:400], Y[:400]).predict(X[400:])
    >>> missed = (Y[400:] * (1 - found)).sum(axis=1) / Y[400:].sum(axis=1).clip(1)
    >>> bool(missed.mean() < 0.25)
    True
    """

    _saved = ("n_features_in_", "classes_", "_targets", "estimator_", "threshold_")

    _parameter_constraints: dict = {
        "estimator": [ProbabilisticClassifier()],
        "loss": [StrOptions({"false_negative_rate", "jaccard", "f1"}), callable],
        "risk": [Interval(Real, 0, 1, closed="neither")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "cv": ["cv_object"],
        "n_jobs": [Integer(), None],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        loss: str | Callable = "false_negative_rate",
        risk: float = 0.1,
        delta: float = 0.1,
        cv: Any = None,
        n_jobs: int | None = None,
    ):
        self.estimator = estimator
        self.loss = loss
        self.risk = risk
        self.delta = delta
        self.cv = cv
        self.n_jobs = n_jobs

    @all_or_nothing
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None):
        """Fit the classifier, and calibrate the threshold on predictions out of fold.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples, n_outputs)
            0/1 indicator matrix. Missing labels may be NaN if the classifier takes NaN.
        sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
            Weights of the rows, or of the labels of each row. They are used to calibrate the
            threshold and are passed to the classifier. A row whose labels have different weights
            stands for several copies of the row, each with some of its labels. Only the copies with
            all labels can be used to calibrate, so the calibration uses the smallest weight.

        Returns
        -------
        self : object
            This object.

        Raises
        ------
        ValueError
            If y is not a 2-D indicator matrix, or no threshold has a risk below the bound.
        """
        proba, visible, weight, complete = self._fit_inner(X, y, sample_weight, self._marginals)
        used = complete & (weight > 0)
        proba, labels, weight = proba[used], visible[used], weight[used]
        weight = weight / weight.max()  # so that squares of weights neither underflow nor overflow
        n_rows = weight.sum() ** 2 / (weight**2).sum()
        share = weight / weight.sum()
        monotone = self.loss == "false_negative_rate"
        thresholds = np.linspace(1, 0, _N_THRESHOLDS)
        if monotone:  # the loss changes only at predicted probabilities
            thresholds = np.unique(np.concatenate([proba.ravel(), [0.0]]))[::-1]
        loss = self._loss_function()
        if monotone:  # bisect, as a lower threshold never raises the risk
            low, high = 0, len(thresholds) - 1
            while low < high:
                middle = (low + high) // 2
                risk = share @ loss(labels, proba >= thresholds[middle])
                if (n_rows * risk + 1) / (n_rows + 1) <= self.risk:
                    high = middle
                else:
                    low = middle + 1
            self.threshold_ = float(thresholds[low])
            self.calibration_risk_ = float(share @ loss(labels, proba >= self.threshold_))
            if (n_rows * self.calibration_risk_ + 1) / (n_rows + 1) > self.risk:
                raise ValueError(
                    f"risk={self.risk} needs at least {int(np.ceil(1 / self.risk)) - 1} rows "
                    f"without missing labels to calibrate on, got {n_rows:.0f} (with unequal "
                    "weights, the effective number of rows: (sum w)^2 / sum w^2)"
                )
            return self
        risks = np.array([share @ _checked(loss(labels, proba >= t)) for t in thresholds])
        passed = _p_values(risks, n_rows, self.risk) <= self.delta / len(thresholds)
        if not passed.any():
            raise ValueError(
                f"risk={self.risk} is too small for this loss. Even at the best threshold, the "
                f"mean loss on the calibration rows is {risks.min():.3f}, and a bound that "
                f"holds with the probability {1 - self.delta:g} is higher. Use a larger risk"
            )
        best = np.flatnonzero(passed)[risks[passed].argmin()]
        self.threshold_, self.calibration_risk_ = float(thresholds[best]), float(risks[best])
        return self

    def __sklearn_is_fitted__(self):
        return hasattr(self, "threshold_")

    @label_output
    def predict(self, X):
        """Return the labels with a probability of at least `threshold_`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        labels : ndarray of shape (n_samples, n_outputs)
            Set of labels of each row as 0/1.
        """
        check_outer_fitted(self)
        return self._targets.decode(self._marginals(self.estimator_, X) >= self.threshold_)

    @label_output
    def predict_proba(self, X):
        """Return the probabilities of the estimator, without the calibration.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_outputs)
            P(y_i = 1 | x) of each label.
        """
        check_outer_fitted(self)
        return self._marginals(self.estimator_, X)

    def _marginals(self, model, X, y=None):
        return marginals_of(model, X, None, self._targets)

    def _loss_function(self):
        if self.loss == "false_negative_rate":
            return _false_negative_rate
        return partial(_one_minus, metric=self.loss) if isinstance(self.loss, str) else self.loss


def _false_negative_rate(y_true, y_pred):
    return (y_true * ~y_pred).sum(axis=1) / np.maximum(y_true.sum(axis=1), 1)


def _one_minus(y_true, y_pred, metric):
    """Return 1 - Jaccard index or 1 - F1 of each row, or 0 if both sets are empty."""
    both = (y_true * y_pred).sum(axis=1)
    total = y_true.sum(axis=1) + y_pred.sum(axis=1)
    score = both / np.maximum(total - both, 1) if metric == "jaccard" else 2 * both / total.clip(1)
    return np.where(total == 0, 0.0, 1 - score)


def _checked(losses):
    losses = np.asarray(losses, float)
    if losses.ndim != 1 or not (losses.min() >= 0 and losses.max() <= 1):
        raise ValueError("loss must return the loss of each row, (n_samples,), in [0, 1]")
    return losses


def _p_values(risks, n_rows, bound):
    """Return p-values of the hypothesis that the expected loss exceeds `bound`.

    `risks` holds the mean loss at each threshold over `n_rows` calibration rows. The p-value is the
    smaller of the p-values by Hoeffding's and by Bentkus' inequality.
    """
    least = np.minimum(risks, bound)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(least > 0, least * np.log(least / bound), 0.0)
        relative += np.where(least < 1, (1 - least) * np.log((1 - least) / (1 - bound)), 0.0)
    hoeffding = np.exp(-n_rows * relative)
    n_whole = int(n_rows)
    bentkus = np.e * binom.cdf(np.ceil(n_whole * risks), n_whole, bound)
    return np.minimum(np.minimum(hoeffding, bentkus), 1.0)
