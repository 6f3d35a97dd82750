"""Random numbers that depend on `random_state` and on counters only, and random restarts.

Kernels are imported by the functions that call them: importing this module does not load Numba.
"""

import numpy as np

from skcrbm.utils.random import random_key


def uniforms(key, streams, step, n_sites):
    """Uniform numbers on (0, 1), (len(streams), n_sites) float64.

    Parameters
    ----------
    key : uint64
        One per call or fit, see `random_key`.
    streams : array-like of int
        Chain or row of each row of the result.
    step : int
        Counts the draws of a stream.
    """
    from skcrbm.kernels.random_uniform import fill_uniform

    out = np.empty((len(streams), n_sites))
    with np.errstate(over="ignore"):  # 64-bit numbers wrap around; heard of without the JIT only
        fill_uniform(key, np.asarray(streams, np.uint64), np.uint64(step), out)
    return out


def seeds(key, streams, step):
    """Return what kernels make the numbers of `uniforms` of, (len(streams),) uint64."""
    from skcrbm.kernels.random_uniform import fill_seeds

    out = np.empty(len(streams), np.uint64)
    with np.errstate(over="ignore"):
        fill_seeds(key, np.asarray(streams, np.uint64), np.uint64(step), out)
    return out


def logistic_noise(key, streams, step, n_sites):
    """Logistic(0, 1) numbers: Gumbel noise on both states of a unit, as log-odds."""
    u = uniforms(key, streams, step, n_sites)
    return np.log(u) - np.log1p(-u)


def best_of_restarts(solve, energy, n_restarts, random_state):
    """Run `solve` from its own start and from `n_restarts` - 1 random ones.

    A random start takes the biases for beliefs, with Logistic(0, 1) noise times 1 + |bias|:
    enough to turn over any unit. All models draw the same noise, so that an answer does not
    depend on the rest of the batch.

    Parameters
    ----------
    solve : callable
        ``solve(start) -> (fields, score)``; start is None or beliefs (N, n_variables), and
        score (N,) that of the assignment found.
    energy : BaseEnergy
    n_restarts : int
        Number of runs.
    random_state : int, RandomState or None

    Returns
    -------
    dict
        Fields of the best run of each model, the first one of equals.
    """
    fields, best = solve(None)
    key = random_key(random_state) if n_restarts > 1 else None
    biases = np.hstack(energy.fields)
    spread = 1 + np.abs(biases)
    for run in range(1, n_restarts):
        noise = logistic_noise(key, [0], run, energy.n_variables)
        start = biases + spread * noise
        other, score = solve(start.astype(energy.dtype))
        better = score > best
        best[better] = score[better]
        for name, values in other.items():
            fields[name][better] = values[better]
    return fields
