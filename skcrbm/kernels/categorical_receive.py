"""Messages from factors to variables with any number of states, for many models at once.

The models of a block have the same factors and lie side by side, as SIMD lanes. The functions have
an argument `maxima`, for which they are compiled twice:

- If it is None, messages and tables are weights. Weights are multiplied, and the products are added
  up, as in sum-product and tree-reweighted messages.
- If it is True, messages and tables are logarithms of weights. Logarithms are added, and the
  largest sum is taken, as in max-product. Weight 0 is -inf. There are no exponentials, and
  logarithms neither overflow nor underflow.

A message is scaled such that its largest weight is 1, or its largest logarithm 0. The number by
which it was divided, or its logarithm, is its scale.
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.arguments import ONE, POTTS, TABLE, ZERO
from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import EPS_64, ROUNDING

TWO = np.uintp(2)
# Relative rounding error of a logarithm. The largest logarithm of a message is 0.
_ROUNDED = ROUNDING * EPS_64


class LaneWork(NamedTuple):
    """Scratch arrays; T is the size of the largest table, K the largest number of states."""

    table: np.ndarray  # (T, lanes)
    other: np.ndarray  # (T, lanes)
    new: np.ndarray  # (K, lanes) new message
    behind: np.ndarray  # (K, lanes) product of the messages from the variable's later factors
    after: np.ndarray  # (S, lanes) beliefs after a sweep
    high: np.ndarray  # (lanes,)
    part: np.ndarray  # (lanes,)
    low: np.ndarray  # (lanes,) smallest scale of a product
    change: np.ndarray  # (lanes,) largest change of a probability
    apart: np.ndarray  # (lanes,) positive if two successive beliefs differ too much
    n_held: np.ndarray  # (n,) number of lanes in which a variable is clamped
    still: np.ndarray  # (lanes,) bool, True if the last iteration did not change the beliefs
    digits: np.ndarray  # (largest number of variables of a table,) uintp
    code: np.ndarray  # (lanes,) uintp, index of a table entry
    trial: np.ndarray  # (n, lanes) int64, state of each variable that is being chosen
    chosen: np.ndarray  # (M, lanes) messages from variables whose states have been chosen


@jit(allocates=False, inline=True)
def times(maxima, x, y):
    """Return the product of two weights, or the sum of two logarithms."""
    if maxima is None:
        return x * y
    return x + y


@jit(allocates=False, inline=True)
def plus(maxima, x, y):
    """Return the sum of two weights, or the larger of two logarithms."""
    if maxima is None:
        return x + y
    return max(x, y)


@jit(allocates=False, inline=True)
def scaled(maxima, x, top, scale):
    """Divide a weight or logarithm x by the largest one, `top`; `scale` is `inverse` of `top`.

    If all logarithms of a message are -inf, all become 0, so that no difference of infinities
    arises. If all weights are 0, they stay 0.
    """
    if maxima is None:
        return x * scale
    return max(x + scale, 0.0 if top == -math.inf else -math.inf)


@jit(allocates=False, inline=True)
def inverse(maxima, top):
    """Return the factor, or the summand, that scales a message with the largest entry `top`."""
    if maxima is None:
        return 1.0 / top if top > 0.0 else 0.0
    return -top if top > -math.inf else 0.0


@jit(allocates=False)
def table_size(graph, e):
    """Return the number of entries of the table of an edge's factor."""
    size = ONE
    for j in range(graph.arity[e]):
        other = graph.scopes[graph.scope[e] + j]
        size *= graph.message_start[other + ONE] - graph.message_start[other]
    return size


