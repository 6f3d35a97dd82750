"""Define the base class of `GraphCRF`, with the methods that use a fitted model."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skcrbm.energies import FactorGraphEnergy
from skcrbm.estimators._chain_answers import TopPaths
from skcrbm.estimators._structured import (
    decodes_marginals,
    has_probabilities,
    share_of_right_labels,
)
from skcrbm.inference import InferenceMethod, MapSearch, infer, sample
from skcrbm.inference.base import ContradictionError, resolve_method
from skcrbm.learning.structured.constraints import closed_classes, require_possible
from skcrbm.learning.structured.graph import (
    GraphBatch,
    GraphModel,
    Posed,
    kind_of_graphs,
    no_labels,
)
from skcrbm.learning.structured.truncated import network_of
from skcrbm.targets.codes import MISSING
from skcrbm.targets.graphs import GraphRows, NodeClasses
from skcrbm.targets.sequences import GRAPH, flat_labels, split_rows
from skcrbm.utils.options import check_parameters
from skcrbm.utils.parallel import one_blas_thread, ordered_map
from skcrbm.utils.pickling import SavedModel
from skcrbm.utils.validation import check_count
from skcrbm.utils.warnings import warn_user

# Largest number of nodes of the search tree that `predict_with_gap` visits for a graph.
_SEARCH_NODES = 1_000_000


class GraphAnswers(SavedModel, BaseEstimator):
    """Base class of `GraphCRF` with all methods of a fitted model.

    A subclass has the parameters `decode`, `inference` and `n_jobs`. Its method `fit` sets
    `classes_`, `_model` and `_rows`.
    """

    classes_: np.ndarray
    decode: str
    inference: str | InferenceMethod
    n_jobs: int | None
    _hinge: bool
    _truncated: bool
    _model: GraphModel
    _rows: GraphRows
    _node_classes: NodeClasses
    _prediction_parameters = ("decode", "n_jobs")

    def _method(self) -> InferenceMethod:
        return resolve_method(self.inference)

    def predict(self, X: Iterable, y_known: Iterable | None = None) -> np.ndarray:
        """Predict the labels of the nodes of graphs.

        Parameters
        ----------
        X : list of graphs
            Graphs, in the same form as in `fit`.
        y_known : list of labels of graphs, default=None
            Labels that are known beforehand, and None or NaN for the other labels, which are
            predicted given the known labels.

        Returns
        -------
        ndarray of object (n_graphs,)
            Array of labels (n_nodes,) for each graph.
        """
        batch = self._given(X, y_known)
        if decodes_marginals(self):
            path = self._marginals(batch).argmax(axis=1)
            self._warn_of_forbidden_pairs(batch, path)
        else:
            path = self._by_nodes(batch, self._best, ()).astype(np.int64) // self._model.n_latent
        return split_rows(self.classes_[path], batch.start)

    def _warn_of_forbidden_pairs(self, batch, path):
        """Warn if the classes `path` (T,), chosen node by node, contain forbidden pairs."""
        if self._model.forbidden is None:
            return
        i, j = batch.arrays.edges.T
        wrong = np.flatnonzero(self._model.forbidden[path[i], path[j]])
        if len(wrong):
            graphs = np.unique(np.searchsorted(batch.start, i[wrong], side="right") - 1)
            warn_user(
                "decode='marginal' chooses the class of each node separately, and predicts pairs "
                f"of classes in `forbidden` at {len(wrong)} edges of {len(graphs)} graphs, first "
                f"in graph {graphs[0]} of X; decode='map' respects `forbidden`"
            )

    def _best(self, piece):
        """Return the most probable states (T,) of the T nodes in a part of a batch of graphs.

        The states are exact for forests (by max-product), and for graphs that are narrow enough for
        variable elimination. Otherwise they are approximate.
        """
        k = self._model.most_states
        restricted = self._model.forbidden is not None or piece.closed is not None
        exact = np.full(len(piece), self._method().name == "exact")
        if not exact.any() and kind_of_graphs(piece, k) != "forest":
            single = (piece.take(np.array([c])) for c in range(len(piece)))
            exact = np.array([kind_of_graphs(graph, k) == "narrow" for graph in single])
        path = np.empty(len(piece.path), np.int64)
        for method, chosen in (("exact", exact), ("max_product", ~exact)):
            if chosen.any():
                posed = Posed.of(self._model, piece.take(np.flatnonzero(chosen)))
                found = infer(posed.energy, method, returns="map", clamp=posed.clamp)
                assert found.assignment is not None
                if restricted and np.isneginf(posed.energy.score(found.assignment)[0]):
                    self._raise_no_labels(piece.take(np.flatnonzero(chosen)), found.assignment)
                states = posed.states(found.assignment[0])
                path[np.repeat(chosen, np.diff(piece.start))] = states
        return path

    def _raise_no_labels(self, piece, assignment):
        """Raise a ValueError that names the first graph for which max-product found no labels.

        `piece` is a batch of graphs, and `assignment` (1, T) holds the states that max-product
        found for the nodes of all graphs. At least one of the graphs has states of weight 0.
        """
        for c in range(len(piece)):
            graph = piece.take(np.array([c]))
            own = assignment[:, piece.start[c] : piece.start[c + 1]]
            energy = Posed.of(self._model, graph).energy
            if len(piece) == 1 or np.isneginf(energy.score(own)[0]):
                error = no_labels(graph, "y_known", "max-product")
                raise ValueError(
                    f"{error}; set inference='exact' if the graph is narrow, or call "
                    "predict_with_gap, which searches longer"
                )

    @available_if(has_probabilities)
    def predict_proba(self, X: Iterable, y_known: Iterable | None = None) -> np.ndarray:
        """Return the probability of each class at each node, computed by the method `inference`.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of object (n_graphs,)
            Array (n_nodes, n_classes) for each graph, with columns in the order of `classes_`.
        """
        batch = self._given(X, y_known)
        return split_rows(self._marginals(batch), batch.start)

    def predict_topk(self, X: Iterable, k: int, y_known: Iterable | None = None) -> list[TopPaths]:
        """Return the k best labels of each graph exactly, by variable elimination.

        Parameters
        ----------
        X, y_known
            As in `predict`.
        k : int
            Number of label vectors. If a small graph has fewer than k label vectors, all of them
            are returned.

        Returns
        -------
        list of TopPaths
            Named tuples with `labels` (k, n_nodes) and `log_proba` (k,), in decreasing order of
            probability. `log_proba` is NaN after ``learning="max_margin"``.

        Raises
        ------
        ValueError
            If a graph is too wide for variable elimination.
        """
        k = check_count("k", k)
        batch = self._given(X, y_known)
        if self._model.n_latent > 1:
            raise ValueError(
                "predict_topk needs n_latent_states=1, because the probability of labels is a sum "
                "over latent states"
            )

        def answer(piece):
            posed = Posed.of(self._model, piece)
            returns = "best_states" if self._hinge else ("best_states", "log_partition")
            try:
                found = infer(posed.energy, "exact", returns=returns, n_best=k, clamp=posed.clamp)
            except ContradictionError:
                raise
            except ValueError as error:
                c = piece.index[0]
                raise ValueError(f"graph {c} is too wide for predict_topk: {error}") from None
            scores = found.best_scores[0]
            scores = scores[scores > -np.inf]
            labels = self.classes_[posed.states(found.best_states[0, : len(scores)])]
            log_z = np.nan if self._hinge else found.log_partition[0]
            return TopPaths(labels, scores - log_z)

        return self._by_graphs(batch, answer)

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
            found = infer(posed.energy, search, returns=("map", "map_bound"), clamp=posed.clamp)
            assert found.assignment is not None
            score = posed.energy.score(found.assignment)[0]
            if np.isneginf(score):
                raise no_labels(piece, "y_known", "the search")
            return self._classes(posed, found.assignment[0]), -score, found.gap[0]

        labels, objective, gap = zip(*self._by_graphs(batch, answer))
        parts = np.empty(len(labels), object)
        parts[:] = labels
        return parts, np.array(objective), np.array(gap)

    @available_if(has_probabilities)
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
            found = infer(posed.energy, self._method(), returns="marginals", clamp=posed.clamp)
            return found.converged[0]

        return np.array(self._by_graphs(batch, answer), bool)

    @available_if(has_probabilities)
    def sample(
        self,
        X: Iterable,
        n_samples: int = 1,
        y_known: Iterable | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> np.ndarray:
        """Draw independent label vectors of each graph exactly, by variable elimination.

        If a graph is too wide for variable elimination, use
        ``skcrbm.inference.sample(model.factor_graph(graph), "gibbs")`` instead.

        Parameters
        ----------
        X, y_known
            As in `predict`.
        n_samples : int, default=1
            Number of label vectors to draw for each graph.
        random_state : int, RandomState or None, default=None
            Seed of the draws.

        Returns
        -------
        ndarray of object (n_graphs,)
            Array of labels (n_samples, n_nodes) for each graph.
        """
        n_samples = check_count("n_samples", n_samples)
        rng = check_random_state(random_state)
        batch = self._given(X, y_known)
        seeds = [rng.randint(np.iinfo(np.int32).max) for _ in range(len(batch))]

        def answer(piece):
            posed = Posed.of(self._model, piece)
            seed = seeds[piece.index[0]]
            drawn = sample(
                posed.energy, "exact", n_samples=n_samples, clamp=posed.clamp, random_state=seed
            )
            return self._classes(posed, drawn[0])

        parts = np.empty(len(batch), object)
        parts[:] = self._by_graphs(batch, answer)
        return parts

    @available_if(has_probabilities)
    def score_samples(self, X: Iterable, y: Iterable) -> np.ndarray:
        """Return the log-likelihood (n_graphs,) of labels, computed by the method `inference`.

        Parameters
        ----------
        X : list of graphs
        y : list of labels of graphs
            Missing labels (None or NaN) are summed out.
        """
        batch = self._given(X, y, "y")

        def log_likelihood(c):
            piece = batch.take(np.array([c]))
            free = Posed.free(self._model, piece)

            def log_z(posed):
                found = infer(
                    posed.energy, self._method(), returns="log_partition", clamp=posed.clamp
                )
                assert found.log_partition is not None
                return float(found.log_partition[0])

            log_z_free = log_z(free)
            if self._model.n_latent > 1 or (piece.path == MISSING).any():
                return log_z(Posed.of(self._model, piece)) - log_z_free
            return float(free.energy.score(free.assignment(piece.path)[None])[0]) - log_z_free

        with one_blas_thread():
            return np.array(list(ordered_map(log_likelihood, range(len(batch)), self.n_jobs)))

    def score(self, X: Iterable, y: Iterable, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of correctly predicted labels, over all nodes with observed labels.

        Labels that did not occur in training count as wrong.

        Parameters
        ----------
        X : list of graphs
        y : list of labels of graphs
        sample_weight : array-like of shape (n_graphs,), default=None
            Weights of the graphs.
        """
        return share_of_right_labels(self, X, y, sample_weight, GRAPH)

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
        return Posed.free(self._model, self._given([graph], None)).energy

    def _given(self, X, y_known, name="y_known") -> GraphBatch:
        """Validate X and `y_known`, and return the graphs and known labels as a batch.

        Labels that are not known get the code `MISSING`. `name` is the name that error messages use
        for `y_known`. Known labels must agree with the constraints.
        """
        check_is_fitted(self, "classes_")
        check_parameters(self, (*self._prediction_parameters, "inference"))
        arrays = self._rows.transform(X)
        path = np.full(arrays.start[-1], MISSING)
        if y_known is not None:
            labels = flat_labels(y_known, arrays.start, name, GRAPH)
            path = self._node_classes.codes(labels, arrays.types, name)
        n_graphs = len(arrays.start) - 1
        closed = closed_classes(arrays, self._node_classes)
        batch = GraphBatch(arrays, path, np.ones(n_graphs), np.arange(n_graphs), closed=closed)
        pairs, first = self._model.forbidden, self._node_classes.first
        require_possible(batch, pairs, first, len(self.classes_), name)
        return batch

    def _marginals(self, batch):
        """Return the probabilities (T, K) of the K classes of the T nodes in a batch of graphs."""

        def answer(piece):
            if self._truncated:
                network = network_of(self._model, piece, self._method(), known=True)
                return np.exp(network.log_beliefs())
            posed = Posed.of(self._model, piece)
            found = infer(posed.energy, self._method(), returns="marginals", clamp=posed.clamp)
            states = posed.marginals(found)
            return states.reshape(len(states), -1, self._model.n_latent).sum(axis=2)

        return self._by_nodes(batch, answer, (len(self.classes_),))

    def _classes(self, posed, assignment):
        """Convert states (..., T) that inference found for T nodes to the classes of the nodes."""
        return self.classes_[posed.states(assignment) // self._model.n_latent]

    def _by_graphs(self, batch, answer):
        """Return the list of ``answer(part)`` for all graphs; a part is a batch of one graph."""

        def of_graph(c):
            return _named(answer, batch.take(np.array([c])))

        with one_blas_thread():
            return list(ordered_map(of_graph, range(len(batch)), self.n_jobs))

    def _by_nodes(self, batch, answer, shape):
        """Split the batch into parts, call ``answer(part)`` for each part, and join the results.

        The joined result has the shape (T, *shape), where T is the number of nodes of all graphs.
        """
        with one_blas_thread():
            pieces = batch.pieces(self._model.n_entries)
            found = list(ordered_map(partial(_named, answer), pieces, self.n_jobs))
        return np.concatenate(found).reshape(-1, *shape)


def _named(answer, piece):
    """Return ``answer(piece)``; if a graph has no possible labels, the error names the graph."""
    try:
        return answer(piece)
    except ContradictionError:
        if len(piece) == 1:
            raise no_labels(piece, "y_known") from None
        for c in range(len(piece)):
            _named(answer, piece.take(np.array([c])))
        raise
