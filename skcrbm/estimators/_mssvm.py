"""MSSVMCRBM: conditional RBM trained for a large margin."""

from __future__ import annotations

from functools import partial as bind
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from skcrbm.decoding.rules import DecodingRule, decoder_constraint, decoders_for
from skcrbm.energies import RBMEnergy
from skcrbm.estimators._base import Rows, training_rows, with_class_weight
from skcrbm.estimators._crbm_auto import (
    PLAIN_ALPHA,
    PenaltySettings,
    path_record,
    search_convex_penalty,
    without_hidden_units,
)
from skcrbm.estimators._new_labels import add_labels_to_model, add_labels_to_targets
from skcrbm.estimators._rbm import (
    CRBMPlan,
    RBMClassifier,
    automatic_batch_size,
    check_inference_cost,
    holds_out_automatically,
    marginal_method,
    refuse_thresholds,
)
from skcrbm.estimators._thresholds import update_thresholds
from skcrbm.inference import InferenceMethod
from skcrbm.inference.base import resolve_method
from skcrbm.inference.choice import first_that_answers, method_constraint, methods_for
from skcrbm.learning.data import (
    ArraySource,
    Design,
    crbm_params,
    crbm_rate_factors,
    max_margin_weights_scale,
    mean_square,
)
from skcrbm.learning.fit import Plan, fit, fit_one_epoch, resumed_generator, warn_of_convergence
from skcrbm.learning.margins import MARGIN_OBJECTIVES, state_methods, state_query
from skcrbm.learning.penalties import crbm_penalty
from skcrbm.learning.solvers import (
    STOCHASTIC_SOLVERS,
    Adam,
    AveragedSGD,
    LossPlateau,
    Solver,
    StochasticSolver,
    refuse_held_out_rows,
    resolve_solver,
    resolve_stopping,
    solver_constraint,
    stopping_constraint,
)
from skcrbm.targets.class_weight import refuse_balanced_weights
from skcrbm.utils.columns import Columns, in_faster_storage, warn_of_scales
from skcrbm.utils.fitting import (
    EpochCallbacks,
    all_or_nothing,
    forget,
    skip_empty_batches,
    with_callbacks,
)
from skcrbm.utils.limits import AUTO_EXACT_UNITS
from skcrbm.utils.options import Integer, is_auto, option_name
from skcrbm.utils.sklearn_private import Interval, StrOptions, fit_context

