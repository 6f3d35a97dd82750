"""Solvers of `IsingEnergy`, and the search that they share with the rule of least hinge loss."""

from importlib import import_module

__all__ = ["FoundLabels", "find_labels", "hinge_losses_and_scores"]


def __getattr__(name):  # on first use: the search needs kernels
    if name in __all__:
        return getattr(import_module("skcrbm.inference.ising._search"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
