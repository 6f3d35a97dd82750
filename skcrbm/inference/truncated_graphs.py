"""Infer the classes of nodes by a fixed number of parallel iterations, and compute gradients.

An iteration computes all messages, or all beliefs, from the messages or beliefs of the previous
iteration. Training differentiates through the iterations, so the parameters are fitted to the
number of iterations, and the beliefs need not converge.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import log_softmax, logsumexp, softmax

from skcrbm.inference.base import InferenceMethod

# Number of iterations, if the option `max_iter` of the inference method is None.
_N_ITER = 10
# If the largest and the smallest log-weight of a table differ by more than this number, a sum of
# weights might underflow to 0. In this case messages are computed with logarithms.
_SPAN = 600.0


class Trace(NamedTuple):
    """Final beliefs as log-weights, and the messages or beliefs before each iteration."""

    logs: np.ndarray  # (T, K): unnormalised log-weights
    steps: list[np.ndarray]  # messages (A, K) or beliefs (T, K) before each iteration


class Slopes(NamedTuple):
    """Gradient with respect to the log-weights of a network."""

    scores: np.ndarray  # (T, K)
    tables: np.ndarray  # (M, K, K)
    cliques: list[np.ndarray]  # a table (K, ..., K) for each size of cliques


class GraphNetwork(ABC):
    """Base class of networks that run inference iterations on a graph of T nodes and M edges.

    Each node has K classes. Messages are sent in both directions of an edge, along two arcs: the
    first M arcs go from the first to the second node of each edge, and the next M arcs go back.
    The arcs from cliques to their nodes come after the arcs of the edges; there are A arcs.

    `scores` (T, K) are the log-weights of the classes of nodes; -inf is allowed in `run`, but not
    for `gradient`. `edges` (M, 2) holds the two nodes of each edge. Entry (k, l) of a table in
    `tables` (M, K, K) is the log-weight of class k of the first node and class l of the second
    node. Each item of `cliques` holds the nodes (C, m) of C cliques of m nodes, and the table
    (K, ..., K) that these cliques share.
    """

    def __init__(
        self,
        scores: np.ndarray,
        edges: np.ndarray,
        tables: np.ndarray,
        n_iter: int,
        cliques: Iterable[tuple[np.ndarray, np.ndarray]] = (),
    ):
        i, j = edges.T
        n, n_arcs = len(scores), 2 * len(edges)
        self.scores = scores
        self.tables = np.concatenate([tables, tables.transpose(0, 2, 1)])
        self.cliques: list[CliqueTable] = []
        receivers = [j, i]
        for scopes, table in cliques:
            self.cliques.append(CliqueTable(scopes, table, sum(map(len, receivers))))
            receivers.append(scopes.ravel())
        self.edge_arcs = slice(n_arcs)
        self.sender = np.concatenate([i, j])
        self.receiver = np.concatenate(receivers)
        self.reverse = np.roll(np.arange(n_arcs), len(edges))
        self.to_receiver = _sums_by_node(self.receiver, n)
        self.to_sender = _sums_by_node(self.sender, n)
        self.n_iter = n_iter

    @abstractmethod
    def run(self) -> Trace:
        """Run all iterations."""

    @abstractmethod
    def gradient(self, trace: Trace, slope: np.ndarray) -> Slopes:
        """Return the gradient with respect to the scores, the tables and the tables of cliques.

        `slope` (T, K) is the gradient with respect to ``trace.logs``.
        """

    def log_beliefs(self) -> np.ndarray:
        """Return the log-beliefs (T, K) after the last iteration."""
        return log_softmax(self.run().logs, axis=1)

    def _per_edge(self, tables):
        """Add up the gradients of the two arcs of each edge."""
        there, back = np.split(tables, 2)
        return there + back.transpose(0, 2, 1)


def _sums_by_node(nodes, n_nodes):
    """Return a matrix (n_nodes, A) that adds up the rows of all arcs with the same node."""
    arcs = np.arange(len(nodes))
    return csr_array((np.ones(len(nodes)), (nodes, arcs)), shape=(n_nodes, len(nodes)))


class CliqueTable:
    """C cliques of m nodes each, which share a table of log-weights.

    `scopes` (C, m) holds the nodes of the cliques, and `table` has m axes of length K. The arcs
    from the cliques to their nodes begin at number `first`; `arcs` is the slice of all C m arcs.
    """

    def __init__(self, scopes: np.ndarray, table: np.ndarray, first: int):
        self.scopes = scopes
        self.table = table
        self.arcs = slice(first, first + scopes.size)
        self.places = range(scopes.shape[1])

    def per_node(self, arcs: np.ndarray) -> np.ndarray:
        """Return the values (C, m, K) of the arcs of these cliques, given all arcs (A, K)."""
        return arcs[self.arcs].reshape(*self.scopes.shape, -1)

    def messages(self, sent: np.ndarray) -> np.ndarray:
        """Return the messages (C, m, K) to each node, given the log-weights `sent` by the nodes."""
        found = [logsumexp(self._joint(sent, p), axis=self._others(p)) for p in self.places]
        return np.stack(found, axis=1)

    def messages_gradient(self, sent, slope) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient with respect to `sent` and to the table.

        `slope` (C, m, K) is the gradient with respect to the messages.
        """
        by_sent, by_table = np.zeros(sent.shape), np.zeros(self.table.shape)
        for p in self.places:
            terms = softmax(self._joint(sent, p), axis=self._others(p))
            terms *= self._along(slope, p)
            by_table += terms.sum(axis=0)
            for q in self.places:
                if q != p:
                    by_sent[:, q] += terms.sum(axis=self._others(q))
        return by_sent, by_table

    def fields(self, beliefs: np.ndarray) -> np.ndarray:
        """Return the mean log-weight (C, m, K) of each class of a node under the other beliefs."""
        return np.stack([self._contract(beliefs, p) for p in self.places], axis=1)

    def fields_gradient(self, beliefs, slope) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient with respect to `beliefs` and to the table.

        `slope` (C, m, K) is the gradient with respect to the result of `fields`. This result is
        linear in the belief of each node, so each term is a contraction in which `slope` takes the
        place of the belief of a node.
        """
        by_belief, by_table = np.zeros(beliefs.shape), np.zeros(self.table.shape)
        for p in self.places:
            replaced = beliefs.copy()
            replaced[:, p] = slope[:, p]
            for q in self.places:
                if q != p:
                    by_belief[:, q] += self._contract(replaced, q)
            axes = [part for r in self.places for part in (replaced[:, r], [0, r + 1])]
            by_table += np.einsum(*axes, [r + 1 for r in self.places], optimize=True)
        return by_belief, by_table

    def _contract(self, beliefs, p):
        """Return the sum (C, K) of the table over all axes but p, weighted by the other beliefs."""
        others = (part for q in self.places if q != p for part in (beliefs[:, q], [0, q + 1]))
        axes = [r + 1 for r in self.places]
        return np.einsum(self.table, axes, *others, [0, p + 1], optimize=True)

    def _joint(self, sent, p):
        """Return log-weights (C, K, ..., K) of the joint classes, without `sent` of node p."""
        joint = self.table[None]
        for q in self.places:
            if q != p:
                joint = joint + self._along(sent, q)
        return joint

    def _along(self, values, p):
        """Return the values of node p of each clique, shaped for the axis of p in the table."""
        shape = [1] * self.table.ndim
        shape[p] = values.shape[2]
        return values[:, p].reshape(len(values), *shape)

    def _others(self, p):
        """Return the axes of all nodes but p, in arrays (C, K, ..., K)."""
        return tuple(q + 1 for q in self.places if q != p)


class MessageNetwork(GraphNetwork):
    """Sum-product with a parallel schedule.

    A new log-message is ``damping`` times the old log-message plus ``1 - damping`` times the
    message that the beliefs give.
    """

    def __init__(self, scores, edges, tables, n_iter, cliques=(), damping: float = 0.0):
        super().__init__(scores, edges, tables, n_iter, cliques)
        self.damping = damping
        top = self.tables.max(axis=(1, 2), keepdims=True, initial=-np.inf)
        self.weights = None  # exp of the tables, divided by the largest entry of each table
        if (top - self.tables < _SPAN).all():
            self.weights = np.exp(self.tables - top)

    def run(self):
        """Run all iterations; see `GraphNetwork`."""
        messages = np.zeros((len(self.receiver), self.scores.shape[1]))
        steps = []
        for _ in range(self.n_iter):
            steps.append(messages)
            sent, to_cliques = self._sent(messages)
            new = np.empty(messages.shape)
            if self.weights is None:
                new[self.edge_arcs] = logsumexp(self.tables + sent[:, :, None], axis=1)
            else:
                sums = np.einsum("ea,eab->eb", _exponentials(sent), self.weights)
                np.log(sums, out=new[self.edge_arcs])
            for part, to_clique in zip(self.cliques, to_cliques):
                new[part.arcs] = part.messages(to_clique).reshape(-1, new.shape[1])
            new -= new.mean(axis=1, keepdims=True)
            messages = (1 - self.damping) * new + self.damping * messages
        return Trace(self.scores + self.to_receiver @ messages, steps)

    def _sent(self, messages):
        """Return the log-weights that nodes send, given the messages (A, K) that they received.

        The first result (2 M, K) holds the log-weights of each arc's sender, without the message of
        the opposite arc. The second result is a list with an array (C, m, K) for each size of
        cliques: the log-weights of the nodes of each clique, without the message of this clique.
        """
        logs = self.scores + self.to_receiver @ messages
        to_cliques = [logs[part.scopes] - part.per_node(messages) for part in self.cliques]
        return logs[self.sender] - messages[self.reverse], to_cliques

    def gradient(self, trace, slope):
        """Backpropagate through the iterations; see `GraphNetwork`."""
        scores, tables = slope.copy(), np.zeros(self.tables.shape)
        cliques = [np.zeros(part.table.shape) for part in self.cliques]
        message = slope[self.receiver]
        for before in reversed(trace.steps):
            new_all = (1 - self.damping) * message
            new_all -= new_all.mean(axis=1, keepdims=True)
            new = new_all[self.edge_arcs]
            sent, to_cliques = self._sent(before)
            if self.weights is None:
                terms = softmax(self.tables + sent[:, :, None], axis=1) * new[:, None, :]
                tables += terms
                sent = terms.sum(axis=2)
            else:
                weight = _exponentials(sent)
                new /= np.einsum("ea,eab->eb", weight, self.weights)
                tables += weight[:, :, None] * new[:, None, :]
                sent = weight * np.einsum("eab,eb->ea", self.weights, new)
            logs = self.to_sender @ sent
            # gradient through the messages that `_sent` subtracts
            subtracted = np.empty(message.shape)
            subtracted[self.reverse] = sent
            for part, to_clique, table in zip(self.cliques, to_cliques, cliques):
                by_sent, by_table = part.messages_gradient(to_clique, part.per_node(new_all))
                table += by_table
                np.add.at(logs, part.scopes, by_sent)
                subtracted[part.arcs] = by_sent.reshape(-1, logs.shape[1])
            scores += logs
            message = self.damping * message + logs[self.receiver] - subtracted
        if self.weights is not None:
            tables *= self.weights
        return Slopes(scores, self._per_edge(tables), cliques)


def _exponentials(logs):
    """Return exp of each row, divided by the largest entry of the row."""
    return np.exp(logs - logs.max(axis=1, keepdims=True, initial=-np.inf))


class MeanFieldNetwork(GraphNetwork):
    """Mean field with a parallel schedule, which starts from the softmax of the scores."""

    def run(self):
        """Run all iterations; see `GraphNetwork`."""
        logs, steps = self.scores, []
        for _ in range(self.n_iter):
            beliefs = softmax(logs, axis=1)
            steps.append(beliefs)
            fields = np.empty((len(self.receiver), beliefs.shape[1]))
            fields[self.edge_arcs] = np.einsum("ea,eab->eb", beliefs[self.sender], self.tables)
            for part in self.cliques:
                found = part.fields(beliefs[part.scopes])
                fields[part.arcs] = found.reshape(-1, beliefs.shape[1])
            logs = self.scores + self.to_receiver @ fields
        return Trace(logs, steps)

    def gradient(self, trace, slope):
        """Backpropagate through the iterations; see `GraphNetwork`."""
        scores, tables = np.zeros(slope.shape), np.zeros(self.tables.shape)
        cliques = [np.zeros(part.table.shape) for part in self.cliques]
        for beliefs in reversed(trace.steps):
            scores += slope
            field = slope[self.receiver[self.edge_arcs]]
            tables += beliefs[self.sender][:, :, None] * field[:, None, :]
            belief = self.to_sender @ np.einsum("eab,eb->ea", self.tables, field)
            for part, table in zip(self.cliques, cliques):
                by_belief, by_table = part.fields_gradient(beliefs[part.scopes], slope[part.scopes])
                table += by_table
                np.add.at(belief, part.scopes, by_belief)
            slope = beliefs * (belief - (beliefs * belief).sum(axis=1, keepdims=True))
        return Slopes(scores + slope, self._per_edge(tables), cliques)


def truncated_network(
    method: InferenceMethod,
    scores: np.ndarray,
    edges: np.ndarray,
    tables: np.ndarray,
    cliques: Iterable[tuple[np.ndarray, np.ndarray]] = (),
) -> GraphNetwork:
    """Return the network for an inference method, "sum_product" or "mean_field".

    The option `max_iter` of the method is the number of iterations; None stands for 10.
    """
    options: Any = method
    n_iter = _N_ITER if getattr(options, "max_iter", None) is None else int(options.max_iter)
    if method.name == "mean_field":
        return MeanFieldNetwork(scores, edges, tables, n_iter, cliques)
    if method.name == "sum_product":
        return MessageNetwork(scores, edges, tables, n_iter, cliques, options.damping)
    raise ValueError(
        "inference must be 'sum_product', 'mean_field' or an object such as SumProduct(max_iter=5) "
        f"with learning='backprop', which differentiates through its iterations; got {method!r}"
    )
