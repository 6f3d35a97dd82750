"""Options of the methods that search for the best state."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar

import numpy as np

from skcrbm.energies import BaseEnergy
from skcrbm.inference.base import InferenceMethod, IterativeMethod
from skcrbm.utils.limits import MAX_ELIMINATED_ENTRIES
from skcrbm.utils.sklearn_private import Interval, StrOptions
from skcrbm.utils.validation import as_float_array


class BranchAndBound(InferenceMethod):
    """MAP of an `IsingEnergy` or `FactorGraphEnergy` by branch and bound, proven optimal.

    The method is a depth-first search over the labels. The search begins with the labels whose
    signs depend least on the other labels. The state is optimal up to rounding (1e-11 of the
    largest field), unless the search of a model reaches the limit of nodes. Such a model has not
    converged, has a positive `gap`, and its `stopped_by` is "max_nodes". `n_iter` counts nodes. If
    a rounding error of this size is above 1e-6, as with penalties of 1e12, the model is searched by
    "map_search" instead, with up to 100 times `node_limit` nodes.

    For an `IsingEnergy` the search starts from the local optimum of "icm". Bounds come from the
    fields and, if these bounds are weak, also from reparametrised costs of pairs [1]_. The factors
    of a factor graph must be tables without entries of weight 0. Its score is written as a sum of
    products over cliques of -1/+1 variables, and a bound is the sum of the largest contributions of
    the fields and cliques.

    Parameters
    ----------
    node_limit : int, default=50_000
        Largest number of nodes of the search tree of a model. If a search reaches the limit, the
        best state found so far is returned.

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
    categorical_alternative: ClassVar = "map_search"
    answers: ClassVar = frozenset({"map", "map_bound"})
    default_returns: ClassVar = ("map", "map_bound")
    restriction: ClassVar = "it cannot handle weights of 0 (entries of -inf, OR or AND factors)"
    _parameter_constraints: ClassVar = {
        "node_limit": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, node_limit: int = 50_000):
        self.node_limit = node_limit

    def supports(self, energy: BaseEnergy) -> frozenset:
        """Return the answers for an energy. The set is empty if some states have weight 0."""
        return frozenset() if energy.has_zeros else super().supports(energy)


class MixedIntegerProgram(InferenceMethod):
    """MAP of an `IsingEnergy` by mixed integer programs, solved by HiGHS [1]_.

    There is a program for each model, with a binary variable for each label and a variable for the
    product of each coupled pair. The method is slow; its purpose is an independent check of
    "branch_and_bound". The tolerances of HiGHS are added to its bound, so the `gap` of the best
    state is about 1e-8 of the largest field instead of 0, unless all labels follow from their
    fields alone, and its `stopped_by` is "precision". A model has converged if its gap is at most a
    thousandth of its smallest coupling or field. `n_iter` counts nodes.

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
    categorical_alternative: ClassVar = "map_search"
    answers: ClassVar = frozenset({"map", "map_bound"})
    default_returns: ClassVar = ("map", "map_bound")


class ICM(IterativeMethod):
    """Joint MAP by iterated conditional modes (Besag 1986).

    The method sets variables to their best values given the other variables, which never lowers the
    score, until the state is a local optimum. The result has the log-odds of each variable given
    all other variables (in an RBM, given the other layer).

    In an RBM an iteration sets all visible units to their best values given the hidden units, then
    the hidden units to their best values given the visible units. At the end, no change of a single
    layer improves the score. In an `IsingEnergy` with a matrix of couplings an iteration sets the
    labels one by one. In sparse models and factor graphs, variables that share no factor are set
    together. A model whose state is impossible at the end has not converged.

    Parameters
    ----------
    max_iter : int or None, default=None
        Largest number of iterations. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    n_restarts : int, default=1
        Number of runs. The first run starts from the biases (fields), the other runs from random
        states. Each model keeps its best state.
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
        """Whether answers depend on `random_state`: True if there are random restarts."""
        return self.n_restarts > 1


