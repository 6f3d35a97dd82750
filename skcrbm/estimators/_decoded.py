"""DecodedClassifier: another way from a classifier's probabilities to labels."""

import copy
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, _fit_context, clone
from sklearn.utils import check_random_state
from sklearn.utils._metadata_requests import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils._param_validation import HasMethods, Options, StrOptions
from sklearn.utils.validation import (
    check_is_fitted,
    has_fit_parameter,
)

from skcrbm.decoding import (
    THRESHOLD_METRICS,
    decode_marginals,
    decode_samples,
    fit_thresholds,
    labels_by_fitted_thresholds,
    with_a_label,
)
from skcrbm.learning import CallbackSupportMixin, EpochCallbacks, with_callbacks
from skcrbm.model_selection import out_of_fold
from skcrbm.targets import TargetsMixin, label_output, make_targets
from skcrbm.utils.features import count_rows
from skcrbm.utils.fitting import all_or_nothing, check_sample_weight
from skcrbm.utils.indicator import may_be_empty
from skcrbm.utils.known_labels import call_given, final_model
from skcrbm.utils.outputs import label_marginals
from skcrbm.utils.parameters import Integer, tags_of_inner
from skcrbm.utils.pickling import Versioned

_EXPECTED = {"expected_jaccard": "jaccard_samples", "expected_f1": "f1_samples"}


