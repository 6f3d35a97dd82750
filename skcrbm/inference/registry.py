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

_FACTOR_GRAPH = "skcrbm.inference.factor_graph"
_SPARSE_ISING = "skcrbm.inference.ising._sparse"
_AIS = "skcrbm.inference.any_energy._ais:solve"
_MPLP = f"{_FACTOR_GRAPH}._bounds:solve_mplp"
_LINEAR_PROGRAM = f"{_FACTOR_GRAPH}._bounds:solve_linear_program"
_MAP_SEARCH = f"{_FACTOR_GRAPH}.map_search:solve"
_PERTURBED = "skcrbm.inference.any_energy.perturb_and_max_product"
_PERTURB_AND_MAP = "skcrbm.inference.any_energy._perturb_and_map:solve"
_GROUPS = "skcrbm.inference.rbm._group_messages:solve"
_GRADIENTS = "skcrbm.inference.any_energy._gibbs_with_gradients:solve"

#: Maps (method, class of energies) to the location of the solver.
SOLVERS = {
    ("exact", "BaseEnergy"): "skcrbm.inference.any_energy._exact:solve",
    ("exact", "RBMEnergy"): "skcrbm.inference.rbm._exact:solve",
    ("exact", "OneHotRBMEnergy"): "skcrbm.inference.rbm._one_hot:solve",
    ("exact", "GroupedRBMEnergy"): "skcrbm.inference.rbm._groups:solve",
    ("exact", "IsingEnergy"): "skcrbm.inference.ising._exact:solve",
    ("exact", "FactorGraphEnergy"): f"{_FACTOR_GRAPH}._exact:solve",
    ("exact", "CategoricalGraphEnergy"): f"{_FACTOR_GRAPH}._exact:solve",
    ("exact", "SparseIsingEnergy"): f"{_FACTOR_GRAPH}._exact:solve_sparse_ising",
    ("mean_field", "RBMEnergy"): "skcrbm.inference.rbm._mean_field:solve",
    ("mean_field", "GroupedRBMEnergy"): _GROUPS,
    ("mean_field", "IsingEnergy"): "skcrbm.inference.ising._messages:solve_mean_field",
    ("mean_field", "FactorGraphEnergy"): f"{_FACTOR_GRAPH}.messages:solve_mean_field",
    ("mean_field", "CategoricalGraphEnergy"): f"{_FACTOR_GRAPH}.states:solve_mean_field",
    ("mean_field", "SparseIsingEnergy"): f"{_SPARSE_ISING}:solve_mean_field",
    ("mean_field", "LayeredEnergy"): "skcrbm.inference.layered._solve:solve_mean_field",
    ("sum_product", "RBMEnergy"): "skcrbm.inference.rbm._messages:solve_sum_product",
    ("sum_product", "GroupedRBMEnergy"): _GROUPS,
    ("sum_product", "IsingEnergy"): "skcrbm.inference.ising._messages:solve_sum_product",
    ("sum_product", "FactorGraphEnergy"): f"{_FACTOR_GRAPH}.messages:solve_sum_product",
    ("sum_product", "CategoricalGraphEnergy"): f"{_FACTOR_GRAPH}.states:solve_sum_product",
    ("sum_product", "SparseIsingEnergy"): f"{_SPARSE_ISING}:solve_sum_product",
    ("sum_product", "LayeredEnergy"): "skcrbm.inference.layered._solve:solve_sum_product",
    ("tree_reweighted", "RBMEnergy"): "skcrbm.inference.rbm._messages:solve_tree_reweighted",
    ("tree_reweighted", "GroupedRBMEnergy"): _GROUPS,
    ("tree_reweighted", "IsingEnergy"): "skcrbm.inference.ising._messages:solve_tree_reweighted",
    ("tree_reweighted", "FactorGraphEnergy"): f"{_FACTOR_GRAPH}.messages:solve_tree_reweighted",
    ("tree_reweighted", "CategoricalGraphEnergy"): f"{_FACTOR_GRAPH}.states:solve_tree_reweighted",
    ("tree_reweighted", "SparseIsingEnergy"): f"{_SPARSE_ISING}:solve_tree_reweighted",
    ("tree_reweighted", "LayeredEnergy"): "skcrbm.inference.layered._solve:solve_tree_reweighted",
    ("max_product", "RBMEnergy"): "skcrbm.inference.rbm._messages:solve_max_product",
    ("max_product", "GroupedRBMEnergy"): _GROUPS,
    ("max_product", "FactorGraphEnergy"): f"{_FACTOR_GRAPH}.messages:solve_max_product",
    ("max_product", "CategoricalGraphEnergy"): f"{_FACTOR_GRAPH}.states:solve_max_product",
    ("max_product", "SparseIsingEnergy"): f"{_SPARSE_ISING}:solve_max_product",
    ("mixed_product", "RBMEnergy"): "skcrbm.inference.rbm._messages:solve_mixed_product",
    ("branch_and_bound", "IsingEnergy"): "skcrbm.inference.ising._search:solve",
    ("branch_and_bound", "FactorGraphEnergy"): f"{_FACTOR_GRAPH}.search:solve",
    ("milp", "IsingEnergy"): "skcrbm.inference.ising._search:solve",
    ("mplp", "RBMEnergy"): _MPLP,
    ("mplp", "IsingEnergy"): _MPLP,
    ("mplp", "SparseIsingEnergy"): _MPLP,
    ("mplp", "FactorGraphEnergy"): _MPLP,
    ("mplp", "CategoricalGraphEnergy"): _MPLP,
    ("linear_program", "RBMEnergy"): "skcrbm.inference.ising.roof_dual:solve_rbm",
    ("linear_program", "IsingEnergy"): "skcrbm.inference.ising.roof_dual:solve",
    ("linear_program", "SparseIsingEnergy"): _LINEAR_PROGRAM,
    ("linear_program", "FactorGraphEnergy"): _LINEAR_PROGRAM,
    ("linear_program", "CategoricalGraphEnergy"): _LINEAR_PROGRAM,
    ("dual_decomposition", "RBMEnergy"): "skcrbm.inference.rbm._dual_decomposition:solve",
    ("icm", "RBMEnergy"): "skcrbm.inference.rbm._icm:solve",
    ("icm", "IsingEnergy"): "skcrbm.inference.ising._search:solve",
    ("icm", "FactorGraphEnergy"): "skcrbm.inference.any_energy._icm:solve",
    ("icm", "SparseIsingEnergy"): "skcrbm.inference.any_energy._icm:solve",
    ("simulated_annealing", "BaseEnergy"): "skcrbm.inference.any_energy.annealing:solve",
    ("simulated_annealing", "IsingEnergy"): "skcrbm.inference.ising._annealing:solve",
    ("simulated_annealing", "SparseIsingEnergy"): "skcrbm.inference.ising._annealing:solve",
    ("icm", "CategoricalGraphEnergy"): "skcrbm.inference.any_energy._icm:solve",
    ("map_search", "IsingEnergy"): f"{_MAP_SEARCH}_from_energy",
    ("map_search", "SparseIsingEnergy"): f"{_MAP_SEARCH}_from_energy",
    ("map_search", "FactorGraphEnergy"): _MAP_SEARCH,
    ("map_search", "GroupedRBMEnergy"): _GROUPS,
    ("map_search", "CategoricalGraphEnergy"): _MAP_SEARCH,
    ("gibbs", "BaseEnergy"): "skcrbm.inference.any_energy.gibbs:solve",
    ("gibbs_with_gradients", "RBMEnergy"): _GRADIENTS,
    ("gibbs_with_gradients", "IsingEnergy"): f"{_GRADIENTS}_ising",
    ("gibbs_with_gradients", "SparseIsingEnergy"): f"{_GRADIENTS}_ising",
    ("gibbs_with_gradients", "FactorGraphEnergy"): _GRADIENTS,
    ("bp_chain", "RBMEnergy"): f"{_FACTOR_GRAPH}._samplers:solve_bp_chain_rbm",
    ("bp_chain", "IsingEnergy"): f"{_FACTOR_GRAPH}._samplers:solve_bp_chain_ising",
    ("bp_chain", "SparseIsingEnergy"): f"{_FACTOR_GRAPH}._samplers:solve_bp_chain_ising",
    ("bp_chain", "FactorGraphEnergy"): f"{_FACTOR_GRAPH}._samplers:solve_bp_chain",
    ("bp_chain", "CategoricalGraphEnergy"): f"{_FACTOR_GRAPH}._state_samplers:solve_bp_chain",
    ("perturb_and_max_product", "RBMEnergy"): f"{_PERTURBED}:solve_rbm",
    ("perturb_and_max_product", "IsingEnergy"): f"{_PERTURBED}:solve_ising",
    ("perturb_and_max_product", "SparseIsingEnergy"): f"{_PERTURBED}:solve_sparse_ising",
    ("perturb_and_max_product", "FactorGraphEnergy"): (
        f"{_FACTOR_GRAPH}._samplers:solve_perturb_and_max_product"
    ),
    ("perturb_and_max_product", "CategoricalGraphEnergy"): (
        f"{_FACTOR_GRAPH}._state_samplers:solve_perturb_and_max_product"
    ),
    ("perturb_and_map", "RBMEnergy"): f"{_PERTURB_AND_MAP}_rbm",
    ("perturb_and_map", "IsingEnergy"): _PERTURB_AND_MAP,
    ("perturb_and_map", "SparseIsingEnergy"): _PERTURB_AND_MAP,
    ("perturb_and_map", "FactorGraphEnergy"): _PERTURB_AND_MAP,
    ("perturb_and_map", "CategoricalGraphEnergy"): f"{_PERTURB_AND_MAP}_states",
    ("ais", "RBMEnergy"): "skcrbm.inference.rbm._ais:solve",
    ("ais", "IsingEnergy"): _AIS,
    ("ais", "SparseIsingEnergy"): _AIS,
    ("ais", "FactorGraphEnergy"): _AIS,
    ("ais", "CategoricalGraphEnergy"): _AIS,
}

