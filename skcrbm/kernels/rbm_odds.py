"""Message passing on restricted Boltzmann machines in the odds domain.

The notation follows Ping & Ihler (2017), Algorithm 1: theta are the log-odds of beliefs,
t = sigma(theta) and u = 1 - t; E = exp(W); R is the message from a visible to a hidden unit, as
odds. The message from hidden unit j to a visible unit is ``D = num / den``, with
``num = E t_j + u_j R`` and ``den = t_j + u_j R``. D is computed when it is needed.

The kernel stores one matrix R, and divides once per edge and iteration. Products of a few messages
must stay inside the range of the dtype. If they could exceed the range, the caller uses `rbm_log`,
which has the same algorithms with messages as log-odds.

In mixed-product a visible unit sends R = E if it prefers to be on, else R = 1. With a damping of
1/2, a message becomes the square root of the product of its old and new odds. Other values of
damping, except 0, need `rbm_log`.

Clamped units send no message. A clamped visible unit is not among the active rows, and its messages
stay 1. A clamped hidden unit has odds 0, so t = 0 and u = 1, which makes its messages D = 1. The
kernel processes the rows in blocks, which are groups of `_BLOCK` rows.
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.exponentials import beliefs
from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import (
    EPS_32,
    EPS_64,
    MIXED,
    ROUNDING,
    add_row,
    copy_into,
    fill,
    log_odds_moved,
    odds_from_beliefs,
    odds_moved,
    sigmoid_pair,
    softplus,
)

# Largest |log| of a product of messages in float64. The product is multiplied by exp(bias), so
# biases are limited such that the result stays inside the range of float64, about e^709.
_PRODUCT_RANGE = 400.0
_BIAS_RANGE = 300.0
# Rows of a block, which are processed together: two matrices with _BLOCK rows fit the L1 cache.
_BLOCK = 16


class OddsWork(NamedTuple):
    """Scratch arrays of `pass_odds`: messages, their products, and the beliefs of a model."""

    message: np.ndarray  # (V, H) odds visible -> hidden
    t: np.ndarray  # (H,) P(hidden unit on), and `u` P(hidden unit off)
    u: np.ndarray
    ti: np.ndarray  # (V,) P(visible unit on), and `ui` P(visible unit off)
    ui: np.ndarray
    bias_odds: np.ndarray  # (V,) exponentials of the visible biases
    hidden_odds: np.ndarray  # (H,) exponentials of the hidden biases; 0 if clamped
    ratio: np.ndarray  # (V,) product of the messages into a visible unit
    last_ratio: np.ndarray  # `ratio` before the last iteration
    # (H,) products of messages into hidden units, in three parts. Before `column` (dtype of the
    # model) could overflow, it is multiplied into `product` (float64). Before `product` could
    # overflow, its log is added to `total`.
    column: np.ndarray
    product: np.ndarray
    last_product: np.ndarray  # `product` before the last iteration
    total: np.ndarray
    rows: np.ndarray  # (V,) uintp, indices of the active rows
    field: np.ndarray  # (H,) scratch space
    visited: np.ndarray  # (V,) int8, state that each visible unit prefers


@jit(fastmath={"contract", "reassoc"})
def _products(odds, message, t, u, first, last):
    """Return the products of num and of den over the hidden units first to last - 1."""
    num = odds.dtype.type(1)
    den = odds.dtype.type(1)
    for j in range(np.uintp(first), np.uintp(last)):
        um = u[j] * message[j]
        num *= odds[j] * t[j] + um
        den *= t[j] + um
    return num, den


@jit
def _log_products(odds, message, t, u, piece):
    """Return log prod(num) and log prod(den). A product of `piece` factors fits the dtype."""
    log_num = 0.0
    log_den = 0.0
    for first in range(0, odds.shape[0], piece):
        num, den = _products(odds, message, t, u, first, min(odds.shape[0], first + piece))
        log_num += math.log(num)
        log_den += math.log(den)
    return log_num, log_den


# The next functions process two rows of a block at a time, so that `t`, `u` and `column` are loaded
# half as often. Indices are unsigned, because signed indices are tested for a negative sign at each
# access, which prevents vectorisation.


@jit
def _set_belief(i, num, den, bias_odds, ratio, ti, ui):
    """Set the belief of visible unit i from r = num / den; return the change of ti[i].

    r is the product of the messages to the unit. The belief is e r / (e r + 1), with e = exp(bias).
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
    """Set the beliefs of the visible units `rows`; return the largest change of P(on)."""
    one = t.dtype.type(1)
    change = t.dtype.type(0)
    n = np.uintp(t.shape[0])
    for k in range(0, rows.shape[0], 2):
        i0 = rows[k]
        i1 = rows[min(k + 1, rows.shape[0] - 1)]  # process an odd last row twice
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
    """Return the new message of an edge; `t` and `u` are P(on) and P(off) of its hidden unit."""
    um = u * message
    num = off * (e * t + um)
    den = on * (t + um)
    return (e * den + num) / (den + num)


