"""Max-margin learning of chains and graphs: the structured hinge loss and the rule `MaxMargin`.

The loss of an example with labels y is ``max_v [D(v, y) + F(v)] - F(y)``, where F is the log-weight
of the model and D is the number of wrong labels. Because D is a sum over positions or nodes, the
maximising labels v are the best labels of a modified model: 1 is added to the scores of all wrong
classes.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from skcrbm.energies.chain import SecondOrderEnergies
from skcrbm.energies.pairwise_classes import pairwise_classes
from skcrbm.inference import InferenceMethod
from skcrbm.inference.chains import best_paths, path_log_weights
from skcrbm.inference.running import run_inference
from skcrbm.learning.objectives import Objective
from skcrbm.learning.rules import LearningRule
from skcrbm.learning.structured.chain import SequenceBatch, add_path
from skcrbm.learning.structured.graph import (
    GraphBatch,
    GraphModel,
    Posed,
    clique_counts,
    kind_of_graphs,
)
from skcrbm.learning.structured.objective import LogWeightObjective, Residuals
from skcrbm.targets.codes import MISSING


class HingeObjective(LogWeightObjective):
    """Base class of the structured hinge losses of chains and graphs.

    A subclass computes log-weights and finds the labels that violate the margin most. An array of
    labels (T,) holds the classes of all positions or nodes in a part of a batch.
    """

    needs_complete = True
    penalises_intercept = True

    @abstractmethod
    def visits(self, model: Any, batch: Any) -> list[Any]:
        """Split a batch into parts; a dual solver searches the labels of a part in one call."""

    @abstractmethod
    def energies(self, model: Any, piece: Any) -> Any:
        """Return the log-weights of a part of a batch."""

    @abstractmethod
    def worst(self, energies: Any, piece: Any, augmented: bool = True) -> tuple[np.ndarray, bool]:
        """Return the labels (T,) that violate the margin most, and True if the search was exact.

        If `augmented` is False, ignore the margin, and return the labels with the highest score.
        """

    @abstractmethod
    def log_weights(self, energies: Any, piece: Any, path: np.ndarray) -> np.ndarray:
        """Return the log-weight (n,) of the labels `path` (T,) of each example."""

    def scores_of(self, energies: Any, one: Any, labels: np.ndarray) -> np.ndarray:
        """Return the log-weights (m,) of m label vectors `labels` (m, T) for a single example."""
        return np.array([self.log_weights(energies, one, path)[0] for path in labels])

    @abstractmethod
    def add_labels(self, piece: Any, path: np.ndarray, factor: np.ndarray, states, pairs) -> None:
        """Add the counts of states and pairs in `path` (T,) to `states` and `pairs`.

        The counts of each example are multiplied by its entry of `factor` (n,).
        """

    @abstractmethod
    def pairs_of(self, model: Any, piece: Any) -> np.ndarray:
        """Return zeros in the shape of the gradient with respect to the log-weights of pairs."""

    def violations(self, energies: Any, piece: Any, path: np.ndarray) -> np.ndarray:
        """Return ``D(v, y) + F(v) - F(y)`` (n,) for the labels v in `path` (T,) of each example."""
        wrong = np.add.reduceat(path != piece.path, piece.start[:-1])
        gain = self.log_weights(energies, piece, path)
        return wrong + gain - self.log_weights(energies, piece, piece.path)

    def losses(self, model: Any, piece: Any) -> tuple[np.ndarray, np.ndarray, bool]:
        """Return the loss (n,) of each example, the labels (T,) that attain the losses, and a bool.

        The bool is True if it is proven that no labels have a larger loss.
        """
        energies = self.energies(model, piece)
        path, proven = self.worst(energies, piece)
        loss = self.violations(energies, piece, path)
        # An approximate search may find labels that are worse than the observed labels. In this
        # case use the observed labels, whose loss is 0.
        lost = np.repeat(loss < 0, np.diff(piece.start))
        return np.maximum(loss, 0.0), np.where(lost, piece.path, path), proven

    def difference(self, model: Any, piece: Any, plus: np.ndarray, minus: np.ndarray, factor):
        """Return the counts of states and pairs in `plus` minus the counts in `minus`.

        The counts of each example are multiplied by its entry of `factor` (n,).
        """
        states = np.zeros((len(piece.path), model.n_states))
        pairs = self.pairs_of(model, piece)
        self.add_labels(piece, plus, factor, states, pairs)
        self.add_labels(piece, minus, -factor, states, pairs)
        return states, pairs

    def clique_difference(self, model: Any, piece: Any, plus, minus, factor) -> Any:
        """Return the counts of clique entries in `plus` minus `minus`, or None without cliques."""
        return None

    def add_difference(self, model: Any, piece: Any, plus, minus, factor, total: Any) -> None:
        """Add the feature sums of `plus` minus the feature sums of `minus` to `total`.

        `total` has the form of ``model.params``; for `factor` see `difference`.
        """
        states, pairs = self.difference(model, piece, plus, minus, factor)
        model.add_gradient(piece, states, pairs, total)
        cliques = self.clique_difference(model, piece, plus, minus, factor)
        if cliques is not None:
            total.cliques[...] += cliques

    def _residuals(self, model, piece):
        loss, path, proven = self.losses(model, piece)
        change = model, piece, path, piece.path, piece.weight
        cliques = self.clique_difference(*change)
        return Residuals(float(loss @ piece.weight), *self.difference(*change), proven, cliques)

    def score(self, model, batch: Any, epoch):
        """Return minus the mean number of wrong labels of held-out examples."""
        wrong = 0.0
        for piece in batch.pieces(model.n_entries):
            path, _ = self.worst(self.energies(model, piece), piece, augmented=False)
            errors = np.add.reduceat(path != piece.path, piece.start[:-1])
            wrong += float(errors @ piece.weight)
        return -wrong / batch.weight.sum()


class ChainHinge(HingeObjective):
    """Structured hinge loss of sequences; the search for labels is exact (Viterbi)."""

    def visits(self, model, batch: SequenceBatch) -> list[SequenceBatch]:
        """Return a part for each sequence, because a search costs little."""
        return list(batch.single())

    def energies(self, model, piece):
        """Return the log-weights of sequences."""
        return model.energies(piece.X, piece.start)

    def worst(self, energies, piece, augmented=True):
        """Return the labels that violate the margin most; see `HingeObjective`."""
        if augmented:
            k = energies.triples.shape[0] if isinstance(energies, SecondOrderEnergies) else 0
            wrong = np.ones((len(piece.path), k or energies.scores.shape[1]))
            wrong[np.arange(len(wrong)), piece.path] = 0.0
            energies = energies._replace(scores=energies.scores + np.tile(wrong, max(k, 1)))
        return best_paths(energies)[0], True

    def log_weights(self, energies, piece, path):
        """Return the log-weight (n,) of the label sequences `path`."""
        return path_log_weights(energies, path)

    def add_labels(self, piece, path, factor, states, pairs):
        """Add the states and pairs of label sequences; see `HingeObjective`."""
        add_path(piece.start, path, factor, states, pairs)

    def pairs_of(self, model, piece):
        """Return zeros in the shape of the log-weights of transitions.

        In a chain of order 2, there is a log-weight for each triple of classes; otherwise for each
        pair of states. If transitions have features, each position has its own log-weights of
        pairs.
        """
        if model.order == 2:
            return np.zeros((model.n_classes,) * 3)
        n = 1 if model.pair_columns is None else max(2, len(piece.path))
        return np.zeros((n, model.n_states, model.n_states))


class GraphWeights(NamedTuple):
    """Log-weights of the labels of graphs under a model."""

    model: GraphModel
    scores: np.ndarray  # (T, K), log-weights of the classes of the nodes
    tables: np.ndarray  # (M, K, K), log-weights of the pairs of classes at the edges

    def posed(self, piece: GraphBatch, scores: np.ndarray) -> Posed:
        """Return the distribution in which `scores` (T, K) replace the log-weights of nodes."""
        a, model = piece.arrays, self.model
        if model.first is not None:
            unknown = np.full(len(piece.path), MISSING)
            ranges = model.ranges(piece, scores, self.tables, unknown)
            return Posed(ranges.energy, None, ranges)
        cliques = zip((part.scopes for part in a.cliques), model.clique_tables())
        closed = model.closed(piece)
        energy = pairwise_classes(scores, a.edges, self.tables, cliques, closed)
        return Posed(piece.shared(energy), None, None)


class GraphHinge(HingeObjective):
    """Structured hinge loss of graphs.

    The search is exact for forests, for graphs that are narrow enough for variable elimination, and
    if `inference` is "exact". Otherwise the search is max-product with local search, which does
    not prove that its labels are the best.
    """

    def __init__(self, trained, inference: InferenceMethod, n_jobs: int | None = None):
        super().__init__(trained, n_jobs)
        self.inference = inference
        self._kinds = (
            WeakKeyDictionary()
        )  # maps a part of a batch to the result of `kind_of_graphs`

    def visits(self, model, batch: GraphBatch) -> list[GraphBatch]:
        """Return parts of several graphs, because one search for several graphs saves time."""
        return batch.pieces(model.n_entries)

    def energies(self, model, piece):
        """Return the log-weights of graphs."""
        return GraphWeights(model, model.scores(piece.X), model.pairs(piece.arrays.Z))

    def worst(self, energies, piece, augmented=True):
        """Return the labels that violate the margin most; see `HingeObjective`."""
        scores = energies.scores
        if augmented:
            scores = scores + 1.0
            scores[np.arange(len(scores)), piece.path] -= 1.0
        posed = energies.posed(piece, scores)
        energy = posed.energy
        if self.inference.name == "exact":
            return posed.states(self._found(energy, self.inference)[0]), True
        if piece not in self._kinds:
            self._kinds[piece] = kind_of_graphs(piece, energy.n_levels)
        kind = self._kinds[piece]
        if kind != "narrow":
            path, converged = self._found(energy, "max_product")
            if kind == "wide" or converged:
                return posed.states(path), kind == "forest"
        return posed.states(self._found(energy, "exact")[0]), True

    def _found(self, energy, method):
        found = run_inference(energy, method, returns="map")
        assert found.assignment is not None
        return found.assignment[0].astype(np.int64), bool(found.converged[0])

    def log_weights(self, energies, piece, path):
        """Return the log-weight (n,) of the labels `path` of graphs."""
        model, scores, tables = energies
        i, j = piece.arrays.edges.T
        own = np.add.reduceat(scores[np.arange(len(path)), path], piece.start[:-1])
        pairs = tables[np.arange(len(tables)), path[i], path[j]]
        graph = np.repeat(np.arange(len(piece)), np.diff(piece.arrays.edge_start))
        own = own + np.bincount(graph, pairs, len(piece))  # -inf stays within its graph
        for (scopes, first), table in zip(piece.arrays.cliques, model.clique_tables()):
            entries = np.cumsum(np.append(0.0, table[tuple(path[scopes].T)]))
            own = own + np.diff(entries[first])
        return own

    def scores_of(self, energies, one, labels):
        """Return the log-weights (m,) of m label vectors `labels` (m, T) for a single graph."""
        model, scores, tables = energies
        i, j = one.arrays.edges.T
        own = scores[np.arange(len(scores)), labels].sum(axis=1)
        own = own + tables[np.arange(len(tables)), labels[:, i], labels[:, j]].sum(axis=1)
        for (scopes, _), table in zip(one.arrays.cliques, model.clique_tables()):
            own = own + table[tuple(np.moveaxis(labels[:, scopes], 2, 0))].sum(axis=1)
        return own

    def add_labels(self, piece, path, factor, states, pairs):
        """Add the states and pairs of labels; see `HingeObjective`."""
        a = piece.arrays
        states[np.arange(len(path)), path] += np.repeat(factor, np.diff(a.start))
        i, j = a.edges.T
        pairs[np.arange(len(pairs)), path[i], path[j]] += np.repeat(factor, np.diff(a.edge_start))

    def clique_difference(self, model, piece, plus, minus, factor):
        """Return the difference of the counts of clique entries; see `HingeObjective`."""
        if not piece.arrays.cliques:
            return None
        labels = np.stack([plus, minus])
        return clique_counts(piece, labels, np.stack([factor, -factor]), model.n_states)

    def pairs_of(self, model, piece):
        """Return an array of zeros (M, K, K), with a matrix for each edge."""
        return np.zeros((len(piece.arrays.edges), model.n_states, model.n_states))


class MaxMargin(LearningRule):
    """Max-margin learning of chains and graphs (``learning="max_margin"``).

    The loss of an example with labels y is the structured hinge loss with margin rescaling [1]_,
    ``max_v [D(v, y) + F(x, v)] - F(x, y)``, where F is the score of the model and D is the number
    of wrong labels. The objective is the mean loss plus ``alpha / 2 |w|^2``, where w are all
    parameters, including `intercept_`. Every label must be observed. The scores of the trained
    model serve to find the best labels; they are not log-probabilities.

    The search for the labels v is exact for chains, forests, and graphs that are narrow enough for
    variable elimination. For other graphs it is max-product with local search.

    References
    ----------
    .. [1] Taskar, Guestrin and Koller (2003). Max-margin Markov networks. NIPS.

    Examples
    --------
    >>> from skcrbm import ChainCRF
    >>> from skcrbm.learning import MaxMargin
    >>> model = ChainCRF(learning=MaxMargin())  # the same as learning="max_margin"
    """

    name = "max_margin"
    needs_complete = True

    def chain(self, trained, n_jobs: int | None = None) -> Objective:
        """Return the `Objective` that trains a model of sequences by this rule."""
        return ChainHinge(trained, n_jobs)

    def graph(self, trained, inference, n_jobs: int | None = None) -> Objective:
        """Return the `Objective` that trains a model of graphs by this rule.

        If `inference` is "exact", the search for labels is exact for every graph.
        """
        return GraphHinge(trained, inference, n_jobs)
