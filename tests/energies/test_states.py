"""Methods that take states refuse other values than 0 and 1; log-odds of states keep ties."""

import math

import numpy as np
import pytest
from reference.energy_cases import BINARY, CASES
from reference.outside import TripleEnergy

from skcrbm.energies import SparseIsingEnergy
from skcrbm.energies.states import log_odds_of_weights, unchecked

TAKE_STATES = {
    "score": ("states", "joint"),
    "log_weight": ("visible", "visible"),
    "log_weight_of_sets": ("visible_sets", "visible"),
    "hidden_given_visible": ("visible", "visible"),
    "hidden_and_log_weight": ("visible", "visible"),
    "visible_log_odds": ("visible", "visible"),
    "conditional_log_odds": ("states", "chains"),
    "statistics": ("states", "joint"),
    "sum_statistics": ("means", "joint"),
}


def arguments(energy, name):
    """Return valid arguments of a method, the states first."""
    kind = TAKE_STATES[name][1]
    width = energy.n_visible if kind == "visible" else energy.n_variables
    states = np.zeros((energy.n_models, width))
    if energy.categorical:
        states[:, 0] = 1
    if kind == "chains":
        return states[:, None], energy.sampling_blocks[0]
    return (states, np.ones(len(states))) if name == "sum_statistics" else (states,)


@pytest.mark.parametrize("name", TAKE_STATES)
@pytest.mark.parametrize("case", BINARY, ids=lambda case: case.name)
def test_only_zeros_and_ones(case, name):
    energy = case.make(0, 3, 1.0, np.float64)
    method = getattr(energy, name)
    states, *others = arguments(energy, name)
    method(states, *others)
    argument = TAKE_STATES[name][0]
    for wrong in (-1, 2, np.nan, *([] if name == "sum_statistics" else [0.5])):
        bad = states.copy()
        bad[-1, ..., -1] = wrong
        with pytest.raises(
            ValueError, match=rf"{argument} must hold .*\(s \+ 1\) / 2; got {wrong}"
        ):
            method(bad, *others)
    with pytest.raises(ValueError, match=f"{argument} must hold"):
        method(np.full(states.shape, "a"), *others)


@pytest.mark.parametrize("name", TAKE_STATES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_wrong_shapes(case, name):
    """One error names the argument and the shape: columns, axes, and number of models."""
    energy = case.make(0, 3, 1.0, np.float64)
    method, argument = getattr(energy, name), TAKE_STATES[name][0]
    states, *others = arguments(energy, name)
    wrong = [
        np.concatenate([states, states[..., :1]], axis=-1),
        states[..., 1:],
        states[0],
        states[None],
        states[..., :0],
        *([states[:2]] if TAKE_STATES[name][1] != "joint" and "sets" not in name else []),
    ]
    if name == "score":
        wrong.append(states[:2])
    for bad in wrong:
        with pytest.raises(ValueError, match=rf"^{argument} must have shape \(.*; got"):
            method(bad, *others)
        more = "weight" if name == "sum_statistics" else "block"
        with pytest.raises(ValueError, match=rf"^{argument} must have shape \(.*; got"):
            method(**{argument: bad.tolist()}, **({more: others[0]} if others else {}))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_state_or_one_model_stands_for_many(case):
    energy = case.make(0, 3, 1.0, np.float64)
    states = np.zeros((3, energy.n_variables))
    if hasattr(energy, "units"):
        for group in energy.units.groups:
            states[:, group.start] = 1
    np.testing.assert_array_equal(energy.score(states[:1]), energy.score(states))
    one = energy.rows([0])
    np.testing.assert_array_equal(one.score(states), np.repeat(one.score(states[:1]), 3))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_wrong_fields_and_weights(case):
    energy = case.make(0, 3, 1.0, np.float64)
    fields = energy.fields
    for bad in ([f[:, 1:] for f in fields], [*fields, fields[0]], [], [f[0, 0] for f in fields]):
        with pytest.raises(ValueError, match=r"^fields must be arrays of the shapes \(N, "):
            energy.with_fields(*bad)
    states = np.zeros((3, energy.n_variables))
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(3,\)"):
        energy.statistics(states, np.ones(2))
    with pytest.raises(ValueError, match=r"sample_weight must be a real array"):
        energy.statistics(states, ["a", "b", "c"])


def test_means_are_valid_for_sums():
    energy = SparseIsingEnergy.from_edges([[0, 1]], 1.0, [0.0, 0.0])
    np.testing.assert_allclose(energy.sum_statistics([[0.5, 0.4]], np.ones(1))[0], [0.2])
    slightly_above = np.array([[1.0, 1 + 1e-7]])
    energy.sum_statistics(slightly_above, np.ones(1))


def test_values_that_were_read_as_numbers():
    energy = SparseIsingEnergy.from_edges([[0, 1], [1, 2]], [1.0, -2.0], [0.1, 0.2, 0.3])
    spins = np.array([[-1, 1, 1]])
    with pytest.raises(
        ValueError, match=r"0 for variables that are off \(spin -1\).*\(s \+ 1\) / 2; got -1$"
    ):
        energy.score(spins)
    expected = 0.1 * -1 + 0.2 + 0.3 - 1 - 2
    for states in (
        (spins + 1) // 2,
        (spins + 1) / 2,
        spins > 0,
        [[0, 1, 1]],
        [[False, True, True]],
    ):
        np.testing.assert_allclose(energy.score(states), expected)
    with pytest.raises(ValueError, match="states must hold 0 and 1"):
        energy.score(states=spins)


def test_energies_of_other_packages_are_checked_too():
    energy = TripleEnergy([[0, 1, 2]], [1.0], np.zeros(3))
    assert energy.sum_statistics(np.ones((1, 3)), np.ones(1))[0] == 1
    for method in (energy.score, energy.log_weight):
        with pytest.raises(ValueError, match="must hold 0 and 1"):
            method(-np.ones((1, 3)))


def test_without_the_check():
    energy = SparseIsingEnergy.from_edges([[0, 1]], 1.0, [0.0, 0.0])
    assert unchecked(energy.score)(np.array([[1, 0]])) == energy.score([[1, 0]])
    unchecked(energy.score)(np.array([[-1, 1]]))
    assert unchecked(energy.scaled)(0.5).edge_coupling == 0.5  # a method that takes no states


@pytest.mark.parametrize("scale", [1e-3, 1.0, 20.0])
def test_log_odds_of_states(scale):
    """They agree with sums of weights, and states that tie for the largest weight stay tied."""
    rng = np.random.default_rng(0)
    logs = scale * rng.integers(-3, 4, (500, 4)) * math.log(10.0)
    logs[rng.random(logs.shape) < 0.2] = -np.inf
    logs[(logs == -np.inf).all(axis=1)] = 0.0
    found = log_odds_of_weights(logs, np.ones(logs.shape, bool))
    top = logs == logs.max(axis=1, keepdims=True)
    assert (top.sum(axis=1) > 1).mean() > 0.2
    np.testing.assert_array_equal(found == found.max(axis=1, keepdims=True), top)
    for k in range(4):
        others = np.logaddexp.reduce(np.delete(logs, k, axis=1), axis=1)
        np.testing.assert_allclose(found[:, k], logs[:, k] - others, rtol=1e-12, atol=1e-12)
