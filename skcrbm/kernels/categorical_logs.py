"""Pass sum-product and tree-reweighted messages, stored as logarithms, one model after the other.

This module is for models whose weights would overflow or underflow in `categorical_weights`. The
graph and the schedule are the same. Tables and messages are logarithms; -inf stands for weight 0,
and the largest logarithm of each message is 0.

Let own_i be the log-weights that the fields give to the states of variable i, m_(a -> i) the
message from factor a, and rho_a the weight of factor a. With theta_i = own_i + sum_a rho_a m_(a ->
i), variable i sends ``theta_i - m_(a -> i)`` to factor a, whose table is raised to the power 1 /
rho_a. The difference is computed as a sum over the factors before a plus a sum over the factors
after a, so that no infinity is subtracted. Log Z is

    sum_i log Z_i + sum_a rho_a (log Z_a - sum_(i in a) log Z_ai)

Here Z_i is the sum of exp(theta_i) over the states of i. Z_a is the sum of the entries of table a,
each multiplied by the messages to the table. Z_ai is the sum, over the states of i, of the product
of the two messages between a and i. If all rho are 1, this is Bethe's log Z. Multiplying all
entries of a message by the same number does not change log Z.

If messages are tree-reweighted, ``sum_a rho_a max_(i in a) g_ai`` is added, so that log Z is an
upper bound whatever the messages are. Here g_ai is the logarithm of the largest value of n / m over
the possible states of i, minus the logarithm of its mean under the belief of i, where m is the
message from a to i and n the message that a would send next. At a fixed point all g are 0. (The
messages move weight between the factors and the variables of an acyclic set of factors. The sum
over all states of the set is computed by removing one factor after the other, with all its
variables except one, i. Then a factor multiplies the weights of the states of i by numbers that are
proportional to n / m, and the largest of them is a bound.)
"""

import math

import numpy as np

from skcrbm.kernels.arguments import ONE, POTTS, TABLE, ZERO
from skcrbm.kernels.categorical_receive import table_size
from skcrbm.kernels.jit import jit
from skcrbm.kernels.log_messages import (
    SMALLEST,
    lower,
    pair_weights,
    potts_logs,
    potts_weights,
    reduce_logs,
)
from skcrbm.kernels.scalar import EPS_64, ROUNDING, copy_into


@jit(allocates=False)
def contract_logs(graph, e, weight, out, work):
    """Compute the message from a table to the variable of edge e, and write it to `out`.

    The table may have any number of variables. See `_contract` in `categorical_receive`.
    """
    message_start, scopes = graph.message_start, graph.scopes
    scope, slot, m = graph.scope[e], graph.slot[e], graph.arity[e]
    table, at = graph.tables, graph.table[e]
    size, turn = table_size(graph, e), ZERO
    for step in range(m - ONE):
        j = step if step < slot else m - ONE - (step - slot)
        other = scopes[scope + j]
        first = message_start[other]
        k = message_start[other + ONE] - first
        size //= k
        row, across = (ONE, size) if step < slot else (k, ONE)
        to = work.table if turn == ZERO else work.other
        for r in range(size):
            to[r] = reduce_logs(table, at + r * row, across, k, weight, first)
        table, at, turn = to, ZERO, ONE - turn
    for a in range(size):
        out[a] = table[at + a]


@jit(allocates=False)
def contract_weights(graph, e, weight, out, work):
    """Do the same as `contract_logs`, but with weights, which needs few exponentials.

    Return False if a sum may have lost terms by underflow.
    """
    message_start, scopes = graph.message_start, graph.scopes
    scope, slot, m = graph.scope[e], graph.slot[e], graph.arity[e]
    table, at, power = graph.weights, graph.table[e], work.entries
    size, turn = table_size(graph, e), ZERO
    for step in range(m - ONE):
        j = step if step < slot else m - ONE - (step - slot)
        other = scopes[scope + j]
        first = message_start[other]
        k = message_start[other + ONE] - first
        size //= k
        row, across = (ONE, size) if step < slot else (k, ONE)
        for b in range(k):
            power[b] = math.exp(weight[first + b])
        to = work.table if turn == ZERO else work.other
        for r in range(size):
            total, place = 0.0, at + r * row
            for b in range(k):
                total += table[place] * power[b]
                place += across
            to[r] = total
        table, at, turn = to, ZERO, ONE - turn
    good = True
    for a in range(size):
        total = table[at + a]
        good &= total > SMALLEST
        out[a] = math.log(total) if total > SMALLEST else 0.0
    return good


