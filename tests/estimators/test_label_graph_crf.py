"""LabelGraphCRF: answers against enumeration, kinds of y, graphs, and scikit-learn's tools."""

import itertools
import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from reference.cases import deep
from reference.sklearn_checks import run_check
from reference.states import all_states
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.multioutput import MultiOutputClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from skcrbm import (
    MSSVMCRBM,
    DecodedClassifier,
    LabelGraphCRF,
    LMBMClassifier,
)
from skcrbm.annotation import find_label_issues
from skcrbm.calibration import CalibratedMarginals, ConformalLabelSets, ConformalRiskControl
from skcrbm.constraints import Constrained, Implies
from skcrbm.energies.output_graph import OutputGraph
from skcrbm.ensemble import OutOfBagLogOdds
from skcrbm.inference import SumProduct
from skcrbm.pipeline import make_pipeline

NAMES = [
    np.array(["b", "g", "r"], object),
    np.array([3, 7]),
    np.array(["p", "q", "s", "t"], object),
]


def chain_data(n=400, seed=0, noise=0.3):
    """Outputs of 3, 2 and 4 classes, of which the last two follow the first, given x or not."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    first = np.digitize(X[:, 0] + 0.5 * rng.normal(size=n), [-0.5, 0.5])
    flip = rng.random(n) < noise
    second = np.where(flip, rng.integers(0, 2, n), first > 0)
    flip = rng.random(n) < noise
    third = np.where(flip, rng.integers(0, 4, n), first + second)
    y = np.empty((n, 3), object)
    for i, codes in enumerate((first, second, third)):
        y[:, i] = NAMES[i][codes.astype(int)]
    return X, y


def with_gaps(y, share=0.3, seed=1):
    y = y.copy()
    y[np.random.default_rng(seed).random(y.shape) < share] = None
    return y


def joint(model, X):
    """Return all vectors of classes (S, L) as codes and their probabilities (N, S)."""
    sizes = [len(classes) for classes in model.classes_]
    states = np.array(list(itertools.product(*(range(k) for k in sizes))))
    total = np.zeros((len(X), len(states)))
    for a, k in enumerate(sizes):
        fields = X @ model.visible_coef_[a].T + model.visible_intercept_[a]
        own = np.column_stack([np.zeros(len(X)), fields]) if k == 2 else fields
        total += own[:, states[:, a]]
    for (a, b), table in zip(model.edges_, model.pair_coef_):
        total += table[states[:, a], states[:, b]]
    return states, np.exp(total - logsumexp(total, axis=1, keepdims=True))


def given(states, chance, known):
    """Condition the probabilities on known codes (N, L), NaN where unknown."""
    agree = (np.isnan(known)[:, None] | (known[:, None] == states)).all(axis=2)
    chance = chance * agree
    return chance / chance.sum(axis=1, keepdims=True)


def codes(model, y):
    found = np.full(y.shape, np.nan)
    for i, classes in enumerate(model.classes_):
        for k, c in enumerate(classes):
            found[:, i][[v is not None and v == c for v in y[:, i]]] = k
    return found


@pytest.fixture(scope="module")
def fitted():
    X, y = chain_data()
    return LabelGraphCRF(alpha=0.01).fit(X, with_gaps(y)), X[:25], y[:25]


@pytest.mark.parametrize("graph", ["full", "tree", [], [(0, 2)]])
def test_answers_by_enumeration(graph):
    X, y = chain_data(n=120)
    model = LabelGraphCRF(graph=graph, alpha=0.01).fit(X, with_gaps(y))
    X, y = X[:20], y[:20]
    states, chance = joint(model, X)
    known = with_gaps(y, 0.6, seed=3)
    for y_known in (None, known):
        p = chance if y_known is None else given(states, chance, codes(model, known))
        proba = model.predict_proba(X, y_known=y_known)
        for a, part in enumerate(proba):
            expected = np.stack(
                [p[:, states[:, a] == k].sum(axis=1) for k in range(part.shape[1])], axis=1
            )
            np.testing.assert_allclose(part, expected, atol=1e-8)
        marginal = model.predict(X, y_known=y_known)
        for a, part in enumerate(proba):
            assert (marginal[:, a] == model.classes_[a][part.argmax(axis=1)]).all()
        best = clone(model).set_params(decode="map")
        best.__dict__.update({k: v for k, v in vars(model).items() if k != "decode"})
        found = codes(model, best.predict(X, y_known=y_known))
        np.testing.assert_array_equal(found, states[p.argmax(axis=1)])
        labels, top = model.predict_topk(X, 3, y_known=None)
        np.testing.assert_allclose(top, -np.sort(-chance, axis=1)[:, :3], atol=1e-8)
        np.testing.assert_array_equal(codes(model, labels[:, 0]), states[chance.argmax(axis=1)])


def test_log_likelihood_by_enumeration(fitted):
    model, X, y = fitted
    states, chance = joint(model, X)
    partly = with_gaps(y, 0.5, seed=5)
    agree = given(states, np.ones_like(chance), codes(model, partly)) > 0
    expected = np.log((chance * agree).sum(axis=1))
    np.testing.assert_allclose(model.score_samples(X, partly), expected, atol=1e-8)
    known = with_gaps(y, 0.5, seed=6)
    p = given(states, chance, codes(model, known))
    whole = given(states, np.ones_like(chance), codes(model, y)) > 0
    np.testing.assert_allclose(
        model.score_samples(X, y, y_known=known), np.log((p * whole).sum(axis=1)), atol=1e-8
    )
    other = known.copy()
    other[0, 1] = 3 if y[0, 1] == 7 else 7
    assert model.score_samples(X, y, y_known=other)[0] == -np.inf


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("known_share", [0.0, 0.5])
def test_topk_of_long_label_vectors_by_enumeration(known_share):
    X, Y = make_multilabel_classification(300, 5, n_classes=16, random_state=0)
    model = LabelGraphCRF(alpha=0.05).fit(X, Y)  # a tree of 16 labels
    assert model.inference_ == "exact"
    rng = np.random.default_rng(0)
    known = np.where(rng.random((6, 16)) < known_share, rng.integers(0, 2, (6, 16)), np.nan)
    known[0] = np.r_[np.nan, Y[0, 1:]]  # two vectors are left
    every = all_states(16)
    log_p = model.score_label_sets(X[:6], every, known if known_share else None)
    for k in (1, 3, 40):
        labels, proba = model.predict_topk(X[:6], k, known if known_share else None)
        assert labels.shape == (6, k, 16)
        for row in range(6):
            best = -np.sort(-log_p[row])[:k]
            np.testing.assert_allclose(proba[row], np.exp(best), atol=1e-9)
            own = labels[row][proba[row] > 0]
            place = own @ 2 ** np.arange(15, -1, -1)
            assert len(set(place.tolist())) == len(own) == (best > -np.inf).sum()
            np.testing.assert_allclose(log_p[row, place], np.log(proba[row, : len(own)]))
            assert (labels[row, len(own) :] == -1).all()
    sets = model.predict_topk(X[:6], 3, candidates="label_sets")
    assert (model.set_params(n_jobs=2).predict_topk(X[:6], 3).proba >= sets.proba - 1e-12).all()


def test_topk_of_many_outputs_with_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.cumsum(rng.integers(0, 2, (200, 30)), axis=1) % 4 + (X[:, [0]] > 0)
    model = LabelGraphCRF(alpha=0.05, graph=[(i, i + 1) for i in range(29)]).fit(X, y)
    known = np.full((4, 30), None)
    known[:, ::4] = y[:4, ::4]
    for given_classes in (None, known):
        labels, proba = model.predict_topk(X[:4], 5, given_classes)
        assert (np.diff(proba, axis=1) <= 1e-15).all()
        for rank in range(5):
            log_p = model.score_samples(X[:4], labels[:, rank], given_classes)
            np.testing.assert_allclose(np.log(proba[:, rank]), log_p, atol=1e-8)
        best = model.set_params(decode="map").predict(X[:4], given_classes)
        np.testing.assert_array_equal(labels[:, 0], best)
        assert all(len(np.unique(rows, axis=0)) == 5 for rows in labels)
    assert (labels[:, :, ::4] == y[:4, None, ::4]).all()
    everything = y[:4].astype(object)
    with pytest.raises(ValueError, match=r"fewer than k=2 candidates agree.* smaller k$"):
        model.predict_topk(X[:4], 2, everything)
    with pytest.raises(ValueError, match="k=10000000 is too large for candidates='auto'"):
        model.predict_topk(X[:1], 10**7)


def test_samples_have_the_frequencies_of_the_model(fitted):
    model, X, _ = fitted
    drawn = model.sample(X[:3], 4000, random_state=0)
    assert drawn.shape == (3, 4000, 3)
    states, chance = joint(model, X[:3])
    for row in range(3):
        found = codes(model, drawn[row])
        share = (found[:, None] == states).all(axis=2).mean(axis=0)
        assert np.abs(share - chance[row]).max() < 0.03
    known = np.full((3, 3), None, object)
    known[:, 2] = "q"
    assert (model.sample(X[:3], 50, y_known=known, random_state=0)[..., 2] == "q").all()


@pytest.mark.deep
def test_correlated_outputs_are_predicted_better_than_by_independent_regressions():
    X, y = chain_data(n=800)
    Xt, yt = chain_data(n=2000, seed=9)
    model = LabelGraphCRF(decode="map").fit(X, y)
    independent = LabelGraphCRF(graph=[]).fit(X, y)
    right = [(m.predict(Xt) == yt).all(axis=1).mean() for m in (model, independent)]
    assert right[0] > right[1] + 0.02
    logistic = MultiOutputClassifier(LogisticRegression()).fit(X, np.stack([
        codes(model, y)[:, i] for i in range(3)], axis=1))  # fmt: skip
    single = (logistic.predict(Xt) == codes(model, yt)).mean()
    own = (LabelGraphCRF().fit(X, y).predict(Xt) == yt).mean()
    assert own >= single - 0.003
    assert model.score_samples(Xt, yt).mean() > independent.score_samples(Xt, yt).mean() + 0.3
    # A known first output helps more if the outputs are joined.
    known = np.full(yt.shape, None, object)
    known[:, 0] = yt[:, 0]
    gain = (model.predict(Xt, y_known=known)[:, 2] == yt[:, 2]).mean()
    assert gain > (independent.predict(Xt, y_known=known)[:, 2] == yt[:, 2]).mean() + 0.1


def test_tree_finds_the_edges_that_x_does_not_explain():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    first, second = (X[:, 0] + rng.logistic(0, 0.2, size=600) > 0 for _ in range(2))
    noise = rng.normal(size=600) > 0
    # Labels 0 and 1 agree because of x; labels 2 and 3 agree because of noise.
    y = np.column_stack([first, second, noise, noise])
    y[:, 3] ^= rng.random(600) < 0.1
    assert (first == second).mean() > 0.8
    model = LabelGraphCRF(graph="tree").fit(X, y.astype(int))
    assert [2, 3] in model.edges_.tolist()
    assert len(model.edges_) == 3
    full = LabelGraphCRF().fit(X, y.astype(int))
    assert full.log_odds_ratios_[2, 3] > 3 > 1 > abs(full.log_odds_ratios_[0, 1])
    np.testing.assert_array_equal(model.log_odds_ratios_, model.log_odds_ratios_.T)


def test_independent_labels_are_logistic_regressions():
    X, Y = make_multilabel_classification(200, random_state=0)
    X = StandardScaler().fit_transform(X)
    model = LabelGraphCRF(graph=[], alpha=0.02, max_iter=500).fit(X, Y)
    for i in range(Y.shape[1]):
        single = LogisticRegression(C=1 / (0.02 * 200), tol=1e-8).fit(X, Y[:, i])
        np.testing.assert_allclose(model.visible_coef_[i], single.coef_[0], atol=5e-3)
    rows = LabelGraphCRF(alpha=0.02, max_iter=500).fit(X, Y[:, 0] + 2 * Y[:, 1])
    several = LogisticRegression(C=1 / (0.02 * 200), tol=1e-8).fit(X, Y[:, 0] + 2 * Y[:, 1])
    np.testing.assert_allclose(rows.predict_proba(X), several.predict_proba(X), atol=5e-3)


def test_all_decoding_rules_serve_indicator_matrices():
    X, Y = make_multilabel_classification(150, n_classes=4, random_state=0)
    scores = {}
    for decode in ("marginal", "map", "label_set", "expected_f1", "expected_jaccard", "threshold"):
        model = LabelGraphCRF(decode=decode, random_state=0).fit(X, Y)
        labels = model.predict(X)
        assert labels.shape == Y.shape
        assert set(np.unique(labels)) <= {0, 1}
        scores[decode] = model.score(X, Y)
    assert min(scores.values()) > 0.3
    # MAP by enumeration of p(y | x).
    model = LabelGraphCRF(decode="map").fit(X, Y)
    every = all_states(4)
    log_p = model.score_label_sets(X, every)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1.0)
    if not model.allow_empty_:
        log_p[:, 0] = -np.inf
    np.testing.assert_array_equal(model.predict(X), every[log_p.argmax(axis=1)])


@pytest.mark.parametrize("graph", ["tree", "full"])
def test_long_label_vectors_by_both_energies(graph):
    """Trees of more than ten labels use elimination; their answers agree with enumeration."""
    X, Y = make_multilabel_classification(80, n_classes=11, n_labels=4, random_state=0)
    model = LabelGraphCRF(graph=graph, alpha=0.1).fit(X, Y)
    every = all_states(11)
    p = np.exp(model.score_label_sets(X[:5], every))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X[:5]), p @ every, atol=1e-6)
    pairs = model.predict_pairwise_proba(X[:5])
    np.testing.assert_allclose(pairs, np.einsum("ns,sa,sb->nab", p, every, every), atol=1e-6)


def test_wide_graphs_are_learned_by_pseudo_likelihood():
    X, Y = make_multilabel_classification(120, n_classes=18, n_labels=5, random_state=0)
    model = LabelGraphCRF(graph="full", alpha=0.1).fit(X, Y)
    assert (model.learning_, model.inference_) == ("pseudo_likelihood", "sum_product")
    assert model.predict(X).shape == Y.shape
    assert LabelGraphCRF(alpha=0.1).fit(X, Y).learning_ == "mle"  # "auto" takes a tree
    approximate = LabelGraphCRF(
        graph=[(0, 1), (1, 2), (0, 2)], alpha=0.1, inference=SumProduct(max_iter=50)
    ).fit(X[:, :5], Y)
    assert approximate.learning_ == "mle"
    partly = Y.astype(float)
    partly[0, 0] = np.nan
    with pytest.raises(ValueError, match="needs complete labels"):
        LabelGraphCRF(graph="full", alpha=0.1, learning="pseudo_likelihood").fit(X, partly)


def test_pseudo_likelihood_is_near_the_likelihood():
    X, y = chain_data(n=1500)
    models = [
        LabelGraphCRF(alpha=0.01, learning=how).fit(X, y) for how in ("mle", "pseudo_likelihood")
    ]
    Xt, yt = chain_data(n=500, seed=4)
    exact, pseudo = (model.score_samples(Xt, yt).mean() for model in models)
    assert exact - 0.05 < pseudo < exact + 0.02


@pytest.mark.deep
def test_forests_of_outputs_with_many_classes_are_learned_by_the_likelihood(monkeypatch):
    rng = np.random.default_rng(0)
    first = rng.integers(0, 100, 600)
    y = np.column_stack([first, np.where(rng.random(600) < 0.8, first, rng.integers(0, 100, 600))])
    y[:100] = np.arange(100)[:, None]
    X = rng.normal(size=(600, 2))
    model = LabelGraphCRF(alpha=0.1, max_iter=10).fit(X, y)
    assert (model.learning_, model.inference_) == ("mle", "exact")
    states, chance = joint(model, X[:3])
    for a, proba in enumerate(model.predict_proba(X[:3])):
        wanted = [chance[:, states[:, a] == k].sum(axis=1) for k in range(100)]
        np.testing.assert_allclose(proba, np.transpose(wanted), atol=1e-9)
    monkeypatch.setattr("skcrbm.energies.output_graph._MOST_ENTRIES", 100 * 600)
    model.fit(X, y)  # too many rows for the likelihood
    assert (model.learning_, model.inference_) == ("pseudo_likelihood", "exact")
    assert LabelGraphCRF(alpha=0.1, max_iter=1).fit(X, y % 50).learning_ == "mle"
    full = OutputGraph(np.array([100, 100, 100]), np.array([[0, 1], [0, 2], [1, 2]]))
    assert not full.narrow  # elimination would make tables of 10^6 entries
    assert OutputGraph(np.array([100, 100, 100]), np.array([[0, 1], [0, 2]])).narrow


def test_data_frames_match_columns_by_name_and_keep_names():
    X, y = chain_data(n=100)
    frame = pd.DataFrame(y, columns=["colour", "size", "kind"]).astype({"size": int})
    model = LabelGraphCRF(alpha=0.01, graph=[("kind", "colour")]).fit(X, frame)
    assert model.edges_.tolist() == [[0, 2]]
    assert model.label_names_.tolist() == ["colour", "size", "kind"]
    model.set_label_output("pandas")
    found = model.predict(X)
    assert found.columns.tolist() == ["colour", "size", "kind"]
    assert found["size"].dtype.kind == "i"
    assert list(model.predict_proba(X)[0].columns) == ["b", "g", "r"]
    assert model.score(X, frame[["kind", "colour", "size"]]) == model.score(X, frame)
    known = model.predict(X, y_known=frame[["kind"]])
    assert (known["kind"] == frame["kind"]).all()
    with pytest.raises(ValueError, match="not outputs of this model"):
        model.predict(X, y_known=frame.rename(columns={"kind": "sort"}))


def test_dtype_of_predictions_follows_the_classes():
    X, y = chain_data(n=80)
    letters = np.searchsorted(NAMES[0].astype(str), y[:, 0].astype(str))
    numbers = np.column_stack([letters, y[:, 1].astype(int)])
    assert LabelGraphCRF(alpha=0.1).fit(X, numbers).predict(X).dtype.kind == "i"
    words = y[:, [0, 2]].astype(str)
    assert LabelGraphCRF(alpha=0.1).fit(X, words).predict(X).dtype.kind == "U"
    # Two classes per column, with names, are outputs with classes, and use the binary energies.
    named = np.where(y[:, [0, 2]] == ["r", "p"], "yes", "no")
    model = LabelGraphCRF(alpha=0.1).fit(X, named)
    assert [part.shape for part in model.predict_proba(X)] == [(80, 2), (80, 2)]
    flags = LabelGraphCRF(alpha=0.1).fit(X, (named == "yes").astype(int))
    np.testing.assert_allclose(model.predict_proba(X)[0][:, 1], flags.predict_proba(X)[:, 0])


def test_constant_column_and_few_rows():
    X, y = chain_data(n=12)
    y[:, 1] = 3
    model = LabelGraphCRF().fit(X, y)
    assert (model.predict(X)[:, 1] == 3).all()
    assert model.predict_proba(X)[1].shape == (12, 1)
    np.testing.assert_allclose(model.predict_log_proba(X)[1], 0.0)
    assert LabelGraphCRF(graph="tree").fit(X, y).edges_.shape == (2, 2)


@pytest.mark.parametrize("second", ["a", 7])
def test_score_refuses_classes_of_another_type(second):
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.empty((40, 2), object)
    y[:, 0] = np.arange(40) % 3
    y[:, 1] = [second if i % 2 else 2 * second for i in range(40)]
    model = LabelGraphCRF(alpha=0.1, graph=[]).fit(X, y)
    assert model.score(X, y) > 0
    strings = y.copy()
    strings[:, 0] = list(map(str, y[:, 0]))
    with pytest.raises(ValueError, match="column 0 of y holds the label '0', which is not a class"):
        model.score(X, strings)
    with pytest.raises(ValueError, match="column 1 of y holds the label"):
        model.score(X, np.where(y == second, 5 if second == "a" else "a", y))
    unseen = y.copy()
    unseen[0, 0] = 99  # a class of the right type that was not in the fit is predicted wrongly
    unseen[1, 0] = None
    assert 0 <= model.score(X, unseen) <= 1


def test_unknown_classes_in_y():
    X, y = chain_data(n=100)
    model = LabelGraphCRF(alpha=0.01).fit(X, y)
    other = y.copy()
    other[:, 0] = "new"
    assert model.score(X, other) == 0.0
    with pytest.raises(ValueError, match="not a class of the model"):
        model.predict(X, y_known=other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"graph": [(0, 3)]}, "outputs 0 to 2"),
        ({"graph": [(1, 1)]}, "with itself"),
        ({"graph": [(0, 1, 2)]}, "got the entry"),
        ({"graph": [("colour", 1)]}, "not an index or name"),
        ({"graph": [0, 1]}, "n_edges, 2"),
        ({"decode": "expected_f1"}, "'marginal', 'map'"),
        ({"learning": "cd"}, "learning"),
    ],
)
def test_clear_errors(change, message):
    X, y = chain_data(n=50)
    with pytest.raises(ValueError, match=message):
        LabelGraphCRF(alpha=0.1).set_params(**change).fit(X, y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([["a", 1]] * 30 + [[2, 1]] * 30, object), "column 0 of y mixes labels"),
        (np.full((60, 2), 0.5), "should be classes, got the number 0.5"),
        (np.full((60, 2), np.inf), "column 0 of y"),
        (np.full((60, 2), np.nan), "no observed entry"),
        ([["a", "b"], ["c"]] * 30, "lists of different lengths"),
        (np.full((60, 2), np.datetime64("2020-01-01")), "datetime64"),
    ],
)
def test_clear_errors_about_y(y, message):
    with pytest.raises(ValueError, match=message):
        LabelGraphCRF(alpha=0.1).fit(np.random.default_rng(0).normal(size=(60, 2)), y)


def test_methods_for_indicator_matrices_refuse_classes(fitted):
    model, X, y = fitted
    for call in (
        lambda: model.decision_function(X),
        lambda: model.score_label_sets(X, [[0, 1, 0]]),
        lambda: model.predict_pairwise_proba(X),
    ):
        with pytest.raises(ValueError, match="columns"):
            call()
    y = y.copy()
    y[:, 1] = None
    with pytest.raises(ValueError, match="no observed class"):
        LabelGraphCRF().fit(X, y)


def test_estimators_that_refuse_classes_name_this_one():
    X, y = chain_data(n=50)
    numbers = np.column_stack([codes(LabelGraphCRF(alpha=0.1).fit(X, y), y)]).astype(int)
    for given_y in (y, numbers, y.astype(str), numbers + 5):
        for model in (LMBMClassifier(), MSSVMCRBM()):
            message = f"{type(model).__name__} .*LabelGraphCRF"
            with pytest.raises(ValueError, match=message):
                model.fit(X, given_y)
    for given_y in (y, pd.DataFrame(y)):  # no advice that would change the problem
        with pytest.raises(ValueError, match=r"^LMBMClassifier needs a 0/1 indicator matrix y"):
            LMBMClassifier().fit(X, given_y)


@pytest.mark.parametrize("numbers", [False, True])
def test_wrappers_refuse_columns_of_classes_by_one_error(numbers):
    X, y = chain_data(n=60)
    model = LabelGraphCRF(alpha=0.1)
    if numbers:
        y = np.column_stack([np.unique(column, return_inverse=True)[1] for column in y.T])
    calls = {
        "ConformalLabelSets": ConformalLabelSets(model).fit,
        "ConformalRiskControl": ConformalRiskControl(model).fit,
        "CalibratedMarginals": CalibratedMarginals(model).fit,
        "find_label_issues": partial(find_label_issues, model),
        "Constrained": Constrained(model, [Implies(0, 1)]).fit,
        "OutOfBagLogOdds": OutOfBagLogOdds(model).fit,
        "DecodedClassifier": DecodedClassifier(model).fit,
    }
    for name, call in calls.items():
        wanted = "y must be a 0/1 indicator" if numbers else f"{name} needs a 0/1 indicator"
        with pytest.raises(ValueError, match=rf"^{wanted} matrix.*LabelGraphCRF without"):
            call(X, y)


def test_scikit_learn_tools(fitted):
    X, y = chain_data(n=90)
    model = LabelGraphCRF(alpha=0.01)
    folds = KFold(3)  # with a number, scikit-learn would sort all entries of y, of mixed types
    search = GridSearchCV(model, {"alpha": [0.01, 10.0], "graph": ["tree", []]}, cv=folds).fit(X, y)
    assert search.best_params_["alpha"] == 0.01
    assert cross_val_predict(model, X, y, cv=folds).shape == y.shape
    pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    assert pipeline.predict(X).shape == y.shape
    model = fitted[0]
    again = pickle.loads(pickle.dumps(model))
    for one, other in zip(again.predict_proba(X), model.predict_proba(X)):
        np.testing.assert_array_equal(one, other)
    clone(model).fit(X, y)


def test_more_columns_than_rows_give_the_best_penalised_likelihood():
    X, y = chain_data(n=40)
    X = np.hstack([X, np.random.default_rng(2).normal(size=(40, 60))])
    model = LabelGraphCRF(alpha=0.1, alpha_pairs=0.01, max_iter=1000).fit(X, y)
    assert [part.shape for part in model.visible_coef_] == [(3, 63), (1, 63), (4, 63)]

    def objective(model):
        squares = sum((part**2).sum() for part in model.visible_coef_)
        tables = sum((part**2).sum() for part in model.pair_coef_)
        return -model.score_samples(X, y).mean() + 0.05 * squares + 0.005 * tables

    np.testing.assert_allclose(objective(model), model.loss_curve_[-1], rtol=1e-8)
    # No direction of the coefficients of the given columns lowers the objective.
    rng = np.random.default_rng(3)
    best = objective(model)
    params = model._model.params
    for _ in range(5):
        step = 1e-2 * rng.normal(size=params.coef.shape)
        near = pickle.loads(pickle.dumps(model))
        near._model = model._model._replace(params=params._replace(coef=params.coef + step))
        near.visible_coef_ = [near._model.params.coef]
        assert objective(near) > best


def test_a_warm_start_continues_from_the_fit():
    X, y = chain_data()
    model = LabelGraphCRF(max_iter=500, warm_start=True).fit(X, y)
    first = model.n_iter_, model.loss_curve_[-1], model.alpha_, model.edges_
    model.fit(X, y)
    assert model.n_iter_ < first[0] / 2
    np.testing.assert_allclose(model.loss_curve_[0], first[1], rtol=1e-3)
    assert model.alpha_ == first[2]
    np.testing.assert_array_equal(model.edges_, first[3])
    model.set_params(graph=[[0, 1]])
    with pytest.raises(ValueError, match="but the model was fitted with graph='auto'"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="early_stopping is for stochastic solvers"):
        LabelGraphCRF(early_stopping=True).fit(X, y)


@pytest.mark.parametrize("solver", ["adam", "asgd", deep("sgd")])
def test_stochastic_solvers_come_near_the_optimum(solver):
    X, y = chain_data()
    best = LabelGraphCRF(alpha=0.01, alpha_pairs=0.01, max_iter=500).fit(X, y)
    model = LabelGraphCRF(
        alpha=0.01, alpha_pairs=0.01, solver=solver, max_iter=60, random_state=0
    ).fit(X, y)
    assert best.score_samples(X, y).mean() - model.score_samples(X, y).mean() < 0.04


@pytest.mark.parametrize("graph", ["auto", "tree"])
def test_partial_fit_comes_near_a_fit(graph):
    X, y = chain_data()
    whole = LabelGraphCRF(graph=graph).fit(X, y)
    model = LabelGraphCRF(graph=graph, random_state=0)
    for _ in range(10):
        for rows in np.array_split(np.arange(len(X)), 4):
            model.partial_fit(X[rows], y[rows], classes=NAMES)
    assert whole.score_samples(X, y).mean() - model.score_samples(X, y).mean() < 0.12
    assert len(model.loss_curve_) == 40
    again = LabelGraphCRF(graph=graph, random_state=0)
    for rows in np.array_split(np.arange(len(X)), 4):
        again.partial_fit(X[rows], y[rows], classes=NAMES)
    assert model.loss_curve_[:4] == again.loss_curve_
    with pytest.raises(ValueError, match="differ from the classes of the first call"):
        model.partial_fit(X, y, classes=[NAMES[0], [3, 8], NAMES[2]])


def test_partial_fit_of_an_indicator():
    X, y = make_multilabel_classification(200, 5, n_classes=4, random_state=0)
    X = StandardScaler().fit_transform(X)
    model = LabelGraphCRF(random_state=0)
    for rows in np.array_split(np.arange(200), 2):
        model.partial_fit(X[rows], y[rows])
    assert len(model.label_sets_) == len(np.unique(y, axis=0))
    with pytest.raises(ValueError, match="partial_fit does not support decode='threshold'"):
        model.set_params(decode="threshold").partial_fit(X, y)
    with pytest.raises(ValueError, match="solver='lbfgs'"):
        LabelGraphCRF(solver="lbfgs").partial_fit(X, y)


@pytest.mark.quick_cases(21)
@pytest.mark.compiled
@parametrize_with_checks([LabelGraphCRF(alpha=1e-3)])
def test_estimator(estimator, check):
    run_check(estimator, check)


@pytest.mark.deep
@pytest.mark.compiled
@parametrize_with_checks([LabelGraphCRF()])
def test_default_estimator(estimator, check):
    run_check(estimator, check)
