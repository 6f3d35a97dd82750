"""Options of the methods that search for the best state."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skcrbm.energies import BaseEnergy
from skcrbm.inference.base import InferenceMethod, IterativeMethod
from skcrbm.utils.validation import as_float_array


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


class SimulatedAnnealing(InferenceMethod):
    """Joint MAP by simulated annealing (Kirkpatrick, Gelatt and Vecchi 1983).

    A run starts at a random state and makes `n_sweeps` sweeps over all variables, with fields and
    couplings times beta, which grows from sweep to sweep. It keeps the best state that a sweep
    ended at, and improves it at the end as `ICM` does, if the energy has that method. In an
    `IsingEnergy` or `SparseIsingEnergy` a compiled sweep proposes to flip each variable (Metropolis
    et al. 1953), about a million variables in ten milliseconds if each has a few neighbours. Other
    energies make the sweeps of `Gibbs`, one model after the other.

    A model has converged if no change of a single variable raises the score of its state (in an
    RBM, no change of one layer). That is no proof of optimality. For an energy without "icm" a
    model has converged if its state is possible.

    Parameters
    ----------
    n_sweeps : int, default=1000
        Number of sweeps of each run; slower annealing finds better states.
    n_restarts : int, default=1
        Number of runs, each from another random state. Each model keeps the best state.
    beta_range : tuple of two floats or None, default=None
        First and last beta, with 0 < first <= last. None: chosen for each model by the typical
        strength of fields and couplings at its variables. At the first beta most variables move
        freely, at the last beta few of them move.
    schedule : {"geometric", "linear"}, default="geometric"
        Steps of beta: equal ratios, or equal differences.
    random_state : int, RandomState or None, default=None
        Seed. All models use the same random numbers: an answer does not depend on the batch.

    References
    ----------
    Kirkpatrick, Gelatt and Vecchi (1983). Optimization by simulated annealing. Science 220.

    Metropolis, Rosenbluth, Rosenbluth, Teller and Teller (1953). Equation of state calculations
    by fast computing machines. The Journal of Chemical Physics 21.

    Examples
    --------
    >>> from skcrbm.datasets import make_ising_lattice
    >>> from skcrbm.inference import SimulatedAnnealing, infer
    >>> lattice = make_ising_lattice((20, 20), 1.0)
    >>> result = infer(lattice, SimulatedAnnealing(n_sweeps=500, random_state=0))
    >>> float(lattice.score(result.assignment)[0])
    800.0
    """

    name: ClassVar = "simulated_annealing"
    answers: ClassVar = frozenset({"map"})
    default_returns: ClassVar = ("map",)
    restriction: ClassVar = "it takes energies that define `scaled`"
    _parameter_constraints: ClassVar = {
        "n_sweeps": [Interval(Integral, 1, None, closed="left")],
        "n_restarts": [Interval(Integral, 1, None, closed="left")],
        "beta_range": ["array-like", None],
        "schedule": [StrOptions({"geometric", "linear"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_sweeps: int = 1000,
        n_restarts: int = 1,
        beta_range: tuple[float, float] | None = None,
        schedule: str = "geometric",
        random_state: int | np.random.RandomState | None = None,
    ):
        self.n_sweeps = n_sweeps
        self.n_restarts = n_restarts
        self.beta_range = beta_range
        self.schedule = schedule
        self.random_state = random_state

    @property
    def is_random(self) -> bool:
        """Whether answers depend on an option `random_state`: always."""
        return True

    def supports(self, energy: BaseEnergy) -> frozenset:
        """Return the answers for an energy; an empty set if it does not define `scaled`."""
        scales = type(energy).scaled is not BaseEnergy.scaled
        return super().supports(energy) if scales else frozenset()

    def check_options(self) -> None:
        """Raise a ValueError if an option is invalid."""
        super().check_options()
        if self.beta_range is not None:
            ends = as_float_array(self.beta_range, "beta_range", "(2,)")
            if len(ends) != 2 or not 0 < ends[0] <= ends[1]:
                raise ValueError(
                    "beta_range must be (first, last) with 0 < first <= last, got "
                    f"{self.beta_range!r}"
                )
