"""SSVMClassifier: structural support vector machine with pairwise label weights."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from skcrbm.decoding.rules import DecodingRule, decoder_constraint, decoders_for
from skcrbm.energies import IsingEnergy
from skcrbm.estimators._base import training_rows, with_class_weight
from skcrbm.estimators._pairwise import InferenceOption, PairwiseClassifier
from skcrbm.inference.choice import method_constraint
from skcrbm.learning.large_margin.label_blocks import StructuralMarginProblem, fit_structural_margin
from skcrbm.targets.indicator import require_complete
from skcrbm.targets.label_sets import label_sets_of
from skcrbm.utils.columns import warn_of_scales
from skcrbm.utils.fitting import (
    EpochCallbacks,
    all_or_nothing,
    begin_fit,
    pass_hooks,
    warn_of_early_end,
    with_callbacks,
)
from skcrbm.utils.options import Integer
from skcrbm.utils.sklearn_private import Interval, StrOptions, fit_context
from skcrbm.utils.validation import distinct_rows
from skcrbm.utils.warnings import warn_user


def _gap_and_vectors(gap, n_vectors):
    return f"gap {gap:.2e}  label vectors {n_vectors}"


class SSVMClassifier(PairwiseClassifier):
    """Structural support vector machine for multi-label classification.

    As in `LMBMClassifier`, the model gives each label vector y in {-1, +1}^L the score
    ``F(x, y) = sum_i y_i (a_i . x + b_i) + sum_{i<k} s_ik y_i y_k``. But it is trained for a margin
    between whole label vectors: the score of the true labels y_n should exceed the score of any
    other vector y by at least D(y, y_n), the number of labels that differ. Training minimises

        ``1/2 sum_i (|a_i|^2 + b_i^2) + eta/2 sum_{i<k} s_ik^2
        + C sum_n max_y [D(y, y_n) + F(x_n, y) - F(x_n, y_n)]``

    by block-coordinate Frank-Wolfe [2]_: each iteration visits all rows, finds label vectors that
    violate the margin by flips of single labels, and moves the weights so that the dual objective
    rises most. When little progress is left, the method `inference` finds the maximum for every
    row, which proves the duality gap or gives new label vectors. If the method is not exact, the
    maximum is over a part of the label vectors ("icm"), or over a larger set of vectors whose
    entries may also be 1/2 ("linear_program") [1]_.

    `fit` and `predict` take and return labels in {0, 1}; -1 and +1 are used internally. y may be a
    2-D indicator matrix of 0/1, or 1-D. For two classes the model is a linear SVM. For more classes
    the model is the multi-class SVM of Crammer and Singer [3]_: there are no pair weights, and the
    maximum is over the vectors in which exactly one label is 1.

    A new value of `inference`, `decode` or `n_jobs` takes effect at the next prediction.

    Parameters
    ----------
    C : float, default=0.1
        Weight of the loss of each row. It applies to the given columns of X: scale them first, for
        example with `StandardScaler`. The more rows there are, the smaller C should be. The number
        of iterations grows with C.
    pairwise_penalty : float, default=1.0
        Penalty eta of the pair weights. ``np.inf`` gives a linear SVM for each label, with a margin
        of 1/2.
    tol : float, default=1e-3
        Tolerance. Training ends when the relative difference between the objective and its minimum
        is proven to be at most `tol`.
    max_iter : int, default=10000
        Maximum number of iterations, which are passes over the rows.
    inference : str, object or list, default="branch_and_bound"
        Method by which `fit` and `predict` find the best labels: "branch_and_bound", which is
        exact; "linear_program", the linear program over the local polytope, for which `predict`
        rounds labels of 1/2 to 0; or "icm", flips of single labels up to a local optimum. It may
        also be a configured object such as ``BranchAndBound(node_limit=10**6)`` or
        ``ICM(n_restarts=10)``. A list also sets the method for probabilities, as in
        `LMBMClassifier`.
    decode : str or object, default="map"
        Rule by which `predict` chooses the labels. "map" predicts the labels with the highest
        score. "marginal", "label_set", "expected_jaccard" and "expected_f1" are the rules of
        `CRBMClassifier`, with the probabilities of the Boltzmann machine that has the same weights.
        If every training row had a label, each rule predicts at least one label.
    class_weight : "balanced", dict, list of dict or array-like, default=None
        Weights of the classes, as in `CRBMClassifier`: they multiply the weights of the rows, and
        the sum of the row weights stays the same. For a 2-D y the weights of all labels of a row
        are multiplied.
    n_jobs : int, default=None
        Number of threads, which share the rows. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the restarts of ``ICM(n_restarts=...)`` in `fit`, if the object has no seed of its
        own. No other step is random.
    verbose : bool or int, default=False
        1 prints a live line with the gap; 2 prints a line for each iteration.

    Attributes
    ----------
    visible_coef_ : ndarray (n_outputs, n_features)
        Weights of the inputs on the labels, a_i in row i, with a single row for a binary 1-D y and
        a row per class for a multiclass y.
    visible_intercept_ : ndarray (n_outputs,)
        Biases b of the labels.
    coef_, intercept_ : ndarray
        `visible_coef_` and `visible_intercept_` of a model without weights of pairs, which is
        linear.
    pairwise_coef_ : ndarray (n_outputs, n_outputs)
        Weights S of the pairs of labels, symmetric with zero diagonal.
    objective_ : float
        Training objective of the fitted model, with the maxima that `inference` finds.
    dual_gap_ : float
        Relative duality gap: the objective exceeds its minimum by at most this share of its value.
        With "icm" the bound considers only the label vectors that were found, so it is not a proof.
    n_iter_ : int
        Number of iterations.
    classes_, label_names_, label_sets_, allow_empty_, unseen_share_
        As in `LMBMClassifier`.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    `decision_function` and `predict_proba` return the same quantities as in `LMBMClassifier`.

    Equal rows are merged before the training, and the order of the visits is random with a fixed
    seed. The fit does not depend on the order of the rows, and is the same for dense and sparse X.

    Missing labels and weights of single labels (`sample_weight` of the shape of y) are refused. A
    label of weight 0 is a missing label by definition, and the loss of a row is a maximum over
    whole label vectors, not a sum over labels. If the true label is not known, its best value must
    be found together with the weights, so that the objective is no longer convex: training would
    have no proven gap. For the same score, `LMBMClassifier` has a margin for each label and
    takes both; `MSSVMCRBM` is trained for a margin between label vectors by a local search, with
    missing labels at their best values.

    This classifier is for up to some fifty labels, or a hundred with ``inference="icm"``. Branch
    and bound takes long if there are more labels and many pairs of labels have weights. For
    example, training on 300 texts with 500 columns ended after 0.2 seconds with 10 labels and after
    1 second with 20 labels. With 50 labels the duality gap was 0.01 after 12 seconds; most of this
    time went into five searches by branch and bound. With "icm" it was 0.002 after 6 seconds with
    50 labels, and 0.17 after 8 seconds with 200 labels.
    For more labels use `LMBMClassifier`, whose margin belongs to single labels: with the same C and
    `pairwise_penalty` it took 3 seconds for 200 labels.

    References
    ----------
    .. [1] Finley and Joachims (2008). Training structural SVMs when exact inference is
       intractable. ICML.
    .. [2] Lacoste-Julien, Jaggi, Schmidt and Pletscher (2013). Block-coordinate Frank-Wolfe
       optimization for structural SVMs. ICML.
    .. [3] Crammer and Singer (2001). On the algorithmic implementation of multiclass kernel-based
       vector machines. Journal of Machine Learning Research 2.

    Examples
    --------
    >>> from skcrbm import SSVMClassifier
    >>> from skcrbm.datasets import make_structured_labels
    >>> X, Y = make_structured_labels(100, random_state=0)
    >>> model = SSVMClassifier(C=0.01).fit(X, Y)
    >>> model.predict(X[:2]).shape == Y[:2].shape, model.dual_gap_ <= 1e-3
    (True, True)
    """

    _takes_label_weights = False
    _searches = ("branch_and_bound", "linear_program", "icm")
    _saved = (*PairwiseClassifier._saved, "objective_")

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "pairwise_penalty": [Interval(Real, 0, None, closed="right")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Integer(1)],
        "inference": method_constraint(_searches, several=True),
        # The rule "hinge" is not supported, because it assumes training with margins of single
        # labels. The rule "threshold" is not supported, because it would need another fit for each
        # fold.
        "decode": decoder_constraint(
            name for name in decoders_for(IsingEnergy) if name not in ("hinge", "threshold")
        ),
        "class_weight": [StrOptions({"balanced"}), dict, list, "array-like", None],
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    _prediction_parameters = ("decode", "inference", "n_jobs")

    def __init__(
        self,
        *,
        C: float = 0.1,
        pairwise_penalty: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 10_000,
        inference: InferenceOption = "branch_and_bound",
        decode: str | DecodingRule = "map",
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ):
        self.C = C
        self.pairwise_penalty = pairwise_penalty
        self.tol = tol
        self.max_iter = max_iter
        self.inference = inference
        self.decode = decode
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            0/1 indicator matrix, or classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, which multiply C; a row of weight k counts as k copies of the row.
            Weights of single labels are refused, see Notes.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, y, a weight or a hyperparameter is invalid, y contains NaN, or `sample_weight` has
            the shape of a 2-D y.

        Warns
        -----
        ConvergenceWarning
            If training ended before `tol` was reached, after `max_iter` iterations or because of
            rounding errors; the message contains the remaining gap. Also if branch and bound
            reached its `node_limit` on some rows in the last iteration.
        """
        _, rng = begin_fit(self)
        method = self._search_method().seeded(rng)
        given = X  # callbacks compute scores on all given rows, including rows of weight 0
        rows = training_rows(self, X, y, sample_weight, reset=True)
        require_complete(
            rows.visible,
            "SSVMClassifier needs complete label vectors, because its margin compares whole "
            "vectors. Leave these rows out, or use LMBMClassifier, CRBMClassifier or MSSVMCRBM",
        )
        rows = with_class_weight(self, rows)
        X, visible, weight = distinct_rows(rows.X, rows.visible, rows.weight)
        warn_of_scales(X, weight, type(self).__name__)
        one_hot = self._targets.one_hot
        problem = StructuralMarginProblem(
            X,
            2.0 * visible.astype(np.float64) - 1.0,
            self.C * weight,
            np.inf if one_hot else self.pairwise_penalty,
            one_hot,
            method,
            self.n_jobs,
        )
        label_sets = label_sets_of(visible)

        def attributes(fitted):
            return {
                "label_sets_": label_sets,
                "visible_coef_": fitted.coef,
                "visible_intercept_": fitted.intercept,
                "pairwise_coef_": fitted.pairwise,
                "objective_": fitted.objective,
                "dual_gap_": fitted.gap,
                "n_iter_": fitted.n_iter,
            }

        callbacks = EpochCallbacks(self, self.max_iter, given, y, sample_weight, "iteration")
        with pass_hooks(self, "iteration", callbacks, attributes, _gap_and_vectors) as hooks:
            fitted = fit_structural_margin(problem, tol=self.tol, max_iter=self.max_iter, **hooks)
        vars(self).update(attributes(fitted))
        self._warn_of(fitted, method)
        callbacks.end()
        return self

    def _warn_of(self, fitted, method):
        """Warn if training ended early, or if the label search reached its node limit."""
        state = f"a relative duality gap of {fitted.gap:.1e} (tol={self.tol:g})"
        advice = "Scale X, lower C, or raise tol or max_iter."
        warn_of_early_end(fitted, "iteration", "iterations", self.max_iter, state, advice)
        if fitted.reason == "rounding":
            warn_user(
                f"Training ended after {fitted.n_iter} iterations, because rounding errors allow "
                f"no further progress, with {state}. Scale X, or lower C.",
                ConvergenceWarning,
            )
        if fitted.n_open:
            warn_user(
                f"Branch and bound reached node_limit={method.node_limit} on {fitted.n_open} rows "
                "in the last iteration; objective_ and dual_gap_ use the best labels found. A "
                "larger pairwise_penalty or a smaller C makes the search shorter.",
                ConvergenceWarning,
            )
