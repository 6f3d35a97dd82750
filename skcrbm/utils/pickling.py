"""Record the version of skcrbm in pickles, so that loading an old pickle gives a clear message."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

from skcrbm._version import __version__
from skcrbm.exceptions import InconsistentVersionWarning
from skcrbm.utils.model_parts import built, plain
from skcrbm.utils.warnings import warn_user

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


class SavedModel(Versioned):
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
