"""`sample` and `estimate_log_partition`: short forms of `infer` for samplers."""

from typing import NamedTuple

import numpy as np

from skcrbm.inference._infer import infer
from skcrbm.inference.base import InferenceResult, check_count
from skcrbm.inference.choice import available_methods, check_answers, resolve_method
from skcrbm.inference.registry import METHODS


def sample(
    energy,
    method="gibbs",
    *,
    n_samples=1,
    burn_in=None,
    thin=None,
    n_chains=None,
    clamp=None,
    init=None,
    return_log_prob=False,
    return_state=False,
    n_jobs=None,
    random_state=None,
):
    """Draw joint states from each of N models.

    A short form of ``infer(energy, method, returns="samples", n_samples=...)``.

    Parameters
    ----------
    energy : RBMEnergy, IsingEnergy or another energy
    method : str or InferenceMethod, default="gibbs"
        A name, or a configured object such as ``Gibbs(burn_in=500)``:

        - "gibbs": chains, block by block. On any energy; exact in the long run, slow to change
          between modes far apart.
        - "exact": independent samples, by enumerating the smaller layer, or all labels, 20 units
          at most, and of factor graphs and sparse Ising models by eliminating variables. The one
          to take where the model is small, or its graph a chain, a tree or nearly so.
        - "gibbs_with_gradients": chains that flip those variables first which the score asks for;
          for models of many variables few of which are about to change.
        - "bp_chain": independent samples by belief propagation, one variable after the other,
          each with the probability with which it was drawn (`BPChain`). For sparse graphs too
          large for "exact", and to learn with; biased where the graph has short strong loops.
        - "perturb_and_max_product": independent samples, each the approximate maximum of the
          score with noise on the fields (`PerturbAndMaxProduct`). Fast, also on large dense
          models, but of another distribution than the model's own: for models whose parameters
          were learned with it.
    n_samples : int, default=1
        Samples of each model.
    burn_in, thin, n_chains : int or None, default=None
        Of Gibbs chains, see `skcrbm.inference.Gibbs`. None: as `method` says, 100, 1 and
        ``min(n_samples, 100)`` by default. A method that lacks them refuses them.
    clamp : array-like (N, V + H) or (V + H,), default=None
        0 or 1 holds a unit, NaN leaves it free.
    init : object, default=None
        State of an earlier call: its chains, if there are any, and random numbers go on.
    return_log_prob : bool, default=False
        Return the log-probability with which each state was drawn, too: "exact" and "bp_chain"
        know it, the others refuse.
    return_state : bool, default=False
        Return the sampler's state, too: the `init` of the next call.
    n_jobs : int or None, default=None
        Threads over the models; the samples do not depend on it.
    random_state : int, RandomState or None, default=None
        Every model of the batch has random numbers of its own. Not used with `init`.

    Returns
    -------
    samples : ndarray of int8 (N, n_samples, V + H)
        0/1 states, visible units first. Of Ising models (N, n_samples, L), 0 for y = -1.
    log_prob : ndarray (N, n_samples)
        With ``return_log_prob=True``.
    state : object
        With ``return_state=True``, last.

    Raises
    ------
    ValueError
        On an unknown method or an invalid option, naming what is possible.

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
        method.with_options(**options),
        returns=returns,
        n_samples=n_samples,
        clamp=clamp,
        init=None if init is None else InferenceResult(state=init),
        return_state=return_state,
        n_jobs=n_jobs,
    )
    answer = [result.samples]
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
