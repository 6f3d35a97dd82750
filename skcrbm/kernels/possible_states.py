"""Find the states of variables that tables and OR factors allow, and a joint state of them.

Only the zeros of the factors count here. A factor excludes a state of a variable if it has weight 0
for this state and all possible states of its other variables. The kernels exclude states until no
factor excludes another one (generalised arc consistency). On a graph without loops the model then
has a joint state of positive weight if each variable has a possible state. On other graphs a
depth-first search decides.
"""

from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit

# Answers of `search_states`.
FOUND, REFUTED, UNDECIDED = 0, 1, 2


class HardFactors(NamedTuple):
    """The F factors of a graph of n variables that have zeros, as flat arrays."""

    # (F,) int64: 0 for tables. In OR factors, in which the last variable of the scope is the
    # output, it is the state that decides the output: 1 for OR, -1 (state 0) for AND.
    kind: np.ndarray
    scope_start: np.ndarray  # (F + 1,) int64, first variable of each factor in `scope`
    scope: np.ndarray  # (E,) int64, variables of the factors
    first: np.ndarray  # (F,) int64, first entry of each table in `positive`
    positive: np.ndarray  # bool, True for the entries of tables with a positive weight, in C order
    n_states: np.ndarray  # (n,) int64
    variable_start: np.ndarray  # (n + 1,) int64, first factor of each variable
    variable_factor: np.ndarray  # (E,) int64, factors of each variable


class StateSearch(NamedTuple):
    """Arrays that a search changes. There are n variables with up to K states, and F factors."""

    possible: np.ndarray  # (n, K) bool, possible states of each variable
    removed: np.ndarray  # (n K, 2) int64, excluded states, in order: variable and state
    queue: np.ndarray  # (F,) int64, ring buffer of factors that must be visited
    queued: np.ndarray  # (F,) bool, True for the factors in the queue
    # (4,) int64: number of excluded states, first place and length of the queue, and the number of
    # visited entries
    count: np.ndarray
    support: np.ndarray  # (largest scope, K) bool, scratch
    digit: np.ndarray  # (largest scope,) int64, scratch
    step: np.ndarray  # (largest scope,) int64, scratch


@jit(allocates=False)
def _enqueue(hard, search, v, but):
    """Add the factors of variable v to the queue, apart from factor `but`."""
    for i in range(hard.variable_start[v], hard.variable_start[v + 1]):
        f = hard.variable_factor[i]
        if f != but and not search.queued[f]:
            search.queued[f] = True
            search.queue[(search.count[1] + search.count[2]) % len(search.queue)] = f
            search.count[2] += 1


@jit(allocates=False)
def _exclude(hard, search, v, k, but):
    """Exclude state k of variable v, which is possible now."""
    search.possible[v, k] = False
    search.removed[search.count[0], 0] = v
    search.removed[search.count[0], 1] = k
    search.count[0] += 1
    _enqueue(hard, search, v, but)


@jit(allocates=False)
def _next_state(hard, search, v, k):
    """Return the first possible state of variable v from k on, or its number of states."""
    while k < hard.n_states[v] and not search.possible[v, k]:
        k += 1
    return k


@jit(allocates=False)
def _support_of_table(hard, search, f):
    """Mark in `search.support` the states that occur in a possible entry of table f."""
    low, m = hard.scope_start[f], hard.scope_start[f + 1] - hard.scope_start[f]
    entry, size = hard.first[f], 1
    for i in range(m):
        j = m - 1 - i
        v = hard.scope[low + j]
        search.step[j] = size
        size *= hard.n_states[v]
        search.digit[j] = _next_state(hard, search, v, 0)
        entry += search.digit[j] * search.step[j]
        for k in range(hard.n_states[v]):
            search.support[j, k] = False
    search.count[3] += m
    j = 0
    while j >= 0:  # for each entry whose states are possible
        search.count[3] += 1
        if hard.positive[entry]:
            for j in range(m):
                search.support[j, search.digit[j]] = True
        j = m - 1
        while j >= 0:
            v, old = hard.scope[low + j], search.digit[j]
            new = _next_state(hard, search, v, old + 1)
            more = new < hard.n_states[v]
            if not more:
                new = _next_state(hard, search, v, 0)
            entry += (new - old) * search.step[j]
            search.digit[j] = new
            if more:
                break
            j -= 1


@jit(allocates=False)
def _support_of_or(hard, search, f):
    """Mark the states that are possible in an OR factor; in an AND, both states are swapped."""
    low, m = hard.scope_start[f], hard.scope_start[f + 1] - hard.scope_start[f]
    on = 1 if hard.kind[f] == 1 else 0
    output = hard.scope[low + m - 1]
    n_on, all_off = 0, True
    for j in range(m - 1):
        if search.possible[hard.scope[low + j], on]:
            n_on += 1
        if not search.possible[hard.scope[low + j], 1 - on]:
            all_off = False
    output_on, output_off = search.possible[output, on], search.possible[output, 1 - on]
    for j in range(m - 1):
        own = 1 if search.possible[hard.scope[low + j], on] else 0
        search.support[j, on] = output_on
        search.support[j, 1 - on] = (output_off and all_off) or (output_on and n_on > own)
    search.support[m - 1, on] = n_on > 0
    search.support[m - 1, 1 - on] = all_off
    search.count[3] += m


