"""Max-margin learning rules: the negative phase is the worst competitor of the labels."""

from typing import ClassVar

import numpy as np

from skcrbm.energies import OneHotRBMEnergy
from skcrbm.inference import infer
from skcrbm.learning._base import Objective, Step
from skcrbm.learning._likelihood import clamp_visible


class MarginalHiddenMargin(Objective):
    """Marginal structured SVM (Ping, Liu and Ihler 2014; Ping and Ihler 2017, section 4.2).

    With the score ``s(v) = log sum_h exp(-E(v, h))``, the loss of a row with outputs y is
    ``max_v [D(v, y) + s(v)] - s(y)``, where D counts the wrong outputs; the subgradient is
    that of ``s(v_hat) - s(y)`` at the maximiser v_hat, which the inference method finds. y
    competes too, so that a loss is never negative.

    Outputs that are not observed do not count in D, and y completes them to its best.
    """

    #: What becomes of the hidden units, in the terms of `RBMEnergy.log_weight`.
    hidden: ClassVar = "marginal"
    #: The query whose answer is the maximiser.
    query: ClassVar = "marginal_map"

    def step(self, model, batch, epoch):
        method = self.inference.at_epoch(epoch)
        energy = model.energy(batch.X)
        target, converged = self._completed(energy, batch.visible, method)
        found, found_converged = self._worst(energy, batch.visible, method)
        excess = self._excess(energy, batch.visible, found, target)
        violated = excess > 0
        found = np.where(violated[:, None], found, target).astype(energy.dtype)
        found_hidden = energy.hidden_given_visible(found, self.hidden)
        target_hidden = energy.hidden_given_visible(target, self.hidden)
        scale = batch.weight[:, None].astype(energy.dtype)
        gradient = model.gradient(
            batch.X,
            scale * (found - target),
            scale * (found_hidden - target_hidden),
            (scale * found).T @ found_hidden - (scale * target).T @ target_hidden,
        )
        loss = float(batch.weight @ np.maximum(excess, 0))
        return Step(gradient, loss, int((converged & found_converged).sum()))

    def decode(self, energy, epoch, clamp=None):
        """Most probable visible states (N, V), hidden units treated as in training."""
        return self._best(energy, self.inference.at_epoch(epoch), clamp)[0]

    def _completed(self, energy, visible, method):
        """Return outputs (N, V), those not observed at their best, and what converged."""
        target = visible.astype(energy.dtype, copy=True)
        converged = np.ones(len(visible), bool)
        rows = np.flatnonzero(np.isnan(visible).any(axis=1))
        if len(rows):
            clamp = clamp_visible(visible[rows], energy.n_hidden)
            target[rows], converged[rows] = self._best(energy.rows(rows), method, clamp)
        return target, converged

    def _worst(self, energy, visible, method):
        """``argmax_v D(v, y) + s(v)``: the loss is linear in v, a shift of the biases."""
        if isinstance(energy, OneHotRBMEnergy):
            scores = energy.class_log_weights(self.hidden) + (1 - visible)
            worst = np.eye(energy.n_visible)[scores.argmax(axis=1)]
            return worst, np.ones(len(visible), bool)
        shift = np.nan_to_num(1 - 2 * visible)  # NaN: not observed, no loss
        augmented = energy.with_fields(energy.visible_bias + shift, energy.hidden_bias)
        return self._best(augmented, method, None)

    def _best(self, energy, method, clamp):
        if isinstance(energy, OneHotRBMEnergy):
            classes = energy.class_log_weights(self.hidden).argmax(axis=1)
            return np.eye(energy.n_visible)[classes], np.ones(len(classes), bool)
        query = state_query(method, self.query)
        result = infer(energy, method, returns=query, clamp=clamp, n_jobs=self.n_jobs)
        return result.assignment[:, : energy.n_visible], result.converged

    def _excess(self, energy, visible, found, target):
        """``D(found, y) + s(found) - s(target)`` of each row."""
        wrong = (found != visible) & ~np.isnan(visible)
        loss = wrong.sum(axis=1)
        if isinstance(energy, OneHotRBMEnergy):
            loss = loss / 2  # one wrong class, not two wrong units
        gain = energy.log_weight(found, self.hidden) - energy.log_weight(target, self.hidden)
        return loss + gain


class MaxHiddenMargin(MarginalHiddenMargin):
    """Latent structural SVM (Yu and Joachims 2009): the score is ``s(v) = max_h -E(v, h)``."""

    hidden: ClassVar = "max"
    query: ClassVar = "map"


def state_query(method, preferred):
    """Return the query for a best state that `method` answers, `preferred` if it can choose.

    Raises
    ------
    ValueError
        If it answers none, naming the methods that do.
    """
    for query in (preferred, "map", "marginal_map"):
        if query in method.answers:
            return query
    raise ValueError(
        f"inference={method.name!r} gives marginals, but max-margin learning needs a best state; "
        "use 'mixed_product', 'max_product', 'icm' or 'exact'"
    )
