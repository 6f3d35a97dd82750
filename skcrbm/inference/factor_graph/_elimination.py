"""Eliminate the variables of factor graphs.

`make_plan` chooses the order and the tables. `go_up` then eliminates the variables in this order,
and `go_down` computes beliefs in the reverse order.

A table is an array with an axis of states for each variable of its scope. The last axis has an
entry for each model of a chunk, or a single entry that all models share. The entries are
logarithms, or weights that are scaled to at most 1. Computing with weights takes a third of the
time of computing with logarithms, but weights may underflow.
"""

from __future__ import annotations

import functools
import math
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from skcrbm.kernels.arguments import Buckets
from skcrbm.utils.graphs import min_fill
from skcrbm.utils.limits import MAX_KEPT_TABLES


class Bucket(NamedTuple):
    """How to compute the table from which a variable is eliminated.

    The table is the product of factors of the graph and of messages from earlier buckets.
    """

    # Variables of the axes of the table: the eliminated variable, then its neighbours in the order
    # of elimination.
    scope: tuple[int, ...]
    parent: int  # bucket of the first neighbour, which receives the message; -1: no neighbours
    factors: list[int]  # indices of the tables of the graph that are multiplied into this table
    children: list[int]  # indices of the buckets whose messages are multiplied into this table
    # Order of the multiplications. The terms of the product are the field (term 0), then the
    # factors, then the messages. A pair (i, j) means: multiply term j by term i, and store the
    # result as term j. The last pair gives the whole product.
    sum_order: list[tuple[int, int]]


class Plan(NamedTuple):
    """Order and tables for the elimination of the free variables of a graph."""

    held: np.ndarray  # bool (n,): True for variables that are not eliminated (clamped variables)
    buckets: list[Bucket]  # in the order of elimination
    axes: list[tuple[int, ...]]  # free variables of each table, in the order of elimination
    # For each bucket, a list of pairs (variable, axis). The belief of a variable is computed from
    # this axis of the bucket's table. Each variable is in a single list, for the smallest table
    # that contains the variable.
    places: list[list[tuple[int, int]]]
    counts: list[int]  # number of states of each variable, see `n_variables`
    entries: int  # number of entries of the largest table

    @property
    def n_variables(self) -> int:
        """Number of variables, including the additional variables of large OR and AND factors."""
        return len(self.counts)


class FlatPlan(NamedTuple):
    """Plan of elimination as flat arrays, for compiled code.

    It is used for graphs with very many variables, in which all tables are small.
    """

    held: np.ndarray  # see `Plan`
    buckets: Buckets  # without tables
    counts: list[int]
    entries: int

    @property
    def n_variables(self) -> int:
        """Number of variables, including the additional variables of large OR and AND factors."""
        return len(self.counts)


# A `FlatPlan` is used if there are at least _MANY buckets, and no table has more than _FEW entries.
# NumPy needs more than a second for _MANY buckets, which is about the time to compile the kernels.
_MANY, _FEW = 10_000, 2**12


def make_plan(graph, held: np.ndarray, max_entries: int, last: frozenset = frozenset()) -> Plan:
    """Plan the elimination of the variables of a `FactorGraph` that are not in the mask `held`.

    The variables in `last` are eliminated after all other variables. A ValueError is raised if a
    table would have more than `max_entries` entries, or all tables together more than
    `MAX_KEPT_TABLES` * `max_entries` entries.
    """
    return _as_plan(*_find_order(graph, held, max_entries, last))


def make_large_plan(graph, held: np.ndarray, max_entries: int) -> Plan | FlatPlan:
    """Return a `FlatPlan` if there are very many variables and small tables, else a `Plan`.

    See `make_plan` for the parameters and errors.
    """
    found = _find_order(graph, held, max_entries, frozenset())
    _, _, elimination, _, largest = found
    if len(elimination.order) < _MANY or largest > _FEW:
        return _as_plan(*found)
    return _as_flat_plan(*found, graph.expanded[0])


