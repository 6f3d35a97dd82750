"""Tree-reweighted belief propagation."""

from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from skcrbm._kernels._scalar import SUM
from skcrbm.energies import IsingEnergy, RBMEnergy
from skcrbm.inference._base import IterativeMethod
from skcrbm.inference._ising_iterate import edge_appearance, pass_messages_ising
from skcrbm.inference._message_passing import pass_messages


class TreeReweighted(IterativeMethod):
    """Tree-reweighted belief propagation (Wainwright, Jaakkola and Willsky 2005).

    All edges of the complete bipartite graph appear in a random spanning tree with
    ``rho = (V + H - 1) / (V H)``. At convergence log Z is an upper bound; the beliefs are
    those of a concave problem, so there is one fixed point. Exact on trees with V = 1 or
    H = 1, where it is sum-product.

    On an `IsingEnergy`, the labels take turns, and an edge appears as often as in uniform
    spanning trees of the graph of non-zero couplings: ``rho = 2 / L`` on the complete graph,
    1 on trees, where it is exact, and in general the effective resistance of the edge.

    Parameters
    ----------
    max_iter : int or None, default=None
        Iterations at most. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float, default=1e-3
        A model stops when no belief changes by more, as a probability.
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
    answers: ClassVar = frozenset({"marginals", "pairwise", "log_partition"})
    accepts: ClassVar = frozenset({"init", "return_trace"})
    solvers: ClassVar = {RBMEnergy: "_solve_rbm", IsingEnergy: "_solve_ising"}
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "damping": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(self, max_iter=None, tol=1e-3, damping=0.0):
        self.max_iter = max_iter
        self.tol = tol
        self.damping = damping

    def _solve_rbm(self, energy, query):
        v, h = energy.n_visible, energy.n_hidden
        warm = query.start is not None
        fields, _ = pass_messages(
            energy,
            query,
            SUM,
            max_iter=self.iterations,
            tol=self.tol,
            damping=self.damping,
            edge_appearance=(v + h - 1) / (v * h) if v and h else 1.0,
            start=query.start.log_odds if warm else None,
            warm=warm,
        )
        return fields

    def _solve_ising(self, energy, query):
        return pass_messages_ising(
            energy,
            query,
            max_iter=self.iterations,
            tol=self.tol,
            damping=self.damping,
            edge_appearance=edge_appearance(energy.coupling),
        )
