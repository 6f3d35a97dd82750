"""Mean field and message passing on pairwise Boltzmann machines: kernels, chunks, trees."""

import numpy as np
from scipy.sparse.csgraph import connected_components

from skcrbm._kernels.ising_mean_field import ising_mean_field
from skcrbm._kernels.ising_messages import pass_ising
from skcrbm.inference._base import add_pairwise, empty_result
from skcrbm.utils._parallel import row_chunks
from skcrbm.utils._validation import kernel_array

# Largest |log| of a product of two messages that a dtype holds with room to spare; one in
# float64 may be larger.
_LOG_RANGE = {np.dtype(np.float32): 80.0, np.dtype(np.float64): 400.0}
_MAX_LOG_PRODUCT = 600.0
# Pairs whose log odds-ratio is beyond this are as good as equal, or opposite.
_MAX_LOG_RATIO = 300.0
_MAX_CHUNKS = 16
_CHUNK_EDGES = 2**14


def mean_field_ising(energy, query, max_iter, tol):
    """Mean field on an `IsingEnergy`; a dict of `InferenceResult` fields."""
    return _iterate(energy, query, ising_mean_field, (energy.coupling,), max_iter, tol)


def pass_messages_ising(energy, query, *, max_iter, tol, damping, edge_appearance=None):
    """Sum-product or tree-reweighted message passing on an `IsingEnergy`.

    Parameters
    ----------
    energy : IsingEnergy
    query : Query
    max_iter, tol, damping : int, float, float
    edge_appearance : ndarray (L, L), default=None
        rho of each edge; None: 1, sum-product.

    Returns
    -------
    dict of `InferenceResult` fields
    """
    dtype, coupling = energy.dtype, energy.coupling
    rho = np.ones(coupling.shape) if edge_appearance is None else edge_appearance
    rho = kernel_array(rho, dtype)
    edge = kernel_array(2 * coupling / rho, dtype)
    used = rho[coupling != 0]
    uniform = used.mean() if len(used) else dtype.type(1)
    largest = np.abs(edge).max(initial=0)
    same_rho = np.allclose(used, uniform, rtol=1e-6, atol=0)
    in_logs = bool(damping or not same_rho or 2 * largest > _LOG_RANGE[dtype])
    piece = max(1, len(coupling))
    if largest and not in_logs:
        piece = int(min(piece, _MAX_LOG_PRODUCT // largest))
    model = (
        in_logs,
        edge if in_logs else np.exp(edge),
        coupling,
        rho,
        dtype.type(uniform),
        np.exp(-np.minimum(2 * np.abs(edge.astype(np.float64)), _MAX_LOG_RATIO)),
        piece,
        query.start is not None,
        dtype.type(damping),
    )
    return _iterate(energy, query, pass_ising, model, max_iter, tol)


def _iterate(energy, query, kernel, model, max_iter, tol):
    """Run a kernel over chunks of rows; `model` is what all rows share."""
    n, dtype = energy.n_models, energy.dtype
    fields = empty_result(energy, query)
    pairwise = fields.get("pairwise")
    log_partition = fields.get("log_partition", np.empty(n))
    weight = np.ones(n) if query.pairwise == "per_example" else query.sample_weight
    weight = weight.astype(dtype)
    field = 2 * energy.field
    fields["log_odds"][:] = field if query.start is None else query.start.log_odds
    trace = np.full((n, max_iter if query.return_trace else 0), np.nan)

    def solve(rows, pairwise_sum):
        kernel(
            *model,
            field[rows],
            max_iter,
            dtype.type(tol),
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

    size = max(-(-n // _MAX_CHUNKS), -(-_CHUNK_EDGES // max(1, energy.coupling.size)))
    add_pairwise(solve, row_chunks(n, size), query, pairwise)
    if "log_partition" in fields:
        fields["log_partition"] += energy.base_score()
    if query.return_trace:
        fields["trace"] = trace
    return fields


def edge_appearance(coupling):
    """Share of the spanning trees in which each pair of labels is joined.

    Of all spanning trees (forests, if it falls apart) of the graph of non-zero couplings,
    drawn uniformly: the effective resistance of the edge, (m - 1) / n_edges on average over
    a component of m labels, 1 on trees and 2 / L on the complete graph.

    Parameters
    ----------
    coupling : ndarray (L, L)

    Returns
    -------
    ndarray (L, L), float64, 1 where there is no edge
    """
    joined = coupling != 0
    rho = np.ones(coupling.shape)
    _, component = connected_components(joined, directed=False)
    for number in range(component.max(initial=-1) + 1):
        labels = np.flatnonzero(component == number)
        if len(labels) < 2:
            continue
        graph = joined[np.ix_(labels, labels)].astype(float)
        m = len(labels)
        # Laplacian + 1/m is regular and has the same resistances.
        inverse = np.linalg.inv(np.diag(graph.sum(1)) - graph + 1 / m)
        inner = np.diagonal(inverse)[:, None] + np.diagonal(inverse) - 2 * inverse
        rho[np.ix_(labels, labels)] = np.where(graph > 0, np.minimum(inner, 1.0), 1.0)
    return rho
