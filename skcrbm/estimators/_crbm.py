"""CRBMClassifier: conditional restricted Boltzmann machine."""

from __future__ import annotations

from functools import partial as bind
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.decoding.rules import DecodingRule, decoder_constraint, decoders_for
from skcrbm.energies import RBMEnergy
from skcrbm.estimators._base import Rows, training_rows, with_class_weight
from skcrbm.estimators._crbm_auto import (
    PLAIN_ALPHA,
    PenaltySettings,
    choose_solver,
    choose_stream_solver,
    make_penalty,
    partial_scale,
    search_convex_penalty,
    search_penalty,
)
from skcrbm.estimators._flip_rates import with_flip_rates, with_given_rates
from skcrbm.estimators._rbm import (
    BATCH_ROWS,
    Methods,
    RBMClassifier,
    likelihood_methods,
    scaled_design,
    source_of,
    variance_of,
)
from skcrbm.estimators._stream_penalty import StreamPenalty
from skcrbm.estimators._thresholds import update_thresholds
from skcrbm.inference import InferenceMethod
from skcrbm.inference.choice import method_constraint, methods_for
from skcrbm.learning.data import Design, crbm_first_rates, crbm_rate_factors
from skcrbm.learning.fit import (
    NO_PROGRESS,
    Plan,
    Progress,
    train,
)
from skcrbm.learning.label_noise import NoisyLikelihood
from skcrbm.learning.penalties import crbm_penalty
from skcrbm.learning.rules import LearningRule, Likelihood, resolve_rule, rule_constraint
from skcrbm.learning.solvers import (
    LBFGS,
    LossPlateau,
    Solver,
    solver_constraint,
    stopping_constraint,
)
from skcrbm.targets.multioutput import UnitTargets
from skcrbm.utils.columns import warn_of_scales
from skcrbm.utils.fitting import (
    EpochCallbacks,
    all_or_nothing,
    begin_fit,
    skip_empty_batches,
    with_callbacks,
)
from skcrbm.utils.options import Integer, is_auto, option_name
from skcrbm.utils.sklearn_private import Interval, StrOptions, fit_context


class _Choices(NamedTuple):
    """What a `fit` chooses before it has an initial model."""

    rows: Rows
    rule: LearningRule
    methods: Methods
    solver: Any
    design: Design


