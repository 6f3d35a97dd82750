"""Improve the states that max-product finds on factor graphs.

If two states of a variable have equal beliefs (a tie), the beliefs do not determine the best state,
because the best value of one variable depends on the value that is chosen for another. So models of
0/1 variables with ties are solved again by the solver for variables with several states
(`states`), which decides the variables in turn. Models whose messages have not converged are solved
again, too.

If a graph has cycles or the messages have not converged, coordinate ascent starts from the state of
max-product and from the fields. The best of the three states is kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from skcrbm.energies.states import is_categorical
from skcrbm.energies.two_states import two_states
from skcrbm.inference.base import InferenceResult, Query
from skcrbm.inference.factor_graph._state_graph import forest_order
from skcrbm.inference.methods._searches import ICM
from skcrbm.inference.registry import solver_for

# Log-odds count as a tie if they are at most this share of 1 + the largest |log-odds| of the model.
# A score counts as better than another if it is larger by this share of 1 + |score|.
_ROUNDING = 1e-9


def improve_states(method: Any, energy: Any, query: Query, fields: dict[str, Any], graph: Any):
    """Replace the states (N, n) of max-product by better states if any are found.

    If coordinate ascent improves the state of a model, the model counts as not converged, because
    its messages do not agree with the best state found.

    Parameters
    ----------
    method : MaxProduct
    energy : FactorGraphEnergy
    query : Query
    fields : dict
        Answer to the query. "assignment", "converged" and "log_odds" are changed.
    graph : object
        The attribute `variables` (E,) has the variables of all factors. Factor f has the variables
        ``variables[edge_start[f]:edge_start[f + 1]]``.
    """
    if not is_categorical(energy):
        _decide_ties(method, energy, query, fields)
    arity = np.diff(graph.edge_start)
    order = forest_order(graph.variables, arity, energy.n_variables)
    left = np.flatnonzero(~fields["converged"] if order is not None else fields["converged"] >= 0)
    if len(left):
        _climb(energy.rows(left), left, query, fields)


def _decide_ties(method, energy, query, fields):
    """Solve models again that have ties or have not converged, and keep states that are no worse.

    The models are converted to graphs of variables with two states.
    """
    log_odds = np.abs(fields["log_odds"].astype(np.float64))
    unit = 1.0 + np.where(energy.free, log_odds, 0.0).max(axis=1, initial=0.0)
    ties = (energy.free & (log_odds <= _ROUNDING * unit[:, None])).any(axis=1)
    rows = np.flatnonzero(ties | ~fields["converged"])
    if not len(rows):
        return
    part = energy.rows(rows)
    other = two_states(part)
    asked = _only_map(query)
    found = solver_for("max_product", type(other))(method, other, asked)
    state = found["assignment"][:, : energy.n_variables]
    old, new = part.score(fields["assignment"][rows]), part.score(state)
    better = (new >= old) & (found["converged"] | (new > old))
    chosen = rows[better]
    fields["assignment"][chosen] = state[better]
    fields["converged"][chosen] = found["converged"][better]
    known = rows[found["converged"] & better]
    if len(known):
        gains = found["log_odds"][found["converged"] & better]
        fields["log_odds"][known] = gains[:, : energy.n_variables, 1]


def _only_map(query, start=None):
    """Return a copy of a query that asks only for "map".

    If `start` is given, inference starts from these log-odds (N, n) or (N, n, K).
    """
    given = None if start is None else InferenceResult(log_odds=start)
    return replace(
        query, returns=frozenset({"map"}), start=given, return_trace=False, return_state=False
    )


def _climb(energy, rows, query, fields):
    """Run coordinate ascent from the present states and from the fields, and keep better states.

    `energy` has the models `rows` of the batch.
    """
    state = fields["assignment"][rows]
    ascend = solver_for("icm", type(energy))
    method, best = ICM(n_restarts=1), energy.score(state)
    margin = _ROUNDING * (1.0 + np.abs(np.where(np.isfinite(best), best, 0.0)))
    held = np.where(energy.free, 0.0, np.inf)
    for start in (_as_log_odds(energy, state), None):
        found = ascend(method, energy, _only_map(query, start))["assignment"]
        score = energy.score(found)
        better = score > best + margin
        if energy.evidence is not None:
            found = np.where(held > 0, np.nan_to_num(energy.evidence), found).astype(state.dtype)
        fields["assignment"][rows[better]] = found[better]
        fields["converged"][rows[better]] = False
        best = np.where(better, score, best)


def _as_log_odds(energy, state):
    """Return log-odds that prefer the given states."""
    if not is_categorical(energy):
        return np.where(state > 0, 1.0, -1.0).astype(energy.dtype)
    return np.where(state[..., None] == np.arange(energy.n_levels), 1.0, -1.0).astype(energy.dtype)
