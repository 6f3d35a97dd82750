"""Run Gibbs with gradients on energies with 0/1 variables, with a faster sweep for Ising models."""

from typing import Any

import numpy as np
from scipy.special import logsumexp

from skcrbm.inference.any_energy.gibbs import (
    kernel_chains,
    repeatable,
    solve_by_sweeps,
    sweeps_per_call,
)
from skcrbm.inference.random_numbers import seeds, uniforms
from skcrbm.kernels.ising_gradients import (
    NODE,
    Tree,
    gradient_sweeps_by_lists,
    gradient_sweeps_by_rows,
    ising_gradients,
)
from skcrbm.utils.validation import kernel_array

# Infinite log-odds are replaced by finite log-odds: _IMPOSSIBLE if a flip leads from an impossible
# state to a possible state, and -_IMPOSSIBLE if it leads from a possible to an impossible state.
_IMPOSSIBLE = 1e6
# Models in which the logarithm of a proposal weight can be larger than this number use
# `_strong_sweep` instead of `_tree_sweep`. In `_tree_sweep` a flip multiplies a weight by at most
# the square of the largest weight, and this square must not overflow in float64.
_LARGEST_LOG_WEIGHT = 300.0


def solve(method, energy, query):
    """Answer queries from chains that `gradient_sweep` advances; see `GibbsWithGradients`."""
    return solve_by_sweeps(method, energy, query, gradient_sweep)


def solve_ising(method, energy, query):
    """Answer queries about Ising models by faster sweeps; see `GibbsWithGradients`.

    Kernels update the weights of proposals after each flip, instead of computing all weights again.
    """
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


def ising_gradient_sweep(energy, states, key, streams, step, n_sweeps=1):
    """Run the sweeps of `gradient_sweep` for Ising models by kernels.

    The results equal the results of `gradient_sweep` up to rounding. Models with very strong
    couplings or fields use a kernel with log-weights.
    """
    strong = _is_strong(energy)
    if strong.all():
        return _strong_sweep(energy, states, key, streams, step, n_sweeps)
    if not strong.any():
        return _tree_sweep(energy, states, key, streams, step, n_sweeps)
    out, found = np.empty(states.shape, bool), np.empty(states.shape, energy.dtype)
    shared = len(streams) == states.shape[1]
    for part, sweep in ((strong, _strong_sweep), (~strong, _tree_sweep)):
        own = streams if shared else streams.reshape(states.shape[:2])[part].ravel()
        models = energy.rows(np.flatnonzero(part))
        out[part], found[part] = sweep(models, states[part], key, own, step, n_sweeps)
    return out, found


def _is_strong(energy):
    """Return a mask (N,) of the models in which a proposal weight may overflow in a float.

    The logarithm of a weight of a variable is at most the absolute value of its field plus the sum
    of the absolute values of its couplings.
    """
    log_odds, influence = energy.own_log_odds()  # twice the fields, twice the sums of couplings
    bound = np.abs(log_odds.astype(np.float64)) + influence
    return ~(bound.max(axis=1, initial=0) < 2 * _LARGEST_LOG_WEIGHT)


def _tree_sweep(energy, states, key, streams, step, n_sweeps):
    """Run the sweeps by kernels that draw the variable to flip from a tree.

    The leaves of the tree are the proposal weights of the variables, and an inner node holds the
    sum of the weights below it.
    """
    drawn, field, held, log_odds = kernel_chains(energy, states)
    width = drawn.shape[1]
    start, neighbours, coupling = energy.coupling_lists()
    rest = _tree_over(width), field, states.shape[1], kernel_array(held)
    # A sum over a list of neighbours takes as long as a sum over a row of a matrix that has about
    # 16 times as many entries. So use a matrix if the variables have many neighbours.
    by_rows = 16 * len(neighbours) >= width**2
    if by_rows:
        matrix = np.zeros((width, width))
        matrix[np.repeat(np.arange(width), np.diff(start)), neighbours] = coupling
    cost = 8 + (width // 8 if by_rows else len(neighbours) // max(1, width))
    # NumPy would warn of integers that overflow on purpose, if the JIT is off
    with np.errstate(over="ignore"):
        for part in sweeps_per_call(drawn.size * cost, n_sweeps):
            rounds = range(step + part.start, step + part.stop)
            numbers = np.array([seeds(key, streams, t) for t in rounds])
            if by_rows:
                gradient_sweeps_by_rows(matrix, *rest, numbers, drawn, log_odds)
            else:
                gradient_sweeps_by_lists(
                    start, neighbours, coupling, *rest, numbers, drawn, log_odds
                )
    found = log_odds.astype(energy.dtype, copy=False)
    return drawn.reshape(states.shape), found.reshape(states.shape)


def _tree_over(n_variables):
    """Return the layout of a tree of sums in an array.

    The layout has the first index and the number of entries of each level of the tree.
    """
    first, size = [0], [n_variables]
    while size[-1] > NODE:
        n_nodes = -(-size[-1] // NODE)
        first.append(first[-1] + n_nodes * NODE)
        size.append(n_nodes)
    return Tree(np.array(first, np.int64), np.array(size, np.int64))


@repeatable
def _strong_sweep(energy, states, key, streams, step):
    """Run a sweep with logarithms of proposal weights, for couplings and fields of any size."""
    n, c, width = states.shape
    models = energy.rows(np.repeat(np.arange(n), c))
    u = _uniforms(energy, states, key, streams, step)
    visible = np.array(states.reshape(n * c, width), bool, order="C")
    start, neighbours, coupling = energy.coupling_lists()
    log_odds = models.visible_log_odds(visible).astype(np.float64)
    ising_gradients(
        start, neighbours, coupling, kernel_array(models.free), kernel_array(u), _IMPOSSIBLE,
        visible, log_odds,
    )  # fmt: skip
    found = log_odds.reshape(n, c, width).astype(energy.dtype)
    return visible.reshape(n, c, width), found


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
    """Return half of the change of the score if a visible variable is flipped, for each variable.

    These numbers are the logarithms of the proposal weights, in float64. Clamped variables get
    -inf.
    """
    rise = np.where(visible, -1.0, 1.0) * np.clip(log_odds, -_IMPOSSIBLE, _IMPOSSIBLE)
    return np.where(free, 0.5 * rise, -np.inf)
