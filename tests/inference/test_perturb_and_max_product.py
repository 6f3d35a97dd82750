"""Perturb-and-max-product against plain loops, maxima over all states, and published figures.

Bounds on samples are five standard errors.
"""

import numpy as np
import pytest
from reference.dtypes import DTYPES, float32_test
from reference.naive_perturbed import (
    all_states,
    distribution_of_maxima,
    first_noise,
    naive_messages,
    shares,
)
from scipy.special import expit

from skcrbm.datasets import make_ising_lattice
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
    PerturbAndMaxProduct,
    available_methods,
    estimate_log_partition,
    infer,
    sample,
)
from skcrbm.inference.factor_graph.perturbed_maxima import _relay_graph
from skcrbm.kernels.perturbed_maxima import relay_order

NAME = "perturb_and_max_product"
NAN = np.nan


def rbm(v=3, h=2, dtype=np.float64):
    rng = np.random.default_rng(1)
    draw = rng.normal(scale=1.5, size=(v, h)), rng.normal(size=v), rng.normal(size=h)
    return RBMEnergy(*(part.astype(dtype) for part in draw))


def ising(n=5, dtype=np.float64, chain=False):
    rng = np.random.default_rng(2)
    coupling = np.triu(rng.normal(size=(n, n)), 1)
    if chain:
        coupling = np.diag(rng.choice([-1.0, 1.0], n - 1), 1)
    return IsingEnergy((coupling + coupling.T).astype(dtype), rng.normal(0, 0.5, n).astype(dtype))


def sparse(n=5, dtype=np.float64, chain=False):
    dense = ising(n, dtype, chain)
    return SparseIsingEnergy(dense.coupling, dense.field)


def tables(dtype=np.float64, zeros=False):
    """A tree of tables of 1, 2 and 3 variables."""
    rng = np.random.default_rng(3)
    three = rng.normal(scale=1.5, size=8)
    if zeros:
        three[[1, 6]] = -np.inf
    scopes = [[1], [2, 3], [4, 2], [0, 1, 2]]
    logs = [rng.normal(size=2), *rng.normal(scale=1.5, size=(2, 4)), three]
    logs = [part.astype(dtype) for part in logs]
    return FactorGraphEnergy.from_tables(scopes, logs, rng.normal(size=5).astype(dtype))


def logic(dtype=np.float64):
    """A tree of an OR of three, an AND of two, an AND of three and a table."""
    rng = np.random.default_rng(4)
    pair = TableFactors([[3, 6]], np.array([2.0, -2.0, -2.0, 2.0], dtype))
    factors = [
        pair, OrFactors([[0, 1, 2]], [3]), AndFactors([[4, 5, 8]], [6]), AndFactors([[6, 9]], [7]),
    ]  # fmt: skip
    return FactorGraphEnergy(factors, rng.normal(size=10).astype(dtype))


def relays(dtype=np.float64):
    """Outputs that are inputs of others, of two at once and over two levels, with loops."""
    rng = np.random.default_rng(5)
    factors = [
        TableFactors([[3, 9], [4, 8]], rng.normal(size=(2, 4)).astype(dtype)),
        OrFactors([[8, 6, 7], [7, 5, 6]], [9, 10]),
        AndFactors([[0, 1], [1, 2], [6, 7]], [6, 7, 8]),
    ]
    return FactorGraphEnergy(factors, rng.normal(size=11).astype(dtype))


ENERGIES = {
    "rbm": rbm,
    "ising": ising,
    "sparse": sparse,
    "tables": tables,
    "zeros": lambda dtype=np.float64: tables(dtype, True),
    "logic": logic,
    "relays": relays,
}
#: Outputs of OR and AND, which get no noise.
OUTPUTS = {"logic": [3, 6, 7], "relays": [6, 7, 8, 9, 10]}


def as_graph(energy):
    is_graph = isinstance(energy, FactorGraphEnergy)
    return energy if is_graph else FactorGraphEnergy.from_energy(energy)


