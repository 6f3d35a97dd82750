"""Message passing on restricted Boltzmann machines in the log domain.

Notation as in Ping & Ihler (2017): theta are belief log-odds, mu messages as log-odds.
One matrix of messages visible -> hidden is kept; those hidden -> visible are computed
on the fly. All methods share the sweep and differ in the message function

    sum-product    f(w, x) = sp(w + x) - sp(x)
    max-product    f(w, x) = relu(w + x) - relu(x)
    mixed-product  sum-product towards visible units, w [theta_i > 0] towards hidden ones

and tree-reweighted is sum-product with w = W / rho and messages weighted by rho
(Wainwright, Jaakkola and Willsky 2005).
"""

import math

import numpy as np

from skcrbm._kernels._jit import jit
from skcrbm._kernels._scalar import (
    MAX,
    SUM,
    beliefs,
    fill,
    log_message,
    max_message_from_beliefs,
    message_from_beliefs,
    sigmoid_pair,
    softplus,
)


@jit
def _receive_sum(w, theta_h, message, i, incoming):
    """Fill incoming (H,) with messages hidden -> visible i; return their sum."""
    total = theta_h.dtype.type(0)
    for j in range(np.uintp(theta_h.shape[0])):
        incoming[j] = log_message(w[i, j], theta_h[j] - message[i, j])
        total += incoming[j]
    return total


@jit(fastmath={"contract", "reassoc"})
def _receive_max(w, theta_h, message, i, incoming):
    """Fill incoming (H,) with messages hidden -> visible i; return their sum."""
    zero = theta_h.dtype.type(0)
    total = zero
    for j in range(np.uintp(theta_h.shape[0])):
        x = theta_h[j] - message[i, j]
        new = max(w[i, j] + x, zero) - max(x, zero)
        incoming[j] = new
        total += new
    return total


@jit
def _send_sum(w, theta, damping, keep, message, i, incoming, total):
    """Replace the messages of visible i, add them to total (H,)."""
    for j in range(np.uintp(total.shape[0])):
        new = log_message(w[i, j], theta - incoming[j])
        message[i, j] = damping * message[i, j] + keep * new
        total[j] += message[i, j]


@jit(fastmath={"contract"})
def _send_max(w, theta, damping, keep, message, i, incoming, total):
    """Replace the messages of visible i, add them to total (H,)."""
    zero = total.dtype.type(0)
    for j in range(np.uintp(total.shape[0])):
        x = theta - incoming[j]
        new = damping * message[i, j] + keep * (max(w[i, j] + x, zero) - max(x, zero))
        message[i, j] = new
        total[j] += new


@jit(fastmath={"contract"})
def _send_choice(w, on, damping, keep, message, i, total):
    """Replace the messages of visible i, which is `on` (1 or 0), add them to total (H,)."""
    for j in range(np.uintp(total.shape[0])):
        new = damping * message[i, j] + keep * (on * w[i, j])
        message[i, j] = new
        total[j] += new


@jit(fastmath={"contract"})
def _add_row(weights, i, field):
    """Field (H,) += weights[i]."""
    for j in range(np.uintp(field.shape[0])):
        field[j] += weights[i, j]


@jit
def _visited_state(kind, weights, visible_bias, hidden_bias, theta_v, pinned, field, state):
    """Fill state (V,) with what the visible units prefer; return its score.

    The score is that of the best joint state with these visible units (MAX), or
    -F(v) (MIXED).
    """
    score = 0.0
    for j in range(field.shape[0]):
        field[j] = hidden_bias[j]
    for i in range(state.shape[0]):
        state[i] = 0
        if theta_v[i] > 0 and visible_bias[i] > pinned:
            state[i] = 1
            score += visible_bias[i]
            _add_row(weights, i, field)
    for j in range(field.shape[0]):
        score += max(field[j], 0.0) if kind == MAX else softplus(field[j])
    return score


@jit
def _tree_reweighted_log_partition(
    w, rho, visible_bias, hidden_bias, theta_v, theta_h, message, pinned
):
    """b.q + c.q + sum rho w p11 + sum H_i + rho sum (H_ij - H_i - H_j), w = W / rho."""
    log_z = 0.0
    one = 1.0
    for j in range(theta_h.shape[0]):
        q, r = sigmoid_pair(float(theta_h[j]), one)
        log_z += hidden_bias[j] * q if q > 0 else 0.0
        log_z += _entropy(q) + _entropy(r)
    for i in range(theta_v.shape[0]):
        if visible_bias[i] <= pinned:
            continue
        q, r = sigmoid_pair(float(theta_v[i]), one)
        unary = _entropy(q) + _entropy(r)
        log_z += visible_bias[i] * q + unary
        for j in range(theta_h.shape[0]):
            cavity = float(theta_h[j]) - message[i, j]
            on, off = sigmoid_pair(cavity + w[i, j], one)
            with_off, neither = sigmoid_pair(cavity, one)
            p11, p10, p01, p00 = q * on, q * off, r * with_off, r * neither
            both = _entropy(p11) + _entropy(p10) + _entropy(p01) + _entropy(p00)
            q_h, r_h = sigmoid_pair(float(theta_h[j]), one)
            log_z += rho * (w[i, j] * p11 + both - unary - _entropy(q_h) - _entropy(r_h))
    return log_z


