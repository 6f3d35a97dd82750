"""Message passing on restricted Boltzmann machines in the log domain.

The notation follows Ping & Ihler (2017): theta are the log-odds of beliefs, mu are messages
as log-odds. The kernel stores one matrix with the messages from visible to hidden units. It
computes the messages from hidden to visible units when it needs them. All methods differ only in
the message function

    sum-product    f(w, x) = sp(w + x) - sp(x)
    max-product    f(w, x) = relu(w + x) - relu(x)
    mixed-product  sum-product towards visible units, w [theta_i > 0] towards hidden units

Here sp is softplus, [theta_i > 0] is 1 if theta_i > 0 and 0 otherwise, w is the coupling, and x the
log-odds of the sender without the message in the other direction. Tree-reweighted message passing
is sum-product with w = W / rho and with messages that are multiplied by rho (Wainwright, Jaakkola
and Willsky 2005).

Clamped units are left out. Clamped visible units have no row in the matrices of couplings and
messages, so the rows of the free visible units lie one after the other. The messages of clamped
hidden units are set to 0. `_sweep` processes the rows in blocks, which are groups of rows of the
size `_BLOCK` or larger. The message function of max-product is so cheap that `_sweep_max` computes
the messages to visible units twice instead of storing them.
"""

from typing import NamedTuple

import numpy as np

from skcrbm.kernels.exponentials import beliefs, log_messages
from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import (
    EPS_32,
    EPS_64,
    MAX,
    MIXED,
    ROUNDING,
    SUM,
    add_row,
    copy_into,
    fill,
    log_odds_moved,
    max_message_from_beliefs,
    message_from_beliefs,
    sigmoid_pair,
    softplus,
)

# A block is a group of rows of messages that are processed together. It has _BLOCK rows or, if the
# rows are short, more rows with up to _BLOCK_NUMBERS entries in total. The number of rows is even,
# because sums take two rows at a time.
_BLOCK, _BLOCK_NUMBERS = 16, 1024


class LogCouplings(NamedTuple):
    """Couplings of an RBM, divided by the weight of its messages."""

    weights: np.ndarray  # (V, H), W / rho
    rho: float  # weight of the messages: appearance probability of edges if tree-reweighted, else 1


@jit(fastmath={"contract"})
def _max_message(w, x, zero):
    """Return relu(w + x) - relu(x)."""
    y = w + x
    return (y if y > zero else zero) - (x if x > zero else zero)


# In the next functions, `w` and `message` (B, H) are B contiguous rows of couplings and messages,
# each with an entry per hidden unit. `rows` (B,) has the index of the visible unit of each row.


@jit(fastmath={"contract", "reassoc"})
def _row_sums(incoming, k0, k1):
    """Return the sums of the rows k0 and k1 of `incoming` (B, H).

    The loop is fast because it loads numbers without storing any (see `skcrbm.kernels`).
    """
    sum0 = incoming.dtype.type(0)
    sum1 = incoming.dtype.type(0)
    for j in range(np.uintp(incoming.shape[1])):
        sum0 += incoming[k0, j]
        sum1 += incoming[k1, j]
    return sum0, sum1


@jit
def _receive_rows(rho, held, rows, visible_bias, incoming, theta_v):
    """For each visible unit i in `rows` (B,), set theta_v[i], the log-odds of its belief.

    For ``i = rows[k]``, theta_v[i] is the bias of unit i plus rho times the sum of the messages
    incoming[k] to the unit. `held` are the indices of the clamped hidden units, whose messages are
    first set to 0.
    """
    for first in range(0, rows.shape[0], 2):
        k0 = np.uintp(first)
        k1 = np.uintp(min(first + 1, rows.shape[0] - 1))  # an odd last row is processed twice
        for k in range(held.shape[0]):
            incoming[k0, held[k]] = 0
            incoming[k1, held[k]] = 0
        sum0, sum1 = _row_sums(incoming, k0, k1)
        theta_v[rows[k0]] = visible_bias[rows[k0]] + rho * sum0
        theta_v[rows[k1]] = visible_bias[rows[k1]] + rho * sum1


# The loops of max-product use few arrays. To use vector instructions, the compiler must check each
# pair of arrays for overlaps. If more than eight checks are needed, it gives up.


