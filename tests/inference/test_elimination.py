"""Exact inference by elimination of variables, against enumeration and transfer matrices."""

import itertools
import time

import numpy as np
import pytest
from reference.conformance import assert_same
from reference.factor_graphs import Enumerated, all_states, random_graph
from scipy.special import logsumexp

from skcrbm.datasets import make_ising_lattice, make_random_ising, make_structured_sequences
from skcrbm.energies import (
    AndFactors,
    FactorGraphEnergy,
    IsingEnergy,
    OrFactors,
    RBMEnergy,
    SparseIsingEnergy,
    TableFactors,
)
from skcrbm.inference import Exact, infer, sample
from skcrbm.inference.exact import elimination, levels, plans

ALL = ("marginals", "statistics", "log_partition")
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


@pytest.fixture(params=["levels", "kernels"])
def both_passes(request, monkeypatch):
    """Small graphs are eliminated by NumPy, and by the kernels for larger graphs."""
    if request.param == "kernels":
        monkeypatch.setattr(levels, "MOST_BUCKETS", 0)


def held_at_random(energy, seed, share=0.5):
    """The models with some variables held at possible values; None if nothing is possible."""
    rng = np.random.default_rng(seed)
    scores = energy.log_weight_of_sets(all_states(energy.n_variables))
    possible = np.flatnonzero((scores > -np.inf).all(axis=0))
    if len(possible) == 0:
        return None
    states = all_states(energy.n_variables)[rng.choice(possible, energy.n_models)].astype(float)
    states[rng.random(states.shape) > share] = np.nan
    return energy.condition(states)


def check(energy):
    """All sums, and the best state."""
    found = infer(energy, "exact", returns=ALL, pairwise="per_example")
    best = infer(energy, "exact", returns=("map", "map_bound"))
    weight = np.linspace(0.5, 2, energy.n_models)
    summed = infer(energy, "exact", returns="statistics", sample_weight=weight).pairwise
    total = np.zeros(energy.n_entries)
    for n in range(energy.n_models):
        exact = Enumerated(energy, n)
        np.testing.assert_allclose(found.log_partition[n], exact.log_z, **CLOSE)
        np.testing.assert_allclose(found.marginals[n], exact.marginals(), **CLOSE)
        entries = exact.entries()
        np.testing.assert_allclose(found.pairwise[n], entries, **CLOSE)
        total += weight[n] * entries
        place = (exact.states == best.assignment[n]).all(axis=1)
        np.testing.assert_allclose(exact.score[place], [exact.best], **CLOSE)
        np.testing.assert_allclose(best.map_bound[n], exact.best, **CLOSE)
        for i in range(energy.n_variables):
            on = exact.states[:, i] == 1
            sides = [exact.score[part].max() for part in (on, ~on)]
            np.testing.assert_allclose(best.log_odds[n, i], sides[0] - sides[1], **CLOSE)
    np.testing.assert_allclose(summed, total, **CLOSE)
    assert found.converged.all()
    assert (best.gap == 0).all()


@pytest.mark.usefixtures("both_passes")
@pytest.mark.parametrize("seed", range(6))
def test_random_graphs(seed):
    energy = random_graph(seed, n_models=2)
    check(energy)
    given = held_at_random(energy, seed)
    assert given is not None
    check(given)


@pytest.mark.usefixtures("both_passes")
def test_rows_that_hold_the_same_variables_are_solved_together():
    energy = random_graph(3, n_models=4)
    states = all_states(9)
    best = states[energy.log_weight_of_sets(states).sum(axis=0).argmax()].astype(float)
    best[[0, 3, 5, 6]] = np.nan
    check(energy.condition(best))


@pytest.mark.usefixtures("both_passes")
@pytest.mark.parametrize("scale", [30, 1000])
def test_strong_tables_and_fields(scale):
    energy = random_graph(5, n_models=2)
    flat = scale * energy.log_potentials
    check(energy.with_log_potentials(flat).with_fields(scale * energy.field))
    far = infer(FactorGraphEnergy([], [3000.0, -1000.0]), "exact", returns=ALL)
    np.testing.assert_array_equal(far.log_odds, [[3000, -1000]])


@pytest.mark.usefixtures("both_passes")
def test_rare_states_keep_their_log_odds():
    """Log-odds beyond the range of weights are exact."""
    energy = random_graph(5, n_models=2)
    energy = energy.with_log_potentials(200 * energy.log_potentials).with_fields(300 * energy.field)
    found = infer(energy, "exact")
    for n in range(2):
        exact = Enumerated(energy, n)
        for i in range(energy.n_variables):
            on, off = (exact.score[exact.states[:, i] == side] for side in (1, 0))
            expected = logsumexp(on) - logsumexp(off)
            np.testing.assert_allclose(found.log_odds[n, i], expected, rtol=1e-9, atol=1e-9)
    assert np.abs(found.log_odds).max() > 1000


