"""The score of classifiers that take labels known beforehand."""

from __future__ import annotations

from typing import Any

from skcrbm.targets.kinds import TargetsMixin
from skcrbm.utils.classifiers import check_outer_fitted
from skcrbm.utils.labels import in_rows_of
from skcrbm.utils.validation import check_same_length, count_rows


class KnownLabelsMixin(TargetsMixin):
    """Mixin of classifiers whose `predict` takes labels known beforehand."""

    def score(self, X: Any, y: Any, sample_weight: Any = None, y_known: Any = None) -> float:
        """Return the accuracy; for 2-D y the subset accuracy over the observed entries.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            True labels. NaN in 2-D y means not observed; rows without an observed entry are left
            out. The columns of a data frame are matched by name.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere, for `predict`. They do not count: the score is
            over the observed entries that are not known.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If an argument is invalid, or no observed entry is left to score.
        """
        if y_known is None:
            return super().score(X, y, sample_weight)
        check_outer_fitted(self)
        check_same_length(X, y, sample_weight, y_known)
        known = self._targets.check_known(in_rows_of(y_known, X), count_rows(X))
        y_pred = self.predict(X, y_known=y_known)
        return self._targets.accuracy(y, y_pred, sample_weight, known)
