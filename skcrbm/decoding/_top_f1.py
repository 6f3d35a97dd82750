"""Find the labels with the largest expected F1 under a mixture, computing only some gains.

The mixture is p(y | x) of an RBM, in which labels are independent given the state h of the hidden
units. The expected F1 of the best vector of k labels is the sum V_k of the k largest gains
``D_ik = 2 E[y_i / (k + |y|)]``, where |y| is the number of labels that are on. To save time, gains
are computed only for the C most probable labels of a row. Two bounds then prove that no other label
and no larger vector can be better. Let p_i be the marginals, m their sum, and P_k the sum of the k
largest marginals.

- ``D_ik <= 2 p_i B``. Let e(h) be ``E[1 / (k + |y|) | h]`` for a state h of the hidden units. Sort
  the states by e(h), the largest first, and take states until their total probability is p_i. B is
  the mean of e(h) over these states. Labels are independent given h, so ``E[y_i / (k + |y|) | h]``
  is at most ``P(y_i = 1 | h) e(h)``. The expectation of this product over h is largest if label i
  is on in exactly the states with the largest e(h).
- ``V_k <= 2 m / (k + m) - 2 (m - P_k) / (k + 1 + M)``, where M is the largest expectation of
  ``|y|`` given h. The gains of all labels add up to ``E[2 |y| / (k + |y|)]``. This sum is at most
  ``2 m / (k + m)``, because the fraction is concave (Jensen). The gains of the labels outside of
  the vector are subtracted: each is at least ``2 p_i / (k + E[|y| | y_i = 1])`` (Jensen again),
  ``E[|y| | y_i = 1]`` is at most 1 + M, and the marginals of these labels add up to at least
  ``m - P_k``.

If the bounds do not prove the result of a row, the row is tried again with more labels. The gains
come from the quadrature of `inverse_nodes`, so the bounds are raised by the largest error of the
quadrature.
"""

from __future__ import annotations

import numpy as np

from skcrbm.decoding.expected import best_but_empty, f1_factors
from skcrbm.inference.rbm.mixture import LabelMixture
from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import row_chunks

#: Number of labels whose gains are computed at first.
FIRST_LABELS = 32
# A bound is multiplied by _QUADRATURE, to cover the error of the quadrature of `inverse_nodes`, and
# then raised by _ROUNDING, to cover the rounding of the gains.
_QUADRATURE, _ROUNDING = 1.0 + 2.1e-4, 1e-9


def top_f1(
    mixture: LabelMixture, weight: np.ndarray, zero_division: float, allow_empty: bool
) -> np.ndarray:
    """Return the label vectors (N, L) with the largest expected F1 among all vectors.

    ``nodes, weight = inverse_nodes(2 * L)`` defines a quadrature; `mixture` must have these nodes,
    and `weight` holds the weights. Ties are broken as in `maximize_f1`.
    """
    n, n_labels = mixture.marginals.shape
    result = np.zeros((n, n_labels), np.int64)
    rows, part = np.arange(n), mixture
    count = min(FIRST_LABELS, n_labels)
    while len(rows):
        chosen, proven, enough = _in_blocks(part, weight, count, zero_division, allow_empty)
        result[rows[proven]] = chosen[proven]
        if proven.all():
            break
        part, rows = part.rows(np.flatnonzero(~proven)), rows[~proven]
        count = min(max(3 * count // 2, int(np.median(enough[~proven]))), n_labels)
    return result


def _in_blocks(mixture, weight, count, *options):
    """Return the results of `_among_most_probable`, computed in blocks to bound the memory."""
    blocks = row_chunks(len(mixture.marginals), max(1, BLOCK_ENTRIES // count**2))
    if len(blocks) == 1:
        return _among_most_probable(mixture, weight, count, *options)
    parts = [
        _among_most_probable(mixture.rows(np.arange(b.start, b.stop)), weight, count, *options)
        for b in blocks
    ]
    return tuple(np.concatenate(found) for found in zip(*parts, strict=True))


def _among_most_probable(mixture, weight, count, zero_division, allow_empty):
    """Find the best label vector of each of N rows, among its `count` most probable labels.

    Return three arrays: the vectors (N, L); a mask (N,), which is True for rows with a proof that
    no other vector is better; and a number (N,) for each row, such that a vector with more labels
    than this number cannot be better.
    """
    p = mixture.marginals
    n, n_labels = p.shape
    rows = np.arange(n)
    order = np.argsort(-p, axis=1, kind="stable")
    left_out = p[rows, order[:, count]] if count < n_labels else np.zeros(n)
    labels = np.sort(order[:, :count], axis=1)  # in label order, which breaks ties
    sizes = np.arange(1, count + 1)
    # Round the gains so that rounding errors do not decide between labels with equal gains.
    gain = np.round(f1_factors(sizes, mixture.nodes, weight) @ mixture.on(labels), 12)
    by_rank = -np.sort(-gain, axis=2)
    value = np.empty((n, count + 1))
    value[:, 0] = zero_division * mixture.empty
    value[:, 1:] = by_rank.cumsum(axis=2)[:, sizes - 1, sizes - 1]
    on = value[:, 1:].any(axis=1)
    k = best_but_empty(value, np.arange(count + 1) == 0, on, allow_empty)
    chosen = gain[rows, np.maximum(k, 1) - 1]
    rank = np.argsort(np.argsort(-chosen, axis=1, kind="stable"), axis=1)
    result = np.zeros((n, n_labels), np.int64)
    np.put_along_axis(result, labels, (rank < k[:, None]).astype(np.int64), axis=1)
    if count == n_labels:
        return result, np.full(n, True), np.full(n, count)
    # The `count` most probable labels include the k labels with the largest gains if the k-th
    # largest gain among them exceeds the bound of all other labels.
    limit = _QUADRATURE * _largest_gain(mixture, weight, left_out, sizes) + _ROUNDING
    complete = by_rank[:, sizes - 1, sizes - 1] > limit
    bound = np.maximum(by_rank, limit[:, :, None]).cumsum(axis=2)[:, sizes - 1, sizes - 1]
    best = value[:, 1:].max(axis=1, keepdims=True)
    every = np.arange(1, n_labels + 1)
    mean = p.sum(axis=1, keepdims=True)
    outside = mean - np.take_along_axis(p, order, axis=1).cumsum(axis=1)
    larger = 2 * mean / (every + mean)
    larger -= 2 * outside / (every + 1 + mixture.largest_mean[:, None])
    possible = _QUADRATURE * larger >= best - _ROUNDING
    enough = n_labels - possible[:, ::-1].argmax(axis=1)
    proven = (complete | (bound < best - _ROUNDING)).all(axis=1) & (enough <= count)
    return result, proven & (best[:, 0] > 0), enough


def _largest_gain(mixture, weight, p, sizes):
    """Return an upper bound (N, K) of the gains of labels with small marginals.

    The bound in row n holds for all labels whose marginal is at most p[n], and for a label vector
    with ``sizes[k]`` labels. It falls with the size. To save time, it is computed for every fourth
    size only, and used for the next three sizes, too.
    """
    some = sizes[(sizes <= 4) | (sizes % 4 == 1)]
    inverse = weight * mixture.nodes ** (some[:, None] - 1)
    bound = 2 * p[:, None] * mixture.inverse_of_fewest(p, inverse)
    return bound[:, np.searchsorted(some, sizes, side="right") - 1]
