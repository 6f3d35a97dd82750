"""An energy and a method of another package are like the house's own."""

import copy

import numpy as np
import pytest
from reference import conformance, outside, proofs
from reference.conformance import Case

from skcrbm.energies import IsingEnergy, OneHotRBMEnergy, RBMEnergy
from skcrbm.inference import (
    InferenceMethod,
    available_methods,
    infer,
    register_method,
    register_solver,
    registry,
    sample,
)
from skcrbm.inference.registry import ANSWERS, METHODS, SOLVERS

TRIPLES = [[0, 1, 2], [1, 2, 3]]


def make(seed, n_models, scale, dtype):
    rng = np.random.default_rng(seed)
    weights = rng.normal(0, scale, len(TRIPLES)).astype(dtype)
    return outside.TripleEnergy(TRIPLES, weights, rng.normal(0, 1, (n_models, 4)).astype(dtype))


def score(energy, n, state):
    total = sum(float(energy.field[n, i]) * state[i] for i in range(4))
    for w, (i, j, k) in zip(energy.weights, energy.triples, strict=True):
        total += float(w) * state[i] * state[j] * state[k]
    return total


def statistics(energy, state):
    return (np.array([state[i] * state[j] * state[k] for i, j, k in energy.triples]),)


@pytest.fixture
def tables(monkeypatch):
    """Tables that a test may add lines to."""
    monkeypatch.setattr(METHODS, "locations", dict(METHODS.locations))
    monkeypatch.setattr(registry, "SOLVERS", copy.deepcopy(SOLVERS))
    monkeypatch.setattr(registry, "ANSWERS", dict(ANSWERS))


@pytest.fixture
def registered(tables):
    outside.register()


@pytest.mark.deep
@pytest.mark.usefixtures("registered")
def test_an_outside_energy_passes_the_conformance_suite(monkeypatch):
    """With its own method, and with the house's methods that serve any energy."""
    energy = make(0, 2, 1.0, np.float64)
    assert available_methods(energy) == ["exact", "simulated_annealing", "gibbs", "greedy_flips"]
    case = Case("triples", make, score, statistics)
    for check in conformance.MEMBERS:
        check(case)
    monkeypatch.setitem(proofs.PROOFS, "greedy_flips", {"map": ["local"]})
    for _, name in proofs.cells([case]):
        proofs.check_cell(case, name)
    conformance.check_nothing_unfilled(case, monkeypatch)


@pytest.mark.usefixtures("registered")
def test_an_outside_method_serves_the_houses_energies():
    rng = np.random.default_rng(0)
    coupling = np.triu(rng.normal(0, 0.1, (6, 6)), 1)
    energy = IsingEnergy(coupling + coupling.T, rng.normal(0, 1, (20, 6)))
    found = infer(energy, "greedy_flips")
    best = infer(energy, "exact", returns="map")
    assert found.converged.all()
    np.testing.assert_allclose(energy.score(found.assignment), energy.score(best.assignment))
    held = infer(energy, outside.GreedyFlips(max_iter=50), clamp=[1, 0, *[np.nan] * 4])
    np.testing.assert_array_equal(held.assignment[:, :2], np.tile([1, 0], (20, 1)))
    assert "greedy_flips" in available_methods(energy, returns="map")
    assert "greedy_flips" not in available_methods(energy, returns="marginals")


@pytest.mark.usefixtures("registered")
def test_what_it_cannot_do_is_said_by_the_same_errors():
    rbm = RBMEnergy(np.ones((2, 1)), np.zeros(2), np.zeros(1))
    with pytest.raises(ValueError, match="'greedy_flips' does not work on RBMEnergy; methods"):
        infer(rbm, "greedy_flips")
    energy = make(0, 1, 1.0, np.float64)
    with pytest.raises(ValueError, match="'greedy_flips' cannot answer 'marginals'; methods"):
        infer(energy, "greedy_flips", returns="marginals")
    with pytest.raises(ValueError, match="'greedy_flips' has no option 'damping'"):
        infer(energy, "greedy_flips", damping=0.5)
    with pytest.raises(ValueError, match="'exact' has no option 'burn_in'"):
        sample(energy, "exact", burn_in=3)


