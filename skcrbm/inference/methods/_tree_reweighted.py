"""Tree-reweighted belief propagation."""

from typing import ClassVar

from skcrbm.inference.methods._message_passing import MessagePassing


class TreeReweighted(MessagePassing):
    """Tree-reweighted belief propagation (Wainwright, Jaakkola and Willsky 2005).

    All edges of the complete bipartite graph appear in a random spanning tree with
    ``rho = (V + H - 1) / (V H)``. At convergence log Z is an upper bound; the beliefs are
    those of a concave problem, so there is one fixed point. Exact on trees with V = 1 or
    H = 1, where it is sum-product.

    On an `IsingEnergy`, the labels take turns, and an edge appears as often as in uniform
    spanning trees of the graph of non-zero couplings: ``rho = 2 / L`` on the complete graph,
    1 on trees, where it is exact, and in general the effective resistance of the edge.

    On a `FactorGraphEnergy` or `SparseIsingEnergy` all messages are sent at once, and often need
    a damping of 0.5. A factor appears as often as in acyclic sets of factors, to which one is
    added if all its variables lie in different components: uniform spanning trees again where
    no factor has more than two variables, up to 1500 variables, and greedy sets in random order
    otherwise. The bound holds with tables of any size.

    Parameters
    ----------
    max_iter : int or None, default=None
        Iterations at most. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float or None, default=None
        A model stops when no belief changes by more, as a probability. None: 1e-3 in
        training, 1e-6 in `infer`.
    damping : float in [0, 1), default=0.0
        Share of the old log messages visible -> hidden that is kept.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import TreeReweighted, infer
    >>> energy = RBMEnergy([[1.0, 2.0], [-2.0, 1.0]], [0.0, 0.0], [0.5, 0.5])
    >>> bound = infer(energy, TreeReweighted(), returns="log_partition").log_partition
    >>> exact = infer(energy, "exact", returns="log_partition").log_partition
    >>> bool(bound >= exact)
    True
    """

    name: ClassVar = "tree_reweighted"