@jit(fastmath={"contract"})
def _block_messages(odds, message, t, u, rows, ti, ui, halved, column, floor):
    """Replace the messages that the visible units `rows` send, and multiply `column` (H,) by them.

    If `halved`, each message becomes the geometric mean of its old and new value.
    """
    zero = t.dtype.type(0)
    n = np.uintp(t.shape[0])
    n_paired = 0 if halved else rows.shape[0] // 2 * 2
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
        i = rows[k]
        on = ti[i] if ti[i] >= floor else zero
        off = ui[i] if ui[i] >= floor else zero
        for j in range(n):
            old = message[i, j]
            new = _message(odds[i, j], old, t[j], u[j], on, off)
            new = math.sqrt(old * new) if halved else new
            message[i, j] = new
            column[j] *= new


@jit
def _block_choices(odds, message, rows, ti, ui, halved, column):
    """Replace the messages of mixed-product, in which a visible unit sends its preferred state."""
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
    """For visible unit i, add scale * P(h_j = 1 | v_i = 1) to out[j]; see `_finish_row`."""
    for j in range(odds.shape[0]):
        et = odds[j] * t[j]
        out[j] += scale * et / (et + u[j] * message[j])


@jit
def _flush(column, product):
    """Multiply `product` (H,) float64 by `column` (H,), and reset `column` to 1."""
    for j in range(column.shape[0]):
        product[j] *= column[j]
        column[j] = 1


@jit
def _flush_logs(product, total):
    """Add log(product) to `total` (H,) float64, and reset `product` (H,) to 1."""
    for j in range(product.shape[0]):
        total[j] += math.log(product[j])
        product[j] = 1


@jit
def _beliefs_from_products(product, bias_odds, t, u):
    """Set P(on) `t` and P(off) `u` from odds product * bias_odds; return the change of `t`."""
    change = t.dtype.type(0)
    for j in range(t.shape[0]):
        on = product[j] * bias_odds[j]
        off = 1.0 / (1.0 + on)
        old = t[j]
        t[j] = on * off
        u[j] = off
        change = max(change, abs(t[j] - old))
    return change


@jit
def _read_messages(source, odds, message):
    """Copy messages of an earlier run to `message` (H,), clipped to lie between 1 and `odds`."""
    one = odds.dtype.type(1)
    for j in range(np.uintp(message.shape[0])):
        e, r = odds[j], source[j]
        low = e if e < one else one
        high = one if e < one else e
        r = r if r > low else low
        message[j] = r if r < high else high


@jit
def _start_messages(kind, odds, start, n, t, u, ti, ui, free, message):
    """Set the initial messages (V, H) to `start[n]` or, if `start` is empty, from the beliefs."""
    for i in range(message.shape[0]):
        if not free[i]:
            fill(message[i], 1)
        elif start.shape[0]:
            _read_messages(start[n, i], odds[i], message[i])
        elif kind != MIXED:
            odds_from_beliefs(odds[i], t, u, ti[i], ui[i], message[i])
        elif ti[i] > ui[i]:
            copy_into(odds[i], message[i])
        else:
            fill(message[i], 1)


