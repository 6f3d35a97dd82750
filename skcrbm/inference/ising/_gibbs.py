"""Gibbs sweeps of dense and sparse Ising models, by the same kernel."""

import numpy as np

from skcrbm.inference.any_energy.gibbs import sweep_chains
from skcrbm.kernels.gibbs import sweep_ising
from skcrbm.utils.validation import kernel_array


def sweep(energy, states, key, streams, step):
    """Draw the variables of an `IsingEnergy`; see `gibbs_sweep`."""
    i, k = np.nonzero(energy.coupling)
    start = np.searchsorted(i, np.arange(energy.n_variables + 1)).astype(np.int64)
    couplings = start, kernel_array(k, np.int64), energy.coupling[i, k].astype(np.float64)
    return sweep_chains(sweep_ising, couplings, energy, states, key, streams, step)


def sweep_sparse(energy, states, key, streams, step):
    """Draw the variables of a `SparseIsingEnergy`; see `gibbs_sweep`."""
    graph = energy.neighbours
    coupling = energy.edge_coupling[graph.edge].astype(np.float64)
    couplings = graph.start, graph.variables, coupling
    return sweep_chains(sweep_ising, couplings, energy, states, key, streams, step)
