"""Decoders of the largest expected metric against search over all label vectors."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference.states import all_states
from scipy.special import softmax
from sklearn.metrics import f1_score, jaccard_score

from skcrbm import MSSVMCRBM, CRBMClassifier
from skcrbm.decoding import decode_label_sets, decode_marginals, decode_samples
from skcrbm.decoding import expected as expectations
from skcrbm.decoding.expected import SIZES_AT_ONCE

METRICS = ("jaccard", "f1")


def utility(metric, y, v, zero_division):
    both, either = np.sum(y * v), np.sum(np.maximum(y, v))
    if either == 0:
        return zero_division
    return both / either if metric == "jaccard" else 2 * both / (y.sum() + v.sum())


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


@pytest.mark.deep
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
    vectors = all_states(p.shape[1])
    for v, row in zip(result, p, strict=True):
        weight = independent_weights(row, vectors)
        assert_best(metric, v, vectors, vectors, weight, zero_division)
        if zero_division or row.any():
            assert (v[row == 1] == 1).all()
        assert (v[row == 0] == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_may_be_off_by_rounding(dtype):
    one, eps = dtype(1), np.finfo(dtype).eps
    p = np.array([[one + eps, 0.3, -eps], [0.2, one, 0]], dtype)
    for metric in METRICS:
        exact = decode_marginals(np.clip(p, 0, 1), metric)
        np.testing.assert_array_equal(decode_marginals(p, metric), exact)
    with pytest.raises(ValueError, match="probabilities in"):
        decode_marginals(p + dtype(100) * eps)


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
    candidates = sets if metric == "jaccard" else all_states(n_labels)
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
        candidates = np.vstack([drawn, top]) if metric == "jaccard" else all_states(n_labels)
        assert_best(metric, v, candidates, drawn, weight, zero_division)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_labels=st.integers(2, 5),
    metric=st.sampled_from(METRICS),
    zero_division=st.sampled_from([0.0, 1.0]),
)
def test_without_the_empty_vector(seed, n_labels, metric, zero_division):
    """The best vector with a label on, unless no label is possible."""
    rng = np.random.default_rng(seed)
    options = {"zero_division": zero_division, "allow_empty": False}
    vectors = all_states(n_labels)
    p = rng.random((3, n_labels)) ** 4
    p[2] = 0
    found = decode_marginals(p, metric, **options)
    for v, row in zip(found[:2], p, strict=False):
        weight = independent_weights(row, vectors)
        assert v.any()
        assert_best(metric, v, vectors[1:], vectors, weight, zero_division)
    sets = np.unique(
        np.vstack([np.zeros(n_labels), vectors[rng.integers(1, 2**n_labels, 4)]]), axis=0
    )
    weight = rng.random((3, len(sets)))
    weight[:, 0] += 3
    weight[2, 1:] = 0
    weight /= weight.sum(axis=1, keepdims=True)
    found_sets = decode_label_sets(sets, weight, metric, **options)
    candidates = sets[1:] if metric == "jaccard" else vectors[1:]
    for v, w in zip(found_sets[:2], weight, strict=False):
        assert v.any()
        assert_best(metric, v, candidates, sets, w, zero_division)
    drawn = sets[rng.integers(0, len(sets), (3, 6))] * (rng.random((3, 6, 1)) < 0.4)
    drawn[:2, 0] = sets[1]
    drawn[2] = 0
    found_drawn = decode_samples(drawn, metric, **options)
    for v, judges in zip(found_drawn[:2], drawn, strict=False):
        assert v.any()
        share = np.full(6, 1 / 6)
        candidates = judges[judges.any(axis=1)] if metric == "jaccard" else vectors[1:]
        assert_best(metric, v, candidates, judges, share, zero_division)
    for last in (found[2], found_sets[2], found_drawn[2]):
        assert not last.any()


def test_a_single_label_may_be_off():
    for metric in METRICS:
        np.testing.assert_array_equal(decode_marginals([[0.1]], metric, allow_empty=False), 0)
        one = decode_label_sets([[0], [1]], [[0.9, 0.1]], metric, allow_empty=False)
        np.testing.assert_array_equal(one, 0)
        one = decode_samples([[[0], [0], [0], [1]]], metric, allow_empty=False)
        np.testing.assert_array_equal(one, 0)


def test_accuracy_for_many_labels():
    """The value of the choice of 60 labels by recursion over labels, within 1e-4 of the best."""
    rng = np.random.default_rng(1)
    p = np.sort(rng.beta(0.3, 1.5, (4, 60)), axis=1)[:, ::-1]
    for row in p:
        sizes = np.zeros((61, 61))  # [k, s]: P(s labels on from the k-th on)
        sizes[60, 0] = 1
        for i in range(59, -1, -1):
            sizes[i] = sizes[i + 1] * (1 - row[i])
            sizes[i, 1:] += sizes[i + 1, :-1] * row[i]
        first = np.zeros((61, 61))
        first[0, 0] = 1
        for i in range(60):
            first[i + 1] = first[i] * (1 - row[i])
            first[i + 1, 1:] += first[i, :-1] * row[i]
        c, s = np.arange(61)[:, None], np.arange(61)
        for metric in METRICS:
            value = np.empty(61)
            for k in range(61):
                bottom = k + s if metric == "jaccard" else (k + c + s) / 2
                ratio = np.where(bottom == 0, 1.0, c / np.where(bottom == 0, 1, bottom))
                ratio = np.where((bottom == 0) & (c + s == 0), 1.0, ratio)
                value[k] = first[k] @ ratio @ sizes[k]
            k = decode_marginals(row[None], metric).sum()
            assert value[k] >= value.max() - 1e-4


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
    """Stable if the number of labels is large and the probabilities are extreme."""
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
    # A single label of four is on: 1/4 with one label on, 2 * 1/4 * 2/3 with two, ...
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
        (
            lambda: decode_marginals([[0.1]], "hamming"),
            "metric must be one of 'f1_samples', 'jaccard_samples'",
        ),
        (lambda: decode_marginals([[0.1]], zero_division=0.5), "zero_division must be 0 or 1"),
        (lambda: decode_marginals([np.ones((2, 3))]), r"one array of shape \(n_samples, 2\)"),
        (lambda: decode_marginals(np.ones((2, 0))), "at least one label"),
        (lambda: decode_label_sets([[0, 2]], [[1.0]]), "label_sets must hold 0 and 1 only"),
        (lambda: decode_label_sets([[0, 1]], [[1.0, 2.0]]), "one column for each label set"),
        (lambda: decode_label_sets([[0, 1]], [[0.0]]), "a positive entry in each row"),
        (lambda: decode_samples([[0, 1]]), r"samples must have shape"),
        (lambda: decode_samples(np.zeros((2, 0, 3))), "at least one draw"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ------------------------------------------------------------- through the estimators


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.RandomState(0)
    X = rng.randn(150, 4)
    base = X @ rng.randn(4, 2) + 2 * rng.randn(150, 2)
    Y = (base[:, [0, 0, 1, 1, 1]] + 0.3 * rng.randn(150, 5) > 0).astype(int)
    return CRBMClassifier(n_hidden=3, max_iter=60, random_state=0).fit(X, Y), X, Y


@pytest.mark.parametrize("hidden", ["marginal", "max"])
def test_max_margin_learner(fitted, hidden):
    _, X, Y = fitted
    model = MSSVMCRBM(n_hidden=3, hidden=hidden, inference="exact", max_iter=40, random_state=0)
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


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("metric", METRICS)
def test_many_rows(metric):
    """Thousands of rows, more than a block: each is decided alone, and by the best."""
    rng = np.random.default_rng(0)
    sets = np.unique(rng.integers(0, 2, (200, 14)), axis=0)
    weight = softmax(3 * rng.normal(size=(10000, len(sets))), axis=1)
    for decode in (
        lambda rows: decode_label_sets(sets, weight[rows], metric),
        lambda rows: decode_marginals(weight[rows] @ sets, metric),
    ):
        found = decode(slice(None))
        assert len(np.unique(found, axis=0)) > 20
        for row in (0, 5000, 9999):
            np.testing.assert_array_equal(found[row], decode(slice(row, row + 1))[0])
    if metric == "jaccard":
        found = decode_label_sets(sets, weight[:3], metric)
        for v, w in zip(found, weight[:3], strict=True):
            assert_best(metric, v, sets, sets, w, 1.0)


def test_memory_does_not_grow_with_rows():
    """Besides the result, F1 holds the tables of a single block of rows."""
    peaks = []
    for n in (30000, 90000):
        proba = np.random.default_rng(0).random((n, 14))
        tracemalloc.start()
        try:
            result = decode_marginals(proba, "f1")
            peaks.append(tracemalloc.get_traced_memory()[1] - result.nbytes)
        finally:
            tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.parametrize("sharpness", [0.0, 3.0, 40.0])
def test_sizes_end_where_their_bound_does(sharpness):
    """With hundreds of labels the best of all label vectors is found, wherever its size lies.

    The rows hold a few labels, about half of the labels, or all of them, so that the search over
    the sizes ends in its first, a middle or its last block.
    """
    rng = np.random.default_rng(0)
    n_labels, n_sets = 3 * SIZES_AT_ONCE + 7, 30
    share = np.repeat([0.01, 0.5, 0.99], n_sets // 3)
    sets = np.unique((rng.random((n_sets, n_labels)) < share[:, None]).astype(float), axis=0)
    logits = rng.normal(size=(40, len(sets))) * sharpness
    logits[:10, sets.mean(axis=1) > 0.1] = -np.inf
    logits[10:20, sets.mean(axis=1) < 0.9] = -np.inf
    weight = softmax(logits, axis=1)
    found = decode_label_sets(sets, weight, "f1", zero_division=0.0)
    sizes = np.arange(1, n_labels + 1)
    gain = np.einsum("ns,ks,sl->nkl", weight, 2 / (sizes[:, None] + sets.sum(axis=1)), sets)
    best = np.sort(gain, axis=2)[:, :, ::-1].cumsum(axis=2)[:, sizes - 1, sizes - 1].max(axis=1)
    both = found @ sets.T
    value = 2 * both / np.maximum(found.sum(axis=1)[:, None] + sets.sum(axis=1), 1)
    np.testing.assert_allclose((weight * value).sum(axis=1), best, atol=1e-10)
    assert found.sum(axis=1).min() < SIZES_AT_ONCE
    assert found.sum(axis=1).max() > n_labels - SIZES_AT_ONCE


@pytest.mark.parametrize("metric", ["f1", "jaccard"])
def test_sizes_that_are_left_out_are_not_the_best(metric, monkeypatch):
    """The search stops at sizes that cannot be the best; the labels are those of all sizes."""
    rng = np.random.default_rng(0)
    proba = np.concatenate([rng.beta(a, b, (6, 300)) for a, b in ((0.05, 3), (0.3, 2), (2, 2))])
    proba[0], proba[1], proba[2], proba[3, :200] = 0.0, 1.0, 0.003, 0.0
    counted = []
    values = expectations._values_of_sizes

    def spy(p, of_sizes, *rest):
        return values(p, lambda n: (counted.append(n), of_sizes(n))[1], *rest)

    monkeypatch.setattr(expectations, "_values_of_sizes", spy)
    found = [decode_marginals(part, metric) for part in (proba[4:6], proba)]
    assert counted[0] == 64
    assert max(counted[:2]) < 200
    monkeypatch.setattr(expectations, "SIZES_AT_ONCE", 300)
    np.testing.assert_array_equal(found[1], decode_marginals(proba, metric))
    np.testing.assert_array_equal(found[0], found[1][4:6])


@pytest.mark.parametrize("metric", METRICS)
def test_very_improbable_labels_do_not_depend_on_the_batch(metric):
    """Probabilities near 1e-11 leave the same sizes in, alone and beside rows of many labels."""
    proba = np.repeat([[1e-11], [1e-10], [1e-8], [0.9]], 150, axis=1)
    options = {"metric": metric, "zero_division": 0.0}
    together = decode_marginals(proba, **options)
    alone = np.vstack([decode_marginals(row[None], **options) for row in proba])
    np.testing.assert_array_equal(together, alone)
