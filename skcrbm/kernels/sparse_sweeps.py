"""Sweep over sparse Ising models, updating many variables of the same colour at once.

Variables of the same colour are independent given all other variables. `ColourLanes`
(`energies/_sparse_graph.py`) divides them into blocks. A sweep visits the blocks in turn, and
updates the variables of a block together. They are SIMD lanes: a vector instruction updates several
variables at once. The place of a variable is its position in `ColourLanes.order`, which sorts the
variables by block. Signs, fields and clamped values are sorted by place.
"""

import math

import numpy as np

from skcrbm.kernels.exponentials import exp_in_place
from skcrbm.kernels.jit import jit
from skcrbm.kernels.lanes import CERTAIN, draw_lanes
from skcrbm.kernels.scalar import GOLDEN, unit_interval

# `add_probabilities` clips log-odds x to ±_FINITE, so that exp(x) and exp(-x) are finite.
_FINITE = 700.0
# Number of log-odds whose exponentials `add_probabilities` computes at once.
_BLOCK = 256


@jit
def _largest_block(first):
    """Return the number of variables of the largest block."""
    most = 0
    for b in range(len(first) - 1):
        most = max(most, first[b + 1] - first[b])
    return most


@jit
def _signs_of(state, order, signs):
    """Set signs[p] to +1 or -1, for the variable order[p] at each place p.

    `state` (L,) holds the bool values in the order of the variables.
    """
    for p in range(np.uintp(len(order))):
        signs[p] = 1.0 if state[np.uintp(order[p])] else -1.0


@jit
def _state_of(signs, order, state):
    """Set state[order[p]] to True if signs[p] is positive, for each place p."""
    for p in range(np.uintp(len(order))):
        state[np.uintp(order[p])] = signs[p] > 0


@jit
def _add_entries(neighbour, coupling, e, signs, pull, n_lanes):
    """Add the effect of one neighbour of each variable of a block to `pull`.

    The effect on the variable in lane l is the coupling with the neighbour times the neighbour's
    sign. Entry e + l of `neighbour` and `coupling` belongs to lane l.
    """
    for l in range(n_lanes):
        pull[l] += coupling[e + l] * signs[np.uintp(neighbour[e + l])]


@jit
def _half_log_odds(lanes, coupling, field, b, signs, pull, total, n_lanes):
    """Set `total` to the field plus the pull of all neighbours, for each variable of block b."""
    first, e, end = np.uintp(lanes.first[b]), np.uintp(lanes.entry[b]), np.uintp(lanes.entry[b + 1])
    for l in range(n_lanes):
        pull[l] = 0.0
    while e < end:
        _add_entries(lanes.neighbour, coupling, e, signs, pull, n_lanes)
        e += n_lanes
    for l in range(n_lanes):
        total[l] = field[first + l] + pull[l]


@jit
def _whole_log_odds(half, total, n_lanes):
    """Set `total` to the log-odds, which are twice `half`."""
    for l in range(n_lanes):
        total[l] = 2.0 * half[l]


@jit
def _hold_block(held, first, total, n_lanes):
    """Set the log-odds of clamped variables to inf or -inf, if `held` is +1 or -1."""
    for l in range(n_lanes):
        value = held[first + l]
        if value != 0:
            total[l] = math.inf if value > 0 else -math.inf


@jit
def _uniform_block(seed, order, first, u, n_lanes):
    """Write a random number to `u` for each of the n_lanes variables of a block.

    The block begins at place `first`.
    """
    for l in range(n_lanes):
        u[l] = unit_interval(seed + GOLDEN * np.uint64(order[first + l] + 1))


@jit
def _keep_block(total, order, first, log_odds, n_lanes):
    """Copy the log-odds of a block to `log_odds`, which is sorted by variable instead of place."""
    for l in range(n_lanes):
        log_odds[np.uintp(order[first + l])] = total[l]


@jit
def _set_block(value, signs, first, n_lanes):
    """Set the signs of a block to +1 or -1, from values 1 and 0."""
    for l in range(n_lanes):
        signs[first + l] = np.float32(2.0 * value[l] - 1.0)


