"""Contrastive learning rules: the negative phase is a short chain, not an expectation."""

from skcrbm.learning._contrast import Contrast
from skcrbm.learning._phases import Chains, LocalSearch, Observed, PerturbedMaxima


class ContrastiveDivergence(Contrast):
    """CD-k (Hinton 2002): block Gibbs chains of k sweeps that start at the data.

    The direction is ``F(v_data) - F(v_k)`` differentiated with v_k held fixed, an estimate of
    the likelihood's gradient that is biased for small k. The loss is that difference: it
    has no minimum in common with the likelihood, and goes towards 0 from either side.

    Parameters
    ----------
    inference : InferenceMethod
        For the validation score.
    n_jobs : int or None
    n_gibbs_steps : int
        k.
    """

    options = ("n_gibbs_steps",)
    needs_complete = True
    draws = True
    is_loss = False

    def __init__(self, inference, n_jobs=None, n_gibbs_steps=1):
        chains = Chains(n_gibbs_steps, start="data")
        super().__init__(Observed(inference), chains, inference=inference, n_jobs=n_jobs)


class PersistentContrastiveDivergence(Contrast):
    """PCD-k (Tieleman 2008): chains go on from where the last visit left them.

    A conditional model has one distribution per row, so there is one chain per training row;
    it starts at the row's labels, and follows the row through shuffling. Of a model that does
    not depend on x all rows can share the chains.

    Parameters
    ----------
    inference, n_jobs, n_gibbs_steps
        As in `ContrastiveDivergence`.
    n_chains : int, default=None
        Number of chains that all rows share; None: one per row.
    """

    options = ("n_gibbs_steps",)
    needs_complete = True
    draws = True
    is_loss = False
    keeps_chains = True

    def __init__(self, inference, n_jobs=None, n_gibbs_steps=1, n_chains=None):
        chains = Chains(n_gibbs_steps, start="persistent", n_chains=n_chains)
        self.state_key = n_chains
        super().__init__(Observed(inference), chains, inference=inference, n_jobs=n_jobs)


class PerturbAndMaxProductLearning(Contrast):
    """Learning by perturb-and-max-product (Lazaro-Gredilla, Dedieu and George 2021).

    The moments of the model are those of a sample of each row: the approximate maximum of its
    energy with noise on the fields. Where the samples' moments are those of the data the sampler
    has been fitted; the parameters are its own, and those of the Gibbs distribution would be
    others. The difference of log-weights is no loss.

    Parameters
    ----------
    inference, n_jobs
        As in `ContrastiveDivergence`.
    n_pmp_steps : int, default=50
        Sweeps of max-product.
    """

    options = ("n_pmp_steps",)
    needs_complete = True
    draws = True
    is_loss = False

    def __init__(self, inference, n_jobs=None, n_pmp_steps=50):
        super().__init__(
            Observed(inference), PerturbedMaxima(n_pmp_steps), inference=inference, n_jobs=n_jobs
        )


class PercLoss(Contrast):
    """CD-PercLoss (Mnih, Larochelle and Hinton 2011): a step only where a better state is found.

    The best state that a stochastic search for a low free energy meets competes with the
    labels; rows whose labels win add nothing. The loss is ``max(0, F(v_data) - F(v_found))``.

    Parameters
    ----------
    inference, n_jobs
        As in `ContrastiveDivergence`.
    n_gibbs_steps : int
        Sweeps of the search.
    """

    options = ("n_gibbs_steps",)
    needs_complete = True
    draws = True

    def __init__(self, inference, n_jobs=None, n_gibbs_steps=1):
        super().__init__(
            Observed(inference),
            LocalSearch(n_gibbs_steps),
            only_violations=True,
            inference=inference,
            n_jobs=n_jobs,
        )
