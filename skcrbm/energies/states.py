"""States of variables, 0/1 or categorical: their check, their means, and draws of them.

Methods of energies that users call check the states that they take; `unchecked` leaves the check
out for states that are known to be valid. Beliefs have an axis of K states if the variables of an
energy are categorical.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def binary_states(k: int) -> np.ndarray:
    """Return all 0/1 states (2^k, k), the first variable fastest."""
    return (np.arange(2**k)[:, None] >> np.arange(k)) & 1


def infinite_where_held(log_odds: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Return log-odds, but inf where `held` is 1, -inf where it is 0; NaN means free."""
    return np.where(np.isnan(held), log_odds, np.where(held == 1, np.inf, -np.inf))


def log_odds_of_weights(logs: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return the log-odds (..., K) of states with the given log-weights.

    `allowed` is True for the states to choose from if all weights are 0.
    """
    blocked = (logs == -np.inf).all(axis=-1, keepdims=True)
    logs = np.where(blocked, np.where(allowed, 0.0, -np.inf), logs)
    top = logs.max(axis=-1, keepdims=True)
    weight = np.exp(logs - top)
    order = np.arange(logs.shape[-1])
    first = logs.argmax(axis=-1)[..., None] == order
    # All others of the largest weight are summed without it, so that no digits cancel.
    others = np.where(first, 0.0, weight).sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.where(first, np.log(others), np.log(1.0 + (others - weight)))
    return logs - top - rest


def strides_of(shape: Sequence[int]) -> np.ndarray:
    """Return the strides (m,) of a table in C order, in entries."""
    return np.cumprod((1, *shape[:0:-1]), dtype=np.int64)[::-1]


def is_categorical(energy: Any) -> bool:
    """Return True if beliefs have an axis of states."""
    return len(energy.belief_shape) == 3


def chain_dtype(energy: Any) -> np.dtype:
    """Return the dtype of the states of chains: bool for 0/1 variables."""
    return energy.state_dtype if is_categorical(energy) else np.dtype(bool)


def independent_states(
    energy: Any, u: np.ndarray, beliefs: np.ndarray | None = None, first: int = 0
) -> np.ndarray:
    """Draw states (N or 1, C, n - first) of the variables from number `first` on.

    Parameters
    ----------
    energy : BaseEnergy
    u : ndarray (N or 1, C, n - first)
        Uniform random numbers.
    beliefs : ndarray in `belief_shape`, default=None
        Marginals. None: all states of a variable are equally probable.
    first : int, default=0
        0 for categorical variables.
    """
    if is_categorical(energy):
        return energy.draw_independent(u, beliefs)
    return u < (0.5 if beliefs is None else beliefs[:, None, first:])


def best_states(
    energy: Any,
    log_odds: np.ndarray,
    ties: np.ndarray | None = None,
    block: Any = slice(None),
) -> np.ndarray:
    """Return the most probable states (..., size of the block) of variables with these log-odds.

    The states `ties` stay unless another state is more probable.
    """
    if is_categorical(energy):
        return energy.best_states(log_odds, ties, block)
    best = log_odds > 0
    return best if ties is None else np.where(log_odds == 0, ties, best)


def means_of_states(energy: Any, states: np.ndarray) -> np.ndarray:
    """Return the means of variables in given states: the states, or the shares (..., K)."""
    if is_categorical(energy):
        levels = np.arange(energy.belief_shape[-1])
        return np.equal(states[..., None], levels).astype(energy.dtype)
    return states.astype(energy.dtype)


def with_evidence(energy: Any, states: np.ndarray) -> np.ndarray:
    """Set the held variables of states (N, ..., n_variables) to their values."""
    if energy.evidence is None:
        return states
    held = energy.evidence.reshape(len(states), *(1,) * (states.ndim - 2), -1)
    return np.where(np.isnan(held), states, np.nan_to_num(held).astype(states.dtype))
