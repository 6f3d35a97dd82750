"""Learning of graphs from sampled states: gradients against enumeration, and what is learned."""

from itertools import product

import numpy as np
import pytest
from reference.cases import deep
from scipy.special import logsumexp, softmax

from skcrbm import Graph, GraphCRF
from skcrbm.inference import PerturbAndMaxProduct
from skcrbm.inference.random_numbers import random_key
from skcrbm.learning import (
    Adam,
    BPChainLearning,
    ContrastiveDivergence,
    PersistentContrastiveDivergence,
    PMPLearning,
)
from skcrbm.learning.data import Clock
from skcrbm.learning.graphs import GraphParams
from skcrbm.learning.rules import resolve_rule
from skcrbm.learning.sampled_graphs import _completed


def graphs(n_classes, n_graphs=3, cycles=False, seed=0):
    """Return graphs of three nodes with features of edges, and random labels."""
    rng = np.random.default_rng(seed)
    edges = [[0, 1], [1, 2], [2, 0]] if cycles else [[0, 1], [1, 2]]
    X = [Graph(rng.normal(size=(3, 2)), edges, rng.normal(size=(len(edges), 1)))
         for _ in range(n_graphs)]  # fmt: skip
    y = [rng.integers(0, n_classes, 3) for _ in X]
    y[0][:2] = 0, n_classes - 1
    y[1][0] = min(1, n_classes - 1)
    return X, y


def problem(rule, n_classes, cycles=False, weight=None):
    """Return a model with random parameters, a batch, and the objective of a learning rule."""
    X, y = graphs(n_classes, cycles=cycles)
    estimator = GraphCRF(learning=rule, inference="exact", directed=True, random_state=0)
    batch = estimator._training_graphs(X, y, weight, False)
    model, objective = estimator._problem(batch, np.random.RandomState(0), False)
    rng = np.random.default_rng(1)
    params = GraphParams(*(rng.normal(0, 0.6, part.shape) for part in model.params))
    return model._replace(params=params), batch, objective


def gradient_of(distributions, model, batch):
    """Return the gradient if the negative states of each graph have given distributions.

    A distribution is a pair of states (S, 3) and their probabilities (S,).
    """
    total = GraphParams(*map(np.zeros_like, model.params))
    for c, (states, p) in enumerate(distributions):
        one = batch.take(np.array([c]))
        i, j = one.arrays.edges.T
        k = model.n_states
        own = np.eye(k)[states] - np.eye(k)[one.path]
        both = np.einsum("sea,seb->seab", np.eye(k)[states[:, i]], np.eye(k)[states[:, j]])
        both -= np.eye(k)[one.path[i]][:, :, None] * np.eye(k)[one.path[j]][:, None, :]
        weight = one.weight[0] * p
        model.add_gradient(one, np.tensordot(weight, own, 1), np.tensordot(weight, both, 1), total)
    return np.concatenate([part.ravel() for part in total])


def enumerated(model, batch):
    """Return all states of each graph and their log-weights."""
    states = np.array(list(product(range(model.n_states), repeat=3)))
    for c in range(len(batch)):
        energy = model.energy(batch.take(np.array([c])))
        yield states, energy.log_weight_of_sets(states)[0], energy


def sampled_gradients(objective, model, batch, n_steps):
    """Return the gradients (n_steps, P) of several steps with new random numbers."""
    key, found, state = random_key(0), [], objective.start(len(batch))
    for step in range(n_steps):
        result, state = objective.step(model, batch, Clock(0, step, key), state)
        found.append(np.concatenate([part.ravel() for part in result.gradient]))
    return np.array(found)


def assert_mean_agrees(found, expected):
    """Check that the mean differs from the expectation by at most five standard errors."""
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - expected) <= 5 * error + 1e-9).all()
    assert error.max() < 0.2  # the bound is narrow enough to detect an error of one count


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("rule", "n_classes", "cycles"),
    [
        (ContrastiveDivergence(n_steps=60, n_chains=5), 3, True),
        (PersistentContrastiveDivergence(n_steps=20, n_chains=5), 3, True),
        deep(BPChainLearning("exact", n_samples=20), 3, True),
        deep(BPChainLearning(n_samples=20), 3, False),  # exact, because the graph is a tree
        deep(BPChainLearning(n_samples=400, weighted=True), 3, False),
        deep(PMPLearning("gibbs", n_samples=20), 3, True),
    ],
)
def test_samplers_give_the_gradient_of_the_likelihood(rule, n_classes, cycles):
    weight = np.array([1.0, 2.0, 0.5])
    model, batch, objective = problem(rule, n_classes, cycles, weight)
    found = sampled_gradients(objective, model, batch, 150)
    exact = [(states, softmax(logs)) for states, logs, _ in enumerated(model, batch)]
    expected = gradient_of(exact, model, batch)
    likelihood = resolve_rule("mle", "graph").graph(objective.trained, GraphCRF(
        inference="exact")._method())  # fmt: skip
    step, _ = likelihood.step(model, batch, Clock(0, 0), None)
    np.testing.assert_allclose(np.concatenate([g.ravel() for g in step.gradient]), expected)
    assert_mean_agrees(found, expected)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "rule",
    [
        ContrastiveDivergence(n_steps=60, n_chains=5),
        PersistentContrastiveDivergence(n_steps=20, n_chains=5),
        BPChainLearning("exact", n_samples=20),
    ],
)
def test_missing_labels_are_summed_out(rule):
    """The gradient is the gradient of the marginal likelihood of the observed labels."""
    model, batch, objective = problem(rule, 3, True)
    batch.path[[1, 3, 6]] = -1  # some labels of each graph
    batch.path[[6, 7, 8]] = -1  # all labels of the last graph
    found = sampled_gradients(objective, model, batch, 150)
    likelihood = resolve_rule("mle", "graph").graph(objective.trained, GraphCRF(
        inference="exact")._method())  # fmt: skip
    step, _ = likelihood.step(model, batch, Clock(0, 0), None)
    assert_mean_agrees(found, np.concatenate([part.ravel() for part in step.gradient]))


