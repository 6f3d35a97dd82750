"""Gibbs sweeps of factor graphs, by a kernel that follows the entries of all tables."""

import numpy as np

from skcrbm.inference.any_energy.gibbs import sweep_chains
from skcrbm.kernels.gibbs import sweep_factors
from skcrbm.utils.limits import FORBIDDEN_LOG_ODDS
from skcrbm.utils.validation import kernel_array


def sweep(energy, states, key, streams, step):
    """Draw the variables of a `FactorGraphEnergy`; see `gibbs_sweep`."""
    there = energy.graph.adjacency
    factors = (
        there.start, there.factor, there.weight, there.first_entry,
        kernel_array(energy.log_potentials, np.float64), there.at_zero, there.output,
        FORBIDDEN_LOG_ODDS if energy.has_zeros else 0.0,
    )  # fmt: skip
    return sweep_chains(sweep_factors, factors, energy, states, key, streams, step)