@jit
def _drop_tiny(t, u, floor):
    """Set entries of `t` and `u` (H,) below `floor` to 0, because denormal floats are slow."""
    zero = floor * t.dtype.type(0)
    for j in range(t.shape[0]):
        t[j] = t[j] if t[j] >= floor else zero
        u[j] = u[j] if u[j] >= floor else zero


@jit
def _odds_of(bias, limit):
    """Return exp(bias), after clipping the bias to the range from -limit to limit."""
    return math.exp(min(max(float(bias), -limit), limit))


@jit
def _visited_state(visible_bias, ti, ui, rows, state):
    """Set `state` (V,) to the preferred values; return the sum of the biases of the units on."""
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
    """Return the sum of softplus(field) over the free hidden units, given a visible `state`.

    The fields are written to `field` (H,).
    """
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


@jit(allocates=False, inline=True)
def _set_up_row(model, work, visible_bias, hidden_bias, free_v, free_h, theta_v, theta_h, cold):
    """Prepare the beliefs and the active rows (free visible units) of a model.

    Easy rows, whose products of messages fit a float64, come first. All other rows are computed in
    logs. Return the numbers of easy rows and of active rows, and True if hidden units need logs.
    """
    t, u, ti, ui, rows = work.t, work.u, work.ti, work.ui, work.rows
    norm = model.norm
    bias_odds, hidden_odds, ratio, product = (
        work.bias_odds, work.hidden_odds, work.ratio, work.product,
    )  # fmt: skip
    fill(t, 0)
    fill(ti, 0)
    beliefs(theta_h, free_h, t, u)
    beliefs(theta_v, free_v, ti, ui)
    # A cold start treats all hidden units as off. They then send messages of 1, and visible units
    # begin with their biases alone.
    if cold:
        fill(t, 0)
        fill(u, 1)
    n_easy = 0
    for i in range(ti.shape[0]):
        bias = visible_bias[i]
        bias_odds[i] = _odds_of(bias, _BIAS_RANGE)
        ratio[i] = 1.0
        if not free_v[i]:
            theta_v[i] = 0
            ti[i], ui[i] = 0, 1
        elif norm[i] <= _PRODUCT_RANGE and abs(bias) <= _BIAS_RANGE:
            rows[n_easy] = i
            n_easy += 1
    n_active = n_easy
    for i in range(ti.shape[0]):
        easy = norm[i] <= _PRODUCT_RANGE and abs(visible_bias[i]) <= _BIAS_RANGE
        if free_v[i] and not easy:
            rows[n_active] = i
            n_active += 1
    needs_logs = False
    for j in range(t.shape[0]):
        hidden_odds[j] = _odds_of(hidden_bias[j], _BIAS_RANGE)
        product[j] = 1.0
        if not free_h[j]:
            hidden_odds[j] = 0.0
            theta_h[j] = 0
            t[j], u[j] = 0, 1
        elif abs(hidden_bias[j]) > _BIAS_RANGE:
            needs_logs = True
    return n_easy, n_active, needs_logs


@jit(allocates=False, inline=True)
def _sweep(kind, model, work, n_easy, n_active, halved, first_time, visible_bias, theta_v, slack):
    """Update the beliefs and messages of all visible units, and the products into hidden units.

    Return the largest change of a belief, and two flags: True if log-odds of a row computed in logs
    changed, and True if logs of products of messages were added to `work.total`.
    """
    odds, piece, step, limit, floor = model.odds, model.piece, model.step, model.limit, model.floor
    message, t, u, ti, ui = work.message, work.t, work.u, work.ti, work.ui
    column, product, total, rows = work.column, work.product, work.total, work.rows
    real = odds.dtype.type
    one = real(1)
    rounding = ROUNDING * (EPS_32 if odds.itemsize == 4 else EPS_64)
    change = real(0)
    moved = False
    in_logs = False
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
        if first_time:
            pass  # keep the beliefs, because the visible units have received no messages yet
        elif first < n_easy:
            found = _block_beliefs(
                odds, message, t, u, block, piece, work.bias_odds, work.ratio, ti, ui
            )
            change = max(change, found)
        else:
            for k in range(first, last):
                i = rows[k]
                log_num, log_den = _log_products(odds[i], message[i], t, u, np.intp(piece[i]))
                theta = visible_bias[i] + real(log_num - log_den)
                moved |= log_odds_moved(theta, theta_v[i], slack, rounding)
                theta_v[i] = theta
                old = ti[i]
                ti[i], ui[i] = sigmoid_pair(theta, one)
                change = max(change, abs(ti[i] - old))
        if kind == MIXED:
            _block_choices(odds, message, block, ti, ui, halved, column)
        else:
            _block_messages(odds, message, t, u, block, ti, ui, halved, column, floor)
        first = last
    _flush(column, product)
    return change, moved, in_logs


