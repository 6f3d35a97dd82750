"""Message passing on restricted Boltzmann machines in the odds domain.

Notation as in Ping & Ihler (2017), Algorithm 1: theta are belief log-odds,
t = sigma(theta) and u = 1 - t; E = exp(W); R is the message visible -> hidden
as odds, D the message hidden -> visible, computed on the fly:
``D = num / den`` with ``num = E t_j + u_j R`` and ``den = t_j + u_j R``.

One matrix R is kept, and one division done per edge and iteration. The form is usable
while products of a few messages stay inside the dtype's range; `rbm_log` has the log
form of the same algorithms.

Mixed-product differs in what a visible unit sends: R = E if it prefers to be on, else 1.
A damping of 1/2 is a square root; others are left to the log form.

Held units are left out: a visible one is not among the active rows, and its messages stay 1;
a hidden one has odds 0, so t = 0 and u = 1, which makes its messages D = 1.
"""

import math

import numpy as np

from skcrbm.kernels.exponentials import beliefs
from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import (
    MIXED,
    ROUNDING,
    add_row,
    copy_into,
    fill,
    log_odds_moved,
    odds_moved,
    sigmoid_pair,
    softplus,
)

# Largest |log| of a float64 product, and of a bias that may multiply it.
_PRODUCT_RANGE = 400.0
_BIAS_RANGE = 300.0
# Rows done together; two small matrices of as many rows fit the L1 cache.
_BLOCK = 16


@jit(fastmath={"contract", "reassoc"})
def _products(odds, message, t, u, first, last):
    """Products of num and den over a row piece first:last, all (H,)."""
    num = odds.dtype.type(1)
    den = odds.dtype.type(1)
    for j in range(np.uintp(first), np.uintp(last)):
        um = u[j] * message[j]
        num *= odds[j] * t[j] + um
        den *= t[j] + um
    return num, den


@jit
def _log_products(odds, message, t, u, piece):
    """Return log prod(num) and log prod(den) over a row of any length."""
    log_num = 0.0
    log_den = 0.0
    for first in range(0, odds.shape[0], piece):
        num, den = _products(odds, message, t, u, first, min(odds.shape[0], first + piece))
        log_num += math.log(num)
        log_den += math.log(den)
    return log_num, log_den


# The next ones run over a block of rows, two at a time: what a row costs besides its edges
# counts, and a pair shares the loads of t, u and column. Indices are unsigned, as a sign
# test in each access would keep the loops from being vectorised.


@jit
def _set_belief(i, num, den, bias_odds, ratio, ti, ui):
    """Belief of visible unit i from r = num / den; returns the change of ti[i].

    With e = exp(bias), ti = e r / (e r + 1): no log, no exp.
    """
    ratio[i] = num / den
    num *= bias_odds[i]
    scale = 1.0 / (num + den)
    old = ti[i]
    ti[i] = num * scale
    ui[i] = den * scale
    return abs(ti[i] - old)


@jit(fastmath={"contract", "reassoc"})
def _block_beliefs(odds, message, t, u, rows, piece, bias_odds, ratio, ti, ui):
    """Beliefs of the visible units `rows`; returns the largest change of ti."""
    one = t.dtype.type(1)
    change = t.dtype.type(0)
    n = np.uintp(t.shape[0])
    for k in range(0, rows.shape[0], 2):
        i0 = rows[k]
        i1 = rows[min(k + 1, rows.shape[0] - 1)]  # an odd last row is done twice
        size = min(piece[i0], piece[i1])
        num_row0 = np.float64(1)
        den_row0 = np.float64(1)
        num_row1 = np.float64(1)
        den_row1 = np.float64(1)
        first = np.uintp(0)
        while first < n:
            last = min(n, first + size)
            num0, den0, num1, den1 = one, one, one, one
            for j in range(first, last):
                um0 = u[j] * message[i0, j]
                num0 *= odds[i0, j] * t[j] + um0
                den0 *= t[j] + um0
                um1 = u[j] * message[i1, j]
                num1 *= odds[i1, j] * t[j] + um1
                den1 *= t[j] + um1
            num_row0 *= num0
            den_row0 *= den0
            num_row1 *= num1
            den_row1 *= den1
            first = last
        change = max(change, _set_belief(i0, num_row0, den_row0, bias_odds, ratio, ti, ui))
        change = max(change, _set_belief(i1, num_row1, den_row1, bias_odds, ratio, ti, ui))
    return change


