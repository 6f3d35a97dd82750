"""Belief propagation on one RBM, edge by edge, in logs.

The schedule is Ping and Ihler (2017), Algorithm 1, but for its start: the visible units first
send messages from their biases alone. One iteration is hidden -> visible, visible beliefs,
visible -> hidden, hidden beliefs.
"""

from typing import NamedTuple

import numpy as np


class Beliefs(NamedTuple):
    log_odds: np.ndarray  # (V + H,)
    pairwise: np.ndarray  # (V, H), P(v_i = 1, h_j = 1)
    pairwise_off: np.ndarray  # (V, H), P(v_i = 1, h_j = 0)
    log_partition: float  # Bethe
    trace: np.ndarray  # largest change of a belief, as a probability


def _sp(x):
    return np.logaddexp(0.0, x)


def _sigma(x):
    return np.exp(-_sp(-x))


def message(w, x):
    """Log-odds of a message over an edge w from a unit whose cavity log-odds are x."""
    return _sp(w + x) - _sp(x)


def max_message(w, x):
    return max(w + x, 0.0) - max(x, 0.0)


def naive_messages(
    weights, visible_bias, hidden_bias, n_iter, damping=0.0, f=message, rho=1.0, choose=False
):
    """Messages and beliefs after `n_iter` iterations with the message function `f`.

    With `choose`, visible units send the state that they prefer (mixed-product).

    Returns
    -------
    theta_v, theta_h : beliefs
    down, up : messages hidden -> visible and visible -> hidden, (V, H), `down` belonging to
        the final hidden beliefs
    trace : list of residuals
    states : list of the visible states preferred at the start and after each iteration
    """
    w = np.asarray(weights, np.float64) / rho
    b, c = np.asarray(visible_bias, np.float64), np.asarray(hidden_bias, np.float64)
    n_visible, n_hidden = w.shape
    down = np.zeros((n_visible, n_hidden))  # hidden j -> visible i
    up = np.zeros((n_visible, n_hidden))  # visible i -> hidden j
    theta_v, theta_h = b.copy(), c.copy()
    trace, states = [], []

    def send_up():
        for i in range(n_visible):
            for j in range(n_hidden):
                new = w[i, j] * (theta_v[i] > 0) if choose else f(w[i, j], theta_v[i] - down[i, j])
                up[i, j] = damping * up[i, j] + (1 - damping) * new
        for j in range(n_hidden):
            theta_h[j] = c[j] + rho * up[:, j].sum()

    send_up()
    states.append((theta_v > 0).astype(int))
    for _ in range(n_iter):
        old = _sigma(np.concatenate([theta_v, theta_h]))
        for i in range(n_visible):
            for j in range(n_hidden):
                down[i, j] = f(w[i, j], theta_h[j] - up[i, j])
            theta_v[i] = b[i] + rho * down[i].sum()
        send_up()
        change = np.abs(_sigma(np.concatenate([theta_v, theta_h])) - old)
        trace.append(change.max(initial=0.0))
        states.append((theta_v > 0).astype(int))
    # The answers use messages down that belong to the final hidden beliefs.
    for i in range(n_visible):
        for j in range(n_hidden):
            down[i, j] = f(w[i, j], theta_h[j] - up[i, j])
    return theta_v, theta_h, down, up, trace, states


def naive_sum_product(weights, visible_bias, hidden_bias, n_iter, damping=0.0):
    w = np.asarray(weights, np.float64)
    n_visible, n_hidden = w.shape
    theta_v, theta_h, down, up, trace, _ = naive_messages(
        weights, visible_bias, hidden_bias, n_iter, damping
    )
    pairwise, pairwise_off = np.zeros_like(w), np.zeros_like(w)
    log_z = _sp(theta_v).sum() + _sp(theta_h).sum()
    for i in range(n_visible):
        for j in range(n_hidden):
            d, r = down[i, j], up[i, j]
            both = w[i, j] + theta_v[i] + theta_h[j]
            table = np.array([both, theta_v[i] + r, theta_h[j] + d, d + r])
            total = np.logaddexp.reduce(table)
            pairwise[i, j] = np.exp(table[0] - total)
            pairwise_off[i, j] = np.exp(table[1] - total)
            terms = np.array([0.0, theta_v[i] - d, theta_h[j] - r, both - d - r])
            log_z += np.logaddexp.reduce(terms) - _sp(theta_v[i]) - _sp(theta_h[j])
    return Beliefs(
        np.concatenate([theta_v, theta_h]), pairwise, pairwise_off, log_z, np.array(trace)
    )


def naive_tree_reweighted(weights, visible_bias, hidden_bias, rho, n_iter, damping=0.0):
    """Beliefs, pairwise beliefs and the upper bound of tree-reweighted message passing."""
    w = np.asarray(weights, np.float64)
    n_visible, n_hidden = w.shape
    theta_v, theta_h, down, up, trace, _ = naive_messages(
        weights, visible_bias, hidden_bias, n_iter, damping, rho=rho
    )
    pairwise, pairwise_off = np.zeros_like(w), np.zeros_like(w)
    # Beliefs of visible units that agree with the messages down, as the bound needs them.
    received = visible_bias + rho * down.sum(axis=1)
    log_z = _sp(received).sum() + _sp(theta_h).sum()
    for i in range(n_visible):
        for j in range(n_hidden):
            a, b = theta_v[i] - down[i, j], theta_h[j] - up[i, j]
            table = np.array([w[i, j] / rho + a + b, a, b, 0.0])
            p = np.exp(table - np.logaddexp.reduce(table))
            pairwise[i, j], pairwise_off[i, j] = p[0], p[1]
            # The largest sum over the states of one unit of the edge, for any state of the other.
            own, other = (0, received[i]), (0, theta_h[j])
            edge = np.array([[0, -up[i, j]], [-down[i, j], w[i, j] / rho - up[i, j] - down[i, j]]])
            to_j = np.logaddexp.reduce(edge + np.array(own)[:, None], axis=0) - _sp(received[i])
            to_i = np.logaddexp.reduce(edge + np.array(other), axis=1) - _sp(theta_h[j])
            log_z += rho * max(*to_i, *to_j)
    return Beliefs(
        np.concatenate([theta_v, theta_h]), pairwise, pairwise_off, log_z, np.array(trace)
    )
