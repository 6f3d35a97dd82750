"""Search for the states of clique models with the highest score or the least hinge loss.

Variables v in {-1, +1} with fields f have the score ``f.v + sum_j w_j prod_{k in C_j} v_k`` and
the margins ``m_i = v_i (f_i + sum_{j: i in C_j} w_j prod_{k in C_j, k != i} v_k)``. Depth-first
branch and bound decides the missing variables one by one. The place of a variable is its position
in this order. At each node of the search tree, the decided variables turn the cliques into simpler
terms. The pull on a variable is its field plus a term for each clique whose other variables are all
decided: the weight of the clique times the values of these other variables. A clique with two
undecided variables adds its weight times the decided values to the coupling of this pair. A clique
with three or more undecided variables enters the bounds with its largest possible contribution.

Cliques are stored as in `clique_dual`. There are N rows, V variables and J cliques. D variables of
a row are missing. For each row, the kernel finds the places of the last three missing variables of
each clique, or -1 if the clique has fewer missing variables. Two variables are called a couple if
they are the last two missing variables of some clique. All other pairs have no coupling at any
node. Couples are sorted by the place of the first variable, then by the place of the second
variable.
"""

from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import copy_into

HINGE, MAP = 0, 1


class Cliques(NamedTuple):
    """J weighted cliques. Clique j has the variables members[start[j]:start[j + 1]]."""

    start: np.ndarray  # (J + 1,) first entry of each clique in `members`
    members: np.ndarray  # (M,) variables of the cliques
    weight: np.ndarray  # (J,) weights of the cliques


class FoundStates(NamedTuple):
    """Arrays that `search_cliques` fills in."""

    value: np.ndarray  # (N,) loss, or minus the score, of the state found
    lower: np.ndarray  # (N,) lower bound of the least possible value
    n_nodes: np.ndarray  # (N,) number of nodes of the search tree


class _Places(NamedTuple):
    """Index arrays of a row. A place is a position in the search order of missing variables."""

    position: np.ndarray  # (V,) place of each variable, -1 if known
    missing: np.ndarray  # variable at each place
    last: np.ndarray  # (J,) place of the last missing variable of each clique
    before: np.ndarray  # (J,) place of the second-last missing variable of each clique
    # cliques sorted by `last`: `first` and `listed` of `_sort_cliques`
    last_first: np.ndarray
    last_listed: np.ndarray
    # cliques sorted by the place of their third-last missing variable, in the same form
    third_first: np.ndarray
    third_listed: np.ndarray
    # for each place, index of the first couple whose first variable is at this place
    first_couple: np.ndarray
    second: np.ndarray  # (P,) place of the second variable of each couple
    couple_of: np.ndarray  # (J,) couple of each clique, -1 if it has no couple
    width: np.ndarray  # (V,) scratch space


@jit
def _find_places(position, start, members, last, before, third):
    """Find the places of the last, second-last and third-last missing variable of each clique.

    The outputs `last`, `before` and `third` (J,) are -1 if there is no such variable. `position`
    (V,) is the place of each variable, -1 if its value is known.
    """
    for j in range(last.shape[0]):
        last[j] = before[j] = third[j] = -1
        for e in range(start[j], start[j + 1]):
            d = position[members[e]]
            if d > last[j]:
                third[j], before[j], last[j] = before[j], last[j], d
            elif d > before[j]:
                third[j], before[j] = before[j], d
            elif d > third[j]:
                third[j] = d


@jit
def _sort_cliques(place, first, listed):
    """Sort cliques by `place` (J,), whose values are -1, ..., D - 1.

    The outputs are `first` (D + 2,) and `listed` (J,): the cliques at place d are
    ``listed[first[d + 1]:first[d + 2]]``.
    """
    first[:] = 0
    for j in range(place.shape[0]):
        first[place[j] + 2] += 1
    for d in range(1, first.shape[0]):
        first[d] += first[d - 1]
    for j in range(place.shape[0]):
        listed[first[place[j] + 1]] = j
        first[place[j] + 1] += 1
    for d in range(first.shape[0] - 1, 0, -1):
        first[d] = first[d - 1]
    first[0] = 0


@jit
def _number_couples(n_missing, last, before, numbers, first_couple, second, couple_of):
    """Assign numbers to couples: pairs that are the last two missing variables of some clique.

    numbers : (D, D) scratch space
    """
    numbers[:n_missing, :n_missing] = -1
    for j in range(last.shape[0]):
        if before[j] >= 0:
            numbers[before[j], last[j]] = 0
    count = 0
    for d in range(n_missing):
        first_couple[d] = count
        for e in range(d + 1, n_missing):
            if numbers[d, e] == 0:
                numbers[d, e] = count
                second[count] = e
                count += 1
    first_couple[n_missing] = count
    for j in range(last.shape[0]):
        couple_of[j] = numbers[before[j], last[j]] if before[j] >= 0 else -1


