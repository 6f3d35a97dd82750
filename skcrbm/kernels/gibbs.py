"""Gibbs sweeps of factor graphs and Ising models, with chains side by side as SIMD lanes.

A block of chains at a time is transposed, so that what is done for one variable runs over
contiguous chains. A chain's numbers do not depend on which others are beside it.
"""

import math

import numpy as np

from skcrbm.kernels.exponentials import exp_in_place
from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import GOLDEN, unit_interval

# Chains side by side: states and entries of hundreds of factors stay in the L1 cache, those of
# thousands in the L2 cache.
_LANES = 64
# Log-odds beyond this are certain, as u is at least 2^-54.
_CERTAIN = 80.0
# Relative distance within which odds in float32 may be on the wrong side.
_CLOSE = 1e-4


@jit
def _load(state, first, bits, n_lanes):
    """Fill bits (n, lanes) with the states of chains from the first on."""
    for v in range(np.uintp(state.shape[1])):
        for l in range(n_lanes):
            bits[v, l] = state[first + l, v]


@jit
def _store(bits, first, state, n_lanes):
    """Fill the states of chains from the first on with bits (n, lanes)."""
    for v in range(np.uintp(state.shape[1])):
        for l in range(n_lanes):
            state[first + l, v] = bits[v, l] > 0


@jit
def _which(first, n_chains, seeds, model, seed, n_lanes):
    """Fill in the model of each lane, and the seed of its random numbers."""
    for l in range(n_lanes):
        r = np.int64(first) + np.int64(l)
        model[l] = r // n_chains
        seed[l] = seeds[r % len(seeds)]


@jit
def _fields(field, model, i, total, n_lanes):
    """Set total = the field of variable i."""
    if len(field) == 1:
        value = field[0, i]
        for l in range(n_lanes):
            total[l] = value
        return
    for l in range(n_lanes):
        total[l] = field[model[l], i]


@jit
def _hold(held, model, i, total, n_lanes):
    """Log-odds of held variables are infinite."""
    for l in range(n_lanes):
        value = held[model[l], i]
        if value != 0:
            total[l] = math.inf if value > 0 else -math.inf


@jit
def _odds_off(total, odds, n_lanes):
    """Odds of off in float32, in the range of the exponential."""
    for l in range(n_lanes):
        odds[l] = np.float32(min(max(-total[l], -_CERTAIN), _CERTAIN))
    exp_in_place(odds, n_lanes)


@jit
def _uniform(seed, i, u, n_lanes):
    """Random numbers of variable i."""
    step = GOLDEN * np.uint64(i + np.uint64(1))
    for l in range(n_lanes):
        u[l] = unit_interval(seed[l] + step)


@jit
def _compare(u, odds, value, n_lanes):
    """Set value = 1 where u < 1 / (1 + odds), else 0; return how many are close."""
    close = 0
    for l in range(n_lanes):
        share = u[l] * (1.0 + np.float64(odds[l]))
        value[l] = 1.0 if share < 1.0 else 0.0
        close += 1 if abs(share - 1.0) < _CLOSE * share else 0
    return close


@jit
def _draw(seed, i, total, u, odds, value, n_lanes):
    """Set value = 1 where variable i is drawn on, of log-odds total, else 0."""
    _uniform(seed, i, u, n_lanes)
    _odds_off(total, odds, n_lanes)
    if _compare(u, odds, value, n_lanes):
        for l in range(n_lanes):
            value[l] = 1.0 if u[l] * (1.0 + math.exp(-total[l])) < 1.0 else 0.0


@jit
def _keep(total, first, i, log_odds, n_lanes):
    for l in range(n_lanes):
        log_odds[first + l, i] = total[l]


@jit
def _add_neighbour(coupling, signs, k, pull, n_lanes):
    """Pull += coupling times signs of neighbour k."""
    for l in range(n_lanes):
        pull[l] += coupling * signs[k, l]


@jit
def _twice(total, pull, n_lanes):
    """Log-odds of variables in -1/+1, of what they are multiplied by."""
    for l in range(n_lanes):
        total[l] = 2.0 * (total[l] + pull[l])
        pull[l] = 0.0


@jit
def _set_signs(value, signs, i, n_lanes):
    for l in range(n_lanes):
        signs[i, l] = 2.0 * value[l] - 1.0


