"""The exact best states, joint and marginal, against brute force."""

import numpy as np
import pytest
from reference.brute_force import best_states
from reference.dtypes import DTYPES
from reference.random_models import random_rbm

from skcrbm.energies import OneHotRBMEnergy, RBMEnergy
from skcrbm.inference import Exact, infer

QUERIES = ("map", "marginal_map")


def assert_best(energy, query, result, clamp=None, one_hot=False, rtol=1e-6):
    n_visible = energy.n_visible
    for n, (b, c) in enumerate(zip(*energy.fields, strict=True)):
        fixed = None if clamp is None else np.broadcast_to(clamp, result.assignment.shape)[n]
        states, scores, summed = best_states(energy.weights, b, c, fixed, one_hot)
        found = (states == result.assignment[n]).all(1)
        assert found.sum() == 1
        value = scores if query == "map" else summed
        np.testing.assert_allclose(value[found][0], value.max(), rtol=rtol, atol=rtol)
        # Given its visible part, the hidden part is the best reply.
        same = (states[:, :n_visible] == result.assignment[n, :n_visible]).all(1)
        np.testing.assert_allclose(scores[found][0], scores[same].max(), rtol=rtol, atol=rtol)
        if fixed is not None:
            continue
        for r in range(energy.n_variables):
            on = states[:, r] == 1
            if query == "marginal_map" and r >= n_visible:
                v = result.assignment[n, :n_visible]
                expected = c[r - n_visible] + v @ energy.weights[:, r - n_visible]
            elif on.all() or not on.any():
                continue
            else:
                expected = value[on].max() - value[~on].max()
            np.testing.assert_allclose(result.log_odds[n, r], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("query", QUERIES)
def test_layers_larger_than_the_table(query, monkeypatch):
    """States are enumerated in tiles: the table holds the low units only."""
    energy = random_rbm(1, 7, 8, n_models=3, scale=1.0)
    whole = infer(energy, "exact", returns=query)
    monkeypatch.setattr("skcrbm.inference.exact.rbm.CACHED_ENTRIES", 1)
    tiled = infer(energy, "exact", returns=query, n_jobs=2)
    np.testing.assert_array_equal(tiled.assignment, whole.assignment)
    np.testing.assert_allclose(tiled.log_odds, whole.log_odds, atol=1e-12)


def test_together_with_sums():
    energy = random_rbm(2, 4, 3, n_models=5)
    both = infer(energy, "exact", returns=("marginals", "map", "log_partition"))
    sums = infer(energy, "exact", returns=("marginals", "log_partition"))
    state = infer(energy, "exact", returns="map")
    np.testing.assert_array_equal(both.marginals, sums.marginals)
    np.testing.assert_array_equal(both.log_odds, sums.log_odds)
    np.testing.assert_array_equal(both.log_partition, sums.log_partition)
    np.testing.assert_array_equal(both.assignment, state.assignment)


@pytest.mark.parametrize("query", QUERIES)
def test_ties_go_to_the_first_state(query):
    energy = RBMEnergy(np.zeros((3, 2)), np.zeros(3), np.zeros((2, 2)))
    assert not infer(energy, "exact", returns=query).assignment.any()


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_categorical_group(query, dtype):
    base = random_rbm(4, 5, 3, n_models=6, scale=2.0, dtype=dtype)
    energy = OneHotRBMEnergy(base.weights, *base.fields)
    result = infer(energy, "exact", returns=query)
    assert_best(energy, query, result, one_hot=True, rtol=1e-5)
    both = infer(energy, "exact", returns=("marginals", query))
    np.testing.assert_array_equal(both.assignment, result.assignment)


def test_too_many_units():
    energy = random_rbm(5, 22, 3)
    assert infer(energy, "exact", returns="map").assignment.shape == (1, 25)
    with pytest.raises(ValueError, match=r"visible layer, which has 22 units.*'mixed_product'"):
        infer(energy, "exact", returns="marginal_map")
    with pytest.raises(ValueError, match=r"smaller layer, which has 3 units.*'max_product'"):
        infer(energy, Exact(max_units=2), returns="map")
