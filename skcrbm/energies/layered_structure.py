"""Structure of layered graphical models: edges between nodes, and layout of the parameters.

Scores are negative energies. State 0 of a node is the reference: its unary score and the pairwise
scores that involve it are 0 and not stored (Shen et al. 2019, appendix A).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skcrbm.layers import Dense
from skcrbm.layers.layers import Layer
from skcrbm.utils.pickling import Versioned
from skcrbm.utils.row_sparse import RowSparse
from skcrbm.utils.validation import kernel_array


class Connection:
    """The edges between two layers.

    The right layer is closer to the output and is described by `layer`. `below` is the shape of the
    left layer. `source` and `target` are the indices of the left and of the right layer.
    """

    def __init__(
        self,
        layer: Layer,
        below: tuple[int, ...],
        n_left_states: int,
        n_right_states: int,
        source: int,
        target: int,
    ):
        self.source, self.target = source, target
        # Number (n_left,) of edges from each left node to nodes nearer to the output, in all
        # connections other than this one; the number 0 if no skip starts at the left layer.
        self.other_degree: Any = 0
        self.layer = layer
        self.below = tuple(below)
        self.shape = layer.shape(below)
        self.n_left, self.n_right = int(np.prod(below)), int(np.prod(self.shape))
        self.n_left_states, self.n_right_states = n_left_states, n_right_states
        self.dense = isinstance(layer, Dense)
        if not self.dense and len(self._edges.left) == 0:
            raise ValueError(f"{layer} has no edges to a layer of shape {self.below}")

    @cached_property
    def _edges(self):
        return self.layer.edges(self.below)

    @cached_property
    def left(self) -> np.ndarray:
        """Left node (E,) of each edge."""
        return kernel_array(self._edges.left, np.int64)

    @cached_property
    def right(self) -> np.ndarray:
        """Right node (E,) of each edge."""
        return kernel_array(self._edges.right, np.int64)

    @cached_property
    def table(self) -> np.ndarray:
        """Index (E,) of the table that holds the pairwise scores of each edge."""
        return kernel_array(self._edges.table, np.int64)

    @property
    def n_tables(self) -> int:
        """Number of tables of pairwise scores."""
        return self.n_left * self.n_right if self.dense else self._edges.n_tables

    @property
    def n_weights(self) -> int:
        """Number of pairwise parameters."""
        return self.n_tables * (self.n_left_states - 1) * (self.n_right_states - 1)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return self.n_tables if self.dense else len(self.left)

    @property
    def mean_degrees(self) -> tuple[float, float]:
        """Mean number of neighbours of a right node, and of a left node."""
        return self.n_edges / self.n_right, self.n_edges / self.n_left

    @cached_property
    def edge_appearance(self) -> np.ndarray:
        """Probability (E,) of each edge to belong to a random tree, for tree-reweighted inference.

        A random tree keeps a single edge of each left node. This edge is drawn uniformly from all
        edges of the node to layers nearer to the output.
        """
        return 1.0 / (self.left_degree + self.other_degree)[self.left]

    @cached_property
    def left_degree(self) -> np.ndarray:
        """Number of edges of each left node in this connection, (n_left,)."""
        return np.bincount(self.left, minlength=self.n_left)

    @cached_property
    def reweighting(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Distinct pairs of a table and an edge appearance probability, as three arrays.

        Each of the E edges has a table of pairwise scores and an appearance probability rho. The
        first array (E,) holds for each edge the index of its pair (table, rho) in the list of
        distinct pairs, and the other two arrays hold the table and the rho of each distinct pair.
        """
        degree = np.rint(1.0 / self.edge_appearance).astype(np.int64)
        base = degree.max() + 1
        keys, pair = np.unique(self.table * base + degree, return_inverse=True)
        return kernel_array(pair, np.int64), keys // base, 1.0 / (keys % base)

    def tables(self, weights: np.ndarray) -> np.ndarray:
        """Return flat pairwise scores as tables (n_tables, l - 1, k - 1).

        A left node has l states, and a right node has k states. The flat scores of a dense
        connection have the axes [i, x, j, y], for state x of left node i and state y of right
        node j. In this order they can be used as the matrix of a linear map without a copy.
        """
        l, k = self.n_left_states - 1, self.n_right_states - 1
        if not self.dense:
            return weights.reshape(self.n_tables, l, k)
        by_edge = weights.reshape(self.n_left, l, self.n_right, k).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(by_edge).reshape(self.n_tables, l, k)

    def flat(self, tables: np.ndarray) -> np.ndarray:
        """Return tables as flat pairwise scores; this is the inverse of `tables`."""
        if not self.dense:
            return tables.ravel()
        l, k = self.n_left_states - 1, self.n_right_states - 1
        return tables.reshape(self.n_left, self.n_right, l, k).transpose(0, 2, 1, 3).ravel()

    @property
    def n_units(self) -> tuple[int, int]:
        """Total number of units (states other than 0) of the left nodes and of the right nodes."""
        return (
            self.n_left * (self.n_left_states - 1),
            self.n_right * (self.n_right_states - 1),
        )

    def matrix(self, weights: np.ndarray) -> Any:
        """Return pairwise scores as the matrix (n_left (l - 1), n_right (k - 1)) of a linear map.

        A left node has l states, and a right node has k states. The matrix is an ndarray for a
        dense connection, and a CSR array for other connections.
        """
        if self.dense:
            return weights.reshape(self.n_units)
        l, k = self.n_left_states - 1, self.n_right_states - 1
        tables = self.tables(weights)[self.table]
        rows = self.left[:, None, None] * l + np.arange(l)[:, None]
        columns = self.right[:, None, None] * k + np.arange(k)
        rows, columns, _ = np.broadcast_arrays(rows, columns, tables)
        places = rows.ravel(), columns.ravel()
        return sparse.csr_array((tables.ravel(), places), shape=self.n_units)

    def sum_tables(self, matrix: np.ndarray) -> np.ndarray:
        """Sum the entries of `matrix` over the edges that share a table, and return the tables.

        The argument has the shape that the method `matrix` returns.
        """
        if self.dense:
            return self.tables(matrix)
        l, k = self.n_left_states - 1, self.n_right_states - 1
        pairs = matrix.reshape(self.n_left, l, self.n_right, k)[self.left, :, self.right]
        total = np.zeros((self.n_tables, l, k), matrix.dtype)
        np.add.at(total, self.table, pairs)
        return total


