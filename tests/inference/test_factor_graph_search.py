"""Branch and bound on factor graphs, against enumeration."""

import numpy as np
import pytest
from reference.states import all_states

from skcrbm.energies import AndFactors, FactorGraphEnergy, TableFactors
from skcrbm.inference import BranchAndBound, infer

STATES = all_states(6)


def random_energy(seed, n_rows=20):
    """Tables of one to five of six variables, integers so that there are ties."""
    rng = np.random.default_rng(seed)
    scopes = [rng.choice(6, size=k, replace=False) for k in (1, 2, 2, 3, 3, 4, 5)]
    tables = [rng.integers(-3, 4, 2 ** len(s)).astype(float) for s in scopes]
    return FactorGraphEnergy.from_tables(scopes, tables, rng.integers(-4, 5, (n_rows, 6)))


def best_states(energy):
    """First of the best states in lexicographic order, and their scores."""
    scores = np.array([energy.score(np.tile(s, (energy.n_models, 1))) for s in STATES])
    best = scores.max(axis=0)
    return STATES[(scores >= best - 1e-9).argmax(axis=0)], best


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("node_limit", [50_000, 5])
def test_the_best_state_and_its_bound(seed, node_limit):
    energy = random_energy(seed)
    if seed % 2:
        rng = np.random.default_rng(seed)
        held = np.where(rng.random((20, 6)) < 0.3, rng.integers(0, 2, (20, 6)), np.nan)
        energy = energy.condition(held)
    states, best = best_states(energy)
    found = infer(energy, BranchAndBound(node_limit=node_limit))
    scores = energy.score(found.assignment)
    np.testing.assert_allclose(found.map_bound, scores + found.gap, atol=1e-9)
    assert (found.map_bound >= best - 1e-9).all()
    np.testing.assert_array_equal(found.converged, found.gap == 0)
    if node_limit == 5:
        assert not found.converged.all()
    else:
        assert found.converged.all()
        np.testing.assert_array_equal(found.assignment, states)
    done = found.converged
    np.testing.assert_allclose(scores[done], best[done], atol=1e-9)


def test_beside_large_fields_that_decide_theirs():
    energy = random_energy(0)
    field = energy.field.copy()
    field[:, 2] = 1e8
    energy = energy.with_fields(field)
    found = infer(energy, "branch_and_bound")
    assert (found.assignment[:, 2] == 1).all()
    held = np.full(field.shape, np.nan)
    held[:, 2] = 1
    expected = infer(random_energy(0), "exact", clamp=held, returns="map")
    np.testing.assert_array_equal(found.assignment, expected.assignment)


def test_weights_of_zero_are_refused():
    zeros = FactorGraphEnergy([TableFactors([[0, 1]], [0.0, -np.inf, 0.0, 0.0])])
    logic = FactorGraphEnergy([AndFactors([[0, 1]], [2])])
    for energy in (zeros, logic):
        with pytest.raises(ValueError, match="it cannot handle weights of 0"):
            infer(energy, "branch_and_bound")


def test_fields_that_decide_cancel_nothing():
    """A field of 1e22 does not round the bound of the other variables."""
    table, field = np.random.default_rng(0).normal(size=8), np.array([[0.3, -1e22, 0.2]])
    energy = FactorGraphEnergy.from_tables([[0, 1, 2]], [table], field)
    result = infer(energy, "branch_and_bound", returns=("map", "map_bound"))
    states = [(a, 0, c) for a in (0, 1) for c in (0, 1)]
    scores = [0.3 * a + 0.2 * c + table[4 * a + c] for a, _, c in states]
    assert tuple(result.assignment[0]) == states[np.argmax(scores)]
    np.testing.assert_allclose(result.map_bound, max(scores), rtol=1e-12)
