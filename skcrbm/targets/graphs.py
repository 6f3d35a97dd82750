"""Convert a list of graphs to one array of nodes and one array of edges; make image graphs."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sized
from itertools import pairwise, product
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from skcrbm.targets.codes import codes_of, find_classes, is_missing, refuse_text_of_missing
from skcrbm.targets.feature_names import ColumnNames, column_names
from skcrbm.targets.pixels import pixel_values
from skcrbm.targets.sequences import (
    GRAPH,
    FeatureIndex,
    SequenceRows,
    first_text,
    is_empty,
    list_of,
    refuse_unclear_table,
)
from skcrbm.utils.graphs import Cliques, GraphArrays
from skcrbm.utils.validation import check_index


class Graph(NamedTuple):
    """A graph whose nodes have features; its edges may have features, too.

    Attributes
    ----------
    nodes : array or sparse matrix (n_nodes, n_features), or list of dicts
        Features of each node.
    edges : array-like of int (n_edges, 2)
        Indices of the two nodes of each edge. The order of the two nodes matters only to models of
        directed edges.
    edge_features : array-like (n_edges, n_edge_features), default=None
        Features of each edge.
    node_types : array-like (n_nodes,), default=None
        Type of each node, a string or an integer, for example "word" and "sentence". Each type has
        its own classes and weights, and each pair of types has its own weights of edges. If `nodes`
        holds a list of numbers for each node, the types may have different numbers of features.
    cliques : list of sequences of int, default=None
        Sets of three or more nodes, as indices, whose classes are weighted together: all cliques of
        the same size share a table of weights. The order of the nodes of a clique matters.
    forbidden : list of pairs, default=None
        Pairs ``(node, class)`` of the index of a node and a class that the node must not have. To
        force a class, pass it as the label in `y` or `y_known`.

    Examples
    --------
    >>> from skcrbm import Graph
    >>> triangle = Graph([[0.5], [1.0], [0.2]], [[0, 1], [1, 2], [2, 0]])
    """

    nodes: Any
    edges: Any
    edge_features: Any = None
    node_types: Any = None
    cliques: Any = None
    forbidden: Any = None


class GraphRows:
    """Converter of a list of graphs into `GraphArrays`.

    If `directed` is False, the edges (0, 1) and (1, 0) of a graph are the same edge. `owner` is the
    name of the estimator in warnings.
    """

    def __init__(self, directed: bool = False, owner: str = "the model"):
        self.directed = directed
        self.nodes = SequenceRows(GRAPH, owner)
        self.edge_columns = ColumnNames(owner, "edge_features", "edge_features of {} {} of X")
        self.ends = ColumnNames(owner, "edges", "edges of {} {} of X")  # the columns of edges
        self.n_edge_features: int | None = None
        self.types: NodeTypes | None = None  # None if the nodes have no types
        self.sizes: tuple[int, ...] = ()  # sizes of cliques

    @property
    def index(self) -> FeatureIndex | None:
        """Columns of the named features of nodes; None if nodes are arrays."""
        return self.nodes.index

    @property
    def names(self) -> np.ndarray | None:
        """Names of the features of nodes; None without names."""
        return self.nodes.names

    def fit_transform(self, X: Any, types: Any = None, sizes: Iterable[int] = ()) -> GraphArrays:
        """Return the arrays, and store the numbers of features and the types of nodes.

        `types` lists all types; None takes the types of the nodes in X. `sizes` are the sizes of
        cliques that later graphs may have, in addition to the sizes in X.
        """
        graphs = _graphs(X)
        if types is not None or any(graph.node_types is not None for graph in graphs):
            self.types = NodeTypes(graphs, types)
            graphs = self.types.padded(graphs)
        rows, start = self.nodes.fit_transform([graph.nodes for graph in graphs])
        self.sizes = tuple(sorted({*sizes, *(len(c) for graph in graphs for c in graph.cliques)}))
        given = _edge_tables(graphs)
        self.edge_columns.learn(given, GRAPH.whole)
        self.ends.learn(_frames_of_edges(graphs), GRAPH.whole)
        self.n_edge_features = next((np.shape(t)[1] for t in given if t is not None), 0)
        return self._arrays(graphs, rows, start)

    def transform(self, X: Any) -> GraphArrays:
        """Return the arrays; raise a ValueError unless the numbers of features are as in `fit`."""
        graphs = _graphs(X)
        if self.types is not None:
            graphs = self.types.padded(graphs, self.nodes.n_features)
        elif any(graph.node_types is not None for graph in graphs):
            raise ValueError("X has node_types, but the model was fitted without node_types")
        self.edge_columns.check(_edge_tables(graphs), GRAPH.whole)
        if self.ends.names is not None:
            self.ends.check(_frames_of_edges(graphs), GRAPH.whole)
        return self._arrays(graphs, *self.nodes.transform([graph.nodes for graph in graphs]))

    def _arrays(self, graphs, rows, start):
        edges, features = [], []
        for i, (graph, (first, end)) in enumerate(zip(graphs, pairwise(start))):
            found = _edges_of(graph, i, end - first, self.directed)
            edges.append(found + first)
            features.append(self._features_of(graph, i, len(found)))
        edge_start = np.concatenate([[0], np.cumsum([len(part) for part in edges])])
        types = None if self.types is None else self.types.codes(graphs, np.diff(start))
        edges, features = np.concatenate(edges), np.concatenate(features)
        cliques = _cliques_of(graphs, start, self.sizes)
        forbidden = _forbidden_of(graphs, start)
        return GraphArrays(rows, start, edges, edge_start, features, types, cliques, forbidden)

    def _features_of(self, graph, i, n_edges):
        """Return the features (n_edges, E) of the edges of the graph with index i."""
        width = self.n_edge_features
        if graph.edge_features is None or n_edges == 0:
            if width and n_edges:
                raise ValueError(
                    f"graph {i} of X has no edge_features, but other graphs have {width} features "
                    "of each edge"
                )
            return np.zeros((n_edges, width or 0))
        refuse_unclear_table(graph.edge_features, f"edge_features of graph {i} of X")
        names = f"X[{i}].edge_features", f"X[{i}].edges"
        check_index(graph.edges, graph.edge_features, *names)
        if (text := first_text(np.asarray(graph.edge_features))) is not None:
            raise ValueError(
                f"edge_features of graph {i} of X should be numbers, but edge {text[0]} has a text"
            )
        found = check_array(
            graph.edge_features, dtype=np.float64, input_name=f"edge_features of graph {i} of X",
            ensure_min_features=0, ensure_2d=False, allow_nd=True,
        )  # fmt: skip
        if found.shape != (n_edges, width):
            raise ValueError(
                f"edge_features of graph {i} of X should have the shape (n_edges, "
                f"n_edge_features) = ({n_edges}, {width}), got {found.shape}"
            )
        return found


def _frames_of_edges(graphs):
    """Return the edges of each graph if they are a data frame with names of columns, else None."""
    return [graph.edges if column_names(graph.edges) is not None else None for graph in graphs]


def _edge_tables(graphs):
    """Return the `edge_features` of each graph, or None for a graph without them.

    A ValueError is raised if they do not have two dimensions.
    """
    tables: list[Any] = []
    for i, graph in enumerate(graphs):
        shape = () if graph.edge_features is None else np.shape(graph.edge_features)
        if shape in ((), (0,)):
            tables.append(None)
            continue
        if len(shape) != 2:
            advice = "; for a single feature write np.reshape(edge_features, (-1, 1))"
            raise ValueError(
                f"edge_features of graph {i} of X should have the shape (n_edges, "
                f"n_edge_features), got {shape}{advice if len(shape) == 1 else ''}"
            )
        tables.append(graph.edge_features if shape[0] else None)
    return tables


def _cliques_of(graphs, start, sizes):
    """Return the `Cliques` of each size, or raise a ValueError."""
    # For each size, the nodes of each clique of this size, and the index of the clique's graph.
    found: dict[int, tuple[list, list]] = {size: ([], []) for size in sizes}
    for i, (graph, (first, end)) in enumerate(zip(graphs, pairwise(start.tolist()))):
        seen: dict[tuple, int] = {}
        for c, nodes in enumerate(graph.cliques):
            before = seen.setdefault(tuple(nodes), c)
            if before < c:
                raise ValueError(
                    f"cliques {before} and {c} of graph {i} of X both hold the nodes {nodes}; list "
                    "each clique once, because a repeated clique would count twice"
                )
            place = f"clique {c} of graph {i} of X"
            if len(nodes) < 3 or len(set(nodes)) < len(nodes):
                raise ValueError(f"{place} should be three or more different nodes, got {nodes}")
            if min(nodes) < 0 or max(nodes) >= end - first:
                raise ValueError(
                    f"{place} joins the nodes {nodes}, but the graph has the nodes 0 to "
                    f"{end - first - 1}"
                )
            if len(nodes) not in found:
                fitted = f"with cliques of {list(sizes)} nodes" if sizes else "without cliques"
                raise ValueError(
                    f"{place} has {len(nodes)} nodes, but the model was fitted {fitted}"
                )
            scopes, owner = found[len(nodes)]
            scopes.append([first + v for v in nodes])
            owner.append(i)
    parts = []
    for size, (scopes, owner) in found.items():
        counts = np.bincount(np.array(owner, np.int64), minlength=len(graphs))
        array = np.array(scopes, np.int64).reshape(-1, size)
        parts.append(Cliques(array, np.concatenate([[0], np.cumsum(counts)])))
    return tuple(parts)


def _forbidden_of(graphs, start):
    """Return the nodes (R,) and the R classes of the pairs (node, class) in all graphs, or None."""
    if all(graph.forbidden is None for graph in graphs):
        return None
    nodes, classes = [], []
    for i, (graph, (first, end)) in enumerate(zip(graphs, pairwise(start.tolist()))):
        pairs = () if graph.forbidden is None else graph.forbidden
        if (
            isinstance(pairs, (str, bytes, Mapping))
            or hasattr(pairs, "columns")
            or not (isinstance(pairs, Iterable) and isinstance(pairs, Sized))
        ):
            raise ValueError(
                f"forbidden of graph {i} of X should be a list of pairs (node, class), got "
                f"{type(pairs).__name__}"
            )
        for pair in pairs:
            try:
                node, name = operator.index(pair[0]), pair[1]
                valid = len(pair) == 2 and 0 <= node < end - first and not is_missing(name)
            except (TypeError, IndexError, KeyError):
                valid = False
            if not valid:
                raise ValueError(
                    f"forbidden of graph {i} of X should hold pairs (node, class), with nodes from "
                    f"0 to {end - first - 1}, got {pair!r}"
                )
            nodes.append(first + node)
            classes.append(name)
    return np.array(nodes, np.int64), classes


class NodeTypes:
    """Types of the nodes of graphs, and the number of features of each type."""

    def __init__(self, graphs: list[Graph], types: Any = None):
        found = [_types_of(graph, i) for i, graph in enumerate(graphs)]
        known = [kind for part in found for kind in part] if types is None else list(types)
        self.names = find_classes(known, "node_types", given=True)
        self.widths: dict[Any, int] = {}
        for graph, part in zip(graphs, found):
            for kind, node in zip(part, graph.nodes if _lists_numbers(graph.nodes) else ()):
                self.widths.setdefault(kind, len(node))

    def codes(self, graphs: list[Graph], lengths: np.ndarray) -> np.ndarray:
        """Return the index (T,) in `names` of the type of each node of all graphs."""
        parts = []
        for i, (graph, length) in enumerate(zip(graphs, lengths.tolist())):
            part = _types_of(graph, i)
            if len(part) != length:
                raise ValueError(
                    f"node_types of graph {i} of X has {len(part)} entries, but the graph has "
                    f"{length} nodes"
                )
            parts += part
        return codes_of(parts, self.names, "node_types")

    def padded(self, graphs: list[Graph], n_features: int | None = None) -> list[Graph]:
        """Return the graphs, and convert nodes that are lists of numbers to arrays of equal width.

        Nodes of types with fewer features get zeros in the last columns. `n_features` is the number
        of columns in the fit, or None during the fit.
        """
        width = max(self.widths.values(), default=0) if n_features is None else n_features
        found = []
        for i, graph in enumerate(graphs):
            if _lists_numbers(graph.nodes):
                rows = np.zeros((len(graph.nodes), width))
                for v, (kind, node) in enumerate(zip(_types_of(graph, i), graph.nodes)):
                    if len(node) != self.widths.get(kind, len(node)) or len(node) > width:
                        raise ValueError(
                            f"node {v} of graph {i} of X has {len(node)} features, but nodes of "
                            f"type {kind!r} have {self.widths.get(kind, width)} features"
                        )
                    rows[v, : len(node)] = node
                graph = graph._replace(nodes=rows)
            found.append(graph)
        return found


def _types_of(graph, i):
    """Return the types of the nodes of the graph with index i as a list."""
    if graph.node_types is None and is_empty(graph.nodes):
        return []
    if graph.node_types is None:
        raise ValueError(f"graph {i} of X has no node_types, but other graphs have node_types")
    types = graph.node_types
    if np.ndim(types) != 1:
        raise ValueError(
            f"node_types of graph {i} of X should be a sequence with a type for each node, got "
            f"{types!r}"
        )
    check_index(graph.nodes, types, f"X[{i}].node_types", f"X[{i}].nodes")
    refuse_text_of_missing(types, f"node_types of graph {i} of X")
    types = types.tolist() if isinstance(types, np.ndarray) else list(types)
    if any(is_missing(kind) for kind in types):
        raise ValueError(f"node_types of graph {i} of X has missing entries")
    return types


def _lists_numbers(nodes):
    """Return True if nodes are a list with a list or an array of numbers for each node."""
    if not isinstance(nodes, (list, tuple)) or not nodes:
        return False
    return all(
        isinstance(node, (list, tuple, np.ndarray)) and not any(isinstance(v, str) for v in node)
        for node in nodes
    )


def _graphs(X):
    """Return the graphs of X as a list of `Graph`, or raise a ValueError."""
    graphs = []
    if isinstance(X, Graph):
        raise ValueError("X should be a list of graphs, got a single graph; pass [graph]")
    for i, graph in enumerate(list_of(X, "X", "graphs")):
        if not isinstance(graph, tuple) or not 2 <= len(graph) <= len(Graph._fields):
            raise ValueError(
                f"graph {i} of X should be a skcrbm.Graph or a tuple (nodes, edges) or (nodes, "
                f"edges, edge_features), got {type(graph).__name__}"
            )
        graph = Graph(*graph)
        graphs.append(graph._replace(cliques=_lists_of_nodes(graph.cliques, i)))
    return graphs


def _lists_of_nodes(cliques, i):
    """Return the cliques of the graph with index i as lists of integers; None means no cliques."""
    cliques = () if cliques is None else cliques
    try:
        len(cliques)  # an iterator has no length; it would be empty when it is read again
        found = [[operator.index(node) for node in clique] for clique in cliques]
    except TypeError:
        raise ValueError(
            f"cliques of graph {i} of X should be a list of sequences of node indices, as in "
            f"[(0, 1, 2)], got {cliques!r}"
        ) from None
    return found


def _edges_of(graph, i, n_nodes, directed):
    """Return the edges (m, 2) of the graph with index i as int64, or raise a ValueError.

    If `directed` is False, the edges (0, 1) and (1, 0) are the same edge.
    """
    refuse_unclear_table(graph.edges, f"edges of graph {i} of X")
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
    edges = edges.astype(np.int64)
    ends = edges if directed else np.sort(edges, axis=1)
    key = ends[:, 0] * n_nodes + ends[:, 1]
    _, once = np.unique(key, return_index=True)
    if len(once) < len(edges):
        e = int(np.setdiff1d(np.arange(len(edges)), once)[0])
        before = int(np.flatnonzero(key[:e] == key[e])[0])
        raise ValueError(
            f"edges {before} and {e} of graph {i} of X both join the nodes {edges[e].tolist()}; "
            "list each edge once, because a repeated edge would count twice"
        )
    return edges


# -------------------------------------------------------------------------------- images

# Steps from a pixel to its neighbours, for each number of neighbours. Only neighbours that come
# later in the order of the nodes are listed, so that each pair of pixels gets one edge.
_STEPS = {
    4: ((0, 1), (1, 0)),
    8: ((0, 1), (1, 0), (1, 1), (1, -1)),
    6: ((0, 0, 1), (0, 1, 0), (1, 0, 0)),
    26: tuple(step for step in product((-1, 0, 1), repeat=3) if step > (0, 0, 0)),
}


def grid_graph(
    image: ArrayLike,
    *,
    neighbours: int = 4,
    contrast: bool = True,
    directions: bool = False,
    features: ArrayLike | None = None,
) -> Graph:
    """Return the graph of an image or a volume, with a node per pixel and edges between neighbours.

    Parameters
    ----------
    image : array-like (height, width) or (height, width, n_channels)
        Values of the pixels. If `neighbours` is 6 or 26, it is a volume of the shape (depth,
        height, width) or (depth, height, width, n_channels).
    neighbours : {4, 8, 6, 26}, default=4
        Number of neighbours of a pixel: 8 adds the diagonals. In a volume, 6 stands for neighbours
        along the axes, and 26 adds all diagonals.
    contrast : bool, default=True
        If True, each edge has the feature ``exp(-d / m)``, where d is the squared difference of the
        two pixels and m is the mean of d over the image. The feature is near 0 at borders, so that
        a model can learn that neighbours across a border need not agree.
    directions : bool, default=False
        If True, each edge has a 0/1 feature for each direction, which is 1 for the direction of the
        edge, so that a model can learn different weights for horizontal and vertical neighbours.
        The directions are right and down; if `neighbours` is 8 also down to the right, and down to
        the left. In a volume, a direction is a step (depth, row, column) to a pixel that comes
        later in the order of the nodes, such as (0, 0, 1), and the steps are in sorted order.
    features : array-like (height, width, n_features), default=None
        Features of the nodes, of the shape (depth, height, width, n_features) for a volume. None
        takes the values of the pixels.

    Returns
    -------
    Graph
        Nodes are the pixels in the order of ``labels.ravel()``: node ``r * width + c`` is the
        pixel in row r and column c of an image.

    Raises
    ------
    ValueError
        If an array has a wrong shape, or `neighbours` is not 4, 8, 6 or 26.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm import grid_graph
    >>> graph = grid_graph(np.eye(3))
    >>> graph.nodes.shape, graph.edges.shape, graph.edge_features.shape
    ((9, 1), (12, 2), (12, 1))
    """
    if not isinstance(neighbours, Integral) or neighbours not in _STEPS:
        raise ValueError(f"neighbours must be 4 or 8, or 6 or 26 for a volume, got {neighbours!r}")
    steps = _STEPS[int(neighbours)]
    n_axes = len(steps[0])
    axes = ("depth, height, width", "height, width")[n_axes == 2]
    pixels = _checked_pixels(image, n_axes, axes)
    shape = pixels.shape[:n_axes]
    number = np.arange(np.prod(shape)).reshape(shape)
    edges, kinds = [], []
    for kind, step in enumerate(steps):
        begin = number[tuple(slice(max(0, -s), n - max(0, s)) for s, n in zip(step, shape))]
        end = number[tuple(slice(max(0, s), n + min(0, s)) for s, n in zip(step, shape))]
        edges.append(np.column_stack([begin.ravel(), end.ravel()]))
        kinds.append(np.full(begin.size, kind))
    edges, kinds = np.concatenate(edges), np.concatenate(kinds)
    flat = pixels.reshape(number.size, -1)
    columns = [_contrast(flat, edges)] if contrast else []
    if directions:
        columns += [(kinds == kind).astype(np.float64) for kind in range(len(steps))]
    nodes = flat
    if features is not None:
        given = np.asarray(features, np.float64)
        if given.ndim != n_axes + 1 or given.shape[:n_axes] != shape:
            wanted = ", ".join(map(str, shape))
            raise ValueError(
                f"features should have the shape ({wanted}, n_features), got {given.shape}"
            )
        nodes = given.reshape(number.size, -1)
    return Graph(nodes, edges, np.column_stack(columns) if columns else None)


def _checked_pixels(image, n_axes, axes):
    """Return an image or volume as an array with a last axis for the channels."""
    try:
        pixels = pixel_values(image)
    except (TypeError, ValueError) as error:
        raise ValueError(f"image should hold numbers: {error}") from error
    if pixels.ndim == n_axes:
        pixels = pixels[..., None]
    if pixels.ndim != n_axes + 1 or 0 in pixels.shape:
        raise ValueError(
            f"image should have the shape ({axes}) or ({axes}, n_channels), got {np.shape(image)}"
        )
    if not np.isfinite(pixels).all():
        raise ValueError("image contains NaN or infinity")
    return pixels


def _contrast(flat, edges):
    """Return ``exp(-d / m)`` for each edge, where d is the squared difference of its two nodes."""
    scaled = flat / max(np.abs(flat).max(), np.finfo(float).tiny)  # avoids overflow of the squares
    squared = ((scaled[edges[:, 0]] - scaled[edges[:, 1]]) ** 2).sum(axis=1)
    mean = squared.mean() if len(squared) else 0.0
    return np.exp(-squared / mean) if mean > 0 else np.ones(len(edges))


def region_graph(
    image: ArrayLike,
    regions: ArrayLike,
    *,
    features: ArrayLike | None = None,
) -> Graph:
    """Return the graph of the regions (superpixels) of an image, with edges where regions touch.

    Parameters
    ----------
    image : array-like (height, width) or (height, width, n_channels)
        Values of the pixels.
    regions : array-like of int (height, width)
        Number of the region of each pixel, for example from ``skimage.segmentation.slic``. Regions
        are the nodes in the order of ``numpy.unique(regions)``.
    features : array-like (n_regions, n_features), default=None
        Features of the nodes. None takes the mean and the standard deviation of each channel in the
        region, the row and the column of the centre of the region (both scaled to 0 to 1), and the
        share of the pixels that belong to the region.

    Returns
    -------
    Graph
        Graph with an edge between two regions if a pixel of one region is among the 4 neighbours of
        a pixel of the other. An edge has two features. The first is the contrast ``exp(-d / m)`` of
        the mean values of the two regions, as in `grid_graph`. The second is the number of pairs of
        neighbouring pixels of the two regions, divided by the mean of this number over all edges.

    Raises
    ------
    ValueError
        If an array has a wrong shape, or `regions` does not hold integers.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm import region_graph
    >>> regions = np.repeat([[0, 1], [2, 2]], 3, axis=1)
    >>> graph = region_graph(np.arange(12.0).reshape(2, 6), regions)
    >>> graph.edges.tolist(), graph.nodes.shape
    ([[0, 1], [0, 2], [1, 2]], (3, 5))
    """
    pixels = _checked_pixels(image, 2, "height, width")
    given = np.asarray(regions)
    if given.shape != pixels.shape[:2] or given.dtype.kind not in "iu":
        raise ValueError(
            f"regions should hold integers of the shape {pixels.shape[:2]} of the image, got "
            f"{given.dtype} of shape {given.shape}"
        )
    names, region = np.unique(given, return_inverse=True)
    region = region.reshape(given.shape)
    count = np.bincount(region.ravel()).astype(np.float64)

    def mean(values):
        return np.bincount(region.ravel(), values.ravel()) / count

    means = np.column_stack([mean(channel) for channel in np.moveaxis(pixels, 2, 0)])
    pairs = [(region[:, :-1], region[:, 1:]), (region[:-1], region[1:])]
    touching = np.concatenate([np.column_stack([a.ravel(), b.ravel()]) for a, b in pairs])
    touching = np.sort(touching[touching[:, 0] != touching[:, 1]], axis=1)
    edges, length = np.unique(touching.reshape(-1, 2), axis=0, return_counts=True)
    borders = length / length.mean() if len(length) else np.empty(0)
    if features is None:
        away = pixels - means[region]
        spread = [np.sqrt(mean(channel)) for channel in np.moveaxis(away**2, 2, 0)]
        rows, columns = np.indices(region.shape)
        height, width = region.shape
        place = [mean(rows / max(height - 1, 1)), mean(columns / max(width - 1, 1))]
        nodes = np.column_stack([means, *spread, *place, count / region.size])
    else:
        nodes = np.asarray(features, np.float64)
        if nodes.ndim != 2 or len(nodes) != len(names):
            raise ValueError(
                f"features should have the shape ({len(names)}, n_features), a row for each "
                f"region, got {nodes.shape}"
            )
    return Graph(nodes, edges, np.column_stack([_contrast(means, edges), borders]))
