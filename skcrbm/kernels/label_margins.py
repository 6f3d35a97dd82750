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
from skcrbm.kernels.scalar import dot, move_probability, times_row

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
    value: np.ndarray  # (N, M) dual variables


class Pairs(NamedTuple):
    """Expected products of labels, below the diagonal, if atoms may solve a linear program."""

    atoms: np.ndarray  # (N, M, L, L) int8, of the atoms
    found: np.ndarray  # (N, L, L) int8, of the labels that the caller found
    new: np.ndarray  # (L, L) int8, scratch space


class Work(NamedTuple):
    """Scratch space of `visit_labels`, which takes long to compile if it allocates arrays."""

    fields: np.ndarray  # (L,)
    vectors: np.ndarray  # (3, L)
    gains: np.ndarray  # (2, M)
    labels: np.ndarray  # (L,) int8


@jit(allocates=False)
def _set_fields(c, data, indices, indptr, signs, coef, field):
    """Write the fields of row c, and half a unit against each observed label, to `field` (L,)."""
    last = np.uintp(coef.shape[0] - 1)
    for i in range(np.uintp(field.shape[0])):
        field[i] = coef[last, i]
    for e in range(indptr[c], indptr[c + 1]):
        times_row(data[e], coef[indices[e]], field)
    times_row(-0.5, signs, field)


@jit(fastmath={"contract", "reassoc"}, allocates=False)
def _vector_score(y, field, S):
    """Return the score of the label vector `y` (L,) float64."""
    total = 0.0
    for i in range(np.uintp(y.shape[0])):
        total += y[i] * (field[i] + 0.5 * dot(S[i], y))
    return total


@jit(allocates=False)
def _score(labels, field, S, y):
    """Return the score of the label vector `labels`; `y` (L,) float64 is scratch space."""
    for i in range(np.uintp(labels.shape[0])):
        y[i] = labels[i]
    return _vector_score(y, field, S)


@jit(allocates=False)
def _relaxed_score(labels, pairs, field, S, y):
    """Return the score of the solution of a linear program; `y` (L,) float64 is scratch space."""
    for i in range(np.uintp(labels.shape[0])):
        y[i] = labels[i]
    total = dot(field, y)
    for i in range(np.uintp(labels.shape[0])):
        for k in range(i):
            total += S[i, k] * pairs[i, k]
    return total


@jit(allocates=False)
def _flip(field, S, tie, local, y):
    """Flip labels of `y` (L,) until no single flip raises the score; `local` (L,) is scratch."""
    n_labels = np.uintp(y.shape[0])
    for i in range(n_labels):
        local[i] = field[i] + dot(S[i], y)
    changed, sweep = True, 0
    while changed and sweep < _SWEEPS:
        changed = False
        sweep += 1
        for i in range(n_labels):
            if -2.0 * y[i] * local[i] > tie:
                times_row(-2.0 * y[i], S[i], local)
                y[i] = -y[i]
                changed = True


@jit(allocates=False)
def _search(rule, field, S, tie, other, vectors, new):
    """Find labels with a high score and write them to `new` (L,) int8.

    A local search starts from the labels of the atom `other` (L,), and from the signs of the
    fields. `vectors` (3, L) is scratch space.
    """
    local, y = vectors[1], vectors[2]
    n_labels = np.uintp(new.shape[0])
    if rule == ONE_HOT:
        best = np.uintp(0)
        for i in range(n_labels):
            new[i] = -1
            if field[i] > field[best]:
                best = i
        new[best] = 1
        return
    value = -math.inf
    for start in range(0 if rule == FLIPS else 1, 2):
        for i in range(n_labels):
            on = field[i] > 0.0 if start == 1 else other[i] > 0
            y[i] = 1.0 if on else -1.0
        if rule == FLIPS:
            _flip(field, S, tie, local, y)
        found = _vector_score(y, field, S)
        if found > value:
            value = found
            for i in range(n_labels):
                new[i] = np.int8(y[i])


@jit(allocates=False)
def _product(labels, other, square, inverse):
    """Return the inner product of the features of two label vectors of a row.

    `square` is 1 + the squared length of the features of the row, and `inverse` is 1 / eta.
    """
    total = 0
    for i in range(np.uintp(labels.shape[0])):
        total += np.int64(labels[i]) * other[i]
    return square * total + inverse * (0.5 * (total * total - labels.shape[0]))


@jit(allocates=False)
def _relaxed_product(labels, pairs, other, other_pairs, square, inverse):
    """Return the inner product of the features of two solutions of a linear program."""
    total, products = 0, 0
    for i in range(np.uintp(labels.shape[0])):
        total += np.int64(labels[i]) * other[i]
        for k in range(i):
            products += np.int64(pairs[i, k]) * other_pairs[i, k]
    return square * total + inverse * products


@jit(allocates=False)
def _move_pairs(size, plus, minus, S):
    """Add `size` times the products of labels of `plus` minus those of `minus` to the couplings."""
    for i in range(np.uintp(plus.shape[0])):
        for k in range(i):
            difference = np.float64(plus[i]) * plus[k] - np.float64(minus[i]) * minus[k]
            S[i, k] += size * difference
            S[k, i] = S[i, k]


@jit(allocates=False)
def _move_relaxed_pairs(size, plus, minus, S):
    """Add `size` times the expected products `plus` (L, L) minus `minus` to the couplings."""
    for i in range(np.uintp(plus.shape[0])):
        for k in range(i):
            S[i, k] += size * (np.float64(plus[i, k]) - minus[i, k])
            S[k, i] = S[i, k]


