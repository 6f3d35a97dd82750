"""Improve a state of a factor graph by moves, from single variables to large regions.

- Annealing draws one variable after the other, at a temperature that falls.
- A forest move draws or maximises the variables of a random forest given all other variables.
- A frontier sweep holds some variables at their values, such that dynamic programming can maximise
  the remaining connected components with tables of bounded size.
- Max-product passes messages, and takes the states of the largest beliefs.

Each kind of moves is a generator, which yields after each slice of its work. A slice depends on the
slices before it alone and not on a limit, so that a longer search repeats a shorter one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from skcrbm.inference.search.precision import resolution, tolerance
from skcrbm.inference.search.spins import Spins, are_spins
from skcrbm.kernels.forest_moves import fill_next, local_gaps, move_forests
from skcrbm.kernels.frontiers import (
    MAX_FRONTIER,
    Frontier,
    state_bits,
    sweep_frontier,
    take_better_parts,
)
from skcrbm.kernels.search_tables import SearchTables, state_score
from skcrbm.kernels.site_moves import anneal_sites, pass_maxima
from skcrbm.utils.limits import TIE

if TYPE_CHECKING:
    from skcrbm.inference.search.budget import Budget

# Table entries that `anneal_sites` visits in the time of one node.
_ENTRIES_PER_NODE = 200
# Number of sweeps or forest moves in each of the first coolings, which are runs of simulated
# annealing.
FIRST_LENGTH = 64
# _WIDTHS: the limits for the number of table entries in successive frontier sweeps. A search that
# starts again from the best state appends the next larger limit, from _WIDER. _BACK_WORDS limits
# the memory for the best states of all variables, in words of two bytes. If the best states need
# more memory, the tables are made smaller.
_WIDTHS, _WIDER, _BACK_WORDS = (2**4, 2**8, 2**10), (2**12, 2**14, 2**16), 2**25
# This many table entries, or edges of the graph, of a frontier sweep are counted as one node.
_ENTRIES_OF_NODE, _EDGES_OF_NODE = 256, 32
# Scales of the noise that disturbs a state. Successive disturbances use the scales in turn. A scale
# is relative to the typical decrease of the score when a single variable changes.
_NOISES = 0.25, 0.5, 1.0, 2.0
# After a disturbance, sweeps with the widest tables are repeated at most this many times.
_MAX_FRONTIER_SWEEPS = 20
# A walk is a search that repeatedly disturbs a state and improves the result. It ends after this
# many disturbances in succession without a better state.
_PATIENCE = 100
# Runs of max-product: damping and largest number of sweeps. A run ends if no message changes by
# more than _SETTLED times the spread of the tables.
_MESSAGE_RUNS, _SETTLED = ((0.0, 50), (0.5, 200), (0.8, 1000)), 1e-9


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
    precise : bool
        Whether the rounding error may be ignored, see `tolerance`.
    resolves : bool
        Whether the rounding error is below the differences of scores, see `resolution`.
    length : int
        Length of the longest cooling so far, in sweeps or moves.
    """

    def __init__(
        self,
        graph: SearchTables,
        budget: Budget,
        seed: np.ndarray,
        start: np.ndarray | None = None,
        length: int = FIRST_LENGTH,
    ):
        self.graph, self.budget = graph, budget
        self._seed, self._length, self.length = seed, length, length
        low, high, self.rounding = _ranges(graph)
        self.precise = 4 * self.rounding <= tolerance(high - low)
        self.resolves = 4 * self.rounding <= resolution(high - low)
        spread = float((high - low).max(initial=0.0))
        self._spread = spread
        self._penalty, self._most = 2.0 * spread + 1.0, 1e6 * (spread + 1.0)
        absent = np.arange(graph.unary.shape[1]) >= graph.n_states[:, None]
        self._start = np.where(absent, -np.inf, graph.unary).argmax(axis=1)
        self.best = (self._start if start is None else start).astype(np.int64)
        self.best_value = self._value_of(self.best)
        self._keep(self._start)
        least = int(graph.n_states.max())
        words = sum(state_bits(k) / k for k in graph.n_states.tolist()) / 16
        most = max(least, int(_BACK_WORDS / words))
        self._widths = sorted({max(least, min(width, most)) for width in _WIDTHS})
        wider = {width for width in _WIDER if self._widths[-1] < width <= most}
        self._wider = sorted(wider, reverse=True)

    @property
    def value(self) -> float:
        """Score of the best state."""
        return -math.inf if self.best_value[1] else float(self.best_value[0])

    @property
    def penalised(self) -> float:
        """Sum of the finite log-weights of the best state, minus a penalty for each weight 0."""
        return float(self.best_value[0] - (2.0 * self._spread + 1.0) * self.best_value[1])

    @property
    def first_work(self) -> int:
        """Number of nodes of the first two coolings of `annealing`, before other methods begin."""
        return 2 * FIRST_LENGTH * self._sweep_nodes

    def gap(self, bound: float) -> float:
        """Return `bound` minus the score of the best state, or 0 if this is a rounding error."""
        gap = bound - self.value
        return 0.0 if self.precise and gap <= 4 * self.rounding else gap

    def improve(self, state: np.ndarray) -> None:
        """Improve a given state by forest moves, and keep the best state found."""
        self._move(state.astype(np.int64), np.zeros(8))

    def offer(self, state: np.ndarray) -> None:
        """Keep a state if it is better than the best state, or the parts of it that are."""
        self._keep(state.copy())
        joined = self.best.copy()
        take_better_parts(self.graph, joined, state, self._penalty)
        self._keep(joined)

    def _move(self, state, temperatures):
        move_forests(
            self.graph, state, self.best, self.best_value, temperatures, self._penalty, self._seed
        )
        self.budget.used += len(temperatures) * len(state)

    def _keep(self, state):
        value = self._value_of(state)
        if self._is_better(value, self.best_value):
            self.best, self.best_value = state.copy(), value

    @staticmethod
    def _is_better(value, other):
        return (value[1], -value[0]) < (other[1], -other[0])

    def _value_of(self, state):
        return np.array(state_score(self.graph, state), np.float64)

    def _gaps(self, state):
        """Return the decreases of the score when single variables of a state are changed.

        Changes that do not lower the score are left out. If there are no decreases, return [1].
        """
        gaps = np.empty(len(state))
        local_gaps(self.graph, state, self._penalty, gaps)
        gaps = gaps[(gaps > 0) & (gaps < self._penalty)]
        return gaps if len(gaps) else np.ones(1)

    def _random_state(self):
        draws = np.empty(len(self.best))
        fill_next(self._seed, draws)
        state = (draws * self.graph.n_states).astype(np.int64)
        # A state that evidence excludes has the log-weight -inf.
        possible = self.graph.unary[np.arange(len(state)), state] > -np.inf
        return np.where(possible, state, self._start)

    def _seeds(self, n):
        draws = np.empty(n)
        fill_next(self._seed, draws)
        return (draws * 2.0**53).astype(np.uint64)

    # ------------------------------------------------------------------ coolings

    def annealing(self) -> Iterator[None]:
        """Draw single variables, in coolings of growing length."""
        if self._spins is not None:
            yield from self._anneal_spins(self._spins)
        state = self._start.copy()
        for temperatures in self._site_coolings(state):
            done = 0
            while done < len(temperatures):
                count = max(1, self.budget.slice // self._sweep_nodes)
                part = temperatures[done : done + count]
                anneal_sites(
                    self.graph, state, self.best, self.best_value, part, self._penalty, self._seed
                )
                done += count
                self.budget.used += len(part) * self._sweep_nodes
                yield
            self.offer(state)

    @cached_property
    def _spins(self) -> Spins | None:
        """The graph for the fast kernel of Ising models, or None if this kernel is not faster."""
        spins = Spins(self.graph) if are_spins(self.graph) else None
        return spins if spins is not None and spins.has_large_blocks else None

    @property
    def _sweep_nodes(self) -> int:
        """Time of a sweep of `annealing` in nodes."""
        if self._spins is not None:
            return self._spins.sweep_nodes
        return 1 + len(self.graph.scope) * self.graph.unary.shape[1] // _ENTRIES_PER_NODE

    def _anneal_spins(self, spins):
        state = self._start.copy()
        for temperatures in self._site_coolings(state):
            spins.begin(state)
            done = 0
            while done < len(temperatures):
                count = max(1, self.budget.slice // spins.sweep_nodes)
                part = temperatures[done : done + count]
                found = spins.sweep(part, self._seeds(len(part)))
                if found is not None:
                    self._keep(found)
                done += count
                self.budget.used += len(part) * spins.sweep_nodes
                yield
            state[:] = spins.state
            self.offer(state)

    def forests(self) -> Iterator[None]:
        """Make forest moves, in coolings of growing length."""
        state = self._start.copy()
        for temperatures in self._forest_coolings(state):
            done = 0
            while done < len(temperatures):
                count = 1 + self.budget.slice // len(state)
                self._move(state, temperatures[done : done + count])
                done += count
                yield
            self.offer(state)

    def _site_coolings(self, state) -> Iterator[np.ndarray]:
        """Yield the temperatures of coolings for single variables; see `_coolings`.

        Two of three coolings start from the best state, at a temperature that keeps most of it. On
        the spin glass of 200 x 200, coolings whose length grows slowly find after 1 s what a single
        cooling finds after 5 s, because `offer` joins the best parts of their states.
        """
        yield np.zeros(8)
        gaps = self._gaps(self._random_state())
        high = 0.5 * float(np.quantile(gaps, 0.75))
        low = max(0.1 * float(np.quantile(gaps, 0.25)), 1e-3 * high)
        yield from self._coolings(state, low, high, 0.55, ("short", "warm", "warm", "long"), 1.2)

    def _forest_coolings(self, state) -> Iterator[np.ndarray]:
        """Yield the temperatures of coolings for forests; see `_coolings`."""
        yield np.zeros(8)
        gaps = self._gaps(state)
        high = float(np.quantile(gaps, 0.75))
        low = max(0.05 * float(np.quantile(gaps, 0.25)), 1e-3 * high)
        yield from self._coolings(state, low, high, 0.3, ("long", "warm"), 2.0)

    def _coolings(self, state, low, high, share, kinds, growth) -> Iterator[np.ndarray]:
        """Yield the temperatures of one cooling after the other, without end.

        `kinds` are repeated, and the length of the coolings then grows by the factor `growth`, or
        doubles if no better state was found. A cooling of kind "warm" starts from the best state,
        at the temperature `share * high`. A cooling of kind "long" or "short" starts from the last
        state of the previous cooling, at the temperature `high`; short coolings have the lengths of
        Luby's sequence, because many short runs may find more than a long run. If a cooling ends in
        a state of weight 0, the penalty of table entries of weight 0 is doubled. `state` is the
        state of the caller, which a cooling may replace.
        """
        length, n_cycles = self._length, 0
        while True:
            before = tuple(self.best_value)
            n_cycles += 1
            for kind in kinds:
                if kind == "warm":
                    state[:] = self.best
                now = FIRST_LENGTH * _luby(n_cycles) if kind == "short" else length
                first = share * high if kind == "warm" else high
                n_cold = max(4, now // 16)
                cooling = np.geomspace(first, min(low, first), max(1, now - n_cold))
                yield np.concatenate([cooling, np.zeros(n_cold)])
                if state_score(self.graph, state)[1] and self._penalty < self._most:
                    self._penalty *= 2
            length = int((growth if tuple(self.best_value) != before else 2.0) * length)
            self.length = max(self.length, length)

    # ------------------------------------------------------------------ frontiers

    def frontiers(self) -> Iterator[None]:
        """Disturb the best state of a walk by noise, and improve the result by frontier sweeps.

        The sweeps begin with small tables and end with the largest tables. Better states are kept.
        After `_PATIENCE` disturbances without a better state, a new walk begins: alternately at a
        random state and at the best state of all walks.
        """
        self._work = frontier_arrays(self.graph.n_states, len(self.graph.first), self._widths[-1])
        walk, value = self.best.copy(), self.best_value.copy()
        n_failed = n_walks = turn = 0
        while True:
            if n_failed >= _PATIENCE:
                n_walks, n_failed = n_walks + 1, 0
                if n_walks % 2:
                    walk = self._random_state()
                    yield from self._climb(walk)
                    self.offer(walk)
                else:
                    walk = self.best.copy()
                    self._widen()
                value = self._value_of(walk)
            if n_walks % 2 == 0 and self._is_better(self.best_value, value):
                walk, value, n_failed = self.best.copy(), self.best_value.copy(), 0
            noise = _NOISES[turn % len(_NOISES)] * float(np.median(self._gaps(walk)))
            turn += 1
            state = walk.copy()
            self._sweep(state, self._widths[0], noise)
            yield from self._climb(state)
            self.offer(state)
            joined = walk.copy()
            take_better_parts(self.graph, joined, state, self._penalty)
            n_failed += 1
            for other in (joined, state):
                found = self._value_of(other)
                if self._is_better(found, value):
                    walk, value, n_failed = other, found, 0

    def _widen(self):
        if self._wider:
            self._widths.append(self._wider.pop())
            self._work = frontier_arrays(
                self.graph.n_states, len(self.graph.first), self._widths[-1]
            )

    def _climb(self, state):
        """Improve a state in place until a sweep with the largest tables does not improve it."""
        last = -math.inf
        for width in (*self._widths, *self._widths[-1:] * _MAX_FRONTIER_SWEEPS):
            self._sweep(state, width, 0.0)
            self._keep(state)
            yield
            if width < self._widths[-1]:
                continue
            value, bad = state_score(self.graph, state)
            value -= self._penalty * bad
            if value <= last:
                break
            last = value

    def _sweep(self, state, width, noise):
        draws = np.empty(len(state))
        fill_next(self._seed, draws)
        order = np.argsort(draws)
        sweep_frontier(
            self.graph, state, width, noise, self._penalty, order, self._work, self._seed
        )
        self.budget.used += len(state) * max(1, width // _ENTRIES_OF_NODE)
        self.budget.used += len(self.graph.scope) // _EDGES_OF_NODE

    # ------------------------------------------------------------------ messages

    def max_product(self) -> Iterator[None]:
        """Pass messages of max-product, with more damping in each run, and keep their states."""
        state = np.zeros(len(self.best), np.int64)
        sweep_nodes = 1 + len(self.graph.entries) // 32
        for damping, most in _MESSAGE_RUNS:
            belief = self.graph.unary.copy()
            message = np.zeros((len(self.graph.scope), belief.shape[1]))
            done, value = 0, np.array([-math.inf, math.inf])
            while done < most:
                count = max(1, min(10, self.budget.slice // sweep_nodes))
                change = pass_maxima(
                    self.graph, message, belief, self._penalty, damping, count, state
                )
                done += count
                self.budget.used += count * sweep_nodes
                found = self._value_of(state)
                if self._is_better(found, value):
                    value = found
                    self.improve(state)
                    self.offer(state)
                yield
                if change <= _SETTLED * (1.0 + self._spread):
                    return


def _luby(i):
    """Return term i of the sequence 1, 1, 2, 1, 1, 2, 4, 1, ... of Luby, Sinclair and Zuckerman."""
    size = 1
    while size < i + 1:
        size *= 2
    return size // 2 if size == i + 1 else _luby(i - size // 2 + 1)


def _ranges(graph):
    """Return the smallest and largest finite entry of each table, and the rounding error."""
    finite = graph.entries > -np.inf
    low, high = np.zeros(0), np.zeros(0)
    if len(graph.first):
        low = np.minimum.reduceat(np.where(finite, graph.entries, np.inf), graph.first)
        high = np.maximum.reduceat(np.where(finite, graph.entries, -np.inf), graph.first)
        empty = high == -np.inf
        low[empty] = high[empty] = 0.0
    own = np.where(np.isfinite(graph.unary), graph.unary, 0.0)
    low, high = np.append(low, own.min(axis=1)), np.append(high, own.max(axis=1))
    return low, high, TIE * float(np.maximum(np.abs(low), np.abs(high)).sum())


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
