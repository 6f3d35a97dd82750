"""MSSVMCRBM: conditional RBM trained for a large margin."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.decoding.rules import DecodingRule, decoder_constraint, decoders_for
from skcrbm.energies import RBMEnergy
from skcrbm.estimators._base import Rows, training_rows, with_class_weight
from skcrbm.estimators._crbm_auto import (
    PLAIN_ALPHA,
    PenaltySettings,
    search_convex_penalty,
    without_hidden_units,
)
from skcrbm.estimators._rbm import (
    Methods,
    RBMClassifier,
    marginal_method,
    scaled_design,
    source_of,
    variance_of,
)
from skcrbm.estimators._thresholds import update_thresholds
from skcrbm.inference import InferenceMethod
from skcrbm.inference.base import resolve_method
from skcrbm.inference.choice import first_that_answers, method_constraint, methods_for
from skcrbm.learning.data import max_margin_weights_scale
from skcrbm.learning.fit import Plan, train
from skcrbm.learning.margins import MARGIN_OBJECTIVES, state_methods, state_query
from skcrbm.learning.penalties import crbm_penalty
from skcrbm.learning.solvers import (
    STOCHASTIC_SOLVERS,
    Adam,
    AveragedSGD,
    LossPlateau,
    Solver,
    StochasticSolver,
    resolve_solver,
    solver_constraint,
    stopping_constraint,
)
from skcrbm.utils.columns import warn_of_scales
from skcrbm.utils.fitting import (
    EpochCallbacks,
    all_or_nothing,
    begin_fit,
    skip_empty_batches,
    with_callbacks,
)
from skcrbm.utils.limits import AUTO_EXACT_UNITS
from skcrbm.utils.options import Integer, is_auto, option_name
from skcrbm.utils.sklearn_private import Interval, StrOptions, fit_context

# Options of message passing if `inference` is a name. Damping prevents oscillating messages.
# Options of methods that are given by name. Messages with damping need more iterations to converge,
# so `max_iter` is set, too. Training searches for the states of every row in every epoch, so that
# annealing with its default of 1000 sweeps would take a hundred times as long as messages.
_MESSAGES, _ANNEALING = {"damping": 0.5, "max_iter": 50}, {"n_sweeps": 10}
# If alpha="auto" and the solver is not "asgd", the penalty is this number times the total variance
# of the columns.
_RELATIVE_ALPHA = 2e-3
# If alpha="auto" and the solver is "asgd", the penalty is this number times the best penalty of
# logistic regressions. Without this factor, models of images of digits overfit after a few epochs.
_HIDDEN_FACTOR = 3.0


class MSSVMCRBM(RBMClassifier):
    """Conditional RBM trained as a marginal structured SVM or a latent structural SVM.

    The score of 0/1 outputs v is ``s(v) = log sum_h exp(-E(v, h, x))`` (MSSVM, [1]_) or
    ``max_h -E(v, h, x)`` (LSSVM, [2]_), with the energy E of `CRBMClassifier`. Training minimises
    the mean over rows of

    ``max_v [D(v, y) + s(v)] - s(y)``

    by stochastic subgradients ([3]_, section 4.2), where D is the number of wrong outputs. The
    method `inference` finds the maximising v. Training needs no log-partition function. The scores
    serve to find the best labels; they are not log-probabilities.

    y may be a 2-D indicator matrix of 0/1 with NaN for missing labels, or a 1-D array of classes,
    for which the maximum is always exact. Missing labels do not count in D, and each training step
    fills them with their best values. Cross-validate and search with `skcrbm.model_selection` if y
    has missing labels: the functions there have scikit-learn's names and accept them.

    Parameters
    ----------
    n_hidden : int, default=8
        Number of hidden units.
    hidden : {"marginal", "max"}, default="marginal"
        How the score treats hidden units: "marginal" sums over their values (MSSVM), "max" takes
        their best values (LSSVM).
    inference : str, object or list, default="mixed_product"
        Method that finds the best outputs in training and in prediction: "mixed_product",
        "max_product", "icm", "exact", or a configured object such as
        ``MixedProduct(max_iter=30)``. The papers use mixed-product for the MSSVM and max-product
        for the LSSVM. If these two methods are given by name, they use a damping of 0.5 and up to
        50 iterations, because undamped messages oscillate when the couplings grow; an object keeps
        its own options. Without damping, an iteration of mixed-product is about 50 times faster.
        The time of an iteration of max-product does not depend on the damping.
        "simulated_annealing" by name makes 10 sweeps in each search, and training then takes about
        50 times as long as with "mixed_product"; its time is about proportional to `n_sweeps`.

        A list such as ``["mixed_product", "sum_product"]`` also sets the method for probabilities:
        each query goes to the first method in the list that can answer it. By default
        `predict_proba` uses "exact" if there are at most 10 outputs or 10 hidden units, else
        "sum_product".
    decode : str or object, default="auto"
        Rule by which `predict` chooses labels, by name or as an object from `skcrbm.decoding`.
        "auto" predicts the outputs with the highest score, as in training: this is "marginal_map"
        if `hidden` is "marginal", else "map". "marginal", "label_set", "expected_jaccard",
        "expected_f1" and "threshold" are the rules of `CRBMClassifier`. They use the probabilities
        of `predict_proba`, for which the model was not trained, so they may predict too many or too
        few labels; only "threshold" corrects for this by fitted thresholds.
    solver : str or object, default="auto"
        Solver, by name or as an object from `skcrbm.learning`: "asgd", "adam" or "sgd". "auto" is
        "asgd" if there are more than 10 outputs and more than 10 hidden units, as for images, and
        "adam" in all other cases and in `partial_fit`. If options of the solver are "auto", a batch
        has all rows if there are at most 200, else 20 rows, and ``average`` is True.
    max_iter : int, default=200
        Maximum number of epochs.
    alpha : float or "auto", default="auto"
        L2 penalty: the objective is the mean loss of a row plus ``alpha / 2 (|U|^2 + |S|^2)``.
        "auto" scales the columns of X internally, as in `CRBMClassifier`, and penalises the
        coefficients of the scaled columns. With the solver "asgd" it finds the best penalty of
        logistic regressions by cross-validation, as `CRBMClassifier` does, and uses three times
        this penalty; with the other solvers it uses 0.002 times the total variance of the scaled
        columns. If the first call is `partial_fit`, "auto" is 0.1 and columns are not scaled. A
        number applies to the coefficients of the given columns; scale them, for example with
        `StandardScaler`.
    alpha_hidden : float, default=0.0
        L2 penalty on W, ``alpha_hidden / 2 |W|^2``.
    early_stopping : bool, "auto" or object, default="auto"
        Stopping rule, as in `CRBMClassifier`; the validation score is minus the share of wrong
        outputs. "auto" holds out validation rows if there are at least 1000 rows (at least 200 rows
        with "asgd"). With "asgd" and ``alpha="auto"``, logistic regressions without hidden units
        are scored on the same validation rows, and kept if no epoch is as good (`n_hidden_` is then
        0).
    class_weight : "balanced", dict, list of dict or array-like, default=None
        Weights of the classes, as in `CRBMClassifier`.
    warm_start : bool, default=False
        Start `fit` from the parameters of the previous fit.
    n_jobs : int, default=None
        Number of threads, which share the rows. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the initial parameters, the choice of validation rows and the order of rows.
    verbose : bool or int, default=False
        1 prints a live line with rate, loss and remaining time; 2 prints a line for each epoch.

    Attributes
    ----------
    visible_coef_ : ndarray (n_outputs, n_features)
        Weights U of the inputs on the outputs, with a single row for a binary 1-D y and a row per
        class for a multiclass y.
    hidden_coef_ : ndarray (n_hidden, n_features)
        Weights S of the inputs on the hidden units.
    weights_ : ndarray (n_outputs, n_hidden)
        Couplings W of the outputs with the hidden units.
    visible_intercept_, hidden_intercept_ : ndarray (n_outputs,), (n_hidden,)
        Biases b of the outputs and c of the hidden units.
    coef_, intercept_ : ndarray
        Copies of `visible_coef_` and `visible_intercept_`, which exist only if the model has no
        hidden units and so is linear.
    classes_ : ndarray (n_outputs,) or (n_classes,)
        Numbers 0, ..., n_outputs - 1 of the labels of a 2-D y, or the classes of a 1-D y.
    label_names_ : ndarray of str (n_outputs,)
        Names of the labels if y is a data frame or a series with names, see `set_label_output`.
    label_sets_ : ndarray (n_sets, n_outputs)
        Distinct label vectors of the training rows, as in `CRBMClassifier`.
    allow_empty_, unseen_share_
        As in `CRBMClassifier`.
    thresholds_ : ndarray (n_outputs,)
        Thresholds if ``decode="threshold"`` and y is 2-D; all 0.5 if their search was interrupted.
    hidden_ : {"marginal", "max"}
        Value of `hidden` in the fit.
    alpha_ : float
        Penalty of the fit, which applies to the scaled columns if `alpha` is "auto". If the
        logistic regressions were kept, their penalty was a third of this number.
    alpha_path_ : dict of ndarray
        Record of the search for the penalty, as in `CRBMClassifier`. The arrays are empty if there
        was no search.
    n_hidden_ : int
        Number of hidden units of the fitted model: `n_hidden`, or 0 if the logistic regressions
        were kept.
    inference_ : str
        Name of the inference method in use.
    n_inference_iter_ : int or None
        Maximum number of iterations of inference in prediction; None for "exact".
    loss_curve_, convergence_curve_ : list of float
        Training loss and share of rows for which inference converged, for each epoch of the final
        run, or of the run with held-out rows if the logistic regressions were kept. With
        approximate inference and complete labels, the loss is a lower bound.
    validation_scores_ : list of float or None
        Validation score of each epoch of the run with held-out rows.
    n_iter_ : int
        Number of epochs of training that led to the parameters; 0 if the logistic regressions were
        kept.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    `decision_function` of a 2-D y compares two label vectors for each output. In the first vector
    the output is 1, in the second vector it is 0, and the other outputs have their predicted
    values. The result is the score of the first vector minus the score of the second vector. It is
    positive for predicted labels, unless a change of a single label would improve the prediction,
    which can happen if inference is approximate.

    `predict_proba` of a 2-D y returns the marginals of ``p(v, h | x) ∝ exp(-E)`` with the learned
    energy; for a 1-D y it returns the sigmoid or softmax of the decision scores. The probabilities
    are not calibrated, because the model is not trained for probabilities.

    `fit` warns (`ConvergenceWarning`) if inference converged for less than 90% of the rows in the
    last epoch.

    A new value of `hidden` or `inference` takes effect at the next fit.

    References
    ----------
    .. [1] Ping, Liu and Ihler (2014). Marginal structured SVM with hidden variables. ICML.
    .. [2] Yu and Joachims (2009). Learning structural SVMs with latent variables. ICML.
    .. [3] Ping and Ihler (2017). Belief propagation in conditional RBMs for structured
       prediction. AISTATS.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from skcrbm import MSSVMCRBM
    >>> X, Y = make_multilabel_classification(n_samples=150, random_state=0)
    >>> model = MSSVMCRBM(random_state=0).fit(X, Y)
    >>> model.predict(X[:2]).shape
    (2, 5)
    """

    hidden_: str

    _unconverged = (
        "loss-augmented inference may have missed the outputs that violate the margin most",
        "inference='exact' if a layer is small",
        "inference='icm', which converges after few iterations",
    )
    _parameter_constraints: dict = {
        "n_hidden": [Integer(0)],
        "hidden": [StrOptions(set(MARGIN_OBJECTIVES))],
        "inference": method_constraint(state_methods(), several=True),
        "decode": decoder_constraint(decoders_for(RBMEnergy), auto=True),
        "solver": solver_constraint(STOCHASTIC_SOLVERS, auto=True),
        "max_iter": [Integer(1)],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "alpha_hidden": [Interval(Real, 0, None, closed="left")],
        "early_stopping": stopping_constraint(),
        "class_weight": [StrOptions({"balanced"}), dict, list, "array-like", None],
        "warm_start": ["boolean"],
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        n_hidden: int = 8,
        hidden: str = "marginal",
        inference: str | InferenceMethod | list = "mixed_product",
        decode: str | DecodingRule = "auto",
        solver: str | Solver = "auto",
        max_iter: int = 200,
        alpha: float | str = "auto",
        alpha_hidden: float = 0.0,
        early_stopping: bool | str | LossPlateau = "auto",
        class_weight: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ):
        self.n_hidden = n_hidden
        self.hidden = hidden
        self.inference = inference
        self.decode = decode
        self.solver = solver
        self.max_iter = max_iter
        self.alpha = alpha
        self.alpha_hidden = alpha_hidden
        self.early_stopping = early_stopping
        self.class_weight = class_weight
        self.warm_start = warm_start
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
            0/1 indicator matrix with NaN for missing labels, or classes.
        sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
            Non-negative weights; a row of weight k counts as k copies of the row, with a given
            penalty. A search for the penalty splits the rows into folds, and may put copies into
            different folds. A matrix holds
            weights of single labels of a 2-D y; see the page on missing labels.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, y, a weight or a hyperparameter is invalid.
        FloatingPointError
            If the training diverges.

        Warns
        -----
        ConvergenceWarning
            If inference converged for less than 90% of the rows in the last epoch.
        """
        resume, rng = begin_fit(self)
        rows = training_rows(self, X, y, sample_weight, reset=not resume)
        rows = with_class_weight(self, rows)
        plan = self._resumed_plan(rows, rng) if resume else self._first_plan(rows, rng)
        callbacks = EpochCallbacks(self, plan.n_epochs, X, y, sample_weight)
        interrupted = train(self, plan, rng, callbacks).interrupted
        self._warn_of_convergence()
        if option_name(self.decode) == "threshold":
            folds = rows.X, rows.visible, {"class_weight": None}
            update_thresholds(self, lambda: folds, rows.weight, rng, interrupted, rows.origin)
        callbacks.end()
        return self

    @skip_empty_batches
    @all_or_nothing
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ):
        """Train for one epoch on the given rows, starting from the current parameters.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All classes of a 1-D y; required in the first call if `y` does not contain all of them.
            For a 2-D y, either [0, 1] or a list of the labels of its columns, by name (even if y is
            an array) or by number (0, 1, ...). New labels are added to the model.

        Returns
        -------
        self

        Notes
        -----
        A call does nothing if no row of positive weight has an observed label. The coefficients of
        a new label are 0 at first, and its intercept is the log-odds of its share of the rows.
        Labels without a column are missing.

        The automatic learning rate depends on the number of rows of the first call. If each call
        gets few rows, set the learning rate, as in ``solver=Adam(learning_rate=0.001)``.
        """
        return self._train_one_epoch(X, y, classes, sample_weight)

    # ------------------------------------------------------------------------ the plans

    def _first_plan(self, rows: Rows, rng) -> Plan:
        """Return the plan of a fit from new parameters.

        If there are many outputs, logistic regressions without hidden units are fitted, too; they
        become the final model unless training gives a better model.
        """
        solver, methods = self._chosen_solver(), self._methods(rows.visible.shape[1], rng)
        design = scaled_design(rows, self.alpha, centre=True)
        model = self._first_model(rows, design, methods, rng, self._weights_scale())
        if not is_auto(self.alpha):
            warn_of_scales(rows.X, rows.weight, type(self).__name__)
            return self._plan(rows, design, model, methods, solver, self.alpha)
        if not solver.averaged:
            alpha = self._relative_alpha(design, PLAIN_ALPHA)
            return self._plan(rows, design, model, methods, solver, alpha)
        alpha, points = self._convex_alpha(rows, design, model)
        batch = source_of(rows, design).all
        simple = without_hidden_units(self._penalty_settings(), model, batch, alpha)
        alpha *= _HIDDEN_FACTOR
        return self._plan(
            rows, design, model, methods, solver, alpha, points=points, fallback=simple
        )

    def _resumed_plan(self, rows: Rows, rng) -> Plan:
        """Return the plan of a fit from the fitted model, which keeps the penalty of a search."""
        solver, methods = self._chosen_solver(), self._methods(rows.visible.shape[1], rng)
        design = scaled_design(rows, self.alpha, centre=True)
        model = self._resumed_model(design, methods)
        alpha, points = self.alpha_ if is_auto(self.alpha) else self.alpha, []
        if is_auto(self.alpha) and not solver.averaged:
            alpha = self._relative_alpha(design, self.alpha_)
        elif is_auto(self.alpha) and self._columns is None:  # the earlier fit did not search
            alpha, points = self._convex_alpha(rows, design, model)
            alpha *= _HIDDEN_FACTOR
        return self._plan(
            rows, design, model, methods, solver, alpha, points=points, progress=self._progress
        )

    def _stream_plan(self, rows: Rows, rng) -> Plan:
        """Return the plan of an epoch of `partial_fit`, from the fitted model if there is one."""
        solver, methods = self._chosen_stream_solver(), self._methods(rows.visible.shape[1], rng)
        design = self._stream_design(rows)
        if self.__sklearn_is_fitted__():
            model = self._resumed_model(design, methods)
            alpha: Any = self.alpha_ if is_auto(self.alpha) else self.alpha
            before = {"progress": self._progress, "label_sets": self.label_sets_}
            return self._plan(rows, design, model, methods, solver, alpha, **before)
        model = self._first_model(rows, design, methods, rng, self._weights_scale())
        warn_of_scales(rows.X, rows.weight, type(self).__name__, partial=True)
        alpha = PLAIN_ALPHA if is_auto(self.alpha) else self.alpha
        return self._plan(rows, design, model, methods, solver, alpha)

    def _plan(self, rows, design, model, methods, solver, alpha, **options) -> Plan:
        """Return the plan of a fit from a model and with a penalty.

        `options` are further arguments of `_conditional_plan`.
        """
        return self._conditional_plan(
            rows,
            design,
            model,
            methods,
            alpha=alpha,
            found={"hidden_": self.hidden},
            objective=MARGIN_OBJECTIVES.get(self.hidden)(methods.training, self.n_jobs),
            penalty=crbm_penalty(alpha, self.alpha_hidden),
            solver=solver,
            **self._stochastic_fields(rows, design, solver, average=True),
            **options,
        )

    def _weights_scale(self) -> float:
        return max_margin_weights_scale(self._targets.n_visible, self.n_hidden)

    def _relative_alpha(self, design, otherwise):
        """Return alpha for the variance of the columns, or `otherwise` if all are constant."""
        variance = variance_of(design)
        return _RELATIVE_ALPHA * variance if variance > 0 else otherwise

    def _convex_alpha(self, rows, design, model):
        """Return the best alpha of logistic regressions, and the penalties that were tried."""
        batch = source_of(rows, design).all
        settings = self._penalty_settings()
        return search_convex_penalty(settings, model, batch, variance_of(design))

    def _penalty_settings(self) -> PenaltySettings:
        return PenaltySettings(
            self.alpha_hidden, self._targets.one_hot, None, self.n_jobs, self.verbose
        )

    def _methods(self, n_visible: int, rng) -> Methods:
        """Return the method that finds the best outputs, and the method that computes marginals."""
        best, marginals = self._chosen_methods(n_visible)
        return Methods(best.seeded(rng), marginals.seeded(rng))

    def _chosen_methods(self, n_visible):
        chosen = self.inference
        if isinstance(chosen, list):
            queries = {"map"}, {"marginal_map"}
            names = methods_for(RBMEnergy, *queries, {"marginals"})
            chosen = first_that_answers(chosen, *queries, names=names) or "mixed_product"
        method = resolve_method(chosen, valid_names=state_methods)
        marginals = first_that_answers(self.inference, {"marginals"})
        marginals = marginal_method(
            "auto" if marginals is None else marginals,
            n_visible,
            self.n_hidden,
            type(self).__name__,
        )
        for options in (_MESSAGES, _ANNEALING) if isinstance(chosen, str) else ():
            if options.keys() <= vars(method).keys():
                method = method.set_params(**options)
        state_query(method, MARGIN_OBJECTIVES.get(self.hidden).query)
        # For the classes of a 1-D y and for a single output, the exact method is cheap, and is used
        # in any case.
        if self._targets.one_hot:
            return resolve_method("exact"), resolve_method("exact")
        return resolve_method("exact") if n_visible == 1 else method, marginals

    def _chosen_solver(self) -> StochasticSolver:
        """Return the solver of a fit, and choose one if `solver` is "auto"."""
        # If there are few outputs or hidden units, the couplings must grow large, which takes many
        # steps of gradient descent but few adaptive steps of Adam.
        few = min(self._targets.n_visible, self.n_hidden) <= AUTO_EXACT_UNITS
        return AveragedSGD() if is_auto(self.solver) and not few else self._chosen_stream_solver()

    def _chosen_stream_solver(self) -> StochasticSolver:
        """Return the solver of `partial_fit`, in which "auto" is Adam, which suits all models."""
        return Adam() if is_auto(self.solver) else resolve_solver(self.solver, STOCHASTIC_SOLVERS)

    @property
    def _margin(self):
        """Margin objective of the latest fit.

        If the user changes `hidden` after the fit, the new value takes effect at the next fit.
        """
        return MARGIN_OBJECTIVES.get(self.hidden_)

    def _decoding_rule(self):
        if not is_auto(self.decode):
            return self.decode
        return state_query(self._prediction_method, self._margin.query)

    def _posterior_options(self):
        query = state_query(self._prediction_method, self._margin.query)
        return {"hidden": self.hidden_, "state_methods": {query: self._prediction_method}}

    def _label_scores(self, posterior):
        """Return, for each output, by how much the value 1 has a higher score than the value 0.

        The other outputs have their predicted values. The result is inf or -inf for known labels.
        """
        scores = posterior.energy.visible_log_odds(self._labels(posterior), self.hidden_)
        if posterior.known is not None:
            observed = ~np.isnan(posterior.known)
            scores[observed] = np.where(posterior.known[observed] == 1, np.inf, -np.inf)
        return scores

    def _binary_scores(self, posterior):
        """Return the log-odds (N, 1) of the second class, the only visible unit."""
        energy = posterior.energy
        return energy.visible_log_odds(np.zeros((energy.n_models, 1)), self.hidden_)

    def _class_scores(self, posterior):
        return posterior.energy.class_log_weights(self.hidden_)
