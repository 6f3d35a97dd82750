"""Train graphs by the gradient through a fixed number of inference iterations."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax

from skcrbm.inference import InferenceMethod
from skcrbm.inference.truncated_graphs import GraphNetwork, truncated_network
from skcrbm.learning.structured.graph import GraphBatch, GraphModel
from skcrbm.learning.structured.objective import LogWeightObjective, Residuals
from skcrbm.targets.codes import MISSING

# Score of a class that a node lacks because of its type. The probability of the class rounds to 0.
# The score is finite, because the gradient needs finite scores.
_OUTSIDE = -1e4


def network_of(
    model: GraphModel, piece: GraphBatch, inference: InferenceMethod, known: bool = False
) -> GraphNetwork:
    """Return the network that runs inference on the graphs in a part of a batch.

    If `known` is True, the classes in ``piece.path`` are known, and the beliefs respect them.
    """
    a = piece.arrays
    scores = model.scores(a.X)
    outside = model.outside(piece)
    if outside is not None:
        scores[outside] = _OUTSIDE
    if known:
        held = np.flatnonzero(piece.path != MISSING)
        scores[held] = -np.inf
        scores[held, piece.path[held]] = 0.0
    scopes = (part.scopes for part in a.cliques)
    cliques = zip(scopes, model.clique_tables())
    return truncated_network(inference, scores, a.edges, model.pairs(a.Z), cliques)


class GraphTruncated(LogWeightObjective):
    """Negative log-belief of the observed classes after a fixed number of iterations.

    Nodes without a label do not count in the loss.
    """

    def __init__(
        self,
        trained: tuple[bool, ...],
        inference: InferenceMethod,
        label_smoothing: float = 0.0,
        n_jobs: int | None = None,
    ):
        super().__init__(trained, n_jobs)
        self.inference = inference
        self.label_smoothing = label_smoothing

    def _residuals(self, model, piece):
        network = network_of(model, piece, self.inference)
        trace = network.run()
        log_p = log_softmax(trace.logs, axis=1)
        k, eps = model.n_states, self.label_smoothing
        observed = np.flatnonzero(piece.path != MISSING)
        target = np.full((len(observed), k), eps / k)
        outside = model.outside(piece)
        if outside is not None:  # spread `label_smoothing` over the classes of the node's type only
            own = ~outside[observed]
            target = eps * own / own.sum(axis=1, keepdims=True)
        target[np.arange(len(observed)), piece.path[observed]] += 1 - eps
        loss = -float((target * log_p[observed]).sum())
        slope = np.zeros(log_p.shape)
        slope[observed] = np.exp(log_p[observed]) - target
        states, pairs, tables = network.gradient(trace, slope)
        weight = float(piece.weight[0])
        cliques = weight * np.concatenate([t.ravel() for t in tables]) if tables else None
        return Residuals(weight * loss, weight * states, weight * pairs, cliques=cliques)
