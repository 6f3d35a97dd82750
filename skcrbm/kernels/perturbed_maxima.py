"""Run damped max-product for a fixed number of sweeps, each of which sends all messages at once.

Perturb-and-max-product (Lazaro-Gredilla et al. 2021) runs these kernels on copies of a model, one
per sample, that differ only in their fields. The kernels are fast because they do not test
convergence, score states or compute exponentials. Messages and beliefs of -1/+1 variables are half
of the log-odds. If variable i has the belief theta_i, the message from i to k is

    n_{i->k} = (|c + s_ik| - |c - s_ik|) / 2,   where c = theta_i - n_{k->i}.

The compiler vectorises the absolute values. An RBM with 0/1 units becomes a model of -1/+1
variables with the couplings w / 4 and the fields ``b / 2 + sum_j w_ij / 4``.

`pass_pairs` takes couplings as a matrix: a matrix between two layers (an RBM), or the upper
triangle of a symmetric matrix (a dense Ising model). The two messages of an edge have the same
indices in two matrices, so that no matrix is transposed. `pass_edges` takes a list of edges. Its
innermost loops run over samples, as SIMD lanes: a vector instruction processes several samples at
once. `pass_relays` takes table, OR and AND factors of 0/1 variables, with messages as log-odds.

Let a_i be the log-odds that input i sends to an OR, and b the log-odds that the output sends. The
messages of the OR are

    to the output    sum_j relu(a_j) + min(0, max_j a_j)
    to input i       min(b + sum_(j != i) relu(a_j), relu(-max_(j != i) a_j))

They take time linear in the number of inputs. An AND is an OR of the negated inputs with a negated
output.

The result of a sample does not depend on the number of samples in an array.
"""

from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.lanes import copy_lanes


@jit(fastmath={"contract"})
def _exchange(coupling, i, first, n, shift, theta_i, theta, damping, half, down, up, after):
    """Update the messages between row variable i and the column variables first to n - 1.

    Messages in both directions are replaced: `up` (R, C) goes to the rows, `down` (R, C) to the
    columns. The messages `down` are also added to the beliefs `after`. Column j has the index shift
    + j in `theta` and `after`. `half` is (1 - damping) / 2.
    """
    for j in range(first, n):
        s = coupling[i, j]
        a = theta_i - up[i, j]
        b = theta[shift + j] - down[i, j]
        x = damping * down[i, j] + half * (abs(a + s) - abs(a - s))
        up[i, j] = damping * up[i, j] + half * (abs(b + s) - abs(b - s))
        down[i, j] = x
        after[shift + j] += x


@jit(fastmath={"contract", "reassoc"})
def _row_sum(up, i, first, n):
    """Return the sum of up[i, first:n]. A separate loop is faster, because it stores nothing."""
    total = up.dtype.type(0)
    for j in range(first, n):
        total += up[i, j]
    return total


@jit
def _add_column(i, first, n, shift, down, after):
    """Add the messages from row i to the columns first:n to `after`."""
    for j in range(first, n):
        after[shift + j] += down[i, j]


@jit
def _first_messages(coupling, start, warm, message):
    """Set `message` (2, R, C) to `start` times the couplings or, if `warm`, keep its entries.

    Messages between variables that are not coupled are set to 0.
    """
    for side in range(np.uintp(2)):
        for i in range(np.uintp(coupling.shape[0])):
            for j in range(np.uintp(coupling.shape[1])):
                if not warm:
                    message[side, i, j] = start * coupling[i, j]
                elif coupling[i, j] == 0:
                    message[side, i, j] = 0


