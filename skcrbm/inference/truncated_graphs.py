"""Infer the classes of nodes by a fixed number of parallel iterations, and compute gradients.

An iteration computes all messages, or all beliefs, from the messages or beliefs of the previous
iteration. Training differentiates through the iterations, so the parameters are fitted to the
number of iterations, and the beliefs need not converge.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
    steps: list[np.ndarray]  # messages (2 M, K) or beliefs (T, K) before each iteration


class GraphNetwork(ABC):
    """Base class of networks that run inference iterations on a graph of T nodes and M edges.

    Each node has K classes. Messages are sent in both directions of an edge, along two arcs: the
    first M arcs go from the first to the second node of each edge, and the next M arcs go back.

    `scores` (T, K) are the log-weights of the classes of nodes; -inf is allowed in `run`, but not
    for `gradient`. `edges` (M, 2) holds the two nodes of each edge. Entry (k, l) of a table in
    `tables` (M, K, K) is the log-weight of class k of the first node and class l of the second
    node.
    """

    def __init__(self, scores: np.ndarray, edges: np.ndarray, tables: np.ndarray, n_iter: int):
        i, j = edges.T
        self.scores = scores
        self.tables = np.concatenate([tables, tables.transpose(0, 2, 1)])
        self.sender = np.concatenate([i, j])
        self.receiver = np.concatenate([j, i])
        arcs, n = np.arange(2 * len(edges)), len(scores)
        self.reverse = np.roll(arcs, len(edges))
        ones = np.ones(len(arcs))
        self.to_receiver = csr_array((ones, (self.receiver, arcs)), shape=(n, len(arcs)))
        self.to_sender = csr_array((ones, (self.sender, arcs)), shape=(n, len(arcs)))
        self.n_iter = n_iter

    @abstractmethod
    def run(self) -> Trace:
        """Run all iterations."""

    @abstractmethod
    def gradient(self, trace: Trace, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient with respect to the scores (T, K) and the tables (M, K, K).

        `slope` (T, K) is the gradient with respect to ``trace.logs``.
        """

    def log_beliefs(self) -> np.ndarray:
        """Return the log-beliefs (T, K) after the last iteration."""
        return log_softmax(self.run().logs, axis=1)

    def _per_edge(self, tables):
        """Add up the gradients of the two arcs of each edge."""
        there, back = np.split(tables, 2)
        return there + back.transpose(0, 2, 1)


class MessageNetwork(GraphNetwork):
    """Sum-product with a parallel schedule.

    A new log-message is ``damping`` times the old log-message plus ``1 - damping`` times the
    message that the beliefs give.
    """

    def __init__(self, scores, edges, tables, n_iter, damping: float = 0.0):
        super().__init__(scores, edges, tables, n_iter)
        self.damping = damping
        top = self.tables.max(axis=(1, 2), keepdims=True, initial=-np.inf)
        self.weights = None  # exp of the tables, divided by the largest entry of each table
        if (top - self.tables < _SPAN).all():
            self.weights = np.exp(self.tables - top)

    def run(self):
        """Run all iterations; see `GraphNetwork`."""
        messages = np.zeros((len(self.sender), self.scores.shape[1]))
        steps = []
        for _ in range(self.n_iter):
            steps.append(messages)
            sent = self._sent(messages)
            new: Any
            if self.weights is None:
                new = logsumexp(self.tables + sent[:, :, None], axis=1)
            else:
                new = np.log(np.einsum("ea,eab->eb", _exponentials(sent), self.weights))
            new -= new.mean(axis=1, keepdims=True)
            messages = (1 - self.damping) * new + self.damping * messages
        return Trace(self.scores + self.to_receiver @ messages, steps)

    def _sent(self, messages):
        """Return log-weights (2 M, K) of each arc's sender, minus the opposite arc's message."""
        logs = self.scores + self.to_receiver @ messages
        return logs[self.sender] - messages[self.reverse]

    def gradient(self, trace, slope):
        """Backpropagate through the iterations; see `GraphNetwork`."""
        scores, tables = slope.copy(), np.zeros(self.tables.shape)
        message = slope[self.receiver]
        for before in reversed(trace.steps):
            new = (1 - self.damping) * message
            new -= new.mean(axis=1, keepdims=True)
            sent = self._sent(before)
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
            scores += logs
            message = self.damping * message + logs[self.receiver]
            message[self.reverse] -= sent
        if self.weights is not None:
            tables *= self.weights
        return scores, self._per_edge(tables)


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
            fields = np.einsum("ea,eab->eb", beliefs[self.sender], self.tables)
            logs = self.scores + self.to_receiver @ fields
        return Trace(logs, steps)

    def gradient(self, trace, slope):
        """Backpropagate through the iterations; see `GraphNetwork`."""
        scores, tables = np.zeros(slope.shape), np.zeros(self.tables.shape)
        for beliefs in reversed(trace.steps):
            scores += slope
            field = slope[self.receiver]
            tables += beliefs[self.sender][:, :, None] * field[:, None, :]
            belief = self.to_sender @ np.einsum("eab,eb->ea", self.tables, field)
            slope = beliefs * (belief - (beliefs * belief).sum(axis=1, keepdims=True))
        return scores + slope, self._per_edge(tables)


def truncated_network(
    method: InferenceMethod, scores: np.ndarray, edges: np.ndarray, tables: np.ndarray
) -> GraphNetwork:
    """Return the network for an inference method, "sum_product" or "mean_field".

    The option `max_iter` of the method is the number of iterations; None stands for 10.
    """
    options: Any = method
    n_iter = _N_ITER if getattr(options, "max_iter", None) is None else int(options.max_iter)
    if method.name == "mean_field":
        return MeanFieldNetwork(scores, edges, tables, n_iter)
    if method.name == "sum_product":
        return MessageNetwork(scores, edges, tables, n_iter, options.damping)
    raise ValueError(
        "inference must be 'sum_product', 'mean_field' or an object such as SumProduct(max_iter=5) "
        f"with learning='backprop', which differentiates through its iterations; got {method!r}"
    )
