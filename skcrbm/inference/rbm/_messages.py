"""Pass messages on RBMs: choose the kernel, and call it on chunks of rows."""

from typing import Any

import numpy as np

from skcrbm.energies.states import unchecked
from skcrbm.inference.base import empty_result, sum_statistics, with_folded_evidence
from skcrbm.inference.methods._messages import Messages, convergence_slack, earlier_messages
from skcrbm.inference.random_numbers import best_of_restarts
from skcrbm.kernels.arguments import OddsCouplings, RBMAnswers, RBMOptions, RBMRows
from skcrbm.kernels.rbm_log import LogCouplings, pass_logs
from skcrbm.kernels.rbm_odds import odds_work, pass_odds
from skcrbm.kernels.rbm_row_norms import row_norms
from skcrbm.kernels.scalar import MAX, MIXED, SUM
from skcrbm.utils.limits import LOG_RANGE, MAX_CHUNKS
from skcrbm.utils.parallel import one_blas_thread, row_chunks
from skcrbm.utils.validation import kernel_array

# Smaller chunks would be slow. So a chunk has at least _CHUNK_EDGES edges (the number of models
# times the edges of a model) and, if statistics are requested, at least _ROWS_PER_SUM rows.
_CHUNK_EDGES = 2**15
_ROWS_PER_SUM = 4
# Largest number of entries of a weight matrix whose norms are computed in NumPy. For such matrices
# NumPy is as fast as a kernel, and a new process need not compile a kernel.
_SMALL_MATRIX = 2**12


@with_folded_evidence
def solve_sum_product(method, energy, query):
    """Answer a query by sum-product messages; see `SumProduct`."""
    return _pass_messages(method, energy, query, SUM)[0]


@with_folded_evidence
def solve_tree_reweighted(method, energy, query):
    """Answer a query by tree-reweighted messages; see `TreeReweighted`."""
    v, h = energy.n_visible, energy.n_hidden
    rho = (v + h - 1) / (v * h) if v and h else 1.0
    return _pass_messages(method, energy, query, SUM, edge_appearance=rho)[0]


@with_folded_evidence
def solve_max_product(method, energy, query):
    """Find a state by max-product messages; see `MaxProduct`."""
    return _find_state(method, energy, query, MAX)


@with_folded_evidence
def solve_mixed_product(method, energy, query):
    """Find a state by mixed-product messages; see `MixedProduct`."""
    return _find_state(method, energy, query, MIXED)


def _find_state(method, energy, query, kind):
    """Return the fields of a result with the best state of several runs.

    The hidden units are set to their most probable values given the visible units.
    """

    def run(beliefs):
        fields, score = _pass_messages(method, energy, query, kind, beliefs=beliefs)
        if query.return_state:  # keep only the array, from which `best_of_restarts` selects rows
            in_logs.append(fields["state"].in_logs)
            fields["state"] = fields["state"].values
        return fields, score

    in_logs = []
    fields = best_of_restarts(run, energy, method.n_restarts, method.random_state)
    if query.return_state:
        fields["state"] = Messages(
            method.name, fields["state"], fields["log_odds"].copy(), in_logs[0]
        )
    state = fields["assignment"]
    with one_blas_thread():
        mode = unchecked(energy.hidden_given_visible)(state[:, : energy.n_visible])
    state[:, energy.n_visible :] = mode > 0.5
    return fields


