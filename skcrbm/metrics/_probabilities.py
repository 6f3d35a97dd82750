"""Scores of predicted probabilities: log loss and calibration error."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import log_loss

from skcrbm.metrics.scores import calibration_error
from skcrbm.targets.scored import check_scored


def _averaged(function, y_true, y_prob, average, sample_weight):
    """Apply ``function(y, p, weight)`` to all observed entries, or to each label separately."""
    if average not in ("micro", "macro", None):
        raise ValueError(f"average should be 'micro', 'macro' or None, got {average!r}")
    y, p, observed, weight = check_scored("probabilities", y_true, y_prob, "y_prob", sample_weight)
    weight = np.broadcast_to(weight[:, None], y.shape)
    if average == "micro":
        return float(function(y[observed], p[observed], weight[observed]))
    scores = np.full(y.shape[1], np.nan)
    for j, seen in enumerate(observed.T):
        if seen.any():
            scores[j] = function(y[seen, j], p[seen, j], weight[seen, j])
    return scores if average is None else float(np.nanmean(scores))


def marginal_log_loss(
    y_true: ArrayLike,
    y_prob: ArrayLike | list,
    *,
    average: str | None = "micro",
    sample_weight: ArrayLike | None = None,
) -> float | np.ndarray:
    """Compute the mean negative log-likelihood of the observed labels under their marginals.

    Parameters
    ----------
    y_true : {array-like, sparse matrix} of shape (n_samples, n_labels)
        Targets of 0 and 1, with NaN for entries that are not observed.
    y_prob : array-like of shape (n_samples, n_labels) or list of arrays (n_samples, 2)
        Predicted P(y = 1). Probabilities are clipped to [eps, 1 - eps], with the machine epsilon
        of their dtype, as in scikit-learn's `log_loss`.
    average : {"micro", "macro", None}, default="micro"
        "micro" is the mean over all observed entries. "macro" is the mean over labels, where each
        label is scored on its observed entries. None returns a number for each label, which is NaN
        for a label without an observed entry.
    sample_weight : array-like (n_samples,) or (n_samples, n_labels), default=None
        Weights of the rows, or of single labels.

    Returns
    -------
    float or ndarray of shape (n_labels,)
        Log loss in nats; lower is better.

    Raises
    ------
    ValueError
        If `average` is unknown or an array is invalid.

    Examples
    --------
    >>> from skcrbm.metrics import marginal_log_loss
    >>> round(marginal_log_loss([[1, 0], [0, float("nan")]], [[0.8, 0.5], [0.2, 0.9]]), 3)
    0.38
    """

    def loss(y, p, weight):
        return log_loss(y, p, sample_weight=weight, labels=[0, 1])

    return _averaged(loss, y_true, y_prob, average, sample_weight)


def expected_calibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike | list,
    *,
    n_bins: int = 10,
    strategy: str = "uniform",
    average: str | None = "micro",
    sample_weight: ArrayLike | None = None,
) -> float | np.ndarray:
    """Compute the expected calibration error of predicted probabilities [1]_.

    Entries are grouped into bins of similar predicted probability. The error of a bin is the
    absolute difference between its mean probability and its share of positive targets. The result
    is the mean error of the bins, weighted by their numbers of entries.

    Parameters
    ----------
    y_true : {array-like, sparse matrix} of shape (n_samples, n_labels)
        Targets of 0 and 1, with NaN for entries that are not observed.
    y_prob : array-like of shape (n_samples, n_labels) or list of arrays (n_samples, 2)
        Predicted P(y = 1).
    n_bins : int, default=10
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        "uniform" makes bins of equal width. "quantile" makes bins with about equal numbers of
        entries, as in scikit-learn's `calibration_curve`.
    average : {"micro", "macro", None}, default="micro"
        "micro" puts the entries of all labels into the same bins. "macro" is the mean over labels,
        where each label has its own bins. None returns a number for each label, which is NaN for a
        label without an observed entry.
    sample_weight : array-like (n_samples,) or (n_samples, n_labels), default=None
        Weights of the rows, or of single labels.

    Returns
    -------
    float or ndarray of shape (n_labels,)
        Error between 0 and 1; lower is better. Noise in bins with few entries increases the error,
        so compare only errors that were computed on the same number of rows.

    Raises
    ------
    ValueError
        If `average` or `strategy` is unknown, or an array or `n_bins` is invalid.

    References
    ----------
    .. [1] Naeini, Cooper and Hauskrecht (2015). Obtaining well calibrated probabilities
       using Bayesian binning. AAAI.

    Examples
    --------
    >>> from skcrbm.metrics import expected_calibration_error
    >>> round(expected_calibration_error([[1, 0], [1, 0], [0, 0]], [[0.6, 0.1]] * 3), 3)
    0.083
    """
    if not isinstance(n_bins, Integral) or n_bins < 1:
        raise ValueError(f"n_bins should be a positive integer, got {n_bins!r}")
    if strategy not in ("uniform", "quantile"):
        raise ValueError(f"strategy should be 'uniform' or 'quantile', got {strategy!r}")

    def error(y, p, weight):
        return calibration_error(y, p, weight, n_bins, strategy)

    return _averaged(error, y_true, y_prob, average, sample_weight)
