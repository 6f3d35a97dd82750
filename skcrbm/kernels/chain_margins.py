"""Train linear chains with a maximal margin by the block-coordinate Frank-Wolfe method.

Sequences of different lengths lie one after the other, as in `chains.py`. The dual variables of a
training sequence are a probability distribution over a few label sequences, which are called atoms.
The kernel visits the training sequences in turn. A visit uses Viterbi's algorithm, with the loss
added to the scores, to find the label sequence that violates the margin most. It then moves
probability from the atom that violates the margin least to this label sequence. The moved amount
maximises the dual objective.
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import fill, keep_larger, move_probability

# A step moves probability between two atoms. It is made only if their violations differ by more
# than this number times (1 + |violation|), because a smaller difference may be a rounding error.
_ROUNDING = 1e-12
# A visit of a training sequence makes at most this many steps. Only the first step can add an atom.
_STEPS = 3


class Sequences(NamedTuple):
    """n training sequences with T positions in total: features as a CSR matrix, and labels."""

    start: np.ndarray  # (n + 1,) int64: sequence c has the positions start[c]:start[c + 1]
    data: np.ndarray  # float64, values of the CSR matrix
    indices: np.ndarray  # int32, columns of the values
    indptr: np.ndarray  # (T + 1,) int32, first value of each position
    path: np.ndarray  # (T,) int64, observed states
    weight: np.ndarray  # (n,) weights of the sequences


class Weights(NamedTuple):
    """Parameters of a chain, which the kernel updates, and the layout of `coef`.

    There are D feature columns, P coefficients and K states. Column j of the features has the
    coefficients column[j] to column[j + 1] - 1. label[p] is the state to which coefficient p
    belongs. Within a column, the coefficients are in ascending order of their states.
    """

    column: np.ndarray  # (D + 1,) int64, first coefficient of each column
    label: np.ndarray  # (P,) int32, state of each coefficient
    coef: np.ndarray  # (P,) coefficients of the features
    intercept: np.ndarray  # (K,) log-weights of the states
    transition: np.ndarray  # (K, K) log-weights of the transitions
    first: np.ndarray  # (K,) log-weights of the first state
    last: np.ndarray  # (K,) log-weights of the last state


class Forbidden(NamedTuple):
    """Log-weights that are -inf for forbidden transitions and states, else 0."""

    pairs: np.ndarray  # (K, K) log-weights (0 or -inf) of the transitions
    first: np.ndarray  # (K,) log-weights (0 or -inf) of the first state
    last: np.ndarray  # (K,) log-weights (0 or -inf) of the last state


class Atoms(NamedTuple):
    """Label sequences (atoms) and their dual variables.

    Each of the n training sequences has M atoms. An atom whose dual variable is 0 may be replaced.
    """

    path: np.ndarray  # (M, T) int32, label sequences; the columns are the positions of `Sequences`
    value: np.ndarray  # (n, M) dual variables
    loss: np.ndarray  # (n, M) number of wrong labels


@jit(fastmath={"contract"})
def _set_scores(begin, end, sequences, weights, scores):
    """Write the log-weight of each state at each position of a sequence to `scores` (length, K)."""
    for t in range(begin, end):
        row = scores[t - begin]
        for k in range(row.shape[0]):
            row[k] = weights.intercept[k]
        for e in range(sequences.indptr[t], sequences.indptr[t + 1]):
            x = sequences.data[e]
            j = sequences.indices[e]
            for p in range(weights.column[j], weights.column[j + 1]):
                row[weights.label[p]] += x * weights.coef[p]


@jit
def _worst_path(length, scores, matrix, first, last, observed, work, back, found):
    """Find the path of states whose log-weight plus number of wrong states is largest.

    Write the path to `found` (length,), and return the sum. A state is wrong if it differs from the
    state in `observed` (length,). `work` (2, K) and `back` (length, K) are scratch space.
    """
    n_states = scores.shape[1]
    best, previous = work[0], work[1]
    for j in range(n_states):
        best[j] = first[j] + scores[0, j] + (1.0 if j != observed[0] else 0.0)
    for t in range(1, length):
        for j in range(n_states):
            previous[j] = best[j]
            best[j] = -math.inf
            back[t, j] = 0
        for i in range(n_states):
            keep_larger(matrix[i], previous[i], i, best, back[t])
        for j in range(n_states):
            best[j] += scores[t, j] + (1.0 if j != observed[t] else 0.0)
    value, state = -math.inf, 0
    for j in range(n_states):
        if best[j] + last[j] > value:
            value = best[j] + last[j]
            state = j
    for t in range(length - 1, -1, -1):
        found[t] = state
        state = back[t, state]
    return value


@jit
def _log_weight(length, scores, matrix, first, last, path):
    total = first[path[0]] + last[path[length - 1]]
    for t in range(length):
        total += scores[t, path[t]]
        if t > 0:
            total += matrix[path[t - 1], path[t]]
    return total


@jit
def _coefficient(weights, j, k):
    """Return the index of the coefficient of column j and state k, or -1 if it does not exist."""
    low = weights.column[j]
    high = weights.column[j + 1]
    if high - low == weights.intercept.shape[0]:
        return low + k
    while low < high:
        middle = (low + high) // 2
        if weights.label[middle] < k:
            low = middle + 1
        else:
            high = middle
    return low if low < weights.column[j + 1] and weights.label[low] == k else np.int64(-1)


@jit
def _add_difference(begin, end, sequences, weights, plus, minus, change, touched):
    """Add the difference of the features of two paths, `plus` minus `minus`, to `change` (P,).

    Write the indices of the changed entries to `touched`, and return the number of indices. An
    index may be repeated.
    """
    n = 0
    for t in range(begin, end):
        one = np.int64(plus[t - begin])
        other = np.int64(minus[t - begin])
        if one == other:
            continue
        for e in range(sequences.indptr[t], sequences.indptr[t + 1]):
            j = sequences.indices[e]
            p = _coefficient(weights, j, one)
            if p >= 0:
                change[p] += sequences.data[e]
                touched[n] = p
                n += 1
            p = _coefficient(weights, j, other)
            if p >= 0:
                change[p] -= sequences.data[e]
                touched[n] = p
                n += 1
    return n


@jit
def _add_counts(length, path, sign, states, pairs, first, last):
    """Add `sign` times the counts of the states and transitions of `path` to four arrays.

    The arrays are `states` (K,) for all positions, `pairs` (K, K) for the transitions, and `first`
    (K,) and `last` (K,) for the first and the last position. K is the number of states.
    """
    for t in range(length):
        states[path[t]] += sign
        if t > 0:
            pairs[path[t - 1], path[t]] += sign
    first[path[0]] += sign
    last[path[length - 1]] += sign


@jit
def _square(row):
    total = 0.0
    for k in range(row.shape[0]):
        total += row[k] * row[k]
    return total


@jit
def _move(row, factor, change):
    """Add factor * change to `row` (K,), and set `change` (K,) to 0."""
    for k in range(row.shape[0]):
        row[k] += factor * change[k]
        change[k] = 0.0


@jit
def _compare_atoms(c, begin, end, base, best, found, scores, matrix, first, last, atoms):
    """Compute the violation of the margin by each atom of sequence c.

    The violation of a label sequence is its log-weight plus its number of wrong labels, minus
    `base`, the log-weight of the observed labels. An atom is free if its dual variable is 0.
    Return:

    - the expected violation under the dual variables;
    - the smallest violation of an atom with a positive dual variable, and the index of this atom;
    - the largest violation of an atom, and the index of this atom;
    - the index of the first free atom;
    - the index of the atom that equals the labels `found`.

    An index is -1 if there is no such atom. If `best` is the index of an atom, this atom does not
    count as free, and no atom is compared with `found`.
    """
    expected, low, high = 0.0, math.inf, -math.inf
    lowest, highest, free, same = -1, -1, -1, -1
    for a in range(atoms.value.shape[1]):
        if atoms.value[c, a] == 0.0 and a != best:
            if free < 0:
                free = a
            continue
        path = atoms.path[a, begin:end]
        violation = _log_weight(end - begin, scores, matrix, first, last, path) - base
        violation += atoms.loss[c, a]
        expected += atoms.value[c, a] * violation
        if atoms.value[c, a] > 0.0 and violation < low:
            low, lowest = violation, a
        if violation > high:
            high, highest = violation, a
        if best < 0:
            equal = True
            for t in range(end - begin):
                if path[t] != found[t]:
                    equal = False
                    break
            if equal:
                same = a
    return expected, low, lowest, high, highest, free, same


@jit
def _store_atom(c, begin, a, found, observed, atoms):
    """Store the labels `found` as atom a of sequence c, and count their errors."""
    wrong = 0
    for t in range(observed.shape[0]):
        atoms.path[a, begin + t] = found[t]
        wrong += found[t] != observed[t]
    atoms.loss[c, a] = wrong


@jit
def visit_chains(order, total, own, sequences, weights, forbidden, atoms, losses, gaps):
    """Visit sequences in the given order.

    Return the number of visits in which a new atom could not be stored.

    Parameters
    ----------
    order : ndarray of int64
        Indices of the sequences to visit.
    total : float
        Strength of the penalty times the sum of the weights of all sequences.
    own : bool
        True if `intercept`, `first` and `last` are trained.
    sequences, weights, forbidden, atoms
        `weights` and `atoms` are changed in place.
    losses, gaps : ndarray (n,)
        Output for each visited sequence c. losses[c] is the largest violation of the margin.
        gaps[c] is losses[c] minus the expected violation under the dual variables.
    """
    n_states = weights.intercept.shape[0]
    start = sequences.start
    longest, most = 0, 0
    for c in range(start.shape[0] - 1):
        longest = max(longest, start[c + 1] - start[c])
        most = max(most, sequences.indptr[start[c + 1]] - sequences.indptr[start[c]])
    scores = np.empty((longest, n_states))
    work = np.empty((2, n_states))
    back = np.zeros((longest, n_states), np.int64)
    found = np.empty(longest, np.int64)
    change = np.zeros(weights.coef.shape[0])
    touched = np.empty(2 * most, np.int64)
    kept = np.empty(2 * most)
    pairs = np.zeros((n_states, n_states))
    ends = np.zeros((3, n_states))
    matrix = weights.transition + forbidden.pairs
    first = weights.first + forbidden.first
    last = weights.last + forbidden.last
    n_full = 0
    for c in order:
        begin, end = start[c], start[c + 1]
        length = end - begin
        observed = sequences.path[begin:end]
        best = -1
        for step in range(_STEPS):
            _set_scores(begin, end, sequences, weights, scores)
            base = _log_weight(length, scores, matrix, first, last, observed)
            if step == 0:
                value = _worst_path(
                    length, scores, matrix, first, last, observed, work, back, found
                )
                value -= base
            # Move probability between two label sequences (atoms): from `worst`, which violates the
            # margin least, to `best`, which violates the margin most.
            expected, low, worst, high, other, free, same = _compare_atoms(
                c, begin, end, base, best, found, scores, matrix, first, last, atoms
            )
            if step > 0:
                best = other
            else:
                losses[c] = value
                gaps[c] = value - expected
                best = same if same >= 0 else free
                # If no atom is free to store the found labels, use the atom that violates the
                # margin most.
                if best < 0:
                    n_full += 1
                    best = other
                else:
                    high = value
                    if same < 0:
                        _store_atom(c, begin, best, found, observed, atoms)
            rise = high - low
            if best == worst or rise <= _ROUNDING * (1.0 + abs(high) + abs(base)):
                break
            plus, minus = atoms.path[worst, begin:end], atoms.path[best, begin:end]
            n = _add_difference(begin, end, sequences, weights, plus, minus, change, touched)
            square = 0.0
            # An index may be in `touched` twice. When it comes a second time, `change` is already
            # 0, so the index adds to the sum `square` only once.
            for i in range(n):
                kept[i] = change[touched[i]]
                change[touched[i]] = 0.0
                square += kept[i] * kept[i]
            _add_counts(length, plus, 1.0, ends[0], pairs, ends[1], ends[2])
            _add_counts(length, minus, -1.0, ends[0], pairs, ends[1], ends[2])
            if not own:
                for k in range(3):
                    fill(ends[k], 0.0)
            for k in range(3):
                square += _square(ends[k])
            for k in range(n_states):
                square += _square(pairs[k])
            scale = sequences.weight[c] / total
            moved = move_probability(atoms.value[c], worst, best, rise, scale * square)
            factor = moved * scale
            for i in range(n):
                weights.coef[touched[i]] += factor * kept[i]
            for k in range(n_states):
                _move(weights.transition[k], factor, pairs[k])
                for j in range(n_states):
                    matrix[k, j] = weights.transition[k, j] + forbidden.pairs[k, j]
            _move(weights.intercept, factor, ends[0])
            _move(weights.first, factor, ends[1])
            _move(weights.last, factor, ends[2])
            for k in range(n_states):
                first[k] = weights.first[k] + forbidden.first[k]
                last[k] = weights.last[k] + forbidden.last[k]
    return n_full