@jit
def pass_pairs(coupling, triangle, field, start, warm, max_iter, damping, message, belief):
    """Run max-product on models with a coupling matrix, one sample after the other.

    Parameters
    ----------
    coupling : (R, C)
        Couplings between two layers, or a symmetric (L, L) matrix, of which the upper triangle is
        used.
    triangle : bool, True if the coupling matrix is symmetric
    field : (K, R + C) or (K, L), fields of each sample as half log-odds, row variables first
    start : float, ratio of the first messages to the couplings
    warm : bool, True to start from the messages in `message`; `start` is then not used
    max_iter : int, number of sweeps
    damping : float in the dtype of the arrays, share of the old messages that is kept
    message : (K or 1, 2, R, C) in and out
        Half log-odds, row -> column and column -> row. If the first dimension is 1, all samples
        share the messages.
    belief : (K, R + C) or (K, L) output, half log-odds after the last sweep
    """
    n_rows = coupling.shape[0]
    one = coupling.dtype.type(1)
    half = (one - damping) / (one + one)
    zero, n = np.uintp(0), np.uintp(coupling.shape[1])
    shift = zero if triangle else np.uintp(n_rows)
    n_variables = np.uintp(field.shape[1])
    theta = np.empty(field.shape[1], coupling.dtype)
    after = np.empty(field.shape[1], coupling.dtype)
    for k in range(field.shape[0]):
        here = message[min(k, message.shape[0] - 1)]
        down, up = here[0], here[1]
        _first_messages(coupling, start, warm, here)
        for v in range(n_variables):
            theta[v] = field[k, v]
        for i in range(np.uintp(n_rows)):
            first = i + np.uintp(1) if triangle else zero
            _add_column(i, first, n, shift, down, theta)
            theta[i] += _row_sum(up, i, first, n)
        for _ in range(max_iter):
            for v in range(n_variables):
                after[v] = field[k, v]
            for i in range(np.uintp(n_rows)):
                first = i + np.uintp(1) if triangle else zero
                _exchange(
                    coupling, i, first, n, shift, theta[i], theta, damping, half, down, up, after
                )
                after[i] += _row_sum(up, i, first, n)
            theta, after = after, theta
        for v in range(n_variables):
            belief[k, v] = theta[v]


# Kernels for a list of edges: the last axis of all arrays holds the samples, as SIMD lanes.


@jit(fastmath={"contract"})
def _exchange_lanes(s, i, k, a, b, damping, half, theta, message, n_lanes):
    """Update both messages of an edge with coupling s between the variables i and k.

    Row a of the messages goes to variable i, and row b to variable k.
    """
    for l in range(n_lanes):
        x = theta[k, l] - message[b, l]
        y = theta[i, l] - message[a, l]
        message[a, l] = damping * message[a, l] + half * (abs(x + s) - abs(x - s))
        message[b, l] = damping * message[b, l] + half * (abs(y + s) - abs(y - s))


@jit
def _add_lanes(row, message, v, after, n_lanes):
    """Add a row of `message` to the belief of variable v in `after`, for all lanes."""
    for l in range(n_lanes):
        after[v, l] += message[row, l]


@jit
def _add_all_lanes(edges, message, after, n_lanes):
    """Add all messages to the beliefs `after` (n, lanes) of their target variables."""
    for e in range(np.uintp(edges.shape[0])):
        for side in range(np.uintp(2)):
            _add_lanes(np.uintp(2) * e + side, message, np.uintp(edges[e, side]), after, n_lanes)


@jit
def pass_edges(edges, coupling, field, max_iter, damping, message, theta):
    """Run max-product on an Ising model over a sparse graph, with samples as SIMD lanes.

    Parameters
    ----------
    edges : (E, 2) int64, pairs of n variables
    coupling : (E,), coupling of each edge
    field : (n, lanes), half log-odds
    max_iter : int, number of sweeps
    damping : float in the dtype of the arrays
    message : (2 E, lanes) in and out
        Half log-odds; ``message[2 e]`` goes to the first variable of edge e, ``message[2 e + 1]``
        to the second.
    theta : (n, lanes) output, half log-odds of the beliefs after the last sweep
    """
    n_lanes = np.uintp(field.shape[1])
    one, two = np.uintp(1), np.uintp(2)
    whole = coupling.dtype.type(1)
    half = (whole - damping) / (whole + whole)
    after = np.empty(field.shape, coupling.dtype)
    copy_lanes(field, theta, n_lanes)
    _add_all_lanes(edges, message, theta, n_lanes)
    for _ in range(max_iter):
        copy_lanes(field, after, n_lanes)
        for e in range(np.uintp(edges.shape[0])):
            i, k = np.uintp(edges[e, 0]), np.uintp(edges[e, 1])
            a = two * e
            b = a + one
            _exchange_lanes(coupling[e], i, k, a, b, damping, half, theta, message, n_lanes)
            _add_lanes(a, message, i, after, n_lanes)
            _add_lanes(b, message, k, after, n_lanes)
        copy_lanes(after, theta, n_lanes)


