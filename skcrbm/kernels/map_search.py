"""Find the best state of a factor graph of tables, by moves of forests and by branch and bound."""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import GOLDEN, unit_interval


class TableGraph(NamedTuple):
    """Tables of two or more variables, and a row of log-weights for each variable.

    The next state of the variable of edge e lies stride[e] entries further in the table. Tables may
    contain -inf. The log-weights of single variables are finite. If a variable has fewer than K
    states, the other entries of its row are 0.
    """

    n_states: np.ndarray  # (n,) int64
    unary: np.ndarray  # (n, K) float64
    scope_start: np.ndarray  # (F + 1,) int64, first edge of each factor
    scope: np.ndarray  # (E,) int64, variable of each edge
    stride: np.ndarray  # (E,) int64
    edge_factor: np.ndarray  # (E,) int64
    variable_start: np.ndarray  # (n + 1,) int64
    variable_edge: np.ndarray  # (E,) int64, edges sorted by variable
    first: np.ndarray  # (F,) int64, position of each table in `entries`
    entries: np.ndarray  # float64


class Functions(NamedTuple):
    """Functions of mini-bucket elimination. Bucket i has functions start[i] to start[i + 1] - 1.

    Functions with a positive `sign` are the content of a bucket; functions with a negative sign are
    the messages that the bucket sent.
    """

    start: np.ndarray  # (n + 1,) int64
    sign: np.ndarray  # (G,) float64
    scope_start: np.ndarray  # (G + 1,) int64
    scope: np.ndarray  # int64 variables
    stride: np.ndarray  # int64
    first: np.ndarray  # (G,) int64, position of the first entry
    entries: np.ndarray  # float64


@jit
def _uniform(seed):
    """Return the next uniform random number of a generator, whose state seed[0] is updated."""
    seed[0] += GOLDEN
    return unit_interval(seed[0])


@jit
def fill_next(seed, out):
    """Write the next uniform random numbers of a generator with state seed[0] to `out` (n,)."""
    for i in range(len(out)):
        out[i] = _uniform(seed)


@jit
def state_score(graph, state):
    """Return the sum of the finite log-weights of a state, and how many of its entries are -inf."""
    total, n_bad = 0.0, 0
    for v in range(len(state)):
        total += graph.unary[v, state[v]]
    for f in range(len(graph.first)):
        at = graph.first[f]
        for e in range(graph.scope_start[f], graph.scope_start[f + 1]):
            at += graph.stride[e] * state[graph.scope[e]]
        x = graph.entries[at]
        if x == -np.inf:
            n_bad += 1
        else:
            total += x
    return total, n_bad


@jit
def _root(parent, v):
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


