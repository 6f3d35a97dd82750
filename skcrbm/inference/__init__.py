"""Inference: given an energy, answer a query.

A method is one file in this folder and one line in `_registry.py`.
"""

from importlib import import_module

from skcrbm.inference._base import InferenceMethod, InferenceResult
from skcrbm.inference._infer import available_methods, infer, resolve_method
from skcrbm.inference._registry import METHODS

__all__ = [
    "Exact",
    "Gibbs",
    "ICM",
    "InferenceMethod",
    "InferenceResult",
    "MaxProduct",
    "MeanField",
    "MixedProduct",
    "SumProduct",
    "TreeReweighted",
    "available_methods",
    "estimate_log_partition",
    "infer",
    "resolve_method",
    "sample",
]

_ON_FIRST_USE = {
    "estimate_log_partition": "skcrbm.inference._ais",
    "sample": "skcrbm.inference._sample",
}


def __getattr__(name):
    # What needs kernels is imported on first use: they pull in Numba.
    if name in _ON_FIRST_USE:
        return getattr(import_module(_ON_FIRST_USE[name]), name)
    for key, location in METHODS.locations.items():
        if location.endswith(f":{name}"):
            return METHODS.get(key)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
