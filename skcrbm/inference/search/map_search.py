"""Search for the best states of factor graphs; see `MapSearch`.

`schedule.py` divides the work among the methods, `moves.py` has the methods that improve a state,
and `buckets.py` and `consistent.py` the methods that can prove that it is the best.
"""

from __future__ import annotations

import functools
import heapq
import time
from typing import Any

import numpy as np

from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference.base import ContradictionError, empty_result
from skcrbm.inference.random_numbers import random_key, seeds
from skcrbm.inference.search.budget import Budget
from skcrbm.inference.search.schedule import SECONDS_PER_NODE, TableSearch
from skcrbm.inference.search.spins import Spins
from skcrbm.inference.search.table_model import (
    Component,
    ImpossibleModelError,
    TableModel,
    flat_tables,
    tables_of,
)
from skcrbm.utils.parallel import ordered_map, row_chunks
from skcrbm.utils.warnings import warn_user

# Largest number of nodes if neither the nodes nor the time are limited.
_MAX_NODES = 10_000_000
# Seconds in which a table or a variable is simplified on an average machine. With a time limit, a
# model that takes longer than _SHORT is first searched as it is, for _BEFORE times as long, and is
# not simplified if this would take more than half of the time that is left.
_REDUCTION_SECONDS, _SHORT, _BEFORE = 2.5e-5, 0.05, 2.0


def solve_from_energy(method, energy, query):
    """Answer "map" and "map_bound" for a pairwise energy, by its factor graph."""
    begun = _begin(method, energy)
    return _solve(method, FactorGraphEnergy.from_energy(energy), query, begun)


def solve(method, energy, query):
    """Answer "map" and "map_bound" for a factor graph."""
    return _solve(method, energy, query, _begin(method, energy))


def _begin(method, energy):
    """Compile the kernels if the time is limited, and return the time."""
    if method.time_limit is not None:
        _compile()
        if energy.is_pairwise:
            _compile_spins()
    return time.monotonic()


def _solve(method, energy, query, begun):
    fields = empty_result(energy, query)
    start = seeds(random_key(method.random_state), np.zeros(energy.n_models, np.uint64), 0)
    gap = np.zeros(energy.n_models)
    fields["stopped_by"] = np.full(energy.n_models, "proved", object)
    nodes = method.max_nodes
    if nodes is None and method.time_limit is None:
        nodes = _MAX_NODES
    shared = functools.cache(lambda: tables_of(energy))
    lead = time.monotonic() - begun  # the conversion of the energy counts for each model

    def run(rows):
        n = rows.start
        budget = Budget(nodes, method.time_limit, time.monotonic() - lead)
        search = _ModelSearch(method, energy, n, budget, start[n : n + 1].copy(), shared)
        try:
            stopped_by = search.run()
        except ImpossibleModelError:
            raise ContradictionError(n) from None
        fields["n_iter"][n] = budget.used
        state, gap[n] = search.found()
        fields["assignment"][n] = state[: energy.n_variables]
        if gap[n] and stopped_by == "proved":
            stopped_by = "precision"
        fields["stopped_by"][n] = stopped_by if gap[n] else "proved"

    for _ in ordered_map(run, row_chunks(energy.n_models, 1), query.n_jobs):
        pass
    fields["converged"][:] = gap == 0
    if np.isinf(gap).any():
        first = int(np.isinf(gap).argmax())
        warn_user(
            f"'map_search' has found no state of positive weight for model {first}, but such a "
            "state may exist: increase time_limit or max_nodes"
        )
    if "map_bound" in query.returns:
        score = energy.score(fields["assignment"])
        fields["gap"] = gap
        found, fields["map_bound"] = gap < np.inf, np.full(len(gap), np.inf)
        fields["map_bound"][found] = score[found] + gap[found]
    return fields


