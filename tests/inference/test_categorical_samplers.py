"""Chained belief propagation and perturbed maxima of variables with any number of states."""

import itertools

import numpy as np
import pytest
from reference.cases import deep, deep_except
from reference.categorical import Enumerated, random_graph, with_logic
from scipy.stats import chi2, kstest

from skcrbm.density import MarkovRandomField
from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference import BPChain, PerturbAndMaxProduct, infer, sample
from skcrbm.inference.any_energy.perturb_and_max_product import StateNoise
from skcrbm.inference.random_numbers import random_key

TREE = [(0, 1), (4, 1), (2, 1), (3,), (0,)]
DRAWN = ("samples", "sample_log_prob", "log_partition")

TREES = {
    "two": lambda: two_states(0, TREE),
    "three": lambda: random_graph(1, (3, 3, 3, 3, 3), TREE),
    "mixed": lambda: random_graph(2, (2, 3, 4, 1, 2), TREE),
    "larger tables": lambda: random_graph(3, (2, 3, 2, 3, 2), [(0, 1, 3), (4, 3), (3, 2)]),
    "zeros": lambda: random_graph(4, (2, 3, 4, 1, 2), TREE, zeros=0.25),
    "strong": lambda: random_graph(5, (3, 3, 3, 3, 3), TREE, scale=200.0),
    "Potts": lambda: potts(6, [(0, 1), (1, 2), (1, 3)], 4, 3),
}
LOOPS = {
    "two": lambda: two_states(0, [(0, 1), (4, 1), (2, 1, 0), (0, 2), (3, 4)], 0.6),
    "three": lambda: random_graph(1, (3, 3, 3), [(0, 1), (1, 2), (2, 0)], scale=0.6),
    "mixed": lambda: random_graph(2, scale=0.6),
    "logic": lambda: with_logic(3),
}


def two_states(seed, scopes, scale=1.0):
    """A graph of 0/1 variables, as variables with two states."""
    rng = np.random.default_rng(seed)
    tables = [rng.normal(0, scale, (2,) * len(scope)) for scope in scopes]
    energy = FactorGraphEnergy.from_tables(scopes, tables, rng.normal(size=(2, 5)))
    return energy.with_states()


def potts(seed, edges, n, k):
    rng = np.random.default_rng(seed)
    tables = [strength * np.eye(k) for strength in rng.normal(size=len(edges))]
    return FactorGraphEnergy.from_tables(edges, tables, rng.normal(size=(2, n, k)))


def clamps(energy):
    """No evidence, and other variables held in each row."""
    yield energy
    rng = np.random.default_rng(0)
    best = [e.states[e.probability.argmax()] for e in (Enumerated(energy, n) for n in range(2))]
    yield energy.condition(np.where(rng.random((2, energy.n_variables)) < 0.4, best, np.nan))


def codes(energy, states):
    counts = energy.n_states
    return states.astype(np.int64) @ np.append(np.cumprod(counts[:0:-1])[::-1], 1).astype(int)


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("options", [{}, {"warm_iter": None}, {"order": "random"}])
@pytest.mark.parametrize("name", TREES)
def test_chain_is_exact_on_trees(name, options):
    """The returned probabilities are exact, and the states are drawn with these probabilities."""
    for energy in clamps(TREES[name]()):
        method = BPChain(random_state=0, **options)
        found = infer(energy, method, returns=DRAWN, n_samples=3000)
        for n in range(2):
            exact = Enumerated(energy, n)
            code = codes(energy, found.samples[n])
            expected = exact.scores[code] - exact.log_z
            np.testing.assert_allclose(found.sample_log_prob[n], expected, rtol=1e-9, atol=1e-9)
            # Merge rare states, then test all frequencies.
            count = np.bincount(code, minlength=len(exact.states))
            mean = 3000 * exact.probability
            rare = mean < 5
            seen = np.append(count[~rare], count[rare].sum())
            wanted = np.append(mean[~rare], mean[rare].sum())
            seen, wanted = seen[wanted > 0], wanted[wanted > 0]
            statistic = ((seen - wanted) ** 2 / wanted).sum()
            assert chi2.sf(statistic, max(1, len(seen) - 1)) > 1e-4
            np.testing.assert_allclose(found.log_partition[n], exact.log_z, rtol=1e-9)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", deep_except(("two", "mixed"), LOOPS))
