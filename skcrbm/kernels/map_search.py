"""Bound the scores of factor graphs, and find best states by branch and bound over mini-buckets."""

from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.search_tables import add_beliefs, subtract_shares, table_size


class Functions(NamedTuple):
    """Functions (tables) of mini-bucket elimination.

    There are n buckets and G functions. Bucket i has the functions start[i] to start[i + 1] - 1. If
    the sign of a function is positive, the function is in the bucket. If the sign is negative, the
    function is a message that the bucket sent.
    """

    start: np.ndarray  # (n + 1,) int64, first function of each bucket
    sign: np.ndarray  # (G,) float64, +1 or -1
    scope_start: np.ndarray  # (G + 1,) int64, first entry of each function in `scope` and `stride`
    scope: np.ndarray  # int64, variables of the functions
    stride: np.ndarray  # int64, strides of the variables in the tables
    first: np.ndarray  # (G,) int64, position of the first entry of each function in `entries`
    entries: np.ndarray  # float64, entries of all functions


@jit
def shift_tables(graph, belief, n_sweeps):
    """Lower the upper bound of the score by sweeps of MPLP (see `pair_dual`), and return the bound.

    The bound is the sum of the maxima of all tables and beliefs. `belief` (n, K) and
    `graph.entries` are changed, but the score of each state of the model stays the same. A step
    adds the beliefs of the m variables of a table to the table. It then moves 1 / m of the
    max-marginals of each variable from the table to the belief of the variable.
    """
    n, n_levels = belief.shape
    width = 1
    for f in range(len(graph.first)):
        width = max(width, graph.scope_start[f + 1] - graph.scope_start[f])
    digit = np.zeros(width, np.int64)
    best = np.empty((width, n_levels))
    for sweep in range(n_sweeps):
        for back in range(len(graph.first)):
            f = back if sweep % 2 == 0 else len(graph.first) - 1 - back
            add_beliefs(graph, f, belief, graph.entries, best, digit)
            low, m = graph.scope_start[f], graph.scope_start[f + 1] - graph.scope_start[f]
            for j in range(m):
                v = graph.scope[low + j]
                for k in range(graph.n_states[v]):
                    best[j, k] /= m
                    belief[v, k] = best[j, k]
            subtract_shares(graph, f, best, 0.0, -np.inf, graph.entries, digit)
    bound = 0.0
    for back in range(len(graph.first)):
        f = back if n_sweeps % 2 == 0 else len(graph.first) - 1 - back
        top = -np.inf
        for i in range(graph.first[f], graph.first[f] + table_size(graph, f)):
            top = max(top, graph.entries[i])
        bound += top
    for v in range(n):
        top = belief[v, 0]
        for k in range(1, graph.n_states[v]):
            top = max(top, belief[v, k])
        bound += top
    return bound


@jit
def maximise_bucket(shape, n_states, strides, firsts, tables, out, where):
    """Add T tables of m + 1 variables, maximise the sum over one variable, and store the maxima.

    Parameters
    ----------
    shape : (m,) numbers of states of the variables that remain
    n_states : number of states of the variable that is maximised over
    strides : (T, m + 1) strides of the variables in each table; the last column belongs to the
        variable that is maximised over
    firsts : (T,) position of each table in `tables`
    tables : float64, entries of all tables
    out : (product of shape,) float64 output, the maxima
    where : uint8 or uint16 output with the shape of `out`, the first state of the variable that
        attains the maximum; or an empty array
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


class Branches(NamedTuple):
    """The path from the root to the current node of `branch`.

    The step at depth i of the path gives variable order[i] a state.
    """

    state: np.ndarray  # (n,) int64, state of each variable that the path has decided
    logs: np.ndarray  # (n, K) values of the children of the node at each depth
    position: np.ndarray  # (n,) int64, number of children visited before the current child


@jit
def branch(functions, order, n_states, root, value, tol, limit, allowed, depth, path, best):
    """Continue a depth-first search. Return the depth, the best value and the number of nodes.

    If the returned depth is negative, the search has visited all nodes. A node at depth i decides
    variable order[i]. The value of a node is an upper bound of the score of all states below the
    node: the value of its parent, minus the messages that its bucket sent, plus the functions in
    the bucket.

    The search is limited to paths that mostly follow the best children. A step to the second-best
    child counts as one departure, a step to the third-best child as two departures, and so on. A
    path with more departures than allowed is cut off.

    Parameters
    ----------
    functions : Functions
    order, n_states : (n,) int64, order in which variables are decided, and their numbers of states
    root : float, value of the root
    value : float, value of the best known state
    tol : float; a child is visited if its value exceeds the best value by more than `tol`
    limit : int, largest number of nodes to visit
    allowed : (2,) int64: allowed[0] is the largest number of departures; allowed[1] counts the
        paths that are cut off, changed
    depth : int, depth of the current node
    path : Branches, changed
    best : (n,) int64, best state; changed
    """
    state, logs, position = path
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