def as_log_odds(energy, messages):
    """Messages of one sample as log-odds of 0/1 variables, in the order of `as_graph`."""
    if isinstance(energy, RBMEnergy):
        down, up = 2 * messages + energy.weights / 2
        return np.stack([up.ravel(), down.ravel()], axis=1).ravel()
    if isinstance(energy, IsingEnergy) and messages.ndim == 3:  # a matrix for each direction
        i, k = np.triu_indices(energy.n_variables, 1)
        down, up = 2 * messages
        return np.stack([up[i, k], down[i, k]], axis=1).ravel()
    return 2 * messages if isinstance(energy, IsingEnergy) else messages


@pytest.mark.parametrize("damping", [0.5, 0.0, 0.3])
@pytest.mark.parametrize("kind", [kind for kind in ENERGIES if kind not in ("tables", "zeros")])
def test_messages(kind, damping):
    energy = ENERGIES[kind]()
    n, n_iter, n_samples = energy.n_variables, 4, 3
    method = PerturbAndMaxProduct(n_iter, damping)
    got, state = sample(energy, method, n_samples=n_samples, random_state=7, return_state=True)
    noise = first_noise(n_samples, n, 7)
    noise[:, OUTPUTS.get(kind, [])] = 0
    for s in range(n_samples):
        messages, belief = naive_messages(as_graph(energy), noise[s], n_iter, damping)
        ours = as_log_odds(energy, state.messages[s])
        np.testing.assert_allclose(ours, messages, atol=1e-9)
        np.testing.assert_array_equal(got[0, s], belief >= 0)


@pytest.mark.parametrize("zeros", [False, True])
def test_graphs_of_tables_have_the_best_states(zeros):
    """On graphs with loops, too, nearly all samples are the best states under the noise."""
    rng = np.random.default_rng(6)
    scopes = [(0, 1, 2), (2, 3), (3, 4, 5, 0), (5, 1), (6, 2, 4), (6,)]
    logs = [rng.normal(scale=1.5, size=2 ** len(scope)) for scope in scopes]
    if zeros:
        logs[0][[1, 6]] = logs[2][[0, 5, 9]] = -np.inf
    energy = FactorGraphEnergy.from_tables(scopes, logs, rng.normal(size=7))
    clamp = np.array([NAN, NAN, NAN, 1, NAN, NAN, NAN])
    states, noise = all_states(7), first_noise(300, 7, 3)
    for held in (np.full(7, NAN), clamp):
        got = sample(energy, NAME, n_samples=300, clamp=held, random_state=3)[0]
        possible = (np.isnan(held) | (states == held)).all(axis=1)
        score = energy.rows(np.zeros(len(states), int)).score(states) + noise @ states.T
        best = np.where(possible, score, -np.inf).max(axis=1)
        found = score[np.arange(300), [np.flatnonzero((states == s).all(axis=1))[0] for s in got]]
        assert (found > best - 1e-9).mean() > 0.98
        assert ((got == held) | np.isnan(held)).all()


def test_relays_of_cycles():
    """The output of a single factor is a relay; each cycle is broken at a variable."""
    ors = OrFactors([[0, 1], [3, 1], [2, 0], [4, 5]], [2, 4, 5, 3])
    ands = AndFactors([[1, 2], [0, 5]], [6, 6])
    energy = FactorGraphEnergy([ors, ands], np.zeros(7))
    relay, level = relay_order(_relay_graph(energy)[0], 7)
    # 3 = or(4, 5) and 4 = or(3, 1) are a cycle: one of them goes first, from old messages.
    assert relay[[0, 1, 6]].tolist() == [False] * 3
    assert relay[[2, 5]].all()
    assert relay[3] != relay[4]
    assert level[4] == level[5] == 6
    assert level[2] == level[0] + 1
    assert max(level[1], level[3]) == 6
    states = sample(energy, NAME, n_samples=5, random_state=0)[0]
    np.testing.assert_array_equal(states[:, 2], states[:, 0] | states[:, 1])


