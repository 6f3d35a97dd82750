"""Base classes of classifiers: validate X, y and weights, and convert predictions."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skcrbm.decoding.posterior import Posterior
from skcrbm.estimators._joint import Classes, LabelVectors, OutputVectors
from skcrbm.targets.classifier import TargetsMixin, label_output, score_with_known
from skcrbm.targets.frames import framed_top
from skcrbm.targets.indicator import require_observed
from skcrbm.targets.label_sets import may_be_empty, unseen_share
from skcrbm.targets.multioutput import targets_of
from skcrbm.targets.new_labels import in_label_order, listed_labels
from skcrbm.targets.weights import (
    count_rows_of,
    first_copies,
    first_copy_of_each,
    is_per_label,
    label_layers,
    label_weight_beside,
)
from skcrbm.utils.options import check_parameters
from skcrbm.utils.parallel import one_blas_thread
from skcrbm.utils.validation import (
    check_count,
    check_order,
    checked_features,
    refuse_label_weights,
    weighted_rows,
)


class Rows(NamedTuple):
    """The N validated training rows of positive weight."""

    X: Any  # ndarray or CSR matrix (N, D), float32 or float64
    visible: np.ndarray  # (N, V): encoded y in the dtype of X, with NaN for missing labels
    weight: np.ndarray  # (N,): positive weights of the rows
    # (N,): index of the row from which `label_layers` copied each row; None if no row is a copy
    origin: np.ndarray | None = None

    @property
    def n_originals(self) -> int:
        """Number of rows, where a row and its copies count as a single row."""
        return count_rows_of(self.origin, len(self.weight))

    @property
    def first(self) -> Rows:
        """Only the first copy of each row, in which all labels of positive weight are observed."""
        if self.origin is None:
            return self
        first = first_copies(self.origin)
        return Rows(self.X[first], self.visible[first], self.weight[first])


class StructuredClassifier(TargetsMixin, BaseEstimator, metaclass=ABCMeta):
    """Base class of the classifiers, for a 2-D indicator y with NaN and a 1-D y of classes.

    To predict, a subclass computes an object such as a `Posterior` from X, and passes this object
    as `rows` to the abstract methods below. Each abstract method returns scores or labels for one
    kind of y, either a 2-D indicator or classes. `_predict`, `_decision` and `predict_proba` call
    the method for the kind of y in the fit, and convert its result to the shape that users expect.
    """

    _targets: Any  # kind and encoding of y (a `Targets` object), set by `fit`
    _progress: Any  # progress of the training epochs, set by `fit`
    classes_: np.ndarray
    allow_empty_: bool
    unseen_share_: float

    #: True if X may hold NaN.
    _allow_nan = False
    #: `Targets` subclass for a y whose columns hold classes. None: a fit to such a y is an error.
    _columns_of_classes: Any = None
    #: Names of the private attributes that a fit sets; a new fit deletes them first.
    _state: tuple[str, ...] = ("_targets",)
    #: Hyperparameters that change predictions; they are validated before each prediction.
    _prediction_parameters: tuple[str, ...] = ("decode", "n_jobs")
    #: True if `fit` takes weights of single labels, `sample_weight` of shape (N, L).
    _takes_label_weights = True
    #: Factor that converts the `decision_function` of a binary 1-D y to log-odds.
    _log_odds_scale = 1.0

    @abstractmethod
    def _label_scores(self, rows):
        """Return the decision scores (N, L) of the labels of a 2-D y."""

    @abstractmethod
    def _label_log_odds(self, rows):
        """Return the marginal log-odds (N, L) of the labels of a 2-D y."""

    @abstractmethod
    def _labels(self, rows):
        """Return the predicted 0/1 labels (N, L) of a 2-D y."""

    @abstractmethod
    def _binary_scores(self, rows):
        """Return scores (N, 1) for a y of two classes; a positive score means the second class."""

    @abstractmethod
    def _class_scores(self, rows):
        """Return the unnormalised log-probabilities (N, K) of the classes of a 1-D y."""

    @abstractmethod
    def predict(self, X):
        """Predict the labels of each row."""

    def _predict(self, rows):
        return self._targets.predict(self, rows)

    def _decision(self, rows):
        return self._targets.decision(self._targets.scores(self, rows))

    @abstractmethod
    def _marginal_log_odds(self, X):
        """Return scores (N, V); their sigmoid (or softmax, for classes) is the probability."""

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
        """Return the logarithms of `predict_proba`.

        The logarithms are finite even if a probability rounds to 0.

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
        tags.target_tags.multi_output = self._columns_of_classes is not None
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._allow_nan
        return tags

    def _require_multilabel(self, method):
        """Raise an error if the model is not fitted, or was fitted to a 1-D y."""
        check_is_fitted(self)
        self._targets.require_multilabel(method)

    def _check_predict_data(self, X):
        check_is_fitted(self)
        check_parameters(self, self._prediction_parameters)
        return self._validate_X(X, False)

    def _make_targets(self, y, classes):
        name, kind = type(self).__name__, self._columns_of_classes
        return targets_of(y, name, self, classes=classes, kind=kind)

    def _validate_X(self, X, reset, as_rows=None):
        return checked_features(self, X, allow_nan=self._allow_nan, reset=reset, as_rows=as_rows)


