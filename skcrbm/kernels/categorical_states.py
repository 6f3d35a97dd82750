"""Choose states from max-product messages, for many models at once.

The variables choose their states in turn. A variable that has chosen its state sends messages that
allow only this state. So ties are broken consistently, and on a tree, from the roots to the leaves,
the chosen states are the best joint state.
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.arguments import ONE, POTTS, ZERO
from skcrbm.kernels.categorical_receive import receive
from skcrbm.kernels.jit import jit

# Largest number of rounds of coordinate ascent.
_CLIMB_ROUNDS = 100


class FoundStates(NamedTuple):
    """The best states that max-product finds for N models; kernels replace them by better ones."""

    # (N, n) int64. Input: states from which coordinate ascent starts.
    state: np.ndarray
    # (N,) score of the state, -inf if the state is impossible. Input: -inf.
    score: np.ndarray


@jit(allocates=False)
def _choose(total, start, k, state, v, n_lanes, high):
    """Choose the best of k states of variable v in each lane; return True if a state changed.

    ``total[start + a]`` (lanes,) is the score of state a. The state in ``state[v]`` is kept unless
    another state is better; it is -1 if there is none.
    """
    for l in range(n_lanes):
        high[l] = -math.inf
    for a in range(k):
        for l in range(n_lanes):
            high[l] = total[start + a, l] if state[v, l] == np.int64(a) else high[l]
    changed = False
    for a in range(k):
        for l in range(n_lanes):
            better = total[start + a, l] > high[l]
            state[v, l] = np.int64(a) if better else state[v, l]
            high[l] = total[start + a, l] if better else high[l]
            changed |= better
    for l in range(n_lanes):
        state[v, l] = max(state[v, l], 0)
    return changed


@jit(allocates=False)
def _allow(state, v, k, at, sent, n_lanes):
    """Set the messages of variable v along an edge to 0 for its state, and -inf for others."""
    for a in range(k):
        for l in range(n_lanes):
            sent[at + a, l] = 0.0 if state[v, l] == np.int64(a) else -math.inf


@jit(allocates=False)
def decode(maxima, graph, forward, general, held, own, sent, state, work, n_lanes):
    """Choose the best state of each variable in turn, given the states chosen before.

    The states (n, lanes) are in `state`; -1 means that no state has been chosen before. The
    messages `sent` of a variable become 0 for its state and -inf for all other states. A second
    call is therefore a sweep of coordinate ascent, in which a variable keeps its state unless
    another state is better. Return True if a state changed.
    """
    new, total, high = work.new, work.behind, work.high
    n = np.uintp(graph.order.shape[0])
    changed = False
    for i in range(n):
        v = graph.order[i] if forward else graph.order[n - ONE - i]
        start = graph.state_start[v]
        k = graph.state_start[v + ONE] - start
        n_held = np.uintp(work.n_held[v])
        for a in range(k):
            for l in range(n_lanes):
                total[a, l] = own[start + a, l]
        if n_held < n_lanes:
            for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
                receive(maxima, graph, e, k, sent, work, general, n_lanes)
                for l in range(n_lanes):
                    high[l] = new[ZERO, l]
                for a in range(ONE, k):
                    for l in range(n_lanes):
                        high[l] = max(high[l], new[a, l])
                # A message without a possible state is left out.
                for a in range(k):
                    for l in range(n_lanes):
                        left_out = high[l] == -math.inf or held[v, l]
                        total[a, l] += 0.0 if left_out else new[a, l] - high[l]
        changed |= _choose(total, ZERO, k, state, v, n_lanes, high)
        for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
            _allow(state, v, k, graph.message_start[e], sent, n_lanes)
    return changed


@jit(allocates=False)
def _entries(graph, e, state, variables, code, n_lanes):
    """Write the position in `graph.tables` of the table entry at a state to `code` (lanes,)."""
    scope, m = graph.scope[e], graph.arity[e]
    first = variables[graph.scopes[scope]]
    if graph.kind[e] == POTTS:
        second = variables[graph.scopes[scope + ONE]]
        for l in range(n_lanes):
            code[l] = graph.table[e] + (ONE if state[first, l] == state[second, l] else ZERO)
        return
    for l in range(n_lanes):
        code[l] = np.uintp(state[first, l])
    for j in range(ONE, m):
        other = graph.scopes[scope + j]
        k = graph.message_start[other + ONE] - graph.message_start[other]
        v = variables[other]
        for l in range(n_lanes):
            code[l] = code[l] * k + np.uintp(state[v, l])
    for l in range(n_lanes):
        code[l] += graph.table[e]


@jit(allocates=False)
def score_states(graph, own, state, variables, score, code, n_lanes):
    """Write the scores of the states (n, lanes) to `score` (lanes,)."""
    for l in range(n_lanes):
        score[l] = 0.0
    for v in range(np.uintp(state.shape[0])):
        start = graph.state_start[v]
        for l in range(n_lanes):
            score[l] += own[start + np.uintp(state[v, l]), l]
    for e in range(np.uintp(variables.shape[0])):
        if graph.slot[e] == ZERO:
            _entries(graph, e, state, variables, code, n_lanes)
            for l in range(n_lanes):
                score[l] += graph.tables[code[l]]


@jit(allocates=False)
def _keep_better(score, state, order, states, first, n_lanes):
    """Keep the states (n, lanes) of the lanes from `first` on that are better than `states`."""
    for l in range(first, n_lanes):
        m = order[l]
        if score[l] > states.score[m]:
            states.score[m] = score[l]
            for v in range(np.uintp(state.shape[0])):
                states.state[m, v] = state[v, l]


@jit(allocates=False)
def look_for_states(
    maxima, graph, forward, general, climbs, variables, rows, states, first, work, n_lanes
):  # fmt: skip
    """Choose states for the models from lane `first` on, and keep those that are better.

    If `climbs` is True, coordinate ascent improves the states first.
    """
    for s in range(np.uintp(rows.sent.shape[0])):
        for l in range(n_lanes):
            work.chosen[s, l] = rows.sent[s, l]
    for v in range(np.uintp(work.trial.shape[0])):
        for l in range(n_lanes):
            work.trial[v, l] = -1
    held, own, chosen, trial = rows.held, rows.own, work.chosen, work.trial
    for _turn in range(_CLIMB_ROUNDS if climbs else 1):
        if not decode(maxima, graph, forward, general, held, own, chosen, trial, work, n_lanes):
            break
        forward = not forward
    score_states(graph, own, trial, variables, work.part, work.code, n_lanes)
    _keep_better(work.part, trial, rows.order, states, first, n_lanes)


@jit(allocates=False)
def climb(maxima, graph, general, variables, rows, states, work, n_lanes):
    """Run coordinate ascent from the given states, and keep the states that it finds."""
    for v in range(np.uintp(work.trial.shape[0])):
        k = graph.state_start[v + ONE] - graph.state_start[v]
        for l in range(n_lanes):
            work.trial[v, l] = states.state[rows.order[l], v]
        for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
            _allow(work.trial, v, k, graph.message_start[e], work.chosen, n_lanes)
    for turn in range(_CLIMB_ROUNDS):
        if not decode(
            maxima, graph, turn % 2 == 0, general, rows.held, rows.own, work.chosen, work.trial,
            work, n_lanes,
        ):  # fmt: skip
            break
    score_states(graph, rows.own, work.trial, variables, work.part, work.code, n_lanes)
    _keep_better(work.part, work.trial, rows.order, states, ZERO, n_lanes)


@jit(allocates=False)
def compare_states(
    maxima, graph, general, variables, rows, states, margin, converged, work, n_lanes
):  # fmt: skip
    """Set `converged` of the models to False whose state does not agree with the messages.

    The state must be possible. It must have the largest belief of each variable, and the largest
    value of each factor: the log-weight of a state in the table plus the messages to the factor.
    Beliefs and values may be smaller by up to `margin`.
    """
    high, part, new, state = work.high, work.part, work.new, work.trial
    for l in range(n_lanes):
        work.apart[l] = 0.0
    for v in range(np.uintp(state.shape[0])):
        for l in range(n_lanes):
            state[v, l] = states.state[rows.order[l], v]
            x = rows.belief[graph.state_start[v] + np.uintp(state[v, l]), l]
            work.apart[l] = max(work.apart[l], -x)
    for e in range(np.uintp(variables.shape[0])):
        if graph.slot[e] != ZERO:
            continue
        at = graph.message_start[e]
        k = graph.message_start[e + ONE] - at
        receive(maxima, graph, e, k, rows.sent, work, general, n_lanes)
        for l in range(n_lanes):
            high[l] = -math.inf
        for a in range(k):
            for l in range(n_lanes):
                high[l] = max(high[l], new[a, l] + rows.sent[at + a, l])
        _entries(graph, e, state, variables, work.code, n_lanes)
        for l in range(n_lanes):
            part[l] = graph.tables[work.code[l]]
        for j in range(graph.arity[e]):
            other = graph.scopes[graph.scope[e] + j]
            v, at = variables[other], graph.message_start[other]
            for l in range(n_lanes):
                part[l] += rows.sent[at + np.uintp(state[v, l]), l]
        for l in range(n_lanes):
            apart = high[l] - part[l] if high[l] > part[l] else 0.0
            work.apart[l] = max(work.apart[l], apart)
    for l in range(n_lanes):
        m = rows.order[l]
        converged[m] &= states.score[m] > -math.inf and work.apart[l] <= margin
