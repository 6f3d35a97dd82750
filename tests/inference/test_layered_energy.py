"""Mean field and message passing on `LayeredEnergy`: trees, held nodes, convergence."""

import numpy as np
import pytest
from reference import conformance
from reference.dtypes import DTYPES, float32_test

from skcrbm.energies import LayeredEnergy, LayeredStructure
from skcrbm.inference import SumProduct, infer
from skcrbm.layers import Conv2d, Dense

METHODS = ["mean_field", "sum_product", "tree_reweighted"]
# One output node above, one node in each second layer: no loops.
TREES = {
    "star": ([Dense(3, 3)], (2,), 1, 3),
    "chain": ([Dense(1, 3), Dense(1), Dense(1, 4)], (2,), 1, 2),
    "two stars": ([Dense(3), Dense(1, 3)], (2,), 1, 2),
    "tied": ([Conv2d(2, 1, 1), Conv2d(3, (1, 3), 1)], (1, 3), 1, 2),
}


def make_energy(net, n=4, scale=1.0, seed=0, dtype=np.float64):
    structure = LayeredStructure(net[0], net[1], 2, *net[2:])
    rng = np.random.default_rng(seed)
    weights = [rng.normal(0, scale, c.n_weights).astype(dtype) for c in structure.connections[1:]]
    width = max(part.stop for part in structure.unit_slices[1:])
    return LayeredEnergy(structure, weights, rng.normal(0, scale, (n, width)).astype(dtype))


def some_evidence(energy, seed):
    """Part of the states of random samples, so that nodes are held in part and as a whole."""
    states = infer(energy, "gibbs", returns="samples", random_state=seed).samples[:, 0]
    rng = np.random.default_rng(seed)
    return np.where(rng.random(states.shape) < 0.4, states, np.nan)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1.0, 8.0])
@pytest.mark.parametrize("method", ["sum_product", "tree_reweighted"])
@pytest.mark.parametrize("net", TREES)
def test_messages_are_exact_on_trees_whatever_is_held(net, method, scale, dtype):
    energy = make_energy(TREES[net], scale=scale, dtype=dtype)
    if net == "two stars" and method == "tree_reweighted":
        assert energy.structure.connections[1].edge_appearance.min() == 1
    for seed in range(5):
        given = energy if seed == 0 else energy.condition(some_evidence(energy, seed))
        asked = {"returns": ("marginals", "statistics"), "pairwise": "per_example"}
        exact, found = infer(given, "exact", **asked), infer(given, method, **asked)
        assert found.converged.all()
        tolerance = conformance.tolerances(dtype) if dtype == np.float32 else {"atol": 1e-6}
        np.testing.assert_allclose(found.marginals, exact.marginals, **tolerance)
        for mine, expected in zip(found.statistics, exact.statistics, strict=True):
            np.testing.assert_allclose(mine, expected, **tolerance)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("method", METHODS)
def test_rows_stop_on_their_own(method):
    """An answer does not depend on the rest of the batch, nor do statistics on the chunks."""
    energy = make_energy(([Dense(4, 3), Dense(3)], (2,), 2, 2), n=100, scale=1.2)
    energy = energy.condition(some_evidence(energy, 3))
    asked = {"returns": ("marginals", "statistics"), "return_trace": True}
    weight = np.random.default_rng(0).random(100)
    together = infer(energy, method, sample_weight=weight, **asked)
    each = infer(energy, method, pairwise="per_example", **asked)
    assert len(set(together.n_iter)) > 1
    np.testing.assert_array_equal(each.n_iter, together.n_iter)
    np.testing.assert_allclose(each.marginals, together.marginals, atol=1e-12)
    for summed, parts in zip(together.statistics, each.statistics, strict=True):
        np.testing.assert_allclose(summed, np.tensordot(weight, parts, 1), rtol=1e-9, atol=1e-12)
    for n, t in enumerate(together.n_iter):
        assert together.trace[n, t - 1] < 1e-6
        assert not np.isnan(together.trace[n, :t]).any()
        assert np.isnan(together.trace[n, t:]).all()


