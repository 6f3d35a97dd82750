"""Chained belief propagation, against enumeration. Bounds are five standard errors."""

import itertools

import numpy as np
import pytest
from reference.dtypes import DTYPES
from reference.factor_graphs import all_states
from reference.random_models import random_graph, random_ising, random_rbm
from scipy.stats import chi2

from skcrbm.energies import (
    AndFactors,
    FactorGraphEnergy,
    IsingEnergy,
    LayeredEnergy,
    OrFactors,
    SparseIsingEnergy,
    TableFactors,
)
from skcrbm.inference import BPChain, SumProduct, available_methods, infer, sample

BOTH = ("samples", "sample_log_prob", "log_partition")


def random_sparse(seed, n=7, n_models=2, dtype=np.float64):
    rng = np.random.default_rng(seed)
    pairs = [pair for pair in itertools.combinations(range(n), 2) if rng.random() < 0.5]
    weights, field = rng.normal(0, 0.5, len(pairs)), rng.normal(0, 0.7, (n_models, n))
    return SparseIsingEnergy.from_edges(pairs, weights.astype(dtype), field.astype(dtype))


KINDS = {
    "factor graph": lambda dtype=np.float64: random_graph(
        1, 7, 6, n_models=2, arity=4, dtype=dtype
    ),
    # Ten states are possible, and the chain allows all of them.
    "zeros and logic": lambda dtype=np.float64: random_graph(
        28, 7, 7, n_models=2, arity=4, zeros=3, logic=True, dtype=dtype
    ),
    "Ising": lambda dtype=np.float64: random_ising(0, 6, 2, scale=0.4, dtype=dtype),
    "sparse Ising": lambda dtype=np.float64: random_sparse(0, dtype=dtype),
    "RBM": lambda dtype=np.float64: random_rbm(0, 4, 3, n_models=2, scale=1.0, dtype=dtype),
}
each_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


def exact_probability(energy, n=0):
    """Log-probabilities (2^n,) of all states of a model, and its log Z."""
    states = all_states(energy.n_variables)
    score = energy.rows(np.full(len(states), n)).score(states)
    log_z = np.logaddexp.reduce(score)
    return score - log_z, log_z


def fits(states, log_probability):
    """p-value of the chi-squared test of states (S, n) against log-probabilities (2^n,)."""
    code = states.astype(np.int64) @ (1 << np.arange(states.shape[1]))
    found = np.bincount(code, minlength=len(log_probability))
    expected = np.exp(log_probability) * len(states)
    assert not found[expected == 0].any()
    rare = expected < 5
    found = np.append(found[~rare], found[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    statistic = ((found - expected)[keep] ** 2 / expected[keep]).sum()
    return chi2.sf(statistic, keep.sum() - 1)


# --------------------------------------------------------------------------- distribution


def tree(zeros):
    """Tables of three and two of six variables, without a loop."""
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=2**k) for k in (3, 2, 3, 1)]
    if zeros:
        tables[0][3] = tables[2][[1, 6]] = -np.inf
    scopes = [[4, 1, 2], [2, 3], [5, 0, 3], [1]]
    return FactorGraphEnergy.from_tables(scopes, tables, rng.normal(size=(2, 6)))


@pytest.mark.quick_cases(4)
@pytest.mark.compiled
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("options", [{}, {"order": "random"}, {"warm_iter": None}], ids=str)
def test_on_a_tree_draws_are_exact(zeros, options):
    """On a tree the draws of each state and the returned probabilities are exact."""
    energy = tree(zeros)
    method = BPChain(random_state=0, **{"max_iter": 8, "warm_iter": 6, **options})
    states, log_prob = sample(energy, method, n_samples=2000, return_log_prob=True)
    for n in range(energy.n_models):
        log_probability, _ = exact_probability(energy, n)
        assert fits(states[n], log_probability) > 1e-4
        code = states[n].astype(np.int64) @ (1 << np.arange(energy.n_variables))
        np.testing.assert_allclose(log_prob[n], log_probability[code], atol=1e-6)


