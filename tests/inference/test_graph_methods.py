"""Tree-reweighted and running messages, mean field, and contradictions on factor graphs."""

import numpy as np
import pytest
from reference.dtypes import DTYPES
from reference.naive_factor_graph import merged_tables, naive_graph, naive_graph_mean_field
from reference.naive_ising import naive_edge_appearance
from reference.random_models import random_clamp, random_graph, random_tree_of_tables

from skcrbm.energies import FactorGraphEnergy, IsingEnergy, SparseIsingEnergy, TableFactors
from skcrbm.energies.two_states import two_states
from skcrbm.inference import (
    MeanField,
    SumProduct,
    TreeReweighted,
    infer,
)
from skcrbm.inference.factor_graph import messages
from skcrbm.inference.factor_graph._state_graph import StateGraph
from skcrbm.inference.factor_graph.appearance import factor_appearance

ALL = ("marginals", "pairwise", "log_partition")
EACH = {"returns": ALL, "pairwise": "per_example"}


def random_sparse_ising(seed, n=8, n_models=3, scale=0.5, share=0.4, dtype=np.float64):
    rng = np.random.default_rng(seed)
    edges = [(i, k) for i in range(n) for k in range(i) if rng.random() < share]
    weights = rng.normal(0, scale, len(edges)).astype(dtype)
    return SparseIsingEnergy.from_edges(
        edges, weights, rng.normal(0, 0.7, (n_models, n)).astype(dtype)
    )


# ------------------------------------------------------------------------ tree-reweighted


@pytest.mark.parametrize("damping", [0.0, 0.4])
def test_tree_reweighted_equals_naive(damping):
    """The messages have the fixed point of naive messages, which are all sent at once."""
    energy = random_graph(2, 8, 7, 2, scale=0.8, arity=4)
    factors = StateGraph(two_states(energy)).factors  # without tables of one variable
    rho = np.ones(len(merged_tables(energy)[0]))
    rho[[len(scope) > 1 for scope, _ in merged_tables(energy)[0]]] = factor_appearance(factors, 8)
    assert ((rho > 0) & (rho <= 1)).all()
    settled = TreeReweighted(max_iter=3000, tol=1e-12, damping=damping)
    found = infer(energy, settled, **EACH)
    assert found.converged.all()
    for n in range(2):
        expected = naive_graph(energy, n, 150, 0.5, rho)
        np.testing.assert_allclose(found.marginals[n], expected.on, atol=1e-9)
        np.testing.assert_allclose(found.log_partition[n], expected.log_partition, rtol=1e-7)
        entries = np.concatenate([part.ravel() for part in expected.entries])
        np.testing.assert_allclose(found.pairwise[n], entries, atol=1e-8)


def test_tree_weights():
    """Weights of pairs come from uniform spanning trees; on trees of tables they are 1."""
    coupling = np.triu(np.random.default_rng(0).random((7, 7)) < 0.5, 1).astype(float)
    coupling[np.arange(6), np.arange(1, 7)] = 1  # connected
    coupling += coupling.T
    edges = np.argwhere(np.triu(coupling))
    graph = FactorGraphEnergy([TableFactors(edges, np.zeros(4))], n_variables=7)
    found = factor_appearance(StateGraph(graph).factors, 7)
    expected = naive_edge_appearance(coupling)[edges[:, 0], edges[:, 1]]
    np.testing.assert_allclose(found, expected)
    twice = FactorGraphEnergy([TableFactors([[0, 1], [1, 0]], np.zeros(4))])
    np.testing.assert_array_equal(
        factor_appearance(StateGraph(twice).factors, 2), [1.0]
    )  # one table
    tree = random_tree_of_tables(0, 6)
    np.testing.assert_array_equal(factor_appearance(StateGraph(tree).factors, tree.n_variables), 1)
    exact = infer(tree, "exact", returns="log_partition").log_partition
    found = infer(tree, TreeReweighted(tol=1e-11), returns="log_partition").log_partition
    np.testing.assert_allclose(found, exact, rtol=1e-9)