class JointClassifier(StructuredClassifier):
    """Base class of the models that define a joint distribution p(y | x) by an energy.

    A subclass defines ``_posterior_of(X, known)``, which returns the `Posterior` of validated rows
    and known labels; all predictions are computed from this `Posterior`.
    """

    score: ClassVar[Callable[..., float]] = score_with_known
    label_sets_: Any
    n_jobs: int | None

    @abstractmethod
    def _posterior_of(self, X, known) -> Posterior:
        """Return the `Posterior` of validated rows and known labels."""

    def _posterior(self, X, y_known=None) -> Posterior:
        """Return the `Posterior` of the rows of X given the known labels."""
        check_is_fitted(self)
        rows = self._check_predict_data(X)
        return self._posterior_of(rows, self._targets.check_known(y_known, X))

    def _posterior_with(self, energy, method, known, **options) -> Posterior:
        """Return the `Posterior` of energies, given what the estimator knows from its fit."""
        return Posterior(
            energy,
            method,
            known,
            self.label_sets_,
            self.n_jobs,
            thresholds=getattr(self, "thresholds_", None),
            allow_empty=self.allow_empty_,
            unseen_share=self.unseen_share_,
            **options,
        )

    def _label_log_odds(self, posterior):
        return posterior.log_odds()

    def _joint(self, X, y_known) -> Any:
        """Return p(y | x) for the rows of X, as `LabelVectors` or (for a 1-D y) as `Classes`."""
        posterior = self._posterior(X, y_known)
        if self._targets.multilabel:
            kind = LabelVectors if self._targets.indicator else OutputVectors
            return kind(self._targets, posterior)
        log_odds = self._targets.log_odds(self, posterior).astype(posterior.energy.dtype)
        return Classes(self._targets, self._targets.log_proba(log_odds.astype(np.float64)))

    # -------------------------------------------------------------------- predictions

    @label_output
    def predict(self, X, y_known=None):
        """Predict labels by the decoding rule `decode`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels that are known before prediction, and NaN for the other labels, which are
            predicted given the known labels. Data frames are matched to the labels by column name;
            labels without a column are unknown.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples,)
            Predicted labels or classes; see `set_label_output` for data frames.
        """
        with one_blas_thread():
            return self._predict(self._posterior(X, y_known))

    @label_output
    def decision_function(self, X, y_known=None):
        """Return a score for each output, or for each class of a 1-D y.

        The score of a label is positive if the label is predicted to be 1. The formula of the
        scores depends on the model; see the documentation of the class.

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

        The logarithms are computed from log-odds, so that they are finite even if a probability is
        rounded to 0. The result for a known label is 0 if the label is 1, and -inf if it is 0.

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
            Number of draws for each row.
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels that are known beforehand, and NaN for the other labels, which are drawn given
            the known labels.
        method : {"exact", "gibbs"}, default="exact"
            "exact" enumerates all states and makes independent draws, which is possible with up to
            20 hidden units or outputs. "gibbs" runs up to 100 Gibbs chains per row, see
            `skcrbm.inference.sample`. Classes of a 1-D y are always drawn exactly.
        burn_in : int or None, default=None
            Number of sweeps of the Gibbs chains before the first draw; None stands for 100.
        random_state : int, RandomState or None, default=None
            Seed of the draws, which do not depend on `n_jobs`.

        Returns
        -------
        ndarray of shape (n_rows, n_samples, n_outputs) or (n_rows, n_samples)
            0/1 labels, or classes if y was 1-D.

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
            Labels. Missing labels, NaN in a 2-D y, are summed out: the result is the marginal
            log-likelihood of the observed labels, or 0 if no label of the row is observed. None
            (which scikit-learn's checks pass) means that no label of any row is observed.
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels that are known beforehand, and NaN for the other labels. The result is then
            log p(y | x, y_known), or -inf for a row where y contradicts the known labels.
        method : str or object, default="exact"
            Method that computes log Z. "exact" is possible with up to 20 hidden units or outputs.
            Other methods of `skcrbm.inference.infer`, by name or as an object, approximate log Z:
            "sum_product" (the Bethe approximation), "tree_reweighted" (an upper bound) or "ais"
            (annealed importance sampling). The result for a 1-D y is always exact.
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
            check_order(X=X, y=y)
            visible = self._targets.encode(y)
            if len(visible) != joint.n_rows:
                raise ValueError(
                    "X and y must have the same number of rows, got "
                    f"{joint.n_rows} and {len(visible)}"
                )
            return joint.log_proba_of(visible, method, random_state)

    def score_label_sets(self, X, label_sets, y_known=None, *, method="exact", random_state=None):
        """Return the log-probabilities of several label vectors in each row.

        Use this method to compare candidates, or to enumerate p(y | x): if `label_sets` holds all
        2^L label vectors, the exponentials of a row add up to 1.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        label_sets : array-like of shape (n_sets, n_outputs)
            Label vectors of 0 and 1, the same for all rows. Data frames are matched by name.
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels that are known beforehand, and NaN for the other labels. If a vector contradicts
            the known labels of a row, its log-probability in this row is -inf.
        method : str or object, default="exact"
            Method that computes log Z, as in `score_samples`.
        random_state : int, RandomState or None, default=None
            Seed of "ais".

        Returns
        -------
        ndarray of shape (n_samples, n_sets)
            Values of log p(y | x, y_known).

        Raises
        ------
        ValueError
            If y was 1-D in `fit`, an argument is invalid, or the model is too large for `method`.
        """
        self._require_multilabel("score_label_sets")
        with one_blas_thread():
            joint = self._joint(X, y_known)
            return joint.log_proba_of_sets(label_sets, method, random_state)

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
            Labels that are known beforehand, and NaN for the other labels. The returned vectors
            agree with the known labels, and their probabilities are p(y | x, y_known).
        candidates : {"auto", "all", "label_sets"} or array-like of shape (n_sets, n_outputs)
            Label vectors among which the k most probable are chosen: "all" possible vectors (up to
            20 outputs), "label_sets" (the vectors in `label_sets_`), or the rows of an array.
            "auto" is "all" up to 14 outputs, else "label_sets". Candidates that contradict the
            known labels of a row are skipped. If all candidates contradict them, the known labels
            replace the entries of every candidate. `LabelGraphCRF` can compare all vectors for any
            number of outputs, by elimination of variables, if its graph is a tree or nearly as
            narrow as a tree; "auto" is then "all".
        method : str or object, default="exact"
            Method that computes log Z, as in `score_samples`. It changes only the probabilities,
            not the choice of the labels.
        random_state : int, RandomState or None, default=None
            Seed of "ais".

        Returns
        -------
        labels : ndarray of shape (n_samples, k, n_outputs) or (n_samples, k)
            0/1 labels, or classes if y was 1-D, in decreasing order of probability. If the known
            labels leave fewer than k candidates, the last vectors are filled with -1.
        proba : ndarray of shape (n_samples, k)
            Probabilities p(y | x) among all label vectors, not only among the candidates; 0 for
            vectors filled with -1.

            After ``set_label_output("pandas")`` `labels` and `proba` are pandas objects with a row
            for each row of X and each rank from 0 to k - 1; ``labels.assign(proba=proba)`` joins
            them. After ``set_label_output("polars")`` `labels` and `proba` have k rows for each row
            of X, and ``labels.with_columns(proba)`` joins them.

        Raises
        ------
        ValueError
            If an argument is invalid, k is larger than the number of candidates, or the model is
            too large for `method`.
        """
        check_count("k", k)
        with one_blas_thread():
            top = self._joint(X, y_known).top(k, candidates, method, random_state)
        return framed_top(top, self._targets, self._label_container, X)

    def predict_pairwise_proba(self, X, y_known=None):
        """Return P(y_i = 1, y_k = 1 | x) of all pairs of labels.

        Inference uses the same method as `predict_proba`. The diagonal contains the marginals. A
        conditional RBM computes ``P(y_k = 1) P(y_i = 1 | y_k = 1)``, for which inference runs once
        for each label. With approximate inference this product depends on the order of i and k, and
        the result is the mean of both products.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels that are known beforehand, and NaN for the other labels; the probabilities are
            then given the known labels.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs, n_outputs)
            Probabilities of the pairs.

        Raises
        ------
        ValueError
            If y was 1-D in `fit`.
        """
        self._require_multilabel("predict_pairwise_proba")
        with one_blas_thread():
            return self._joint(X, y_known).pairs()


