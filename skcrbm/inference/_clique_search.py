"""Values of missing variables with the least hinge loss, where cliques are of any size."""

import numpy as np

from skcrbm.kernels.clique_search import least_hinge
from skcrbm.utils.limits import TIE
from skcrbm.utils.parallel import ordered_map, row_chunks

# Rows in one call of the kernel.
_ROWS = 16


def least_hinge_states(visible, cliques, weights, is_output, margin, n_jobs=None):
    """Fill in rows by branch and bound; among equals the highest score, then the first.

    Parameters
    ----------
    visible : ndarray (N, V)
        0 and 1, NaN where missing; some tens of these in a row at most.
    cliques : sequence of tuples of int
    weights : ndarray (J,)
        Of products of -1/+1 variables.
    is_output : ndarray (V,) of bool
        Whose margins the loss is about.
    margin : float
    n_jobs : int or None
        Threads over rows.

    Returns
    -------
    ndarray (N, V)
    """
    start = np.concatenate([[0], np.cumsum([len(c) for c in cliques])]).astype(np.int64)
    members = np.array([i for c in cliques for i in c], np.int64)
    slack = TIE * (margin * len(is_output) + np.abs(weights).sum())
    most = int(np.isnan(visible).sum(axis=1).max(initial=0))
    signs = np.nan_to_num(2.0 * visible - 1.0).astype(np.float64)

    def search(rows):
        part = signs[rows].copy()
        least_hinge(part, is_output, start, members, weights, float(margin), slack, most)
        return part

    parts = list(ordered_map(search, row_chunks(len(signs), _ROWS), n_jobs))
    return (np.vstack(parts) > 0).astype(visible.dtype)