@jit(allocates=False)
def propagate(hard, search):
    """Visit the factors in the queue until no further state is excluded.

    Return the factor that excludes all remaining states of a variable, or -1. The queue is empty
    afterwards.
    """
    count = search.count
    failed = -1
    while count[2] > 0:
        f = search.queue[count[1]]
        count[1] = (count[1] + 1) % len(search.queue)
        count[2] -= 1
        search.queued[f] = False
        if failed >= 0:
            continue
        if hard.kind[f] == 0:
            _support_of_table(hard, search, f)
        else:
            _support_of_or(hard, search, f)
        low = hard.scope_start[f]
        for j in range(hard.scope_start[f + 1] - low):
            v = hard.scope[low + j]
            left = False
            for k in range(hard.n_states[v]):
                if search.possible[v, k]:
                    if search.support[j, k]:
                        left = True
                    else:
                        _exclude(hard, search, v, k, f)
            if not left:
                failed = f
    return failed


@jit(allocates=False)
def possible_states(hard, search, exist, held):
    """Exclude all states that the factors exclude; return False if a variable has no state left.

    `exist` (n, K) is True for the states of each variable. `held` (n,) holds the states of clamped
    variables, and NaN for free variables. The result is in `search.possible`.
    """
    for f in range(len(hard.kind)):
        search.queue[f] = f
        search.queued[f] = True
    for i in range(len(search.count)):
        search.count[i] = 0
    search.count[2] = len(hard.kind)
    for v in range(len(hard.n_states)):
        left = False
        for k in range(exist.shape[1]):
            search.possible[v, k] = exist[v, k] and not abs(held[v] - k) > 0
            left = left or search.possible[v, k]
        if not left:
            return False
    return propagate(hard, search) < 0


@jit(allocates=False)
def refuted_models(hard, search, exist, held, refuted):
    """Write True to `refuted` (N,) for the models in which a variable has no possible state.

    `held` (N, n) holds the states of clamped variables, and NaN for free variables.
    """
    for n in range(len(held)):
        refuted[n] = not possible_states(hard, search, exist, held[n])


@jit(allocates=False)
def _choose(hard, search, failures):
    """Return the variable on which to branch, or -1 if each variable has a single state.

    It is the variable with the fewest possible states, divided by the failures of its factors.
    """
    best, least = -1, np.inf
    for v in range(len(hard.n_states)):
        count = 0
        for k in range(hard.n_states[v]):
            if search.possible[v, k]:
                count += 1
        if count > 1 and hard.variable_start[v] < hard.variable_start[v + 1]:
            value = count / failures[v]
            if value < least:
                best, least = v, value
    return best


@jit(allocates=False)
def search_states(hard, search, preferred, decisions, failures, limit):
    """Search for a joint state that all factors allow.

    Parameters
    ----------
    hard : HardFactors
    search : StateSearch
        `search.possible` holds the states that `possible_states` left. If a state is found, a
        single state remains of each variable that is in a factor.
    preferred : (n,) int64
        The search tries these states first.
    decisions : (n + 1, 3) int64
        Scratch: the path of decisions.
    failures : (n,) float64
        Ones, which the search increases.
    limit : int
        Number of visited entries after which the search ends.

    Returns
    -------
    int
        `FOUND`, `REFUTED` if no such state exists, or `UNDECIDED` if the limit was reached.
    """
    depth = 0
    while True:
        v = _choose(hard, search, failures)
        if v < 0:
            return FOUND
        if search.count[3] > limit:
            return UNDECIDED
        chosen = preferred[v]
        if not search.possible[v, chosen]:
            chosen = 0
            while not search.possible[v, chosen]:
                chosen += 1
        decisions[depth, 0], decisions[depth, 1] = v, chosen
        decisions[depth, 2] = search.count[0]
        depth += 1
        for k in range(hard.n_states[v]):
            if k != chosen and search.possible[v, k]:
                _exclude(hard, search, v, k, -1)
        # `_choose` visits eight variables in the time of an entry
        search.count[3] += len(hard.n_states) // 8
        failed = propagate(hard, search)
        while failed >= 0:  # exclude the state that was chosen last
            for e in range(hard.scope_start[failed], hard.scope_start[failed + 1]):
                failures[hard.scope[e]] += 1.0
            if depth == 0:
                return REFUTED
            depth -= 1
            while search.count[0] > decisions[depth, 2]:
                search.count[0] -= 1
                at = search.count[0]
                search.possible[search.removed[at, 0], search.removed[at, 1]] = True
            _exclude(hard, search, decisions[depth, 0], decisions[depth, 1], -1)
            failed = propagate(hard, search)
