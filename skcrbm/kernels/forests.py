"""Choose acyclic sets of factors for tree-reweighting."""

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import root_of


@jit
def count_forest(variables, edge_start, order, n_variables, count):
    """Choose an acyclic set of factors greedily, and add 1 to `count` (F,) for each chosen factor.

    Factors are tried in `order` (F,). A factor is chosen if all its variables lie in different
    connected components of the factors chosen before, so that it closes no cycle. The factor then
    joins these components.
    """
    parent = np.arange(n_variables)
    seen = np.full(n_variables, -1)
    for f in order:
        apart = True
        for e in range(edge_start[f], edge_start[f + 1]):
            root = root_of(parent, variables[e])
            if seen[root] == f:
                apart = False
                break
            seen[root] = f
        if apart:
            count[f] += 1
            first = root_of(parent, variables[edge_start[f]])
            for e in range(edge_start[f], edge_start[f + 1]):
                parent[root_of(parent, variables[e])] = first
