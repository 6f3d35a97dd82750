"""Random numbers that depend on `random_state` and on counters only, and random restarts.

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
    """Draw the key of one call or fit from `random_state`; all other draws follow from the key."""
    return np.uint64(check_random_state(random_state).randint(2**63 - 1, dtype=np.int64))


def uniforms(key: Any, streams: Any, step: int, n_sites: int) -> np.ndarray:
    """Draw uniform numbers on (0, 1), float64 of shape (len(streams), n_sites).

    `key` is a uint64 for a call or a fit (see `random_key`), `streams` has the number of the
    chain or row for each row of the result, and `step` counts the draws of a stream.
    """
    from skcrbm.kernels.random_uniform import fill_uniform

    out = np.empty((len(streams), n_sites))
    with np.errstate(over="ignore"):  # 64-bit numbers wrap around; NumPy warns without the JIT
        fill_uniform(key, np.asarray(streams, np.uint64), np.uint64(step), out)
    return out


def seeds(key: Any, streams: Any, step: int) -> np.ndarray:
    """Return the seeds (len(streams),) uint64 from which kernels draw the numbers of `uniforms`."""
    from skcrbm.kernels.random_uniform import fill_seeds

    out = np.empty(len(streams), np.uint64)
    with np.errstate(over="ignore"):
        fill_seeds(key, np.asarray(streams, np.uint64), np.uint64(step), out)
    return out


def logistic_noise(key: Any, streams: Any, step: int, n_sites: int) -> np.ndarray:
    """Draw Logistic(0, 1) numbers: Gumbel noise on both states of a unit, as log-odds."""
    u = uniforms(key, streams, step, n_sites)
    return np.log(u) - np.log1p(-u)


def best_of_restarts(
    solve: Callable[[np.ndarray | None], tuple[dict, np.ndarray]],
    energy: BaseEnergy,
    n_restarts: int,
    random_state: int | np.random.RandomState | None,
) -> dict[str, Any]:
    """Run a solver from its own start and from `n_restarts` - 1 random starts.

    A random start has the biases as beliefs, with Logistic(0, 1) noise times 1 + |bias|:
    enough to flip any unit, or to change the best state of a categorical variable. All models draw
    the same noise, so that an answer does not depend on the rest of the batch. ``solve(start)``
    takes None or beliefs in the shape of the biases, and returns the fields of a result and the
    score (N,) of the assignment. Each model keeps the fields of its best run, the first of equal
    runs.
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
