"""Forests with compact trees give the answers of scikit-learn's forests."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from reference.cases import deep
from scipy.special import logit
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from skcrbm.ensemble import OutOfBagLogOdds, _compact_forest
from skcrbm.ensemble._compact_forest import CompactForest, compact

TREES = {"n_estimators": 40, "bootstrap": True, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    return make_multilabel_classification(150, n_features=8, n_classes=5, random_state=0)


def with_gaps(X):
    """Return X with NaN, in entries that depend on the values of X."""
    return np.where(X % 5 == 0, np.nan, X)


FORESTS = [
    ExtraTreesClassifier(**TREES),
    ExtraTreesClassifier(**TREES, max_features=None, criterion="entropy", max_depth=5),
    ExtraTreesClassifier(**TREES, max_leaf_nodes=12),
    RandomForestClassifier(**TREES, max_samples=0.5, min_samples_leaf=3),
    RandomForestClassifier(**TREES, ccp_alpha=0.01),
]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("convert", [np.asarray, deep(sp.csc_matrix), deep(with_gaps)])
@pytest.mark.parametrize("forest", FORESTS, ids=range(len(FORESTS)))
def test_log_odds_are_those_of_the_full_trees(data, forest, convert):
    X, Y = data
    X = convert(X)
    sets, index = np.unique(Y, axis=0, return_inverse=True)
    full = clone(forest).set_params(oob_score=True)
    by_labels, by_sets = clone(full).fit(X, Y), clone(full).fit(X, index)
    expected = {
        False: (
            by_labels.oob_decision_function_[:, 1],
            np.column_stack([p[:, 1] for p in by_labels.predict_proba(X)]),
        ),
        True: (by_sets.oob_decision_function_ @ sets, by_sets.predict_proba(X) @ sets),
    }
    for powerset, (out_of_bag, in_bag) in expected.items():
        odds = OutOfBagLogOdds(forest, label_powerset=powerset)
        np.testing.assert_allclose(
            odds.fit_transform(X, Y), logit(np.clip(out_of_bag, 0.01, 0.99)), atol=1e-12
        )
        np.testing.assert_allclose(
            odds.transform(X), logit(np.clip(in_bag, 0.01, 0.99)), atol=1e-12
        )
        assert isinstance(odds.estimator_, CompactForest)


def test_class_weights_of_label_sets(data):
    X, Y = data
    sets, index = np.unique(Y, axis=0, return_inverse=True)
    forest = RandomForestClassifier(**TREES, class_weight="balanced_subsample", max_depth=4)
    full = clone(forest).set_params(oob_score=True).fit(X, index)
    found = OutOfBagLogOdds(forest, label_powerset=True).fit_transform(X, Y)
    expected = logit(np.clip(full.oob_decision_function_ @ sets, 0.01, 0.99))
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("several", [True, False])
def test_the_fitted_forest_answers_as_scikit_learns(data, several):
    X, Y = data
    y = Y if several else np.unique(Y, axis=0, return_inverse=True)[1]
    full = RandomForestClassifier(**TREES, max_depth=4).fit(X, y)
    small = compact(clone(full)).fit(X, y)
    np.testing.assert_allclose(small.predict_proba(X), full.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(small.predict(X), full.predict(X))
    np.testing.assert_array_equal(small.apply(X), full.apply(X))
    np.testing.assert_allclose(small.feature_importances_, full.feature_importances_)
    leaves = [tree.get_n_leaves() for tree in full.estimators_]
    assert [tree.get_n_leaves() for tree in small.estimators_] == leaves
    assert clone(small).get_params() == full.get_params()


@pytest.mark.parametrize("powerset", [True, False])
def test_the_number_of_threads_does_not_change_a_bit(data, powerset, monkeypatch):
    X, Y = data
    found = []
    for n_jobs, size in ((1, 2**30), (4, 2**30), (4, 1)):
        monkeypatch.setattr(_compact_forest, "TREE_BYTES", size)
        forest = ExtraTreesClassifier(**TREES, n_jobs=n_jobs)
        odds = OutOfBagLogOdds(forest, label_powerset=powerset)
        found.append((odds.fit_transform(X, Y), odds.transform(X)))
        assert odds.estimator_.n_jobs == n_jobs
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_fewer_trees_at_a_time_if_they_are_large(data, monkeypatch):
    X, Y = data
    index = np.unique(Y, axis=0, return_inverse=True)[1]
    n_jobs = []

    def fit(forest, X, y, sample_weight=None):
        n_jobs.append(forest.n_jobs)
        return forest

    monkeypatch.setattr(RandomForestClassifier, "fit", fit)
    size = int(2.6 * len(X)) * (index.max() + 1) * 8  # of a tree on the label sets
    for limit, expected in ((3 * size, 3), (size / 2, 1), (100 * size, 4)):
        monkeypatch.setattr(_compact_forest, "TREE_BYTES", limit)
        compact(RandomForestClassifier(n_jobs=4)).fit(X, index)
        assert n_jobs.pop() == expected


def test_size_and_answers_of_a_saved_forest():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(600, 4)), rng.integers(2, size=(600, 12))
    odds = OutOfBagLogOdds(ExtraTreesClassifier(**TREES), label_powerset=True)
    found = odds.fit_transform(X, Y)
    saved = pickle.dumps(odds)
    np.testing.assert_array_equal(pickle.loads(saved).transform(X), odds.transform(X))
    assert found.shape == Y.shape
    n_sets, n_nodes = len(odds.label_sets_), sum(t.tree_.node_count for t in odds.estimator_)
    assert n_sets > 500
    assert len(saved) < n_sets * n_nodes * 8 / 50


def test_cross_validation_uses_compact_forests(data):
    X, Y = data
    odds = OutOfBagLogOdds(RandomForestClassifier(5, random_state=0), label_powerset=True, cv=3)
    assert odds.fit_transform(X, Y).shape == Y.shape
    assert isinstance(odds.estimator_, CompactForest)
    assert odds.get_feature_names_out()[0] == "randomforestclassifier__0"


def test_subclasses_of_forests_keep_their_own_trees(data):
    class OwnForest(RandomForestClassifier):
        pass

    odds = OutOfBagLogOdds(OwnForest(5, random_state=0)).fit(*data)
    assert type(odds.estimator_) is OwnForest
