"""What compiled Gibbs sweeps share: models times chains as rows of the kernels of `gibbs`."""

import numpy as np

from skcrbm.inference._random import seeds
from skcrbm.utils.indicator import signs_of
from skcrbm.utils.validation import kernel_array


def sweep_chains(kernel, factors, energy, states, key, streams, step):
    """Draw all variables of an energy of one field, in the order of its blocks.

    Parameters
    ----------
    kernel : callable
        ``kernel(order, *factors, field, n_chains, held, seeds, state, log_odds)``.
    factors : tuple
        What joins the variables.
    energy, states, key, streams, step
        As of `gibbs_sweep`.

    Returns
    -------
    states, log_odds
        As of `gibbs_sweep`.
    """
    n, c, width = states.shape
    every = np.arange(width)
    order = np.concatenate([every[:0], *(every[block] for block in energy.sampling_blocks)])
    held = np.zeros((0, width), np.int8)
    if energy.evidence is not None:
        held = signs_of(energy.evidence)
    drawn = np.array(states.reshape(n * c, width), bool, order="C")
    log_odds = np.empty((n * c, width))
    with np.errstate(over="ignore"):  # 64-bit numbers wrap around; heard of without the JIT only
        kernel(
            order, *factors, kernel_array(energy.field, np.float64), c, kernel_array(held),
            seeds(key, streams, step), drawn, log_odds,
        )  # fmt: skip
    log_odds = log_odds.astype(energy.dtype, copy=False)
    return drawn.reshape(n, c, width), log_odds.reshape(n, c, width)
