"""Search for the labels with the highest score or the lowest hinge loss, and compute a bound.

"branch_and_bound" and the other methods of this module search the 0/1 labels of a row one by one.
Models of pairs have a search of their own: for hinge losses it is 2 to 7 times faster than the
search over cliques, and with more than 20 labels it finds better labels, because it bounds pairs.
"""

from __future__ import annotations

from typing import Any

from skcrbm.energies import BaseEnergy, IsingEnergy
from skcrbm.inference.any_energy import _icm
from skcrbm.inference.base import InferenceMethod
from skcrbm.inference.search import cliques, ising
from skcrbm.inference.search.found import FoundLabels


def solve(method, energy, query):
    """Compute "map" and "map_bound" by "branch_and_bound", "milp" or "icm"."""
    found = find_labels(energy, method, start=query.start, n_jobs=query.n_jobs)
    fields = found.fields(query.returns)
    if "init" in method.accepts:
        fields["log_odds"] = energy.visible_log_odds(found.labels)
    return fields


def solve_icm(method, energy, query):
    """Compute "map" of an `IsingEnergy` by "icm".

    Labels are set one by one or, if couplings are sparse, all labels of a colour at once.
    """
    if energy.couplings_are_sparse:
        return _icm.solve(method, energy, query)
    return solve(method, energy, query)


def find_labels(
    energy: BaseEnergy,
    method: InferenceMethod,
    margin: float | None = None,
    *,
    start: Any = None,
    n_jobs: int | None = None,
) -> FoundLabels:
    """Find the labels with the highest score or, if a margin is given, with the lowest hinge loss.

    The energy is an `IsingEnergy` or `FactorGraphEnergy`. Clamped labels keep their values, and the
    loss includes their margins. The method is BranchAndBound or, for an `IsingEnergy`, also
    MixedIntegerProgram or ICM. A ValueError is raised for other methods on a `FactorGraphEnergy`.
    """
    if isinstance(energy, IsingEnergy):
        return ising.find_labels(energy, method, margin, start=start, n_jobs=n_jobs)
    return cliques.find_labels(energy, method, margin, n_jobs=n_jobs)
