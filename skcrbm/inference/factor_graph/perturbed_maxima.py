"""Draw samples from factor graphs by perturb-and-max-product."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcrbm.inference.any_energy.perturb_and_max_product import StateNoise, answer_by_maxima
from skcrbm.inference.factor_graph._flat_graph import (
    fits_odds,
    flat_graph,
    has_large_tables,
    held_values,
    message_limits,
)
from skcrbm.inference.factor_graph._lanes import Lanes
from skcrbm.inference.factor_graph._large_tables import solve_states
from skcrbm.inference.factor_graph._state_graph import StateGraph
from skcrbm.inference.factor_graph.states import pass_in_lanes
from skcrbm.kernels.arguments import CategoricalAnswers, CategoricalModels, CategoricalOptions
from skcrbm.kernels.categorical_states import FoundStates
from skcrbm.kernels.perturbed_maxima import pass_factors, relay_order
from skcrbm.kernels.scalar import MAX
from skcrbm.utils.limits import CACHED_ENTRIES
from skcrbm.utils.validation import kernel_array

# Messages of at least this number of samples are computed together, if there are enough samples.
_MIN_BLOCK = 16
# The search for a perturbed maximum ends if a sweep changes no max-marginal by more than this
# number.
_STILL = 1e-9


def _noisy(energy):
    """Return a mask (n,), False for the outputs of OR and AND factors."""
    noisy = np.ones(energy.n_variables, bool)
    noisy[energy.ors.outputs] = False
    noisy[energy.ands.outputs] = False
    return noisy


def solve(method, energy, query):
    """Compute "samples" and "log_partition"; see `PerturbAndMaxProduct`.

    Outputs of OR and AND factors get no noise. In a binary graph, the messages of each sample are
    odds if they fit the dtype, else logarithms, independently of the other samples.
    """
    if not energy.binary:
        return _solve_states(method, energy, query)
    if has_large_tables(energy):
        return solve_states(method, energy, query)
    graph = flat_graph(energy)
    norms = graph.norms(energy.n_variables)
    factors = graph.factors
    relay, level = np.zeros(energy.n_variables, bool), np.zeros(0, np.int64)
    if graph.n_tables < len(graph.shift):  # skip the compiler if there are no OR and AND factors
        relay, level = relay_order(factors, energy.n_variables)
    order = graph.n_tables + np.argsort(level, kind="stable")

    def maximise(rows, noise, message, keep):
        part = energy.rows(rows)
        part = part.with_fields(kernel_array(part.field + noise, energy.dtype))
        states = np.empty(noise.shape, bool)
        sent: Any = np.empty((len(rows), graph.n_edges), energy.dtype) if keep else None
        odds = np.zeros(len(rows), bool)
        if method.damping in (0.0, 0.5):
            odds = fits_odds(graph, norms, part.field, energy.dtype)
        for where, run in ((np.flatnonzero(odds), _as_odds), (np.flatnonzero(~odds), _in_logs)):
            if len(where):
                start = None if message is None else message[where]
                found, after = run(part.rows(where), start)
                states[where] = found
                if keep:
                    sent[where] = after
        return states, sent

    def _as_odds(part, start):
        lanes = Lanes(part, MAX, method.damping)
        if start is not None:
            lanes.go_on_from(start)
        lanes.sweep(method.max_iter)
        return lanes.states, lanes.messages

    def _in_logs(part, start):
        message = np.zeros((part.n_models, graph.n_edges))
        if start is not None:
            message[...] = start
        held = held_values(part)
        belief = np.empty((part.n_models, part.n_variables))
        pass_factors(
            factors, order, relay, kernel_array(part.field, np.float64),
            held if (held >= 0).any() else np.empty((0, part.n_variables), np.int8),
            message_limits(norms, part.field), method.max_iter, float(method.damping), message,
            belief,
        )  # fmt: skip
        return np.where(held < 0, belief >= 0, held == 1), message

    size = Lanes.n_lanes
    return answer_by_maxima(method, energy, query, maximise, (graph.n_edges,), _noisy(energy), size)


def _solve_states(method, energy, query):
    """Compute the answers for a graph whose arrays have an axis of states."""
    graph = StateGraph(energy)
    logs = graph.kernel_graph(True)
    damping = 0.0 if graph.is_forest else float(method.damping)
    options = CategoricalOptions(method.max_iter, _STILL, _STILL, damping, MAX, graph.is_forest)

    def maximise(rows, noise, message, keep):
        n = len(rows)
        own = kernel_array(graph.own[rows] + noise[:, graph.has_state])
        sent = np.zeros((n, graph.n_messages))
        given: Any = np.zeros(sent.shape) if message is None else message
        held = kernel_array(~energy.free[rows])
        models = CategoricalModels(held, own, kernel_array(given, np.float64), sent)
        found = CategoricalAnswers(
            np.zeros(n, np.int64), np.zeros(n, bool), np.zeros(n, bool), np.empty((n, 0)),
            np.zeros(own.shape),
        )  # fmt: skip
        best = FoundStates(np.full((n, energy.n_variables), -1, np.int64), np.full(n, -np.inf))
        pass_in_lanes(graph, logs, models, options, found, states=best)
        return best.state, models.message if keep else None

    size = max(_MIN_BLOCK, CACHED_ENTRIES // max(1, graph.n_messages))
    return answer_by_maxima(
        method, energy, query, maximise, (graph.n_messages,), _noisy(energy), size,
        StateNoise(energy.n_states),
    )  # fmt: skip
