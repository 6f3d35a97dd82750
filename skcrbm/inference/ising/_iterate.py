"""Run an iterative kernel over chunks of pairwise Boltzmann machines."""

import numpy as np

from skcrbm.inference._base import empty_result, sum_statistics
from skcrbm.utils.limits import MAX_CHUNKS
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.validation import kernel_array

_CHUNK_EDGES = 2**14


def iterate(energy, query, kernel, beliefs):
    """Return the fields of an answer that a kernel fills.

    Parameters
    ----------
    energy : IsingEnergy
        Evidence folded into its field.
    query : Query
    kernel : callable
        ``kernel(rows, field, free, weight, theta, n_iter, converged, log_partition, pairwise)``
        for a slice of rows, whose parts of the other arrays it gets.
    beliefs : ndarray (N, L) or None
        Log-odds to start from; None: the fields.

    Returns
    -------
    dict
        Of `InferenceResult`.
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
        # kernels count 2 f from y = -1 on; held labels have no field left
        fields["log_partition"] -= energy.field.sum(axis=1, dtype=np.float64)
    return fields


def empty_trace(energy, query, max_iter):
    """Array (N, max_iter) of NaN for the trace, (N, 0) if it is not asked for."""
    return np.full((energy.n_models, max_iter if query.return_trace else 0), np.nan)
