"""MPLP and the linear program on models of pairs: states, and bounds of the maximum."""

import itertools
import time

import numpy as np
import pytest

from skcrbm.datasets import make_ising_lattice
from skcrbm.energies import (
    FactorGraphEnergy,
    IsingEnergy,
    RBMEnergy,
    SparseIsingEnergy,
    TableFactors,
)
from skcrbm.inference import MPLP, available_methods, infer
from skcrbm.inference.search.roof_dual import relaxed_labels

BOUNDED = ("map", "map_bound")
METHODS = ["mplp", "linear_program"]


def make_rbm(rng, n, scale, sign=None):
    weights = rng.normal(0, scale, (4, 3))
    weights = weights if sign is None else sign * np.abs(weights)
    return RBMEnergy(weights, rng.normal(size=(n, 4)), rng.normal(size=(n, 3)))


def make_ising(rng, n, scale, sign=None):
    half = np.triu(rng.normal(0, scale, (7, 7)), 1)
    half = half if sign is None else sign * np.abs(half)
    return IsingEnergy(half + half.T, rng.normal(size=(n, 7)))


def make_sparse(rng, n, scale, sign=None):
    edges = np.array(list(itertools.combinations(range(7), 2)))[rng.permutation(21)[:11]]
    weights = rng.normal(0, scale, 11)
    weights = weights if sign is None else sign * np.abs(weights)
    return SparseIsingEnergy.from_edges(edges, weights, rng.normal(size=(n, 7)))


def make_tables(rng, n, scale, sign=None):
    edges = np.array(list(itertools.combinations(range(7), 2)))[rng.permutation(21)[:12]]
    edges = np.concatenate([edges, edges[:1, ::-1]])  # a pair with two tables
    tables = rng.normal(0, scale, (13, 2, 2))
    if sign is not None:
        tables[:, 1, 1] += sign * (0.1 - min(0, (sign * (tables[:, 0, 0] + tables[:, 1, 1]
            - tables[:, 0, 1] - tables[:, 1, 0])).min()))  # fmt: skip
    factors = [
        TableFactors(edges, tables.reshape(-1, 4)),
        TableFactors([[2], [0]], rng.normal(0, scale, (2, 2))),
    ]
    return FactorGraphEnergy(factors, rng.normal(size=(n, 7)))


MAKERS = [make_rbm, make_ising, make_sparse, make_tables]
each_energy = pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__[5:])


def best_scores(energy):
    """Highest score (N,) by enumeration."""
    states = itertools.product((0, 1), repeat=energy.n_variables)
    return np.max([energy.score(np.tile(s, (energy.n_models, 1))) for s in states], axis=0)


def evidence(rng, energy, share):
    shape = energy.n_models, energy.n_variables
    return np.where(rng.uniform(size=shape) < share, rng.randint(2, size=shape), np.nan)


def check_answer(energy, found, best):
    size = 1e-12 * (1 + np.abs(best))
    score = energy.score(found.assignment)
    assert (found.map_bound >= best - size).all()
    assert (score <= best + size).all()
    np.testing.assert_allclose(found.gap, found.map_bound - score, atol=1e-12)
    assert (found.gap >= 0).all()


@pytest.mark.quick_cases(9)
@each_energy
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("scale", [0.3, 1.5, 20.0])
def test_bounds_hold(make, scale, share):
    rng = np.random.RandomState(int(10 * scale))
    for _ in range(3):
        energy = make(rng, 5, scale)
        held = evidence(rng, energy, share)
        given = energy.condition(held)
        best = best_scores(given)
        program = infer(energy, "linear_program", clamp=held)
        mplp = infer(energy, "mplp", clamp=held)
        for found in (program, mplp):
            check_answer(given, found, best)
            np.testing.assert_array_equal(found.assignment[~np.isnan(held)], held[~np.isnan(held)])
        assert program.converged.all()
        # Coordinate descent on the dual of that program: no lower, and on most not much higher.
        excess = mplp.map_bound - program.map_bound
        assert (excess >= -1e-6 * (1 + np.abs(best))).all()
        assert np.median(excess) <= 0.05 * scale
        if share == 1:
            np.testing.assert_allclose(program.gap, 0, atol=1e-10)
            np.testing.assert_allclose(mplp.gap, 0, atol=1e-10)


@each_energy
def test_attractive_models_are_exact(make):
    rng = np.random.RandomState(1)
    for _ in range(3):
        energy = make(rng, 6, 0.7, sign=1)
        best = best_scores(energy)
        found = infer(energy, "linear_program")
        np.testing.assert_allclose(found.map_bound, best, atol=1e-6)
        np.testing.assert_allclose(energy.score(found.assignment), best, atol=1e-10)
        bound = infer(energy, MPLP(max_iter=5000, tol=1e-10)).map_bound
        assert np.median(bound - best) < 1e-3