class _ModelSearch:
    """Search for the best state of model n of an energy."""

    def __init__(self, method, energy, n, budget, seed, shared):
        self._max_entries = method.max_entries
        self._energy, self._n, self._budget, self._seed = energy, n, budget, seed
        self._shared, self._lost = shared, 0.0
        self._model: TableModel | None = None
        self._parts: list[Component] = []
        self._searches: list[Any] = []  # a TableSearch, or None for a component without tables

    def run(self):
        """Search, and return what ended the search."""
        budget, length, start = self._budget, {}, None
        seconds = _REDUCTION_SECONDS * _size(self._energy)
        if budget.timed and seconds > _SHORT:
            graph = flat_tables(self._energy, self._n)
            if len(graph.first):
                whole = TableSearch(graph, budget, self._seed)
                self._searches = [whole]
                for _ in whole.run():
                    if budget.stopped_by:
                        return budget.stopped_by
                    worked = budget.used * SECONDS_PER_NODE >= _BEFORE * seconds
                    if worked and 2 * seconds <= budget.seconds:
                        break
                else:
                    return "proved"
                start, length = whole.moves.best, {"length": whole.moves.length}
        self._reduce(start, length)
        return self._search_parts()

    def _reduce(self, start, length):
        """Simplify the model, and prepare the search of each connected component."""
        tables, scopes, n_all = self._shared()
        unary = self._energy.log_fields()[self._n]
        own = [unary[v, :k] for v, k in enumerate(self._energy.state_counts)]
        own += [np.zeros(2)] * (n_all - len(own))
        model = TableModel(own, scopes, tables)
        parts = model.reduce()
        searches = [self._begin(part, model, start, length) for part in parts]
        rough = [
            (part, search)
            for part, search in zip(parts, searches, strict=True)
            if search is not None and not search.moves.precise
        ]
        if rough:
            for part, search in rough:
                tables, own, lost = search.sharpen()
                model.replace(part, tables, own)
                self._lost += lost
            parts = model.reduce()
            searches = [self._begin(part, model, start, length) for part in parts]
        self._model, self._parts, self._searches = model, parts, searches

    def _begin(self, part, model, start, length):
        """Return the search of a component, or None if the component has no tables."""
        if not part.scopes:
            return None
        first = start
        if start is not None:
            places = zip(part.variables, part.unary, strict=True)
            first = np.array([_place(model.states[v], start[v], row) for v, row in places])
        return TableSearch(
            part.graph(), self._budget, self._seed, part, first, self._max_entries, **length
        )

    def _search_parts(self):
        """Give components work by their sizes, until all are proven or a limit is reached."""
        waiting = [
            (0.0, j, search.run(), 1 + len(search.moves.graph.entries))
            for j, search in enumerate(self._searches)
            if search is not None
        ]
        while waiting:
            stopped_by = self._budget.stopped_by
            if stopped_by:
                return stopped_by
            share, j, work, size = heapq.heappop(waiting)
            before = self._budget.used
            if next(work, work) is not work:
                share += max(1, self._budget.used - before) / size
                heapq.heappush(waiting, (share, j, work, size))
        return "proved"

    def found(self):
        """Return the best state, and the upper bound minus its score."""
        gap = sum(search.gap for search in self._searches if search is not None) + self._lost
        if self._model is None:
            return self._searches[0].moves.best, gap
        states = [
            np.array([row.argmax() for row in part.unary]) if search is None else search.moves.best
            for part, search in zip(self._parts, self._searches, strict=True)
        ]
        return self._model.complete(self._parts, states), gap


def _size(energy):
    """Return the number of variables and tables of an energy; each input of OR and AND counts."""
    n_logic = sum(len(group.inputs) for group in (energy.ors, energy.ands))
    return energy.n_variables + n_logic + sum(len(group.variables) for group in energy.tables)


def _place(states, state, unary):
    """Return the place of a state among the remaining states, or the best place if it is absent."""
    at = int(np.searchsorted(states, state))
    return at if at < len(states) and states[at] == state else int(unary.argmax())


@functools.cache
def _compile():
    """Compile all kernels or load them from the cache, so that no time limit includes this work."""
    rng = np.random.default_rng(0)
    scopes = [(0, 1, 2), (0, 1), (1, 2), (0, 2)]
    tables = [rng.normal(size=[3] * len(scope)) for scope in scopes]
    part = Component([0, 1, 2], [3] * 3, scopes, tables, [rng.normal(size=3) for _ in range(3)])
    search = TableSearch(
        part.graph(), Budget(None, 1e9), np.zeros(1, np.uint64), part, max_entries=2**20
    )
    search.compile()


@functools.cache
def _compile_spins():
    part = Component([0, 1], [2] * 2, [(0, 1)], [np.eye(2)], [np.zeros(2)] * 2)
    spins = Spins(part.graph())
    spins.begin(np.zeros(2))
    spins.sweep(np.ones(1), np.ones(1, np.uint64))
