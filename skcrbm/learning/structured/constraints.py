"""Convert the constraints `forbidden`, of a graph model and of single graphs, to arrays of bools.

A constraint excludes classes of a node, or pairs of classes at the two nodes of an edge. The
log-weights of excluded classes and pairs are -inf, so every exact answer respects the constraints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from skcrbm.energies.pairwise_classes import pairwise_classes
from skcrbm.energies.ranges import RangeModel
from skcrbm.inference.base import ContradictionError
from skcrbm.inference.contradictions import contradicted_models
from skcrbm.inference.running import run_inference
from skcrbm.learning.structured.constraint_search import Arc, ConstraintSearch, OutOfStepsError
from skcrbm.learning.structured.graph import GraphBatch, kind_of_graphs
from skcrbm.learning.structured.rows import no_labels
from skcrbm.targets.codes import MISSING, LabelCoder
from skcrbm.utils.warnings import warn_user


def forbidden_pairs(forbidden: Any, classes: np.ndarray, directed: bool) -> np.ndarray | None:
    """Return an array (K, K), True for the pairs in `forbidden`; None if `forbidden` is empty.

    If `directed` is False, both orders of a pair are forbidden. If several types of nodes have a
    class of the same name, a pair with this name refers to the class of each of these types. A
    ValueError is raised if an item is not a pair of classes.
    """
    if not forbidden:
        return None
    names = classes.tolist()
    table = np.zeros((len(names), len(names)), bool)
    for item in forbidden:
        if isinstance(item, str) or not isinstance(item, Sequence) or len(item) != 2:
            raise ValueError(f"`forbidden` should hold pairs of classes, got {item!r}")
        ends = [np.array([name == end for name in names], bool) for end in item]
        for end, found in zip(item, ends):
            if not found.any():
                raise ValueError(
                    f"`forbidden` holds the label {end!r}, which is not a class of the model: "
                    f"{', '.join(map(repr, names[:10]))}{' ...' if len(names) > 10 else ''}"
                )
        table |= np.outer(*ends)
    return table if directed else table | table.T


def closed_classes(arrays: Any, coder: LabelCoder) -> np.ndarray | None:
    """Return an array (T, K) of nodes and classes, True if the graph of the node forbids the class.

    `arrays` are the `GraphArrays` of all graphs, and `coder` codes the labels of the model.
    The result is None if no graph forbids a class.
    """
    if arrays.forbidden is None:
        return None
    nodes, labels = arrays.forbidden
    types = None if arrays.types is None else arrays.types[nodes]
    closed = np.zeros((arrays.start[-1], len(coder.classes)), bool)
    closed[nodes, coder.codes(labels, types, "forbidden")] = True
    return closed


def require_possible(
    batch: GraphBatch,
    forbidden: np.ndarray | None,
    first: np.ndarray | None,
    n_classes: int,
    name: str,
) -> None:
    """Raise a NoLabelsError if no labels of a graph agree with constraints and known labels.

    `forbidden` (K, K) is True for forbidden pairs, and `first` holds the first class of each type
    of nodes, as in `GraphModel`. `name` is the name of the known labels in the error message.

    If the nodes with unknown labels form a graph that is too wide for variable elimination, a
    search looks for labels. A warning names the graphs for which the search ends without a result.
    """
    if forbidden is None and batch.closed is None:
        return
    undecided: set[int] = set()
    pairs = np.zeros((n_classes, n_classes), bool) if forbidden is None else forbidden
    for piece in batch.pieces(n_classes**2):
        for find_labels in (_allow_one_class, _labelled_greedily):  # the faster search comes first
            piece = piece.take(np.flatnonzero(~find_labels(piece, pairs, first)))
            if not len(piece):
                break
        if not len(piece) or not _contradicted(piece, pairs, first, undecided):
            continue
        for graph in piece.single():
            if _contradicted(graph, pairs, first, undecided):
                raise no_labels(graph, name)
    if undecided:
        shown = ", ".join(map(str, sorted(undecided)[:10]))
        more = f" and {len(undecided) - 10} more" if len(undecided) > 10 else ""
        several = len(undecided) > 1
        warn_user(
            f"The search for labels that agree with `forbidden` ended without a result for "
            f"{'graphs' if several else 'graph'} {shown}{more} of X: it found neither labels nor a "
            "proof that there are none. If there are none, approximate probabilities of the "
            f"{'graphs have' if several else 'graph have'} no meaning."
        )


def _contradicted(piece, pairs, first, undecided):
    """Return True if the constraints exclude all labels of a graph in a part of a batch.

    The numbers of graphs for which the search ends without a result are added to `undecided`.
    """
    energy = _constraints(piece, pairs, first)
    if contradicted_models(energy)[0]:
        return True
    n_classes = len(pairs) if first is None else int(np.diff(first).max())
    kind = kind_of_graphs(_free_graph(piece), n_classes) if pairs.any() else "forest"
    if kind == "wide" and len(piece) > 1:
        return any(_contradicted(graph, pairs, first, undecided) for graph in piece.single())
    if kind == "wide":
        try:
            return ConstraintSearch(*_sets_and_arcs(piece, pairs, first)).labels() is None
        except OutOfStepsError:
            undecided.add(int(piece.index[0]))
            return False
    if kind == "forest":  # the answer of `contradicted_models` is exact
        return False
    try:
        run_inference(energy, "exact", returns="map")
    except ContradictionError:
        return True
    return False


def _constraints(piece, pairs, first):
    """Return a model of the graphs in which all labels have weight 1 or, if excluded, weight 0.

    The known labels of the nodes are the evidence of the model.
    """
    a = piece.arrays
    scores = np.zeros((len(piece.path), len(pairs)))
    tables = np.repeat(np.where(pairs, -np.inf, 0.0)[None], len(a.edges), axis=0)
    known = np.where(piece.path == MISSING, np.nan, piece.path)
    if first is None:
        energy = pairwise_classes(scores, a.edges, tables, closed=piece.closed)
    else:
        begin, size = first[:-1][a.types], np.diff(first)[a.types]
        energy = RangeModel(scores, a.edges, tables, begin, size, piece.closed).energy
        known = known - begin
    return energy.condition(known[None])


def _allow_one_class(piece, pairs, first):
    """Return a mask (n,): True if all unknown nodes of a graph may have the same class.

    These graphs need no search for a contradiction, which takes longer. With types of nodes, which
    have different classes, the mask is False.
    """
    a, possible = piece.arrays, np.zeros(len(piece), bool)
    if first is not None:
        return possible
    node_graph = np.repeat(np.arange(len(piece)), np.diff(a.start))
    edge_graph = np.repeat(np.arange(len(piece)), np.diff(a.edge_start))
    for k in range(len(pairs)):
        path = np.where(piece.path == MISSING, k, piece.path)
        agrees = np.ones(len(piece), bool)
        agrees[edge_graph[pairs[path[a.edges[:, 0]], path[a.edges[:, 1]]]]] = False
        if piece.closed is not None:
            agrees[node_graph[piece.closed[np.arange(len(path)), path]]] = False
        possible |= agrees
        if possible.all():
            break
    return possible


def _labelled_greedily(piece, pairs, first):
    """Return a mask (n,): True if a greedy search finds possible labels of the graph.

    The search visits the neighbours of visited nodes first. Each node gets the first class that the
    visited neighbours allow. If a node has no such class, the search gives up, although the graph
    may have possible labels.
    """
    left, near = _sets_and_arcs(piece, pairs, first)
    a, known = piece.arrays, piece.path != MISSING
    failed, visited, queue = [], known.tolist(), np.flatnonzero(known).tolist()
    for root in range(-1, len(left)):  # the search from known labels comes first, with root -1
        if root >= 0:
            queue = [] if visited[root] else [root]
            visited[root] = True
        for v in queue:  # the queue grows
            if not left[v]:
                failed.append(v)
                continue
            k = (left[v] & -left[v]).bit_length() - 1
            left[v] = 1 << k
            for u, allowed in near[v]:
                left[u] &= allowed[k]
                if not visited[u]:
                    visited[u] = True
                    queue.append(u)
    found = np.ones(len(piece), bool)
    found[np.searchsorted(a.start, failed, side="right") - 1] = False
    return found


def _sets_and_arcs(piece, pairs, first):
    """Return the set of classes that each node may have, and the arcs of each node.

    The arguments are the same as in `require_possible`. A set is an integer with a bit for each
    class.
    """
    a, path = piece.arrays, piece.path
    left = np.ones((len(path), len(pairs)), bool) if piece.closed is None else ~piece.closed
    if first is not None:
        left = left & (np.repeat(np.arange(len(first) - 1), np.diff(first)) == a.types[:, None])
    free = (path == MISSING)[:, None]
    near: list[list[Arc]] = [[] for _ in path]
    to_second, to_first = _bits(~pairs), _bits(~pairs.T)
    for i, j in a.edges.tolist():
        near[i].append(Arc(j, to_second))
        near[j].append(Arc(i, to_first))
    return _bits(left & ((np.arange(len(pairs)) == path[:, None]) | free)), near


def _bits(sets):
    """Return each row of an array of bools as an integer, with bit k for column k."""
    rows = np.packbits(sets, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in rows]


def _free_graph(piece):
    """Return the part of a batch without cliques and without the edges at known labels.

    Cliques exclude no labels, and an edge at a known label only excludes classes of its other node.
    """
    a = piece.arrays
    free = (piece.path[a.edges] == MISSING).all(axis=1)
    edge_start = np.concatenate([[0], np.cumsum(free)])[a.edge_start]
    arrays = a._replace(edges=a.edges[free], Z=a.Z[free], edge_start=edge_start, cliques=())
    return replace(piece, arrays=arrays)
