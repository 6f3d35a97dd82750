"""The two forms of exact inference on RBMs against each other, and at the ends of their ranges."""

import numpy as np
import pytest
from reference.brute_force import brute_force
from reference.random_models import random_rbm

from skcrbm.energies import RBMEnergy
from skcrbm.inference import infer
from skcrbm.inference.exact import rbm as _exact
from skcrbm.kernels import enumeration
from skcrbm.kernels.enumeration import enumerate_states
from skcrbm.kernels.rbm_exact import (
    GROUP,
    MAX_FIELD,
    MAX_NORM,
    enumerate_rows,
)

ALL = ("marginals", "statistics", "log_partition")
# Kernels by name, each with the module in which the solver looks it up.
FORMS = {
    "enumerate_rows": (_exact, enumerate_rows),
    "enumerate_states": (enumeration, enumerate_states),
}


def answer(energy, **options):
    return infer(energy, "exact", returns=ALL, **options)


def in_logs(energy, monkeypatch, **options):
    with monkeypatch.context() as patch:
        patch.setattr(_exact, "MAX_NORM", -1.0)
        return answer(energy, **options)


def assert_same(one, other, rtol=1e-12, atol=1e-12):
    np.testing.assert_allclose(one.log_odds, other.log_odds, rtol=rtol, atol=atol)
    np.testing.assert_allclose(one.log_partition, other.log_partition, rtol=rtol, atol=atol)
    np.testing.assert_allclose(one.pairwise, other.pairwise, rtol=rtol, atol=atol)


@pytest.fixture
def forms_used(monkeypatch):
    """Names of the kernels that run, in order."""
    used = []
    for name, (module, kernel) in FORMS.items():

        def spy(*args, name=name, kernel=kernel):
            used.append(name)
            kernel(*args)

        monkeypatch.setattr(module, name, spy)
    return used


@pytest.mark.parametrize("shape", [(6, 8), (14, 8), (9, 4), (4, 11), (3, 2), (7, 1), (11, 9)])
@pytest.mark.parametrize("held", [0.0, 0.4])
def test_odds_form_equals_log_form(shape, held, monkeypatch):
    """Groups of four that are not full, an odd last row, 512 states in two tiles, held units."""
    energy = random_rbm(0, *shape, n_models=7, scale=1.5)
    rng = np.random.default_rng(1)
    weight = rng.normal(size=7)
    clamp = np.where(rng.random((7, sum(shape))) < held, rng.integers(2, size=(7, 1)), np.nan)
    options = {"sample_weight": weight, "clamp": clamp}
    assert_same(answer(energy, **options), in_logs(energy, monkeypatch, **options))


@pytest.mark.parametrize("scale", [8.0, 20.0])
def test_many_labels_keep_exponents(scale, monkeypatch):
    """Sums of |couplings| of 40 units far beyond the range of a float."""
    rng = np.random.default_rng(2)
    weights = rng.normal(0, scale, (41, 5))
    energy = RBMEnergy(weights, rng.normal(0, 20, (3, 41)), rng.normal(0, 20, (3, 5)))
    assert np.abs(weights).sum() > 1000
    assert_same(answer(energy), in_logs(energy, monkeypatch), 1e-11, 1e-11)
    clamp = np.full((3, 46), np.nan)
    clamp[:, [1, 8]], clamp[0, 42], clamp[1, 44] = 1, 0, 1
    one, other = answer(energy, clamp=clamp), in_logs(energy, monkeypatch, clamp=clamp)
    assert_same(one, other, 1e-11, 1e-11)


