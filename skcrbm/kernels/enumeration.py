"""Enumerate the states of small models in logarithms: sums, best states and max-marginals.

A model has k enumerated units, with scores of their pairs, and m other units that have couplings
only to enumerated units. For each state of the enumerated units, the other units are summed out or
maximised analytically. RBMs have no scores of pairs, and Ising models have no other units.

The first l enumerated units are called low units, and all other enumerated units high units. A tile
is the set of the S = 2^l states of the low units for one state of the high units, which only shifts
the fields of the low units and of the other units. The kernels `rbm_exact` and `ising_exact`
compute sums many times faster by odds; this kernel serves the models for which odds overflow.
"""

import math

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import (
    MAX,
    NEGLIGIBLE,
    add_log_of,
    fill,
    low_fields,
    n_low_units,
    shifted_fields,
    sigmoid_pair,
    softplus,
)


@jit(allocates=False)
def _tile_scores(
    inner, tile, n_low, enumerated, shifted, free, coupling, log_gain, low_score, high_score, field,
    score,
):  # fmt: skip
    """Write the fields of a tile to `field` (l + m,), and the scores of its states to `score`."""
    offset = shifted_fields(tile, n_low, coupling, enumerated, shifted, field)
    low_fields(offset + high_score[tile], field, score)
    for s in range(score.shape[0]):
        score[s] += low_score[s]
    for i in range(log_gain.shape[0]):
        x = field[n_low + i]
        if not free[i]:
            continue
        if inner == MAX:
            for s in range(score.shape[0]):
                score[s] += max(x + log_gain[i, s], 0.0)
        else:
            for s in range(score.shape[0]):
                score[s] += softplus(x + log_gain[i, s])


@jit(allocates=False, inline=True)
def _merge(more, count, side, r, high, total):
    """Add ``count * exp(more)`` to a running log-sum-exp.

    The running log-sum-exp is ``high[side, r] + log(total[side, r])``.

    If all counts are 0, only the running maximum `high` is computed.
    """
    top = high[side, r]
    if count == 0.0:
        high[side, r] = max(top, more)
    elif more > top:
        total[side, r] = total[side, r] * math.exp(top - more) + count
        high[side, r] = more
    elif more > top - NEGLIGIBLE:
        total[side, r] += count * math.exp(more - top)


@jit(allocates=False, inline=True)
def _add_other(outer, x, i, log_gain, score, r, high, total):
    """Add the states of a tile to the sums (or maxima) of other unit i, for both of its values.

    `x` is the field of the unit. Its values off and on have column r in `high` and `total`.
    """
    if outer == MAX:
        on, off = high[1, r], high[0, r]
        for s in range(score.shape[0]):
            y = x + log_gain[i, s]
            rest = score[s] - max(y, 0.0)
            on, off = max(on, rest + y), max(off, rest)
        high[1, r], high[0, r] = on, off
        return
    for s in range(score.shape[0]):
        # Both terms are at most score[s], so a small score[s] is negligible.
        if score[s] > min(high[0, r], high[1, r]) - NEGLIGIBLE:
            y = x + log_gain[i, s]
            for side in range(2):
                value = score[s] - softplus(y if side == 0 else -y)
                if value > high[side, r] - NEGLIGIBLE:
                    _merge(value, 1.0, side, r, high, total)


@jit(allocates=False, inline=True)
def _raise(score, low):
    """Replace each entry of `low` (S,) by the maximum of itself and the entry of `score`."""
    for s in range(np.uintp(score.shape[0])):
        low[s] = max(low[s], score[s])


