"""Compute the moments of two phases, whose difference is the gradient of a learning rule.

The positive phase computes moments given the data, and the negative phase computes moments of the
model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import expit

from skcrbm.energies.states import (
    independent_states,
    is_categorical,
    means_of_states,
    unchecked,
)
from skcrbm.inference import InferenceResult
from skcrbm.inference.any_energy.gibbs import gibbs_sweep
from skcrbm.inference.any_energy.perturb_and_max_product import perturbed_states
from skcrbm.inference.random_numbers import uniforms
from skcrbm.inference.running import run_inference

# Results that a phase requests from `infer`: the moments, and log Z for the loss.
MOMENTS = ("marginals", "statistics", "log_partition")
#: Smallest effective share of weighted states that `Sampled` accepts. If the share is smaller,
#: `tempered_weights` makes the weights more equal.
LEAST_SHARE = 0.1
# Number of bisections with which `tempered_weights` finds the power. The error of the power is then
# about 1e-9.
_HALVINGS = 30


class Moments(NamedTuple):
    """Moments that one phase has computed for a batch of N rows."""

    # Means (M, n_variables) of the variables. M is N, or 1 if all rows share a single model.
    unary: np.ndarray
    # Sufficient statistics of the couplings, as weighted sums over the rows. None if they follow
    # from `unary`, because the variables of a row are independent, or the phase gives one fixed
    # state per row.
    statistics: tuple | None
    # Contribution (M,) to the loss, in float64: log Z, or the log-weight of a state.
    log_weight: np.ndarray
    converged: np.ndarray  # (M,) of bool: True if inference converged
    # see `Step.effective_share`; None if the phase draws no states with importance weights
    effective_share: float | None = None


class Phase(ABC):
    """Base class of the phases of an objective.

    A phase stores only options. Data that is kept between batches is in a `state`, see `Objective`.
    """

    #: True if the phase draws random numbers. At most one phase of an objective may draw.
    draws = False
    #: True if the state has an entry for each training row, at the position in `Batch.index`.
    keeps_chains = False

    def start(self, n_rows):
        """Return the state for the first batch of a fit to `n_rows` rows, or None for no state."""
        return None

    @abstractmethod
    def __call__(self, energy, batch, clock, state, positive=None) -> tuple[Moments, Any]:
        """Return the `Moments` of a batch and the new state.

        `energy` has one model per row or a single model for all rows. The arrays of `state` may be
        changed in place. A negative phase also gets `positive`, the moments of the positive phase,
        because Markov chains may begin at the data.
        """


def one_model_per_row(energy, n_rows):
    """Return the energy with one model per row; a model shared by all rows is repeated."""
    return energy if energy.n_models == n_rows else energy.rows(np.zeros(n_rows, int))


def clamp_visible(visible, n_hidden):
    """Return the argument `clamp` (N, V + H) of `infer`, which fixes the observed outputs.

    Missing outputs and hidden units are NaN and stay free.
    """
    return np.hstack([visible, np.full((len(visible), n_hidden), np.nan)])


def moments_of_states(energy, visible, hidden="marginal", converged=None):
    """Return the `Moments` of visible states (N, V).

    If `hidden` is "marginal", the hidden units are set to their means given the visible units; if
    it is "max", to their most probable values.
    """
    visible = visible.astype(energy.dtype, copy=False)
    means, log_weight = unchecked(energy.hidden_and_log_weight)(visible, hidden)
    return Moments(
        means_of_states(energy, np.concatenate([visible, means], axis=1)),
        None,
        log_weight,
        np.ones(len(visible), bool) if converged is None else converged,
    )


def weighted_total(unary, weight):
    """Return the weighted sum (1, ...) of the moments of rows (N, ...)."""
    return (weight @ unary.reshape(len(unary), -1)).reshape(1, *unary.shape[1:])


def moments_of_all(energy, visible, total, weight=None):
    """Return the `Moments` of a model that all rows share, averaged over S visible states.

    `visible` (S, V) holds the states of the V visible units. `weight` (S,) holds the weights of the
    states, which add up to 1; by default all states have the same weight. `total` is the sum of the
    weights of the rows. The result has a single row.
    """
    n_states = len(visible)
    weight = np.full(n_states, 1 / n_states) if weight is None else weight
    energy = one_model_per_row(energy, n_states)
    found = moments_of_states(energy, visible)
    return Moments(
        weighted_total(found.unary, weight).astype(energy.dtype),
        unchecked(energy.sum_statistics)(found.unary, weight * total),
        np.array([weight @ found.log_weight]),
        np.ones(1, bool),
    )


class Observed(Phase):
    """Positive phase: moments given the observed outputs.

    The moments of complete rows are computed by a formula. For rows with missing outputs, inference
    sums over the missing outputs while the observed outputs are clamped.
    """

    def __init__(self, inference, n_jobs=None):
        self.inference = inference
        self.n_jobs = n_jobs

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` given the observed outputs, and the unchanged `state`."""
        energy = one_model_per_row(energy, len(batch))
        missing = np.isnan(batch.visible)
        if not missing.any():
            return moments_of_states(energy, batch.visible), state
        found = moments_of_states(energy, np.nan_to_num(batch.visible))
        partly = missing.any(axis=1)
        rows = np.flatnonzero(partly)
        inferred = run_inference(
            energy.rows(rows),
            self.inference.at_epoch(clock.epoch),
            clamp=clamp_visible(batch.visible[rows], energy.n_hidden),
            returns=MOMENTS,
            sample_weight=batch.weight[rows],
            n_jobs=self.n_jobs,
        )
        complete = unchecked(energy.sum_statistics)(found.unary, batch.weight * ~partly)
        found.unary[rows] = inferred.marginals
        found.log_weight[rows] = inferred.log_partition
        found.converged[rows] = inferred.converged
        statistics = tuple(a + b for a, b in zip(complete, inferred.statistics, strict=True))
        return found._replace(statistics=statistics), state


