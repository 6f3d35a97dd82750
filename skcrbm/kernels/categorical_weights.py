"""Sum-product messages between variables of any number of states, as weights.

A variable is visited in turn: it receives new messages from all its factors, and sends to each
factor the product of its own weights and the messages of the other factors. Products come from
the front and from behind, so that no message is divided by another and weights of 0 need no care.
A sweep visits all variables; sweeps go forward and backward in turn.

Messages to a variable have a largest weight of 1. If all weights of a product fall below
`SMALLEST`, the terms that matter may have been lost to underflow: the model is then given up, and
the caller passes messages as logarithms (`categorical_logs`). A model that contradicts itself is
given up for the same reason.

All arrays of positions hold unsigned integers, because a test for a sign costs time in inner loops.
"""

import math

import numpy as np

from skcrbm.kernels.arguments import ONE, PAIR, POTTS, TABLE, ZERO
from skcrbm.kernels.jit import jit

# Messages to the factors are scaled up if all their weights are below this number.
SMALL = 1e-10
# A product whose largest weight is below this number may have lost terms.
SMALLEST = 1e-150
# Tables of pairs with fewer entries than this are summed number by number.
FEW = 400


@jit(allocates=False)
def first_axis(table, at, k, rest, weight, first, out):
    """Fill out (rest,) with the sums over a of weight[a] times row a of a table (k, rest)."""
    x = weight[first]
    for r in range(rest):
        out[r] = x * table[at + r]
    for a in range(ONE, k):
        x = weight[first + a]
        row = at + a * rest
        for r in range(rest):
            out[r] += x * table[row + r]


@jit(allocates=False)
def last_axis(table, at, rest, k, weight, first, out):
    """Fill out (rest,) with the sums over b of weight[b] times column b of a table (rest, k)."""
    for r in range(rest):
        total = 0.0
        row = at + r * k
        for b in range(k):
            total += table[row + b] * weight[first + b]
        out[r] = total


@jit(allocates=False, inline=True)
def potts(other, equal, k, weight, first, out, to):
    """Fill out (k,) with the message through a table with one value on its diagonal, one off it.

    Sums over all other states leave out the largest weight, so that no digits cancel. Return the
    largest number.
    """
    high, rest = weight[first], 0.0
    for a in range(ONE, k):
        x = weight[first + a]
        rest += min(x, high)
        high = max(x, high)
    top, left = 0.0, True
    for a in range(k):
        x = weight[first + a]
        others = rest + (high - x)
        if left and x == high:
            others, left = rest, False
        y = equal * x + other * others
        out[to + a] = y
        top = max(top, y)
    return top


@jit(allocates=False)
def contract(graph, e, weight, out, work):
    """Fill out with the message of a table of any number of variables to the variable of edge e.

    The other axes are summed out in turn, those before the variable's own from the front, then the
    others from behind.
    """
    message_start, scopes = graph.message_start, graph.scopes
    scope, slot, m = graph.scope[e], graph.slot[e], graph.arity[e]
    table, at = graph.tables, graph.table[e]
    size = ONE
    for j in range(m):
        other = scopes[scope + j]
        size *= message_start[other + ONE] - message_start[other]
    turn = ZERO
    for step in range(m - ONE):
        j = step if step < slot else m - ONE - (step - slot)
        other = scopes[scope + j]
        k = message_start[other + ONE] - message_start[other]
        size //= k
        to = work.table if turn == ZERO else work.other
        if step < slot:
            first_axis(table, at, k, size, weight, message_start[other], to)
        else:
            last_axis(table, at, size, k, weight, message_start[other], to)
        table, at, turn = to, ZERO, ONE - turn
    for a in range(size):
        out[a] = table[at + a]


@jit(allocates=False, inline=True)
def few_states(table, at, k, step, n_other, step_of_other, weight, first, out, to):
    """Fill out (k,) with the message through a table of pairs; return the largest number.

    The numbers are summed one by one: with few states, vectors take longer to prepare.
    """
    top = 0.0
    for a in range(k):
        total, row = 0.0, at + a * step
        for b in range(n_other):
            total += table[row] * weight[first + b]
            row += step_of_other
        out[to + a] = total
        top = max(top, total)
    return top


@jit(allocates=False)
def receive(graph, e, weight, out, to, work):
    """Fill out (k,) with the message that edge e gets, from the weights that variables send.

    Return the largest number.
    """
    message_start, new = graph.message_start, work.new
    k = message_start[e + ONE] - message_start[e]
    if graph.kind[e] == TABLE:
        contract(graph, e, weight, new, work)
    else:
        slot, at = graph.slot[e], graph.table[e]
        other = graph.scopes[graph.scope[e] + ONE - slot]
        first = message_start[other]
        n_other = message_start[other + ONE] - first
        if slot == ZERO:
            last_axis(graph.tables, at, k, n_other, weight, first, new)
        else:
            first_axis(graph.tables, at, n_other, k, weight, first, new)
    top = 0.0
    for a in range(k):
        out[to + a] = new[a]
        top = max(top, new[a])
    return top


@jit(allocates=False, inline=True)
def send_behind(first, n_edges, k, message_start, message, sent, behind):
    """Multiply what a variable sends to each edge by the messages of the edges after it."""
    for a in range(k):
        behind[a] = 1.0
    for i in range(n_edges):
        at = message_start[first + n_edges - ONE - i]
        top = 0.0
        for a in range(k):
            x = sent[at + a] * behind[a]
            behind[a] *= message[at + a]
            sent[at + a] = x
            top = max(top, x)
        if top < SMALL and top > 0.0:
            for a in range(k):
                sent[at + a] /= top


