"""Adam for large matrices if each training step has gradients for only a few rows.

Adam stores a mean gradient (first moment) and a mean square (second moment) for each parameter.
Each step of Adam moves a row along its mean gradient even if the row has no gradient in this step,
and then multiplies the mean gradient by beta1 and the root of the mean square by sqrt(beta2).
Updating all rows in each step would be slow. A row is therefore left alone until it has a gradient
again. Then a single step replaces the n steps that the row missed. The length of the single step
depends only on n and on the number of the current step.
"""

import numpy as np

from skcrbm.kernels.jit import jit


@jit
def _move_on(p, m, s, r, length, offset, first_left, second_left):
    """Subtract ``length * m / (sqrt(s) + offset)`` from row r of the parameters p.

    m are the mean gradients, and s the mean squares. Afterwards, row r of m is multiplied by
    `first_left`, and row r of s by `second_left`.
    """
    for h in range(np.uintp(p.shape[1])):
        p[r, h] -= length * (m[r, h] / (np.sqrt(s[r, h]) + offset))
        m[r, h] *= first_left
        s[r, h] *= second_left


@jit
def _step(p, m, s, r, g, k, length, offset, first_share, second_share):
    """Make an Adam step for row r of the parameters p, given its gradient ``g[k]``.

    The step also updates row r of the mean gradients m and of the mean squares s.
    """
    for h in range(np.uintp(p.shape[1])):
        d = g[k, h]
        m[r, h] += first_share * (d - m[r, h])
        s[r, h] += second_share * (d * d - s[r, h])
        p[r, h] -= length * (m[r, h] / (np.sqrt(s[r, h]) + offset))


@jit
def _add_up(lengths, start, lost, grown, n):
    """Add up the n steps that a row missed: return the sums of x[j] and of x[j] * grown[j].

    Here ``x[j] = lengths[start + j] * lost[j]`` is the length of the missed step j = 0, ..., n - 1,
    in units of m / sqrt(s) before the missed steps. See `bring_up_rows` for `lengths`, `lost` and
    `grown`. If start + j is beyond the end of `lengths`, the last entry of `lengths` is used.
    """
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
    """For some rows, make up for the steps that they missed because they had no gradient.

    After the call, the rows have made all steps up to step `now`.

    After j missed steps, the denominator of Adam is ``sqrt(s) / grown[j] + epsilon``. This function
    uses the same denominator, with the mean of `grown`, for all missed steps of a row. The relative
    error of this approximation is below 1e-4 * epsilon / sqrt(s).

    Parameters
    ----------
    p, m, s : (R, H) parameters, mean gradients, mean squares, in and out
    rows : (n,) indices of the rows to move
    done : (R,) int64, number of the last step that each row has made, in and out
    now : int, number of the step up to which the rows are moved
    rate : float, learning rate
    lengths : (L,) float64, lengths of the steps 1 to L for a learning rate of 1; all steps after
        step L have the length of step L
    lost : (J,) float64, the powers (beta1 / sqrt(beta2))^j for j = 1 to J: m / sqrt(s) shrinks to
        this share in j steps without a gradient; higher powers are negligible
    grown : (J,) float64, the powers beta2^(-j / 2) for j = 1 to J: sqrt(s) is divided by these
        factors in j steps without a gradient
    betas : (beta1, beta2), the factors of both moments in a step
    epsilon : float, the constant in the denominator of Adam
    """
    real = p.dtype.type
    for k in range(len(rows)):
        r = rows[k]
        n = now - done[r]
        if n <= 0:
            continue
        total, delayed = _add_up(lengths, done[r], lost, grown, min(n, len(lost)))
        # After many steps the mean gradient is negligible. It is set to 0, because computing with
        # tiny (denormal) floats is slow.
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
    """Make an Adam step for some rows of the parameters, given the gradients of these rows.

    Parameters
    ----------
    p, m, s : (R, H) parameters, mean gradients, mean squares, in and out
    rows : (n,) indices of the rows to move
    g : (n, H) gradients of the rows `rows`
    length : float, length of the step
    betas : (beta1, beta2), the factors of both moments in a step
    epsilon : float, the constant in the denominator of Adam
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
