"""Elimination of variables: its plan, known before any table is made, and the passes over tables.

A table is an array with an axis of states for each variable of its scope, and the models of a
chunk as its last axis, or one entry there for all of them. Its numbers are logarithms, or weights
scaled to at most 1: these take a third of the time, but have less room.
"""

from __future__ import annotations

import functools
import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from skcrbm.utils.graphs import min_fill
from skcrbm.utils.limits import MAX_KEPT_TABLES


class Bucket(NamedTuple):
    """The table from which a variable is eliminated."""

    # Axes of the table: the variable, then its neighbours in the order of elimination.
    scope: tuple[int, ...]
    parent: int  # bucket of the first neighbour, which gets the message; -1 without neighbours
    factors: list[int]  # tables of the graph that are multiplied here
    children: list[int]  # buckets whose messages are multiplied here
    # Pairs (i, j) of the field, the factors and the messages, numbered in this order: multiply
    # the product j by i. The last product holds all of them.
    sum_order: list[tuple[int, int]]


class Plan(NamedTuple):
    """An elimination of the free variables of a graph."""

    held: np.ndarray  # bool (n,)
    buckets: list[Bucket]  # in the order of elimination
    axes: list[tuple[int, ...]]  # free variables of each table, in the order of elimination
    # For each bucket (variable, axis) of the beliefs that are read from it: a variable is read
    # from the smallest table that has it.
    places: list[list[tuple[int, int]]]
    counts: list[int]  # states of each variable, including those that chains of OR and AND add
    entries: int  # number of entries of the largest table of a model

    @property
    def n_variables(self) -> int:
        """Number of variables, including the variables that chains of OR and AND add."""
        return len(self.counts)


def make_plan(graph, held: np.ndarray, max_entries: int) -> Plan:
    """Plan the elimination of the variables of a `FactorGraph` that are not held.

    Raises
    ------
    ValueError
        If a table would have more than `max_entries` entries.
    """
    scopes, _, n_variables = graph.expanded
    counts = [*graph.n_states.tolist(), *(2,) * (n_variables - graph.n_variables)]
    if held.any():
        fixed = set(np.flatnonzero(held).tolist())
        scopes = [tuple(v for v in scope if v not in fixed) for scope in scopes]
        found = min_fill(scopes, (v for v in range(n_variables) if v not in fixed), counts)
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
            f"'exact' eliminates variables at a width of {least}{found.width}, that is with a "
            f"table of {least}{_entries(largest)}; the limit is max_entries={max_entries}. Use "
            "'sum_product', 'max_product' or 'gibbs', or Exact(max_entries=...)"
        )
    if in_all > MAX_KEPT_TABLES * max_entries:
        raise ValueError(
            f"'exact' eliminates variables at a width of {found.width}, with tables of {in_all} "
            f"entries in all; the limit is {MAX_KEPT_TABLES} times max_entries={max_entries}. Use "
            "'sum_product', 'max_product' or 'gibbs', or Exact(max_entries=...)"
        )
    return _as_plan(scopes, held, found, counts, largest)


def _entries(count):
    """Return a number of entries and its memory as text; a power of 2 is written as such."""
    number = f"2^{count.bit_length() - 1}" if count & (count - 1) == 0 else f"{count:,}"
    return f"{number} entries ({8 * count / 2**30:.3g} GiB)"


def _as_plan(scopes, held, found, counts, entries):
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
        # Children come before their parents, so all of this bucket's are known by now.
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


def _sum_order(parts, scope):
    """Return pairs (i, j): multiply j by i; few of the products have the size of `scope`.

    `parts` are the axes of each table, with `scope` as their union.
    """
    steps, first, sets = [], {}, []
    for i, part in enumerate(parts):  # equal scopes
        j = first.setdefault(part, i)
        if i != j:
            steps.append((i, j))
        sets.append(frozenset(part))
    largest = sorted(first.values(), key=lambda i: (len(sets[i]), i))
    left = []
    for n, i in enumerate(largest):  # a scope inside others goes to the smallest of them
        into = next((j for j in largest[n + 1 :] if sets[i] < sets[j]), None)
        if into is None:
            left.append(i)
        else:
            steps.append((i, into))
    return steps + list(pairwise(left))


