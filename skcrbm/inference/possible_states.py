"""Possible states of the variables of factor graphs, and joint states of positive weight."""

from __future__ import annotations

from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse.csgraph import connected_components

from skcrbm.kernels.possible_states import (
    REFUTED,
    UNDECIDED,
    HardFactors,
    StateSearch,
    possible_states,
    refuted_models,
    search_states,
)
from skcrbm.utils.graphs import adjacency

__all__ = ["REFUTED", "UNDECIDED", "PossibleStates"]

# Largest number of table entries that the search for a state of positive weight visits in each
# model: some hundredths of a second. Of 27 public files with zeros, 22 have such a state that the
# search finds, and a search of four times as many entries decides no other file.
_SEARCH_ENTRIES = 2**20
# Maps the structure of a graph to its `_Zeros`, by the places of the zeros.
_KEPT: WeakKeyDictionary[Any, dict] = WeakKeyDictionary()
# Number of `_Zeros` that are kept for a structure, and of answers that are kept for `_Zeros`.
_MOST_KEPT, _MOST_ANSWERS = 4, 64


class PossibleStates:
    """Possible states of the variables of N models that share their factors.

    Models are often solved again with other weights, but the same zeros. So the answers of searches
    are kept with the structure of the graph.
    """

    def __init__(self, energy: Any):
        kept = _KEPT.setdefault(energy.graph, {})
        key = np.packbits(energy.log_potentials > -np.inf).tobytes()
        if key not in kept:
            if len(kept) >= _MOST_KEPT:
                kept.clear()
            kept[key] = _Zeros(_hard_factors(energy))
        self._zeros = kept[key]
        self._hard = self._zeros.hard
        n, n_levels = energy.n_variables, max(2, int(energy.state_counts.max(initial=2)))
        n_factors = len(self._hard.kind)
        width = int(np.diff(self._hard.scope_start).max(initial=1))
        self._search = StateSearch(
            np.empty((n, n_levels), bool),
            np.empty((n * n_levels, 2), np.int64),
            np.empty(max(1, n_factors), np.int64),
            np.zeros(max(1, n_factors), bool),
            np.zeros(4, np.int64),
            np.empty((width, n_levels), bool),
            np.empty(width, np.int64),
            np.empty(width, np.int64),
        )
        self._exist = np.arange(n_levels) < energy.state_counts[:, None]
        free = np.full((energy.n_models, n), np.nan)
        self._held = free if energy.evidence is None else energy.evidence

    def refuted(self) -> np.ndarray:
        """Return a mask (N,), True if the factors exclude all states of some variable."""
        found = np.zeros(len(self._held), bool)
        refuted_models(self._hard, self._search, self._exist, self._held, found)
        return found

    def search(self, n: int) -> int:
        """Search for a state of positive weight of model n; see `search_states`."""
        answers, key = self._zeros.answers, self._held[n].tobytes()
        if key not in answers:
            if len(answers) >= _MOST_ANSWERS:
                answers.clear()
            answers[key] = self._searched(n)
        return answers[key]

    def _searched(self, n):
        if not possible_states(self._hard, self._search, self._exist, self._held[n]):
            return REFUTED
        n_variables = len(self._exist)
        return search_states(
            self._hard,
            self._search,
            np.zeros(n_variables, np.int64),
            np.empty((n_variables + 1, 3), np.int64),
            np.ones(n_variables),
            _SEARCH_ENTRIES,
        )

    @property
    def has_loops(self) -> bool:
        """Whether the factors with zeros and their variables form a loop."""
        return self._zeros.has_loops


class _Zeros:
    """The factors with zeros of a graph, and the answers of searches by the clamped states."""

    def __init__(self, hard: HardFactors):
        self.hard = hard
        self.answers: dict[bytes, int] = {}

    @cached_property
    def has_loops(self):
        """Whether the factors and their variables form a loop."""
        hard = self.hard
        n, n_factors = len(hard.n_states), len(hard.kind)
        factor = np.repeat(np.arange(n_factors), np.diff(hard.scope_start))
        graph = adjacency(n + factor, hard.scope, n + n_factors)
        n_parts = connected_components(graph, directed=False, return_labels=False)
        return len(factor) > n + n_factors - n_parts


def _hard_factors(energy):
    """Return the tables with zeros and the OR and AND factors of an energy as flat arrays."""
    kinds, lengths, scopes, positive = [], [], [], [np.empty(0, bool)]
    sizes = []
    for group in energy.tables:
        entries = group.log_potentials > -np.inf
        hard = np.flatnonzero(~entries.all(axis=1))
        kinds.append(np.zeros(len(hard), np.int64))
        lengths.append(np.full(len(hard), len(group.shape)))
        scopes.append(group.variables[hard].ravel())
        positive.append(entries[hard].ravel())
        sizes.append(np.full(len(hard), entries.shape[1]))
    for group, kind in ((energy.ors, 1), (energy.ands, -1)):
        n_inputs = np.diff(group.start)
        kinds.append(np.full(len(n_inputs), kind))
        lengths.append(n_inputs + 1)
        scopes.append(np.insert(group.inputs, group.start[1:], group.outputs))
        sizes.append(np.zeros(len(n_inputs), np.int64))
    scope = np.concatenate(scopes).astype(np.int64)
    length, size = np.concatenate(lengths), np.concatenate(sizes)
    start = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    factor = np.repeat(np.arange(len(length)), length)
    order = np.argsort(scope, kind="stable")
    variable_start = np.zeros(energy.n_variables + 1, np.int64)
    np.cumsum(np.bincount(scope, minlength=energy.n_variables), out=variable_start[1:])
    return HardFactors(
        np.concatenate(kinds).astype(np.int64),
        start,
        scope,
        (np.cumsum(size) - size).astype(np.int64),
        np.concatenate(positive),
        energy.state_counts.astype(np.int64),
        variable_start,
        factor[order].astype(np.int64),
    )
