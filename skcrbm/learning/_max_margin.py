"""Max-margin learning rules: the negative phase is loss-augmented MAP."""

from typing import ClassVar

from skcrbm.learning._best_states import QUERIES, Completed, LossAugmented
from skcrbm.learning._contrast import Contrast
from skcrbm.learning._scoring import share_of_errors


class MarginalHiddenMargin(Contrast):
    """Marginal structured SVM (Ping, Liu and Ihler 2014; Ping and Ihler 2017, section 4.2).

    With the score ``s(v) = log sum_h exp(-E(v, h))``, the loss of a row with outputs y is
    ``max_v [D(v, y) + s(v)] - s(y)``, where D counts the wrong outputs; the subgradient is
    that of ``s(v_hat) - s(y)`` at the maximiser v_hat, which the inference method finds. y
    is one of the states to choose from, so that a loss is never negative.

    Outputs that are not observed do not count in D, and y completes them to its best.

    Parameters
    ----------
    inference : InferenceMethod
        Finds best states.
    n_jobs : int or None
    """

    #: What becomes of the hidden units, in the terms of `RBMEnergy.log_weight`.
    hidden: ClassVar = "marginal"
    #: The query whose answer is the maximiser.
    query: ClassVar = QUERIES["marginal"]

    def __init__(self, inference, n_jobs=None):
        super().__init__(
            Completed(inference, self.hidden, n_jobs),
            LossAugmented(inference, self.hidden, n_jobs),
            only_violations=True,
            inference=inference,
            n_jobs=n_jobs,
        )

    def score(self, model, batch, epoch):
        """Return minus the share of wrong outputs, decoded as in training."""
        return -share_of_errors(self.negative.search(model.energy(batch.X), epoch)[0], batch)


class MaxHiddenMargin(MarginalHiddenMargin):
    """Latent structural SVM (Yu and Joachims 2009): the score is ``s(v) = max_h -E(v, h)``."""

    hidden: ClassVar = "max"
    query: ClassVar = QUERIES["max"]