@pytest.mark.compiled
def test_six_bits_with_marginals_of_one_half():
    """Figure 1 of the paper: independent draws would give 2^-6 to each state."""
    weight = np.full((2,) * 6, 0.0001)
    for state, p in (("000000", 0.4), ("111111", 0.4), ("001100", 0.097), ("110011", 0.097)):
        weight[tuple(map(int, state))] = p
    np.testing.assert_allclose(weight.sum(), 1)
    energy = FactorGraphEnergy([TableFactors([range(6)], [np.log(weight)])])
    np.testing.assert_allclose(infer(energy, "sum_product").marginals, 0.5, atol=1e-9)
    states, log_prob = sample(
        energy, "bp_chain", n_samples=20_000, return_log_prob=True, random_state=0
    )
    log_probability, log_z = exact_probability(energy)
    np.testing.assert_allclose(log_z, 0, atol=1e-12)
    assert fits(states[0], log_probability) > 1e-4
    code = states[0].astype(np.int64) @ (1 << np.arange(6))
    np.testing.assert_allclose(log_prob[0], log_probability[code], atol=1e-9)
    on = states[0, :, 0] == 1
    share, n_on = states[0, on, 1].mean(), on.sum()
    assert abs(share - 0.9968) < 5 * np.sqrt(0.9968 * 0.0032 / n_on)


@pytest.mark.compiled
@each_kind
@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_average_to_z(make, dtype):
    energy = make(dtype)
    found = infer(energy, "bp_chain", returns=BOTH, n_samples=2000, random_state=1)
    for n in range(energy.n_models):
        log_z = exact_probability(energy, n)[1]
        score = energy.rows(np.full(2000, n)).score(found.samples[n])
        weight = np.exp(score - found.sample_log_prob[n] - log_z)
        assert abs(weight.mean() - 1) < 5 * weight.std() / np.sqrt(2000) + 1e-5
        assert abs(found.log_partition[n] - log_z) < 5 * found.standard_error[n] + 1e-5
        np.testing.assert_allclose(found.log_partition[n] - log_z, np.log(weight.mean()), atol=1e-9)
        expected = weight.sum() ** 2 / (weight**2).sum()
        np.testing.assert_allclose(found.effective_sample_size[n], expected, rtol=1e-6)
        error = weight.std(ddof=1) / weight.mean() / np.sqrt(2000)
        error *= np.hypot(1, np.log(weight.max() / weight.mean()))
        np.testing.assert_allclose(found.standard_error[n], error, rtol=1e-6)


@pytest.mark.compiled
@each_kind
def test_returned_probabilities_are_those_of_the_draws(make):
    """q sums to 1 over the drawn states, equals their frequency, and is equal for equal states."""
    energy = make()
    states, log_prob = sample(
        energy, "bp_chain", n_samples=2000, return_log_prob=True, random_state=0
    )
    for n in range(energy.n_models):
        met, first, which = np.unique(states[n], axis=0, return_index=True, return_inverse=True)
        which = which.ravel()
        np.testing.assert_allclose(log_prob[n], log_prob[n][first][which], atol=1e-9)
        q = np.exp(log_prob[n][first])
        assert q.sum() < 1 + 1e-9
        share = np.bincount(which) / 2000
        often = q > 0.005
        bound = 5 * np.sqrt(q * (1 - q) / 2000)
        assert (np.abs(share - q) <= bound)[often].all()
        # States that were never drawn have a small total probability.
        assert q.sum() > 1 - 5 * np.sqrt(len(met) / 2000)


@pytest.mark.parametrize("damping", [0.0, 0.5, 0.2])
def test_what_a_step_is(damping):
    """The first variable from `max_iter` cold iterations; the next goes on from these messages."""
    energy = KINDS["factor graph"]()
    same = energy.with_states()
    order = [3, 0, 1, 2, 4, 5, 6]
    method = BPChain(max_iter=7, warm_iter=2, order=order, damping=damping, random_state=0)
    states, log_prob = sample(energy, method, n_samples=4, return_log_prob=True)
    n = energy.n_variables
    for s in range(4):
        total, held, before = np.zeros(2), np.full((2, n), np.nan), None
        for step, variable in enumerate(method.order):
            rule = SumProduct(max_iter=2 if step else 7, tol=0, damping=damping)
            before = infer(same, rule, clamp=held, init=before, return_state=True)
            log_odds = before.log_odds[:, variable, 1]
            on = states[:, s, variable] == 1
            total -= np.logaddexp(0, np.where(on, -log_odds, log_odds))
            held[:, variable] = on
        np.testing.assert_allclose(log_prob[:, s], total, atol=1e-9)


