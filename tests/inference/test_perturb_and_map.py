"""Perturb-and-MAP against maxima over all states; bounds on shares are five standard errors."""

import numpy as np
import pytest
from reference.naive_perturbed import distribution_of_maxima, first_noise, shares
from reference.states import all_states

from skcrbm.density import IsingModel
from skcrbm.energies import (
    AndFactors,
    FactorGraphEnergy,
    IsingEnergy,
    OrFactors,
    RBMEnergy,
    SparseIsingEnergy,
    TableFactors,
)
from skcrbm.inference import (
    ICM,
    PerturbAndMAP,
    available_methods,
    estimate_log_partition,
    infer,
    sample,
)
from skcrbm.learning import PMPLearning


def rbm():
    rng = np.random.default_rng(1)
    return RBMEnergy(rng.normal(scale=1.5, size=(3, 2)), rng.normal(size=3), rng.normal(size=2))


def ising():
    rng = np.random.default_rng(2)
    coupling = np.triu(rng.normal(size=(4, 4)), 1)
    return IsingEnergy(coupling + coupling.T, rng.normal(0, 0.5, 4))


def sparse():
    dense = ising()
    return SparseIsingEnergy(dense.coupling, dense.field)


def logic():
    """An OR, an AND and two tables, with a loop; the outputs 3 and 4 get no noise."""
    rng = np.random.default_rng(4)
    tables = TableFactors([[3, 4], [0, 2]], rng.normal(scale=1.5, size=(2, 4)))
    return FactorGraphEnergy([tables, OrFactors([[0, 1]], [3]), AndFactors([[1, 2]], [4])])


ENERGIES = {"rbm": rbm, "ising": ising, "sparse": sparse, "logic": logic}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", ENERGIES)
def test_distribution_of_exact_maxima(kind):
    """Shares of the states, and the mean maximum, by another generator of random numbers."""
    energy = ENERGIES[kind]()
    noisy = np.ones(energy.n_variables)
    if kind == "logic":
        noisy[[3, 4]] = 0
    expected, mean, error, probability = distribution_of_maxima(energy, 100_000, noisy)
    n = 8000
    found = infer(
        energy, PerturbAndMAP("exact", random_state=0), returns=("samples", "log_partition"),
        n_samples=n,
    )  # fmt: skip
    spread = np.sqrt(expected * (1 - expected) * (1 / n + 1e-5)) + 1e-4
    drawn = shares(found.samples[0])
    assert (np.abs(drawn - expected) <= 5 * spread).all()
    # The distribution of the model is another one.
    assert (np.abs(drawn - probability) > 5 * spread).any()
    off = abs(found.log_partition[0] - mean)
    assert off <= 5 * np.hypot(found.standard_error[0], error)
    exact = infer(energy, "exact", returns="log_partition").log_partition[0]
    assert found.log_partition[0] > exact  # an upper bound in expectation
    estimate = estimate_log_partition(energy, method="perturb_and_map", random_state=0)
    assert abs(estimate.log_partition[0] - exact) < 3


@pytest.mark.parametrize("kind", ENERGIES)
@pytest.mark.parametrize("inference", ["exact", "mplp", "linear_program"])
def test_maxima_of_the_given_noise(kind, inference):
    """No state is better than the samples of "exact"; relaxations have the same noise."""
    energy, n = ENERGIES[kind](), 30
    states = all_states(energy.n_variables)
    noise = first_noise(n, energy.n_variables, 5)
    if kind == "logic":
        noise[:, [3, 4]] = 0
    scores = energy.rows([0] * len(states)).score(states) + noise @ states.T
    drawn = sample(energy, PerturbAndMAP(inference), n_samples=n, random_state=5)[0]
    reached = energy.rows([0] * n).score(drawn) + (noise * drawn).sum(axis=1)
    best = scores.max(axis=1)
    if inference == "exact":
        np.testing.assert_allclose(reached, best)
        np.testing.assert_array_equal(drawn, states[scores.argmax(axis=1)])
    else:
        assert (reached <= best + 1e-9).all()
        assert (reached >= best - 1e-9).mean() > 0.6


