"""Solve "linear_program" for Ising models and RBMs by maximum flows (the roof dual).

For 30 labels that are all coupled, a maximum flow is 18 times faster than HiGHS
(`examples/speed/benchmark_special_kernels.py`). It also gives the half-integral solution that the
training of `SSVMClassifier` needs.
"""

from __future__ import annotations

import numpy as np

from skcrbm.energies import IsingEnergy
from skcrbm.inference.search.pair_bounds import improved_states, solve_linear_program
from skcrbm.kernels.roof_dual import roof_duals
from skcrbm.utils.limits import ROWS_PER_CHUNK
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# The maximum flow reads a matrix of couplings. Times of HiGHS divided by times of the maximum flow
# for a model on a sparse graph: 12 (40 labels, 4 neighbours each), 2.5 (10 x 10 lattice), .8 (200
# labels, 4 neighbours each), .013 (30 x 30 lattice). So HiGHS solves the program if there are more
# than _FEW_LABELS labels, and less than one in _DENSE entries of the matrix is an edge.
_FEW_LABELS, _DENSE = 100, 32


def solve(method, energy, query):
    """Compute "map" and "map_bound"; see `LinearProgram`.

    A maximum flow or HiGHS solves the program; see `_FEW_LABELS`.
    """
    n_labels = energy.n_variables
    if n_labels > _FEW_LABELS and _DENSE * len(energy.edges) < n_labels**2:
        return solve_linear_program(method, energy, query)
    means, bound, n_iter = relaxed_labels(energy, query.n_jobs)
    state = improved_states(energy, query, (means > 0).astype(np.int8))
    answer = {"assignment": state, "n_iter": n_iter, "converged": np.ones(len(state), bool)}
    if "map_bound" in query.returns:
        score = energy.score(state)
        answer["map_bound"] = np.maximum(bound, score)
        answer["gap"] = answer["map_bound"] - score
    return answer


def solve_rbm(method, energy, query):
    """Compute the answers for RBMs, converted to Ising models with couplings w / 4."""
    v, n = energy.n_visible, energy.n_variables
    quarter = energy.weights.astype(np.float64) / 4
    coupling = np.zeros((n, n))
    coupling[:v, v:], coupling[v:, :v] = quarter, quarter.T
    fields = np.concatenate(energy.fields, axis=1).astype(np.float64) / 2
    offset = fields.sum(axis=1) + quarter.sum()
    model = IsingEnergy(coupling, fields + coupling.sum(axis=1))
    if energy.evidence is not None:
        model = model.condition(energy.evidence)
    means, bound, n_iter = relaxed_labels(model, query.n_jobs)
    state = improved_states(energy, query, (means > 0).astype(np.int8))
    answer = {"assignment": state, "n_iter": n_iter, "converged": np.ones(len(state), bool)}
    if "map_bound" in query.returns:
        score = energy.score(state)
        size = np.abs(offset) + np.abs(fields).sum(axis=1) + np.abs(quarter).sum()
        total = bound + offset + n * np.finfo(np.float64).eps * size
        answer["map_bound"] = np.maximum(total, score)
        answer["gap"] = answer["map_bound"] - score
    return answer


def relaxed_labels(
    energy: IsingEnergy, n_jobs: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solve the linear program of the local polytope for each of N models.

    The result has three items: the means (N, L) of the labels in a solution; an upper bound of the
    score (N,), which is the value of the solution plus an allowance for rounding; and the number of
    paths of the maximum flow (N,). A mean is -1, +1, or 0 if the solution leaves the label
    undecided (P(y = +1) = 1/2). Two undecided labels are equal if their coupling is positive, and
    opposite if it is negative.
    """
    free = energy.free
    with one_blas_thread():
        (fields,), offset = energy.fold_evidence()
    fields = kernel_array(fields, np.float64)
    coupling = kernel_array(energy.coupling_matrix(), np.float64)
    means, bound = np.zeros(fields.shape, np.int8), np.zeros(len(fields))
    n_iter = np.zeros(len(fields), np.int64)
    mask = kernel_array(np.broadcast_to(free, fields.shape))

    def run(rows):
        roof_duals(fields[rows], coupling, mask[rows], means[rows], bound[rows], n_iter[rows])

    for _ in ordered_map(run, row_chunks(len(fields), ROWS_PER_CHUNK), n_jobs):
        pass
    size = np.abs(fields).sum(axis=1) + np.abs(coupling).sum() + np.abs(offset)
    rounding = np.finfo(np.float64).eps * (n_iter + 4 * fields.shape[1] ** 2)
    if energy.evidence is not None:
        means = np.where(free, means, np.where(energy.evidence == 1, 1, -1)).astype(np.int8)
    return means, bound + offset + rounding * size, n_iter
