"""Methods by name, and the solvers of each method by kind of energy.

A method is a file with its options and a line in `METHODS`; a solver is a function
``solve(method, energy, query) -> dict of InferenceResult fields`` and a line in `SOLVERS`.
A new energy edits no method and a new method no energy: either adds lines here, or calls
`register_method` and `register_solver` from a package of its own.
"""

from importlib import import_module

from skcrbm.energies.base import QUERIES
from skcrbm.utils.registry import Registry

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
        "dual_decomposition": ("skcrbm.inference.methods._bounds:DualDecomposition"),
        "icm": "skcrbm.inference.methods._searches:ICM",
        "gibbs": "skcrbm.inference.methods._samplers:Gibbs",
        "gibbs_with_gradients": "skcrbm.inference.methods._samplers:GibbsWithGradients",
        "bp_chain": "skcrbm.inference.methods._samplers:BPChain",
        "perturb_and_max_product": ("skcrbm.inference.methods._samplers:PerturbAndMaxProduct"),
        "ais": "skcrbm.inference.methods._samplers:AnnealedImportanceSampling",
    },
)

_FACTOR_GRAPH = "skcrbm.inference.factor_graph"
_SPARSE_ISING = "skcrbm.inference.ising._sparse"
_AIS = "skcrbm.inference.any_energy._ais:solve"
_MPLP = f"{_FACTOR_GRAPH}._bounds:solve_mplp"
_LINEAR_PROGRAM = f"{_FACTOR_GRAPH}._bounds:solve_linear_program"
_PERTURBED = "skcrbm.inference.any_energy.perturb_and_max_product"
_GRADIENTS = "skcrbm.inference.any_energy._gibbs_with_gradients:solve"

