"""GraphCRF: conditional random field for lists of graphs."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.energies import FactorGraphEnergy
from skcrbm.estimators._graph_answers import GraphAnswers
from skcrbm.estimators._structured import (
    STRUCTURED_CONSTRAINTS,
    check_hinge,
    fit_dual,
    require_labels_of,
    require_stochastic,
    structured_plan,
    structured_solver,
)
from skcrbm.inference import InferenceMethod
from skcrbm.inference.choice import method_constraint, methods_for
from skcrbm.learning.fit import Plan, begin_partial_fit, train, train_one_epoch, warn_of_convergence
from skcrbm.learning.rules import LearningRule, Likelihood, resolve_rule, rule_constraint
from skcrbm.learning.solvers import (
    LossPlateau,
    Solver,
)
from skcrbm.learning.structured.chain_model import columns_for
from skcrbm.learning.structured.constraints import closed_classes, forbidden_pairs, require_possible
from skcrbm.learning.structured.graph import GraphBatch, GraphModel, GraphParams
from skcrbm.targets.graphs import GraphRows, NodeClasses
from skcrbm.targets.sequences import GRAPH, flat_labels
from skcrbm.utils.fitting import (
    CallbackSupportMixin,
    EpochCallbacks,
    all_or_nothing,
    begin_fit,
    with_callbacks,
)
from skcrbm.utils.options import Integer, option_name
from skcrbm.utils.sklearn_private import fit_context
from skcrbm.utils.validation import check_sample_weight

# Standard deviation of the initial coefficients of latent states.
_SPREAD = 0.1
# Largest number of entries of the table of weights that cliques of one size share.
_MOST_CLIQUE_ENTRIES = 2**20
# Consequences that the warning mentions if inference did not converge.
_UNCONVERGED = ("the gradient and the probabilities may be off",)


class GraphCRF(CallbackSupportMixin, GraphAnswers):
    """Conditional random field over graphs: predicts a class for each node of a graph.

    The model is ``p(y | x, z) = exp F(x, z, y) / Z(x, z)`` with

    ``F = sum_i (coef x_i + intercept)[y_i]
    + sum_(i, j) (pair_intercept + pair_coef z_ij)[y_i, y_j]``

    for the features x_i of the nodes and z_ij of the edges (i, j) [1]_. X is a list of graphs of
    any sizes, and y is a list of label vectors. A graph is a `Graph` or a tuple ``(nodes, edges)``
    or ``(nodes, edges, edge_features)``. `grid_graph` makes the graph of an image.

    If a `Graph` has `node_types`, each type of nodes has its own classes and coefficients, and each
    pair of types has its own weights of edges. `intercept_`, `pair_intercept_` and the
    probabilities then have an entry for each class of each type, and a node can only have a class
    of its type.

    If a `Graph` has `cliques`, which are sets of three or more nodes, each clique adds a weight to
    F: the entry of a table for the classes of its nodes. All cliques of the same size share a
    table.

    Constraints exclude labels in training and in prediction. `forbidden` lists pairs of classes
    that the two nodes of an edge must not have, and the `forbidden` of a `Graph` lists classes that
    single nodes must not have.

    If all graphs are trees or forests, "sum_product" is exact, and so are all likelihoods,
    probabilities and best labels. For graphs with cycles it is approximate.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Strength of the penalty: the objective is the mean loss of a graph plus
        ``alpha (l1_ratio |w|_1 + (1 - l1_ratio) / 2 |w|^2)``, where w are all parameters except
        `intercept_`; with "max_margin" w are all parameters. "auto" compares penalties on a random
        fifth of the graphs that is held out; if there are fewer than five graphs, it is 0.01.
    l1_ratio : float in [0, 1], default=0.0
        Share of the L1 term in the penalty. With ``solver="lbfgs"`` the L1 term makes some
        coefficients exactly 0.
    learning : str or object, default="mle"
        Learning rule, by name or as an object from `skcrbm.learning`:

        - "mle", `Likelihood`: maximum likelihood with the probabilities of `inference`; it sums
          over missing labels;
        - "pseudo_likelihood", `PseudoLikelihood`: needs complete labels, but no inference in
          training;
        - "max_margin", `MaxMargin`: the structured hinge loss. It needs complete labels and an L2
          penalty, and gives no probabilities;
        - "backprop", `Backpropagation`: fits the probabilities after a fixed number of iterations
          of `inference`. `predict_proba` then runs the same iterations.
    inference : str or object, default="sum_product"
        Inference method of training and prediction: "sum_product", which is exact on forests;
        "exact", variable elimination, which is always exact but possible only for narrow graphs;
        "tree_reweighted" or "mean_field", which are approximate; or a configured object such as
        ``SumProduct(damping=0.5, max_iter=200)``.
    n_latent_states : int, default=1
        Number of latent states of each class, which are not observed. The model gives a weight to
        each latent state of a node and to each pair of latent states of neighbours, and sums over
        the latent states of the labels. So a class may contain several kinds of nodes that have
        different features or neighbours: the pixels of the class "car" may belong to wheels or to
        windows. Latent states need ``learning="mle"``, and nodes may have types. Training starts at
        random weights, and may end at a local optimum.
    directed : bool, default=False
        If True, the first and the second node of an edge have different roles, so the matrices of
        pairs may be asymmetric. If False, these matrices are symmetric.
    forbidden : list of pairs, default=None
        Pairs of classes that the two nodes of an edge must not have. If `directed` is True, the
        first class belongs to the first node; otherwise both orders are forbidden. Every learning
        rule except "backprop" takes forbidden pairs. ``decode="marginal"`` chooses the class of
        each node separately, and warns if the predicted classes of two nodes are a forbidden pair.
    solver : str or object, default="auto"
        Solver. "auto" is "frank_wolfe" if `learning` is "max_margin", else "lbfgs". Stochastic
        solvers take steps on mini-batches of graphs: "adam", "sgd", "asgd", or an object such as
        ``Adam(learning_rate=0.01, batch_size=16)``.
    max_iter : int, default=300
        Maximum number of iterations of L-BFGS, of passes of "frank_wolfe", or of epochs of a
        stochastic solver.
    early_stopping : bool or object, default=False
        Stopping rule of stochastic solvers. True holds out graphs and keeps the epoch with the best
        validation score, see `EarlyStopping`. False stops when the training loss no longer falls.
    features : {"observed", "all"}, default="observed"
        Coefficients that are learned for sparse nodes and dicts. "observed" learns a coefficient
        for a feature and a class only if both occur together in training; "all" learns the
        coefficients of all features for all classes. With latent states, all coefficients are
        always learned.
    decode : {"map", "marginal"}, default="map"
        "map" predicts the most probable labels of the whole graph, exactly for forests, for narrow
        graphs and with ``inference="exact"``, otherwise by max-product with local search. With
        latent states, it predicts the labels of the most probable latent states.
        "marginal" predicts the most probable class of each node, which maximises the expected
        number of correct labels.
    warm_start : bool, default=False
        Start `fit` from the parameters of the previous fit. "frank_wolfe" starts from the dual
        variables of the previous fit, if that fit also used "frank_wolfe" and had the same labels.
    n_jobs : int, default=None
        Number of threads, which share the graphs. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the choice of held-out graphs and of the order of graphs in training.
    verbose : bool or int, default=False
        1 prints a live line, 2 prints a line for each iteration or epoch.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
        Sorted classes. If nodes have types, the classes of the first type, then of the next type.
    node_types_, class_types_ : ndarray (n_types,), (n_classes,)
        Sorted types of the nodes, and the type to which each class belongs, if nodes have types.
    coef_ : ndarray or CSR matrix (n_classes, n_features)
        Coefficients of the features of nodes. With L latent states, the arrays of weights have
        ``n_classes * L`` entries in place of n_classes; entry ``c * L + l`` belongs to latent state
        l of class c.
    intercept_ : ndarray (n_classes,)
        Weight of each class.
    pair_intercept_ : ndarray (n_classes, n_classes)
        Weight of the classes of the two nodes of an edge; -inf for forbidden pairs.
    pair_coef_ : ndarray (n_edge_features, n_classes, n_classes)
        Coefficients of the features of edges.
    clique_coef_ : dict of ndarray
        Table of weights (n_classes, ..., n_classes) of the cliques of each size.
    alpha_ : float
        Penalty of the fit.
    loss_curve_, convergence_curve_ : list of float
        Objective, and share of graphs for which inference converged, of each iteration or epoch. In
        max-margin training, `convergence_curve_` is the share of graphs for which the search has
        proven that the labels are optimal.
    objective_, duality_gap_ : float
        Value of the objective after "frank_wolfe", and the difference between this value and a
        lower bound of the smallest possible value.
    certified_ : bool
        True if all searches of "frank_wolfe" are exact, so that `duality_gap_` is a proven bound.
    n_iter_ : int
        Number of iterations, passes or epochs.
    n_features_in_ : int
        Number of features of a node.
    feature_names_in_ : ndarray of str
        Names of the features, if nodes are dicts or strings.

    References
    ----------
    .. [1] Lafferty, McCallum and Pereira (2001). Conditional random fields: probabilistic models
       for segmenting and labeling sequence data. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm import Graph, GraphCRF
    >>> rng = np.random.default_rng(0)
    >>> path = [[0, 1], [1, 2], [2, 3]]
    >>> y = [np.full(4, c) for c in (0, 1) * 10]  # neighbours have the same class
    >>> X = [Graph(labels[:, None] + rng.normal(size=(4, 1)), path) for labels in y]
    >>> model = GraphCRF(alpha=0.01).fit(X, y)
    >>> [labels.tolist() for labels in model.predict(X[:2])]
    [[0, 0, 0, 0], [1, 1, 1, 1]]
    """

    convergence_curve_: list[float]
    _progress: Any
    _state = (
        *("_model", "_rows", "_node_classes", "_progress", "_rng", "_dual", "_hinge", "_truncated"),
        *("node_types_", "class_types_"),
    )

    _parameter_constraints: ClassVar[dict] = {
        **STRUCTURED_CONSTRAINTS,
        "learning": rule_constraint("graph", "PseudoLikelihood()"),
        "inference": method_constraint(
            methods_for(FactorGraphEnergy, Likelihood.conditional_answers)
        ),
        "n_latent_states": [Integer(1)],
        "directed": ["boolean"],
        "forbidden": [list, tuple, set, None],
    }

    def __init__(
        self,
        *,
        alpha: float | str = "auto",
        l1_ratio: float = 0.0,
        learning: str | LearningRule = "mle",
        inference: str | InferenceMethod = "sum_product",
        n_latent_states: int = 1,
        directed: bool = False,
        forbidden: Sequence[tuple[Any, Any]] | None = None,
        solver: str | Solver = "auto",
        max_iter: int = 300,
        early_stopping: bool | LossPlateau = False,
        features: str = "observed",
        decode: str = "map",
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ):
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.learning = learning
        self.inference = inference
        self.n_latent_states = n_latent_states
        self.directed = directed
        self.forbidden = forbidden
        self.solver = solver
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.features = features
        self.decode = decode
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags

    # ------------------------------------------------------------------------------- training

    def __sklearn_is_fitted__(self):
        return hasattr(self, "classes_")

    @all_or_nothing
    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Iterable, y: Iterable, sample_weight: ArrayLike | None = None):
        """Fit the model.

        Parameters
        ----------
        X : list of graphs
            `Graph` objects or tuples ``(nodes, edges)`` or ``(nodes, edges, edge_features)``.
        y : list of labels of graphs
            A label for each node of each graph. Labels are strings or integers, and missing labels
            are None or NaN. None in place of a list means that all labels of a graph are missing.
        sample_weight : array-like of shape (n_graphs,), default=None
            Non-negative weights; a graph of weight k counts as k copies of the graph.
            If ``alpha="auto"``, the search for alpha depends only on the ratios of the weights.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, y, a weight or a hyperparameter is invalid, or inference is not possible because
            a graph is too wide.
        FloatingPointError
            If training diverges.

        Warns
        -----
        ConvergenceWarning
            If inference converged for less than 90 % of the graphs in the last iteration, or if
            "frank_wolfe" did not reach its tolerance, or its searches for labels were not exact.
        UserWarning
            If the search for labels of a wide graph that agree with the constraints ends without a
            result. A graph without such labels raises a ValueError.
        """
        resume, rng = begin_fit(self)
        graphs = self._training_graphs(X, y, sample_weight, resume)
        if structured_solver(self).dual:
            model, objective = self._problem(graphs, rng, resume)
            fit_dual(self, model, graphs, objective, rng, (X, y, sample_weight))
            return self
        plan = self._plan(graphs, rng, resume)
        callbacks = EpochCallbacks(self, plan.n_epochs, X, y, sample_weight)
        train(self, plan, rng, callbacks)
        callbacks.end()
        if not self._hinge:
            warn_of_convergence(self.convergence_curve_[-1], self._method(), *_UNCONVERGED)
        return self

    @all_or_nothing
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: Iterable,
        y: Iterable,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        clique_sizes: Iterable[int] | None = None,
    ):
        """Train for one epoch on the given graphs, with a stochastic solver.

        Nodes must be arrays or sparse matrices with the same number of features in each call. All
        coefficients are learned, as with ``features="all"``.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like of shape (n_classes,) or dict, default=None
            All classes; required in the first call if `y` does not contain all of them. If nodes
            have types, a dict with the classes of each type.
        clique_sizes : list of int, default=None
            Sizes of the cliques in all graphs, such as ``[3, 4]``. This argument is required in the
            first call if later graphs have cliques of other sizes than the graphs in the first
            call.

        Returns
        -------
        self
        """
        resume, rng = begin_partial_fit(self)
        require_stochastic(self, "graphs")
        sizes = _checked_sizes(clique_sizes)
        graphs = self._training_graphs(X, y, sample_weight, resume, classes, sizes)
        if self._rows.nodes.index is not None:
            raise ValueError(
                "partial_fit cannot take dicts, because later batches may hold new features; turn "
                "the nodes into arrays by sklearn.feature_extraction.FeatureHasher"
            )
        plan = self._plan(graphs, rng, resume, partial=True)
        train_one_epoch(self, plan, rng)
        return self

    def _training_graphs(self, X, y, sample_weight, resume, classes=None, sizes=()) -> GraphBatch:
        """Validate X, y and the weights; set the attributes that describe classes and features."""
        if resume:
            arrays = self._rows.transform(X)
            if not set(sizes) <= set(self._rows.sizes):
                raise ValueError(
                    f"clique_sizes={list(sizes)} must not contain new sizes: the first call of "
                    f"partial_fit had cliques of {list(self._rows.sizes)} nodes"
                )
        else:
            self._rows = GraphRows(self.directed)
            types = list(classes) if isinstance(classes, Mapping) else None
            arrays = self._rows.fit_transform(X, types, sizes)
        labels = flat_labels(y, arrays.start, kind=GRAPH)
        if not resume:
            names = None if self._rows.types is None else self._rows.types.names
            if names is not None and classes is not None and not isinstance(classes, Mapping):
                raise ValueError("classes must be a dict from node types to lists of classes")
            self._node_classes = NodeClasses.of(labels, arrays.types, names, classes)
            self.classes_ = self._node_classes.classes
            if names is not None:
                self.node_types_ = names
                self.class_types_ = names[self._node_classes.type_of_class]
            self.n_features_in_ = arrays.X.shape[1]
            if self._rows.nodes.index is not None:
                names = list(self._rows.nodes.index.columns)
                self.feature_names_in_ = np.array(names, object)
        path = self._node_classes.codes(labels, arrays.types)
        weight = check_sample_weight(sample_weight, arrays.start[1:, None])
        closed = closed_classes(arrays, self._node_classes)
        graphs = GraphBatch(arrays, path, weight, np.arange(len(weight)), closed=closed)
        if (weight == 0).any():
            graphs = graphs.take(np.flatnonzero(weight))
        pairs = forbidden_pairs(self.forbidden, self.classes_, self.directed)
        require_possible(graphs, pairs, self._node_classes.first, len(self.classes_), "y")
        return graphs

    def _plan(self, graphs, rng, resume, partial=False) -> Plan:
        """Return the `Plan` (model, objective, solver, penalty and stopping rule) of a fit."""
        model, objective = self._problem(graphs, rng, resume, partial)
        return structured_plan(self, model, graphs, objective, rng, resume, partial)

    def _problem(self, graphs, rng, resume, partial=False) -> tuple[GraphModel, Any]:
        """Return the model from which a fit starts, and the objective that the fit minimises."""
        rule = resolve_rule(self.learning, "graph")
        self._hinge = check_hinge(self)
        self._truncated = rule.name == "backprop"
        require_labels_of(self, rule, graphs.path)
        latent = self.n_latent_states
        if latent > 1 and rule.name != "mle":
            raise ValueError(
                f"n_latent_states={latent} needs learning='mle'; got learning="
                f"{option_name(self.learning)!r}"
            )
        types = graphs.arrays.types is not None
        if self._rows.sizes and (latent > 1 or types):
            raise ValueError(
                "cliques need n_latent_states=1 and graphs without node_types; got "
                f"n_latent_states={latent}, and graphs {'with' if types else 'without'} node_types"
            )
        model = self._model if resume else self._first_model(graphs, rng, partial)
        pairs = forbidden_pairs(self.forbidden, self.classes_, self.directed)
        if pairs is not None and rule.name == "backprop":
            raise ValueError("`forbidden` needs a learning rule other than 'backprop'")
        model = model._replace(forbidden=pairs)
        if model.n_latent != latent:
            raise ValueError(
                f"n_latent_states={latent} differs from the fitted model, which was fitted with "
                f"n_latent_states={model.n_latent}; set warm_start=False to start again"
            )
        if model.directed != self.directed:
            raise ValueError(
                f"directed={self.directed} differs from the fitted model, which was fitted with "
                f"directed={model.directed}; set warm_start=False to start again"
            )
        trained = GraphParams(
            coef=True,
            intercept=True,
            pair_intercept=True,
            pair_coef=bool(graphs.arrays.Z.shape[1]),
            cliques=bool(model.sizes),
        )
        return model, rule.graph(trained, self._method(), self.n_jobs)

    def _first_model(self, graphs, rng, partial) -> GraphModel:
        """Return the model from which a first fit starts.

        All parameters are 0. But if classes have several latent states, `coef` and `intercept` are
        small random numbers, because latent states with equal weights would stay equal in training.
        """
        latent = self.n_latent_states
        k = len(self.classes_) * latent
        features = "all" if partial or latent > 1 else self.features
        columns = columns_for(graphs.X, graphs.path, k, features)
        n_edge_features = graphs.arrays.Z.shape[1]
        params = GraphParams(
            np.zeros(columns.shape),
            np.zeros(k),
            np.zeros((k, k)),
            np.zeros((n_edge_features, k, k)),
            np.zeros(self._n_clique_entries(k)),
        )
        if latent > 1:
            params = params._replace(
                coef=rng.normal(0, _SPREAD, params.coef.shape),
                intercept=rng.normal(0, _SPREAD, k),
            )
        first, sizes = self._node_classes.first, self._rows.sizes
        return GraphModel(params, columns, self.directed, latent, first, sizes)

    def _n_clique_entries(self, k) -> int:
        """Return the number of entries of the tables for all sizes of cliques.

        A ValueError is raised if a table would be too large.
        """
        if self._rows.sizes and k ** max(self._rows.sizes) > _MOST_CLIQUE_ENTRIES:
            raise ValueError(
                f"X has cliques of {max(self._rows.sizes)} nodes, which need a table with "
                f"{k}^{max(self._rows.sizes)} entries; the limit is {_MOST_CLIQUE_ENTRIES}"
            )
        return sum(k**m for m in self._rows.sizes)

    def _model_attributes(self, model, alpha) -> dict[str, Any]:
        p = model.params
        return {
            "_model": model,
            "coef_": model.columns.matrix(p.coef),
            "intercept_": p.intercept,
            "pair_intercept_": model.with_forbidden(p.pair_intercept),
            "pair_coef_": p.pair_coef,
            "clique_coef_": dict(zip(model.sizes, model.clique_tables())),
            "alpha_": alpha,
        }


def _checked_sizes(clique_sizes):
    """Return the sizes of cliques as a list of integers; raise a ValueError for invalid sizes."""
    sizes = [] if clique_sizes is None else clique_sizes
    try:
        found = [operator.index(size) for size in sizes]
    except TypeError:
        found = [0]
    if any(size < 3 for size in found):
        raise ValueError(
            f"clique_sizes should be a list of integers of at least 3, got {clique_sizes!r}"
        )
    return found
