"""Phases: the moments whose difference is the gradient of a learning rule."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import expit

from skcrbm.inference import infer
from skcrbm.inference.any_energy.gibbs import gibbs_sweep
from skcrbm.inference.any_energy.perturb_and_max_product import perturbed_states
from skcrbm.inference.random_numbers import uniforms

# What inference is asked for: the moments, and the loss.
_MOMENTS = ("marginals", "statistics", "log_partition")


class Moments(NamedTuple):
    """Moments of one phase of a batch of N rows.

    Attributes
    ----------
    unary : ndarray (M, n_variables)
        Means of the variables; M is N, or 1 where one model stands for all rows.
    statistics : tuple of ndarray or None
        Sufficient statistics of the couplings, summed over the rows times their weights. None:
        the variables of a row are independent with the means `unary`, as those of a state.
    log_weight : ndarray (M,), float64
        The phase's part of the loss: its log-partition function, or a state's log-weight.
    converged : ndarray (M,) of bool
    effective_share : float or None
        Of weighted states, see `Step`.
    """

    unary: np.ndarray
    statistics: tuple | None
    log_weight: np.ndarray
    converged: np.ndarray
    effective_share: float | None = None


class Phase(ABC):
    """One phase of a learning rule: options only, as the rules."""

    #: Whether random numbers are drawn. Only one phase of a rule may do so.
    draws = False
    #: Whether the state belongs to the training rows, by `Batch.index`.
    keeps_chains = False

    def start(self, n_rows):
        """Return the state before the first batch of `n_rows` rows; None if nothing is kept."""
        return None

    @abstractmethod
    def __call__(self, energy, batch, clock, state, positive=None):
        """Compute the moments of a batch.

        Parameters
        ----------
        energy : BaseEnergy
            One model per row, or a single one for all rows.
        batch : Batch
        clock : Clock
        state : object
            Of `start` or of the last call. Its arrays may be changed in place.
        positive : Moments or None
            Of the positive phase, for a negative one: where chains may begin.

        Returns
        -------
        moments : Moments
        state : object
        """


def one_model_per_row(energy, n_rows):
    """Return N models, copies where a single one stands for all rows."""
    return energy if energy.n_models == n_rows else energy.rows(np.zeros(n_rows, int))


def clamp_visible(visible, n_hidden):
    """Clamp (N, V + H) that fixes the observed outputs and leaves the hidden units free."""
    return np.hstack([visible, np.full((len(visible), n_hidden), np.nan)])


def moments_of_states(energy, visible, hidden="marginal", converged=None):
    """`Moments` of visible states (N, V), the hidden units in their conditional mean or mode."""
    visible = visible.astype(energy.dtype, copy=False)
    means, log_weight = energy.hidden_and_log_weight(visible, hidden)
    return Moments(
        np.concatenate([visible, means], axis=1),
        None,
        log_weight,
        np.ones(len(visible), bool) if converged is None else converged,
    )


def moments_of_all(energy, visible, total, weight=None):
    """`Moments` with one row, of states (S, V) of a model that all rows share.

    Parameters
    ----------
    energy : BaseEnergy
        A single model.
    visible : ndarray (S, V)
    total : float
        Weight of the rows that the states stand for.
    weight : ndarray (S,), default=None
        Shares of the states, which add up to 1; None: equal ones.
    """
    n_states = len(visible)
    weight = np.full(n_states, 1 / n_states) if weight is None else weight
    energy = one_model_per_row(energy, n_states)
    found = moments_of_states(energy, visible)
    return Moments(
        (weight @ found.unary)[None].astype(energy.dtype),
        energy.sum_statistics(found.unary, weight * total),
        np.array([weight @ found.log_weight]),
        np.ones(1, bool),
    )


class Observed(Phase):
    """Positive phase: moments given the observed outputs.

    Complete rows have a formula. Outputs that are not observed are marginalised by inference
    with the others clamped.

    Parameters
    ----------
    inference : InferenceMethod
    n_jobs : int or None
    """

    def __init__(self, inference, n_jobs=None):
        self.inference = inference
        self.n_jobs = n_jobs

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` given the observed outputs; nothing is kept."""
        energy = one_model_per_row(energy, len(batch))
        missing = np.isnan(batch.visible)
        if not missing.any():
            return moments_of_states(energy, batch.visible), state
        found = moments_of_states(energy, np.nan_to_num(batch.visible))
        partly = missing.any(axis=1)
        rows = np.flatnonzero(partly)
        inferred = infer(
            energy.rows(rows),
            self.inference.at_epoch(clock.epoch),
            clamp=clamp_visible(batch.visible[rows], energy.n_hidden),
            returns=_MOMENTS,
            sample_weight=batch.weight[rows],
            n_jobs=self.n_jobs,
        )
        complete = energy.sum_statistics(found.unary, batch.weight * ~partly)
        found.unary[rows] = inferred.marginals
        found.log_weight[rows] = inferred.log_partition
        found.converged[rows] = inferred.converged
        statistics = tuple(a + b for a, b in zip(complete, inferred.statistics, strict=True))
        return found._replace(statistics=statistics), state


