"""Rules of the largest expected metric under p(y | x), against all label vectors."""

from functools import partial

import numpy as np
import pytest
from reference.random_models import random_rbm
from reference.states import all_states
from scipy.special import softmax

from skcrbm import (
    MSSVMCRBM,
    CRBMClassifier,
    DecodedClassifier,
    LayeredGMClassifier,
    LMBMClassifier,
)
from skcrbm.decoding import ExpectedMetric, decode_marginals
from skcrbm.decoding import Posterior as PosteriorOfModel
from skcrbm.decoding._model_expected import _Independent, _Joint, _seen_factor
from skcrbm.decoding.expected import inverse_nodes
from skcrbm.decoding.rules import resolve_decoder
from skcrbm.energies import IsingEnergy, OneHotRBMEnergy, RBMEnergy
from skcrbm.inference import Exact, SumProduct, infer
from skcrbm.targets.label_sets import may_be_empty, unseen_share

METRICS = ("jaccard", "f1")
# The tables of these tests score two empty vectors 1.
Posterior = partial(PosteriorOfModel, zero_division=1.0)
N = 6


def table(metric, judges, candidates):
    """Metric (J, C) of 0/1 vectors (J, L) and (C, L), 1 for two empty vectors."""
    both = judges @ candidates.T
    sizes = judges.sum(axis=1)[:, None] + candidates.sum(axis=1)
    top, bottom = (2 * both, sizes) if metric == "f1" else (both, sizes - both)
    return np.where(bottom == 0, 1.0, top / np.maximum(bottom, 1))


def random_ising(seed, n_labels, scale=0.7):
    rng = np.random.default_rng(seed)
    coupling = np.triu(rng.normal(size=(n_labels, n_labels)), 1) * scale
    return IsingEnergy(coupling + coupling.T, rng.normal(size=(N, n_labels)) - 0.5)


def energies(n_labels):
    return [random_rbm(3, n_labels, 3, N, scale=1.5), random_ising(4, n_labels)]


def random_known(n_labels, share, seed=1):
    rng = np.random.default_rng(seed)
    known = rng.integers(0, 2, (N, n_labels)).astype(float)
    known[rng.random(known.shape) > share] = np.nan
    return known


def sets_of(n_labels, n_sets=5, seed=2):
    rng = np.random.default_rng(seed)
    return np.unique(rng.integers(0, 2, (n_sets, n_labels)), axis=0).astype(np.int8)


def probabilities(posterior, vectors):
    """P(y | x, known) (N, 2^L) by enumeration."""
    score = posterior.energy.log_weight_of_sets(vectors)
    if posterior.known is not None:
        for n, known in enumerate(posterior.known):
            score[n, ~(np.isnan(known) | (vectors == known)).all(axis=1)] = -np.inf
    return softmax(score, axis=1)


def with_seen(weight, vectors, sets):
    """The same with the label sets seen in fit more probable."""
    seen = (vectors[:, None] == sets).all(axis=2).any(axis=1)
    weight = np.where(seen, 3 * weight, weight)
    return weight / weight.sum(axis=1, keepdims=True)


# ------------------------------------------------------------------ quadrature


def test_inverse_nodes():
    """The sum is exact for up to 24 labels; beyond, the error is below 1e-4 / n."""
    for largest in (1, 2, 5, 24, 25, 40, 63, 100, 348, 2000):
        nodes, weight = inverse_nodes(largest)
        assert ((nodes > 0) & (nodes < 1)).all()
        n = np.arange(1, largest + 1)
        found = (weight * nodes ** (n[:, None] - 1)).sum(axis=1)
        np.testing.assert_allclose(found, 1 / n, rtol=1e-12 if largest <= 24 else 1e-4)
    assert len(inverse_nodes(348)[0]) == 22


