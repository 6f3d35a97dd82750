"""The choice of a method: by the size of a model, and as an estimator keeps it."""

from functools import partial

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, StrOptions

from skcrbm.energies import RBMEnergy
from skcrbm.inference._base import InferenceMethod
from skcrbm.inference._infer import example_of, resolve_method
from skcrbm.inference._registry import METHODS, answers_of
from skcrbm.utils.limits import AUTO_EXACT_UNITS


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
