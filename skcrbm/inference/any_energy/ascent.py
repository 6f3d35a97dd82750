"""Improve the states that other methods have found, by coordinate ascent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skcrbm.energies import BaseEnergy
from skcrbm.energies.states import is_categorical
from skcrbm.inference.base import InferenceResult, Query
from skcrbm.inference.methods._searches import ICM
from skcrbm.inference.registry import solver_for

# A new score counts as better than a score s only if it is larger than s by more than this number
# times (1 + |s|).
_ROUNDING = 1e-9


def only_map(query: Query, start: np.ndarray | None = None) -> Query:
    """Return a copy of a query that asks only for "map".

    If `start` is given, inference starts from these log-odds (N, n) or (N, n, K).
    """
    given = None if start is None else InferenceResult(log_odds=start)
    return replace(
        query, returns=frozenset({"map"}), start=given, return_trace=False, return_state=False
    )


def ascend_from(
    energy: BaseEnergy, query: Query, state: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Run "icm" from two states of each model, and return the best state found.

    The first start is `state` (N, n). The second start is the state with the highest score if all
    couplings are ignored. If neither run finds a better state, the result is `state`. Also return a
    mask (N,) of the models with a better state.
    """
    state = state.copy()
    best = energy.score(state)
    changed = np.zeros(len(state), bool)
    margin = _ROUNDING * (1.0 + np.abs(np.where(np.isfinite(best), best, 0.0)))
    ascend, method = solver_for("icm", type(energy)), ICM(n_restarts=1)
    for start in (_as_log_odds(energy, state), None):
        found = ascend(method, energy, only_map(query, start))["assignment"]
        if energy.evidence is not None:
            found = np.where(energy.free, found, np.nan_to_num(energy.evidence))
        score = energy.score(found)
        better = score > best + margin
        state[better] = found[better]
        best = np.where(better, score, best)
        changed |= better
    return state, changed


def _as_log_odds(energy, state):
    """Return log-odds under which the given states are the most probable states."""
    if not is_categorical(energy):
        return np.where(state > 0, 1.0, -1.0).astype(energy.dtype)
    return np.where(state[..., None] == np.arange(energy.n_levels), 1.0, -1.0).astype(energy.dtype)
