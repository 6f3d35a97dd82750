"""Base class of conformal methods, which predict sets of label vectors or sets of labels."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from skcrbm.model_selection.folds import out_of_fold
from skcrbm.targets.classifier import check_outer_fitted, label_output
from skcrbm.targets.indicator import indicator_by_name, require_complete
from skcrbm.targets.proba import label_answers
from skcrbm.targets.wrapped import WrappingClassifier, wrapped_rows
from skcrbm.utils.options import multilabel_tags


class ConformalBase(WrappingClassifier):
    """Base class of classifiers that predict a set for each row, with a calibrated size.

    The size of the sets is calibrated on rows that the inner classifier has not seen in its fit.
    """

    cv: Any
    n_jobs: int | None

    def __sklearn_tags__(self):
        return multilabel_tags(super().__sklearn_tags__(), self.estimator)

    def _fit_inner(self, X, y, sample_weight, respond):
        """Fit the estimator; return out-of-fold responses, labels, weights and a mask.

        The responses are an array with an entry for each row: the result of ``respond(model, X,
        y)`` for a model that was not fitted on this row. The labels are (n, L) for n rows and L
        labels, the weights (n,). The mask (n,) is True for rows whose labels are all observed.

        A row whose labels have different weights stands for several copies of the row, each with
        some of its labels. Only the copies with all labels are used to calibrate, and their weights
        add up to the smallest of the label weights of the row.
        """
        labels = wrapped_rows(X, y, sample_weight, type(self).__name__, self, several=True)
        visible, weight = labels.visible, labels.row_weight
        complete = ~np.isnan(visible).any(axis=1)
        if not (complete & (weight > 0)).any():
            raise ValueError(
                "y holds NaN, or a label of weight 0, in every row of positive weight, but sets "
                "are calibrated on rows whose labels are all observed"
            )
        self._set_targets(labels.targets)
        responses = out_of_fold(
            self.estimator,
            X,
            labels.y,
            cv=self.cv,
            respond=partial(_on_complete_rows, respond=respond),
            n_jobs=self.n_jobs,
            fit_params=labels.params,
            beside=(visible,),
        )
        self._fit_wrapped(X, labels)
        return responses, visible, weight, complete

    @label_output
    def predict(self, X):
        """Return the labels that the estimator predicts.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        labels : ndarray of shape (n_samples, n_outputs)
            Predictions of `estimator_`, without the calibration.
        """
        check_outer_fitted(self)
        return label_answers(
            self.estimator_.predict(X), self._targets.n_visible, self._targets.names
        )

    def _labels_of_rows(self, y, n_rows):
        """Validate the argument `y`, and return it as 0/1 labels (N, L) without missing labels."""
        labels = indicator_by_name(y, self._targets.names, self._targets.n_visible)
        if labels.shape != (n_rows, self._targets.n_visible):
            raise ValueError(
                f"y must have shape ({n_rows}, {self._targets.n_visible}), got {labels.shape}"
            )
        require_complete(labels, "a set holds whole label vectors")
        return labels


def _on_complete_rows(model, X, visible, respond):
    """Return the responses to all rows; they are NaN for rows with a missing label in `visible`."""
    rows = np.flatnonzero(~np.isnan(visible).any(axis=1))
    if len(rows) == len(visible):
        return respond(model, X, visible)
    filled = np.where(np.isnan(visible), 0.0, visible)
    found = respond(model, X, filled).astype(float)
    found[np.isnan(visible).any(axis=1)] = np.nan
    return found


def conformal_quantile(scores, weight, confidence, name):
    """Return a threshold that the score of a new row does not exceed with probability `confidence`.

    `scores` and `weight` (n,) belong to the n calibration rows, and the result is the smallest
    valid threshold. The new row is treated as an additional calibration row with the average weight
    and an infinite score, which is the worst case. If there are too few calibration rows for a
    finite threshold, a ValueError is raised, whose message contains `name`, the name of the group
    of rows.
    """
    order = np.argsort(scores, kind="stable")
    scores, weight = scores[order], weight[order] / weight.max()  # so that sums are finite
    total = weight.sum()
    wanted = confidence * (total + total / len(weight))
    reached = np.flatnonzero(np.cumsum(weight) >= wanted * (1 - 1e-12))
    if not len(reached):
        least = int(np.ceil(confidence / (1 - confidence) - 1e-9))
        raise ValueError(
            f"confidence={confidence} needs at least {least} complete rows of positive weight to "
            f"calibrate on{name}, got {len(weight)}"
        )
    return float(scores[reached[0]])
