"""Define `sample` and `estimate_log_partition`, shortcuts to `infer` for random methods."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.energies import BaseEnergy
from skcrbm.inference.automatic import method_of_call
from skcrbm.inference.base import InferenceMethod, InferenceResult, check_energy
from skcrbm.inference.running import run_inference
from skcrbm.utils.validation import check_count


def sample(
    energy: BaseEnergy,
    method: str | InferenceMethod = "auto",
    *,
    n_samples: int = 1,
    burn_in: int | None = None,
    thin: int | None = None,
    n_chains: int | None = None,
    clamp: ArrayLike | None = None,
    init: Any = None,
    return_log_prob: bool = False,
    return_state: bool = False,
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> Any:
    """Draw joint states from each of N models.

    A shortcut to ``infer(energy, method, returns="samples", n_samples=...)``.

    Parameters
    ----------
    energy : RBMEnergy, IsingEnergy or another energy
        Batch of N models that share their couplings.
    method : str or InferenceMethod, default="auto"
        Sampler: a name, or a configured object such as ``Gibbs(burn_in=500)``.

        - "auto": "exact" if it takes at most about 20 s and 2 GB of tables. Otherwise, or if the
          call has an argument that only chains take, "gibbs" ("bp_chain" with `return_log_prob`).
        - "gibbs": chains that draw one block of variables after the other, given all others.
          Works on any energy and is exact in the long run, but chains rarely move between modes
          that are far apart.
        - "exact": independent samples. Enumerates the states of the smaller layer of an RBM, or of
          all labels of an Ising model (at most 20 units); eliminates variables in factor graphs and
          sparse Ising models. The best choice if the model is small, or if its graph is a chain, a
          tree or nearly a tree.
        - "gibbs_with_gradients": chains in which a variable is chosen for a flip more often if the
          flip raises the score more. Suitable for models with many variables, only a few of which
          tend to change.
        - "bp_chain": independent samples by belief propagation, one variable after the other. The
          probability with which each sample was drawn is known (`BPChain`). Suitable for sparse
          graphs that are too large for "exact", and for learning. The samples are biased if the
          graph has short loops of strong couplings.
        - "perturb_and_max_product": independent samples, each an approximate maximum of the
          score with noise on the fields (`PerturbAndMaxProduct`). Fast, also on large dense
          models, but the distribution of the samples differs from the model: use it for models
          whose parameters were learned with this sampler.
        - "perturb_and_map": like "perturb_and_max_product", but another method searches for the
          maximum, for example ``PerturbAndMAP("exact")``.
    n_samples : int, default=1
        Number of samples of each model.
    burn_in, thin, n_chains : int or None, default=None
        Options of Gibbs chains, see `skcrbm.inference.Gibbs`. None: the options of `method`, which
        are 100, 1 and ``min(n_samples, 100)`` by default. A ValueError is raised if an option is
        given that the method does not have.
    clamp : array-like (N, n_variables) or (n_variables,), default=None
        Evidence: 0 or 1 clamps a variable to this value, NaN leaves it free.
    init : object, default=None
        State that an earlier call returned. The sampler continues its chains and random numbers.
    return_log_prob : bool, default=False
        Whether to return the log-probability with which each state was drawn. Only "exact" and
        "bp_chain" can compute it.
    return_state : bool, default=False
        Whether to return the state of the sampler, for use as `init` of the next call.
    n_jobs : int or None, default=None
        Number of threads, which share the models. The samples do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed. Each model of the batch has different random numbers. Ignored if `init` is given.

    Returns
    -------
    samples : ndarray of int8 (N, n_samples, n_variables)
        Sampled states as 0 and 1, visible units first. In an Ising model 0 stands for y = -1. For
        variables with any number of states, the states are integers from 0.
    log_prob : ndarray (N, n_samples)
        Log-probabilities of the samples. Only returned if ``return_log_prob=True``.
    state : object
        State of the sampler, the last item. Only returned if ``return_state=True``.

    Raises
    ------
    ValueError
        If the method is unknown or an option is invalid; the message lists the possible values.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import sample
    >>> energy = RBMEnergy([[2.0], [2.0]], [-1.0, -1.0], [0.0])
    >>> sample(energy, n_samples=500, random_state=0).shape
    (1, 500, 3)
    """
    check_energy(energy)
    if not isinstance(return_log_prob, (bool, np.bool_)):
        raise ValueError(f"return_log_prob must be True or False, got {return_log_prob!r}")
    returns = {"samples", "sample_log_prob"} if return_log_prob else {"samples"}
    options = {
        "burn_in": None if burn_in is None else check_count("burn_in", burn_in, 0),
        "thin": None if thin is None else check_count("thin", thin),
        "n_chains": None if n_chains is None else check_count("n_chains", n_chains),
        "random_state": random_state,
    }
    check_count("n_samples", n_samples)
    result = run_inference(
        energy,
        method,
        returns=tuple(returns),
        n_samples=n_samples,
        clamp=clamp,
        init=None if init is None else InferenceResult(state=init),
        return_state=return_state,
        n_jobs=n_jobs,
        **_given(options),
    )
    answer: list[Any] = [result.samples]
    if return_log_prob:
        answer.append(result.sample_log_prob)
    if return_state:
        answer.append(result.state)
    return answer[0] if len(answer) == 1 else tuple(answer)


class LogPartitionEstimate(NamedTuple):
    """Result of `estimate_log_partition`.

    Attributes
    ----------
    log_partition : ndarray (N,)
        Estimate of log Z. For "ais" and "bp_chain" it is the logarithm of an unbiased estimate of
        Z, a mean of importance weights; for "perturb_and_max_product" and "perturb_and_map" it is
        the mean of perturbed maxima.
    standard_error : ndarray (N,)
        Standard error of log_partition; 0 for "exact", infinite if all weights are 0. For methods
        with importance weights, the standard error by the delta method is multiplied by
        ``sqrt(1 + g**2)``, where g is the logarithm of the ratio of the largest weight to the mean
        weight. The factor makes the standard error larger if a few large weights dominate the mean.
    effective_sample_size : ndarray (N,) or None
        Effective sample size of the importance weights, between 1 and the number S of chains or
        samples. If the size is below ``min(20, S / 5)``, a few large weights dominate the mean, the
        estimate is probably too low, and the function warns. None if the method has no weights.
    """

    log_partition: np.ndarray
    standard_error: np.ndarray
    effective_sample_size: np.ndarray | None


def estimate_log_partition(
    energy: BaseEnergy,
    n_chains: int | None = None,
    n_betas: int | None = None,
    random_state: int | np.random.RandomState | None = None,
    *,
    method: str | InferenceMethod = "auto",
    n_samples: int | None = None,
    clamp: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> LogPartitionEstimate:
    """Estimate log Z of each of N models from samples, or compute it if the models are small.

    A shortcut to ``infer(energy, method, returns="log_partition")``.

    Parameters
    ----------
    energy : RBMEnergy, IsingEnergy or FactorGraphEnergy
        Batch of N models that share their couplings.
    n_chains, n_betas : int or None, default=None
        Options of "ais", see `AnnealedImportanceSampling`. None: the options of `method`, which
        are 100 and 1000 by default.
    random_state : int, RandomState or None, default=None
        Seed of the estimate.
    method : {"auto", "ais", "bp_chain", "perturb_and_max_product", "perturb_and_map"} or \
            InferenceMethod, default="auto"
        Estimator: a name, or a configured object such as ``BPChain(warm_iter=10)``.

        - "auto": "exact", with a standard error of 0, if it takes at most about 20 s and 2 GB of
          tables. Otherwise, or if the call has an option of "ais" or `n_samples`, the first of
          "ais" and "bp_chain" that can answer.
        - "ais": annealed importance sampling.
        - "bp_chain": mean of the importance weights of chained belief propagation.
        - "perturb_and_max_product": mean of perturbed maxima. If every maximum is exact, as on
          trees, its expectation is an upper bound of log Z; otherwise it is not a bound.
        - "perturb_and_map": like "perturb_and_max_product", but another method searches for the
          maxima (`PerturbAndMAP`).
    n_samples : int or None, default=None
        Number of samples of each model, for the methods other than "ais". None: 1000.
    clamp : array-like (N, n_variables) or (n_variables,), default=None
        Evidence: 0 or 1 clamps a variable to this value, NaN leaves it free.
    n_jobs : int or None, default=None
        Number of threads, which share the models. The result does not depend on it.

    Returns
    -------
    LogPartitionEstimate
        Estimates of log Z with their precision.

    Raises
    ------
    ValueError
        If an argument is invalid, if the method does not have one of the options, or if it does
        not estimate log Z by random numbers.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import estimate_log_partition, infer
    >>> energy = RBMEnergy([[1.0, -1.0], [2.0, 0.5]], [0.0, 0.0], [0.5, 0.0])
    >>> estimate = estimate_log_partition(energy, method="ais", random_state=0)
    >>> exact = infer(energy, "exact", returns="log_partition").log_partition
    >>> bool(abs(estimate.log_partition - exact) < 4 * estimate.standard_error)
    True
    """
    check_energy(energy)
    options = {
        "n_chains": None if n_chains is None else check_count("n_chains", n_chains, 2),
        "n_betas": None if n_betas is None else check_count("n_betas", n_betas),
        "random_state": random_state,
    }
    if clamp is not None:
        energy = energy.condition(clamp)
    given, returns = {"n_samples": n_samples}, "log_partition"
    method = method_of_call(energy, method, returns, given, _given(options), random=True)
    result: Any = run_inference(energy, method, returns=returns, n_samples=n_samples, n_jobs=n_jobs)
    error = result.standard_error
    if method.name == "exact":
        error = np.zeros(energy.n_models)
    return LogPartitionEstimate(result.log_partition, error, result.effective_sample_size)


def _given(options):
    """Return a dict of the options whose value is not None."""
    return {name: value for name, value in options.items() if value is not None}
