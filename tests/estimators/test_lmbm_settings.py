"""LMBMClassifier with default settings: its choice of C and eta, and the inputs it depends on."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import hamming_loss
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skcrbm import LMBMClassifier
from skcrbm.datasets import load_scene
from skcrbm.estimators._lmbm_auto import _FOLD_ROWS, PenaltySearch
from skcrbm.learning.large_margin.dual_coordinate import fit_large_margin
from skcrbm.utils.columns import Columns

#: Where solutions are compared.
TIGHT = {"tol": 1e-9, "max_iter": 100_000, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    return make_multilabel_classification(
        160, n_features=8, n_classes=4, allow_unlabeled=False, random_state=0
    )


@pytest.fixture(scope="module")
def fitted(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return LMBMClassifier(random_state=0).fit(*data)


def test_what_is_found_and_reported(data, fitted):
    X = data[0]
    path = fitted.path_
    assert set(path) == {"C", "pairwise_penalty", "hamming", "jaccard"}
    assert len({len(values) for values in path.values()}) == 1
    pairs = np.isfinite(path["pairwise_penalty"])
    assert (np.diff(pairs.astype(int)) >= 0).all()  # C first
    value = np.log(path["hamming"]) - np.log(path["jaccard"])
    np.testing.assert_allclose(fitted.C_, path["C"][~pairs][value[~pairs].argmin()])
    assert (path["C"][pairs] == fitted.C_).all()
    if np.isfinite(fitted.pairwise_penalty_):
        assert fitted.pairwise_penalty_ in path["pairwise_penalty"]
    v = Columns(X, np.ones(len(X))).variance
    steps = 2 * np.log10(path["C"] * v / 3)
    np.testing.assert_allclose(steps, steps.round(), atol=1e-9)
    np.testing.assert_allclose(
        path["pairwise_penalty"][pairs] / (fitted.C_ * len(X)), [10, 3, 1, 0.3, 0.1][: pairs.sum()]
    )


def test_the_fit_is_that_of_the_scaled_columns(data, fitted):
    X, Y = data
    columns = Columns(X, np.ones(len(X)))
    fitted = clone(fitted).set_params(**TIGHT).fit(X, Y)
    given = LMBMClassifier(C=fitted.C_, pairwise_penalty=fitted.pairwise_penalty_, **TIGHT).fit(
        columns.transform(X), Y
    )
    np.testing.assert_allclose(
        fitted.visible_coef_, given.visible_coef_ * columns.factor, atol=1e-7
    )
    np.testing.assert_allclose(fitted.pairwise_coef_, given.pairwise_coef_, atol=1e-7)
    np.testing.assert_array_equal(fitted.predict(X), given.predict(columns.transform(X)))
    assert not hasattr(given, "path_")
    assert (given.C_, given.pairwise_penalty_) == (given.C, given.pairwise_penalty)


def test_units_do_not_matter(data, fitted):
    X, Y = data
    scale, shift = np.logspace(-3, 4, 8), np.linspace(-1e3, 1e3, 8)
    moved = clone(fitted).fit(X * scale + shift, Y)
    np.testing.assert_allclose(moved.C_, fitted.C_)
    np.testing.assert_allclose(moved.pairwise_penalty_, fitted.pairwise_penalty_)
    np.testing.assert_allclose(moved.visible_coef_ * scale, fitted.visible_coef_, atol=1e-6)
    np.testing.assert_array_equal(moved.predict(X * scale + shift), fitted.predict(X))


def test_one_of_two_given(data, fitted):
    X, Y = data
    model = LMBMClassifier(C=0.05, **TIGHT).fit(X, Y)  # of the columns as they are
    assert model.C_ == 0.05
    assert (model.path_["C"] == 0.05).all()
    by_hand = LMBMClassifier(C=0.05, pairwise_penalty=model.pairwise_penalty_, **TIGHT)
    np.testing.assert_allclose(by_hand.fit(X, Y).visible_coef_, model.visible_coef_, atol=1e-7)
    model = LMBMClassifier(pairwise_penalty=7.0, random_state=0).fit(X, Y)
    assert (model.path_["pairwise_penalty"] == 7).all()
    assert model.pairwise_penalty_ == 7
    assert len(model.path_["C"]) >= 3


def test_pairs_where_they_help_and_only_there():
    """Labels that exclude each other need pairs: the fields say one of both, not which."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    kind = np.where(np.abs(X[:, 0]) < 1, 2, (X[:, 0] > 0).astype(int))
    kind = np.where(rng.random(400) < 0.1, rng.integers(0, 3, 400), kind)
    Y = np.eye(3, dtype=int)[kind]
    model = LMBMClassifier(random_state=0).fit(X, Y)
    assert np.isfinite(model.pairwise_penalty_)
    off = ~np.eye(3, dtype=bool)
    assert (model.pairwise_coef_[off] < 0).all()
    Y = (X @ rng.normal(size=(2, 3)) + 0.3 * rng.normal(size=(400, 3)) > 0).astype(int)
    Y = np.column_stack([Y[:, 0], rng.integers(0, 2, (400, 2))])
    assert LMBMClassifier(random_state=0).fit(X, Y).pairwise_penalty_ == np.inf


