"""Message passing on factor graphs: naive reference, trees, OR and AND, contradictions."""

import time

import numpy as np
import pytest
from conftest import JIT_DISABLED
from reference.dtypes import DTYPES
from reference.naive_factor_graph import naive_graph
from reference.random_models import random_clamp, random_graph

from skcrbm.energies import (
    AndFactors,
    FactorGraphEnergy,
    OrFactors,
    SparseIsingEnergy,
    TableFactors,
)
from skcrbm.inference import MaxProduct, SumProduct, infer

ALL = ("marginals", "pairwise", "log_partition")
EACH = {"returns": ALL, "pairwise": "per_example"}

GRAPHS = {
    "tables": {},
    "zeros": {"zeros": 3},
    "logic": {"zeros": 1, "logic": True},
}


def entries(beliefs, n_entries):
    """Entry probabilities of the tables of a naive run; OR and AND come last and are left out."""
    return np.concatenate([part.ravel() for part in beliefs.entries])[:n_entries]


@pytest.mark.deep
@pytest.mark.parametrize("graph", ["tables", "zeros"])  # logic is joined with tables
@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_fixed_point(graph, damping):
    energy = random_graph(3, 8, 8, 3, scale=0.6, **GRAPHS[graph])
    clamp = np.full(8, np.nan)
    clamp[7] = 1
    for given in (None, clamp):
        method = SumProduct(max_iter=1000, tol=1e-11, damping=damping)
        result = infer(energy, method, clamp=given, **EACH)
        assert result.converged.all()
        for n in range(3):
            expected = naive_graph(energy, n, 150, 0.2, held=given)
            np.testing.assert_allclose(result.marginals[n], expected.on, atol=1e-7)
            found = entries(expected, energy.n_entries)
            np.testing.assert_allclose(result.pairwise[n], found, atol=1e-7)
            np.testing.assert_allclose(
                result.log_partition[n], expected.log_partition, rtol=1e-7, atol=1e-7
            )


def logic_with_tables(seed, scopes, inputs, kind):
    """A factor whose last variable is the OR or AND of `inputs`, and random tables."""
    rng = np.random.default_rng(seed)
    n = 1 + max(*inputs, *(v for scope in scopes for v in scope))
    tables = [rng.normal(size=(2,) * len(scope)) for scope in scopes]
    energy = FactorGraphEnergy.from_tables(scopes, tables, rng.normal(size=(2, n + 1)))
    return FactorGraphEnergy([*energy.factors, kind([inputs], [n])], energy.field)


@pytest.mark.parametrize("kind", [OrFactors, AndFactors])
@pytest.mark.parametrize(
    ("scopes", "inputs"),
    [
        ([(0, 1)], [0, 1]),  # the table is inside the factor
        ([(0, 1, 2)], [0, 1]),  # the table has another variable
        ([(0, 5), (7, 2)], range(9)),  # pairs of inputs that are not neighbours
        ([(0, 9), (3, 4)], range(9)),  # an input and the output
        ([(2, 6, 9)], range(9)),
        ([(1, 2, 4, 8), (4, 10)], [1, 2, 4, 8, 0, 3]),
    ],
)
def test_tables_that_share_variables_with_logic(kind, scopes, inputs):
    """Factors that share two or more variables are joined, so that there are no loops."""
    energy = logic_with_tables(0, scopes, list(inputs), kind)
    exact = infer(energy, "exact", returns=ALL, pairwise="per_example")
    found = infer(energy, "sum_product", **EACH)
    assert found.converged.all()
    for name in ALL:
        np.testing.assert_allclose(getattr(found, name), getattr(exact, name), atol=1e-10)
    best = infer(energy, "max_product")
    assert best.converged.all()
    top = infer(energy, "exact", returns="map_bound").map_bound
    np.testing.assert_allclose(energy.score(best.assignment), top)


@pytest.mark.parametrize("kind", [OrFactors, AndFactors])
def test_several_tables_with_the_output(kind):
    """No chain keeps two inputs together with the output in two tables, so all stay together."""
    rng = np.random.default_rng(0)
    tables = [TableFactors([[i, 4]], rng.normal(size=(1, 2, 2))) for i in (0, 2)]
    energy = FactorGraphEnergy([kind([[0, 1, 2, 3]], [4]), *tables], rng.normal(size=(2, 5)))
    exact = infer(energy, "exact").marginals
    np.testing.assert_allclose(infer(energy, "sum_product").marginals, exact, atol=1e-10)


@pytest.mark.parametrize("kind", [OrFactors, AndFactors])
def test_many_inputs(kind):
    """A factor of 3000 inputs is a tree; inference is exact and fast."""
    n = 3000
    rng = np.random.default_rng(0)
    p = np.full((2, n), 1e-3)
    p[1] = rng.random(n) * 1e-3
    if kind is AndFactors:
        p = 1 - p
    field = np.hstack([np.log(p) - np.log1p(-p), [[0.7], [-1.0]]])
    energy = FactorGraphEnergy([kind([np.arange(n)], [n])], field)
    infer(energy.rows([0]), "sum_product", max_iter=1)
    start = time.process_time()
    found = infer(energy, "sum_product", returns=("marginals", "log_partition"))
    best = infer(energy, "max_product")
    assert JIT_DISABLED or time.process_time() - start < 0.5
    assert found.converged.all()
    assert best.converged.all()
    for m in range(2):
        every = (p[m] if kind is AndFactors else 1 - p[m]).prod()  # all inputs on, or all off
        lift = np.exp(field[m, n])  # of the output on
        on = lift * every if kind is AndFactors else lift * (1 - every)
        off = 1 - every if kind is AndFactors else every
        np.testing.assert_allclose(found.marginals[m, n], on / (on + off), rtol=1e-10)
        total = np.log(on + off) - np.log1p(-p[m]).sum()
        np.testing.assert_allclose(found.log_partition[m], total, rtol=1e-10)
        output_off = kind is AndFactors
        pull = p[m] * (on + off if kind is not AndFactors else 1.0)
        if output_off:  # P(x_i = 1): all states with it on
            pull = lift * every + (p[m] - every)
        else:
            pull = p[m] * lift
        np.testing.assert_allclose(found.marginals[m, :n], pull / (on + off), rtol=1e-9)
    score = energy.score(best.assignment)
    np.testing.assert_array_equal(np.isfinite(score), True)