def test_large_fields():
    """Small terms keep their digits beside large fields of other variables."""
    rng = np.random.default_rng(0)
    pairs = TableFactors([[0, 1], [1, 2], [2, 3]], rng.normal(size=(3, 4)))
    energy = FactorGraphEnergy([pairs], [[1e8, 0.1, -1e8, 0.3]])
    table = pairs.log_potentials.reshape(3, 2, 2)
    expected = [0.1 + np.diff(table[0][1] + table[1][:, 0]), 0.3 + np.diff(table[2][0])]
    np.testing.assert_allclose(infer(energy, "exact").log_odds[0, [1, 3]], np.ravel(expected))


@pytest.mark.deep
def test_time_of_many_variables():
    """A strip of 10^5 variables of width 2 takes a few seconds of processor time."""
    n = 100_000
    rng = np.random.default_rng(0)
    near, far = np.arange(n - 1), np.arange(n - 2)
    tables = [
        TableFactors(np.stack([near, near + 1], axis=1), rng.normal(size=(n - 1, 2, 2))),
        TableFactors(np.stack([far, far + 2], axis=1), rng.normal(size=(n - 2, 2, 2))),
    ]
    energy = FactorGraphEnergy(tables, rng.normal(size=n))
    start = time.process_time()
    found = infer(energy, "exact", returns=ALL)
    assert time.process_time() - start < 8
    # Conditional probabilities along the strip: the marginals agree with the pairs.
    on = found.pairwise[: 4 * (n - 1)].reshape(n - 1, 4)
    np.testing.assert_allclose(on[:, 2] + on[:, 3], found.marginals[0, :-1], atol=1e-9)
    np.testing.assert_allclose(on[:, 1] + on[:, 3], found.marginals[0, 1:], atol=1e-9)


def test_float32_in_float64_within():
    energy = random_graph(0, dtype=np.float32)
    found = infer(energy, "exact", returns=ALL)
    assert found.log_odds.dtype == found.pairwise.dtype == np.float32
    for n in range(3):
        exact = Enumerated(energy, n)
        np.testing.assert_allclose(found.log_partition[n], exact.log_z, rtol=1e-9)
        np.testing.assert_allclose(found.marginals[n], exact.marginals(), atol=1e-6)


def test_the_sequences_are_counted():
    scopes, sequences = make_structured_sequences(31)
    three = np.array([sum(s) == 3 for s in itertools.product((0, 1), repeat=5)])
    with np.errstate(divide="ignore"):
        energy = FactorGraphEnergy([TableFactors(scopes, np.log(three.astype(float)))])
    found = infer(energy, "exact", returns=ALL)
    assert len(sequences) == 3701
    np.testing.assert_allclose(found.log_partition, np.log(3701), rtol=1e-12)
    np.testing.assert_allclose(found.marginals[0], sequences.mean(axis=0), **CLOSE)
    np.testing.assert_allclose(found.pairwise, energy.statistics(sequences), **CLOSE)
    drawn = sample(energy, "exact", n_samples=500, random_state=0)[0]
    assert (drawn[:, scopes].sum(axis=2) == 3).all()


def test_a_torus_against_its_transfer_matrix():
    side, coupling = 8, -0.2
    y = 2 * all_states(side) - 1
    within = coupling * (y * np.roll(y, 1, axis=1)).sum(axis=1)
    transfer = np.exp(within[:, None] + coupling * y @ y.T)
    log_z = np.log(np.trace(np.linalg.matrix_power(transfer, side)))
    energy = make_ising_lattice((side, side), coupling)
    found = infer(energy, "exact", returns=ALL)
    np.testing.assert_allclose(found.log_partition, log_z, rtol=1e-12)
    np.testing.assert_allclose(found.marginals, 0.5, atol=1e-12)
    assert np.ptp(found.pairwise) < 1e-12  # all edges are alike