def _pass_messages(method, energy, query, kind, *, edge_appearance=None, beliefs=None):
    """Pass messages on a batch of RBMs.

    `kind` is SUM, MAX or MIXED. `edge_appearance` is rho if messages are tree-reweighted.
    If `beliefs` (N, V + H) are given, message passing starts from these log-odds, instead of the
    start of the query. If neither `beliefs` nor a start of the query is given, the visible units
    begin with messages computed from their fields.

    Return the fields of a result, and the score (N,) of the best state visited. The visible part of
    this state is stored in ``fields["assignment"]``.
    """
    n, dtype, n_visible = energy.n_models, energy.dtype, energy.n_visible
    shape = (n, *energy.weights.shape)
    fields = empty_result(energy, query)
    log_partition = fields.get("log_partition", np.zeros(n))
    weight = np.ones(n) if query.per_example else query.sample_weight
    weight = weight.astype(dtype)
    cold = beliefs is None and query.start is None
    warm = beliefs is None and not cold
    earlier = None
    if cold:
        beliefs = np.hstack(energy.fields)
    elif beliefs is None and query.start is not None:
        earlier = earlier_messages(query, method.name, shape, energy.n_variables)
        beliefs = query.start.log_odds if earlier is None else earlier.log_odds
    log_odds = fields["log_odds"] = np.array(beliefs, dtype, order="C")
    free = kernel_array(energy.free)
    trace = np.full((n, method.iterations if query.return_trace else 0), np.nan)
    score = np.full(n, -np.inf)
    state = np.zeros((n, n_visible), np.int8)
    couplings: Any
    kernel, couplings, norm = _choose_kernel(energy, kind, method.damping, edge_appearance)
    in_logs = kernel is pass_logs
    no_messages = np.empty((0, *shape[1:]), dtype)
    kept = np.ones(shape, dtype) if query.return_state else no_messages

    options = RBMOptions(
        cold=cold,
        warm=warm,
        max_iter=method.iterations,
        tol=dtype.type(method.tolerance),
        slack=convergence_slack(method.tolerance, norm, dtype),
        damping=dtype.type(method.damping),
        want_log_partition="log_partition" in query.returns,
        want_statistics="statistics" in query.returns,
        bounds=edge_appearance is not None,
    )

    def solve(rows, statistics):
        start = no_messages if earlier is None else earlier.values_for(rows, in_logs, dtype)
        visible_bias, hidden_bias = energy.visible_bias[rows], energy.hidden_bias[rows]
        answers = RBMAnswers(
            log_odds[rows],
            fields["n_iter"][rows],
            fields["converged"][rows],
            log_partition[rows],
            statistics[0].astype(dtype, copy=False),
            trace[rows],
            score[rows],
            state[rows],
            kept[rows],
        )
        batch = RBMRows(visible_bias, hidden_bias, free[rows], weight[rows], start)
        if in_logs:
            pass_logs(kind, couplings, batch, options, answers)
        else:
            work = odds_work(couplings.odds)
            pass_odds(kind, couplings, batch, options, answers, work)

    # Make few and large chunks, because each chunk has costs: a separate matrix for its statistics,
    # and a thread.
    size = max(-(-n // MAX_CHUNKS), -(-_CHUNK_EDGES // max(1, energy.weights.size)))
    if "statistics" in query.returns:
        size = max(size, _ROWS_PER_SUM)
    pairs = n // size // 2
    if 1 <= pairs < MAX_CHUNKS // 2:  # an even number of chunks, so that two threads share them
        size = -(-n // (2 * pairs))
    sum_statistics(solve, row_chunks(n, size), query, fields.get("statistics"))
    if query.return_trace:
        fields["trace"] = trace
    if query.return_state:
        fields["state"] = Messages(method.name, kept, log_odds.copy(), in_logs)
    if "assignment" in fields:
        fields["assignment"][:, :n_visible] = state
    return fields, score


def _choose_kernel(energy, kind, damping, edge_appearance):
    """Return a kernel, the couplings in the form of the kernel, and the norm of the couplings.

    If products of messages fit the dtype, and damping is 0 or 1/2, the kernel stores messages as
    odds (damping by 1/2 is then a square root). Otherwise the kernel stores messages as logarithms.
    The norm is the largest sum of |couplings| over a row or a column.
    """
    weights, dtype = energy.weights, energy.dtype
    norms, step, columns = _norms(weights)
    norm = max(norms.max(initial=0), float(columns.max(initial=0)))
    if kind != MAX and damping in (0.0, 0.5) and edge_appearance is None:
        limit = dtype.type(LOG_RANGE[dtype])
        if 2 * step.max(initial=0) < limit:
            # Choose `floor` such that floor * exp(max|W|) is below the precision of the dtype, but
            # `floor` is not a denormal number.
            floor = dtype.type(np.finfo(dtype).tiny ** 0.7)
            piece = _row_pieces(weights, norms, limit)
            couplings = OddsCouplings(weights, np.exp(weights), norms, piece, step, limit, floor)
            return pass_odds, couplings, norm
    rho = dtype.type(1.0 if edge_appearance is None else edge_appearance)
    return pass_logs, LogCouplings(weights / rho, rho), norm


def _norms(weights):
    """Return row sums (V,), row maxima (V,) and column sums (H,) of the matrix |weights| (V, H)."""
    if 0 < weights.size <= _SMALL_MATRIX:
        sizes = np.abs(weights)
        return (
            sizes.sum(axis=1).astype(np.float64),
            sizes.max(axis=1).astype(np.float64),
            sizes.sum(axis=0),
        )
    bits = weights.view(f"u{weights.itemsize}")
    norms, largest = np.empty(len(weights)), np.empty(len(weights), bits.dtype)
    columns = np.empty(weights.shape[1], weights.dtype)
    row_norms(weights, bits, norms, largest, columns)
    return norms, largest.view(weights.dtype).astype(np.float64), columns


def _row_pieces(weights, norms, limit):
    """Return, for each row of a matrix, the length (V,) of the equal pieces into which it is split.

    A piece is a range of successive entries of a row of `weights` (V, H). The sum of |weights| over
    a piece is at most `limit`, so that a product of messages over the piece stays in the range of
    the dtype. `norms` (V,) are the sums of |weights| over whole rows.
    """
    n_visible, n_hidden = weights.shape
    piece = np.full(n_visible, max(1, n_hidden), np.uintp)
    long = np.flatnonzero(norms > 0.99 * limit)  # 0.99, because norms may be rounded down
    magnitude = np.abs(weights[long])
    size = n_hidden
    while len(long):
        starts = np.arange(0, n_hidden, size)
        over = np.add.reduceat(magnitude, starts, axis=1).max(1) > limit
        long, magnitude = long[over], magnitude[over]
        size = (size + 1) // 2
        piece[long] = size
    return piece
