"""Mean field by coordinate ascent, on factor graphs whose variables have any number of states.

The models of a block have the same factors and lie side by side, as SIMD lanes. The variables are
visited by ascending index. A visited variable adds its own log-weights and the expected log-weights
of its factors, given the probabilities of the other variables. Its probabilities are then
proportional to the exponentials of these sums.

The expectation of a table of two variables a, b is a sum of products ``q_a q_b t_ab``. Since
probabilities add up to 1, it is enough to sum over the states from 1 on, if the terms of states 0
are subtracted from the table and added to the variables' own log-weights. So two
states take a single product. An entry of weight 0 counts as the log-weight ``-cost``.

The weights of an OR are not stored as a table. Let p be the probability that all its inputs are 0.
If the output is 1, the OR is violated with the probability p, otherwise with 1 - p. An AND is an OR
of negated variables.
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.arguments import ONE, OR, PAIR, TABLE, ZERO
from skcrbm.kernels.exponentials import exp_in_place
from skcrbm.kernels.jit import jit

# Probabilities below this number are replaced by 0.
_LEAST = 1e-300


class MeanFieldGraph(NamedTuple):
    """Factors of n variables with S states in total and E edges, sorted by variable.

    Index arrays are uintp. The edges of a factor have successive places, in the order of its axes.
    """

    state_start: np.ndarray  # (n + 1,): first state of each variable
    edge_start: np.ndarray  # (n + 1,): first edge of each variable
    kind: np.ndarray  # (E,) int8: PAIR, POTTS, TABLE, OR or AND
    slot: np.ndarray  # (E,): axis of the edge's variable in its factor
    scope: np.ndarray  # (E,): place of the factor's first edge in `first` and `count`
    arity: np.ndarray  # (E,): number of variables of the factor
    table: np.ndarray  # (E,): first entry of the factor in `tables`; for OR and AND, a row of `off`
    first: np.ndarray  # (E,): first state of the variable at each place
    count: np.ndarray  # (E,): number of states of the variable at each place
    tables: np.ndarray  # (T,) float64 log-weights, -inf for weight 0; pairs are reduced


class MeanFieldModels(NamedTuple):
    """A block of models with the same factors, one per lane. Converged lanes move to the end."""

    own: np.ndarray  # (S, lanes) own log-weight of each state, -inf if the state is impossible
    cost: np.ndarray  # (lanes,) penalty of an entry of weight 0
    settled: np.ndarray  # (n,) bool, True for variables with one possible state in all models
    belief: np.ndarray  # (S, lanes) output, probabilities
    total: np.ndarray  # (S, lanes) log-weights of the first beliefs; output: last log-weights
    order: np.ndarray  # (lanes,) int64 output, index of the model in each lane at the end


class MeanFieldAnswers(NamedTuple):
    """Arrays with a row for each model of a block, which `mean_field` fills in."""

    n_iter: np.ndarray  # (lanes,) number of iterations
    converged: np.ndarray  # (lanes,) bool, True for models that have converged
    trace: np.ndarray  # (lanes, max_iter or 0) largest change of a probability in each iteration


class MeanFieldWork(NamedTuple):
    """Scratch arrays; K is the largest number of states of a variable."""

    sums: np.ndarray  # (K * lanes,)
    high: np.ndarray  # (lanes,)
    part: np.ndarray  # (lanes,)
    change: np.ndarray  # (lanes,)


@jit(allocates=False)
def _add_pair(graph, e, k, belief, sums, n_lanes):
    """Add the expected log-weights of a reduced table of two variables to the states 1 to k - 1."""
    slot, at = graph.slot[e], graph.table[e]
    mate = graph.scope[e] + ONE - slot
    first, n_other = graph.first[mate], graph.count[mate]
    row, across = (n_other - ONE, ONE) if slot == ZERO else (ONE, k - ONE)
    for a in range(k - ONE):
        place, to = at + a * row, (a + ONE) * n_lanes
        for b in range(n_other - ONE):
            x, s = graph.tables[place], first + ONE + b
            place += across
            for l in range(n_lanes):
                sums[to + l] += x * belief[s, l]


@jit(allocates=False)
def _add_potts(graph, e, k, belief, sums, n_lanes):
    """Add what the expected log-weight of each state exceeds the value off the diagonal by."""
    mate = graph.scope[e] + ONE - graph.slot[e]
    first, x = graph.first[mate], graph.tables[graph.table[e]]
    for a in range(k):
        for l in range(n_lanes):
            sums[a * n_lanes + l] += x * belief[first + a, l]


@jit(allocates=False)
def _add_table(graph, e, cost, belief, sums, p, digits, n_lanes):
    """Add the expected log-weights of a table."""
    scope, m, slot = graph.scope[e], graph.arity[e], graph.slot[e]
    size = ONE
    for j in range(m):
        size *= graph.count[scope + j]
        digits[j] = ZERO
    for s in range(size):
        for l in range(n_lanes):
            p[l] = 1.0
        for j in range(m):
            if j != slot:
                state = graph.first[scope + j] + digits[j]
                for l in range(n_lanes):
                    p[l] *= belief[state, l]
        x, to = graph.tables[graph.table[e] + s], digits[slot] * n_lanes
        if x == -math.inf:
            for l in range(n_lanes):
                sums[to + l] -= p[l] * cost[l]
        else:
            for l in range(n_lanes):
                sums[to + l] += x * p[l]
        for i in range(m):
            j = m - ONE - i
            digits[j] += ONE
            if digits[j] < graph.count[scope + j]:
                break
            digits[j] = ZERO


@jit(allocates=False)
def _add_logic(graph, e, cost, belief, off, sums, n_lanes):
    """Add the expected log-weights of an OR or AND to the states 0 and 1 of a variable."""
    scope, slot, row = graph.scope[e], graph.slot[e], graph.table[e]
    last = graph.arity[e] - ONE
    # State `on` of a variable is 1 for an OR, and 0 for an AND, whose variables are negated.
    on = ONE if graph.kind[e] == OR else ZERO
    to, output = on * n_lanes, graph.first[scope + last]
    if slot == last:
        for l in range(n_lanes):
            sums[to + l] += cost[l] * (1.0 - 2.0 * math.exp(min(off[row, l], 0.0)))
        return
    own = graph.first[scope + slot] + ONE - on
    for l in range(n_lanes):
        rest = off[row, l] - math.log(max(belief[own, l], _LEAST))
        apart = belief[output + on, l] - belief[output + ONE - on, l]
        sums[to + l] += cost[l] * apart * math.exp(min(rest, 0.0))


@jit(allocates=False)
def _all_off(graph, e, belief, off, n_lanes):
    """Set the row of an OR or AND in `off` to the log-probability that all its inputs are off."""
    scope, row = graph.scope[e], graph.table[e]
    state = ZERO if graph.kind[e] == OR else ONE
    for l in range(n_lanes):
        off[row, l] = 0.0
    for j in range(graph.arity[e] - ONE):
        s = graph.first[scope + j] + state
        for l in range(n_lanes):
            off[row, l] += math.log(max(belief[s, l], _LEAST))


@jit(allocates=False)
def _normalise_two(start, sums, belief, part, change, n_lanes):
    """Do the same as `_normalise` for two states, by a single exponential."""
    for l in range(n_lanes):
        apart = abs(sums[n_lanes + l] - sums[l])
        part[l] = -apart if apart == apart else 0.0  # both states may be impossible
    exp_in_place(part, n_lanes)
    for l in range(n_lanes):
        z = part[l] if part[l] > _LEAST else 0.0
        large = 1.0 / (1.0 + z)
        small = z * large
        on = sums[n_lanes + l] >= sums[l]
        new = large if on else small
        change[l] = max(change[l], abs(new - belief[start + ONE, l]))
        belief[start + ONE, l] = new
        belief[start, l] = small if on else large


@jit(allocates=False)
def _normalise(k, start, sums, belief, high, part, change, n_lanes):
    """Set the probabilities of k states from their log-weights, and update the largest change.

    `sums` (k * lanes,) holds the log-weights, which are overwritten.
    """
    for l in range(n_lanes):
        high[l] = max(sums[l], sums[n_lanes + l]) if k > ONE else sums[l]
        part[l] = 0.0
    for a in range(ONE + ONE, k):
        for l in range(n_lanes):
            high[l] = max(high[l], sums[a * n_lanes + l])
    for a in range(k):
        for l in range(n_lanes):
            sums[a * n_lanes + l] -= high[l] if high[l] > -math.inf else 0.0
    exp_in_place(sums, k * n_lanes)
    for a in range(k):
        for l in range(n_lanes):
            x = sums[a * n_lanes + l]
            part[l] += x if x > _LEAST else 0.0
    for l in range(n_lanes):
        part[l] = 1.0 / part[l] if part[l] > 0.0 else 0.0
    for a in range(k):
        for l in range(n_lanes):
            x = sums[a * n_lanes + l]
            new = (x if x > _LEAST else 0.0) * part[l] if part[l] > 0.0 else 1.0 / k
            change[l] = max(change[l], abs(new - belief[start + a, l]))
            belief[start + a, l] = new


@jit(allocates=False)
def _visit(graph, v, models, work, off, digits, general, n_lanes):
    """Compute the log-weights of the states of a variable, given all other variables."""
    own, cost, _, belief, _, _ = models
    sums, start = work.sums, graph.state_start[v]
    k = graph.state_start[v + ONE] - start
    for a in range(k):
        for l in range(n_lanes):
            sums[a * n_lanes + l] = own[start + a, l]
    for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
        kind = graph.kind[e]
        if kind == PAIR:
            if general is None:
                s, x = (
                    graph.first[graph.scope[e] + ONE - graph.slot[e]],
                    graph.tables[graph.table[e]],
                )
                for l in range(n_lanes):
                    sums[n_lanes + l] += x * belief[s + ONE, l]
            else:
                _add_pair(graph, e, k, belief, sums, n_lanes)
        elif kind >= OR:
            if off is not None:
                _add_logic(graph, e, cost, belief, off, sums, n_lanes)
        elif kind == TABLE:
            if digits is not None:
                _add_table(graph, e, cost, belief, sums, work.part, digits, n_lanes)
        elif general is not None:
            _add_potts(graph, e, k, belief, sums, n_lanes)


@jit(allocates=False)
def _move_inputs(graph, v, sign, belief, off, n_lanes):
    """Add `sign` times the log-probability of an input to the rows of its ORs and ANDs in `off`."""
    for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
        kind = graph.kind[e]
        if kind >= OR and graph.slot[e] < graph.arity[e] - ONE:
            s = graph.state_start[v] + (ZERO if kind == OR else ONE)
            for l in range(n_lanes):
                off[graph.table[e], l] += sign * math.log(max(belief[s, l], _LEAST))


@jit(allocates=False)
def _drop_done(iteration, tol, models, answers, change, n_lanes):
    """Move models that have converged to the last lanes; return the number of the other models."""
    own, cost, _, belief, total, order = models
    n_left = n_lanes
    for i in range(n_lanes):
        l = n_lanes - ONE - i
        m = order[l]
        if answers.trace.shape[1]:
            answers.trace[m, iteration] = change[l]
        if change[l] < tol:
            answers.n_iter[m] = iteration + 1
            answers.converged[m] = True
            n_left -= ONE
            if l < n_left:
                order[l], order[n_left] = order[n_left], order[l]
                cost[l], cost[n_left] = cost[n_left], cost[l]
                for array in (own, belief, total):
                    for s in range(np.uintp(array.shape[0])):
                        array[s, l], array[s, n_left] = array[s, n_left], array[s, l]
    return n_left


@jit(allocates=False)
def mean_field(graph, models, max_iter, tol, answers, work, off, digits, general):
    """Run coordinate ascent on a block of models until each model has converged.

    Parameters
    ----------
    graph, models, answers, work : the NamedTuples above
    max_iter : int, largest number of iterations
    tol : float, largest change of a probability that counts as no change
    off : scratch array (number of OR and AND factors, lanes) for the log-probability that all
        inputs are off, or None without these factors
    digits : scratch array of uintp, (largest number of variables of a TABLE,), or None without them
    general : True, or None if all variables have two states
        A kernel that gets None is compiled without the parts for other factors and variables.
    """
    _, _, settled, belief, total, order = models
    sums, change, n_lanes = work.sums, work.change, np.uintp(belief.shape[1])
    for l in range(n_lanes):
        order[l] = l
        answers.n_iter[l] = max_iter
    for iteration in range(-1, max_iter):  # -1: compute the first beliefs
        for l in range(n_lanes):
            change[l] = 0.0
        if off is not None:
            for e in range(np.uintp(graph.kind.shape[0])):
                if graph.slot[e] == ZERO and graph.kind[e] >= OR:
                    _all_off(graph, e, belief, off, n_lanes)
        for v in range(np.uintp(graph.edge_start.shape[0] - 1)):
            start = graph.state_start[v]
            k = graph.state_start[v + ONE] - start
            if iteration < 0:
                for a in range(k):
                    for l in range(n_lanes):
                        sums[a * n_lanes + l] = total[start + a, l]
            elif settled[v]:
                continue
            else:
                _visit(graph, v, models, work, off, digits, general, n_lanes)
                for a in range(k):
                    for l in range(n_lanes):
                        total[start + a, l] = sums[a * n_lanes + l]
                if off is not None:
                    _move_inputs(graph, v, -1.0, belief, off, n_lanes)
            if general is None:  # noqa: SIM114, Numba leaves out only this test of None
                _normalise_two(start, sums, belief, work.part, change, n_lanes)
            elif k == ONE + ONE:
                _normalise_two(start, sums, belief, work.part, change, n_lanes)
            else:
                _normalise(k, start, sums, belief, work.high, work.part, change, n_lanes)
            if off is not None:
                _move_inputs(graph, v, 1.0, belief, off, n_lanes)
        if iteration >= 0:
            n_lanes = _drop_done(iteration, tol, models, answers, change, n_lanes)
        if n_lanes == ZERO:
            break