@jit(fastmath={"contract"})
def _message(e, message, t, u, on, off):
    """Message visible -> hidden from the old one and the beliefs at both ends."""
    um = u * message
    num = off * (e * t + um)
    den = on * (t + um)
    return (e * den + num) / (den + num)


@jit(fastmath={"contract"})
def _block_messages(odds, message, t, u, rows, ti, ui, column, floor):
    """Replace the messages visible -> hidden of `rows`, and multiply column (H,) by them."""
    zero = t.dtype.type(0)
    n = np.uintp(t.shape[0])
    n_paired = rows.shape[0] // 2 * 2
    for k in range(0, n_paired, 2):
        i0 = rows[k]
        i1 = rows[k + 1]
        on0 = ti[i0] if ti[i0] >= floor else zero
        off0 = ui[i0] if ui[i0] >= floor else zero
        on1 = ti[i1] if ti[i1] >= floor else zero
        off1 = ui[i1] if ui[i1] >= floor else zero
        for j in range(n):
            new0 = _message(odds[i0, j], message[i0, j], t[j], u[j], on0, off0)
            new1 = _message(odds[i1, j], message[i1, j], t[j], u[j], on1, off1)
            message[i0, j] = new0
            message[i1, j] = new1
            column[j] *= new0 * new1
    for k in range(n_paired, rows.shape[0]):
        i0 = rows[k]
        on0 = ti[i0] if ti[i0] >= floor else zero
        off0 = ui[i0] if ui[i0] >= floor else zero
        for j in range(n):
            new0 = _message(odds[i0, j], message[i0, j], t[j], u[j], on0, off0)
            message[i0, j] = new0
            column[j] *= new0


@jit(fastmath={"contract"})
def _block_halved(odds, message, t, u, rows, ti, ui, column, floor):
    """Replace messages as `_block_messages`, by the geometric mean with the old ones."""
    zero = t.dtype.type(0)
    for k in range(rows.shape[0]):
        i = rows[k]
        on = ti[i] if ti[i] >= floor else zero
        off = ui[i] if ui[i] >= floor else zero
        for j in range(np.uintp(t.shape[0])):
            old = message[i, j]
            new = math.sqrt(old * _message(odds[i, j], old, t[j], u[j], on, off))
            message[i, j] = new
            column[j] *= new


@jit
def _block_choices(odds, message, rows, ti, ui, halved, column):
    """Messages of mixed-product: each visible unit sends the state that it prefers."""
    n = np.uintp(column.shape[0])
    for k in range(rows.shape[0]):
        i = rows[k]
        if ti[i] > ui[i]:
            if halved:
                for j in range(n):
                    message[i, j] = math.sqrt(message[i, j] * odds[i, j])
            else:
                copy_into(odds[i], message[i])
            for j in range(n):
                column[j] *= message[i, j]
        elif halved:
            for j in range(n):
                message[i, j] = math.sqrt(message[i, j])
                column[j] *= message[i, j]
        else:
            fill(message[i], 1)


@jit(fastmath={"contract"})
def _add_pairwise_row(odds, message, t, u, scale, out):
    """Out (H,) += scale * P(h_j = 1 | v_i = 1), see `sum_product_odds`."""
    for j in range(odds.shape[0]):
        et = odds[j] * t[j]
        out[j] += scale * et / (et + u[j] * message[j])


@jit
def _flush(column, product):
    """Product (H,) float64 *= column (H,); column = 1."""
    for j in range(column.shape[0]):
        product[j] *= column[j]
        column[j] = 1


@jit
def _flush_logs(product, total):
    """Total (H,) float64 += log product (H,); product = 1."""
    for j in range(product.shape[0]):
        total[j] += math.log(product[j])
        product[j] = 1


@jit
def _beliefs_from_products(product, bias_odds, t, u):
    """Fill t, u (H,) from exp(theta) = product * bias_odds; return the largest change of t."""
    change = t.dtype.type(0)
    for j in range(t.shape[0]):
        on = product[j] * bias_odds[j]
        off = 1.0 / (1.0 + on)
        old = t[j]
        t[j] = on * off
        u[j] = off
        change = max(change, abs(t[j] - old))
    return change


