"""What an elimination will do, known before any table is made."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from skcrbm.utils.elimination import min_fill
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
