"""The kernels against slow, obvious references, through `infer`."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.brute_force import brute_force
from reference.dtypes import DTYPES
from reference.matrix_bp import matrix_sum_product
from reference.naive_bp import naive_sum_product
from reference.naive_mean_field import naive_mean_field
from reference.random_models import random_rbm

from skcrbm.energies import RBMEnergy
from skcrbm.inference import SumProduct, infer
from skcrbm.inference.exact import rbm as _exact
from skcrbm.inference.rbm import _messages
from skcrbm.kernels import rbm_exact, rbm_log, rbm_odds

ALL = ("marginals", "pairwise", "log_partition")
# A log-odds is a sum of some tens of terms of size 1 to 10, each correct to the dtype's
# precision: 1.2e-7 or 2.2e-16 relative.
TOLERANCE = {np.float32: {"rtol": 2e-5, "atol": 2e-5}, np.float64: {"rtol": 1e-11, "atol": 1e-11}}


def run(energy, n_iter, **options):
    """Sum-product with exactly `n_iter` iterations and pairwise beliefs per model."""
    options = {"returns": ALL, "pairwise": "per_example", "tol": 0, **options}
    return infer(energy, "sum_product", max_iter=n_iter, **options)


def naive(energy, n_iter, damping=0.0):
    return [
        naive_sum_product(energy.weights, b, c, n_iter, damping)
        for b, c in zip(*energy.fields, strict=True)
    ]


def assert_beliefs_equal(result, references, rtol, atol):
    for n, reference in enumerate(references):
        np.testing.assert_allclose(result.log_odds[n], reference.log_odds, rtol=rtol, atol=atol)
        np.testing.assert_allclose(result.pairwise[n], reference.pairwise, rtol=0, atol=atol)
        np.testing.assert_allclose(
            result.log_partition[n], reference.log_partition, rtol=rtol, atol=10 * atol
        )


def same_answers(one, other, rtol, atol):
    for field in ("log_odds", "pairwise", "log_partition"):
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), rtol=rtol, atol=atol)


@pytest.fixture
def force_log_form(monkeypatch):
    monkeypatch.setattr(
        _messages, "LOG_RANGE", {np.dtype(np.float32): 0.0, np.dtype(np.float64): 0.0}
    )


KERNELS = {"pass_odds": rbm_odds.pass_odds, "pass_logs": rbm_log.pass_logs}


@pytest.fixture
def kernels_used(monkeypatch):
    """Names of the sum-product kernels that run, in order."""
    used = []
    for name in ("pass_odds", "pass_logs"):

        def spy(*args, name=name):
            used.append(name)
            KERNELS[name](*args)

        monkeypatch.setattr(_messages, name, spy)
    return used


# ---------------------------------------------------------------- sum-product, both forms


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_iter", [1, 2, 3, 7])
@pytest.mark.parametrize("scale", [0.3, 2.0])
@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_odds_form_equals_naive(dtype, n_iter, scale, damping, kernels_used):
    energy = random_rbm(0, 7, 5, n_models=2, scale=scale, dtype=dtype)
    result = run(energy, n_iter, damping=damping)
    assert set(kernels_used) == {"pass_odds"}
    assert_beliefs_equal(result, naive(energy, n_iter, damping), **TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_iter", [1, 2, 3, 7])
@pytest.mark.parametrize("damping", [0.0, 0.4, 0.5])
def test_log_form_equals_naive(dtype, n_iter, damping, force_log_form, kernels_used):
    energy = random_rbm(1, 5, 7, n_models=2, scale=2.0, dtype=dtype)
    result = run(energy, n_iter, damping=damping)
    assert set(kernels_used) == {"pass_logs"}
    assert_beliefs_equal(result, naive(energy, n_iter, damping), **TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("damping", "kernel"), [(0.0, "pass_odds"), (0.5, "pass_odds"), (0.1, "pass_logs")]
)
def test_damping_selects_the_form(damping, kernel, kernels_used):
    run(random_rbm(1, 3, 3), 2, damping=damping)
    assert kernels_used == [kernel]


@pytest.mark.parametrize("dtype", DTYPES)
def test_trace_equals_naive(dtype):
    energy = random_rbm(2, 6, 4, n_models=3, dtype=dtype)
    trace = run(energy, 5, return_trace=True).trace
    for n, reference in enumerate(naive(energy, 5)):
        np.testing.assert_allclose(trace[n], reference.trace, atol=2e-6)


def test_pairwise_agrees_with_visible_marginals_before_convergence():
    """P(1, 1) + P(1, 0) is the reported P(v_i = 1) at any number of iterations."""
    energy = random_rbm(3, 6, 5, n_models=2, scale=2.0)
    for n_iter in (1, 2, 7):
        result = run(energy, n_iter)
        for n, reference in enumerate(naive(energy, n_iter)):
            margin = result.pairwise[n] + reference.pairwise_off
            expected = np.broadcast_to(result.marginals[n, :6, None], margin.shape)
            np.testing.assert_allclose(margin, expected, atol=1e-12)
            assert np.all(result.pairwise[n] <= result.marginals[n, :6, None] + 1e-15)


@pytest.mark.parametrize("shape", [(6, 1), (1, 6)])
@pytest.mark.parametrize("method", ["sum_product", "tree_reweighted"])
def test_a_star_is_exact_after_one_iteration(shape, method):
    """Visible units send first, so that the two layers have heard all after one iteration."""
    energy = random_rbm(21, *shape, n_models=2, scale=2.0)
    exact = infer(energy, "exact", returns=ALL, pairwise="per_example")
    once = infer(energy, method, max_iter=1, returns=ALL, pairwise="per_example")
    same_answers(once, exact, **TOLERANCE[np.float64])


@pytest.mark.parametrize("simplified", [False, True])
def test_naive_equals_matrix_form(simplified):
    """The two references agree: the schedule and equations 13 to 18 of the paper."""
    energy = random_rbm(4, 7, 5, scale=1.5)
    b, c = energy.visible_bias[0], energy.hidden_bias[0]
    for n_iter in (1, 4):
        tau_v, tau_h, pairwise = matrix_sum_product(energy.weights, b, c, n_iter, simplified)
        reference = naive_sum_product(energy.weights, b, c, n_iter)
        beliefs = 1 / (1 + np.exp(-reference.log_odds))
        np.testing.assert_allclose(np.concatenate([tau_v, tau_h]), beliefs, atol=1e-12)
        np.testing.assert_allclose(pairwise(), reference.pairwise, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(90, 64), (40, 130)])
def test_larger_models_equal_the_matrix_form(dtype, shape):
    """Many blocks of rows, long rows; the reference is the paper's, in float64."""
    energy = random_rbm(19, *shape, scale=0.3, dtype=dtype)
    weights, b, c = (a.astype(np.float64) for a in (energy.weights, *energy.fields))
    tau_v, tau_h, pairwise = matrix_sum_product(weights, b[0], c[0], 4)
    result = run(energy, 4)
    # Probabilities whose log-odds are sums of a hundred terms.
    atol = {np.float32: 1e-5, np.float64: 1e-12}[dtype]
    np.testing.assert_allclose(result.marginals[0], np.concatenate([tau_v, tau_h]), atol=atol)
    np.testing.assert_allclose(result.pairwise[0], pairwise(), atol=atol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_hidden", [1, 7, 8, 31, 33, 70])
def test_row_lengths_around_the_vector_width(dtype, n_hidden):
    energy = random_rbm(5, 2, n_hidden, scale=0.4, dtype=dtype)
    assert_beliefs_equal(run(energy, 2), naive(energy, 2), **TOLERANCE[dtype])


@pytest.mark.parametrize("n_visible", [1, 3, 7, 8, 9, 17])
def test_row_counts(n_visible):
    energy = random_rbm(6, n_visible, 3)
    assert_beliefs_equal(run(energy, 3), naive(energy, 3), **TOLERANCE[np.float64])


# ------------------------------------------------------------------------ strong couplings


def strong_energy(dtype, weight=50.0, bias=1e3, n_visible=6, n_hidden=5):
    rng = np.random.default_rng(7)
    weights = rng.uniform(-weight, weight, (n_visible, n_hidden))
    weights[0, 0], weights[1, 1] = weight, -weight
    b = rng.uniform(-60, 60, (3, n_visible))
    c = rng.uniform(-60, 60, (3, n_hidden))
    b[1, :2], c[1, :2] = (bias, -bias), (-bias, bias)
    b[2], c[2] = 0.0, 0.0
    return RBMEnergy(weights.astype(dtype), b.astype(dtype), c.astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_iter", [1, 3])
@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_strong_couplings_equal_naive(dtype, n_iter, damping):
    """|W| up to 50, biases up to 1e3. Sums reach 1e3, so the last bit is 1e-4 in float32."""
    energy = strong_energy(dtype)
    atol = {np.float32: 2e-3, np.float64: 1e-11}[dtype]
    rtol = {np.float32: 1e-5, np.float64: 1e-12}[dtype]
    result = run(energy, n_iter, damping=damping)
    assert_beliefs_equal(result, naive(energy, n_iter, damping), rtol, atol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_strong_couplings_are_finite(dtype, damping):
    for bias in (0.0, 1e3):
        result = run(strong_energy(dtype, bias=bias), 30, damping=damping)
        for field in ("log_odds", "marginals", "pairwise", "log_partition"):
            assert np.isfinite(getattr(result, field)).all()
        assert result.pairwise.min() >= 0
        assert result.pairwise.max() <= 1


@pytest.mark.parametrize(("dtype", "weight"), [(np.float32, 39.9), (np.float64, 199.0)])
@pytest.mark.parametrize("shape", [(9, 6), (14, 3), (3, 14), (20, 13)])
@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_odds_form_at_its_limit(dtype, weight, shape, damping, kernels_used):
    """Every |W| just below half the range of the products.

    All rows are cut in pieces; with 14 units on a side, the other's products leave the
    range of float64 as well.
    """
    rng = np.random.default_rng(8)
    weights = weight * rng.choice([-1, 1], shape)
    b, c = rng.normal(0, 30, (2, shape[0])), rng.normal(0, 30, (2, shape[1]))
    energy = RBMEnergy(weights.astype(dtype), b.astype(dtype), c.astype(dtype))
    result = run(energy, 3, damping=damping)
    assert set(kernels_used) == {"pass_odds"}
    tolerance = {np.float32: 2e-3, np.float64: 1e-10}[dtype]
    assert_beliefs_equal(result, naive(energy, 3, damping), rtol=1e-5, atol=tolerance)


@pytest.mark.deep
def test_log_form_beyond_the_limit(kernels_used):
    energy = RBMEnergy(np.full((2, 2), 40.0, np.float32), np.zeros(2, "f4"), np.zeros(2, "f4"))
    run(energy, 1)
    assert kernels_used == ["pass_logs"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("log_range", [4.5, 9.0, 30.0])
def test_products_cut_in_pieces(dtype, log_range, monkeypatch, kernels_used):
    """Rows and columns of L1 norm 30 against ranges that hold one weight, a few, or all."""
    energy = random_rbm(9, 30, 30, scale=0.5, dtype=dtype)
    weights = np.clip(energy.weights, -2, 2)
    weights[3] = 0  # a row that sends nothing
    weights[4, 5:] = 0
    energy = RBMEnergy(weights, *energy.fields)
    whole = run(energy, 2)
    ranges = dict.fromkeys(_messages.LOG_RANGE, log_range)
    monkeypatch.setattr(_messages, "LOG_RANGE", ranges)
    cut = run(energy, 2)
    assert set(kernels_used) == {"pass_odds"}
    same_answers(cut, whole, **TOLERANCE[dtype])
    assert_beliefs_equal(cut, naive(energy, 2), **TOLERANCE[dtype])


@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.floats(1e-3, 30),
    limit=st.floats(1, 100),
    n_hidden=st.integers(0, 70),
)
def test_pieces_of_rows(seed, scale, limit, n_hidden):
    weights = random_rbm(seed, 3, n_hidden, scale=scale).weights.clip(-limit / 2, limit / 2)
    norms, largest, columns = _messages._norms(weights)
    norm = np.abs(weights).sum(1)
    np.testing.assert_allclose(norms, norm, rtol=1e-12)
    np.testing.assert_allclose(columns, np.abs(weights).sum(0), rtol=1e-12)
    np.testing.assert_array_equal(largest, np.abs(weights).max(1, initial=0))
    piece = _messages._row_pieces(weights, norms, limit)
    for row, size in zip(np.abs(weights), piece, strict=True):
        assert size >= 1
        step = int(size)  # unsigned: NumPy 1 makes floats of it
        assert all(row[k : k + step].sum() <= limit for k in range(0, n_hidden, step))
    # A row is left whole where it can be.
    assert (piece[norm <= limit] >= n_hidden).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0.5, 3.0, 8.0])
def test_odds_form_equals_log_form(dtype, scale, monkeypatch):
    energy = random_rbm(10, 12, 11, n_models=3, scale=scale, bias_scale=3.0, dtype=dtype)
    odds = run(energy, 3)
    monkeypatch.setattr(_messages, "LOG_RANGE", dict.fromkeys(_messages.LOG_RANGE, 0.0))
    log = run(energy, 3)
    # Strong couplings pass on differences undamped from iteration to iteration.
    atol = {np.float32: 1e-4, np.float64: 1e-12}[dtype] * max(1.0, scale)
    same_answers(odds, log, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=atol)


@pytest.mark.parametrize("dtype", DTYPES)
def test_saturated_hidden_and_visible_units(dtype):
    """Biases far outside exp's range: the tails keep their relative precision."""
    weights = np.array([[1.0, -2.0], [0.5, 3.0]], dtype)
    energy = RBMEnergy(
        weights,
        np.array([[-300.0, 250.0], [90.0, -95.0], [1e3, -1e3]], dtype),
        np.array([[200.0, -400.0], [-100.0, 104.0], [-1e3, 1e3]], dtype),
    )
    result = run(energy, 3)
    rtol = {np.float32: 1e-6, np.float64: 1e-14}[dtype]
    for n, reference in enumerate(naive(energy, 3)):
        np.testing.assert_allclose(result.log_odds[n], reference.log_odds, rtol=rtol)
        np.testing.assert_allclose(result.log_partition[n], reference.log_partition, rtol=rtol)


# ----------------------------------------------------------------------------------- exact


def exact(energy, **options):
    return infer(energy, "exact", returns=ALL, pairwise="per_example", **options)


def assert_exact(energy, result, rtol, atol, clamp=None):
    for n, (b, c) in enumerate(zip(*energy.fields, strict=True)):
        expected = brute_force(energy.weights, b, c, clamp=None if clamp is None else clamp[n])
        np.testing.assert_allclose(result.log_odds[n], expected.log_odds, rtol=rtol, atol=atol)
        np.testing.assert_allclose(result.marginals[n], expected.marginals, atol=atol)
        np.testing.assert_allclose(result.pairwise[n], expected.pairwise, atol=atol)
        np.testing.assert_allclose(result.log_partition[n], expected.log_partition, rtol=rtol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 3), (3, 5), (1, 1), (1, 6), (6, 1), (4, 4)])
