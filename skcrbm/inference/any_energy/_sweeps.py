"""Compiled Gibbs sweeps: Ising models, dense and sparse, and factor graphs of any states."""

import numpy as np

from skcrbm.inference.any_energy.gibbs import sweep_chains
from skcrbm.inference.random_numbers import seeds
from skcrbm.kernels.gibbs import FactorLists, sweep_categories, sweep_factors, sweep_ising
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
    forbidden = FORBIDDEN_LOG_ODDS if energy.has_zeros else 0.0
    lists = _factor_lists(energy, forbidden)
    return sweep_chains(sweep_factors, (lists,), energy, states, key, streams, step)


def sweep_categorical_graph(energy, states, key, streams, step):
    """Draw the variables of a `CategoricalGraphEnergy`; see `gibbs_sweep`."""
    n, c, width = states.shape
    order = np.concatenate([np.empty(0, np.int64), *energy.sampling_blocks])
    drawn = np.array(states.reshape(n * c, width), np.int32, order="C")
    log_odds = np.full((n * c, width, energy.n_levels), -np.inf)
    with np.errstate(over="ignore"):  # 64-bit numbers wrap around; NumPy warns without the JIT
        sweep_categories(
            order, _factor_lists(energy, 0.0), energy.n_states, energy.log_fields(), c,
            seeds(key, streams, step), drawn, log_odds,
        )  # fmt: skip
    log_odds = log_odds.reshape(n, c, width, energy.n_levels)
    return drawn.reshape(n, c, width).astype(energy.state_dtype), log_odds.astype(energy.dtype)


def _factor_lists(energy, forbidden):
    there = energy.graph.adjacency
    return FactorLists(
        there.start, there.factor, there.weight, there.first_entry,
        kernel_array(energy.log_potentials, np.float64), there.at_zero, there.output, forbidden,
    )  # fmt: skip
