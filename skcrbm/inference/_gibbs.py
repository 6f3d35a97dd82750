"""Block Gibbs sampling."""

from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.utils._param_validation import Interval

from skcrbm.energies import RBMEnergy
from skcrbm.energies._base import PINNED_OFF
from skcrbm.inference._base import InferenceMethod, add_pairwise, empty_result
from skcrbm.inference._random import uniforms
from skcrbm.utils._parallel import one_blas_thread, row_chunks
from skcrbm.utils._random import random_key

# Units of all chains of the models done together.
_BLOCK_UNITS = 2**18
# Spread of the chains' means, as a probability, that never counts as non-convergence.
_TOLERATED_SPREAD = 1e-3


class Chains(NamedTuple):
    """Where the chains of a sampler stand.

    Attributes
    ----------
    hidden : ndarray of bool (N, n_chains, H)
    key : uint64
    step : int
        Number of draws made; the next one continues the same random numbers.
    """

    hidden: np.ndarray
    key: Any
    step: int


class Sweep(NamedTuple):
    """States after a sweep and the probabilities they were drawn from, (N, C, V) and (N, C, H)."""

    visible: np.ndarray
    visible_log_odds: np.ndarray
    hidden: np.ndarray
    hidden_log_odds: np.ndarray


def gibbs_sweep(energy, hidden, key, streams, step):
    """Draw all visible units given the hidden ones, then all hidden ones.

    Parameters
    ----------
    energy : RBMEnergy
    hidden : ndarray (N, C, H), 0/1
    key : uint64
    streams : ndarray (C,) or (N * C,) of int
        Random numbers of each chain: the same for all models, or one per model and chain.
    step : int

    Returns
    -------
    Sweep
    """
    n, c, _ = hidden.shape
    n_visible, dtype = energy.n_visible, energy.dtype
    u = uniforms(key, streams, step, energy.n_variables)
    u = u.reshape(len(streams) // c, c, energy.n_variables)  # one row, or one per model
    flat = hidden.reshape(n * c, energy.n_hidden).astype(dtype, copy=False)
    theta_v = energy.visible_bias[:, None, :] + (flat @ energy.weights.T).reshape(n, c, n_visible)
    visible = u[..., :n_visible] < expit(theta_v)
    flat = visible.reshape(n * c, n_visible).astype(dtype)
    theta_h = energy.hidden_bias[:, None, :] + (flat @ energy.weights).reshape(
        n, c, energy.n_hidden
    )
    return Sweep(visible, theta_v, u[..., n_visible:] < expit(theta_h), theta_h)


def start_chains(energy, n_chains, key, streams, probability=0.5):
    """Hidden states (N, C, H), pinned units off; by coin flips chains start far apart."""
    u = uniforms(key, streams, 0, energy.n_hidden)
    u = u.reshape(len(streams) // n_chains, n_chains, energy.n_hidden)
    return (u < probability) & (energy.hidden_bias[:, None, :] > PINNED_OFF)


class Gibbs(InferenceMethod):
    """Marginals by block Gibbs sampling.

    Marginals are averages over sweeps and chains of the probabilities that the states were
    drawn from (Rao-Blackwellised), pairwise beliefs of ``v_i P(h_j = 1 | v)``; their error falls
    with the square root of the number of independent sweeps. All models of a batch use the
    same random numbers, so that an answer does not depend on the rest of the batch; the
    price is that errors are correlated between models.

    A model has converged if the split R-hat of every unit's probability, between and within
    the halves of the chains, is at most `max_rhat` (Gelman et al. 2013, section 11.4).

    Parameters
    ----------
    max_iter : int, default=500
        Sweeps that are kept, per chain.
    burn_in : int, default=100
        Sweeps dropped before; none when `init` continues earlier chains. The result of
        another method as `init` has no chains: they are then drawn from its marginals.
    n_chains : int, default=10
        Chains per model.
    max_rhat : float >= 1, default=1.1
    random_state : int, RandomState or None, default=None
        Not used when `init` continues earlier chains: they keep their random numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import Gibbs, infer
    >>> energy = RBMEnergy([[1.0], [-2.0]], [0.0, 0.0], [0.5])
    >>> sampled = infer(energy, Gibbs(random_state=0))
    >>> bool(np.abs(sampled.marginals - infer(energy, "exact").marginals).max() < 0.02)
    True
    """

    name: ClassVar = "gibbs"
    answers: ClassVar = frozenset({"marginals", "pairwise"})
    accepts: ClassVar = frozenset({"init"})
    solvers: ClassVar = {RBMEnergy: "_solve_rbm"}
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "burn_in": [Interval(Integral, 0, None, closed="left")],
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "max_rhat": [Interval(Real, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, max_iter=500, burn_in=100, n_chains=10, max_rhat=1.1, random_state=None):
        self.max_iter = max_iter
        self.burn_in = burn_in
        self.n_chains = n_chains
        self.max_rhat = max_rhat
        self.random_state = random_state

    def _solve_rbm(self, energy, query):
        n, n_chains = energy.n_models, self.n_chains
        fields = empty_result(energy, query)
        before = beliefs = None
        if query.start is not None:
            before = query.start.state
            beliefs = expit(query.start.log_odds[:, energy.n_visible :])
        if before is None:
            key, step, burn_in = random_key(self.random_state), 0, self.burn_in
        else:
            if np.shape(before.hidden) != (n, n_chains, energy.n_hidden):
                raise ValueError(
                    f"init must hold {n_chains} chains for each of {n} models, "
                    f"got chains of shape {np.shape(before.hidden)}"
                )
            key, step, burn_in = before.key, before.step, 0
        hidden = np.empty((n, n_chains, energy.n_hidden), bool)
        weight = np.ones(n) if query.pairwise == "per_example" else query.sample_weight
        fields["state"] = Chains(hidden, key, step + burn_in + self.max_iter + (before is None))
        fields["n_iter"][:] = burn_in + self.max_iter

        def run(rows, pairwise):
            part = energy.rows(rows)
            streams = np.arange(n_chains)
            if before is None:
                chance = 0.5 if beliefs is None else beliefs[rows, None]
                state, first = start_chains(part, n_chains, key, streams, chance), 1
            else:
                state, first = before.hidden[rows] & (part.hidden_bias[:, None] > PINNED_OFF), step
            for t in range(first, first + burn_in):
                state = gibbs_sweep(part, state, key, streams, t).hidden
            moments = _Moments(part, n_chains, self.max_iter, weight[rows], pairwise)
            for t in range(first + burn_in, first + burn_in + self.max_iter):
                sweep = gibbs_sweep(part, state, key, streams, t)
                state = sweep.hidden
                moments.add(sweep)
            hidden[rows] = state
            fields["log_odds"][rows] = moments.log_odds()
            fields["converged"][rows] = moments.converged(self.max_rhat)

        size = max(1, _BLOCK_UNITS // max(1, n_chains * energy.n_variables))
        with one_blas_thread():
            add_pairwise(run, row_chunks(n, size), query, fields.get("pairwise"))
        return fields


class _Moments:
    """Sums over the kept sweeps of a block of models.

    ``on`` and ``off`` (2, N, C, V + H) add up P(unit = 1) and P(unit = 0) over each half of
    the sweeps, ``squares`` the squares of the former.
    """

    def __init__(self, energy, n_chains, n_sweeps, weight, pairwise):
        shape = (2, energy.n_models, n_chains, energy.n_variables)
        self.on, self.off, self.squares = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self.half = n_sweeps // 2
        self.n_sweeps, self.n_chains = n_sweeps, n_chains
        self.scale = (weight / (n_sweeps * n_chains)).astype(energy.dtype)
        self.pairwise = pairwise
        self.done = 0

    def add(self, sweep):
        theta = np.concatenate([sweep.visible_log_odds, sweep.hidden_log_odds], axis=2)
        on = expit(theta)
        part = 0 if self.done < self.half else 1
        self.on[part] += on
        self.off[part] += expit(-theta)
        self.squares[part] += np.square(on, dtype=np.float64)
        self.done += 1
        if self.pairwise.size:
            v = sweep.visible * self.scale[:, None, None]
            h = expit(sweep.hidden_log_odds)
            self.pairwise += v.reshape(-1, v.shape[2]).T @ h.reshape(-1, h.shape[2])

    def log_odds(self):
        tiny = np.finfo(np.float64).tiny
        on, off = self.on.sum((0, 2)), self.off.sum((0, 2))
        return np.log(np.maximum(on, tiny)) - np.log(np.maximum(off, tiny))

    def converged(self, max_rhat):
        if self.half < 2:  # nothing to compare
            return np.zeros(self.on.shape[1], bool)
        lengths = np.array([self.half, self.n_sweeps - self.half])[:, None, None, None]
        means = self.on / lengths
        within = (self.squares / lengths - means**2).clip(0).mean((0, 2))
        between = means.var((0, 2), ddof=1)
        # R-hat^2 = (within + between) / within, up to a factor near 1
        excess = between - _TOLERATED_SPREAD**2
        return (excess <= (max_rhat**2 - 1) * within).all(1)
