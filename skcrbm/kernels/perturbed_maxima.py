"""Max-product for a fixed number of sweeps: damped, all messages from the old ones.

What perturb-and-max-product runs on models whose fields differ from sample to sample
(Lazaro-Gredilla et al. 2021). There is no test of convergence, no score on the way, and no
exponential or logarithm. On pairs of -1/+1 variables, with messages and beliefs as half log-odds,

    c = theta_i - n_{k->i},     n_{i->k} = (|c + s_ik| - |c - s_ik|) / 2,

all in absolute values, which the compiler turns into vector code. An RBM is the same with units
of -1/+1: couplings w / 4, and fields ``b / 2 + sum_j w_ij / 4``.

`pass_pairs` takes couplings as a matrix, either one between two layers (an RBM) or the upper
triangle of a symmetric one (a dense Ising model). Both messages of an edge stand at the same
place of two matrices, so there is nothing to transpose. `pass_edges` takes a list of edges;
the innermost loops run over samples, as SIMD lanes. `pass_factors` takes tables, OR and AND in
log-odds of 0/1 variables, for what does not fit the odds of `factor_tables`.

Nothing here depends on how many samples are in an array.
"""

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import copy_lanes


@jit(fastmath={"contract"})
def _exchange(coupling, i, first, n, shift, theta_i, theta, damping, half, down, up, after):
    """Replace both messages between row i and columns first to n - 1; add those down to `after`."""
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
    """Sum of up[i, first:n], in a loop that only loads (see the architecture page)."""
    total = up.dtype.type(0)
    for j in range(first, n):
        total += up[i, j]
    return total


@jit
def _add_column(i, first, n, shift, down, after):
    """Add the messages from row i to columns first to n - 1 to `after`."""
    for j in range(first, n):
        after[shift + j] += down[i, j]


@jit
def _first_messages(coupling, start, warm, message):
    """Fill message (2, R, C) with start times the coupling; warm: 0 where nothing is coupled."""
    for side in range(np.uintp(2)):
        for i in range(np.uintp(coupling.shape[0])):
            for j in range(np.uintp(coupling.shape[1])):
                if not warm:
                    message[side, i, j] = start * coupling[i, j]
                elif coupling[i, j] == 0:
                    message[side, i, j] = 0


@jit
def pass_pairs(coupling, triangle, field, start, warm, max_iter, damping, message, belief):
    """Max-product on models whose couplings are a matrix, one sample after the other.

    Parameters
    ----------
    coupling : (R, C)
        Between two layers, or symmetric: then (L, L), of which the upper triangle is read.
    triangle : bool
        Whether it is symmetric.
    field : (K, R + C) or (K, L)
        Half log-odds of each sample; rows first.
    start : float
        First messages, as a multiple of the coupling.
    warm : bool
        Whether to go on from `message` in place of that.
    max_iter : int
    damping : float in the dtype of the others
        Share of the old messages that is kept.
    message : (K or 1, 2, R, C) in and out
        Half log-odds, row -> column and column -> row; a single one is used by all samples.
    belief : (K, R + C) or (K, L) output
        Half log-odds after the last sweep.
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


# Edges in a list: the last axis of all arrays are the samples, as SIMD lanes.


@jit(fastmath={"contract"})
def _exchange_lanes(s, i, k, a, b, damping, half, theta, message, n_lanes):
    """Replace the messages a (to i) and b (to k) of an edge of coupling s."""
    for l in range(n_lanes):
        x = theta[k, l] - message[b, l]
        y = theta[i, l] - message[a, l]
        message[a, l] = damping * message[a, l] + half * (abs(x + s) - abs(x - s))
        message[b, l] = damping * message[b, l] + half * (abs(y + s) - abs(y - s))


@jit
def _add_lanes(row, message, v, after, n_lanes):
    """Add a row of message to row v of `after`."""
    for l in range(n_lanes):
        after[v, l] += message[row, l]


@jit
def _add_all_lanes(edges, message, after, n_lanes):
    """Add all messages to `after` (n, lanes)."""
    for e in range(np.uintp(edges.shape[0])):
        for side in range(np.uintp(2)):
            _add_lanes(np.uintp(2) * e + side, message, np.uintp(edges[e, side]), after, n_lanes)


@jit
def pass_edges(edges, coupling, field, max_iter, damping, message, theta):
    """Max-product on an Ising model over a sparse graph, samples side by side.

    Parameters
    ----------
    edges : (E, 2) int64
    coupling : (E,)
    field : (n, lanes)
        Half log-odds.
    max_iter : int
    damping : float in the dtype of the others
    message : (2 E, lanes) in and out
        Half log-odds; ``message[2 e]`` goes to the first variable of edge e, ``message[2 e + 1]``
        to the second one.
    theta : (n, lanes) output
        Half log-odds of the beliefs after the last sweep.
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


# Factors one after the other, in logs.


@jit
def _and_of_two(a, b, c, limit):
    """Log-odds to both inputs and the output of an AND, of those that they send: a, b and c."""
    to_a = max(b + c, 0.0) - max(b, 0.0)
    to_b = max(a + c, 0.0) - max(a, 0.0)
    to_c = min(a, b, a + b)
    return (
        min(max(to_a, -limit), limit),
        min(max(to_b, -limit), limit),
        min(max(to_c, -limit), limit),
    )


