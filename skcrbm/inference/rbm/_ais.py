"""Estimate log Z of RBMs by annealed importance sampling, with the hidden units summed out."""

import numpy as np
from scipy.special import expit

from skcrbm.inference.any_energy._ais import anneal
from skcrbm.inference.base import with_folded_evidence
from skcrbm.inference.random_numbers import uniforms


@with_folded_evidence
def solve(method, energy, query):
    """Estimate "log_partition", with its standard error and effective sample size."""
    fields = anneal(method, energy, query, _log_weights)
    base = np.where(energy.free, np.logaddexp(0, np.hstack(energy.fields)), 0)
    fields["log_partition"] += base.sum(1, dtype=np.float64)
    return fields


def _log_weights(energy, n_chains, n_betas, key):
    """Return the log importance weights (N, C) of C chains for each of N models.

    The mean weight of the chains estimates Z divided by the Z of the model without couplings.
    """
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