@jit(allocates=False)
def damp(damping, k, top, old, message, at):
    """Mix a message (k,) with the old message, each with a largest number of 1, in logarithms."""
    high = 0.0
    x = 1.0 / top if top > 0.0 else 0.0
    for a in range(k):
        new = x * message[at + a]
        if damping == 0.5:
            new = math.sqrt(new * old[a])
        else:
            new = new ** (1.0 - damping) * old[a] ** damping
        message[at + a] = new
        high = max(high, new)
    return high


@jit(allocates=False)
def sweep(graph, forward, damping, passing, held, own, message, sent, before, belief, work):
    """Visit all variables once; return False if terms were lost.

    A variable receives messages if `passing` is True, and sends the products of its weights and
    the messages of the other factors. `before` holds the old beliefs, `belief` (S,) gets the new
    beliefs.
    """
    state_start, edge_start, message_start = graph[:3]
    kind, tables = graph.kind, graph.tables
    behind, old = work.behind, work.old
    n = np.uintp(graph.order.shape[0])
    good = True
    for i in range(n):
        v = graph.order[i] if forward else graph.order[n - ONE - i]
        start = state_start[v]
        k = state_start[v + ONE] - start
        receives = passing and not held[v]
        first, last = edge_start[v], edge_start[v + ONE]
        for a in range(k):
            belief[start + a] = own[start + a]
        for e in range(first, last):
            at = message_start[e]
            x = 1.0
            if receives:
                if damping > 0.0:
                    for a in range(k):
                        old[a] = message[at + a]
                slot, table = graph.slot[e], graph.table[e]
                # The other edge of a pair; an edge of a larger table may be beyond its axis 1.
                mate = ONE - slot if kind[e] != TABLE else ZERO
                other = graph.scopes[graph.scope[e] + mate]
                place = message_start[other]
                n_other = message_start[other + ONE] - place
                if kind[e] == POTTS:
                    top = potts(tables[table], tables[table + ONE], k, sent, place, message, at)
                elif kind[e] == PAIR and n_other * k < FEW:
                    step = n_other if slot == ZERO else ONE
                    across = ONE if slot == ZERO else k
                    top = few_states(
                        tables, table, k, step, n_other, across, sent, place, message, at
                    )
                else:
                    top = receive(graph, e, sent, message, at, work)
                good &= top > SMALLEST
                if damping > 0.0:
                    top = damp(damping, k, top, old, message, at)
                    good &= top > SMALLEST
                x = 1.0 / top if top > 0.0 else 0.0
            for a in range(k):
                y = x * message[at + a]
                z = belief[start + a]
                message[at + a] = y
                sent[at + a] = z
                belief[start + a] = z * y
        send_behind(first, last - first, k, message_start, message, sent, behind)
        high, total = 0.0, 0.0
        for a in range(k):
            high = max(high, belief[start + a])
            total += belief[start + a]
        good &= high > SMALLEST
        x = 1.0 / total if total > 0.0 else 0.0
        for a in range(k):
            belief[start + a] *= x
    return good


@jit(allocates=False)
def change_of(after, before, factor):
    """Return the largest change of a probability, and whether one changed by more than a factor."""
    change, moved = 0.0, False
    for s in range(np.uintp(after.shape[0])):
        x, y = after[s], before[s]
        change = max(change, abs(x - y))
        moved |= (x > factor * y) | (y > factor * x)
    return change, moved


@jit
def pass_weights(graph, variables, models, start, options, answers, work):
    """Pass messages for N models, in turn, until each model has converged.

    Parameters
    ----------
    graph : CategoricalGraph
        Tables are weights.
    variables : (E,) uintp variable of each edge
    models : CategoricalModels
    start : (N or 0, S) beliefs that variables send at first, in place of what follows from their
        messages
    options : CategoricalOptions
    answers : CategoricalAnswers
    work : CategoricalWork
    """
    held, own, message, sent = models
    max_iter, tol, slack, damping, _ = options
    factor = math.exp(slack)
    other = np.empty(own.shape[1])
    for m in range(own.shape[0]):
        belief = answers.belief[m]
        good = True
        sweep(
            graph, True, 0.0, False, held[m], own[m], message[m], sent[m], belief, belief, work
        )  # fmt: skip
        if start.shape[0]:
            for e in range(np.uintp(variables.shape[0])):
                if not held[m, variables[e]]:
                    at = graph.message_start[e]
                    for a in range(graph.message_start[e + ONE] - at):
                        sent[m, at + a] = start[m, graph.state_start[variables[e]] + a]
        still = True
        before, after = belief, other
        answers.n_iter[m] = max_iter
        for iteration in range(max_iter):
            forward = iteration % 2 == 0
            good &= sweep(
                graph,
                forward,
                damping,
                True,
                held[m],
                own[m],
                message[m],
                sent[m],
                before,
                after,
                work,
            )
            change, moved = change_of(after, before, factor)
            before, after = after, before
            if answers.trace.shape[1]:
                answers.trace[m, iteration] = change
            if not good:
                break
            last = still
            still = (change < tol) & (not moved)
            if last and still and iteration > 0:
                answers.n_iter[m] = iteration + 1
                answers.converged[m] = True
                break
        answers.good[m] = good
        for s in range(np.uintp(other.shape[0])):
            belief[s] = before[s]
