"""`estimate_log_partition`: log Z by sampling, with an error."""

from typing import NamedTuple

import numpy as np

from skcrbm.inference._infer import check_count, infer
from skcrbm.inference.methods._ais import AnnealedImportanceSampling


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

    A short form of ``infer(energy, AnnealedImportanceSampling(...))``.

    Parameters
    ----------
    energy : RBMEnergy
    n_chains, n_betas, random_state
        As in `AnnealedImportanceSampling`.
    clamp : array-like (N, V + H) or (V + H,), default=None
        0 or 1 holds a unit, NaN leaves it free.
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
    method = AnnealedImportanceSampling(
        check_count("n_chains", n_chains, 2), check_count("n_betas", n_betas), random_state
    )
    result = infer(energy, method, clamp=clamp, n_jobs=n_jobs)
    return LogPartitionEstimate(
        result.log_partition, result.standard_error, result.effective_sample_size
    )
