"""Gradient through truncated inference on graphs: finite differences, trees, and learning."""

from itertools import product

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


def naive_beliefs(scores, tables, n_iter, damping, cliques=()):
    """Return the beliefs after parallel sum-product, message by message, in plain Python."""
    k = scores.shape[1]
    factors = [(edge, table) for edge, table in zip(EDGES.tolist(), tables)]
    factors += [(scope, table) for scopes, table in cliques for scope in scopes.tolist()]
    messages = {(f, v): np.zeros(k) for f, (scope, _) in enumerate(factors) for v in scope}
    for _ in range(n_iter):
        new = {}
        for f, v in messages:
            scope, table = factors[f]
            value = np.full(k, -np.inf)
            for states in product(range(k), repeat=len(scope)):
                total = table[states]
                for u, state in zip(scope, states):
                    if u != v:
                        others = (m for (g, w), m in messages.items() if w == u and g != f)
                        total = total + (scores[u] + sum(others))[state]
                own = states[scope.index(v)]
                value[own] = np.logaddexp(value[own], total)
            new[f, v] = (1 - damping) * (value - value.mean()) + damping * messages[f, v]
        messages = new
    logs = np.array([scores[v] + sum(m for (_, u), m in messages.items() if u == v)
                     for v in range(len(scores))])  # fmt: skip
    return logs - logsumexp(logs, axis=1, keepdims=True)


def clique_arrays(k=3):
    """Two cliques of three nodes that share a table, and a clique of four nodes."""
    rng = np.random.default_rng(5)
    three, four = np.array([[0, 1, 2], [4, 2, 3]]), np.array([[3, 1, 0, 4]])
    return [(three, rng.normal(size=(k,) * 3)), (four, rng.normal(size=(k,) * 4))]


@pytest.mark.parametrize(("n_iter", "damping"), [(1, 0.0), (3, 0.0), (4, 0.3)])
def test_messages_are_those_of_plain_loops(n_iter, damping):
    scores, tables = model_arrays()
    for cliques in ((), clique_arrays()):
        found = MessageNetwork(scores, EDGES, tables, n_iter, cliques, damping).log_beliefs()
        expected = naive_beliefs(scores, tables, n_iter, damping, cliques)
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_mean_field_is_that_of_plain_loops():
    scores, tables = model_arrays()
    cliques = clique_arrays()
    logs = scores
    for _ in range(3):
        b = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        logs = scores.copy()
        for (i, j), table in zip(EDGES, tables):
            logs[j] += b[i] @ table
            logs[i] += table @ b[j]
        for scopes, table in cliques:
            for scope in scopes:
                for states in product(range(3), repeat=len(scope)):
                    for place, v in enumerate(scope):
                        others = [b[u, s] for u, s in zip(scope, states) if u != v]
                        logs[v, states[place]] += table[states] * np.prod(others)
    found = MeanFieldNetwork(scores, EDGES, tables, 3, cliques).log_beliefs()
    np.testing.assert_allclose(found, logs - logsumexp(logs, axis=1, keepdims=True), atol=1e-12)


def test_huge_weights_use_logarithms():
    scores, tables = model_arrays()
    found = MessageNetwork(scores, EDGES, 500 * tables, 3, damping=0.2)
    assert found.weights is None
    expected = naive_beliefs(scores, 500 * tables, 3, 0.2)
    np.testing.assert_allclose(found.log_beliefs(), expected, atol=1e-9)
    plain, logs = (MessageNetwork(scores, EDGES, tables, 3, clique_arrays(), 0.2) for _ in range(2))
    logs.weights = None
    slope = np.random.default_rng(0).normal(size=scores.shape)
    first, second = plain.gradient(plain.run(), slope), logs.gradient(logs.run(), slope)
    for a, b in zip((*first[:2], *first.cliques), (*second[:2], *second.cliques)):
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("kind", [MessageNetwork, MeanFieldNetwork])
def test_gradient_of_the_network_by_finite_differences(kind):
    scores, tables = model_arrays()
    options = {"damping": 0.2} if kind is MessageNetwork else {}
    rng = np.random.default_rng(1)
    slope = rng.normal(size=scores.shape)
    scopes, shared = zip(*clique_arrays())

    def network(*logs):
        return kind(*logs[:1], EDGES, logs[1], 4, list(zip(scopes, logs[2:])), **options)

    start = (scores, tables, *(0.5 * table for table in shared))
    found = network(*start).gradient(network(*start).run(), slope)
    gradient = (found.scores, found.tables, *found.cliques)
    for _ in range(5):
        step = [rng.normal(size=part.shape) for part in start]
        h = 1e-6
        moved = ([part + s * h * d for part, d in zip(start, step)] for s in (1, -1))
        ends = [np.vdot(slope, network(*logs).run().logs) for logs in moved]
        slope_along = sum(np.vdot(g, d) for g, d in zip(gradient, step))
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


@pytest.mark.parametrize("inference", [SumProduct(max_iter=3, damping=0.1), MeanField(max_iter=3)])
def test_gradient_with_cliques_by_finite_differences(inference):
    """Two graphs have no clique of four nodes, and a node has a class that it must not have."""
    X, y = noisy_paths(6, 0, cycle=True)
    X = [graph._replace(cliques=[[0, 1, 2], [3, 4, 5]]) for graph in X]
    X[2:] = [graph._replace(cliques=[[5, 2, 0], [0, 1, 3, 4]]) for graph in X[2:]]
    X[0] = X[0]._replace(forbidden=[(0, (y[0][0] + 1) % 3)])
    y = [[*labels[:-1], None] for labels in y]
    weight = np.arange(6) % 3 + 1.0
    rule = Backpropagation(label_smoothing=0.1)
    model = GraphCRF(alpha=0.1, learning=rule, inference=inference, directed=True, max_iter=2)
    model.fit(X, y, sample_weight=weight)
    assert np.ptp(model.clique_coef_[4]) > 0
    check_gradient(model, objective_of(model, X, y, weight))


def test_enough_iterations_are_exact_on_a_tree_of_cliques():
    X, y = noisy_paths(20, 0)
    edges = X[0].edges[:2]  # a path 0 - 1 - 2, whose end joins two cliques
    X = [Graph(graph.nodes, edges, None, None, [[2, 3, 4], [4, 5, 6]]) for graph in X]
    X = [graph._replace(nodes=np.vstack([graph.nodes, graph.nodes[:1]])) for graph in X]
    y = [[*labels, labels[0]] for labels in y]
    model = GraphCRF(alpha=0.1, learning="backprop", inference=SumProduct(max_iter=6)).fit(X, y)
    exact = [infer(model.factor_graph(graph), "exact", returns="marginals") for graph in X]
    for found, expected in zip(model.predict_proba(X), exact):
        np.testing.assert_allclose(found, expected.marginals[0], atol=1e-10)
    known = [[labels[0], None, None, labels[3], None, None, None] for labels in y]
    for c, found in enumerate(model.predict_proba(X, known)):
        clamp = [[np.nan if v is None else v for v in known[c]]]
        energy = model.factor_graph(X[c])
        expected = infer(energy, "exact", returns="marginals", clamp=clamp).marginals[0]
        np.testing.assert_allclose(found, expected, atol=1e-10)


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