#: Maps a class of energies to the location of its Gibbs sweep; see `gibbs_sweep`.
SWEEPS = {
    "BaseEnergy": "skcrbm.inference.any_energy.gibbs:sweep_blocks",
    "IsingEnergy": "skcrbm.inference.any_energy.gibbs:sweep_ising_model",
    "SparseIsingEnergy": "skcrbm.inference.any_energy.gibbs:sweep_sparse_ising",
    "FactorGraphEnergy": "skcrbm.inference.any_energy.gibbs:sweep_factor_graph",
    "CategoricalGraphEnergy": "skcrbm.inference.any_energy.gibbs:sweep_categorical_graph",
}

#: Maps (method, class of energies) to the answers of the solver, if the solver does not give all
#: answers of the method.
ANSWERS = {
    ("mean_field", "LayeredEnergy"): frozenset({"marginals", "statistics"}),
    ("sum_product", "LayeredEnergy"): frozenset({"marginals", "statistics"}),
    ("tree_reweighted", "LayeredEnergy"): frozenset({"marginals", "statistics"}),
}


def _classes_of_the_model(energy_type: type[BaseEnergy]) -> list[str]:
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


@lru_cache(maxsize=1024)
def _solver_class(method: str, energy_type: type[BaseEnergy]) -> str:
    """Return the name of the Python class under which `SOLVERS` has the solver for `energy_type`.

    It is `energy_type` itself or one of its base classes. The result is "" if there is no solver.
    """
    names = _classes_of_the_model(energy_type)
    return next((name for name in names if (method, name) in SOLVERS), "")