def _find_order(graph, held, max_entries, last):
    """Find an order in which to eliminate the variables that are not in the mask `held`.

    The result is a tuple of all arguments of `_as_plan`; the scopes lack the variables in `held`.
    See `make_plan` for the errors.
    """
    scopes, _, n_variables = graph.expanded
    counts = [*graph.n_states.tolist(), *(2,) * (n_variables - graph.n_variables)]
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
    if len(found.neighbours) > len(sizes):  # the search for an order stopped before this variable
        sizes.append(math.prod([counts[u] for u in found.neighbours[-1]]))
    largest, in_all = max(sizes, default=1), sum(sizes)
    if not found.complete or largest > max_entries:
        least = "" if found.complete else "at least "
        raise ValueError(
            f"'exact' eliminates variables at a width of {least}{found.width}, which needs a "
            f"table of {least}{_entries(largest)}; the limit is max_entries={max_entries}. Use "
            "'sum_product', 'max_product' or 'gibbs', or Exact(max_entries=...)"
        )
    if in_all > MAX_KEPT_TABLES * max_entries:
        raise ValueError(
            f"'exact' eliminates variables at a width of {found.width}, which needs tables of "
            f"{in_all} entries in all; the limit is {MAX_KEPT_TABLES} times "
            f"max_entries={max_entries}. Use "
            "'sum_product', 'max_product' or 'gibbs', or Exact(max_entries=...)"
        )
    return scopes, held, found, counts, largest


def _entries(count):
    """Return a text such as "2^24 entries (0.125 GiB)" for a number of entries."""
    power = count.bit_length() - 1
    if count == 1 << power:
        number = f"2^{power}"
    else:
        number = f"{count:,}" if power < 64 else f"more than 2^{power}"
    size = f"{count / 2**27:.3g}" if power < 1000 else f"more than 2^{power - 27}"
    return f"{number} entries ({size} GiB)"


def _as_plan(scopes, held, found, counts, entries):
    """Return the `Plan` for the order of elimination `found`, a result of `min_fill`."""
    place = {v: i for i, v in enumerate(found.order)}
    axes = [tuple(sorted(scope, key=place.__getitem__)) for scope in scopes]
    factors = [[] for _ in found.order]
    for f, scope in enumerate(axes):
        if scope:
            factors[place[scope[0]]].append(f)
    children = [[] for _ in found.order]
    buckets = []
    for i, (v, near) in enumerate(zip(found.order, found.neighbours, strict=True)):
        scope = (v, *sorted(near, key=place.__getitem__))
        parent = place[scope[1]] if near else -1
        if near:
            children[parent].append(i)
        # Children are eliminated before their parent, so the list of children is complete at this
        # point.
        parts = [(v,), *(axes[f] for f in factors[i]), *(buckets[c].scope[1:] for c in children[i])]
        buckets.append(Bucket(scope, parent, factors[i], children[i], _sum_order(parts, scope)))
    smallest = {}
    for i, bucket in enumerate(buckets):
        for axis, v in enumerate(bucket.scope):
            if v not in smallest or len(bucket.scope) < smallest[v][0]:
                smallest[v] = len(bucket.scope), i, axis
    places = [[] for _ in buckets]
    for v, (_, i, axis) in smallest.items():
        places[i].append((v, axis))
    return Plan(held, buckets, axes, places, counts, entries)


def _as_flat_plan(scopes, held, found, counts, entries, all_scopes):
    """Return the `FlatPlan` for an order; see `_as_plan`.

    `scopes` lack the variables in `held`, and `all_scopes` contain them.
    """
    n, order = len(counts), np.array(found.order)
    n_buckets = len(order)
    place = np.full(n, n_buckets)
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
    sizes = np.multiply.reduceat(np.array(counts)[all_buckets], scope_start[:-1])
    # A factor belongs to the bucket of the first eliminated variable among its variables.
    free, free_start = _flat(scopes)
    has_free = np.diff(free_start) > 0
    bucket = np.full(len(scopes), n_buckets)
    if has_free.any():
        bucket[has_free] = np.minimum.reduceat(place[free], free_start[:-1][has_free])
    edges, edge_start = _flat(all_scopes)
    buckets = Buckets(
        np.array(counts), scope_start, all_buckets, np.concatenate([[0], np.cumsum(sizes)]),
        parent, *_groups(parent, n_buckets), *_groups(bucket, n_buckets), edge_start, edges,
        np.empty(0, np.int64), np.empty(0),
    )  # fmt: skip
    return FlatPlan(held, buckets, counts, entries)


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


def _sum_order(parts, scope):
    """Choose an order of multiplications in which few intermediate products have all axes.

    Element i of `parts` has the axes of table i; the union of all axes is `scope`. Return a list of
    pairs (i, j), which mean: multiply table j by table i.
    """
    steps, first, sets = [], {}, []
    for i, part in enumerate(parts):  # first multiply tables with the same axes
        j = first.setdefault(part, i)
        if i != j:
            steps.append((i, j))
        sets.append(frozenset(part))
    largest = sorted(first.values(), key=lambda i: (len(sets[i]), i))
    left = []
    for n, i in enumerate(largest):  # multiply a table into the smallest table with all its axes
        into = next((j for j in largest[n + 1 :] if sets[i] < sets[j]), None)
        if into is None:
            left.append(i)
        else:
            steps.append((i, into))
    return steps + list(pairwise(left))


