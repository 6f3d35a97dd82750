"""Draw random numbers that depend only on `random_state` and on counters, and run random restarts.

Functions import the kernels that they call, so that importing this module does not load Numba.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from skcrbm.energies import BaseEnergy


def random_key(random_state: int | np.random.RandomState | None) -> np.uint64:
    """Draw a key (uint64) from `random_state`, which determines all random numbers of a call."""
    return np.uint64(check_random_state(random_state).randint(2**63 - 1, dtype=np.int64))


def uniforms(key: Any, streams: Any, step: int, n_sites: int) -> np.ndarray:
    """Draw uniform random numbers on (0, 1), as float64 of shape (len(streams), n_sites).

    `key` is a result of `random_key`. Row i of the result has random numbers from the stream with
    the number `streams[i]`, for example the index of a chain. `step` counts the draws from a
    stream, so that each step gives different random numbers.
    """
    from skcrbm.kernels.random_uniform import fill_uniform

    out = np.empty((len(streams), n_sites))
    # NumPy would warn of integers that overflow on purpose, if the JIT is off
    with np.errstate(over="ignore"):
        fill_uniform(key, np.asarray(streams, np.uint64), np.uint64(step), out)
    return out


def seeds(key: Any, streams: Any, step: int) -> np.ndarray:
    """Return a seed (uint64) for each stream of random numbers.

    From these seeds, kernels draw the same random numbers as `uniforms`.
    """
    from skcrbm.kernels.random_uniform import fill_seeds

    out = np.empty(len(streams), np.uint64)
    with np.errstate(over="ignore"):
        fill_seeds(key, np.asarray(streams, np.uint64), np.uint64(step), out)
    return out


def logistic_noise(key: Any, streams: Any, step: int, n_sites: int) -> np.ndarray:
    """Draw Logistic(0, 1) random numbers, of shape (len(streams), n_sites).

    The difference of two independent Gumbel random numbers has this distribution. So Gumbel noise
    on the scores of the values 0 and 1 adds Logistic(0, 1) noise to the log-odds.
    """
    u = uniforms(key, streams, step, n_sites)
    return np.log(u) - np.log1p(-u)


def gumbel_noise(key: Any, streams: Any, step: int, n_sites: int) -> np.ndarray:
    """Draw Gumbel random numbers of mean 0, of shape (len(streams), n_sites)."""
    return -np.log(-np.log(uniforms(key, streams, step, n_sites))) - np.euler_gamma


def best_of_restarts(
    solve: Callable[[np.ndarray | None], tuple[dict, np.ndarray]],
    energy: BaseEnergy,
    n_restarts: int,
    random_state: int | np.random.RandomState | None,
) -> dict[str, Any]:
    """Run a solver from its default start and from `n_restarts` - 1 random starts.

    A random start has the log-odds ``bias + (1 + |bias|) * noise``, where the noise is Logistic(0,
    1). The noise can flip any unit, or change the best state of any categorical variable. All
    models get the same noise, so that an answer does not depend on the other models of the batch.

    ``solve(start)`` takes None or beliefs in the shape of the biases, and returns the fields of a
    result and the score (N,) of the assignment. For each model, the result has the fields of the
    run with the highest score, or of the first of these runs if several runs have the same score.
    """
    fields, best = solve(None)
    key = random_key(random_state) if n_restarts > 1 else None
    biases = np.hstack(energy.fields)
    spread = 1 + np.abs(biases)
    for run in range(1, n_restarts):
        noise = logistic_noise(key, [0], run, math.prod(biases.shape[1:]))
        noise = noise.reshape(1, *biases.shape[1:])
        start = biases + spread * noise
        other, score = solve(start.astype(energy.dtype))
        better = score > best
        best[better] = score[better]
        for name, values in other.items():
            fields[name][better] = values[better]
    return fields
