"""Options of the methods that draw samples."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.energies import BaseEnergy
from skcrbm.inference.base import InferenceMethod, resolve_method
from skcrbm.inference.registry import METHODS
from skcrbm.utils.sklearn_private import Interval, StrOptions


class _RandomMethod(InferenceMethod):
    """Base class of methods for which all answers depend on `random_state`."""

    @property
    def is_random(self) -> bool:
        """Whether answers other than samples depend on the option `random_state`; always True."""
        return True


class Gibbs(_RandomMethod):
    """Samples and marginals by block Gibbs sampling.

    Marginals are Rao-Blackwellised: the probabilities from which the states were drawn are averaged
    over sweeps and chains. Statistics are averages over the sampled states, in which the states of
    the last block are replaced by their probabilities. For example, in an RBM the average of
    ``v_i P(h_j = 1 | v)`` estimates the expectation of ``v_i h_j``. The error of marginals and
    statistics is inversely proportional to the square root of the number of independent sweeps.

    All models of a batch use the same random numbers for marginals and statistics, so that an
    answer does not depend on the other models of the batch. As a drawback, errors of different
    models are correlated. For "samples" each model has different random numbers. Sample s comes
    from chain ``s % n_chains``, so that successive samples of a chain are `n_chains` positions
    apart.

    If variables have K states, a sweep draws one of the K states of each variable, and marginals
    have shape (N, n, K). The chains do not converge if states of weight 0 separate the other states
    into groups, such that no sequence of changes of single variables leads from one group to
    another.

    A model has converged if the split R-hat, which compares the variance between and within the
    halves of the chains, is at most `max_rhat` for the probability of every unit (Gelman et al.
    2013, section 11.4).

    Parameters
    ----------
    max_iter : int, default=500
        Number of sweeps of each chain over which marginals and statistics are averaged.
    burn_in : int, default=100
        Number of sweeps that are discarded at the beginning of each chain. No sweep is discarded if
        `init` continues earlier chains. If `init` is the result of a method without chains, the
        initial states of the chains are drawn from its marginals.
    thin : int, default=1
        Number of sweeps between two samples of a chain.
    n_chains : int or None, default=None
        Number of chains of each model. None: 10 for marginals and statistics, and
        ``min(n_samples, 100)`` for samples.
    max_rhat : float >= 1, default=1.1
        Largest split R-hat of a model that has converged.
    random_state : int, RandomState or None, default=None
        Seed of the chains. Ignored if `init` continues earlier chains, which keep their random
        numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import Gibbs, infer
    >>> energy = RBMEnergy([[1.0], [-2.0]], [0.0, 0.0], [0.5])
    >>> sampled = infer(energy, Gibbs(random_state=0))
    >>> bool(np.abs(sampled.marginals - infer(energy, "exact").marginals).max() < 0.02)
    True
    """

    name: ClassVar = "gibbs"
    answers: ClassVar = frozenset({"marginals", "statistics", "samples"})
    accepts: ClassVar = frozenset({"init", "state", "return_state"})
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "burn_in": [Interval(Integral, 0, None, closed="left")],
        "thin": [Interval(Integral, 1, None, closed="left")],
        "n_chains": [Interval(Integral, 1, None, closed="left"), None],
        "max_rhat": [Interval(Real, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        max_iter: int = 500,
        burn_in: int = 100,
        thin: int = 1,
        n_chains: int | None = None,
        max_rhat: float = 1.1,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.max_iter = max_iter
        self.burn_in = burn_in
        self.thin = thin
        self.n_chains = n_chains
        self.max_rhat = max_rhat
        self.random_state = random_state


class GibbsWithGradients(_RandomMethod):
    """Samples and marginals by Gibbs with gradients (Grathwohl et al. 2021).

    A step draws a variable i with probability proportional to ``exp(D_i / 2)``, where D_i is the
    change of the score if this variable is flipped, and accepts the flip with the
    Metropolis-Hastings probability. Variables whose flip raises the score are therefore tried more
    often than in a sweep of `Gibbs`. The D_i are exact here, not estimated by a gradient. A sweep
    has as many steps as there are visible variables.

    In an `RBMEnergy` the steps flip visible units, with the hidden units summed out; the hidden
    units are drawn given the visible units after each sweep. For Ising models a kernel multiplies
    the ``exp(D_i / 2)`` of the neighbours by a factor after each flip, and draws from a tree of
    sums, so that the time of a step grows with the number of neighbours and with the logarithm of
    the number of variables. If couplings or fields exceed about 300, a slower kernel works with the
    D_i. For other energies each step computes all D_i again. Averages, convergence, chains and
    random numbers are as in `Gibbs`.

    Parameters
    ----------
    max_iter : int, default=500
        Number of sweeps of each chain over which marginals and statistics are averaged.
    burn_in : int, default=100
        Number of sweeps that are discarded at the beginning of each chain. No sweep is discarded if
        `init` continues earlier chains.
    n_chains : int or None, default=None
        Number of chains of each model. None: 10 for marginals and statistics, and
        ``min(n_samples, 100)`` for samples.
    max_rhat : float >= 1, default=1.1
        Largest split R-hat of a model that has converged.
    random_state : int, RandomState or None, default=None
        Seed of the chains. Ignored if `init` continues earlier chains, which keep their random
        numbers.

    References
    ----------
    Grathwohl, Swersky, Hashemi, Duvenaud and Maddison (2021). Oops I took a gradient: scalable
    sampling for discrete distributions. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.energies import IsingEnergy
    >>> from skcrbm.inference import GibbsWithGradients, infer
    >>> energy = IsingEnergy([[0.0, 1.0], [1.0, 0.0]], [[0.5, 0.0]])
    >>> sampled = infer(energy, GibbsWithGradients(random_state=0))
    >>> bool(np.abs(sampled.marginals - infer(energy, "exact").marginals).max() < 0.02)
    True
    """

    name: ClassVar = "gibbs_with_gradients"
    categorical_alternative: ClassVar = "gibbs"
    answers: ClassVar = frozenset({"marginals", "statistics", "samples"})
    accepts: ClassVar = frozenset({"init", "state", "return_state"})
    #: Number of sweeps between two samples of a chain, which is fixed.
    thin: ClassVar = 1
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "burn_in": [Interval(Integral, 0, None, closed="left")],
        "n_chains": [Interval(Integral, 1, None, closed="left"), None],
        "max_rhat": [Interval(Real, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        max_iter: int = 500,
        burn_in: int = 100,
        n_chains: int | None = None,
        max_rhat: float = 1.1,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.max_iter = max_iter
        self.burn_in = burn_in
        self.n_chains = n_chains
        self.max_rhat = max_rhat
        self.random_state = random_state


class BPChain(_RandomMethod):
    """Samples by chained belief propagation (Ding and Xue 2020).

    The variables are drawn one after the other. Each variable is drawn from its sum-product belief
    given the variables that were drawn before, and is then clamped to its value. The messages for
    the next variable start from the current messages. In an `RBMEnergy` the visible units are drawn
    in this way, then all hidden units at once from p(h | v). Variables may have any number of
    states. An iteration is a sweep that visits the variables in turn, alternately forward and
    backward. If the graph has no loops and `damping` is 0, the messages are exact after two sweeps,
    and further sweeps are skipped.

    Samples are independent. Their distribution q equals the distribution of the model if beliefs
    are exact, as on graphs without loops after enough iterations; otherwise q is an approximation.
    The log-probability log q(x) of each sample is known ("sample_log_prob"). It depends only on the
    state, up to rounding. Therefore the importance weight ``exp(score(x) - log q(x))`` is an
    unbiased estimate of Z. "log_partition" is the logarithm of the mean of these weights over
    `n_samples` samples. The result also has `standard_error` and `effective_sample_size`, a number
    between 1 and the number of samples. The standard error is computed by the delta method, and is
    enlarged if single samples have large weights. A warning is given if the effective sample size
    is below 30 and below 0.3 times the number of samples, because the estimate is then probably
    too low, and its error is unreliable.

    If tables contain weights of 0, or if the graph has OR and AND factors, beliefs may give
    positive probabilities to impossible states. A sample may then be impossible, and its importance
    weight is 0. If both values of a variable are impossible given the variables drawn before, the
    value is drawn as if the factors that exclude it did not exist. A model with such a sample is
    reported as not converged. Beliefs may also exclude possible states: if factors with weights of
    0 share several variables, log-odds may grow with every iteration until they are practically
    infinite. An excluded state is never drawn, so the estimate of Z lacks its weight. The standard
    error does not show this bias.

    Parameters
    ----------
    max_iter : int, default=20
        Number of iterations before the first variable is drawn.
    warm_iter : int or None, default=5
        Number of iterations before each later variable is drawn; they start from the messages of
        the previous step. None: `max_iter` iterations from initial messages at each step, as in the
        paper.
    order : {"index", "random"} or array-like of int (n_visible,), default="index"
        Order in which variables are drawn. "index": by their index. "random": in a random order
        that is drawn once from `random_state`. An array is a permutation of the visible variables.
        Clamped variables are skipped.
    damping : float in [0, 1), default=0.0
        Share of the old log-messages in the new log-messages.
    random_state : int, RandomState or None, default=None
        Seed. Every model and every sample has different random numbers. Ignored if `init` continues
        an earlier call.

    References
    ----------
    Ding and Xue (2020). Contrastive divergence learning with chained belief propagation. PGM.

    Examples
    --------
    >>> from skcrbm.energies import SparseIsingEnergy
    >>> from skcrbm.inference import BPChain, infer, sample
    >>> ring = SparseIsingEnergy.from_edges([[0, 1], [1, 2], [2, 3], [0, 3]], 0.5, [1, 0, 0, 0])
    >>> sample(ring, BPChain(random_state=0), n_samples=100).shape
    (1, 100, 4)
    >>> estimate = infer(ring, BPChain(random_state=0), returns="log_partition")
    >>> exact = infer(ring, "exact", returns="log_partition").log_partition
    >>> bool(abs(estimate.log_partition - exact) < 4 * estimate.standard_error)
    True
    """

    name: ClassVar = "bp_chain"
    answers: ClassVar = frozenset({"samples", "sample_log_prob", "log_partition"})
    default_returns: ClassVar = ("samples",)
    estimated_from_samples: ClassVar = frozenset({"log_partition"})
    accepts: ClassVar = frozenset({"init", "state", "return_state"})
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "warm_iter": [Interval(Integral, 1, None, closed="left"), None],
        "order": [StrOptions({"index", "random"}), "array-like"],
        "damping": [Interval(Real, 0, 1, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        max_iter: int = 20,
        warm_iter: int | None = 5,
        order: str | ArrayLike = "index",
        damping: float = 0.0,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.max_iter = max_iter
        self.warm_iter = warm_iter
        self.order = order
        self.damping = damping
        self.random_state = random_state


class PerturbAndMaxProduct(_RandomMethod):
    """Samples and log Z by maximising the score of a randomly perturbed model.

    To draw a sample, independent noise is added to the fields, and max-product searches for the
    best state of this perturbed model [1]_. The noise is Gumbel noise of mean zero on both values
    of each variable, that is, Logistic(0, 1) noise on its log-odds (half of this noise on the half
    log-odds of -1/+1 variables). If variables have any number of states, each state gets its own
    Gumbel noise of mean zero.

    In an `RBMEnergy` or an `IsingEnergy`, each of `max_iter` sweeps computes all messages from the
    messages of the previous sweep, with damping. A variable is 0 if the log-odds of its final
    belief are negative, else 1. In a `FactorGraphEnergy`, a sweep visits the variables in turn, and
    the search works as in `MaxProduct`: it keeps the best state that it has visited, and ends when
    the messages no longer change. On graphs without loops, messages are not damped, and the search
    finds the best state of all.

    Outputs of OR and AND factors follow from their inputs and get no noise. In graphs of 0/1
    variables that have such factors, sweeps compute all messages from the messages of the previous
    sweep, as in an RBM, but messages through OR and AND factors are passed on within a sweep and
    are not damped.

    Samples are independent of each other, and exact if all variables of the model are independent.
    Otherwise their distribution differs from the distribution of the model, even if every maximum
    is exact, because noise on single variables differs from independent noise on every state.
    Parameters that were learned with these samples should therefore be used with this sampler.

    "log_partition" is the mean perturbed score (the score of a state plus its noise) over
    `n_samples` samples, 1000 by default. It comes with a standard error, which is infinite for a
    single sample, but without an effective sample size. The expectation of the mean is an upper
    bound of log Z if every maximum is exact [2]_, as on trees after enough iterations, and not a
    bound otherwise. The mean is -inf if a sample is an impossible state.

    Parameters
    ----------
    max_iter : int, default=100
        Number of sweeps over all messages.
    damping : float in [0, 1), default=0.5
        Share of the old log-messages in the new log-messages.
    persistence : float in [0, 1), default=0.0
        Share of the noise that is kept from the call whose result is passed as `init`. The noise of
        a sample is computed from standard normal numbers z as logit(Phi(z)), or as the Gumbel
        quantile of Phi(z) if each state has its own noise. Each call replaces z by ``persistence *
        z + sqrt(1 - persistence**2) * eps`` with new normal numbers eps. So the samples of each
        call have the same distribution, but each sample changes only slowly from call to call. If
        the earlier call had ``return_state=True``, messages are kept, too, so that fewer sweeps are
        enough.
    random_state : int, RandomState or None, default=None
        Seed of the noise. Ignored if `init` continues earlier samples, which keep their random
        numbers.

    References
    ----------
    .. [1] Lazaro-Gredilla, Dedieu and George (2021). Perturb-and-max-product: sampling and
       learning in discrete energy-based models. NeurIPS.
    .. [2] Hazan and Jaakkola (2012). On the partition function and random maximum a-posteriori
       perturbations. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import PerturbAndMaxProduct, infer
    >>> energy = RBMEnergy([[1.0], [-2.0]], [0.0, 0.5], [0.5])
    >>> method = PerturbAndMaxProduct(max_iter=20, random_state=0)
    >>> result = infer(energy, method, returns=("samples", "log_partition"), n_samples=2000)
    >>> result.samples.shape
    (1, 2000, 3)
    >>> log_z = infer(energy, "exact", returns="log_partition").log_partition
    >>> bool(result.log_partition > log_z)  # a tree: every maximum is exact
    True
    """

    name: ClassVar = "perturb_and_max_product"
    answers: ClassVar = frozenset({"samples", "log_partition"})
    default_returns: ClassVar = ("samples",)
    estimated_from_samples: ClassVar = frozenset({"log_partition"})
    accepts: ClassVar = frozenset({"init", "state", "return_state"})
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "damping": [Interval(Real, 0, 1, closed="left")],
        "persistence": [Interval(Real, 0, 1, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        max_iter: int = 100,
        damping: float = 0.5,
        persistence: float = 0.0,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.max_iter = max_iter
        self.damping = damping
        self.persistence = persistence
        self.random_state = random_state

    @property
    def prefers_warm_start(self) -> bool:
        """Whether samples improve if `init` is passed: True if the noise is kept between calls.

        If the noise is new in each call, messages that were computed for the earlier noise are not
        a useful start.
        """
        return self.persistence > 0


class PerturbAndMAP(_RandomMethod):
    """Samples and log Z by perturb-and-MAP with any method that searches for the best state [1]_.

    A sample is the best state of the model after independent noise has been added to its fields.
    The noise is drawn as in `PerturbAndMaxProduct`. With the same `random_state`, samples have the
    same noise for every method of maximisation. With ``inference="exact"`` every maximum is exact.
    "mplp" and "linear_program" solve a relaxation, round its solution, and improve the state by
    coordinate ascent.

    Samples are independent of each other, and exact if all variables of the model are independent.
    Otherwise their distribution differs from the distribution of the model, even if every maximum
    is exact. "log_partition" is the mean perturbed score (the score of a state plus its noise) over
    `n_samples` samples, 1000 by default, with a standard error. The expectation of the mean is an
    upper bound of log Z if every maximum is exact [2]_.

    Parameters
    ----------
    inference : str or InferenceMethod, default="mplp"
        Method that searches for the best states: any method that can return "map" for the model,
        for example "exact", "mplp", "linear_program", "icm" or "branch_and_bound". If this method
        is random, its own option `random_state` decides its random numbers.
    random_state : int, RandomState or None, default=None
        Seed of the noise.

    References
    ----------
    .. [1] Papandreou and Yuille (2011). Perturb-and-MAP random fields: using discrete optimization
       to learn and sample from energy models. ICCV.
    .. [2] Hazan and Jaakkola (2012). On the partition function and random maximum a-posteriori
       perturbations. ICML.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import PerturbAndMAP, PerturbAndMaxProduct, sample
    >>> energy = RBMEnergy([[1.0], [-2.0]], [0.0, 0.5], [0.5])
    >>> states = sample(energy, PerturbAndMAP("exact"), n_samples=500, random_state=0)
    >>> states.shape
    (1, 500, 3)
    >>> other = sample(energy, PerturbAndMaxProduct(), n_samples=500, random_state=0)
    >>> bool((states == other).all())  # a tree: max-product finds the best state, too
    True
    """

    name: ClassVar = "perturb_and_map"
    answers: ClassVar = frozenset({"samples", "log_partition"})
    default_returns: ClassVar = ("samples",)
    estimated_from_samples: ClassVar = frozenset({"log_partition"})
    _parameter_constraints: ClassVar = {
        "inference": [str, InferenceMethod],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        inference: str | InferenceMethod = "mplp",
        random_state: int | np.random.RandomState | None = None,
    ):
        self.inference = inference
        self.random_state = random_state

    def supports(self, energy: BaseEnergy) -> frozenset:
        """Return the answers for an energy. The set is empty if `inference` cannot maximise it."""
        able = "map" in resolve_method(self.inference, valid_names=_searches).supports(energy)
        return super().supports(energy) if able else frozenset()


def _searches() -> list[str]:
    """List the names of the methods that search for the best state."""
    return [name for name in METHODS if "map" in METHODS.get(name).answers]


class AnnealedImportanceSampling(_RandomMethod):
    """Log Z by annealed importance sampling (Neal 2001; Salakhutdinov and Murray 2008).

    Chains start from the model without couplings, whose log Z is known. In the next models the
    couplings are multiplied by beta, which grows from 0 to 1 in equal steps, with a Gibbs sweep at
    each step. The hidden units of an RBM are summed out of the importance weights. The couplings of
    a factor graph are all its log-potentials, including tables of a single variable. An error is
    raised for a factor graph with log-potentials of -inf or with OR or AND factors, because its
    variables are not independent at beta = 0.

    The result has `standard_error` and `effective_sample_size`, a number between 1 and the number
    of chains. The standard error is computed by the delta method, and is enlarged if single chains
    have large weights. A warning is given if the effective sample size is below 30 and below 0.3
    times the number of chains, because the estimate is then probably too low, and its error is
    unreliable. More steps help more than more chains.

    Parameters
    ----------
    n_chains : int >= 2, default=100
        Number of chains of each model. The standard error is inversely proportional to its square
        root.
    n_betas : int >= 1, default=1000
        Number of steps of beta. More steps make the weights of the chains more equal.
    random_state : int, RandomState or None, default=None
        Seed. All models use the same random numbers, so that an answer does not depend on the rest
        of the batch.

    Raises
    ------
    ValueError
        Raised by `infer` if a factor graph has states of weight 0.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import AnnealedImportanceSampling, infer
    >>> energy = RBMEnergy([[1.0, -1.0], [2.0, 0.5]], [0.0, 0.0], [0.5, 0.0])
    >>> estimate = infer(energy, AnnealedImportanceSampling(random_state=0))
    >>> exact = infer(energy, "exact", returns="log_partition").log_partition
    >>> bool(abs(estimate.log_partition - exact) < 4 * estimate.standard_error)
    True
    """

    name: ClassVar = "ais"
    answers: ClassVar = frozenset({"log_partition"})
    default_returns: ClassVar = ("log_partition",)
    restriction: ClassVar = "it cannot handle weights of 0 (entries of -inf, OR or AND factors)"
    _parameter_constraints: ClassVar = {
        "n_chains": [Interval(Integral, 2, None, closed="left")],
        "n_betas": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_chains: int = 100,
        n_betas: int = 1000,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.n_chains = n_chains
        self.n_betas = n_betas
        self.random_state = random_state

    def supports(self, energy: BaseEnergy) -> frozenset:
        """Return the answers for an energy. The set is empty if some states have weight 0."""
        return frozenset() if energy.has_zeros else super().supports(energy)
