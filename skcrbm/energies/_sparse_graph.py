"""Graph of a sparse Ising model, with the neighbours and colours of its variables."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from skcrbm.utils.graphs import min_fill
from skcrbm.utils.pickling import Versioned

# Largest number of variables in a block of `ColourLanes`.
_LANES = 64
# All variables of a block are padded to the same number of neighbours. To limit the padding,
# variables share a block only if they have at most this number of neighbours, or if their numbers
# of neighbours differ by less than a factor of 2.
_FEW_NEIGHBOURS = 8


class Neighbours(NamedTuple):
    """The edges of a graph in both directions, as CSR arrays of int64."""

    start: np.ndarray  # (L + 1,): variable i has the directed edges start[i] to start[i + 1] - 1
    variables: np.ndarray  # (2 E,): end of each directed edge, in increasing order for each i
    edge: np.ndarray  # (2 E,): index of the undirected edge
    reverse: np.ndarray  # (2 E,): index of the directed edge in the opposite direction


class ColourLanes(NamedTuple):
    """Memory layout for vectorised sweeps over variables, which are sorted by colour.

    The sorted variables are divided into B blocks. The variables of a block have the same colour,
    so they can be updated together. The place of a variable is its position in the sorted order.
    The layout stores an entry for each neighbour of a variable. Empty entries are added until all
    variables of a block have equally many entries. Entry d of the l-th variable of block b is at
    position ``entry[b] + d * (size of the block) + l``.
    """

    order: np.ndarray  # (L,) int64, variables sorted by colour
    first: np.ndarray  # (B + 1,) int64, place of the first variable of each block
    entry: np.ndarray  # (B + 1,) int64, position of the first entry of each block
    neighbour: np.ndarray  # (n_entries,) int32, place of the neighbour
    edge: np.ndarray  # (n_entries,) int64, index of the undirected edge, or E for empty entries


class SparseGraph(Versioned):
    """Edges of a graph and arrays derived from them, without couplings.

    Energies with the same edges share this object.
    """

    _warns_of_version = False

    _saved = ("edges", "n_variables")

    def __init__(self, edges: np.ndarray, n_variables: int):
        self.edges, self.n_variables = edges, n_variables

    @cached_property
    def neighbours(self) -> Neighbours:
        """The edges in both directions."""
        n_edges = len(self.edges)
        source, target = np.concatenate([self.edges, self.edges[:, ::-1]]).T
        order = np.lexsort((target, source))
        place = np.empty(2 * n_edges, np.int64)
        place[order] = np.arange(2 * n_edges)
        start = np.zeros(self.n_variables + 1, np.int64)
        np.cumsum(np.bincount(source, minlength=self.n_variables), out=start[1:])
        reverse = place[(order + n_edges) % (2 * n_edges)] if n_edges else order
        edge = order % n_edges if n_edges else order
        return Neighbours(start, np.ascontiguousarray(target[order]), edge, reverse)

    @cached_property
    def elimination(self):
        """Order in which the method "exact" eliminates the variables."""
        return min_fill(self.edges.tolist(), range(self.n_variables))

    @cached_property
    def colours(self) -> np.ndarray:
        """Colour of each variable (L,), by a greedy colouring; neighbours differ in colour."""
        lower, upper = self.edges.T
        end = np.searchsorted(lower, np.arange(1, self.n_variables + 1)).tolist()
        upper = upper.tolist()
        taken = [0] * self.n_variables  # bit c is 1 if a neighbour has colour c
        colours = np.empty(self.n_variables, np.int64)
        e = 0
        for v, last in enumerate(end):
            bit = ~taken[v] & (taken[v] + 1)
            colours[v] = bit.bit_length() - 1
            while e < last:
                taken[upper[e]] |= bit
                e += 1
        return colours

    @cached_property
    def blocks(self) -> tuple[np.ndarray, ...]:
        """Tuple that holds an index array with the variables of each colour."""
        n_colours = self.colours.max(initial=-1) + 1
        return tuple(np.flatnonzero(self.colours == colour) for colour in range(n_colours))

    @cached_property
    def lanes(self) -> ColourLanes:
        """Memory layout of the variables for vectorised sweeps in compiled kernels."""
        graph, n = self.neighbours, self.n_variables
        degree = np.diff(graph.start)
        size_class = np.where(degree > _FEW_NEIGHBOURS, np.frexp(degree)[1], 0)
        order = np.lexsort((-degree, size_class, self.colours))
        group = np.column_stack([self.colours, size_class])[order]
        new_group = np.ones(n, bool)
        new_group[1:] = (group[1:] != group[:-1]).any(axis=1)
        group_start = np.flatnonzero(new_group)[np.cumsum(new_group) - 1]
        new_block = (np.arange(n) - group_start) % _LANES == 0
        first = np.append(np.flatnonzero(new_block), n)
        block = np.cumsum(new_block) - 1
        size = np.diff(first)
        entry = np.append(0, np.cumsum(size * degree[order[first[:-1]]]))
        place = np.empty(n, np.int64)
        place[order] = np.arange(n)
        source = np.repeat(place, degree)
        which = np.arange(len(graph.variables)) - np.repeat(graph.start[:-1], degree)
        home = block[source]
        at = entry[home] + which * size[home] + source - first[home]
        neighbour = np.zeros(entry[-1], np.int32)
        neighbour[at] = place[graph.variables]
        edge = np.full(entry[-1], len(self.edges))
        edge[at] = graph.edge
        return ColourLanes(order, first, entry, neighbour, edge)
