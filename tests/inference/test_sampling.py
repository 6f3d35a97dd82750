"""Random numbers, Gibbs marginals, samples, annealed importance sampling.

Statistical bounds are five standard errors at fixed seeds. Tests that draw many numbers are marked
`compiled`: the interpreter would take minutes.
"""

import tracemalloc

import numpy as np
import pytest
from reference.brute_force import best_states
from reference.dtypes import DTYPES
from reference.random_models import random_clamp, random_rbm
from scipy.stats import chi2, kstest

from skcrbm.energies import OneHotRBMEnergy, RBMEnergy
from skcrbm.inference import Exact, Gibbs, estimate_log_partition, infer, sample
from skcrbm.inference.random_numbers import logistic_noise, random_key, uniforms

# ------------------------------------------------------------------------ random numbers


def test_uniforms_are_uniform_and_uncorrelated():
    u = uniforms(random_key(0), np.arange(300), 7, 400)
    assert u.min() > 0
    assert u.max() < 1
    assert kstest(u.ravel(), "uniform").pvalue > 1e-4
    bound = 5 / np.sqrt(u.size)
    other = uniforms(random_key(0), np.arange(300), 8, 400)
    pairs = [(u[1:], u[:-1]), (u[:, 1:], u[:, :-1]), (u, other)]
    pairs.append((u, uniforms(random_key(1), np.arange(300), 7, 400)))
    for a, b in pairs:
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < bound
    counts = np.bincount((u.ravel() * 64).astype(int), minlength=64)
    statistic = ((counts - u.size / 64) ** 2 / (u.size / 64)).sum()
    assert chi2.sf(statistic, 63) > 1e-4


def test_uniforms_are_keyed_by_their_counters():
    key = random_key(3)
    whole = uniforms(key, [5, 0, 9], 2, 8)
    np.testing.assert_array_equal(uniforms(key, [9], 2, 8)[0], whole[2])
    np.testing.assert_array_equal(uniforms(key, [5], 2, 3)[0], whole[0, :3])
    assert not np.isin(uniforms(key, [5, 0, 9], 3, 8), whole).any()


def test_logistic_noise():
    x = logistic_noise(random_key(0), np.arange(100), 0, 500)
    assert kstest(x.ravel(), "logistic").pvalue > 1e-4


# ------------------------------------------------------------------------ Gibbs marginals


@pytest.mark.compiled
def test_the_error_falls_with_the_number_of_sweeps():
    energy = random_rbm(1, 8, 6, n_models=20, scale=1.0)
    exact = infer(energy, "exact").marginals
    errors = []
    for max_iter in (50, 800):
        result = infer(energy, Gibbs(max_iter=max_iter, random_state=0))
        errors.append(np.sqrt(((result.marginals - exact) ** 2).mean()))
    assert 2 < errors[0] / errors[1] < 8  # 16 times the sweeps: 4 times the accuracy


def test_two_modes_are_not_convergence():
    """Chains that stay in different modes are reported as not converged."""
    weights = np.full((6, 6), 4.0)
    two = RBMEnergy(weights, np.full(6, -12.0), np.full((1, 6), -12.0))
    one = RBMEnergy(weights, np.full(6, 2.0), np.full((1, 6), 2.0))
    assert not infer(two, Gibbs(random_state=0)).converged[0]
    assert infer(one, Gibbs(random_state=0)).converged[0]


def test_too_few_sweeps_to_judge():
    energy = random_rbm(2, 3, 2)
    assert not infer(energy, Gibbs(max_iter=3, random_state=0)).converged[0]


def test_gibbs_does_not_depend_on_the_batch_or_threads():
    energy = random_rbm(3, 6, 5, n_models=9, scale=1.0)
    method = Gibbs(max_iter=30, burn_in=5, random_state=4)
    whole = infer(energy, method, returns=("marginals", "pairwise"))
    for row in (0, 8):
        alone = infer(energy.rows([row]), method)
        np.testing.assert_allclose(alone.marginals[0], whole.marginals[row], atol=1e-12)
    again = infer(energy, method, returns=("marginals", "pairwise"))
    np.testing.assert_array_equal(again.log_odds, whole.log_odds)
    np.testing.assert_array_equal(again.pairwise, whole.pairwise)


def test_gibbs_in_blocks(monkeypatch):
    energy = random_rbm(3, 6, 5, n_models=9, scale=1.0)
    method = Gibbs(max_iter=30, burn_in=5, random_state=4)
    returns = ("marginals", "pairwise")
    whole = infer(energy, method, returns=returns)
    monkeypatch.setattr("skcrbm.inference.any_energy.gibbs.CHAIN_UNITS", 1)
    one = infer(energy, method, returns=returns, n_jobs=1)
    two = infer(energy, method, returns=returns, n_jobs=2)
    np.testing.assert_array_equal(one.log_odds, two.log_odds)
    np.testing.assert_array_equal(one.pairwise, two.pairwise)
    np.testing.assert_allclose(one.log_odds, whole.log_odds, rtol=1e-10)
    np.testing.assert_allclose(one.pairwise, whole.pairwise, rtol=1e-10)