# A product of weights does not underflow if it is at least exp(_LEAST).
_LEAST = -600.0


class Arithmetic(NamedTuple):
    """How tables are multiplied, divided, and summed over a variable."""

    multiply: Any
    divide: Any
    reduce: Any
    zero: float


#: Sums and maxima of logarithms, and sums of weights.
LOG_SUM = Arithmetic(np.add, np.subtract, np.logaddexp, -np.inf)
LOG_MAX = Arithmetic(np.add, np.subtract, np.maximum, -np.inf)
SUM = Arithmetic(np.multiply, np.divide, np.add, 0.0)


class OutOfRange(ArithmeticError):
    """The range of the weights is too large for a float; logarithms have the room."""


class _Factor:
    """A table in the upward pass.

    No weight other than 0 is below exp(low); with logarithms `low` is 0. If `own`, the array may be
    overwritten.
    """

    def __init__(self, table, axes, low=0.0, own=False):
        self.table, self.axes, self.low, self.own = table, axes, low, own

    def times(self, other, order, arithmetic):
        """Return the product of the two, in the order of elimination `order`."""
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
    """Return a view of a table with axes of length 1 for the variables that it does not have."""
    sizes = dict(zip(own, table.shape))
    return table.reshape(*(sizes.get(v, 1) for v in axes), table.shape[-1])


def reduce_to(table, axes, keep, reduce):
    """Return the sum, or maximum, over the variables of a table that are not in the set `keep`."""
    left, sizes = list(axes), list(table.shape[:-1])
    for v in axes:  # the slowest variable first, as its parts are the longest
        if v not in keep:
            place = left.index(v)
            left.remove(v)
            n_slower = math.prod(sizes[:place])
            parts = table.reshape(n_slower, sizes.pop(place), -1)
            table = reduce_axis(parts, 1, reduce)
    return table.reshape(*sizes, -1)


def reduce_axis(table, axis, reduce):
    """Return the sum, or maximum, over an axis of a table, from its first state on."""
    first, *others = np.moveaxis(table, axis, 0)
    return functools.reduce(reduce, others, first)


def _scaled(log_table, axes, arithmetic):
    """Return a table of logarithms for an arithmetic, divided by its largest entry; and its log.

    Logarithms are scaled, too: a large field would make their sums lose small numbers.
    """
    top = _top(log_table)
    log_table = log_table - top
    if arithmetic is not SUM:
        return _Factor(log_table, axes, own=True), top
    low = log_table.min(where=log_table > -np.inf, initial=0.0)
    return _Factor(np.exp(log_table), axes, float(low), own=True), top


def _top(log_table):
    """Return the largest entry (R,) of each model, 0 if all its entries are -inf."""
    top = log_table.max(axis=tuple(range(log_table.ndim - 1)))
    return np.where(top == -np.inf, 0.0, top)


def go_up(plan, tables, sides, arithmetic):
    """Eliminate all variables.

    `tables` are log-potentials over free variables, `sides` (n_variables, K, R) log-weights of the
    states of each variable.

    Returns
    -------
    log_total : ndarray (R,)
        Logarithm of the sum, or the maximum, over all states of the free variables.
    conditionals : list of ndarray
        Probability of the variable of each bucket given its neighbours, 0 if these are
        impossible; or its logarithm.

    Raises
    ------
    OutOfRange
        If the range of the weights is too large for a float.
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
        message = reduce_axis(table, 0, arithmetic.reduce)
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
            if low < _LEAST / 2:  # `low` is a rough bound: compute it
                least = message.min(where=message > 0, initial=1.0)
                low = float(np.log(least))
        else:
            top = _top(message)
            total += top
            message = message - top
        messages[i] = _Factor(message, bucket.scope[1:], low, own=True)
    return total, conditionals


def go_down(plan, conditionals, arithmetic):
    """Yield the number of each bucket and the beliefs of its scope, from the roots on.

    With sums, beliefs are probabilities or their logarithms. With maxima, they are the score of the
    best state with these values, minus the score of the best state.
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
    """Return the log-weights (K, R) of the states of the variable that is axis `place`."""
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
