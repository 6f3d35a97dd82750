"""Samples from pairwise Boltzmann machines against enumeration; five standard errors."""

import numpy as np
import pytest
from reference.random_models import random_clamp, random_ising

from skcrbm.energies import IsingEnergy
from skcrbm.inference import infer, sample

N, L, S = 4, 5, 4000


def pair_moments(states):
    states = states.astype(float)
    return np.swapaxes(states, 1, 2) @ states / states.shape[1]


@pytest.mark.compiled
@pytest.mark.parametrize("method", ["exact", "gibbs"])
@pytest.mark.parametrize("clamped", [False, True])
def test_pairs(method, clamped):
    energy = random_ising(0, L, N, scale=0.4)
    clamp = random_clamp(np.random.default_rng(1), N, L) if clamped else None
    if clamped:
        clamp[0] = [1, 0, 1, 1, 0]
    # Chains are independent of each other: the last state of each.
    options = {"n_chains": S, "burn_in": 30} if method == "gibbs" else {}
    states = sample(energy, method, n_samples=S, clamp=clamp, random_state=0, **options)
    assert states.shape == (N, S, L)
    assert np.isin(states, (0, 1)).all()
    exact = infer(energy, "exact", returns="pairwise", pairwise="per_example", clamp=clamp).pairwise
    bound = 5 * np.sqrt(exact * (1 - exact) / S) + 1e-12
    assert (np.abs(pair_moments(states) - exact) <= bound).all()
    if clamped:
        fixed = ~np.isnan(clamp)
        np.testing.assert_array_equal(
            np.broadcast_to(clamp[:, None], states.shape)[:, :, 0][fixed[:, 0]],
            states[:, :, 0][fixed[:, 0]],
        )


@pytest.mark.parametrize("method", ["exact", "gibbs"])
def test_seed(method):
    energy = random_ising(0, L, N)
    draws = [
        sample(energy, method, n_samples=7, random_state=seed, n_jobs=jobs)
        for seed, jobs in ((0, 1), (0, 2), (1, 1))
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


def test_score_of_sets():
    energy = random_ising(3, L, N)
    sets = np.random.default_rng(0).integers(0, 2, (6, L))
    expected = [energy.score(np.broadcast_to(v, (N, L))) for v in sets]
    np.testing.assert_allclose(energy.log_weight_of_sets(sets), np.transpose(expected), atol=1e-12)
    np.testing.assert_array_equal(energy.log_weight(sets[:N]), energy.score(sets[:N]))


def test_too_many_labels():
    energy = IsingEnergy(np.ones((25, 25)) - np.eye(25), np.zeros(25))
    with pytest.raises(ValueError, match="there are 25, and the limit is max_units=20"):
        sample(energy, "exact")
    assert sample(energy, "gibbs", burn_in=2, random_state=0).shape == (1, 1, 25)
    clamp = np.full(25, np.nan)
    clamp[:12] = 1
    assert (sample(energy, "exact", clamp=clamp, random_state=0)[:, :, 0] == 1).all()


def test_pairs_alone_with_clamped_labels():
    """Pairs with a clamped label follow from the marginals, asked for or not."""
    energy = random_ising(0, L, N)
    clamp = random_clamp(np.random.default_rng(1), N, L)
    options = {"clamp": clamp, "pairwise": "per_example"}
    for method in ("exact", "sum_product", "tree_reweighted", "mean_field"):
        np.empty((N, L))[...] = 7.0  # memory that the next array may get
        alone = infer(energy, method, returns="pairwise", **options)
        both = infer(energy, method, returns=("pairwise", "marginals"), **options)
        np.testing.assert_array_equal(alone.pairwise, both.pairwise)
