"""Message passing on factor graphs, one model after the other, with messages as float64 log-odds.

The module `factor_tables` is faster, but stores messages as odds. This module is for the models
that `factor_tables` cannot process: models with table entries of weight 0, OR and AND factors,
large log-weights of tables or fields, or any damping. Messages are clipped to ±limit, a number far
larger than the sum of all fields and finite log-weights. So all messages are finite. The score of
an impossible state is lower by about `limit` than the score of a possible state. A clamped variable
sends ±limit.

The message mu_{a->i} of factor a to variable i is the log-odds of x_i under
``phi_a prod_(j != i) e^(c_j x_j)``, summed or maximised over the other variables. Here phi_a are
the weights of the factor. The message of variable j to the factor is
``c_j = theta_j - mu_{a->j}``, with ``theta_j = field_j + sum_a mu_{a->j}``.

Messages of an OR take time linear in the number of inputs. Let a_i be the log-odds that input i
sends, b the log-odds that the output sends, Q the probability that all inputs are off (0), and Q_i
the probability that all inputs except i are off. Then the messages are

    sum, to the output    log((1 - Q) / Q)
    sum, to input i       -log((1 - Q_i) + Q_i e^-b)
    max, to the output    sum_j relu(a_j) + min(0, max_j a_j)
    max, to input i       min(b + sum_(j != i) relu(a_j), relu(-max_(j != i) a_j))

A sum over all inputs except i is computed as the sum over the inputs before i plus the sum over the
inputs after i, because subtracting a_i from the total would lose small terms. An AND is an OR of
the negated inputs with a negated output.
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import (
    EPS_64,
    MAX,
    ROUNDING,
    SUM,
    binary_entropy,
    copy_into,
    log_add,
    log_odds_moved,
    sigmoid_pair,
    softplus,
)

# If a sum of products is below this number, some products may have underflowed, and the messages of
# the factor are computed with logarithms.
_SMALLEST = 1e-200


class GraphRows(NamedTuple):
    """N models with the same factor graph, which has n variables and E edges."""

    limit: np.ndarray  # (N,) float64, largest |message| of each model
    field: np.ndarray  # (N, n) float64 fields
    held: np.ndarray  # (N, n) int8, 0 or 1 for a clamped variable, -1 for a free variable
    message: np.ndarray  # (N, E) float64 messages to variables as log-odds, read and overwritten


@jit
def _send_weights(weight, first, k, cavity, sent, pair, partial, prefix):
    """Compute the sum-product messages of a table to its k variables, from its weights.

    The messages are written to `sent` (k,). Return the log of the total weight, or -inf if a sum
    underflows. `partial` and `prefix` are scratch arrays: partial[2^j:2^(j + 1)] is the table of
    the first j variables that remains after the other variables have been summed out, and
    prefix[2^j:2^(j + 1)] holds the products of the messages of the first j variables.
    """
    size = 1 << k
    for s in range(size):
        partial[size + s] = weight[first + s]
    for j in range(k - 1, -1, -1):
        yes, no = sigmoid_pair(cavity[j], 1.0)
        pair[2 * j], pair[2 * j + 1] = no, yes
        size = 1 << j
        for s in range(size):
            partial[size + s] = partial[2 * (size + s)] * no + partial[2 * (size + s) + 1] * yes
    prefix[1] = 1.0
    for j in range(k):
        size = 1 << j
        on = off = 0.0
        for s in range(size):
            off += prefix[size + s] * partial[2 * (size + s)]
            on += prefix[size + s] * partial[2 * (size + s) + 1]
        if min(on, off) < _SMALLEST:
            return -math.inf
        sent[j] = math.log(on / off)
        no, yes = pair[2 * j], pair[2 * j + 1]
        for s in range(size):
            prefix[2 * (size + s)] = prefix[size + s] * no
            prefix[2 * (size + s) + 1] = prefix[size + s] * yes
    return math.log(partial[1])


@jit
def _log_one_minus(s):
    """Return log(1 - e^-s) for s >= 0."""
    return math.log(-math.expm1(-s)) if s > 0 else -math.inf


@jit
def _send_or(kind, cavity, k, sent, behind):
    """Write the messages of an OR to `sent`: log-odds for its k inputs, then for its output.

    Parameters
    ----------
    kind : SUM or MAX
    cavity : (k + 1 or more,) log-odds that the variables send, finite
    sent : output, ±inf if a value is impossible
    behind : scratch array of the same length

    Returns
    -------
    float : log of the sum (SUM) or maximum (MAX) of the weights of all states that the factor
        allows. The weight of a state is the product of the weights that the variables send. The two
        weights of a variable are scaled such that their sum (SUM) or maximum (MAX) is 1
    """
    b = cavity[k]
    if kind == MAX:
        return _send_max(cavity, k, b, sent, behind)
    total = 0.0
    for i in range(k - 1, -1, -1):
        behind[i] = total
        total += softplus(cavity[i])
    sent[k] = total + _log_one_minus(total)
    ahead = 0.0
    for i in range(k):
        others = ahead + behind[i]
        sent[i] = -log_add(_log_one_minus(others), -others - b)
        ahead += softplus(cavity[i])
    return log_add(_log_one_minus(total) - softplus(-b), -total - softplus(b))


@jit
def _send_max(cavity, k, b, sent, behind):
    total, high, second, where = 0.0, -math.inf, -math.inf, -1
    for i in range(k - 1, -1, -1):
        a = cavity[i]
        behind[i] = total
        total += max(a, 0.0)
        if a > high:
            high, second, where = a, high, i
        elif a > second:
            second = a
    sent[k] = total + min(0.0, high)
    ahead = b
    for i in range(k):
        m = second if i == where else high
        sent[i] = min(ahead + behind[i], max(-m, 0.0))
        ahead += max(cavity[i], 0.0)
    return max(sent[k] + min(b, 0.0), min(-b, 0.0)) - total


@jit
def _add(kind, x, y):
    """Return log(e^x + e^y) if `kind` is SUM, or max(x, y) if `kind` is MAX."""
    if kind == SUM:
        return log_add(x, y)
    return max(x, y)


@jit
def _log_pair(kind, c):
    """Convert log-odds c to two log-weights: of the value 1 (on) and of the value 0 (off).

    The weights have the sum 1 (SUM) or the maximum 1 (MAX).
    """
    if kind == SUM:
        return -softplus(-c), -softplus(c)
    return min(c, 0.0), min(-c, 0.0)


@jit
def _send_logs(kind, logs, first, k, cavity, sent, partial, prefix):
    """Compute the messages of a table to its k variables, from its log-weights.

    The messages are written to `sent` (k,). Return the log of the sum or maximum of the weights.
    See `_send_weights` for the scratch space.
    """
    size = 1 << k
    for s in range(size):
        partial[size + s] = logs[first + s]
    for j in range(k - 1, -1, -1):
        yes, no = _log_pair(kind, cavity[j])
        size = 1 << j
        for s in range(size):
            partial[size + s] = _add(
                kind, partial[2 * (size + s)] + no, partial[2 * (size + s) + 1] + yes
            )
    prefix[1] = 0.0
    for j in range(k):
        size = 1 << j
        on = off = -math.inf
        for s in range(size):
            off = _add(kind, off, prefix[size + s] + partial[2 * (size + s)])
            on = _add(kind, on, prefix[size + s] + partial[2 * (size + s) + 1])
        sent[j] = on - off if on > -math.inf or off > -math.inf else 0.0
        yes, no = _log_pair(kind, cavity[j])
        for s in range(size):
            prefix[2 * (size + s)] = prefix[size + s] + no
            prefix[2 * (size + s) + 1] = prefix[size + s] + yes
    return partial[1]


@jit
def send_factor(kind, graph, f, limit, cavity, sent, work):
    """Compute the messages of factor f to its k variables, clipped to ±limit, in sent[:k].

    Parameters
    ----------
    kind : SUM or MAX
    graph : FactorGraph
    cavity : (k or more,) log-odds from the variables, finite; changed
    work : the last four arrays of `work_for`

    Returns
    -------
    float : log of the sum (or maximum) of the factor's entries, each multiplied by the messages
        from the variables; -inf if all entries have weight 0
    """
    _, edge_start, weight, logs, table_start, n_tables, negated = graph
    pair, partial, prefix, behind = work
    k = edge_start[f + 1] - edge_start[f]
    if f < n_tables:
        first = table_start[f]
        total = -math.inf
        if kind == SUM:
            total = _send_weights(weight, first, k, cavity, sent, pair, partial, prefix)
        if total == -math.inf:
            total = _send_logs(kind, logs, first, k, cavity, sent, partial, prefix)
    else:
        sign = -1.0 if negated[f] else 1.0
        for j in range(k):
            cavity[j] *= sign
        total = _send_or(kind, cavity, k - 1, sent, behind)
        for j in range(k):
            cavity[j] *= sign
            sent[j] *= sign
    for j in range(k):
        sent[j] = min(max(sent[j], -limit), limit)
    return total


@jit
def read_cavities(graph, f, held, theta, message, limit, cavity):
    """Fill cavity[:k] with the log-odds that the k variables of factor f send to this factor."""
    variables, edge_start = graph.variables, graph.edge_start
    for e in range(edge_start[f], edge_start[f + 1]):
        v = variables[e]
        c = theta[v] - message[e] if held[v] < 0 else (2.0 * held[v] - 1.0) * limit
        cavity[e - edge_start[f]] = c


@jit
def add_messages(graph, field, held, message, theta):
    """Compute the log-odds of the beliefs: field plus messages, or 0 for clamped variables.

    The log-odds are written to `theta` (n,).
    """
    variables, edge_start = graph.variables, graph.edge_start
    for v in range(theta.shape[0]):
        theta[v] = field[v] if held[v] < 0 else 0.0
    for f in range(edge_start.shape[0] - 1):
        for e in range(edge_start[f], edge_start[f + 1]):
            if held[variables[e]] < 0:
                theta[variables[e]] += message[e]


@jit
def sweep_logs(kind, graph, damping, limit, field, held, message, theta, after, work):
    """Send all messages once, from the old beliefs theta, and store the new beliefs in `after`.

    Return the smallest result of `send_factor` over all factors. If it is below -limit / 2, factors
    and evidence contradict each other.
    """
    edge_start = graph.edge_start
    cavity, sent = work[0], work[1]
    least = 0.0
    for f in range(edge_start.shape[0] - 1):
        read_cavities(graph, f, held, theta, message, limit, cavity)
        least = min(least, send_factor(kind, graph, f, limit, cavity, sent, work[2:]))
        for e in range(edge_start[f], edge_start[f + 1]):
            new = sent[e - edge_start[f]]
            message[e] = damping * message[e] + (1.0 - damping) * new
    add_messages(graph, field, held, message, after)
    return least


@jit
def work_for(graph):
    """Return the scratch arrays of `sweep_logs`; the last four are for `send_factor`."""
    edge_start = graph.edge_start
    longest = 6
    for f in range(edge_start.shape[0] - 1):
        longest = max(longest, edge_start[f + 1] - edge_start[f])
    return (
        np.empty(longest),
        np.empty(longest),
        np.empty(12),
        np.empty(128),
        np.empty(128),
        np.empty(longest),
    )


@jit
def repeat_logs(kind, graph, damping, limit, field, held, message, belief, after, n_iter):
    """Send all messages of N models `n_iter` times, each time from the latest beliefs.

    Parameters
    ----------
    kind, graph, limit, field, held, message : see `pass_logs`
    damping : float, share of the old log-messages that is kept
    belief : (N, n) float64 log-odds, 0 if clamped; read and overwritten
    after : (N, n) scratch array
    """
    work = work_for(graph)
    for m in range(field.shape[0]):
        theta, other = belief[m], after[m]
        for _ in range(n_iter):
            sweep_logs(
                kind, graph, damping, limit[m], field[m], held[m], message[m], theta, other, work
            )
            theta, other = other, theta
        if n_iter % 2:
            for v in range(belief.shape[1]):
                belief[m, v] = after[m, v]


@jit
def _score(graph, field, held, theta):
    """Return the score of the state that the beliefs `theta` prefer; -inf if it is impossible."""
    variables, edge_start, _, logs, table_start, n_tables, negated = graph
    total = 0.0
    for v in range(theta.shape[0]):
        if (theta[v] > 0) if held[v] < 0 else held[v] == 1:
            total += field[v]
    for f in range(edge_start.shape[0] - 1):
        code, some, last = 0, False, False
        for e in range(edge_start[f], edge_start[f + 1]):
            v = variables[e]
            on = (theta[v] > 0) if held[v] < 0 else held[v] == 1
            if f < n_tables:
                code = 2 * code + (1 if on else 0)
            elif e < edge_start[f + 1] - 1:
                some |= on != negated[f]
            else:
                last = on != negated[f]
        if f < n_tables:
            total += logs[table_start[f] + code]
        elif some != last:
            return -math.inf
    return total


@jit
def fit_messages(graph, limit, theta, held, n_rounds, message):
    """Set `message` (E,) such that the beliefs of the factors have the marginals `theta` (n,).

    The marginals are given as log-odds. Each factor is fitted separately, by at most `n_rounds`
    rounds of iterative proportional scaling.
    """
    edge_start = graph.edge_start
    work = work_for(graph)
    cavity, sent = work[0], work[1]
    for f in range(edge_start.shape[0] - 1):
        start, k = edge_start[f], edge_start[f + 1] - edge_start[f]
        for e in range(start, edge_start[f + 1]):
            message[e] = 0.0
        for _ in range(n_rounds):
            moved = 0.0
            for j in range(k):
                read_cavities(graph, f, held, theta, message, limit, cavity)
                send_factor(SUM, graph, f, limit, cavity, sent, work[2:])
                moved = max(moved, abs(message[start + j] - sent[j]))
                message[start + j] = sent[j]
            if moved < 1e-13:
                break


@jit
def pass_logs(kind, graph, models, start, options, answers):
    """Pass messages for N models until each model has converged.

    Parameters
    ----------
    kind : SUM or MAX
    graph : FactorGraph
    models : GraphRows
    start : (N or 0, n) beliefs from which the first messages are computed; if it is empty, these
        beliefs are computed from fields and messages
    options : GraphOptions
    answers : GraphAnswers
    """
    limit, field, held, message = models
    max_iter, tol, slack, damping, want_state = options
    n_iter, converged, trace, score, state, log_odds = answers
    n = field.shape[1]
    work = work_for(graph)
    rounding = ROUNDING * EPS_64
    kept = np.empty(message.shape[1])
    for m in range(field.shape[0]):
        theta, after = np.empty(n), np.empty(n)
        add_messages(graph, field[m], held[m], message[m], theta)
        if start.shape[0]:
            for v in range(n):
                if held[m, v] < 0:
                    theta[v] = start[m, v]
        n_iter[m] = max_iter
        still = True
        copy_into(message[m], kept)
        for iteration in range(max_iter):
            least = sweep_logs(
                kind, graph, damping, limit[m], field[m], held[m], message[m], theta, after, work
            )
            change, moved = 0.0, False
            for v in range(n):
                difference = abs(sigmoid_pair(after[v], 1.0)[0] - sigmoid_pair(theta[v], 1.0)[0])
                change = max(change, difference)
                moved |= log_odds_moved(after[v], theta[v], slack, rounding)
            if want_state:
                here = _score(graph, field[m], held[m], after)
                if here > score[m] or iteration == 0:
                    score[m] = here
                    for v in range(n):
                        state[m, v] = after[v] > 0
            theta, after = after, theta
            if trace.shape[1]:
                trace[m, iteration] = change
            before = still
            still = change < tol and not moved
            if before and still:
                for e in range(kept.shape[0]):
                    moved |= log_odds_moved(message[m, e], kept[e], slack, rounding)
                before = not moved
            if still and not before:
                copy_into(message[m], kept)
            if before and still:
                n_iter[m] = iteration + 1
                converged[m] = least > -0.5 * limit[m]
                break
        for v in range(n):
            log_odds[m, v] = theta[v]


@jit
def finish_logs(kind, graph, models, log_odds, shift, place, converged, sums):
    """Compute log Z and the probabilities of all entries, from the messages and beliefs.

    Let f_i be the field of variable i, b_i its belief P(on), and H_i the entropy of the belief. Let
    q_i be the distribution that variable i sends to factor a, and log Z_a the result of
    `send_factor` for this factor. Then log Z is ``sum_i (f_i b_i + H_i) + sum_a (log Z_a +
    sum_i KL(b_i || q_i))``. If messages have converged, this is Bethe's log Z.

    Parameters
    ----------
    kind, graph, models, log_odds : see `pass_logs`
    shift : (F,) float64, logarithm of the number by which the weights of each table were divided
    place : (F,) int64, index of each table's first entry in the statistics
    converged : (N,) changed, set to False if a factor has no possible state
    sums : GraphSums
    """
    limit, field, held, message = models
    weight, want_log_z, want_statistics, each, log_partition, statistics = sums
    variables, edge_start, _, logs, table_start, n_tables, _ = graph
    work = work_for(graph)
    cavity, sent = work[0], work[1]
    joint = np.empty(64)
    for m in range(field.shape[0]):
        theta = log_odds[m]
        log_z = 0.0
        for v in range(theta.shape[0]):
            if held[m, v] < 0:
                log_z += field[m, v] * sigmoid_pair(theta[v], 1.0)[0] + binary_entropy(theta[v])
            else:
                log_z += field[m, v] * held[m, v]
        for f in range(edge_start.shape[0] - 1):
            start, k = edge_start[f], edge_start[f + 1] - edge_start[f]
            read_cavities(graph, f, held[m], theta, message[m], limit[m], cavity)
            total = send_factor(kind, graph, f, limit[m], cavity, sent, work[2:])
            if total < -0.5 * limit[m]:
                converged[m] = False
            log_z += shift[f] + max(total, -limit[m])
            for j in range(k):
                v = variables[start + j]
                if held[m, v] < 0:
                    b = sigmoid_pair(theta[v], 1.0)[0]
                    apart = b * (theta[v] - cavity[j]) - softplus(theta[v]) + softplus(cavity[j])
                    log_z += apart
            if want_statistics and f < n_tables:
                high = _log_joint(logs, table_start[f], k, cavity, joint)
                norm = 0.0
                for s in range(1 << k):
                    joint[s] = math.exp(joint[s] - high)
                    norm += joint[s]
                norm = (1.0 if each else weight[m]) / norm
                for s in range(1 << k):
                    statistics[m if each else 0, place[f] + s] += norm * joint[s]
        if want_log_z:
            log_partition[m] = log_z


@jit
def _log_joint(logs, first, k, cavity, joint):
    """Set joint[:2^k] to the log-weight of each table entry plus the messages from the variables.

    The table of k variables has 2^k entries. For each entry, the log-message of each variable is
    added for the value that the variable has at this entry. Return the largest sum. If all entries
    have weight 0, all entries get the log-weight 0.
    """
    high = -math.inf
    for s in range(1 << k):
        x = logs[first + s]
        for j in range(k):
            if (s >> (k - 1 - j)) & 1:
                x += min(cavity[j], 0.0)
            else:
                x += min(-cavity[j], 0.0)
        joint[s] = x
        high = max(high, x)
    if high == -math.inf:
        for s in range(1 << k):
            joint[s] = 0.0
        return 0.0
    return high
