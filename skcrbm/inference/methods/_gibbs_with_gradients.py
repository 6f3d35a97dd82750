"""Gibbs sampling with gradients."""

from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from skcrbm.inference._base import InferenceMethod


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
