"""Branch and bound on the tables of a factor graph, with soft local consistency at each node.

Each table has a largest entry, and each variable a largest log-weight of its states. The sum of
these maxima is an upper bound of the score. Each node of the search lowers this bound: it shifts
log-weights between tables and variables, which does not change the score of any state. A table
entry, or a state of a variable, is excluded if no joint state that contains it can be better than
the best known state. Its log-weight then becomes -inf.
"""

from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.search_tables import add_beliefs, state_score, subtract_shares, table_size

# The first node of a search may shift _REPLAY times as many entries as later nodes, because it must
# propagate all decisions on its path, while a later node propagates a single decision.
_REPLAY = 20
# While no state of positive weight is known, this number is used as the gap between the bound and
# the best score.
_FIRST_GAP = 100.0
# A node branches on the variable with the largest value of weight * gain / (number of possible
# states). `SearchArrays.weight` holds the weights. The gain is the decrease of the bound if the
# search branches on the variable. This number is added to each gain, so that the weights decide if
# all gains are 0.
_LEAST_GAIN = 1e-3


class SearchArrays(NamedTuple):
    """Arrays that a depth-first search reads and changes."""

    belief: np.ndarray  # (n, K) float64, shifted log-weights of the variables, with maxima 0
    entries: np.ndarray  # float64, shifted entries of the tables
    # (P, 3) int32, decisions: a variable, a state, and 1 if the variable has the state or 0 if the
    # state is excluded
    path: np.ndarray
    # (n,) float64, number of tables of each variable, plus the number of nodes that were closed
    # because of a table of this variable
    weight: np.ndarray
    best: np.ndarray  # (n,) int64, best state
    # (2,) int64: work[0] is the number of visited table entries. work[1] is 1 if the last node is
    # still open, else 0.
    work: np.ndarray


class SavedNodes(NamedTuple):
    """Nodes on the current path of the search tree whose right child has not been visited.

    The first axis of each array is the depth, up to D. There are n variables with up to K states.
    """

    belief: np.ndarray  # (D, n, K) `SearchArrays.belief` at the node
    entries: np.ndarray  # (D, n_entries) `SearchArrays.entries` at the node
    bound: np.ndarray  # (D,) upper bound at the node
    # (D,) int64, number of decisions on the path before the decision for the left child
    n_before: np.ndarray


class DepthLimits(NamedTuple):
    """Limits of a search: when it stops, and how far it propagates shifts of log-weights."""

    tol: float  # largest rounding error of a score
    most: int  # largest number of entries that a node may shift
    share: float  # a change of a belief is propagated if it exceeds this share of the gap
    visits: int  # number of visited entries after which the search ends
    failures: int  # number of closed nodes after which the search ends


@jit
def _shift(graph, f, belief, entries, bound, floor, best, digit):
    """Shift log-weights between table f and its variables. Return the bound and the table size.

    Add the beliefs of the m variables to the table. Then move the maximum of the table to the
    bound, and 1 / m of the max-marginals of each variable from the table to `best` (m, K), the new
    beliefs of the variables. Set the log-weight of a table entry or of a variable's state to -inf
    if no joint state with a score above `floor` can contain it. If this excludes all entries, the
    returned bound is -inf.
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
    """Shift log-weights between the tables in a queue and their variables.

    Return the new bound, or -inf if no score is above `floor`.

    If the belief of a variable changes by more than `eps`, all other tables that contain the
    variable are added to the queue. The function stops after it has shifted `most` table entries.
    `queue` is a ring buffer, and `span` holds the position of its first table and the number of
    tables in it. If a table proves that no score is above `floor`, `weight` is increased by 1 for
    the variables of this table.
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
    """Give variable v the state k or, if `equal` is False, exclude the state k.

    Return the change of the bound. The tables of v are added to the queue.
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
    value : float, score of the best state found so far

    Returns
    -------
    depth : number of nodes that are still open, apart from the last node
    n_path : number of decisions on the path to the last node
    bound : upper bound at the last node
    value : score of the best state found so far
    """
    belief, entries, path, weight, best, work = search
    saved_belief, saved_entries, saved_bound, choice = saved
    tol, most, share, limit, n_left = limits
    n, n_factors = len(graph.n_states), len(graph.first)
    queue, queued = np.empty(n_factors, np.int64), np.zeros(n_factors, np.bool_)
    span = np.zeros(2, np.int64)
    state = np.empty(n, np.int64)
    depth, last = 0, -1
    # True once the search has made a decision; it makes at least one decision, even beyond a limit
    decided = False
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
            score, n_bad = state_score(model, state)
            if n_bad == 0 and score > value:
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
        # The node is closed. Undo decisions back to the last left child. A left child fixes a
        # variable to a state. Go to the right child, which excludes this state.
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
