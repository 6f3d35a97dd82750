"""Samples from pairwise Boltzmann machines."""

from itertools import count

import numpy as np
from scipy.special import expit

from skcrbm.energies._base import PINNED_OFF
from skcrbm.inference._random import uniforms

_MAX_LABELS = 20


def enumerated_samples(energy, row, key, n_samples):
    """Independent samples (n_samples, L) of 0/1 from one model of an `IsingEnergy`.

    Raises
    ------
    ValueError
        If more than 20 labels are free.
    """
    field = energy.field[row].astype(np.float64)
    free = field > PINNED_OFF
    k = np.count_nonzero(free)
    if k > _MAX_LABELS:
        raise ValueError(
            f"'exact' enumerates the free labels, of which there are {k}; the limit is "
            f"{_MAX_LABELS}. Use 'gibbs'"
        )
    coupling = energy.coupling.astype(np.float64)
    field = field[free] - coupling[np.ix_(free, ~free)].sum(axis=1)  # the others are -1
    score = _scores(coupling[np.ix_(free, free)], field)
    mass = np.cumsum(np.exp(score - score.max()))
    u = uniforms(key, [row], 0, n_samples)[0]
    number = np.searchsorted(mass, u * mass[-1]).clip(0, 2**k - 1)
    states = np.zeros((n_samples, len(free)), np.int8)
    states[:, free] = (number[:, None] >> np.arange(k)) & 1
    return states


def _scores(coupling, field):
    """Score (2^k,) of all states; bit i of an index tells whether label i is +1."""
    score = np.zeros(1)
    for i, f in enumerate(field):
        pull = np.full(1, f)
        for s in coupling[i, :i]:
            pull = np.concatenate([pull - s, pull + s])
        score = np.concatenate([score - pull, score + pull])
    return score


def ising_sweeps(energy, n_chains, key, streams):
    """Yield the states (N, C, L) of 0/1 of Gibbs chains after each sweep over the labels."""
    n, n_labels = energy.field.shape
    coupling = energy.coupling.astype(np.float64)
    start = uniforms(key, streams, 0, n_labels).reshape(n, n_chains, n_labels) < 0.5
    start &= (energy.field > PINNED_OFF)[:, None, :]
    y = 2.0 * start - 1.0
    for step in count(1):
        u = uniforms(key, streams, step, n_labels).reshape(n, n_chains, n_labels)
        for i in range(n_labels):
            log_odds = 2 * (energy.field[:, None, i] + y @ coupling[i])
            y[:, :, i] = np.where(u[:, :, i] < expit(log_odds), 1.0, -1.0)
        yield y > 0
