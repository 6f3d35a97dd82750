"""Store tables of factor graphs for searches, and shift log-weights between tables and beliefs.

The tables are stored as flat arrays.
"""

from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit


class SearchTables(NamedTuple):
    """Factor graph with n variables, of at most K states, and F tables of two or more variables.

    An edge e joins a table to one of its variables. In the flat array of the table, the entries for
    two successive states of this variable are stride[e] entries apart. Tables may contain -inf. The
    array `unary` holds finite log-weights of single variables. If a variable has fewer than K
    states, the remaining entries of its row are 0.
    """

    n_states: np.ndarray  # (n,) int64, number of states of each variable
    unary: np.ndarray  # (n, K) float64, finite log-weights of the states of each variable
    scope_start: np.ndarray  # (F + 1,) int64, first edge of each table
    scope: np.ndarray  # (E,) int64, variable of each edge
    stride: np.ndarray  # (E,) int64, stride of the edge's variable in the table
    edge_factor: np.ndarray  # (E,) int64, table of each edge
    # (n + 1,) int64, first entry of each variable in `variable_edge`
    variable_start: np.ndarray
    variable_edge: np.ndarray  # (E,) int64, edges sorted by variable
    first: np.ndarray  # (F,) int64, position of each table in `entries`
    entries: np.ndarray  # float64, entries (log-weights) of all tables, in C order


@jit(inline=True)
def entry_of(graph, f, state):
    """Return the position in `entries` of the entry of table f for a joint state (n,)."""
    at = graph.first[f]
    for e in range(graph.scope_start[f], graph.scope_start[f + 1]):
        at += graph.stride[e] * state[graph.scope[e]]
    return at


@jit
def state_score(graph, state):
    """Return the sum of the finite log-weights of a state, and the number of its -inf entries."""
    total, n_bad = 0.0, 0
    for v in range(len(state)):
        total += graph.unary[v, state[v]]
    for f in range(len(graph.first)):
        x = graph.entries[entry_of(graph, f, state)]
        if x == -np.inf:
            n_bad += 1
        else:
            total += x
    return total, n_bad


@jit(inline=True)
def next_entry(graph, low, m, digit):
    """Change `digit` (m,) from the states at an entry of a table to the states at the next entry.

    The table has m variables, and `low` is its first edge.
    """
    j = m - 1
    while j >= 0:
        digit[j] += 1
        if digit[j] < graph.n_states[graph.scope[low + j]]:
            break
        digit[j] = 0
        j -= 1


@jit(inline=True)
def table_size(graph, f):
    """Return the number of entries of table f."""
    size = 1
    for e in range(graph.scope_start[f], graph.scope_start[f + 1]):
        size *= graph.n_states[graph.scope[e]]
    return size


@jit(inline=True)
def add_beliefs(graph, f, belief, entries, best, digit):
    """Add the beliefs (n, K) of the variables of table f to the table; return the largest entry.

    `best` (m, K) receives the max-marginals of the table: the largest entry for each state of each
    of its m variables. `digit` (m,) is scratch space.
    """
    low, m = graph.scope_start[f], graph.scope_start[f + 1] - graph.scope_start[f]
    for j in range(m):
        digit[j] = 0
    best[:m] = -np.inf
    top = -np.inf
    for i in range(graph.first[f], graph.first[f] + table_size(graph, f)):
        x = entries[i]
        if x > -np.inf:
            for j in range(m):
                x += belief[graph.scope[low + j], digit[j]]
            for j in range(m):
                best[j, digit[j]] = max(best[j, digit[j]], x)
            entries[i] = x
            top = max(top, x)
        next_entry(graph, low, m, digit)
    return top


@jit(inline=True)
def subtract_shares(graph, f, share, top, least, entries, digit):
    """Subtract `top` and the shares of the table's m variables from the entries of table f.

    `share` (m, K) holds the number that is subtracted for each state of each variable. An entry
    that is at most `least` after `top` has been subtracted becomes -inf. `digit` (m,) is scratch
    space.
    """
    low, m = graph.scope_start[f], graph.scope_start[f + 1] - graph.scope_start[f]
    for j in range(m):
        digit[j] = 0
    for i in range(graph.first[f], graph.first[f] + table_size(graph, f)):
        x = entries[i]
        if x > -np.inf:
            x -= top
            if x > least:
                for j in range(m):
                    x -= share[j, digit[j]]
                entries[i] = x
            else:
                entries[i] = -np.inf
        next_entry(graph, low, m, digit)