@pytest.mark.parametrize("n_labels", [1, 3, 12, 14])
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_expectations_are_those_of_enumeration(n_labels, share):
    known = random_known(n_labels, share)
    vectors = all_states(n_labels, float)
    rng = np.random.default_rng(0)
    for energy in energies(n_labels):
        posterior = Posterior(energy, Exact(), known, vectors[:0], None)
        weight = probabilities(posterior, vectors)
        model = _Joint(posterior)
        np.testing.assert_allclose(model.marginals, weight @ vectors, atol=1e-12)
        np.testing.assert_allclose(model.empty, weight[:, 0], atol=1e-12)
        nodes = np.array([0.01, 0.6, 1.0])
        powers = nodes[:, None] ** (vectors.sum(axis=1) - 1)
        expected = np.einsum("nk,qk,kl->nql", weight, powers, vectors)
        np.testing.assert_allclose(model._on(nodes), expected, atol=1e-12)
        candidates = rng.integers(0, 2, (N, 4, n_labels)).astype(float)
        candidates[:, :, 0] = 1
        expected = [weight[n] @ table("jaccard", vectors, candidates[n]) for n in range(N)]
        np.testing.assert_allclose(model.jaccard(candidates), expected, atol=1e-12)


def test_independent_expectations_are_those_of_enumeration():
    """An RBM without couplings has independent outputs; its label sets, too."""
    n_labels, known = 7, random_known(7, 0.3)
    energy = random_rbm(0, n_labels, 2, N, scale=0.0)
    sets = sets_of(n_labels).astype(float)
    posterior = Posterior(energy, Exact(), known, sets, None)
    joint, alone = _Joint(posterior), _Independent(posterior)
    candidates = np.random.default_rng(0).integers(0, 2, (N, 4, n_labels)).astype(float)
    candidates[:, :, 0] = 1
    for zero_division, allow_empty in ((0.0, True), (1.0, True), (1.0, False)):
        np.testing.assert_array_equal(
            alone.best_f1(zero_division, allow_empty), joint.best_f1(zero_division, allow_empty)
        )
    np.testing.assert_allclose(alone.jaccard(candidates), joint.jaccard(candidates), atol=1e-12)
    np.testing.assert_allclose(alone.empty, joint.empty, atol=1e-12)
    for one, other in zip(alone.seen(sets, 3.0), joint.seen(sets, 3.0), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


# ---------------------------------------------------------------------- rules


@pytest.mark.parametrize("allow_empty", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.1])
@pytest.mark.parametrize("n_labels", [2, 10])
def test_expected_f1_is_the_best_of_all_vectors(n_labels, share, allow_empty):
    known = random_known(n_labels, share) if share else None
    vectors = all_states(n_labels, float)
    value = table("f1", vectors, vectors)
    for energy in energies(n_labels):
        posterior = Posterior(energy, Exact(), known, vectors[:0], None, allow_empty=allow_empty)
        found = resolve_decoder("expected_f1").decode(posterior)
        weight = probabilities(posterior, vectors)
        for n in range(N):
            agrees = np.full(len(vectors), True)
            if known is not None:
                agrees = (np.isnan(known[n]) | (vectors == known[n])).all(axis=1)
            if not allow_empty and agrees.sum() > 1:
                agrees[0] = False
            mine = (vectors == found[n]).all(axis=1).argmax()
            assert agrees[mine]
            expected = weight[n] @ value
            assert expected[mine] >= expected[agrees].max() - 1e-11


@pytest.mark.parametrize("allow_empty", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.1])
def test_expected_jaccard_is_the_best_of_its_candidates(share, allow_empty):
    """At least as good as top k marginals, the best seen set and nothing; near the best of all."""
    n_labels = 7
    known = random_known(n_labels, share)
    vectors, sets = all_states(n_labels, float), sets_of(n_labels)
    value = table("jaccard", vectors, vectors)
    for energy in energies(n_labels):
        posterior = Posterior(energy, Exact(), known, sets, None, allow_empty=allow_empty)
        posterior = posterior._replace(unseen_share=1 / 13)  # a factor of 3
        found = resolve_decoder("expected_jaccard").decode(posterior)
        weight = with_seen(probabilities(posterior, vectors), vectors, sets)
        for n in range(N):
            agrees = (np.isnan(known[n]) | (vectors == known[n])).all(axis=1)
            if not allow_empty and agrees.sum() > 1:
                agrees[0] = False
            expected = np.where(agrees, weight[n] @ value, -1)
            mine = expected[(vectors == found[n]).all(axis=1).argmax()]
            assert mine >= 0.9 * expected.max()
            if allow_empty:
                assert mine >= expected[0] - 1e-11
            seen = (vectors[:, None] == sets).all(axis=2).any(axis=1) & agrees
            if seen.sum() == 1:  # else the set of the largest value is a candidate
                assert mine >= expected[seen].max() - 1e-11