@jit(allocates=False, inline=True)
def _finish_row(n, model, work, rows, options, weight, free_h, theta_v, theta_h, answers):
    """Compute the log partition function and the statistics of a model.

    Let E = odds[i, j] be exp(weight) of an edge, R = message[i, j], and t and u the final beliefs
    that unit j is on or off. Then P(h_j = 1 | v_i = 1) = E t / (E t + R u), and the edge adds
    log((t + R u) / R) to Bethe's log Z. This term is 0 if hidden unit j is clamped.
    """
    odds, piece = model.odds, model.piece
    message, t, u, ti = work.message, work.t, work.u, work.ti
    if options.want_statistics:
        pairwise = answers.pairwise
        for i in range(ti.shape[0]):
            if ti[i] > 0:
                _add_pairwise_row(odds[i], message[i], t, u, weight * ti[i], pairwise[i])
    if options.want_log_partition:
        log_z = 0.0
        for j in range(theta_h.shape[0]):
            log_z -= work.total[j]
            if free_h[j]:
                log_z += softplus(theta_h[j])
        for k in range(rows.shape[0]):
            i = rows[k]
            log_z += softplus(theta_v[i])
            log_z += _log_products(odds[i], message[i], t, u, np.intp(piece[i]))[1]
        answers.log_partition[n] = log_z
    if answers.kept.shape[0]:
        for i in range(ti.shape[0]):
            copy_into(message[i], answers.kept[n, i])


@jit(allocates=False, inline=True)
def _update_hidden(work, in_logs, hidden_bias, free_h, theta_h, slack):
    """Set beliefs of hidden units. Return the largest change, and True if log-odds changed."""
    t, u, product, total = work.t, work.u, work.product, work.total
    if not in_logs:
        return _beliefs_from_products(product, work.hidden_odds, t, u), False
    rounding = ROUNDING * (EPS_32 if t.itemsize == 4 else EPS_64)
    _flush_logs(product, total)
    moved = False
    for j in range(t.shape[0]):
        old = theta_h[j]
        theta_h[j] = hidden_bias[j] + t.dtype.type(total[j])
        moved |= free_h[j] and log_odds_moved(theta_h[j], old, slack, rounding)
    return beliefs(theta_h, free_h, t, u), moved


@jit(allocates=False, inline=True)
def _keep_visited(n, model, work, in_logs, halved, n_active, batch, theta_h, answers):
    """In mixed-product, store the state that visible units prefer if it is the best so far."""
    n_visible, visited = work.ti.shape[0], work.visited
    free_h = batch.free[n, n_visible:]
    rows = work.rows[:n_active]
    reached = _visited_state(batch.visible_bias[n], work.ti, work.ui, rows, visited)
    if halved:  # damped messages do not belong to a state: compute the fields from the state
        reached += _hidden_score(model.weights, batch.hidden_bias[n], free_h, visited, work.field)
    else:
        for j in range(theta_h.shape[0]):
            if not in_logs:
                reached += math.log1p(work.product[j] * work.hidden_odds[j])
            elif free_h[j]:
                reached += softplus(theta_h[j])
    if reached > answers.score[n]:
        answers.score[n] = reached
        for i in range(n_visible):
            answers.state[n, i] = visited[i]


