"""Scalar functions and small loops that several kernels share."""

import math

import numpy as np

from skcrbm.kernels.jit import jit

# What a message passing kernel computes.
SUM, MAX, MIXED = 0, 1, 2
# Terms of a log-sum this far below the largest one are left out: exp(-60) of 2^30 states
# is nothing in float64.
NEGLIGIBLE = 60.0
# Relative error, in eps, of a log-odds: it may differ by as much if computed twice.
ROUNDING = 4.0


@jit
def fill(out, value):
    """Set out (K,) = value; slice assignment would take seconds to compile."""
    for j in range(out.shape[0]):
        out[j] = value


@jit
def copy_into(source, out):
    """Set out (K,) = source (K,)."""
    for j in range(out.shape[0]):
        out[j] = source[j]


@jit(fastmath={"contract"})
def add_row(weights, i, field):
    """Field (H,) += weights[i]."""
    for j in range(np.uintp(field.shape[0])):
        field[j] += weights[i, j]


@jit(fastmath={"contract", "reassoc"})
def dot(x, y):
    """Inner product of x and y (K,)."""
    total = x.dtype.type(0)
    for k in range(x.shape[0]):
        total += x[k] * y[k]
    return total


@jit
def softplus(x):
    """log(1 + e^x)."""
    return max(x, x - x) + math.log1p(math.exp(-abs(x)))


@jit
def sigmoid_pair(x, one):
    """(sigma(x), sigma(-x)), both to full relative precision; `one` is 1 in the dtype of x."""
    z = math.exp(-abs(x))
    large = one / (one + z)
    small = z * large
    if x >= 0:
        return large, small
    return small, large


@jit
def log_add(x, y):
    """log(exp(x) + exp(y))."""
    return max(x, y) + math.log1p(math.exp(-abs(x - y))) if x != -math.inf else y


@jit
def beliefs(theta, free, t, u, one):
    """Fill t, u (H,) of the free units from log-odds theta (H,); return the largest change."""
    change = one * 0
    for j in range(theta.shape[0]):
        if not free[j]:
            continue
        old = t[j]
        t[j], u[j] = sigmoid_pair(theta[j], one)
        change = max(change, abs(t[j] - old))
    return change


# Convergence. A saturated belief says nothing of its log-odds: messages may still be on their
# way to units that will turn over. So a model has converged when neither moves. Where all
# messages are sent at once, two that change may cancel in a belief: in the next iteration what
# they say comes back to where they came from, or they still change, with damping. So neither may
# move in two iterations in turn, nor the messages between these.


@jit
def log_odds_moved(theta, last, slack, rounding):
    """Whether a log-odds differs from the last one by more than slack and its rounding."""
    return abs(theta - last) > slack + rounding * abs(theta)


@jit
def odds_moved(product, last, free, factor):
    """Whether product (K,) differs from last (K,) by more than this factor where free."""
    moved = False
    for k in range(product.shape[0]):
        moved |= free[k] & ((product[k] > factor * last[k]) | (last[k] > factor * product[k]))
    return moved


@jit
def message_from_beliefs(w, theta_i, theta_j):
    """Log R of the fixed point that has these two beliefs.

    At a fixed point R^2 + B R = C with C = E T_j and
    B = T_j (t_i + E u_i) - (E t_i + u_i); computed in float64.
    """
    limit = 300.0
    w = min(max(float(w), -limit), limit)
    tj = math.exp(min(max(float(theta_j), -limit), limit))
    ti, ui = sigmoid_pair(float(theta_i), 1.0)
    e = math.exp(w)
    b = tj * (ti + e * ui) - (e * ti + ui)
    # (root of c) and hypot keep b^2 + 4c inside the range
    root = math.sqrt(e) * math.sqrt(tj)
    disc = math.hypot(b, 2.0 * root)
    r = 2.0 * root / (b + disc) * root if b > 0 else 0.5 * (disc - b)
    bound = abs(w)
    return min(max(math.log(r), -bound), bound)


@jit
def max_message_from_beliefs(w, theta_i, theta_j):
    """Message visible i -> hidden j of a max-product fixed point that has these beliefs.

    The two messages of an edge solve a = f(w, theta_j - b), b = f(w, theta_i - a) with
    f(w, x) = relu(w + x) - relu(x); the unit with the stronger belief saturates its own.
    """
    zero = w - w
    b = min(w, zero)
    a = zero
    if (theta_i if w > 0 else -theta_i) < theta_j:
        x = theta_j - b
        a = max(w + x, zero) - max(x, zero)
    x = theta_i - a
    b = max(w + x, zero) - max(x, zero)
    x = theta_j - b
    a = max(w + x, zero) - max(x, zero)
    x = theta_i - a
    return max(w + x, zero) - max(x, zero)