# Kernels for factor graphs, which visit one factor after the other. Messages are log-odds.


class RelayGraph(NamedTuple):
    """F factors with E edges as flat arrays: first the tables, then the OR and the AND factors."""

    variables: np.ndarray  # (E,) int64, variable of each edge; OR and AND have their output last
    edge_start: np.ndarray  # (F + 1,) int64: factor f has edges edge_start[f]:edge_start[f + 1]
    logs: np.ndarray  # log-potentials of all tables, each minus the largest value of its table
    table_start: np.ndarray  # (n_tables + 1,) int64, index of the first entry of each table
    n_tables: int  # number of tables
    negated: np.ndarray  # (F,) bool, True for AND, which is an OR of negated variables


@jit
def relay_order(graph, n):
    """Find the variables that relay messages, and the order in which OR and AND factors send.

    A relay is a variable that is the output of exactly one OR or AND. It passes messages on within
    a sweep. If OR and AND factors form a cycle in which each output is an input of the next factor,
    one of these outputs is not made a relay, which cuts the cycle. Factors send messages to relays
    in the order of their levels.

    Parameters
    ----------
    graph : RelayGraph
    n : int, number of variables

    Returns
    -------
    relay : (n,) bool, True for relays
    level : (F - n_tables,) int64
        Length of the longest path to the factor from a variable that is not a relay. If the output
        of the factor is not a relay, the level is the number of factors.
    """
    variables, edge_start, n_tables = graph.variables, graph.edge_start, graph.n_tables
    n_logic = edge_start.shape[0] - 1 - n_tables
    gate = np.full(n, -1)  # index of the OR or AND with this output; -1: no factor, -2: several
    for f in range(n_tables, n_tables + n_logic):
        v = variables[edge_start[f + 1] - 1]
        gate[v] = f - n_tables if gate[v] == -1 else -2
    level = np.zeros(n_logic, np.int64)
    at = np.full(n_logic, -1)  # next edge to visit; -1: factor not visited yet
    stack = np.empty(n_logic, np.int64)
    for first in range(n_logic):
        if at[first] >= 0:
            continue
        depth = 0
        stack[0] = first
        at[first] = edge_start[n_tables + first]
        while depth >= 0:
            g = stack[depth]
            if at[g] == edge_start[n_tables + g + 1] - 1:  # all inputs have been visited
                at[g] += 1
                depth -= 1
                continue
            v = variables[at[g]]
            parent = gate[v]
            if parent < 0:
                at[g] += 1
            elif at[parent] < 0:
                depth += 1
                stack[depth] = parent
                at[parent] = edge_start[n_tables + parent]
            elif at[parent] < edge_start[n_tables + parent + 1]:  # parent is on the stack: a cycle
                gate[v] = -2
                at[g] += 1
            else:
                level[g] = max(level[g], level[parent] + 1)
                at[g] += 1
    for g in range(n_logic):
        if gate[variables[edge_start[n_tables + g + 1] - 1]] < 0:
            level[g] = n_logic
    return gate >= 0, level


@jit
def _cavity(v, message, limit, held, theta):
    """Return the log-odds that variable v sends to a factor: its belief minus `message`.

    `message` is the last message from the factor to v. A clamped variable sends ``limit`` or
    ``-limit``.
    """
    if held.shape[0] and held[v] >= 0:
        return (2.0 * held[v] - 1.0) * limit
    return theta[v] - message


@jit
def _within(x, limit):
    return min(max(x, -limit), limit)


