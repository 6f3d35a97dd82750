"""Define the method `score` of classifiers whose `predict` has an argument `y_known`.

A class takes the function as its method ``score``, in place of `TargetsMixin.score`.
"""

from __future__ import annotations

from typing import Any

from skcrbm.targets.kinds import TargetsMixin
from skcrbm.utils.classifiers import check_outer_fitted
from skcrbm.utils.labels import in_rows_of
from skcrbm.utils.validation import check_same_length, count_rows


def score(self: Any, X: Any, y: Any, sample_weight: Any = None, y_known: Any = None) -> float:
    """Return the accuracy or, for a 2-D y, the subset accuracy.

    The subset accuracy is the share of rows in which all observed labels are predicted
    correctly.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        True labels. Missing labels (NaN in a 2-D y) do not count, and rows without observed
        labels are left out. Data frames are matched to the labels by column name.
    sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
        Weights of the rows, or of single labels, see `skcrbm.metrics.masked_score`.
    y_known : array-like of shape (n_samples, n_outputs), default=None
        Labels that are known beforehand, and NaN for the other labels, as in `predict`. Known
        labels do not count in the score.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument is invalid, or all observed labels are known.
    """
    if y_known is None:
        return TargetsMixin.score(self, X, y, sample_weight)
    check_outer_fitted(self)
    check_same_length(X, y, sample_weight, y_known)
    known = self._targets.check_known(in_rows_of(y_known, X), count_rows(X))
    y_pred = self.predict(X, y_known=y_known)
    return self._targets.accuracy(y, y_pred, sample_weight, known)
