"""Label vectors with the largest expected Jaccard index or F1, of what any classifier predicts."""

import numpy as np

from skcrbm.decoding._empty import check_zero_division
from skcrbm.decoding._generating import (
    best_but_empty,
    f1_gain,
    first_k,
    independent_on,
    independent_top_jaccard,
    inverse_nodes,
    jaccard,
    maximize_f1,
)
from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.outputs import label_marginals
from skcrbm.utils.parallel import one_blas_thread, row_chunks
from skcrbm.utils.validation import as_float_array

_METRICS = {"f1_samples": "f1", "jaccard_samples": "jaccard"}


def decode_marginals(proba, metric="f1_samples", *, zero_division=1.0, allow_empty=True):
    """Label vectors of the largest expected metric, if labels are independent given x.

    Under independence some number of most probable labels is best for both metrics. For "f1"
    that number and its value come from ``P(y_i = 1, |y| = s)`` (GFM [1]_), for "jaccard" from the
    distribution of the number of labels left out. Both are sums over the nodes of a quadrature of
    1 / n: exact up to 12 labels ("jaccard" 24), else values to 1e-4.

    Parameters
    ----------
    proba : array-like of shape (n_samples, n_labels) or list of arrays (n_samples, 2)
        P(y_i = 1 | x) in either form of scikit-learn's `predict_proba`. Labels of
        probability 0 or 1, such as known ones, are predicted so.
    metric : {"f1_samples", "jaccard_samples"}, default="f1_samples"
        Of each row: ``2 |v y| / (|v| + |y|)`` or ``|v y| / |v or y|``. Short forms are "f1"
        and "jaccard".
    zero_division : {1.0, 0.0}, default=1.0
        Value of predicting no label where none is true, as in scikit-learn's `f1_score`.
        With 0, as its default scores it, nothing is ever gained by predicting no label.
    allow_empty : bool, default=True
        Whether no label may be predicted. Set it to False where every row has a label, as when
        no row of the training set is empty: the best vector with a label on is then predicted,
        but for rows in which no label is possible. A single label may always be off.

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
    >>> decode_marginals([[0.9, 0.5, 0.3], [0.4, 0.3, 0.2]], metric="f1_samples")
    array([[1, 1, 0],
           [1, 1, 0]])
    >>> decode_marginals([[0.9, 0.5, 0.3], [0.4, 0.3, 0.2]], metric="jaccard_samples")
    array([[1, 1, 0],
           [0, 0, 0]])
    """
    metric = _checked_metric(metric)
    check_zero_division(zero_division)
    proba = label_marginals(proba)
    if proba.shape[1] == 0:
        raise ValueError(f"proba must have at least one label, got shape {proba.shape}")
    allow_empty = allow_empty or proba.shape[1] == 1
    nodes, weight = inverse_nodes(2 * proba.shape[1])

    def decode(rows):
        p = proba[rows]
        if metric == "f1":
            gain = f1_gain(independent_on(p, nodes), nodes, weight)
            return maximize_f1((1 - p).prod(axis=1), gain, zero_division, allow_empty)
        order = np.argsort(-p, axis=1, kind="stable")
        value = independent_top_jaccard(np.take_along_axis(p, order, axis=1), zero_division)
        none = np.arange(value.shape[1]) == 0
        return first_k(order, best_but_empty(value, none, p.any(axis=1), allow_empty))

    return _by_blocks(decode, *proba.shape)


