"""MPLP: which models, in which chunks."""

import numpy as np

from skcrbm.inference.factor_graph._pairs import bounded_answer, pair_model
from skcrbm.kernels.pair_dual import pair_dual
from skcrbm.utils.limits import CACHED_ENTRIES, ROWS_PER_CHUNK
from skcrbm.utils.parallel import ordered_map, row_chunks


def solve(method, energy, query):
    """Answer "map" and "map_bound" by MPLP; see `MPLP`."""
    model = pair_model(energy)
    n, width = model.field.shape
    state = np.zeros((n, width), np.int8)
    dual = np.zeros(n)
    n_iter, converged = np.zeros(n, np.int64), np.zeros(n, bool)

    def run(rows):
        pair_dual(
            model.edges, model.coupling, model.field[rows], model.free[rows], method.max_iter,
            float(method.tol), state[rows], dual[rows], model.magnitude[rows], n_iter[rows],
            converged[rows],
        )  # fmt: skip

    size = min(ROWS_PER_CHUNK, max(1, CACHED_ENTRIES // max(1, len(model.edges))))
    for _ in ordered_map(run, row_chunks(n, size), query.n_jobs):
        pass
    return bounded_answer(energy, model, state, dual, query, n_iter, converged)