@jit
def _choose(logs, n, temperature, seed):
    """Return one of n states with the log-weights `logs`.

    The state is drawn with probabilities exp(logs / temperature). If the temperature is 0, it is
    drawn among the best states.
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
    u = _uniform(seed) * total
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


@jit
def move_forests(graph, state, best, best_value, temperatures, penalty, seed):
    """Improve a state by moves: draw or maximise a forest of variables given all other variables.

    There is one move for each temperature. At temperature 0 the variables of the forest get their
    best states together, which never lowers the score. A forest is a random set of variables. Each
    table has at most two variables in the forest, and the graph of these pairs has no cycle.
    `state` (n,) is updated. `best` (n,) receives the best state found, best_value[0] its score, and
    best_value[1] its number of entries of -inf. An entry of -inf counts as -penalty in a move.
    """
    n, n_levels = graph.unary.shape
    n_factors = len(graph.first)
    soft = graph.entries.copy()
    for i in range(len(soft)):
        if soft[i] == -np.inf:
            soft[i] = -penalty
    order = np.arange(n)
    queue = np.empty(n, np.int64)
    parent, root = np.empty(n, np.int64), np.empty(n, np.int64)
    free, stamp, joined = np.empty(n, np.bool_), np.empty(n, np.int64), np.empty(n, np.int64)
    n_free = np.empty(n_factors, np.int64)
    one, two = np.empty(n_factors, np.int64), np.empty(n_factors, np.int64)
    code = np.empty(n_factors, np.int64)
    belief = np.empty((n, n_levels))
    pair = np.empty((n_levels, n_levels))
    logs = np.empty(n_levels)
    start, scope = graph.variable_start, graph.scope
    factor, stride = graph.edge_factor[graph.variable_edge], graph.stride[graph.variable_edge]
    for f in range(n_factors):
        at = graph.first[f]
        for e in range(graph.scope_start[f], graph.scope_start[f + 1]):
            at += graph.stride[e] * state[scope[e]]
        code[f] = at
    for temperature in temperatures:
        for f in range(n_factors):
            n_free[f] = 0
        for i in range(n - 1, 0, -1):
            j = int(_uniform(seed) * (i + 1))
            order[i], order[j] = order[j], order[i]
        for v in range(n):
            root[v], stamp[v], free[v] = v, -1, False
        for v in order:
            accepted = True
            for e in range(start[v], start[v + 1]):
                f = factor[e]
                if n_free[f] >= 2:
                    accepted = False
                    break
                if n_free[f] == 1:
                    r = _root(root, one[f])
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
                    root[_root(root, one[f])] = v
                n_free[f] += 1
        count = 0
        for v in range(n):
            parent[v] = -2 if free[v] else -3
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
                        if scope[other] == p:
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
        for i in range(count):
            v = queue[i]
            p = parent[v]
            for k in range(graph.n_states[v]):
                logs[k] = belief[v, k]
            if p >= 0:
                for e in range(start[v], start[v + 1]):
                    f = factor[e]
                    if n_free[f] == 2 and (one[f] == p or two[f] == p):
                        # `code` includes the state of the parent already: add the own state only.
                        for k in range(graph.n_states[v]):
                            logs[k] += soft[code[f] + stride[e] * k]
            state[v] = _choose(logs, graph.n_states[v], temperature, seed)
            for e in range(start[v], start[v + 1]):
                code[factor[e]] += stride[e] * state[v]
        score, n_bad = 0.0, 0
        for v in range(n):
            score += graph.unary[v, state[v]]
        for f in range(n_factors):
            x = graph.entries[code[f]]
            if x == -np.inf:
                n_bad += 1
            else:
                score += x
        if n_bad < best_value[1] or (n_bad == best_value[1] and score > best_value[0]):
            best[:] = state
            best_value[0], best_value[1] = score, n_bad


@jit
def local_gaps(graph, state, penalty, out):
    """Write the score gap between the two best states of each variable to `out` (n,).

    All other variables keep their states.
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


@jit
def shift_tables(graph, belief, n_sweeps):
    """Lower the upper bound on the score by `n_sweeps` sweeps of MPLP, and return the bound.

    The bound is the sum of the maxima of all tables and beliefs. `belief` (n, K) and
    `graph.entries` are changed, but their total for each state stays the same. A step adds the
    beliefs of a table's variables to the table, and then gives each variable an equal share of
    its max-marginals of the table.
    """
    n, n_levels = belief.shape
    width = 1
    for f in range(len(graph.first)):
        width = max(width, graph.scope_start[f + 1] - graph.scope_start[f])
    digit = np.zeros(width, np.int64)
    best = np.empty((width, n_levels))
    bound = 0.0
    for sweep in range(n_sweeps + 1):
        bound = 0.0
        for back in range(len(graph.first)):
            f = back if sweep % 2 == 0 else len(graph.first) - 1 - back
            low, m = graph.scope_start[f], graph.scope_start[f + 1] - graph.scope_start[f]
            size = 1
            for j in range(m):
                size *= graph.n_states[graph.scope[low + j]]
                digit[j] = 0
            best[:m] = -np.inf
            top = -np.inf
            for i in range(graph.first[f], graph.first[f] + size):
                x = graph.entries[i]
                if sweep < n_sweeps:
                    for j in range(m):
                        x += belief[graph.scope[low + j], digit[j]]
                    for j in range(m):
                        best[j, digit[j]] = max(best[j, digit[j]], x)
                    graph.entries[i] = x
                top = max(top, x)
                j = m - 1
                while j >= 0:
                    digit[j] += 1
                    if digit[j] < graph.n_states[graph.scope[low + j]]:
                        break
                    digit[j] = 0
                    j -= 1
            if sweep == n_sweeps:
                bound += top
                continue
            for j in range(m):
                digit[j] = 0
                v = graph.scope[low + j]
                for k in range(graph.n_states[v]):
                    belief[v, k] = best[j, k] / m
            for i in range(graph.first[f], graph.first[f] + size):
                for j in range(m):
                    graph.entries[i] -= belief[graph.scope[low + j], digit[j]]
                j = m - 1
                while j >= 0:
                    digit[j] += 1
                    if digit[j] < graph.n_states[graph.scope[low + j]]:
                        break
                    digit[j] = 0
                    j -= 1
    for v in range(n):
        top = belief[v, 0]
        for k in range(1, graph.n_states[v]):
            top = max(top, belief[v, k])
        bound += top
    return bound