def test_exact_equals_brute_force(dtype, shape):
    energy = random_rbm(11, *shape, n_models=3, scale=2.0, dtype=dtype)
    # Computed in float64; float32 rounds the answers and their log-odds once.
    rtol, atol = {np.float32: (1e-6, 1e-6), np.float64: (1e-12, 1e-12)}[dtype]
    assert_exact(energy, exact(energy), rtol, atol)


@pytest.mark.parametrize("shape", [(5, 0), (0, 5), (0, 0)])
@pytest.mark.parametrize("method", ["exact", "sum_product", "mean_field"])
def test_one_side_empty(shape, method):
    energy = random_rbm(12, *shape, n_models=2)
    result = infer(energy, method, returns=ALL)
    fields = np.hstack(energy.fields)
    np.testing.assert_allclose(result.log_odds, fields, rtol=1e-13)
    np.testing.assert_allclose(result.log_partition, np.logaddexp(0, fields).sum(1), rtol=1e-13)
    assert result.pairwise.shape == shape
    assert result.converged.all()


@pytest.mark.parametrize("shape", [(5, 7), (7, 5), (5, 5)])
def test_exact_in_tiles(shape, monkeypatch):
    """A table of 2^3 states in place of all 2^5: four tiles."""
    energy = random_rbm(13, *shape, n_models=2, scale=2.0)
    whole = exact(energy)
    monkeypatch.setattr(_exact, "CACHED_ENTRIES", 1)
    tiled = exact(energy)
    same_answers(tiled, whole, rtol=1e-12, atol=1e-13)
    assert_exact(energy, tiled, 1e-12, 1e-12)


