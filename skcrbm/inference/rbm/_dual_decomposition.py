"""Find the marginal MAP state of RBMs by dual decomposition: call the kernel on chunks of rows."""

import numpy as np

from skcrbm.energies import RBMEnergy
from skcrbm.inference.base import empty_result
from skcrbm.kernels.rbm_dual import rbm_dual
from skcrbm.utils.limits import CACHED_ENTRIES, ROWS_PER_CHUNK
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# A state is proven if its gap is at most this number times the rounding error of a log-weight; the
# bound of the kernel includes a few rounding errors.
_PROOF = 16


def solve(method, energy, query):
    """Compute "marginal_map" and "map_bound"; see `DualDecomposition`."""
    model = _in_double(energy)
    n, n_visible = model.n_models, model.n_visible
    with one_blas_thread():
        fields, offset = model.fold_evidence()
    b, c = (kernel_array(field) for field in fields)
    free, coupling = kernel_array(model.free), kernel_array(model.weights.T)
    answer = empty_result(energy, query)
    visible, bound = np.zeros((n, n_visible), np.int8), np.zeros(n)

    def run(rows):
        rbm_dual(
            b[rows], c[rows], free[rows], coupling, method.max_iter, float(method.tol),
            method.node_limit, visible[rows], bound[rows], answer["n_iter"][rows],
            answer["converged"][rows],
        )  # fmt: skip

    answer["converged"][:] = False
    size = min(ROWS_PER_CHUNK, max(1, CACHED_ENTRIES // max(1, coupling.size)))
    for _ in ordered_map(run, row_chunks(n, size), query.n_jobs):
        pass
    if model.evidence is not None:
        bound += offset + _rounding(model)
        held = model.evidence[:, :n_visible]
        visible = np.where(np.isnan(held), visible, held == 1)
    with one_blas_thread():
        hidden, score = model.hidden_and_log_weight(visible)
    answer["assignment"][:] = np.hstack([visible, hidden > 0.5])
    gap = np.maximum(bound, score) - score
    limit = "max_nodes" if method.node_limit > 1 else "max_iter"
    # A search with node_limit=1 also converges if its bound no longer falls.
    near = "precision" if method.node_limit > 1 else "converged"
    ended = np.where(answer["converged"], near, limit).astype(object)
    ended[answer["converged"] & (gap <= _PROOF * _rounding(model))] = "proved"
    answer["stopped_by"] = ended
    if "map_bound" in query.returns:
        answer["map_bound"] = np.maximum(bound, score)
        answer["gap"] = answer["map_bound"] - score
    return answer


def _in_double(energy):
    """Convert the model to float64, so that rounding errors of the bound are small."""
    model = RBMEnergy(*(part.astype(np.float64) for part in (*energy.couplings, *energy.fields)))
    return model if energy.evidence is None else model.condition(energy.evidence)


def _rounding(model):
    """Return an upper bound (N,) of the rounding error of a log-weight."""
    size = np.abs(model.weights).sum() + sum(np.abs(part).sum(axis=1) for part in model.fields)
    size += model.n_hidden  # softplus(0) = log 2 is below 1
    return np.finfo(np.float64).eps * (model.n_variables + 8) * size
