"""The choice of a method: by the size of a model, and as an estimator keeps it."""

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, StrOptions

from skcrbm.inference._base import InferenceMethod
from skcrbm.inference._infer import available_methods, resolve_method
from skcrbm.inference._registry import METHODS
from skcrbm.utils.limits import AUTO_EXACT_UNITS


class _MethodObject(HasMethods):
    """Constraint: what `resolve_method` takes besides a name."""

    def __init__(self):
        super().__init__(["at_epoch"])

    def is_satisfied_by(self, val):
        """Whether `val` is an inference method; its class is none."""
        return isinstance(val, InferenceMethod)

    def __str__(self):
        return "a configured object such as SumProduct(max_iter=30)"


def method_constraint(names=METHODS, *, auto=False):
    """Constraint of a hyperparameter that takes an inference method, by name or as an object.

    Parameters
    ----------
    names : iterable of str
    auto : bool, default=False
        Whether "auto" is a name, too.

    Returns
    -------
    list
        For scikit-learn's ``_parameter_constraints``.
    """
    return [StrOptions({*names, *(["auto"] if auto else [])}), _MethodObject()]


def marginal_method(inference, n_visible, n_hidden, name="inference"):
    """Return the method of a name or object; "auto" enumerates where a layer is small.

    Parameters
    ----------
    inference : str or InferenceMethod
    n_visible, n_hidden : int
    name : str
        Of the hyperparameter, for error messages.

    Raises
    ------
    ValueError
        If there is no such method, or it gives no marginals.
    """
    if isinstance(inference, str) and inference == "auto":
        small = min(n_visible, n_hidden) <= AUTO_EXACT_UNITS
        inference = "exact" if small else "sum_product"
    method = resolve_method(inference, name)
    declared = type(method).supports is InferenceMethod.supports  # else it says so of an energy
    if declared and "marginals" not in method.answers:
        able = ", ".join(map(repr, available_methods(returns=["marginals"])))
        raise ValueError(f"{name}={method.name!r} gives no marginals; methods that do: {able}")
    return method


def own_method(method, rng):
    """Copy a method for a fitted model, with a seed if it draws random numbers.

    The copy stays as it is when the user changes the object that was passed, and gives the same
    answer each time.
    """
    method = clone(method)
    if method.draws and method.random_state is None:
        method.set_params(random_state=rng.randint(np.iinfo(np.int32).max))
    return method
