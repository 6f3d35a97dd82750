"""Labels of the least hinge loss, against enumeration and mixed integer programs."""

from itertools import product

import numpy as np
import pytest
from conftest import JIT_DISABLED
from reference.ising_labels import (
    enumerate_labels,
    losses_and_scores,
    random_evidence,
    random_model,
)

from skcrbm.decoding import Posterior, decoders_for
from skcrbm.decoding.rules import DECODERS, resolve_decoder
from skcrbm.energies import IsingEnergy, OneHotRBMEnergy, RBMEnergy
from skcrbm.inference import ICM, BranchAndBound, Exact, MixedIntegerProgram
from skcrbm.inference.search.found import hinge_losses_and_scores

N_MODELS = 30 if JIT_DISABLED else 150


def search(fields, S, margin, method=None, known=None, n_jobs=None, rule="hinge"):
    """`CertifiedLabels` of a rule."""
    methods = {} if method is None else {"map": method}
    sets = np.empty((0, fields.shape[1]))
    posterior = Posterior(
        IsingEnergy(S, fields), Exact(), known, sets, n_jobs, state_methods=methods, margin=margin
    )
    result = resolve_decoder(rule).decode_with_gap(posterior)
    np.testing.assert_array_equal(resolve_decoder(rule).decode(posterior), result.labels)
    return result


def assert_best(result, fields, S, margin, known=None):
    for row, field in enumerate(fields):
        given = None if known is None else known[row]
        labels, loss = enumerate_labels(field, S, margin, given)
        assert result.objective[row] == pytest.approx(loss, abs=1e-9)
        np.testing.assert_array_equal(result.labels[row], labels)
    np.testing.assert_array_equal(result.gap, 0)


@pytest.fixture(params=["kernel", "numpy"])
def solver(request, monkeypatch):
    """Few labels are enumerated in NumPy unless the limit forbids it."""
    monkeypatch.setattr(
        "skcrbm.inference.search.ising.FEW_LABELS", 0 if request.param == "kernel" else 6
    )


def test_losses_and_scores():
    (field,), S, margin = random_model(1, n_labels=4, n_rows=1)
    states = np.array(list(product([-1.0, 1.0], repeat=4)))
    mine = hinge_losses_and_scores(states, np.tile(field, (16, 1)), S, margin)
    np.testing.assert_allclose(mine, losses_and_scores(states, field, S, margin))


@pytest.mark.usefixtures("solver")
def test_enumeration():
    n_better = 0
    for seed in range(N_MODELS):
        model = random_model(seed)
        exact, local = search(*model), search(*model, ICM())
        assert_best(exact, *model)
        np.testing.assert_array_equal(local.gap, np.inf)
        assert (local.objective >= exact.objective - 1e-9).all()
        n_better += (local.objective > exact.objective + 1e-9).sum()
    assert n_better > N_MODELS / 2  # the search does more than its start


@pytest.mark.quick_cases(1)
@pytest.mark.usefixtures("solver")
def test_known_labels():
    """The best among the labels that agree with the known labels."""
    for seed in range(0, N_MODELS, 2):
        model = random_model(seed)
        known = random_evidence(seed, model[0].shape)
        exact = search(*model, known=known)
        assert_best(exact, *model, known)
        local = search(*model, ICM(), known)
        given = ~np.isnan(known)
        np.testing.assert_array_equal(local.labels[given], known[given])
        assert (local.objective >= exact.objective - 1e-9).all()
        if seed % 20 == 0:
            program = search(*model, MixedIntegerProgram(), known)
            np.testing.assert_array_equal(program.labels, exact.labels)


def test_known_labels_in_a_hard_search():
    """With so many labels the search uses the costs of pairs."""
    rng = np.random.default_rng(3)
    S = np.triu(rng.normal(scale=0.5, size=(14, 14)), 1)
    model = rng.normal(scale=0.3, size=(6, 14)), S + S.T, 1.0
    shape = model[0].shape
    known = np.where(rng.random(shape) < 0.2, rng.integers(0, 2, shape), np.nan)
    assert_best(search(*model, known=known), *model, known)


def test_restarts_of_the_local_search():
    model = random_model(2, n_labels=9, n_rows=60)
    one, many = search(*model, ICM()), search(*model, ICM(n_restarts=20, random_state=0))
    assert (many.objective <= one.objective).all()
    assert (many.objective < one.objective - 1e-9).any()


