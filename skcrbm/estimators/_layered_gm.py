"""LayeredGMClassifier: layered graphical models, trained by gradients of truncated inference."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skcrbm.decoding.posterior import with_a_label
from skcrbm.energies import LayeredStructure
from skcrbm.energies.layered_model import InputCode, LayeredModel
from skcrbm.energies.layered_structure import LayeredParams, checked_skips
from skcrbm.estimators._base import (
    Rows,
    StructuredClassifier,
    training_rows,
    with_class_weight,
)
from skcrbm.estimators._joint import draw_independent
from skcrbm.inference.layered.methods import MaxProductNetwork
from skcrbm.inference.layered.network import LayeredInput, probabilities
from skcrbm.inference.layered.truncated import (
    TruncatedInference,
    resolve_truncated,
    truncated_constraint,
)
from skcrbm.layers import Dense
from skcrbm.layers.clamping import HardClamping, clamping_constraint, clamping_cuts
from skcrbm.layers.layers import check_layers, checked_input_shape, split_skips
from skcrbm.learning.data import ArraySource, Design, layered_params
from skcrbm.learning.fit import (
    NO_PROGRESS,
    Plan,
    Progress,
    begin_partial_fit,
    train,
    train_one_epoch,
)
from skcrbm.learning.penalties import L2
from skcrbm.learning.rules import LearningRule, resolve_rule, rule_constraint
from skcrbm.learning.solvers import (
    EarlyStopping,
    LossPlateau,
    Solver,
    resolve_solver,
    resolve_stopping,
    solver_constraint,
    stopping_constraint,
)
from skcrbm.targets.classifier import label_output
from skcrbm.targets.multioutput import MultioutputTargets
from skcrbm.targets.weights import refuse_balanced_weights
from skcrbm.utils.categorical import one_against_rest
from skcrbm.utils.columns import warn_of_scales
from skcrbm.utils.fitting import (
    CallbackSupportMixin,
    EpochCallbacks,
    all_or_nothing,
    begin_fit,
    skip_empty_batches,
    with_callbacks,
)
from skcrbm.utils.limits import LAYERED_CHUNK_ROWS
from skcrbm.utils.options import Integer
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils.sklearn_private import Interval, StrOptions, fit_context
from skcrbm.utils.validation import check_order
from skcrbm.utils.warnings import warn_user

_DEFAULT_LAYERS = (Dense(100),)
_SOLVERS = ("adam", "sgd")
_PATIENCE, _VALIDATION_FRACTION = 5, 0.2
# If the solver has batch_size="auto", each step reads all rows if there are at most
# _FULL_BATCH_ROWS rows; otherwise it reads a mini-batch of _BATCH_ROWS rows.
_FULL_BATCH_ROWS, _BATCH_ROWS = 200, 20
# A fit warns if its largest number of epochs takes more than _LONG seconds. A message takes about
# _SECONDS seconds for each entry of the table of its edge, in training; mean field is about
# _MEAN_FIELD times as fast.
_LONG, _SECONDS, _MEAN_FIELD = 120.0, 5e-9, 10.0
# early_stopping="auto" holds out validation rows if there are at least this many training rows.
_EARLY_STOPPING_ROWS = 1000
# Number of iterations of max-product in `map_states`. It is much larger than the number of layers,
# so that messages pass through all layers many times.
_MAP_ITERATIONS = 50


class LayeredGMClassifier(CallbackSupportMixin, StructuredClassifier):
    """Layered graphical model, trained by gradients of truncated inference.

    The model has layers of categorical nodes, and pairwise energies between neighbouring layers,
    which are dense, local or convolutional [1]_. T iterations of approximate inference compute the
    beliefs (approximate marginals) of the output nodes. Training backpropagates ``-log belief(y)``
    through these T iterations, so prediction uses the same T. The output layer depends on y: a
    categorical node for a 1-D y, a binary node for each column of a 0/1 matrix, or a categorical
    node for each column if the columns of y hold classes ("multiclass-multioutput", see
    `CRBMClassifier` for the y that count as columns of classes). NaN and None are missing labels of
    a 2-D y. Cross-validate and search with `skcrbm.model_selection` if y has missing labels: the
    functions there have scikit-learn's names and accept them.

    Parameters
    ----------
    layers : tuple of layers, default=(Dense(100),)
        Hidden layers, in order from the input to the output: `skcrbm.layers.Dense`, `Local2d`
        or `Conv2d`. Without hidden layers, ``()``, the model is a (multinomial) logistic
        regression. A `skcrbm.layers.Skip` among the layers joins two layers that are not
        neighbours, as in ``(Dense(20), Skip(0, 2))``.
    input_shape : tuple of int, default=None
        Shape (height, width) or (height, width, channels) of the images in the rows of X, in C
        order; local and convolutional layers need it. None means that rows are plain vectors.
    clamping : {"soft", "hard"} or HardClamping, default="soft"
        How features determine the states of the input nodes. "soft": the value of a feature is the
        mean of a binary node. The value may be any real number if the feature is never missing.
        "hard": a node is in state 1 if its feature is at least 0.5, else in state 0.
        ``HardClamping(thresholds=...)`` replaces the threshold 0.5 by one or more thresholds. A
        node then has one more state than there are thresholds.
    inference : {"tree_reweighted", "sum_product", "mean_field"} or TruncatedInference, \
            default="tree_reweighted"
        Inference method of training and prediction. A name stands for 5 iterations with the
        sequential schedule; ``TruncatedInference(method, schedule, n_iter)`` sets the schedule and
        the number of iterations.
    learning : str or object, default="backprop"
        Learning rule: "backprop", `Backpropagation`, computes gradients by backpropagation through
        the iterations; "analytic", `AnalyticGradient`, uses the difference between the moments of
        the data and of the model, and usually gives a worse model. Both rules have an option
        `label_smoothing`.
    solver : str or object, default="adam"
        Solver, by name or as an object from `skcrbm.learning`: "adam" or "sgd". If options of the
        solver are "auto", a batch has all rows if there are at most 200, else 20 rows, and iterates
        are not averaged.
    max_iter : int, default=200
        Maximum number of epochs.
    alpha : float, default=0.0
        L2 penalty on the pairwise scores W between the input and the first layer:
        ``alpha / 2 |W|^2`` is added to the mean loss of a row.
    alpha_hidden : float, default=0.0
        L2 penalty on all other pairwise scores.
    early_stopping : bool, "auto" or object, default="auto"
        True stands for ``EarlyStopping(validation_fraction=0.2, n_iter_no_change=5)``: hold out 20%
        of the rows, find the epoch with the lowest validation loss, and fit again on all rows.
        False stands for ``LossPlateau(n_iter_no_change=5)``: stop when the training loss no longer
        falls. "auto" is True if there are at least 1000 rows.
    class_weight : "balanced", dict, list of dict or array-like, default=None
        Weights of the classes, as in `CRBMClassifier`.
    warm_start : bool, default=False
        Start `fit` from the parameters of the previous fit.
    n_jobs : int, default=None
        Number of threads, each of which handles 64 rows at a time. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the initial parameters, the choice of validation rows and the order of rows.
    verbose : bool or int, default=False
        1 prints a live line with rate, loss and remaining time; 2 prints a line for each epoch.

    Attributes
    ----------
    layers_ : list of FittedLayer
        Hidden layers and the output layer, as named tuples (layer, unary, pairwise).
    skip_weights_ : dict
        Pairwise scores of each skip (a, b), in the shape of the pairwise scores of a dense layer.
    input_unary_ : ndarray (n_features, n_states - 1)
        Unary scores of the input nodes, which are used if features are missing.
    classes_ : ndarray (n_outputs,) or (n_classes,), or list of ndarray
        Numbers 0, ..., n_outputs - 1 of the labels of a 2-D y, or the classes of a 1-D y, or the
        sorted classes of each column of y.
    label_names_ : ndarray of str (n_outputs,)
        Names of the labels if y is a data frame or a series with names, see `set_label_output`.
    allow_empty_, unseen_share_
        As in `CRBMClassifier`.
    n_inference_iter_ : int
        Number of iterations T, in training and in prediction.
    loss_curve_, convergence_curve_ : list of float
        Training loss, and share of rows whose output beliefs changed by less than 0.001 in the last
        iteration of inference, for each epoch of the final run. Truncated inference need not
        converge.
    validation_scores_ : list of float or None
        Negative validation loss of each epoch of the run with held-out rows.
    n_iter_ : int
        Number of epochs of training that led to the parameters.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    With soft clamping, a feature that is NaN in some training row becomes a binary node with a
    unary score. The observed values of this feature must lie in [0, 1]. In new rows they may lie in
    [-0.5, 1.5], because the values of new rows that are scaled by the range of the training rows
    are often outside of [0, 1]. If the feature is missing in a row, inference computes a belief for
    its node, see `impute`. A feature may be missing in a later call of `partial_fit` if its values
    were in [0, 1] in all earlier calls.

    References
    ----------
    .. [1] Shen, Wu, Domokos and Cremers (2019). Probabilistic discriminative learning with
       layered graphical models. Section 3, algorithm 1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skcrbm import LayeredGMClassifier
    >>> from skcrbm.layers import Conv2d, Dense
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LayeredGMClassifier(
    ...     layers=(Conv2d(4, kernel_size=3, stride=2), Dense(10, n_states=3)),
    ...     input_shape=(8, 8), max_iter=3, early_stopping=False, random_state=0,
    ... ).fit(X / 16, y)
    >>> model.predict_proba(X[:2] / 16).shape
    (2, 10)
    """

    _saved = ("n_features_in_", "classes_", "_targets", "layers_", "input_unary_", "n_iter_")
    n_inference_iter_: int
    _model: Any
    _inference: TruncatedInference

    _parameter_constraints: dict = {
        "layers": [tuple, list],
        "input_shape": [tuple, list, None],
        "clamping": clamping_constraint(),
        "inference": truncated_constraint(),
        "learning": rule_constraint("layered", "Backpropagation(label_smoothing=0.1)"),
        "solver": solver_constraint(_SOLVERS),
        "max_iter": [Integer(1)],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "alpha_hidden": [Interval(Real, 0, None, closed="left")],
        "early_stopping": stopping_constraint(),
        "class_weight": [StrOptions({"balanced"}), dict, list, "array-like", None],
        "warm_start": ["boolean"],
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    _allow_nan = True
    _columns_of_classes = MultioutputTargets
    _structural = ("layers", "input_shape", "clamping")
    _state = ("_targets", "_model", "_inference", "_structure", "_progress", "_rng")
    _prediction_parameters = ("n_jobs",)

    def __init__(
        self,
        *,
        layers: tuple | list = _DEFAULT_LAYERS,
        input_shape: tuple | list | None = None,
        clamping: str | HardClamping = "soft",
        inference: str | TruncatedInference = "tree_reweighted",
        learning: str | LearningRule = "backprop",
        solver: str | Solver = "adam",
        max_iter: int = 200,
        alpha: float = 0.0,
        alpha_hidden: float = 0.0,
        early_stopping: bool | str | LossPlateau = "auto",
        class_weight: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ):
        self.layers = layers
        self.input_shape = input_shape
        self.clamping = clamping
        self.inference = inference
        self.learning = learning
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

    def __sklearn_is_fitted__(self):
        return hasattr(self, "layers_")

    # ---------------------------------------------------------------- fitting

    @all_or_nothing
    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, with NaN for missing features.
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            0/1 indicator matrix or columns of classes, with NaN or None for missing entries; or the
            classes of a 1-D y.
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
        UserWarning
            If `max_iter` epochs may take more than two minutes, with the expected time.
        """
        self._check_layers()
        resume, rng = begin_fit(self)
        rows = training_rows(self, X, y, sample_weight, reset=not resume)
        rows = with_class_weight(self, rows)
        plan = self._resumed_plan(rows) if resume else self._first_plan(rows, rng)
        self._warn_of_time(plan)
        callbacks = EpochCallbacks(self, plan.n_epochs, X, y, sample_weight)
        train(self, plan, rng, callbacks)
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
            All classes of a 1-D y, or a list with the classes of each column of y; required in the
            first call if `y` does not contain all of them. The classes of a 0/1 matrix are 0 and 1.

        Returns
        -------
        self

        Notes
        -----
        A call does nothing if no row of positive weight has an observed label.

        The automatic learning rate depends on the number of rows of the first call. If each call
        gets few rows, set the learning rate, as in ``solver=Adam(learning_rate=0.001)``.
        """
        resume, rng = begin_partial_fit(self)
        self._check_layers()
        refuse_balanced_weights(self.class_weight)
        rows = training_rows(
            self, X, y, sample_weight, reset=not resume, classes=classes, partial=True
        )
        rows = with_class_weight(self, rows)
        plan = self._resumed_plan(rows) if resume else self._first_plan(rows, rng, partial=True)
        train_one_epoch(self, plan, rng)
        return self

    def _first_plan(self, rows: Rows, rng, partial: bool = False) -> Plan:
        """Return the plan of a fit from new parameters; `partial` is True in `partial_fit`."""
        structure, code = self._new_structure(rows.X, rows.visible)
        # Overflow needs no warning, because training detects infinite values and raises an error.
        with np.errstate(over="ignore", invalid="ignore"):
            mean = code.mean(rows.X, rows.weight)
            params = layered_params(structure, mean, rng, rows.visible.dtype)
        warn_of_scales(rows.X, rows.weight, type(self).__name__, partial)
        return self._plan(rows, LayeredModel(params, structure, code), NO_PROGRESS)

    def _resumed_plan(self, rows: Rows) -> Plan:
        """Return the plan of a fit from the fitted model."""
        model = self._model._replace(code=self._model.code.with_rows(rows.X))
        return self._plan(rows, model, self._progress)

    def _plan(self, rows: Rows, model: LayeredModel, progress: Progress) -> Plan:
        """Return the plan of a fit from a model."""
        source = ArraySource(rows.X, rows.visible, rows.weight, origin=rows.origin)
        n_rows = source.n_originals
        rule = resolve_rule(self.learning, "layered")
        solver = resolve_solver(self.solver, _SOLVERS)
        batch_size = n_rows if n_rows <= _FULL_BATCH_ROWS else _BATCH_ROWS
        return Plan(
            model=model,
            design=Design(rows.X),
            rows=source,
            objective=rule.layered(resolve_truncated(self.inference), self.n_jobs),
            penalty=L2(LayeredParams(self.alpha, self.alpha_hidden, 0.0)),
            solver=solver,
            max_iter=self.max_iter,
            verbose=self.verbose,
            progress=progress,
            attributes=self._model_attributes,
            stopping=resolve_stopping(
                self.early_stopping,
                n_rows >= _EARLY_STOPPING_ROWS,
                EarlyStopping(_VALIDATION_FRACTION, _PATIENCE),
                LossPlateau(_PATIENCE),
            ),
            batch_size=solver.rows_per_step(n_rows, batch_size),
            average=solver.keeps_average(False),
            rate_factors=LayeredParams(1.0, 1.0, 1.0),
            stratify=not self._targets.multilabel,
        )

    def _warn_of_time(self, plan: Plan) -> None:
        """Warn if the fit may take minutes; a fit with `verbose` shows the remaining time."""
        inference, structure = resolve_truncated(self.inference), plan.model.structure
        work = plan.rows.n_rows * inference.n_iter * structure.n_message_entries
        seconds = _SECONDS * work / (_MEAN_FIELD if inference.method == "mean_field" else 1)
        if seconds * plan.max_iter > _LONG and not self.verbose:
            warn_user(
                f"an epoch may take about {seconds:.2g} seconds, and max_iter={plan.max_iter} "
                f"epochs {seconds * plan.max_iter / 60:.0f} minutes. inference='mean_field' is "
                "about ten times as fast; fewer nodes in `layers` or a smaller max_iter shorten "
                "the fit, too. verbose=1 shows the remaining time instead of this warning"
            )

    def _check_layers(self) -> None:
        """Raise a ValueError if `layers` is invalid, or `inference` has too few iterations."""
        layers, skips = split_skips(self.layers)
        check_layers(layers)
        checked_skips(skips, len(layers) + 1)
        resolve_truncated(self.inference).check_depth(len(layers))

    def _new_structure(self, X, visible):
        """Return the structure (layers and sizes) and the encoding of features of a new model."""
        code = InputCode.from_training(X, clamping_cuts(self.clamping))
        shape = checked_input_shape(self.input_shape, X.shape[1])
        n_visible = visible.shape[1]
        n_outputs, n_states = (1, n_visible) if self._targets.one_hot else (n_visible, 2)
        n_classes = None
        if isinstance(self._targets, MultioutputTargets):
            n_classes = self._targets.n_classes
            n_states = max(2, int(n_classes.max()))
        layers, skips = split_skips(self.layers)
        structure = LayeredStructure(
            layers, shape, code.n_states, n_outputs, n_states, skips, n_classes
        )
        return structure, code

    def _shape_of(self, name, value):
        return clamping_cuts(value) if name == "clamping" else value

    def _model_attributes(self, model: LayeredModel, epoch: int) -> dict[str, Any]:
        """Return the attributes that the estimator gets from a model at the end of an epoch."""
        inference: Any = clone(resolve_truncated(self.inference))
        return {
            "layers_": model.fitted_layers(),
            "skip_weights_": model.skip_weights(),
            "input_unary_": model.structure.unaries(model.params)[0],
            "n_inference_iter_": inference.n_iter,
            "_model": model,
            "_inference": inference,
        }

    # ------------------------------------------------------------- prediction

    @label_output
    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return the log-odds of the beliefs of the output nodes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, with NaN for missing features.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs), (n_samples,) or (n_samples, n_classes)
            Log-odds of each output or, for more than two classes, unnormalised log-probabilities,
            which are 0 for the first class.
        """
        return self._decision(self._output_scores(X))

    def _output_scores(self, X):
        """Return the log-odds (N, L) of L labels, or the scores (N, K - 1) of K classes.

        The score of the first class is always 0 and is left out. If the L columns of y hold
        classes, the result has L (K - 1) columns: first the scores of output 0, then of output 1,
        and so on.
        """
        check_is_fitted(self)

        def scores(trace):
            return trace.beliefs[-1][-1].reshape(-1, trace.n).T

        found = np.concatenate(self._runs(X, self._inference.network, scores))
        if not np.isfinite(found).all():
            raise ValueError("X times the weights is too large; scale the columns of X")
        return found

    def _label_scores(self, scores):
        return scores

    def _label_log_odds(self, scores):
        if self._targets.indicator:
            return scores
        return one_against_rest(self._scores_by_output(scores))

    def _scores_by_output(self, scores):
        """Return the scores (N, L, K) of the K classes of each of L outputs.

        `scores` (N, L (K - 1)) lacks the score 0 of the first class.
        """
        scores = scores.reshape(len(scores), self._targets.n_outputs, -1)
        return np.concatenate([np.zeros_like(scores[:, :, :1]), scores], axis=2)

    def _labels(self, scores):
        if not self._targets.indicator:
            return self._scores_by_output(scores).argmax(axis=2)
        return with_a_label(scores >= 0, scores, self.allow_empty_)

    def _binary_scores(self, scores):
        return scores

    def _class_scores(self, scores):
        return np.hstack([np.zeros((len(scores), 1), scores.dtype), scores])

    def _marginal_log_odds(self, X):
        scores = self._output_scores(X)
        return self._targets.log_odds(self, scores)

    def _log_beliefs(self, X) -> np.ndarray:
        """Return the log-beliefs (N, L, K) of the K states of the L output nodes."""
        scores = self._output_scores(X).astype(np.float64)
        scores = scores.reshape(len(scores), self._model.structure.n_nodes[-1], -1)
        scores = np.concatenate([np.zeros_like(scores[:, :, :1]), scores], axis=2)
        possible = self._model.structure.possible
        if possible is not None:
            scores[:, ~possible] = -np.inf
        return log_softmax(scores, axis=2)

    def score_samples(self, X: ArrayLike, y: ArrayLike | None = None) -> np.ndarray:
        """Return the log-likelihood of the labels of each row.

        It is the sum of the log-beliefs of the observed labels, whose mean training maximises. The
        beliefs of truncated inference treat the outputs of a row as independent given x.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, with NaN for missing features.
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            Labels. Missing labels of a 2-D y are left out, so that the result is 0 if no label of
            the row is observed. None (which scikit-learn's checks pass) means that no label of any
            row is observed.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-likelihood of each row.

        Raises
        ------
        ValueError
            If an argument is invalid, or y holds a class that training did not have.
        """
        log_beliefs = self._log_beliefs(X)
        if y is None:
            return np.zeros(len(log_beliefs))
        check_order(X=X, y=y)
        visible = self._targets.encode(y)
        if len(visible) != len(log_beliefs):
            raise ValueError(
                "X and y must have the same number of rows, got "
                f"{len(log_beliefs)} and {len(visible)}"
            )
        if self._targets.one_hot:
            visible = visible.argmax(axis=1)[:, None]
        codes = np.nan_to_num(visible).astype(np.intp)
        chosen = np.take_along_axis(log_beliefs, codes[:, :, None], axis=2)[:, :, 0]
        return np.where(np.isnan(visible), 0.0, chosen).sum(axis=1)

    def sample(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = None,
    ) -> np.ndarray:
        """Draw labels from the distribution of which `score_samples` returns the logarithm.

        The labels of a row are drawn independently of each other given x, from their beliefs.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, with NaN for missing features.
        n_samples : int, default=1
            Number of draws for each row.
        random_state : int, RandomState or None, default=None
            Seed of the draws, which do not depend on `n_jobs`.

        Returns
        -------
        ndarray of shape (n_rows, n_samples, n_outputs) or (n_rows, n_samples)
            Labels, or classes if y was 1-D.
        """
        drawn = draw_independent(self._log_beliefs(X), n_samples, random_state)
        if self._targets.multilabel:
            return self._targets.decode(drawn)
        return self.classes_[drawn[:, :, 0]]

    @label_output
    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the most probable class, or the labels with a probability of at least 0.5.

        If every training row had a label, the prediction contains at least the most probable label.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples,)
        """
        return self._predict(self._output_scores(X))

    def _runs(self, X, network, read, **options):
        """Run inference on chunks of the rows of X, and return a list of results.

        ``network(model)`` makes the object that runs inference, such as a message-passing network.
        Inference returns a `Trace`, from which ``read(trace)`` extracts the result of a chunk.
        """
        X = self._check_predict_data(X)
        model = self._model._replace(code=self._model.code.for_rows(X))
        shared = network(model)

        def chunk(rows):
            # An overflow gives NaN in the result, and `_output_scores` then raises an error.
            with np.errstate(over="ignore", invalid="ignore"):
                return read(shared.run(LayeredInput(*model.encode(X[rows])), **options))

        with one_blas_thread():
            chunks = row_chunks(X.shape[0], LAYERED_CHUNK_ROWS)
            return list(ordered_map(chunk, chunks, self.n_jobs))

    def map_states(self, X: ArrayLike) -> list[np.ndarray]:
        """Return the most probable joint states of all hidden and output nodes, by max-product.

        The result is exact if the graph is a tree, that is, with a single hidden layer and a single
        output node. Otherwise it is an approximation.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        list of ndarray of shape (n_samples, n_nodes), int
            States of the nodes of each hidden layer, followed by the states of the output nodes. If
            y was 1-D, the predicted classes are ``classes_[states[-1][:, 0]]``.
        """
        check_is_fitted(self)

        def network(model):
            n_iter = max(_MAP_ITERATIONS, self.n_inference_iter_)
            schedule = self._inference.schedule
            schedule = "sequential" if schedule == "auto" else schedule
            return MaxProductNetwork(model, schedule, n_iter, with_input=model.has_free_inputs)

        def states(trace):
            return [probabilities(b, trace.n).argmax(axis=1).T for b in trace.beliefs[-1][1:]]

        chunks = self._runs(X, network, states, complete=True)
        return [np.concatenate(layer) for layer in zip(*chunks)]

    def impute(self, X: ArrayLike) -> np.ndarray:
        """Replace missing features by the means of their beliefs.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Copy of X in which each NaN is replaced by P(feature = 1) or, if the input nodes have
            more than two states s = 0, 1, ..., by the expectation of s / (n_states - 1).

        Raises
        ------
        ValueError
            If the model was fitted with a single iteration of inference, after which the hidden
            nodes have not yet sent messages back to the input.
        """
        check_is_fitted(self)
        if self.n_inference_iter_ < 2:
            raise ValueError(
                "impute needs a model fitted with TruncatedInference(n_iter=2) or more iterations"
            )
        filled = self._check_predict_data(X)
        filled = filled.toarray() if sparse.issparse(filled) else filled.copy()

        def means(trace):
            missing = trace.inputs.missing
            if missing is None:
                return trace.n, None, None
            p = probabilities(trace.beliefs[-1][0], trace.n)
            levels = np.linspace(0, 1, p.shape[1]).astype(p.dtype)
            return trace.n, missing, np.einsum("isn,s->ni", p, levels)[missing]

        start = 0
        for n_rows, missing, mean in self._runs(X, self._inference.network, means, complete=True):
            if missing is not None:
                filled[start : start + n_rows][missing] = mean
            start += n_rows
        return filled
