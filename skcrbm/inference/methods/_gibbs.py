"""Block Gibbs sampling."""

from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from skcrbm.inference._base import InferenceMethod


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
