"""Exact inference on small RBMs: enumerate the states of one side, sum out the other side.

The enumerated side has k units with fields e, the summed side m units with fields a. A unit is on
if its value is 1. The first l enumerated units are called low units, and have S = 2^l states s. All
rows share the table ``gain[i, s] = exp(sum of the couplings of unit i to the low units that are on
in s)``. The other k - l enumerated units are called high units. A tile is the set of the S low
states for one state of the high units, which only shifts the fields. With t = sigma(field) and u =
1 - t, a summed unit contributes softplus(field) + log(u + t gain) to the log-weight of a state, so

    weight q(s) = exp(e.s) prod_i (u_i + t_i gain[i, s])
    P(unit i on, s) = t_i q(s) / (t_i + u_i loss[i, s]),  loss = 1 / gain,

and no transcendental function is needed per state. The factors of four summed units are multiplied
together, so that they share one division. If products could leave the range of a float, their
exponents are kept as integers in a separate array.

These kernels work with odds, whose range is limited. `enumeration.py` is used for couplings
beyond `MAX_NORM`, fields beyond `MAX_FIELD`, and enumerated units with a probability below `_TINY`.

States in which a clamped enumerated unit is on have weight 0. Clamped summed units are skipped.
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import fill, log_add, n_low_units

# Largest number of low units. With more low units, the arrays of a group of summed units would not
# fit the L1 cache.
MAX_LOW_UNITS = 8
# Distance between the beginnings of two rows of states in flat arrays. It is the largest number of
# states plus padding, and a constant, so that the compiler knows it. The padding spreads the rows
# over the cache. It also keeps the rows of sums further apart than the length of a vector register.
# Otherwise the compiled code would choose the order of summation by the addresses of the arrays,
# and rounding would differ from run to run.
ROW = (1 << MAX_LOW_UNITS) + 24
# Distance of two units in `Work.rows`, which holds a row of losses and a row of sums for each unit.
# The distance between the row of losses and the row of sums must not be a multiple of 4096 bytes,
# because then stores would delay the next loads.
STRIDE = 2 * ROW
# GROUP summed units form a group and share a division. The norm of a group is the sum of the
# |couplings| of its units. If it exceeds MAX_NORM, `enumeration` is used. States with a
# probability of at most _NOTHING are left out. For any fields, leaving out such a state changes
# P(unit on) / P(unit off) by a factor of less than 1 + _NOTHING * exp(MAX_NORM).
GROUP = 4
MAX_NORM = 300.0
_NOTHING = 1e-200
# Largest |log| of a product of weights. Before a product can exceed this limit, its power of two is
# moved to a separate array of exponents.
_MAX_PRODUCT = 600.0
# Largest |field| of an enumerated unit for which the exponent of exp(field) still fits an integer.
# If a field is larger, `enumeration` is used.
MAX_FIELD = 1e15
# If P(on) or P(off) of an enumerated unit is below _TINY, it is computed again by `enumeration`.
# For all other units, leaving out up to 2^30 states with a probability below _NOTHING changes P(on)
# and P(off) by less than a rounding error.
_TINY = 1e-170
# If P(on) of a unit is below _MOST, P(off) is computed as 1 - P(on). Otherwise this difference
# would be inaccurate, and P(off) is computed as a sum over states.
_MOST = 0.875
# Number of rows in a block. The rows of a block are processed together. The number is even, because
# `_divide` takes two rows at a time.
BLOCK = 4


class OddsTables(NamedTuple):
    """Tables of couplings for S = 2^l states of l low units and P = GROUP * n_groups places.

    Each of the m summed units has a place in a group; some places are empty. The number l is at
    most `MAX_LOW_UNITS`.
    """

    place: np.ndarray  # (m,) int64, place of each summed unit
    # (P * S,) float64, the table `gain` of the module docstring, place by place; 1 at empty places
    gain: np.ndarray
    # (n_groups,) float64, sum of |couplings| of each group, at most MAX_NORM in every group
    norm: np.ndarray


class ExactAnswers(NamedTuple):
    """Arrays that receive the results of `enumerate_rows`."""

    log_partition: np.ndarray  # (N,) log Z
    # (N, k + m) odds P(on) / P(off), enumerated units first; 1 if clamped. The odds of an
    # enumerated unit are NaN if P(on) or P(off) is below _TINY; the caller then computes them with
    # logs. The odds of summed units are divided by exp(summed field), because that exponential may
    # overflow.
    odds: np.ndarray
    pairwise: np.ndarray  # (m, k) output, to which weighted sums of P(both units on) are added


class Work(NamedTuple):
    """Scratch arrays of `enumerate_rows` for a block of BLOCK rows."""

    # (5, BLOCK * P): t, u, scratch space for shifted t, and sums for P(on) and P(off) of each
    # place. At first units[0] is 0 and all other entries are 1, so that empty places count as units
    # that are off.
    units: np.ndarray
    high: np.ndarray  # (2, P), 1 at first: `gain` and `loss` of `_high_factors`
    per_row: np.ndarray  # (6, BLOCK): six scratch numbers for each row
    scaled: np.ndarray  # (BLOCK,) bool, True if a row's products have separate exponents
    sides: np.ndarray  # (2, BLOCK, k + m): sums for P(on) and for P(off)
    product: np.ndarray  # (BLOCK * ROW,) weights of states divided by a power of two
    bits: np.ndarray  # `product` as int64
    exponent: np.ndarray  # (BLOCK * ROW,) int64, separate exponents of the products
    powers: np.ndarray  # `exponent` as float64
    rows: np.ndarray  # (P * STRIDE,) rows of losses and of sums


_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
_LN2 = 0.6931471805599453
_IMPOSSIBLE = -(1 << 60)  # power of 2 that stands for the weight 0
_MANTISSA, _ONE = (1 << 52) - 1, 1023 << 52  # bits of a float64


# Rows of states lie one after the other in flat arrays, and functions take the index at which a row
# starts. Slices would need reference counting, which is slow, and with two-dimensional arrays the
# compiler would not know the distance of the rows. The same loops run for all requested answers, so
# that the rounding of an answer does not depend on the other requested answers.


@jit
def _start_row(fields, z, free, place, t, u, start):
    """Write sigmoids of fields of free units to `t` and `u`; return the sum of softplus(field).

    `t` gets sigmoid(field) and `u` gets 1 - t. Unit i is written to index ``start + place[i]``. `z`
    (m,) is exp(-|fields|).
    """
    total = 0.0
    product = 1.0
    for i in range(fields.shape[0]):
        large = 1.0 / (1.0 + z[i])
        small = z[i] * large
        on = fields[i] >= 0
        t[start + place[i]] = large if on else small
        u[start + place[i]] = small if on else large
        if free[i]:
            total += max(fields[i], 0.0)
            product *= 1.0 + z[i]
            if product > 1e300:
                total += math.log(product)
                product = 1.0
        else:  # set t = 0 and u = 1, so that the factor u + t gain of a clamped unit is 1
            t[start + place[i]] = 0.0
            u[start + place[i]] = 1.0
    return total + math.log(product)


@jit(fastmath={"contract"})
def _enumerated_weights(fields, free, n_low, scaled, product, exponent, start):
    """Write the weights exp(fields . s) of all low states s to `product`.

    If `scaled`, the weights are product * 2^exponent, and `exponent` is also written.
    """
    product[start] = 1.0
    exponent[start] = 0
    for j in range(n_low):
        power = 0
        odds = 1.0
        if not free[j]:
            power = _IMPOSSIBLE >> 4  # divide by 16: the sum over low units must not overflow
        elif scaled:
            whole = np.rint(fields[j] * _LOG2_E)
            odds = math.exp((fields[j] - whole * _LN2_HIGH) - whole * _LN2_LOW)
            power = np.int64(whole)
        else:
            odds = math.exp(fields[j])
        length = 1 << j
        for s in range(start, start + length):
            product[np.uintp(s + length)] = product[np.uintp(s)] * odds
        if scaled:
            for s in range(start, start + length):
                exponent[np.uintp(s + length)] = exponent[np.uintp(s)] + power


@jit(fastmath={"contract"})
def _multiply(product, p, gain, g, t, u, i, n_states):
    """For each state, multiply `product` by the factors u + t gain of a group of units.

    `product` begins at index p for the first state, `t` and `u` at index i for the first unit, and
    `gain` at index g.
    """
    t0, t1, t2, t3 = t[i], t[i + 1], t[i + 2], t[i + 3]
    u0, u1, u2, u3 = u[i], u[i + 1], u[i + 2], u[i + 3]
    for s in range(n_states):
        d0 = u0 + t0 * gain[np.uintp(g + s)]
        d1 = u1 + t1 * gain[np.uintp(g + n_states + s)]
        d2 = u2 + t2 * gain[np.uintp(g + 2 * n_states + s)]
        d3 = u3 + t3 * gain[np.uintp(g + 3 * n_states + s)]
        product[np.uintp(p + s)] *= (d0 * d1) * (d2 * d3)


@jit
def _take_exponents(bits, exponent, start, n_states):
    """Move the powers of two of a row of floats to `exponent`; the floats are then in [1, 2).

    `bits` is a view of the positive floats as int64.
    """
    for s in range(start, start + n_states):
        b = bits[np.uintp(s)]
        exponent[np.uintp(s)] += (b >> 52) - 1023
        bits[np.uintp(s)] = (b & _MANTISSA) | _ONE


@jit
def _highest(exponent, start, n_states):
    """Return the largest exponent of a row, which begins at index `start`."""
    high = exponent[start]
    for s in range(start, start + n_states):
        high = max(high, exponent[np.uintp(s)])
    return high


@jit
def _put_exponents(product, exponent, powers, start, n_states, high):
    """Multiply `product` by 2^(exponent - high), for one row; `exponent` is overwritten.

    `powers` is a view of `exponent` as float64. The function sets the bits of the integers such
    that, read as floats, they are the powers of two.
    """
    for s in range(start, start + n_states):
        below = max(exponent[np.uintp(s)] - high, -1023)
        exponent[np.uintp(s)] = (below + 1023) << 52
    for s in range(start, start + n_states):
        product[np.uintp(s)] *= powers[np.uintp(s)]


@jit(fastmath={"contract", "reassoc"})
def _total(values, start, n):
    """Return the sum of n values."""
    total = 0.0
    for s in range(start, start + n):
        total += values[np.uintp(s)]
    return total


@jit(fastmath={"contract"})
def _fold(values, start, half):
    """Sum out a unit: add the second half of 2 * half values to the first half, in place."""
    for s in range(start, start + half):
        values[np.uintp(s)] += values[np.uintp(s + half)]


# The compiler may reorder the sums, because the rows of sums do not overlap other rows: see
# `STRIDE`.
@jit(fastmath={"contract", "reassoc"})
def _divide(product, p, rows, g, c, t, u, i, k, weight, r, n_states):
    """For a group of summed units in two rows, sum x = q / (t + u loss) over the states.

    P(unit on) is t times the sum. The weights q of the first row start at index p of `product`. In
    `t` and `u`, the units of the first row start at index i, and the units of the second row at
    index k. In `rows`, the losses start at index g. The products weight * t * x = weight * P(unit
    on, s) are added to `rows` from index c on.
    """
    t0, t1, t2, t3 = t[i], t[i + 1], t[i + 2], t[i + 3]
    u0, u1, u2, u3 = u[i], u[i + 1], u[i + 2], u[i + 3]
    t4, t5, t6, t7 = t[k], t[k + 1], t[k + 2], t[k + 3]
    u4, u5, u6, u7 = u[k], u[k + 1], u[k + 2], u[k + 3]
    w = weight[r]
    w0, w1, w2, w3 = w * t0, w * t1, w * t2, w * t3
    w = weight[r + 1]
    w4, w5, w6, w7 = w * t4, w * t5, w * t6, w * t7
    on0 = on1 = on2 = on3 = on4 = on5 = on6 = on7 = 0.0
    for s in range(n_states):
        h0 = rows[np.uintp(g + s)]
        h1 = rows[np.uintp(g + STRIDE + s)]
        h2 = rows[np.uintp(g + 2 * STRIDE + s)]
        h3 = rows[np.uintp(g + 3 * STRIDE + s)]
        d0, d1, d2, d3 = t0 + u0 * h0, t1 + u1 * h1, t2 + u2 * h2, t3 + u3 * h3
        left = d0 * d1
        right = d2 * d3
        shared = product[np.uintp(p + s)] / (left * right)
        right *= shared
        left *= shared
        x0, x1, x2, x3 = right * d1, right * d0, left * d3, left * d2
        d0, d1, d2, d3 = t4 + u4 * h0, t5 + u5 * h1, t6 + u6 * h2, t7 + u7 * h3
        left = d0 * d1
        right = d2 * d3
        shared = product[np.uintp(p + ROW + s)] / (left * right)
        right *= shared
        left *= shared
        x4, x5, x6, x7 = right * d1, right * d0, left * d3, left * d2
        rows[np.uintp(c + s)] += w0 * x0 + w4 * x4
        rows[np.uintp(c + STRIDE + s)] += w1 * x1 + w5 * x5
        rows[np.uintp(c + 2 * STRIDE + s)] += w2 * x2 + w6 * x6
        rows[np.uintp(c + 3 * STRIDE + s)] += w3 * x3 + w7 * x7
        on0 += x0
        on1 += x1
        on2 += x2
        on3 += x3
        on4 += x4
        on5 += x5
        on6 += x6
        on7 += x7
    return on0, on1, on2, on3, on4, on5, on6, on7


@jit(fastmath={"contract", "reassoc"})
def _sum_off(product, p, rows, g, t, u, n_states):
    """Return P(off) / u of one summed unit: the sum of q loss / (t + u loss) over the states."""
    off = 0.0
    for s in range(n_states):
        loss = rows[np.uintp(g + s)]
        off += product[np.uintp(p + s)] * loss / (t + u * loss)
    return off


@jit
def _high_factors(tile, n_low, coupling, place, gain, loss):
    """Write the effect of the high units on each summed unit to `gain` (P,) and `loss` (P,).

    The effect is exp(s) in `gain` and exp(-s) in `loss`, where s is the sum of the couplings of the
    summed unit to the high units that are on in a tile.
    """
    if coupling.shape[0] == n_low:
        return
    for i in range(coupling.shape[1]):
        total = 0.0
        for h in range(n_low, coupling.shape[0]):
            if (tile >> (h - n_low)) & 1:
                total += coupling[h, i]
        gain[place[i]] = math.exp(total)
        loss[place[i]] = math.exp(-total)


@jit
def _normalise(values, start, n, scale):
    """Multiply n values by `scale`, and set values of at most _NOTHING to 0.

    Tiny values are set to 0 because computing with denormal floats is slow.
    """
    for s in range(start, start + n):
        value = values[np.uintp(s)] * scale
        values[np.uintp(s)] = value if value > _NOTHING else 0.0


@jit
def _is_possible(tile, n_low, free):
    """Return False if a clamped high unit is on in a tile, else True; `free` (k,) is bool."""
    for h in range(n_low, free.shape[0]):
        on = (tile >> (h - n_low)) & 1
        if on and not free[h]:
            return False
    return True


@jit(allocates=False, inline=True)
def _tile_weights(tile, n_low, enumerated, free, tables, work):
    """Compute the weights of all states of the low units in a tile, for each row of a block.

    `work.product` gets the weights divided by a power of two for each row, `work.per_row[2]` the
    sums of these scaled weights, and `work.per_row[5]` the logarithms of the sums of the true
    weights. `enumerated` is (n, k) and `free` (n, k + m) for the n rows of the block.
    """
    gain, norm = tables.gain, tables.norm
    t, u, shifted = work.units[0], work.units[1], work.units[2]
    total, log_total, high_gain = work.per_row[2], work.per_row[5], work.high[0]
    scaled, product, bits, exponent = work.scaled, work.product, work.bits, work.exponent
    n_states = 1 << n_low
    n_places = high_gain.shape[0]
    for r in range(enumerated.shape[0]):
        _enumerated_weights(enumerated[r], free[r], n_low, scaled[r], product, exponent, r * ROW)
        for i in range(n_places):
            shifted[r * n_places + i] = t[r * n_places + i] * high_gain[i]
    used = 0.0
    for g in range(norm.shape[0]):
        used += norm[g]
        # If exponents are stored separately, the products are below 2^MAX_LOW_UNITS at first.
        full = used > _MAX_PRODUCT - MAX_LOW_UNITS
        if full:
            used = norm[g]
        for r in range(enumerated.shape[0]):
            if full and scaled[r]:
                _take_exponents(bits, exponent, r * ROW, n_states)
            i = r * n_places + g * GROUP
            _multiply(product, r * ROW, gain, g * GROUP * n_states, shifted, u, i, n_states)
    for r in range(enumerated.shape[0]):
        log_total[r] = 0.0
        if scaled[r]:
            _take_exponents(bits, exponent, r * ROW, n_states)
            high = _highest(exponent, r * ROW, n_states)
            _put_exponents(product, exponent, work.powers, r * ROW, n_states, high)
            log_total[r] = high * _LN2
        for h in range(n_low, enumerated.shape[1]):
            if (tile >> (h - n_low)) & 1:
                log_total[r] += enumerated[r, h]
        total[r] = _total(product, r * ROW, n_states)
        log_total[r] += math.log(total[r])


@jit(allocates=False, inline=True)
def _begin_block(enumerated, summed, z, free, weight, tables, n_low, work):
    """For a block of rows, compute the sigmoids of the fields, and set the sums to 0.

    `enumerated`, `summed`, `z`, `free` and `weight` contain the rows of this block only.
    """
    t, u, scaled = work.units[0], work.units[1], work.scaled
    softplus_sum, log_total = work.per_row[0], work.per_row[1]
    kept, block_weight = work.per_row[3], work.per_row[4]
    norm, place, n_places = tables.norm, tables.place, work.high.shape[1]
    norm_sum = 0.0
    for g in range(norm.shape[0]):
        norm_sum += norm[g]
    k = enumerated.shape[1]
    fill(block_weight, 0.0)
    fill(kept, 0.0)
    for r in range(enumerated.shape[0]):
        block_weight[r] = weight[r]
        softplus_sum[r] = _start_row(summed[r], z[r], free[r, k:], place, t, u, r * n_places)
        reach = norm_sum
        scaled[r] = False
        for j in range(n_low):
            reach += abs(enumerated[r, j])
            scaled[r] |= not free[r, j]
        scaled[r] |= reach > _MAX_PRODUCT
        log_total[r] = -math.inf
        fill(work.sides[0, r], 0.0)
        fill(work.sides[1, r], 0.0)


@jit(allocates=False, inline=True)
def _divide_groups(n, n_low, n_groups, want_statistics, work):
    """Compute P(on) and P(off) of the summed units of a tile, for the n rows of a block."""
    t, shifted, tile_on, tile_off = work.units[0], work.units[2], work.units[3], work.units[4]
    kept, block_weight = work.per_row[3], work.per_row[4]
    product, rows = work.product, work.rows
    n_states, n_places = 1 << n_low, work.high.shape[1]
    for g in range(n_groups):
        start = g * GROUP * STRIDE
        # without statistics, the sums are not used, so all groups may write to the same rows
        sums = ROW + (start if want_statistics else 0)
        for r in range(0, n, 2):
            i = r * n_places + g * GROUP
            found = _divide(
                product, r * ROW, rows, start, sums, t, shifted, i, i + n_places, block_weight, r,
                n_states,
            )  # fmt: skip
            for f in range(2 * GROUP):
                q, e = r + f // GROUP, f % GROUP
                i = q * n_places + g * GROUP + e
                tile_on[i] = found[f]
                if t[i] * found[f] < _MOST * kept[q]:
                    tile_off[i] = (kept[q] - t[i] * found[f]) / shifted[i]
                elif q < n:
                    tile_off[i] = _sum_off(
                        product, q * ROW, rows, start + e * STRIDE, t[i], shifted[i], n_states
                    )


@jit(allocates=False, inline=True)
def _add_tile(tile, n_low, k, free, tables, weight, want_statistics, pairwise, work):
    """Add the probabilities of a tile to P(on) and P(off) of all units, for the rows of a block.

    `free` is (n, k + m) and `weight` (n,) for the n rows of the block.
    """
    t, u, shifted = work.units[0], work.units[1], work.units[2]
    tile_on, tile_off, high_loss = work.units[3], work.units[4], work.high[1]
    log_total, total, kept, log_tile = (
        work.per_row[1], work.per_row[2], work.per_row[3], work.per_row[5],
    )  # fmt: skip
    on, off, product, place = work.sides[0], work.sides[1], work.product, tables.place
    n_states, n_places = 1 << n_low, work.high.shape[1]
    n = free.shape[0]
    fill(product[n * ROW :], 0.0)  # rows after the last row of an incomplete block
    for r in range(n):
        share = 0.0
        if _is_possible(tile, n_low, free[r, :k]):
            share = math.exp(log_tile[r] - log_total[r])
        scale = share / total[r]
        _normalise(product, r * ROW, n_states, scale)
        kept[r] = _total(product, r * ROW, n_states)
        for i in range(r * n_places, (r + 1) * n_places):
            shifted[i] = u[i] * high_loss[i - r * n_places]
        for h in range(n_low, k):
            if (tile >> (h - n_low)) & 1:
                on[r, h] += share
            else:
                off[r, h] += share
    _divide_groups(n, n_low, tables.norm.shape[0], want_statistics, work)
    for r in range(n):
        for i in range(place.shape[0]):
            p = r * n_places + place[i]
            on[r, k + i] += tile_on[p]
            off[r, k + i] += tile_off[p] * high_loss[place[i]]
            if want_statistics:
                for h in range(n_low, k):
                    if (tile >> (h - n_low)) & 1:
                        pairwise[i, h] += weight[r] * t[p] * tile_on[p]
        half = n_states
        for j in range(n_low - 1, -1, -1):
            half >>= 1
            off[r, j] += _total(product, r * ROW, half)
            on[r, j] += _total(product, r * ROW + half, half)
            _fold(product, r * ROW, half)


@jit(allocates=False)
def enumerate_rows(
    enumerated, summed, z, free, coupling, tables, weight, want_marginals, want_statistics, answers,
    work,
):  # fmt: skip
    """Compute exact answers for N rows, by odds instead of logarithms.

    Parameters
    ----------
    enumerated : (N, k) float64, fields of the enumerated units, at most MAX_FIELD in size
    summed : (N, m) float64, fields of the summed units
    z : (N, m) float64, exp(-|summed|)
    free : (N, k + m) bool, False for clamped units; the enumerated units come first
    coupling : (k, m) float64, couplings of k enumerated and m summed units
    tables : OddsTables
    weight : (N,) float64, weight of each row in the sum of the statistics
    want_marginals, want_statistics : bool
    answers : ExactAnswers
    work : Work
    """
    n_rows, k = enumerated.shape
    m = summed.shape[1]
    n_places = work.high.shape[1]
    gain, place, rows = tables.gain, tables.place, work.rows
    n_states = gain.shape[0] // n_places
    n_low = n_low_units(n_states)
    n_tiles = 1 << (k - n_low)
    wanted = want_marginals or want_statistics
    softplus_sum, log_total, log_tile = work.per_row[0], work.per_row[1], work.per_row[5]
    for p in range(n_places):
        for s in range(n_states):
            rows[p * STRIDE + s] = 1.0 / gain[p * n_states + s]
            rows[p * STRIDE + ROW + s] = 0.0
    for first in range(0, n_rows, BLOCK):
        last = min(first + BLOCK, n_rows)
        block, block_free = enumerated[first:last], free[first:last]
        block_weight = weight[first:last]
        _begin_block(
            block, summed[first:last], z[first:last], block_free, block_weight, tables, n_low, work
        )
        # All tiles are visited twice: first to compute the total weight, then to add up the
        # probabilities, which are weights divided by the total weight.
        for visit in range(2 * n_tiles if wanted else n_tiles):
            tile = visit % n_tiles
            if visit == 0 or n_tiles > 1:
                _high_factors(tile, n_low, coupling, place, work.high[0], work.high[1])
                _tile_weights(tile, n_low, block, block_free, tables, work)
            if visit < n_tiles:
                for r in range(last - first):
                    if _is_possible(tile, n_low, block_free[r, :k]):
                        log_total[r] = log_add(log_total[r], log_tile[r])
            else:
                _add_tile(
                    tile, n_low, k, block_free, tables, block_weight, want_statistics,
                    answers.pairwise, work,
                )  # fmt: skip
        for n in range(first, last):
            answers.log_partition[n] = softplus_sum[n - first] + log_total[n - first]
        if want_marginals:
            for n in range(first, last):
                for r in range(k + m):
                    high, low = work.sides[0, n - first, r], work.sides[1, n - first, r]
                    if not free[n, r]:
                        answers.odds[n, r] = 1.0
                    elif r < k and min(high, low) < _TINY:
                        answers.odds[n, r] = np.nan
                    else:
                        answers.odds[n, r] = high / low
    if want_statistics:
        for i in range(m):
            start = place[i] * STRIDE + ROW
            half = n_states
            for j in range(n_low - 1, -1, -1):
                half >>= 1
                answers.pairwise[i, j] += _total(rows, start + half, half)
                _fold(rows, start, half)
