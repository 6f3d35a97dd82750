"""Plan the elimination of the variables of factor graphs."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from skcrbm.kernels.arguments import FIELD, MESSAGE, OWN, SHARED, Buckets
from skcrbm.utils.graphs import min_fill
from skcrbm.utils.limits import MAX_KEPT_TABLES


class Factors(NamedTuple):
    """Factors of a graph in a plan of elimination; some of their variables are held at states."""

    # (F + 1,): factor f has the variables edges[edge_start[f]:edge_start[f + 1]]
    edge_start: np.ndarray
    edges: np.ndarray
    edge_step: np.ndarray  # stride of each variable in the table of its factor
    fixed: np.ndarray  # indices of the factors whose variables are all held
    linked: np.ndarray  # (L,): factor of each link of kind `SHARED` of the buckets
    # entries that remain of the factors with held and other variables, if states 0 are held: index
    # of the factor, and place in its table
    own_factor: np.ndarray
    own_entry: np.ndarray


class Plan(NamedTuple):
    """Order and tables for the elimination of the free variables of a graph."""

    held: np.ndarray  # bool (n,): True for variables that are not eliminated (clamped variables)
    buckets: Buckets  # in the order of elimination, without tables
    factors: Factors
    entries: int  # number of entries of the largest table
    n_last: int  # number of variables that are eliminated after all other variables
    levels: dict  # results of `levels_of`, by their limits

    @property
    def n_variables(self) -> int:
        """Number of variables, including the additional variables of large OR and AND factors."""
        return len(self.buckets.counts)


# Maps the structure of a graph to its plans, which are found by the clamped variables and by the
# variables that are eliminated last. Models with the same structure share the plans.
_PLANS: WeakKeyDictionary[Any, dict] = WeakKeyDictionary()
# Number of plans that are kept for a structure.
_KEPT = 64


def make_plan(graph, held: np.ndarray, max_entries: int, last: frozenset = frozenset()) -> Plan:
    """Plan the elimination of the variables of a `FactorGraph` that are not in the mask `held`.

    The variables in `last` are eliminated after all other variables. A ValueError is raised if a
    table would have more than `max_entries` entries, or all tables together more than
    `MAX_KEPT_TABLES` * `max_entries` entries.
    """
    plans = _PLANS.setdefault(graph, {})
    key = held.tobytes(), max_entries, last
    if key not in plans:
        if len(plans) >= _KEPT:
            plans.clear()
        try:
            plans[key] = _new_plan(graph, held, max_entries, last)
        except ValueError as error:  # kept, because the search for an order may take seconds
            plans[key] = str(error)
    found = plans[key]
    if isinstance(found, str):
        raise ValueError(found)
    return found


def _new_plan(graph, held, max_entries, last):
    """Return a new plan; see `make_plan`."""
    scopes, found, entries = _find_order(graph, held, max_entries, last)
    counts = all_counts(graph)
    order = np.array(found.order, np.int64)
    n_buckets = len(order)
    place = np.full(len(counts), n_buckets)
    place[order] = np.arange(n_buckets)
    near, start = _flat(found.neighbours)
    lengths = np.diff(start)
    owner = np.repeat(np.arange(n_buckets), lengths)
    near = near[np.lexsort((place[near], owner))]
    parent = np.full(n_buckets, -1)
    parent[lengths > 0] = place[near[start[:-1][lengths > 0]]]
    scope_start = start + np.arange(n_buckets + 1)
    all_buckets = np.empty(scope_start[-1], np.int64)
    all_buckets[scope_start[:-1]] = order
    all_buckets[np.arange(len(near)) + owner + 1] = near
    n_entries = np.multiply.reduceat(counts[all_buckets], scope_start[:-1]) if n_buckets else order
    entry_start = np.concatenate([[0], np.cumsum(n_entries)])
    message_start = np.concatenate([[0], np.cumsum(n_entries // counts[order])])
    # A factor belongs to the bucket of the first eliminated variable among its variables.
    free, free_start = _flat(scopes)
    has_free = np.diff(free_start) > 0
    bucket = np.full(len(scopes), n_buckets)
    if has_free.any():
        bucket[has_free] = np.minimum.reduceat(place[free], free_start[:-1][has_free])
    # The tables to which buckets are linked: of the variables, of the factors, of the messages.
    parts = (np.arange(n_buckets + 1), order), (free_start, free), (start, near)
    table_start, table_scopes = _joined(parts)
    strides, lengths = _strides(counts, table_start, table_scopes)
    n_factors = len(scopes)
    edges, edge_start = _flat(graph.expanded[0])
    own = (bucket < n_buckets) & (np.diff(free_start) < np.diff(edge_start))
    n_own = np.where(own, lengths[n_buckets : n_buckets + n_factors], 0)
    own_start = message_start[-1] + np.cumsum(n_own) - n_own
    kind = np.repeat([FIELD, SHARED, MESSAGE], [n_buckets, n_factors, n_buckets])
    kind[n_buckets : n_buckets + n_factors][own] = OWN
    first = np.concatenate([order * max(counts.max(initial=0), 2), own_start, message_start[:-1]])
    link_start, link = _groups(np.concatenate([np.arange(n_buckets), bucket, parent]), n_buckets)
    step_start, steps = _steps(
        link_start, link, scope_start, all_buckets, table_start, table_scopes, strides, len(counts)
    )
    buckets = Buckets(
        counts, scope_start, all_buckets, counts[all_buckets], entry_start, message_start, parent,
        link_start, kind[link], first[link], lengths[link], step_start, steps, np.empty(0),
    )  # fmt: skip
    edge_step, _ = _strides(counts, edge_start, edges)
    is_held = np.zeros(len(counts), bool)
    is_held[: len(held)] = held
    free_step = edge_step[~is_held[edges]]
    factors = Factors(
        edge_start, edges, edge_step, np.flatnonzero(bucket == n_buckets), link - n_buckets,
        *_own_entries(counts, free_start, free, free_step, own, n_own),
    )  # fmt: skip
    return Plan(held, buckets, factors, entries, len(last - set(np.flatnonzero(held).tolist())), {})


def _joined(parts):
    """Join lists that are stored as pairs of starts and members; return starts and members."""
    lengths = np.concatenate([np.diff(start) for start, _ in parts])
    members = np.concatenate([members for _, members in parts])
    return np.concatenate([[0], np.cumsum(lengths)]), members


def _strides(counts, start, scopes):
    """Return the stride of each variable in its table in C order, and the sizes of the tables.

    Table t has the variables ``scopes[start[t]:start[t + 1]]``.
    """
    strides, size = np.ones(len(scopes), np.int64), np.ones(len(start) - 1, np.int64)
    for back in range(1, int(np.diff(start).max(initial=0)) + 1):
        at = start[1:] - back
        inside = np.flatnonzero(at >= start[:-1])
        at = at[inside]
        strides[at] = size[inside]
        size[inside] *= counts[scopes[at]]
    return strides, size


def _steps(link_start, link, scope_start, scopes, table_start, table_scopes, strides, n_variables):
    """Return the strides of the variables of buckets in linked tables; see `Buckets`."""
    width = np.diff(scope_start)
    owner = np.repeat(np.arange(len(width)), width)
    known = owner * n_variables + scopes  # identifies a variable of a bucket
    order = np.argsort(known)
    bucket = np.repeat(np.arange(len(width)), np.diff(link_start))  # of each link
    step_start = np.concatenate([[0], np.cumsum(width[bucket])])
    steps = np.zeros(step_start[-1], np.int64)
    n = (table_start[1:] - table_start[:-1])[link]  # number of variables of each linked table
    of_link = np.repeat(np.arange(len(link)), n)
    member = table_start[link][of_link] + np.arange(len(of_link)) - (np.cumsum(n) - n)[of_link]
    wanted = bucket[of_link] * n_variables + table_scopes[member]
    found = order[np.searchsorted(known[order], wanted)] - scope_start[bucket[of_link]]
    steps[step_start[of_link] + found] = strides[member]
    return step_start, steps


def _own_entries(counts, start, free, steps, own, n_own):
    """Return the entries of the tables `own` whose held variables are in state 0.

    Table f has the variables ``free[start[f]:start[f + 1]]`` that are not held, whose strides are
    in `steps`; ``n_own[f]`` entries remain. The first result is the index of the table of each
    entry, the second the place in its table.
    """
    table = np.repeat(np.flatnonzero(own), n_own[own])
    rest = np.arange(len(table)) - np.repeat(np.cumsum(n_own[own]) - n_own[own], n_own[own])
    place = np.zeros(len(table), np.int64)
    for back in range(1, int(np.diff(start)[own].max(initial=0)) + 1):
        at = start[table + 1] - back
        inside = at >= start[table]
        at = np.where(inside, at, 0)
        size = np.where(inside, counts[free[at]], 1)
        place += np.where(inside, rest % size * steps[at], 0)
        rest //= size
    return table, place


def all_counts(graph) -> np.ndarray:
    """Return the number of states of each variable of the graph ``graph.expanded``."""
    counts = np.full(graph.expanded[2], 2)
    counts[: graph.n_variables] = graph.n_states
    return counts


def _find_order(graph, held, max_entries, last):
    """Find an order in which to eliminate the variables that are not in the mask `held`.

    Return the scopes without the variables in `held`, the order, and the number of entries of the
    largest table. See `make_plan` for the errors.
    """
    scopes, _, n_variables = graph.expanded
    counts = all_counts(graph).tolist()
    if held.any() or last:
        fixed = set(np.flatnonzero(held).tolist())
        scopes = [tuple(v for v in scope if v not in fixed) for scope in scopes]
        found = min_fill(scopes, (v for v in range(n_variables) if v not in fixed), counts, last)
    else:
        found = graph.elimination
    sizes = [
        counts[v] * math.prod([counts[u] for u in near])
        for v, near in zip(found.order, found.neighbours)
    ]
    largest, in_all = max(sizes, default=1), sum(sizes)
    if not found.complete or largest > max_entries:
        least = "" if found.complete else "at least "
        raise ValueError(
            f"'exact' found an order of elimination with a width of {least}{found.width}, which "
            f"needs a table of {least}{_entries(largest)}; the limit is max_entries={max_entries}. "
            "Use 'sum_product', 'max_product' or 'gibbs', or Exact(max_entries=...)"
        )
    if in_all > MAX_KEPT_TABLES * max_entries:
        raise ValueError(
            f"'exact' found an order of elimination with a width of {found.width}, which needs "
            f"tables of {in_all} entries in all; the limit is {MAX_KEPT_TABLES} times "
            f"max_entries={max_entries}. Use "
            "'sum_product', 'max_product' or 'gibbs', or Exact(max_entries=...)"
        )
    return scopes, found, largest


def _entries(count):
    """Return a text such as "2^24 entries (0.125 GiB)" for a number of entries."""
    power = count.bit_length() - 1
    if count == 1 << power:
        number = f"2^{power}"
    else:
        number = f"{count:,}" if power < 64 else f"more than 2^{power}"
    size = f"{count / 2**27:.3g}" if power < 1000 else f"more than 2^{power - 27}"
    return f"{number} entries ({size} GiB)"


def _flat(lists):
    """Join lists of integers to a single array; return the array and the start of each list.

    The array of starts has an additional last entry, the length of the joined array.
    """
    start = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(part) for part in lists], out=start[1:])
    return np.fromiter(chain.from_iterable(lists), np.int64, start[-1]), start


def _groups(group, n_groups):
    """Collect the members of each group; return the start of each group, and the members.

    Index i is a member of group ``group[i]``. If this number is not between 0 and `n_groups` - 1,
    the index is left out. The members of a group are in ascending order.
    """
    inside = (group >= 0) & (group < n_groups)
    count = np.bincount(group[inside], minlength=n_groups)
    members = np.flatnonzero(inside)
    members = members[np.argsort(group[inside], kind="stable")]
    return np.concatenate([[0], np.cumsum(count)]), members
