"""Tables of more than six 0/1 variables: messages, mean field and samplers, by enumeration."""

import dataclasses
import itertools
import warnings

import numpy as np
import pytest
from reference.cases import deep
from reference.factor_graphs import naive_score, naive_statistics

from skcrbm.energies import AndFactors, FactorGraphEnergy, OrFactors, TableFactors
from skcrbm.inference import (
    MaxProduct,
    MeanField,
    SumProduct,
    TreeReweighted,
    available_methods,
    infer,
    sample,
)

ASKED = ("marginals", "statistics", "log_partition")
SUMS = [SumProduct, TreeReweighted]


def graph(cycles, logic=True, zeros=0.1, dtype=np.float64, size=7):
    """Tables of seven and two of eleven variables, an OR and an AND; `size` cuts the largest."""
    rng = np.random.default_rng(1)
    scopes = [[0, 3, 1, 6, 4, 2, 5][:size], [6, 7], [1, 0], [7]]
    scopes += [[0, 7], [8, 6], [9, 8]] if cycles else []
    tables = [rng.normal(size=(2,) * len(scope)) for scope in scopes]
    tables[0][rng.random(tables[0].shape) < zeros] = -np.inf
    base = FactorGraphEnergy.from_tables(scopes, [t.astype(dtype) for t in tables], n_variables=11)
    factors = list(base.factors)
    if logic:
        factors[1:1] = [OrFactors([[7, 8, 10]], [9])] if cycles else [OrFactors([[7, 8]], [10])]
        factors.append(AndFactors([[10]], [5]) if cycles else AndFactors([[8]], [9]))
    energy = FactorGraphEnergy(factors, rng.normal(size=(2, 11)).astype(dtype))
    energy.constant = 0.7
    return energy


def held_in(energy):
    held = np.full((energy.n_models, energy.n_variables), np.nan)
    held[0, 3], held[1, 8], held[1, 6] = 0, 1, 0
    return held


class Enumerated:
    """Answers of model n by naive sums over all states that agree with `held` (n,)."""

    def __init__(self, energy, n, held):
        every = itertools.product((0, 1), repeat=energy.n_variables)
        states = np.array([s for s in every if all((held == s) | np.isnan(held))])
        scores = np.array([naive_score(energy, n, state) for state in states]) + energy.constant
        states, scores = states[scores > -np.inf], scores[scores > -np.inf]
        weight = np.exp(scores - scores.max())
        self.best, self.state = scores.max(), states[scores.argmax()]
        self.log_z = self.best + np.log(weight.sum())
        chance = weight / weight.sum()
        self.marginals = chance @ states
        entries = [p * naive_statistics(energy, s)[0] for p, s in zip(chance, states, strict=True)]
        self.entries = np.sum(entries, axis=0)


@pytest.fixture(scope="module")
def enumerated():
    """Two models with their evidence, and the enumerated answers of each, without cycles."""
    energy = graph(cycles=False)
    held = held_in(energy)
    return energy, held, [Enumerated(energy, n, held[n]) for n in range(2)]


@pytest.mark.parametrize("method", SUMS)
@pytest.mark.parametrize("pairwise", [deep("sum"), "per_example"])
def test_trees(enumerated, method, pairwise):
    energy, held, exact = enumerated
    found = infer(energy, method(), clamp=held, returns=ASKED, pairwise=pairwise)
    assert found.converged.all()
    assert found.log_odds.shape == (2, 11)
    np.testing.assert_allclose(found.marginals, [e.marginals for e in exact], atol=1e-9)
    np.testing.assert_allclose(found.log_partition, [e.log_z for e in exact], rtol=1e-12)
    entries = np.array([e.entries for e in exact])
    expected = entries if pairwise == "per_example" else entries.sum(axis=0)
    np.testing.assert_allclose(found.pairwise, expected, atol=1e-9)


def test_best_state_of_trees(enumerated):
    energy, held, exact = enumerated
    found = infer(energy, "max_product", clamp=held)
    assert found.converged.all()
    assert found.assignment.dtype == np.int8
    np.testing.assert_array_equal(found.assignment, [e.state for e in exact])


