"""Search for the labels with the highest score or the lowest hinge loss, and compute a bound.

"branch_and_bound" and the other methods of this module search the 0/1 labels of a row one by one.
Models of pairs have a search of their own: for hinge losses it is 2 to 7 times faster than the
search over cliques, and with more than 20 labels it finds better labels, because it bounds pairs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from skcrbm.energies import BaseEnergy, IsingEnergy
from skcrbm.inference.any_energy import _icm
from skcrbm.inference.base import InferenceMethod
from skcrbm.inference.ising.storage import is_dense
from skcrbm.inference.methods._searches import MapSearch
from skcrbm.inference.registry import solver_for
from skcrbm.inference.search import cliques, ising
from skcrbm.inference.search.found import FoundLabels
from skcrbm.inference.search.precision import NATS, resolution
from skcrbm.utils.limits import MAX_TIE_LABELS, TIE

# Nodes of "map_search" for each node of `node_limit`.
_NODES = 100


def solve(method, energy, query):
    """Compute "map" and "map_bound" by "branch_and_bound", "milp" or "icm"."""
    found = find_labels(energy, method, start=query.start, n_jobs=query.n_jobs)
    fields = found.fields(query.returns)
    if "init" in method.accepts:
        fields["log_odds"] = energy.visible_log_odds(found.labels)
        return fields
    proved = found.gap == 0
    if method.name == "milp":  # its bound includes the tolerances of HiGHS
        fields["converged"] = found.gap <= resolution(_sizes(energy))
    other = "precision" if method.name == "milp" else "max_nodes"
    fields["stopped_by"] = np.where(proved, "proved", other).astype(object)
    if method.name == "branch_and_bound":
        _search_rough_models(method, energy, query, fields)
    return fields


def _search_rough_models(method, energy, query, fields):
    """Solve models by "map_search" whose terms are so large that rounding errors matter."""
    limit = NATS
    if energy.n_variables > MAX_TIE_LABELS:  # the search does not compare states within rounding
        limit = min(NATS, resolution(_sizes(energy)))
    rough = np.flatnonzero(_rounding(energy) > limit)
    if not len(rough):
        return
    search = MapSearch(max_nodes=_NODES * method.node_limit, random_state=0)
    solve = solver_for(search.name, type(energy))
    found = solve(search, energy.rows(rough), replace(query, sample_weight=np.ones(len(rough))))
    for name, value in fields.items():
        value[rough] = found[name]


def _sizes(energy):
    """Return the sizes of the fields and of the couplings or tables of all models."""
    if isinstance(energy, IsingEnergy):
        terms = [np.abs(c) for c in energy.couplings]
    else:
        terms = [np.ptp(group.log_potentials.astype(np.float64), axis=1) for group in energy.tables]
    fields = [np.abs(f) for f in energy.fields]
    return np.concatenate([np.zeros(1), *(part.ravel() for part in (*terms, *fields))])


def _rounding(energy):
    """Return the differences of scores (N,) that "branch_and_bound" takes for rounding errors."""
    log_odds, influence = energy.own_log_odds()
    undecided = energy.free & (np.abs(log_odds) <= (1 + TIE) * influence)
    fields = np.where(undecided, np.abs(log_odds), 0.0).max(axis=1, initial=0.0)
    return ising.score_share(energy.n_variables) * (
        fields + np.max(influence, axis=-1, initial=0.0)
    )


def solve_icm(method, energy, query):
    """Compute "map" of an `IsingEnergy` by "icm".

    Labels are set one by one if couplings are dense, else all labels of a colour at once.
    """
    if is_dense(energy):
        return solve(method, energy, query)
    return _icm.solve(method, energy.as_sparse(), query)


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
