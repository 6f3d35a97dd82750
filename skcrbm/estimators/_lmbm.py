"""LMBMClassifier: the large margin Boltzmann machine."""

from numbers import Real

import numpy as np
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from skcrbm.decoding.rules import decoder_constraint, decoders_for, resolve_decoder
from skcrbm.energies import IsingEnergy
from skcrbm.energies.cliques import label_energy
from skcrbm.estimators._lmbm_auto import (
    cliques_of,
    is_auto,
    settle,
    without_zeros,
)
from skcrbm.estimators._pairwise import PairwiseClassifier
from skcrbm.estimators._thresholds import update_thresholds
from skcrbm.inference.choice import method_constraint
from skcrbm.learning.large_margin.dual_coordinate import LargeMarginProblem, fit_large_margin
from skcrbm.utils.columns import Columns, warn_of_scales
from skcrbm.utils.fitting import (
    EpochCallbacks,
    LiveLine,
    all_or_nothing,
    pass_hooks,
    with_callbacks,
)
from skcrbm.utils.labels import label_sets_of, require_observed, signs_of, visible_of
from skcrbm.utils.options import Integer
from skcrbm.utils.warnings import warn_user

# Not worth a warning: the objective is that close to its least value, relatively.
_SMALL_GAP = 1e-2


