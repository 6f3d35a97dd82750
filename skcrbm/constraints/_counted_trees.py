"""Recognise rules that are trees of labels with counts, and convert them to arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skcrbm.constraints._conditions import Conditions, Count, depth_first
from skcrbm.inference.exact.counted_trees import make_walks


class CountedTrees(NamedTuple):
    """Conditions whose edges form trees of labels, as arrays for dynamic programming.

    The trees are divided into blocks. Trees with labels in the same `Count` form a block, which
    has a single `Count`. A tree whose labels are in no `Count` is a block of its own.
    """

    order: np.ndarray  # (L,) int64, labels in depth-first order
    walks: Any  # `skcrbm.kernels.counted_trees.Walks`


def counted_trees(conditions: Conditions) -> CountedTrees | None:
    """Return the conditions as trees with counts, or None if they have another form.

    The edges must form trees, and each tree may take part in at most one count.
    """
    edges, counts = edges_and_counts(conditions)
    parent = _parents(edges, conditions.n_labels)
    if conditions.tables or parent is None:
        return None
    block = _roots(parent)
    for count in counts:
        joined = np.unique(block[count.labels])
        block[np.isin(block, joined)] = joined[0]
    names = [int(block[count.labels[0]]) for count in counts]
    if len(set(names)) < len(names):
        return None  # a block with two counts
    order = np.array(depth_first(parent))
    order = order[np.argsort(block[order], kind="stable")]
    return CountedTrees(order, _walks(parent, block, dict(zip(names, counts)), order))


def edges_and_counts(conditions):
    """Return the set of edges, and a list of the counts that not all label vectors satisfy."""
    counts = [c for c in conditions.counts if c.low > 0 or c.high < len(c.labels)]
    return set(conditions.edges), counts


def _parents(edges, n_labels):
    """Return the parent (L,) of each label, -1 for roots; None if edges do not form a forest."""
    parent = np.full(n_labels, -1)
    for above, child in sorted(edges):
        if parent[child] >= 0:
            return None
        parent[child] = above
    return parent if len(depth_first(parent)) == n_labels else None  # a cycle has no root


def _roots(parent):
    """Return the root (L,) of the tree of each label."""
    root = np.arange(len(parent))
    for label in depth_first(parent):
        if parent[label] >= 0:
            root[label] = root[parent[label]]
    return root


def _walks(parent, block, count_of, order):
    """Return the `Walks` over the labels in the depth-first `order`.

    `parent` and `block` (L,) hold the parent and the block of each label. The dict `count_of` maps
    each block that has a `Count` to this `Count`.
    """
    n = len(order)
    position = np.empty(n, np.int64)
    position[order] = np.arange(n)
    size = np.ones(n, np.int64)
    for label in order[::-1]:
        if parent[label] >= 0:
            size[parent[label]] += size[label]
    true_on, true_off = np.zeros(n, np.int64), np.zeros(n, np.int64)
    low, top, stops = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, bool)
    for name, count in count_of.items():
        count = _with_fewer_states(count)
        here = block == name
        true_on[count.labels] = count.values
        true_off[count.labels] = 1 - count.values
        stops[here] = count.high == len(count.labels)
        low[here] = count.low
        top[here] = count.low if count.high == len(count.labels) else count.high
    after = np.arange(n) + size[order]
    total = np.concatenate([[0], np.cumsum(true_off[order])])
    begins = np.ones(n + 1, bool)
    begins[1:n] = np.diff(block[order]) != 0
    off_step = total[after] - total[:-1]
    return make_walks(after, true_on[order], off_step, low[order], top[order], stops[order], begins)


def _with_fewer_states(count):
    """Return `count`, or the equivalent condition on its false literals if this is cheaper.

    For example, "at least 8 of 9 literals are true" means "at most 1 of them is false", which needs
    fewer states.
    """
    n = len(count.labels)
    other = Count(count.labels, 1 - count.values, n - count.high, n - count.low)
    return min(count, other, key=lambda c: c.low if c.high == n else c.high)
