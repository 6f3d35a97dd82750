"""Convert lists of graphs to one matrix of nodes and one list of edges; make graphs from images."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from skcrbm.targets.sequences import GRAPH, SequenceRows, list_of
from skcrbm.utils.graphs import GraphArrays


class Graph(NamedTuple):
    """A graph with features of its nodes and, if wanted, of its edges.

    Attributes
    ----------
    nodes : array or sparse matrix (n_nodes, n_features), or list of dicts
        Features of each node.
    edges : array-like of int (n_edges, 2)
        Indices of the two nodes of each edge. The order of the two matters only for
        ``GraphCRF(directed=True)``.
    edge_features : array-like (n_edges, n_edge_features), default=None
        Features of each edge.

    Examples
    --------
    >>> from skcrbm import Graph
    >>> triangle = Graph([[0.5], [1.0], [0.2]], [[0, 1], [1, 2], [2, 0]])
    """

    nodes: Any
    edges: Any
    edge_features: Any = None


class GraphRows:
    """Converter of a list of graphs into `GraphArrays`."""

    def __init__(self):
        self.nodes = SequenceRows(GRAPH)
        self.n_edge_features: int | None = None

    def fit_transform(self, X: Any) -> GraphArrays:
        """Return the arrays, and store the numbers of features."""
        graphs = _graphs(X)
        rows, start = self.nodes.fit_transform([graph.nodes for graph in graphs])
        given = [graph.edge_features for graph in graphs if graph.edge_features is not None]
        self.n_edge_features = 0
        for features in given:
            shape = np.shape(features)
            if len(shape) == 2 and shape[0]:
                self.n_edge_features = shape[1]
                break
        return self._arrays(graphs, rows, start)

    def transform(self, X: Any) -> GraphArrays:
        """Return the arrays; raise a ValueError if the numbers of features differ from the fit."""
        graphs = _graphs(X)
        return self._arrays(graphs, *self.nodes.transform([graph.nodes for graph in graphs]))

    def _arrays(self, graphs, rows, start):
        edges, features = [], []
        for i, (graph, (first, end)) in enumerate(zip(graphs, pairwise(start))):
            found = _edges_of(graph, i, end - first)
            edges.append(found + first)
            features.append(self._features_of(graph, i, len(found)))
        edge_start = np.concatenate([[0], np.cumsum([len(part) for part in edges])])
        return GraphArrays(rows, start, np.concatenate(edges), edge_start, np.concatenate(features))

    def _features_of(self, graph, i, n_edges):
        """Return the features (n_edges, E) of the edges of graph number i."""
        width = self.n_edge_features
        if graph.edge_features is None or n_edges == 0:
            if width and n_edges:
                raise ValueError(
                    f"graph {i} of X has no edge_features, but other graphs have {width} features "
                    "of each edge"
                )
            return np.zeros((n_edges, width or 0))
        found = check_array(
            graph.edge_features, dtype=np.float64, input_name=f"edge_features of graph {i} of X",
            ensure_min_features=0, ensure_2d=False, allow_nd=True,
        )  # fmt: skip
        if found.shape != (n_edges, width):
            raise ValueError(
                f"edge_features of graph {i} of X should have the shape ({n_edges}, {width}), "
                f"(n_edges, n_edge_features), got {found.shape}"
            )
        return found


def _graphs(X):
    """Return the graphs of X as a list of `Graph`, or raise a ValueError."""
    graphs = []
    if isinstance(X, Graph):
        raise ValueError("X should be a list of graphs, got a single graph; pass [graph]")
    for i, graph in enumerate(list_of(X, "X", "graphs")):
        if not isinstance(graph, tuple) or not 2 <= len(graph) <= 3:
            raise ValueError(
                f"graph {i} of X should be a skcrbm.Graph or a tuple (nodes, edges) or (nodes, "
                f"edges, edge_features), got {type(graph).__name__}"
            )
        graphs.append(Graph(*graph))
    return graphs


def _edges_of(graph, i, n_nodes):
    """Return the edges (m, 2) of graph number i, int64, or raise a ValueError."""
    edges = np.asarray(graph.edges)
    if edges.size == 0:
        return np.empty((0, 2), np.int64)
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise ValueError(
            f"edges of graph {i} of X should be integers of shape (n_edges, 2), got {edges.dtype} "
            f"of shape {edges.shape}"
        )
    wrong = (edges < 0) | (edges >= n_nodes)
    if wrong.any():
        e = int(np.flatnonzero(wrong.any(axis=1))[0])
        raise ValueError(
            f"edge {e} of graph {i} of X joins the nodes {edges[e].tolist()}, but the graph has "
            f"the nodes 0 to {n_nodes - 1}"
        )
    loops = np.flatnonzero(edges[:, 0] == edges[:, 1])
    if len(loops):
        raise ValueError(f"edge {loops[0]} of graph {i} of X joins a node with itself")
    return edges.astype(np.int64)


# -------------------------------------------------------------------------------- images

# Steps to half of the neighbours in an image, the edges of each node to later nodes.
_STEPS = {4: ((0, 1), (1, 0)), 8: ((0, 1), (1, 0), (1, 1), (1, -1))}


def grid_graph(
    image: ArrayLike,
    *,
    neighbours: int = 4,
    contrast: bool = True,
    directions: bool = False,
    features: ArrayLike | None = None,
) -> Graph:
    """Return the graph of an image, with a node per pixel and edges between neighbouring pixels.

    Parameters
    ----------
    image : array-like (height, width) or (height, width, n_channels)
        Values of the pixels.
    neighbours : {4, 8}, default=4
        Number of neighbours of a pixel: 8 adds the diagonals.
    contrast : bool, default=True
        If True, each edge has the feature ``exp(-d / m)``, where d is the squared difference of the
        two pixels and m the mean of d over the image. It is near 0 at borders, so that a model can
        learn that neighbours across a border need not agree.
    directions : bool, default=False
        If True, each edge has one more feature per direction, which is 1 for the edge's direction:
        to the right, down, and with 8 neighbours down to the right and down to the left.
    features : array-like (height, width, n_features), default=None
        Features of the nodes. None takes the values of the pixels.

    Returns
    -------
    Graph
        Node ``r * width + c`` is the pixel in row r and column c, so that ``labels.ravel()`` are
        the labels of the nodes.

    Raises
    ------
    ValueError
        If an array has a wrong shape, or `neighbours` is neither 4 nor 8.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm import grid_graph
    >>> graph = grid_graph(np.eye(3))
    >>> graph.nodes.shape, graph.edges.shape, graph.edge_features.shape
    ((9, 1), (12, 2), (12, 1))
    """
    pixels = np.asarray(image, np.float64)
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.ndim != 3 or 0 in pixels.shape:
        raise ValueError(
            "image should have the shape (height, width) or (height, width, n_channels), got "
            f"{np.shape(image)}"
        )
    if not np.isfinite(pixels).all():
        raise ValueError("image contains NaN or infinity")
    if not isinstance(neighbours, int) or neighbours not in _STEPS:
        raise ValueError(f"neighbours must be 4 or 8, got {neighbours!r}")
    height, width = pixels.shape[:2]
    number = np.arange(height * width).reshape(height, width)
    edges, kinds = [], []
    for kind, (down, right) in enumerate(_STEPS[neighbours]):
        left, stop = max(0, -right), width - max(0, right)
        begin = number[: height - down, left:stop]
        end = number[down:, left + right : stop + right]
        edges.append(np.column_stack([begin.ravel(), end.ravel()]))
        kinds.append(np.full(begin.size, kind))
    edges, kinds = np.concatenate(edges), np.concatenate(kinds)
    flat = pixels.reshape(height * width, -1)
    columns = []
    if contrast:
        scaled = flat / max(np.abs(flat).max(), np.finfo(float).tiny)  # squares do not overflow
        squared = ((scaled[edges[:, 0]] - scaled[edges[:, 1]]) ** 2).sum(axis=1)
        mean = squared.mean() if len(squared) else 0.0
        columns.append(np.exp(-squared / mean) if mean > 0 else np.ones(len(edges)))
    if directions:
        columns += [(kinds == kind).astype(np.float64) for kind in range(len(_STEPS[neighbours]))]
    nodes = flat
    if features is not None:
        given = np.asarray(features, np.float64)
        if given.ndim != 3 or given.shape[:2] != (height, width):
            raise ValueError(
                f"features should have the shape ({height}, {width}, n_features), got {given.shape}"
            )
        nodes = given.reshape(height * width, -1)
    return Graph(nodes, edges, np.column_stack(columns) if columns else None)
