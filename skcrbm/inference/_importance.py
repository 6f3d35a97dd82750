"""Log Z from importance weights, and the frame of annealed importance sampling."""

import numpy as np
from scipy.special import logsumexp

from skcrbm.inference._base import empty_result
from skcrbm.utils.limits import CHAIN_UNITS
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils.random import random_key


def anneal(method, energy, query, log_weights):
    """Answer "log_partition" by annealed importance sampling.

    Parameters
    ----------
    method : AnnealedImportanceSampling
    energy : BaseEnergy
    query : Query
    log_weights : callable
        ``log_weights(energy, n_chains, n_betas, key)`` -> (N, C) float64, those of C chains of
        each of some models. All models use the same random numbers.

    Returns
    -------
    dict of `InferenceResult` fields
    """
    key, n_chains = random_key(method.random_state), method.n_chains
    fields = empty_result(energy, query)
    found = np.empty((energy.n_models, n_chains))

    def run(rows):
        found[rows] = log_weights(energy.rows(rows), n_chains, method.n_betas, key)

    size = max(1, CHAIN_UNITS // max(1, n_chains * energy.n_variables))
    with one_blas_thread():
        for _ in ordered_map(run, row_chunks(energy.n_models, size), query.n_jobs):
            pass
    fill_estimate(fields, found)
    fields["n_iter"][:] = method.n_betas
    return fields


def fill_estimate(fields, log_weight):
    """Fill in log Z, the logarithm of a mean of weights, and how far off it may be.

    Parameters
    ----------
    fields : dict
        Of `InferenceResult` fields.
    log_weight : ndarray (N, S)
        Logarithms of S independent weights of each model, of expectation Z. Where all of them are
        -inf, the estimate of Z is 0, its error infinite and its effective sample size 0.
    """
    n_samples = log_weight.shape[1]
    mean = logsumexp(log_weight, axis=1) - np.log(n_samples)
    some = mean > -np.inf
    relative = np.exp(log_weight - np.where(some, mean, 0.0)[:, None])
    error = relative.std(axis=1, ddof=1) / np.sqrt(n_samples)
    square = np.where(some, np.square(relative).mean(axis=1), np.inf)
    fields["log_partition"] = mean
    fields["standard_error"] = np.where(some, error, np.inf)
    fields["effective_sample_size"] = n_samples / square