@pytest.mark.parametrize(
    ("norm", "form"),
    [
        (MAX_NORM / GROUP, "enumerate_rows"),
        (MAX_NORM / 2, "enumerate_rows"),  # in pairs
        (MAX_NORM, "enumerate_rows"),  # alone
        (MAX_NORM * 1.01, "enumerate_states"),
    ],
)
def test_norms_at_the_switch(norm, form, forms_used):
    rng = np.random.default_rng(3)
    weights = rng.uniform(-1, 1, (6, 3))
    weights *= norm * (1 - 1e-12) / np.abs(weights).sum(1, keepdims=True)
    energy = RBMEnergy(weights, rng.normal(0, norm / 2, (5, 6)), rng.normal(0, 5, (5, 3)))
    found = infer(energy, "exact", returns=ALL, pairwise="per_example")
    assert forms_used[0] == form
    for n, (b, c) in enumerate(zip(*energy.fields, strict=True)):
        expected = brute_force(weights, b, c)
        np.testing.assert_allclose(found.log_odds[n], expected.log_odds, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(found.log_partition[n], expected.log_partition, rtol=1e-12)
        np.testing.assert_allclose(found.pairwise[n], expected.pairwise, rtol=0, atol=1e-12)


@pytest.mark.parametrize("field", [20.0, 37.0, 300.0, 800.0, 1e5])
def test_certain_units_keep_their_log_odds(field, monkeypatch):
    """Units that are nearly always on or off, on the summed and on the enumerated side."""
    rng = np.random.default_rng(4)
    weights = rng.normal(0, 3, (6, 4))
    b, c = rng.normal(0, 1, (4, 6)), rng.normal(0, 1, (4, 4))
    b[0, 0], b[0, 3], b[1, 1] = field, -field, field
    c[2, 0], c[3, 1], c[3, 2] = field, -field, field
    energy = RBMEnergy(weights, b, c)
    # the log form adds fields of this size to others
    assert_same(answer(energy), in_logs(energy, monkeypatch), 1e-11, max(1e-11, 1e-15 * field))


def test_small_joint_probabilities_keep_their_digits():
    energy = RBMEnergy(np.full((3, 2), 0.5), np.full((1, 3), -40.0), np.full((1, 2), -30.0))
    expected = brute_force(energy.weights, energy.fields[0][0], energy.fields[1][0])
    np.testing.assert_allclose(answer(energy).pairwise, expected.pairwise, rtol=1e-11)
    np.testing.assert_allclose(answer(energy).log_odds[0], expected.log_odds, rtol=1e-12)


def test_fields_beyond_integers(forms_used):
    weights = np.ones((3, 2))
    weights[:, 0] = MAX_FIELD / 8  # else the field would hold its unit
    energy = RBMEnergy(weights, np.full((2, 3), -MAX_FIELD), [[2 * MAX_FIELD, 0.3]] * 2)
    found = answer(energy)
    assert forms_used == ["enumerate_states"]
    np.testing.assert_allclose(found.log_odds[0, 3], 2 * MAX_FIELD, rtol=1e-12)


@pytest.mark.parametrize("shape", [(6, 8), (9, 4), (1, 1), (10, 10)])
@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_one_model_alone_needs_no_kernel(shape, scale, forms_used):
    energy = random_rbm(6, *shape, n_models=5, scale=scale)
    rng = np.random.default_rng(2)
    size = (5, sum(shape))
    clamp = np.where(rng.random(size) < 0.3, rng.integers(2, size=size), np.nan)
    clamp[0] = np.nan
    together = answer(energy, clamp=clamp, pairwise="per_example")
    forms_used.clear()
    for n in range(5):
        alone = answer(energy.rows([n]), clamp=clamp[n : n + 1], pairwise="per_example")
        np.testing.assert_allclose(alone.log_odds[0], together.log_odds[n], 1e-11, 1e-11)
        np.testing.assert_allclose(alone.log_partition[0], together.log_partition[n], 1e-12)
        np.testing.assert_allclose(alone.pairwise[0], together.pairwise[n], 1e-10, 1e-12)
    assert not forms_used


def test_one_row_of_training_takes_the_kernel(forms_used):
    answer(random_rbm(6, 6, 8, n_models=1))
    assert forms_used == ["enumerate_rows"]


def test_one_large_model_alone_takes_the_kernel(forms_used):
    answer(random_rbm(7, 11, 12, n_models=1), pairwise="per_example")
    assert forms_used == ["enumerate_rows"]


@pytest.mark.parametrize("shape", [(5, 8), (3, 0)])
def test_threads_and_neighbours_do_not_change_a_bit(shape):
    energy = random_rbm(5, *shape, n_models=601)
    one, two = answer(energy, n_jobs=1), answer(energy, n_jobs=2)
    for field in ("log_odds", "pairwise", "log_partition"):
        np.testing.assert_array_equal(getattr(one, field), getattr(two, field))
    rows = np.random.default_rng(0).permutation(601)[:101]
    part = answer(energy.rows(rows))
    np.testing.assert_array_equal(part.log_odds, one.log_odds[rows])
    np.testing.assert_array_equal(part.log_partition, one.log_partition[rows])