@lru_cache(maxsize=1024)
def _sweep_class(energy_type: type[BaseEnergy]) -> str:
    """Return the name of the class of energies whose Gibbs sweep is used for `energy_type`."""
    return next(name for name in _classes_of_the_model(energy_type) if name in SWEEPS)


@cache
def _imported(location: str, registered: str = "a function of skcrbm") -> Callable:
    """Import the function whose location is ``"module:function"``.

    `registered` describes the function in the error message.
    """
    return import_location(location, registered)


def energies_of(method: str) -> list[str]:
    """List the names of the classes of energies for which a method has solvers in the table."""
    return [energy for name, energy in SOLVERS if name == method]


def has_solver(method: str, energy_type: type[BaseEnergy]) -> bool:
    """Return True if the method with this name has a solver for a class of energies."""
    return _solver_class(method, energy_type) != ""


def solver_for(method: str, energy_type: type[BaseEnergy]) -> Callable:
    """Return the solver of the method with this name for a class of energies that it supports."""
    key = method, _solver_class(method, energy_type)
    return _imported(SOLVERS[key], f"the solver of {method!r} for {key[1]}")


def solver_location(method: str, energy_type: type[BaseEnergy]) -> str:
    """Return the location of a method's solver for a class of energies, or "" if none exists."""
    return SOLVERS.get((method, _solver_class(method, energy_type)), "")


def sweep_for(energy_type: type[BaseEnergy]) -> Callable:
    """Return the function that runs Gibbs sweeps for a class of energies."""
    return _imported(SWEEPS[_sweep_class(energy_type)])


def answers_of(method: str, energy_type: type[BaseEnergy], answers: frozenset) -> frozenset:
    """Return the subset of `answers` that the solver for a class of energies gives."""
    name = _solver_class(method, energy_type)
    return answers & ANSWERS.get((method, name), answers) if name else frozenset()


def _energy_names():
    """Return the names of all classes of energies that are defined at this time."""
    names, classes = {energy for _, energy in SOLVERS}, [BaseEnergy]
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
    key = method, energy_type
    if SOLVERS.get(key, location) != location:
        raise ValueError(f"{method!r} already has a solver for {energy_type}: {SOLVERS[key]}")
    SOLVERS[key] = location
    if answers is not None:
        ANSWERS[key] = frozenset(answers)
    _solver_class.cache_clear()
    _imported.cache_clear()  # a user may have redefined the function at this location in a notebook
