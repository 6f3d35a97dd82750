"""Eliminate the variables of factor graphs one by one, and walk back through the tables.

A bucket is the table of an eliminated variable and of the neighbours that the variable has when it
is eliminated. The eliminated variable is the first axis. All numbers are logarithms of weights.

The models of a batch are lanes: each table of a bucket has a last axis with an entry for each of R
models. There are n variables with up to K states each. All buckets together have E entries in each
model, and the tables of all factors T entries, which all models share.

`go_up` computes the conditional log-probabilities of each variable given its neighbours. These
tables answer all questions: `go_down` adds up the marginals, and `best_states` and `k_best_states`
walk down from the last bucket to the first and choose a state of each variable. Where `go_up` takes
maxima instead of sums, the entry of a table is the loss of a state: its score minus the score of
the best state, if all later choices are the best.

A loop over the entries of a bucket touches entries of another table, too: of a factor, of a
message, or of a marginal. `_transfer` runs all these loops. It moves through the other table in
strides, and combines axes at the end of the bucket that are also neighbours in the other table to
long runs, which the compiler can vectorise.
"""

import math

import numpy as np

from skcrbm.kernels.arguments import FIELD, MESSAGE, OWN, SHARED
from skcrbm.kernels.exponentials import exp_in_place, log_in_place
from skcrbm.kernels.jit import jit

# Ways in which `_transfer` combines the entries of a bucket and of another table.
_PULL, _ADD, _RAISE = 0, 1, 2
# exp(_HIDDEN) is so small that sums of smaller weights are computed from logarithms, and such
# weights do not change other sums. It is larger than the smallest argument of `log_in_place`.
_HIDDEN = -640.0


@jit(allocates=False)
def _transfer(
    kind, sizes, start, end, steps, first, n_lanes, scale, lane, digits, entries, begin, table, at
):  # fmt: skip
    """Combine all entries of a bucket with the matching entries of another table.

    Parameters
    ----------
    kind : _PULL adds the table to the entries; _ADD adds the entries to the table; _RAISE replaces
        an entry of the table by the maximum of itself and the entries
    sizes, start, end : the axes of the bucket have the lengths ``sizes[start:end]``
    steps, first : strides of the axes in the other table, from ``steps[first]`` on
    n_lanes, scale, lane : the last axis of the bucket holds the models. In the other table it has
        the stride `lane`, and the strides of all other axes are multiplied by `scale`.
    digits : int64 scratch array
    entries, begin : array with the entries of the bucket, and the place of the first entry
    table, at : other table, and the place that belongs to the first entry of the bucket
    """
    length, step, outer = np.uintp(n_lanes), np.uintp(lane), end - start
    while outer > 0:
        stride = np.uintp(steps[first + outer - 1] * scale)
        if length == np.uintp(1):
            step = stride
        elif stride != step * length:
            break
        outer -= 1
        length *= np.uintp(sizes[start + outer])
    n_runs = 1
    for j in range(outer):
        digits[j] = 0
        n_runs *= sizes[start + j]
    here, there = np.uintp(begin), np.uintp(at)
    for _ in range(n_runs):
        if kind == _RAISE:
            for t in range(length):
                table[there + t * step] = max(table[there + t * step], entries[here + t])
        elif step == np.uintp(1):
            if kind == _PULL:
                for t in range(length):
                    entries[here + t] += table[there + t]
            else:
                for t in range(length):
                    table[there + t] += entries[here + t]
        elif kind == _PULL:
            for t in range(length):
                entries[here + t] += table[there + t * step]
        else:
            for t in range(length):
                table[there + t * step] += entries[here + t]
        here += length
        for j in range(outer - 1, -1, -1):
            stride = np.uintp(steps[first + j] * scale)
            digits[j] += 1
            there += stride
            if digits[j] < sizes[start + j]:
                break
            there -= np.uintp(sizes[start + j]) * stride
            digits[j] = 0


