"""Solve graphs of 0/1 variables by the solvers for variables with any number of states.

The kernels for 0/1 variables take tables of at most `MAX_TABLE_VARIABLES` variables, and they send
no tree-reweighted messages. The kernels for variables with any number of states take tables of any
number of variables. So the graph is converted to variables with two states, and the answers are
converted back. For example, the log-odds of a 0/1 variable are the log-odds of state 1. Each OR or
AND factor is also replaced by a chain of small tables (`two_states`), so that the factor may have
any number of inputs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from skcrbm.energies import FactorGraphEnergy
from skcrbm.energies.two_states import two_states
from skcrbm.inference.any_energy.ascent import ascend_from
from skcrbm.inference.base import Query
from skcrbm.inference.methods._messages import Beliefs, Messages
from skcrbm.inference.registry import solver_for


def solve_messages(method: Any, energy: FactorGraphEnergy, query: Query) -> dict[str, Any]:
    """Answer a query by message passing, after replacing OR and AND factors by chains of tables."""
    other = two_states(energy)
    fields = _solve(method, energy, other, query)
    if "assignment" in fields and other.n_variables > energy.n_variables:
        # Coordinate ascent has flipped single variables of the converted graph. In a chain, a flip
        # of an input is possible only together with flips of auxiliary variables. Therefore run
        # coordinate ascent on the given graph, too.
        fields["assignment"], better = ascend_from(energy, query, fields["assignment"])
        fields["converged"][better] = False
    return fields


def _solve(method, energy, other, query):
    """Solve a query about `other`, and return the answers in the shapes of `energy`."""
    if query.start is not None:
        query = replace(query, start=_converted_start(energy, other, query.start))
    fields = solver_for(method.name, type(other))(method, other, query)
    n = energy.n_variables
    if fields.get("log_odds") is not None:
        fields["log_odds"] = np.array(fields["log_odds"][:, :n, 1], energy.dtype)
    for name in {"assignment", "samples"} & set(fields):
        fields[name] = fields[name][..., :n].astype(energy.state_dtype)
    if "statistics" in fields:
        (entries,) = fields["statistics"]
        # The tables of chains follow the tables of the energy.
        fields["statistics"] = (np.array(entries[..., : energy.n_entries], energy.dtype),)
    if isinstance(fields.get("state"), (Beliefs, Messages)):
        fields["state"] = fields["state"]._replace(log_odds=fields["log_odds"].copy())
    return fields


def _converted_start(energy, other, start):
    """Convert log-odds (N, n) in `start` and `start.state` to log-odds of the values 0 and 1."""

    def convert(log_odds):
        if log_odds is None or log_odds.shape != energy.belief_shape:
            return log_odds
        found = np.zeros(other.belief_shape, log_odds.dtype)
        found[:, : energy.n_variables] = np.stack([-log_odds, log_odds], axis=2)
        return found

    state = start.state
    if isinstance(state, (Beliefs, Messages)):
        state = state._replace(log_odds=convert(state.log_odds))
    return replace(start, log_odds=convert(start.log_odds), state=state)
