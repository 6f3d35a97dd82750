"""Pass messages on Ising models.

For a sum of products on couplings in a matrix, the kernel of `ising_messages` visits the labels in
turn. Other messages are passed on edges, all at once: by the kernel of `sparse_ising`, which reads
one coupling per pair and supports moderate couplings and a damping of 0 or 0.5, and otherwise by
the kernels of factor graphs, to which the model is converted.
"""

import numpy as np
from scipy.special import expit

from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference.base import empty_result, sum_statistics, with_folded_evidence
from skcrbm.inference.factor_graph import messages as graph_messages
from skcrbm.inference.factor_graph.messages import OddsKernel, find_state, pass_messages
from skcrbm.inference.methods._messages import Messages, convergence_slack, earlier_messages
from skcrbm.kernels.arguments import IsingAnswers, IsingOptions
from skcrbm.kernels.ising_messages import IsingEdges, pass_ising
from skcrbm.kernels.sparse_ising import finish_sparse_ising, pass_sparse_ising
from skcrbm.utils.limits import LOG_RANGE, MAX_CHUNKS
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.validation import kernel_array

# Smallest size of a chunk: the number of models times the number of edges. With smaller chunks, the
# cost of the calls would dominate.
_CHUNK_EDGES = 2**14
# A product of many messages is computed as several partial products. The absolute logarithm of a
# partial product is at most this number, so that it stays in the range of float64.
_MAX_LOG_PRODUCT = 600.0
# Log odds-ratios of pairs of labels are clipped to this number. At this limit, the two labels are
# practically always equal or always opposite.
_MAX_LOG_RATIO = 300.0


def solve_sum_product(method, energy, query):
    """Answer a query by sum-product messages; see `SumProduct`."""
    if not energy.couplings_are_sparse:
        return _visit_in_turn(method, energy, query)
    fields = pass_messages(method, FactorGraphEnergy.from_energy(energy), query, _Kernel)
    return _with_pairs(fields)


def solve_max_product(method, energy, query):
    """Find a state by max-product messages; see `MaxProduct`."""
    return find_state(method, FactorGraphEnergy.from_energy(energy), query, _Kernel)


def solve_tree_reweighted(method, energy, query):
    """Answer a query by tree-reweighted messages; see `TreeReweighted`."""
    graph = FactorGraphEnergy.from_energy(energy)
    fields = graph_messages.solve_tree_reweighted(method, graph, query)
    if "statistics" in fields and not energy.couplings_are_sparse:
        fields["statistics"] = (_all_pairs(energy, graph, query, fields),)
        return fields
    return _with_pairs(fields)


def _all_pairs(energy, graph, query, fields):
    """Return P(both labels are +1) of all pairs, and P(label is +1) on the diagonal.

    Labels without a coupling are independent given their beliefs.
    """
    n_labels = energy.n_variables
    on = expit(fields["log_odds"].astype(np.float64))
    if energy.evidence is not None:
        on = np.where(energy.free, on, energy.evidence)
    weighted = on if query.per_example else query.sample_weight[:, None] * on
    form = "ni,nk->nik" if query.per_example else "ni,nk->ik"
    found = np.einsum(form, weighted, on)
    found[..., np.arange(n_labels), np.arange(n_labels)] = (
        on if query.per_example else weighted.sum(axis=0)
    )
    for group in graph.tables:
        i, k = group.variables.T
        found[..., i, k] = found[..., k, i] = fields["statistics"][0][..., group.entries + 3]
    return found.astype(energy.dtype)


def _with_pairs(fields):
    """If there are statistics, keep only P(both labels are +1) for each edge."""
    if "statistics" in fields:
        fields["statistics"] = (np.ascontiguousarray(fields["statistics"][0][..., 3::4]),)
    return fields


class _Kernel(OddsKernel):
    """Passes messages on sparse Ising models.

    The kernel stores messages as odds, and reads one coupling per edge instead of a table. Its
    innermost loop runs over the models.
    """

    #: Share of the range of the dtype that a product of messages may use, see `fits_odds`. It is a
    #: quarter because a single division computes two messages, and its denominator is a product of
    #: up to four numbers.
    share = 0.25

    def prepare(self, graph):
        n_tables = graph.n_tables
        edges = kernel_array(graph.variables.reshape(n_tables, 2))
        # Recover the coupling s from the table of an edge. Its largest log-potential |s| is in
        # `shift`, and its last log-potential s is in `logs` as s - |s|, so s is the sum of the two
        # numbers.
        coupling = graph.shift + graph.logs[3::4]
        return edges, kernel_array(np.exp(2 * coupling), self.dtype), coupling

    def pass_(self, kind, *arguments):
        pass_sparse_ising(kind, *self.arrays, *arguments)

    def finish(self, lanes, sums):
        finish_sparse_ising(*self.arrays, lanes, sums)