def linear_attribute(name: str, doc: str) -> property:
    """Return a property that other libraries expect of a linear model, such as `coef_`.

    The property is for a class that has the attribute `visible_` + `name`, and the property
    `_why_not_linear`: None if the fitted model is linear, else two phrases, which say what the
    model has beyond a linear model and which attributes hold it.
    """

    def get(self) -> np.ndarray:
        # The error is an AttributeError, so that `hasattr` returns False.
        if not hasattr(self, f"visible_{name}"):
            raise AttributeError(f"this {type(self).__name__} has no {name} before it is fitted")
        if self._why_not_linear is not None:
            has, parts = self._why_not_linear
            raise AttributeError(
                f"this {type(self).__name__} has {has}, so it is not a linear model and has no "
                f"{name}; use visible_{name} {parts.format(name=name)}"
            )
        return getattr(self, f"visible_{name}")

    return property(get, doc=doc)


#: `coef_` and `intercept_` of the classifiers that are linear models in some configurations.
linear_coef = linear_attribute(
    "coef_",
    "Coefficients (L, D) of the inputs. They exist only if the fitted model is linear.",
)
linear_intercept = linear_attribute(
    "intercept_",
    "Intercepts (L,) of the outputs. They exist only if the fitted model is linear.",
)


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
    """Validate X, y and the weights, and return the rows of positive weight.

    This function also sets the attributes of the model that describe y: `_targets`, `classes_`,
    `allow_empty_` and `unseen_share_`. If `reset` is False, training continues: the columns of X
    and the kind of y must be the same as in earlier calls, and the attributes describe the rows of
    all calls. If `partial` is True, there is no warning about labels that are always 0 or always 1,
    because the other value may occur in later calls of `partial_fit`.
    """
    if not reset:
        model._targets.check_classes(classes)
    check_order(X=X, y=y, sample_weight=sample_weight)
    targets = model._make_targets(y, classes) if reset or y is None else model._targets
    X = model._validate_X(X, reset)
    # Copy the labels to C order, so that a data frame, which has Fortran order, and an array give
    # the same result: the rounding of sums depends on the memory layout.
    given = y
    if classes is not None:
        y = in_label_order(y, classes, targets, X.dtype)
    visible = targets.encode(y, X.dtype).astype(X.dtype, order="C", copy=False)
    if len(visible) != X.shape[0]:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"X has {X.shape[0]} rows, y has {len(visible)}"
        )
    origin = None
    if sample_weight is not None and is_per_label(sample_weight):
        weight = _label_weight(model, targets, sample_weight, given, len(visible), classes)
        row, visible, weight = layers = label_layers(visible, weight)
        origin = layers.origin
        complete = len(row) == X.shape[0] and origin is None
        X = X if complete else X[row]
    else:
        (X, visible), weight = weighted_rows((X, visible), sample_weight)
    rows = Rows(X, visible, weight, origin)
    require_observed(~np.isnan(visible))
    visible = rows.visible if origin is None else visible[first_copies(origin)]
    if not partial:
        targets.warn_of_one_value(visible)
    empty = not targets.indicator or may_be_empty(visible)
    unseen = unseen_share(visible) if targets.indicator else 1.0
    if reset:
        model._targets = targets
        model.classes_ = targets.classes
        model.allow_empty_, model.unseen_share_ = empty, unseen
    else:
        model.allow_empty_ |= empty
        model.unseen_share_ = max(model.unseen_share_, unseen)
    return rows