@pytest.mark.parametrize("method", METHODS)
def test_shared_unary_scores_change_where_it_starts_and_not_the_answer(method):
    energy = make_energy(([Dense(4, 3), Dense(3)], (2,), 2, 2), scale=0.5)
    other = LayeredEnergy(energy.structure, energy.weights, energy.field, energy.field.mean(0))
    for evidence in (None, some_evidence(energy, 1)):
        one, two = (infer(e, method, clamp=evidence, tol=1e-12) for e in (energy, other))
        np.testing.assert_allclose(one.marginals, two.marginals, atol=1e-9)
        early = [infer(e, method, clamp=evidence, max_iter=1) for e in (energy, other)]
        assert abs(early[0].marginals - early[1].marginals).max() > 1e-3
        assert not early[0].converged.any()


def test_what_the_solvers_lack_is_refused():
    energy = make_energy(TREES["star"])
    with pytest.raises(ValueError, match="'sum_product' cannot answer 'log_partition'; methods"):
        infer(energy, "sum_product", returns="log_partition")
    with pytest.raises(ValueError, match="'sum_product' does not support damping on LayeredEnergy"):
        infer(energy, SumProduct(damping=0.5))
    before = infer(energy, "mean_field")
    with pytest.raises(ValueError, match="'mean_field' does not support init on LayeredEnergy"):
        infer(energy, "mean_field", init=before)
    with pytest.raises(
        ValueError, match="'tree_reweighted' does not support return_state on LayeredEnergy"
    ):
        infer(energy, "tree_reweighted", return_state=True)
    held = np.full(energy.n_variables, np.nan)
    held[:2] = 1
    with pytest.raises(ValueError, match="two units of a node to 1"):
        energy.condition(held)
    many = make_energy(([Dense(20), Dense(2)], (2,), 1, 2))
    with pytest.raises(ValueError, match="must enumerate the states of its"):
        many.log_weight(np.zeros((4, 1)))
    with pytest.raises(ValueError, match="must enumerate the states of its"):
        many.hidden_given_visible(np.zeros((4, 1)))


@float32_test
@pytest.mark.parametrize("name", ["sum_product", "tree_reweighted"])
@pytest.mark.parametrize("scale", [30.0, 60.0])
def test_strong_couplings_in_float32(name, scale):
    """Products of exponentials leave the range of float32: they are then taken in float64."""
    structure = LayeredStructure([Dense(2)], (2,), 2, 1, 2)  # one output: a tree
    rng = np.random.default_rng(0)
    sizes = [c.n_weights for c in structure.connections[1:]]
    for _ in range(20):
        weights = [rng.uniform(-scale, scale, size).astype(np.float32) for size in sizes]
        field = rng.normal(0, scale / 2, (2, 3)).astype(np.float32)
        energy = LayeredEnergy(structure, weights, field)
        found = infer(energy, name, returns=("marginals", "statistics"))
        exact = infer(energy, "exact", returns=("marginals", "statistics"))
        assert found.marginals.dtype == np.float32
        if name == "sum_product":
            np.testing.assert_allclose(
                found.marginals[found.converged], exact.marginals[found.converged], atol=1e-4
            )
        assert not np.isnan(found.statistics[0]).any()


def test_couplings_beyond_float64_are_refused():
    structure = LayeredStructure([Dense(2)], (2,), 2, 1, 2)
    sizes = [c.n_weights for c in structure.connections[1:]]
    energy = LayeredEnergy(structure, [np.full(size, 500.0) for size in sizes], np.zeros((1, 3)))
    with pytest.raises(
        ValueError, match=r"'sum_product' supports couplings .* up to 200 .*; got 500.*'gibbs'"
    ):
        infer(energy, "sum_product")


@pytest.mark.parametrize("method", [*METHODS, "exact", "gibbs"])
def test_no_hidden_layer_has_no_statistics(method):
    energy = make_energy(([], (2,), 2, 3))
    found = infer(energy, method, returns=("marginals", "statistics"), pairwise="per_example")
    assert found.statistics == ()
    expected = infer(energy, "exact").marginals
    if method != "gibbs":
        np.testing.assert_allclose(found.marginals, expected, atol=1e-6)