@pytest.mark.parametrize("tiled", [False, True])
def test_exact_saturated(tiled, monkeypatch):
    """Probabilities below 1e-300: the log-odds come from the log domain."""
    if tiled:
        monkeypatch.setattr(_exact, "CACHED_ENTRIES", 1)
    rng = np.random.default_rng(14)
    weights = rng.normal(0, 3, (5, 4))
    b, c = rng.normal(0, 3, (3, 5)), rng.normal(0, 3, (3, 4))
    b[0, :3], c[0, :2] = (1e3, -1e3, 700), (-1e3, 1e3)
    b[1], c[1] = 1e3, -1e3
    b[2, 0], c[2, 0] = -720, 730
    energy = RBMEnergy(weights, b, c)
    assert_exact(energy, exact(energy), 1e-11, 1e-11)


def test_exact_tiny_probability_with_a_large_gain():
    """sigma(-735) is a denormal float with few digits; couplings of 290 lift it again."""
    weights = np.array([[290.0, 100.0, -50.0], [1.0, -1.0, 2.0], [0.5, 0.0, 1.0]])
    b, c = np.array([-735.0, 0.3, -0.2]), np.array([0.0, -300.0, 0.1])
    for energy in (RBMEnergy(weights, b, c), RBMEnergy(weights.T, c, b)):  # summed, enumerated
        assert_exact(energy, exact(energy), 1e-12, 1e-12)


