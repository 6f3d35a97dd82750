"""Stratified folds that keep groups together, and the split into two parts."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GroupKFold, cross_val_score

from skcrbm import CRBMClassifier
from skcrbm.model_selection import (
    MultilabelStratifiedGroupKFold,
    MultilabelStratifiedKFold,
    cross_val_predict,
    multilabel_train_test_split,
)


def data(seed, n=1000, n_labels=20, n_groups=150):
    """Labels from rare to frequent, and groups of uneven sizes."""
    rng = np.random.RandomState(seed)
    y = (rng.random_sample((n, n_labels)) < np.geomspace(0.01, 0.4, n_labels)).astype(int)
    groups = np.minimum(rng.randint(n_groups, size=n), rng.randint(n_groups, size=n))
    return y, groups


def share_error(y, parts):
    shares = np.array([y[part].mean(axis=0) for part in parts])
    return np.mean(np.abs(shares / y.mean(axis=0) - 1))


@pytest.mark.parametrize("seed", range(3))
def test_groups_stay_together_and_labels_are_spread(seed):
    y, groups = data(seed)
    found = [test for _, test in MultilabelStratifiedGroupKFold(5).split(y, y, groups)]
    np.testing.assert_array_equal(np.sort(np.concatenate(found)), np.arange(len(y)))
    for one in found:
        assert not set(groups[one]) & set(np.delete(groups, one))
        assert abs(len(one) - 200) < 40
    plain = [test for _, test in GroupKFold(5).split(y, groups=groups)]
    assert share_error(y, found) < 0.4 * share_error(y, plain)


def test_each_fold_has_a_group():
    y = np.array([[1, 0]] * 4 + [[0, 1]] * 96)
    groups = np.r_[np.arange(3), np.full(97, 3)]
    folds = [test for _, test in MultilabelStratifiedGroupKFold(4).split(y, y, groups)]
    assert sorted(len(fold) for fold in folds) == [1, 1, 1, 97]


def test_shuffle_and_names_of_groups():
    y, groups = data(0, n=80, n_labels=3, n_groups=60)
    names = np.array([f"patient {g}" for g in groups])

    def folds(seed, **options):
        cv = MultilabelStratifiedGroupKFold(4, random_state=seed, **options)
        return [test.tolist() for _, test in cv.split(y, sp.csr_matrix(y), names)]

    assert folds(0, shuffle=True) == folds(0, shuffle=True) != folds(1, shuffle=True)
    assert folds(None) == folds(None)
    missing = np.where(y == 1, 1.0, np.nan)
    assert [t.tolist() for _, t in MultilabelStratifiedGroupKFold(4).split(y, missing, names)]


def test_in_searches():
    y, groups = data(1, n=120, n_labels=3, n_groups=30)
    X = np.random.RandomState(0).randn(120, 2)
    cv, model = MultilabelStratifiedGroupKFold(3), CRBMClassifier(n_hidden=0, alpha=0.1)
    assert cv.get_n_splits() == len(cross_val_score(model, X, y, cv=cv, groups=groups)) == 3
    predicted = cross_val_predict(model, X, y, cv=cv, groups=groups)
    assert predicted.shape == y.shape
    by_number = cross_val_predict(model, X, y, cv=3, groups=groups)
    np.testing.assert_array_equal(by_number, predicted)
    with pytest.raises(ValueError, match="MultilabelStratifiedGroupKFold keeps groups together"):
        cross_val_predict(model, X, y, cv=MultilabelStratifiedKFold(3), groups=groups)


@pytest.mark.parametrize("groups", [None, "random"])
def test_split_into_two_parts(groups):
    y, numbers = data(2)
    groups = None if groups is None else numbers
    X, weight = sp.random(1000, 3, format="csr", random_state=0), np.arange(1000)
    frame = pd.DataFrame(y, index=weight)
    parts = multilabel_train_test_split(X, frame, weight, groups=groups, random_state=0)
    X_train, X_test, y_train, _, train, test = parts
    assert sorted([*train, *test]) == list(range(1000))
    assert X_train.shape[0] == len(train)
    np.testing.assert_array_equal(y_train.index, train)
    np.testing.assert_array_equal(X_test.toarray(), X[test].toarray())
    assert share_error(y, [test]) < (0.05 if groups is None else 0.12)
    if groups is None:
        assert len(test) == 250
    else:
        assert not set(groups[train]) & set(groups[test])
        assert abs(len(test) - 250) < 50
    again = multilabel_train_test_split(X, frame, weight, groups=groups, random_state=0)
    np.testing.assert_array_equal(again[-1], test)
    sizes = {"test_size": 100, "train_size": 0.3, "groups": groups, "random_state": 0}
    train, test = multilabel_train_test_split(weight, y, **sizes)[:2]
    assert (abs(len(train) - 300) + abs(len(test) - 100)) <= (0 if groups is None else 60)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, y: MultilabelStratifiedGroupKFold(1), "n_splits must be an integer of at"),
        (lambda X, y: MultilabelStratifiedGroupKFold(random_state=0), "no effect with shuffle"),
        (lambda X, y: folds_of(X, y, None), "groups must hold the group of each row"),
        (lambda X, y: folds_of(X, y, [0, 1]), r"groups must have the shape \(6,\)"),
        (
            lambda X, y: multilabel_train_test_split(X, y, groups=[0, 1]),
            r"groups must have the shape \(6,\), .* got \(2,\)",
        ),
        (lambda X, y: folds_of(X, y, y), r"groups must have the shape \(6,\)"),
        (
            lambda X, y: folds_of(X, y, [0, 0, 0, 1, 1, 1]),
            "at least 3 groups, a group for each part; got 2",
        ),
        (lambda X, y: folds_of(X, y[:, 0], range(6)), "use scikit-learn's StratifiedKFold"),
        (lambda X, y: multilabel_train_test_split(X, y[:5]), "inconsistent numbers of samples"),
        (lambda X, y: multilabel_train_test_split(X, y[:, 0]), "use scikit-learn's Stratified"),
        (lambda X, y: multilabel_train_test_split(X, y, test_size=2.5), "test_size"),
        (lambda X, y: multilabel_train_test_split(X, y, groups=[0] * 6), "at least 2 groups"),
    ],
)
def test_errors(call, message):
    y = np.array([[0, 1]] * 6)
    with pytest.raises(ValueError, match=message):
        call(np.zeros((6, 1)), y)


def folds_of(X, y, groups):
    return list(MultilabelStratifiedGroupKFold(3).split(X, y, groups))