# Enumeration of the states of one side in tiles: low bits within a tile, high bits between.


@jit
def n_low_units(n_states):
    """Return l of a table of S = 2^l states."""
    n_low = 0
    while (1 << n_low) < n_states:
        n_low += 1
    return n_low


@jit
def possible_fields(fields, free, n_low, out):
    """Fill out (k,) with the fields of the enumerated units, -inf where held; see below.

    So the log-weight of a state with a held unit on is -inf. Returns the high units that are
    held as bits: a tile with one of them on has no possible state.
    """
    held_high = 0
    for h in range(fields.shape[0]):
        out[h] = fields[h] if free[h] else -math.inf
        if h >= n_low and not free[h]:
            held_high |= 1 << (h - n_low)
    return held_high


@jit
def shifted_fields(state, n_low, coupling, enumerated, summed, field):
    """Fields (m,) of the summed units with the high bits of `state` on; returns their own."""
    n_high = enumerated.shape[0] - n_low
    offset = 0.0
    for i in range(summed.shape[0]):
        field[i] = summed[i]
    for h in range(n_high):
        if (state >> h) & 1:
            offset += enumerated[n_low + h]
            for i in range(summed.shape[0]):
                field[i] += coupling[n_low + h, i]
    return offset


@jit
def low_fields(offset, enumerated, out):
    """Fill out (S,) with offset and the fields of the low units that are on."""
    out[0] = offset
    bit, length = 0, 1
    while length < out.shape[0]:
        for s in range(length):
            out[length + s] = out[s] + enumerated[bit]
        bit += 1
        length *= 2


@jit
def add_log_of(value, r, high, total):
    """Log-sum-exp so far is high[r] + log(total[r]); add value to it."""
    if value > high[r]:
        total[r] = total[r] * math.exp(high[r] - value) + 1.0
        high[r] = value
    elif value > high[r] - NEGLIGIBLE:
        total[r] += math.exp(value - high[r])


@jit
def entropy_term(p):
    """-p log p."""
    return -p * math.log(p) if p > 0 else 0.0


@jit
def binary_entropy(theta):
    """Entropy of a unit with log-odds theta, in float64."""
    x = abs(float(theta))
    z = math.exp(-x)
    return math.log1p(z) + x * z / (1.0 + z)


# Many models side by side: the last axis of all arrays are the models, as SIMD lanes.


@jit
def copy_lanes(source, target, n_lanes):
    """Set the first lanes of target (n, lanes) to those of source."""
    for row in range(np.uintp(source.shape[0])):
        for l in range(n_lanes):
            target[row, l] = source[row, l]


@jit
def lane_probabilities(on, off, last, n_lanes):
    """Fill last (n, lanes) with the beliefs as probabilities."""
    for v in range(np.uintp(on.shape[0])):
        for l in range(n_lanes):
            last[v, l] = on[v, l] / (on[v, l] + off[v, l])


@jit
def lane_changes(on, off, last, change, n_lanes):
    """Fill change with the largest change of a probability in each lane; update last."""
    for l in range(n_lanes):
        change[l] = 0
    for v in range(np.uintp(on.shape[0])):
        for l in range(n_lanes):
            p = on[v, l] / (on[v, l] + off[v, l])
            change[l] = max(change[l], abs(p - last[v, l]))
            last[v, l] = p


@jit
def lane_moved(on, before, off, l, factor):
    """Whether the odds of some variable that is not held differ by more than a factor."""
    for v in range(on.shape[0]):
        x, y = on[v, l], before[v, l]
        if off[v, l] > 0 and (x > factor * y or y > factor * x):
            return True
    return False


@jit
def messages_moved(message, l, kept, m, factor):
    """Whether a message (E, lanes) of lane l differs by more than a factor from that of kept."""
    for e in range(message.shape[0]):
        x, y = message[e, l], kept[e, m]
        if x > factor * y or y > factor * x:
            return True
    return False


