"""Register inference methods, and find the solver of a method for a class of energies.

A method is a class of options in `methods/`, with an entry in `METHODS`. A solver is a function
``solve(method, energy, query) -> dict of InferenceResult fields``, with an entry in `SOLVERS`. To
add an energy or a method, add entries to these tables; existing methods and energies need no
change. Other packages call `register_method` and `register_solver`.

A solver for a class of energies is also used for subclasses. `infer` goes through the classes in
the MRO (method resolution order) of the energy, and takes the first solver that it finds. But if a
subclass overrides the score, it is a different model, and only solvers of classes whose score is
abstract, such as `BaseEnergy`, are valid for the subclass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from inspect import signature
from typing import Any

from skcrbm.energies import BaseEnergy
from skcrbm.energies.base import QUERIES
from skcrbm.utils.options import Registry, import_location

METHODS = Registry(
    "inference",
    {
        "exact": "skcrbm.inference.methods.exact:Exact",
        "mean_field": "skcrbm.inference.methods._messages:MeanField",
        "sum_product": "skcrbm.inference.methods._messages:SumProduct",
        "tree_reweighted": "skcrbm.inference.methods._messages:TreeReweighted",
        "max_product": "skcrbm.inference.methods._messages:MaxProduct",
        "mixed_product": "skcrbm.inference.methods._messages:MixedProduct",
        "branch_and_bound": "skcrbm.inference.methods._searches:BranchAndBound",
        "milp": "skcrbm.inference.methods._searches:MixedIntegerProgram",
        "mplp": "skcrbm.inference.methods._bounds:MPLP",
        "linear_program": "skcrbm.inference.methods._bounds:LinearProgram",
        "dual_decomposition": "skcrbm.inference.methods._bounds:DualDecomposition",
        "icm": "skcrbm.inference.methods._searches:ICM",
        "map_search": "skcrbm.inference.methods._searches:MapSearch",
        "simulated_annealing": "skcrbm.inference.methods._searches:SimulatedAnnealing",
        "gibbs": "skcrbm.inference.methods._samplers:Gibbs",
        "gibbs_with_gradients": "skcrbm.inference.methods._samplers:GibbsWithGradients",
        "bp_chain": "skcrbm.inference.methods._samplers:BPChain",
        "perturb_and_max_product": "skcrbm.inference.methods._samplers:PerturbAndMaxProduct",
        "perturb_and_map": "skcrbm.inference.methods._samplers:PerturbAndMAP",
        "ais": "skcrbm.inference.methods._samplers:AnnealedImportanceSampling",
    },
)

#: Maps a method and a class of energies to the location of the solver.
SOLVERS = {
    "exact": {
        "BaseEnergy": "skcrbm.inference.exact.all_states:solve",
        "RBMEnergy": "skcrbm.inference.exact.rbm:solve",
        "GroupedRBMEnergy": "skcrbm.inference.exact.grouped_rbm:solve",
        "OneHotRBMEnergy": "skcrbm.inference.exact.grouped_rbm:solve",
        "IsingEnergy": "skcrbm.inference.exact.ising:solve",
        "FactorGraphEnergy": "skcrbm.inference.exact.elimination:solve",
    },
    "mean_field": {
        "RBMEnergy": "skcrbm.inference.rbm._mean_field:solve",
        "GroupedRBMEnergy": "skcrbm.inference.rbm._group_messages:solve",
        "IsingEnergy": "skcrbm.inference.ising.mean_field:solve",
        "FactorGraphEnergy": "skcrbm.inference.factor_graph.mean_field:solve",
        "LayeredEnergy": "skcrbm.inference.layered._solve:solve_mean_field",
    },
    "sum_product": {
        "RBMEnergy": "skcrbm.inference.rbm._messages:solve_sum_product",
        "GroupedRBMEnergy": "skcrbm.inference.rbm._group_messages:solve",
        "IsingEnergy": "skcrbm.inference.ising.messages:solve_sum_product",
        "FactorGraphEnergy": "skcrbm.inference.factor_graph.messages:solve_sum_product",
        "LayeredEnergy": "skcrbm.inference.layered._solve:solve_sum_product",
    },
    "tree_reweighted": {
        "RBMEnergy": "skcrbm.inference.rbm._messages:solve_tree_reweighted",
        "GroupedRBMEnergy": "skcrbm.inference.rbm._group_messages:solve",
        "IsingEnergy": "skcrbm.inference.ising.messages:solve_tree_reweighted",
        "FactorGraphEnergy": "skcrbm.inference.factor_graph.messages:solve_tree_reweighted",
        "LayeredEnergy": "skcrbm.inference.layered._solve:solve_tree_reweighted",
    },
    "max_product": {
        "RBMEnergy": "skcrbm.inference.rbm._messages:solve_max_product",
        "GroupedRBMEnergy": "skcrbm.inference.rbm._group_messages:solve",
        "IsingEnergy": "skcrbm.inference.ising.messages:solve_max_product",
        "FactorGraphEnergy": "skcrbm.inference.factor_graph.messages:solve_max_product",
    },
    "mixed_product": {
        "RBMEnergy": "skcrbm.inference.rbm._messages:solve_mixed_product",
    },
    "branch_and_bound": {
        "IsingEnergy": "skcrbm.inference.search.labels:solve",
        "FactorGraphEnergy": "skcrbm.inference.search.labels:solve",
    },
    "milp": {
        "IsingEnergy": "skcrbm.inference.search.labels:solve",
    },
    "mplp": {
        "RBMEnergy": "skcrbm.inference.search.pair_bounds:solve_mplp",
        "IsingEnergy": "skcrbm.inference.search.pair_bounds:solve_mplp",
        "FactorGraphEnergy": "skcrbm.inference.search.pair_bounds:solve_mplp",
    },
    "linear_program": {
        "RBMEnergy": "skcrbm.inference.search.roof_dual:solve_rbm",
        "IsingEnergy": "skcrbm.inference.search.roof_dual:solve",
        "FactorGraphEnergy": "skcrbm.inference.search.pair_bounds:solve_linear_program",
    },
    "dual_decomposition": {
        "RBMEnergy": "skcrbm.inference.rbm._dual_decomposition:solve",
    },
    "icm": {
        "RBMEnergy": "skcrbm.inference.rbm._icm:solve",
        "IsingEnergy": "skcrbm.inference.search.labels:solve_icm",
        "FactorGraphEnergy": "skcrbm.inference.any_energy._icm:solve",
    },
    "map_search": {
        "GroupedRBMEnergy": "skcrbm.inference.rbm._group_messages:solve",
        "IsingEnergy": "skcrbm.inference.search.map_search:solve_from_energy",
        "FactorGraphEnergy": "skcrbm.inference.search.map_search:solve",
    },
    "simulated_annealing": {
        "BaseEnergy": "skcrbm.inference.any_energy.annealing:solve",
        "IsingEnergy": "skcrbm.inference.ising._annealing:solve",
    },
    "gibbs": {
        "BaseEnergy": "skcrbm.inference.any_energy.gibbs:solve",
    },
    "gibbs_with_gradients": {
        "RBMEnergy": "skcrbm.inference.any_energy._gibbs_with_gradients:solve",
        "IsingEnergy": "skcrbm.inference.any_energy._gibbs_with_gradients:solve_ising",
        "FactorGraphEnergy": "skcrbm.inference.any_energy._gibbs_with_gradients:solve",
    },
    "bp_chain": {
        "RBMEnergy": "skcrbm.inference.factor_graph.bp_chain:solve",
        "IsingEnergy": "skcrbm.inference.factor_graph.bp_chain:solve",
        "FactorGraphEnergy": "skcrbm.inference.factor_graph.bp_chain:solve",
    },
    "perturb_and_max_product": {
        "RBMEnergy": "skcrbm.inference.any_energy.perturb_and_max_product:solve_rbm",
        "IsingEnergy": "skcrbm.inference.any_energy.perturb_and_max_product:solve_ising",
        "FactorGraphEnergy": "skcrbm.inference.factor_graph.perturbed_maxima:solve",
    },
    "perturb_and_map": {
        "RBMEnergy": "skcrbm.inference.any_energy._perturb_and_map:solve_rbm",
        "IsingEnergy": "skcrbm.inference.any_energy._perturb_and_map:solve",
        "FactorGraphEnergy": "skcrbm.inference.any_energy._perturb_and_map:solve",
    },
    "ais": {
        "RBMEnergy": "skcrbm.inference.rbm._ais:solve",
        "IsingEnergy": "skcrbm.inference.any_energy._ais:solve",
        "FactorGraphEnergy": "skcrbm.inference.any_energy._ais:solve",
    },
}

#: Maps (method, class of energies) to the answers of the solver, if the solver does not give all
#: answers of the method.
ANSWERS = {
    ("mean_field", "LayeredEnergy"): frozenset({"marginals", "statistics"}),
    ("sum_product", "LayeredEnergy"): frozenset({"marginals", "statistics"}),
    ("tree_reweighted", "LayeredEnergy"): frozenset({"marginals", "statistics"}),
}


@lru_cache(maxsize=1024)
def classes_of_the_model(energy_type: type[BaseEnergy]) -> list[str]:
    """List the base classes of `energy_type` whose solvers are valid for `energy_type`.

    The list includes `energy_type` itself. A solver for a base class is valid if the base class has
    the same method `score` as `energy_type`, or if its score is abstract.
    """
    names = []
    for base in energy_type.__mro__:
        score = getattr(base, "_score", None)
        same = score is energy_type._score and base.score is energy_type.score  # type: ignore
        if same or getattr(score, "__isabstractmethod__", False):
            names.append(base.__name__)
    return names


def entry_for(table: dict[str, Any], energy_type: type[BaseEnergy]) -> str:
    """Return the key of a table, the name of a class, whose entry is valid for `energy_type`.

    The result is "" if there is no such entry.
    """
    return next((name for name in classes_of_the_model(energy_type) if name in table), "")


def _solver_class(method: str, energy_type: type[BaseEnergy]) -> str:
    """Return the name of the class of energies whose solver is used, or "" without a solver."""
    return entry_for(SOLVERS.get(method, {}), energy_type)


@cache
def _imported(location: str, registered: str) -> Callable:
    """Import the function whose location is ``"module:function"``.

    `registered` describes the function in the error message.
    """
    return import_location(location, registered)


def energies_of(method: str) -> list[str]:
    """List the names of the classes of energies for which a method has solvers in the table."""
    return list(SOLVERS.get(method, {}))


def has_solver(method: str, energy_type: type[BaseEnergy]) -> bool:
    """Return True if the method with this name has a solver for a class of energies."""
    return _solver_class(method, energy_type) != ""


def solver_for(method: str, energy_type: type[BaseEnergy]) -> Callable:
    """Return the solver of the method with this name for a class of energies that it supports."""
    name = _solver_class(method, energy_type)
    return _imported(SOLVERS[method][name], f"the solver of {method!r} for {name}")


def solver_location(method: str, energy_type: type[BaseEnergy]) -> str:
    """Return the location of a method's solver for a class of energies, or "" if none exists."""
    return SOLVERS.get(method, {}).get(_solver_class(method, energy_type), "")


