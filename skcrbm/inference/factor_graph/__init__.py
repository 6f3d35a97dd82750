"""Solvers for factor graphs, and for what is solved as one."""

from importlib import import_module

__all__ = [
    "OddsKernel",
    "find_labels",
    "find_state",
    "pass_messages",
    "solve_mean_field",
    "solve_tree_reweighted",
]

_MESSAGES = "skcrbm.inference.factor_graph._messages"
_ON_FIRST_USE = {
    "OddsKernel": (_MESSAGES, "OddsKernel"),
    "find_labels": ("skcrbm.inference.factor_graph._search", "find_labels"),
    "find_state": (_MESSAGES, "find_state"),
    "pass_messages": (_MESSAGES, "pass_messages"),
    "solve_tree_reweighted": (_MESSAGES, "solve_tree_reweighted"),
    "solve_mean_field": ("skcrbm.inference.factor_graph._mean_field", "solve"),
}


def __getattr__(name):  # on first use: they need kernels
    if name in _ON_FIRST_USE:
        module, attribute = _ON_FIRST_USE[name]
        return getattr(import_module(module), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
