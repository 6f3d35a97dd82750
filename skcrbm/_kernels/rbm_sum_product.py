"""Sum-product on restricted Boltzmann machines, in two forms of one algorithm.

Notation as in Ping & Ihler (2017), Algorithm 1: theta are belief log-odds,
t = sigma(theta) and u = 1 - t; E = exp(W); R is the message visible -> hidden
as odds, D the message hidden -> visible, computed on the fly:
``D = num / den`` with ``num = E t_j + u_j R`` and ``den = t_j + u_j R``.

The odds form keeps one matrix R and does one division per edge and iteration.
It is usable while products of a few messages stay inside the dtype's range;
beyond that, and with damping, the log form keeps log R instead.
"""

import math

import numpy as np

from skcrbm._kernels._jit import jit
from skcrbm._kernels._scalar import fill, log_message, sigmoid_pair, softplus

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


# The next two run over a block of rows: what a row costs besides its edges counts. Indices
# are unsigned, as a sign test in each access would keep the loops from being vectorised.


@jit(fastmath={"contract", "reassoc"})
def _block_beliefs(odds, message, t, u, rows, easy, piece, bias_odds, ratio, ti, ui):
    """Beliefs of the easy visible units among `rows`; returns the largest change of ti.

    With r = prod(num / den) and e = exp(bias), ti = e r / (e r + 1): no log, no exp.
    """
    one = t.dtype.type(1)
    change = t.dtype.type(0)
    n = np.uintp(t.shape[0])
    for k in range(rows.shape[0]):
        i = rows[k]
        if not easy[i]:
            continue
        num_row = np.float64(1)
        den_row = np.float64(1)
        first = np.uintp(0)
        while first < n:
            last = min(n, first + piece[i])
            num = one
            den = one
            for j in range(first, last):
                um = u[j] * message[i, j]
                num *= odds[i, j] * t[j] + um
                den *= t[j] + um
            num_row *= num
            den_row *= den
            first = last
        ratio[i] = num_row / den_row
        num_row *= bias_odds[i]
        scale = 1.0 / (num_row + den_row)
        old = ti[i]
        ti[i] = num_row * scale
        ui[i] = den_row * scale
        change = max(change, abs(ti[i] - old))
    return change


@jit(fastmath={"contract"})
def _block_messages(odds, message, t, u, rows, ti, ui, column, floor):
    """Replace the messages visible -> hidden of `rows`, and multiply column (H,) by them."""
    for k in range(rows.shape[0]):
        i = rows[k]
        on = ti[i] if ti[i] >= floor else t.dtype.type(0)
        off = ui[i] if ui[i] >= floor else t.dtype.type(0)
        for j in range(np.uintp(t.shape[0])):
            e = odds[i, j]
            um = u[j] * message[i, j]
            num = off * (e * t[j] + um)
            den = on * (t[j] + um)
            new = (e * den + num) / (den + num)
            message[i, j] = new
            column[j] *= new


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


@jit
def _beliefs(theta, t, u, one):
    """Fill t, u (H,) from log-odds theta (H,); return the largest change of t."""
    change = one * 0
    for j in range(theta.shape[0]):
        old = t[j]
        t[j], u[j] = sigmoid_pair(theta[j], one)
        change = max(change, abs(t[j] - old))
    return change


@jit
def _drop_tiny(t, u, floor):
    """Set t and u (H,) to 0 where they are below `floor`: denormal floats are slow."""
    zero = floor * t.dtype.type(0)
    for j in range(t.shape[0]):
        t[j] = t[j] if t[j] >= floor else zero
        u[j] = u[j] if u[j] >= floor else zero


@jit
def _message_from_beliefs(w, theta_i, theta_j):
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
def _odds_of(bias):
    """exp(bias), held inside the range of products."""
    return math.exp(min(max(float(bias), -_BIAS_RANGE), _BIAS_RANGE))