def answers_of(method: str, energy_type: type[BaseEnergy], answers: frozenset) -> frozenset:
    """Return the subset of `answers` that the solver for a class of energies gives."""
    name = _solver_class(method, energy_type)
    return answers & ANSWERS.get((method, name), answers) if name else frozenset()


def _energy_names():
    """Return the names of all classes of energies that are defined at this time."""
    names, classes = set().union(*SOLVERS.values()), [BaseEnergy]
    while classes:
        kind = classes.pop()
        names.add(kind.__name__)
        classes += kind.__subclasses__()
    return sorted(name for name in names if not name.startswith("_"))


def _check_location(location):
    if not isinstance(location, str) or location.count(":") != 1:
        raise ValueError(f"location must be a string 'module:attribute', got {location!r}")


@lru_cache(maxsize=1024)
def check_method_class(found: Any, base: type, name: str) -> None:
    """Raise an error unless `found` is a valid class for the method registered as `name`.

    `base` is the class `InferenceMethod`; `found` must be a subclass of it. The error, a TypeError
    or a ValueError, contains the registered location.
    """
    text = f"inference={name!r} is registered as {METHODS.locations[name]!r}, "
    if not (isinstance(found, type) and issubclass(found, base)):
        raise TypeError(f"{text}which must be a subclass of InferenceMethod; got {found!r}")
    kind: Any = found
    if kind.name != name:
        raise ValueError(f"{text}whose attribute name must be {name!r}; got {kind.name!r}")
    answers = kind.answers
    if not isinstance(answers, (frozenset, set)) or not answers <= QUERIES:
        raise ValueError(
            f"{text}whose attribute answers must be a frozenset of values from {sorted(QUERIES)}; "
            f"got {answers!r}"
        )
    required = [p.name for p in signature(kind).parameters.values() if p.default is p.empty]
    if required:
        raise TypeError(f"{text}whose options need defaults; {required[0]!r} has no default")


