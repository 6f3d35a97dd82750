"""Decoders of the largest expected metric against search over all label vectors."""

import copy
import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference.random_models import random_rbm
from scipy.special import softmax
from sklearn.metrics import f1_score, jaccard_score

from skcrbm import MSSVMCRBM, CRBMClassifier
from skcrbm.decoding import (
    DECODERS,
    Decoding,
    decode_label_sets,
    decode_marginals,
    decode_samples,
)
from skcrbm.energies import RBMEnergy
from skcrbm.inference import Exact

METRICS = ("jaccard", "f1")


def utility(metric, y, v, zero_division):
    both, either = np.sum(y * v), np.sum(np.maximum(y, v))
    if either == 0:
        return zero_division
    return both / either if metric == "jaccard" else 2 * both / (y.sum() + v.sum())


def all_vectors(n_labels):
    return np.array(list(product((0, 1), repeat=n_labels)))


def expected(metric, v, judges, weight, zero_division):
    return sum(
        w * utility(metric, y, v, zero_division) for y, w in zip(judges, weight, strict=True)
    )


def assert_best(metric, v, candidates, judges, weight, zero_division):
    values = [expected(metric, c, judges, weight, zero_division) for c in candidates]
    mine = expected(metric, v, judges, weight, zero_division)
    assert mine >= max(values) - 1e-10


def independent_weights(p, judges):
    return np.prod(np.where(judges == 1, p, 1 - p), axis=1)


@pytest.mark.parametrize("metric", METRICS)
def test_utility_is_that_of_scikit_learn(metric):
    score = {"jaccard": jaccard_score, "f1": f1_score}[metric]
    rng = np.random.default_rng(0)
    for _ in range(20):
        y, v = rng.integers(0, 2, (2, 1, 3))
        for zero_division in (0.0, 1.0):
            reference = score(y, v, average="samples", zero_division=zero_division)
            assert utility(metric, y[0], v[0], zero_division) == pytest.approx(reference)


@settings(max_examples=60, deadline=None)
@given(
    p=st.integers(1, 6).flatmap(
        lambda n: arrays(
            float,
            (2, n),
            elements=st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 0.5, 1e-9])),
        )
    ),
    metric=st.sampled_from(METRICS),
    zero_division=st.sampled_from([0.0, 1.0]),
)
def test_marginals(p, metric, zero_division):
    result = decode_marginals(p, metric, zero_division=zero_division)
    vectors = all_vectors(p.shape[1])
    for v, row in zip(result, p, strict=True):
        weight = independent_weights(row, vectors)
        assert_best(metric, v, vectors, vectors, weight, zero_division)
        if zero_division or row.any():
            assert (v[row == 1] == 1).all()
        assert (v[row == 0] == 0).all()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_labels=st.integers(1, 6),
    sharpness=st.sampled_from([0.0, 1.0, 10.0]),
    metric=st.sampled_from(METRICS),
    zero_division=st.sampled_from([0.0, 1.0]),
)
def test_label_sets(seed, n_labels, sharpness, metric, zero_division):
    rng = np.random.default_rng(seed)
    sets = np.unique(rng.integers(0, 2, (7, n_labels)), axis=0)
    weight = softmax(sharpness * rng.normal(size=(3, len(sets))), axis=1)
    result = decode_label_sets(sets, 3 * weight, metric, zero_division=zero_division)
    candidates = sets if metric == "jaccard" else all_vectors(n_labels)
    for v, w in zip(result, weight, strict=True):
        assert_best(metric, v, candidates, sets, w, zero_division)
        if metric == "jaccard":
            assert (v == sets).all(axis=1).any()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_labels=st.integers(1, 6),
    metric=st.sampled_from(METRICS),
    zero_division=st.sampled_from([0.0, 1.0]),
)
def test_samples(seed, n_labels, metric, zero_division):
    rng = np.random.default_rng(seed)
    share = rng.random(n_labels)
    samples = (rng.random((3, 9, n_labels)) < share).astype(int)
    result = decode_samples(samples, metric, zero_division=zero_division)
    for v, drawn in zip(result, samples, strict=True):
        weight = np.full(len(drawn), 1 / len(drawn))
        order = np.argsort(-drawn.sum(axis=0), kind="stable")
        top = np.zeros((n_labels + 1, n_labels), int)
        for k in range(n_labels + 1):
            top[k, order[:k]] = 1
        candidates = np.vstack([drawn, top]) if metric == "jaccard" else all_vectors(n_labels)
        assert_best(metric, v, candidates, drawn, weight, zero_division)


