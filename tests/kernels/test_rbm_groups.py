"""Sums over the hidden states of RBMs over outputs with classes, against sums of logarithms."""

import numpy as np
import pytest

from skcrbm.energies import OneHotRBMEnergy
from skcrbm.energies.grouped_rbm import GroupedRBMEnergy
from skcrbm.inference import infer
from skcrbm.inference.exact import grouped_rbm
from skcrbm.utils.categorical import OutputUnits


def make_energy(counts, n_hidden, n=5, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    units = OutputUnits(counts)
    shape = units.n_units, n_hidden
    weights, fields = rng.normal(0, scale, shape), rng.normal(size=(n, units.n_units))
    return GroupedRBMEnergy(weights, fields, rng.normal(size=(n, n_hidden)), units)


@pytest.mark.parametrize(
    ("counts", "n_hidden", "scale", "n_groups"),
    [
        ([3, 4, 2, 3], 3, 1.0, 1),
        ([3, 2, 5, 1, 4], 5, 0.5, 1),
        ([2], 0, 1.0, 1),
        ([3] * 12, 4, 25.0, 3),  # the product of all sums would underflow
        ([4] * 500, 1, 0.1, 2),  # the product of all sums would overflow
    ],
)
def test_sums_equal_sums_of_logarithms(counts, n_hidden, scale, n_groups):
    energy = make_energy(counts, n_hidden, scale=scale)
    held = np.full((5, energy.n_variables), np.nan)
    held[0, 0] = 1
    held[2, -1] = 0
    for model in (energy, energy.condition(held)):
        states = grouped_rbm._HiddenStates(model)
        assert states.moderate
        assert len(states.groups) - 1 == n_groups or n_groups == 3 <= len(states.groups) - 1
        rows, weight = slice(1, 4), np.array([0.5, 2.0, 0.0])
        found = states.sums(rows, weight)
        expected = states.sums_of_logs(rows, weight)
        for a, b in zip(found, expected):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_answers_do_not_depend_on_the_other_rows():
    energy = make_energy([3, 4, 3], 2, n=7)
    returns = "marginals", "log_partition"
    whole = infer(energy, "exact", returns=returns)
    for row in (0, 6):
        one = infer(energy.rows(slice(row, row + 1)), "exact", returns=returns)
        np.testing.assert_allclose(whole.marginals[row], one.marginals[0], rtol=1e-12)
        np.testing.assert_allclose(whole.log_partition[row], one.log_partition[0], rtol=1e-12)


def test_best_states_of_an_output_with_a_single_class():
    found = infer(OneHotRBMEnergy(np.zeros((1, 0)), [[0.5]], []), "exact", returns="best_states")
    assert found.best_states.tolist() == [[[True]]]