@pytest.mark.parametrize("strength", [40.0, 150.0, 400.0])
def test_exact_with_couplings_beyond_a_product(strength):
    """Rows whose couplings sum to some 100, 500 and 1500: products, flushes, logs."""
    rng = np.random.default_rng(15)
    weights = rng.uniform(-strength, strength, (6, 4))
    weights[0] = np.abs(weights[0])
    energy = RBMEnergy(weights, rng.normal(0, 50, (2, 6)), rng.normal(0, 50, (2, 4)))
    assert_exact(energy, exact(energy), 1e-10, 1e-10)
    swapped = RBMEnergy(weights.T, *energy.fields[::-1])
    assert_exact(swapped, exact(swapped), 1e-10, 1e-10)


def test_exact_sum_over_many_chunks(monkeypatch):
    """More rows than a chunk holds; the sum equals the weighted sum of the parts."""
    monkeypatch.setattr(_exact, "_CHUNK_WORK", 1)
    energy = random_rbm(16, 4, 3, n_models=11)
    weight = np.random.default_rng(0).random(11)
    parts = exact(energy).pairwise
    total = infer(energy, "exact", returns="pairwise", sample_weight=weight).pairwise
    np.testing.assert_allclose(total, np.tensordot(weight, parts, 1), rtol=1e-13)