def odds_work(odds):
    """Allocate the scratch arrays of `pass_odds` for couplings `odds` (V, H)."""
    (v, h), dtype = odds.shape, odds.dtype
    return OddsWork(
        np.empty((v, h), dtype), np.empty(h, dtype), np.empty(h, dtype), np.empty(v, dtype),
        np.empty(v, dtype), np.empty(v), np.empty(h), np.empty(v), np.empty(v), np.ones(h, dtype),
        np.empty(h), np.empty(h), np.empty(h), np.empty(v, np.uintp), np.empty(h),
        np.empty(v, np.int8),
    )  # fmt: skip


@jit(allocates=False)
def pass_odds(kind, model, batch, options, answers, work):
    """Pass sum-product or mixed-product messages for N models until each model has converged.

    Parameters
    ----------
    kind : SUM or MIXED
    model : OddsCouplings
    batch : RBMRows, with messages as odds
    options : RBMOptions, with a damping of 0 or 1/2
    answers : RBMAnswers, with messages as odds; for MIXED, `score` is -F(v) of the best state found
    work : OddsWork, from `odds_work`
    """
    n_visible, n_hidden = work.message.shape
    message, t, u, ti, ui = work.message, work.t, work.u, work.ti, work.ui
    ratio, last_ratio = work.ratio, work.last_ratio
    product, last_product, rows = work.product, work.last_product, work.rows
    real = t.dtype.type
    slack, halved = options.slack, options.damping > 0
    growth = math.exp(min(slack, _PRODUCT_RANGE))
    for n in range(batch.visible_bias.shape[0]):
        visible_bias, hidden_bias = batch.visible_bias[n], batch.hidden_bias[n]
        theta_v, theta_h = answers.log_odds[n, :n_visible], answers.log_odds[n, n_visible:]
        free_v, free_h = batch.free[n, :n_visible], batch.free[n, n_visible:]
        n_easy, n_active, needs_logs = _set_up_row(
            model, work, visible_bias, hidden_bias, free_v, free_h, theta_v, theta_h, options.cold
        )
        if options.warm:
            _start_messages(kind, model.odds, batch.start, n, t, u, ti, ui, free_v, message)
            for k in range(n_easy):
                i = rows[k]
                ratio[i] = _odds_of(theta_v[i] - visible_bias[i], _PRODUCT_RANGE)
            for j in range(n_hidden):
                if free_h[j]:
                    product[j] = _odds_of(theta_h[j] - hidden_bias[j], _PRODUCT_RANGE)
        else:
            for i in range(n_visible):
                fill(message[i], 1)
        answers.converged[n] = False
        iteration = -1 if options.cold else 0
        while iteration < options.max_iter:
            iteration += 1
            copy_into(ratio, last_ratio)
            copy_into(product, last_product)
            _drop_tiny(t, u, model.floor)
            fill(product, 1)
            fill(work.total, 0)
            change, moved, in_logs = _sweep(
                kind, model, work, n_easy, n_active, halved, iteration == 0, visible_bias, theta_v,
                slack,
            )  # fmt: skip
            in_logs |= needs_logs
            found, over = _update_hidden(work, in_logs, hidden_bias, free_h, theta_h, slack)
            change, moved = max(change, found), moved or over
            if kind == MIXED:
                _keep_visited(n, model, work, in_logs, halved, n_active, batch, theta_h, answers)
            if iteration == 0:
                continue
            if answers.trace.shape[1]:
                answers.trace[n, iteration - 1] = change
            if change < options.tol and not moved:
                moved = odds_moved(ratio, last_ratio, free_v, growth)
                if not in_logs:
                    moved |= odds_moved(product, last_product, free_h, growth)
                if not moved:
                    answers.converged[n] = True
                    break
        answers.n_iter[n] = iteration
        _flush_logs(product, work.total)
        for j in range(n_hidden):
            theta_h[j] = hidden_bias[j] + real(work.total[j]) if free_h[j] else real(0)
        for k in range(n_easy):
            i = rows[k]
            theta_v[i] = visible_bias[i] + real(math.log(ratio[i]))
        _finish_row(
            n, model, work, rows[:n_active], options, batch.weight[n], free_h, theta_v, theta_h,
            answers,
        )  # fmt: skip
