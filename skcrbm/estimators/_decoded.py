"""DecodedClassifier: choose labels from the probabilities of any classifier by a decoding rule."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import has_fit_parameter

from skcrbm.decoding.posterior import ZERO_DIVISION, ClassifierPosterior
from skcrbm.decoding.rules import (
    DECODERS,
    DecodingRule,
    ExpectedMetric,
    Threshold,
    decoder_constraint,
    resolve_decoder,
)
from skcrbm.model_selection.folds import out_of_fold
from skcrbm.targets.classifier import (
    TargetsMixin,
    check_outer_fitted,
    label_output,
    score_with_known,
)
from skcrbm.targets.distribution import LabelDistribution
from skcrbm.targets.label_sets import label_sets_of, may_be_empty
from skcrbm.targets.proba import (
    class_answers,
    dense_answer,
    label_answers,
    proba_of_classes,
    require_rows,
)
from skcrbm.targets.wrapped import (
    WrappingClassifier,
    call_given,
    explained_fit,
    features_of,
    final_model,
    marginals_of,
    wrapped_rows,
)
from skcrbm.utils.fitting import (
    CallbackSupportMixin,
    EpochCallbacks,
    all_or_nothing,
    with_callbacks,
)
from skcrbm.utils.options import Integer, ProbabilisticClassifier, tags_of_inner
from skcrbm.utils.sklearn_private import (
    fit_context,
    make_constraint,
    routing_enabled,
    safe_indexing,
)
from skcrbm.utils.validation import count_rows

# Up to this number of labels, samples of a row are drawn from the table of all label vectors. With
# 200 samples of 1,000 rows and 8 labels this takes .1 to .2 processor seconds, and 1.6 to 2.1
# seconds if each row is drawn alone; with 12 labels .4 to 1.9 and 1.5 to 3.7 seconds.
_MOST_LABELS_OF_TABLES = 12


class DecodedClassifier(CallbackSupportMixin, WrappingClassifier):
    """Multi-label classifier whose predictions optimise a given metric.

    `fit` fits the given classifier as it is. `predict` chooses labels from its probabilities by the
    rule `decode`, for example the label set with the largest expected F1, instead of all labels
    with a probability above 1/2. For a 1-D y `predict` returns the predictions of the classifier.

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        Classifier that supports a 2-D indicator y. Its `predict_proba` may return an array (n, L)
        or a list of L arrays (n, 2).
    decode : str or object, default="expected_f1"
        Rule by which `predict` chooses labels, by name or as an object of `skcrbm.decoding` with
        options:

        - "expected_f1", "expected_jaccard" (`ExpectedMetric`): the labels with the largest expected
          F1 or Jaccard index of the row. By default the expectation assumes that labels are
          independent given x, with the probabilities of `predict_proba`.
          ``ExpectedMetric("f1", n_samples=200)`` uses samples from the joint distribution instead;
          the estimator, or the last step of a `Pipeline`, must then have a method
          ``sample(X, n_samples, random_state=...)`` like `CRBMClassifier`;
        - "threshold" (`Threshold`): the labels with a probability of at least a threshold that is
          best for a metric; `fit` finds the threshold by cross-validation;
        - "marginal": the labels with a probability of at least 0.5;
        - "label_set": the most probable of the label sets seen in fit. If the estimator has a
          parameter `decode` that accepts this rule, its joint distribution is used; otherwise
          labels are treated as independent given x;
        - "map", "marginal_map", "hinge": the best of all label vectors under the joint
          distribution. The estimator must have a parameter `decode` that accepts the rule, as in
          `CRBMClassifier`.

        A row with neither true nor predicted labels scores 0, as in scikit-learn's `f1_score`,
        unless the rule has another `zero_division`. If every training row had a label
        (`allow_empty_` is False), at least one label is predicted.
    n_jobs : int, default=None
        Number of folds that are fitted in parallel with ``decode="threshold"``.
    random_state : int, RandomState or None, default=None
        Seed of the samples. It is fixed in `fit`, so that repeated predictions for the same X are
        equal.

    Attributes
    ----------
    estimator_ : classifier
        Classifier fitted on all rows.
    allow_empty_ : bool
        True if `predict` may return rows without a positive label, as in `CRBMClassifier`. Even if
        it is False, a prediction is empty if all labels have probability 0, or if all samples are
        empty.
    label_sets_ : ndarray (n_sets, n_outputs)
        Distinct complete label vectors of a 2-D y in `fit`, for ``decode="label_set"``.
    thresholds_ : ndarray (n_outputs,)
        Thresholds on the probabilities, if ``decode="threshold"`` and y is 2-D.
    classes_ : ndarray of shape (n_outputs,) or (n_classes,)
        Numbers 0, ..., n_outputs - 1 of the labels of a 2-D y, or the classes of a 1-D y.
    label_names_ : ndarray of str (n_outputs,)
        Names of the labels if y is a data frame or a series with names; see `set_label_output`.
    n_features_in_, feature_names_in_
        As in scikit-learn, if the estimator has them.

    See Also
    --------
    skcrbm.CRBMClassifier : Has these rules as its own parameter `decode`.
    sklearn.model_selection.TunedThresholdClassifierCV : Tune a threshold for a binary y.

    Notes
    -----
    Known labels, `y_known`, are passed to the estimator's `predict_proba`, `sample` or `predict`.
    `CRBMClassifier`, `MSSVMCRBM` and `LMBMClassifier` support them, also as the last step of a
    `Pipeline` or in `GridSearchCV`. If another estimator gets `y_known`, an error is raised,
    because it would predict the other labels without using the known labels.

    The estimator gets y with its missing labels (NaN); the search for thresholds ignores them.
    Cross-validate and search with `skcrbm.model_selection` if y has missing labels: the functions
    there have scikit-learn's names and accept them. If metadata routing is enabled, `fit` passes on
    the metadata that the estimator requests, otherwise `sample_weight` and all other keyword
    arguments.

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
        "estimator": [ProbabilisticClassifier()],
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
        """Return a `MetadataRouter` that passes metadata of `fit` on to the estimator's `fit`."""
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
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None, **fit_params):
        """Fit the classifier, and find thresholds if `decode` is a `Threshold`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs of the estimator.
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            0/1 indicator matrix, or classes. Missing labels may be NaN if the estimator supports
            them.
        sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
            Weights of the rows, or of single labels if the estimator supports them, for the
            estimator and the thresholds.
        **fit_params : dict
            Further arguments of the estimator's `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If y or a parameter is invalid, or the estimator does not support the decoding rule.
        """
        rule = self._checked_rule(self.estimator)
        rows = wrapped_rows(X, y, sample_weight, type(self).__name__, self)
        params = self._fit_params(rows.weight, fit_params)
        targets = rows.targets
        thresholds = targets.multilabel and isinstance(rule, Threshold)
        callbacks = EpochCallbacks(self, 1 + thresholds, X, y, sample_weight, "cross-validation")
        estimator: Any = clone(self.estimator)
        with callbacks.inner_fit(estimator, "fit-estimator"), explained_fit(estimator, X, rows.y):
            estimator.fit(X, rows.y, **params)
        found = {
            "estimator_": estimator,
            "_targets": targets,
            "classes_": targets.classes,
            "allow_empty_": True,
            **features_of(estimator),
        }
        if targets.multilabel:
            visible = _observed_labels(rows)
            found["allow_empty_"] = may_be_empty(visible)
            found["label_sets_"] = label_sets_of(visible)
        if thresholds and isinstance(rule, Threshold):
            callbacks.begin_epoch(1)
            unseen = out_of_fold(
                self.estimator,
                X,
                rows.y,
                cv=rule.cv,
                respond=partial(marginals_of, targets=targets),
                n_jobs=self.n_jobs,
                fit_params=params,
            )
            callbacks.end_epoch(None)
            found["thresholds_"] = rule.find(
                rows.y,
                unseen,
                zero_division=ZERO_DIVISION,
                sample_weight=rows.weight,
                allow_empty=found["allow_empty_"],
            )
        found["_seed"] = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        for name in ("n_features_in_", "feature_names_in_", "thresholds_", "label_sets_"):
            vars(self).pop(name, None)  # an earlier fit may have set this attribute
        vars(self).update(found)
        callbacks.end()
        return self

    def _checked_rule(self, estimator) -> DecodingRule:
        """Return the decoding rule; raise a ValueError if the estimator does not support it."""
        rule = resolve_decoder(self.decode)
        model = final_model(estimator)[0]
        if hasattr(model, "satisfies"):
            raise ValueError(
                f"{type(model).__name__} must be used without {type(self).__name__}. It chooses "
                "labels by its own parameter decode, so that they satisfy the rules between labels"
            )
        if isinstance(rule, ExpectedMetric) and rule.n_samples and not hasattr(model, "sample"):
            raise ValueError(
                f"n_samples={rule.n_samples} needs an estimator with a method sample, such as "
                "CRBMClassifier, alone or as the last step of a Pipeline; "
                f"{type(model).__name__} has no such method. "
                "Use n_samples=None, which only needs predict_proba"
            )
        if not rule.takes_marginals and not _decodes_by(model, rule):
            rules = [DECODERS.get(name)() for name in DECODERS]
            possible = [r.name for r in rules if r.takes_marginals or _decodes_by(model, r)]
            raise ValueError(
                f"decode={rule.name!r} needs an estimator with a joint distribution whose own "
                f"parameter decode accepts this rule; {type(model).__name__} is not such an "
                f"estimator. For this estimator decode can be {', '.join(map(repr, possible))}"
            )
        return rule

    def _fit_params(self, sample_weight, fit_params):
        """Return the keyword arguments for the estimator's `fit`."""
        if sample_weight is not None:
            fit_params = {**fit_params, "sample_weight": sample_weight}
        if routing_enabled():
            return process_routing(self, "fit", **fit_params).estimator.fit
        if sample_weight is not None and not has_fit_parameter(self.estimator, "sample_weight"):
            raise ValueError(
                f"sample_weight is not supported by {type(self.estimator).__name__}.fit. If the "
                "estimator is a Pipeline, enable metadata routing, with which it passes weights to "
                "its steps"
            )
        return fit_params

    @label_output
    def predict(self, X, y_known=None):
        """Predict labels by the decoding rule `decode`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels that are known before prediction, and NaN for the other labels, which are
            predicted given the known labels. The estimator must support known labels; see Notes.
            Data frames are matched to the labels by column name; labels without a column are
            unknown.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples,)

        Raises
        ------
        ValueError
            If an argument is invalid, or the estimator does not support `y_known` or a decoding
            rule that was set after `fit`.
        """
        check_outer_fitted(self)
        self._validate_params()  # `set_params` may have changed parameters after the fit
        rule = self._checked_rule(self.estimator_)
        if not self._targets.multilabel:
            self._targets.check_known(y_known, X)
            return class_answers(self.estimator_.predict(X))
        known = self._targets.check_known(y_known, X)
        if rule.prefers_joint and _decodes_by(final_model(self.estimator_)[0], rule):
            model, rows = final_model(self.estimator_, X)
            given = {} if known is None else {"y_known": known}
            labels = label_answers(
                copy.copy(model).set_params(decode=rule).predict(rows, **given),
                self._targets.n_visible,
                self._targets.names,
            )
        else:
            labels = rule.decode(self._posterior(rule, X, known))
        return self._targets.decode(labels)

    def _posterior(self, rule, X, known):
        """Return the `ClassifierPosterior` of the rows, which holds probabilities or a sampler."""

        def sampler(n_samples):
            distribution = LabelDistribution(self.estimator_, self._targets)
            few = distribution.n_labels <= _MOST_LABELS_OF_TABLES
            if few and distribution.is_joint and count_rows(X):
                return distribution.draw_from_tables(X, n_samples, self._seed, known)
            # The random numbers of a row may depend on its index in the call of `sample`, so each
            # row is drawn alone. Steps of a pipeline transform all rows at once.
            model, inputs = final_model(self.estimator_, X)
            inputs = inputs.tocsr() if issparse(inputs) else inputs  # once for all rows
            options = {"n_samples": n_samples, "random_state": self._seed}
            draws = []
            for rows in np.array_split(np.arange(count_rows(X)), max(count_rows(X), 1)):
                given = None if known is None else known[rows]
                x = safe_indexing(inputs, rows)
                draws.append(np.asarray(call_given(model, "sample", x, given, **options)))
            return np.concatenate(draws)

        sampled = isinstance(rule, ExpectedMetric) and rule.n_samples is not None
        return ClassifierPosterior(
            np.empty((count_rows(X), 0)) if sampled else self._proba(X, known),
            known,
            self.label_sets_,
            thresholds=getattr(self, "thresholds_", None),
            allow_empty=self.allow_empty_,
            sampler=sampler,
        )

    score: ClassVar[Callable[..., float]] = score_with_known

    @label_output
    def predict_proba(self, X, y_known=None):
        """Return the probabilities of the fitted classifier.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples, n_classes)
            P(y_i = 1 | x) for a 2-D y, also if the estimator returns a list of arrays, or the
            probabilities of the classes of a 1-D y.
        """
        check_outer_fitted(self)
        if not self._targets.multilabel:
            self._targets.check_known(y_known, X)
            return self._class_proba(self.estimator_.predict_proba(X), X)
        known = self._targets.check_known(y_known, X)
        return self._proba(X, known)

    @label_output
    def predict_log_proba(self, X, y_known=None):
        """Return the logarithms of `predict_proba`.

        Estimators of this package compute the logarithms from log-odds, so that they are finite
        even if a probability is rounded to 0. The result is -inf for a probability of 0 that
        another estimator predicts for a label of a 2-D y, and for labels that are known to be 0.

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
            self._targets.check_known(y_known, X)
            if len(self._targets.classes) == 1:
                return np.zeros((count_rows(X), 1))
            if hasattr(self.estimator_, "predict_log_proba"):
                return self._class_proba(self.estimator_.predict_log_proba(X), X, -np.inf)
            with np.errstate(divide="ignore"):
                return np.log(self._class_proba(self.estimator_.predict_proba(X), X))
        else:
            known = self._targets.check_known(y_known, X)
            direct = isinstance(final_model(self.estimator_)[0], TargetsMixin)
        if direct:
            return dense_answer(call_given(self.estimator_, "predict_log_proba", X, known))
        with np.errstate(divide="ignore"):
            return np.log(self._proba(X, known))

    def _class_proba(self, proba, X, fill=0.0):
        """Return the probabilities (N, K) of the classes of a 1-D y, or their logarithms."""
        name = "predict_proba(X)" if fill == 0.0 else "predict_log_proba(X)"
        classes = getattr(self.estimator_, "classes_", None)
        found = proba_of_classes(proba, classes, self._targets.classes, name, fill)
        require_rows(found, count_rows(X), name)
        return found

    def _proba(self, X, known):
        """Return the probabilities (N, L) of the labels of a 2-D y, P(y_i = 1 | x, known)."""
        proba = marginals_of(self.estimator_, X, known, self._targets)
        return proba if known is None else np.where(np.isnan(known), proba, known)


def _observed_labels(rows):
    """Return the labels (n, L) of the n rows of positive weight; labels of weight 0 become NaN."""
    if rows.weight is None:
        return rows.visible
    if rows.weight.ndim == 2:
        observed = np.where(rows.weight > 0, rows.visible, np.nan)
        return observed[rows.weight.any(axis=1)]
    return rows.visible[rows.weight > 0]


def _decodes_by(model, rule: DecodingRule) -> bool:
    """Return True if the model has a parameter `decode` that accepts the rule."""
    if not isinstance(model, BaseEstimator) or "decode" not in model.get_params(deep=False):
        return False
    constraints = getattr(model, "_parameter_constraints", {}).get("decode", ())
    return any(make_constraint(part).is_satisfied_by(rule) for part in constraints)
