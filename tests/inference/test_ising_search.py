"""Best states of Ising models by search, against enumeration and each other."""

import numpy as np
import pytest
from conftest import JIT_DISABLED
from reference.cases import deep
from reference.dtypes import DTYPES
from reference.ising_labels import enumerate_labels, random_evidence, random_model

from skcrbm.energies import IsingEnergy, RBMEnergy
from skcrbm.inference import ICM, BranchAndBound, MixedIntegerProgram, available_methods, infer
from skcrbm.inference.registry import METHODS
from skcrbm.inference.search.labels import find_labels

BOUNDED = ("map", "map_bound")
N_MODELS = 30 if JIT_DISABLED else 150


def make(seed, n_labels=None, n_rows=8, scale=1.0):
    fields, S, _ = random_model(seed, n_labels, n_rows)
    return IsingEnergy(scale * S, scale * fields)


def dense(seed, n_labels, n_rows, coupling, field):
    """Couplings of one strength between all labels, for which the search takes long."""
    rng = np.random.default_rng(seed)
    S = np.triu(rng.normal(scale=coupling, size=(n_labels, n_labels)), 1)
    return IsingEnergy(S + S.T, rng.normal(scale=field, size=(n_rows, n_labels)))


def largest_field(energy):
    return np.abs(energy.field).max() + np.abs(energy.coupling).sum(axis=1).max()


def assert_proven(energy, result):
    """The states of enumeration, ties told apart, with bounds that meet their scores."""
    for row, field in enumerate(energy.field):
        known = None if energy.evidence is None else energy.evidence[row]
        labels, value = enumerate_labels(field, energy.coupling, known=known)
        np.testing.assert_array_equal(result.assignment[row], labels)
        assert result.map_bound[row] == pytest.approx(-value, abs=1e-9)
    np.testing.assert_array_equal(result.gap, 0)
    np.testing.assert_allclose(result.map_bound, energy.score(result.assignment), atol=1e-9)
    assert result.converged.all()


@pytest.fixture(params=["kernel", "numpy", "open labels"])
def solver(request, monkeypatch):
    """Few labels are enumerated in NumPy unless the limit forbids it.

    With "open labels" the search leaves out labels whose sign is known, as with many labels.
    """
    search = "skcrbm.inference.search.ising"
    monkeypatch.setattr(f"{search}.FEW_LABELS", 0 if request.param == "kernel" else 6)
    if request.param == "open labels":
        monkeypatch.setattr(f"{search}._MANY_LABELS", 1)


@pytest.mark.quick_cases(1)
@pytest.mark.usefixtures("solver")
def test_enumeration():
    n_better = 0
    for seed in range(N_MODELS):
        energy = make(seed)
        found = infer(energy, "branch_and_bound")
        assert_proven(energy, found)
        local = infer(energy, "icm")
        score, best = energy.score(local.assignment), energy.score(found.assignment)
        assert (score <= best + 1e-9).all()
        n_better += (score < best - 1e-9).sum()
    assert n_better > N_MODELS / 2  # the search does more than its start


@pytest.mark.quick_cases(1)
@pytest.mark.usefixtures("solver")
def test_evidence():
    for seed in range(0, N_MODELS, 2):
        energy = make(seed)
        clamp = random_evidence(seed, energy.field.shape)
        found = infer(energy, "branch_and_bound", clamp=clamp)
        assert_proven(energy.condition(clamp), found)
        local = infer(energy, "icm", clamp=clamp)
        held = ~np.isnan(clamp)
        np.testing.assert_array_equal(local.assignment[held], clamp[held])
        np.testing.assert_array_equal(np.isinf(local.log_odds), held)
        if seed % 20 == 0:
            program = infer(energy, "milp", clamp=clamp)
            np.testing.assert_array_equal(program.assignment, found.assignment)