@jit(allocates=False)
def enumerate_states(
    inner, outer, enumerated, shifted, free, coupling, log_gain, low_score, high_score, weight,
    work, state, log_partition, log_odds, pairwise,
):  # fmt: skip
    """Compute the best state, the log-sum-exp of all scores, log-odds and statistics of N rows.

    Parameters
    ----------
    inner : MAX to maximise over the other units, another kind to sum them out
    outer : MAX for the best states and max-marginals, another kind for sums
    enumerated : (N, k) float64 fields of the enumerated units
    shifted : (N, l + m) float64 fields of the low units and of the other units, in a tile in which
        all high units are off; -inf for clamped low units, which must not be on
    free : (N, k + m) bool, enumerated units first; False for clamped units, which are left out
    coupling : (k, l + m) float64, change of the fields `shifted` if an enumerated unit is on; only
        the rows of high units are used
    log_gain : (m, S) float64, change of the fields of the other units by the low units
    low_score : (S,) scores of the pairs of low units; high_score : (2^(k - l),) of the high units
    weight : (N,) float64, weight of each row in the sum of the statistics
    work : result of `kernels.arguments.enumeration_work`
    state : (N, k) int8 output, best state of the enumerated units, the first of them in binary
        order; may have no rows
    log_partition : (N,) output, the log-sum-exp or the maximum
    log_odds : (N, k + m), enumerated units first; only the entries that are NaN are computed
    pairwise : (m, k) output, to which the weighted sum of P(both units on) is added, or None, if
        the statistics are not wanted; then they are not compiled
    """
    n_rows, k = enumerated.shape
    m, n_states = log_gain.shape
    n_low = n_low_units(n_states)
    # Running log-sum-exps (or maxima), stored as high + log(total): of the states that agree in
    # the low units, of the states with a unit off or on, and of a tile and all its states.
    field, score, low_high, low_total, high, total, of_tile = work
    tile_high, tile_total = of_tile[0], of_tile[1]
    for n in range(n_rows):
        held_high = 0
        for h in range(n_low, k):
            if not free[n, h]:
                held_high |= 1 << (h - n_low)
        fill(low_high[0], -np.inf)
        fill(low_total[0], 0.0)
        for side in range(2):
            fill(high[side], -np.inf)
            fill(total[side], 0.0)
        best, best_state = -math.inf, 0
        model = enumerated[n], shifted[n], free[n, k:], coupling, log_gain, low_score, high_score
        for tile in range(high_score.shape[0]):
            if tile & held_high:
                continue
            _tile_scores(inner, tile, n_low, *model, field, score)
            tile_high[0], tile_total[0] = -math.inf, 0.0
            if outer == MAX:
                _raise(score, low_high[0])
                top, where = -math.inf, 0
                for s in range(np.uintp(n_states)):
                    if score[s] > top:
                        top, where = score[s], np.int64(s)
                tile_high[0] = top
                if top > best:
                    best, best_state = top, (tile << n_low) + where
            else:
                for s in range(n_states):
                    if score[s] > -math.inf:
                        add_log_of(score[s], s, low_high[0], low_total[0])
                        add_log_of(score[s], 0, tile_high, tile_total)
            for h in range(n_low, k):
                side = (tile >> (h - n_low)) & 1
                _merge(tile_high[0], tile_total[0], side, h, high, total)
            for i in range(m):
                if math.isnan(log_odds[n, k + i]):
                    _add_other(outer, field[n_low + i], i, log_gain, score, k + i, high, total)
        half = n_states
        for j in range(n_low - 1, -1, -1):  # fold the sums: state 0 ends as the sum of all states
            half //= 2
            for s in range(half):
                more, count = low_high[0, half + s], low_total[0, half + s]
                _merge(low_high[0, s], low_total[0, s], 0, j, high, total)
                _merge(more, count, 1, j, high, total)
                _merge(more, count, 0, s, low_high, low_total)
        if state.shape[0]:
            for h in range(k):
                state[n, h] = (best_state >> h) & 1
        log_partition[n] = low_high[0, 0]
        if outer != MAX:
            log_partition[n] += math.log(low_total[0, 0])
        for r in range(k + m):
            if math.isnan(log_odds[n, r]):
                log_odds[n, r] = high[1, r] - high[0, r]
                if outer != MAX:
                    log_odds[n, r] += math.log(total[1, r] / total[0, r])
        if pairwise is not None:
            for tile in range(high_score.shape[0]):
                if tile & held_high:
                    continue
                _tile_scores(inner, tile, n_low, *model, field, score)
                scale = log_partition[n]
                for s in range(n_states):
                    prob = weight[n] * math.exp(score[s] - scale)
                    for i in range(m):
                        if free[n, k + i]:
                            x = field[n_low + i] + log_gain[i, s]
                            joint = prob * sigmoid_pair(x, 1.0)[0]
                            for j in range(k):
                                if (((tile << n_low) + s) >> j) & 1:
                                    pairwise[i, j] += joint
