"""GraphCRF with cliques of nodes, held against enumeration and finite differences."""

import numpy as np
import pytest
from reference.states import all_states
from scipy.special import logsumexp

from skcrbm import Graph, GraphCRF
from skcrbm.inference import SumProduct
from skcrbm.learning.lbfgs import RowsObjective
from skcrbm.learning.structured.penalty import structured_penalty


def make_graphs(seed=0, edges=True):
    """Graphs of four or five nodes with cliques of three or four nodes, and two classes."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for c in range(8):
        n = 4 + c % 2
        cliques = [[0, 1, 2]] if c % 3 else [[2, 0, 1], [3, 0, 1, 2]]
        joined = [[2, 3], *([[3, 4]] if n == 5 else [])] if edges else []
        X.append(Graph(rng.normal(size=(n, 2)), joined, None, None, cliques))
        y.append(rng.integers(0, 2, n))
    return X, y


def log_weights(model, graph):
    n = len(graph.nodes)
    states = all_states(n)
    scores = graph.nodes @ model.coef_.T + model.intercept_
    total = scores[np.arange(n), states].sum(axis=1)
    for i, j in graph.edges:
        total = total + model.pair_intercept_[states[:, i], states[:, j]]
    for clique in graph.cliques:
        total = total + model.clique_coef_[len(clique)][tuple(states[:, clique].T)]
    return states, total


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("edges", [False, True])
def test_answers_are_those_of_enumeration(edges):
    X, y = make_graphs(edges=edges)
    model = GraphCRF(alpha=0.02, inference="exact").fit(X, y)
    assert {m: table.shape for m, table in model.clique_coef_.items()} == {
        3: (2, 2, 2),
        4: (2, 2, 2, 2),
    }
    assert np.ptp(model.clique_coef_[3]) > 0.1
    known = [[int(labels[0]), *[None] * (len(labels) - 1)] for labels in y]
    proba, best, likelihood = model.predict_proba(X), model.predict(X), model.score_samples(X, y)
    part, top = model.score_samples(X, known), model.predict_topk(X, 2)
    _, objective, gap = model.predict_with_gap(X)
    for c, graph in enumerate(X):
        states, weight = log_weights(model, graph)
        log_p = weight - logsumexp(weight)
        chances = np.tensordot(np.exp(log_p), np.eye(2)[states], 1)
        np.testing.assert_allclose(proba[c], chances, atol=1e-8)
        np.testing.assert_array_equal(best[c], states[weight.argmax()])
        assert likelihood[c] == pytest.approx(log_p[(states == y[c]).all(axis=1)][0], abs=1e-7)
        assert part[c] == pytest.approx(logsumexp(log_p[states[:, 0] == y[c][0]]), abs=1e-7)
        np.testing.assert_allclose(top[c].log_proba, np.sort(log_p)[::-1][:2], atol=1e-8)
        assert -objective[c] == pytest.approx(weight.max(), abs=1e-8)
        assert gap[c] == pytest.approx(0, abs=1e-8)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("learning", "missing"), [("mle", False), ("mle", True), ("pseudo_likelihood", False)]
)
def test_gradient_by_finite_differences(learning, missing):
    X, y = make_graphs(1)
    if missing:
        y = [[None, *labels[1:].tolist()] for labels in y]
    weight = np.arange(8) % 3 + 1.0
    options = {"alpha": 0.1, "max_iter": 2, "directed": True}
    model = GraphCRF(learning=learning, inference="exact", **options)
    model.fit(X, y, sample_weight=weight)
    batch = model._training_batch(X, y, weight, True)
    plan = model._plan(batch, model._solver(), np.random.RandomState(0), True)
    penalty = structured_penalty(model._model.params, 0.1, 0.0)
    function = RowsObjective(model._model, batch, plan.objective, penalty)
    x = function.coordinates.vector(model._model.params)
    x = x + np.random.default_rng(0).normal(size=len(x)) * 0.3
    _, gradient, _ = function(x)
    for i in range(len(x)):
        step = np.zeros(len(x))
        step[i] = 1e-5
        slope = (function(x + step)[0] - function(x - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(slope, abs=2e-6)


def test_pseudo_likelihood_is_the_sum_over_the_nodes():
    X, y = make_graphs(3)
    model = GraphCRF(learning="pseudo_likelihood", inference="exact", alpha=0.05).fit(X, y)
    assert np.ptp(model.clique_coef_[3]) > 0.1
    batch = model._training_batch(X, y, None, True)
    _, objective = model._problem(batch, np.random.RandomState(0), True)
    expected = 0.0
    for graph, labels in zip(X, y, strict=True):
        states, weight = log_weights(model, graph)
        for node in range(len(labels)):
            same = (np.delete(states, node, 1) == np.delete(labels, node)).all(axis=1)
            chosen = weight[same & (states[:, node] == labels[node])][0]
            expected += chosen - logsumexp(weight[same])
    assert objective.score(model._model, batch, 0) == pytest.approx(expected / len(X), rel=1e-10)


@pytest.mark.parametrize("learning", ["mle", "pseudo_likelihood"])
def test_other_rules_learn_what_pairs_cannot(learning):
    rng = np.random.default_rng(0)
    y = [np.array([a, b, (a + b) % 2]) for a, b in rng.integers(0, 2, (60, 2))]
    X = [Graph(np.zeros((3, 1)), [], cliques=[[0, 1, 2]])] * 60
    options = {"learning": learning, "max_iter": 30, "random_state": 0}
    model = GraphCRF(inference="exact", **options).fit(X, y)  # also searches alpha
    assert model.score_samples(X, y).mean() > -1.6  # log 1/4 is -1.39, log 1/8 is -2.08


def test_partial_fit_declares_the_sizes_of_later_cliques():
    X, y = make_graphs()
    first = [c for c in range(8) if c % 3][:3]  # cliques of three nodes only
    options = {"solver": "adam", "alpha": 0.01, "inference": "exact", "random_state": 0}
    model = GraphCRF(**options)
    few = [X[c] for c in first], [y[c] for c in first]
    model.partial_fit(*few, classes=[0, 1], clique_sizes=[4])
    assert sorted(model.clique_coef_) == [3, 4]
    assert (model.clique_coef_[4] == 0).all()
    model.partial_fit(X, y)
    assert (model.clique_coef_[4] != 0).all()
    with pytest.raises(ValueError, match=r"clique_sizes=\[5\] must not contain new sizes"):
        model.partial_fit(X, y, clique_sizes=[5])
    with pytest.raises(ValueError, match="4 nodes, but the model was fitted with cliques of"):
        GraphCRF(**options).partial_fit(*few, classes=[0, 1]).partial_fit(X, y)
    for wrong in ([2], 3, ["a"], [3.5]):
        with pytest.raises(ValueError, match="clique_sizes should be a list of integers"):
            GraphCRF(**options).partial_fit(X, y, clique_sizes=wrong)


def test_max_margin_counts_the_entries_of_cliques():
    X, y = make_graphs(4)
    options = {"learning": "max_margin", "max_iter": 600, "random_state": 0}
    model = GraphCRF(alpha=0.05, inference="exact", **options).fit(X, y)
    total = 0.0
    for graph, labels in zip(X, y, strict=True):
        states, weight = log_weights(model, graph)
        score = weight[(states == labels).all(axis=1)][0]
        total += (weight + (states != labels).sum(axis=1)).max() - score
    tables = list(model.clique_coef_.values())
    assert np.ptp(tables[0]) > 0.05
    arrays = [model.coef_, model.intercept_, model.pair_intercept_, *tables]
    penalty = 0.025 * sum((part**2).sum() for part in arrays)
    assert model.objective_ == pytest.approx(total / len(X) + penalty, rel=1e-8)
    assert 0 <= model.duality_gap_ <= 0.011 * model.objective_


def test_messages_are_exact_if_cliques_form_a_tree():
    X, y = make_graphs(2)
    X = [graph._replace(cliques=[[0, 1, 2]]) for graph in X]
    exact = GraphCRF(alpha=0.02, inference="exact").fit(X, y)
    messages = GraphCRF(alpha=0.02, inference=SumProduct(tol=1e-10)).fit(X, y)
    np.testing.assert_allclose(messages.clique_coef_[3], exact.clique_coef_[3], atol=1e-3)
    for one, other in zip(messages.predict_proba(X), exact.predict_proba(X), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3)


@pytest.mark.deep
def test_cliques_learn_what_pairs_cannot():
    """Three nodes whose classes have an even sum: any two of them are independent."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, (60, 2))
    y = [np.array([a, b, (a + b) % 2]) for a, b in first]
    nodes, edges = np.zeros((3, 1)), [[0, 1], [1, 2], [2, 0]]
    plain = [Graph(nodes, edges)] * 60
    joined = [Graph(nodes, edges, cliques=[[0, 1, 2]])] * 60
    pairs = GraphCRF(alpha=0.001, inference="exact").fit(plain, y)
    cliques = GraphCRF(alpha=0.001, inference="exact").fit(joined, y)
    assert pairs.score_samples(plain, y).mean() < -1.9  # log 1/8 is -2.08
    assert cliques.score_samples(joined, y).mean() > -1.5  # log 1/4 is -1.39


