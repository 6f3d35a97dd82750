"""Options of the methods that draw samples."""

from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from skcrbm.inference.base import InferenceMethod


class Gibbs(InferenceMethod):
    """Samples and marginals by block Gibbs sampling.

    Marginals are averages over sweeps and chains of the probabilities that the states were
    drawn from (Rao-Blackwellised), statistics those of the states with the last block at its
    probabilities, ``v_i P(h_j = 1 | v)`` of RBMs; their error falls with the square root of
    the number of independent sweeps. All models of a batch use the same random numbers for
    them, so that an answer does not depend on the rest of the batch; the price is that
    errors are correlated between models. For "samples" each model has numbers of its own:
    sample s comes from chain ``s % n_chains``, so that samples of one chain are `n_chains`
    apart.

    A model has converged if the split R-hat of every unit's probability, between and within
    the halves of the chains, is at most `max_rhat` (Gelman et al. 2013, section 11.4).

    Parameters
    ----------
    max_iter : int, default=500
        Sweeps that marginals and statistics are taken of, per chain.
    burn_in : int, default=100
        Sweeps dropped before; none when `init` continues earlier chains. The result of
        another method as `init` has no chains: they are then drawn from its marginals.
    thin : int, default=1
        Sweeps between two samples of a chain.
    n_chains : int or None, default=None
        Chains per model. None: 10 for marginals and statistics, as many as samples up to 100
        for samples.
    max_rhat : float >= 1, default=1.1
    random_state : int, RandomState or None, default=None
        Not used when `init` continues earlier chains: they keep their random numbers.

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
        max_iter=500,
        burn_in=100,
        thin=1,
        n_chains=None,
        max_rhat=1.1,
        random_state=None,
    ):
        self.max_iter = max_iter
        self.burn_in = burn_in
        self.thin = thin
        self.n_chains = n_chains
        self.max_rhat = max_rhat
        self.random_state = random_state

    @property
    def draws(self):
        """True: all answers are made of random numbers."""
        return True


class GibbsWithGradients(InferenceMethod):
    """Samples and marginals by Gibbs with gradients (Grathwohl et al. 2021).

    A step proposes to flip one variable, drawn with weight ``exp(D_i / 2)``, D_i the change of
    the score by that flip, and accepts it with the probability of Metropolis and Hastings:
    variables that are about to turn over are tried more often than in a sweep of `Gibbs`. The
    D_i are exact here, not a gradient's estimate. A sweep is as many steps as there are visible
    variables. Of an `RBMEnergy` the visible units are moved with the hidden ones summed out;
    these are drawn given them after each sweep. On Ising models a kernel follows the flips, each
    in the time that its neighbours and a sum over all variables take; on other energies a step
    works out all D_i again. Averages, convergence, chains and random numbers are as of `Gibbs`.

    Parameters
    ----------
    max_iter : int, default=500
        Sweeps that marginals and statistics are taken of, per chain.
    burn_in : int, default=100
        Sweeps dropped before; none when `init` continues earlier chains.
    n_chains : int or None, default=None
        Chains per model. None: 10 for marginals and statistics, as many as samples up to 100
        for samples.
    max_rhat : float >= 1, default=1.1
        Largest split R-hat of a model that has converged.
    random_state : int, RandomState or None, default=None
        Not used when `init` continues earlier chains: they keep their random numbers.

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
    #: Sweeps between two samples of a chain; no option.
    thin: ClassVar = 1
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "burn_in": [Interval(Integral, 0, None, closed="left")],
        "n_chains": [Interval(Integral, 1, None, closed="left"), None],
        "max_rhat": [Interval(Real, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, max_iter=500, burn_in=100, n_chains=None, max_rhat=1.1, random_state=None):
        self.max_iter = max_iter
        self.burn_in = burn_in
        self.n_chains = n_chains
        self.max_rhat = max_rhat
        self.random_state = random_state

    @property
    def draws(self):
        """True: all answers are made of random numbers."""
        return True


class BPChain(InferenceMethod):
    """Samples by chained belief propagation (Ding and Xue 2020).

    Variable after variable is drawn from its sum-product belief given those drawn before, which
    are held at their values from then on. Messages go on from one variable to the next. Of an
    `RBMEnergy` the visible units are drawn in this way, then all hidden ones at once from
    p(h | v).

    Samples are independent, and their distribution q is that of the model where beliefs are exact:
    on graphs without loops, given enough iterations. Elsewhere q is near it at best; but q(x) of
    what is drawn is known ("sample_log_prob"; the same for the same state, apart from rounding),
    so that ``exp(score(x) - log q(x))`` is an unbiased estimate of Z. "log_partition" is the
    logarithm of its mean over `n_samples` samples, with `standard_error`, by the delta method, and
    `effective_sample_size`, between 1 and the number of samples: a small one means that few
    samples carry the estimate, and that its standard error is too small.

    Where tables hold weights of zero, and with ORs and ANDs, beliefs may allow what is not
    possible: then a state of weight 0 may be drawn, whose importance weight is 0. Once both values
    of a variable have become impossible, what forbids them cancels, and the rest decides. A model
    of which such a state was drawn is reported as not converged. Beliefs may also exclude what
    is possible: where such factors share several variables, log-odds may grow with every iteration
    until they are as good as infinite. A state of that kind is never drawn, and the estimate of
    Z misses its weight without a sign in its error.

    Parameters
    ----------
    max_iter : int, default=20
        Iterations before the first variable is drawn.
    warm_iter : int or None, default=5
        Iterations before each of the others, from the messages of the step before. None:
        `max_iter` from the start at each step, the paper's form.
    order : {"index", "random"} or array-like of int (n_visible,), default="index"
        In which variables are drawn: as they are numbered; one random order, drawn once from
        `random_state`; or this one, a permutation of the visible variables. Held ones take no
        step.
    damping : float in [0, 1), default=0.0
        Share of the old log messages that is kept.
    random_state : int, RandomState or None, default=None
        Every model and sample has random numbers of its own. Not used when `init` goes on from
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
    from_samples: ClassVar = frozenset({"log_partition"})
    accepts: ClassVar = frozenset({"init", "state", "return_state"})
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "warm_iter": [Interval(Integral, 1, None, closed="left"), None],
        "order": [StrOptions({"index", "random"}), "array-like"],
        "damping": [Interval(Real, 0, 1, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, max_iter=20, warm_iter=5, order="index", damping=0.0, random_state=None):
        self.max_iter = max_iter
        self.warm_iter = warm_iter
        self.order = order
        self.damping = damping
        self.random_state = random_state

    @property
    def draws(self):
        """True: all answers are made of random numbers."""
        return True


class PerturbAndMaxProduct(InferenceMethod):
    """Samples and log Z by maximising a randomly perturbed energy.

    A sample is the state that max-product prefers once independent noise has been added to the
    fields [1]_: Gumbel noise of mean zero on both values of each variable, which is
    Logistic(0, 1) noise on its log-odds (half of it on the half log-odds of -1/+1 variables).
    All messages are sent from the old ones, `max_iter` times, damped; a variable is 1 unless its
    last belief is negative. Outputs of OR and AND factors follow from their inputs and get no
    noise; what passes through them, and back, arrives within the sweep and is not damped.

    Samples are independent of each other, and exact where all variables are independent. Else
    their distribution is another one than the model's own, also where every maximum is exact:
    noise on single variables is not noise on every state. Parameters that are learned with such
    samples belong to this sampler.

    "log_partition" is the mean over ``n_samples`` samples (1000 by default) of their perturbed
    score, that is of the score of each state plus its noise, with its standard error, which one
    sample leaves infinite; there is no effective sample size. It is an upper bound of log Z in the
    mean where every maximum is exact [2]_, as on trees after enough iterations, and neither an
    upper nor a lower bound where it is not. It is -inf where a state contradicts the model.

    Parameters
    ----------
    max_iter : int, default=100
        Sweeps of all messages.
    damping : float in [0, 1), default=0.5
        Share of the old log messages that is kept. On factor graphs of tables 0 and 0.5 are
        fastest.
    persistence : float in [0, 1), default=0.0
        How much of the noise goes on in a call that passes `init`: the noise of a state is
        logit(Phi(z)) of normal numbers z, and z moves to
        ``persistence * z + sqrt(1 - persistence**2) * eps``. Each call's samples are distributed
        as those of a first one, while each state changes slowly from call to call. Messages go
        on too, where that call had ``return_state=True``, so fewer sweeps are enough.
    random_state : int, RandomState or None, default=None
        Not used when `init` continues earlier samples: they keep their random numbers.

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
    from_samples: ClassVar = frozenset({"log_partition"})
    accepts: ClassVar = frozenset({"init", "state", "return_state"})
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "damping": [Interval(Real, 0, 1, closed="left")],
        "persistence": [Interval(Real, 0, 1, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, max_iter=100, damping=0.5, persistence=0.0, random_state=None):
        self.max_iter = max_iter
        self.damping = damping
        self.persistence = persistence
        self.random_state = random_state

    @property
    def draws(self):
        """True: all answers are made of random numbers."""
        return True

    @property
    def goes_on(self):
        """With persistence alone: else messages that fit other noise are no better than none."""
        return self.persistence > 0


class AnnealedImportanceSampling(InferenceMethod):
    """Log Z by annealed importance sampling (Neal 2001; Salakhutdinov and Murray 2008).

    Chains start from the model without couplings, whose log Z is known, and pass through
    models with couplings beta W, beta from 0 to 1 in equal steps, by one Gibbs sweep each;
    hidden units of an RBM are summed out of the weights. The couplings of a factor graph are all
    its log-potentials, those of single variables included. One with entries of -inf, ORs or ANDs
    is refused: its variables would not become independent. The result has `standard_error`, by
    the delta method, and `effective_sample_size`, between 1 and the number of chains: a small one
    means that few chains carry the estimate, and that its standard error is too small.

    Parameters
    ----------
    n_chains : int >= 2, default=100
        Chains of each model; the standard error falls with their square root.
    n_betas : int >= 1, default=1000
        Steps; more of them make the chains' weights more equal.
    random_state : int, RandomState or None, default=None
        All models use the same random numbers: an answer does not depend on the batch.

    Raises
    ------
    ValueError
        By `infer`, of a factor graph with states of weight 0.

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
    _parameter_constraints: ClassVar = {
        "n_chains": [Interval(Integral, 2, None, closed="left")],
        "n_betas": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, n_chains=100, n_betas=1000, random_state=None):
        self.n_chains = n_chains
        self.n_betas = n_betas
        self.random_state = random_state

    def supports(self, energy):
        """Nothing where there are states of weight 0; see the base."""
        return frozenset() if energy.has_zeros else super().supports(energy)

    @property
    def draws(self):
        """True: all answers are made of random numbers."""
        return True
