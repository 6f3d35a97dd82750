"""Local search that changes many variables at once, by dynamic programming along a frontier.

A sweep visits all variables of a factor graph. The frontier consists of the visited variables that
have a factor with an unvisited variable. For each joint state of the frontier, a table holds the
best score of the finished variables, which have left the frontier. If the next variable would make
the table too large, this variable is held: it keeps its state. The held variables separate the
other variables into connected components, and each component is maximised exactly, given the held
variables. On a lattice, the components are strips.
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import next_uniform, root_of
from skcrbm.kernels.search_tables import entry_of

#: Largest number of variables of a frontier. If the frontier is full, the next variable is held.
MAX_FRONTIER = 30
# Stages of a variable: not visited yet; visited, so that it is in the frontier or finished; held at
# its state.
_WAITING, _OPEN, _HELD = 0, 1, 2


class Frontier(NamedTuple):
    """Work arrays of `sweep_frontier`, for n variables and tables of at most `limit` entries."""

    stage: np.ndarray  # (n,) int64: waiting, open (or finished), or held
    missing: np.ndarray  # (F,) int64, for each factor, number of its variables not yet visited
    left: np.ndarray  # (n,) int64, for each variable, number of its factors not yet in the table
    # (n, K) float64, log-weights that the field of each variable and its factors with held
    # variables give to its states. They are added to the table when the variable is finished.
    own: np.ndarray
    # (MAX_FRONTIER,) int64, variables (members) of the frontier; in `table` the last varies fastest
    members: np.ndarray
    table: np.ndarray  # (2, limit) float64, the table of the frontier, and the next table
    pair: np.ndarray  # (K, K) float64, a table of two open variables
    # (limit,) int64, index in a table of a factor for each joint state of the frontier
    code: np.ndarray
    choice: np.ndarray  # (limit,) uint16, best states of a finished variable
    # uint16, best state of each finished variable for each joint state of the other members. A word
    # holds several states, see `state_bits`.
    back: np.ndarray
    # (n, 3) int64: finished variable, its first word in `back`, number of the other members
    finished: np.ndarray
    rest: np.ndarray  # (n, MAX_FRONTIER) int64, other members when each variable was finished


@jit
def state_bits(k):
    """Return the number of bits that store one of k states in a 16-bit word: 1, 2, 4, 8 or 16."""
    width = 1
    while width < 16 and (1 << width) < k:
        width *= 2
    return width


@jit
def _entry(graph, at, penalty):
    value = graph.entries[at]
    return value if value > -math.inf else -penalty


@jit
def _introduce(old, new, size, k):
    """Add a variable with k states to the table old (size,): repeat each entry k times."""
    for s in range(size):
        for x in range(k):
            new[s * k + x] = old[s]


@jit
def _introduce_with_pair(old, new, size, inner, pair, n_other, k):
    """Add a variable with k states to the table of the frontier, and add `pair` to the entries.

    `pair` is a table of two variables: the new variable and another member of the frontier. This
    member has `n_other` states. The members after it have `inner` joint states.
    """
    for a in range(size // (inner * n_other)):
        for y in range(n_other):
            first = (a * n_other + y) * inner
            if k == 2:
                zero, one = pair[y, 0], pair[y, 1]
                for b in range(first, first + inner):
                    new[2 * b] = old[b] + zero
                    new[2 * b + 1] = old[b] + one
            else:
                for b in range(first, first + inner):
                    for x in range(k):
                        new[b * k + x] = old[b] + pair[y, x]


@jit
def _add_pair(table, size, inner, pair, n_other, k):
    """Add a table of two variables to the table of the frontier.

    The variables are a member and the last member of the frontier, as in `_introduce_with_pair`.
    """
    for a in range(size // (inner * n_other * k)):
        for y in range(n_other):
            first = (a * n_other + y) * inner
            if k == 2:
                zero, one = pair[y, 0], pair[y, 1]
                for b in range(first, first + inner):
                    table[2 * b] += zero
                    table[2 * b + 1] += one
            else:
                for b in range(first, first + inner):
                    for x in range(k):
                        table[b * k + x] += pair[y, x]


@jit
def _add_factor(graph, work, table, f, base, m, size, penalty):
    """Add a factor of three or more open variables to the table of the frontier.

    `base` is the position of the factor's entry for the states of the held variables and the state
    0 of the open variables.
    """
    code = work.code
    for s in range(size):
        code[s] = base
    for e in range(graph.scope_start[f], graph.scope_start[f + 1]):
        v = graph.scope[e]
        if work.stage[v] == _HELD:
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
    for s in range(size):
        table[s] += _entry(graph, code[s], penalty)


@jit
def _maximise(old, new, choice, size, inner, k, own):
    """Remove a member with k states from the table of the frontier, by maximisation.

    The log-weights `own` of the states are added first. The members after this member have `inner`
    joint states. `choice` gets the best states.
    """
    for a in range(size // (inner * k)):
        out, first = a * inner, a * k * inner
        for b in range(inner):
            new[out + b] = old[first + b] + own[0]
            choice[out + b] = 0
        for x in range(1, k):
            first += inner
            more = own[x]
            for b in range(inner):
                value = old[first + b] + more
                if value > new[out + b]:
                    new[out + b] = value
                    choice[out + b] = x


@jit
def _pack(choice, size, width, back, at):
    """Store the states `choice` (size,) in words of 16 bits, with `width` bits per state.

    The words are written to `back` from position `at` on. Return the position after the last word.
    """
    per = 16 // width
    full = size // per
    for i in range(full):
        word = 0
        for j in range(per):
            word |= np.int64(choice[i * per + j]) << (j * width)
        back[at + i] = word
    if full * per < size:
        word = 0
        for j in range(size - full * per):
            word |= np.int64(choice[full * per + j]) << (j * width)
        back[at + full] = word
        full += 1
    return at + full


@jit
def _next_variable(graph, work, m, seed):
    """Return an unvisited neighbour of the frontier, or -1 if all neighbours have been visited.

    Choose a neighbour of the member that has the fewest factors that are not yet in the table, so
    that this member can soon leave the frontier.
    """
    least, chosen = 1 << 60, -1
    shift = np.int64(next_uniform(seed) * m)
    for q in range(m):
        p = (q + shift) % m
        if work.left[work.members[p]] < least:
            least, chosen = work.left[work.members[p]], work.members[p]
    if chosen < 0:
        return -1
    begin, end = graph.variable_start[chosen], graph.variable_start[chosen + 1]
    shift = np.int64(next_uniform(seed) * (end - begin))
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
        Scale of the Gumbel noise that is added to the log-weights of all states. If it is 0, the
        score of the state never becomes lower.
    penalty : float
        Penalty for an entry of weight 0: its log-weight -inf counts as ``-penalty``.
    order : ndarray of int64 (n,)
        Order of the variables. If the frontier has no unvisited neighbour, the sweep goes on at the
        first unvisited variable in this order.
    work : Frontier
        Work arrays for at least `limit` entries.
    seed : ndarray of uint64 (1,)
        State of the random number generator.
    """
    n = len(state)
    for v in range(n):
        work.stage[v] = _WAITING
        work.left[v] = graph.variable_start[v + 1] - graph.variable_start[v]
        for x in range(graph.n_states[v]):
            work.own[v, x] = graph.unary[v, x]
            if noise > 0.0:
                work.own[v, x] -= noise * math.log(-math.log(next_uniform(seed)))
    for f in range(len(graph.first)):
        work.missing[f] = graph.scope_start[f + 1] - graph.scope_start[f]
    m, size, count, at, begun, now = 0, 1, 0, 0, 0, 0
    work.table[0, 0] = 0.0
    while True:
        v = _next_variable(graph, work, m, seed) if m > 0 else -1
        if v < 0:
            while begun < n and work.stage[order[begun]] != _WAITING:
                begun += 1
            if begun == n:
                break
            v = order[begun]
        k = graph.n_states[v]
        introduced = size * k > limit or m == MAX_FRONTIER
        work.stage[v] = _HELD if introduced else _OPEN
        for q in range(graph.variable_start[v], graph.variable_start[v + 1]):
            f = graph.edge_factor[graph.variable_edge[q]]
            work.missing[f] -= 1
            if work.missing[f] > 0:
                continue
            n_open, other, step, other_step, base = 0, -1, 0, 0, graph.first[f]
            for j in range(graph.scope_start[f], graph.scope_start[f + 1]):
                u = graph.scope[j]
                work.left[u] -= 1
                if work.stage[u] == _HELD:
                    base += graph.stride[j] * state[u]
                    continue
                n_open += 1
                if u == v:
                    step = graph.stride[j]
                else:
                    other, other_step = u, graph.stride[j]
            if n_open == 0:
                continue
            if n_open == 1:
                u, jump = (v, step) if other < 0 else (other, other_step)
                for x in range(graph.n_states[u]):
                    work.own[u, x] += _entry(graph, base + jump * x, penalty)
            elif n_open == 2 and work.stage[v] == _OPEN:
                inner, p = 1, m - 1
                while work.members[p] != other:
                    inner *= graph.n_states[work.members[p]]
                    p -= 1
                n_other = graph.n_states[other]
                for y in range(n_other):
                    for x in range(k):
                        place = base + other_step * y + step * x
                        work.pair[y, x] = _entry(graph, place, penalty)
                if introduced:
                    _add_pair(work.table[now], size * k, inner, work.pair, n_other, k)
                else:
                    old, new = work.table[now], work.table[1 - now]
                    _introduce_with_pair(old, new, size, inner, work.pair, n_other, k)
                    introduced, now = True, 1 - now
            else:
                if not introduced:
                    _introduce(work.table[now], work.table[1 - now], size, k)
                    introduced, now = True, 1 - now
                is_open = work.stage[v] == _OPEN
                if is_open:
                    work.members[m] = v
                _add_factor(
                    graph, work, work.table[now], f, base, m + is_open,
                    size * k if is_open else size, penalty,
                )  # fmt: skip
        if work.stage[v] == _OPEN:
            if not introduced:
                _introduce(work.table[now], work.table[1 - now], size, k)
                now = 1 - now
            work.members[m] = v
            size *= k
            m += 1
        p = 0
        while p < m:
            u = work.members[p]
            if work.left[u] > 0:
                p += 1
                continue
            inner = 1
            for q in range(p + 1, m):
                inner *= graph.n_states[work.members[q]]
            k = graph.n_states[u]
            old, new = work.table[now], work.table[1 - now]
            _maximise(old, new, work.choice, size, inner, k, work.own[u])
            now = 1 - now
            size //= k
            m -= 1
            work.finished[count, 0], work.finished[count, 1] = u, at
            work.finished[count, 2] = m
            for q in range(p, m):
                work.members[q] = work.members[q + 1]
            for q in range(m):
                work.rest[count, q] = work.members[q]
            at = _pack(work.choice, size, state_bits(k), work.back, at)
            count += 1
    for c in range(count - 1, -1, -1):
        index = 0
        for q in range(work.finished[c, 2]):
            u = work.rest[c, q]
            index = index * graph.n_states[u] + state[u]
        u = work.finished[c, 0]
        width = state_bits(graph.n_states[u])
        per = 16 // width
        word = np.int64(work.back[work.finished[c, 1] + index // per])
        state[u] = (word >> ((index % per) * width)) & ((1 << width) - 1)


@jit
def take_better_parts(graph, state, other, penalty):
    """Copy the values of `other` (n,) to `state` (n,) wherever this raises the score.

    The variables in which the two states differ form connected components of the factor graph. No
    factor contains variables of two components, so the function decides for each component
    separately whether its values are copied.
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
                    parent[root_of(parent, v)] = root_of(parent, last)
                last = v
    for v in range(n):
        if state[v] != other[v]:
            root = root_of(parent, v)
            gain[root] += graph.unary[v, other[v]] - graph.unary[v, state[v]]
    for f in range(len(graph.first)):
        for e in range(graph.scope_start[f], graph.scope_start[f + 1]):
            v = graph.scope[e]
            if state[v] != other[v]:
                new = _entry(graph, entry_of(graph, f, other), penalty)
                old = _entry(graph, entry_of(graph, f, state), penalty)
                gain[root_of(parent, v)] += new - old
                break
    for v in range(n):
        if state[v] != other[v] and gain[root_of(parent, v)] > 0:
            state[v] = other[v]