@jit
def lane_settled(here, message, l, kept, m, still, factor):
    """Whether lane l, which holds model m, has converged; notes what the next iteration asks for.

    Parameters
    ----------
    here : bool
        Whether its beliefs stood still in this iteration.
    message : (E, n_lanes)
    kept : (E, n_models) in and out
        Messages at the last iteration in which the beliefs began to stand still.
    still : (n_models,) bool in and out
        Whether the beliefs stood still in the iteration before.
    factor : float
        By how much an odds that stands still may change.
    """
    before = still[m]
    still[m] = here
    if before and here:
        before = not messages_moved(message, l, kept, m, factor)
    if here and not before:
        for e in range(message.shape[0]):
            kept[e, m] = message[e, l]
    return before and here


@jit
def swap_lanes(array, i, j):
    """Exchange two lanes of an array (n, lanes)."""
    for row in range(array.shape[0]):
        array[row, i], array[row, j] = array[row, j], array[row, i]


# Exponentials and logarithms by polynomials after taking out powers of two, as loops that
# the compiler can vectorise: no library does that for compiled code everywhere.
_LN2_HIGH_32 = np.float32(0.693359375)
_LN2_LOW_32 = np.float32(-2.12194440e-4)
_ROUND_32 = np.float32(12582912.0)  # 1.5 * 2^23: adding it rounds to an integer
_ROUND_BITS_32 = np.int32(0x4B400000)
_SQRT_HALF_BITS_32 = np.int32(0x3F3504F3)
_LN2_HIGH_64 = 6.93147180369123816490e-01
_LN2_LOW_64 = 1.90821492927058770002e-10
_ROUND_64 = 6755399441055744.0
_ROUND_BITS_64 = np.int64(0x4338000000000000)
_SQRT_HALF_BITS_64 = np.int64(0x3FE6A09E667F3BCD)
# Smallest sum that a message may be the logarithm of: its inverse times anything is finite.
_FLOOR_32 = np.float32(1e-30)
_FLOOR_64 = 1e-280
# log(1 + exp(x)) is 0 beside 1 from here on; its square is no denormal float, which are slow.
_TAIL_32 = np.float32(-40)
_TAIL_64 = -40.0
# exp(f) for |f| <= log(2) / 2, interpolated at Chebyshev's points: to 3e-9 and 4e-18.
_EXP_TERMS_32 = tuple(
    np.float32(c)
    for c in (
        1.0, 1.000000037716214, 0.5000000047117757, 0.16666415514653277, 0.04166635289677516,
        0.008375126398153335, 0.0013941108433972674,
    )
)  # fmt: skip
_EXP_TERMS_64 = (
    1.0, 1.0, 0.5000000000000019, 0.1666666666666668, 0.0416666666664881, 0.008333333333319601,
    0.0013888888952314775, 0.00019841269890047113, 2.4801485482328494e-05, 2.755724091857897e-06,
    2.763263963904103e-07, 2.5110037605963777e-08,
)  # fmt: skip
# log((1 + s) / (1 - s)) / s for |s| <= 1/3 as a polynomial in s^2: to 4e-9 and 5e-17.
_LOG_TERMS_32 = tuple(
    np.float32(c)
    for c in (
        2.000000007681759, 0.6666632164137777, 0.40024595230703747, 0.27965157745197267,
        0.2815777836308910,
    )
)  # fmt: skip
_LOG_TERMS_64 = (
    2.0, 0.6666666666668257, 0.399999999952876, 0.2857142911165716, 0.22222190861346283,
    0.1818285980047391, 0.15363676248891633, 0.13591305485579894, 0.09880789048764786,
    0.17780763826113302,
)  # fmt: skip


@jit(fastmath={"contract"})
def _exp_32(x):
    """exp(x) of a float32 from -87 to 80."""
    shifted = x * np.float32(1.4426950408889634) + _ROUND_32
    whole = shifted - _ROUND_32
    f = x - whole * _LN2_HIGH_32 - whole * _LN2_LOW_32
    p = _EXP_TERMS_32[5] + f * _EXP_TERMS_32[6]
    p = _EXP_TERMS_32[4] + f * p
    p = _EXP_TERMS_32[3] + f * p
    p = _EXP_TERMS_32[2] + f * p
    p = _EXP_TERMS_32[1] + f * p
    p = _EXP_TERMS_32[0] + f * p
    bits = (np.float32(shifted).view(np.int32) - _ROUND_BITS_32 + np.int32(127)) << np.int32(23)
    return p * np.int32(bits).view(np.float32)


