"""Improve the states that max-product finds on factor graphs.

If the two values of a variable have equal beliefs (a tie), the beliefs do not determine the best
state, because the best value of this variable depends on the values that are chosen for other
variables. So models of 0/1 variables with ties are solved again by the solver for variables with
any number of states (`states.py`), which chooses the values one after the other. Models whose
messages have not converged are solved again, too.

If a graph has cycles or the messages have not converged, coordinate ascent is run twice: from the
state of max-product, and from the best state under the fields alone. The best of three states is
kept: the state of max-product, and the results of both runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skcrbm.energies.states import is_categorical
from skcrbm.energies.two_states import two_states
from skcrbm.inference.any_energy.ascent import ascend_from, only_map
from skcrbm.inference.base import Query
from skcrbm.inference.factor_graph._state_graph import forest_order
from skcrbm.inference.registry import solver_for

# The two values of a variable are tied if the absolute value of its log-odds is at most this number
# times (1 + the largest absolute value of log-odds in the model).
_ROUNDING = 1e-9


def improve_states(method: Any, energy: Any, query: Query, fields: dict[str, Any], graph: Any):
    """Replace the states (N, n) of max-product by better states if any are found.

    If coordinate ascent improves the state of a model, the model counts as not converged, because
    its messages do not agree with the best state found.

    `fields` is the answer to the query; its entries "assignment", "converged" and "log_odds" are
    changed. `graph.variables` (E,) has the variables of all factors: factor f has the variables
    ``variables[edge_start[f]:edge_start[f + 1]]``.
    """
    if not is_categorical(energy):
        _decide_ties(method, energy, query, fields)
    arity = np.diff(graph.edge_start)
    order = forest_order(graph.variables, arity, energy.n_variables)
    left = np.flatnonzero(~fields["converged"] if order is not None else fields["converged"] >= 0)
    if len(left):
        state, better = ascend_from(energy.rows(left), query, fields["assignment"][left])
        fields["assignment"][left[better]] = state[better]
        fields["converged"][left[better]] = False


def _decide_ties(method, energy, query, fields):
    """Solve models with ties or unconverged messages again; keep the states of higher score.

    The models are converted to graphs of categorical variables with two states. If the old and the
    new state have the same score, the new state is kept if its messages have converged.
    """
    log_odds = np.abs(fields["log_odds"].astype(np.float64))
    unit = 1.0 + np.where(energy.free, log_odds, 0.0).max(axis=1, initial=0.0)
    ties = (energy.free & (log_odds <= _ROUNDING * unit[:, None])).any(axis=1)
    rows = np.flatnonzero(ties | ~fields["converged"])
    if not len(rows):
        return
    part = energy.rows(rows)
    other = two_states(part)
    found = solver_for("max_product", type(other))(method, other, only_map(query))
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
