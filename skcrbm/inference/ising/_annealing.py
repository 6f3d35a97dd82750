"""Run simulated annealing on sparse and dense Ising models, by compiled sweeps.

A sweep visits one colour after the other. Variables of the same colour have no couplings with each
other, so they are updated together.
"""

import numpy as np

from skcrbm.energies.states import signs_of
from skcrbm.inference.any_energy.annealing import betas
from skcrbm.inference.any_energy.gibbs import by_place, lane_couplings, sweeps_per_call
from skcrbm.inference.base import empty_result
from skcrbm.inference.random_numbers import random_key, seeds, uniforms
from skcrbm.kernels.sparse_sweeps import anneal_colours, ascend_colours
from skcrbm.utils.limits import CHAIN_UNITS, MAX_ITER
from skcrbm.utils.parallel import ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array


def solve(method, energy, query):
    """Answer "map" by the best state of several runs; see `SimulatedAnnealing`."""
    fields = empty_result(energy, query)
    fields["n_iter"][:] = method.n_sweeps
    fields["stopped_by"] = np.full(energy.n_models, "max_iter", object)
    fields["converged"][:] = False
    sparse = energy.as_sparse()
    key, coupling = random_key(method.random_state), lane_couplings(sparse)
    strengths = _strengths(sparse)
    free = sparse.free
    beta = np.array([betas(method, row[kept]) for row, kept in zip(strengths, free)])
    rows = row_chunks(energy.n_models, max(1, CHAIN_UNITS // max(1, energy.n_variables)))
    tasks = [(run, part) for run in range(method.n_restarts) for part in rows]

    def anneal(task):
        run, part = task
        return part, *_anneal(sparse.rows(part), coupling, beta[part], key, run)

    score = np.full(energy.n_models, -np.inf)
    for part, state, found, converged in ordered_map(anneal, tasks, query.n_jobs):
        better = np.flatnonzero(found > score[part])
        score[part][better] = found[better]
        fields["assignment"][part][better] = state[better]
        fields["converged"][part][better] = converged[better]
    return fields


def _strengths(energy):
    """Return the typical size of the local field of each of L variables, in N models: (N, L).

    The typical size is the root mean square of the local field over random states of the
    neighbours.
    """
    square = np.repeat(np.square(energy.edge_coupling, dtype=np.float64), 2)
    pull = np.bincount(energy.edges.ravel(), square, energy.n_variables)
    return np.sqrt(np.square(energy.field, dtype=np.float64) + pull)


def _anneal(energy, coupling, beta, key, run):
    """Return the best states (N, L) of a run, the scores (N,), and a mask (N,) of local optima."""
    n, width = energy.n_models, energy.n_variables
    held = np.zeros((0, width), np.int8)
    state = np.repeat(uniforms(key, [run], 0, width) < 0.5, n, axis=0)
    if energy.evidence is not None:
        held = kernel_array(signs_of(energy.evidence))
        state = np.where(energy.free, state, energy.evidence == 1)
    lanes = energy.lanes
    field, held = by_place(lanes, kernel_array(energy.field, np.float64), held)
    best, score, best_score = state.copy(), np.zeros(n), np.zeros(n)
    converged = np.zeros(n, bool)
    with np.errstate(over="ignore"):  # integers overflow on purpose; NumPy warns if the JIT is off
        for steps in sweeps_per_call(state.size, beta.shape[1]):
            drawn = [seeds(key, [run], t + 1)[0] for t in range(steps.start, steps.stop)]
            anneal_colours(
                lanes, coupling, field, held, np.ascontiguousarray(beta[:, steps]),
                np.array(drawn), state, score, best, best_score,
            )  # fmt: skip
    ascend_colours(lanes, coupling, field, held, MAX_ITER, best, converged)
    return best, energy.score(best), converged