@jit
def _sweep_ands_of_two(first, last, graph, limit, held, damping, theta, message, after):
    """Send the messages of factors first to last - 1, ANDs of two; add them to `after`."""
    variables, edge_start = graph[0], graph[1]
    keep = 1.0 - damping
    one, two, three = np.uintp(1), np.uintp(2), np.uintp(3)
    e = np.uintp(edge_start[first])
    for _ in range(first, last):
        i, j, k = np.uintp(variables[e]), np.uintp(variables[e + one]), np.uintp(variables[e + two])
        a = theta[i] - message[e]
        b = theta[j] - message[e + one]
        c = theta[k] - message[e + two]
        if held.shape[0]:
            a = a if held[i] < 0 else (2.0 * held[i] - 1.0) * limit
            b = b if held[j] < 0 else (2.0 * held[j] - 1.0) * limit
            c = c if held[k] < 0 else (2.0 * held[k] - 1.0) * limit
        a, b, c = _and_of_two(a, b, c, limit)
        a = damping * message[e] + keep * a
        b = damping * message[e + one] + keep * b
        c = damping * message[e + two] + keep * c
        message[e], message[e + one], message[e + two] = a, b, c
        after[i] += a
        after[j] += b
        after[k] += c
        e += three


@jit
def _sweep_logic(first, last, graph, limit, held, damping, theta, message, after, cavity):
    """Send the messages of factors first to last - 1, OR and AND; add them to `after`.

    The formulas are those of `factor_logs`. Sums over all inputs but one are differences, which
    in float64 are off by no more than the sum of all messages is.
    """
    variables, edge_start, negated = graph[0], graph[1], graph[6]
    keep = 1.0 - damping
    for f in range(first, last):
        start, stop = edge_start[f], np.uintp(edge_start[f + 1] - 1)
        sign = -1.0 if negated[f] else 1.0
        total, high, second = 0.0, -np.inf, -np.inf
        for e in range(np.uintp(start), stop):
            v = np.uintp(variables[e])
            a = sign * (theta[v] - message[e])
            if held.shape[0] and held[v] >= 0:
                a = sign * (2.0 * held[v] - 1.0) * limit
            cavity[e - np.uintp(start)] = a
            total += max(a, 0.0)
            second = max(second, min(a, high))
            high = max(a, high)
        v = np.uintp(variables[stop])
        b = sign * (theta[v] - message[stop])
        if held.shape[0] and held[v] >= 0:
            b = sign * (2.0 * held[v] - 1.0) * limit
        new = sign * min(max(total + min(0.0, high), -limit), limit)
        new = damping * message[stop] + keep * new
        message[stop] = new
        after[v] += new
        total += b
        for e in range(np.uintp(start), stop):
            v = np.uintp(variables[e])
            a = cavity[e - np.uintp(start)]
            m = second if a == high else high
            new = min(total - max(a, 0.0), max(-m, 0.0))
            new = damping * message[e] + keep * sign * min(max(new, -limit), limit)
            message[e] = new
            after[v] += new


@jit
def _send_table(logs, first, k, cavity, on, off):
    """Fill on and off (k,) with the best score of a table of k variables with each at 1 and 0."""
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
    """Send the messages of the first tables up to last - 1; add them to `after`."""
    variables, edge_start, logs, table_start = graph[0], graph[1], graph[3], graph[4]
    cavity, on, off = work
    keep = 1.0 - damping
    for f in range(last):
        start = edge_start[f]
        k = edge_start[f + 1] - start
        for e in range(start, start + k):
            v = variables[e]
            cavity[e - start] = theta[v] - message[e]
            if held.shape[0] and held[v] >= 0:
                cavity[e - start] = (2.0 * held[v] - 1.0) * limit
        _send_table(logs, table_start[f], k, cavity, on, off)
        for e in range(start, start + k):
            j = e - start
            new = 0.0  # neither value is possible
            if on[j] > -np.inf or off[j] > -np.inf:
                new = min(max(on[j] - off[j] - cavity[j], -limit), limit)
            message[e] = damping * message[e] + keep * new
            after[variables[e]] += message[e]


@jit
def pass_factors(graph, field, held, limit, max_iter, damping, message, belief):
    """Max-product on a factor graph, one sample after the other, in float64.

    Parameters
    ----------
    graph : tuple, see `factor_logs.send_factor`
        Tables first, ANDs last.
    field : (K, n)
        Log-odds.
    held : (K or 0, n) int8
        0 or 1, -1 where free; no rows where nothing is held.
    limit : (K,)
        Bounds of the messages.
    max_iter : int
    damping : float
    message : (K, E) in and out
        Log-odds factor -> variable.
    belief : (K, n) output
        Log-odds after the last sweep; of no meaning where held.
    """
    variables, edge_start, n_tables, negated = graph[0], graph[1], graph[5], graph[6]
    n_factors = edge_start.shape[0] - 1
    pairs = n_factors  # from here on all are ANDs of two
    while (
        pairs > n_tables and negated[pairs - 1] and edge_start[pairs] - edge_start[pairs - 1] == 3
    ):
        pairs -= 1
    longest = 0
    for f in range(n_factors):
        longest = max(longest, edge_start[f + 1] - edge_start[f])
    work = np.empty(longest), np.empty(longest), np.empty(longest)
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
        for _ in range(max_iter):
            for v in range(n):
                after[v] = field[k, v]
            _sweep_tables(n_tables, graph, most, here, damping, theta, sent, after, work)
            _sweep_logic(n_tables, pairs, graph, most, here, damping, theta, sent, after, work[0])
            _sweep_ands_of_two(pairs, n_factors, graph, most, here, damping, theta, sent, after)
            theta, after = after, theta
        for v in range(n):
            belief[k, v] = theta[v]
