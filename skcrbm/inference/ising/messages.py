"""Pass messages on Ising models.

For a sum of products on dense couplings (`is_dense`), the labels are visited in turn: by the kernel
of `ising_lanes` for many models side by side, or by the kernel of `ising_messages` for one model
after the other, which supports couplings of any size and any damping. The latter also passes
tree-reweighted messages on complete graphs. In all other cases the model is converted to a factor
graph.
"""

from dataclasses import replace

import numpy as np
from scipy.special import expit

from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference.base import empty_result, sum_statistics, with_folded_evidence
from skcrbm.inference.factor_graph import messages as graph
from skcrbm.inference.ising.storage import is_dense, solve_as_matrix
from skcrbm.inference.methods._messages import Messages, convergence_slack, earlier_messages
from skcrbm.kernels.arguments import IsingAnswers, IsingOptions
from skcrbm.kernels.ising_lanes import ODDS_ROOM, PairLists, pass_ising_lanes
from skcrbm.kernels.ising_messages import IsingEdges, finish_ising, pass_ising
from skcrbm.utils.limits import LOG_RANGE, MAX_CHUNKS
from skcrbm.utils.parallel import ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# Smallest size of a chunk: the number of models times the number of edges. With smaller chunks, the
# cost of the calls would dominate.
_CHUNK_EDGES = 2**14
# The kernel of `ising_lanes` processes several models side by side, the kernel of `ising_messages`
# one after the other. Times of the second divided by times of the first, for the marginals of L
# labels and N models in float64: with the default options, 20 iterations, 20 damped iterations.
#
#     L     6    14    30    60   100   200   400     6    14    60   100
#     N  2000  2000   500   100    16    64    16     1     1     1     1
#         5.7   4.4   3.3   2.1   .95   .75   .48   1.2   1.2    .7    .5
#         8.8   6.6   4.7   2.9   1.1   .89   .56   1.1   1.0    .6    .4
#          14    12   8.4   3.9   2.0   1.7   1.2   1.1   1.1    .7    .4
#
# So models are side by side if they have at most _ALWAYS_LANES labels; and, if there are at least
# _MIN_LANES models, if they have at most _MOST_LANES labels or messages are damped.
_ALWAYS_LANES, _MOST_LANES = 40, 80
# Tree-reweighted messages of complete graphs with at most this number of labels are passed on
# factor graphs. Times of the kernel of `ising_messages`, divided by times on factor graphs:
#
#     L    14    14    20    30    80    95   100   200   400
#     N     1  2000   400   500    16    16     1    64     4
#          .3     4     3     2    .6    .6   .15    .3   .15
#
# The choice does not depend on N, because the two kernels make different iterations.
_MOST_IN_LANES = 60
# Smallest and largest number of models side by side, and number of their messages that fit into the
# cache.
_MIN_LANES, _MAX_LANES, _LANE_MESSAGES = 8, 32, 2**17
# Smallest number of models of a chunk, as a multiple of the number of lanes. A model that has
# converged leaves its lane to the next model of the chunk.
_LANE_ROUNDS = 8
# A product of many messages is computed as several partial products. The absolute logarithm of a
# partial product is at most this number, so that it stays in the range of float64.
_MAX_LOG_PRODUCT = 600.0
# Log odds-ratios of pairs of labels are clipped to this number. At this limit, the two labels are
# practically always equal or always opposite.
_MAX_LOG_RATIO = 300.0


def solve_sum_product(method, energy, query):
    """Answer a query by sum-product messages; see `SumProduct`."""
    if is_dense(energy):
        return solve_as_matrix(_visit_in_turn, method, energy, query)
    return _solve_tables(graph.solve_sum_product, method, energy, query)


def solve_max_product(method, energy, query):
    """Find a state by max-product messages; see `MaxProduct`."""
    return graph.solve_max_product(method, FactorGraphEnergy.from_energy(energy), query)


def solve_tree_reweighted(method, energy, query):
    """Answer a query by tree-reweighted messages; see `TreeReweighted`.

    The kernel for a matrix takes a single appearance probability, and computes no upper bound of
    log Z. So it serves marginals of complete graphs with many labels. Log Z always comes from
    tables, so that no answer depends on the other answers of a query.
    """
    n = energy.n_variables
    in_turn = n > _MOST_IN_LANES and energy.n_couplings == n * (n - 1) // 2
    asked = query.returns - {"log_partition"}
    if not (in_turn and asked):
        return _solve_tables(graph.solve_tree_reweighted, method, energy, query)
    fields = solve_as_matrix(_visit_in_turn, method, energy, replace(query, returns=asked))
    if "log_partition" in query.returns:
        bound = replace(
            query, returns=frozenset({"log_partition"}), return_state=False, return_trace=False
        )
        found = _solve_tables(graph.solve_tree_reweighted, method, energy, bound)
        fields["log_partition"] = found["log_partition"]
        fields["converged"] &= found["converged"]
    return fields


def _solve_tables(solve, method, energy, query):
    """Call a solver of factor graphs for an Ising model with a table for each edge."""
    tables = FactorGraphEnergy.from_energy(energy)
    fields = solve(method, tables, query)
    if "statistics" in fields and not energy.couplings_are_sparse:
        fields["statistics"] = (_all_pairs(energy, tables, query, fields),)
        return fields
    return _with_pairs(fields)


