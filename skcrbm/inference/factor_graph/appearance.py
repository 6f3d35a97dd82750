"""Appearance probabilities of factors in random forests, for tree-reweighted messages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from skcrbm.kernels.forests import count_forest
from skcrbm.utils.parallel import one_blas_thread

# Largest number of variables for which the weights of pairs are computed exactly from uniform
# spanning trees. The computation inverts a matrix, which takes up to a second for this size. For
# larger graphs, the weights are estimated from random sets of factors.
_MAX_DENSE = 1500
# Smallest and largest number of random acyclic sets of factors. Within these limits, the number is
# chosen such that about _VISITS edges are visited to build the sets.
_MIN_SETS, _MAX_SETS, _VISITS = 20, 400, 10**7


class Pairs(NamedTuple):
    """Pairs of variables in the form that `factor_appearance` takes."""

    edge_start: np.ndarray  # (E + 1,), position of the first variable of each pair
    variables: np.ndarray  # (2E,)
    n_edges: int


def factor_appearance(graph, n_variables):
    """Return the appearance probability (F,) of each factor in random acyclic sets of factors.

    A set is acyclic if its factors can be added one by one such that all variables of the new
    factor are in different components of the factors added before. If all factors have one or two
    variables and the graph is small, the sets are uniformly random spanning forests. Otherwise each
    set is built greedily in a random order, and sets are drawn until each factor is in at least one
    set, so that all probabilities are positive. The seed is fixed.
    """
    sizes = np.diff(graph.edge_start)
    if n_variables <= _MAX_DENSE and sizes.max(initial=0) <= 2:
        return _spanning_tree_weights(graph, sizes, n_variables)
    return _random_set_weights(graph, n_variables)


def appearance_of_pairs(pairs, n_variables):
    """Return the appearance probability (E,) of each pair of variables in `pairs` (E, 2)."""
    first = np.arange(0, 2 * len(pairs) + 1, 2)
    return factor_appearance(Pairs(first, pairs.ravel(), pairs.size), n_variables)


def _spanning_tree_weights(graph, sizes, n_variables):
    """Return the probability (F,) that a uniformly random spanning tree contains each factor.

    The probability of a pair equals the effective resistance between its variables in the graph.
    Factors of one variable have probability 1.
    """
    rho = np.ones(len(sizes))
    pairs = sizes == 2
    i, k = (
        graph.variables[graph.edge_start[:-1][pairs]],
        graph.variables[graph.edge_start[:-1][pairs] + 1],
    )
    joined = coo_array((np.ones(len(i)), (i, k)), shape=(n_variables, n_variables)).toarray()
    joined += joined.T
    _, component = connected_components(joined, directed=False)
    members = np.bincount(component)[component]
    # The Laplacian is not invertible. Adding 1 / m to all entries within each component of m
    # variables makes it invertible, and does not change the effective resistances.
    same = (component[:, None] == component) / members
    with one_blas_thread():
        inverse = np.linalg.inv(np.diag(joined.sum(axis=1)) - joined + same)
    inner = np.diagonal(inverse)
    rho[pairs] = np.clip(inner[i] + inner[k] - 2 * inverse[i, k], 1e-6, 1.0)
    return rho


def _random_set_weights(graph, n_variables):
    """Return the share (F,) of the random greedy acyclic sets that contain each factor."""
    n_factors = len(graph.edge_start) - 1
    n_sets = int(np.clip(_VISITS // max(1, graph.n_edges), _MIN_SETS, _MAX_SETS))
    rng = np.random.default_rng(0)
    count, (parent, seen) = np.zeros(n_factors, np.int64), np.empty((2, n_variables), np.int64)
    n_drawn = 0
    while n_drawn < n_sets or (count == 0).any():
        order = rng.permutation(n_factors)
        if n_drawn >= n_sets:  # begin with the factors that are in no set so far
            order = order[np.argsort(count[order] > 0, kind="stable")]
        count_forest(graph.variables, graph.edge_start, order, parent, seen, count)
        n_drawn += 1
    return count / n_drawn
