"""Messages between two layers of categorical nodes, and gradients through the messages.

The vector loops run over the n rows of the batch, as SIMD lanes: a vector instruction processes
several rows (lanes) at once. The array of a node holds the n lanes of state 1, then the n lanes of
state 2, and so on. State 0 is the reference state, whose log-odds are always 0 and not stored. If
the batch has a single row, the loops run over the states. Edge e joins the nodes ``source[e]`` and
``target[e]`` with the scores ``table[pair[e]]``. A block is a group of successive edges that a
function processes in one call.

The message of an edge is (Shen et al. 2019, eqs. 20 and 22)

    m(y) = log sum_x c(x) K(x, y),   c = softmax(b - r),   K = exp(W / rho),

where W are the scores of the edge, rho is its weight, b is the belief of the source, r the message
in the other direction, and c the cavity distribution. The kernels get shifted tables ``K(x, y)
exp(-shift(y))``, whose values are in (0, 1]. So a message is the log of a matrix-vector product,
plus the shift, and takes no exponential per pair of states.
"""

from typing import NamedTuple

import numpy as np

from skcrbm.kernels.exponentials import exp_in_place, log_in_place
from skcrbm.kernels.jit import jit


class Edges(NamedTuple):
    """E edges between two layers, in one direction, from sources to targets.

    Sources have l states and targets k states. There are P pairs (table, weight of the messages).
    """

    table: np.ndarray  # (P, l, k - 1) shifted tables
    shift: np.ndarray  # (P, k - 1) shifts of the tables
    source: np.ndarray  # (E,) int, source of each edge
    target: np.ndarray  # (E,) int, target of each edge
    pair: np.ndarray  # (E,) int, table of each edge
    rho: np.ndarray  # (E,) weights of the messages


# Each of the next functions processes the block of the edges first to last - 1. A call for each
# edge would be slow, because a function call takes as long as the work on one edge. Scratch arrays
# hold the values of the edges of a block, one edge after the other.


@jit(fastmath={"contract"})
def _cavities(belief, reverse, source, first, last, cavity, lanes, n):
    """Set the cavity of each edge e to softmax(belief[source[e]] - reverse[e]).

    `cavity` has l n values per edge, for l states (state 0 first) and n rows.
    """
    n = np.uintp(n)
    width = np.uintp(belief.shape[1])
    size = width + n
    one = belief.dtype.type(1)
    start = np.uintp(0)
    for e in range(np.uintp(first), np.uintp(last)):
        i = np.uintp(source[e])
        for r in range(n):
            lanes[r] = 0
        for x in range(np.uintp(0), width, n):
            for r in range(n):
                value = belief[i, x + r] - reverse[e, x + r]
                cavity[start + n + x + r] = value
                lanes[r] = max(lanes[r], value)
        for r in range(n):
            cavity[start + r] = -lanes[r]
        for x in range(start + n, start + size, n):
            for r in range(n):
                cavity[x + r] -= lanes[r]
        start += size
    exp_in_place(cavity, start)
    for x0 in range(np.uintp(0), start, size):
        for r in range(n):
            lanes[r] = cavity[x0 + r]
        for x in range(x0 + n, x0 + size, n):
            for r in range(n):
                lanes[r] += cavity[x + r]
        for r in range(n):
            lanes[r] = one / lanes[r]
        for x in range(x0, x0 + size, n):
            for r in range(n):
                cavity[x + r] *= lanes[r]


@jit(fastmath={"contract"})
def _binary_cavities(belief, reverse, source, first, last, cavity, odds, n):
    """Do the same as `_cavities` for sources with two states, which need only one exponential."""
    n = np.uintp(n)
    one = belief.dtype.type(1)
    start = np.uintp(0)
    for e in range(np.uintp(first), np.uintp(last)):
        i = np.uintp(source[e])
        for r in range(n):
            odds[start + r] = -abs(belief[i, r] - reverse[e, r])
        start += n
    exp_in_place(odds, start)
    start = np.uintp(0)
    for e in range(np.uintp(first), np.uintp(last)):
        i = np.uintp(source[e])
        base = start + start
        for r in range(n):
            x = odds[start + r]
            large = one / (one + x)
            small = x * large
            on = belief[i, r] > reverse[e, r]
            cavity[base + r] = small if on else large
            cavity[base + n + r] = large if on else small
        start += n


