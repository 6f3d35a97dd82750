"""Annealed importance sampling of energies without hidden variables, by `scaled`."""

import numpy as np
from scipy.special import expit

from skcrbm.inference._importance import anneal
from skcrbm.inference._random import uniforms
from skcrbm.inference.any_energy._gibbs import gibbs_sweep


def solve(method, energy, query):
    """Answer "log_partition", with its standard error and effective sample size."""
    return anneal(method, energy, query, _log_weights)


def _log_weights(energy, n_chains, n_betas, key):
    """Log importance weights (N, C), log Z of the model without couplings included."""
    n, width = energy.n_models, energy.n_variables
    apart, streams = energy.scaled(0.0), np.arange(n_chains)
    free = energy.free
    start = np.zeros((n, width))
    if energy.evidence is not None:
        start = np.nan_to_num(energy.evidence)
    log_odds = np.zeros((n, width))
    for block in energy.sampling_blocks:
        log_odds[:, block] = apart.conditional_log_odds(start[:, None], block)[:, 0]
    base = apart.score(start) + np.where(free, np.logaddexp(0, log_odds), 0).sum(axis=1)
    states = uniforms(key, streams, 0, width) < expit(log_odds)[:, None]
    every = np.repeat(np.arange(n), n_chains)
    models, apart = energy.rows(every), apart.rows(every)
    log_weight = np.zeros(n * n_chains)
    for t in range(1, n_betas + 1):
        flat = states.reshape(n * n_chains, width)
        log_weight += (models.score(flat) - apart.score(flat)) / n_betas
        if t < n_betas:
            states, _ = gibbs_sweep(energy.scaled(t / n_betas), states, key, streams, t)
    return log_weight.reshape(n, n_chains) + base[:, None]