def test_too_many_label_sets_do_not_compete(monkeypatch):
    """A large table of label sets is left out, unless the sets count more than the model says."""
    energy = random_rbm(3, 7, 3, N, scale=1.5)
    with_sets = Posterior(energy, Exact(), None, sets_of(7), None)
    rule = resolve_decoder("expected_jaccard").decode
    without = rule(with_sets._replace(label_sets=sets_of(7)[:0]))
    counted = rule(with_sets._replace(unseen_share=1 / 13))
    monkeypatch.setattr("skcrbm.decoding._model_expected._MOST_SEEN", 20)
    monkeypatch.setattr(
        "skcrbm.decoding._model_expected._best_seen", None
    )  # raises if it is called
    np.testing.assert_array_equal(rule(with_sets._replace(unseen_share=0.5)), without)
    monkeypatch.undo()
    monkeypatch.setattr("skcrbm.decoding._model_expected._MOST_SEEN", 20)
    np.testing.assert_array_equal(rule(with_sets._replace(unseen_share=1 / 13)), counted)


def test_label_sets_that_were_seen_count_more():
    """A pair seen together wins although the model alone would take a single label."""
    energy = RBMEnergy(np.zeros((3, 0)), [[0.4, -0.3, -4.0]], np.zeros((1, 0)))
    none = Posterior(energy, Exact(), None, np.zeros((0, 3), np.int8), None, allow_empty=False)
    pair = none._replace(label_sets=np.array([[1, 1, 0]], np.int8), unseen_share=1 / 13)
    rule = resolve_decoder("expected_jaccard").decode
    vectors = all_states(3, float)
    weight = with_seen(probabilities(pair, vectors), vectors, pair.label_sets)
    value = weight @ table("jaccard", vectors, vectors[1:])
    best = vectors[1:][value.argmax()]
    np.testing.assert_array_equal(rule(pair), [best])
    assert (rule(pair) != rule(none)).any() or (rule(none) == [[1, 1, 0]]).all()


def test_many_labels_are_as_enumeration_of_the_hidden_units_has_it():
    """60 labels: F1 and Jaccard of the choice against a sample of size 20000."""
    n_labels = 60
    energy = random_rbm(5, n_labels, 3, N, scale=1.0)
    energy = energy.with_fields(energy.visible_bias - 2, energy.hidden_bias)
    posterior = Posterior(energy, Exact(), None, np.zeros((0, n_labels), np.int8), None)
    drawn = infer(energy, Exact(random_state=0), returns="samples", n_samples=4000)
    drawn = drawn.samples[:, :, :n_labels].astype(float)
    proba = posterior.infer().marginals[:, :n_labels]
    for metric in METRICS:
        found = resolve_decoder(f"expected_{metric}").decode(posterior)
        rival = decode_marginals(proba, metric)
        for n in range(N):
            both = np.stack([found[n], rival[n]]).astype(float)
            value = table(metric, drawn[n], both).mean(axis=0)
            assert value[0] >= value[1] - 0.005


@pytest.mark.parametrize("metric", METRICS)
def test_approximate_marginals_are_decoded_as_independent(metric):
    energy = random_rbm(3, 6, 3, N, scale=0.8)
    none = np.zeros((0, 6), np.int8)
    for allow_empty in (True, False):
        posterior = Posterior(energy, SumProduct(), None, none, None, allow_empty=allow_empty)
        proba = infer(energy, "sum_product").marginals[:, :6]
        np.testing.assert_array_equal(
            resolve_decoder(f"expected_{metric}").decode(posterior),
            decode_marginals(proba, metric, allow_empty=allow_empty),
        )


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("method", [Exact(), SumProduct()], ids=lambda m: m.name)
def test_threads_and_batches_do_not_change_a_bit(metric, method):
    rng = np.random.default_rng(0)
    energy = RBMEnergy(rng.normal(size=(14, 4)), rng.normal(size=(300, 14)), np.zeros((300, 4)))
    posterior = Posterior(energy, method, None, sets_of(14, 40), None)
    rule = resolve_decoder(f"expected_{metric}").decode
    whole = rule(posterior)
    np.testing.assert_array_equal(rule(posterior._replace(n_jobs=3)), whole)
    np.testing.assert_array_equal(rule(posterior.rows(slice(5, 9))), whole[5:9])