def test_label_sets_and_samples_agree():
    """The samples that hold each set as often as its weight says."""
    rng = np.random.default_rng(0)
    sets = np.unique(rng.integers(0, 2, (10, 5)), axis=0)
    count = rng.integers(1, 5, len(sets))
    drawn = np.repeat(sets, count, axis=0)[None]
    np.testing.assert_array_equal(
        decode_samples(drawn, "f1"), decode_label_sets(sets, count[None].astype(float), "f1")
    )


def test_weights_of_label_sets_need_no_common_scale():
    sets = [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    for metric in METRICS:
        expected = decode_label_sets(sets, [[0.3, 0.3, 0.4]], metric)
        huge = decode_label_sets(sets, [[0.9e308, 0.9e308, 1.2e308]], metric)
        np.testing.assert_array_equal(huge, expected)


def test_many_independent_labels():
    """Stable where the number of labels is large and the probabilities are extreme."""
    rng = np.random.default_rng(0)
    p = np.sort(rng.beta(0.1, 0.3, (3, 100)), axis=1)[:, ::-1]
    drawn = (rng.random((3, 3000, 100)) < p[:, None, :]).astype(int)
    for metric in METRICS:
        size = decode_marginals(p, metric).sum(axis=1)
        values = np.empty((3, 101))
        for k in range(101):
            v = np.arange(100) < k
            both, n_on = (drawn * v).sum(axis=2), drawn.sum(axis=2)
            union = np.maximum(n_on + k - both, 1)
            value = both / union if metric == "jaccard" else 2 * both / np.maximum(n_on + k, 1)
            values[:, k] = value.mean(axis=1)
        best, mine = values.max(axis=1), values[np.arange(3), size]
        # One standard error of the estimates is below 0.003.
        assert (best - mine < 0.01).all()


def test_ties_go_to_the_fewest_and_first_labels():
    p = np.full((1, 4), 0.5)
    for metric in METRICS:
        result = decode_marginals(p, metric)
        k = result.sum()
        np.testing.assert_array_equal(result[0], np.arange(4) < k)
    sets = np.eye(4)
    np.testing.assert_array_equal(decode_label_sets(sets, [[1, 2, 2, 1]]), [[0, 1, 0, 0]])
    # One label of four, each alone: 1/4 with one label on, 2 * 1/4 * 2/3 with two, ...
    np.testing.assert_array_equal(decode_label_sets(sets, [[1.0] * 4], "f1"), [[1, 1, 1, 1]])
    # Nothing is ever right: the empty vector.
    for metric in METRICS:
        zero = decode_marginals(np.zeros((1, 3)), metric, zero_division=0)
        np.testing.assert_array_equal(zero, [[0, 0, 0]])


def test_rows_do_not_depend_on_each_other():
    rng = np.random.default_rng(0)
    p = rng.random((40, 7))
    for metric in METRICS:
        whole = decode_marginals(p, metric)
        parts = [decode_marginals(p[[n]], metric) for n in range(40)]
        np.testing.assert_array_equal(whole, np.vstack(parts))


def test_list_of_arrays():
    p = np.random.default_rng(0).random((6, 3))
    as_list = [np.column_stack([1 - q, q]) for q in p.T]
    np.testing.assert_array_equal(decode_marginals(as_list), decode_marginals(p))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: decode_marginals([[0.1, 2.0]]), r"proba must hold probabilities in \[0, 1\]"),
        (lambda: decode_marginals([0.1, 0.2]), r"proba must have shape \(n_samples, n_labels\)"),
        (lambda: decode_marginals([[np.nan]]), "proba must be finite"),
        (lambda: decode_marginals([[0.1]], "hamming"), "metric must be one of 'f1', 'jaccard'"),
        (lambda: decode_marginals([[0.1]], zero_division=0.5), "zero_division must be 0 or 1"),
        (lambda: decode_marginals([np.ones((2, 3))]), r"one array of shape \(n_samples, 2\)"),
        (lambda: decode_marginals(np.ones((2, 0))), "at least one label"),
        (lambda: decode_label_sets([[0, 2]], [[1.0]]), "label_sets must hold 0 and 1 only"),
        (lambda: decode_label_sets([[0, 1]], [[1.0, 2.0]]), "one column for each of the label"),
        (lambda: decode_label_sets([[0, 1]], [[0.0]]), "not all 0 in a row"),
        (lambda: decode_samples([[0, 1]]), r"samples must have shape"),
        (lambda: decode_samples(np.zeros((2, 0, 3))), "at least one draw"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ------------------------------------------------------------- as rules of a model

N, V, H = 12, 5, 3


def make_decoding(known=None):
    sets = np.array([[0, 0, 0, 0, 0], [1, 0, 0, 1, 0], [0, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int8)
    return Decoding(random_rbm(0, V, H, N, scale=2.0), Exact(), known, sets, None)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 1.1])
def test_rule_under_known_labels(metric, share):
    """The best vector that agrees with what is known, under the sets that do."""
    rng = np.random.default_rng(1)
    known = rng.integers(0, 2, (N, V)).astype(float)
    known[rng.random(known.shape) > share] = np.nan
    decoding = make_decoding(known)
    energy = decoding.energy
    result = DECODERS.get(f"expected_{metric}")(decoding)
    for n in range(N):
        agrees = (np.isnan(known[n]) | (decoding.label_sets == known[n])).all(axis=1)
        sets = decoding.label_sets[agrees]
        if not agrees.any():
            sets = np.where(np.isnan(known[n]), decoding.label_sets, known[n])
            sets = np.unique(sets, axis=0).astype(int)
        inputs = energy.hidden_bias[n] + sets @ energy.weights
        score = sets @ energy.visible_bias[n] + np.log1p(np.exp(inputs)).sum(axis=1)
        vectors = all_vectors(V)
        vectors = vectors[(np.isnan(known[n]) | (vectors == known[n])).all(axis=1)]
        candidates = sets if metric == "jaccard" else vectors
        assert (np.isnan(known[n]) | (result[n] == known[n])).all()
        assert_best(metric, result[n], candidates, sets, softmax(score), 1.0)


def test_label_set_that_contradicts_what_is_known_is_no_candidate():
    """Even if it has more in common with those that agree than these with each other."""
    n_sets, n_own = 7, 3
    sets = np.zeros((n_sets + 1, 5 + n_own * n_sets), np.int8)
    sets[:, 1:5] = 1
    sets[:n_sets, 5:] = np.repeat(np.eye(n_sets), n_own, axis=1)
    sets[n_sets, 0] = 1
    n_labels = sets.shape[1]
    known = np.full((1, n_labels), np.nan)
    known[0, 0] = 0
    energy = RBMEnergy(np.zeros((n_labels, 1)), np.zeros((1, n_labels)), np.zeros((1, 1)))
    found = DECODERS.get("expected_jaccard")(Decoding(energy, Exact(), known, sets, None))
    np.testing.assert_array_equal(found, sets[:1])


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.RandomState(0)
    X = rng.randn(150, 4)
    base = X @ rng.randn(4, 2) + 2 * rng.randn(150, 2)
    Y = (base[:, [0, 0, 1, 1, 1]] + 0.3 * rng.randn(150, 5) > 0).astype(int)
    return CRBMClassifier(n_hidden=3, max_iter=60, random_state=0).fit(X, Y), X, Y


@pytest.mark.parametrize("metric", METRICS)
def test_rule_through_the_estimator(fitted, metric):
    model, X, _ = fitted
    model = copy.copy(model).set_params(decode=f"expected_{metric}")
    found, sets = model.predict(X[:20]), model.label_sets_
    for x, v in zip(X[:20], found, strict=True):
        inputs = model.hidden_intercept_ + model.hidden_coef_ @ x + sets @ model.weights_
        linear = sets @ (model.intercept_ + model.coef_ @ x)
        weight = softmax(linear + np.log1p(np.exp(inputs)).sum(axis=1))
        candidates = sets if metric == "jaccard" else all_vectors(5)
        assert_best(metric, v, candidates, sets, weight, 1.0)


@pytest.mark.parametrize("hidden", ["marginal", "max"])
def test_max_margin_learner(fitted, hidden):
    _, X, Y = fitted
    model = MSSVMCRBM(n_hidden=3, hidden=hidden, inference="exact", max_iter=10, random_state=0)
    model.fit(X, Y)
    for metric in METRICS:
        found = model.set_params(decode=f"expected_{metric}").predict(X)
        assert (found == Y).mean() > 0.6


@pytest.mark.parametrize("decode", ["expected_jaccard", "expected_f1"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_class_vector_is_decoded_to_the_best_class(decode, n_classes):
    X = np.random.default_rng(0).normal(size=(30, 3))
    y = np.arange(30) % n_classes
    model = CRBMClassifier(max_iter=3, random_state=0).fit(X, y)
    plain = model.predict(X)
    np.testing.assert_array_equal(model.set_params(decode=decode).predict(X), plain)


def test_speed():
    """917 rows, 200 label sets, 14 labels: some 50 ms."""
    rng = np.random.default_rng(0)
    sets = np.unique(rng.integers(0, 2, (200, 14)), axis=0)
    weight = softmax(rng.normal(size=(917, len(sets))), axis=1)
    start = time.perf_counter()
    for metric in METRICS:
        decode_label_sets(sets, weight, metric)
        decode_marginals(weight[:, :14], metric)
    assert time.perf_counter() - start < 2.0