def test_start_of_missing_labels_is_drawn_from_their_probabilities():
    _, batch, _ = problem("cd", 3, True)
    batch.path[[1, 3, 6]] = -1
    chances = np.random.default_rng(0).dirichlet(np.ones(3), len(batch.path))
    drawn = np.stack([_completed(batch, chances, Clock(0, t, random_key(0))) for t in range(2000)])
    known = batch.path >= 0
    assert (drawn[:, known] == batch.path[known]).all()
    for i in np.flatnonzero(~known):
        share = np.bincount(drawn[:, i], minlength=3) / 2000
        np.testing.assert_allclose(share, chances[i], atol=0.06)


def test_fit_with_missing_labels_searches_its_penalty():
    X, y = correlated(40, 2, 0)
    gaps = [[None, *labels[1:].tolist()] for labels in y]
    model = GraphCRF(learning="cd", max_iter=20, random_state=0).fit(X, gaps)
    assert model.alpha_ > 0
    assert model.score(X, y) > 0.6


def test_weights_correct_a_wrong_sampler():
    """On a cycle chained belief propagation is wrong; importance weights make it consistent."""
    plain = BPChainLearning(n_samples=1000)
    model, batch, objective = problem(plain, 2, cycles=True)
    model = model._replace(params=GraphParams(*(2.5 * part for part in model.params)))
    exact = [(states, softmax(logs)) for states, logs, _ in enumerated(model, batch)]
    expected = gradient_of(exact, model, batch)
    wrong = sampled_gradients(objective, model, batch, 20).mean(axis=0)
    weighted = problem(BPChainLearning(n_samples=1000, weighted=True), 2, cycles=True)[2]
    right = sampled_gradients(weighted, model, batch, 20).mean(axis=0)
    assert np.abs(right - expected).max() < 0.5 * np.abs(wrong - expected).max()
    assert np.abs(right - expected).max() < 0.05


@pytest.mark.parametrize("n_steps", [1, 2])
def test_contrastive_divergence_is_a_sweep_from_the_labels(n_steps):
    """Compare with the exact distribution of the states after sweeps from the labels."""
    rule = ContrastiveDivergence(n_steps=n_steps, n_chains=50)
    model, batch, objective = problem(rule, 3, cycles=True)
    after = []
    for (states, logs, energy), path in zip(enumerated(model, batch), batch.path.reshape(-1, 3)):
        p = (states == path).all(axis=1).astype(float)
        for _ in range(n_steps):
            for block in energy.sampling_blocks:
                for v in np.arange(3)[block]:
                    others = np.delete(np.arange(3), v)
                    new = np.zeros_like(p)
                    for s, value in zip(states, p):
                        same = (states[:, others] == s[others]).all(axis=1)
                        new[same] += value * softmax(logs[same])
                    p = new
        after.append((states, p))
    found = sampled_gradients(objective, model, batch, 150)
    assert_mean_agrees(found, gradient_of(after, model, batch))


def test_persistent_chains_continue_from_their_states():
    model, batch, objective = problem(PersistentContrastiveDivergence(n_chains=4), 3)
    key, state = random_key(0), objective.start(3)
    assert state == [None] * 3
    _, state = objective.step(model, batch, Clock(0, 0, key), state)
    assert [chains.shape for chains in state] == [(4, 3)] * 3
    # With huge couplings of the drawn classes, a sweep does not leave the states of the chains.
    states = [chains.copy() for chains in state]
    model = model._replace(params=model.params._replace(
        coef=0 * model.params.coef, intercept=np.zeros(3), pair_coef=0 * model.params.pair_coef,
        pair_intercept=50 * np.eye(3)))  # fmt: skip
    same = [np.repeat(chains[:, :1], 3, axis=1) for chains in states]
    _, state = objective.step(model, batch, Clock(0, 1, key), [chains.copy() for chains in same])
    for before, now in zip(same, state):
        np.testing.assert_array_equal(before, now)


