"""Eliminate the variables of a factor graph one by one, if all tables are small.

A bucket is the table of an eliminated variable and of the neighbours that the variable has when it
is eliminated. The eliminated variable is the first axis. NumPy needs about ten microseconds for
each operation on a table, even if the table is small. This is too slow for graphs with very many
variables, for which these compiled functions are used. All numbers are logarithms.

There are n variables with up to K states each. All buckets together have E entries, and the tables
of all factors T entries.
"""

import math

import numpy as np

from skcrbm.kernels.jit import jit


@jit(allocates=False)
def set_steps(buckets, i, variables, first, last, value, steps):
    """Find the strides with which a loop over the entries of bucket i moves in another table.

    The other table has the axes ``variables[first:last]`` in C order. For each axis of bucket i,
    `steps` gets the stride in the other table, or 0 if the other table lacks the axis. Variables of
    the other table that are not in the bucket are fixed to their states in `value`. Return the
    index of the entry of the other table at which the variables of bucket i have the state 0.
    """
    start, end = buckets.scope_start[i], buckets.scope_start[i + 1]
    for j in range(end - start):
        steps[j] = 0
    at, step = 0, 1
    for e in range(last - 1, first - 1, -1):
        v = variables[e]
        missing = True
        for j in range(start, end):
            if buckets.scopes[j] == v:
                steps[j - start] = step
                missing = False
        if missing:
            at += step * value[v]
        step *= buckets.counts[v]
    return at


@jit(allocates=False)
def set_places(buckets, i, steps, at, digits, places):
    """For each entry of bucket i, write the index of the matching entry in another table.

    The indices are written to `places`. `steps` and `at` are results of `set_steps`.
    """
    start, end = buckets.scope_start[i], buckets.scope_start[i + 1]
    m = end - start
    for j in range(m):
        digits[j] = 0
    for s in range(buckets.entry_start[i + 1] - buckets.entry_start[i]):
        places[s] = at
        for j in range(m - 1, -1, -1):
            k = buckets.counts[buckets.scopes[start + j]]
            digits[j] += 1
            at += steps[j]
            if digits[j] < k:
                break
            at -= k * steps[j]
            digits[j] = 0


@jit(allocates=False)
def combine(maximal, values, first, step, count):
    """Return the maximum of `count` logarithms or, if not `maximal`, their log-sum-exp.

    The logarithms are ``values[first]``, ``values[first + step]``, ...
    """
    high = -math.inf
    for a in range(count):
        high = max(high, values[first + a * step])
    if maximal or high == -math.inf:
        return high
    total = 0.0
    for a in range(count):
        total += math.exp(values[first + a * step] - high)
    return high + math.log(total)


