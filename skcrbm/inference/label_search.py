"""Searches for the labels of the highest score or the least hinge loss, with a bound.

Kernels are imported by the functions that call them: importing this module does not load Numba.
"""

from typing import NamedTuple

import numpy as np

from skcrbm.energies import IsingEnergy
from skcrbm.utils.indicator import signs_of
from skcrbm.utils.limits import MAX_TIE_LABELS, TIE
from skcrbm.utils.parallel import ordered_map, row_chunks

# Rows in one call of the kernel.
_ROWS = 16


class FoundLabels(NamedTuple):
    """Labels of N rows, and what is known about better ones.

    Attributes
    ----------
    labels : ndarray (N, L) of int8
        0/1.
    value : ndarray (N,)
        Their hinge loss or minus their score: the less, the better.
    lower : ndarray (N,)
        No labels have a lower value; `value` itself where these are proven to be the best,
        -inf where nothing is known.
    n_iter : ndarray (N,) of int
        Nodes of a search tree, or sweeps over the labels.
    converged : ndarray (N,) of bool
        Whether the search came to its end.
    """

    labels: np.ndarray
    value: np.ndarray
    lower: np.ndarray
    n_iter: np.ndarray
    converged: np.ndarray

    @property
    def gap(self):
        """The best labels are better by at most this (N,); infinite where nothing is known."""
        return np.maximum(self.value - self.lower, 0.0)

    def fields(self, returns):
        """Fields of an `InferenceResult` where the value is minus the score."""
        fields = {
            "assignment": self.labels,
            "n_iter": self.n_iter,
            "converged": self.converged,
        }
        if "map_bound" in returns:
            fields["map_bound"], fields["gap"] = 0.0 - self.lower, self.gap
        return fields


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
    from skcrbm.kernels.clique_search import HINGE, MAP, search_cliques

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


def find_labels(energy, method, margin=None, *, n_jobs=None):
    """Labels y in {-1, +1}^L of the highest score, or of the least hinge loss.

    Parameters
    ----------
    energy : IsingEnergy or FactorGraphEnergy
        Held labels stay; the loss counts their margins, too.
    method : InferenceMethod
        BranchAndBound; of an `IsingEnergy` also MixedIntegerProgram or ICM.
    margin : float or None
        None: the highest score.
    n_jobs : int or None

    Returns
    -------
    FoundLabels

    Raises
    ------
    ValueError
        On another method.
    """
    if isinstance(energy, IsingEnergy):
        from skcrbm.inference.ising._search import find_labels as search
    else:
        from skcrbm.inference.factor_graph.search import find_labels as search
    return search(energy, method, margin, n_jobs=n_jobs)


def hinge_losses_and_scores(signs, fields, coupling, margin):
    """Hinge losses (N,) and scores (N,) of labels (N, L) in {-1, +1}."""
    pull = signs @ coupling
    loss = np.maximum(margin - signs * (fields + pull), 0.0).sum(axis=1)
    return loss, (signs * (fields + 0.5 * pull)).sum(axis=1)