@jit(fastmath={"contract"})
def _messages_from_beliefs(odds, t, u, on, off, message):
    """Fill message (H,) with those visible -> hidden of the fixed point that has these beliefs.

    There u R^2 + b R = E t with b = t (on + E off) - u (E on + off), where on and off are the
    beliefs of the visible unit. One root and one division, without a branch; a belief of 0
    leaves them finite.
    """
    one = odds.dtype.type(1)
    two = one + one
    four = two + two
    for j in range(np.uintp(message.shape[0])):
        e = odds[j]
        b = t[j] * (on + e * off) - u[j] * (e * on + off)
        root = math.sqrt(b * b + four * (u[j] * (e * t[j])))
        num = two * (e * t[j]) if b > 0 else root - b
        den = b + root if b > 0 else two * u[j]
        r = num / den
        low = e if e < one else one
        high = one if e < one else e
        r = r if r > low else low
        message[j] = r if r < high else high


@jit
def _read_messages(source, odds, message):
    """Fill message (H,) from an earlier run, kept between 1 and E."""
    one = odds.dtype.type(1)
    for j in range(np.uintp(message.shape[0])):
        e, r = odds[j], source[j]
        low = e if e < one else one
        high = one if e < one else e
        r = r if r > low else low
        message[j] = r if r < high else high


@jit
def _start_messages(kind, odds, start, n, t, u, ti, ui, free, message):
    """Fill message (V, H) from those of an earlier run, start[n], or from beliefs."""
    for i in range(message.shape[0]):
        if not free[i]:
            fill(message[i], 1)
        elif start.shape[0]:
            _read_messages(start[n, i], odds[i], message[i])
        elif kind != MIXED:
            _messages_from_beliefs(odds[i], t, u, ti[i], ui[i], message[i])
        elif ti[i] > ui[i]:
            copy_into(odds[i], message[i])
        else:
            fill(message[i], 1)


@jit
def _drop_tiny(t, u, floor):
    """Set t and u (H,) to 0 where they are below `floor`: denormal floats are slow."""
    zero = floor * t.dtype.type(0)
    for j in range(t.shape[0]):
        t[j] = t[j] if t[j] >= floor else zero
        u[j] = u[j] if u[j] >= floor else zero


@jit
def _odds_of(bias, limit):
    """exp(bias), |bias| at most `limit`."""
    return math.exp(min(max(float(bias), -limit), limit))


@jit
def _visited_state(visible_bias, ti, ui, rows, state):
    """Fill state (V,) with what the visible units prefer; return its score v'b."""
    score = 0.0
    fill(state, 0)
    for k in range(rows.shape[0]):
        i = rows[k]
        if ti[i] > ui[i]:
            state[i] = 1
            score += visible_bias[i]
    return score


@jit
def _hidden_score(weights, hidden_bias, free, state, field):
    """Sum of softplus of the fields (H,) of the free hidden units, given visible state (V,)."""
    for j in range(field.shape[0]):
        field[j] = hidden_bias[j]
    for i in range(state.shape[0]):
        if state[i]:
            add_row(weights, i, field)
    score = 0.0
    for j in range(field.shape[0]):
        if free[j]:
            score += softplus(field[j])
    return score