@jit(fastmath={"contract", "reassoc"})
def _max_sum(w, message, theta_h, k):
    """Return the sum of the messages from hidden units to the visible unit of row k.

    The messages are not stored. `_replace_max` computes them again, which takes less time than
    writing and reading them.
    """
    zero = w.dtype.type(0)
    total = w.dtype.type(0)
    for j in range(np.uintp(w.shape[1])):
        total += _max_message(w[k, j], theta_h[j] - message[k, j], zero)
    return total


@jit(fastmath={"contract"})
def _replace_max(w, k, theta_h, theta, damping, keep, message):
    """Replace row k of `message` (B, H) by ``damping * old message + keep * new message``.

    `theta` is the log-odds of the visible unit of the row.
    """
    zero = w.dtype.type(0)
    for j in range(np.uintp(message.shape[1])):
        incoming = _max_message(w[k, j], theta_h[j] - message[k, j], zero)
        new = _max_message(w[k, j], theta - incoming, zero)
        message[k, j] = damping * message[k, j] + keep * new


@jit
def _add_rows(message, k0, k1, total):
    """Add the rows k0 and k1 of `message` (B, H) to `total` (H,)."""
    for j in range(np.uintp(total.shape[0])):
        total[j] += message[k0, j] + message[k1, j]


@jit
def _sweep_max(w, visible_bias, theta_v, theta_h, message, rows, damping, total):
    """Update all messages to and from the visible units `rows` (B,) in max-product.

    `theta_h` (H,) has the log-odds of the hidden units, and -inf for clamped hidden units, so that
    they send messages of 0. The messages to the hidden units are added to `total` (H,).
    """
    keep = w.dtype.type(1) - damping
    for first in range(0, rows.shape[0], 2):
        last = min(first + 2, rows.shape[0])
        for k in range(np.uintp(first), np.uintp(last)):
            i = rows[k]
            theta_v[i] = visible_bias[i] + _max_sum(w, message, theta_h, k)
            _replace_max(w, k, theta_h, theta_v[i], damping, keep, message)
        if last == first + 2:
            _add_rows(message, np.uintp(first), np.uintp(first + 1), total)
        else:
            add_row(message, np.uintp(first), total)


@jit(fastmath={"contract"})
def _hidden_cavities(theta_h, message, cavity, count):
    """Subtract messages from the log-odds of hidden units: cavity = theta_h - message.

    All arrays are flattened matrices with a row per visible unit. Each row of `theta_h` contains
    the same log-odds of the hidden units.
    """
    for k in range(np.uintp(count)):
        cavity[k] = theta_h[k] - message[k]


@jit(fastmath={"contract"})
def _visible_cavities(rows, theta_v, incoming):
    """Replace the messages `incoming` (B, H) to visible units `rows` by theta_v - incoming."""
    for k in range(np.uintp(rows.shape[0])):
        theta = theta_v[rows[k]]
        for j in range(np.uintp(incoming.shape[1])):
            incoming[k, j] = theta - incoming[k, j]


@jit(fastmath={"contract"})
def _replace(new, damping, keep, message, total):
    """Set `message` (B, H) to damping * message + keep * new, and add its rows to `total` (H,)."""
    for k in range(np.uintp(message.shape[0])):
        for j in range(np.uintp(total.shape[0])):
            value = damping * message[k, j] + keep * new[k, j]
            message[k, j] = value
            total[j] += value


@jit
def _receive_sum(w, rho, visible_bias, theta_v, theta_rows, held, message, rows, incoming):
    """Write the messages from hidden units to the visible units `rows` to `incoming` (B, H).

    Also set `theta_v` of these visible units. Each row of `theta_rows` (B, H) contains the same
    log-odds of the hidden units.
    """
    count, size = message.size, incoming.size
    flat = incoming.reshape(size)
    _hidden_cavities(theta_rows.reshape(size), message.reshape(count), flat, count)
    log_messages(w.reshape(count), flat, count)
    _receive_rows(rho, held, rows, visible_bias, incoming, theta_v)


