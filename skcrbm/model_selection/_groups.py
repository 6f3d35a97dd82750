"""Stratified folds that keep groups of rows together, and splits into two parts."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.model_selection import BaseCrossValidator, ShuffleSplit
from sklearn.utils import check_random_state, indexable

from skcrbm.model_selection._stratified import (
    MultilabelStratifiedShuffleSplit,
    check_fold_options,
)
from skcrbm.targets.groups import check_groups
from skcrbm.targets.indicator import positive_labels, with_dimensions
from skcrbm.targets.names import is_frame
from skcrbm.utils.sklearn_private import safe_indexing
from skcrbm.utils.validation import check_order


def _group_parts(present, groups, shares, rng=None):
    """Return the index (n,) of the part of each row; all rows of a group are in the same part.

    `present` is a CSC matrix (n, L) of the positive labels, `shares` (K,) are the shares of the
    parts. Groups are assigned one after the other. The groups with positives of the rarest label
    come first, in decreasing order of the number of these positives. Each group goes to the part in
    which it adds least to the squared deviations of labels and sizes from `shares`. `rng`
    determines the order of groups with equal counts. If `rng` is None, these groups keep their
    order in the data.
    """
    _, first, index = np.unique(groups, return_index=True, return_inverse=True)
    n_groups, n_rows = len(first), len(index)
    if n_groups < len(shares):
        raise ValueError(
            f"groups must hold at least {len(shares)} groups, a group for each part; got {n_groups}"
        )
    member = sparse.csr_matrix(
        (np.ones(n_rows), (index, np.arange(n_rows))), shape=(n_groups, n_rows)
    )
    # Columns: the number of rows of each group, then its number of positives of each label.
    counts = np.hstack([np.bincount(index)[:, None], (member @ present).toarray()])
    total = counts.sum(axis=0)
    load = counts / np.maximum(total, 1)
    order = np.argsort(first) if rng is None else rng.permutation(n_groups)
    order = order[np.argsort(-counts[order, 0], kind="stable")]  # large groups first
    left, part_of = counts.sum(axis=0), np.full(n_groups, -1)
    filled, shares = np.zeros((len(shares), len(total))), np.asarray(shares)[:, None]
    while left[0]:
        rarest = np.where(left > 0, left, n_rows + 1).argmin()
        waiting = order[(part_of[order] < 0) & (counts[order, rarest] > 0)]
        for group in waiting[np.argsort(-counts[waiting, rarest], kind="stable")]:
            change = (2 * (filled - shares) * load[group] + load[group] ** 2) / shares
            part = int(change.sum(axis=1).argmin())
            part_of[group] = part
            filled[part] += load[group]
            left -= counts[group]
    return part_of[index]


class MultilabelStratifiedGroupKFold(BaseCrossValidator):
    """K folds of multi-label data that keep groups together and spread the labels evenly.

    Use this class if rows belong together, such as several samples of a patient or pieces of a
    recording: a model that was trained on one row of a group would score too well on the other rows
    of the group. The groups with the rarest label are assigned first. Each group goes to the fold
    for which the sizes of all folds, and their shares of all labels, then deviate least from an
    even spread.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=False
        True to visit groups with the same size and the same label counts in random order.
    random_state : int, RandomState or None, default=None
        Seed of the order, for ``shuffle=True``.

    See Also
    --------
    MultilabelStratifiedKFold : Folds of the same size, without groups.

    Notes
    -----
    A NaN in y (not observed) counts as 0. If groups have different sizes, the folds may have
    different sizes, too.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.model_selection import MultilabelStratifiedGroupKFold
    >>> y = np.array([[1, 0], [1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1], [0, 1]])
    >>> patient = [1, 1, 2, 2, 3, 3, 4, 4]
    >>> for train, test in MultilabelStratifiedGroupKFold(2).split(y, y, patient):
    ...     print(test, y[test].sum(axis=0))
    [0 1 4 5] [2 2]
    [2 3 6 7] [2 2]
    """

    # Metadata routing passes `groups` to the splitter, as to scikit-learn's `GroupKFold`.
    __metadata_request__split: ClassVar[dict] = {"groups": True}

    def __init__(self, n_splits=5, *, shuffle=False, random_state=None):
        check_fold_options(n_splits, shuffle, random_state)
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X=None, y=None, groups=None):
        """Return the number of folds; the arguments are ignored."""
        return self.n_splits

    def split(self, X, y, groups):
        """Generate the indices of training and test rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data; only the number of rows is used.
        y : {array-like, sparse matrix} of shape (n_samples, n_labels)
            0/1 labels; NaN counts as 0.
        groups : array-like of shape (n_samples,)
            Group of each row.

        Yields
        ------
        train, test : ndarray of int
            Indices of the rows, in ascending order.

        Raises
        ------
        ValueError
            If y is not a 0/1 matrix, `groups` is None or has another length, or there are fewer
            groups than folds.
        """
        if groups is None:
            raise ValueError(
                "groups must hold the group of each row; MultilabelStratifiedKFold needs no groups"
            )
        check_order(X=X, y=y, groups=groups)
        y = y if y is None or is_frame(y) else with_dimensions(y)
        return super().split(X, y, check_groups(groups, X))

    def _iter_test_masks(self, X=None, y=None, groups=None):
        present = positive_labels(y)
        rng = check_random_state(self.random_state) if self.shuffle else None
        shares = np.full(self.n_splits, 1 / self.n_splits)
        fold = _group_parts(present, groups, shares, rng)
        for k in range(self.n_splits):
            yield fold == k


def multilabel_train_test_split(
    X: Any,
    y: Any,
    *arrays: Any,
    test_size: float | int | None = None,
    train_size: float | int | None = None,
    groups: Any = None,
    random_state: int | np.random.RandomState | None = None,
) -> list[Any]:
    """Split rows into a training part and a test part with equal shares of each label.

    scikit-learn's ``train_test_split`` with ``stratify=y`` needs two rows of each combination of
    labels, so it raises an error for most multi-label data.

    Parameters
    ----------
    X : {array-like, sparse matrix, data frame} of shape (n_samples, ...)
        Inputs.
    y : {array-like, sparse matrix, data frame} of shape (n_samples, n_labels)
        0/1 labels; NaN counts as 0.
    *arrays : array-like of length n_samples
        More data to split, such as weights.
    test_size, train_size : float or int, default=None
        Share or number of the rows of each part. If both are None, a quarter of the rows is the
        test part. If one of them is None, its part has all other rows.
    groups : array-like of shape (n_samples,), default=None
        Group of each row. All rows of a group are in the same part, so the parts have only
        approximately the given sizes.
    random_state : int, RandomState or None, default=None
        Seed of the split.

    Returns
    -------
    parts : list
        ``[X_train, X_test, y_train, y_test, ...]``, with two parts for each array.

    Raises
    ------
    ValueError
        If y is not a 0/1 matrix, lengths differ, or a size does not fit.

    See Also
    --------
    MultilabelStratifiedShuffleSplit : Several such splits, for the `cv` of scikit-learn's tools.

    Examples
    --------
    >>> from skcrbm.datasets import make_structured_labels
    >>> from skcrbm.model_selection import multilabel_train_test_split
    >>> X, y = make_structured_labels(200, n_labels=4, random_state=0)
    >>> X_train, X_test, y_train, y_test = multilabel_train_test_split(X, y, random_state=0)
    >>> X_test.shape, y_train.mean(axis=0).round(2), y_test.mean(axis=0).round(2)
    ((50, 20), array([0.43, 0.31, 0.32, 0.52]), array([0.42, 0.3 , 0.32, 0.52]))
    """
    check_order(X=X, y=y, **{f"arrays[{i}]": array for i, array in enumerate(arrays)})
    y = y if is_frame(y) else with_dimensions(y)
    all_arrays = indexable(X, y, *arrays)
    test_size = 0.25 if test_size is None and train_size is None else test_size
    if groups is None:
        split = MultilabelStratifiedShuffleSplit(
            1, test_size=test_size, train_size=train_size, random_state=random_state
        )
        train, test = next(split.split(X, y))
    else:
        train, test = _group_split(y, groups, test_size, train_size, random_state)
    return [safe_indexing(array, rows) for array in all_arrays for rows in (train, test)]


def _group_split(y, groups, test_size, train_size, random_state):
    """Return the rows (train, test) of a split that keeps groups together."""
    present = positive_labels(y)
    n_rows = present.shape[0]
    groups = check_groups(groups, y)
    sizes = [len(rows) for rows in next(_sizes(test_size, train_size).split(np.empty(n_rows)))]
    rest = n_rows - sum(sizes)
    shares = np.array([*sizes, rest] if rest else sizes) / n_rows
    rng = check_random_state(random_state)
    part = _group_parts(present, groups, shares, rng)
    train, test = np.flatnonzero(part == 0), np.flatnonzero(part == 1)
    if not len(train) or not len(test):
        raise ValueError(
            f"groups are too large for parts of {sizes[0]} training and {sizes[1]} test rows: one "
            "part would be empty"
        )
    return rng.permutation(train), rng.permutation(test)


def _sizes(test_size, train_size):
    return ShuffleSplit(1, test_size=test_size, train_size=train_size, random_state=0)