@jit
def sum_product_odds(
    weights, odds, reach, piece, step, limit, floor, visible_bias, hidden_bias, warm, pinned,
    max_iter, tol, weight, want_log_partition, want_pairwise,
    log_odds, n_iter, converged, log_partition, pairwise, trace,
):  # fmt: skip
    """Sum-product in the odds domain for a chunk of N rows.

    Parameters
    ----------
    weights, odds : (V, H); odds = exp(weights)
    reach : (V,) float64, at least the sum of |weights| over each row
    piece : (V,) uintp, length of row pieces over which that sum is at most `limit`
    step : (V,) float64, at least the largest |weight| of each row; less than limit / 2
    limit : float, the largest |log| of a product that the dtype holds safely
    floor : float, a probability too small to matter in any message
    visible_bias, hidden_bias : (N, V), (N, H)
    warm : bool, start from messages that fit the beliefs in `log_odds`, not from none
    pinned : float; a visible unit whose bias is at or below it is off and sends nothing
    max_iter, tol : int, float (largest change of a belief as a probability)
    weight : (N,), used by the pairwise sum
    want_log_partition, want_pairwise : bool
    log_odds : (N, V + H) belief log-odds to start from, and output
    n_iter, converged, log_partition : (N,) outputs
    pairwise : (V, H) output, added to: weighted sum of P(v_i = 1, h_j = 1)
    trace : (N, max_iter or 0) output, residuals
    """
    n_rows, n_visible = visible_bias.shape
    n_hidden = hidden_bias.shape[1]
    real = odds.dtype.type
    one = real(1)
    message = np.empty((n_visible, n_hidden), odds.dtype)
    t = np.empty(n_hidden, odds.dtype)
    u = np.empty(n_hidden, odds.dtype)
    ti = np.empty(n_visible, odds.dtype)
    ui = np.empty(n_visible, odds.dtype)
    # Products of messages into hidden units: column in the dtype, flushed into product in
    # float64, which is flushed into total as logs, each before it could leave its range.
    column = np.ones(n_hidden, odds.dtype)
    product = np.empty(n_hidden)
    total = np.empty(n_hidden)
    hidden_odds = np.empty(n_hidden)
    bias_odds = np.empty(n_visible)
    ratio = np.empty(n_visible)
    rows = np.empty(n_visible, np.uintp)
    easy = np.empty(n_visible, np.bool_)
    for n in range(n_rows):
        theta_v = log_odds[n, :n_visible]
        theta_h = log_odds[n, n_visible:]
        if warm:
            for i in range(n_visible):
                for j in range(n_hidden):
                    message[i, j] = real(
                        math.exp(_message_from_beliefs(weights[i, j], theta_v[i], theta_h[j]))
                    )
        else:
            for i in range(n_visible):
                fill(message[i], 1)
        fill(t, 0)
        fill(ti, 0)
        _beliefs(theta_h, t, u, one)
        _beliefs(theta_v, ti, ui, one)
        n_active = 0
        for i in range(n_visible):
            bias = visible_bias[n, i]
            bias_odds[i] = _odds_of(bias)
            easy[i] = reach[i] <= _PRODUCT_RANGE and abs(bias) <= _BIAS_RANGE
            if bias > pinned:
                rows[n_active] = i
                n_active += 1
        needs_logs = False
        for j in range(n_hidden):
            hidden_odds[j] = _odds_of(hidden_bias[n, j])
            if abs(hidden_bias[n, j]) > _BIAS_RANGE:
                needs_logs = True
        converged[n] = False
        iteration = 0
        while iteration < max_iter:
            iteration += 1
            change = real(0)
            _drop_tiny(t, u, floor)
            fill(product, 1)
            fill(total, 0)
            in_logs = needs_logs
            column_reach = 0.0
            product_reach = 0.0
            first = 0
            while first < n_active:
                if column_reach + step[rows[first]] > limit:
                    _flush(column, product)
                    product_reach += column_reach
                    column_reach = 0.0
                    if product_reach + limit > _PRODUCT_RANGE:
                        _flush_logs(product, total)
                        product_reach = 0.0
                        in_logs = True
                last = first
                while last < min(n_active, first + _BLOCK):
                    if column_reach + step[rows[last]] > limit:
                        break
                    column_reach += step[rows[last]]
                    last += 1
                block = rows[first:last]
                change = max(
                    change,
                    _block_beliefs(
                        odds, message, t, u, block, easy, piece, bias_odds, ratio, ti, ui
                    ),
                )
                for k in range(first, last):
                    i = rows[k]
                    if not easy[i]:
                        log_num, log_den = _log_products(
                            odds[i], message[i], t, u, np.intp(piece[i])
                        )
                        theta_v[i] = visible_bias[n, i] + real(log_num - log_den)
                        old = ti[i]
                        ti[i], ui[i] = sigmoid_pair(theta_v[i], one)
                        change = max(change, abs(ti[i] - old))
                _block_messages(odds, message, t, u, block, ti, ui, column, floor)
                first = last
            _flush(column, product)
            if in_logs:
                _flush_logs(product, total)
                for j in range(n_hidden):
                    theta_h[j] = hidden_bias[n, j] + real(total[j])
                change = max(change, _beliefs(theta_h, t, u, one))
            else:
                change = max(change, _beliefs_from_products(product, hidden_odds, t, u))
            if trace.shape[1]:
                trace[n, iteration - 1] = change
            if change < tol:
                converged[n] = True
                break
        n_iter[n] = iteration
        _flush_logs(product, total)
        for j in range(n_hidden):
            theta_h[j] = hidden_bias[n, j] + real(total[j])
        for k in range(n_active):
            i = rows[k]
            if easy[i]:
                theta_v[i] = visible_bias[n, i] + real(math.log(ratio[i]))
        # With D recomputed from the final hidden beliefs, P(h_j = 1 | v_i = 1) = E t_j / num
        # and the Bethe edge term is log(den / R): no message is needed but R.
        if want_pairwise:
            for i in range(n_visible):
                if ti[i] > 0:
                    _add_pairwise_row(odds[i], message[i], t, u, weight[n] * ti[i], pairwise[i])
        if want_log_partition:
            log_z = 0.0
            for j in range(n_hidden):
                log_z += softplus(theta_h[j]) - total[j]
            for k in range(n_active):
                i = rows[k]
                log_z += softplus(theta_v[i])
                log_z += _log_products(odds[i], message[i], t, u, np.intp(piece[i]))[1]
            log_partition[n] = log_z


