"""States of 0/1 or categorical variables: validation, means, modes, and sampling.

The methods of energies validate the states that users pass. Code of this package whose states are
known to be valid calls the methods through `unchecked`, which skips the validation. For energies
with categorical variables, beliefs have an additional axis of K states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np

from skcrbm.utils.labels import by_label
from skcrbm.utils.validation import has_labels

# Methods of energies that validate their first argument, which must hold 0/1 states, and the shape
# of this argument. The energy has N models of n variables, of which V are visible; K and C are any
# numbers.
_TAKE_STATES = {
    "score": "(N, n)", "log_weight": "(N, V)", "log_weight_of_sets": "(K, V)",
    "conditional_log_odds": "(N, C, n)", "hidden_given_visible": "(N, V)",
    "hidden_and_log_weight": "(N, V)", "visible_log_odds": "(N, V)", "statistics": "(K, n)",
}  # fmt: skip
# Methods of energies whose first argument holds 0/1 states or means of variables.
_TAKE_MEANS = {"sum_statistics": "(K, n)"}
# Means may be outside of [0, 1] by up to this number, because of rounding in float32. Means further
# outside raise a ValueError.
_ROUNDING = 1e-6


def check_methods_that_take_states(cls: type) -> None:
    """Wrap the methods that an energy class defines, so that they validate their states."""
    for methods, check, own_check in (
        (_TAKE_STATES, checked_states, "_checked_states"),
        (_TAKE_MEANS, checked_means, "_checked_means"),
    ):
        for name, shape in methods.items():
            if name in vars(cls):
                setattr(cls, name, _checking(vars(cls)[name], shape, check, own_check))


def _checking(method, shape, check, own_check):
    """Wrap a method, so that it validates the values and the shape of its first argument.

    If the energy has a method whose name is the string `own_check`, this method validates the
    values. Otherwise the function `check` validates them.
    """
    argument = list(signature(method).parameters)[1]

    @wraps(method)
    def checking(self, *args, **kwargs):
        if args:
            states, args = args[0], args[1:]
        elif argument in kwargs:
            states = kwargs.pop(argument)
        else:  # raises the usual TypeError
            return method(self, **kwargs)
        if has_labels(states):
            width = self.n_visible if shape.endswith("V)") else self.n_variables
            labels = None if self.labels is None else self.labels[:width]
            states = by_label(states, argument, width, labels)
        states = getattr(self, own_check, check)(states, argument)
        _check_shape(self, states, argument, shape)
        return method(self, states, *args, **kwargs)

    return checking


def _check_shape(energy, states, name, shape):
    """Raise a ValueError unless states have the shape of a method in `_TAKE_STATES`.

    A single state, or a single model, stands for any number of them. Arrays of means may have an
    additional axis of states.
    """
    n_visible, n_all, n_models = energy.n_visible, energy.n_variables, energy.n_models
    width = n_visible if shape.endswith("V)") else n_all
    given = states.shape
    if is_categorical(energy) and len(given) == 3 and shape == "(K, n)":
        given = given[:2]
    fits = len(given) == shape.count(",") + 1 and given[-1] == width
    if not fits or (shape[1] == "N" and n_models not in (1, given[0]) and given[0] != 1):
        visible = "" if "V" not in shape else f", V = {n_visible}"
        models = "" if "N" not in shape else f"N = {n_models}, "
        raise ValueError(
            f"{name} must have shape {shape} with {models}n = {n_all}{visible}; got {states.shape}"
        )


def unchecked(method: Callable) -> Callable:
    """Return the version of an energy's method that does not validate the states passed to it."""
    function: Any = getattr(method, "__func__", None)
    inner = getattr(function, "__wrapped__", None)
    return method if inner is None else inner.__get__(method.__self__)  # type: ignore


def checked_states(states: Any, name: str) -> np.ndarray:
    """Return states as an array, or raise a ValueError if a value is not 0 or 1."""
    array = unmasked(states, name)
    if array.dtype == bool:
        return array
    if array.dtype.kind not in "iuf" or not ((array == 0) | (array == 1)).all():
        _refuse(array, name, "0 and 1", lambda value: value not in (0, 1))
    return array


def checked_means(means: Any, name: str) -> np.ndarray:
    """Return means as an array, or raise a ValueError if a value is outside of [0, 1]."""
    array = unmasked(means, name)
    if array.dtype == bool or array.size == 0:
        return array
    low, high = -_ROUNDING, 1 + _ROUNDING
    if array.dtype.kind not in "iuf" or not (array.min() >= low and array.max() <= high):
        _refuse(array, name, "numbers from 0 to 1", lambda value: not low <= value <= high)
    return array


def unmasked(array, name):
    """Return an array-like as an array; raise a ValueError if it has masked entries."""
    if np.ma.is_masked(array):
        raise ValueError(f"{name} must not have masked entries, because their values are hidden")
    try:
        return np.asarray(array)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} must be an array of states: {error}") from error


