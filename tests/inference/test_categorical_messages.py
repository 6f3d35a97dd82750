"""Messages between variables of any number of states, against enumeration and elimination."""

import itertools

import numpy as np
import pytest
from reference.cases import deep
from reference.categorical import Enumerated, random_graph, with_logic
from reference.dtypes import float32_test

from skcrbm.energies import FactorGraphEnergy, TableFactors
from skcrbm.inference import MaxProduct, SumProduct, TreeReweighted, infer

ASKED = ("marginals", "statistics", "log_partition")
SUMS = [SumProduct, TreeReweighted]


def tree(seed, zeros=0.0, scale=1.0):
    """Tables of one to three variables, some of them inside of others, without circles."""
    n_states = np.random.default_rng(seed).integers(1, 4, size=7)
    scopes = [(0, 1, 2), (2, 3), (3, 4), (3, 5, 6), (1, 0), (5,)]
    return random_graph(seed, (3, *n_states[1:].tolist()), scopes, 3, scale, zeros)


def held_in(energy):
    held = np.full((energy.n_models, energy.n_variables), np.nan)
    held[0, 3], held[1, 2], held[1, 6] = 0, 0, energy.n_states[6] - 1
    return held


@pytest.mark.parametrize("method", SUMS)
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("scale", [1.0, 100.0, 1000.0])
@pytest.mark.parametrize("zeros", [0.0, 0.1])
def test_trees(method, held, scale, zeros):
    for seed in (0, 3, 5) if scale == 1.0 else (3,):
        energy = tree(seed, zeros, scale)
        if held:
            energy = energy.condition(held_in(energy))
        for pairwise in ("sum", "per_example"):
            exact, found = (
                infer(energy, name, returns=ASKED, pairwise=pairwise)
                for name in ("exact", method())
            )
            assert found.converged.all()
            np.testing.assert_allclose(found.marginals, exact.marginals, atol=1e-9)
            np.testing.assert_allclose(found.pairwise, exact.pairwise, atol=1e-9)
            np.testing.assert_allclose(found.log_partition, exact.log_partition, rtol=1e-12)
            assert found.log_odds.shape == energy.belief_shape
            np.testing.assert_allclose(found.log_odds, exact.log_odds, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("damping", [0.0, 0.4])
@pytest.mark.parametrize("method", [SumProduct, MaxProduct, TreeReweighted])
def test_loops_of_four_states_are_the_loops_of_any_number(method, damping, monkeypatch):
    """Four states have loops of their own. A fifth, impossible state must not change a message."""
    rng = np.random.default_rng(0)
    scopes = [(0, 1), (1, 2), (3, 2), (3, 0), (0, 2)]
    tables = rng.normal(size=(5, 4, 4))
    tables[rng.random(tables.shape) < 0.15] = -np.inf
    field = rng.normal(size=(2, 4, 4))
    options = method(max_iter=7, tol=0.0, damping=damping)
    four = FactorGraphEnergy([TableFactors(scopes, tables)], field, n_states=4)
    five = FactorGraphEnergy(
        [
            TableFactors(scopes, np.pad(tables, [(0, 0), (0, 1), (0, 1)], constant_values=-1.0)),
            TableFactors([[v] for v in range(4)], [0.0, 0.0, 0.0, 0.0, -np.inf]),
        ],
        np.pad(field, [(0, 0), (0, 0), (0, 1)]),
        n_states=5,
    )
    held = np.full((2, 4), np.nan)
    held[1, 2] = 3
    for reach in (300.0, -1.0):  # messages as weights, then as logarithms
        monkeypatch.setattr("skcrbm.inference.factor_graph.messages.MOST_REACH", reach)
        returns = "map" if method is MaxProduct else ("marginals", "log_partition")
        found, expected = (
            infer(energy, options, clamp=held, returns=returns) for energy in (four, five)
        )
        np.testing.assert_allclose(found.log_odds, expected.log_odds[..., :4], rtol=1e-9)
        if method is MaxProduct:
            np.testing.assert_array_equal(found.assignment, expected.assignment)
        else:
            np.testing.assert_allclose(found.log_partition, expected.log_partition, rtol=1e-9)


@pytest.mark.parametrize("damping", [0.0, 0.3, 0.5])
def test_weights_and_logarithms_agree(damping, monkeypatch):
    """Before convergence, on a graph with circles, equal tables and tables of one value."""
    n_states = (3, 3, 3, 3, 2)
    scopes = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2, 4), (1, 4), (3, 4)]
    base = random_graph(0, n_states, scopes)
    potts = TableFactors([[0, 1], [1, 3]], np.stack([0.7 * np.eye(3), -0.9 * np.eye(3)]))
    energy = FactorGraphEnergy([*base.factors, potts], base.field)
    method = SumProduct(max_iter=4, tol=0, damping=damping)
    options = {"returns": ASKED, "return_trace": True, "return_state": True}
    clamp = np.full((2, 5), np.nan)
    clamp[1, 2] = 1
    weights = infer(energy, method, clamp=clamp, **options)
    monkeypatch.setattr("skcrbm.inference.factor_graph.messages.MOST_REACH", 0.0)
    logs = infer(energy, method, clamp=clamp, **options)
    for name in ("marginals", "pairwise", "log_partition", "trace"):
        np.testing.assert_allclose(getattr(weights, name), getattr(logs, name), atol=1e-10)
    np.testing.assert_allclose(weights.state.values, logs.state.values, atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("held", [False, True])
def test_fixed_point_of_binary_messages(seed, held):
    """Both classes of energies reach the same beliefs and Bethe log Z of 0/1 variables."""
    rng = np.random.default_rng(seed)
    scopes = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4, 0), (1, 4)]
    tables = [rng.normal(0, 0.5, (2,) * len(scope)) for scope in scopes]
    binary = FactorGraphEnergy.from_tables(scopes, tables, rng.normal(size=(2, 5)))
    if held:
        binary = binary.condition([np.nan, 1, np.nan, np.nan, np.nan])
    other = binary.with_states()
    for method in (SumProduct, TreeReweighted):
        one, two = (
            infer(energy, method(tol=1e-12, max_iter=2000, damping=0.3), returns=ASKED)
            for energy in (binary, other)
        )
        np.testing.assert_allclose(two.marginals[..., 1], one.marginals, atol=1e-8)
        np.testing.assert_allclose(two.pairwise, one.pairwise, atol=1e-8)
        np.testing.assert_allclose(two.log_partition, one.log_partition, atol=1e-8)