@jit(allocates=False)
def receive_logs(graph, e, weight, out, work):
    """Compute the message along edge e to its variable, shifted such that its maximum is 0.

    The message is written to `out` (k,), with an entry for each of k states. If all states have
    weight 0, all entries are 0, and the function returns False.
    """
    message_start = graph.message_start
    k = message_start[e + ONE] - message_start[e]
    if graph.kind[e] == TABLE:
        if not contract_weights(graph, e, weight, out, work):
            contract_logs(graph, e, weight, out, work)
    else:
        slot, at = graph.slot[e], graph.table[e]
        other = graph.scopes[graph.scope[e] + ONE - slot]
        first = message_start[other]
        n_other = message_start[other + ONE] - first
        if graph.kind[e] == POTTS:
            if not potts_weights(
                graph.weights[at], graph.weights[at + ONE], k, weight, first, out, work.table
            ):
                potts_logs(graph.tables[at], graph.tables[at + ONE], k, weight, first, out)
        else:
            pair_weights(graph, e, k, n_other, first, weight, out, work.table)
    return lower(out, ZERO, k)


@jit(allocates=False)
def damp_logs(damping, k, old, message, at):
    """Damp a message (k,) of logarithms: replace it by a weighted mean of the old and new message.

    The new message begins at ``message[at]``. In the mean, the old message `old` (k,) has the
    weight `damping`. States that are impossible in one of the messages stay impossible. Return
    False if all states are impossible.
    """
    for a in range(k):
        new = message[at + a]
        if old[a] > -math.inf and new > -math.inf:
            message[at + a] = damping * old[a] + (1.0 - damping) * new
        else:
            message[at + a] = min(old[a], new)
    return lower(message, at, k)


@jit(allocates=False, inline=True)
def add_message(k, rho, message, at, sent, belief, start):
    """Add a message (k,) to the belief of its variable, with the weight rho.

    The message and `sent` begin at the index `at`, the belief at `start`. `sent` gets the first
    part of the variable's message to this factor: the belief before the addition, plus rho - 1
    times the message from the factor. `add_behind` adds the messages of later factors.
    """
    for a in range(k):
        x = message[at + a]
        y = rho * x
        z = belief[start + a]
        sent[at + a] = z + (y - x if x > -math.inf else x)
        belief[start + a] = z + y


@jit(allocates=False, inline=True)
def add_behind(k, rho, message, at, sent, behind):
    """Complete the message (k,) from a variable to a factor.

    `behind` (k,) is the sum of the messages from all later factors of the variable. Afterwards, the
    message from this factor is added to `behind`.
    """
    for a in range(k):
        sent[at + a] += behind[a]
        behind[a] += rho * message[at + a]


@jit(allocates=False)
def sweep_logs(
    graph, rho, forward, passing, options, held, own, message, sent, before, belief, work
):  # fmt: skip
    """Visit all variables once; return False if all states of a variable have weight 0.

    If `passing` is True, free variables first receive new messages, and clamped variables are
    skipped. Otherwise all variables use the old messages. Each variable then sends messages to all
    its factors. Its belief is its log-probabilities.
    """
    damping = options.damping
    new, behind, old = work.new, work.behind, work.old
    n = np.uintp(graph.order.shape[0])
    good = True
    for i in range(n):
        v = graph.order[i] if forward else graph.order[n - ONE - i]
        start = graph.state_start[v]
        k = graph.state_start[v + ONE] - start
        if passing and held[v]:
            for a in range(k):
                belief[start + a] = before[start + a]
            continue
        first, last = graph.edge_start[v], graph.edge_start[v + ONE]
        for a in range(k):
            belief[start + a] = own[start + a]
            behind[a] = 0.0
        for e in range(first, last):
            at = graph.message_start[e]
            if passing:
                if damping > 0.0:
                    for a in range(k):
                        old[a] = message[at + a]
                good &= receive_logs(graph, e, sent, new, work)
                for a in range(k):
                    message[at + a] = new[a]
                if damping > 0.0:
                    good &= damp_logs(damping, k, old, message, at)
            add_message(k, rho[e], message, at, sent, belief, start)
        for i in range(last - first):
            e = last - ONE - i
            at = graph.message_start[e]
            add_behind(k, rho[e], message, at, sent, behind)
            good &= lower(sent, at, k)
        good &= lower(belief, start, k)
        total = 0.0
        for a in range(k):
            total += math.exp(belief[start + a])
        total = math.log(total)
        for a in range(k):
            belief[start + a] -= total
    return good


