"""The conditions that rules impose on label vectors: edges, counts and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import product
from typing import NamedTuple

import numpy as np

# A `Count` of at most this many labels becomes a single table of the factor graph. A longer `Count`
# becomes a chain of tables, linked by additional variables that count the true literals so far.
_SINGLE_TABLE = 4


class Count(NamedTuple):
    """The condition that at least `low` and at most `high` of m literals are true.

    Literal j is a statement about a label: it is true if label ``labels[j]`` has the value
    ``values[j]``.
    """

    labels: np.ndarray  # (m,) int64
    values: np.ndarray  # (m,) int64, 0 or 1
    low: int
    high: int


class Conditions:
    """The conditions that a list of rules imposes on L labels.

    There are three kinds of conditions: an edge (a child is 1 only if its parent is 1), a `Count`,
    and a table of the allowed combinations of some labels. A clause (at least one of its literals
    is true) is stored as a `Count`.
    """

    def __init__(self, n_labels: int):
        self.n_labels = n_labels
        self.edges: list[tuple[int, int]] = []
        self.counts: list[Count] = []
        self.tables: list[tuple[tuple[int, ...], np.ndarray]] = []
        #: First parent (L,) of each label; -1 if the label has no parent.
        self.parent = np.full(n_labels, -1)

    def add_table(self, scope: Iterable[int], allowed: np.ndarray) -> None:
        """Require that `allowed` is True at the index that the labels in `scope` form."""
        self.tables.append((tuple(scope), allowed))

    def add_count(self, labels: Sequence[int], values: np.ndarray, low: int, high: int) -> None:
        """Require that at least `low` and at most `high` of the literals are true; see `Count`.

        A clause "a is off or b is on" is stored as an edge with the parent b and the child a, and
        not as a `Count`.
        """
        count = Count(np.array(labels), np.array(values, np.int64), low, high)
        if (len(count.labels), low, high, count.values.sum()) == (2, 1, 2, 1):
            given, then = count.labels[np.argsort(count.values)].tolist()
            self.add_edge(then, given)
        else:
            self.counts.append(count)

    def add_edge(self, parent: int, child: int) -> None:
        """Require that `child` is on only if `parent` is on.

        `parent` becomes the first parent of `child` unless `child` already has a first parent, or
        is an ancestor of `parent`.
        """
        self.edges.append((parent, child))
        above = parent
        while above >= 0 and above != child:
            above = self.parent[above]
        if self.parent[child] < 0 and above < 0:
            self.parent[child] = parent

    @property
    def only_edges(self) -> bool:
        """True if all conditions are edges."""
        return not self.counts and not self.tables

    def edges_only(self) -> Conditions:
        """Return the edges as conditions of their own."""
        found = Conditions(self.n_labels)
        found.edges, found.parent = self.edges, self.parent
        return found

    def edge_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the parents and the children (E,) of the different edges."""
        edges = np.array(sorted(set(self.edges)), np.int64).reshape(-1, 2)
        return edges[:, 0].copy(), edges[:, 1].copy()

    def parents_first(self) -> np.ndarray | None:
        """Return the labels (L,), parents before their children, or None if edges form a cycle."""
        above: dict[int, list[int]] = {label: [] for label in range(self.n_labels)}
        for parent, child in sorted(set(self.edges)):
            above[child].append(parent)
        try:
            return np.array(list(TopologicalSorter(above).static_order()), np.int64)
        except CycleError:
            return None

    def satisfied(self, labels: np.ndarray) -> np.ndarray:
        """Return a mask (N,): True for the rows of `labels` that satisfy all conditions.

        `labels` (N, L) holds N vectors of L labels, 0 or 1.
        """
        labels = np.asarray(labels).astype(np.int8)
        good = np.ones(len(labels), bool)
        if self.edges:
            parents, children = np.array(self.edges).T
            good &= (labels[:, children] <= labels[:, parents]).all(axis=1)
        for count in self.counts:
            n_true = (labels[:, count.labels] == count.values).sum(axis=1)
            good &= (n_true >= count.low) & (n_true <= count.high)
        for scope, allowed in self.tables:
            good &= allowed[tuple(labels[:, scope].T)]
        return good

    def enumerate(self) -> np.ndarray:
        """Return all label vectors that satisfy the conditions, as a 0/1 array (n_vectors, L)."""
        vectors = np.array(list(product((0, 1), repeat=self.n_labels)), np.int8)
        return vectors[self.satisfied(vectors)]

    def factor_tables(
        self, forbidden: float = -np.inf
    ) -> tuple[np.ndarray, list[tuple[tuple[int, ...], np.ndarray]]]:
        """Return the conditions as tables of a factor graph.

        The variables of the graph are the labels, followed by additional variables that count
        labels. The result has two parts: the number of states of each variable, and a list with the
        scope (variables) and the log-potentials of each table. The log-potential is 0 for an
        allowed combination of the states of the variables in the scope, else `forbidden`.
        """
        n_states = [2] * self.n_labels
        found = list(self.tables)
        below = np.array([[True, False], [True, True]])  # parent, child
        found += [(edge, below) for edge in self.edges]
        rank = self._depth_first()
        for count in self.counts:
            found += _tables_of(count, rank, n_states)
        tables = [(scope, np.where(allowed, 0.0, forbidden)) for scope, allowed in found]
        return np.array(n_states), tables

    def _depth_first(self) -> np.ndarray:
        """Return the position (L,) of each label in a depth-first traversal of the hierarchy."""
        rank = np.empty(self.n_labels, np.int64)
        rank[depth_first(self.parent)] = np.arange(self.n_labels)
        return rank


def depth_first(parent: np.ndarray) -> list[int]:
    """Return the labels in depth-first order of trees, given the parent (L,) of each label.

    The parent of a root is -1.
    """
    children: dict[int, list[int]] = {}
    for child, above in enumerate(parent.tolist()):
        children.setdefault(above, []).append(child)
    order, waiting = [], children.get(-1, [])[::-1]
    while waiting:
        order.append(waiting.pop())
        waiting.extend(children.get(order[-1], [])[::-1])
    return order


def _tables_of(count, rank, n_states):
    """Return a pair (scope, allowed) for each table that expresses a `Count`.

    If the `Count` needs a chain of tables, the additional variables that link the tables are
    appended to `n_states`, the list of the numbers of states of all variables.
    """
    low, high, n = count.low, count.high, len(count.labels)
    if n <= _SINGLE_TABLE:
        states = np.indices((2,) * n).reshape(n, -1)
        n_true = (states == count.values[:, None]).sum(axis=0)
        allowed = (n_true >= low) & (n_true <= high)
        return [(tuple(count.labels.tolist()), allowed.reshape((2,) * n))]
    # The variables that link the tables do not count beyond `top`, because larger counts make no
    # difference to the condition.
    top = high + 1 if high < n else low
    counts = np.arange(top + 1)
    tables, before = [], None
    # Count the labels of a hierarchy in depth-first order. The treewidth of the graph is then at
    # most the depth of the hierarchy, because the count so far and the next labels depend on each
    # other only through the ancestors of the next labels.
    for j in np.argsort(rank[count.labels]):
        label = int(count.labels[j])
        step = np.minimum(counts[:, None] + (np.arange(2) == count.values[j]), top)
        allowed = step[:, :, None] == counts
        n_states.append(top + 1)
        after = len(n_states) - 1
        if before is None:  # nothing has been counted yet
            tables.append(((label, after), allowed[0]))
        else:
            tables.append(((before, label, after), allowed))
        before = after
    return [*tables, ((before,), (counts >= low) & (counts <= high))]
