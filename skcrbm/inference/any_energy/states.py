"""States and means of independent variables: 0/1 variables, and variables of K states.

Beliefs have an axis of K states if the variables of an energy are categorical.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skcrbm.energies import BaseEnergy
from skcrbm.energies.base import Block


def is_categorical(energy: BaseEnergy) -> bool:
    """Return True if beliefs have an axis of states."""
    return len(energy.belief_shape) == 3


def chain_dtype(energy: BaseEnergy) -> np.dtype:
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
    block: Block = slice(None),
) -> np.ndarray:
    """Return the most probable states (..., size of the block) of variables with these log-odds.

    The states `ties` stay unless another state is more probable.
    """
    if is_categorical(energy):
        return energy.best_states(log_odds, ties, block)
    best = log_odds > 0
    return best if ties is None else np.where(log_odds == 0, ties, best)


def means_of_states(energy: BaseEnergy, states: np.ndarray) -> np.ndarray:
    """Return the means of variables in given states: the states, or the shares (..., K)."""
    if is_categorical(energy):
        levels = np.arange(energy.belief_shape[-1])
        return np.equal(states[..., None], levels).astype(energy.dtype)
    return states.astype(energy.dtype)


def with_evidence(energy: BaseEnergy, states: np.ndarray) -> np.ndarray:
    """Set the held variables of states (N, ..., n_variables) to their values."""
    if energy.evidence is None:
        return states
    held = energy.evidence.reshape(len(states), *(1,) * (states.ndim - 2), -1)
    return np.where(np.isnan(held), states, np.nan_to_num(held).astype(states.dtype))
