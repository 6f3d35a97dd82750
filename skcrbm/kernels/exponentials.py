"""Compute exponentials, logarithms and log-odds messages in vectorised loops over 1-D arrays.

Numba has no vectorised exponential that runs on all platforms. The functions of this module split
off a power of two and evaluate a polynomial of the remainder. The compiler can vectorise both
steps.
"""

import numpy as np

from skcrbm.kernels.bits import bits_of, from_bits
from skcrbm.kernels.jit import jit

_LN2_32 = np.float32(0.69314718)
_LN2_HIGH_32 = np.float32(0.693359375)
_LN2_LOW_32 = np.float32(-2.12194440e-4)
_ROUND_32 = np.float32(12582912.0)  # 1.5 * 2^23: adding it to a float32 rounds to an integer
_ROUND_BITS_32 = np.int32(0x4B400000)
_SQRT_HALF_BITS_32 = np.int32(0x3F3504F3)
_LN2_64 = 0.6931471805599453
_LN2_HIGH_64 = 6.93147180369123816490e-01
_LN2_LOW_64 = 1.90821492927058770002e-10
_ROUND_64 = 6755399441055744.0
_ROUND_BITS_64 = np.int64(0x4338000000000000)
_SQRT_HALF_BITS_64 = np.int64(0x3FE6A09E667F3BCD)
# Smallest argument of `log_in_place`. Smaller arguments are replaced by this number, so that
# messages stay finite.
_FLOOR_32 = np.float32(1e-30)
_FLOOR_64 = 1e-280
# `_exp_tail_32` and `_exp_tail_64` replace smaller arguments by this number. exp(-40) is negligible
# beside 1, but even its square is a normal float32. Smaller numbers could become denormal floats,
# with which computing is slow.
_TAIL_32 = np.float32(-40)
_TAIL_64 = -40.0
# Coefficients of polynomials for exp(f) if |f| <= log(2) / 2, interpolated at Chebyshev points. The
# errors are 3e-9 and 4e-18.
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
# Coefficients of polynomials in s^2 for log((1 + s) / (1 - s)) / s if |s| <= 1/3. The errors are
# 4e-9 and 5e-17.
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
def _exp_series_32(f, shifted):
    """Return exp(f) * 2^k, where the last bits of `shifted` hold the integer k."""
    p = _EXP_TERMS_32[5] + f * _EXP_TERMS_32[6]
    p = _EXP_TERMS_32[4] + f * p
    p = _EXP_TERMS_32[3] + f * p
    p = _EXP_TERMS_32[2] + f * p
    p = _EXP_TERMS_32[1] + f * p
    p = _EXP_TERMS_32[0] + f * p
    bits = (bits_of(np.float32(shifted)) - _ROUND_BITS_32 + np.int32(127)) << np.int32(23)
    return p * from_bits(np.int32(bits))


@jit(fastmath={"contract"})
def _exp_32(x):
    """Return exp(x) for a float32 x from -87 to 80."""
    shifted = x * np.float32(1.4426950408889634) + _ROUND_32
    whole = shifted - _ROUND_32
    return _exp_series_32(x - whole * _LN2_HIGH_32 - whole * _LN2_LOW_32, shifted)


@jit(fastmath={"contract"})
def _exp_tail_32(x):
    """Return exp(x) for a float32 x <= 0; the absolute error is about the machine epsilon.

    If x is below `_TAIL_32`, exp(`_TAIL_32`) is returned.
    """
    x = max(x, _TAIL_32)
    shifted = x * np.float32(1.4426950408889634) + _ROUND_32
    return _exp_series_32(x - (shifted - _ROUND_32) * _LN2_32, shifted)


@jit(fastmath={"contract"})
def _exp_series_64(f, shifted):
    """Return exp(f) * 2^k, where the last bits of `shifted` hold the integer k."""
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
    bits = (bits_of(np.float64(shifted)) - _ROUND_BITS_64 + np.int64(1023)) << np.int64(52)
    return p * from_bits(np.int64(bits))


