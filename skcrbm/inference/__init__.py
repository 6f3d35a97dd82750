"""Inference: given an energy, answer a query.

A method is one file in this folder and one line in `_registry.py`.
"""

from skcrbm.inference._base import InferenceMethod, InferenceResult
from skcrbm.inference._infer import available_methods, infer, resolve_method
from skcrbm.inference._registry import METHODS

__all__ = [
    "Exact",
    "ICM",
    "InferenceMethod",
    "InferenceResult",
    "MaxProduct",
    "MeanField",
    "MixedProduct",
    "SumProduct",
    "TreeReweighted",
    "available_methods",
    "infer",
    "resolve_method",
]


def __getattr__(name):
    # The method classes are imported on first use: their kernels pull in Numba.
    for key, location in METHODS.locations.items():
        if location.endswith(f":{name}"):
            return METHODS.get(key)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