# ------------------------------------------------------------------------------ mean field


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_iter", [1, 2, 7])
def test_mean_field_equals_naive(dtype, n_iter):
    energy = random_rbm(17, 6, 4, n_models=3, scale=2.0, dtype=dtype)
    result = infer(
        energy,
        "mean_field",
        max_iter=n_iter,
        tol=0,
        returns=ALL,
        pairwise="per_example",
        return_trace=True,
    )
    for n, (b, c) in enumerate(zip(*energy.fields, strict=True)):
        reference = naive_mean_field(energy.weights, b, c, n_iter)
        np.testing.assert_allclose(result.log_odds[n], reference.log_odds, **TOLERANCE[dtype])
        np.testing.assert_allclose(
            result.log_partition[n], reference.log_partition, **TOLERANCE[dtype]
        )
        np.testing.assert_allclose(result.trace[n], reference.trace, atol=2e-6)
        v, h = result.marginals[n, :6], result.marginals[n, 6:]
        np.testing.assert_allclose(result.pairwise[n], np.outer(v, h), rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_mean_field_strong_couplings(dtype):
    energy = strong_energy(dtype)
    result = infer(energy, "mean_field", max_iter=3, tol=0, returns=ALL)
    for n, (b, c) in enumerate(zip(*energy.fields, strict=True)):
        reference = naive_mean_field(energy.weights, b, c, 3)
        rtol, atol = {np.float32: (1e-5, 2e-3), np.float64: (1e-12, 1e-11)}[dtype]
        np.testing.assert_allclose(result.log_odds[n], reference.log_odds, rtol=rtol, atol=atol)
        np.testing.assert_allclose(
            result.log_partition[n], reference.log_partition, rtol=rtol, atol=10 * atol
        )


# ------------------------------------------------------------------------------- compiling


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_compiled_version_per_dtype(dtype):
    """Layouts, read-only arrays and slices must not each compile a version of their own."""
    base = random_rbm(18, 5, 4, n_models=6, dtype=dtype)
    frozen = [a.copy() for a in (base.weights, *base.fields)]
    for a in frozen:
        a.flags.writeable = False
    weights, b, c = frozen
    energies = [
        base,
        RBMEnergy(weights, b, c),
        RBMEnergy(weights, b[0], c[0]),
        RBMEnergy(weights, b, c[0]),
        RBMEnergy(np.asfortranarray(weights), b[::2], c[::2]),
        base.rows(slice(1, 5, 2)),
        base.with_fields(b, c),
    ]
    for energy, method in itertools.product(energies, ("exact", "sum_product")):
        infer(energy, method, returns=ALL)
        infer(energy, method, returns="marginals", clamp=[1] + [np.nan] * 8)
    for energy in energies:
        infer(energy, SumProduct(damping=0.3), returns=ALL)
    assert len(rbm_exact.enumerate_rows.signatures) == 1
    for kernel in (rbm_odds.pass_odds, rbm_log.pass_logs):
        single = ["float32" in str(signature) for signature in kernel.signatures]
        assert single.count(dtype == np.float32) == 1