def test_cold_steps():
    """``warm_iter=None`` starts anew at each step."""
    energy = KINDS["sparse Ising"]()
    method = BPChain(max_iter=4, warm_iter=None, random_state=0)
    result = infer(energy, method, returns="sample_log_prob", n_samples=3)
    np.testing.assert_array_equal(result.n_iter, 4 * energy.n_variables)
    same = FactorGraphEnergy.from_energy(energy).with_states()
    total, held = np.zeros(2), np.full((2, energy.n_variables), np.nan)
    for variable in range(energy.n_variables):
        found = infer(same, SumProduct(max_iter=4, tol=0), clamp=held)
        log_odds = found.log_odds[:, variable, 1]
        on = result.samples[:, 0, variable] == 1
        total -= np.logaddexp(0, np.where(on, -log_odds, log_odds))
        held[:, variable] = on
    np.testing.assert_allclose(result.sample_log_prob[:, 0], total, atol=1e-9)


# ------------------------------------------------------------------------------- clamps


@pytest.mark.compiled
@each_kind
def test_clamps(make):
    energy = make()
    width = energy.n_variables
    possible, _ = exact_probability(energy)
    state = all_states(width)[possible.argmax()].astype(float)
    held = np.full((2, width), np.nan)
    held[0, [1, width - 1]] = state[[1, width - 1]]
    if exact_probability(energy.condition(state), 1)[1] > -np.inf:
        held[1] = state
    found = infer(energy, "bp_chain", returns=BOTH, n_samples=1000, clamp=held, random_state=0)
    given = energy.condition(held)
    for n in range(2):
        fixed = ~np.isnan(held[n])
        assert (found.samples[n][:, fixed] == held[n, fixed]).all()
        log_z = exact_probability(given, n)[1]
        assert abs(found.log_partition[n] - log_z) < 5 * found.standard_error[n] + 1e-9
    if not np.isnan(held[1]).any():
        np.testing.assert_array_equal(found.sample_log_prob[1], 0)
        assert found.n_iter[1] == 0


def test_held_hidden_units():
    energy = random_rbm(0, 4, 3, n_models=1, scale=1.0)
    held = [np.nan] * 4 + [1, np.nan, 0]
    found = infer(energy, "bp_chain", returns=BOTH, n_samples=300, clamp=held, random_state=0)
    assert (found.samples[0][:, [4, 6]] == [1, 0]).all()
    log_z = exact_probability(energy.condition(held))[1]
    assert abs(found.log_partition[0] - log_z) < 5 * found.standard_error[0] + 1e-9


# ------------------------------------------------------------------- impossible models


def test_contradictions_are_told_and_no_nan():
    """An OR is on while its inputs are off; a table forbids all states."""
    contradiction = [0.0, 0.0, 1.0, np.nan]
    energy = FactorGraphEnergy([OrFactors([[0, 1]], [2])], n_variables=4)
    found = infer(energy, "bp_chain", returns=BOTH, clamp=contradiction, random_state=0)
    assert not found.converged[0]
    assert found.log_partition[0] == -np.inf
    assert found.standard_error[0] == np.inf
    assert found.effective_sample_size[0] == 0
    assert (found.sample_log_prob == -np.inf).all()
    nothing = FactorGraphEnergy([TableFactors([[0, 1]], [[-np.inf] * 4])])
    found = infer(nothing, "bp_chain", returns="sample_log_prob", n_samples=50, random_state=0)
    assert not found.converged[0]
    assert (found.sample_log_prob == -np.inf).all()