def test_clear_errors():
    X, y = make_graphs()
    model = GraphCRF(alpha=0.1, inference="exact", max_iter=2).fit(X, y)
    for cliques, message in (
        ([[0, 1]], "clique 0 of graph 0 of X should be three or more different nodes"),
        ([[0, 1, 1]], "different nodes"),
        ([[0, 1, 9]], "the graph has the nodes 0 to 3"),
        ([[0, 1.7, 2]], "cliques of graph 0 of X should be a list of sequences of node indices"),
        (["012"], "cliques of graph 0 of X should be a list of sequences"),
        ([0, 1, 2], "cliques of graph 0 of X should be a list of sequences"),
    ):
        with pytest.raises(ValueError, match=message):
            GraphCRF(alpha=0.1).fit([X[0]._replace(cliques=cliques)], y[:1])
    five = Graph(np.zeros((5, 2)), [[2, 3]], None, None, [[0, 1, 2, 3, 4]])
    with pytest.raises(ValueError, match="5 nodes, but the model was fitted with cliques of"):
        model.predict([five])
    plain = GraphCRF(alpha=0.1).fit([graph._replace(cliques=None) for graph in X], y)
    with pytest.raises(ValueError, match="3 nodes, but the model was fitted without cliques"):
        plain.predict([X[0]._replace(cliques=np.array([[0, 1, 2]]))])
    typed = [graph._replace(node_types=["a"] * len(graph.nodes)) for graph in X]
    for graphs, latent in ((X, 2), (typed, 1)):
        with pytest.raises(ValueError, match="cliques need n_latent_states=1 and graphs without"):
            GraphCRF(alpha=0.1, n_latent_states=latent).fit(graphs, y)
    large = Graph(np.zeros((12, 2)), [], None, None, [list(range(12))])
    with pytest.raises(ValueError, match=r"need a table with 12\^12 entries"):
        GraphCRF(alpha=0.1).fit([large], [list(range(12))])


@pytest.mark.parametrize("learning", ["mle", "pseudo_likelihood"])
def test_some_graphs_have_no_cliques(learning):
    """Graphs of another weight, or the graphs of a later batch, need not have cliques."""
    X = [Graph(np.eye(3), [[0, 1]]), Graph(np.eye(3), [], cliques=[[0, 1, 2]])]
    y = [[0, 1, 0], [1, 0, 1]]
    model = GraphCRF(learning=learning, alpha=0.1, max_iter=2, random_state=0)
    model.fit(X, y, sample_weight=[1, 2])
    assert np.isfinite(model.clique_coef_[3]).all()
    assert np.abs(model.coef_).max() > 0
    model.set_params(solver="adam").partial_fit(X[:1], y[:1])
    first = GraphCRF(learning=learning, alpha=0.1, solver="adam", random_state=0)
    first.partial_fit(X[:1], y[:1], clique_sizes=[3])
    np.testing.assert_array_equal(first.clique_coef_[3], np.zeros((2, 2, 2)))