@jit
def sweep_colours(lanes, coupling, field, n_chains, held, seeds, state, log_odds):
    """Make T sweeps of R chains of sparse Ising models, one chain after the other.

    Each sweep draws the same states as `gibbs.sweep_ising`, which uses chains as SIMD lanes; here
    the lanes are variables of one chain.

    Parameters
    ----------
    lanes : ColourLanes
    coupling : (n_entries,) float64
    field : (N, L) float64, fields sorted by place
    n_chains : int, number of chains of each model, so that R = N n_chains
    held : (N, L) int8 sorted by place, +1 or -1 if a variable is clamped, else 0; (0, L) if no
        variable is clamped
    seeds : (T, n_chains) or (T, R) uint64, seeds that all models share, or a seed for each chain
    state : (R, L) bool, changed
    log_odds : (R, L) float64 output, log-odds from which each variable was drawn last
    """
    order, n_most = lanes.order, _largest_block(lanes.first)
    none_held = np.zeros(0, np.int8)
    signs = np.empty(len(order), np.float32)
    half, total, pull = np.empty(n_most), np.empty(n_most), np.empty(n_most)
    odds, value, u = np.empty(n_most, np.float32), np.empty(n_most), np.empty(n_most)
    for r in range(len(state)):
        model = r // n_chains
        own_field, own_log_odds = field[model], log_odds[r]
        own_held = held[model] if len(held) else none_held
        _signs_of(state[r], order, signs)
        for t in range(len(seeds)):
            seed = seeds[t, r % seeds.shape[1]]
            for b in range(len(lanes.first) - 1):
                first = np.uintp(lanes.first[b])
                n_lanes = np.uintp(lanes.first[b + 1]) - first
                _half_log_odds(lanes, coupling, own_field, b, signs, pull, half, n_lanes)
                _whole_log_odds(half, total, n_lanes)
                if len(held):
                    _hold_block(own_held, first, total, n_lanes)
                if t == len(seeds) - 1:
                    _keep_block(total, order, first, own_log_odds, n_lanes)
                _uniform_block(seed, order, first, u, n_lanes)
                draw_lanes(u, total, odds, value, n_lanes)
                _set_block(value, signs, first, n_lanes)
        _state_of(signs, order, state[r])


@jit(fastmath={"contract", "reassoc"})
def _gain(value, signs, first, half, n_lanes):
    """Return the change of the score if the variables of a block take the values in `value`."""
    gain = 0.0
    for l in range(n_lanes):
        gain += (2.0 * value[l] - 1.0 - signs[first + l]) * half[l]
    return gain


@jit
def _improve(half, signs, first, value, n_lanes):
    """Set `value` to the value (0 or 1) of each variable of a block that gives the higher score.

    If both values have the same score, a variable keeps its present value, from `signs`.
    """
    for l in range(n_lanes):
        best = np.float64(half[l] if half[l] != 0 else signs[first + l])
        value[l] = 1.0 if best > 0 else 0.0


@jit
def _keep_held(held, signs, first, value, n_lanes):
    """Set `value` of clamped variables back to their present value (0 or 1), from `signs`."""
    for l in range(n_lanes):
        if held[first + l] != 0:
            value[l] = 1.0 if signs[first + l] > 0 else 0.0


@jit
def _copy(source, out):
    """Copy `source` to `out`; the slice assignment out[:] = source takes seconds to compile."""
    for p in range(np.uintp(len(source))):
        out[p] = source[p]


@jit
def _odds_of_flips(half, beta, signs, first, odds, n_lanes):
    """Set `odds` to P(other value) / P(present value), at most 1, for each variable of a block.

    The probabilities are conditional on the neighbours, at inverse temperature `beta`.
    """
    for l in range(n_lanes):
        change = -2.0 * beta * half[l] * signs[first + l]
        odds[l] = np.float32(min(max(change, -CERTAIN), 0.0))
    exp_in_place(odds, n_lanes)


@jit
def _flip(u, odds, signs, first, value, n_lanes):
    """Make Metropolis steps: a variable of a block changes its value if u[l] < odds[l].

    `value` receives the new values, 0 or 1.
    """
    for l in range(n_lanes):
        sign = signs[first + l] if u[l] >= odds[l] else -signs[first + l]
        value[l] = 1.0 if sign > 0 else 0.0


