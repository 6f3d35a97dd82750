"""Several runs from different starts; each model keeps its best."""

import numpy as np

from skcrbm.inference._random import logistic_noise
from skcrbm.utils.random import random_key


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