@jit(fastmath={"contract"})
def _exp_64(x):
    """exp(x) of a float64 from -707 to 700."""
    shifted = x * 1.4426950408889634 + _ROUND_64
    whole = shifted - _ROUND_64
    f = x - whole * _LN2_HIGH_64 - whole * _LN2_LOW_64
    p = _EXP_TERMS_64[10] + f * _EXP_TERMS_64[11]
    p = _EXP_TERMS_64[9] + f * p
    p = _EXP_TERMS_64[8] + f * p
    p = _EXP_TERMS_64[7] + f * p
    p = _EXP_TERMS_64[6] + f * p
    p = _EXP_TERMS_64[5] + f * p
    p = _EXP_TERMS_64[4] + f * p
    p = _EXP_TERMS_64[3] + f * p
    p = _EXP_TERMS_64[2] + f * p
    p = _EXP_TERMS_64[1] + f * p
    p = _EXP_TERMS_64[0] + f * p
    bits = (np.float64(shifted).view(np.int64) - _ROUND_BITS_64 + np.int64(1023)) << np.int64(52)
    return p * np.int64(bits).view(np.float64)


@jit(fastmath={"contract"})
def _log_ratio_32(p, q):
    """log((1 + p) / (1 + q)) of two float32 in [0, 1]."""
    s = (p - q) / (np.float32(2) + p + q)
    z = s * s
    y = _LOG_TERMS_32[3] + z * _LOG_TERMS_32[4]
    y = _LOG_TERMS_32[2] + z * y
    y = _LOG_TERMS_32[1] + z * y
    y = _LOG_TERMS_32[0] + z * y
    return s * y


@jit(fastmath={"contract"})
def _log_ratio_64(p, q):
    """log((1 + p) / (1 + q)) of two float64 in [0, 1]."""
    s = (p - q) / (2.0 + p + q)
    z = s * s
    y = _LOG_TERMS_64[8] + z * _LOG_TERMS_64[9]
    y = _LOG_TERMS_64[7] + z * y
    y = _LOG_TERMS_64[6] + z * y
    y = _LOG_TERMS_64[5] + z * y
    y = _LOG_TERMS_64[4] + z * y
    y = _LOG_TERMS_64[3] + z * y
    y = _LOG_TERMS_64[2] + z * y
    y = _LOG_TERMS_64[1] + z * y
    y = _LOG_TERMS_64[0] + z * y
    return s * y


@jit(fastmath={"contract"})
def _exps_32(v, count):
    for k in range(np.uintp(count)):
        v[k] = _exp_32(max(np.float32(v[k]), np.float32(-87)))


@jit(fastmath={"contract"})
def _exps_64(v, count):
    for k in range(np.uintp(count)):
        v[k] = _exp_64(max(np.float64(v[k]), -707.0))


@jit(fastmath={"contract"})
def _log_32(v, count):
    """Replace v[:count] float32, positive, by its logarithm; the floor where it is smaller."""
    one = np.float32(1)
    for k in range(np.uintp(count)):
        bits = np.float32(max(np.float32(v[k]), _FLOOR_32)).view(np.int32)
        power = np.int32((bits - _SQRT_HALF_BITS_32) >> np.int32(23))
        m = np.int32(bits - (power << np.int32(23))).view(np.float32)
        s = (m - one) / (m + one)
        q = s * s
        p = np.float32(1 / 7) + q * np.float32(1 / 9)
        p = np.float32(1 / 5) + q * p
        p = np.float32(1 / 3) + q * p
        p = one + q * p
        whole = np.int32(power + _ROUND_BITS_32).view(np.float32) - _ROUND_32
        v[k] = whole * _LN2_HIGH_32 + (whole * _LN2_LOW_32 + np.float32(2) * s * p)


@jit(fastmath={"contract"})
def _log_64(v, count):
    """Replace v[:count] float64, positive, by its logarithm; the floor where it is smaller."""
    for k in range(np.uintp(count)):
        bits = np.float64(max(np.float64(v[k]), _FLOOR_64)).view(np.int64)
        power = np.int64((bits - _SQRT_HALF_BITS_64) >> np.int64(52))
        m = np.int64(bits - (power << np.int64(52))).view(np.float64)
        s = (m - 1.0) / (m + 1.0)
        q = s * s
        p = 1 / 19 + q * (1 / 21)
        p = 1 / 17 + q * p
        p = 1 / 15 + q * p
        p = 1 / 13 + q * p
        p = 1 / 11 + q * p
        p = 1 / 9 + q * p
        p = 1 / 7 + q * p
        p = 1 / 5 + q * p
        p = 1 / 3 + q * p
        p = 1.0 + q * p
        whole = np.int64(power + _ROUND_BITS_64).view(np.float64) - _ROUND_64
        v[k] = whole * _LN2_HIGH_64 + (whole * _LN2_LOW_64 + 2.0 * s * p)