class Expected(Phase):
    """Negative phase of maximum likelihood: moments of the model, by inference.

    A single model that stands for all rows is inferred once.

    Parameters
    ----------
    inference : InferenceMethod
    n_jobs : int or None
    """

    def __init__(self, inference, n_jobs=None):
        self.inference = inference
        self.n_jobs = n_jobs

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the model's `Moments`; nothing is kept."""
        weight = batch.weight
        if energy.n_models != len(batch):
            weight = np.array([weight.sum()])
        found = infer(
            energy,
            self.inference.at_epoch(clock.epoch),
            returns=_MOMENTS,
            sample_weight=weight,
            n_jobs=self.n_jobs,
        )
        moments = Moments(found.marginals, found.statistics, found.log_partition, found.converged)
        return moments, state


class ObservedOnce(Observed):
    """The same, of models that all rows share: what is known of the data is worked out once.

    The moments of complete rows do not depend on the parameters of a model without hidden
    units, nor do the rows of a full batch change.
    """

    def __init__(self, inference, n_jobs=None):
        super().__init__(inference, n_jobs)
        self._known = WeakKeyDictionary()

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` given the data; nothing is kept."""
        if energy.n_hidden or np.isnan(batch.visible).any():
            return super().__call__(energy, batch, clock, state)
        if batch not in self._known:
            weight = batch.weight
            mean = (weight @ batch.visible / weight.sum())[None].astype(energy.dtype)
            self._known[batch] = mean, energy.sum_statistics(batch.visible, weight)
        mean, statistics = self._known[batch]
        total = batch.weight.sum()
        score = energy.expected_score(mean[0], [part / total for part in statistics])
        return Moments(mean, statistics, np.array([score]), np.ones(1, bool)), state


class ChainStates(NamedTuple):
    """Where persistent chains stand.

    Attributes
    ----------
    states : ndarray of bool (n_chains, n_variables) or None
        None before the first visit.
    visited : ndarray of bool (n_chains,)
        Whether a chain has begun.
    """

    states: Any
    visited: np.ndarray


class Chains(Phase):
    """Negative phase of contrastive divergence: where short Gibbs chains end.

    A chain ends with a draw of the visible units; the moments of the hidden ones are their
    means given these, which have less variance than a draw.

    Parameters
    ----------
    n_steps : int
        Sweeps per visit.
    start : {"data", "persistent"}
        At the row's outputs in each visit, or where the last visit ended.
    n_chains : int, default=None
        Chains that all rows share, of a model that does not depend on x; they begin at rows
        drawn by their weights, with coin flips for what is not observed, or persistent ones at
        coin flips. None: one chain a row, which begins at the row's outputs and is known by
        `Batch.index`.
    """

    draws = True

    def __init__(self, n_steps, start="data", n_chains=None):
        self.n_steps = n_steps
        self.begin = start
        self.n_chains = n_chains
        self.keeps_chains = start == "persistent" and n_chains is None

    def start(self, n_rows):
        """Return chains that have not begun; None where each visit begins at the data."""
        if self.begin == "data":
            return None
        return ChainStates(None, np.zeros(self.n_chains or n_rows, bool))

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` at the end of the chains, and the chains."""
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
            goes_on = state.visited[batch.index]
            states[goes_on] = chains[batch.index[goes_on]]
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
        n_chains, n = self.n_chains, energy.n_variables
        states, streams = None if state is None else state.states, np.arange(n_chains)
        if states is None:
            states = uniforms(clock.key, streams, clock.draw(0), n) < 0.5
        if self.begin == "data":
            states = self._at_rows(energy, batch, clock, states)
        states = self._sweep(energy, states[None], streams, clock)[0]
        moments = moments_of_all(energy, states[:, : energy.n_visible], batch.weight.sum())
        if state is not None:
            state = ChainStates(states, np.ones(n_chains, bool))
        return moments, state

    def _at_rows(self, energy, batch, clock, states):
        """States (n_chains, n) at rows of the data; hidden units as the rows have them."""
        v, streams = energy.n_visible, np.arange(len(states))
        draw = clock.draw(self.n_steps + 1)
        u = uniforms(clock.key, streams, draw, 1 + energy.n_hidden)
        reach = np.cumsum(batch.weight)
        row = np.searchsorted(reach, u[:, 0] * reach[-1], side="right")
        rows = batch.visible[np.minimum(row, len(reach) - 1)]
        states[:, :v] = np.where(np.isnan(rows), states[:, :v], rows == 1)
        hidden = one_model_per_row(energy, len(states)).hidden_given_visible(states[:, :v])
        states[:, v:] = u[:, 1:] < hidden
        return states

    def _sweep(self, energy, states, streams, clock):
        """Return states (N, C, n_variables) after `n_steps` sweeps."""
        for number in range(1, self.n_steps + 1):
            draw = clock.draw(number)
            states, _ = gibbs_sweep(energy, states, clock.key, streams, draw)
        return states


class PerturbedMaxima(Phase):
    """Negative phase of learning by perturbed maxima: one state of each row's model.

    The state is the approximate maximum of the energy with logistic noise on all fields, new in
    each visit; the hidden units are then at their means given its visible part.

    Parameters
    ----------
    n_steps : int
        Sweeps of max-product.
    """

    draws = True

    def __init__(self, n_steps):
        self.n_steps = n_steps

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` of the states; nothing is kept."""
        energy = one_model_per_row(energy, len(batch))
        states = perturbed_states(energy, clock.key, batch.index, clock.draw(0), self.n_steps)
        return moments_of_states(energy, states[:, : energy.n_visible]), state


