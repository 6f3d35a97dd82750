"""Run Gibbs sweeps on factor graphs and Ising models, with many chains side by side.

A block is a group of chains that are processed together. The chains of a block are SIMD lanes: a
vector instruction updates a variable in several chains at once. The arrays of a block have the
chains on their last axis, so that the loops for a variable run over contiguous memory. The results
of a chain do not depend on the other chains of its block.
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.lanes import draw_lanes
from skcrbm.kernels.scalar import GOLDEN, unit_interval

# Number of chains in a block. With this number of chains, the states of the variables and the codes
# of the factors (see `FactorLists`) fit the L1 cache if the graph has hundreds of factors, and the
# L2 cache if the graph has thousands of factors.
_LANES = 64


class FactorLists(NamedTuple):
    """Lists of the factors of each variable. Each list begins with the tables.

    There are n variables, F factors and E edges. Variable i has the factors
    ``factor[start[i]:start[i + 1]]``. The code of a table is the index of its current entry. The
    code of an OR or AND is a count of its inputs, see `sweep_factors`.
    """

    start: np.ndarray  # (n + 1,) int64, first edge of each variable
    factor: np.ndarray  # (E,) int64, factor of each edge
    # (E,) int64: change of the code of the factor if the variable changes from 0 to 1. The change
    # is the stride of the variable for a table, 1 for an input of an OR, -1 for an input of an AND,
    # and 0 for an output.
    weight: np.ndarray
    first_entry: np.ndarray  # (n_tables,) int64, index of the first entry of each table
    flat: np.ndarray  # (n_entries,) float64 log-potentials
    # (F,) int64, code if all variables are 0: the number of inputs for an AND, 0 for other factors
    at_zero: np.ndarray
    output: np.ndarray  # (F,) int64, output variable of an OR or AND
    # If factors give weight 0 to both values of a variable, each of these factors changes the
    # log-odds by this number. So the variable takes the value that fewer factors forbid. The number
    # is 0 if no factor can have weight 0.
    forbidden: float


@jit
def _load(state, first, bits, n_lanes):
    """Copy the states of a block of chains, from index `first` on, to `bits` (n, lanes)."""
    for v in range(np.uintp(state.shape[1])):
        for l in range(n_lanes):
            bits[v, l] = state[first + l, v]


@jit
def _store(bits, first, state, n_lanes):
    """Copy `bits` (n, lanes) to the states of a block of chains, from index `first` on."""
    for v in range(np.uintp(state.shape[1])):
        for l in range(n_lanes):
            state[first + l, v] = bits[v, l] > 0


@jit
def _fill_lanes(first, n_chains, seeds, model, seed, n_lanes):
    """For each lane of a block, set the index of its model and its random seed."""
    for l in range(n_lanes):
        r = np.int64(first) + np.int64(l)
        model[l] = r // n_chains
        seed[l] = seeds[r % len(seeds)]


@jit
def _fields(field, model, i, total, n_lanes):
    """Set `total` (lanes,) to the field of variable i in the model of each lane."""
    if len(field) == 1:
        value = field[0, i]
        for l in range(n_lanes):
            total[l] = value
        return
    for l in range(n_lanes):
        total[l] = field[model[l], i]


@jit
def _hold(held, model, i, total, n_lanes):
    """Set the log-odds `total` of variable i to inf or -inf in lanes in which it is clamped."""
    for l in range(n_lanes):
        value = held[model[l], i]
        if value != 0:
            total[l] = math.inf if value > 0 else -math.inf


@jit
def _uniform(seed, i, u, n_lanes):
    """Write a uniform random number for variable i in each lane to `u` (lanes,)."""
    step = GOLDEN * np.uint64(i + np.uint64(1))
    for l in range(n_lanes):
        u[l] = unit_interval(seed[l] + step)


@jit
def _keep(total, first, i, log_odds, n_lanes):
    """Copy the log-odds `total` of variable i to `log_odds`, for the chains from `first` on."""
    for l in range(n_lanes):
        log_odds[first + l, i] = total[l]


@jit
def _add_neighbour(coupling, signs, k, pull, n_lanes):
    """Add the coupling times the signs of neighbour k to `pull` (lanes,)."""
    for l in range(n_lanes):
        pull[l] += coupling * signs[k, l]


@jit
def _log_odds_of_signs(total, pull, n_lanes):
    """Replace the field `total` of a -1/+1 variable by its log-odds; reset `pull` to 0.

    `pull` is the sum of the couplings times the signs of the neighbours.
    """
    for l in range(n_lanes):
        total[l] = 2.0 * (total[l] + pull[l])
        pull[l] = 0.0


@jit
def _set_signs(value, signs, i, n_lanes):
    """Set the signs of variable i to -1 or +1, for the values 0 or 1."""
    for l in range(n_lanes):
        signs[i, l] = 2.0 * value[l] - 1.0


@jit
def sweep_ising(order, start, neighbours, coupling, field, n_chains, held, seeds, state, log_odds):
    """Draw all L variables of R chains of Ising models in turn.

    Parameters
    ----------
    order : (L,) int64 permutation of the variables
    start, neighbours, coupling : (L + 1,) int64, (2 E,) int64, (2 E,) float64; the neighbours of
        variable i are at ``start[i]`` to ``start[i + 1] - 1``
    field : (N, L) float64, fields of L variables in each of N models
    n_chains : int, number of chains of each model, so that R = N n_chains; the chains of a model
        lie one after the other
    held : (N, L) int8, -1 or 1 if a variable is clamped, else 0; (0, L) if no variable is clamped
    seeds : (n_chains,) or (R,) uint64, seeds that all models share, or a seed for each chain
    state : (R, L) bool, changed
    log_odds : (R, L) float64 output, log-odds from which each variable was drawn
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
        _fill_lanes(first, n_chains, seeds, model, seed, n_lanes)
        for t in range(width):
            i = np.uintp(order[t])
            for e in range(start[i], start[i + 1]):
                _add_neighbour(coupling[e], signs, np.uintp(neighbours[e]), pull, n_lanes)
            _fields(field, model, i, total, n_lanes)
            _log_odds_of_signs(total, pull, n_lanes)
            if len(held):
                _hold(held, model, i, total, n_lanes)
            _keep(total, first, i, log_odds, n_lanes)
            _uniform(seed, i, u, n_lanes)
            draw_lanes(u, total, odds, value, n_lanes)
            _set_signs(value, signs, i, n_lanes)
        _store(signs, first, state, n_lanes)