@jit
def _fill_cavities(belief, reverse, source, first, last, cavity, spare, n):
    """Compute the cavities of a block of edges.

    `spare` is scratch space with at least n entries per edge.
    """
    if belief.shape[1] == n:
        _binary_cavities(belief, reverse, source, first, last, cavity, spare, n)
    else:
        _cavities(belief, reverse, source, first, last, cavity, spare, n)


@jit(fastmath={"contract"})
def _expect(table, pair, first, last, cavity, out, n):
    """For each edge, multiply the cavity (l n values) by the table (l, k - 1).

    `out` gets (k - 1) n values per edge, for the states 1 to k - 1 and n rows.
    """
    n = np.uintp(n)
    one = np.uintp(1)
    two = np.uintp(2)
    rows = np.uintp(table.shape[1])
    columns = np.uintp(table.shape[2])
    start = np.uintp(0)
    base = np.uintp(0)
    for e in range(np.uintp(first), np.uintp(last)):
        p = np.uintp(pair[e])
        if n < two:  # with a single row, loop over the states of the target
            for y in range(columns):
                out[start + y] = table[p, 0, y] * cavity[base]
            for x in range(one, rows):
                c = cavity[base + x]
                for y in range(columns):
                    out[start + y] += table[p, x, y] * c
            start += columns
            base += rows
            continue
        for y in range(columns):
            k0 = table[p, 0, y]
            if rows < two:  # the source has a single state, because the output has a single class
                for r in range(n):
                    out[start + r] = k0 * cavity[base + r]
                start += n
                continue
            k1 = table[p, 1, y]
            for r in range(n):
                out[start + r] = k0 * cavity[base + r] + k1 * cavity[base + n + r]
            x = two
            while x + two <= rows:
                k0 = table[p, x, y]
                k1 = table[p, x + one, y]
                c = base + x * n
                for r in range(n):
                    out[start + r] += k0 * cavity[c + r] + k1 * cavity[c + n + r]
                x += two
            if x < rows:
                k0 = table[p, x, y]
                c = base + x * n
                for r in range(n):
                    out[start + r] += k0 * cavity[c + r]
            start += n
        base += rows * n


@jit(fastmath={"contract"})
def _deliver(logs, shift, source, target, pair, rho, mask, first, last, out, total, n):
    """Set out[e] to ``(logs + shift) * mask``, and add ``rho * out[e]`` to total[target]."""
    n = np.uintp(n)
    start = np.uintp(0)
    for e in range(np.uintp(first), np.uintp(last)):
        i = np.uintp(source[e])
        j = np.uintp(target[e])
        p = np.uintp(pair[e])
        factor = rho[e]
        for y in range(np.uintp(shift.shape[1])):
            s = shift[p, y]
            x = y * n
            if mask.shape[0] > 0:
                for r in range(n):
                    logs[start + r] = (logs[start + r] + s) * mask[i, r]
                s = shift.dtype.type(0)
            for r in range(n):
                value = logs[start + r] + s
                out[e, x + r] = value
                total[j, x + r] += factor * value
            start += n


