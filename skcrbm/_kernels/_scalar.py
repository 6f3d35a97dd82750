"""Scalar functions and small loops that several kernels share."""

import math

from skcrbm._kernels._jit import jit

# What a message passing kernel computes.
SUM, MAX, MIXED = 0, 1, 2
# Terms of a log-sum this far below the largest one are left out: exp(-60) of 2^30 states
# is nothing in float64.
NEGLIGIBLE = 60.0


@jit
def fill(out, value):
    """Set out (K,) = value; slice assignment would take seconds to compile."""
    for j in range(out.shape[0]):
        out[j] = value


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
def log_message(w, x):
    """sp(w + x) - sp(x) without cancellation: log(sigma(-x) + sigma(x) e^w)."""
    zero = x - x  # in the dtype of x
    tail = math.log1p(math.exp(-abs(x)))
    off = -max(x, zero) - tail
    on = w - max(-x, zero) - tail
    return max(on, off) + math.log1p(math.exp(-abs(on - off)))


@jit
def log_add(x, y):
    """log(exp(x) + exp(y))."""
    return max(x, y) + math.log1p(math.exp(-abs(x - y))) if x != -math.inf else y


@jit
def beliefs(theta, t, u, one):
    """Fill t, u (H,) from log-odds theta (H,); return the largest change of t."""
    change = one * 0
    for j in range(theta.shape[0]):
        old = t[j]
        t[j], u[j] = sigmoid_pair(theta[j], one)
        change = max(change, abs(t[j] - old))
    return change


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
def binary_entropy(theta):
    """Entropy of a unit with log-odds theta, in float64."""
    x = abs(float(theta))
    z = math.exp(-x)
    return math.log1p(z) + x * z / (1.0 + z)
