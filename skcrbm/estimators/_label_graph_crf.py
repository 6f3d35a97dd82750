"""LabelGraphCRF: conditional random field over the labels, or the outputs, of each row."""

from __future__ import annotations

import math
from functools import partial as bind
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from skcrbm.decoding.posterior import Posterior
from skcrbm.decoding.rules import DecodingRule, decoder_constraint, resolve_decoder
from skcrbm.energies import FactorGraphEnergy
from skcrbm.energies.output_graph import OutputGraph
from skcrbm.estimators._base import JointClassifier, Rows, training_rows
from skcrbm.estimators._crbm_auto import choose_stream_solver
from skcrbm.estimators._rbm import BATCH_ROWS
from skcrbm.estimators._stream_penalty import StreamPenalty
from skcrbm.estimators._thresholds import refuse_thresholds, update_thresholds
from skcrbm.inference import InferenceMethod
from skcrbm.inference.base import resolve_method
from skcrbm.inference.choice import method_constraint, methods_for
from skcrbm.learning.data import Design, mean_square
from skcrbm.learning.fit import (
    NO_PROGRESS,
    Plan,
    begin_partial_fit,
    train,
    train_one_epoch,
    warn_of_convergence,
)
from skcrbm.learning.lbfgs import column_moments
from skcrbm.learning.rules import Likelihood
from skcrbm.learning.solvers import (
    GRADIENT_SOLVERS,
    LBFGS,
    LossPlateau,
    Solver,
    refuse_early_stopping,
    resolve_solver,
    resolve_stopping,
    solver_constraint,
    stopping_constraint,
)
from skcrbm.learning.structured.outputs import (
    IndependentSearch,
    OutputBatch,
    OutputLikelihood,
    OutputModel,
    OutputParams,
    OutputPseudoLikelihood,
    dependence,
    first_model,
    make_penalty,
    spanning_tree,
)
from skcrbm.learning.structured.rows import StructureSource
from skcrbm.model_selection.folds import search_folds
from skcrbm.targets.codes import MISSING, require_two_classes
from skcrbm.targets.label_sets import label_sets_of
from skcrbm.targets.multioutput import MultioutputTargets, is_matrix
from skcrbm.targets.weights import (
    count_rows_of,
)
from skcrbm.utils.columns import Columns, in_faster_storage, warn_of_scales
from skcrbm.utils.fitting import (
    CallbackSupportMixin,
    EpochCallbacks,
    all_or_nothing,
    begin_fit,
    skip_empty_batches,
    with_callbacks,
)
from skcrbm.utils.limits import AUTO_EXACT_LABELS, ESTIMATOR_TOL, MAX_MAGNITUDE, MIN_SEARCH_ROWS
from skcrbm.utils.options import Integer, is_auto, option_name
from skcrbm.utils.parallel import one_blas_thread
from skcrbm.utils.sklearn_private import Interval, StrOptions, fit_context

# The search for alpha and for the tree stops after about this number of held-out rows in total.
_SEARCH_ROWS = 3000
# L2 penalty of the tables if alpha_pairs="auto", relative to the sum of the losses of all rows.
_WEAK = 0.3
# If there are too few rows for a search, alpha is this number times the total variance of X.
_FEW_ROWS_ALPHA = 3e-3
# In `partial_fit`, alpha="auto" is at first this number times the total variance of X.
_STREAM_ALPHA = 1e-3
# graph="auto" has an edge for each pair of outputs if exact inference visits at most this number of
# joint states, summed over all rows. Otherwise the graph is a tree. For 0/1 labels (first number) a
# state takes about a nanosecond, and for classes (second number) ten nanoseconds.
_BINARY_STATES, _CATEGORICAL_STATES = 2**27, 2**23
_RULES = ("marginal", "label_set", "expected_jaccard", "expected_f1", "threshold", "map")
_RULES_OF_CLASSES = ("marginal", "map")
_UNCONVERGED = ("the gradient and the probabilities may be off",)


