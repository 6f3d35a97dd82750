"""The check of states: the methods of an energy that users call take 0 and 1 and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np

# Methods whose first argument holds 0/1 states; `sum_statistics` takes means of variables, too.
_TAKE_STATES = (
    "score", "log_weight", "log_weight_of_sets", "conditional_log_odds", "hidden_given_visible",
    "hidden_and_log_weight", "visible_log_odds", "statistics",
)  # fmt: skip
_TAKE_MEANS = ("sum_statistics",)
# Distance from 0 and 1 that rounding in float32 may cause in a mean.
_ROUNDING = 1e-6


def check_methods_that_take_states(cls: type) -> None:
    """Replace the methods that a class of energies defines by methods that check their states."""
    for names, check, own_check in (
        (_TAKE_STATES, checked_states, "_checked_states"),
        (_TAKE_MEANS, checked_means, "_checked_means"),
    ):
        for name in names:
            if name in vars(cls):
                setattr(cls, name, _checking(vars(cls)[name], check, own_check))


def _checking(method, check, own_check):
    """Return a method that checks its first argument, by a method `own_check` if there is one."""
    argument = list(signature(method).parameters)[1]

    @wraps(method)
    def checking(self, *args, **kwargs):
        checked = getattr(self, own_check, check)
        if args:
            return method(self, checked(args[0], argument), *args[1:], **kwargs)
        if argument in kwargs:
            kwargs[argument] = checked(kwargs[argument], argument)
        return method(self, **kwargs)

    return checking


def unchecked(method: Callable) -> Callable:
    """Return a method of an energy without the check, for states that are known to be valid."""
    function: Any = getattr(method, "__func__", None)
    inner = getattr(function, "__wrapped__", None)
    return method if inner is None else inner.__get__(method.__self__)  # type: ignore


def checked_states(states: Any, name: str) -> np.ndarray:
    """Return states as an array, or raise a ValueError if a value is not 0 or 1."""
    array = np.asarray(states)
    if array.dtype == bool:
        return array
    if array.dtype.kind not in "iuf" or not ((array == 0) | (array == 1)).all():
        _refuse(array, name, "0 and 1", lambda value: value not in (0, 1))
    return array


def checked_means(means: Any, name: str) -> np.ndarray:
    """Return means as an array, or raise a ValueError if a value is not from 0 to 1."""
    array = np.asarray(means)
    if array.dtype == bool or array.size == 0:
        return array
    low, high = -_ROUNDING, 1 + _ROUNDING
    if array.dtype.kind not in "iuf" or not (array.min() >= low and array.max() <= high):
        _refuse(array, name, "numbers from 0 to 1", lambda value: not low <= value <= high)
    return array


def _refuse(array, name, values, is_wrong):
    """Raise the error about the first wrong value."""
    wrong = repr(array.dtype)
    if array.dtype.kind in "iuf":
        wrong = next(f"{value:g}" for value in array.ravel().tolist() if is_wrong(value))
    raise ValueError(
        f"{name} must hold {values}: 1 where a variable is on (+1 in an Ising model), 0 where it "
        f"is off (-1). Convert spins s of -1/+1 by (s + 1) / 2; got {wrong}"
    )
