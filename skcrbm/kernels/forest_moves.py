"""Local search for the best state: a move changes all variables of a random forest at once."""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import next_uniform, root_of
from skcrbm.kernels.search_tables import entry_of, state_score


@jit
def fill_next(seed, out):
    """Write the next uniform random numbers of a generator with state seed[0] to `out` (n,)."""
    for i in range(len(out)):
        out[i] = next_uniform(seed)


@jit
def choose(logs, n, temperature, seed):
    """Return one of n states with the log-weights `logs`.

    The state is drawn with probabilities proportional to exp(logs / temperature). If the
    temperature is 0, the state is drawn among the best states.
    """
    top = logs[0]
    for k in range(1, n):
        top = max(top, logs[k])
    total = 0.0
    for k in range(n):
        if temperature > 0.0:
            total += math.exp((logs[k] - top) / temperature)
        elif logs[k] >= top - 1e-12 * abs(top):
            total += 1.0
    u = next_uniform(seed) * total
    last = 0
    for k in range(n):
        if temperature > 0.0:
            weight = math.exp((logs[k] - top) / temperature)
        else:
            weight = 1.0 if logs[k] >= top - 1e-12 * abs(top) else 0.0
        if weight > 0.0:
            last = k
            u -= weight
            if u < 0.0:
                break
    return last


class _Forest(NamedTuple):
    """Arrays of `move_forests`, for n variables, F tables and E edges.

    An edge is a pair of a variable and a table that contains it. Variable v has the edges start[v]
    to start[v + 1] - 1.
    """

    start: np.ndarray  # (n + 1,) int64, first edge of each variable
    factor: np.ndarray  # (E,) int64, table of each edge
    stride: np.ndarray  # (E,) int64, stride of the variable in the table
    soft: np.ndarray  # entries of the tables, with a finite penalty instead of -inf
    # (F,) int64, for each table the index in `soft` of the entry for the current state, with the
    # state 0 for the variables of the forest
    code: np.ndarray
    n_free: np.ndarray  # (F,) int64, number of variables of each table in the forest, at most 2
    one: np.ndarray  # (F,) int64, first variable of each table in the forest
    two: np.ndarray  # (F,) int64, second variable of each table in the forest
    parent: np.ndarray  # (n,) int64, parent in the forest: -1 for a root, -3 outside of the forest
    queue: np.ndarray  # (n,) int64, variables of the forest, parents before their children
    belief: np.ndarray  # (n, K) log-weights of the states, with the messages of the children


@jit
def _choose_forest(order, state, forest, root, stamp, joined, free):
    """Choose the variables of a forest, in the given order, and set `free` (n,) to True for them.

    A variable is left out if one of its tables already has two variables in the forest, or if the
    variable would close a cycle. `root`, `stamp` and `joined` (n,) are scratch space.
    """
    start, factor, stride, _, code, n_free, one, two, _, _, _ = forest
    for f in range(len(n_free)):
        n_free[f] = 0
    for v in range(len(order)):
        root[v], stamp[v], free[v] = v, -1, False
    for v in order:
        accepted = True
        for e in range(start[v], start[v + 1]):
            f = factor[e]
            if n_free[f] >= 2:
                accepted = False
                break
            if n_free[f] == 1:
                r = root_of(root, one[f])
                if stamp[r] == v and joined[r] != one[f]:
                    accepted = False
                    break
                stamp[r], joined[r] = v, one[f]
        if not accepted:
            continue
        free[v] = True
        for e in range(start[v], start[v + 1]):
            f = factor[e]
            code[f] -= stride[e] * state[v]
            if n_free[f] == 0:
                one[f] = v
            else:
                two[f] = v
                root[root_of(root, one[f])] = v
            n_free[f] += 1


@jit
def _sort_forest(graph, order, free, forest):
    """Sort the variables of the forest by breadth-first search, and return their number.

    Each variable of the forest gets a belief: the log-weights of its states, given the variables
    outside of the forest.
    """
    start, factor, stride, soft, code, n_free, one, two, parent, queue, belief = forest
    count = 0
    for v in range(len(order)):
        parent[v] = -2 if free[v] else -3  # -2: not reached yet
    for top in order:
        if parent[top] != -2:
            continue
        parent[top] = -1
        head = count
        queue[count] = top
        count += 1
        while head < count:
            v = queue[head]
            head += 1
            for k in range(graph.n_states[v]):
                belief[v, k] = graph.unary[v, k]
            for e in range(start[v], start[v + 1]):
                f = factor[e]
                if n_free[f] == 1:
                    for k in range(graph.n_states[v]):
                        belief[v, k] += soft[code[f] + stride[e] * k]
                else:
                    u = two[f] if one[f] == v else one[f]
                    if parent[u] == -2:
                        parent[u] = v
                        queue[count] = u
                        count += 1
    return count