@pytest.mark.parametrize("kind", ENERGIES)
def test_messages_given_evidence(kind):
    energy = ENERGIES[kind]()
    clamp = np.full(energy.n_variables, NAN)
    clamp[[1, 4]] = 1, 0
    held = energy.condition(clamp)
    got = sample(energy, PerturbAndMaxProduct(60), n_samples=4, clamp=clamp, random_state=7)
    np.testing.assert_array_equal(got[0][:, [1, 4]], [[1, 0]] * 4)
    noise = first_noise(4, energy.n_variables, 7)
    noise[:, OUTPUTS.get(kind, [])] = 0
    free = np.isnan(clamp)
    for s in range(4):
        _, belief = naive_messages(as_graph(energy), noise[s], 60, 0.5, clamp)
        np.testing.assert_array_equal(got[0, s][free], (belief >= 0)[free])
    # The same from evidence in the energy, and after the messages of a call without it.
    again = sample(held, PerturbAndMaxProduct(60), n_samples=4, random_state=7)
    np.testing.assert_array_equal(got, again)
    _, state = sample(energy, NAME, n_samples=4, random_state=7, return_state=True)
    later = sample(energy, PerturbAndMaxProduct(60), n_samples=4, clamp=clamp, init=state)
    np.testing.assert_array_equal(later[0][:, [1, 4]], [[1, 0]] * 4)


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", DTYPES)
def test_independent_units_are_exact(dtype):
    field = np.array([-2.0, -0.5, 0.0, 0.7, 3.0]).astype(dtype)
    none = np.zeros((5, 5), dtype)
    n_samples = 20000
    for energy, log_odds in (
        (RBMEnergy(none[:3, :2], field[:3], field[3:]), field),
        (IsingEnergy(none, field), 2 * field),
        (SparseIsingEnergy.from_edges([[0, 1]], none[0, :1], field), 2 * field),
        (FactorGraphEnergy([TableFactors([[0, 1]], none[0, :4])], field), field),
        (FactorGraphEnergy([OrFactors([[0, 1, 2]], [5])], np.append(field, dtype(0))), field),
        (FactorGraphEnergy([AndFactors([[0, 4]], [5])], np.append(field, dtype(0))), field),
    ):
        result = infer(
            energy, NAME, max_iter=20, returns=("samples", "log_partition"),
            n_samples=n_samples, random_state=0,
        )  # fmt: skip
        chance = expit(log_odds.astype(float))
        mean = result.samples[0, :, :5].mean(axis=0)
        assert (np.abs(mean - chance) <= 5 * np.sqrt(chance * (1 - chance) / n_samples)).all()
        exact = infer(energy, "exact", returns="log_partition").log_partition
        assert abs(result.log_partition - exact) <= 5 * result.standard_error
        assert result.effective_sample_size is None


TREES = {
    "star": (lambda: rbm(4, 1), None),
    "ising chain": (lambda: ising(chain=True), None),
    "sparse chain": (lambda: sparse(chain=True), None),
    "tables": (tables, None),
    "tables with zeros": (lambda: tables(zeros=True), None),
    "logic": (logic, None),
    "star, held": (lambda: rbm(5, 1), [NAN, 1, NAN, NAN, NAN, NAN]),
    "rbm, hidden held": (rbm, [NAN, NAN, NAN, NAN, 1]),
    "ising chain, held": (lambda: ising(chain=True), [1, NAN, NAN, NAN, NAN]),
    "sparse chain, held": (lambda: sparse(chain=True), [1, NAN, NAN, NAN, NAN]),
    "tables, held": (tables, [NAN, NAN, NAN, 1, NAN]),
    "logic, held": (logic, [NAN, NAN, NAN, 1, NAN, NAN, NAN, NAN, NAN, NAN]),
}


@pytest.mark.quick_cases(1)
@pytest.mark.compiled
@pytest.mark.parametrize("name", TREES)
def test_trees_against_the_maxima_of_all_states(name):
    make, clamp = TREES[name]
    energy = make()
    noisy = np.ones(energy.n_variables)
    if "logic" in name:
        noisy[[3, 6, 7]] = 0
    if clamp is not None:
        energy = energy.condition(clamp)
        noisy = np.where(np.isnan(clamp), noisy, 0)
    n_samples, n_draws = 20000, 100000
    result = infer(
        energy, NAME, max_iter=40, returns=("samples", "log_partition"), n_samples=n_samples,
        random_state=0,
    )  # fmt: skip
    expected, bound, error, weight = distribution_of_maxima(energy, n_draws, noisy)
    got = shares(result.samples[0])

    def deviation(p, n):
        pooled = (got * n_samples + p * n) / (n_samples + n)
        spread = np.sqrt(pooled * (1 - pooled) * (1 / n_samples + 1 / n))
        return np.abs(got - p)[spread > 0] / spread[spread > 0]

    assert deviation(expected, n_draws).max() <= 5
    # Which is no test of the Gibbs distribution in disguise.
    assert deviation(weight, 10**9).max() > 10
    both = np.hypot(error, result.standard_error[0])
    assert abs(result.log_partition[0] - bound) <= 5 * both
    exact = infer(energy, "exact", returns="log_partition").log_partition
    assert result.log_partition[0] + 5 * result.standard_error[0] >= exact


