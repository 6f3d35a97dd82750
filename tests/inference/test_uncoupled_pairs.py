"""Statistics of pairs without a coupling: exact on forests, named as products elsewhere."""

import numpy as np
import pytest
from scipy import sparse

from skcrbm.energies import FactorGraphEnergy, IsingEnergy, RBMEnergy, SparseIsingEnergy
from skcrbm.energies.grouped_rbm import GroupedRBMEnergy
from skcrbm.inference import infer
from skcrbm.utils.categorical import OutputUnits

MESSAGES = ["sum_product", "tree_reweighted"]


def random_forest(rng, n, n_parts=2):
    """Edges of a random forest of n variables in any order."""
    order = rng.permutation(n)
    edges = [(order[k], order[rng.integers(k)]) for k in range(1, n)]
    return [edges[i] for i in rng.permutation(n - 1)[: n - n_parts]]


def make(kind, seed, scale=1.5, n_models=4):
    rng = np.random.default_rng(seed)
    if kind == "RBM":
        weights = np.zeros((4, 3))
        edges = [(i, k) for i, k in random_forest(rng, 7, 1) if (i < 4) != (k < 4)]
        for i, k in edges:
            weights[min(i, k), max(i, k) - 4] = rng.normal(0, scale)
        return RBMEnergy(weights, rng.normal(size=(n_models, 4)), rng.normal(size=(n_models, 3)))
    coupling = np.zeros((7, 7))
    for i, k in random_forest(rng, 7):
        coupling[i, k] = coupling[k, i] = rng.normal(0, scale)
    field = rng.normal(size=(n_models, 7))
    if kind == "Ising":
        return IsingEnergy(coupling, field)
    # Every pair is stored, most of them as zeros.
    i, k = np.nonzero(1 - np.eye(7))
    return SparseIsingEnergy(sparse.coo_array((coupling[i, k], (i, k)), shape=(7, 7)), field)


@pytest.mark.parametrize("scale", [1.5, 30.0])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["Ising", "sparse Ising", "RBM"])
@pytest.mark.parametrize("method", MESSAGES)
def test_forests_are_exact(method, kind, seed, scale):
    """For each model and in weighted sums, with evidence and with a field that decides."""
    energy = make(kind, seed, scale)
    weight = np.array([0.5, 2.0, 0.0, 1.0])
    clamp = np.full((4, 7), np.nan)
    clamp[1, 2], clamp[2, [1, 5]] = 1, 0
    fields = [field.copy() for field in energy.fields]
    fields[0][3, 1] = 1e12
    for model, evidence in ((energy, None), (energy, clamp), (energy.with_fields(*fields), clamp)):
        for options in ({"pairwise": "per_example"}, {"sample_weight": weight}):
            found, exact = (
                infer(model, name, returns="pairwise", clamp=evidence, **options, **more)
                for name, more in ((method, {"tol": 1e-10, "max_iter": 500}), ("exact", {}))
            )
            if method == "tree_reweighted" and kind != "Ising":
                # Couplings of 0 are edges, which form loops.
                couplings = energy.weights if kind == "RBM" else energy.edge_coupling
                np.testing.assert_array_equal(found.product_pairs, couplings == 0)
                continue
            np.testing.assert_allclose(found.pairwise, exact.pairwise, atol=1e-6)
            assert found.product_pairs is None


def test_ends_of_a_chain():
    energy = IsingEnergy([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    both = infer(energy, "sum_product", returns="pairwise").pairwise[0, 2]
    assert both == pytest.approx((1 + np.tanh(1.0) ** 2) / 4)  # .395


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision(dtype):
    energy = make("Ising", 3)
    single = IsingEnergy(energy.coupling.astype(dtype), energy.field.astype(dtype))
    found = infer(single, "sum_product", returns="pairwise", tol=1e-9, max_iter=500)
    assert found.pairwise.dtype == dtype
    exact = infer(energy, "exact", returns="pairwise").pairwise
    np.testing.assert_allclose(found.pairwise, exact, atol=2e-6)


def ring(kind):
    """A loop of four variables and a fifth variable."""
    edges = [[0, 1], [1, 2], [2, 3], [0, 3], [3, 4]]
    energy = IsingEnergy.from_edges(edges, 0.7, [0.3, -0.2, 0.1, 0.5, 0.0])
    if kind == "sparse Ising":
        more = [*edges, [1, 4]]
        return IsingEnergy.from_edges(more, [0.7] * 5 + [0], energy.field)
    if kind == "Ising":
        return IsingEnergy(energy.coupling_matrix(), energy.field)
    return RBMEnergy([[1, 2, 0], [1, 1, 0], [0, 0, 1.0]], np.zeros(3), np.zeros(3))


@pytest.mark.parametrize("kind", ["Ising", "sparse Ising", "RBM"])
@pytest.mark.parametrize("method", MESSAGES)
def test_products_are_named(method, kind):
    """On loops, the entries that are products of marginals are exactly the named entries."""
    energy = ring(kind)
    found = infer(energy, method, returns=("marginals", "pairwise"))
    p = found.marginals[0]
    if kind == "sparse Ising":
        products = p[energy.edges].prod(axis=1)
    else:
        v = getattr(energy, "n_visible", 5) if kind == "RBM" else 5
        products = np.outer(p[:v], p[v:] if kind == "RBM" else p)
    is_product = np.abs(found.pairwise - products) < 1e-9
    if kind == "Ising":
        np.fill_diagonal(is_product, False)
    np.testing.assert_array_equal(found.product_pairs, is_product)
    assert infer(energy, "exact", returns="pairwise").product_pairs is None
    assert infer(energy, method).product_pairs is None


def test_groups_of_units():
    """A pair has a coupling if another class of the output has one."""
    weights = np.array([[0.0, 0], [1.0, 0], [0.5, 0], [0.0, 2]])
    energy = GroupedRBMEnergy(weights, np.zeros(4), np.zeros(2), OutputUnits((3, 2)))
    found = infer(energy, "sum_product", returns="pairwise")
    expected = [[False, True], [False, True], [False, True], [True, False]]
    np.testing.assert_array_equal(found.product_pairs, expected)
    exact = infer(energy, "exact", returns="pairwise").pairwise
    np.testing.assert_allclose(found.pairwise, exact, atol=1e-6)  # no path joins the two parts


@pytest.mark.parametrize("kind", ["Ising", "sparse Ising", "RBM", "factor graph"])
def test_mean_field_names_all_pairs(kind):
    energy = make("Ising" if kind == "factor graph" else kind, 0)
    if kind == "factor graph":
        energy = FactorGraphEnergy.from_energy(energy)
    found = infer(energy, "mean_field", returns="pairwise")
    expected = np.ones(found.pairwise.shape, bool)
    if kind == "Ising":
        np.fill_diagonal(expected, False)
    np.testing.assert_array_equal(found.product_pairs, expected)
