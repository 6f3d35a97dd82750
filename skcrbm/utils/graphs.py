"""Cliques that a user lists or asks for by size, and elimination orders of graphs."""

from __future__ import annotations

import heapq
from itertools import chain, combinations
from math import comb
from typing import NamedTuple

import numpy as np

# Cliques that an order may make: their index arrays take gigabytes beyond.
MAX_CLIQUES = 10**7


def cliques_of_sizes(n_variables, sizes, argument, of):
    """Return all cliques of these sizes, as a list of tuples.

    Parameters
    ----------
    n_variables : int
    sizes : range
    argument : str
        With its value, and `of` what the variables are; for the error.

    Raises
    ------
    ValueError
        If there are more than ten million.
    """
    n_cliques = sum(comb(n_variables, k) for k in sizes)
    if n_cliques > MAX_CLIQUES:
        raise ValueError(
            f"{argument} makes {n_cliques} cliques of {of}, more than {MAX_CLIQUES}; lower it, or "
            "list those that are wanted in cliques"
        )
    return list(chain.from_iterable(combinations(range(n_variables), k) for k in sizes))


def checked_cliques(cliques, n_variables, words, of):
    """Return listed cliques as a list of tuples of int.

    Parameters
    ----------
    cliques : object
    n_variables : int
    words : str
        What `cliques` must be.
    of : str
        What the variables are, as in "columns of X".

    Raises
    ------
    ValueError
        If they are no distinct sets of variables, at least one.
    """
    try:
        scopes = [np.asarray(scope) for scope in cliques]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{words}: {error}") from error
    found, seen = [], set()
    for j, scope in enumerate(scopes):
        whole = scope.ndim == 1 and scope.size > 0 and scope.dtype.kind in "iu"
        if not whole or scope.min() < 0 or scope.max() >= n_variables:
            raise ValueError(
                f"{words}; cliques[{j}] must hold numbers of {of}, from 0 to {n_variables - 1}; "
                f"got {scope.tolist()}"
            )
        clique = tuple(scope.tolist())
        if len(set(clique)) < len(clique) or frozenset(clique) in seen:
            raise ValueError(
                f"cliques must be distinct sets, each with one of the {of} once; cliques[{j}] is "
                f"{list(clique)}"
            )
        seen.add(frozenset(clique))
        found.append(clique)
    if not found:
        raise ValueError("cliques must hold at least one scope")
    return found


# Steps of the search, after which the rest of a graph is not visited: about three seconds.
_MAX_WORK = 5 * 10**7


class Elimination(NamedTuple):
    """An order of elimination.

    Attributes
    ----------
    order : list of int
    neighbours : list of set of int
        Of each variable when its turn comes: those that its table has besides itself.
    complete : bool
        Whether all variables are there. If not, the graph was too large to be searched.
    """

    order: list
    neighbours: list
    complete: bool

    @property
    def width(self):
        """Largest number of neighbours; at least that much, if not complete."""
        return max(map(len, self.neighbours), default=0)


def min_fill(scopes, variables):
    """Eliminate next what joins the fewest pairs of its neighbours that are not joined yet.

    Ties go to fewer neighbours, then to the smaller number.

    Parameters
    ----------
    scopes : iterable of sequence of int
        Variables that stand in one factor.
    variables : iterable of int
        All variables.

    Returns
    -------
    Elimination
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

    current, heap = {}, []
    for v, near in joined.items():
        work += len(near) ** 2 + 1
        if work > _MAX_WORK:
            least = min(joined.values(), key=len)
            return Elimination([], [least], False)
        current[v] = key(v)
        heap.append(current[v])
    heapq.heapify(heap)
    order, neighbours = [], []
    while heap:
        best = heapq.heappop(heap)
        v = best[2]
        if current.get(v) != best:
            continue  # an old entry
        near = joined.pop(v)
        del current[v]
        order.append(v)
        neighbours.append(near)
        changed = set(near)
        for u in near:
            joined[u].discard(v)
        for u in near:
            new = near - joined[u]
            new.discard(u)
            if new:
                changed.update(joined[u])
                joined[u] |= new
        for u in changed:
            work += len(joined[u]) ** 2 + 1
            new = key(u)
            if new != current[u]:
                current[u] = new
                heapq.heappush(heap, new)
        if work > _MAX_WORK:
            return Elimination(order, neighbours, False)
    return Elimination(order, neighbours, True)