@jit(by_precision=(_exps_32, _exps_64))
def exp_in_place(v, count):
    """Replace v[:count], at most 80 (700), by its exponential; v is 1-D, float32 (float64)."""
    if v.itemsize == 4:
        _exps_32(v, count)
    else:
        _exps_64(v, count)


@jit(by_precision=(_log_32, _log_64))
def log_in_place(v, count):
    """Replace v[:count] by its logarithm; v is 1-D, float32 or float64."""
    if v.itemsize == 4:
        _log_32(v, count)
    else:
        _log_64(v, count)


@jit(fastmath={"contract"})
def _log_messages_32(w, x, count):
    zero = np.float32(0)
    for k in range(np.uintp(count)):
        wk = np.float32(w[k])
        xk = np.float32(x[k])
        off = min(-xk, zero)
        on = wk + min(xk, zero)
        p = _exp_32(max(-abs(wk + xk), _TAIL_32))
        x[k] = max(on, off) + _log_ratio_32(p, _exp_32(max(-abs(xk), _TAIL_32)))


@jit(fastmath={"contract"})
def _log_messages_64(w, x, count):
    for k in range(np.uintp(count)):
        wk = np.float64(w[k])
        xk = np.float64(x[k])
        off = min(-xk, 0.0)
        on = wk + min(xk, 0.0)
        p = _exp_64(max(-abs(wk + xk), _TAIL_64))
        x[k] = max(on, off) + _log_ratio_64(p, _exp_64(max(-abs(xk), _TAIL_64)))


@jit(by_precision=(_log_messages_32, _log_messages_64))
def log_messages(w, x, count):
    """Replace x[:count] by sp(w + x) - sp(x); w and x are 1-D, float32 or float64.

    As ``max(w + min(x, 0), min(-x, 0)) + log((1 + exp(-|w + x|)) / (1 + exp(-|x|)))``: nothing
    overflows or cancels, the error is below (1 + |w|) eps.
    """
    if x.itemsize == 4:
        _log_messages_32(w, x, count)
    else:
        _log_messages_64(w, x, count)


@jit(fastmath={"contract"})
def _sign_messages_32(w, x, count):
    for k in range(np.uintp(count)):
        wk = np.float32(w[k])
        xk = np.float32(x[k])
        least = min(abs(wk), abs(xk))
        p = _exp_32(max(-abs(wk + xk), _TAIL_32))
        q = _exp_32(max(-abs(wk - xk), _TAIL_32))
        x[k] = (-least if (wk < 0) != (xk < 0) else least) + _log_ratio_32(p, q)


@jit(fastmath={"contract"})
def _sign_messages_64(w, x, count):
    for k in range(np.uintp(count)):
        wk = np.float64(w[k])
        xk = np.float64(x[k])
        least = min(abs(wk), abs(xk))
        p = _exp_64(max(-abs(wk + xk), _TAIL_64))
        q = _exp_64(max(-abs(wk - xk), _TAIL_64))
        x[k] = (-least if (wk < 0) != (xk < 0) else least) + _log_ratio_64(p, q)


@jit(by_precision=(_sign_messages_32, _sign_messages_64))
def sign_messages(w, x, count):
    """Replace x[:count] by log((e^(w + x) + 1) / (e^x + e^w)), of -1/+1 units; as above."""
    if x.itemsize == 4:
        _sign_messages_32(w, x, count)
    else:
        _sign_messages_64(w, x, count)


# Random numbers by counters, see `random_uniform`.

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)


@jit
def mix(x):
    """Scramble the 64 bits of x; SplitMix64's finaliser."""
    x = (x ^ (x >> _S30)) * _FIRST
    x = (x ^ (x >> _S27)) * _SECOND
    return x ^ (x >> _S31)


@jit
def unit_interval(x):
    """Uniform number on (0, 1) of 64 bits: 2^-53 (integer + 1/2), never 0, never 1."""
    return (np.float64(mix(x) >> _S11) + 0.5) * 1.1102230246251565e-16


@jit
def shuffle(order, count, state):
    """Put the first `count` entries of order into random order; xorshift64 (Marsaglia 2003)."""
    x = state[0]
    for r in range(count - 1, 0, -1):
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        j = int((x >> np.uint64(11)) * 1.1102230246251565e-16 * (r + 1))
        order[r], order[j] = order[j], order[r]
    state[0] = x