def test_all_kinds_of_pairs_are_solved_alike():
    energy = make_random_ising(10, mean_degree=4, random_state=1)
    field = np.random.default_rng(0).normal(size=(3, 10))
    energy = energy.with_fields(field)
    dense = IsingEnergy(energy.coupling.toarray(), field)
    held = np.full(10, np.nan)
    held[[2, 7]] = 0, 1
    for one, other in ((energy, dense), (energy.condition(held), dense.condition(held))):
        found = infer(one, "exact", returns=ALL, pairwise="per_example")
        expected = infer(other, "exact", returns=ALL, pairwise="per_example")
        np.testing.assert_allclose(found.log_odds, expected.log_odds, **CLOSE)
        np.testing.assert_allclose(found.log_partition, expected.log_partition, **CLOSE)
        i, k = energy.edges.T
        np.testing.assert_allclose(found.pairwise, expected.pairwise[:, i, k], **CLOSE)
        best = infer(one, "exact", returns="map").assignment
        np.testing.assert_array_equal(best, infer(other, "exact", returns="map").assignment)
    rng = np.random.default_rng(0)
    rbm = RBMEnergy(rng.normal(size=(5, 3)), rng.normal(size=(2, 5)), rng.normal(size=3))
    found = infer(FactorGraphEnergy.from_energy(rbm), "exact", returns=ALL)
    expected = infer(rbm, "exact", returns=ALL)
    np.testing.assert_allclose(found.log_partition, expected.log_partition, **CLOSE)
    np.testing.assert_allclose(found.log_odds, expected.log_odds, **CLOSE)
    np.testing.assert_allclose(found.pairwise[3::4], expected.pairwise.ravel(), **CLOSE)


# ----------------------------------------------------------------------- samples


def test_samples_have_the_distribution_and_their_own_probability():
    n_samples = 20_000
    energy = random_graph(2, n=7, n_models=2, per_arity=1)
    for given in (energy, held_at_random(energy, 1, 0.3)):
        found = infer(
            given, "exact", returns="sample_log_prob", n_samples=n_samples, random_state=0
        )
        for n in range(2):
            exact = Enumerated(given, n)
            number = found.samples[n] @ (1 << np.arange(7))
            share = np.bincount(number, minlength=128) / n_samples
            p = exact.probability
            assert not share[p == 0].any()
            # Five standard errors, and three further draws of rare states.
            assert (np.abs(share - p) <= 5 * np.sqrt(p * (1 - p) / n_samples) + 3 / n_samples).all()
            expected = np.log(p[number])
            np.testing.assert_allclose(found.sample_log_prob[n], expected, **CLOSE)
        assert not np.array_equal(found.samples[0], found.samples[1])


def test_six_bits_whose_marginals_are_all_one_half():
    weights = np.full(64, 0.0001)
    weights[[0b000000, 0b111111]], weights[[0b001100, 0b110011]] = 0.4, 0.097
    energy = FactorGraphEnergy([TableFactors([range(6)], np.log(weights))])
    assert infer(energy, "exact").marginals == pytest.approx(0.5)
    drawn = sample(energy, "exact", n_samples=5000, random_state=0)[0]
    assert abs((drawn.std(axis=1) == 0).mean() - 0.8) < 0.03
    assert abs((drawn[:, 0] == drawn[:, 1]).mean() - 0.9968) < 0.005


def test_more_samples_begin_with_the_same_ones():
    energy = random_graph(1)
    few = sample(energy, "exact", n_samples=10, random_state=0)
    np.testing.assert_array_equal(
        sample(energy, "exact", n_samples=5000, random_state=0)[:, :10], few
    )


# --------------------------------------------------- refusals and impossible models