def test_evidence_in_a_hard_search():
    """With so many labels the search uses the costs of pairs."""
    energy = dense(3, 14, 6, coupling=0.5, field=0.3)
    rng = np.random.default_rng(0)
    shape = energy.field.shape
    clamp = np.where(rng.random(shape) < 0.2, rng.integers(0, 2, shape), np.nan)
    given = energy.condition(clamp)
    assert_proven(given, infer(given, "branch_and_bound"))


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("n_labels", [1, 6, 14])
@pytest.mark.parametrize("dtype", DTYPES)
def test_beside_exact_inference(n_labels, dtype):
    energy = dense(n_labels, n_labels, 3, coupling=0.3, field=0.6)
    energy = IsingEnergy(energy.coupling.astype(dtype), energy.field.astype(dtype))
    exact = infer(energy, "exact", returns=BOUNDED)
    slack = 1e-7 * largest_field(energy)
    for name in ("branch_and_bound", "milp"):
        found = infer(energy, name, returns=BOUNDED)
        np.testing.assert_array_equal(found.assignment, exact.assignment)
        np.testing.assert_allclose(found.map_bound, exact.map_bound, atol=slack)
        assert (found.map_bound >= exact.map_bound - 1e-11).all()
        assert found.converged.all()
        assert (found.gap <= slack).all()
    local = infer(energy, ICM(n_restarts=10, random_state=0))
    assert (energy.score(local.assignment) <= exact.map_bound + 1e-6).all()


@pytest.mark.parametrize("scale", [deep(1e-9), 1.0, deep(1e6)])
def test_bounds_of_programs_hold_at_any_scale(scale):
    """The gap includes the tolerances of HiGHS: small for the fields, not 0 where it is asked."""
    for seed in range(0, 10 if JIT_DISABLED else 60, 2):
        energy = make(seed, n_rows=3, scale=scale)
        exact, program = infer(energy, "branch_and_bound"), infer(energy, "milp")
        size = largest_field(energy)
        best = energy.score(exact.assignment)
        np.testing.assert_array_equal(energy.score(program.assignment), best)
        assert (program.map_bound >= best).all()
        assert (program.gap <= max(1e-7 * size, 1e-300)).all()
        pull = np.abs(energy.coupling).sum(axis=1)
        undecided = (np.abs(energy.field) <= pull).any(axis=1)
        assert (program.gap[undecided] >= 1e-9 * pull.max()).all()
        score = energy.score(program.assignment)
        np.testing.assert_allclose(program.map_bound - program.gap, score, atol=1e-11 * size)


@pytest.mark.parametrize("n_labels", [14, 18])
def test_more_labels_against_programs(n_labels):
    energy = dense(n_labels, n_labels, 2, coupling=0.08, field=0.8)
    exact, program = infer(energy, "branch_and_bound"), infer(energy, "milp")
    np.testing.assert_array_equal(exact.gap, 0)
    np.testing.assert_array_equal(program.assignment, exact.assignment)


def test_node_limit_leaves_a_gap_that_holds():
    energy = make(2, n_labels=12, n_rows=30)
    best = infer(energy, "branch_and_bound").map_bound
    gaps = []
    for limit in (1, 3, 30, 10_000):
        cut = infer(energy, BranchAndBound(node_limit=limit))
        score = energy.score(cut.assignment)
        assert (score <= best + 1e-9).all()
        assert (cut.map_bound >= best - 1e-9).all()
        np.testing.assert_allclose(cut.gap, cut.map_bound - score, atol=1e-9)
        np.testing.assert_array_equal(cut.converged, cut.gap == 0)
        assert (cut.n_iter <= limit).all()
        gaps.append(cut.gap)
    assert gaps[0].max() > gaps[2].max() > gaps[-1].max() == 0


