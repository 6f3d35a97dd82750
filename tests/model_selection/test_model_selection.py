"""Iterative stratification of multi-label data."""

import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    ShuffleSplit,
    cross_val_predict,
    cross_val_score,
)
from sklearn.neighbors import KNeighborsClassifier

from skcrbm import CRBMClassifier
from skcrbm.metrics import masked_scorer
from skcrbm.model_selection import MultilabelStratifiedKFold, MultilabelStratifiedShuffleSplit

NAN = float("nan")


def skewed(n, n_labels, seed, low=0.002):
    """Labels from rare to frequent, some of them together."""
    rng = np.random.RandomState(seed)
    shares = np.geomspace(low, 0.4, n_labels)
    together = rng.random_sample((n, 1)) < 0.5
    return (rng.random_sample((n, n_labels)) < np.where(together, 1.5, 0.5) * shares).astype(int)


def share_error(cv, y):
    """Mean distance of the labels' shares in test parts from those in all, relative."""
    y = y[:, y.sum(axis=0) >= 10]  # rarer labels are missing in some folds
    shares = np.array([y[test].mean(axis=0) for _, test in cv.split(y, y)])
    return np.mean(np.abs(shares / y.mean(axis=0) - 1))


@settings(max_examples=60)
@given(
    n=st.integers(5, 40),
    n_labels=st.integers(1, 6),
    n_splits=st.integers(2, 5),
    share=st.floats(0, 1),
    shuffle=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_folds_partition_the_rows_evenly(n, n_labels, n_splits, share, shuffle, seed):
    y = (np.random.RandomState(seed).random_sample((n, n_labels)) < share).astype(int)
    if n_labels == 1:
        y = np.hstack([y, 1 - y])
    cv = MultilabelStratifiedKFold(
        n_splits, shuffle=shuffle, random_state=seed if shuffle else None
    )
    splits = list(cv.split(np.zeros((n, 1)), y))
    assert len(splits) == cv.get_n_splits() == n_splits
    tests = np.concatenate([test for _, test in splits])
    np.testing.assert_array_equal(np.sort(tests), np.arange(n))
    for train, test in splits:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(n))
        assert n // n_splits <= len(test) <= n // n_splits + 1


def by_the_book(y, n_splits):
    """Algorithm 1 of the paper on folds of limited size, written out slowly."""
    n, n_labels = y.shape
    room = [n // n_splits + (k < n % n_splits) for k in range(n_splits)]
    wanted = [[room[k] / n * y[:, i].sum() for i in range(n_labels)] for k in range(n_splits)]
    left, fold = set(range(n)), np.full(n, -1)
    while left:
        counts = {i: sum(y[r, i] for r in left) for i in range(n_labels)}
        counts = {i: c for i, c in counts.items() if c}
        label = min(counts, key=lambda i: (counts[i], i)) if counts else None
        for r in sorted(r for r in left if label is None or y[r, label]):
            able = [k for k in range(n_splits) if room[k]]
            want = {k: 0 if label is None else wanted[k][label] for k in able}
            able = [k for k in able if want[k] == max(want.values())]
            able = [k for k in able if room[k] == max(room[k] for k in able)]
            fold[r] = able[0]
            room[able[0]] -= 1
            for i in np.flatnonzero(y[r]):
                wanted[able[0]][i] -= 1
            left.remove(r)
    return fold


@pytest.mark.parametrize("seed", range(5))
def test_equals_the_algorithm_written_out(seed):
    y = skewed(60, 7, seed, low=0.05)
    expected = by_the_book(y, 4)
    for k, (_, test) in enumerate(MultilabelStratifiedKFold(4).split(y, y)):
        np.testing.assert_array_equal(test, np.flatnonzero(expected == k))


@pytest.mark.parametrize("n_splits", [3, 10])
@pytest.mark.parametrize("seed", range(3))
def test_shares_are_closer_than_those_of_k_fold(seed, n_splits):
    y = skewed(1000, 20, seed)
    plain = share_error(KFold(n_splits, shuffle=True, random_state=seed), y)
    for shuffle in (False, True):
        cv = MultilabelStratifiedKFold(
            n_splits, shuffle=shuffle, random_state=seed if shuffle else None
        )
        assert share_error(cv, y) < 0.4 * plain


def test_each_fold_gets_a_rare_label():
    y = np.zeros((50, 2), int)
    y[:5, 0] = 1  # rows in blocks, as many data sets have them
    y[:25, 1] = 1
    for _, test in MultilabelStratifiedKFold(5).split(y, y):
        np.testing.assert_array_equal(y[test].sum(axis=0), [1, 5])


@pytest.mark.parametrize("sizes", [{"test_size": 0.2}, {"test_size": 0.2, "train_size": 0.3}, {}])
def test_shuffle_split(sizes):
    y = skewed(500, 12, 0)
    cv = MultilabelStratifiedShuffleSplit(4, random_state=0, **sizes)
    plain = ShuffleSplit(4, random_state=0, **sizes)
    assert cv.get_n_splits() == 4
    seen = set()
    for (train, test), (plain_train, plain_test) in zip(
        cv.split(y, y), plain.split(y), strict=True
    ):
        assert (len(train), len(test)) == (len(plain_train), len(plain_test))
        assert not set(train) & set(test)
        assert len(set(train) | set(test)) == len(train) + len(test)
        seen.add(tuple(np.sort(test)))
    assert len(seen) == 4
    assert share_error(cv, y) < 0.6 * share_error(plain, y)


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: MultilabelStratifiedKFold(4, shuffle=True, random_state=seed),
        lambda seed: MultilabelStratifiedShuffleSplit(3, random_state=seed),
    ],
)
def test_random_state_decides(make):
    y = skewed(80, 5, 0)
    one, same, other = (list(make(seed).split(y, y)) for seed in (0, 0, 1))
    for a, b in zip(one, same, strict=True):
        np.testing.assert_array_equal(a[0], b[0])
        np.testing.assert_array_equal(a[1], b[1])
    assert any(list(a[1]) != list(b[1]) for a, b in zip(one, other, strict=True))


