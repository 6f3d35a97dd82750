"""Options of the methods that compute an upper bound of the best score."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar

from skcrbm.inference.base import InferenceMethod
from skcrbm.utils.sklearn_private import Interval


class DualDecomposition(InferenceMethod):
    r"""Marginal MAP ``argmax_v sum_h p(v, h)`` of an RBM, with a bound, by dual decomposition.

    The method of Ping, Liu and Ihler [1]_ cuts the model into parts that are solved separately. The
    sum of their maxima is an upper bound, and terms are shifted between the parts until the bound
    is lowest. Here a part is a hidden unit with all its couplings and a share of the visible
    biases,

    .. math::

        \max_v \Big[ b'v + \sum_j \mathrm{softplus}(c_j + w_j'v) \Big] \le
        \min_{\sum_j s_j = b} \sum_j \max_v \Big[ \mathrm{softplus}(c_j + w_j'v) + s_j'v \Big].

    In the paper, a part of an RBM is a single coupling with a share of the sum over its hidden unit
    (Hölder's inequality). Here the sum over a hidden unit is not split. So there are no shares to
    optimise, and the lowest possible bound is at most as high as in the paper. To find the maximum
    of a part, V + 1 states are compared. This is enough because softplus(z) is the maximum over p
    in [0, 1] of p z plus the entropy of p, and the best value of a visible unit changes at most
    once as p grows.

    The right side is convex in the shifts s. It is minimised by subgradient steps with Polyak's
    step length: the steps aim at the value of the best state found, or at a level above this value
    [2]_. The lowest bound is kept. From time to time the average state of the parts is rounded, and
    improved by flips of single units. If all parts agree on a state, this state is proven to be the
    best. They agree if couplings are weak, biases are strong, or all couplings are attractive. With
    strong couplings of both signs a gap remains after any number of steps.

    Branch and bound closes the gap: a unit on which the parts disagree is clamped to 0 in one node
    and to 1 in another, and both nodes are bounded, starting from the current shifts. With
    ``node_limit=1`` there is no search, and the bound comes from the dual decomposition alone. If
    the search reaches the node limit, the bound is the highest bound of the remaining nodes.

    The method works on an `RBMEnergy`. It computes in float64 for every dtype of the energy, and
    adds the largest rounding error to the bound. `n_iter` counts the steps of all nodes; each step
    takes V H operations.

    Parameters
    ----------
    max_iter : int, default=1000
        Largest number of steps before the search.
    tol : float, default=1e-6
        A model has converged if the bound exceeds the value of its state by at most `tol`, up to
        rounding; the state is then proven to be the best. Without a search, the model has also
        converged if the bound is at most `tol` above the level at which the steps aim.
    node_limit : int, default=1000
        Largest number of nodes of the search tree of a model, including the first node.

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


class _LocalBound(InferenceMethod):
    """Base class of the methods that bound the best score by the local polytope."""

    answers: ClassVar = frozenset({"map", "map_bound"})
    default_returns: ClassVar = ("map", "map_bound")


class MPLP(_LocalBound):
    """MAP with a bound, by max-product linear programming (MPLP) [1]_.

    MPLP is coordinate descent on the dual of the linear program that `LinearProgram` solves. A
    sweep updates the edges in their order: an update sends half of the message that max-product
    would send along the edge, and keeps half of the message in the opposite direction. No update
    raises the bound, and the bound is valid after any number of sweeps. But the bound may converge
    to a value above the optimum of the program.

    After each sweep the variables take the values that their beliefs prefer. The best of all these
    states is improved by coordinate ascent and returned, so it is never worse than the state of
    "icm". On a forest of pairs, the state of "max_product" is returned if it is better. `gap` is
    the bound minus the score of this state, so that no other state can have a score that is higher
    by more than `gap`. Numbers are computed in float64 for every dtype of the energy, and the
    largest rounding error is added to the bound.

    The method works on an `RBMEnergy`, `IsingEnergy` and `FactorGraphEnergy`. If a factor graph has
    tables of more than two variables, OR or AND factors, or variables of more than two states, a
    sweep updates the tables in turn: an update gives each variable of a table an equal share of the
    max-marginals of the table. Before the first sweep, impossible states are removed, and variables
    are eliminated if this makes no larger table. `n_iter` counts sweeps.

    Parameters
    ----------
    max_iter : int, default=1000
        Largest number of sweeps over the edges or tables.
    tol : float, default=1e-6
        A model has converged if the bound decreases by at most `tol` in a sweep.

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


class LinearProgram(_LocalBound):
    """MAP with a bound, by the linear program of the local polytope [1]_.

    The program relaxes the search for the best state: variables and pairs may take any value in [0,
    1] instead of 0 or 1, with constraints between every pair and its two variables. The result is
    exact on trees and if all couplings are attractive. If couplings are frustrated, as in a
    triangle of three variables that all prefer to differ, some variables get the value one half,
    and the bound is too high.

    The solution is rounded: a variable becomes 1 if its value is above one half, and a variable of
    more than two states takes the state with the largest value. Coordinate ascent then improves the
    state, so it is never worse than the state of "icm". On a forest of pairs, the state of
    "max_product" is returned if it is better. `gap` is the bound minus the score of this state, so
    that no other state can have a score that is higher by more than `gap`.

    For an `RBMEnergy`, and an `IsingEnergy` of up to 100 labels or many couplings, the program is
    solved as a maximum flow [3]_, which is about a hundred times as fast as HiGHS [2]_ for up to 14
    labels, and five to ten times as fast for an RBM of 16 to 64 units in each layer. For other
    energies HiGHS solves a program for each model. The bound is computed from the flow or from the
    multipliers of the program, so it is valid even if the solution is not exact.

    The method works on an `RBMEnergy`, `IsingEnergy` and `FactorGraphEnergy`.
    If a factor graph has tables of more than two variables or variables of more than two states,
    each state of a variable and each possible entry of a table has a value in [0, 1]. Before the
    program is solved, impossible states are removed, and variables are eliminated if this makes no
    larger table. `n_iter` counts the iterations of HiGHS, or the paths of a flow.

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