def test_potts_tables():
    """Tables with one value on the diagonal have the messages of the same tables in full."""
    rng = np.random.default_rng(0)
    pairs = np.array(list(itertools.combinations(range(4), 2)))
    strength = rng.normal(0, 1, 6)
    strength[0] = -np.inf  # different states only
    table = np.where(np.eye(4), strength[:, None, None], 0.2)
    almost = np.where(np.arange(16).reshape(4, 4) == 1, table + 1e-13, table)
    field = rng.normal(0, 1, (2, 4, 4))
    field[0, 1] = [0, 500, -3, 1]
    one, two = (FactorGraphEnergy([TableFactors(pairs, t)], field) for t in (table, almost))
    for method in (*SUMS, MaxProduct):
        first, second = (infer(energy, method(max_iter=5, tol=0)) for energy in (one, two))
        np.testing.assert_allclose(first.log_odds, second.log_odds, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("held", [False, True])
def test_mean_field_of_binary_models(held):
    rng = np.random.default_rng(1)
    scopes = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4, 0), (1, 4)]
    tables = [rng.normal(0, 0.5, (2,) * len(scope)) for scope in scopes]
    tables[1][0, 1] = -np.inf
    binary = FactorGraphEnergy.from_tables(scopes, tables, rng.normal(size=(2, 5)))
    if held:
        binary = binary.condition([np.nan, 1, np.nan, np.nan, np.nan])
    other = binary.with_states()
    one, two = (
        infer(e, "mean_field", tol=1e-13, max_iter=5000, returns=ASKED) for e in (binary, other)
    )
    np.testing.assert_allclose(two.marginals[..., 1], one.marginals, atol=1e-8)
    np.testing.assert_allclose(two.pairwise, one.pairwise, atol=1e-8)
    np.testing.assert_allclose(two.log_partition, one.log_partition, atol=1e-8)


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_lower_bound(seed):
    """Mean field stays below log Z, with zeros and evidence, and no iteration lowers it."""
    energy = tree(seed, zeros=0.1).condition(held_in(tree(seed)))
    bounds = []
    for max_iter in (1, 2, 5, 200):
        found = infer(
            energy, "mean_field", max_iter=max_iter, returns=ASKED, pairwise="per_example"
        )
        bounds.append(found.log_partition)
    assert (np.diff(bounds, axis=0) > -1e-9).all()
    log_z = infer(energy, "exact", returns="log_partition").log_partition
    assert (bounds[-1][found.converged] <= log_z[found.converged] + 1e-9).all()
    again = infer(energy, "mean_field", init=found, n_jobs=2)
    np.testing.assert_allclose(again.marginals, found.marginals, atol=1e-4)


def test_logic():
    energy = with_logic(2)
    found = infer(energy, SumProduct(damping=0.5, max_iter=500), returns=ASKED)
    assert found.converged.all()
    for n in range(2):
        np.testing.assert_allclose(found.marginals[n], Enumerated(energy, n).marginals, atol=0.15)