class LayeredStructure(Versioned):
    """Layers from the input to the output, with the connections between neighbouring layers.

    Parameters
    ----------
    layers : sequence of Dense, Local2d or Conv2d
        Hidden layers, from the input to the output.
    input_shape : tuple of int
        Shape of the input layer: (n_features,), (height, width) or (height, width, channels).
    n_input_states : int
        Number of states of an input node.
    n_outputs, n_output_states : int
        Number of output nodes, and number of states of each output node.
    skips : sequence of (int, int), default=()
        Pairs (a, b) of layers that are also connected, with an edge from each node of layer a to
        each node of layer b. Layer 0 is the input, and b must be at least a + 2.
    output_states : array-like of int (n_outputs,), default=None
        Number of states of each output node, from 1 to `n_output_states`. None means that each
        output node has `n_output_states` states. A node with fewer states keeps parameters for the
        states that it lacks. The scores of these states are always 0, and `possible` is False.

    Attributes
    ----------
    connections : list of Connection
        Connection c < depth is between layers c and c + 1; layer 0 is the input. The connections of
        the skips follow.
    n_nodes, n_states : list of int
        Number of nodes of each layer, and number of states of the nodes of each layer.
    depth : int
        Index of the output layer, the number of connections without skips.
    possible : ndarray of bool (n_outputs, n_output_states), or None
        True for the states that an output node has; None if the nodes have all states.

    Raises
    ------
    ValueError
        If a layer does not fit the shape of the layer below it, or a skip is invalid.

    Examples
    --------
    >>> from skcrbm.energies import LayeredStructure
    >>> from skcrbm.layers import Conv2d, Dense
    >>> layers = [Conv2d(3, kernel_size=3, stride=2), Dense(10)]
    >>> structure = LayeredStructure(layers, (8, 8), 2, n_outputs=1, n_output_states=4)
    >>> structure.n_nodes
    [64, 9, 10, 1]
    """

    _warns_of_version = False

    _saved = ("layers", "connections", "n_states", "n_nodes", "depth", "skips")

    possible: np.ndarray | None = None

    def __init__(
        self,
        layers: Sequence[Layer],
        input_shape: Sequence[int],
        n_input_states: int,
        n_outputs: int,
        n_output_states: int,
        skips: Sequence[tuple[int, int]] = (),
        output_states: Any = None,
    ):
        self.layers = (*layers, Dense(n_outputs, max(n_output_states, 2)))
        states = [n_input_states, *(layer.n_states for layer in layers), n_output_states]
        self.connections = []
        shape = tuple(input_shape)
        for c, (layer, left, right) in enumerate(zip(self.layers, states[:-1], states[1:])):
            self.connections.append(Connection(layer, shape, left, right, c, c + 1))
            shape = self.connections[-1].shape
        self.n_states = states
        self.n_nodes = [int(np.prod(input_shape)), *(c.n_right for c in self.connections)]
        self.depth = len(self.connections)
        if output_states is not None:
            self.possible = np.arange(n_output_states) < np.asarray(output_states)[:, None]
        self.skips = checked_skips(skips, self.depth)
        for a, b in self.skips:
            layer = Dense(self.n_nodes[b], max(states[b], 2))
            self.connections.append(
                Connection(layer, (self.n_nodes[a],), states[a], states[b], a, b)
            )
        if self.skips:
            for c in self.connections:
                others = [d for d in self.connections if d.source == c.source and d is not c]
                c.other_degree = sum((d.left_degree for d in others), np.zeros(c.n_left, int))

    @property
    def n_message_entries(self) -> int:
        """Number of entries of the tables of all edges that do not start at an input node."""
        return sum(
            c.n_edges * c.n_left_states * c.n_right_states for c in self.connections if c.source
        )

    @cached_property
    def inner(self) -> list[int]:
        """Indices of the connections that do not start at the input layer."""
        return [c for c, connection in enumerate(self.connections) if connection.source > 0]

    @cached_property
    def weight_slices(self) -> list[slice]:
        """Slice of `LayeredParams.weights` for each connection except connection 0."""
        return _slices([c.n_weights for c in self.connections[1:]])

    @cached_property
    def unit_slices(self) -> list[Any]:
        """Slices of the units (states other than 0) of each layer, with None for the input.

        The units of the output layer come first, followed by the units of the hidden layers.
        """
        sizes = [n * (s - 1) for n, s in zip(self.n_nodes[1:], self.n_states[1:])]
        output, *hidden = _slices([sizes[-1], *sizes[:-1]])
        return [None, *hidden, output]

    @cached_property
    def unary_slices(self) -> list[slice]:
        """For each layer, the slice of its scores in `LayeredParams.unaries`."""
        return _slices([n * (s - 1) for n, s in zip(self.n_nodes, self.n_states)])

    def unaries(self, params: LayeredParams) -> list[np.ndarray]:
        """Return the unary scores (n_nodes, n_states - 1) of each layer."""
        return [
            params.unaries[part].reshape(n, s - 1)
            for part, n, s in zip(self.unary_slices, self.n_nodes, self.n_states)
        ]

    def weights(self, params: LayeredParams) -> list[np.ndarray]:
        """Return the flat pairwise scores of each connection."""
        return [params.input_weights, *(params.weights[part] for part in self.weight_slices)]

    def params(self, unaries: Sequence[np.ndarray], weights: Sequence[Any]) -> LayeredParams:
        """Join scores of layers and connections to `LayeredParams`.

        This is the inverse of the methods `unaries` and `weights`. The weights of the first
        connection may be `RowSparse`. Scores of states that an output node lacks become 0.
        """
        if self.possible is not None:
            unaries, weights = self._without_impossible(list(unaries), list(weights))
        empty = np.empty(0, weights[0].dtype)
        return LayeredParams(
            weights[0] if isinstance(weights[0], RowSparse) else weights[0].ravel(),
            np.concatenate([empty, *(w.ravel() for w in weights[1:])]),
            np.concatenate([u.ravel() for u in unaries]),
        )

    def _without_impossible(self, unaries, weights):
        """Set the scores of the states that an output node lacks to 0."""
        assert self.possible is not None
        possible = self.possible[:, 1:]
        unaries[-1] = unaries[-1] * possible
        for c, connection in enumerate(self.connections):
            # A `RowSparse` is the gradient of a model without hidden layers. Its entries for states
            # that a node lacks are 0 already, because these states have no probability.
            if connection.target == self.depth and not isinstance(weights[c], RowSparse):
                by_state = weights[c].reshape(-1, *possible.shape)
                weights[c] = (by_state * possible).ravel()
        return unaries, weights


def checked_skips(skips: Any, depth: int) -> tuple[tuple[int, int], ...]:
    """Return skips as a tuple of pairs; raise a ValueError if they are invalid.

    `depth` is the index of the output layer.
    """
    checked = []
    for pair in skips:
        try:
            a, b = (operator.index(layer) for layer in pair)
        except (TypeError, ValueError):
            a, b = -1, -1
        if not (0 <= a <= b - 2 and b <= depth) or (a, b) in checked:
            raise ValueError(
                f"skips must hold different pairs (a, b) of layers with a <= b - 2, from the input "
                f"(0) to the output ({depth}); got {pair!r}"
            )
        checked.append((a, b))
    return tuple(checked)


def _slices(sizes):
    return [slice(a, b) for a, b in pairwise(accumulate(sizes, initial=0))]


class LayeredParams(NamedTuple):
    """Parameters of a layered model, as flat arrays that take few operations to update."""

    input_weights: Any  # ndarray: pairwise scores of the connection to the input layer
    weights: Any  # ndarray: pairwise scores of the other connections, in order
    unaries: Any  # ndarray: unary scores of the nodes of each layer, starting with the input
