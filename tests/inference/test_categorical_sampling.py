"""Samplers and local searches on variables of any number of states, against enumeration."""

import numpy as np
import pytest
from reference.categorical import Enumerated, random_graph, with_logic
from scipy.special import expit

from skcrbm.energies import FactorGraphEnergy, OrFactors
from skcrbm.inference import ICM, AnnealedImportanceSampling, Gibbs, InferenceResult, infer, sample
from skcrbm.inference.any_energy.gibbs import gibbs_sweep, start_chains, sweep_blocks

KEY = np.uint64(5)


def or_that_is_on(seed):
    base = random_graph(seed, (2, 3, 2, 2), [(0, 1), (1, 2), (1,)])
    energy = FactorGraphEnergy([*base.factors, OrFactors([[0, 2]], [3])], base.field)
    return energy.condition([np.nan, np.nan, np.nan, 1])


ENERGIES = {
    "tables": lambda: random_graph(0),
    "zeros": lambda: random_graph(1, zeros=0.2),
    "contradictions": lambda: random_graph(2, zeros=0.8),
    "logic": lambda: with_logic(3),
    "an OR that is on": lambda: or_that_is_on(3),
    "logic with zeros": lambda: with_logic(4, 0.1),
    "no tables": lambda: FactorGraphEnergy([], np.ones((2, 3, 4))),
    "no variables": lambda: FactorGraphEnergy([], np.ones((2, 0, 1))),
}


def held_in(energy):
    held = np.full((2, energy.n_variables), np.nan)
    held[0, 1:2] = energy.n_states[1:2] - 1
    held[1, :1] = 0
    return held


