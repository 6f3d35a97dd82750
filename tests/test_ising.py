"""Pairwise Boltzmann machines: the energy, and every method that works on it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.brute_force_ising import brute_force_ising
from reference.random_models import random_clamp, random_ising

from skcrbm.energies import IsingEnergy
from skcrbm.inference import Exact, available_methods, infer

ALL = ("marginals", "pairwise", "log_partition")
DTYPES = [np.float32, np.float64]


def assert_exact(energy, result, clamp=None, atol=1e-10):
    """Equal to brute force, per model; `result` has all answers, pairwise per model."""
    clamp = np.full((energy.n_models, energy.n_variables), np.nan) if clamp is None else clamp
    for n, field in enumerate(energy.field):
        expected = brute_force_ising(energy.coupling, field, clamp[n])
        np.testing.assert_allclose(result.marginals[n], expected.marginals, atol=atol)
        np.testing.assert_allclose(result.log_odds[n], expected.log_odds, rtol=atol, atol=atol)
        np.testing.assert_allclose(result.pairwise[n], expected.pairwise, atol=atol)
        np.testing.assert_allclose(
            result.log_partition[n], expected.log_partition, rtol=atol, atol=atol
        )


# --------------------------------------------------------------------------- the energy


def test_score_is_the_log_weight():
    energy = random_ising(0, 4, n_models=16)
    state = (np.arange(16)[:, None] >> np.arange(4)) & 1
    y = 2 * state - 1
    for n in range(16):
        expected = brute_force_ising(energy.coupling, energy.field[n])
        row = (expected.states == y[n]).all(1)
        np.testing.assert_allclose(energy.score(state)[n], expected.scores[row][0])


def test_rows_share_the_couplings():
    energy = random_ising(0, 3, n_models=5)
    some = energy.rows([4, 1])
    assert some.coupling is energy.coupling
    np.testing.assert_array_equal(some.field, energy.field[[4, 1]])
    one = IsingEnergy(energy.coupling, energy.field[0])
    assert (one.n_models, one.n_variables, one.pairwise_shape) == (1, 3, (3, 3))


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ((np.float32, np.float32), np.float32),
        ((np.float32, np.float64), np.float64),
        ((np.int64, np.float32), np.float64),
    ],
)
def test_dtype(dtypes, expected):
    energy = IsingEnergy(np.zeros((2, 2), dtypes[0]), np.zeros((3, 2), dtypes[1]))
    assert energy.dtype == energy.coupling.dtype == energy.field.dtype == expected


@pytest.mark.parametrize(
    ("coupling", "field", "message"),
    [
        (np.zeros((2, 3)), np.zeros(2), r"coupling must have shape \(L, L\)"),
        (np.zeros(2), np.zeros(2), r"coupling must have shape \(L, L\)"),
        (np.eye(2), np.zeros(2), "zero diagonal"),
        ([[0, 1], [2, 0]], np.zeros(2), "must be symmetric"),
        ([[0, np.nan], [np.nan, 0]], np.zeros(2), "coupling must be finite"),
        (np.zeros((2, 2)), np.zeros(3), r"field must have shape .* with L = 2"),
        (np.zeros((2, 2)), np.zeros((1, 1, 2)), "field must have shape"),
        (np.zeros((2, 2)), [0, np.inf], "field must be finite"),
        (np.zeros((2, 2)), ["a", "b"], "field must be a real array"),
    ],
)
def test_what_is_refused(coupling, field, message):
    with pytest.raises(ValueError, match=message):
        IsingEnergy(coupling, field)


@pytest.mark.parametrize("dtype", DTYPES)
def test_conditioning_keeps_the_log_weight(dtype):
    """Score of a state = score under the conditioned energy + offset."""
    energy = random_ising(1, 6, n_models=40, dtype=dtype)
    clamp = random_clamp(np.random.default_rng(0), 40, 6)
    conditioned = energy.condition(clamp)
    free = np.random.default_rng(1).integers(0, 2, (40, 6))
    state = np.where(np.isnan(clamp), free, clamp)
    # In the conditioned energy a clamped label is -1, without a field.
    state_of_free = np.where(np.isnan(clamp), free, 0)
    field = np.where(conditioned.clamped, 0, conditioned.energy.field)
    score = conditioned.energy.with_fields(field).score(state_of_free) + conditioned.offset
    atol = {np.float32: 1e-4, np.float64: 1e-12}[dtype]
    np.testing.assert_allclose(score, energy.score(state), atol=atol)


# ------------------------------------------------------------------- which methods there are


def test_refusals_name_what_is_possible():
    energy = random_ising(0, 3)
    with pytest.raises(ValueError, match=r"'icm' does not work on IsingEnergy; .*'exact'"):
        infer(energy, "icm")
    with pytest.raises(ValueError, match="cannot answer 'marginal_map'"):
        infer(energy, "exact", returns="marginal_map")
    assert available_methods(energy, ["marginal_map"]) == []
    assert available_methods(energy, ["map"]) == ["exact"]
    with pytest.raises(ValueError, match=r"free labels, of which there are 4.*max_units=3"):
        infer(random_ising(0, 4), Exact(max_units=3))


# ------------------------------------------------------------------------------ enumeration


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_labels", [0, 1, 2, 5, 11])
@pytest.mark.parametrize("clamped", [False, True])
def test_exact(n_labels, clamped, dtype):
    energy = random_ising(n_labels, n_labels, n_models=3, scale=0.7, dtype=dtype)
    clamp = random_clamp(np.random.default_rng(0), 3, n_labels) if clamped else None
    result = infer(energy, "exact", returns=ALL, pairwise="per_example", clamp=clamp)
    assert result.marginals.dtype == result.pairwise.dtype == dtype
    assert_exact(energy, result, clamp, atol={np.float32: 2e-5, np.float64: 1e-11}[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("scale", "bias_scale"), [(50, 1), (2, 1000), (50, 1000), (1, 300)])
def test_exact_on_strong_models(scale, bias_scale, dtype):
    """Log-odds far beyond what a probability can hold are right as well."""
    energy = random_ising(3, 6, 4, scale=scale, bias_scale=bias_scale, dtype=dtype)
    result = infer(energy, "exact", returns=ALL, pairwise="per_example")
    assert_exact(energy, result, atol={np.float32: 1e-5, np.float64: 1e-10}[dtype])


@given(seed=st.integers(0, 2**32 - 1), n_labels=st.integers(1, 7), scale=st.floats(0.01, 60))
def test_best_state(seed, n_labels, scale):
    energy = random_ising(seed, n_labels, n_models=3, scale=scale, bias_scale=scale)
    clamp = random_clamp(np.random.default_rng(seed), 3, n_labels, share=0.2)
    result = infer(energy, "exact", returns="map", clamp=clamp)
    for n, field in enumerate(energy.field):
        expected = brute_force_ising(energy.coupling, field, clamp[n])
        score = energy.score(result.assignment)[n]
        np.testing.assert_allclose(score, expected.scores.max(), rtol=1e-12, atol=1e-12)
        for i in np.flatnonzero(np.isnan(clamp[n])):
            on = expected.states[:, i] == 1
            gap = expected.scores[on].max() - expected.scores[~on].max()
            np.testing.assert_allclose(result.log_odds[n, i], gap, rtol=1e-9, atol=1e-9)


def test_only_free_labels_are_enumerated():
    """Forty labels of which five are free, not the same five in each model."""
    energy = random_ising(4, 40, 6, scale=0.3)
    clamp = np.random.default_rng(0).integers(0, 2, (6, 40)).astype(float)
    for n in range(6):
        clamp[n, n % 2 : n % 2 + 5] = np.nan
    result = infer(energy, "exact", returns=ALL, pairwise="per_example", clamp=clamp)
    for n in range(6):
        free = np.isnan(clamp[n])
        y = 2 * clamp[n, ~free] - 1
        field = energy.field[n, free] + energy.coupling[np.ix_(free, ~free)] @ y
        expected = brute_force_ising(energy.coupling[np.ix_(free, free)], field)
        fixed = y @ energy.field[n, ~free] + y @ energy.coupling[np.ix_(~free, ~free)] @ y / 2
        np.testing.assert_allclose(result.marginals[n, free], expected.marginals, atol=1e-12)
        np.testing.assert_allclose(result.log_partition[n], expected.log_partition + fixed)
        pairs = result.pairwise[n]
        np.testing.assert_allclose(pairs[np.ix_(free, free)], expected.pairwise, atol=1e-12)
        np.testing.assert_allclose(np.diagonal(pairs), result.marginals[n], atol=1e-12)


# ---------------------------------------------------------------- rules for every method


def test_pairwise_sum():
    energy = random_ising(5, 5, 60)
    weight = np.random.default_rng(0).random(60)
    clamp = random_clamp(np.random.default_rng(1), 60, 5)
    for method in available_methods(energy, ["pairwise"]):
        options = {"returns": "pairwise", "sample_weight": weight, "clamp": clamp}
        each = infer(energy, method, pairwise="per_example", **options).pairwise
        total = infer(energy, method, **options).pairwise
        np.testing.assert_allclose(total, np.tensordot(weight, each, axes=1), rtol=1e-10)
        np.testing.assert_array_equal(each, each.swapaxes(1, 2))
        np.testing.assert_allclose(total, total.T, rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_and_batches_do_not_change_a_bit(dtype):
    energy = random_ising(6, 13, 70, scale=0.4, dtype=dtype)
    clamp = random_clamp(np.random.default_rng(1), 70, 13, share=0.1)
    for method in available_methods(energy, ALL):
        for pairwise in ("sum", "per_example"):
            options = {"returns": ALL, "pairwise": pairwise}
            one = infer(energy, method, n_jobs=1, clamp=clamp, **options)
            for n_jobs in (2, 3):
                other = infer(energy, method, n_jobs=n_jobs, clamp=clamp, **options)
                for field in ("marginals", "log_odds", "pairwise", "log_partition", "n_iter"):
                    np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
        rows = [69, 3, 17]
        some = infer(energy.rows(rows), method, clamp=clamp[rows], **options)
        for field in ("marginals", "log_odds", "pairwise", "log_partition", "n_iter"):
            np.testing.assert_array_equal(getattr(one, field)[rows], getattr(some, field))