@pytest.mark.usefixtures("registered")
def test_names_are_taken_once():
    register_method("greedy_flips", "reference.outside:GreedyFlips")  # the same again
    with pytest.raises(ValueError, match="'exact' is already registered"):
        register_method("exact", "reference.outside:GreedyFlips")
    with pytest.raises(ValueError, match="'exact' already has a solver for RBMEnergy"):
        register_solver("exact", "RBMEnergy", "reference.outside:solve_greedy_flips")


class Twice(InferenceMethod):
    """A method that runs another method twice, as a user's restarts might do."""

    name = "twice"

    def __init__(self, method="exact"):
        self.method = method

    def _inner(self):
        return METHODS.get(self.method)()

    def supports(self, energy):
        return self._inner().supports(energy) & {"map"}

    def solve(self, energy, query):
        self._inner().solve(energy, query)
        return self._inner().solve(energy, query)


def test_a_method_around_another_answers_what_that_one_supports():
    energy = make(0, 2, 1.0, np.float64)
    found = infer(energy, Twice(), returns="map")
    best = infer(energy, "exact", returns="map")
    np.testing.assert_array_equal(found.assignment, best.assignment)
    with pytest.raises(ValueError, match="'twice' cannot answer 'marginals'"):
        infer(energy, Twice(), returns="marginals")
    with pytest.raises(ValueError, match="'twice' does not work on TripleEnergy"):
        infer(energy, Twice("sum_product"), returns="map")


class Renamed(IsingEnergy):
    """An Ising model under another name, with a member of its own."""

    @property
    def n_edges(self):
        return np.count_nonzero(np.triu(self.coupling))


class Squared(IsingEnergy):
    """Another model: the square of the field is in its score."""

    def _score(self, states):
        return super()._score(states) + np.square(self.field).sum(axis=1)


class RenamedSquared(Squared):
    """The same model as `Squared`."""


def coupled(kind):
    rng = np.random.default_rng(0)
    coupling = np.triu(rng.normal(0, 0.5, (5, 5)), 1)
    return kind(coupling + coupling.T, rng.normal(0, 1, (3, 5)))


def test_a_subclass_inherits_the_methods_of_its_parent():
    parent, child = coupled(IsingEnergy), coupled(Renamed)
    assert type(child.rows([0])) is Renamed
    names = available_methods(parent)
    assert len(names) > 10
    assert available_methods(child) == names
    for name in names:
        options = {"random_state": 0} if "random_state" in METHODS.get(name)().get_params() else {}
        found = [infer(energy, name, **options) for energy in (parent, child)]
        for field in ("marginals", "assignment", "samples", "log_partition", "map_bound"):
            left, right = (getattr(result, field) for result in found)
            if left is not None:
                np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("kind", [Squared, RenamedSquared])
def test_a_subclass_with_another_score_keeps_the_generic_methods(kind):
    energy = coupled(kind)
    assert available_methods(energy) == ["exact", "simulated_annealing", "gibbs"]
    with pytest.raises(ValueError, match=f"does not work on {kind.__name__}; methods"):
        infer(energy, "sum_product")
    ising = infer(coupled(IsingEnergy), "exact", returns="log_partition").log_partition
    squared = infer(energy, "exact", returns="log_partition").log_partition
    np.testing.assert_allclose(squared, ising + np.square(energy.field).sum(axis=1))


def test_one_hot_models_keep_their_own_methods():
    energy = OneHotRBMEnergy(np.ones((3, 2)), np.zeros(3), np.zeros(2))
    assert available_methods(energy) == ["exact", "simulated_annealing", "gibbs"]


@pytest.mark.usefixtures("tables")
def test_a_line_for_a_subclass_wins():
    answers = {"marginals", "log_partition"}
    register_solver("mean_field", "Renamed", "inference.test_registration:solve_nothing", answers)
    register_solver("mplp", "Squared", "inference.test_registration:solve_nothing")
    child = coupled(Renamed)
    np.testing.assert_array_equal(infer(child, "mean_field").marginals, 0.5)
    assert "mean_field" not in available_methods(child, "statistics")
    assert "mean_field" in available_methods(coupled(IsingEnergy), "statistics")
    np.testing.assert_array_equal(
        infer(child, "sum_product").marginals, infer(coupled(IsingEnergy), "sum_product").marginals
    )
    for kind in (Squared, RenamedSquared):
        assert available_methods(coupled(kind)) == ["exact", "mplp", "simulated_annealing", "gibbs"]


def solve_nothing(method, energy, query):
    return {"log_odds": np.zeros((energy.n_models, energy.n_variables))}
