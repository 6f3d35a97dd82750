"""LMBMClassifier: the large margin Boltzmann machine."""

import sys
import warnings
from numbers import Integral, Real

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from skcrbm.decoding import DECODERS, Decoding
from skcrbm.decoding._hinge import decode_pairwise
from skcrbm.decoding._threshold import THRESHOLD_METRICS
from skcrbm.energies import IsingEnergy
from skcrbm.estimators._base import BaseStructuredClassifier
from skcrbm.estimators._class_weight import label_weights
from skcrbm.estimators._joint import JointQueriesMixin
from skcrbm.estimators._thresholds import cross_validated_thresholds
from skcrbm.estimators._training import label_sets_of
from skcrbm.inference import resolve_method
from skcrbm.learning._dual_coordinate import LargeMarginProblem, fit_large_margin
from skcrbm.utils._parallel import one_blas_thread

# Enumerating the states of more labels costs more than message passing.
_AUTO_EXACT_LABELS = 14
_MARGINAL_METHODS = ("exact", "mean_field", "sum_product", "tree_reweighted")
# Decoding rules that go by probabilities of the Boltzmann machine, without a search.
_BY_PROBABILITY = ("marginal", "label_set", "expected_jaccard", "expected_f1", "threshold")
# What a fit keeps besides its public attributes.
_STATE = ("_targets", "_dual")