@jit(allocates=False)
def _contract(maxima, graph, e, sent, new, work, n_lanes):
    """Compute the message from a table of any number of variables to the variable of edge e.

    The axes of all other variables are summed out, or maximised, one by one: first the axes before
    the axis of this variable, from axis 0 on, and then the axes after it, from the last axis
    backward.
    """
    message_start, scopes = graph.message_start, graph.scopes
    scope, slot, m = graph.scope[e], graph.slot[e], graph.arity[e]
    size = table_size(graph, e)
    for step in range(m - ONE):
        j = step if step < slot else m - ONE - (step - slot)
        other = scopes[scope + j]
        first = message_start[other]
        k = message_start[other + ONE] - first
        size //= k
        row, across = (ONE, size) if step < slot else (k, ONE)
        source, to = (work.other, work.table) if step % TWO == ZERO else (work.table, work.other)
        for r in range(size):
            place, second = r * row, first + ONE
            if step == ZERO:
                place += graph.table[e]
                x = graph.tables[place]
                y = graph.tables[place + across] if k == TWO else x
                if k == TWO:
                    for l in range(n_lanes):
                        z = times(maxima, y, sent[second, l])
                        to[r, l] = plus(maxima, times(maxima, x, sent[first, l]), z)
                    continue
                for l in range(n_lanes):
                    to[r, l] = times(maxima, x, sent[first, l])
                for b in range(ONE, k):
                    place += across
                    x = graph.tables[place]
                    for l in range(n_lanes):
                        to[r, l] = plus(maxima, to[r, l], times(maxima, x, sent[first + b, l]))
            elif k == TWO:
                after = place + across
                for l in range(n_lanes):
                    x = times(maxima, source[place, l], sent[first, l])
                    y = times(maxima, source[after, l], sent[second, l])
                    to[r, l] = plus(maxima, x, y)
            else:
                for l in range(n_lanes):
                    to[r, l] = times(maxima, source[place, l], sent[first, l])
                for b in range(ONE, k):
                    place += across
                    for l in range(n_lanes):
                        x = times(maxima, source[place, l], sent[first + b, l])
                        to[r, l] = plus(maxima, to[r, l], x)
    last = work.table if m % TWO == ZERO else work.other
    for a in range(size):
        for l in range(n_lanes):
            new[a, l] = graph.tables[graph.table[e] + a] if m == ONE else last[a, l]


@jit(allocates=False)
def _contract_one(maxima, graph, e, sent, new, work):
    """Do the same as `_contract` for a single model."""
    message_start, scopes = graph.message_start, graph.scopes
    scope, slot, m = graph.scope[e], graph.slot[e], graph.arity[e]
    size, begin = table_size(graph, e), graph.table[e]
    for step in range(m - ONE):
        j = step if step < slot else m - ONE - (step - slot)
        other = scopes[scope + j]
        first = message_start[other]
        k = message_start[other + ONE] - first
        size //= k
        row, across = (ONE, size) if step < slot else (k, ONE)
        source, to = (work.other, work.table) if step % TWO == ZERO else (work.table, work.other)
        for r in range(size):
            place = r * row
            x = graph.tables[begin + place] if step == ZERO else source[place, ZERO]
            total = times(maxima, x, sent[first, ZERO])
            for b in range(ONE, k):
                place += across
                x = graph.tables[begin + place] if step == ZERO else source[place, ZERO]
                total = plus(maxima, total, times(maxima, x, sent[first + b, ZERO]))
            to[r, ZERO] = total
    last = work.table if m % TWO == ZERO else work.other
    for a in range(size):
        new[a, ZERO] = graph.tables[begin + a] if m == ONE else last[a, ZERO]


@jit(allocates=False, inline=True)
def _through_potts(maxima, equal, other, k, sent, first, new, high, rest, n_lanes):
    """Compute the message through a Potts table.

    The table has the value `equal` on its diagonal, and `other` off its diagonal. The message for a
    state contains the sum, or the maximum, over all other states. To avoid cancellation, a sum is
    computed as the sum without the largest weight, plus the difference of the largest weight and
    the weight of the state.
    """
    for l in range(n_lanes):
        high[l] = sent[first, l]
        rest[l] = 0.0 if maxima is None else -math.inf
    for a in range(ONE, k):
        for l in range(n_lanes):
            x = sent[first + a, l]
            rest[l] = plus(maxima, rest[l], min(x, high[l]))
            high[l] = max(x, high[l])
    for a in range(k):
        if maxima is None:
            for l in range(n_lanes):
                x = sent[first + a, l]
                new[a, l] = equal * x + other * (rest[l] + (high[l] - x))
        else:
            for l in range(n_lanes):
                x = sent[first + a, l]
                new[a, l] = max(equal + x, other + (rest[l] if x == high[l] else high[l]))