@jit
def _send_sum(w, theta_v, message, rows, damping, keep, incoming, total):
    """Replace the messages that the visible units `rows` send, and add them to `total` (H,).

    `incoming` (B, H) is overwritten.
    """
    _visible_cavities(rows, theta_v, incoming)
    log_messages(w.reshape(w.size), incoming.reshape(incoming.size), w.size)
    _replace(incoming, damping, keep, message, total)


@jit
def _send_choices(w, theta_v, message, rows, damping, keep, new, total):
    """Replace the messages that the visible units `rows` send in mixed-product.

    A visible unit sends the messages of its preferred state: its couplings if it prefers to be on,
    else 0. `new` (B, H) is overwritten, and the messages are added to `total` (H,).
    """
    for k in range(np.uintp(rows.shape[0])):
        if theta_v[rows[k]] > 0:
            copy_into(w[k], new[k])
        else:
            fill(new[k], 0)
    _replace(new, damping, keep, message, total)


@jit
def _sweep(
    kind, w, rho, visible_bias, theta_v, theta_rows, held, message, rows, damping, incoming, total
):  # fmt: skip
    """Update all messages to and from the visible units `rows`.

    The sums of the messages to hidden units are added to `total` (H,). Each row of `theta_rows`
    (B, H) contains the same log-odds of the hidden units. `incoming` (B, H) is scratch space.
    """
    keep = w.dtype.type(1) - damping
    size = incoming.shape[0]
    for first in range(0, rows.shape[0], size):
        stop = min(rows.shape[0], first + size)
        block, w_block, sent = rows[first:stop], w[first:stop], message[first:stop]
        _receive_sum(w_block, rho, visible_bias, theta_v, theta_rows, held, sent, block, incoming)
        if kind == MIXED:
            _send_choices(w_block, theta_v, sent, block, damping, keep, incoming, total)
        else:
            _send_sum(w_block, theta_v, sent, block, damping, keep, incoming, total)


@jit
def _visited_state(kind, weights, visible_bias, hidden_bias, free, theta_v, field, state):
    """Write the preferred value of each visible unit to `state` (V,), and return its score.

    A clamped visible unit gets the state 0. For MAX, the score is the score of the best joint state
    with these visible states. For MIXED, the score is -F(v). If `state` does not change, its score
    is known, and the function returns -inf.
    """
    n_visible = state.shape[0]
    changed = False
    for i in range(n_visible):
        on = theta_v[i] > 0 and free[i]
        if state[i] != on:
            state[i] = on
            changed = True
    if not changed:
        return -np.inf
    score = 0.0
    copy_into(hidden_bias, field)
    for i in range(n_visible):
        if state[i]:
            score += visible_bias[i]
            add_row(weights, i, field)
    for j in range(field.shape[0]):
        if free[n_visible + j]:
            score += max(field[j], 0.0) if kind == MAX else softplus(field[j])
    return score


@jit
def _upper_log_partition(w, rho, visible_bias, hidden_bias, free, rows, message):
    """Return an upper bound on log Z of the free units, with w = W / rho.

    The bound holds for any messages. Let u be the message from visible unit i to hidden unit j, d
    the message in the other direction that agrees with u, theta the log-odds that follow from the
    messages, x = theta_i - d and n = f(w, x). The messages move weight between the edges and the
    units of a tree, and Z of a tree is the product of the sums of its units times a factor for each
    edge, which a visible leaf i changes by at most the larger of its values for the two states of
    j. So log Z is at most

        sum_j sp(theta_j) + sum_i sp(theta_i) + rho sum_ij (sp(x) - sp(theta_i) + max(0, n - u))

    At a fixed point n = u, and the bound is the tree-reweighted log Z.
    """
    n_visible, n_hidden = visible_bias.shape[0], hidden_bias.shape[0]
    theta_h = np.empty(n_hidden)
    log_z = 0.0
    for j in range(n_hidden):
        theta_h[j] = hidden_bias[j]
        for k in range(rows.shape[0]):
            theta_h[j] += rho * float(message[k, j])
        log_z += softplus(theta_h[j]) if free[n_visible + j] else 0.0
    received = np.empty(n_hidden)
    for k in range(rows.shape[0]):
        theta = float(visible_bias[rows[k]])
        for j in range(n_hidden):
            x = theta_h[j] - message[k, j]
            received[j] = softplus(w[k, j] + x) - softplus(x) if free[n_visible + j] else 0.0
            theta += rho * received[j]
        # Begin with the more probable state, so that large log-odds do not cancel.
        sign = 1.0 if theta > 0 else -1.0
        rest = softplus(-sign * theta)
        log_z += rest + (visible_bias[rows[k]] if theta > 0 else 0.0)
        for j in range(n_hidden):
            if free[n_visible + j]:
                x = theta - received[j]
                sent = softplus(w[k, j] + x) - softplus(x)
                log_z += rho * (softplus(-sign * x) - rest + max(0.0, sent - message[k, j]))
    return log_z


