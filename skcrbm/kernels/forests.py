"""Choose acyclic sets of factors for tree-reweighting."""

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import root_of


@jit(allocates=False)
def count_forest(variables, edge_start, order, parent, seen, count):
    """Choose an acyclic set of factors greedily, and add 1 to `count` (F,) for each chosen factor.

    Factors are tried in `order` (F,). A factor is chosen if all its variables lie in different
    connected components of the factors chosen before, so that it closes no cycle. The factor then
    joins these components. `parent` and `seen` are int64 scratch arrays (n,) for n variables.
    """
    for v in range(parent.shape[0]):
        parent[v], seen[v] = v, -1
    for i in range(order.shape[0]):
        f = order[i]
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
