"""GraphCRF with latent states: answers by enumeration, gradients, and what is learned."""

import pickle
from itertools import product

import numpy as np
import pytest
from reference.graph_objectives import check_gradient, objective_of
from scipy import sparse
from scipy.special import logsumexp, softmax

from skcrbm import Graph, GraphCRF
from skcrbm.energies.ranges import RangeModel
from skcrbm.inference import SumProduct, infer

L = 2


def make_graphs(seed=0, n=8, cycles=False):
    """Return graphs of two to four nodes with features of edges, and random labels."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        size = int(rng.integers(2, 5))
        edges = [[int(rng.integers(v)), v] for v in range(1, size)]
        if cycles and size > 2:
            edges.append([0, size - 1] if [0, size - 1] not in edges else [1, size - 1])
        X.append(Graph(rng.normal(size=(size, 2)), edges, rng.normal(size=(len(edges), 1))))
        y.append(rng.integers(0, 2, size))
    y[0][:2] = 0, 1
    return X, y


def enumerated(model, graph):
    """Return all states of a graph and their log-weights, from the public attributes."""
    n, k = len(graph.nodes), len(model.intercept_)
    states = np.array(list(product(range(k), repeat=n)))
    scores = np.asarray(graph.nodes) @ np.asarray(model.coef_).T + model.intercept_
    total = scores[np.arange(n), states].sum(axis=1)
    for (i, j), z in zip(graph.edges, graph.edge_features):
        table = model.pair_intercept_ + np.tensordot(z, model.pair_coef_, 1)
        total = total + table[states[:, i], states[:, j]]
    return states, total


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("cycles", "inference"), [(False, "sum_product"), (True, "exact"), (False, "exact")]
)
@pytest.mark.parametrize("directed", [False, True])
def test_answers_are_those_of_enumeration(cycles, inference, directed):
    X, y = make_graphs(cycles=cycles)
    model = GraphCRF(
        alpha=0.01, inference=inference, directed=directed, n_latent_states=L, random_state=0,
        max_iter=20,
    )  # fmt: skip
    model.fit(X, y)
    assert model.coef_.shape == (2 * L, 2)
    known = [[int(labels[0]), *[None] * (len(labels) - 1)] for labels in y]
    proba, given = model.predict_proba(X), model.predict_proba(X, known)
    labels, best_given = model.predict(X), model.predict(X, known)
    likelihood, part = model.score_samples(X, y), model.score_samples(X, known)
    found, objective, gap = model.predict_with_gap(X, known)
    for c, graph in enumerate(X):
        states, weight = enumerated(model, graph)
        classes, p = states // L, softmax(weight)
        one_hot = np.eye(2)[classes]
        np.testing.assert_allclose(proba[c], np.tensordot(p, one_hot, 1), atol=1e-8)
        np.testing.assert_array_equal(labels[c], classes[weight.argmax()])
        fits = (classes == y[c]).all(axis=1)
        log_z = logsumexp(weight)
        assert likelihood[c] == pytest.approx(logsumexp(weight[fits]) - log_z, abs=1e-8)
        agrees = classes[:, 0] == y[c][0]
        assert part[c] == pytest.approx(logsumexp(weight[agrees]) - log_z, abs=1e-8)
        q = p * agrees / p[agrees].sum()
        np.testing.assert_allclose(given[c], np.tensordot(q, one_hot, 1), atol=1e-8)
        np.testing.assert_array_equal(best_given[c], classes[q.argmax()])
        np.testing.assert_array_equal(found[c], classes[q.argmax()])
        assert objective[c] == pytest.approx(-weight[q.argmax()])
        assert gap[c] == 0


def test_samples_have_the_frequencies_of_enumeration():
    X, y = make_graphs()
    model = GraphCRF(alpha=0.01, n_latent_states=L, random_state=0, max_iter=20).fit(X, y)
    drawn = model.sample(X[:1], 20000, [[y[0][0], *[None] * (len(y[0]) - 1)]], random_state=0)[0]
    states, weight = enumerated(model, X[0])
    classes = states // L
    weight = np.where(classes[:, 0] == y[0][0], weight, -np.inf)
    code = 2 ** np.arange(len(y[0]))
    p = np.bincount(classes @ code, softmax(weight))
    found = np.bincount(drawn @ code, minlength=len(p)) / 20000
    assert (np.abs(found - p) <= 5 * np.sqrt(p / 20000) + 1e-9).all()


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    ("cycles", "inference"),
    [
        (False, SumProduct(tol=1e-12)),
        (True, "exact"),
    ],
)
def test_gradient_by_finite_differences(missing, cycles, inference):
    X, y = make_graphs(1, cycles=cycles)
    if missing:
        y = [[None, *labels[1:].tolist()] for labels in y]
        y[1] = None
    weight = np.arange(len(X)) % 3 + 1.0
    model = GraphCRF(
        inference=inference, alpha=0.1, max_iter=2, n_latent_states=3, directed=True, random_state=0
    )
    model.fit(X, y, sample_weight=weight)
    check_gradient(model, objective_of(model, X, y, weight))
    observed = [None if labels is None else labels for labels in y]
    mean = model.score_samples(X, observed) @ weight / weight.sum()
    square = sum(np.square(p).sum() for p in model._model.params) - (model.intercept_**2).sum()
    assert model.loss_curve_[-1] == pytest.approx(-mean + 0.05 * square)


def test_ranges_of_states_by_enumeration():
    rng = np.random.default_rng(0)
    scores, edges = rng.normal(size=(4, 4)), np.array([[0, 1], [2, 1], [3, 0], [2, 3]])
    tables = rng.normal(size=(4, 4, 4))
    begin, size = np.array([2, 0, 1, 0]), np.array([2, 4, 2, 4])
    model = RangeModel(scores, edges, tables, begin, size)
    found = infer(model.energy, "exact", returns=("marginals", "statistics", "log_partition"))
    states = np.array(list(product(*(range(b, b + s) for b, s in zip(begin, size)))))
    logs = scores[np.arange(4), states].sum(axis=1)
    for (i, j), table in zip(edges, tables):
        logs = logs + table[states[:, i], states[:, j]]
    p = softmax(logs)
    assert found.log_partition[0] == pytest.approx(logsumexp(logs))
    np.testing.assert_allclose(
        model.marginals(found.marginals[0]), np.tensordot(p, np.eye(4)[states], 1), atol=1e-9
    )
    pairs = model.pair_marginals(found.statistics[0])
    for (i, j), table in zip(edges, pairs):
        expected = np.zeros((4, 4))
        np.add.at(expected, (states[:, i], states[:, j]), p)
        np.testing.assert_allclose(table, expected, atol=1e-9)


def two_parts(n, seed):
    """Return paths whose class 1 has two parts that look different; class 0 lies between."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        parts = rng.integers(0, 3, 6)  # 0: left part of class 1, 1: class 0, 2: right part
        X.append(Graph(3.0 * (parts[:, None] - 1) + rng.normal(size=(6, 1)),
                       [[t, t + 1] for t in range(5)]))  # fmt: skip
        y.append((parts != 1).astype(int))
    return X, y