class MapSearch(InferenceMethod):
    """Best state of a factor graph by elimination, moves of many variables, and branch and bound.

    The model is first made smaller: clamped variables are replaced by their values, a state is
    removed if a table makes it impossible [1]_, and variables with few neighbours are maximised
    out. Each connected component of the remaining model is then solved separately. If the tables of
    variable elimination are small, elimination finds the best state. Otherwise seven searches share
    the work:

    - Annealing draws one variable after the other, while the temperature falls. Most runs start
      from the best state, at a temperature that keeps most of it, and later runs are longer.
    - Max-product passes messages, and takes the states of the largest beliefs.
    - Forest moves choose a random set of variables that has no cycle (a forest), and draw these
      variables jointly given all other variables [2]_. The temperature falls to 0, at which the
      variables are maximised jointly instead of drawn. Here and in annealing, an entry of weight 0
      counts as a penalty, which grows until the state is possible.
    - Frontier sweeps maximise regions of bounded width, such as strips of a lattice, given the
      variables around them. The sweeps start from a state that is disturbed by noise. After many
      disturbances without a better state, the sweeps start again from a new state: alternately
      from a random state, and from the best state with wider regions.
    - Max-product linear programming (see `MPLP`) bounds the score from above, and its beliefs
      give a state to start from.
    - A hybrid best-first branch and bound [5]_ continues MPLP at each node, after the decision for
      one variable, and removes all states and table entries whose bound is not above the best score
      [1]_.
    - A depth-first branch and bound computes its bounds by mini-buckets [3]_, from the tables after
      the shifts by MPLP.

    All searches share the best state. If a search finds a state that is better in some connected
    set of variables only, these values are copied to the best state [4]_. Half of the work is
    divided in fixed shares; the other half goes to the search that has lately raised the score
    most. No decision depends on a limit, so that a search with a larger `max_nodes` repeats a
    search with a smaller one and goes on: its state is never worse.

    A model has converged if its state is proven to be the best, up to rounding; its `gap` is then
    0. `stopped_by` is "proved", "precision", "max_nodes" or "time_limit", see `InferenceResult`. If
    terms of a model differ so much in size that rounding could hide the small terms, such as
    penalties of 1e12 beside couplings of 1, table entries that no best state can contain are
    removed first. If no possible state was found, a warning is given, and the gap is infinite. All
    numbers are computed in float64 for every dtype of the energy. `n_iter` counts nodes; it is 0 if
    elimination found the best state.

    The method works on an `IsingEnergy` or a `FactorGraphEnergy` of variables with any number of
    states. Without a time limit the answer depends on `random_state` and the other options alone,
    and not on `n_jobs`; with a time limit it also depends on the speed of the machine.

    Parameters
    ----------
    time_limit : float or None, default=None
        Largest number of seconds for a model, by the clock on the wall. All work counts, except
        that the kernels are compiled or loaded first, which takes some seconds in the first call
        with an empty cache. The search uses the whole time unless it proves its state, and may end
        some hundredths of a second late. None: no limit.
    max_nodes : int or None, default=None
        Largest number of nodes for a model. A node is the choice of a state for a variable, in a
        move or in the search tree, or an equal amount of other work. The search visits a few
        million nodes in a second. The first limit that is reached ends the search. None: no limit
        if there is a time limit, else 10,000,000.
    random_state : int, RandomState or None, default=None
        Seed of the search. All models use the same random numbers.
    max_entries : int, default=2**24
        Largest number of entries of a table that elimination may make. The work of elimination does
        not count towards `max_nodes`. With a time limit, a long elimination begins after the other
        searches have worked for a sixteenth of its time, and only if it can end in time.

    Raises
    ------
    ValueError
        If all states of a model are found to have weight 0.

    References
    ----------
    .. [1] Cooper and Schiex (2004). Arc consistency for soft constraints. Artificial
       Intelligence 154.
    .. [2] Hamze and de Freitas (2004). From fields to trees. UAI.
    .. [3] Dechter and Rish (2003). Mini-buckets: a general scheme for bounded inference. Journal
       of the ACM 50.
    .. [4] Tinos, Whitley and Chicano (2015). Partition crossover for pseudo-Boolean optimization.
       FOGA.
    .. [5] Allouche, de Givry, Katsirelos, Schiex and Zytnicki (2015). Anytime hybrid best-first
       search with tree decomposition for weighted CSP. CP.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.energies import FactorGraphEnergy, TableFactors
    >>> from skcrbm.inference import MapSearch, infer
    >>> differ = TableFactors([[0, 1], [1, 2], [0, 2]], -np.eye(3))
    >>> energy = FactorGraphEnergy([differ], [[1.0, 0, 0], [1.5, 1, 0], [0, 0, 0.25]])
    >>> result = infer(energy, MapSearch(random_state=0))
    >>> result.assignment, result.map_bound, result.converged
    (array([[0, 1, 2]], dtype=int8), array([2.25]), array([ True]))
    """

    name: ClassVar = "map_search"
    refuses_contradictions: ClassVar = True
    answers: ClassVar = frozenset({"map", "map_bound"})
    default_returns: ClassVar = ("map", "map_bound")
    _parameter_constraints: ClassVar = {
        "time_limit": [Interval(Real, 0, None, closed="neither"), None],
        "max_nodes": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "max_entries": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        time_limit: float | None = None,
        max_nodes: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        max_entries: int = MAX_ELIMINATED_ENTRIES,
    ):
        self.time_limit = time_limit
        self.max_nodes = max_nodes
        self.random_state = random_state
        self.max_entries = max_entries

    @property
    def is_random(self) -> bool:
        """Whether answers depend on the option `random_state`; always True."""
        return True


