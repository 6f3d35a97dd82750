"""DecodedClassifier: another rule from a classifier's probabilities to labels."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, _fit_context, clone
from sklearn.utils import check_random_state
from sklearn.utils._metadata_requests import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils._param_validation import HasMethods, make_constraint
from sklearn.utils.validation import (
    has_fit_parameter,
)

from skcrbm.decoding.posterior import ClassifierPosterior
from skcrbm.decoding.rules import (
    DECODERS,
    DecodingRule,
    ExpectedMetric,
    Threshold,
    decoder_constraint,
    resolve_decoder,
)
from skcrbm.model_selection.folds import out_of_fold
from skcrbm.targets.kinds import TargetsMixin, label_output, make_targets
from skcrbm.targets.known import KnownLabelsMixin
from skcrbm.utils.classifiers import (
    call_given,
    check_outer_fitted,
    explained_fit,
    final_model,
    label_marginals,
)
from skcrbm.utils.fitting import (
    CallbackSupportMixin,
    EpochCallbacks,
    all_or_nothing,
    with_callbacks,
)
from skcrbm.utils.labels import in_rows_of, label_sets_of, may_be_empty
from skcrbm.utils.options import Integer, tags_of_inner
from skcrbm.utils.validation import check_sample_weight, count_rows

# Score of a row without true and predicted labels, as in scikit-learn, if the rule leaves it open.
_ZERO_DIVISION = 0.0


class DecodedClassifier(CallbackSupportMixin, KnownLabelsMixin, MetaEstimatorMixin, BaseEstimator):
    """A multi-label classifier whose labels are chosen for a metric.

    `fit` fits the classifier without changes; `predict` turns its probabilities into labels by
    another rule than "more probable than not". 1-D y is passed through, because the most probable
    class is the right prediction there.

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        Classifier that takes a 2-D indicator y; its `predict_proba` may return an array (n, L) or
        a list of L arrays (n, 2).
    decode : str or object, default="expected_f1"
        Rule that predicts labels, by name or as an object of `skcrbm.decoding` with options:

        - "expected_f1", "expected_jaccard" (`ExpectedMetric`): the labels of the largest expected
          F1 or Jaccard index of the row. By default labels are independent given x, with the
          probabilities of `predict_proba`. ``ExpectedMetric("f1", n_samples=200)`` takes draws
          from the joint distribution in their place, if the estimator has
          ``sample(X, n_samples, random_state=...)`` as `CRBMClassifier` has, also as the last
          step of a `Pipeline`;
        - "threshold" (`Threshold`): the labels with probabilities at or above a threshold that is
          the best for a metric, fitted by cross-validation;
        - "marginal": the labels with probability 0.5 or more;
        - "label_set": the most probable of the label sets seen in fit, by the joint distribution
          if the estimator has this rule itself, else as if labels were independent given x;
        - "map", "marginal_map", "hinge": the best of all label vectors, by the joint distribution;
          the estimator must have the rule itself, as `CRBMClassifier` has.

        A row with no true and no predicted label scores 0, as in scikit-learn's `f1_score`, unless
        the rule has another `zero_division`. If every row of fit had a label, a label is always
        predicted (`allow_empty_`).
    n_jobs : int, default=None
        Number of folds of ``decode="threshold"`` that are fitted at once.
    random_state : int, RandomState or None, default=None
        Seed of the draws, fixed in `fit`: the same row in the same place is predicted in the same
        way each time.

    Attributes
    ----------
    estimator_ : classifier
        The classifier, fitted on all rows.
    allow_empty_ : bool
        Whether a row may be predicted to have no label, as in `CRBMClassifier`. Even if not, no
        label is predicted if all labels have probability 0, or all draws are empty.
    label_sets_ : ndarray (n_sets, n_outputs)
        The distinct complete label vectors of 2-D y in `fit`, for ``decode="label_set"``.
    thresholds_ : ndarray (n_outputs,)
        Thresholds on the probabilities, with ``decode="threshold"`` and 2-D y.
    classes_ : ndarray of shape (n_outputs,) or (n_classes,)
        Numbers of the labels of a 2-D y, or the classes of 1-D y.
    label_names_ : ndarray of str (n_outputs,)
        Names of the labels if y has names, as a data frame or a series; see `set_label_output`.
    n_features_in_, feature_names_in_
        As in scikit-learn, if the estimator has them.

    See Also
    --------
    skcrbm.CRBMClassifier : Takes these rules as its `decode`, under its joint distribution.
    sklearn.model_selection.TunedThresholdClassifierCV : A threshold for binary y.

    Notes
    -----
    Known labels, `y_known`, are passed to the estimator's `predict_proba`, `sample` or `predict`.
    `CRBMClassifier`, `MSSVMCRBM` and `LMBMClassifier` take them, also as the last step of a
    `Pipeline` or in `GridSearchCV`. With any other estimator `y_known` is an error, because the
    other labels would be predicted as if no label were known.

    NaN in y (not observed) is passed on to the estimator and left out of the search for
    thresholds. With metadata routing, `fit` passes on the metadata that the estimator requests;
    without it, `sample_weight` and all other keyword arguments.

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

    estimator_: Any
    label_sets_: Any
    allow_empty_: bool
    _targets: Any
    _seed: int

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict_proba"])],
        "decode": decoder_constraint(DECODERS),
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        decode: str | DecodingRule = "expected_f1",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.estimator = estimator
        self.decode = decode
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
        """Fit the classifier, and the thresholds if `decode` is a `Threshold`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that the estimator takes.
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            0/1 indicator matrix, NaN where not observed if the estimator takes it; or classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, for the estimator and the thresholds.
        **fit_params : dict
            Further arguments of the estimator's `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If y or a parameter is invalid, or the estimator cannot serve the decoding rule.
        """
        rule = self._checked_rule(self.estimator)
        params = self._fit_params(sample_weight, fit_params)
        targets = make_targets(y, estimator=self)
        thresholds = targets.multilabel and isinstance(rule, Threshold)
        callbacks = EpochCallbacks(self, 1 + thresholds, X, y, sample_weight, "cross-validation")
        y = targets.for_classifier(y)
        estimator: Any = clone(self.estimator)
        with callbacks.inner_fit(estimator, "fit-estimator"), explained_fit(estimator, y):
            estimator.fit(X, y, **params)
        found = {
            "estimator_": estimator,
            "_targets": targets,
            "classes_": targets.classes,
            "allow_empty_": True,
        }
        if targets.multilabel:
            visible = targets.encode(y)[_positive(sample_weight, y)]
            found["allow_empty_"] = may_be_empty(visible)
            found["label_sets_"] = label_sets_of(visible)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(found["estimator_"], name):
                found[name] = getattr(found["estimator_"], name)
        if thresholds and isinstance(rule, Threshold):
            callbacks.begin_epoch(1)
            unseen = out_of_fold(
                self.estimator,
                X,
                y,
                cv=rule.cv,
                respond=_marginals,
                n_jobs=self.n_jobs,
                fit_params=params,
            )
            callbacks.end_epoch(None)
            found["thresholds_"] = rule.find(
                y,
                unseen,
                zero_division=_ZERO_DIVISION,
                sample_weight=sample_weight,
                allow_empty=found["allow_empty_"],
            )
        found["_seed"] = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        for name in ("n_features_in_", "feature_names_in_", "thresholds_", "label_sets_"):
            vars(self).pop(name, None)  # of an earlier fit
        vars(self).update(found)
        callbacks.end()
        return self

    def _checked_rule(self, estimator) -> DecodingRule:
        """Return the decoding rule; ValueError if the estimator cannot serve it."""
        rule = resolve_decoder(self.decode)
        model = final_model(estimator)[0]
        if isinstance(rule, ExpectedMetric) and rule.n_samples and not hasattr(model, "sample"):
            raise ValueError(
                f"n_samples={rule.n_samples} needs an estimator with the method sample, such as "
                "CRBMClassifier, alone or as the last step of a Pipeline; "
                f"{type(model).__name__} has no such method. "
                "n_samples=None takes any estimator with predict_proba"
            )
        if not rule.takes_marginals and not _decodes_by(model, rule):
            rules = [DECODERS.get(name)() for name in DECODERS]
            possible = [r.name for r in rules if r.takes_marginals or _decodes_by(model, r)]
            raise ValueError(
                f"decode={rule.name!r} needs an estimator with a joint distribution that takes "
                f"this rule as its own decode; {type(model).__name__} does not. Possible rules are "
                f"{', '.join(map(repr, possible))}"
            )
        return rule

    def _fit_params(self, sample_weight, fit_params):
        """Return the arguments of the estimator's `fit` besides X and y."""
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
            given them, if the estimator conditions on known labels; see Notes. The columns of a
            data frame are matched by name; labels without a column are not known.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples,)

        Raises
        ------
        ValueError
            If an argument is invalid, the estimator cannot condition on `y_known`, or it cannot
            serve a rule that was set after `fit`.
        """
        check_outer_fitted(self)
        self._validate_params()  # set_params may have changed them after fit
        rule = self._checked_rule(self.estimator_)
        if not self._targets.multilabel:
            self._targets.check_known(y_known, None)
            return np.asarray(self.estimator_.predict(X))
        known = self._targets.check_known(in_rows_of(y_known, X), count_rows(X))
        if rule.prefers_joint and _decodes_by(final_model(self.estimator_)[0], rule):
            model, rows = final_model(self.estimator_, X)
            given = {} if known is None else {"y_known": known}
            labels = np.asarray(copy.copy(model).set_params(decode=rule).predict(rows, **given))
        else:
            labels = rule.decode(self._posterior(rule, X, known))
        return self._targets.decode(labels)

    def _posterior(self, rule, X, known):
        """Return the `ClassifierPosterior` of the rows."""

        def sampler(n_samples):
            options = {"n_samples": n_samples, "random_state": self._seed}
            return call_given(self.estimator_, "sample", X, known, **options)

        sampled = isinstance(rule, ExpectedMetric) and rule.n_samples is not None
        return ClassifierPosterior(
            np.empty((count_rows(X), 0)) if sampled else self._proba(X, known),
            known,
            self.label_sets_,
            thresholds=getattr(self, "thresholds_", None),
            allow_empty=self.allow_empty_,
            zero_division=_ZERO_DIVISION,
            sampler=sampler,
        )

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
            P(y_i = 1 | x) of 2-D y, also if the estimator returns a list of arrays.
        """
        check_outer_fitted(self)
        if not self._targets.multilabel:
            self._targets.check_known(y_known, None)
            proba = np.asarray(self.estimator_.predict_proba(X))
            # OneVsRestClassifier has two columns even for a single class.
            return np.ones((len(proba), 1)) if len(self._targets.classes) == 1 else proba
        known = self._targets.check_known(in_rows_of(y_known, X), count_rows(X))
        return self._proba(X, known)

    @label_output
    def predict_log_proba(self, X, y_known=None):
        """Logarithms of `predict_proba`.

        If the estimator is a model of this package, it computes the logarithms from log-odds, so
        that they are finite if a probability is rounded to 0. With any other estimator of 2-D y,
        and for known labels, a probability of 0 has the logarithm -inf.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples, n_classes)
        """
        check_outer_fitted(self)
        if not self._targets.multilabel:
            self._targets.check_known(y_known, None)
            if len(self._targets.classes) == 1:
                return np.zeros((count_rows(X), 1))
            if hasattr(self.estimator_, "predict_log_proba"):
                return np.asarray(self.estimator_.predict_log_proba(X))
            known, direct = None, False
        else:
            known = self._targets.check_known(in_rows_of(y_known, X), count_rows(X))
            direct = isinstance(final_model(self.estimator_)[0], TargetsMixin)
        if direct:
            return np.asarray(call_given(self.estimator_, "predict_log_proba", X, known))
        with np.errstate(divide="ignore"):
            return np.log(self._proba(X, known))

    def _proba(self, X, known):
        """Return P(y_i = 1 | x, known) (N, L) of 2-D y; `known` is (N, L) or None."""
        proba = call_given(self.estimator_, "predict_proba", X, known)
        proba = self._targets.marginals(proba, getattr(self.estimator_, "classes_", None))
        return proba if known is None else np.where(np.isnan(known), proba, known)


def _positive(sample_weight, y):
    """Return an index of the rows of y with a positive weight."""
    if sample_weight is None:
        return slice(None)
    return check_sample_weight(sample_weight, y) > 0


def _decodes_by(model, rule: DecodingRule) -> bool:
    """Return True if the model has a parameter `decode` that takes the rule."""
    if not isinstance(model, BaseEstimator) or "decode" not in model.get_params(deep=False):
        return False
    constraints = getattr(model, "_parameter_constraints", {}).get("decode", ())
    return any(make_constraint(part).is_satisfied_by(rule) for part in constraints)


def _marginals(model, X):
    """Return P(y_i = 1 | x) (N, L) of a fitted classifier."""
    return label_marginals(model.predict_proba(X), getattr(model, "classes_", None))
