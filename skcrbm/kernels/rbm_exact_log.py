"""Exact inference on small RBMs by logarithms, for couplings and fields of any size.

The kernel enumerates the states of one side and sums out the other side. `rbm_exact` computes the
same answers many times faster, but only if no odds overflow. The first enumerated units are called
low units, and a tile is a set of states that differ only in low units. All rows share the array
``log_gain[i, s]``, the sum of the couplings of unit i to the low units that are on in state s. If a
clamped unit of the enumerated side is on in a state, the log-weight of the state is -inf. Clamped
units of the other side are skipped.
"""

import math

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import (
    NEGLIGIBLE,
    add_log_of,
    fill,
    low_fields,
    n_low_units,
    possible_fields,
    shifted_fields,
    sigmoid_pair,
    softplus,
)


@jit
def _tile_in_logs(tile, n_low, coupling, possible, summed, free, log_gain, field, log_weight):
    """Compute the log-weights of the states of a tile, and the fields of the summed units.

    The first `n_low` enumerated units are called low units, and all other enumerated units high
    units. A tile holds the S = 2^n_low states of the low units for one state of the high units. The
    outputs are `log_weight` (S,) and `field` (m,).
    """
    offset = shifted_fields(tile, n_low, coupling, possible, summed, field)
    low_fields(offset, possible, log_weight)
    for i in range(field.shape[0]):
        if not free[i]:
            continue
        for s in range(log_weight.shape[0]):
            log_weight[s] += softplus(field[i] + log_gain[i, s])


@jit
def enumerate_in_logs(
    enumerated, summed, free, coupling, log_gain, weight, want_statistics,
    log_partition, log_odds, pairwise,
):  # fmt: skip
    """Compute log Z, log-odds and statistics of N rows, by log-sum-exp over all states.

    Parameters
    ----------
    enumerated, summed : (N, k) and (N, m) float64 fields
    free : (N, k + m) bool, enumerated units first; False for clamped units, which are left out
    coupling : (k, m) float64, couplings of k enumerated and m other units
    log_gain : (m, S) float64, see the module docstring; S = 2^l for l low units
    weight : (N,) float64, weight of each row in the sum of the statistics
    want_statistics : bool
    log_partition : (N,) output
    log_odds : (N, k + m), enumerated units first; only the entries that are NaN are computed
    pairwise : (m, k) output, to which the weighted sum of P(both units on) is added
    """
    n_rows = enumerated.shape[0]
    k, m = coupling.shape
    n_states = log_gain.shape[1]
    n_low = n_low_units(n_states)
    possible = np.empty(k)
    field = np.empty(m)
    log_weight = np.empty(n_states)
    # Running log-sum-exps are stored as high + log(total). `high` and `total` are for the states
    # with a unit off (row 0) and on (row 1), `high_z` and `total_z` for all states.
    high = np.empty((2, k + m))
    total = np.empty((2, k + m))
    high_z = np.empty(1)
    total_z = np.empty(1)
    for n in range(n_rows):
        held_high = possible_fields(enumerated[n], free[n], n_low, possible)
        for side in range(2):
            fill(high[side], -np.inf)
            fill(total[side], 0.0)
        high_z[0] = -np.inf
        total_z[0] = 0.0
        for tile in range(1 << (k - n_low)):
            if tile & held_high:
                continue
            _tile_in_logs(
                tile, n_low, coupling, possible, summed[n], free[n, k:], log_gain, field,
                log_weight,
            )  # fmt: skip
            for s in range(n_states):
                if log_weight[s] > -math.inf:
                    add_log_of(log_weight[s], 0, high_z, total_z)
            for r in range(k + m):
                if not math.isnan(log_odds[n, r]):
                    continue
                if r < k:
                    for s in range(n_states):
                        if log_weight[s] > -math.inf:
                            side = (((tile << n_low) + s) >> r) & 1
                            add_log_of(log_weight[s], r, high[side], total[side])
                    continue
                for s in range(n_states):
                    # Both terms are at most log_weight[s], so a small log_weight[s] is negligible.
                    if log_weight[s] > min(high[0, r], high[1, r]) - NEGLIGIBLE:
                        x = field[r - k] + log_gain[r - k, s]
                        add_log_of(log_weight[s] - softplus(x), r, high[0], total[0])
                        add_log_of(log_weight[s] - softplus(-x), r, high[1], total[1])
        log_z = high_z[0] + math.log(total_z[0])
        log_partition[n] = log_z
        for r in range(k + m):
            if math.isnan(log_odds[n, r]):
                log_odds[n, r] = high[1, r] - high[0, r] + math.log(total[1, r] / total[0, r])
        if not want_statistics:
            continue
        for tile in range(1 << (k - n_low)):
            if tile & held_high:
                continue
            _tile_in_logs(
                tile, n_low, coupling, possible, summed[n], free[n, k:], log_gain, field,
                log_weight,
            )  # fmt: skip
            for s in range(n_states):
                prob = weight[n] * math.exp(log_weight[s] - log_z)
                state = (tile << n_low) + s
                for i in range(m):
                    if not free[n, k + i]:
                        continue
                    joint = prob * sigmoid_pair(field[i] + log_gain[i, s], 1.0)[0]
                    for j in range(k):
                        if (state >> j) & 1:
                            pairwise[i, j] += joint
