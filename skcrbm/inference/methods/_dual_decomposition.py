"""Marginal MAP with a bound, by dual decomposition."""

from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from skcrbm.inference._base import InferenceMethod


class DualDecomposition(InferenceMethod):
    r"""Marginal MAP ``argmax_v sum_h p(v, h)`` of an RBM, with a bound, by dual decomposition.

    Ping, Liu and Ihler [1]_ bound marginal MAP by cutting the model into parts that are solved
    each on its own, and shift terms between them until the bound is lowest. Here a part is a
    hidden unit with all its couplings and a share of the visible biases,

    .. math::

        \max_v \Big[ b'v + \sum_j \mathrm{softplus}(c_j + w_j'v) \Big] \le
        \min_{\sum_j s_j = b} \sum_j \max_v \Big[ \mathrm{softplus}(c_j + w_j'v) + s_j'v \Big].

    Their parts of an RBM are the couplings one by one, each with a share of the sum over its
    hidden unit (Hölder's inequality). Here this sum stays in one piece: no bound of theirs is
    below the lowest of ours, and there are no shares to be found. The maximum of a part takes
    V + 1 states, as softplus(z) is the maximum over p in [0, 1] of p z plus the entropy of p,
    and a unit changes sides at one p at most.

    The right side is convex in the shifts s; it goes down along subgradients, with Polyak's
    step towards the best state found or a level above it [2]_. The lowest bound is kept. The
    average state of the parts is rounded from time to time, and improved by flips of single
    units. Where all parts agree on a state it is proven to be the best. That happens for weak
    couplings, strong biases, or couplings that all attract; for strong couplings of both signs
    a gap is left, however many steps are taken.

    Branch and bound closes it: a unit on which the parts disagree is held off and on in turn,
    and both halves are bounded, from the shifts found so far. Without it (``node_limit=1``) the
    bound is that of the dual decomposition alone. Where the search ends at its limit, the
    bound is that of the nodes that are left.

    For an `RBMEnergy`. Computed in float64 whatever the dtype, and what rounding could have taken
    from the bound is added to it. `n_iter` counts steps over all nodes, of V H operations each.

    Parameters
    ----------
    max_iter : int, default=1000
        Steps at most before the search.
    tol : float, default=1e-6
        A state is proven to be the best once the bound is no more than this above it, up to
        rounding. The model has then converged; without a search also when the bound has settled,
        that is, the level that is aimed at is no more than this below it.
    node_limit : int, default=1000
        Nodes of the search tree of one model at most, the first one included.

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

    def __init__(self, max_iter=1000, tol=1e-6, node_limit=1000):
        self.max_iter = max_iter
        self.tol = tol
        self.node_limit = node_limit
