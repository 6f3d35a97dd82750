"""Pairwise models in which each node may be restricted to a range of states."""

from __future__ import annotations

import numpy as np

from skcrbm.energies._factors import TableFactors
from skcrbm.energies.graph import FactorGraphEnergy
from skcrbm.energies.pairwise_classes import closing_factors


class RangeModel:
    """Pairwise model of T nodes, each of which may be restricted to a range of the S states.

    The energy has a variable with fewer states for a restricted node, instead of a variable with
    all S states, some of which would have the weight 0.

    `scores` (T, S) are the log-weights of the states of each node. `tables` (M, S, S) are the
    log-weights of the pairs of states of the two nodes of each edge, and `edges` (M, 2) holds these
    nodes. Node i has the states ``begin[i]`` to ``begin[i] + size[i] - 1``, except for the states
    for which `closed` (T, S) is True.
    """

    def __init__(
        self,
        scores: np.ndarray,
        edges: np.ndarray,
        tables: np.ndarray,
        begin: np.ndarray,
        size: np.ndarray,
        closed: np.ndarray | None = None,
    ):
        self.shape = scores.shape
        self.begin = begin
        places = np.arange(int(size.max()))
        inside = places < size[:, None]
        # `_index` (T, k) holds the states in the range of each node, where k is the size of the
        # largest range. If the range of a node is shorter, the last columns of its row are not
        # used.
        self._index = np.where(inside, begin[:, None] + places, 0)
        self._inside = inside
        field = np.where(inside, np.take_along_axis(scores, self._index, axis=1), 0.0)
        self._groups, factors = [], []
        sizes = size[edges]
        for pair in np.unique(sizes, axis=0):
            chosen = np.flatnonzero((sizes == pair).all(axis=1))
            i, j = (begin[edges[chosen, side]][:, None] + np.arange(pair[side]) for side in (0, 1))
            index = chosen[:, None, None], i[:, :, None], j[:, None, :]
            self._groups.append(index)
            factors.append(TableFactors(edges[chosen], tables[index]))
        self._n_edges = len(edges)
        # The factors that forbid states of nodes come after the factors of the edges, so that the
        # first statistics belong to the edges, as `pair_marginals` expects.
        if closed is not None:
            inner = np.take_along_axis(closed, self._index, axis=1) & inside
            restricted = inner.any(axis=1)
            for n_states in np.unique(size[restricted]):
                nodes = np.flatnonzero(restricted & (size == n_states))
                factors.append(closing_factors(nodes, inner[nodes, :n_states]))
        self.energy = FactorGraphEnergy(factors, field[None], n_states=size)

    def states(self, assignment: np.ndarray) -> np.ndarray:
        """Add `begin` to states (..., T) of the energy, to obtain states from 0 to S - 1."""
        return self.begin + assignment.astype(np.int64)

    def marginals(self, found: np.ndarray) -> np.ndarray:
        """Convert marginals (T, k) of the energy to marginals (T, S) of all states.

        k is the size of the largest range. States outside the range of a node get 0.
        """
        full = np.zeros(self.shape)
        rows, columns = np.nonzero(self._inside)
        full[rows, self._index[rows, columns]] = found[rows, columns]
        return full

    def pair_marginals(self, entries: np.ndarray) -> np.ndarray:
        """Convert the "statistics" of inference to marginals (M, S, S) of the M edges."""
        full = np.zeros((self._n_edges, self.shape[1], self.shape[1]))
        first = 0
        for index in self._groups:
            shape = np.broadcast_shapes(*(part.shape for part in index))
            n = int(np.prod(shape))
            full[index] = entries[first : first + n].reshape(shape)
            first += n
        return full
