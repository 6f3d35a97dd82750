"""Elimination of variables: its plan, known before any table is made, and the passes over tables.

A table is an array with an axis of two for each variable of its scope, and the models of a chunk
as its last axis, or one entry there for all of them. Its numbers are logarithms, or weights
scaled to at most 1: these take a third of the time, but have less room.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from skcrbm.utils.graphs import min_fill
from skcrbm.utils.limits import MAX_KEPT_TABLES


class Bucket(NamedTuple):
    """The table from which one variable is eliminated.

    Attributes
    ----------
    scope : tuple of int
        The variable, then its neighbours in the order in which they are eliminated: the axes
        of the table.
    parent : int
        Bucket of the next of them, to which the message goes; -1 if there is none.
    factors : list of int
        Tables of the graph that are multiplied here.
    children : list of int
        Buckets whose messages are, too.
    sum_order : list of (int, int)
        Of the field, the factors and the messages, numbered in this order: add the first to the
        second, which holds all of them in the end.
    """

    scope: tuple
    parent: int
    factors: list
    children: list
    sum_order: list


class Plan(NamedTuple):
    """An elimination of the free variables of a graph.

    Attributes
    ----------
    held : ndarray of bool (n,)
    buckets : list of Bucket
        In the order of elimination.
    axes : list of tuple of int
        Free variables of each table, in that order.
    places : list of list of (int, int)
        Of each bucket, the variables whose beliefs are read off it, and their axes: the smallest
        table that has them.
    n_variables : int
        With those that chains of OR and AND add.
    """

    held: np.ndarray
    buckets: list
    axes: list
    places: list
    n_variables: int

    @property
    def entries(self):
        """Entries of the largest table, of one model."""
        return 2 ** max((len(b.scope) for b in self.buckets), default=0)


def make_plan(graph, held, max_entries):
    """Plan the elimination of the variables that are free.

    Parameters
    ----------
    graph : FactorGraph
    held : ndarray of bool (n,)
    max_entries : int

    Raises
    ------
    ValueError
        If a table would have more entries, naming the width found.
    """
    scopes, _, n_variables = graph.expanded
    if held.any():
        fixed = set(np.flatnonzero(held).tolist())
        scopes = [tuple(v for v in scope if v not in fixed) for scope in scopes]
        found = min_fill(scopes, (v for v in range(n_variables) if v not in fixed))
    else:
        found = graph.elimination
    sizes = [2 ** (len(near) + 1) for near in found.neighbours]
    in_all = sum(sizes)
    if not found.complete or max(sizes, default=0) > max_entries:
        least = "" if found.complete else "at least "
        raise ValueError(
            f"'exact' eliminates variables at a width of {least}{found.width}, that is with a "
            f"table of {least}2^{found.width + 1} entries; the limit is max_entries={max_entries}. "
            "Use 'sum_product', 'max_product' or 'gibbs', or Exact(max_entries=...)"
        )
    if in_all > MAX_KEPT_TABLES * max_entries:
        raise ValueError(
            f"'exact' eliminates variables at a width of {found.width}, with tables of {in_all} "
            f"entries in all; the limit is {MAX_KEPT_TABLES} times max_entries={max_entries}. Use "
            "'sum_product', 'max_product' or 'gibbs', or Exact(max_entries=...)"
        )
    return _as_plan(scopes, held, found, n_variables)


def _as_plan(scopes, held, found, n_variables):
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
    return Plan(held, buckets, axes, places, n_variables)


def _sum_order(parts, scope):
    """Order in which to add tables so that few additions are of the size of the whole.

    Parameters
    ----------
    parts : list of tuple of int
        Axes of each; their union is `scope`.

    Returns
    -------
    list of (int, int)
        Add the first to the second, which then has the axes of both.
    """
    steps, first, sets = [], {}, []
    for i, part in enumerate(parts):  # equal scopes
        j = first.setdefault(part, i)
        if i != j:
            steps.append((i, j))
        sets.append(frozenset(part))
    largest = sorted(first.values(), key=lambda i: (len(sets[i]), i))
    left = []
    for n, i in enumerate(largest):  # scopes that are part of another, the smallest such one
        into = next((j for j in largest[n + 1 :] if sets[i] < sets[j]), None)
        if into is None:
            left.append(i)
        else:
            steps.append((i, into))
    return steps + list(pairwise(left))


# Products of weights of which no factor is below exp(_LEAST) in all stay clear of underflow.
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
    """Weights that differ by too much: logarithms have room for them."""


class _Factor:
    """A table on its way up.

    Attributes
    ----------
    table : ndarray
    axes : tuple of int
    low : float
        No weight but 0 is below exp(low); 0 for logarithms, which need no such care.
    own : bool
        Whether the array may be overwritten.
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
    """View of a table with axes of one where it does not depend on a variable."""
    own = set(own)
    return table.reshape(*(2 if v in own else 1 for v in axes), table.shape[-1])


