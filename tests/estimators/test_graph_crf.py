"""GraphCRF: against enumeration, finite differences and ChainCRF, and its promises."""

import pickle
from itertools import product

import numpy as np
import pytest
from reference.cases import deep
from reference.graph_objectives import check_gradient, objective_of
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

from skcrbm import ChainCRF, Graph, GraphCRF, grid_graph
from skcrbm.inference import Exact, SumProduct, infer

TRIANGLE = [[0, 1], [1, 2], [2, 0]]


def random_graphs(seed, n_graphs=12, n_classes=3, cycles=False, edge_features=2):
    """Return graphs of two to five nodes, and random labels that depend on the features."""
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=(2, n_classes))
    X, y = [], []
    for _ in range(n_graphs):
        n = int(rng.integers(2, 6))
        edges = [[int(rng.integers(k)), k] for k in range(1, n)]
        if cycles and n > 2:
            edges += [[0, n - 1]] if [0, n - 1] not in edges else [[1, n - 1]]
        nodes = rng.normal(size=(n, 2))
        Z = rng.normal(size=(len(edges), edge_features)) if edge_features else None
        X.append(Graph(nodes, edges, Z))
        y.append((nodes @ coef + rng.normal(size=(n, n_classes))).argmax(axis=1))
    return X, y


def log_weights(model, graph):
    """Return all label vectors and their log-weights, from the public attributes."""
    n, k = len(graph.nodes), len(model.classes_)
    states = np.array(list(product(range(k), repeat=n)))
    scores = np.asarray(graph.nodes) @ np.asarray(model.coef_).T + model.intercept_
    total = scores[np.arange(n), states].sum(axis=1)
    for e, (i, j) in enumerate(graph.edges):
        table = model.pair_intercept_.copy()
        if graph.edge_features is not None:
            table = table + np.tensordot(graph.edge_features[e], model.pair_coef_, 1)
        total = total + table[states[:, i], states[:, j]]
    return states, total


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(
    ("cycles", "inference"), [(False, "sum_product"), (True, "exact"), (False, "exact")]
)
def test_answers_are_those_of_enumeration(cycles, inference, directed):
    X, y = random_graphs(0, cycles=cycles)
    model = GraphCRF(alpha=0.1, inference=inference, directed=directed).fit(X, y)
    proba, labels = model.predict_proba(X), model.predict(X)
    likelihood = model.score_samples(X, y)
    known = [[int(labels[0]), *[None] * (len(labels) - 1)] for labels in y]
    given, best_given = model.predict_proba(X, known), model.predict(X, known)
    part = model.score_samples(X, known)
    for c, graph in enumerate(X):
        states, weight = log_weights(model, graph)
        p = np.exp(weight - logsumexp(weight))
        one_hot = np.eye(3)[states]
        np.testing.assert_allclose(proba[c], np.tensordot(p, one_hot, 1), atol=1e-8)
        np.testing.assert_array_equal(labels[c], states[weight.argmax()])
        where = (states == y[c]).all(axis=1)
        assert likelihood[c] == pytest.approx(np.log(p[where][0]), abs=1e-7)
        agrees = states[:, 0] == y[c][0]
        q = p * agrees / p[agrees].sum()
        np.testing.assert_allclose(given[c], np.tensordot(q, one_hot, 1), atol=1e-8)
        np.testing.assert_array_equal(best_given[c], states[q.argmax()])
        assert part[c] == pytest.approx(np.log(p[agrees].sum()), abs=1e-7)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(
    ("learning", "missing"), [("mle", False), ("mle", True), ("pseudo_likelihood", False)]
)
@pytest.mark.parametrize("directed", [False, True])
def test_gradient_by_finite_differences(learning, directed, missing):
    X, y = random_graphs(1)
    if missing:
        y = [[None, *labels[1:].tolist()] for labels in y]
    weight = np.arange(len(X)) % 3 + 1.0
    model = GraphCRF(
        learning=learning,
        directed=directed,
        inference=SumProduct(tol=1e-12),
        alpha=0.1,
        max_iter=2,
    )
    model.fit(X, y, sample_weight=weight)
    function = objective_of(model, X, y, weight)
    if not directed:  # the matrices of pairs stay symmetric
        x = function.coordinates.vector(model._model.params)
        params = function.coordinates.params(x)
        np.testing.assert_allclose(params.pair_intercept, params.pair_intercept.T, atol=1e-12)

    def along(function, random):
        return function.coordinates.vector(
            _symmetric(function.coordinates.params(random), directed)
        )

    check_gradient(model, function, along)


