"""The bases of all classifiers: validation of X, y and weights, tags, predictions."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skcrbm.decoding.posterior import Posterior
from skcrbm.estimators._joint import Classes, LabelVectors, TopLabelSets
from skcrbm.targets.frames import named_series
from skcrbm.targets.kinds import TargetsMixin, label_output, make_targets
from skcrbm.targets.known import KnownLabelsMixin
from skcrbm.utils.labels import (
    in_rows_of,
    may_be_empty,
    ranked_index,
    require_observed,
    unseen_share,
)
from skcrbm.utils.options import check_parameters
from skcrbm.utils.parallel import one_blas_thread
from skcrbm.utils.validation import check_count, checked_features, weighted_rows


class Rows(NamedTuple):
    """Validated training rows; rows of weight 0 have been dropped."""

    X: Any  # ndarray or CSR matrix (N, D), float32 or float64
    visible: np.ndarray  # (N, V), dtype of X, NaN if not observed
    weight: np.ndarray  # (N,), positive


class StructuredClassifier(TargetsMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of the classifiers: 2-D indicator y with NaN, 1-D binary or multiclass y.

    A subclass computes something from the rows of X (a posterior, for example), and from that the
    scores of each kind of y. `_predict` and `_decision` arrange them as the kind of y requires,
    and so do the methods that return probabilities.
    """

    _targets: Any  # the kind of y, set by a fit
    _progress: Any  # progress of training epoch by epoch, set by a fit
    classes_: np.ndarray
    allow_empty_: bool
    unseen_share_: float

    #: True if X may hold NaN.
    _allow_nan = False
    #: Attributes without a trailing underscore that belong to a fit.
    _state: tuple[str, ...] = ("_targets",)
    #: Hyperparameters that predictions depend on; they are validated before each prediction.
    _prediction_parameters: tuple[str, ...] = ("decode", "n_jobs")
    #: Log-odds of binary 1-D y per unit of `decision_function`.
    _log_odds_scale = 1.0

    @abstractmethod
    def _label_scores(self, rows):
        """Return decision scores (N, L) of 2-D y."""

    @abstractmethod
    def _label_log_odds(self, rows):
        """Return log-odds (N, L) of the marginal of each label of 2-D y."""

    @abstractmethod
    def _labels(self, rows):
        """Return decoded 0/1 labels (N, L) of 2-D y."""

    @abstractmethod
    def _binary_scores(self, rows):
        """Return scores (N, 1) of the second of two classes against the first."""

    @abstractmethod
    def _class_scores(self, rows):
        """Return unnormalised log-probabilities (N, K) of the classes."""

    @abstractmethod
    def predict(self, X):
        """Predict the labels of each row."""

    def _predict(self, rows):
        return self._targets.predict(self, rows)

    def _decision(self, rows):
        return self._targets.decision(self._targets.scores(self, rows))

    @abstractmethod
    def _marginal_log_odds(self, X):
        """Return scores (N, V) of the rows of X whose sigmoid or softmax is the probability."""

    @label_output
    def predict_proba(self, X):
        """Return P(y_i = 1 | x) of each output, or the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples, n_classes)
        """
        log_odds = self._marginal_log_odds(X)
        return self._targets.proba(log_odds)

    @label_output
    def predict_log_proba(self, X):
        """Return the logarithms of `predict_proba`, finite also if a probability is rounded to 0.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples, n_classes)
        """
        log_odds = self._marginal_log_odds(X)
        return self._targets.log_proba(log_odds)

    # -------------------------------------------------------------- validation

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._allow_nan
        return tags

    def _check_predict_data(self, X):
        check_is_fitted(self)
        check_parameters(self, self._prediction_parameters)
        return self._validate_X(X, False)

    def _make_targets(self, y, classes):
        return make_targets(y, classes, self)

    def _validate_X(self, X, reset, as_rows=None):
        return checked_features(self, X, allow_nan=self._allow_nan, reset=reset, as_rows=as_rows)


