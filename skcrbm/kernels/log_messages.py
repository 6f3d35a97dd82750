"""Sum-product messages through tables of two variables, as logarithms.

If possible, the weights of a table are used instead of its log-weights (`pair_weights`,
`potts_weights`). This is faster: it takes an exponential and a logarithm for each state of a
variable, instead of an exponential for each entry of the table.
"""

import math

from skcrbm.kernels.arguments import ONE, ZERO
from skcrbm.kernels.jit import jit

# If a sum of weights is below this number, terms that matter may have underflowed.
SMALLEST = 1e-200


@jit(allocates=False, inline=True)
def reduce_logs(table, at, step, k, weight, first):
    """Return the log-sum-exp of table[at + a * step] + weight[first + a], a < k."""
    high = -math.inf
    for a in range(k):
        high = max(high, table[at + a * step] + weight[first + a])
    if high == -math.inf:
        return high
    total = 0.0
    for a in range(k):
        total += math.exp(table[at + a * step] + weight[first + a] - high)
    return high + math.log(total)


@jit(allocates=False)
def potts_logs(other, equal, k, weight, first, out):
    """Write the message through a Potts table to `out` (k,).

    The table has the value `equal` on its diagonal and the value `other` off the diagonal.
    """
    top, second, where = -math.inf, -math.inf, ZERO
    for a in range(k):
        x = weight[first + a]
        if x > top:
            top, second, where = x, top, a
        else:
            second = max(second, x)
    # `rest` is the log-sum over all states except the state with the largest log-weight. The loop
    # below needs it for the log-sum over all states except a.
    rest = second
    if second > -math.inf:
        total = 0.0
        for a in range(k):
            if a != where:
                total += math.exp(weight[first + a] - second)
        rest += math.log(total)
    for a in range(k):
        x = weight[first + a]
        others = rest if a == where else top
        if a != where:
            gain = math.exp(rest - top) - math.exp(x - top) if top > -math.inf else 0.0
            others = top + math.log1p(max(gain, 0.0))
        left, right = equal + x, other + others
        high = max(left, right)
        if min(left, right) > -math.inf:
            high += math.log1p(math.exp(-abs(left - right)))
        out[a] = high


@jit(allocates=False)
def potts_weights(other, equal, k, weight, first, out, power):
    """Write the sum-product message through a Potts table of weights to `out` (k,).

    `power` (k,) is a scratch array. Return False if a sum may have lost terms by underflow.
    """
    top, where = weight[first], ZERO
    for a in range(ONE, k):
        if weight[first + a] > top:
            top, where = weight[first + a], a
    rest = 0.0
    for a in range(k):
        power[a] = math.exp(weight[first + a] - top) if a != where else 0.0
        rest += power[a]
    good = top > -math.inf
    for a in range(k):
        # The state `where` has the weight 1; `rest` is the sum over all other states.
        others = rest + (1.0 - power[a]) if a != where else rest
        total = equal * (power[a] if a != where else 1.0) + other * others
        good &= total > SMALLEST
        out[a] = math.log(total) if total > SMALLEST else 0.0
    return good


@jit(allocates=False)
def pair_weights(graph, e, k, n_other, first, weight, out, power):
    """Write the sum-product message through a table of two variables to `out` (k,).

    The exponentials of the table are in `graph.weights`, so that only the weights of the n_other
    states of the other variable need exponentials, instead of all k * n_other entries of the table.
    `power` (n_other,) is a scratch array. An entry whose sum may have lost terms by underflow is
    computed from logarithms.
    """
    slot, at = graph.slot[e], graph.table[e]
    row, across = (n_other, ONE) if slot == ZERO else (ONE, k)
    for b in range(n_other):
        power[b] = math.exp(weight[first + b])
    for a in range(k):
        total, place = 0.0, at + a * row
        for b in range(n_other):
            total += graph.weights[place] * power[b]
            place += across
        if total > SMALLEST:
            out[a] = math.log(total)
        else:
            out[a] = reduce_logs(graph.tables, at + a * row, across, n_other, weight, first)


@jit(allocates=False)
def lower(values, first, k):
    """Shift k values so that their maximum is 0, and return True.

    If all values are -inf, set them to 0 and return False.
    """
    high = -math.inf
    for a in range(k):
        high = max(high, values[first + a])
    good = high > -math.inf
    for a in range(k):
        values[first + a] = values[first + a] - high if good else 0.0
    return good
