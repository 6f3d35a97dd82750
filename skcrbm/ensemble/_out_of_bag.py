"""Define OutOfBagLogOdds, which turns a classifier's predictions into features of another model."""

from numbers import Real
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skcrbm.ensemble._compact_forest import CompactForest, compact
from skcrbm.ensemble._row_forest import RowLabels, mean_labels, row_forest
from skcrbm.model_selection.folds import out_of_fold
from skcrbm.targets.classifier import check_outer_fitted
from skcrbm.targets.codes import require_two_classes
from skcrbm.targets.indicator import require_complete
from skcrbm.targets.kinds import BinaryTargets
from skcrbm.targets.multioutput import wrapped_targets
from skcrbm.targets.proba import (
    label_marginals,
    proba_of_classes,
    require_rows,
)
from skcrbm.targets.wrapped import explained_fit, final_model
from skcrbm.utils.fitting import all_or_nothing
from skcrbm.utils.options import Integer, ProbabilisticClassifier, check_parameters, tags_of_inner
from skcrbm.utils.pickling import SavedModel
from skcrbm.utils.sklearn_private import Interval, fit_context
from skcrbm.utils.validation import (
    check_order,
    check_same_rows,
    check_sample_weight,
    count_rows,
    note_features,
)
from skcrbm.utils.warnings import warn_user

_NAN = "y holds NaN (not observed)"


