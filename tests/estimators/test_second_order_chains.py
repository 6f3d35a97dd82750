"""ChainCRF(order=2): answers against enumeration, gradients, kernels, and what it can learn."""

import itertools

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import logsumexp, softmax

from skcrbm import ChainCRF
from skcrbm.energies.chain import SecondOrderEnergies
from skcrbm.inference import infer
from skcrbm.inference.chains import (
    ImpossiblePathError,
    best_paths,
    chain_marginals,
    k_best_paths,
    path_log_weights,
    sample_paths,
)
from skcrbm.learning.data import Clock
from skcrbm.learning.rules import resolve_rule
from skcrbm.learning.structured.objective import TrainedCoordinates

K = 3


def make_data(n=12, seed=0, longest=5):
    """Return sequences of one to `longest` positions, and labels that use all classes."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(length, 2)) for length in rng.integers(1, longest + 1, n)]
    coef = rng.normal(size=(2, K))
    y = [np.array(list("abc"))[(x @ coef + rng.normal(size=(len(x), K))).argmax(1)] for x in X]
    y[0][0], y[1][0], y[2][0] = "abc"
    return X, y


def enumerated(model, x):
    """Return all paths of a sequence and their log-weights, from the public attributes."""
    n = len(x)
    paths = np.array(list(itertools.product(range(K), repeat=n)))
    scores = x @ np.asarray(model.coef_).T + model.intercept_
    total = scores[np.arange(n), paths].sum(axis=1)
    total += model.first_[paths[:, 0]] + model.last_[paths[:, -1]]
    for t in range(1, n):
        total += model.transition_[paths[:, t - 1], paths[:, t]]
        if model.transition_features:
            pair = paths[:, t - 1] * K + paths[:, t]
            total += np.asarray(model.transition_coef_)[pair] @ x[t]
        if t > 1:
            total += model.triple_[paths[:, t - 2], paths[:, t - 1], paths[:, t]]
    return paths, total


FORBIDDEN = [("a", "c"), (None, "b"), ("c", None)]


def possible(y):
    """Replace labels that take part in a forbidden transition by None."""
    return [[v if v == "a" and t == 0 else None for t, v in enumerate(labels)] for labels in y]


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("forbidden", [None, FORBIDDEN])
def test_answers_are_those_of_enumeration(features, forbidden):
    X, y = make_data()
    given = y if forbidden is None else possible(y)
    model = ChainCRF(
        alpha=0.05, order=2, transition_features=features, forbidden=forbidden, max_iter=30
    )
    if forbidden is None:
        model.fit(X, y)
    else:
        good = [np.array(list("abba"))[: max(2, len(x) % 4)] for x in X]
        X = [np.resize(x, (len(labels), 2)) for x, labels in zip(X, good)]
        good[0], X[0] = np.array(["c", "a"]), X[0][:2]
        model.fit(X, good)
        given = possible(good)
    proba, labels = model.predict_proba(X), model.predict(X)
    likelihood, top = model.score_samples(X, given), model.predict_topk(X, 3)
    known = [[None] * (len(x) - 1) + ["a"] for x in X]
    conditional, best = model.predict_proba(X, known), model.predict(X, known)
    for c, x in enumerate(X):
        paths, logs = enumerated(model, x)
        p = softmax(logs)
        np.testing.assert_allclose(proba[c], np.tensordot(p, np.eye(K)[paths], 1), atol=1e-10)
        assert (labels[c] == model.classes_[paths[logs.argmax()]]).all()
        codes = np.array([-1 if v is None else "abc".index(v) for v in given[c]])
        fits = ((codes < 0) | (paths == codes)).all(axis=1)
        assert likelihood[c] == pytest.approx(logsumexp(logs[fits]) - logsumexp(logs), abs=1e-9)
        order = np.sort(logs[np.isfinite(logs)])[::-1][:3] - logsumexp(logs)
        np.testing.assert_allclose(top[c].log_proba, order, atol=1e-9)
        q = np.where(paths[:, -1] == 0, p, 0)
        q /= q.sum()
        np.testing.assert_allclose(conditional[c], np.tensordot(q, np.eye(K)[paths], 1), atol=1e-9)
        assert (best[c] == model.classes_[paths[q.argmax()]]).all()
        graph = model.factor_graph(x)
        if forbidden is None:
            np.testing.assert_allclose(infer(graph, "exact").marginals[0], proba[c], atol=1e-9)


def test_samples_have_the_frequencies_of_enumeration():
    X, y = make_data()
    model = ChainCRF(alpha=0.02, order=2).fit(X, y)
    x = max(X, key=len)[:4]
    drawn = model.sample([x], n_samples=20000, random_state=0)[0]
    assert drawn.shape == (20000, len(x))
    paths, logs = enumerated(model, x)
    codes = np.searchsorted(model.classes_, drawn) @ K ** np.arange(len(x))[::-1]
    found = np.bincount(codes, minlength=len(paths)) / 20000
    p = softmax(logs)
    assert (np.abs(found - p) <= 5 * np.sqrt(p / 20000) + 1e-6).all()


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_gradient_by_finite_differences(features, missing):
    X, y = make_data(8)
    if missing:
        y = [[None if t == 1 else v for t, v in enumerate(labels)] for labels in y]
    model = ChainCRF(alpha=0.1, order=2, transition_features=features, max_iter=2)
    weight = np.arange(1.0, 9)
    model.fit(X, y, sample_weight=weight)
    sequences = model._training_batch(X, y, weight, True)
    trained = model._trained()
    objective = resolve_rule("mle", "chain").chain(trained)
    coordinates = TrainedCoordinates(model._model, trained)

    def step(vector):
        params = coordinates.params(vector)
        return objective.step(model._model._replace(params=params), sequences, Clock(0, 0), None)[0]

    at = np.random.default_rng(0).normal(size=coordinates.vector(model._model.params).size)
    numeric = approx_fprime(at, lambda v: step(v).loss, 1e-6)
    found = coordinates.gradient(step(at).gradient)
    np.testing.assert_allclose(found, numeric, atol=2e-3, rtol=1e-4)


def random_energies(rng, scale=1.0):
    """Return chains of one to five positions with random log-weights."""
    k = int(rng.integers(1, 4))
    start = np.concatenate([[0], np.cumsum(rng.integers(1, 6, rng.integers(1, 4)))])
    first = np.full((k, k), -np.inf)
    first[0] = rng.normal(size=k)
    return SecondOrderEnergies(
        start,
        scale * rng.normal(size=(start[-1], k * k)),
        scale * rng.normal(size=(k, k, k)),
        first.ravel(),
        rng.normal(size=k * k),
    )


@pytest.mark.parametrize("scale", [1.0, 400.0])
def test_kernels_agree_with_chains_of_pairs(scale):
    """With a scale of 400 the weights underflow, and the chains are computed with logarithms."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        energies = random_energies(rng, scale)
        pairs, k = energies.as_pairs(), len(energies.triples)
        weight = rng.uniform(0.5, 2, energies.n_chains)
        found, expected = chain_marginals(energies, weight), chain_marginals(pairs, weight)
        np.testing.assert_allclose(found.log_z, expected.log_z, rtol=1e-9)
        np.testing.assert_allclose(found.states, expected.states, atol=1e-8)
        sums = expected.pairs.reshape(k, k, k, k)[:, np.arange(k), np.arange(k)]
        np.testing.assert_allclose(found.pairs, sums, atol=1e-8)
        path, value = best_paths(energies)
        states, most = best_paths(pairs)
        np.testing.assert_allclose(value, most, rtol=1e-12)
        np.testing.assert_allclose(path_log_weights(energies, path), value, rtol=1e-9)
        np.testing.assert_array_equal(path, states % k)
        for (one, values), (two, others) in zip(k_best_paths(energies, 4), k_best_paths(pairs, 4)):
            np.testing.assert_array_equal(one, two % k)
            np.testing.assert_allclose(values, others)
        u = rng.random((3, energies.start[-1]))
        np.testing.assert_array_equal(sample_paths(energies, u), sample_paths(pairs, u) % k)