def test_one_hot_outputs():
    energy = random_rbm(0, 5, 3, N)
    one_hot = OneHotRBMEnergy(energy.weights, energy.visible_bias, energy.hidden_bias)
    posterior = Posterior(one_hot, Exact(), None, np.eye(5, dtype=np.int8), None)
    best = resolve_decoder("marginal").decode(posterior)
    np.testing.assert_array_equal(resolve_decoder("expected_jaccard").decode(posterior), best)


# ---------------------------------------------------- rows without a label, in every rule


def never_on(n_labels=6):
    """An RBM in which the empty vector has nearly all the mass, and whose label 2 comes next."""
    field = np.full((N, n_labels), -9.0)
    field[:, 2] = -4.0
    return RBMEnergy(np.zeros((n_labels, 2)), field, np.zeros((N, 2)))


RULES = [
    "marginal", "label_set", "expected_jaccard", "expected_f1", "threshold", "marginal_map", "map"
]  # fmt: skip


@pytest.mark.parametrize("method", [Exact(), SumProduct()], ids=lambda m: m.name)
@pytest.mark.parametrize("rule", RULES)
def test_empty_vector_is_excluded(rule, method):
    sets = np.vstack([np.zeros(6), np.eye(6)]).astype(np.int8)
    decode = resolve_decoder(rule).decode
    posterior = Posterior(
        never_on(), method, None, sets, None, thresholds=np.full(6, 0.5), allow_empty=True
    )
    np.testing.assert_array_equal(decode(posterior), 0)
    posterior = posterior._replace(allow_empty=False)
    np.testing.assert_array_equal(decode(posterior), np.tile(np.eye(6)[2], (N, 1)))
    known = np.full((N, 6), np.nan)
    known[0, :] = 0  # no label can be on
    known[1, 2] = 0  # the best label cannot be on
    known[2, :5] = 0  # a single label is left
    known[3, 4] = 1
    found = decode(posterior._replace(known=known))
    np.testing.assert_array_equal(found[0], 0)
    assert found[1].any()
    assert found[1, 2] == 0
    np.testing.assert_array_equal(found[2], np.eye(6)[5])
    np.testing.assert_array_equal(found[3], np.eye(6)[4])
    np.testing.assert_array_equal(found[4:], np.tile(np.eye(6)[2], (2, 1)))


@pytest.mark.parametrize("rule", ["map", "marginal_map"])
def test_best_state_that_is_not_empty(rule):
    """Exact for up to ten outputs, against enumeration."""
    energy = random_rbm(1, 6, 3, 40, scale=2.0)
    energy = energy.with_fields(energy.visible_bias - 2, energy.hidden_bias)
    posterior = Posterior(energy, Exact(), None, np.zeros((0, 6), np.int8), None)
    hidden = "max" if rule == "map" else "marginal"
    vectors = all_states(6, float)
    score = energy.log_weight_of_sets(vectors, hidden)
    decode = resolve_decoder(rule).decode
    plain, found = decode(posterior), decode(posterior._replace(allow_empty=False))
    np.testing.assert_array_equal(plain, vectors[score.argmax(axis=1)])
    np.testing.assert_array_equal(found, vectors[1 + score[:, 1:].argmax(axis=1)])
    assert 0 < (~plain.any(axis=1)).sum() < 40


def test_factor_of_label_sets_that_were_seen():
    shares = [0.0, 1 / 17, 1 / 13, 1 / 9, 0.2, 0.5, 1.0]
    np.testing.assert_allclose([_seen_factor(u) for u in shares], [4, 4, 3, 2, 1, 1, 1])


def test_share_of_label_sets_that_are_new():
    nan = np.nan
    y = np.array([[1, 0], [1, 0], [0, 1], [1, 1], [nan, 0]])
    assert unseen_share(y) == 0.5
    assert unseen_share(y[:2]) == 0
    assert unseen_share(y[4:]) == 1


