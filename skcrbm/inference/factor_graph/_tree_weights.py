"""How often each factor is in a random acyclic set of factors: weights of tree-reweighted."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from skcrbm.kernels.factor_search import count_forest

# Variables up to which the weights of pairs are those of uniform spanning trees, by a matrix
# inverse: a second.
_MAX_DENSE = 1500
# Sets that are drawn at least and at most, and edges that these visit altogether.
_MIN_SETS, _MAX_SETS, _VISITS = 20, 400, 10**7


def factor_appearance(graph, n_variables):
    """Share (F,) of acyclic sets of factors that hold each factor, positive.

    A set is acyclic if its factors can be added one by one so that the variables of each lie in
    different components. With factors of one and two variables these are spanning forests,
    drawn uniformly; else factors are added greedily in random order (from a fixed seed), until
    each has been the first of its kind in line.

    Parameters
    ----------
    graph : FlatGraph
    n_variables : int

    Returns
    -------
    ndarray (F,) float64
    """
    sizes = np.diff(graph.edge_start)
    if n_variables <= _MAX_DENSE and sizes.max(initial=0) <= 2:
        return _of_pairs(graph, sizes, n_variables)
    return _of_random_sets(graph, n_variables)


def _of_pairs(graph, sizes, n_variables):
    """Effective resistances: of edges of uniform spanning trees, parallel ones apart."""
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
    # Laplacian + 1 / m within each component is regular and has the same resistances.
    same = (component[:, None] == component) / members
    inverse = np.linalg.inv(np.diag(joined.sum(axis=1)) - joined + same)
    inner = np.diagonal(inverse)
    rho[pairs] = np.clip(inner[i] + inner[k] - 2 * inverse[i, k], 1e-6, 1.0)
    return rho


def _of_random_sets(graph, n_variables):
    n_factors = len(graph.edge_start) - 1
    n_sets = int(np.clip(_VISITS // max(1, graph.n_edges), _MIN_SETS, _MAX_SETS))
    rng = np.random.default_rng(0)
    count = np.zeros(n_factors, np.int64)
    n_drawn = 0
    while n_drawn < n_sets or (count == 0).any():
        order = rng.permutation(n_factors)
        if n_drawn >= n_sets:  # those that no set holds yet come first
            order = order[np.argsort(count[order] > 0, kind="stable")]
        count_forest(graph.variables, graph.edge_start, order, n_variables, count)
        n_drawn += 1
    return count / n_drawn
