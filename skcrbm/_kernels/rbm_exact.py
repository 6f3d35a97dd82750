"""Exact inference on small RBMs: one side is enumerated, the other summed out.

The enumerated side has k units with fields e, the summed side m units with
fields a. The 2^k states are split into a low part of S = 2^l states, for which
``gain[i, s] = exp(sum of the couplings of unit i to the low units on in s)`` is
shared by all rows, and a high part that only shifts the fields. With
t = sigma(field), u = 1 - t a summed unit contributes sp(field) + log(u + t gain):
no transcendental function per state and unit.
"""

import math

import numpy as np

from skcrbm._kernels._jit import jit
from skcrbm._kernels._scalar import (
    NEGLIGIBLE,
    add_log_of,
    fill,
    log_add,
    low_fields,
    shifted_fields,
    sigmoid_pair,
    softplus,
)

# Products of (u + t gain) stay within exp(+-240). Beyond that a gain could lift a
# denormal t, which has few digits, to a probability above _TINY.
PRODUCT_LIMIT = 240.0
# Below this probability the log-odds are computed again, entirely in logs.
_TINY = 1e-200


@jit(fastmath={"contract"})
def _multiply_gain(product, gain, t, u):
    """Product (S,) *= u + t gain (S,)."""
    for s in range(product.shape[0]):
        product[s] *= u + t * gain[s]


@jit(fastmath={"contract"})
def _scaled_weights(weight, gain, t, u, scaled):
    """Fill scaled (S,) with weight / (u + t gain)."""
    for s in range(weight.shape[0]):
        scaled[s] = weight[s] / (u + t * gain[s])


@jit(fastmath={"contract", "reassoc"})
def _on_and_off(scaled, gain, t, u):
    """Return P(unit on) and P(unit off), summed over the states, from scaled weights (S,)."""
    on = 0.0
    off = 0.0
    for s in range(scaled.shape[0]):
        on += scaled[s] * gain[s]
        off += scaled[s]
    return t * on, u * off


@jit
def _tile_log_weights(offset, enumerated, field, gain, log_gain, reach, log_weight, product):
    """Unnormalised log-probabilities (S,) of the low states of one tile."""
    n_states = log_weight.shape[0]
    for i in range(field.shape[0]):
        if reach[i] < PRODUCT_LIMIT:
            offset += softplus(field[i])
    low_fields(offset, enumerated, log_weight)
    fill(product, 1.0)
    used = 0.0
    for i in range(field.shape[0]):
        if reach[i] >= PRODUCT_LIMIT:
            for s in range(n_states):
                log_weight[s] += softplus(field[i] + log_gain[i, s])
            continue
        if used + reach[i] >= PRODUCT_LIMIT:
            for s in range(n_states):
                log_weight[s] += math.log(product[s])
                product[s] = 1.0
            used = 0.0
        t, u = sigmoid_pair(field[i], 1.0)
        _multiply_gain(product, gain[i], t, u)
        used += reach[i]
    for s in range(n_states):
        log_weight[s] += math.log(product[s])


@jit
def _exponentials(values, out):
    """Set out (S,) = exp(values - their maximum); return the maximum and the sum of out."""
    high = values[0]
    for s in range(values.shape[0]):
        high = max(high, values[s])
    total = 0.0
    for s in range(values.shape[0]):
        out[s] = math.exp(values[s] - high)
        total += out[s]
    return high, total


@jit
def _add_by_bit(joint, bit, n_low, out):
    """out[j] += the sum of joint (S,) over the states in which low unit j is `bit`."""
    for j in range(n_low):
        acc = 0.0
        step = 1 << j
        for start in range(bit * step, joint.shape[0], 2 * step):
            for s in range(start, start + step):
                acc += joint[s]
        out[j] += acc


