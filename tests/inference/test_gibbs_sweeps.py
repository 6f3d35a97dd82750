"""Compiled Gibbs sweeps against those from `conditional_log_odds`: the same states."""

import time

import numpy as np
import pytest
from reference.dtypes import DTYPES

from skcrbm.datasets import make_ising_lattice, make_random_factor_graph
from skcrbm.energies import (
    AndFactors,
    FactorGraphEnergy,
    IsingEnergy,
    OrFactors,
    SparseIsingEnergy,
    TableFactors,
)
from skcrbm.energies._factor_graph_structure import colour_classes
from skcrbm.inference import Gibbs, infer, sample
from skcrbm.inference.any_energy import gibbs as sweeps
from skcrbm.inference.any_energy.gibbs import gibbs_sweep, start_chains, sweep_blocks, sweep_for

KEY = np.uint64(11)
N = 3


def ising(kind, dtype=np.float64, width=7, scale=0.7):
    rng = np.random.RandomState(0)
    half = np.triu(rng.normal(0, scale, (width, width)), 1)
    half *= rng.uniform(size=half.shape) < 0.6
    field = rng.normal(size=(N, width)).astype(dtype)
    dense = IsingEnergy((half + half.T).astype(dtype), field)
    return dense if kind == "dense" else SparseIsingEnergy(dense.coupling, field)


def factor_graph(zeros=0.0, logic=False, dtype=np.float64):
    """Tables of one to four variables out of eight, some entries -inf; an OR, two ANDs."""
    rng = np.random.RandomState(1)
    factors = []
    for k in (1, 2, 3, 2, 4):  # not in the order of their sizes
        scopes = np.array([rng.permutation(8)[:k] for _ in range(3)])
        tables = rng.normal(size=(3, 2**k))
        tables[rng.uniform(size=tables.shape) < zeros] = -np.inf
        factors.append(TableFactors(scopes, tables.astype(dtype)))
    if logic:
        factors.insert(2, OrFactors([[0, 1, 2], [8]], [8, 9]))
        factors.append(AndFactors([[3, 9, 4], [1, 5]], [10, 11]))
    n = 12 if logic else 8
    return FactorGraphEnergy(factors, rng.normal(size=(N, n)).astype(dtype))


ENERGIES = {
    "dense": lambda dtype: ising("dense", dtype),
    "sparse": lambda dtype: ising("sparse", dtype),
    "certain": lambda dtype: ising("sparse", dtype, scale=100.0),
    "tables": lambda dtype: factor_graph(dtype=dtype),
    "zeros": lambda dtype: factor_graph(0.2, dtype=dtype),
    "contradictions": lambda dtype: factor_graph(0.8, dtype=dtype),
    "logic": lambda dtype: factor_graph(0.1, True, dtype),
    "no factors": lambda dtype: FactorGraphEnergy([], np.zeros((N, 3), dtype)),
    "no variables": lambda dtype: FactorGraphEnergy([], np.zeros((N, 0), dtype)),
}


def assert_same(energy, n_chains, streams, n_steps=8):
    state = expected = start_chains(energy, n_chains, KEY, streams)
    assert sweep_for(type(energy)) is not sweep_blocks
    eps = np.finfo(energy.dtype).eps
    for step in range(1, n_steps + 1):
        expected, log_odds = sweep_blocks(energy, expected, KEY, streams, step)
        state, found = gibbs_sweep(energy, state, KEY, streams, step)
        assert found.dtype == energy.dtype
        assert state.dtype == bool
        np.testing.assert_array_equal(state, expected)
        np.testing.assert_allclose(found, log_odds, rtol=100 * eps, atol=300 * eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ENERGIES)
def test_the_same_states(kind, dtype):
    energy = ENERGIES[kind](dtype)
    assert_same(energy, 5, np.arange(5))
    assert_same(energy, 5, np.arange(N * 5))
    assert_same(energy.rows([1]), 5, np.arange(5))


@pytest.mark.parametrize("share", [0.4, 1.0])
@pytest.mark.parametrize("kind", ["dense", "sparse", "tables", "zeros", "logic"])
def test_evidence(kind, share):
    energy = ENERGIES[kind](np.float64)
    rng = np.random.RandomState(2)
    shape = energy.n_models, energy.n_variables
    held = np.where(rng.uniform(size=shape) < share, rng.randint(2, size=shape), np.nan)
    energy.evidence = held  # whether or not a state agrees with it
    assert_same(energy, 4, np.arange(4))
    # Chains that start elsewhere take the values that are held.
    state, _ = gibbs_sweep(energy, np.ones((N, 4, shape[1])), KEY, np.arange(4), 1)
    there = ~np.isnan(held)
    for c in range(4):
        np.testing.assert_array_equal(state[:, c][there], held[there] == 1)


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["dense", "sparse", "tables", "logic"])
def test_many_chains(kind):
    """With more chains than run side by side, a chain does not depend on its neighbours."""
    energy = ENERGIES[kind](np.float64)
    streams = np.arange(150)
    assert_same(energy, 150, streams, n_steps=3)
    state = start_chains(energy, 150, KEY, streams)
    found = gibbs_sweep(energy, state, KEY, streams, 1)
    part = gibbs_sweep(energy.rows([2]), state[2:, 37:60], KEY, streams[37:60], 1)
    for a, b in zip(found, part, strict=True):
        np.testing.assert_array_equal(a[2:, 37:60], b)


