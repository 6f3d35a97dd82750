"""Search for labels of a wide graph that agree with constraints, or prove that there are none.

Sets of classes are integers with a bit for each class: 0b101 is the set of the classes 0 and 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

# The search gives up after _MOST_STEPS steps, or _STEPS_PER_ARC steps per arc if this is more. A
# step looks at an arc. A million steps take about a second.
_MOST_STEPS, _STEPS_PER_ARC = 1_000_000, 20
# The search starts again after _FIRST_CONFLICTS conflicts, and then after _GROWTH times as many.
_FIRST_CONFLICTS, _GROWTH = 50, 1.5


class Arc(NamedTuple):
    """Edge at a node, seen from this node."""

    other: int  # the other node of the edge
    allowed: list[int]  # for each class of the node, the set of classes that the other may have


class OutOfStepsError(Exception):
    """Raised if the search used all of its steps and has no result."""


class ConstraintSearch:
    """Depth-first search for labels of a graph, with propagation of constraints along the edges.

    `left` holds the set of classes that each node may have, and `near` the arcs of each node.

    The search chooses a class for a node, and removes the classes of other nodes that the remaining
    classes of their neighbours exclude. If a node has no class left, the search takes its last
    choice back, removes the chosen class, and adds to the weights of the two nodes of the edge at
    which this happened. Nodes with few classes and large weights come first. After some conflicts,
    the search starts again but keeps the weights, so that it begins where constraints are tight.

    If each node that lost classes since the first choice has a single class left, the choices
    exclude no class of any other node. The search then keeps these classes for good. Therefore it
    searches independent parts of a graph one after the other, and never takes back the choices of a
    part that it has finished.
    """

    def __init__(self, left: Sequence[int], near: Sequence[Sequence[Arc]]):
        self._near = near
        self._left = list(left)  # classes that remain after the choices
        self._base = list(left)  # classes that remain without the choices
        self._trail: list[tuple[int, int]] = []  # nodes that lost classes, and their earlier sets
        self._choices: list[tuple[int, int, int]] = []  # node, its class, length of the trail
        self._open: set[int] = set()  # nodes that lost classes and have several left
        self._heap: list[tuple[float, int, int]] = []  # priority, node and its set; may be outdated
        self._weight = [1.0] * len(left)
        self._supports: dict[tuple[int, int], int] = {}  # cache of `_support`
        self._steps_left = max(_MOST_STEPS, _STEPS_PER_ARC * sum(map(len, near)))
        self._rng: np.random.RandomState | None = None  # chooses classes after the first start

    def labels(self) -> list[int] | None:
        """Return a class for each node, or None if no labels agree with the constraints.

        Raises
        ------
        OutOfStepsError
            If the search needs more steps than the limit.
        """
        if not all(self._left) or not self._propagate(range(len(self._left))):
            return None
        n_conflicts, limit = 0, float(_FIRST_CONFLICTS)
        order: Sequence[int] = range(len(self._base))
        first = 0  # the nodes order[:first] have a single class for good
        while True:
            if self._choices and self._open:
                node = self._next_open()
            else:
                self._keep()
                while first < len(order) and _is_single(self._base[order[first]]):
                    first += 1
                if first == len(order):
                    return [classes.bit_length() - 1 for classes in self._base]
                node = order[first]
            chosen = self._class_of(self._left[node])
            self._choices.append((node, chosen, len(self._trail)))
            self._set(node, chosen)
            while not self._propagate([node]):
                n_conflicts += 1
                if not self._choices:
                    return None
                node, chosen, n_kept = self._choices.pop()
                self._undo(n_kept)
                self._set(node, self._left[node] & ~chosen)
            if n_conflicts >= limit and self._choices:
                n_conflicts, limit = 0, limit * _GROWTH
                self._rng = self._rng or np.random.RandomState(0)
                self._undo(self._choices[0][2])
                self._choices.clear()
                order, first = self._by_weight(), 0

    def _propagate(self, nodes: Iterable[int]) -> bool:
        """Remove excluded classes, beginning at the neighbours of `nodes`.

        Return False if a node has no class left.
        """
        queue = list(nodes)
        waiting = set(queue)
        for v in queue:  # the queue grows
            waiting.discard(v)
            self._steps_left -= len(self._near[v])
            if self._steps_left < 0:
                raise OutOfStepsError
            for u, allowed in self._near[v]:
                before = self._left[u]
                after = before & self._support(allowed, self._left[v])
                if after == before:
                    continue
                if not after:
                    self._weight[u] += 1
                    self._weight[v] += 1
                    return False
                self._set(u, after)
                if u not in waiting:
                    waiting.add(u)
                    queue.append(u)
        return True

    def _support(self, allowed, classes):
        """Return the set of classes of a node that some class of its neighbour allows."""
        key = id(allowed), classes
        if key not in self._supports:
            found = 0
            for k in range(classes.bit_length()):
                if classes >> k & 1:
                    found |= allowed[k]
            self._supports[key] = found
        return self._supports[key]

    def _set(self, v, classes):
        """Reduce the set of a node to `classes`."""
        self._trail.append((v, self._left[v]))
        self._put(v, classes)

    def _put(self, v, classes):
        self._left[v] = classes
        if classes == self._base[v] or _is_single(classes):
            self._open.discard(v)
        else:
            self._open.add(v)
            heappush(self._heap, (classes.bit_count() / self._weight[v], v, classes))

    def _undo(self, n_kept):
        """Undo all but the first `n_kept` changes of sets."""
        while len(self._trail) > n_kept:
            self._put(*self._trail.pop())

    def _keep(self):
        """Keep the present sets for good."""
        for v, _ in self._trail:
            self._base[v] = self._left[v]
        for part in (self._trail, self._choices, self._open, self._heap):
            part.clear()

    def _next_open(self):
        """Return the open node with the smallest ratio of its number of classes to its weight."""
        while True:
            _, v, classes = heappop(self._heap)
            if v in self._open and self._left[v] == classes:
                return v

    def _by_weight(self):
        """Return all nodes, those with the largest weights first."""
        return sorted(range(len(self._weight)), key=self._weight.__getitem__, reverse=True)

    def _class_of(self, classes):
        """Return the set of a single class: the first class, or a random class after a restart."""
        if self._rng is None:
            return classes & -classes
        several = [1 << k for k in range(classes.bit_length()) if classes >> k & 1]
        return several[self._rng.randint(len(several))]


def _is_single(classes):
    return not classes & (classes - 1)