@jit(allocates=False, inline=True)
def receive(maxima, graph, e, k, sent, work, general, n_lanes):
    """Write the message from the factor of edge e to its variable, with k states, to `work.new`."""
    new, slot, at = work.new, graph.slot[e], graph.table[e]
    if general is not None:
        if graph.kind[e] == TABLE:
            if n_lanes == ONE:
                _contract_one(maxima, graph, e, sent, new, work)
            else:
                _contract(maxima, graph, e, sent, new, work, n_lanes)
            return
        if graph.kind[e] == POTTS:
            equal, unequal = graph.tables[at + ONE], graph.tables[at]
            first = graph.message_start[graph.scopes[graph.scope[e] + ONE - slot]]
            _through_potts(
                maxima, equal, unequal, k, sent, first, new, work.high, work.part, n_lanes
            )
            return
    other = graph.scopes[graph.scope[e] + ONE - slot]
    first = graph.message_start[other]
    n_other = graph.message_start[other + ONE] - first
    row, across = (n_other, ONE) if slot == ZERO else (ONE, k)
    for a in range(k):
        place = at + a * row
        x = graph.tables[place]
        for l in range(n_lanes):
            new[a, l] = times(maxima, x, sent[first, l])
        for b in range(ONE, n_other):
            place += across
            x = graph.tables[place]
            for l in range(n_lanes):
                new[a, l] = plus(maxima, new[a, l], times(maxima, x, sent[first + b, l]))


@jit(allocates=False, inline=True)
def scale_message(maxima, k, new, high, low, n_lanes):
    """Scale a message (k, lanes), and update the smallest scale `low`."""
    for l in range(n_lanes):
        high[l] = new[ZERO, l]
    for a in range(ONE, k):
        for l in range(n_lanes):
            high[l] = max(high[l], new[a, l])
    for l in range(n_lanes):
        low[l] = min(low[l], high[l])
    if maxima is None:
        for l in range(n_lanes):
            high[l] = 1.0 / high[l] if high[l] > 0.0 else 0.0
        for a in range(k):
            for l in range(n_lanes):
                new[a, l] *= high[l]
    else:
        for a in range(k):
            for l in range(n_lanes):
                top = high[l]
                new[a, l] = scaled(maxima, new[a, l], top, inverse(maxima, top))


@jit(allocates=False, inline=True)
def mean_of_messages(maxima, damping, new, old):
    """Return the damped message: a mean of logarithms, in which `old` has the weight `damping`."""
    if maxima is None:
        if damping == 0.5:
            return math.sqrt(new * old)
        return new ** (1.0 - damping) * old**damping
    return (1.0 - damping) * new + damping * old


@jit(allocates=False, inline=True)
def distance(maxima, factor, x, y):
    """Return a positive number if two weights or logarithms differ too much.

    The ratio of two weights may be at most `factor`. The difference of two logarithms may be at
    most `factor` plus a rounding error.
    """
    if maxima is None:
        return max(x - factor * y, y - factor * x)
    change = abs(x - y) if x != y else 0.0
    return change - factor + _ROUNDED * max(x, y)


@jit(allocates=False)
def damp(maxima, damping, factor, k, message, at, new, held, v, apart, n_lanes):
    """Replace a message (k, lanes) by a mean of the old and new message.

    The old message begins at the row `at`. `apart` becomes positive if an entry changes too much,
    see `distance`: changes of two damped messages may cancel in a belief. Lanes in which the
    variable v is held do not count, because they keep the old message.
    """
    for a in range(k):
        for l in range(n_lanes):
            far = distance(maxima, factor, new[a, l], message[at + a, l])
            apart[l] = max(apart[l], 0.0 if held[v, l] else far)
        for l in range(n_lanes):
            new[a, l] = mean_of_messages(maxima, damping, new[a, l], message[at + a, l])


