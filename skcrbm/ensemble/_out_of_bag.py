"""Predictions of a classifier as features, out of bag or out of fold for its training rows."""

from numbers import Real

import numpy as np
from scipy.special import logit
from sklearn.base import (
    BaseEstimator,
    MetaEstimatorMixin,
    TransformerMixin,
    _fit_context,
    clone,
)
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from skcrbm.model_selection.folds import out_of_fold
from skcrbm.targets.kinds import BinaryTargets, make_targets
from skcrbm.utils.classifiers import check_outer_fitted, explained_fit, final_model
from skcrbm.utils.fitting import all_or_nothing
from skcrbm.utils.labels import require_complete, require_two_classes
from skcrbm.utils.options import Integer, check_parameters, tags_of_inner
from skcrbm.utils.pickling import Versioned
from skcrbm.utils.validation import check_same_length, note_features


class OutOfBagLogOdds(TransformerMixin, Versioned, MetaEstimatorMixin, BaseEstimator):
    """Log-odds of the labels by another classifier, as inputs of a model of their dependence.

    ``fit_transform(X, y)`` returns the log-odds of each row by trees, or a model, that did not see
    this row, so that a model fitted on the log-odds learns how reliable they are.
    ``fit(X, y).transform(X)`` returns the log-odds of the full model, which has memorised its
    training rows, and is meant for new rows. As with scikit-learn's `TargetEncoder` the two methods
    differ on the training rows; a `Pipeline` and a `FeatureUnion` call the right method.

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        Classifier, which gets the indicator matrix of a 2-D y.
    label_powerset : bool, default=False
        True to fit the classifier on the index of each row's label set in place of the indicator
        matrix, and to sum the probabilities of the sets with a label: it then sees labels
        together. Every label must be observed.
    cv : "oob", int, splitter or iterable, default="oob"
        Source of the log-odds of the training rows. "oob" uses the out-of-bag trees of a single
        fit, for forests with ``bootstrap=True`` and bagging. Otherwise models of cross-validation
        folds are used; an int is a number of stratified folds.
    clip : float in (0, 0.5), default=0.01
        Probabilities are clipped to [clip, 1 - clip]: trees often predict exactly 0 or 1.
    n_jobs : int, default=None
        Number of cross-validation folds fitted at the same time. Trees follow the `n_jobs` of the
        forest.
    random_state : int, RandomState or None, default=None
        Seed from which all `random_state` parameters of the estimator are set, unless it is None.

    Attributes
    ----------
    estimator_ : classifier
        Classifier fitted on all rows.
    classes_ : ndarray (n_outputs,) or (n_classes,)
        Classes.
    label_sets_ : ndarray (n_sets, n_outputs)
        Label sets of y, with ``label_powerset=True``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X has names.

    See Also
    --------
    sklearn.ensemble.StackingClassifier : Stacking of several estimators for a 1-D y.

    Notes
    -----
    There is a column for each label of a 2-D y, a single column for a binary 1-D y, and a column
    per class for a multiclass 1-D y. Labels that are always 0 or always 1 in y are not learned;
    their columns are constant. A row that is in the bag of every tree gets the shares of the
    labels.

    NaN in y (not observed) needs an estimator that accepts it, and folds as `cv`.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> from sklearn.pipeline import make_pipeline, make_union
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.ensemble import OutOfBagLogOdds
    >>> X, Y = make_multilabel_classification(n_samples=150, random_state=0)
    >>> trees = ExtraTreesClassifier(50, bootstrap=True)
    >>> stacked = make_pipeline(
    ...     make_union(
    ...         OutOfBagLogOdds(trees, random_state=0),
    ...         OutOfBagLogOdds(trees, label_powerset=True, random_state=1),
    ...     ),
    ...     CRBMClassifier(alpha=0.03, random_state=0),
    ... ).fit(X, Y)
    >>> stacked[:-1].transform(X[:2]).shape, stacked.predict(X[:2]).shape
    ((2, 10), (2, 5))
    """

    _saved = ("n_features_in_", "classes_", "_targets", "estimator_")

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict_proba"])],
        "label_powerset": ["boolean"],
        "cv": ["cv_object", str],
        "clip": [Interval(Real, 0, 0.5, closed="neither")],
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator,
        *,
        label_powerset=False,
        cv="oob",
        clip=0.01,
        n_jobs=None,
        random_state=None,
    ):
        self.estimator = estimator
        self.label_powerset = label_powerset
        self.cv = cv
        self.clip = clip
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = tags_of_inner(self.estimator)
        if inner is not None:
            tags.input_tags = inner.input_tags
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def get_feature_names_out(self, input_features=None):
        """Return names of the log-odds: the class of the classifier in lower case, and the label.

        Parameters
        ----------
        input_features : ignored
            Present because the pipelines of scikit-learn pass it.

        Returns
        -------
        names : ndarray of str objects (n_features_out,)
            Names such as "extratreesclassifier__Beach"; the classifier may be the last step of a
            pipeline. Labels without a name have their number. The labels of a 1-D y are its
            classes; for two classes only the second is used.
        """
        check_is_fitted(self, "estimator_")
        prefix = type(final_model(self.estimator_)[0]).__name__.lower()
        names = [f"{prefix}__{label}" for label in self._targets.visible_names()]
        return np.array(names, dtype=object)

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y):
        """Fit the classifier on all rows, for `transform`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            Labels.

        Returns
        -------
        self : object
            This object.

        Raises
        ------
        ValueError
            If y is neither an indicator matrix nor a vector of classes, if no label varies, or if
            the estimator does not support `cv`.
        """
        estimator, X, targets = self._prepare(X, y)
        with explained_fit(estimator, targets):
            self.estimator_ = estimator.fit(X, targets)
        return self

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=False)
    def fit_transform(self, X, y):
        """Fit, and return log-odds of the training rows by trees or models that did not see them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            Labels.

        Returns
        -------
        log_odds : ndarray of shape (n_samples, n_features_out)
            Log-odds of the labels.

        Raises
        ------
        ValueError
            For the same reasons as in `fit`.
        """
        estimator, X, targets = self._prepare(X, y)
        if isinstance(self.cv, str):
            with explained_fit(estimator, targets):
                self.estimator_ = estimator.set_params(oob_score=True).fit(X, targets)
            return self._log_odds(self._out_of_bag(targets))
        marginals = out_of_fold(
            estimator,
            X,
            targets,
            cv=self.cv,
            respond=self._marginals,
            stratify=self.label_sets_[targets] if self.label_powerset else targets,
            n_jobs=self.n_jobs,
        )
        self.estimator_ = estimator.fit(X, targets)
        return self._log_odds(marginals)

    def transform(self, X):
        """Return the log-odds of new rows by the classifier that was fitted on all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        log_odds : ndarray of shape (n_samples, n_features_out)
            Log-odds of the labels.
        """
        check_outer_fitted(self, "estimator_")
        check_parameters(self, ["clip"])
        return self._log_odds(self._marginals(self.estimator_, X))

    # ------------------------------------------------------------------ inside

    def _prepare(self, X, y):
        """Return a clone of the estimator, X, and the target of its fit."""
        targets = make_targets(y, estimator=self)
        if isinstance(self.cv, str) and self.cv != "oob":
            raise ValueError(f"cv must be 'oob', a number of folds or a splitter, got {self.cv!r}")
        note_features(self, X)
        check_same_length(X, y)
        estimator = clone(self.estimator)
        vars(self).pop("label_sets_", None)  # from an earlier fit
        if isinstance(self.cv, str):
            self._check_out_of_bag(estimator)
        if self.random_state is not None:
            rng = check_random_state(self.random_state)
            names = sorted(estimator.get_params())
            names = [n for n in names if n == "random_state" or n.endswith("__random_state")]
            estimator.set_params(**{name: rng.randint(np.iinfo(np.int32).max) for name in names})
        if targets.multilabel:
            y = self._label_targets(targets.encode(y))
        else:
            if self.label_powerset:
                raise ValueError("label_powerset=True is for a 2-D y with more than one column")
            require_two_classes(targets.classes)
            y = targets.for_classifier(y)
        self._targets = targets
        self.classes_ = targets.classes
        return estimator, X, y

    def _label_targets(self, Y):
        missing = np.isnan(Y)
        if self.label_powerset or isinstance(self.cv, str):
            require_complete(
                Y,
                "label_powerset=True and cv='oob' need every entry. Use folds, as in cv=5, with an "
                "estimator that accepts NaN",
            )
        self._constant = np.where(missing, 0.0, Y).max(axis=0)
        self._varying = (Y == 0).any(axis=0) & (Y == 1).any(axis=0)
        if not self._varying.any():
            raise ValueError(
                "y must hold at least one label that is 0 in some rows and 1 in others"
            )
        if self.label_powerset:
            self.label_sets_, index = np.unique(Y.astype(np.int64), axis=0, return_inverse=True)
            return index.ravel()
        Y = Y[:, self._varying]
        if Y.shape[1] == 1:
            require_complete(Y, "only one label varies, and it needs every entry. Drop these rows")
        Y = Y if np.isnan(Y).any() else Y.astype(np.int64)
        return Y if Y.shape[1] > 1 else Y[:, 0]

    def _marginals(self, model, X):
        """Return P(y_i = 1 | x), or the probabilities of the classes, (n, n_features_out)."""
        proba = model.predict_proba(X)
        if hasattr(self, "label_sets_"):
            return np.clip(np.asarray(proba) @ self.label_sets_[model.classes_], 0, 1)
        if not self._targets.multilabel:
            return self._targets.marginals(proba, model.classes_)
        if self._varying.sum() == 1:  # the estimator was given a 1-D y
            return self._with_constant(BinaryTargets(np.array([0, 1])).marginals(proba))
        return self._with_constant(self._targets.marginals(proba, model.classes_))

    def _with_constant(self, varying):
        full = np.tile(self._constant, (len(varying), 1))
        full[:, self._varying] = varying
        return full

    def _check_out_of_bag(self, estimator):
        params, name = estimator.get_params(deep=False), type(estimator).__name__
        if "oob_score" not in params:
            raise ValueError(
                "cv='oob' needs an estimator with oob_score, such as a forest with "
                f"bootstrap=True; {name} has no oob_score: give a number of folds, as in cv=5"
            )
        if params.get("bootstrap") is False:
            raise ValueError(
                f"cv='oob' needs bootstrap=True: each tree of this {name} has seen every row; set "
                "it, or give a number of folds, as in cv=5"
            )

    def _out_of_bag(self, targets):
        """Return marginals of the training rows by the trees that did not see them."""
        proba = self.estimator_.oob_decision_function_
        if proba.ndim == 3:  # (n, 2, varying labels)
            seen = np.nan_to_num(proba).sum(axis=1) > 0
            return self._with_constant(np.where(seen, proba[:, 1], targets.mean(axis=0)))
        unseen = ~(np.nan_to_num(proba).sum(axis=1) > 0)
        proba = proba.copy()
        proba[unseen] = np.bincount(np.searchsorted(self.estimator_.classes_, targets))
        proba[unseen] /= len(targets)
        if hasattr(self, "label_sets_"):
            return np.clip(proba @ self.label_sets_, 0, 1)
        if not self._targets.multilabel:
            return self._targets.marginals(proba)
        return self._with_constant(proba[:, 1:])

    def _log_odds(self, marginals):
        return logit(np.clip(marginals, self.clip, 1 - self.clip))
