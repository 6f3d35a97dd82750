"""Inference: compute answers about the models of an energy, such as marginals or log Z.

For each method, a class in `methods/` holds the options. The solvers are functions that compute the
answers; each family of energies has a folder with its solvers. The tables in `registry.py` list the
classes and the solvers.
"""

from skcrbm.inference._sampling import estimate_log_partition, sample
from skcrbm.inference.base import InferenceMethod, InferenceResult, IterativeMethod, Query
from skcrbm.inference.choice import available_methods
from skcrbm.inference.layered.truncated import TruncatedInference
from skcrbm.inference.methods._bounds import MPLP, DualDecomposition, LinearProgram
from skcrbm.inference.methods._messages import (
    MaxProduct,
    MeanField,
    MixedProduct,
    SumProduct,
    TreeReweighted,
)
from skcrbm.inference.methods._samplers import (
    AnnealedImportanceSampling,
    BPChain,
    Gibbs,
    GibbsWithGradients,
    PerturbAndMAP,
    PerturbAndMaxProduct,
)
from skcrbm.inference.methods._searches import (
    ICM,
    BranchAndBound,
    MapSearch,
    MixedIntegerProgram,
    SimulatedAnnealing,
)
from skcrbm.inference.methods.exact import Exact
from skcrbm.inference.registry import register_method, register_solver
from skcrbm.inference.running import infer

__all__ = [
    "AnnealedImportanceSampling",
    "BPChain",
    "BranchAndBound",
    "DualDecomposition",
    "Exact",
    "Gibbs",
    "GibbsWithGradients",
    "ICM",
    "InferenceMethod",
    "InferenceResult",
    "IterativeMethod",
    "LinearProgram",
    "MapSearch",
    "MPLP",
    "MaxProduct",
    "MeanField",
    "MixedIntegerProgram",
    "MixedProduct",
    "PerturbAndMAP",
    "PerturbAndMaxProduct",
    "Query",
    "SimulatedAnnealing",
    "SumProduct",
    "TreeReweighted",
    "TruncatedInference",
    "available_methods",
    "estimate_log_partition",
    "infer",
    "register_method",
    "register_solver",
    "sample",
]
