"""Maximum likelihood with (approximate) marginals: MLE-exact, MLE-BP, MLE-MF."""

import numpy as np

from skcrbm.inference import infer
from skcrbm.learning._base import Objective, Step


class Likelihood(Objective):
    """Negative conditional log-likelihood of the observed outputs.

    The gradient is ``E[moments | x] - E[moments | observed v, x]`` (Ping and Ihler 2017,
    eq. 5); outputs that are not observed are marginalised in the second term by the
    same inference method with the observed ones clamped. With an approximate method
    the loss is its approximation, too.
    """

    def step(self, model, batch, epoch):
        method = self.inference.at_epoch(epoch)
        energy = model.energy(batch.X)
        weight = batch.weight
        free = infer(
            energy,
            method,
            returns=("marginals", "pairwise", "log_partition"),
            sample_weight=weight,
            n_jobs=self.n_jobs,
        )
        visible, hidden, pairwise, log_weight, converged = self._observed(energy, batch, method)
        n_visible = energy.n_visible
        scale = weight[:, None].astype(energy.dtype)
        gradient = model.gradient(
            batch.X,
            scale * (free.marginals[:, :n_visible] - visible),
            scale * (free.marginals[:, n_visible:] - hidden),
            free.pairwise - pairwise,
        )
        loss = float(weight @ (free.log_partition - log_weight))
        return Step(gradient, loss, int((free.converged & converged).sum()))

    def loss(self, model, batch):
        """Weighted sum over rows of the loss, without its gradient."""
        energy = model.energy(batch.X)
        free = infer(energy, self.inference, returns=("log_partition",), n_jobs=self.n_jobs)
        log_weight = energy.log_weight(np.nan_to_num(batch.visible))
        rows = np.flatnonzero(np.isnan(batch.visible).any(axis=1))
        if len(rows):
            log_weight[rows] = infer(
                energy.rows(rows),
                self.inference,
                clamp=clamp_visible(batch.visible[rows], energy.n_hidden),
                returns=("log_partition",),
                n_jobs=self.n_jobs,
            ).log_partition
        return float(batch.weight @ (free.log_partition - log_weight))

    def _observed(self, energy, batch, method):
        """Moments given the observed outputs, and the log-weight of these."""
        complete = ~np.isnan(batch.visible).any(axis=1)
        v = np.nan_to_num(batch.visible)
        h = energy.hidden_given_visible(v)
        log_weight = energy.log_weight(v)
        scale = (batch.weight * complete)[:, None].astype(energy.dtype)
        pairwise = (scale * v).T @ h
        converged = np.ones(len(batch), bool)
        if not complete.all():
            rows = np.flatnonzero(~complete)
            partly = infer(
                energy.rows(rows),
                method,
                clamp=clamp_visible(batch.visible[rows], energy.n_hidden),
                returns=("marginals", "pairwise", "log_partition"),
                sample_weight=batch.weight[rows],
                n_jobs=self.n_jobs,
            )
            v[rows] = partly.marginals[:, : energy.n_visible]
            h[rows] = partly.marginals[:, energy.n_visible :]
            log_weight[rows] = partly.log_partition
            pairwise = pairwise + partly.pairwise
            converged[rows] = partly.converged
        return v, h, pairwise, log_weight, converged


def clamp_visible(visible, n_hidden):
    """Clamp (N, V + H) that fixes the observed outputs and leaves the hidden units free."""
    return np.hstack([visible, np.full((len(visible), n_hidden), np.nan)])
