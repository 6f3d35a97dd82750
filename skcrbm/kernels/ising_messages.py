"""Sum-product and tree-reweighted message passing on pairwise Boltzmann machines.

Labels are visited in order. A visited label adds its field and the messages that it has received,
which gives the log-odds theta of its belief. Then it sends messages to all other labels. Let s be
the coupling of i and k, rho the appearance probability of an edge (1 for sum-product),
w = 2 s / rho and x = theta_i - mu_{k->i}. The message i -> k is

    mu = log( (e^(w + x) + 1) / (e^x + e^w) ),    theta_i = field_i + rho sum_k mu_{k->i}

If messages are stored as odds R = e^mu, computing a message takes a single division. With E = e^w,
t = sigma(theta_i) and u = 1 - t, the message is
R_{i->k} = (E t + u R_{k->i}) / (t + E u R_{k->i}).

``message[i, k]`` is the message k -> i. Clamped labels are left out: they are not visited, and
their messages stay neutral (log-odds 0).
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.exponentials import sign_messages
from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import (
    EPS_32,
    EPS_64,
    ROUNDING,
    binary_entropy,
    copy_into,
    entropy_term,
    fill,
    log_odds_moved,
    message_from_beliefs,
    sigmoid_pair,
)

# Couplings w beyond ±_MAX_START are clipped when the initial messages are computed from beliefs.
_MAX_START = 150.0


class IsingEdges(NamedTuple):
    """Couplings of an Ising model with L labels, and the form of the messages."""

    # True if messages are stored as log-odds. False if they are stored as odds, which is possible
    # only without damping.
    in_logs: bool
    edge: np.ndarray  # (L, L) 2 s / rho if in_logs, else exp(2 s / rho)
    coupling: np.ndarray  # (L, L) couplings s
    rho: float  # appearance probability of all edges in a spanning tree; 1 for sum-product
    decay: np.ndarray  # (L, L) float64, exp(-4 |s| / rho), kept above 0
    piece: int  # number of odds whose product stays inside the range of float64
    damping: float  # share of the old message in the new message


@jit(fastmath={"contract", "reassoc"})
def _product(values):
    """Return the product of values (K,), in float64."""
    product = 1.0
    for k in range(values.shape[0]):
        product *= values[k]
    return product


@jit(fastmath={"contract", "reassoc"})
def _sum(values):
    """Return the sum of values (K,)."""
    total = values.dtype.type(0)
    for k in range(values.shape[0]):
        total += values[k]
    return total


@jit
def _log_product(odds, piece):
    """Return the log of the product of `odds` (L,). A product of `piece` odds fits float64."""
    total = 0.0
    for first in range(0, odds.shape[0], piece):
        total += math.log(_product(odds[first : min(first + piece, odds.shape[0])]))
    return total


@jit(fastmath={"contract"})
def _send_odds(gain, incoming, t, u, out):
    """Compute the messages from a label to all labels, as odds, and write them to `out` (L,).

    The label is on with probability `t` and off with probability `u`. `incoming` (L,) holds the
    last messages to the label. `gain` (L,) holds E = e^w for each edge of the label.
    """
    for k in range(np.uintp(out.shape[0])):
        back = u * incoming[k]
        out[k] = (gain[k] * t + back) / (t + gain[k] * back)


@jit
def _send_logs(w, incoming, theta, out):
    """Compute the messages from a label to all labels, as log-odds, and write them to `out` (L,).

    The belief of the label has the log-odds `theta`. `incoming` (L,) holds the last messages to the
    label, and `w` (L,) the number w = 2 s / rho for each of its edges.
    """
    for k in range(np.uintp(out.shape[0])):
        out[k] = theta - incoming[k]
    sign_messages(w, out, out.shape[0])


@jit
def _larger_pair(decay, q, u, r, v):
    """Return the probability that two units are both on, given their log odds-ratio w >= 0.

    The first unit is on with probability q and off with probability u, the second unit is on with
    probability r and off with probability v. `decay` is e^-w. P(both on) is a root of a quadratic
    equation, which is divided by e^w here so that all terms are positive.
    """
    rise = 1.0 - decay
    differ, skew = q * v + r * u, q * v - r * u
    root = math.sqrt(decay * decay + 2.0 * rise * decay * differ + skew * skew * rise * rise)
    return 2.0 * q * r / (decay + (q + r) * rise + root)


@jit
def _joint(s, decay, q, u, r, v):
    """Return the beliefs P(i on, k on) and P(i on, k off) of an edge with coupling s.

    `q` and `u` are P(on) and P(off) of label i; `r` and `v` are P(on) and P(off) of label k.
    """
    if s < 0:
        other = _larger_pair(decay, q, u, v, r)
        return max(q - other, 0.0), other
    both = _larger_pair(decay, q, u, r, v)
    return both, max(q - both, 0.0)


@jit
def _set_beliefs(theta, belief):
    """Write P(on) and P(off) of the labels to `belief` (2, L), from the log-odds `theta`."""
    for i in range(theta.shape[0]):
        belief[0, i], belief[1, i] = sigmoid_pair(float(theta[i]), 1.0)


@jit
def _log_partition(coupling, decay, field, theta, belief, free):
    """Return the log partition function of the free labels.

    It is the expected score + sum H_i + sum (H_ik - H_i - H_k), where H are entropies. The
    pair beliefs are computed such that their marginals are the beliefs of the labels, even if the
    messages have not converged.
    """
    log_z = 0.0
    for i in range(theta.shape[0]):
        if not free[i]:
            continue
        q, u = belief[0, i], belief[1, i]
        n_pairs = 0.0
        for k in range(theta.shape[0]):
            if k == i or coupling[i, k] == 0 or not free[k]:
                continue
            n_pairs += 1.0
            if k > i:
                continue
            s, r = float(coupling[i, k]), belief[0, k]
            p11, p10 = _joint(s, decay[i, k], q, u, r, belief[1, k])
            p01 = max(r - p11, 0.0)
            p00 = max(u - p01, 0.0)
            log_z += s * (1.0 - 2.0 * (p10 + p01))
            both = entropy_term(p11) + entropy_term(p10) + entropy_term(p01) + entropy_term(p00)
            log_z += both
        log_z += float(field[i]) * q + (1.0 - n_pairs) * binary_entropy(theta[i])
    return log_z


@jit
def _add_pairs(weight, coupling, decay, belief, free, pairwise):
    """For each pair of free labels, add weight * P(both are on) to `pairwise` (L, L)."""
    for i in range(coupling.shape[0]):
        if not free[i]:
            continue
        q, u = belief[0, i], belief[1, i]
        pairwise[i, i] += weight * q
        for k in range(i):
            if not free[k]:
                continue
            s = coupling[i, k]
            both = weight * _joint(s, decay[i, k], q, u, belief[0, k], belief[1, k])[0]
            pairwise[i, k] += both
            pairwise[k, i] += both


@jit(fastmath={"contract"}, inline=True)
def fitting_odds(e, t, u, on, off):
    """Return the message from label k to label i, as odds, at the fixed point with given beliefs.

    For label i the beliefs are P(on) = `on` and P(off) = `off`, for label k they are `t` and `u`.
    With E = e^w, the odds r solve ``off r^2 + b r = on``, where b = on (t / E + E u) - off (E t + u
    / E).
    """
    one = e / e
    two = one + one
    four = two + two
    inverse = one / e
    b = on * (t * inverse + e * u) - off * (e * t + u * inverse)
    root = math.sqrt(b * b + four * (on * off))
    num = two * on if b > 0 else root - b
    den = b + root if b > 0 else two * off
    r = num / den
    low = e if e < inverse else inverse
    high = inverse if e < inverse else e
    r = r if r > low else low
    return r if r < high else high


@jit(fastmath={"contract"})
def _odds_from_beliefs(odds, t, u, on, off, message):
    """Write the messages from all labels to a label, as odds, to `message` (L,).

    The beliefs of the label are `on` and `off`. The beliefs of the other labels are `t` (L,) and
    `u` (L,). See `fitting_odds`.
    """
    for k in range(np.uintp(message.shape[0])):
        message[k] = fitting_odds(odds[k], t[k], u[k], on, off)


@jit
def _read_messages(in_logs, edge, source, message):
    """Copy messages of an earlier run from `source` to `message` (L,), and clip them.

    The bounds of a message as log-odds are -|w| and |w|, for the coupling w of its edge.
    """
    for k in range(message.shape[0]):
        high = abs(edge[k]) if in_logs else max(edge[k], 1 / edge[k])
        low = -high if in_logs else 1 / high
        message[k] = min(max(source[k], low), high)


@jit
def _start(model, warm, start, n, theta, free, belief, message):
    """Set the initial messages (L, L) of model n.

    If not `warm`, the messages are neutral. If `warm`, they are start[n], the messages of an
    earlier run. If `start` is empty, warm messages are computed from the beliefs.
    """
    in_logs, edge = model.in_logs, model.edge
    neutral = message.dtype.type(0 if in_logs else 1)
    fill(message.ravel(), neutral)
    if not warm:
        return
    t, u = belief[0], belief[1]
    for i in range(theta.shape[0]):
        if not free[i]:
            continue
        if start.shape[0]:
            _read_messages(in_logs, edge[i], start[n, i], message[i])
        elif not in_logs:
            _odds_from_beliefs(edge[i], t, u, t[i], u[i], message[i])
        else:
            for k in range(theta.shape[0]):
                if k != i:
                    w = 2.0 * float(model.coupling[i, k]) / float(model.rho)
                    w = min(max(w, -_MAX_START), _MAX_START)
                    message[i, k] = message_from_beliefs(2.0 * w, theta[k], theta[i]) - w
        for k in range(theta.shape[0]):
            if not free[k]:
                message[i, k] = neutral


@jit
def _belief(in_logs, rho, i, field, message, piece):
    """Return the belief of label i as log-odds, given the messages to the label."""
    if in_logs:
        return field + rho * _sum(message[i])
    return field + rho * message.dtype.type(_log_product(message[i], piece))


@jit
def _moves_messages(model, i, x, message, free, slack, rounding, out):
    """Return True if a label would now send messages that differ from its last messages.

    Label i has the log-odds x. `message` has the last messages.
    """
    in_logs, edge, damping = model.in_logs, model.edge, model.damping
    one = edge.dtype.type(1)
    if in_logs:
        _send_logs(edge[i], message[i], x, out)
    else:
        t, u = sigmoid_pair(x, one)
        _send_odds(edge[i], message[i], t, u, out)
    room = slack + rounding * (1 + abs(x))
    for k in range(edge.shape[0]):
        if k == i or not free[k]:
            continue
        new, old = float(out[k]), float(message[k, i])
        if in_logs:
            if (1 - damping) * abs(new - old) > room:
                return True
        elif new > (1 + room) * old or old > (1 + room) * new:
            return True
    return False


@jit
def pass_ising(model, field, free, warm, start, options, answers, kept):
    """Pass messages for N models until each model has converged, one model after the other.

    Parameters
    ----------
    model : IsingEdges
    field : (N, L) fields as log-odds, 2 f
    free : (N, L) bool, False for clamped labels, which are left out
    warm : bool, True to begin with the messages `start` or, if `start` is empty, with messages
        that fit the beliefs; False for neutral messages
    start : (N or 0, L, L) messages of an earlier run, odds or log-odds as in this run
    options, answers : IsingOptions, IsingAnswers
    kept : (N or 0, L, L) output, the last messages
    """
    in_logs, edge, _, rho, _, piece, damping = model
    max_iter, tol, slack = options
    theta, n_iter, converged, trace = answers
    n_labels = edge.shape[0]
    one = edge.dtype.type(1)
    rounding = ROUNDING * (EPS_32 if edge.itemsize == 4 else EPS_64)
    message = np.empty((n_labels, n_labels), edge.dtype)
    out = np.empty(n_labels, edge.dtype)
    last = np.empty(n_labels, edge.dtype)
    first = np.empty((2, n_labels), edge.dtype)
    for n in range(field.shape[0]):
        for i in range(n_labels):
            if not free[n, i]:
                theta[n, i] = 0
            first[0, i], first[1, i] = sigmoid_pair(theta[n, i], one)
            last[i] = first[0, i]
        _start(model, warm, start, n, theta[n], free[n], first, message)
        converged[n] = False
        for iteration in range(max_iter):
            change = one - one
            moved = False
            for i in range(n_labels):
                if not free[n, i]:
                    continue
                x = _belief(in_logs, rho, i, field[n, i], message, piece)
                t, u = sigmoid_pair(x, one)
                change = max(change, abs(t - last[i]))
                moved |= log_odds_moved(x, theta[n, i], slack, rounding)
                last[i] = t
                theta[n, i] = x
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
            if change < tol and not moved:
                # Equal beliefs do not prove convergence. A label may have been visited before the
                # messages that change it were sent, above all in the first sweep. Also, the changes
                # of two messages may cancel in a belief, while they still change other messages. So
                # check that no label would send different messages now.
                for i in range(n_labels):
                    if not free[n, i]:
                        continue
                    x = _belief(in_logs, rho, i, field[n, i], message, piece)
                    moved |= log_odds_moved(x, theta[n, i], slack, rounding)
                    if iteration == 0:
                        change = max(change, abs(sigmoid_pair(x, one)[0] - last[i]))
                    moved = moved or _moves_messages(
                        model, i, x, message, free[n], slack, rounding, out
                    )
                if change < tol and not moved:
                    converged[n] = True
                    break
        for i in range(n_labels):
            if free[n, i]:
                theta[n, i] = _belief(in_logs, rho, i, field[n, i], message, piece)
        if kept.shape[0]:
            copy_into(message.ravel(), kept[n].ravel())


@jit
def finish_ising(model, field, free, theta, weight, log_partition, pairwise):
    """Compute log Z and statistics of N models from their beliefs.

    Parameters
    ----------
    model : IsingEdges
    field, free : see `pass_ising`
    theta : (N, L) log-odds of the beliefs, 0 for clamped labels
    weight : (N,) weight of each model in the sum of the statistics
    log_partition : (N or 0,) output, log Z for the score f'(y + 1) / 2 + y'Sy / 2, where y in {-1,
        +1} are the labels, f the fields and S the couplings
    pairwise : (L, L) output, to which weighted sums of P(both labels on) are added, or (0, 0)
    """
    belief = np.empty((2, theta.shape[1]))
    for n in range(theta.shape[0]):
        _set_beliefs(theta[n], belief)
        if log_partition.shape[0]:
            log_partition[n] = _log_partition(
                model.coupling, model.decay, field[n], theta[n], belief, free[n]
            )
        if pairwise.shape[0]:
            _add_pairs(weight[n], model.coupling, model.decay, belief, free[n], pairwise)