def test_a_frustrated_triangle_is_loose():
    energy = IsingEnergy(np.eye(3) - 1.0, np.zeros(3))
    for method in METHODS:
        found = infer(energy, method)
        np.testing.assert_allclose(found.map_bound, 3, atol=1e-6)
        assert best_scores(energy) == [1]
        assert found.gap[0] >= 2 - 1e-6


@each_energy
def test_the_dual_never_rises(make):
    energy = make(np.random.RandomState(3), 4, 1.5)
    last, score = np.full(4, np.inf), np.full(4, -np.inf)
    for sweeps in range(1, 25):
        found = infer(energy, MPLP(max_iter=sweeps, tol=0.0))
        assert (found.map_bound <= last + 1e-11).all()
        assert (energy.score(found.assignment) >= score - 1e-11).all()
        last, score = found.map_bound, energy.score(found.assignment)
        assert (found.n_iter <= sweeps).all()
    few = infer(energy, MPLP(max_iter=1))
    assert not few.converged.any()
    assert infer(energy, MPLP(max_iter=10**5)).converged.all()


def naive_mplp(model_field, edges, coupling, n_sweeps):
    """Messages as tables (E, 2 ends, 2 values), updated as Globerson and Jaakkola write them."""
    messages = np.zeros((len(edges), 2, 2))

    def total(i, without):
        found = np.array([0.0, model_field[i]])
        for e, ends in enumerate(edges):
            for side in (0, 1):
                if ends[side] == i and e != without:
                    found = found + messages[e, side]
        return found

    for _ in range(n_sweeps):
        for e, (i, k) in enumerate(edges):
            table = np.array([[0, 0], [0, coupling[e]]], float)
            a, b = total(i, e), total(k, e)
            messages[e, 0] = -0.5 * a + 0.5 * (table + b).max(axis=1)
            messages[e, 1] = -0.5 * b + 0.5 * (table + a[:, None]).max(axis=0)
    return sum(total(i, -1).max() for i in range(len(model_field)))