class OutOfBagLogOdds(TransformerMixin, SavedModel, MetaEstimatorMixin, BaseEstimator):
    """Transform X into log-odds of the labels, predicted by another classifier.

    The log-odds serve as inputs of a second model that adds the dependence between labels, such as
    `CRBMClassifier`. ``fit_transform(X, y)`` predicts each training row by trees, or by a model,
    that did not see this row, so that the second model learns how reliable the log-odds are.
    ``transform(X)`` is for new rows and uses the classifier that was fitted on all rows. Therefore
    ``fit(X, y).transform(X)`` differs from ``fit_transform(X, y)``, as in scikit-learn's
    `TargetEncoder`; `Pipeline` and `FeatureUnion` call the right method.

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        Classifier. If y is 2-D, it is fitted on the indicator matrix.
    label_powerset : bool, default=False
        If True, each distinct label set of y becomes a class, and the classifier is fitted on these
        classes instead of the indicator matrix, so that it can learn which labels occur together.
        The probability of a label is the sum of the probabilities of all sets that contain it.
    cv : "oob", int, splitter or iterable, default="oob"
        How the training rows are predicted. "oob" uses the out-of-bag predictions of a single fit,
        which forests with ``bootstrap=True`` and bagging provide. Otherwise each row is predicted
        by the model of a cross-validation fold; an int is a number of stratified folds.
    clip : float in (0, 0.5), default=0.01
        Probabilities are clipped to [clip, 1 - clip], because trees often predict exactly 0 or 1.
    n_jobs : int, default=None
        Number of cross-validation folds that are fitted in parallel. For the trees of a forest, set
        `n_jobs` of the forest.
    random_state : int, RandomState or None, default=None
        Seed from which all `random_state` parameters of the estimator are set. None leaves them
        unchanged.

    Attributes
    ----------
    estimator_ : classifier
        Classifier fitted on all rows. If y is 2-D and the estimator is an `ExtraTreesClassifier` or
        a `RandomForestClassifier`, this is a subclass whose trees need little memory, because they
        store only the splits, and the classes that occur in each leaf. It makes the same
        predictions as the forest and has `feature_importances_`, but its trees lack the other
        attributes of scikit-learn's `tree_`.
    classes_ : ndarray (n_outputs,) or (n_classes,)
        Indices 0, ..., n_outputs - 1 of the labels of a 2-D y, or the classes of a 1-D y.
    label_sets_ : ndarray (n_sets, n_outputs)
        Distinct label sets of the complete rows of y, if ``label_powerset=True``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X has names.

    See Also
    --------
    sklearn.ensemble.StackingClassifier : Stack several estimators for a 1-D y.

    Notes
    -----
    The output has a column for each label of a 2-D y, a single column for a binary 1-D y, and a
    column for each class of a multiclass 1-D y. Labels that are always 0 or always 1 in y are not
    learned; their columns are constant. If `cv` is "oob" and every tree has seen a training row,
    the probabilities of this row are the shares of the labels in y.

    y may contain NaN (missing labels), and `sample_weight` may hold a weight for each label of each
    row. A label of weight 0 is a missing label, and equal weights in each row are weights of rows.
    If `cv` is "oob", the estimator must then be an `ExtraTreesClassifier` or a
    `RandomForestClassifier`. Its splits are found with the largest label weight of each row, and
    with missing labels at their most frequent values. The probability of a label is the weighted
    mean of the label over the training rows in the leaves, where each label has its own weight and
    missing labels do not count. For example, if a row falls into leaves with three training rows,
    and the label is on in the first, off in the second, and missing in the third, the probability
    is 1/2. With folds as `cv`, the estimator must support NaN, or such weights, itself.

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
        "estimator": [ProbabilisticClassifier()],
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
        """Return names of the columns: the classifier's class in lower case, and the label.

        Parameters
        ----------
        input_features : ignored
            Not used; scikit-learn's pipelines pass this argument.

        Returns
        -------
        names : ndarray of str objects (n_features_out,)
            Names such as "extratreesclassifier__Beach", or "extratreesclassifier__0" if labels have
            no names. If the classifier is a pipeline, the name is the class of its last step. For a
            1-D y, the names contain the classes; if there are two classes, the only column has the
            name of the second class.
        """
        check_is_fitted(self, "estimator_")
        is_compact = isinstance(self.estimator_, CompactForest)
        model, _ = final_model(self.estimator if is_compact else self.estimator_)
        prefix = type(model).__name__.lower()
        names = [f"{prefix}__{label}" for label in self._targets.visible_names()]
        return np.array(names, dtype=object)

    @all_or_nothing
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None):
        """Fit the classifier on all rows, for later calls of `transform`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            Labels.
        sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
            Weights of the rows, which the classifier must support, or of single labels; see Notes.
            For forests of scikit-learn the weights of rows change the bootstrap samples or the
            leaves; see `RandomForestClassifier.fit`.

        Returns
        -------
        self : object
            This object.

        Raises
        ------
        ValueError
            If y is neither an indicator matrix nor a vector of classes, if all labels are constant,
            or if the estimator does not support `cv`.
        """
        estimator, X, targets, params = self._prepare(X, y, sample_weight)
        with explained_fit(estimator, X, targets):
            self.estimator_ = estimator.fit(X, targets, **params)
        return self

    @all_or_nothing
    @fit_context(prefer_skip_nested_validation=False)
    def fit_transform(self, X, y, sample_weight=None):
        """Fit, and return the log-odds of the training rows, out of bag or out of fold.

        Each row is predicted by trees, or by a model, that did not see this row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            Labels.
        sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
            Weights of the rows or of single labels, as in `fit`.

        Returns
        -------
        log_odds : ndarray of shape (n_samples, n_features_out)
            Log-odds of the labels.

        Raises
        ------
        ValueError
            If y or the estimator is invalid, as in `fit`.
        """
        estimator, X, targets, params = self._prepare(X, y, sample_weight)
        if isinstance(self.cv, str):
            oob_score = not isinstance(estimator, CompactForest)  # has its own out-of-bag method
            with explained_fit(estimator, X, targets):
                estimator = estimator.set_params(oob_score=oob_score)
                self.estimator_ = estimator.fit(X, targets, **params)
            return self._log_odds(self._out_of_bag(X, targets, params.get("sample_weight")))
        marginals = out_of_fold(
            estimator,
            X,
            targets,
            cv=self.cv,
            respond=self._marginals,
            stratify=self.label_sets_[targets] if self.label_powerset else targets,
            n_jobs=self.n_jobs,
            fit_params=params,
        )
        self.estimator_ = estimator.fit(X, targets, **params)
        return self._log_odds(marginals)

    def transform(self, X):
        """Return the log-odds of new rows, predicted by the classifier that was fitted on all rows.

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

    def _prepare(self, X, y, sample_weight):
        """Validate the arguments of a fit.

        Return a clone of the estimator, and the X, y and further parameters of its fit.
        """
        targets = wrapped_targets(y, type(self).__name__, self)
        if isinstance(self.cv, str) and self.cv != "oob":
            raise ValueError(f"cv must be 'oob', a number of folds or a splitter, got {self.cv!r}")
        note_features(self, X)
        check_same_rows(X, y)
        check_order(X=X, y=y, sample_weight=sample_weight)
        estimator: Any = clone(self.estimator)
        for name in ("label_sets_", "_rows"):  # attributes of an earlier fit
            vars(self).pop(name, None)
        if isinstance(self.cv, str):
            self._check_out_of_bag(estimator)
        if self.random_state is not None:
            rng = check_random_state(self.random_state)
            names = sorted(estimator.get_params())
            names = [n for n in names if n == "random_state" or n.endswith("__random_state")]
            estimator.set_params(**{name: rng.randint(np.iinfo(np.int32).max) for name in names})
        params = {}
        if targets.multilabel:
            Y, weight = weighted_labels(targets, y, sample_weight)
            estimator, y, weight = self._label_targets(estimator, Y, weight)
            params = {} if weight is None else {"sample_weight": weight}
        else:
            if self.label_powerset:
                raise ValueError("label_powerset=True needs a 2-D y with more than one column")
            require_two_classes(targets.classes)
            y = targets.for_classifier(y)
            if sample_weight is not None:
                params = {"sample_weight": check_sample_weight(sample_weight, X)}
        self._targets = targets
        self.classes_ = targets.classes
        return estimator, X, y, params

    def _label_targets(self, estimator, Y, weight):
        """Return the estimator, targets and weights of its fit, for the labels Y (n, L).

        The targets are the columns of Y that are not constant, or indices of label sets.
        """
        missing = np.isnan(Y)
        self._constant = np.where(missing, 0.0, Y).max(axis=0)
        self._varying = (Y == 0).any(axis=0) & (Y == 1).any(axis=0)
        if not self._varying.any():
            raise ValueError(
                "y must hold at least one label that is 0 in some rows and 1 in others"
            )
        by_label = np.ndim(weight) == 2
        if missing.any() or by_label:
            forest = row_forest(estimator) if isinstance(self.cv, str) else None
            if forest is not None:
                return self._row_targets(forest, Y, weight)
            if self.label_powerset or isinstance(self.cv, str):
                raise ValueError(
                    f"{'sample_weight holds weights of single labels' if by_label else _NAN}. With "
                    "label_powerset=True or cv='oob', OutOfBagLogOdds then needs cv='oob' and an "
                    "ExtraTreesClassifier or RandomForestClassifier as estimator. Otherwise set "
                    "label_powerset=False and a number of folds, as in cv=5, and use an estimator "
                    "that takes such a y and such weights, as CRBMClassifier does"
                )
        if self.label_powerset:
            self.label_sets_, index = np.unique(Y.astype(np.int64), axis=0, return_inverse=True)
            return compact(estimator), index.ravel(), weight
        Y, weight = Y[:, self._varying], weight[:, self._varying] if by_label else weight
        if Y.shape[1] == 1:
            require_complete(
                Y,
                "all labels but one are constant, and the remaining label must be complete. "
                "Drop the rows in which it is missing",
            )
            weight = weight[:, 0] if by_label else weight
        Y = Y if np.isnan(Y).any() else Y.astype(np.int64)
        return compact(estimator), Y if Y.shape[1] > 1 else Y[:, 0], weight

    def _row_targets(self, forest, Y, weight):
        """Return a `row_forest`, with its targets and weights, for missing or weighted labels."""
        weight = np.ones(len(Y)) if weight is None else weight
        weight = weight if weight.ndim == 2 else np.tile(weight[:, None], Y.shape[1])
        rows = self._rows = RowLabels.of(Y, weight)
        if self.label_powerset:
            self.label_sets_ = rows.sets
            _, index = np.unique(rows.completed, axis=0, return_inverse=True)
            return forest, index.ravel(), rows.weight
        targets = rows.completed[:, self._varying]
        return forest, targets if targets.shape[1] > 1 else targets[:, 0], rows.weight

    def _marginals(self, model, X):
        """Return probabilities (n, n_features_out) of labels or classes, predicted by `model`."""
        if isinstance(model, CompactForest):
            return self._from_values(model.mean_values(X, self._table(model)))
        found = self._checked_marginals(model.predict_proba(X), model)
        require_rows(found, count_rows(X))
        return found

    def _checked_marginals(self, proba, model):
        """Return the answer of `predict_proba` of a model as probabilities (n, n_features_out)."""
        classes = getattr(model, "classes_", None)
        if hasattr(self, "label_sets_"):
            proba = proba_of_classes(proba, classes, np.arange(len(self.label_sets_)))
            return np.clip(proba @ self.label_sets_, 0, 1)
        if not self._targets.multilabel:
            return self._targets.marginals(proba, classes)
        n_varying = int(self._varying.sum())
        if n_varying == 1:  # the estimator was fitted on a 1-D y
            return self._with_constant(BinaryTargets(np.array([0, 1])).marginals(proba, classes))
        return self._with_constant(label_marginals(proba, classes, "predict_proba(X)", n_varying))

    def _table(self, forest):
        """Return an array (n_classes, n_columns) with the labels that each class stands for.

        If the forest was fitted on label sets, a class stands for a label set. If its leaves hold
        training rows, a class stands for a row. None means that the forest predicts the labels
        directly.
        """
        if hasattr(self, "_rows"):
            return self._rows.counts
        if hasattr(self, "label_sets_"):
            return self.label_sets_[forest.classes_].astype(float)
        return np.array([[0.0], [1.0]]) if self._varying.sum() == 1 else None

    def _from_values(self, values):
        """Convert the mean values that a compact forest predicts to probabilities of all labels."""
        if hasattr(self, "_rows"):
            frequency = mean_labels(self._rows.weight @ self._rows.counts)
            return np.clip(mean_labels(values, frequency), 0, 1)
        values = np.clip(values, 0, 1)
        return values if hasattr(self, "label_sets_") else self._with_constant(values)

    def _set_probabilities(self, X, out_of_bag=False):
        """Return the probabilities (n, K) of `label_sets_` in the leaves of the rows of X.

        X holds the training rows if `out_of_bag` is True. A row that every tree has seen gets NaN.
        If leaves hold training rows, complete rows count with the smallest of their label weights.
        """
        forest: Any = self.estimator_
        values_of = forest.out_of_bag_values if out_of_bag else forest.mean_values
        if not hasattr(self, "_rows"):
            return np.clip(values_of(X), 0, 1)
        values = values_of(X, self._rows.set_counts)
        total = values.sum(axis=1)
        values[total == 0] = self._rows.weight @ self._rows.set_counts  # no complete row in a leaf
        return values / values.sum(axis=1, keepdims=True)

    def _with_constant(self, varying):
        full = np.tile(self._constant, (len(varying), 1))
        full[:, self._varying] = varying
        return full

    def _check_out_of_bag(self, estimator):
        params, name = estimator.get_params(deep=False), type(estimator).__name__
        if "oob_score" not in params:
            raise ValueError(
                "cv='oob' needs an estimator with a parameter oob_score, such as a forest; "
                f"{name} has no oob_score. Use a number of folds, as in cv=5"
            )
        if params.get("bootstrap") is False:
            raise ValueError(
                f"cv='oob' needs bootstrap=True, because otherwise each tree of {name} sees every "
                "row; set bootstrap=True, or use a number of folds, as in cv=5"
            )

    def _out_of_bag(self, X, targets, weight):
        """Return probabilities of the training rows, predicted by trees that did not see them.

        Rows that all trees have seen get the frequencies in y, with the `weight` (n,) of the rows.
        """
        if isinstance(self.estimator_, CompactForest):
            table = self._table(self.estimator_)
            values = self.estimator_.out_of_bag_values(X, table)
            unseen = np.isnan(values[:, 0])
            if unseen.any():
                warn_user(
                    f"{unseen.sum()} of {len(unseen)} rows were seen by every tree, so that "
                    "their probabilities are the label frequencies in y; increase n_estimators"
                )
                truth = targets.reshape(len(targets), -1) if table is None else table
                if table is not None and not hasattr(self, "_rows"):
                    truth = table[targets]
                values[unseen] = np.average(truth, axis=0, weights=weight)
            return self._from_values(values)
        proba = self.estimator_.oob_decision_function_
        if proba.ndim == 3:  # (n rows, 2 values, labels that are not constant)
            seen = np.nan_to_num(proba).sum(axis=1) > 0
            frequency = np.average(targets, axis=0, weights=weight)
            return self._with_constant(np.where(seen, proba[:, 1], frequency))
        unseen = ~(np.nan_to_num(proba).sum(axis=1) > 0)
        proba = proba.copy()
        count = np.bincount(np.searchsorted(self.estimator_.classes_, targets), weights=weight)
        proba[unseen] = count / count.sum()
        if hasattr(self, "label_sets_"):
            return np.clip(proba @ self.label_sets_, 0, 1)
        if not self._targets.multilabel:
            return self._targets.marginals(proba)
        return self._with_constant(proba[:, 1:])

    def _log_odds(self, marginals):
        return logit(np.clip(marginals, self.clip, 1 - self.clip))


def weighted_labels(targets, y, sample_weight):
    """Return the labels (n, L), with NaN for labels of weight 0, and weights.

    The weights are None, weights of rows (n,), or weights of labels (n, L) that differ in a row.
    """
    Y = targets.encode(y)
    weight = targets.checked_weight(sample_weight, y)
    if weight is None or weight.ndim == 1:
        return Y, weight
    if (weight == weight[:, :1]).all():
        return Y, check_sample_weight(weight[:, 0], Y)
    return np.where(weight > 0, Y, np.nan), weight
