"""States whose scores differ little: a search calls no state the best if another one is better.

The scores of all states are computed in fractions.
"""

import itertools
import warnings
from fractions import Fraction

import numpy as np
import pytest

from skcrbm.energies import FactorGraphEnergy, IsingEnergy, RBMEnergy
from skcrbm.inference import DualDecomposition, MapSearch, infer

GRAPHS = {
    "chain": (4, [(0, 1), (1, 2), (2, 3)]),
    "star": (4, [(0, 1), (0, 2), (0, 3)]),
    "loop": (4, [(0, 1), (1, 2), (2, 3), (0, 3)]),
    "clique": (5, list(itertools.combinations(range(5), 2))),
}
METHODS = {
    "exact": "exact",
    "branch_and_bound": "branch_and_bound",
    "map_search": "map_search",
    "map_search, no elimination": MapSearch(max_entries=1),
    "milp": "milp",
}


def models():
    """Couplings of size J and fields of size d, for J from 1 to 10^6 and d from 1e-12 to 1e-3."""
    rng = np.random.default_rng(0)
    for J, d in itertools.product((1.0, 100.0, 1e6), (1e-12, 1e-9, 1e-7, 1e-3)):
        for n, edges in GRAPHS.values():
            signs = rng.choice([-1, 1], len(edges)) if rng.random() < 0.5 else 1
            yield n, edges, J * signs * np.ones(len(edges)), d * rng.integers(-3, 4, n)
    yield 3, [(0, 1), (1, 2)], np.array([100.0, 100.0]), np.array([1e-7, 0, 0])
    yield 3, [(0, 1), (1, 2)], np.array([1.0, 1.0]), np.array([1e-9, 0, 0])
    yield 3, [(0, 1), (1, 2)], np.array([1000.0, 1000.0 + 1e-8]), np.array([1e-8, 0, 0])


def forms(n, edges, weights, field):
    """The model as energies. Their scores differ by the sum of the fields."""
    energy = IsingEnergy.from_edges(edges, weights, field)
    yield energy, np.sum(np.abs(weights)) + np.abs(field).sum()
    tables = [[[w, -w], [-w, w]] for w in weights]
    yield FactorGraphEnergy.from_tables(edges, tables, 2 * field), 2 * np.sum(np.abs(weights)) + 1


def best_and_found(n, edges, weights, field, state):
    """The highest score, and the score of a state, as fractions."""
    f, w = [Fraction(float(x)) for x in field], [Fraction(float(x)) for x in weights]

    def score(y):
        pairs = sum(a * y[i] * y[k] for (i, k), a in zip(edges, w, strict=True))
        return pairs + sum(a * b for a, b in zip(f, y, strict=True))

    return max(map(score, itertools.product((-1, 1), repeat=n))), score(2 * state.astype(int) - 1)


@pytest.mark.parametrize("name", METHODS)
def test_proofs_of_near_ties(name):
    n_proved = 0
    for model in models():
        for energy, size in forms(*model):
            if name == "milp" and not isinstance(energy, IsingEnergy):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = infer(energy, METHODS[name], returns=("map", "map_bound"))
            best, value = best_and_found(*model, found.assignment[0])
            rounding = 16 * np.finfo(float).eps * size
            shift = 0 if isinstance(energy, IsingEnergy) else sum(map(Fraction, model[3]))
            assert float(best + shift - Fraction(found.map_bound[0])) <= rounding
            np.testing.assert_allclose(
                found.gap, found.map_bound - energy.score(found.assignment), atol=rounding
            )
            proved = found.stopped_by[0] == "proved"
            assert proved == (found.status == "exact")
            if proved or found.gap[0] == 0:
                exact = name == "branch_and_bound" and isinstance(energy, IsingEnergy)
                assert float(best - value) <= (0 if exact else rounding)
            if not proved:
                assert found.gap[0] >= best - value
            n_proved += proved
    assert (n_proved >= 30) == (name != "milp")


def test_milp_tells_that_it_cannot_prove():
    energy = IsingEnergy.from_edges([[0, 1], [1, 2]], 100.0, [1e-7, 0, 0])
    found = infer(energy, "milp", returns=("map", "map_bound"))
    assert found.stopped_by[0] == "precision"
    assert found.status == "bounded"
    assert not found.converged[0]
    assert found.map_bound[0] >= 200.0 + 1e-7


def test_dual_decomposition_near_ties():
    """A gap within `tol` is no proof."""
    rng, tol, n_proved = np.random.default_rng(0), 1e-3, 0
    for _ in range(20):
        weights = rng.choice([-2.0, 2.0], (3, 2))
        energy = RBMEnergy(
            weights,
            -weights.sum(1) / 2 + 1e-4 * rng.normal(size=3),
            -weights.sum(0) / 2 + 1e-4 * rng.normal(size=2),
        )
        returns = ("marginal_map", "map_bound")
        found = infer(energy, DualDecomposition(tol=tol), returns=returns)
        exact = infer(energy, "exact", returns=returns)
        assert found.map_bound[0] >= exact.map_bound[0] - 1e-12
        if found.stopped_by[0] == "proved":
            n_proved += 1
            np.testing.assert_allclose(found.map_bound - found.gap, exact.map_bound, atol=1e-12)
    assert n_proved < 20
