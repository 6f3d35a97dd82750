"""Compiled Gibbs sweeps against those from `conditional_log_odds`: the same states."""

import time

import numpy as np
import pytest

from skcrbm.datasets import make_ising_lattice, make_random_factor_graph
from skcrbm.energies import (
    AndFactors,
    BaseEnergy,
    FactorGraphEnergy,
    IsingEnergy,
    OrFactors,
    SparseIsingEnergy,
    TableFactors,
)
from skcrbm.inference import Gibbs, infer
from skcrbm.inference.any_energy.gibbs import gibbs_sweep, start_chains, sweep_blocks
from skcrbm.inference.registry import SWEEPS, sweep_for

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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
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


def test_every_line_is_there():
    for name in SWEEPS:
        assert callable(sweep_for(type(name, (BaseEnergy,), {})))
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
