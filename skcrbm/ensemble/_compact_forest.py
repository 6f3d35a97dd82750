"""Reduce the memory that the fitted trees of scikit-learn's forests need.

A tree of scikit-learn stores the frequency of every class in every node. If each label set is a
class, a tree has thousands of nodes with thousands of frequencies each. But a leaf of a fully grown
tree contains rows of one or two classes only, so most frequencies are 0 and need not be stored.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from skcrbm.utils.limits import BLOCK_ENTRIES, TREE_BYTES
from skcrbm.utils.parallel import ordered_map, row_chunks

# Fields that scikit-learn stores for an inner node. `CompactTree` needs them to find the leaf of a
# row.
_SPLIT: dict[str, type] = {
    "left_child": np.int32,
    "right_child": np.int32,
    "feature": np.int32,
    "threshold": np.float64,
    "missing_go_to_left": np.uint8,
}


class CompactTree:
    """Splits of a fitted `sklearn.tree._tree.Tree`, and sparse class frequencies of its leaves.

    A compact tree replaces the attribute `tree_` of a classifier. It has the attributes and methods
    that predictions and feature importances need. If the tree has several outputs, all outputs must
    be binary. `leaf_values` (n_leaves, n_columns) replaces the class frequencies.
    """

    def __init__(self, tree: Any, leaf_values: Any = None):
        self._make, self._arguments, state = tree.__reduce__()
        self._node_type = state["nodes"].dtype
        self.node_count, self.max_depth = tree.node_count, tree.max_depth
        self._inner = np.flatnonzero(tree.children_left != -1).astype(np.int32)
        self._splits = np.empty(len(self._inner), list(_SPLIT.items()))
        for name in _SPLIT:
            self._splits[name] = state["nodes"][name][self._inner]
        self._several = tree.n_outputs > 1
        self.leaf_values = (
            _leaf_values(tree, self._leaves()) if leaf_values is None else leaf_values
        )
        self._importances = sp.csr_array(tree.compute_feature_importances()[None])

    @property
    def n_leaves(self) -> int:  # scikit-learn's `get_n_leaves` reads this attribute
        return self.node_count - len(self._inner)

    def _leaves(self) -> np.ndarray:
        leaf = np.ones(self.node_count, bool)
        leaf[self._inner] = False
        return np.flatnonzero(leaf)

    def apply(self, X: Any) -> np.ndarray:
        """Return the index of each row's leaf among the nodes; X is float32, dense or CSR."""
        nodes = np.zeros(self.node_count, self._node_type)
        nodes["left_child"] = nodes["right_child"] = -1
        for name in _SPLIT:
            nodes[name][self._inner] = self._splits[name]
        n_features, *_ = self._arguments
        tree = self._make(n_features, np.ones(1, np.intp), 1)
        values = np.zeros((self.node_count, 1, 1))
        tree.__setstate__(
            {
                "max_depth": self.max_depth,
                "node_count": self.node_count,
                "nodes": nodes,
                "values": values,
            }
        )
        return tree.apply(X)

    def sparse_values(self, X: Any) -> sp.csr_array:
        """Return a CSR array with the class frequencies in the leaf of each row of X."""
        return self.leaf_values[np.searchsorted(self._leaves(), self.apply(X))]

    def predict(self, X: Any) -> np.ndarray:
        """Return class frequencies (n, n_classes) or (n, n_outputs, 2), as in scikit-learn."""
        values = self.sparse_values(X).toarray()
        return np.stack([1 - values, values], axis=2) if self._several else values

    def compute_feature_importances(self, normalize: bool = True) -> np.ndarray:
        if not normalize:
            raise ValueError(
                "normalize must be True, because a compact tree stores only normalized importances"
            )
        return self._importances.toarray()[0]


