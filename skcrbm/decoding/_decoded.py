"""DecodedClassifier: another way from a classifier's probabilities to labels."""

import copy
import inspect
from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, _fit_context, clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils._metadata_requests import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, column_or_1d, has_fit_parameter

from skcrbm.decoding._expected import decode_marginals, decode_samples
from skcrbm.decoding._threshold import (
    THRESHOLD_METRICS,
    fit_thresholds,
    fitted_threshold_labels,
)
from skcrbm.metrics import masked_score
from skcrbm.model_selection._out_of_fold import out_of_fold
from skcrbm.utils._indicator import indicator_with_nan
from skcrbm.utils._outputs import label_marginals

_EXPECTED = {"expected_jaccard": "jaccard", "expected_f1": "f1"}


class DecodedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A multi-label classifier whose labels are chosen for a metric.

    Fits the classifier as it is; `predict` goes from its probabilities to labels by another
    rule than "more probable than not". 1-D y is passed through: the most probable class is
    the right prediction there.

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        Any that takes a 2-D indicator y; its `predict_proba` may return an array (n, L) or a
        list of L arrays.
    decode : {"expected_f1", "expected_jaccard", "threshold", "marginal"}, default="expected_f1"
        The labels of the largest expected F1 or Jaccard index of the row; those with
        probabilities at or above a threshold fitted by cross-validation; or those with
        probability 0.5 or more. No label where none is true counts as 1.
    joint : {"independent", "samples"}, default="independent"
        What the expectations are over. "independent": labels independent given x, with the
        probabilities of `predict_proba`, exactly (`skcrbm.decoding.decode_marginals`).
        "samples": draws from the joint distribution, of an estimator that has
        ``sample(X, n_samples, random_state=...)`` as `CRBMClassifier` has
        (`skcrbm.decoding.decode_samples`).
    threshold_metric : str, default="f1_samples"
        For ``decode="threshold"``: "f1_samples", "jaccard_samples", "f1_micro", "hamming",
        with one threshold, or "f1_macro", with one for each label.
    cv : int, splitter or iterable, default=None
        For ``decode="threshold"``: the folds whose models predict the training rows that
        they did not see; an int is a number of folds stratified by labels, None is 5. They
        cost as many fits beside the one on all rows.
    n_samples : int, default=200
        Draws of each row for ``joint="samples"``.
    n_jobs : int, default=None
        Folds fitted at once.
    random_state : int, RandomState or None, default=None
        Seed of the draws, settled in `fit`: the same row in the same place is predicted in
        the same way each time.

    Attributes
    ----------
    estimator_ : classifier
        Fitted on all rows.
    thresholds_ : ndarray (n_outputs,)
        With ``decode="threshold"`` and 2-D y.
    classes_ : ndarray of shape (n_outputs, 2) or (n_classes,)
        Of 2-D y [0, 1] for each output; else those of `estimator_`.
    n_features_in_, feature_names_in_
        As in scikit-learn, if the estimator has them.

    See Also
    --------
    skcrbm.CRBMClassifier : Has these rules, over the label sets seen in fit, as its `decode`.
    sklearn.model_selection.TunedThresholdClassifierCV : A threshold for binary y.

    Notes
    -----
    NaN in y (not observed) is passed on to the estimator and left out of the search for
    thresholds. With metadata routing, `fit` passes on what the estimator requests; without
    it, sample_weight and whatever else it is given.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.metrics import f1_score
    >>> from sklearn.multioutput import MultiOutputClassifier
    >>> from skcrbm import DecodedClassifier
    >>> X, Y = make_multilabel_classification(300, n_classes=8, random_state=0)
    >>> logistic = MultiOutputClassifier(LogisticRegression(C=0.01))
    >>> decoded = DecodedClassifier(logistic, decode="expected_f1").fit(X[:200], Y[:200])
    >>> plain = logistic.fit(X[:200], Y[:200])
    >>> for model in (plain, decoded):
    ...     score = f1_score(Y[200:], model.predict(X[200:]), average="samples", zero_division=1)
    ...     print(f"{score:.2f}")
    0.44
    0.55
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict_proba"])],
        "decode": [StrOptions({*_EXPECTED, "threshold", "marginal"})],
        "joint": [StrOptions({"independent", "samples"})],
        "threshold_metric": [StrOptions(set(THRESHOLD_METRICS))],
        "cv": ["cv_object"],
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator,
        *,
        decode="expected_f1",
        joint="independent",
        threshold_metric="f1_samples",
        cv=None,
        n_samples=200,
        n_jobs=None,
        random_state=None,
    ):
        self.estimator = estimator
        self.decode = decode
        self.joint = joint
        self.threshold_metric = threshold_metric
        self.cv = cv
        self.n_samples = n_samples
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = copy.deepcopy(get_tags(self.estimator))
        tags.input_tags = inner.input_tags
        if inner.classifier_tags is not None:
            tags.classifier_tags = inner.classifier_tags
        return tags

    def get_metadata_routing(self):
        """Return the routing of metadata to the estimator's `fit`."""
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                estimator=self.estimator,
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
        )

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None, **fit_params):
        """Fit the classifier, and the thresholds where they are asked for.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Whatever the estimator takes.
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            0/1 indicator matrix, NaN where not observed if the estimator takes it; or classes.
        sample_weight : array-like of shape (n_samples,), default=None
            For the estimator and the thresholds.
        **fit_params : dict
            For the estimator.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            On an invalid y or hyperparameter, or an estimator that cannot do what is asked.
        """
        self._check_joint(self.estimator)
        params = self._fit_params(sample_weight, fit_params)
        y = y if hasattr(y, "shape") or y is None else np.asarray(y)
        multilabel = y is not None and len(y.shape) == 2 and y.shape[1] > 1
        if multilabel:
            y = indicator_with_nan(y)
            y = y if np.isnan(y).any() else y.astype(np.int64)
        elif y is not None and len(y.shape) == 2:
            y = column_or_1d(y, warn=True)
        found = {"estimator_": clone(self.estimator).fit(X, y, **params)}
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(found["estimator_"], name):
                found[name] = getattr(found["estimator_"], name)
        if multilabel:  # the form that fits predict_proba, whatever the estimator's is
            found["classes_"] = np.tile([0, 1], (y.shape[1], 1))
        if multilabel and self.decode == "threshold":
            unseen = out_of_fold(
                self.estimator,
                X,
                y,
                cv=self.cv,
                respond=_marginals,
                n_jobs=self.n_jobs,
                fit_params=params,
            )
            found["thresholds_"] = fit_thresholds(
                y, unseen, self.threshold_metric, sample_weight=sample_weight
            )
        for name in ("classes_", "n_features_in_", "feature_names_in_", "thresholds_"):
            vars(self).pop(name, None)  # of an earlier fit
        vars(self).update(found)
        self._multilabel = multilabel
        self._seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return self

    def _check_joint(self, estimator):
        if self.joint == "samples" and not hasattr(estimator, "sample"):
            raise ValueError(
                "joint='samples' needs an estimator with the method sample, such as "
                f"CRBMClassifier; {type(estimator).__name__} has none. joint='independent' "
                "takes any with predict_proba"
            )

    def _fit_params(self, sample_weight, fit_params):
        """Return what the estimator's `fit` gets besides X and y."""
        if sample_weight is not None:
            fit_params = {**fit_params, "sample_weight": sample_weight}
        if _routing_enabled():
            return process_routing(self, "fit", **fit_params).estimator.fit
        if sample_weight is not None and not has_fit_parameter(self.estimator, "sample_weight"):
            raise ValueError(
                f"sample_weight is not supported by {type(self.estimator).__name__}.fit; with "
                "metadata routing, a Pipeline passes it on"
            )
        return fit_params

    def predict(self, X, y_known=None):
        """Predict labels by the rule `decode`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere, which are predicted as given. An
            estimator whose methods take `y_known` predicts the others given them; any other
            knows nothing of them, and they count in the metric only.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples,)

        Raises
        ------
        ValueError
            On an invalid argument, or what a hyperparameter changed after `fit` cannot do.
        """
        check_is_fitted(self)
        self._validate_params()  # which may have been changed after fit
        self._check_joint(self.estimator_)
        if not self._multilabel:
            self._check_known(y_known, ())
            return self.estimator_.predict(X)
        if self.decode in _EXPECTED and self.joint == "samples":
            options = {"n_samples": self.n_samples, "random_state": self._seed}
            drawn = self._ask(self.estimator_.sample, X, y_known, **options)
            known = self._check_known(y_known, drawn.shape[::2])[:, None]
            drawn = np.where(np.isnan(known), drawn, known)
            return decode_samples(drawn, _EXPECTED[self.decode])
        proba = self.predict_proba(X, y_known)
        if self.decode in _EXPECTED:
            return decode_marginals(proba, _EXPECTED[self.decode])
        if self.decode == "marginal":
            return (proba >= 0.5).astype(np.int64)
        known = self._check_known(y_known, proba.shape)
        return fitted_threshold_labels(proba, getattr(self, "thresholds_", None), known)

    def predict_proba(self, X, y_known=None):
        """Probabilities of the fitted classifier.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples, n_classes)
            P(y_i = 1 | x) of 2-D y, whatever form the estimator gives them in.
        """
        check_is_fitted(self)
        if not self._multilabel:
            self._check_known(y_known, ())
            return self.estimator_.predict_proba(X)
        proba = self._ask(self.estimator_.predict_proba, X, y_known)
        proba = label_marginals(proba, getattr(self.estimator_, "classes_", None))
        known = self._check_known(y_known, proba.shape)
        return np.where(np.isnan(known), proba, known)

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
        if not self._multilabel:
            return super().score(X, y, sample_weight)
        y, found = indicator_with_nan(y), self.predict(X)
        return masked_score("accuracy", y, y_pred=found, sample_weight=sample_weight)

    def _ask(self, method, X, y_known, **options):
        """Answer of the fitted estimator, given what is known if its method takes that."""
        if y_known is not None and "y_known" in inspect.signature(method).parameters:
            options["y_known"] = y_known
        return method(X, **options)

    def _check_known(self, y_known, shape):
        """Known labels of this shape, NaN elsewhere."""
        if y_known is None:
            return np.full(shape, np.nan)
        if not self._multilabel:
            raise ValueError("y_known is for 2-D indicator y; this model was fitted on a 1-D y")
        known = indicator_with_nan(y_known, "y_known")
        if known.shape != shape:
            raise ValueError(f"y_known must have shape {shape}, got {known.shape}")
        return known


def _marginals(model, X):
    """P(y_i = 1 | x) (N, L) of a fitted classifier."""
    return label_marginals(model.predict_proba(X), getattr(model, "classes_", None))
