"""Mean field on factor graphs, one variable after the other."""

import numpy as np
from scipy.special import expit

from skcrbm.inference._message_state import Beliefs
from skcrbm.inference.base import empty_result
from skcrbm.inference.factor_graph._graph import flat_graph, held_values, message_limits
from skcrbm.kernels.factor_search import graph_mean_field
from skcrbm.utils.parallel import ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

_CHUNK_EDGES = 2**12


def solve(method, energy, query):
    """Answer by coordinate ascent; see `MeanField`."""
    graph, held = flat_graph(energy), held_values(energy)
    n, width = energy.n_models, energy.n_variables
    fields = empty_result(energy, query)
    fields["converged"][:] = False
    start = energy.field if query.start is None else query.start.log_odds
    theta = np.array(start, np.float64)
    trace = np.full((n, method.iterations if query.return_trace else 0), np.nan)
    log_partition = np.zeros(n)
    order = np.argsort(graph.variables, kind="stable")
    first = np.zeros(width + 1, np.int64)
    np.cumsum(np.bincount(graph.variables, minlength=width), out=first[1:])
    rho = np.ones(len(graph.shift))
    arrays = graph.factors(rho), graph.shift, kernel_array(graph.edge_factor), first, order
    limit = message_limits(graph.norms(width), energy.field)
    field = kernel_array(energy.field, np.float64)

    def run(rows):
        graph_mean_field(
            *arrays, limit[rows], field[rows], held[rows], method.iterations,
            float(method.tolerance), theta[rows], fields["n_iter"][rows], fields["converged"][rows],
            log_partition[rows], trace[rows],
        )  # fmt: skip

    size = -(-_CHUNK_EDGES // max(1, graph.n_edges))
    for _ in ordered_map(run, row_chunks(n, size), query.n_jobs):
        pass
    theta[held >= 0] = 0
    fields["log_odds"] = theta.astype(energy.dtype)
    if "log_partition" in query.returns:
        fields["log_partition"] = log_partition + energy.offset
    if "statistics" in query.returns:
        beliefs = np.where(held < 0, expit(theta), held)
        _add_statistics(energy, query, beliefs, fields)
    if query.return_trace:
        fields["trace"] = trace
    if query.return_state:
        fields["state"] = Beliefs(fields["log_odds"].copy())
    return fields


def _add_statistics(energy, query, beliefs, fields):
    """Fill statistics: entries are products of beliefs."""
    if not query.per_example:
        fields["statistics"] = energy.sum_statistics(beliefs, query.sample_weight)
        return
    for m in range(energy.n_models):
        (fields["statistics"][0][m],) = energy.sum_statistics(beliefs[m : m + 1], np.ones(1))
