"""Message passing on pairwise Boltzmann machines: kernel forms, spanning trees."""

import numpy as np
from scipy.sparse.csgraph import connected_components

from skcrbm.inference._evidence import with_folded_evidence
from skcrbm.inference._message_state import Messages, convergence_slack, earlier_messages
from skcrbm.inference.ising._iterate import empty_trace, iterate
from skcrbm.kernels.ising_messages import pass_ising
from skcrbm.utils.limits import LOG_RANGE
from skcrbm.utils.validation import kernel_array

# Largest |log| of a product of messages in float64; two of them are held to LOG_RANGE.
_MAX_LOG_PRODUCT = 600.0
# Pairs whose log odds-ratio is beyond this are as good as equal, or opposite.
_MAX_LOG_RATIO = 300.0


@with_folded_evidence
def solve_sum_product(method, energy, query):
    """Answer by sum-product messages; see `SumProduct`."""
    return _pass_messages(method, energy, query, np.ones(energy.coupling.shape))


@with_folded_evidence
def solve_tree_reweighted(method, energy, query):
    """Answer by tree-reweighted messages; see `TreeReweighted`."""
    return _pass_messages(method, energy, query, edge_appearance(energy.coupling))


def _pass_messages(method, energy, query, rho):
    """Pass messages on a batch of Ising models; rho (L, L) is the weight of each edge."""
    dtype, coupling = energy.dtype, energy.coupling
    shape = (energy.n_models, *coupling.shape)
    rho = kernel_array(rho, dtype)
    edge = kernel_array(2 * coupling / rho, dtype)
    used = rho[coupling != 0]
    uniform = used.mean() if len(used) else dtype.type(1)
    largest = np.abs(edge).max(initial=0)
    same_rho = np.allclose(used, uniform, rtol=1e-6, atol=0)
    in_logs = bool(method.damping or not same_rho or 2 * largest > LOG_RANGE[dtype])
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
        dtype.type(method.damping),
    )
    norm = 2 * np.abs(coupling).sum(axis=0, dtype=np.float64).max(initial=0)
    slack = convergence_slack(method.tolerance, norm, dtype)
    earlier = earlier_messages(query, method.name, shape, energy.n_variables)
    beliefs = None if query.start is None else query.start.log_odds
    if earlier is not None:
        beliefs = earlier.log_odds
    none = np.empty((0, *coupling.shape), dtype)
    kept = np.ones(shape, dtype) if query.return_state else none
    trace = empty_trace(energy, query, method.iterations)

    def kernel(rows, field, free, weight, theta, n_iter, converged, log_partition, pairwise):
        start = none if earlier is None else earlier.values_for(rows, in_logs, dtype)
        pass_ising(
            *model, field, free, query.start is not None, start, method.iterations,
            dtype.type(method.tolerance), slack, weight, "log_partition" in query.returns,
            "statistics" in query.returns, theta, n_iter, converged, log_partition, pairwise,
            trace[rows], kept[rows],
        )  # fmt: skip

    fields = iterate(energy, query, kernel, beliefs)
    if query.return_trace:
        fields["trace"] = trace
    if query.return_state:
        fields["state"] = Messages(method.name, kept, fields["log_odds"].copy(), in_logs)
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
