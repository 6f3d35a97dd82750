"""Marginal MAP of factor graphs by elimination, against enumeration."""

import numpy as np
import pytest
from reference.cases import deep
from reference.categorical import Enumerated, random_graph, with_logic

from skcrbm.energies import (
    FactorGraphEnergy,
    OrFactors,
    RBMEnergy,
    read_uai_query,
)
from skcrbm.inference import Exact, available_methods, infer
from skcrbm.utils.graphs import min_fill

ASKED = ("marginal_map", "map_bound")


def binary(seed):
    rng = np.random.default_rng(seed)
    scopes = [(0, 1), (2, 1, 0), (3,), (4, 3), (5, 4), (1, 4)]
    tables = [rng.normal(size=(2,) * len(scope)) for scope in scopes]
    return FactorGraphEnergy.from_tables(scopes, tables, rng.normal(size=(2, 6)))


def large_or(seed):
    """An OR of ten inputs, which elimination cuts into a chain of auxiliary variables."""
    rng = np.random.default_rng(seed)
    logic = OrFactors([list(range(10))], [10])
    return FactorGraphEnergy([logic], rng.normal(size=(2, 11)))


KINDS = {
    "binary": binary,
    "large OR": large_or,
    "three": lambda seed: random_graph(seed, (3, 3, 3, 3), [(0, 1), (1, 2), (2, 0), (2, 3)]),
    "mixed": random_graph,
    "zeros": lambda seed: random_graph(seed, zeros=0.15),
    "logic": with_logic,
}


def as_states(energy):
    """The energy with an axis of states, for enumeration."""
    return energy.with_states()


def log_weights(exact, chosen):
    """Log-weights of all values of the chosen variables, and the best score given each."""
    found = {}
    for state, score in zip(exact.states, exact.scores, strict=True):
        found.setdefault(tuple(state[chosen].tolist()), []).append(score)
    return {value: (np.logaddexp.reduce(scores), max(scores)) for value, scores in found.items()}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("held", [deep(False), True])
@pytest.mark.parametrize("kind", KINDS)
def test_against_enumeration(kind, held):
    rng = np.random.default_rng(0)
    for seed in range(4 if kind == "large OR" else 12):
        energy = KINDS[kind](seed)
        exact = [Enumerated(as_states(energy), n) for n in range(2)]
        if min(e.best for e in exact) == -np.inf:
            continue
        if held:
            best = [e.states[e.probability.argmax()] for e in exact]
            energy = energy.condition(
                np.where(rng.random((2, energy.n_variables)) < 0.3, best, np.nan)
            )
        size = rng.integers(energy.n_variables + 1)
        chosen = rng.permutation(energy.n_variables)[:size]
        found = infer(energy, "exact", returns=ASKED, map_variables=chosen)
        score = energy.score(found.assignment)
        for n in range(2):
            weights = log_weights(Enumerated(as_states(energy), n), chosen)
            log_weight, best = weights[tuple(found.assignment[n, chosen].tolist())]
            top = max(weight for weight, _ in weights.values())
            assert log_weight == pytest.approx(top, rel=1e-9, abs=1e-9)
            assert found.map_bound[n] == pytest.approx(top, rel=1e-9, abs=1e-9)
            assert score[n] == pytest.approx(best, rel=1e-9, abs=1e-9)
        np.testing.assert_array_equal(found.gap, 0)


def test_all_variables_or_no_variable():
    """Maximising over all variables is MAP, and over no variable is log Z."""
    energy = random_graph(3)
    every = infer(energy, "exact", returns=ASKED, map_variables=range(5))
    best = infer(energy, "exact", returns=("map", "map_bound"))
    np.testing.assert_array_equal(every.assignment, best.assignment)
    np.testing.assert_allclose(every.map_bound, best.map_bound)
    none = infer(energy, "exact", returns=(*ASKED, "log_partition"), map_variables=[])
    np.testing.assert_allclose(none.map_bound, none.log_partition)


def test_a_best_state_that_is_not_a_marginal_map():
    """The textbook case: the best joint state has the less probable value of variable 0."""
    table = np.log([[0.4, 0.0 + 1e-9], [0.3, 0.3]])
    energy = FactorGraphEnergy.from_tables([[0, 1]], [table])
    query = read_uai_query("1 0", [2, 2])
    found = infer(energy, "exact", returns=ASKED, map_variables=query)
    assert found.assignment[0, 0] == 1
    assert infer(energy, "exact", returns="map").assignment.tolist() == [[0, 0]]
    assert found.map_bound[0] == pytest.approx(np.log(0.6))