@pytest.mark.parametrize("method", ["tree_reweighted", "sum_product"])
def test_damped_models_with_different_clamps_converge_as_alone(method):
    """A lane in which a variable is held receives no message, so its old message is settled."""
    coupling = np.array([[0, 0.5, 0], [0.5, 0, -0.3], [0, -0.3, 0]])
    field = np.random.default_rng(0).normal(size=(4, 3))
    clamp = np.full((4, 3), np.nan)
    clamp[0, 0], clamp[1, 2] = 1, 0

    def solved(rows):
        graph = FactorGraphEnergy.from_energy(IsingEnergy(coupling, field[rows])).with_states()
        return infer(graph, method, damping=0.5, max_iter=200, clamp=clamp[rows])

    found = solved(slice(None))
    assert found.converged.all()
    for n in range(4):
        alone = solved(slice(n, n + 1))
        assert found.n_iter[n] == alone.n_iter[0]
        np.testing.assert_allclose(found.marginals[n], alone.marginals[0], atol=1e-12)


@pytest.mark.parametrize("damping", [0.0, 0.4])
@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("scale", [0.02, 0.5, 2.0, 3.0])
def test_tree_weights_of_many_neighbours(scale, sign, damping, monkeypatch):
    """Long products of messages are scaled or split, so that they need no logarithms.

    If all couplings have one sign, the products contain messages with a log-ratio of thousands.
    """
    rng = np.random.default_rng(1)
    pairs = np.triu(rng.normal(scale=scale, size=(40, 40)), 1)
    pairs = np.minimum(np.abs(pairs) if sign else pairs, 6.0)
    energy = IsingEnergy(pairs + pairs.T, rng.normal(20 * sign, 0.3, size=(5, 40)))
    method = TreeReweighted(tol=0, max_iter=6, damping=damping)
    options = {"returns": ("marginals", "log_partition", "statistics"), "return_trace": True}
    passed, pass_logs = [], messages._Run._pass_logs
    monkeypatch.setattr(
        messages._Run, "_pass_logs", lambda *args: passed.append(args) or pass_logs(*args)
    )
    found = infer(energy, method, **options)
    assert not passed
    monkeypatch.setattr(messages, "MOST_REACH", -1.0)
    logs = infer(energy, method, **options)
    assert passed
    np.testing.assert_allclose(found.log_odds, logs.log_odds, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.log_partition, logs.log_partition, rtol=1e-12)
    np.testing.assert_allclose(found.pairwise, logs.pairwise, atol=1e-10)
    np.testing.assert_allclose(found.trace, logs.trace, atol=1e-10)


# ----------------------------------------------------------------------------- mean field


