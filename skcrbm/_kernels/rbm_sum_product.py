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


@jit
def _softplus(x):
    zero = x * 0
    return max(x, zero) + math.log1p(math.exp(-abs(x)))


@jit
def _sigmoid_pair(x, one):
    """(sigma(x), sigma(-x)), both to full relative precision."""
    z = math.exp(-abs(x))
    large = one / (one + z)
    small = z * large
    if x >= 0:
        return large, small
    return small, large


@jit(fastmath={"contract", "reassoc"})
def _products(odds, message, t, u):
    """Products of num and den over a row piece: (K,) slices in, two scalars out."""
    num = odds.dtype.type(1)
    den = odds.dtype.type(1)
    for j in range(odds.shape[0]):
        um = u[j] * message[j]
        num *= odds[j] * t[j] + um
        den *= t[j] + um
    return num, den


@jit(fastmath={"contract"})
def _update_row(odds, message, t, u, ti, ui, column):
    """Replace the messages visible i -> hidden (H,) and multiply column (H,) by them."""
    for j in range(odds.shape[0]):
        um = u[j] * message[j]
        num = ui * (odds[j] * t[j] + um)
        den = ti * (t[j] + um)
        new = (odds[j] * den + num) / (den + num)
        message[j] = new
        column[j] *= new


@jit(fastmath={"contract"})
def _add_pairwise_row(odds, message, t, u, scale, out):
    """Out (H,) += scale * P(h_j = 1 | v_i = 1), see `_finish_odds`."""
    for j in range(odds.shape[0]):
        et = odds[j] * t[j]
        out[j] += scale * et / (et + u[j] * message[j])


@jit
def _log_ratio(odds, message, t, u, piece):
    """Log prod(num / den) over a row (H,), in pieces whose products cannot overflow."""
    n = odds.shape[0]
    total = 0.0
    start = 0
    while start < n:
        stop = min(n, start + piece)
        num, den = _products(odds[start:stop], message[start:stop], t[start:stop], u[start:stop])
        total += math.log(num / den)
        start = stop
    return odds.dtype.type(total)


@jit
def _flush(column, total):
    """Total (H,) += log column (H,); column = 1."""
    for j in range(column.shape[0]):
        total[j] += math.log(column[j])
        column[j] = 1


@jit
def _fill(out, value):
    """Set out (K,) = value; slice assignment would take seconds to compile."""
    for j in range(out.shape[0]):
        out[j] = value


@jit
def _copy(out, values):
    """Set out (K,) = values (K,)."""
    for j in range(out.shape[0]):
        out[j] = values[j]


@jit
def _beliefs(theta, t, u, one):
    """Fill t, u (H,) from log-odds theta (H,); return the largest change of t."""
    change = one * 0
    for j in range(theta.shape[0]):
        old = t[j]
        t[j], u[j] = _sigmoid_pair(theta[j], one)
        change = max(change, abs(t[j] - old))
    return change


@jit
def _message_from_beliefs(w, theta_i, theta_j):
    """Log R of the fixed point that has these two beliefs.

    At a fixed point R^2 + B R = C with C = E T_j and
    B = T_j (t_i + E u_i) - (E t_i + u_i); computed in float64.
    """
    limit = 300.0
    w = min(max(float(w), -limit), limit)
    tj = math.exp(min(max(float(theta_j), -limit), limit))
    ti, ui = _sigmoid_pair(float(theta_i), 1.0)
    e = math.exp(w)
    b = tj * (ti + e * ui) - (e * ti + ui)
    # (root of c) and hypot keep b^2 + 4c inside the range
    root = math.sqrt(e) * math.sqrt(tj)
    disc = math.hypot(b, 2.0 * root)
    r = 2.0 * root / (b + disc) * root if b > 0 else 0.5 * (disc - b)
    bound = abs(w)
    return min(max(math.log(r), -bound), bound)


