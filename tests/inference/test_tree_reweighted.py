"""Tree-reweighted message passing: naive reference, bound, special cases."""

import numpy as np
import pytest
from reference.dtypes import DTYPES
from reference.naive_bp import naive_tree_reweighted
from reference.random_models import random_rbm

from skcrbm.energies import RBMEnergy
from skcrbm.inference import SumProduct, TreeReweighted, infer

ALL = ("marginals", "pairwise", "log_partition")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_iter", [1, 2, 5])
@pytest.mark.parametrize("damping", [0.0, 0.4])
def test_equals_naive(n_iter, damping, dtype):
    energy = random_rbm(0, 4, 3, n_models=3, scale=1.0, dtype=dtype)
    method = TreeReweighted(max_iter=n_iter, tol=0, damping=damping)
    result = infer(energy, method, returns=ALL, pairwise="per_example", return_trace=True)
    atol = {np.float32: 5e-5, np.float64: 1e-12}[dtype]
    for n, (b, c) in enumerate(zip(*energy.fields, strict=True)):
        expected = naive_tree_reweighted(energy.weights, b, c, 6 / 12, n_iter, damping)
        np.testing.assert_allclose(result.log_odds[n], expected.log_odds, atol=atol)
        np.testing.assert_allclose(result.pairwise[n], expected.pairwise, atol=atol)
        np.testing.assert_allclose(result.log_partition[n], expected.log_partition, atol=10 * atol)
        np.testing.assert_allclose(result.trace[n], expected.trace, atol=atol)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_fixed_point(dtype):
    """The problem is concave: strong couplings converge, from anywhere, to the same beliefs."""
    for seed in range(10):
        energy = random_rbm(seed, 10, 8, n_models=2, scale=2.0, dtype=dtype)
        method = TreeReweighted(tol=1e-5, max_iter=3000, damping=0.3)
        cold = infer(energy, method)
        start = infer(energy.with_fields(*(5 - f for f in energy.fields)), method)
        warm = infer(energy, method, init=start)
        assert cold.converged.all()
        assert warm.converged.all()
        np.testing.assert_allclose(cold.marginals, warm.marginals, atol=5e-3)


@pytest.mark.parametrize("shape", [(1, 4), (4, 1)])
def test_a_star_is_sum_product(shape):
    """All edges of a star are in its only spanning tree: rho = 1."""
    energy = random_rbm(2, *shape, n_models=3, scale=2.0)
    tree = infer(energy, TreeReweighted(tol=1e-12), returns=ALL)
    loopy = infer(energy, SumProduct(tol=1e-12), returns=ALL)
    exact = infer(energy, "exact", returns=ALL)
    for other in (loopy, exact):
        np.testing.assert_allclose(tree.marginals, other.marginals, atol=1e-10)
        np.testing.assert_allclose(tree.pairwise, other.pairwise, atol=1e-10)
        np.testing.assert_allclose(tree.log_partition, other.log_partition, atol=1e-10)


def test_uncoupled_units():
    energy = RBMEnergy(np.zeros((4, 3)), [1.0, -2.0, 0.0, 0.5], [0.3, -0.3, 2.0])
    result = infer(energy, "tree_reweighted", returns=ALL)
    exact = infer(energy, "exact", returns=ALL)
    np.testing.assert_allclose(result.marginals, exact.marginals, atol=1e-12)
    np.testing.assert_allclose(result.log_partition, exact.log_partition, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_image_sized_couplings_stay_finite(dtype):
    """W / rho reaches thousands: e^(W / rho) would overflow."""
    energy = random_rbm(3, 60, 40, n_models=2, scale=2.0, bias_scale=100.0, dtype=dtype)
    result = infer(energy, TreeReweighted(max_iter=20), returns=ALL)
    assert np.isfinite(result.marginals).all()
    assert np.isfinite(result.log_partition).all()
    assert (result.pairwise >= 0).all()
