"""Eliminate the variables of factor graphs one by one, and walk back through the tables.

A bucket is the table of an eliminated variable and of the neighbours that the variable has when it
is eliminated. The eliminated variable is the first axis. All numbers are logarithms of weights.

The models of a batch are lanes: each table of a bucket has a last axis with an entry for each of R
models. There are n variables with up to K states each. All buckets together have E entries in each
model, and the tables of all factors T entries, which all models share.

`eliminate` goes up: it computes the conditional log-probabilities of each variable given its
neighbours. These tables answer all questions: `eliminate` may go down and add up the marginals,
`best_states` and `k_best_states` walk down from the last bucket to the first and choose a state of
each variable. Where `eliminate` takes maxima instead of sums, the entry of a table is the loss of a
state: its score minus the score of the best state, if all later choices are the best.

A loop over the entries of a bucket touches entries of another table, too: of a factor, of a
message, or of a marginal. `transfer` runs all these loops. It moves through the other table in
strides, and combines axes at the end of the bucket that are also neighbours in the other table to
long runs, which the compiler can vectorise.
"""

import math

import numpy as np

from skcrbm.kernels.exponentials import exp_in_place, log_in_place
from skcrbm.kernels.jit import jit

# Ways in which `transfer` combines the entries of a bucket and of another table.
_PULL, _ADD, _RAISE = 0, 1, 2
# exp(_HIDDEN) is so small that sums of smaller weights are computed from logarithms, and such
# weights do not change other sums. It is larger than the smallest argument of `log_in_place`.
_HIDDEN = -640.0


@jit(allocates=False)
def set_axes(buckets, i, variables, first, last, n_lanes, scale, lane, sizes, steps):
    """Find the axes of bucket i, and the strides with which a loop over them moves elsewhere.

    The other table has the axes ``variables[first:last]`` in C order; its strides are multiplied by
    `scale`. A stride is 0 if the other table lacks the axis. The last axis holds the models, and
    has the stride `lane`. Return the number of axes, including the axis of models.
    """
    start, end = buckets.scope_start[i], buckets.scope_start[i + 1]
    for j in range(end - start):
        sizes[j], steps[j] = buckets.counts[buckets.scopes[start + j]], 0
    step = scale
    for e in range(last - 1, first - 1, -1):
        v = variables[e]
        for j in range(start, end):
            if buckets.scopes[j] == v:
                steps[j - start] = step
        step *= buckets.counts[v]
    sizes[end - start], steps[end - start] = n_lanes, lane
    return end - start + 1


@jit(allocates=False)
def transfer(kind, n_axes, sizes, steps, digits, entries, begin, stride, table, at):
    """Combine all entries of a bucket with the matching entries of another table.

    Parameters
    ----------
    kind : _PULL adds the table to the entries; _ADD adds the entries to the table; _RAISE replaces
        an entry of the table by the maximum of itself and the entries
    n_axes, sizes, steps : results of `set_axes`
    digits : int64 scratch array
    entries : entries of the bucket, at ``begin``, ``begin + stride``, ...
    table, at : other table, and the place that belongs to the first entry of the bucket
    """
    length, step, outer = 1, 0, n_axes
    while outer > 0 and (length == 1 or steps[outer - 1] == step * length):
        if length == 1:
            step = steps[outer - 1]
        outer -= 1
        length *= sizes[outer]
    n_runs = 1
    for j in range(outer):
        digits[j] = 0
        n_runs *= sizes[j]
    for run in range(n_runs):
        place = begin + run * length * stride
        if kind == _PULL:
            if step == 1 and stride == 1:
                for t in range(np.uintp(length)):
                    entries[np.uintp(place) + t] += table[np.uintp(at) + t]
            else:
                for t in range(length):
                    entries[place + t * stride] += table[at + t * step]
        elif kind == _ADD:
            if step == 1 and stride == 1:
                for t in range(np.uintp(length)):
                    table[np.uintp(at) + t] += entries[np.uintp(place) + t]
            else:
                for t in range(length):
                    table[at + t * step] += entries[place + t * stride]
        else:
            for t in range(length):
                table[at + t * step] = max(table[at + t * step], entries[place + t * stride])
        for j in range(outer - 1, -1, -1):
            digits[j] += 1
            at += steps[j]
            if digits[j] < sizes[j]:
                break
            at -= sizes[j] * steps[j]
            digits[j] = 0


