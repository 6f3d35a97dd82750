"""SSVMClassifier: learning, prediction, refused input and warnings."""

import pickle
from itertools import product

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skcrbm import SSVMClassifier
from skcrbm.inference import ICM, BranchAndBound
from skcrbm.learning.large_margin.label_blocks import LabelBlocks

TIGHT = {"C": 0.02, "tol": 1e-6}
PRECISE = {"tol": 1e-10, "max_iter": 1_000_000, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(100, n_features=6, n_classes=4, random_state=0)
    return StandardScaler().fit_transform(X), Y


def objective(model, X, Y):
    """Return the objective that training minimises, by enumeration."""
    signs, L = 2.0 * Y - 1, Y.shape[1]
    fields = X @ model.visible_coef_.T + model.visible_intercept_
    every = np.array(list(product([-1.0, 1.0], repeat=L)))
    pairs = 0.5 * ((every @ model.pairwise_coef_) * every).sum(axis=1)
    own = (signs * fields).sum(axis=1)
    own += 0.5 * ((signs @ model.pairwise_coef_) * signs).sum(axis=1)
    wrong = (every != signs[:, None]).sum(axis=2)
    risk = (wrong + fields @ every.T + pairs - own[:, None]).max(axis=1).sum()
    norm = (model.visible_coef_**2).sum() + (model.visible_intercept_**2).sum()
    norm += model.pairwise_penalty * 0.5 * (model.pairwise_coef_**2).sum()
    return 0.5 * norm + model.C * risk


def test_fitted_attributes(data):
    X, Y = data
    model = SSVMClassifier(C=0.02).fit(X, Y)
    assert model.visible_coef_.shape == (4, 6)
    np.testing.assert_array_equal(model.pairwise_coef_, model.pairwise_coef_.T)
    np.testing.assert_array_equal(np.diag(model.pairwise_coef_), 0)
    assert np.abs(model.pairwise_coef_).max() > 0.01
    assert 0 < model.dual_gap_ <= 1e-3
    assert model.objective_ == pytest.approx(objective(model, X, Y))
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))


def test_prediction_is_the_highest_score(data):
    X, Y = data
    model = SSVMClassifier(C=0.02).fit(X, Y)
    every = np.array(list(product([-1.0, 1.0], repeat=4)))
    pairs = 0.5 * ((every @ model.pairwise_coef_) * every).sum(axis=1)
    scores = (X @ model.visible_coef_.T + model.visible_intercept_) @ every.T + pairs
    np.testing.assert_array_equal(model.predict(X), every[scores.argmax(axis=1)] > 0)
    labels, value, gap = model.predict_with_gap(X)
    np.testing.assert_array_equal(labels, model.predict(X))
    np.testing.assert_allclose(value, -scores.max(axis=1))
    np.testing.assert_array_equal(gap, 0)
    known = np.where(np.arange(4) == 1, 1 - labels, np.nan)
    np.testing.assert_array_equal(model.predict(X, known)[:, 1], 1 - labels[:, 1])


def test_less_than_other_weights_have(data):
    X, Y = data
    model = SSVMClassifier(**TIGHT).fit(X, Y)
    least = objective(model, X, Y)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2):
        other = clone(model)
        vars(other).update(vars(model))
        other.visible_coef_ = model.visible_coef_ + size * rng.normal(
            size=model.visible_coef_.shape
        )
        shift = np.triu(size * rng.normal(size=(4, 4)), 1)
        other.pairwise_coef_ = model.pairwise_coef_ + shift + shift.T
        assert objective(other, X, Y) > least * (1 - 1e-6)


def test_two_classes_are_a_linear_svm(data):
    X, Y = data
    y = np.array(["no", "yes"])[Y[:, 0]]
    svm = LinearSVC(loss="hinge", C=4 * 0.02, **PRECISE).fit(X, y)
    for inference in ("branch_and_bound", "linear_program", "icm"):
        model = SSVMClassifier(inference=inference, **TIGHT).fit(X, y)
        np.testing.assert_allclose(2 * model.visible_coef_, svm.coef_, atol=2e-3)
        assert (model.predict(X) == svm.predict(X)).mean() > 0.98


def test_infinite_penalty_is_an_svm_per_label(data):
    X, Y = data
    model = SSVMClassifier(pairwise_penalty=np.inf, **TIGHT).fit(X, Y)
    np.testing.assert_array_equal(model.pairwise_coef_, 0)
    for label in range(4):
        svm = LinearSVC(loss="hinge", C=4 * 0.02, **PRECISE).fit(X, Y[:, label])
        np.testing.assert_allclose(2 * model.visible_coef_[[label]], svm.coef_, atol=3e-3)


def test_classes_are_a_multi_class_machine(data):
    X, Y = data
    y = Y.sum(axis=1).clip(0, 2)
    model = SSVMClassifier(**TIGHT).fit(X, y)
    svm = LinearSVC(multi_class="crammer_singer", C=2 * 0.02, **PRECISE).fit(X, y)
    np.testing.assert_allclose(model.visible_coef_, svm.coef_, atol=2e-3)
    assert (model.predict(X) == svm.predict(X)).mean() > 0.97
    np.testing.assert_array_equal(model.pairwise_coef_, 0)


