"""`estimate_log_partition` beyond RBMs, and annealed importance sampling of other energies."""

import warnings

import numpy as np
import pytest
from reference.random_models import random_clamp, random_graph, random_ising, random_rbm

from skcrbm.energies import FactorGraphEnergy, OrFactors, SparseIsingEnergy, TableFactors
from skcrbm.inference import (
    AnnealedImportanceSampling,
    BPChain,
    estimate_log_partition,
    infer,
)


def random_sparse(seed, n=6, n_models=3):
    rng = np.random.default_rng(seed)
    edges = [(i, (i + 1) % n) for i in range(n)]
    field = rng.normal(size=(n_models, n))
    return SparseIsingEnergy.from_edges(edges, rng.normal(0, 0.7, n), field)


KINDS = {
    "Ising": lambda: random_ising(0, 6, 3, scale=0.5),
    "sparse Ising": lambda: random_sparse(0),
    "factor graph": lambda: random_graph(0, 6, 5, n_models=3, scale=1.0, arity=4),
    "Ising as factor graph": lambda: FactorGraphEnergy.from_energy(
        random_ising(1, 6, 3, scale=0.5)
    ),
}
each_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


@each_kind
@pytest.mark.parametrize("clamped", [False, True])
def test_annealing_is_within_its_error(make, clamped):
    """The estimate is within five standard errors of the exact value."""
    energy = make()
    if clamped:
        energy = energy.condition(random_clamp(np.random.default_rng(2), 3, 6))
    exact = infer(energy, "exact", returns="log_partition").log_partition
    found = estimate_log_partition(energy, 60, 60, 0)
    assert (np.abs(found.log_partition - exact) < 5 * found.standard_error + 1e-9).all()
    assert (found.standard_error < 0.2).all()
    assert (found.effective_sample_size > 10).all()
    assert (found.effective_sample_size <= 60 + 1e-9).all()


@each_kind
def test_annealing_does_not_depend_on_threads_or_batch(make, monkeypatch):
    energy = make()
    whole = estimate_log_partition(energy, 10, 8, 0)
    alone = estimate_log_partition(energy.rows([2]), 10, 8, 0)
    np.testing.assert_allclose(alone.log_partition[0], whole.log_partition[2], rtol=1e-12)
    monkeypatch.setattr("skcrbm.inference.any_energy._ais.CHAIN_UNITS", 1)
    one = estimate_log_partition(energy, 10, 8, 0, n_jobs=1)
    two = estimate_log_partition(energy, 10, 8, 0, n_jobs=2)
    np.testing.assert_array_equal(one.log_partition, two.log_partition)
    np.testing.assert_allclose(one.log_partition, whole.log_partition, rtol=1e-12)


def test_annealed_z_is_unbiased():
    """With few steps, where weights differ: the mean over seeds, five standard errors."""
    energy = KINDS["sparse Ising"]().rows([0])
    exact = infer(energy, "exact", returns="log_partition").log_partition[0]
    ratios = np.exp(
        [estimate_log_partition(energy, 20, 2, s).log_partition[0] - exact for s in range(150)]
    )
    assert ratios.std() > 0.01
    assert abs(ratios.mean() - 1) < 5 * ratios.std() / np.sqrt(len(ratios))


@pytest.mark.parametrize(
    "factor", [OrFactors([[0, 1]], [2]), TableFactors([[0, 1]], [[0.0, -np.inf, 0.0, 1.0]])]
)
def test_annealing_refuses_weights_of_zero(factor):
    with pytest.raises(
        ValueError, match=r"'ais' does not work on this Factor.* weights of 0 .*'bp_chain'"
    ):
        estimate_log_partition(FactorGraphEnergy([factor]), method="ais")


@pytest.mark.parametrize("kind", ["RBM", *KINDS])
def test_chained_estimate(kind):
    energy = random_rbm(0, 4, 3, n_models=3, scale=1.0) if kind == "RBM" else KINDS[kind]()
    exact = infer(energy, "exact", returns="log_partition").log_partition
    found = estimate_log_partition(energy, method="bp_chain", n_samples=500, random_state=0)
    assert (np.abs(found.log_partition - exact) < 5 * found.standard_error + 1e-9).all()
    same = infer(energy, BPChain(random_state=0), returns="log_partition", n_samples=500)
    np.testing.assert_array_equal(found.log_partition, same.log_partition)
    np.testing.assert_array_equal(found.effective_sample_size, same.effective_sample_size)
    held = np.full(energy.n_variables, np.nan)
    held[0] = 1
    exact = infer(energy, "exact", returns="log_partition", clamp=held).log_partition
    found = estimate_log_partition(
        energy, method=BPChain(warm_iter=8), n_samples=500, random_state=0, clamp=held
    )
    assert (np.abs(found.log_partition - exact) < 5 * found.standard_error + 1e-9).all()