#: (method, kind of energy) -> where the solver is. "BaseEnergy" stands for every kind that
#: has no line of its own for the method.
SOLVERS = {
    ("exact", "BaseEnergy"): "skcrbm.inference.any_energy._exact:solve",
    ("exact", "RBMEnergy"): "skcrbm.inference.rbm._exact:solve",
    ("exact", "OneHotRBMEnergy"): "skcrbm.inference.rbm._one_hot:solve",
    ("exact", "IsingEnergy"): "skcrbm.inference.ising._exact:solve",
    ("exact", "FactorGraphEnergy"): f"{_FACTOR_GRAPH}._exact:solve",
    ("exact", "SparseIsingEnergy"): f"{_FACTOR_GRAPH}._exact:solve_sparse_ising",
    ("mean_field", "RBMEnergy"): "skcrbm.inference.rbm._mean_field:solve",
    ("mean_field", "IsingEnergy"): "skcrbm.inference.ising._messages:solve",
    ("mean_field", "FactorGraphEnergy"): f"{_FACTOR_GRAPH}.messages:solve_mean_field",
    ("mean_field", "SparseIsingEnergy"): f"{_SPARSE_ISING}:solve_mean_field",
    ("mean_field", "LayeredEnergy"): "skcrbm.inference.layered._solve:solve_mean_field",
    ("sum_product", "RBMEnergy"): "skcrbm.inference.rbm._messages:solve_sum_product",
    ("sum_product", "IsingEnergy"): "skcrbm.inference.ising._messages:solve_sum_product",
    ("sum_product", "FactorGraphEnergy"): f"{_FACTOR_GRAPH}.messages:solve_sum_product",
    ("sum_product", "SparseIsingEnergy"): f"{_SPARSE_ISING}:solve_sum_product",
    ("sum_product", "LayeredEnergy"): "skcrbm.inference.layered._solve:solve_sum_product",
    ("tree_reweighted", "RBMEnergy"): "skcrbm.inference.rbm._messages:solve_tree_reweighted",
    ("tree_reweighted", "IsingEnergy"): "skcrbm.inference.ising._messages:solve_tree_reweighted",
    ("tree_reweighted", "FactorGraphEnergy"): f"{_FACTOR_GRAPH}.messages:solve_tree_reweighted",
    ("tree_reweighted", "SparseIsingEnergy"): f"{_SPARSE_ISING}:solve_tree_reweighted",
    ("tree_reweighted", "LayeredEnergy"): "skcrbm.inference.layered._solve:solve_tree_reweighted",
    ("max_product", "RBMEnergy"): "skcrbm.inference.rbm._messages:solve_max_product",
    ("max_product", "FactorGraphEnergy"): f"{_FACTOR_GRAPH}.messages:solve_max_product",
    ("max_product", "SparseIsingEnergy"): f"{_SPARSE_ISING}:solve_max_product",
    ("mixed_product", "RBMEnergy"): "skcrbm.inference.rbm._messages:solve_mixed_product",
    ("branch_and_bound", "IsingEnergy"): "skcrbm.inference.ising._search:solve",
    ("branch_and_bound", "FactorGraphEnergy"): f"{_FACTOR_GRAPH}.search:solve",
    ("milp", "IsingEnergy"): "skcrbm.inference.ising._search:solve",
    ("mplp", "RBMEnergy"): _MPLP,
    ("mplp", "IsingEnergy"): _MPLP,
    ("mplp", "SparseIsingEnergy"): _MPLP,
    ("mplp", "FactorGraphEnergy"): _MPLP,
    ("linear_program", "RBMEnergy"): _LINEAR_PROGRAM,
    ("linear_program", "IsingEnergy"): "skcrbm.inference.ising.roof_dual:solve",
    ("linear_program", "SparseIsingEnergy"): _LINEAR_PROGRAM,
    ("linear_program", "FactorGraphEnergy"): _LINEAR_PROGRAM,
    ("dual_decomposition", "RBMEnergy"): "skcrbm.inference.rbm._dual_decomposition:solve",
    ("icm", "RBMEnergy"): "skcrbm.inference.rbm._icm:solve",
    ("icm", "IsingEnergy"): "skcrbm.inference.ising._search:solve",
    ("icm", "FactorGraphEnergy"): "skcrbm.inference.any_energy._icm:solve",
    ("icm", "SparseIsingEnergy"): "skcrbm.inference.any_energy._icm:solve",
    ("gibbs", "BaseEnergy"): "skcrbm.inference.any_energy.gibbs:solve",
    ("gibbs_with_gradients", "RBMEnergy"): _GRADIENTS,
    ("gibbs_with_gradients", "IsingEnergy"): f"{_GRADIENTS}_ising",
    ("gibbs_with_gradients", "SparseIsingEnergy"): f"{_GRADIENTS}_ising",
    ("gibbs_with_gradients", "FactorGraphEnergy"): _GRADIENTS,
    ("bp_chain", "RBMEnergy"): f"{_FACTOR_GRAPH}._samplers:solve_bp_chain_rbm",
    ("bp_chain", "IsingEnergy"): f"{_FACTOR_GRAPH}._samplers:solve_bp_chain_ising",
    ("bp_chain", "SparseIsingEnergy"): f"{_FACTOR_GRAPH}._samplers:solve_bp_chain_ising",
    ("bp_chain", "FactorGraphEnergy"): f"{_FACTOR_GRAPH}._samplers:solve_bp_chain",
    ("perturb_and_max_product", "RBMEnergy"): f"{_PERTURBED}:solve_rbm",
    ("perturb_and_max_product", "IsingEnergy"): f"{_PERTURBED}:solve_ising",
    ("perturb_and_max_product", "SparseIsingEnergy"): f"{_PERTURBED}:solve_sparse_ising",
    ("perturb_and_max_product", "FactorGraphEnergy"): (
        f"{_FACTOR_GRAPH}._samplers:solve_perturb_and_max_product"
    ),
    ("ais", "RBMEnergy"): "skcrbm.inference.rbm._ais:solve",
    ("ais", "IsingEnergy"): _AIS,
    ("ais", "SparseIsingEnergy"): _AIS,
    ("ais", "FactorGraphEnergy"): _AIS,
}