@pytest.mark.quick_cases(2)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("inference", ["branch_and_bound", "linear_program", "icm"])
def test_the_result_does_not_depend_on_threads(inference):
    X, Y = make_multilabel_classification(150, n_features=5, n_classes=5, random_state=1)
    X = StandardScaler().fit_transform(X)
    models = [
        SSVMClassifier(C=0.01, inference=inference, max_iter=25, tol=1e-9, n_jobs=n).fit(X, Y)
        for n in (1, 2)
    ]
    for name in ("visible_coef_", "visible_intercept_", "pairwise_coef_", "dual_gap_"):
        np.testing.assert_array_equal(getattr(models[0], name), getattr(models[1], name))
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))


def test_restarts_are_seeded(data):
    X, Y = data
    fits = [
        SSVMClassifier(C=0.02, inference=ICM(n_restarts=3), random_state=seed).fit(X, Y)
        for seed in (0, 0)
    ]
    np.testing.assert_array_equal(fits[0].visible_coef_, fits[1].visible_coef_)


def test_labels_that_are_not_observed_are_refused(data):
    X, Y = data
    with pytest.raises(ValueError, match=r"y holds NaN \(not observed\).* LMBMClassifier"):
        SSVMClassifier().fit(X, np.where(np.arange(4) == 2, np.nan, Y))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_warnings(data):
    X, Y = data
    with pytest.warns(ConvergenceWarning, match="max_iter=3 iterations, with a relative duality"):
        model = SSVMClassifier(max_iter=3).fit(X, Y)
    assert model.n_iter_ == 3
    assert model.dual_gap_ > 0.1
    rng = np.random.default_rng(0)
    Y = (rng.random((60, 25)) < 0.5).astype(int)
    with pytest.warns(ConvergenceWarning, match=r"node_limit=1 on \d+ rows in the last iteration"):
        SSVMClassifier(
            C=1.0, pairwise_penalty=0.01, max_iter=8, inference=BranchAndBound(node_limit=1)
        ).fit(rng.normal(size=(60, 2)), Y)
    with pytest.raises(ValueError, match="'inference' parameter of SSVMClassifier must be"):
        SSVMClassifier(inference="milp").fit(X, Y[:, :4])


def test_rounding_that_ends_training_is_told(data):
    X, Y = data[0][:20], data[1][:20]
    with pytest.warns(ConvergenceWarning, match="rounding errors allow no further"):
        model = SSVMClassifier(C=0.5, tol=1e-16).fit(X, Y)
    assert model.tol < model.dual_gap_ < 1e-11
    np.testing.assert_allclose(objective(model, X, Y), model.objective_, rtol=1e-9)


def test_progress_changes_nothing(data, capsys):
    X, Y = data
    plain, told = (SSVMClassifier(C=0.02, verbose=v).fit(X, Y) for v in (0, 2))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == told.n_iter_
    assert lines[0].startswith("Iteration 1  gap ")
    np.testing.assert_array_equal(plain.visible_coef_, told.visible_coef_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("node_limit", [50_000, 100])
def test_searches_by_the_method_itself_are_rare(data, monkeypatch, node_limit):
    """Flips of labels find most label vectors; branch and bound only checks the gap."""
    events, gaps, losses = [], [], []
    visit, search = LabelBlocks.visit, LabelBlocks._search

    def spy_on_visit(blocks, rng):
        found = visit(blocks, rng)
        events.append("pass")
        gaps.append(found.gap)
        losses.append(found.loss + blocks.penalty(blocks.params))
        return found

    def spy_on_search(blocks, params):
        events.append("search")
        return search(blocks, params)

    monkeypatch.setattr(LabelBlocks, "visit", spy_on_visit)
    monkeypatch.setattr(LabelBlocks, "_search", spy_on_search)
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 4)), rng.integers(0, 2, (40, 24))
    model = SSVMClassifier(max_iter=100, inference=BranchAndBound(node_limit=node_limit)).fit(X, Y)
    assert events.count("pass") == model.n_iter_
    assert 3 <= events.count("search") <= model.n_iter_ / 4
    first = events.index("search")
    assert gaps[first - 1] <= 0.3 * losses[0] < gaps[first - 2]


@pytest.mark.parametrize("kind", ["pairs", "linear", "classes"])
def test_copies_and_order_of_rows_change_nothing(data, kind):
    X, Y = data
    y = Y[:, 0] + 2 * Y[:, 1] if kind == "classes" else Y
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 4, len(X))
    copies = rng.permutation(np.repeat(np.arange(len(X)), weight))
    penalty = np.inf if kind == "linear" else 1.0
    weighted, repeated, stored = (
        SSVMClassifier(C=0.02, pairwise_penalty=penalty).fit(*given)
        for given in (
            (X, y, weight),
            (X[copies], y[copies]),
            (sparse.csr_matrix(X[copies]), y[copies]),
        )
    )
    for model in (repeated, stored):
        for name in ("visible_coef_", "visible_intercept_", "pairwise_coef_"):
            expected, found = getattr(weighted, name), getattr(model, name)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        assert model.n_iter_ == weighted.n_iter_


def test_an_interrupted_fit_returns_trained_weights(data, monkeypatch):
    visit, numbers = LabelBlocks.visit, []

    def interrupted(blocks, rng):
        numbers.append(len(numbers))
        if len(numbers) == 18:
            raise KeyboardInterrupt
        return visit(blocks, rng)

    monkeypatch.setattr(LabelBlocks, "visit", interrupted)
    with pytest.warns(UserWarning, match="interrupted in iteration 18"):
        model = SSVMClassifier(C=0.5, tol=1e-9, max_iter=90).fit(*data)
    assert model.n_iter_ == 17
    assert model.visible_coef_.any()
    assert model.dual_gap_ < 0.5
    assert model.objective_ == pytest.approx(objective(model, *data))