GRAPHS = {
    "random": (700, lambda rng: rng.randint(0, 700, (2000, 2))),
    "star": (300, lambda rng: np.column_stack([np.zeros(299, int), np.arange(1, 300)])),
    "chain": (130, lambda rng: np.column_stack([np.arange(129), np.arange(1, 130)])),
    "no edges": (70, lambda rng: np.empty((0, 2), int)),
}


def sparse_ising(kind, dtype=np.float64):
    """Graphs with more variables of a colour than a kernel has lanes."""
    rng = np.random.RandomState(3)
    width, pairs = GRAPHS[kind]
    edges = np.unique(np.sort(pairs(rng), axis=1), axis=0)
    edges = edges[edges[:, 0] < edges[:, 1]]
    weights, field = rng.normal(size=len(edges)), rng.normal(size=(N, width))
    return SparseIsingEnergy.from_edges(edges, weights.astype(dtype), field.astype(dtype))


@pytest.mark.parametrize("kind", GRAPHS)
def test_colours(kind):
    """Neighbours differ in colour; each variable has the first colour that is free."""
    energy = sparse_ising(kind)
    sets_of = [[] for _ in range(energy.n_variables)]
    for i, k in energy.edges:
        both = set()
        sets_of[i].append(both)
        sets_of[k].append(both)
    for found, expected in zip(energy.sampling_blocks, colour_classes(sets_of), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", GRAPHS)
def test_lanes(kind):
    """The blocks hold each variable once and each edge twice; a block has a single colour."""
    energy = sparse_ising(kind)
    lanes, colours = energy.lanes, energy._pairs.graph.colours
    np.testing.assert_array_equal(np.sort(lanes.order), np.arange(energy.n_variables))
    pairs = []
    for b in range(len(lanes.first) - 1):
        variables = lanes.order[lanes.first[b] : lanes.first[b + 1]]
        assert len(set(colours[variables])) == 1
        entries = slice(lanes.entry[b], lanes.entry[b + 1])
        edge = lanes.edge[entries].reshape(-1, len(variables))
        ends = lanes.order[lanes.neighbour[entries]].reshape(-1, len(variables))
        there = edge < len(energy.edges)
        sources = np.broadcast_to(variables, edge.shape)[there]
        np.testing.assert_array_equal(
            np.sort(np.column_stack([sources, ends[there]]), axis=1), energy.edges[edge[there]]
        )
        pairs.append(edge[there])
    edges = np.concatenate([np.empty(0, int), *pairs])
    np.testing.assert_array_equal(np.sort(edges), np.repeat(np.arange(len(energy.edges)), 2))
    assert lanes.entry[-1] <= 4 * len(edges)


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", GRAPHS)
def test_variables_as_lanes(kind, dtype, monkeypatch):
    """Variables or chains as lanes, few or many sweeps in a call: the same bits."""
    energy, rng = sparse_ising(kind, dtype), np.random.RandomState(4)
    shape = energy.field.shape
    held = np.where(rng.uniform(size=shape) < 0.3, rng.randint(2, size=shape), np.nan)
    for case in (energy, energy.condition(held)):
        assert_same(case, 2, np.arange(2), n_steps=2)
        for streams in (np.arange(70), np.arange(N * 70)):
            state = start_chains(case, 70, KEY, streams)
            by_chain = gibbs_sweep(case, state, KEY, streams, 1, 3)
            with monkeypatch.context() as few:
                few.setattr(sweeps, "_MAX_LANES", 0)
                by_variable = gibbs_sweep(case, state, KEY, streams, 1, 3)
                few.setattr(sweeps, "_DRAWS_PER_CALL", 2 * state.size)
                in_two_calls = gibbs_sweep(case, state, KEY, streams, 1, 3)
            for a, b, c in zip(by_chain, by_variable, in_two_calls, strict=True):
                np.testing.assert_array_equal(a, b)
                np.testing.assert_array_equal(b, c)


def copies(n_copies):
    """Return a frustrated graph of five variables, and a model of many copies of it."""
    edges = np.array([[0, 1], [1, 2], [2, 3], [0, 3], [1, 3], [3, 4]])
    weights, field = np.array([0.8, -0.6, 0.7, -0.9, 0.5, 1.1]), np.array([0.3, 0, -0.4, 0.2, 0])
    small = SparseIsingEnergy.from_edges(edges, weights, field)
    many = (edges + 5 * np.arange(n_copies)[:, None, None]).reshape(-1, 2)
    return small, SparseIsingEnergy.from_edges(
        many, np.tile(weights, n_copies), np.tile(field, n_copies)
    )


@pytest.mark.compiled
def test_stationary_law():
    """Independent copies: marginals and pairs are exact within five standard errors."""
    n_copies = 40_000
    small, many = copies(n_copies)
    exact = infer(small, "exact", returns=("marginals", "statistics"))
    states = sample(many, burn_in=200, random_state=1).reshape(n_copies, 5)
    pairs = states[:, small.edges[:, 0]] & states[:, small.edges[:, 1]]
    for found, p in ((states, exact.marginals[0]), (pairs, exact.pairwise)):
        error = np.abs(found.mean(axis=0) - p)
        assert (error < 5 * np.sqrt(p * (1 - p) / n_copies)).all()


@pytest.mark.compiled
def test_law_of_a_sweep():
    """From a fixed state, the states after a sweep have the probabilities of the conditionals."""
    n_copies = 40_000
    small, many = copies(n_copies)
    assert len(small.sampling_blocks) == 3
    start = np.array([1, 0, 0, 1, 0])
    probability, states = np.ones(32), (np.arange(32)[:, None] >> np.arange(5)) & 1
    now = np.tile(start, (32, 1))
    for block in small.sampling_blocks:
        log_odds = small.conditional_log_odds(now[None], block)[0]
        on = 1 / (1 + np.exp(-log_odds))
        probability *= np.where(states[:, block] == 1, on, 1 - on).prod(axis=1)
        now[:, block] = states[:, block]
    assert abs(probability.sum() - 1) < 1e-12
    found, _ = gibbs_sweep(many, np.tile(start, n_copies)[None, None], KEY, np.arange(1), 1)
    counts = np.bincount(found.reshape(n_copies, 5) @ 2 ** np.arange(5), minlength=32)
    error = np.abs(counts / n_copies - probability)
    assert (error < 5 * np.sqrt(probability * (1 - probability) / n_copies) + 1e-9).all()


@pytest.mark.compiled
def test_rare_draws():
    """Draws equal the formula for probabilities near 0, near 1, and near the random number."""
    field = np.linspace(-40, 40, 4001) / 2
    energy = SparseIsingEnergy.from_edges([], [], field)
    small = FactorGraphEnergy([], 2 * field)
    states = np.zeros((1, 300, 4001), bool)
    expected, _ = sweep_blocks(small, states, KEY, np.arange(300), 1)
    found, _ = gibbs_sweep(energy, states, KEY, np.arange(300), 1)
    np.testing.assert_array_equal(found, expected)


def test_other_tables_and_n_jobs():
    """The graph is shared, the numbers are not; answers do not depend on threads."""
    energy = factor_graph(logic=True)
    gibbs_sweep(energy, np.zeros((N, 2, 12)), KEY, np.arange(2), 1)
    other = energy.with_log_potentials(-2 * energy.log_potentials)
    assert other.graph.adjacency is energy.graph.adjacency
    assert_same(other, 2, np.arange(2))
    options = {"n_chains": 3, "max_iter": 4, "burn_in": 1, "random_state": 0}
    found = [infer(other, Gibbs(**options), n_jobs=jobs) for jobs in (1, 2)]
    np.testing.assert_array_equal(found[0].marginals, found[1].marginals)


def test_a_class_with_another_score_has_no_compiled_sweep():
    assert sweep_for(type("Same", (FactorGraphEnergy,), {})) is sweep_for(FactorGraphEnergy)
    other = type("Other", (FactorGraphEnergy,), {"_score": lambda self, states: states.sum(1)})
    assert sweep_for(other) is sweep_blocks


@pytest.mark.compiled
@pytest.mark.parametrize(
    "make", [lambda: make_ising_lattice((30, 30), 0.3), lambda: make_random_factor_graph(31, 0)]
)
def test_it_is_fast(make):
    energy, streams = make(), np.arange(100)
    state = start_chains(energy, 100, KEY, streams)
    gibbs_sweep(energy, state, KEY, streams, 1)
    start = time.process_time()
    for step in range(10):
        gibbs_sweep(energy, state, KEY, streams, step)
    assert time.process_time() - start < 0.1  # 0.01 and 0.001 s on an idle core
