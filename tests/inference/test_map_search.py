"""The search for best states, compared with enumeration."""

import itertools

import numpy as np
import pytest
from reference.categorical import random_graph

from skcrbm.energies import (
    AndFactors,
    FactorGraphEnergy,
    IsingEnergy,
    OrFactors,
    SparseIsingEnergy,
    TableFactors,
)
from skcrbm.inference import MapSearch, infer
from skcrbm.inference.search.buckets import TreeSearch, elimination_order
from skcrbm.inference.search.budget import Budget
from skcrbm.inference.search.consistent import ConsistentSearch
from skcrbm.inference.search.moves import Moves, frontier_arrays
from skcrbm.inference.search.table_model import ImpossibleModelError, TableModel
from skcrbm.kernels.frontiers import sweep_frontier, take_better_parts
from skcrbm.kernels.search_tables import state_score

PAIRS = list(itertools.combinations(range(5), 2))


def scores_of_all(energy):
    """Score (N, S) of all states of an energy, and the states."""
    states = np.array(list(itertools.product(*map(range, energy.graph.n_states))))
    return energy.log_weight_of_sets(states), states


def dense_graph(seed, kind):
    """A graph that is not reduced: all pairs, and two tables of three variables."""
    rng = np.random.default_rng(seed)
    n_states = {"binary": [2] * 5, "ternary": [3] * 5, "mixed": [2, 3, 4, 2, 3]}[kind]
    scopes = [*PAIRS, (4, 1, 0), (2, 3, 1), (2,)]
    tables = []
    for scope in scopes:
        shape = [n_states[v] for v in scope]
        integers = seed % 3 == 0  # many ties
        table = rng.integers(-2, 3, shape).astype(float) if integers else rng.normal(0, 2, shape)
        table[rng.random(shape) < (0.0, 0.2, 0.4)[seed // 3 % 3]] = -np.inf
        tables.append(table)
    return FactorGraphEnergy.from_tables(scopes, tables, n_states=n_states)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("max_entries", [1, 2**20])
@pytest.mark.parametrize("kind", ["binary", "ternary", "mixed"])
@pytest.mark.parametrize(
    "seeds", [range(108), pytest.param(range(108, 340), marks=pytest.mark.deep)]
)
def test_optimum(seeds, kind, max_entries):
    n_impossible = 0
    for seed in seeds:
        energy = dense_graph(seed, kind)
        best = scores_of_all(energy)[0].max()
        method = MapSearch(max_nodes=100_000, max_entries=max_entries, random_state=seed)
        if best == -np.inf:
            n_impossible += 1
            with pytest.raises(ValueError, match="no state of positive weight"):
                infer(energy, method)
            continue
        result = infer(energy, method)
        assert result.assignment.dtype == energy.state_dtype
        np.testing.assert_allclose(energy.score(result.assignment), best, atol=1e-9)
        assert result.map_bound[0] >= best - 1e-9
        assert result.converged[0]
        assert result.gap[0] == 0
    assert len(seeds) / 100 < n_impossible < len(seeds) / 2


def upper_bound(part):
    """The sum of the maxima of all tables of a part."""
    return sum(float(t.max()) for t in [*part.tables, *part.unary])


@pytest.mark.parametrize("kind", ["binary", "mixed"])
def test_bounds_and_parts(kind):
    """Each part of the search by itself: bounds are never too low, moves never lower the score."""
    proven = 0
    for seed in range(60):
        energy = dense_graph(3 * seed + 1, kind)
        best = scores_of_all(energy)[0].max()
        if best == -np.inf:
            continue
        result = infer(energy, MapSearch(max_nodes=1, max_entries=1, random_state=0))
        assert result.map_bound[0] >= best - 1e-9
        scopes = energy.graph.expanded[0]
        tables = [t.reshape(g.shape) for g in energy.tables for t in g.log_potentials]
        unary = [row[:k] for row, k in zip(energy.log_fields()[0], energy.graph.n_states)]
        for part in TableModel(unary, scopes, tables).reduce():
            if not part.scopes:
                continue
            search = Moves(part.graph(), Budget(None, None), np.array([seed], np.uint64))
            last = search.best_value.copy()
            kinds = search.annealing, search.forests, search.frontiers, search.max_product
            for moves in (begin() for begin in kinds):
                for _ in range(10):
                    next(moves, None)
                    found = search.best_value
                    assert (found[1], -found[0]) <= (last[1], -last[0])
                    assert tuple(found) == state_score(search.graph, search.best)
                    last = found.copy()
            order = elimination_order(part).variables
            free = TreeSearch(part, order, 2**20, 1e-9)  # no bucket is split
            split = TreeSearch(part, order, 8, 1e-9)
            assert split.root >= free.root - 1e-9
            for tree in (free, split):
                state, value = search.best.copy(), -np.inf
                while not tree.done:
                    value = tree.run(state, value, 7)[0]
                assert value == pytest.approx(free.root)
            graph = search.graph
            consistent = ConsistentSearch(
                graph, graph.entries, graph.unary, upper_bound(part), 1e-9
            )
            state, value, last = np.zeros(len(part.variables), np.int64), -np.inf, np.inf
            while not consistent.done:
                value = consistent.run(state, value, 1)[0]
                assert free.root - 1e-6 <= consistent.bound <= last
                last = consistent.bound
            assert value == pytest.approx(free.root)
            assert consistent.bound == pytest.approx(value, abs=1e-6)
            assert state_score(search.graph, state) == pytest.approx((value, 0))
            proven += 1
    assert proven > 20


@pytest.mark.parametrize("kind", ["binary", "mixed", "ternary"])
def test_sweeps_along_a_frontier(kind):
    """A wide table gives the best state; a narrow table never lowers the score."""
    penalty = 50.0
    for seed in range(40):
        energy = dense_graph(seed, kind)
        scopes, logic, n_all = energy.graph.expanded
        tables = [t.reshape(g.shape) for g in energy.tables for t in g.log_potentials]
        tables += [t.reshape((2,) * len(s)) for s, t in zip(scopes[len(tables) :], logic)]
        own = [energy.log_fields()[0, v, :k] for v, k in enumerate(energy.state_counts)]
        try:
            parts = TableModel(own + [np.zeros(2)] * (n_all - len(own)), scopes, tables).reduce()
        except ImpossibleModelError:
            continue
        for part in parts:
            if not part.scopes:
                continue
            graph, n = part.graph(), len(part.variables)
            rng, key = np.random.default_rng(seed), np.array([seed], np.uint64)
            states = np.array(list(itertools.product(*map(range, part.n_states))))

            def value(state, graph=graph):
                finite, n_bad = state_score(graph, state)
                return finite - penalty * n_bad

            best = max(map(value, states))
            for limit in (max(part.n_states), 6, 2**12):
                size = max(limit, max(part.n_states))
                work = frontier_arrays(graph.n_states, len(graph.first), size)
                state = states[rng.integers(len(states))].copy()
                for _ in range(3):
                    before = value(state)
                    order = rng.permutation(n)
                    sweep_frontier(graph, state, limit, 0.0, penalty, order, work, key)
                    assert value(state) >= before - 1e-9
            assert value(state) == pytest.approx(best)
            a, b = states[rng.integers(len(states), size=2)]
            joined = a.copy()
            take_better_parts(graph, joined, b, penalty)
            assert value(joined) >= max(value(a), value(b)) - 1e-9
            assert ((joined == a) | (joined == b)).all()


def test_forests_find_the_ground_state_of_a_torus():
    """64 spins in a torus, whose best state variable elimination finds."""
    rng = np.random.default_rng(0)
    side = np.arange(64).reshape(8, 8)
    right, down = np.roll(side, -1, 1), np.roll(side, -1, 0)
    edges = np.concatenate([np.column_stack([side.flat, s.flat]) for s in (right, down)])
    energy = SparseIsingEnergy.from_edges(edges, rng.normal(size=128), rng.normal(size=(2, 64)))
    exact = infer(energy, MapSearch())
    assert exact.converged.all()
    assert (exact.n_iter == 0).all()
    found = infer(energy, MapSearch(max_nodes=400 * 64, max_entries=2**8, random_state=0))
    np.testing.assert_allclose(energy.score(found.assignment), energy.score(exact.assignment))
    np.testing.assert_allclose(
        infer(energy, "exact", returns="map_bound").map_bound, exact.map_bound
    )


def test_same_answer():
    rng = np.random.default_rng(1)
    scopes = list(itertools.combinations(range(14), 2))
    tables = rng.normal(size=(len(scopes), 3, 3))
    energy = FactorGraphEnergy([TableFactors(scopes, tables)], rng.normal(size=(4, 14, 3)))
    method = MapSearch(max_nodes=2000, max_entries=4, random_state=3)
    first = infer(energy, method)
    assert not first.converged.all()
    for n_jobs in (1, 2):
        other = infer(energy, method, n_jobs=n_jobs)
        np.testing.assert_array_equal(first.assignment, other.assignment)
        np.testing.assert_array_equal(first.map_bound, other.map_bound)


@pytest.mark.parametrize("max_entries", [1, 2**20])
def test_evidence(max_entries):
    energy = dense_graph(1, "mixed")
    energy = FactorGraphEnergy(energy.factors, np.random.default_rng(0).normal(size=(2, 5, 4)))
    for clamp in ([np.nan, 2, np.nan, np.nan, 0], [1, 1, 1, 1, 1]):
        scores, states = scores_of_all(energy)
        agree = ((states == clamp) | np.isnan(clamp)).all(axis=1)
        result = infer(energy, MapSearch(max_entries=max_entries, random_state=0), clamp=clamp)
        held = ~np.isnan(clamp)
        assert (result.assignment[:, held] == np.array(clamp)[held]).all()
        np.testing.assert_allclose(result.map_bound, scores[:, agree].max(axis=1))
        np.testing.assert_allclose(energy.score(result.assignment), result.map_bound)


def test_logic_and_pairs():
    rng = np.random.default_rng(2)
    logic = [OrFactors([[0, 1, 2, 3, 4]], [5]), AndFactors([[0, 2, 4]], [6])]
    energy = FactorGraphEnergy(logic, rng.normal(size=(3, 7)), n_variables=7)
    scores, _ = scores_of_all(energy)
    np.testing.assert_allclose(infer(energy, "map_search").map_bound, scores.max(axis=1))
    coupling = rng.normal(size=(6, 6))
    ising = IsingEnergy(coupling + coupling.T - 2 * np.diag(np.diag(coupling)), rng.normal(size=6))
    expected = infer(ising, "exact", returns="map")
    found = infer(ising, "map_search")
    np.testing.assert_array_equal(found.assignment, expected.assignment)


def test_no_possible_state_found():
    """A search that ends before a possible state is found says so; its bound is infinite."""
    energy = random_graph(0, [3] * 10, PAIRS, n_models=1)
    differ = np.where(np.eye(3) > 0, -np.inf, 0.0)
    scopes = list(itertools.combinations(range(9), 2))
    energy = FactorGraphEnergy([TableFactors(scopes, differ)], n_states=3)  # not colourable
    with pytest.raises(ValueError, match=r"no state of positive weight$"):
        infer(energy, MapSearch(random_state=0))


def test_time_limit():
    energy = dense_graph(1, "mixed")
    result = infer(energy, MapSearch(time_limit=1e-9, max_entries=1))
    assert result.map_bound[0] >= energy.score(result.assignment)[0]
    assert result.stopped_by == ["time_limit"]


def test_constants_and_components():
    """A table over no variable, a free variable, and parts that share no table."""
    rng = np.random.default_rng(5)
    n_states = [2, 3, 2, 4, 2, 3]
    scopes = [(), (0, 1), (1, 2), (0, 2), (3, 4), ()]
    tables = [rng.normal(size=[n_states[v] for v in scope]) for scope in scopes]
    energy = FactorGraphEnergy.from_tables(scopes, tables, n_states=n_states)
    result = infer(energy, "map_search")
    best = energy.score(np.array(list(itertools.product(*map(range, n_states))))).max()
    np.testing.assert_allclose(result.map_bound, best)
    np.testing.assert_allclose(energy.score(result.assignment), best)


def test_same_nodes():
    """A search that ends at its number of nodes says so, and hardly exceeds this number."""
    rng = np.random.default_rng(2)
    scopes = list(itertools.combinations(range(30), 2))
    energy = FactorGraphEnergy([TableFactors(scopes, rng.normal(size=(len(scopes), 3, 3)))])
    result = infer(energy, MapSearch(max_nodes=20_000, max_entries=16, random_state=0))
    assert not result.converged[0]
    assert result.gap[0] > 0
    assert 20_000 <= result.n_iter[0] < 40_000