@jit
def _block_size(n_left, n_right, n):
    """Return the number of edges per block, so that the scratch space fits into the L1 cache.

    An edge has ``(n_left + n_right) * n`` values in the scratch space.
    """
    return max(1, 4096 // max(1, (n_left + n_right) * n))


@jit
def send(belief, reverse, edges, mask, out, total):
    """Compute the messages of all edges in one direction.

    Parameters
    ----------
    belief : (n_sources, (l - 1) n), log-odds of the states of the sources in n rows
    reverse : (E, (l - 1) n) messages in the other direction; a cavity is computed from the belief
        of the source minus this message
    edges : Edges
    mask : (n_sources, n), 1 for sources that send messages and 0 for observed sources, which send
        no message; (0, n) if all sources send messages
    out : (E, (k - 1) n) output, the messages
    total : (n_targets, (k - 1) n) output, to which ``rho * message`` is added
    """
    table, shift, source, target, pair, rho = edges
    n = mask.shape[1]
    l, k = table.shape[1], table.shape[2]
    block = _block_size(l, k, n)
    cavity = np.empty(block * l * n, belief.dtype)
    logs = np.empty(block * max(k, 1) * n, belief.dtype)
    n_edges = source.shape[0]
    for first in range(0, n_edges, block):
        last = min(first + block, n_edges)
        _fill_cavities(belief, reverse, source, first, last, cavity, logs, n)
        _expect(table, pair, first, last, cavity, logs, n)
        log_in_place(logs, (last - first) * k * n)
        _deliver(logs, shift, source, target, pair, rho, mask, first, last, out, total, n)


@jit(fastmath={"contract"})
def _incoming(d_total, direct, source, target, rho, mask, first, last, d, sums, n):
    """Set `d` to the gradients with respect to the messages, and `sums` to sums of these gradients.

    `d` has (k - 1) n values per edge. The sums run over the states of the target.
    """
    n = np.uintp(n)
    width = np.uintp(d_total.shape[1])
    start = np.uintp(0)
    s = np.uintp(0)
    for e in range(np.uintp(first), np.uintp(last)):
        i = np.uintp(source[e])
        j = np.uintp(target[e])
        factor = rho[e]
        for r in range(n):
            sums[s + r] = 0
        for x in range(np.uintp(0), width, n):
            for r in range(n):
                d[start + r] = factor * d_total[j, x + r]
            if direct.shape[0] > 0:
                for r in range(n):
                    d[start + r] += direct[e, x + r]
            if mask.shape[0] > 0:
                for r in range(n):
                    d[start + r] *= mask[i, r]
            for r in range(n):
                sums[s + r] += d[start + r]
            start += n
        s += n


@jit(fastmath={"contract"})
def _over_sums(d, shift, pair, first, last, out, ratio, n):
    """Divide the gradients `d` by exp(out[e] - shift), because a message is a logarithm."""
    n = np.uintp(n)
    start = np.uintp(0)
    for e in range(np.uintp(first), np.uintp(last)):
        p = np.uintp(pair[e])
        for y in range(np.uintp(shift.shape[1])):
            s = shift[p, y]
            x = y * n
            for r in range(n):
                ratio[start + r] = s - out[e, x + r]
            start += n
    exp_in_place(ratio, start)
    for m in range(start):
        d[m] *= ratio[m]


@jit(fastmath={"contract", "reassoc"})
def _to_source(table, source, pair, first, last, cavity, d, sums, d_belief, d_reverse, back, n):
    """From the gradients `d`, compute the gradients with respect to beliefs and reverse messages.

    The gradients with respect to beliefs are added to `d_belief`, and `d_reverse` is set.
    """
    n = np.uintp(n)
    one = np.uintp(1)
    columns = np.uintp(table.shape[2])
    start = np.uintp(0)
    base = np.uintp(0)
    s = np.uintp(0)
    for e in range(np.uintp(first), np.uintp(last)):
        i = np.uintp(source[e])
        p = np.uintp(pair[e])
        for x in range(one, np.uintp(table.shape[1])):
            if n <= one:
                value = -sums[s]
                for y in range(columns):
                    value += table[p, x, y] * d[start + y]
                value *= cavity[base + x]
                d_belief[i, x - one] += value
                d_reverse[e, x - one] = -value
                continue
            for r in range(n):
                back[r] = -sums[s + r]
            for y in range(columns):
                k = table[p, x, y]
                m = start + y * n
                for r in range(n):
                    back[r] += k * d[m + r]
            c = base + x * n
            o = (x - one) * n
            for r in range(n):
                value = cavity[c + r] * back[r]
                d_belief[i, o + r] += value
                d_reverse[e, o + r] = -value
        start += columns * n
        base += np.uintp(table.shape[1]) * n
        s += n


@jit(fastmath={"contract", "reassoc"})
def _to_table(cavity, d, pair, first, last, d_table, n):
    """Add ``cavity * d``, summed over the lanes, to `d_table` for the table of each edge.

    `d_table` has no row for state 0 of the source.
    """
    n = np.uintp(n)
    one = np.uintp(1)
    columns = np.uintp(d_table.shape[2])
    start = np.uintp(0)
    base = np.uintp(0)
    for e in range(np.uintp(first), np.uintp(last)):
        p = np.uintp(pair[e])
        for x in range(np.uintp(d_table.shape[1])):
            c = base + (x + one) * n
            if n <= one:
                for y in range(columns):
                    d_table[p, x, y] += cavity[c] * d[start + y]
                continue
            for y in range(columns):
                m = start + y * n
                value = d.dtype.type(0)
                for r in range(n):
                    value += cavity[c + r] * d[m + r]
                d_table[p, x, y] += value
        start += columns * n
        base += (np.uintp(d_table.shape[1]) + one) * n


@jit
def send_vjp(
    belief, reverse, edges, mask, out, d_total, direct, d_belief, d_reverse, d_table
):  # fmt: skip
    """Compute the gradients through `send` (vector-Jacobian product).

    Parameters
    ----------
    belief, reverse, edges, mask, out : see `send`
    d_total : gradient of `total`, of the same shape
    direct : gradient with respect to the messages `out` for fixed `total`, of the shape of `out`;
        (0, 0) if this gradient is 0
    d_belief : output of the shape of `belief`, to which the gradient is added
    d_reverse : output of the shape of `reverse`, which is set
    d_table : (P, l - 1, k - 1) output
        The gradient with respect to W / rho, divided by the shifted table, is added to this array.
    """
    table, shift, source, target, pair, rho = edges
    n = mask.shape[1]
    l, k = table.shape[1], table.shape[2]
    block = _block_size(l, 2 * k + 1, n)
    cavity = np.empty(block * l * n, belief.dtype)
    back = np.empty(n, belief.dtype)
    sums = np.empty(block * n, belief.dtype)
    d = np.empty(block * max(k, 1) * n, belief.dtype)
    ratio = np.empty(block * max(k, 1) * n, belief.dtype)
    n_edges = source.shape[0]
    for first in range(0, n_edges, block):
        last = min(first + block, n_edges)
        _fill_cavities(belief, reverse, source, first, last, cavity, ratio, n)
        _incoming(d_total, direct, source, target, rho, mask, first, last, d, sums, n)
        _over_sums(d, shift, pair, first, last, out, ratio, n)
        _to_source(table, source, pair, first, last, cavity, d, sums, d_belief, d_reverse, back, n)
        _to_table(cavity, d, pair, first, last, d_table, n)


@jit
def send_max(belief, reverse, weights, source, target, pair, mask, out, total):
    """Compute max-product messages, ``max_x (W + b - r) - max_x (b - r)``.

    `weights` (P, l, k - 1) are the scores W; row 0 is 0. The other arguments are as in `send`.
    """
    n = np.uintp(mask.shape[1])
    for edge in range(source.shape[0]):
        e = np.uintp(edge)
        i = np.uintp(source[e])
        j = np.uintp(target[e])
        p = np.uintp(pair[e])
        for y in range(np.uintp(weights.shape[2])):
            for r in range(n):
                best = belief.dtype.type(0)
                plain = belief.dtype.type(0)
                for x in range(np.uintp(weights.shape[1] - 1)):
                    value = belief[i, x * n + r] - reverse[e, x * n + r]
                    plain = max(plain, value)
                    best = max(best, value + weights[p, x + np.uintp(1), y])
                value = best - plain
                if mask.shape[0] > 0:
                    value *= mask[i, r]
                out[e, y * n + r] = value
                total[j, y * n + r] += value


@jit(fastmath={"contract"})
def expected_fields(mean, weights, source, target, table, total):
    """Add ``sum_x P(x) W(x, y)`` of each edge to `total`, for mean field and for observed inputs.

    Parameters
    ----------
    mean : (n_sources, (l - 1) n) probabilities of states 1 to l - 1
    weights : (P, l - 1, k - 1), tables of pairwise scores W, without state 0
    source, target, table : (E,) int, source, target and table of each edge
    total : (n_targets, (k - 1) n) output, to which the sums are added
    """
    n = np.uintp(mean.shape[1] // max(weights.shape[1], 1))
    for edge in range(source.shape[0]):
        i = np.uintp(source[edge])
        j = np.uintp(target[edge])
        p = np.uintp(table[edge])
        for y in range(np.uintp(weights.shape[2])):
            start = y * n
            for x in range(np.uintp(weights.shape[1])):
                w = weights[p, x, y]
                first = x * n
                for r in range(n):
                    total[j, start + r] += w * mean[i, first + r]


@jit(fastmath={"contract", "reassoc"})
def expected_fields_vjp(mean, weights, source, target, table, d_total, d_mean, d_weights):
    """Add the gradients through `expected_fields` to `d_mean` and `d_weights`.

    If `d_mean` has no rows, only `d_weights` is computed.
    """
    n = np.uintp(mean.shape[1] // max(weights.shape[1], 1))
    for edge in range(source.shape[0]):
        i = np.uintp(source[edge])
        j = np.uintp(target[edge])
        p = np.uintp(table[edge])
        for x in range(np.uintp(weights.shape[1])):
            first = x * n
            for y in range(np.uintp(weights.shape[2])):
                start = y * n
                w = weights[p, x, y]
                value = mean.dtype.type(0)
                for r in range(n):
                    value += mean[i, first + r] * d_total[j, start + r]
                d_weights[p, x, y] += value
                if d_mean.shape[0] > 0:
                    for r in range(n):
                        d_mean[i, first + r] += w * d_total[j, start + r]
