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
    MIXED,
    SUM,
    beliefs,
    fill,
    log_message,
    max_message_from_beliefs,
    message_from_beliefs,
    sigmoid_pair,
    softplus,
)

# Rows done together.
_BLOCK = 16


@jit
def _receive_sum(w, theta_h, message, i, incoming):
    """Fill incoming[0] with messages hidden -> visible i; return their sum."""
    total = theta_h.dtype.type(0)
    for j in range(np.uintp(theta_h.shape[0])):
        incoming[0, j] = log_message(w[i, j], theta_h[j] - message[i, j])
        total += incoming[0, j]
    return total


@jit
def _send_sum(w, theta, damping, keep, message, i, incoming, total):
    """Replace the messages of visible i, add them to total (H,)."""
    for j in range(np.uintp(total.shape[0])):
        new = log_message(w[i, j], theta - incoming[0, j])
        message[i, j] = damping * message[i, j] + keep * new
        total[j] += message[i, j]


@jit(fastmath={"contract"})
def _max_message(w, x):
    """relu(w + x) - relu(x)."""
    zero = w - w
    y = w + x
    return (y if y > zero else zero) - (x if x > zero else zero)


# Max-product takes blocks of rows, two at a time, as `rbm_odds` does.


@jit(fastmath={"contract", "reassoc"})
def _row_sums(incoming, k0, k1):
    """Sum two rows of incoming (B, H), in a loop that only loads (see the architecture page)."""
    sum0 = incoming.dtype.type(0)
    sum1 = incoming.dtype.type(0)
    for j in range(np.uintp(incoming.shape[1])):
        sum0 += incoming[k0, j]
        sum1 += incoming[k1, j]
    return sum0, sum1


@jit(fastmath={"contract"})
def _receive_max(w, theta_h, message, rows, visible_bias, incoming, theta_v):
    """Fill incoming (B, H) with messages hidden -> visible `rows`, at most B; set theta_v."""
    for k in range(0, rows.shape[0], 2):
        k0 = np.uintp(k)
        k1 = np.uintp(min(k + 1, rows.shape[0] - 1))  # an odd last row is done twice
        i0 = rows[k0]
        i1 = rows[k1]
        for j in range(np.uintp(theta_h.shape[0])):
            incoming[k0, j] = _max_message(w[i0, j], theta_h[j] - message[i0, j])
            incoming[k1, j] = _max_message(w[i1, j], theta_h[j] - message[i1, j])
        sum0, sum1 = _row_sums(incoming, k0, k1)
        theta_v[i0] = visible_bias[i0] + sum0
        theta_v[i1] = visible_bias[i1] + sum1


@jit(fastmath={"contract"})
def _send_max(w, rows, theta_v, damping, keep, message, incoming, total):
    """Replace the messages of visible `rows`, add them to total (H,)."""
    n_paired = rows.shape[0] // 2 * 2
    for k in range(0, n_paired, 2):
        k0 = np.uintp(k)
        k1 = np.uintp(k + 1)
        i0 = rows[k0]
        i1 = rows[k1]
        theta0 = theta_v[i0]
        theta1 = theta_v[i1]
        for j in range(np.uintp(total.shape[0])):
            new0 = _max_message(w[i0, j], theta0 - incoming[k0, j])
            new1 = _max_message(w[i1, j], theta1 - incoming[k1, j])
            new0 = damping * message[i0, j] + keep * new0
            new1 = damping * message[i1, j] + keep * new1
            message[i0, j] = new0
            message[i1, j] = new1
            total[j] += new0 + new1
    for k in range(n_paired, rows.shape[0]):
        k0 = np.uintp(k)
        i0 = rows[k0]
        theta0 = theta_v[i0]
        for j in range(np.uintp(total.shape[0])):
            new0 = _max_message(w[i0, j], theta0 - incoming[k0, j])
            new0 = damping * message[i0, j] + keep * new0
            message[i0, j] = new0
            total[j] += new0


@jit
def _sweep_max(w, visible_bias, theta_v, theta_h, message, rows, damping, keep, incoming, total):
    """All messages to and from the visible units `rows`."""
    size = incoming.shape[0]
    for first in range(0, rows.shape[0], size):
        block = rows[first : min(rows.shape[0], first + size)]
        _receive_max(w, theta_h, message, block, visible_bias, incoming, theta_v)
        _send_max(w, block, theta_v, damping, keep, message, incoming, total)


@jit
def _sweep_sum(
    w, rho, visible_bias, theta_v, theta_h, message, rows, damping, keep, incoming, total
):
    """All messages to and from the visible units `rows`."""
    for k in range(rows.shape[0]):
        i = rows[k]
        theta_v[i] = visible_bias[i] + rho * _receive_sum(w, theta_h, message, i, incoming)
        _send_sum(w, theta_v[i], damping, keep, message, i, incoming, total)


@jit
def _sweep_mixed(w, visible_bias, theta_v, theta_h, message, rows, damping, keep, incoming, total):
    """All messages to and from the visible units `rows`."""
    one = theta_h.dtype.type(1)
    for k in range(rows.shape[0]):
        i = rows[k]
        theta_v[i] = visible_bias[i] + _receive_sum(w, theta_h, message, i, incoming)
        on = one if theta_v[i] > 0 else one - one
        _send_choice(w, on, damping, keep, message, i, total)


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
    """Change state (V,) to what the visible units prefer; return its score.

    The score is that of the best joint state with these visible units (MAX), or
    -F(v) (MIXED); -inf if the state stays as it was.
    """
    changed = False
    for i in range(state.shape[0]):
        on = theta_v[i] > 0 and visible_bias[i] > pinned
        if state[i] != on:
            state[i] = on
            changed = True
    if not changed:
        return -np.inf
    score = 0.0
    for j in range(field.shape[0]):
        field[j] = hidden_bias[j]
    for i in range(state.shape[0]):
        if state[i]:
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
    one = weights.dtype.type(1)
    keep = one - damping
    message = np.empty((n_visible, n_hidden), weights.dtype)
    incoming = np.empty((_BLOCK, n_hidden), weights.dtype)
    total = np.empty(n_hidden, weights.dtype)
    t = np.empty(n_hidden, weights.dtype)
    u = np.empty(n_hidden, weights.dtype)
    ti = np.empty(n_visible, weights.dtype)
    ui = np.empty(n_visible, weights.dtype)
    visited = np.empty(n_visible, np.int8)
    rows = np.empty(n_visible, np.uintp)
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
        n_active = 0
        for i in range(n_visible):
            if visible_bias[n, i] > pinned:
                rows[n_active] = i
                n_active += 1
        active = rows[:n_active]
        fill(visited, -1)  # none yet
        converged[n] = False
        iteration = 0
        while iteration < max_iter:
            iteration += 1
            fill(total, 0)
            if kind == MAX:
                _sweep_max(
                    weights, visible_bias[n], theta_v, theta_h, message, active,
                    damping, keep, incoming, total,
                )  # fmt: skip
            elif kind == MIXED:
                _sweep_mixed(
                    weights, visible_bias[n], theta_v, theta_h, message, active,
                    damping, keep, incoming, total,
                )  # fmt: skip
            else:
                _sweep_sum(
                    weights, rho, visible_bias[n], theta_v, theta_h, message, active,
                    damping, keep, incoming, total,
                )  # fmt: skip
            change = beliefs(theta_v, ti, ui, one)
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
