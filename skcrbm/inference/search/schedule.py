"""Divide the work of a search among several methods, without regard to the limits of the search.

A longer search repeats a shorter one and goes on, because every decision depends on the work so far
and never on a limit. Half of the work goes to all methods, in proportion to their numbers in
`_PREFERENCE`. The other half goes to the method whose last work has raised the score most, in
relation to this work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from skcrbm.inference.search.buckets import (
    Order,
    TreeSearch,
    can_eliminate,
    eliminate,
    elimination_order,
)
from skcrbm.inference.search.budget import Budget
from skcrbm.inference.search.consistent import ConsistentSearch
from skcrbm.inference.search.moves import FIRST_LENGTH, Moves
from skcrbm.inference.search.precision import tolerance
from skcrbm.inference.search.table_model import Component, ImpossibleModelError
from skcrbm.kernels.map_search import shift_tables
from skcrbm.kernels.search_tables import SearchTables

# Share of each method. The consistent search gets the share _WITH_ZEROS if some table entries have
# weight 0, because it propagates the decisions that these entries force.
_WITH_ZEROS = 9.0
_PREFERENCE = {
    "annealing": 2.0,
    "max_product": 0.5,
    "bound": 4.0,
    "forests": 1.0,
    "frontiers": 12.0,
    "consistent": 4.0,
    "tree": 1.0,
}
# The rate of a method is its gain per node since its work was smaller by the factor _RECENT, or by
# the square of it.
_RECENT = 1.2
# Table entries in the computation of the bound that count as a node.
_ENTRIES_PER_NODE = 16
# Largest number of sweeps over all tables that compute the bound. The tree searches begin after
# _FIRST_SWEEPS sweeps, or when the bound no longer falls.
_MAX_SWEEPS, _FIRST_SWEEPS = 1000, 20
# The consistent search begins again from the present bound if the gap has become smaller by this
# share, and if the work has doubled.
_SMALLER_GAP = 0.1
# Limits for the number of entries of mini-bucket tables: for all tables together, for all tables
# per node of work so far, and for a single table, least and most. The tables are made again, with
# more entries, when the work has grown by the factor _REBUILD.
_ALL_MINI_ENTRIES, _MINI_PER_NODE, _LEAST_MINI, _MOST_MINI = 2**27, 2, 2**8, 2**18
_REBUILD = 4
# With a time limit, a component is eliminated after the other methods have worked for this share of
# the time of the elimination. If the time limit cuts the elimination, their state remains.
_BEFORE_ELIMINATION = 1 / 16
# Number of nodes of each of the two short searches before very low table entries are removed.
_SHARPEN_NODES = 2**12
# Seconds that a node takes, and that an edge of the graph takes in the search for an order of
# elimination, on an average machine.
SECONDS_PER_NODE, _ORDER_SECONDS = 3e-7, 3e-5


def _above(table, floor):
    """Return a table with the largest entry 0, in which entries below `floor` are -inf."""
    table = table - table.max()
    return np.where(table >= floor, table, -np.inf)


class _Account:
    """The work of a method, and how much this work has raised the score.

    Attributes
    ----------
    shared : int
        The work that the method got as its share.
    """

    def __init__(self, shared: int):
        self.shared = shared
        self._work, self._gain = 1, 0.0
        self._marks = [(0, 0.0), (1, 0.0)]

    def add(self, work: int, gain: float) -> None:
        """Add some work and its gain."""
        self._work, self._gain = self._work + work, self._gain + gain
        if self._work >= _RECENT * self._marks[1][0]:
            self._marks = [self._marks[1], (self._work, self._gain)]

    @property
    def rate(self) -> float:
        """Gain per node in the last sixth to third of the work, see `_RECENT`."""
        work, gain = self._marks[0]
        return (self._gain - gain) / (self._work - work)


class TableSearch:
    """Search for the best state of a graph of tables by moves, bounds and tree searches.

    `part` is the graph as a `Component`, which elimination and the search over mini-buckets need;
    None leaves them out.

    Attributes
    ----------
    moves : Moves
        The best state found so far.
    bound : float
        Upper bound of the score of all states.
    proven : bool
        Whether the best state is proven to be the best of all states.
    """

    def __init__(
        self,
        graph: SearchTables,
        budget: Budget,
        seed: np.ndarray,
        part: Component | None = None,
        start: np.ndarray | None = None,
        max_entries: int = 0,
        length: int = FIRST_LENGTH,
    ):
        self._budget, self._max_entries = budget, max_entries
        self._part: Any = part  # its methods are called only if it is not None
        self.moves, self.proven = Moves(graph, budget, seed, start, length), False
        self._total, self._order, self._eliminated = 0, None, False
        self._belief, self._shifted = graph.unary.copy(), graph.entries.copy()
        absent = np.arange(graph.unary.shape[1]) >= graph.n_states[:, None]
        tops = np.maximum.reduceat(graph.entries, graph.first)
        own = np.where(absent, -np.inf, graph.unary).max(axis=1)
        self.bound = float(tops.sum() + own.sum()) + self.moves.rounding
        self._n_sweeps, self._settled, self._shift_bound = 0, False, self.bound

    @property
    def gap(self) -> float:
        """The bound minus the score of the best state, or 0 if the state is proven to be best.

        If rounding errors may hide a better state, the gap includes them after a proof, too. An
        elimination has much smaller rounding errors than shifted tables.
        """
        if self.proven:
            moves = self.moves
            exact = moves.precise if self._eliminated else moves.resolves
            return 0.0 if exact else 4 * moves.rounding
        return self.moves.gap(self.bound)

    def sharpen(self) -> tuple[list[np.ndarray], list[np.ndarray], float]:
        """Return equivalent tables and log-weights of variables without very low entries.

        Also return the rounding error of the scores of the remaining states, or 0 if it may be
        ignored.

        Terms of very different sizes, such as penalties of 1e12 beside couplings of 1, would make
        the rounding errors of a search larger than the small terms. A short search finds a state
        and a bound. An entry that no better state can contain becomes -inf.
        """
        for kind in (self.moves.annealing(), self._bound()):
            begun = self._budget.used
            while self._budget.used < begun + self.moves.first_work + _SHARPEN_NODES:
                if next(kind, kind) is kind:
                    break
        part = self._shifted_part()
        floor = -(self.bound - self.moves.value + 8 * self.moves.rounding)
        tables, unary = ([_above(t, floor) for t in kept] for kept in (part.tables, part.unary))
        given = zip((*self._part.tables, *self._part.unary), (*tables, *unary), strict=True)
        terms = [old[(new > -np.inf) & (old > -np.inf)] for old, new in given]
        size = sum(float(np.abs(t).max(initial=0.0)) for t in terms)
        lost = float(np.finfo(np.float64).eps) * size
        ignored = tolerance(np.array([np.ptp(t) for t in terms if len(t)]))
        return tables, unary, lost if lost > ignored else 0.0

    def compile(self) -> None:
        """Call every kernel, so that all kernels are compiled."""
        moves = self.moves
        kinds = moves.annealing, moves.max_product, self._bound, moves.forests, moves.frontiers
        for begin in (*kinds, self._consistent, self._tree):
            next(begin(), None)
        moves.offer(moves.best)
        eliminate(self._part, self._elimination_order(), self._budget)

    def run(self) -> Iterator[None]:
        """Search until the best state is proven to be the best, and yield after every slice."""
        eliminates = self._part is not None and bool(self._max_entries)
        moves, budget = self.moves, self._budget
        if eliminates and self._elimination_nodes() == 0:
            eliminates = False
            if self._eliminate():
                return
        waiting = {"consistent": self._consistent, "tree": self._tree}
        if self._part is None:
            del waiting["tree"]
        running = {
            "annealing": moves.annealing(),
            "max_product": moves.max_product(),
            "bound": self._bound(),
            "forests": moves.forests(),
            "frontiers": moves.frontiers(),
        }
        preference = dict(_PREFERENCE)
        if np.isinf(moves.graph.entries).any():
            preference["consistent"] = _WITH_ZEROS
        accounts = {name: _Account(moves.first_work) for name in _PREFERENCE}
        accounts["annealing"].shared = 0
        shared = chosen = 0
        while True:
            if eliminates and self._total >= self._elimination_nodes():
                eliminates = False
                if self._eliminate():
                    return
            if moves.gap(self.bound) == 0:
                self.proven = True
                return
            if self._settled or self._n_sweeps >= _FIRST_SWEEPS:
                running.update((name, begin()) for name, begin in waiting.items())
                waiting = {}
            best = max(running, key=lambda name: accounts[name].rate)
            is_shared = shared <= chosen or accounts[best].rate == 0
            if is_shared:
                best = min(running, key=lambda name: accounts[name].shared / preference[name])
            before, value = budget.used, moves.penalised
            ended = next(running[best], running) is running
            if self.proven:
                return
            if ended:
                del running[best]
            work = max(1, budget.used - before)
            self._total += work
            accounts[best].add(work, moves.penalised - value)
            if is_shared:
                accounts[best].shared += work
                shared += work
            else:
                chosen += work
            yield

    # ------------------------------------------------------------------ elimination

    def _elimination_nodes(self) -> float:
        """Return the number of nodes after which elimination is due."""
        if not self._budget.timed:
            return 0.0
        seconds = _ORDER_SECONDS * len(self.moves.graph.scope)
        if self._order is not None or seconds <= 0.02:
            seconds = self._elimination_order().seconds
        return 0.0 if seconds <= 0.1 else _BEFORE_ELIMINATION * seconds / SECONDS_PER_NODE

    def _elimination_order(self) -> Order:
        if self._order is None:
            self._order = elimination_order(self._part)
        return self._order

    def _eliminate(self):
        order = self._elimination_order()
        if not can_eliminate(order, self._max_entries, self._budget.seconds):
            return False
        state = eliminate(self._part, order, self._budget)
        if state is None:
            return False
        self.moves.offer(state)
        self.proven = self._eliminated = True
        return True

    # ------------------------------------------------------------------ bounds

    def _lower(self, bound):
        if bound == -np.inf:
            raise ImpossibleModelError
        self.bound = min(self.bound, bound)

    def _prove(self):
        if self.moves.best_value[1] > 0:
            raise ImpossibleModelError
        self.proven = True

    def _bound(self):
        """Lower the bound by sweeps of MPLP, which shift log-weights between the tables.

        The score of each state stays the same. From time to time the states that the beliefs prefer
        are kept.
        """
        graph = self.moves.graph._replace(entries=self._shifted)
        absent = np.arange(self._belief.shape[1]) >= graph.n_states[:, None]
        sweep_nodes = 1 + len(graph.entries) // _ENTRIES_PER_NODE
        last, improve_at = self.bound, 1
        while self._n_sweeps < _MAX_SWEEPS:
            count = max(1, min(20, self._budget.slice // sweep_nodes))
            now = shift_tables(graph, self._belief, count) + self.moves.rounding
            self._lower(now)
            self._shift_bound = now
            self._n_sweeps += count
            self._budget.used += count * sweep_nodes
            settled = last - now < 1e-4 * count * (now - self.moves.value)
            if settled or self._n_sweeps >= improve_at:
                improve_at = 2 * self._n_sweeps
                self.moves.improve(np.where(absent, -np.inf, self._belief).argmax(axis=1))
            if settled:
                break
            last = now
            yield
        self._settled = True

    # ------------------------------------------------------------------ tree searches

    def _visit(self, tree):
        found = self.moves.best.copy()
        self._budget.used += tree.run(found, self.moves.value, self._budget.slice)[1]
        self.moves.offer(found)
        if tree.done:
            self._prove()

    def _consistent(self):
        while True:
            shift_bound, total = self._shift_bound, self._total
            tree = ConsistentSearch(
                self.moves.graph, self._shifted, self._belief, self.bound, self.moves.rounding
            )
            while True:
                self._visit(tree)
                if self.proven:
                    return
                self._lower(tree.bound)
                yield
                fall = shift_bound - self._shift_bound
                gap = shift_bound - self.moves.value
                if fall > _SMALLER_GAP * gap and self._total >= 2 * total:
                    break

    def _tree(self):
        part = self._part
        # In a dense model, a variable has several mini-buckets.
        n_buckets = max(2 * len(part.variables), len(part.scopes) // 4)
        most = min(self._max_entries, _MOST_MINI)
        while True:
            total, entries = self._total, min(_ALL_MINI_ENTRIES, _MINI_PER_NODE * self._total)
            entries = int(min(most, max(_LEAST_MINI, entries // n_buckets)))
            tree = TreeSearch(
                self._shifted_part(), self._elimination_order().variables, entries,
                self.moves.rounding,
            )  # fmt: skip
            self._budget.used += len(tree.functions.entries) // _ENTRIES_PER_NODE
            self._lower(tree.root + self.moves.rounding)
            yield
            while entries >= most or self._total < _REBUILD * total:
                self._visit(tree)
                if self.proven:
                    return
                yield

    def _shifted_part(self):
        graph, part = self.moves.graph, self._part
        own = [self._belief[v, :k].copy() for v, k in enumerate(part.n_states)]
        tables = [
            self._shifted[at : at + t.size].reshape(t.shape)
            for at, t in zip(graph.first, part.tables, strict=True)
        ]
        return part._replace(tables=tables, unary=own)
