"""Pickle models, with the version of skcrbm and with their parts as plain dictionaries.

Because of the version, loading an old pickle gives a clear message.

A fitted model holds objects of many classes of this package, its parts. Readers of files such as
skops create objects only of classes that the user trusts, so the user would have to list each of
these classes. Therefore a model saves each part as a dictionary with the name of the class and the
state of the part: `plain` writes the dictionaries, and `built` creates the parts again. This
applies to classes of this package only. Models within a model, and objects of other packages, are
saved as objects.
"""

from __future__ import annotations

import copyreg
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any, ClassVar

from skcrbm._version import __version__
from skcrbm.exceptions import InconsistentVersionWarning
from skcrbm.utils.parameters import KnownParameters
from skcrbm.utils.warnings import warn_user

_CLASS, _ARGUMENTS, _STATE, _TYPE = "_skcrbm_part", "arguments", "state", "is_class"
_NEW = copyreg.__newobj__  # type: ignore[attr-defined]
_KEY = "_skcrbm_version"


class Versioned:
    """Base class of objects that users pickle; adds the version of skcrbm to the state.

    If the state was saved by another version, loading it warns, as in scikit-learn. If the state
    lacks an attribute that the running version needs, loading it raises a ValueError. List this
    class before a base that defines ``__getstate__``, such as `BaseEstimator`.
    """

    #: Attributes that each object of the class must have (each fitted object, if the class is an
    #: estimator). Fields of dataclasses and parameters of estimators need not be listed.
    _saved: ClassVar[tuple] = ()
    #: False for parts of a model. Then loading a model warns only once, with the name of the model.
    _warns_of_version: ClassVar[bool] = True

    def __getstate__(self):
        return state_with_version(super().__getstate__())

    def __setstate__(self, state):
        state = checked_state(type(self), state)
        if hasattr(super(), "__setstate__"):
            super().__setstate__(state)
        else:
            self.__dict__.update(state)


class SavedModel(KnownParameters, Versioned):
    """Base class of estimators, which save their parts as dictionaries.

    Users of file formats such as skops then need to trust the class of the estimator only.
    """

    def __getstate__(self):
        return plain(super().__getstate__())

    def __setstate__(self, state):
        super().__setstate__(built(state))

    def __copy__(self):
        return shallow_copy(self)


def shallow_copy(model: Any) -> Any:
    """Return a new model with the same attribute values.

    Python's default copy would also convert the parts of the model to dictionaries, as for saving,
    and back.
    """
    new = type(model).__new__(type(model))
    vars(new).update(vars(model))
    return new


def state_with_version(state: dict | None) -> dict[str, Any]:
    """Return a copy of the state of an object with the version of skcrbm added."""
    return {**(state or {}), _KEY: __version__}


def checked_state(cls: type, state: dict) -> dict[str, Any]:
    """Return the state without the version, and warn if another version wrote the state.

    Parts of a model do not warn, because the model does. A ValueError is raised if an attribute
    that objects of the class need is missing. Attributes that are not fitted attributes are checked
    even if the versions are equal, because the version does not change during development.
    """
    state = dict(state)
    version = state.pop(_KEY, "before 0.1")
    needed = [field.name for field in fields(cls)] if is_dataclass(cls) else []
    if hasattr(cls, "_get_param_names"):  # an estimator
        needed += cls._get_param_names()
        # Fitted attributes are not checked if the versions are equal, because callbacks copy the
        # estimator during fit, when it still lacks some fitted attributes.
        fitted = any(name.endswith("_") for name in state) and version != __version__
        needed += cls._saved if fitted else ()
    else:
        needed += cls._saved
    missing = [name for name in needed if name not in state]
    if missing:
        raise ValueError(
            f"this {cls.__name__} was saved by skcrbm {version} and lacks attributes that skcrbm "
            f"{__version__} needs: {', '.join(missing)}. Load it with the version of skcrbm that "
            "saved it, or create it again"
        )
    if version != __version__ and getattr(cls, "_warns_of_version", True):
        warn_user(
            InconsistentVersionWarning(
                estimator_name=cls.__name__,
                current_version=__version__,
                original_version=version,
            )
        )
    return state