def test_weights_of_the_chain_average_to_z(name):
    for energy in clamps(LOOPS[name]()):
        found = infer(energy, BPChain(random_state=0), returns=DRAWN, n_samples=20_000)
        for n in range(2):
            exact = Enumerated(energy, n)
            score = exact.scores[codes(energy, found.samples[n])]
            with np.errstate(divide="ignore"):
                weight = np.exp(score - found.sample_log_prob[n] - exact.log_z)
            error = weight.std() / np.sqrt(len(weight))
            assert abs(weight.mean() - 1) < 5 * error + 1e-9
            assert abs(found.log_partition[n] - exact.log_z) < 5 * error + 1e-6


def test_probabilities_of_the_chain_are_its_law():
    """On a graph with loops the frequencies of the states are the returned probabilities."""
    energy = random_graph(7, (3, 2, 3), [(0, 1), (1, 2), (2, 0)], n_models=1, scale=1.5)
    found = infer(energy, BPChain(random_state=1), returns=DRAWN, n_samples=40_000)
    code = codes(energy, found.samples[0])
    chance = np.zeros(18)
    for c, log_prob in zip(code, found.sample_log_prob[0], strict=True):
        assert chance[c] == 0 or chance[c] == pytest.approx(np.exp(log_prob), rel=1e-9)
        chance[c] = np.exp(log_prob)
    assert chance.sum() == pytest.approx(1, abs=1e-3)
    share = np.bincount(code, minlength=18) / len(code)
    assert (abs(share - chance) < 5 * np.sqrt(chance / len(code)) + 1e-9).all()


@pytest.mark.parametrize("scopes", [[(0, 1), (1, 2), (1, 3)], [(0, 1), (1, 2), (2, 0), (0, 3, 1)]])
def test_two_states_are_drawn_as_binary_variables(scopes):
    """The same random numbers give the same states, once all messages have converged."""
    rng = np.random.default_rng(3)
    tables = [rng.normal(0, 0.5, (2,) * len(scope)) for scope in scopes]
    binary = FactorGraphEnergy.from_tables(scopes, tables, rng.normal(size=(2, 4)))
    same = binary.with_states()
    method = BPChain(max_iter=200, warm_iter=200, random_state=0)
    one, two = (infer(e, method, returns=DRAWN, n_samples=300) for e in (binary, same))
    np.testing.assert_array_equal(one.samples, two.samples)
    np.testing.assert_allclose(one.sample_log_prob, two.sample_log_prob, rtol=1e-9, atol=1e-9)


def test_underflow_falls_back_to_logarithms_for_each_sample():
    """Weights of a chain may underflow after a variable is clamped; the sample is drawn again."""
    table = np.zeros((3, 3))
    table[0, 1:] = table[1:, 0] = -280.0
    energy = FactorGraphEnergy.from_tables([(0, 1), (1, 2), (2, 0)], [table] * 3)
    found = infer(energy, BPChain(random_state=0), returns=DRAWN, n_samples=200)
    exact = Enumerated(energy)
    assert np.isfinite(found.sample_log_prob).all()
    assert (exact.scores[codes(energy, found.samples[0])] == 0).all()
    assert abs(found.log_partition[0] - exact.log_z) < 0.5


def test_contradictions_are_reported():
    """Five variables of four states that must all differ: the chain cannot succeed."""
    table = np.zeros((4, 4))
    np.fill_diagonal(table, -np.inf)
    edges = list(itertools.combinations(range(5), 2))
    energy = FactorGraphEnergy.from_tables(edges, [table] * len(edges))
    with pytest.warns(UserWarning, match="no state has a positive weight"):
        found = infer(energy, "bp_chain", n_samples=5, random_state=0)
    assert not found.converged.any()
    assert (found.samples < 4).all()


def best_perturbed(energy, n, noise):
    """The best states under noise (S, n, K), and their perturbed scores, by enumeration."""
    exact = Enumerated(energy, n)
    own = noise * energy.free[n][:, None]
    total = exact.scores + sum(own[:, v, exact.states[:, v]] for v in range(energy.n_variables))
    return exact.states[total.argmax(axis=1)], total


def first_noise(energy, n, n_samples, seed, noisy=None):
    """Noise of the samples of model n in a first call with this seed."""
    streams = n * n_samples + np.arange(n_samples)
    noise = StateNoise(energy.n_states).draw(random_key(seed), streams, 0)
    if noisy is not None:
        noise[:, ~noisy] = 0
    return noise


@pytest.mark.parametrize("name", TREES)
def test_perturbed_maxima_of_trees(name):
    """With the same noise on every state, each sample is the best state of all."""
    for energy in clamps(TREES[name]()):
        found = infer(
            energy, "perturb_and_max_product", returns=("samples", "log_partition"), n_samples=300,
            random_state=5,
        )  # fmt: skip
        for n in range(2):
            noise = first_noise(energy, n, 300, 5)
            states, total = best_perturbed(energy, n, noise)
            np.testing.assert_array_equal(found.samples[n], states)
            mean = [noise[:, v, :k].mean(1) for v, k in enumerate(energy.n_states)]
            mean = (np.array(mean).T * energy.free[n]).sum(1)
            expected = (total.max(axis=1) - mean).mean()
            np.testing.assert_allclose(found.log_partition[n], expected, rtol=1e-9)