def _refuse(array, name, values, is_wrong):
    """Raise a ValueError that shows the first wrong value of an array.

    `name` is the name of the array, the string `values` describes valid values, and
    ``is_wrong(value)`` returns True for a wrong value.
    """
    wrong = repr(array.dtype)
    if array.dtype.kind in "iuf":
        wrong = next(f"{value:g}" for value in array.ravel().tolist() if is_wrong(value))
    raise ValueError(
        f"{name} must hold {values}: 1 for variables that are on (spin +1 in an Ising model), 0 "
        f"for variables that are off (spin -1). Convert spins s by (s + 1) / 2; got {wrong}"
    )


def binary_states(k: int) -> np.ndarray:
    """Return all 0/1 states (2^k, k); the first variable changes fastest."""
    return (np.arange(2**k)[:, None] >> np.arange(k)) & 1


def infinite_where_held(log_odds: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Return the log-odds with inf for variables clamped to 1, and -inf for variables clamped to 0.

    `held` has the values of clamped variables, and NaN for free variables.
    """
    return np.where(np.isnan(held), log_odds, np.where(held == 1, np.inf, -np.inf))


def log_odds_of_weights(logs: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return the log-odds (..., K) of the K states of variables with log-weights (..., K).

    If all weights are 0, the states for which `allowed` (..., K) is True are equally probable. The
    most probable states have equal log-odds if their log-weights are equal, so that rounding never
    decides between them.
    """
    blocked = (logs == -np.inf).all(axis=-1, keepdims=True)
    logs = np.where(blocked, np.where(allowed, 0.0, -np.inf), logs)
    if logs.shape[-1] == 2:  # a third of the time of the general case, for 16 variables
        return logs - logs[..., ::-1]
    top = logs.max(axis=-1, keepdims=True)
    weight = np.exp(logs - top)
    order = np.arange(logs.shape[-1])
    first = logs.argmax(axis=-1)[..., None] == order
    # The weights of the other states are added up relative to the largest of them. Subtracting the
    # largest weight from the sum of all weights would lose digits.
    rest = np.where(first, -np.inf, logs)
    second = rest.max(axis=-1, keepdims=True, initial=-np.inf)
    scale = np.where(second > -np.inf, second, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_others = scale + np.log(np.exp(rest - scale).sum(axis=-1, keepdims=True))
        without = np.log1p(np.exp(log_others - top) - np.where(first, 0.0, weight))
        return np.where(logs == top, top - log_others, logs - top - without)


def strides_of(shape: Sequence[int]) -> np.ndarray:
    """Return the strides (m,) of a table in C order, counted in entries."""
    return np.cumprod((1, *shape[:0:-1]), dtype=np.int64)[::-1]


def is_categorical(energy: Any) -> bool:
    """Return True if the beliefs of an energy have an axis of states."""
    return len(energy.belief_shape) == 3


def chain_dtype(energy: Any) -> np.dtype:
    """Return the dtype of states in Markov chains, which is bool for 0/1 variables."""
    return energy.state_dtype if is_categorical(energy) else np.dtype(bool)


def independent_states(
    energy: Any, u: np.ndarray, beliefs: np.ndarray | None = None, first: int = 0
) -> np.ndarray:
    """Draw states of the variables ``first`` to ``n - 1``, independently of each other.

    The N models have n variables, and C states are drawn per model. The result has the shape of `u`
    (N or 1, C, n - first), which holds uniform random numbers. `beliefs` holds the marginals in the
    `belief_shape` of the energy; None means that all states of a variable are equally probable. For
    categorical variables `first` must be 0.
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
    """Return the most probable state of each variable in a block, given the log-odds.

    If `ties` is given, it holds a preferred state for each variable. The preferred state is
    returned if no other state is more probable.
    """
    if is_categorical(energy):
        return energy.best_states(log_odds, ties, block)
    best = log_odds > 0
    return best if ties is None else np.where(log_odds == 0, ties, best)


def means_of_states(energy: Any, states: np.ndarray) -> np.ndarray:
    """Convert states to the means that variables in these states have, in the dtype of the energy.

    0/1 states do not change. Categorical states are one-hot encoded (..., K).
    """
    if is_categorical(energy):
        levels = np.arange(energy.belief_shape[-1])
        return np.equal(states[..., None], levels).astype(energy.dtype)
    return states.astype(energy.dtype)


def with_evidence(energy: Any, states: np.ndarray) -> np.ndarray:
    """Return states (N, ..., n_variables) with the values of clamped variables inserted."""
    if energy.evidence is None:
        return states
    held = energy.evidence.reshape(len(states), *(1,) * (states.ndim - 2), energy.n_variables)
    return np.where(np.isnan(held), states, np.nan_to_num(held).astype(states.dtype))


def signs_of(visible: np.ndarray) -> np.ndarray:
    """Return 0/1/NaN entries as int8 signs: -1 for 0, +1 for 1, 0 for NaN."""
    return np.subtract(visible == 1, visible == 0, dtype=np.int8)


def visible_of(signs: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the 0/1/NaN entries for int8 signs, the inverse of `signs_of`."""
    return np.where(signs == 0, dtype.type(np.nan), (signs > 0).astype(dtype))