@jit
def _add_table(flat, first, bit, code, f, total, n_lanes):
    """Add the entry of table f for the value 1 of a variable, minus the entry for 0, to `total`.

    `bit` is the stride of the variable in the table.
    """
    for l in range(n_lanes):
        on = code[f, l] | bit
        total[l] += flat[first + np.uintp(on)] - flat[first + np.uintp(on ^ bit)]


@jit
def _add_table_with_zeros(flat, first, bit, code, f, total, zeros_off, zeros_on, n_lanes):
    """Do the same as `_add_table`, for a table that may have entries of -inf.

    An entry of -inf adds nothing to `total`. It is counted in `zeros_on` if it belongs to the value
    1 of the variable, else in `zeros_off`.
    """
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
    """In each lane, count the values of variable i that an OR or AND forbids.

    If the value 0 is forbidden, 1 is added to `zeros_off`. If the value 1 is forbidden, 1 is added
    to `zeros_on`.
    """
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
    """Change the log-odds `total` if factors give weight 0 to a value; reset the counts."""
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
    """Set variable i in all lanes to `value`, and `change` to the new minus the old value."""
    for l in range(n_lanes):
        new = np.int64(value[l])
        change[l] = new - bits[i, l]
        bits[i, l] = new


@jit
def _update_code(change, weight, code, f, n_lanes):
    """Update the code of factor f (index of a table entry, or count of inputs) after `change`."""
    for l in range(n_lanes):
        code[f, l] += change[l] * weight


@jit
def _first_codes(start, factor, weight, at_zero, bits, code, n_lanes):
    """Write the code of each factor to `code` (F, lanes), from the states `bits`.

    The code of a table is the index of its entry; the code of an OR or AND is a count of inputs.
    """
    for f in range(np.uintp(len(at_zero))):
        for l in range(n_lanes):
            code[f, l] = at_zero[f]
    for v in range(np.uintp(bits.shape[0])):
        for e in range(start[v], start[v + 1]):
            f = np.uintp(factor[e])
            for l in range(n_lanes):
                code[f, l] += bits[v, l] * weight[e]


@jit
def sweep_factors(order, lists, field, n_chains, held, seeds, state, log_odds):
    """Draw all L variables of R chains of factor graphs in turn.

    For each chain, the kernel keeps the index of the current entry of every table, the number of
    inputs of every OR that are on, and the number of inputs of every AND that are off. These codes
    are updated when variables change.

    Parameters
    ----------
    lists : FactorLists
    order, field, n_chains, held, seeds, state, log_odds : see `sweep_ising`
    """
    start, factor, weight, first_entry, flat, at_zero, output, forbidden = lists
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
        _fill_lanes(first, n_chains, seeds, model, seed, n_lanes)
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
            _uniform(seed, i, u, n_lanes)
            draw_lanes(u, total, odds, value, n_lanes)
            _set_bits(value, bits, i, change, n_lanes)
            for e in range(start[i], start[i + 1]):
                _update_code(change, weight[e], code, np.uintp(factor[e]), n_lanes)
        _store(bits, first, state, n_lanes)


# ------------------------------------------------------- variables of any number of states


@jit
def _log_weights(field, model, i, n_states, total, n_lanes):
    """Set `total` (K, lanes) to the log-weights that fields give to the K states of variable i."""
    for k in range(n_states):
        for l in range(n_lanes):
            total[k, l] = field[model[l], i, k]