def decode_label_sets(
    label_sets, proba, metric="jaccard_samples", *, zero_division=1.0, allow_empty=True
):
    """Label vectors of the largest expected metric under a distribution over label sets.

    "jaccard": the best of the label sets themselves. "f1": the best of all 2^L label
    vectors, exactly, from ``P(y_i = 1, |y| = s)`` (GFM [1]_).

    Parameters
    ----------
    label_sets : array-like of shape (n_sets, n_labels)
        Distinct 0/1 vectors, such as those seen in training.
    proba : array-like of shape (n_samples, n_sets)
        Probability of each set given x, or numbers proportional to it.
    metric, zero_division, allow_empty
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
    metric = _checked_metric(metric)
    check_zero_division(zero_division)
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
    allow_empty = allow_empty or sets.shape[1] == 1
    size = sets.sum(axis=1).astype(int)
    if metric == "jaccard":
        with one_blas_thread():
            value = weight @ jaccard(sets, sets, zero_division)
        possible = weight[:, size > 0].any(axis=1)
        best = best_but_empty(value, size == 0, possible, allow_empty)
        return sets[best].astype(np.int64)

    def decode(rows):
        w = weight[rows]
        on = np.zeros((len(w), sets.shape[1], sets.shape[1]))
        for s in np.unique(size[size > 0]):
            on[:, s - 1] = w[:, size == s] @ sets[size == s]
        return maximize_f1(
            w[:, size == 0].sum(axis=1), _gain_by_size(on), zero_division, allow_empty
        )

    return _by_blocks(decode, len(weight), sets.shape[1])


def decode_samples(samples, metric="jaccard_samples", *, zero_division=1.0, allow_empty=True):
    """Label vectors of the largest expected metric, estimated from joint samples.

    "jaccard": the best of the samples of the row and, for each k, its k most probable
    labels. "f1": the best of all 2^L label vectors under the samples (GFM [1]_).

    Parameters
    ----------
    samples : array-like of shape (n_samples, n_draws, n_labels)
        0/1 vectors drawn from p(y | x) of each row, such as `CRBMClassifier.sample` gives.
    metric, zero_division, allow_empty
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
    >>> decode_samples([[[1, 0, 0], [1, 1, 0], [1, 1, 0], [0, 0, 1]]], metric="f1_samples")
    array([[1, 1, 0]])
    """
    metric = _checked_metric(metric)
    check_zero_division(zero_division)
    samples = _check_states(samples, "samples", "(n_samples, n_draws, n_labels)")
    n, n_draws, n_labels = samples.shape
    if n_draws == 0:
        raise ValueError(f"samples must hold at least one draw of each row, got {samples.shape}")
    allow_empty = allow_empty or n_labels == 1
    sizes = np.arange(1, n_labels + 1)

    def decode(rows):
        drawn = samples[rows]
        size = drawn.sum(axis=2)
        if metric == "f1":
            of_size = (size[:, None, :] == sizes[:, None]).astype(np.float64)
            gain = _gain_by_size(of_size @ drawn / n_draws)
            return maximize_f1((size == 0).mean(axis=1), gain, zero_division, allow_empty)
        order = np.argsort(-drawn.sum(axis=1), axis=1, kind="stable")
        top = np.stack([first_k(order, k) for k in range(n_labels + 1)], axis=1)
        candidates = np.concatenate([top, drawn], axis=1)
        value = jaccard(drawn, candidates, zero_division).mean(axis=1)
        possible = size.any(axis=1)
        best = best_but_empty(value, ~candidates.any(axis=2), possible, allow_empty)
        return np.take_along_axis(candidates, best[:, None, None], axis=1)[:, 0]

    return _by_blocks(decode, n, n_labels, n_draws * (n_draws + n_labels + 1))


def _gain_by_size(on):
    """D_ik (N, L, L) in ``[:, k - 1, i]`` from P(y_i = 1, |y| = s) in ``[:, s - 1, i]``."""
    sizes = np.arange(1, on.shape[2] + 1)
    return (2.0 / (sizes[:, None] + sizes)) @ on


def _by_blocks(decode, n, n_labels, entries=0):
    """Labels (n, L) that ``decode(rows)`` gives, in blocks that bound the memory.

    A row takes (L + 1)^2 numbers, or `entries` where these are more.
    """
    result = np.empty((n, n_labels), np.int64)
    size = max(1, BLOCK_ENTRIES // max((n_labels + 1) ** 2, entries))
    with one_blas_thread():
        for rows in row_chunks(n, size):
            result[rows] = decode(rows)
    return result


def _checked_metric(metric):
    """Return "f1" or "jaccard"."""
    if metric not in (*_METRICS, *_METRICS.values()):
        raise ValueError(f"metric must be one of {', '.join(map(repr, _METRICS))}; got {metric!r}")
    return _METRICS.get(metric, metric)


def _check_states(states, name, shape):
    states = as_float_array(states, name, shape).astype(np.float64)
    if not np.isin(states, (0, 1)).all():
        raise ValueError(f"{name} must hold 0 and 1 only")
    return states