def test_a_search_that_stops_early_names_the_table(monkeypatch):
    """The size is that of the table at which the search for an order stopped."""
    n = 40
    monkeypatch.setattr("skcrbm.utils.graphs._MAX_WORK", 5 * n**2 // 2)
    pairs = np.array(list(itertools.combinations(range(n), 2)))
    energy = FactorGraphEnergy([TableFactors(pairs, np.zeros(4))])
    with pytest.raises(ValueError, match=r"a table of at least 2\^40 entries \(8.19e\+03 GiB\)"):
        infer(energy, "exact")
    assert plans._entries(2**2000) == "2^2000 entries (more than 2^1973 GiB)"
    assert plans._entries(3**50) == "more than 2^79 entries (5.35e+15 GiB)"


def test_too_wide_is_refused_at_once():
    pairs = list(itertools.combinations(range(48), 2))
    energy = FactorGraphEnergy([TableFactors(pairs, np.zeros(4))])
    start = time.process_time()
    with pytest.raises(
        ValueError, match=r"a width of at least 47, which needs a table of at least 2\^48 entries"
    ):
        infer(energy, "exact")
    with pytest.raises(ValueError, match="a width of at least 47"):
        infer(SparseIsingEnergy.from_edges(pairs, 0.1, np.zeros(48)), "exact", returns="samples")
    assert time.process_time() - start < 3
    held = np.full(48, np.nan)
    held[:40] = 1
    assert infer(energy, "exact", clamp=held).marginals[0, 40:] == pytest.approx(0.5)
    with pytest.raises(ValueError, match=r"a width of 7, .* max_entries=255"):
        infer(energy, Exact(max_entries=2**8 - 1), clamp=held)
    assert energy.n_enumerated() == 48


def test_many_tables_are_refused_as_one_large_one():
    energy = FactorGraphEnergy([TableFactors([[i, i + 1] for i in range(99)], np.zeros(4))])
    infer(energy, Exact(max_entries=32))
    with pytest.raises(ValueError, match="398 entries in all; the limit is 16 times max_entries=8"):
        infer(energy, Exact(max_entries=8))


def test_an_or_of_many_inputs():
    n = 400
    energy = FactorGraphEnergy(
        [OrFactors([range(n)], [n]), AndFactors([range(n)], [n + 1])], np.full(n + 2, -8.0)
    )
    assert energy.graph.elimination.width <= 3
    found = infer(energy, "exact")
    on = 1 / (1 + np.exp(8.0))
    off = (1 - on) ** n
    assert found.marginals[0, n] == pytest.approx(
        (1 - off) * on / ((1 - off) * on + off * (1 - on))
    )
    held = np.full(n + 2, np.nan)
    held[n] = 0
    assert (infer(energy, "exact", clamp=held).marginals[0, :n] == 0).all()


@pytest.mark.parametrize("returns", ["marginals", "map", "samples"])
def test_evidence_that_cannot_be_is_an_error(returns):
    energy = FactorGraphEnergy([OrFactors([[0, 1]], [2])], np.zeros((2, 3)))
    held = np.full((2, 3), np.nan)
    held[1] = 0, 0, 1
    with pytest.raises(ValueError, match="model 1 has no state of positive weight"):
        infer(energy, "exact", returns=returns, clamp=held)
    none = FactorGraphEnergy([TableFactors([[0, 1]], np.full(4, -np.inf))])
    with pytest.raises(ValueError, match="model 0 has no state of positive weight"):
        infer(none, "exact", returns=returns)


def test_nothing_to_do():
    energy = FactorGraphEnergy([TableFactors([[0, 1]], [0.0, 1.0, 2.0, 3.0])], np.zeros((2, 2)))
    found = infer(energy, "exact", returns=ALL, clamp=[1, 0], pairwise="per_example")
    np.testing.assert_array_equal(found.log_partition, 2)
    np.testing.assert_array_equal(found.pairwise, [[0, 0, 1, 0]] * 2)
    assert infer(energy.rows(slice(0, 0)), "exact").marginals.shape == (0, 2)
    lone = FactorGraphEnergy([], np.zeros((1, 0)))
    assert infer(lone, "exact", returns="log_partition").log_partition == 0


@pytest.mark.usefixtures("both_passes")
@pytest.mark.parametrize("together", [1, 2**30])
def test_models_that_hold_different_variables(monkeypatch, together):
    monkeypatch.setattr(elimination, "_TOGETHER", together)
    given = held_at_random(random_graph(2, n_models=4), 0)
    check(given)
    found = infer(given, "exact", returns="sample_log_prob", n_samples=50, random_state=0)
    for n in range(4):
        exact = Enumerated(given, n)
        number = found.samples[n] @ (1 << np.arange(9))
        np.testing.assert_allclose(found.sample_log_prob[n], np.log(exact.probability[number]))


def test_large_graphs_are_left_to_the_kernels():
    def levels_of(energy):
        (chunk,) = elimination.chunks_of(energy, 2**24)
        return elimination.Model(energy, chunk).levels

    chain = [[i, i + 1] for i in range(599)]
    for n_variables, few in ((2, True), (30, True), (40, False), (600, False)):
        tables = TableFactors(chain[: n_variables - 1], np.zeros((n_variables - 1, 2, 2)))
        assert (levels_of(FactorGraphEnergy([tables])) is not None) == few
    pair = TableFactors([[0, 1]], np.zeros((1, 50, 50)))
    assert levels_of(FactorGraphEnergy([pair], np.zeros((3, 2, 50)))) is not None
    assert levels_of(FactorGraphEnergy([pair], np.zeros((4, 2, 50)))) is None


def test_same_bits_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(elimination, "BLOCK_ENTRIES", 2**11)  # several chunks
    energy = random_graph(4, n_models=12)
    for model in (energy, held_at_random(energy, 0, 0.2)):
        for returns in (ALL, ("map", "sample_log_prob")):
            one = infer(model, Exact(random_state=0), returns=returns)
            for n_jobs in (2, 3):
                assert_same(
                    one, infer(model, Exact(random_state=0), returns=returns, n_jobs=n_jobs)
                )
