"""List the inference methods that can answer a query, for users and for error messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from skcrbm import energies
from skcrbm.energies import BaseEnergy
from skcrbm.energies.base import QUERIES
from skcrbm.energies.states import is_categorical
from skcrbm.inference.base import (
    InferenceMethod,
    check_energy,
    check_returns,
    example_of,
    method_class,
    resolve_method,
)
from skcrbm.inference.registry import METHODS, answers_of, energies_of, has_solver
from skcrbm.utils.options import KnownName, is_built_in
from skcrbm.utils.sklearn_private import HasMethods, validate_parameter_constraints


def available_methods(
    energy: BaseEnergy | None = None, returns: str | Iterable[str] = ()
) -> list[str]:
    """List the names of the inference methods, or of the methods that can answer a query.

    Parameters
    ----------
    energy : BaseEnergy or None, default=None
        Energy that the listed methods must support. None: any energy.
    returns : str or iterable of str, default=()
        Answers that the listed methods must be able to give, see `infer`.

    Returns
    -------
    list of str
        Names for the argument `method` of `infer`. A method of another package is left out if its
        registered location cannot be imported.

    Raises
    ------
    TypeError
        If `energy` is not an energy.
    ValueError
        If `returns` contains an unknown answer, or an answer that has no meaning for this class of
        energies.

    Examples
    --------
    >>> from skcrbm.inference import available_methods
    >>> available_methods(returns=["marginals", "log_partition"])
    ['exact', 'mean_field', 'sum_product', 'tree_reweighted']
    """
    if energy is not None:
        check_energy(energy)
    queries = QUERIES if energy is None else energy.queries
    if isinstance(returns, Iterable) and not isinstance(returns, str):
        returns = tuple(returns)  # an iterator can be read only once
    asked = check_returns(returns, queries, allow_empty=True)
    if asked - queries:
        raise ValueError(
            f"returns contains {quoted(sorted(asked - queries))}, which has no meaning for "
            f"{_with_article(type(energy).__name__)}; possible answers: {quoted(sorted(queries))}"
        )
    names = []
    for name, kind in _importable_methods():
        method = kind()
        answers = method.answers if energy is None else method.supports(energy)
        # "map_bound" adds the kind of best state that the method finds, as in `infer`.
        if answers and check_returns(returns, answers, allow_empty=True) <= answers:
            names.append(name)
    return names


class _MethodNames(Sequence[str]):
    """Sequence of the names of methods that answer a query.

    The names are read from the registry whenever the sequence is used.
    """

    def __init__(self, energy_type: type[BaseEnergy], queries: Iterable[Iterable[str]]):
        self.energy_type = energy_type
        self.queries = [frozenset(asked) for asked in queries]

    def _serves(self, name: str, method: type[InferenceMethod]) -> bool:
        possible = answers_of(name, self.energy_type, method.answers) & self.energy_type.queries
        return any(asked <= possible for asked in self.queries)

    def _read(self):
        return [name for name, method in _importable_methods() if self._serves(name, method)]

    def __contains__(self, name):
        return name in METHODS and self._serves(name, method_class(name))

    def __iter__(self):
        return iter(self._read())

    def __getitem__(self, index):
        return self._read()[index]

    def __len__(self):
        return len(self._read())

    def __repr__(self):
        return repr(self._read())


def methods_for(energy_type: type[BaseEnergy], *returns: Iterable[str]) -> Sequence[str]:
    """List the methods that can answer at least one of several queries for a class of energies.

    Each item of `returns` is a query, that is, a set of answers. A method can answer a query if it
    gives all answers of the set. If a method is registered after this call, the returned list
    contains it, too.
    """
    return _MethodNames(energy_type, returns)


def _importable_methods():
    """Yield the names and classes of all registered methods.

    Methods of other packages that cannot be imported are left out, so that listing methods does not
    fail. The ImportError is raised when such a method is requested by its name.
    """
    for name in METHODS:
        try:
            method = method_class(name)
        except (ImportError, TypeError, ValueError):
            if is_built_in(METHODS.locations[name]):
                raise
            continue
        yield name, method


def check_answers(
    method: InferenceMethod, energy: BaseEnergy, returns: frozenset | set[str]
) -> None:
    """Raise a ValueError if `method` cannot answer a query on `energy`.

    The message lists the methods that can answer the query.
    """
    answers = method.supports(energy)
    if not answers:
        # A method may give an answer by default that has no meaning for this class of energies.
        possible = returns & energy.queries
        raise ValueError(
            f"inference method {method.display_name!r} does not work on "
            f"{_described(method, energy, possible)}; methods that do: "
            f"{_alternatives(energy, possible)}{_energies_with(method, energy)}"
            f"{_registered_for(method)}"
        )
    missing = sorted(returns - answers)
    hints = [method.hints[name] for name in missing if name in method.hints]
    if hints and set(missing) <= energy.queries:
        raise ValueError(f"{missing[0]!r} is not possible with these options: {hints[0]}")
    if missing:
        raise ValueError(
            f"inference method {method.display_name!r} cannot answer {quoted(missing)}; methods "
            f"that can: {_alternatives(energy, returns)}"
        )


def _alternatives(energy, returns):
    """List the methods that can answer a query, for error messages.

    If no method can answer with its default options, list the methods that can answer with another
    option, and the advice about this option. An example is "exact", which gives "marginal_map" of a
    factor graph if `map_variables` is given.
    """
    names = available_methods(energy, returns)
    if names:
        return quoted(names)
    asked, advice = frozenset(returns), []
    for name, kind in _importable_methods():
        hints = [text for answer, text in kind.hints.items() if answer in asked]
        if hints and asked <= answers_of(name, type(energy), kind.answers) & energy.queries:
            advice.append(f"{name!r} with an option: {', '.join(hints)}")
    return "; ".join(advice) or quoted(())


class _MethodObject(HasMethods):
    """Constraint of a parameter whose value may be a method object, such as ``ICM()``.

    Error messages show an example.
    """

    def __init__(self, names):
        super().__init__(["at_epoch"])
        self.names = names

    def is_satisfied_by(self, val):
        """Return True if `val` is an instance of a method class; the class itself gives False."""
        return isinstance(val, InferenceMethod)

    def __str__(self):
        return f"a configured object such as {example_of(self.names)}"


class _MethodList(HasMethods):
    """Constraint of a parameter whose value may be a list of methods.

    The estimator checks the entries of the list.
    """

    def __init__(self, names):
        super().__init__(["append"])
        self.names = names

    def is_satisfied_by(self, val):
        """Return True if `val` is a list."""
        return isinstance(val, list)

    def __str__(self):
        example = f"[{example_of(self.names)}, SumProduct()]"
        return f"a list of such methods and methods that give marginals, such as {example}"


def method_constraint(
    names: Sequence[str], *, auto: bool = False, also: Sequence[str] = (), several: bool = False
) -> list[Any]:
    """Return the constraint of a parameter whose value is an inference method or its name.

    The valid `names` are read when a value is checked. If `auto` is True, "auto" is valid, too. If
    `several` is True, a list of methods is valid, too. The names in `also` are valid, but error
    messages do not list them, because only some settings of the estimator can use these methods.
    """
    one = [KnownName(names, auto=auto, unlisted=also), _MethodObject(names)]
    return [*one, _MethodList(names)] if several else one


def refuse_method(method: InferenceMethod, names: Sequence[str], owner: str) -> NoReturn:
    """Raise the error of the parameter check for a method that is not one of `names`.

    `owner` is the estimator, with the settings that the method does not suit.
    """
    validate_parameter_constraints(
        {"inference": method_constraint(names, auto=True)}, {"inference": method.name}, owner
    )
    raise ValueError(f"the options of inference={method!r} do not suit {owner}")


def first_that_answers(
    inference: str | InferenceMethod | Sequence[str | InferenceMethod],
    *queries: set[str],
    names: Sequence[str] = (),
) -> str | InferenceMethod | None:
    """Return the first of the given methods that can answer one of the queries, or None.

    `inference` is a method or a list of methods, as in the parameter of an estimator. A query is a
    set of answers; a method answers it if it gives all answers of the set. A ValueError or
    TypeError is raised if an entry is not a method, or if its name is not in `names`. If `names` is
    empty, all methods are accepted.
    """
    methods: Any = inference if isinstance(inference, (list, tuple)) else [inference]
    found = None
    for method in methods:
        resolved = resolve_method(method, valid_names=lambda: list(names) or METHODS.names())
        if names and resolved.name in METHODS and resolved.name not in names:
            raise ValueError(f"inference may contain {quoted(names)}; got {method!r}")
        if found is None and any(query <= resolved.answers for query in queries):
            found = method
    return found


def convergence_advice(method: InferenceMethod) -> str:
    """Return advice for a method that did not converge: alternatives, separated by commas.

    If no alternative is known, the text is "". The messages that "auto" sends have a private class:
    they were damped.
    """
    options, kind = vars(method), type(method).__name__
    if kind.startswith("_"):
        return ""
    advice = []
    if "max_iter" in options:
        advice.append(f"more iterations ({kind}(max_iter=200))")
    if options.get("damping") == 0:
        advice.append(f"damping ({kind}(max_iter=200, damping=0.5))")
    return ", ".join(advice)


def quoted(names: Iterable[str]) -> str:
    """Return a text such as "'icm', 'gibbs'" with the names, for error messages."""
    return ", ".join(map(repr, names)) or "none"


def _registered_for(method):
    """Return a sentence that lists the energies for which a method has registered solvers.

    The sentence is empty for methods of this package.
    """
    if (
        is_built_in(type(method).__module__)
        or type(method).supports is not InferenceMethod.supports
    ):
        return ""
    names = quoted(energies_of(method.name))
    return f". Solvers of {method.display_name!r} are registered for: {names}"


def _energies_with(method, energy):
    """Return a sentence with the public energies for which this package has the method.

    The sentence is empty for methods of other packages, and if the package has the method for the
    class of `energy`, but not for this model.
    """
    if not is_built_in(type(method).__module__) or has_solver(method.name, type(energy)):
        return ""
    kinds = [kind for kind in energies_of(method.name) if kind in energies.__all__]
    return f". It works on {', '.join(kinds)}" if kinds else ""


def _with_article(noun):
    return f"{'an' if noun[0] in 'AEIO' else 'a'} {noun}"


def _described(method, energy, returns):
    """Describe an energy that a method refuses: its class and, if known, the reason."""
    kind = type(energy).__name__
    other = method.categorical_alternative
    if other and is_categorical(energy):
        reason = f"this {kind}, because it is for 0/1 variables"
        able = other in available_methods(energy, returns)
        return f"{reason}; use {other!r} for more than two states" if able else reason
    if method.restriction and has_solver(method.name, type(energy)):
        return f"this {kind}, because {method.restriction}"
    return kind
