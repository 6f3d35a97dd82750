"""The choice of a method: by its answers, by the size of a model, and for an estimator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, StrOptions

from skcrbm.energies import BaseEnergy, RBMEnergy
from skcrbm.energies.base import QUERIES
from skcrbm.inference.base import (
    InferenceMethod,
    check_energy,
    check_returns,
    example_of,
    resolve_method,
)
from skcrbm.inference.registry import METHODS, answers_of, has_solver
from skcrbm.utils.limits import AUTO_EXACT_UNITS


def available_methods(
    energy: BaseEnergy | None = None, returns: str | Iterable[str] = ()
) -> list[str]:
    """List the names of the inference methods, optionally those that can answer a query.

    Parameters
    ----------
    energy : BaseEnergy or None, default=None
        Keep the methods that work on this energy.
    returns : str or iterable of str, default=()
        Keep the methods that can give all of these answers.

    Returns
    -------
    list of str

    Raises
    ------
    TypeError
        If `energy` is not an energy.
    ValueError
        If `returns` holds an answer that no method gives, or that has no meaning for this class
        of energies.

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
            f"{_with_article(type(energy).__name__)}; it has {quoted(sorted(queries))}"
        )
    names = []
    for name in METHODS:
        method = METHODS.get(name)()
        answers = method.answers if energy is None else method.supports(energy)
        if answers and asked <= answers:
            names.append(name)
    return names


def check_answers(
    method: InferenceMethod, energy: BaseEnergy, returns: frozenset | set[str]
) -> None:
    """Raise one readable error if `method` cannot answer `returns` on `energy`."""
    answers = method.supports(energy)
    if not answers:
        raise ValueError(
            f"inference method {method.display_name!r} does not work on "
            f"{_described(method, energy)}; methods that do: "
            f"{quoted(available_methods(energy, returns))}"
        )
    missing = sorted(returns - answers)
    if missing:
        raise ValueError(
            f"inference method {method.display_name!r} cannot answer {quoted(missing)}; methods "
            f"that can: {quoted(available_methods(energy, returns))}"
        )


def methods_for(energy_type: type[BaseEnergy], *returns: Iterable[str]) -> list[str]:
    """List the methods that can answer at least one of several queries about a class of energies.

    Each item of `returns` is one query: the answers that a method must all give.
    """
    names = []
    for name in METHODS:
        answers = answers_of(name, energy_type, METHODS.get(name).answers) & energy_type.queries
        if any(answers >= set(asked) for asked in returns):
            names.append(name)
    return names


class _MethodObject(HasMethods):
    """Constraint: a configured method object; the error message has an example."""

    def __init__(self, names):
        super().__init__(["at_epoch"])
        self.example = example_of(names)

    def is_satisfied_by(self, val):
        """Return whether `val` is a method instance (a class is not accepted)."""
        return isinstance(val, InferenceMethod)

    def __str__(self):
        return f"a configured object such as {self.example}"


class _Names(StrOptions):
    """Constraint: a string from two groups, of which the error message lists the first only."""

    def __init__(self, names, unlisted):
        super().__init__({*names, *unlisted})
        self.listed = names

    def __str__(self):
        return f"one of {', '.join(map(repr, self.listed))}"


class _MethodList(HasMethods):
    """Constraint: a list, whose entries the estimator checks."""

    def __init__(self, names):
        super().__init__(["append"])
        self.example = f"[{example_of(names)}, SumProduct()]"

    def is_satisfied_by(self, val):
        """Return True if `val` is a list."""
        return isinstance(val, list)

    def __str__(self):
        return f"a list of such methods and methods that give marginals, as {self.example}"


def method_constraint(
    names: Sequence[str], *, auto: bool = False, also: Iterable[str] = (), several: bool = False
) -> list[Any]:
    """Return the constraint of a hyperparameter that takes an inference method, or its name.

    Parameters
    ----------
    names : sequence of str
        Names of the methods that it takes.
    auto : bool, default=False
        Whether it takes "auto", too.
    also : iterable of str
        Names of methods that only some settings of the estimator can use: accepted, but not
        listed in the error message.
    several : bool, default=False
        Whether it takes a list of methods, too.

    Returns
    -------
    list
        Value for scikit-learn's ``_parameter_constraints``.
    """
    one = [_Names([*(["auto"] if auto else []), *names], also), _MethodObject(names)]
    return [*one, _MethodList(names)] if several else one


