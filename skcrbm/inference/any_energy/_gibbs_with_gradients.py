"""Run Gibbs with gradients on energies with 0/1 variables, with a faster sweep for Ising models."""

from typing import Any

import numpy as np
from scipy.special import logsumexp

from skcrbm.energies import SparseIsingEnergy
from skcrbm.inference.any_energy.gibbs import repeatable, solve_by_sweeps
from skcrbm.inference.random_numbers import uniforms
from skcrbm.kernels.ising_gradients import ising_gradients
from skcrbm.utils.validation import kernel_array

# Log-odds of a flip out of an impossible state. A flip into an impossible state has the negative
# log-odds.
_IMPOSSIBLE = 1e6


def solve(method, energy, query):
    """Answer queries from chains moved by `gradient_sweep`; see `GibbsWithGradients`."""
    return solve_by_sweeps(method, energy, query, gradient_sweep)


def solve_ising(method, energy, query):
    """Answer queries on Ising models, by a kernel that updates log-odds after each flip."""
    return solve_by_sweeps(method, energy, query, ising_gradient_sweep)


@repeatable
def gradient_sweep(energy, states, key, streams, step):
    """Propose as many flips as there are visible variables, then draw the hidden variables.

    The function takes and returns the same arrays as `gibbs_sweep`. The log-odds of a visible
    variable are conditional on all other visible variables after the sweep; the log-odds of a
    hidden variable are conditional on the visible variables.
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
    chains = np.arange(n * c)
    for k in range(n_visible if len(rows) else 0):
        total: Any = logsumexp(logits, axis=1, keepdims=True)
        mass = np.cumsum(np.exp(logits - np.where(np.isfinite(total), total, 0.0)), axis=1)
        chosen = (mass < u[:, 2 * k, None] * mass[:, -1:]).sum(axis=1).clip(0, n_visible - 1)
        other = visible.copy()
        other[chains, chosen] ^= True
        other_log_odds = models.visible_log_odds(other)
        other_logits = _logits(other, other_log_odds, free)
        # The acceptance ratio q(x | x') p(x') / (q(x' | x) p(x)) of a flip x -> x' is the sum of
        # the proposal weights at x, divided by the sum of the proposal weights at x'.
        gain = np.zeros(n * c)
        other_total = logsumexp(other_logits[rows], axis=1)
        gain[rows] = total[rows, 0] - other_total
        accept = free[chains, chosen] & (np.log(u[:, 2 * k + 1]) < gain)
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


@repeatable
def ising_gradient_sweep(energy, states, key, streams, step):
    """Do the same as `gradient_sweep` for Ising models, up to rounding, by a faster kernel."""
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
    """Return the adjacency lists of a model: start of each list, neighbours, and couplings."""
    if isinstance(energy, SparseIsingEnergy):
        graph = energy.neighbours
        coupling = energy.edge_coupling[graph.edge].astype(np.float64)
        return graph.start, graph.variables, coupling
    i, k = np.nonzero(energy.coupling)
    start = np.searchsorted(i, np.arange(energy.n_variables + 1)).astype(np.int64)
    return start, k.astype(np.int64), energy.coupling[i, k].astype(np.float64)


def _uniforms(energy, states, key, streams, step):
    """Draw the random numbers of a sweep: two for each flip and one for each hidden unit.

    The result has the shape (N * C, 2 * V + H).
    """
    n, c, _ = states.shape
    u = uniforms(key, streams, step, 2 * energy.n_visible + energy.n_hidden)
    return np.broadcast_to(u.reshape(len(streams) // c, c, -1), (n, c, u.shape[1])).reshape(
        n * c, -1
    )


def _logits(visible, log_odds, free):
    """Return half the change of the score by a flip of each visible variable, in float64.

    Clamped variables get -inf.
    """
    rise = np.where(visible, -1.0, 1.0) * np.clip(log_odds, -_IMPOSSIBLE, _IMPOSSIBLE)
    return np.where(free, 0.5 * rise, -np.inf)
