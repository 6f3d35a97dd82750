"""The choice of a method: by the size of a model, and as an estimator keeps it."""

from collections.abc import Iterable
from functools import partial

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, StrOptions

from skcrbm.energies import BaseEnergy, RBMEnergy
from skcrbm.energies.base import QUERIES
from skcrbm.inference.base import InferenceMethod
from skcrbm.inference.registry import METHODS, answers_of, has_solver
from skcrbm.utils.limits import AUTO_EXACT_UNITS


def available_methods(energy=None, returns=()):
    """Names of the inference methods, optionally those that can answer a query.

    Parameters
    ----------
    energy : energy or None, default=None
        Keep the methods that work on this kind of energy.
    returns : str or iterable of str, default=()
        Keep the methods that can answer all of these.

    Returns
    -------
    list of str

    Raises
    ------
    TypeError
        If `energy` is none.
    ValueError
        If `returns` holds something that no method answers, or that this kind of energy has no
        meaning for.

    Examples
    --------
    >>> from skcrbm.inference import available_methods
    >>> available_methods(returns=["marginals", "log_partition"])
    ['exact', 'mean_field', 'sum_product', 'tree_reweighted']
    """
    if energy is not None:
        check_energy(energy)
    queries = QUERIES if energy is None else energy.queries
    asked = check_returns(returns, queries, allow_empty=True)
    if asked - queries:
        raise ValueError(
            f"returns holds {quoted(sorted(asked - queries))}, which has no meaning for "
            f"{_article(type(energy).__name__)}; it has {quoted(sorted(queries))}"
        )
    names = []
    for name in METHODS:
        method = METHODS.get(name)()
        answers = method.answers if energy is None else method.supports(energy)
        if answers and asked <= answers:
            names.append(name)
    return names


def resolve_method(method, name="inference", able=METHODS.names):
    """Turn a name or a configured object into an `InferenceMethod`, options checked.

    Parameters
    ----------
    method : str or InferenceMethod
    name : str, default="inference"
        Of the argument that took it, for error messages.
    able : callable
        Returns the names of the methods that work there, for error messages.

    Raises
    ------
    ValueError
        On an unknown name, naming those that exist; on an invalid option.
    TypeError
        On anything that is neither.
    """
    if isinstance(method, str):
        method = METHODS.get(method, name, able)()
    elif not isinstance(method, InferenceMethod):
        names = able()
        raise TypeError(
            f"{name} must be one of {', '.join(map(repr, names))} or a configured object "
            f"such as {example_of(names)}; got {method!r}"
        )
    method.check_options()
    return method


def check_answers(method, energy, returns):
    """Raise one readable error if `method` cannot answer `returns` on `energy`."""
    answers = method.supports(energy)
    if not answers:
        raise ValueError(
            f"inference method {name_of(method)!r} does not work on {_described(method, energy)}; "
            f"methods that do: {quoted(available_methods(energy, returns))}"
        )
    missing = sorted(returns - answers)
    if missing:
        raise ValueError(
            f"inference method {name_of(method)!r} cannot answer {quoted(missing)}; methods that "
            f"can: {quoted(available_methods(energy, returns))}"
        )


class _MethodObject(HasMethods):
    """Constraint: what `resolve_method` takes besides a name, of some names."""

    def __init__(self, names):
        super().__init__(["at_epoch"])
        self.example = example_of(names)

    def is_satisfied_by(self, val):
        """Whether `val` is an inference method; its class is none."""
        return isinstance(val, InferenceMethod)

    def __str__(self):
        return f"a configured object such as {self.example}"


def methods_for(energy_type, *returns):
    """Names of the methods that answer one of several questions about a kind of energy.

    Parameters
    ----------
    energy_type : type
        A subclass of `BaseEnergy`.
    *returns : iterable of str
        Of each, all that a method must answer.

    Returns
    -------
    list of str
    """
    names = []
    for name in METHODS:
        answers = answers_of(name, energy_type, METHODS.get(name).answers) & energy_type.queries
        if any(answers >= set(asked) for asked in returns):
            names.append(name)
    return names


class _Names(StrOptions):
    """Constraint: one of some names, of which a message tells those that always serve."""

    def __init__(self, names, also):
        super().__init__({*names, *also})
        self.told = names

    def __str__(self):
        return f"one of {', '.join(map(repr, self.told))}"


