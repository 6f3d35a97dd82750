"""Find best states by bucket elimination, or by branch and bound with mini-buckets.

`inference/exact/elimination.py` eliminates variables, too, but keeps a float64 for each entry and
each state of the eliminated variable, from which sums, samples and lists of states follow. The
elimination in this module keeps only the best state of each entry, in 1 or 16 bits, and takes the
cheapest of three orders, so that it reaches further: "exact" refuses a lattice of 16 x 30 and the
competition file ProteinFolding_11, which this module solves. Both take about the same time while
tables are small. On the file Promedas_70, with a table of 2^23 entries, this module takes .7 s and
"exact" 5.1 s.
"""

from __future__ import annotations

import heapq
import math
from typing import Any, NamedTuple

import numpy as np

from skcrbm.inference.search.budget import Budget
from skcrbm.inference.search.table_model import Component, ImpossibleModelError
from skcrbm.kernels.map_search import Branches, Functions, branch, maximise_bucket
from skcrbm.utils.graphs import min_fill
from skcrbm.utils.limits import MAX_KEPT_TABLES

# An elimination order is not used if it would lead to a table of more than 2^_HOPELESS_LOG entries.
_HOPELESS_LOG = 40.0


class Order(NamedTuple):
    """An order in which to eliminate the variables of a component, and the cost of elimination."""

    variables: list[int]
    largest: float  # number of entries of the largest table of the elimination
    kept: float  # number of entries of all tables of the elimination
    # number of additions: the number of entries of the new table, times the number of states of the
    # eliminated variable, summed over the variables
    work: float

    @property
    def seconds(self) -> float:
        """Estimated time of the elimination on an average machine."""
        return 8e-9 * self.work


def elimination_order(part: Component) -> Order:
    """Return the cheapest of three orders of elimination.

    The first order is greedy and always makes the smallest possible table, the second order is by
    index, and the third order is the minimum-fill order. Because the third order takes long to
    compute, it is tried only if the tables of the first order are not too large (see
    `_HOPELESS_LOG`).
    """
    n = len(part.variables)
    near = neighbours(part)
    orders = [_measured(part, near, degree_order(part, near))]
    orders.append(_measured(part, near, list(range(n))))
    if orders[0].largest < np.inf:
        filled = min_fill(part.scopes, range(n))
        if filled.complete:
            orders.append(_measured(part, near, filled.order))
    return min(orders, key=lambda o: o.work)


def neighbours(part: Component) -> list[set[int]]:
    """Return a set for each variable: the variable itself, and all variables in its tables."""
    near = [set() for _ in part.variables]
    for scope in part.scopes:
        for v in scope:
            near[v].update(scope)
    return near


def degree_order(part: Component, near: list[set[int]]) -> list[int]:
    """Return a greedy order: always eliminate the variable that leads to the smallest table.

    If even the smallest table is too large (see `_HOPELESS_LOG`), the search stops: the remaining
    variables come last, sorted by the sizes of the tables to which their elimination would lead at
    this point.
    """
    near = [s - {v} for v, s in enumerate(near)]
    logs = [math.log2(k) for k in part.n_states]
    size = [sum(logs[u] for u in s) for s in near]
    heap = [(size[v], v) for v in range(len(near))]
    heapq.heapify(heap)
    done, order = set(), []
    while heap:
        s, v = heapq.heappop(heap)
        if v in done or s != size[v]:
            continue
        done.add(v)
        order.append(v)
        if s > _HOPELESS_LOG:
            rest = [w for w in range(len(near)) if w not in done]
            return [*order, *sorted(rest, key=lambda w: size[w])]
        for u in near[v]:
            near[u] |= near[v]
            near[u].discard(u)
            near[u].discard(v)
            size[u] = sum(logs[x] for x in near[u])
            heapq.heappush(heap, (size[u], u))
    return order


def _measured(part, near, order):
    near = [set(s) for s in near]
    logs = np.log2(part.n_states)
    largest = kept = work = 0.0
    for v in order:
        others = near[v] - {v}
        size = 2.0 ** min(1000.0, sum(logs[u] for u in others))
        largest, kept = max(largest, size), kept + size
        work += size * part.n_states[v]
        if size > 2.0**_HOPELESS_LOG:
            return Order(order, np.inf, np.inf, np.inf)
        for u in others:
            near[u] |= others
            near[u].discard(v)
    return Order(order, largest, kept, work)


def _message(v, part, functions, with_argument):
    """Add up functions (tables) and maximise the sum over variable v.

    Return the scope and the entries of the resulting table. Also return the best state of v for
    each entry, or an empty array if `with_argument` is False.
    """
    scope = tuple(sorted(set().union(*(s for s, _ in functions)) - {v}))
    strides = np.zeros((len(functions), len(scope) + 1), np.int64)
    firsts = np.zeros(len(functions), np.int64)
    column, at = {u: j for j, u in enumerate((*scope, v))}, 0
    for t, (own, table) in enumerate(functions):
        firsts[t], step = at, 1
        at += table.size
        for u in reversed(own):
            strides[t, column[u]] = step
            step *= part.n_states[u]
    shape = np.array([part.n_states[u] for u in scope], np.int64)
    out = np.empty(int(np.prod(shape, dtype=np.int64)))
    where = np.empty(out.size if with_argument else 0, np.uint16)
    flat = np.concatenate([table for _, table in functions])
    maximise_bucket(shape, part.n_states[v], strides, firsts, flat, out, where)
    return scope, out, where


def _buckets(part, order):
    """Return the position of each variable in an order, and the functions in its bucket.

    A function (a table with its scope) is in the bucket of the variable of its scope that is
    eliminated first.
    """
    position = {v: i for i, v in enumerate(order)}
    buckets: list[list[Any]] = [[((v,), row)] for v, row in enumerate(part.unary)]
    for scope, table in zip(part.scopes, part.tables, strict=True):
        buckets[min(scope, key=position.__getitem__)].append((scope, table.ravel()))
    return position, buckets


