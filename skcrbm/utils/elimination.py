"""In which order to eliminate the variables of a graph, and how large the tables then get."""

import heapq
from typing import NamedTuple

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