@jit
def sweep_ising(order, start, neighbours, coupling, field, n_chains, held, seeds, state, log_odds):
    """Draw all variables of R chains of Ising models in turn.

    Parameters
    ----------
    order : (L,) int64
        Of the variables.
    start : (L + 1,) int64
    neighbours, coupling : (2 E,) int64, float64
        The neighbours of variable i are at ``start[i]`` to ``start[i + 1] - 1``.
    field : (N, L) float64
    n_chains : int
        Of each model, one after the other: R = N n_chains.
    held : (N, L) int8, or (0, L) where nothing is
        -1 and 1 hold a variable.
    seeds : (n_chains,) or (R,) uint64
        Of the random numbers, the same for all models or for each chain.
    state : (R, L) bool, changed
    log_odds : (R, L) float64 output
        What each variable was drawn from.
    """
    width = np.uintp(state.shape[1])
    signs = np.empty((width, _LANES))
    total, pull, value = np.empty(_LANES), np.zeros(_LANES), np.empty(_LANES)
    odds = np.empty(_LANES, np.float32)
    model, seed = np.empty(_LANES, np.uintp), np.empty(_LANES, np.uint64)
    u = np.empty(_LANES)
    n_rows = np.uintp(len(state))
    for first in range(np.uintp(0), n_rows, np.uintp(_LANES)):
        n_lanes = np.uintp(min(np.uintp(_LANES), np.uintp(n_rows - first)))
        _load(state, first, signs, n_lanes)
        for v in range(width):
            for l in range(n_lanes):
                signs[v, l] = 2.0 * signs[v, l] - 1.0
        _which(first, n_chains, seeds, model, seed, n_lanes)
        for t in range(width):
            i = np.uintp(order[t])
            for e in range(start[i], start[i + 1]):
                _add_neighbour(coupling[e], signs, np.uintp(neighbours[e]), pull, n_lanes)
            _fields(field, model, i, total, n_lanes)
            _twice(total, pull, n_lanes)
            if len(held):
                _hold(held, model, i, total, n_lanes)
            _keep(total, first, i, log_odds, n_lanes)
            _draw(seed, i, total, u, odds, value, n_lanes)
            _set_signs(value, signs, i, n_lanes)
        _store(signs, first, state, n_lanes)


@jit
def _add_table(flat, first, bit, code, f, total, n_lanes):
    """Total += what a table gains by the variable of a bit."""
    for l in range(n_lanes):
        on = code[f, l] | bit
        total[l] += flat[first + np.uintp(on)] - flat[first + np.uintp(on ^ bit)]


@jit
def _add_table_with_zeros(flat, first, bit, code, f, total, zeros_off, zeros_on, n_lanes):
    """Do the same of finite entries; count those of -inf."""
    for l in range(n_lanes):
        place = code[f, l] | bit
        on, off = flat[first + np.uintp(place)], flat[first + np.uintp(place ^ bit)]
        if on == -math.inf:
            zeros_on[l] += 1
            on = 0.0
        if off == -math.inf:
            zeros_off[l] += 1
            off = 0.0
        total[l] += on - off


@jit
def _add_logic(bits, i, is_input, output, negated, count, f, zeros_off, zeros_on, n_lanes):
    """Count whether an OR has weight 0 with variable i off, and on; AND is OR of all negated."""
    for l in range(n_lanes):
        if is_input:
            others = count[f, l] > np.int64((bits[i, l] != 0) != negated)
            target = (bits[output, l] != 0) != negated
            low, high = target != others, not target
        else:
            low = count[f, l] > 0
            high = not low
        if negated:
            low, high = high, low
        zeros_off[l] += low
        zeros_on[l] += high


@jit
def _count_zeros(total, zeros_off, zeros_on, forbidden, n_lanes):
    """Put what was counted into the log-odds, and start again."""
    for l in range(n_lanes):
        off, on = zeros_off[l], zeros_on[l]
        if off > 0 and on > 0:
            total[l] += forbidden * (off - on)
        elif on > 0:
            total[l] = -math.inf
        elif off > 0:
            total[l] = math.inf
        zeros_off[l] = zeros_on[l] = 0


@jit
def _set_bits(value, bits, i, change, n_lanes):
    """Set variable i; change is -1, 0 or 1."""
    for l in range(n_lanes):
        new = np.int64(value[l])
        change[l] = new - bits[i, l]
        bits[i, l] = new


