"""Models of the outputs of a row, compared with enumeration and finite differences."""

import itertools

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

from skcrbm.energies.output_graph import OutputGraph
from skcrbm.inference import Exact
from skcrbm.learning.structured.outputs import (
    MISSING,
    CentredOutputs,
    OutputBatch,
    OutputLikelihood,
    OutputModel,
    OutputParams,
    OutputPseudoLikelihood,
    _log_chances,
    dependence,
    first_model,
    make_penalty,
    spanning_tree,
)

# Numbers of classes and edges: binary and mixed, trees, cycles, no edges, a single class.
CASES = {
    "binary_tree": ([2, 2, 2], [(0, 1), (1, 2)]),
    "binary_full": ([2, 2, 2, 2], list(itertools.combinations(range(4), 2))),
    "binary_long": ([2] * 12, [(i, i + 1) for i in range(11)]),
    "mixed_tree": ([3, 2, 4], [(0, 2), (1, 2)]),
    "mixed_cycle": ([3, 2, 2, 3], [(0, 1), (1, 2), (2, 3), (0, 3)]),
    "single_class": ([1, 3, 2], [(0, 1), (1, 2)]),
    "independent": ([2, 3], []),
}


def make(case, seed=0, n=7, missing=True):
    n_classes, edges = CASES[case]
    rng = np.random.default_rng(seed)
    graph = OutputGraph(np.array(n_classes), np.array(edges).reshape(-1, 2))
    X = rng.normal(size=(n, 3))
    codes = np.column_stack([rng.integers(0, k, n) for k in n_classes])
    if missing:
        codes[rng.random(codes.shape) < 0.3] = MISSING
    params = OutputParams(
        rng.normal(size=(len(graph.scored), 3)),
        rng.normal(size=len(graph.scored)),
        rng.normal(size=graph.n_entries),
    )
    return OutputModel(params, graph), OutputBatch(X, codes, rng.uniform(0.5, 2, n))


def log_weights(model, X):
    """Return all joint states (S, L) and their log-weights (N, S), by loops over the definition."""
    graph, p = model.graph, model.params
    states = np.array(list(itertools.product(*(range(k) for k in graph.n_classes))))
    fields = X @ p.coef.T + p.intercept
    total = np.zeros((len(X), len(states)))
    column = 0
    for a, k in enumerate(graph.n_classes):
        own = np.zeros((len(X), k))
        if k == 2:
            own[:, 1] = fields[:, column]
            column += 1
        elif k > 2:
            own[:] = fields[:, column : column + k]
            column += k
        total += own[:, states[:, a]]
    entry = 0
    for a, b in graph.edges:
        shape = graph.n_classes[a], graph.n_classes[b]
        table = p.pairs[entry : entry + shape[0] * shape[1]].reshape(shape)
        entry += table.size
        total += table[states[:, a], states[:, b]]
    return states, total


def agrees(states, codes):
    """Return for each row (N, S) which states agree with its observed codes."""
    return ((codes[:, None] == MISSING) | (codes[:, None] == states)).all(axis=2)


def loss_by_enumeration(model, batch):
    states, total = log_weights(model, batch.X)
    seen = np.where(agrees(states, batch.codes), total, -np.inf)
    return float(batch.weight @ (logsumexp(total, axis=1) - logsumexp(seen, axis=1)))


def pseudo_loss_by_enumeration(model, batch):
    states, total = log_weights(model, batch.X)
    loss = 0.0
    for row, codes in enumerate(batch.codes):
        for a in range(len(codes)):
            given = codes.copy()
            given[a] = MISSING
            near = total[row][agrees(states, given[None])[0]]
            here = total[row][agrees(states, codes[None])[0]]
            loss += batch.weight[row] * (logsumexp(near) - logsumexp(here))
    return loss


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_likelihood_and_its_gradient(case, missing):
    model, batch = make(case, missing=missing)
    objective = OutputLikelihood(Exact())
    step, _ = objective.step(model, batch, None, None)
    np.testing.assert_allclose(step.loss, loss_by_enumeration(model, batch), rtol=1e-8)
    check_gradient(model, batch, step.gradient, loss_by_enumeration)


@pytest.mark.parametrize("case", [case for case in CASES if case != "binary_long"])
def test_pseudo_likelihood_and_its_gradient(case):
    model, batch = make(case, missing=False)
    step, _ = OutputPseudoLikelihood().step(model, batch, None, None)
    np.testing.assert_allclose(step.loss, pseudo_loss_by_enumeration(model, batch), rtol=1e-10)
    check_gradient(model, batch, step.gradient, pseudo_loss_by_enumeration)


def test_without_edges_both_objectives_agree_on_missing_outputs():
    model, batch = make("independent", n=30)
    one, _ = OutputLikelihood(Exact()).step(model, batch, None, None)
    other, _ = OutputPseudoLikelihood().step(model, batch, None, None)
    np.testing.assert_allclose(one.loss, other.loss)
    np.testing.assert_allclose(one.gradient.coef, other.gradient.coef, atol=1e-10)