@jit
def maximise_bucket(shape, n_states, strides, firsts, tables, out, where):
    """Add tables, maximise the sum over one variable, and write the maxima to `out`.

    Parameters
    ----------
    shape : (m,) numbers of states of the other variables
    n_states : number of states of the variable
    strides : (T, m + 1) steps in each table; the last column belongs to the variable
    firsts : (T,) position of each table in `tables`
    tables : float64, entries of all tables
    out : (product of shape,) float64 output
    where : uint8 or uint16 output with the shape of `out`, the first state of the variable that
        attains the maximum; or empty
    """
    m, n_tables = len(shape), len(firsts)
    digit = np.zeros(m, np.int64)
    at = firsts.copy()
    for i in range(len(out)):
        best, state = -np.inf, 0
        for k in range(n_states):
            x = 0.0
            for t in range(n_tables):
                x += tables[at[t] + k * strides[t, m]]
            if x > best:
                best, state = x, k
        out[i] = best
        if len(where):
            where[i] = state
        j = m - 1
        while j >= 0:
            digit[j] += 1
            if digit[j] < shape[j]:
                for t in range(n_tables):
                    at[t] += strides[t, j]
                break
            for t in range(n_tables):
                at[t] -= strides[t, j] * (shape[j] - 1)
            digit[j] = 0
            j -= 1


@jit
def branch(
    functions, order, n_states, root, value, tol, limit, allowed, depth, state, logs, position, best
):  # fmt: skip
    """Continue a depth-first search; return the depth, the best value and the number of nodes.

    The search has ended if the returned depth is negative. A node at depth i decides variable
    order[i]. Its value is an upper bound for all states below the node: the value of its parent,
    minus the messages that its bucket sent, plus the functions in the bucket.

    `root` is the value of the root, and `value` the value of the best state found, which is
    written to `best`. `limit` is the largest number of nodes to visit. `logs` (n, K) holds the
    values of the children of each node on the path, and `position` (n,) the number of children
    already visited. A step to the best child of a node costs nothing, a step to the second-best
    child is one departure, a step to the third-best two, and so on. Paths with more than allowed[0]
    departures are cut off, and allowed[1] counts the cuts.
    """
    n = len(order)
    n_nodes = 0
    fresh = position[max(depth, 0)] < 0
    departures = 0
    for i in range(depth):
        departures += position[i]
    while depth >= 0 and n_nodes < limit:
        v = order[depth]
        if fresh:
            n_nodes += 1
            above = logs[depth - 1, state[order[depth - 1]]] if depth > 0 else root
            for k in range(n_states[v]):
                logs[depth, k] = 0.0
            for g in range(functions.start[depth], functions.start[depth + 1]):
                at, step = functions.first[g], 0
                for e in range(functions.scope_start[g], functions.scope_start[g + 1]):
                    u = functions.scope[e]
                    if u == v:
                        step = functions.stride[e]
                    else:
                        at += functions.stride[e] * state[u]
                if functions.sign[g] < 0.0:
                    above -= functions.entries[at]
                else:
                    for k in range(n_states[v]):
                        logs[depth, k] += functions.entries[at + step * k]
            for k in range(n_states[v]):
                logs[depth, k] += above
            position[depth] = 0
        else:
            # Children are visited in descending order of their values. So the next child is the
            # best child below `last_value`, the value of the child that was visited last.
            position[depth] += 1
        last_value, last = np.inf, -1
        if position[depth] > 0:
            last = state[v]
            last_value = logs[depth, last]
        chosen = -1
        for k in range(n_states[v]):
            x = logs[depth, k]
            if x <= value + tol or x > last_value or (x == last_value and k <= last):
                continue
            if chosen < 0 or x > logs[depth, chosen]:
                chosen = k
        if chosen >= 0 and departures + position[depth] > allowed[0]:
            allowed[1] += 1
            chosen = -1
        if chosen < 0:
            position[depth] = -1
            depth -= 1
            fresh = False
            if depth >= 0:
                departures -= position[depth]
            continue
        state[v] = chosen
        if depth == n - 1:
            value = logs[depth, chosen]
            best[:] = state
            fresh = False
        else:
            departures += position[depth]
            depth += 1
            position[depth] = -1
            fresh = True
    return depth, value, n_nodes
