"""The linear program of the local polytope."""

from typing import ClassVar

from skcrbm.inference.methods._pairs import PairMaximiser


class LinearProgram(PairMaximiser):
    """State of a model of pairs, and a bound, by the linear program of the local polytope [1]_.

    In place of states it maximises over numbers in [0, 1] for variables and pairs that agree
    with each other on every edge. Exact on trees and where all couplings are attractive; where
    they are frustrated, as on a triangle of three variables that all want to differ, variables
    come out at one half and the bound is too high. The variables above one half are on in the
    state; `gap` says by how much a better one could exceed it.

    The models of an `IsingEnergy` are solved as maximum flows [3]_, up to 14 labels some hundred
    times as fast as by HiGHS [2]_, which solves one program for each of all other models.
    The bound is computed from the flow or the program's multipliers, so that it holds whatever the
    tolerances.

    For an `RBMEnergy`, `IsingEnergy`, `SparseIsingEnergy`, or a `FactorGraphEnergy` of tables of
    one or two variables. `n_iter` counts the solver's iterations, or the paths of a flow.

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
