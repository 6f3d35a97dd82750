"""The conditions that rules impose on label vectors: edges, counts and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

# A count over at most this many labels is a single table of the factor graph; longer counts are
# chains of tables with counters between them.
_SINGLE_TABLE = 4


class Count(NamedTuple):
    """The condition that between `low` and `high` of some literals are true.

    Literal j is true if label ``labels[j]`` has the value ``values[j]``.
    """

    labels: np.ndarray  # (m,) int64
    values: np.ndarray  # (m,) int64, 0 or 1
    low: int
    high: int


class Conditions:
    """The conditions of a list of rules for L labels.

    A rule adds edges (a child is on only if its parent is on), counts, and tables of allowed
    combinations. A clause is a count, too: at least one of its literals is true.
    """

    def __init__(self, n_labels: int):
        self.n_labels = n_labels
        self.edges: list[tuple[int, int]] = []
        self.counts: list[Count] = []
        self.tables: list[tuple[tuple[int, ...], np.ndarray]] = []
        #: First parent (L,) of each label, -1 without a parent.
        self.parent = np.full(n_labels, -1)

    def add_table(self, scope: Iterable[int], allowed: np.ndarray) -> None:
        """Add a table over the labels of `scope`, with True for allowed combinations."""
        self.tables.append((tuple(scope), allowed))

    def add_count(self, labels: Sequence[int], values: np.ndarray, low: int, high: int) -> None:
        """Require that between `low` and `high` of the literals are true; see `Count`.

        The clause "if a is on, b is on" becomes the edge (b, a).
        """
        count = Count(np.array(labels), np.array(values, np.int64), low, high)
        if (len(count.labels), low, high, count.values.sum()) == (2, 1, 2, 1):
            given, then = count.labels[np.argsort(count.values)].tolist()
            self.add_edge(then, given)
        else:
            self.counts.append(count)

    def add_edge(self, parent: int, child: int) -> None:
        """Require that `child` is on only if `parent` is on.

        The parent is stored unless the child has a parent or is an ancestor of `parent`.
        """
        self.edges.append((parent, child))
        above = parent
        while above >= 0 and above != child:
            above = self.parent[above]
        if self.parent[child] < 0 and above < 0:
            self.parent[child] = parent

    def satisfied(self, labels: np.ndarray) -> np.ndarray:
        """Return True (N,) for the rows of 0/1 labels (N, L) that satisfy all conditions."""
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
        """Return all 0/1 label vectors (n_allowed, L) that satisfy the conditions."""
        vectors = np.array(list(product((0, 1), repeat=self.n_labels)), np.int8)
        return vectors[self.satisfied(vectors)]

    def factor_tables(
        self, forbidden: float = -np.inf
    ) -> tuple[np.ndarray, list[tuple[tuple[int, ...], np.ndarray]]]:
        """Return the conditions as tables of a factor graph.

        Return the numbers of states of the variables, which are the labels, followed by counters of
        labels; and the scope and the log-potentials of each table: 0 for allowed combinations of
        the variables of the scope, else `forbidden`.
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
        """Return the rank (L,) of each label in depth-first order of the hierarchy."""
        rank = np.empty(self.n_labels, np.int64)
        rank[depth_first(self.parent)] = np.arange(self.n_labels)
        return rank


def depth_first(parent: np.ndarray) -> list[int]:
    """Return the labels of a forest in depth-first order, given the parent (L,) of each label."""
    children: dict[int, list[int]] = {}
    for child, above in enumerate(parent.tolist()):
        children.setdefault(above, []).append(child)
    order, waiting = [], children.get(-1, [])[::-1]
    while waiting:
        order.append(waiting.pop())
        waiting.extend(children.get(order[-1], [])[::-1])
    return order


def _tables_of(count, rank, n_states):
    """Return (scope, allowed) of each table of a count, and append its counters to `n_states`."""
    low, high, n = count.low, count.high, len(count.labels)
    if n <= _SINGLE_TABLE:
        states = np.indices((2,) * n).reshape(n, -1)
        n_true = (states == count.values[:, None]).sum(axis=0)
        allowed = (n_true >= low) & (n_true <= high)
        return [(tuple(count.labels.tolist()), allowed.reshape((2,) * n))]
    # A counter does not count beyond `top`, because larger counts make no difference to the
    # condition.
    top = high + 1 if high < n else low
    counts = np.arange(top + 1)
    tables, before = [], None
    # Count the labels of a hierarchy in depth-first order. The width of the graph is then at most
    # the depth of the hierarchy, because the count so far and the next labels depend on each other
    # only through the ancestors of these labels.
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
