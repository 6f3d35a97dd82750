"""Table of all scores, with their functions, inputs, titles, and the methods that maximise them.

The function of a score has the arguments ``(y, p, observed, weight)``: targets and predictions
(n_samples, n_labels), the boolean mask of observed entries, and a positive weight for each row.
The caller has validated these arrays, and removed rows and labels without an observed entry. If an
entry is not observed, it is 0 in `y` and `p`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.metrics import (
    average_precision_score,
    coverage_error,
    label_ranking_average_precision_score,
    label_ranking_loss,
    log_loss,
    roc_auc_score,
)

RATIOS = ("precision", "recall", "f1", "jaccard")
AVERAGES = ("samples", "micro", "macro", "weighted")


def _divide(numerator, denominator):
    """Return the elementwise quotient, with 0 for entries whose denominator is 0."""
    return np.divide(
        numerator, denominator, out=np.zeros(np.shape(numerator)), where=denominator != 0
    )


_RATIO_OF_COUNTS = {
    "precision": lambda tp, fp, fn: _divide(tp, tp + fp),
    "recall": lambda tp, fp, fn: _divide(tp, tp + fn),
    "f1": lambda tp, fp, fn: _divide(2 * tp, 2 * tp + fp + fn),
    "jaccard": lambda tp, fp, fn: _divide(tp, tp + fp + fn),
}


def _counted(y, p, observed, weight, *, ratio, average):
    """Return an average of precision, recall, F1 or Jaccard.

    Entries that are not observed are 0 in `y` and `p`, so no count includes them.
    """
    # scikit-learn's functions are not used, because they treat a single label as a binary target
    # and average over its two classes.
    cells = (y * p, (1 - y) * p, y * (1 - p))
    score = _RATIO_OF_COUNTS[ratio]
    if average == "samples":
        return np.average(score(*(cell.sum(axis=1) for cell in cells)), weights=weight)
    tp, fp, fn = (weight @ cell for cell in cells)
    if average == "micro":
        return score(tp.sum(), fp.sum(), fn.sum())
    if average == "macro":
        return score(tp, fp, fn).mean()
    support = tp + fn
    return _divide(support @ score(tp, fp, fn), support.sum())


def scores_by_label(y, p, seen, weight):
    """Return a dict with the ratios ("precision", "f1", ...) and the support (L,) of each label.

    The values are NaN for labels for which `seen` (L,) is False.
    """
    cells = [weight @ cell for cell in (y * p, (1 - y) * p, y * (1 - p))]
    found = {name: ratio(*cells) for name, ratio in _RATIO_OF_COUNTS.items()}
    found["support"] = cells[0] + cells[2]
    return {name: np.where(seen, values, np.nan) for name, values in found.items()}


def _accuracy(y, p, observed, weight):
    return np.average((y == p).all(axis=1), weights=weight)


def _entries(y, p, observed, weight):
    """Return the targets, predictions and weights of the observed entries as flat arrays."""
    return y[observed], p[observed], np.broadcast_to(weight[:, None], y.shape)[observed]


def _neg_hamming(y, p, observed, weight):
    y, p, weight = _entries(y, p, observed, weight)
    return -np.average(y != p, weights=weight)


def _neg_log_loss(y, p, observed, weight):
    y, p, weight = _entries(y, p, observed, weight)
    return -log_loss(y, p, sample_weight=weight, labels=[0, 1])


def _neg_brier(y, p, observed, weight):
    y, p, weight = _entries(y, p, observed, weight)
    return -np.average((y - p.astype(np.float64)) ** 2, weights=weight)


def _ranked(y, p, observed, weight, *, function, average):
    if average == "micro":
        columns = [_entries(y, p, observed, weight)]
    else:
        columns = [
            (y[seen, j], p[seen, j], weight[seen])
            for j, seen in enumerate(observed.T)
            if seen.any()
        ]
    columns = [column for column in columns if 0 < column[0].mean() < 1]
    if not columns:
        raise ValueError(
            "y_true should have both classes among its observed entries"
            + ("." if average == "micro" else " for at least one label.")
        )
    return np.mean([function(y, p, sample_weight=weight) for y, p, weight in columns])


def _average_precision_micro(y, p, observed, weight):
    y, p, weight = _entries(y, p, observed, weight)
    if not y.any():
        return 0.0  # scikit-learn returns the same, with a warning
    return average_precision_score(y, p, sample_weight=weight)


def calibration_error(y, p, weight, n_bins=10, strategy="uniform"):
    """Return the expected calibration error of probabilities p (n,) for targets y (n,)."""
    if strategy == "uniform":
        inner = np.linspace(0, 1, n_bins + 1)[1:-1]
    else:
        inner = np.quantile(p, np.linspace(0, 1, n_bins + 1)[1:-1])
    # A bin includes its upper edge, as in scikit-learn's calibration_curve.
    excess = np.bincount(np.searchsorted(inner, p), weights=weight * (p - y))
    return np.abs(excess).sum() / weight.sum()


def _neg_calibration(y, p, observed, weight):
    return -calibration_error(*_entries(y, p, observed, weight))


def _ranked_in_rows(y, p, observed, weight, *, function):
    """Score the ranking of the labels in each row; labels that are not observed rank last."""
    # Add a column that counts as not observed, because scikit-learn does not accept a single label.
    # Replace scores by ranks, so that entries that are not observed can get the lowest rank, -1.
    y = np.column_stack([y, np.zeros(len(y))])
    ranks = np.unique(p, return_inverse=True)[1].reshape(p.shape)
    p = np.column_stack([np.where(observed, ranks, -1), np.full(len(p), -1)])
    if function is not label_ranking_loss:
        return function(y, p, sample_weight=weight)
    # The loss is the share of pairs of labels in wrong order. Pairs with a label that is not
    # observed are always in the right order, so rescale the loss to the pairs of observed labels.
    wrong = y.shape[1] - y.sum(axis=1)
    share = _divide(wrong, observed.sum(axis=1) - y.sum(axis=1))
    if not share.any():
        return 0.0
    loss = label_ranking_loss(y, p, sample_weight=weight * share)
    return loss * (weight * share).sum() / weight.sum()


class Score(NamedTuple):
    """A score of multi-label predictions; higher is better."""

    # Kind of predictions: "labels", "probabilities", "ranking" (any scores), or "classes" (any
    # scores, if at least one label has both classes).
    needs: str
    function: Callable
    # title of the score in the lower table of a report; "" if the score is in the upper table
    title: str = ""
    # Methods of prediction that can maximise the score: "expectation" (the label vector with the
    # largest expected score), "threshold" (a common threshold on the probabilities of all labels),
    # "thresholds" (a threshold for each label).
    maximizers: frozenset = frozenset()


def _ratio_scores():
    """Return a dict of the scores for all ratios and averages, such as "f1_macro"."""
    maximizers = {
        "f1_samples": {"expectation", "threshold"},
        "jaccard_samples": {"expectation", "threshold"},
        "f1_micro": {"threshold", "thresholds"},
        "f1_macro": {"threshold", "thresholds"},
    }
    return {
        (name := f"{ratio}_{average}"): Score(
            "labels",
            partial(_counted, ratio=ratio, average=average),
            maximizers=frozenset(maximizers.get(name, ())),
        )
        for ratio in ("f1", "jaccard", "precision", "recall")
        for average in AVERAGES
    }


def _by_label(function, average):
    return partial(_ranked, function=function, average=average)


def _by_row(function, sign=1):
    return lambda *arrays: sign * _ranked_in_rows(*arrays, function=function)


#: All scores by name.
SCORES: dict[str, Score] = {
    "accuracy": Score("labels", _accuracy, "subset accuracy"),
    **_ratio_scores(),
    "neg_hamming_loss": Score(
        "labels", _neg_hamming, "Hamming loss", frozenset({"threshold", "thresholds"})
    ),
    "neg_log_loss": Score("probabilities", _neg_log_loss, "log loss of the marginals"),
    "neg_brier_score": Score("probabilities", _neg_brier, "Brier score of the marginals"),
    "neg_calibration_error": Score("probabilities", _neg_calibration, "expected calibration error"),
    "roc_auc": Score("classes", _by_label(roc_auc_score, "macro"), "ROC AUC, macro"),
    "roc_auc_micro": Score("classes", _by_label(roc_auc_score, "micro"), "ROC AUC, micro"),
    "average_precision": Score(
        "classes", _by_label(average_precision_score, "macro"), "average precision, macro"
    ),
    "average_precision_micro": Score(
        "ranking", _average_precision_micro, "average precision, micro"
    ),
    "label_ranking_average_precision": Score(
        "ranking",
        _by_row(label_ranking_average_precision_score),
        "label ranking average precision",
    ),
    "neg_label_ranking_loss": Score(
        "ranking", _by_row(label_ranking_loss, -1), "label ranking loss"
    ),
    "neg_coverage_error": Score("ranking", _by_row(coverage_error, -1), "coverage error"),
}


def scores_maximized_by(maximizer: str) -> tuple[str, ...]:
    """Return the names of the scores that a method can maximise (see `Score.maximizers`)."""
    return tuple(name for name, score in SCORES.items() if maximizer in score.maximizers)
