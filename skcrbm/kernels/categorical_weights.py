"""Sum-product on variables with any number of states, with messages as weights.

A sweep visits all variables; every second sweep goes backward. A visited variable receives new
messages from all its factors. It sends to each factor the product of its own weights and the
messages from all other factors. The product is computed as the product over the factors before this
factor, times the product over the factors after it. There is no division, so that weights may be 0.

Each message to a variable is scaled so that its largest weight is 1. If all weights of a product
fall below `SMALLEST`, important weights may have underflowed. The kernel then stops the work on
this model, and the caller computes the messages of the model as logarithms (`categorical_logs`).
The kernel also stops if all weights of a product are 0, which means that the factors of the model
contradict each other.

Indices are unsigned integers, because Numba tests signed indices for negative values, which costs
time in inner loops.
"""

import math

import numpy as np

from skcrbm.kernels.arguments import FOUR, ONE, PAIR, POTTS, TABLE, ZERO
from skcrbm.kernels.jit import jit

# A message to a factor is scaled up if all its weights are below this number.
SMALL = 1e-10
# If the largest weight of a product is below this number, important weights may have underflowed.
SMALLEST = 1e-150
# If a table of two variables has fewer entries than this number, its entries are summed one by one.
FEW = 400


@jit(allocates=False)
def first_axis(table, at, k, rest, weight, first, out):
    """Sum a table (k, rest) over its first axis, with the weights ``weight[first:first + k]``.

    The table begins at ``table[at]``. The sums are written to `out` (rest,).
    """
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
    """Sum a table (rest, k) over its last axis, with the weights ``weight[first:first + k]``.

    The table begins at ``table[at]``. The sums are written to `out` (rest,).
    """
    for r in range(rest):
        total = 0.0
        row = at + r * k
        for b in range(k):
            total += table[row + b] * weight[first + b]
        out[r] = total


@jit(allocates=False, inline=True)
def potts(other, equal, k, weight, first, out, to):
    """Write the message through a Potts table to ``out[to:to + k]``; return its largest entry.

    The table has the value `equal` on its diagonal, and `other` off its diagonal. The message for a
    state contains the sum of the weights of all other states. To avoid cancellation, this sum is
    computed as the sum without the largest weight, plus the difference of the largest weight and
    the weight of the state.
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
    """Compute the message from a table of any size to the variable of edge e.

    The message is written to `out`. The axes of all other variables are summed out one by one:
    first the axes before the axis of this variable, from axis 0 on, and then the axes after it,
    from the last axis backward.
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
    """Write the message through a small table of two variables to ``out[to:to + k]``.

    The entries are summed one by one, because setting up a vector loop takes longer for few states.
    Return the largest entry of the message.
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
    """Compute the message from the factor of edge e to its variable, which has k states.

    The message is computed from the weights that the other variables of the factor send, and is
    written to ``out[to:to + k]``. Return the largest entry of the message.
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
def multiply(k, factor, message, at, sent, belief, start):
    """Scale a message (k,) by `factor`, and multiply the belief of its variable by the message.

    The message and `sent` begin at the index `at`, the belief at `start`. `sent` gets the belief
    before the multiplication, which is the product of the messages of all factors before this
    factor.
    """
    for a in range(k):
        y = factor * message[at + a]
        z = belief[start + a]
        message[at + a] = y
        sent[at + a] = z
        belief[start + a] = z * y


@jit(allocates=False, inline=True)
def send_behind(first, n_edges, k, message_start, message, sent, behind):
    """Multiply the weights that a variable sends to an edge by the messages of all edges after it.

    If all weights that are sent to an edge are below `SMALL`, they are scaled up.
    """
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
    """Damp a message (k,): replace it by a weighted geometric mean of the old and new message.

    The new message begins at ``message[at]``. It is first divided by its largest entry `top`. In
    the mean, the old message `old` (k,) has the weight `damping`. Return the largest entry of the
    mean.
    """
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
    """Visit all variables once; return False if underflow may have changed a message.

    If `passing` is True, free variables first receive new messages; otherwise they use the old
    messages. Each variable then sends to each of its factors the product of its own weights and the
    messages of its other factors. `before` holds the old beliefs, and `belief` (S,) gets the new
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
                # For a table of two variables, `other` is the second edge of the table. For larger
                # tables `other` is not used, but it must be a valid index, and ONE - slot could be
                # negative.
                mate = ONE - slot if kind[e] != TABLE else ZERO
                other = graph.scopes[graph.scope[e] + mate]
                place = message_start[other]
                n_other = message_start[other + ONE] - place
                if kind[e] == POTTS:
                    top = potts(tables[table], tables[table + ONE], k, sent, place, message, at)
                elif kind[e] == PAIR and k == FOUR and n_other == FOUR:
                    # With a constant number of states, the compiler writes out the loops entry by
                    # entry. A loop over few entries takes longer to set up than to compute.
                    if slot == ZERO:
                        top = few_states(
                            tables, table, FOUR, FOUR, FOUR, ONE, sent, place, message, at
                        )
                    else:
                        top = few_states(
                            tables, table, FOUR, ONE, FOUR, FOUR, sent, place, message, at
                        )
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
            if k == FOUR:
                multiply(FOUR, x, message, at, sent, belief, start)
            else:
                multiply(k, x, message, at, sent, belief, start)
        if k == FOUR:
            send_behind(first, last - first, FOUR, message_start, message, sent, behind)
        else:
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
    """Return the largest change of a probability, and True if a relative change is too large.

    A relative change is too large if the ratio of the new to the old probability is below ``1 /
    factor`` or above `factor`.
    """
    change, moved = 0.0, False
    for s in range(np.uintp(after.shape[0])):
        x, y = after[s], before[s]
        change = max(change, abs(x - y))
        moved |= (x > factor * y) | (y > factor * x)
    return change, moved


@jit
def pass_weights(graph, variables, models, start, options, answers, work):
    """Pass messages for N models, one model after the other, until each model has converged.

    Parameters
    ----------
    graph : CategoricalGraph
        Tables are weights.
    variables : (E,) uintp variable of each edge
    models : CategoricalModels
    start : (N or 0, S) beliefs that free variables send before the first sweep; if `start` is
        empty, they send the products of their weights and messages
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
