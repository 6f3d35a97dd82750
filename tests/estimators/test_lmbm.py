"""LMBMClassifier: learning, prediction, refused input and warnings."""

import pickle
import re
import warnings
from itertools import product

import numpy as np
import pytest
from reference.states import all_states
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skcrbm import LMBMClassifier
from skcrbm.decoding import best_states
from skcrbm.inference import ICM, BranchAndBound, MixedIntegerProgram, SumProduct
from skcrbm.metrics import masked_scorer
from skcrbm.utils.fitting import LiveLine


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(120, n_features=8, n_classes=4, random_state=0)
    return StandardScaler().fit_transform(X), Y


#: Everything that "auto" would choose, and the rule of the paper.
GIVEN = {"C": 0.1, "pairwise_penalty": 5.0, "decode": "hinge", "random_state": 0}


def make(**options):
    return LMBMClassifier(**{**GIVEN, **options})


def states_and_scores(model, x):
    """All labels y in {-1, +1}^L of one row, their losses and scores, from the formulas."""
    L = len(model.visible_intercept_)
    fields = model.visible_coef_ @ x + model.visible_intercept_
    states = np.array(list(product([-1, 1], repeat=L)))
    losses, scores = [], []
    for y in states:
        m = [y[i] * (fields[i] + model.pairwise_coef_[i] @ y) for i in range(L)]
        losses.append(sum(max(model.margin - value, 0) for value in m))
        pairs = sum(model.pairwise_coef_[i, k] * y[i] * y[k] for i in range(L) for k in range(i))
        scores.append(fields @ y + pairs)
    return states, np.array(losses), np.array(scores)


@pytest.mark.parametrize("cliques", [None, 3])
def test_wrong_labels_have_a_loss_above_the_threshold(data, cliques):
    X, Y = data
    model = make(C=0.02, margin=1.5, pairwise_penalty=20.0, cliques=cliques).fit(X, Y)
    largest = max(
        sum(abs(value) for value in model.pairwise_coef_[i])
        + sum(abs(w) for c, w in zip(model.cliques_, model.clique_coef_) if i in c)
        for i in range(Y.shape[1])
    )
    threshold = model.loss_threshold_
    np.testing.assert_allclose(threshold, 1.5 - largest, rtol=1e-12)
    assert 0.2 < threshold < 1.4
    predicted = 2 * model.predict(X) - 1
    states = np.array(list(product([-1, 1], repeat=Y.shape[1])))
    least = np.inf
    for x, best in zip(X, predicted):
        fields = model.visible_coef_ @ x + model.visible_intercept_ + states @ model.pairwise_coef_
        for c, w in zip(model.cliques_, model.clique_coef_):
            for i in c:
                fields[:, i] += w * states[:, [k for k in c if k != i]].prod(axis=1)
        losses = np.maximum(1.5 - states * fields, 0).sum(axis=1)
        least = min(least, losses[(states != best).any(axis=1)].min())
    assert threshold <= least < threshold + 2


def test_threshold_without_pairs_and_with_strong_pairs(data):
    X, Y = data
    assert make(pairwise_penalty=np.inf, margin=2.0).fit(X, Y).loss_threshold_ == 2.0
    assert make(C=10.0, pairwise_penalty=0.01).fit(X, Y).loss_threshold_ == 0.0