def test_an_impossible_chain_is_named():
    energies = random_energies(np.random.default_rng(3))
    scores = energies.scores.copy()
    scores[-1] = -np.inf
    energies = energies._replace(scores=scores)
    for function in (best_paths, lambda e: chain_marginals(e, np.ones(e.n_chains))):
        with pytest.raises(ImpossiblePathError) as error:
            function(energies)
        assert error.value.chain == energies.n_chains - 1


def triples_of_two(n, seed):
    """Return labels in which the class depends on the two classes before, and noisy features."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = rng.integers(0, 2, 2).tolist()
        for _ in range(10):
            follows = labels[-1] ^ labels[-2]
            labels.append(follows if rng.random() < 0.95 else 1 - follows)
        y.append(np.array(labels))
        X.append(y[-1][:, None] + rng.normal(0, 0.8, (12, 1)))
    return X, y


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("learning", ["mle", "max_margin"])
def test_second_order_learns_what_first_order_cannot(learning):
    X, y = triples_of_two(40, 0)
    new = triples_of_two(100, 1)
    options = {"alpha": 0.1, "learning": learning, "random_state": 0}
    first = ChainCRF(**options).fit(X, y).score(*new)
    second = ChainCRF(order=2, **options).fit(X, y).score(*new)
    assert second > first + 0.05


def test_the_hinge_loss_by_enumeration():
    X, y = make_data(8, longest=4)
    model = ChainCRF(alpha=0.5, order=2, learning="max_margin", random_state=0).fit(X, y)
    losses = []
    for x, labels in zip(X, y):
        paths, logs = enumerated(model, x)
        codes = np.searchsorted(model.classes_, labels)
        own = logs[(paths == codes).all(axis=1)][0]
        losses.append((logs + (paths != codes).sum(axis=1)).max() - own)
    parts = [model.coef_, model.intercept_, model.transition_, model.first_, model.last_]
    square = sum(np.square(part).sum() for part in [*parts, model.triple_])
    assert model.objective_ == pytest.approx(np.mean(losses) + 0.25 * square)
    assert 0 <= model.duality_gap_ <= 0.01 * model.objective_


def test_order_one_is_a_special_case():
    """Without weights of three classes, the answers are those of the first order."""
    X, y = make_data()
    first = ChainCRF(alpha=0.1).fit(X, y)
    second = ChainCRF(alpha=0.1, order=2).fit(X, y)
    params = first._model.params._replace(triple=1e-300 * np.ones((K, K, K)))
    second._model = second._model._replace(params=params)
    for a, b in zip(first.predict_proba(X), second.predict_proba(X)):
        np.testing.assert_allclose(a, b, atol=1e-12)
    np.testing.assert_allclose(first.score_samples(X, y), second.score_samples(X, y), atol=1e-10)


def test_errors_name_the_cause():
    X, y = make_data()
    with pytest.raises(ValueError, match="order=2 needs learning"):
        ChainCRF(order=2, learning="pseudo_likelihood").fit(X, y)
    with pytest.raises(ValueError, match="order"):
        ChainCRF(order=3).fit(X, y)
    model = ChainCRF(alpha=0.1, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="order=2, but the model was fitted with order=1"):
        model.set_params(order=2).fit(X, y)
    stream = ChainCRF(alpha=0.1, order=2, solver="adam", random_state=0).partial_fit(X, y)
    assert stream.triple_.shape == (K, K, K)