@jit
def _product(j, state, start, members, weight, skipped, skipped_too):
    """Return the weight of clique j times the values of its variables.

    The variables `skipped` and `skipped_too` are left out of the product.
    """
    value = weight[j]
    for e in range(start[j], start[j + 1]):
        if members[e] != skipped and members[e] != skipped_too:
            value *= state[members[e]]
    return value


@jit(allocates=False)
def _decide(d, kind, state, places, cliques, coupling, pull, coupling_too):
    """Update the pulls and couplings after the variable at place d has got a value.

    At the root of the search tree (d = -1), no variable has got a value yet: add the effect of the
    known variables.

    coupling : (P,), coupling of each of the P couples (pairs of variables) at the parent node
    pull : (V,), output, to which the changes of the pulls on the variables are added
    coupling_too : (P,), output, to which the changes of the couplings are added
    """
    missing, last, before = places.missing, places.last, places.before
    first_couple, second, couple_of = places.first_couple, places.second, places.couple_of
    start, members, weight = cliques
    if d >= 0:
        for p in range(first_couple[d], first_couple[d + 1]):
            pull[missing[second[p]]] += coupling[p] * state[missing[d]]
    first, listed = places.third_first, places.third_listed
    for e in range(first[d + 1], first[d + 2]):
        j = listed[e]
        if before[j] >= 0:
            one, two = missing[last[j]], missing[before[j]]
            coupling_too[couple_of[j]] += _product(j, state, start, members, weight, one, two)
        elif last[j] >= 0:  # the clique has a single missing variable (only possible at the root)
            one = missing[last[j]]
            pull[one] += _product(j, state, start, members, weight, one, one)
    if kind == HINGE:  # scores need no pull on decided variables
        first, listed = places.last_first, places.last_listed
        for e in range(first[d + 1], first[d + 2]):
            j = listed[e]
            for k in range(start[j], start[j + 1]):
                i = members[k]
                # skip the last missing variable, to which this pull was added already
                if last[j] < 0 or i != missing[last[j]]:
                    pull[i] += _product(j, state, start, members, weight, i, i)


@jit
def _add_undecided(kind, missing, last, before, third, start, members, weight, free, rest):
    """Add up the largest possible contributions of cliques with three or more undecided variables.

    Row d of the outputs belongs to depth d, at which the first d variables are decided.

    free : (D + 1, V), output, largest contribution to the pull on each variable; only for HINGE
    rest : (D + 1,), output, largest contribution to the score
    """
    free[:] = 0.0
    rest[:] = 0.0
    for j in range(weight.shape[0]):
        size = abs(weight[j])
        for d in range(third[j] + 1):
            rest[d] += size
        if kind == MAP:
            continue
        for e in range(start[j], start[j + 1]):
            i = members[e]
            is_last = last[j] >= 0 and i == missing[last[j]]
            is_before = before[j] >= 0 and i == missing[before[j]]
            for d in range((third[j] if is_last or is_before else last[j]) + 1):
                free[d, i] += size
            if is_before:
                for d in range(before[j] + 1, last[j] + 1):
                    free[d, i] += size


@jit(allocates=False)
def _hinge_bound(
    d, v, n_missing, state, places, is_output, target, pull, pull_too, coupling, coupling_too, free
):  # fmt: skip
    """Return a lower bound of the hinge loss if the variable at place d takes the value v.

    pull, coupling : (V,), (P,), pulls and couplings of the node of depth d; in the child they grow
        by v times `pull_too` and `coupling_too`
    free : (V,), row of depth d + 1 of `free` in `_add_undecided`
    """
    position, missing, width = places.position, places.missing, places.width
    first_couple, second = places.first_couple, places.second
    copy_into(free, width)
    for e in range(d + 1, n_missing):
        for p in range(first_couple[e], first_couple[e + 1]):
            size = abs(coupling[p] + v * coupling_too[p])
            width[missing[e]] += size
            width[missing[second[p]]] += size
    loss = 0.0
    for i in range(pull.shape[0]):
        if is_output[i]:
            margin = pull[i] + v * pull_too[i]
            if position[i] < d:
                margin *= state[i]
            elif position[i] == d:
                margin *= v
            else:
                margin = abs(margin)
            loss += max(target - margin - width[i], 0.0)
    return loss


