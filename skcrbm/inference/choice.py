"""The methods that can answer: lists for users, constraints of hyperparameters, error messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sklearn.utils._param_validation import HasMethods, StrOptions

from skcrbm.energies import BaseEnergy
from skcrbm.energies.base import QUERIES
from skcrbm.inference.base import (
    InferenceMethod,
    check_energy,
    check_returns,
    example_of,
    resolve_method,
)
from skcrbm.inference.registry import METHODS, has_solver


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
