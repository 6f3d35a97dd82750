"""Compiled elimination of graphs with very many variables, against the elimination by NumPy."""

import time

import numpy as np
import pytest
from reference.categorical import random_graph as graph_of_states
from reference.categorical import with_logic
from reference.factor_graphs import random_graph

from skcrbm.energies import FactorGraphEnergy, TableFactors
from skcrbm.inference import infer, sample
from skcrbm.inference.factor_graph import _elimination

ALL = ("marginals", "statistics", "log_partition")
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def held_at_random(energy, rng, share):
    """Hold some variables of each model at the values of a state of positive weight."""
    states = infer(energy, "exact", returns="map").assignment.astype(float)
    states[rng.random(states.shape) > share] = np.nan
    return energy.condition(states)


def graph(seed, kind):
    """Return a small graph with two or more models, and with weights of zero."""
    if kind == "binary":
        return random_graph(seed, n_models=2)
    if kind == "logic":
        return with_logic(seed, 0.2).rows([0, 1])
    return graph_of_states(seed, zeros=0.1, n_models=3)


@pytest.mark.quick_cases(31)
@pytest.mark.parametrize("kind", ["binary", "logic", "states"])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("share", [0, 0.3, 1])
def test_same_answers(seed, kind, share, monkeypatch):
    """All answers, of free and clamped models, are the answers of the elimination by NumPy."""
    rng = np.random.default_rng(seed)
    energy = graph(seed, kind)
    try:
        energy = held_at_random(energy, rng, share)
    except ValueError:
        pytest.skip("no state has a positive weight")
    sums = infer(energy, "exact", returns=ALL, pairwise="per_example")
    best = infer(energy, "exact", returns="map")
    draws = sample(energy, "exact", n_samples=20, random_state=0, return_log_prob=True)
    monkeypatch.setattr(_elimination, "_MANY", 1)
    also = infer(energy, "exact", returns=ALL, pairwise="per_example")
    np.testing.assert_allclose(also.log_partition, sums.log_partition, **CLOSE)
    np.testing.assert_allclose(also.marginals, sums.marginals, **CLOSE)
    np.testing.assert_allclose(also.log_odds, sums.log_odds, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(also.pairwise, sums.pairwise, **CLOSE)
    again = infer(energy, "exact", returns="map")
    np.testing.assert_allclose(energy.score(again.assignment), energy.score(best.assignment))
    np.testing.assert_allclose(again.log_odds, best.log_odds, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(
        sample(energy, "exact", n_samples=20, random_state=0, return_log_prob=True)[0], draws[0]
    )


def test_contradictions(monkeypatch):
    """A model without a possible state raises the error of the elimination by NumPy."""
    forbidden = TableFactors([[0, 1]], [[-np.inf, 0, 0, 0]])
    energy = FactorGraphEnergy([forbidden], np.zeros((2, 3))).condition([[1, 0, 0], [0, 0, np.nan]])
    monkeypatch.setattr(_elimination, "_MANY", 1)
    with pytest.raises(ValueError, match="model 1 has no state of positive weight"):
        infer(energy, "exact")


def test_large_fields(monkeypatch):
    """Small terms keep their digits beside large fields of other variables."""
    rng = np.random.default_rng(0)
    pairs = TableFactors([[0, 1], [1, 2], [2, 3]], rng.normal(size=(3, 4)))
    energy = FactorGraphEnergy([pairs], [[1e8, 0.1, -1e8, 0.3]])
    expected = infer(energy, "exact").log_odds
    monkeypatch.setattr(_elimination, "_MANY", 1)
    np.testing.assert_allclose(infer(energy, "exact").log_odds, expected, rtol=1e-9)


@pytest.mark.deep
def test_time_of_many_variables():
    """A strip of 10^5 variables of width 2 takes a few seconds of processor time."""
    n = 100_000
    rng = np.random.default_rng(0)
    near, far = np.arange(n - 1), np.arange(n - 2)
    tables = [
        TableFactors(np.stack([near, near + 1], axis=1), rng.normal(size=(n - 1, 2, 2))),
        TableFactors(np.stack([far, far + 2], axis=1), rng.normal(size=(n - 2, 2, 2))),
    ]
    energy = FactorGraphEnergy(tables, rng.normal(size=n))
    infer(energy.rows([0]), "exact")  # compiles
    start = time.process_time()
    found = infer(FactorGraphEnergy(tables, energy.field), "exact", returns=ALL)
    assert time.process_time() - start < 8
    # Conditional probabilities along the strip: the marginals agree with the pairs.
    on = found.pairwise[: 4 * (n - 1)].reshape(n - 1, 4)
    np.testing.assert_allclose(on[:, 2] + on[:, 3], found.marginals[0, :-1], atol=1e-9)
    np.testing.assert_allclose(on[:, 1] + on[:, 3], found.marginals[0, 1:], atol=1e-9)
