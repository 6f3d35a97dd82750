"""Message passing on table factors with messages as odds, for many models at once.

A block is a group of models that a kernel processes together. The innermost loops run over the
models of a block, as SIMD lanes: the models lie side by side on the last axis of the arrays, and a
vector instruction processes several of them at once.

The message m from a factor to a variable is stored as the odds R = m(1) / m(0). Let ``on : off`` be
the belief of a variable: its field times all messages to the variable. The variable sends
``on : R off`` to the factor, scaled to the sum 1, which takes a division. The message from the
factor is the ratio of two sums over its table, which takes another division.

The k variables of a table are divided into two halves. Summing out the variables of the first half,
weighted by their messages, leaves a small table of the second half. The message to a variable of
the second half is computed from this small table, by summing out the other variables. The messages
to the first half are computed in the same way. The messages to all k variables take about 3 * 2^k
multiplications and additions.

The kernel `categorical_weights` computes the same answers for variables with two states. On a
lattice of 30 x 30 variables it takes 1.6 times as long (one model) or 1.7 times as long (16
models), although its sweeps need fewer iterations.

A clamped variable has the field ``1 : 0`` or ``0 : 1``, which needs no special code because all
entries of the tables are positive. `factor_logs` processes tables with zeros.
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.lanes import (
    copy_lanes,
    drop_converged,
    keep_better_states,
    lane_changes,
    lane_log_odds,
    lane_probabilities,
    start_beliefs,
)
from skcrbm.kernels.scalar import SUM, fill

# Numbers of rows of scratch arrays: the 2 values of each of at most 6 variables, and the 2^3
# entries of a table of 3 variables.
_N_VALUES, _N_HALF = 12, 8
# The inner loops run over models. A loop over fewer models than this number is inefficient, because
# its fixed cost dominates. Several factors are then processed together in one loop.
_WIDTH = 64


class TableGraph(NamedTuple):
    """F tables with E edges, as flat arrays. Each variable of a table is an edge."""

    variables: np.ndarray  # (E,) int64, variable of each edge
    # (F + 1,) int64: factor f has the edges edge_start[f]:edge_start[f + 1], 1 to 6 edges
    edge_start: np.ndarray
    # (n_entries,) positive weights of order 1 at most; the first variable changes slowest
    table: np.ndarray
    table_start: np.ndarray  # (F + 1,) int64, first entry of each table


class Work(NamedTuple):
    """Scratch arrays of `sweep_tables`, allocated by `work_arrays`."""

    value: np.ndarray
    left: np.ndarray
    right: np.ndarray
    half: np.ndarray
    spare: np.ndarray
    sent: np.ndarray
    wide: np.ndarray


@jit(fastmath={"contract"})
def _values(message, e, on, off, v, value, j, shift, n_lanes, one):
    """Write the weights of 0 and 1 that variable v sends to its factor to value[2 j:2 j + 2].

    Variable v has the position j among the variables of the factor, and e is the edge between
    variable and factor. The lanes are written from index `shift` on.
    """
    first, second = np.uintp(2 * j), np.uintp(2 * j + 1)
    for l in range(n_lanes):
        yes = on[v, l]
        no = message[e, l] * off[v, l]
        scale = one / (yes + no)
        value[first, shift + l] = no * scale
        value[second, shift + l] = yes * scale


@jit
def _spread(table, first, size, shift, wide, n_lanes):
    """Copy entry i of a table to wide[i, shift:shift + n_lanes], for all entries."""
    for row in range(np.uintp(size)):
        t = table[first + np.int64(row)]
        for l in range(n_lanes):
            wide[row, shift + l] = t


@jit
def _copy_rows(source, first, n, target, n_lanes):
    for row in range(np.uintp(n)):
        for l in range(n_lanes):
            target[row, l] = source[first + row, l]


@jit
def _outer(value, j, product, n, out, n_lanes):
    """Multiply the n rows of `product` by each of the two values of variable j.

    The 2 n rows of `out` get the results. The value of variable j alternates: it is 0 in even rows
    and 1 in odd rows.
    """
    first, second = np.uintp(2 * j), np.uintp(2 * j + 1)
    for row in range(np.uintp(n)):
        to = np.uintp(2) * row
        for l in range(n_lanes):
            out[to, l] = product[row, l] * value[first, l]
        to += np.uintp(1)
        for l in range(n_lanes):
            out[to, l] = product[row, l] * value[second, l]


@jit
def _half_products(value, j, h, product, spare, n_lanes):
    """Set `product` (2^h rows) to the products of the values of the variables j to j + h - 1."""
    if h == 2:
        _copy_rows(value, np.uintp(2 * j), 2, spare, n_lanes)
        _outer(value, j + 1, spare, 2, product, n_lanes)
        return
    _copy_rows(value, np.uintp(2 * j), 2, product, n_lanes)
    if h == 3:
        _outer(value, j + 1, product, 2, spare, n_lanes)
        _outer(value, j + 2, spare, 4, product, n_lanes)


@jit(fastmath={"contract"})
def _contract(kind, table, first, step, product, n, out, row, n_lanes):
    """Set out[row] to the sum or maximum over i < n of table[first + i step] * product[i]."""
    a, b = table[first], table[first + step]
    zero, one = np.uintp(0), np.uintp(1)
    if kind == SUM:
        for l in range(n_lanes):
            out[row, l] = a * product[zero, l] + b * product[one, l]
        for i in range(np.uintp(2), np.uintp(n), np.uintp(2)):
            first += 2 * step
            a, b = table[first], table[first + step]
            for l in range(n_lanes):
                out[row, l] += a * product[i, l] + b * product[i + one, l]
        return
    for l in range(n_lanes):
        out[row, l] = max(a * product[zero, l], b * product[one, l])
    for i in range(np.uintp(2), np.uintp(n), np.uintp(2)):
        first += 2 * step
        a, b = table[first], table[first + step]
        for l in range(n_lanes):
            out[row, l] = max(out[row, l], max(a * product[i, l], b * product[i + one, l]))


@jit(fastmath={"contract"})
def _contract_wide(kind, wide, first, step, product, n, out, row, n_lanes):
    """Do the same as `_contract`, for tables that differ from lane to lane."""
    first, step, zero, one = np.uintp(first), np.uintp(step), np.uintp(0), np.uintp(1)
    if kind == SUM:
        for l in range(n_lanes):
            out[row, l] = (
                wide[first, l] * product[zero, l] + wide[first + step, l] * product[one, l]
            )
        for i in range(np.uintp(2), np.uintp(n), np.uintp(2)):
            a = first + i * step
            for l in range(n_lanes):
                out[row, l] += wide[a, l] * product[i, l] + wide[a + step, l] * product[i + one, l]
        return
    for l in range(n_lanes):
        out[row, l] = max(
            wide[first, l] * product[zero, l], wide[first + step, l] * product[one, l]
        )
    for i in range(np.uintp(2), np.uintp(n), np.uintp(2)):
        a = first + i * step
        for l in range(n_lanes):
            other = max(wide[a, l] * product[i, l], wide[a + step, l] * product[i + one, l])
            out[row, l] = max(out[row, l], other)


@jit(fastmath={"contract"})
def _fold(kind, half, value, j, step, out, n_lanes):
    """Sum variable j out of a table of three variables, or maximise over the variable.

    `half` (8 rows) is the table, and `out` (4 rows) the result. The rows of `half` for the two
    values of variable j are `step` rows apart, 1 or 4.
    """
    first, second = np.uintp(2 * j), np.uintp(2 * j + 1)
    # The number of rows is read from the array. If it were a constant, the compiler would unroll
    # the loop, and compiling would take long.
    for row in range(np.uintp(half.shape[0] >> 1)):
        a = row if step == 4 else np.uintp(2) * row
        b = a + np.uintp(step)
        if kind == SUM:
            for l in range(n_lanes):
                out[row, l] = half[a, l] * value[first, l] + half[b, l] * value[second, l]
        else:
            for l in range(n_lanes):
                out[row, l] = max(half[a, l] * value[first, l], half[b, l] * value[second, l])


@jit
def _store(halved, message, e, k, sent, n_factors, n_lanes):
    """Store the messages `sent` of several factors at the edges e, e + k, e + 2k, ...

    If `halved` is True, the geometric mean of the old and the new message is stored.
    """
    zero = np.uintp(0)
    for q in range(n_factors):
        shift = q * n_lanes
        if halved:
            for l in range(n_lanes):
                message[e, l] = math.sqrt(message[e, l]) * math.sqrt(sent[zero, shift + l])
        else:
            for l in range(n_lanes):
                message[e, l] = sent[zero, shift + l]
        e += k


@jit
def _ratio(half, a, b, sent, n_lanes):
    """Write the odds ``half[b] / half[a]`` to `sent`."""
    zero = np.uintp(0)
    for l in range(n_lanes):
        sent[zero, l] = half[b, l] / half[a, l]


@jit(fastmath={"contract"})
def _ratio_of_two(kind, half, step, other_step, value, j, sent, n_lanes):
    """Compute the message, as odds, from a table of two variables to one of its variables.

    The message is written to `sent`. The sum (or maximum) runs over the two values of the other
    variable j. In `half`, the rows for the values of variable j are `other_step` apart, and the
    rows for the values of the receiving variable are `step` apart.
    """
    zero, first, second = np.uintp(0), np.uintp(2 * j), np.uintp(2 * j + 1)
    b, c = np.uintp(other_step), np.uintp(step)
    d = b + c
    if kind == SUM:
        for l in range(n_lanes):
            x, y = value[first, l], value[second, l]
            sent[zero, l] = (half[c, l] * x + half[d, l] * y) / (half[zero, l] * x + half[b, l] * y)
    else:
        for l in range(n_lanes):
            x, y = value[first, l], value[second, l]
            yes, no = max(half[c, l] * x, half[d, l] * y), max(half[zero, l] * x, half[b, l] * y)
            sent[zero, l] = yes / no


@jit
def _send_half(kind, halved, half, h, j, e, k, value, scratch, message, n_factors, n_lanes):
    """Send the messages to the variables j to j + h - 1 of several factors, from the tables `half`.

    The variables of the other half have been summed out of these tables. In the first factor, e is
    the edge of variable j. Each factor has k edges.
    """
    spare, sent = scratch
    one, width = np.uintp(1), n_factors * n_lanes
    if h == 1:
        _ratio(half, np.uintp(0), one, sent, width)
        _store(halved, message, e, k, sent, n_factors, n_lanes)
        return
    table = half
    if h == 3:
        _fold(kind, half, value, j + 2, 1, spare, width)
        table = spare
    _ratio_of_two(kind, table, 2, 1, value, j + 1, sent, width)
    _store(halved, message, e, k, sent, n_factors, n_lanes)
    _ratio_of_two(kind, table, 1, 2, value, j, sent, width)
    _store(halved, message, e + one, k, sent, n_factors, n_lanes)
    if h == 3:
        _fold(kind, half, value, j, 4, spare, width)
        _ratio_of_two(kind, spare, 1, 2, value, j + 1, sent, width)
        _store(halved, message, e + one + one, k, sent, n_factors, n_lanes)


@jit
def _multiply(variables, first, last, message, belief, n_lanes):
    """Multiply the beliefs of variables by the messages of the edges first to last - 1."""
    for e in range(np.uintp(first), np.uintp(last)):
        v = np.uintp(variables[e])
        for l in range(n_lanes):
            belief[v, l] *= message[e, l]


@jit
def form_beliefs(variables, on, message, belief, n_lanes):
    """Set the belief of each variable, as odds, to its field times all messages to the variable."""
    copy_lanes(on, belief, n_lanes)
    _multiply(variables, 0, variables.shape[0], message, belief, n_lanes)


@jit
def sweep_tables(kind, halved, graph, on, off, message, belief, work, n_lanes):
    """Send all messages factor -> variable once, computed from the old beliefs.

    Parameters
    ----------
    kind : SUM or MAX
    halved : bool, True to damp by 1/2: store the geometric mean of the old and the new message
    graph : TableGraph
    on, off : (n, lanes) beliefs, as weights that need not sum to 1
    message : (E, lanes) in and out
    belief : (n, lanes) in: fields; out: fields times new messages. Both are weights of the value 1
        relative to the weights `off` of the value 0
    work : Work
    n_lanes : uintp, number of lanes to work on
    """
    variables, edge_start, table, table_start = graph
    value, left, right, half, spare, sent, wide = work
    scratch = spare, sent
    one = table.dtype.type(1)
    n_all, f = edge_start.shape[0] - 1, 0
    while f < n_all:
        # Process several factors of the same size together, as many as are needed to fill the
        # lanes.
        start, first = edge_start[f], table_start[f]
        k = edge_start[f + 1] - start
        last, most = f + 1, max(1, sent.shape[1] // max(1, np.int64(n_lanes)))
        while last < n_all and last - f < most and edge_start[last + 1] - edge_start[last] == k:
            last += 1
        n_factors, per, e = np.uintp(last - f), np.uintp(k), np.uintp(start)
        width = n_factors * n_lanes
        h = k // 2
        n_left, n_right = 1 << h, 1 << (k - h)
        if last - f > 1 or k == 1:
            for q in range(n_factors):
                at = first + (np.int64(q) << k)
                _spread(table, at, 1 << k, q * n_lanes, wide, n_lanes)
        if k == 1:
            _ratio(wide, np.uintp(0), np.uintp(1), sent, width)
            _store(halved, message, e, per, sent, n_factors, n_lanes)
        else:
            for q in range(n_factors):
                for j in range(per):
                    edge = e + q * per + j
                    v = np.uintp(variables[edge])
                    _values(message, edge, on, off, v, value, j, q * n_lanes, n_lanes, one)
            _half_products(value, 0, h, left, spare, width)
            _half_products(value, h, k - h, right, spare, width)
            for i in range(n_left):
                at, row = i * n_right, np.uintp(i)
                if last - f > 1:
                    _contract_wide(kind, wide, at, 1, right, n_right, half, row, width)
                else:
                    _contract(kind, table, first + at, 1, right, n_right, half, row, width)
            _send_half(
                kind, halved, half, h, 0, e, per, value, scratch, message, n_factors, n_lanes
            )
            for i in range(n_right):
                row = np.uintp(i)
                if last - f > 1:
                    _contract_wide(kind, wide, i, n_right, left, n_left, half, row, width)
                else:
                    _contract(kind, table, first + i, n_right, left, n_left, half, row, width)
            e += np.uintp(h)
            _send_half(
                kind, halved, half, k - h, h, e, per, value, scratch, message, n_factors, n_lanes
            )
        _multiply(variables, start, edge_start[last], message, belief, n_lanes)
        f = last


@jit
def repeat_tables(kind, halved, graph, on, off, message, belief, after, work, n_iter):
    """Send all messages `n_iter` times, each time from the beliefs of the previous iteration.

    Parameters
    ----------
    kind, halved, graph, off, message, work : see `sweep_tables`
    on : (n, lanes) fields: weights of the value 1 relative to the weights `off` of the value 0
    belief : (n, lanes) in and out
    after : (n, lanes) scratch array

    Returns
    -------
    tuple of arrays : `belief` and `after`, ordered so that the first array holds the final beliefs
    """
    n_lanes = np.uintp(on.shape[1])
    for _ in range(n_iter):
        copy_lanes(on, after, n_lanes)
        sweep_tables(kind, halved, graph, belief, off, message, after, work, n_lanes)
        belief, after = after, belief
    return belief, after


def work_arrays(dtype, n_lanes):
    """Allocate scratch arrays (`Work`) for at least _WIDTH lanes."""
    n_lanes = max(n_lanes, _WIDTH)
    return Work(
        value=np.empty((_N_VALUES, n_lanes), dtype),
        left=np.empty((_N_HALF, n_lanes), dtype),
        right=np.empty((_N_HALF, n_lanes), dtype),
        half=np.empty((_N_HALF, n_lanes), dtype),
        spare=np.empty((_N_HALF, n_lanes), dtype),
        sent=np.empty((1, n_lanes), dtype),
        wide=np.empty((64, n_lanes), dtype),
    )


class Progress(NamedTuple):
    """Scratch arrays of `pass_tables`, allocated by `progress_arrays`."""

    belief: np.ndarray  # (n, lanes) beliefs before an iteration
    after: np.ndarray  # (n, lanes) beliefs after the iteration
    last: np.ndarray  # (n, lanes) beliefs as probabilities
    change: np.ndarray  # (lanes,) largest change of a probability
    code: np.ndarray  # (lanes,) int64, index of a table entry
    here: np.ndarray  # (lanes,) float64, score of the state that the beliefs prefer
    still: np.ndarray  # (lanes,) bool, True if the last iteration did not change the beliefs
    kept: np.ndarray  # (E, lanes) messages when the beliefs stopped changing


def progress_arrays(on, message):
    """Allocate scratch arrays (`Progress`) for beliefs like `on` and messages like `message`."""
    n_lanes = on.shape[1]
    return Progress(
        belief=np.empty_like(on),
        after=np.empty_like(on),
        last=np.empty_like(on),
        change=np.empty(n_lanes, on.dtype),
        code=np.empty(n_lanes, np.int64),
        here=np.empty(n_lanes),
        still=np.ones(n_lanes, bool),
        kept=message.copy(),
    )


@jit
def _score_lanes(graph, logs, field, on, off, code, score, n_lanes):
    """Set `score` (lanes,) to the score of the state that the beliefs of each lane prefer."""
    variables, edge_start, _, table_start = graph
    for l in range(n_lanes):
        score[l] = 0.0
    for v in range(np.uintp(on.shape[0])):
        for l in range(n_lanes):
            if on[v, l] > off[v, l]:
                score[l] += field[v, l]
    for f in range(edge_start.shape[0] - 1):
        for l in range(n_lanes):
            code[l] = table_start[f]
        for e in range(edge_start[f], edge_start[f + 1]):
            v = np.uintp(variables[e])
            bit = 1 << (edge_start[f + 1] - 1 - e)
            for l in range(n_lanes):
                code[l] += bit if on[v, l] > off[v, l] else 0
        for l in range(n_lanes):
            score[l] += logs[code[l]]


@jit(allocates=False)
def pass_tables(kind, graph, logs, lanes, start, options, answers, work, progress):
    """Pass messages for a block of models until each model has converged.

    Parameters
    ----------
    kind : SUM or MAX
    graph : TableGraph
    logs : (n_entries,) float64 log-potentials, used to score states
    lanes : Lanes
    start : (n or 0, lanes) log-odds of the first beliefs; if `start` is empty, the first beliefs
        are computed from fields and messages
    options : GraphOptions, whose `slack` is a ratio of odds
    answers : GraphAnswers
    work : Work
    progress : Progress
    """
    field, on, off, message, order = lanes
    belief, after, last, change, code, here, still, kept = progress
    n_models = on.shape[1]
    n_lanes = np.uintp(n_models)
    for l in range(n_models):
        order[l] = l
        answers.n_iter[l] = options.max_iter
    form_beliefs(graph.variables, on, message, belief, n_lanes)
    start_beliefs(start, on, off, belief)
    lane_probabilities(belief, off, last, n_lanes)
    for iteration in range(options.max_iter):
        copy_lanes(on, after, n_lanes)
        halved = options.damping > 0
        sweep_tables(kind, halved, graph, belief, off, message, after, work, n_lanes)
        lane_changes(after, off, last, change, n_lanes)
        if options.want_state:
            _score_lanes(graph, logs, field, after, off, code, here, n_lanes)
            keep_better_states(here, after, off, order, n_lanes, answers)
        n_left = drop_converged(
            iteration, options, n_lanes, change, belief, after, last, kept, still, lanes, answers
        )
        belief, after = after, belief
        n_lanes = np.uintp(n_left)
        if n_left == 0:
            break
    form_beliefs(graph.variables, on, message, belief, np.uintp(n_models))
    lane_log_odds(belief, on, off, order, answers.log_odds)


@jit
def _joint(table, first, k, value, joint, n_lanes):
    """Multiply the 2^k entries of a table by the weights that its k variables send."""
    for l in range(n_lanes):
        joint[np.uintp(0), l] = 1
    size = 1
    for j in range(k):  # go from the last row to the first, because rows are overwritten in place
        off, on = np.uintp(2 * j), np.uintp(2 * j + 1)
        for row in range(size - 1, -1, -1):
            source, a = np.uintp(row), np.uintp(2 * row)
            b = a + np.uintp(1)
            for l in range(n_lanes):
                x = joint[source, l]
                joint[b, l] = x * value[on, l]
                joint[a, l] = x * value[off, l]
        size *= 2
    for row in range(np.uintp(size)):
        t = table[first + row]
        for l in range(n_lanes):
            joint[row, l] *= t


@jit
def finish_tables(graph, shift, place, lanes, sums):
    """Compute Bethe's log Z and the probabilities of all table entries from the final messages.

    Parameters
    ----------
    graph, lanes : TableGraph and Lanes, as `pass_tables` left them
    shift : (F,) float64, logarithm of the number that the weights of each table were divided by
    place : (F,) int64, index of each table's first entry in the statistics
    sums : GraphSums
    """
    variables, edge_start, table, table_start = graph
    _, on, off, message, order = lanes
    weight, want_log_z, want_statistics, each, log_partition, statistics = sums
    n, n_models = on.shape
    n_lanes = np.uintp(n_models)
    one = table.dtype.type(1)
    value = np.empty((_N_VALUES, n_models), table.dtype)
    joint = np.empty((64, n_models), table.dtype)
    total = np.empty(n_models, table.dtype)
    belief = np.empty((n, n_models), table.dtype)
    form_beliefs(variables, on, message, belief, n_lanes)
    if want_log_z:
        for v in range(n):
            for l in range(n_models):
                log_partition[order[l]] += math.log(belief[v, l] + off[v, l])
    for f in range(edge_start.shape[0] - 1):
        start = edge_start[f]
        k = edge_start[f + 1] - start
        for j in range(k):
            e = np.uintp(start + j)
            v = np.uintp(variables[e])
            _values(message, e, belief, off, v, value, j, np.uintp(0), n_lanes, one)
        _joint(table, table_start[f], k, value, joint, n_lanes)
        fill(total, one - one)
        for row in range(np.uintp(1 << k)):
            for l in range(n_lanes):
                total[l] += joint[row, l]
        if want_log_z:
            for l in range(n_models):
                log_z = shift[f] + math.log(total[l])
                for j in range(k):
                    both = value[2 * j, l] + value[2 * j + 1, l] * message[start + j, l]
                    log_z -= math.log(both)
                log_partition[order[l]] += log_z
        if want_statistics:
            for l in range(n_models):
                total[l] = (one if each else weight[order[l]]) / total[l]
            for row in range(1 << k):
                for l in range(n_models):
                    statistics[order[l] if each else 0, place[f] + row] += joint[row, l] * total[l]
