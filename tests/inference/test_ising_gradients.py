"""The compiled sweep of Gibbs with gradients against a sweep by `visible_log_odds`."""

import time

import numpy as np
import pytest
from reference.factor_graphs import all_states

from skcrbm.datasets import make_ising_lattice
from skcrbm.energies import IsingEnergy, SparseIsingEnergy
from skcrbm.inference.any_energy._gibbs_with_gradients import (
    _is_strong,
    _strong_sweep,
    _tree_sweep,
    gradient_sweep,
    ising_gradient_sweep,
)
from skcrbm.inference.any_energy.gibbs import start_chains

KEY = np.uint64(7)


def make(kind, scale, n_models=3, width=9):
    rng = np.random.RandomState(0)
    half = np.triu(rng.normal(0, scale, (width, width)), 1) * (
        rng.uniform(size=(width, width)) < 0.6
    )
    field = rng.normal(size=(n_models, width)) * min(scale, 1)
    if kind == "dense":
        return IsingEnergy(half + half.T, field)
    edges = np.argwhere(half)
    return SparseIsingEnergy.from_edges(edges, half[edges[:, 0], edges[:, 1]], field)


@pytest.mark.quick_cases(11)
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("scale", [0.3, 3.0, 300.0])  # beyond the range of exp, too
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_same_states(kind, scale, share):
    rng = np.random.RandomState(1)
    energy = make(kind, scale)
    shape = energy.n_models, energy.n_variables
    held = np.where(rng.uniform(size=shape) < share, rng.randint(2, size=shape), np.nan)
    energy = energy.condition(held)
    streams = np.arange(5)
    state = expected = start_chains(energy, 5, KEY, streams)
    for step in range(1, 12):
        expected, log_odds = gradient_sweep(energy, expected, KEY, streams, step)
        state, found = ising_gradient_sweep(energy, state, KEY, streams, step)
        np.testing.assert_array_equal(state, expected)
        np.testing.assert_allclose(found, log_odds, rtol=1e-9, atol=1e-9 * (1 + scale))


def test_streams_for_each_model_and_float32():
    energy = make("sparse", 0.5)
    single = energy.with_fields(energy.field.astype(np.float32))
    streams = np.arange(12)
    state = start_chains(energy, 4, KEY, streams)
    found, log_odds = ising_gradient_sweep(single, state, KEY, streams, 1)
    expected, _ = gradient_sweep(energy, state, KEY, streams, 1)
    assert log_odds.dtype == single.dtype
    assert np.mean(found == expected) > 0.9
    part = single.rows(slice(1, 3))
    np.testing.assert_array_equal(
        found[1:], ising_gradient_sweep(part, state[1:], KEY, streams[4:], 1)[0]
    )


def transitions(energy):
    """Return the states (S, n) and the matrix (S, S) of a step, written from the definition."""
    states = all_states(energy.n_variables)
    score = energy.log_weight_of_sets(states)[0]
    matrix = np.zeros((len(states), len(states)))
    # place[s, i] is the state that differs from state s in variable i
    place = np.array([
        [np.flatnonzero((states != s).sum(axis=1) + 2 * (states[:, i] == s[i]) == 1)[0]
         for i in range(energy.n_variables)]
        for s in states
    ])  # fmt: skip
    weight = np.exp((score[place] - score[:, None]) / 2)
    proposal = weight / weight.sum(axis=1, keepdims=True)
    for s in range(len(states)):
        for i, other in enumerate(place[s]):
            ratio = np.exp(score[other] - score[s]) * proposal[other, i] / proposal[s, i]
            matrix[s, other] = proposal[s, i] * min(1, ratio)
        matrix[s, s] = 1 - matrix[s].sum()
    return states, score, matrix


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("sweep", [_tree_sweep, _strong_sweep])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_sweep_has_the_transition_matrix_of_its_steps(kind, sweep):
    energy = make(kind, 0.7, n_models=1, width=3)
    states, score, matrix = transitions(energy)
    chance = np.exp(score - np.logaddexp.reduce(score))
    np.testing.assert_allclose(chance @ matrix, chance, rtol=1e-12)
    expected = np.linalg.matrix_power(matrix, 3)
    n_chains = 40_000
    code = 1 << np.arange(3)
    for s, state in enumerate(states):
        begin = np.broadcast_to(state.astype(bool), (1, n_chains, 3))
        found, _ = sweep(energy, begin, KEY, np.arange(n_chains), 1, 1)
        place = {int(row @ code): k for k, row in enumerate(states.astype(int))}
        ends = np.bincount([place[c] for c in found[0].astype(int) @ code], minlength=8)
        error = 4.5 * np.sqrt(expected[s] * (1 - expected[s]) / n_chains) + 1e-9
        assert np.all(np.abs(ends / n_chains - expected[s]) < error)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("width", [1, 4, 5, 16, 17, 64, 65, 257, 300])
def test_every_size_of_the_tree(width):
    rng = np.random.RandomState(width)
    weights = rng.normal(size=max(0, width - 1))
    edges = np.column_stack([np.arange(width - 1), np.arange(1, width)])
    energy = SparseIsingEnergy.from_edges(edges, weights, rng.normal(size=(2, width)))
    streams = np.arange(5)
    state = expected = start_chains(energy, 5, KEY, streams)
    for step in range(1, 4):
        expected, _ = gradient_sweep(energy, expected, KEY, streams, step)
    state, log_odds = ising_gradient_sweep(energy, state, KEY, streams, 1, 3)
    np.testing.assert_array_equal(state, expected)
    models = energy.rows(np.repeat([0, 1], 5))
    own = models.visible_log_odds(state.reshape(10, width))
    np.testing.assert_allclose(log_odds.reshape(10, width), own, atol=1e-12)


def test_weak_and_strong_models_in_a_batch():
    energy = make("sparse", 0.5)
    field = energy.field.copy()
    field[1] *= 1000
    energy = energy.with_fields(field)
    assert _is_strong(energy).tolist() == [False, True, False]
    for streams in (np.arange(4), np.arange(12)):
        state = start_chains(energy, 4, KEY, streams)
        found, log_odds = ising_gradient_sweep(energy, state, KEY, streams, 1, 2)
        for m in range(3):
            own = streams if len(streams) == 4 else streams[4 * m : 4 * m + 4]
            alone = ising_gradient_sweep(energy.rows([m]), state[m : m + 1], KEY, own, 1, 2)
            np.testing.assert_array_equal(found[m : m + 1], alone[0])
            np.testing.assert_array_equal(log_odds[m : m + 1], alone[1])


@pytest.mark.compiled
def test_it_is_fast():
    energy = make_ising_lattice((20, 20), -0.2)
    streams = np.arange(10)
    state = start_chains(energy, 10, KEY, streams)
    ising_gradient_sweep(energy, state, KEY, streams, 1)
    start = time.process_time()
    for step in range(5):
        ising_gradient_sweep(energy, state, KEY, streams, step)
    assert time.process_time() - start < 0.3  # 20,000 flips; some 0.002 s on an idle core