@jit
def _start_messages(kind, w, start, n, theta_v, theta_h, rows, message):
    """Set the initial messages (B, H) of model n.

    The messages are copied from `start[n]`, the messages of an earlier run. If `start` is empty,
    the messages are computed from the beliefs.
    """
    zero = w.dtype.type(0)
    for k in range(rows.shape[0]):
        i = rows[k]
        for j in range(w.shape[1]):
            if start.shape[0]:
                low, high = min(w[k, j], zero), max(w[k, j], zero)
                message[k, j] = min(max(start[n, i, j], low), high)
            elif kind == SUM:
                message[k, j] = message_from_beliefs(w[k, j], theta_v[i], theta_h[j])
            elif kind == MAX:
                message[k, j] = max_message_from_beliefs(w[k, j], theta_v[i], theta_h[j])
            else:
                message[k, j] = w[k, j] if theta_v[i] > 0 else zero


@jit
def _any_moved(theta, last, slack, rounding):
    """Return True if an entry of `theta` (K,) differs from `last` by more than the tolerance."""
    moved = False
    for k in range(theta.shape[0]):
        moved |= log_odds_moved(theta[k], last[k], slack, rounding)
    return moved


@jit
def _log_partition(message, theta_v, theta_h, free_h, rows, total, work):
    """Return Bethe's log Z from the messages and beliefs.

    `total` (H,) contains the sum of the messages to each hidden unit. `work` (H,) is scratch space.
    """
    n_hidden = theta_h.shape[0]
    log_z = 0.0
    for j in range(n_hidden):
        if free_h[j]:
            log_z += softplus(theta_h[j]) - total[j]
    for k in range(rows.shape[0]):
        log_z += softplus(theta_v[rows[k]])
        for j in range(n_hidden):
            work[j] = -theta_h[j]
        log_messages(message[k], work, n_hidden)
        for j in range(n_hidden):
            log_z += work[j] if free_h[j] else 0.0
    return log_z


@jit
def _number_units(free_v, free_h, theta_v, theta_h, rows, columns):
    """Write the indices of free visible units to `rows`, and of clamped hidden units to `columns`.

    Also set the log-odds of clamped units to 0. Return the number of free visible units and the
    number of clamped hidden units.
    """
    n_active = 0
    for i in range(free_v.shape[0]):
        if free_v[i]:
            rows[n_active] = i
            n_active += 1
        else:
            theta_v[i] = 0
    n_held = 0
    for j in range(free_h.shape[0]):
        if not free_h[j]:
            theta_h[j] = 0
            columns[n_held] = j
            n_held += 1
    return n_active, n_held


