"""Simulated annealing: best states, evidence, seeds, and the law of its sweeps."""

import numpy as np
import pytest
from reference.outside import TripleEnergy

from skcrbm.datasets import make_ising_lattice
from skcrbm.energies import IsingEnergy, SparseIsingEnergy
from skcrbm.inference import SimulatedAnnealing, available_methods, infer
from skcrbm.inference.any_energy import gibbs as sweeps
from skcrbm.inference.any_energy.annealing import betas
from skcrbm.inference.ising._annealing import _strengths
from skcrbm.kernels.sparse_sweeps import anneal_colours


def frustrated(n_models=3, width=12, seed=0, dtype=np.float64):
    rng = np.random.RandomState(seed)
    half = np.triu(rng.normal(size=(width, width)), 1) * (rng.uniform(size=(width, width)) < 0.5)
    field = 0.3 * rng.normal(size=(n_models, width))
    return IsingEnergy((half + half.T).astype(dtype), field.astype(dtype))


def sparse(energy):
    return SparseIsingEnergy(energy.coupling, energy.field)


@pytest.mark.compiled
@pytest.mark.parametrize("schedule", ["geometric", "linear"])
def test_calls_threads_and_seeds(schedule, monkeypatch):
    energy = make_ising_lattice((30, 30), 1.0)
    signs = np.random.RandomState(0).choice([-1.0, 1.0], len(energy.edge_coupling))
    energy = energy.with_edge_coupling(signs)
    method = SimulatedAnnealing(n_sweeps=40, n_restarts=3, schedule=schedule, random_state=1)
    found = infer(energy, method).assignment
    np.testing.assert_array_equal(found, infer(energy, method, n_jobs=3).assignment)
    other = infer(energy, method, random_state=2).assignment
    assert (found != other).any()
    monkeypatch.setattr(sweeps, "_DRAWS_PER_CALL", 7 * 900)
    np.testing.assert_array_equal(found, infer(energy, method).assignment)


@pytest.mark.compiled
def test_more_sweeps_find_better_states():
    energy = make_ising_lattice((60, 60), 1.0)
    signs = np.random.RandomState(0).choice([-1.0, 1.0], len(energy.edge_coupling))
    energy = energy.with_edge_coupling(signs)
    local = energy.score(infer(energy, "icm", n_restarts=5, random_state=0).assignment)[0]
    scores = [
        energy.score(infer(energy, SimulatedAnnealing(n, random_state=0)).assignment)[0]
        for n in (10, 100, 1000)
    ]
    assert local < scores[0] < scores[1] < scores[2]
    assert scores[2] > 1.385 * energy.n_variables  # the best states have some 1.4 per variable
    converged = infer(energy, SimulatedAnnealing(10, random_state=0))
    log_odds = energy.visible_log_odds(converged.assignment)
    assert converged.converged.all()
    assert ((2 * converged.assignment - 1) * log_odds >= 0).all()


