"""The search for labels under constraints: enumeration, planted contradictions, limits."""

import time
from itertools import combinations, product

import numpy as np
import pytest

from skcrbm.learning.structured import constraint_search
from skcrbm.learning.structured.constraint_search import Arc, ConstraintSearch, OutOfStepsError


def problem(edges, left, tables):
    """Return the arguments of the search: sets of classes, and arcs of each node.

    `left` (T, K) is True for the classes that a node may have, and `tables` (M, K, K) for the pairs
    of classes that the nodes of an edge may have.
    """

    def sets(rows):
        return [sum(1 << k for k in np.flatnonzero(row).tolist()) for row in rows]

    near = [[] for _ in left]
    for (i, j), table in zip(edges, tables):
        near[i].append(Arc(j, sets(table)))
        near[j].append(Arc(i, sets(table.T)))
    return sets(left), near


def agrees(labels, edges, left, tables):
    return left[np.arange(len(labels)), labels].all() and all(
        table[labels[i], labels[j]] for (i, j), table in zip(edges, tables)
    )


def test_small_graphs_are_decided_as_by_enumeration(monkeypatch):
    monkeypatch.setattr(constraint_search, "_FIRST_CONFLICTS", 2)  # start again soon
    counts = [0, 0]
    for seed in range(400):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(2, 7)), int(rng.integers(1, 4))
        edges = [e for e in combinations(range(n), 2) if rng.random() < 0.8]
        left = rng.random((n, k)) < 0.95
        tables = rng.random((len(edges), k, k)) < rng.uniform(0.4, 0.9)
        states = (np.array(s) for s in product(range(k), repeat=n))
        possible = any(agrees(s, edges, left, tables) for s in states)
        found = ConstraintSearch(*problem(edges, left, tables)).labels()
        assert (found is not None) == possible
        assert found is None or agrees(np.array(found), edges, left, tables)
        counts[possible] += 1
    assert min(counts) > 80


def grid(side):
    number = np.arange(side * side).reshape(side, side)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], 1)
    return np.concatenate([across, np.stack([number[:-1].ravel(), number[1:].ravel()], 1)])


def test_two_classes_of_wide_graphs_are_always_decided():
    """Neighbours must differ. An extra edge of a grid closes an odd cycle, or an even one."""
    edges, different = grid(40).tolist(), np.array([[False, True], [True, False]])
    left = np.ones((1600, 2), bool)
    for extra, possible in (([], True), ([0, 1598], True), ([0, 1599], False)):
        some = [*edges, extra] if extra else edges
        arguments = problem(some, left, [different] * len(some))
        labels = ConstraintSearch(*arguments).labels()
        assert (labels is not None) == possible
        if possible:
            assert agrees(np.array(labels), some, left, [different] * len(some))


@pytest.mark.parametrize("possible", [False, True])
def test_a_planted_contradiction_of_a_wide_graph_is_found(possible):
    """A clique of four nodes with three classes has no labels; it lies in a grid with labels."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, 3, 900)
        edges = grid(30).tolist()
        tables = rng.random((len(edges), 3, 3)) < 0.45
        for (i, j), table in zip(edges, tables):
            table[truth[i], truth[j]] = True
        tables = list(tables)
        if not possible:
            clique = rng.choice(900, 4, replace=False).tolist()
            edges += combinations(clique, 2)
            tables += [~np.eye(3, dtype=bool)] * 6
        left = np.ones((900, 3), bool)
        labels = ConstraintSearch(*problem(edges, left, tables)).labels()
        assert (labels is not None) == possible
        assert labels is None or agrees(np.array(labels), edges, left, tables)


def test_the_search_ends_at_its_limit(monkeypatch):
    """Pigeons: eleven nodes that must all differ have ten classes."""
    monkeypatch.setattr(constraint_search, "_MOST_STEPS", 20_000)
    edges = list(combinations(range(11), 2))
    arguments = problem(edges, np.ones((11, 10), bool), [~np.eye(10, dtype=bool)] * len(edges))
    with pytest.raises(OutOfStepsError):
        ConstraintSearch(*arguments).labels()


def test_free_nodes_take_linear_time_after_a_new_start(monkeypatch):
    """After the first version of the search started again, 5,000 free nodes took 25 seconds."""
    monkeypatch.setattr(constraint_search, "_FIRST_CONFLICTS", 2)
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 200)
    pairs = rng.integers(0, 200, (2000, 2))
    edges = pairs[truth[pairs[:, 0]] != truth[pairs[:, 1]]][:450].tolist()
    different = ~np.eye(3, dtype=bool)
    left, tables = np.ones((10_200, 3), bool), [different] * len(edges)
    search = ConstraintSearch(*problem(edges, left, tables))
    begin = time.perf_counter()
    labels = search.labels()
    assert time.perf_counter() - begin < 10
    assert search._rng is not None  # it started again
    assert agrees(np.array(labels), edges, left, tables)