def test_init_continues_the_chains():
    energy = random_rbm(4, 6, 5, n_models=3, scale=1.0)
    first = infer(energy, Gibbs(max_iter=20, burn_in=10, random_state=0))
    second = infer(energy, Gibbs(max_iter=30, burn_in=10), init=first)
    whole = infer(energy, Gibbs(max_iter=50, burn_in=10, random_state=0))
    np.testing.assert_array_equal(second.state.states, whole.state.states)
    assert second.state.step == whole.state.step
    assert (second.n_iter == 30).all()
    with pytest.raises(ValueError, match=r"init must contain 4 chains for each of 3 models"):
        infer(energy, Gibbs(n_chains=4), init=first)
    both = infer(energy, Gibbs(random_state=0), returns=("marginals", "samples"), n_samples=5)
    again = infer(energy, Gibbs(), returns=("marginals", "samples"), n_samples=5, init=both)
    assert again.samples.shape == (3, 5, 11)
    # Messages are no chains: these are drawn from the beliefs.
    loopy = infer(energy, "sum_product", return_state=True)
    assert infer(energy, Gibbs(random_state=0), init=loopy).marginals.shape == (3, 11)


def test_state_continues_the_samples():
    """Two calls give the draws of a single call; the second call's evidence holds from there on."""
    energy = random_rbm(4, 6, 5, n_models=3, scale=1.0)
    options = {"n_samples": 8, "n_chains": 4, "thin": 3}
    whole = sample(energy, **{**options, "n_samples": 16}, random_state=0)
    first, state = sample(energy, **options, random_state=0, return_state=True)
    second, after = sample(energy, **options, init=state, return_state=True)
    np.testing.assert_array_equal(np.concatenate([first, second], axis=1), whole)
    assert after.step == state.step + 6
    clamp = [1.0, *[np.nan] * 10]
    held = sample(energy, **options, init=state, clamp=clamp)
    assert (held[..., 0] == 1).all()


def test_a_name_is_the_object_with_its_defaults():
    energy = random_rbm(5, 4, 3, n_models=2)
    for name, method in (("gibbs", Gibbs()), ("exact", Exact())):
        for options in ({}, {"n_samples": 3}):
            one = sample(energy, name, random_state=0, **options)
            np.testing.assert_array_equal(one, sample(energy, method, random_state=0, **options))


def test_init_without_chains_says_where_they_start():
    """Two modes that chains do not leave: they stay where the earlier marginals put them."""
    energy = RBMEnergy(np.full((6, 6), 4.0), np.full(6, -12.0), np.full((2, 6), -12.0))
    clamp = np.repeat([[0.0], [1.0]], 12, axis=1)
    start = infer(energy, "exact", clamp=clamp)
    result = infer(energy, Gibbs(max_iter=20, random_state=0), init=start)
    assert (result.marginals[0] < 0.1).all()
    assert (result.marginals[1] > 0.9).all()


# -------------------------------------------------------------------------------- samples


def frequencies_fit(energy, states, clamp=None):
    """p-value of the chi-squared test of joint states against enumeration."""
    p_values = []
    for n, (b, c) in enumerate(zip(*energy.fields, strict=True)):
        all_states, scores, _ = best_states(energy.weights, b, c, clamp)
        expected = np.exp(scores - np.logaddexp.reduce(scores)) * states.shape[1]
        binary = 2 ** np.arange(energy.n_variables)
        found = np.bincount(states[n] @ binary, minlength=2**energy.n_variables)
        found = found[(all_states @ binary).astype(int)]
        assert found.sum() == states.shape[1]
        rare = expected < 5
        expected = np.append(expected[~rare], expected[rare].sum())
        found = np.append(found[~rare], found[rare].sum())
        keep = expected > 0
        statistic = ((found - expected)[keep] ** 2 / expected[keep]).sum()
        p_values.append(chi2.sf(statistic, keep.sum() - 1))
    return np.array(p_values)


@pytest.mark.compiled
def test_thinned_samples_of_few_chains():
    energy = random_rbm(6, 3, 2, scale=1.0)
    states = sample(energy, n_samples=4000, n_chains=20, thin=20, random_state=0)
    assert frequencies_fit(energy, states)[0] > 1e-4


@pytest.mark.parametrize("method", ["gibbs", "exact"])
def test_samples_do_not_depend_on_threads_or_blocks(method, monkeypatch):
    energy = random_rbm(8, 5, 4, n_models=7, scale=1.0)
    options = {"n_samples": 30, "random_state": 1}
    if method == "gibbs":
        options |= {"n_chains": 8, "thin": 2, "burn_in": 3}
    whole = sample(energy, method, **options)
    monkeypatch.setattr("skcrbm.inference.any_energy.gibbs.CHAIN_UNITS", 1)
    monkeypatch.setattr("skcrbm.inference.exact.rbm._BLOCK_UNITS", 1)
    for n_jobs in (1, 2):
        np.testing.assert_array_equal(sample(energy, method, n_jobs=n_jobs, **options), whole)
    assert not np.array_equal(whole[0], whole[1])


