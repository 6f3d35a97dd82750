"""Estimated errors of marginals on graphs with loops, against enumeration."""

import warnings

import numpy as np
import pytest

from skcrbm.energies import FactorGraphEnergy, IsingEnergy, RBMEnergy, TableFactors
from skcrbm.exceptions import InaccurateInferenceWarning
from skcrbm.inference import SumProduct, infer
from skcrbm.inference.exact import elimination
from skcrbm.inference.exact.levels import Limits

SIDE = np.arange(9).reshape(3, 3)
LATTICE = np.concatenate(
    [
        np.column_stack([SIDE[:, :-1].ravel(), SIDE[:, 1:].ravel()]),
        np.column_stack([SIDE[:-1].ravel(), SIDE[1:].ravel()]),
    ]
)


def lattice(rng, scale):
    weights = rng.normal(0, scale, len(LATTICE))
    return IsingEnergy.from_edges(LATTICE, weights, rng.normal(0, 0.3, (1, 9)))


def classes(rng, scale):
    tables = TableFactors(LATTICE, rng.normal(0, scale, (len(LATTICE), 3, 3)))
    return FactorGraphEnergy([tables], rng.normal(0, 0.3, (1, 9, 3)))


def triples(rng, scale):
    scopes = [rng.choice(9, 3, replace=False) for _ in range(9)]
    tables = TableFactors(scopes, rng.normal(0, scale, (9, 2, 2, 2)))
    return FactorGraphEnergy([tables], rng.normal(0, 0.3, (1, 9)))


@pytest.fixture
def wide(monkeypatch):
    """Treat narrow graphs as wide graphs, whose errors are estimated."""
    monkeypatch.setattr(elimination, "_NARROW", Limits(0, 0))


@pytest.mark.parametrize("make", [lattice, classes, triples])
def test_estimates_are_near_the_errors(make, wide):
    rng = np.random.default_rng(0)
    errors, estimates = [], []
    for scale in np.linspace(0.1, 1.6, 24):
        energy = make(rng, scale)
        method = SumProduct(damping=0.5, max_iter=500)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InaccurateInferenceWarning)
            found = infer(energy, method)
        if found.converged[0]:
            errors.append(np.abs(found.marginals - infer(energy, "exact").marginals).max())
            estimates.append(found.estimated_error[0])
    errors, estimates = np.array(errors), np.array(estimates)
    assert len(errors) >= 15
    assert (estimates[errors > 0.1] > 0.035).all()
    assert (estimates[errors < 0.02] < 0.035).all()
    assert 0.7 < np.median(estimates / errors) < 1.4


@pytest.mark.parametrize("make", [lattice, classes, triples])
def test_errors_of_narrow_graphs_are_exact(make):
    energy = make(np.random.default_rng(2), 1.2)
    clamp = np.full(9, np.nan)
    clamp[3] = 1
    for given in (energy, energy.condition(clamp)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InaccurateInferenceWarning)
            found = infer(given, "sum_product", damping=0.5, max_iter=500)
        assert found.converged[0]
        error = np.abs(found.marginals - infer(given, "exact").marginals).max()
        np.testing.assert_allclose(found.estimated_error, error, atol=1e-12)
        assert error > 1e-4


def test_two_fixed_points(wide):
    """A ferromagnet without fields has marginals of .5; messages settle at another fixed point."""
    energy = IsingEnergy.from_edges(LATTICE, 1.0, np.zeros((1, 9)))
    start = infer(energy.with_fields(np.full((1, 9), 0.5)), "sum_product")
    with pytest.warns(InaccurateInferenceWarning, match="1 of 1 models"):
        found = infer(energy, "sum_product", init=start, max_iter=500)
    assert found.marginals.min() > 0.9
    np.testing.assert_allclose(found.estimated_error, 0.5, atol=0.05)


def test_graphs_without_loops():
    energy = IsingEnergy.from_edges([[0, 1], [1, 2], [1, 3]], 2.0, [[0.1, 0.2, 0.0, -0.3]])
    np.testing.assert_array_equal(infer(energy, "sum_product").estimated_error, 0.0)
    np.testing.assert_array_equal(infer(energy, "tree_reweighted").estimated_error, 0.0)


def test_evidence_breaks_loops(wide):
    energy = lattice(np.random.default_rng(1), 1.0)
    clamp = np.full(9, np.nan)
    clamp[4] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InaccurateInferenceWarning)
        given = infer(energy, "sum_product", clamp=clamp, damping=0.5, max_iter=500)
    exact = infer(energy, "exact", clamp=clamp).marginals
    error = np.abs(given.marginals - exact).max()
    np.testing.assert_allclose(given.estimated_error, error, rtol=0.5, atol=0.01)


def test_when_errors_are_estimated():
    rng = np.random.default_rng(0)
    one = lattice(rng, 0.2)
    two = one.with_fields(rng.normal(size=(2, 9)))
    assert infer(two, "sum_product").estimated_error is None
    assert infer(two, "sum_product", estimate_error=True).estimated_error.shape == (2,)
    assert infer(one, "sum_product", estimate_error=False).estimated_error is None
    assert infer(one, "sum_product", returns="log_partition").estimated_error is None
    assert infer(one, "exact").estimated_error is None
    unsettled = infer(one, "sum_product", max_iter=1)
    assert np.isnan(unsettled.estimated_error).all()


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("sum_product", {"estimate_error": "yes"}, "must be True, False or 'auto', got 'yes'"),
        ("mean_field", {"estimate_error": True}, "needs the marginals of 'exact', 'sum_product'"),
        ("sum_product", {"estimate_error": True, "returns": "log_partition"}, "asks 'sum_product'"),
    ],
)
def test_bad_arguments(method, options, message):
    with pytest.raises(ValueError, match=message):
        infer(lattice(np.random.default_rng(0), 0.2), method, **options)


def test_energies_without_estimates():
    with pytest.raises(ValueError, match="needs a FactorGraphEnergy or IsingEnergy, got RBMEn"):
        infer(RBMEnergy(np.eye(2), [[0, 0]], [[0, 0]]), "sum_product", estimate_error=True)
