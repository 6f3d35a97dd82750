"""Probabilities and tables of labels under implications: a child is on only if its parents are.

The implications form a graph with an edge from each parent to each of its children.
"""

from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import fill, mix, next_uniform, root_of


class LabelOrder(NamedTuple):
    """An acyclic graph of L labels with E edges, as arrays."""

    order: np.ndarray  # (L,) int64, labels such that parents come before their children
    parent_start: np.ndarray  # (L + 1,) int64, position of the first parent of each label
    parents: np.ndarray  # (E,) int64, parents of all labels
    child_start: np.ndarray  # (L + 1,) int64, position of the first child of each label
    children: np.ndarray  # (E,) int64, children of all labels


@jit
def order_probabilities(parents, children, tolerance, most_sweeps, proba):
    """Move the probabilities of N rows as little as possible, such that children are not larger.

    The result in `proba` (N, L) is the isotonic regression of each row: it has the smallest sum of
    squared changes. The method is the dual coordinate ascent of Hildreth (1957, A quadratic
    programming procedure): each edge has a multiplier, which moves its two probabilities by equal
    amounts in opposite directions. A row is done if no edge moves by more than `tolerance`. The
    violations that remain are removed by lowering children.

    `parents` and `children` (E,) hold the two labels of each edge.
    """
    multiplier = np.empty(len(parents))
    for n in range(proba.shape[0]):
        p = proba[n]
        fill(multiplier, 0.0)
        for _ in range(most_sweeps):
            largest = 0.0
            for e in range(len(parents)):
                move = max((p[children[e]] - p[parents[e]]) / 2, -multiplier[e])
                if move != 0.0:
                    multiplier[e] += move
                    p[children[e]] -= move
                    p[parents[e]] += move
                    largest = max(largest, abs(move))
            if largest <= tolerance:
                break
        lowered = True
        while lowered:
            lowered = False
            for e in range(len(parents)):
                if p[children[e]] > p[parents[e]]:
                    p[children[e]] = p[parents[e]]
                    lowered = True


@jit
def _choose(items, count, n_items, state):
    """Move `count` random items among the first `n_items` of `items` to the beginning."""
    for k in range(count):
        other = k + np.int64(next_uniform(state) * (n_items - k))
        items[k], items[other] = items[other], items[k]


@jit
def _round_counts(graph, proba, n_draws, state, count):
    """Write to `count` (L,) the number of draws in which each label is on.

    The expected number is ``n_draws * proba``, up to labels with several parents whose numbers lie
    between the same two integers. No child has a larger number than one of its parents. `proba`
    (L,) must satisfy the implications.
    """
    for label in graph.order:
        exact = n_draws * proba[label]
        below = np.floor(exact)
        rest = exact - below
        least, chance = np.int64(n_draws), 1.0
        for e in range(graph.parent_start[label], graph.parent_start[label + 1]):
            parent = graph.parents[e]
            least = min(least, count[parent])
            of_parent = n_draws * proba[parent] - below
            if of_parent < 1.0:  # the number of the parent was rounded up with this probability
                chance *= of_parent
        count[label] = min(np.int64(below) + (next_uniform(state) * chance < rest), least)


@jit
def _all_on(graph, label, table, column):
    """Return True if all parents of a label are on in a column."""
    for e in range(graph.parent_start[label], graph.parent_start[label + 1]):
        if not table[graph.parents[e], column]:
            return False
    return True


@jit
def _any_on(graph, label, table, column):
    """Return True if some parent of a label is on in a column."""
    for e in range(graph.parent_start[label], graph.parent_start[label + 1]):
        if table[graph.parents[e], column]:
            return True
    return False


@jit
def _spare_column(graph, label, child, table, start):
    """Return a column in which a label is on but may be off, or -1; the search begins at `start`.

    All children of the label are off in the column, and not all parents of `child` are on.
    """
    n_draws = table.shape[1]
    for k in range(n_draws):
        column = (start + k) % n_draws
        if not table[label, column] or _all_on(graph, child, table, column):
            continue
        is_spare = True
        for e in range(graph.child_start[label], graph.child_start[label + 1]):
            is_spare &= not table[graph.children[e], column]
        if is_spare:
            return column
    return -1


@jit
def _bring_ancestors(graph, label, is_ancestor, table, column, state):
    """Move entries of the ancestors of a label to a column; return True if all are on at the end.

    An entry moves from a column in which no child of the ancestor is on.
    """
    for above in graph.order:
        if is_ancestor[above] and not table[above, column]:
            start = np.int64(next_uniform(state) * table.shape[1])
            spare = _spare_column(graph, above, label, table, start)
            if spare < 0:
                return False
            table[above, spare], table[above, column] = False, True
    return True


@jit
def _mark_ancestors(graph, label, is_ancestor):
    """Write to `is_ancestor` (L,) whether a label is an ancestor of `label`."""
    fill(is_ancestor, False)
    is_ancestor[label] = True
    for k in range(len(graph.order) - 1, -1, -1):
        below = graph.order[k]
        if is_ancestor[below]:
            for e in range(graph.parent_start[below], graph.parent_start[below + 1]):
                is_ancestor[graph.parents[e]] = True
    is_ancestor[label] = False