def test_a_chain_needs_few_sweeps():
    """Variables are visited along the tree, forward and backward."""
    order = np.random.default_rng(0).permutation(2000)
    pairs = np.column_stack([order[:-1], order[1:]])
    energy = FactorGraphEnergy([TableFactors(pairs, 2 * np.eye(3))], n_states=3)
    clamp = np.full(2000, np.nan)
    clamp[order[0]] = 2
    found = infer(energy, "sum_product", clamp=clamp)
    assert found.converged.all()
    assert found.n_iter[0] <= 4
    np.testing.assert_allclose(
        found.marginals, infer(energy, "exact", clamp=clamp).marginals, atol=1e-9
    )


@pytest.mark.parametrize("method", [SumProduct, MaxProduct, deep(TreeReweighted)])
def test_starts(method):
    energy = random_graph(4, (3, 2, 4, 3), [(0, 1, 2), (2, 3), (3, 0), (1, 3)], n_models=5)
    options = {"return_state": True, "damping": 0.4, "max_iter": 60}
    one, alone = (infer(part, method(), **options) for part in (energy, energy.rows([3])))
    for start in (one, alone):
        part = energy if start is one else energy.rows([3])
        again = infer(part, method(), init=start, damping=0.4, max_iter=60)
        assert again.n_iter.max() <= 3
        np.testing.assert_allclose(again.log_odds, start.log_odds, atol=2e-3)
    from_beliefs = infer(energy, method(), init=infer(energy, method()), max_iter=100)
    assert from_beliefs.converged.mean() >= one.converged.mean() - 1e-9


@float32_test
def test_float32():
    energy = random_graph(1, n_models=2)
    single = FactorGraphEnergy(
        [TableFactors(p.variables, p.log_potentials.reshape(-1, *p.shape).astype(np.float32))
         for p in energy.factors],
        energy.field.astype(np.float32),
    )  # fmt: skip
    assert single.dtype == np.float32
    one, two = (infer(e, "sum_product", returns=ASKED) for e in (energy, single))
    assert two.log_odds.dtype == np.float32
    np.testing.assert_allclose(one.marginals, two.marginals, atol=1e-4)


@pytest.mark.parametrize("method", ["sum_product", "tree_reweighted", "max_product"])
def test_contradictions(method):
    table = np.full((3, 3), -np.inf)
    energy = FactorGraphEnergy.from_tables([[0, 1], [1, 2]], [table, np.eye(3)])
    found = infer(energy, method, max_iter=5)
    assert not found.converged[0]
    assert not np.isnan(found.log_odds).any()


def test_weights_that_underflow():
    """Permutations carry small weights along a chain, and evidence at its end asks for them."""
    n = 400
    pairs = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    turn = np.where(np.roll(np.eye(3), 1, axis=1) > 0, 0.0, -np.inf)
    field = np.zeros((1, n, 3))
    field[0, np.arange(n), np.arange(n) % 3] = 4.0
    energy = FactorGraphEnergy([TableFactors(pairs, turn)], field)
    clamp = np.full(n, np.nan)
    clamp[-1] = n % 3
    found = infer(energy, "sum_product", clamp=clamp, returns=ASKED)
    exact = infer(energy, "exact", clamp=clamp, returns=ASKED)
    assert found.converged.all()
    np.testing.assert_allclose(found.marginals, exact.marginals, atol=1e-9)
    np.testing.assert_allclose(found.log_partition, exact.log_partition)


@pytest.mark.parametrize("method", ["sum_product", "tree_reweighted"])
@pytest.mark.parametrize("kind", ["pair", "Potts"])
def test_tables_below_the_smallest_float(method, kind):
    """On a chain, messages are exact if the weights of tables are below the smallest float."""
    rng = np.random.default_rng(0)
    tables = rng.normal(size=(3, 4, 4)) * 30
    if kind == "Potts":
        tables = np.array([900.0, -900.0, 3.0])[:, None, None] * np.eye(4)
    else:
        tables[0, 1] -= 2000.0
        tables[1, :, 2] -= 1500.0
        tables[2, 0, 0] = -np.inf
    fields = rng.normal(size=(4, 4)) * 5
    fields[3, 1] = 1200.0
    energy = FactorGraphEnergy([TableFactors([[0, 1], [1, 2], [2, 3]], tables)], fields)
    answers = ("marginals", "log_partition")
    exact = infer(energy, "exact", returns=answers)
    found = infer(energy, method, returns=answers)
    assert found.converged.all()
    np.testing.assert_allclose(found.log_odds, exact.log_odds, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.log_partition, exact.log_partition, rtol=1e-9)