def test_evidence_and_threads():
    energy = rbm().rows([0] * 3)
    clamp = np.full((3, 5), np.nan)
    clamp[0, 0], clamp[1, 4] = 1, 0
    found = [
        sample(energy, PerturbAndMAP("exact"), n_samples=40, clamp=clamp, random_state=3, n_jobs=j)
        for j in (1, 2)
    ]
    np.testing.assert_array_equal(*found)
    assert (found[0][0, :, 0] == 1).all()
    assert (found[0][1, :, 4] == 0).all()
    assert 0 < found[0][2, :, 0].mean() < 1
    given = energy.condition(clamp)
    expected, *_ = distribution_of_maxima(given, 100_000, np.ones(5))
    drawn = sample(given.rows([0]), PerturbAndMAP("exact"), n_samples=5000, random_state=0)[0]
    spread = np.sqrt(expected * (1 - expected) * (1 / 5000 + 1e-5)) + 1e-4
    assert (np.abs(shares(drawn) - expected) <= 5 * spread).all()


def test_three_states():
    """Shares of the nine states of a pair of variables with Gumbel noise on each state."""
    rng = np.random.default_rng(0)
    table, field = rng.normal(scale=1.5, size=9), rng.normal(size=(2, 3))
    energy = FactorGraphEnergy([TableFactors([[0, 1]], table.reshape(3, 3))], field)
    noise = rng.gumbel(size=(200_000, 2, 3))
    own = (field + noise)[:, :, :, None]
    total = table.reshape(3, 3) + own[:, 0] + own[:, 1].transpose(0, 2, 1)
    expected = np.bincount(total.reshape(-1, 9).argmax(axis=1), minlength=9) / 200_000
    for inference in ("exact", "mplp"):  # a tree: the relaxation is tight
        drawn = sample(energy, PerturbAndMAP(inference), n_samples=2000, random_state=0)[0]
        found = np.bincount(3 * drawn[:, 0] + drawn[:, 1], minlength=9) / 2000
        spread = np.sqrt(expected * (1 - expected) * (1 / 2000 + 1 / 200_000))
        assert (np.abs(found - expected) <= 5 * spread).all()


def test_searches_that_energies_have():
    energy = ising()
    assert "perturb_and_map" in available_methods(energy, "samples")
    assert "samples" in PerturbAndMAP("max_product").supports(energy)
    assert PerturbAndMAP("branch_and_bound").supports(rbm()) == frozenset()
    with pytest.raises(ValueError, match="'perturb_and_map' does not work on RBMEnergy"):
        sample(rbm(), PerturbAndMAP("milp"))
    with pytest.raises(ValueError, match="'exact', 'max_product', 'branch_and_bound'"):
        sample(energy, PerturbAndMAP("maximum"))
    with pytest.raises(ValueError, match="has no option 'init'"):
        sample(energy, PerturbAndMAP(), init=infer(energy, "exact"))


@pytest.mark.parametrize("inference", ["exact", ICM(random_state=0)])
def test_learned_weights_belong_to_the_sampler(inference):
    """Samples have the moments of the data, which samples of the Gibbs distribution lack."""
    theta = 0.5 * (1 - np.eye(4))
    X = sample(IsingEnergy(theta, np.zeros(4)), "exact", n_samples=2000, random_state=0)[0]
    rule = PMPLearning(PerturbAndMAP(inference), n_samples=200)
    model = IsingModel(learning=rule, max_iter=150, random_state=0).fit(X)
    pairs = np.triu_indices(4, 1)
    assert 0.2 < model.coupling_[pairs].mean() < 0.45
    drawn = model.sample(5000, random_state=1)
    y, z = 2.0 * X - 1, 2.0 * drawn - 1
    assert (np.abs((y.T @ y / len(y) - z.T @ z / len(z))[pairs]) < 0.12).all()
    with pytest.warns(UserWarning, match="samples drawn by perturb-and-MAP resemble"):
        model.score_samples(X[:5])