@jit(fastmath={"contract"})
def _exp_64(x):
    """Return exp(x) for a float64 x from -707 to 700."""
    shifted = x * 1.4426950408889634 + _ROUND_64
    whole = shifted - _ROUND_64
    return _exp_series_64(x - whole * _LN2_HIGH_64 - whole * _LN2_LOW_64, shifted)


@jit(fastmath={"contract"})
def _exp_tail_64(x):
    """Return exp(x) for a float64 x <= 0; the absolute error is about the machine epsilon.

    If x is below `_TAIL_64`, exp(`_TAIL_64`) is returned.
    """
    x = max(x, _TAIL_64)
    shifted = x * 1.4426950408889634 + _ROUND_64
    return _exp_series_64(x - (shifted - _ROUND_64) * _LN2_64, shifted)


@jit(fastmath={"contract"})
def _log_ratio_32(p, q):
    """Return log((1 + p) / (1 + q)) for two float32 numbers p and q in [0, 1]."""
    s = (p - q) / (np.float32(2) + p + q)
    z = s * s
    y = _LOG_TERMS_32[3] + z * _LOG_TERMS_32[4]
    y = _LOG_TERMS_32[2] + z * y
    y = _LOG_TERMS_32[1] + z * y
    y = _LOG_TERMS_32[0] + z * y
    return s * y


@jit(fastmath={"contract"})
def _log_ratio_64(p, q):
    """Return log((1 + p) / (1 + q)) for two float64 numbers p and q in [0, 1]."""
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
    """Replace v[:count] by log(max(v, _FLOOR_32)); `v` contains positive float32."""
    one = np.float32(1)
    for k in range(np.uintp(count)):
        bits = bits_of(np.float32(max(np.float32(v[k]), _FLOOR_32)))
        power = np.int32((bits - _SQRT_HALF_BITS_32) >> np.int32(23))
        m = from_bits(np.int32(bits - (power << np.int32(23))))
        s = (m - one) / (m + one)
        q = s * s
        p = np.float32(1 / 7) + q * np.float32(1 / 9)
        p = np.float32(1 / 5) + q * p
        p = np.float32(1 / 3) + q * p
        p = one + q * p
        whole = from_bits(np.int32(power + _ROUND_BITS_32)) - _ROUND_32
        v[k] = whole * _LN2_HIGH_32 + (whole * _LN2_LOW_32 + np.float32(2) * s * p)


@jit(fastmath={"contract"})
def _log_64(v, count):
    """Replace v[:count] by log(max(v, _FLOOR_64)); `v` contains positive float64."""
    for k in range(np.uintp(count)):
        bits = bits_of(np.float64(max(np.float64(v[k]), _FLOOR_64)))
        power = np.int64((bits - _SQRT_HALF_BITS_64) >> np.int64(52))
        m = from_bits(np.int64(bits - (power << np.int64(52))))
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
        whole = from_bits(np.int64(power + _ROUND_BITS_64)) - _ROUND_64
        v[k] = whole * _LN2_HIGH_64 + (whole * _LN2_LOW_64 + 2.0 * s * p)


@jit(by_precision=(_exps_32, _exps_64))
def exp_in_place(v, count):
    """Replace v[:count] by its exponential.

    `v` is 1-D, with values up to 80 if it is float32, or up to 700 if it is float64.
    """
    if v.itemsize == 4:
        _exps_32(v, count)
    else:
        _exps_64(v, count)


@jit(by_precision=(_log_32, _log_64))
def log_in_place(v, count):
    """Replace v[:count] by its logarithm; `v` is 1-D, float32 or float64."""
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
        p = _exp_tail_32(-abs(wk + xk))
        x[k] = max(on, off) + _log_ratio_32(p, _exp_tail_32(-abs(xk)))


@jit(fastmath={"contract"})
def _log_messages_64(w, x, count):
    for k in range(np.uintp(count)):
        wk = np.float64(w[k])
        xk = np.float64(x[k])
        off = min(-xk, 0.0)
        on = wk + min(xk, 0.0)
        p = _exp_tail_64(-abs(wk + xk))
        x[k] = max(on, off) + _log_ratio_64(p, _exp_tail_64(-abs(xk)))


