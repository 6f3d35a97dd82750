"""Numbers of any size that is served, against scores without rounding; beyond, a refusal."""

import numpy as np
import pytest
from reference.dtypes import float32_test
from reference.integer_scores import IntegerScores
from reference.random_models import random_ising, random_rbm

from skcrbm.energies import (
    FactorGraphEnergy,
    IsingEnergy,
    LayeredEnergy,
    LayeredStructure,
    OneHotRBMEnergy,
    RBMEnergy,
    SparseIsingEnergy,
)
from skcrbm.inference import BranchAndBound, available_methods, infer
from skcrbm.layers import Dense

EDGES = [[0, 1], [1, 2], [2, 3], [0, 3]]


def rbm(big):
    return RBMEnergy([[1.0, -2.0], [0.5, 1.0], [2.0, -1.0]], [big, 0.3, -0.2], [0.4, -big])


def one_hot(big):
    weights = [[1.0, -2.0, 0.5], [0.5, 1.0, 1.0], [2.0, -1.0, 0.3]]
    return OneHotRBMEnergy(weights, [big, big, -big], [0.4, big, -0.3])


def ising(big):
    return IsingEnergy(random_ising(0, 4).coupling, [0.3, big, -0.4, -big])


def sparse_ising(big):
    return SparseIsingEnergy.from_edges(EDGES, [1.0, -0.5, 2.0, 0.7], [0.3, big, -0.4, 0.2])


def factor_graph(big):
    return FactorGraphEnergy.from_energy(sparse_ising(big))


def layered(big):
    structure = LayeredStructure([Dense(1)], (2,), 2, 1, 3)
    return LayeredEnergy(structure, [[1.0, 2.0]], [0.0, big, 0.5])


def layered_of_three_states(big):
    """Outputs of three states, the last of which is ruled out or sure in the first of them."""
    structure = LayeredStructure([Dense(1, 3)], (2,), 2, 2, 3)
    weights = [[0.7, -0.4, 1.1, 0.3, -0.9, 0.2, 0.5, -0.6]]
    return LayeredEnergy(structure, weights, [0.3, big, -0.2, 0.4, 0.1, -0.5])


MAKE = [rbm, one_hot, ising, sparse_ising, factor_graph, layered, layered_of_three_states]
each_kind = pytest.mark.parametrize("make", MAKE, ids=lambda make: make.__name__)


@each_kind
@pytest.mark.parametrize("big", [1e9, 1e16, -1e22, 4e29])
def test_exact_beside_large_fields(make, big):
    energy = make(big)
    found = infer(energy, "exact", returns=("marginals", "log_partition", "map"))
    expected = IntegerScores(energy, 0)
    np.testing.assert_allclose(found.marginals[0], expected.marginals(), atol=1e-6)
    np.testing.assert_allclose(found.log_odds[0], expected.log_odds(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.log_partition[0], expected.log_z, rtol=1e-12)
    assert expected.below_best(found.assignment[0]) < 1e-6


@each_kind
@pytest.mark.parametrize("big", [1e16, -4e29])
def test_every_method_beside_large_fields(make, big):
    """Other variables get the same answers beside a very large field as beside a large field."""
    for name in available_methods(make(0.0), "marginals"):
        if "gibbs" in name:
            continue
        found = infer(make(big), name).marginals
        expected = infer(make(np.copysign(1e3, big)), name).marginals
        np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=name)
    for name in available_methods(make(0.0), ("map", "map_bound")):
        found = infer(make(big), name, returns=("map", "map_bound"))
        exact = IntegerScores(make(big), 0)
        if found.gap[0] == 0:
            assert exact.below_best(found.assignment[0]) < 1e-6, name
        assert found.map_bound[0] >= exact.best_score * (1 - 1e-12 * np.sign(exact.best_score))


def test_large_tables_of_one_variable():
    """No field, so nothing is held: tables are scaled before they are multiplied."""
    energy = FactorGraphEnergy.from_tables(
        [[0], [0, 1], [1, 2]], [[0.0, 1e16], [0.3, -0.2, 0.1, 0.8], [1.0, 0.0, -0.5, 0.2]]
    )
    found = infer(energy, "exact", returns=("marginals", "log_partition"))
    expected = IntegerScores(energy, 0)
    np.testing.assert_allclose(found.marginals[0], expected.marginals(), atol=1e-9)
    np.testing.assert_allclose(found.log_partition[0], expected.log_z, rtol=1e-15)


def test_proven_labels_beside_held_ones_with_large_fields():
    energy = IsingEnergy([[0.0, -0.1], [-0.1, 0.0]], [-1e16, 0.3])
    found = infer(energy, BranchAndBound(), clamp=[1, np.nan])
    np.testing.assert_array_equal(found.assignment, [[1, 1]])
    found = infer(energy, "milp", clamp=[1, np.nan])
    np.testing.assert_array_equal(found.assignment, [[1, 1]])


