"""Arrays of graphs, cliques of variables, and elimination orders."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import chain, combinations
from math import comb, log2
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from skcrbm.utils.ragged import ranges

# Largest number of cliques in `cliques_of_sizes`. The index arrays of more cliques would take
# gigabytes.
MAX_CLIQUES = 10**7


class Cliques(NamedTuple):
    """Cliques of the same size m, stored one graph after the other."""

    scopes: np.ndarray  # int64 (C, m), nodes of each clique, as indices of rows of X
    start: np.ndarray  # (n + 1,), first clique of each graph


class GraphArrays(NamedTuple):
    """Features and edges of all graphs of a list, stored one graph after the other."""

    X: Any  # ndarray or CSR matrix (T, D), features of all nodes
    start: np.ndarray  # (n + 1,): graph c has the nodes start[c] to start[c + 1] - 1
    edges: np.ndarray  # int64 (M, 2), nodes of each edge, as indices of rows of X
    edge_start: np.ndarray  # (n + 1,), first edge of each graph
    Z: np.ndarray  # (M, E) features of the edges; E is 0 without features
    types: np.ndarray | None = None  # (T,) index of the type of each node; None without types
    cliques: tuple[Cliques, ...] = ()  # the cliques of each size
    # Nodes (R,) and a list of R classes (values of y, not codes). A node must not have the class at
    # the same position of the list. None if no class of a node is forbidden. `GraphBatch` stores
    # the same facts as an array of bools.
    forbidden: tuple[np.ndarray, list] | None = None

    def take(self, numbers: np.ndarray) -> tuple[GraphArrays, np.ndarray]:
        """Return the graphs with the indices `numbers`, and the indices of their nodes.

        The new arrays have no `forbidden`.
        """
        nodes, start = ranges(self.start, numbers)
        shift = start[:-1] - self.start[numbers]

        def joined(scopes, first):
            some, first = ranges(first, numbers)
            return some, scopes[some] + np.repeat(shift, np.diff(first))[:, None], first

        some, edges, edge_start = joined(self.edges, self.edge_start)
        types = None if self.types is None else self.types[nodes]
        cliques = tuple(Cliques(*joined(*part)[1:]) for part in self.cliques)
        parts = self.X[nodes], start, edges, edge_start, self.Z[some], types, cliques
        return GraphArrays(*parts), nodes


def cliques_of_sizes(
    n_variables: int, sizes: Iterable[int], argument: str, variables: str
) -> list[tuple[int, ...]]:
    """Return all cliques of the given sizes; raise a ValueError if there are over ten million.

    For the error message, `argument` is the argument of the user with its value, and `variables`
    is the word for variables, such as "labels".
    """
    n_cliques = sum(comb(n_variables, k) for k in sizes)
    if n_cliques > MAX_CLIQUES:
        raise ValueError(
            f"{argument} makes {n_cliques} cliques of {variables}, more than {MAX_CLIQUES}; choose "
            "a lower value, or list the cliques of the model"
        )
    return list(chain.from_iterable(combinations(range(n_variables), k) for k in sizes))


def checked_cliques(
    cliques: Any, n_variables: int, requirement: str, variables: str
) -> list[tuple[int, ...]]:
    """Return the cliques of a user as tuples, after checking that they are distinct sets.

    A ValueError is raised for invalid cliques. Its message begins with `requirement`, and
    `variables` is the word of the message for variables, such as "columns of X".
    """
    try:
        scopes = [np.asarray(scope) for scope in cliques]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{requirement}: {error}") from error
    found, seen = [], set()
    for j, scope in enumerate(scopes):
        whole = scope.ndim == 1 and scope.size > 0 and scope.dtype.kind in "iu"
        if not whole or scope.min() < 0 or scope.max() >= n_variables:
            raise ValueError(
                f"{requirement}; cliques[{j}] must hold indices of {variables}, integers from 0 to "
                f"{n_variables - 1}; got {scope.tolist()}"
            )
        clique = tuple(scope.tolist())
        if len(set(clique)) < len(clique) or frozenset(clique) in seen:
            raise ValueError(
                f"cliques must be distinct sets without repeated {variables}; cliques[{j}] is "
                f"{list(clique)}"
            )
        seen.add(frozenset(clique))
        found.append(clique)
    if not found:
        raise ValueError("cliques must hold at least one clique")
    return found


# Number of steps after which new edges are no longer counted: about three seconds.
_MAX_WORK = 5 * 10**7
# The search stops early when a table would have more than 2**_LOG_LARGEST entries.
_LOG_LARGEST = 32.0


class Elimination(NamedTuple):
    """An order in which to eliminate the variables of a graph."""

    order: list[int]
    # For each variable of `order`, its neighbours at the time of its elimination. Eliminating the
    # variable makes a table over it and these neighbours.
    neighbours: list[set[int]]
    # False if the search stopped early at a table that is too large. This table belongs to the last
    # variable of `order`.
    complete: bool

    @property
    def width(self) -> int:
        """Largest number of neighbours in this order; a lower bound if the order is not complete.

        Other orders of the same graph may have a smaller width.
        """
        return max(map(len, self.neighbours), default=0)


def adjacency(first: np.ndarray, second: np.ndarray, n_nodes: int) -> csr_array:
    """Return the edges from `first` to `second` as a matrix for `scipy.sparse.csgraph`.

    Its indices have 32 bits, because old releases of SciPy cannot search a graph with 64-bit
    indices: they print an error that nobody can catch, and return wrong components.
    """
    ends = np.asarray(first, np.int32), np.asarray(second, np.int32)
    return csr_array((np.ones(len(ends[0])), ends), shape=(n_nodes, n_nodes))


def min_fill(
    scopes: Iterable[Sequence[int]],
    variables: Iterable[int],
    counts: Sequence[int] | None = None,
    last: Iterable[int] = (),
) -> Elimination:
    """Return the min-fill elimination order of a graph.

    Eliminating a variable connects all pairs of its neighbours. The heuristic always eliminates
    the variable that adds the fewest new edges. Among equal variables it prefers fewer neighbours,
    then the smaller index. `scopes` holds the variables of each factor, and `counts` holds the
    number of states of each variable, two by default. The variables in `last` are eliminated after
    all other variables. The search stops early if a table would not fit into memory.

    If it takes too long to count new edges in a large graph, the remaining variables are eliminated
    by the number of their neighbours alone, fewest first.
    """
    joined = {int(v): set() for v in variables}

    def key(v):
        near = joined[v]
        if work > _MAX_WORK:
            return 0, len(near), v
        missing = sum(len(near) - 1 - len(near & joined[u]) for u in near) // 2
        return missing, len(near), v

    # The logarithms of a table's axes need not be added up if as many of the longest axes fit.
    longest = 1.0 if counts is None else log2(max(counts, default=1))

    def is_large(v, near):
        if (len(near) + 1) * longest <= _LOG_LARGEST:
            return False
        logs = (1.0 if counts is None else log2(counts[u]) for u in (v, *near))
        return sum(logs) > _LOG_LARGEST

    for scope in scopes:
        if len(scope) > 1 and is_large(scope[0], scope[1:]):
            return Elimination([scope[0]], [set(scope[1:])], False)
        for v in scope:
            joined[v].update(scope)
    for v, near in joined.items():
        near.discard(v)

    # Eliminating a variable with at most one neighbour adds no edge, so such variables come first.
    # Variables with two neighbours that share an edge come next, because they add no edge either.
    # New edges, which take longer to count, are counted only if there are no variables of these two
    # kinds. On a tree, or a tree of triangles, no edges need to be counted.
    late = joined.keys() & set(last)
    n_early = len(joined) - len(late)
    leaves = [(len(near), v) for v, near in joined.items() if len(near) < 2 and v not in late]
    heapq.heapify(leaves)
    corners = sorted(v for v, near in joined.items() if len(near) == 2 and v not in late)
    stale, current, heap, work = joined.keys() - late, {}, [], 0
    order, neighbours = [], []
    while joined:
        if late and len(order) == n_early:
            stale, late = late, set()
            leaves = [(len(joined[v]), v) for v in stale if len(joined[v]) < 2]
            heapq.heapify(leaves)
            corners = sorted(v for v in stale if len(joined[v]) == 2)
        v = _next_leaf(leaves, joined)
        if v is None:
            v = _next_corner(corners, joined)
        if v is None:
            if work <= _MAX_WORK:
                work += sum(len(joined[u]) ** 2 + 1 for u in (stale & joined.keys()) - late)
                if work > _MAX_WORK:
                    stale, current, heap = set(joined), {}, []
            for u in (stale & joined.keys()) - late:
                new = key(u)
                if new != current.get(u):
                    current[u] = new
                    heapq.heappush(heap, new)
            stale.clear()
            best = heapq.heappop(heap)
            v = best[2]
            if v not in joined or current.get(v) != best:
                continue  # an outdated entry of the heap
        near = joined.pop(v)
        order.append(v)
        neighbours.append(near)
        if is_large(v, near):
            return Elimination(order, neighbours, False)
        for u in near:
            joined[u].discard(v)
        filled = False
        for u in near if len(near) > 1 else ():
            new = near - joined[u]
            new.discard(u)
            if new:
                filled = True
                if work <= _MAX_WORK:
                    stale |= joined[u]
                for w in joined[u] - late:
                    if len(joined[w]) == 2:
                        heapq.heappush(corners, w)
                joined[u] |= new
        if filled or work > _MAX_WORK:
            stale |= near
        for u in near - late - stale:
            # No edge is new, so only the edges that `v` lacks to other neighbours of u count less.
            missing, degree, _ = current[u]
            current[u] = missing - (degree - len(near)), degree - 1, u
            heapq.heappush(heap, current[u])
        for u in near - late:
            if len(joined[u]) < 2:
                heapq.heappush(leaves, (len(joined[u]), u))
            elif len(joined[u]) == 2:
                heapq.heappush(corners, u)
    return Elimination(order, neighbours, True)


def _next_leaf(leaves, joined):
    """Pop a variable with at most one neighbour, or return None if no such variable is left."""
    while leaves:
        degree, v = heapq.heappop(leaves)
        if v in joined and len(joined[v]) == degree:
            return v
    return None


def _next_corner(corners, joined):
    """Pop a variable whose two neighbours share an edge; return None if no such variable exists."""
    while corners:
        v = heapq.heappop(corners)
        if v in joined and len(joined[v]) == 2:
            one, other = joined[v]
            if other in joined[one]:
                return v
    return None
