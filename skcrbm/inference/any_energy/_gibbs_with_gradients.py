"""Gibbs with gradients on any energy of independent visible variables, by `visible_log_odds`."""

import numpy as np
from scipy.special import logsumexp

from skcrbm.energies import SparseIsingEnergy
from skcrbm.inference.any_energy.gibbs import solve_by_sweeps
from skcrbm.inference.random_numbers import uniforms
from skcrbm.kernels.ising_gradients import ising_gradients
from skcrbm.utils.validation import kernel_array

# A flip that leads out of what cannot be, or into it, counts as this much for or against it.
_IMPOSSIBLE = 1e6


def solve(method, energy, query):
    """Answer as "gibbs" does, by other sweeps; see `GibbsWithGradients`."""
    return solve_by_sweeps(method, energy, query, gradient_sweep)


def solve_ising(method, energy, query):
    """Answer the same of Ising models, with a kernel that follows the flips."""
    return solve_by_sweeps(method, energy, query, ising_gradient_sweep)


def gradient_sweep(energy, states, key, streams, step):
    """Propose as many flips as there are visible variables, then draw the hidden ones.

    Parameters and returns as of `gibbs_sweep`: log_odds are those of each visible variable given
    all other visible ones, in the end, and of the hidden ones given the visible.
    """
    n, c, width = states.shape
    n_visible = energy.n_visible
    models = energy.rows(np.repeat(np.arange(n), c))
    u = _uniforms(energy, states, key, streams, step)
    free = models.free[:, :n_visible]
    visible = states.reshape(n * c, width)[:, :n_visible].astype(bool)
    log_odds = models.visible_log_odds(visible)
    logits = _logits(visible, log_odds, free)
    rows = np.flatnonzero(free.any(axis=1))
    everyone = np.arange(n * c)
    for k in range(n_visible if len(rows) else 0):
        total = logsumexp(logits, axis=1, keepdims=True)
        mass = np.cumsum(np.exp(logits - np.where(np.isfinite(total), total, 0.0)), axis=1)
        chosen = (mass < u[:, 2 * k, None] * mass[:, -1:]).sum(axis=1).clip(0, n_visible - 1)
        other = visible.copy()
        other[everyone, chosen] ^= True
        other_log_odds = models.visible_log_odds(other)
        other_logits = _logits(other, other_log_odds, free)
        # q(x | x') p(x') / (q(x' | x) p(x)) of a flip is the ratio of the sums of weights.
        gain = np.zeros(n * c)
        other_total = logsumexp(other_logits[rows], axis=1)
        gain[rows] = total[rows, 0] - other_total
        accept = free[everyone, chosen] & (np.log(u[:, 2 * k + 1]) < gain)
        visible[accept] = other[accept]
        log_odds[accept], logits[accept] = other_log_odds[accept], other_logits[accept]
    out = np.zeros((n, c, width), bool)
    found = np.empty((n, c, width), energy.dtype)
    out[..., :n_visible] = visible.reshape(n, c, n_visible)
    found[..., :n_visible] = log_odds.reshape(n, c, n_visible)
    if energy.n_hidden:
        block = slice(n_visible, width)
        found[..., block] = energy.conditional_log_odds(out, block)
        last = u[:, 2 * n_visible :].reshape(n, c, energy.n_hidden)
        out[..., block] = energy.draw(found[..., block], last, block)
    return out, found


def ising_gradient_sweep(energy, states, key, streams, step):
    """Return what `gradient_sweep` returns, up to rounding, for Ising models, sparse or dense."""
    n, c, width = states.shape
    models = energy.rows(np.repeat(np.arange(n), c))
    u = _uniforms(energy, states, key, streams, step)
    visible = np.array(states.reshape(n * c, width), bool, order="C")
    start, neighbours, coupling = _neighbours(energy)
    log_odds = models.visible_log_odds(visible).astype(np.float64)
    ising_gradients(
        start, neighbours, coupling, kernel_array(models.free), kernel_array(u), _IMPOSSIBLE,
        visible, log_odds,
    )  # fmt: skip
    found = log_odds.reshape(n, c, width).astype(energy.dtype)
    return visible.reshape(n, c, width), found


def _neighbours(energy):
    """Where the neighbours of each variable begin, their numbers and couplings, float64."""
    if isinstance(energy, SparseIsingEnergy):
        there = energy.neighbours
        coupling = energy.edge_coupling[there.edge].astype(np.float64)
        return there.start, there.variables, coupling
    i, k = np.nonzero(energy.coupling)
    start = np.searchsorted(i, np.arange(energy.n_variables + 1)).astype(np.int64)
    return start, k.astype(np.int64), energy.coupling[i, k].astype(np.float64)


def _uniforms(energy, states, key, streams, step):
    """Random numbers (N C, 2 V + H) of a sweep: two for each flip, one for each hidden unit."""
    n, c, _ = states.shape
    u = uniforms(key, streams, step, 2 * energy.n_visible + energy.n_hidden)
    return np.broadcast_to(u.reshape(len(streams) // c, c, -1), (n, c, u.shape[1])).reshape(
        n * c, -1
    )


def _logits(visible, log_odds, free):
    """Half the change of the score by each flip, -inf where held, float64."""
    rise = np.where(visible, -1.0, 1.0) * np.clip(log_odds, -_IMPOSSIBLE, _IMPOSSIBLE)
    return np.where(free, 0.5 * rise, -np.inf)
