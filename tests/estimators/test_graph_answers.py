"""GraphCRF: k best labels, proofs of optimality, and convergence of each graph."""

import tracemalloc

import numpy as np
import pytest
from estimators.test_graph_crf import log_weights, random_graphs
from scipy.special import logsumexp

from skcrbm import ChainCRF, Graph, GraphCRF, grid_graph
from skcrbm.energies import FactorGraphEnergy, OrFactors, TableFactors
from skcrbm.inference import ICM, MapSearch, SumProduct, infer
from skcrbm.inference.base import ContradictionError


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("cycles", [False, True])
@pytest.mark.parametrize("k", [1, 2, 7, 400])
def test_topk_is_that_of_enumeration(cycles, k):
    X, y = random_graphs(3, cycles=cycles)
    X.append(Graph(np.ones((4, 2)), [[0, 1]], np.ones((1, 2))))  # three components
    y.append(np.array([0, 1, 2, 0]))
    model = GraphCRF(alpha=0.05, inference="exact").fit(X, y)
    known = [[1, *[None] * (len(labels) - 1)] for labels in y]
    for given in (None, known):
        for graph, top in zip(X, model.predict_topk(X, k, given), strict=True):
            states, weight = log_weights(model, graph)
            if given is not None:
                states, weight = states[states[:, 0] == 1], weight[states[:, 0] == 1]
            expected = np.sort(weight - logsumexp(weight))[::-1][:k]
            np.testing.assert_allclose(top.log_proba, expected, atol=1e-8)
            place = [int(np.flatnonzero((states == row).all(axis=1))[0]) for row in top.labels]
            np.testing.assert_allclose(weight[place] - logsumexp(weight), top.log_proba, atol=1e-8)
            assert len(set(place)) == len(place) == min(k, len(states))


def test_topk_of_ties_and_of_a_chain():
    X = [Graph(np.zeros((3, 1)), [[0, 1], [1, 2]])]
    model = GraphCRF(alpha=1.0).fit([*X, *X], [["a", "b", "a"], ["b", "a", "b"]])
    top = model.predict_topk(X, 8)[0]
    assert len({tuple(row) for row in top.labels}) == 8
    assert np.exp(top.log_proba).sum() == pytest.approx(1)
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(n, 2)) for n in (5, 9, 12)]
    labels = [rng.integers(0, 3, len(x)) for x in rows]
    chain = ChainCRF(alpha=0.1).fit(rows, labels)
    for x, top in zip(rows, chain.predict_topk(rows, 20), strict=True):
        found = infer(chain.factor_graph(x), "exact", returns="best_states", n_best=20)
        (states,), (scores,) = found.best_states, found.best_scores
        np.testing.assert_array_equal(chain.classes_[states], top.labels)
        np.testing.assert_allclose(np.diff(scores), np.diff(top.log_proba), atol=1e-9)


def test_topk_of_components_takes_memory_linear_in_k():
    tables = [TableFactors([[i, i + 1], [i + 12, i + 13]], np.zeros((2, 2, 2))) for i in range(11)]
    energy = FactorGraphEnergy(tables, np.arange(24.0)[None] ** 1.1)
    infer(energy, "exact", returns="best_states", n_best=10)
    tracemalloc.start()
    found = infer(energy, "exact", returns="best_states", n_best=1000)
    (states,), (scores,) = found.best_states, found.best_scores
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 16 * 2**20
    assert len(np.unique(states, axis=0)) == 1000
    np.testing.assert_allclose(states @ np.arange(24.0) ** 1.1, scores)


def test_k_best_states_of_any_factor_graph():
    rng = np.random.default_rng(1)
    tables = [
        TableFactors([[0, 1, 2]], rng.normal(size=(2, 3, 4))),
        TableFactors([[2, 3]], np.where(rng.random((4, 2)) < 0.4, -np.inf, 0.5)),
    ]
    energy = FactorGraphEnergy(tables, n_states=[2, 3, 4, 2, 1])
    states = np.array(list(np.ndindex(2, 3, 4, 2, 1)))
    score = energy.score(states)
    answer = infer(energy, "exact", returns="best_states", n_best=60)
    values = np.sort(score[score > -np.inf])[::-1][:60]
    np.testing.assert_allclose(answer.best_scores[0, : len(values)], values, atol=1e-12)
    found = answer.best_states[0, : len(values)]
    np.testing.assert_allclose(energy.score(found), values, atol=1e-12)
    assert len(np.unique(found, axis=0)) == len(found)
    binary = FactorGraphEnergy(
        [TableFactors([[0, 1]], rng.normal(size=(2, 2))), OrFactors([[0, 1]], [2])],
        field=rng.normal(size=3),
    )
    answer = infer(binary, "exact", returns="best_states", n_best=8)
    assert (answer.best_scores[0] > -np.inf).sum() == 4
    found = answer.best_states[0, :4]
    assert (found[:, 2] == found[:, :2].max(axis=1)).all()
    impossible = FactorGraphEnergy([TableFactors([[0]], [-np.inf, -np.inf])])
    with pytest.raises(ContradictionError):
        infer(impossible, "exact", returns="best_states", n_best=2)


