"""Improve a state of a factor graph by moves that change many variables at once.

A forest move draws or maximises the variables of a random forest given all other variables. A
frontier sweep holds some variables at their values, such that dynamic programming can maximise the
remaining connected components with tables of bounded size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from skcrbm.inference.search.buckets import TreeSearch
from skcrbm.inference.search.consistent import ConsistentSearch
from skcrbm.inference.search.table_model import Component
from skcrbm.kernels.forest_moves import fill_next, local_gaps, move_forests
from skcrbm.kernels.frontiers import (
    MAX_FRONTIER,
    Frontier,
    state_bits,
    sweep_frontier,
    take_better_parts,
)
from skcrbm.kernels.search_tables import state_score
from skcrbm.utils.limits import TIE

# Number of variables that a call of the kernel of forest moves visits. A call takes a few
# hundredths of a second, so that the time limit, which is checked after each call, is kept.
_MOVE_WORK = 2**18
# Number of forest moves in each of the first two coolings, which are runs of simulated annealing.
# The number doubles after every second cooling.
_FIRST_LENGTH = 64
# _WIDTHS: the limits for the number of table entries in successive frontier sweeps. A search that
# starts again from the best state appends the next larger limit, from _WIDER. _BACK_WORDS limits
# the memory for the best states of all variables, in words of two bytes. If the best states need
# more memory, the tables are made smaller.
_WIDTHS, _WIDER, _BACK_WORDS = (2**4, 2**8, 2**10), (2**12, 2**14, 2**16), 2**25
# The work of frontier sweeps counts towards the limit of search nodes. This many table entries are
# counted as one node.
_ENTRIES_OF_NODE = 256
# Scales of the noise that disturbs a state. Successive disturbances use the scales in turn. A scale
# is relative to the typical decrease of the score when a single variable changes.
_NOISES = 0.25, 0.5, 1.0, 2.0
# After a disturbance, sweeps with the widest tables are repeated at most this many times.
_MAX_FRONTIER_SWEEPS = 20
# A walk is a search that repeatedly disturbs a state and improves the result. It ends after this
# many disturbances in succession without a better state.
_PATIENCE = 100


class Moves:
    """Improve a state by moves of many variables, and keep the best state found.

    Attributes
    ----------
    best : ndarray of int64 (n,)
        Best state found.
    best_value : ndarray (2,)
        Sum of the finite log-weights of the best state, and the number of tables that give it
        weight 0 (log-weight -inf).
    rounding : float
        Largest rounding error of a score or bound.
    """

    def __init__(self, part: Component, budget: Any, seed: np.ndarray):
        self.part, self.graph, self.budget = part, part.graph(), budget
        self._seed, self._turn = seed, 0
        spread = 0.0
        magnitude = 0.0
        for table in [*part.tables, *part.unary]:
            finite = table[table > -np.inf]
            if not finite.size:
                continue
            spread = max(spread, float(finite.max() - finite.min()))
            magnitude += float(np.abs(finite).max())
        self.rounding = TIE * magnitude
        self._penalty, self._most = 2.0 * spread + 1.0, 1e6 * (spread + 1.0)
        self._state = np.array([row.argmax() for row in part.unary])
        self.best = self._state.copy()
        self.best_value = np.array(state_score(self.graph, self._state), np.float64)
        self._batch = max(1, _MOVE_WORK // (1 + len(self.graph.scope) * self.graph.unary.shape[1]))
        least = max(part.n_states)
        words = sum(state_bits(k) / k for k in part.n_states) / 16
        most = max(least, int(_BACK_WORDS / words))
        self._widths = sorted({max(least, min(width, most)) for width in _WIDTHS})
        wider = {width for width in _WIDER if self._widths[-1] < width <= most}
        self._wider = sorted(wider, reverse=True)
        self._work = frontier_arrays(self.graph.n_states, len(self.graph.first), self._widths[-1])
        self._walk, self._walk_value = self.best.copy(), self.best_value.copy()
        self._n_failed, self._n_walks = 0, 0
        self._coolings = self._make_coolings()
        self._temperatures = np.empty(0)

    @property
    def value(self) -> float:
        """Score of the best state."""
        return -math.inf if self.best_value[1] else float(self.best_value[0])

    def gap(self, bound: float) -> float:
        """Return `bound` minus the score of the best state, or 0 if this is a rounding error."""
        gap = bound - self.value
        return 0.0 if gap <= 4 * self.rounding else gap

    def _move(self, temperatures):
        move_forests(
            self.graph, self._state, self.best, self.best_value, temperatures, self._penalty,
            self._seed,
        )  # fmt: skip
        self.budget.used += len(temperatures) * len(self.best)

    def improve(self, state: np.ndarray) -> None:
        """Improve the given state by forest moves, and keep the best state found.

        The state of the annealing in `forests` is not changed.
        """
        own, self._state = self._state, state.astype(np.int64)
        self._move(np.zeros(8))
        self._state = own

    def _keep(self, state):
        value = self._value_of(state)
        if self._is_better(value, self.best_value):
            self.best, self.best_value = state, value

    def visit(self, tree: TreeSearch | ConsistentSearch, n_nodes: int) -> None:
        """Continue a tree search by `n_nodes` nodes, and keep the best state found."""
        found = self.best.copy()
        self.budget.used += tree.run(found, self.value, n_nodes)[1]
        self._keep(found)

    def frontiers(self) -> None:
        """Disturb the best state of a walk by noise, and improve the result by frontier sweeps.

        The sweeps begin with small tables and end with the largest tables. Better states are kept.
        After `_PATIENCE` disturbances without a better state, a new walk begins: alternately at a
        random state and at the best state of all walks.
        """
        if self._n_failed >= _PATIENCE:
            self._begin_walk()
        if self._n_walks % 2 == 0 and self._is_better(self.best_value, self._walk_value):
            self._walk, self._walk_value = self.best.copy(), self.best_value.copy()
            self._n_failed = 0
        noise = _NOISES[self._turn % len(_NOISES)] * float(np.median(self._gaps(self._walk)))
        self._turn += 1
        state = self._walk.copy()
        self._sweep(state, self._widths[0], noise)
        self._climb(state)
        self._combine(state)
        joined = self._walk.copy()
        take_better_parts(self.graph, joined, state, self._penalty)
        self._n_failed += 1
        for other in (joined, state):
            value = self._value_of(other)
            if self._is_better(value, self._walk_value):
                self._walk, self._walk_value, self._n_failed = other, value, 0

    def _gaps(self, state):
        """Return the decreases of the score when single variables of a state are changed.

        Changes that do not lower the score are left out. If there are no decreases, return [1].
        """
        gaps = np.empty(len(state))
        local_gaps(self.graph, state, self._penalty, gaps)
        gaps = gaps[(gaps > 0) & (gaps < self._penalty)]
        return gaps if len(gaps) else np.ones(1)

    @staticmethod
    def _is_better(value, other):
        return (value[1], -value[0]) < (other[1], -other[0])

    def _value_of(self, state):
        return np.array(state_score(self.graph, state), np.float64)

    def _begin_walk(self):
        self._n_walks, self._n_failed = self._n_walks + 1, 0
        if self._n_walks % 2:
            draws = np.empty(len(self.best))
            fill_next(self._seed, draws)
            self._walk = (draws * self.graph.n_states).astype(np.int64)
            self._climb(self._walk)
            self._combine(self._walk)
        else:
            self._walk = self.best.copy()
            if self._wider:
                self._widths.append(self._wider.pop())
                self._work = frontier_arrays(
                    self.graph.n_states, len(self.graph.first), self._widths[-1]
                )
        self._walk_value = self._value_of(self._walk)

    def _climb(self, state):
        """Improve a state in place until a sweep with the largest tables does not improve it."""
        last = -math.inf
        for width in (*self._widths, *self._widths[-1:] * _MAX_FRONTIER_SWEEPS):
            self._sweep(state, width, 0.0)
            if width < self._widths[-1]:
                continue
            value, bad = state_score(self.graph, state)
            value -= self._penalty * bad
            if value <= last or self.budget.progress >= 1:
                break
            last = value

    def _combine(self, state):
        """Improve the best state by values of `state`, and store the result as the best state."""
        joined = self.best.copy()
        take_better_parts(self.graph, joined, state, self._penalty)
        self._keep(joined)
        self._keep(state.copy())  # the kernel of forest moves changes `best` in place

    def _sweep(self, state, width, noise):
        draws = np.empty(len(state))
        fill_next(self._seed, draws)
        order = np.argsort(draws)
        sweep_frontier(
            self.graph, state, width, noise, self._penalty, order, self._work, self._seed
        )
        self.budget.used += len(state) * max(1, width // _ENTRIES_OF_NODE)

    def forests(self) -> None:
        """Make some more forest moves of simulated annealing.

        When a cooling has used all its temperatures, a new cooling begins; see `_make_coolings`.
        """
        if not len(self._temperatures):
            self._temperatures = next(self._coolings)
        count = min(self._batch, 1 + int(self.budget.step) // len(self.best))
        self._move(self._temperatures[:count])
        self._temperatures = self._temperatures[count:]

    def _make_coolings(self) -> Iterator[np.ndarray]:
        """Yield the temperatures of one cooling after the other, without end.

        Two kinds of coolings alternate. The first kind starts from the last state of the previous
        cooling, at a high temperature. The second kind starts from the best state, at a lower
        temperature. If a cooling ends in a state of weight 0, the penalty of table entries of
        weight 0 is doubled.
        """
        yield np.zeros(8)
        gaps = self._gaps(self._state)
        high = float(np.quantile(gaps, 0.75))
        low = max(0.05 * float(np.quantile(gaps, 0.25)), 1e-3 * high)
        length = _FIRST_LENGTH
        while True:
            for warm in (False, True):
                if warm:
                    self._state = self.best.copy()
                first = 0.3 * high if warm else high
                n_cold = max(4, length // 16)
                cooling = np.geomspace(first, min(low, first), max(1, length - n_cold))
                yield np.concatenate([cooling, np.zeros(n_cold)])
                if state_score(self.graph, self._state)[1] and self._penalty < self._most:
                    self._penalty *= 2
            length *= 2


def frontier_arrays(n_states: np.ndarray, n_factors: int, limit: int) -> Frontier:
    """Allocate the work arrays of frontier sweeps with tables of at most `limit` entries."""
    n, most = len(n_states), int(n_states.max())
    words = sum(-(-(limit // k) * state_bits(k) // 16) for k in n_states.tolist())
    return Frontier(
        np.empty(n, np.int64),
        np.empty(n_factors, np.int64),
        np.empty(n, np.int64),
        np.empty((n, most)),
        np.empty(MAX_FRONTIER, np.int64),
        np.empty((2, limit)),
        np.empty((most, most)),
        np.empty(limit, np.int64),
        np.empty(limit, np.uint16),
        np.empty(words, np.uint16),
        np.empty((n, 3), np.int64),
        np.empty((n, MAX_FRONTIER), np.int64),
    )
