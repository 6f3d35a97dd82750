"""Pairwise Boltzmann machines: the energy, and every method that works on it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.brute_force_ising import brute_force_ising
from reference.dtypes import DTYPES
from reference.naive_ising import (
    naive_edge_appearance,
    naive_mean_field_ising,
    naive_messages_ising,
)
from reference.random_models import random_clamp, random_ising
from scipy.optimize import minimize
from scipy.special import entr

from skcrbm.energies import IsingEnergy
from skcrbm.inference import (
    Exact,
    MeanField,
    SumProduct,
    TreeReweighted,
    available_methods,
    infer,
)

ALL = ("marginals", "pairwise", "log_partition")


def random_tree(seed, n_labels, n_models=1, scale=1.0, bias_scale=1.0, dtype=np.float64):
    """Couplings on a random tree, but for its last label, which is on its own."""
    rng = np.random.default_rng(seed)
    energy = random_ising(seed, n_labels, n_models, scale, bias_scale, dtype)
    edges = np.zeros((n_labels, n_labels), bool)
    for i in range(1, n_labels - 1):
        edges[i, rng.integers(i)] = True
    return IsingEnergy(energy.coupling * (edges | edges.T), energy.field)


def assert_exact(energy, result, clamp=None, atol=1e-10, all_pairs=True):
    """Equal to brute force, per model; `result` has all answers, pairwise per model.

    Message passing on a tree is exact on the pairs with an edge; `all_pairs` asks for the
    others as well.
    """
    clamp = np.full((energy.n_models, energy.n_variables), np.nan) if clamp is None else clamp
    for n, field in enumerate(energy.field):
        expected = brute_force_ising(energy.coupling, field, clamp[n])
        np.testing.assert_allclose(result.marginals[n], expected.marginals, atol=atol)
        np.testing.assert_allclose(result.log_odds[n], expected.log_odds, rtol=atol, atol=atol)
        pairs = np.ones_like(energy.coupling, bool)
        if not all_pairs:
            pairs = (energy.coupling != 0) | np.eye(len(pairs), dtype=bool)
        np.testing.assert_allclose(result.pairwise[n][pairs], expected.pairwise[pairs], atol=atol)
        np.testing.assert_allclose(
            result.log_partition[n], expected.log_partition, rtol=atol, atol=atol
        )


# --------------------------------------------------------------------------- the energy


def test_score_is_the_log_weight():
    energy = random_ising(0, 4, n_models=16)
    state = (np.arange(16)[:, None] >> np.arange(4)) & 1
    y = 2 * state - 1
    for n in range(16):
        expected = brute_force_ising(energy.coupling, energy.field[n])
        row = (expected.states == y[n]).all(1)
        np.testing.assert_allclose(energy.score(state)[n], expected.scores[row][0])


def test_rows_share_the_couplings():
    energy = random_ising(0, 3, n_models=5)
    some = energy.rows([4, 1])
    assert some.coupling is energy.coupling
    np.testing.assert_array_equal(some.field, energy.field[[4, 1]])
    one = IsingEnergy(energy.coupling, energy.field[0])
    assert (one.n_models, one.n_variables, one.statistic_shapes) == (1, 3, ((3, 3),))


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ((np.float32, np.float32), np.float32),
        ((np.float32, np.float64), np.float64),
        ((np.int64, np.float32), np.float64),
    ],
)
def test_dtype(dtypes, expected):
    energy = IsingEnergy(np.zeros((2, 2), dtypes[0]), np.zeros((3, 2), dtypes[1]))
    assert energy.dtype == energy.coupling.dtype == energy.field.dtype == expected


@pytest.mark.parametrize(
    ("coupling", "field", "message"),
    [
        (np.zeros((2, 3)), np.zeros(2), r"coupling must have shape \(L, L\)"),
        (np.zeros(2), np.zeros(2), r"coupling must have shape \(L, L\)"),
        (np.eye(2), np.zeros(2), "zero diagonal"),
        ([[0, 1], [2, 0]], np.zeros(2), "must be symmetric"),
        ([[0, np.nan], [np.nan, 0]], np.zeros(2), "coupling must be finite"),
        (np.zeros((2, 2)), np.zeros(3), r"field must have shape .* with L = 2"),
        (np.zeros((2, 2)), np.zeros((1, 1, 2)), "field must have shape"),
        (np.zeros((2, 2)), [0, np.inf], "field must be finite"),
        (np.zeros((2, 2)), ["a", "b"], "field must be a real array"),
    ],
)
def test_what_is_refused(coupling, field, message):
    with pytest.raises(ValueError, match=message):
        IsingEnergy(coupling, field)


@pytest.mark.parametrize("dtype", DTYPES)
def test_conditioning_keeps_the_log_weight(dtype):
    """Score of a state = score of the free labels with folded fields + offset."""
    energy = random_ising(1, 6, n_models=40, dtype=dtype)
    clamp = random_clamp(np.random.default_rng(0), 40, 6)
    conditioned = energy.condition(clamp)
    values = np.random.default_rng(1).integers(0, 2, (40, 6))
    state = np.where(np.isnan(clamp), values, clamp)
    (field,), offset = conditioned.fold_evidence()
    y = np.where(conditioned.free, 2.0 * state - 1, 0)  # held labels are left out
    score = (y * field).sum(1) + 0.5 * ((y @ energy.coupling) * y).sum(1) + offset
    atol = {np.float32: 1e-4, np.float64: 1e-12}[dtype]
    np.testing.assert_allclose(score, energy.score(state), atol=atol)
    np.testing.assert_allclose(score, conditioned.score(state), atol=atol)


# ------------------------------------------------------------------- which methods there are


def test_refusals_name_what_is_possible():
    energy = random_ising(0, 3)
    with pytest.raises(
        ValueError, match=r"'mixed_product' does not work on IsingEnergy; .*'exact'"
    ):
        infer(energy, "mixed_product", returns="map")
    with pytest.raises(ValueError, match="'marginal_map', which has no meaning for an IsingEnergy"):
        infer(energy, "exact", returns="marginal_map")
    searches = ["max_product", "branch_and_bound", "milp", "mplp", "linear_program", "icm"]
    searches += ["map_search", "simulated_annealing"]
    assert available_methods(energy, ["map"]) == ["exact", *searches]
    sums = ["exact", "mean_field", "sum_product", "tree_reweighted"]
    samplers = ["gibbs", "gibbs_with_gradients", "bp_chain", "perturb_and_max_product"]
    samplers += ["perturb_and_map", "ais"]
    assert available_methods(energy) == [*sums, *searches, *samplers]
    with pytest.raises(ValueError, match=r"free labels; there are 4, and .*max_units=3"):
        infer(random_ising(0, 4), Exact(max_units=3))


# ------------------------------------------------------------------------------ enumeration


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_labels", [0, 1, 2, 5, 11])
@pytest.mark.parametrize("clamped", [False, True])
def test_exact(n_labels, clamped, dtype):
    energy = random_ising(n_labels, n_labels, n_models=3, scale=0.7, dtype=dtype)
    clamp = random_clamp(np.random.default_rng(0), 3, n_labels) if clamped else None
    result = infer(energy, "exact", returns=ALL, pairwise="per_example", clamp=clamp)
    assert result.marginals.dtype == result.pairwise.dtype == dtype
    assert_exact(energy, result, clamp, atol={np.float32: 2e-5, np.float64: 1e-11}[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("scale", "bias_scale"), [(50, 1), (2, 1000), (50, 1000), (1, 300)])
def test_exact_on_strong_models(scale, bias_scale, dtype):
    """Log-odds are right even if the probability rounds to 0 or 1."""
    energy = random_ising(3, 6, 4, scale=scale, bias_scale=bias_scale, dtype=dtype)
    result = infer(energy, "exact", returns=ALL, pairwise="per_example")
    assert_exact(energy, result, atol={np.float32: 1e-5, np.float64: 1e-10}[dtype])


@given(seed=st.integers(0, 2**32 - 1), n_labels=st.integers(1, 7), scale=st.floats(0.01, 60))
def test_best_state(seed, n_labels, scale):
    energy = random_ising(seed, n_labels, n_models=3, scale=scale, bias_scale=scale)
    clamp = random_clamp(np.random.default_rng(seed), 3, n_labels, share=0.2)
    result = infer(energy, "exact", returns="map", clamp=clamp)
    for n, field in enumerate(energy.field):
        expected = brute_force_ising(energy.coupling, field, clamp[n])
        score = energy.score(result.assignment)[n]
        np.testing.assert_allclose(score, expected.scores.max(), rtol=1e-12, atol=1e-12)
        for i in np.flatnonzero(np.isnan(clamp[n])):
            on = expected.states[:, i] == 1
            gap = expected.scores[on].max() - expected.scores[~on].max()
            np.testing.assert_allclose(result.log_odds[n, i], gap, rtol=1e-9, atol=1e-9)


def test_only_free_labels_are_enumerated():
    """Forty labels of which five are free, not the same five in each model."""
    energy = random_ising(4, 40, 6, scale=0.3)
    clamp = np.random.default_rng(0).integers(0, 2, (6, 40)).astype(float)
    for n in range(6):
        clamp[n, n % 2 : n % 2 + 5] = np.nan
    result = infer(energy, "exact", returns=ALL, pairwise="per_example", clamp=clamp)
    for n in range(6):
        free = np.isnan(clamp[n])
        y = 2 * clamp[n, ~free] - 1
        field = energy.field[n, free] + energy.coupling[np.ix_(free, ~free)] @ y
        expected = brute_force_ising(energy.coupling[np.ix_(free, free)], field)
        fixed = y @ energy.field[n, ~free] + y @ energy.coupling[np.ix_(~free, ~free)] @ y / 2
        np.testing.assert_allclose(result.marginals[n, free], expected.marginals, atol=1e-12)
        np.testing.assert_allclose(result.log_partition[n], expected.log_partition + fixed)
        pairs = result.pairwise[n]
        np.testing.assert_allclose(pairs[np.ix_(free, free)], expected.pairwise, atol=1e-12)
        np.testing.assert_allclose(np.diagonal(pairs), result.marginals[n], atol=1e-12)


# ------------------------------------------------------------------------------ mean field


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_iter", [1, 3])
def test_mean_field_equals_naive(n_iter, dtype):
    energy = random_ising(0, 6, 4, dtype=dtype)
    method = MeanField(max_iter=n_iter, tol=0)
    result = infer(energy, method, returns=ALL, pairwise="per_example", return_trace=True)
    atol = {np.float32: 1e-5, np.float64: 1e-12}[dtype]
    for n, field in enumerate(energy.field):
        expected = naive_mean_field_ising(energy.coupling, field, n_iter)
        assert_equals_naive(result, n, expected, atol)


def assert_equals_naive(result, n, expected, atol):
    np.testing.assert_allclose(result.log_odds[n], expected.log_odds, atol=atol, rtol=atol)
    np.testing.assert_allclose(result.pairwise[n], expected.pairwise, atol=atol)
    np.testing.assert_allclose(result.log_partition[n], expected.log_partition, atol=20 * atol)
    np.testing.assert_allclose(result.trace[n], expected.trace, atol=atol)


@given(seed=st.integers(0, 2**32 - 1), n_labels=st.integers(1, 8), scale=st.floats(0.01, 20))
def test_mean_field_is_a_lower_bound_that_never_falls(seed, n_labels, scale):
    energy = random_ising(seed, n_labels, 3, scale=scale, bias_scale=scale)
    exact = infer(energy, "exact", returns="log_partition").log_partition
    last = np.full(3, -np.inf)
    for n_iter in (1, 2, 5, 50):
        method = MeanField(max_iter=n_iter, tol=0)
        bound = infer(energy, method, returns="log_partition").log_partition
        assert (bound >= last - 1e-9 * (1 + np.abs(bound))).all()
        assert (bound <= exact + 1e-9 * (1 + np.abs(exact))).all()
        last = bound


# ------------------------------------------------------------------------ message passing


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("damping", [0.0, 0.4])
@pytest.mark.parametrize("n_iter", [1, 2, 5])
def test_messages_equal_naive(n_iter, damping, dtype):
    energy = random_ising(0, 5, 3, scale=0.5, dtype=dtype)
    method = SumProduct(max_iter=n_iter, tol=0, damping=damping)
    result = infer(energy, method, returns=ALL, pairwise="per_example", return_trace=True)
    rho = np.ones((5, 5))
    atol = {np.float32: 2e-5, np.float64: 1e-11}[dtype]
    for n, field in enumerate(energy.field):
        expected = naive_messages_ising(energy.coupling, field, rho, n_iter, damping)
        assert_equals_naive(result, n, expected, atol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [8.0, 30.0, 150.0])
def test_strong_messages_equal_naive(scale, dtype):
    """As odds in float64, and as logs where products would not fit."""
    energy = random_ising(0, 5, 3, scale=scale, bias_scale=3 * scale, dtype=dtype)
    result = infer(energy, SumProduct(max_iter=4, tol=0), return_trace=True)
    rho = np.ones((5, 5))
    rtol = {np.float32: 2e-5, np.float64: 1e-11}[dtype]
    for n, field in enumerate(energy.field):
        expected = naive_messages_ising(energy.coupling, field, rho, 4, pairs=False)
        np.testing.assert_allclose(result.log_odds[n], expected.log_odds, rtol, scale * rtol)
        np.testing.assert_allclose(result.trace[n], expected.trace, atol=10 * scale * rtol)


@pytest.mark.parametrize("method", ["sum_product", "tree_reweighted"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("scale", "bias_scale"), [(1, 1), (50, 1), (2, 1000), (50, 1000)])
@pytest.mark.parametrize("clamped", [False, True])
def test_trees_are_exact(method, scale, bias_scale, clamped, dtype):
    """Bethe's approximation is exact on a tree, and a tree is its only spanning tree."""
    energy = random_tree(2, 7, 5, scale=scale, bias_scale=bias_scale, dtype=dtype)
    clamp = random_clamp(np.random.default_rng(0), 5, 7, share=0.3) if clamped else None
    result = infer(  # without a tolerance, as log-odds move on when probabilities do not
        energy, method, tol=0, returns=ALL, pairwise="per_example", clamp=clamp, max_iter=10
    )
    atol = {np.float32: 5e-4, np.float64: 1e-9}[dtype]
    assert_exact(energy, result, clamp, atol, all_pairs=False)


