"""Annealed importance sampling."""

from numbers import Integral
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from skcrbm.inference._base import InferenceMethod


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
