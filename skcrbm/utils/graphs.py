"""Cliques that a user lists or asks for by size, and elimination orders of graphs."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import chain, combinations
from math import comb, log2
from typing import Any, NamedTuple

import numpy as np

# Largest number of cliques by size: beyond, their index arrays would take gigabytes.
MAX_CLIQUES = 10**7


def cliques_of_sizes(
    n_variables: int, sizes: Iterable[int], argument: str, variables: str
) -> list[tuple[int, ...]]:
    """Return all cliques of these sizes; a ValueError if there are more than ten million.

    The error names the argument with its value, and `variables`, such as "labels".
    """
    n_cliques = sum(comb(n_variables, k) for k in sizes)
    if n_cliques > MAX_CLIQUES:
        raise ValueError(
            f"{argument} makes {n_cliques} cliques of {variables}, more than {MAX_CLIQUES}; lower "
            "it, or list the cliques of the model"
        )
    return list(chain.from_iterable(combinations(range(n_variables), k) for k in sizes))


def checked_cliques(
    cliques: Any, n_variables: int, requirement: str, variables: str
) -> list[tuple[int, ...]]:
    """Return listed cliques as tuples; a ValueError unless they are distinct sets of variables.

    The error begins with the requirement, and names `variables`, such as "columns of X".
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
                f"{requirement}; cliques[{j}] must hold numbers of {variables}, from 0 to "
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
        raise ValueError("cliques must hold at least one scope")
    return found


# Steps after which the search gives up the rest of a graph: about three seconds.
_MAX_WORK = 5 * 10**7
# Logarithm to base 2 of the number of entries of a table at which the search gives up.
_LOG_LARGEST = 32.0


class Elimination(NamedTuple):
    """An order in which to eliminate the variables of a graph."""

    order: list[int]
    # Other variables in the table of each variable when its turn comes.
    neighbours: list[set[int]]
    # False if the graph was too large to be searched to the end.
    complete: bool

    @property
    def width(self) -> int:
        """Largest number of neighbours; a lower bound if the search was not complete."""
        return max(map(len, self.neighbours), default=0)


def min_fill(
    scopes: Iterable[Sequence[int]],
    variables: Iterable[int],
    counts: Sequence[int] | None = None,
) -> Elimination:
    """Return the min-fill order: the next variable joins the fewest new pairs of neighbours.

    Ties go to the variable with fewer neighbours, then to the smaller number. `scopes` holds the
    variables of each factor, and `counts` the number of states of each variable, two by default.
    The search gives up at a table that no memory holds.
    """
    joined = {int(v): set() for v in variables}
    work = 0
    for scope in scopes:
        work += len(scope) ** 2
        if work > _MAX_WORK:
            return Elimination([], [set(scope[1:])], False)
        for v in scope:
            joined[v].update(scope)
    for v, near in joined.items():
        near.discard(v)

    def key(v):
        near = joined[v]
        missing = sum(len(near) - 1 - len(near & joined[u]) for u in near) // 2
        return missing, len(near), v

    def log_size(v, near):
        if counts is None:
            return len(near) + 1.0
        return log2(counts[v]) + sum(log2(counts[u]) for u in near)

    # A variable with at most one neighbour is always next. The fill of the other variables is
    # counted only when no such variable is left: on a tree it is never counted.
    leaves = [(len(near), v) for v, near in joined.items() if len(near) < 2]
    heapq.heapify(leaves)
    stale, current, heap = set(joined), {}, []
    order, neighbours = [], []
    while joined:
        v = _next_leaf(leaves, joined)
        if v is None:
            for u in stale & joined.keys():
                work += len(joined[u]) ** 2 + 1
                if work > _MAX_WORK:
                    near = min(joined.values(), key=len) if not order else joined[u]
                    return Elimination(order, [*neighbours, near], False)
                new = key(u)
                if new != current.get(u):
                    current[u] = new
                    heapq.heappush(heap, new)
            stale.clear()
            best = heapq.heappop(heap)
            v = best[2]
            if v not in joined or current.get(v) != best:
                continue  # an outdated entry
        near = joined.pop(v)
        order.append(v)
        neighbours.append(near)
        if log_size(v, near) > _LOG_LARGEST:
            return Elimination(order, neighbours, False)
        stale |= near
        for u in near:
            joined[u].discard(v)
        for u in near:
            new = near - joined[u]
            new.discard(u)
            if new:
                stale |= joined[u]
                joined[u] |= new
        for u in near:
            if len(joined[u]) < 2:
                heapq.heappush(leaves, (len(joined[u]), u))
    return Elimination(order, neighbours, True)


def _next_leaf(leaves, joined):
    """Pop the next variable with at most one neighbour, None if there is none."""
    while leaves:
        degree, v = heapq.heappop(leaves)
        if v in joined and len(joined[v]) == degree:
            return v
    return None