def _label_weight(model, targets, sample_weight, y, n_rows, classes):
    """Validate weights of single labels, and return the weights as an array (N, L)."""
    if not targets.multilabel:
        raise ValueError(
            "sample_weight must have shape (n_samples,) if y is 1-D, because weights of single "
            f"labels need a 2-D y; got the shape {np.shape(sample_weight)}"
        )
    if not model._takes_label_weights:
        refuse_label_weights(sample_weight)
    columns = listed_labels(classes) if targets.indicator else None
    shape = n_rows, targets.names, len(targets.classes)
    weight = label_weight_beside(sample_weight, y, *shape, columns)
    return weight if targets.indicator else targets.unit_weights(weight)


def with_class_weight(model: StructuredClassifier, rows: Rows) -> Rows:
    """Multiply the weights of rows by `class_weight`, and remove rows of weight 0."""
    class_weight = getattr(model, "class_weight", None)
    if class_weight is None:
        return rows
    first = first_copy_of_each(rows.origin)  # all copies of a row get the same factor
    weight = model._targets.class_weighted(class_weight, rows.visible, rows.weight, first)
    if rows.origin is None:
        (X, visible), weight = weighted_rows((rows.X, rows.visible), weight)
        return Rows(X, visible, weight)
    arrays = rows.X, rows.visible, rows.origin
    (X, visible, origin), weight = weighted_rows(arrays, weight)
    return Rows(X, visible, weight, origin)
