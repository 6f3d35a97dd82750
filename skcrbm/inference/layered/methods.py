"""Pass messages on layered models: sum-product, tree-reweighted, max-product and mean field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skcrbm.inference.layered.network import LayeredNetwork, Trace, probabilities
from skcrbm.kernels.layered_messages import Edges, expected_fields_vjp, send, send_max, send_vjp


class MessageNetwork(LayeredNetwork):
    """Passes sum-product or tree-reweighted messages.

    If `reweighted` is True, messages are weighted by the edge appearance probabilities rho of
    `Connection.edge_appearance`. Otherwise rho is 1. `with_input` is True if some inputs are not
    observed. Input nodes then send messages, too.
    """

    def __init__(
        self, model: Any, schedule: str, n_iter: int, *, reweighted: bool, with_input: bool
    ):
        super().__init__(model, n_iter)
        self.in_place = schedule == "sequential"
        self.with_input = with_input
        self.edges: list[Any] = [
            self._prepare(c, reweighted) if with_input or connection.source > 0 else None
            for c, connection in enumerate(self.structure.connections)
        ]

    def _prepare(self, c, reweighted):
        connection = self.structure.connections[c]
        weights = connection.tables(self.weights[c])
        if reweighted:
            pair, pair_table, pair_rho = connection.reweighting
            rho = connection.edge_appearance.astype(self.dtype)
            pair_rho = pair_rho.astype(self.dtype)
            # A pair is a table with a value of rho. If all edges that share a table have the same
            # rho, pair p has table p, so a list of the tables of the pairs is not needed.
            if np.array_equal(pair_table, np.arange(connection.n_tables)):
                pair_table, weights = None, weights / pair_rho[:, None, None]
            else:
                weights = weights[pair_table] / pair_rho[:, None, None]
        else:
            pair, pair_table, pair_rho = connection.table, None, None
            rho = np.ones(len(pair), self.dtype)
        back = np.ascontiguousarray(weights.transpose(0, 2, 1))
        return _Edges(
            connection.left,
            connection.right,
            pair,
            rho,
            pair_table,
            pair_rho,
            _shifted_table(weights),
            _shifted_table(back),
        )

    def _sufficient(self, inputs):
        """Return the number of iterations after which the output does not change.

        Two iterations are enough if the inputs are observed and the other nodes form a star around
        the output node. The message of a hidden node to the output node then depends only on the
        inputs, and is the same in later iterations. Otherwise all iterations are needed.
        """
        star = self.structure.depth == 2 and self.structure.n_nodes[2] == 1
        return min(self.n_iter, 2) if star and inputs.missing is None else self.n_iter

    def _start(self, trace, n):
        """Set the messages before iteration 1 to 0."""
        trace.forward.append([None] * len(self.edges))
        trace.backward.append([None] * len(self.edges))
        trace.edges = list(self.edges)
        if self.with_input:
            missing = trace.inputs.missing
            free = None if missing is None else missing.any(axis=0)
            for c, connection in enumerate(self.structure.connections):
                if connection.source == 0:
                    trace.edges[c] = None if free is None else self.edges[c].from_left(free)
        for c, edges in enumerate(trace.edges):
            if edges is None:
                continue
            for messages, width in (
                (trace.forward[0], edges.ahead[1].shape[1]),
                (trace.backward[0], edges.back[1].shape[1]),
            ):
                messages[c] = np.zeros((len(edges.left), width * n), self.dtype)

    def _steps(self, trace, t):
        """Yield the steps of iteration t in order, as tuples (connection, edges, forward).

        A step sends the messages of a connection toward the output if `forward`, else toward the
        input.
        """
        for c, edges in enumerate(trace.edges):
            if edges is None:
                continue
            if self._needed(self._target(c, True), t, trace):
                yield c, edges, True
            if self._needed(self._target(c, False), t, trace):
                yield c, edges, False

    def _target(self, c, forward):
        """Return the layer that receives the messages that connection c sends in a direction."""
        connection = self.structure.connections[c]
        return connection.target if forward else connection.source

    def _reverse(self, trace, t, c, forward):
        """Return the latest messages that went in the opposite direction of a step.

        The step subtracts these messages from the beliefs of the senders.
        """
        if forward:
            return trace.backward[t - 1][c]
        return trace.forward[t if self.in_place else t - 1][c]

    def _mask(self, trace, c, forward):
        """Return a mask (n_sources, n): 1 for nodes that send messages, 0 for clamped nodes.

        If all nodes send messages, the mask has the shape (0, n).
        """
        mask = trace.mask(self._target(c, not forward))
        return np.empty((0, trace.n), self.dtype) if mask is None else mask

    def _iterate(self, trace, t, totals):
        trace.forward.append([None] * len(self.edges))
        trace.backward.append([None] * len(self.edges))
        for c, edges, forward in self._steps(trace, t):
            source = self._target(c, not forward)
            total = totals[self._target(c, forward)]
            out = np.empty((len(edges.left), total.shape[1]), self.dtype)
            self._send(
                trace.beliefs[t][source],
                self._reverse(trace, t, c, forward),
                edges.arguments(forward),
                self._mask(trace, c, forward),
                out,
                total,
            )
            (trace.forward if forward else trace.backward)[t][c] = out

    def _send(self, belief, reverse, arguments, mask, out, total):
        send(belief, reverse, arguments, mask, out, total)

    def _zero_weights(self, with_input):
        """Allocate zeros for the gradients of the shifted tables in both directions."""
        return [
            None
            if e is None or (self._target(c, False) == 0 and not with_input)
            else (
                np.zeros_like(e.ahead[0][:, 1:]),
                np.zeros_like(e.back[0][:, 1:]),
            )
            for c, e in enumerate(self.edges)
        ]

    def _iterate_vjp(self, trace, t, d_totals, d_beliefs, d_tables, direct):
        """Propagate gradients back through iteration t.

        Steps after iteration t subtract the messages of iteration t from beliefs. So a part of the
        gradient with respect to these messages flows through the subtraction. `direct` maps
        (connection, forward) to this part. Return the dict for the messages of iteration t - 1.
        """
        direct = {} if direct is None else direct
        before = {}
        empty = np.empty((0, 0), self.dtype)
        for c, edges, forward in reversed(list(self._steps(trace, t))):
            source, target = self._target(c, not forward), self._target(c, forward)
            out = (trace.forward if forward else trace.backward)[t][c]
            reverse = self._reverse(trace, t, c, forward)
            d_reverse = np.empty_like(reverse)
            d_total = d_totals[target]
            send_vjp(
                trace.beliefs[t][source],
                reverse,
                edges.arguments(forward),
                self._mask(trace, c, forward),
                out,
                np.zeros((self.structure.n_nodes[target], out.shape[1]), self.dtype)
                if d_total is None
                else d_total,
                direct.get((c, forward), empty),
                d_beliefs[source],
                d_reverse,
                d_tables[c][0 if forward else 1],
            )
            # Pass the gradient of the reverse messages to the iteration that computed them.
            now = self.in_place and not forward
            (direct if now else before)[c, not forward] = d_reverse
        return before

    def _finish(self, d_tables):
        """Return the gradients of pairwise scores, one flat array per connection.

        The item is None for a connection without messages.
        """
        flat = []
        for connection, edges, d in zip(self.structure.connections, self.edges, d_tables):
            if d is None:
                flat.append(None)
                continue
            ahead, back = edges.unshift(*d)
            scaled = ahead + back.transpose(0, 2, 1)
            flat.append(connection.flat(edges.collect(scaled, connection.n_tables)))
        return flat

    def _pair_moments(self, trace, expected):
        """Return sums of pairwise beliefs P(x | y) q(y), one flat array per connection.

        x is a state of the left node and y a state of the right node. The pairwise beliefs agree
        with the marginals q(y) of the right nodes.
        """
        flat = []
        for c, connection in enumerate(self.structure.connections):
            edges = trace.edges[c]
            if edges is None:
                flat.append(None)
                continue
            belief, reverse = trace.beliefs[-1][connection.source], trace.backward[-1][c]
            total = np.zeros_like(trace.beliefs[-1][connection.target])
            out = np.empty_like(trace.forward[-1][c])
            ones = np.ones_like(edges.rho)
            table, shift = edges.ahead
            arguments = Edges(table, shift, edges.left, edges.right, edges.pair, ones)
            send(belief, reverse, arguments, self._mask(trace, c, True), out, total)
            d_table = np.zeros_like(edges.ahead[0][:, 1:])
            send_vjp(
                belief,
                reverse,
                arguments,
                self._mask(trace, c, True),
                out,
                expected[connection.target],
                np.empty((0, 0), self.dtype),
                np.zeros_like(belief),
                np.empty_like(reverse),
                d_table,
            )
            moments = d_table * edges.ahead[0][:, 1:]
            flat.append(connection.flat(edges.sum_pairs(moments, connection.n_tables)))
        return flat


@dataclass
class _Edges:
    """The E edges of a connection, in the form that the kernels take.

    Each edge has a table and an appearance probability rho. There are P distinct pairs (table,
    rho), and the kernels compute exp(table / rho) only once for each pair.
    """

    left: np.ndarray  # (E,) node in the layer nearer to the input
    right: np.ndarray  # (E,) node in the layer nearer to the output
    pair: np.ndarray  # (E,) index of the pair (table, rho) of each edge
    rho: np.ndarray  # (E,) appearance probability
    pair_table: np.ndarray | None  # (P,) table of each pair; None if pair p has table p
    pair_rho: np.ndarray | None  # (P,) rho of each pair; None if rho is 1
    # Results of `_shifted_table`: tables (P, l, k - 1) and shifts (P, k - 1) for senders with l
    # states and receivers with k states. `ahead` is for messages toward the output, and `back` for
    # messages toward the input.
    ahead: tuple
    back: tuple

    def from_left(self, keep: np.ndarray) -> _Edges:
        """Return only the edges whose left node is selected by the mask `keep` (n_left,)."""
        e = keep[self.left]
        return _Edges(
            self.left[e],
            self.right[e],
            self.pair[e],
            self.rho[e],
            self.pair_table,
            self.pair_rho,
            self.ahead,
            self.back,
        )

    def arguments(self, forward):
        """Return the edges in one direction, as arguments of the kernel `send`."""
        if forward:
            table, shift = self.ahead
            return Edges(table, shift, self.left, self.right, self.pair, self.rho)
        table, shift = self.back
        return Edges(table, shift, self.right, self.left, self.pair, self.rho)

    def unshift(self, d_ahead, d_back):
        """Convert gradients for the shifted tables to gradients for W / rho, with tables W."""
        return d_ahead * self.ahead[0][:, 1:], d_back * self.back[0][:, 1:]

    def collect(self, scaled, n_tables):
        """Convert the gradients for W / rho of all pairs to the gradient for the tables W."""
        if self.pair_rho is not None:
            scaled = scaled / self.pair_rho[:, None, None]
        return self.sum_pairs(scaled, n_tables)

    def sum_pairs(self, values, n_tables):
        """Sum values of pairs (table, rho) over all pairs with the same table."""
        if self.pair_table is None:
            return values
        total = np.zeros((n_tables, *values.shape[1:]), values.dtype)
        np.add.at(total, self.pair_table, values)
        return total


class MaxProductNetwork(MessageNetwork):
    """Passes max-product messages, which are used for decoding."""

    def __init__(self, model, schedule, n_iter, *, with_input):
        super().__init__(model, schedule, n_iter, reweighted=False, with_input=with_input)

    def _prepare(self, c, reweighted):
        edges = super()._prepare(c, reweighted)
        weights = self.structure.connections[c].tables(self.weights[c])
        edges.ahead = (_with_reference(weights), edges.ahead[1])
        edges.back = (
            _with_reference(np.ascontiguousarray(weights.transpose(0, 2, 1))),
            edges.back[1],
        )
        return edges

    def _send(self, belief, reverse, arguments, mask, out, total):
        weights, _, source, target, pair, _ = arguments
        send_max(belief, reverse, weights, source, target, pair, mask, out, total)


def _with_reference(weights):
    """Add a first row of 0 to tables, for the reference state."""
    zero = np.zeros((len(weights), 1, weights.shape[2]), weights.dtype)
    return np.concatenate([zero, weights], axis=1)


def _shifted_table(weights):
    """Return exp(W(x, y) - shift(y)) and shift(y) = max_x W(x, y) for tables W.

    A row of 0 for the reference state x = 0 is added to W first.
    """
    full = _with_reference(weights)
    shift = np.zeros_like(full[:, 0])
    for x in range(weights.shape[1]):  # faster than max(axis=1), which has a short inner loop
        np.maximum(shift, weights[:, x], out=shift)
    return np.exp(full - shift[:, None]), shift


class MeanFieldNetwork(LayeredNetwork):
    """Runs mean field with a parallel schedule; messages are expectations of pairwise scores.

    All beliefs are computed at once from the beliefs of the previous iteration.
    """

    def _start(self, trace, n):
        """Do nothing, because mean field keeps no messages."""

    def _means(self, trace: Trace, t: int, layer: int) -> Any:
        """Return the probabilities of states 1, 2, ... of the nodes of a layer in iteration t.

        The probabilities of observed and clamped nodes are 0, because they send no messages.
        """
        return self._means_of(trace, layer, trace.beliefs[t][layer])

    def _means_of(self, trace, layer, belief):
        """Return the probabilities of states 1, 2, ... of the nodes of a layer from its beliefs."""
        if belief is None:
            return None
        q = probabilities(belief, trace.n)[:, 1:]
        mask = trace.mask(layer)
        if mask is not None:
            q = q * mask[:, None, :]
        return np.ascontiguousarray(q).reshape(belief.shape)

    def _iterate(self, trace, t, totals):
        means = [self._means(trace, t, layer) for layer in range(self.structure.depth + 1)]
        for c, connection in enumerate(self.structure.connections):
            a, b = connection.source, connection.target
            if means[a] is not None and totals[b] is not None:
                self._expect(c, means[a], totals[b], True, trace.n)
            if totals[a] is not None:
                self._expect(c, means[b], totals[a], False, trace.n)

    def _zero_weights(self, with_input):
        return [
            np.zeros_like(w) if with_input or connection.source > 0 else None
            for connection, w in zip(self.structure.connections, self.weights)
        ]

    def _iterate_vjp(self, trace, t, d_totals, d_beliefs, d_weights, state):
        n, depth = trace.n, self.structure.depth
        means = [self._means(trace, t, layer) for layer in range(depth + 1)]
        d_means: list[Any] = [None if m is None else np.zeros_like(m) for m in means]
        for c, connection in enumerate(self.structure.connections):
            a, b = connection.source, connection.target
            if means[a] is not None and d_totals[b] is not None:
                self._expect_vjp(c, means[a], d_totals[b], d_means[a], d_weights[c], True, n)
            if d_totals[a] is not None:
                self._expect_vjp(c, means[b], d_totals[a], d_means[b], d_weights[c], False, n)
        for layer in range(depth + 1):
            if means[layer] is not None:
                d_beliefs[layer] += _belief_vjp(means[layer], d_means[layer], n)

    def _expect_vjp(self, c, mean, d_total, d_mean, d_weights, forward, n):
        connection = self.structure.connections[c]
        if connection.dense:
            matrix = connection.matrix(self.weights[c])
            q, d = mean.reshape(-1, n), d_total.reshape(-1, n)
            d_mean += ((matrix if forward else matrix.T) @ d).reshape(d_mean.shape)
            d_weights += (q @ d.T if forward else d @ q.T).ravel()
            return
        tables = self.tables[c]
        source, target = connection.left, connection.right
        if not forward:
            source, target = target, source
            tables = np.ascontiguousarray(tables.transpose(0, 2, 1))
        d_tables = np.zeros_like(tables)
        expected_fields_vjp(
            mean, tables, source, target, connection.table, d_total, d_mean, d_tables
        )
        d_weights += (d_tables if forward else d_tables.transpose(0, 2, 1)).ravel()

    def _finish(self, d_weights):
        return list(d_weights)

    def _pair_moments(self, trace, expected):
        last = len(trace.beliefs) - 1
        flat = []
        for c, connection in enumerate(self.structure.connections):
            mean, right = self._means(trace, last, connection.source), expected[connection.target]
            flat.append(None if mean is None else self._products(c, mean, right, trace.n))
        return flat


class SequentialMeanFieldNetwork(MeanFieldNetwork):
    """Runs mean field layer by layer, from the input to the output.

    The new beliefs of a layer are computed from the new beliefs of the layers below and the old
    beliefs of the layers above. So the inputs reach the output in iteration 1.
    """

    in_one_pass = True

    def _needed(self, layer, t, trace):
        """Return True, because all layers are computed in each iteration."""
        return True

    def _iterate(self, trace, t, totals):
        n = trace.n
        connections = list(enumerate(self.structure.connections))
        new: list[Any] = []
        for layer, total in enumerate(totals):
            for c, connection in connections:
                if connection.target == layer and new[connection.source] is not None:
                    self._expect(c, new[connection.source], total, True, n)
                if connection.source == layer and total is not None:
                    self._expect(c, self._means(trace, t, connection.target), total, False, n)
            new.append(self._means_of(trace, layer, total))

    def _iterate_vjp(self, trace, t, d_totals, d_beliefs, d_weights, state):
        """Propagate gradients through messages from layers nearer to the output.

        These messages are computed from the beliefs of the previous iteration.
        """
        for c, connection in enumerate(self.structure.connections):
            a, b = connection.source, connection.target
            if d_totals[a] is None or trace.beliefs[t][a] is None:
                continue
            mean = self._means(trace, t, b)
            d_mean = np.zeros_like(mean)
            self._expect_vjp(c, mean, d_totals[a], d_mean, d_weights[c], False, trace.n)
            d_beliefs[b] += _belief_vjp(mean, d_mean, trace.n)

    def _one_pass_vjp(self, trace, t, d_beliefs, d_weights):
        """Propagate gradients through messages from layers nearer to the input.

        These messages are computed from the new beliefs of the same iteration.
        """
        for layer in range(self.structure.depth, 0, -1):
            for c, connection in enumerate(self.structure.connections):
                a = connection.source
                if connection.target != layer or trace.beliefs[t][a] is None:
                    continue
                mean = self._means(trace, t, a)
                d_mean = np.zeros_like(mean)
                self._expect_vjp(c, mean, d_beliefs[layer], d_mean, d_weights[c], True, trace.n)
                d = _belief_vjp(mean, d_mean, trace.n)
                d_beliefs[a] = d if d_beliefs[a] is None else d_beliefs[a] + d


def _belief_vjp(mean, d_mean, n):
    """Convert derivatives with respect to the means of states to derivatives of the beliefs."""
    shape = (len(mean), -1, n)
    q, d = mean.reshape(shape), d_mean.reshape(shape)
    return (q * (d - (q * d).sum(axis=1, keepdims=True))).reshape(mean.shape)