@pytest.mark.parametrize("method", ["sum_product", "max_product"])
def test_contradictions_are_reported(method):
    """Only the row with the contradiction has not converged, and there is no NaN."""
    same = TableFactors([[0, 1]], [0, -np.inf, -np.inf, 0])
    other = TableFactors([[0, 1]], [-np.inf, 0, 0, -np.inf])
    x = np.nan
    nothing, free = TableFactors([[0]], [-np.inf, -np.inf]), [[np.nan, np.nan]]
    energies = [
        (FactorGraphEnergy([same], np.ones((2, 2))), [[1, 0], [1, 1]]),
        (FactorGraphEnergy([OrFactors([[0, 1]], [2])], np.ones((2, 3))), [[1, x, 0], [1, 0, 1]]),
        (FactorGraphEnergy([AndFactors([[0, 1]], [2])], np.ones((2, 3))), [[1, 0, 1], [1, 1, x]]),
        (FactorGraphEnergy([nothing], np.ones((1, 2))), free),
    ]  # fmt: skip
    if method == "max_product":  # no message shows it, but the state found does
        energies.append((FactorGraphEnergy([same, other], np.ones((1, 2))), free))
    for energy, clamp in energies:
        returns = ALL if method == "sum_product" else "map"
        for damping in (0.0, 0.5):
            options = {"returns": returns, "damping": damping, "max_iter": 200}
            result = infer(energy, method, clamp=clamp, **options)
            assert not result.converged[0]
            assert result.converged[1:].all()
            for field in ("marginals", "pairwise", "log_partition", "log_odds"):
                value = getattr(result, field)
                assert value is None or not np.isnan(value).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [40.0, 500.0])
def test_saturated_graphs_stay_finite(dtype, scale):
    energy = random_graph(2, 10, 15, 4, scale=scale, dtype=dtype)
    energy = energy.with_fields(energy.field * dtype(scale))
    clamp = random_clamp(np.random.default_rng(1), 4, 10, share=0.2)
    for damping in (0.0, 0.5):
        result = infer(energy, "sum_product", damping=damping, clamp=clamp, **EACH)
        for field in ALL:
            assert np.isfinite(getattr(result, field)).all()
        blocks = energy.unflatten(result.pairwise[0])
        for part in blocks:
            total = part.reshape(len(part), -1).sum(axis=1)
            np.testing.assert_allclose(total, 1, rtol=1e-5)
        found = infer(energy, "max_product", damping=damping, clamp=clamp)
        assert np.isfinite(energy.score(found.assignment)).all()


def test_max_product_keeps_the_best_state():
    """More iterations and more restarts never end with a worse state."""
    energy = random_graph(7, 10, 14, 6, scale=1.5)
    top = infer(energy, "exact", returns="map_bound").map_bound
    scores = [
        energy.score(infer(energy, MaxProduct(max_iter=t, tol=0)).assignment) for t in (1, 5, 50)
    ]
    many = infer(energy, MaxProduct(damping=0.5, n_restarts=5, random_state=0))
    scores.append(energy.score(many.assignment))
    assert (scores[1] >= scores[0] - 1e-12).all()
    assert (scores[2] >= scores[1] - 1e-12).all()
    assert (scores[3] <= top + 1e-9).all()
    assert (scores[3] >= top - 1e-9).mean() > 0.6


@pytest.mark.parametrize("graph", GRAPHS)
def test_warm_start_stays_at_a_fixed_point(graph):
    energy = random_graph(3, 8, 8, 3, scale=0.5, **GRAPHS[graph])
    first = infer(energy, "sum_product", tol=1e-13, max_iter=2000, return_state=True)
    for start in (first, infer(energy, "sum_product", tol=1e-13, max_iter=2000)):
        again = infer(energy, "sum_product", tol=1e-8, init=start)
        assert (again.n_iter == 2).all() or start.state is None
        np.testing.assert_allclose(again.log_odds, first.log_odds, atol=1e-6)


def test_sums_of_statistics():
    energy = random_graph(6, 10, 12, 70, scale=0.5, zeros=0)
    weight = np.random.default_rng(0).random(70)
    each = infer(energy, "sum_product", **EACH).pairwise
    total = infer(energy, "sum_product", returns="pairwise", sample_weight=weight).pairwise
    np.testing.assert_allclose(total, weight @ each, rtol=1e-12)


def test_other_energies_as_tables():
    """The constant of an Ising model's scores is in log Z."""
    ising = SparseIsingEnergy.from_edges([[0, 1], [1, 2]], [0.4, -0.8], [[0.5, 0.1, -1.0]])
    graph = FactorGraphEnergy.from_energy(ising)
    found = infer(graph, "sum_product", returns="log_partition", tol=1e-12).log_partition
    exact = infer(ising, "exact", returns="log_partition").log_partition
    np.testing.assert_allclose(found, exact, rtol=1e-10)