def test_local_search():
    """No flip of one label raises the score; restarts, starts and limits are respected."""
    energy = dense(0, 12, 40, coupling=1.0, field=0.3)
    clamp = np.full(12, np.nan)
    clamp[[1, 5]] = 0, 1
    given = energy.condition(clamp)
    one = infer(given, "icm")
    score = given.score(one.assignment)
    assert one.converged.all()
    assert one.map_bound is None
    for i in range(12):
        flipped = one.assignment.copy()
        flipped[:, i] = 1 - flipped[:, i]
        assert (given.score(flipped) <= score + 1e-9).all()
    log_odds = given.visible_log_odds(one.assignment)
    np.testing.assert_array_equal(one.log_odds, log_odds)
    many = infer(given, ICM(n_restarts=30, random_state=0))
    assert (given.score(many.assignment) >= score).all()
    assert (given.score(many.assignment) > score + 1e-9).any()
    again = infer(given, ICM(n_restarts=30, random_state=0))
    np.testing.assert_array_equal(again.assignment, many.assignment)
    cut = infer(given, "icm", max_iter=1)
    np.testing.assert_array_equal(cut.n_iter, 1)
    assert not cut.converged.all()
    np.testing.assert_array_equal(cut.converged, one.n_iter == 1)
    resumed = infer(given, "icm", init=many)
    np.testing.assert_array_equal(resumed.assignment, many.assignment)
    np.testing.assert_array_equal(resumed.n_iter, 1)


@pytest.mark.usefixtures("solver")
@pytest.mark.parametrize("margin", [None, 1.0])
def test_one_row_among_others_and_alone(margin):
    """Alone, all its labels are visited; small integers make for many ties."""
    rng = np.random.default_rng(0)
    for n_labels in (1, 2, 5, 9):
        S = np.triu(rng.integers(-2, 3, (n_labels, n_labels)), 1)
        energy = IsingEnergy((S + S.T) / 2, rng.integers(-1, 2, (40, n_labels)) / 2)
        evidence = np.where(rng.random(energy.field.shape) < 0.2, 1.0, np.nan)
        for given in (energy, energy.condition(evidence)):
            together = find_labels(given, BranchAndBound(), margin)
            for row in range(40):
                alone = find_labels(given.rows([row]), BranchAndBound(), margin)
                np.testing.assert_array_equal(alone.labels[0], together.labels[row])
                np.testing.assert_allclose(alone.value, together.value[row], atol=1e-12)
                np.testing.assert_array_equal(alone.lower, alone.value)
                assert alone.converged.all()


def test_weak_couplings_are_quick_for_many_labels():
    """101 labels, as many as Mediamill has; without couplings each is decided alone."""
    energy = dense(0, 101, 20, coupling=0.005, field=1.0)
    np.testing.assert_array_equal(infer(energy, "branch_and_bound").gap, 0)
    alone = infer(IsingEnergy(0 * energy.coupling, energy.field), "branch_and_bound")
    np.testing.assert_array_equal(alone.assignment, energy.field > 0)
    nothing = infer(IsingEnergy(0 * energy.coupling, 0 * energy.field), "branch_and_bound")
    np.testing.assert_array_equal(nothing.gap, 0)


def test_open_labels_among_many(monkeypatch):
    """Most of 80 labels are decided by the others; some rows have open labels and a gap."""
    energy = dense(1, 80, 30, coupling=0.015, field=1.0)
    clamp = np.full((30, 80), np.nan)
    clamp[:10, :5] = 1
    given = energy.condition(clamp)
    few, cut = infer(given, "branch_and_bound"), infer(given, BranchAndBound(node_limit=2))
    np.testing.assert_array_equal(infer(given, "branch_and_bound", n_jobs=2).gap, few.gap)
    part = infer(given.rows(slice(3, 5)), "branch_and_bound")
    np.testing.assert_array_equal(part.map_bound, few.map_bound[3:5])
    monkeypatch.setattr("skcrbm.inference.search.ising._MANY_LABELS", 100)
    every = infer(given, "branch_and_bound")
    np.testing.assert_array_equal(few.assignment, every.assignment)
    np.testing.assert_allclose(few.map_bound, every.map_bound, rtol=1e-12)
    assert every.converged.all()
    assert few.n_iter.sum() < 0.7 * every.n_iter.sum()
    assert cut.gap.max() > 0
    assert (cut.map_bound >= every.map_bound - 1e-9).all()
    np.testing.assert_allclose(given.score(few.assignment), few.map_bound, rtol=1e-12)