def _all_pairs(energy, tables, query, fields):
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
    for group in tables.tables:
        i, k = group.variables.T
        found[..., i, k] = found[..., k, i] = fields["statistics"][0][..., group.entries + 3]
    return found.astype(energy.dtype)


def _with_pairs(fields):
    """If there are statistics, keep only P(both labels are +1) for each edge."""
    if "statistics" in fields:
        fields["statistics"] = (np.ascontiguousarray(fields["statistics"][0][..., 3::4]),)
    return fields


@with_folded_evidence
def _visit_in_turn(method, energy, query):
    """Answer a query by messages that the labels of each model send in turn.

    In tree-reweighted messages, each pair of labels is in a random spanning tree of all L labels
    with the probability 2 / L.
    """
    dtype, coupling = energy.dtype, energy.coupling
    n, n_labels = energy.n_models, energy.n_variables
    shape = (n, n_labels, n_labels)
    rho = 1.0 if method.name == "sum_product" else 2.0 / n_labels
    edge, field = kernel_array(2 * coupling / rho, dtype), 2 * energy.field
    norms = 2 * np.abs(coupling).sum(axis=0, dtype=np.float64)
    reach = (np.abs(field).max(axis=0, initial=0) + norms).max(initial=0)
    width = _n_lanes(n, edge, float(method.damping), reach) if rho == 1.0 else 0
    largest = np.abs(edge).max(initial=0)
    in_logs = width == 0 and bool(method.damping or 2 * largest > LOG_RANGE[dtype])
    piece = max(1, n_labels)
    if largest and not in_logs:
        piece = int(min(piece, _MAX_LOG_PRODUCT // max(float(largest), 1e-300)))
    model = IsingEdges(
        in_logs,
        edge if in_logs else np.exp(edge),
        coupling,
        dtype.type(rho),
        np.exp(-np.minimum(2 * np.abs(edge.astype(np.float64)), _MAX_LOG_RATIO)),
        piece,
        dtype.type(method.damping),
    )
    slack = convergence_slack(method.tolerance, norms.max(initial=0), dtype)
    options = IsingOptions(method.iterations, dtype.type(method.tolerance), slack)
    earlier = earlier_messages(query, method.name, shape, n_labels)
    warm = query.start is not None
    beliefs = field
    if warm:
        beliefs = query.start.log_odds if earlier is None else earlier.log_odds
    fields, free = empty_result(energy, query), kernel_array(energy.free)
    theta = fields["log_odds"] = np.array(beliefs, dtype, order="C")
    no_messages = np.empty((0, *coupling.shape), dtype)
    kept = np.ones(shape, dtype) if query.return_state else no_messages
    trace = np.full((n, method.iterations if query.return_trace else 0), np.nan)
    lists = None
    if width:
        there = energy.neighbours
        pairs = there.variables[there.reverse], there.variables
        gain = kernel_array(model.edge[pairs], dtype)
        lists = PairLists(there.start, there.variables, there.reverse, gain)

    def pass_messages_of(rows):
        start = no_messages if earlier is None else earlier.values_for(rows, in_logs, dtype)
        answers = IsingAnswers(
            theta[rows], fields["n_iter"][rows], fields["converged"][rows], trace[rows]
        )
        arguments = field[rows], free[rows], warm, start, options, answers, kept[rows]
        if lists is None:
            pass_ising(model, *arguments)
        else:
            pass_ising_lanes(lists, float(method.damping), width, *arguments)

    size = max(-(-n // MAX_CHUNKS), -(-_CHUNK_EDGES // max(1, coupling.size)))
    for _ in ordered_map(
        pass_messages_of, row_chunks(n, max(size, _LANE_ROUNDS * width)), query.n_jobs
    ):
        pass
    if query.returns & {"log_partition", "statistics"}:
        weight = np.ones(n) if query.per_example else query.sample_weight
        weight = weight.astype(dtype)
        log_partition = fields.get("log_partition", np.empty(0))

        def finish(rows, statistics):
            finish_ising(
                model, field[rows], free[rows], theta[rows], weight[rows], log_partition[rows],
                statistics[0].astype(dtype, copy=False),
            )  # fmt: skip

        sum_statistics(finish, row_chunks(n, size), query, fields.get("statistics"))
    if "log_partition" in query.returns:
        # In the kernels, a label with the field f adds 2 f to the score if y = +1, and 0 if y = -1.
        # In the energy it adds f or -f, so subtract f. The field of clamped labels is 0 here.
        fields["log_partition"] -= energy.field.sum(axis=1, dtype=np.float64)
    if query.return_trace:
        fields["trace"] = trace
    if query.return_state:
        fields["state"] = Messages(method.name, kept, theta.copy(), in_logs)
    return fields


def _n_lanes(n_models, edge, damping, reach):
    """Return the number of models that a kernel processes side by side, 0 for one after the other.

    `edge` (L, L) holds twice the couplings, and `reach` is the largest absolute log-odds that a
    belief can have.
    """
    n_labels = len(edge)
    if damping not in (0.0, 0.5) or reach > ODDS_ROOM[edge.itemsize]:
        return 0
    few = n_labels <= _ALWAYS_LANES
    many = n_models >= _MIN_LANES and (n_labels <= _MOST_LANES or damping > 0)
    if not (few or many):
        return 0
    return min(_MAX_LANES, max(_MIN_LANES, _LANE_MESSAGES // max(1, n_labels**2)))
