"""Scalar functions and small loops that several kernels share."""

import math

from skcrbm._kernels._jit import jit


@jit
def fill(out, value):
    """Set out (K,) = value; slice assignment would take seconds to compile."""
    for j in range(out.shape[0]):
        out[j] = value


@jit
def softplus(x):
    """log(1 + e^x)."""
    return max(x, x * 0) + math.log1p(math.exp(-abs(x)))


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
    zero = x * 0
    tail = math.log1p(math.exp(-abs(x)))
    off = -max(x, zero) - tail
    on = w - max(-x, zero) - tail
    return max(on, off) + math.log1p(math.exp(-abs(on - off)))


@jit
def log_add(x, y):
    """log(exp(x) + exp(y))."""
    return max(x, y) + math.log1p(math.exp(-abs(x - y))) if x != -math.inf else y