class DecodedClassifier(
    CallbackSupportMixin, TargetsMixin, Versioned, MetaEstimatorMixin, BaseEstimator
):
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
        probability 0.5 or more. Where no row of fit was without a label, one is predicted
        (`allow_empty_`).
    joint : {"independent", "samples"}, default="independent"
        What the expectations are over. "independent": labels independent given x, with the
        probabilities of `predict_proba`, exactly (`skcrbm.decoding.decode_marginals`).
        "samples": draws from the joint distribution, of an estimator that has
        ``sample(X, n_samples, random_state=...)`` as `CRBMClassifier` has, also as the last
        step of a `Pipeline` (`skcrbm.decoding.decode_samples`).
    threshold_metric : str, default="f1_samples"
        For ``decode="threshold"``: "f1_samples", "jaccard_samples", "f1_micro", "neg_hamming_loss",
        with one threshold, or "f1_macro", with one for each label.
    zero_division : {0.0, 1.0}, default=0.0
        What a row with no true and no predicted label scores, as in scikit-learn's `f1_score`,
        in the metrics over rows. With 0, its default, the expectations never gain by predicting
        no label; with 1 they predict none where that is likely to be right.
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
    allow_empty_ : bool
        Whether no label may be predicted, as in `CRBMClassifier`; also predicted where all labels
        have probability 0, or all draws are empty.
    thresholds_ : ndarray (n_outputs,)
        With ``decode="threshold"`` and 2-D y.
    classes_ : ndarray of shape (n_outputs, 2) or (n_classes,)
    label_names_ : ndarray of str (n_outputs,)
        Where y has names, as a data frame or a series, see `set_label_output`.
    n_features_in_, feature_names_in_
        As in scikit-learn, if the estimator has them.

    See Also
    --------
    skcrbm.CRBMClassifier : Has these rules, under its joint distribution, as its `decode`.
    sklearn.model_selection.TunedThresholdClassifierCV : A threshold for binary y.

    Notes
    -----
    Known labels, `y_known`, are passed to `predict_proba` (or `sample`) of the estimator. That of
    `CRBMClassifier`, `MSSVMCRBM` and `LMBMClassifier` takes them, and so does a
    `Pipeline` with one of these as its last step, or `GridSearchCV` over one. With any other
    `y_known` is an error, as the other labels would be predicted as if nothing were known.

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

    _saved = ("classes_", "_targets", "estimator_")

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict_proba"])],
        "decode": [StrOptions({*_EXPECTED, "threshold", "marginal"})],
        "joint": [StrOptions({"independent", "samples"})],
        "threshold_metric": [StrOptions(set(THRESHOLD_METRICS))],
        "zero_division": [Options(Real, {0.0, 1.0})],
        "cv": ["cv_object"],
        "n_samples": [Integer(1)],
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator,
        *,
        decode="expected_f1",
        joint="independent",
        threshold_metric="f1_samples",
        zero_division=0.0,
        cv=None,
        n_samples=200,
        n_jobs=None,
        random_state=None,
    ):
        self.estimator = estimator
        self.decode = decode
        self.joint = joint
        self.threshold_metric = threshold_metric
        self.zero_division = zero_division
        self.cv = cv
        self.n_samples = n_samples
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = copy.deepcopy(tags_of_inner(self.estimator))
        if inner is not None:
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

    @all_or_nothing
    @with_callbacks
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
        targets = make_targets(y, estimator=self)
        thresholds = targets.multilabel and self.decode == "threshold"
        callbacks = EpochCallbacks(
            self, 1 + thresholds, X, y, {"sample_weight": sample_weight}, "cross-validation"
        )
        y = targets.for_classifier(y)
        estimator = clone(self.estimator)
        with callbacks.of_inner(estimator, "fit-estimator"):
            estimator.fit(X, y, **params)
        found = {
            "estimator_": estimator,
            "_targets": targets,
            "classes_": targets.classes,
            "allow_empty_": not targets.multilabel
            or may_be_empty(targets.encode(y)[_positive(sample_weight, y)]),
        }
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(found["estimator_"], name):
                found[name] = getattr(found["estimator_"], name)
        if thresholds:
            callbacks.begin_epoch(1)
            unseen = out_of_fold(
                self.estimator,
                X,
                y,
                cv=self.cv,
                respond=_marginals,
                n_jobs=self.n_jobs,
                fit_params=params,
            )
            callbacks.end_epoch(None)
            found["thresholds_"] = fit_thresholds(
                y,
                unseen,
                self.threshold_metric,
                sample_weight=sample_weight,
                zero_division=self.zero_division,
                allow_empty=found["allow_empty_"],
            )
        found["_seed"] = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        for name in ("n_features_in_", "feature_names_in_", "thresholds_"):
            vars(self).pop(name, None)  # of an earlier fit
        vars(self).update(found)
        callbacks.end()
        return self

    def _check_joint(self, estimator):
        last = final_model(estimator)[0]
        if self.joint == "samples" and not hasattr(last, "sample"):
            raise ValueError(
                "joint='samples' needs an estimator with the method sample, such as "
                f"CRBMClassifier or a Pipeline that ends in one; {type(last).__name__} has none. "
                "joint='independent' takes any with predict_proba"
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

    @label_output
    def predict(self, X, y_known=None):
        """Predict labels by the rule `decode`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere. They are predicted as given, and the others
            given them; that takes an estimator that conditions on known labels, see Notes. The
            columns of a data frame are matched by name, labels without one are not known.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples,)

        Raises
        ------
        ValueError
            On an invalid argument, an estimator that cannot condition on `y_known`, or what a
            hyperparameter changed after `fit` cannot do.
        """
        check_is_fitted(self)
        self._validate_params()  # which may have been changed after fit
        self._check_joint(self.estimator_)
        if not self._targets.multilabel:
            self._targets.check_known(y_known, None)
            return np.asarray(self.estimator_.predict(X))
        known = self._targets.check_known(y_known, count_rows(X))
        allow_empty = {"allow_empty": self.allow_empty_}
        expected = {"zero_division": self.zero_division, **allow_empty}
        if self.decode in _EXPECTED and self.joint == "samples":
            options = {"n_samples": self.n_samples, "random_state": self._seed}
            drawn = call_given(self.estimator_, "sample", X, known, **options)
            return decode_samples(drawn, _EXPECTED[self.decode], **expected)
        proba = self._proba(X, known)
        if self.decode in _EXPECTED:
            return decode_marginals(proba, _EXPECTED[self.decode], **expected)
        if self.decode == "marginal":
            score = np.where(proba > 0, proba, -np.inf)
            return with_a_label(self._targets.labels_of_proba(proba), score, **allow_empty)
        thresholds = getattr(self, "thresholds_", None)
        return labels_by_fitted_thresholds(proba, thresholds, known, **allow_empty)

    @label_output
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
        if not self._targets.multilabel:
            self._targets.check_known(y_known, None)
            return np.asarray(self.estimator_.predict_proba(X))
        return self._proba(X, self._targets.check_known(y_known, count_rows(X)))

    def _proba(self, X, known):
        """P(y_i = 1 | x, known) (N, L) of 2-D y, of known labels (N, L) or None."""
        proba = call_given(self.estimator_, "predict_proba", X, known)
        proba = self._targets.marginals(proba, getattr(self.estimator_, "classes_", None))
        return proba if known is None else np.where(np.isnan(known), proba, known)


def _positive(sample_weight, y):
    """Which rows of y count."""
    if sample_weight is None:
        return slice(None)
    return check_sample_weight(sample_weight, y) > 0


def _marginals(model, X):
    """P(y_i = 1 | x) (N, L) of a fitted classifier."""
    return label_marginals(model.predict_proba(X), getattr(model, "classes_", None))