@pytest.mark.parametrize("name", LOOPS)
def test_perturbed_maxima_of_graphs_with_loops(name):
    """Nearly all samples are the best state, and no sample is better than the best state."""
    energy = LOOPS[name]()
    noisy = np.ones(energy.n_variables, bool)
    noisy[energy.ors.outputs] = noisy[energy.ands.outputs] = False
    found = sample(energy, "perturb_and_max_product", n_samples=1000, random_state=2)
    for n in range(2):
        states, _ = best_perturbed(energy, n, first_noise(energy, n, 1000, 2, noisy))
        assert (found[n] == states).all(axis=1).mean() > 0.97


@pytest.mark.parametrize("scopes", [deep([(0, 1), (1, 2)]), [(0, 1), (1, 2), (2, 0)]])
def test_law_of_two_states(scopes):
    """Gumbel noise on both states is logistic noise on the log-odds."""
    rng = np.random.default_rng(4)
    tables = [rng.normal(size=(2, 2)) for _ in scopes]
    binary = FactorGraphEnergy.from_tables(scopes, tables, rng.normal(size=(1, 3)))
    same = binary.with_states()
    n_samples = 40_000
    shares = []
    for seed, energy in ((0, binary), (1, same)):
        states = sample(energy, PerturbAndMaxProduct(random_state=seed), n_samples=n_samples)[0]
        shares.append(np.bincount(states @ [4, 2, 1], minlength=8) / n_samples)
    error = np.sqrt((shares[0] + shares[1]) / n_samples)
    assert (abs(shares[0] - shares[1]) < 5 * error + 2e-4).all()


def test_noise_keeps_its_law():
    """With persistence the noise stays Gumbel noise, correlated from call to call."""
    energy = FactorGraphEnergy([], np.zeros((1, 500, 3)))
    method = PerturbAndMaxProduct(persistence=0.8, random_state=0)
    first = infer(energy, method, n_samples=2, return_state=True)
    later = infer(energy, method, n_samples=2, init=first, return_state=True)
    one, two = first.state.noise, later.state.noise
    for noise in (one, two):
        assert kstest(noise.ravel() + np.euler_gamma, "gumbel_r").pvalue > 1e-3
    kind = StateNoise(energy.n_states)
    normal = kind.as_normal(one)
    np.testing.assert_allclose(kind.from_normal(normal), one, rtol=1e-9, atol=1e-9)
    correlation = np.corrcoef(normal.ravel(), kind.as_normal(two).ravel())[0, 1]
    assert 0.75 < correlation < 0.85
    z = np.array([-8.0, -1.0, 0.0, 1.0, 8.0])
    np.testing.assert_allclose(kind.as_normal(kind.from_normal(z)), z, atol=1e-9)


def test_messages_continue():
    """With persistence of 1 in the limit, continued messages need only a few sweeps."""
    energy = LOOPS["mixed"]()
    method = PerturbAndMaxProduct(persistence=1 - 1e-12, random_state=0)
    first = infer(energy, method, n_samples=50, return_state=True)
    method = method.set_params(max_iter=1)
    later = infer(energy, method, n_samples=50, init=first)
    assert (first.samples == later.samples).all(axis=2).mean() > 0.95


@pytest.mark.parametrize("learning", [deep("bp_chain"), "weighted_bp_chain", deep("pmp")])
def test_learning(learning):
    """The moments of the learned model are the moments of the data."""
    rng = np.random.default_rng(0)
    truth = FactorGraphEnergy.from_tables(
        [(0, 1), (1, 2)], [2 * np.eye(3), rng.normal(size=(3, 2))]
    )
    rows = sample(truth, "exact", n_samples=500, random_state=0)[0]
    words = np.array(["a", "b", "c"], object)[rows]
    model = MarkovRandomField(
        [(0, 1), (1, 2)], categories="auto", learning=learning, max_iter=300, random_state=0
    ).fit(words)
    sampler = "perturb_and_max_product" if learning == "pmp" else "exact"
    drawn = sample(model.energy_, sampler, n_samples=20_000, random_state=1)[0]
    for i, j in ((0, 1), (1, 2)):
        counts = [np.bincount(s[:, i] * 3 + s[:, j], minlength=9) / len(s) for s in (rows, drawn)]
        np.testing.assert_allclose(*counts, atol=0.035)