@pytest.mark.deep
def test_latent_states_learn_what_linear_scores_cannot():
    X, y = two_parts(60, 0)
    new = two_parts(100, 1)
    plain = GraphCRF(alpha=0.01, decode="marginal").fit(X, y).score(*new)
    model = GraphCRF(alpha=0.01, decode="marginal", n_latent_states=2, random_state=0).fit(X, y)
    assert plain < 0.75
    assert model.score(*new) > 0.87  # the best possible share is 0.91
    same = GraphCRF(alpha=0.01, decode="marginal", n_latent_states=2, random_state=0, n_jobs=2)
    np.testing.assert_array_equal(same.fit(X, y).coef_, model.coef_)
    for a, b in zip(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.deep
def test_streams_sparse_nodes_and_the_search_for_the_penalty():
    X, y = two_parts(20, 0)
    stream = GraphCRF(alpha=0.01, n_latent_states=2, solver="adam", random_state=0)
    stream.partial_fit(X[:10], y[:10], classes=[0, 1]).partial_fit(X[10:], y[10:])
    assert np.isfinite(stream.score_samples(X, y)).all()
    thin = [graph._replace(nodes=sparse.csr_matrix(graph.nodes)) for graph in X]
    model = GraphCRF(n_latent_states=2, random_state=0, max_iter=5).fit(thin, y)
    assert model.coef_.shape == (4, 1)
    assert model.alpha_ > 0


def test_errors_name_the_cause():
    X, y = two_parts(6, 0)
    for learning in ("pseudo_likelihood", "max_margin", "backprop"):
        with pytest.raises(ValueError, match="n_latent_states=2 needs learning='mle'"):
            GraphCRF(n_latent_states=2, learning=learning).fit(X, y)
    model = GraphCRF(alpha=0.1, n_latent_states=2, warm_start=True, max_iter=2).fit(X, y)
    with pytest.raises(ValueError, match="predict_topk needs n_latent_states=1"):
        model.predict_topk(X, 2)
    with pytest.raises(ValueError, match="n_latent_states=3, but the model was fitted with"):
        model.set_params(n_latent_states=3).fit(X, y)