class JointClassifier(KnownLabelsMixin, StructuredClassifier):
    """Base class of the models with an energy of the outputs given x, which define p(y | x).

    A subclass has ``_posterior_of(X, known)``, the `Posterior` of validated rows and known labels;
    all predictions are computed from it.
    """

    @abstractmethod
    def _posterior_of(self, X, known) -> Posterior:
        """Return the `Posterior` of validated rows and known labels."""

    def _posterior(self, X, y_known=None) -> Posterior:
        """Return the `Posterior` of the rows of X given the known labels."""
        check_is_fitted(self)
        rows = self._check_predict_data(X)
        if y_known is not None:
            y_known = in_rows_of(y_known, X)
        return self._posterior_of(rows, self._targets.check_known(y_known, rows.shape[0]))

    def _label_log_odds(self, posterior):
        return posterior.log_odds()

    def _joint(self, X, y_known) -> Any:
        """Return p(y | x) of the rows, over label vectors or over classes."""
        posterior = self._posterior(X, y_known)
        if self._targets.multilabel:
            return LabelVectors(self._targets, posterior)
        log_odds = self._targets.log_odds(self, posterior).astype(posterior.energy.dtype)
        return Classes(self._targets, self._targets.log_proba(log_odds.astype(np.float64)))

    # -------------------------------------------------------------------- predictions

    @label_output
    def predict(self, X, y_known=None):
        """Predict labels by the rule `decode`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere: the other labels are predicted given them. The
            columns of a data frame are matched by name; labels without a column are not known.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples,)
            Predicted labels or classes; see `set_label_output` for data frames.
        """
        with one_blas_thread():
            return self._predict(self._posterior(X, y_known))

    @label_output
    def decision_function(self, X, y_known=None):
        """Return the score of each output, positive if it is on, or of each class.

        The documentation of the class describes the scores.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs), (n_samples,) or (n_samples, n_classes)
        """
        with one_blas_thread():
            posterior = self._posterior(X, y_known)
            return self._decision(posterior).astype(posterior.energy.dtype, copy=False)

    @label_output
    def predict_proba(self, X, y_known=None):
        """Return P(y_i = 1 | x) of each output, or the probability of each class.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples, n_classes)
        """
        log_odds = self._marginal_log_odds(X, y_known)
        return self._targets.proba(log_odds)

    @label_output
    def predict_log_proba(self, X, y_known=None):
        """Return log P(y_i = 1 | x) of each output, or the log-probability of each class.

        The logarithms are computed from log-odds, so that they are finite if a probability is
        rounded to 0 or 1. Known labels have the logarithm 0 if they are on, else -inf.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples, n_classes)
            Logarithms of `predict_proba`.
        """
        log_odds = self._marginal_log_odds(X, y_known)
        return self._targets.log_proba(log_odds)

    def _marginal_log_odds(self, X, y_known=None):
        with one_blas_thread():
            posterior = self._posterior(X, y_known)
            log_odds = self._targets.log_odds(self, posterior)
        return log_odds.astype(posterior.energy.dtype, copy=False)

    # ------------------------------------------- questions about the joint distribution

    def sample(
        self, X, n_samples=1, y_known=None, *, method="exact", burn_in=None, random_state=None
    ):
        """Draw labels from p(y | x).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        n_samples : int, default=1
            Number of draws from each row.
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere: the other labels are drawn given them.
        method : {"exact", "gibbs"}, default="exact"
            Independent draws by enumeration, with up to 20 hidden units or outputs; or up to
            100 Gibbs chains per row, see `skcrbm.inference.sample`. 1-D y is always exact.
        burn_in : int or None, default=None
            Sweeps of the Gibbs chains before the first draw; None: 100.
        random_state : int, RandomState or None, default=None
            Seed of the draws, which do not depend on `n_jobs`.

        Returns
        -------
        ndarray of shape (n_rows, n_samples, n_outputs) or (n_rows, n_samples)
            0/1 labels, or classes of 1-D y.

        Raises
        ------
        ValueError
            If an argument is invalid, or the model is too large for `method`.
        """
        with one_blas_thread():
            joint = self._joint(X, y_known)
        return joint.sample(n_samples, method, burn_in, random_state)

    def score_samples(self, X, y=None, y_known=None, *, method="exact", random_state=None):
        """Return the log-likelihood of labels, log p(y | x), of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            Labels. NaN in 2-D y (not observed) is summed out, so that the result is the marginal
            log-likelihood of the observed labels, and 0 if no label of the row is observed. None,
            which scikit-learn's checks pass, stands for labels that are not observed.
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere: the result is log p(y | x, y_known), and -inf if
            y contradicts them.
        method : str or object, default="exact"
            Method that computes log Z: "exact", with up to 20 hidden units or outputs; or, for an
            approximation, another method of `skcrbm.inference.infer`, by name or as an object:
            "sum_product" (the Bethe approximation), "tree_reweighted" (an upper bound of log Z) or
            "ais" (annealed importance sampling). 1-D y is always exact.
        random_state : int, RandomState or None, default=None
            Seed of "ais".

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-likelihood of each row.

        Raises
        ------
        ValueError
            If an argument is invalid, or the model is too large for `method`.
        """
        with one_blas_thread():
            joint = self._joint(X, y_known)
            if y is None:
                return np.zeros(joint.n_rows)
            visible = self._targets.encode(y)
            if len(visible) != joint.n_rows:
                raise ValueError(
                    f"X and y must have as many rows, got {joint.n_rows} and {len(visible)}"
                )
            return joint.log_proba_of(visible, method, random_state)

    def predict_topk(
        self, X, k=1, y_known=None, *, candidates="auto", method="exact", random_state=None
    ):
        """Return the k most probable label vectors of each row, with their probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        k : int, default=1
            Number of label vectors per row.
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere: the vectors agree with them, and their
            probabilities are p(y | x, y_known).
        candidates : {"auto", "all", "label_sets"} or array-like of shape (n_sets, n_outputs)
            Label vectors that compete: all possible vectors (exact, up to 20 outputs),
            `label_sets_`, or the rows of the array. "auto" is "all" up to 14 outputs, else
            "label_sets". The candidates that agree with the known labels compete; if no candidate
            agrees, all of them compete with the known labels written over them.
        method : str or object, default="exact"
            Method that computes log Z, as in `score_samples`; it affects the probabilities only.
        random_state : int, RandomState or None, default=None
            Seed of "ais".

        Returns
        -------
        labels : ndarray of shape (n_samples, k, n_outputs) or (n_samples, k)
            0/1 labels, or classes of 1-D y, by falling probability; -1 if the known labels leave
            fewer than k candidates.
        proba : ndarray of shape (n_samples, k)
            p(y | x), not relative to the candidates; 0 for a missing candidate.

            After ``set_label_output("pandas")`` both are pandas containers with a row for each row
            of X and each rank 0 to k - 1, so that ``labels.assign(proba=proba)`` is a table; with
            "polars" it is ``labels.with_columns(proba)``, with k rows for each row of X.

        Raises
        ------
        ValueError
            If an argument is invalid, k is larger than the number of candidates, or the model is
            too large for `method`.
        """
        check_count("k", k)
        with one_blas_thread():
            top = self._joint(X, y_known).top(k, candidates, method, random_state)
        return top if self._label_container == "default" else self._framed_top(top, X)

    def _framed_top(self, top, X):
        """Return `TopLabelSets` of data frames or series, with a row for each row of X and rank."""
        n_rows, k = top.proba.shape
        container, index = self._label_container, None
        if container == "pandas":
            index = ranked_index(X.index if hasattr(X, "iloc") else range(n_rows), k)
        labels = top.labels.reshape(n_rows * k, *top.labels.shape[2:])
        proba = named_series(top.proba.ravel(), index, "proba", container)
        return TopLabelSets(self._targets.framed(labels, index, container), proba)

    def predict_pairwise_proba(self, X, y_known=None):
        """Return P(y_i = 1, y_k = 1 | x) of all pairs of labels.

        The inference method is the method of `predict_proba`, whose marginals stand on the
        diagonal. For conditional RBMs a pair is ``P(y_k = 1) P(y_i = 1 | y_k = 1)``, with a run of
        inference per label; if inference is approximate, the mean over both orders is taken.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs, n_outputs)
            Probabilities of the pairs.

        Raises
        ------
        ValueError
            After a fit on 1-D y.
        """
        check_is_fitted(self)
        self._targets.require_multilabel("predict_pairwise_proba")
        with one_blas_thread():
            return self._joint(X, y_known).pairs()