@pytest.mark.deep
def test_wide_graphs_have_no_topk_but_a_gap():
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 2, (30, 30)) for _ in range(3)]
    X = [grid_graph(image + rng.normal(size=image.shape), contrast=False) for image in images]
    model = GraphCRF(alpha=0.1, learning="pseudo_likelihood").fit(X, [v.ravel() for v in images])
    with pytest.raises(ValueError, match="graph 0 is too wide for predict_topk"):
        model.predict_topk(X, 2)
    labels, objective, gap = model.predict_with_gap(X, search=MapSearch(max_nodes=20))
    assert (gap >= 0).all()
    for graph, values, own in zip(X, labels, objective, strict=True):
        energy = model.factor_graph(graph)
        assert -energy.score(values[None])[0] == pytest.approx(own)
    with pytest.raises(ValueError, match="search must be a MapSearch"):
        model.predict_with_gap(X, search=ICM())
    with pytest.raises(ValueError, match="k must be"):
        model.predict_topk(X, 0)


def test_labels_with_a_gap_of_zero_are_optimal():
    X, y = random_graphs(4, cycles=True)
    model = GraphCRF(alpha=0.02).fit(X, y)
    known = [[None, 2, *[None] * (len(labels) - 2)] for labels in y]
    for given in (None, known):
        labels, objective, gap = model.predict_with_gap(X, given)
        assert (gap == 0).mean() == 1  # the share of graphs that are proven to be optimal
        for graph, values, own in zip(X, labels, objective, strict=True):
            states, weight = log_weights(model, graph)
            if given is not None:
                weight = weight[states[:, 1] == 2]
                assert values[1] == 2
            assert -own == pytest.approx(weight.max(), abs=1e-9)
    threads = GraphCRF(alpha=0.02, n_jobs=2).fit(X, y).predict_with_gap(X, known)
    for a, b in zip(threads[0], labels, strict=True):
        np.testing.assert_array_equal(a, b)


def test_convergence_of_each_graph():
    rng = np.random.default_rng(0)
    triangle = [[0, 1], [1, 2], [2, 0]]
    X = [Graph(rng.normal(size=(3, 1)), triangle[: 2 + c % 2]) for c in range(6)]
    y = [np.array([0, 1, 0]) for _ in range(6)]
    model = GraphCRF(alpha=0.001, inference=SumProduct(max_iter=4, tol=1e-10)).fit(X[::2], y[::2])
    np.testing.assert_array_equal(model.check_convergence(X), [True, False] * 3)
    model.set_params(inference="exact")
    assert model.check_convergence(X).all()


def test_the_best_labels_of_narrow_graphs_are_exact_among_wide_and_simple_graphs():
    X, y = random_graphs(5, n_graphs=30, cycles=True)
    forest, labels = random_graphs(6, n_graphs=3)
    wide = grid_graph(np.random.default_rng(0).normal(size=(12, 12, 2)), contrast=False)
    wide = wide._replace(edge_features=np.zeros((len(wide.edges), 2)))
    model = GraphCRF(alpha=0.1).fit([*X, *forest], [*y, *labels])
    model.pair_intercept_ -= 3 * np.eye(3)  # odd cycles of classes that repel each other
    mixed = [*X[:20], wide, *forest, *X[20:]]
    found = model.predict(mixed)
    assert found[20].shape == (144,)
    for graph, path in zip(mixed, found, strict=True):
        if graph is not wide:
            states, weight = log_weights(model, graph)
            same = (states == path).all(axis=1)
            assert weight[same][0] == pytest.approx(weight.max())