@jit
def eliminate(maximal, buckets, fields, value, conditional):
    """Eliminate all variables, and return the log of the total weight, or of the largest weight.

    Parameters
    ----------
    maximal : bool, True for maxima, False for sums
    buckets : Buckets
    fields : (n, K) float64 log-weights of the states of each variable
    value : (n,) int64 states of the variables without a bucket
    conditional : (E,) float64 output, for each bucket the log-probabilities of its variable given
        the neighbours; -inf if the states of the neighbours are impossible
    """
    scope_start, entry_start = buckets.scope_start, buckets.entry_start
    n_buckets = buckets.parent.shape[0]
    largest, longest = 1, 1
    message_start = np.zeros(n_buckets + 1, np.int64)
    for i in range(n_buckets):
        size = entry_start[i + 1] - entry_start[i]
        largest = max(largest, size)
        longest = max(longest, scope_start[i + 1] - scope_start[i])
        k = buckets.counts[buckets.scopes[scope_start[i]]]
        message_start[i + 1] = message_start[i] + size // k
    message = np.empty(message_start[n_buckets])
    steps, digits = np.zeros(longest, np.int64), np.zeros(longest, np.int64)
    places = np.zeros(largest, np.int64)
    total = 0.0
    for i in range(n_buckets):
        first, v = entry_start[i], buckets.scopes[scope_start[i]]
        size, k = entry_start[i + 1] - first, buckets.counts[v]
        rest = size // k
        for s in range(size):
            conditional[first + s] = fields[v, s // rest]
        for j in range(buckets.factor_start[i], buckets.factor_start[i + 1]):
            f = buckets.factors[j]
            edge, last = buckets.edge_start[f], buckets.edge_start[f + 1]
            at = set_steps(buckets, i, buckets.edges, edge, last, value, steps)
            set_places(buckets, i, steps, at, digits, places)
            for s in range(size):
                conditional[first + s] += buckets.tables[buckets.table_start[f] + places[s]]
        for j in range(buckets.child_start[i], buckets.child_start[i + 1]):
            c = buckets.children[j]
            edge, last = scope_start[c] + 1, scope_start[c + 1]
            at = set_steps(buckets, i, buckets.scopes, edge, last, value, steps)
            set_places(buckets, i, steps, at, digits, places)
            for s in range(size):
                conditional[first + s] += message[message_start[c] + places[s]]
        top = -math.inf
        for r in range(rest):
            here = combine(maximal, conditional, first + r, rest, k)
            for a in range(k):
                x = conditional[first + a * rest + r]
                conditional[first + a * rest + r] = x - here if here > -math.inf else -math.inf
            message[message_start[i] + r] = here
            top = max(top, here)
        if top == -math.inf:
            return top
        total += top
        for r in range(rest):
            message[message_start[i] + r] -= top
    return total


@jit
def spread_beliefs(maximal, buckets, value, conditional, weight, statistics):
    """Compute the log-weights of the states of each variable, and the probabilities of all entries.

    If `maximal` is True, the weight of a state of a variable is the weight of the best joint state
    in which the variable has this state, divided by the largest weight of all joint states.

    Parameters
    ----------
    maximal, buckets, value, conditional : see `eliminate`
    weight : (n, K) float64 output for variables with a bucket, the log-weights of the states
    statistics : (T,) float64 output, probabilities of the entries of all factors, or an empty array
    """
    scope_start, entry_start = buckets.scope_start, buckets.entry_start
    n_buckets = buckets.parent.shape[0]
    largest, longest = 1, 1
    for i in range(n_buckets):
        largest = max(largest, entry_start[i + 1] - entry_start[i])
        longest = max(longest, scope_start[i + 1] - scope_start[i])
    steps, digits = np.zeros(longest, np.int64), np.zeros(longest, np.int64)
    places = np.zeros(largest, np.int64)
    high, total = np.empty(largest), np.empty(largest)
    belief = np.empty(conditional.shape[0])
    for i in range(n_buckets - 1, -1, -1):
        first, v, above = entry_start[i], buckets.scopes[scope_start[i]], buckets.parent[i]
        size, k = entry_start[i + 1] - first, buckets.counts[v]
        rest = size // k
        for r in range(rest):
            high[r], total[r] = -math.inf, 0.0
        if above < 0:
            high[0], total[0] = 0.0, 1.0
        else:
            edge, last = scope_start[i] + 1, scope_start[i + 1]
            at = set_steps(buckets, above, buckets.scopes, edge, last, value, steps)
            set_places(buckets, above, steps, at, digits, places)
            start, n_above = entry_start[above], entry_start[above + 1] - entry_start[above]
            for s in range(n_above):
                high[places[s]] = max(high[places[s]], belief[start + s])
            for s in range(n_above):
                if belief[start + s] > -math.inf:
                    total[places[s]] += math.exp(belief[start + s] - high[places[s]])
        for s in range(size):
            shared = high[s % rest]
            if not maximal and shared > -math.inf:
                shared += math.log(total[s % rest])
            belief[first + s] = conditional[first + s] + shared
        for a in range(k):
            weight[v, a] = combine(maximal, belief, first + a * rest, 1, rest)
        if statistics.shape[0] == 0:
            continue
        for j in range(buckets.factor_start[i], buckets.factor_start[i + 1]):
            f = buckets.factors[j]
            edge, last = buckets.edge_start[f], buckets.edge_start[f + 1]
            at = set_steps(buckets, i, buckets.edges, edge, last, value, steps)
            set_places(buckets, i, steps, at, digits, places)
            for s in range(size):
                x = math.exp(belief[first + s])
                statistics[buckets.table_start[f] + places[s]] += x


@jit(allocates=False)
def best_states(buckets, conditional, value):
    """Write the best states to `value` (n,), from the last bucket to the first.

    `conditional` is the output of `eliminate` with maxima. If states are equally good, the first of
    them is chosen.
    """
    for i in range(buckets.parent.shape[0] - 1, -1, -1):
        start, first = buckets.scope_start[i], buckets.entry_start[i]
        v = buckets.scopes[start]
        code, rest = 0, 1
        for j in range(start + 1, buckets.scope_start[i + 1]):
            u = buckets.scopes[j]
            code = code * buckets.counts[u] + value[u]
            rest *= buckets.counts[u]
        best = 0
        for a in range(buckets.counts[v]):
            if conditional[first + a * rest + code] > conditional[first + best * rest + code]:
                best = a
        value[v] = best
