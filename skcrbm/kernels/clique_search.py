"""Search for the values of a row's missing variables with the least hinge loss."""

import numpy as np

from skcrbm.kernels.jit import jit


@jit
def _buckets(n_missing, position, start, members, last, first, listed):
    """Sort cliques by the last of their missing variables.

    Parameters
    ----------
    position : (V,), place among the missing variables, -1 of the others
    last : (J,), output: place of the last missing variable of each clique, -1 without one
    first, listed : (n_missing + 2,), (J,), output: the cliques with last = d are
        listed[first[d + 1]:first[d + 2]]
    """
    for d in range(n_missing + 2):
        first[d] = 0
    for j in range(last.shape[0]):
        d = np.int64(-1)
        for e in range(start[j], start[j + 1]):
            d = max(d, position[members[e]])
        last[j] = d
        first[d + 2] += 1
    for d in range(1, n_missing + 2):
        first[d] += first[d - 1]
    for j in range(last.shape[0]):
        listed[first[last[j] + 1]] = j
        first[last[j] + 1] += 1
    for d in range(n_missing + 1, 0, -1):
        first[d] = first[d - 1]
    first[0] = 0


@jit
def _settle(d, state, start, members, weight, is_output, first, listed, sums, score):
    """Add the cliques that are complete once missing variable d - 1 has a value.

    Parameters
    ----------
    sums : (D + 1, V), what complete cliques add to each margin; row d is output
    score : (D + 1,), of complete cliques; entry d is output
    """
    for i in range(sums.shape[1]):
        sums[d, i] = sums[d - 1, i] if d > 0 else 0.0
    score[d] = score[d - 1] if d > 0 else 0.0
    for k in range(first[d], first[d + 1]):
        j = listed[k]
        value = weight[j]
        for e in range(start[j], start[j + 1]):
            value *= state[members[e]]
        score[d] += value
        for e in range(start[j], start[j + 1]):
            if is_output[members[e]]:
                sums[d, members[e]] += value


@jit
def _bound(d, is_output, target, sums, free):
    """Least hinge loss that the cliques which are not complete leave possible."""
    loss = 0.0
    for i in range(sums.shape[1]):
        if is_output[i]:
            loss += max(target - sums[d, i] - free[d, i], 0.0)
    return loss


@jit
def _is_before(state, best, missing, n_missing):
    """Whether a state comes first in lexicographic order."""
    for d in range(n_missing):
        if state[missing[d]] != best[missing[d]]:
            return state[missing[d]] < best[missing[d]]
    return False


@jit
def least_hinge(signs, is_output, start, members, weight, target, slack, n_most):
    """Fill in signs (N, V), 0 where missing, by branch and bound; changes them.

    Among equals the highest score, then the first in lexicographic order.

    Parameters
    ----------
    is_output : (V,) bool; the loss is that of their margins
    start, members : cliques, as in `clique_dual`
    weight : (J,)
    target : gamma
    slack : losses and scores that differ by less are equal
    n_most : int, the largest number of missing variables of a row
    """
    n_variables, n_cliques = signs.shape[1], weight.shape[0]
    position = np.empty(n_variables, np.int64)
    missing = np.empty(n_variables, np.int64)
    last = np.empty(n_cliques, np.int64)
    listed = np.empty(n_cliques, np.int64)
    first = np.empty(n_most + 2, np.int64)
    sums = np.empty((n_most + 1, n_variables))
    free = np.empty((n_most + 1, n_variables))
    score = np.empty(n_most + 1)
    tried = np.empty(n_most + 1, np.int64)
    ahead = np.empty(n_most + 1)
    other = np.empty(n_most + 1)
    state = np.empty(n_variables)
    best = np.empty(n_variables)
    for n in range(signs.shape[0]):
        n_missing = np.int64(0)
        for i in range(n_variables):
            state[i] = best[i] = signs[n, i]
            position[i] = -1
            if signs[n, i] == 0:
                position[i] = n_missing
                missing[n_missing] = i
                n_missing += 1
        if n_missing == 0:
            continue
        _buckets(n_missing, position, start, members, last, first, listed)
        for i in range(n_variables):
            free[n_missing, i] = 0.0
        for d in range(n_missing - 1, -1, -1):
            for i in range(n_variables):
                free[d, i] = free[d + 1, i]
            for k in range(first[d + 1], first[d + 2]):
                j = listed[k]
                for e in range(start[j], start[j + 1]):
                    free[d, members[e]] += abs(weight[j])
        _settle(0, state, start, members, weight, is_output, first, listed, sums, score)
        least = most = np.inf
        d = np.int64(0)
        tried[0] = 0
        while d >= 0:
            if d == n_missing:
                loss = _bound(d, is_output, target, sums, free)
                better = loss < least - slack
                if not better and loss <= least + slack:
                    better = -score[d] < most - slack
                    if not better and -score[d] <= most + slack:
                        better = _is_before(state, best, missing, n_missing)
                if better:
                    most = -score[d]
                    for i in range(n_variables):
                        best[i] = state[i]
                least = min(least, loss)
                d -= 1
                continue
            i = missing[d]
            if tried[d] == 0:  # the more promising value first
                state[i] = -1.0
                _settle(d + 1, state, start, members, weight, is_output, first, listed, sums, score)
                off = _bound(d + 1, is_output, target, sums, free)
                state[i] = 1.0
                _settle(d + 1, state, start, members, weight, is_output, first, listed, sums, score)
                on = _bound(d + 1, is_output, target, sums, free)
                ahead[d] = 1.0 if on < off else -1.0
                other[d] = max(on, off)
                bound = min(on, off)
                state[i] = ahead[d]
            else:
                bound = other[d]
                state[i] = -ahead[d]
            tried[d] += 1
            if tried[d] > 2:
                d -= 1
            elif bound <= least + slack:
                _settle(d + 1, state, start, members, weight, is_output, first, listed, sums, score)
                d += 1
                tried[d] = 0
        for i in range(n_variables):
            signs[n, i] = best[i]