def test_few_rows_have_fixed_settings(data):
    X, Y = data[0][:49], data[1][:49]
    model = LMBMClassifier(random_state=0).fit(X, Y)
    assert not hasattr(model, "path_")
    v = Columns(X, np.ones(49)).variance
    np.testing.assert_allclose(model.C_, 3 / v)
    np.testing.assert_allclose(model.pairwise_penalty_, 3 * model.C_ * 49)
    weight = np.random.default_rng(0).integers(0, 3, 20)
    one = LMBMClassifier(random_state=0).fit(X[:20], Y[:20], weight)
    other = LMBMClassifier(random_state=0).fit(
        np.repeat(X[:20], weight, axis=0), np.repeat(Y[:20], weight, axis=0)
    )
    np.testing.assert_allclose(one.visible_coef_, other.visible_coef_, atol=1e-8)
    constant = LMBMClassifier(random_state=0).fit(np.ones((10, 2)), Y[:10])
    assert constant.C_ == 3.0
    np.testing.assert_array_equal(constant.visible_coef_, 0)


@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_the_scale_of_the_weights_does_not_matter(data, factor):
    X, Y = data[0][:150], data[1][:150]
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 150)
    one = LMBMClassifier(random_state=0).fit(X, Y, weight)
    other = LMBMClassifier(random_state=0).fit(X, Y, factor * weight)
    np.testing.assert_array_equal(other.predict_proba(X), one.predict_proba(X))
    np.testing.assert_allclose(factor * other.C_, one.C_)
    given = LMBMClassifier(C=other.C_, pairwise_penalty=other.pairwise_penalty_, tol=1e-8)
    scaled = Columns(X, weight).transform(X, np.float64)
    given.fit(scaled, Y, factor * weight)
    np.testing.assert_allclose(given.predict_proba(scaled), one.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_class_vector(data, n_classes):
    X, Y = data
    y = np.array(list("abc"))[Y[:, : n_classes - 1].sum(axis=1)]
    model = LMBMClassifier(random_state=0).fit(X, y)
    assert model.pairwise_penalty_ == np.inf
    assert np.isinf(model.path_["pairwise_penalty"]).all()
    np.testing.assert_array_equal(model.classes_, sorted(set(y)))
    assert model.score(X, y) >= (y == model.classes_[0]).mean()


def test_missing_labels_and_class_weight(data, fitted):
    X, Y = data
    missing = np.where(np.random.default_rng(0).random(Y.shape) < 0.3, np.nan, Y)
    missing[5] = np.nan
    model = clone(fitted).fit(X, missing)
    assert hamming_loss(Y, fitted.predict(X)) < 0.139
    assert hamming_loss(Y, model.predict(X)) < 0.1891
    balanced = clone(fitted).set_params(class_weight="balanced").fit(X, Y)
    assert balanced.predict(X).sum() != fitted.predict(X).sum()
    missing[49:] = np.nan  # rows without any label are not to choose by
    assert not hasattr(clone(fitted).fit(X, missing), "path_")


def test_sparse_threads_and_seeds(data, fitted):
    X, Y = data
    np.testing.assert_array_equal(
        clone(fitted).set_params(n_jobs=2).fit(X, Y).visible_coef_, fitted.visible_coef_
    )
    other = clone(fitted).set_params(random_state=0).fit(X, Y)
    np.testing.assert_array_equal(other.visible_coef_, fitted.visible_coef_)
    rng = np.random.default_rng(0)
    X = (rng.random((120, 30)) < 0.1).astype(float)
    Y = (X @ rng.normal(size=(30, 3)) > 0.1).astype(int)
    dense = clone(fitted).fit(X, Y)
    compressed = clone(fitted).fit(sparse.csr_matrix(3.0 * X), Y)  # 0/c is 0/1 as well
    np.testing.assert_allclose(3.0 * compressed.visible_coef_, dense.visible_coef_, atol=1e-6)


def test_no_worse_than_a_searched_svm():
    X, Y = make_multilabel_classification(
        700, n_features=20, n_classes=6, n_labels=2, random_state=3
    )
    X = X * np.logspace(0, 3, 20)
    model = LMBMClassifier(random_state=0).fit(X[:350], Y[:350])
    mean, sd = X[:350].mean(axis=0), X[:350].std(axis=0)
    Z = (X - mean) / sd
    losses = []
    for C in (1e-3, 1e-2, 1e-1, 1.0):  # the best C on the held-out rows
        predicted = [
            LinearSVC(C=C, random_state=0).fit(Z[:350], y).predict(Z[350:]) for y in Y[:350].T
        ]
        losses.append(hamming_loss(Y[350:], np.transpose(predicted)))
    assert hamming_loss(Y[350:], model.predict(X[350:])) < min(losses) + 0.01


def test_many_labels_are_predicted_at_once():
    """Values of eta with slow searches are skipped, without a warning; losses stay low."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5))
    Y = (rng.random((120, 60)) < 0.15).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LMBMClassifier(random_state=0).fit(X, Y)
        predicted = model.predict(X)
    assert hamming_loss(Y, predicted) <= Y.mean() + 0.01


def test_warm_start(data):
    X, Y = data
    model = LMBMClassifier(warm_start=True, **TIGHT).fit(X, Y)
    first = model.visible_coef_, model.C_, model.pairwise_penalty_
    model.fit(X, Y)
    np.testing.assert_allclose(model.visible_coef_, first[0], atol=1e-6)
    assert (model.C_, model.pairwise_penalty_) == first[1:]
    model.set_params(C=1.0, pairwise_penalty=1.0).fit(X, Y)
    assert not hasattr(model, "path_")


def test_thresholds_search_once(data, monkeypatch):
    X, Y = data
    searches = []
    inner = PenaltySearch.choose_C
    monkeypatch.setattr(
        PenaltySearch, "choose_C", lambda *a, **k: searches.append(1) or inner(*a, **k)
    )
    model = LMBMClassifier(decode="threshold", random_state=0).fit(1e3 * X, Y)
    assert len(searches) == 1
    assert model.thresholds_.shape == (4,)
    other = LMBMClassifier(decode="threshold", random_state=0).fit(X, Y)
    np.testing.assert_allclose(other.thresholds_, model.thresholds_, atol=1e-6)


def test_interrupted_search(data, monkeypatch):
    """After an interrupted search the model is unfitted, or keeps its earlier fit."""
    X, Y = data
    calls = []

    def interrupted(problem, **options):
        calls.append(problem)
        found = fit_large_margin(problem, **options)
        if len(calls) == 4:
            found.reason = "interrupted"  # the current solution is kept
        return found

    monkeypatch.setattr("skcrbm.estimators._lmbm_auto.fit_large_margin", interrupted)
    model = LMBMClassifier(random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert not model.__sklearn_is_fitted__()
    calls.clear()
    monkeypatch.undo()
    model.set_params(warm_start=True).fit(X, Y)
    before = model.predict(X)
    monkeypatch.setattr("skcrbm.estimators._lmbm_auto.fit_large_margin", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), before)


def test_report(data, capsys):
    X, Y = data
    LMBMClassifier(verbose=2, random_state=0).fit(X, Y)
    out = capsys.readouterr().out
    assert out.startswith("C ")
    assert "pairwise_penalty inf  Hamming 0." in out
    assert "Pass 1  violation" in out


@pytest.mark.parametrize("name", ["C", "pairwise_penalty"])
def test_bad_settings(data, name):
    for value in ("best", 0.0, -1.0, None):
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            LMBMClassifier(**{name: value}).fit(*data)


def test_folds_fall_with_the_rows():
    assert _FOLD_ROWS == 3000
    rng = np.random.default_rng(0)
    counts = {}
    for n_rows in (60, 1400, 3100):
        X = rng.normal(size=(n_rows, 2))
        Y = np.column_stack([X[:, 0] > 0, X[:, 1] > 0]).astype(int)
        seen = []
        inner = PenaltySearch.__post_init__

        def noting(self, seen=seen, inner=inner):
            seen.append(len(self.folds))
            inner(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PenaltySearch, "__post_init__", noting)
            LMBMClassifier(random_state=0).fit(X, Y)
        counts[n_rows] = seen
    assert counts == {60: [5], 1400: [2], 3100: [1]}


@pytest.mark.parametrize("known", [False, True])
def test_no_empty_prediction(data, known):
    """Prediction equals enumeration of nonempty label vectors that agree with known labels."""
    X, Y = data
    Y = np.delete(Y, 3, axis=1)[:, :3]
    X, Y = X[Y.sum(axis=1) == 1], Y[Y.sum(axis=1) == 1]
    model = LMBMClassifier(C=1e-3, pairwise_penalty=0.5, random_state=0).fit(X, Y)
    given = np.full(Y.shape, np.nan)
    if known:
        given[::2, 0] = 0
    vectors = np.array([[i >> 2 & 1, i >> 1 & 1, i & 1] for i in range(1, 8)])
    signs = 2.0 * vectors - 1
    score = (X @ model.visible_coef_.T + model.visible_intercept_) @ signs.T
    score = score + 0.5 * ((signs @ model.pairwise_coef_) * signs).sum(axis=1)
    clash = (given[:, None] != vectors) & ~np.isnan(given[:, None])
    score[clash.any(axis=2)] = -np.inf
    labels, value, gap = model.predict_with_gap(X, y_known=given)
    np.testing.assert_array_equal(labels, vectors[score.argmax(axis=1)])
    np.testing.assert_allclose(value, -score.max(axis=1))
    np.testing.assert_array_equal(gap, 0)
    model.allow_empty_ = True
    assert (~model.predict(X, y_known=given).any(axis=1)).any()


@pytest.mark.filterwarnings("error")
def test_defaults_on_scene_do_not_warn():
    try:
        scene = load_scene(download_if_missing=False)
    except FileNotFoundError:
        pytest.skip("scene.npz is not part of the repository")
    X, X_test, y = scene.X_train, scene.X_test, scene.y_train
    scaler = StandardScaler().fit(X)
    for decode in ("map", "hinge"):
        model = LMBMClassifier(decode=decode, random_state=0).fit(scaler.transform(X), y)
        model.predict(scaler.transform(X_test))
    assert model.dual_gap_ < 1e-4