@pytest.mark.parametrize("method", ["mean_field", "sum_product"])
def test_clamping_is_leaving_out(method):
    """Beliefs given some labels equal the beliefs of the model without these labels."""
    energy = random_ising(3, 8, 4, scale=0.4)
    clamp = np.full(8, np.nan)
    clamp[[1, 4, 5]] = 1, 0, 1
    free = np.isnan(clamp)
    y = 2 * clamp[~free] - 1
    rest = IsingEnergy(
        energy.coupling[np.ix_(free, free)],
        energy.field[:, free] + energy.coupling[np.ix_(free, ~free)] @ y,
    )
    fixed = energy.field[:, ~free] @ y + y @ energy.coupling[np.ix_(~free, ~free)] @ y / 2
    options = {"tol": 1e-12, "max_iter": 500, "returns": ALL, "pairwise": "per_example"}
    whole = infer(energy, method, clamp=clamp, **options)
    part = infer(rest, method, **options)
    np.testing.assert_allclose(whole.marginals[:, free], part.marginals, atol=1e-10)
    np.testing.assert_allclose(whole.log_partition, part.log_partition + fixed, atol=1e-9)
    inner = whole.pairwise[:, free][:, :, free]
    np.testing.assert_allclose(inner, part.pairwise, atol=1e-10)
    np.testing.assert_allclose(
        whole.pairwise[:, 1], whole.marginals[:, 1, None] * whole.marginals, atol=1e-15
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("damping", [0.0, 0.4])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_tree_reweighted_equals_naive(share, damping, dtype):
    """The fixed point of naive messages, on a complete graph and on a graph with uneven weights."""
    energy = random_ising(0, 6, 3, scale=0.4, dtype=dtype)
    edges = np.triu(np.random.default_rng(1).random((6, 6)) < share, 1)
    edges[np.arange(5), np.arange(1, 6)] = True  # connected
    graph = edges | edges.T
    energy = IsingEnergy(energy.coupling * graph, energy.field)
    method = TreeReweighted(max_iter=1000, tol=1e-13, damping=damping)
    result = infer(energy, method, returns=ALL, pairwise="per_example")
    rho = np.where(graph, naive_edge_appearance(graph.astype(float)), 1.0)
    atol = {np.float32: 1e-5, np.float64: 1e-9}[dtype]
    for n, field in enumerate(energy.field):
        expected = naive_messages_ising(energy.coupling, field, rho, 300, 0.3)
        np.testing.assert_allclose(
            result.marginals[n], 1 / (1 + np.exp(-expected.log_odds)), atol=atol
        )
        np.testing.assert_allclose(result.log_partition[n], expected.log_partition, atol=10 * atol)
        joined = graph | np.eye(6, dtype=bool)
        np.testing.assert_allclose(result.pairwise[n][joined], expected.pairwise[joined], atol=atol)


@pytest.mark.parametrize("scale", [0.3, 0.8])
def test_tree_reweighted_maximises_its_objective(scale):
    """A general optimiser of the concave problem over q_i and p_ik finds no more."""
    energy = random_ising(7, 4, scale=scale, bias_scale=0.5)
    result = infer(energy, "tree_reweighted", returns=ALL, tol=1e-10, max_iter=5000)
    left, right = np.triu_indices(4, 1)
    s, f = energy.coupling[left, right], energy.field[0]

    def joints(x):
        q, p = x[:4], x[4:]
        return np.stack([p, q[left] - p, q[right] - p, 1 - q[left] - q[right] + p])

    def loss(x):
        q, joint = x[:4], np.maximum(joints(x), 1e-12)
        entropy = entr(q) + entr(1 - q)
        pairs = entr(joint).sum(0) - entropy[left] - entropy[right]
        energies = f @ (2 * q - 1) + s @ (joint[0] + joint[3] - joint[1] - joint[2])
        return -(energies + entropy.sum() + 0.5 * pairs.sum())

    best = minimize(
        loss,
        np.r_[np.full(4, 0.5), np.full(6, 0.25)],
        method="SLSQP",
        bounds=[(1e-6, 1 - 1e-6)] * 10,
        constraints={"type": "ineq", "fun": lambda x: joints(x).ravel() - 1e-9},
        options={"maxiter": 1000, "ftol": 1e-13},
    )
    assert best.status in (0, 8), best.message  # 8: rounding leaves no descent
    assert (joints(best.x) >= 0).all()
    np.testing.assert_allclose(result.log_partition[0], -best.fun, atol=1e-6)
    np.testing.assert_allclose(result.marginals[0], best.x[:4], atol=2e-3)
    np.testing.assert_allclose(result.pairwise[left, right], best.x[4:], atol=2e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tree_reweighted_has_one_fixed_point(dtype):
    """The problem is concave: strong couplings converge, from anywhere, to the same beliefs."""
    for seed in range(5):
        energy = random_ising(seed, 12, 2, scale=1.0, dtype=dtype)
        method = TreeReweighted(tol=1e-5, max_iter=3000)
        cold = infer(energy, method)
        start = infer(energy.with_fields(3 - energy.field), method)
        warm = infer(energy, method, init=start)
        assert cold.converged.all()
        assert warm.converged.all()
        np.testing.assert_allclose(cold.marginals, warm.marginals, atol=5e-3)


# ---------------------------------------------------------------- rules for every method


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_strong_models_stay_finite(dtype, damping):
    """Tree-reweighted sees couplings of 50 L / 2."""
    energy = random_ising(3, 30, 3, scale=25.0, bias_scale=500.0, dtype=dtype)
    for method in ("mean_field", "sum_product", "tree_reweighted"):
        options = {} if method == "mean_field" else {"damping": damping}
        result = infer(energy, method, returns=ALL, max_iter=20, **options)
        for field in ("marginals", "log_odds", "pairwise", "log_partition"):
            assert np.isfinite(getattr(result, field)).all(), (method, field)
        assert (result.pairwise >= 0).all()
        assert (result.pairwise <= 3).all()


@pytest.mark.deep
def test_pairwise_sum():
    energy = random_ising(5, 5, 60)
    weight = np.random.default_rng(0).random(60)
    clamp = random_clamp(np.random.default_rng(1), 60, 5)
    for method in available_methods(energy, ["pairwise"]):
        options = {"returns": "pairwise", "sample_weight": weight, "clamp": clamp}
        if method.startswith("gibbs"):
            options["random_state"] = 0
        each = infer(energy, method, pairwise="per_example", **options).pairwise
        total = infer(energy, method, **options).pairwise
        np.testing.assert_allclose(total, np.tensordot(weight, each, axes=1), rtol=1e-10)
        np.testing.assert_allclose(each, each.swapaxes(1, 2), rtol=1e-14)
        np.testing.assert_allclose(total, total.T, rtol=1e-12)