@jit
def _relay_up(order, n_relays, graph, limit, held, theta, message):
    """Send the messages of OR and AND to relays, each computed from messages of this sweep.

    A relay is the output of one OR or AND factor. On input, the belief of the relay in `theta` does
    not include the message from this factor. The function adds the message to the belief.
    """
    variables, edge_start, negated = graph.variables, graph.edge_start, graph.negated
    one, two = np.uintp(1), np.uintp(2)
    for p in range(n_relays):
        f = order[p]
        start, stop = np.uintp(edge_start[f]), np.uintp(edge_start[f + 1] - 1)
        sign = -1.0 if negated[f] else 1.0
        if negated[f] and stop - start == two:
            a = _cavity(np.uintp(variables[start]), message[start], limit, held, theta)
            b = _cavity(np.uintp(variables[stop - one]), message[stop - one], limit, held, theta)
            new = _within(min(min(a, b), a + b), limit)
            message[stop] = new
            theta[np.uintp(variables[stop])] += new
            continue
        total, high = 0.0, -np.inf
        for e in range(start, stop):
            a = sign * _cavity(np.uintp(variables[e]), message[e], limit, held, theta)
            total += max(a, 0.0)
            high = max(high, a)
        new = sign * _within(total + min(0.0, high), limit)
        message[stop] = new
        theta[np.uintp(variables[stop])] += new


@jit
def _relay_down(
    order, n_relays, graph, relay, limit, held, damping, theta, message, after, cavity
):  # fmt: skip
    """Send the messages of OR and AND to their inputs, and add them to the beliefs `after`.

    The factors send in reverse order, so that an output has received its messages before its factor
    sends. Outputs that are not relays also get messages. Messages to relays are not damped. The
    sum over all inputs of a factor except i is computed as the sum over all inputs minus the term
    of i; in float64, this is as accurate as the sum itself.
    """
    variables, edge_start, negated = graph.variables, graph.edge_start, graph.negated
    keep = 1.0 - damping
    one, two = np.uintp(1), np.uintp(2)
    for back in range(order.shape[0]):
        p = order.shape[0] - 1 - back
        f = order[p]
        start, stop = np.uintp(edge_start[f]), np.uintp(edge_start[f + 1] - 1)
        if negated[f] and stop - start == two and p < n_relays:
            i, j = np.uintp(variables[start]), np.uintp(variables[start + one])
            a = _cavity(i, message[start], limit, held, theta)
            b = _cavity(j, message[start + one], limit, held, theta)
            c = _cavity(np.uintp(variables[stop]), 0.0, limit, held, after)
            to_i = _within(max(b + c, 0.0) - max(b, 0.0), limit)
            to_j = _within(max(a + c, 0.0) - max(a, 0.0), limit)
            if not relay[i]:
                to_i = damping * message[start] + keep * to_i
            if not relay[j]:
                to_j = damping * message[start + one] + keep * to_j
            message[start], message[start + one] = to_i, to_j
            after[i] += to_i
            after[j] += to_j
            continue
        sign = -1.0 if negated[f] else 1.0
        total, high, second = 0.0, -np.inf, -np.inf
        for e in range(start, stop):
            a = sign * _cavity(np.uintp(variables[e]), message[e], limit, held, theta)
            cavity[e - start] = a
            total += max(a, 0.0)
            second = max(second, min(a, high))
            high = max(a, high)
        out = np.uintp(variables[stop])
        if p < n_relays:
            b = sign * _cavity(out, 0.0, limit, held, after)
        else:
            b = sign * _cavity(out, message[stop], limit, held, theta)
            new = sign * _within(total + min(0.0, high), limit)
            message[stop] = damping * message[stop] + keep * new
            after[out] += message[stop]
        total += b
        for e in range(start, stop):
            v = np.uintp(variables[e])
            a = cavity[e - start]
            m = second if a == high else high
            new = sign * _within(min(total - max(a, 0.0), max(-m, 0.0)), limit)
            if not relay[v]:
                new = damping * message[e] + keep * new
            message[e] = new
            after[v] += new


