"""Draw samples of a factor graph by chained belief propagation, many samples at once.

A step draws a variable from its belief, clamps it, and passes messages in a fixed number of sweeps.
The samples of a block lie side by side, as SIMD lanes. Messages are weights as in
`categorical_weights`. A sweep visits the variables in turn.

If a variable is clamped in all lanes, it is left out of the sweeps, because the messages that it
sends do not change. A factor is settled if exactly one of its variables is not left out. Without
damping, its message to this variable is final: the message is multiplied into the weights of the
variable, and sweeps leave the factor out. So later steps take less time than earlier steps.

`draw_in_logs` draws samples whose weights would underflow. Their messages are logarithms as in
`categorical_logs`.
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.arguments import ONE, PAIR, ZERO
from skcrbm.kernels.categorical_logs import sweep_logs
from skcrbm.kernels.categorical_receive import (
    TWO,
    mean_of_messages,
    receive,
    receive_directly,
    scale_message,
)
from skcrbm.kernels.categorical_weights import SMALL
from skcrbm.kernels.jit import jit


class ChainRows(NamedTuple):
    """Weights and messages of a block of samples, one per lane; see `WeightRows` for S and M."""

    start: np.ndarray  # (S, lanes) weights that the fields give to the states
    own: np.ndarray  # (S, lanes) these weights, times the messages of settled factors
    message: np.ndarray  # (M, lanes) messages from factors to variables
    sent: np.ndarray  # (M, lanes) messages from variables to factors
    belief: np.ndarray  # (S, lanes) probabilities


class ChainGraph(NamedTuple):
    """Variables and edges of which sweeps consist, for n variables and E edges."""

    order: np.ndarray  # (n,) uintp: its first `n_left` entries are the variables of a sweep
    n_left: np.ndarray  # (1,) int64
    # (n,) int64, number of lanes in which each variable is clamped; -1 if it is left out of sweeps
    n_held: np.ndarray
    # (E,) int64; entry ``scope[e]`` is the number of variables of this factor in the sweeps
    n_free: np.ndarray
    # (E,) bool, True if the variable of the edge is left out, or if its factor is settled
    settled: np.ndarray
    variables: np.ndarray  # (E,) uintp, variable of each edge


@jit(allocates=False)
def _receive(graph, e, k, sent, work, general, n_lanes):
    """Call `receive`, which is copied into its callers. A second copy would slow down the first."""
    receive(None, graph, e, k, sent, work, general, n_lanes)


@jit(allocates=False)
def _visit(graph, v, chain, damping, general, rows, work, n_lanes):
    """Receive the messages of variable v, compute its belief, and send its messages."""
    _, own, message, sent, belief = rows
    new, behind, high, low = work.new, work.behind, work.high, work.low
    start = graph.state_start[v]
    k = graph.state_start[v + ONE] - start
    for a in range(k):
        for l in range(n_lanes):
            belief[start + a, l] = own[start + a, l]
            behind[a, l] = 1.0
    first, last = graph.edge_start[v], graph.edge_start[v + ONE]
    for e in range(first, last):
        if chain.settled[e]:
            continue
        at = graph.message_start[e]
        if damping is None:  # noqa: SIM102, Numba leaves out only this test of None
            if graph.kind[e] == PAIR:
                done = receive_directly(
                    None, True, graph, e, k, at, message, sent, belief, start, None, 1.0, None,
                    work, n_lanes,
                )  # fmt: skip
                if done:
                    continue
        _receive(graph, e, k, sent, work, general, n_lanes)
        scale_message(None, k, new, high, low, n_lanes)
        if damping is not None:
            for a in range(k):
                for l in range(n_lanes):
                    new[a, l] = mean_of_messages(None, damping, new[a, l], message[at + a, l])
            scale_message(None, k, new, high, low, n_lanes)
        for a in range(k):
            for l in range(n_lanes):
                x, y = new[a, l], belief[start + a, l]
                message[at + a, l] = x
                sent[at + a, l] = y
                belief[start + a, l] = x * y
    _normalise(start, k, belief, low, work.part, high, n_lanes)
    for i in range(last - first):
        e = last - ONE - i
        if chain.settled[e]:
            continue
        if k == TWO:
            _send_two(graph.message_start[e], message, sent, behind, n_lanes)
        else:
            _send(k, graph.message_start[e], message, sent, behind, high, n_lanes)


@jit(allocates=False, inline=True)
def _normalise(start, k, belief, low, total, high, n_lanes):
    """Divide the weights of a belief by their sum, and update the smallest scale."""
    for l in range(n_lanes):
        high[l] = total[l] = 0.0
    for a in range(k):
        for l in range(n_lanes):
            high[l] = max(high[l], belief[start + a, l])
            total[l] += belief[start + a, l]
    for l in range(n_lanes):
        low[l] = min(low[l], high[l])
        total[l] = 1.0 / total[l] if total[l] > 0.0 else 0.0
    for a in range(k):
        for l in range(n_lanes):
            belief[start + a, l] *= total[l]


@jit(allocates=False, inline=True)
def _send(k, at, message, sent, behind, high, n_lanes):
    """Multiply the message to a factor by the messages of all later factors of the variable.

    The product of these messages is `behind`. A message whose weights are all below `SMALL` is
    scaled up.
    """
    for l in range(n_lanes):
        high[l] = 0.0
    for a in range(k):
        for l in range(n_lanes):
            x = sent[at + a, l] * behind[a, l]
            behind[a, l] *= message[at + a, l]
            sent[at + a, l] = x
            high[l] = max(high[l], x)
    small = False
    for l in range(n_lanes):
        small |= high[l] < SMALL
    if small:
        for l in range(n_lanes):
            high[l] = 1.0 / high[l] if 0.0 < high[l] < SMALL else 1.0
        for a in range(k):
            for l in range(n_lanes):
                sent[at + a, l] *= high[l]


@jit(allocates=False, inline=True)
def _send_two(at, message, sent, behind, n_lanes):
    """Do the same as `_send` for a variable with two states, in a single loop."""
    row, small = at + ONE, False
    for l in range(n_lanes):
        x, y = sent[at, l] * behind[ZERO, l], sent[row, l] * behind[ONE, l]
        behind[ZERO, l] *= message[at, l]
        behind[ONE, l] *= message[row, l]
        sent[at, l], sent[row, l] = x, y
        small |= max(x, y) < SMALL
    if small:
        for l in range(n_lanes):
            top = max(sent[at, l], sent[row, l])
            scale = 1.0 / top if 0.0 < top < SMALL else 1.0
            sent[at, l] *= scale
            sent[row, l] *= scale


@jit(allocates=False)
def _sweep(graph, n_iter, chain, damping, general, rows, work, n_lanes):
    """Make `n_iter` sweeps. Every second sweep goes backward."""
    n_left = np.uintp(chain.n_left[0])
    for iteration in range(n_iter):
        for i in range(n_left):
            v = chain.order[i if iteration % 2 == 0 else n_left - ONE - i]
            _visit(graph, v, chain, damping, general, rows, work, n_lanes)


@jit(allocates=False)
def _reset(graph, chain, rows, n_lanes):
    """Reset all messages except the messages of settled factors and of variables left out."""
    for i in range(chain.n_left[0]):
        v = chain.order[i]
        start = graph.state_start[v]
        for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
            at = graph.message_start[e]
            if not chain.settled[e]:
                for a in range(graph.message_start[e + ONE] - at):
                    for l in range(n_lanes):
                        rows.message[at + a, l] = 1.0
                        rows.sent[at + a, l] = rows.start[start + a, l]


@jit(allocates=False)
def _draw(graph, l, v, u, rows, state, log_prob):
    """Draw variable v in lane l, and clamp it: give all weight to its state.

    The interval [0, 1) is divided into a part for each state, beginning with the last state. The
    length of a part is the probability of its state. The state whose part contains ``u[v]`` is
    drawn. With two states, state 1 is drawn if u is less than its probability. A state of
    probability 0 is never drawn, unless all probabilities are 0.
    """
    start = graph.state_start[v]
    k = graph.state_start[v + ONE] - start
    tail, chosen = 0.0, ZERO
    for i in range(k):
        a = k - ONE - i
        x = rows.belief[start + a, l]
        if x > 0.0:
            tail += x
            chosen = a
            if u[v, l] < tail:
                break
    state[v, l] = chosen
    x = rows.belief[start + chosen, l]
    log_prob[l] += math.log(x) if x > 0.0 else -math.inf
    for a in range(k):
        x = 1.0 if a == chosen else 0.0
        rows.start[start + a, l] = rows.own[start + a, l] = x
        for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
            rows.sent[graph.message_start[e] + a, l] = x


@jit(allocates=False)
def _leave_out(graph, v, chain, settles, general, rows, work, n_lanes):
    """Leave variable v, which is clamped in all lanes, out of the sweeps.

    If `settles` is True, its factors that have a single variable left are settled.
    """
    n_left = 0
    for i in range(chain.n_left[0]):
        if chain.order[i] != v:
            chain.order[n_left] = chain.order[i]
            n_left += 1
    chain.n_left[0], chain.n_held[v] = n_left, -1
    for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
        chain.settled[e] = True
        chain.n_free[graph.scope[e]] -= 1
    if settles:
        for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
            scope = graph.scope[e]
            if chain.n_free[scope] == 1:
                for j in range(graph.arity[e]):
                    other = graph.scopes[scope + j]
                    if not chain.settled[other]:
                        _settle(graph, other, chain, general, rows, work, n_lanes)


@jit(allocates=False)
def _settle(graph, e, chain, general, rows, work, n_lanes):
    """Multiply the weights of a variable by its final message along edge e."""
    v = chain.variables[e]
    start = graph.state_start[v]
    k = graph.state_start[v + ONE] - start
    _receive(graph, e, k, rows.sent, work, general, n_lanes)
    for a in range(k):
        for l in range(n_lanes):
            work.new[a, l] *= rows.own[start + a, l]
    scale_message(None, k, work.new, work.high, work.low, n_lanes)
    for a in range(k):
        for l in range(n_lanes):
            rows.own[start + a, l] = work.new[a, l]
    chain.settled[e] = True


@jit(allocates=False)
def draw_chain(
    graph, begins, ready, steps, n_iter, cold, damping, general, chain, rows, u, state, log_prob,
    work,
):  # fmt: skip
    """Draw some variables in turn, and pass messages before each draw.

    This is the only kernel for weights, because a second kernel would compile all parts again.

    Parameters
    ----------
    graph : CategoricalGraph
        Its tables are weights.
    begins : bool, True to begin with initial messages and make `n_iter` sweeps
        In `chain`, no variable is left out, and no factor is settled. In `rows`, `start` and `own`
        are equal, and `message` and `sent` may hold any numbers.
    ready : bool, True if the first draw needs no further sweeps
    steps : (K, lanes) uintp, variable to draw in each step, or n if there is none
    n_iter : int, number of sweeps before a draw
    cold : bool, True to reset the messages before the sweeps
    damping : share of the old log-messages that is kept, or None without damping
    general : True, or None if all factors are tables of two variables, but not Potts tables
    chain : ChainGraph, in and out
    rows : ChainRows, in and out
    u : (n, lanes) uniform random numbers
    state : (n, lanes) int64 output, states of the variables
    log_prob : (lanes,), to which the log-probabilities of the states are added
    work : LaneWork
        Its array `low` (lanes,), in and out, is the smallest scale of a product so far. Where it is
        below `SMALLEST`, important weights may have underflowed.
    """
    n_lanes, n = np.uintp(rows.own.shape[1]), np.uintp(chain.n_held.shape[0])
    settles = damping is None
    if begins:
        _reset(graph, chain, rows, n_lanes)
        for v in range(n):
            if chain.n_held[v] == np.int64(n_lanes):
                _leave_out(graph, v, chain, settles, general, rows, work, n_lanes)
        _sweep(graph, n_iter, chain, damping, general, rows, work, n_lanes)
    for step in range(np.uintp(steps.shape[0])):
        if step > ZERO or not ready:
            if cold:
                _reset(graph, chain, rows, n_lanes)
            _sweep(graph, n_iter, chain, damping, general, rows, work, n_lanes)
        for l in range(n_lanes):
            if steps[step, l] < n:
                _draw(graph, l, steps[step, l], u, rows, state, log_prob)
                chain.n_held[steps[step, l]] += 1
        for l in range(n_lanes):
            v = steps[step, l]
            if v < n and chain.n_held[v] == np.int64(n_lanes):
                _leave_out(graph, v, chain, settles, general, rows, work, n_lanes)


@jit(allocates=False)
def draw_in_logs(
    graph, rho, steps, first, n_iter, cold, options, held, own, message, sent, belief, u, state,
    work,
):  # fmt: skip
    """Draw some variables of a single sample, with messages as logarithms.

    Messages are passed before each variable.

    Parameters
    ----------
    graph : CategoricalGraph
        Its tables are log-weights.
    rho : (E,) array of ones
    steps : (K,) uintp, variables to draw
    first : bool, True if steps[0] is the first variable that is drawn
    n_iter : tuple of two int, number of sweeps before the first variable and before a later one
    cold : bool, True to reset the messages before the sweeps
    options : CategoricalOptions, of which the damping is used
    held : (n,) bool, True for clamped variables; updated
    own : (S,) log-weights that the fields give to the states; updated
    message, sent : (M,) messages
    belief : (2, S), log-probabilities
    u : (n,) uniform random numbers
    state : (n,) int64 output
    work : CategoricalWork

    Returns
    -------
    float : sum of the log-probabilities of the states
    """
    total = 0.0
    before, after = belief[0], belief[1]
    for v in steps:
        if first or cold:
            for i in range(message.shape[0]):
                message[i] = 0.0
        sweep_logs(
            graph, rho, True, False, options, held, own, message, sent, before, before, work
        )  # fmt: skip
        for iteration in range(n_iter[0] if first else n_iter[1]):
            forward = iteration % 2 == 0
            sweep_logs(
                graph, rho, forward, True, options, held, own, message, sent, before, after, work
            )  # fmt: skip
            before, after = after, before
        first = False
        start = graph.state_start[v]
        k = graph.state_start[v + ONE] - start
        tail, chosen = 0.0, ZERO
        for i in range(k):
            a = k - ONE - i
            x = math.exp(before[start + a])
            if x > 0.0:
                tail += x
                chosen = a
                if u[v] < tail:
                    break
        state[v] = chosen
        total += before[start + chosen]
        held[v] = True
        for a in range(k):
            own[start + a] = 0.0 if a == chosen else -math.inf
        first_edge, last_edge = graph.edge_start[v], graph.edge_start[v + ONE]
        for i in range(graph.message_start[first_edge], graph.message_start[last_edge]):
            message[i] = 0.0
    return total