@jit(by_precision=(_log_messages_32, _log_messages_64))
def log_messages(w, x, count):
    """Replace x[:count] by softplus(w + x) - softplus(x).

    `w` and `x` are 1-D, float32 or float64. To avoid overflow and cancellation, the difference is
    computed as ``max(w + min(x, 0), min(-x, 0)) + log((1 + exp(-|w + x|)) / (1 + exp(-|x|)))``.
    The error is below (1 + |w|) times the machine epsilon.
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
        p = _exp_tail_32(-abs(wk + xk))
        q = _exp_tail_32(-abs(wk - xk))
        x[k] = (-least if (wk < 0) != (xk < 0) else least) + _log_ratio_32(p, q)


@jit(fastmath={"contract"})
def _sign_messages_64(w, x, count):
    for k in range(np.uintp(count)):
        wk = np.float64(w[k])
        xk = np.float64(x[k])
        least = min(abs(wk), abs(xk))
        p = _exp_tail_64(-abs(wk + xk))
        q = _exp_tail_64(-abs(wk - xk))
        x[k] = (-least if (wk < 0) != (xk < 0) else least) + _log_ratio_64(p, q)


@jit(by_precision=(_sign_messages_32, _sign_messages_64))
def sign_messages(w, x, count):
    """Replace x[:count] by messages between -1/+1 units, log((e^(w + x) + 1) / (e^x + e^w)).

    The module docstring of `ising_messages` explains the formula. The arrays w and x are 1-D,
    float32 or float64.
    """
    if x.itemsize == 4:
        _sign_messages_32(w, x, count)
    else:
        _sign_messages_64(w, x, count)


@jit(fastmath={"contract"})
def _beliefs_32(theta, free, t, u):
    most = np.int32(0)
    for j in range(np.uintp(theta.shape[0])):
        x = np.float32(theta[j])
        least = -abs(x)
        z = _exp_32(max(least, np.float32(-87))) if least >= np.float32(-87) else np.float32(0)
        large = np.float32(1) / (np.float32(1) + z)
        small = z * large
        old = np.float32(t[j])
        on = x >= np.float32(0)
        number = x == x
        new = np.float32(((large if on else small) if number else x) if free[j] else old)
        t[j] = new
        u[j] = ((small if on else large) if number else x) if free[j] else u[j]
        # Compare the bits of the floats, so that the compiler can vectorise the loop. If floats are
        # not negative, their bits have the same order as the floats.
        most = max(most, bits_of(np.float32(abs(new - old))))
    return from_bits(np.int32(most))


@jit(fastmath={"contract"})
def _beliefs_64(theta, free, t, u):
    most = np.int64(0)
    for j in range(np.uintp(theta.shape[0])):
        x = np.float64(theta[j])
        least = -abs(x)
        z = _exp_64(max(least, -707.0)) if least >= -707.0 else 0.0
        large = 1.0 / (1.0 + z)
        small = z * large
        old = np.float64(t[j])
        on = x >= 0.0
        number = x == x
        new = np.float64(((large if on else small) if number else x) if free[j] else old)
        t[j] = new
        u[j] = ((small if on else large) if number else x) if free[j] else u[j]
        # Compare the bits of the floats, so that the compiler can vectorise the loop. If floats are
        # not negative, their bits have the same order as the floats.
        most = max(most, bits_of(np.float64(abs(new - old))))
    return from_bits(np.int64(most))


@jit(by_precision=(_beliefs_32, _beliefs_64))
def beliefs(theta, free, t, u):
    """Set `t` to P(on) and `u` to P(off) for the free units, from the log-odds `theta`.

    All arrays have the shape (H,), for H units. Return the largest change of an entry of `t`, or
    NaN if an entry of `theta` is NaN.
    """
    if t.itemsize == 4:
        return _beliefs_32(theta, free, t, u)
    return _beliefs_64(theta, free, t, u)