@jit
def _send_table(logs, first, k, cavity, on, off):
    """For each variable j < k of a table, find the best score with j on, and with j off.

    The scores are written to `on` and `off`.
    """
    for j in range(k):
        on[j] = off[j] = -np.inf
    for state in range(1 << k):
        score = logs[first + state]
        for j in range(k):
            if (state >> (k - 1 - j)) & 1:
                score += cavity[j]
        for j in range(k):
            if (state >> (k - 1 - j)) & 1:
                on[j] = max(on[j], score)
            else:
                off[j] = max(off[j], score)


@jit
def _sweep_tables(last, graph, limit, held, damping, theta, message, after, work):
    """Send the messages of the tables 0 to last - 1, and add the messages to `after` (beliefs)."""
    variables, edge_start = graph.variables, graph.edge_start
    logs, table_start = graph.logs, graph.table_start
    cavity, on, off = work
    keep = 1.0 - damping
    for f in range(last):
        start = edge_start[f]
        k = edge_start[f + 1] - start
        for e in range(start, start + k):
            cavity[e - start] = _cavity(variables[e], message[e], limit, held, theta)
        _send_table(logs, table_start[f], k, cavity, on, off)
        for e in range(start, start + k):
            j = e - start
            new = 0.0  # stays 0 if both values are impossible
            if on[j] > -np.inf or off[j] > -np.inf:
                new = min(max(on[j] - off[j] - cavity[j], -limit), limit)
            message[e] = damping * message[e] + keep * new
            after[variables[e]] += message[e]


@jit
def pass_relays(
    graph, order, relay, field, held, limit, max_iter, damping, message, belief
):  # fmt: skip
    """Run max-product on K samples of a factor graph, one after the other, in float64.

    A sweep sends the messages of OR and AND factors to their outputs, then the messages of tables,
    then the messages of OR and AND to their inputs. Messages through a relay arrive within the
    sweep, undamped (Lazaro-Gredilla et al. 2021, section 5.6). All other messages are computed
    from the beliefs of the previous sweep.

    Parameters
    ----------
    graph : RelayGraph
    order : (F - n_tables,) int64, OR and AND factors, sorted by the level from `relay_order`
    relay : (n,) bool, True for relays, see `relay_order`
    field : (K, n), fields as log-odds
    held : (K or 0, n) int8, value 0 or 1 of a clamped variable, -1 if free; no rows if all are free
    limit : (K,), largest absolute value of a message of each sample
    max_iter : int, number of sweeps
    damping : float, share of the old message that is kept
    message : (K, E) in and out, log-odds factor -> variable
    belief : (K, n) output, log-odds after the last sweep; meaningless for clamped variables
    """
    variables, edge_start, n_tables = graph.variables, graph.edge_start, graph.n_tables
    longest = 0
    for f in range(edge_start.shape[0] - 1):
        longest = max(longest, edge_start[f + 1] - edge_start[f])
    work = np.empty(longest), np.empty(longest), np.empty(longest)
    n_relays = 0
    while n_relays < order.shape[0] and relay[variables[edge_start[order[n_relays] + 1] - 1]]:
        n_relays += 1
    n = field.shape[1]
    theta, after = np.empty(n), np.empty(n)
    none = np.empty(0, np.int8)
    for k in range(field.shape[0]):
        here = held[k] if held.shape[0] else none
        sent, most = message[k], limit[k]
        for v in range(n):
            theta[v] = field[k, v]
        for e in range(variables.shape[0]):
            theta[variables[e]] += sent[e]
        for p in range(n_relays):
            e = edge_start[order[p] + 1] - 1
            theta[variables[e]] -= sent[e]
        for _ in range(max_iter):
            for v in range(n):
                after[v] = field[k, v]
            _relay_up(order, n_relays, graph, most, here, theta, sent)
            _sweep_tables(n_tables, graph, most, here, damping, theta, sent, after, work)
            _relay_down(
                order, n_relays, graph, relay, most, here, damping, theta, sent, after, work[0]
            )
            theta, after = after, theta
        for p in range(n_relays):
            e = edge_start[order[p] + 1] - 1
            theta[variables[e]] += sent[e]
        for v in range(n):
            belief[k, v] = theta[v]