def reduce_to(table, axes, keep, reduce):
    """Sum, or maximum, over all variables of a table that are not kept, in its order.

    Parameters
    ----------
    table : ndarray
    axes : tuple of int
    keep : set of int
    reduce : ufunc of two tables

    Returns
    -------
    ndarray
    """
    left = list(axes)
    for v in axes:  # the slowest first: its halves are the longest
        if v not in keep:
            halves = table.reshape(2 ** left.index(v), 2, -1)
            left.remove(v)
            table = reduce(halves[:, 0], halves[:, 1])
    return table.reshape(*(2,) * len(left), -1)


def _scaled(log_table, axes, arithmetic):
    """Return a table of logarithms for an arithmetic, its largest entry 1; the log of what it was.

    Logarithms are scaled, too: beside a large field, small numbers would be lost in their sum.
    """
    top = _top(log_table)
    log_table = log_table - top
    if arithmetic is not SUM:
        return _Factor(log_table, axes, own=True), top
    low = log_table.min(where=log_table > -np.inf, initial=0.0)
    return _Factor(np.exp(log_table), axes, float(low), own=True), top


def _top(log_table):
    """Largest entry (R,) of each model, 0 where all are -inf."""
    top = log_table.max(axis=tuple(range(log_table.ndim - 1)))
    return np.where(top == -np.inf, 0.0, top)


def go_up(plan, tables, sides, arithmetic):
    """Eliminate all variables.

    Parameters
    ----------
    plan : Plan
    tables : list of ndarray
        Log-potentials of each table of the graph over its free variables.
    sides : ndarray (n_variables, 2, R)
        Log-weights of both values of each variable.
    arithmetic : Arithmetic

    Returns
    -------
    log_total : ndarray (R,)
        Logarithm of the sum, or the maximum, over all states of the free variables.
    conditionals : list of ndarray
        Probability of each bucket's variable given its neighbours, 0 where these are
        impossible; or its logarithm.

    Raises
    ------
    OutOfRange
        If weights do not have the room.
    """
    total = np.zeros(sides.shape[2])
    conditionals, messages = [], {}
    order = {bucket.scope[0]: i for i, bucket in enumerate(plan.buckets)}
    for i, bucket in enumerate(plan.buckets):
        v = bucket.scope[0]
        logs = [(sides[v], (v,)), *((tables[f], plan.axes[f]) for f in bucket.factors)]
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
        message = arithmetic.reduce(table[0], table[1])
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
            if low < _LEAST / 2:  # the bound is a wide one: look
                least = message.min(where=message > 0, initial=1.0)
                low = float(np.log(least))
        else:
            top = _top(message)
            total += top
            message = message - top
        messages[i] = _Factor(message, bucket.scope[1:], low, own=True)
    return total, conditionals


def go_down(plan, conditionals, arithmetic):
    """Yield the bucket's number, and beliefs of its scope, from the roots on.

    With sums, they are probabilities, or their logarithms; with maxima, scores of the best state
    with these values, less that of the best of all.
    """
    beliefs = {}
    waiting = [len(bucket.children) for bucket in plan.buckets]
    for i in reversed(range(len(plan.buckets))):
        bucket = plan.buckets[i]
        belief = conditionals[i]
        if bucket.parent >= 0:
            above = plan.buckets[bucket.parent].scope
            keep = set(bucket.scope[1:])
            there = reduce_to(beliefs[bucket.parent], above, keep, arithmetic.reduce)
            belief = arithmetic.multiply(belief, there)
            waiting[bucket.parent] -= 1
            if waiting[bucket.parent] == 0:
                del beliefs[bucket.parent]
        if bucket.children:
            beliefs[i] = belief
        yield i, belief


def log_odds_of(belief, place, arithmetic):
    """Log-odds (R,) of the variable that is axis `place` of a belief."""
    halves = belief.reshape(2**place, 2, -1, belief.shape[-1])
    sides = []
    for value in (0, 1):
        part = halves[:, value]
        with np.errstate(divide="ignore"):
            if arithmetic is SUM:
                sides.append(np.log(part.sum(axis=(0, 1))))
                continue
            top = part.max(axis=(0, 1))
            if arithmetic is LOG_SUM:
                shift = np.where(top == -np.inf, 0.0, top)
                top = shift + np.log(np.exp(part - shift).sum(axis=(0, 1)))
        sides.append(top)
    return sides[1] - sides[0]
