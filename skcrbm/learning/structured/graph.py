"""Train conditional random fields over graphs: model, batches of graphs, and objectives.

The nodes i of a graph have features x_i, its edges (i, j) features z_ij, and the log-weight of the
classes y is

``sum_i (coef x_i + intercept)[y_i] + sum_(i, j) (pair_intercept + pair_coef z_ij)[y_i, y_j]``.

Batches are split into parts. Inference runs once for all graphs of a part, as if they were a single
factor graph with several components.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import log_softmax

from skcrbm.energies import FactorGraphEnergy
from skcrbm.energies.pairwise_classes import pairwise_classes
from skcrbm.energies.ranges import RangeModel
from skcrbm.inference import InferenceMethod
from skcrbm.inference.base import ContradictionError
from skcrbm.inference.running import run_inference
from skcrbm.learning.structured.chain_model import Columns
from skcrbm.learning.structured.objective import LogWeightObjective, Residuals
from skcrbm.learning.structured.rows import RaggedBatch, no_labels
from skcrbm.targets.codes import MISSING
from skcrbm.utils.graphs import adjacency, min_fill
from skcrbm.utils.limits import ESTIMATOR_TOL

# Largest number of entries in the tables and scores of one part of a batch, about a megabyte. A
# graph with more entries gets a part of its own.
_PART_ENTRIES = 2**17
# A graph with cycles is narrow if variable elimination makes no table of more than _NARROW entries,
# else wide. To save time, a part of a batch with a cycle and more than _MOST_NODES nodes counts as
# wide without a check.
_NARROW, _MOST_NODES = 2**16, 5000


class GraphParams(NamedTuple):
    """Parameters of a graph model with K classes and E features of edges."""

    coef: Any  # coefficients of the features of nodes, in the form of `Columns`
    intercept: Any  # (K,) intercept of each class
    pair_intercept: Any  # (K, K) log-weight of the classes of the two nodes of an edge
    pair_coef: Any  # (E, K, K) coefficients of the features of edges
    cliques: Any  # (P,) entries of the tables (K, ..., K) of the cliques of each size


@dataclass(frozen=True, eq=False)
class GraphBatch(RaggedBatch):
    """Batch of n graphs; its arrays are `GraphArrays`, and its items are nodes."""

    closed: np.ndarray | None = None  # (T, K), True if the node must not have the class

    word: ClassVar[str] = "graph"
    _of_items: ClassVar[tuple[str, ...]] = ("path", "closed")

    def shared(self, energy: FactorGraphEnergy) -> FactorGraphEnergy:
        """Return the energy with the structure of an earlier energy of the same batch.

        A structure keeps the orders and plans that inference has found for it. All energies of a
        batch in which each node has the same number of states have equal structures.
        """
        energy.graph = self._cache.setdefault(energy.graph.n_states.tobytes(), energy.graph)
        return energy

    def _groups(self, n_entries):
        """Return parts of graphs with the same weight.

        `n_entries` is the number of log-weights per node or edge.
        """
        size = np.diff(self.arrays.start) + np.diff(self.arrays.edge_start)
        # The size of a clique is the number of edges whose tables have as many entries.
        for scopes, first in self.arrays.cliques:
            entries = float(n_entries) ** (scopes.shape[1] / 2 - 1)
            size = size + np.ceil(np.diff(first) * entries).astype(np.int64)
        order = np.argsort(self.weight, kind="stable")
        part = np.cumsum(size[order]) // max(1, _PART_ENTRIES // n_entries)
        new = (np.diff(part) > 0) | (np.diff(self.weight[order]) > 0)
        return np.split(order, np.flatnonzero(new) + 1)


class GraphModel(NamedTuple):
    """A model of graphs, which turns features of nodes and edges into log-weights."""

    params: GraphParams
    columns: Columns
    directed: bool  # False keeps the matrices of pairs symmetric
    # Number L of latent states of each class. A state is ``class * L + latent state``.
    n_latent: int = 1
    # (n_types + 1,): first class of each type of nodes; None if all nodes have the same classes
    first: np.ndarray | None = None
    sizes: tuple[int, ...] = ()  # sizes of cliques
    # (K, K), True for each pair of classes that the nodes of an edge must not have. None if no pair
    # is forbidden.
    forbidden: np.ndarray | None = None

    @property
    def n_states(self) -> int:
        """Number of states of a node, K: classes times latent states."""
        return len(self.params.intercept)

    @property
    def most_states(self) -> int:
        """Largest number of states of a node."""
        if self.first is None:
            return self.n_states
        return int(np.diff(self.first).max()) * self.n_latent

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.n_states // self.n_latent

    @property
    def n_entries(self) -> int:
        """Number of log-weights per edge."""
        return self.n_states**2

    def scores(self, X: Any) -> np.ndarray:
        """Return the log-weights (T, K) of the classes of nodes."""
        return self.columns.products(X, self.params.coef) + self.params.intercept

    def pairs(self, Z: np.ndarray) -> np.ndarray:
        """Return the log-weights (M, K, K) of the pairs of states at each edge.

        The log-weights of pairs that `forbidden` excludes are -inf.
        """
        intercept = self.with_forbidden(self.params.pair_intercept)
        if not Z.shape[1]:
            return np.repeat(intercept[None], len(Z), axis=0)
        return intercept + np.tensordot(Z, self.params.pair_coef, 1)

    def with_forbidden(self, table: np.ndarray) -> np.ndarray:
        """Return `table` (K, K) with -inf at the pairs of states that `forbidden` excludes."""
        if self.forbidden is None:
            return table
        return np.where(
            self.forbidden.repeat(self.n_latent, 0).repeat(self.n_latent, 1), -np.inf, table
        )

    def closed(self, batch: GraphBatch) -> np.ndarray | None:
        """Return an array (T, K), True for excluded states; None if no state is excluded."""
        return None if batch.closed is None else np.repeat(batch.closed, self.n_latent, axis=1)

    def energy(self, batch: GraphBatch) -> FactorGraphEnergy:
        """Return the joint distribution of all node classes of a batch, as a single model."""
        a = batch.arrays
        scopes = (part.scopes for part in a.cliques)
        cliques = zip(scopes, self.clique_tables())
        tables, closed = self.pairs(a.Z), self.closed(batch)
        return batch.shared(pairwise_classes(self.scores(a.X), a.edges, tables, cliques, closed))

    def outside(self, batch: GraphBatch) -> np.ndarray | None:
        """Return an array (T, K): True if the node must not have the state, or its type lacks it.

        The result is None if all nodes may have all states.
        """
        closed = self.closed(batch)
        if self.first is None:
            return closed
        kind = np.repeat(np.arange(len(self.first) - 1), np.diff(self.first) * self.n_latent)
        outside = kind != np.asarray(batch.arrays.types)[:, None]
        return outside if closed is None else outside | closed

    def ranges(
        self, batch: GraphBatch, scores: np.ndarray, tables: np.ndarray, path: np.ndarray
    ) -> RangeModel:
        """Return the model in which each node has the states of its type only.

        If `path` (T,) holds the class of a node, instead of `MISSING`, the node has only the latent
        states of this class.
        """
        a, latent = batch.arrays, self.n_latent
        begin, size = np.zeros(len(path), np.int64), np.full(len(path), self.n_states)
        if self.first is not None:
            begin, size = self.first[:-1][a.types] * latent, np.diff(self.first)[a.types] * latent
        known = path != MISSING
        begin, size = np.where(known, path * latent, begin), np.where(known, latent, size)
        model = RangeModel(scores, a.edges, tables, begin, size, self.closed(batch))
        model.energy = batch.shared(model.energy)
        return model

    def clique_tables(self) -> list[np.ndarray]:
        """Return a table for each size of cliques; it has m axes of length K if the size is m."""
        ends = np.cumsum([self.n_states**m for m in self.sizes])
        parts = np.split(self.params.cliques, ends[:-1]) if self.sizes else []
        return [part.reshape((self.n_states,) * m) for part, m in zip(parts, self.sizes)]

    def add_gradient(self, batch: GraphBatch, states, pairs, total: GraphParams) -> None:
        """Convert a gradient for log-weights to a gradient for parameters; add it to `total`.

        `states` (T, K) is the gradient with respect to the log-weights of the states of nodes, and
        `pairs` (M, K, K) the gradient with respect to the log-weights of the pairs at edges.
        """
        self.columns.add_sums(batch.X, states, total.coef)
        total.intercept[...] += states.sum(axis=0)
        if not self.directed:
            pairs = 0.5 * (pairs + pairs.transpose(0, 2, 1))
        total.pair_intercept[...] += pairs.sum(axis=0)
        if batch.arrays.Z.shape[1]:
            total.pair_coef[...] += np.tensordot(batch.arrays.Z.T, pairs, 1)


class Posed(NamedTuple):
    """Arguments for `infer`: the distribution of node states in several graphs.

    The classes of some nodes may be known. If nodes have types, a variable of `energy` has only the
    classes of its node's type. The methods convert results of `infer` back to arrays in which every
    node has all K states.
    """

    energy: FactorGraphEnergy
    clamp: np.ndarray | None  # (1, T), known states; None if no state is known
    ranges: RangeModel | None  # restricts states to types or known classes; None if not needed

    @classmethod
    def of(cls, model: GraphModel, piece: GraphBatch) -> Posed:
        """Return the distribution given the known classes in `piece.path`, all except `MISSING`."""
        path = piece.path
        known = path != MISSING
        if not known.any():
            return cls.free(model, piece)
        if model.n_latent == 1:
            free = cls.free(model, piece)
            clamp = np.where(known, free.assignment(path), np.nan)[None]
            return free._replace(clamp=clamp)
        a = piece.arrays
        ranges = model.ranges(piece, model.scores(a.X), model.pairs(a.Z), path)
        return cls(ranges.energy, None, ranges)

    @classmethod
    def free(cls, model: GraphModel, piece: GraphBatch) -> Posed:
        """Return the distribution in which no class is known."""
        if model.first is None:
            return cls(model.energy(piece), None, None)
        a = piece.arrays
        unknown = np.full(len(piece.path), MISSING)
        ranges = model.ranges(piece, model.scores(a.X), model.pairs(a.Z), unknown)
        return cls(ranges.energy, None, ranges)

    def assignment(self, states: np.ndarray) -> np.ndarray:
        """Convert states (T,) of the nodes to states of the variables of `energy`."""
        return states if self.ranges is None else states - self.ranges.begin

    def states(self, assignment: np.ndarray) -> np.ndarray:
        """Convert states of the variables of `energy` to states (..., T) of the nodes."""
        return (
            assignment.astype(np.int64) if self.ranges is None else self.ranges.states(assignment)
        )

    def marginals(self, found: Any) -> np.ndarray:
        """Convert the result of `infer` to probabilities (T, K) of the states of nodes."""
        states = np.array(found.marginals[0], np.float64)
        return states if self.ranges is None else self.ranges.marginals(states)

    def pair_marginals(self, found: Any, n_edges: int) -> np.ndarray:
        """Convert the result of `infer` to probabilities (M, K, K) of the state pairs of edges."""
        entries = np.array(found.statistics[0], np.float64)
        if self.ranges is not None:
            return self.ranges.pair_marginals(entries)
        k = self.energy.n_levels
        return entries[: n_edges * k**2].reshape(n_edges, k, k)

    def clique_counts(self, found: Any, piece: GraphBatch) -> np.ndarray | None:
        """Convert the result of `infer` to expected counts (P,) of the entries of clique tables."""
        a, k = piece.arrays, self.energy.n_levels
        if not a.cliques:
            return None
        entries = np.array(found.statistics[0], np.float64)
        parts, first = [], len(a.edges) * k**2
        for scopes, _ in a.cliques:
            n_cliques, m = scopes.shape
            stop = first + n_cliques * k**m
            parts.append(entries[first:stop].reshape(n_cliques, k**m).sum(axis=0))
            first = stop
        return np.concatenate(parts)


def kind_of_graphs(piece: GraphBatch, n_states: int) -> str:
    """Return the kind of the graphs in a part of a batch: "forest", "narrow" or "wide".

    Graphs without cycles are a "forest". Graphs with cycles are "narrow" if variable elimination
    makes only small tables, else "wide"; see `_NARROW` and `_MOST_NODES`.
    """
    edges, n = piece.arrays.edges, len(piece.path)
    for scopes, _ in piece.arrays.cliques:
        i, j = np.triu_indices(scopes.shape[1], 1)
        pairs = np.stack([scopes[:, i].ravel(), scopes[:, j].ravel()], axis=1)
        edges = np.concatenate([edges, pairs])
    joined = adjacency(edges[:, 0], edges[:, 1], n)
    if len(edges) + connected_components(joined, directed=False)[0] == n:
        return "forest"
    if n > _MOST_NODES:
        return "wide"
    found = min_fill(edges.tolist(), range(n), np.full(n, n_states).tolist())
    narrow = found.complete and float(n_states) ** (found.width + 1) <= _NARROW
    return "narrow" if narrow else "wide"


class GraphLikelihood(LogWeightObjective):
    """Negative log-likelihood of the observed labels; missing labels are summed out.

    If `inference` is approximate, the loss and its gradient are approximate. Message passing starts
    from the messages of the previous evaluation of the same graphs.
    """

    def __init__(self, trained, inference: InferenceMethod, n_jobs: int | None = None):
        super().__init__(trained, n_jobs)
        self.inference = inference.with_defaults(tol=ESTIMATOR_TOL)
        self._continues = self.inference.accepts >= {"init", "return_state"}
        # Maps a part of a batch to its previous result, from which message passing starts.
        self._last = WeakKeyDictionary()

    def _residuals(self, model, piece):
        posed = Posed.free(model, piece)
        log_z, states, pairs, cliques, converged = self.expected(model, posed, piece)
        if (piece.path == MISSING).all():
            zeros = np.zeros_like(states), np.zeros_like(pairs), converged
            return Residuals(0.0, *zeros, None if cliques is None else 0 * cliques)
        if model.n_latent > 1 or (piece.path == MISSING).any():
            observed = self.expected(model, Posed.of(model, piece), piece, free=False)
            states -= observed[1]
            pairs -= observed[2]
            if cliques is not None:
                cliques -= observed[3]
            loss = log_z - observed[0]
            converged &= observed[4]
        else:
            loss = log_z - float(posed.energy.score(posed.assignment(piece.path)[None])[0])
            edges = piece.arrays.edges
            states[np.arange(len(states)), piece.path] -= 1.0
            pairs[np.arange(len(pairs)), piece.path[edges[:, 0]], piece.path[edges[:, 1]]] -= 1.0
            if cliques is not None:
                cliques -= clique_counts(
                    piece, piece.path[None], np.ones((1, len(piece))), model.n_states
                )
        weight = float(piece.weight[0])
        cliques = None if cliques is None else weight * cliques
        return Residuals(weight * loss, weight * states, weight * pairs, converged, cliques)

    def expected(self, model, posed, piece, free=True):
        """Return log Z, expected counts, and True if inference converged.

        The expected counts are three arrays: for states of nodes, for pairs of states at edges, and
        for entries of clique tables. `free` is False if labels are clamped. The messages of
        inference with and without clamped labels are stored separately.
        """
        last = self._last.setdefault(piece, {})
        returns = "log_partition", "marginals", "statistics"
        found = self._found(posed, returns, init=last.get(free), return_state=self._continues)
        if found is None:
            for graph in piece.single():
                alone = Posed.free(model, graph) if free else Posed.of(model, graph)
                if len(piece) == 1 or self._found(alone, "log_partition") is None:
                    raise no_labels(graph, "y", f"inference={self.inference.name!r}")
        assert found is not None  # a part has no labels only if one of its graphs has none
        assert found.log_partition is not None
        if self._continues:
            last[free] = found
        counts = (
            posed.marginals(found),
            posed.pair_marginals(found, len(piece.arrays.edges)),
            posed.clique_counts(found, piece),
        )
        return float(found.log_partition[0]), *counts, bool(found.converged[0])

    def _found(self, posed, returns, **options):
        """Return the result of `infer`; None if inference finds no labels of positive weight."""
        try:
            found = run_inference(
                posed.energy, self.inference, returns=returns, clamp=posed.clamp, **options
            )
        except ContradictionError:
            return None
        return None if np.isneginf(found.log_partition[0]) else found


def clique_counts(
    piece: GraphBatch, states: np.ndarray, weight: np.ndarray, k: int
) -> np.ndarray | None:
    """Count how often each entry of the clique tables occurs in states of n graphs.

    Row s of `states` (S, T) holds a state for each of the T nodes. `weight` (S, n) holds the weight
    of row s in each graph. Return the weighted counts (P,), or None if there are no cliques.
    """
    parts = []
    for scopes, first in piece.arrays.cliques:
        m = scopes.shape[1]
        codes = states[:, scopes] @ k ** np.arange(m)[::-1]
        of_clique = np.repeat(weight, np.diff(first), axis=1)
        total = np.bincount(codes.ravel(), of_clique.ravel(), k**m)
        parts.append(total.astype(np.float64))  # without cliques, `bincount` returns integers
    return np.concatenate(parts) if parts else None


class GraphPseudoLikelihood(LogWeightObjective):
    """Negative sum of the log-probabilities of each label given the labels of its neighbours."""

    needs_complete = True

    def _residuals(self, model, piece):
        scores, a, path = model.scores(piece.X), piece.arrays, piece.path
        tables = model.pairs(a.Z)
        i, j = a.edges.T
        edge = np.arange(len(tables))
        # For each edge of a node, add to the node's scores the row or column of the table that
        # belongs to the label of the neighbour.
        to_first, to_second = (_incidence(nodes, len(scores)) for nodes in (i, j))
        scores = scores + to_first @ tables[edge, :, path[j]] + to_second @ tables[edge, path[i]]
        entries = list(_clique_entries(model, a, path))
        for nodes, _, log_weights in entries:
            np.add.at(scores, nodes, log_weights)
        outside = model.outside(piece)
        if outside is not None:
            scores = np.where(outside, -np.inf, scores)
        log_p = log_softmax(scores, axis=1)
        node = np.arange(len(scores))
        loss = -float(log_p[node, path].sum())
        states = np.exp(log_p)
        states[node, path] -= 1.0
        pairs = np.zeros(tables.shape)
        pairs[edge, :, path[j]] += states[i]
        pairs[edge, path[i]] += states[j]
        weight = float(piece.weight[0])
        cliques: Any = np.zeros(model.params.cliques.shape) if entries else None
        for nodes, places, _ in entries:
            np.add.at(cliques, places, weight * states[nodes])
        return Residuals(weight * loss, weight * states, weight * pairs, cliques=cliques)


def _clique_entries(model, arrays, path):
    """Yield the log-weights of cliques if one node changes its class and the others keep theirs.

    The nodes of the C cliques of size m are an array (C, m). For each size and each column of this
    array, a tuple of three arrays is yielded: the nodes (C,) in the column; indices (C, K) into
    ``params.cliques``; and the log-weights (C, K) at these indices. Entry [c, k] belongs to the
    table entry of clique c in which the node of the column has class k, and the other nodes have
    their labels in `path`.
    """
    k, begin = model.n_states, 0
    for scopes, _ in arrays.cliques:
        m = scopes.shape[1]
        steps = k ** np.arange(m)[::-1]
        codes = begin + path[scopes] @ steps
        for place, step in enumerate(steps.tolist()):
            nodes = scopes[:, place]
            places = (codes - step * path[nodes])[:, None] + step * np.arange(k)
            yield nodes, places, model.params.cliques[places]
        begin += k**m


def _incidence(nodes, n_nodes):
    """Return a matrix (n_nodes, M) that adds up the values of all edges with the same node.

    `nodes` (M,) holds a node for each edge. Row i of the product of the matrix with an array
    (M, ...) is the sum of the rows of the array that belong to the edges with node i.
    """
    n = len(nodes)
    return csr_array((np.ones(n), (nodes, np.arange(n))), shape=(n_nodes, n))
