"""Search for the best state of tables: anneal one variable after the other, or pass messages."""

import numpy as np

from skcrbm.kernels.forest_moves import choose
from skcrbm.kernels.jit import jit
from skcrbm.kernels.search_tables import entry_of, next_entry, state_score, table_size


@jit
def anneal_sites(graph, state, best, best_value, temperatures, penalty, seed):
    """Make a sweep over all variables at each temperature, and keep the best state.

    A variable is drawn given all other variables. At the temperature 0 it takes its best state, and
    keeps its present state if this is among the best. The state at the end of each sweep is
    compared with the best state. Parameters are those of `move_forests`.
    """
    n, n_levels = graph.unary.shape
    logs = np.empty(n_levels)
    at = np.empty(len(graph.first), np.int64)
    for f in range(len(graph.first)):
        at[f] = entry_of(graph, f, state)
    total, top = 0.0, -np.inf
    for temperature in temperatures:
        for v in range(n):
            k = graph.n_states[v]
            now = state[v]
            for x in range(k):
                logs[x] = graph.unary[v, x]
            for i in range(graph.variable_start[v], graph.variable_start[v + 1]):
                e = graph.variable_edge[i]
                step = graph.stride[e]
                place = at[graph.edge_factor[e]] - step * now
                for x in range(k):
                    entry = graph.entries[place + step * x]
                    logs[x] += entry if entry > -np.inf else -penalty
            if temperature > 0.0:
                new = choose(logs, k, temperature, seed)
            else:
                new = now
                for x in range(k):
                    if logs[x] > logs[new]:
                        new = x
            if new != now:
                total += logs[new] - logs[now]
                state[v] = new
                for i in range(graph.variable_start[v], graph.variable_start[v + 1]):
                    e = graph.variable_edge[i]
                    at[graph.edge_factor[e]] += graph.stride[e] * (new - now)
        if total > top:
            top = total
            score, n_bad = state_score(graph, state)
            if n_bad < best_value[1] or (n_bad == best_value[1] and score > best_value[0]):
                best[:] = state
                best_value[0], best_value[1] = score, n_bad


@jit
def pass_maxima(graph, message, belief, penalty, damping, n_sweeps, state):
    """Make sweeps of max-product over the tables, forwards and backwards in turn.

    Return the largest change of a message in the last sweep, after damping. The message of an edge
    goes from the table to the variable, and its largest entry is 0. An entry of weight 0 counts as
    ``-penalty``.

    Parameters
    ----------
    graph : SearchTables
    message : (E, K) float64, changed
    belief : (n, K) float64, the log-weights of the variables plus all messages; changed
    penalty, damping : float
    n_sweeps : int
    state : (n,) int64 output, the states of the largest beliefs
    """
    n, n_levels = belief.shape
    width = 1
    for f in range(len(graph.first)):
        width = max(width, graph.scope_start[f + 1] - graph.scope_start[f])
    digit = np.empty(width, np.int64)
    sent, best = np.empty((width, n_levels)), np.empty((width, n_levels))
    change = 0.0
    for sweep in range(n_sweeps):
        change = 0.0
        for back in range(len(graph.first)):
            f = back if sweep % 2 == 0 else len(graph.first) - 1 - back
            low = graph.scope_start[f]
            m = graph.scope_start[f + 1] - low
            for j in range(m):
                digit[j] = 0
                for x in range(graph.n_states[graph.scope[low + j]]):
                    sent[j, x] = belief[graph.scope[low + j], x] - message[low + j, x]
                    best[j, x] = -np.inf
            for i in range(graph.first[f], graph.first[f] + table_size(graph, f)):
                value = graph.entries[i] if graph.entries[i] > -np.inf else -penalty
                for j in range(m):
                    value += sent[j, digit[j]]
                for j in range(m):
                    best[j, digit[j]] = max(best[j, digit[j]], value)
                next_entry(graph, low, m, digit)
            for j in range(m):
                v, top = graph.scope[low + j], -np.inf
                for x in range(graph.n_states[v]):
                    # A state that evidence excludes gets no message, because -inf - -inf is NaN.
                    best[j, x] = best[j, x] - sent[j, x] if sent[j, x] > -np.inf else -np.inf
                    top = max(top, best[j, x])
                for x in range(graph.n_states[v]):
                    if best[j, x] == -np.inf:
                        continue
                    old = message[low + j, x]
                    new = damping * old + (1.0 - damping) * (best[j, x] - top)
                    change = max(change, abs(new - old))
                    message[low + j, x] = new
                    belief[v, x] += new - old
    for v in range(n):
        state[v] = 0
        for x in range(1, graph.n_states[v]):
            if belief[v, x] > belief[v, state[v]]:
                state[v] = x
    return change
