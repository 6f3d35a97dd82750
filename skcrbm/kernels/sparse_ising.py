"""Message passing on Ising models over sparse graphs, for many models at once.

A block is a group of models that a kernel processes together. The innermost loops run over the
models of a block, as SIMD lanes: the models lie side by side on the last axis of the arrays, and a
vector instruction processes several of them at once.

Messages are odds. For an edge with the coupling s, let ``on_i : off_i`` be the belief of variable i
(its field times all messages to i), R the last message to i over the edge, and E = e^(2 s). Then
variable i sends

    (E on_i + R off_i) / (on_i + E R off_i).

For max-product, each sum becomes a maximum. The two messages of an edge are computed with a single
division. ``message[2 e]`` goes to the first variable of edge e, ``message[2 e + 1]`` to the second.
"""

import math

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.lanes import (
    copy_lanes,
    drop_converged,
    keep_better_states,
    lane_changes,
    lane_log_odds,
    lane_probabilities,
    start_beliefs,
)
from skcrbm.kernels.scalar import SUM


@jit(fastmath={"contract"})
def _send(kind, message, e, gain, on, off, i, k, sent, n_lanes, one):
    """Write the new messages of edge e to `sent` (2, lanes): to variable i, then to variable k."""
    first, second = np.uintp(0), np.uintp(1)
    a, b = np.uintp(2) * e, np.uintp(2) * e + second
    if kind == SUM:
        for l in range(n_lanes):
            x, y = on[k, l], message[b, l] * off[k, l]
            num, den = gain * x + y, x + gain * y
            u, v = on[i, l], message[a, l] * off[i, l]
            other_num, other_den = gain * u + v, u + gain * v
            scale = one / (den * other_den)
            sent[first, l] = num * other_den * scale
            sent[second, l] = other_num * den * scale
    else:
        for l in range(n_lanes):
            x, y = on[k, l], message[b, l] * off[k, l]
            num, den = max(gain * x, y), max(x, gain * y)
            u, v = on[i, l], message[a, l] * off[i, l]
            other_num, other_den = max(gain * u, v), max(u, gain * v)
            scale = one / (den * other_den)
            sent[first, l] = num * other_den * scale
            sent[second, l] = other_num * den * scale


@jit
def _store(halved, message, edge, sent, row, belief, v, n_lanes):
    """Store sent[row] as a message to variable v, and multiply the belief of v by the message."""
    if halved:
        for l in range(n_lanes):
            message[edge, l] = math.sqrt(message[edge, l]) * math.sqrt(sent[row, l])
    else:
        for l in range(n_lanes):
            message[edge, l] = sent[row, l]
    for l in range(n_lanes):
        belief[v, l] *= message[edge, l]


@jit
def sweep_ising(kind, halved, edges, gain, on, off, message, belief, sent, n_lanes):
    """Send all messages once, computed from the old beliefs.

    Parameters
    ----------
    kind : SUM or MAX
    halved : bool, True to damp by 1/2: store the geometric mean of the old and the new message
    edges : (E, 2) int64
    gain : (E,), e^(2 s)
    on, off : (n, lanes) beliefs: the weights of value 1 (`on`) and of value 0 (`off`), which need
        not sum to 1
    message : (2 E, lanes) in and out
    belief : (n, lanes) in: fields; out: fields times new messages. Both are weights of the value 1
        relative to the weights `off` of the value 0
    sent : (2, lanes) scratch array
    n_lanes : uintp, number of lanes to work on
    """
    one = gain.dtype.type(1)
    first, second = np.uintp(0), np.uintp(1)
    for e in range(np.uintp(edges.shape[0])):
        i, k = np.uintp(edges[e, 0]), np.uintp(edges[e, 1])
        _send(kind, message, e, gain[e], on, off, i, k, sent, n_lanes, one)
        edge = np.uintp(2) * e
        _store(halved, message, edge, sent, first, belief, i, n_lanes)
        _store(halved, message, edge + second, sent, second, belief, k, n_lanes)


@jit
def repeat_ising(kind, halved, edges, gain, on, off, message, belief, after, sent, n_iter):
    """Send all messages `n_iter` times, each time from the beliefs of the previous iteration.

    Parameters
    ----------
    kind, halved, edges, gain, off, message, sent : see `sweep_ising`
    on : (n, lanes) fields: weights of the value 1 relative to the weights `off` of the value 0
    belief : (n, lanes) in and out
    after : (n, lanes) scratch array

    Returns
    -------
    tuple of arrays : `belief` and `after`, ordered so that the first array holds the final beliefs
    """
    n_lanes = np.uintp(on.shape[1])
    for _ in range(n_iter):
        copy_lanes(on, after, n_lanes)
        sweep_ising(kind, halved, edges, gain, belief, off, message, after, sent, n_lanes)
        belief, after = after, belief
    return belief, after