class SimulatedAnnealing(InferenceMethod):
    """Joint MAP by simulated annealing (Kirkpatrick, Gelatt and Vecchi 1983).

    A run starts from a random state and makes `n_sweeps` sweeps over all variables. In a sweep,
    fields and couplings are multiplied by beta, which grows from sweep to sweep. The run compares
    the states at the ends of all sweeps, and keeps the best state. Finally `ICM` improves this
    state if the energy supports this method. For an `IsingEnergy` a compiled
    sweep proposes to flip each variable (Metropolis et al. 1953); a sweep over a million variables
    with a few neighbours each takes about ten milliseconds. For other energies the method uses the
    sweeps of `Gibbs`, for each model in turn.

    A model has converged if no change of a single variable raises the score of its state (in an
    RBM, no change of a single layer), which does not prove that the state is optimal. If the energy
    does not support "icm", a model has converged if its state is possible.

    Parameters
    ----------
    n_sweeps : int, default=1000
        Number of sweeps of each run. With more sweeps, annealing is slower and finds better states.
    n_restarts : int, default=1
        Number of runs, each from a different random state. Each model keeps its best state.
    beta_range : tuple of two floats or None, default=None
        First and last beta, with 0 < first <= last. None: chosen for each model from the typical
        size of the fields and couplings, such that most variables change freely at the first beta,
        and few variables change at the last beta.
    schedule : {"geometric", "linear"}, default="geometric"
        Schedule of beta: "geometric" for a constant ratio between sweeps, "linear" for a constant
        difference.
    random_state : int, RandomState or None, default=None
        Seed. All models use the same random numbers, so that an answer does not depend on the other
        models of the batch.

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
    restriction: ClassVar = "it requires a class of energies that overrides `scaled`"
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
        """Whether answers depend on the option `random_state`; always True."""
        return True

    def supports(self, energy: BaseEnergy) -> frozenset:
        """Return the answers for an energy. The set is empty if its class has no `scaled`."""
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
