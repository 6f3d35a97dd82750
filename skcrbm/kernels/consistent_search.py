"""Branch and bound on the tables of a factor graph, with soft local consistency at each node.

A node shifts log-weights between tables and variables, which keeps the score of each state. The
sum of the maxima of all tables and variables is an upper bound of the score, and the shifts lower
it. Entries and states that cannot belong to a better state than the best known state become -inf.
"""

from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.search_tables import add_beliefs, subtract_shares, table_size

# The first node of a search may shift _REPLAY times as many entries as later nodes, because all
# decisions on its path are new.
_REPLAY = 20
# Until a state of positive weight is known, _FIRST_GAP stands for the gap between bound and score.
_FIRST_GAP = 100.0
# A node branches on the variable with the largest weight per state (see `SearchArrays`) times its
# gain, by which the bound would fall. This number is added to the gain, so that the weights decide
# among variables without a gain.
_LEAST_GAIN = 1e-3


class SearchArrays(NamedTuple):
    """Arrays that a depth-first search reads and changes."""

    belief: np.ndarray  # (n, K) float64, shifted log-weights of the variables, with maxima 0
    entries: np.ndarray  # float64, shifted entries of the tables
    # (P, 3) int32, decisions: a variable, a state, and 1 if the variable has the state or 0 if the
    # state is excluded
    path: np.ndarray
    # (n,) float64, number of tables of each variable, plus 1 for each failure: a table of the
    # variable that proved a node hopeless
    weight: np.ndarray
    best: np.ndarray  # (n,) int64, best state
    work: np.ndarray  # (2,) int64: number of visited entries; 1 if the last node is still open


class SavedNodes(NamedTuple):
    """Nodes on the path that have an unvisited right child; the first axis is the depth."""

    belief: np.ndarray  # (D, n, K)
    entries: np.ndarray  # (D, n_entries)
    bound: np.ndarray  # (D,)
    n_before: np.ndarray  # (D,) int64, number of decisions before the left child


class DepthLimits(NamedTuple):
    """When a search stops, and how far it shifts log-weights."""

    tol: float  # rounding error of a score
    most: int  # largest number of entries that a node may shift
    share: float  # a change of a belief is propagated if it exceeds this share of the gap
    visits: int  # number of entries to visit
    failures: int  # number of closed nodes after which the search ends


@jit
def _score(graph, state):
    """Return the score of a state."""
    total = 0.0
    for v in range(len(state)):
        total += graph.unary[v, state[v]]
    for f in range(len(graph.first)):
        at = graph.first[f]
        for e in range(graph.scope_start[f], graph.scope_start[f + 1]):
            at += graph.stride[e] * state[graph.scope[e]]
        total += graph.entries[at]
    return total


@jit
def _shift(graph, f, belief, entries, bound, floor, best, digit):
    """Shift log-weights between table f and its variables; return the bound and the table's size.

    Add the beliefs of the m variables to the table. Then move the maximum of the table to the
    bound, and 1 / m of the max-marginals of each variable from the table to `best` (m, K), the new
    beliefs of the variables. Entries and states that no state with a score above `floor` can have
    become -inf. If this excludes all entries, the returned bound is -inf.
    """
    size = table_size(graph, f)
    top = add_beliefs(graph, f, belief, entries, best, digit)
    bound += top
    if bound <= floor:
        return -np.inf, size
    least = floor - bound
    low, m = graph.scope_start[f], graph.scope_start[f + 1] - graph.scope_start[f]
    for j in range(m):
        for k in range(graph.n_states[graph.scope[low + j]]):
            best[j, k] = (best[j, k] - top) / m if best[j, k] - top > least else -np.inf
    subtract_shares(graph, f, best, top, least, entries, digit)
    return bound, size


@jit
def _propagate(graph, belief, entries, bound, floor, queue, queued, span, most, eps, work, weight):
    """Shift the tables in a queue; return the new bound, -inf if no score is above `floor`.

    If the belief of a variable changes by more than `eps`, its other tables join the queue. No
    table is shifted after `most` entries have been shifted. `span` holds the position of the first
    table in the ring buffer `queue`, and the number of tables in it. If a table shows that no score
    is above `floor`, the failure is counted in `weight` for the variables of the table.
    """
    n_factors = len(graph.first)
    width = 1
    for f in range(n_factors):
        width = max(width, graph.scope_start[f + 1] - graph.scope_start[f])
    best = np.empty((width, belief.shape[1]))
    digit = np.empty(width, np.int64)
    done = 0
    while span[1] > 0 and bound > floor:
        f = queue[span[0]]
        span[0] = (span[0] + 1) % n_factors
        span[1] -= 1
        queued[f] = False
        if done >= most:
            continue
        now, size = _shift(graph, f, belief, entries, bound, floor, best, digit)
        work[0] += size
        done += size
        low = graph.scope_start[f]
        if now == -np.inf:
            for e in range(low, graph.scope_start[f + 1]):
                weight[graph.scope[e]] += 1.0
            bound = now
            break
        bound = now
        for j in range(graph.scope_start[f + 1] - low):
            v = graph.scope[low + j]
            changed = False
            for k in range(graph.n_states[v]):
                old, x = belief[v, k], best[j, k]
                belief[v, k] = x
                if old > -np.inf and (x == -np.inf or abs(x - old) > eps):
                    changed = True
            if changed:
                for i in range(graph.variable_start[v], graph.variable_start[v + 1]):
                    g = graph.edge_factor[graph.variable_edge[i]]
                    if g != f and not queued[g]:
                        queued[g] = True
                        queue[(span[0] + span[1]) % n_factors] = g
                        span[1] += 1
    while span[1] > 0:
        queued[queue[span[0]]] = False
        span[0] = (span[0] + 1) % n_factors
        span[1] -= 1
    return bound