def correlated(n_graphs, n_classes, seed):
    """Return paths of six nodes whose neighbours prefer the same class."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_graphs):
        labels = [int(rng.integers(n_classes))]
        for _ in range(5):
            stays = rng.random() < 0.7
            labels.append(labels[-1] if stays else int(rng.integers(n_classes)))
        nodes = np.eye(n_classes)[labels] + rng.normal(size=(6, n_classes))
        X.append(Graph(nodes, [[t, t + 1] for t in range(5)]))
        y.append(np.array(labels))
    return X, y


@pytest.mark.parametrize(
    ("rule", "n_classes"),
    [
        deep("cd", 3),
        deep("pcd", 3),
        deep(BPChainLearning("exact", n_samples=10), 3),
        deep(BPChainLearning(n_samples=10), 3),
        deep(BPChainLearning(n_samples=10, weighted=True), 2),
        deep(PMPLearning(PerturbAndMaxProduct(max_iter=10)), 2),
        deep(PMPLearning(PerturbAndMaxProduct(max_iter=10)), 3),
    ],
)
def test_learning_comes_close_to_the_likelihood(rule, n_classes):
    """On a tree the likelihood is exact; sampled learning loses at most 0.1 nats per graph.

    Parameters of "pmp" belong to its samples, so with three classes it loses a little more.
    """
    X, y = correlated(50, n_classes, 0)
    new = correlated(300, n_classes, 1)
    best = GraphCRF(alpha=0.02).fit(X, y).score_samples(*new).mean()
    nodes = [Graph(graph.nodes, np.empty((0, 2), int)) for graph in X]
    alone = GraphCRF(alpha=0.02).fit(nodes, y)
    nothing = alone.score_samples([Graph(g.nodes, np.empty((0, 2), int)) for g in new[0]], new[1])
    solver = Adam(learning_rate=0.1)
    model = GraphCRF(alpha=0.02, learning=rule, solver=solver, random_state=0, max_iter=15)
    model.fit(X, y)
    found = model.score_samples(*new).mean()
    loss = 0.15 if isinstance(rule, PMPLearning) and n_classes == 3 else 0.1
    assert found > best - loss > nothing.mean()


def test_results_do_not_depend_on_threads_and_repeat():
    X, y = correlated(30, 3, 0)
    for rule in ("cd", "pcd"):
        fits = [
            GraphCRF(alpha=0.02, learning=rule, random_state=3, max_iter=4, n_jobs=n).fit(X, y)
            for n in (None, 2)
        ]
        np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
        np.testing.assert_array_equal(fits[0].pair_intercept_, fits[1].pair_intercept_)
        other = GraphCRF(alpha=0.02, learning=rule, random_state=4, max_iter=4).fit(X, y)
        assert not np.array_equal(other.coef_, fits[0].coef_)


def test_options_of_the_fit():
    X, y = correlated(30, 2, 0)
    model = GraphCRF(learning="pcd", random_state=0, max_iter=3, warm_start=True).fit(X, y)
    assert model.alpha_ > 0
    assert len(model.loss_curve_) == 3
    before = [chains.copy() for chains in model._progress.state]
    model.fit(X, y)
    assert any((a != b).any() for a, b in zip(before, model._progress.state))
    weight = np.r_[0.0, 0.0, np.ones(28)]
    kept = GraphCRF(alpha=0.1, learning="pcd", random_state=0, max_iter=2).fit(X, y, weight)
    same = GraphCRF(alpha=0.1, learning="pcd", random_state=0, max_iter=2).fit(X[2:], y[2:])
    np.testing.assert_array_equal(kept.coef_, same.coef_)
    stream = GraphCRF(alpha=0.1, learning="pcd", random_state=0)
    stream.partial_fit(X[:10], y[:10], classes=[0, 1]).partial_fit(X[10:20], y[10:20])
    # Graphs of another size in the same places start new chains.
    small = [Graph(graph.nodes[:3], [[0, 1], [1, 2]]) for graph in X[:10]]
    stream.partial_fit(small, [labels[:3] for labels in y[:10]])
    assert stream._progress.state[0].shape[1] == 3
    held = GraphCRF(alpha=0.1, learning="cd", early_stopping=True, max_iter=3, random_state=0)
    assert len(held.fit(X, y).validation_scores_) == 3


def test_errors_name_the_cause():
    X, y = correlated(6, 2, 0)
    with pytest.raises(ValueError, match="stochastic solver such as 'adam'"):
        GraphCRF(learning="cd", solver="lbfgs").fit(X, y)
    for name in ("pcd", "weighted_bp_chain"):
        with pytest.raises(ValueError, match=f"needs learning='mle'; got learning='{name}'"):
            GraphCRF(learning=name, n_latent_states=2).fit(X, y)
    with pytest.raises(ValueError, match="persistence=0"):
        GraphCRF(learning=PMPLearning(PerturbAndMaxProduct(persistence=0.5))).fit(X, y)
    model = GraphCRF(alpha=0.1, learning="cd", solver=Adam(batch_size=3), max_iter=1)
    assert np.isfinite(logsumexp(model.fit(X, y).coef_))