@jit
def _entropy(p):
    """-p log p."""
    return -p * math.log(p) if p > 0 else 0.0


@jit
def pass_logs(
    kind, weights, rho, visible_bias, hidden_bias, warm, pinned, max_iter, tol, damping, weight,
    want_log_partition, want_pairwise,
    log_odds, n_iter, converged, log_partition, pairwise, trace, score, state,
):  # fmt: skip
    """Any of the methods for a chunk of N rows; arguments not named here as `pass_odds`.

    Parameters
    ----------
    kind : SUM, MAX or MIXED
    weights : (V, H); W / rho
    rho : float, weight of the messages: 1, or the edge appearance of tree-reweighted
    damping : float in [0, 1), share of the old messages visible -> hidden that is kept
    score : (N,) float64, (N, V) int8: with MAX and MIXED, score of the best state visited
        and that state; score holds what a state must beat
    """
    n_rows, n_visible = visible_bias.shape
    n_hidden = hidden_bias.shape[1]
    real = weights.dtype.type
    one = real(1)
    keep = one - damping
    message = np.empty((n_visible, n_hidden), weights.dtype)
    incoming = np.empty(n_hidden, weights.dtype)
    total = np.empty(n_hidden, weights.dtype)
    t = np.empty(n_hidden, weights.dtype)
    u = np.empty(n_hidden, weights.dtype)
    ti = np.empty(n_visible, weights.dtype)
    ui = np.empty(n_visible, weights.dtype)
    visited = np.empty(n_visible, np.int8)
    for n in range(n_rows):
        theta_v = log_odds[n, :n_visible]
        theta_h = log_odds[n, n_visible:]
        for i in range(n_visible):
            if not warm:
                fill(message[i], 0)
                continue
            for j in range(n_hidden):
                w = weights[i, j]
                if kind == SUM:
                    message[i, j] = message_from_beliefs(w, theta_v[i], theta_h[j])
                elif kind == MAX:
                    message[i, j] = max_message_from_beliefs(w, theta_v[i], theta_h[j])
                else:
                    message[i, j] = w if theta_v[i] > 0 else 0
        fill(t, 0)
        fill(ti, 0)
        beliefs(theta_h, t, u, one)
        beliefs(theta_v, ti, ui, one)
        converged[n] = False
        iteration = 0
        while iteration < max_iter:
            iteration += 1
            change = real(0)
            fill(total, 0)
            for i in range(n_visible):
                if visible_bias[n, i] <= pinned:
                    continue
                if kind == MAX:
                    received = _receive_max(weights, theta_h, message, i, incoming)
                else:
                    received = _receive_sum(weights, theta_h, message, i, incoming)
                theta = visible_bias[n, i] + rho * received
                theta_v[i] = theta
                old = ti[i]
                ti[i], ui[i] = sigmoid_pair(theta, one)
                change = max(change, abs(ti[i] - old))
                if kind == SUM:
                    _send_sum(weights, theta, damping, keep, message, i, incoming, total)
                elif kind == MAX:
                    _send_max(weights, theta, damping, keep, message, i, incoming, total)
                else:
                    on = one if theta > 0 else one - one
                    _send_choice(weights, on, damping, keep, message, i, total)
            for j in range(n_hidden):
                theta_h[j] = hidden_bias[n, j] + rho * total[j]
            change = max(change, beliefs(theta_h, t, u, one))
            if kind != SUM:
                reached = _visited_state(
                    kind, weights, visible_bias[n], hidden_bias[n], theta_v, pinned, total, visited
                )
                if reached > score[n]:
                    score[n] = reached
                    for i in range(n_visible):
                        state[n, i] = visited[i]
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
        if want_log_partition and rho != one:
            log_partition[n] = _tree_reweighted_log_partition(
                weights, rho, visible_bias[n], hidden_bias[n], theta_v, theta_h, message, pinned
            )
        elif want_log_partition:
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
