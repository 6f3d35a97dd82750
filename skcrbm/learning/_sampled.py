"""Negative phases of densities: moments of states that a sampler draws."""

import numpy as np

from skcrbm.inference import InferenceResult, infer
from skcrbm.inference.random_numbers import uniforms
from skcrbm.learning._phases import Phase, moments_of_all

#: Effective share of weighted states below which their weights are tempered.
LEAST_SHARE = 0.1
# Halvings of the interval of exponents, to some 1e-9.
_HALVINGS = 30


class Sampled(Phase):
    """Moments of `n_states` states of a sampler, drawn anew in each visit.

    A sampler with `prefers_warm_start` continues from the state of its last visit. Hidden units
    are at their means given the visible units, which have less variance than a draw.

    Parameters
    ----------
    sampler : InferenceMethod
        With an option `random_state`; it answers "samples" and, if they are weighted,
        "sample_log_prob".
    n_states : int
    weighted : bool, default=False
        Weight state s by ``exp(score(s) - log q(s))`` with q what it was drawn with,
        normalised: then any sampler gives consistent moments. Where few states carry the
        weights, so that the effective share ``1 / (n_states sum_s w_s^2)`` falls below
        `LEAST_SHARE`, the weights are raised to the largest power between 0 and 1 at which it
        does not. The share before that is in the moments.
    n_jobs : int or None
    """

    draws = True

    def __init__(self, sampler, n_states, weighted=False, n_jobs=None):
        self.sampler = sampler
        self.n_states = n_states
        self.weighted = weighted
        self.n_jobs = n_jobs

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` of the states, and the sampler's state."""
        seed = np.random.SeedSequence([int(clock.key), clock.step]).generate_state(1)[0]
        keeps_state = self.sampler.prefers_warm_start
        found = infer(
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
    """Normalised weights (S,) of an effective share of at least `least`.

    Parameters
    ----------
    log_weight : ndarray (S,)
        Not all -inf.
    least : float, default=LEAST_SHARE
        The weights are raised to the largest power in [0, 1] with at least this share; states of
        weight 0 keep it.

    Returns
    -------
    weight : ndarray (S,)
    share : float
        Effective share at power 1.
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
    """Moments of states with every variable drawn alone, from its approximate marginal.

    Parameters
    ----------
    inference : InferenceMethod
    n_states : int
    n_jobs : int or None
    """

    draws = True

    def __init__(self, inference, n_states, n_jobs=None):
        self.inference = inference
        self.n_states = n_states
        self.n_jobs = n_jobs

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` of the states; nothing is kept."""
        method = self.inference.at_epoch(clock.epoch)
        found = infer(energy, method, returns="marginals", n_jobs=self.n_jobs)
        streams = np.arange(self.n_states)
        u = uniforms(clock.key, streams, clock.draw(0), energy.n_visible)
        visible = u < found.marginals[:, : energy.n_visible]
        moments = moments_of_all(energy, visible, batch.weight.sum())
        return moments._replace(converged=found.converged), state