# Logarithm of the smallest product of weights that cannot underflow. If a product may be smaller,
# `OutOfRange` is raised.
_LEAST = -600.0


class Arithmetic(NamedTuple):
    """Operations on tables of weights or logarithms."""

    multiply: Any
    divide: Any
    reduce: Any  # sum or maximum over the states of a variable
    zero: float  # entry that represents the weight 0


#: For tables of logarithms, LOG_SUM computes sums of weights, and LOG_MAX maxima of weights. For
#: tables of weights, SUM computes sums.
LOG_SUM = Arithmetic(np.add, np.subtract, np.logaddexp, -np.inf)
LOG_MAX = Arithmetic(np.add, np.subtract, np.maximum, -np.inf)
SUM = Arithmetic(np.multiply, np.divide, np.add, 0.0)


class OutOfRange(ArithmeticError):
    """Raised if weights may underflow in a float. The caller then computes with logarithms."""


class _Factor:
    """A table in the upward pass, with `axes` for its variables.

    All positive weights are at least exp(low); if the table has logarithms, `low` is 0. If `own` is
    True, `times` may overwrite the array.
    """

    def __init__(self, table, axes, low=0.0, own=False):
        self.table, self.axes, self.low, self.own = table, axes, low, own

    def times(self, other, order, arithmetic):
        """Return the product of two tables, with axes in the order of elimination.

        `order` maps each variable to its position in the order of elimination.
        """
        low = self.low + other.low
        if low < _LEAST:
            raise OutOfRange
        inside = set(other.axes) <= set(self.axes)
        if self.own and inside and self.table.shape[-1] >= other.table.shape[-1]:
            part = _spread(other.table, other.axes, self.axes)
            arithmetic.multiply(self.table, part, out=self.table)
            self.low = low
            return self
        axes = tuple(sorted({*self.axes, *other.axes}, key=order.__getitem__))
        one, two = (_spread(f.table, f.axes, axes) for f in (self, other))
        return _Factor(arithmetic.multiply(one, two), axes, low, own=True)


def _spread(table, own, axes):
    """Return a view of a table that has an axis for each variable in `axes`.

    `own` are the variables of the table. The new axes, for variables that are not in `own`, have
    length 1.
    """
    sizes = dict(zip(own, table.shape))
    return table.reshape(*(sizes.get(v, 1) for v in axes), table.shape[-1])


def reduce_to(table, axes, keep, reduce):
    """Sum or maximise a table over all variables that are not in the set `keep`.

    `axes` are the variables of the table. `reduce` is np.add, np.logaddexp or np.maximum.
    """
    left, sizes = list(axes), list(table.shape[:-1])
    for v in axes:  # sum over the first axis first, because its slices are the longest
        if v not in keep:
            place = left.index(v)
            left.remove(v)
            n_slower = math.prod(sizes[:place])
            parts = table.reshape(n_slower, sizes.pop(place), -1)
            table = reduce_axis(parts, 1, reduce)
    return table.reshape(*sizes, -1)


def reduce_axis(table, axis, reduce):
    """Combine the slices of a table along an axis by `reduce`, from the first to the last."""
    first, *others = np.moveaxis(table, axis, 0)
    return functools.reduce(reduce, others, first)


def _scaled(log_table, axes, arithmetic):
    """Divide the weights of a table by the largest weight of each model.

    Return the new table, and the logarithm of the largest weight. `log_table` has logarithms of
    weights; the new table has weights if `arithmetic` is `SUM`, else logarithms. Logarithms are
    scaled, too, because adding up large fields would lose the digits of small terms.
    """
    top = _top(log_table)
    log_table = log_table - top
    if arithmetic is not SUM:
        return _Factor(log_table, axes, own=True), top
    low = log_table.min(where=log_table > -np.inf, initial=0.0)
    return _Factor(np.exp(log_table), axes, float(low), own=True), top


def _top(log_table):
    """Return the largest entry of a table for each model (R,), or 0 if all entries are -inf."""
    top = log_table.max(axis=tuple(range(log_table.ndim - 1)))
    return np.where(top == -np.inf, 0.0, top)