def test_samples_of_trees_have_their_probability(enumerated):
    energy, held, exact = enumerated
    asked = ("samples", "sample_log_prob")
    found = infer(energy, "bp_chain", clamp=held, returns=asked, n_samples=20, random_state=0)
    assert found.samples.shape == (2, 20, 11)
    for n, e in enumerate(exact):
        scores = [naive_score(energy, n, state) + energy.constant for state in found.samples[n]]
        np.testing.assert_allclose(found.sample_log_prob[n], np.array(scores) - e.log_z, atol=1e-9)


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")
def test_every_method_answers_with_the_values_of_the_evidence():
    energy = graph(cycles=True)
    held = held_in(energy)
    names = available_methods(energy)
    assert {"sum_product", "tree_reweighted", "max_product", "mean_field", "bp_chain"} <= set(names)
    for name in names:
        found = infer(energy, name, clamp=held)
        for values in (found.marginals, found.assignment, found.samples):
            if values is not None:
                rows = values if values.ndim == 2 else values[:, 0]
                np.testing.assert_array_equal(rows[~np.isnan(held)], held[~np.isnan(held)])


def test_bounds_and_states_on_cycles():
    energy = graph(cycles=True, zeros=0.0)
    exact = [Enumerated(energy, n, np.full(11, np.nan)) for n in range(2)]
    log_z = np.array([e.log_z for e in exact])
    above = infer(energy, TreeReweighted(damping=0.5, max_iter=500), returns=ASKED)
    assert above.converged.all()
    assert (above.log_partition >= log_z - 1e-9).all()
    below = infer(energy, "mean_field", returns=ASKED)
    assert (below.log_partition <= log_z + 1e-9).all()
    score = energy.score(infer(energy, MaxProduct(max_iter=2)).assignment)
    assert (score >= energy.score(infer(energy, "icm", n_restarts=1).assignment) - 1e-9).all()
    assert (score <= np.array([e.best for e in exact]) + 1e-9).all()


@pytest.mark.parametrize("method", [*SUMS, MaxProduct, MeanField])
def test_continued_messages(method):
    """One run of many iterations, or two runs; the second starts from messages, or from beliefs."""
    energy = graph(cycles=True)
    held = held_in(energy)
    options = {"clamp": held, "return_state": True}
    first = infer(energy, method(max_iter=300), **options)
    again = infer(energy, method(max_iter=300), init=first, **options)
    assert (again.n_iter <= first.n_iter).all()
    assert again.n_iter.max() <= 3
    assert first.state.log_odds.shape == (2, 11)
    if method is not MaxProduct:
        np.testing.assert_allclose(again.marginals, first.marginals, atol=1e-5)
        beliefs = dataclasses.replace(first, state=None)
        from_beliefs = infer(energy, method(max_iter=300), init=beliefs, clamp=held)
        np.testing.assert_allclose(from_beliefs.marginals, first.marginals, atol=1e-4)


def test_threads_and_batches_do_not_change_answers():
    energy = graph(cycles=True)
    batch = energy.rows(np.tile([0, 1], 20))
    one, two = (infer(batch, "sum_product", returns=ASKED, n_jobs=n) for n in (1, 2))
    alone = infer(energy, "sum_product", returns=ASKED)
    for name in ("marginals", "log_partition", "pairwise"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    np.testing.assert_array_equal(one.marginals[:2], alone.marginals)


def test_contradictions_do_not_converge():
    table = np.full((2,) * 8, -np.inf)
    energy = FactorGraphEnergy([TableFactors([range(8)], [table])])
    for name in ("sum_product", "tree_reweighted", "max_product"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = infer(energy, name)
        assert not found.converged.any()


def test_large_logic_factors():
    """Methods take an OR of any number of inputs."""
    energy = graph(cycles=False, logic=False)
    wide = OrFactors([range(11, 31)], [31])
    energy = FactorGraphEnergy([*energy.factors, wide], n_variables=32)
    exact = infer(energy, "exact", returns=ASKED)
    found = infer(energy, "sum_product", returns=ASKED)
    np.testing.assert_allclose(found.marginals, exact.marginals, atol=1e-9)
    np.testing.assert_allclose(found.log_partition, exact.log_partition, rtol=1e-12)
    found = infer(energy, "mean_field", returns=ASKED)
    assert found.converged.all()
    assert (found.log_partition <= exact.log_partition).all()
    drawn = sample(energy, "bp_chain", n_samples=100, random_state=0)[0]
    np.testing.assert_array_equal(drawn[:, 31], drawn[:, 11:31].any(axis=1))