def test_what_allows_empty_rows():
    nan = np.nan
    assert not may_be_empty(np.array([[1, 0], [0, 1]]))
    assert may_be_empty(np.array([[1, 0], [0, 0]]))
    assert not may_be_empty(np.array([[1, 0], [0, nan]]))  # decides nothing
    assert not may_be_empty(np.array([[1, nan], [nan, nan]]))
    assert may_be_empty(np.array([[0, nan], [nan, nan]]))  # nothing was ever seen on
    assert may_be_empty(np.array([[1], [1]]))  # a single label


def data(empty=False, n=120, n_labels=5):
    rng = np.random.RandomState(0)
    X = rng.randn(n, 4)
    Y = (X @ rng.randn(4, n_labels) + rng.randn(n, n_labels) > 1.2).astype(float)
    Y = Y[Y.any(axis=1)], X[Y.any(axis=1)]
    Y, X = Y
    if empty:
        Y[0] = 0
    return X, Y


MODELS = [
    CRBMClassifier(n_hidden=2, max_iter=5, random_state=0),
    MSSVMCRBM(n_hidden=2, max_iter=3, random_state=0),
    LMBMClassifier(C=0.1, random_state=0),
]


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_models_exclude_what_they_never_saw(model):
    X, Y = data()
    fitted = model.fit(X, Y)
    assert fitted.allow_empty_ is False
    rules = ["marginal", "label_set", "expected_jaccard", "expected_f1"]
    far = np.zeros((40, 4))
    for rule in rules:
        assert fitted.set_params(decode=rule).predict(far).any(axis=1).all()
        known = np.zeros((40, 5))
        assert not fitted.predict(far, y_known=known).any()
    empty = fitted.fit(*data(empty=True))
    assert empty.allow_empty_ is True
    Y[Y == 0] = np.nan
    Y[:3, 0] = 0
    assert fitted.fit(X, Y).allow_empty_ is False
    assert fitted.fit(X, np.arange(len(X)) % 3).allow_empty_ is True


def test_pieces_of_data_add_up():
    X, Y = data()
    model = CRBMClassifier(n_hidden=2, random_state=0).partial_fit(X, Y)
    assert not model.allow_empty_
    assert model.partial_fit(*data(empty=True)).allow_empty_
    assert model.partial_fit(X, Y).allow_empty_


@pytest.mark.parametrize("decode", ["expected_f1", "expected_jaccard", "marginal", "threshold"])
@pytest.mark.parametrize("joint", ["independent", "samples"])
def test_decoded_classifier(decode, joint):
    X, Y = data()
    inner = CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=5, random_state=0)
    rule = decode
    if joint == "samples" and decode.startswith("expected"):
        rule = ExpectedMetric(decode.removeprefix("expected_"), n_samples=50)
    model = DecodedClassifier(inner, decode=rule, random_state=0)
    model.fit(X, Y.astype(int))
    assert model.allow_empty_ is False
    far = np.zeros((30, 4))
    if not (joint == "samples" and decode.startswith("expected")):  # all draws may be empty
        assert model.predict(far).any(axis=1).all()
    known = np.full((30, 5), np.nan)
    known[0], known[1, 1:] = 0, 0
    found = model.predict(far, y_known=known)
    assert not found[0].any()
    if joint == "independent":
        np.testing.assert_array_equal(found[1], np.eye(5)[0])
    assert model.fit(*data(empty=True)).allow_empty_ is True
    weight = np.ones(len(X))
    weight[0] = 0  # the only row that is empty
    if decode != "threshold":
        assert model.fit(*data(empty=True), sample_weight=weight).allow_empty_ is False
    assert model.fit(X, np.arange(len(X)) % 2).allow_empty_ is True


def test_layered_models():
    X, Y = np.zeros((10, 2)), np.tile(np.eye(5), (2, 1))
    model = LayeredGMClassifier(max_iter=2, random_state=0).fit(X, Y)
    assert model.allow_empty_ is False
    assert (model.predict_proba(X) < 0.5).all(axis=1).any()
    found, proba = model.predict(X), model.predict_proba(X)
    none = (proba < 0.5).all(axis=1)
    np.testing.assert_array_equal(found[none], np.eye(5)[proba[none].argmax(axis=1)])
    np.testing.assert_array_equal(found[~none], proba[~none] >= 0.5)
