"""Find the k best states of energies, by the elimination or the enumeration that finds the best."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from skcrbm.energies import BaseEnergy
from skcrbm.inference.exact import all_states, elimination, grouped_rbm, ising, rbm
from skcrbm.inference.registry import entry_for

# The functions return the states and the scores of each model, as sequences of N arrays. Terms
# that all states of a model share may be missing from the scores.
_SOLVERS = {
    "BaseEnergy": all_states.k_best,
    "RBMEnergy": rbm.k_best,
    "GroupedRBMEnergy": grouped_rbm.k_best,
    "OneHotRBMEnergy": grouped_rbm.k_best,
    "IsingEnergy": ising.k_best,
    "FactorGraphEnergy": elimination.k_best,
}


def best_states(method: Any, energy: BaseEnergy, query: Any) -> dict[str, np.ndarray]:
    """Return the fields `best_states` and `best_scores` of an `InferenceResult`."""
    k, query = query.n_best, replace(query, returns=frozenset({"best_states"}))
    elimination.check_number_of_states(energy, k, method.max_entries)
    found = _SOLVERS[entry_for(_SOLVERS, type(energy))](method, energy, query)
    states = np.full((energy.n_models, k, energy.n_variables), -1, energy.state_dtype)
    scores = np.full((energy.n_models, k), -np.inf)
    for row, (own, own_scores) in enumerate(zip(*found)):
        own = own[own_scores > -np.inf].astype(energy.state_dtype)
        if energy.evidence is not None:
            held = ~energy.free[row]
            own[:, held] = energy.evidence[row, held]
        values = energy.rows(np.full(len(own), row)).score(own)
        order = np.argsort(-values, kind="stable")
        states[row, : len(own)], scores[row, : len(own)] = own[order], values[order]
    return {"best_states": states, "best_scores": scores}
