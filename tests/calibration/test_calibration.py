"""Marginals calibrated on predictions out of fold."""

from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from scipy.special import expit
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import scale
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

from skcrbm import CRBMClassifier
from skcrbm.calibration import CalibratedMarginals
from skcrbm.datasets import make_structured_labels
from skcrbm.metrics import expected_calibration_error, marginal_log_loss
from skcrbm.model_selection import MultilabelStratifiedKFold

NAN = float("nan")
METHODS = ["sigmoid", "isotonic"]


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(240, n_features=6, n_classes=4, random_state=0)
    return scale(X), Y


def checks_that_fail(estimator):
    """Two checks make y binary by its first entry, which their shuffle changed, before 1.7."""
    if parse_version(sklearn.__version__) >= parse_version("1.7"):
        return {}
    check = "check_sample_weight_equivalence_on_{}_data"
    return {check.format(kind): "compares with the other class" for kind in ("dense", "sparse")}


@pytest.mark.quick_cases(52)
@pytest.mark.compiled
@parametrize_with_checks(
    [
        CalibratedMarginals(DecisionTreeClassifier(max_depth=3, random_state=0), cv=2),
        CalibratedMarginals(RidgeClassifier(), method="isotonic", cv=2),
    ],
    expected_failed_checks=checks_that_fail,
)
def test_scikit_learns_checks(estimator, check):
    try:
        check(estimator)
    except SkipTest as skip:
        known = "SCIPY_ARRAY_API is not set", "does not have a decision_function"
        assert any(reason in str(skip) for reason in known)  # noqa: PT017


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("classifier", [LogisticRegression(), RidgeClassifier()])
def test_equals_scikit_learn_label_by_label(data, method, classifier):
    """The labels are fitted independently, so that both calibrate the same scores."""
    X, Y = data[0], data[1][:, :2]
    folds = KFold(3)
    together = MultiOutputClassifier(classifier)
    if not hasattr(classifier, "predict_proba"):
        together = clone(classifier)
    mine = CalibratedMarginals(together, method=method, cv=folds).fit(X[:200], Y[:200])
    found = mine.predict_proba(X[200:])
    for j, y in enumerate(Y[:200].T):
        theirs = CalibratedClassifierCV(classifier, method=method, cv=folds, ensemble=False)
        expected = theirs.fit(X[:200], y).predict_proba(X[200:])[:, 1]
        if method == "isotonic":
            expected = np.clip(expected, 1 / 202, 201 / 202)
        np.testing.assert_allclose(found[:, j], expected, atol=2e-4)
        alone = CalibratedMarginals(classifier, method=method, cv=folds).fit(X[:200], y)
        np.testing.assert_allclose(alone.predict_proba(X[200:])[:, 1], expected, atol=2e-4)


@pytest.mark.parametrize("method", METHODS)
def test_overconfident_marginals_become_honest(method):
    X, Y = make_structured_labels(1200, 10, 4, random_state=1)
    X = np.hstack([X, X, X])  # naive Bayes counts everything three times
    plain = MultiOutputClassifier(GaussianNB())
    mine = CalibratedMarginals(plain, method=method).fit(X[:800], Y[:800])
    before = [p[:, 1] for p in plain.fit(X[:800], Y[:800]).predict_proba(X[800:])]
    after = mine.predict_proba(X[800:])
    assert expected_calibration_error(Y[800:], after) < 0.06
    assert expected_calibration_error(Y[800:], np.column_stack(before)) > 0.08
    assert marginal_log_loss(Y[800:], np.clip(after, 0.01, 0.99)) < marginal_log_loss(
        Y[800:], np.column_stack(before)
    )
    np.testing.assert_array_equal(mine.predict(X[800:]), after >= 0.5)