def _symmetric(params, directed):
    if directed:
        return params
    return params._replace(
        pair_intercept=params.pair_intercept + params.pair_intercept.T,
        pair_coef=params.pair_coef + params.pair_coef.transpose(0, 2, 1),
    )


def test_loss_is_the_mean_negative_log_likelihood():
    X, y = random_graphs(2)
    weight = np.arange(len(X)) % 2 + 1.0
    model = GraphCRF(alpha=0.0, max_iter=5).fit(X, y, sample_weight=weight)
    expected = -(weight @ model.score_samples(X, y)) / weight.sum()
    assert model.loss_curve_[-1] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_a_chain_is_a_chain_crf(kind):
    """The weights of a chain without weights of its ends are the weights of a directed path."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 6, 20)
    rows = [rng.normal(size=(n, 3)) for n in lengths]
    y = [rng.integers(0, 3, n) for n in lengths]
    X = [Graph(kind(x), [[t, t + 1] for t in range(len(x) - 1)]) for x in rows]
    graph = GraphCRF(alpha=1e-6, directed=True, features="all").fit(X, y)
    chain = ChainCRF(alpha=1e-6, fit_intercept=False, features="all")
    ones = [kind(np.hstack([x, np.ones((len(x), 1))])) for x in rows]  # instead of an intercept
    chain.fit(ones, y)
    expected = chain.score_samples(ones, y)
    assert graph.score_samples(X, y).mean() == pytest.approx(expected.mean(), abs=2e-3)
    for c in range(20):
        energy = graph.factor_graph(X[c])
        found = infer(energy, "exact", returns="marginals").marginals[0]
        np.testing.assert_allclose(graph.predict_proba([X[c]])[0], found, atol=1e-8)


@pytest.mark.deep
def test_cycles_by_approximate_methods():
    X, y = random_graphs(3, n_graphs=40, cycles=True)
    exact = GraphCRF(alpha=0.1, inference=Exact()).fit(X, y)
    for method, bound in (("sum_product", 0.1), ("tree_reweighted", 0.2), ("mean_field", 0.5)):
        model = GraphCRF(alpha=0.1, inference=method).fit(X, y)
        away = max(
            np.abs(p - q).max() for p, q in zip(model.predict_proba(X), exact.predict_proba(X))
        )
        assert away < bound, method
        assert model.score(X, y) > exact.score(X, y) - 0.05


def test_edges_help():
    """Neighbours with equal labels: the nodes alone are noisy."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(60):
        labels = np.repeat(rng.integers(0, 2, 3), 4)
        X.append(
            Graph(labels[:, None] + 1.2 * rng.normal(size=(12, 1)), [[t, t + 1] for t in range(11)])
        )
        y.append(labels)
    graph = GraphCRF(alpha=0.01, decode="marginal").fit(X[:40], y[:40])
    alone = GraphCRF(alpha=0.01).fit([g._replace(edges=[]) for g in X[:40]], y[:40])
    truth = np.concatenate(y[40:])
    right = (np.concatenate(graph.predict(X[40:])) == truth).mean()
    without = np.concatenate(alone.predict([g._replace(edges=[]) for g in X[40:]]))
    assert right > (without == truth).mean() + 0.04
    assert graph.pair_intercept_[0, 0] > graph.pair_intercept_[0, 1]


def test_missing_labels_are_summed_out():
    """Rows without any label change nothing; a graph with missing labels teaches less."""
    X, y = random_graphs(4)
    full = GraphCRF(alpha=0.1).fit(X, y)
    more = GraphCRF(alpha=0.1).fit([*X, X[0]], [*y, None], sample_weight=[*[1.0] * len(X), 1e-9])
    np.testing.assert_allclose(more.coef_, full.coef_, atol=1e-3)
    some = [[None, *labels[1:].tolist()] for labels in y]
    part = GraphCRF(alpha=0.1).fit(X, some)
    assert part.score(X, y) > 0.5
    with pytest.raises(ValueError, match="pseudo_likelihood' needs complete labels"):
        GraphCRF(learning="pseudo_likelihood").fit(X, some)