class LMBMClassifier(PairwiseClassifier):
    """Large margin Boltzmann machine for multi-label classification.

    A pairwise machine over labels y in {-1, +1}^L with the score
    ``sum_i y_i (a_i . x + b_i) + sum_{i<k} s_ik y_i y_k`` [1]_. Each label has a margin
    given the true other labels,
    ``m_i = y_i (a_i . x + b_i + sum_{k != i} s_ik y_k)``, and training minimises

        ``1/2 sum_i (|a_i|^2 + b_i^2) + eta/2 sum_{i<k} s_ik^2 + C sum_in [gamma - m_in]_+``

    by dual coordinate descent: a convex problem without inference, solved about as fast as
    one linear SVM per label, which it becomes as eta grows.

    With `cliques` there are larger cliques of labels, too: each adds
    ``w_j prod_{k in C_j} y_k`` to the score and to the margins of its labels, and
    ``eta/2 w_j^2`` to the objective.

    `predict` takes and gives labels in {0, 1}; the units above are inside only. y may be a
    2-D indicator matrix of 0/1 (NaN = not observed: that label's margin is dropped, and the
    label is left out of the margins of the others), or 1-D with two or more classes. Two are one
    label, more are one-hot labels, of which prediction compares the states with one label on;
    as each is certain given the others, their pair weights are held at 0.

    A change of `inference`, `decode` (except to "threshold") or `n_jobs` takes effect at once.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Weight of the margin loss of each label of each row; U in [1]_. A number is for X as it
        is: scale the columns, as with `StandardScaler`. "auto" scales them inside, two-valued
        ones to 0/1 and others to a standard deviation of 1/2 (sparse ones keep their zeros), and
        gives `coef_` for the columns as they are; so neither units nor a scaler before it
        matter. It looks for C in steps of sqrt(10) around 3 / v, where v is the sum of the
        variances of the scaled columns, see Notes.
    margin : float, default=1.0
        gamma. A margin of k with C is the model of a margin of 1 with C / k, its weights
        times k: not worth searching.
    pairwise_penalty : float or "auto", default="auto"
        eta: 1 is the LMBM of [1]_, more its LMBMr. With labels that depend strongly on each
        other, small values fit the pairs in place of the inputs: what counts is eta / (C N)
        with N rows. ``np.inf`` leaves one linear SVM per label. "auto" tries eta = 10 C N,
        3 C N, C N, .3 C N and .1 C N while that helps, and leaves the pairs out
        where they do not help beyond noise; see Notes.
    cliques : int, sequence of sets of labels or None, default=None
        Cliques of more than two labels that get a weight. An int k from 2 to 6 stands for all sets
        of up to k labels; their number, and with it time and memory, grows like the k-th power of
        the number of labels. A list such as ``[(0, 1, 2)]`` holds cliques of three to six labels,
        by numbers or names of labels. None: pairs only. All pairs have a weight in any case. 1-D y
        has no cliques.
    tol : float, default=1e-4
        Training ends when the projected gradients of the dual variables of each label (with larger
        cliques of all labels) lie within ``tol * margin`` of each other.
    max_iter : int, default=1000
        Passes over the rows at most.
    inference : str, object or list, default="branch_and_bound"
        Method that `predict` uses to find the labels: "branch_and_bound" on partial labels, exact;
        "milp", mixed integer programs of HiGHS, as a reference; or "icm", flips of single
        labels up to a local optimum. Or a configured object such as
        ``BranchAndBound(node_limit=10**6)`` or ``ICM(n_restarts=10)``. With cliques of
        more than two labels "milp" cannot be used, nor "icm" with ``decode="hinge"``.

        A list also says which method gives probabilities: each question goes to the first method
        in the list that answers it, as in ``["icm", "sum_product"]``. By default `predict_proba`
        of 2-D y uses "exact" up to 14 labels, else "tree_reweighted".
    decode : str or object, default="map"
        What it looks for:

        - "map": the labels of the highest score;
        - "hinge": those with the least hinge loss, summed over their margins (the rule of
          [1]_; among equals the higher score);
        - "marginal", "label_set", "expected_jaccard", "expected_f1", "threshold": without a
          search, by the probabilities of the Boltzmann machine, as in `CRBMClassifier`.

        Where no row of fit was without a label, all but "hinge" predict one; "hinge" is over all
        label vectors, as in [1]_.
    class_weight : "balanced", dict, list of dict or array-like, default=None
        Factors of C. 1-D y: a dict of class: weight, or "balanced",
        ``n_samples / (n_classes * count)``. 2-D y: "balanced" for each label,
        one dict of 0 and 1 for each label, or the weights (n_outputs,) of the positive class.
    warm_start : bool, default=False
        Start `fit` from the dual variables of the previous one, if X has as many rows; the
        problem is convex, so that only the time changes.
    n_jobs : int, default=None
        Threads over rows in prediction. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Order of the rows in training.
    verbose : bool or int, default=False
        1: one live line with rate, violation and what remains; 2: a line per pass.

    Attributes
    ----------
    C_, pairwise_penalty_ : float
        C and eta of the fit. Where C is "auto" they are those of the scaled columns. Multiclass
        y has no pairs: infinite.
    path_ : dict of ndarray
        Where something was searched, in the order in which it was: "C", "pairwise_penalty" and,
        on the rows left out, "hamming" (loss) and "jaccard" (index).
    coef_ : ndarray (n_outputs, n_features)
        Weights of the inputs on the labels, a_i in row i. One row for binary 1-D y, one per
        class for multiclass y.
    intercept_ : ndarray (n_outputs,)
        Biases b of the labels.
    pairwise_coef_ : ndarray (n_outputs, n_outputs)
        Weights S of the pairs of labels, symmetric with zero diagonal.
    cliques_ : list of tuples of int
        The cliques of three labels and more; empty where the pairs are left out.
    clique_coef_ : ndarray (n_cliques,)
        Their weights w.
    classes_ : ndarray (n_outputs, 2) or (n_classes,)
    label_names_ : ndarray of str (n_outputs,)
        Where y has names, as a data frame or a series, see `set_label_output`.
    label_sets_ : ndarray (n_sets, n_outputs)
        The distinct label vectors of fit, of rows with every label observed.
    allow_empty_, unseen_share_
        As in `CRBMClassifier`.
    thresholds_ : ndarray (n_outputs,)
        With ``decode="threshold"`` and 2-D y; 0.5 if an interrupt kept them from being found.
    dual_gap_ : float
        Relative duality gap at the end: (primal - dual) / primal objective.
    n_iter_ : int
        Passes over the rows.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    "auto" stands for what is best by predictions for rows left out: the least
    ``log(Hamming loss) - log(Jaccard index)`` of the labels of the highest score (the least
    hinge loss with ``decode="hinge"``), `class_weight` counting as costs of errors. The rows are
    in 5 folds stratified by labels, as many of which are left out in turn as make up 3000 rows,
    at least one. C comes first, without pairs (with those of a given `pairwise_penalty`), then
    eta, smaller in each step; this ends before the first for which not all labels are proven to
    be the best within 1000 nodes, so that prediction stays quick. Fewer than 50 rows are too
    few to choose by: C = 3 / v and eta = 3 C N.

    `predict` warns (`ConvergenceWarning`) if branch and bound reached its `node_limit` on some
    rows; `predict_with_gap` says which.

    `decision_function` of 2-D y gives ``a_i . x + b_i + sum_k s_ik y_k`` at the predicted y in
    {-1, +1}; of binary y ``a . x + b``; of multiclass y ``2 (a_k . x + b_k - sum_j s_kj)``.

    The probabilities are those of the Boltzmann machine ``p(y | x) ∝ exp(score)`` with the
    max-margin weights. They rank, but nothing calibrates them; wrap the pipeline in
    `CalibratedClassifierCV` for 1-D y.

    References
    ----------
    .. [1] Miao and Rao (2009). Large margin Boltzmann machines. IJCAI.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from skcrbm import LMBMClassifier
    >>> X, Y = make_multilabel_classification(n_samples=150, random_state=0)
    >>> model = LMBMClassifier(random_state=0).fit(X, Y)
    >>> model.predict(X[:2]).shape
    (2, 5)
    >>> model.pairwise_coef_.shape, model.dual_gap_ < 1e-3
    ((5, 5), True)
    """

    _searches = ("branch_and_bound", "milp", "icm")

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "margin": [Interval(Real, 0, None, closed="neither")],
        "pairwise_penalty": [Interval(Real, 0, None, closed="right"), StrOptions({"auto"})],
        "cliques": "no_validation",  # by `cliques_of`, in words of its own
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Integer(1)],
        "inference": [*method_constraint(_searches), list],
        "decode": decoder_constraint(decoders_for(IsingEnergy)),
        "class_weight": [StrOptions({"balanced"}), dict, list, "array-like", None],
        "warm_start": ["boolean"],
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    _saved = (*PairwiseClassifier._saved, "cliques_", "clique_coef_")
    _state = ("_targets", "_dual")
    _prediction_parameters = (
        "decode",
        "inference",
        "margin",
        "n_jobs",
    )

    def __init__(
        self,
        *,
        C="auto",
        margin=1.0,
        pairwise_penalty="auto",
        cliques=None,
        tol=1e-4,
        max_iter=1000,
        inference="branch_and_bound",
        decode="map",
        class_weight=None,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=False,
    ):
        self.C = C
        self.margin = margin
        self.pairwise_penalty = pairwise_penalty
        self.cliques = cliques
        self.tol = tol
        self.max_iter = max_iter
        self.inference = inference
        self.decode = decode
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ---------------------------------------------------------------- fitting

    @all_or_nothing
    @with_callbacks
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
            If `max_iter` passes were not enough and `dual_gap_`, which says how much is missing,
            is above 0.01. The message has the violation that `tol` is the limit of, too.
        """
        warm = self.warm_start and hasattr(self, "coef_")
        dual = getattr(self, "_dual", None) if warm else None
        if not warm:
            self._forget()
        self._search_method()  # fail before the training, not after it
        given = X  # callbacks score on what the user passed, with rows of weight 0
        X, visible, weight = self._check_training_data(X, y, sample_weight, reset=not warm)
        require_observed(~np.isnan(visible))
        factors = self._targets.loss_factors(self.class_weight, visible, weight)
        cliques = cliques_of(self)
        if cliques:
            self._check_search(self._search_method())
        rng = check_random_state(self.random_state)
        columns = Columns(X, weight) if is_auto(self.C) else None
        if columns is not None:
            X = without_zeros(columns.transform(X, X.dtype))
        elif not warm:
            warn_of_scales(X, weight, type(self).__name__)
        found = settle(self, X, visible, weight, factors, columns, cliques, rng)
        callbacks = EpochCallbacks(self, self.max_iter, given, y, sample_weight, "pass")
        sets = label_sets_of(visible)

        def attributes(fitted):
            coef, intercept = fitted.coef, fitted.intercept
            if columns is not None:
                coef, intercept = columns.as_given(coef, intercept)
            return {
                "label_sets_": sets,
                "C_": found.C,
                "pairwise_penalty_": found.penalty,
                "coef_": coef,
                "intercept_": intercept,
                "pairwise_coef_": fitted.pairwise,
                "cliques_": cliques if len(fitted.clique) else [],
                "clique_coef_": fitted.clique,
                "dual_gap_": fitted.gap,
                "n_iter_": fitted.n_iter,
            }

        signs = signs_of(visible)
        del visible  # no copy of the labels while it trains
        problem = LargeMarginProblem(
            X,
            signs,
            found.C * weight[:, None] * factors,
            self.margin,
            found.penalty,
            cliques,
        )
        if dual is None or dual.shape != signs.shape:
            dual = found.dual
        else:  # they grow with C
            dual = dual * (found.C / self.C_ if columns is not None else 1.0)
        line = LiveLine(self.verbose, "Pass", self.max_iter)
        try:
            fitted = fit_large_margin(
                problem,
                tol=self.tol,
                max_iter=self.max_iter,
                rng=rng,
                dual=dual,
                **pass_hooks(line, callbacks, attributes),
            )
        finally:
            line.end()
        vars(self).pop("path_", None)  # of an earlier fit
        if found.tried is not None:
            self.path_ = found.tried
        vars(self).update(attributes(fitted))
        if self.warm_start:
            self._dual = fitted.dual
        if fitted.reason in ("max_iter", "interrupted"):
            self._warn_of(fitted)
        changes = {"C": found.C, "pairwise_penalty": found.penalty}
        changes["cliques"] = cliques or None
        update_thresholds(
            self,
            lambda: (X, visible_of(signs, X.dtype), changes),
            weight,
            rng,
            fitted.reason == "interrupted",
        )
        callbacks.end()
        return self

    def _warn_of(self, fitted):
        left = (
            f"with a largest violation of {fitted.violation:.1e} (tol={self.tol:g}) and a relative "
            f"duality gap of {fitted.gap:.1e}"
        )
        if fitted.reason == "interrupted":
            warn_user(
                f"Training interrupted in pass {fitted.n_iter + 1}; keeping the weights learned so "
                f"far, {left}."
            )
            return
        if fitted.gap <= _SMALL_GAP:
            return
        message = f"Training ended after max_iter={self.max_iter} passes, {left}. "
        message += "Scale X, lower C, or raise tol or max_iter."
        warn_user(message, ConvergenceWarning)

    def _check_search(self, method):
        """ValueError if a search cannot take cliques of more than two labels."""
        hinge = resolve_decoder(self.decode).name == "hinge" and method.name != "branch_and_bound"
        if method.name == "milp" or hinge:
            raise ValueError(
                f"inference={method.name!r} takes pairs of labels only"
                + (" with decode='hinge'" if hinge else "")
                + "; with larger cliques take 'branch_and_bound'"
            )

    def _energy_of(self, fields):
        return label_energy(self.pairwise_coef_, fields, self.cliques_, self.clique_coef_)

    def _posterior_options(self):
        return {"margin": self.margin, "thresholds": getattr(self, "thresholds_", None)}
