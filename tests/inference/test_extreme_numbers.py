"""Numbers at the ends of the range: no warning of NumPy, and enumeration in float64."""

import warnings

import numpy as np
import pytest

from skcrbm.energies import IsingEnergy, OneHotRBMEnergy, RBMEnergy
from skcrbm.energies.grouped_rbm import GroupedRBMEnergy
from skcrbm.inference import infer
from skcrbm.utils.categorical import OutputUnits


@pytest.mark.parametrize("size", [1e-200, 1e-308, 5e-324])
@pytest.mark.parametrize("method", ["sum_product", "tree_reweighted", "mean_field", "mplp"])
def test_tiny_couplings_give_no_warning(method, size):
    coupling = size * (np.ones((3, 3)) - np.eye(3))
    field = np.array([0.1, 0.2, -0.3])
    for energy in (IsingEnergy(coupling, field), IsingEnergy(coupling, field).as_sparse()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = infer(energy, method)
        if found.marginals is not None:
            np.testing.assert_allclose(found.marginals, [1 / (1 + np.exp(-2 * field))])


@pytest.mark.parametrize("bias", [1e5, 1e7, -1e5])
@pytest.mark.parametrize(
    "make", [OneHotRBMEnergy, RBMEnergy, lambda *p: GroupedRBMEnergy(*p, OutputUnits((3,)))]
)
def test_enumeration_of_float32_models_is_in_float64(make, bias):
    """A large hidden bias does not hide the differences between the classes."""
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(3, 2)), rng.normal(size=3), np.array([bias, -0.5])
    single = make(*(part.astype(np.float32) for part in parts))
    double = make(*(part.astype(np.float32).astype(np.float64) for part in parts))
    one, two = (infer(energy, "exact").log_odds[:, :3] for energy in (single, double))
    np.testing.assert_allclose(one, two, rtol=1e-6)
    sets = np.eye(3)
    np.testing.assert_allclose(
        np.diff(single.log_weight_of_sets(sets)),
        np.diff(double.log_weight_of_sets(sets)),
        rtol=1e-6,
    )