def divergence(p, samples):
    """KL(p || q), q counted among samples with half a sample of every state more."""
    counts = shares(samples) * len(samples) + 0.5
    return (p * np.log(p / (counts / counts.sum()))).sum()


@pytest.mark.compiled
def test_relays_pass_on_within_a_sweep():
    """A long chain of AND and OR settles in two sweeps, whatever the damping of its ends."""
    n = 40
    field = np.zeros((1, n + 21))
    field[0, :21] = 3.0
    ands, ors = np.arange(21, 61, 2), np.arange(22, 61, 2)
    inputs = np.column_stack([np.append(0, ors[:-1]), np.arange(1, 21)])
    factors = [
        AndFactors(inputs, ands),
        OrFactors(np.column_stack([ands, np.zeros(20, int)]), ors),
    ]
    energy = FactorGraphEnergy(factors, field)
    first = sample(energy, PerturbAndMaxProduct(1, 0.0), n_samples=50, random_state=0)[0]
    for k, (a, b) in enumerate(inputs):
        np.testing.assert_array_equal(first[:, ands[k]], first[:, a] & first[:, b])
        np.testing.assert_array_equal(first[:, ors[k]], first[:, ands[k]] | first[:, 0])


def test_four_variables_that_all_attract_each_other():
    """With weaker couplings it is one of the sampler, and far from the Gibbs distribution."""
    all_pairs = 1 - np.eye(4)
    states = all_states(4)

    def gibbs(theta):
        energy = IsingEnergy(theta * all_pairs, np.zeros((16, 4)))
        weight = np.exp(energy.score(states))
        return weight / weight.sum()

    truth = gibbs(0.5)
    energy = IsingEnergy(0.336 * all_pairs, np.zeros(4))
    drawn = sample(energy, NAME, n_samples=10000, random_state=0)[0]
    assert divergence(truth, drawn) < 0.004
    assert (truth * np.log(truth / gibbs(0.336))).sum() > 0.08


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("side", "exact", "excess", "n_samples"),
    [(5, 18.3576, 0.82, 4000), (10, 73.4531, 3.47, 2000), (15, 165.2694, 7.73, 1500)],
)
def test_log_partition_of_cyclic_lattices(side, exact, excess, n_samples):
    energy = make_ising_lattice((side, side), -0.2)
    energy = SparseIsingEnergy.from_edges(
        energy.edges, energy.edge_coupling.astype(np.float32), energy.field.astype(np.float32)
    )
    result = infer(
        energy, PerturbAndMaxProduct(200, random_state=0), returns="log_partition",
        n_samples=n_samples,
    )  # fmt: skip
    known = {5: 0.05, 10: 0.09, 15: 0.13}[side]  # error of the figure that it is compared with
    bound = 3 * np.hypot(known, result.standard_error)
    assert abs(result.log_partition - exact - excess) <= bound
    assert result.standard_error < 0.3