class LMBMClassifier(JointQueriesMixin, BaseStructuredClassifier):
    """Large margin Boltzmann machine for multi-label classification.

    A pairwise machine over labels y in {-1, +1}^L with the score
    ``sum_i y_i (a_i . x + b_i) + sum_{i<k} s_ik y_i y_k`` [1]_. Each label has a margin
    given the true other labels,
    ``m_i = y_i (a_i . x + b_i + sum_{k != i} s_ik y_k)``, and training minimises

        ``1/2 sum_i (|a_i|^2 + b_i^2) + eta/2 sum_{i<k} s_ik^2 + C sum_in [gamma - m_in]_+``

    by dual coordinate descent: a convex problem without inference, solved about as fast as
    one linear SVM per label, which it becomes as eta grows.

    `predict` takes and gives labels in {0, 1}; the units above are inside only. y may be a
    2-D indicator matrix of 0/1 (NaN = not observed: that label's margin is dropped, and the
    label is left out of the margins of the others), or 1-D with two or more classes. Two are one
    label, more are one-hot labels, of which prediction compares the states with one label on;
    as each is certain given the others, their pair weights are held at 0.

    Scale the columns of X, as with `StandardScaler`. Changing `inference`, `decode` (to all
    but "threshold"), `marginal_inference`, `node_limit` or `n_jobs` takes effect at once.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the margin loss of each label of each row; U in [1]_.
    margin : float, default=1.0
        gamma. A margin of k with C is the model of a margin of 1 with C / k, its weights
        times k: not worth searching.
    pairwise_penalty : float, default=1.0
        eta: 1 is the LMBM of [1]_, more its LMBMr. With labels that depend strongly on each
        other, small values fit the pairs in place of the inputs; search up to 1e5.
        ``np.inf`` leaves one linear SVM per label.
    tol : float, default=1e-4
        Training ends when the projected gradients of the dual variables of each label lie
        within ``tol * margin`` of each other.
    max_iter : int, default=1000
        Passes over the rows at most.
    inference : {"branch_and_bound", "milp", "icm"}, default="branch_and_bound"
        How `predict` looks for the labels: exactly, by branch and bound on partial labels
        or, as a reference, by mixed integer programs of HiGHS; or by flips of single
        labels up to a local optimum.
    decode : str, default="hinge"
        What it looks for:

        - "hinge": the labels with the least hinge loss, summed over their margins (the rule of
          [1]_; among equals the higher score);
        - "map": those of the highest score;
        - "marginal", "label_set", "expected_jaccard", "expected_f1", "threshold": without a
          search, by the probabilities of the Boltzmann machine, as in `CRBMClassifier`.
    threshold_metric : str, default="f1_samples"
        What the thresholds of ``decode="threshold"`` are best for, as in `CRBMClassifier`:
        `fit` then does five more fits, each without a fifth of the rows.
    marginal_inference : str or object, default="auto"
        Method behind `predict_proba` for 2-D y: "exact", "tree_reweighted", "sum_product",
        "mean_field", or configured, as in ``SumProduct(damping=0.5)``. "auto" is "exact"
        up to 14 labels, "tree_reweighted" beyond.
    class_weight : "balanced", dict, list of dict or array-like, default=None
        Factors of C. 1-D y: a dict of class: weight, or "balanced",
        ``n_samples / (n_classes * count)``. 2-D y: "balanced" for each label,
        one dict of 0 and 1 for each label, or the weights (n_outputs,) of the positive class.
    warm_start : bool, default=False
        Start `fit` from the dual variables of the previous one, if X has as many rows; the
        problem is convex, so that only the time changes.
    node_limit : int, default=50_000
        Nodes of branch and bound for one row at most. Rows that need more get the best
        labels found until then, and `predict` warns.
    n_jobs : int, default=None
        Threads over rows in prediction. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Order of the rows in training.
    verbose : bool or int, default=False
        Print a line per pass.

    Attributes
    ----------
    coef_ : ndarray (n_outputs, n_features)
        A. One row for binary 1-D y, one per class for multiclass y.
    intercept_ : ndarray (n_outputs,)
        b.
    pairwise_coef_ : ndarray (n_outputs, n_outputs)
        S, symmetric with zero diagonal.
    classes_ : ndarray (n_outputs, 2) or (n_classes,)
    label_sets_ : ndarray (n_sets, n_outputs)
        The distinct label vectors of fit, of rows with every label observed.
    thresholds_ : ndarray (n_outputs,)
        With ``decode="threshold"`` and 2-D y.
    dual_gap_ : float
        Relative duality gap at the end: (primal - dual) / primal objective.
    n_iter_ : int
        Passes over the rows.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The probabilities are those of the Boltzmann machine ``p(y | x) ∝ exp(score)`` with the
    max-margin weights. They rank, but nothing calibrates them; wrap the pipeline in
    `CalibratedClassifierCV` for 1-D y.

    References
    ----------
    .. [1] Miao and Rao (2009). Large margin Boltzmann machines. IJCAI.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skcrbm import LMBMClassifier
    >>> X, Y = make_multilabel_classification(n_samples=150, random_state=0)
    >>> lmbm = LMBMClassifier(C=0.1, pairwise_penalty=10, random_state=0)
    >>> model = make_pipeline(StandardScaler(), lmbm).fit(X, Y)
    >>> model.predict(X[:2]).shape
    (2, 5)
    >>> lmbm.pairwise_coef_.shape, lmbm.dual_gap_ < 1e-3
    ((5, 5), True)
    """

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "margin": [Interval(Real, 0, None, closed="neither")],
        "pairwise_penalty": [Interval(Real, 0, None, closed="right")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "inference": [StrOptions({"branch_and_bound", "milp", "icm"})],
        "decode": [StrOptions({"hinge", "map", *_BY_PROBABILITY})],
        "threshold_metric": [StrOptions(set(THRESHOLD_METRICS))],
        "marginal_inference": [StrOptions({"auto", *_MARGINAL_METHODS}), HasMethods("solver_for")],
        "class_weight": [StrOptions({"balanced"}), dict, list, "array-like", None],
        "warm_start": ["boolean"],
        "node_limit": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        C=1.0,
        margin=1.0,
        pairwise_penalty=1.0,
        tol=1e-4,
        max_iter=1000,
        inference="branch_and_bound",
        decode="hinge",
        threshold_metric="f1_samples",
        marginal_inference="auto",
        class_weight=None,
        warm_start=False,
        node_limit=50_000,
        n_jobs=None,
        random_state=None,
        verbose=False,
    ):
        self.C = C
        self.margin = margin
        self.pairwise_penalty = pairwise_penalty
        self.tol = tol
        self.max_iter = max_iter
        self.inference = inference
        self.decode = decode
        self.threshold_metric = threshold_metric
        self.marginal_inference = marginal_inference
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.node_limit = node_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_is_fitted__(self):
        # classes_ is there already when a first fit fails or is interrupted.
        return hasattr(self, "coef_")

    # ---------------------------------------------------------------- fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            0/1 indicator matrix with NaN where not observed, or classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative factors of C; a weight k counts as k copies of the row.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            On an invalid X, y, weight or hyperparameter.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` passes were not enough; `dual_gap_` says how much is missing.
        """
        warm = self.warm_start and hasattr(self, "coef_")
        dual = getattr(self, "_dual", None) if warm else None
        if not warm:  # a fit that fails must not leave old parameters beside new classes
            self._forget()
        X, visible, weight = self._check_training_data(X, y, sample_weight, reset=not warm)
        if np.isnan(visible).all():
            raise ValueError("y holds no observed entry in the rows with a positive sample_weight")
        factors = label_weights(self.class_weight, self._targets, visible, weight)
        problem = LargeMarginProblem(
            X,
            np.nan_to_num(2.0 * visible - 1.0),
            self.C * weight[:, None] * factors,
            self.margin,
            # Given the others, a one-hot label is certain: pair weights would learn that alone.
            np.inf if self._targets.kind == "multiclass" else self.pairwise_penalty,
        )
        rng = check_random_state(self.random_state)
        fitted = fit_large_margin(
            problem,
            tol=self.tol,
            max_iter=self.max_iter,
            rng=rng,
            dual=dual if dual is not None and dual.shape == visible.shape else None,
            report=self._report if self.verbose else None,
        )
        self.label_sets_ = label_sets_of(visible)
        self.coef_ = fitted.coef
        self.intercept_ = fitted.intercept
        self.pairwise_coef_ = fitted.pairwise
        self.dual_gap_ = fitted.gap
        self.n_iter_ = fitted.n_iter
        if self.warm_start:
            self._dual = fitted.dual
        if fitted.reason != "tol":
            self._warn_of(fitted)
        vars(self).pop("thresholds_", None)  # of a fit that this one goes on from
        if self.decode == "threshold" and self._targets.kind == "multilabel":
            self.thresholds_ = cross_validated_thresholds(self, X, visible, weight, rng)
        return self

    def _forget(self):
        """Drop what an earlier fit learned."""
        for name in [name for name in vars(self) if name.endswith("_") or name in _STATE]:
            delattr(self, name)

    def _report(self, number, violation, share):
        sys.stdout.write(f"Pass {number}  violation {violation:.2e}  in play {share:.1%}\n")
        sys.stdout.flush()

    def _warn_of(self, fitted):
        left = f"with a relative duality gap of {fitted.gap:.1e}"
        if fitted.reason == "interrupted":
            message = f"Training interrupted in pass {fitted.n_iter + 1}, {left}; keeping it."
            warnings.warn(message, stacklevel=4)
            return
        message = f"Training ended after max_iter={self.max_iter} passes, {left}. "
        message += "Scale X, lower C, or raise tol or max_iter."
        warnings.warn(message, ConvergenceWarning, stacklevel=4)

    # ------------------------------------------------------------- prediction

    #: Score y f of y = +1 against y = -1.
    _log_odds_scale = 2.0

    def _fields(self, X):
        """Fields f (N, L) of the labels."""
        X = self._check_predict_data(X)
        with one_blas_thread():
            return np.asarray(safe_sparse_dot(X, self.coef_.T)) + self.intercept_

    def _prepare(self, X, y_known=None):
        fields = self._fields(X)
        return self._decoding(fields, self._check_known(y_known, len(fields)))

    def _decoding(self, fields, known):
        """Return the Boltzmann machines of the rows, for decoding rules and joint queries."""
        method = self.marginal_inference
        if isinstance(method, str) and method == "auto":
            few = fields.shape[1] <= _AUTO_EXACT_LABELS
            method = "exact" if few else "tree_reweighted"
        energy = IsingEnergy(self.pairwise_coef_, fields)
        return Decoding(
            energy,
            resolve_method(method),
            known,
            self.label_sets_,
            self.n_jobs,
            thresholds=getattr(self, "thresholds_", None),
        )

    def _search(self, fields, known):
        """`PairwiseDecoding` of 2-D y by the rule "hinge" or "map"."""
        return decode_pairwise(
            fields,
            self.pairwise_coef_,
            self.margin,
            rule=self.decode,
            method=self.inference,
            known=known,
            node_limit=self.node_limit,
            n_jobs=self.n_jobs,
        )

    def _labels(self, fields, known):
        """0/1 labels (N, L) of 2-D y; warns of rows without a proof."""
        if self.decode in _BY_PROBABILITY:
            with one_blas_thread():
                return DECODERS.get(self.decode)(self._decoding(fields, known))
        result = self._search(fields, known)
        open_rows = np.count_nonzero(result.gap)
        if open_rows and self.inference == "branch_and_bound":
            warnings.warn(
                f"Branch and bound reached node_limit={self.node_limit} on {open_rows} of "
                f"{len(fields)} rows; their labels are the best found so far, better ones may "
                f"gain up to {result.gap.max():.3g} in the objective. A larger "
                "pairwise_penalty makes the search shorter.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return result.labels

    def predict(self, X, y_known=None):
        """Predict labels by the rule `decode`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere: the others are predicted given them.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples,)

        Warns
        -----
        ConvergenceWarning
            If branch and bound reached `node_limit` on some rows; `predict_with_gap` names
            them.
        """
        fields = self._fields(X)
        known = self._check_known(y_known, len(fields))
        if self._targets.kind == "multilabel":
            return self._targets.decode(self._labels(fields, known))
        if self._targets.kind == "binary":
            return self._targets.decode(fields > 0)
        return self._targets.decode(self._class_scores(fields))

    def predict_with_gap(self, X, y_known=None):
        """Predict the labels of 2-D y, each row with a certificate.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere. The loss counts their margins, too.

        Returns
        -------
        labels : ndarray of shape (n_samples, n_outputs)
        objective : ndarray of shape (n_samples,)
            Their hinge loss or, with ``decode="map"``, minus their score.
        gap : ndarray of shape (n_samples,)
            0 where the labels are proven to be the best; else no labels are better by more
            than this, which is infinite with ``inference="icm"``.

        Raises
        ------
        ValueError
            After a fit on 1-D y, or with a `decode` that does not search.
        """
        check_is_fitted(self)
        if self._targets.kind != "multilabel":
            raise ValueError("predict_with_gap is for 2-D y; this model was fitted on a 1-D y")
        if self.decode in _BY_PROBABILITY:
            raise ValueError(
                f"predict_with_gap is for decode='hinge' and 'map', not {self.decode!r}, which "
                "goes by probabilities and does not search"
            )
        fields = self._fields(X)
        result = self._search(fields, self._check_known(y_known, len(fields)))
        return self._targets.decode(result.labels), result.objective, result.gap

    def _class_scores(self, fields):
        """Scores (N, K) of the states with one label on, up to a constant of each row."""
        return 2.0 * (fields - self.pairwise_coef_.sum(axis=1))

    def decision_function(self, X, y_known=None):
        """Signed field of each label at the predicted labels, or the score of each class.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs), (n_samples,) or (n_samples, n_classes)
            2-D y: ``a_i . x + b_i + sum_k s_ik y_k`` at the predicted y in {-1, +1}. Binary
            y: ``a . x + b``. Multiclass y: ``2 (a_k . x + b_k - sum_j s_kj)``.
        """
        fields = self._fields(X)
        known = self._check_known(y_known, len(fields))
        if self._targets.kind == "binary":
            return fields[:, 0]
        if self._targets.kind == "multiclass":
            return self._class_scores(fields)
        with one_blas_thread():
            return fields + (2.0 * self._labels(fields, known) - 1.0) @ self.pairwise_coef_

    def predict_proba(self, X, y_known=None):
        """P(y_i = 1 | x) of the Boltzmann machine with these weights, not calibrated.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples, n_classes)
        """
        fields = self._fields(X)
        known = self._check_known(y_known, len(fields))
        if self._targets.kind == "multiclass":
            return softmax(self._class_scores(fields), axis=1)
        if self._targets.kind == "binary":
            return np.column_stack([expit(-2.0 * fields[:, 0]), expit(2.0 * fields[:, 0])])
        with one_blas_thread():
            return expit(self._decoding(fields, known).log_odds())
