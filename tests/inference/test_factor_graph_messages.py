"""Message passing on factor graphs: naive reference, trees, OR and AND, contradictions."""

import time

import numpy as np
import pytest
from conftest import JIT_DISABLED
from reference.dtypes import DTYPES
from reference.naive_factor_graph import naive_graph, with_tables_for_logic
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


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("damping", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("clamped", [False, True])
def test_equals_naive(graph, dtype, damping, clamped):
    """Some iterations before convergence: beliefs, entries and trace."""
    energy = random_graph(1, 8, 8, 3, scale=0.8, dtype=dtype, **GRAPHS[graph])
    clamp = np.full((3, 8), np.nan)
    if clamped:
        clamp[0, [0, 6]], clamp[1, 7], clamp[2, [0, 3]] = (1, 0), 1, 1
    method = SumProduct(max_iter=5, tol=0, damping=damping)
    result = infer(energy, method, clamp=clamp, return_trace=True, **EACH)
    atol = {np.float32: 2e-6, np.float64: 1e-12}[dtype]
    assert (result.n_iter == 5).all()
    for n in range(3):
        expected = naive_graph(energy, n, 5, damping, held=clamp[n])
        np.testing.assert_allclose(result.marginals[n], expected.on, atol=atol)
        found = entries(expected, energy.n_entries)
        np.testing.assert_allclose(result.pairwise[n], found, atol=atol)
        np.testing.assert_allclose(result.trace[n], expected.trace, atol=atol)


@pytest.mark.deep
@pytest.mark.parametrize("graph", GRAPHS)
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


@pytest.mark.parametrize("method", [SumProduct, MaxProduct])
@pytest.mark.parametrize("damping", [0.0, 0.4])
def test_logic_is_a_table_of_zeros(method, damping):
    energy = random_graph(9, 8, 4, 3, zeros=1, logic=True)  # no scope lies in another
    tables = with_tables_for_logic(energy)
    clamp = np.full((3, 8), np.nan)
    clamp[1, 3], clamp[2, 0] = 0, 1
    method = method(max_iter=9, tol=0, damping=damping)
    one = infer(energy, method, clamp=clamp, return_state=True)
    other = infer(tables, method, clamp=clamp, return_state=True)
    np.testing.assert_allclose(one.log_odds, other.log_odds, rtol=1e-9, atol=1e-9)
    if one.assignment is not None:
        np.testing.assert_array_equal(one.assignment, other.assignment)


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
        # From beliefs alone, the messages of a factor with zeros are recovered to some digits.
        assert (again.n_iter == 1).all() or (start.state is None and graph == "logic")
        np.testing.assert_allclose(again.log_odds, first.log_odds, atol=1e-6)


@pytest.mark.parametrize("method", ["sum_product", "max_product"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_state_goes_on(method, dtype):
    """Two runs of three iterations equal a run of six iterations."""
    energy = random_graph(4, 8, 8, 3, scale=0.5, dtype=dtype)
    options = {"tol": 0, "return_state": True}
    whole = infer(energy, method, max_iter=6, **options)
    half = infer(energy, method, max_iter=3, **options)
    rest = infer(energy, method, max_iter=3, init=half, **options)
    atol = {np.float32: 1e-4, np.float64: 1e-11}[dtype]
    np.testing.assert_allclose(rest.log_odds, whole.log_odds, atol=atol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("method", ["sum_product", "max_product"])
def test_threads_and_batches_do_not_change_a_bit(method, dtype):
    n = 12 if JIT_DISABLED else 150  # more than one block
    energy = random_graph(6, 10, 12, n, scale=0.8, dtype=dtype)
    field = energy.field.copy()
    field[3] *= 100  # does not fit as odds
    energy = energy.with_fields(field)
    clamp = random_clamp(np.random.default_rng(1), n, 10, share=0.1)
    sums = method == "sum_product"
    fields = ["log_odds", "n_iter", "converged", *(ALL if sums else ["assignment"])]
    for pairwise in ("sum", "per_example"):
        options = {"returns": ALL if sums else "map", "pairwise": pairwise, "clamp": clamp}
        one = infer(energy, method, n_jobs=1, **options)
        for n_jobs in (2, 3):
            other = infer(energy, method, n_jobs=n_jobs, **options)
            for field in fields:
                np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
        for rows in ([9, 3, 7], [5]):
            some = infer(energy.rows(rows), method, **{**options, "clamp": clamp[rows]})
            for field in fields:
                if field != "pairwise" or pairwise == "per_example":
                    np.testing.assert_array_equal(getattr(one, field)[rows], getattr(some, field))


def test_sums_of_statistics():
    energy = random_graph(6, 10, 12, 70, scale=0.5, zeros=0)
    weight = np.random.default_rng(0).random(70)
    each = infer(energy, "sum_product", **EACH).pairwise
    total = infer(energy, "sum_product", returns="pairwise", sample_weight=weight).pairwise
    np.testing.assert_allclose(total, weight @ each, rtol=1e-12)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (2, 3)])
def test_nothing_to_infer(shape):
    energy = FactorGraphEnergy([], np.zeros(shape))
    result = infer(energy, "sum_product", returns=ALL)
    np.testing.assert_array_equal(result.marginals, np.full(shape, 0.5))
    np.testing.assert_allclose(result.log_partition, shape[1] * np.log(2))
    assert infer(energy, "max_product").assignment.shape == shape


def test_other_energies_as_tables():
    """The constant of an Ising model's scores is in log Z."""
    ising = SparseIsingEnergy.from_edges([[0, 1], [1, 2]], [0.4, -0.8], [[0.5, 0.1, -1.0]])
    graph = FactorGraphEnergy.from_energy(ising)
    found = infer(graph, "sum_product", returns="log_partition", tol=1e-12).log_partition
    exact = infer(ising, "exact", returns="log_partition").log_partition
    np.testing.assert_allclose(found, exact, rtol=1e-10)
