"""Maximum likelihood with (approximate) marginals: MLE-exact, MLE-BP, MLE-MF."""

from skcrbm.learning._contrast import Contrast
from skcrbm.learning._phases import Expected, Observed
from skcrbm.learning._scoring import negative_log_likelihood


class Likelihood(Contrast):
    """Negative conditional log-likelihood of the observed outputs.

    The gradient is ``E[moments | x] - E[moments | observed v, x]`` (Ping and Ihler 2017,
    eq. 5); outputs that are not observed are marginalised in the second term by the
    same inference method with the observed ones clamped. With an approximate method
    the loss is its approximation, too.

    Parameters
    ----------
    inference : InferenceMethod
    n_jobs : int or None
    """

    def __init__(self, inference, n_jobs=None):
        super().__init__(
            Observed(inference, n_jobs),
            Expected(inference, n_jobs),
            inference=inference,
            n_jobs=n_jobs,
        )

    def loss(self, model, batch):
        """Weighted sum over rows of the loss, without its gradient."""
        return negative_log_likelihood(model.energy(batch.X), batch, self.inference, self.n_jobs)