@pytest.mark.compiled
def test_a_state_of_weight_0_may_be_drawn():
    """Three variables that must all differ in pairs cannot; a fourth one makes up for it."""
    differ = [0.0, 1.0, 1.0, 0.0]
    with np.errstate(divide="ignore"):
        either = np.log(np.stack([np.ones(4), differ], axis=-1))  # only if variable 3 is on
    scopes = [[0, 1, 3], [1, 2, 3], [0, 2, 3]]
    energy = FactorGraphEnergy([TableFactors(scopes, np.tile(either.reshape(-1), (3, 1)))])
    found = infer(energy, BPChain(order=[3, 0, 1, 2], random_state=0), returns=BOTH, n_samples=2000)
    score = energy.rows(np.zeros(2000, int)).score(found.samples[0])
    assert (score == -np.inf).any()
    assert not found.converged[0]
    assert abs(found.log_partition[0] - np.log(8)) < 5 * found.standard_error[0]
    free = infer(
        energy, BPChain(random_state=0), returns="samples", n_samples=50, clamp=[np.nan] * 3 + [0]
    )
    assert free.converged[0]


def test_weights_that_leave_the_range_of_odds():
    """Strong tables are passed as logarithms, the others of the batch as they were."""
    field = np.zeros((3, 7))
    field[1] = 500.0
    energy = KINDS["factor graph"]().with_fields(field)
    many = sample(energy, "bp_chain", n_samples=20, random_state=0)
    assert (many[1] == 1).all()
    alone = energy.rows([0])
    np.testing.assert_array_equal(
        sample(alone, "bp_chain", n_samples=20, random_state=0)[0], many[0]
    )


# ------------------------------------------------------------------- random numbers


@each_kind
def test_threads_blocks_and_batch(make, monkeypatch):
    energy = make()
    method = BPChain(max_iter=6, warm_iter=2, random_state=3)
    options = {"returns": BOTH, "n_samples": 70}
    whole = infer(energy, method, **options)
    two = infer(energy, method, **options, n_jobs=2)
    for field in BOTH:
        np.testing.assert_array_equal(getattr(two, field), getattr(whole, field))
    first = infer(energy.rows([0]), method, **options)
    np.testing.assert_array_equal(first.samples[0], whole.samples[0])
    np.testing.assert_allclose(first.sample_log_prob[0], whole.sample_log_prob[0], atol=1e-9)
    fewer = infer(energy, method, returns=BOTH, n_samples=9)
    np.testing.assert_array_equal(fewer.samples, whole.samples[:, :9])
    monkeypatch.setattr("skcrbm.inference.factor_graph.bp_chain._LEAST_LANES", 5)
    monkeypatch.setattr("skcrbm.inference.factor_graph.bp_chain._MOST_LANES", 5)
    cut = infer(energy, method, **options)
    np.testing.assert_array_equal(cut.samples, whole.samples)
    np.testing.assert_allclose(cut.sample_log_prob, whole.sample_log_prob, atol=1e-9)
    assert (whole.samples[0] != whole.samples[1]).any()
    other = infer(energy, method.with_options(random_state=4), **options)
    assert (other.samples != whole.samples).any()


def test_bits_do_not_depend_on_the_evidence_of_other_models():
    """Models without evidence leave out settled factors, in any company."""
    energy = KINDS["Ising"]().rows(np.zeros(3, int))
    clamp = np.full((3, energy.n_variables), np.nan)
    clamp[1, 1:] = 1
    clamp[2, 0] = 0
    options = {"returns": BOTH, "n_samples": 200}
    method = BPChain(random_state=3)
    whole = infer(energy, method, clamp=clamp, **options)
    alone = infer(energy.rows([0]), method, clamp=clamp[:1], **options)
    np.testing.assert_array_equal(alone.samples[0], whole.samples[0])
    np.testing.assert_array_equal(alone.sample_log_prob[0], whole.sample_log_prob[0])


