"""CRBMClassifier: the conditional RBM."""

from __future__ import annotations

from functools import partial as bind
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from skcrbm.decoding.rules import (
    DecodingRule,
    decoder_constraint,
    decoders_for,
)
from skcrbm.energies import RBMEnergy
from skcrbm.estimators._base import Rows, refuse_balanced_weights, training_rows, with_class_weight
from skcrbm.estimators._crbm_auto import (
    PLAIN_ALPHA,
    PenaltySettings,
    choose_solver,
    make_penalty,
    path_record,
    search_convex_penalty,
    search_penalty,
)
from skcrbm.estimators._rbm import (
    CRBMPlan,
    RBMClassifier,
    automatic_batch_size,
    check_inference_cost,
    holds_out_automatically,
    refuse_thresholds,
)
from skcrbm.estimators._thresholds import update_thresholds
from skcrbm.inference import InferenceMethod
from skcrbm.inference.base import marginal_method, methods_for, resolve_method
from skcrbm.inference.choice import method_constraint
from skcrbm.learning.data import ArraySource, Design, crbm_params, crbm_rate_factors, mean_square
from skcrbm.learning.fit import (
    Plan,
    fit,
    fit_one_epoch,
    resumed_generator,
    warn_of_convergence,
)
from skcrbm.learning.penalties import crbm_penalty
from skcrbm.learning.rules import LearningRule, Likelihood, resolve_rule, rule_constraint
from skcrbm.learning.solvers import (
    LBFGS,
    LossPlateau,
    Solver,
    refuse_held_out_rows,
    resolve_stopping,
    solver_constraint,
    stopping_constraint,
)
from skcrbm.utils.columns import Columns, warn_of_scales
from skcrbm.utils.fitting import (
    EpochCallbacks,
    all_or_nothing,
    forget,
    skip_empty_batches,
    with_callbacks,
)
from skcrbm.utils.labels import require_complete
from skcrbm.utils.options import Integer, is_auto, option_name

_UNCONVERGED = (
    "gradients and probabilities may be off",
    "inference='exact' if a layer is small",
    "a solver with a smaller learning_rate",
)


