"""Copy and draw the states of many models at once, which lie side by side on the last axis.

Such a model is a SIMD lane: a vector instruction processes several lanes at once. In `draw_lanes`,
a lane is one of several independent draws.
"""

import math

import numpy as np

from skcrbm.kernels.exponentials import exp_in_place
from skcrbm.kernels.jit import jit

# Log-odds are clipped to ±CERTAIN. With log-odds of ±CERTAIN the result of a draw is certain,
# because random numbers are at least 2^-54.
CERTAIN = 80.0
# If the relative difference of two compared float32 is below this number, the comparison is
# repeated in float64, because rounding may have changed its result.
_CLOSE = 1e-4


@jit
def copy_lanes(source, target, n_lanes):
    """Copy the first `n_lanes` lanes of `source` to `target` (n, lanes)."""
    for row in range(np.uintp(source.shape[0])):
        for l in range(n_lanes):
            target[row, l] = source[row, l]


@jit
def _odds_off(total, odds, n_lanes):
    """Write the odds exp(-total) of the value 0 to `odds`, in float32; `total` are log-odds."""
    for l in range(n_lanes):
        odds[l] = np.float32(min(max(-total[l], -CERTAIN), CERTAIN))
    exp_in_place(odds, n_lanes)


@jit
def _compare(u, odds, value, n_lanes):
    """Set `value` to 1 if u < 1 / (1 + odds), else to 0; return the number of close comparisons."""
    close = 0
    for l in range(n_lanes):
        share = u[l] * (1.0 + np.float64(odds[l]))
        value[l] = 1.0 if share < 1.0 else 0.0
        close += 1 if abs(share - 1.0) < _CLOSE * share else 0
    return close


@jit
def draw_lanes(u, total, odds, value, n_lanes):
    """Draw `value` (1 or 0) from the log-odds `total` and the random numbers `u`.

    `odds` (float32) is scratch space.
    """
    _odds_off(total, odds, n_lanes)
    if _compare(u, odds, value, n_lanes):
        for l in range(n_lanes):
            value[l] = 1.0 if u[l] * (1.0 + math.exp(-total[l])) < 1.0 else 0.0
