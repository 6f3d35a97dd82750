"""The label to ask for next: gains by brute force, costs, scopes, stop rule and errors."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from reference.states import all_states
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier, LMBMClassifier
from skcrbm.annotation import suggest_labels
from skcrbm.datasets import make_structured_labels

NAN = float("nan")
N_LABELS = 4


@pytest.fixture(scope="module")
def data():
    return make_structured_labels(300, n_labels=N_LABELS, strength=1.5, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    X, Y = data
    return CRBMClassifier(alpha=0.03, random_state=0).fit(X[:200], Y[:200])


def entropy(p):
    p = np.asarray(p)
    return -(p[p > 0] * np.log(p[p > 0])).sum()


def information(model, x, known, label):
    """I(y_label; other labels | x, known) by enumeration, H(others) - E H(others | y_label)."""
    vectors = all_states(N_LABELS)
    agrees = np.isnan(known) | (vectors == known)
    vectors = vectors[agrees.all(axis=1)]
    p = np.exp([model.score_samples(x[None], [y])[0] for y in vectors])
    p /= p.sum()
    others = {}
    for y, q in zip(np.delete(vectors, label, axis=1), p):
        others[tuple(y)] = others.get(tuple(y), 0) + q
    left = 0
    for value in (0, 1):
        part = p[vectors[:, label] == value]
        if part.sum() > 0:
            left += part.sum() * entropy(part / part.sum())
    return entropy(list(others.values())) - left


def test_gains_are_the_mutual_information(data, model):
    X, _ = data
    known = np.array([[NAN, NAN, NAN, NAN], [NAN, 1, NAN, NAN], [0, NAN, NAN, 1]])
    found = suggest_labels(model, X[200:203], known)
    for i, k in product(range(3), range(N_LABELS)):
        if not np.isnan(known[i, k]):
            assert np.isnan(found.all_gains[i, k])
            continue
        expected = information(model, X[200 + i], known[i], k)
        assert found.all_gains[i, k] == pytest.approx(expected, abs=1e-5)
    np.testing.assert_array_equal(found.labels, np.nanargmax(found.all_gains, axis=1))


def test_gains_in_expected_f1(data, model):
    """The expected F1 of the best labels after the answer minus before it, by enumeration."""
    X, _ = data
    vectors = all_states(N_LABELS)
    size = vectors.sum(axis=1)
    f1 = 2 * (vectors @ vectors.T) / np.maximum(size[:, None] + size, 1)  # prediction by truth
    known = np.array([[NAN, NAN, NAN, NAN], [NAN, 1, NAN, NAN], [0, NAN, NAN, 1]])
    found = suggest_labels(model, X[200:203], known, strategy="expected_f1")
    for i in range(3):
        agrees = (np.isnan(known[i]) | (vectors == known[i])).all(axis=1)
        p = np.exp(model.score_label_sets(X[200 + i : 201 + i], vectors)[0]) * agrees
        p /= p.sum()
        for k in np.flatnonzero(np.isnan(known[i])):
            after = sum((f1 @ (p * (vectors[:, k] == value))).max() for value in (0, 1))
            expected = after - (f1 @ p).max()
            assert found.all_gains[i, k] == pytest.approx(expected, abs=1e-6)
    assert np.isnan(found.all_gains[1, 1])
    assert np.nanmin(found.all_gains) >= 0


def test_entropy_of_any_classifier(data, model):
    X, Y = data
    logistic = MultiOutputClassifier(LogisticRegression()).fit(X[:200], Y[:200])
    proba = np.column_stack([p[:, 1] for p in logistic.predict_proba(X[200:])])
    found = suggest_labels(logistic, X[200:], strategy="entropy")
    np.testing.assert_array_equal(found.labels, np.abs(proba - 0.5).argmin(axis=1))
    known = np.full((100, N_LABELS), NAN)
    known[:, 2] = Y[200:, 2]
    given = suggest_labels(model, X[200:], known, strategy="entropy").all_gains[:, 0]
    p = model.predict_proba(X[200:], known)[:, 0]
    np.testing.assert_allclose(given, -p * np.log(p) - (1 - p) * np.log(1 - p), rtol=1e-6)


def test_gains_are_the_information_that_answers_give():
    """The mean of log p(others | x, label) - log p(others | x) estimates the information."""
    X, Y = make_structured_labels(2000, n_labels=6, structure="groups", strength=2, random_state=0)
    model = CRBMClassifier(alpha=0.01, random_state=0).fit(X[:1000], Y[:1000])
    X, Y, rows = X[1000:], Y[1000:].astype(float), np.arange(1000)
    gains = suggest_labels(model, X).all_gains
    told = []
    for asked in (gains.argmax(axis=1), gains.argmin(axis=1)):
        known = np.full(Y.shape, NAN)
        known[rows, asked] = Y[rows, asked]
        others = Y.copy()
        others[rows, asked] = NAN
        given = model.score_samples(X, Y, known) - model.score_samples(X, others)
        error = given.std() / np.sqrt(len(rows))
        assert abs(given.mean() - gains[rows, asked].mean()) < 4 * error + 0.03
        told.append(given.mean())
    assert told[0] > 2 * told[1]


def test_scopes_costs_and_the_stop_rule(data, model):
    X, _ = data
    X = X[200:220]
    gains = suggest_labels(model, X).all_gains
    two = suggest_labels(model, X, n=2)
    assert two.rows.tolist() == np.repeat(np.arange(20), 2).tolist()
    best = np.argsort(-gains, axis=1)[:, :2]
    np.testing.assert_array_equal(two.labels.reshape(20, 2), best)
    corpus = suggest_labels(model, X, n=5, scope="corpus")
    np.testing.assert_allclose(corpus.gains, np.sort(gains.ravel())[::-1][:5])
    apart = suggest_labels(model, X, n=20, scope="corpus", max_per_row=1)
    assert sorted(apart.rows) == list(range(20))
    cost = np.array([1.0, 2.0, 1.0, 1000.0])
    np.testing.assert_allclose(suggest_labels(model, X, cost=cost).all_gains, gains / cost)
    assert 3 not in suggest_labels(model, X, cost=cost).labels
    for values in (pd.Series(cost[::-1], [3, 2, 1, 0]), {2: 1.0, 3: 1000.0, 0: 1.0, 1: 2.0}):
        np.testing.assert_allclose(suggest_labels(model, X, cost=values).all_gains, gains / cost)
    middle = float(np.median(gains))
    some = suggest_labels(model, X, n=N_LABELS, min_gain=middle)
    assert len(some.rows) == (gains >= middle).sum()
    assert len(suggest_labels(model, X, min_gain=100.0).rows) == 0
    known = np.zeros((20, N_LABELS))
    assert len(suggest_labels(model, X, known).rows) == 0


def test_names_and_pipelines(data):
    X, Y = data
    names = list("abcd")
    piped = make_pipeline(StandardScaler(), LMBMClassifier(C=0.1))
    piped.fit(X[:200], pd.DataFrame(Y[:200], columns=names))
    known = pd.DataFrame({"d": Y[200:, 3]})
    found = suggest_labels(piped, X[200:], known)
    assert found.names.tolist() == names
    assert 3 not in found.labels
    array = np.full((100, N_LABELS), NAN)
    array[:, 3] = Y[200:, 3]
    np.testing.assert_array_equal(found.labels, suggest_labels(piped, X[200:], array).labels)


def test_errors(data, model):
    X, Y = data
    logistic = MultiOutputClassifier(LogisticRegression()).fit(X, Y)
    for strategy in ("mutual_information", "expected_f1"):
        with pytest.raises(ValueError, match=f'strategy="{strategy}" .* Use strategy="entropy"'):
            suggest_labels(logistic, X, strategy=strategy)
    many = MultiOutputClassifier(LogisticRegression()).fit(X, np.hstack(4 * [Y]))
    with pytest.raises(ValueError, match="all vectors of up to 14 labels, got 16"):
        suggest_labels(many, X, strategy="expected_f1")
    with pytest.raises(ValueError, match=r"cost must have shape \(4,\) or \(300, 4\)"):
        suggest_labels(model, X, cost=[1, 2])
    with pytest.raises(ValueError, match=r"cost must have shape \(4,\) .* and hold numbers"):
        suggest_labels(model, X, cost=["a", "b", "c", "d"])
    with pytest.raises(ValueError, match=r"cost has values for the labels 'a', but the labels are"):
        suggest_labels(model, X, cost={"a": 1})
    with pytest.raises(ValueError, match="cost must hold positive"):
        suggest_labels(model, X, cost=[1, 2, 0, 1])
    with pytest.raises(ValueError, match=r"y_known must have shape \(2, 4\)"):
        suggest_labels(model, X[:2], [[1, NAN], [0, NAN]])
    with pytest.raises(ValueError, match="suggest_labels is for 2-D y"):
        suggest_labels(CRBMClassifier(alpha=0.1).fit(X, Y[:, 0]), X)
    wide = np.tile(Y, 6)
    with pytest.raises(ValueError, match="up to 20 labels, got 24"):
        suggest_labels(CRBMClassifier(alpha=0.1, n_hidden=2, max_iter=3).fit(X, wide), X)
