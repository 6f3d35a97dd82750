"""Convert the constraints `forbidden`, of a graph model and of single graphs, to arrays of bools.

A constraint excludes classes of a node, or pairs of classes at the two nodes of an edge. The
log-weights of excluded classes and pairs are -inf, so every exact answer respects the constraints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skcrbm.energies.contradictions import contradicted_models
from skcrbm.energies.pairwise_classes import pairwise_classes
from skcrbm.energies.ranges import RangeModel
from skcrbm.learning.graphs import MISSING, GraphBatch


def forbidden_pairs(forbidden: Any, classes: np.ndarray, directed: bool) -> np.ndarray | None:
    """Return an array (K, K), True for the pairs in `forbidden`; None if `forbidden` is empty.

    If `directed` is False, both orders of a pair are forbidden. If several types of
    nodes have a class of the same name, a pair with this name refers to the class of each of these
    types. A ValueError is raised if an
    item is not a pair of classes.
    """
    if not forbidden:
        return None
    names = classes.tolist()
    table = np.zeros((len(names), len(names)), bool)
    for item in forbidden:
        if isinstance(item, str) or not isinstance(item, Sequence) or len(item) != 2:
            raise ValueError(f"forbidden should hold pairs of classes, got {item!r}")
        ends = [np.array([name == end for name in names], bool) for end in item]
        for end, found in zip(item, ends):
            if not found.any():
                raise ValueError(
                    f"forbidden holds the label {end!r}, which is not a class of the model: "
                    f"{', '.join(map(repr, names[:10]))}{' ...' if len(names) > 10 else ''}"
                )
        table |= np.outer(*ends)
    return table if directed else table | table.T


def closed_classes(arrays: Any, node_classes: Any) -> np.ndarray | None:
    """Return an array (T, K) of nodes and classes, True if the graph of the node forbids the class.

    `arrays` are the `GraphArrays` of all graphs, and `node_classes` the `NodeClasses` of the model.
    The result is None if no graph forbids a class.
    """
    if arrays.forbidden is None:
        return None
    nodes, labels = arrays.forbidden
    types = None if arrays.types is None else arrays.types[nodes]
    closed = np.zeros((arrays.start[-1], len(node_classes.classes)), bool)
    closed[nodes, node_classes.codes(labels, types, "forbidden")] = True
    return closed


def require_possible(
    batch: GraphBatch,
    forbidden: np.ndarray | None,
    first: np.ndarray | None,
    n_classes: int,
    name: str,
) -> None:
    """Raise a ValueError if no labels of a graph agree with the constraints and the known labels.

    `forbidden` (K, K) is True for forbidden pairs, and `first` holds the first class of each type
    of nodes, as in `GraphModel`. `name` is the name of the known labels in the error message. If
    labels of a graph with cycles are missing, the check may miss a contradiction.
    """
    if forbidden is None and batch.closed is None:
        return
    table = np.zeros((n_classes, n_classes))
    if forbidden is not None:
        table[forbidden] = -np.inf
    for piece in batch.pieces(n_classes**2):
        if not _contradicted(piece, table, first):
            continue
        for c in range(len(piece)):
            if _contradicted(piece.take(np.array([c])), table, first):
                raise ValueError(
                    f"graph {piece.index[c]} of X has no labels that agree with `forbidden` and "
                    f"with its labels in {name}"
                )


def _contradicted(piece, table, first):
    """Return True if the constraints exclude all labels of the graphs in a part of a batch."""
    a = piece.arrays
    scores = np.zeros((len(piece.path), len(table)))
    tables = np.repeat(table[None], len(a.edges), axis=0)
    known = np.where(piece.path == MISSING, np.nan, piece.path)
    if first is None:
        energy = pairwise_classes(scores, a.edges, tables, closed=piece.closed)
    else:
        begin, size = first[:-1][a.types], np.diff(first)[a.types]
        energy = RangeModel(scores, a.edges, tables, begin, size, piece.closed).energy
        known = known - begin
    return bool(contradicted_models(energy.condition(known[None]))[0])
