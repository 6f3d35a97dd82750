"""Sum-product and tree-reweighted message passing on pairwise Boltzmann machines.

Labels are visited in order; each reads what comes in, forms its belief and sends to all
others. With w = 2 s / rho, x = theta_i - mu_{k->i} the message i -> k is

    mu = log( (e^(w + x) + 1) / (e^x + e^w) ),    theta_i = field_i + sum_k rho mu_{k->i}

(rho = 1 is sum-product). Kept as odds R = e^mu it takes one division, with E = e^w and
t, u = sigma(+-theta_i): R_{i->k} = (E t + u R_{k->i}) / (t + E u R_{k->i}).

``message[i, k]`` is the message k -> i.
"""

import math

import numpy as np

from skcrbm._kernels._jit import jit
from skcrbm._kernels._scalar import binary_entropy, fill, message_from_beliefs, sigmoid_pair

# Messages to start from need not be larger.
_MAX_START = 150.0


@jit(fastmath={"contract", "reassoc"})
def _product(values):
    """Product of values (K,), in float64."""
    product = 1.0
    for k in range(values.shape[0]):
        product *= values[k]
    return product


@jit(fastmath={"contract", "reassoc"})
def _dot(x, y):
    """Inner product of x and y (L,)."""
    total = x.dtype.type(0)
    for k in range(x.shape[0]):
        total += x[k] * y[k]
    return total


@jit
def _log_product(odds, piece):
    """Log of the product of odds (L,), which fits float64 over any `piece` of them."""
    total = 0.0
    for first in range(0, odds.shape[0], piece):
        total += math.log(_product(odds[first : min(first + piece, odds.shape[0])]))
    return total


@jit(fastmath={"contract"})
def _send_odds(gain, incoming, t, u, out):
    """Fill out (L,) with the messages of a label, as odds."""
    for k in range(np.uintp(out.shape[0])):
        back = u * incoming[k]
        out[k] = (gain[k] * t + back) / (t + gain[k] * back)


@jit
def _log_message(w, x):
    """log((e^(w + x) + 1) / (e^x + e^w)), without cancellation."""
    smaller = min(abs(w), abs(x))
    if (w < 0) != (x < 0):
        smaller = -smaller
    return smaller + math.log1p(math.exp(-abs(w + x))) - math.log1p(math.exp(-abs(w - x)))


@jit
def _send_logs(w, incoming, theta, out):
    """Fill out (L,) with the messages of a label, as log-odds."""
    for k in range(out.shape[0]):
        out[k] = _log_message(w[k], theta - incoming[k])


@jit
def _larger_pair(decay, q, u, r, v):
    """P(both on) of two units that are rather alike: log odds-ratio w >= 0, decay = e^-w.

    The root of the quadratic equation for it, divided by e^w; all terms are positive.
    P(on) are q and r, P(off) u and v.
    """
    rise = 1.0 - decay
    differ, skew = q * v + r * u, q * v - r * u
    root = math.sqrt(decay * decay + 2.0 * rise * decay * differ + skew * skew * rise * rise)
    return 2.0 * q * r / (decay + (q + r) * rise + root)


@jit
def _joint(s, decay, q, u, r, v):
    """P(i on, k on) and P(i on, k off) of the beliefs of an edge with coupling s."""
    if s < 0:
        other = _larger_pair(decay, q, u, v, r)
        return max(q - other, 0.0), other
    both = _larger_pair(decay, q, u, r, v)
    return both, max(q - both, 0.0)


@jit
def _set_beliefs(theta, belief):
    """Fill belief (2, L) with P(on) and P(off)."""
    for i in range(theta.shape[0]):
        belief[0, i], belief[1, i] = sigmoid_pair(float(theta[i]), 1.0)


@jit
def _neg_entropy(p):
    """Return p log p."""
    return p * math.log(p) if p > 0 else 0.0


@jit
def _log_partition(coupling, rho, decay, field, theta, belief):
    """Energy of the beliefs + sum H_i + sum rho_ik (H_ik - H_i - H_k).

    The pair beliefs are those whose sums are the beliefs of the labels: at convergence the
    ones of the messages.
    """
    log_z = 0.0
    for i in range(theta.shape[0]):
        q, u = belief[0, i], belief[1, i]
        n_trees = 0.0
        for k in range(theta.shape[0]):
            if k == i or coupling[i, k] == 0:
                continue
            n_trees += rho[i, k]
            if k > i:
                continue
            s, r = float(coupling[i, k]), belief[0, k]
            p11, p10 = _joint(s, decay[i, k], q, u, r, belief[1, k])
            p01 = max(r - p11, 0.0)
            p00 = max(u - p01, 0.0)
            log_z += s * (1.0 - 2.0 * (p10 + p01))
            mutual = _neg_entropy(p11) + _neg_entropy(p10) + _neg_entropy(p01) + _neg_entropy(p00)
            log_z -= rho[i, k] * mutual
        log_z += float(field[i]) * q + (1.0 - n_trees) * binary_entropy(theta[i])
    return log_z


