"""Tree-reweighted message passing: naive reference, bound, special cases."""

import numpy as np
import pytest
from reference.dtypes import DTYPES
from reference.naive_bp import naive_tree_reweighted
from reference.random_models import random_rbm

from skcrbm.energies import (
    FactorGraphEnergy,
    IsingEnergy,
    SparseIsingEnergy,
    TableFactors,
)
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


@pytest.mark.parametrize("dtype", DTYPES)
def test_image_sized_couplings_stay_finite(dtype):
    """W / rho reaches thousands: e^(W / rho) would overflow."""
    energy = random_rbm(3, 60, 40, n_models=2, scale=2.0, bias_scale=100.0, dtype=dtype)
    result = infer(energy, TreeReweighted(max_iter=20), returns=ALL)
    assert np.isfinite(result.marginals).all()
    assert np.isfinite(result.log_partition).all()
    assert (result.pairwise >= 0).all()


def _random_ising(rng, n, scale):
    coupling = np.triu(rng.normal(0, scale, (n, n)), 1) * (rng.random((n, n)) < 0.8)
    return IsingEnergy(coupling + coupling.T, rng.normal(0, 1, (2, n)))


def _random_sparse(rng, n, scale):
    edges = [(i, k) for i in range(n) for k in range(i) if rng.random() < 0.7] or [(0, 1)]
    weights = rng.normal(0, scale, len(edges))
    return SparseIsingEnergy.from_edges(edges, weights, rng.normal(0, 1, (2, n)))


def _random_rbm(rng, n, scale):
    return random_rbm(int(rng.integers(1000)), n, 3, n_models=2, scale=scale)


def _random_tables(rng, n, scale):
    """Tables of up to three variables, some of whose entries are impossible."""
    tables = []
    for _ in range(n):
        table = rng.normal(0, scale, (1, 2, 2, 2))
        table[0, 1, 0, 1] = -np.inf
        tables.append(TableFactors([rng.permutation(n)[:3]], table))
    return FactorGraphEnergy(tables, rng.normal(0, 1, (2, n)))


def _random_levels(rng, n, scale):
    """Tables and Potts tables of variables with three states."""
    groups = []
    for i in range(1, n):
        for k in range(i):
            table = np.eye(3)[None] * rng.normal(0, scale)
            if rng.random() < 0.5:
                table = rng.normal(0, scale, (1, 3, 3))
            groups.append(TableFactors([[i, k]], table))
    return FactorGraphEnergy(groups, rng.normal(0, 1, (2, n, 3)))


MODELS = _random_ising, _random_sparse, _random_rbm, _random_tables, _random_levels


@pytest.mark.parametrize("damping", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("draw", MODELS)
def test_log_partition_is_a_bound_after_any_number_of_iterations(draw, damping):
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 10.0, 100.0):
        for n_iter in (1, 2, 5, 100):
            energy = draw(rng, int(rng.integers(3, 6)), scale)
            exact = infer(energy, "exact", returns="log_partition").log_partition
            method = TreeReweighted(max_iter=n_iter, damping=damping)
            found = infer(energy, method, returns="log_partition").log_partition
            assert (found >= exact - 1e-10 * (1 + np.abs(exact))).all()


def test_beliefs_that_stop_far_from_the_fixed_point():
    """Couplings of 88 stop moving probabilities while log-odds still move."""
    coupling = [[0, 88, -49], [88, 0, -3], [-49, -3, 0]]
    energy = IsingEnergy(coupling, [[-0.4, -0.8, -1.2]])
    exact = infer(energy, "exact", returns="log_partition").log_partition[0]
    for n_iter in (1, 3, 10, 100):
        method = TreeReweighted(max_iter=n_iter)
        assert infer(energy, method, returns="log_partition").log_partition[0] >= exact


def test_hubs_that_do_not_converge():
    """Messages of a fan overshoot at the hub: the bound is at most the bound of single factors."""
    rng = np.random.default_rng(0)
    n = 300
    spokes = [(0, i) for i in range(1, n)]
    edges = spokes + [(i, i + 1) for i in range(1, n - 1)]
    weights = rng.normal(0, 2, len(edges))
    field = rng.normal(0, 0.5, n)
    energy = SparseIsingEnergy.from_edges(edges, weights, field)
    found = infer(energy, "tree_reweighted", returns="log_partition")
    exact = infer(energy, "exact", returns="log_partition").log_partition[0]
    assert not found.converged[0]
    single = np.abs(weights).sum() + np.logaddexp(field, -field).sum()
    assert exact <= found.log_partition[0] <= single + 1e-9
