"""GraphCRF with types of nodes, held against enumeration and finite differences."""

import pickle
from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import clone

from skcrbm import Graph, GraphCRF
from skcrbm.inference import Exact, SumProduct, infer
from skcrbm.learning import Backpropagation
from skcrbm.learning.lbfgs import RowsObjective
from skcrbm.learning.structured.penalty import structured_penalty

CLASSES = {"atom": ["C", "N", "O"], "bond": [1, 2], "ring": ["N"]}
WIDTH = {"atom": 2, "bond": 1, "ring": 3}


def make_graphs(seed=0, n_graphs=8, cycles=False, edge_features=1):
    """Graphs of two to five nodes of three types, with features of their own number."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for c in range(n_graphs):
        n = int(rng.integers(2, 6))
        types = [["atom", "bond", "ring"][k] for k in rng.permutation(5)[:n] % 3]
        if c < 3:
            types[0] = "atom"
        edges = [[int(rng.integers(k)), k] for k in range(1, n)]
        if cycles and n > 2:
            edges += [[0, n - 1]] if [0, n - 1] not in edges else [[1, n - 1]]
        nodes = [rng.normal(size=WIDTH[t]).tolist() for t in types]
        Z = rng.normal(size=(len(edges), edge_features)) if edge_features else None
        X.append(Graph(nodes, edges, Z, types))
        y.append([CLASSES[t][int(rng.integers(len(CLASSES[t])))] for t in types])
    return X, y


def log_weights(model, graph):
    """All label vectors as positions in `classes_`, and their log-weights, by plain loops."""
    allowed = [np.flatnonzero(model.class_types_ == t) for t in graph.node_types]
    states = np.array(list(product(*allowed)))
    total = np.zeros(len(states))
    for s, state in enumerate(states):
        for node, k in zip(graph.nodes, state, strict=True):
            total[s] += model.coef_[k, : len(node)] @ np.asarray(node) + model.intercept_[k]
        for e, (i, j) in enumerate(graph.edges):
            total[s] += model.pair_intercept_[state[i], state[j]]
            if graph.edge_features is not None:
                pairs = model.pair_coef_[:, state[i], state[j]]
                total[s] += graph.edge_features[e] @ pairs
    return states, total


def positions(model, graph, labels):
    return [
        int(np.flatnonzero((model.class_types_ == t) & (model.classes_ == label))[0])
        for t, label in zip(graph.node_types, labels, strict=True)
    ]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("cycles", "inference"), [(False, "sum_product"), (True, "exact")])
def test_answers_are_those_of_enumeration(cycles, inference, directed):
    X, y = make_graphs(cycles=cycles)
    model = GraphCRF(alpha=0.1, inference=inference, directed=directed).fit(X, y)
    assert model.node_types_.tolist() == list(CLASSES)
    assert model.classes_.tolist() == [k for part in CLASSES.values() for k in part]
    known = [[labels[0], *[None] * (len(labels) - 1)] for labels in y]
    proba, best = model.predict_proba(X), model.predict(X)
    given, best_given = model.predict_proba(X, known), model.predict(X, known)
    likelihood, part = model.score_samples(X, y), model.score_samples(X, known)
    top, drawn = model.predict_topk(X, 2), model.sample(X[:2], 400, random_state=0)
    found, objective, gap = model.predict_with_gap(X)
    by_marginal = model.set_params(decode="marginal").predict(X)
    right = []
    for c, graph in enumerate(X):
        states, weight = log_weights(model, graph)
        p = np.exp(weight - logsumexp(weight))
        one_hot = np.eye(6)[states]
        np.testing.assert_allclose(proba[c], np.tensordot(p, one_hot, 1), atol=1e-8)
        np.testing.assert_array_equal(best[c], model.classes_[states[weight.argmax()]])
        np.testing.assert_array_equal(found[c], best[c])
        assert -objective[c] == pytest.approx(weight.max(), abs=1e-8)
        assert gap[c] == pytest.approx(0, abs=1e-8)
        np.testing.assert_array_equal(by_marginal[c], model.classes_[proba[c].argmax(axis=1)])
        true = positions(model, graph, y[c])
        agrees = states[:, 0] == true[0]
        log_p = weight - logsumexp(weight)
        assert likelihood[c] == pytest.approx(log_p[(states == true).all(1)][0], abs=1e-7)
        assert part[c] == pytest.approx(logsumexp(log_p[agrees]), abs=1e-7)
        q = p * agrees / p[agrees].sum()
        np.testing.assert_allclose(given[c], np.tensordot(q, one_hot, 1), atol=1e-8)
        np.testing.assert_array_equal(best_given[c], model.classes_[states[q.argmax()]])
        np.testing.assert_allclose(top[c].log_proba, np.sort(log_p)[::-1][:2], atol=1e-8)
        if c < 2:
            for node, chances in enumerate(proba[c]):
                own = model.class_types_ == graph.node_types[node]
                share = [(drawn[c][:, node] == label).mean() for label in model.classes_[own]]
                np.testing.assert_allclose(share, chances[own], atol=0.12)
        right += [a == b for a, b in zip(by_marginal[c], y[c], strict=True)]
    assert model.score(X, y) == pytest.approx(np.mean(right))
    energy = model.factor_graph(X[0])
    assert infer(energy, "exact", returns="map").assignment.shape == (1, len(y[0]))


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("learning", "missing"),
    [
        ("mle", False),
        ("mle", True),
        ("pseudo_likelihood", False),
        (Backpropagation(label_smoothing=0.1), True),
    ],
)
def test_gradient_by_finite_differences(learning, missing):
    X, y = make_graphs(1)
    if missing:
        y = [y[0], *([None, *labels[1:]] for labels in y[1:])]
    options = {"alpha": 0.1, "max_iter": 2, "directed": True}  # free entries of the tables
    model = GraphCRF(learning=learning, inference=SumProduct(tol=1e-12), **options)
    model.fit(X, y)
    batch = model._training_batch(X, y, None, True)
    plan = model._plan(batch, model._solver(), np.random.RandomState(0), True)
    penalty = structured_penalty(model._model.params, 0.1, 0.0)
    function = RowsObjective(model._model, batch, plan.objective, penalty)
    x = function.coordinates.vector(model._model.params) + 0.1
    x += np.random.default_rng(0).normal(size=len(x)) * 0.2

    _, gradient, _ = function(x)
    for i in range(0, len(x), 3):
        step = np.zeros(len(x))
        step[i] = 1e-5
        slope = (function(x + step)[0] - function(x - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(slope, abs=2e-6)


def test_max_margin_finds_the_labels_that_violate_the_margin_most():
    X, y = make_graphs(4)
    model = GraphCRF(alpha=0.05, learning="max_margin", random_state=0).fit(X, y)
    total = 0.0
    for graph, labels in zip(X, y, strict=True):
        states, weight = log_weights(model, graph)
        true = positions(model, graph, labels)
        score = weight[(states == true).all(axis=1)][0]
        total += (weight + (states != true).sum(axis=1)).max() - score
    # All arrays of weights count in the penalty of "max_margin".
    arrays = model.coef_, model.intercept_, model.pair_intercept_, model.pair_coef_
    penalty = 0.025 * sum((part**2).sum() for part in arrays)
    assert model.objective_ == pytest.approx(total / len(X) + penalty, rel=1e-8)
    assert model.certified_
    assert 0 <= model.duality_gap_ <= 0.011 * model.objective_
    for graph, found in zip(X, model.predict(X), strict=True):
        states, weight = log_weights(model, graph)
        np.testing.assert_array_equal(found, model.classes_[states[weight.argmax()]])


def test_iterations_of_backpropagation_give_other_classes_no_probability():
    X, y = make_graphs(5)
    model = GraphCRF(
        alpha=0.05, learning="backprop", inference=SumProduct(max_iter=4), decode="marginal"
    ).fit(X, y)
    for graph, proba in zip(X, model.predict_proba(X), strict=True):
        own = model.class_types_[None] == np.array(graph.node_types)[:, None]
        assert (proba[~own] == 0).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert model.score(X, y) > 0.5


def test_a_single_type_changes_nothing():
    X, y = make_graphs()
    rng = np.random.default_rng(0)
    plain = [graph._replace(nodes=rng.normal(size=(len(y[c]), 2)), node_types=None)
             for c, graph in enumerate(X)]  # fmt: skip
    labels = [rng.integers(0, 3, len(part)) for part in y]
    typed = [graph._replace(node_types=["a"] * len(graph.nodes)) for graph in plain]
    one, other = GraphCRF(alpha=0.1).fit(plain, labels), GraphCRF(alpha=0.1).fit(typed, labels)
    np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-6)
    for a, b in zip(one.predict_proba(plain), other.predict_proba(typed), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_approximate_inference_stochastic_solvers_and_pickles():
    X, y = make_graphs(3, 16, cycles=True)
    model = GraphCRF(alpha=0.05, inference=Exact()).fit(X, y)
    for method in ("sum_product", "tree_reweighted", "mean_field"):
        other = clone(model).set_params(inference=method).fit(X, y)
        assert other.score(X, y) > 0.5
    again = pickle.loads(pickle.dumps(model))
    for a, b in zip(model.predict(X), again.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)
    stream = GraphCRF(alpha=0.01, solver="adam", random_state=0)
    few = [c for c in range(16) if set(X[c].node_types) <= {"bond"}][:1] or [0]
    padded = [graph._replace(nodes=[[*n, *[0.0] * (3 - len(n))] for n in graph.nodes])
              for graph in X]  # fmt: skip
    stream.partial_fit([padded[few[0]]], [y[few[0]]], classes=CLASSES)
    before = stream.score_samples(padded, y).mean()
    for _ in range(10):
        stream.partial_fit(padded, y)
    assert stream.score_samples(padded, y).mean() > before
    assert stream.classes_.tolist() == model.classes_.tolist()


def test_nodes_as_arrays_in_fit_and_as_lists_in_predict():
    rng = np.random.default_rng(0)
    nodes, edges, types = rng.normal(size=(4, 2)), [(0, 1), (1, 2), (2, 3)], list("abab")
    model = GraphCRF(alpha=0.1).fit([Graph(nodes, edges, node_types=types)] * 3, [list("xyxz")] * 3)
    as_lists = Graph(nodes.tolist(), edges, node_types=types)
    assert model.predict([as_lists])[0].tolist() == list("xyxz")
    for wrong in (5, np.zeros((2, 2), int)):
        with pytest.raises(ValueError, match="node_types of graph 0 of X should be a sequence"):
            model.predict([as_lists._replace(node_types=wrong)])


def test_clear_errors():
    X, y = make_graphs()
    model = GraphCRF(alpha=0.1).fit(X, y)
    plain = Graph(np.zeros((2, 3)), [[0, 1]], np.zeros((1, 1)))
    for graphs, message in (
        ([plain], "graph 0 of X has no node_types"),
        ([plain._replace(node_types=["atom"])], "has 1 entries, but the graph has 2 nodes"),
        ([plain._replace(node_types=["atom", "moon"])], "node_types.*'moon'"),
        ([plain._replace(node_types=["atom", None])], "node_types of graph 0 of X has missing"),
        (
            [plain._replace(nodes=[[1.0], [1.0]], node_types=["atom", "bond"])],
            "node 0 of graph 0 of X has 1 features, but nodes of type 'atom' have 2",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(graphs)
    wrong = [list(labels) for labels in y]
    wrong[0][X[0].node_types.index("atom")] = 2  # a class of bonds
    with pytest.raises(ValueError, match="y at nodes of"):
        model.score_samples(X, wrong)
    with pytest.raises(ValueError, match="fitted without node_types"):
        GraphCRF(alpha=0.1).fit([plain] * 2, [[0, 1]] * 2).predict(X)
    with pytest.raises(ValueError, match="classes must be a dict"):
        GraphCRF(solver="adam").partial_fit(X, y, classes=["C", "N"])
