"""Train chains by sampled label sequences, with the samplers of graphs.

A chain is a graph whose edges join neighbouring positions. For chains the exact gradient is cheap,
so sampled sequences are not needed to train a good model. The purpose of this module is to compare
the sampled rules with exact training, which shows how much worse their models are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skcrbm.energies.chain import ChainEnergies
from skcrbm.inference.chains import chain_marginals, sample_paths
from skcrbm.inference.random_numbers import uniforms
from skcrbm.learning.chain_model import inner_positions
from skcrbm.learning.chains import MISSING, ChainLikelihood, SequenceBatch, add_path, clamped
from skcrbm.learning.graphs import GraphBatch, GraphModel, GraphParams
from skcrbm.learning.sampled_graphs import COMPLETION, SampledContrast, counts
from skcrbm.learning.structured import Residuals
from skcrbm.utils.graphs import GraphArrays

# Log-weight of a forbidden class or transition, which replaces -inf: samplers need finite scores.
_FORBIDDEN = -1e4


class ChainGraphs(GraphModel):
    """Model of chains as graphs: the features of a node are the scores of its classes.

    If the log-weights of transitions differ between positions, the features of an edge are the
    entries of its table.
    """

    def scores(self, X):
        """Return the features, which are the log-weights (T, K)."""
        return X

    def pairs(self, Z):
        """Return the log-weights (M, K, K) of transitions."""
        return Z.reshape(-1, self.n_states, self.n_states) if Z.shape[1] else super().pairs(Z)


def graphs_of(
    energies: ChainEnergies, piece: SequenceBatch, path: np.ndarray
) -> tuple[GraphModel, GraphBatch]:
    """Convert the chains in a part of a batch to a graph model and a batch of graphs.

    `path` (T,) holds the classes at which Markov chains begin.
    """
    start, k = energies.start, energies.scores.shape[1]
    scores = energies.scores.copy()
    scores[start[:-1]] += np.maximum(energies.first, _FORBIDDEN)
    scores[start[1:] - 1] += np.maximum(energies.last, _FORBIDDEN)
    pairs = np.maximum(energies.pairs, _FORBIDDEN)
    inner = inner_positions(start)
    shared = len(pairs) == 1
    Z = np.zeros((len(inner), 0)) if shared else pairs[inner].reshape(len(inner), -1)
    zeros, empty = np.zeros(k), np.zeros(0)
    table = pairs[0] if shared else np.zeros((k, k))
    no_columns: Any = None  # the features of a node are its scores already, see `ChainGraphs`
    model = ChainGraphs(GraphParams(empty, zeros, table, empty, empty), no_columns, True)
    edges = np.column_stack([inner - 1, inner])
    edge_start = start - np.arange(len(start))
    arrays = GraphArrays(scores, start, edges, edge_start, Z)
    return model, GraphBatch(arrays, path, piece.weight, piece.index)


class ChainContrast(SampledContrast):
    """`SampledContrast` for chains, whose `likelihood` is exact.

    In sequences with missing labels, the labels are replaced by their exact probabilities given the
    observed labels, and Markov chains begin at label sequences drawn from these probabilities.
    """

    likelihood: ChainLikelihood

    @property
    def for_search(self):
        """The exact likelihood, which L-BFGS maximises in the search for alpha."""
        return self.likelihood

    def _entries(self, model):
        return model.n_classes**2  # samplers store a table for each pair of neighbours

    def _contrast(self, model, clock, chains, piece):
        energies = model.energies(piece.X, piece.start)
        path, weight = piece.path, piece.weight
        missing = (path == MISSING).any()
        if missing:
            given = clamped(energies, path)
            draw = clock.draw(COMPLETION)
            path = sample_paths(given, uniforms(clock.key, piece.index[:1], draw, len(path)))[0]
        graph_model, graphs = graphs_of(energies, piece, path)
        drawn = self.sampler.draw(graph_model, graphs, clock, chains)
        states, tables = counts(graphs, drawn.states, drawn.weight * weight, model.n_classes)
        if len(energies.pairs) == 1:
            pairs = tables.sum(axis=0, keepdims=True)
        else:
            pairs = np.zeros(energies.pairs.shape)
            pairs[inner_positions(piece.start)] = tables
        if missing:
            observed = chain_marginals(given, weight)
            states -= observed.states
            pairs -= observed.pairs
        else:
            add_path(piece.start, path, -weight, states, pairs)
        loss = _product(states, graphs.X) + _product(pairs, energies.pairs)
        return Residuals(loss, states, pairs)


def _product(counts, log_weights):
    """Return the sum of counts times log-weights, without the log-weights -inf."""
    return float(np.vdot(counts, np.where(np.isfinite(log_weights), log_weights, 0.0)))