def test_mean_field_equals_naive():
    energy = random_graph(1, 7, 7, 2, scale=0.8, arity=4)
    for n_iter in (1, 3):
        result = infer(energy, MeanField(max_iter=n_iter, tol=0), returns=ALL)
        for n in range(2):
            on, bound = naive_graph_mean_field(energy, n, n_iter)
            np.testing.assert_allclose(result.marginals[n], on, atol=1e-12)
            np.testing.assert_allclose(result.log_partition[n], bound, rtol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_mean_field_is_a_lower_bound_that_rises(seed):
    energy = random_graph(seed, 9, 8, 3, scale=1.0, arity=4, zeros=2, logic=True)
    exact = infer(energy, "exact", returns="log_partition").log_partition
    before = -np.inf
    for n_iter in (1, 2, 5, 100):
        method = MeanField(max_iter=n_iter, tol=0)
        bound = infer(energy, method, returns="log_partition").log_partition
        assert (bound <= exact + 1e-8).all()
        assert (bound >= before - 1e-8 * np.abs(before)).all()
        before = bound


def test_mean_field_reports_contradictions():
    same = TableFactors([[0, 1]], [0, -np.inf, -np.inf, 0])
    energy = FactorGraphEnergy([same], np.ones((2, 2)))
    with pytest.warns(UserWarning, match="clamp contradicts the factors of 1 of 2 models"):
        result = infer(energy, "mean_field", clamp=[[1, 0], [1, 1]], **EACH)
    np.testing.assert_array_equal(result.converged, [False, True])
    np.testing.assert_allclose(result.log_partition, [-np.inf, 2])


# -------------------------------------------------------------------------- best states


# --------------------------------------------------------------------------- sparse Ising


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("damping", [0.0, 0.5, 0.3])
@pytest.mark.parametrize("clamped", [False, True])
def test_sparse_ising_equals_its_tables(dtype, damping, clamped):
    """Small models visit their labels in turn, tables their factors: they converge to one point."""
    energy = random_sparse_ising(0, dtype=dtype)
    graph = FactorGraphEnergy.from_energy(energy)
    clamp = random_clamp(np.random.default_rng(0), 3, 8) if clamped else None
    atol = {np.float32: 3e-5, np.float64: 1e-9}[dtype]
    method = SumProduct(
        max_iter=500, tol={np.float32: 1e-6, np.float64: 1e-12}[dtype], damping=damping
    )
    one = infer(energy, method, clamp=clamp, return_state=True, **EACH)
    other = infer(graph, method, clamp=clamp, **EACH)
    assert one.converged.all()
    assert other.converged.all()
    for field in ("marginals", "log_odds", "log_partition"):
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), atol=atol)
    np.testing.assert_allclose(one.pairwise, other.pairwise[:, 3::4], atol=atol)
    again = infer(energy, method, clamp=clamp, init=one, **EACH)
    assert (again.n_iter <= 2).all()
    np.testing.assert_allclose(again.pairwise, one.pairwise, atol=atol)
    states = [
        infer(e, "max_product", clamp=clamp, max_iter=9, damping=damping).assignment
        for e in (energy, graph)
    ]
    np.testing.assert_array_equal(*states)


@pytest.mark.parametrize("method", [TreeReweighted(damping=0.5), MeanField()])
def test_sparse_ising_equals_the_dense_one(method):
    energy = random_sparse_ising(1)
    dense = IsingEnergy(energy.coupling.toarray(), energy.field)
    i, k = energy.edges.T
    options = {"tol": 1e-11, "max_iter": 5000, **EACH}
    one, other = infer(energy, method, **options), infer(dense, method, **options)
    np.testing.assert_allclose(one.marginals, other.marginals, atol=1e-8)
    np.testing.assert_allclose(one.log_partition, other.log_partition, atol=1e-8)
    np.testing.assert_allclose(one.pairwise, other.pairwise[:, i, k], atol=1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_strong_sparse_ising(dtype):
    """Rows within and beyond the range of odds: bits do not depend on the batch, all are finite."""
    energy = random_sparse_ising(2, n_models=70, scale=2.0, dtype=dtype)
    field = energy.field.copy()
    field[::3] *= 500
    energy = energy.with_fields(field)
    whole = infer(energy, "sum_product", **EACH)
    for rows in ([3], [5, 60, 0]):
        part = infer(energy.rows(rows), "sum_product", **EACH)
        for field in ALL:
            assert np.isfinite(getattr(whole, field)).all()
            np.testing.assert_array_equal(getattr(part, field), getattr(whole, field)[rows])
    weight = np.random.default_rng(0).random(70)
    total = infer(energy, "sum_product", returns="pairwise", sample_weight=weight, n_jobs=2)
    rtol = {np.float32: 1e-5, np.float64: 1e-12}[dtype]
    np.testing.assert_allclose(total.pairwise, weight @ whole.pairwise, rtol=rtol)


# -------------------------------------------------------------------------------- chains


@pytest.mark.parametrize("method", ["gibbs", "gibbs_with_gradients"])
def test_chains_report_contradictions(method):
    same = TableFactors([[0, 1]], [0, -np.inf, -np.inf, 0])
    energy = FactorGraphEnergy([same], np.ones((2, 2)))
    result = infer(energy, method, clamp=[[1, 0], [1, 1]], random_state=0)
    np.testing.assert_array_equal(result.converged, [False, True])
    assert np.isfinite(result.marginals).all()
