"""LMBMClassifier: large margin Boltzmann machine."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.decoding.rules import DecodingRule, decoder_constraint, decoders_for
from skcrbm.energies import IsingEnergy
from skcrbm.energies.states import signs_of, visible_of
from skcrbm.estimators._base import training_rows
from skcrbm.estimators._lmbm_auto import (
    choose_penalties,
    label_cliques,
    label_energy,
    weights_of_search,
)
from skcrbm.estimators._pairwise import InferenceOption, PairwiseClassifier
from skcrbm.estimators._thresholds import update_thresholds
from skcrbm.inference.choice import method_constraint
from skcrbm.learning.large_margin.dual_coordinate import LargeMarginProblem, fit_large_margin
from skcrbm.targets.indicator import require_observed
from skcrbm.targets.label_sets import label_sets_of
from skcrbm.utils.columns import Columns, in_faster_storage, warn_of_scales
from skcrbm.utils.fitting import (
    EpochCallbacks,
    all_or_nothing,
    begin_fit,
    pass_hooks,
    warn_of_early_end,
    with_callbacks,
)
from skcrbm.utils.options import Integer, is_auto, option_name
from skcrbm.utils.sklearn_private import Interval, StrOptions, fit_context

# Largest relative duality gap for which a fit that ends at `max_iter` does not warn.
_SMALL_GAP = 1e-2


class LMBMClassifier(PairwiseClassifier):
    """Large margin Boltzmann machine for multi-label classification.

    The model gives each label vector y in {-1, +1}^L the score
    ``sum_i y_i (a_i . x + b_i) + sum_{i<k} s_ik y_i y_k``, with a weight s_ik for each pair of
    labels [1]_. The margin of label i in row n is computed from the true values y of all labels:
    ``m_in = y_i (a_i . x + b_i + sum_{k != i} s_ik y_k)``, and training minimises

        ``1/2 sum_i (|a_i|^2 + b_i^2) + eta/2 sum_{i<k} s_ik^2 + C sum_in [gamma - m_in]_+``

    by dual coordinate descent. The problem is convex and training needs no inference. It takes
    about as long as a separate linear SVM for each label. If eta is infinite, the model is equal to
    these SVMs.

    With `cliques`, sets of more than two labels have weights as well: clique C_j adds
    ``w_j prod_{k in C_j} y_k`` to the score, the corresponding term to the margins of its labels,
    and ``eta/2 w_j^2`` to the objective.

    `fit` and `predict` take and return labels in {0, 1}; -1 and +1 are used internally. y may be a
    2-D indicator matrix of 0/1, with NaN for missing labels. A missing label has no margin, and
    does not contribute to the margins of the other labels. Cross-validate and search with
    `skcrbm.model_selection` if y has missing labels: the functions there have scikit-learn's names
    and accept them. y may also be 1-D. Two classes are encoded as a single label. More classes are
    encoded as one-hot labels, and `predict` sets exactly one label to 1; the pair weights are 0,
    because the other labels determine each one-hot label.

    A new value of `inference`, `n_jobs` or `decode` (except "threshold") takes effect at the next
    prediction.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Factor of the sum of margin losses over all labels and rows, called U in [1]_. A number
        applies to the given columns of X: scale them first, for example with `StandardScaler`.
        "auto" scales the columns internally, so that the units of X do not matter: columns with two
        values to 0/1, and other columns to a standard deviation of 1/2. If fewer than a tenth of
        the entries of X differ from 0, as in texts, the columns keep their zeros and are divided by
        a common scale, so that the weights of TF-IDF keep their effect. `visible_coef_` still
        applies to the given columns. "auto" then searches C in steps of sqrt(10) around 3 / v,
        where v is the sum of the variances of the scaled columns (see Notes), for weights with mean
        1, so that the scale of `sample_weight` does not matter either. `C_` is the C for the given
        weights.
    margin : float, default=1.0
        Margin gamma. There is no need to search for the best margin: a fit with the margin k and C
        gives k times the weights of a fit with the margin 1 and C / k.
    pairwise_penalty : float or "auto", default="auto"
        Penalty eta of the pair weights: 1 gives the LMBM of [1]_, and larger values give its LMBMr.
        If labels depend strongly on each other and eta is too small, the model explains the labels
        by each other instead of by the inputs. Whether eta is too small depends on eta / (C N),
        where N is the number of rows. ``np.inf`` gives a linear SVM for each label. "auto" tries
        eta = 10 C N, 3 C N, C N, .3 C N and .1 C N in this order as long as the score improves. If
        pairs do not improve the score by more than its standard error, eta is infinite; see Notes.
    cliques : int, sequence of sets of labels or None, default=None
        Cliques of more than two labels that get a weight, in addition to all pairs. An int k of at
        least 2 means all sets of up to k labels; time and memory grow with the number of such sets,
        which is about the k-th power of the number of labels. A list such as ``[(0, 1, 2)]``
        contains cliques of three or more labels, by number or name. Predictions need a table of
        2^k entries for each clique of k labels, and all tables together may have up to 2^26
        entries. None means that only pairs have weights. Models of a 1-D y have no cliques.
    tol : float, default=1e-4
        Tolerance. Training ends when the projected gradients of the dual variables of each label
        (with larger cliques: of all labels) differ by at most ``tol * margin``.
    max_iter : int, default=1000
        Maximum number of passes over the rows.
    inference : str, object or list, default="branch_and_bound"
        Method by which `predict` finds the best labels: "branch_and_bound", an exact search over
        partial label vectors; "milp", mixed integer programs solved by HiGHS, for comparison; or
        "icm", flips of single labels up to a local optimum. It may also be a configured object such
        as ``BranchAndBound(node_limit=10**6)`` or ``ICM(n_restarts=10)``. With cliques of more than
        two labels "milp" is not possible, and "icm" is not possible with ``decode="hinge"``.

        A list such as ``["icm", "sum_product"]`` also sets the method for probabilities: each query
        goes to the first method in the list that can answer it. By default `predict_proba` of a 2-D
        y uses "exact" up to 14 labels, else "tree_reweighted".
    decode : str or object, default="map"
        Rule by which `predict` chooses the labels:

        - "map": the labels with the highest score;
        - "hinge": the labels with the smallest sum of hinge losses of their margins, as in [1]_. If
          several label vectors have the same loss, the score decides;
        - "marginal", "label_set", "expected_jaccard", "expected_f1", "threshold", or a configured
          object such as ``Threshold("f1_macro")``: rules on the probabilities of the Boltzmann
          machine, as in `CRBMClassifier`. These rules need no search for the best labels.

        The probabilities are not calibrated, so that "expected_jaccard" and "expected_f1" may
        predict far too many labels. For these rules, calibrate the probabilities first:
        ``DecodedClassifier(CalibratedMarginals(LMBMClassifier()), decode="expected_f1")``.

        If every training row had a label, all rules except "hinge" predict at least one label.
    class_weight : "balanced", dict, list of dict or array-like, default=None
        Weights of the classes, which multiply C. For a 1-D y: a dict {class: weight}, or "balanced"
        for ``n_samples / (n_classes * count)``. For a 2-D y: a list with a dict
        {0: weight, 1: weight} for each label, an array (n_outputs,) with weights of the positive
        class, "balanced" for each label, or for a data frame a dict by label name, such as
        ``{"town": 3.0}`` or ``{"town": {0: 1.0, 1: 3.0}}``.
    warm_start : bool, default=False
        If True and X has the same number of rows as in the previous fit, `fit` starts from the dual
        variables of that fit. The problem is convex, so this saves time without changing the model.
    n_jobs : int, default=None
        Number of threads in prediction, which share the rows. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the order of the rows in training, and of the folds if C or `pairwise_penalty` is
        "auto".
    verbose : bool or int, default=False
        1 prints a live line with rate, violation and remaining time; 2 prints a line for each pass.

    Attributes
    ----------
    C_, pairwise_penalty_ : float
        Values of C and eta in the fit. If the parameter `C` is "auto", they apply to the scaled
        columns. For a multiclass y eta is infinite, because there are no pair weights.
    path_ : dict of ndarray
        Record of the search, with an entry for each pair of values tried: "C", "pairwise_penalty",
        and the "hamming" loss and "jaccard" index of the held-out rows. It exists only if there was
        a search.
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
    cliques_ : list of tuples of int
        Cliques of three or more labels; empty if eta is infinite.
    clique_coef_ : ndarray (n_cliques,)
        Weights w of the cliques in `cliques_`.
    loss_threshold_ : float
        Threshold T of Remark 4.2 of [1]_, for a bound on the error rate. For each label, add up the
        absolute weights of its pairs and cliques; T is the margin minus the largest of these sums,
        but at least 0. If ``decode="hinge"`` predicts wrong labels for a row, the hinge losses of
        the true labels of this row add up to at least T. The probability of a wrong prediction is
        therefore at most the mean total hinge loss of a row, divided by T. A larger T gives a
        better bound; 0 gives no bound.
    classes_ : ndarray (n_outputs,) or (n_classes,)
        Numbers 0, ..., n_outputs - 1 of the labels of a 2-D y, or the classes of a 1-D y.
    label_names_ : ndarray of str (n_outputs,)
        Names of the labels if y is a data frame or a series with names, see `set_label_output`.
    label_sets_ : ndarray (n_sets, n_outputs)
        Distinct label vectors of the training rows without missing labels.
    allow_empty_, unseen_share_
        As in `CRBMClassifier`.
    thresholds_ : ndarray (n_outputs,)
        Thresholds if ``decode="threshold"`` and y is 2-D; all 0.5 if their search was interrupted.
    dual_gap_ : float
        Relative duality gap at the end of training: (primal - dual) / primal objective.
    n_iter_ : int
        Number of passes over the rows.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The search for "auto" values minimises ``log(Hamming loss) - log(Jaccard index)`` of predictions
    for held-out rows, with errors weighted by `class_weight`. The predictions are the labels with
    the highest score or, if `decode` is not "map", with the smallest hinge loss. The rows are split
    into 5 folds, stratified by labels. The search evaluates as many folds as are needed for about
    3000 held-out rows, and at least one fold. It chooses C first, without pairs or with the given
    `pairwise_penalty`, and then tries decreasing values of eta. So that prediction stays fast, the
    search stops at the first eta for which branch and bound needs more than 1000 nodes for a row to
    prove that the labels are optimal. If there are fewer than 50 rows, there is no search: C = 3 /
    v and eta = 3 C N.

    `predict` warns (`ConvergenceWarning`) if branch and bound reached its `node_limit` on some
    rows; `predict_with_gap` returns a positive gap for these rows.

    `decision_function` returns ``a_i . x + b_i + sum_k s_ik y_k`` for the labels of a 2-D y, at the
    predicted y in {-1, +1}; ``a . x + b`` for a binary y; and
    ``2 (a_k . x + b_k - sum_j s_kj)`` for the classes of a multiclass y.

    The probabilities belong to the Boltzmann machine ``p(y | x) ∝ exp(score)`` with the weights
    that were trained for a large margin. They rank labels well but are not calibrated. To calibrate
    them, wrap the pipeline in `CalibratedMarginals` (or `CalibratedClassifierCV` for a 1-D y).

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

    C_: float
    cliques_: list
    clique_coef_: tuple | np.ndarray
    loss_threshold_: float

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "margin": [Interval(Real, 0, None, closed="neither")],
        "pairwise_penalty": [Interval(Real, 0, None, closed="right"), StrOptions({"auto"})],
        "cliques": "no_validation",  # the function `label_cliques` validates this parameter
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Integer(1)],
        "inference": method_constraint(_searches, several=True),
        "decode": decoder_constraint(decoders_for(IsingEnergy)),
        "class_weight": [StrOptions({"balanced"}), dict, list, "array-like", None],
        "warm_start": ["boolean"],
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    _saved = (*PairwiseClassifier._saved, "cliques_", "clique_coef_", "loss_threshold_")
    _state = ("_targets", "_dual")
    _prediction_parameters = ("decode", "inference", "margin", "n_jobs")

    def __init__(
        self,
        *,
        C: float | str = "auto",
        margin: float = 1.0,
        pairwise_penalty: float | str = "auto",
        cliques: Any = None,
        tol: float = 1e-4,
        max_iter: int = 1000,
        inference: InferenceOption = "branch_and_bound",
        decode: str | DecodingRule = "map",
        class_weight: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
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
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            0/1 indicator matrix with NaN for missing labels, or classes.
        sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
            Non-negative weights, which multiply C; a row of weight k counts as k copies of the row,
            with given penalties: a search splits the rows into folds, and may put copies into
            different folds.
            If ``C="auto"`` and there are at least 50 rows, so that C is searched, only the ratios
            of the weights matter. A matrix holds weights of single labels of a 2-D y; see the page
            on missing labels.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, y, a weight or a hyperparameter is invalid.

        Warns
        -----
        ConvergenceWarning
            If training ended after `max_iter` passes with a `dual_gap_` above 0.01. The message
            also contains the largest violation of the optimality conditions, which training
            compares with `tol`.
        """
        warm, rng = begin_fit(self)
        dual = getattr(self, "_dual", None) if warm else None
        # call this function to raise errors before training, not after training
        method = self._search_method()
        rows = training_rows(self, X, y, sample_weight, reset=not warm)
        inputs, visible, weight, origin = rows
        require_observed(~np.isnan(visible))
        weight, mean_weight = weights_of_search(self, visible, weight, origin)
        factors = self._targets.loss_factors(self.class_weight, visible, weight)
        cliques = label_cliques(self)
        if cliques:
            self._check_search(method)
        columns = None
        if is_auto(self.C):
            inputs = in_faster_storage(inputs)
            columns = Columns(inputs, weight)
            inputs = columns.transform(inputs, inputs.dtype)
        elif not warm:
            warn_of_scales(inputs, weight, type(self).__name__)
        chosen = choose_penalties(
            self, rows._replace(X=inputs, weight=weight), factors, columns, cliques, rng
        )
        label_sets, signs = label_sets_of(rows.first.visible), signs_of(visible)
        del visible, rows  # save memory during training
        limit = chosen.C * weight[:, None] * factors
        problem = LargeMarginProblem(inputs, signs, limit, self.margin, chosen.penalty, cliques)
        if dual is None or dual.shape != signs.shape:
            dual = chosen.dual
        else:  # scale the dual variables of the earlier fit, because they grow with C
            dual = dual * (chosen.C / mean_weight / self.C_ if columns is not None else 1.0)

        def attributes(fitted):
            coef, intercept = fitted.coef, fitted.intercept
            if columns is not None:
                coef, intercept = columns.as_given(coef, intercept)
            return {
                "label_sets_": label_sets,
                "C_": chosen.C / mean_weight,
                "pairwise_penalty_": chosen.penalty,
                "visible_coef_": coef,
                "visible_intercept_": intercept,
                "pairwise_coef_": fitted.pairwise,
                "cliques_": cliques if len(fitted.clique) else [],
                "clique_coef_": fitted.clique,
                "loss_threshold_": self._loss_threshold(fitted, cliques),
                "dual_gap_": fitted.gap,
                "n_iter_": fitted.n_iter,
            }

        # Callbacks compute scores on all given rows, including rows of weight 0.
        callbacks = EpochCallbacks(self, self.max_iter, X, y, sample_weight, "pass")
        with pass_hooks(self, "pass", callbacks, attributes) as hooks:
            fitted = fit_large_margin(
                problem, tol=self.tol, max_iter=self.max_iter, rng=rng, dual=dual, **hooks
            )
        for name in ("path_", "thresholds_"):  # attributes of an earlier fit
            vars(self).pop(name, None)
        if chosen.tried is not None:
            self.path_ = chosen.tried
        vars(self).update(attributes(fitted))
        if self.warm_start:
            self._dual = fitted.dual
        if fitted.reason != "max_iter" or fitted.gap > _SMALL_GAP:
            state = f"a largest violation of {fitted.violation:.1e} (tol={self.tol:g}) and a "
            state += f"relative duality gap of {fitted.gap:.1e}"
            advice = "Scale X, lower C, or raise tol or max_iter."
            warn_of_early_end(fitted, "pass", "passes", self.max_iter, state, advice)
        if option_name(self.decode) == "threshold":
            changes = {
                "C": chosen.C,
                "pairwise_penalty": chosen.penalty,
                "cliques": cliques or None,
            }
            update_thresholds(
                self,
                lambda: (inputs, visible_of(signs, inputs.dtype), changes),
                weight,
                rng,
                fitted.reason == "interrupted",
                origin,
            )
        callbacks.end()
        return self

    def _loss_threshold(self, fitted, cliques):
        """Return the threshold T of Remark 4.2 of Miao and Rao (2009); see `loss_threshold_`."""
        weight = np.abs(fitted.pairwise).sum(axis=1, dtype=np.float64)
        for clique, value in zip(cliques, fitted.clique):
            weight[list(clique)] += abs(value)
        return max(0.0, float(self.margin - weight.max(initial=0.0)))

    def _check_search(self, method):
        """Raise a ValueError if the search method cannot handle cliques of more than two labels."""
        hinge = option_name(self.decode) == "hinge" and method.name != "branch_and_bound"
        if method.name == "milp" or hinge:
            raise ValueError(
                f"inference={method.name!r} supports only pairs of labels"
                + (" with decode='hinge'" if hinge else "")
                + "; use 'branch_and_bound' for larger cliques"
            )

    def _energy_of(self, fields):
        return label_energy(self.pairwise_coef_, fields, self.cliques_, self.clique_coef_)

    def _posterior_options(self):
        return {"margin": self.margin}
