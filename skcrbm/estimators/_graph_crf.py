"""GraphCRF: conditional random field for lists of graphs."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from skcrbm.decoding.rules import DecodingRule
from skcrbm.energies import FactorGraphEnergy
from skcrbm.estimators._structured import LINEAR_CONSTRAINTS, StructuredCRF, offers
from skcrbm.inference import InferenceMethod, MapSearch, sample
from skcrbm.inference.base import ContradictionError, resolve_method
from skcrbm.inference.choice import method_constraint, methods_for
from skcrbm.inference.running import run_inference
from skcrbm.learning.fit import warn_of_convergence
from skcrbm.learning.rules import LearningRule, Likelihood, resolve_rule, rule_constraint
from skcrbm.learning.solvers import LossPlateau, Solver
from skcrbm.learning.structured.chain_model import columns_for
from skcrbm.learning.structured.constraints import (
    closed_classes,
    forbidden_pairs,
    require_possible,
)
from skcrbm.learning.structured.graph import (
    GraphBatch,
    GraphModel,
    GraphParams,
    Posed,
    kind_of_graphs,
)
from skcrbm.learning.structured.rows import NoLabelsError, no_labels
from skcrbm.learning.structured.truncated import network_of
from skcrbm.targets.codes import MISSING, LabelCoder
from skcrbm.targets.graphs import GraphRows
from skcrbm.targets.sequences import GRAPH
from skcrbm.utils.fitting import all_or_nothing, skip_empty_batches
from skcrbm.utils.options import Integer, option_name
from skcrbm.utils.parallel import one_blas_thread, ordered_map
from skcrbm.utils.sklearn_private import fit_context
from skcrbm.utils.warnings import warn_user

# Standard deviation of the initial coefficients of latent states.
_SPREAD = 0.1
# Largest number of entries of the table of weights that cliques of one size share.
_MOST_CLIQUE_ENTRIES = 2**20
# Largest number of nodes of the search tree that `predict_with_gap` visits for a graph.
_SEARCH_NODES = 1_000_000
# Consequences that the warning mentions if inference did not converge.
_UNCONVERGED = ("the gradient and the probabilities may be off",)


class GraphCRF(StructuredCRF):
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
    decode : {"map", "marginal"} or object, default="map"
        "map" predicts the most probable labels of the whole graph, exactly for forests, for narrow
        graphs and with ``inference="exact"``, otherwise by max-product with local search. With
        latent states, it predicts the labels of the most probable latent states.
        "marginal" predicts the most probable class of each node, which maximises the expected
        number of correct labels. The rules `MAP` and `Marginal` of `skcrbm.decoding` mean the same.
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
        Names of the features, if nodes are dicts or strings, or data frames with strings as column
        names.

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

    _model: GraphModel
    _rows: GraphRows
    _truncated: bool  # True if probabilities come from a fixed number of iterations
    _state = (*StructuredCRF._state, "_truncated")
    _prediction_parameters = ("decode", "n_jobs", "inference")
    _words = GRAPH
    _structural = ("features", "n_latent_states", "directed")
    _hashing = "the nodes into arrays by sklearn.feature_extraction.FeatureHasher"

    _parameter_constraints: ClassVar[dict] = {
        **LINEAR_CONSTRAINTS,
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
        decode: str | DecodingRule = "map",
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

    # ------------------------------------------------------------------------------- training

    @skip_empty_batches
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
        coefficients are learned, as with ``features="all"``. A call in which no graph of positive
        weight has an observed label does nothing.

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
        sizes = _checked_sizes(clique_sizes)
        if self.__sklearn_is_fitted__() and not set(sizes) <= set(self._rows.sizes):
            raise ValueError(
                f"clique_sizes={sizes} must not contain new sizes: the first call of partial_fit "
                f"had cliques of {list(self._rows.sizes)} nodes"
            )
        return self._train_one_epoch(X, y, classes, sample_weight, sizes=sizes)

    def _warn_of_convergence(self):
        if not self._hinge:
            warn_of_convergence(self.convergence_curve_[-1], self._method(), *_UNCONVERGED)

    # -------------------------------------------------------------------- the rows and the model

    def _first_rows(self, X, classes, sample_weight, sizes=(), **reading):
        rows = GraphRows(self.directed, type(self).__name__)
        types = list(classes) if isinstance(classes, Mapping) else None
        arrays = rows.fit_transform(X, types, sizes)
        self._note_features(rows, arrays)
        return rows, arrays

    def _first_coder(self, labels, arrays, classes):
        if self._rows.types is None:
            return LabelCoder.of(labels, given=classes)
        if classes is not None and not isinstance(classes, Mapping):
            raise ValueError("classes must be a dict from node types to lists of classes")
        names = self._rows.types.names
        coder = LabelCoder.of(labels, arrays.types, names, classes)
        self.node_types_, self.class_types_ = names, names[coder.type_of_class]
        return coder

    def _codes(self, labels, arrays, name="y", allow_unknown=False):
        return self._coder.codes(labels, arrays.types, name, allow_unknown)

    def _batch(self, arrays, path, weight):
        closed = closed_classes(arrays, self._coder)
        return GraphBatch(arrays, path, weight, np.arange(len(weight)), closed=closed)

    def _require_possible(self, batch, name):
        pairs = self._forbidden_pairs() if name == "y" else self._model.forbidden
        require_possible(batch, pairs, self._coder.first, len(self.classes_), name)

    def _forbidden_pairs(self):
        return forbidden_pairs(self.forbidden, self.classes_, self.directed)

    def _method(self) -> InferenceMethod:
        return resolve_method(self.inference)

    def _objective(self, model, batch):
        rule = resolve_rule(self.learning, "graph")
        self._truncated = rule.name == "backprop"
        latent = self.n_latent_states
        if latent > 1 and rule.name != "mle":
            raise ValueError(
                f"n_latent_states={latent} needs learning='mle'; got learning="
                f"{option_name(self.learning)!r}"
            )
        types = batch.arrays.types is not None
        if self._rows.sizes and (latent > 1 or types):
            raise ValueError(
                "cliques need n_latent_states=1 and graphs without node_types; got "
                f"n_latent_states={latent}, and graphs {'with' if types else 'without'} node_types"
            )
        pairs = self._forbidden_pairs()
        if pairs is not None and rule.name == "backprop":
            raise ValueError("`forbidden` needs a learning rule other than 'backprop'")
        model = model._replace(forbidden=pairs)
        trained = GraphParams(
            coef=True,
            intercept=True,
            pair_intercept=True,
            pair_coef=bool(batch.arrays.Z.shape[1]),
            cliques=bool(model.sizes),
        )
        return model, rule.graph(trained, self._method(), self.n_jobs)

    def _first_model(self, batch, rng, partial) -> GraphModel:
        """Return the model from which a first fit starts.

        All parameters are 0. But if classes have several latent states, `coef` and `intercept` are
        small random numbers, because latent states with equal weights would stay equal in training.
        """
        latent = self.n_latent_states
        k = len(self.classes_) * latent
        features = "all" if partial or latent > 1 else self.features
        columns = columns_for(batch.X, batch.path, k, features)
        n_edge_features = batch.arrays.Z.shape[1]
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
        first, sizes = self._coder.first, self._rows.sizes
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

    # ------------------------------------------------------------------------------- answers

    def _marginals(self, batch):
        def answer(piece):
            if self._truncated:
                network = network_of(self._model, piece, self._method(), known=True)
                return np.exp(network.log_beliefs())
            posed = Posed.of(self._model, piece)
            found = run_inference(
                posed.energy, self._method(), returns="marginals", clamp=posed.clamp
            )
            states = posed.marginals(found)
            return states.reshape(len(states), -1, self._model.n_latent).sum(axis=2)

        return self._by_items(batch, partial(_named, answer))

    def _decoded(self, batch):
        path, forbidden = super()._decoded(batch), self._model.forbidden
        if forbidden is not None and option_name(self.decode) == "marginal":
            self._warn_of_forbidden_pairs(batch, path, forbidden)
        return path

    def _warn_of_forbidden_pairs(self, batch, path, forbidden):
        """Warn if the classes `path` (T,), chosen node by node, contain forbidden pairs."""
        i, j = batch.arrays.edges.T
        wrong = np.flatnonzero(forbidden[path[i], path[j]])
        if len(wrong):
            graphs = batch.index[
                np.unique(np.searchsorted(batch.start, i[wrong], side="right") - 1)
            ]
            warn_user(
                "decode='marginal' chooses the class of each node separately, and predicts pairs "
                f"of classes in `forbidden` at {len(wrong)} edges of {len(graphs)} graphs, first "
                f"in graph {graphs[0]} of X; decode='map' respects `forbidden`"
            )

    def _best_path(self, batch):
        states = self._by_items(batch, partial(_named, self._best))
        return states // self._model.n_latent

    def _best(self, piece):
        """Return the most probable states (T,) of the T nodes in a part of a batch of graphs.

        The states are exact for forests (by max-product), and for graphs that are narrow enough for
        variable elimination. Otherwise they are approximate.
        """
        k = self._model.most_states
        restricted = self._model.forbidden is not None or piece.closed is not None
        exact = np.full(len(piece), self._method().name == "exact")
        if not exact.any() and kind_of_graphs(piece, k) != "forest":
            exact = np.array([kind_of_graphs(graph, k) == "narrow" for graph in piece.single()])
        path = np.empty(len(piece.path), np.int64)
        for method, chosen in (("exact", exact), ("max_product", ~exact)):
            if chosen.any():
                posed = Posed.of(self._model, piece.take(np.flatnonzero(chosen)))
                found = run_inference(posed.energy, method, returns="map", clamp=posed.clamp)
                assert found.assignment is not None
                states = posed.states(found.assignment[0])
                if restricted and np.isneginf(posed.energy.score(found.assignment)[0]):
                    states = self._best_of_each(piece.take(np.flatnonzero(chosen)))
                path[np.repeat(chosen, np.diff(piece.start))] = states
        return path

    def _best_of_each(self, piece):
        """Return the states (T,) that max-product finds for the graphs one by one.

        A ValueError names the first graph without labels. Max-product finds no labels of a batch of
        graphs if a single graph has no labels.
        """
        states = []
        for graph in piece.single():
            posed = Posed.of(self._model, graph)
            found = run_inference(posed.energy, "max_product", returns="map", clamp=posed.clamp)
            assert found.assignment is not None
            if np.isneginf(posed.energy.score(found.assignment)[0]):
                error = no_labels(graph, "y_known", "max-product")
                raise ValueError(
                    f"{error}; set inference='exact' if the graph is narrow, or call "
                    "predict_with_gap, which searches longer"
                )
            states.append(posed.states(found.assignment[0]))
        return np.concatenate(states)

    def _best_paths(self, batch, k):
        if self._model.n_latent > 1:
            raise ValueError(
                "predict_topk needs n_latent_states=1, because the probability of labels is a sum "
                "over latent states"
            )

        def answer(piece):
            posed = Posed.of(self._model, piece)
            returns = "best_states" if self._hinge else ("best_states", "log_partition")
            try:
                found = run_inference(
                    posed.energy, "exact", returns=returns, n_best=k, clamp=posed.clamp
                )
            except ContradictionError:
                raise
            except ValueError as error:
                c = piece.index[0]
                raise ValueError(f"graph {c} is too wide for predict_topk: {error}") from None
            scores = found.best_scores[0]
            scores = scores[scores > -np.inf]
            log_z = np.nan if self._hinge else found.log_partition[0]
            return posed.states(found.best_states[0, : len(scores)]), scores - log_z

        return self._by_graphs(batch, answer)

    def _draws(self, batch, n_samples, rng):
        seeds = {i: rng.randint(np.iinfo(np.int32).max) for i in batch.index.tolist()}

        def answer(piece):
            posed = Posed.of(self._model, piece)
            seed = seeds[piece.index[0]]
            drawn = sample(
                posed.energy, "exact", n_samples=n_samples, clamp=posed.clamp, random_state=seed
            )
            return posed.states(drawn[0]) // self._model.n_latent

        return self._by_graphs(batch, answer)

    def _log_likelihoods(self, batch):
        self._require_possible(batch.free(), "y_known")  # else the likelihood is not defined
        possible = self._possible(batch)

        def log_z(posed):
            found = run_inference(
                posed.energy, self._method(), returns="log_partition", clamp=posed.clamp
            )
            assert found.log_partition is not None
            return float(found.log_partition[0])

        def log_likelihood(c):
            if not possible[c]:
                return -np.inf
            piece = batch.take(np.array([c]))
            free = Posed.free(self._model, piece)
            log_z_free = log_z(free)
            if self._model.n_latent > 1 or (piece.path == MISSING).any():
                return log_z(Posed.of(self._model, piece)) - log_z_free
            return float(free.energy.score(free.assignment(piece.path)[None])[0]) - log_z_free

        return np.array(list(ordered_map(log_likelihood, range(len(batch)), self.n_jobs)))

    def _possible(self, batch):
        """Return a list of bools: True for each graph whose labels agree with the constraints."""

        def is_possible(graph):
            try:
                self._require_possible(graph, "y_known")
            except NoLabelsError:
                return False
            return True

        if is_possible(batch):
            return [True] * len(batch)
        return [is_possible(graph) for graph in batch.single()]

    def predict_with_gap(
        self,
        X: Iterable,
        y_known: Iterable | None = None,
        search: InferenceMethod | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Search for the best labels of each graph, and bound the distance to the optimum.

        The share of graphs whose labels are proven to be optimal is ``(gap == 0).mean()``. The
        search takes longer than `predict`, and may find better labels for graphs with cycles.

        Parameters
        ----------
        X, y_known
            As in `predict`.
        search : MapSearch, default=None
            Search method with limits, for example ``MapSearch(time_limit=1.0)`` for one second per
            graph. The default visits at most a million nodes of the search tree per graph.

        Returns
        -------
        labels : ndarray of object (n_graphs,)
            Array of labels (n_nodes,) for each graph.
        objective : ndarray (n_graphs,)
            Negative score of the labels.
        gap : ndarray (n_graphs,)
            Upper bound on the difference between `objective` and the smallest objective of any
            labels; 0 if the labels are proven to be optimal.
        """
        if search is None:
            search = MapSearch(max_nodes=_SEARCH_NODES, random_state=0)
        elif not isinstance(search, MapSearch):
            raise ValueError(f"search must be a MapSearch or None, got {search!r}")
        batch = self._given(X, y_known)

        def answer(piece):
            posed = Posed.of(self._model, piece)
            found = run_inference(
                posed.energy, search, returns=("map", "map_bound"), clamp=posed.clamp
            )
            assert found.assignment is not None
            score = posed.energy.score(found.assignment)[0]
            if np.isneginf(score):
                raise no_labels(piece, "y_known", "the search")
            states = posed.states(found.assignment[0])
            return self.classes_[states // self._model.n_latent], -score, found.gap[0]

        of_empty = self.classes_[:0], 0.0, 0.0
        found = self._by_rows(batch, lambda rows: self._by_graphs(rows, answer), of_empty)
        labels, objective, gap = zip(*found)
        parts = np.empty(len(labels), object)
        parts[:] = labels
        return parts, np.array(objective), np.array(gap)

    @available_if(offers("check_convergence"))
    def check_convergence(self, X: Iterable, y_known: Iterable | None = None) -> np.ndarray:
        """Return True for each graph for which the inference of `predict_proba` converges.

        If inference does not converge for a graph with cycles, the probabilities of this graph may
        be far off. Methods such as ``SumProduct(damping=0.5, max_iter=500)`` converge more often.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of bool (n_graphs,)
        """
        batch = self._given(X, y_known)

        def answer(piece):
            posed = Posed.of(self._model, piece)
            found = run_inference(
                posed.energy, self._method(), returns="marginals", clamp=posed.clamp
            )
            return found.converged[0]

        found = self._by_rows(batch, lambda rows: self._by_graphs(rows, answer), True)
        return np.array(found, bool)

    def factor_graph(self, graph: Any) -> FactorGraphEnergy:
        """Return p(y | x) of a single graph as a factor graph.

        All queries of `skcrbm.inference.infer` work on the factor graph, for example a MAP search
        with bounds.

        Parameters
        ----------
        graph : Graph or tuple
            A single graph, in the same form as in `fit`.

        Returns
        -------
        FactorGraphEnergy
            Factor graph whose variable i is the class of node i, as an index of `classes_`. With
            latent states, a variable is ``class * n_latent_states + latent state``. If nodes have
            types, the index refers to the classes of the node's own type.
        """
        return Posed.free(self._model, self._single(graph)).energy

    def _by_graphs(self, batch, answer):
        """Return the list of ``answer(part)`` for all graphs; a part is a batch of one graph."""

        def of_graph(c):
            return _named(answer, batch.take(np.array([c])))

        with one_blas_thread():
            return list(ordered_map(of_graph, range(len(batch)), self.n_jobs))


def _named(answer, piece):
    """Return ``answer(piece)``; if a graph has no possible labels, the error names the graph."""
    try:
        return answer(piece)
    except ContradictionError:
        if len(piece) == 1:
            raise no_labels(piece, "y_known") from None
        for graph in piece.single():
            _named(answer, graph)
        raise


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
