"""LayeredGMClassifier: layered graphical models trained through truncated inference."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import _fit_context, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skcrbm.decoding.posterior import with_a_label
from skcrbm.energies import LayeredStructure
from skcrbm.energies.layered_model import InputCode, LayeredModel
from skcrbm.energies.layered_structure import LayeredParams
from skcrbm.estimators._base import (
    Rows,
    StructuredClassifier,
    refuse_balanced_weights,
    training_rows,
    with_class_weight,
)
from skcrbm.inference.layered.methods import MaxProductNetwork
from skcrbm.inference.layered.network import LayeredInput, probabilities
from skcrbm.inference.layered.truncated import (
    TruncatedInference,
    resolve_truncated,
    truncated_constraint,
)
from skcrbm.layers import Dense
from skcrbm.layers.clamping import HardClamping, clamping_constraint, clamping_cuts
from skcrbm.layers.layers import check_layers, checked_input_shape
from skcrbm.learning.data import ArraySource, Design, layered_params
from skcrbm.learning.fit import Plan, fit, fit_one_epoch, joined_curves, resumed_generator
from skcrbm.learning.penalties import L2
from skcrbm.learning.rules import LearningRule, resolve_rule, rule_constraint
from skcrbm.learning.solvers import (
    EarlyStopping,
    LossPlateau,
    Solver,
    refuse_held_out_rows,
    resolve_solver,
    resolve_stopping,
    solver_constraint,
    stopping_constraint,
)
from skcrbm.targets.kinds import label_output
from skcrbm.utils.columns import warn_of_scales
from skcrbm.utils.fitting import (
    CallbackSupportMixin,
    EpochCallbacks,
    all_or_nothing,
    forget,
    skip_empty_batches,
    with_callbacks,
)
from skcrbm.utils.limits import LAYERED_CHUNK_ROWS
from skcrbm.utils.options import Integer
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks

_DEFAULT_LAYERS = (Dense(100),)
_SOLVERS = ("adam", "sgd")
_PATIENCE, _VALIDATION_FRACTION = 5, 0.2
# With no more rows than the first number, a step reads all rows; else it reads the second number.
_FULL_BATCH_ROWS, _BATCH_ROWS = 200, 20
# From this number of rows on, early_stopping="auto" holds rows out.
_EARLY_STOPPING_ROWS = 1000
# Iterations of max-product decoding: more than any path through the layers needs.
_MAP_ITERATIONS = 50


class LayeredGMClassifier(CallbackSupportMixin, StructuredClassifier):
    """Layered graphical model trained through truncated inference.

    Layers of categorical nodes with pairwise energies between neighbouring layers, which are
    dense, local or convolutional [1]_. T iterations of approximate inference give the beliefs of
    the output. Training follows the exact gradient of ``-log belief(y)`` through these
    iterations, so prediction uses the same T. The output layer follows from y: one categorical
    node for 1-D y, one binary node per column of 2-D y (NaN = not observed).

    Parameters
    ----------
    layers : tuple of layers, default=(Dense(100),)
        Hidden layers from the input to the output: `skcrbm.layers.Dense`, `Local2d`,
        `Conv2d`. An empty tuple is (multinomial) logistic regression.
    input_shape : tuple of int, default=None
        (height, width) or (height, width, channels) of the images in the rows of X, in C
        order, for local and convolutional layers. None stands for a plain vector.
    clamping : {"soft", "hard"} or HardClamping, default="soft"
        Effect of the features on the input nodes. "soft": a feature is the mean of a binary node;
        it may be any real number if it is never missing. "hard": a node is in state 1 if its
        feature is at least 0.5; ``HardClamping(thresholds=...)`` has other and more thresholds.
    inference : {"tree_reweighted", "sum_product", "mean_field"} or TruncatedInference, \
            default="tree_reweighted"
        Method of inference in training and in prediction. A name stands for 5 iterations with
        the sequential schedule; ``TruncatedInference(method, schedule, n_iter)`` sets these.
    learning : str or object, default="backprop"
        Learning rule: "backprop", `Backpropagation`, goes through the iterations; "analytic",
        `AnalyticGradient`, takes a difference of moments and trains worse. Both have an option
        `label_smoothing`.
    solver : str or object, default="adam"
        Solver, by name or as an object from `skcrbm.learning`: "adam" or "sgd". The automatic
        `batch_size` is all rows up to 200, else 20; the automatic `average` is False.
    max_iter : int, default=200
        Largest number of epochs.
    alpha : float, default=0.0
        L2 penalty on the pairwise scores of the input, ``alpha / 2 |W|^2`` beside the mean
        loss of a row.
    alpha_hidden : float, default=0.0
        L2 penalty on all other pairwise scores.
    early_stopping : bool, "auto" or object, default="auto"
        True stands for ``EarlyStopping(validation_fraction=0.2, n_iter_no_change=5)``: hold out 20%
        of the rows, keep the epoch with the lowest loss on them, fit again on all rows. False
        stands for ``LossPlateau(n_iter_no_change=5)``. "auto" is True from 1000 rows on.
    class_weight : "balanced", dict, list of dict or array-like, default=None
        Weights of the rows by their classes, as in `CRBMClassifier`.
    warm_start : bool, default=False
        Start `fit` from the parameters of the previous fit.
    n_jobs : int, default=None
        Threads over chunks of 64 rows. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the initial parameters, the validation part and the order of rows.
    verbose : bool or int, default=False
        1: a live line with rate, loss and remaining time; 2: a line per epoch.

    Attributes
    ----------
    layers_ : list of FittedLayer
        Hidden layers and the output layer: (layer, unary, pairwise) each.
    input_unary_ : ndarray (n_features, n_states - 1)
        Unary scores of the input nodes, which matter where a feature is not observed.
    classes_ : ndarray (n_outputs,) or (n_classes,)
        Numbers of the labels of a 2-D y, or the classes.
    label_names_ : ndarray of str (n_outputs,)
        Names of the outputs, if y is a data frame or a series; see `set_label_output`.
    allow_empty_, unseen_share_
        As in `CRBMClassifier`.
    n_inference_iter_ : int
        Number of iterations T of the fit, used in prediction.
    loss_curve_, convergence_curve_ : list of float
        Training loss, and share of rows whose output moved by less than 0.001 in the last
        iteration, per epoch of the run that gave the parameters. Truncated inference need not
        converge.
    validation_scores_ : list of float or None
        Minus the validation loss, per epoch of the run with held-out rows.
    n_iter_ : int
        Number of epochs behind the parameters.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    With soft clamping, a feature that is NaN in some row is a binary node with a unary score. Its
    observed values must lie in [0, 1]; new rows may overshoot by 0.5, as scaled rows do. If a
    value is not observed, the node has a belief, see `impute`. A feature can become NaN in a later
    call to `partial_fit` if its values were in [0, 1] in all earlier calls.

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
    _fitted_structure: tuple

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
    _state = (
        "_targets",
        "_model",
        "_inference",
        "_fitted_structure",
        "_progress",
        "_rng",
    )

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
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            NaN where not observed.
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            0/1 indicator matrix with NaN where not observed, or classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; a weight k counts as k copies of the row.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, y, a weight or a hyperparameter is invalid.
        FloatingPointError
            If the training diverges.
        """
        self._check_layers()
        resume = self.warm_start and hasattr(self, "layers_")
        if resume:
            self._check_same_model()
        else:
            forget(self, self._state)
        rows = training_rows(self, X, y, sample_weight, reset=not resume)
        rows = with_class_weight(self, rows)
        rng = check_random_state(self.random_state)
        plan = self._plan(rows, rng, resume)
        callbacks = EpochCallbacks(self, plan.n_epochs, X, y, sample_weight)
        progress = self._progress if resume else None
        fitted = fit(plan, rng, progress, callbacks, self._model_attributes)
        vars(self).update(
            {
                **self._model_attributes(fitted.model, fitted.epoch),
                **fitted.attributes,
                "_rng": rng,
            }
        )
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
        resume = hasattr(self, "layers_")
        if resume:  # scikit-learn validates parameters in the first call only
            self._validate_params()
        self._check_layers()
        refuse_held_out_rows(self.early_stopping)
        refuse_balanced_weights(self.class_weight)
        if resume:
            self._check_same_model()
        rows = training_rows(
            self, X, y, sample_weight, reset=not resume, classes=classes, partial=True
        )
        rows = with_class_weight(self, rows)
        rng = resumed_generator(self, resume, self.random_state)
        plan = self._plan(rows, rng, resume, partial=True)
        fitted = fit_one_epoch(plan, rng, self._progress if resume else None)
        vars(self).update(
            {
                **self._model_attributes(fitted.model, fitted.epoch),
                **fitted.attributes,
                **(joined_curves(self, fitted.curves) if resume else {}),
                "_rng": rng,
            }
        )
        return self

    def _plan(self, rows: Rows, rng, resume: bool, partial: bool = False) -> Plan:
        """Return the plan of a fit; `resume` goes on from the fitted model.

        `partial` is True in `partial_fit`, which sees a part of the rows.
        """
        n_rows = len(rows.visible)
        rule = resolve_rule(self.learning, "layered")
        solver = resolve_solver(self.solver, _SOLVERS)
        if resume:
            model = self._model._replace(code=self._model.code.with_rows(rows.X))
        else:
            structure, code = self._new_structure(rows.X, rows.visible)
            with np.errstate(over="ignore", invalid="ignore"):  # training detects overflow
                mean = code.mean(rows.X, rows.weight)
                params = layered_params(structure, mean, rng, rows.visible.dtype)
            model = LayeredModel(params, structure, code)
            warn_of_scales(rows.X, rows.weight, type(self).__name__, partial)
        batch_size = n_rows if n_rows <= _FULL_BATCH_ROWS else _BATCH_ROWS
        return Plan(
            model=model,
            design=Design(rows.X),
            rows=ArraySource(rows.X, rows.visible, rows.weight),
            objective=rule.layered(resolve_truncated(self.inference), self.n_jobs),
            penalty=L2(LayeredParams(self.alpha, self.alpha_hidden, 0.0)),
            solver=solver,
            max_iter=self.max_iter,
            verbose=self.verbose,
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

    def _check_layers(self) -> None:
        """Raise a ValueError if `layers` holds no layers, or `inference` has too few iterations."""
        check_layers(self.layers)
        resolve_truncated(self.inference).check_depth(len(self.layers))

    def _new_structure(self, X, visible):
        """Return the structure and the input code of a first fit."""
        code = InputCode.from_training(X, clamping_cuts(self.clamping))
        shape = checked_input_shape(self.input_shape, X.shape[1])
        n_visible = visible.shape[1]
        n_outputs, n_states = (1, n_visible) if self._targets.one_hot else (n_visible, 2)
        structure = LayeredStructure(self.layers, shape, code.n_states, n_outputs, n_states)
        return structure, code

    def _hyperstructure(self):
        """Return the hyperparameters that decide the shapes of all parameters."""
        cuts = clamping_cuts(self.clamping)
        shape = None if self.input_shape is None else tuple(self.input_shape)
        return tuple(self.layers), shape, None if cuts is None else tuple(cuts)

    def _check_same_model(self):
        if self._hyperstructure() != self._fitted_structure:
            raise ValueError(
                "layers, input_shape or clamping differ from those of the model fitted so far; set "
                "warm_start=False, or keep them"
            )

    def _model_attributes(self, model: LayeredModel, epoch: int) -> dict[str, Any]:
        """Return the fitted attributes of a model at the end of an epoch."""
        inference: Any = clone(resolve_truncated(self.inference))
        return {
            "layers_": model.fitted_layers(),
            "input_unary_": model.structure.unaries(model.params)[0],
            "n_inference_iter_": inference.n_iter,
            "_model": model,
            "_inference": inference,
            "_fitted_structure": self._hyperstructure(),
        }

    # ------------------------------------------------------------- prediction

    def _runs(self, X, network, read, **options):
        """Return the results of `read` for the `Trace` of each chunk of rows.

        `network` makes the network of a model.
        """
        X = self._check_predict_data(X)
        model = self._model._replace(code=self._model.code.for_rows(X))
        shared = network(model)

        def chunk(rows):
            # Overflow becomes NaN in the answer, which is refused later.
            with np.errstate(over="ignore", invalid="ignore"):
                return read(shared.run(LayeredInput(*model.encode(X[rows])), **options))

        with one_blas_thread():
            chunks = row_chunks(X.shape[0], LAYERED_CHUNK_ROWS)
            return list(ordered_map(chunk, chunks, self.n_jobs))

    @label_output
    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return the log-odds of the beliefs of the output.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, NaN where not observed.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs), (n_samples,) or (n_samples, n_classes)
            Log-odds of each output. For multiclass y they are unnormalised log-probabilities, 0
            for the first class.
        """
        return self._decision(self._output_scores(X))

    def _output_scores(self, X):
        """Return the scores (N, V or V - 1) of all states of the output except the first."""
        check_is_fitted(self)

        def scores(trace):
            return trace.beliefs[-1][-1].reshape(-1, trace.n).T

        found = np.concatenate(self._runs(X, self._inference.network, scores))
        if not np.isfinite(found).all():
            raise ValueError("X times the weights is too large a number; scale the columns of X")
        return found

    def _label_scores(self, scores):
        return scores

    def _label_log_odds(self, scores):
        return scores

    def _labels(self, scores):
        return with_a_label(scores >= 0, scores, self.allow_empty_)

    def _binary_scores(self, scores):
        return scores

    def _class_scores(self, scores):
        return np.hstack([np.zeros((len(scores), 1), scores.dtype), scores])

    def _marginal_log_odds(self, X):
        scores = self._output_scores(X)
        return self._targets.log_odds(self, scores)

    @label_output
    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the most probable class, or the labels with probability 0.5 or more.

        If every row of the training data had a label, the most probable label is always on.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples,)
        """
        return self._predict(self._output_scores(X))

    def map_states(self, X: ArrayLike) -> list[np.ndarray]:
        """Return the states of all hidden and output nodes by max-product decoding.

        They approximate the jointly most probable states given X. With one hidden layer below
        one output node the graph is a tree and they are exact.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        list of ndarray of shape (n_samples, n_nodes), int
            States of each hidden layer, then of the outputs. For 1-D y the predicted classes are
            ``classes_[states[-1][:, 0]]``.
        """
        check_is_fitted(self)

        def network(model):
            n_iter = max(_MAP_ITERATIONS, self.n_inference_iter_)
            return MaxProductNetwork(
                model, self._inference.schedule, n_iter, with_input=model.has_free_inputs
            )

        def states(trace):
            return [probabilities(b, trace.n).argmax(axis=1).T for b in trace.beliefs[-1][1:]]

        chunks = self._runs(X, network, states, complete=True)
        return [np.concatenate(layer) for layer in zip(*chunks)]

    def impute(self, X: ArrayLike) -> np.ndarray:
        """Replace the features that are not observed by their beliefs.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            X with each NaN replaced by the mean of the belief of its node: P(feature = 1), or,
            with more than two states, the expectation of s / (n_states - 1).

        Raises
        ------
        ValueError
            If the model was fitted with one iteration of inference: in the first, the hidden
            nodes have not sent a message back to the input yet.
        """
        check_is_fitted(self)
        if self.n_inference_iter_ < 2:
            raise ValueError(
                "impute needs TruncatedInference(n_iter=2) or more; this model was fitted with 1"
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