def method_constraint(names, *, auto=False, also=()):
    """Constraint of a hyperparameter that takes an inference method, by name or as an object.

    Parameters
    ----------
    names : sequence of str
        Of the methods that serve it.
    auto : bool, default=False
        Whether "auto" is a name, too.
    also : iterable of str
        Methods that serve it under some other hyperparameters: taken, but not advertised.

    Returns
    -------
    list
        For scikit-learn's ``_parameter_constraints``.
    """
    return [_Names([*(["auto"] if auto else []), *names], also), _MethodObject(names)]


def marginal_method(inference, n_visible, n_hidden, name="inference", needs=("marginals",)):
    """Return the method of a name or object; "auto" enumerates where a layer is small.

    Parameters
    ----------
    inference : str or InferenceMethod
    n_visible, n_hidden : int
    name : str
        Of the hyperparameter, for error messages.
    needs : iterable of str
        What the method must answer.

    Raises
    ------
    ValueError
        If there is no such method, or it does not answer that of an `RBMEnergy`.
    """
    if isinstance(inference, str) and inference == "auto":
        small = min(n_visible, n_hidden) <= AUTO_EXACT_UNITS
        inference = "exact" if small else "sum_product"
    able = partial(methods_for, RBMEnergy, needs)
    method = resolve_method(inference, name, able)
    declared = type(method).solve is InferenceMethod.solve  # else it says so of an energy
    lacking = set(needs) - answers_of(method.name, RBMEnergy, method.answers)
    if declared and lacking:
        raise ValueError(
            f"{name}={method.name!r} does not give {', '.join(sorted(lacking))}; methods that do: "
            f"{', '.join(map(repr, able()))}"
        )
    return method


def convergence_advice(method):
    """Return what to try where a method did not converge.

    Parameters
    ----------
    method : InferenceMethod

    Returns
    -------
    str
        Alternatives, with commas; empty if the method has no options for it.
    """
    options, kind = vars(method), type(method).__name__
    advice = []
    if "max_iter" in options:
        advice.append(f"more iterations ({kind}(max_iter=200))")
    if options.get("damping") == 0:
        advice.append(f"damping ({kind}(max_iter=200, damping=0.5))")
    return ", ".join(advice)


def own_method(method, rng):
    """Copy a method for a fitted model, with a seed if it draws random numbers.

    The copy stays as it is when the user changes the object that was passed, and gives the same
    answer each time.
    """
    method = clone(method)
    if method.draws and method.random_state is None:
        method.set_params(random_state=rng.randint(np.iinfo(np.int32).max))
    return method


def check_energy(energy):
    """Raise a TypeError unless `energy` is an energy."""
    if not isinstance(energy, BaseEnergy):
        raise TypeError(f"energy must be an energy such as RBMEnergy, got {energy!r}")


def check_returns(returns, possible=QUERIES, *, allow_empty=False):
    """Return what is asked for, under the names of `QUERIES`.

    An error about what is none of them lists those of `possible`.
    """
    known = {*QUERIES, "pairwise"}
    asked = (returns,) if isinstance(returns, str) else returns
    asked = tuple(asked) if isinstance(asked, Iterable) else (None,)
    if not (asked or allow_empty) or any(r not in known for r in asked):
        names = {*possible, "pairwise"} if "statistics" in possible else possible
        raise ValueError(f"returns must hold some of {sorted(names)}; got {returns!r}")
    if {"map", "marginal_map"} <= set(asked):
        raise ValueError("returns must hold one of 'map' and 'marginal_map', not both")
    if "map_bound" in asked and not {"map", "marginal_map"} & set(asked):
        by_sums = "marginal_map" in possible and "map" not in possible
        asked = (*asked, "marginal_map" if by_sums else "map")
    if "sample_log_prob" in asked:
        asked = (*asked, "samples")
    return frozenset("statistics" if r == "pairwise" else r for r in asked)


def example_of(names):
    """Return how one of these methods is configured, as code."""
    if "sum_product" in names:
        return "SumProduct(max_iter=30)"
    if "icm" in names:
        return "ICM(n_restarts=10)"
    return METHODS.locations[names[0]].rpartition(":")[2] + "()" if names else "SumProduct()"


def _article(noun):
    return f"{'an' if noun[0] in 'AEIO' else 'a'} {noun}"


def name_of(method):
    """Return the name of a method for error messages."""
    return method.name or type(method).__name__


def quoted(names):
    """Return names in quotes with commas between them, for error messages."""
    return ", ".join(map(repr, names)) or "none"


def _described(method, energy):
    """Return the kind of energy, and the reason if a method takes others of this kind."""
    kind = type(energy).__name__
    if method.restriction and has_solver(method.name, type(energy)):
        return f"this {kind}, as {method.restriction}"
    return kind
