"""Find the thresholds on marginals that maximise a metric, by an exact search."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.decoding.posterior import check_zero_division, with_a_label
from skcrbm.metrics.scores import SCORES, scores_maximized_by
from skcrbm.targets.indicator import indicator_with_nan, require_observed
from skcrbm.targets.names import (
    entries_in_order_of,
    in_order_of,
    is_frame,
    label_names_of,
)
from skcrbm.targets.proba import label_marginals
from skcrbm.targets.weights import is_per_label, label_layers, label_weight_beside
from skcrbm.utils.limits import TIE
from skcrbm.utils.validation import as_float_array, check_order, check_sample_weight

#: Metrics that `fit_thresholds` can maximise.
THRESHOLD_METRICS = scores_maximized_by("threshold")


def fit_thresholds(
    y: ArrayLike,
    proba: ArrayLike | list,
    metric: str = "f1_samples",
    *,
    per_label: bool | None = None,
    sample_weight: ArrayLike | None = None,
    zero_division: float = 1.0,
    allow_empty: bool = True,
) -> np.ndarray:
    """Return the thresholds that maximise a metric, among all possible thresholds.

    `proba` should come from models that were not fitted on the rows of y, for example from
    cross-validation. If a model has seen the rows, its probabilities of true labels are too high,
    and so are the best thresholds.

    Parameters
    ----------
    y : array-like of shape (n_samples, n_labels)
        Labels 0 and 1. Entries that are NaN (not observed) are ignored.
    proba : array-like of shape (n_samples, n_labels) or list of arrays (n_samples, 2)
        P(y_i = 1 | x) in either form of scikit-learn's `predict_proba`. If y and `proba` are data
        frames, the columns of y are matched by name with the columns of `proba`, which determine
        the order of the thresholds.
    metric : str, default="f1_samples"
        "f1_samples" or "jaccard_samples" (means over rows), "f1_micro", "f1_macro" (mean over
        labels), or "neg_hamming_loss".
    per_label : bool, default=None
        True to fit a threshold for each label, False to fit a single threshold for all labels. None
        means True for "f1_macro", which benefits from it, and False for the other metrics, which
        overfit easily. "f1_samples" and "jaccard_samples" support a single threshold only.
    sample_weight : array-like (n_samples,) or (n_samples, n_labels), default=None
        Weights of the rows, or of the labels of each row.
    zero_division : {1.0, 0.0}, default=1.0
        Score of a row that has neither true nor predicted labels. With "f1_macro", score of a label
        that is neither true nor predicted in any row.
    allow_empty : bool, default=True
        Value of `allow_empty` in the later call of `apply_thresholds`. If False, the search for
        "f1_samples" and "jaccard_samples" takes into account that a label is switched on in empty
        rows. The search for the other metrics ignores this.

    Returns
    -------
    ndarray of shape (n_labels,)
        Thresholds; a label is predicted if ``proba >= threshold``. A threshold is halfway between
        two values of `proba`, or between a value and 0 or 1. It is just above 1 if some value is 1
        and no label should be on. If several thresholds are equally good, the threshold closest to
        0.5 is chosen, and the higher one if two are equally close.

    Raises
    ------
    ValueError
        If the metric or an option is unknown, an array is invalid, or ``per_label=True`` is
        combined with "f1_samples" or "jaccard_samples".

    Notes
    -----
    The search sorts the probabilities and evaluates a threshold between any two successive values.
    If the metric is a mean over rows or labels, a threshold that moves past an entry changes a
    single term of the mean, so one pass over the sorted entries is enough. "f1_micro" with a
    threshold for each label is a ratio of two sums over labels. Dinkelbach's iteration finds its
    maximum: each step maximises a sum, label by label.

    Examples
    --------
    >>> from skcrbm.decoding import apply_thresholds, fit_thresholds
    >>> y = [[1, 0], [1, 1], [0, 0]]
    >>> proba = [[0.4, 0.1], [0.8, 0.3], [0.2, 0.1]]
    >>> thresholds = fit_thresholds(y, proba, "f1_macro")
    >>> thresholds.round(2)
    array([0.3, 0.2])
    >>> apply_thresholds(proba, thresholds)
    array([[1, 0],
           [1, 1],
           [0, 0]])
    """
    per_label = check_threshold_metric(metric, per_label)
    check_zero_division(zero_division)
    check_order(y=y, proba=proba, sample_weight=sample_weight)
    given, y = y, in_order_of(y, label_names_of(proba) if is_frame(proba) else None)
    names = label_names_of(y) if is_frame(y) else None
    y = indicator_with_nan(y, "y")
    proba = label_marginals(proba)
    if y.shape != proba.shape:
        raise ValueError(f"proba must have the shape of y, {y.shape}, got {proba.shape}")
    if is_per_label(sample_weight):
        weight = label_weight_beside(sample_weight, given, len(y), names, y.shape[1])
        row, y, weight = label_layers(y, weight)
        proba = proba[row]
    else:
        weight = check_sample_weight(sample_weight, proba)
    observed: np.ndarray = ~np.isnan(y) & (weight > 0)[:, None]
    require_observed(observed)
    y = np.where(observed, y, 0.0)
    mass = np.where(observed, weight[:, None], 0.0)
    if metric in ("f1_samples", "jaccard_samples"):
        table = _Sorted(proba, y, observed.astype(np.float64), observed)
        value = (_f1 if metric == "f1_samples" else _jaccard)(table, zero_division)
        if not allow_empty and y.shape[1] > 1:
            most = proba.argmax(axis=1)
            rows = np.flatnonzero(observed[np.arange(len(y)), most] & (proba.max(axis=1) > 0))
            value[rows, 0] = value[rows, 1]
        return np.full(y.shape[1], _cut_of_sum(table, value * weight[:, None]))
    by_label = _Sorted(proba.T, y.T, mass.T, observed.T)
    if metric == "f1_macro":
        seen = np.asarray(observed.any(axis=0))[:, None]
        value = _f1(by_label, zero_division) * seen
        if per_label:
            return _cut_of_each(by_label, value)
        return np.full(y.shape[1], _cut_of_sum(by_label, value))
    if metric == "neg_hamming_loss":
        value = 2 * by_label.true_on - by_label.on
        if per_label:
            return _cut_of_each(by_label, value)
        return np.full(y.shape[1], _cut_of_sum(by_label, value))
    if per_label:
        return _micro_f1_by_label(by_label)
    every = _Sorted(*(part.reshape(1, -1) for part in (proba, y, mass, observed)))
    return np.full(y.shape[1], _cut_of_each(every, _f1(every, zero_division))[0])


def apply_thresholds(
    proba: ArrayLike | list, thresholds: float | ArrayLike, *, allow_empty: bool = True
) -> np.ndarray:
    """Switch on the labels with ``proba >= threshold``.

    Parameters
    ----------
    proba : array-like of shape (n_samples, n_labels) or list of arrays (n_samples, 2)
        P(y_i = 1 | x) in either form of scikit-learn's `predict_proba`.
    thresholds : float or array-like of shape (n_labels,)
        Threshold of all labels, or of each label. A Series or a dict is read by the names of the
        columns of `proba`.
    allow_empty : bool, default=True
        If False, the label with the largest ``proba - threshold`` is switched on in rows in which
        no label reaches its threshold, unless all probabilities of the row are 0. With a single
        label this option has no effect.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        0/1 labels.

    Raises
    ------
    ValueError
        If an array is invalid.

    Examples
    --------
    >>> from skcrbm.decoding import apply_thresholds
    >>> apply_thresholds([[0.3, 0.6], [0.1, 0.9]], [0.2, 0.7])
    array([[1, 0],
           [0, 1]])
    """
    names = label_names_of(proba, "proba")
    proba = label_marginals(proba)
    if isinstance(thresholds, Real):
        thresholds = np.full(proba.shape[1], thresholds)
    thresholds = entries_in_order_of(thresholds, names, proba.shape[1], "thresholds")
    thresholds = as_float_array(thresholds, "thresholds", "(n_labels,)")
    if len(thresholds) != proba.shape[1]:
        raise ValueError(f"thresholds must have shape ({proba.shape[1]},), got {thresholds.shape}")
    return _reached(proba, thresholds, allow_empty)


def _reached(proba, thresholds, allow_empty):
    score = np.where(proba > 0, proba - thresholds, -np.inf)
    return with_a_label((proba >= thresholds).astype(np.int64), score, allow_empty)


def check_threshold_metric(metric: str, per_label: bool | None = None) -> bool:
    """Validate a metric and `per_label`, and return True if each label gets its own threshold."""
    if metric not in THRESHOLD_METRICS:
        raise ValueError(
            f"metric must be one of {', '.join(map(repr, THRESHOLD_METRICS))}; got {metric!r}"
        )
    if per_label is None:
        return metric == "f1_macro"
    if per_label and "thresholds" not in SCORES[metric].maximizers:
        raise ValueError(
            f"{metric!r} takes a single threshold for all labels, because there is no exact search "
            "for a threshold of each label. Use per_label=False, or 'f1_micro', 'f1_macro' or "
            "'neg_hamming_loss'"
        )
    return bool(per_label)


def labels_by_fitted_thresholds(
    proba: np.ndarray,
    thresholds: np.ndarray | None,
    known: np.ndarray | None,
    allow_empty: bool,
) -> np.ndarray:
    """Return the labels (N, L) that reach the fitted thresholds (L,), and known labels unchanged.

    `proba` (N, L) must be 0 or 1 for known labels, and `known` (N, L) is NaN for unknown labels. A
    ValueError is raised if `thresholds` is None because `fit` did not search for thresholds.
    """
    if thresholds is None:
        raise ValueError(
            "decode='threshold' needs thresholds_, which fit finds by cross-validation: set "
            "decode='threshold' and fit again, or choose another decode"
        )
    # A fitted threshold of 0 would switch on a label that is known to be off, and a threshold above
    # 1 would switch off a label that is known to be on. So known labels get other thresholds.
    if known is not None:
        thresholds = np.where(known == 1, 0.0, np.where(known == 0, 2.0, thresholds))
    return _reached(proba, thresholds, allow_empty)


class _Sorted:
    """Sorts each of G groups of M entries by decreasing probability, and adds up their weights.

    An entry is a label in a row. Depending on the metric, a group holds the entries of one row, of
    one label, or of all rows and labels. For each m = 0, ..., M, the class adds up the weights of
    the first m entries of a group. These are the entries that are predicted as 1 if the threshold
    is just below the m-th probability.
    """

    proba: np.ndarray  # (G, M), sorted; -1 for entries that are not observed, which come last
    on: np.ndarray  # (G, M + 1), weight of the first m entries
    true_on: np.ndarray  # (G, M + 1), weight of the positive entries among the first m

    def __init__(self, proba, y, weight, observed):
        proba = np.where(observed, proba, -1.0)
        order = np.argsort(-proba, axis=1, kind="stable")
        weight, y, self.proba = (np.take_along_axis(a, order, axis=1) for a in (weight, y, proba))
        zero = np.zeros((len(proba), 1))
        self.on = np.hstack([zero, weight.cumsum(axis=1)])
        self.true_on = np.hstack([zero, (weight * y).cumsum(axis=1)])


def _f1(table, zero_division):
    return _ratio(2 * table.true_on, table.on + table.true_on[:, -1:], zero_division)


def _jaccard(table, zero_division):
    union = table.on + table.true_on[:, -1:] - table.true_on
    return _ratio(table.true_on, union, zero_division)


def _ratio(numerator, denominator, zero_division):
    out = np.full_like(numerator, zero_division)
    return np.divide(numerator, denominator, out=out, where=denominator > 0)


def _cut_of_sum(table, value):
    """Return the single threshold for all groups that maximises the sum of their values.

    value[g, m] is the value of group g if its m largest probabilities are predicted as 1.
    """
    seen = table.proba.ravel() >= 0
    proba = table.proba.ravel()[seen]
    gain = np.diff(value, axis=1).ravel()[seen]
    order = np.argsort(-proba, kind="stable")
    total = value[:, 0].sum() + np.concatenate([[0.0], gain[order].cumsum()])
    return _best_cut(proba[order], total)


def _cut_of_each(table, value):
    """Return the threshold of each group (G,) that maximises the value of the group.

    value[g, m] is the value of group g if its m largest probabilities are predicted as 1.
    """
    thresholds = np.empty(len(value))
    for group, (proba, total) in enumerate(zip(table.proba, value, strict=True)):
        n = np.count_nonzero(proba >= 0)
        thresholds[group] = _best_cut(proba[:n], total[: n + 1])
    return thresholds


def _best_cut(proba, value):
    """Return the threshold with the largest value.

    ``value[m]`` is the value of a threshold that switches on the first m of the sorted entries.
    """
    # The threshold that switches on the first m entries lies between the probabilities of the last
    # of these entries and of the next entry. The lowest threshold is 0, which switches on all
    # entries. The highest threshold, which switches on no entry, is 1, or just above 1 if a
    # probability is 1.
    top = np.nextafter(1.0, 2.0) if (proba == 1).any() else 1.0
    upper = np.concatenate([[top], proba])
    lower = np.concatenate([proba, [0.0]])
    middle = lower + (upper - lower) / 2
    threshold = np.where(middle > lower, middle, upper)
    possible = upper > lower
    possible[-1] = True  # a threshold of 0 is possible and switches on all entries
    largest = value[possible].max()
    best = possible & (value >= largest - TIE * np.abs(value).max())
    cuts = threshold[best]
    return cuts[np.lexsort([-cuts, np.abs(cuts - 0.5)])[0]]


def _micro_f1_by_label(table):
    """Return the thresholds (L,) that maximise the micro-averaged F1, by Dinkelbach's iteration."""
    true = table.true_on[:, -1].sum()
    level = 0.0 if true > 0 else 1.0  # F1 of empty predictions
    while True:
        # Maximise 2 true_on - level (on + true), where `on` and `true` are the weights of the
        # predicted and of the true entries, `true_on` is the weight of entries that are both, and
        # `true` is constant. If the maximum is positive, its thresholds have an F1 above `level`;
        # if it is 0, `level` is the largest F1.
        thresholds = _cut_of_each(table, 2 * table.true_on - level * table.on)
        first = np.count_nonzero(table.proba >= thresholds[:, None], axis=1)
        index = np.arange(len(first)), first
        on, true_on = table.on[index].sum(), table.true_on[index].sum()
        reached = 2 * true_on / (on + true) if on + true > 0 else 1.0
        if reached <= level * (1 + TIE):
            return thresholds
        level = reached