def _leaf_values(tree, leaves):
    """Return a CSR array (n_leaves, n_columns) with the frequencies of the classes in each leaf.

    If the tree has several outputs, the columns are the frequencies of class 1 in each output.
    """
    values = tree.value[:, 0] if tree.n_outputs == 1 else tree.value[:, :, 1]
    chunks = row_chunks(len(leaves), max(1, BLOCK_ENTRIES // values.shape[1]))
    return sp.vstack([sp.csr_array(values[leaves[rows]]) for rows in chunks], format="csr")


class _CompactTreeMixin:
    tree_: Any

    def _fit(self, *args: Any, **options: Any) -> Any:
        super()._fit(*args, **options)  # type: ignore[misc]
        self.tree_ = CompactTree(self.tree_)
        return self


class CompactDecisionTree(_CompactTreeMixin, DecisionTreeClassifier):
    """`DecisionTreeClassifier` whose tree becomes a `CompactTree` at the end of the fit."""


class CompactExtraTree(_CompactTreeMixin, ExtraTreeClassifier):
    """`ExtraTreeClassifier` whose tree becomes a `CompactTree` at the end of the fit."""


class CompactForest:
    """Base class of forests whose trees are stored as `CompactTree`, which needs little memory.

    The predictions of the trees are added up in the order of the trees, so that rounding errors do
    not depend on the threads.
    """

    _tree: Callable
    _validate_X_predict: Callable
    n_jobs: int | None
    estimators_: list
    estimators_samples_: list

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the trees of scikit-learn's forest; use fewer threads if the trees are large."""
        self.estimator = self._tree()
        n_jobs = self.n_jobs
        self.n_jobs = min(effective_n_jobs(n_jobs), max(1, TREE_BYTES // _largest_tree(y)))
        try:
            with (
                warnings.catch_warnings()
            ):  # many classes are normal, because each label set is a class
                warnings.filterwarnings("ignore", "The number of unique classes is greater")
                return super().fit(X, y, sample_weight)  # type: ignore[misc]
        finally:
            self.n_jobs = n_jobs

    def mean_values(self, X: Any, table: np.ndarray | None = None) -> np.ndarray:
        """Return the mean over all trees of ``values @ table``, an array (n, n_columns).

        `values` (n, n_classes) of a tree holds, for each of the n rows of X, the class frequencies
        in the leaf that the row falls into. If the trees have several outputs, it holds the
        frequencies of the labels. The default of `table` is the identity matrix.
        """
        X = self._validate_X_predict(X)
        every = slice(None)
        total: Any = 0.0
        for _, values in self._values_of_trees(X, [every] * len(self.estimators_), table):
            total = total + values
        return total / len(self.estimators_)

    def out_of_bag_values(self, X: Any, table: np.ndarray | None = None) -> np.ndarray:
        """Return the out-of-bag version of `mean_values` for the training rows X.

        The mean of a row is over the trees that were fitted without this row. If all trees were
        fitted with the row, the result is NaN.
        """
        X = self._validate_X_predict(X)
        unseen = [_complement(seen, X.shape[0]) for seen in self.estimators_samples_]
        total, count = None, np.zeros((X.shape[0], 1))
        for rows, values in self._values_of_trees(X, unseen, table):
            total = np.zeros((X.shape[0], values.shape[1])) if total is None else total
            total[rows] += values
            count[rows] += 1
        with np.errstate(invalid="ignore"):
            return total / count

    def _values_of_trees(self, X, rows_of_trees, table) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield the rows of each tree, and the tree's values (see `mean_values`) of these rows.

        The pairs come in the order of the trees.
        """

        def values_of(pair):
            tree, rows = pair
            values = tree.tree_.sparse_values(X[rows])
            values = values if table is None else values @ table
            return rows, values.toarray() if sp.issparse(values) else values

        pairs = list(zip(self.estimators_, rows_of_trees, strict=True))
        return ordered_map(values_of, pairs, self.n_jobs)


class CompactRandomForest(CompactForest, RandomForestClassifier):
    """`RandomForestClassifier` with compact trees."""

    shown_name = "RandomForestClassifier"  # in error messages

    _tree = CompactDecisionTree


class CompactExtraTrees(CompactForest, ExtraTreesClassifier):
    """`ExtraTreesClassifier` with compact trees."""

    shown_name = "ExtraTreesClassifier"  # in error messages

    _tree = CompactExtraTree


_COMPACT = {
    RandomForestClassifier: CompactRandomForest,
    ExtraTreesClassifier: CompactExtraTrees,
}


def compact(estimator: Any) -> Any:
    """Return a forest with the same parameters that stores its trees as `CompactTree`.

    Estimators that are not forests are returned unchanged.
    """
    make = _COMPACT.get(type(estimator))
    return estimator if make is None else make(**estimator.get_params(deep=False))


def _largest_tree(y):
    """Return an upper bound of the bytes that the class frequencies of a tree need in the fit."""
    n_classes = int(y.max()) + 1 if y.ndim == 1 else 2 * y.shape[1]
    # A bootstrap sample contains 0.63 n different rows, so a tree has at most 1.27 n nodes.
    # scikit-learn doubles the storage when it is full, so it stores at most about 2.6 n nodes.
    return int(2.6 * len(y)) * n_classes * 8


def _complement(seen, n):
    unseen = np.ones(n, bool)
    unseen[seen] = False
    return np.flatnonzero(unseen).astype(np.int32)