@pytest.mark.deep
def test_programs():
    for seed in range(0, 10 if JIT_DISABLED else 60, 2):
        model = random_model(seed, n_rows=3)
        exact, program = search(*model), search(*model, MixedIntegerProgram())
        np.testing.assert_allclose(program.objective, exact.objective, atol=1e-9)
        np.testing.assert_array_equal(program.labels, exact.labels)
        fields, S, margin = model
        largest = margin + np.abs(fields).max() + np.abs(S).sum(axis=1).max()
        assert (program.gap <= 1e-7 * largest).all()
        np.testing.assert_array_equal(program.gap == 0, program.objective == 0)


@pytest.mark.deep
@pytest.mark.parametrize("n_labels", [14, 18])
def test_more_labels_against_programs(n_labels):
    rng = np.random.default_rng(n_labels)
    S = np.triu(rng.normal(scale=0.08, size=(n_labels, n_labels)), 1)
    model = rng.normal(scale=0.8, size=(2, n_labels)), S + S.T, 1.0
    exact, program = search(*model), search(*model, MixedIntegerProgram())
    np.testing.assert_array_equal(exact.gap, 0)
    np.testing.assert_allclose(program.objective, exact.objective, atol=1e-9)
    np.testing.assert_array_equal(program.labels, exact.labels)


@pytest.mark.deep
def test_node_limit_leaves_a_gap_that_holds():
    fields, S, margin = model = random_model(2, n_labels=12, n_rows=30)
    exact = search(*model)
    np.testing.assert_array_equal(exact.gap, 0)
    gaps = []
    for limit in (1, 3, 30, 10_000):
        cut = search(*model, BranchAndBound(node_limit=limit))
        excess = cut.objective - exact.objective
        assert (excess >= -1e-9).all()
        assert (excess <= cut.gap + 1e-9).all()
        loss, _ = hinge_losses_and_scores(2.0 * cut.labels - 1, fields, S, margin)
        np.testing.assert_allclose(cut.objective, loss)
        gaps.append(cut.gap)
    assert gaps[0].max() > gaps[2].max() > gaps[-1].max() == 0


def test_rows_and_threads():
    fields, S, margin = random_model(7, n_labels=9, n_rows=200)
    one = search(fields, S, margin)
    two = search(fields, S, margin, n_jobs=2)
    single = search(fields[130:131], S, margin)
    for mine, other in zip(one, two):
        np.testing.assert_array_equal(mine, other)
    for mine, other in zip(one, single):
        np.testing.assert_array_equal(mine[130:131], other)
    assert search(fields[:0], S, margin).labels.shape == (0, 9)


def test_weak_couplings_are_quick_for_many_labels():
    """101 labels, as many as Mediamill has; without couplings each is decided alone."""
    rng = np.random.default_rng(0)
    S = np.triu(rng.normal(scale=0.005, size=(101, 101)), 1)
    fields = rng.normal(size=(20, 101))
    np.testing.assert_array_equal(search(fields, S + S.T, 1.0).gap, 0)
    alone = search(fields, 0 * S, 1.0)
    np.testing.assert_array_equal(alone.labels, fields > 0)


@pytest.mark.parametrize("n_labels", [4, 12])
@pytest.mark.parametrize("method", [None, BranchAndBound(), MixedIntegerProgram(), ICM()])
def test_highest_score(n_labels, method):
    """The rule "map" on pairwise machines: the same searches, also without a named method."""
    fields, S, margin = random_model(3, n_labels=n_labels)
    known = random_evidence(0, fields.shape)
    result = search(fields, S, margin, method, known, rule="map")
    exact = [enumerate_labels(f, S, known=k) for f, k in zip(fields, known)]
    best = np.array([value for _, value in exact])
    assert (result.objective >= best - 1e-9).all()
    assert (result.objective - best <= result.gap + 1e-9).all()
    if not isinstance(method, ICM):
        np.testing.assert_array_equal(result.labels, [labels for labels, _ in exact])
        assert (result.gap <= 1e-5).all()


def test_rules_of_each_kind_of_energy():
    assert set(decoders_for(IsingEnergy)) == set(DECODERS) - {"marginal_map"}
    assert set(decoders_for(RBMEnergy)) == set(DECODERS) - {"hinge"}
    assert "hinge" not in decoders_for(OneHotRBMEnergy)
