"""LargeMarginMarkovNetwork: a density with weights of cliques, learned without inference."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from skcrbm.density._questions import DensityQuestions
from skcrbm.density._scopes import checked_inputs, checked_ties, clique_scopes
from skcrbm.energies import FactorGraphEnergy, IsingEnergy
from skcrbm.energies.cliques import clique_energy, n_table_entries
from skcrbm.energies.states import signs_of
from skcrbm.inference import BranchAndBound, InferenceMethod
from skcrbm.inference.choice import method_constraint, methods_for
from skcrbm.inference.running import run_inference
from skcrbm.inference.search.cliques import find_clique_states
from skcrbm.inference.search.labels import find_labels
from skcrbm.learning.large_margin.cliques import CliqueFeatures, CliqueProblem, fit_cliques
from skcrbm.targets.indicator import require_observed
from skcrbm.utils.fitting import (
    CallbackSupportMixin,
    EpochCallbacks,
    all_or_nothing,
    begin_fit,
    pass_hooks,
    warn_of_early_end,
    with_callbacks,
)
from skcrbm.utils.limits import MAX_CLIQUE_ENTRIES, MAX_ENUMERATED
from skcrbm.utils.options import Integer, is_auto
from skcrbm.utils.sklearn_private import Interval, fit_context
from skcrbm.utils.warnings import warn_user


class LargeMarginMarkovNetwork(CallbackSupportMixin, DensityQuestions):
    """Markov network over binary columns, learned for a large margin without inference.

    The model is ``p(v) ∝ exp(sum_j w_j prod_{i in C_j} v_i)``, where C_j are cliques of columns,
    and v is -1 or +1 if the entry of X is 0 or 1 [1]_. Given the other columns, column i has the
    margin ``m_i = sum_{j: i in C_j} w_j prod_{k in C_j} v_k``, and training minimises

        ``1/2 |w|^2 + alpha_l1 sum_j n_j |w_j| + C sum_in [gamma - m_in]_+``

    by dual coordinate descent, where m_in is the margin of column i in row n, [a]_+ is max(a, 0),
    and n_j is the number of pairs of columns in clique j. The problem is convex for cliques of any
    size, and training never needs log Z.

    Rows may have missing values (NaN). A missing value has no margin, and a clique that contains
    the value does not count in the margins of other columns of this row.

    Parameters
    ----------
    cliques : "pairwise", int or list of scopes, default="pairwise"
        Cliques that have a weight: "pairwise" means all single columns and all pairs; an int k
        means all sets of up to k columns; a list holds a sequence of columns for each clique.
        Cliques may have any number of columns, but all methods except ``impute(rule="hinge")`` need
        a table of 2^k entries for each clique of k columns; see `energy_`.
    ties : array-like of int (n_cliques,) or matrix (n_cliques, n_groups), default=None
        Groups of cliques that share a weight. An array holds the group of each clique, numbered
        from 0. A matrix, such as `ties` of `from_clauses`, gives the clique weights ``ties @
        group_weights_``. The penalties then apply to the group weights. If None, every clique has
        its own weight.
    inputs : array-like of int, default=None
        Columns that are always given: the model is p(other columns | inputs). Inputs have no
        margins, and do not count in n_j.
    C : float, default=1.0
        Weight of the margin loss of each entry of X.
    margin : float, default=1.0
        Margin gamma. There is no need to search for the best margin: without the L1 penalty, the
        margin k with the loss weight C gives k times the weights of the margin 1 with the loss
        weight C / k.
    alpha_l1 : float, default=0.0
        Factor of the L1 penalty on the weight of a clique for each pair of its columns, equal to 4
        eta_0 in [1]_; see Notes. Weights of single columns have no L1 penalty.
    tol : float, default=1e-3
        Tolerance. Training ends when the duality gap is at most `tol` times the objective.
    max_iter : int, default=2000
        Maximum number of passes over the distinct rows.
    inference : str or object, default="auto"
        Method of `score_samples`, `marginals` and ``impute(rule="map")``: "exact", "sum_product",
        "tree_reweighted", "mean_field", "max_product", "icm", or a configured object. "auto" stands
        for "exact", and raises an error if the model is too large for it.
    binarize : float or None, default=0.5
        Threshold above which values count as 1; all other values count as 0. If it is None, X must
        contain only 0, 1 and NaN.
    warm_start : bool, default=False
        If True, and X has the same distinct rows as in the previous fit, `fit` starts from the dual
        variables of this fit. The problem is convex, so the result is the same and only the time
        changes.
    n_jobs : int, default=None
        Number of threads in methods of the fitted model such as `marginals`. The result does not
        depend on this number.
    random_state : int, RandomState or None, default=None
        Seed of the order of the rows in training.
    verbose : bool or int, default=False
        1 prints a line with rate, violation and remaining time, which is updated during training; 2
        prints a line per pass.

    Attributes
    ----------
    cliques_ : list of tuples of int
        Columns of each clique.
    weights_ : ndarray (n_cliques,)
        Weight of each clique.
    group_weights_ : ndarray (n_groups,)
        Learned weight of each group. If `ties` is None, these are the weights of the cliques.
    energy_ : FactorGraphEnergy or None
        Model of the cliques with nonzero weight, for `skcrbm.inference.infer`. None if the tables
        of these cliques together would have more than 2^26 entries, for example if a single clique
        has more than 26 columns.
    dual_gap_ : float
        Relative duality gap at the end: (primal - dual) / primal objective.
    n_iter_ : int
        Number of passes over the rows.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    With the slacks ``xi_i = [gamma - m_i]_+`` of a row v of K columns and
    ``b = log(1 + exp(-2 gamma))``,

        ``log p(v) >= -(2 sum_i xi_i + K b + 4 sum_j n_j |w_j|)``.

    The last term is 4 R(w) in [1]_. The proof in the paper counts a clique once for each pair of
    its columns, so the printed term ``4 |w|_1`` holds only for cliques of two columns. The printed
    constant K log 2 is not needed. Problem 3.3 of [1]_, which minimises ``1/N sum xi + lambda
    (eta_0 R(w) + |w|^2 / 2)``, is the problem above with ``C = 1 / (lambda N)`` and ``alpha_l1 = 4
    eta_0``. With ``alpha_l1 = 2 C N`` the loss plus the L1 penalty would be proportional to the
    bound, up to a constant. But then all cliques of two or more columns get the weight 0: useful
    values of `alpha_l1` are far smaller.

    References
    ----------
    .. [1] Miao and Rao (2009). Large margin Boltzmann machines. IJCAI.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.density import LargeMarginMarkovNetwork
    >>> X = np.random.default_rng(0).integers(0, 2, (200, 3))
    >>> X[:, 2] = X[:, 0] ^ X[:, 1]  # pairs of columns are independent
    >>> model = LargeMarginMarkovNetwork(cliques=3, random_state=0).fit(X)
    >>> model.impute([[0, 1, np.nan], [1, 1, np.nan]])
    array([[0., 1., 1.],
           [1., 1., 0.]])
    """

    _saved = (
        *("n_features_in_", "energy_", "n_iter_", "dual_gap_"),
        *("cliques_", "weights_", "group_weights_", "_is_output"),
    )

    _state = ("_last", "_is_output")

    energy_: FactorGraphEnergy | Any  # None if the tables of the cliques would be too large
    cliques_: list[tuple[int, ...]]
    weights_: np.ndarray
    _is_output: np.ndarray

    _parameter_constraints: dict = {
        # The module `_scopes` validates `cliques`, `ties` and `inputs`.
        "cliques": "no_validation",
        "ties": "no_validation",
        "inputs": "no_validation",
        "C": [Interval(Real, 0, None, closed="neither")],
        "margin": [Interval(Real, 0, None, closed="neither")],
        "alpha_l1": [Interval(Real, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Integer(1)],
        "inference": method_constraint(
            methods_for(FactorGraphEnergy, {"marginals"}, {"map"}),
            auto=True,
            also=methods_for(FactorGraphEnergy, {"log_partition"}),
        ),
        "binarize": [Interval(Real, None, None, closed="neither"), None],
        "warm_start": ["boolean"],
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    _query_parameters = ("inference", "binarize", "n_jobs", "margin")

    def __init__(
        self,
        cliques: str | int | Sequence[Sequence[int]] = "pairwise",
        *,
        ties: Any = None,
        inputs: ArrayLike | None = None,
        C: float = 1.0,
        margin: float = 1.0,
        alpha_l1: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = 2000,
        inference: str | InferenceMethod = "auto",
        binarize: float | None = 0.5,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ):
        self.cliques = cliques
        self.ties = ties
        self.inputs = inputs
        self.C = C
        self.margin = margin
        self.alpha_l1 = alpha_l1
        self.tol = tol
        self.max_iter = max_iter
        self.inference = inference
        self.binarize = binarize
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_is_fitted__(self):
        return "weights_" in vars(self)

    # ---------------------------------------------------------------- training

    @all_or_nothing
    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None):
        """Learn the distribution of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Numbers, which are compared with `binarize`. NaN stands for missing values.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative factors of C; a weight k counts as k copies of the row.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, a weight or a hyperparameter is invalid, or if all entries of the columns that are
            not inputs are missing.

        Warns
        -----
        ConvergenceWarning
            If training ended after `max_iter` passes.
        """
        warm, rng = begin_fit(self)
        last = vars(self).get("_last") if warm else None
        given = X  # callbacks get the X of the user, with its rows of weight 0
        _, visible, weight = self._check_training_data(X, y, sample_weight, reset=not warm)
        if not is_auto(self.inference):
            self._given_method()  # raises an error now if an option is invalid
        is_output = checked_inputs(self.inputs, visible.shape[1])
        cliques = clique_scopes(self.cliques, is_output)
        mixing = checked_ties(self.ties, len(cliques))
        require_observed(~np.isnan(visible[:, is_output]), "X", "entry of an output")
        # Merge equal rows and add up their weights, because each distinct row costs time in every
        # pass.
        signs, which = np.unique(signs_of(visible), axis=0, return_inverse=True)
        weight = np.bincount(which.reshape(-1), weight)
        features = CliqueFeatures.of(cliques, mixing, is_output)
        problem = CliqueProblem(
            features,
            signs,
            np.broadcast_to(self.C * weight[:, None], signs.shape),
            self.margin,
            self.alpha_l1 * features.n_pairs(),
        )
        dual = None
        if last is not None and np.array_equal(last[0], signs):
            dual = last[1]
        callbacks = EpochCallbacks(self, self.max_iter, given, y, sample_weight, "pass")

        def attributes(fitted):
            weights = mixing @ fitted.weight
            large = n_table_entries(cliques, weights) > MAX_CLIQUE_ENTRIES
            energy = None if large else clique_energy(cliques, weights, visible.shape[1])
            return {
                "cliques_": cliques,
                "weights_": weights,
                "group_weights_": fitted.weight,
                "energy_": energy,
                "dual_gap_": fitted.gap,
                "n_iter_": fitted.n_iter,
                "_is_output": is_output,
            }

        with pass_hooks(self, "pass", callbacks, attributes) as hooks:
            fitted = fit_cliques(
                problem,
                tol=self.tol,
                max_iter=self.max_iter,
                rng=rng,
                dual=dual,
                on_pass_begin=hooks.get("on_pass_begin"),
                on_pass_end=hooks.get("on_pass_end"),
            )
        vars(self).update(attributes(fitted))
        if self.warm_start:
            self._last = signs, fitted.dual
        state = f"a relative duality gap of {fitted.gap:.1e} (tol={self.tol:g})"
        advice = "Lower C, or raise tol or max_iter."
        warn_of_early_end(fitted, "pass", "passes", self.max_iter, state, advice)
        callbacks.end()
        return self

    # --------------------------------------------------------------- questions

    _estimates_log_z = False  # log Z depends on the inputs, so each row would need an estimate

    def _check_rows(self, X):
        visible = self._given_inputs(X)
        self._check_energy()
        return visible

    def _given_inputs(self, X):
        """Validate X, and return it (N, n_features); raise an error if an input is NaN."""
        visible = super()._check_rows(X)
        if np.isnan(visible[:, ~self._is_output]).any():
            raise ValueError("X contains NaN in columns that are inputs")
        return visible

    def _check_energy(self):
        if self.energy_ is None:
            raise ValueError(
                "the tables of the fitted cliques would have "
                f"{n_table_entries(self.cliques_, self.weights_)} entries, 2^k for a clique of k "
                f"columns, but inference is limited to {MAX_CLIQUE_ENTRIES}; choose smaller "
                "cliques, or raise alpha_l1 so that more cliques get the weight 0. This model "
                "supports only impute(rule='hinge')"
            )

    def _check_given(self, n_samples, given):
        clamp = super()._check_given(n_samples, given)
        self._check_energy()
        inputs = ~self._is_output
        if inputs.any() and (clamp is None or np.isnan(clamp[0, inputs]).any()):
            raise ValueError("given must hold 0 or 1 in the columns that are inputs")
        return clamp

    def _log_z(self, visible, method):
        if self._is_output.all():
            return super()._log_z(visible, method)
        inputs = np.where(self._is_output, np.nan, visible)
        distinct, which = np.unique(inputs[:, ~self._is_output], axis=0, return_inverse=True)
        clamp = np.full((len(distinct), visible.shape[1]), np.nan)
        clamp[:, ~self._is_output] = distinct
        found = run_inference(
            self.energy_.rows(np.zeros(len(distinct), int)),
            method,
            clamp=clamp,
            returns="log_partition",
            n_jobs=self.n_jobs,
        )
        return found.log_partition[which.reshape(-1)]

    def impute(self, X: ArrayLike, rule: str = "hinge") -> np.ndarray:
        """Replace missing values by the best values given the observed values of the row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As in `fit`.
        rule : {"hinge", "map"}, default="hinge"
            "hinge" chooses the values with the least hinge loss ``sum_i [gamma - m_i]_+`` over all
            columns that are not inputs, as in the paper; if two losses are equal, the higher score
            decides. Branch and bound finds these values exactly. If there are cliques of more than
            two columns, a row may have up to 20 missing values. "map" chooses the values with the
            highest probability, found by `inference`.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Values 0 and 1 of all columns, without missing values.

        Raises
        ------
        ValueError
            If `rule` is unknown, an input is missing, there are too many missing values for the
            search, or the model is too large for exact inference with ``inference="auto"``.

        Warns
        -----
        ConvergenceWarning
            If the search in a row with very many missing values was cut short.
        """
        check_is_fitted(self)
        if rule not in ("hinge", "map"):
            raise ValueError(f"rule must be 'hinge' or 'map', got {rule!r}")
        if rule == "hinge":
            visible = self._given_inputs(X).copy()
            partly = np.flatnonzero(np.isnan(visible).any(axis=1))
            if len(partly):
                pairs = max(map(len, self.cliques_)) <= 2
                search = self._search_pairs if pairs else self._search_cliques
                visible[partly] = search(visible[partly])
            return visible
        visible = self._check_rows(X).copy()
        partly = np.flatnonzero(np.isnan(visible).any(axis=1))
        if len(partly):
            found = run_inference(
                self.energy_.rows(np.zeros(len(partly), int)),
                self._query_method(self.energy_, "impute"),
                clamp=self._clamp(visible[partly]),
                returns="map",
                n_jobs=self.n_jobs,
            )
            visible[partly] = found.assignment
        return visible

    def _search_pairs(self, visible):
        """Fill the missing values of N rows if no clique has more than two columns."""
        n_rows, n_variables = visible.shape
        coupling = np.zeros((n_variables, n_variables))
        field = np.zeros(n_variables)
        for clique, weight in zip(self.cliques_, self.weights_, strict=True):
            if len(clique) == 1:
                field[clique[0]] += weight
            else:
                coupling[clique], coupling[clique[::-1]] = weight, weight
        outputs, inputs = np.flatnonzero(self._is_output), np.flatnonzero(~self._is_output)
        pull = (2.0 * visible[:, inputs] - 1) @ coupling[np.ix_(inputs, outputs)]
        energy = IsingEnergy(coupling[np.ix_(outputs, outputs)], field[outputs] + pull)
        energy = energy.condition(visible[:, outputs])
        found = find_labels(energy, BranchAndBound(), self.margin, n_jobs=self.n_jobs)
        n_open = np.count_nonzero(found.gap)
        if n_open:
            warn_user(
                f"The search was cut short on {n_open} of {n_rows} rows; the values filled in are "
                "the best found so far, and the optimum may be better by up to "
                f"{found.gap.max():.3g}.",
                ConvergenceWarning,
            )
        filled = visible.copy()
        filled[:, outputs] = found.labels
        return filled

    def _search_cliques(self, visible):
        """Fill the missing values of N rows by branch and bound, for cliques of any size."""
        most = int(np.isnan(visible).sum(axis=1).max())
        if most > MAX_ENUMERATED:
            raise ValueError(
                f"X has rows with {most} missing values, but rule='hinge' with cliques of more "
                f"than two columns supports at most {MAX_ENUMERATED}; use rule='map'"
            )
        found = find_clique_states(
            visible,
            self.cliques_,
            self.weights_,
            margin=self.margin,
            is_output=self._is_output,
            node_limit=2**MAX_ENUMERATED,  # more nodes than a search can have
            n_jobs=self.n_jobs,
        )
        return found.labels.astype(visible.dtype)