class CRBMClassifier(RBMClassifier):
    """Conditional restricted Boltzmann machine for multi-label and structured outputs.

    ``p(v, h | x) ∝ exp(v' W h + v' U x + h' S x + v' b + h' c)`` with 0/1 outputs v and
    0/1 hidden units h, which carry the dependence between the outputs ([1]_, eq. 3).
    Without hidden units it is one logistic regression per output.

    y may be a 2-D indicator matrix of 0/1 (NaN = not observed), or 1-D with two or more
    classes (more than two: one categorical output, exact whatever `inference` says).

    `decision_function` gives the log-odds of each output's marginal; for 1-D y the log-odds of
    the second class or, for more than two classes, unnormalised log-probabilities.

    For binary images, whose many outputs depend on each other, use `ImageCRBM`: the same model with
    defaults that suit images, which takes X and y as arrays (n_samples, height, width).

    With nothing set, `fit` finds the penalty by validation inside the given rows, whatever
    the scale of the columns, decides whether hidden units help, and fits all rows by L-BFGS; see
    `alpha` and Notes. With a number for `alpha`, scale the columns of X, for example with
    `StandardScaler`: the penalty acts on the coefficients of the columns as given.

    A change of `inference` takes effect in the next fit, a change of `decode` (to any rule but
    "threshold") or `n_jobs` at once. For scores of 2-D y by `GridSearchCV` see
    `skcrbm.metrics.masked_scorer`: scikit-learn's "neg_log_loss" reads an indicator matrix as a
    multi-class target.

    Parameters
    ----------
    n_hidden : int, default=8
        Number of hidden units. With ``alpha="auto"`` and L-BFGS they are dropped if they do not
        improve the validation likelihood beyond its noise: see `n_hidden_`.
    learning : str or object, default="mle"
        Learning rule, by name or as an object from `skcrbm.learning`:

        - "mle", `Likelihood`: maximum conditional likelihood with the marginals of `inference`;
        - "cd", `ContrastiveDivergence`, and "pcd", `PersistentContrastiveDivergence`: Gibbs chains;
          persistent chains belong to the training rows, so "pcd" has no `partial_fit`, and a warm
          start on the same number of rows goes on with the chains;
        - "cd_percloss", `CDPercLoss`: steps only if a chain finds a better state than the labels;
        - "pmp", `PMPLearning`: perturb-and-max-product [2]_, with a new sample of each row in each
          step. The learned weights belong to that sampler. Predictions are made from the Gibbs
          distribution with these weights and are off if couplings are strong.

        All rules but "mle" need every label observed and at most two classes in 1-D y;
        `inference` then serves prediction only.
    inference : str or object, default="auto"
        Method behind training and prediction: "exact", "sum_product", "tree_reweighted",
        "mean_field", or a configured object such as ``SumProduct(max_iter=30)``. "auto" is "exact"
        if the smaller layer has at most 10 units, else "sum_product".
    decode : str or object, default="marginal"
        How `predict` turns p(v | x) into labels: the name of a rule, or a rule with options from
        `skcrbm.decoding`, such as ``Threshold("f1_macro")``. Each rule serves a metric:

        - "marginal": the mode of each marginal (Hamming loss);
        - "label_set": the most probable of the label sets seen in fit (subset accuracy);
        - "expected_jaccard": the labels with the largest expected Jaccard index among the most
          probable labels (any number of them) and the best label set seen in fit (Jaccard,
          micro-F1);
        - "expected_f1": the label vector with the largest expected F1 (F1 averaged over rows). Both
          expectations are over all label vectors, under p(v | x) with "exact" inference, else as
          if labels were independent given x; predicting no label for a row without a true
          label scores 1;
        - "threshold": thresholds on the marginals that are best for a metric on the training
          rows, by default a common threshold for F1 averaged over rows. `fit` then does five
          more fits, each without a fifth of the rows, from new parameters whatever `warm_start`
          says; see `skcrbm.decoding.Threshold`;
        - "marginal_map", "map": the most probable of all label vectors, or the label part of
          the most probable (v, h); exact for up to 10 labels, or units in the smaller layer,
          else by mixed-product and max-product with restarts and, with up to 4096 couplings,
          by flips of single labels, starting at these states and at the best label set.

        If every row of fit had a label (`allow_empty_`), every rule predicts a label. 1-D y is
        always decoded to the most probable class.
    solver : str or object, default="auto"
        Solver, by name or as an object from `skcrbm.learning` such as
        ``Adam(learning_rate=0.01, batch_size=64)``:

        - "lbfgs", `LBFGS`: minimises the exact likelihood of all rows at once. It needs
          ``learning="mle"`` and exact inference, and cannot hold rows out;
        - "asgd", `AveragedSGD`: gradient descent with momentum whose iterates are averaged, good
          for hundreds of outputs and images;
        - "adam", `Adam`, and "sgd", `SGD`: steps on mini-batches.

        "auto" is "lbfgs" if it can be used, "asgd" for ``learning="mle"`` with approximate
        inference, and "adam" otherwise and in `partial_fit`. The automatic `batch_size` of a solver
        is all rows up to 200, else 20; the automatic `average` is False.
    max_iter : int, default=200
        Most iterations of L-BFGS in any single fit; most epochs of the other solvers.
    alpha : float or "auto", default="auto"
        L2 penalty: the objective is the mean loss of a row, summed over its outputs,
        plus ``alpha / 2 (|U|^2 + |S|^2)``. A number is the penalty of the coefficients of the
        columns as given. "auto" finds the penalty by validation, for columns that are brought to
        one scale inside: two-valued columns to 0 and 1, others to mean 0 and standard deviation
        1/2; columns of a sparse X are divided by the root mean square of their non-zero entries.
        `alpha_` is in these units, `visible_coef_` in units of the columns as given. With fewer
        than 40 rows it is 0.003 times the total variance of the scaled columns. For solvers other
        than L-BFGS it is the penalty of the model without hidden units, searched on up to 32 of the
        outputs, and at least 1 / n_samples; in a first `partial_fit` it is 0.1 for the columns as
        given.
    alpha_hidden : float or "auto", default="auto"
        L2 penalty on W, ``alpha_hidden / 2 |W|^2``. W should be free to grow. "auto" is 0.1
        divided by the number of rows (at least 40) with L-BFGS, else 0.
    early_stopping : bool, "auto" or object, default="auto"
        End of training by stochastic solvers. True stands for ``EarlyStopping()``: hold out 15% of
        the rows, keep the best epoch, fit again on all rows. False stands for ``LossPlateau()``:
        stop when the training loss no longer falls. "auto" is True from 1000 rows on, with "asgd"
        from 200. The validation score is the exact conditional log-likelihood if the smaller
        layer has at most 14 units, else minus the share of wrong outputs.
    class_weight : "balanced", dict, list of dict or array-like, default=None
        Weights of the rows by their classes. 1-D y: a dict of class: weight, or "balanced",
        ``n_samples / (n_classes * count)``. 2-D y: "balanced" for each label, a list with a dict of
        0 and 1 for each label, the weights (n_outputs,) of the positive class, or for a data frame
        a dict by label name, such as ``{"town": 3.0}`` or ``{"town": {0: 1.0, 1: 3.0}}``. Because
        the loss belongs to whole rows, the weights of a row's labels are multiplied, as in
        scikit-learn's forests, so with many labels few rows may count. Multiplied with
        `sample_weight`; the sum of all weights stays the same. Not "balanced" in `partial_fit`.
    warm_start : bool, default=False
        Start `fit` from the parameters of the previous fit. A penalty that it found is kept, and
        so is the decision about hidden units.
    n_jobs : int, default=None
        Threads over rows. The result does not depend on it. It pays with belief propagation
        and in prediction; a batch of 20 rows is too small for exact inference.
    random_state : int, RandomState or None, default=None
        Seed of the initial parameters, the validation part and the order of rows.
    verbose : bool or int, default=False
        1: a live line with rate, loss, validation score and remaining time; 2: a line per epoch or
        iteration, and a line per penalty tried.

    Attributes
    ----------
    visible_coef_ : ndarray (n_outputs, n_features)
        Weights U of the inputs on the outputs. A single row for binary 1-D y, a row per class for
        multiclass y.
    hidden_coef_ : ndarray (n_hidden, n_features)
        Weights S of the inputs on the hidden units.
    weights_ : ndarray (n_outputs, n_hidden)
        Couplings W of the outputs with the hidden units.
    visible_intercept_, hidden_intercept_ : ndarray (n_outputs,), (n_hidden,)
        Biases b of the outputs and c of the hidden units.
    coef_, intercept_ : ndarray
        `visible_coef_` and `visible_intercept_` of a model without hidden units, which is linear.
    classes_ : ndarray (n_outputs,) or (n_classes,)
        Numbers of the labels of a 2-D y, or the classes.
    label_names_ : ndarray of str (n_outputs,)
        Names of the labels if y is a data frame or a series with names, see `set_label_output`.
    label_sets_ : ndarray (n_sets, n_outputs)
        The distinct output vectors seen in fit; partly observed rows count with their
        most probable completion by marginals, rows without an observed output do not count.
    allow_empty_ : bool
        True if a row may be predicted to have no label. It is False if rows of fit had a label and
        no complete row was without a label. Rows with a missing entry and no label on decide
        nothing. If `y_known` holds all labels off, no label is on in any case.
    unseen_share_ : float
        Good and Turing's estimate of the share of new rows whose label set is not in `label_sets_`.
    alpha_ : float
        Penalty of the fit; for scaled columns if `alpha` is "auto".
    alpha_path_ : dict of ndarray
        Penalties that were tried, in order: "n_hidden", "alpha", and the mean
        "log_likelihood" of the label vectors and "log_loss" of the marginals, summed over the
        outputs, of the validation rows. Empty arrays if there was no search.
    n_hidden_ : int
        Number of hidden units kept: `n_hidden`, or 0 if they did not help.
    thresholds_ : ndarray (n_outputs,)
        With ``decode="threshold"`` and 2-D y; 0.5 if an interrupt prevented the search for them.
    inference_ : str
        Name of the inference method in use.
    n_inference_iter_ : int or None
        Most iterations in prediction: the number of the kept epoch. None for "exact".
    loss_curve_, convergence_curve_ : list of float
        Training loss (approximate if inference is) and share of rows with converged
        inference, per epoch of the run that gave the parameters.
    validation_scores_ : list of float or None
        Score per epoch of the run with held-out rows.
    n_iter_ : int
        Number of epochs behind the parameters.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The penalty is searched on folds of rows: as many of five as give some 3000 validation rows
    without, 1500 with hidden units, but at least a single fold. The score is the weighted mean of
    log p(y | x) over validation rows, for the observed labels. From 0.001 times the total variance
    of the columns on, alpha changes by a factor of sqrt(10) while the score improves, and each
    fit begins at the parameters of its neighbour; a parabola through the best three scores gives
    the value. Then the hidden units come in, around twice that penalty. They are kept if the
    score gains more than its standard error over the rows, and the log loss of the marginals
    loses no more than its own standard error, 1 %, or a tenth of the gain of the score. `alpha_`
    belongs to all rows: the penalty of a fold is larger in proportion to the rows that it lacks.

    L-BFGS also pulls intercepts weakly, as strongly as a tenth of a row would, to the log-odds of
    the labels' smoothed shares: all intercepts with ``alpha="auto"``; with a number only the
    intercepts of labels that are always or never on, which nothing else keeps finite. Data with
    more columns than rows, up to 3000 rows, are fitted in the space that the rows span.

    `fit` warns (`ConvergenceWarning`) if inference converged for less than 90% of the rows in the
    last epoch, or if belief propagation is off by more than 0.1 on average for an output. The
    second check compares with exact marginals of up to 32 rows, if the smaller layer has at most 14
    units and they take less than a second; `partial_fit` does without.

    References
    ----------
    .. [1] Ping and Ihler (2017). Belief propagation in conditional RBMs for structured
       prediction. AISTATS.
    .. [2] Lazaro-Gredilla, Dedieu and George (2021). Perturb-and-max-product: sampling and
       learning in discrete energy-based models. NeurIPS.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from skcrbm import CRBMClassifier
    >>> X, Y = make_multilabel_classification(n_samples=150, random_state=0)
    >>> model = CRBMClassifier(random_state=0).fit(X, Y)
    >>> model.predict(X[:2]).shape
    (2, 5)
    """

    _parameter_constraints: dict = {
        "n_hidden": [Integer(0)],
        "learning": rule_constraint("conditional", "ContrastiveDivergence(n_steps=10)"),
        "inference": method_constraint(
            methods_for(RBMEnergy, Likelihood.conditional_answers),
            auto=True,
            also=methods_for(RBMEnergy, {"marginals"}),
        ),
        "decode": decoder_constraint(decoders_for(RBMEnergy)),
        "solver": solver_constraint(auto=True),
        "max_iter": [Integer(1)],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "alpha_hidden": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
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
        learning: str | LearningRule = "mle",
        inference: str | InferenceMethod = "auto",
        decode: str | DecodingRule = "marginal",
        solver: str | Solver = "auto",
        max_iter: int = 200,
        alpha: float | str = "auto",
        alpha_hidden: float | str = "auto",
        early_stopping: bool | str | LossPlateau = "auto",
        class_weight: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ):
        self.n_hidden = n_hidden
        self.learning = learning
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
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            0/1 indicator matrix with NaN where not observed, or classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative; a weight k counts as k copies of the row.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            On an invalid X, y, weight or hyperparameter.
        FloatingPointError
            If the training diverges.

        Warns
        -----
        ConvergenceWarning
            If the model is not to be trusted; see the class for the conditions.
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
        vars(self).pop("thresholds_", None)  # of the parameters until now
        vars(self).update(
            {**attributes(fitted.model, fitted.epoch), **fitted.attributes, "_rng": rng}
        )
        warn_of_convergence(self.convergence_curve_[-1], self._prediction_method, *_UNCONVERGED)
        interrupted = fitted.interrupted
        if isinstance(resolve_rule(self.learning, "conditional"), Likelihood):
            interrupted |= self._warn_of_strong_couplings(rows)
        if option_name(self.decode) == "threshold":
            folds = bind(self._fold_settings, rows)
            update_thresholds(self, folds, rows.weight, rng, interrupted)
        callbacks.end()
        return self

    @skip_empty_batches
    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ):
        """Do one epoch on the given rows.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All classes, for 1-D y; needed in the first call if `y` lacks some. The classes of 2-D y
            are 0 and 1.

        Returns
        -------
        self

        Notes
        -----
        A call without an observed label in a row of positive weight does not change the model;
        before the first other call the model is not fitted.

        The automatic step size depends on the number of rows of the first call; set a
        ``solver=Adam(learning_rate=...)`` if the pieces are small.
        """
        resume = hasattr(self, "visible_coef_")
        if resume:  # scikit-learn validates parameters in the first call only
            self._validate_params()
            self._check_same_model()
        refuse_held_out_rows(self.early_stopping)
        refuse_balanced_weights(self.class_weight)
        refuse_thresholds(self.decode)
        rows = training_rows(
            self, X, y, sample_weight, reset=not resume, classes=classes, partial=True
        )
        rows = with_class_weight(self, rows)
        rng = resumed_generator(self, resume, self.random_state)
        plan = self._plan(rows, rng, resume, partial=True)
        fitted = fit_one_epoch(plan.training, rng, self._progress if resume else None)
        new = {
            **self._model_attributes(fitted.model, fitted.epoch, plan),
            **fitted.attributes,
            "_rng": rng,
        }
        vars(self).pop("thresholds_", None)
        vars(self).update(self._joined_attributes(new, fitted) if resume else new)
        warn_of_convergence(self.convergence_curve_[-1], self._prediction_method, *_UNCONVERGED)
        return self

    def _plan(self, rows: Rows, rng, resume: bool, partial: bool = False) -> CRBMPlan:
        """Return the plan of a fit: methods, objective, solver, coordinates, start and penalty.

        Parameters
        ----------
        rows : Rows
        rng : RandomState
            Random numbers of the initial parameters, and of seeds that inference methods need.
        resume : bool
            True if training goes on from the fitted model.
        partial : bool, default=False
            True in `partial_fit`, which sees a part of the rows.
        """
        rule = resolve_rule(self.learning, "conditional")
        n_rows, n_visible = rows.visible.shape
        method = marginal_method(
            self.inference, n_visible, self.n_hidden, needs=rule.conditional_answers
        )
        if self._targets.one_hot:
            method = resolve_method("exact")
        method, marginals = method.seeded(rng), method.seeded(rng)
        self._check_rule(rule, rows, partial)
        solver: Any = choose_solver(self.solver, self.early_stopping, rule, method, partial)
        full_batch = isinstance(solver, LBFGS)
        averaged = not full_batch and solver.averaged

        # Coordinates to train in, and the model to start from.
        if partial:
            columns = self._columns.for_rows(rows.X) if resume and self._columns else None
            design = Design(rows.X, columns)
        else:
            columns = Columns(rows.X, rows.weight, averaged) if is_auto(self.alpha) else None
            design = Design(rows.X, columns, double=full_batch, rotate=full_batch)
        if resume:
            model = design.inner(self._fitted_model())
        else:
            scales = {"weights_scale": 1.0, "hidden_scale": 0.0} if full_batch else {}
            n_features = design.X.shape[1]
            model = self._model(
                crbm_params(rows.visible, rows.weight, n_features, self.n_hidden, rng, **scales)
            )
        check_inference_cost(model, design.X, method, marginals, self.max_iter)
        source = ArraySource(design.X, rows.visible, rows.weight)

        # The penalty: searched, unless a number is given or an earlier fit has found it.
        alpha: Any = getattr(self, "alpha_", PLAIN_ALPHA) if is_auto(self.alpha) else self.alpha
        search = columns is not None and not partial
        search = search and not (resume and self._columns is not None)
        settings = PenaltySettings(
            self.alpha_hidden, self._targets.one_hot, self.max_iter, self.n_jobs, self.verbose
        )
        points = []
        if full_batch:
            penalty_of = make_penalty(
                settings, rows.visible, rows.weight, every_intercept=is_auto(self.alpha)
            )
            if search and columns is not None:
                alpha, model, points = search_penalty(
                    settings, penalty_of, model, source.all, columns.variance
                )
            penalty = penalty_of(alpha)
        else:
            if search and columns is not None:
                alpha, points = search_convex_penalty(settings, model, source.all, columns.variance)
            penalty = crbm_penalty(
                alpha, 0.0 if isinstance(self.alpha_hidden, str) else self.alpha_hidden
            )
        if columns is None and not resume:
            warn_of_scales(rows.X, rows.weight, type(self).__name__, partial)

        stochastic = {}
        if not full_batch:
            hold_out = holds_out_automatically(n_rows, solver)
            stochastic = {
                "stopping": resolve_stopping(self.early_stopping, hold_out),
                "batch_size": solver.rows_per_step(n_rows, automatic_batch_size(n_rows)),
                "average": solver.keeps_average(False),
                "rate_factors": crbm_rate_factors(solver),
                "stratify": not self._targets.multilabel,
                "mean_square": mean_square(design.X, rows.weight) if averaged else 0.0,
            }
        training = Plan(
            model=model,
            design=design,
            rows=source,
            objective=rule.conditional(method, self.n_jobs),
            penalty=penalty,
            solver=solver,
            max_iter=self.max_iter,
            verbose=self.verbose,
            **stochastic,
        )
        found = {
            "alpha_": float(alpha),
            "alpha_path_": path_record(points),
            "_columns": columns,
        }
        return CRBMPlan(training, rows, method, marginals, found)

    def _check_rule(self, rule: LearningRule, rows: Rows, partial: bool) -> None:
        """Raise a ValueError if the learning rule cannot be used on these rows."""
        if partial and rule.keeps_chains:
            raise ValueError(
                f"learning={rule.name!r} keeps a chain for each training row, and partial_fit "
                "cannot tell which rows are the same; use fit, or learning='cd'"
            )
        if rule.needs_complete:
            require_complete(
                rows.visible,
                f"learning={rule.name!r} needs every entry, learning='mle' does not",
            )
        if rule.draws and self._targets.one_hot:
            raise ValueError(
                f"learning={rule.name!r} needs two classes in 1-D y, got "
                f"{len(self.classes_)}; learning='mle' takes any number of classes, exactly"
            )

    def _fold_settings(self, rows: Rows):
        """Return X, y and changed hyperparameters with which folds repeat this fit."""
        changes = {"class_weight": None}  # it is in the weights
        X = rows.X
        if self._columns is not None:
            # alpha_ and n_hidden_ were found for scaled columns.
            changes = {**changes, "alpha": self.alpha_, "n_hidden": self.n_hidden_}
            X = self._columns.for_rows(X).transform(X)
        return X, rows.visible, changes

    def _label_scores(self, posterior):
        return posterior.log_odds()

    def _binary_scores(self, posterior):
        return posterior.log_odds()

    def _class_scores(self, posterior):
        return posterior.energy.class_log_weights()
