"""The scores themselves, on arrays that are already checked.

Every function takes ``(y, p, observed, weight)``: targets and predictions of shape
(n_samples, n_labels), the boolean mask of observed entries, and one positive weight a row.
Rows and labels without an observed entry are gone. `y` and `p` are 0 where not observed.
"""

from functools import partial

import numpy as np
from sklearn.metrics import (
    average_precision_score,
    coverage_error,
    label_ranking_average_precision_score,
    label_ranking_loss,
    log_loss,
    roc_auc_score,
)


def _divide(numerator, denominator):
    """Return the quotient, and 0 where the denominator is 0."""
    return np.divide(
        numerator, denominator, out=np.zeros(np.shape(numerator)), where=denominator != 0
    )


_RATIOS = {
    "precision": lambda tp, fp, fn: _divide(tp, tp + fp),
    "recall": lambda tp, fp, fn: _divide(tp, tp + fn),
    "f1": lambda tp, fp, fn: _divide(2 * tp, 2 * tp + fp + fn),
    "jaccard": lambda tp, fp, fn: _divide(tp, tp + fp + fn),
}


def _counted(y, p, observed, weight, *, ratio, average):
    """Score a ratio of counts; entries not observed are 0 in both, so they count nowhere."""
    # From counts, and not by scikit-learn's functions: those take one label for a binary
    # target and then average over its two classes.
    cells = (y * p, (1 - y) * p, y * (1 - p))
    score = _RATIOS[ratio]
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
    """Ratios and support of each label, a dict of (L,); NaN where it is not `seen` (L,)."""
    cells = [weight @ cell for cell in (y * p, (1 - y) * p, y * (1 - p))]
    found = {name: ratio(*cells) for name, ratio in _RATIOS.items()}
    found["support"] = cells[0] + cells[2]
    return {name: np.where(seen, values, np.nan) for name, values in found.items()}


def _accuracy(y, p, observed, weight):
    return np.average((y == p).all(axis=1), weights=weight)


def _entries(y, p, observed, weight):
    """Return the observed entries as flat arrays, with the weight of each."""
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


def calibration_error(y, p, weight, n_bins=10, strategy="uniform"):
    """Mean distance of predicted probabilities (n,) from shares, over bins of the former."""
    if strategy == "uniform":
        inner = np.linspace(0, 1, n_bins + 1)[1:-1]
    else:
        inner = np.quantile(p, np.linspace(0, 1, n_bins + 1)[1:-1])
    # The upper edge belongs to a bin, as in scikit-learn's calibration_curve.
    excess = np.bincount(np.searchsorted(inner, p), weights=weight * (p - y))
    return np.abs(excess).sum() / weight.sum()


def _neg_calibration(y, p, observed, weight):
    return -calibration_error(*_entries(y, p, observed, weight))


def _ranked_in_rows(y, p, observed, weight, *, function):
    """Score the order of the labels in each row; those not observed come last in it."""
    # One more such column, as scikit-learn refuses a single label. Ranks in place of the scores:
    # there is always a number below these.
    y = np.column_stack([y, np.zeros(len(y))])
    ranks = np.unique(p, return_inverse=True)[1].reshape(p.shape)
    p = np.column_stack([np.where(observed, ranks, -1), np.full(len(p), -1)])
    if function is not label_ranking_loss:
        return function(y, p, sample_weight=weight)
    # This one divides by the number of pairs; those with a column that is none are right.
    wrong = y.shape[1] - y.sum(axis=1)
    share = _divide(wrong, observed.sum(axis=1) - y.sum(axis=1))
    if not share.any():
        return 0.0
    loss = label_ranking_loss(y, p, sample_weight=weight * share)
    return loss * (weight * share).sum() / weight.sum()


# name -> (what the score is computed from, function)
SCORES = {
    "accuracy": ("labels", _accuracy),
    **{
        f"{ratio}_{average}": ("labels", partial(_counted, ratio=ratio, average=average))
        for ratio in ("f1", "jaccard", "precision", "recall")
        for average in ("samples", "micro", "macro", "weighted")
    },
    "neg_hamming_loss": ("labels", _neg_hamming),
    "neg_log_loss": ("probabilities", _neg_log_loss),
    "neg_brier_score": ("probabilities", _neg_brier),
    "neg_calibration_error": ("probabilities", _neg_calibration),
    "roc_auc": ("ranking", partial(_ranked, function=roc_auc_score, average="macro")),
    "roc_auc_micro": ("ranking", partial(_ranked, function=roc_auc_score, average="micro")),
    "average_precision": (
        "ranking",
        partial(_ranked, function=average_precision_score, average="macro"),
    ),
    "average_precision_micro": (
        "ranking",
        partial(_ranked, function=average_precision_score, average="micro"),
    ),
    "label_ranking_average_precision": (
        "ranking",
        partial(_ranked_in_rows, function=label_ranking_average_precision_score),
    ),
    "neg_label_ranking_loss": (
        "ranking",
        lambda *arrays: -_ranked_in_rows(*arrays, function=label_ranking_loss),
    ),
    "neg_coverage_error": (
        "ranking",
        lambda *arrays: -_ranked_in_rows(*arrays, function=coverage_error),
    ),
}