@jit(allocates=False)
def change_of_logs(after, before, slack, rounding):
    """Return the largest change of a probability, and True if some logarithm changed too much.

    A logarithm x changes too much if it changes by more than slack + rounding * |x|. A probability
    changes by at most the change of its logarithm, because it is at most 1. Thanks to this bound,
    most exponentials need not be computed.
    """
    change, moved = 0.0, False
    for s in range(np.uintp(after.shape[0])):
        x, y = after[s], before[s]
        if x != y:
            apart = abs(x - y)
            if apart > change and max(x, y) > -50.0:
                change = max(change, abs(math.exp(x) - math.exp(y)))
            moved |= apart > slack + rounding * abs(x)
    return change, moved


@jit
def pass_logs(graph, rho, variables, models, start, options, alternates, answers, work):
    """Pass messages for N models, in turn, until each model has converged.

    Parameters
    ----------
    graph : CategoricalGraph
        Its tables are the log-weights of the factors, divided by rho.
    rho : (E,) float64 weight of each edge's factor
    variables : (E,) uintp variable of each edge
    models : CategoricalModels
    start : (N or 0, S) log-beliefs that the variables send first; if it is empty, they send the
        beliefs that follow from `models.message`
    options : CategoricalOptions
    alternates : bool, True if every second sweep goes backward
    answers : CategoricalAnswers
        `good` is True if each variable had a possible state in all iterations.
    work : CategoricalWork
    """
    held, own, message, sent = models
    max_iter, tol, slack, _, _, two_sweeps = options
    rounding = ROUNDING * EPS_64
    other = np.empty(own.shape[1])
    for m in range(own.shape[0]):
        belief = answers.belief[m]
        sweep_logs(
            graph, rho, True, False, options, held[m], own[m], message[m], sent[m],
            belief, belief, work,
        )  # fmt: skip
        if start.shape[0]:
            for e in range(np.uintp(variables.shape[0])):
                if not held[m, variables[e]]:
                    at = graph.message_start[e]
                    for a in range(graph.message_start[e + ONE] - at):
                        sent[m, at + a] = start[m, graph.state_start[variables[e]] + a]
        still, good = True, True
        before, after = belief, other
        answers.n_iter[m] = max_iter
        for iteration in range(max_iter):
            forward = not alternates or iteration % 2 == 0
            good &= sweep_logs(
                graph, rho, forward, True, options, held[m], own[m], message[m], sent[m],
                before, after, work,
            )  # fmt: skip
            change, moved = change_of_logs(after, before, slack, rounding)
            before, after = after, before
            if answers.trace.shape[1]:
                answers.trace[m, iteration] = change
            last = still
            still = (change < tol) & (not moved)
            if iteration > 0 and (two_sweeps or (last and still)):
                answers.n_iter[m] = iteration + 1
                answers.converged[m] = good
                break
            if not good:  # the model has no possible state
                break
        answers.good[m] = good
        copy_into(before, belief)


@jit(allocates=False)
def log_total(graph, e, sent, entries, work):
    """Return the log of the sum of a table's entries, each multiplied by messages to the factor.

    Parameters
    ----------
    graph : CategoricalGraph
    e : first edge of the factor
    sent : (M,) log-messages from variables to factors
    entries : output, share of each entry in the sum, in C order; or an empty array
    work : CategoricalWork
    """
    message_start, scopes = graph.message_start, graph.scopes
    scope, m = graph.scope[e], graph.arity[e]
    digits = work.digits
    size = ONE
    for j in range(m):
        size *= message_start[scopes[scope + j] + ONE] - message_start[scopes[scope + j]]
        digits[j] = ZERO
    high, total = -math.inf, 0.0
    for turn in range(3):  # compute the maximum, then the sum, then the shares
        if turn == 2 and entries.shape[0] == 0:
            break
        for s in range(size):
            code = s
            if graph.kind[e] == POTTS:
                code = ONE if digits[0] == digits[1] else ZERO
            x = graph.tables[graph.table[e] + code]
            for j in range(m):
                x += sent[message_start[scopes[scope + j]] + digits[j]]
            if turn == 0:
                high = max(high, x)
            elif high > -math.inf:
                x = math.exp(x - high)
                if turn == 1:
                    total += x
                else:
                    entries[s] = x / total
            elif turn == 2:
                entries[s] = 1.0 / size
            for i in range(m):
                j = m - ONE - i
                other = scopes[scope + j]
                digits[j] += ONE
                if digits[j] < message_start[other + ONE] - message_start[other]:
                    break
                digits[j] = ZERO
    return high + math.log(total) if high > -math.inf else high