# Options of message passing if `inference` is a name. Damping prevents oscillating messages.
# Messages with damping need more iterations to converge, so `max_iter` is set, too.
_BY_NAME = {"damping": 0.5, "max_iter": 50}
# If alpha="auto" and the solver is not "asgd", the penalty is this number times the total variance
# of the columns.
_RELATIVE_ALPHA = 2e-3
# If alpha="auto" and the solver is "asgd", the penalty is this number times the best penalty of
# logistic regressions. Without this factor, models of images of digits overfit after a few epochs.
_HIDDEN_FACTOR = 3.0
_UNCONVERGED = (
    "loss-augmented inference may have missed the outputs that violate the margin most",
    "inference='exact' if a layer is small",
    "inference='icm', which converges after few iterations",
)


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
    fills them with their best values.

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
            Non-negative weights; a row of weight k counts as k copies of the row. A matrix holds
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
        resume = self.warm_start and hasattr(self, "visible_coef_")
        if resume:
            self._check_same_model()
        else:
            forget(self, self._state)
        rows = training_rows(self, X, y, sample_weight, reset=not resume)
        rows = with_class_weight(self, rows)
        rng = check_random_state(self.random_state)
        plan = self._plan(rows, rng, resume)
        callbacks = EpochCallbacks(self, plan.training.n_epochs, X, y, sample_weight)
        attributes = bind(self._model_attributes, plan=plan)
        progress = self._progress if resume else None
        fitted = fit(plan.training, rng, progress, callbacks, attributes)
        vars(self).pop("thresholds_", None)  # thresholds of an earlier fit
        vars(self).update(
            {**attributes(fitted.model, fitted.epoch), **fitted.attributes, "_rng": rng}
        )
        warn_of_convergence(self.convergence_curve_[-1], self._prediction_method, *_UNCONVERGED)
        if option_name(self.decode) == "threshold":
            folds = rows.X, rows.visible, {"class_weight": None}
            interrupted = fitted.interrupted
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
        resume = hasattr(self, "visible_coef_")
        if resume:  # scikit-learn validates parameters in the first call only
            self._validate_params()
            self._check_same_model()
            add_labels_to_targets(self, y, classes)
        refuse_held_out_rows(self.early_stopping)
        refuse_balanced_weights(self.class_weight)
        refuse_thresholds(self.decode)
        rows = training_rows(
            self, X, y, sample_weight, reset=not resume, classes=classes, partial=True
        )
        rows = with_class_weight(self, rows)
        rng = resumed_generator(self, resume, self.random_state)
        if resume:
            add_labels_to_model(self, rows, rng)
        plan = self._plan(rows, rng, resume, partial=True)
        fitted = fit_one_epoch(plan.training, rng, self._progress if resume else None)
        self._set_partially_fitted(fitted, plan, rng, resume)
        warn_of_convergence(self.convergence_curve_[-1], self._prediction_method, *_UNCONVERGED)
        return self

    def _plan(self, rows: Rows, rng, resume: bool, partial: bool = False) -> CRBMPlan:
        """Choose the objective, the solver, the initial model and the penalty of a fit.

        If `resume` is True, the initial model is the fitted model. `partial` is True in
        `partial_fit`.
        """
        n_visible = rows.visible.shape[1]
        method, marginals = self._methods(n_visible)
        method, marginals = method.seeded(rng), marginals.seeded(rng)
        objective = MARGIN_OBJECTIVES.get(self.hidden)(method, self.n_jobs)
        solver = self._chosen_solver(partial)

        # Scale the columns of X, and choose the model from which training starts.
        inputs, columns = in_faster_storage(rows.X, not is_auto(self.alpha)), None
        if partial:
            columns = self._columns.for_rows(inputs) if resume and self._columns else None
        elif is_auto(self.alpha):
            columns = Columns(inputs, rows.weight, centre=True)
        design = Design(inputs, columns)
        if resume:
            model = design.inner(self._fitted_model())
        else:
            scale = max_margin_weights_scale(n_visible, self.n_hidden)
            n_features = design.X.shape[1]
            model = self._model(
                crbm_params(rows.visible, rows.weight, n_features, self.n_hidden, rng, scale)
            )
        check_inference_cost(model, design.X, method, marginals, self.max_iter)
        source = ArraySource(design.X, rows.visible, rows.weight, origin=rows.origin)

        # Choose the penalty. If there are many outputs, also fit logistic regressions without
        # hidden units; they become the final model unless training gives a better model.
        alpha: Any = self.alpha
        if is_auto(self.alpha):
            alpha = getattr(self, "alpha_", PLAIN_ALPHA)
        points: list = []
        fallback: Any = None
        if columns is not None and not partial:
            settings = PenaltySettings(
                self.alpha_hidden, self._targets.one_hot, None, self.n_jobs, self.verbose
            )
            if not solver.averaged:
                if columns.variance > 0:
                    alpha = _RELATIVE_ALPHA * columns.variance
            elif not (resume and self._columns is not None):
                convex, points = search_convex_penalty(
                    settings, model, source.all, columns.variance
                )
                alpha = _HIDDEN_FACTOR * convex
                if not resume:
                    fallback = without_hidden_units(settings, model, source.all, convex)
        if columns is None and not resume:
            warn_of_scales(rows.X, rows.weight, type(self).__name__, partial)
        n_rows = source.n_originals
        hold_out = holds_out_automatically(n_rows, solver)
        training = Plan(
            model=model,
            design=design,
            rows=source,
            objective=objective,
            penalty=crbm_penalty(alpha, self.alpha_hidden),
            solver=solver,
            max_iter=self.max_iter,
            verbose=self.verbose,
            stopping=resolve_stopping(self.early_stopping, hold_out),
            batch_size=solver.rows_per_step(n_rows, automatic_batch_size(n_rows)),
            average=solver.keeps_average(True),
            rate_factors=crbm_rate_factors(solver),
            stratify=not self._targets.multilabel,
            mean_square=mean_square(design.X, rows.weight) if solver.averaged else 0.0,
            fallback=fallback,
        )
        found = {
            "alpha_": float(alpha),
            "alpha_path_": path_record(points),
            "_columns": columns,
            "hidden_": self.hidden,
        }
        return CRBMPlan(training, rows, method, marginals, found)

    def _methods(self, n_visible: int) -> tuple[InferenceMethod, InferenceMethod]:
        """Return the method that finds the best outputs, and the method that computes marginals."""
        chosen = self.inference
        if isinstance(chosen, list):
            queries = {"map"}, {"marginal_map"}
            names = methods_for(RBMEnergy, *queries, {"marginals"})
            chosen = first_that_answers(chosen, *queries, names=names) or "mixed_product"
        method = resolve_method(chosen, valid_names=state_methods)
        marginals = first_that_answers(self.inference, {"marginals"})
        marginals = marginal_method(
            "auto" if marginals is None else marginals, n_visible, self.n_hidden
        )
        if isinstance(chosen, str) and "damping" in vars(method):
            method = method.set_params(**_BY_NAME)
        state_query(method, MARGIN_OBJECTIVES.get(self.hidden).query)
        # For the classes of a 1-D y and for a single output, the exact method is cheap, and is used
        # in any case.
        if self._targets.one_hot:
            return resolve_method("exact"), resolve_method("exact")
        return resolve_method("exact") if n_visible == 1 else method, marginals

    def _chosen_solver(self, partial: bool) -> StochasticSolver:
        """Return the solver of a fit, and choose one if `solver` is "auto"."""
        if not is_auto(self.solver):
            return resolve_solver(self.solver, STOCHASTIC_SOLVERS)
        # If there are few outputs or hidden units, the couplings must grow large, which takes many
        # steps of gradient descent but few adaptive steps of Adam. `partial_fit` always uses Adam,
        # which works in both cases.
        n_units = min(self._targets.n_visible, self.n_hidden)
        return Adam() if partial or n_units <= AUTO_EXACT_UNITS else AveragedSGD()

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