@jit(allocates=False)
def _move(c, size, plus, minus, data, indices, indptr, coef, change):
    """Add `size` times the labels `plus` minus `minus` to the coefficients of the columns of row c.

    `change` (L,) is scratch space.
    """
    for i in range(np.uintp(plus.shape[0])):
        change[i] = np.float64(plus[i]) - minus[i]
    times_row(size, change, coef[coef.shape[0] - 1])
    for e in range(indptr[c], indptr[c + 1]):
        times_row(size * data[e], change, coef[indices[e]])


@jit(allocates=False)
def _worst(value, gain):
    """Return the atom with a positive dual variable and the least gain."""
    worst = -1
    for a in range(gain.shape[0]):
        if value[a] > 0.0 and (worst < 0 or gain[a] < gain[worst]):
            worst = a
    return worst


@jit(allocates=False)
def _best(gain):
    """Return the atom with the largest gain."""
    best = 0
    for a in range(gain.shape[0]):
        if gain[a] > gain[best]:
            best = a
    return best


@jit(allocates=False)
def visit_labels(
    order, rule, n_steps, inverse, rows, weights, found, atoms, pairs, work, losses, gaps
):
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
    rows, weights, atoms
        `weights` and `atoms` are changed in place.
    found : ndarray (N, L) int8
        Labels that the caller found, one vector for each row, if `rule` is `GIVEN`.
    pairs : Pairs or None
        None if all atoms are label vectors.
    work : Work
    losses, gaps : ndarray (N,)
        Output for each visited row c. losses[c] is the largest violation of the margin that was
        found. gaps[c] is losses[c] minus the expected violation under the dual variables.
    """
    data, indices, indptr, squares, signs, scales = rows
    coef, S = weights
    all_labels, values = atoms
    field, vectors, new = work.fields, work.vectors, work.labels
    gain, slope, y = work.gains[0], work.gains[1], vectors[0]
    n_labels, n_atoms = np.uintp(signs.shape[1]), values.shape[1]
    n_full, n_made = 0, 0
    for c in order:
        square, scale = squares[c], scales[c]
        labels, value = all_labels[c], values[c]
        _set_fields(c, data, indices, indptr, signs[c], coef, field)
        base = _vector_score(signs[c], field, S)
        size = abs(base)
        for i in range(n_labels):
            size += abs(field[i])
        expected, free = 0.0, -1
        for a in range(n_atoms):
            gain[a] = -math.inf
            if value[a] > 0.0:
                if pairs is None:
                    gain[a] = _score(labels[a], field, S, y) - base
                else:
                    gain[a] = _relaxed_score(labels[a], pairs.atoms[c, a], field, S, y) - base
                expected += value[a] * gain[a]
            elif free < 0:
                free = a
        worst, best = _worst(value, gain), _best(gain)
        if rule == GIVEN:
            for i in range(n_labels):
                new[i] = found[c, i]
        else:
            _search(rule, field, S, _ROUNDING * size, labels[best], vectors, new)
        if pairs is None:
            violation = _score(new, field, S, y) - base
        else:
            for i in range(n_labels):
                for k in range(i):
                    pairs.new[i, k] = pairs.found[c, i, k] if rule == GIVEN else new[i] * new[k]
            violation = _relaxed_score(new, pairs.new, field, S, y) - base
        # Labels that equal an atom have the same violation, and are not stored again.
        if violation > gain[best] + _ROUNDING * (1.0 + size):
            if n_steps == 0:
                losses[c] = max(violation, 0.0)
                gaps[c] = losses[c] - expected
                continue
            if free >= 0:
                best = free
                gain[best] = violation
                for i in range(n_labels):
                    labels[best, i] = new[i]
                    if pairs is not None:
                        for k in range(i):
                            pairs.atoms[c, best, i, k] = pairs.new[i, k]
            else:
                n_full += 1
        losses[c] = max(gain[best], 0.0)
        gaps[c] = losses[c] - expected
        for _ in range(n_steps):
            rise = gain[best] - gain[worst]
            if rise <= _ROUNDING * (1.0 + size):
                break
            plus, minus = labels[worst], labels[best]
            for a in range(n_atoms):
                if gain[a] > -math.inf:
                    if pairs is None:
                        slope[a] = _product(plus, labels[a], square, inverse)
                        slope[a] -= _product(minus, labels[a], square, inverse)
                    else:
                        other = pairs.atoms[c, a]
                        slope[a] = _relaxed_product(
                            plus, pairs.atoms[c, worst], labels[a], other, square, inverse
                        )
                        slope[a] -= _relaxed_product(
                            minus, pairs.atoms[c, best], labels[a], other, square, inverse
                        )
            length = slope[worst] - slope[best]
            moved = move_probability(value, worst, best, rise, scale * length) * scale
            n_made += 1
            _move(c, moved, plus, minus, data, indices, indptr, coef, y)
            if inverse > 0.0:
                if pairs is None:
                    _move_pairs(moved * inverse, plus, minus, S)
                else:
                    _move_relaxed_pairs(
                        moved * inverse, pairs.atoms[c, worst], pairs.atoms[c, best], S
                    )
            # The gains stay right up to a common constant, which has no effect on the next step.
            for a in range(n_atoms):
                gain[a] += moved * slope[a]
            worst, best = _worst(value, gain), _best(gain)
    return n_full, n_made