def marginal_method(
    inference: str | InferenceMethod,
    n_visible: int,
    n_hidden: int,
    name: str = "inference",
    needs: Iterable[str] = ("marginals",),
) -> InferenceMethod:
    """Resolve a method for an `RBMEnergy`; "auto" enumerates if one layer is small.

    Parameters
    ----------
    inference : str or InferenceMethod
        Name, "auto" or a configured object.
    n_visible, n_hidden : int
        Sizes of the layers.
    name : str
        Name of the hyperparameter, for error messages.
    needs : iterable of str
        Answers that the method must give.

    Raises
    ------
    ValueError
        If there is no such method, or it does not give these answers about an `RBMEnergy`.
    """
    if isinstance(inference, str) and inference == "auto":
        small = min(n_visible, n_hidden) <= AUTO_EXACT_UNITS
        inference = "exact" if small else "sum_product"
    valid_names = partial(methods_for, RBMEnergy, needs)
    method = resolve_method(inference, name, valid_names)
    # A method with its own `solve` knows its answers for an energy, but not for a class.
    has_table = type(method).solve is InferenceMethod.solve
    lacking = set(needs) - answers_of(method.name, RBMEnergy, method.answers)
    if has_table and lacking:
        raise ValueError(
            f"{name}={method.name!r} does not give {', '.join(sorted(lacking))}; methods that do: "
            f"{', '.join(map(repr, valid_names()))}"
        )
    return method


def first_that_answers(
    inference: str | InferenceMethod | Sequence[str | InferenceMethod],
    *queries: set[str],
    names: Sequence[str] = (),
) -> str | InferenceMethod | None:
    """Return the first of the given methods that answers one of these queries, or None.

    `inference` is the value of the hyperparameter, a method or a list of methods, and each query a
    set of answers that a method must all give. A ValueError or TypeError is raised if an entry is
    not a method, or its name is not among `names`; without `names` all methods are accepted.
    """
    methods: Any = inference if isinstance(inference, (list, tuple)) else [inference]
    found = None
    for method in methods:
        resolved = resolve_method(method, valid_names=lambda: list(names) or METHODS.names())
        if names and resolved.name in METHODS and resolved.name not in names:
            raise ValueError(f"inference may hold {quoted(names)}; got {method!r}")
        if found is None and any(query <= resolved.answers for query in queries):
            found = method
    return found


def convergence_advice(method: InferenceMethod) -> str:
    """Return advice for a method that did not converge, or an empty string.

    The advice is a list of alternatives separated by commas.
    """
    options, kind = vars(method), type(method).__name__
    advice = []
    if "max_iter" in options:
        advice.append(f"more iterations ({kind}(max_iter=200))")
    if options.get("damping") == 0:
        advice.append(f"damping ({kind}(max_iter=200, damping=0.5))")
    return ", ".join(advice)


def seeded_copy(method: InferenceMethod, rng: np.random.RandomState) -> InferenceMethod:
    """Copy a method for a fitted model; a random method without a seed gets a seed.

    The copy does not change if the user changes the object that was passed, and it gives the same
    answer each time.
    """
    copied: Any = clone(method)
    if copied.is_random and copied.random_state is None:
        copied.set_params(random_state=rng.randint(np.iinfo(np.int32).max))
    return copied


def quoted(names: Iterable[str]) -> str:
    """Return names in quotes with commas between them, for error messages."""
    return ", ".join(map(repr, names)) or "none"


def _with_article(noun):
    return f"{'an' if noun[0] in 'AEIO' else 'a'} {noun}"


def _described(method, energy):
    """Return the class of an energy; with the reason if the method takes others of this class."""
    kind = type(energy).__name__
    if method.restriction and has_solver(method.name, type(energy)):
        return f"this {kind}, as {method.restriction}"
    return kind
