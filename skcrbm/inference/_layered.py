"""Truncated inference on layered models, and the gradient through its iterations.

One iteration recomputes all beliefs from the current messages, then the messages from
these beliefs, connection by connection from the input to the output: in place with the
"sequential" schedule, all from the old ones with "parallel". Messages start at 0; beliefs
are recomputed after the last iteration (Shen et al. 2019, section 3).

Arrays hold rows of the batch in their last axis, see `skcrbm._kernels.layered_messages`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from skcrbm._kernels.layered_messages import (
    expected_fields,
    expected_fields_vjp,
    send,
    send_max,
    send_vjp,
)


@dataclass
class LayeredInput:
    """What a chunk of n rows brings to a layered model.

    Attributes
    ----------
    means : ndarray or CSR matrix (n, D (l - 1))
        Means of the states of the input nodes, 0 where not observed.
    missing : ndarray of bool (n, D) or None
    output_scores : ndarray (n_outputs, (k - 1) n) or None
        Added to the unary scores of the output nodes: clamps them if large.
    """

    means: Any
    missing: np.ndarray | None = None
    output_scores: np.ndarray | None = None


@dataclass
class Trace:
    """All beliefs and messages of a run; index t is the iteration, from 1.

    Attributes
    ----------
    inputs : LayeredInput
    complete : bool
        Whether everything was computed, not just what reaches the output's beliefs.
    beliefs : list of list of ndarray (n_nodes, (n_states - 1) n) or None
        ``beliefs[t][layer]``, log-odds against state 0, None where not needed. The last
        entry, T + 1, holds the result.
    forward, backward : list of list of ndarray (E, (n_states - 1) n) or None
        ``forward[t][c]``, messages along connection c toward the output, and back.
    edges : list of _Edges or None
        Per connection, for methods with messages.
    """

    inputs: LayeredInput
    complete: bool
    beliefs: list
    forward: list
    backward: list
    edges: list | None = None

    @property
    def n(self):
        """Number of rows."""
        return self.inputs.means.shape[0]


class LayeredNetwork:
    """A layered model prepared for a number of iterations of one method.

    Parameters
    ----------
    model : LayeredModel
    schedule : {"sequential", "parallel"}
    n_iter : int
    """

    def __init__(self, model, schedule, n_iter):
        self.structure = model.structure
        self.n_iter = n_iter
        self.in_place = schedule == "sequential"
        self.dtype = model.params.unaries.dtype
        self.unaries = self.structure.unaries(model.params)
        self.weights = self.structure.weights(model.params)
        self.tables = [
            None if c.dense else c.tables(w)
            for c, w in zip(self.structure.connections, self.weights)
        ]

    # ------------------------------------------------------------------ forward

    def run(self, inputs, *, complete=False, keep=False):
        """Do the iterations.

        Parameters
        ----------
        inputs : LayeredInput
        complete : bool, default=False
            Compute the beliefs of all layers, not just what the output's depend on.
        keep : bool, default=False
            Keep all iterations for `gradient`; else the last one only.

        Returns
        -------
        Trace
        """
        n = inputs.means.shape[0]
        depth = self.structure.depth
        base = [self._base(layer, inputs, n) for layer in range(depth + 1)]
        trace = Trace(inputs, complete, [None, base], [], [])
        self._start(trace, n)
        field = self._input_field(inputs, n)
        later = [b + field if layer == 1 else b for layer, b in enumerate(base)]
        for t in range(1, self.n_iter + 1):
            beliefs = [
                b.copy() if b is not None and self._needed(layer, t, complete) else None
                for layer, b in enumerate(later)
            ]
            self._iterate(trace, t, beliefs)
            trace.beliefs.append(beliefs)
            if not keep:
                for past in (trace.beliefs, trace.forward, trace.backward):
                    if len(past) > 2:
                        past[-3] = None
        return trace

    def _needed(self, layer, t, complete):
        """Whether what reaches a layer in iteration t can reach the output in time."""
        return complete or t + self.structure.depth - layer <= self.n_iter

    def _base(self, layer, inputs, n):
        """Unary scores for n rows, (n_nodes, (n_states - 1) n)."""
        if layer == 0 and inputs.missing is None:
            return None
        base = np.repeat(self.unaries[layer], n, axis=1)
        if layer == self.structure.depth and inputs.output_scores is not None:
            base += inputs.output_scores
        return base

    def _input_field(self, inputs, n):
        """Scores (n_nodes, (n_states - 1) n) that the observed inputs give layer 1."""
        connection = self.structure.connections[0]
        shape = (connection.n_right, (connection.n_right_states - 1) * n)
        if connection.dense:
            matrix = connection.matrix(self.weights[0])
            if sparse.issparse(inputs.means):
                return np.ascontiguousarray((inputs.means @ matrix).T).reshape(shape)
            return (matrix.T @ inputs.means.T).reshape(shape)
        field = np.zeros(shape, self.dtype)
        expected_fields(
            _lanes(inputs.means, connection.n_left),
            self.tables[0],
            connection.left,
            connection.right,
            connection.table,
            field,
        )
        return field

    # ----------------------------------------------------------------- backward

    def gradient(self, trace, d_output):
        """Gradient of a function of the output's beliefs, summed over the rows.

        Parameters
        ----------
        trace : Trace
            Of ``run(..., keep=True)``.
        d_output : ndarray (n_outputs, (k - 1) n)
            Derivative by the output's beliefs.

        Returns
        -------
        LayeredParams
        """
        n = trace.n
        depth = self.structure.depth
        d_weights = self._zero_weights()
        d_unaries = [np.zeros_like(u) for u in self.unaries]
        d_field = np.zeros((self.structure.n_nodes[1], self.unaries[1].shape[1] * n), self.dtype)
        d_beliefs = [None] * depth + [d_output]
        state = None
        for t in range(self.n_iter, -1, -1):  # beliefs of time t + 1
            for layer, d in enumerate(d_beliefs):
                if d is not None:
                    d_unaries[layer] += d.reshape(*d_unaries[layer].shape, n).sum(axis=2)
            if t == 0:
                break
            if d_beliefs[1] is not None:
                d_field += d_beliefs[1]
            d_before = [None if b is None else np.zeros_like(b) for b in trace.beliefs[t]]
            state = self._iterate_vjp(trace, t, d_beliefs, d_before, d_weights, state)
            d_beliefs = d_before
        flat = self._finish(d_weights)
        flat[0] = flat[0] + self._input_gradient(trace.inputs, d_field)
        return self.structure.params(d_unaries, flat)

    def _input_gradient(self, inputs, d_field):
        """Flat gradient of the input's weights from that of `_input_field`."""
        connection = self.structure.connections[0]
        n = inputs.means.shape[0]
        if connection.dense:
            d = d_field.reshape(-1, n)
            if sparse.issparse(inputs.means):
                return np.ascontiguousarray(inputs.means.T @ d.T).ravel()
            return (inputs.means.T @ d.T).ravel()
        d_tables = np.zeros_like(self.tables[0])
        expected_fields_vjp(
            _lanes(inputs.means, connection.n_left),
            self.tables[0],
            connection.left,
            connection.right,
            connection.table,
            d_field,
            np.empty((0, 0), self.dtype),
            d_tables,
        )
        return d_tables.ravel()

    def moments(self, trace, row_weight):
        """Sum the moments of a complete run over its rows: the gradient of log Z.

        Parameters
        ----------
        trace : Trace
            Of ``run(..., complete=True)``.
        row_weight : ndarray (n,)

        Returns
        -------
        LayeredParams
        """
        n = trace.n
        beliefs = [
            None if b is None else probabilities(b, n)[:, 1:] * row_weight.astype(self.dtype)
            for b in trace.beliefs[-1]
        ]
        unaries = [
            np.zeros_like(u) if p is None else p.sum(axis=2) for u, p in zip(self.unaries, beliefs)
        ]
        if beliefs[0] is not None:
            unaries[0] = (beliefs[0] * trace.inputs.missing.T[:, None, :]).sum(axis=2)
        expected = [None if p is None else p.reshape(len(p), -1) for p in beliefs]
        flat = self._pair_moments(trace, expected)
        flat[0] = flat[0] + self._input_gradient(trace.inputs, expected[1])
        return self.structure.params(unaries, flat)


