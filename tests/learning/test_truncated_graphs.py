"""Gradient through truncated inference on graphs: finite differences, trees, and learning."""

import numpy as np
import pytest
from reference.graph_objectives import check_gradient, objective_of
from scipy.special import logsumexp

from skcrbm import Graph, GraphCRF
from skcrbm.inference import MeanField, SumProduct, infer
from skcrbm.inference.truncated_graphs import MeanFieldNetwork, MessageNetwork
from skcrbm.learning import Backpropagation

EDGES = np.array([[0, 1], [1, 2], [2, 0], [3, 2]])


def model_arrays(seed=0, k=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(5, k)), rng.normal(size=(len(EDGES), k, k))


def naive_beliefs(scores, tables, n_iter, damping):
    """Return the beliefs after parallel sum-product, message by message, in plain Python."""
    k = scores.shape[1]
    both = {}
    for (i, j), table in zip(EDGES.tolist(), tables):
        both[i, j], both[j, i] = table, table.T
    messages = {arc: np.zeros(k) for arc in both}
    for _ in range(n_iter):
        new = {}
        for (i, j), table in both.items():
            own = scores[i] + sum(messages[a, b] for a, b in both if b == i and a != j)
            value = logsumexp(table + own[:, None], axis=0)
            new[i, j] = (1 - damping) * (value - value.mean()) + damping * messages[i, j]
        messages = new
    logs = np.array([scores[v] + sum(messages[a] for a in both if a[1] == v)
                     for v in range(len(scores))])  # fmt: skip
    return logs - logsumexp(logs, axis=1, keepdims=True)


@pytest.mark.parametrize(("n_iter", "damping"), [(1, 0.0), (3, 0.0), (4, 0.3)])
def test_messages_are_those_of_plain_loops(n_iter, damping):
    scores, tables = model_arrays()
    found = MessageNetwork(scores, EDGES, tables, n_iter, damping).log_beliefs()
    np.testing.assert_allclose(found, naive_beliefs(scores, tables, n_iter, damping), atol=1e-12)


def test_mean_field_is_that_of_plain_loops():
    scores, tables = model_arrays()
    logs = scores
    for _ in range(3):
        b = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        logs = scores.copy()
        for (i, j), table in zip(EDGES, tables):
            logs[j] += b[i] @ table
            logs[i] += table @ b[j]
    found = MeanFieldNetwork(scores, EDGES, tables, 3).log_beliefs()
    np.testing.assert_allclose(found, logs - logsumexp(logs, axis=1, keepdims=True), atol=1e-12)


def test_huge_weights_use_logarithms():
    scores, tables = model_arrays()
    found = MessageNetwork(scores, EDGES, 500 * tables, 3, 0.2)
    assert found.weights is None
    expected = naive_beliefs(scores, 500 * tables, 3, 0.2)
    np.testing.assert_allclose(found.log_beliefs(), expected, atol=1e-9)
    plain, logs = (MessageNetwork(scores, EDGES, tables, 3, 0.2) for _ in range(2))
    logs.weights = None
    slope = np.random.default_rng(0).normal(size=scores.shape)
    for a, b in zip(plain.gradient(plain.run(), slope), logs.gradient(logs.run(), slope)):
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("kind", [MessageNetwork, MeanFieldNetwork])
def test_gradient_of_the_network_by_finite_differences(kind):
    scores, tables = model_arrays()
    options = (0.2,) if kind is MessageNetwork else ()
    rng = np.random.default_rng(1)
    slope = rng.normal(size=scores.shape)

    def value(s, t):
        return np.vdot(slope, kind(s, EDGES, t, 4, *options).run().logs)

    network = kind(scores, EDGES, tables, 4, *options)
    g_scores, g_tables = network.gradient(network.run(), slope)
    for _ in range(5):
        a, b = rng.normal(size=scores.shape), rng.normal(size=tables.shape)
        h = 1e-6
        ends = [value(scores + s * h * a, tables + s * h * b) for s in (1, -1)]
        slope_along = np.vdot(g_scores, a) + np.vdot(g_tables, b)
        assert slope_along == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6, abs=1e-7)


def noisy_paths(n_graphs, seed, cycle=False):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_graphs):
        labels = [int(rng.integers(3))]
        for _ in range(5):
            labels.append(labels[-1] if rng.random() < 0.7 else int(rng.integers(3)))
        nodes = np.eye(3)[labels] + rng.normal(size=(6, 3))
        edges = [[t, t + 1] for t in range(5)] + ([[0, 5]] if cycle else [])
        X.append(Graph(nodes, edges, rng.normal(size=(len(edges), 1))))
        y.append(labels)
    return X, y


@pytest.mark.parametrize("inference", [SumProduct(max_iter=4, damping=0.1), MeanField(max_iter=3)])
def test_gradient_of_the_objective_by_finite_differences(inference):
    X, y = noisy_paths(6, 0, cycle=True)
    y = [[None, *labels[1:]] for labels in y]  # nodes without labels have no loss
    weight = np.arange(6) % 3 + 1.0
    rule = Backpropagation(label_smoothing=0.1)
    model = GraphCRF(alpha=0.1, learning=rule, inference=inference, directed=True, max_iter=2)
    model.fit(X, y, sample_weight=weight)
    check_gradient(model, objective_of(model, X, y, weight))


def test_enough_iterations_are_exact_on_a_tree():
    X, y = noisy_paths(20, 0)
    model = GraphCRF(alpha=0.1, learning="backprop", inference=SumProduct(max_iter=6)).fit(X, y)
    known = [[labels[0], *[None] * 5] for labels in y]
    for given in (None, known):
        found = model.predict_proba(X, given)
        for c, graph in enumerate(X):
            clamp = None
            if given is not None:
                clamp = [[np.nan if v is None else v for v in given[c]]]
            energy = model.factor_graph(graph)
            exact = infer(energy, "exact", returns="marginals", clamp=clamp).marginals[0]
            np.testing.assert_allclose(found[c], exact, atol=1e-10)


@pytest.mark.deep
def test_loss_is_the_mean_log_belief_and_learning_uses_neighbours():
    X, y = noisy_paths(80, 0, cycle=True)
    new, labels = noisy_paths(150, 1, cycle=True)
    model = GraphCRF(alpha=0.0, learning="backprop", decode="marginal", max_iter=30)
    model.fit(X, y)
    proba = model.predict_proba(X)
    loss = -np.mean([np.log(p[np.arange(6), own]).sum() for p, own in zip(proba, y)])
    assert model.loss_curve_[-1] == pytest.approx(loss)
    likelihood = GraphCRF(alpha=0.02, inference="exact", decode="marginal").fit(X, y)
    alone = [Graph(graph.nodes, np.empty((0, 2), int)) for graph in X]
    nodes = GraphCRF(alpha=0.02).fit(alone, y)
    right = model.set_params(alpha=0.02).fit(X, y).score(new, labels)
    bare = [Graph(graph.nodes, np.empty((0, 2), int)) for graph in new]
    assert right > likelihood.score(new, labels) - 0.02 > nodes.score(bare, labels)


def test_stochastic_solvers_and_errors():
    X, y = noisy_paths(10, 0)
    model = GraphCRF(alpha=0.1, learning="backprop", solver="adam", max_iter=2, random_state=0)
    assert len(model.fit(X, y).loss_curve_) == 2
    with pytest.raises(ValueError, match="inference must be 'sum_product', 'mean_field'"):
        GraphCRF(alpha=0.1, learning="backprop", inference="exact").fit(X, y)
    assert GraphCRF(learning="backprop", max_iter=3).fit(X, y).alpha_ > 0
