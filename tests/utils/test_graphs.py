"""Orders of elimination: their widths on graphs where these are known."""

import itertools

import numpy as np
import pytest
from scipy.sparse.csgraph import breadth_first_order, connected_components

from skcrbm.utils import graphs
from skcrbm.utils.graphs import adjacency, min_fill


def lattice(side):
    number = np.arange(side * side).reshape(side, side)
    pairs = [(number[:-1], number[1:]), (number[:, :-1], number[:, 1:])]
    return [edge for a, b in pairs for edge in zip(a.ravel().tolist(), b.ravel().tolist())]


@pytest.mark.parametrize(
    ("scopes", "n", "width"),
    [
        ([], 3, 0),
        ([(i, i + 1) for i in range(50)], 51, 1),
        ([(0, i) for i in range(1, 30)], 30, 1),
        ([(i, (i + 1) % 12) for i in range(12)], 12, 2),
        (list(itertools.combinations(range(9), 2)), 9, 8),
        ([(0, 1, 2, 3), (3, 4), (4, 5, 6)], 7, 3),
        (lattice(4), 16, 4),
    ],
    ids=["no factors", "chain", "star", "ring", "all pairs", "tree of scopes", "lattice"],
)
def test_width(scopes, n, width):
    found = min_fill(scopes, range(n))
    assert found.complete
    assert found.width == width
    assert sorted(found.order) == list(range(n))


def test_neighbours_are_those_of_the_graph_with_what_was_filled_in():
    rng = np.random.default_rng(0)
    scopes = [rng.permutation(14)[:3].tolist() for _ in range(12)]
    found = min_fill(scopes, range(14))
    joined = {v: set() for v in range(14)}
    for scope in scopes:
        for v in scope:
            joined[v] |= set(scope) - {v}

    def missing(v):
        return sum(b not in joined[a] for a, b in itertools.combinations(joined[v], 2))

    for v, near in zip(found.order, found.neighbours, strict=True):
        assert near == joined[v]
        assert v == min(joined, key=lambda u: (missing(u), len(joined[u]), u))
        for u in joined.pop(v):
            joined[u] |= near - {u}
            joined[u].discard(v)


@pytest.mark.parametrize("limit", [10, 2000, 4000])
def test_large_graphs_are_eliminated_by_the_number_of_neighbours(monkeypatch, limit):
    """The order is an order of the whole graph, and its width is that of its fill-in."""
    best = min_fill(lattice(12), range(144))
    monkeypatch.setattr(graphs, "_MAX_WORK", limit)
    found = min_fill(lattice(12), range(144), last=range(5))
    assert found.complete
    assert sorted(found.order) == list(range(144))
    assert set(found.order[-5:]) == set(range(5))
    joined = {v: set() for v in range(144)}
    for a, b in lattice(12):
        joined[a].add(b)
        joined[b].add(a)
    for v, near in zip(found.order, found.neighbours, strict=True):
        assert near == joined.pop(v)
        for u in near:
            joined[u] = (joined[u] | near) - {u, v}
    assert 12 <= best.width <= found.width <= 24


@pytest.mark.parametrize(("first", "other"), [(300, 12), (2000, 20)])
def test_the_larger_side_of_a_bipartite_graph_is_eliminated_first(first, other):
    """Edges are counted in the graph of 300 and 12 nodes; in the larger graph they are too many."""
    pairs = [(i, first + j) for i in range(first) for j in range(other)]
    found = min_fill(pairs, range(first + other))
    assert found.complete
    assert found.width == other
    assert set(found.order[:first]) == set(range(first))


def test_the_search_stops_at_a_table_that_is_too_large():
    pairs = list(itertools.combinations(range(40), 2))
    for scopes in (pairs, [tuple(range(40))]):
        found = min_fill(scopes, range(40))
        assert not found.complete
        assert len(found.order) == len(found.neighbours) == 1
        assert found.width == 39


def test_orders_of_large_trees_of_triangles():
    """Each variable joins both ends of an edge; some variables get hundreds of neighbours."""
    rng = np.random.default_rng(0)
    pairs = [(0, 1)]
    for v in range(2, 20_000):
        a, b = pairs[rng.integers(len(pairs))]
        pairs += [(a, v), (b, v)]
    assert np.bincount(np.ravel(pairs)).max() > 200
    found = min_fill(pairs, range(20_000))
    assert found.complete
    assert found.width == 2


def test_corners_that_fill_edges_create():
    """A variable with two neighbours is free once these are joined by an elimination."""
    scopes = [(0, 1), (1, 2), (2, 3), (3, 0), (1, 4), (3, 4), (1, 5), (3, 5)]
    found = min_fill(scopes, range(6))
    assert found.order == [0, 2, 4, 1, 3, 5]
    assert found.width == 2


def test_components_and_order_of_an_adjacency():
    graph = adjacency(np.array([0, 3, 1]), np.array([1, 4, 2]), 6)
    n_parts, part = connected_components(graph, directed=False)
    assert n_parts == 3
    assert part.tolist() == [0, 0, 0, 1, 1, 2]
    order, parent = breadth_first_order(graph, 2, directed=False)
    assert order.tolist() == [2, 1, 0]
    assert parent[[1, 0]].tolist() == [2, 1]
