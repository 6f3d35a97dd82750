"""Branch and bound over models of products over cliques."""

import numpy as np

from skcrbm.inference.ising._search import FoundLabels
from skcrbm.kernels.clique_search import HINGE, MAP, search_cliques
from skcrbm.utils.indicator import signs_of
from skcrbm.utils.limits import MAX_TIE_LABELS, TIE
from skcrbm.utils.parallel import ordered_map, row_chunks

# Rows in one call of the kernel.
_ROWS = 16


def find_clique_states(
    visible, cliques, weights, field=0.0, *, margin=None, is_output=None, node_limit, n_jobs=None
):
    """Fill in rows with the highest score or, with a margin, the least hinge loss.

    The score is ``sum_i f_i v_i + sum_j w_j prod_{i in C_j} v_i`` of v in {-1, +1}. Among equals of
    the loss the highest score, then the first in lexicographic order; with more than 20 missing
    entries equals are left to the order of the search, which is fixed.

    Parameters
    ----------
    visible : ndarray (N, V)
        0 and 1, NaN where missing.
    cliques : sequence of tuples of int
    weights : ndarray (J,)
    field : ndarray (N, V) or float
    margin : float or None
        None: the score.
    is_output : ndarray (V,) of bool, or None
        Whose margins the loss is about; None: all.
    node_limit : int
        Nodes of the search for one row at most, once a first state is found.
    n_jobs : int or None
        Threads over rows.

    Returns
    -------
    FoundLabels
    """
    n_rows, n_variables = visible.shape
    sizes = np.array([len(c) for c in cliques], np.int64)
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    members = np.array([i for c in cliques for i in c], np.int64)
    weights = np.ascontiguousarray(weights, np.float64)
    signs = signs_of(visible).astype(np.float64)
    field = np.ascontiguousarray(np.broadcast_to(field, visible.shape), np.float64)
    if is_output is None:
        is_output = np.ones(n_variables, bool)
    kind, target = (MAP, 0.0) if margin is None else (HINGE, float(margin))
    slack = TIE * (target * n_variables + np.abs(weights).sum() + np.abs(field).sum(axis=1))
    value, lower = np.empty(n_rows), np.empty(n_rows)
    n_nodes = np.empty(n_rows, np.int64)
    most = int((signs == 0).sum(axis=1).max(initial=0))

    def search(rows):
        search_cliques(
            kind, signs[rows], field[rows], is_output, start, members, weights, target,
            slack[rows], MAX_TIE_LABELS, node_limit, most, value[rows], lower[rows], n_nodes[rows],
        )  # fmt: skip

    for _ in ordered_map(search, row_chunks(n_rows, _ROWS), n_jobs):
        pass
    return FoundLabels((signs > 0).astype(np.int8), value, lower, n_nodes, value <= lower)
