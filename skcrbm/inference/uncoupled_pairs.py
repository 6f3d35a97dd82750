"""Statistics of pairs of variables without a coupling.

Messages know the distributions of neighbours. A solver returns the product of the marginals for a
pair whose coupling is 0. On a forest this module replaces the product by the exact probability: two
variables depend on each other along the path between them. On graphs with loops the product stays,
and `InferenceResult.product_pairs` names it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.special import expit

from skcrbm.energies import BaseEnergy, IsingEnergy, RBMEnergy
from skcrbm.energies.grouped_rbm import GroupedRBMEnergy
from skcrbm.utils.graphs import adjacency
from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import row_chunks

# The logarithm of an odds ratio is clipped to this range, in which its exponential is a float.
_MAX_LOG_RATIO = 700.0


class _Pairs(NamedTuple):
    """Couplings of a model of n binary variables, and the pairs of its statistics."""

    ends: np.ndarray  # (M, 2) variables with a coupling that is not 0
    log_ratio: np.ndarray  # (M,) logarithm of the odds ratio of each of these pairs
    uncoupled: np.ndarray  # bool, in the shape of the statistics: True for pairs without a coupling
    first: np.ndarray  # (U,) first variable of each pair without a coupling
    second: np.ndarray  # (U,) second variable


def complete_pairs(method: Any, energy: BaseEnergy, query: Any, fields: dict[str, Any]) -> None:
    """Make statistics of uncoupled pairs exact on forests, in place, and name the other products.

    `fields` is the result of a solver. "product_pairs" is added if an entry is a product.
    """
    kind = method.pairs_without_coupling
    if "statistics" not in query.returns or kind == "exact":
        return
    if kind == "products":  # the method takes all variables to be independent
        if len(energy.statistic_shapes) == 1:
            shape = energy.statistic_shapes[0]
            found = np.ones(shape, bool)
            if isinstance(energy, IsingEnergy) and len(shape) == 2:
                np.fill_diagonal(found, False)
            fields["product_pairs"] = found
        return
    pairs = _pairs_of(energy)
    if pairs is None or not len(pairs.first):
        return
    forest = _forest(energy, pairs) if _is_exact_on_forests(method, energy) else None
    if forest is None:
        fields["product_pairs"] = pairs.uncoupled
        return
    connected = forest.part[pairs.first] == forest.part[pairs.second]
    if connected.any():
        _add_covariances(energy, query, fields, pairs, forest, connected)


def _is_exact_on_forests(method, energy):
    """Return True if a method is exact if the couplings other than 0 form a forest.

    In "tree_reweighted" couplings of 0 are edges, too, except in an Ising model with a matrix.
    """
    if isinstance(energy, GroupedRBMEnergy):
        return False
    if method.name == "sum_product":
        return True
    return isinstance(energy, IsingEnergy) and not energy.couplings_are_sparse


def _pairs_of(energy):
    """Return the pairs of an energy with binary variables in pairs, or None."""
    if isinstance(energy, GroupedRBMEnergy):
        coupled = energy.weights != 0
        for group in energy.units.groups:
            coupled[group] = coupled[group].any(axis=0)
        i, k = np.nonzero(~coupled)
        return _Pairs(np.empty((0, 2), np.int64), np.empty(0), ~coupled, i, k)
    if isinstance(energy, RBMEnergy):
        coupled = energy.weights != 0
        visible, hidden = np.nonzero(coupled)
        ends = np.column_stack([visible, hidden + energy.n_visible])
        i, k = np.nonzero(~coupled)
        return _Pairs(ends, energy.weights[coupled], ~coupled, i, k + energy.n_visible)
    if not isinstance(energy, IsingEnergy):
        return None
    if energy.couplings_are_sparse:
        weight, edges = energy.edge_coupling, energy.edges
        off = weight == 0
        return _Pairs(edges[~off], 4.0 * weight[~off], off, *edges[off].T)
    matrix = energy.coupling_matrix()
    uncoupled = matrix == 0
    np.fill_diagonal(uncoupled, False)
    i, k = np.nonzero(np.triu(matrix))
    ends, ratio = np.column_stack([i, k]), 4.0 * matrix[i, k].astype(np.float64)
    return _Pairs(ends, ratio, uncoupled, *np.nonzero(uncoupled))


class _Forest(NamedTuple):
    order: np.ndarray  # (n,) variables, parents first
    parent: np.ndarray  # (n,) parent of each variable, -1 for roots
    log_ratio: np.ndarray  # (n,) logarithm of the odds ratio with the parent
    part: np.ndarray  # (n,) connected component


def _forest(energy, pairs):
    """Return the graph of the couplings as a forest, or None if it has a loop."""
    n = energy.n_variables
    if len(pairs.ends) >= n:
        return None
    i, k = pairs.ends.T
    graph = adjacency(i, k, n)
    n_parts, part = connected_components(graph, directed=False)
    if len(i) > n - n_parts:
        return None
    orders, parent = [], np.full(n, -1)
    for root in np.unique(part, return_index=True)[1]:
        order, before = breadth_first_order(graph, root, directed=False)
        orders.append(order)
        parent[order[1:]] = before[order[1:]]
    log_ratio = np.zeros(n)
    child = np.where(parent[i] == k, i, k)
    log_ratio[child] = np.clip(pairs.log_ratio, -_MAX_LOG_RATIO, _MAX_LOG_RATIO)
    return _Forest(np.concatenate(orders), parent, log_ratio, part)


def _add_covariances(energy, query, fields, pairs, forest, connected):
    """Add the covariances along paths to the statistics of the pairs for which `connected` is True.

    The statistics hold the products of the marginals.
    """
    log_odds = fields["log_odds"].astype(np.float64)
    if energy.evidence is not None:
        held = energy.held_log_odds(energy.evidence)
        log_odds = np.where(energy.free, log_odds, held)
    (statistics,) = fields["statistics"]
    at = np.flatnonzero(pairs.uncoupled.ravel())[connected]
    first, second = pairs.first[connected], pairs.second[connected]
    n = energy.n_variables
    total = np.zeros(len(at))
    few = len(at) < n
    for rows in row_chunks(energy.n_models, max(1, BLOCK_ENTRIES // (n if few else n * n))):
        slope, variance = _slopes(log_odds[rows], forest)
        if few:
            found = _along_paths(slope, variance, forest, first, second)
        else:
            found = _all_covariances(slope, variance, forest)[:, first, second]
        if query.per_example:
            flat = statistics.reshape(energy.n_models, -1)
            flat[rows, at] += found.astype(statistics.dtype)
        else:
            total += query.sample_weight[rows] @ found
    if not query.per_example:
        statistics.reshape(-1)[at] += total.astype(statistics.dtype)


def _slopes(log_odds, forest):
    """Return P(x = 1 | parent = 1) - P(x = 1 | parent = 0) and the variance of each variable.

    Both are (R, n). The odds of x given that its parent is 0 are the positive root of a quadratic
    equation, because the marginals of x and of its parent and their odds ratio are known.
    """
    on, off = expit(log_odds), expit(-log_odds)
    variance = on * off
    parent = np.maximum(forest.parent, 0)
    ratio, rest = expit(forest.log_ratio), expit(-forest.log_ratio)
    a = ratio * off
    b = on[:, parent] * ratio + off[:, parent] * rest - on
    c = on * rest
    root = np.sqrt(b * b + 4 * a * c)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        odds = np.where(b > 0, 2 * c / (b + root), (root - b) / (2 * a))
        slope = odds * np.tanh(forest.log_ratio / 2) / ((rest + odds * ratio) * (1 + odds))
    constant = (variance == 0) | (variance[:, parent] == 0) | (forest.parent < 0)
    # The slope is NaN if products underflow or overflow. A variance is then so small that
    # covariances round to 0.
    return np.where(constant | np.isnan(slope), 0.0, slope), variance


def _all_covariances(slope, variance, forest):
    """Return the covariances (R, n, n) of all pairs of variables."""
    n = len(forest.order)
    found = np.zeros((len(slope), n, n))
    for place, k in enumerate(forest.order):
        j, seen = forest.parent[k], forest.order[:place]
        if j >= 0:
            found[:, k, seen] = found[:, seen, k] = found[:, j, seen] * slope[:, [k]]
        found[:, k, k] = variance[:, k]
    return found


def _along_paths(slope, variance, forest, first, second):
    """Return the covariances (R, U) of U pairs of variables of the same tree."""
    depth = np.zeros(len(forest.parent), np.int64)
    for k in forest.order:
        if forest.parent[k] >= 0:
            depth[k] = depth[forest.parent[k]] + 1
    found = np.ones((len(slope), len(first)))
    for u, (i, k) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        while i != k:
            if depth[i] < depth[k]:
                i, k = k, i
            found[:, u] *= slope[:, i]
            i = int(forest.parent[i])
        found[:, u] *= variance[:, i]
    return found