class CRBMClassifier(RBMClassifier):
    """Conditional restricted Boltzmann machine for multi-label and structured outputs.

    The model is ``p(v, h | x) ∝ exp(v' W h + v' U x + h' S x + v' b + h' c)`` with 0/1 outputs v
    and 0/1 hidden units h, through which the outputs depend on each other ([1]_, eq. 3). Without
    hidden units the model is a separate logistic regression for each output.

    y may be a 2-D indicator matrix of 0/1 with NaN for missing labels, a 2-D array or data frame
    whose columns hold classes ("multiclass-multioutput"), or a 1-D array with two or more classes.
    An output of more than two classes has a visible unit for each class; exactly one of them is 1.
    `fit` interprets the columns of y as classes if they hold strings or numbers of at least 0, and
    at least one column has three or more different values. If the only classes are 0, 1 and a
    larger number, convert them to strings, because the number could also be a code of missing
    labels. Cross-validate and search with `skcrbm.model_selection` if y has missing labels: the
    functions there have scikit-learn's names, but do not end in "Input y contains NaN."

    `decision_function` returns the log-odds of the marginal of each output. For a 1-D y it returns
    the log-odds of the second class if there are two classes, else unnormalised log-probabilities.

    For binary images use `ImageCRBM`, which is the same model with defaults that suit images, and
    takes X and y as arrays of shape (n_samples, height, width).

    With the default parameters, `fit` scales the columns of X internally, finds the penalty by
    cross-validation, decides whether hidden units help, and fits all rows by L-BFGS; see `alpha`
    and Notes. If `alpha` is a number, scale the columns of X yourself, for example with
    `StandardScaler`, because the penalty then acts on the coefficients of the given columns.

    A new value of `inference` takes effect at the next fit. A new value of `n_jobs`, or of `decode`
    (except "threshold"), takes effect at the next prediction. To score a 2-D y in
    scikit-learn's searches use `skcrbm.metrics.masked_scorer`, because scikit-learn's
    "neg_log_loss" interprets an indicator matrix as a multi-class target.

    Parameters
    ----------
    n_hidden : int, default=8
        Number of hidden units. With ``alpha="auto"`` and L-BFGS, `fit` drops the hidden units if
        they do not improve the validation likelihood by more than its standard error; `n_hidden_`
        is the number that was kept.
    learning : str or object, default="mle"
        Learning rule, by name or as an object from `skcrbm.learning`:

        - "mle", `Likelihood`: maximum conditional likelihood, with marginals by `inference`;
        - "noisy_mle", `NoisyLikelihood`: maximum likelihood if labels may be wrong;
        - "cd", `ContrastiveDivergence`, and "pcd", `PersistentContrastiveDivergence`: gradients
          from Gibbs chains. With "pcd" each training row keeps its own chain, so `partial_fit` is
          not possible, and a warm start on the same number of rows continues the chains;
        - "cd_percloss", `CDPercLoss`: a row changes the model only if a stochastic search finds a
          better state than its labels;
        - "pmp", `PMPLearning`: perturb-and-max-product [2]_, with a new sample of each row in each
          step. The weights are learned for this sampler, but predictions use the Gibbs
          distribution with these weights, which is inaccurate if couplings are strong.

        If y is 1-D and has more than two classes, only "mle" is possible. All rules except "mle"
        and "noisy_mle" need complete labels, and use `inference` for predictions only.
    inference : str or object, default="auto"
        Inference method of training and prediction: "exact", "sum_product", "tree_reweighted",
        "mean_field", or a configured object such as ``SumProduct(max_iter=30)``. "auto" is "exact"
        if there are at most 10 outputs or at most 10 hidden units, else "sum_product".
    decode : str or object, default="marginal"
        Rule by which `predict` chooses labels from p(v | x): the name of a rule, or a rule with
        options from `skcrbm.decoding`, such as ``Threshold("f1_macro")``. Choose the rule for your
        metric before you tune other parameters: each rule optimises a different metric, given here
        in parentheses, and the default is best for the Hamming loss only:

        - "marginal": all labels with a marginal of at least 1/2 (Hamming loss);
        - "label_set": the most probable of the label sets seen in fit (subset accuracy);
        - "expected_jaccard": the labels with the largest expected Jaccard index (Jaccard index,
          micro-F1). The candidates are the k most probable labels, for each k, and the best of the
          label sets seen in fit;
        - "expected_f1": the label vector with the largest expected F1 (F1 averaged over rows). As
          for "expected_jaccard" the expectation uses p(v | x) if inference is exact, and otherwise
          assumes that labels are independent given x. An empty prediction scores 0 unless the rule
          is ``ExpectedMetric(zero_division=1.0)``;
        - "threshold": the labels with a marginal above a threshold that is best for a metric on
          the training rows; by default a common threshold for F1 averaged over rows. To find it,
          `fit` does five more fits, each without a fifth of the rows and without a warm start; see
          `skcrbm.decoding.Threshold`;
        - "marginal_map", "map": the most probable label vector, or the labels of the most probable
          pair (v, h) (subset accuracy). The result is exact if there are at most 10 outputs or 10
          hidden units. Otherwise it is approximate, by mixed-product or max-product with restarts,
          improved by flips of single labels if there are up to 4096 couplings.

        If every training row had a label (`allow_empty_` is False), every rule predicts at least
        one label. For a 1-D y, `predict` always returns the most probable class.
    solver : str or object, default="auto"
        Solver, by name or as an object from `skcrbm.learning` such as
        ``Adam(learning_rate=0.01, batch_size=64)``:

        - "lbfgs", `LBFGS`: minimises the exact negative log-likelihood of all rows at once. It
          needs ``learning="mle"`` and exact inference, and supports no early stopping;
        - "asgd", `AveragedSGD`: gradient descent with momentum that averages its iterates, good
          for hundreds of outputs and images;
        - "adam", `Adam`, and "sgd", `SGD`: steps on mini-batches.

        "auto" is "lbfgs" if it can be used, "asgd" for ``learning="mle"`` with approximate
        inference, and "adam" in all other cases and in `partial_fit`. If options of the solver are
        "auto", a batch has all rows if there are at most 200, else 20 rows, and ``average`` is
        False. With ``alpha="auto"`` the batches of `partial_fit` have 20 rows.
    max_iter : int, default=200
        Maximum number of iterations of L-BFGS in a single fit, or of epochs of the other solvers.
    alpha : float or "auto", default="auto"
        L2 penalty: the objective is the mean over rows of the loss, which is summed over outputs,
        plus ``alpha / 2 (|U|^2 + |S|^2)``. A number applies to the coefficients of the given
        columns of X. "auto" finds the penalty by cross-validation, for columns that are scaled
        internally: two-valued columns to 0 and 1, and other columns to mean 0 and standard
        deviation 1/2. Sparse data such as texts keep their zeros and are divided by a common scale,
        so that the weights of TF-IDF keep their effect. L-BFGS treats X as sparse if fewer than a
        tenth of its entries differ from 0, other solvers if X is a sparse matrix. `alpha_` applies
        to the scaled columns, `visible_coef_` to the given columns. If there are fewer than 40
        rows, there is no search, and the penalty is 0.003 times the total variance of the scaled
        columns. Solvers other than L-BFGS use the best penalty of the model without hidden units,
        found on up to 32 outputs, or 1 / n_samples if this is larger. If the first call is
        `partial_fit`, "auto" is 0.1 times the mean square of the columns, but at most 0.1 and at
        least 0.00001. After n > 2000 different rows it is multiplied by 2000 / n.
    alpha_hidden : float or "auto", default="auto"
        L2 penalty on W, ``alpha_hidden / 2 |W|^2``. It should be small, so that W can grow. "auto"
        is 0.1 / max(n, 40) with L-BFGS, where n is the number of rows, or the sum of the weights if
        `alpha` is a number; with other solvers it is 0.
    early_stopping : bool, "auto" or object, default="auto"
        Stopping rule of all solvers except L-BFGS. True stands for ``EarlyStopping()``: hold out
        15% of the rows, find the epoch with the best validation score, and fit again on all rows.
        False stands for ``LossPlateau()``: stop when the training loss no longer falls. "auto" is
        True if there are at least 1000 rows (at least 200 rows with "asgd"). The validation score
        is the exact conditional log-likelihood if there are at most 14 outputs or 14 hidden units,
        else minus the share of wrong outputs.
    class_weight : "balanced", dict, list of dict or array-like, default=None
        Weights of the classes, which multiply the weights of the rows. For a 1-D y: a dict
        {class: weight}, or "balanced" for ``n_samples / (n_classes * count)``. For a 2-D y: a list
        with a dict {0: weight, 1: weight} for each label, an array (n_outputs,) with weights of the
        positive class, "balanced" for each label, or for a data frame a dict by label name, such
        as ``{"town": 3.0}`` or ``{"town": {0: 1.0, 1: 3.0}}``. The weights of a row's labels are
        multiplied, as in scikit-learn's forests, so that with many labels a few rows can dominate.
        The sum of the row weights stays the same. `partial_fit` does not support "balanced".
    warm_start : bool, default=False
        Start `fit` from the parameters of the previous fit. A penalty that the previous fit found,
        and its decision about hidden units, are kept.
    n_jobs : int, default=None
        Number of threads, which share the rows. Results do not depend on it. Threads make belief
        propagation and predictions faster, but not training by exact inference on batches of 20
        rows.
    random_state : int, RandomState or None, default=None
        Seed of the initial parameters, the choice of validation rows and the order of rows.
    verbose : bool or int, default=False
        1 prints a live line with rate, loss, validation score and remaining time; 2 prints a line
        for each epoch or iteration and for each penalty that was tried.

    Attributes
    ----------
    visible_coef_ : ndarray (n_outputs, n_features)
        Weights U of the inputs on the outputs, with a single row for an output of two classes, a
        row per class for an output of more classes, and no row for an output of one class.
    hidden_coef_ : ndarray (n_hidden, n_features)
        Weights S of the inputs on the hidden units.
    weights_ : ndarray (n_outputs, n_hidden)
        Couplings W of the outputs with the hidden units.
    visible_intercept_, hidden_intercept_ : ndarray (n_outputs,), (n_hidden,)
        Biases b of the outputs and c of the hidden units.
    coef_, intercept_ : ndarray
        Copies of `visible_coef_` and `visible_intercept_`, which exist only if the model has no
        hidden units and so is linear.
    classes_ : ndarray (n_outputs,) or (n_classes,), or list of ndarray
        Numbers 0, ..., n_outputs - 1 of the labels of a 2-D y, or the classes of a 1-D y. If the
        columns of y hold classes, a list with the sorted classes of each column.
    label_names_ : ndarray of str (n_outputs,)
        Names of the labels if y is a data frame or a series with names, see `set_label_output`.
    label_sets_ : ndarray (n_sets, n_outputs)
        Distinct label vectors of the training rows. Missing labels are replaced by predicted
        labels, and rows without any observed label are skipped.
    allow_empty_ : bool
        True if `predict` may return rows without a positive label. It is False if some training
        row had a positive label and no complete training row was all 0. If `y_known` says that all
        labels of a row are 0, the prediction is empty in any case.
    unseen_share_ : float
        Good-Turing estimate of the share of new rows whose label set is not in `label_sets_`.
    alpha_ : float
        Penalty of the fit, which applies to the scaled columns if `alpha` is "auto".
    alpha_path_ : dict of ndarray
        Record of the search for the penalty, with an entry for each penalty that was tried:
        "n_hidden", "alpha", "log_likelihood" of the label vector (mean over validation rows) and
        "log_loss" of the marginals (summed over outputs, mean over validation rows). The arrays are
        empty if there was no search.
    flip_rates_ : ndarray (n_outputs, 2)
        Flip rates of labels that are truly 0 and truly 1, with ``learning="noisy_mle"``.
    n_hidden_ : int
        Number of hidden units of the fitted model: `n_hidden`, or 0 if they did not help.
    thresholds_ : ndarray (n_outputs,)
        Thresholds if ``decode="threshold"`` and y is 2-D; all 0.5 if their search was interrupted.
    inference_ : str
        Name of the inference method in use.
    n_inference_iter_ : int or None
        Maximum number of iterations of inference in predictions: the number in the training epoch
        whose parameters were kept (by default 7 + min(e, 50) in epoch e). None for "exact".
    loss_curve_, convergence_curve_ : list of float
        Training loss (approximate if inference is approximate) and share of rows for which
        inference converged, for each epoch of the final run.
    validation_scores_ : list of float or None
        Validation score of each epoch of the run with held-out rows.
    n_iter_ : int
        Number of epochs of training that led to the parameters.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    If the columns of y hold classes, `predict_proba` returns a list with an array for each column,
    `score` is the share of rows whose outputs are all right, `decode` is "marginal", "marginal_map"
    or "map", and `learning` is "mle", "cd" or "pcd". `label_sets_` has a column for each visible
    unit. "auto" inference is exact for up to 10 hidden units or 2^10 vectors of classes.

    The search for the penalty splits the rows into five folds. It evaluates only as many folds as
    are needed for about 3000 validation rows (1500 with hidden units), and at least one fold. The
    score of a penalty is the weighted mean of log p(y | x) of the observed labels over the
    validation rows. The search begins without hidden units at 0.001 times the total variance of the
    columns, and changes alpha by factors of sqrt(10) as long as the score improves; each fit starts
    from the parameters of the previous fit. The result is the maximum of a parabola through the
    best three scores. Then models with hidden units are tried in the same way, starting at twice
    this penalty. Hidden units are kept if they improve the score by more than its standard error
    over the rows, and do not harm the marginals: the log loss of the marginals may increase by its
    standard error, by 1 %, or by a tenth of the gain in score, whichever is largest. `alpha_`
    applies to a fit on all rows; a fit on fewer rows uses a proportionally larger penalty. If y has
    more than two million entries, the search without hidden units uses a sample of the labels. If
    there are more than 2^30 states (rows times labels times ``2^n_hidden``), the search with hidden
    units uses a sample of the rows and only one penalty, and the final fit has a larger tolerance.

    With L-BFGS, a weak penalty (with the weight of a tenth of a row) pulls intercepts towards the
    log-odds of the smoothed shares of the labels. If ``alpha="auto"``, it pulls all intercepts. If
    `alpha` is a number, it pulls only the intercepts of labels that are always 0 or always 1, which
    would otherwise become infinite. If X has at most 3000 rows and more columns than rows, L-BFGS
    works in the space that the rows span, which gives the same result faster.

    `fit` warns (`ConvergenceWarning`) if inference converged for less than 90% of the rows in the
    last epoch, or if the marginals of belief propagation of an output have a mean error above 0.1.
    For the second check, `fit` computes exact marginals of up to 32 rows, if there are at most 14
    outputs or 14 hidden units and this takes less than a second; `partial_fit` skips this check.

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

    _stream: StreamPenalty | None

    _columns_of_classes = UnitTargets

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
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            0/1 indicator matrix or columns of classes, with NaN or None for missing entries; or the
            classes of a single output.
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
            If inference is unreliable; see the Notes of the class for the conditions.
        """
        resume, rng = begin_fit(self)
        rows = training_rows(self, X, y, sample_weight, reset=not resume)
        rows = with_class_weight(self, rows)
        self._check_decode()
        plan = self._resumed_plan(rows, rng) if resume else self._first_plan(rows, rng)
        callbacks = EpochCallbacks(self, plan.n_epochs, X, y, sample_weight)
        interrupted = train(self, plan, rng, callbacks).interrupted
        self._warn_of_convergence()
        if isinstance(resolve_rule(self.learning, "conditional"), Likelihood):
            interrupted |= self._warn_of_strong_couplings(rows)
        if option_name(self.decode) == "threshold":
            folds = bind(self._fold_settings, rows)
            update_thresholds(self, folds, rows.weight, rng, interrupted, rows.origin)
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
            For columns of classes, a list with the classes of each column. For a 2-D y, either [0,
            1] or a list of the labels of its columns, by name (even if y is an array) or by number
            (0, 1, ...). New labels are added to the model.

        Returns
        -------
        self

        Notes
        -----
        A call does nothing if no row of positive weight has an observed label. The first prediction
        for a new label is its frequency in the rows, whatever x is. Labels without a column are
        missing. Automatic learning rates depend on the rows of the first call.
        """
        return self._train_one_epoch(X, y, classes, sample_weight)

    # ------------------------------------------------------------------------ the plans

    def _first_plan(self, rows: Rows, rng) -> Plan:
        """Return the plan of a fit from new parameters."""
        choices = self._choices(rows, rng)
        # L-BFGS starts from hidden units that depend on the outputs, but not on x.
        scales = (1.0, 0.0) if isinstance(choices.solver, LBFGS) else ()
        model = self._first_model(rows, choices.design, choices.methods, rng, *scales)
        if is_auto(self.alpha):
            return self._searched_plan(choices, model, NO_PROGRESS)
        warn_of_scales(rows.X, rows.weight, type(self).__name__)
        return self._plan(choices, model, self.alpha, NO_PROGRESS)

    def _resumed_plan(self, rows: Rows, rng) -> Plan:
        """Return the plan of a fit from the fitted model, which keeps the penalty of a search."""
        choices = self._choices(rows, rng)
        model = self._resumed_model(choices.design, choices.methods)
        if is_auto(self.alpha) and self._columns is None:  # the earlier fit did not search
            return self._searched_plan(choices, model, self._progress)
        alpha = self.alpha_ if is_auto(self.alpha) else self.alpha
        return self._plan(choices, model, alpha, self._progress)

    def _stream_plan(self, rows: Rows, rng) -> Plan:
        """Return the plan of an epoch of `partial_fit`, from the fitted model if there is one."""
        rule = resolve_rule(self.learning, "conditional")
        rule.check_stream()
        self._check_rule(rule, rows)
        if isinstance(rule, NoisyLikelihood):
            rule = with_given_rates(rule, rows.visible.shape[1])
        methods = likelihood_methods(self, rule.conditional_answers, rng)
        solver = choose_stream_solver(self.solver)
        design = self._stream_design(rows)
        # The solver and the penalty adapt to the scale of the columns and the length of the stream.
        adapts = is_auto(self.alpha) and is_auto(self.solver)
        scale = partial_scale(design.X, rows.weight) if adapts else 1.0
        alpha: Any
        label_sets = None
        if self.__sklearn_is_fitted__():
            model, progress = self._resumed_model(design, methods), self._progress
            alpha, stream, label_sets = self.alpha_, self._stream, self.label_sets_
        else:
            model, progress = self._first_model(rows, design, methods, rng), NO_PROGRESS
            alpha = PLAIN_ALPHA * scale**2
            stream = StreamPenalty(alpha)
            warn_of_scales(rows.X, rows.weight, type(self).__name__, partial=True)
        if not adapts:
            stream = None
        elif stream is not None:  # else an earlier `fit` has searched the penalty
            stream = stream.with_rows(rows.X[rows.weight > 0])
            alpha = stream.alpha
        stochastic = self._stochastic_fields(rows, design, solver)
        if adapts:
            stochastic |= {
                "batch_size": solver.rows_per_step(rows.n_originals, BATCH_ROWS),
                "rate_factors": crbm_rate_factors(solver, scale),
                "first_rates": crbm_first_rates(design.X, rows.weight),
            }
        if not is_auto(self.alpha):
            alpha = self.alpha
        found = {"_stream": stream, **_found_rates(rule)}
        return self._conditional_plan(
            rows,
            design,
            model,
            methods,
            alpha=alpha,
            label_sets=label_sets,
            found=found,
            objective=rule.conditional(methods.training, self.n_jobs),
            penalty=crbm_penalty(alpha, self._alpha_of_weights()),
            solver=solver,
            progress=progress,
            **stochastic,
        )

    def _choices(self, rows: Rows, rng) -> _Choices:
        """Choose what does not depend on the initial model of a `fit`."""
        rule = resolve_rule(self.learning, "conditional")
        self._check_rule(rule, rows)
        if isinstance(rule, NoisyLikelihood):
            rule = with_flip_rates(self, rule, rows, rng)
        methods = likelihood_methods(self, rule.conditional_answers, rng)
        solver: Any = choose_solver(self.solver, self.early_stopping, rule, methods.training)
        full_batch = isinstance(solver, LBFGS)
        centre = not full_batch and solver.averaged
        return _Choices(
            rows, rule, methods, solver, scaled_design(rows, self.alpha, centre, full_batch)
        )

    def _searched_plan(self, choices: _Choices, model, progress: Progress) -> Plan:
        """Return the plan of a fit, after a search for the penalty by cross-validation."""
        rows, design = choices.rows, choices.design
        settings, batch = self._penalty_settings(choices.rule), source_of(rows, design).all
        variance = variance_of(design)
        if isinstance(choices.solver, LBFGS):
            penalty = make_penalty(settings, *rows[1:], every_intercept=True)
            alpha, model, points = search_penalty(settings, penalty, model, batch, variance)
        else:
            alpha, points = search_convex_penalty(settings, model, batch, variance)
        return self._plan(choices, model, alpha, progress, points)

    def _plan(self, choices: _Choices, model, alpha, progress: Progress, points=()) -> Plan:
        """Return the plan of a fit from a model and with a penalty; `points` describe a search."""
        rows, rule, methods, solver, design = choices
        stochastic = {}
        if isinstance(solver, LBFGS):
            settings, automatic = self._penalty_settings(rule), is_auto(self.alpha)
            penalty = make_penalty(settings, *rows[1:], every_intercept=automatic)(alpha)
        else:
            penalty = crbm_penalty(alpha, self._alpha_of_weights())
            stochastic = self._stochastic_fields(rows, design, solver)
        return self._conditional_plan(
            rows,
            design,
            model,
            methods,
            alpha=alpha,
            points=points,
            found={"_stream": None, **_found_rates(rule)},
            objective=rule.conditional(methods.training, self.n_jobs),
            penalty=penalty,
            solver=solver,
            progress=progress,
            **stochastic,
        )

    def _check_rule(self, rule: LearningRule, rows: Rows) -> None:
        """Raise a ValueError if the learning rule does not support this y."""
        n_classes = len(self.classes_) if self._targets.one_hot else None
        rule.check_rows(rows.visible, n_classes, self._targets.units is not None)

    def _penalty_settings(self, rule: LearningRule) -> PenaltySettings:
        settings = PenaltySettings(
            self.alpha_hidden, self._targets.exclusive, self.max_iter, self.n_jobs, self.verbose
        )
        return settings._replace(likelihood=rule) if isinstance(rule, Likelihood) else settings

    def _alpha_of_weights(self) -> float:
        """Return the penalty on W with a stochastic solver."""
        return 0.0 if isinstance(self.alpha_hidden, str) else self.alpha_hidden


def _found_rates(rule):
    """Return the fitted attribute of a rule with flip rates."""
    return {"flip_rates_": rule.flip_rates} if isinstance(rule, NoisyLikelihood) else {}
