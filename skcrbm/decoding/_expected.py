"""Label vectors with the largest expected Jaccard index or F1."""

import numpy as np
from scipy.special import softmax

from skcrbm.decoding._label_set import weighted_label_sets
from skcrbm.utils._outputs import label_marginals
from skcrbm.utils._parallel import one_blas_thread, row_chunks
from skcrbm.utils._validation import as_float_array

_BLOCK_ENTRIES = 2**21
#: Expected values that differ by no more than this are equal: rounding does not decide.
_TIE = 1e-12
_METRICS = ("jaccard", "f1")


def decode_marginals(proba, metric="f1", *, zero_division=1.0):
    """Label vectors of the largest expected metric, if labels are independent given x.

    Exact, in O(L^3) per row: under independence some number of most probable labels is best
    for both metrics. For "f1" that number and its value come from ``P(y_i = 1, |y| = s)``
    (GFM [1]_), for "jaccard" from the distribution of the number of labels left out.

    Parameters
    ----------
    proba : array-like of shape (n_samples, n_labels) or list of arrays (n_samples, 2)
        P(y_i = 1 | x) in either form of scikit-learn's `predict_proba`. Labels of
        probability 0 or 1, such as known ones, are predicted so.
    metric : {"f1", "jaccard"}, default="f1"
        Of each row: ``2 |v y| / (|v| + |y|)`` or ``|v y| / |v or y|``.
    zero_division : {1.0, 0.0}, default=1.0
        Value of predicting no label where none is true, as in scikit-learn's `f1_score`.
        With 0, as its default scores it, nothing is ever gained by predicting no label.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        0/1. Among equals that with the fewest labels, the more probable ones, and the
        first of equally probable ones.

    Raises
    ------
    ValueError
        On an unknown metric, or values that are no probabilities.

    References
    ----------
    .. [1] Dembczynski, Waegeman, Cheng and Huellermeier (2011). An exact algorithm for
       F-measure maximization. NeurIPS.

    Examples
    --------
    >>> from skcrbm.decoding import decode_marginals
    >>> decode_marginals([[0.9, 0.5, 0.3], [0.4, 0.3, 0.2]], metric="f1")
    array([[1, 1, 0],
           [1, 1, 0]])
    >>> decode_marginals([[0.9, 0.5, 0.3], [0.4, 0.3, 0.2]], metric="jaccard")
    array([[1, 1, 0],
           [0, 0, 0]])
    """
    _check_metric(metric)
    _check_zero_division(zero_division)
    proba = label_marginals(proba)
    if proba.shape[1] == 0:
        raise ValueError(f"proba must have at least one label, got shape {proba.shape}")

    def decode(rows):
        p = proba[rows]
        if metric == "f1":
            return maximize_f1(*_independent_sizes(p), zero_division)
        order = np.argsort(-p, axis=1, kind="stable")
        value = _top_jaccard(np.take_along_axis(p, order, axis=1), zero_division)
        return _first_k(order, _first_best(value))

    return _by_blocks(decode, *proba.shape)