@jit
def _follow(change, weight, code, f, n_lanes):
    """Entry of a table, or count of inputs, after a change."""
    for l in range(n_lanes):
        code[f, l] += change[l] * weight


@jit
def _first_codes(start, factor, weight, at_zero, bits, code, n_lanes):
    """Fill code (F, lanes) from the states."""
    for f in range(np.uintp(len(at_zero))):
        for l in range(n_lanes):
            code[f, l] = at_zero[f]
    for v in range(np.uintp(bits.shape[0])):
        for e in range(start[v], start[v + 1]):
            f = np.uintp(factor[e])
            for l in range(n_lanes):
                code[f, l] += bits[v, l] * weight[e]


@jit
def sweep_factors(
    order, start, factor, weight, first_entry, flat, at_zero, output, forbidden, field, n_chains,
    held, seeds, state, log_odds,
):  # fmt: skip
    """Draw all variables of R chains of factor graphs in turn.

    Each chain keeps the place of its entry in every table, and the number of inputs that are on
    of every OR (off, of an AND), which follow the variables.

    Parameters
    ----------
    order : (n,) int64
        Of the variables.
    start : (n + 1,) int64
    factor, weight : (E,) int64
        The factors of variable i are at ``start[i]`` to ``start[i + 1] - 1``, tables first. What
        the variable adds to the number of the entry of a table; 1 as an input of an OR, -1 of
        an AND, 0 as an output.
    first_entry : (n_tables,) int64
        Where the entries of each table begin.
    flat : (n_entries,) float64
        Log-potentials.
    at_zero : (F,) int64
        With all variables off: 0; of an AND the number of its inputs.
    output : (F,) int64
        Of OR and AND.
    forbidden : float
        Log-odds for each weight of 0 by which one value has more of them than the other, where
        both have some; 0 if there are none in the whole graph.
    field, n_chains, held, seeds, state, log_odds
        As of `sweep_ising`.
    """
    width, n_factors = np.uintp(state.shape[1]), len(at_zero)
    bits, code = np.empty((width, _LANES), np.int64), np.empty((n_factors, _LANES), np.int64)
    total, value, odds = np.empty(_LANES), np.empty(_LANES), np.empty(_LANES, np.float32)
    change, zeros = np.empty(_LANES, np.int64), np.zeros((2, _LANES), np.int64)
    model, seed = np.empty(_LANES, np.uintp), np.empty(_LANES, np.uint64)
    u = np.empty(_LANES)
    zeros_off, zeros_on = zeros[0], zeros[1]
    n_rows, n_tables = np.uintp(len(state)), np.uintp(len(first_entry))
    for first in range(np.uintp(0), n_rows, np.uintp(_LANES)):
        n_lanes = np.uintp(min(np.uintp(_LANES), np.uintp(n_rows - first)))
        _load(state, first, bits, n_lanes)
        _first_codes(start, factor, weight, at_zero, bits, code, n_lanes)
        _which(first, n_chains, seeds, model, seed, n_lanes)
        for t in range(width):
            i = np.uintp(order[t])
            _fields(field, model, i, total, n_lanes)
            for e in range(start[i], start[i + 1]):
                f = np.uintp(factor[e])
                if f >= n_tables:
                    k = np.uintp(output[f])
                    _add_logic(
                        bits, i, weight[e] != 0, k, at_zero[f] > 0, code, f, zeros_off, zeros_on,
                        n_lanes,
                    )  # fmt: skip
                    continue
                entry, bit = np.uintp(first_entry[f]), weight[e]
                if forbidden == 0:
                    _add_table(flat, entry, bit, code, f, total, n_lanes)
                else:
                    _add_table_with_zeros(
                        flat, entry, bit, code, f, total, zeros_off, zeros_on, n_lanes
                    )
            if forbidden != 0:
                _count_zeros(total, zeros_off, zeros_on, forbidden, n_lanes)
            if len(held):
                _hold(held, model, i, total, n_lanes)
            _keep(total, first, i, log_odds, n_lanes)
            _draw(seed, i, total, u, odds, value, n_lanes)
            _set_bits(value, bits, i, change, n_lanes)
            for e in range(start[i], start[i + 1]):
                _follow(change, weight[e], code, np.uintp(factor[e]), n_lanes)
        _store(bits, first, state, n_lanes)