@jit
def sum_product_odds(
    weights, odds, row_reach, row_max, limit, visible_bias, hidden_bias, start, warm, pinned,
    max_iter, tol, weight, want_log_partition, want_pairwise,
    log_odds, n_iter, converged, log_partition, pairwise, trace,
):  # fmt: skip
    """Sum-product in the odds domain for a chunk of N rows.

    Parameters
    ----------
    weights, odds : (V, H); odds = exp(weights)
    row_reach, row_max : (V,) sum and maximum of |weights| over each row
    limit : float, the largest |log| of a product that the dtype holds safely
    visible_bias, hidden_bias : (N, V), (N, H)
    start : (N, V + H) belief log-odds to start from, used if `warm`
    pinned : float; a visible unit whose bias is at or below it is off and sends nothing
    max_iter, tol : int, float (largest change of a belief as a probability)
    weight : (N,), used by the pairwise sum
    want_log_partition, want_pairwise : bool
    log_odds, n_iter, converged, log_partition : (N, V + H), (N,), (N,), (N,) outputs
    pairwise : (V, H) output, added to: weighted sum of P(v_i = 1, h_j = 1)
    trace : (N, max_iter or 0) output, residuals
    """
    n_rows, n_visible = visible_bias.shape
    n_hidden = hidden_bias.shape[1]
    real = odds.dtype.type
    one = real(1)
    message = np.empty((n_visible, n_hidden), odds.dtype)
    column = np.ones(n_hidden, odds.dtype)
    total = np.empty(n_hidden, odds.dtype)
    t = np.empty(n_hidden, odds.dtype)
    u = np.empty(n_hidden, odds.dtype)
    ti = np.empty(n_visible, odds.dtype)
    ui = np.empty(n_visible, odds.dtype)
    for n in range(n_rows):
        theta_v = log_odds[n, :n_visible]
        theta_h = log_odds[n, n_visible:]
        if warm:
            _copy(log_odds[n], start[n])
            for i in range(n_visible):
                for j in range(n_hidden):
                    message[i, j] = real(
                        math.exp(_message_from_beliefs(weights[i, j], theta_v[i], theta_h[j]))
                    )
        else:
            _copy(theta_v, visible_bias[n])
            _copy(theta_h, hidden_bias[n])
            for i in range(n_visible):
                _fill(message[i], 1)
        _fill(t, 0)
        _fill(ti, 0)
        _beliefs(theta_h, t, u, one)
        _beliefs(theta_v, ti, ui, one)
        converged[n] = False
        iteration = 0
        while iteration < max_iter:
            iteration += 1
            change = real(0)
            _fill(total, 0)
            reach = real(0)
            for i in range(n_visible):
                if visible_bias[n, i] <= pinned:
                    continue
                piece = n_hidden
                if row_reach[i] > limit:
                    piece = max(1, int(limit / row_max[i]))
                theta = visible_bias[n, i] + _log_ratio(odds[i], message[i], t, u, piece)
                theta_v[i] = theta
                old = ti[i]
                ti[i], ui[i] = _sigmoid_pair(theta, one)
                change = max(change, abs(ti[i] - old))
                if reach + row_max[i] > limit:
                    _flush(column, total)
                    reach = real(0)
                reach += row_max[i]
                _update_row(odds[i], message[i], t, u, ti[i], ui[i], column)
            _flush(column, total)
            for j in range(n_hidden):
                theta_h[j] = hidden_bias[n, j] + total[j]
            change = max(change, _beliefs(theta_h, t, u, one))
            if trace.shape[1]:
                trace[n, iteration - 1] = change
            if change < tol:
                converged[n] = True
                break
        n_iter[n] = iteration
        # With D recomputed from the final hidden beliefs, P(h_j = 1 | v_i = 1) = E t_j / num
        # and the Bethe edge term is log(den / R): no message is needed but R.
        if want_pairwise:
            for i in range(n_visible):
                if ti[i] > 0:
                    _add_pairwise_row(odds[i], message[i], t, u, weight[n] * ti[i], pairwise[i])
        if want_log_partition:
            log_z = 0.0
            for j in range(n_hidden):
                log_z += _softplus(theta_h[j]) - total[j]
            for i in range(n_visible):
                if visible_bias[n, i] <= pinned:
                    continue
                log_z += _softplus(theta_v[i])
                piece = n_hidden
                if row_reach[i] > limit:
                    piece = max(1, int(limit / row_max[i]))
                first = 0
                while first < n_hidden:
                    last = min(n_hidden, first + piece)
                    log_z += math.log(
                        _products(
                            odds[i, first:last],
                            message[i, first:last],
                            t[first:last],
                            u[first:last],
                        )[1]
                    )
                    first = last
            log_partition[n] = log_z


@jit
def _log_message(w, x):
    """sp(w + x) - sp(x) without cancellation: log(sigma(-x) + sigma(x) e^w)."""
    zero = x * 0
    tail = math.log1p(math.exp(-abs(x)))
    off = -max(x, zero) - tail
    on = w - max(-x, zero) - tail
    return max(on, off) + math.log1p(math.exp(-abs(on - off)))


@jit
def sum_product_log(
    weights, visible_bias, hidden_bias, start, warm, pinned, max_iter, tol, damping, weight,
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
            _copy(log_odds[n], start[n])
            for i in range(n_visible):
                for j in range(n_hidden):
                    message[i, j] = _message_from_beliefs(weights[i, j], theta_v[i], theta_h[j])
        else:
            _copy(theta_v, visible_bias[n])
            _copy(theta_h, hidden_bias[n])
            for i in range(n_visible):
                _fill(message[i], 0)
        _fill(t, 0)
        _fill(ti, 0)
        _beliefs(theta_h, t, u, one)
        _beliefs(theta_v, ti, ui, one)
        converged[n] = False
        iteration = 0
        while iteration < max_iter:
            iteration += 1
            change = real(0)
            _fill(total, 0)
            for i in range(n_visible):
                if visible_bias[n, i] <= pinned:
                    continue
                theta = visible_bias[n, i]
                for j in range(n_hidden):
                    incoming[j] = _log_message(weights[i, j], theta_h[j] - message[i, j])
                    theta += incoming[j]
                theta_v[i] = theta
                old = ti[i]
                ti[i], ui[i] = _sigmoid_pair(theta, one)
                change = max(change, abs(ti[i] - old))
                for j in range(n_hidden):
                    new = _log_message(weights[i, j], theta - incoming[j])
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
                        pairwise[i, j] += weight[n] * ti[i] * _sigmoid_pair(x, one)[0]
        if want_log_partition:
            log_z = 0.0
            for j in range(n_hidden):
                log_z += _softplus(theta_h[j]) - total[j]
            for i in range(n_visible):
                if visible_bias[n, i] <= pinned:
                    continue
                log_z += _softplus(theta_v[i])
                for j in range(n_hidden):
                    log_z += _log_message(message[i, j], -theta_h[j])
            log_partition[n] = log_z