def test_a_tie_that_decided_labels_leave_open():
    """The pull of the other labels cancels the field of a label up to rounding."""
    energy = dense(15, 70, 20, coupling=0.02, field=1.0)
    S, signs = energy.coupling, np.sign(energy.field)
    field = 10 * signs
    later = slice(1, 35)  # labels that are decided once the labels after them are
    reach = np.abs(S[later, :35]).sum(axis=1)
    field[:, later] = 1.01 * reach * signs[:, later] - signs[:, 35:] @ S[35:, later]
    field[:, 0] = -signs[:, 1:] @ S[1:, 0]
    found = infer(IsingEnergy(energy.coupling, field), "branch_and_bound")
    np.testing.assert_array_equal(found.assignment[:, 1:], signs[:, 1:] > 0)
    np.testing.assert_array_equal(found.gap, 0)


@pytest.mark.parametrize("margin", [None, 1.5])
def test_labels_without_couplings(margin):
    """The signs of the fields are the labels; clamped labels and their margins remain."""
    rng = np.random.default_rng(0)
    energy = IsingEnergy(np.zeros((4, 4)), rng.normal(size=(5, 4)))
    given = energy.condition(np.where(rng.random((5, 4)) < 0.3, 1.0, np.nan))
    found = find_labels(given, BranchAndBound(), margin)
    known = np.where(given.evidence == 1, 1, energy.field > 0)
    margins = (2 * known - 1) * energy.field
    value = -margins if margin is None else np.maximum(margin - margins, 0)
    np.testing.assert_array_equal(found.labels, known)
    np.testing.assert_allclose(found.value, value.sum(axis=1))
    np.testing.assert_array_equal(found.gap, 0)


@pytest.mark.parametrize("method", ["branch_and_bound", "milp", "icm"])
def test_no_labels(method):
    energy = IsingEnergy(np.zeros((0, 0)), np.zeros((3, 0)))
    result = infer(energy, method)
    assert result.assignment.shape == (3, 0)
    assert result.converged.all()


def test_what_they_answer():
    energy = make(1, n_labels=3)
    able = available_methods(energy, BOUNDED)
    assert {"branch_and_bound", "milp"} <= set(able)
    assert "icm" not in able
    assert "icm" in available_methods(energy, "map")
    assert METHODS.get("milp") is MixedIntegerProgram
    rbm = RBMEnergy([[1.0]], [0.0], [0.0])
    with pytest.raises(ValueError, match="'milp' does not work on RBMEnergy"):
        infer(rbm, "milp")
    with pytest.raises(ValueError, match="'icm' cannot answer 'map_bound'"):
        infer(energy, "icm", returns=BOUNDED)
    with pytest.raises(ValueError, match="'node_limit' parameter"):
        infer(energy, BranchAndBound(node_limit=0))
    with pytest.raises(ValueError, match="'milp' has no option 'max_iter'"):
        infer(energy, "milp", max_iter=3)


def test_penalties_are_not_ties():
    """Five of eight labels are +1: all terms are penalties, and small parts of them decide."""
    rng = np.random.default_rng(0)
    penalty, n = 1e12, 8
    for _ in range(5):
        parts = np.triu(rng.normal(size=(n, n)), 1)
        coupling = parts + parts.T - penalty / 2 * (1 - np.eye(n))
        energy = IsingEnergy(coupling, np.full((1, n), penalty))
        found = infer(energy, "branch_and_bound", returns=BOUNDED)
        best = infer(energy, "exact", returns="map_bound").map_bound[0]
        rounding = 1e-2  # of penalties that add up to 1e13
        assert found.map_bound[0] >= best - rounding
        assert best - energy.score(found.assignment)[0] <= found.gap[0] + rounding