@pytest.mark.parametrize("solver", ["adam", deep("sgd")])
def test_stochastic_solvers_and_streams(solver):
    X, y = random_graphs(6, n_graphs=60)
    best = GraphCRF(alpha=0.1).fit(X, y)
    model = GraphCRF(alpha=0.1, solver=solver, max_iter=60, random_state=0).fit(X, y)
    assert model.score_samples(X, y).mean() > best.score_samples(X, y).mean() - 0.3
    stream = GraphCRF(alpha=0.1, solver=solver, random_state=0)
    for _ in range(30):
        for first in range(0, 60, 20):
            stream.partial_fit(X[first : first + 20], y[first : first + 20], classes=[0, 1, 2])
    assert stream.score_samples(X, y).mean() > best.score_samples(X, y).mean() - 0.3


def test_scikit_learn_tools():
    X, y = random_graphs(7, n_graphs=30)
    names = [np.array(["a", "b", "c"])[labels] for labels in y]
    search = GridSearchCV(GraphCRF(), {"alpha": [0.01, 1.0], "directed": [False, True]}, cv=3)
    search.fit(X, names)
    assert set(np.concatenate(search.predict(X))) <= {"a", "b", "c"}
    assert cross_val_score(GraphCRF(alpha=0.1), X, names, cv=3).shape == (3,)
    model = search.best_estimator_
    copy = pickle.loads(pickle.dumps(model))
    for one, other in zip(copy.predict_proba(X), model.predict_proba(X), strict=True):
        np.testing.assert_array_equal(one, other)
    assert clone(model).get_params() == model.get_params()


def test_threads_and_batches_do_not_change_answers():
    X, y = random_graphs(8, n_graphs=30)
    weight = np.arange(30) % 4 + 1.0
    one = GraphCRF(alpha=0.1, n_jobs=1).fit(X, y, sample_weight=weight)
    two = GraphCRF(alpha=0.1, n_jobs=2).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    for c in range(5):
        np.testing.assert_allclose(one.predict_proba([X[c]])[0], one.predict_proba(X)[c], atol=1e-9)


def test_warm_start_and_search_of_alpha():
    X, y = random_graphs(9, n_graphs=30)
    model = GraphCRF(warm_start=True, random_state=0).fit(X, y)
    assert model.alpha_ > 0
    first = model.n_iter_
    model.fit(X, y)
    assert model.n_iter_ < first
    with pytest.raises(ValueError, match="directed=True, but the model was fitted with"):
        model.set_params(directed=True).fit(X, y)


def test_alpha_is_judged_by_graphs_with_labels():
    X, y = random_graphs(13, n_graphs=40)
    few = GraphCRF(random_state=0).fit(X, [*y[:4], *[None] * 36])
    assert few.alpha_ == 0.01
    some = [GraphCRF(random_state=s).fit(X, [*y[:20], *[None] * 20]) for s in range(3)]
    assert all(model.alpha_ * 40 < 100 for model in some)


def test_dicts_and_sparse_nodes():
    words = [[{"w": "a"}, {"w": "b"}], [{"w": "b"}, {"w": "a"}, {"w": "a"}]] * 4
    X = [(nodes, [[t, t + 1] for t in range(len(nodes) - 1)]) for nodes in words]
    y = [[item["w"].upper() for item in nodes] for nodes in words]
    model = GraphCRF(alpha=0.01).fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.feature_names_in_.tolist() == ["w=a", "w=b"]
    assert sparse.issparse(model.coef_)


def test_dense_nodes_after_a_fit_on_sparse_nodes():
    X, y = random_graphs(12)
    model = GraphCRF(alpha=0.1).fit([g._replace(nodes=sparse.csr_matrix(g.nodes)) for g in X], y)
    assert model.score(X, y) > 0.3


def test_samples():
    X, y = random_graphs(10)
    model = GraphCRF(alpha=0.1).fit(X, y)
    drawn = model.sample(X[:3], n_samples=4000, random_state=0)
    for labels, proba in zip(drawn, model.predict_proba(X[:3]), strict=True):
        share = (labels[..., None] == np.arange(3)).mean(axis=0)
        assert np.abs(share - proba).max() < 0.04
    again = model.sample(X[:3], n_samples=4000, random_state=0)
    np.testing.assert_array_equal(drawn[2], again[2])


def test_convergence_is_reported():
    rng = np.random.default_rng(0)
    X = [grid_graph(rng.normal(size=(4, 4))) for _ in range(6)]
    y = [rng.integers(0, 2, 16) for _ in X]
    with pytest.warns(ConvergenceWarning, match="inference converged for"):
        GraphCRF(alpha=0.01, inference=SumProduct(max_iter=1)).fit(X, y)