def test_mplp_by_its_formula():
    """With messages as tables the edges add 0 to the dual, so that only variables count."""
    rng = np.random.RandomState(0)
    edges = np.array([[0, 1], [0, 2], [1, 2], [2, 3], [1, 3]])
    coupling, field = rng.normal(0, 2, 5), rng.normal(size=4)
    tables = coupling[:, None] * [0, 0, 0, 1]
    energy = FactorGraphEnergy([TableFactors(edges, tables)], field)
    for sweeps in (1, 2, 5):
        found = infer(energy, MPLP(max_iter=sweeps, tol=0.0))
        expected = naive_mplp(field, edges, coupling, sweeps)
        np.testing.assert_allclose(found.map_bound, expected, atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_weights_of_zero(method):
    """Neighbours must differ; in a second model no state is possible."""
    differ = TableFactors([[0, 1], [1, 2]], [-np.inf, 0.0, 0.0, -np.inf])
    energy = FactorGraphEnergy([differ], [[1.0, 0.5, 1.0], [0.1, 2.0, 0.2]])
    found = infer(energy, method)
    assert (found.map_bound >= best_scores(energy) - 1e-9).all()
    np.testing.assert_array_equal(found.assignment, [[1, 0, 1], [0, 1, 0]])
    np.testing.assert_allclose(found.gap, 0, atol=1e-5)
    never = FactorGraphEnergy([differ, TableFactors([[0], [1]], [-np.inf, 0.0])], n_variables=3)
    with pytest.warns(UserWarning, match="contradict each other"):
        found = infer(never, method)
    assert not found.converged.any()
    assert (found.map_bound == -np.inf).all()
    assert (found.gap == 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_float32(method):
    rng = np.random.RandomState(0)
    weights, b, c = rng.normal(size=(5, 4)), rng.normal(size=(3, 5)), rng.normal(size=(3, 4))
    single = RBMEnergy(*(part.astype(np.float32) for part in (weights, b, c)))
    found = infer(single, method)
    assert found.map_bound.dtype == np.float64
    check_answer(single, found, best_scores(single))
    np.testing.assert_allclose(found.map_bound, infer(RBMEnergy(weights, b, c), method).map_bound,
        rtol=1e-5)  # fmt: skip


@pytest.mark.parametrize("scale", [1e-9, 1e6])
@pytest.mark.parametrize("method", METHODS)
def test_any_scale(method, scale):
    rng = np.random.RandomState(2)
    energy = make_ising(rng, 4, 1.0)
    energy = IsingEnergy(scale * energy.coupling, scale * energy.field)
    best = best_scores(energy)
    found = infer(energy, method)
    assert (found.map_bound >= best * (1 - 1e-12 * np.sign(best))).all()
    assert (found.map_bound <= best + 30 * scale).all()


@pytest.mark.compiled
def test_a_lattice_in_seconds():
    """15 x 15 with fields; the exact maximum by the program, as these bounds are tight."""
    lattice = make_ising_lattice((15, 15), 0.2)
    rng = np.random.RandomState(0)
    energy = lattice.with_fields(rng.normal(size=(3, 225)))
    energy = energy.with_edge_coupling(rng.normal(0, 0.5, len(energy.edges)))
    infer(make_ising_lattice((3, 3), 0.2), "mplp")  # compiled
    start = time.process_time()
    program = infer(energy, "linear_program")
    assert time.process_time() - start < 20
    start = time.process_time()
    mplp = infer(energy, MPLP(max_iter=5000))
    assert time.process_time() - start < 10
    assert (mplp.map_bound >= program.map_bound - 1e-5).all()
    assert (mplp.map_bound <= program.map_bound * 1.01).all()
    assert (energy.score(mplp.assignment) <= program.map_bound + 1e-6).all()


def test_what_is_refused():
    pairs = make_tables(np.random.RandomState(0), 1, 1.0)
    assert set(METHODS) <= set(available_methods(pairs, returns=BOUNDED))
    with pytest.raises(ValueError, match="cannot answer 'marginals'"):
        infer(pairs, "mplp", returns="marginals")
    with pytest.raises(ValueError, match="max_iter"):
        infer(pairs, MPLP(max_iter=0))
    with pytest.raises(ValueError, match="has no option 'max_iter'"):
        infer(pairs, "linear_program", max_iter=5)
    assert infer(pairs, "mplp", returns="map").map_bound is None


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_flows_solve_the_program_of_an_rbm(scale):
    rng = np.random.RandomState(int(10 * scale))
    for v, h in ((1, 1), (2, 4), (5, 3)):
        biases = rng.normal(0, scale, (6, v)), rng.normal(0, scale, (6, h))
        energy = RBMEnergy(rng.normal(0, scale, (v, h)), *biases)
        for held in (None, evidence(rng, energy, 0.3)):
            flow = infer(energy, "linear_program", clamp=held)
            program = infer(FactorGraphEnergy.from_energy(energy), "linear_program", clamp=held)
            np.testing.assert_allclose(flow.map_bound, program.map_bound, rtol=1e-6, atol=1e-6)
            best = energy.score(infer(energy, "exact", returns="map", clamp=held).assignment)
            found = energy.score(flow.assignment)
            np.testing.assert_allclose(flow.gap, flow.map_bound - found)
            assert (found <= best + 1e-9).all()
            assert (best <= flow.map_bound).all()


@pytest.mark.parametrize("scale", [0.1, 0.5, 3.0])
def test_flows_solve_the_program_that_highs_solves(scale):
    rng = np.random.RandomState(int(10 * scale))
    for n_labels in (1, 2, 5, 9):
        coupling = np.triu(rng.normal(0, scale, (n_labels, n_labels)), 1)
        energy = IsingEnergy(coupling + coupling.T, rng.normal(size=(6, n_labels)))
        held = evidence(rng, energy, 0.2)
        flow = infer(energy, "linear_program", clamp=held)
        program = infer(FactorGraphEnergy.from_energy(energy), "linear_program", clamp=held)
        np.testing.assert_allclose(flow.map_bound, program.map_bound, rtol=1e-6, atol=1e-6)
        means, bound, _ = relaxed_labels(energy.condition(held))
        rounded = energy.condition(held).score((means > 0).astype(int))
        assert (energy.score(flow.assignment) >= rounded - 1e-9).all()
        halves = means == 0
        score = (means * energy.field).sum(1) + 0.5 * ((means @ energy.coupling) * means).sum(1)
        score += 0.5 * ((halves @ np.abs(energy.coupling)) * halves).sum(1)
        np.testing.assert_allclose(score, bound, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("build", ["ising", "sparse", "tables"])
def test_near_ties_on_trees(method, build):
    """The best values of single variables may mix several best states."""
    rng = np.random.default_rng(0)
    for _ in range(8):
        n = int(rng.integers(3, 9))
        edges = np.array([(i, rng.integers(i)) for i in range(1, n)])
        weights = rng.choice([-1.0, 1.0], n - 1)
        field = rng.choice([0.0, 1.0, 2.0], (2, n)) * 1e-8
        energy = SparseIsingEnergy.from_edges(edges, weights, field)
        if build == "ising":
            energy = IsingEnergy(energy.coupling_matrix(), field)
        elif build == "tables":
            energy = FactorGraphEnergy.from_energy(energy)
        found = infer(energy, method, returns=BOUNDED)
        best = infer(energy, "exact", returns="map_bound").map_bound
        np.testing.assert_allclose(energy.score(found.assignment), best, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.gap, found.map_bound - best, atol=1e-12)
