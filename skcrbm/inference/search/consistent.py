"""Branch and bound that makes the tables consistent at each node (soft local consistency)."""

from __future__ import annotations

import heapq

import numpy as np

from skcrbm.kernels.consistent_search import (
    DepthLimits,
    SavedNodes,
    SearchArrays,
    search_consistent,
)
from skcrbm.kernels.search_tables import SearchTables

# Largest total number of table entries that are stored for all nodes on a path.
_ALL_ENTRIES = 2**25
# A change of a belief is propagated to other tables only if the change is larger than this share of
# the difference between the bound and the best score.
_SHARE = 0.01
# Largest number of closed nodes (failures) after which a depth-first search ends.
_MOST_FAILURES = 10_000


class ConsistentSearch:
    """Hybrid best-first branch and bound, which shifts log-weights between tables.

    Shifting log-weights lowers the bound and excludes states. A node of the search tree decides
    either that a variable has a certain state, or that it does not have this state. The search
    takes the open node with the highest bound, and searches the subtree of this node depth-first
    until a number of nodes have been closed. It then adds the nodes on its path that are still open
    to the set of open nodes, and takes the next open node.

    Attributes
    ----------
    bound : float
        Upper bound of the score of all states.
    """

    def __init__(
        self, graph: SearchTables, entries: np.ndarray, belief: np.ndarray, bound: float, tol: float
    ):
        """Search the states of `graph`, from shifted `entries` and beliefs (n, K) of its states."""
        top = np.maximum.reduceat(entries, graph.first)
        sizes = np.diff(np.append(graph.first, len(entries)))
        self._model = graph
        self._graph = graph._replace(entries=entries - np.repeat(top, sizes))
        absent = np.arange(belief.shape[1]) >= graph.n_states[:, None]
        self._belief = np.where(absent, -np.inf, belief)
        self._belief -= self._belief.max(axis=1, keepdims=True)
        self.bound, self._root, self._tol = bound, bound, tol
        self._n_entries = len(self._graph.entries) + self._belief.size
        depth = int(max(2, min(len(self._belief), _ALL_ENTRIES // self._n_entries)))
        self._saved = SavedNodes(
            np.empty((depth, *self._belief.shape)),
            np.empty((depth, len(self._graph.entries))),
            np.empty(depth),
            np.empty(depth, np.int64),
        )
        self._path = np.empty((self._belief.size + 1, 3), np.int32)
        self._weight = np.diff(self._graph.variable_start).astype(np.float64)
        # Heap of open nodes. Each node is a tuple: minus the bound, minus the number of decisions,
        # a counter, True if the last decision is reversed, and the array of the decisions. If
        # bounds are equal, the node with more decisions is taken first.
        self._open = [(-bound, 0, 0, False, self._path[:0].copy())]
        self._count, self._failures = 0, 1

    @property
    def done(self) -> bool:
        """True if the best state found is proven to be the best of all states."""
        return not self._open

    def run(self, best: np.ndarray, value: float, n_nodes: int) -> tuple[float, int]:
        """Continue the search until about `n_nodes` nodes are used.

        If a state with a score above `value` is found, it is written to `best`. Return the best
        score and the number of used nodes. To measure the work, sixteen visited table entries count
        as a node.
        """
        limit, work = 16 * n_nodes, np.zeros(2, np.int64)
        while self._open and work[0] < limit:
            bound, length, _, reverse, decisions = heapq.heappop(self._open)
            bound, length = -bound, -length
            if bound <= value + self._tol:
                self._open = []
                break
            self._path[:length] = decisions[:length]
            if reverse:
                self._path[length - 1, 2] = 0
            work[0] += self._n_entries
            depth, length, last, value = search_consistent(
                self._model,
                self._graph,
                SearchArrays(
                    self._belief.copy(), self._graph.entries.copy(), self._path, self._weight,
                    best, work,
                ),
                self._saved,
                DepthLimits(self._tol, self._n_entries, _SHARE, limit, self._failures),
                self._root,
                length,
                value,
            )  # fmt: skip
            bounds, n_before = self._saved.bound[:depth], self._saved.n_before[:depth]
            longest = length if work[1] else int(n_before[-1]) + 1 if depth else 0
            decisions = self._path[:longest].copy()
            if work[1]:
                self._keep(min(last, bound), length, False, decisions)
            for above, n in zip(bounds, n_before, strict=True):
                self._keep(min(above, bound), int(n) + 1, True, decisions)
            self._failures = min(_MOST_FAILURES, 2 * self._failures)
        top = -self._open[0][0] if self._open else value + self._tol
        self.bound = min(self.bound, max(top, value))
        return value, int(work[0]) // 16

    def _keep(self, bound, length, reverse, decisions):
        self._count += 1
        heapq.heappush(self._open, (-float(bound), -length, self._count, reverse, decisions))
