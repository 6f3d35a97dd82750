"""Hyperparameters whose value is a name or a configured object.

Some hyperparameters take an object with options, such as ``Adam(learning_rate=0.01)``, or a name,
such as "adam", which means the object with its default options. `Registry` maps the names to
classes, `resolve_options` returns the object for a value, and `options_constraint` describes the
valid values to scikit-learn's validation.
"""

from __future__ import annotations

import difflib
from abc import ABC
from collections.abc import Callable, Collection, Iterable, Sequence
from importlib import import_module
from numbers import Integral
from typing import Any, ClassVar, TypeVar
from weakref import WeakSet

from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags

from skcrbm.utils.parameters import KnownParameters
from skcrbm.utils.pickling import Versioned
from skcrbm.utils.sklearn_private import HasMethods, Interval, validate_parameter_constraints


def import_location(location: str, registered: str) -> Any:
    """Import the object at ``"module:attribute"``.

    If this fails, an ImportError with the cause names the location. `registered` describes the
    object in this message, such as "inference='tap'".
    """
    module, _, attribute = location.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except Exception as error:
        raise ImportError(
            f"{registered} is registered as {location!r}, which cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error


def is_built_in(location: str) -> bool:
    """Return True if a location, or the name of a module, belongs to the package skcrbm."""
    return location.startswith("skcrbm.")


class Registry:
    """Names mapped to ``"module:attribute"`` locations that are imported on first use.

    `kind` is the name of the hyperparameter that takes the names, such as "inference". Error
    messages show it.
    """

    def __init__(self, kind: str, locations: dict[str, str]):
        self.kind = kind
        self.locations = dict(locations)

    def __iter__(self):
        return iter(self.locations)

    def __contains__(self, name):
        return name in self.locations

    def register(self, name: str, location: str) -> None:
        """Add an entry, for example from another package.

        A ValueError is raised if the name is already registered with another location.
        """
        if self.locations.get(name, location) != location:
            raise ValueError(f"{name!r} is already registered, as {self.locations[name]}")
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
        """Import and return the object that is registered under `name`.

        If the name is unknown, a ValueError lists the valid names. `argument` is the name of the
        hyperparameter in this error, by default `kind`. `usable` is a function that returns the
        valid names; by default all registered names are valid. If the location of the object cannot
        be imported, an ImportError shows the location.
        """
        if not isinstance(name, str) or name not in self.locations:
            names = self.names() if usable is None else usable()
            close = difflib.get_close_matches(str(name), names, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(
                f"{argument or self.kind} must be one of {', '.join(map(repr, names))}; "
                f"got {name!r}.{hint}"
            )
        return import_location(self.locations[name], f"{self.kind}={name!r}")


class Integer(Interval):
    """Constraint for Python and NumPy integers from `least` to `most`; bools are invalid."""

    def __init__(self, least: int | None = None, most: int | None = None):
        low, high = least is not None, most is not None
        closed = ("neither", "right", "left", "both")[2 * low + high]
        super().__init__(Integral, least, most, closed=closed)

    def is_satisfied_by(self, val):
        """Return True if a value satisfies the constraint."""
        return not isinstance(val, bool) and super().is_satisfied_by(val)


def check_parameters(estimator: Any, names: Iterable[str]) -> None:
    """Raise scikit-learn's error if one of the named hyperparameters is invalid.

    Methods such as `predict` call this for the hyperparameters that they read, because
    `set_params` may have changed them after the fit. Nothing is checked if scikit-learn's option
    ``skip_parameter_validation`` is set.
    """
    if get_config()["skip_parameter_validation"]:
        return
    validate_parameter_constraints(
        {name: estimator._parameter_constraints[name] for name in names},
        {name: getattr(estimator, name) for name in names},
        type(estimator).__name__,
    )


def tags_of_inner(estimator: Any) -> Any:
    """Return the tags of the estimator inside a meta-estimator.

    The result is None if the object is not an estimator. `fit` raises an error in this case, but
    this function must not, because the repr of the meta-estimator reads the tags, too.
    """
    if isinstance(estimator, type) or not hasattr(estimator, "__sklearn_tags__"):
        return None
    return get_tags(estimator)


def multilabel_tags(tags: Any, estimator: Any) -> Any:
    """Set the tags of a meta-estimator that takes a multi-label y and passes X to `estimator`."""
    tags.classifier_tags.multi_class = False
    tags.classifier_tags.multi_label = True
    inner = tags_of_inner(estimator)
    if inner is not None:
        tags.input_tags = inner.input_tags
    return tags


class Options(KnownParameters, Versioned, BaseEstimator, ABC):
    """Base class of objects that hold options, such as `Adam`.

    A subclass takes its options as keyword arguments of ``__init__`` and lists their valid values
    in ``_parameter_constraints``. `clone`, `repr`, searches over the options and pickling then work
    as for estimators.
    """

    _warns_of_version = False

    #: Name in the registry.
    name: ClassVar[str] = ""
    _parameter_constraints: ClassVar[dict[str, Any]] = {}

    def check_options(self) -> None:
        """Raise scikit-learn's error if an option is invalid."""
        self._validate_params()


T = TypeVar("T", bound=Options)

# Classes and functions whose objects with default options were found to be valid.
_VALID_DEFAULTS: WeakSet[Any] = WeakSet()


def with_default_options(make: Callable[[], Any]) -> Any:
    """Return ``make()``, an object with options, whose options are checked in the first call."""
    made = make()
    if make not in _VALID_DEFAULTS:
        made.check_options()
        _VALID_DEFAULTS.add(make)
    return made


def resolve_options(
    value: str | T, registry: Registry, kind: type[T], argument: str, names: Sequence[str] = ()
) -> T:
    """Return the configured object for the value of a hyperparameter, and check its options.

    `value` is a registered name or an object of class `kind`. For a name, the registered class or
    function is called without arguments. `argument` is the name of the hyperparameter, and `names`
    are the names that it accepts, by default all registered names; both are used in error
    messages. A ValueError is raised for an unknown name or an invalid option, and a TypeError for a
    value of another type.
    """
    names = list(names) or registry.names()
    if isinstance(value, str):
        return with_default_options(registry.get(value, argument, lambda: names))
    if not isinstance(value, kind):
        raise TypeError(
            f"{argument} must be one of {', '.join(map(repr, names))} or a configured object such "
            f"as {_example(registry, names)}; got {value!r}"
        )
    value.check_options()
    return value


def _example(registry, names):
    """Return the code of a configured object, such as "Adam()", for error messages."""
    return f"{type(registry.get(names[0])()).__name__}()"


class ProbabilisticClassifier(HasMethods):
    """Constraint of a parameter that takes a classifier with probabilities."""

    def __init__(self):
        super().__init__(["fit", "predict_proba"])

    def __str__(self):
        return (
            f"{super().__str__()} (sklearn.calibration.CalibratedClassifierCV adds predict_proba, "
            "as in OneVsRestClassifier(CalibratedClassifierCV(LinearSVC())))"
        )


class KnownName(HasMethods):
    """Constraint of a parameter that takes one of `names`.

    The names are read when a value is checked, so `names` may be a list that grows when other
    packages register names. "auto" is valid, too, if `auto` is True. Names in `unlisted` are valid,
    but error messages do not list them.
    """

    def __init__(
        self, names: Collection[str], *, auto: bool = False, unlisted: Collection[str] = ()
    ):
        super().__init__(["lower"])  # scikit-learn accepts no other base class of constraints
        self.names, self.unlisted, self.auto = names, unlisted, ["auto"] if auto else []

    def is_satisfied_by(self, val):
        """Return True if `val` is a valid name.

        An ImportError is raised if this name is registered with a location that is not importable.
        """
        valid = (self.auto, self.names, self.unlisted)
        return isinstance(val, str) and any(val in names for names in valid)

    def __str__(self):
        return f"one of {', '.join(map(repr, [*self.auto, *self.names]))}"


class _OptionsObject(HasMethods):
    """Constraint that accepts instances of the classes `kinds`, but not the classes themselves."""

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
    """Return the ``_parameter_constraints`` of a hyperparameter that takes a name or an object.

    Valid values are the `names`, instances of the classes `kinds`, and "auto" if `auto` is True.
    `example` is the code of a valid object, for error messages.
    """
    return [KnownName(names, auto=auto), _OptionsObject(kinds, example)]


def is_auto(value: Any) -> bool:
    """Return True if a hyperparameter is "auto"."""
    return isinstance(value, str) and value == "auto"


def option_name(value: Any) -> str:
    """Return the value of a hyperparameter if it is a name, or the name of a configured object."""
    return value if isinstance(value, str) else value.name