class MessageNetwork(LayeredNetwork):
    """Sum-product and tree-reweighted messages.

    Parameters
    ----------
    model, schedule, n_iter
        As in `LayeredNetwork`.
    reweighted : bool
        Whether edges have the appearance probabilities of `Connection.edge_appearance`.
    with_input : bool
        Whether some inputs are not observed.
    """

    def __init__(self, model, schedule, n_iter, *, reweighted, with_input):
        super().__init__(model, schedule, n_iter)
        self.first = 0 if with_input else 1
        self.edges = [None] * self.structure.depth
        for c in range(self.first, self.structure.depth):
            self.edges[c] = self._prepare(c, reweighted)

    def _prepare(self, c, reweighted):
        connection = self.structure.connections[c]
        weights = connection.tables(self.weights[c])
        if reweighted:
            pair, pair_table, pair_rho = connection.reweighting
            rho = connection.edge_appearance.astype(self.dtype)
            pair_rho = pair_rho.astype(self.dtype)
            weights = weights[pair_table] / pair_rho[:, None, None]
        else:
            pair = pair_table = connection.table
            rho, pair_rho = np.ones(len(pair), self.dtype), None
            pair_table = None
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

    def _start(self, trace, n):
        """Set the messages to 0, those of time 0."""
        trace.forward.append([None] * self.structure.depth)
        trace.backward.append([None] * self.structure.depth)
        trace.edges = list(self.edges)
        if self.first == 0:
            if trace.inputs.missing is None:
                trace.edges[0] = None
            else:
                free = trace.inputs.missing.any(axis=0)
                trace.edges[0] = self.edges[0].of_left(free)
        for c, edges in enumerate(trace.edges):
            if edges is None:
                continue
            for messages, width in (
                (trace.forward[0], edges.ahead[1].shape[1]),
                (trace.backward[0], edges.back[1].shape[1]),
            ):
                messages[c] = np.zeros((len(edges.left), width * n), self.dtype)

    def _steps(self, trace, t):
        """Yield (connection, edges, forward?) of the messages of iteration t, in order."""
        for c, edges in enumerate(trace.edges):
            if edges is None:
                continue
            if self._needed(c + 1, t, trace.complete):
                yield c, edges, True
            if self._needed(c, t, trace.complete):
                yield c, edges, False

    def _reverse(self, trace, t, c, forward):
        """Messages that the cavities of a step leave out."""
        if forward:
            return trace.backward[t - 1][c]
        return trace.forward[t if self.in_place else t - 1][c]

    def _mask(self, trace, c, forward):
        """1 where an input is a node that sends messages, (D, n); (0, n) for other layers."""
        if forward and c == 0:
            return np.ascontiguousarray(trace.inputs.missing.T, self.dtype)
        return np.empty((0, trace.n), self.dtype)

    def _iterate(self, trace, t, totals):
        trace.forward.append([None] * self.structure.depth)
        trace.backward.append([None] * self.structure.depth)
        for c, edges, forward in self._steps(trace, t):
            source = c if forward else c + 1
            total = totals[c + 1 if forward else c]
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
        send(belief, reverse, *arguments, mask, out, total)

    def _zero_weights(self):
        """Gradients of the shifted tables, ahead and back."""
        return [
            None
            if e is None
            else (
                np.zeros_like(e.ahead[0][:, 1:]),
                np.zeros_like(e.back[0][:, 1:]),
            )
            for e in self.edges
        ]

    def _iterate_vjp(self, trace, t, d_totals, d_beliefs, d_tables, direct):
        """Go back through iteration t; `direct` maps messages to gradients by their later use."""
        direct = {} if direct is None else direct
        before = {}
        none = np.empty((0, 0), self.dtype)
        for c, edges, forward in reversed(list(self._steps(trace, t))):
            source, target = (c, c + 1) if forward else (c + 1, c)
            out = (trace.forward if forward else trace.backward)[t][c]
            reverse = self._reverse(trace, t, c, forward)
            d_reverse = np.empty_like(reverse)
            d_total = d_totals[target]
            send_vjp(
                trace.beliefs[t][source],
                reverse,
                *edges.arguments(forward),
                self._mask(trace, c, forward),
                out,
                np.zeros((self.structure.n_nodes[target], out.shape[1]), self.dtype)
                if d_total is None
                else d_total,
                direct.get((c, forward), none),
                d_beliefs[source],
                d_reverse,
                d_tables[c][0 if forward else 1],
            )
            # Where in time the reverse messages were made decides who asks for this.
            now = self.in_place and not forward
            (direct if now else before)[c, not forward] = d_reverse
        return before

    def _finish(self, d_tables):
        """Flat gradients of the pairwise scores."""
        flat = []
        for connection, edges, d in zip(self.structure.connections, self.edges, d_tables):
            if edges is None:
                flat.append(np.zeros(connection.n_weights, self.dtype))
                continue
            ahead, back = edges.unshift(*d)
            scaled = ahead + back.transpose(0, 2, 1)
            flat.append(connection.flat(edges.collect(scaled, connection.n_tables)))
        return flat

    def _pair_moments(self, trace, expected):
        """Flat sums of P(x | y) q(y): pairwise beliefs that agree with those of the right node."""
        flat = []
        for c, connection in enumerate(self.structure.connections):
            edges = trace.edges[c]
            if edges is None:
                flat.append(np.zeros(connection.n_weights, self.dtype))
                continue
            belief, reverse = trace.beliefs[-1][c], trace.backward[-1][c]
            total = np.zeros_like(trace.beliefs[-1][c + 1])
            out = np.empty_like(trace.forward[-1][c])
            ones = np.ones_like(edges.rho)
            arguments = (*edges.ahead, edges.left, edges.right, edges.pair, ones)
            send(belief, reverse, *arguments, self._mask(trace, c, True), out, total)
            d_table = np.zeros_like(edges.ahead[0][:, 1:])
            send_vjp(
                belief,
                reverse,
                *arguments,
                self._mask(trace, c, True),
                out,
                expected[c + 1],
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
    """One connection's edges, ready for the kernels.

    Attributes
    ----------
    left, right, pair : ndarray (E,)
    rho : ndarray (E,)
    pair_table, pair_rho : ndarray (P,) or None
        None where pairs are the connection's own tables.
    ahead, back : (ndarray (P, l, k - 1), ndarray (P, k - 1))
        Shifted tables and shifts, in both directions.
    """

    left: np.ndarray
    right: np.ndarray
    pair: np.ndarray
    rho: np.ndarray
    pair_table: np.ndarray | None
    pair_rho: np.ndarray | None
    ahead: tuple
    back: tuple

    def of_left(self, keep):
        """Return the edges of the left nodes in keep (n_left,)."""
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
        """Tables, shifts and index arrays for `send`."""
        if forward:
            return (*self.ahead, self.left, self.right, self.pair, self.rho)
        return (*self.back, self.right, self.left, self.pair, self.rho)

    def unshift(self, d_ahead, d_back):
        """Gradients of W / rho from those of the shifted tables."""
        return d_ahead * self.ahead[0][:, 1:], d_back * self.back[0][:, 1:]

    def collect(self, scaled, n_tables):
        """Gradient of the connection's tables from that of W / rho of each pair."""
        if self.pair_rho is not None:
            scaled = scaled / self.pair_rho[:, None, None]
        return self.sum_pairs(scaled, n_tables)

    def sum_pairs(self, values, n_tables):
        """Sum over the pairs of each of the connection's tables."""
        if self.pair_table is None:
            return values
        total = np.zeros((n_tables, *values.shape[1:]), values.dtype)
        np.add.at(total, self.pair_table, values)
        return total


class MaxProductNetwork(MessageNetwork):
    """Max-product messages, for decoding."""

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


class MeanFieldNetwork(LayeredNetwork):
    """Mean field: a message is the expected pairwise score.

    Messages depend on the beliefs alone, which an iteration computes once: both schedules
    are the same.
    """

    def _start(self, trace, n):
        """Nothing to set: mean field keeps no messages."""

    def _means(self, trace, t, layer):
        """Probabilities of states 1, 2, ..., (n_nodes, (n_states - 1) n); 0 where observed."""
        belief = trace.beliefs[t][layer]
        if belief is None:
            return None
        q = probabilities(belief, trace.n)[:, 1:]
        if layer == 0:
            q = q * trace.inputs.missing.T[:, None, :]
        return np.ascontiguousarray(q).reshape(belief.shape)

    def _iterate(self, trace, t, totals):
        means = [self._means(trace, t, layer) for layer in range(self.structure.depth + 1)]
        for c in range(self.structure.depth):
            if means[c] is not None and totals[c + 1] is not None:
                self._expect(c, means[c], totals[c + 1], True, trace.n)
            if totals[c] is not None:
                self._expect(c, means[c + 1], totals[c], False, trace.n)

    def _expect(self, c, mean, total, forward, n):
        """Total += expected scores, along a connection in either direction."""
        connection = self.structure.connections[c]
        if connection.dense:
            matrix = connection.matrix(self.weights[c])
            product = (matrix.T if forward else matrix) @ mean.reshape(-1, n)
            total += product.reshape(total.shape)
            return
        tables = self.tables[c]
        ends = connection.left, connection.right
        if not forward:
            ends = ends[::-1]
            tables = np.ascontiguousarray(tables.transpose(0, 2, 1))
        expected_fields(mean, tables, *ends, connection.table, total)

    def _zero_weights(self):
        return [np.zeros_like(w) for w in self.weights]

    def _iterate_vjp(self, trace, t, d_totals, d_beliefs, d_weights, state):
        n, depth = trace.n, self.structure.depth
        means = [self._means(trace, t, layer) for layer in range(depth + 1)]
        d_means = [None if m is None else np.zeros_like(m) for m in means]
        for c in range(depth):
            if means[c] is not None and d_totals[c + 1] is not None:
                self._expect_vjp(c, means[c], d_totals[c + 1], d_means[c], d_weights[c], True, n)
            if d_totals[c] is not None:
                self._expect_vjp(
                    c, means[c + 1], d_totals[c], d_means[c + 1], d_weights[c], False, n
                )
        for layer in range(depth + 1):
            if means[layer] is None:
                continue
            shape = (len(means[layer]), -1, n)
            q, d = means[layer].reshape(shape), d_means[layer].reshape(shape)
            inner = (q * d).sum(axis=1, keepdims=True)
            d_beliefs[layer] += (q * (d - inner)).reshape(means[layer].shape)

    def _expect_vjp(self, c, mean, d_total, d_mean, d_weights, forward, n):
        connection = self.structure.connections[c]
        if connection.dense:
            matrix = connection.matrix(self.weights[c])
            q, d = mean.reshape(-1, n), d_total.reshape(-1, n)
            d_mean += ((matrix if forward else matrix.T) @ d).reshape(d_mean.shape)
            d_weights += (q @ d.T if forward else d @ q.T).ravel()
            return
        tables = self.tables[c]
        ends = connection.left, connection.right
        if not forward:
            ends = ends[::-1]
            tables = np.ascontiguousarray(tables.transpose(0, 2, 1))
        d_tables = np.zeros_like(tables)
        expected_fields_vjp(mean, tables, *ends, connection.table, d_total, d_mean, d_tables)
        d_weights += (d_tables if forward else d_tables.transpose(0, 2, 1)).ravel()

    def _finish(self, d_weights):
        return list(d_weights)

    def _pair_moments(self, trace, expected):
        d_weights = self._zero_weights()
        last = len(trace.beliefs) - 1
        for c in range(self.structure.depth):
            mean = self._means(trace, last, c)
            if mean is not None:
                self._expect_vjp(
                    c, mean, expected[c + 1], np.zeros_like(mean), d_weights[c], True, trace.n
                )
        return d_weights


def make_network(model, inference, schedule, n_iter, with_input):
    """Return the network of a method.

    Parameters
    ----------
    model : LayeredModel
    inference : {"tree_reweighted", "sum_product", "mean_field"}
    schedule : {"sequential", "parallel"}
    n_iter : int
    with_input : bool
        Whether some inputs may be not observed.
    """
    if inference == "mean_field":
        return MeanFieldNetwork(model, schedule, n_iter)
    reweighted = inference == "tree_reweighted"
    return MessageNetwork(model, schedule, n_iter, reweighted=reweighted, with_input=with_input)


def probabilities(belief, n):
    """Probabilities (n_nodes, n_states, n) of log-odds (n_nodes, (n_states - 1) n)."""
    scores = belief.reshape(len(belief), -1, n)
    scores = np.concatenate([np.zeros((len(belief), 1, n), belief.dtype), scores], axis=1)
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def _with_reference(weights):
    """Put the row of the reference state, 0, before those of the other states."""
    zero = np.zeros((len(weights), 1, weights.shape[2]), weights.dtype)
    return np.concatenate([zero, weights], axis=1)


def _shifted_table(weights):
    """Table exp(W(x, y) - shift(y)) with the row of x = 0, and shift(y) = max_x W(x, y)."""
    full = _with_reference(weights)
    shift = full.max(axis=1)
    return np.exp(full - shift[:, None]), shift


def _lanes(means, n_nodes):
    """Input means (n, D (l - 1)) as (D, (l - 1) n)."""
    if sparse.issparse(means):
        means = means.toarray()
    return np.ascontiguousarray(means.T).reshape(n_nodes, -1)
