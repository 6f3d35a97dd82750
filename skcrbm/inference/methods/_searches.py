"""Options of the methods that search for the best state."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from skcrbm.energies import BaseEnergy
from skcrbm.inference.base import InferenceMethod, IterativeMethod


class BranchAndBound(InferenceMethod):
    """Best state of an `IsingEnergy` or `FactorGraphEnergy` by branch and bound, with a proof.

    A depth-first search over the labels, which come in the order in which the others can least
    change them. For an `IsingEnergy` it starts from the local optimum of "icm"; bounds come from
    the fields and, if these decide little, also from reparametrised costs of pairs [1]_. Factor
    graphs, of tables without weights of 0, are treated as products over cliques of -1/+1
    variables: bounds are the fields plus all that larger cliques may add. Exact up to rounding,
    1e-11 of the largest field, unless a model takes more nodes than the limit: its `gap` is then
    positive, and it has not converged. `n_iter` counts nodes.

    Parameters
    ----------
    node_limit : int, default=50_000
        Largest number of nodes of the search tree of a model. A model that needs more gets the
        best state found until then.

    References
    ----------
    .. [1] Tourani, Shekhovtsov, Rother and Savchynskyy (2018). MPLP++: fast, parallel dual
       block-coordinate ascent for dense graphical models. ECCV.

    Examples
    --------
    >>> from skcrbm.energies import IsingEnergy
    >>> from skcrbm.inference import infer
    >>> energy = IsingEnergy([[0.0, -2.0], [-2.0, 0.0]], [1.0, 0.5])
    >>> result = infer(energy, "branch_and_bound")
    >>> result.assignment, result.map_bound, result.gap
    (array([[1, 0]], dtype=int8), array([2.5]), array([0.]))
    """

    name: ClassVar = "branch_and_bound"
    answers: ClassVar = frozenset({"map", "map_bound"})
    default_returns: ClassVar = ("map", "map_bound")
    restriction: ClassVar = "it takes no weights of 0, OR or AND"
    _parameter_constraints: ClassVar = {
        "node_limit": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, node_limit: int = 50_000):
        self.node_limit = node_limit

    def supports(self, energy: BaseEnergy) -> frozenset:
        """Return the answers for an energy; an empty set if it has states of weight 0."""
        return frozenset() if energy.has_zeros else super().supports(energy)


class MixedIntegerProgram(InferenceMethod):
    """Best state of an `IsingEnergy` by mixed integer programs of HiGHS [1]_.

    There is one program for each model, with a binary variable for each label and a variable for
    the product of each coupled pair. It is slow, and its purpose is to check "branch_and_bound"
    independently. Its bound is the bound of HiGHS minus the tolerances of HiGHS, so that the `gap`
    of the best state is about 1e-8 of the largest field rather than 0, unless the fields alone
    decide all labels. `n_iter` counts nodes.

    References
    ----------
    .. [1] Huangfu and Hall (2018). Parallelizing the dual revised simplex method. Mathematical
       Programming Computation 10.

    Examples
    --------
    >>> from skcrbm.energies import IsingEnergy
    >>> from skcrbm.inference import infer
    >>> energy = IsingEnergy([[0.0, -2.0], [-2.0, 0.0]], [1.0, 0.5])
    >>> infer(energy, "milp").assignment
    array([[1, 0]], dtype=int8)
    """

    name: ClassVar = "milp"
    answers: ClassVar = frozenset({"map", "map_bound"})
    default_returns: ClassVar = ("map", "map_bound")


class ICM(IterativeMethod):
    """Joint MAP by iterated conditional modes (Besag 1986).

    In an RBM an iteration replaces all visible units by their best values given the hidden units,
    then the hidden units by their best values given the visible units. Each half is an exact
    coordinate step, so the score never goes down. It ends at a state that no change of one layer
    improves. The log-odds are the log-odds of each unit given the other layer. In an
    `IsingEnergy` an iteration goes over the labels one by one, and the log-odds are the log-odds
    of each label given the others. In a `FactorGraphEnergy` or `SparseIsingEnergy` variables that
    share no factor move at once, each to the best of its states; a model that ends at an
    impossible state has not converged.

    Parameters
    ----------
    max_iter : int or None, default=None
        Largest number of iterations. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    n_restarts : int, default=1
        Number of runs. The first run starts from the biases (fields), the others from random
        states. Each model keeps the best state.
    random_state : int, RandomState or None, default=None
        Seed of the random starts.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import ICM, infer
    >>> energy = RBMEnergy([[2.0], [-3.0]], [-1.0, 1.0], [0.5])
    >>> infer(energy, ICM(n_restarts=5, random_state=0)).assignment
    array([[1, 0, 1]], dtype=int8)
    """

    name: ClassVar = "icm"
    answers: ClassVar = frozenset({"map"})
    default_returns: ClassVar = ("map",)
    accepts: ClassVar = frozenset({"init"})
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "n_restarts": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        max_iter: int | None = None,
        n_restarts: int = 1,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.random_state = random_state

    @property
    def is_random(self) -> bool:
        """Whether there are random starts."""
        return self.n_restarts > 1
