"""Split multi-label data into parts with equal shares of each label (iterative stratification)."""

from numbers import Integral

import numpy as np
from sklearn.model_selection import BaseCrossValidator, BaseShuffleSplit
from sklearn.utils import check_random_state

from skcrbm.targets.indicator import positive_labels, with_dimensions
from skcrbm.targets.names import is_frame
from skcrbm.utils.validation import check_order


def _parts(present, sizes, rng=None):
    """Return the index (n,) of the part of each row, by iterative stratification.

    `present` is a CSC matrix (n, L) of the positive labels. `sizes` are the exact numbers of rows
    of the parts. `rng` decides the order of the rows and breaks ties between parts; None keeps the
    order of the data.
    """
    n_rows = present.shape[0]
    order = np.arange(n_rows) if rng is None else rng.permutation(n_rows)
    ties = None if rng is None else rng.random_sample((n_rows, len(sizes)))
    present = present.tocsr()[order]
    by_label = present.tocsc()
    left = np.diff(by_label.indptr)  # number of rows with each label that have no part yet
    wanted = [(size / n_rows * left).tolist() for size in sizes]
    room = list(sizes)
    part = np.full(n_rows, -1)

    def assign(row, label):
        """Put the row into the part that still needs the most rows with the label.

        Among several such parts, the part that has room for the most rows is chosen.
        """
        tie = [-p for p in range(len(room))] if ties is None else ties[row].tolist()
        best = max(
            (p for p in range(len(room)) if room[p]),
            key=lambda p: (
                wanted[p][label] if label is not None else 0.0,
                room[p],
                tie[p],
            ),
        )
        part[row] = best
        room[best] -= 1
        for other in present.indices[present.indptr[row] : present.indptr[row + 1]].tolist():
            wanted[best][other] -= 1.0
            left[other] -= 1

    while left.any():
        # Assign the rows of the rarest label first, because some parts may have no room for these
        # rows after the rows of other labels are assigned.
        label = int(np.where(left > 0, left, n_rows + 1).argmin())
        for row in by_label.indices[by_label.indptr[label] : by_label.indptr[label + 1]]:
            if part[row] < 0:
                assign(row, label)
    for row in np.flatnonzero(part < 0):
        assign(row, None)
    result = np.empty(n_rows, dtype=np.intp)
    result[order] = part
    return result


def check_fold_options(n_splits, shuffle, random_state):
    """Raise an error if an argument of a K-fold splitter is invalid."""
    if not isinstance(n_splits, Integral) or n_splits < 2:
        raise ValueError(f"n_splits must be an integer of at least 2, got {n_splits!r}")
    if not isinstance(shuffle, bool):
        raise TypeError(f"shuffle must be True or False, got {shuffle!r}")
    if random_state is not None and not shuffle:
        raise ValueError("random_state has no effect with shuffle=False; set shuffle=True")


class _IndicatorSplit:
    """Mixin with the method `split` of both splitters in this file."""

    def split(self, X, y, groups=None):
        """Generate the indices of training and test rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data, of which only the length is used.
        y : {array-like, sparse matrix} of shape (n_samples, n_labels)
            0/1 labels; NaN counts as 0.
        groups : None
            Groups of rows are not supported.

        Yields
        ------
        train, test : ndarray of int
            Indices of the rows, ascending for folds and in random order for shuffle splits.

        Raises
        ------
        ValueError
            If y is not a 0/1 matrix (lists of tags need scikit-learn's MultiLabelBinarizer), or has
            too few rows for the folds or sizes, or if `groups` is not None.
        """
        if groups is not None:
            raise ValueError(
                f"{type(self).__name__} does not support groups: it may put rows of a group "
                "into both parts of a split. MultilabelStratifiedGroupKFold keeps groups "
                "together"
            )
        check_order(X=X, y=y)
        y = y if y is None or is_frame(y) else with_dimensions(y)
        return super().split(X, y, groups)


