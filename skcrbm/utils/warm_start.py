"""Hyperparameters that shape a model: they must not change between fits that continue each other.

An estimator lists them in the class attribute `_structural`. A first fit stores their values; a
warm start, or a later call of `partial_fit`, compares them. All other hyperparameters may change:
they say how to train, to predict or to penalise, and the new values take effect.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

_LONGEST = 80  # number of characters of a value in the message


def note_structure(estimator: Any) -> None:
    """Store the values of the hyperparameters that shape the model, at the beginning of a fit."""
    names = getattr(estimator, "_structural", ())
    if names:
        estimator._structure = {name: copy.deepcopy(getattr(estimator, name)) for name in names}


def check_same_structure(estimator: Any) -> None:
    """Raise a ValueError if a hyperparameter that shapes the model differs from the first fit.

    An estimator may have a method ``_shape_of(name, value)``, which returns what a value such as
    "auto" stands for in the fitted model.
    """
    shape_of = getattr(estimator, "_shape_of", None)
    for name, fitted in vars(estimator).get("_structure", {}).items():
        now = getattr(estimator, name)
        if _same(fitted, now):
            continue
        if shape_of is not None and _same(shape_of(name, fitted), shape_of(name, now)):
            continue
        given, was = repr(now), repr(fitted)
        text = f"{name}={given}, but the model was fitted with {name}={was}"
        if max(len(given), len(was)) > _LONGEST:
            text = f"{name} has another value than in the fit of the model"
        raise ValueError(f"{text}; set warm_start=False and call fit to start again")


def _same(a: Any, b: Any) -> bool:
    """Return True if two values of a hyperparameter mean the same."""
    if a is b:
        return True
    if isinstance(a, BaseEstimator):  # an object with options
        return type(a) is type(b) and _same(a.get_params(), b.get_params())
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    sequences = (list, tuple, np.ndarray)
    if isinstance(a, sequences) and isinstance(b, sequences):
        return len(a) == len(b) and all(map(_same, a, b))
    try:
        return bool(a == b)
    except (TypeError, ValueError):  # an object without a plain comparison
        return False