def training_rows(
    model: StructuredClassifier,
    X,
    y,
    sample_weight,
    *,
    reset: bool,
    classes=None,
    partial: bool = False,
) -> Rows:
    """Validate X, y and the weights; drop rows of weight 0.

    Sets the attributes of the model that describe y: `classes_`, `allow_empty_`, `unseen_share_`.
    Without `reset` the rows must fit the rows of earlier calls, and all rows count in these
    attributes. The rows of a `partial` fit need not hold both values of each label.
    """
    if not reset:
        model._targets.check_classes(classes)
    targets = model._make_targets(y, classes) if reset or y is None else model._targets
    X = model._validate_X(X, reset)
    # Sums depend on the memory layout, and the array of a data frame has another layout.
    visible = targets.encode(y, X.dtype).astype(X.dtype, order="C", copy=False)
    if len(visible) != X.shape[0]:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"X has {X.shape[0]} rows, y has {len(visible)}"
        )
    (X, visible), weight = weighted_rows((X, visible), sample_weight)
    require_observed(~np.isnan(visible))
    if not partial:
        targets.warn_of_one_value(visible)
    empty = not targets.multilabel or may_be_empty(visible)
    unseen = unseen_share(visible) if targets.multilabel else 1.0
    if reset:
        model._targets = targets
        model.classes_ = targets.classes
        model.allow_empty_, model.unseen_share_ = empty, unseen
    else:
        model.allow_empty_ |= empty
        model.unseen_share_ = max(model.unseen_share_, unseen)
    return Rows(X, visible, weight)


def with_class_weight(model: StructuredClassifier, rows: Rows) -> Rows:
    """Return the rows with the weights of their classes, rows of weight 0 dropped."""
    class_weight = getattr(model, "class_weight", None)
    if class_weight is None:
        return rows
    weight = model._targets.class_weighted(class_weight, rows.visible, rows.weight)
    (X, visible), weight = weighted_rows((rows.X, rows.visible), weight)
    return Rows(X, visible, weight)


def refuse_balanced_weights(class_weight) -> None:
    """Raise a ValueError if `partial_fit` would have to balance classes from a part of the rows."""
    if isinstance(class_weight, str):
        raise ValueError(
            "partial_fit does not support class_weight='balanced', because it sees only a part of "
            "the rows; give the weights of the classes"
        )