def go_up(plan, tables, sides, arithmetic, maximised=frozenset()):
    """Eliminate all variables, from the first bucket to the last.

    `tables` are log-potentials over the free variables. `sides` (n_variables, K, R) are the
    log-weights of up to K states of each variable in R models. The variables in `maximised` are
    eliminated by maxima, even if `arithmetic` computes sums. `OutOfRange` is raised if weights may
    underflow.

    Returns
    -------
    log_total : ndarray (R,)
        Logarithm of the sum or of the maximum of the weights of all states.
    conditionals : list of ndarray
        For each bucket, the conditional probabilities of its variable given the neighbours, or the
        logarithms of these probabilities. If a state of the neighbours is impossible, all
        probabilities given this state are 0.
    """
    total = np.zeros(sides.shape[2])
    conditionals, messages = [], {}
    order = {bucket.scope[0]: i for i, bucket in enumerate(plan.buckets)}
    for i, bucket in enumerate(plan.buckets):
        v = bucket.scope[0]
        logs = [
            (sides[v, : plan.counts[v]], (v,)),
            *((tables[f], plan.axes[f]) for f in bucket.factors),
        ]
        parts = []
        for table, axes in logs:
            part, top = _scaled(table, axes, arithmetic)
            parts.append(part)
            total += top
        parts += [messages.pop(c) for c in bucket.children]
        product = parts[0]
        for one, other in bucket.sum_order:
            product = parts[other] = parts[other].times(parts[one], order, arithmetic)
            parts[one] = None
        table = product.table
        reduce = np.maximum if v in maximised else arithmetic.reduce
        message = reduce_axis(table, 0, reduce)
        zero = message == arithmetic.zero
        safe = np.where(zero, 1.0 if arithmetic is SUM else 0.0, message) if zero.any() else message
        conditionals.append(arithmetic.divide(table, safe, out=table if product.own else None))
        if bucket.parent < 0:
            with np.errstate(divide="ignore"):
                total += np.log(message) if arithmetic is SUM else message
            continue
        low = product.low
        if arithmetic is SUM:
            top = message.max(axis=tuple(range(message.ndim - 1)))
            top = np.where(top == 0, 1.0, top)
            total += np.log(top)
            message = message / top
            low -= max(0.0, float(np.log(top).max()))
            if low < _LEAST / 2:  # replace `low`, a loose bound, by the exact value
                least = message.min(where=message > 0, initial=1.0)
                low = float(np.log(least))
        else:
            top = _top(message)
            total += top
            message = message - top
        messages[i] = _Factor(message, bucket.scope[1:], low, own=True)
    return total, conditionals


def go_down(plan, conditionals, arithmetic):
    """Yield the index of each bucket and the beliefs of its scope, beginning with the last bucket.

    With sums, beliefs are joint probabilities or log-probabilities of the scope. With maxima, the
    belief of a joint state of the scope is the score of the best full state that contains the joint
    state, minus the score of the best state of all.
    """
    beliefs = {}
    waiting = [len(bucket.children) for bucket in plan.buckets]
    for i in reversed(range(len(plan.buckets))):
        bucket = plan.buckets[i]
        belief = conditionals[i]
        if bucket.parent >= 0:
            above = plan.buckets[bucket.parent].scope
            keep = set(bucket.scope[1:])
            shared = reduce_to(beliefs[bucket.parent], above, keep, arithmetic.reduce)
            belief = arithmetic.multiply(belief, shared)
            waiting[bucket.parent] -= 1
            if waiting[bucket.parent] == 0:
                del beliefs[bucket.parent]
        if bucket.children:
            beliefs[i] = belief
        yield i, belief


def log_weights_of(belief, place, arithmetic):
    """Return a list with the log-weights (R,) of each state of the variable on axis `place`."""
    n_slower, k = math.prod(belief.shape[:place]), belief.shape[place]
    parts = belief.reshape(n_slower, k, -1, belief.shape[-1])
    sides = []
    for value in range(k):
        part = parts[:, value]
        with np.errstate(divide="ignore"):
            if arithmetic is SUM:
                sides.append(np.log(part.sum(axis=(0, 1))))
                continue
            top = part.max(axis=(0, 1))
            if arithmetic is LOG_SUM:
                shift = np.where(top == -np.inf, 0.0, top)
                top = shift + np.log(np.exp(part - shift).sum(axis=(0, 1)))
        sides.append(top)
    return sides
