"""Exact inference on small pairwise Boltzmann machines by visiting all states of k units.

For labels y in {-1, +1} and u = (y + 1) / 2, a unit is on if u = 1. The log-weight of a state is a
linear function of u plus the pair score: the sum of the couplings of all pairs of units that are
on. The first l units are called low units, and all other units high units. All rows share a table
with the pair scores of the S = 2^l states of the low units. A tile is the set of these S states for
one state of the high units; the state of the high units only shifts the fields of the low units.
Without the pair score, the weight of a state is a product over the low units, with a factor t =
sigma(field) for a unit that is on and 1 - t for a unit that is off. The products of all states are
computed by doubling a list of products for each low unit, so that no state needs an exponential or
logarithm.
"""

import math

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import (
    fill,
    shifted_fields,
    sigmoid_pair,
    softplus,
)

# Largest sum of the |couplings| of all pairs of low units, which limits the number of low units.
# The weights of a tile then sum to at least exp(-200), so that terms that underflow are negligible
# compared with _TINY times this sum.
PRODUCT_LIMIT = 100.0
# If P(on) or P(off) of a unit is below this number, its log-odds are computed again with
# log-sum-exp.
_TINY = 1e-180


@jit(fastmath={"contract"})
def _double(weight, length, t, u):
    """Double a list of weights, for the two values of the next unit: off (u) and on (t).

    The first `length` weights are multiplied by u, for the unit off. The next `length` entries
    become the old weights times t, for the unit on.
    """
    for s in range(length):
        x = weight[s]
        weight[length + s] = x * t
        weight[s] = x * u


@jit(fastmath={"contract"})
def _multiply(weight, gain):
    """Multiply `weight` (S,) by `gain` (S,) in place."""
    for s in range(weight.shape[0]):
        weight[s] *= gain[s]


@jit(fastmath={"contract"})
def _add_scaled(weight, factor, out):
    """Add ``factor * weight`` (S,) to `out` (S,)."""
    for s in range(weight.shape[0]):
        out[s] += factor * weight[s]


@jit(fastmath={"contract"})
def _scale(values, factor):
    """Multiply `values` (K,) by a factor in place."""
    for s in range(values.shape[0]):
        values[s] *= factor


@jit(fastmath={"contract", "reassoc"})
def _total(weight):
    """Return the sum of `weight` (S,)."""
    total = 0.0
    for s in range(weight.shape[0]):
        total += weight[s]
    return total


@jit
def _sums_by_bit(weight, folded, on, off):
    """For each low unit, sum `weight` (S,) over the states with the unit on (or off).

    The outputs are `on` and `off` (l,); `folded` (S,) is scratch space.
    """
    fill(folded, 0.0)
    _add_scaled(weight, 1.0, folded)
    length = weight.shape[0]
    for i in range(on.shape[0] - 1, -1, -1):
        length //= 2
        upper, lower = folded[length : 2 * length], folded[:length]
        on[i], off[i] = _total(upper), _total(lower)
        _add_scaled(upper, 1.0, lower)


@jit
def _tile_weights(field, gain, weight):
    """Write the weights of the states of a tile, divided by a scale, to `weight` (S,).

    Return the log of the scale.
    """
    weight[0] = 1.0
    log_norm = 0.0
    length = 1
    for i in range(field.shape[0]):
        t, u = sigmoid_pair(field[i], 1.0)
        log_norm += softplus(field[i])
        _double(weight, length, t, u)
        length *= 2
    _multiply(weight, gain)
    return log_norm


@jit
def _add_pairs(tile, n_low, k, factor, total, low_on, both):
    """For each pair of units, add the weight of the states with both units on to `both` (k, k).

    The pairs are all pairs with at least one high unit, and the states are the states of a tile,
    whose weights are multiplied by `factor`.
    """
    for h in range(n_low, k):
        if not (tile >> (h - n_low)) & 1:
            continue
        for i in range(n_low):
            both[i, h] += factor * low_on[i]
        for g in range(n_low, h):
            if (tile >> (g - n_low)) & 1:
                both[g, h] += factor * total


