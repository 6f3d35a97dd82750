"""Mean field on Ising models: on a matrix of couplings, or on the graph of the couplings."""

import numpy as np
from scipy.special import expit

from skcrbm.energies.states import unchecked, with_evidence
from skcrbm.inference.base import empty_result
from skcrbm.inference.factor_graph import mean_field as graph
from skcrbm.inference.ising.storage import is_dense, solve_as_matrix
from skcrbm.inference.methods._messages import Beliefs
from skcrbm.kernels.arguments import IsingAnswers, IsingOptions
from skcrbm.kernels.ising_mean_field import ising_mean_field
from skcrbm.utils.limits import MAX_CHUNKS
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# Smallest size of a chunk: the number of models times the number of pairs of labels.
_CHUNK_PAIRS = 2**14
# Largest number of labels of models side by side, see `_side_by_side`; and the cost of making the
# graph, as a number of labels of all models: a constant, and a factor for each pair.
_MOST_LANES, _FIXED, _SETUP = 100, 1000.0, 0.4


def solve(method, energy, query):
    """Answer a query by mean field (coordinate ascent); see `MeanField`.

    The kernel of factor graphs processes several models side by side, the kernel for a matrix one
    model after the other.
    """
    if is_dense(energy) and not _side_by_side(energy.n_models, energy.n_variables):
        return solve_as_matrix(_solve_matrix, method, energy, query)
    return graph.solve(method, energy, query)


def _side_by_side(n_models, n_labels):
    """Return True if models are processed side by side, as lanes of the kernel of factor graphs.

    The time of the kernel for a matrix divided by the time of the kernel of factor graphs, for N
    models with L labels:

        L     6    14    30    60    80   100   200
        N  2000   200    60   100   200   400    64
            1.9   2.4   1.6   1.6   1.3   1.2    .4
        N    20    20    30    30    60   100     2
             .2    .5   1.0    .8   1.2   1.0   .03
    """
    enough = _FIXED + _SETUP * n_labels**2
    return n_labels <= _MOST_LANES and n_models * n_labels >= enough


def _solve_matrix(method, energy, query):
    dtype, n = energy.dtype, energy.n_models
    coupling = kernel_array(energy.coupling, dtype)
    with one_blas_thread():
        (folded,), _ = energy.fold_evidence()
    field, free = kernel_array(2 * folded, dtype), kernel_array(energy.free)
    fields = empty_result(energy, query)
    beliefs = field if query.start is None else query.start.log_odds
    theta = fields["log_odds"] = np.array(beliefs, dtype, order="C")
    trace = np.full((n, method.iterations if query.return_trace else 0), np.nan)
    options = IsingOptions(method.iterations, dtype.type(method.tolerance), 0.0)

    def run(rows):
        found = fields["n_iter"][rows], fields["converged"][rows], trace[rows]
        spin = np.empty(energy.n_variables, dtype)
        answers = IsingAnswers(theta[rows], *found)
        ising_mean_field(coupling, field[rows], free[rows], options, answers, spin)

    size = max(-(-n // MAX_CHUNKS), -(-_CHUNK_PAIRS // max(1, coupling.size)))
    for _ in ordered_map(run, row_chunks(n, size), query.n_jobs):
        pass
    if query.returns & {"log_partition", "statistics"}:
        with one_blas_thread():
            _add_moments(energy, query, fields)
    if query.return_trace:
        fields["trace"] = trace
    if query.return_state:
        fields["state"] = Beliefs(theta.copy())
    return fields


def _add_moments(energy, query, fields):
    """Write the bound of log Z, and the products of the means of each pair, to `fields`."""
    log_odds = fields["log_odds"].astype(np.float64)
    means = with_evidence(energy, expit(log_odds))
    if "log_partition" in query.returns:
        size = np.abs(log_odds)
        off = np.exp(-size)
        entropy = np.where(energy.free, np.log1p(off) + size * off / (1.0 + off), 0.0)
        score = unchecked(energy.score)(means)
        fields["log_partition"] = score + entropy.sum(axis=1)
    if "statistics" in query.returns:
        fields["statistics"] = graph.statistics_of_means(energy, query, means)
