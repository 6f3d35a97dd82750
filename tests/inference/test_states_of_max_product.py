"""States of max-product: ties, circles, and states of weight 0."""

import numpy as np
import pytest
from reference.categorical import with_logic
from reference.integer_models import check_max_product, integer_model

from skcrbm.energies import (
    AndFactors,
    FactorGraphEnergy,
    IsingEnergy,
    OrFactors,
    SparseIsingEnergy,
    TableFactors,
)
from skcrbm.inference import infer


def test_integer_tables():
    for seed in range(100):
        check_max_product(*integer_model(seed))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("n", [2, 51, 400])
def test_antiferromagnetic_chain(k, n):
    """Without fields all states of all variables are equally good; 400 is more than `max_iter`."""
    pairs = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    energy = FactorGraphEnergy([TableFactors(pairs, 1.0 - np.eye(k))])
    found = infer(energy, "max_product")
    assert found.converged
    assert energy.score(found.assignment) == pytest.approx([n - 1])
    held = np.full(n, np.nan)
    held[n // 2] = 1
    found = infer(energy, "max_product", clamp=held)
    assert found.assignment[0, n // 2] == 1
    assert energy.score(found.assignment) == pytest.approx([n - 1])


def test_antiferromagnetic_ising_chain():
    energy = SparseIsingEnergy.from_edges(
        np.column_stack([np.arange(30), np.arange(1, 31)]), -1.0, np.zeros(31)
    )
    found = infer(energy, "max_product")
    assert found.converged
    assert (found.assignment[0, 1:] != found.assignment[0, :-1]).all()


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_star_of_equal_tables(k, sign):
    pairs = np.column_stack([np.zeros(700, int), np.arange(1, 701)])
    energy = FactorGraphEnergy([TableFactors(pairs, sign * np.eye(k))])
    found = infer(energy, "max_product")
    assert found.converged
    assert energy.score(found.assignment) == pytest.approx([700.0 if sign > 0 else 0.0])


@pytest.mark.parametrize("many", [2, 40])
def test_ties_of_logic(many):
    """An output that is on by an OR, and off by an AND, of inputs without fields."""
    n = many + 2
    energy = FactorGraphEnergy([OrFactors([np.arange(many)], [many])], np.zeros((2, n)))
    energy = energy.condition(np.where(np.arange(n) == many, [[1.0], [0.0]], np.nan))
    found = infer(energy, "max_product")
    np.testing.assert_array_equal(energy.score(found.assignment), 0.0)
    other = FactorGraphEnergy([AndFactors([np.arange(many)], [many])], np.zeros((1, n)))
    other = other.condition(np.where(np.arange(n) == many, 0.0, np.nan))
    assert other.score(infer(other, "max_product").assignment) == [0.0]


def test_logic_beside_categories():
    energy = with_logic(1)
    exact = energy.score(infer(energy, "exact", returns="map").assignment)
    found = energy.score(infer(energy, "max_product", damping=0.5).assignment)
    np.testing.assert_allclose(found, exact)


@pytest.mark.parametrize("k", [2, 3])
def test_states_of_weight_0(k):
    """Three variables that must all differ have no state of two values."""
    differ = np.where(np.eye(k), -np.inf, 0.0)
    pairs = [[0, 1], [1, 2], [2, 0], [0, 3], [1, 3], [2, 3]]
    energy = FactorGraphEnergy([TableFactors(pairs, differ)])
    with pytest.warns(UserWarning, match="factors of 1 of 1 models .* contradict"):
        found = infer(energy, "max_product")
    assert not found.converged


def test_restarts_and_rows():
    energies = (integer_model(seed)[0] for seed in range(2, 400, 4))
    energy = next(e for e in energies if e.n_variables == 7)
    rng = np.random.default_rng(0)
    energy = energy.with_fields(rng.integers(-1, 2, (4, 7, 3)).astype(float))
    together = infer(energy, "max_product", n_restarts=3, random_state=0, n_jobs=2)
    for n in range(4):
        alone = infer(energy.rows([n]), "max_product", n_restarts=3, random_state=0)
        np.testing.assert_array_equal(alone.assignment[0], together.assignment[n])


def near_ties(seed, scale, kind):
    """A random tree with couplings of -1, 0 or 1, and fields of about `scale`."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 9))
    pairs = np.column_stack([[rng.integers(v) for v in range(1, n)], np.arange(1, n)])
    weights = rng.integers(-1, 2, n - 1).astype(float)
    field = scale * rng.normal(size=(3, n))
    if kind == "dense":
        coupling = np.zeros((n, n))
        coupling[tuple(pairs.T)] = coupling[tuple(pairs.T[::-1])] = weights
        return IsingEnergy(coupling, field)
    if kind == "sparse":
        return SparseIsingEnergy.from_edges(pairs, weights, field)
    k = 2 if kind == "tables" else 3
    tables = weights[:, None, None] * np.eye(k)
    if kind == "tables":
        return FactorGraphEnergy([TableFactors(pairs, tables)], field)
    field = scale * rng.normal(size=(3, n, k))
    return FactorGraphEnergy([TableFactors(pairs, tables)], field, n_states=[k] * n)


@pytest.mark.parametrize("kind", ["dense", "sparse", "tables", "states"])
@pytest.mark.parametrize("scale", [1e-9, 1e-7, 1e-5])
def test_near_ties_of_trees(kind, scale):
    """Fields that are small beside the couplings decide between states."""
    for seed in range(12):
        energy = near_ties(seed, scale, kind)
        found = infer(energy, "max_product")
        assert found.converged.all()
        best = infer(energy, "exact", returns="map_bound").map_bound
        np.testing.assert_allclose(energy.score(found.assignment), best, rtol=0, atol=1e-13)


def test_near_tie_of_a_star():
    energy = SparseIsingEnergy.from_edges([[0, 1], [0, 2]], [-1.0, -1.0], [[0.0, 1e-7, -2e-7]])
    found = infer(energy, "max_product")
    assert found.converged
    np.testing.assert_array_equal(found.assignment, [[1, 0, 0]])