@jit(allocates=False)
def _score_bound(d, v, n_missing, score, places, pull, pull_too, coupling, coupling_too, rest):
    """Return an upper bound of the scores of all states below a child of a node of depth d.

    In the child, the variable at place d has the value v.

    score, pull, coupling : values of the node; in the child, pull and coupling grow by v times
        `pull_too` and `coupling_too`
    rest : entry of depth d + 1 of `rest` in `_add_undecided`
    """
    missing, first_couple = places.missing, places.first_couple
    total = score + v * pull[missing[d]] + rest
    for e in range(d + 1, n_missing):
        i = missing[e]
        total += abs(pull[i] + v * pull_too[i])
    for p in range(first_couple[d + 1], first_couple[n_missing]):
        total += abs(coupling[p] + v * coupling_too[p])
    return total


@jit
def _is_before(state, best):
    """Return True if `state` precedes `best` in lexicographic order."""
    for i in range(state.shape[0]):
        if state[i] != best[i]:
            return state[i] < best[i]
    return False


@jit
def _order_missing(n_missing, pull, start, members, weight, position, missing, strength):
    """Sort the missing variables by strength: |pull| plus the sum of |weights| of their cliques.

    The strongest variable comes first, because its value is easy to guess and influences the other
    variables most.

    missing, position : (n_missing,), (V,), changed
    strength : (V,) scratch space
    """
    for e in range(n_missing):
        strength[missing[e]] = abs(pull[missing[e]])
    for j in range(weight.shape[0]):
        for e in range(start[j], start[j + 1]):
            i = members[e]
            if position[i] >= 0:
                strength[i] += abs(weight[j])
    for e in range(n_missing):
        i = missing[e]
        d = e
        while d > 0 and strength[i] > strength[missing[d - 1]]:
            missing[d] = missing[d - 1]
            d -= 1
        missing[d] = i
    for e in range(n_missing):
        position[missing[e]] = e