@jit
def sum_logs(
    graph, rho, bounds, models, weight, want_statistics, each, log_partition, statistics, work
):  # fmt: skip
    """Compute log Z and the probabilities of all table entries, from the final messages.

    Parameters
    ----------
    graph, rho, models, work : see `pass_logs`
    bounds : bool, True to make log Z an upper bound, for tree-reweighted messages
    weight : (N,) weight of each model in the sum of the statistics
    want_statistics : bool
    each : bool, True for the statistics of each model, False for their sum
    log_partition : (N,) output, log Z; -inf if a factor or a variable has no possible state
    statistics : (1 or N, n_entries); the probabilities are added to it
    """
    held, own, message, sent = models
    message_start, state_start = graph.message_start, graph.state_start
    new, entries = work.new, work.entries
    none = entries[:0]
    n = np.uintp(held.shape[1])
    excess = np.empty(rho.shape[0] if bounds else 0)
    for m in range(own.shape[0]):
        total = 0.0
        for v in range(n):
            k = state_start[v + ONE] - state_start[v]
            for a in range(k):
                new[a] = own[m, state_start[v] + a]
            for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
                at = message_start[e]
                for a in range(k):
                    new[a] += rho[e] * message[m, at + a]
            total += log_sum(new, ZERO, k)
            if bounds:
                _excesses(graph, v, k, message[m], sent[m], excess, work)
            for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
                at = message_start[e]
                for a in range(k):
                    new[a] = message[m, at + a] + sent[m, at + a]
                total -= rho[e] * log_sum(new, ZERO, k)
                if graph.slot[e] == ZERO:
                    wanted = want_statistics and graph.place[e] >= 0
                    here = log_total(graph, e, sent[m], entries if wanted else none, work)
                    total += rho[e] * here
                    if wanted:
                        row = m if each else 0
                        x = 1.0 if each else weight[m]
                        for s in range(table_size(graph, e)):
                            statistics[row, graph.place[e] + s] += x * entries[s]
        for e in range(np.uintp(excess.shape[0])):
            if graph.slot[e] == ZERO:
                total += rho[e] * largest_excess(graph, e, excess)
        log_partition[m] = total if total == total else -math.inf


@jit(allocates=False)
def _excesses(graph, v, k, message, sent, excess, work):
    """Compute g of all edges of variable v, whose log-belief with k states is in `work.new`."""
    belief, new = work.behind, work.old
    for a in range(k):
        belief[a] = work.new[a]
    for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
        receive_logs(graph, e, sent, new, work)
        high = -math.inf
        for a in range(k):
            if belief[a] > -math.inf:
                new[a] -= message[graph.message_start[e] + a]
                high = max(high, new[a])
        total = mean = 0.0
        low = log_sum(belief, ZERO, k)
        for a in range(k):
            if belief[a] > -math.inf:
                p = math.exp(belief[a] - low)
                total += p
                mean += p * math.exp(new[a] - high)
        excess[e] = max(0.0, math.log(total / mean)) if mean > 0.0 else 0.0


@jit(allocates=False)
def largest_excess(graph, e, excess):
    """Return the largest entry of `excess` (E,) of the edges of the factor of edge e."""
    scope, found = graph.scope[e], 0.0
    for j in range(graph.arity[e]):
        found = max(found, excess[graph.scopes[scope + j]])
    return found


@jit(allocates=False)
def log_sum(values, first, k):
    """Return the logarithm of the sum of exp(x) over x in values[first:first + k]."""
    high = -math.inf
    for a in range(k):
        high = max(high, values[first + a])
    if high == -math.inf:
        return high
    total = 0.0
    for a in range(k):
        total += math.exp(values[first + a] - high)
    return high + math.log(total)
