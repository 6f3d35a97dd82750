"""Log-odds of other classifiers as inputs."""

from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from skcrbm import CRBMClassifier
from skcrbm.ensemble import OutOfBagLogOdds
from skcrbm.metrics import masked_score
from skcrbm.model_selection import MultilabelStratifiedKFold

FOREST = RandomForestClassifier(30, max_depth=4, random_state=0)
NAN = float("nan")


@pytest.fixture(scope="module")
def data():
    return make_multilabel_classification(120, n_features=6, n_classes=4, random_state=0)


def clipped_logit(p, clip=0.01):
    return logit(np.clip(p, clip, 1 - clip))


# In fit_transform the log-odds of the training rows come from other models than in transform:
# this is the purpose of the transformer. On this check's three clusters a forest's log-odds agree.
REASON = "fit_transform differs from transform by design"
EXPECTED = dict.fromkeys(
    ["check_transformer_general", "check_transformer_data_not_an_array"], REASON
)
# Trees draw rows at random, and copies of a row may fall into different folds.
WEIGHTS = dict.fromkeys(
    [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")],
    "random rows of trees, and folds, depend on the number of rows",
)


@pytest.mark.deep
@pytest.mark.compiled
@parametrize_with_checks(
    [
        OutOfBagLogOdds(RandomForestClassifier(10)),
        OutOfBagLogOdds(BaggingClassifier(n_estimators=10)),
        OutOfBagLogOdds(CRBMClassifier(max_iter=5), cv=2),
    ],
    expected_failed_checks=lambda e: (EXPECTED if e.cv == 2 else {}) | WEIGHTS,
)
@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
@pytest.mark.filterwarnings("ignore:.*were seen by every tree")
def test_scikit_learns_checks(estimator, check):
    try:
        check(estimator)
    except SkipTest as skip:
        assert "SCIPY_ARRAY_API is not set" in str(skip)  # noqa: PT017


def test_out_of_bag_log_odds_are_those_of_the_forest(data):
    X, Y = data
    forest = clone(FOREST).set_params(oob_score=True).fit(X, Y)
    odds = OutOfBagLogOdds(FOREST)
    found = odds.fit_transform(X, Y)
    np.testing.assert_array_equal(found, clipped_logit(forest.oob_decision_function_[:, 1]))
    full = np.column_stack([p[:, 1] for p in forest.predict_proba(X)])
    np.testing.assert_array_equal(odds.transform(X), clipped_logit(full))
    np.testing.assert_array_equal(clone(odds).fit(X, Y).transform(X), odds.transform(X))
    assert np.abs(found - odds.transform(X)).mean() > 0.3  # it has seen its own rows


def test_label_powerset(data):
    X, Y = data
    sets, index = np.unique(Y, axis=0, return_inverse=True)
    forest = clone(FOREST).set_params(oob_score=True).fit(X, index)
    odds = OutOfBagLogOdds(FOREST, label_powerset=True)
    expected = clipped_logit(forest.oob_decision_function_ @ sets)
    np.testing.assert_allclose(odds.fit_transform(X, Y), expected)
    np.testing.assert_allclose(odds.transform(X), clipped_logit(forest.predict_proba(X) @ sets))
    np.testing.assert_array_equal(odds.label_sets_, sets)


@pytest.mark.parametrize(
    "classifier",
    [
        KNeighborsClassifier(7),
        OneVsRestClassifier(GaussianNB()),
        MultiOutputClassifier(GaussianNB()),
        CRBMClassifier(alpha=0.05, max_iter=3, random_state=0),
    ],
    ids=lambda c: type(c).__name__,
)
def test_folds_equal_cross_val_predict(data, classifier):
    X, Y = data
    folds = KFold(3, shuffle=True, random_state=0)
    expected = cross_val_predict(classifier, X, Y, cv=folds, method="predict_proba")
    if isinstance(expected, list):
        expected = np.column_stack([p[:, 1] for p in expected])
    n_jobs = 2 if isinstance(classifier, KNeighborsClassifier) else None
    odds = OutOfBagLogOdds(classifier, cv=folds, n_jobs=n_jobs)
    np.testing.assert_array_equal(odds.fit_transform(X, Y), clipped_logit(expected))


def test_a_number_of_folds_is_stratified(data):
    X, Y = data
    same = [
        OutOfBagLogOdds(KNeighborsClassifier(), cv=cv).fit_transform(X, Y)
        for cv in (3, MultilabelStratifiedKFold(3))
    ]
    np.testing.assert_array_equal(*same)
    by_sets = OutOfBagLogOdds(KNeighborsClassifier(), cv=3, label_powerset=True)
    sets, index = np.unique(Y, axis=0, return_inverse=True)
    expected = np.empty(Y.shape)
    for train, test in MultilabelStratifiedKFold(3).split(X, Y):
        model = KNeighborsClassifier().fit(X[train], index[train])
        expected[test] = model.predict_proba(X[test]) @ sets[model.classes_]
    np.testing.assert_allclose(by_sets.fit_transform(X, Y), clipped_logit(expected))


def test_labels_that_do_not_vary(data):
    X, Y = data
    padded = np.column_stack([np.zeros(len(Y)), Y, np.ones(len(Y))]).astype(int)
    for options in ({}, {"cv": 3}, {"label_powerset": True}):
        plain = OutOfBagLogOdds(FOREST, **options).fit(X, Y)
        odds = OutOfBagLogOdds(FOREST, **options)
        found = odds.fit_transform(X, padded)
        for result in (found, odds.transform(X)):
            assert result.shape == padded.shape
            np.testing.assert_array_equal(result[:, 0], logit(0.01))
            np.testing.assert_allclose(result[:, -1], logit(0.99))
        np.testing.assert_allclose(odds.transform(X)[:, 1:-1], plain.transform(X))
    one = OutOfBagLogOdds(FOREST)
    found = one.fit_transform(X, padded[:, :2])
    forest = clone(FOREST).set_params(oob_score=True).fit(X, Y[:, 0])
    np.testing.assert_array_equal(found[:, 1], clipped_logit(forest.oob_decision_function_[:, 1]))


@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
@pytest.mark.filterwarnings("ignore:.*were seen by every tree")
def test_rows_without_out_of_bag_tree_get_the_shares(data):
    X, Y = data
    two = RandomForestClassifier(2, random_state=0)
    forest = clone(two).set_params(oob_score=True).fit(X, Y)
    unseen = forest.oob_decision_function_.sum(axis=1)[:, 0] == 0
    assert unseen.any()
    expected = np.tile(clipped_logit(Y.mean(axis=0)), (unseen.sum(), 1))
    found = OutOfBagLogOdds(two).fit_transform(X, Y)
    np.testing.assert_allclose(found[unseen], expected)
    by_sets = OutOfBagLogOdds(two, label_powerset=True).fit_transform(X, Y)
    unseen = clone(two).set_params(oob_score=True)
    index = np.unique(Y, axis=0, return_inverse=True)[1]
    unseen = unseen.fit(X, index).oob_decision_function_.sum(axis=1) == 0
    expected = np.tile(clipped_logit(Y.mean(axis=0)), (unseen.sum(), 1))
    np.testing.assert_allclose(by_sets[unseen], expected)


def test_one_dimensional_y():
    X, y = load_iris(return_X_y=True)
    forest = clone(FOREST).set_params(oob_score=True).fit(X, y)
    odds = OutOfBagLogOdds(FOREST)
    np.testing.assert_array_equal(
        odds.fit_transform(X, y), clipped_logit(forest.oob_decision_function_)
    )
    names = np.array(["no", "yes"])[(y > 0).astype(int)]
    binary = OutOfBagLogOdds(FOREST, cv=3)
    assert binary.fit_transform(X, names).shape == (150, 1)
    assert (binary.transform(X)[:, 0] > 0).tolist() == (names == "yes").tolist()
    bagged = OutOfBagLogOdds(BaggingClassifier(n_estimators=60, random_state=0))
    assert np.isfinite(bagged.fit_transform(X, y)).all()


def test_nan_in_y(data):
    X, Y = data
    holes = np.where(np.random.RandomState(0).random_sample(Y.shape) < 0.3, NAN, Y)
    model = CRBMClassifier(alpha=0.05, max_iter=5, random_state=0)
    found = OutOfBagLogOdds(model, cv=3).fit_transform(X, holes)
    for train, test in MultilabelStratifiedKFold(3).split(X, holes):
        expected = clone(model).fit(X[train], holes[train]).predict_proba(X[test])
        np.testing.assert_array_equal(found[test], clipped_logit(expected))
    for options in ({"estimator": BaggingClassifier()}, {"cv": 3, "label_powerset": True}):
        with pytest.raises(ValueError, match="not observed"):
            OutOfBagLogOdds(**{"estimator": FOREST, **options}).fit(X, holes)
    one = np.column_stack([holes[:, 0], np.ones(len(Y))])
    with pytest.raises(ValueError, match="all labels but one are constant"):
        OutOfBagLogOdds(model, cv=3).fit(X, one)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("convert", [sp.csr_matrix, pd.DataFrame, np.ndarray.tolist])
def test_kinds_of_input(data, convert):
    X, Y = data
    for options in ({}, {"cv": 3}):
        plain = OutOfBagLogOdds(FOREST, **options)
        other = clone(plain)
        np.testing.assert_allclose(
            other.fit_transform(convert(X), convert(Y)), plain.fit_transform(X, Y)
        )
        np.testing.assert_allclose(other.transform(convert(X)), plain.transform(X))


def test_random_state_names_and_output(data):
    X, Y = data
    free = ExtraTreesClassifier(10, bootstrap=True)
    one, same, other = (
        OutOfBagLogOdds(free, cv=3, random_state=seed).fit_transform(X, Y) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    nested = OutOfBagLogOdds(make_pipeline(StandardScaler(), free), cv=3, random_state=0).fit(X, Y)
    assert nested.estimator_[-1].random_state is not None
    frame = nested.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == [f"extratreesclassifier__{i}" for i in range(4)]
    assert get_tags(nested).target_tags.required
    for classifier in (free, nested.estimator):
        mine = get_tags(OutOfBagLogOdds(classifier)).input_tags
        assert mine == get_tags(classifier).input_tags
    assert free.random_state is None


def test_in_pipelines_it_is_out_of_bag_in_training_only(data):
    X, Y = data
    union = make_union(OutOfBagLogOdds(FOREST), OutOfBagLogOdds(FOREST, label_powerset=True))
    model = make_pipeline(union, CRBMClassifier(alpha=0.05, max_iter=5, random_state=0)).fit(X, Y)
    features = clone(union).fit_transform(X, Y)
    by_hand = CRBMClassifier(alpha=0.05, max_iter=5, random_state=0).fit(features, Y)
    np.testing.assert_array_equal(model[-1].visible_coef_, by_hand.visible_coef_)
    np.testing.assert_array_equal(
        model.predict_proba(X), by_hand.predict_proba(model[:-1].transform(X))
    )
    search = GridSearchCV(
        make_pipeline(OutOfBagLogOdds(FOREST), CRBMClassifier(alpha=0.05, max_iter=2)),
        {"outofbaglogodds__clip": [0.01, 0.1]},
        cv=MultilabelStratifiedKFold(2),
    )
    assert np.isfinite(search.fit(X, Y).cv_results_["mean_test_score"]).all()


@pytest.mark.deep
def test_out_of_bag_log_odds_are_calibrated_and_those_of_seen_rows_are_not():
    X, Y = make_multilabel_classification(600, n_features=8, n_classes=5, random_state=1)
    odds = OutOfBagLogOdds(RandomForestClassifier(100, random_state=0))
    honest = odds.fit_transform(X[:400], Y[:400])
    losses = [
        -masked_score("neg_log_loss", y, y_score=expit(f))
        for y, f in (
            (Y[:400], honest),
            (Y[400:], odds.transform(X[400:])),
            (Y[:400], odds.transform(X[:400])),
        )
    ]
    assert abs(losses[0] - losses[1]) < 0.05
    assert losses[2] < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({"estimator": LogisticRegression()}, [0, 1] * 10, "cv='oob' needs an estimator with a"),
        ({"cv": "oops"}, [0, 1] * 10, "cv must be 'oob', a number of folds or a splitter"),
        ({"clip": 0.5}, [0, 1] * 10, "'clip' parameter"),
        ({"label_powerset": True}, [0, 1] * 10, "label_powerset=True needs a 2-D y"),
        ({}, [1] * 20, "at least 2 classes"),
        ({}, [[0, 1]] * 20, "at least one label that is 0 in some rows"),
        ({}, [[0, 2]] * 20, "0/1 indicator matrix"),
        ({}, None, "requires y"),
        ({"cv": [([0, 1], [2, 3])]}, [0, 1] * 10, "every row into exactly one test fold"),
    ],
)
def test_wrong_arguments(options, y, message):
    X = np.random.RandomState(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=message):
        OutOfBagLogOdds(**{"estimator": FOREST, **options}).fit_transform(X, y)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (
            LogisticRegression(),
            "an estimator with a parameter oob_score, .* LogisticRegression has no oob_score",
        ),
        (ExtraTreesClassifier(5), "bootstrap=True, .* each tree of ExtraTreesClassifier"),
    ],
)
def test_no_out_of_bag_scores(data, estimator, message):
    X, Y = data
    for method in ("fit", "fit_transform"):
        model = OutOfBagLogOdds(estimator)
        with pytest.raises(ValueError, match=message):
            getattr(model, method)(X, Y[:, 0] if message.startswith("needs an") else Y)
        assert not hasattr(model, "estimator_")


def test_not_fitted_and_not_bootstrapped(data):
    X, Y = data
    with pytest.raises(NotFittedError):
        OutOfBagLogOdds(FOREST).transform(X)
    with pytest.raises(ValueError, match="bootstrap=True"):
        OutOfBagLogOdds(ExtraTreesClassifier(5)).fit_transform(X, Y)
