"""Errors about parameters that an estimator does not have, with the name that it has instead."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable
from functools import cache
from typing import Any

# An object with options for some parameters, as an example in messages.
_OPTIONS = {"solver": "Adam", "inference": "SumProduct", "decode": "Threshold"}
# Parameters of other packages: the parameter of this package, and how to convert the value. The
# advice is given to estimators that have the parameter.
_ELSEWHERE = {
    "C": ("alpha", "alpha is the strength of the penalty, so a smaller C is a larger alpha"),
    "c1": ("l1_ratio", "crfsuite's c1 is alpha=c1 / n_sequences with l1_ratio=1"),
    "c2": ("alpha", "crfsuite's c2 is alpha=2 * c2 / n_sequences"),
    "alpha": ("C", "C is the weight of the errors, so a larger alpha is a smaller C"),
    "lambda_": ("alpha", "alpha is the strength of the penalty"),
    "reg": ("alpha", "alpha is the strength of the penalty"),
    "reg_lambda": ("alpha", "alpha is the strength of the penalty"),
    "penalty": ("alpha", "alpha is the strength of the penalty"),
    "weight_decay": ("alpha", "alpha is the strength of the penalty"),
    "algorithm": ("solver", "solver names the method of training"),
    "all_possible_states": ("features", "crfsuite's all_possible_states=True is features='all'"),
    "optimizer": ("solver", "solver names the method of training"),
    "learning_rate": ("solver", "write solver=Adam(learning_rate=...), from skcrbm.learning"),
    "lr": ("solver", "write solver=Adam(learning_rate=...), from skcrbm.learning"),
    "batch_size": ("solver", "write solver=Adam(batch_size=...), from skcrbm.learning"),
    "all_possible_transitions": (
        "forbidden",
        "each transition has a weight if it is not forbidden",
    ),
    "max_iterations": ("max_iter", ""),
    "n_iter": ("max_iter", ""),
    "n_epochs": ("max_iter", ""),
    "epochs": ("max_iter", ""),
    "n_components": ("n_hidden", ""),
    "hidden_layer_sizes": ("n_hidden", ""),
    "n": ("n_hidden", ""),
    "seed": ("random_state", ""),
    "random_seed": ("random_state", ""),
    "n_threads": ("n_jobs", ""),
    "nthread": ("n_jobs", ""),
    "n_workers": ("n_jobs", ""),
    "verbosity": ("verbose", ""),
    "class_weights": ("class_weight", ""),
    "base_estimator": ("estimator", ""),
    "classifier": ("estimator", ""),
    "model": ("estimator", ""),
}


class KnownParameters:
    """Mixin of classes whose objects are made with keyword arguments, as in scikit-learn.

    If `__init__` does not have an argument, a TypeError names the argument to use instead, if there
    is one. `set_params` raises a ValueError in the same case.
    """

    def __new__(cls, *args: Any, **params: Any) -> Any:
        """Make an object, if `__init__` has all named parameters."""
        if params and (message := unknown_text(cls, params)):
            raise TypeError(f"{cls.__name__}() got an unexpected keyword argument {message}")
        return super().__new__(cls)

    def set_params(self, **params):
        """Set hyperparameters, and options of objects among them, as in ``solver__tol=0.1``.

        Parameters
        ----------
        **params : dict
            Names and values.

        Returns
        -------
        self : object
            This estimator.
        """
        if message := unknown_text(type(self), [name for name in params if "__" not in name]):
            raise ValueError(f"Invalid parameter {message}")
        _check_nested(self, params)
        return super().set_params(**params)  # type: ignore[misc]


@cache
def _parameters(cls: type) -> tuple[str, ...] | None:
    """Return the names of the parameters of a class, or None if it takes any name."""
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return tuple(p.name for p in parameters)


def unknown_text(cls: type, names: Iterable[str]) -> str:
    """Return the first unknown name and advice, or "" if the class has all parameters."""
    known = _parameters(cls)
    unknown = () if known is None else [name for name in names if name not in known]
    if not unknown or known is None:
        return ""
    name = unknown[0]
    own, how = _ELSEWHERE.get(name, ("", ""))
    if own in known:
        return f"{name!r}: use {own}{f'; {how}' if how else ''}"
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{name!r}; the parameters are {', '.join(sorted(known))}.{hint}"


def _check_nested(estimator, params):
    """Raise a ValueError if options of a name are set, as ``solver__tol`` with ``solver="adam"``.

    `params` are the arguments of `set_params`, which can set an option of an object only.
    """
    own = estimator.get_params(deep=False)
    for key in params:
        name, nested, option = key.partition("__")
        value = params.get(name, own.get(name))
        if nested and name in own and not hasattr(value, "set_params"):
            example = _OPTIONS.get(name, "")
            how = f", as in {name}={example}({option}=...)" if example else ""
            raise ValueError(
                f"{key} needs an object with options, but {name}={value!r}; set {name} to an "
                f"object that has the option {option}{how}"
            )