class LocalSearch(Phase):
    """Negative phase of CD-PercLoss: the best visible state that a stochastic search finds.

    The search starts at the outputs of logistic regression, those of the fields alone. In each
    sweep the hidden units are drawn given the outputs, and the outputs take their conditional
    mode given those: with outputs drawn too, the search would find nothing better than the
    labels as soon as there are many outputs.

    It is for energies whose visible variables are one of `sampling_blocks`.

    Parameters
    ----------
    n_steps : int
    """

    draws = True

    def __init__(self, n_steps):
        self.n_steps = n_steps

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` of the best state; nothing is kept."""
        energy = one_model_per_row(energy, len(batch))
        block = slice(0, energy.n_visible)
        states = np.zeros((len(batch), 1, energy.n_variables), energy.dtype)
        fields = energy.conditional_log_odds(states, block)[:, 0]
        found = fields > 0
        best = energy.log_weight(found)
        hidden_on = energy.hidden_given_visible(expit(fields))
        for sweep in range(self.n_steps):
            u = uniforms(clock.key, batch.index, clock.draw(sweep), energy.n_hidden)
            states[:, 0, energy.n_visible :] = u < hidden_on
            visible = energy.conditional_log_odds(states, block)[:, 0] > 0
            hidden_on = energy.hidden_given_visible(visible)
            score = energy.log_weight(visible)
            better = score > best
            best = np.where(better, score, best)
            found = np.where(better[:, None], visible, found)
        return moments_of_states(energy, found), state