@jit
def _low_pairs(weight, n_low, both):
    """For each pair of low units, write the weight of the states with both on to `both` (k, k)."""
    for i in range(n_low):
        for j in range(i + 1, n_low):
            acc = 0.0
            for start in range(1 << j, weight.shape[0], 2 << j):
                for middle in range(start + (1 << i), start + (1 << j), 2 << i):
                    acc += _total(weight[middle : middle + (1 << i)])
            both[i, j] = acc


@jit
def _add_beliefs(both, on, factor, pairwise):
    """Add ``factor * both`` to `pairwise` (k, k), and ``factor * on`` to its diagonal."""
    for i in range(on.shape[0]):
        pairwise[i, i] += factor * on[i]
        for j in range(i + 1, on.shape[0]):
            pairwise[i, j] += factor * both[i, j]
            pairwise[j, i] += factor * both[i, j]


@jit
def enumerate_ising(
    enumerated, low_field, coupling, low_gain, high_score, weight, want_pairwise,
    log_partition, log_odds, pairwise,
):  # fmt: skip
    """Compute log Z, log-odds and pairwise sums for N rows of k units, by enumeration.

    Parameters
    ----------
    enumerated : (N, k) float64
        Change of the score if a unit is turned on while all other units are off.
    low_field : (N, l) float64
        Change of the score if a low unit is turned on while all other units are off, without the
        couplings among low units.
    coupling : (k, l) float64
        Change of a low unit's field if an enumerated unit is turned on; the entries between two
        low units are not used.
    low_gain : (S,) float64
        exp of the pair scores of the low units; S = 2^l.
    high_score : (2^(k - l),) float64, pair scores of the high units
    weight : (N,) float64, weight of each row in the pairwise sum
    want_pairwise : bool
    log_partition : (N,) output
    log_odds : (N, k) output; NaN if P(on) or P(off) is below `_TINY`, so that the caller must
        compute the log-odds by `enumerate_states`
    pairwise : (k, k) output, to which the weighted sum of P(both units on) is added
    """
    n_rows, k = enumerated.shape
    n_states, n_low = low_gain.shape[0], low_field.shape[1]
    field = np.empty(n_low)
    tile_weight = np.empty(n_states)
    low_weight = np.empty(n_states)
    folded = np.empty(n_states)
    on, off = np.empty(k), np.empty(k)
    low_on, low_off = np.empty(n_low), np.empty(n_low)
    both = np.empty((k, k))
    for n in range(n_rows):
        level = -np.inf
        fill(low_weight, 0.0)
        fill(on, 0.0)
        fill(off, 0.0)
        fill(both.ravel(), 0.0)
        for tile in range(high_score.shape[0]):
            offset = shifted_fields(tile, n_low, coupling, enumerated[n], low_field[n], field)
            offset += high_score[tile] + _tile_weights(field, low_gain, tile_weight)
            total = _total(tile_weight)
            # this tile has a larger scale than all previous tiles: rescale the sums
            if offset > level:
                shrink = math.exp(level - offset)
                _scale(low_weight, shrink)
                _scale(on, shrink)
                _scale(off, shrink)
                if want_pairwise:
                    _scale(both.ravel(), shrink)
                level = offset
            factor = math.exp(offset - level)
            _add_scaled(tile_weight, factor, low_weight)
            for h in range(n_low, k):
                if (tile >> (h - n_low)) & 1:
                    on[h] += factor * total
                else:
                    off[h] += factor * total
            if want_pairwise:
                _sums_by_bit(tile_weight, folded, low_on, low_off)
                _add_pairs(tile, n_low, k, factor, total, low_on, both)
        z = _total(low_weight)
        log_partition[n] = level + math.log(z)
        _sums_by_bit(low_weight, folded, on[:n_low], off[:n_low])
        for i in range(k):
            log_odds[n, i] = np.nan
            if min(on[i], off[i]) > _TINY * z:
                log_odds[n, i] = math.log(on[i]) - math.log(off[i])
        if want_pairwise:
            _low_pairs(low_weight, n_low, both)
            _add_beliefs(both, on, weight[n] / z, pairwise)
