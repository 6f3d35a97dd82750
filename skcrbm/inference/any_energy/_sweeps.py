"""Compiled Gibbs sweeps: Ising models, dense and sparse, and factor graphs."""

import numpy as np

from skcrbm.inference.any_energy.gibbs import sweep_chains
from skcrbm.kernels.gibbs import FactorLists, sweep_factors, sweep_ising
from skcrbm.utils.limits import FORBIDDEN_LOG_ODDS
from skcrbm.utils.validation import kernel_array


def sweep_ising_model(energy, states, key, streams, step):
    """Draw the variables of an `IsingEnergy`; see `gibbs_sweep`."""
    i, k = np.nonzero(energy.coupling)
    start = np.searchsorted(i, np.arange(energy.n_variables + 1)).astype(np.int64)
    couplings = start, kernel_array(k, np.int64), energy.coupling[i, k].astype(np.float64)
    return sweep_chains(sweep_ising, couplings, energy, states, key, streams, step)


def sweep_sparse_ising(energy, states, key, streams, step):
    """Draw the variables of a `SparseIsingEnergy`; see `gibbs_sweep`."""
    graph = energy.neighbours
    coupling = energy.edge_coupling[graph.edge].astype(np.float64)
    couplings = graph.start, graph.variables, coupling
    return sweep_chains(sweep_ising, couplings, energy, states, key, streams, step)


def sweep_factor_graph(energy, states, key, streams, step):
    """Draw the variables of a `FactorGraphEnergy`; see `gibbs_sweep`."""
    there = energy.graph.adjacency
    lists = FactorLists(
        there.start, there.factor, there.weight, there.first_entry,
        kernel_array(energy.log_potentials, np.float64), there.at_zero, there.output,
        FORBIDDEN_LOG_ODDS if energy.has_zeros else 0.0,
    )  # fmt: skip
    return sweep_chains(sweep_factors, (lists,), energy, states, key, streams, step)