@jit
def _form_beliefs(edges, on, message, belief, n_lanes):
    """Set the belief of each variable, as odds, to its field times all messages to the variable."""
    copy_lanes(on, belief, n_lanes)
    for e in range(np.uintp(edges.shape[0])):
        for side in range(np.uintp(2)):
            v, edge = np.uintp(edges[e, side]), np.uintp(2) * e + side
            for l in range(n_lanes):
                belief[v, l] *= message[edge, l]


@jit
def _score_lanes(edges, coupling, field, on, off, score, n_lanes):
    """Set score[l] to the score of the values that the beliefs of lane l prefer."""
    for l in range(n_lanes):
        score[l] = 0.0
    for v in range(np.uintp(on.shape[0])):
        for l in range(n_lanes):
            if on[v, l] > off[v, l]:
                score[l] += field[v, l]
    for e in range(np.uintp(edges.shape[0])):
        i, k, s = np.uintp(edges[e, 0]), np.uintp(edges[e, 1]), coupling[e]
        for l in range(n_lanes):
            same = (on[i, l] > off[i, l]) == (on[k, l] > off[k, l])
            score[l] += s if same else -s


@jit
def pass_sparse_ising(kind, edges, gain, coupling, lanes, start, options, answers):
    """Pass messages for a block of models until each model has converged.

    Parameters
    ----------
    kind : SUM or MAX
    edges, gain : see `sweep_ising`
    coupling : (E,) float64
    lanes : Lanes
    start : (n or 0, lanes) log-odds of the first beliefs; if `start` is empty, the first beliefs
        are computed from fields and messages
    options : GraphOptions, whose `slack` is a ratio of odds
    answers : GraphAnswers
    """
    field, on, off, message, order = lanes
    n, n_models = on.shape
    n_lanes = np.uintp(n_models)
    sent = np.empty((2, n_models), gain.dtype)
    belief = np.empty((n, n_models), gain.dtype)
    after = np.empty((n, n_models), gain.dtype)
    last = np.empty((n, n_models), gain.dtype)
    change, here = np.empty(n_models, gain.dtype), np.empty(n_models)
    still = np.ones(n_models, np.bool_)  # True if the last iteration did not change the beliefs
    kept = np.empty(message.shape, gain.dtype)
    copy_lanes(message, kept, n_lanes)
    for l in range(n_models):
        order[l] = l
        answers.n_iter[l] = options.max_iter
    _form_beliefs(edges, on, message, belief, n_lanes)
    start_beliefs(start, on, off, belief)
    lane_probabilities(belief, off, last, n_lanes)
    for iteration in range(options.max_iter):
        copy_lanes(on, after, n_lanes)
        halved = options.damping > 0
        sweep_ising(kind, halved, edges, gain, belief, off, message, after, sent, n_lanes)
        lane_changes(after, off, last, change, n_lanes)
        if options.want_state:
            _score_lanes(edges, coupling, field, after, off, here, n_lanes)
            keep_better_states(here, after, off, order, n_lanes, answers)
        n_left = drop_converged(
            iteration, options, n_lanes, change, belief, after, last, kept, still, lanes, answers
        )
        belief, after = after, belief
        n_lanes = np.uintp(n_left)
        if n_left == 0:
            break
    _form_beliefs(edges, on, message, belief, np.uintp(n_models))
    lane_log_odds(belief, on, off, order, answers.log_odds)


@jit
def finish_sparse_ising(edges, gain, coupling, lanes, sums):
    """Compute Bethe's log Z, and P(both labels +1) of each edge, from the final messages.

    Parameters
    ----------
    edges, gain, coupling, lanes : as `pass_sparse_ising` left them
    sums : GraphSums
        Each edge has 4 entries in the statistics, of which only the last is filled in.
    """
    _, on, off, message, order = lanes
    weight, want_log_z, want_statistics, each, log_partition, statistics = sums
    n, n_models = on.shape
    belief = np.empty((n, n_models), gain.dtype)
    _form_beliefs(edges, on, message, belief, np.uintp(n_models))
    if want_log_z:
        for v in range(n):
            for l in range(n_models):
                log_partition[order[l]] += math.log(belief[v, l] + off[v, l])
    for e in range(edges.shape[0]):
        i, k, g = edges[e, 0], edges[e, 1], gain[e]
        for l in range(n_models):
            to_i, to_k = message[2 * e, l], message[2 * e + 1, l]
            yes, no = belief[i, l], to_i * off[i, l]
            total = yes + no
            yes, no = yes / total, no / total
            other_yes, other_no = belief[k, l], to_k * off[k, l]
            total = other_yes + other_no
            other_yes, other_no = other_yes / total, other_no / total
            both = g * yes * other_yes
            total = both + g * no * other_no + yes * other_no + no * other_yes
            if want_log_z:
                log_partition[order[l]] += (
                    math.log(total) - coupling[e] - math.log(no + yes * to_i)
                    - math.log(other_no + other_yes * to_k)
                )  # fmt: skip
            if want_statistics:
                row, w = (order[l], 1.0) if each else (0, float(weight[order[l]]))
                statistics[row, 4 * e + 3] += w * both / total