def assert_same(energy, n_chains, streams, n_steps=6):
    state = expected = start_chains(energy, n_chains, KEY, streams)
    for step in range(1, n_steps + 1):
        expected, log_odds = sweep_blocks(energy, expected, KEY, streams, step)
        state, found = gibbs_sweep(energy, state, KEY, streams, step)
        assert state.dtype == energy.state_dtype
        np.testing.assert_array_equal(state, expected)
        np.testing.assert_allclose(found, log_odds, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("kind", ENERGIES)
def test_compiled_sweep(kind, held):
    """The kernel draws the same states as the conditionals."""
    energy = ENERGIES[kind]()
    if held:
        energy = energy.condition(held_in(energy))
    assert_same(energy, 5, np.arange(5))
    assert_same(energy, 5, np.arange(10))
    assert_same(energy.rows([1]), 70, np.arange(70), 2)


def test_law_of_one_sweep():
    """The frequencies of the states after a sweep are products of exact conditionals."""
    energy = random_graph(5, (2, 3, 2), [(0, 1), (1, 2), (0, 2)], n_models=1)
    n_chains = 40_000
    start = np.tile([1, 2, 0], (1, n_chains, 1))
    states, _ = gibbs_sweep(energy, start, KEY, np.arange(n_chains), 1)
    found = Enumerated(energy)
    expected = np.zeros(len(found.states))
    lookup = {tuple(s): p for s, p in zip(found.states.tolist(), found.probability, strict=True)}
    for s, state in enumerate(found.states.tolist()):
        now, chance = [1, 2, 0], 1.0
        for block in energy.sampling_blocks:
            assert len(block) == 1
            v = int(block[0])
            total = sum(lookup[(*now[:v], k, *now[v + 1 :])] for k in range(energy.n_states[v]))
            now[v] = state[v]
            chance *= lookup[tuple(now)] / total
        expected[s] = chance
    code = states[0] @ [6, 2, 1]
    share = np.bincount(code, minlength=12) / n_chains
    np.testing.assert_allclose(share, expected, atol=0.012)


def test_samples_of_many_states():
    many = FactorGraphEnergy([], np.zeros((1, 2, 200)))
    found = sample(many, "gibbs", n_samples=500, random_state=0)
    assert found.dtype == np.int32
    assert found.max() > 190


def test_threads_and_continued_chains():
    energy = random_graph(7, n_models=3)
    options = {"max_iter": 10, "burn_in": 2, "n_chains": 4, "random_state": 0}
    returns = ("marginals", "statistics", "samples")
    one, two = (infer(energy, Gibbs(**options), returns=returns, n_jobs=j) for j in (1, 2))
    for name in ("log_odds", "samples", "pairwise"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    longer = infer(energy, Gibbs(**{**options, "max_iter": 20}))
    rest = infer(energy, Gibbs(**options), init=infer(energy, Gibbs(**options)))
    mean = (infer(energy, Gibbs(**options)).marginals + rest.marginals) / 2
    np.testing.assert_allclose(mean, longer.marginals, atol=1e-12)
    np.testing.assert_array_equal(rest.state.states, longer.state.states)


def test_chains_from_beliefs():
    """Chains start at the beliefs, and never in states that a variable does not have."""
    energy = FactorGraphEnergy([], np.zeros((1, 2, 3)), n_states=[3, 2])
    log_odds = np.array([[[-200.0, -200.0, 200.0], [-200.0, -200.0, 200.0]]])
    marginals = expit(log_odds)
    states = start_chains(energy, 50, KEY, np.arange(50), marginals)
    assert (states[..., 0] == 2).all()
    assert (states[..., 1] < 2).all()
    found = infer(energy, Gibbs(max_iter=1), init=InferenceResult(log_odds=log_odds))
    np.testing.assert_allclose(found.marginals, [[[1 / 3] * 3, [0.5, 0.5, 0]]])


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("kind", ["tables", "logic", "zeros"])
def test_icm(kind, held):
    """Restarts reach the best state; a single run ends where no variable can gain."""
    energy = ENERGIES[kind]()
    if held:
        energy = energy.condition(held_in(energy))
    found = infer(energy, ICM(n_restarts=100, random_state=0), returns="map")
    score = energy.score(found.assignment)
    for n in range(2):
        assert score[n] == pytest.approx(Enumerated(energy, n).best)
    single = infer(energy, "icm", returns="map")
    assert single.assignment.dtype == energy.state_dtype
    for n, state in enumerate(single.assignment[single.converged].astype(int)):
        model = energy.rows(np.flatnonzero(single.converged)[[n]])
        for v in range(energy.n_variables):
            for k in range(energy.n_states[v]):
                other = state.copy()
                other[v] = k
                assert model.score(other[None]) <= model.score(state[None]) + 1e-12


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("held", [False, True])
def test_ais(held):
    energy = random_graph(8)
    if held:
        energy = energy.condition(held_in(energy))
    energy.constant = 0.5
    method = AnnealedImportanceSampling(n_chains=200, n_betas=200, random_state=0)
    found = infer(energy, method)
    for n in range(2):
        error = abs(found.log_partition[n] - Enumerated(energy, n).log_z)
        assert error < 4 * found.standard_error[n] < 0.2
    two = infer(energy, method, n_jobs=2)
    np.testing.assert_array_equal(two.log_partition, found.log_partition)


@pytest.mark.parametrize("n_states", [2, 3])
def test_ais_names_the_zeros(n_states):
    table = np.zeros((n_states, n_states))
    table[0, 0] = -np.inf
    energy = FactorGraphEnergy.from_tables([[0, 1]], [table])
    with pytest.raises(ValueError, match=r"'ais' does not work on .* cannot handle weights of 0"):
        infer(energy, "ais")


def test_a_better_start_of_icm():
    """The start decides which local optimum is found; missing states are never chosen."""
    energy = FactorGraphEnergy.from_tables([[0, 1]], [4 * np.eye(3)], n_states=[3, 3, 2])
    log_odds = np.full((1, 3, 3), -1.0)
    log_odds[0, :2, 1] = log_odds[0, 2, 2] = 1
    found = infer(energy, "icm", returns="map", init=InferenceResult(log_odds=log_odds))
    assert found.assignment.tolist() == [[1, 1, 0]]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("seed", range(5))
def test_annealing_finds_the_best_state(seed):
    energy = random_graph(seed, scale=2.0)
    found = infer(energy, "simulated_annealing", n_sweeps=300, random_state=0)
    for n in range(2):
        assert energy.score(found.assignment)[n] == pytest.approx(Enumerated(energy, n).best)