@jit(allocates=False)
def _divide(maximal, k, width, entries, begin, message, to, power, total):
    """Divide a table (k, width) by its sum or maximum over the first axis, which is the message.

    The message is written to ``message[to:to + width]``. `power` and `total` are scratch arrays. If
    all entries of a column are -inf, they stay -inf.
    """
    first, to, n = np.uintp(begin), np.uintp(to), np.uintp(width)
    for j in range(n):
        message[to + j] = entries[first + j]
        total[j] = 0.0
    for a in range(np.uintp(1), np.uintp(k)):
        for j in range(n):
            message[to + j] = max(message[to + j], entries[first + a * n + j])
    if not maximal:
        for a in range(np.uintp(k)):
            for j in range(n):
                power[j] = entries[first + a * n + j] - max(message[to + j], -1e300)
            exp_in_place(power, width)
            for j in range(n):
                total[j] += power[j]
        log_in_place(total, width)
        for j in range(n):
            message[to + j] += total[j]
    for a in range(np.uintp(k)):
        for j in range(n):
            entries[first + a * n + j] -= max(message[to + j], -1e300)


@jit(allocates=False)
def go_up(maximal, buckets, fields, work, conditional, total):
    """Eliminate all variables, and compute the log of the total weight, or of the largest weight.

    Parameters
    ----------
    maximal : (B,) bool, for each bucket: True to take the maximum over the states of its variable,
        False to take the sum
    buckets : Buckets
    fields : (n * K * R,) float64 log-weights of the states of each variable in each model
    work : EliminationWork
    conditional : (E * R,) float64 output, for each bucket the log-probabilities of its variable
        given the neighbours; -inf if the states of the neighbours are impossible
    total : (R,) float64 output
    """
    (
        _, scope_start, _, sizes, entry_start, message_start, parent, link_start, kinds, places, _,
        step_start, steps, tables,
    ) = buckets  # fmt: skip
    message, _, power, part, _, digits = work
    n_lanes = total.shape[0]
    for r in range(n_lanes):
        total[r] = 0.0
    for i in range(parent.shape[0]):
        start, end = scope_start[i], scope_start[i + 1]
        first, last = entry_start[i] * n_lanes, entry_start[i + 1] * n_lanes
        for s in range(np.uintp(first), np.uintp(last)):
            conditional[s] = 0.0
        for l in range(link_start[i], link_start[i + 1]):
            kind, at, step = kinds[l], places[l], step_start[l]
            if kind == SHARED:
                _transfer(
                    _PULL, sizes, start, end, steps, step, n_lanes, 1, 0, digits, conditional,
                    first, tables, at,
                )  # fmt: skip
            else:
                _transfer(
                    _PULL, sizes, start, end, steps, step, n_lanes, n_lanes, 1, digits, conditional,
                    first, fields if kind == FIELD else message, at * n_lanes,
                )  # fmt: skip
        k, to = sizes[start], message_start[i] * n_lanes
        _divide(maximal[i], k, (last - first) // k, conditional, first, message, to, power, part)
        here, width = np.uintp(to), np.uintp((last - first) // k)
        # Large fields in messages would cost the digits of small terms.
        for r in range(np.uintp(n_lanes)):
            top = -math.inf
            for s in range(r, width, np.uintp(n_lanes)):
                top = max(top, message[here + s])
            total[r] += top
            if top > -math.inf:
                for s in range(r, width, np.uintp(n_lanes)):
                    message[here + s] -= top


@jit(allocates=False)
def _reduce(maximal, hidden, sizes, start, end, steps, first, n_lanes, work, size, to, at, n_to):
    """Sum or maximise the beliefs of a bucket over the axes that the table `to` lacks.

    The results, logarithms, are written to ``to[at:at + n_to]``. The bucket has `size` beliefs
    ``work.belief`` with the exponentials ``work.power``. `hidden` is True if some of them are below
    `_HIDDEN`. See `_transfer` for the other arguments.
    """
    _, belief, power, part, total, digits = work
    n, there = np.uintp(n_to), np.uintp(at)
    if maximal or hidden:
        for s in range(n):
            to[there + s] = -math.inf
        _transfer(
            _RAISE, sizes, start, end, steps, first, n_lanes, n_lanes, 1, digits, belief, 0, to, at
        )
        if maximal:
            return
    if hidden:
        for s in range(n):
            to[there + s] = -max(to[there + s], -1e300)
        for s in range(np.uintp(size)):
            part[s] = belief[s]
        _transfer(
            _PULL, sizes, start, end, steps, first, n_lanes, n_lanes, 1, digits, part, 0, to, at
        )
        exp_in_place(part, size)
        for s in range(np.uintp(size)):
            part[s] = part[s] if belief[s] > -math.inf else 0.0
    for s in range(n):
        total[s] = 0.0
    _transfer(
        _ADD, sizes, start, end, steps, first, n_lanes, n_lanes, 1, digits,
        part if hidden else power, 0, total, 0,
    )  # fmt: skip
    for s in range(n):
        shift = to[there + s] if hidden else 0.0
        to[there + s] = shift if total[s] > 0.0 else math.inf
    log_in_place(total, n_to)
    for s in range(n):
        to[there + s] = total[s] - to[there + s]


@jit(allocates=False)
def go_down(maximal, buckets, work, n_lanes, conditional, weight, statistics):
    """Compute the log-weights of states and the probabilities of entries.

    Parameters
    ----------
    maximal, buckets, work, conditional : arguments and results of `go_up`, but `maximal` is a
        single bool for all buckets
    n_lanes : int, number of models
    weight : (n * K * R,) float64 output for variables with a bucket, the log-weights of the states.
        If maxima are taken, the weight of a state of a variable is the weight of the best joint
        state in which the variable has this state, divided by the largest weight of all joint
        states.
    statistics : float64 output, probabilities of the entries of all factors, or an empty array. It
        holds (T, R) numbers, and then the entries of the factors of kind `OWN`.
    """
    (
        _, scope_start, _, sizes, entry_start, message_start, parent, link_start, kinds, places,
        lengths, step_start, steps, tables,
    ) = buckets  # fmt: skip
    message, belief, power, _, _, digits = work
    n_buckets = parent.shape[0]
    for i in range(n_buckets - 1, -1, -1):
        start, end = scope_start[i], scope_start[i + 1]
        first = np.uintp(entry_start[i] * n_lanes)
        size = (entry_start[i + 1] - entry_start[i]) * n_lanes
        here, width = np.uintp(message_start[i] * n_lanes), np.uintp(size // sizes[start])
        # The message to the parent is no longer needed. The parent has written its belief about the
        # neighbours in its place.
        if parent[i] < 0:
            for s in range(width):
                message[here + s] = 0.0
        for a in range(np.uintp(sizes[start])):
            for s in range(width):
                belief[a * width + s] = conditional[first + a * width + s] + message[here + s]
        n_hidden = 0
        if not maximal:
            for s in range(np.uintp(size)):
                power[s] = belief[s]
            exp_in_place(power, size)
            for s in range(np.uintp(size)):
                seen = belief[s] > _HIDDEN
                power[s] = power[s] if seen else 0.0
                n_hidden += (not seen) & (belief[s] > -math.inf)
        for l in range(link_start[i], link_start[i + 1]):
            kind, at, step = kinds[l], places[l] * n_lanes, step_start[l]
            if kind in (FIELD, MESSAGE):
                _reduce(
                    maximal, n_hidden > 0, sizes, start, end, steps, step, n_lanes, work, size,
                    weight if kind == FIELD else message, at, lengths[l] * n_lanes,
                )  # fmt: skip
            elif statistics.shape[0] > 0:
                if kind == OWN:
                    at += (tables.shape[0] - message_start[n_buckets]) * n_lanes
                _transfer(
                    _ADD, sizes, start, end, steps, step, n_lanes, n_lanes, 1, digits, power, 0,
                    statistics, at,
                )  # fmt: skip


@jit(allocates=False)
def _row(buckets, conditional, i, value, r):
    """Return the place of the first conditional of bucket i, given its neighbours, and the stride.

    The place is for model r, in which the neighbours have the states in `value` (n, R).
    """
    start = buckets.scope_start[i]
    n_lanes, code, rest = value.shape[1], 0, 1
    for j in range(start + 1, buckets.scope_start[i + 1]):
        u = buckets.scopes[j]
        code = code * buckets.counts[u] + value[u, r]
        rest *= buckets.counts[u]
    return (buckets.entry_start[i] + code) * n_lanes + r, rest * n_lanes


@jit(allocates=False)
def _best(conditional, place, step, k):
    """Return the first state with the largest of k conditionals."""
    best = 0
    for a in range(k):
        if conditional[place + a * step] > conditional[place + best * step]:
            best = a
    return best


@jit(allocates=False)
def best_states(buckets, conditional, until, value):
    """Write the best states to `value` (n, R), from the last bucket to the bucket `until`.

    `conditional` is the output of `go_up` with maxima. If states are equally good, the first of
    them is chosen.
    """
    for i in range(buckets.parent.shape[0] - 1, until - 1, -1):
        v = buckets.scopes[buckets.scope_start[i]]
        for r in range(value.shape[1]):
            place, step = _row(buckets, conditional, i, value, r)
            value[v, r] = _best(conditional, place, step, buckets.counts[v])


@jit
def k_best_states(buckets, conditional, value, states, losses):
    """Find the k best states of each model, in descending order of their scores.

    The next best state agrees with an earlier state up to some bucket, differs from it there, and
    continues with the best choices. If fewer than k states are possible, the loss of the remaining
    states is -inf, and they are copies of the first state.

    Parameters
    ----------
    buckets, conditional : see `best_states`
    value : (n, R) int64 states of the variables without a bucket; the other entries are overwritten
    states : (R, k, n) int64 output
    losses : (R, k) float64 output, scores minus the score of the best state
    """
    n_models, k, n = states.shape
    # Candidates for the next states, in descending order: loss, index of the earlier state, and the
    # bucket and the state at which the candidate differs from the earlier state.
    loss, origin = np.empty(k), np.empty(k, np.int64)
    leaves, choice = np.empty(k, np.int64), np.empty(k, np.int64)
    for r in range(n_models):
        loss[0], origin[0], leaves[0], choice[0] = 0.0, 0, buckets.parent.shape[0], 0
        n_waiting = 1
        for found in range(k):
            room = k - found - 1
            if n_waiting == 0:
                losses[r, found] = -math.inf
                for v in range(n):
                    states[r, found, v] = states[r, 0, v]
                continue
            here, earlier, fork, other = loss[0], origin[0], leaves[0], choice[0]
            n_waiting -= 1
            for w in range(n_waiting):
                loss[w], origin[w] = loss[w + 1], origin[w + 1]
                leaves[w], choice[w] = leaves[w + 1], choice[w + 1]
            losses[r, found] = here
            for i in range(buckets.parent.shape[0] - 1, -1, -1):
                v = buckets.scopes[buckets.scope_start[i]]
                if i > fork:
                    value[v, r] = states[r, earlier, v]
                elif i == fork:
                    value[v, r] = other
                else:
                    place, step = _row(buckets, conditional, i, value, r)
                    best = _best(conditional, place, step, buckets.counts[v])
                    value[v, r] = best
                    for a in range(buckets.counts[v]):
                        new = here + conditional[place + a * step]
                        full = n_waiting >= room and (room == 0 or new <= loss[room - 1])
                        if a == best or new == -math.inf or full:
                            continue
                        w = min(n_waiting, room - 1)
                        while w > 0 and loss[w - 1] < new:
                            loss[w], origin[w] = loss[w - 1], origin[w - 1]
                            leaves[w], choice[w] = leaves[w - 1], choice[w - 1]
                            w -= 1
                        loss[w], origin[w], leaves[w], choice[w] = new, found, i, a
                        n_waiting = min(n_waiting + 1, room)
            for v in range(n):
                states[r, found, v] = value[v, r]