class Expected(Phase):
    """Negative phase of maximum likelihood: inference computes the moments of the model.

    If all rows share a single model, inference runs only once per batch.
    """

    def __init__(self, inference, n_jobs=None):
        self.inference = inference
        self.n_jobs = n_jobs

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` of the model, and the unchanged `state`."""
        weight = batch.weight
        if energy.n_models != len(batch):
            weight = np.array([weight.sum()])
        found = run_inference(
            energy,
            self.inference.at_epoch(clock.epoch),
            returns=MOMENTS,
            sample_weight=weight,
            n_jobs=self.n_jobs,
        )
        moments = Moments(found.marginals, found.statistics, found.log_partition, found.converged)
        return moments, state


class ObservedOnce(Observed):
    """Positive phase of a model that all rows share, with a cache for the moments of the data.

    If the model has no hidden units, the moments of complete rows do not depend on the parameters.
    So the moments are computed once for each batch and then taken from the cache.
    """

    def __init__(self, inference, n_jobs=None):
        super().__init__(inference, n_jobs)
        self._cached = WeakKeyDictionary()

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` given the data, and the unchanged `state`."""
        if energy.n_hidden or np.isnan(batch.visible).any():
            return super().__call__(energy, batch, clock, state)
        if batch not in self._cached:
            weight = batch.weight
            means = batch.visible
            if is_categorical(energy):
                means = means_of_states(energy, means)
            mean = (weighted_total(means, weight) / weight.sum()).astype(energy.dtype)
            self._cached[batch] = mean, unchecked(energy.sum_statistics)(batch.visible, weight)
        mean, statistics = self._cached[batch]
        total = batch.weight.sum()
        score = energy.expected_score(mean[0], [part / total for part in statistics])
        return Moments(mean, statistics, np.array([score]), np.ones(1, bool)), state


class ChainStates(NamedTuple):
    """States of persistent chains."""

    states: Any  # ndarray (n_chains, n_variables), see `chain_dtype`; None before the first step
    visited: np.ndarray  # (n_chains,) of bool: True if `states` has a state of the chain


class Chains(Phase):
    """Negative phase of contrastive divergence: the final states of short Gibbs chains.

    For each batch, the chains make `n_steps` sweeps. If `start` is "data", the sweeps begin at the
    data; if `start` is "persistent", they continue from the states after the previous sweeps.
    The moments of the hidden units are their means given the final visible units, because means
    have a lower variance than drawn states.

    If `n_chains` is None, each row has its own chain, which first begins at the outputs of the row.
    If `n_chains` is a number, all rows share this number of chains, and the model must not depend
    on x. Persistent shared chains first begin at random states. Shared chains that are not
    persistent begin at rows drawn in proportion to their weights; missing entries get random
    values.
    """

    draws = True

    def __init__(self, n_steps: int, start: str = "data", n_chains: int | None = None):
        self.n_steps = n_steps
        self.begin = start
        self.n_chains = n_chains
        self.keeps_chains = start == "persistent" and n_chains is None

    def start(self, n_rows):
        """Return empty `ChainStates`, or None if the chains begin at the data in each step."""
        if self.begin == "data":
            return None
        return ChainStates(None, np.zeros(self.n_chains or n_rows, bool))

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` of the final states, and the `ChainStates`."""
        if self.n_chains is None:
            return self._chain_per_row(energy, batch, clock, state, positive)
        return self._shared_chains(energy, batch, clock, state)

    def _chain_per_row(self, energy, batch, clock, state, positive):
        energy = one_model_per_row(energy, len(batch))
        v = energy.n_visible
        states = np.empty((len(batch), energy.n_variables), bool)
        states[:, :v] = batch.visible
        if positive is None:
            positive = moments_of_states(energy, batch.visible)
        u = uniforms(clock.key, batch.index, clock.draw(0), energy.n_hidden)
        states[:, v:] = u < positive.unary[:, v:]
        if state is not None:
            chains = state.states
            if chains is None:
                chains = np.zeros((len(state.visited), energy.n_variables), bool)
                state = state._replace(states=chains)
            begun = state.visited[batch.index]
            states[begun] = chains[batch.index[begun]]
        states = self._sweep(energy, states[:, None, :], batch.index, clock)[:, 0]
        if state is not None:
            state.states[batch.index] = states
            state.visited[batch.index] = True
        return moments_of_states(energy, states[:, :v]), state

    def _shared_chains(self, energy, batch, clock, state):
        if energy.n_models != 1:
            raise ValueError(
                "chains can be shared by all rows only if the model does not depend on x"
            )
        assert self.n_chains is not None
        n_chains, n = self.n_chains, energy.n_variables
        states, streams = None if state is None else state.states, np.arange(n_chains)
        if states is None:
            u = uniforms(clock.key, streams, clock.draw(0), n)
            states = independent_states(energy, u[None])[0]
        if self.begin == "data":
            states = self._at_rows(energy, batch, clock, states)
        states = self._sweep(energy, states[None], streams, clock)[0]
        moments = moments_of_all(energy, states[:, : energy.n_visible], batch.weight.sum())
        if state is not None:
            state = ChainStates(states, np.ones(n_chains, bool))
        return moments, state

    def _at_rows(self, energy, batch, clock, states):
        """Return `states` (n_chains, n) with the visible units replaced by randomly drawn rows.

        Missing entries of a row keep their values in `states`. The hidden units are drawn given the
        visible units.
        """
        v, streams = energy.n_visible, np.arange(len(states))
        draw = clock.draw(self.n_steps + 1)
        u = uniforms(clock.key, streams, draw, 1 + energy.n_hidden)
        reach = np.cumsum(batch.weight)
        row = np.searchsorted(reach, u[:, 0] * reach[-1], side="right")
        rows = batch.visible[np.minimum(row, len(reach) - 1)]
        known = np.nan_to_num(rows).astype(states.dtype)
        states[:, :v] = np.where(np.isnan(rows), states[:, :v], known)
        part = one_model_per_row(energy, len(states))
        hidden = unchecked(part.hidden_given_visible)(states[:, :v])
        states[:, v:] = u[:, 1:] < hidden
        return states

    def _sweep(self, energy, states, streams, clock):
        """Return the states (N, C, n_variables) of C chains per model after `n_steps` sweeps."""
        for number in range(1, self.n_steps + 1):
            draw = clock.draw(number)
            states, _ = gibbs_sweep(energy, states, clock.key, streams, draw)
        return states


