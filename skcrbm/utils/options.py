"""Objects that carry options, such as ``Adam(learning_rate=0.01)``, and names that stand for them.

A hyperparameter takes a name or a configured object; a name stands for the object with its
defaults. `Registry` knows the names, `resolve_options` returns the object, and
`options_constraint` describes the hyperparameter to scikit-learn's validation.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import HasMethods, StrOptions

from skcrbm.utils.pickling import Versioned
from skcrbm.utils.registry import Registry


class Options(Versioned, BaseEstimator, ABC):
    """Base of the objects that hold options and nothing else.

    Subclasses take their options as keyword arguments of ``__init__`` and describe them in
    ``_parameter_constraints``, so that `clone`, `repr`, searches and pickles work.
    """

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
