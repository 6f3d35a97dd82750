"""Measure the error of approximate marginals, on models that are small enough for "exact".

The exact marginals are computed in NumPy, because a compiled kernel would add its compile time to
the first fit by belief propagation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, softmax

from skcrbm.energies import RBMEnergy
from skcrbm.inference.base import InferenceMethod
from skcrbm.inference.running import run_inference
from skcrbm.utils.limits import EXACT_VALIDATION_UNITS

# Largest number of rows whose marginals are compared with exact marginals.
_MAX_ROWS = 32
# Largest cost of computing the exact marginals. The cost is the number of rows, times the number of
# states of the smaller layer, times the number of units of the larger layer. The largest cost takes
# about 0.2 s.
_MAX_TERMS = 2**23


def checked_rows(weights_shape: tuple[int, int], n_rows: int) -> np.ndarray:
    """Choose evenly spaced rows whose exact marginals take less than a second.

    Return no rows if the model is too large.
    """
    n_units, n_others = sorted(weights_shape)
    if n_units > EXACT_VALIDATION_UNITS:
        return np.empty(0, int)
    n_checked = min(_MAX_ROWS, n_rows, _MAX_TERMS // (2**n_units * max(n_others, 1)))
    return np.linspace(0, n_rows - 1, n_checked).astype(int)


def marginal_error(energy: RBMEnergy, method: InferenceMethod) -> float:
    """Return the mean error of the marginals P(v_i = 1) for the output i with the largest error.

    The mean error of output i is the mean of |approximate - exact marginal| over the models.
    """
    result: Any = run_inference(energy, method)
    error = np.abs(result.marginals[:, : energy.n_visible] - exact_visible_marginals(energy))
    return float(error.mean(axis=0).max())


def exact_visible_marginals(energy: RBMEnergy) -> np.ndarray:
    """Compute the exact P(v_i = 1) of RBMs by enumerating the states of the smaller layer.

    The result has shape (N, V).
    """
    if energy.exclusive.any():
        return run_inference(energy, "exact").marginals[:, : energy.n_visible]
    if energy.n_visible <= energy.n_hidden:
        states = _all_states(energy.n_visible)
        return softmax(energy.log_weight_of_sets(states), axis=1) @ states
    states = _all_states(energy.n_hidden)
    swapped = RBMEnergy(energy.weights.T, energy.hidden_bias, energy.visible_bias)
    proba = softmax(swapped.log_weight_of_sets(states), axis=1)
    inputs = states @ energy.weights.T
    return np.stack(
        [p @ expit(b + inputs) for p, b in zip(proba, energy.visible_bias, strict=True)]
    )


def _all_states(n_units):
    return (np.arange(2**n_units)[:, None] >> np.arange(n_units) & 1).astype(float)
