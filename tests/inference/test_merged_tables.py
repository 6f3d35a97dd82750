"""Tables with equal or contained scopes are one table for messages."""

import numpy as np
import pytest

from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference import infer

ASKED = ("marginals", "statistics", "log_partition")


def assert_exact(energy, **tolerance):
    for pairwise in ("sum", "per_example"):
        exact, found = (
            infer(energy, method, returns=ASKED, pairwise=pairwise)
            for method in ("exact", "sum_product")
        )
        np.testing.assert_allclose(found.marginals, exact.marginals, **tolerance)
        np.testing.assert_allclose(found.pairwise, exact.pairwise, **tolerance)
        np.testing.assert_allclose(found.log_partition, exact.log_partition, **tolerance)


def test_a_network_that_states_its_tables_one_by_one():
    """p(a) p(b | a) p(c | a, b): the second scope lies in the third."""
    a, b, c = np.log([0.9, 0.1]), np.log([[0.8, 0.2], [0.1, 0.9]]), np.log([[0.7, 0.3], [0.2, 0.8]])
    c = np.stack([c, np.log([[0.4, 0.6], [0.99, 0.01]])])
    energy = FactorGraphEnergy.from_tables([[0], [0, 1], [0, 1, 2]], [a, b, c])
    assert_exact(energy, atol=1e-9)
    assert_exact(energy.condition([np.nan, np.nan, 1]), atol=1e-9)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("zeros", [0.0, 0.2])
def test_trees_of_tables_with_tables_inside(seed, zeros):
    rng = np.random.default_rng(seed)
    scopes = [(0, 1, 2), (2, 3), (3, 4, 5, 6)]
    for outer in list(scopes):
        for _ in range(2):
            size = rng.integers(1, len(outer) + 1)
            scopes.append(tuple(rng.permutation(outer)[:size]))
    scopes = [scopes[i] for i in rng.permutation(len(scopes))]
    tables = [rng.normal(size=(2,) * len(scope)) for scope in scopes]
    for table in tables:
        table[(rng.random(table.shape) < zeros) & (np.indices(table.shape).sum(0) > 0)] = -np.inf
    energy = FactorGraphEnergy.from_tables(scopes, tables, rng.normal(size=(2, 7)))
    assert_exact(energy, atol=1e-8)


def test_pairs_that_repeat():
    rng = np.random.default_rng(0)
    scopes = [(0, 1), (1, 2), (1, 0), (0, 1)]
    energy = FactorGraphEnergy.from_tables(scopes, rng.normal(size=(4, 2, 2)))
    assert_exact(energy, atol=1e-9)
    assert energy.graph.merging.kept[0].tolist() == [True, True, False, False]


def test_large_numbers_of_variables():
    """Scopes that no integer can number are compared as rows."""
    scopes = [tuple(range(v, 10**7, 10**7 // 6)) for v in (0, 1)] + [tuple(range(5, 0, -1))] * 2
    scopes = [scope[:5] for scope in scopes]
    energy = FactorGraphEnergy.from_tables(scopes, [np.zeros((2,) * 5)] * 4)
    assert energy.graph.merging.kept[0].tolist() == [True, True, True, False]