@with_folded_evidence
def _visit_in_turn(method, energy, query):
    """Answer a query by sum-product messages that the labels of a dense model send in turn."""
    dtype, coupling = energy.dtype, energy.coupling
    shape = (energy.n_models, *coupling.shape)
    edge = kernel_array(2 * coupling, dtype)
    largest = np.abs(edge).max(initial=0)
    in_logs = bool(method.damping or 2 * largest > LOG_RANGE[dtype])
    piece = max(1, len(coupling))
    if largest and not in_logs:
        piece = int(min(piece, _MAX_LOG_PRODUCT // largest))
    model = IsingEdges(
        in_logs,
        edge if in_logs else np.exp(edge),
        coupling,
        np.exp(-np.minimum(2 * np.abs(edge.astype(np.float64)), _MAX_LOG_RATIO)),
        piece,
        dtype.type(method.damping),
    )
    norm = 2 * np.abs(coupling).sum(axis=0, dtype=np.float64).max(initial=0)
    slack = convergence_slack(method.tolerance, norm, dtype)
    earlier = earlier_messages(query, method.name, shape, energy.n_variables)
    beliefs = None if query.start is None else query.start.log_odds
    if earlier is not None:
        beliefs = earlier.log_odds
    no_messages = np.empty((0, *coupling.shape), dtype)
    kept = np.ones(shape, dtype) if query.return_state else no_messages
    trace = _empty_trace(energy, query, method.iterations)
    options = _options(method, query, dtype, slack)

    def kernel(rows, field, free, weight, theta, n_iter, converged, log_partition, pairwise):
        start = no_messages if earlier is None else earlier.values_for(rows, in_logs, dtype)
        answers = IsingAnswers(theta, n_iter, converged, log_partition, pairwise, trace[rows])
        warm = query.start is not None
        pass_ising(model, field, free, weight, warm, start, options, answers, kept[rows])

    fields = _iterate(energy, query, kernel, beliefs)
    if query.return_trace:
        fields["trace"] = trace
    if query.return_state:
        fields["state"] = Messages(method.name, kept, fields["log_odds"].copy(), in_logs)
    return fields


def _options(method, query, dtype, slack):
    """Return the options of the kernels.

    A model has not converged while a log-odds changes by more than `slack`.
    """
    return IsingOptions(
        method.iterations,
        dtype.type(method.tolerance),
        slack,
        "log_partition" in query.returns,
        "statistics" in query.returns,
    )


def _iterate(energy, query, kernel, beliefs):
    """Run an iterative kernel over chunks of models, and return the fields of a result.

    The field of the energy must include the effect of the evidence. For each slice of rows the
    kernel is called as ``kernel(rows, field, free, weight, theta, n_iter, converged, log_partition,
    pairwise)``, with the arrays of these rows. `beliefs` (N, L) are the initial log-odds. If
    `beliefs` is None, the iterations start from the fields.
    """
    n, dtype = energy.n_models, energy.dtype
    fields = empty_result(energy, query)
    log_partition = fields.get("log_partition", np.zeros(n))
    weight = np.ones(n) if query.per_example else query.sample_weight
    weight = weight.astype(dtype)
    field = 2 * energy.field
    free = kernel_array(energy.free)
    theta = np.array(field if beliefs is None else beliefs, dtype, order="C")
    fields["log_odds"] = theta

    def solve(rows, statistics):
        kernel(
            rows,
            field[rows],
            free[rows],
            weight[rows],
            theta[rows],
            fields["n_iter"][rows],
            fields["converged"][rows],
            log_partition[rows],
            statistics[0].astype(dtype, copy=False),
        )

    size = max(-(-n // MAX_CHUNKS), -(-_CHUNK_EDGES // max(1, energy.coupling.size)))
    sum_statistics(solve, row_chunks(n, size), query, fields.get("statistics"))
    if "log_partition" in query.returns:
        # In the kernels, a label with the field f adds 2 f to the score if y = +1, and 0 if y = -1.
        # In the energy it adds f or -f, so subtract f. The field of clamped labels is 0 here.
        fields["log_partition"] -= energy.field.sum(axis=1, dtype=np.float64)
    return fields


def _empty_trace(energy, query, max_iter):
    """Allocate an array (N, max_iter) of NaN for the trace, or (N, 0) if no trace is requested."""
    return np.full((energy.n_models, max_iter if query.return_trace else 0), np.nan)
