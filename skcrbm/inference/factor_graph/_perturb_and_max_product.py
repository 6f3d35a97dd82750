"""Perturb-and-max-product on factor graphs: as odds, samples side by side, or one by one in logs.

Which of both is decided for each sample, as it must not depend on the others.
"""

import numpy as np

from skcrbm.inference.any_energy.perturb_and_max_product import answer_by_maxima
from skcrbm.inference.factor_graph._graph import (
    fits_odds,
    flat_graph,
    held_values,
    message_limits,
)
from skcrbm.inference.factor_graph._lanes import Lanes
from skcrbm.kernels.perturbed_maxima import pass_factors, relay_order
from skcrbm.kernels.scalar import MAX
from skcrbm.utils.validation import kernel_array


def solve(method, energy, query):
    """Answer "samples" and "log_partition"; outputs of OR and AND get no noise."""
    graph = flat_graph(energy)
    norms = graph.norms(energy.n_variables)
    factors = graph.factors(np.ones(len(graph.shift)))
    relay, level = relay_order(factors, energy.n_variables)
    order = graph.n_tables + np.argsort(level, kind="stable")
    noisy = np.ones(energy.n_variables, bool)
    noisy[energy.ors.outputs] = False
    noisy[energy.ands.outputs] = False

    def maximise(rows, noise, message, keep):
        part = energy.rows(rows)
        part = part.with_fields(kernel_array(part.field + noise, energy.dtype))
        states = np.empty(noise.shape, bool)
        sent = np.empty((len(rows), graph.n_edges), energy.dtype) if keep else None
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
    return answer_by_maxima(method, energy, query, maximise, (graph.n_edges,), noisy, size)
