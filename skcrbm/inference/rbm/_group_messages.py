"""Answer queries about RBMs whose outputs have classes, by the solvers of factor graphs.

An output becomes a variable whose states are its classes, and a hidden unit becomes a variable with
two states. The weights between an output and a hidden unit become a table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from skcrbm.energies import FactorGraphEnergy, TableFactors
from skcrbm.energies.grouped_rbm import GroupedRBMEnergy
from skcrbm.inference.registry import solver_for

# A class that the evidence excludes gets the log-weight -_EXCLUDED, so that its probability is 0.
_EXCLUDED = 2000.0


def solve(method, energy, query):
    """Answer a query by the solver of the method for factor graphs."""
    graph = as_factor_graph(energy)
    if query.start is not None and query.start.log_odds is not None:
        query = replace(query, start=_converted_start(energy, graph, query.start))
    answer = solver_for(method.name, type(graph))(method, graph, query)
    units = energy.units
    columns = _columns(energy, graph)
    if answer.get("log_odds") is not None:
        flat = answer["log_odds"].reshape(energy.n_models, graph.n_variables * graph.n_levels)
        answer["log_odds"] = np.ascontiguousarray(flat[:, columns])
    n_outputs = len(units.n_classes)
    for name in {"assignment", "samples"} & set(answer):
        states = answer[name]
        codes, hidden = states[..., :n_outputs], states[..., n_outputs:]
        joined = np.concatenate([units.units_of(codes.astype(np.int64)), hidden], axis=-1)
        answer[name] = joined.astype(energy.state_dtype)
    if "statistics" in answer:
        answer["statistics"] = (_statistics(energy, graph, answer["statistics"][0]),)
    return answer


def as_factor_graph(energy: GroupedRBMEnergy) -> Any:
    """Convert RBMs to a factor graph with a variable for each output and each hidden unit."""
    units, n_hidden = energy.units, energy.n_hidden
    counts = np.concatenate([units.n_classes, np.full(n_hidden, 2)])
    n_outputs, most = len(units.n_classes), int(counts.max())
    weights = np.zeros((units.n_states, n_hidden), energy.dtype)
    weights[units.place] = energy.weights
    factors = []
    for i, (start, stop) in enumerate(zip(units.first, units.first[1:])):
        scopes = np.column_stack([np.full(n_hidden, i), n_outputs + np.arange(n_hidden)])
        tables = np.zeros((n_hidden, stop - start, 2), energy.dtype)
        tables[:, :, 1] = weights[start:stop].T
        if n_hidden:
            factors.append(TableFactors(scopes, tables))
    field = np.zeros((energy.n_models, len(counts), most), energy.dtype)
    fields = energy.state_fields()
    reach = 2 * np.abs(energy.weights).sum(dtype=np.float64) + _EXCLUDED
    for i, (start, stop) in enumerate(zip(units.first, units.first[1:])):
        own = fields[:, start:stop]
        possible = np.isfinite(own)
        lowest = own.min(axis=1, where=possible, initial=np.inf, keepdims=True)
        own = np.where(possible, own, lowest - reach)
        field[:, i, : stop - start] = own
    if n_hidden:  # else the outputs may have a single class
        field[:, n_outputs:, 1] = energy.hidden_bias
    graph = FactorGraphEnergy(factors, field, n_states=counts)
    if energy.evidence is None:
        return graph
    # If the evidence leaves a single class of an output, clamp the output to this class.
    known = [
        np.where((possible := np.isfinite(fields[:, i:j])).sum(1) == 1, possible.argmax(1), np.nan)
        for i, j in zip(units.first, units.first[1:])
    ]
    return graph.condition(np.column_stack([*known, energy.evidence[:, energy.n_visible :]]))


def _columns(energy, graph):
    """Return the position of each unit in the flattened beliefs (n, K) of a factor graph."""
    units, most = energy.units, graph.n_levels
    states = units.place - units.first[units.output]
    hidden = (len(units.n_classes) + np.arange(energy.n_hidden)) * most + 1
    return np.concatenate([units.output * most + states, hidden])


def _converted_start(energy, graph, start):
    """Convert log-odds (N, V + H) of the units to a start with log-odds of all states."""
    log_odds = np.zeros((energy.n_models, graph.n_variables * graph.n_levels), energy.dtype)
    columns = _columns(energy, graph)
    log_odds[:, columns] = start.log_odds
    single = np.concatenate([~energy.exclusive, np.ones(energy.n_hidden, bool)])
    log_odds[:, columns[single] - 1] = -start.log_odds[:, single]
    return replace(start, log_odds=log_odds.reshape(graph.belief_shape))


def _statistics(energy, graph, flat):
    """Return P(unit on, hidden unit on) (..., V, H) from the probabilities of table entries."""
    units = energy.units
    found = np.zeros((*flat.shape[:-1], units.n_states, energy.n_hidden), energy.dtype)
    if energy.n_hidden:
        for part, start, stop in zip(graph.unflatten(flat), units.first, units.first[1:]):
            found[..., start:stop, :] = np.swapaxes(part[..., 1], -1, -2)  # part: (..., H, K, 2)
    return found[..., units.place, :]
