"""Graphs of images, volumes and regions, beside definitions in loops."""

import itertools

import numpy as np
import pytest
from sklearn.feature_extraction.image import grid_to_graph

from skcrbm import GraphCRF, grid_graph, region_graph


@pytest.mark.parametrize(
    ("shape", "neighbours"),
    [((3, 4), 4), ((3, 4), 8), ((1, 5), 8), ((2, 3, 4), 6), ((2, 3, 4), 26), ((1, 1, 3), 26)],
)
def test_edges_join_all_pairs_of_neighbours_once(shape, neighbours):
    graph = grid_graph(np.zeros(shape), neighbours=neighbours)
    diagonal = neighbours in (8, 26)
    expected = set()
    for a, b in itertools.combinations(np.ndindex(shape), 2):
        away = np.abs(np.subtract(a, b))
        if away.max() == 1 and (diagonal or away.sum() == 1):
            expected.add((np.ravel_multi_index(a, shape), np.ravel_multi_index(b, shape)))
    found = [tuple(sorted(edge)) for edge in graph.edges.tolist()]
    assert len(found) == len(set(found))
    assert set(found) == {tuple(map(int, pair)) for pair in expected}


def test_the_number_of_neighbours_may_come_from_an_array():
    image = np.eye(3)
    for neighbours in np.array([4, 8]):
        edges = grid_graph(image, neighbours=neighbours).edges
        np.testing.assert_array_equal(edges, grid_graph(image, neighbours=int(neighbours)).edges)


def test_edges_along_axes_agree_with_sklearn():
    graph = grid_graph(np.zeros((4, 5, 6)), neighbours=6)
    adjacency = grid_to_graph(4, 5, 6).tocsr()
    adjacency.setdiag(0)
    adjacency.eliminate_zeros()
    assert 2 * len(graph.edges) == adjacency.nnz
    assert adjacency[graph.edges[:, 0], graph.edges[:, 1]].all()


def test_contrast_and_directions_of_a_volume():
    rng = np.random.default_rng(0)
    volume = rng.normal(size=(2, 3, 2, 2))
    graph = grid_graph(volume, neighbours=6, directions=True)
    assert graph.nodes.shape == (12, 2)
    assert graph.edge_features.shape == (len(graph.edges), 4)
    step = graph.edges[:, 1] - graph.edges[:, 0]
    np.testing.assert_array_equal(np.array([1, 2, 6])[graph.edge_features[:, 1:].argmax(1)], step)
    squared = ((graph.nodes[graph.edges[:, 0]] - graph.nodes[graph.edges[:, 1]]) ** 2).sum(1)
    np.testing.assert_allclose(graph.edge_features[:, 0], np.exp(-squared / squared.mean()))


REGIONS = np.array([[7, 7, 2, 2], [7, 2, 2, 5], [9, 9, 5, 5]])


def test_regions_by_hand():
    image = np.arange(12.0).reshape(3, 4)
    graph = region_graph(image, REGIONS)  # nodes: regions 2, 5, 7, 9
    assert graph.edges.tolist() == [[0, 1], [0, 2], [0, 3], [1, 3], [2, 3]]
    means = np.array([(2 + 3 + 5 + 6) / 4, (7 + 10 + 11) / 3, (0 + 1 + 4) / 3, 8.5])
    np.testing.assert_allclose(graph.nodes[:, 0], means)
    np.testing.assert_allclose(graph.nodes[0, 1], np.std([2, 3, 5, 6]))
    np.testing.assert_allclose(graph.nodes[3, 2:], [1.0, (0 + 1 / 3) / 2, 2 / 12])
    squared = np.diff(means[graph.edges], axis=1)[:, 0] ** 2
    np.testing.assert_allclose(graph.edge_features[:, 0], np.exp(-squared / squared.mean()))
    length = np.array(
        [3, 3, 1, 1, 1]
    )  # pixels of 2 beside 5: (0,3)-(1,3), (1,2)-(1,3), (1,2)-(2,2)
    np.testing.assert_allclose(graph.edge_features[:, 1], length / length.mean())


def test_regions_with_features_and_a_single_region():
    own = region_graph(np.zeros((3, 4, 3)), REGIONS, features=np.eye(4))
    np.testing.assert_array_equal(own.nodes, np.eye(4))
    alone = region_graph(np.ones((2, 2)), np.zeros((2, 2), int))
    assert alone.edges.shape == (0, 2)
    assert alone.edge_features.shape == (0, 2)
    assert np.isfinite(alone.nodes).all()


def test_a_model_of_regions():
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(30):
        kind = rng.integers(0, 2, (1, 2)).repeat(4, axis=0).repeat(2, axis=1)  # 4 x 4 regions
        regions = np.arange(16).reshape(4, 4).repeat(3, axis=0).repeat(3, axis=1)
        image = kind.repeat(3, axis=0).repeat(3, axis=1) + rng.normal(0, 2.5, (12, 12))
        X.append(region_graph(image, regions))
        y.append(kind.ravel())
    model = GraphCRF(alpha=0.03, decode="marginal").fit(X[:20], y[:20])
    nodes, labels = np.concatenate([g.nodes for g in X[20:]]), np.concatenate(y[20:])
    alone = ((nodes[:, 0] > 0.5) == labels).mean()
    assert model.score(X[20:], y[20:]) > alone


@pytest.mark.parametrize(
    ("image", "regions", "options", "message"),
    [
        (np.zeros((3, 4)), np.zeros((3, 3), int), {}, r"integers of the shape \(3, 4\)"),
        (np.zeros((3, 4)), np.zeros((3, 4)), {}, "got float64 of shape"),
        (np.zeros(4), np.zeros(4, int), {}, r"image should have the shape \(height, width\)"),
        (np.full((3, 4), np.nan), REGIONS, {}, "image contains NaN"),
        (np.zeros((3, 4)), REGIONS, {"features": np.eye(3)}, r"the shape \(4, n_features\)"),
    ],
)
def test_bad_regions_get_a_clear_error(image, regions, options, message):
    with pytest.raises(ValueError, match=message):
        region_graph(image, regions, **options)


def test_bad_volumes_get_a_clear_error():
    with pytest.raises(ValueError, match=r"\(depth, height, width\) or \(depth, height"):
        grid_graph(np.zeros((3, 4)), neighbours=6)
    with pytest.raises(ValueError, match=r"features should have the shape \(2, 3, 4, n_features\)"):
        grid_graph(np.zeros((2, 3, 4)), neighbours=26, features=np.zeros((2, 3, 4)))