@jit
def pass_odds(
    kind, weights, odds, norm, piece, step, limit, floor, visible_bias, hidden_bias, free,
    cold, warm, start, max_iter, tol, slack, halved, weight, want_log_partition, want_statistics,
    log_odds, n_iter, converged, log_partition, pairwise, trace, score, state, kept,
):  # fmt: skip
    """Sum-product or mixed-product for a chunk of N rows.

    Parameters
    ----------
    kind : SUM or MIXED
    weights, odds : (V, H); odds = exp(weights)
    norm : (V,) float64, at least the sum of |weights| over each row
    piece : (V,) uintp, length of row pieces over which that sum is at most `limit`
    step : (V,) float64, at least the largest |weight| of each row; less than limit / 2
    limit : float, the largest |log| of a product that the dtype holds safely
    floor : float, a probability too small to matter in any message
    visible_bias, hidden_bias : (N, V), (N, H)
    free : (N, V + H) bool; held units are left out
    cold : bool, begin with messages of the visible units, as if the hidden ones had sent none
        (iteration 0, not counted); the hidden part of `log_odds` does not matter then
    warm : bool, start from the messages in `start`, or if there are none from those that fit
        the beliefs in `log_odds`; else from none
    start : (N or 0, V, H), messages of an earlier run as odds
    max_iter, tol : int, float (largest change of a belief as a probability)
    slack : float64, largest change of a belief log-odds
    halved : bool, damping of 1/2: the geometric mean of old and new messages visible -> hidden
    weight : (N,), used by the sum of the statistics
    want_log_partition, want_statistics : bool
    log_odds : (N, V + H) belief log-odds to start from, and output; 0 where held
    n_iter, converged, log_partition : (N,) outputs
    pairwise : (V, H) output, added to: weighted sum of P(v_i = 1, h_j = 1)
    trace : (N, max_iter or 0) output, residuals
    score : (N,) float64, (N, V) int8: with MIXED, -F(v) of the best state visited and that
        state; score holds what a state must beat
    kept : (N or 0, V, H) output, the last messages as odds
    """
    n_rows, n_visible = visible_bias.shape
    n_hidden = hidden_bias.shape[1]
    real = odds.dtype.type
    one = real(1)
    rounding = ROUNDING * np.finfo(odds.dtype).eps
    growth = math.exp(min(slack, _PRODUCT_RANGE))
    message = np.empty((n_visible, n_hidden), odds.dtype)
    t = np.empty(n_hidden, odds.dtype)
    u = np.empty(n_hidden, odds.dtype)
    ti = np.empty(n_visible, odds.dtype)
    ui = np.empty(n_visible, odds.dtype)
    # Products of messages into hidden units: column in the dtype, flushed into product in
    # float64, which is flushed into total as logs, each before it could leave its range.
    column = np.ones(n_hidden, odds.dtype)
    product = np.empty(n_hidden)
    last_product = np.empty(n_hidden)
    total = np.empty(n_hidden)
    field = np.empty(n_hidden)
    hidden_odds = np.empty(n_hidden)
    bias_odds = np.empty(n_visible)
    ratio = np.empty(n_visible)
    last_ratio = np.empty(n_visible)
    rows = np.empty(n_visible, np.uintp)
    visited = np.empty(n_visible, np.int8)
    for n in range(n_rows):
        theta_v = log_odds[n, :n_visible]
        theta_h = log_odds[n, n_visible:]
        free_v = free[n, :n_visible]
        free_h = free[n, n_visible:]
        fill(t, 0)
        fill(ti, 0)
        beliefs(theta_h, free_h, t, u)
        beliefs(theta_v, free_v, ti, ui)
        if cold:  # hidden units that are off send messages of 1
            fill(t, 0)
            fill(u, 1)
        # Rows whose products fit a float64 come first; the others take logs.
        n_easy = 0
        for i in range(n_visible):
            bias = visible_bias[n, i]
            bias_odds[i] = _odds_of(bias, _BIAS_RANGE)
            ratio[i] = 1.0
            if not free_v[i]:
                theta_v[i] = 0
                ti[i], ui[i] = 0, 1
            elif norm[i] <= _PRODUCT_RANGE and abs(bias) <= _BIAS_RANGE:
                rows[n_easy] = i
                n_easy += 1
        n_active = n_easy
        for i in range(n_visible):
            easy = norm[i] <= _PRODUCT_RANGE and abs(visible_bias[n, i]) <= _BIAS_RANGE
            if free_v[i] and not easy:
                rows[n_active] = i
                n_active += 1
        needs_logs = False
        for j in range(n_hidden):
            hidden_odds[j] = _odds_of(hidden_bias[n, j], _BIAS_RANGE)
            product[j] = 1.0
            if not free_h[j]:
                hidden_odds[j] = 0.0
                theta_h[j] = 0
                t[j], u[j] = 0, 1
            elif abs(hidden_bias[n, j]) > _BIAS_RANGE:
                needs_logs = True
        if warm:
            _start_messages(kind, odds, start, n, t, u, ti, ui, free_v, message)
            for k in range(n_easy):
                i = rows[k]
                ratio[i] = _odds_of(theta_v[i] - visible_bias[n, i], _PRODUCT_RANGE)
            for j in range(n_hidden):
                if free_h[j]:
                    product[j] = _odds_of(theta_h[j] - hidden_bias[n, j], _PRODUCT_RANGE)
        else:
            for i in range(n_visible):
                fill(message[i], 1)
        converged[n] = False
        iteration = -1 if cold else 0
        while iteration < max_iter:
            iteration += 1
            change = real(0)
            moved = False
            copy_into(ratio, last_ratio)
            copy_into(product, last_product)
            _drop_tiny(t, u, floor)
            fill(product, 1)
            fill(total, 0)
            in_logs = needs_logs
            column_norm = 0.0
            product_norm = 0.0
            first = 0
            while first < n_active:
                if column_norm + step[rows[first]] > limit:
                    _flush(column, product)
                    product_norm += column_norm
                    column_norm = 0.0
                    if product_norm + limit > _PRODUCT_RANGE:
                        _flush_logs(product, total)
                        product_norm = 0.0
                        in_logs = True
                last = first
                end = min(n_easy if first < n_easy else n_active, first + _BLOCK)
                while last < end:
                    if column_norm + step[rows[last]] > limit:
                        break
                    column_norm += step[rows[last]]
                    last += 1
                block = rows[first:last]
                if iteration == 0:
                    pass  # nothing has come to the visible units
                elif first < n_easy:
                    change = max(
                        change,
                        _block_beliefs(odds, message, t, u, block, piece, bias_odds, ratio, ti, ui),
                    )
                else:
                    for k in range(first, last):
                        i = rows[k]
                        log_num, log_den = _log_products(
                            odds[i], message[i], t, u, np.intp(piece[i])
                        )
                        theta = visible_bias[n, i] + real(log_num - log_den)
                        moved |= log_odds_moved(theta, theta_v[i], slack, rounding)
                        theta_v[i] = theta
                        old = ti[i]
                        ti[i], ui[i] = sigmoid_pair(theta, one)
                        change = max(change, abs(ti[i] - old))
                if kind == MIXED:
                    _block_choices(odds, message, block, ti, ui, halved, column)
                elif halved:
                    _block_halved(odds, message, t, u, block, ti, ui, column, floor)
                else:
                    _block_messages(odds, message, t, u, block, ti, ui, column, floor)
                first = last
            _flush(column, product)
            if in_logs:
                _flush_logs(product, total)
                for j in range(n_hidden):
                    old = theta_h[j]
                    theta_h[j] = hidden_bias[n, j] + real(total[j])
                    moved |= free_h[j] and log_odds_moved(theta_h[j], old, slack, rounding)
                change = max(change, beliefs(theta_h, free_h, t, u))
            else:
                change = max(change, _beliefs_from_products(product, hidden_odds, t, u))
            if kind == MIXED:
                reached = _visited_state(visible_bias[n], ti, ui, rows[:n_active], visited)
                if halved:  # the beliefs are not yet those given the state
                    reached += _hidden_score(weights, hidden_bias[n], free_h, visited, field)
                else:
                    for j in range(n_hidden):
                        if not in_logs:
                            reached += math.log1p(product[j] * hidden_odds[j])
                        elif free_h[j]:
                            reached += softplus(theta_h[j])
                if reached > score[n]:
                    score[n] = reached
                    for i in range(n_visible):
                        state[n, i] = visited[i]
            if iteration == 0:
                continue
            if trace.shape[1]:
                trace[n, iteration - 1] = change
            if change < tol and not moved:
                moved = odds_moved(ratio, last_ratio, free_v, growth)
                if not in_logs:
                    moved |= odds_moved(product, last_product, free_h, growth)
                if not moved:
                    converged[n] = True
                    break
        n_iter[n] = iteration
        _flush_logs(product, total)
        for j in range(n_hidden):
            theta_h[j] = hidden_bias[n, j] + real(total[j]) if free_h[j] else real(0)
        for k in range(n_easy):
            i = rows[k]
            theta_v[i] = visible_bias[n, i] + real(math.log(ratio[i]))
        # With D recomputed from the final hidden beliefs, P(h_j = 1 | v_i = 1) = E t_j / num
        # and the Bethe edge term is log(den / R): no message is needed but R. That of a held
        # hidden unit is 0, as den = R.
        if want_statistics:
            for i in range(n_visible):
                if ti[i] > 0:
                    _add_pairwise_row(odds[i], message[i], t, u, weight[n] * ti[i], pairwise[i])
        if want_log_partition:
            log_z = 0.0
            for j in range(n_hidden):
                log_z -= total[j]
                if free_h[j]:
                    log_z += softplus(theta_h[j])
            for k in range(n_active):
                i = rows[k]
                log_z += softplus(theta_v[i])
                log_z += _log_products(odds[i], message[i], t, u, np.intp(piece[i]))[1]
            log_partition[n] = log_z
        if kept.shape[0]:
            for i in range(n_visible):
                copy_into(message[i], kept[n, i])