@jit
def _place_label(graph, label, count, table, may_change, free, is_ancestor, state):
    """Choose the columns in which a label is on, after its parents, and return their number.

    The columns are chosen at random among the columns in which all parents are on. If there are
    fewer than `count` of them, entries of the parents are moved.
    """
    _find_changeable(graph, label, table, may_change)
    n_free, n_draws = 0, table.shape[1]
    for s in range(n_draws):
        if may_change[s]:
            free[n_free] = s
            n_free += 1
    if n_free < count:
        _mark_ancestors(graph, label, is_ancestor)
        start = np.int64(next_uniform(state) * n_draws)
        n_tried, most = 0, 4 * (count - n_free) + 8
        for k in range(2 * n_draws):  # begin with the columns in which some parent is on
            column = (start + k) % n_draws
            if may_change[column] or (k < n_draws and not _any_on(graph, label, table, column)):
                continue
            if n_free == count or n_tried == most:
                break
            n_tried += 1
            if _bring_ancestors(graph, label, is_ancestor, table, column, state):
                may_change[column] = True
                free[n_free] = column
                n_free += 1
    _choose(free, min(count, n_free), n_free, state)
    for k in range(min(count, n_free)):
        table[label, free[k]] = True
    return min(count, n_free)


@jit
def draw_tables(graph, proba, n_sweeps, seed, table):
    """Draw a table of S draws of L labels at random among the tables with given sums of rows.

    The row of `table` (L, S) of each label has the sum that `proba` (L,) determines, up to a
    random rounding, and each column satisfies the implications. (If no column is left for a label
    with several parents, its sum is smaller.) First, labels are placed from parents to children.
    Then each sweep makes two kinds of moves, for which the uniform distribution over the possible
    tables is stationary: `_recombine` for random pairs of columns, and `_permute` for each label.
    """
    n_labels, n_draws = table.shape
    state = np.empty(1, np.uint64)
    state[0] = mix(np.uint64(seed))
    count = np.empty(n_labels, np.int64)
    _round_counts(graph, proba, n_draws, state, count)
    column, free, may_change = np.arange(n_draws), np.arange(n_draws), np.empty(n_draws, np.bool_)
    group, goes = np.empty(n_labels, np.int64), np.empty(n_labels, np.bool_)
    for label in range(n_labels):
        fill(table[label], False)
    for label in graph.order:
        count[label] = _place_label(
            graph, label, count[label], table, may_change, free, goes, state
        )
    n_open, open_labels = 0, np.empty(n_labels, np.int64)  # labels that are on in some columns only
    for label in graph.order:
        if 0 < count[label] < n_draws:
            open_labels[n_open] = label
            n_open += 1
    open_labels = open_labels[:n_open]
    a, b = np.zeros(n_labels, np.bool_), np.zeros(n_labels, np.bool_)
    for sweep in range(n_sweeps):
        _choose(column, n_draws - 1, n_draws, state)
        for k in range(0, n_draws - 1, 2):
            first, second = table[:, column[k]], table[:, column[k + 1]]
            for label in open_labels:
                a[label], b[label] = first[label], second[label]
            _recombine(graph, open_labels, a, b, state, group, goes)
            for label in open_labels:
                first[label], second[label] = a[label], b[label]
        for position in range(n_open):
            label = open_labels[position if sweep % 2 == 0 else n_open - 1 - position]
            _find_changeable(graph, label, table, may_change)
            _permute(table[label], may_change, free, state)


@jit
def _recombine(graph, open_labels, a, b, state, group, goes):
    """Exchange labels between two draws `a` and `b` (L,) at random.

    The labels that differ between the draws form groups, which are connected by edges. Each group
    is exchanged with probability 1/2. A label outside the groups has the same value in both draws,
    so both draws still satisfy the implications. `open_labels` are labels that may differ, parents
    before children. `group` and `goes` (L,) are scratch.
    """
    for label in open_labels:
        if a[label] != b[label]:
            group[label] = label
    for label in open_labels:
        if a[label] != b[label]:
            for e in range(graph.parent_start[label], graph.parent_start[label + 1]):
                parent = graph.parents[e]
                if a[parent] != b[parent]:
                    _join(group, label, parent)
    for label in open_labels:
        if a[label] != b[label] and group[label] == label:
            goes[label] = next_uniform(state) < 0.5
    for label in open_labels:
        if a[label] != b[label] and goes[root_of(group, label)]:
            a[label], b[label] = b[label], a[label]


@jit
def _join(group, label, other):
    """Join the groups of two labels."""
    group[root_of(group, label)] = root_of(group, other)


@jit
def _find_changeable(graph, label, table, may_change):
    """Write to `may_change` (S,) whether all parents of a label are on and all its children off."""
    fill(may_change, True)
    for e in range(graph.parent_start[label], graph.parent_start[label + 1]):
        above = table[graph.parents[e]]
        for s in range(len(above)):
            may_change[s] &= above[s]
    for e in range(graph.child_start[label], graph.child_start[label + 1]):
        below = table[graph.children[e]]
        for s in range(len(below)):
            may_change[s] &= not below[s]


@jit
def _permute(row, may_change, free, state):
    """Permute the entries of `row` (S,) at which `may_change` is True; `free` (S,) is scratch."""
    n_free = n_on = 0
    for s in range(len(row)):
        if may_change[s]:
            free[n_free] = s
            n_free += 1
            n_on += row[s]
    if n_on == 0 or n_on == n_free:
        return
    rare = 2 * n_on <= n_free
    for k in range(n_free):
        row[free[k]] = not rare
    n_chosen = n_on if rare else n_free - n_on
    _choose(free, n_chosen, n_free, state)
    for k in range(n_chosen):
        row[free[k]] = rare