def run_kernel(energy, beta, n_sweeps, state, scores=None):
    """Make sweeps at a constant beta, in one call or one by one with the score of each."""
    lanes, seeds = energy.lanes, np.arange(1, n_sweeps + 1).astype(np.uint64) * 12345
    field = np.ascontiguousarray(energy.field[:, lanes.order])
    coupling = sweeps.lane_couplings(energy)
    held = np.zeros((0, energy.n_variables), np.int8)
    n = energy.n_models
    best, score, best_score = state.copy(), energy.score(state), energy.score(state)
    size = n_sweeps if scores is None else 1
    for t in range(0, n_sweeps, size):
        anneal_colours(
            lanes, coupling, field, held, np.full((n, size), beta), seeds[t : t + size], state,
            score, best, best_score,
        )  # fmt: skip
        if scores is not None:
            scores.append(score.copy())
            np.testing.assert_allclose(score, energy.score(state), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(best_score, energy.score(best), rtol=1e-10, atol=1e-10)
    return best_score


@pytest.mark.compiled
def test_the_best_of_all_states_is_kept():
    energy = sparse(frustrated(n_models=4, width=30))
    start = np.random.RandomState(0).uniform(size=(4, 30)) < 0.5
    scores = []
    one_by_one = run_kernel(energy, 0.2, 200, start.copy(), scores)
    together = run_kernel(energy, 0.2, 200, start.copy())
    np.testing.assert_array_equal(one_by_one, together)
    np.testing.assert_array_equal(together, np.max([energy.score(start), *scores], axis=0))
    assert (together > scores[-1]).any()


@pytest.mark.compiled
def test_law_at_a_constant_beta():
    """Independent copies at beta 0.5: marginals within five standard errors."""
    n_copies, edges = 40_000, np.array([[0, 1], [1, 2], [2, 3], [0, 3], [1, 3], [3, 4]])
    weights, field = np.array([0.8, -0.6, 0.7, -0.9, 0.5, 1.1]), np.array([0.3, 0.2, -0.4, 0.2, 0])
    small = SparseIsingEnergy.from_edges(edges, 0.5 * weights, 0.5 * field)
    many = SparseIsingEnergy.from_edges(
        (edges + 5 * np.arange(n_copies)[:, None, None]).reshape(-1, 2),
        np.tile(weights, n_copies), np.tile(field, n_copies),
    )  # fmt: skip
    state = np.zeros((1, 5 * n_copies), bool)
    run_kernel(many, 0.5, 300, state)
    exact = infer(small, "exact", returns=("marginals", "statistics"))
    states = state.reshape(n_copies, 5)
    pairs = states[:, small.edges[:, 0]] & states[:, small.edges[:, 1]]
    for found, p in ((states, exact.marginals[0]), (pairs, exact.pairwise)):
        error = np.abs(found.mean(axis=0) - p)
        assert (error < 5 * np.sqrt(p * (1 - p) / n_copies)).all()


def test_betas():
    lattice = SparseIsingEnergy.from_edges([[0, 1], [1, 2], [0, 2]], 2.0, [0.0, 0.0, 0.0])
    strength = _strengths(lattice)[0]
    np.testing.assert_allclose(strength, np.sqrt(8))
    found = betas(SimulatedAnnealing(n_sweeps=3), strength)
    np.testing.assert_allclose(found * np.sqrt(8), [1, np.sqrt(5), 5])
    found = betas(SimulatedAnnealing(n_sweeps=3, schedule="linear", beta_range=(1, 5)), strength)
    np.testing.assert_allclose(found, [1, 3, 5])
    # Only the shape of the schedule depends on the scale of the model.
    weak = lattice.with_edge_coupling(1e-3 * lattice.edge_coupling)
    for seed in range(3):
        method = SimulatedAnnealing(n_sweeps=4, random_state=seed)
        np.testing.assert_array_equal(
            infer(lattice, method).assignment, infer(weak, method).assignment
        )


def test_models_without_numbers():
    free = SparseIsingEnergy.from_edges([], [], np.zeros((2, 3)))
    assert infer(free, "simulated_annealing", n_sweeps=2, random_state=0).converged.all()
    nothing = IsingEnergy(np.zeros((0, 0)), np.zeros((2, 0)))
    assert infer(nothing, "simulated_annealing").assignment.shape == (2, 0)
    held = infer(free, "simulated_annealing", clamp=[0, 1, 0], n_sweeps=2)
    np.testing.assert_array_equal(held.assignment, [[0, 1, 0]] * 2)


def test_errors():
    energy = frustrated()
    for wrong in ((2, 1), (0, 1), (1, 2, 3), (1, np.nan), "ab"):
        with pytest.raises(ValueError, match="beta_range"):
            infer(energy, SimulatedAnnealing(beta_range=wrong))
    with pytest.raises(ValueError, match="n_sweeps"):
        infer(energy, SimulatedAnnealing(n_sweeps=0))

    class Unscaled(TripleEnergy):
        scaled = TripleEnergy.__mro__[1].scaled

    unscaled = Unscaled([[0, 1, 2]], [1.0], np.zeros(3))
    assert "simulated_annealing" not in available_methods(unscaled, "map")
    scaled = TripleEnergy([[0, 1, 2]], [1.0], np.zeros(3))
    best = infer(scaled, "simulated_annealing", n_sweeps=30, random_state=0).assignment
    np.testing.assert_array_equal(best, [[1, 1, 1]])
