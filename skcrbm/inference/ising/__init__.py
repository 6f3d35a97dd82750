"""Solvers of `IsingEnergy`, and the search that they share with the rule of least hinge loss."""

from importlib import import_module

from skcrbm.inference.ising._hinge import hinge_losses_and_scores

_SEARCH = "skcrbm.inference.ising._search"
_ON_FIRST_USE = {  # they need kernels
    "FoundLabels": _SEARCH,
    "find_labels": _SEARCH,
    "relaxed_labels": "skcrbm.inference.ising._roof_dual",
}
__all__ = ["FoundLabels", "find_labels", "hinge_losses_and_scores", "relaxed_labels"]


def __getattr__(name):
    if name in _ON_FIRST_USE:
        return getattr(import_module(_ON_FIRST_USE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