#: Kind of energy -> where its Gibbs sweep is, see `gibbs_sweep`. "BaseEnergy" stands for every
#: kind that has no line of its own.
SWEEPS = {
    "BaseEnergy": "skcrbm.inference.any_energy.gibbs:sweep_blocks",
    "IsingEnergy": "skcrbm.inference.ising._gibbs:sweep",
    "SparseIsingEnergy": "skcrbm.inference.ising._gibbs:sweep_sparse",
    "FactorGraphEnergy": f"{_FACTOR_GRAPH}._samplers:sweep",
}

#: (method, kind of energy) -> what that solver answers, where the method answers more elsewhere.
ANSWERS = {
    ("mean_field", "LayeredEnergy"): frozenset({"marginals", "statistics"}),
    ("sum_product", "LayeredEnergy"): frozenset({"marginals", "statistics"}),
    ("tree_reweighted", "LayeredEnergy"): frozenset({"marginals", "statistics"}),
}


def solver_for(method, energy_type):
    """Return the solver of a method (its name) for this very type of energy, or None."""
    location = SOLVERS.get((method, energy_type.__name__), SOLVERS.get((method, "BaseEnergy")))
    return None if location is None else _imported(location)


def sweep_for(energy_type):
    """Return the Gibbs sweep for this very type of energy."""
    return _imported(SWEEPS.get(energy_type.__name__, SWEEPS["BaseEnergy"]))


def _imported(location):
    module, _, function = location.partition(":")
    return getattr(import_module(module), function)


def has_solver(method, energy_type):
    """Whether `solver_for` finds one; imports nothing."""
    return (method, energy_type.__name__) in SOLVERS or (method, "BaseEnergy") in SOLVERS


def answers_of(method, energy_type, answers):
    """Which of a method's answers its solver for this very type of energy gives."""
    if not has_solver(method, energy_type):
        return frozenset()
    return answers & ANSWERS.get((method, energy_type.__name__), answers)


def _check_location(location):
    if not isinstance(location, str) or location.count(":") != 1:
        raise ValueError(f"location must be a string 'module:attribute', got {location!r}")


def register_method(name, location):
    """Add a method of another package.

    Parameters
    ----------
    name : str
        By which `infer` finds it.
    location : str
        ``"module:Class"`` of its `InferenceMethod`, imported on first use.

    Raises
    ------
    ValueError
        If the name is taken.
    """
    _check_location(location)
    METHODS.register(name, location)


def register_solver(method, energy_type, location, answers=None):
    """Add a solver of another package: of its method, for its energy, or for both.

    Parameters
    ----------
    method : str
        Name of the method.
    energy_type : str
        Name of the class of energies, or "BaseEnergy" for all without a solver of their own.
    location : str
        ``"module:function"``, imported on first use.
    answers : iterable of str, default=None
        What the solver answers, if that is less than the method does elsewhere.

    Raises
    ------
    ValueError
        If the method has a solver for this kind of energy.
    """
    _check_location(location)
    if method not in METHODS or not isinstance(energy_type, str):
        raise ValueError(
            "register_solver takes the name of a registered method and that of a class of "
            f"energies; got {method!r} and {energy_type!r}"
        )
    if answers is not None and (isinstance(answers, str) or not set(answers) <= QUERIES):
        raise ValueError(f"answers must hold some of {sorted(QUERIES)}; got {answers!r}")
    key = method, energy_type
    if SOLVERS.get(key, location) != location:
        raise ValueError(f"{method!r} has a solver for {energy_type} already: {SOLVERS[key]}")
    SOLVERS[key] = location
    if answers is not None:
        ANSWERS[key] = frozenset(answers)
