"""ChainCRF: gradients, likelihoods, missing and known labels, sparse and dense X, scikit-learn."""

import itertools
import pickle

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_validate,
    learning_curve,
)
from sklearn.preprocessing import StandardScaler

from skcrbm import ChainCRF
from skcrbm.inference import infer
from skcrbm.learning import LBFGS, Adam, EarlyStopping, PseudoLikelihood
from skcrbm.learning.data import Clock
from skcrbm.learning.rules import resolve_rule
from skcrbm.learning.structured.objective import TrainedCoordinates
from skcrbm.learning.structured.penalty import structured_penalty
from skcrbm.pipeline import SequenceTransformer, make_pipeline

CLASSES = np.array(["a", "b", "c"])


def make_data(n=30, seed=0, d=4, longest=6):
    """Draw sequences whose labels depend on the features and on the label before."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(length, d)) for length in rng.integers(1, longest, n)]
    weights = np.random.default_rng(7).normal(size=(d, 3))
    y = []
    for x in X:
        labels, before = [], 0
        for row in x:
            scores = row @ weights + 1.5 * np.eye(3)[before] + rng.gumbel(size=3)
            before = int(scores.argmax())
            labels.append(CLASSES[before])
        y.append(labels)
    return X, y


def log_likelihood(model, x, labels):
    """Return log p(labels | x) by enumeration over the fitted attributes."""
    k = len(model.classes_)
    scores = x @ np.asarray(model.coef_).T + model.intercept_

    def weight(path):
        total = model.first_[path[0]] + model.last_[path[-1]]
        total += sum(scores[t, s] for t, s in enumerate(path))
        for t in range(1, len(path)):
            total += model.transition_[path[t - 1], path[t]]
            if hasattr(model, "transition_coef_"):
                total += model.transition_coef_[path[t - 1] * k + path[t]] @ x[t]
        return total

    codes = [None if v is None else model.classes_.tolist().index(v) for v in labels]
    paths = list(itertools.product(range(k), repeat=len(x)))
    weights = np.array([weight(path) for path in paths])
    fits = [all(c in (None, s) for c, s in zip(codes, path)) for path in paths]
    return np.logaddexp.reduce(weights[fits]) - np.logaddexp.reduce(weights)


@pytest.mark.parametrize("transition_features", [False, True])
def test_log_likelihood_and_factor_graph(transition_features):
    X, y = make_data()
    model = ChainCRF(alpha=0.05, transition_features=transition_features).fit(X, y)
    expected = [log_likelihood(model, *pair) for pair in zip(X, y)]
    np.testing.assert_allclose(model.score_samples(X, y), expected, atol=1e-10)
    some = [[v if t % 2 else None for t, v in enumerate(labels)] for labels in y]
    expected = [log_likelihood(model, *pair) for pair in zip(X, some)]
    np.testing.assert_allclose(model.score_samples(X, some), expected, atol=1e-10)
    for x, proba, labels in zip(X[:5], model.predict_proba(X[:5]), model.predict(X[:5])):
        graph = model.factor_graph(x)
        np.testing.assert_allclose(infer(graph, "exact").marginals[0], proba, atol=1e-10)
        best = infer(graph, "exact", returns="map").assignment[0]
        assert (model.classes_[best] == labels).all()


@pytest.mark.parametrize("rule", ["mle", "pseudo_likelihood"])
@pytest.mark.parametrize("kind", ["dense", "csr", "pairs", "pairs, csr"])
def test_gradient_by_finite_differences(rule, kind):
    X, y = make_data(8)
    if "csr" in kind:
        X = [csr_matrix(np.where(x > 0, x, 0)) for x in X]
    if rule == "mle":
        y = [[None if t == 1 else v for t, v in enumerate(labels)] for labels in y]
    model = ChainCRF(alpha=0.1, learning=rule, transition_features="pairs" in kind, max_iter=3)
    model.fit(X, y, sample_weight=np.arange(1, 9))
    sequences = model._training_batch(X, y, np.arange(1.0, 9), True)
    trained = model._trained()
    objective = resolve_rule(rule, "chain").chain(trained)
    coordinates = TrainedCoordinates(model._model, trained)

    def value(vector):
        step, _ = objective.step(
            model._model._replace(params=coordinates.params(vector)), sequences, Clock(0, 0), None
        )
        return step.loss

    at = np.random.default_rng(0).normal(size=coordinates.vector(model._model.params).size)
    step, _ = objective.step(
        model._model._replace(params=coordinates.params(at)), sequences, Clock(0, 0), None
    )
    numeric = approx_fprime(at, value, 1e-6)
    np.testing.assert_allclose(coordinates.gradient(step.gradient), numeric, atol=2e-3, rtol=1e-4)


def test_positions_alone_are_a_logistic_regression():
    """Without transitions, sequences of length 1 are rows of a logistic regression."""
    X, y = make_data(60, longest=2)
    rows, labels = np.concatenate(X), np.concatenate(y)
    model = ChainCRF(alpha=0.02, solver=LBFGS(tol=1e-12)).fit(X, y)
    reference = LogisticRegression(C=1 / (0.02 * 60), tol=1e-8, max_iter=1000).fit(rows, labels)
    # The weights of first and last positions act as penalised intercepts beside the free intercept.
    np.testing.assert_allclose(
        np.concatenate(model.predict_proba(X)), reference.predict_proba(rows), atol=1e-4
    )


def test_minimum_against_scipy():
    X, y = make_data(15)
    model = ChainCRF(alpha=0.1).fit(X, y)
    sequences = model._training_batch(X, y, None, True)
    coordinates = TrainedCoordinates(model._model, model._trained())
    objective = resolve_rule("mle", "chain").chain(model._trained())
    penalty = structured_penalty(model._model.params, 0.1, 0.0)

    def value(vector):
        params = coordinates.params(vector)
        step, _ = objective.step(model._model._replace(params=params), sequences, Clock(0, 0), None)
        mean = type(params)(*(g / 15 for g in step.gradient))
        penalty.add_gradient(mean, params)
        return step.loss / 15 + penalty.value(params), coordinates.gradient(mean)

    start = np.zeros_like(coordinates.vector(model._model.params))
    best = minimize(value, start, jac=True, options={"gtol": 1e-8})
    assert model.loss_curve_[-1] == pytest.approx(best.fun, rel=1e-5)


def test_l1_makes_zeros_and_reaches_the_minimum():
    X, y = make_data(40, d=8)
    model = ChainCRF(alpha=0.3, l1_ratio=1.0).fit(X, y)
    assert (model.coef_ == 0).mean() > 0.2
    sequences = model._training_batch(X, y, None, True)
    objective = resolve_rule("mle", "chain").chain(model._trained())
    step, _ = objective.step(model._model, sequences, Clock(0, 0), None)
    gradient, params = step.gradient, model._model.params
    for name in ("coef", "transition", "first", "last"):
        slope, value = getattr(gradient, name) / 40, getattr(params, name)
        # Optimality: |slope| <= alpha at 0, else slope = -alpha sign.
        assert (np.abs(slope[value == 0]) <= 0.3 + 2e-3).all()
        np.testing.assert_allclose(slope[value != 0], -0.3 * np.sign(value[value != 0]), atol=5e-3)


def test_sparse_dense_and_dicts_agree():
    X, y = make_data(30)
    X = [np.where(x > 0.3, np.round(x, 2), 0) for x in X]
    dense = ChainCRF(alpha=0.05).fit(X, y)
    sparse_X = [csr_matrix(x) for x in X]
    every = ChainCRF(alpha=0.05, features="all").fit(sparse_X, y)
    np.testing.assert_allclose(every.coef_.toarray(), dense.coef_, atol=1e-6)
    observed = ChainCRF(alpha=0.05).fit(sparse_X, y)
    dicts = [[{f"f{j}": v for j, v in enumerate(row) if v} for row in x] for x in X]
    named = ChainCRF(alpha=0.05).fit(dicts, y)
    order = [named.feature_names_in_.tolist().index(f"f{j}") for j in range(4)]
    np.testing.assert_allclose(named.coef_.toarray()[:, order], observed.coef_.toarray(), atol=1e-5)
    assert (named.predict_proba(dicts)[0] == named.predict_proba(dicts[:1])[0]).all()


def test_named_features_equal_dict_vectorizer():
    rng = np.random.default_rng(0)
    items = [
        {"word": str(rng.integers(5)), "n": float(rng.integers(3)), "flag": bool(rng.integers(2))}
        for _ in range(40)
    ]
    model = ChainCRF(alpha=1.0)
    model.fit([items[:20], items[20:]], [["a", "b"] * 10] * 2)
    rows, _ = model._rows.transform([items])
    vectorizer = DictVectorizer().fit(items)
    expected = vectorizer.transform(items).toarray()
    assert set(model.feature_names_in_) == set(vectorizer.get_feature_names_out())
    order = [vectorizer.vocabulary_[name] for name in model.feature_names_in_]
    np.testing.assert_array_equal(rows.toarray(), expected[:, order])
    rows, _ = model._rows.transform([[{"word": "new", "n": 2}]])
    assert rows.sum() == 2  # the unknown word has no column


def test_collections_of_strings_count_once():
    X = [[["x", "x", "y"], {"y"}], [("x",), []]] * 3
    model = ChainCRF(alpha=1.0).fit(X, [["a", "b"], ["a", "b"]] * 3)
    rows, _ = model._rows.transform(X[:2])
    np.testing.assert_array_equal(rows.toarray(), [[1, 1], [0, 1], [1, 0], [0, 0]])


def test_observed_features_only():
    X = [[{"w": "p"}, {"w": "q"}], [{"w": "q"}, {"w": "p"}]]
    y = [["a", "b"], ["b", "a"]]
    assert ChainCRF(alpha=0.1).fit(X, y).coef_.nnz == 2
    assert ChainCRF(alpha=0.1, features="all").fit(X, y).coef_.nnz == 4


def test_missing_labels_and_known_labels():
    X, y = make_data(40)
    some = [[v if (i + t) % 3 else None for t, v in enumerate(s)] for i, s in enumerate(y)]
    some[0] = None
    nan = [None if s is None else [np.nan if v is None else v for v in s] for s in some]
    model = ChainCRF(alpha=0.05).fit(X, some)
    again = ChainCRF(alpha=0.05).fit(X, nan)
    np.testing.assert_array_equal(model.coef_, again.coef_)
    assert model.score(X, y) > 0.55
    known = [[v if t == 0 else None for t, v in enumerate(labels)] for labels in y]
    for labels, true in zip(model.predict(X, y_known=known), y):
        assert labels[0] == true[0]
    proba = model.predict_proba(X, y_known=known)
    for x, p, held in zip(X[:6], proba[:6], known[:6]):
        whole = log_likelihood(model, x, held)
        for t in range(1, len(x)):
            for j, name in enumerate(model.classes_):
                both = log_likelihood(model, x, [name if k == t else v for k, v in enumerate(held)])
                assert p[t, j] == pytest.approx(np.exp(both - whole), abs=1e-10)


def test_pandas_marks_of_missing_labels():
    pandas = pytest.importorskip("pandas")
    X, y = make_data(10)
    marked = [[pandas.NA, *labels[1:]] for labels in y]
    none = [[None, *labels[1:]] for labels in y]
    found = ChainCRF(alpha=0.1).fit(X, marked), ChainCRF(alpha=0.1).fit(X, none)
    np.testing.assert_array_equal(found[0].coef_, found[1].coef_)


def test_columns_of_different_scales_cause_a_warning():
    X, y = make_data(10)
    with pytest.warns(UserWarning, match=r"SequenceTransformer\(StandardScaler\(\)\)"):
        ChainCRF(alpha=0.1).fit([x * [1, 1, 1, 1e6] for x in X], y)


def test_forbidden_transitions():
    X, y = make_data(60)
    for labels in y:  # no a -> b, and never c at the end
        for t in range(1, len(labels)):
            if labels[t - 1] == "a" and labels[t] == "b":
                labels[t] = "a"
        if labels[-1] == "c":
            labels[-1] = "a"
    forbidden = [("a", "b"), ("c", None)]
    model = ChainCRF(alpha=0.01, forbidden=forbidden).fit(X, y)
    assert np.isneginf(model.transition_[0, 1])
    assert np.isneginf(model.last_[2])
    assert np.isfinite(model.coef_).all()
    drawn = itertools.chain(model.predict(X), *model.sample(X, 20, random_state=0))
    for labels in drawn:
        assert labels[-1] != "c"
        assert ("a", "b") not in set(itertools.pairwise(labels))
    expected = [log_likelihood(model, *pair) for pair in zip(X[:10], y[:10])]
    np.testing.assert_allclose(model.score_samples(X[:10], y[:10]), expected, atol=1e-10)
    assert model.score_samples([X[0][:1]], [["c"]])[0] == -np.inf
    assert model.score_samples([np.zeros((2, 4))], [[None, "c"]])[0] == -np.inf
    with pytest.raises(
        ValueError,
        match=r"sequence 1 of X has no labels .* and with its labels in y_known",
    ):
        model.predict([np.zeros((2, 4))] * 2, y_known=[None, ["a", "b"]])
    with pytest.raises(ValueError, match=r"sequence 0 of X has no labels .* with its labels in y"):
        model.fit([np.zeros((3, 4))], [["a", "b", "c"]])
    with pytest.raises(ValueError, match=r"sequence 2 of X has no labels .* with its labels in y"):
        ChainCRF(forbidden=forbidden).fit(
            [np.zeros((3, 4))] * 3, [["a", "b", "c"], ["c", "a", "a"], ["a", "b", "c"]], [0, 1, 1]
        )
    with pytest.raises(ValueError, match="`forbidden` should hold pairs"):
        ChainCRF(forbidden=["ab"]).fit(X, y)
    with pytest.raises(ValueError, match="forbidden holds the label 'z'"):
        ChainCRF(forbidden=[("a", "z")]).fit(X, y)


def test_a_warm_start_uses_the_transitions_that_are_forbidden_now():
    X, y = make_data(20)
    y = [[label if label != "b" else "a" for label in labels] for labels in y]
    model = ChainCRF(alpha=0.1, max_iter=3, warm_start=True, forbidden=[("c", None)])
    ends = [[*labels[:-1], "a"] for labels in y]
    model.fit(X, ends)
    model.set_params(forbidden=[(None, "c")]).fit(X, [["a", *labels[1:]] for labels in y])
    assert np.isfinite(model.last_).all()
    np.testing.assert_array_equal(np.isneginf(model.first_), model.classes_ == "c")
    model.set_params(forbidden=None).fit(X, y)
    assert np.isfinite(model.first_).all()


def test_labels_that_training_did_not_have_count_as_wrong():
    X, y = make_data(20)
    model = ChainCRF(alpha=0.1, max_iter=3).fit(X, y)
    right = np.concatenate([a == np.array(b) for a, b in zip(model.predict(X), y)])
    other = [["new", *labels[1:]] for labels in y]
    first = np.cumsum([0, *map(len, y[:-1])])
    right[first] = False
    with pytest.warns(UserWarning, match="y holds the label 'new', which training did not have"):
        assert model.score(X, other) == pytest.approx(right.mean())
    with pytest.raises(ValueError, match="y holds the label 1, which is not a class of the model"):
        model.score(X, [[1] * len(labels) for labels in y])


def test_topk_and_samples():
    X, y = make_data(30)
    model = ChainCRF(alpha=0.05).fit(X, y)
    for x, found, best in zip(X[:8], model.predict_topk(X[:8], 4), model.predict(X[:8])):
        assert len(found.labels) == min(4, 3 ** len(x))
        assert (found.labels[0] == best).all()
        for labels, value in zip(found.labels, found.log_proba):
            assert log_likelihood(model, x, labels) == pytest.approx(value, abs=1e-10)
    drawn = model.sample(X[:3], 4000, random_state=0)
    for sample, proba in zip(drawn, model.predict_proba(X[:3])):
        shares = np.stack([(sample == name).mean(0) for name in model.classes_], axis=1)
        np.testing.assert_allclose(shares, proba, atol=0.04)  # five standard errors
    alone = model.sample(X[:1], 10, random_state=0)[0]
    assert (alone == model.sample(X[:2], 10, random_state=0)[0]).all()


def test_marginal_decoding_has_the_larger_expected_accuracy():
    X, y = make_data(30)
    model = ChainCRF(alpha=0.02).fit(X, y)
    proba = model.predict_proba(X)
    model.set_params(decode="marginal")
    for labels, p in zip(model.predict(X), proba):
        assert (model.classes_[p.argmax(1)] == labels).all()


@pytest.mark.parametrize("transition_features", [False, True])
def test_threads_do_not_change_a_bit(transition_features, monkeypatch):
    monkeypatch.setattr("skcrbm.learning.structured.chain.CHAIN_ENTRIES", 60)
    X, y = make_data(40)
    X = [csr_matrix(x) for x in X]
    fits = [
        ChainCRF(alpha=0.1, transition_features=transition_features, n_jobs=n).fit(X, y)
        for n in (1, 3)
    ]
    assert (fits[0].coef_ != fits[1].coef_).nnz == 0
    for a, b in zip(*(model.predict_proba(X) for model in fits)):
        np.testing.assert_array_equal(a, b)


def test_stochastic_solvers_and_partial_fit():
    X, y = make_data(300)
    full = ChainCRF(alpha=0.01).fit(X, y)
    best = full.score_samples(X, y).mean()
    adam = ChainCRF(alpha=0.01, solver=Adam(learning_rate=0.03), max_iter=60, random_state=0)
    assert adam.fit(X, y).score_samples(X, y).mean() > best - 0.05
    held = clone(adam).set_params(early_stopping=EarlyStopping(validation_fraction=0.2))
    assert len(held.fit(X, y).validation_scores_) >= held.n_iter_
    stream = ChainCRF(alpha=0.01, solver=Adam(learning_rate=0.03), random_state=0)
    for _ in range(20):
        for first in range(0, 300, 100):
            part = slice(first, first + 100)
            stream.partial_fit(X[part], y[part], classes=CLASSES)
    assert stream.score_samples(X, y).mean() > best - 0.08
    with pytest.raises(ValueError, match="partial_fit needs a stochastic solver"):
        ChainCRF().partial_fit(X, y)
    with pytest.raises(ValueError, match="FeatureHasher"):
        ChainCRF(solver="adam").partial_fit([[{"a": 1}]], [["x"]])


def test_warm_start_continues():
    X, y = make_data(40)
    model = ChainCRF(alpha=0.05, warm_start=True, max_iter=3).fit(X, y)
    loss = model.loss_curve_[-1]
    model.fit(X, y)
    assert model.loss_curve_[0] < loss


def test_penalty_is_found():
    X, y = make_data(200, d=30)
    model = ChainCRF(random_state=0).fit(X, y)
    X_test, y_test = make_data(200, seed=1, d=30)
    best = max(
        ChainCRF(alpha=a).fit(X, y).score_samples(X_test, y_test).mean()
        for a in (0.5, 0.15, 0.05, 0.015, 0.005)
    )
    assert model.score_samples(X_test, y_test).mean() > best - 0.05


def test_scikit_learn_tools():
    X, y = make_data(60)
    model = make_pipeline(SequenceTransformer(StandardScaler()), ChainCRF(alpha=0.05))
    search = GridSearchCV(model, {"chaincrf__alpha": [0.5, 0.05]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.5
    assert cross_validate(model, X, y, cv=3)["test_score"].shape == (3,)
    predicted = cross_val_predict(model, X, y, cv=3)
    assert [len(labels) for labels in predicted] == [len(x) for x in X]
    _, _, scores = learning_curve(model, X, y, cv=3, train_sizes=[0.5, 1.0])
    assert scores.shape == (2, 3)
    copy = pickle.loads(pickle.dumps(search.best_estimator_))
    for a, b in zip(copy.predict_proba(X), search.best_estimator_.predict_proba(X)):
        np.testing.assert_array_equal(a, b)
    assert repr(clone(ChainCRF(learning=PseudoLikelihood()))).startswith("ChainCRF(")


def test_hashed_dicts():
    X = [[{"w": w} for w in words] for words in ("pq", "qp", "pp", "qq")] * 5
    y = [["A" if item["w"] == "p" else "B" for item in x] for x in X]
    model = make_pipeline(SequenceTransformer(FeatureHasher(16)), ChainCRF(alpha=0.1))
    assert model.fit(X, y).score(X, y) == 1


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([np.zeros((2, 3))], [["a"]], "sequence 0 of y has 1 labels, but sequence 0 of X has 2"),
        ([np.zeros((2, 3))], [["a", "b"], ["a"]], "y has 2 sequences, but X has 1"),
        ([np.zeros((0, 3)), np.zeros((1, 3))], [["a"], []], "sequence 0 of y has 1 labels, but"),
        ([[]], [[]], "all sequences of X are empty"),
        (
            [[], np.zeros((2, 3)), np.zeros((2, 4))],
            [[], *[["a", "b"]] * 2],
            "sequence 2 of X has 4 features, but sequence 1 has 3",
        ),
        (np.zeros((4, 3)), list("abab"), "X should be a list of sequences, got a single table"),
        ([np.zeros((2, 3))], [["a", 1]], "y mixes labels of different types"),
        (
            [np.zeros((2, 3))],
            [["a", ["b"]]],
            r"sequence 0 of y holds \['b'\], but should have one label",
        ),
        ([np.zeros((2, 3))], ["ab"], "sequence 0 of y should be a list of labels, got 'ab'"),
        ([np.zeros((2, 3))], [[0.5, 1]], "should be classes, got the number 0.5"),
        ([np.zeros((2, 3))], [None], "y holds no observed label"),
        ([[[1.0]], [[0.0], [np.nan]]], [["a"], ["a", "b"]], "sequence 1 of X contains NaN or inf"),
        ([[{"u": 1.0}, {"u": np.inf}]], [["a", "b"]], "sequence 0 of X contains NaN or inf"),
        ([np.zeros(3)], [["a"]], r"sequence 0 of X should have the shape"),
        ([["word", "word"]], [["a", "b"]], "got the string 'word'"),
        ([[{"a": [1]}]], [["a"]], "has the feature 'a' with the value 1 in a collection"),
        ([[{"a": None}]], [["a"]], "values should be strings or numbers"),
        ("abc", [["a"]], "X should be a list of sequences, got str"),
        ([], [], "X is an empty list"),
    ],
)
def test_bad_input_gets_one_clear_error(X, y, message):
    with pytest.raises(ValueError, match=message):
        ChainCRF(alpha=0.1).fit(X, y)


def test_errors_of_predictions():
    X, y = make_data(10)
    model = ChainCRF(alpha=0.1)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features"):
        model.predict([np.zeros((2, 3))])
    with pytest.raises(ValueError, match="X holds dicts or strings"):
        model.predict([[{"a": 1}]])
    with pytest.raises(ValueError, match="y holds the label 'z', which is not a class"):
        model.score_samples([np.zeros((1, 4))], [["z"]])
    with pytest.raises(ValueError, match="early_stopping is for stochastic solvers"):
        ChainCRF(early_stopping=True).fit(X, y)
    with pytest.raises(ValueError, match="needs complete labels"):
        ChainCRF(learning="pseudo_likelihood").fit(X, [None, *y[1:]])


def test_an_interrupted_fit_keeps_what_it_learned(monkeypatch):
    X, y = make_data(30)
    original = TrainedCoordinates.gradient
    calls = []

    def interrupt(self, params):
        calls.append(1)
        if len(calls) > 8:
            raise KeyboardInterrupt
        return original(self, params)

    monkeypatch.setattr(TrainedCoordinates, "gradient", interrupt)
    with pytest.warns(UserWarning, match="interrupted"):
        model = ChainCRF(alpha=0.01).fit(X, y)
    assert 0 < model.n_iter_ <= 8
    assert np.any(model.coef_ != 0)


def test_crfsuite_gives_the_same_likelihood(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    rng = np.random.default_rng(0)
    X = [[[f"w{rng.integers(6)}", f"s{rng.integers(3)}"] for _ in range(n)] for n in (4, 7, 3) * 9]
    y = [[str(rng.integers(3)) for _ in x] for x in X]
    trainer = pycrfsuite.Trainer(verbose=False)
    for x, labels in zip(X, y):
        trainer.append(x, labels)
    trainer.set_params({"c1": 0.0, "c2": 0.5, "epsilon": 1e-9, "delta": 1e-12})
    trainer.train(str(tmp_path / "model"))
    n = len(X)
    model = ChainCRF(alpha=2 * 0.5 / n, fit_intercept=False, solver=LBFGS(tol=1e-13)).fit(X, y)
    loss = trainer.logparser.last_iteration["loss"]
    assert model.loss_curve_[-1] * n == pytest.approx(loss, rel=1e-5)
