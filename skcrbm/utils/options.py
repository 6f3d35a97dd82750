"""Objects that carry options, such as ``Adam(learning_rate=0.01)``, and names that stand for them.

A hyperparameter takes a name or a configured object; a name stands for the object with its
defaults. `Registry` knows the names, `resolve_options` returns the object, and
`options_constraint` describes the hyperparameter to scikit-learn's validation.
"""

from __future__ import annotations

import difflib
from abc import ABC
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from numbers import Integral
from typing import Any, ClassVar, TypeVar

from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    StrOptions,
    validate_parameter_constraints,
)

from skcrbm.utils.pickling import Versioned


class Registry:
    """Names mapped to ``"module:attribute"`` locations that are imported on first use.

    `kind` is the name of the argument that takes the names, for error messages.
    """

    def __init__(self, kind: str, locations: dict[str, str]):
        self.kind = kind
        self.locations = dict(locations)

    def __iter__(self):
        return iter(self.locations)

    def __contains__(self, name):
        return name in self.locations

    def register(self, name: str, location: str) -> None:
        """Add an entry of another package; ValueError if the name has another location."""
        if self.locations.get(name, location) != location:
            raise ValueError(f"{name!r} is taken: it is {self.locations[name]}")
        self.locations[name] = location

    def names(self) -> list[str]:
        """Return the names in the order of registration."""
        return list(self.locations)

    def get(
        self,
        name: str,
        argument: str | None = None,
        usable: Callable[[], Sequence[str]] | None = None,
    ) -> Any:
        """Return the object behind `name`; a ValueError lists the usable names.

        `argument` is the name of the argument that took the name, `kind` by default. `usable`
        returns the names that the error lists, by default all names.
        """
        if not isinstance(name, str) or name not in self.locations:
            names = self.names() if usable is None else usable()
            close = difflib.get_close_matches(str(name), names, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(
                f"{argument or self.kind} must be one of {', '.join(map(repr, names))}; "
                f"got {name!r}.{hint}"
            )
        module, _, attribute = self.locations[name].partition(":")
        return getattr(import_module(module), attribute)


class Integer(Interval):
    """Constraint of an int from `least` to `most`, NumPy's included, bools excluded."""

    def __init__(self, least: int | None = None, most: int | None = None):
        low, high = least is not None, most is not None
        closed = ("neither", "right", "left", "both")[2 * low + high]
        super().__init__(Integral, least, most, closed=closed)

    def is_satisfied_by(self, val):
        """Return True if a value satisfies the constraint."""
        return not isinstance(val, bool) and super().is_satisfied_by(val)


def check_parameters(estimator: Any, names: Iterable[str]) -> None:
    """Raise scikit-learn's error if one of these hyperparameters is invalid.

    It checks hyperparameters that methods of a fitted estimator read, because `set_params` may
    have changed them after the fit. scikit-learn's ``skip_parameter_validation`` is respected.
    """
    if get_config()["skip_parameter_validation"]:
        return
    validate_parameter_constraints(
        {name: estimator._parameter_constraints[name] for name in names},
        {name: getattr(estimator, name) for name in names},
        type(estimator).__name__,
    )


def tags_of_inner(estimator: Any) -> Any:
    """Return the tags of the estimator inside a meta-estimator, or None for another object.

    `fit` refuses other objects. Tags must not raise, because a repr reads them, too.
    """
    if isinstance(estimator, type) or not hasattr(estimator, "__sklearn_tags__"):
        return None
    return get_tags(estimator)


class Options(Versioned, BaseEstimator, ABC):
    """Base of the objects that hold options and nothing else.

    Subclasses take their options as keyword arguments of ``__init__`` and describe them in
    ``_parameter_constraints``, so that `clone`, `repr`, searches and pickles work.
    """

    _warns_of_version = False

    #: Name in the registry.
    name: ClassVar[str] = ""
    _parameter_constraints: ClassVar[dict[str, Any]] = {}

    def check_options(self) -> None:
        """Raise scikit-learn's error if an option is invalid."""
        self._validate_params()


T = TypeVar("T", bound=Options)


def resolve_options(
    value: str | T, registry: Registry, kind: type[T], argument: str, names: Sequence[str] = ()
) -> T:
    """Return the object that a name stands for, or the given object, with its options checked.

    Parameters
    ----------
    value : str or object
    registry : Registry
        Names of the objects; an entry is a class or a function without arguments.
    kind : type
        Class of the objects.
    argument : str
        Hyperparameter that took the value, for error messages.
    names : sequence of str
        Names that can be used there, for error messages; by default all names.

    Raises
    ------
    ValueError
        If the name is unknown or an option invalid.
    TypeError
        If `value` is neither a name nor an object of this kind.
    """
    names = list(names) or registry.names()
    if isinstance(value, str):
        value = registry.get(value, argument, lambda: names)()
    elif not isinstance(value, kind):
        raise TypeError(
            f"{argument} must be one of {', '.join(map(repr, names))} or a configured object such "
            f"as {_example(registry, names)}; got {value!r}"
        )
    value.check_options()
    return value


def _example(registry, names):
    """Return a configured object as code, for error messages."""
    return f"{type(registry.get(names[0])()).__name__}()"


class _OptionsObject(HasMethods):
    """Constraint of a hyperparameter: an instance (not the class itself) of a kind of options."""

    def __init__(self, kinds, example):
        super().__init__(["check_options"])
        self.kinds, self.example = kinds, example

    def is_satisfied_by(self, val):
        return isinstance(val, self.kinds)

    def __str__(self):
        return f"a configured object such as {self.example}"


def options_constraint(
    names: Sequence[str], kinds: type | tuple[type, ...], example: str, *, auto: bool = False
) -> list:
    """Return the constraint of a hyperparameter that takes a name or a configured object.

    Parameters
    ----------
    names : sequence of str
    kinds : type or tuple of types
        Classes of the objects.
    example : str
        A configured object as code, for error messages.
    auto : bool, default=False
        True if "auto" is a valid name, too.

    Returns
    -------
    list
        For scikit-learn's ``_parameter_constraints``.
    """
    return [StrOptions({*names, *(["auto"] if auto else [])}), _OptionsObject(kinds, example)]


def is_auto(value: Any) -> bool:
    """Return True if a hyperparameter is "auto"."""
    return isinstance(value, str) and value == "auto"


def option_name(value: Any) -> str:
    """Return the name of a hyperparameter that is a name or a configured object."""
    return value if isinstance(value, str) else value.name


def resolved(value: Any, automatic: Any) -> Any:
    """Return a hyperparameter, or its automatic value if it is a string such as "auto"."""
    return automatic if isinstance(value, str) else value
