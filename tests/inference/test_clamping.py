"""Clamped units: `infer` answers for the conditioned model."""

import numpy as np
import pytest
from reference.dtypes import DTYPES
from reference.naive_mean_field import naive_mean_field
from reference.random_models import random_rbm

from skcrbm.energies import RBMEnergy
from skcrbm.inference import (
    MeanField,
    SumProduct,
    available_methods,
    infer,
)
from skcrbm.inference.registry import METHODS

ALL = ("marginals", "pairwise", "log_partition")
NAMES = available_methods(random_rbm(0, 2, 2))
SUMS = available_methods(random_rbm(0, 2, 2), ALL)


@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_clamp_equals_conditioning_by_hand(damping):
    """Loopy sum-product and mean field on the smaller model that is left, per iteration."""
    energy = random_rbm(10, 6, 5, scale=2.0)
    clamp = np.full(11, np.nan)
    clamp[[1, 4]], clamp[[6, 8, 10]] = (1, 0), (1, 0, 1)
    free_v, free_h = [0, 2, 3, 5], [1, 3]
    w, b, c = energy.weights, energy.visible_bias[0], energy.hidden_bias[0]
    smaller = RBMEnergy(
        w[np.ix_(free_v, free_h)],
        (b + w[:, [0, 4]].sum(1))[free_v],
        (c + w[1])[free_h],
    )
    offset = b[1] + c[0] + c[4] + w[1, 0] + w[1, 4]
    free = free_v + [6 + j for j in free_h]
    for method in (SumProduct(damping=damping), MeanField()):
        for n_iter in (1, 3):
            options = {"max_iter": n_iter, "tol": 0, "returns": ALL}
            result = infer(energy, method, clamp=clamp, **options)
            expected = infer(smaller, method, **options)
            np.testing.assert_allclose(result.log_odds[0, free], expected.log_odds[0], rtol=1e-12)
            pairs = result.pairwise[np.ix_(free_v, free_h)]
            np.testing.assert_allclose(pairs, expected.pairwise, atol=1e-13)
            np.testing.assert_allclose(
                result.log_partition, expected.log_partition + offset, rtol=1e-12
            )
            np.testing.assert_allclose(result.pairwise[1, free_h], result.marginals[0, [7, 9]])
            np.testing.assert_allclose(result.pairwise[free_v, 4], result.marginals[0, free_v])
            assert result.pairwise[1, 4] == 1
            assert (result.pairwise[4] == 0).all()
    reference = naive_mean_field(smaller.weights, *(f[0] for f in smaller.fields), 3)
    np.testing.assert_allclose(result.log_odds[0, free], reference.log_odds, rtol=1e-12)


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_units_clamped(name, dtype):
    energy = random_rbm(11, 3, 2, n_models=2, dtype=dtype)
    clamp = np.array([[1, 0, 1, 1, 0], [0, 1, 1, 1, 1]])
    result = infer(energy, name, clamp=clamp, returns=ALL, pairwise="per_example")
    np.testing.assert_array_equal(result.marginals, clamp)
    v, h = clamp[:, :3].astype(float), clamp[:, 3:].astype(float)
    np.testing.assert_array_equal(result.pairwise, v[:, :, None] * h[:, None, :])
    b, c = energy.fields
    score = (v * b).sum(1) + (h * c).sum(1) + np.einsum("ni,ij,nj->n", v, energy.weights, h)
    np.testing.assert_allclose(result.log_partition, score, rtol=1e-6, atol=1e-6)
    assert result.marginals.dtype == dtype


@pytest.mark.parametrize("name", SUMS)
def test_clamp_nothing_changes_nothing(name):
    energy = random_rbm(12, 4, 3, n_models=2)
    free = infer(energy, name, returns=ALL)
    clamped = infer(energy, name, returns=ALL, clamp=np.full((2, 7), np.nan))
    for field in ALL:
        np.testing.assert_array_equal(getattr(clamped, field), getattr(free, field))


@pytest.mark.deep
def test_inputs_are_left_alone():
    energy = random_rbm(13, 4, 3, n_models=2)
    before = [a.copy() for a in (energy.weights, *energy.fields)]
    clamp = np.array([1, 0, np.nan, 1, np.nan, 0, np.nan])
    kept = clamp.copy()
    for name in NAMES:
        first = infer(energy, name)
        start = None if first.log_odds is None else first.log_odds.copy()
        options = {"init": first} if "init" in METHODS.get(name).accepts else {}
        infer(energy, name, clamp=clamp, **options)
        if start is not None:
            np.testing.assert_array_equal(first.log_odds, start)
    np.testing.assert_array_equal(clamp, kept)
    for now, then in zip((energy.weights, *energy.fields), before, strict=True):
        np.testing.assert_array_equal(now, then)