# This kernel is longer than other kernels because it is a single loop over the nodes of a tree.
@jit
def search_cliques(
    kind, signs, field, is_output, cliques, target, slack, n_ties, node_limit, n_most, found
):  # fmt: skip
    """Find the best values of the missing variables of each row, and write them to `signs`.

    `signs` (N, V) has the values -1 or +1 of V variables in N rows, and 0 for missing values. Among
    states of equal hinge loss, the state with the highest score is chosen, and among states of
    equal score the first state in lexicographic order. If a row has more than `n_ties` missing
    variables, ties are not broken in this way, and the tied state that is found first is kept.

    Parameters
    ----------
    kind : HINGE or MAP
    field : (N, V), fields of V variables in each of N rows
    is_output : (V,) bool, True for variables whose margins have a hinge loss
    cliques : Cliques
    target : gamma, the margin from which the loss is 0
    slack : (N,) tolerance of each row: two losses, or two scores, count as equal if they differ by
        less than the tolerance
    node_limit : int, largest number of nodes per row; if the search has not found a state by then,
        it goes on until it has found its first state
    n_most : int, the largest number of missing variables of a row
    found : FoundStates
    """
    start, members, weight = cliques
    value, lower, n_nodes = found
    n_variables, n_cliques = signs.shape[1], weight.shape[0]
    n_couples = min(n_cliques, n_most * (n_most - 1) // 2)
    position = np.empty(n_variables, np.int64)
    missing = np.empty(n_most, np.int64)
    last = np.empty(n_cliques, np.int64)
    before = np.empty(n_cliques, np.int64)
    third = np.empty(n_cliques, np.int64)
    by_last = np.empty(n_most + 2, np.int64), np.empty(n_cliques, np.int64)
    by_third = np.empty(n_most + 2, np.int64), np.empty(n_cliques, np.int64)
    numbers = np.empty((n_most, n_most), np.int64)
    first_couple = np.empty(n_most + 1, np.int64)
    second = np.empty(n_couples, np.int64)
    couples = first_couple, second, np.empty(n_cliques, np.int64)
    pull = np.empty((n_most + 1, n_variables))
    pull_too = np.empty((n_most + 1, n_variables))
    coupling = np.empty((n_most + 1, n_couples))
    coupling_too = np.empty((n_most + 1, n_couples))
    free = np.empty((n_most + 1, n_variables))
    width = np.empty(n_variables)
    rest = np.empty(n_most + 1)
    score = np.empty(n_most + 1)
    chosen = np.empty(n_most)  # value of the decided variable in the child that is visited first
    bounds = np.empty((n_most, 2))  # bounds of the first and second child of the node at each depth
    visited = np.empty(n_most, np.int64)
    state = np.empty(n_variables)
    best = np.empty(n_variables)
    root = np.int64(-1)
    places = _Places(position, missing, last, before, *by_last, *by_third, *couples, width)
    for n in range(signs.shape[0]):
        n_missing = np.int64(0)
        for i in range(n_variables):
            state[i] = best[i] = signs[n, i]
            position[i] = -1
            pull[0, i] = field[n, i]
            if signs[n, i] == 0:
                position[i] = n_missing
                missing[n_missing] = i
                n_missing += 1
        _order_missing(n_missing, pull[0], start, members, weight, position, missing, width)
        _find_places(position, start, members, last, before, third)
        _sort_cliques(last, *by_last)
        _sort_cliques(third, *by_third)
        _number_couples(n_missing, last, before, numbers, *couples)
        coupling[0] = 0.0
        _decide(root, kind, state, places, cliques, coupling[0], pull[0], coupling[0])
        _add_undecided(kind, missing, last, before, third, start, members, weight, free, rest)
        score[0] = 0.0
        for i in range(n_variables):
            score[0] += state[i] * field[n, i]
        for j in range(n_cliques):
            if last[j] < 0:
                score[0] += _product(j, state, start, members, weight, root, root)
        least = most = np.inf
        if n_missing == 0:
            most = -score[0]
            least = most
            if kind == HINGE:  # all variables are known, so the pulls are not used
                least = _hinge_bound(
                    n_missing, 0.0, n_missing, state, places, is_output, target, pull[0], free[0],
                    coupling[0], coupling[0], free[0],
                )  # fmt: skip
        cut = slack[n] if n_missing <= n_ties else -slack[n]
        count = np.int64(0)
        d = np.int64(0) if n_missing > 0 else root
        expand = True
        while d >= 0:
            i = missing[d]
            if expand:
                if count >= node_limit and least < np.inf:
                    break
                count += 1
                pull_too[d] = 0.0
                coupling_too[d] = 0.0
                state[i] = 1.0
                _decide(d, kind, state, places, cliques, coupling[d], pull_too[d], coupling_too[d])
                for c in range(2):
                    v = 2.0 * c - 1.0
                    if kind == HINGE:
                        bounds[d, c] = _hinge_bound(
                            d, v, n_missing, state, places, is_output, target, pull[d],
                            pull_too[d], coupling[d], coupling_too[d], free[d + 1],
                        )  # fmt: skip
                    else:
                        bounds[d, c] = -_score_bound(
                            d, v, n_missing, score[d], places, pull[d], pull_too[d], coupling[d],
                            coupling_too[d], rest[d + 1],
                        )  # fmt: skip
                up, down = bounds[d, 1], bounds[d, 0]
                chosen[d] = 1.0 if up < down or (up == down and pull[d, i] > 0) else -1.0
                bounds[d, 0] = min(up, down)
                bounds[d, 1] = max(up, down)
                visited[d] = 0
            c = visited[d]
            if c == 2 or bounds[d, c] > least + cut:
                # go back to the parent; the second child never has a better bound than the first
                # child
                d -= 1
                expand = False
                continue
            visited[d] = c + 1
            v = chosen[d] if c == 0 else -chosen[d]
            state[i] = v
            score[d + 1] = score[d] + v * pull[d, i]
            expand = d < n_missing - 1
            if expand:
                for k in range(n_variables):
                    pull[d + 1, k] = pull[d, k] + v * pull_too[d, k]
                for p in range(first_couple[d + 1], first_couple[n_missing]):
                    coupling[d + 1, p] = coupling[d, p] + v * coupling_too[d, p]
                d += 1
                continue
            new = bounds[d, c]  # once all variables are decided, the bound is the value
            better = new < least - slack[n]
            if not better and cut > 0 and new <= least + slack[n]:
                better = -score[d + 1] < most - slack[n]
                if not better and -score[d + 1] <= most + slack[n]:
                    better = _is_before(state, best)
            elif not better:
                better = new < least
            if better:
                most = -score[d + 1]
                for k in range(n_variables):
                    best[k] = state[k]
            least = min(least, new)
        value[n] = lower[n] = least
        for e in range(d):  # the node limit was reached: bound the children that were not finished
            lower[n] = min(lower[n], bounds[e, visited[e] - 1])
        n_nodes[n] = count
        for i in range(n_variables):
            signs[n, i] = best[i]