@jit
def _add_pairs(weight, coupling, decay, belief, pairwise):
    """Add weight P(both on) to pairwise (L, L)."""
    for i in range(coupling.shape[0]):
        q, u = belief[0, i], belief[1, i]
        pairwise[i, i] += weight * q
        for k in range(i):
            s = coupling[i, k]
            both = weight * _joint(s, decay[i, k], q, u, belief[0, k], belief[1, k])[0]
            pairwise[i, k] += both
            pairwise[k, i] += both


@jit
def _start(in_logs, warm, coupling, rho, theta, message):
    """Fill message (L, L): none, or those of the fixed point that has the beliefs theta."""
    none = message.dtype.type(0 if in_logs else 1)
    fill(message.ravel(), none)
    if not warm:
        return
    for i in range(theta.shape[0]):
        for k in range(theta.shape[0]):
            if k != i:
                w = 2.0 * float(coupling[i, k]) / rho[i, k]
                w = min(max(w, -_MAX_START), _MAX_START)
                log_odds = message_from_beliefs(2.0 * w, theta[k], theta[i]) - w
                message[i, k] = log_odds if in_logs else math.exp(log_odds)


@jit
def _belief(in_logs, i, field, message, rho, row_rho, piece):
    """Log-odds of label i from what comes in."""
    if in_logs:
        return field + _dot(row_rho[i], message[i])
    return field + rho * message.dtype.type(_log_product(message[i], piece))


@jit
def pass_ising(
    in_logs, edge, coupling, rho, uniform_rho, decay, piece, warm, damping,
    field, max_iter, tol, weight, want_log_z, want_pairwise,
    theta, n_iter, converged, log_partition, pairwise, trace,
):  # fmt: skip
    """Pass messages for a chunk of N rows, each until it has converged.

    Parameters
    ----------
    in_logs : bool
        Messages are log-odds; else odds, without damping and with one rho for all edges.
    edge : (L, L)
        2 s / rho if in_logs, else the exponential of it.
    coupling : (L, L), s
    rho : (L, L), dtype of the coupling
        Appearance of each edge in a spanning tree, positive.
    uniform_rho : float, the same of all edges, if not in_logs
    decay : (L, L) float64
        exp(-4 |s| / rho), kept above 0.
    piece : int
        Number of messages whose product fits float64.
    warm : bool
        Start from messages that fit theta, not from none.
    damping : float
    field : (N, L)
        As log-odds, 2 f; hugely negative where a label is pinned to -1.
    max_iter : int
    tol : float
    weight : (N,)
        Of the pairwise sum.
    want_log_z, want_pairwise : bool
    theta : (N, L)
        In: log-odds to start from. Out: belief log-odds.
    n_iter, converged, log_partition : (N,) output
        log Z of the scores ``field' (y + 1) / 2 + 1/2 y' S y``.
    pairwise : (L, L) output, added to
    trace : (N, max_iter) output, or (N, 0)
    """
    n_labels = edge.shape[0]
    one = edge.dtype.type(1)
    message = np.empty((n_labels, n_labels), edge.dtype)
    out = np.empty(n_labels, edge.dtype)
    last = np.empty(n_labels, edge.dtype)
    belief = np.empty((2, n_labels))
    for n in range(field.shape[0]):
        _start(in_logs, warm, coupling, rho, theta[n], message)
        for i in range(n_labels):
            last[i] = sigmoid_pair(theta[n, i], one)[0]
        converged[n] = False
        for iteration in range(max_iter):
            change = one - one
            for i in range(n_labels):
                x = _belief(in_logs, i, field[n, i], message, uniform_rho, rho, piece)
                t, u = sigmoid_pair(x, one)
                change = max(change, abs(t - last[i]))
                last[i] = t
                if in_logs:
                    _send_logs(edge[i], message[i], x, out)
                    for k in range(n_labels):
                        message[k, i] = damping * message[k, i] + (one - damping) * out[k]
                else:
                    _send_odds(edge[i], message[i], t, u, out)
                    for k in range(n_labels):
                        message[k, i] = out[k]
            n_iter[n] = iteration + 1
            if trace.shape[1]:
                trace[n, iteration] = change
            if change < tol:
                converged[n] = True
                break
        for i in range(n_labels):
            theta[n, i] = _belief(in_logs, i, field[n, i], message, uniform_rho, rho, piece)
        _set_beliefs(theta[n], belief)
        if want_log_z:
            log_partition[n] = _log_partition(coupling, rho, decay, field[n], theta[n], belief)
        if want_pairwise:
            _add_pairs(weight[n], coupling, decay, belief, pairwise)