@jit(allocates=False, inline=True)
def _two_states(maxima, products, graph, e, at, message, sent, belief, start, low, n_lanes):
    """Receive and scale a message through a table of two by two states, and add it to the belief.

    The belief before goes to `sent`, unless `products` is None.
    """
    other = graph.scopes[graph.scope[e] + ONE - graph.slot[e]]
    place, first = graph.table[e], graph.message_start[other]
    second, row, next_row = first + ONE, start + ONE, at + ONE
    a, d = graph.tables[place], graph.tables[place + TWO + ONE]
    b, c = graph.tables[place + ONE], graph.tables[place + TWO]
    if graph.slot[e] != ZERO:
        b, c = c, b
    for l in range(n_lanes):
        x, y = sent[first, l], sent[second, l]
        off = plus(maxima, times(maxima, a, x), times(maxima, b, y))
        on = plus(maxima, times(maxima, c, x), times(maxima, d, y))
        top = max(off, on)
        scale = inverse(maxima, top)
        low[l] = min(low[l], top)
        off, on = scaled(maxima, off, top, scale), scaled(maxima, on, top, scale)
        message[at, l], message[next_row, l] = off, on
        x, y = belief[start, l], belief[row, l]
        if products is not None:
            sent[at, l], sent[next_row, l] = x, y
        belief[start, l], belief[row, l] = times(maxima, x, off), times(maxima, y, on)


@jit(allocates=False, inline=True)
def _one_lane(maxima, graph, e, k, at, message, sent, belief, start, damping, factor, work):
    """Do the same as `_two_states` for variables with any number of states, but a single lane.

    Messages may be damped, see `damp`.
    """
    slot, place, new, low, apart = graph.slot[e], graph.table[e], work.new, work.low, work.apart
    other = graph.scopes[graph.scope[e] + ONE - slot]
    first = graph.message_start[other]
    n_other = graph.message_start[other + ONE] - first
    row, across = (n_other, ONE) if slot == ZERO else (ONE, k)
    top = 0.0 if maxima is None else -math.inf
    for a in range(k):
        entry = place + a * row
        total = times(maxima, graph.tables[entry], sent[first, ZERO])
        for b in range(ONE, n_other):
            entry += across
            total = plus(maxima, total, times(maxima, graph.tables[entry], sent[first + b, ZERO]))
        new[a, ZERO] = total
        top = max(top, total)
    low[ZERO] = min(low[ZERO], top)
    scale = inverse(maxima, top)
    if damping is not None and damping > 0.0:
        after = 0.0 if maxima is None else -math.inf
        for a in range(k):
            x, y = scaled(maxima, new[a, ZERO], top, scale), message[at + a, ZERO]
            apart[ZERO] = max(apart[ZERO], distance(maxima, factor, x, y))
            x = mean_of_messages(maxima, damping, x, y)
            new[a, ZERO] = x
            after = max(after, x)
        low[ZERO] = min(low[ZERO], after)
        top, scale = after, inverse(maxima, after)
    for a in range(k):
        x, y = scaled(maxima, new[a, ZERO], top, scale), belief[start + a, ZERO]
        message[at + a, ZERO] = x
        sent[at + a, ZERO] = y
        belief[start + a, ZERO] = times(maxima, x, y)


@jit(allocates=False, inline=True)
def receive_directly(
    maxima, products, graph, e, k, at, message, sent, belief, start, damping, factor, single, work,
    n_lanes,
):  # fmt: skip
    """Receive a message through a table of two variables; return False if no special code does."""
    if damping is None or damping == 0.0:
        other = graph.scopes[graph.scope[e] + ONE - graph.slot[e]]
        if k == TWO and graph.message_start[other + ONE] - graph.message_start[other] == TWO:
            _two_states(
                maxima, products, graph, e, at, message, sent, belief, start, work.low, n_lanes
            )
            return True
    if single is not None:
        _one_lane(maxima, graph, e, k, at, message, sent, belief, start, damping, factor, work)
        return True
    return False
