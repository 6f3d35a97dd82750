"""Adam on rows of a matrix that are moved when they are next needed.

A row without a gradient still moves, along its mean gradient: a step later this is beta1 times
as large and the root of the mean square sqrt(beta2) times. Therefore n such steps are made as a
single step, whose length depends on n and the time only.
"""

import numpy as np

from skcrbm.kernels.jit import jit


@jit
def _move_on(p, m, s, r, length, offset, first_left, second_left):
    """Row r of p -= length m / (sqrt(s) + offset); m and s keep the given shares."""
    for h in range(np.uintp(p.shape[1])):
        p[r, h] -= length * (m[r, h] / (np.sqrt(s[r, h]) + offset))
        m[r, h] *= first_left
        s[r, h] *= second_left


@jit
def _step(p, m, s, r, g, k, length, offset, first_share, second_share):
    """One step of row r with gradient g[k]."""
    for h in range(np.uintp(p.shape[1])):
        d = g[k, h]
        m[r, h] += first_share * (d - m[r, h])
        s[r, h] += second_share * (d * d - s[r, h])
        p[r, h] -= length * (m[r, h] / (np.sqrt(s[r, h]) + offset))


@jit
def _add_up(lengths, start, lost, grown, n):
    """Sum of lengths[start + j] lost[j] over n steps, and of the same times grown[j]."""
    total = 0.0
    delayed = 0.0
    last = len(lengths) - 1
    for j in range(n):
        length = lengths[min(start + j, last)] * lost[j]
        total += length
        delayed += length * grown[j]
    return total, delayed


@jit
def bring_up_rows(p, m, s, rows, done, now, rate, lengths, lost, grown, betas, epsilon):
    """Make the steps without a gradient that rows have missed, up to step `now`.

    After j of them the denominator is ``sqrt(s) / grown + epsilon``. The sum over j is taken as
    the sum over one denominator with a mean of `grown`, whose relative error is below
    epsilon / sqrt(s)
    times 1e-4 of it.

    Parameters
    ----------
    p, m, s : (R, H) parameters, mean gradients, mean squares, in and out
    rows : (n,) which rows
    done : (R,) int64, number of the last step that each row has made, in and out
    now : int
    rate : float
    lengths : (L,) float64, of step t + 1 by rate 1; the last length is used for all later n
    lost : (J,) float64, (beta1 / sqrt(beta2))^j from j = 1; beyond J nothing is left
    grown : (J,) float64, beta2^(-j / 2)
    betas : (beta1, beta2)
    epsilon : float
    """
    real = p.dtype.type
    for k in range(len(rows)):
        r = rows[k]
        n = now - done[r]
        if n <= 0:
            continue
        total, delayed = _add_up(lengths, done[r], lost, grown, min(n, len(lost)))
        # The rest of a mean gradient after so many steps would be too small for fast arithmetic.
        left = betas[0] ** n if n < len(lost) else 0.0
        _move_on(
            p,
            m,
            s,
            np.uintp(r),
            real(rate * total),
            real(epsilon * delayed / total),
            real(left),
            real(betas[1] ** n),
        )
        done[r] = now


@jit
def step_rows(p, m, s, rows, g, length, betas, epsilon):
    """One step of some rows, with a gradient.

    Parameters
    ----------
    p, m, s : (R, H) parameters, mean gradients, mean squares, in and out
    rows : (n,) which rows
    g : (n, H) their gradients
    length : float
    betas : (beta1, beta2)
    epsilon : float
    """
    real = p.dtype.type
    for k in range(len(rows)):
        _step(
            p,
            m,
            s,
            np.uintp(rows[k]),
            g,
            np.uintp(k),
            real(length),
            real(epsilon),
            real(1 - betas[0]),
            real(1 - betas[1]),
        )
