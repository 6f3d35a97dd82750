"""Estimate how long "exact" takes, before it starts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skcrbm.energies import BaseEnergy, FactorGraphEnergy, IsingEnergy
from skcrbm.energies.grouped_rbm import GroupedRBMEnergy
from skcrbm.inference.exact import ising
from skcrbm.inference.exact.elimination import chunks_of, map_variables_of
from skcrbm.inference.exact.parts import exact_seconds, n_visited
from skcrbm.inference.registry import SOLVERS, entry_for
from skcrbm.utils.limits import AUTO_ALL_ENTRIES, MAX_GENERIC_UNITS

# Seconds for an entry of a table of an elimination, and for an entry of the states that NumPy
# enumerates. Both are measured on models that take seconds.
_SECONDS_PER_ENTRY, _SECONDS_PER_VALUE = 4e-8, 1e-8
# Graphs with loops and more variables are not planned: the search for an order of elimination takes
# 2 s for a torus of this number of variables, and 27 s for a million.
_MOST_PLANNED = 20_000


def seconds_of_exact(method: Any, energy: BaseEnergy, returns: frozenset) -> float:
    """Estimate the seconds that a query takes on one core, without computing a table.

    The estimate depends on the sizes of the models, their clamped variables and the options of
    `method` (an `Exact`) alone. It is infinite if "exact" has no solver for the energy, if it
    refuses the models, if the tables of a model have more than `AUTO_ALL_ENTRIES` entries, or if a
    graph with loops is so large that the search for an order of elimination would take long.
    """
    kind = entry_for(SOLVERS["exact"], type(energy))
    if kind == "BaseEnergy":
        return _seconds_of_all_states(method, energy)
    if kind and _is_eliminated(method, energy):
        last = frozenset()
        if "marginal_map" in returns:
            last = map_variables_of(method, energy)
        return _seconds_of_tables(method, energy, last)
    if not kind or any(_n_enumerated(energy, query) > method.max_units for query in returns):
        return math.inf
    if isinstance(energy, GroupedRBMEnergy):
        count = max(_n_enumerated(energy, query) for query in returns)
        return 2.0**count * energy.n_models * energy.n_variables * _SECONDS_PER_VALUE
    return exact_seconds(energy, returns)


def _is_eliminated(method, energy):
    """Return True if "exact" eliminates variables instead of enumerating states."""
    if isinstance(energy, IsingEnergy):
        return ising.eliminates(method, energy)
    return isinstance(energy, FactorGraphEnergy)


def _n_enumerated(energy, query):
    """Return log2 of the number of states that are enumerated."""
    if isinstance(energy, GroupedRBMEnergy):
        return GroupedRBMEnergy.n_enumerated(energy, query)
    return int(n_visited(energy, query).max(initial=0))


def _seconds_of_all_states(method, energy):
    n_free = energy.free.sum(axis=1)
    if n_free.max(initial=0) > min(method.max_units, MAX_GENERIC_UNITS):
        return math.inf
    return float((2.0**n_free).sum()) * energy.n_variables * _SECONDS_PER_VALUE


def _has_loops(energy):
    """Return True if the graph has too many edges for a forest."""
    if isinstance(energy, FactorGraphEnergy):
        scopes = [group.variables for group in energy.tables]
        n_edges = sum(scope.size - len(scope) for scope in scopes)
    else:
        n_edges = len(energy.edges)
    return n_edges >= energy.n_variables


def _seconds_of_tables(method, energy, last):
    """Estimate the time of an elimination from the number of entries of its tables."""
    if energy.n_variables > _MOST_PLANNED and _has_loops(energy):
        return math.inf
    if not isinstance(energy, FactorGraphEnergy):
        energy = FactorGraphEnergy.from_energy(energy)
    try:
        chunks = chunks_of(energy, method.max_entries, last)
    except ValueError:  # a table is too large
        return math.inf
    entries = np.array([chunk.plan.buckets.entry_start[-1] for chunk in chunks], float)
    if entries.max(initial=0) > AUTO_ALL_ENTRIES:
        return math.inf
    n_rows = np.array([len(chunk.rows) for chunk in chunks])
    return float((entries * n_rows).sum()) * _SECONDS_PER_ENTRY