class LabelGraphCRF(CallbackSupportMixin, JointClassifier):
    """Conditional random field over the labels of a row, or over outputs with classes.

    The model is ``p(y | x) = exp F(x, y) / Z(x)`` with

    ``F = sum_a (coef x + intercept)[y_a] + sum_(a, b) table_ab[y_a, y_b]``

    for the outputs a of a row x and the edges (a, b) of a graph over the outputs [1]_. The tables
    do not depend on x. Without edges the model is a logistic regression for each output.

    y may be an indicator matrix of 0/1 labels, or a matrix whose columns hold classes
    ("multiclass-multioutput"), such as the colour and the make of a car. Columns may have different
    numbers of classes, which are strings, integers or other sortable values. Missing entries of a
    2-D y, NaN or None, are summed out. A 1-D y of classes is a single output. Cross-validate and
    search with `skcrbm.model_selection` if y has missing labels: the functions there have
    scikit-learn's names and accept them.

    With the default parameters, `fit` scales the columns of X internally, finds the penalty by
    cross-validation, and joins all pairs of outputs if exact inference is cheap, otherwise a tree.

    Parameters
    ----------
    graph : {"auto", "full", "tree"} or array-like of shape (n_edges, 2), default="auto"
        Edges between the outputs:

        - "full": all pairs;
        - "tree": the spanning tree with the largest sum of dependences. The dependence of a pair is
          measured on held-out rows: how much the classes of the two outputs depend on each other
          beyond their dependence on x. If there are fewer than 40 rows, it is the mutual
          information of the classes [2]_;
        - an array or list of pairs of outputs, given by index or, if y is a data frame, by name.
          Repeated pairs count once, and an empty list makes the outputs independent;
        - "auto": "full" for up to 14 labels, or up to 4096 vectors of classes, otherwise "tree". If
          there are many rows, the limit is lower, so that a fit takes minutes at most.
    alpha : float or "auto", default="auto"
        L2 penalty: the objective is the mean over rows of the loss, which is summed over outputs,
        plus ``alpha / 2 |coef|^2``. A number applies to the coefficients of the given columns of X.
        "auto" scales the columns internally, as in `CRBMClassifier`, finds the best penalty of
        independent outputs by cross-validation, and also pulls all intercepts weakly towards the
        frequencies of the classes. If there are fewer than 40 rows, "auto" is 0.003 times the total
        variance of the scaled columns.
    alpha_pairs : float or "auto", default="auto"
        L2 penalty of the entries of the tables. "auto" is ``0.3 / max(n, 40)``, with n the sum of
        the weights of the rows.
    learning : {"auto", "mle", "pseudo_likelihood"}, default="auto"
        Objective: "mle", maximum likelihood with the probabilities of `inference`, or
        "pseudo_likelihood", the sum of the log-probabilities of each output given x and all
        neighbours. The pseudo-likelihood needs complete labels, but no inference. "auto" is
        "pseudo_likelihood" if `inference` is "auto", y is complete, and exact inference would take
        too long for the number of rows; otherwise it is "mle".
    inference : str or object, default="auto"
        Inference method of training and prediction: "exact", "sum_product", "tree_reweighted",
        "mean_field", or a configured object such as ``SumProduct(max_iter=30)``. "auto" is "exact"
        if exact inference is cheap, as it is for up to 14 labels and for trees of outputs, else
        "sum_product".
    decode : str or object, default="marginal"
        Rule by which `predict` chooses labels: "marginal", "label_set", "expected_jaccard",
        "expected_f1", "threshold" or "map", or a rule from `skcrbm.decoding`, as in
        `CRBMClassifier`. If the columns of y hold classes, it must be "marginal", the most probable
        class of each output, or "map", the most probable vector of classes.
    solver : str or object, default="auto"
        "lbfgs", "adam", "sgd" or "asgd", or an object such as ``Adam(learning_rate=0.01)``. "auto"
        is "lbfgs" in `fit` and "adam" in `partial_fit`.
    max_iter : int, default=200
        Maximum number of iterations of L-BFGS, or of epochs of a stochastic solver.
    early_stopping : bool, "loss" or object, default=False
        Stopping rule of a stochastic solver, as in `CRBMClassifier`.
    warm_start : bool, default=False
        If True, `fit` continues from the fitted model, keeps its graph, and keeps its penalties if
        they are "auto".
    n_jobs : int, default=None
        Number of threads, which share the rows. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the folds of ``decode="threshold"``.
    verbose : bool or int, default=False
        1 prints a live line, 2 prints a line for each iteration.

    Attributes
    ----------
    edges_ : ndarray of int (n_edges, 2)
        Edges (a, b) between outputs, a < b.
    pair_coef_ : list of ndarray (n_classes_a, n_classes_b)
        Table of each edge.
    log_odds_ratios_ : ndarray (n_outputs, n_outputs)
        For a 0/1 indicator y: log-odds ratio of each pair of labels given x and all other labels,
        ``t[0, 0] + t[1, 1] - t[0, 1] - t[1, 0]`` for the table t; 0 without an edge.
    visible_coef_ : ndarray (n_outputs, n_features), or list of ndarray
        Coefficients of the inputs, with a single row for a binary 1-D y and a row per class for a
        multiclass y. If the columns of y hold classes, a list with an array for each output, which
        has one row for two classes and a row per class for more classes.
    visible_intercept_ : ndarray (n_outputs,), or list of ndarray
        Intercepts, in the same form as `visible_coef_`.
    classes_ : ndarray (n_outputs,) or (n_classes,), or list of ndarray
        Numbers 0, ..., n_outputs - 1 of the labels, or the classes of a 1-D y. If the columns of y
        hold classes, a list with the sorted classes of each output.
    label_names_ : ndarray of str (n_outputs,)
        Names of the outputs if y is a data frame, see `set_label_output`.
    label_sets_ : ndarray (n_sets, n_outputs)
        Distinct complete rows of y. If columns hold classes, the entries are indices of classes.
    allow_empty_, unseen_share_
        As in `CRBMClassifier`.
    thresholds_ : ndarray (n_outputs,)
        Thresholds if ``decode="threshold"`` and y is an indicator matrix.
    alpha_, alpha_pairs_ : float
        Penalties of the fit.
    learning_, inference_ : str
        Names of the objective and of the inference method in use.
    loss_curve_, convergence_curve_ : list of float
        Training loss, and share of rows for which inference converged, for each iteration.
    n_iter_ : int
        Number of iterations.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    CRBMClassifier : Models the dependence of labels by hidden units instead of pairs.
    GraphCRF : Conditional random field for data in which each sample is a graph of nodes.

    Notes
    -----
    If the columns of y hold classes, `predict_proba` returns a list with an array
    (n_samples, n_classes) for each output, as scikit-learn's forests do, `score` is the share of
    rows in which all outputs are right, and `decision_function`, `score_label_sets` and
    `predict_pairwise_proba` raise an error. `predict_topk` raises an error, too, if fewer than k
    candidates agree with the known classes of a row.

    References
    ----------
    .. [1] Ghamrawi and McCallum (2005). Collective multi-label classification. CIKM.
    .. [2] Chow and Liu (1968). Approximating discrete probability distributions with dependence
       trees. IEEE Transactions on Information Theory 14.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm import LabelGraphCRF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> colour = np.where(X[:, 0] + rng.normal(size=300) > 0, "red", "blue")
    >>> size = rng.integers(0, 3, size=300)
    >>> size[colour == "red"] = 2  # red things are large
    >>> y = np.column_stack([colour.astype(object), size])
    >>> model = LabelGraphCRF().fit(X, y)
    >>> [proba.shape for proba in model.predict_proba(X)]
    [(300, 2), (300, 3)]
    >>> known = np.array([["red", None], [None, 0]], dtype=object)
    >>> model.predict(X[:2], y_known=known)
    array([['red', 2],
           ['blue', 0]], dtype=object)
    """

    graph: Any
    alpha: float | str
    alpha_pairs: float | str
    decode: Any
    solver: str | Solver
    early_stopping: Any
    n_jobs: int | None
    label_sets_: np.ndarray
    convergence_curve_: list[float]
    alpha_: float
    alpha_pairs_: float
    edges_: np.ndarray
    learning_: str
    _model: OutputModel
    _method: InferenceMethod
    _columns: Columns | None
    _stream: StreamPenalty | None

    _saved = ("n_features_in_", "classes_", "_targets", "_model")
    _state = ("_targets", "_model", "_progress", "_rng")
    _columns_of_classes = MultioutputTargets
    _structural = ("graph",)

    _parameter_constraints: dict = {
        "graph": [StrOptions({"auto", "full", "tree"}), "array-like"],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "alpha_pairs": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "learning": [StrOptions({"auto", "mle", "pseudo_likelihood"})],
        "inference": method_constraint(
            methods_for(FactorGraphEnergy, Likelihood.conditional_answers), auto=True
        ),
        "decode": decoder_constraint(_RULES),
        "solver": solver_constraint(GRADIENT_SOLVERS, auto=True),
        "max_iter": [Integer(1)],
        "early_stopping": stopping_constraint(auto=False),
        "warm_start": ["boolean"],
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        graph: Any = "auto",
        alpha: float | str = "auto",
        alpha_pairs: float | str = "auto",
        learning: str = "auto",
        inference: str | InferenceMethod = "auto",
        decode: str | DecodingRule = "marginal",
        solver: str | Solver = "auto",
        max_iter: int = 200,
        early_stopping: bool | str | LossPlateau = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ):
        self.graph = graph
        self.alpha = alpha
        self.alpha_pairs = alpha_pairs
        self.learning = learning
        self.inference = inference
        self.decode = decode
        self.solver = solver
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_is_fitted__(self):
        return "_model" in vars(self)

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
            0/1 indicator matrix, or classes of each output, with NaN or None for missing entries;
            or the classes of a single output.
        sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
            Non-negative weights of the rows, or of single labels, as the page on missing labels
            explains. If ``alpha="auto"``, only their ratios count in the search for alpha.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, y, a weight or a hyperparameter is invalid, or `inference` is "exact" and the
            graph is too wide for it.

        Warns
        -----
        ConvergenceWarning
            If approximate inference converged for less than 90 % of the rows in the last iteration.
        """
        resume, rng = begin_fit(self)
        rows = training_rows(self, X, y, sample_weight, reset=not resume)
        if not self._targets.multilabel:
            require_two_classes(self.classes_)
        self._checked_rule()
        solver = LBFGS() if is_auto(self.solver) else resolve_solver(self.solver, GRADIENT_SOLVERS)
        plan = self._resumed_plan(rows, solver) if resume else self._first_plan(rows, solver)
        callbacks = EpochCallbacks(self, plan.n_epochs, X, y, sample_weight)
        fitted = train(self, plan, rng, callbacks)
        self._warn_of_inference()
        if option_name(self.decode) == "threshold" and self._targets.indicator:
            folds = bind(self._fold_settings, rows)
            update_thresholds(self, folds, rows.weight, rng, fitted.interrupted, rows.origin)
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

        The first call chooses the graph: "tree" is the spanning tree of its rows. It does not scale
        the columns of X. With ``alpha="auto"`` the penalties decline with the number of different
        rows in all calls.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like of shape (n_classes,) or list of array-like, default=None
            All classes of a 1-D y, or a list with the classes of each column; required in the first
            call if `y` does not contain all classes. For a 0/1 indicator y, names of its columns.

        Returns
        -------
        self
        """
        resume, rng = begin_partial_fit(self)
        refuse_thresholds(self.decode)
        rows = training_rows(
            self, X, y, sample_weight, reset=not resume, classes=classes, partial=True
        )
        if not self._targets.multilabel:
            require_two_classes(self.classes_)
        self._checked_rule()
        train_one_epoch(self, self._stream_plan(rows, resume), rng)
        self._warn_of_inference()
        return self

    def _warn_of_inference(self):
        if self.learning_ == "mle":
            warn_of_convergence(self.convergence_curve_[-1], self._method, *_UNCONVERGED)

    def _resume(self) -> None:
        """Prepare a fit that continues the earlier fit."""
        vars(self).pop("thresholds_", None)  # thresholds of the earlier fit

    def _make_targets(self, y, classes):
        try:
            return super()._make_targets(y, classes)
        except ValueError:
            if not is_matrix(y):
                raise
            # raises an error that explains which columns of classes are valid
            return MultioutputTargets(y, classes)

    def _codes(self, visible):
        """Return the class codes (N, L) of L outputs, and their numbers of classes (L,)."""
        targets = self._targets
        if targets.one_hot:
            return visible.argmax(axis=1)[:, None], np.array([targets.n_visible])
        n_classes = np.full(visible.shape[1], 2)
        if targets.multilabel and not targets.indicator:
            n_classes = targets.n_classes
        return np.where(np.isnan(visible), MISSING, visible).astype(np.int64), n_classes

    def _first_plan(self, rows: Rows, solver) -> Plan:
        """Choose the graph, the penalty and everything else for a fit from new parameters."""
        columns = None
        if is_auto(self.alpha):
            columns = Columns(in_faster_storage(rows.X), rows.weight)
        else:
            warn_of_scales(rows.X, rows.weight, type(self).__name__)
        design, batch, n_classes = self._training_data(rows, columns, solver)
        edges = self._given_edges(n_classes, len(batch))
        alpha: Any = self.alpha
        held_out = None
        wanted = edges is None or columns is not None
        search = self._search(batch, n_classes, rows.origin) if wanted else None
        with one_blas_thread():
            if columns is not None and search is None:
                alpha = _FEW_ROWS_ALPHA * (columns.variance or 1.0)
            elif columns is not None and search is not None:
                alpha, held_out = search.best(columns.variance)
            elif search is not None:
                held_out = search.first_fit(alpha)
            if edges is None:
                edges = _tree(batch, n_classes, held_out)
        model = first_model(OutputGraph(n_classes, edges), batch)
        pairs: Any = self.alpha_pairs
        if is_auto(pairs):
            pairs = _weak_penalty(rows.weight.sum())
        return self._plan(rows, design, batch, model, solver, alpha, pairs)

    def _resumed_plan(self, rows: Rows, solver) -> Plan:
        """Return the plan of a fit from the fitted model, which keeps its graph."""
        design, batch, _ = self._training_data(rows, self._columns, solver)
        alpha = self.alpha_ if is_auto(self.alpha) else self.alpha
        pairs = self.alpha_pairs_ if is_auto(self.alpha_pairs) else self.alpha_pairs
        return self._plan(rows, design, batch, design.inner(self._model), solver, alpha, pairs)

    def _stream_plan(self, rows: Rows, resume: bool) -> Plan:
        """Return the plan of an epoch of `partial_fit`, from the fitted model if there is one."""
        solver = choose_stream_solver(self.solver)
        columns = self._columns if resume else None
        design, batch, n_classes = self._training_data(rows, columns, solver)
        if resume:
            model, stream = design.inner(self._model), self._stream
        else:
            edges = self._given_edges(n_classes, len(batch))
            edges = _tree(batch, n_classes, None) if edges is None else edges
            model = first_model(OutputGraph(n_classes, edges), batch)
            _, variance = column_moments(batch.X, rows.weight / rows.weight.sum())
            stream = StreamPenalty(_STREAM_ALPHA * (float(variance.sum()) or 1.0))
            warn_of_scales(rows.X, rows.weight, type(self).__name__, partial=True)
        alpha, pairs = self.alpha, self.alpha_pairs
        if stream is None:  # an earlier `fit` has chosen the penalties
            alpha = self.alpha_ if is_auto(alpha) else alpha
            pairs = self.alpha_pairs_ if is_auto(pairs) else pairs
        else:
            stream = stream.with_rows(rows.X)
            alpha = stream.alpha if is_auto(alpha) else alpha
            pairs = _weak_penalty(stream.n_rows) if is_auto(pairs) else pairs
        return self._plan(rows, design, batch, model, solver, alpha, pairs, stream)

    def _training_data(self, rows: Rows, columns: Columns | None, solver):
        """Return the `Design`, the batch of all rows, and the numbers of classes (L,)."""
        X = in_faster_storage(rows.X) if columns is not None else rows.X
        if columns is not None and not isinstance(solver, LBFGS):
            columns = columns.for_rows(X)
        rotate = isinstance(solver, LBFGS)
        design = Design(X, columns, double=True, rotate=rotate, dtype=np.float64)
        codes, n_classes = self._codes(rows.visible)
        inputs = design.X if issparse(design.X) else np.asarray(design.X)
        return design, OutputBatch(inputs, codes, rows.weight, rows.origin), n_classes

    def _plan(
        self,
        rows: Rows,
        design: Design,
        batch: OutputBatch,
        model: OutputModel,
        solver: Any,
        alpha: Any,
        pairs: Any,
        stream: StreamPenalty | None = None,
    ) -> Plan:
        """Return the plan of a fit from `model`, with the penalties `alpha` and `pairs`."""
        resume = self.__sklearn_is_fitted__()
        method, learning = self._method_and_learning(model.graph, batch)
        objective: Any
        if learning == "mle":
            objective = OutputLikelihood(method, self.n_jobs)
        else:
            objective = OutputPseudoLikelihood(self.n_jobs)
        every_intercept = design.columns is not None or stream is not None
        penalty = make_penalty(first_model(model.graph, batch), batch, every_intercept)
        stochastic: dict[str, Any] = {}
        if isinstance(solver, LBFGS):
            refuse_early_stopping(self.early_stopping, solver)
        else:
            stochastic = {
                "stopping": resolve_stopping(self.early_stopping, False),
                "batch_size": solver.rows_per_step(rows.n_originals, BATCH_ROWS),
                "average": solver.keeps_average(False),
                "rate_factors": OutputParams(1.0, 1.0, 1.0),
                "mean_square": mean_square(batch.X, batch.weight) if solver.averaged else 0.0,
            }
        label_sets = self._label_sets(rows.first)
        if resume:
            label_sets = np.unique(np.vstack([self.label_sets_, label_sets]), axis=0)
        found = {
            "_method": method,
            "_columns": design.columns,
            "_stream": stream,
            "edges_": model.graph.edges,
            "alpha_": float(alpha),
            "alpha_pairs_": float(pairs),
            "learning_": learning,
            "inference_": method.name,
            "label_sets_": label_sets,
        }
        return Plan(
            model=model,
            design=design,
            rows=StructureSource(batch),
            objective=objective,
            penalty=penalty(float(alpha), float(pairs)),
            solver=solver,
            max_iter=self.max_iter,
            verbose=int(self.verbose),
            progress=self._progress if resume else NO_PROGRESS,
            attributes=bind(self._model_attributes, found=found),
            **stochastic,
        )

    def _search(self, batch, n_classes, origin):
        """Return an object that finds alpha by cross-validation; None if there are too few rows."""
        observed = np.flatnonzero((batch.codes != MISSING).any(axis=1))
        origin = None if origin is None else origin[observed]
        if count_rows_of(origin, len(observed)) < MIN_SEARCH_ROWS:
            return None
        graph = OutputGraph(n_classes, np.empty((0, 2)))
        states = batch.one_hot(graph)[:, graph.scored]
        states[(batch.codes == MISSING)[:, graph.output[graph.scored]]] = np.nan
        if not states.shape[1]:
            return None
        folds = search_folds(states[observed], origin, _SEARCH_ROWS, 0)
        folds = [(observed[train], observed[held]) for train, held in folds]
        return IndependentSearch(batch, n_classes, folds, self.n_jobs)

    def _given_edges(self, n_classes, n_rows):
        """Return the edges (E, 2) that `graph` selects, or None if the graph is to be a tree."""
        n_outputs = len(n_classes)
        if not isinstance(self.graph, str):
            return self._checked_edges(n_outputs)
        if n_outputs < 2:
            return np.empty((0, 2), np.int64)
        if self.graph == "tree":
            return None
        if is_auto(self.graph):
            states = math.prod(n_classes.tolist())
            binary = (n_classes == 2).all()
            few = states <= 2 ** (AUTO_EXACT_LABELS if binary else 12)
            if not few or states * n_rows > (_BINARY_STATES if binary else _CATEGORICAL_STATES):
                return None
        return np.column_stack(np.triu_indices(n_outputs, 1))

    def _checked_edges(self, n_outputs):
        """Return the edges in the array or list `graph`, sorted and without duplicates."""
        names = {
            name: i for i, name in enumerate(np.asarray(self._targets.visible_names()).tolist())
        }
        wanted = (
            "graph should be 'auto', 'full', 'tree' or an array of pairs of outputs, of shape "
            "(n_edges, 2)"
        )
        try:
            pairs = [tuple(pair) for pair in np.asarray(self.graph, dtype=object).tolist()]
        except (TypeError, ValueError) as error:
            raise ValueError(f"{wanted}: {error}") from error
        edges = set()
        for pair in pairs:
            if len(pair) != 2:
                raise ValueError(f"{wanted}; got the entry {pair!r}")
            found = []
            for item in pair:
                index = names.get(item, item) if isinstance(item, str) else item
                if isinstance(index, bool) or not isinstance(index, int):
                    raise ValueError(f"{wanted}; {item!r} is not an index or name of an output")
                if not 0 <= index < n_outputs:
                    raise ValueError(
                        f"`graph` joins the outputs {pair!r}, but y has the outputs 0 to "
                        f"{n_outputs - 1}"
                    )
                found.append(index)
            if found[0] == found[1]:
                raise ValueError(f"`graph` joins output {pair[0]!r} with itself")
            edges.add((min(found), max(found)))
        return np.array(sorted(edges), np.int64).reshape(-1, 2)

    def _method_and_learning(self, graph, batch):
        """Return the inference method, and the name of the objective."""
        automatic = is_auto(self.inference)
        name = ("exact" if graph.narrow else "sum_product") if automatic else self.inference
        possible = bind(methods_for, graph.energy_type, Likelihood.conditional_answers)
        method = resolve_method(name, valid_names=possible)
        learning = self.learning
        if learning == "auto":
            costly = automatic and not graph.cheap_for(len(batch))
            learning = "pseudo_likelihood" if costly and batch.complete else "mle"
        if learning == "pseudo_likelihood" and not batch.complete:
            raise ValueError(
                "learning='pseudo_likelihood' needs complete labels with equal weights; "
                "learning='mle' does not"
            )
        return method.with_defaults(tol=ESTIMATOR_TOL), learning

    def _label_sets(self, rows):
        """Return the distinct rows of y without NaN, as label vectors or vectors of class codes."""
        if self._targets.multilabel and not self._targets.indicator:
            complete = rows.visible[~np.isnan(rows.visible).any(axis=1)]
            return np.unique(complete, axis=0).astype(np.int64)
        return label_sets_of(rows.visible)

    def _model_attributes(self, model, epoch: int, *, found: dict[str, Any]) -> dict[str, Any]:
        """Return the fitted attributes for a model whose coefficients apply to X as given.

        `found` holds the attributes that are known before training.
        """
        p, graph = model.params, model.graph
        shapes = [tuple(graph.n_classes[edge]) for edge in graph.edges]
        tables = [
            p.pairs[i:j].reshape(shape) for i, j, shape in zip(graph.start, graph.start[1:], shapes)
        ]
        coef: Any = p.coef
        intercept: Any = p.intercept
        if self._targets.indicator:
            ratios = np.zeros((len(graph.n_classes),) * 2)
            for (a, b), t in zip(graph.edges, tables):
                ratios[a, b] = ratios[b, a] = t[0, 0] + t[1, 1] - t[0, 1] - t[1, 0]
            found = {**found, "log_odds_ratios_": ratios}
        elif self._targets.multilabel:
            output = graph.output[graph.scored]
            own = [output == a for a in range(len(graph.n_classes))]
            coef, intercept = [coef[part] for part in own], [intercept[part] for part in own]
        return {
            **found,
            "_model": model,
            "visible_coef_": coef,
            "visible_intercept_": intercept,
            "pair_coef_": tables,
        }

    def _fold_settings(self, rows: Rows):
        """Return X, y and a dict of changed hyperparameters, for fits to folds of the rows."""
        changes = {"alpha": self.alpha_, "alpha_pairs": self.alpha_pairs_, "graph": self.edges_}
        X = rows.X
        if self._columns is not None:
            X = in_faster_storage(X)
            X = self._columns.for_rows(X).transform(X)
        return X, rows.visible, changes

    # ---------------------------------------------------------------- predictions

    def _checked_rule(self) -> DecodingRule:
        """Return the decoding rule; raise a ValueError if it is not possible for this y."""
        classes = self._targets.multilabel and not self._targets.indicator
        return resolve_decoder(self.decode, possible=_RULES_OF_CLASSES if classes else _RULES)

    def _posterior_of(self, X, known):
        graph = self._model.graph
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            scores = self._model.scores(X)
        if not np.abs(scores).max(initial=0) <= MAX_MAGNITUDE:  # also raises if it is NaN
            raise ValueError("X times visible_coef_ is too large; scale the columns of X")
        best = "exact" if graph.narrow else "map_search"
        return Posterior(
            graph.energy(scores, self._model.params.pairs),
            self._method,
            known,
            self.label_sets_,
            self.n_jobs,
            state_methods={"map": resolve_method(best)},
            allow_empty=self.allow_empty_,
            unseen_share=self.unseen_share_,
            thresholds=getattr(self, "thresholds_", None),
        )

    def _label_scores(self, posterior):
        return posterior.log_odds()

    def _binary_scores(self, posterior):
        return posterior.log_odds()

    def _class_scores(self, posterior):
        """Return the log-weights (N, K) of the classes of a 1-D y."""
        return posterior.energy.log_fields()[:, 0]

    def _labels(self, posterior):
        return self._checked_rule().decode(posterior)


def _weak_penalty(n_rows):
    """Return the automatic penalty of the tables for `n_rows` rows."""
    return _WEAK / max(float(n_rows), MIN_SEARCH_ROWS)


def _tree(batch, n_classes, held_out):
    """Return the edges of the tree whose pairs of outputs have the largest sum of `dependence`.

    `held_out` holds predictions from x for some rows. The dependence is then measured on these rows
    given x. If `held_out` is None, the dependence is measured on all rows, without regard to x.
    """
    graph = OutputGraph(n_classes, np.empty((0, 2)))
    if held_out is not None:
        return spanning_tree(dependence(batch.take(held_out.rows), graph, held_out.chances))
    counts = batch.weight @ batch.one_hot(graph)
    totals = np.add.reduceat(counts, graph.first[:-1])[graph.output]
    share = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)
    return spanning_tree(dependence(batch, graph, np.tile(share, (len(batch), 1))))