class PerturbedMaxima(Phase):
    """Negative phase of learning by perturbed maxima: one state for each row.

    Each step adds new logistic noise to all fields of the row's model. Then max-product looks for
    the state with the highest score, in `n_steps` sweeps. The moments of the hidden units are their
    means given the visible units of the state found.
    """

    draws = True

    def __init__(self, n_steps: int):
        self.n_steps = n_steps

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` of the maxima, and the unchanged `state`."""
        energy = one_model_per_row(energy, len(batch))
        states = perturbed_states(energy, clock.key, batch.index, clock.draw(0), self.n_steps)
        return moments_of_states(energy, states[:, : energy.n_visible]), state


class LocalSearch(Phase):
    """Negative phase of CD-PercLoss: the best visible state that a stochastic search finds.

    The search starts at the outputs that a logistic regression would predict: the most probable
    outputs given their fields without the hidden units. Each of `n_steps` sweeps draws the hidden
    units given the outputs, and then sets the outputs to their most probable values given the
    hidden units. The outputs are not drawn at random, because a search with random values of many
    outputs would find no better state than the labels of the row.

    The visible variables must be independent given the hidden variables, as in an RBM.
    """

    draws = True

    def __init__(self, n_steps: int):
        self.n_steps = n_steps

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` of the best visible state found, and the unchanged `state`."""
        energy = one_model_per_row(energy, len(batch))
        block = slice(0, energy.n_visible)
        states = np.zeros((len(batch), 1, energy.n_variables), energy.dtype)
        fields = unchecked(energy.conditional_log_odds)(states, block)[:, 0]
        found = fields > 0
        best = unchecked(energy.log_weight)(found)
        hidden_on = unchecked(energy.hidden_given_visible)(expit(fields))
        for sweep in range(self.n_steps):
            u = uniforms(clock.key, batch.index, clock.draw(sweep), energy.n_hidden)
            states[:, 0, energy.n_visible :] = u < hidden_on
            visible = unchecked(energy.conditional_log_odds)(states, block)[:, 0] > 0
            hidden_on = unchecked(energy.hidden_given_visible)(visible)
            score = unchecked(energy.log_weight)(visible)
            better = score > best
            best = np.where(better, score, best)
            found = np.where(better[:, None], visible, found)
        return moments_of_states(energy, found), state


class Sampled(Phase):
    """Negative phase of densities: moments of `n_states` states that a sampler draws in each step.

    `sampler` is an inference method that has an option `random_state` and can return "samples" (and
    "sample_log_prob" if `weighted`). A sampler with `prefers_warm_start` continues from its state
    in the previous step. The moments of the hidden units are their means given the visible units,
    because means have a lower variance than drawn states.

    If `weighted` is True, a state s drawn from the distribution q gets the importance weight
    ``exp(score(s) - log q(s))``. The moments are then consistent for any sampler. The weights w are
    normalised to a sum of 1. If the effective share ``1 / (n_states sum_s w_s^2)`` of the weights
    is below `LEAST_SHARE`, `tempered_weights` makes the weights more equal. The moments report the
    share before tempering.
    """

    draws = True

    def __init__(self, sampler, n_states, weighted=False, n_jobs=None):
        self.sampler = sampler
        self.n_states = n_states
        self.weighted = weighted
        self.n_jobs = n_jobs

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` of the drawn states, and the state of the sampler."""
        seed = np.random.SeedSequence([int(clock.key), clock.step]).generate_state(1)[0]
        keeps_state = self.sampler.prefers_warm_start
        found = run_inference(
            energy,
            self.sampler,
            returns=("samples", "sample_log_prob") if self.weighted else ("samples",),
            n_samples=self.n_states,
            init=None if state is None else InferenceResult(state=state),
            return_state=keeps_state,
            random_state=int(seed),
            n_jobs=self.n_jobs,
        )
        states, total = found.samples[0], batch.weight.sum()
        visible = states[:, : energy.n_visible]
        state = found.state if keeps_state else None
        if not self.weighted:
            return moments_of_all(energy, visible, total), state
        copies = energy.rows(np.zeros(self.n_states, int))
        excess = copies.score(states) - found.sample_log_prob[0]
        weight, share = tempered_weights(excess)
        moments = moments_of_all(energy, visible, total, weight)
        log_z = excess.max() + np.log(np.mean(np.exp(excess - excess.max())))
        return moments._replace(log_weight=np.array([log_z]), effective_share=share), state


