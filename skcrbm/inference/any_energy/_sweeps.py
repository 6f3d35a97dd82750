"""Compiled Gibbs sweeps: Ising models, dense and sparse, and factor graphs."""

import numpy as np

from skcrbm.inference.any_energy.gibbs import kernel_chains, sweep_chains
from skcrbm.inference.random_numbers import seeds
from skcrbm.kernels.gibbs import FactorLists, sweep_factors, sweep_ising
from skcrbm.kernels.sparse_sweeps import sweep_colours
from skcrbm.utils.limits import FORBIDDEN_LOG_ODDS
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.validation import kernel_array

# Chains side by side in a kernel, see `kernels/gibbs.py`.
_MAX_LANES = 64
# Draws of a call, which an interrupt has to wait for.
_DRAWS_PER_CALL = 2**27


def sweep_ising_model(energy, states, key, streams, step, n_sweeps=1):
    """Draw the variables of an `IsingEnergy`; see `gibbs_sweep`."""
    i, k = np.nonzero(energy.coupling)
    start = np.searchsorted(i, np.arange(energy.n_variables + 1)).astype(np.int64)
    couplings = start, kernel_array(k, np.int64), energy.coupling[i, k].astype(np.float64)
    return sweep_chains(sweep_ising, couplings, energy, states, key, streams, step, n_sweeps)


def sweep_sparse_ising(energy, states, key, streams, step, n_sweeps=1):
    """Draw the variables of a `SparseIsingEnergy`; see `gibbs_sweep`.

    The lanes of the kernel are variables of a colour, or chains if more of them are side by side.
    """
    n, c, width = states.shape
    lanes = energy.lanes
    if min(n * c, _MAX_LANES) * (len(lanes.first) - 1) > width:
        graph = energy.neighbours
        coupling = energy.edge_coupling[graph.edge].astype(np.float64)
        couplings = graph.start, graph.variables, coupling
        return sweep_chains(sweep_ising, couplings, energy, states, key, streams, step, n_sweeps)
    drawn, field, held, log_odds = kernel_chains(energy, states)
    coupling, (field, held) = lane_couplings(energy), by_place(lanes, field, held)
    for steps in sweeps_per_call(drawn.size, n_sweeps):
        parts = [seeds(key, streams, t) for t in range(step + steps.start, step + steps.stop)]
        with np.errstate(over="ignore"):  # 64-bit numbers wrap around; NumPy warns without the JIT
            sweep_colours(lanes, coupling, field, c, held, np.array(parts), drawn, log_odds)
    log_odds = log_odds.astype(energy.dtype, copy=False)
    return drawn.reshape(states.shape), log_odds.reshape(states.shape)


def lane_couplings(energy):
    """Return the coupling of each entry of `energy.lanes`, float64; 0 without a neighbour."""
    return np.append(energy.edge_coupling, 0).astype(np.float64)[energy.lanes.edge]


def by_place(lanes, *arrays):
    """Return arrays (N, L) with their columns in the order of the lanes."""
    return tuple(np.ascontiguousarray(array[:, lanes.order]) for array in arrays)


def sweeps_per_call(n_variables, n_sweeps):
    """Return slices of the sweeps: no call of a kernel takes longer than about a second."""
    return row_chunks(n_sweeps, max(1, _DRAWS_PER_CALL // max(1, n_variables)))


def sweep_factor_graph(energy, states, key, streams, step, n_sweeps=1):
    """Draw the variables of a `FactorGraphEnergy`; see `gibbs_sweep`."""
    there = energy.graph.adjacency
    lists = FactorLists(
        there.start, there.factor, there.weight, there.first_entry,
        kernel_array(energy.log_potentials, np.float64), there.at_zero, there.output,
        FORBIDDEN_LOG_ODDS if energy.has_zeros else 0.0,
    )  # fmt: skip
    return sweep_chains(sweep_factors, (lists,), energy, states, key, streams, step, n_sweeps)
