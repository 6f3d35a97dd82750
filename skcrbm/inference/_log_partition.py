"""`estimate_log_partition`: log Z by sampling, with an error."""

from typing import NamedTuple

import numpy as np

from skcrbm.inference._infer import (
    available_methods,
    check_answers,
    check_count,
    infer,
    resolve_method,
)
from skcrbm.inference._registry import METHODS


class LogPartitionEstimate(NamedTuple):
    """Answer of `estimate_log_partition`.

    Attributes
    ----------
    log_partition : ndarray (N,)
        What the method says of it: of "ais" and "bp_chain" the logarithm of an unbiased
        estimate of Z; of "perturb_and_max_product" the mean of the perturbed maximum.
    standard_error : ndarray (N,)
        Of log_partition, of weights by the delta method; infinite where all weights are 0.
    effective_sample_size : ndarray (N,) or None
        Between 1 and the number of chains or samples; a small one means that few of them
        carry the estimate, and that its standard error is too small. None of a method that has
        no weights.
    """

    log_partition: np.ndarray
    standard_error: np.ndarray
    effective_sample_size: np.ndarray | None


def estimate_log_partition(
    energy,
    n_chains=None,
    n_betas=None,
    random_state=None,
    *,
    method="ais",
    n_samples=None,
    clamp=None,
    n_jobs=None,
):
    """Estimate log Z of each of N models from samples.

    A short form of ``infer(energy, method, returns="log_partition")``.

    Parameters
    ----------
    energy : RBMEnergy, IsingEnergy, SparseIsingEnergy or FactorGraphEnergy
    n_chains, n_betas : int or None, default=None
        Of "ais", as in `AnnealedImportanceSampling`. None: as `method` says, 100 and 1000
        by default.
    random_state : int, RandomState or None, default=None
    method : {"ais", "bp_chain", "perturb_and_max_product"} or InferenceMethod, default="ais"
        Annealed importance sampling; importance weights of chained belief propagation; the mean
        of perturbed maxima, in the mean an upper bound where every maximum is exact, as on trees,
        and neither an upper nor a lower bound elsewhere; or a configured object such as
        ``BPChain(warm_iter=10)``.
    n_samples : int or None, default=None
        Samples of each model, of methods that draw them: "bp_chain" and
        "perturb_and_max_product". None: 1000.
    clamp : array-like (N, n_variables) or (n_variables,), default=None
        0 or 1 holds a variable, NaN leaves it free.
    n_jobs : int or None, default=None
        Threads; the result does not depend on it.

    Returns
    -------
    LogPartitionEstimate

    Raises
    ------
    ValueError
        If an argument is invalid, if the method has no such option, or if it does not
        estimate log Z by random numbers.

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

    def able():
        return [name for name in available_methods(energy, "log_partition") if _estimates(name)]

    method = resolve_method(method, "method", able)
    if not (method.draws and "log_partition" in method.answers):
        raise ValueError(
            f"method must be one that estimates log Z by random numbers, of which "
            f"{', '.join(map(repr, able())) or 'none'} can on {type(energy).__name__}; "
            f"{method.name!r} does not: ask infer for it"
        )
    check_answers(method, energy, {"log_partition"})
    options = {
        "n_chains": None if n_chains is None else check_count("n_chains", n_chains, 2),
        "n_betas": None if n_betas is None else check_count("n_betas", n_betas),
        "random_state": random_state,
    }
    method = method.with_options(**options)
    if n_samples is not None and "log_partition" not in method.from_samples:
        raise ValueError(
            f"{method.name!r} has no option 'n_samples'; its options are: "
            f"{', '.join(sorted(vars(method)))}"
        )
    result = infer(
        energy, method, returns="log_partition", n_samples=n_samples, clamp=clamp, n_jobs=n_jobs
    )
    return LogPartitionEstimate(
        result.log_partition, result.standard_error, result.effective_sample_size
    )


def _estimates(name):
    return METHODS.get(name)().draws