def test_prediction_from_the_formulas(data):
    X, Y = data
    model = make(margin=2.0).fit(X, Y)
    predicted = model.predict(X)
    best_score = model.set_params(decode="map").predict(X)
    proba = model.predict_proba(X)
    decision = model.set_params(decode="hinge").decision_function(X)
    for n in range(20):
        states, losses, scores = states_and_scores(model, X[n])
        tied = np.where(losses <= losses.min() + 1e-10, scores, -np.inf)
        y = states[tied.argmax()]
        np.testing.assert_array_equal(predicted[n], y > 0)
        fields = model.visible_coef_ @ X[n] + model.visible_intercept_ + model.pairwise_coef_ @ y
        np.testing.assert_allclose(decision[n], fields)
        np.testing.assert_array_equal(best_score[n], states[scores.argmax()] > 0)
        np.testing.assert_allclose(proba[n], softmax(scores) @ (states > 0), atol=1e-12)
    labels, objective, gap = model.predict_with_gap(X)
    np.testing.assert_array_equal(labels, predicted)
    np.testing.assert_array_equal(gap, 0)
    assert objective[0] == pytest.approx(states_and_scores(model, X[0])[1].min())


def test_fitted_attributes(data):
    X, Y = data
    model = make().fit(X, Y)
    assert model.visible_coef_.shape == (4, 8)
    assert model.visible_intercept_.shape == (4,)
    np.testing.assert_array_equal(model.pairwise_coef_, model.pairwise_coef_.T)
    np.testing.assert_array_equal(np.diag(model.pairwise_coef_), 0)
    np.testing.assert_array_equal(model.classes_, range(4))
    assert 0 <= model.dual_gap_ < 1e-4
    assert 1 < model.n_iter_ < 1000
    assert model.score(X, Y) > 0.4
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(clone(model).fit(X, Y).visible_coef_, model.visible_coef_)


def test_margin_scales_with_c(data):
    X, Y = data
    one = make(C=0.1).fit(X, Y)
    three = make(C=0.3, margin=3.0).fit(X, Y)
    np.testing.assert_allclose(three.visible_coef_, 3 * one.visible_coef_, atol=1e-8)
    np.testing.assert_array_equal(three.predict(X), one.predict(X))


def test_binary_and_one_label(data):
    X, Y = data
    y = np.array(["no", "yes"])[Y[:, 0]]
    model = make(C=0.5).fit(X, y)
    svm = LinearSVC(loss="hinge", C=0.5, tol=1e-10, max_iter=1_000_000, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.visible_coef_, svm.coef_, atol=1e-6)
    np.testing.assert_allclose(model.decision_function(X), svm.decision_function(X), atol=1e-6)
    np.testing.assert_array_equal(model.predict(X), svm.predict(X))
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba[:, 1], expit(2 * model.decision_function(X)))
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(model.pairwise_coef_, [[0.0]])
    with pytest.raises(ValueError, match="predict_with_gap is for 2-D y"):
        model.predict_with_gap(X)


def test_multiclass(data):
    X, Y = data
    y = Y.sum(axis=1).clip(0, 2)
    model = make(C=0.5).fit(X, y)
    score = model.decision_function(X)
    fields = X @ model.visible_coef_.T + model.visible_intercept_
    np.testing.assert_allclose(score, 2 * (fields - model.pairwise_coef_.sum(axis=1)))
    np.testing.assert_array_equal(model.predict(X), model.classes_[score.argmax(axis=1)])
    np.testing.assert_allclose(model.predict_proba(X), softmax(score, axis=1))
    assert model.score(X, y) > 0.5


def test_large_penalty_is_one_svm_per_label(data):
    X, Y = data
    with_pairs = make(pairwise_penalty=1e9).fit(X, Y)
    without = make(pairwise_penalty=np.inf).fit(X, Y)
    np.testing.assert_allclose(with_pairs.visible_coef_, without.visible_coef_, atol=1e-5)
    np.testing.assert_array_equal(without.pairwise_coef_, 0)
    np.testing.assert_array_equal(without.predict(X), without.decision_function(X) > 0)


