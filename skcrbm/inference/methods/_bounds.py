"""Options of the methods that bound the best score from above."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from skcrbm.energies import BaseEnergy
from skcrbm.inference.base import InferenceMethod


class DualDecomposition(InferenceMethod):
    r"""Marginal MAP ``argmax_v sum_h p(v, h)`` of an RBM, with a bound, by dual decomposition.

    Ping, Liu and Ihler [1]_ bound marginal MAP by cutting the model into parts that are solved
    separately, and shift terms between the parts until the bound is lowest. Here a part is a
    hidden unit with all its couplings and a share of the visible biases,

    .. math::

        \max_v \Big[ b'v + \sum_j \mathrm{softplus}(c_j + w_j'v) \Big] \le
        \min_{\sum_j s_j = b} \sum_j \max_v \Big[ \mathrm{softplus}(c_j + w_j'v) + s_j'v \Big].

    In the paper a part of an RBM is a single coupling with a share of the sum over its
    hidden unit (Hölder's inequality). Here this sum stays in one piece: the bounds of the paper
    are never below the lowest bound here, and there are no shares to be found. The maximum of a
    part takes V + 1 states, as softplus(z) is the maximum over p in [0, 1] of p z plus the entropy
    of p, and a unit changes its value at most at one p.

    The right side is convex in the shifts s. It is lowered along subgradients, with Polyak's
    step towards the best state found or a level above it [2]_. The lowest bound is kept. The
    average state of the parts is rounded from time to time, and improved by flips of single
    units. A state on which all parts agree is proven to be the best. This happens if couplings
    are weak, biases are strong, or all couplings attract; with strong couplings of both signs
    a gap is left, however many steps are taken.

    Branch and bound closes the gap: a unit on which the parts disagree is clamped to 0 and to 1,
    and both halves are bounded, from the shifts found so far. Without this search
    (``node_limit=1``) the bound comes from the dual decomposition alone. If the search ends at its
    limit, the bound is the highest bound of the remaining nodes.

    For an `RBMEnergy`. Computed in float64 whatever the dtype; an allowance for rounding errors
    is added to the bound. `n_iter` counts steps over all nodes, of V H operations each.

    Parameters
    ----------
    max_iter : int, default=1000
        Largest number of steps before the search.
    tol : float, default=1e-6
        A state is proven to be the best if the bound is no more than this above it, up to
        rounding. The model has then converged; without a search also if the bound has settled,
        that is, if the level that the steps aim at is no more than this below it.
    node_limit : int, default=1000
        Largest number of nodes of the search tree of a model, the first node included.

    References
    ----------
    .. [1] Ping, Liu and Ihler (2015). Decomposition bounds for marginal MAP. NIPS.
    .. [2] Nedic and Bertsekas (2001). Incremental subgradient methods for nondifferentiable
       optimization. SIAM Journal on Optimization 12.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import infer
    >>> energy = RBMEnergy([[2.0, 0.5], [-3.0, 1.0]], [-1.0, 1.0], [0.5, 0.0])
    >>> result = infer(energy, "dual_decomposition")
    >>> result.assignment, result.map_bound.round(4), result.gap.round(4)
    (array([[1, 0, 1, 1]], dtype=int8), array([2.553]), array([0.]))
    """

    name: ClassVar = "dual_decomposition"
    answers: ClassVar = frozenset({"marginal_map", "map_bound"})
    default_returns: ClassVar = ("marginal_map", "map_bound")
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "node_limit": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, max_iter: int = 1000, tol: float = 1e-6, node_limit: int = 1000):
        self.max_iter = max_iter
        self.tol = tol
        self.node_limit = node_limit


class _PairwiseBound(InferenceMethod):
    """Base class of the bounds for models without terms of more than two variables."""

    answers: ClassVar = frozenset({"map", "map_bound"})
    default_returns: ClassVar = ("map", "map_bound")
    restriction: ClassVar = "it takes tables of one or two variables, and no OR or AND"

    def supports(self, energy: BaseEnergy) -> frozenset:
        """Return the answers for an energy; an empty set if it has larger factors."""
        return super().supports(energy) if energy.is_pairwise else frozenset()


class MPLP(_PairwiseBound):
    """Best state of a model of pairs, with a bound, by max-product linear programming [1]_.

    Coordinate descent on the dual of the linear program that `LinearProgram` solves, edge by edge
    in their order: an edge takes half of the message that max-product would send, and leaves
    half of the message that comes back. No step raises the bound, which holds after any number of
    sweeps. The bound may come to rest above the optimum of the program. After each sweep the
    variables take the values that their beliefs prefer; the best of all these states is returned,
    and `gap` says by how much a better state could exceed it. Computed in float64 whatever the
    dtype; an allowance for rounding errors is added to the bound.

    For an `RBMEnergy`, `IsingEnergy`, `SparseIsingEnergy`, or a `FactorGraphEnergy` of tables of
    one or two variables. `n_iter` counts sweeps.

    Parameters
    ----------
    max_iter : int, default=1000
        Largest number of sweeps over the edges.
    tol : float, default=1e-6
        A model has converged if a sweep lowers its bound by no more.

    References
    ----------
    .. [1] Globerson and Jaakkola (2007). Fixing max-product: convergent message passing algorithms
       for MAP LP-relaxations. NIPS.

    Examples
    --------
    >>> from skcrbm.energies import SparseIsingEnergy
    >>> from skcrbm.inference import MPLP, infer
    >>> energy = SparseIsingEnergy.from_edges([[0, 1], [1, 2]], [1.0, -1.0], [0.5, 0.0, 0.0])
    >>> result = infer(energy, MPLP(tol=1e-9))
    >>> result.assignment, result.map_bound.round(6)
    (array([[1, 1, 0]], dtype=int8), array([2.5]))
    """

    name: ClassVar = "mplp"
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, max_iter: int = 1000, tol: float = 1e-6):
        self.max_iter = max_iter
        self.tol = tol


class LinearProgram(_PairwiseBound):
    """State of a model of pairs, and a bound, by the linear program of the local polytope [1]_.

    Instead of states it maximises over numbers in [0, 1] for variables and pairs, which agree
    with each other on every edge. Exact on trees and if all couplings are attractive. If couplings
    are frustrated, as on a triangle of three variables that all want to differ, variables
    come out at one half and the bound is too high. The variables above one half are on in the
    state; `gap` says by how much a better state could exceed it.

    The models of an `IsingEnergy` are solved as maximum flows [3]_, which for up to 14 labels is
    some hundred times as fast as HiGHS [2]_, which solves a program for each of all other models.
    The bound is computed from the flow or the multipliers of the program, so that it holds
    whatever the tolerances.

    For an `RBMEnergy`, `IsingEnergy`, `SparseIsingEnergy`, or a `FactorGraphEnergy` of tables of
    one or two variables. `n_iter` counts the iterations of the solver, or the paths of a flow.

    References
    ----------
    .. [1] Wainwright, Jaakkola and Willsky (2005). MAP estimation via agreement on trees:
       message-passing and linear programming. IEEE Transactions on Information Theory 51.
    .. [2] Huangfu and Hall (2018). Parallelizing the dual revised simplex method. Mathematical
       Programming Computation 10.
    .. [3] Boros and Hammer (2002). Pseudo-Boolean optimization. Discrete Applied Mathematics 123.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.energies import IsingEnergy
    >>> from skcrbm.inference import infer
    >>> triangle = np.eye(3) - 1.0
    >>> infer(IsingEnergy(triangle, np.zeros(3)), "linear_program").map_bound.round(6)
    array([3.])
    >>> infer(IsingEnergy(triangle, np.zeros(3)), "exact", returns="map_bound").map_bound
    array([1.])
    """

    name: ClassVar = "linear_program"
