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

from skcrbm._kernels.layered_messages import expected_fields, expected_fields_vjp


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
    n_iter : int
        Iterations done: no more than it takes to get the same output.
    beliefs : list of list of ndarray (n_nodes, (n_states - 1) n) or None
        ``beliefs[t][layer]``, log-odds against state 0, None where not needed. The last
        entry, n_iter + 1, holds the result.
    forward, backward : list of list of ndarray (E, (n_states - 1) n) or None
        ``forward[t][c]``, messages along connection c toward the output, and back.
    edges : list of _Edges or None
        Per connection, for methods with messages.
    first : Trace or None
        Iteration 1 done for one row, where all rows share it.
    """

    inputs: LayeredInput
    complete: bool
    n_iter: int
    beliefs: list
    forward: list
    backward: list
    edges: list | None = None
    first: Any = None

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
        n_iter = self.n_iter if complete else self._sufficient(inputs)
        trace = Trace(inputs, complete, n_iter, [None, base], [], [])
        self._start(trace, n)
        field = self._input_field(inputs, n)
        later = [b + field if layer == 1 else b for layer, b in enumerate(base)]
        if inputs.missing is None and inputs.output_scores is None:
            self._share_first_iteration(trace, field)
        for t in range(len(trace.beliefs) - 1, n_iter + 1):
            beliefs = [
                b.copy() if b is not None and self._needed(layer, t, trace) else None
                for layer, b in enumerate(later)
            ]
            self._iterate(trace, t, beliefs)
            trace.beliefs.append(beliefs)
            if not keep:
                for past in (trace.beliefs, trace.forward, trace.backward):
                    if len(past) > 2:
                        past[-3] = None
        return trace

    def _share_first_iteration(self, trace, field):
        """Do iteration 1 for one row: before the inputs have been seen, all rows are alike."""
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
        if trace.beliefs[2][1] is not None:
            trace.beliefs[2][1] += field
        for mine, shared in ((trace.forward, first.forward), (trace.backward, first.backward)):
            mine.extend(for_all_rows(messages) for messages in shared[1:])

    def _sufficient(self, inputs):
        """Return how many of the iterations change the output at all."""
        return self.n_iter

    def _needed(self, layer, t, trace):
        """Whether what reaches a layer in iteration t can reach the output in time."""
        return trace.complete or t + self.structure.depth - layer <= trace.n_iter

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
        n, inputs = trace.n, trace.inputs
        depth = self.structure.depth
        d_weights = self._zero_weights()
        d_unaries = [np.zeros_like(u) for u in self.unaries]
        d_field = np.zeros((self.structure.n_nodes[1], self.unaries[1].shape[1] * n), self.dtype)
        d_beliefs = [None] * depth + [d_output]
        state = None
        for t in range(trace.n_iter, -1, -1):  # beliefs of time t + 1
            for layer, d in enumerate(d_beliefs):
                if d is not None:
                    d_unaries[layer] += _lane_sums(d, n)
            if t == 0:
                break
            if d_beliefs[1] is not None:
                d_field += d_beliefs[1]
            if t == 1 and trace.first is not None:
                d_beliefs = [None if d is None else _lane_sums(d, n) for d in d_beliefs]
                state = None if state is None else {k: _lane_sums(d, n) for k, d in state.items()}
                trace, n = trace.first, 1
            d_before = [None if b is None else np.zeros_like(b) for b in trace.beliefs[t]]
            state = self._iterate_vjp(trace, t, d_beliefs, d_before, d_weights, state)
            d_beliefs = d_before
        flat = self._finish(d_weights)
        flat[0] = flat[0] + self._input_gradient(inputs, d_field)
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


def probabilities(belief, n):
    """Probabilities (n_nodes, n_states, n) of log-odds (n_nodes, (n_states - 1) n)."""
    scores = belief.reshape(len(belief), -1, n)
    scores = np.concatenate([np.zeros((len(belief), 1, n), belief.dtype), scores], axis=1)
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def _lane_sums(a, n):
    """Sum over the n rows of an array (n_nodes, (n_states - 1) n)."""
    return a.reshape(len(a), a.shape[1] // n, n).sum(axis=2)


def _lanes(means, n_nodes):
    """Input means (n, D (l - 1)) as (D, (l - 1) n)."""
    if sparse.issparse(means):
        means = means.toarray()
    return np.ascontiguousarray(means.T).reshape(n_nodes, -1)