@jit(allocates=False)
def _set_message(buckets, i, c, n_lanes, work):
    """Prepare `transfer` between bucket i and the message of bucket c, which lacks some axes.

    Return the number of axes, the place of the first entry of the message, and its length.
    """
    n_axes = set_axes(
        buckets, i, buckets.scopes, buckets.scope_start[c] + 1, buckets.scope_start[c + 1],
        n_lanes, n_lanes, 1, work.sizes, work.steps,
    )  # fmt: skip
    at, end = work.message_start[c] * n_lanes, work.message_start[c + 1] * n_lanes
    return n_axes, at, end - at


@jit(allocates=False)
def _transfer_factor(kind, buckets, i, f, scale, lane, value, work, entries, begin, table, at):
    """Combine the entries of bucket i with the table of factor f; see `transfer`.

    `scale` and `lane` are the strides of the entries and of the models in `table`, whose first
    entry is at the place `at`. The models may hold variables of the factor at different states,
    which are in `value` (n, R).
    """
    n_lanes = value.shape[1]
    edge, last = buckets.edge_start[f], buckets.edge_start[f + 1]
    n_axes = set_axes(
        buckets, i, buckets.edges, edge, last, n_lanes, scale, lane, work.sizes, work.steps
    )
    alike, first = True, 0
    for r in range(n_lanes):
        place, step = 0, scale
        for e in range(last - 1, edge - 1, -1):
            place += step * value[buckets.edges[e], r]
            step *= buckets.counts[buckets.edges[e]]
        work.held[r] = place
        if r == 0:
            first = place
        alike &= place == first
    if alike:
        transfer(
            kind, n_axes, work.sizes, work.steps, work.digits, entries, begin, 1, table, at + first
        )
        return
    for r in range(n_lanes):
        transfer(
            kind, n_axes - 1, work.sizes, work.steps, work.digits, entries, begin + r, n_lanes,
            table, at + r * lane + work.held[r],
        )  # fmt: skip


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
def _go_up(maximal, buckets, fields, value, work, conditional, total):
    """Compute the conditional table of each bucket, and the total weight; see `eliminate`."""
    n_lanes, message = value.shape[1], work.message
    n_levels = fields.shape[0] // max(1, value.shape[0] * n_lanes)  # a model may have no variables
    for r in range(n_lanes):
        total[r] = 0.0
    for i in range(buckets.parent.shape[0]):
        first, v = buckets.entry_start[i] * n_lanes, buckets.scopes[buckets.scope_start[i]]
        size = (buckets.entry_start[i + 1] - buckets.entry_start[i]) * n_lanes
        k = buckets.counts[v]
        here, width = work.message_start[i] * n_lanes, size // k
        for s in range(size):
            r = s % n_lanes
            conditional[first + s] = fields[(v * n_levels + s // width) * n_lanes + r]
        for j in range(buckets.factor_start[i], buckets.factor_start[i + 1]):
            f = buckets.factors[j]
            _transfer_factor(
                _PULL, buckets, i, f, 1, 0, value, work, conditional, first, buckets.tables,
                buckets.table_start[f],
            )  # fmt: skip
        for j in range(buckets.child_start[i], buckets.child_start[i + 1]):
            n_axes, at, _ = _set_message(buckets, i, buckets.children[j], n_lanes, work)
            transfer(
                _PULL, n_axes, work.sizes, work.steps, work.digits, conditional, first, 1, message,
                at,
            )  # fmt: skip
        _divide(maximal[i], k, width, conditional, first, message, here, work.power, work.part)
        # Large fields in messages would cost the digits of small terms.
        for r in range(n_lanes):
            top = -math.inf
            for s in range(r, width, n_lanes):
                top = max(top, message[here + s])
            total[r] += top
            if top > -math.inf:
                for s in range(r, width, n_lanes):
                    message[here + s] -= top


@jit(allocates=False)
def _reduce(maximal, n_axes, work, size, n_hidden, to, at, n_to):
    """Sum or maximise the beliefs of a bucket over the axes that the table `to` lacks.

    The results, logarithms, are written to ``to[at:at + n_to]``. The bucket has `size` beliefs
    ``work.belief`` with the exponentials ``work.power``; `n_hidden` of them are below `_HIDDEN`.
    """
    hidden = n_hidden > 0
    axes = n_axes, work.sizes, work.steps, work.digits
    if maximal or hidden:
        for s in range(n_to):
            to[at + s] = -math.inf
        transfer(_RAISE, *axes, work.belief, 0, 1, to, at)
        if maximal:
            return
    power = work.power
    if hidden:
        power = work.part
        for s in range(n_to):
            to[at + s] = -max(to[at + s], -1e300)
        for s in range(size):
            power[s] = work.belief[s]
        transfer(_PULL, *axes, power, 0, 1, to, at)
        exp_in_place(power, size)
        for s in range(size):
            power[s] = power[s] if work.belief[s] > -math.inf else 0.0
    total = work.total
    for s in range(n_to):
        total[s] = 0.0
    transfer(_ADD, *axes, power, 0, 1, total, 0)
    for s in range(n_to):
        shift = to[at + s] if hidden else 0.0
        to[at + s] = shift if total[s] > 0.0 else math.inf
    log_in_place(total, n_to)
    for s in range(n_to):
        to[at + s] = total[s] - to[at + s]


@jit(allocates=False)
def _go_down(maximal, buckets, value, work, conditional, weight, statistics):
    """Compute the log-weights of states and the probabilities of entries; see `eliminate`."""
    scope_start, entry_start = buckets.scope_start, buckets.entry_start
    n_lanes = value.shape[1]
    n_levels = weight.shape[0] // max(1, value.shape[0] * n_lanes)  # a model may have no variables
    message, belief, power = work.message, work.belief, work.power
    for i in range(buckets.parent.shape[0] - 1, -1, -1):
        v, k = buckets.scopes[scope_start[i]], buckets.counts[buckets.scopes[scope_start[i]]]
        first = np.uintp(entry_start[i] * n_lanes)
        size = (entry_start[i + 1] - entry_start[i]) * n_lanes
        here, width = np.uintp(work.message_start[i] * n_lanes), np.uintp(size // k)
        # The message to the parent is no longer needed. The parent has written its belief about the
        # neighbours in its place.
        if buckets.parent[i] < 0:
            for s in range(width):
                message[here + s] = 0.0
        for a in range(np.uintp(k)):
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
        n_axes = set_axes(
            buckets, i, buckets.scopes, scope_start[i], scope_start[i] + 1, n_lanes, n_lanes, 1,
            work.sizes, work.steps,
        )  # fmt: skip
        _reduce(maximal, n_axes, work, size, n_hidden, weight, v * n_levels * n_lanes, k * n_lanes)
        for j in range(buckets.child_start[i], buckets.child_start[i + 1]):
            n_axes, at, n_to = _set_message(buckets, i, buckets.children[j], n_lanes, work)
            _reduce(maximal, n_axes, work, size, n_hidden, message, at, n_to)
        if statistics.shape[0] == 0:
            continue
        for j in range(buckets.factor_start[i], buckets.factor_start[i + 1]):
            f = buckets.factors[j]
            _transfer_factor(
                _ADD, buckets, i, f, n_lanes, 1, value, work, power, 0, statistics,
                buckets.table_start[f] * n_lanes,
            )  # fmt: skip


@jit(allocates=False)
def eliminate(maximal, buckets, fields, value, work, conditional, total, weight, statistics):
    """Eliminate all variables, and compute the log of the total weight, or of the largest weight.

    Parameters
    ----------
    maximal : (B,) bool, for each bucket: True to take the maximum over the states of its variable,
        False to take the sum
    buckets : Buckets
    fields : (n * K * R,) float64 log-weights of the states of each variable in each model
    value : (n, R) int64 states of the variables without a bucket, 0 for other variables
    work : EliminationWork
    conditional : (E * R,) float64 output, for each bucket the log-probabilities of its variable
        given the neighbours; -inf if the states of the neighbours are impossible
    total : (R,) float64 output
    weight : (n * K * R,) float64 output for variables with a bucket, the log-weights of the states,
        or an empty array. If maxima are taken, the weight of a state of a variable is the weight of
        the best joint state in which the variable has this state, divided by the largest weight of
        all joint states.
    statistics : (T * R,) float64 output, probabilities of the entries of all factors, or an empty
        array
    """
    _go_up(maximal, buckets, fields, value, work, conditional, total)
    if weight.shape[0] > 0 and maximal.shape[0] > 0:
        _go_down(maximal[0], buckets, value, work, conditional, weight, statistics)


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

    `conditional` is the output of `eliminate` with maxima. If states are equally good, the first of
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