def test_a_name_is_the_object_with_its_defaults():
    energy = KINDS["Ising"]()
    for name, method in (("ais", AnnealedImportanceSampling(5, 4)), ("bp_chain", BPChain())):
        options = {"n_chains": 5, "n_betas": 4} if name == "ais" else {}
        one = estimate_log_partition(energy, method=name, random_state=0, **options)
        other = estimate_log_partition(energy, method=method, random_state=0)
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "bp_chain", "n_chains": 50}, "'bp_chain' has no option 'n_chains'"),
        ({"method": "bp_chain", "n_betas": 50}, "'bp_chain' has no option 'n_betas'"),
        ({"method": "ais", "n_samples": 50}, "n_samples is only valid if returns contains"),
        ({"method": "bp_chain", "n_samples": 1}, "n_samples must be at least 2"),
        ({"method": "exact"}, "one of 'bp_chain', .*'ais', which estimate log Z of IsingEnergy by"),
        ({"method": "gibbs"}, "which estimate log Z of IsingEnergy by random numbers; got 'gibbs'"),
        ({"method": "no_such"}, "method must be one of"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        estimate_log_partition(KINDS["Ising"](), **options)


# ------------------------------------------------------------------- honesty of the error


def torus(n, coupling):
    place = np.arange(n * n).reshape(n, n)
    edges = [np.column_stack([place.ravel(), np.roll(place, -1, axis).ravel()]) for axis in (0, 1)]
    return SparseIsingEnergy.from_edges(np.concatenate(edges), coupling, np.zeros(n * n))


def torus_log_partition(n, coupling):
    """Log Z of an n x n torus (Kaufman 1949)."""
    r = np.arange(2 * n)
    gamma = np.arccosh(np.cosh(2 * coupling) / np.tanh(2 * coupling) - np.cos(np.pi * r / n))
    gamma[0] = 2 * coupling + np.log(np.tanh(coupling))
    logs, signs = [], []
    for part in (gamma[1::2], gamma[::2]):
        size = n * np.abs(part)
        logs += [(size / 2 + np.log1p(np.exp(-size))).sum()]
        logs += [(size / 2 + np.log1p(-np.exp(-size))).sum()]
        signs += [1, np.sign(part).prod()]
    top = max(logs)
    total = top + np.log(np.dot(signs, np.exp(np.array(logs) - top)))
    return total - np.log(2) + n * n / 2 * np.log(2 * np.sinh(2 * coupling))


def test_log_partition_of_a_torus():
    energy = torus(3, 0.44)
    exact = infer(energy, "exact", returns="log_partition").log_partition[0]
    np.testing.assert_allclose(torus_log_partition(3, 0.44), exact, rtol=1e-12)


@pytest.mark.quick_cases(1)
@pytest.mark.compiled
@pytest.mark.parametrize(
    ("n", "coupling", "n_betas", "hard"), [(12, 0.3, 60, False), (12, 0.44, 60, True)]
)
def test_the_error_covers_the_exact_value(n, coupling, n_betas, hard):
    """1.96 errors cover log Z in most of 20 runs; the error of the delta method does not."""
    energy, exact = torus(n, coupling), torus_log_partition(n, coupling)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [estimate_log_partition(energy, 100, n_betas, seed) for seed in range(20)]
    error = np.array([abs(f.log_partition[0] - exact) for f in found])
    claimed = np.array([f.standard_error[0] for f in found])
    assert np.mean(error <= 1.96 * claimed) >= 0.9
    effective = np.array([f.effective_sample_size[0] for f in found])
    few = [w for w in caught if "a few of the 100 chains" in str(w.message)]
    assert len(few) == (effective < 30).sum()
    assert (len(few) > 10) == hard
    if not hard:  # no wider than needed
        assert claimed.mean() < 2 * error.std() + 2 * error.mean()


@pytest.mark.deep
@pytest.mark.compiled
def test_a_large_torus_near_its_critical_point_warns():
    """The estimate is more than 3 standard errors too low."""
    with pytest.warns(UserWarning, match="effective sample size is 2"):
        found = estimate_log_partition(torus(32, 0.44), random_state=0)
    assert found.log_partition[0] < torus_log_partition(32, 0.44) - 3 * found.standard_error[0]


def test_the_warning_names_the_size_and_the_cure():
    with pytest.warns(UserWarning, match=r"effective sample size is \d.*larger n_betas"):
        estimate_log_partition(torus(8, 1.0), 50, 2, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimate_log_partition(torus(4, 0.1), 50, 20, 0)