def can_eliminate(order: Order, max_entries: int, seconds: float) -> bool:
    """Return True if elimination is possible within the limits of memory and time.

    A table may have at most `max_entries` entries, and all tables together 8 * MAX_KEPT_TABLES *
    `max_entries`. The estimated time on an average machine may be at most `seconds`.
    """
    fits = order.largest <= max_entries and order.kept <= MAX_KEPT_TABLES * 8.0 * max_entries
    return fits and order.seconds <= seconds


def eliminate(part: Component, order: Order, budget: Budget) -> np.ndarray | None:
    """Return a state with the highest score, or None if the time limit is reached before.

    An ImpossibleModelError is raised if all states have weight 0.
    """
    position, buckets = _buckets(part, order.variables)
    back = []
    for v in order.variables:
        if budget.timed and budget.seconds <= 0:
            return None
        scope, out, where = _message(v, part, buckets[v], True)
        buckets[v] = []
        binary = part.n_states[v] == 2  # if v has two states, a byte stores eight best states
        back.append((v, scope, np.packbits(where > 0) if binary else where))
        if scope:
            buckets[min(scope, key=position.__getitem__)].append((scope, out))
        elif out[0] == -np.inf:
            raise ImpossibleModelError
    state = np.zeros(len(part.variables), np.int64)
    for v, scope, where in reversed(back):
        at = 0
        for u in scope:
            at = at * part.n_states[u] + int(state[u])
        if part.n_states[v] == 2:
            state[v] = (where[at >> 3] >> (7 - (at & 7))) & 1
        else:
            state[v] = where[at]
    return state


class TreeSearch:
    """Depth-first branch and bound with bounds from mini-buckets of at most `max_entries` entries.

    The search is a limited discrepancy search. A discrepancy is a step to a child other than the
    best child. The first search allows a single discrepancy per path, and each later search allows
    twice as many as the search before. So a bad choice near the root does not delay the search for
    long.

    Attributes
    ----------
    root : float
        Upper bound of the score of all states.
    done : bool
        Whether the search has ended. After the end, the score of the best state found is proven to
        be within `tol` of the highest score.
    """

    def __init__(self, part: Component, order: list[int], max_entries: int, tol: float):
        self.order = np.array(order[::-1], np.int64)
        self.n_states = np.array(part.n_states, np.int64)
        self.tol, self.root, self.depth = tol, 0.0, 0
        position, buckets = _buckets(part, order)
        groups, offset = [], 0
        for v in order:
            mine = []
            for part_of in _partition(v, part, buckets[v], max_entries):
                scope, out, _ = _message(v, part, part_of, False)
                mine.append((-1.0, scope, out))
                if scope:
                    buckets[min(scope, key=position.__getitem__)].append((scope, out))
                else:
                    self.root += out[0]
            groups.append([*((1.0, s, t) for s, t in buckets[v]), *mine])
        places, entries = {}, []
        sign, scopes, strides, firsts, counts = [], [], [], [], []
        for group in reversed(groups):
            counts.append(len(group))
            for s, scope, table in group:
                if id(table) not in places:
                    places[id(table)] = offset
                    entries.append(table)
                    offset += table.size
                sign.append(s)
                firsts.append(places[id(table)])
                scopes.append(scope)
                steps = np.cumprod([1, *(part.n_states[u] for u in scope[:0:-1])])[::-1]
                strides += steps[: len(scope)].tolist()
        lengths = [len(scope) for scope in scopes]
        self.functions = Functions(
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), np.array(sign),
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            np.array([v for scope in scopes for v in scope], np.int64),
            np.array(strides, np.int64), np.array(firsts, np.int64), np.concatenate(entries),
        )  # fmt: skip
        n = len(order)
        self._path = Branches(
            np.zeros(n, np.int64), np.zeros((n, max(part.n_states))), np.full(n, -1, np.int64)
        )
        self._allowed = np.array([1, 0], np.int64)

    @property
    def done(self) -> bool:
        """Whether the search has ended."""
        return self.depth < 0 and self._allowed[1] == 0

    def run(self, best: np.ndarray, value: float, n_nodes: int) -> tuple[float, int]:
        """Continue the search, and visit at most `n_nodes` further nodes.

        If a state with a score above `value` is found, it is written to `best`. Return the best
        score and the number of visited nodes.
        """
        left = n_nodes
        while left > 0 and not self.done:
            if self.depth < 0:
                self.depth, self._allowed[:] = 0, (2 * self._allowed[0], 0)
            self.depth, value, visited = branch(
                self.functions, self.order, self.n_states, self.root, value, self.tol, left,
                self._allowed, self.depth, self._path, best,
            )  # fmt: skip
            left -= visited
        return value, n_nodes - left


def _partition(v, part, functions, max_entries):
    """Split the functions in the bucket of variable v into groups (mini-buckets) by first fit.

    The variables of a group have at most `max_entries` joint states, unless the group is a single
    function with more entries.
    """
    found: list[tuple[set, list]] = []
    for scope, table in sorted(functions, key=lambda f: (-len(f[0]), f[0])):
        for union, group in found:
            joined = union | set(scope)
            # A product of numbers below 2**1000 is a float; a wider table is too large in any case.
            logs = sum(math.log2(part.n_states[u]) for u in joined)
            if logs < 1000 and math.prod(part.n_states[u] for u in joined) <= max_entries:
                union |= joined
                group.append((scope, table))
                break
        else:
            found.append((set(scope), [(scope, table)]))
    return [group for _, group in found]
