"""Define dense, local and convolutional layers, and their edges to the layer below."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from skcrbm.utils.pickling import Versioned
from skcrbm.utils.validation import check_count


class Edges(NamedTuple):
    """Edges between a layer and the layer below."""

    left: np.ndarray  # (E,) int, index of the node in the layer below
    right: np.ndarray  # (E,) int, index of the node in the layer itself
    table: np.ndarray  # (E,) int, index of the edge's table of pairwise scores
    n_tables: int  # number of tables, which is smaller than E if edges share tables (convolution)


class Layer(Versioned):
    """Base class of the layers."""

    _warns_of_version = False

    n_states: int

    def shape(self, below: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the nodes: (n_nodes,) or (height, width, n_channels).

        Parameters
        ----------
        below : tuple of int
            Shape of the layer below.

        Returns
        -------
        shape : tuple of int
            Shape of the nodes.
        """
        raise NotImplementedError

    def edges(self, below: tuple[int, ...]) -> Edges:
        """Return the `Edges` to the layer below, which has the shape `below`."""
        raise NotImplementedError


@dataclass(frozen=True)
class Dense(Layer):
    """Layer in which each node is connected to all nodes of the layer below.

    Parameters
    ----------
    n_nodes : int
        Number of nodes.
    n_states : int, default=2
        Number of states of each node; state 0 is the reference.

    Examples
    --------
    >>> from skcrbm.layers import Dense
    >>> Dense(100)
    Dense(n_nodes=100, n_states=2)
    """

    n_nodes: int
    n_states: int = 2

    def __post_init__(self):
        check_count("n_nodes", self.n_nodes, 1)
        check_count("n_states", self.n_states, 2)

    def shape(self, below: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the nodes: (n_nodes,)."""
        return (self.n_nodes,)

    def edges(self, below: tuple[int, ...]) -> Edges:
        """Return the `Edges` to the layer below, which has the shape `below`."""
        n_left = int(np.prod(below))
        left, right = np.divmod(np.arange(n_left * self.n_nodes), self.n_nodes)
        return Edges(left, right, np.arange(len(left)), len(left))


@dataclass(frozen=True)
class _Grid(Layer):
    """Layer of nodes on a grid; each node is connected to a window of the layer below."""

    n_states: int
    kernel_size: int | tuple[int, int]
    stride: int | tuple[int, int]
    n_channels: int = 1
    padding: int | tuple[int, int] = 0

    def __post_init__(self):
        check_count("n_states", self.n_states, 2)
        check_count("n_channels", self.n_channels, 1)
        _pair("kernel_size", self.kernel_size, 1)
        _pair("stride", self.stride, 1)
        _pair("padding", self.padding, 0)

    def shape(self, below: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the nodes: (height, width, n_channels)."""
        size = [
            (length + 2 * padding - kernel) // stride + 1
            for length, kernel, stride, padding in self._axes(below)
        ]
        if min(size) < 1:
            raise ValueError(
                f"{self} does not fit on a layer of shape {tuple(below)}: kernel_size is larger "
                "than the layer below including the padding"
            )
        return (*size, self.n_channels)

    def edges(self, below: tuple[int, ...]) -> Edges:
        """Return the `Edges` to the layer below, which has the shape `below`."""
        height, width, _ = self.shape(below)
        rows, columns = self._axes(below)
        n_below = below[2] if len(below) == 3 else 1
        y, x, dy, dx, c_below, c = np.meshgrid(
            np.arange(height),
            np.arange(width),
            np.arange(rows[1]),
            np.arange(columns[1]),
            np.arange(n_below),
            np.arange(self.n_channels),
            indexing="ij",
        )
        from_y = y * rows[2] + dy - rows[3]
        from_x = x * columns[2] + dx - columns[3]
        inside = (from_y >= 0) & (from_y < below[0]) & (from_x >= 0) & (from_x < below[1])
        left = ((from_y * below[1] + from_x) * n_below + c_below)[inside]
        right = ((y * width + x) * self.n_channels + c)[inside]
        window = (((dy * columns[1] + dx) * n_below + c_below) * self.n_channels + c)[inside]
        n_windows = rows[1] * columns[1] * n_below * self.n_channels
        return self._with_tables(left, right, window, n_windows)

    def _with_tables(self, left, right, window, n_windows):
        raise NotImplementedError

    def _axes(self, below):
        """Check the layer below; return (length, kernel, stride, padding) for each axis."""
        if len(below) not in (2, 3):
            raise ValueError(
                f"{self} needs a layer of shape (height, width) or (height, width, channels) below "
                f"it; got a layer of shape {tuple(below)}. Set input_shape, and put no Dense layer "
                "before it"
            )
        return list(
            zip(
                below[:2],
                _pair("kernel_size", self.kernel_size, 1),
                _pair("stride", self.stride, 1),
                _pair("padding", self.padding, 0),
            )
        )


@dataclass(frozen=True)
class Skip(Versioned):
    """Additional edges between two layers that are not neighbours.

    A skip is an item of the list of layers. It connects each node of the lower layer to each node
    of the upper layer. Skips create loops between layers.

    Parameters
    ----------
    lower : int
        Index of the lower layer: 0 for the input, 1 for the first hidden layer, and so on.
    upper : int
        Index of the upper layer, at least ``lower + 2``. The index of the output layer is the
        number of hidden layers plus 1.

    Examples
    --------
    >>> from skcrbm.layers import Dense, Skip
    >>> layers = (Dense(20), Skip(0, 2))  # layer 2 is the output
    """

    lower: int
    upper: int

    _warns_of_version = False

    def __post_init__(self):
        check_count("lower", self.lower, 0)
        check_count("upper", self.upper, self.lower + 2)


def split_skips(layers: Iterable) -> tuple[tuple, tuple[tuple[int, int], ...]]:
    """Return the layers without skips, and the skips as pairs of layer numbers."""
    layers = tuple(layers)
    skips = tuple((part.lower, part.upper) for part in layers if isinstance(part, Skip))
    return tuple(part for part in layers if not isinstance(part, Skip)), skips


@dataclass(frozen=True)
class Local2d(_Grid):
    """Layer of nodes on a grid; each node has its own scores for its window of the layer below.

    Parameters
    ----------
    n_states : int
        Number of states of each node; state 0 is the reference. The states play the role of the
        channels of a neural network.
    kernel_size : int or (int, int)
        Height and width of the window.
    stride : int or (int, int)
        Distance between the windows of neighbouring nodes, along each axis.
    n_channels : int, default=1
        Number of nodes at each position of the grid.
    padding : int or (int, int), default=0
        Width of an empty margin around the layer below, into which windows may reach. The margin
        has no nodes.

    Notes
    -----
    The grid has ``(length + 2 padding - kernel_size) // stride + 1`` positions along an axis.

    Examples
    --------
    >>> from skcrbm.layers import Local2d
    >>> Local2d(7, kernel_size=5, stride=2, padding=1).shape((28, 28))
    (13, 13, 1)
    """

    def _with_tables(self, left, right, window, n_windows):
        return Edges(left, right, np.arange(len(left)), len(left))


@dataclass(frozen=True)
class Conv2d(_Grid):
    """Layer of nodes on a grid, with the same pairwise scores at all positions of the grid.

    The parameters are the same as for `Local2d`.

    Examples
    --------
    >>> from skcrbm.layers import Conv2d
    >>> layer = Conv2d(17, kernel_size=5, stride=2)
    >>> layer.shape((13, 13, 1)), layer.edges((13, 13, 1)).n_tables
    ((5, 5, 1), 25)
    """

    def _with_tables(self, left, right, window, n_windows):
        return Edges(left, right, window, n_windows)


def _pair(name: str, value: Any, smallest: int) -> tuple[int, int]:
    """Check an integer (for both axes) or a pair of integers, and return a pair."""
    pair: Any = (value, value) if isinstance(value, Integral) else value
    # Lists are invalid, because a layer that holds a list would not be hashable.
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise ValueError(f"{name} must be an integer or a tuple of two integers, got {value!r}")
    for v in pair:
        check_count(name, v, smallest)
    return pair


def check_layers(layers: Iterable) -> None:
    """Raise a ValueError if an item of `layers` is not a layer."""
    for layer in layers:
        if not isinstance(layer, Layer):
            raise ValueError(
                f"layers must contain objects from skcrbm.layers such as Dense(100), got {layer!r}"
            )


def checked_input_shape(input_shape: Iterable[int] | None, n_features: int) -> tuple[int, ...]:
    """Return the shape of the input layer; raise a ValueError if its size is not `n_features`."""
    shape = (n_features,) if input_shape is None else tuple(input_shape)
    positive = all(isinstance(length, Integral) and int(length) > 0 for length in shape)
    if not positive or len(shape) not in (1, 2, 3) or math.prod(shape) != n_features:
        raise ValueError(
            "input_shape must be (height, width) or (height, width, channels), positive integers "
            f"whose product is the number of features of X ({n_features}); got {shape}"
        )
    return shape