@pytest.mark.parametrize("make", MAKE, ids=lambda make: make.__name__)
@pytest.mark.parametrize("big", [1.01e30, -1e35])
def test_larger_ones_are_refused(make, big):
    for name in available_methods(make(0.0)):
        with pytest.raises(ValueError, match=r"energy has a field of .*e\+3.*up to 1e\+30"):
            infer(make(big), name)


@pytest.mark.parametrize("value", [1e31, np.nan, np.inf])
def test_couplings_and_fields_that_are_no_numbers(value):
    energy = random_rbm(0, 2, 2)
    large = energy.scaled(1.0)
    large.weights = np.full((2, 2), value)
    with pytest.raises(ValueError, match="energy has a coupling of"):
        infer(large)
    fields = [np.full((1, 2), value), energy.hidden_bias]
    with pytest.raises(ValueError, match="energy has a field of"):
        infer(energy.with_fields(*fields))


@float32_test
def test_the_limit_is_served_in_float32():
    energy = RBMEnergy(*(np.float32(a) for a in ([[1.0]], [1e30], [0.0])))
    np.testing.assert_allclose(infer(energy).marginals, [[1.0, 0.731]], atol=1e-3)


def test_a_large_field_of_a_class_that_evidence_excludes():
    energy = OneHotRBMEnergy([[1.0], [0.5], [2.0]], [1e22, 0.3, -1e22], [0.4])
    for clamp in ([0, np.nan, np.nan, np.nan], [np.nan, 1, np.nan, np.nan]):
        given = energy.condition(clamp)
        found = infer(given, "exact", returns=("map_bound", "log_partition"))
        expected = IntegerScores(given, 0)
        np.testing.assert_allclose(found.log_partition[0], expected.log_z, rtol=1e-12)
        np.testing.assert_allclose(found.map_bound[0], expected.best_score, rtol=1e-12)


def hard(big):
    return FactorGraphEnergy.from_tables([[0, 1]], [[0.0, 0.3, -np.inf, 0.2]], [big, 0.5])


def tied(big):
    return layered_of_three_states(0.0).with_fields([[big, big, -0.2, 0.4, 0.1, -0.5]])


@pytest.mark.parametrize("make", [hard, tied], ids=lambda make: make.__name__)
def test_large_fields_that_decide_nothing_are_refused(make):
    found = infer(make(1e10), "exact", returns=("marginals", "log_partition"))
    expected = IntegerScores(make(1e10), 0)
    np.testing.assert_allclose(found.marginals[0], expected.marginals(), atol=1e-5)
    with pytest.raises(ValueError, match=r"variable 0 of model 0.* may still change"):
        infer(make(1.1e10), "exact")
    held = np.full((1, make(0.0).n_variables), np.nan)
    held[0, 0] = 1
    found = infer(make(1e16), "exact", clamp=held)
    np.testing.assert_allclose(found.marginals, infer(make(0.0), "exact", clamp=held).marginals)


def test_large_fields_beside_large_couplings():
    """Each field outweighs its coupling, but not a million times."""
    weights = np.zeros((2, 2))
    weights[0, 0] = -1e12
    ising = np.zeros((3, 3))
    ising[0, 1] = ising[1, 0] = -2.5e11
    for energy in (
        RBMEnergy(weights, [-1.0, -0.85], [1e17, -0.85]),
        IsingEnergy(ising, [[5e16, -1.0, -0.4]]),
    ):
        found = infer(energy, "exact").marginals[0]
        np.testing.assert_allclose(found, IntegerScores(energy, 0).marginals(), atol=1e-12)


def test_couplings_larger_than_fields_are_served():
    structure = LayeredStructure([Dense(1)], (2,), 2, 1, 3)
    energy = LayeredEnergy(structure, [[1e15, 2e15]], [0.0, -1.0, 1e11])
    found = infer(energy, "exact").marginals[0]
    np.testing.assert_allclose(found, IntegerScores(energy, 0).marginals(), atol=1e-12)


def test_best_states_beside_other_answers():
    """The best states need variables that large fields decide; all other answers do not."""
    energy = RBMEnergy([[130.0], [-400.0], [500.0]], [1e16, -1.2, -1e16], [0.3])
    alone = infer(energy, "exact", returns=("marginals", "log_partition"))
    both = infer(energy, "exact", returns=("best_states", "marginals", "log_partition"), n_best=2)
    np.testing.assert_array_equal(both.log_odds, alone.log_odds)
    np.testing.assert_array_equal(both.log_partition, alone.log_partition)
    assert both.best_states.shape == (1, 2, 4)
    assert (both.best_states[0, 0] == [1, 0, 0, 1]).all()