@jit
def pass_logs(kind, model, batch, options, answers):
    """Pass messages of the given kind for N models until each model has converged.

    Parameters
    ----------
    kind : SUM, MAX or MIXED
    model : LogCouplings
    batch, options, answers : RBMRows, RBMOptions, RBMAnswers, with messages as log-odds
    """
    weights, rho = model
    visible_bias, hidden_bias, free, weight, start = batch
    log_odds, n_iter, converged, log_partition, pairwise, trace, score, state, kept = answers
    damping = options.damping
    n_rows, n_visible = visible_bias.shape
    n_hidden = hidden_bias.shape[1]
    dtype = weights.dtype
    one = dtype.type(1)
    rounding = ROUNDING * (EPS_32 if weights.itemsize == 4 else EPS_64)
    size = max(_BLOCK, _BLOCK_NUMBERS // (2 * max(n_hidden, 1)) * 2)
    size = min(size, max(n_visible, 1))
    messages, gathered = np.empty((n_visible, n_hidden), dtype), np.empty((0, n_hidden), dtype)
    theta_rows, incoming = np.empty((size, n_hidden), dtype), np.empty((size, n_hidden), dtype)
    total, cavity = np.empty(n_hidden, dtype), np.empty(n_hidden, dtype)
    t, u = np.empty(n_hidden, dtype), np.empty(n_hidden, dtype)
    ti, ui = np.empty(n_visible, dtype), np.empty(n_visible, dtype)
    last, visited = np.empty(n_visible + n_hidden, dtype), np.empty(n_visible, np.int8)
    rows, columns = np.empty(n_visible, np.uintp), np.empty(n_hidden, np.uintp)
    for n in range(n_rows):
        theta_v, theta_h = log_odds[n, :n_visible], log_odds[n, n_visible:]
        free_v, free_h = free[n, :n_visible], free[n, n_visible:]
        n_active, n_held = _number_units(free_v, free_h, theta_v, theta_h, rows, columns)
        active, held, message = rows[:n_active], columns[:n_held], messages[:n_active]
        w = weights
        if n_active < n_visible:
            if gathered.shape[0] < n_active:
                gathered = np.empty((n_active, n_hidden), dtype)
            for k in range(n_active):
                copy_into(weights[active[k]], gathered[k])
            w = gathered[:n_active]
        if options.warm:
            _start_messages(kind, w, start, n, theta_v, theta_h, active, message)
        else:
            for k in range(n_active):
                fill(message[k], 0)
        if options.cold:  # treat hidden units as off, so that they send messages of 0
            fill(theta_h, -np.inf)
        fill(t, 0)
        fill(ti, 0)
        beliefs(theta_h, free_h, t, u)
        beliefs(theta_v, free_v, ti, ui)
        fill(visited, -1)  # no state visited yet
        converged[n] = False
        iteration = -1 if options.cold else 0
        while iteration < options.max_iter:
            iteration += 1
            copy_into(log_odds[n], last)
            fill(total, 0)
            if kind == MAX:
                copy_into(theta_h, cavity)
                for k in range(n_held):
                    cavity[held[k]] = -np.inf
                _sweep_max(w, visible_bias[n], theta_v, cavity, message, active, damping, total)
            else:
                for k in range(min(size, n_active)):
                    copy_into(theta_h, theta_rows[k])
                _sweep(
                    kind, w, rho, visible_bias[n], theta_v, theta_rows, held, message, active,
                    damping, incoming, total,
                )  # fmt: skip
            change = beliefs(theta_v, free_v, ti, ui)
            for j in range(n_hidden):
                theta_h[j] = hidden_bias[n, j] + rho * total[j]
            for k in range(n_held):
                theta_h[held[k]] = 0
            change = max(change, beliefs(theta_h, free_h, t, u))
            if kind != SUM:
                reached = _visited_state(
                    kind, weights, visible_bias[n], hidden_bias[n], free[n], theta_v, total, visited
                )
                if reached > score[n]:
                    score[n] = reached
                    for i in range(n_visible):
                        state[n, i] = visited[i]
            if iteration == 0:
                continue
            if trace.shape[1]:
                trace[n, iteration - 1] = change
            if change < options.tol and not _any_moved(log_odds[n], last, options.slack, rounding):
                converged[n] = True
                break
        n_iter[n] = iteration
        if options.want_statistics:
            for k in range(n_active):
                i = active[k]
                if ti[i] > 0:
                    for j in range(n_hidden):
                        if free_h[j]:
                            x = theta_h[j] - message[k, j] + w[k, j]
                            share = weight[n] * ti[i] * sigmoid_pair(x, one)[0]
                            pairwise[i, j] += share
        if options.want_log_partition and options.bounds:
            log_partition[n] = _upper_log_partition(
                w, rho, visible_bias[n], hidden_bias[n], free[n], active, message
            )
        elif options.want_log_partition:
            log_partition[n] = _log_partition(message, theta_v, theta_h, free_h, active, total, t)
        if kept.shape[0]:
            for i in range(n_visible):
                fill(kept[n, i], 0)
            for k in range(n_active):
                copy_into(message[k], kept[n, active[k]])
