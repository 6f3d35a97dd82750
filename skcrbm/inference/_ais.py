"""Annealed importance sampling of log Z."""

from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp

from skcrbm.energies import RBMEnergy
from skcrbm.inference._infer import check_clamp
from skcrbm.inference._random import uniforms
from skcrbm.utils._parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils._random import random_key

_BLOCK_UNITS = 2**18


class LogPartitionEstimate(NamedTuple):
    """Answer of `estimate_log_partition`.

    Attributes
    ----------
    log_partition : ndarray (N,)
        Logarithm of an unbiased estimate of Z.
    standard_error : ndarray (N,)
        Of log_partition, by the delta method.
    effective_sample_size : ndarray (N,)
        Between 1 and the number of chains; a small one means that few chains carry the
        estimate, and that its standard error is too small.
    """

    log_partition: np.ndarray
    standard_error: np.ndarray
    effective_sample_size: np.ndarray


def estimate_log_partition(
    energy, n_chains=100, n_betas=1000, random_state=None, *, clamp=None, n_jobs=None
):
    """Estimate log Z of each of N RBMs by annealed importance sampling.

    Chains start from the model without couplings, whose log Z is known, and pass through
    models with couplings beta W, beta from 0 to 1 in equal steps, by one Gibbs sweep each;
    hidden units are summed out of the weights (Neal 2001; Salakhutdinov and Murray 2008).

    Parameters
    ----------
    energy : RBMEnergy
    n_chains : int >= 2, default=100
        Chains of each model; the standard error falls with their square root.
    n_betas : int >= 1, default=1000
        Steps; more of them make the chains' weights more equal.
    random_state : int, RandomState or None, default=None
        All models use the same random numbers: an answer does not depend on the batch.
    clamp : array-like (N, V + H) or (V + H,), default=None
        0 or 1 fixes a unit, NaN leaves it free.
    n_jobs : int or None, default=None
        Threads over the models; the result does not depend on it.

    Returns
    -------
    LogPartitionEstimate

    Raises
    ------
    ValueError
        If an argument is invalid.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import estimate_log_partition, infer
    >>> energy = RBMEnergy([[1.0, -1.0], [2.0, 0.5]], [0.0, 0.0], [0.5, 0.0])
    >>> estimate = estimate_log_partition(energy, random_state=0)
    >>> exact = infer(energy, "exact", returns="log_partition").log_partition
    >>> bool(abs(estimate.log_partition - exact) < 4 * estimate.standard_error)
    True
    """
    if type(energy) is not RBMEnergy:
        raise ValueError(f"energy must be an RBMEnergy, got {type(energy).__name__}")
    for name, value, low in (("n_chains", n_chains, 2), ("n_betas", n_betas, 1)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
            raise ValueError(f"{name} must be an int of at least {low}, got {value!r}")
    key = random_key(random_state)
    offset = 0.0
    if clamp is not None:
        with one_blas_thread():
            energy, _, _, offset = energy.condition(check_clamp(clamp, energy))
    log_weight = np.empty((energy.n_models, n_chains))

    def run(rows):
        log_weight[rows] = _anneal(energy.rows(rows), n_chains, n_betas, key)

    size = max(1, _BLOCK_UNITS // max(1, n_chains * energy.n_variables))
    with one_blas_thread():
        for _ in ordered_map(run, row_chunks(energy.n_models, size), n_jobs):
            pass
    base = sum(np.logaddexp(0, f).sum(1, dtype=np.float64) for f in energy.fields)
    mean = logsumexp(log_weight, axis=1) - np.log(n_chains)
    relative = np.exp(log_weight - mean[:, None])
    return LogPartitionEstimate(
        base + mean + offset,
        relative.std(axis=1, ddof=1) / np.sqrt(n_chains),
        n_chains / np.square(relative).mean(axis=1),
    )


def _anneal(energy, n_chains, n_betas, key):
    """Log importance weights (N, C) relative to the model without couplings."""
    n, n_visible, dtype = energy.n_models, energy.n_visible, energy.dtype
    b, c = energy.visible_bias[:, None, :], energy.hidden_bias[:, None, :]
    streams = np.arange(n_chains)
    log_weight = np.zeros((n, n_chains))
    visible = uniforms(key, streams, 0, n_visible) < expit(b)
    before = np.logaddexp(0, c)
    for t in range(1, n_betas + 1):
        beta = dtype.type(t / n_betas)
        flat = visible.reshape(n * n_chains, n_visible).astype(dtype)
        pull = (flat @ energy.weights).reshape(n, n_chains, energy.n_hidden)
        theta_h = c + beta * pull
        softplus = np.logaddexp(0, theta_h)
        if t > 1:
            before = np.logaddexp(0, c + dtype.type((t - 1) / n_betas) * pull)
        log_weight += (softplus - before).sum(2, dtype=np.float64)
        if t == n_betas:
            break
        u = uniforms(key, streams, t, energy.n_variables)
        hidden = u[:, n_visible:] < expit(theta_h)
        flat = hidden.reshape(n * n_chains, energy.n_hidden).astype(dtype)
        theta_v = b + beta * (flat @ energy.weights.T).reshape(n, n_chains, n_visible)
        visible = u[:, :n_visible] < expit(theta_v)
    return log_weight