def tempered_weights(log_weight, least=LEAST_SHARE):
    """Return normalised weights (S,) with an effective share of at least `least`.

    The weights ``exp(log_weight)`` are raised to the largest power in [0, 1] at which the effective
    share is at least `least`. States of weight 0 (log-weight -inf) keep weight 0. The second result
    is the effective share of the weights without tempering (power 1). At least one entry of
    `log_weight` must be larger than -inf.
    """
    log_weight = log_weight - log_weight.max()
    n_states, possible = len(log_weight), log_weight > -np.inf

    def at(power):
        weight = np.zeros(n_states)
        weight[possible] = np.exp(power * log_weight[possible])
        weight /= weight.sum()
        return weight, float(1 / (n_states * (weight @ weight)))

    weight, share = at(1.0)
    if share >= least:
        return weight, share
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if at(middle)[1] >= least:
            low = middle
        else:
            high = middle
    return at(low)[0], share


class Independent(Phase):
    """Negative phase of densities: draws all variables independently from approximate marginals."""

    draws = True

    def __init__(self, inference, n_states, n_jobs=None):
        self.inference = inference
        self.n_states = n_states
        self.n_jobs = n_jobs

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` of the drawn states, and the unchanged `state`."""
        method = self.inference.at_epoch(clock.epoch)
        found = run_inference(energy, method, returns="marginals", n_jobs=self.n_jobs)
        streams = np.arange(self.n_states)
        u = uniforms(clock.key, streams, clock.draw(0), energy.n_visible)
        beliefs = found.marginals[:, : energy.n_visible]
        visible = independent_states(energy, u[None], beliefs)[0]
        moments = moments_of_all(energy, visible, batch.weight.sum())
        return moments._replace(converged=found.converged), state