def test_pairs_are_learned():
    """Two labels that copy each other, one of them without any features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    first = X[:, 0] + 0.5 * rng.normal(size=200) > 0
    Y = np.column_stack([first, first, rng.random(200) < 0.5]).astype(int)
    model = make(C=1.0).fit(X, Y)
    assert model.pairwise_coef_[0, 1] > 1.0 > 4 * abs(model.pairwise_coef_[2]).max()
    predicted = model.predict(X)
    np.testing.assert_array_equal(predicted[:, 0], predicted[:, 1])


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, np.float32])
def test_kinds_of_input(data, kind):
    X, Y = data
    mine, other = make().fit(kind(X), Y), make().fit(X, Y)
    np.testing.assert_allclose(mine.visible_coef_, other.visible_coef_, atol=1e-5)
    np.testing.assert_array_equal(mine.predict(kind(X)), other.predict(X))


def test_sample_weight_and_class_weight(data):
    X, Y = data
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = make().fit(X, Y, weight)
    repeated = make().fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0))
    np.testing.assert_allclose(weighted.visible_coef_, repeated.visible_coef_, atol=1e-8)
    np.testing.assert_allclose(weighted.pairwise_coef_, repeated.pairwise_coef_, atol=1e-8)
    dicts = make(class_weight=tuple({1: w} for w in (3.0, 0.5, 1.0, 2.0))).fit(X, Y)
    vector = make(class_weight=[3.0, 0.5, 1.0, 2.0]).fit(X, Y)
    np.testing.assert_array_equal(dicts.visible_coef_, vector.visible_coef_)
    share = Y.mean(axis=0)
    balanced = make(class_weight="balanced").fit(X, Y)
    by_hand = make(
        class_weight=[{0: 0.5 / (1 - p), 1: 0.5 / p} for p in share],
    ).fit(X, Y)
    np.testing.assert_allclose(balanced.visible_coef_, by_hand.visible_coef_, atol=1e-8)
    more = make(class_weight=[100.0] * 4).fit(X, Y).predict(X).sum()
    assert more > make(class_weight=[0.01] * 4).fit(X, Y).predict(X).sum() + 50


@pytest.mark.parametrize("n_classes", [2, 3])
def test_class_weight_of_classes(data, n_classes):
    X, Y = data
    y = Y.sum(axis=1).clip(0, n_classes - 1)
    counts = np.bincount(y)
    by_hand = {k: len(y) / (n_classes * counts[k]) for k in range(n_classes)}
    balanced = make(class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(
        balanced.visible_coef_, make(class_weight=by_hand).fit(X, y).visible_coef_, atol=1e-8
    )
    rows = make().fit(X, y, np.array([by_hand[k] for k in y]))
    np.testing.assert_allclose(balanced.visible_coef_, rows.visible_coef_, atol=1e-8)


def test_missing_labels(data):
    """A missing label has no margin, and does not enter the margins of other labels."""
    X, Y = data
    missing = Y.astype(float)
    missing[:40, 1] = np.nan
    missing[50:60] = np.nan
    model = make().fit(X, missing)
    kept = make().fit(np.delete(X, range(50, 60), axis=0), np.delete(missing, range(50, 60), 0))
    np.testing.assert_allclose(model.visible_coef_, kept.visible_coef_, atol=1e-8)
    changed = missing.copy()
    changed[:40, 2] = np.nan
    rest = [0, 3]  # of the rows without 1 and 2, pairs of 0 and 3 alone are left
    assert not np.allclose(make().fit(X, changed).pairwise_coef_, model.pairwise_coef_)
    alone = missing.copy()
    alone[:, 1:3] = np.nan
    only = make().fit(np.delete(X, range(50, 60), 0), np.delete(Y[:, rest], range(50, 60), 0))
    fitted = make().fit(X, alone)
    np.testing.assert_allclose(fitted.visible_coef_[rest], only.visible_coef_, atol=1e-8)
    np.testing.assert_allclose(
        fitted.pairwise_coef_[np.ix_(rest, rest)], only.pairwise_coef_, atol=1e-8
    )
    assert 0 <= fitted.score(X, alone) <= 1
    search = GridSearchCV(
        make(), {"C": [0.01, 0.1]}, cv=KFold(3), scoring=masked_scorer("f1_micro")
    )
    assert search.fit(X, missing).best_score_ > 0.5


def test_constant_labels(data):
    X, Y = data
    Y = Y.copy()
    Y[:, 0], Y[:, 3] = 0, 1
    model = make(C=1.0).fit(X, Y)
    predicted = model.predict(X)
    np.testing.assert_array_equal(predicted[:, 0], 0)
    np.testing.assert_array_equal(predicted[:, 3], 1)
    assert (model.predict_proba(X)[:, 3] > 0.5).all()


def test_warm_start(data):
    X, Y = data
    model = make(warm_start=True, tol=1e-3).fit(X, Y)
    cold = make(tol=1e-6).fit(X, Y)
    model.set_params(tol=1e-6).fit(X, Y)
    assert model.n_iter_ < cold.n_iter_
    np.testing.assert_allclose(model.visible_coef_, cold.visible_coef_, atol=1e-6)
    model.fit(X[:50], Y[:50])  # other rows: from the start
    np.testing.assert_allclose(
        model.visible_coef_, make(tol=1e-6).fit(X[:50], Y[:50]).visible_coef_, atol=1e-6
    )
    with pytest.raises(ValueError, match=r"y must have shape \(n_samples, 4\)"):
        model.fit(X, Y[:, :3])


def test_warnings(data, capsys):
    X, Y = data
    with pytest.warns(
        ConvergenceWarning,
        match=r"max_iter=2 passes, with a largest violation of .* \(tol=.*\) and .* duality gap",
    ):
        model = make(C=10.0, max_iter=2, verbose=1).fit(X, Y)
    assert model.dual_gap_ > 1e-3
    assert re.search(r"^Pass 2/2  .*  violation .*  active .* *\n$", capsys.readouterr().out)
    model = make().fit(X, Y).set_params(inference=BranchAndBound(node_limit=1))
    with pytest.warns(ConvergenceWarning, match="reached node_limit=1 on"):
        labels = model.predict(X)
    assert labels.shape == Y.shape
    gap = model.predict_with_gap(X)[2]
    assert (gap > 0).any()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_interrupted(data, monkeypatch):
    X, Y = data

    def interrupt(self, number, figures, seconds):
        if number == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(LiveLine, "step", interrupt)
    model = make(verbose=1)
    with pytest.warns(UserWarning, match="interrupted in pass 4; .* with a largest violation of"):
        model.fit(X, Y)
    assert model.n_iter_ == 3
    monkeypatch.undo()
    np.testing.assert_array_equal(
        model.visible_coef_, make(max_iter=3, verbose=1).fit(X, Y).visible_coef_
    )


def test_pickled_warm_start(data):
    X, Y = data
    model = pickle.loads(pickle.dumps(make(warm_start=True).fit(X, Y)))
    assert model.fit(X, Y).n_iter_ == 1
    weight = np.ones(len(X))
    weight[0] = 0  # another number of rows in training: from the start
    missing = np.where(np.arange(4) == 1, np.nan, Y)
    for arguments in ((X, Y, weight), (X, missing)):
        np.testing.assert_allclose(
            model.fit(*arguments).visible_coef_, make().fit(*arguments).visible_coef_, atol=1e-8
        )


def test_nothing_to_learn(data):
    X, Y = data
    weight = np.r_[np.zeros(60), np.ones(60)]
    with pytest.raises(ValueError, match="no observed entry in the rows with a positive"):
        make().fit(X, np.where(weight[:, None] > 0, np.nan, Y), weight)
    with pytest.raises(ValueError, match="training overflowed"):
        make().fit(1e200 * X, Y)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("decode", ["hinge", "map"])
def test_methods_agree(data, decode):
    X, Y = data
    model = make(pairwise_penalty=1.0, C=1.0, decode=decode).fit(X, Y)
    exact = model.predict_with_gap(X[:40])
    program = model.set_params(inference="milp").predict_with_gap(X[:40])
    np.testing.assert_array_equal(program[0], exact[0])
    np.testing.assert_allclose(program[1], exact[1], atol=1e-9)
    local = model.set_params(inference="icm").predict_with_gap(X[:40])
    assert (local[1] >= exact[1] - 1e-9).all()
    np.testing.assert_array_equal(local[2], np.inf)


def test_configured_searches(data):
    X, Y = data
    model = make(pairwise_penalty=1.0, C=1.0).fit(X, Y)
    exact = model.predict_with_gap(X)
    model.set_params(inference=ICM(n_restarts=20, random_state=0))
    found = model.predict_with_gap(X)
    # Equal losses may be reached by other labels: flips do not look for the higher score.
    np.testing.assert_allclose(found[1], exact[1], atol=1e-9)
    assert (found[0] == exact[0]).all(axis=1).mean() > 0.9
    np.testing.assert_array_equal(model.predict(X), found[0])
    model.set_params(inference=BranchAndBound(node_limit=1))
    with pytest.warns(ConvergenceWarning, match="reached node_limit=1 on"):
        model.predict(X)
    for decode in ("hinge", "map"):
        model.set_params(inference=MixedIntegerProgram(), decode=decode)
        assert (model.predict_with_gap(X[:10])[2] < 1e-6).all()
    with pytest.raises(ValueError, match="inference must be one of 'branch_and_bound', 'milp'"):
        make(inference=SumProduct()).fit(X, Y)
    with pytest.raises(ValueError, match="'inference' parameter of LMBMClassifier must be"):
        model.set_params(inference="exact").predict(X)


def test_method_for_probabilities(data):
    X, Y = data
    model = make(pairwise_penalty=20.0).fit(X, Y)
    exact = model.predict_proba(X)
    np.testing.assert_array_equal(
        exact, model.set_params(inference=["icm", "exact"]).predict_proba(X)
    )
    for name in ("mean_field", "sum_product", "tree_reweighted"):
        proba = model.set_params(inference=[name]).predict_proba(X)
        np.testing.assert_allclose(proba, exact, atol=0.1)
        assert not np.array_equal(proba, exact)


def test_pipeline_and_cross_validation(data):
    X, Y = data
    pipeline = make_pipeline(StandardScaler(), make())
    predicted = cross_val_predict(pipeline, X, Y, cv=3)
    assert (predicted == Y).mean() > 0.65
    grid = {"lmbmclassifier__C": [0.01, 0.1], "lmbmclassifier__pairwise_penalty": [1, 100]}
    assert GridSearchCV(pipeline, grid, cv=3, scoring="f1_samples").fit(X, Y).best_score_ > 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0.0}, "'C' parameter"),
        ({"pairwise_penalty": -1.0}, "'pairwise_penalty' parameter"),
        ({"inference": "exact"}, "'inference' parameter"),
        ({"class_weight": {0: 1, 1: 2}}, "got a dict"),
        ({"class_weight": [{0: 1}] * 3}, "a dict for each of the 4 labels"),
        ({"class_weight": [{2: 1}] * 4}, "keys that are not 0 or 1"),
        ({"class_weight": [1.0, 2.0]}, r"must have shape \(4,\)"),
        ({"class_weight": [1.0, 2.0, -1.0, 1.0]}, "not negative"),
        ({"class_weight": []}, r"must have shape \(4,\)"),
        ({"class_weight": [{0: 1.0}, 1.0, 1.0, 1.0]}, "a dict for each label or numbers"),
        ({"inference": ["gibbs"]}, "inference must be one of"),
        ({"tol": 0}, "'tol' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
    ],
)
def test_bad_parameters(data, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options).fit(*data)


def test_bad_class_weight_of_classes(data):
    X, Y = data
    with pytest.raises(ValueError, match="must be 'balanced' or a dict"):
        make(class_weight=[1.0, 2.0]).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="not negative"):
        make(class_weight={0: -1.0}).fit(X, Y[:, 0])


def test_looking_on_does_not_change_a_fit(capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 6))
    Y = (X @ rng.normal(size=(6, 5)) + rng.normal(size=(700, 1)) > 0).astype(int)
    options = {"C": 100.0, "pairwise_penalty": 5.0, "max_iter": 60, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [LMBMClassifier(verbose=v, **options).fit(X, Y) for v in (0, 1)]
    assert capsys.readouterr().out
    np.testing.assert_array_equal(*(model.visible_coef_ for model in fits))


def test_a_certified_answer_is_not_empty_where_no_training_row_is():
    rng = np.random.default_rng(0)
    Y = np.eye(4, dtype=int)[rng.integers(0, 4, 200)]
    X = Y + 0.3 * rng.normal(size=Y.shape)
    options = {"C": 1.0, "pairwise_penalty": np.inf, "random_state": 0}
    model = LMBMClassifier(decode="map", **options).fit(X, Y)
    asked = np.vstack([np.zeros((1, 4)), 0.2 * np.eye(4)])
    labels = model.predict(asked)
    assert labels.any(axis=1).all()
    assert not model.allow_empty_
    model.allow_empty_ = True
    free = model.predict(asked)
    assert not free.any(axis=1).all()  # or it shows nothing
    there = free.any(axis=1)
    np.testing.assert_array_equal(labels[there], free[there])


@pytest.mark.parametrize("strength", [0.0, 0.3])
def test_the_best_answer_with_a_label_by_enumeration(monkeypatch, strength):
    """Bounds leave out labels that cannot give the best nonempty answer."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    Y = np.eye(6, dtype=int)[rng.integers(0, 6, 60)]
    model = LMBMClassifier(C=0.1, pairwise_penalty=np.inf, random_state=0).fit(X, Y)
    S = np.triu(rng.normal(scale=strength, size=(6, 6)), 1)
    model.pairwise_coef_ = S + S.T
    model.visible_coef_, model.visible_intercept_ = 0.3 * rng.normal(size=(6, 3)), np.full(6, -1.0)
    known = np.where(rng.random(Y.shape) < 0.2, 0.0, np.nan)
    asked = []
    certified = best_states._certified
    monkeypatch.setattr(
        best_states, "_certified", lambda given: asked.append(given) or certified(given)
    )
    states = all_states(6)[1:]
    signs = 2.0 * states - 1
    fields = X @ model.visible_coef_.T + model.visible_intercept_
    value = -(fields @ signs.T + 0.5 * ((signs @ model.pairwise_coef_) * signs).sum(axis=1))
    for given in (None, known):
        possible = np.ones(value.shape, bool)
        if given is not None:
            possible = ~((given == 0) @ states.T > 0)
        expected = np.where(possible, value, np.inf)
        labels, objective, gap = model.predict_with_gap(X, given)
        np.testing.assert_array_equal(labels, states[expected.argmin(axis=1)])
        np.testing.assert_allclose(objective, expected.min(axis=1))
        np.testing.assert_array_equal(gap, 0)
    assert len(asked) < 10  # a search for each label would make 14


def test_probabilities_of_many_labels_without_pairs():
    """Mean field is exact then, and faster than messages between all pairs of labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 30))
    Y = (X[:, :20] + rng.normal(size=(60, 20)) > 0).astype(int)
    model = LMBMClassifier(C=0.1, pairwise_penalty=np.inf, random_state=0).fit(X, Y)
    expected = expit(2 * (X @ model.visible_coef_.T + model.visible_intercept_))
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-12)
    assert model._posterior_of(X, None).method.name == "mean_field"
    model.pairwise_coef_ = 0.1 * (1 - np.eye(20))
    assert model._posterior_of(X, None).method.name == "tree_reweighted"
