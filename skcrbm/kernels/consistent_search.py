"""Branch and bound that keeps the tables of a factor graph consistent at each node."""

import numpy as np

from skcrbm.kernels.jit import jit

# The first node of a path may shift this many times as many entries as later nodes.
_REPLAY = 20
# The gap between bound and score counts as _FIRST_GAP while no state of positive weight is known.
_FIRST_GAP = 100.0
# Added to the gain of a branching variable, so that variables in many failures come first in ties.
_LEAST_GAIN = 1e-3


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
    """Shift the log-weights of table f, and return the new bound and the number of entries.

    Add the beliefs of the variables of the table to the table, subtract the maximum of the table
    and add it to the bound, and give each variable an equal share of its max-marginals. Entries
    whose bound is at most `floor` become -inf. If this holds for all entries, the returned bound is
    -inf. `best` (m, K) returns the max-marginals minus the maximum.
    """
    low, m = graph.scope_start[f], graph.scope_start[f + 1] - graph.scope_start[f]
    size = 1
    for j in range(m):
        size *= graph.n_states[graph.scope[low + j]]
        digit[j] = 0
    best[:m] = -np.inf
    top = -np.inf
    for i in range(graph.first[f], graph.first[f] + size):
        x = entries[i]
        if x > -np.inf:
            for j in range(m):
                x += belief[graph.scope[low + j], digit[j]]
            for j in range(m):
                best[j, digit[j]] = max(best[j, digit[j]], x)
            entries[i] = x
            top = max(top, x)
        j = m - 1
        while j >= 0:
            digit[j] += 1
            if digit[j] < graph.n_states[graph.scope[low + j]]:
                break
            digit[j] = 0
            j -= 1
    bound += top
    if bound <= floor:
        return -np.inf, size
    least = floor - bound
    for j in range(m):
        digit[j] = 0
        for k in range(graph.n_states[graph.scope[low + j]]):
            best[j, k] = (best[j, k] - top) / m if best[j, k] - top > least else -np.inf
    for i in range(graph.first[f], graph.first[f] + size):
        x = entries[i]
        if x > -np.inf:
            if x - top > least:
                x -= top
                for j in range(m):
                    x -= best[j, digit[j]]
                entries[i] = x
            else:
                entries[i] = -np.inf
        j = m - 1
        while j >= 0:
            digit[j] += 1
            if digit[j] < graph.n_states[graph.scope[low + j]]:
                break
            digit[j] = 0
            j -= 1
    return bound, size


@jit
def _propagate(graph, belief, entries, bound, floor, queue, queued, span, most, eps, work, weight):
    """Shift the tables in a queue, and then other tables whose beliefs change by more than `eps`.

    `span` is the first position in the ring `queue` and the number of tables in it. At most about
    `most` entries are shifted. Return the bound, which is -inf if no state is better than `floor`.
    The variables of the table that shows this then gain weight.
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
    """Remove the state k of variable v, or all other states; return the change of the bound."""
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
def search_consistent(
    model, graph, belief, entries, bound, path, n_path, saved_belief, saved_entries, saved_bound,
    choice, weight, value, tol, most, share, limit, n_backtracks, best, work,
):  # fmt: skip
    """Continue a depth-first search from the node that a path of decisions leads to.

    Parameters
    ----------
    model : TableGraph with the original tables
    graph : TableGraph with shifted tables
    belief : (n, K) float64, shifted log-weights of the variables, with maxima 0; changed
    entries : float64, shifted entries of the tables; changed
    bound : float, upper bound of the score of all states
    path : (P, 3) int32, decisions: a variable, a state, and 1 if the variable has the state or 0
        if it has another state; changed
    n_path : number of decisions that lead to the first node
    saved_belief, saved_entries, saved_bound, choice : work arrays; the first axis is the depth.
        choice[i] is the number of decisions before the i-th left child.
    weight : (n,) float64, weights of variables in failures; changed
    value : float, value of the best state
    tol : float, rounding error
    most : most entries that a node may shift
    share : share of the gap that a belief must change by to be propagated
    limit : number of entries to visit
    n_backtracks : number of failures after which the search ends
    best : (n,) int64, best state; changed
    work : (2,) int64, number of visited entries, updated; and whether the last node is still open

    Returns
    -------
    depth : number of nodes that are still open, apart from the last node
    n_path : number of decisions of the last node
    bound : bound of the last node
    value : value of the best state
    """
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
            if decided and (depth == len(choice) or work[0] >= limit or n_backtracks <= 0):
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
        # The node is closed: go to the right child of the last left child.
        n_backtracks -= 1
        while depth > 0 and saved_bound[depth - 1] <= value + tol:
            depth -= 1
        if depth == 0 or work[0] >= limit or n_backtracks <= 0:
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
