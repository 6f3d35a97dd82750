"""A learning rule as the difference of two phases."""

import numpy as np

from skcrbm.learning._base import Objective, Step
from skcrbm.learning._scoring import validation_score


class Contrast(Objective):
    """Moments of a negative phase minus those of a positive phase, and so the loss.

    Parameters
    ----------
    positive, negative : Phase
    only_violations : bool, default=False
        Leave out the rows whose negative phase has no larger log-weight than the positive one,
        as a hinge or a perceptron does. Both phases must give states, one per row.
    inference : InferenceMethod
        Behind the validation score.
    n_jobs : int or None
    """

    def __init__(self, positive, negative, only_violations=False, *, inference, n_jobs=None):
        self.positive = positive
        self.negative = negative
        self.only_violations = only_violations
        self.inference = inference
        self.n_jobs = n_jobs
        self.draws = positive.draws or negative.draws
        self.keeps_chains = positive.keeps_chains or negative.keeps_chains

    def start(self, n_rows):
        """Return the states of the two phases."""
        return self.positive.start(n_rows), self.negative.start(n_rows)

    def step(self, model, batch, clock, state):
        """Return the `Step` of a batch and the states of the phases."""
        energy = model.energy(batch.X)
        positive, positive_state = self.positive(energy, batch, clock, state[0])
        negative, negative_state = self.negative(energy, batch, clock, state[1], positive)
        excess = negative.log_weight - positive.log_weight
        if self.only_violations:
            negative = self._where_violated(excess > 0, positive, negative)
            excess = np.maximum(excess, 0)
        weight = batch.weight
        statistics = (
            n - p
            for n, p in zip(
                _statistics(energy, negative, weight),
                _statistics(energy, positive, weight),
                strict=True,
            )
        )
        gradient = model.gradient(
            batch.X, _unary_difference(positive, negative, weight), tuple(statistics)
        )
        converged = np.broadcast_to(positive.converged & negative.converged, len(weight))
        loss = float(weight @ np.broadcast_to(excess, len(weight)))
        step = Step(gradient, loss, int(converged.sum()), negative.effective_share)
        return step, (positive_state, negative_state)

    @staticmethod
    def _where_violated(violated, positive, negative):
        """Negative phase that equals the positive one, and cancels, in all other rows."""
        if positive.statistics is not None or negative.statistics is not None:
            raise TypeError("only_violations=True needs phases that give one state per row")
        unary = np.where(violated[:, None], negative.unary, positive.unary)
        return negative._replace(unary=unary)

    def score(self, model, batch, epoch):
        """Return the `validation_score` of held-out rows."""
        return validation_score(model, batch, self.inference.at_epoch(epoch), self.n_jobs)


def _statistics(energy, moments, weight):
    if moments.statistics is not None:
        return moments.statistics
    return energy.sum_statistics(moments.unary, weight)


def _unary_difference(positive, negative, weight):
    """Weighted difference of unary moments: row by row, or summed where a phase has one row."""
    dtype = negative.unary.dtype
    if len(positive.unary) == len(negative.unary) == len(weight):
        return weight[:, None].astype(dtype) * (negative.unary - positive.unary)
    return _total(negative.unary, weight) - _total(positive.unary, weight)


def _total(unary, weight):
    weight = weight.astype(unary.dtype)
    return unary * weight.sum() if len(unary) == 1 else (weight @ unary)[None]
