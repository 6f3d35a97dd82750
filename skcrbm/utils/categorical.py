"""Log-odds of the states of a categorical variable, computed without loss of digits."""

from __future__ import annotations

import numpy as np


def one_against_rest(log_weights: np.ndarray) -> np.ndarray:
    """Return the log-odds (..., K) of each state against all other states.

    `log_weights` (..., K) holds the log-weights of the K states. The log-odds are -inf for a state
    of weight 0, and inf if all other states have weight 0.
    """
    # Add the log-sums over the states before and after each state. Subtracting the weight of a
    # state with probability near 1 from the total would lose nearly all significant digits.
    empty = np.full((*log_weights.shape[:-1], 1), -np.inf)
    below = np.logaddexp.accumulate(np.concatenate([empty, log_weights], axis=-1), axis=-1)
    back = np.concatenate([empty, log_weights[..., ::-1]], axis=-1)
    above = np.logaddexp.accumulate(back, axis=-1)[..., ::-1]
    others = np.logaddexp(below[..., :-1], above[..., 1:])
    possible = log_weights > -np.inf
    return np.subtract(log_weights, others, out=np.full(others.shape, -np.inf), where=possible)
