"""MPLP and the linear program on tables of any size, and the states that both return."""

import itertools

import numpy as np
import pytest
from reference.categorical import Enumerated, random_graph, with_logic
from reference.integer_models import check_bounds, integer_model
from scipy.optimize import linprog

from skcrbm.energies import (
    AndFactors,
    FactorGraphEnergy,
    IsingEnergy,
    OrFactors,
    RBMEnergy,
    SparseIsingEnergy,
)
from skcrbm.inference import MPLP, infer

METHODS = ["mplp", "linear_program"]
EDGES = list(itertools.combinations(range(5), 2))

KINDS = {
    "three": lambda seed: random_graph(seed, (3,) * 5, EDGES),
    "mixed": lambda seed: random_graph(seed, (2, 3, 4, 1, 3), EDGES),
    "larger": lambda seed: random_graph(
        seed, (2, 3, 2, 3, 2), [*itertools.combinations(range(5), 3)][::2]
    ),
    "zeros": lambda seed: random_graph(seed, (3,) * 5, EDGES, zeros=0.15),
    "logic": with_logic,
}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_hold(kind, held):
    rng = np.random.default_rng(0)
    for seed in range(4):
        energy = KINDS[kind](seed)
        if held:
            best = np.array([e.states[e.scores.argmax()] for e in map(Enumerated, [energy] * 2)])
            energy = energy.condition(np.where(rng.random((2, 5)) < 0.3, best, np.nan))
        top = np.array([Enumerated(energy, n).best for n in range(2)])
        if top.min() == -np.inf:
            continue
        program, mplp = (infer(energy, method) for method in ("linear_program", "mplp"))
        for found in (program, mplp):
            score = energy.score(found.assignment)
            assert (found.map_bound >= top - 1e-12 * (1 + abs(top))).all()
            assert (score <= top + 1e-12 * (1 + abs(top))).all()
            np.testing.assert_allclose(found.gap, found.map_bound - score, atol=1e-12)
            assert (found.gap >= 0).all()
        assert program.converged.all()
        assert (mplp.map_bound >= program.map_bound - 1e-6).all()
        assert (mplp.map_bound <= program.map_bound + 1.0).all()


def naive_program(energy):
    """The value of the linear program of the local polytope of a model of pairs, by loops."""
    counts = energy.n_states.tolist()
    gain = [float(energy.field[0, v, k]) for v, count in enumerate(counts) for k in range(count)]
    first = np.cumsum([0, *counts])
    rows, limit = [], []
    for v, count in enumerate(counts):
        rows.append({first[v] + k: 1.0 for k in range(count)})
        limit.append(1.0)
    for part in energy.factors:
        for (i, j), table in zip(part.variables, part.log_potentials, strict=True):
            at = len(gain)
            gain += table.ravel().tolist()
            for a in range(counts[i]):
                own = {at + a * counts[j] + b: 1.0 for b in range(counts[j])}
                rows.append(own | {first[i] + a: -1.0})
                limit.append(0.0)
            for b in range(counts[j]):
                own = {at + a * counts[j] + b: 1.0 for a in range(counts[i])}
                rows.append(own | {first[j] + b: -1.0})
                limit.append(0.0)
    matrix = np.zeros((len(rows), len(gain)))
    for r, row in enumerate(rows):
        matrix[r, list(row)] = list(row.values())
    return -linprog(-np.array(gain), A_eq=matrix, b_eq=limit, bounds=(0, None)).fun


@pytest.mark.parametrize("seed", range(5))
def test_value_of_the_program(seed):
    """No variable of a complete graph can be eliminated, so the value is the plain program's."""
    energy = random_graph(seed, (3, 3, 2, 4, 3), EDGES, n_models=1)
    found = infer(energy, "linear_program")
    assert found.n_iter[0] > 0
    assert found.map_bound[0] == pytest.approx(naive_program(energy), rel=1e-9)
    assert infer(energy, MPLP(tol=1e-10)).map_bound[0] < found.map_bound[0] + 0.5


def test_frustrated_colours():
    """Four variables of three colours that should differ: the program does not see the conflict."""
    edges = list(itertools.combinations(range(4), 2))
    energy = FactorGraphEnergy.from_tables(edges, [-np.eye(3)] * 6)
    for method in METHODS:
        found = infer(energy, method)
        assert energy.score(found.assignment) == [-1.0]
        assert found.map_bound[0] == pytest.approx(0.0, abs=1e-9)
        assert found.gap[0] == pytest.approx(1.0)


@pytest.mark.parametrize("method", METHODS)
def test_binary_graphs_with_logic(method):
    """0/1 variables with larger tables, OR and AND factors are bounded, too."""
    rng = np.random.default_rng(0)
    logic = [OrFactors([list(range(9))], [9]), AndFactors([[9, 0]], [10])]
    base = FactorGraphEnergy.from_tables([(0, 1, 2), (3, 4, 5)], [rng.normal(size=(2, 2, 2))] * 2)
    energy = FactorGraphEnergy([*base.factors, *logic], rng.normal(size=(3, 11)))
    clamp = np.full(11, np.nan)
    clamp[9] = 1
    for given in (energy, energy.condition(clamp)):
        best = infer(given, "exact", returns=("map", "map_bound"))
        found = infer(given, method)
        assert (found.map_bound >= best.map_bound - 1e-12).all()
        assert (given.score(found.assignment) > -np.inf).all()
        np.testing.assert_allclose(found.map_bound, best.map_bound, atol=0.5)


def test_impossible_models():
    """Contradictions have the bound -inf, with a warning, and other models are answered."""
    energy = FactorGraphEnergy.from_tables(
        [(0, 1), (1, 2), (0, 2)], [np.where(np.eye(3), -np.inf, 0.0)] * 3
    )
    clamp = np.array([[0, 0, np.nan], [0, 1, np.nan]])
    energy = energy.with_fields(np.zeros((2, 3, 3)))
    for method in METHODS:
        with pytest.warns(UserWarning, match="contradicts the factors of 1 of 2"):
            found = infer(energy, method, clamp=clamp)
        assert found.converged.tolist() == [False, True]
        assert found.map_bound[0] == -np.inf
        assert found.assignment[1].tolist() == [0, 1, 2]


def test_integer_tables():
    for seed in range(100):
        check_bounds(integer_model(seed)[0])


def integer_pairs(kind, seed):
    rng = np.random.default_rng(seed)
    half = np.triu(rng.integers(-1, 2, (6, 6)), 1).astype(float)
    if kind == "Ising":
        return IsingEnergy(half + half.T, rng.integers(-1, 2, (3, 6)).astype(float))
    if kind == "RBM":
        parts = [rng.integers(-2, 3, size).astype(float) for size in ((4, 3), (3, 4), (3, 3))]
        return RBMEnergy(*parts)
    edges = np.argwhere(half)
    if not len(edges):
        edges, half[0, 1] = np.array([[0, 1]]), 1.0
    fields = rng.integers(-1, 2, (3, 6)).astype(float)
    return SparseIsingEnergy.from_edges(edges, half[tuple(edges.T)], fields)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("kind", ["Ising", "sparse Ising", "RBM"])
def test_integer_pairs(kind):
    for seed in range(30):
        check_bounds(integer_pairs(kind, seed))
