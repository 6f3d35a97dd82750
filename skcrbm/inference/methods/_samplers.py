"""Options of the methods that draw samples."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from skcrbm.energies import BaseEnergy
from skcrbm.inference.base import InferenceMethod


class _RandomMethod(InferenceMethod):
    """Base class of the methods whose answers all depend on `random_state`."""

    @property
    def is_random(self) -> bool:
        """Whether answers other than samples depend on an option `random_state`: always."""
        return True


class Gibbs(_RandomMethod):
    """Samples and marginals by block Gibbs sampling.

    Marginals are averages over sweeps and chains of the probabilities from which the states were
    drawn (Rao-Blackwellised). Statistics are averages of the states with the last block at its
    probabilities, ``v_i P(h_j = 1 | v)`` for RBMs. Their error falls with the square root of
    the number of independent sweeps. All models of a batch use the same random numbers for
    them, so that an answer does not depend on the rest of the batch; the price is that
    errors are correlated between models. For "samples" each model has its own random numbers:
    sample s comes from chain ``s % n_chains``, so that samples of the same chain are `n_chains`
    apart.

    If variables have K states, a sweep draws one of the K states of each variable, and marginals
    have shape (N, n, K). The chains do not converge if weights of 0 separate the states so that
    no change of a single variable leads from some states to others.

    A model has converged if the split R-hat of every unit's probability, between and within
    the halves of the chains, is at most `max_rhat` (Gelman et al. 2013, section 11.4).

    Parameters
    ----------
    max_iter : int, default=500
        Number of sweeps of each chain over which marginals and statistics are averaged.
    burn_in : int, default=100
        Number of sweeps dropped before; 0 if `init` continues earlier chains. If `init` is the
        result of another method, without chains, the chains are drawn from its marginals.
    thin : int, default=1
        Number of sweeps between two samples of a chain.
    n_chains : int or None, default=None
        Number of chains of each model. None: 10 for marginals and statistics; for samples
        ``min(n_samples, 100)``.
    max_rhat : float >= 1, default=1.1
        Largest split R-hat of a model that has converged.
    random_state : int, RandomState or None, default=None
        Seed of the chains. Not used if `init` continues earlier chains: they keep their random
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

    A step proposes to flip a variable, drawn with weight ``exp(D_i / 2)``, where D_i is the change
    of the score by that flip, and accepts it with the probability of Metropolis and Hastings:
    variables whose flip raises the score are tried more often than in a sweep of `Gibbs`. The
    D_i are exact here, not estimated by a gradient. A sweep has as many steps as there are visible
    variables. In an `RBMEnergy` the visible units are moved with the hidden units summed out;
    the hidden units are drawn given the visible units after each sweep. For Ising models a kernel
    updates the D_i after each flip, in the time that the neighbours and a sum over all variables
    take; for other energies each step computes all D_i again. Averages, convergence, chains and
    random numbers are as in `Gibbs`.

    Parameters
    ----------
    max_iter : int, default=500
        Number of sweeps of each chain over which marginals and statistics are averaged.
    burn_in : int, default=100
        Number of sweeps dropped before; 0 if `init` continues earlier chains.
    n_chains : int or None, default=None
        Number of chains of each model. None: 10 for marginals and statistics; for samples
        ``min(n_samples, 100)``.
    max_rhat : float >= 1, default=1.1
        Largest split R-hat of a model that has converged.
    random_state : int, RandomState or None, default=None
        Seed of the chains. Not used if `init` continues earlier chains: they keep their random
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
    answers: ClassVar = frozenset({"marginals", "statistics", "samples"})
    accepts: ClassVar = frozenset({"init", "state", "return_state"})
    #: Sweeps between two samples of a chain; not an option.
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

    The variables are drawn one after the other, each from its sum-product belief given the
    variables drawn before, which are clamped to their values from then on. Messages are passed on
    from one variable to the next. In an `RBMEnergy` the visible units are drawn in this way, then
    all hidden units at once from p(h | v).

    Samples are independent. Their distribution q is the distribution of the model if beliefs are
    exact: on graphs without loops, given enough iterations. Otherwise q is only near it; but q(x)
    of each sample is known ("sample_log_prob", which depends on the state only, up to rounding), so
    that ``exp(score(x) - log q(x))`` is an unbiased estimate of Z. "log_partition" is the
    logarithm of its mean over `n_samples` samples, with `standard_error` and
    `effective_sample_size`, between 1 and the number of samples. The error is the error of the
    delta method, enlarged if single samples have large weights. If few samples carry the estimate
    (an effective sample size below 20 or a fifth of the samples), a warning is given: the estimate
    is then probably too low, and its error is rough.

    If tables hold weights of zero, or the graph has ORs and ANDs, beliefs may allow impossible
    states. A sample may then have weight 0, and its importance weight is 0. If both values of a
    variable have become impossible, the factors that forbid them are ignored, and the other
    factors decide. A model with such a sample is reported as not converged. Beliefs may also
    exclude possible states: if such factors share several variables, log-odds may grow with every
    iteration until they are practically infinite. An excluded state is never drawn, and the
    estimate of Z misses its weight without a sign in its error.

    Parameters
    ----------
    max_iter : int, default=20
        Number of iterations before the first variable is drawn.
    warm_iter : int or None, default=5
        Number of iterations before each other variable, from the messages of the step before.
        None: `max_iter` iterations from the start at each step, as in the paper.
    order : {"index", "random"} or array-like of int (n_visible,), default="index"
        Order in which variables are drawn: by their index; in a random order, drawn once from
        `random_state`; or in this order, a permutation of the visible variables. Clamped
        variables take no step.
    damping : float in [0, 1), default=0.0
        Share of the old log messages that is kept.
    random_state : int, RandomState or None, default=None
        Seed. Every model and sample has random numbers of its own. Not used if `init` continues
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
    """Samples and log Z by maximising a randomly perturbed energy.

    A sample is the state that max-product prefers once independent noise has been added to the
    fields [1]_: Gumbel noise of mean zero on both values of each variable, which is
    Logistic(0, 1) noise on its log-odds (half of it on the half log-odds of -1/+1 variables).
    All messages are computed from the old messages, `max_iter` times, damped; a variable is 1
    unless its last belief is negative. Outputs of OR and AND factors follow from their inputs and
    get no noise; messages through these factors arrive within the sweep and are not damped.

    Samples are independent of each other, and exact if all variables are independent. Otherwise
    their distribution differs from the distribution of the model, even if every maximum is exact:
    noise on single variables is not noise on every state. Parameters that are learned with such
    samples belong to this sampler.

    "log_partition" is the mean over ``n_samples`` samples (1000 by default) of their perturbed
    score, that is the score of each state plus its noise, with its standard error, which is
    infinite for a single sample; there is no effective sample size. Its expectation is an upper
    bound of log Z if every maximum is exact [2]_, as on trees after enough iterations, and no
    bound otherwise. It is -inf if a state contradicts the model.

    Parameters
    ----------
    max_iter : int, default=100
        Number of sweeps over all messages.
    damping : float in [0, 1), default=0.5
        Share of the old log messages that is kept. On factor graphs of tables 0 and 0.5 are
        fastest.
    persistence : float in [0, 1), default=0.0
        Share of the noise that a call with `init` takes over: the noise of a state is
        logit(Phi(z)) of normal numbers z, and z moves to
        ``persistence * z + sqrt(1 - persistence**2) * eps``. The samples of each call have the
        same distribution, while each state changes slowly from call to call. Messages are
        taken over, too, if that call had ``return_state=True``, so fewer sweeps are enough.
    random_state : int, RandomState or None, default=None
        Seed of the noise. Not used if `init` continues earlier samples: they keep their random
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
        """Whether there is persistence: messages for other noise are no help."""
        return self.persistence > 0


class AnnealedImportanceSampling(_RandomMethod):
    """Log Z by annealed importance sampling (Neal 2001; Salakhutdinov and Murray 2008).

    Chains start from the model without couplings, whose log Z is known, and pass through
    models with couplings beta W, beta from 0 to 1 in equal steps, with one Gibbs sweep each;
    the hidden units of an RBM are summed out of the weights. The couplings of a factor graph are
    all its log-potentials, also of single variables. A factor graph with entries of -inf, ORs or
    ANDs is refused: without couplings its variables would not become independent. The result has
    `standard_error` and `effective_sample_size`, between 1 and the number of chains. The error is
    the error of the delta method, enlarged if single chains have large weights. If few chains
    carry the estimate (an effective sample size below 20 or a fifth of the chains), a warning is
    given: the estimate is then probably too low, and its error is rough. More steps help most.

    Parameters
    ----------
    n_chains : int >= 2, default=100
        Number of chains of each model; the standard error falls with its square root.
    n_betas : int >= 1, default=1000
        Number of steps; more steps make the weights of the chains more equal.
    random_state : int, RandomState or None, default=None
        Seed. All models use the same random numbers: an answer does not depend on the batch.

    Raises
    ------
    ValueError
        By `infer`, if a factor graph has states of weight 0.

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
    restriction: ClassVar = "it takes no weights of 0 (entries of -inf), OR or AND"
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
        """Return the answers for an energy; an empty set if it has states of weight 0."""
        return frozenset() if energy.has_zeros else super().supports(energy)
