"""SSVMClassifier: the structural support vector machine over pairs of labels."""

from numbers import Real

import numpy as np
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from skcrbm.decoding.rules import decoder_constraint, decoders_for
from skcrbm.energies import IsingEnergy
from skcrbm.estimators._pairwise import PairwiseClassifier
from skcrbm.inference.choice import method_constraint, seeded_copy
from skcrbm.learning.large_margin.cutting_planes import StructuralMarginProblem, fit_cutting_planes
from skcrbm.utils.columns import warn_of_scales
from skcrbm.utils.fitting import (
    EpochCallbacks,
    all_or_nothing,
    pass_hooks,
    warn_of_early_end,
    with_callbacks,
)
from skcrbm.utils.labels import label_sets_of, require_complete
from skcrbm.utils.options import Integer
from skcrbm.utils.validation import weighted_rows
from skcrbm.utils.warnings import warn_user


def _gap_and_planes(gap, n_planes):
    return f"gap {gap:.2e}  planes {n_planes}"


class SSVMClassifier(PairwiseClassifier):
    """Structural support vector machine for multi-label classification.

    A pairwise machine over labels y in {-1, +1}^L with the score
    ``F(x, y) = sum_i y_i (a_i . x + b_i) + sum_{i<k} s_ik y_i y_k``, as in `LMBMClassifier`, but
    trained for a margin of whole label vectors: the true ones y_n are to score higher than any
    others by the number of labels in which these differ, D. Training minimises

        ``1/2 sum_i (|a_i|^2 + b_i^2) + eta/2 sum_{i<k} s_ik^2
        + C sum_n max_y [D(y, y_n) + F(x_n, y) - F(x_n, y_n)]``

    by cutting planes with one slack variable for all rows [2]_: each iteration looks for the
    maximum in every row, by `inference`, and solves a small quadratic program. Where the maximum is
    not found exactly, training goes by less than all label vectors ("icm") or by more
    ("linear_program", which includes labels of one half) [1]_.

    `predict` takes and gives labels in {0, 1}; the units above are inside only. y may be a
    2-D indicator matrix of 0/1, or 1-D with two or more classes. Two are one label, a linear
    SVM. More are a linear multi-class machine with one margin for all classes [3]_: the maximum is
    over the vectors with one label on, exactly, and there are no pairs.

    A change of `inference`, `decode` or `n_jobs` takes effect in prediction at once.

    Parameters
    ----------
    C : float, default=0.1
        Weight of the loss of each row, for X as it is: scale the columns, as with
        `StandardScaler`. With more rows smaller values are best; the number of iterations grows
        with C.
    pairwise_penalty : float, default=1.0
        eta. ``np.inf`` leaves one linear SVM per label, of a margin of 1/2.
    tol : float, default=1e-3
        Training ends when the objective is proven to be within this share of its least value.
    max_iter : int, default=1000
        Iterations at most.
    inference : str, object or list, default="branch_and_bound"
        Method that `fit` and `predict` use to find the best labels: "branch_and_bound", exact;
        "linear_program", the linear program of the local polytope, in which `predict` counts a half
        as off; or "icm", flips of single labels up to a local optimum. Or a configured object
        such as ``BranchAndBound(node_limit=10**6)`` or ``ICM(n_restarts=10)``. A list also says
        which method gives probabilities, as in `LMBMClassifier`.
    decode : str or object, default="map"
        "map" for the labels of the highest score, or, by the probabilities of the Boltzmann
        machine with the same weights, "marginal", "label_set", "expected_jaccard" or
        "expected_f1", as in `CRBMClassifier`. Where no row of fit was without a label, these
        predict one.
    class_weight : "balanced", dict, list of dict or array-like, default=None
        Weights of the rows by their classes, as in `MSSVMCRBM`: of a 2-D y those of a row's
        labels are multiplied, as the loss is one of whole rows. Multiplied with `sample_weight`;
        the sum of all weights stays the same.
    n_jobs : int, default=None
        Threads over rows. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the restarts of ``ICM(n_restarts=...)`` in `fit`, if that object has none. Nothing
        else is random.
    verbose : bool or int, default=False
        1: one live line with the gap; 2: a line per iteration.

    Attributes
    ----------
    coef_ : ndarray (n_outputs, n_features)
        Weights of the inputs on the labels, a_i in row i. One row for binary 1-D y, one per
        class for multiclass y.
    intercept_ : ndarray (n_outputs,)
        Biases b of the labels.
    pairwise_coef_ : ndarray (n_outputs, n_outputs)
        Weights S of the pairs of labels, symmetric with zero diagonal.
    objective_ : float
        What training minimises, with the maxima that `inference` finds.
    dual_gap_ : float
        Share of it by which a lower one is possible at most. With "icm" it counts the label
        vectors found alone, and is no proof.
    n_iter_ : int
        Iterations.
    classes_, label_names_, label_sets_, allow_empty_, unseen_share_
        As in `LMBMClassifier`.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    `decision_function` and `predict_proba` are as in `LMBMClassifier`.

    References
    ----------
    .. [1] Finley and Joachims (2008). Training structural SVMs when exact inference is
       intractable. ICML.
    .. [2] Joachims, Finley and Yu (2009). Cutting-plane training of structural SVMs. Machine
       Learning 77.
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

    _searches = ("branch_and_bound", "linear_program", "icm")
    _saved = (*PairwiseClassifier._saved, "objective_")

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "pairwise_penalty": [Interval(Real, 0, None, closed="right")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Integer(1)],
        "inference": [*method_constraint(_searches), list],
        # Those that need neither a margin nor more fits.
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
        C=0.1,
        pairwise_penalty=1.0,
        tol=1e-3,
        max_iter=1000,
        inference="branch_and_bound",
        decode="map",
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=False,
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
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            0/1 indicator matrix, or classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative factors of C; a weight k counts as k copies of the row.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            On an invalid X, y, weight or hyperparameter; on a y with NaN.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` iterations were not enough, or rounding ended training before `tol` was
            reached, with what remains; or if branch and bound reached `node_limit` on some rows in
            the last iteration.
        """
        self._forget()
        rng = check_random_state(self.random_state)
        method = seeded_copy(self._search_method(), rng)
        given = X  # callbacks score on what the user passed, with rows of weight 0
        X, visible, weight = self._check_training_data(X, y, sample_weight, reset=True)
        require_complete(
            visible,
            "SSVMClassifier needs complete label vectors, because a margin compares whole vectors. "
            "Leave these rows out, or use LMBMClassifier, CRBMClassifier or MSSVMCRBM",
        )
        if self.class_weight is not None:
            weight = self._targets.class_weighted(self.class_weight, visible, weight)
            (X, visible), weight = weighted_rows((X, visible), weight)
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
                "coef_": fitted.coef,
                "intercept_": fitted.intercept,
                "pairwise_coef_": fitted.pairwise,
                "objective_": fitted.objective,
                "dual_gap_": fitted.gap,
                "n_iter_": fitted.n_iter,
            }

        callbacks = EpochCallbacks(self, self.max_iter, given, y, sample_weight, "iteration")
        with pass_hooks(self, "iteration", callbacks, attributes, _gap_and_planes) as hooks:
            fitted = fit_cutting_planes(problem, tol=self.tol, max_iter=self.max_iter, **hooks)
        vars(self).update(attributes(fitted))
        self._warn_of(fitted, method)
        callbacks.end()
        return self

    def _warn_of(self, fitted, method):
        state = f"a relative duality gap of {fitted.gap:.1e} (tol={self.tol:g})"
        advice = "Scale X, lower C, or raise tol or max_iter."
        warn_of_early_end(fitted, "iteration", "iterations", self.max_iter, state, advice)
        if fitted.reason == "rounding":
            warn_user(
                f"Training ended after {fitted.n_iter} iterations at the accuracy of rounding, "
                f"with {state}. Scale X, or lower C.",
                ConvergenceWarning,
            )
        if fitted.n_open:
            warn_user(
                f"Branch and bound reached node_limit={method.node_limit} on {fitted.n_open} rows "
                "in the last iteration; objective_ and dual_gap_ use the best labels found. A "
                "larger pairwise_penalty or a smaller C makes the search shorter.",
                ConvergenceWarning,
            )
