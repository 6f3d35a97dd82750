"""Contrastive learning rules: the negative phase is a short chain, not an expectation."""

import numpy as np
from scipy.special import expit

from skcrbm.inference._gibbs import gibbs_sweep
from skcrbm.inference._random import uniforms
from skcrbm.learning._base import Objective, Step


class ContrastiveDivergence(Objective):
    """CD-k (Hinton 2002): block Gibbs chains of k sweeps that start at the data.

    The direction is ``F(v_data) - F(v_k)`` differentiated with v_k held fixed, an estimate of
    the likelihood's gradient that is biased for small k. The loss is that difference: it
    has no minimum in common with the likelihood, and goes towards 0 from either side.
    """

    needs_complete = True
    draws = True
    is_loss = False

    def step(self, model, batch, epoch):
        energy = model.energy(batch.X)
        hidden = energy.hidden_given_visible(batch.visible)
        fantasy = self._fantasy(energy, batch, hidden, epoch)
        return self._contrast(model, energy, batch, hidden, fantasy, batch.weight)

    def _fantasy(self, energy, batch, hidden, epoch):
        """Visible states (N, V) of the negative phase."""
        first = epoch * (self.n_gibbs_steps + 1)
        u = uniforms(self.key, batch.index, first, energy.n_hidden)
        return self._run_chains(energy, batch, u < hidden, first + 1)[0]

    def _run_chains(self, energy, batch, hidden, first):
        """Visible and hidden states after `n_gibbs_steps` sweeps from hidden (N, H)."""
        state = hidden[:, None, :]
        for step in range(first, first + self.n_gibbs_steps):
            sweep = gibbs_sweep(energy, state, self.key, batch.index, step)
            state = sweep.hidden
        return sweep.visible[:, 0], state[:, 0]

    def _contrast(self, model, energy, batch, hidden, fantasy, weight):
        """Difference of the two phases, with `weight` (N,) for both."""
        fantasy = fantasy.astype(energy.dtype)
        fantasy_hidden = energy.hidden_given_visible(fantasy)
        scale = weight[:, None].astype(energy.dtype)
        visible = batch.visible
        gradient = model.gradient(
            batch.X,
            scale * (fantasy - visible),
            scale * (fantasy_hidden - hidden),
            (scale * fantasy).T @ fantasy_hidden - (scale * visible).T @ hidden,
        )
        gain = energy.log_weight(fantasy) - energy.log_weight(visible)
        return Step(gradient, float(weight @ gain), len(batch))


class PersistentContrastiveDivergence(ContrastiveDivergence):
    """PCD-k (Tieleman 2008): chains go on from where the last visit left them.

    A conditional model has one distribution per row, so there is one chain per training row;
    it starts at the row's labels, and follows the row through shuffling.
    """

    keeps_chains = True

    def start(self, n_rows):
        """Forget all chains."""
        self._chains = None
        self._visited = np.zeros(n_rows, bool)

    def _fantasy(self, energy, batch, hidden, epoch):
        first = epoch * (self.n_gibbs_steps + 1)
        u = uniforms(self.key, batch.index, first, energy.n_hidden)
        if self._chains is None:
            self._chains = np.zeros((len(self._visited), energy.n_hidden), bool)
        at_data = ~self._visited[batch.index, None]
        state = np.where(at_data, u < hidden, self._chains[batch.index])
        visible, state = self._run_chains(energy, batch, state, first + 1)
        self._chains[batch.index] = state
        self._visited[batch.index] = True
        return visible


class PercLoss(ContrastiveDivergence):
    """CD-PercLoss (Mnih, Larochelle and Hinton 2011): a step only where a better state is found.

    A stochastic search for a low free energy starts at the logistic-regression output
    ``sigma(U x + b)``. In each of its k sweeps the hidden units are drawn given the outputs, and
    the outputs take their most probable values given those: with outputs drawn too, the search
    would find nothing better than the labels as soon as there are many outputs. The best state
    on its way competes with the labels; rows whose labels win add nothing. The loss is
    ``max(0, F(v_data) - F(v_found))``.
    """

    is_loss = True

    def step(self, model, batch, epoch):
        energy = model.energy(batch.X)
        hidden = energy.hidden_given_visible(batch.visible)
        found = self._fantasy(energy, batch, hidden, epoch)
        better = energy.log_weight(found) > energy.log_weight(batch.visible)
        return self._contrast(model, energy, batch, hidden, found, batch.weight * better)

    def _fantasy(self, energy, batch, hidden, epoch):
        found = energy.visible_bias > 0
        best = energy.log_weight(found)
        hidden_on = energy.hidden_given_visible(expit(energy.visible_bias))
        first = epoch * self.n_gibbs_steps
        for step in range(first, first + self.n_gibbs_steps):
            u = uniforms(self.key, batch.index, step, energy.n_hidden)
            drawn = (u < hidden_on).astype(energy.dtype)
            visible = energy.visible_bias + drawn @ energy.weights.T > 0
            hidden_on = energy.hidden_given_visible(visible)
            score = energy.log_weight(visible)
            better = score > best
            best = np.where(better, score, best)
            found = np.where(better[:, None], visible, found)
        return found
