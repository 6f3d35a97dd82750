"""Energies of variables with any number of states, compared with plain loops."""

import copy
import pickle

import numpy as np
import pytest
from reference.categorical import Enumerated, naive_score, random_graph
from reference.categorical import with_logic as random_logic
from scipy.special import expit

from skcrbm.energies import FactorGraphEnergy, OrFactors, TableFactors


def with_logic(seed):
    base = random_graph(seed, (2, 3, 2, 2), [(0, 1), (1, 2)])
    return FactorGraphEnergy([*base.factors, OrFactors([[0, 2]], [3])], base.field)


@pytest.mark.parametrize("make", [random_graph, with_logic])
@pytest.mark.parametrize("held", [False, True])
def test_scores_and_conditionals(make, held):
    energy = make(0)
    if held:
        energy = energy.condition([np.nan, 2, np.nan, np.nan, np.nan][: energy.n_variables])
    for n in range(2):
        found = Enumerated(energy, n)
        states = found.states
        rows = energy.rows(np.full(len(states), n))
        np.testing.assert_allclose(rows.score(states), found.scores, rtol=1e-12)
        np.testing.assert_allclose(energy.log_weight_of_sets(states)[n], found.scores, rtol=1e-12)
        possible = np.flatnonzero(found.scores > -np.inf)
        state = states[possible[len(possible) // 2]]
        for block in energy.sampling_blocks:
            chains = np.tile(state, (2, 1, 1))
            log_odds = energy.conditional_log_odds(chains, block)[n, 0]
            for row, v in zip(log_odds, block, strict=True):
                scores = np.full(energy.n_levels, -np.inf)
                for k in range(energy.n_states[v]):
                    scores[k] = naive_score(energy, n, [*state[:v], k, *state[v + 1 :]])
                weight = np.exp(scores - scores.max())
                np.testing.assert_allclose(expit(row), weight / weight.sum(), atol=1e-12)


def test_statistics_and_moments():
    energy = random_graph(1)
    found = Enumerated(energy)
    np.testing.assert_allclose(energy.statistics(found.states, found.probability), found.entries)
    (entries,) = energy.sum_statistics(found.marginals[None], np.ones(1))
    first = energy.unflatten(entries)[0][0]  # a table over one variable: its marginals
    np.testing.assert_allclose(first, found.marginals[3, :1])
    expected = energy.expected_score(found.marginals, (found.entries,))
    assert expected == pytest.approx(found.probability @ found.scores)


def test_draws_follow_the_conditionals():
    energy = random_graph(2)
    u = (np.arange(100_000) + 0.5) / 100_000
    states = np.zeros((2, 1, 5), int)
    for block in energy.sampling_blocks:
        log_odds = np.repeat(energy.conditional_log_odds(states, block), len(u), axis=1)
        drawn = energy.draw(log_odds, u[None, :, None], block)
        for k in range(energy.n_levels):
            share = (drawn == k).mean(axis=1)
            np.testing.assert_allclose(share, expit(log_odds[:, 0, :, k]), atol=2e-5)


def test_impossible_surroundings():
    """A variable all of whose states are forbidden takes each state with equal probability."""
    table = np.full((3, 2), -np.inf)
    table[1, 1] = 0
    energy = FactorGraphEnergy([TableFactors([[0, 1]], table)])
    found = energy.conditional_log_odds(np.zeros((1, 1, 2), int), np.array([0]))
    np.testing.assert_allclose(expit(found[0, 0, 0]), 1 / 3)


def test_which_graphs_are_binary():
    pair = TableFactors([[0, 1]], np.eye(2))
    for energy in (FactorGraphEnergy([pair]), FactorGraphEnergy(iter([pair]), n_states=2)):
        assert energy.binary
        assert energy.belief_shape == (1, 2)
        assert energy.n_states.tolist() == [2, 2]
    for energy, shape in (
        (FactorGraphEnergy([pair], n_states=[2, 2, 1]), (1, 3, 2)),
        (FactorGraphEnergy([], np.zeros((2, 3, 4))), (2, 3, 4)),
        (FactorGraphEnergy([pair], np.zeros((4, 2, 2))), (4, 2, 2)),
        (FactorGraphEnergy([pair], np.zeros((1, 2, 2)), n_states=2), (1, 2, 2)),
        (FactorGraphEnergy([pair]).with_states(), (1, 2, 2)),
    ):
        assert not energy.binary
        assert energy.belief_shape == shape
    energy = FactorGraphEnergy([TableFactors([[0, 1]], np.eye(3))], [[0, 1, 2], [2, 1, 0]])
    assert energy.n_states.tolist() == [3, 3]
    for other in (copy.copy(energy), pickle.loads(pickle.dumps(energy)), energy.rows([0])):
        assert not other.binary
        assert other.score([[1, 1]]) == energy.score([[1, 1]]) == 3.0
    two = FactorGraphEnergy([pair], [[0.5, 1.0]])
    both = two.with_states()
    assert both.with_states() is both
    states = np.array([[0, 0], [0, 1], [1, 1]])
    np.testing.assert_allclose(both.log_weight_of_sets(states), two.log_weight_of_sets(states))


def test_constants():
    energy = FactorGraphEnergy.from_tables([[], [0], []], [0.5, [0.0, 1.0], [0.25]])
    assert energy.constant == 0.75
    assert energy.score([[1]]) == 1.75


@pytest.mark.parametrize(
    ("clamp", "message"),
    [
        ([3, np.nan, 0, 0, 0], "0 to 1 for variable 0"),
        ([0, 0.5, 0, 0, 0], "0 to 2 for variable 1"),
        ([0, -1, 0, 0, 0], "0 to 2 for variable 1"),
        ([0, 0], "clamp must have shape"),
    ],
)
def test_bad_evidence(clamp, message):
    with pytest.raises(ValueError, match=message):
        random_graph(0).condition(clamp)


def test_contradicting_evidence():
    energy = random_graph(0).condition([np.nan, 2, np.nan, np.nan, np.nan])
    with pytest.raises(ValueError, match="contradicts"):
        energy.condition([np.nan, 1, np.nan, np.nan, np.nan])


def test_temperature():
    """The whole score is multiplied, with its constant; impossible states stay impossible."""
    for energy in (random_graph(0, zeros=0.1), random_logic(0, 0.1)):
        energy.constant = 0.7
        plain = Enumerated(energy)
        for beta in (0.0, 0.5, 3.0):
            warm = energy.tempered(beta)
            states = plain.states
            expected = np.where(plain.scores == -np.inf, -np.inf, 0.0)
            possible = plain.scores > -np.inf
            expected[possible] = beta * plain.scores[possible]
            found = warm.rows(np.zeros(len(states), int)).score(states)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    held = energy.condition(np.full(5, np.nan)).tempered(2.0)
    assert held.evidence is not None
    with pytest.raises(ValueError, match="beta must be"):
        energy.tempered(np.nan)
