"""Message passing on RBMs: which kernel, in which chunks. Methods choose the messages."""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from skcrbm._kernels._scalar import MAX
from skcrbm._kernels.rbm_log import pass_logs
from skcrbm._kernels.rbm_odds import pass_odds
from skcrbm._kernels.rbm_reach import row_norms
from skcrbm.energies import RBMEnergy
from skcrbm.energies._base import PINNED_OFF
from skcrbm.inference._base import IterativeMethod, add_pairwise, empty_result
from skcrbm.inference._restarts import best_of_restarts
from skcrbm.utils._parallel import one_blas_thread, row_chunks

# Largest |log| of a product of messages that a dtype holds with room to spare.
_LOG_RANGE = {np.dtype(np.float32): 80.0, np.dtype(np.float64): 400.0}
_MAX_CHUNKS = 16
_CHUNK_EDGES = 2**15
_ROWS_PER_SUM = 4


def pass_messages(
    energy, query, kind, *, max_iter, tol, damping=0.0, edge_appearance=1.0, start=None, warm=False
):
    """Pass messages on a batch of RBMs.

    Parameters
    ----------
    energy : RBMEnergy
    query : Query
    kind : SUM, MAX or MIXED
    max_iter, tol, damping : int, float, float
    edge_appearance : float
        rho of tree-reweighted, 1 for all others.
    start : ndarray (N, V + H), default=None
        Belief log-odds to start from; None: the biases.
    warm : bool
        Start from messages that fit `start`, not from none.

    Returns
    -------
    fields : dict
        Of `InferenceResult`.
    score : ndarray (N,) float64
        Of the best state visited, which is in the visible part of ``fields["assignment"]``.
    """
    n, dtype, n_visible = energy.n_models, energy.dtype, energy.n_visible
    fields = empty_result(energy, query)
    pairwise = fields.get("pairwise")
    log_partition = fields.get("log_partition", np.empty(n))
    weight = np.ones(n) if query.pairwise == "per_example" else query.sample_weight
    weight = weight.astype(dtype)
    fields["log_odds"][:] = np.hstack(energy.fields) if start is None else start
    trace = np.full((n, max_iter if query.return_trace else 0), np.nan)
    score = np.full(n, -np.inf)
    state = np.zeros((n, n_visible), np.int8)
    kernel, couplings, options = _choose_kernel(energy, kind, damping, edge_appearance)

    def solve(rows, pairwise_sum):
        kernel(
            kind,
            *couplings,
            energy.visible_bias[rows],
            energy.hidden_bias[rows],
            warm,
            dtype.type(PINNED_OFF),
            max_iter,
            dtype.type(tol),
            *options,
            weight[rows],
            "log_partition" in fields,
            pairwise is not None,
            fields["log_odds"][rows],
            fields["n_iter"][rows],
            fields["converged"][rows],
            log_partition[rows],
            pairwise_sum.astype(dtype, copy=False),
            trace[rows],
            score[rows],
            state[rows],
        )

    # Few chunks, as each sums its pairwise beliefs into a matrix of its own, and none
    # so small that this, or handing it to a thread, costs more than its work.
    size = max(-(-n // _MAX_CHUNKS), -(-_CHUNK_EDGES // max(1, energy.weights.size)))
    if pairwise is not None:
        size = max(size, _ROWS_PER_SUM)
    pairs = n // size // 2
    if 1 <= pairs < _MAX_CHUNKS // 2:  # an even number, so that two threads share the work
        size = -(-n // (2 * pairs))
    add_pairwise(solve, row_chunks(n, size), query, pairwise)
    if query.return_trace:
        fields["trace"] = trace
    if "assignment" in fields:
        fields["assignment"][:, :n_visible] = state
    return fields, score


def _choose_kernel(energy, kind, damping, edge_appearance):
    """Return a kernel, the arrays that stand for the couplings, and its own options.

    Messages are kept as odds while products of them fit the dtype, else as logs.
    """
    weights, dtype = energy.weights, energy.dtype
    if kind != MAX and damping == 0 and edge_appearance == 1:
        limit = dtype.type(_LOG_RANGE[dtype])
        reach, step = _row_reach(weights)
        if 2 * step.max(initial=0) < limit:
            # Times exp(max|W|) still below the dtype's precision, and above its denormals.
            floor = dtype.type(np.finfo(dtype).tiny ** 0.7)
            piece = _row_pieces(weights, reach, limit)
            return pass_odds, (weights, np.exp(weights), reach, piece, step, limit, floor), ()
    rho = dtype.type(edge_appearance)
    return pass_logs, (weights / rho, rho), (dtype.type(damping),)


def _row_reach(weights):
    """Sum and maximum of |weights| (V, H) over each row, both (V,) float64."""
    bits = weights.view(f"u{weights.itemsize}")
    norms, largest = np.empty(len(weights)), np.empty(len(weights), bits.dtype)
    row_norms(weights, bits, norms, largest)
    return norms, largest.view(weights.dtype).astype(np.float64)


def _row_pieces(weights, reach, limit):
    """Length of row pieces over each of which the sum of |weights| is at most `limit`.

    Parameters
    ----------
    weights : ndarray (V, H)
    reach : ndarray (V,)
        Sum of |weights| over each row.
    limit : float

    Returns
    -------
    ndarray (V,) of unsigned int
    """
    n_visible, n_hidden = weights.shape
    piece = np.full(n_visible, max(1, n_hidden), np.uintp)
    long = np.flatnonzero(reach > 0.99 * limit)  # the sum is rounded
    magnitude = np.abs(weights[long])
    size = n_hidden
    while len(long):
        starts = np.arange(0, n_hidden, size)
        over = np.add.reduceat(magnitude, starts, axis=1).max(1) > limit
        long, magnitude = long[over], magnitude[over]
        size = (size + 1) // 2
        piece[long] = size
    return piece


class StateMessagePassing(IterativeMethod):
    """Base of the methods that look for a state; a subclass names its kind of messages."""

    accepts: ClassVar = frozenset({"init", "return_trace"})
    solvers: ClassVar = {RBMEnergy: "_solve_rbm"}
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "damping": [Interval(Real, 0, 1, closed="left")],
        "n_restarts": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }
    _kind: ClassVar[int]

    def __init__(self, max_iter=None, tol=1e-3, damping=0.0, n_restarts=1, random_state=None):
        self.max_iter = max_iter
        self.tol = tol
        self.damping = damping
        self.n_restarts = n_restarts
        self.random_state = random_state

    def _solve_rbm(self, energy, query):
        def solve(start):
            warm = start is None and query.start is not None
            return pass_messages(
                energy,
                query,
                self._kind,
                max_iter=self.iterations,
                tol=self.tol,
                damping=self.damping,
                start=query.start.log_odds if warm else start,
                warm=warm,
            )

        fields = best_of_restarts(solve, energy, self.n_restarts, self.random_state)
        state = fields["assignment"]
        with one_blas_thread():
            hidden = energy.hidden_given_visible(state[:, : energy.n_visible])
        state[:, energy.n_visible :] = hidden > 0.5
        return fields