@pytest.mark.deep
def test_exact_samples_do_not_need_a_table_of_all_states():
    energy = random_rbm(15, 16, 400, scale=0.1)
    sample(energy.rows([0]), "exact", random_state=0)
    tracemalloc.start()
    try:
        sample(energy, "exact", n_samples=10, random_state=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.2 * 2**16 * 400 * 8


def test_chain_layout():
    """Sample s belongs to chain s % n_chains; more samples extend the same chains."""
    energy = random_rbm(9, 5, 4, scale=1.0)
    options = {"n_chains": 3, "thin": 2, "burn_in": 4, "random_state": 2}
    short = sample(energy, n_samples=7, **options)
    np.testing.assert_array_equal(sample(energy, n_samples=12, **options)[:, :7], short)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "sum_product"}, "'sum_product' cannot answer 'samples'; .* 'exact', 'gibbs'"),
        ({"method": "no_such"}, "method must be one of 'auto', 'exact', "),
        ({"method": "exact", "thin": 2}, "'exact' has no option 'thin'; its options are"),
        (
            {"method": "gibbs", "return_log_prob": True},
            "'gibbs' cannot answer 'sample_log_prob'; .* 'exact'",
        ),
        ({"n_samples": 0}, "n_samples must be an int of at least 1, got 0"),
        ({"burn_in": -1}, "burn_in must be an int of at least 0"),
        ({"thin": 0.5}, "thin must be an int"),
        ({"n_chains": 0}, "n_chains must be an int"),
        ({"clamp": [2.0] * 5}, "clamp must hold 0 or 1"),
    ],
)
def test_bad_arguments_of_sample(arguments, message):
    with pytest.raises(ValueError, match=message):
        sample(random_rbm(0, 3, 2), **arguments)


def test_what_cannot_be_sampled():
    with pytest.raises(ValueError, match=r"smaller layer, which has 21 units.*'gibbs'"):
        sample(random_rbm(0, 21, 22), "exact")


# ------------------------------------------------------------ annealed importance sampling


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_estimate_is_within_its_error(scale, dtype):
    energy = random_rbm(11, 8, 6, n_models=8, scale=scale, dtype=dtype)
    exact = infer(energy, "exact", returns="log_partition").log_partition
    estimate = estimate_log_partition(energy, n_chains=100, n_betas=300, random_state=0)
    assert (np.abs(estimate.log_partition - exact) < 5 * estimate.standard_error).all()
    assert (estimate.standard_error < 0.2).all()
    assert (estimate.effective_sample_size > 20).all()
    assert (estimate.effective_sample_size <= 100).all()


@pytest.mark.deep
@pytest.mark.compiled
@pytest.mark.parametrize("n_betas", [1, 2, 10])
def test_estimate_of_z_is_unbiased(n_betas):
    energy = random_rbm(12, 4, 3, scale=1.0)
    exact = infer(energy, "exact", returns="log_partition").log_partition[0]
    ratios = np.exp(
        [
            estimate_log_partition(energy, 20, n_betas, seed).log_partition[0] - exact
            for seed in range(400)
        ]
    )
    assert abs(ratios.mean() - 1) < 5 * ratios.std() / np.sqrt(len(ratios))


@pytest.mark.deep
@pytest.mark.compiled
def test_standard_error_is_honest():
    energy = random_rbm(13, 6, 5, scale=1.0)
    runs = [estimate_log_partition(energy, 50, 50, seed) for seed in range(200)]
    spread = np.std([r.log_partition[0] for r in runs])
    claimed = np.mean([r.standard_error[0] for r in runs])
    assert 0.7 < claimed / spread < 1.4


@pytest.mark.compiled
def test_estimate_with_clamps_and_threads(monkeypatch):
    energy = random_rbm(14, 6, 5, n_models=5, scale=1.0)
    clamp = random_clamp(np.random.default_rng(14), 5, 11)
    exact = infer(energy, "exact", returns="log_partition", clamp=clamp).log_partition
    whole = estimate_log_partition(energy, 100, 100, 0, clamp=clamp)
    error = np.abs(whole.log_partition - exact)
    assert (error < 5 * whole.standard_error + 1e-9).all()
    monkeypatch.setattr("skcrbm.inference.any_energy._ais.CHAIN_UNITS", 1)
    for n_jobs in (1, 2):
        cut = estimate_log_partition(energy, 100, 100, 0, clamp=clamp, n_jobs=n_jobs)
        np.testing.assert_allclose(cut.log_partition, whole.log_partition, rtol=1e-9)


def test_bad_arguments_of_the_estimate():
    energy = random_rbm(0, 3, 2)
    with pytest.raises(ValueError, match="n_chains must be an int of at least 2"):
        estimate_log_partition(energy, n_chains=1)
    with pytest.raises(ValueError, match="n_betas must be an int of at least 1"):
        estimate_log_partition(energy, n_betas=0)
    with pytest.raises(
        ValueError, match="'ais' does not work on OneHotRBMEnergy; methods that do: 'exact'"
    ):
        estimate_log_partition(OneHotRBMEnergy(energy.weights, *energy.fields), method="ais")
