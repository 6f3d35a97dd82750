"""Decoding of the large margin Boltzmann machine: the labels of least hinge loss or best score."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from skcrbm.utils._parallel import ordered_map, row_chunks
from skcrbm.utils._validation import kernel_array

# Beyond so many labels ties are left to the order of the search.
_TIE_LABELS = 20
_CHUNK_ROWS = 64
_MILP_TIE = 1e-9


class PairwiseDecoding(NamedTuple):
    """Labels of N rows, with a certificate.

    Attributes
    ----------
    labels : ndarray (N, L) of int8
        0/1.
    objective : ndarray (N,)
        Their hinge loss or, for "map", minus their score.
    gap : ndarray (N,)
        The best labels are better by at most this: 0 where these are proven to be the best,
        infinite where the method proves nothing.
    """

    labels: np.ndarray
    objective: np.ndarray
    gap: np.ndarray


def decode_pairwise(
    fields, coupling, margin, *, rule, method, known=None, node_limit=50_000, n_jobs=None
):  # fmt: skip
    """Labels y in {-1, +1}^L of the least loss, or of the highest score.

    "hinge": ``argmin_y sum_i max(gamma - y_i (f_i + sum_k s_ik y_k), 0)``; among equals the
    highest score, then the first in lexicographic order. "map": ``argmax_y f.y + y'Sy / 2``;
    among equals the first. Beyond 20 labels "branch_and_bound" leaves equals to the order of
    its search, which is fixed.

    Parameters
    ----------
    fields : ndarray (N, L)
    coupling : ndarray (L, L)
        Symmetric, zero diagonal.
    margin : float
        gamma.
    rule : {"hinge", "map"}
    method : {"branch_and_bound", "milp", "icm"}
        Branch and bound over partial labels, exact within `node_limit` nodes a row; mixed
        integer programming by HiGHS, exact up to its tolerances and slow; or flips of
        single labels from the signs of the fields up to a local optimum.
    known : ndarray (N, L) or None
        0/1 labels that are given, NaN elsewhere: the best labels are sought among those that
        agree; the loss still counts the margins of all.
    node_limit : int
        Rows that need more nodes get the best labels found so far, and a gap.
    n_jobs : int or None
        Threads over rows, for all but "milp".

    Returns
    -------
    PairwiseDecoding
    """
    fields = kernel_array(fields, np.float64)
    coupling = kernel_array(coupling, np.float64)
    if method == "milp":
        return _by_milp(fields, coupling, margin, rule, known)
    from skcrbm._kernels.lmbm_decode import HINGE, MAP, best_labels

    n_rows, n_labels = fields.shape
    pinned = np.zeros(fields.shape, np.int8)
    if known is not None:
        pinned[known == 0], pinned[known == 1] = -1, 1
    labels = np.empty((n_rows, n_labels), np.int8)
    value = np.empty(n_rows)
    lower = np.empty(n_rows)
    kind = {"hinge": HINGE, "map": MAP}[rule]
    search, ties = method == "branch_and_bound", n_labels <= _TIE_LABELS

    def decode(rows):
        best_labels(
            kind, search, fields[rows], coupling, float(margin), pinned[rows], ties,
            node_limit, labels[rows], value[rows], lower[rows],
        )  # fmt: skip

    for _ in ordered_map(decode, row_chunks(n_rows, _CHUNK_ROWS), n_jobs):
        pass
    return PairwiseDecoding(labels, value, np.maximum(value - lower, 0.0))


def losses_and_scores(signs, fields, coupling, margin):
    """Hinge losses (N,) and scores (N,) of labels (N, L) in {-1, +1}."""
    pull = signs @ coupling
    loss = np.maximum(margin - signs * (fields + pull), 0.0).sum(axis=1)
    return loss, (signs * (fields + 0.5 * pull)).sum(axis=1)


def _by_milp(fields, coupling, margin, rule, known):
    """Decode row by row by mixed integer programs."""
    labels = np.empty(fields.shape, np.int8)
    if known is None:
        known = np.full(fields.shape, np.nan)
    for row, field in enumerate(fields):
        labels[row] = _Program(field, coupling, margin, known[row]).best(rule) > 0
    loss, score = losses_and_scores(2.0 * labels - 1.0, fields, coupling, margin)
    return PairwiseDecoding(labels, loss if rule == "hinge" else -score, np.zeros(len(fields)))


class _Program:
    """The mixed integer program of one row.

    Variables: labels u (L,) in {0, 1}, of which y = 2u - 1; products w_ik = u_i u_k of the
    coupled pairs i < k; losses xi (L,). As 4 w - 2 u_i - 2 u_k + 1 = y_i y_k, all is linear.

    Attributes
    ----------
    loss, score : ndarray
        Objectives, up to a constant.
    """

    # HiGHS stops at an absolute gap of 1e-6, which is too wide by as much.
    _SCALE = 1e3

    def __init__(self, field, coupling, margin, known):
        n_labels = len(field)
        first, second = np.nonzero(np.triu(coupling, 1))
        n_pairs = len(first)
        self.size = 2 * n_labels + n_pairs
        strength = coupling[first, second]
        # Rows of `products` times the variables, plus 1: y_i y_k of each pair.
        products = np.zeros((n_pairs, self.size))
        pair = np.arange(n_pairs)
        products[pair, first] = products[pair, second] = -2.0
        products[pair, n_labels + pair] = 4.0
        incidence = np.zeros((n_labels, n_pairs))
        incidence[first, pair] = incidence[second, pair] = strength
        # Of the margins: their variables, and their constants.
        margins = incidence @ products
        margins[np.arange(n_labels), np.arange(n_labels)] += 2.0 * field
        constant = incidence.sum(axis=1) - field
        slack = margins.copy()
        slack[np.arange(n_labels), n_labels + n_pairs + np.arange(n_labels)] = 1.0
        both = np.zeros((n_pairs, self.size))  # w <= u_i, w <= u_k, w >= u_i + u_k - 1
        both[pair, n_labels + pair] = 1.0
        one, other, union = both.copy(), both.copy(), both.copy()
        one[pair, first] = other[pair, second] = -1.0
        union[pair, first] = union[pair, second] = -1.0
        self.constraints = [LinearConstraint(slack, lb=margin - constant)]
        if n_pairs:
            self.constraints += [
                LinearConstraint(one, ub=0.0),
                LinearConstraint(other, ub=0.0),
                LinearConstraint(union, lb=-1.0),
            ]
        self.loss = np.zeros(self.size)
        self.loss[n_labels + n_pairs :] = 1.0
        self.score = strength @ products
        self.score[:n_labels] += 2.0 * field
        self.n_labels, self.first, self.second = n_labels, first, second
        self.margins, self.needed = margins, margin - constant
        self.integrality = np.zeros(self.size)
        self.integrality[:n_labels] = 1
        lower, upper = np.zeros(self.size), np.full(self.size, np.inf)
        upper[: n_labels + n_pairs] = 1.0
        lower[:n_labels] = np.where(known == 1, 1.0, 0.0)
        upper[:n_labels] = np.where(known == 0, 0.0, 1.0)
        self.bounds = Bounds(lower, upper)

    def best(self, rule):
        """Labels (L,) in {-1, +1} by the rule and its ties, one objective after the other."""
        objectives = [self.loss, -self.score] if rule == "hinge" else [-self.score]
        if self.n_labels <= _TIE_LABELS:
            first = np.zeros(self.size)
            first[: self.n_labels] = 0.5 ** np.arange(1, self.n_labels + 1)
            objectives.append(first)
        constraints = self.constraints
        for objective in objectives:
            x = self._solve(objective, constraints)
            at_most = objective @ x + _MILP_TIE
            constraints = [*constraints, LinearConstraint(objective[None], ub=at_most)]
        return np.where(x[: self.n_labels] > 0.5, 1.0, -1.0)

    def _solve(self, objective, constraints):
        """All variables at the least objective, computed from the labels."""
        result = milp(
            self._SCALE * objective,
            integrality=self.integrality,
            bounds=self.bounds,
            constraints=constraints,
            options={"mip_rel_gap": 0.0},
        )
        if result.x is None:
            raise RuntimeError(f"HiGHS found no labels: {result.message}")
        x = np.zeros(self.size)
        on = result.x[: self.n_labels] > 0.5
        pairs = slice(self.n_labels, self.n_labels + len(self.first))
        x[: self.n_labels] = on
        x[pairs] = on[self.first] & on[self.second]
        x[pairs.stop :] = np.maximum(self.needed - self.margins @ x, 0.0)
        return x
