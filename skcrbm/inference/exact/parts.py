"""Split queries of "exact" into parts, and estimate the time of an enumeration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from skcrbm.energies import BaseEnergy
from skcrbm.inference.base import Query
from skcrbm.utils.limits import EXACT_NANOSECONDS, MAX_EXACT_SECONDS, MAX_UNITS

_SUMS = frozenset({"marginals", "statistics", "log_partition"})
_STATES = frozenset({"map", "marginal_map"})
_SAMPLES = frozenset({"samples", "sample_log_prob"})


def answer_in_parts(
    method: Any,
    energy: BaseEnergy,
    query: Query,
    *,
    sums: Callable[..., dict],
    best: Callable[..., dict],
    draw: Callable[..., dict],
) -> dict[str, Any]:
    """Split a query into up to three parts, call a solver for each part, and merge the answers.

    - `sums` computes marginals, statistics and log Z.
    - `best` computes "map" and "marginal_map", with max-marginals.
    - `draw` computes samples.

    The log-odds of the result belong to the marginals if marginals are requested; otherwise they
    belong to the max-marginals.
    """
    check_time(energy, query)
    fields = {}
    parts = [(best, _STATES), (sums, _SUMS), (draw, _SAMPLES)]
    # Each part overwrites the log-odds of the previous parts. The log-odds of `best` are
    # max-marginals, so `best` must come last unless marginals are requested.
    if "marginals" not in query.returns:
        parts.reverse()
    for solve, part in parts:
        asked = query.returns & part
        if asked:
            fields |= solve(method, energy, replace(query, returns=asked))
    if "map_bound" in query.returns:
        fields["map_bound"] = _score(energy, query, fields["assignment"])
        fields["gap"] = np.zeros(energy.n_models)
    return fields


def exact_seconds(energy: BaseEnergy, returns: Iterable[str]) -> float:
    """Estimate the time that "exact" takes to enumerate states, in seconds on one core."""
    total = 0.0
    parts = _SUMS, _STATES | {"best_states"}, _SAMPLES
    for part, nanoseconds in zip(parts, EXACT_NANOSECONDS):
        for query in part & set(returns):
            n_visited, n_others = _sizes(energy, query)
            with np.errstate(over="ignore"):  # the caller treats an infinite time as a long time
                n_states = 2.0**n_visited * n_others
            total = max(total, nanoseconds * 1e-9 * float(n_states.sum()))
    return total


def _sizes(energy, query):
    """Return the number of enumerated variables (N,) of N models, and the cost of a state.

    The cost of a state is the number of variables that are not enumerated, at least 1.
    """
    free, k = energy.free, energy.n_enumerated(query)
    n_free = free.sum(axis=1)
    if energy.n_hidden == 0:
        n_visited = np.minimum(k, n_free)
        return n_visited, np.maximum(1, n_free - n_visited)
    # The states of a layer are enumerated. Clamped units of the other layer cost as much as free
    # units. Clamped units of the enumerated layer save time only in the search for the best state.
    n_visited = np.full(len(free), k)
    if query in _STATES:
        visible_first = query == "marginal_map" or energy.n_visible < energy.n_hidden
        layer = slice(energy.n_visible) if visible_first else slice(energy.n_visible, None)
        n_visited = free[:, layer].sum(axis=1)
    return n_visited, max(1, energy.n_variables - k)


def n_visited(energy: BaseEnergy, query: str) -> np.ndarray:
    """Return the number of variables (N,) that "exact" enumerates in each model for a query."""
    return _sizes(energy, query)[0]


def check_time(energy: BaseEnergy, query: Query) -> None:
    """Raise a ValueError if an enumeration would take more than a day on one core."""
    seconds = exact_seconds(energy, query.returns)
    if seconds <= MAX_EXACT_SECONDS:
        return
    n_units = max(_sizes(energy, part)[0].max() for part in query.returns)
    if n_units <= MAX_UNITS:  # else the solver raises an error about the number of units
        raise ValueError(
            f"'exact' would enumerate 2^{n_units} states of each of {energy.n_models} models, "
            f"about {seconds / 3600:.0f} hours on one core. Use 'sum_product' or another "
            "approximate method, or pass fewer models in a call"
        )


def _score(energy, query, states):
    """Return the scores (N,) of states, or the log-weights if "marginal_map" is requested."""
    if energy.evidence is not None:
        states = np.where(energy.free, states, energy.evidence).astype(energy.state_dtype)
    if "map" in query.returns:
        return energy.score(states)
    return energy.log_weight(states[:, : energy.n_visible])