@pytest.mark.parametrize("damping", [0.0, 0.5])
@pytest.mark.parametrize("warm_iter", [3, None])
def test_models_with_different_evidence_share_blocks(warm_iter, damping):
    """Models with a few samples and their own evidence have the answers that they have alone."""
    energy = KINDS["factor graph"]().rows(np.zeros(40, int))
    rng = np.random.default_rng(0)
    clamp = np.where(rng.random((40, 7)) < 0.4, rng.integers(2, size=(40, 7)), np.nan)
    method = BPChain(warm_iter=warm_iter, damping=damping, random_state=1)
    for n_samples in (1, 3):
        whole = infer(energy, method, clamp=clamp, returns=BOTH[:2], n_samples=n_samples)
        for n in (0, 17, 39):
            start = infer(
                energy.rows([n] * (n + 1)),
                method,
                clamp=clamp[[n] * (n + 1)],
                returns=BOTH[:2],
                n_samples=n_samples,
            )
            np.testing.assert_array_equal(start.samples[n], whole.samples[n])
            np.testing.assert_allclose(
                start.sample_log_prob[n], whole.sample_log_prob[n], atol=1e-9
            )


def test_random_numbers_go_on():
    energy = KINDS["Ising"]()
    for order in ("index", "random"):
        method = BPChain(order=order, random_state=0)
        whole = sample(energy, method, n_samples=30)
        first, state = sample(energy, method, n_samples=20, return_state=True)
        second, state = sample(energy, method, n_samples=10, init=state, return_state=True)
        assert state.n_drawn == 30
        np.testing.assert_array_equal(np.concatenate([first, second], axis=1), whole)


def test_orders():
    energy = KINDS["factor graph"]()
    found = [
        sample(energy, BPChain(order=order, random_state=seed), n_samples=40, return_log_prob=True)
        for order, seed in (
            ("index", 0),
            (list(range(7)), 0),
            (np.arange(7)[::-1], 0),
            ("random", 0),
        )
    ]
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert (found[0][1] != found[2][1]).any()
    assert (found[0][1] != found[3][1]).any()


# --------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "order", [[0, 1], [0, 0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6, 7], [0.5] * 7, [[0] * 7], []]
)
def test_bad_orders(order):
    with pytest.raises(ValueError, match=r"order must be 'index', 'random' or a permutation"):
        sample(KINDS["factor graph"](), BPChain(order=order))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: sample(e, BPChain(order="backwards")), "The 'order' parameter of BPChain"),
        (lambda e: sample(e, BPChain(warm_iter=0)), "The 'warm_iter' parameter of BPChain"),
        (lambda e: sample(e, BPChain(damping=1.0)), "The 'damping' parameter of BPChain"),
        (lambda e: sample(e, "bp_chain", burn_in=3), "'bp_chain' has no option 'burn_in'"),
        (lambda e: sample(e, "bp_chain", thin=3), "'bp_chain' has no option 'thin'"),
        (lambda e: sample(e, "bp_chain", n_chains=3), "'bp_chain' has no option 'n_chains'"),
        (lambda e: infer(e, "bp_chain", tol=0.1), "'bp_chain' has no option 'tol'"),
        (lambda e: sample(e, "gibbs", return_log_prob=True), "cannot answer 'sample_log_prob'"),
        (
            lambda e: infer(e, "bp_chain", returns="log_partition", n_samples=1),
            "n_samples must be at least 2",
        ),
        (lambda e: sample(e, "bp_chain", init=3), "init must be the state of an earlier call"),
        (
            lambda e: infer(e, "bp_chain", init=infer(e, "sum_product")),
            "init must be the state of an earlier call",
        ),
        (lambda e: infer(e, "bp_chain", returns="marginals"), "cannot answer 'marginals'"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call(KINDS["sparse Ising"]())


def test_which_energies():
    assert "bp_chain" in available_methods(IsingEnergy(np.zeros((2, 2)), [0.0, 0.0]), "samples")
    assert "bp_chain" in available_methods(
        FactorGraphEnergy([AndFactors([[0, 1]], [2])]), "sample_log_prob"
    )
    assert LayeredEnergy.__name__ not in str(available_methods())