@jit
def _send_up(graph, count, temperature, forest, pair):
    """Send messages from the leaves of the forest to its roots.

    The messages are log-sums, or maxima if the temperature is 0. `pair` (K, K) is scratch space.
    """
    start, factor, stride, soft, code, n_free, one, two, parent, queue, belief = forest
    for i in range(count - 1, -1, -1):
        v = queue[i]
        p = parent[v]
        if p < 0:
            continue
        nv, n_p = graph.n_states[v], graph.n_states[p]
        for k in range(nv):
            for m in range(n_p):
                pair[k, m] = belief[v, k]
        for e in range(start[v], start[v + 1]):
            f = factor[e]
            if n_free[f] == 2 and (one[f] == p or two[f] == p):
                step = 0
                for other in range(graph.scope_start[f], graph.scope_start[f + 1]):
                    if graph.scope[other] == p:
                        step = graph.stride[other]
                for k in range(nv):
                    for m in range(n_p):
                        pair[k, m] += soft[code[f] + stride[e] * k + step * m]
        for m in range(n_p):
            largest = pair[0, m]
            for k in range(1, nv):
                largest = max(largest, pair[k, m])
            if temperature > 0.0:
                total = 0.0
                for k in range(nv):
                    total += math.exp((pair[k, m] - largest) / temperature)
                largest += temperature * math.log(total)
            belief[p, m] += largest


@jit
def _choose_states(graph, count, temperature, seed, forest, logs, state):
    """Choose the states of the variables of the forest, parents before children.

    `logs` (K,) is scratch space.
    """
    start, factor, stride, soft, code, n_free, one, two, parent, queue, belief = forest
    for i in range(count):
        v = queue[i]
        p = parent[v]
        for k in range(graph.n_states[v]):
            logs[k] = belief[v, k]
        if p >= 0:
            for e in range(start[v], start[v + 1]):
                f = factor[e]
                if n_free[f] == 2 and (one[f] == p or two[f] == p):
                    # `code` already includes the state of the parent, so add only the state of v.
                    for k in range(graph.n_states[v]):
                        logs[k] += soft[code[f] + stride[e] * k]
        state[v] = choose(logs, graph.n_states[v], temperature, seed)
        for e in range(start[v], start[v + 1]):
            code[factor[e]] += stride[e] * state[v]


@jit
def move_forests(graph, state, best, best_value, temperatures, penalty, seed):
    """Improve a state by moves, each of which changes all variables of a forest at once.

    A forest is a random set of variables. Each table has at most two variables in the set, and the
    graph of these pairs has no cycle. Given all other variables, message passing can therefore draw
    a joint state of the forest, or find its best joint state. A move at temperature 0 chooses the
    best joint state, so that it never lowers the score.

    Parameters
    ----------
    graph : SearchTables
    state : (n,) int64, changed
    best : (n,) int64, best state found, changed
    best_value : (2,) float64, changed; sum of the finite log-weights of `best`, and number of its
        table entries that are -inf
    temperatures : float64, temperature of each move
    penalty : float; an entry of -inf counts as ``-penalty`` in a move
    seed : (1,) uint64, state of the random number generator, changed
    """
    n, n_levels = graph.unary.shape
    n_factors = len(graph.first)
    soft = graph.entries.copy()
    for i in range(len(soft)):
        if soft[i] == -np.inf:
            soft[i] = -penalty
    order = np.arange(n)
    root, stamp, joined = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    free = np.empty(n, np.bool_)
    pair, logs = np.empty((n_levels, n_levels)), np.empty(n_levels)
    code = np.empty(n_factors, np.int64)
    forest = _Forest(
        graph.variable_start,
        graph.edge_factor[graph.variable_edge],
        graph.stride[graph.variable_edge],
        soft,
        code,
        np.empty(n_factors, np.int64),
        np.empty(n_factors, np.int64),
        np.empty(n_factors, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty((n, n_levels)),
    )
    for f in range(n_factors):
        code[f] = entry_of(graph, f, state)
    for temperature in temperatures:
        for i in range(n - 1, 0, -1):
            j = np.int64(next_uniform(seed) * (i + 1))
            order[i], order[j] = order[j], order[i]
        _choose_forest(order, state, forest, root, stamp, joined, free)
        count = _sort_forest(graph, order, free, forest)
        _send_up(graph, count, temperature, forest, pair)
        _choose_states(graph, count, temperature, seed, forest, logs, state)
        score, n_bad = state_score(graph, state)
        if n_bad < best_value[1] or (n_bad == best_value[1] and score > best_value[0]):
            best[:] = state
            best_value[0], best_value[1] = score, n_bad


@jit
def local_gaps(graph, state, penalty, out):
    """For each of n variables, write the score of its best state minus its second-best to `out`.

    All other variables keep their states. An entry of -inf counts as ``-penalty``.
    """
    for v in range(len(state)):
        best, second = -np.inf, -np.inf
        for k in range(graph.n_states[v]):
            x = graph.unary[v, k]
            for i in range(graph.variable_start[v], graph.variable_start[v + 1]):
                f = graph.edge_factor[graph.variable_edge[i]]
                at = graph.first[f]
                for e in range(graph.scope_start[f], graph.scope_start[f + 1]):
                    u = graph.scope[e]
                    at += graph.stride[e] * (k if u == v else state[u])
                x += max(graph.entries[at], -penalty)
            if x > best:
                best, second = x, best
            else:
                second = max(second, x)
        out[v] = best - second
