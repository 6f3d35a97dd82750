"""Pickles that say which version wrote them."""

from dataclasses import fields, is_dataclass
from typing import ClassVar

from skcrbm._version import __version__
from skcrbm.exceptions import InconsistentVersionWarning
from skcrbm.utils.warnings import warn_user

_KEY = "_skcrbm_version"


class Versioned:
    """Base of what users pickle: its state holds the version, as scikit-learn's estimators do.

    It stands before the base that has a state of its own, as `BaseEstimator`. The state of another
    version is taken with a warning, and refused where something is missing from it.
    """

    #: Attributes that every object has; of an estimator, every one that is fitted. Those of
    #: dataclasses and the parameters of estimators are known without.
    _saved: ClassVar[tuple] = ()

    def __getstate__(self):
        return {**(super().__getstate__() or {}), _KEY: __version__}

    def __setstate__(self, state):
        state = dict(state)
        version = state.pop(_KEY, "before 0.1")
        self._check_layout(state, version)
        if hasattr(super(), "__setstate__"):
            super().__setstate__(state)
        else:
            self.__dict__.update(state)

    def _check_layout(self, state, version):
        """Warn of the state of another version; ValueError if it cannot be that of this one.

        Versions under development share a number.
        """
        cls = type(self)
        needed = [field.name for field in fields(cls)] if is_dataclass(cls) else []
        if hasattr(cls, "_get_param_names"):  # an estimator
            needed += cls._get_param_names()
            # Of this version it may be the copy, not all fitted, that a callback gets.
            fitted = any(name.endswith("_") for name in state) and version != __version__
            needed += cls._saved if fitted else ()
        else:
            needed += cls._saved
        missing = [name for name in needed if name not in state]
        if missing:
            raise ValueError(
                f"this {cls.__name__} was saved by skcrbm {version} and lacks what skcrbm "
                f"{__version__} needs: {', '.join(missing)}. Load it with the skcrbm that saved "
                "it, or make it anew"
            )
        if version != __version__:
            warn_user(
                InconsistentVersionWarning(
                    estimator_name=cls.__name__,
                    current_version=__version__,
                    original_version=version,
                )
            )
