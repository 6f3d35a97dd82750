"""Forests of scikit-learn for missing labels and for weights of single labels.

scikit-learn's trees need complete labels and a single weight for each row. Here the splits of a
tree are found with the largest of the label weights of each row, and with missing labels at their
most frequent values. But a leaf keeps the training rows that fell into it, in place of frequencies
of classes. So a prediction counts each label of these rows with its own weight, and leaves out
labels that are missing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from skcrbm.ensemble._compact_forest import CompactExtraTrees, CompactRandomForest, CompactTree
from skcrbm.utils.validation import NothingToLearnError


class RowLabels(NamedTuple):
    """Labels of N training rows, in the form in which leaves count them; y has L columns."""

    weight: np.ndarray  # (N,): weight of each row in the fit, the largest of its label weights
    completed: np.ndarray  # (N, L): labels, with missing labels at their most frequent values
    # (N, 2 L): the weight of a label divided by the weight of its row; times the label in the first
    # L columns, and alone in the other columns.
    counts: np.ndarray
    sets: np.ndarray  # (K, L): distinct label vectors of the complete rows
    # (N, K): the smallest label weight of a complete row divided by the weight of the row, in the
    # column of its label vector.
    set_counts: sp.csr_array

    @classmethod
    def of(cls, visible: np.ndarray, weight: np.ndarray) -> RowLabels:
        """Count the labels `visible` (N, L), with NaN for missing labels, by their `weight` (N, L).

        The weights of missing labels are ignored, and a label of weight 0 is missing.
        """
        weight = np.where(np.isnan(visible), 0.0, weight)
        total = weight.max(axis=1)
        if not total.any():
            raise NothingToLearnError("sample_weight is zero for every observed label of y")
        share = weight / np.where(total > 0, total, 1.0)[:, None]
        on = share * (visible == 1)
        often = mean_labels(total @ np.hstack([on, share])) >= 0.5
        missing = weight == 0
        rows = np.flatnonzero(~missing.any(axis=1))
        sets, column = np.unique(visible[rows].astype(np.int64), axis=0, return_inverse=True)
        smallest = share[rows].min(axis=1)
        place = rows, column.ravel()
        return cls(
            total,
            np.where(missing, often, visible == 1).astype(np.int64),
            np.hstack([on, share]),
            sets,
            sp.csr_array((smallest, place), shape=(len(visible), len(sets))),
        )


def mean_labels(counts: np.ndarray, otherwise: Any = 0.0) -> np.ndarray:
    """Return weighted means (..., V) of labels, from sums of `RowLabels.counts` (..., 2 V).

    The mean of a label is `otherwise` if no row in which the label is observed was counted.
    """
    on, every = np.split(counts, 2, axis=-1)
    return np.where(every > 0, on / np.where(every > 0, every, 1.0), otherwise)


class _RowTreeMixin:
    """Tree whose leaves hold shares of training rows, which add up to 1 in each leaf."""

    tree_: Any

    def _fit(self, X: Any, *args: Any, sample_weight: Any = None, **options: Any) -> Any:
        super()._fit(X, *args, sample_weight=sample_weight, **options)  # type: ignore[misc]
        tree, n = self.tree_, X.shape[0]
        weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, float)
        rows = np.flatnonzero(weight > 0)
        inputs = X.tocsr()[rows] if sp.issparse(X) else X[rows]
        leaves = np.flatnonzero(tree.children_left == -1)
        leaf = np.searchsorted(leaves, tree.apply(inputs))
        share = weight[rows] / np.bincount(leaf, weights=weight[rows])[leaf]
        self.tree_ = CompactTree(tree, sp.csr_array((share, (leaf, rows)), (len(leaves), n)))
        return self


class RowDecisionTree(_RowTreeMixin, DecisionTreeClassifier):
    """`DecisionTreeClassifier` whose leaves hold training rows."""


class RowExtraTree(_RowTreeMixin, ExtraTreeClassifier):
    """`ExtraTreeClassifier` whose leaves hold training rows."""


class RowRandomForest(CompactRandomForest):
    """`RandomForestClassifier` whose leaves hold training rows: the classes of `mean_values`."""

    _tree = RowDecisionTree


class RowExtraTrees(CompactExtraTrees):
    """`ExtraTreesClassifier` whose leaves hold training rows: the classes of `mean_values`."""

    _tree = RowExtraTree


_ROW_FORESTS = {RandomForestClassifier: RowRandomForest, ExtraTreesClassifier: RowExtraTrees}


def row_forest(estimator: Any) -> Any:
    """Return a forest with the same parameters whose leaves hold training rows.

    Return None if the estimator is not a forest of scikit-learn.
    """
    make = _ROW_FORESTS.get(type(estimator))
    if make is None:
        return None
    if estimator.class_weight is not None:
        raise ValueError(
            f"class_weight of {type(estimator).__name__} must be None if y holds NaN or "
            f"sample_weight holds weights of single labels, got {estimator.class_weight!r}"
        )
    return make(**estimator.get_params(deep=False))