def test_threads_and_batches():
    energy = random_graph(4, n_models=5)
    rng = np.random.default_rng(0)
    clamp = rng.integers(energy.n_states, size=(5, 5))
    clamp = np.where(rng.random((5, 5)) < 0.3, clamp, np.nan)
    method = Exact(map_variables=[0, 2])
    one, two = (infer(energy, method, returns=ASKED, clamp=clamp, n_jobs=j) for j in (1, 2))
    np.testing.assert_array_equal(one.assignment, two.assignment)
    for n in range(5):
        alone = infer(energy.rows([n]), method, returns=ASKED, clamp=clamp[n])
        np.testing.assert_array_equal(alone.assignment[0], one.assignment[n])
        np.testing.assert_allclose(alone.map_bound[0], one.map_bound[n])


def test_the_order_is_constrained():
    """Variables to maximise over come last, so that a star may need a table of all its leaves."""
    scopes = [(0, leaf) for leaf in range(1, 12)]
    order = min_fill(scopes, range(12), last=range(1, 12))
    assert order.order[0] == 0
    assert order.width == 11
    assert set(min_fill(scopes, range(12), last=[0]).order[:11]) == set(range(1, 12))
    energy = FactorGraphEnergy.from_tables(scopes, [np.eye(2)] * 11)
    few = Exact(max_entries=2**10, map_variables=range(1, 12))
    with pytest.raises(ValueError, match="width of 11"):
        infer(energy, few, returns="marginal_map")
    infer(energy, few.set_params(map_variables=[0]), returns="marginal_map")


@pytest.mark.parametrize("seed", range(20))
def test_constrained_orders_are_complete(seed):
    rng = np.random.default_rng(seed)
    scopes = [tuple(rng.permutation(9)[: rng.integers(1, 4)].tolist()) for _ in range(10)]
    last = set(rng.permutation(9)[:4].tolist())
    found = min_fill(scopes, range(9), last=last)
    assert sorted(found.order) == list(range(9))
    assert set(found.order[5:]) == last
    assert found.complete


def test_more_than_128_states():
    """Evidence and states beyond the range of int8, for both kinds of the best state."""
    rng = np.random.default_rng(9)
    tables = [rng.normal(size=(200, 3)), rng.normal(size=(3, 300))]
    energy = FactorGraphEnergy.from_tables([(0, 1), (1, 2)], tables)
    given = (tables[0][:, :, None] + tables[1])[199]  # scores (3, 300) of the other variables
    clamp = [[199, np.nan, np.nan]]
    found = infer(energy, "exact", clamp=clamp, returns=("map", "map_bound"))
    best = np.unravel_index(given.argmax(), given.shape)
    np.testing.assert_array_equal(found.assignment, [[199, *best]])
    np.testing.assert_allclose(found.map_bound, given.max())
    weight = np.logaddexp.reduce(given, axis=0)
    found = infer(energy, "exact", clamp=clamp, returns=ASKED, map_variables=[2])
    assert found.assignment[0, [0, 2]].tolist() == [199, weight.argmax()]
    np.testing.assert_allclose(found.map_bound, weight.max())


def test_refusals():
    energy = random_graph(5)
    assert "marginal_map" not in Exact().supports(energy)
    assert "marginal_map" in Exact(map_variables=[0]).supports(energy)
    assert available_methods(energy, "marginal_map") == []
    with pytest.raises(ValueError, match="needs map_variables"):
        infer(energy, "exact", returns="marginal_map")
    for wrong in ([5], [-1], [0.5], [[0]], [[]], [[0], [0, 1]], [None], [True]):
        with pytest.raises(ValueError, match=r"map_variables must hold .* integers from 0 to 4"):
            infer(energy, "exact", returns="marginal_map", map_variables=wrong)
    rbm = RBMEnergy([[1.0], [2.0]], [0.0, 0.0], [0.0])
    with pytest.raises(ValueError, match="energy is of type RBMEnergy"):
        infer(rbm, "exact", returns="marginal_map", map_variables=[0])
    impossible = FactorGraphEnergy.from_tables([[0]], [[-np.inf, -np.inf]])
    with pytest.raises(ValueError, match="positive weight"):
        infer(impossible, "exact", returns="marginal_map", map_variables=[0])
