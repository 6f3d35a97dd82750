"""Elimination on graphs of any number of states, compared with enumeration."""

import numpy as np
import pytest
from reference.categorical import Enumerated, naive_score, random_graph

from skcrbm.energies import FactorGraphEnergy, OrFactors, SparseIsingEnergy, TableFactors
from skcrbm.inference import infer
from skcrbm.inference.exact import levels


def check_sums_and_best(energy):
    asked = ("marginals", "statistics", "log_partition", "map", "map_bound")
    found = infer(energy, "exact", returns=asked, pairwise="per_example")
    best = infer(energy, "exact", returns="map")
    assert found.marginals.shape == energy.belief_shape
    for n in range(energy.n_models):
        right = Enumerated(energy, n)
        assert found.log_partition[n] == pytest.approx(right.log_z, rel=1e-12, abs=1e-10)
        np.testing.assert_allclose(found.marginals[n], right.marginals, atol=1e-9)
        np.testing.assert_allclose(found.statistics[0][n], right.entries, atol=1e-9)
        assert naive_score(energy, n, found.assignment[n]) == pytest.approx(right.best)
        assert found.map_bound[n] == pytest.approx(right.best)
        for v, scores in enumerate(right.max_marginals):
            for k in range(energy.n_states[v]):
                others = np.delete(scores, k).max(initial=-np.inf)
                gain = -np.inf if scores[k] == -np.inf else scores[k] - others
                assert best.log_odds[n, v, k] == pytest.approx(gain)


# Seeds whose models have a state of positive weight.


def test_logic_beside_categories(monkeypatch):
    base = random_graph(1, (2, 3, 2, 2, 2), [(0, 1), (1, 2)])
    energy = FactorGraphEnergy([*base.factors, OrFactors([[0, 2, 4]], [3])], base.field)
    check_sums_and_best(energy)
    monkeypatch.setattr(levels, "MOST_BUCKETS", 0)  # by the kernels
    check_sums_and_best(energy)


def test_impossible_models_are_refused():
    table = np.full((3, 3), -np.inf)
    energy = FactorGraphEnergy([TableFactors([[0, 1]], table)])
    with pytest.raises(ValueError, match="no state of positive weight"):
        infer(energy, "exact")


@pytest.mark.deep
def test_star_of_many_leaves():
    """A star has width 1, however many leaves it has."""
    pairs = np.column_stack([np.zeros(700, int), np.arange(1, 701)])
    for k in (2, 3):
        energy = FactorGraphEnergy([TableFactors(pairs, np.broadcast_to(np.eye(k), (700, k, k)))])
        found = infer(energy, "exact", returns=("log_partition", "map"))
        expected = np.log(k) + 700 * np.log(k - 1 + np.e)
        assert found.log_partition[0] == pytest.approx(expected)
        assert energy.score(found.assignment) == pytest.approx([700.0])


def test_ties_of_an_antiferromagnetic_chain():
    pairs = np.column_stack([np.arange(50), np.arange(1, 51)])
    energy = FactorGraphEnergy([TableFactors(pairs, 1.0 - np.eye(2))])
    found = infer(energy, "exact", returns="map")
    assert energy.score(found.assignment) == pytest.approx([50.0])


def test_a_torus_is_refused_with_its_size():
    grid = np.arange(1024).reshape(32, 32)
    edges = [np.column_stack([grid.ravel(), np.roll(grid, 1, axis).ravel()]) for axis in (0, 1)]
    energy = SparseIsingEnergy.from_edges(np.concatenate(edges), 0.4, np.zeros(1024))
    with pytest.raises(ValueError, match=r"at least 2\^\d+ entries \(\d+ GiB\)"):
        infer(energy, "exact", returns="log_partition")