@jit
def _enqueue(graph, v, queue, queued, span):
    for i in range(graph.variable_start[v], graph.variable_start[v + 1]):
        g = graph.edge_factor[graph.variable_edge[i]]
        if not queued[g]:
            queued[g] = True
            queue[(span[0] + span[1]) % len(graph.first)] = g
            span[1] += 1


@jit
def _decide(graph, v, k, equal, belief, queue, queued, span):
    """Exclude all states of variable v but k or, if not `equal`, the state k.

    Return the change of the bound. The tables of v join the queue.
    """
    top = -np.inf
    for m in range(graph.n_states[v]):
        if (m == k) != equal:
            belief[v, m] = -np.inf
        top = max(top, belief[v, m])
    if top > -np.inf:
        for m in range(graph.n_states[v]):
            belief[v, m] -= top
    _enqueue(graph, v, queue, queued, span)
    return top


@jit
def search_consistent(model, graph, search, saved, limits, bound, n_path, value):
    """Continue a depth-first search from the node that a path of decisions leads to.

    Parameters
    ----------
    model : SearchTables with the original tables
    graph : SearchTables with shifted tables
    search, saved, limits : SearchArrays, SavedNodes, DepthLimits
    bound : float, upper bound of the score of all states
    n_path : int, number of decisions in `search.path` that lead to the first node
    value : float, score of the best state

    Returns
    -------
    depth : number of nodes that are still open, apart from the last node
    n_path : number of decisions of the last node
    bound : bound of the last node
    value : score of the best state
    """
    belief, entries, path, weight, best, work = search
    saved_belief, saved_entries, saved_bound, choice = saved
    tol, most, share, limit, n_left = limits
    n, n_factors = len(graph.n_states), len(graph.first)
    queue, queued = np.empty(n_factors, np.int64), np.zeros(n_factors, np.bool_)
    span = np.zeros(2, np.int64)
    state = np.empty(n, np.int64)
    depth, last = 0, -1
    decided = False  # the search makes at least one decision, whatever the limits
    work[1] = 0
    for i in range(n_path):
        bound += _decide(
            graph, path[i, 0], path[i, 1], path[i, 2] == 1, belief, queue, queued, span
        )
    replay = n_path > 0
    while True:
        # Propagate, unless the node is the root.
        if bound > value + tol:
            gap = bound - value if value > -np.inf else _FIRST_GAP
            bound = _propagate(
                graph, belief, entries, bound, value + tol, queue, queued, span,
                (_REPLAY if replay else 1) * most, share * gap, work, weight,
            )  # fmt: skip
        else:
            while span[1] > 0:
                queued[queue[span[0]]] = False
                span[0] = (span[0] + 1) % n_factors
                span[1] -= 1
        replay = False
        work[0] += n
        chosen = -1
        if bound > value + tol:
            largest = -1.0
            for v in range(n):
                top, second, count, k_top = -np.inf, -np.inf, 0, 0
                for k in range(graph.n_states[v]):
                    x = belief[v, k]
                    if x > -np.inf:
                        count += 1
                    if x > top or (x == top and x > -np.inf and k == best[v]):
                        top, second, k_top = x, max(top, second), k
                    else:
                        second = max(second, x)
                state[v] = k_top
                if count > 1:
                    x = weight[v] / count * (_LEAST_GAIN + min(top - second, bound - value))
                    if v == last:
                        x = np.inf
                    if x > largest:
                        largest, chosen = x, v
            score = _score(model, state)
            if score > value:
                value = score
                best[:] = state
        if bound > value + tol and chosen >= 0:
            if decided and (depth == len(choice) or work[0] >= limit or n_left <= 0):
                work[1] = 1
                return depth, n_path, bound, value
            saved_belief[depth] = belief
            saved_entries[depth] = entries
            saved_bound[depth] = bound
            choice[depth] = n_path
            decided = True
            depth += 1
            path[n_path, 0], path[n_path, 1], path[n_path, 2] = chosen, state[chosen], 1
            n_path += 1
            bound += _decide(graph, chosen, state[chosen], True, belief, queue, queued, span)
            continue
        # The node is closed: undo the last decision of a left child, and go to the right child,
        # which excludes the state.
        n_left -= 1
        while depth > 0 and saved_bound[depth - 1] <= value + tol:
            depth -= 1
        if depth == 0 or work[0] >= limit or n_left <= 0:
            return depth, 0, bound, value
        depth -= 1
        belief[:] = saved_belief[depth]
        entries[:] = saved_entries[depth]
        bound = saved_bound[depth]
        n_path = choice[depth]
        last = path[n_path, 0]
        path[n_path, 2] = 0
        bound += _decide(graph, last, path[n_path, 1], False, belief, queue, queued, span)
        n_path += 1
