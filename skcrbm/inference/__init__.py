"""Inference: given an energy, answer a query.

A method is a file in `methods/` and a line in `_registry.py`; what it does on an energy is a
function in the folder of that family of energies, and another line there.
"""

from importlib import import_module

from skcrbm.inference._base import InferenceMethod, InferenceResult, IterativeMethod, Query
from skcrbm.inference._choose import (
    convergence_advice,
    marginal_method,
    method_constraint,
    methods_for,
    own_method,
)
from skcrbm.inference._decided import MagnitudeError
from skcrbm.inference._exact_parts import exact_seconds
from skcrbm.inference._infer import available_methods, infer, resolve_method
from skcrbm.inference._log_partition import estimate_log_partition
from skcrbm.inference._registry import METHODS, register_method, register_solver
from skcrbm.inference._sample import sample
from skcrbm.inference._trust import checked_rows, marginal_error

__all__ = [
    "METHODS",
    "AnnealedImportanceSampling",
    "BPChain",
    "BranchAndBound",
    "DualDecomposition",
    "Exact",
    "Gibbs",
    "GibbsWithGradients",
    "ICM",
    "MPLP",
    "MagnitudeError",
    "InferenceMethod",
    "InferenceResult",
    "IterativeMethod",
    "LinearProgram",
    "MaxProduct",
    "MeanField",
    "MixedIntegerProgram",
    "MixedProduct",
    "PerturbAndMaxProduct",
    "Query",
    "SumProduct",
    "TreeReweighted",
    "available_methods",
    "checked_rows",
    "convergence_advice",
    "estimate_log_partition",
    "exact_seconds",
    "find_clique_states",
    "find_labels",
    "gibbs_sweep",
    "infer",
    "logistic_noise",
    "marginal_error",
    "marginal_method",
    "method_constraint",
    "methods_for",
    "own_method",
    "perturbed_states",
    "register_method",
    "register_solver",
    "resolve_method",
    "sample",
    "start_chains",
    "uniforms",
]

# What needs kernels is imported on first use: they pull in Numba.
_ON_FIRST_USE = {
    "find_clique_states": "skcrbm.inference._clique_search",
    "find_labels": "skcrbm.inference._find_labels",
    "gibbs_sweep": "skcrbm.inference.any_energy._gibbs",
    "start_chains": "skcrbm.inference.any_energy._gibbs",
    "logistic_noise": "skcrbm.inference._random",
    "perturbed_states": "skcrbm.inference._perturbation",
    "uniforms": "skcrbm.inference._random",
}


def __getattr__(name):
    if name in _ON_FIRST_USE:
        return getattr(import_module(_ON_FIRST_USE[name]), name)
    for key, location in METHODS.locations.items():
        if location.endswith(f":{name}"):
            return METHODS.get(key)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
