"""All joint states of a few variables."""

import itertools

import numpy as np


def all_states(counts, dtype=int):
    """All states (K, n), the first variable slowest.

    `counts` are the numbers of states of the variables, or the number n of 0/1 variables.
    """
    counts = np.full(counts, 2) if np.isscalar(counts) else counts
    states = list(itertools.product(*map(range, counts)))
    return np.array(states, dtype).reshape(len(states), len(counts))