@pytest.mark.deep
@pytest.mark.parametrize("method", METHODS)
def test_calibrators_are_fitted_out_of_fold_on_observed_entries(data, method):
    X, Y = data
    holes = np.where(np.random.RandomState(0).random_sample(Y.shape) < 0.3, NAN, Y)
    holes[:, 2] = NAN
    weight = np.random.RandomState(1).choice([0.5, 1.0, 2.0], size=len(Y))
    model = CRBMClassifier(max_iter=3, random_state=0)
    mine = CalibratedMarginals(model, method=method, cv=3).fit(X, holes, sample_weight=weight)
    scores = np.empty(Y.shape)
    for train, test in MultilabelStratifiedKFold(3).split(X, holes):
        fold = clone(model).fit(X[train], holes[train], sample_weight=weight[train])
        scores[test] = fold.decision_function(X[test])
    full = clone(model).fit(X, holes, sample_weight=weight)
    found = mine.predict_proba(X)
    np.testing.assert_allclose(found[:, 2], full.predict_proba(X)[:, 2])
    assert mine.calibrators_[2] is None
    for j in (0, 1, 3):
        seen = ~np.isnan(holes[:, j])
        by_hand = CalibratedMarginals(model, method=method)._calibrator(
            scores[seen, j], Y[seen, j].astype(float), weight[seen]
        )
        expected = expit(mine._calibrated(by_hand, full.decision_function(X)[:, j]))
        np.testing.assert_allclose(found[:, j], expected, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_weights_that_add_up_to_one(data, method):
    """Small weights would otherwise shrink all probabilities to one half."""
    X, Y = data
    weight = np.random.RandomState(0).uniform(0.1, 1.9, len(Y))
    model = CalibratedMarginals(MultiOutputClassifier(GaussianNB()), method=method, cv=2)
    found = model.fit(X, Y, sample_weight=weight / weight.mean()).predict_proba(X)
    small = model.fit(X, Y, sample_weight=weight / weight.sum()).predict_proba(X)
    np.testing.assert_allclose(small, found, atol=1e-5)


@pytest.mark.parametrize(
    "classifier", [KNeighborsClassifier(5), DecisionTreeClassifier(max_depth=6, random_state=0)]
)
def test_sigmoid_of_votes(classifier):
    """Probabilities of 0 and 1, of which votes have many, are not infinitely far from others."""
    X, Y = make_structured_labels(1000, 8, 4, random_state=1)
    folds = KFold(3)
    mine = CalibratedMarginals(MultiOutputClassifier(classifier), cv=folds).fit(X[:500], Y[:500])
    theirs = [
        CalibratedClassifierCV(classifier, cv=folds, ensemble=False).fit(X[:500], y)
        for y in Y[:500].T
    ]
    theirs = np.column_stack([model.predict_proba(X[500:])[:, 1] for model in theirs])
    losses = [marginal_log_loss(Y[500:], p) for p in (mine.predict_proba(X[500:]), theirs)]
    assert losses[0] < 1.02 * losses[1]


def test_score_is_over_the_observed_entries(data):
    X, Y = data
    model = CalibratedMarginals(KNeighborsClassifier(9), cv=3).fit(X, Y)
    holes = np.where(np.random.RandomState(0).random_sample(Y.shape) < 0.3, NAN, Y)
    right = np.isnan(holes) | (model.predict(X) == Y)
    observed = ~np.isnan(holes).all(axis=1)
    assert model.score(X, holes) == right.all(axis=1)[observed].mean()
    assert model.score(X, Y) == np.mean((model.predict(X) == Y).all(axis=1))


def test_a_number_of_folds_from_numpy(data):
    X, Y = data
    one, same = (
        CalibratedMarginals(KNeighborsClassifier(), cv=cv).fit(X, Y).predict_proba(X)
        for cv in (3, np.int64(3))
    )
    np.testing.assert_array_equal(one, same)


def test_sigmoid_is_finite_where_scores_separate_the_classes():
    score = np.array([-30.0, -20.0, 20.0, 25.0])
    for target in ([0.0, 0.0, 1.0, 1.0], [0.0] * 4, [1.0] * 4):
        mine = CalibratedMarginals(GaussianNB())
        p = expit(mine._calibrated(mine._calibrator(score, np.array(target), np.ones(4)), score))
        assert ((p > 0.1) & (p < 0.9)).all()
        if len(set(target)) == 2:
            assert (np.diff(p) >= 0).all()


@pytest.mark.parametrize("convert", [sp.csr_matrix, pd.DataFrame, np.ndarray.tolist])
def test_kinds_of_input(data, convert):
    X, Y = data
    plain = CalibratedMarginals(KNeighborsClassifier(9), cv=3).fit(X, Y)
    other = clone(plain).fit(convert(X), convert(Y))
    np.testing.assert_allclose(other.predict_proba(convert(X)), plain.predict_proba(X))
    np.testing.assert_array_equal(other.classes_, range(4))


def test_names_of_classes_tags_and_search(data):
    X, Y = data
    names = np.where(Y[:, 0] == 1, "yes", "no")
    model = CalibratedMarginals(KNeighborsClassifier(), cv=3).fit(X, names)
    assert set(model.predict(X)) == {"no", "yes"}
    assert model.score(X, names) > 0.6
    assert get_tags(model).input_tags.sparse
    assert get_tags(model).classifier_tags.multi_label
    search = GridSearchCV(model, {"method": METHODS}, cv=MultilabelStratifiedKFold(2)).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    with pytest.raises(NotFittedError):
        CalibratedMarginals(KNeighborsClassifier()).predict(X)


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({}, [0, 1, 2, 1] * 5, "Only binary classification is supported"),
        ({}, [0] * 20, "y must hold at least 2 classes"),
        ({}, [[0, 2]] * 20, "0/1 indicator matrix"),
        ({}, None, "requires y"),
        ({"method": "beta"}, [0, 1] * 10, "'method' parameter"),
        ({"cv": [([0, 1], [2, 3])]}, [0, 1] * 10, "every row into exactly one test fold"),
    ],
)
def test_wrong_arguments(options, y, message):
    X = np.random.RandomState(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=message):
        CalibratedMarginals(GaussianNB(), **options).fit(X, y)


def test_weights_that_leave_a_fold_nothing():
    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    model = CalibratedMarginals(LogisticRegression(), cv=KFold(2))
    with pytest.raises(
        ValueError, match=r"sample_weight is zero for all training rows of a fold of cv=KFold"
    ):
        model.fit(X, y, sample_weight=[1, 1, 0, 0, 0, 0, 0, 0])

    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        model.fit(X, y, sample_weight=np.zeros(8))


def test_more_processes_than_can_be():
    X, y = np.arange(12.0)[:, None], np.arange(12) % 2
    CalibratedMarginals(LogisticRegression(), cv=2, n_jobs=2**40).fit(X, y)