def test_kinds_of_y_and_nan():
    y = skewed(60, 4, 1, low=0.1).astype(float)
    holes = y.copy()
    holes[(np.random.RandomState(0).random_sample(y.shape) < 0.5) & (y == 0)] = NAN
    cv = MultilabelStratifiedKFold(3)
    expected = [test.tolist() for _, test in cv.split(y, y)]
    nullable = pd.DataFrame(holes).astype("Int64")
    explicit = sp.csr_matrix(y + 1)
    explicit.data -= 1  # zeros that are stored
    for same in (
        y.astype(bool), sp.csr_array(y), sp.csc_matrix(y), explicit, pd.DataFrame(y),
        y.astype(int).tolist(), holes, nullable,
    ):  # fmt: skip
        assert [test.tolist() for _, test in cv.split(y, same)] == expected


def test_in_model_selection():
    rng = np.random.RandomState(0)
    y = skewed(90, 3, 2, low=0.2)
    X = y + rng.normal(size=y.shape)
    for cv in (MultilabelStratifiedKFold(3), MultilabelStratifiedShuffleSplit(2, random_state=0)):
        search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [3, 9]}, cv=cv).fit(X, y)
        assert search.n_splits_ == cv.get_n_splits()
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    cv = MultilabelStratifiedKFold(3)
    predicted = cross_val_predict(KNeighborsClassifier(), X, y, cv=cv)
    for train, test in cv.split(X, y):
        model = KNeighborsClassifier().fit(X[train], y[train])
        np.testing.assert_array_equal(predicted[test], model.predict(X[test]))
    holes = np.where(rng.random_sample(y.shape) < 0.2, NAN, y)
    scorer = masked_scorer("f1_samples")
    scores = cross_val_score(
        CRBMClassifier(alpha=0.05, max_iter=3), X, holes, cv=cv, scoring=scorer
    )
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("cv", [MultilabelStratifiedKFold(2), MultilabelStratifiedShuffleSplit(2)])
@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 1, 0], "1-D y use scikit-learn's StratifiedKFold"),
        (None, "y must be a 0/1 indicator matrix"),
        ([[0, 2], [1, 1], [0, 0], [0, 1]], "y must be a 0/1 indicator matrix.*holds a 2"),
        ([[0, -1], [1, 1], [1, 0], [0, 1]], "y must be a 0/1 indicator matrix.*other values: -1"),
        ([[0, np.inf], [1, 1], [1, 0], [0, 1]], "infinity"),
        ([["a", "b"]] * 4, "y holds lists of strings"),
        (sp.csr_array([[0, 3], [1, 1], [1, 0], [0, 1]]), "y must be a 0/1 indicator matrix"),
        (np.zeros((4, 2, 2)), "y must be a 0/1 indicator matrix"),
    ],
)
def test_wrong_y(cv, y, message):
    with pytest.raises(ValueError, match=message):
        list(cv.split(np.zeros((4, 1)), y))


def test_wrong_arguments():
    for n_splits in (1, 2.5, "5"):
        with pytest.raises(ValueError, match="n_splits must be an integer of at least 2"):
            MultilabelStratifiedKFold(n_splits)
    with pytest.raises(TypeError, match="shuffle must be True or False"):
        MultilabelStratifiedKFold(3, shuffle=1)
    with pytest.raises(ValueError, match="set shuffle=True"):
        MultilabelStratifiedKFold(3, random_state=0)
    with pytest.raises(ValueError, match="n_splits=5 is more than the number of rows, 4"):
        list(MultilabelStratifiedKFold(5).split(np.zeros((4, 1)), np.zeros((4, 2))))
    with pytest.raises(ValueError, match=r"test_size=1\.5"):
        list(MultilabelStratifiedShuffleSplit(test_size=1.5).split(np.eye(4), np.eye(4)))
    assert repr(MultilabelStratifiedKFold(3)) == (
        "MultilabelStratifiedKFold(n_splits=3, random_state=None, shuffle=False)"
    )


def test_fast_enough_for_a_hundred_labels():
    y = skewed(43907, 101, 0, low=0.0007)
    start = time.process_time()
    next(iter(MultilabelStratifiedKFold(5).split(y, y)))
    assert time.process_time() - start < 10  # about half a second


@pytest.mark.parametrize(
    "splitter", [MultilabelStratifiedKFold(2), MultilabelStratifiedShuffleSplit(2)]
)
def test_groups_are_refused(splitter):
    y = np.arange(40).reshape(20, 2) % 3 == 0
    with pytest.raises(ValueError, match=r"does not support groups: .*GroupKFold"):
        list(splitter.split(y, y, groups=np.arange(20)))
    assert len(list(splitter.split(y, y, groups=None))) == 2