@jit
def enumerate_rows(
    enumerated, summed, coupling, gain, log_gain, reach, weight, want_marginals, want_pairwise,
    log_partition, log_odds, pairwise,
):  # fmt: skip
    """Exact answers for a chunk of N rows.

    Parameters
    ----------
    enumerated, summed : (N, k) and (N, m) float64 fields
    coupling : (k, m) float64
    gain, log_gain : (m, S) float64, over the low states; S = 2^n_low
    reach : (m,) float64, sum of |coupling| over the low units
    weight : (N,) float64, used by the pairwise sum
    want_marginals, want_pairwise : bool
    log_partition : (N,) output
    log_odds : (N, k + m) output, enumerated first, if want_marginals; NaN where a
        probability is too small for a float and the log-odds need the log domain
    pairwise : (m, k) output, added to: weighted sum of P(summed on, enumerated on)
    """
    n_rows, k = enumerated.shape
    m = summed.shape[1]
    n_states = gain.shape[1]
    n_low = 0
    while (1 << n_low) < n_states:
        n_low += 1
    n_tiles = 1 << (k - n_low)
    field = np.empty(m)
    log_weight = np.empty(n_states)
    product = np.empty(n_states)
    prob = np.empty(n_states)
    joint = np.empty(n_states)
    joint_sum = np.zeros((m if want_pairwise else 0, n_states))
    on = np.empty(k + m)
    off = np.empty(k + m)
    for n in range(n_rows):
        log_z = -np.inf
        for tile in range(n_tiles):
            offset = shifted_fields(tile, n_low, coupling, enumerated[n], summed[n], field)
            _tile_log_weights(
                offset, enumerated[n], field, gain, log_gain, reach, log_weight, product
            )
            high, total = _exponentials(log_weight, prob)
            log_z = log_add(log_z, high + math.log(total))
        log_partition[n] = log_z
        if not want_marginals and not want_pairwise:
            continue
        fill(on, 0.0)
        fill(off, 0.0)
        for tile in range(n_tiles):
            if n_tiles > 1:
                offset = shifted_fields(tile, n_low, coupling, enumerated[n], summed[n], field)
                _tile_log_weights(
                    offset, enumerated[n], field, gain, log_gain, reach, log_weight, product
                )
                high, total = _exponentials(log_weight, prob)
            scale = math.exp(high - log_z)
            total *= scale
            for s in range(n_states):
                prob[s] *= scale
            _add_by_bit(prob, 1, n_low, on)
            _add_by_bit(prob, 0, n_low, off)
            for h in range(n_low, k):
                if (tile >> (h - n_low)) & 1:
                    on[h] += total
                else:
                    off[h] += total
            for i in range(m):
                unit_on, unit_off = 0.0, 0.0
                if reach[i] < PRODUCT_LIMIT:
                    t, u = sigmoid_pair(field[i], 1.0)
                    _scaled_weights(prob, gain[i], t, u, joint)
                    unit_on, unit_off = _on_and_off(joint, gain[i], t, u)
                    if want_pairwise:
                        for s in range(n_states):
                            joint[s] *= t * gain[i, s]
                else:
                    for s in range(n_states):
                        t, u = sigmoid_pair(field[i] + log_gain[i, s], 1.0)
                        joint[s] = prob[s] * t
                        unit_on += joint[s]
                        unit_off += prob[s] * u
                on[k + i] += unit_on
                off[k + i] += unit_off
                if want_pairwise:
                    for s in range(n_states):
                        joint_sum[i, s] += weight[n] * joint[s]
                    for h in range(n_low, k):
                        if (tile >> (h - n_low)) & 1:
                            pairwise[i, h] += weight[n] * unit_on
        if want_marginals:
            for r in range(k + m):
                if min(on[r], off[r]) > _TINY:
                    log_odds[n, r] = math.log(on[r]) - math.log(off[r])
                else:
                    log_odds[n, r] = np.nan
    if want_pairwise:
        for i in range(m):
            _add_by_bit(joint_sum[i], 1, n_low, pairwise[i])


@jit
def log_odds_in_logs(units, enumerated, summed, coupling, log_gain, out):
    """Log-odds of some units of one row, by log-sum-exp over all states.

    Parameters
    ----------
    units : (U,) int64, enumerated ones first: r < k, then k + i
    enumerated, summed : (k,) and (m,) float64 fields
    coupling : (k, m) float64
    log_gain : (m, S) float64, over the low states; S = 2^n_low
    out : (U,) output
    """
    k, m = coupling.shape
    n_states = log_gain.shape[1]
    n_low = 0
    while (1 << n_low) < n_states:
        n_low += 1
    n_units = units.shape[0]
    field = np.empty(m)
    log_weight = np.empty(n_states)
    # Row 0: unit off, row 1: unit on.
    high = np.empty((2, n_units))
    total = np.zeros((2, n_units))
    fill(high[0], -np.inf)
    fill(high[1], -np.inf)
    for tile in range(1 << (k - n_low)):
        offset = shifted_fields(tile, n_low, coupling, enumerated, summed, field)
        low_fields(offset, enumerated, log_weight)
        for i in range(m):
            for s in range(n_states):
                log_weight[s] += softplus(field[i] + log_gain[i, s])
        for r in range(n_units):
            unit = units[r]
            if unit < k:
                for s in range(n_states):
                    side = (((tile << n_low) + s) >> unit) & 1
                    add_log_of(log_weight[s], r, high[side], total[side])
                continue
            i = unit - k
            for s in range(n_states):
                # a part is never more than the whole
                if log_weight[s] > min(high[0, r], high[1, r]) - NEGLIGIBLE:
                    x = field[i] + log_gain[i, s]
                    add_log_of(log_weight[s] - softplus(x), r, high[0], total[0])
                    add_log_of(log_weight[s] - softplus(-x), r, high[1], total[1])
    for r in range(n_units):
        on, off = high[1, r], high[0, r]
        out[r] = on - off + math.log(total[1, r]) - math.log(total[0, r])
