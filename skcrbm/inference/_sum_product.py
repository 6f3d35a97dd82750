"""Sum-product belief propagation."""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from skcrbm._kernels.rbm_sum_product import sum_product_log, sum_product_odds
from skcrbm.energies import RBMEnergy
from skcrbm.energies._base import PINNED_OFF
from skcrbm.inference._base import IterativeMethod, add_pairwise, empty_result
from skcrbm.utils._parallel import row_chunks

# Largest |log| of a product of messages that a dtype holds with room to spare.
_LOG_RANGE = {np.dtype(np.float32): 80.0, np.dtype(np.float64): 400.0}
_MAX_CHUNKS = 16
_CHUNK_EDGES = 2**15
_ROWS_PER_SUM = 4


class SumProduct(IterativeMethod):
    """Loopy belief propagation (Ping and Ihler 2017, Algorithm 1).

    One iteration sends all messages hidden -> visible from the current hidden beliefs,
    then all messages visible -> hidden. Exact on trees. Log Z is the Bethe
    approximation, neither an upper nor a lower bound. Pairwise beliefs agree with the
    reported visible marginals after any number of iterations, with the hidden ones at
    convergence.

    Messages are kept as odds, one division per edge and iteration, while products of
    them fit the dtype (max|W| < 40 in float32, 200 in float64), and as log-odds beyond
    that and with damping. Both give the same numbers.

    Parameters
    ----------
    max_iter : int or None, default=None
        Iterations at most. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float, default=1e-3
        A model stops when no belief changes by more, as a probability.
    damping : float in [0, 1), default=0.0
        Share of the old log messages visible -> hidden that is kept. Same fixed points;
        helps convergence on strong couplings.

    References
    ----------
    Ping and Ihler (2017). Belief propagation in conditional RBMs for structured
    prediction. AISTATS.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import SumProduct, infer
    >>> energy = RBMEnergy([[1.0], [-2.0]], [0.0, 0.0], [0.5])
    >>> infer(energy, SumProduct(max_iter=30), returns=("marginals",)).marginals.round(3)
    array([[0.647, 0.258, 0.635]])
    """

    name: ClassVar = "sum_product"
    answers: ClassVar = frozenset({"marginals", "pairwise", "log_partition"})
    accepts: ClassVar = frozenset({"init", "return_trace"})
    solvers: ClassVar = {RBMEnergy: "_solve_rbm"}
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "damping": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(self, max_iter=None, tol=1e-3, damping=0.0):
        self.max_iter = max_iter
        self.tol = tol
        self.damping = damping

    def _solve_rbm(self, energy, query):
        n, dtype, weights = energy.n_models, energy.dtype, energy.weights
        fields = empty_result(energy, query)
        pairwise = fields.get("pairwise")
        log_partition = fields.get("log_partition", np.empty(n))
        weight = np.ones(n) if query.pairwise == "per_example" else query.sample_weight
        weight = weight.astype(dtype)
        warm = query.start is not None
        fields["log_odds"][:] = query.start.log_odds if warm else np.hstack(energy.fields)
        trace = np.full((n, self.iterations if query.return_trace else 0), np.nan)
        max_weight = max(weights.max(initial=0), -weights.min(initial=0))
        limit = dtype.type(_LOG_RANGE[dtype])
        options = (dtype.type(PINNED_OFF), self.iterations, dtype.type(self.tol))
        if self.damping == 0 and 2 * max_weight < limit:
            kernel = sum_product_odds
            reach, piece = _row_pieces(weights, limit)
            step = np.minimum(reach, max_weight)
            # Times exp(max|W|) still below the dtype's precision, and above its denormals.
            floor = dtype.type(np.finfo(dtype).tiny ** 0.7)
            couplings = (weights, np.exp(weights), reach, piece, step, limit, floor)
        else:
            kernel = sum_product_log
            couplings = (weights,)
            options += (dtype.type(self.damping),)

        def solve(rows, pairwise_sum):
            kernel(
                *couplings,
                energy.visible_bias[rows],
                energy.hidden_bias[rows],
                warm,
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
            )

        # Few chunks, as each sums its pairwise beliefs into a matrix of its own, and none
        # so small that this, or handing it to a thread, costs more than its work.
        size = max(-(-n // _MAX_CHUNKS), -(-_CHUNK_EDGES // max(1, weights.size)))
        if pairwise is not None:
            size = max(size, _ROWS_PER_SUM)
        chunks = row_chunks(n, size)
        add_pairwise(solve, chunks, query, pairwise)
        if query.return_trace:
            fields["trace"] = trace
        return fields


def _row_pieces(weights, limit):
    """Cut rows into pieces over which products of messages stay in range.

    Parameters
    ----------
    weights : ndarray (V, H)
    limit : float

    Returns
    -------
    reach : ndarray (V,)
        At least the sum of |weights| over each row.
    piece : ndarray (V,) of unsigned int
        Length of pieces over each of which that sum is at most `limit`.
    """
    n_visible, n_hidden = weights.shape
    # Cauchy-Schwarz: no temporary of the size of the weights in the usual case.
    reach = np.sqrt(n_hidden * np.einsum("ij,ij->i", weights, weights).astype(np.float64))
    piece = np.full(n_visible, max(1, n_hidden), np.uintp)
    long = np.flatnonzero(reach > limit)
    magnitude = np.abs(weights[long])
    reach[long] = magnitude.sum(1)
    size = n_hidden
    while len(long):
        starts = np.arange(0, n_hidden, size)
        over = np.add.reduceat(magnitude, starts, axis=1).max(1) > limit
        long, magnitude = long[over], magnitude[over]
        size = (size + 1) // 2
        piece[long] = size
    return reach, piece
