"""Answers of linear chains against enumeration of all paths."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chisquare

from skcrbm.energies.chain import ChainEnergies
from skcrbm.inference.chains import (
    ImpossiblePathError,
    best_paths,
    chain_marginals,
    k_best_paths,
    path_log_weights,
    sample_paths,
)

KINDS = ["shared pairs", "pairs by position"]


def random_chains(seed, kind, *, scale=1.5, zeros=0.0, integers=False):
    """Draw up to three short chains; a share of the log-weights is -inf."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, rng.integers(1, 4))
    n_states = int(rng.integers(2, 4))
    start = np.concatenate([[0], np.cumsum(lengths)])
    n_positions = int(start[-1])

    def draw(*shape):
        values = rng.integers(-1, 2, shape).astype(float) if integers else rng.normal(size=shape)
        values = scale * values
        values[rng.random(shape) < zeros] = -np.inf
        return values

    pairs = draw(1 if kind == "shared pairs" else max(n_positions, 2), n_states, n_states)
    return ChainEnergies(start, draw(n_positions, n_states), pairs, draw(n_states), draw(n_states))


def all_paths(energies, c):
    """Return all paths of chain c, with their log-weights by the definition."""
    begin, end = energies.start[c], energies.start[c + 1]
    n_states = energies.scores.shape[1]
    paths = list(itertools.product(range(n_states), repeat=end - begin))
    values = []
    for path in paths:
        value = energies.first[path[0]] + energies.last[path[-1]]
        for k, state in enumerate(path):
            value += energies.scores[begin + k, state]
            if k:
                table = energies.pairs[0 if len(energies.pairs) == 1 else begin + k]
                value += table[path[k - 1], state]
        values.append(value)
    return np.array(paths), np.array(values)


def expected(energies, weight):
    """Return marginals, pair sums and log Z by enumeration."""
    states = np.zeros(energies.scores.shape)
    pairs = np.zeros(energies.pairs.shape)
    log_z = []
    for c in range(energies.n_chains):
        paths, values = all_paths(energies, c)
        log_z.append(logsumexp(values))
        share = weight[c] * np.exp(values - log_z[-1])
        for k in range(paths.shape[1]):
            t = energies.start[c] + k
            np.add.at(states[t], paths[:, k], share)
            if k:
                table = 0 if len(pairs) == 1 else t
                np.add.at(pairs[table], (paths[:, k - 1], paths[:, k]), share)
    return states, pairs, np.array(log_z)


def possible(energies):
    return all(np.isfinite(all_paths(energies, c)[1]).any() for c in range(energies.n_chains))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zeros", [0.0, 0.2])
def test_marginals_paths_and_log_z(kind, zeros):
    rng = np.random.default_rng(0)
    n_checked = 0
    for seed in range(60):
        energies = random_chains(seed, kind, zeros=zeros)
        if not possible(energies):
            continue
        n_checked += 1
        weight = rng.random(energies.n_chains) + 0.5
        states, pairs, log_z = expected(energies, weight)
        found = chain_marginals(energies, weight)
        np.testing.assert_allclose(found.states, states, atol=1e-12)
        np.testing.assert_allclose(found.pairs, pairs, atol=1e-12)
        np.testing.assert_allclose(found.log_z, log_z, atol=1e-12)
        path, value = best_paths(energies)
        np.testing.assert_allclose(path_log_weights(energies, path), value, atol=1e-12)
        ranked = k_best_paths(energies, 5)
        for c in range(energies.n_chains):
            paths, values = all_paths(energies, c)
            assert value[c] == pytest.approx(values.max(), abs=1e-12)
            best = np.sort(values[np.isfinite(values)])[::-1][:5]
            np.testing.assert_allclose(ranked[c][1], best, atol=1e-12)
            assert len(np.unique(ranked[c][0], axis=0)) == len(best)
            by_path = {tuple(p): v for p, v in zip(paths.tolist(), values)}
            for p, v in zip(ranked[c][0].tolist(), ranked[c][1]):
                assert by_path[tuple(p)] == pytest.approx(v, abs=1e-12)
    assert n_checked >= 20


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_underflow(kind):
    """Scores of some thousand leave the range of exp; paths through them are still right."""
    n_slow = 0
    for seed in range(40):
        energies = random_chains(seed, kind, scale=900.0)
        weight = np.ones(energies.n_chains)
        states, pairs, log_z = expected(energies, weight)
        found = chain_marginals(energies, weight)
        np.testing.assert_allclose(found.states, states, atol=1e-9)
        np.testing.assert_allclose(found.pairs, pairs, atol=1e-9)
        np.testing.assert_allclose(found.log_z, log_z, rtol=1e-12)
        n_slow += np.ptp(energies.scores) > 1400
    assert n_slow > 10


def test_two_states_that_exclude_each_other_by_thousands():
    """Forward weights alone choose the wrong path; the last position overrules it."""
    scores = np.array([[0.0, -2000.0], [0.0, 0.0], [-5000.0, 0.0]])
    pairs = np.array([[[0.0, -3000.0], [-3000.0, 0.0]]])
    energies = ChainEnergies(np.array([0, 3]), scores, pairs, np.zeros(2), np.zeros(2))
    found = chain_marginals(energies, np.ones(1))
    np.testing.assert_allclose(found.states, [[0, 1], [0, 1], [0, 1]], atol=1e-12)
    assert found.log_z[0] == pytest.approx(-2000.0)
    uniform = np.random.default_rng(0).random((5, 3))
    assert (sample_paths(energies, uniform) == 1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_ties(kind):
    """With integer weights many paths are best; the value is right, and the state is lowest."""
    for seed in range(60):
        energies = random_chains(seed, kind, scale=1.0, integers=True)
        path, value = best_paths(energies)
        for c in range(energies.n_chains):
            paths, values = all_paths(energies, c)
            assert value[c] == values.max()
            own = path[energies.start[c] : energies.start[c + 1]]
            last = min(p[-1] for p, v in zip(paths, values) if v == values.max())
            assert own[-1] == last


@pytest.mark.parametrize("kind", KINDS)
def test_samples_follow_the_distribution(kind):
    energies = random_chains(8, kind)
    n = 20_000
    uniform = np.random.default_rng(1).random((n, energies.start[-1]))
    drawn = sample_paths(energies, uniform)
    for c in range(energies.n_chains):
        paths, values = all_paths(energies, c)
        own = drawn[:, energies.start[c] : energies.start[c + 1]]
        n_states = energies.scores.shape[1]
        powers = n_states ** np.arange(own.shape[1])[::-1]
        counts = np.bincount(own @ powers, minlength=len(paths))
        p = np.exp(values - logsumexp(values))
        often = p * n >= 5
        observed = np.append(counts[often], counts[~often].sum())
        theory = np.append(p[often], p[~often].sum()) * n
        keep = theory > 0
        assert chisquare(observed[keep], theory[keep]).pvalue > 1e-3


@pytest.mark.parametrize("answer", ["marginals", "best", "k best", "samples"])
def test_impossible_chain_is_named(answer):
    pairs = np.full((1, 2, 2), -np.inf)
    energies = ChainEnergies(np.array([0, 1, 3]), np.zeros((3, 2)), pairs, np.zeros(2), np.zeros(2))
    answers = {
        "marginals": lambda: chain_marginals(energies, np.ones(2)),
        "best": lambda: best_paths(energies),
        "k best": lambda: k_best_paths(energies, 2),
        "samples": lambda: sample_paths(energies, np.zeros((1, 3))),
    }
    with pytest.raises(ImpossiblePathError) as error:
        answers[answer]()
    assert error.value.chain == 1