class MultilabelStratifiedKFold(_IndicatorSplit, BaseCrossValidator):
    """K folds of multi-label data, with the positives of each label spread evenly [1]_.

    The rows of the rarest label are assigned first; each row goes to the fold that still needs the
    most rows with this label. The sizes of two folds differ by at most one row.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=False
        True to visit the rows in random order and to break ties at random.
    random_state : int, RandomState or None, default=None
        Seed of the order, for ``shuffle=True``.

    Notes
    -----
    A NaN in y (not observed) counts as 0, so only the observed positives are spread evenly. A label
    with fewer positives than folds is missing from some test folds. There is no warning about this,
    because data with many labels always have such labels.

    References
    ----------
    .. [1] Sechidis, Tsoumakas and Vlahavas (2011). On the stratification of multi-label
       data. ECML PKDD.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.model_selection import MultilabelStratifiedKFold
    >>> y = np.array([[1, 0], [1, 0], [1, 1], [1, 1], [0, 1], [0, 1], [0, 0], [0, 0]])
    >>> for train, test in MultilabelStratifiedKFold(n_splits=2).split(y, y):
    ...     print(test, y[test].sum(axis=0))
    [0 2 4 6] [2 2]
    [1 3 5 7] [2 2]
    """

    def __init__(self, n_splits=5, *, shuffle=False, random_state=None):
        check_fold_options(n_splits, shuffle, random_state)
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X=None, y=None, groups=None):
        """Return the number of folds; the arguments are ignored."""
        return self.n_splits

    def _iter_test_masks(self, X=None, y=None, groups=None):
        present = positive_labels(y)
        n_rows = present.shape[0]
        if self.n_splits > n_rows:
            raise ValueError(f"n_splits={self.n_splits} is more than the number of rows, {n_rows}")
        sizes = [
            n_rows // self.n_splits + (k < n_rows % self.n_splits) for k in range(self.n_splits)
        ]
        rng = check_random_state(self.random_state) if self.shuffle else None
        fold = _parts(present, sizes, rng)
        for k in range(self.n_splits):
            yield fold == k


class MultilabelStratifiedShuffleSplit(_IndicatorSplit, BaseShuffleSplit):
    """Random training and test parts of multi-label data with equal shares of each label [1]_.

    The parts have exactly the given sizes. The shares of the labels are as equal as the sizes
    allow.

    Parameters
    ----------
    n_splits : int, default=10
        Number of splits, drawn independently of each other.
    test_size : float or int, default=None
        Share or number of test rows; None means all rows that are not training rows, or 0.1 if
        `train_size` is None, too.
    train_size : float or int, default=None
        Share or number of training rows; None means all rows that are not test rows. If both sizes
        are given and some rows belong to neither part, these rows are stratified, too.
    random_state : int, RandomState or None, default=None
        Seed of the splits.

    Notes
    -----
    A NaN in y (not observed) counts as 0. If a label has a single positive row, this row goes to
    the largest part that has room, usually to the training part.

    References
    ----------
    .. [1] Sechidis, Tsoumakas and Vlahavas (2011). On the stratification of multi-label
       data. ECML PKDD.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from skcrbm.model_selection import MultilabelStratifiedShuffleSplit
    >>> X, y = make_multilabel_classification(n_samples=200, random_state=0)
    >>> split = MultilabelStratifiedShuffleSplit(1, test_size=0.25, random_state=0)
    >>> train, test = next(split.split(X, y))
    >>> y[train].mean(axis=0).round(2), y[test].mean(axis=0).round(2)
    (array([0.33, 0.46, 0.38, 0.41, 0.35]), array([0.32, 0.46, 0.42, 0.42, 0.36]))
    """

    def __init__(self, n_splits=10, *, test_size=None, train_size=None, random_state=None):
        super().__init__(
            n_splits, test_size=test_size, train_size=train_size, random_state=random_state
        )

    def _iter_indices(self, X, y=None, groups=None):
        present = positive_labels(y)
        n_rows = present.shape[0]
        rng = check_random_state(self.random_state)
        for train, test in super()._iter_indices(X):  # only the sizes are used
            sizes = [len(train), len(test)]
            part = _parts(present, [*sizes, n_rows - sum(sizes)], rng)
            order = rng.permutation(n_rows)
            yield order[part[order] == 0], order[part[order] == 1]