def is_model(cls: type) -> bool:
    """Return True for classes of estimators, which are saved as objects and not as dictionaries."""
    return hasattr(cls, "get_params") and getattr(cls, "_warns_of_version", True)


def plain(state: Any) -> Any:
    """Return the state of a model in which dictionaries replace its parts.

    If several parts share an object, they share its dictionary, too. A container without parts is
    returned unchanged.
    """
    return _Writer().written(state)


def built(state: Any) -> Any:
    """Return the state of a model with its parts as objects again: the inverse of `plain`.

    A ValueError is raised if a dictionary names a class that is not a part of a model.
    """
    return _Reader().read(state)


class _Containers:
    """Visit nested lists, tuples and dicts; call `item` with each object of another type."""

    def __init__(self):
        # Map from the id of an object to (object, result). It holds the object itself, because
        # the id of a deleted object may be used again.
        self.seen = {}

    def walk(self, value, item):
        if id(value) in self.seen:
            return self.seen[id(value)][1]
        if type(value) is tuple:
            items = tuple(item(part) for part in value)
            return items if any(a is not b for a, b in zip(items, value)) else value
        result: Any = type(value)()
        # Store the result before its items are visited, because they may contain the container.
        self.seen[id(value)] = value, result
        if type(value) is list:
            result.extend(item(part) for part in value)
            same = all(a is b for a, b in zip(result, value))
        else:
            result.update((key, item(part)) for key, part in value.items())
            same = all(result[key] is part for key, part in value.items())
        if same:
            self.seen[id(value)] = value, value
        return self.seen[id(value)][1]


class _Writer(_Containers):
    def written(self, value):
        if type(value) in (list, tuple, dict):
            return self.walk(value, self.written)
        cls = value if isinstance(value, type) else type(value)
        if not cls.__module__.startswith("skcrbm.") or is_model(cls):
            return value
        if cls is value:
            return {_CLASS: _name(cls), _TYPE: True}
        if id(value) in self.seen:
            return self.seen[id(value)][1]
        function, arguments, *rest = value.__reduce_ex__(2)
        if function is not _NEW or any(part is not None for part in rest[1:]):
            return value
        result: dict[str, Any] = {_CLASS: _name(cls)}
        self.seen[id(value)] = value, result
        if len(arguments) > 1:
            result[_ARGUMENTS] = self.written(list(arguments[1:]))
        if rest and rest[0] is not None:
            result[_STATE] = self.written(rest[0])
            # The state may be a temporary dictionary. Keep a reference to it, so that no other
            # object gets the same id.
            self.seen[id(rest[0])] = rest[0], result[_STATE]
        return result


class _Reader(_Containers):
    def read(self, value):
        if type(value) is not dict or _CLASS not in value:
            return self.walk(value, self.read) if type(value) in (list, tuple, dict) else value
        if id(value) in self.seen:
            return self.seen[id(value)][1]
        cls = _class_of_part(value[_CLASS])
        if value.get(_TYPE):
            return cls
        part = cls.__new__(cls, *self.read(value.get(_ARGUMENTS, [])))
        self.seen[id(value)] = value, part
        if _STATE in value:
            _set_state(part, self.read(value[_STATE]))
        return part


def _name(cls):
    return f"{cls.__module__}:{cls.__qualname__}"


def _class_of_part(name):
    module, _, qualified = name.partition(":")
    found: Any = import_module(module) if module.startswith("skcrbm.") else None
    for attribute in qualified.split("."):
        found = getattr(found, attribute, None)
    # A class may stand in another module than the module under which it was saved.
    inside = isinstance(found, type) and found.__module__.startswith("skcrbm.")
    if not inside or is_model(found):
        raise ValueError(f"a saved model names {name!r}, which is not a part of a model of skcrbm")
    return found


def _set_state(part, state):
    """Set the state of a new object as pickle does."""
    if hasattr(part, "__setstate__"):
        part.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    if attributes:
        vars(part).update(attributes)
    for name, value in (slots or {}).items():
        object.__setattr__(part, name, value)