def check_gradient(model, batch, gradient, loss):
    rng = np.random.default_rng(1)
    for _ in range(3):
        direction = OutputParams(*(rng.normal(size=p.shape) for p in model.params))
        values = [
            loss(
                model._replace(
                    params=OutputParams(*(p + h * d for p, d in zip(model.params, direction)))
                ),
                batch,
            )
            for h in (-1e-5, 1e-5)
        ]
        slope = sum(float(np.vdot(g, d)) for g, d in zip(gradient, direction))
        np.testing.assert_allclose(slope, (values[1] - values[0]) / 2e-5, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", ["mixed_cycle", "binary_full", "single_class"])
def test_coordinates_are_a_linear_bijection_with_their_gradient(case):
    model, batch = make(case)
    coordinates = CentredOutputs(model, batch, make_penalty(model, batch, True)(0.1, 0.01))
    vector = coordinates.vector(model.params)
    for p, q in zip(coordinates.params(vector), model.params):
        np.testing.assert_allclose(p, q, atol=1e-10)
    gradient = OutputParams(*(np.cos(p) for p in model.params))
    direction = np.sin(np.arange(len(vector)))
    moved = coordinates.params(vector + direction)
    change = sum(np.vdot(g, q - p) for g, p, q in zip(gradient, model.params, moved))
    np.testing.assert_allclose(coordinates.gradient(gradient) @ direction, change)


def test_batches_of_any_size_have_the_same_loss(monkeypatch):
    model, batch = make("mixed_tree", n=40)
    whole, _ = OutputLikelihood(Exact()).step(model, batch, None, None)
    monkeypatch.setattr("skcrbm.learning.structured.outputs._PART_ENTRIES", 50)
    parts, _ = OutputLikelihood(Exact(), n_jobs=2).step(
        model, OutputBatch(batch.X, batch.codes, batch.weight), None, None
    )
    np.testing.assert_allclose(whole.loss, parts.loss)
    np.testing.assert_allclose(whole.gradient.pairs, parts.gradient.pairs)


def test_first_model_has_the_frequencies_of_the_classes():
    _, batch = make("mixed_tree", n=4000, missing=False)
    graph = OutputGraph(np.array([3, 2, 4]), np.empty((0, 2)))
    model = first_model(graph, batch)
    _, total = log_weights(model, np.zeros((1, 3)))
    chance = np.exp(total - logsumexp(total)).reshape(3, 2, 4)
    for a, others in enumerate([(1, 2), (0, 2), (0, 1)]):
        share = np.bincount(batch.codes[:, a], batch.weight) / batch.weight.sum()
        np.testing.assert_allclose(chance.sum(axis=others), share, atol=1e-3)


def test_dependence_is_the_mutual_information_of_the_classes():
    _, batch = make("mixed_tree", n=200, missing=False)
    graph = OutputGraph(np.array([3, 2, 4]), np.empty((0, 2)))
    weight = batch.weight / batch.weight.sum()
    share = weight @ batch.one_hot(graph)
    shared = dependence(batch, graph, np.tile(share, (200, 1)))
    for a, b in itertools.combinations(range(3), 2):
        joint = np.zeros((graph.n_classes[a], graph.n_classes[b]))
        np.add.at(joint, (batch.codes[:, a], batch.codes[:, b]), weight)
        outer = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        information = sum(j * np.log(j / o) for j, o in zip(joint.ravel(), outer.ravel()) if j > 0)
        np.testing.assert_allclose(shared[a, b], batch.weight.sum() * information)


def test_spanning_tree_has_the_largest_sum():
    rng = np.random.default_rng(0)
    for _ in range(20):
        shared = rng.uniform(size=(5, 5)) * (rng.random((5, 5)) < 0.7)
        shared = np.triu(shared, 1) + np.triu(shared, 1).T
        tree = spanning_tree(shared)
        best = -1.0
        for edges in itertools.combinations(itertools.combinations(range(5), 2), 4):
            reached = {0}
            for _ in edges:
                reached |= {v for edge in edges if reached & set(edge) for v in edge}
            if len(reached) == 5:
                best = max(best, sum(shared[edge] for edge in edges))
        assert tree.shape == (4, 2)
        np.testing.assert_allclose(shared[tree[:, 0], tree[:, 1]].sum(), best)


@pytest.mark.parametrize("n_classes", [[2, 2, 2], [1, 2, 4, 3], [3], [2, 1]])
def test_log_chances_of_independent_outputs(n_classes):
    graph = OutputGraph(np.array(n_classes), np.empty((0, 2)))
    scores = np.random.default_rng(0).normal(size=(7, graph.n_states)) * 300
    found = _log_chances(graph, scores)
    for i, j in itertools.pairwise(graph.first):
        np.testing.assert_allclose(
            found[:, i:j], log_softmax(scores[:, i:j], axis=1), rtol=1e-12, atol=1e-12
        )
