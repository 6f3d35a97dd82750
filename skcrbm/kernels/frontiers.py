"""Local search that moves many variables at once, by dynamic programming along a frontier.

A sweep visits all variables of a factor graph. The frontier consists of the visited variables that
have a factor with an unvisited variable. For each joint state of the frontier, a table holds the
best score of the finished variables, which are no longer in the frontier. If the next variable
would make the table too large, this variable is held: it keeps its state. So the variables that are
not held form parts of bounded width, and each part is maximised exactly given the held variables.
On a lattice the parts are strips.
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import GOLDEN, unit_interval

#: Largest number of variables of a frontier. If the frontier is full, the next variable is held.
MAX_FRONTIER = 30
# Stages of a variable: not visited, visited (in the frontier or finished), held at its state.
_WAITING, _OPEN, _HELD = 0, 1, 2


class Frontier(NamedTuple):
    """Work arrays of `sweep_frontier`, for n variables and tables of at most `limit` entries."""

    stage: np.ndarray  # (n,) int64: waiting, open (or finished), or held
    missing: np.ndarray  # (F,) int64, number of unvisited variables of each factor
    left: np.ndarray  # (n,) int64, number of factors of each variable not yet added to the table
    members: np.ndarray  # (MAX_FRONTIER,) int64, variables of the frontier; the last varies fastest
    table: np.ndarray  # (2, limit) float64, the table of the frontier, and a copy
    code: np.ndarray  # (limit,) int64, index in a factor's table for each state of the frontier
    # (n * limit,) int16, best state of each finished variable for each state of the other members
    back: np.ndarray
    # (n, 3) int64: finished variable, its first index in `back`, number of the other members
    finished: np.ndarray
    rest: np.ndarray  # (n, MAX_FRONTIER) int64, the other members when a variable was finished


@jit
def _uniform(seed):
    seed[0] += GOLDEN
    return unit_interval(seed[0])


@jit
def _introduce(graph, work, v, m, size, noise, seed):
    """Add an axis for variable v to the table (size,) of the frontier; return the new size.

    The log-weight of each state of v is added, plus Gumbel noise with the scale `noise`.
    """
    k = graph.n_states[v]
    old, new = work.table[0], work.table[1]
    for s in range(size):
        new[s] = old[s]
    for x in range(k - 1, -1, -1):
        own = graph.unary[v, x]
        if noise > 0.0:
            own -= noise * math.log(-math.log(_uniform(seed)))
        for s in range(size):
            old[s * k + x] = new[s] + own
    work.members[m] = v
    return size * k


@jit
def _add_factor(graph, work, f, state, m, size, penalty):
    """Add a factor to the table of the frontier; a held variable has its value in `state`.

    An entry of weight 0 (log-weight -inf) counts as ``-penalty``.
    """
    base = graph.first[f]
    code = work.code
    for s in range(size):
        code[s] = 0
    for e in range(graph.scope_start[f], graph.scope_start[f + 1]):
        v = graph.scope[e]
        if work.stage[v] == _HELD:
            base += graph.stride[e] * state[v]
            continue
        inner = 1
        for p in range(m - 1, -1, -1):
            if work.members[p] == v:
                break
            inner *= graph.n_states[work.members[p]]
        k = graph.n_states[v]
        for a in range(size // (inner * k)):
            for x in range(1, k):
                first = (a * k + x) * inner
                step = x * graph.stride[e]
                for b in range(first, first + inner):
                    code[b] += step
    table = work.table[0]
    for s in range(size):
        value = graph.entries[base + code[s]]
        table[s] += value if value > -math.inf else -penalty


@jit
def _finish(graph, work, p, m, size, count, at):
    """Maximise the table over member p and remove p from the frontier; return the new size."""
    v = work.members[p]
    k = graph.n_states[v]
    inner = 1
    for q in range(p + 1, m):
        inner *= graph.n_states[work.members[q]]
    table = work.table[0]
    for a in range(size // (inner * k)):
        for b in range(inner):
            best, chosen = table[a * k * inner + b], 0
            for x in range(1, k):
                value = table[(a * k + x) * inner + b]
                if value > best:
                    best, chosen = value, x
            # Entries are read before they are overwritten, because positions only decrease.
            table[a * inner + b] = best
            work.back[at + a * inner + b] = chosen
    work.finished[count, 0], work.finished[count, 1] = v, at
    work.finished[count, 2] = m - 1
    for q in range(p, m - 1):
        work.members[q] = work.members[q + 1]
    for q in range(m - 1):
        work.rest[count, q] = work.members[q]
    return size // k


@jit
def _next_variable(graph, work, m, seed):
    """Return an unvisited neighbour of the frontier, or -1 if all neighbours have been visited.

    Choose a neighbour of the member with the fewest open factors, so that this member can soon
    leave the frontier.
    """
    least, chosen = 1 << 60, -1
    shift = int(_uniform(seed) * m)
    for q in range(m):
        p = (q + shift) % m
        if work.left[work.members[p]] < least:
            least, chosen = work.left[work.members[p]], work.members[p]
    if chosen < 0:
        return -1
    begin, end = graph.variable_start[chosen], graph.variable_start[chosen + 1]
    shift = int(_uniform(seed) * (end - begin))
    for q in range(end - begin):
        e = graph.variable_edge[begin + (q + shift) % (end - begin)]
        f = graph.edge_factor[e]
        for j in range(graph.scope_start[f], graph.scope_start[f + 1]):
            if work.stage[graph.scope[j]] == _WAITING:
                return graph.scope[j]
    return -1


@jit
def sweep_frontier(graph, state, limit, noise, penalty, order, work, seed):
    """Visit all variables of a state once and improve it by dynamic programming along a frontier.

    Parameters
    ----------
    graph : SearchTables
    state : ndarray of int64 (n,)
        The state, which is changed in place.
    limit : int
        Largest number of entries of the table of the frontier.
    noise : float
        Scale of the Gumbel noise that is added to the log-weights of all states; with 0 the score
        of the state does not fall.
    penalty : float
        Score that an entry of weight 0 (log-weight -inf) costs.
    order : ndarray of int64 (n,)
        Variables in the order in which new parts begin.
    work : Frontier
        Work arrays for at least `limit` entries.
    seed : ndarray of uint64 (1,)
        State of the random numbers.
    """
    n = len(state)
    for v in range(n):
        work.stage[v] = _WAITING
        work.left[v] = graph.variable_start[v + 1] - graph.variable_start[v]
    for f in range(len(graph.first)):
        work.missing[f] = graph.scope_start[f + 1] - graph.scope_start[f]
    m, size, count, at, begun = 0, 1, 0, 0, 0
    work.table[0, 0] = 0.0
    while True:
        v = _next_variable(graph, work, m, seed) if m > 0 else -1
        if v < 0:
            while begun < n and work.stage[order[begun]] != _WAITING:
                begun += 1
            if begun == n:
                break
            v = order[begun]
        if size * graph.n_states[v] > limit or m == MAX_FRONTIER:
            work.stage[v] = _HELD
        else:
            work.stage[v] = _OPEN
            size = _introduce(graph, work, v, m, size, noise, seed)
            m += 1
        for q in range(graph.variable_start[v], graph.variable_start[v + 1]):
            f = graph.edge_factor[graph.variable_edge[q]]
            work.missing[f] -= 1
            if work.missing[f] == 0:
                is_open = False
                for j in range(graph.scope_start[f], graph.scope_start[f + 1]):
                    u = graph.scope[j]
                    work.left[u] -= 1
                    is_open |= work.stage[u] == _OPEN
                if is_open:
                    _add_factor(graph, work, f, state, m, size, penalty)
        p = 0
        while p < m:
            if work.left[work.members[p]] == 0:
                size = _finish(graph, work, p, m, size, count, at)
                at += size
                count += 1
                m -= 1
            else:
                p += 1
    for c in range(count - 1, -1, -1):
        index = 0
        for q in range(work.finished[c, 2]):
            u = work.rest[c, q]
            index = index * graph.n_states[u] + state[u]
        state[work.finished[c, 0]] = work.back[work.finished[c, 1] + index]


@jit
def _root(parent, v):
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


@jit
def _entry(graph, f, state, penalty):
    at = graph.first[f]
    for e in range(graph.scope_start[f], graph.scope_start[f + 1]):
        at += graph.stride[e] * state[graph.scope[e]]
    value = graph.entries[at]
    return value if value > -math.inf else -penalty


@jit
def take_better_parts(graph, state, other, penalty):
    """Copy the connected parts of `other` (n,) that raise the score to `state` (n,).

    The variables at which the two states differ form connected parts, and each part can be chosen
    on its own, because no factor has variables of two parts.
    """
    n = len(state)
    parent = np.arange(n)
    gain = np.zeros(n)
    for f in range(len(graph.first)):
        last = -1
        for e in range(graph.scope_start[f], graph.scope_start[f + 1]):
            v = graph.scope[e]
            if state[v] != other[v]:
                if last >= 0:
                    parent[_root(parent, v)] = _root(parent, last)
                last = v
    for v in range(n):
        if state[v] != other[v]:
            root = _root(parent, v)
            gain[root] += graph.unary[v, other[v]] - graph.unary[v, state[v]]
    for f in range(len(graph.first)):
        for e in range(graph.scope_start[f], graph.scope_start[f + 1]):
            v = graph.scope[e]
            if state[v] != other[v]:
                change = _entry(graph, f, other, penalty) - _entry(graph, f, state, penalty)
                gain[_root(parent, v)] += change
                break
    for v in range(n):
        if state[v] != other[v] and gain[_root(parent, v)] > 0:
            state[v] = other[v]