def test_images():
    """Nodes, edges and features of a small image, by hand."""
    image = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    graph = grid_graph(image, directions=True)
    assert graph.nodes.tolist() == image.reshape(6, 1).tolist()
    assert graph.edges.tolist() == [[0, 1], [1, 2], [3, 4], [4, 5], [0, 3], [1, 4], [2, 5]]
    squared = np.array([1.0, 0, 0, 1, 0, 1, 0])
    np.testing.assert_allclose(graph.edge_features[:, 0], np.exp(-squared / squared.mean()))
    assert graph.edge_features[:, 1].tolist() == [1, 1, 1, 1, 0, 0, 0]
    eight = grid_graph(image, neighbours=8, contrast=False)
    assert eight.edge_features is None
    assert [tuple(e) for e in eight.edges[7:]] == [(0, 4), (1, 5), (1, 3), (2, 4)]
    colours = grid_graph(np.zeros((2, 2, 3)), features=np.ones((2, 2, 5)))
    assert colours.nodes.shape == (4, 5)
    np.testing.assert_array_equal(colours.edge_features, 1.0)
    assert len(grid_graph([[3.0]]).edges) == 0


NODES = np.zeros((3, 2))
GOOD = [Graph(NODES, TRIANGLE)], [[0, 1, 1]]


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (GOOD[0][0], GOOD[1], "single graph; pass"),
        ([], [], "X is an empty list"),
        ([NODES], GOOD[1], "graph 0 of X should be a skcrbm.Graph or a tuple"),
        ([(NODES, [[0, 3]])], GOOD[1], "edge 0 of graph 0 of X joins the nodes .0, 3., but"),
        ([(NODES, [[0, 0]])], GOOD[1], "joins a node with itself"),
        ([(NODES, [[0.5, 1]])], GOOD[1], "edges of graph 0 of X should be integers"),
        ([(NODES, TRIANGLE, [[1.0]])], GOOD[1], r"n_edge_features\) = \(3, 1\)"),
        ([(NODES[:0], [])], [[]], "all graphs of X are empty"),
        ([(NODES[0], [])], [[0]], r"should have the shape \(n_nodes, n_features\)"),
        (GOOD[0], [[0, 1]], "graph 0 of y has 2 labels, but graph 0 of X has 3 nodes"),
        (GOOD[0], [[0, 1, 1]] * 2, "y has 2 graphs, but X has 1"),
        (GOOD[0], [[None] * 3], "y holds no observed label"),
        ([(NODES, TRIANGLE, np.full((3, 1), np.nan))], GOOD[1], "edge_features of graph 0 of X"),
        ([(NODES, TRIANGLE, np.ones(3))], GOOD[1], "edge_features of graph 0 of X should have"),
    ],
)
def test_bad_input(X, y, message):
    with pytest.raises(ValueError, match=message):
        GraphCRF(alpha=0.1).fit(X, y)


def test_bad_input_of_a_fitted_model():
    X, y = random_graphs(11)
    model = GraphCRF(alpha=0.1).fit(X, y)
    bare = [graph._replace(edge_features=None) for graph in X]
    with pytest.raises(ValueError, match="graph 0 of X has no edge_features"):
        model.predict(bare)
    with pytest.raises(ValueError, match="y_known holds the label 7, which is not a class"):
        model.predict(X[:1], [[7] * len(X[0].nodes)])
    with pytest.raises(ValueError, match="X has 3 features, but the model was fitted with 2"):
        model.predict([Graph(np.zeros((2, 3)), [])])
    with pytest.raises(ValueError, match="partial_fit needs a stochastic solver"):
        model.partial_fit(X, y)
    for bad, message in (
        ({"neighbours": 5}, "neighbours must be 4 or 8, or 6 or 26 for a volume"),
        ({"features": np.zeros((3, 2, 1))}, "features should have the shape"),
    ):
        with pytest.raises(ValueError, match=message):
            grid_graph(np.zeros((2, 2)), **bad)
    with pytest.raises(ValueError, match="image should have the shape"):
        grid_graph(np.zeros(4))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="image contains NaN or infinity"):
            grid_graph([[0.0, bad]])
    assert np.isfinite(grid_graph([[0, 1e200], [1e200, 0]]).edge_features).all()