@jit
def anneal_colours(lanes, coupling, field, held, beta, seeds, state, score, best_state, best_score):
    """Make T Metropolis sweeps of N sparse Ising models, and keep the best state of each model.

    After each sweep, the state is compared with the best state found before. All models use the
    same random numbers.

    Parameters
    ----------
    lanes, coupling, field, held : see `sweep_colours`
    beta : (N, T) float64, inverse temperatures, which multiply fields and couplings
    seeds : (T,) uint64
    state : (N, L) bool, changed; contains the values of clamped variables
    score : (N,) float64, scores of the states up to a constant, changed
    best_state, best_score : (N, L) bool, (N,) float64, changed
    """
    order, n_most = lanes.order, _largest_block(lanes.first)
    none_held = np.zeros(0, np.int8)
    signs, best = np.empty(len(order), np.float32), np.empty(len(order), np.float32)
    half, pull, value = np.empty(n_most), np.empty(n_most), np.empty(n_most)
    odds, u = np.empty(n_most, np.float32), np.empty(n_most)
    for n in range(len(state)):
        own_field, better = field[n], False
        own_held = held[n] if len(held) else none_held
        _signs_of(state[n], order, signs)
        for t in range(len(seeds)):
            for b in range(len(lanes.first) - 1):
                first = np.uintp(lanes.first[b])
                n_lanes = np.uintp(lanes.first[b + 1]) - first
                _half_log_odds(lanes, coupling, own_field, b, signs, pull, half, n_lanes)
                _uniform_block(seeds[t], order, first, u, n_lanes)
                _odds_of_flips(half, beta[n, t], signs, first, odds, n_lanes)
                _flip(u, odds, signs, first, value, n_lanes)
                if len(held):
                    _keep_held(own_held, signs, first, value, n_lanes)
                score[n] += _gain(value, signs, first, half, n_lanes)
                _set_block(value, signs, first, n_lanes)
            if score[n] > best_score[n]:
                best_score[n], better = score[n], True
                _copy(signs, best)
        _state_of(signs, order, state[n])
        if better:
            _state_of(best, order, best_state[n])


@jit
def ascend_colours(lanes, coupling, field, held, n_sweeps, state, converged):
    """Improve the states of N models by coordinate ascent, until no variable changes.

    A step gives all variables of a block their best values, given the other variables.

    Parameters
    ----------
    n_sweeps : int, largest number of sweeps
    state : (N, L) bool, changed; contains the values of clamped variables
    converged : (N,) bool output, True if the last sweep changed no variable
    lanes, coupling, field, held : see `sweep_colours`
    """
    order, n_most = lanes.order, _largest_block(lanes.first)
    none_held = np.zeros(0, np.int8)
    signs = np.empty(len(order), np.float32)
    half, pull, value = np.empty(n_most), np.empty(n_most), np.empty(n_most)
    for n in range(len(state)):
        own_field = field[n]
        own_held = held[n] if len(held) else none_held
        _signs_of(state[n], order, signs)
        converged[n] = False
        for _ in range(n_sweeps):
            gain = 0.0
            for b in range(len(lanes.first) - 1):
                first = np.uintp(lanes.first[b])
                n_lanes = np.uintp(lanes.first[b + 1]) - first
                _half_log_odds(lanes, coupling, own_field, b, signs, pull, half, n_lanes)
                _improve(half, signs, first, value, n_lanes)
                if len(held):
                    _keep_held(own_held, signs, first, value, n_lanes)
                gain += _gain(value, signs, first, half, n_lanes)
                _set_block(value, signs, first, n_lanes)
            if gain == 0.0:
                converged[n] = True
                break
        _state_of(signs, order, state[n])


@jit
def add_probabilities(log_odds, on, off, squares):
    """Add P(on), P(off) and P(on)^2 to `on`, `off` and `squares`; all arrays are (K,)."""
    odds = np.empty(_BLOCK)
    for first in range(np.uintp(0), np.uintp(len(log_odds)), np.uintp(_BLOCK)):
        n_lanes = np.uintp(min(np.uintp(_BLOCK), np.uintp(len(log_odds)) - first))
        for l in range(n_lanes):
            odds[l] = min(max(-np.float64(log_odds[first + l]), -_FINITE), _FINITE)
        exp_in_place(odds, n_lanes)
        for l in range(n_lanes):
            p = 1.0 / (1.0 + odds[l])
            on[first + l] += p
            off[first + l] += odds[l] * p
            squares[first + l] += p * p