def decode_label_sets(label_sets, proba, metric="jaccard", *, zero_division=1.0):
    """Label vectors of the largest expected metric under a distribution over label sets.

    "jaccard": the best of the label sets themselves. "f1": the best of all 2^L label
    vectors, exactly, from ``P(y_i = 1, |y| = s)`` (GFM [1]_).

    Parameters
    ----------
    label_sets : array-like of shape (n_sets, n_labels)
        Distinct 0/1 vectors, such as those seen in training.
    proba : array-like of shape (n_samples, n_sets)
        Probability of each set given x, or numbers proportional to it.
    metric, zero_division
        As in `decode_marginals`.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        0/1. Among equals the first label set; for "f1" the fewest labels, then the first.

    Raises
    ------
    ValueError
        On an unknown metric, or an invalid array.

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
    _check_metric(metric)
    _check_zero_division(zero_division)
    sets = _check_states(label_sets, "label_sets", "(n_sets, n_labels)")
    weight = as_float_array(proba, "proba", "(n_samples, n_sets)").astype(np.float64)
    if weight.shape[1] != len(sets) or not len(sets):
        raise ValueError(
            f"proba must have one column for each of the label sets, {len(sets)} and at least "
            f"one, got shape {weight.shape}"
        )
    if weight.size and not (weight.min() >= 0 and weight.max(axis=1).min() > 0):
        raise ValueError("proba must not be negative, and not all 0 in a row")
    weight /= weight.max(axis=1, keepdims=True)  # first: a sum might be infinite
    weight /= weight.sum(axis=1, keepdims=True)
    return _decode_distribution(sets, weight, metric, zero_division)


def decode_samples(samples, metric="jaccard", *, zero_division=1.0):
    """Label vectors of the largest expected metric, estimated from joint samples.

    "jaccard": the best of the samples of the row and, for each k, its k most probable
    labels. "f1": the best of all 2^L label vectors under the samples (GFM [1]_).

    Parameters
    ----------
    samples : array-like of shape (n_samples, n_draws, n_labels)
        0/1 vectors drawn from p(y | x) of each row, such as `CRBMClassifier.sample` gives.
    metric, zero_division
        As in `decode_marginals`.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        0/1. Among equals the one with the fewest labels of the k most probable, then the
        first sample; for "f1" as in `decode_marginals`.

    Raises
    ------
    ValueError
        On an unknown metric, or an invalid array.

    References
    ----------
    .. [1] Dembczynski, Waegeman, Cheng and Huellermeier (2011). An exact algorithm for
       F-measure maximization. NeurIPS.

    Examples
    --------
    >>> from skcrbm.decoding import decode_samples
    >>> decode_samples([[[1, 0, 0], [1, 1, 0], [1, 1, 0], [0, 0, 1]]], metric="f1")
    array([[1, 1, 0]])
    """
    _check_metric(metric)
    _check_zero_division(zero_division)
    samples = _check_states(samples, "samples", "(n_samples, n_draws, n_labels)")
    n, n_draws, n_labels = samples.shape
    if n_draws == 0:
        raise ValueError(f"samples must hold at least one draw of each row, got {samples.shape}")
    sizes = np.arange(1, n_labels + 1)

    def decode(rows):
        drawn = samples[rows]
        if metric == "f1":
            size = drawn.sum(axis=2)
            of_size = (size[:, :, None] == sizes).astype(np.float64)
            on = drawn.transpose(0, 2, 1) @ of_size / n_draws
            return maximize_f1((size == 0).mean(axis=1), on, zero_division)
        order = np.argsort(-drawn.sum(axis=1), axis=1, kind="stable")
        top = np.stack([_first_k(order, k) for k in range(n_labels + 1)], axis=1)
        candidates = np.concatenate([top, drawn], axis=1)
        best = _first_best(_jaccard(drawn, candidates, zero_division).mean(axis=1))
        return np.take_along_axis(candidates, best[:, None, None], axis=1)[:, 0]

    return _by_blocks(decode, n, n_labels, n_draws * (n_draws + n_labels + 1))


def decode_expected_jaccard(decoding):
    """Switch on the training label set of the largest expected Jaccard index.

    The expectation is over the label sets seen in fit, weighted by ``exp(-F(v | x))``. With
    known outputs both this and the choice are over the sets that agree with them.

    Parameters
    ----------
    decoding : Decoding

    Returns
    -------
    ndarray (N, V) of 0/1
    """
    return _over_label_sets(decoding, "jaccard")


def decode_expected_f1(decoding):
    """Switch on the outputs of the largest expected F1, of all output vectors.

    The expectation is over the label sets seen in fit, weighted by ``exp(-F(v | x))``; with
    known outputs, over the sets that agree with them.

    Parameters
    ----------
    decoding : Decoding

    Returns
    -------
    ndarray (N, V) of 0/1
    """
    return _over_label_sets(decoding, "f1")


def _over_label_sets(decoding, metric):
    result = np.empty((decoding.energy.n_models, decoding.label_sets.shape[1]), np.int8)
    for rows, sets, log_weight in weighted_label_sets(decoding, "marginal"):
        weight = softmax(log_weight.astype(np.float64), axis=1)
        agrees = log_weight > -np.inf
        result[rows] = _decode_distribution(sets.astype(np.float64), weight, metric, 1.0, agrees)
    if decoding.known is not None:  # which F1 is best with, ties and rounding apart
        result = np.where(np.isnan(decoding.known), result, decoding.known).astype(np.int8)
    return result


def _decode_distribution(sets, weight, metric, zero_division, candidates=True):
    """Label vectors (N, L) of the largest expected metric over label sets (K, L).

    Parameters
    ----------
    sets : ndarray (K, L)
    weight : ndarray (N, K)
        Sums to 1 in each row.
    metric, zero_division
    candidates : ndarray (N, K) of bool or True
        For "jaccard": the sets that may be chosen.
    """
    if metric == "jaccard":
        with one_blas_thread():
            value = weight @ _jaccard(sets, sets, zero_division)
        return sets[_first_best(np.where(candidates, value, -1.0))].astype(np.int64)
    size, n_labels = sets.sum(axis=1).astype(int), sets.shape[1]

    def decode(rows):
        w = weight[rows]
        on = np.zeros((len(w), n_labels, n_labels))
        for s in np.unique(size[size > 0]):
            on[:, :, s - 1] = w[:, size == s] @ sets[size == s]
        return maximize_f1(w[:, size == 0].sum(axis=1), on, zero_division)

    return _by_blocks(decode, len(weight), n_labels)


def _by_blocks(decode, n, n_labels, entries=0):
    """Labels (n, L) that ``decode(rows)`` gives, in blocks that bound the memory.

    A row takes (L + 1)^2 numbers, or `entries` where these are more.
    """
    result = np.empty((n, n_labels), np.int64)
    size = max(1, _BLOCK_ENTRIES // max((n_labels + 1) ** 2, entries))
    with one_blas_thread():
        for rows in row_chunks(n, size):
            result[rows] = decode(rows)
    return result


def maximize_f1(empty, on, zero_division=1.0):
    """Maximise the expected F1 over all label vectors (GFM).

    With ``D_ik = sum_s 2 P(y_i = 1, |y| = s) / (k + s)``, the best vector of k labels has the
    k largest D_ik.

    Parameters
    ----------
    empty : ndarray (N,)
        P(|y| = 0).
    on : ndarray (N, L, L)
        P(y_i = 1, |y| = s) in ``[:, i, s - 1]``.
    zero_division : float

    Returns
    -------
    ndarray (N, L) of int
        0/1. Among equals that with the fewest labels, then the first ones.
    """
    n_labels = on.shape[1]
    sizes = np.arange(1, n_labels + 1)
    gain = on @ (2.0 / (sizes[:, None] + sizes))  # (N, L, k - 1)
    # To the digits that rounding leaves alone, so that equal labels are taken in order.
    order = np.argsort(-np.round(gain, 12), axis=1, kind="stable")
    total = np.take_along_axis(gain, order, axis=1).cumsum(axis=1)
    value = np.diagonal(total, axis1=1, axis2=2)
    k = _first_best(np.column_stack([zero_division * empty, value]))
    chosen = np.take_along_axis(order, np.maximum(k - 1, 0)[:, None, None], axis=2)[:, :, 0]
    return _first_k(chosen, k)


def _independent_sizes(p):
    """P(|y| = 0), (N,), and P(y_i = 1, |y| = s), (N, L, L), of independent labels (N, L)."""
    n, n_labels = p.shape
    size = np.zeros((n, n_labels + 1))
    size[:, 0] = 1.0
    for i in range(n_labels):
        size[:, 1:] = size[:, 1:] * (1 - p[:, [i]]) + size[:, :-1] * p[:, [i]]
        size[:, 0] *= 1 - p[:, i]
    # Without label i, the sizes are those of all with its factor divided out: from below
    # where it is likely off, from above where it is likely on, so that errors fade.
    below, above = np.empty((2, n, n_labels, n_labels))
    low = np.minimum(p, 0.5)
    high = np.maximum(p, 0.5)
    below[:, :, 0] = size[:, [0]] / (1 - low)
    above[:, :, -1] = size[:, [-1]] / high
    for s in range(1, n_labels):
        below[:, :, s] = (size[:, [s]] - low * below[:, :, s - 1]) / (1 - low)
        t = n_labels - 1 - s
        above[:, :, t] = (size[:, [t + 1]] - (1 - high) * above[:, :, t + 1]) / high
    others = np.where((p <= 0.5)[:, :, None], below, above)
    return size[:, 0], np.maximum(others, 0.0) * p[:, :, None]


def _top_jaccard(p, zero_division):
    """Return the expected Jaccard index (N, L + 1) of the first k = 0, ..., L labels.

    Labels are independent, and so are the numbers of those on among the first k and among
    the others, which are what the union adds to the k.
    """
    n, n_labels = p.shape
    value = np.empty((n, n_labels + 1))
    left_out = np.zeros((n, n_labels + 1))  # distribution of the number on among the others
    left_out[:, 0] = 1.0
    hits = p.cumsum(axis=1)
    for k in range(n_labels, -1, -1):
        if k < n_labels:
            q = p[:, [k]]
            left_out[:, 1:] = left_out[:, 1:] * (1 - q) + left_out[:, :-1] * q
            left_out[:, 0] *= 1 - p[:, k]
        if k:
            inverse = left_out @ (1.0 / (k + np.arange(n_labels + 1)))
            value[:, k] = hits[:, k - 1] * inverse
        else:
            value[:, 0] = zero_division * left_out[:, 0]
    return value


def _jaccard(judges, candidates, zero_division):
    """Jaccard index (..., J, C) of 0/1 vectors (..., J, L) and (..., C, L)."""
    both = judges @ np.swapaxes(candidates, -1, -2)
    union = judges.sum(axis=-1)[..., :, None] + candidates.sum(axis=-1)[..., None, :] - both
    empty = union == 0
    return np.where(empty, zero_division, both / np.where(empty, 1.0, union))


def _first_best(value):
    """Index (N,) of the first of the largest values (N, C), rounding apart."""
    return (value >= value.max(axis=1, keepdims=True) - _TIE).argmax(axis=1)


def _first_k(order, k):
    """0/1 vectors (N, L) with the first k labels on, by an order (N, L); k (N,) or int."""
    rank = np.argsort(order, axis=1)
    return (rank < np.reshape(k, (-1, 1))).astype(np.int64)


def _check_metric(metric):
    if metric not in _METRICS:
        raise ValueError(f"metric must be one of 'f1', 'jaccard'; got {metric!r}")


def _check_zero_division(value):
    if value not in (0, 1):
        raise ValueError(f"zero_division must be 0 or 1, got {value!r}")


def _check_states(states, name, shape):
    states = as_float_array(states, name, shape).astype(np.float64)
    if not np.isin(states, (0, 1)).all():
        raise ValueError(f"{name} must hold 0 and 1 only")
    return states
