"""Choose label vectors with the largest expected Jaccard index or F1, for any classifier.

Both metrics divide by a number of labels n, and ``1 / n`` is the integral of ``t^(n - 1)`` over t
in [0, 1]. Numerical quadrature replaces the integral by a weighted sum over a few nodes t. An
expected metric is then a weighted sum of the expectations ``E[y_i t^|y|]``, where ``|y|`` is the
number of labels that are 1. If labels are independent, each expectation is a product. If labels
depend on each other, each expectation follows from the marginal of y_i in a model whose fields are
raised by log t.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.decoding.posterior import check_zero_division
from skcrbm.metrics.scores import scores_maximized_by
from skcrbm.targets.proba import label_marginals
from skcrbm.utils.limits import BLOCK_ENTRIES, TIE
from skcrbm.utils.parallel import one_blas_thread, row_chunks
from skcrbm.utils.validation import as_float_array

#: Metrics of a row whose expectation can be maximised, with their short names.
METRICS = {name: name.removesuffix("_samples") for name in scores_maximized_by("expectation")}
# Largest divisor n for which an exact quadrature of 1 / n is used. It needs n / 2 nodes. For larger
# n, `inverse_nodes` uses an approximate quadrature, which needs fewer nodes.
_EXACT_UNION = 24
#: `maximize_f1` tries label vectors of 1, 2, 3, ... labels, and computes this many sizes at once.
SIZES_AT_ONCE = 64
# Margin of the bound in `maximize_f1`. It is larger than the error that the rounding of the gains
# causes in the sum of a thousand gains.
_MARGIN = 1e-9
# Values of label vectors are compared with bounds after a multiplication by _LESS, which is further
# below 1 than the relative error of the quadrature. _SMALLEST keeps divisions by a value finite; it
# is far below the values of possible labels, because a larger number would cut off their sizes.
_LESS, _SMALLEST = 0.999, 1e-290


def decode_marginals(
    proba: ArrayLike | list,
    metric: str = "f1_samples",
    *,
    zero_division: float = 1.0,
    allow_empty: bool = True,
) -> np.ndarray:
    """Return the label vectors with the largest expected metric for independent labels.

    The labels are assumed to be independent given x. The best vector for both metrics then consists
    of the k most probable labels, for some k; see [1]_ for "f1". Both metrics divide by a number of
    labels that depends on the unknown true labels. The expectation of such a fraction is computed
    by numerical quadrature, which is exact for up to 12 labels (for "jaccard" up to 24). For more
    labels its error is at most 1e-4. The time per row is proportional to L log L, for L labels:
    about 1 ms for 2000 labels.

    Parameters
    ----------
    proba : array-like of shape (n_samples, n_labels) or list of arrays (n_samples, 2)
        P(y_i = 1 | x) in either form of scikit-learn's `predict_proba`. A label with
        probability 0 or 1, such as a known label, is always predicted as 0 or 1.
    metric : {"f1_samples", "jaccard_samples"}, default="f1_samples"
        Metric of the prediction v for the true labels y of a row: F1 is
        ``2 |v and y| / (|v| + |y|)``, and the Jaccard index is ``|v and y| / |v or y|``. The short
        names "f1" and "jaccard" are accepted, too.
    zero_division : {1.0, 0.0}, default=1.0
        Score of a row that has neither true nor predicted labels, as in scikit-learn's `f1_score`.
        If it is 0, the default of scikit-learn, an empty prediction is never better than another
        prediction.
    allow_empty : bool, default=True
        If False, a row with a possible label (probability above 0) is predicted to have at least
        one label. Set it to False if every row has a label, for example if no row of the training
        set is empty. With a single label this option has no effect.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        0/1 labels. Ties are broken by the fewest labels, then by the more probable labels, then by
        the order of the labels.

    Raises
    ------
    ValueError
        If the metric is unknown, or `proba` is invalid.

    References
    ----------
    .. [1] Dembczynski, Waegeman, Cheng and Huellermeier (2011). An exact algorithm for
       F-measure maximization. NeurIPS.

    Examples
    --------
    >>> from skcrbm.decoding import decode_marginals
    >>> decode_marginals([[0.9, 0.5, 0.3], [0.4, 0.3, 0.2]], metric="f1_samples")
    array([[1, 1, 0],
           [1, 1, 0]])
    >>> decode_marginals([[0.9, 0.5, 0.3], [0.4, 0.3, 0.2]], metric="jaccard_samples")
    array([[1, 1, 0],
           [0, 0, 0]])
    """
    short = _short_name(metric)
    check_zero_division(zero_division)
    proba = label_marginals(proba)
    if proba.shape[1] == 0:
        raise ValueError(f"proba must have at least one label, got shape {proba.shape}")
    allow_empty = allow_empty or proba.shape[1] == 1
    top_values = independent_top_f1 if short == "f1" else independent_top_jaccard

    def decode(rows):
        return best_top_labels(proba[rows], top_values, zero_division, allow_empty)

    n, n_labels = proba.shape
    n_nodes = len(inverse_nodes(2 * n_labels)[0])
    return _by_blocks(decode, n, n_labels, n_nodes * (n_labels + 1))


def decode_label_sets(
    label_sets: ArrayLike,
    proba: ArrayLike,
    metric: str = "jaccard_samples",
    *,
    zero_division: float = 1.0,
    allow_empty: bool = True,
) -> np.ndarray:
    """Return the label vectors with the largest expected metric under a distribution of label sets.

    For "jaccard" the result is the best of the given label sets. For "f1" it is the best of all 2^L
    label vectors, computed exactly from ``P(y_i = 1, |y| = s)`` (GFM [1]_).

    Parameters
    ----------
    label_sets : array-like of shape (n_sets, n_labels)
        Distinct 0/1 vectors, such as the label sets seen in training.
    proba : array-like of shape (n_samples, n_sets)
        Probabilities of the sets given x, or numbers proportional to the probabilities.
    metric, zero_division, allow_empty
        See `decode_marginals`.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        0/1 labels. Ties are broken by the order of the label sets. For "f1" they are broken by the
        fewest labels, then by the order of the labels.

    Raises
    ------
    ValueError
        If the metric is unknown, or an array is invalid.

    References
    ----------
    .. [1] Dembczynski, Waegeman, Cheng and Huellermeier (2011). An exact algorithm for
       F-measure maximization. NeurIPS.

    Examples
    --------
    >>> from skcrbm.decoding import decode_label_sets
    >>> sets = [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    >>> decode_label_sets(sets, [[0.3, 0.3, 0.4]])
    array([[1, 0, 0]])
    """
    short = _short_name(metric)
    check_zero_division(zero_division)
    sets = _check_states(label_sets, "label_sets", "(n_sets, n_labels)")
    weight = as_float_array(proba, "proba", "(n_samples, n_sets)").astype(np.float64)
    if weight.shape[1] != len(sets) or not len(sets):
        raise ValueError(
            "proba must have one column for each label set, and there must be at least one "
            f"label set; got {len(sets)} label sets and proba of shape {weight.shape}"
        )
    if weight.size and not (weight.min() >= 0 and weight.max(axis=1).min() > 0):
        raise ValueError("proba must have nonnegative entries, and a positive entry in each row")
    weight /= weight.max(axis=1, keepdims=True)  # avoids overflow in the sum
    weight /= weight.sum(axis=1, keepdims=True)
    allow_empty = allow_empty or sets.shape[1] == 1
    size = sets.sum(axis=1).astype(int)
    if short == "jaccard":
        with one_blas_thread():
            value = weight @ jaccard(sets, sets, zero_division)
        possible = weight[:, size > 0].any(axis=1)
        best = best_but_empty(value, size == 0, possible, allow_empty)
        return sets[best].astype(np.int64)

    def decode(rows):
        w = weight[rows]
        on = np.stack([w[:, size == s] @ sets[size == s] for s in numbers], axis=1)
        empty = w[:, size == 0].sum(axis=1)
        return maximize_f1(empty, on, _factors_of_sizes(numbers), zero_division, allow_empty)

    numbers = np.unique(size)
    entries = sets.shape[1] * max(len(numbers), SIZES_AT_ONCE)
    return _by_blocks(decode, len(weight), sets.shape[1], entries)


def decode_samples(
    samples: ArrayLike,
    metric: str = "jaccard_samples",
    *,
    zero_division: float = 1.0,
    allow_empty: bool = True,
) -> np.ndarray:
    """Return the label vectors with the largest expected metric, estimated from joint samples.

    For "jaccard" the candidates are the samples of the row and, for each k, the k most probable
    labels. For "f1" the result is the best of all 2^L label vectors under the samples (GFM [1]_).

    Parameters
    ----------
    samples : array-like of shape (n_samples, n_draws, n_labels)
        0/1 vectors drawn from p(y | x) of each row, for example by `CRBMClassifier.sample`.
    metric, zero_division, allow_empty
        See `decode_marginals`.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        0/1 labels. If several candidates are equally good, a vector of the k most probable labels,
        with the smallest k, is preferred to the samples, and an earlier sample to a later sample.
        For "f1" ties are broken as in `decode_marginals`.

    Raises
    ------
    ValueError
        If the metric is unknown, or an array is invalid.

    References
    ----------
    .. [1] Dembczynski, Waegeman, Cheng and Huellermeier (2011). An exact algorithm for
       F-measure maximization. NeurIPS.

    Examples
    --------
    >>> from skcrbm.decoding import decode_samples
    >>> decode_samples([[[1, 0, 0], [1, 1, 0], [1, 1, 0], [0, 0, 1]]], metric="f1_samples")
    array([[1, 1, 0]])
    """
    short = _short_name(metric)
    check_zero_division(zero_division)
    samples = _check_states(samples, "samples", "(n_samples, n_draws, n_labels)")
    n, n_draws, n_labels = samples.shape
    if n_draws == 0:
        raise ValueError(f"samples must hold at least one draw of each row, got {samples.shape}")
    allow_empty = allow_empty or n_labels == 1

    def decode(rows):
        drawn = samples[rows]
        size = drawn.sum(axis=2)
        if short == "f1":
            factors = _factors_of_sizes(size)
            empty = (size == 0).mean(axis=1)
            return maximize_f1(empty, drawn / n_draws, factors, zero_division, allow_empty)
        order = np.argsort(-drawn.sum(axis=1), axis=1, kind="stable")
        top = np.stack([first_k(order, k) for k in range(n_labels + 1)], axis=1)
        candidates = np.concatenate([top, drawn], axis=1)
        value = jaccard(drawn, candidates, zero_division).mean(axis=1)
        possible = size.any(axis=1)
        best = best_but_empty(value, ~candidates.any(axis=2), possible, allow_empty)
        return np.take_along_axis(candidates, best[:, None, None], axis=1)[:, 0]

    entries = n_labels * max(n_draws, SIZES_AT_ONCE)
    if short == "jaccard":
        entries = max((n_labels + 1) ** 2, n_draws * (n_draws + n_labels + 1))
    return _by_blocks(decode, n, n_labels, entries)


def _factors_of_sizes(numbers):
    """Return the function `factors` for `maximize_f1`, if the distribution has Q outcomes.

    An outcome is a possible vector of true labels, or a group of vectors with equally many labels.
    `numbers` (..., Q) contains the number of labels that are 1 in each outcome.
    """

    def factors(sizes):
        return 2.0 / (sizes[:, None] + numbers[..., None, :])

    return factors


def _by_blocks(decode, n: int, n_labels: int, entries: int) -> np.ndarray:
    """Return the labels of all n rows, computed by ``decode(rows)`` for one block after another.

    The blocks bound the memory: `decode` needs about `entries` array entries per row. The result
    has the shape (n, n_labels).
    """
    result = np.empty((n, n_labels), np.int64)
    size = max(1, BLOCK_ENTRIES // entries)
    with one_blas_thread():
        for rows in row_chunks(n, size):
            result[rows] = decode(rows)
    return result


def _short_name(metric: str) -> str:
    """Return the short name "f1" or "jaccard" of a metric, after checking that it is valid."""
    if metric not in (*METRICS, *METRICS.values()):
        raise ValueError(f"metric must be one of {', '.join(map(repr, METRICS))}; got {metric!r}")
    return METRICS.get(metric, metric)


def _check_states(states, name, shape):
    states = as_float_array(states, name, shape).astype(np.float64)
    if not np.isin(states, (0, 1)).all():
        raise ValueError(f"{name} must hold 0 and 1 only")
    return states


# ------------------------------------------- generating functions of the number of labels


@functools.lru_cache(maxsize=32)
def inverse_nodes(largest: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes t in (0, 1) and weights w (Q,) with ``sum_q w_q t_q^(n - 1) = 1 / n``.

    The formula holds for n = 1, ..., `largest`. If `largest` is at most 24, the formula is exact,
    with ``Q = ceil(largest / 2)`` Gauss-Legendre nodes. For a larger `largest` the error is below
    ``1e-4 / n``, and the substitution ``t = 1 - (1 - u)^2`` makes the nodes denser near 1. The
    number of nodes Q then grows with the logarithm of `largest`: 15 nodes for 100, 22 nodes for
    350.
    """
    exact = largest <= _EXACT_UNION
    n_nodes = -(-largest // 2) if exact else max(12, int(np.ceil(5.5 * np.log(largest / 2))) - 7)
    x, weight = np.polynomial.legendre.leggauss(max(1, n_nodes))
    u, weight = (1 + x) / 2, weight / 2
    if exact:
        return u, weight
    return 1 - (1 - u) ** 2, weight * 2 * (1 - u)


def maximize_f1(
    empty: np.ndarray,
    on: np.ndarray,
    factors: Callable[[np.ndarray], np.ndarray],
    zero_division: float = 1.0,
    allow_empty: bool = True,
) -> np.ndarray:
    """Return the label vectors (N, L) with the largest expected F1 among all vectors (GFM).

    The expected F1 of a vector of k labels is the sum of the gains
    ``D_ik = sum_s 2 P(y_i = 1, |y| = s) / (k + s)`` of its labels i, so the best vector has the k
    labels with the largest gains. The gains are ``D_ik = sum_q factors(k)_q on_qi``, where `on`
    has the shape (N, Q, L) and ``factors(sizes)`` returns (K, Q) or (N, K, Q) for K numbers k.
    `empty` (N,) holds ``P(|y| = 0)``. Ties are broken by the fewest labels, then by the order of
    the labels.

    The numbers k are tried in blocks, from the smallest. The sum of the gains of all labels falls
    with k and is an upper bound of the values of all larger vectors. The search for a row ends when
    this bound is below the best value, so the result is exact, and the time is nearly linear in L
    if few labels are likely.
    """
    n, _, n_labels = on.shape
    value = np.zeros((n, n_labels + 1))
    value[:, 0] = zero_division * empty
    total = on.sum(axis=2)
    rows = np.arange(n)
    for start in range(0, n_labels, SIZES_AT_ONCE):
        sizes = np.arange(start, min(start + SIZES_AT_ONCE, n_labels)) + 1
        # Round the gains so that rounding errors do not decide between labels with equal gains.
        gain = np.round(_of_rows(factors(sizes), rows) @ on[rows], 12)
        gain.sort(axis=2)
        best = gain[:, :, : -sizes[-1] - 1 : -1].cumsum(axis=2)[:, sizes - sizes[0], sizes - 1]
        value[rows[:, None], sizes] = best
        if sizes[-1] == n_labels:
            break
        bound = (_of_rows(factors(sizes[-1:] + 1), rows)[..., 0, :] * total[rows]).sum(axis=1)
        rows = rows[(bound > 0) & (bound >= value[rows, 1:].max(axis=1) - _MARGIN)]
        if not len(rows):
            break
    k = best_but_empty(value, np.arange(n_labels + 1) == 0, value[:, 1:].any(axis=1), allow_empty)
    chosen, distinct = np.empty((n, n_labels)), np.unique(np.maximum(k, 1))
    for size in distinct:
        rows = np.flatnonzero(np.maximum(k, 1) == size)
        gain = _of_rows(factors(np.array([size])), rows) @ on[rows]
        chosen[rows] = np.round(gain[:, 0], 12)
    return first_k(np.argsort(-chosen, axis=1, kind="stable"), k)


def _of_rows(factors, rows):
    """Return the factors of the given rows.

    `factors` has the shape (N, K, Q), or (K, Q) if they are equal for all N rows.
    """
    return factors if factors.ndim == 2 else factors[rows]


def best_but_empty(value: np.ndarray, empty: Any, possible: Any, allow_empty: bool) -> np.ndarray:
    """Return, for each of N rows, the index (N,) of the candidate with the best `value` (N, C).

    Values must be nonnegative and are compared up to rounding. If several candidates have the
    largest value, the first of them is chosen. `empty` (C,) or (N, C) is True for candidates
    without a label. `possible` (N,) is True for rows in which a label can be on. If `allow_empty`
    is False, empty candidates are excluded in the rows that are `possible`.
    """
    if not allow_empty:
        value = np.where(empty & possible[:, None], -1.0, value)
    return (value >= value.max(axis=1, keepdims=True) - TIE).argmax(axis=1)


def f1_factors(sizes: np.ndarray, nodes: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the factors (K, Q) of `maximize_f1` for K sizes of a label vector.

    `nodes` and `weight` come from `inverse_nodes`. With these factors, the argument `on` (N, Q, L)
    of `maximize_f1` must contain ``E[y_i t^|y|] / t`` at the nodes t.
    """
    return 2 * weight * nodes ** sizes[:, None]


def best_top_labels(p, top_values, zero_division: float, allow_empty: bool) -> np.ndarray:
    """Return, for each of N rows, the vector of its k most probable labels, for the best k.

    `p` (N, L) are the probabilities of L labels, and the result is a 0/1 array (N, L). The function
    ``top_values(p, zero_division)`` takes probabilities in descending order, and returns the value
    (N, L + 1) of each k = 0, ..., L. The best k has the largest value.
    """
    order = np.argsort(-p, axis=1, kind="stable")
    value = top_values(np.take_along_axis(p, order, axis=1), zero_division)
    no_label = np.arange(value.shape[1]) == 0
    return first_k(order, best_but_empty(value, no_label, p.any(axis=1), allow_empty))


def independent_top_f1(p: np.ndarray, zero_division: float) -> np.ndarray:
    """Return the expected F1 (N, L + 1) of predicting the first k = 0, ..., L labels.

    The labels are independent with probabilities `p` (N, L), which are in descending order. The
    expected F1 is the sum of ``2 E[y_i / (k + |y|)]`` over the first k labels i. The quadrature of
    `inverse_nodes` turns ``1 / (k + |y|)`` into a weighted sum of ``t^(k + |y| - 1)``.

    Large k whose value is surely not the largest have the value 0. With m = E[|y|], the expected F1
    is at most ``2 E[|y| / (k + |y|)] <= 2 m / (k + m)``.
    """
    n_labels = p.shape[1]
    nodes, weight = inverse_nodes(2 * n_labels)
    # Each factor is at least its node t, so the division below is safe.
    product = _factors_of_labels(p, nodes).prod(axis=2, keepdims=True)

    def values(n_sizes):
        first = p[:, :n_sizes]
        # E[y_i t^|y|] / t
        on = first[:, None, :] * (product / _factors_of_labels(first, nodes))
        power = 2 * weight[:, None] * nodes[:, None] ** np.arange(1, n_sizes + 1)
        return (power * on.cumsum(axis=2)).sum(axis=1)

    def last_size(best):
        return np.ceil(p.sum(axis=1) * (2 / np.maximum(best, _SMALLEST) - 1))

    return _values_of_sizes(p, values, last_size, zero_division)


def independent_top_jaccard(p: np.ndarray, zero_division: float) -> np.ndarray:
    """Return the expected Jaccard index (N, L + 1) of predicting the first k = 0, ..., L labels.

    The labels are independent with probabilities `p` (N, L), which are in descending order. The
    size of the intersection is the number of labels that are 1 among the first k labels. The size
    of the union is k plus the number of labels that are 1 among the other labels. The two sizes are
    therefore independent.

    Large k whose value is surely not the largest have the value 0. The expected Jaccard index is at
    most the mean probability of the first k labels, which falls with k.
    """
    nodes, weight = inverse_nodes(p.shape[1])

    def values(n_sizes):
        # `left_out` is E[t^m], where m is the number of labels that are 1 after the first k labels.
        left_out = np.empty((len(p), len(nodes), n_sizes))
        left_out[:, :, -1] = _factors_of_labels(p[:, n_sizes:], nodes).prod(axis=2)
        left_out[:, :, :-1] = _factors_of_labels(p[:, 1:n_sizes], nodes)
        left_out = left_out[:, :, ::-1].cumprod(axis=2)[:, :, ::-1]
        power = weight[:, None] * nodes[:, None] ** np.arange(n_sizes)
        return p[:, :n_sizes].cumsum(axis=1) * (power * left_out).sum(axis=1)

    def last_size(best):
        means = p.cumsum(axis=1) / np.arange(1, p.shape[1] + 1)
        return np.count_nonzero(means >= best[:, None], axis=1)

    return _values_of_sizes(p, values, last_size, zero_division)


def _factors_of_labels(p, nodes):
    """Return ``E[t^y_i]`` (N, Q, L) for labels with the probabilities `p` (N, L) and Q nodes t."""
    factor = p[:, None, :] * (nodes[:, None] - 1)
    factor += 1
    return factor


def _values_of_sizes(p, values, last_size, zero_division):
    """Return the values (N, L + 1) of k = 0, ..., L labels; values that are too small are 0.

    ``values(n)`` returns the values (N, n) of k = 1, ..., n. ``last_size(best)`` returns a number
    (N,) for each row, such that no larger k has a value above `best`.
    """
    n_labels = p.shape[1]
    found = values(min(n_labels, SIZES_AT_ONCE))
    if n_labels > SIZES_AT_ONCE:
        # Lower the best value, because the quadrature of the values has a relative error of 1e-4.
        needed = last_size(found.max(axis=1) * _LESS)[p.any(axis=1)].max(initial=0)
        if needed > SIZES_AT_ONCE:
            found = values(int(min(n_labels, needed)))
    value = np.zeros((len(p), n_labels + 1))
    value[:, 0] = zero_division * (1 - p).prod(axis=1)
    value[:, 1 : found.shape[1] + 1] = found
    return value


def first_k(order: np.ndarray, k: np.ndarray | int) -> np.ndarray:
    """Return 0/1 vectors (N, L) in which the k labels that come first in `order` are 1.

    `order` (N, L) holds the labels of each row in some order; `k` is an integer or an array (N,).
    """
    rank = np.argsort(order, axis=1)
    return (rank < np.reshape(k, (-1, 1))).astype(np.int64)


def jaccard(judges: np.ndarray, candidates: np.ndarray, zero_division: float) -> np.ndarray:
    """Return the Jaccard index (..., J, C) of each of the `judges` with each of the `candidates`.

    `candidates` (..., C, L) are predictions, and `judges` (..., J, L) are possible true labels.
    """
    both = judges @ np.swapaxes(candidates, -1, -2)
    union = judges.sum(axis=-1)[..., :, None] + candidates.sum(axis=-1)[..., None, :] - both
    empty = union == 0
    return np.where(empty, zero_division, both / np.where(empty, 1.0, union))
