"""Train chains and graphs by sampled states: contrastive divergence, and rules with a sampler.

States drawn from the model are compared with the observed labels: the gradient is the mean count of
each class and pair of classes in the drawn states, minus its count in the observed labels. For all
graphs in a part of a batch, the states are drawn from a single model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skcrbm.energies.pairwise_classes import two_classes
from skcrbm.inference import infer
from skcrbm.inference.any_energy.gibbs import gibbs_sweep
from skcrbm.inference.random_numbers import uniforms
from skcrbm.learning.data import Clock
from skcrbm.learning.graphs import (
    MISSING,
    GraphBatch,
    GraphLikelihood,
    GraphModel,
    GraphPseudoLikelihood,
    Posed,
    clique_counts,
)
from skcrbm.learning.phases import tempered_weights
from skcrbm.learning.structured import Residuals, StructuredObjective

#: Argument of `Clock.draw` for the random numbers that complete missing labels in a step. Gibbs
#: chains use smaller arguments.
COMPLETION = 2**19


class Drawn(NamedTuple):
    """States that a sampler has drawn for a part of a batch, n graphs with T nodes in total."""

    states: np.ndarray  # (S, T) classes of the nodes
    weight: np.ndarray  # (S, n) weight of each state of each graph; a column has the sum 1


class GraphSampler(ABC):
    """Base class of the samplers, which draw states of graphs in different ways."""

    #: True if each training graph has its own Markov chains, which continue from step to step.
    keeps_chains = False

    @abstractmethod
    def draw(self, model: GraphModel, piece: GraphBatch, clock: Clock, chains: Any) -> Drawn:
        """Draw states for all graphs in a part of a batch.

        If the sampler keeps chains, `chains` is a list with an entry for each training graph: the
        states (S, n_nodes) of the chains of the graph, or None before their first step. The list is
        changed in place.
        """


class GibbsStates(GraphSampler):
    """Final states of Gibbs chains that begin at the labels, or continue from step to step."""

    def __init__(self, n_steps: int, n_chains: int, persistent: bool):
        self.n_steps = n_steps
        self.n_chains = n_chains
        self.keeps_chains = persistent

    def draw(self, model, piece, clock, chains):
        """Sweep `n_steps` times over all nodes; see `GraphSampler`."""
        posed = Posed.free(model, piece)
        states = np.repeat(piece.path[None], self.n_chains, axis=0)
        start, index = piece.start, piece.index
        if chains is not None:
            for c, number in enumerate(index.tolist()):
                # Do not continue chains of another size: in `partial_fit`, an earlier batch may
                # have used this index for another graph.
                before = chains[number]
                if before is not None and before.shape[1] == start[c + 1] - start[c]:
                    states[:, start[c] : start[c + 1]] = before
        streams = int(index[0]) * self.n_chains + np.arange(self.n_chains)
        found, _ = gibbs_sweep(
            posed.energy,
            posed.assignment(states)[None],
            clock.key,
            streams,
            clock.draw(1),
            self.n_steps,
        )
        states = posed.states(found[0])
        if chains is not None:
            for c, number in enumerate(index.tolist()):
                chains[number] = states[:, start[c] : start[c + 1]].astype(found.dtype)
        return Drawn(states, np.full((len(states), len(piece)), 1 / len(states)))


class SamplerStates(GraphSampler):
    """States drawn by an inference method, with importance weights if `weighted` is True.

    ``find(energy)`` returns a copy of the method if the method can draw from the energy. Otherwise
    the function raises a ValueError. If there are two classes and the method supports only 0/1
    variables, the two classes are represented by 0 and 1.
    """

    def __init__(self, find: Callable[[Any], Any], n_states: int, weighted: bool = False):
        self.find = find
        self.n_states = n_states
        self.weighted = weighted

    def draw(self, model, piece, clock, chains):
        """Draw states of all graphs at once, or of each graph alone if states have weights."""
        if not self.weighted:
            states, _ = self._drawn(model, piece, clock)
            return Drawn(states, np.full((len(states), len(piece)), 1 / len(states)))
        parts, weights = [], []
        for c in range(len(piece)):
            one = piece.take(np.array([c]))
            states, excess = self._drawn(model, one, clock)
            parts.append(states)
            weights.append(tempered_weights(excess)[0])
        return Drawn(np.hstack(parts), np.stack(weights, axis=1))

    def _drawn(self, model, piece, clock):
        """Return S drawn states (S, T) of T nodes, and the logarithms (S,) of their weights.

        The logarithm is the score of the state minus the log-probability with which it was drawn.
        The second result is None if `weighted` is False.
        """
        posed, sampler = self._posed(model, piece)
        energy = posed.energy
        seed = np.random.SeedSequence([int(clock.key), clock.step, int(piece.index[0])])
        found = infer(
            energy,
            sampler,
            returns=("samples", "sample_log_prob") if self.weighted else ("samples",),
            n_samples=self.n_states,
            random_state=int(seed.generate_state(1)[0]),
        )
        assert found.samples is not None
        states = found.samples[0]
        if not self.weighted:
            return posed.states(states), None
        assert found.sample_log_prob is not None
        score = energy.rows(np.zeros(len(states), int)).score(states)
        return posed.states(states), score - found.sample_log_prob[0]

    def _posed(self, model, piece):
        """Return the distribution of the states in a form for the sampler, and the sampler."""
        posed = Posed.free(model, piece)
        restricted = model.first is not None or piece.closed is not None
        if model.n_states == 2 and not (restricted or piece.arrays.cliques):
            try:
                return posed, self.find(posed.energy)
            except ValueError:
                a = piece.arrays
                energy = two_classes(model.scores(a.X), a.edges, model.pairs(a.Z))
                posed = posed._replace(energy=energy)
        return posed, self.find(posed.energy)


class SampledContrast(StructuredObjective):
    """Base class of the objectives of chains and graphs that compare sampled and observed labels.

    The reported loss is the mean score of the drawn states minus the score of the labels, which
    does not measure progress.

    Parameters
    ----------
    likelihood : StructuredObjective
        Negative log-likelihood, for the validation score and for missing labels.
    sampler : GraphSampler
    state_key : hashable
        Key of the rule and its options. Training continues from the chains of an earlier fit if
        this key and the trained arrays are the same.
    """

    draws = True
    is_loss = False

    def __init__(self, likelihood: Any, sampler: GraphSampler, state_key: Any = None):
        super().__init__(likelihood.trained, likelihood.n_jobs)
        self.likelihood = likelihood
        self.sampler = sampler
        self.keeps_chains = sampler.keeps_chains
        self.state_key = type(self).__name__, likelihood.trained, state_key

    def start(self, n_rows):
        """Return a list of the chains of each training row, or None if no chains are kept."""
        return [None] * n_rows if self.keeps_chains else None

    def score(self, model, batch: Any, epoch):
        """Return the mean log-likelihood of held-out rows."""
        return self.likelihood.score(model, batch, epoch)

    def _function(self, model, clock, state):
        return partial(self._contrast, model, clock, state)

    def _residuals(self, model, piece):
        raise TypeError(f"{type(self).__name__} has no loss")

    @abstractmethod
    def _contrast(self, model, clock, chains, piece) -> Residuals:
        """Return the `Residuals` of a part of a batch."""


class GraphContrast(SampledContrast):
    """`SampledContrast` for graphs.

    In a graph with missing labels, the inference method of the likelihood computes the
    probabilities of the states given the observed labels, and these probabilities replace the
    labels. Chains then begin at states drawn from the probabilities of each node.
    """

    likelihood: GraphLikelihood

    @property
    def for_search(self):
        """The cheap pseudo-likelihood, which L-BFGS maximises in the search for alpha."""
        return GraphPseudoLikelihood(self.trained, self.n_jobs)

    def _contrast(self, model, clock, chains, piece):
        """Return the `Residuals` of a part of a batch."""
        missing, converged, start = piece.path == MISSING, True, piece
        observed: list[Any]
        if missing.any():
            posed = Posed.of(model, piece)
            _, *observed, converged = self.likelihood.expected(model, posed, piece, free=False)
            start = replace(piece, path=_completed(piece, observed[0], clock), _pieces={})
        else:
            ones = np.ones((1, len(piece)))
            labels = piece, piece.path[None], ones, model.n_states
            observed = [*counts(*labels), clique_counts(*labels)]
        drawn = self.sampler.draw(model, start, clock, chains)
        states, pairs = counts(piece, drawn.states, drawn.weight, model.n_states)
        cliques = clique_counts(piece, drawn.states, drawn.weight, model.n_states)
        states -= observed[0]
        pairs -= observed[1]
        scores, tables = model.scores(piece.X), model.pairs(piece.arrays.Z)
        tables = np.where(np.isfinite(tables), tables, 0.0)  # forbidden pairs have the count 0
        loss = float(np.vdot(states, scores) + np.vdot(pairs, tables))
        weight = float(piece.weight[0])
        if cliques is not None:
            cliques -= observed[2]
            loss += float(cliques @ model.params.cliques)
            cliques *= weight
        return Residuals(weight * loss, weight * states, weight * pairs, converged, cliques)


def _completed(piece, chances, clock):
    """Return the labels (T,), with missing labels drawn from their probabilities (T, K)."""
    draw = clock.draw(COMPLETION)
    u = uniforms(clock.key, piece.index[:1], draw, len(piece.path))[0]
    edges = chances.cumsum(axis=1)
    found = (u[:, None] * edges[:, -1:] >= edges).sum(axis=1)
    found = np.minimum(found, chances.shape[1] - 1)
    return np.where(piece.path == MISSING, found, piece.path)


def counts(piece: GraphBatch, states: np.ndarray, weight: np.ndarray, k: int):
    """Count classes at T nodes and pairs of classes at M edges in states of n graphs.

    Row s of `states` (S, T) holds a state for each node, and `weight` (S, n) the weight of row s in
    each graph. Return the weighted counts (T, K) of classes and (M, K, K) of pairs.
    """
    a = piece.arrays
    of_node = np.repeat(weight, np.diff(a.start), axis=1)
    of_edge = np.repeat(weight, np.diff(a.edge_start), axis=1)
    n, m = len(piece.path), len(a.edges)
    place = np.arange(n) * k + states
    single = np.bincount(place.ravel(), of_node.ravel(), n * k).reshape(n, k)
    i, j = a.edges.T
    place = np.arange(m) * k**2 + states[:, i] * k + states[:, j]
    pairs = np.bincount(place.ravel(), of_edge.ravel(), m * k**2).reshape(m, k, k)
    # Without edges, `bincount` returns integers.
    return single, pairs.astype(np.float64)
