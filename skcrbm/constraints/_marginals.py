"""Distributions under rules that have given marginals.

A classifier gives a probability for each label. Among the distributions over the label vectors that
satisfy the rules, and that have these probabilities as marginals, the distribution with the largest
entropy assumes the least. Its log-probability is a sum of fields (log-odds) of the labels that are
on, up to a constant, so this module computes fields.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import logit

from skcrbm.constraints._conditions import Conditions
from skcrbm.constraints._row_lbfgs import minimise_rows
from skcrbm.inference.factor_graph.appearance import appearance_of_pairs
from skcrbm.inference.ordered_labels import order_probabilities
from skcrbm.utils.graphs import adjacency

# Probabilities are clipped to this distance from 0 and 1. If a classifier were certain of labels
# that contradict a rule, no label vector would be possible.
CLIP = 1e-9
# The isotonic regression of a row ends if no edge moves its probabilities by more than this number,
# or after this number of sweeps over the edges.
_TOLERANCE, _MOST_SWEEPS = 1e-10, 20_000
# Penalties of the proximal steps, if it is known and if it is not known that some distribution has
# the given marginals. After a step that moved a marginal by more than _FAR standard deviations of
# the label, no distribution has the marginals, and smaller penalties would cost many iterations.
_POSSIBLE, _UNKNOWN = (1e-4,), (0.1, 0.1, 0.1, 0.1, 0.01, 0.001)
_FAR = 0.05
# A step ends if no marginal is further from its optimum than this number of standard deviations of
# the label, or after _MAX_ITER iterations of L-BFGS.
_CLOSE, _MAX_ITER = 3e-3, 200


def ordered_probabilities(proba: np.ndarray, conditions: Conditions) -> np.ndarray:
    """Return the probabilities (n, L) with the least change such that children are not larger.

    The result is the isotonic regression of each row, with the smallest sum of squared changes. It
    also has the smallest sum of Kullback-Leibler divergences of the given probabilities from the
    result (Barlow and Brunk 1972, The isotonic regression problem and its dual). Rows that satisfy
    all implications do not change, except that probabilities are clipped.
    """
    clipped = np.clip(proba, CLIP, 1 - CLIP)
    parents, children = conditions.edge_arrays()
    if (clipped[:, children] <= clipped[:, parents]).all():
        return clipped
    return order_probabilities(clipped, parents, children, _TOLERANCE, _MOST_SWEEPS)


class EdgeFields:
    """Fields of labels with given marginals, if the implications are the only rules.

    The log-weight of a label vector is the sum of ``log P(label)`` over all labels and of ``log
    P(parent, child) - log P(parent) - log P(child)`` over all edges, in which an edge counts with
    its weight. If the graph of the edges has no loops, all weights are 1, the weights add up to 1,
    and the distribution has the given marginals. In a graph with loops the weight of an edge is the
    probability that a random spanning tree contains it; the weights then add up to at most 1
    (Wainwright, Jaakkola and Willsky 2005, A new class of upper bounds on the log partition
    function), and the marginals are approximate.
    """

    def __init__(self, conditions: Conditions):
        self.parents, self.children = parents, children = conditions.edge_arrays()
        n_labels, n_edges = conditions.n_labels, len(parents)
        joined = adjacency(parents, children, n_labels)
        has_loops = n_edges + connected_components(joined, directed=False)[0] > n_labels
        self.weights = np.ones(n_edges)
        if has_loops:
            self.weights = appearance_of_pairs(np.stack([parents, children], axis=1), n_labels)
        place = np.arange(n_edges, dtype=np.int32)
        at_parent, at_child = (
            csr_array((self.weights, (place, ends.astype(np.int32))), (n_edges, n_labels))
            for ends in (parents, children)
        )
        self._at_parent, self._at_child = at_parent, at_child
        #: True if the fields are exact.
        self.is_exact = conditions.only_edges and not has_loops

    def __call__(self, proba: np.ndarray) -> np.ndarray:
        """Return the fields (n, L) of probabilities (n, L) from `ordered_probabilities`."""
        parent, child = proba[:, self.parents], proba[:, self.children]
        log_rest = np.log(np.maximum(parent - child, CLIP * parent))  # log P(parent 1, child 0)
        of_parent = log_rest - np.log1p(-parent) - logit(parent)
        of_child = np.log(child) - log_rest - logit(child)
        return logit(proba) + of_parent @ self._at_parent + of_child @ self._at_child

    def log_z(self, proba: np.ndarray) -> np.ndarray:
        """Return an upper bound (n,) of the log of the sum of exp(labels @ fields) over all labels.

        The bound is exact if the graph has no loops.
        """
        of_edges = np.log1p(-proba[:, self.children]) @ self.weights
        return of_edges - np.log1p(-proba).sum(axis=1)


def fields_with_marginals(
    start: np.ndarray, proba: np.ndarray, sums: Callable, is_possible: bool
) -> np.ndarray:
    """Return the fields (n, L) whose distributions under the rules have given marginals.

    ``sums(fields, part)`` returns log Z (m,) and the marginals (m, L) of m of the n rows, whose
    indices are `part` (m,). `start` (n, L) are the first fields.

    The fields maximise the concave function ``proba @ fields - log Z(fields)``. If some
    distribution under the rules has the marginals `proba`, the maximum is the distribution with
    these marginals that has the largest entropy. If no distribution has these marginals, the fields
    grow without a bound, and the marginals approach those with the smallest sum of ``(marginal -
    proba)**2 / variance``, with the variance ``proba * (1 - proba)``. The method is the proximal
    point algorithm (Rockafellar 1976, Monotone operators and the proximal point algorithm): each
    step maximises the function minus a penalty for changes of the fields. A row is done after a
    step in which the penalty moves no marginal by much. If `is_possible` is True, some distribution
    has the marginals, so a single step with a small penalty is enough.
    """
    deviation = np.sqrt(proba * (1 - proba))
    fields = start.copy()
    penalties = _POSSIBLE if is_possible else _UNKNOWN
    rows, far = np.arange(len(start)), np.full(len(start), np.inf)
    for last, penalty in zip((penalties[0], *penalties), penalties):
        if penalty < last:
            rows = rows[far[rows] <= _FAR]
        if not len(rows):
            break

        step = partial(_proximal, fields, proba, deviation, sums, rows, penalty)
        x = minimise_rows(step, np.zeros((len(rows), start.shape[1])), _CLOSE, _MAX_ITER)
        fields[rows] += x / deviation[rows]
        far[rows] = penalty * abs(x).max(axis=1)
        rows = rows[far[rows] > _CLOSE]
    return fields


def _proximal(fields, proba, deviation, sums, rows, penalty, x, part):
    """Return the values (m,) and gradients (m, L) of the function that a proximal step minimises.

    `x` (m, L) holds the changes of the fields of ``rows[part]``, times the deviations of labels.
    """
    part = rows[part]
    moved = fields[part] + x / deviation[part]
    log_z, marginals = sums(moved, part)
    value = log_z - (moved * proba[part]).sum(axis=1) + penalty / 2 * (x**2).sum(axis=1)
    return value, (marginals - proba[part]) / deviation[part] + penalty * x
