"""Run truncated inference on layered models, and backpropagate through the iterations.

An iteration first computes all beliefs from the current messages. Then it computes the messages
from the beliefs, one connection after the other, from the input to the output. The "sequential"
schedule updates messages in place; the "parallel" schedule computes all messages from the messages
of the previous iteration. Mean field keeps no messages and has no schedule. Messages start at 0,
and beliefs are computed again after the last iteration (Shen et al. 2019, section 3).

The last axis of arrays contains the rows of the batch, see `skcrbm.kernels.layered_messages`. A
result with "one flat array per connection" is a list of arrays, each with an entry for each
pairwise score of the connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skcrbm.energies.layered_structure import LayeredParams
from skcrbm.kernels.layered_messages import expected_fields, expected_fields_vjp
from skcrbm.utils.limits import ROW_SPARSE_WEIGHTS
from skcrbm.utils.row_sparse import RowSparse, columns_used


class Held(NamedTuple):
    """Clamped nodes of all layers except the input. Each field is a list with an item per layer.

    The item is an array, or None if the layer has no clamped nodes (or no states that evidence
    excludes). A clamped node sends no messages. Instead, its effect is added to the fields of its
    neighbours. There are n rows, and the nodes of a layer have k states.
    """

    free: list  # (n_nodes, n): 0 for clamped nodes, 1 for free nodes
    states: list  # (n_nodes, (k - 1) n): means of the states of clamped nodes, 0 for free nodes
    barred: list  # (n_nodes, (k - 1) n): -inf for states of free nodes that evidence excludes, or 0

    @classmethod
    def output(cls, depth: int, free: np.ndarray, states: np.ndarray) -> Held:
        """Return a `Held` in which only nodes of the output layer (index `depth`) are clamped."""
        others = [None] * depth
        return cls([*others, free], [*others, states], [*others, None])


@dataclass
class LayeredInput:
    """Input of a layered model for a chunk of n rows: observed states of nodes, or unary scores."""

    # Means of the states of the input nodes, as an array or CSR matrix (n, D (l - 1)); 0 for nodes
    # that are not observed. The shape is (n, 0) if `fields` is given.
    means: Any
    missing: np.ndarray | None = None  # bool (n, D)
    held: Held | None = None  # clamped nodes, which `LayeredNetwork.gradient` does not support
    # Unary scores of each layer, (n_nodes, (k - 1) n). If given, they replace the inputs, and must
    # contain the effect of the inputs on layer 1.
    fields: list | None = None
    # True if iteration 1 is the same for all rows, so that it is run for one row only
    alike: bool = True


@dataclass
class Trace:
    """All beliefs and messages of a run for n rows. The index t counts the iterations from 1."""

    inputs: LayeredInput
    complete: bool  # False if beliefs and messages that cannot reach the output were left out
    n_iter: int  # number of iterations to run; further iterations are not needed for the output
    # beliefs[t][layer] (n_nodes, (n_states - 1) n): log-odds of the other states against state 0,
    # or None if the beliefs are not needed. The last entry, beliefs[n_iter + 1], is the result.
    beliefs: list
    # forward[t][c] (E, (n_states - 1) n): messages along the E edges of connection c toward the
    # output.
    forward: list
    backward: list  # backward[t][c]: messages of connection c toward the input
    edges: Any = None  # list of the `_Edges` of each connection, for methods with messages
    first: Trace | None = None  # iteration 1 for a single row, if it was computed once for all rows

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.inputs.means.shape[0]

    def mask(self, layer: int) -> Any:
        """Return a mask (n_nodes, n) with 1 for free nodes, else 0; None if all nodes are free."""
        if layer == 0:
            missing = self.inputs.missing
            if missing is None:
                return None
            return np.ascontiguousarray(missing.T, self.inputs.means.dtype)
        return None if self.inputs.held is None else self.inputs.held.free[layer]


class LayeredNetwork:
    """Base class that runs the iterations of a method on a `LayeredModel` or `LayeredEnergy`."""

    #: True if an iteration recomputes the beliefs of a layer after the beliefs of the layers below.
    in_one_pass = False

    def __init__(self, model: Any, n_iter: int):
        self.structure = model.structure
        self.n_iter = n_iter
        self.dtype = model.dtype
        self.unaries = model.layer_unaries()
        self.weights = model.connection_weights()
        self.tables = [
            None if c.dense or w is None else c.tables(w)
            for c, w in zip(self.structure.connections, self.weights)
        ]

    # ------------------------------------------------------------------ forward

    def run(self, inputs: LayeredInput, *, complete: bool = False, keep: bool = False) -> Trace:
        """Run the iterations.

        If `complete`, compute all beliefs, even beliefs that cannot affect the output. If `keep`,
        keep all iterations for `gradient`, else only the last iteration.
        """
        n_iter = self.n_iter if complete else self._sufficient(inputs)
        trace, later = self._begin(inputs, complete, n_iter)
        for t in range(len(trace.beliefs) - 1, n_iter + 1):
            self._advance(trace, t, later)
            if not keep:
                for past in (trace.beliefs, trace.forward, trace.backward):
                    if len(past) > 2:
                        past[-3] = None
        return trace

    def _begin(self, inputs, complete, n_iter):
        """Prepare a run: return its trace, and the unary scores of each layer from iteration 2 on.

        The trace already contains iteration 1 if this iteration is shared by all rows.
        """
        n = inputs.means.shape[0]
        base, seen = self._fields(inputs, n)
        later = [b if s is None else b + s for b, s in zip(base, seen, strict=True)]
        if inputs.held is not None:
            base, later = self._with_held(inputs.held, base, later, n)
        trace = Trace(inputs, complete, n_iter, [None, base], [], [])
        self._start(trace, n)
        same = inputs.missing is None and inputs.held is None and self.unaries is not None
        if same and inputs.alike and not self.in_one_pass:
            self._share_first_iteration(trace, seen)
        return trace, later

    def _advance(self, trace, t, later):
        """Run iteration t: send messages, and append the beliefs of iteration t + 1 to `trace`.

        `later` has the unary scores of each layer, to which the messages are added.
        """
        beliefs = [
            b.copy() if b is not None and self._needed(layer, t, trace) else None
            for layer, b in enumerate(later)
        ]
        self._iterate(trace, t, beliefs)
        trace.beliefs.append(beliefs)

    def _fields(self, inputs, n):
        """Return two lists by layer: scores in iteration 1, and scores that inputs add after it."""
        seen: list[Any] = [None] * (self.structure.depth + 1)
        if self.unaries is None:
            return inputs.fields, seen
        base = [self._base(layer, inputs, n) for layer in range(len(seen))]
        if inputs.fields is None:
            for c, connection in enumerate(self.structure.connections):
                if connection.source == 0:
                    field, target = self._input_field(c, inputs, n), connection.target
                    seen[target] = field if seen[target] is None else seen[target] + field
            return base, seen
        return base, [None if f is None else f - b for f, b in zip(inputs.fields, base)]

    def _with_held(self, held, base, later, n):
        """Return `base` and `later` with the effect of clamped nodes.

        States that evidence excludes get the score -inf in both lists. The expected pairwise scores
        with clamped nodes are added only to `later`, the scores from iteration 2 on.
        """
        base, later = (
            [
                None if b is None else b.copy() if barred is None else b + barred
                for b, barred in zip(fields, held.barred, strict=True)
            ]
            for fields in (base, later)
        )
        for c, connection in enumerate(self.structure.connections):
            a, b = connection.source, connection.target
            if held.states[a] is not None:
                self._expect(c, held.states[a], later[b], True, n)
            if held.states[b] is not None and later[a] is not None:
                self._expect(c, held.states[b], later[a], False, n)
        return base, later

    def _expect(self, c, mean, total, forward, n):
        """Add the expected pairwise scores of connection c to `total`.

        `mean` belongs to the nodes nearer to the input if `forward`, else to the nodes nearer to
        the output.
        """
        connection = self.structure.connections[c]
        if connection.dense:
            matrix = connection.matrix(self.weights[c])
            product = (matrix.T if forward else matrix) @ mean.reshape(-1, n)
            total += product.reshape(total.shape)
            return
        tables = self.tables[c]
        source, target = connection.left, connection.right
        if not forward:
            source, target = target, source
            tables = np.ascontiguousarray(tables.transpose(0, 2, 1))
        expected_fields(mean, tables, source, target, connection.table, total)

    def _share_first_iteration(self, trace, seen):
        """Run iteration 1 for a single row, and copy the result to all rows.

        The result is the same for all rows, because the inputs affect the beliefs only after
        iteration 1.
        """
        n = trace.n
        inputs = LayeredInput(trace.inputs.means[:1])
        base = [self._base(layer, inputs, 1) for layer in range(self.structure.depth + 1)]
        first = trace.first = Trace(inputs, trace.complete, trace.n_iter, [None, base], [], [])
        self._start(first, 1)
        totals = [
            b.copy() if b is not None and self._needed(layer, 1, trace) else None
            for layer, b in enumerate(base)
        ]
        self._iterate(first, 1, totals)

        def for_all_rows(arrays):
            return [None if a is None else np.repeat(a, n, axis=1) for a in arrays]

        trace.beliefs.append(for_all_rows(totals))
        for belief, field in zip(trace.beliefs[2], seen, strict=True):
            if belief is not None and field is not None:
                belief += field
        for mine, shared in ((trace.forward, first.forward), (trace.backward, first.backward)):
            mine.extend(for_all_rows(messages) for messages in shared[1:])

    def _sufficient(self, inputs):
        """Return the number of iterations after which the output does not change."""
        return self.n_iter

    def _needed(self, layer, t, trace):
        """Return True if messages sent to a layer in iteration t can still reach the output.

        If the model has skip connections, which are shorter ways to the output, all messages are
        sent.
        """
        all_needed = trace.complete or len(self.structure.skips) > 0
        return all_needed or t + self.structure.depth - layer <= trace.n_iter

    def _base(self, layer, inputs, n):
        """Return the unary scores of a layer, repeated for n rows: (n_nodes, (n_states - 1) n)."""
        if layer == 0 and inputs.missing is None:
            return None
        return np.repeat(self.unaries[layer], n, axis=1)

    def _input_field(self, c, inputs, n):
        """Return the scores that observed inputs add through connection c.

        The shape is (n_nodes, (k - 1) n) for n rows and target nodes with k states.
        """
        connection = self.structure.connections[c]
        shape = (connection.n_right, (connection.n_right_states - 1) * n)
        if connection.dense:
            matrix = connection.matrix(self.weights[c])
            if sparse.issparse(inputs.means):
                return np.ascontiguousarray((inputs.means @ matrix).T).reshape(shape)
            return (matrix.T @ inputs.means.T).reshape(shape)
        field = np.zeros(shape, self.dtype)
        expected_fields(
            _lanes(inputs.means, connection.n_left),
            self.tables[c],
            connection.left,
            connection.right,
            connection.table,
            field,
        )
        return field

    # ------------------------------------------------------ parts of each method

    def _start(self, trace: Trace, n: int) -> None:
        """Initialise the messages before iteration 1."""
        raise NotImplementedError

    def _iterate(self, trace: Trace, t: int, totals: list) -> None:
        """Compute the messages of iteration t from the beliefs ``trace.beliefs[t]``.

        Store the messages in `trace`, and add them to `totals`, the beliefs of iteration t + 1.
        """
        raise NotImplementedError

    def _zero_weights(self, with_input: bool) -> list:
        """Allocate zeros for the gradients of the pairwise scores of each connection."""
        raise NotImplementedError

    def _iterate_vjp(self, trace, t, d_totals, d_beliefs, d_weights, state) -> Any:
        """Propagate gradients back through iteration t.

        Add the gradients to `d_beliefs` and `d_weights`. `state` is the result of the call for
        iteration t + 1; return the state for the call for iteration t - 1.
        """
        raise NotImplementedError

    def _one_pass_vjp(self, trace, t, d_beliefs, d_weights) -> None:
        """Propagate gradients between layers whose beliefs are computed in the same iteration.

        `d_beliefs` has the derivatives with respect to the beliefs of iteration t, and is changed
        in place.
        """

    def _finish(self, d_weights: list) -> list[Any]:
        """Return the gradients of pairwise scores, one flat array per connection.

        The item is None for a connection without messages.
        """
        raise NotImplementedError

    def _pair_moments(self, trace: Trace, expected: list) -> list[Any]:
        """Return the moments of pairs of free nodes, one flat array per connection.

        `expected` has the state probabilities of each layer, multiplied by the row weights.
        """
        raise NotImplementedError

    # ----------------------------------------------------------------- backward

    def gradient(self, trace: Trace, d_output: np.ndarray) -> LayeredParams:
        """Return the gradient of a function of the output beliefs with respect to all parameters.

        The gradient is summed over the rows. `trace` comes from ``run(..., keep=True)``. `d_output`
        (n_outputs, (k - 1) n) is the derivative of the function with respect to the output beliefs.
        """
        n, inputs = trace.n, trace.inputs
        depth = self.structure.depth
        d_weights = self._zero_weights(inputs.missing is not None)
        d_unaries = [np.zeros_like(u) for u in self.unaries]
        d_fields = {
            layer: np.zeros((self.structure.n_nodes[layer], width * n), self.dtype)
            for layer, width in self._layers_with_inputs()
        }
        d_beliefs: list[Any] = [None] * depth + [d_output]
        state = None
        # When the loop reaches t, `d_beliefs` holds the derivatives with respect to the beliefs of
        # iteration t + 1.
        for t in range(trace.n_iter, -1, -1):
            if t > 0:
                self._one_pass_vjp(trace, t + 1, d_beliefs, d_weights)
            for layer, d in enumerate(d_beliefs):
                if d is not None:
                    d_unaries[layer] += _lane_sums(d, n)
            if t == 0:
                break
            for layer, d_field in d_fields.items():
                if d_beliefs[layer] is not None:
                    d_field += d_beliefs[layer]
            if t == 1 and trace.first is not None:
                d_beliefs = [None if d is None else _lane_sums(d, n) for d in d_beliefs]
                state = None if state is None else {k: _lane_sums(d, n) for k, d in state.items()}
                trace, n = trace.first, 1
            d_before = [None if b is None else np.zeros_like(b) for b in trace.beliefs[t]]
            state = self._iterate_vjp(trace, t, d_beliefs, d_before, d_weights, state)
            d_beliefs = d_before
        flat = self._finish(d_weights)
        self._add_input_gradients(flat, inputs, d_fields)
        return self.structure.params(d_unaries, flat)

    def _layers_with_inputs(self):
        """Return pairs (layer, number of states - 1) for the layers connected to the input."""
        connections = self.structure.connections
        layers = {c.target: c.n_right_states - 1 for c in connections if c.source == 0}
        return layers.items()

    def _add_input_gradients(self, flat, inputs, d_fields):
        """Add gradients through observed inputs to `flat`, a list of gradients per connection.

        `d_fields` maps each layer to the derivatives with respect to the scores that inputs add to
        this layer.
        """
        for c, connection in enumerate(self.structure.connections):
            if connection.source == 0:
                found = self._input_gradient(c, inputs, d_fields[connection.target])
                flat[c] = found if flat[c] is None else flat[c] + found

    def _input_gradient(self, c, inputs, d_field):
        """Return the gradient of the weights of connection c, as a flat array or a `RowSparse`.

        `d_field` has the derivatives with respect to the scores that inputs add through connection
        c. Only the gradient of connection 0 may be a `RowSparse`.
        """
        connection = self.structure.connections[c]
        n = inputs.means.shape[0]
        if connection.dense:
            d = d_field.reshape(-1, n)
            if sparse.issparse(inputs.means) and c > 0:
                return np.ascontiguousarray(inputs.means.T @ d.T).ravel()
            if sparse.issparse(inputs.means):
                return _sparse_products(inputs.means, d)
            return (inputs.means.T @ d.T).ravel()
        return self._products(c, _lanes(inputs.means, connection.n_left), d_field, n)

    def moments(self, trace: Trace, row_weight: np.ndarray) -> LayeredParams:
        """Return the moments of a complete run, summed over the rows with weights `row_weight`.

        The moments are the gradient of log Z, approximated by the beliefs.
        """
        free, held = self._means_of_nodes(trace, row_weight)
        means = [f if h is None else f + h for f, h in zip(free, held, strict=True)]
        unaries = [
            np.zeros_like(u) if m is None else _lane_sums(m, trace.n)
            for u, m in zip(self.unaries, means)
        ]
        flat = self._pairs(trace, free, held)
        self._add_input_gradients(flat, trace.inputs, dict(enumerate(means)))
        return self.structure.params(unaries, flat)

    def pair_moments(self, trace: Trace, row_weight: np.ndarray) -> list[Any]:
        """Sum the moments of pairs of free nodes over rows; return one flat array per connection.

        The items of connections to the input are None if all inputs are observed.
        """
        return self._pairs(trace, *self._means_of_nodes(trace, row_weight))

    def _means_of_nodes(self, trace, row_weight):
        """Return two lists by layer: state probabilities of the free and of the clamped nodes.

        The probabilities are multiplied by the row weights.
        """
        n = trace.n
        weight = row_weight.astype(self.dtype)
        free: list[Any] = []
        held: list[Any] = [None] * (self.structure.depth + 1)
        for layer, belief in enumerate(trace.beliefs[-1]):
            if belief is None:
                free.append(None)
                continue
            means = probabilities(belief, n)[:, 1:] * weight
            mask = trace.mask(layer)
            if mask is not None:
                means *= mask[:, None, :]
            free.append(np.ascontiguousarray(means).reshape(belief.shape))
            if trace.inputs.held is not None and trace.inputs.held.states[layer] is not None:
                states = trace.inputs.held.states[layer]
                held[layer] = (states.reshape(len(states), -1, n) * weight).reshape(belief.shape)
        return free, held

    def _pairs(self, trace, free, held):
        """Return the moments of all pairs of nodes, one flat array per connection.

        `free` and `held` are the results of `_means_of_nodes`.
        """
        flat = self._pair_moments(trace, free)
        for c, connection in enumerate(self.structure.connections):
            a, b = connection.source, connection.target
            # Add products of means, because a clamped node is independent of its neighbours.
            # Multiply only one of the two means by the weight of the row.
            if held[a] is not None:
                right = free[b] if held[b] is None else free[b] + held[b]
                flat[c] = flat[c] + self._products(c, trace.inputs.held.states[a], right, trace.n)
            if held[b] is not None and free[a] is not None:
                states = trace.inputs.held.states[b]
                flat[c] = flat[c] + self._products(c, free[a], states, trace.n)
        return flat

    def _products(self, c, left, right, n):
        """Return the product of two state means for each pairwise score, summed over the rows.

        `left` and `right` are the means of the nodes on both sides of connection c.
        """
        connection = self.structure.connections[c]
        if connection.dense:
            return (left.reshape(-1, n) @ right.reshape(-1, n).T).ravel()
        sums = np.zeros_like(self.tables[c])
        expected_fields_vjp(
            left,
            self.tables[c],
            connection.left,
            connection.right,
            connection.table,
            right,
            np.empty((0, 0), self.dtype),
            sums,
        )
        return sums.ravel()


def probabilities(belief: np.ndarray, n: int) -> np.ndarray:
    """Convert log-odds in n rows to probabilities (n_nodes, n_states, n).

    The log-odds (n_nodes, (n_states - 1) n) lack the reference state 0.
    """
    scores = belief.reshape(len(belief), -1, n)
    scores = np.concatenate([np.zeros((len(belief), 1, n), belief.dtype), scores], axis=1)
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def _lane_sums(a, n):
    """Sum an array (n_nodes, (n_states - 1) n) over the n rows."""
    # einsum is faster than sum(axis=2) if there are few rows.
    return np.einsum("isr->is", a.reshape(len(a), a.shape[1] // n, n))


def _sparse_products(means, d):
    """Return the products of `means` (n, M), a CSR matrix, and `d` (H, n), summed over the n rows.

    The result is a `RowSparse` if there are many products and at most half of the columns of
    `means` have entries, else a flat array.
    """
    n, n_columns = means.shape
    if n_columns * len(d) >= ROW_SPARSE_WEIGHTS:
        rows = columns_used(means)
        if 2 * len(rows) <= n_columns:
            number = np.empty(n_columns, means.indices.dtype)
            number[rows] = np.arange(len(rows))
            parts = means.data, number[means.indices], means.indptr
            few = sparse.csr_matrix(parts, shape=(n, len(rows)))
            return RowSparse(rows, np.ascontiguousarray(few.T @ d.T), n_columns)
    return np.ascontiguousarray(means.T @ d.T).ravel()


def _lanes(means, n_nodes):
    """Convert input means (n, D * (l - 1)) to the layout (D, (l - 1) * n) of the kernels.

    There are n rows and D input nodes with l states.
    """
    if sparse.issparse(means):
        means = means.toarray()
    return np.ascontiguousarray(means.T).reshape(n_nodes, -1)
