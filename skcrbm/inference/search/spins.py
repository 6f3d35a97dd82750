"""Anneal tables over pairs of two-state variables as an Ising model, by the fast kernel for it.

A sweep over the lattice of a spin glass takes a tenth of the time of `anneal_sites`.
"""

from __future__ import annotations

import numpy as np

from skcrbm.energies import SparseIsingEnergy
from skcrbm.inference.any_energy.gibbs import by_place, lane_couplings
from skcrbm.kernels.search_tables import SearchTables
from skcrbm.kernels.sparse_sweeps import anneal_colours

# Time of a block of variables, and of a row of neighbours of a block, in nodes of `Budget`.
_BLOCK_NODES, _ROW_NODES = 1.0, 0.05
# Least number of variables of a block on average. With smaller blocks, as in dense graphs,
# `anneal_sites` is faster.
_LEAST_BLOCK = 4


def are_spins(graph: SearchTables) -> bool:
    """Return True if all tables are finite tables over pairs of variables of two states."""
    two = bool((graph.n_states == 2).all()) and bool((np.diff(graph.scope_start) == 2).all())
    return two and bool(np.isfinite(graph.entries).all())


class Spins:
    """A run of annealing.

    Attributes
    ----------
    sweep_nodes : int
        Time of a sweep in nodes of `Budget`.
    has_large_blocks : bool
        Whether many variables can change at once, as in sparse graphs.
    """

    def __init__(self, graph: SearchTables):
        table = graph.entries[graph.first[:, None] + np.arange(4)]
        scope = graph.scope.reshape(-1, 2)
        # The strides say which variable of a table changes slower; a table is stored in C order.
        coupling = (table[:, 0] - table[:, 1] - table[:, 2] + table[:, 3]) / 4
        slow = (table[:, 2] + table[:, 3] - table[:, 0] - table[:, 1]) / 4
        fast = (table[:, 1] + table[:, 3] - table[:, 0] - table[:, 2]) / 4
        swapped = graph.stride[::2] < graph.stride[1::2]
        held = ~np.isfinite(graph.unary)
        field = np.where(held, 0.0, graph.unary)
        field = (field[:, 1] - field[:, 0]) / 2
        np.add.at(field, scope[:, 0], np.where(swapped, fast, slow))
        np.add.at(field, scope[:, 1], np.where(swapped, slow, fast))
        self._held = np.zeros((0, len(field)), np.int8)
        if held.any():
            self._held = (held[:, 0].astype(np.int8) - held[:, 1].astype(np.int8))[None]
        pairs = np.sort(scope, axis=1)
        _, first, which = np.unique(
            pairs[:, 0] * len(field) + pairs[:, 1], return_index=True, return_inverse=True
        )
        energy = SparseIsingEnergy.from_edges(
            pairs[first], np.bincount(which, coupling), np.zeros(len(field))
        )
        self._lanes, self._coupling = energy.lanes, lane_couplings(energy)
        self._field, self._held = by_place(self._lanes, field[None], self._held)
        sizes = np.diff(self._lanes.first)
        n_rows = float((np.diff(self._lanes.entry) / sizes).sum())
        self.sweep_nodes = 1 + int(_BLOCK_NODES * len(sizes) + _ROW_NODES * n_rows)
        self.has_large_blocks = len(field) >= _LEAST_BLOCK * len(sizes)

    def begin(self, state: np.ndarray) -> None:
        """Begin a run at a state (n,)."""
        self._state = (state > 0)[None]
        self._best, self._score = self._state.copy(), np.zeros(1)
        self._best_score = np.full(1, -np.inf)

    def sweep(self, temperatures: np.ndarray, seeds: np.ndarray) -> np.ndarray | None:
        """Make a sweep at each temperature. Return a state that is the best of the run so far.

        Return None if no sweep found a better state than the sweeps before.
        """
        before = self._best_score[0]
        beta = 1.0 / np.maximum(temperatures, 1e-300)
        with np.errstate(over="ignore"):  # integers overflow on purpose if the JIT is off
            anneal_colours(
                self._lanes, self._coupling, self._field, self._held, beta[None], seeds,
                self._state, self._score, self._best, self._best_score,
            )  # fmt: skip
        return self._best[0].astype(np.int64) if self._best_score[0] > before else None

    @property
    def state(self) -> np.ndarray:
        """The last state of the run, int64 (n,)."""
        return self._state[0].astype(np.int64)
