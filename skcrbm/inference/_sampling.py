"""`sample` and `estimate_log_partition`: short forms of `infer` for samplers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.energies import BaseEnergy
from skcrbm.inference._infer import infer
from skcrbm.inference.base import InferenceMethod, InferenceResult, resolve_method
from skcrbm.inference.choice import available_methods, check_answers, quoted
from skcrbm.inference.registry import METHODS
from skcrbm.utils.validation import check_count


def sample(
    energy: BaseEnergy,
    method: str | InferenceMethod = "gibbs",
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

    A short form of ``infer(energy, method, returns="samples", n_samples=...)``.

    Parameters
    ----------
    energy : RBMEnergy, IsingEnergy or another energy
        N models that share their couplings.
    method : str or InferenceMethod, default="gibbs"
        A name, or a configured object such as ``Gibbs(burn_in=500)``:

        - "gibbs": chains that draw block after block. Works on any energy and is exact in the
          long run, but rarely moves between modes that are far apart.
        - "exact": independent samples, by enumerating the smaller layer of an RBM or all labels
          (at most 20 units), and by eliminating variables in factor graphs and sparse Ising
          models. The best choice if the model is small, or its graph a chain, a tree or nearly
          a tree.
        - "gibbs_with_gradients": chains that prefer to flip the variables whose flip raises the
          score most; for models with many variables of which few are about to change.
        - "bp_chain": independent samples by belief propagation, one variable after the other,
          each sample with the probability with which it was drawn (`BPChain`). For sparse graphs
          that are too large for "exact", and for learning; biased if the graph has short loops
          of strong couplings.
        - "perturb_and_max_product": independent samples, each the approximate maximum of the
          score with noise on the fields (`PerturbAndMaxProduct`). Fast, also on large dense
          models, but the samples have a distribution of their own: use it for models whose
          parameters were learned with it.
    n_samples : int, default=1
        Number of samples of each model.
    burn_in, thin, n_chains : int or None, default=None
        Options of Gibbs chains, see `skcrbm.inference.Gibbs`. None: the option of `method`, whose
        default is 100, 1 and ``min(n_samples, 100)``. A method without such options refuses them.
    clamp : array-like (N, n_variables) or (n_variables,), default=None
        0 or 1 clamps a variable, NaN leaves it free.
    init : object, default=None
        State of an earlier call, whose chains and random numbers are continued.
    return_log_prob : bool, default=False
        Return the log-probability with which each state was drawn, too. Only "exact" and
        "bp_chain" know it.
    return_state : bool, default=False
        Return the state of the sampler, too: the `init` of the next call.
    n_jobs : int or None, default=None
        Number of threads over the models; the samples do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed. Each model of the batch has random numbers of its own. Not used with `init`.

    Returns
    -------
    samples : ndarray of int8 (N, n_samples, n_variables)
        0/1 states, visible units first. In an Ising model 0 stands for y = -1.
    log_prob : ndarray (N, n_samples)
        Only if ``return_log_prob=True``.
    state : object
        Only if ``return_state=True``; the last item.

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
    returns = {"samples", "sample_log_prob"} if return_log_prob else {"samples"}
    method = resolve_method(method, "method", lambda: available_methods(energy, returns))
    check_answers(method, energy, returns)
    options = {
        "burn_in": None if burn_in is None else check_count("burn_in", burn_in, 0),
        "thin": None if thin is None else check_count("thin", thin),
        "n_chains": None if n_chains is None else check_count("n_chains", n_chains),
        "random_state": random_state,
    }
    check_count("n_samples", n_samples)
    result = infer(
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
    """Answer of `estimate_log_partition`.

    Attributes
    ----------
    log_partition : ndarray (N,)
        With "ais" and "bp_chain" the logarithm of an unbiased estimate of Z; with
        "perturb_and_max_product" the mean of the perturbed maximum.
    standard_error : ndarray (N,)
        Standard error of log_partition; infinite if all weights are 0. For weights it is the error
        of the delta method times ``sqrt(1 + g**2)``, where g is the logarithm of the largest weight
        over the mean weight.
    effective_sample_size : ndarray (N,) or None
        Between 1 and the number of chains or samples. If it is below 20 or a fifth of this
        number, few of them carry the estimate, which is then probably too low, and a warning is
        given. None if the method has no weights.
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
    method: str | InferenceMethod = "ais",
    n_samples: int | None = None,
    clamp: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> LogPartitionEstimate:
    """Estimate log Z of each of N models from samples.

    A short form of ``infer(energy, method, returns="log_partition")``.

    Parameters
    ----------
    energy : RBMEnergy, IsingEnergy, SparseIsingEnergy or FactorGraphEnergy
        N models that share their couplings.
    n_chains, n_betas : int or None, default=None
        Options of "ais", see `AnnealedImportanceSampling`. None: the option of `method`, whose
        default is 100 and 1000.
    random_state : int, RandomState or None, default=None
        Seed of the estimate.
    method : {"ais", "bp_chain", "perturb_and_max_product"} or InferenceMethod, default="ais"
        "ais" is annealed importance sampling, "bp_chain" takes the importance weights of chained
        belief propagation, and "perturb_and_max_product" the mean of perturbed maxima, whose
        expectation is an upper bound if every maximum is exact (on trees) and no bound otherwise.
        Or a configured object such as ``BPChain(warm_iter=10)``.
    n_samples : int or None, default=None
        Number of samples of each model, for "bp_chain" and "perturb_and_max_product". None: 1000.
    clamp : array-like (N, n_variables) or (n_variables,), default=None
        0 or 1 clamps a variable, NaN leaves it free.
    n_jobs : int or None, default=None
        Number of threads; the result does not depend on it.

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

    def estimators():
        names = available_methods(energy, "log_partition")
        return [name for name in names if METHODS.get(name)().is_random]

    method = resolve_method(method, "method", estimators)
    if not (method.is_random and "log_partition" in method.answers):
        names, kind = estimators(), type(energy).__name__
        raise ValueError(
            f"method must be one of {quoted(names)}, which estimate log Z of {kind} by random "
            f"numbers; got {method.name!r}. Call infer instead"
            if names
            else f"no method estimates log Z of {kind} by random numbers. Call infer instead"
        )
    check_answers(method, energy, {"log_partition"})
    options = {
        "n_chains": None if n_chains is None else check_count("n_chains", n_chains, 2),
        "n_betas": None if n_betas is None else check_count("n_betas", n_betas),
        "random_state": random_state,
    }
    method = method.with_options(**_given(options))
    if n_samples is not None and "log_partition" not in method.estimated_from_samples:
        raise ValueError(
            f"{method.name!r} has no option 'n_samples'; its options are: "
            f"{', '.join(sorted(vars(method)))}"
        )
    result: Any = infer(
        energy, method, returns="log_partition", n_samples=n_samples, clamp=clamp, n_jobs=n_jobs
    )
    return LogPartitionEstimate(
        result.log_partition, result.standard_error, result.effective_sample_size
    )


def _given(options):
    """Return the options that are not None."""
    return {name: value for name, value in options.items() if value is not None}