@jit
def _add_entries(flat, first, stride, code, f, state, i, n_states, total, n_lanes):
    """For each state of variable i, add the entry of a table with this state to `total`."""
    for l in range(n_lanes):
        place = first + code[f, l] - stride * state[i, l]
        for k in range(n_states):
            total[k, l] += flat[place + stride * k]


@jit
def _forbid(zeros, total, n_lanes):
    """Give weight 0 to the states that an OR or AND forbids, and reset the counts."""
    for k in range(2):
        for l in range(n_lanes):
            if zeros[k, l] > 0:
                total[k, l] = -math.inf
            zeros[k, l] = 0


@jit
def _draw_state(field, total, u, n_states, weight, log_odds):
    """Draw one of K states, given the log-weights `total` (K,), and return its index.

    The log-odds of all states are written to `log_odds` (K,).
    """
    best = 0
    for k in range(1, n_states):
        if total[k] > total[best]:
            best = k
    if total[best] == -math.inf:  # factors forbid all states: draw a state that the evidence allows
        for k in range(n_states):
            total[k] = 0.0 if field[k] > -math.inf else -math.inf
            if total[k] > total[best]:
                best = k
    top, others = total[best], 0.0
    for k in range(n_states):
        weight[k] = math.exp(total[k] - top)
        if k != best:
            others += weight[k]
    for k in range(n_states):
        if k == best:
            rest = math.log(others) if others > 0.0 else -math.inf
        else:
            rest = math.log(1.0 + (others - weight[k]))
        log_odds[k] = total[k] - top - rest
    sum_before, last, found = 0.0, 0, -1
    for k in range(n_states):
        sum_before += weight[k]
        if weight[k] > 0.0:
            last = k
            if found < 0 and u * (1.0 + others) < sum_before:
                found = k
    return found if found >= 0 else last


@jit
def sweep_categories(order, lists, n_states, field, n_chains, seeds, state, log_odds):
    """Draw all variables of R chains of factor graphs in turn; variables have up to K states.

    Parameters
    ----------
    order : (L,) int64 permutation of the variables
    lists : FactorLists
    n_states : (L,) int64, number of states of each variable
    field : (N, L, K) float64, -inf for states that are missing or contradict the evidence
    n_chains : int, number of chains of each model, so that R = N n_chains; the chains of a model
        lie one after the other
    seeds : (n_chains,) or (R,) uint64, seeds that all models share, or a seed for each chain
    state : (R, L) int32, changed
    log_odds : (R, L, K) float64 output, log-odds from which each variable was drawn; on input -inf
    """
    start, factor, stride, first_entry, flat, at_zero, output, _ = lists
    width, n_factors, n_levels = np.uintp(state.shape[1]), len(at_zero), log_odds.shape[2]
    states, code = np.empty((width, _LANES), np.int64), np.empty((n_factors, _LANES), np.int64)
    total, weight = np.empty((n_levels, _LANES)), np.empty(n_levels)
    change, zeros = np.empty(_LANES, np.int64), np.zeros((2, _LANES), np.int64)
    model, seed = np.empty(_LANES, np.uintp), np.empty(_LANES, np.uint64)
    u = np.empty(_LANES)
    n_rows, n_tables = np.uintp(len(state)), np.uintp(len(first_entry))
    for first in range(np.uintp(0), n_rows, np.uintp(_LANES)):
        n_lanes = np.uintp(min(np.uintp(_LANES), np.uintp(n_rows - first)))
        for v in range(width):
            for l in range(n_lanes):
                states[v, l] = state[first + l, v]
        _first_codes(start, factor, stride, at_zero, states, code, n_lanes)
        _fill_lanes(first, n_chains, seeds, model, seed, n_lanes)
        for t in range(width):
            i = np.uintp(order[t])
            k = n_states[i]
            _log_weights(field, model, i, k, total, n_lanes)
            n_logic = 0
            for e in range(start[i], start[i + 1]):
                f = np.uintp(factor[e])
                if f < n_tables:
                    _add_entries(
                        flat, first_entry[f], stride[e], code, f, states, i, k, total, n_lanes
                    )
                else:
                    n_logic += 1
                    _add_logic(
                        states, i, stride[e] != 0, np.uintp(output[f]), at_zero[f] > 0, code, f,
                        zeros[0], zeros[1], n_lanes,
                    )  # fmt: skip
            if n_logic > 0:
                _forbid(zeros, total, n_lanes)
            _uniform(seed, i, u, n_lanes)
            for l in range(n_lanes):
                drawn = _draw_state(
                    field[model[l], i], total[:, l], u[l], k, weight, log_odds[first + l, i]
                )
                change[l] = drawn - states[i, l]
                states[i, l] = drawn
            for e in range(start[i], start[i + 1]):
                _update_code(change, stride[e], code, np.uintp(factor[e]), n_lanes)
        for v in range(width):
            for l in range(n_lanes):
                state[first + l, v] = states[v, l]