@pytest.mark.quick_cases(2)
@pytest.mark.compiled
@pytest.mark.parametrize("kind", ENERGIES)
def test_persistence(kind):
    energy = ENERGIES[kind]()
    n_samples = 4000
    first = sample(energy, PerturbAndMaxProduct(40), n_samples=n_samples, random_state=1)[0]
    method = PerturbAndMaxProduct(20, persistence=0.95, random_state=0)
    state, before, changed = None, None, []
    for call in range(6):
        drawn, state = sample(
            energy, method, n_samples=n_samples, init=state, return_state=True
        )  # fmt: skip
        mean = drawn[0].mean(axis=0)
        spread = np.sqrt(2 * 0.25 / n_samples)
        if call:
            changed.append((drawn[0] != before).mean())
            assert state.step == call + 1
        assert (np.abs(mean - first.mean(axis=0)) <= 5 * spread).all()
        before = drawn[0]
    apart = (first != before).mean()
    assert 0 < np.max(changed) < 0.5 * apart
    # Without persistence a call draws new noise.
    fresh = sample(energy, PerturbAndMaxProduct(20), n_samples=n_samples, init=state)[0]
    assert (fresh != before).mean() > 0.8 * apart


@float32_test
@pytest.mark.parametrize("kind", ENERGIES)
def test_float32(kind):
    energy, single = ENERGIES[kind](), ENERGIES[kind](dtype=np.float32)
    assert single.dtype == np.float32
    method = PerturbAndMaxProduct(10, random_state=0)
    double = sample(energy, method, n_samples=100)
    got, state = sample(single, method, n_samples=100, return_state=True)
    assert state.messages.dtype == np.float32
    assert (got != double).mean() < 0.01


def test_strong_fields_among_weak_ones():
    """Samples in logs stand beside others that fit as odds, and the bits of those stay."""
    weak = tables()
    strong = weak.with_fields(np.concatenate([weak.field, 1000 * weak.field]))
    method = PerturbAndMaxProduct(10, random_state=0)
    both = sample(strong, method, n_samples=30)
    np.testing.assert_array_equal(both[0], sample(weak, method, n_samples=30)[0])
    np.testing.assert_array_equal(both[1], np.broadcast_to(weak.field[0] >= 0, (30, 5)))


def test_a_model_without_states():
    pair = TableFactors([[0, 1]], [0.0, 0.0, 0.0, -np.inf])
    forced = TableFactors([[0], [1]], [-np.inf, 0.0])
    energy = FactorGraphEnergy([pair, forced], [0.0, 0.0])
    result = infer(energy, NAME, returns=("samples", "log_partition"), n_samples=5)
    assert not result.converged.any()
    assert result.log_partition[0] == -np.inf
    assert result.standard_error[0] == np.inf


def test_what_is_refused():
    energy = rbm()
    for option, value in (("damping", 1.0), ("max_iter", 0), ("persistence", 1.0)):
        with pytest.raises(ValueError, match=option):
            sample(energy, PerturbAndMaxProduct(**{option: value}))
    with pytest.raises(ValueError, match="burn_in"):
        sample(energy, NAME, burn_in=3)
    with pytest.raises(ValueError, match="sample_log_prob"):
        sample(energy, NAME, return_log_prob=True)
    with pytest.raises(ValueError, match="marginals"):
        infer(energy, NAME, returns="marginals")
    with pytest.raises(ValueError, match="n_samples"):
        infer(energy, "exact", returns="log_partition", n_samples=5)
    _, state = sample(energy, NAME, n_samples=4, return_state=True)
    with pytest.raises(ValueError, match="init must contain a state"):
        sample(energy, NAME, n_samples=5, init=state)
    _, chains = sample(energy, "gibbs", n_samples=4, return_state=True)
    with pytest.raises(ValueError, match="init must contain a state"):
        sample(energy, NAME, n_samples=4, init=chains)
    with pytest.raises(ValueError, match="init must contain chains of Gibbs sampling"):
        sample(energy, "gibbs", n_samples=4, init=state)
    assert NAME in available_methods(energy, "samples")
    one = infer(energy, NAME, returns="log_partition", n_samples=1)
    assert one.standard_error == np.inf


@pytest.mark.parametrize("kind", ENERGIES)
def test_estimate_log_partition(kind):
    energy = ENERGIES[kind]()
    method = PerturbAndMaxProduct(10)
    found = estimate_log_partition(energy, method=method, n_samples=20, random_state=3)
    same = infer(energy, method, returns="log_partition", n_samples=20, random_state=3)
    np.testing.assert_array_equal(found.log_partition, same.log_partition)
    np.testing.assert_array_equal(found.standard_error, same.standard_error)
    assert found.effective_sample_size is None
