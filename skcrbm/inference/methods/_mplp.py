"""Max-product linear programming."""

from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from skcrbm.inference.methods._pairs import PairMaximiser


class MPLP(PairMaximiser):
    """Best state of a model of pairs, with a bound, by max-product linear programming [1]_.

    Coordinate descent on the dual of the linear program that `LinearProgram` solves, edge by edge
    in their order: an edge takes half of the message that max-product would send, and leaves
    half of what comes back. No step raises the bound, which holds after any number of sweeps. It
    may come to rest above the optimum of the program. After each sweep the variables take the
    sides of their beliefs; the best of all these states is returned, and `gap` says by how much a
    better one could exceed it. Computed in float64 whatever the dtype, and what rounding could
    have taken from the bound is added to it.

    For an `RBMEnergy`, `IsingEnergy`, `SparseIsingEnergy`, or a `FactorGraphEnergy` of tables of
    one or two variables. `n_iter` counts sweeps.

    Parameters
    ----------
    max_iter : int, default=1000
        Sweeps over the edges at most.
    tol : float, default=1e-6
        A model has converged when a sweep lowers its bound by no more.

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

    def __init__(self, max_iter=1000, tol=1e-6):
        self.max_iter = max_iter
        self.tol = tol
