"""Train pairwise models of labels for a margin of whole label vectors, by block-coordinate steps.

A row has L observed labels y in {-1, +1}, fields f = A'x + b, and couplings S that all rows share.
Label vectors v violate the margin by ``D(v) + F(v) - F(y)``, where ``F(v) = f.v + 1/2 v'Sv`` and
D is the number of labels in which v and y differ. The dual variables of a row are a probability
distribution over a few label vectors, which are called atoms, as in `chain_margins.py`. To visit a
row, the kernel searches for labels that violate the margin more than the atoms. Then it moves
probability from the atom that violates the margin least to the atom that violates it most. The
moved amount maximises the dual objective.

The solution of a linear program may take the place of a label vector. Its labels may also be 0, and
its pairs are not the products of its labels, so that its atoms store the pairs, too.
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import copy_into, dot, fill, move_probability

# Ways to find new labels in a visit: labels that the caller found; the label vector with a single
# label on that has the highest score; the signs of the fields, which have the highest score if
# there are no couplings; and flips of single labels up to a local optimum.
GIVEN, ONE_HOT, SIGNS, FLIPS = 0, 1, 2, 3
# A step moves probability between two atoms. It is made only if their violations differ by more
# than this number times (1 + the sizes of the scores), because a smaller difference may be a
# rounding error. A label is flipped only if the score improves by more than this number times the
# size of the scores.
_ROUNDING = 1e-12
# Largest number of sweeps over the labels in a local search.
_SWEEPS = 100


class Rows(NamedTuple):
    """N training rows with D columns: features as a CSR matrix, and L observed labels."""

    data: np.ndarray  # float64, values of the CSR matrix
    indices: np.ndarray  # int32, columns of the values
    indptr: np.ndarray  # (N + 1,) int32, first value of each row
    square: np.ndarray  # (N,) 1 + squared length of the features
    signs: np.ndarray  # (N, L) observed labels, -1 and +1
    weight: np.ndarray  # (N,) weights of the losses


class Weights(NamedTuple):
    """Parameters, which the kernel updates."""

    coef: np.ndarray  # (D + 1, L) coefficients of the columns, and the intercepts in the last row
    pairs: np.ndarray  # (L, L) couplings S, symmetric, with a diagonal of 0


class Atoms(NamedTuple):
    """Label vectors (atoms) and their dual variables.

    Each of the N rows has M atoms. An atom whose dual variable is 0 may be replaced.
    """

    labels: np.ndarray  # (N, M, L) int8, labels -1 and +1, or 0 for one half
    # (N, M, L, L) int8, expected products of labels, below the diagonal; the shape is (N, M, 0, 0)
    # if all atoms are label vectors
    pairs: np.ndarray
    value: np.ndarray  # (N, M) dual variables


class Found(NamedTuple):
    """Labels that the caller found, one vector for each row; see `Atoms` for the arrays."""

    labels: np.ndarray  # (N, L) int8
    pairs: np.ndarray  # (N, L, L) int8, or (N, 0, 0)


class Work(NamedTuple):
    """Scratch space of `visit_labels`, which takes long to compile if it allocates arrays."""

    vectors: np.ndarray  # (5, L)
    gains: np.ndarray  # (2, M)
    labels: np.ndarray  # (L,) int8
    pairs: np.ndarray  # (L, L) int8, or (0, 0)


@jit(fastmath={"contract"})
def _add_scaled(factor, x, out):
    for i in range(np.uintp(out.shape[0])):
        out[i] += factor * x[i]


@jit
def _set_fields(c, rows, weights, field):
    """Write the fields of row c, and half a unit against each observed label, to `field` (L,)."""
    copy_into(weights.coef[weights.coef.shape[0] - 1], field)
    for e in range(rows.indptr[c], rows.indptr[c + 1]):
        _add_scaled(rows.data[e], weights.coef[rows.indices[e]], field)
    _add_scaled(-0.5, rows.signs[c], field)


@jit(fastmath={"contract", "reassoc"})
def _vector_score(y, field, S):
    """Return the score of the label vector `y` (L,) float64."""
    total = 0.0
    for i in range(y.shape[0]):
        total += y[i] * (field[i] + 0.5 * dot(S[i], y))
    return total


@jit
def _score(labels, pairs, field, S, y):
    """Return the score of an atom; `pairs` (L, L), or (0, 0) for a label vector.

    `y` (L,) float64 is scratch space.
    """
    for i in range(labels.shape[0]):
        y[i] = labels[i]
    if pairs.shape[0] == 0:
        return _vector_score(y, field, S)
    total = dot(field, y)
    for i in range(labels.shape[0]):
        for k in range(i):
            total += S[i, k] * pairs[i, k]
    return total


@jit
def _flip(field, S, tie, local, y):
    """Flip labels of `y` (L,) until no single flip raises the score; `local` (L,) is scratch."""
    n_labels = y.shape[0]
    for i in range(n_labels):
        local[i] = field[i] + dot(S[i], y)
    for _ in range(_SWEEPS):
        changed = False
        for i in range(n_labels):
            if -2.0 * y[i] * local[i] > tie:
                _add_scaled(-2.0 * y[i], S[i], local)
                y[i] = -y[i]
                changed = True
        if not changed:
            break


@jit
def _search(rule, field, S, tie, other, local, again, y):
    """Find labels with a high score and write them to `y` (L,).

    A local search starts from the labels of the atom `other` (L,), and from the signs of the
    fields. `local` and `again` (L,) are scratch space.
    """
    n_labels = y.shape[0]
    if rule == ONE_HOT:
        fill(y, -1.0)
        y[np.argmax(field)] = 1.0
        return
    value = -math.inf
    for start in range(0 if rule == FLIPS else 1, 2):
        for i in range(n_labels):
            on = field[i] > 0.0 if start == 1 else other[i] > 0
            again[i] = 1.0 if on else -1.0
        if rule == FLIPS:
            _flip(field, S, tie, local, again)
        found = _vector_score(again, field, S)
        if found > value:
            value = found
            copy_into(again, y)


@jit
def _pair_product(labels, pairs, other, other_pairs):
    """Return the inner product of the expected products of all pairs of labels of two atoms."""
    n_labels = labels.shape[0]
    total = 0
    if pairs.shape[0] > 0:
        for i in range(n_labels):
            for k in range(i):
                total += np.int64(pairs[i, k]) * other_pairs[i, k]
        return np.float64(total)
    for i in range(n_labels):
        total += np.int64(labels[i]) * other[i]
    return 0.5 * (total * total - n_labels)


@jit
def _product(labels, pairs, other, other_pairs, square, inverse):
    """Return the inner product of the features of two atoms of a row.

    `square` is 1 + the squared length of the features of the row, and `inverse` is 1 / eta.
    """
    total = 0
    for i in range(labels.shape[0]):
        total += np.int64(labels[i]) * other[i]
    found = square * total
    if inverse > 0.0:
        found += inverse * _pair_product(labels, pairs, other, other_pairs)
    return found


@jit
def _move(c, size, inverse, plus, plus_pairs, minus, minus_pairs, rows, weights, change):
    """Add `size` times the features of `plus` minus the features of `minus` to the parameters.

    `inverse` is 1 / eta. `change` (L,) is scratch space.
    """
    n_labels = plus.shape[0]
    for i in range(n_labels):
        change[i] = np.float64(plus[i]) - minus[i]
    _add_scaled(size, change, weights.coef[weights.coef.shape[0] - 1])
    for e in range(rows.indptr[c], rows.indptr[c + 1]):
        _add_scaled(size * rows.data[e], change, weights.coef[rows.indices[e]])
    if inverse == 0.0:
        return
    S = weights.pairs
    for i in range(n_labels):
        for k in range(i):
            if plus_pairs.shape[0] > 0:
                difference = np.float64(plus_pairs[i, k]) - minus_pairs[i, k]
            else:
                difference = np.float64(plus[i]) * plus[k] - np.float64(minus[i]) * minus[k]
            S[i, k] += size * inverse * difference
            S[k, i] = S[i, k]


@jit
def _extremes(c, atoms, gain):
    """Return the atom with a positive dual variable and the least gain, and that with the most."""
    worst, best = -1, -1
    for a in range(gain.shape[0]):
        if atoms.value[c, a] > 0.0 and (worst < 0 or gain[a] < gain[worst]):
            worst = a
        if gain[a] > -math.inf and (best < 0 or gain[a] > gain[best]):
            best = a
    return worst, best


@jit
def visit_labels(order, rule, n_steps, inverse, rows, weights, found, atoms, work, losses, gaps):
    """Visit rows in the given order, and make at most `n_steps` steps in each of them.

    Return the number of visits in which new labels could not be stored, and the number of steps.

    Parameters
    ----------
    order : ndarray of int64
        Indices of the rows to visit.
    rule : int
        `GIVEN`, `ONE_HOT`, `SIGNS` or `FLIPS`: how new labels are found.
    n_steps : int
    inverse : float
        1 / eta, where eta is the penalty of the couplings; 0 without couplings.
    rows, weights, found, atoms
        `weights` and `atoms` are changed in place. `found` is read if `rule` is `GIVEN`.
    work : Work
    losses, gaps : ndarray (N,)
        Output for each visited row c. losses[c] is the largest violation of the margin that was
        found. gaps[c] is losses[c] minus the expected violation under the dual variables.
    """
    n_labels = rows.signs.shape[1]
    n_atoms = atoms.value.shape[1]
    S = weights.pairs
    field, y, change = work.vectors[0], work.vectors[1], work.vectors[2]
    local, again = work.vectors[3], work.vectors[4]
    gain, slope = work.gains[0], work.gains[1]
    new, new_pairs = work.labels, work.pairs
    n_full, n_made = 0, 0
    for c in order:
        observed, square, scale = rows.signs[c], rows.square[c], rows.weight[c]
        labels, pairs, value = atoms.labels[c], atoms.pairs[c], atoms.value[c]
        _set_fields(c, rows, weights, field)
        base = _vector_score(observed, field, S)
        size = abs(base)
        for i in range(n_labels):
            size += abs(field[i])
        expected, free = 0.0, -1
        for a in range(n_atoms):
            gain[a] = -math.inf
            if value[a] > 0.0:
                gain[a] = _score(labels[a], pairs[a], field, S, y) - base
                expected += value[a] * gain[a]
            elif free < 0:
                free = a
        worst, best = _extremes(c, atoms, gain)
        if rule == GIVEN:
            copy_into(found.labels[c], new)
            for i in range(new_pairs.shape[0]):
                copy_into(found.pairs[c, i], new_pairs[i])
        else:
            _search(rule, field, S, _ROUNDING * size, labels[best], local, again, y)
            for i in range(n_labels):
                new[i] = np.int8(y[i])
            for i in range(new_pairs.shape[0]):
                for k in range(i):
                    new_pairs[i, k] = new[i] * new[k]
        violation = _score(new, new_pairs, field, S, y) - base
        # Labels that equal an atom have the same violation, and are not stored again.
        if violation > gain[best] + _ROUNDING * (1.0 + size):
            if n_steps == 0:
                losses[c] = max(violation, 0.0)
                gaps[c] = losses[c] - expected
                continue
            if free >= 0:
                best = free
                copy_into(new, labels[best])
                for i in range(new_pairs.shape[0]):
                    copy_into(new_pairs[i], pairs[best, i])
                gain[best] = violation
            else:
                n_full += 1
        losses[c] = max(gain[best], 0.0)
        gaps[c] = losses[c] - expected
        for _ in range(n_steps):
            rise = gain[best] - gain[worst]
            if rise <= _ROUNDING * (1.0 + size):
                break
            for a in range(n_atoms):
                if gain[a] > -math.inf:
                    slope[a] = 0.0
                    for end, sign in ((worst, 1.0), (best, -1.0)):
                        slope[a] += sign * _product(
                            labels[end], pairs[end], labels[a], pairs[a], square, inverse
                        )
            length = slope[worst] - slope[best]
            moved = move_probability(value, worst, best, rise, scale * length)
            n_made += 1
            _move(
                c, moved * scale, inverse, labels[worst], pairs[worst], labels[best], pairs[best],
                rows, weights, change,
            )  # fmt: skip
            # The gains stay right up to a common constant, which has no effect on the next step.
            for a in range(n_atoms):
                gain[a] += moved * scale * slope[a]
            worst, best = _extremes(c, atoms, gain)
    return n_full, n_made
