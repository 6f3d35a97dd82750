"""Draw states of variables with any number of states, each variable from its sum-product belief.

A drawn variable is clamped to its state, and messages are passed before the next variable is drawn.
The messages are weights (`categorical_weights`) or logarithms (`categorical_logs`). A kernel draws
one sample after the other, and starts each sample from the messages of its model.
"""

import math

import numpy as np

from skcrbm.kernels.arguments import ONE, ZERO
from skcrbm.kernels.categorical_logs import send_logs, sweep_logs
from skcrbm.kernels.categorical_weights import sweep
from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import SUM, copy_into, fill


@jit(allocates=False)
def draw_state(belief, start, k, u, logs):
    """Return a state drawn from k beliefs by the uniform number u, and its log-probability.

    The states share the interval [0, 1) in descending order, so that state 1 of two states is drawn
    if u is less than its probability. Return state k if all probabilities are 0. The beliefs are
    logarithms if `logs` is True, else probabilities.
    """
    total, chosen = 0.0, k
    for i in range(k):
        a = k - ONE - i
        x = math.exp(belief[start + a]) if logs else belief[start + a]
        if x > 0.0:
            chosen = a
            total += x
            if u < total:
                break
    if chosen == k:
        return k, 0.0
    x = belief[start + chosen]
    return chosen, x if logs else math.log(x)


@jit(allocates=False)
def clamp_to(graph, v, state, zero, one, own, message, sent, belief):
    """Clamp variable v to a state. `zero` and `one` represent the weights 0 and 1."""
    start = graph.state_start[v]
    k = graph.state_start[v + ONE] - start
    for a in range(k):
        own[start + a] = belief[start + a] = one if a == state else zero
    for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
        at = graph.message_start[e]
        for a in range(k):
            message[at + a] = one
            sent[at + a] = one if a == state else zero


@jit
def chain_of_weights(
    graph, start, beliefs, which, order, n_steps, sweeps, u, states, log_prob, good, work
):
    """Draw B samples with messages as weights.

    Parameters
    ----------
    graph : CategoricalGraph
        Tables are weights.
    start : CategoricalModels
        R models and their messages, from which each sample starts.
    beliefs : (R, S) probabilities of the states that belong to these messages
    which : (B,) int64, model of each sample
    order : (R, n) int64, variables in the order in which they are drawn
    n_steps : (R,) int64, number of variables that are drawn
    sweeps : tuple of bool, int, float
        Whether each step starts from initial messages; the number of sweeps between two variables;
        the damping.
    u : (B, n) uniform random numbers, one for each variable
    states : (B, n) int64 output; the states of clamped variables are not written
    log_prob : (B,) output, log-probabilities of the samples
    good : (B,) output, False if a sample failed because weights underflowed
    work : CategoricalWork
    """
    cold, n_iter, damping = sweeps
    held, own = start.held[0].copy(), start.own[0].copy()
    message, sent = start.message[0].copy(), start.sent[0].copy()
    before, after = own.copy(), own.copy()
    for b in range(which.shape[0]):
        r = which[b]
        copy_into(start.held[r], held)
        copy_into(start.own[r], own)
        copy_into(start.message[r], message)
        copy_into(start.sent[r], sent)
        copy_into(beliefs[r], before)
        total, fine = 0.0, True
        for step in range(n_steps[r]):
            if step and cold:
                fill(message, 1.0)
                sweep(graph, True, 0.0, False, held, own, message, sent, before, after, work)
                before, after = after, before
            for i in range(n_iter if step else 0):
                fine &= sweep(
                    graph, i % 2 == 0, damping, True, held, own, message, sent, before, after, work
                )
                before, after = after, before
                if not fine:
                    break
            v = np.uintp(order[r, step])
            first = graph.state_start[v]
            k = graph.state_start[v + ONE] - first
            state, chance = draw_state(before, first, k, u[b, v], False)
            if state == k or not fine:
                fine = False
                break
            total += chance
            states[b, v] = state
            clamp_to(graph, v, state, 0.0, 1.0, own, message, sent, before)
            held[v] = True
        log_prob[b] = total
        good[b] = fine


@jit
def chain_of_logs(
    graph, weights, start, beliefs, which, order, n_steps, sweeps, u, states, log_prob, work
):
    """Draw B samples with messages as logarithms; see `chain_of_weights`.

    The tables of `graph` and `start` are logarithms, and `weights` (T,) are the exponentials of the
    tables. If all states of a variable have weight 0 given the variables drawn before, its states
    are equally probable.
    """
    cold, n_iter, damping = sweeps
    rho = np.ones(graph.kind.shape[0])
    held, own = start.held[0].copy(), start.own[0].copy()
    message, sent = start.message[0].copy(), start.sent[0].copy()
    before, after = own.copy(), own.copy()
    for b in range(which.shape[0]):
        r = which[b]
        copy_into(start.held[r], held)
        copy_into(start.own[r], own)
        copy_into(start.message[r], message)
        copy_into(start.sent[r], sent)
        copy_into(beliefs[r], before)
        total = 0.0
        for step in range(n_steps[r]):
            if step and cold:
                fill(message, 0.0)
                for v in range(np.uintp(held.shape[0])):
                    send_logs(SUM, graph, rho, v, own, message, sent, before, work.behind)
            for i in range(n_iter if step else 0):
                sweep_logs(
                    SUM, graph, weights, rho, i % 2 == 0, damping, held, own, message, sent, before,
                    after, work,
                )  # fmt: skip
                before, after = after, before
            v = np.uintp(order[r, step])
            first = graph.state_start[v]
            k = graph.state_start[v + ONE] - first
            state, chance = draw_state(before, first, k, u[b, v], True)
            if state == k:  # rounding made all probabilities 0
                state = ZERO
            total += chance
            states[b, v] = state
            clamp_to(graph, v, state, -math.inf, 0.0, own, message, sent, before)
            held[v] = True
        log_prob[b] = total