@jit
def sum_product_log(
    weights, visible_bias, hidden_bias, warm, pinned, max_iter, tol, damping, weight,
    want_log_partition, want_pairwise,
    log_odds, n_iter, converged, log_partition, pairwise, trace,
):  # fmt: skip
    """Sum-product in the log domain for a chunk of N rows; arguments as `sum_product_odds`.

    `damping` in [0, 1) keeps that share of the old log messages visible -> hidden.
    """
    n_rows, n_visible = visible_bias.shape
    n_hidden = hidden_bias.shape[1]
    real = weights.dtype.type
    one = real(1)
    message = np.empty((n_visible, n_hidden), weights.dtype)
    incoming = np.empty(n_hidden, weights.dtype)
    total = np.empty(n_hidden, weights.dtype)
    t = np.empty(n_hidden, weights.dtype)
    u = np.empty(n_hidden, weights.dtype)
    ti = np.empty(n_visible, weights.dtype)
    ui = np.empty(n_visible, weights.dtype)
    for n in range(n_rows):
        theta_v = log_odds[n, :n_visible]
        theta_h = log_odds[n, n_visible:]
        if warm:
            for i in range(n_visible):
                for j in range(n_hidden):
                    message[i, j] = _message_from_beliefs(weights[i, j], theta_v[i], theta_h[j])
        else:
            for i in range(n_visible):
                fill(message[i], 0)
        fill(t, 0)
        fill(ti, 0)
        _beliefs(theta_h, t, u, one)
        _beliefs(theta_v, ti, ui, one)
        converged[n] = False
        iteration = 0
        while iteration < max_iter:
            iteration += 1
            change = real(0)
            fill(total, 0)
            for i in range(n_visible):
                if visible_bias[n, i] <= pinned:
                    continue
                theta = visible_bias[n, i]
                for j in range(n_hidden):
                    incoming[j] = log_message(weights[i, j], theta_h[j] - message[i, j])
                    theta += incoming[j]
                theta_v[i] = theta
                old = ti[i]
                ti[i], ui[i] = sigmoid_pair(theta, one)
                change = max(change, abs(ti[i] - old))
                for j in range(n_hidden):
                    new = log_message(weights[i, j], theta - incoming[j])
                    message[i, j] = damping * message[i, j] + (one - damping) * new
                    total[j] += message[i, j]
            for j in range(n_hidden):
                theta_h[j] = hidden_bias[n, j] + total[j]
            change = max(change, _beliefs(theta_h, t, u, one))
            if trace.shape[1]:
                trace[n, iteration - 1] = change
            if change < tol:
                converged[n] = True
                break
        n_iter[n] = iteration
        if want_pairwise:
            for i in range(n_visible):
                if ti[i] > 0:
                    for j in range(n_hidden):
                        x = theta_h[j] - message[i, j] + weights[i, j]
                        pairwise[i, j] += weight[n] * ti[i] * sigmoid_pair(x, one)[0]
        if want_log_partition:
            log_z = 0.0
            for j in range(n_hidden):
                log_z += softplus(theta_h[j]) - total[j]
            for i in range(n_visible):
                if visible_bias[n, i] <= pinned:
                    continue
                log_z += softplus(theta_v[i])
                for j in range(n_hidden):
                    log_z += log_message(message[i, j], -theta_h[j])
            log_partition[n] = log_z
