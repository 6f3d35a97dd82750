"""Annealed importance sampling of the log Z of RBMs."""

import numpy as np
from scipy.special import expit, logsumexp

from skcrbm.inference._base import empty_result
from skcrbm.inference._evidence import with_folded_evidence
from skcrbm.inference._random import uniforms
from skcrbm.utils.limits import CHAIN_UNITS
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils.random import random_key


@with_folded_evidence
def solve(method, energy, query):
    """Answer "log_partition", with its standard error and effective sample size."""
    key, n_chains = random_key(method.random_state), method.n_chains
    fields = empty_result(energy, query)
    log_weight = np.empty((energy.n_models, n_chains))

    def run(rows):
        log_weight[rows] = _anneal(energy.rows(rows), n_chains, method.n_betas, key)

    size = max(1, CHAIN_UNITS // max(1, n_chains * energy.n_variables))
    with one_blas_thread():
        for _ in ordered_map(run, row_chunks(energy.n_models, size), query.n_jobs):
            pass
    base = np.where(energy.free, np.logaddexp(0, np.hstack(energy.fields)), 0)
    mean = logsumexp(log_weight, axis=1) - np.log(n_chains)
    relative = np.exp(log_weight - mean[:, None])
    fields["log_partition"] = base.sum(1, dtype=np.float64) + mean
    fields["standard_error"] = relative.std(axis=1, ddof=1) / np.sqrt(n_chains)
    fields["effective_sample_size"] = n_chains / np.square(relative).mean(axis=1)
    fields["n_iter"][:] = method.n_betas
    return fields


def _anneal(energy, n_chains, n_betas, key):
    """Log importance weights (N, C) relative to the model without couplings."""
    n, n_visible, dtype = energy.n_models, energy.n_visible, energy.dtype
    b, c = energy.visible_bias[:, None, :], energy.hidden_bias[:, None, :]
    streams = np.arange(n_chains)
    log_weight = np.zeros((n, n_chains))
    free_v, free_h = np.split(energy.free[:, None, :], [n_visible], axis=2)
    visible = (uniforms(key, streams, 0, n_visible) < expit(b)) & free_v
    before = np.logaddexp(0, c)
    for t in range(1, n_betas + 1):
        beta = dtype.type(t / n_betas)
        flat = visible.reshape(n * n_chains, n_visible).astype(dtype)
        pull = (flat @ energy.weights).reshape(n, n_chains, energy.n_hidden)
        theta_h = c + beta * pull
        softplus = np.logaddexp(0, theta_h)
        if t > 1:
            before = np.logaddexp(0, c + dtype.type((t - 1) / n_betas) * pull)
        log_weight += np.where(free_h, softplus - before, 0).sum(2, dtype=np.float64)
        if t == n_betas:
            break
        u = uniforms(key, streams, t, energy.n_variables)
        hidden = (u[:, n_visible:] < expit(theta_h)) & free_h
        flat = hidden.reshape(n * n_chains, energy.n_hidden).astype(dtype)
        theta_v = b + beta * (flat @ energy.weights.T).reshape(n, n_chains, n_visible)
        visible = (u[:, :n_visible] < expit(theta_v)) & free_v
    return log_weight