def register_method(name: str, location: str) -> None:
    """Register an inference method of another package.

    Parameters
    ----------
    name : str
        Name of the method in `infer`.
    location : str
        Location ``"module:Class"`` of the `InferenceMethod`, which is imported on first use. The
        options of the class need defaults, and its attribute `name` must be this name.

    Raises
    ------
    ValueError
        If a method with this name exists, or if the location is not of the form "module:Class". If
        the location cannot be imported, an ImportError is raised when the method is first used by
        its name.
    """
    _check_location(location)
    METHODS.register(name, location)


def register_solver(
    method: str, energy_type: str, location: str, answers: Iterable[str] | None = None
) -> None:
    """Register a solver of another package, for a new method, a new class of energies, or both.

    Parameters
    ----------
    method : str
        Name of the method, which must be registered.
    energy_type : str
        Name of the class of energies, which must be defined before this call. The solver is also
        used for subclasses, unless they override the score or have another solver. "BaseEnergy"
        registers the solver for all energies that have no other solver.
    location : str
        Location ``"module:function"`` of the solver, which is imported on first use. `infer` raises
        an error if the solver returns unknown fields, wrong shapes or NaN.
    answers : iterable of str, default=None
        Answers of this solver. None: all answers of the method.

    Raises
    ------
    ValueError
        If the method or the class of energies is unknown, if the method already has another solver
        for this class, or if an argument is invalid.
    """
    _check_location(location)
    if method not in METHODS or not isinstance(energy_type, str):
        raise ValueError(
            "register_solver takes the name of a registered method and the name of a class of "
            f"energies; got {method!r} and {energy_type!r}"
        )
    known = _energy_names()
    if energy_type not in known:
        raise ValueError(
            f"energy_type must be the name of a class of energies, one of "
            f"{', '.join(map(repr, known))}; got {energy_type!r}. Define or import a class of "
            "energies before you register a solver for it"
        )
    if answers is not None and (isinstance(answers, str) or not set(answers) <= QUERIES):
        raise ValueError(
            f"answers must contain only values from {sorted(QUERIES)}; got {answers!r}"
        )
    solvers = SOLVERS.setdefault(method, {})
    if solvers.setdefault(energy_type, location) != location:
        raise ValueError(
            f"{method!r} already has a solver for {energy_type}: {solvers[energy_type]}"
        )
    if answers is not None:
        ANSWERS[method, energy_type] = frozenset(answers)
    _imported.cache_clear()  # a user may have redefined the function at this location in a notebook
