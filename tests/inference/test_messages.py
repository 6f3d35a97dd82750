"""Message passing: held units left out, messages as state, and the test of convergence."""

import numpy as np
import pytest
from conftest import JIT_DISABLED
from hypothesis import given
from hypothesis import strategies as st
from reference.brute_force import brute_force
from reference.brute_force_ising import brute_force_ising
from reference.dtypes import DTYPES
from reference.random_models import random_clamp, random_ising, random_rbm

from skcrbm.energies import IsingEnergy, RBMEnergy
from skcrbm.inference import (
    InferenceResult,
    MaxProduct,
    MixedProduct,
    SumProduct,
    TreeReweighted,
    infer,
)
from skcrbm.kernels import rbm_log, scalar

ALL = ("marginals", "pairwise", "log_partition")
METHODS = {
    "odds": SumProduct(),
    "logs": SumProduct(damping=0.2),
    "tree_reweighted": TreeReweighted(),
    "max_product": MaxProduct(),
    "max_product_damped": MaxProduct(damping=0.2),
    "mixed_product": MixedProduct(),
    "mixed_product_logs": MixedProduct(damping=0.2),
}
ENERGIES = {
    "rbm": random_rbm(0, 6, 5, n_models=4, scale=1.0),
    "ising": random_ising(0, 6, 4, scale=0.4),
}
SUMS = ["odds", "logs", "tree_reweighted"]
PAIRS = [("rbm", name) for name in METHODS] + [("ising", name) for name in SUMS]


def smaller_rbm(energy, row, clamp):
    """Return the model of the free units of a row, and the score of its held units."""
    clamp = np.broadcast_to(clamp, (energy.n_variables,))
    held = ~np.isnan(clamp)
    v, h = np.nan_to_num(clamp[: energy.n_visible]), np.nan_to_num(clamp[energy.n_visible :])
    free_v, free_h = ~held[: energy.n_visible], ~held[energy.n_visible :]
    b, c, w = energy.visible_bias[row], energy.hidden_bias[row], energy.weights
    smaller = RBMEnergy(w[free_v][:, free_h], (b + w @ h)[free_v], (c + v @ w)[free_h])
    return smaller, v @ b + h @ c + v @ w @ h


# ------------------------------------------------------------------------- held units


@pytest.mark.parametrize("name", ["odds", "logs", "max_product", "mixed_product"])
@pytest.mark.parametrize("n_iter", [1, 3])
@pytest.mark.parametrize("what", ["visible", "hidden", "both", "none", "all"])
def test_held_units_are_left_out(name, n_iter, what):
    """After any number of iterations the answers equal those for the model of the free units."""
    energy = random_rbm(1, 6, 5, n_models=3, scale=1.5)
    rng = np.random.default_rng(0)
    clamp = random_clamp(rng, 3, 11, share=0.5)
    if what == "visible":
        clamp[:, 6:] = np.nan
    elif what == "hidden":
        clamp[:, :6] = np.nan
    elif what == "none":
        clamp[:] = np.nan
    elif what == "all":
        clamp = rng.integers(0, 2, (3, 11)).astype(float)
    method = METHODS[name].with_options(max_iter=n_iter, tol=1e-300)
    returns = ALL if name in SUMS else method.default_returns
    result = infer(energy, method, clamp=clamp, returns=returns, return_trace=True)
    for n in range(3):
        free = np.isnan(clamp[n])
        part, offset = smaller_rbm(energy, n, clamp[n])
        alone = infer(part, method, returns=returns, return_trace=True)
        np.testing.assert_allclose(result.log_odds[n, free], alone.log_odds[0], rtol=1e-10)
        if free.any():
            np.testing.assert_allclose(result.trace[n], alone.trace[0], atol=1e-13)
        if name in SUMS:
            np.testing.assert_allclose(
                result.log_partition[n], alone.log_partition[0] + offset, rtol=1e-12
            )
        else:
            np.testing.assert_array_equal(result.assignment[n, free], alone.assignment[0])


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_rows_with_different_evidence(kind, name):
    """Each row may hold other units."""
    energy = ENERGIES[kind]
    clamp = np.full((4, energy.n_variables), np.nan)
    clamp[1, 0], clamp[2, 1:4], clamp[3] = 1, (0, 1, 1), 1
    method = METHODS[name]
    whole = infer(energy, method, clamp=clamp)
    for n in range(4):
        alone = infer(energy.rows([n]), method, clamp=clamp[n])
        np.testing.assert_allclose(whole.log_odds[n], alone.log_odds[0], rtol=1e-12)
        assert whole.n_iter[n] == alone.n_iter[0]


@pytest.mark.parametrize("scale", [1.0, 60.0])
@pytest.mark.parametrize("dtype", DTYPES)
def test_evidence_of_strong_models_stays_finite(scale, dtype):
    """Held hidden units in the form of long rows, of biases beyond exp, and in logs."""
    energy = random_rbm(2, 20, 14, n_models=4, scale=scale, bias_scale=10 * scale, dtype=dtype)
    energy.hidden_bias[0, 0] = 1e3
    clamp = random_clamp(np.random.default_rng(1), 4, 34, share=0.5)
    for method in METHODS.values():
        method = method.with_options(max_iter=20)
        returns = ALL if "log_partition" in method.answers else None
        result = infer(energy, method, clamp=clamp, returns=returns)
        assert np.isfinite(result.log_odds[np.isnan(clamp)]).all()
        if returns:
            assert np.isfinite(result.log_partition).all()
            assert np.isfinite(result.pairwise).all()


def test_fields_of_any_size_are_fields():
    """A unit with a very large field is not treated as held."""
    energy = RBMEnergy(np.ones((2, 1)), [-1e30, 0.0], [0.0])
    result = infer(energy, "sum_product", returns=ALL)
    assert result.log_odds[0, 0] < -1e29
    assert np.isfinite(result.log_partition[0])


# ------------------------------------------------------------------------------- state


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_messages_go_on_where_they_stopped(kind, name, dtype):
    """k iterations, and m further iterations from the state, equal k + m iterations."""
    energy = ENERGIES[kind]
    parts = *energy.couplings, *energy.fields
    energy = type(energy)(*(part.astype(dtype) for part in parts))
    method = METHODS[name].with_options(tol=1e-300)
    first = infer(energy, method.with_options(max_iter=3), return_state=True)
    then = infer(energy, method.with_options(max_iter=2), init=first, return_state=True)
    whole = infer(energy, method.with_options(max_iter=5), return_state=True)
    rtol = {np.float32: 1e-4, np.float64: 1e-12}[dtype]
    np.testing.assert_allclose(then.log_odds, whole.log_odds, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(then.state.values, whole.state.values, rtol=rtol, atol=rtol)
    assert then.state.values.dtype == dtype
    assert infer(energy, method).state is None


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_a_start_from_messages_has_converged(kind, name):
    energy, method = ENERGIES[kind], METHODS[name]
    cold = infer(energy, method.with_options(tol=1e-12, max_iter=1000), return_state=True)
    warm = infer(energy, method, init=cold)
    done = cold.converged
    assert done.any()
    # The kernel of graphs needs two iterations without a change.
    assert (warm.n_iter[done] == (2 if (kind, name) == ("ising", "tree_reweighted") else 1)).all()
    assert warm.converged[done].all()
    np.testing.assert_allclose(warm.log_odds[done], cold.log_odds[done], atol=1e-9)
    state_alone = infer(energy, method, init=InferenceResult(state=cold.state))
    np.testing.assert_array_equal(state_alone.log_odds, warm.log_odds)
    beliefs_alone = infer(energy, method, init=InferenceResult(log_odds=cold.log_odds))
    if name in ("odds", "logs"):
        assert (beliefs_alone.n_iter[done] == 1).all()


@pytest.mark.parametrize("kind", ENERGIES)
def test_messages_between_forms(kind):
    """The state of the odds form is a start for the log form, and the other way round."""
    energy, plain, damped = (
        ENERGIES[kind],
        SumProduct(tol=1e-12),
        SumProduct(tol=1e-12, damping=0.1),
    )
    for one, other in ((plain, damped), (damped, plain)):
        first = infer(energy, one, return_state=True)
        assert first.state.in_logs == (one is damped)
        then = infer(energy, other.with_options(tol=1e-9), init=first)
        assert (then.n_iter == 1).all()
        np.testing.assert_allclose(then.log_odds, first.log_odds, atol=1e-10)


def test_a_state_that_does_not_fit():
    energy = ENERGIES["rbm"]
    first = infer(energy, "sum_product", return_state=True)
    beliefs = infer(energy, "sum_product", init=InferenceResult(log_odds=first.log_odds))
    for state in (first.state._replace(values=first.state.values[:, :2]), "chains"):
        other = infer(
            energy, "sum_product", init=InferenceResult(log_odds=first.log_odds, state=state)
        )
        np.testing.assert_array_equal(other.log_odds, beliefs.log_odds)
    # Without log-odds beside it, a state of messages has its own; any other is no start.
    misfit = first.state._replace(values=first.state.values[:, :2])
    alone = infer(energy, "sum_product", init=InferenceResult(state=misfit))
    np.testing.assert_allclose(alone.log_odds, beliefs.log_odds, atol=1e-4)
    with pytest.raises(ValueError, match=r"with log_odds of shape .*got a result without log_odds"):
        infer(energy, "sum_product", init=InferenceResult(state="chains"))


def test_messages_beyond_what_couplings_can_send():
    """If couplings change between two calls, messages are cut to the range of the new couplings."""
    energy = random_rbm(3, 5, 4, n_models=2, scale=3.0)
    weaker = RBMEnergy(-energy.weights / 10, *energy.fields)
    for method in METHODS.values():
        first = infer(energy, method, return_state=True)
        one = infer(weaker, method, init=first, max_iter=300)
        other = infer(weaker, method, max_iter=300)
        np.testing.assert_allclose(one.log_odds, other.log_odds, atol=1e-4)


def test_state_with_evidence_and_restarts():
    energy, clamp = ENERGIES["rbm"], [1, np.nan, 0, np.nan, np.nan, np.nan, 1, np.nan, np.nan, 0, 1]
    for method in METHODS.values():
        first = infer(energy, method, clamp=clamp, return_state=True)
        assert np.isfinite(first.state.log_odds).all()
        assert np.isfinite(first.state.values).all()
        again = infer(energy, method, clamp=clamp, init=first)
        assert (again.n_iter == 1).all()
        free = infer(energy, method, init=first)  # the held units are free now
        assert np.isfinite(free.log_odds).all()
    method = MaxProduct(n_restarts=5, random_state=0)
    best = infer(energy, method, return_state=True)
    again = infer(energy, MaxProduct(), init=best)
    np.testing.assert_array_equal(again.assignment, best.assignment)


# ----------------------------------------------------------------- messages from beliefs


@pytest.mark.parametrize("dtype", DTYPES)
@given(
    w=st.floats(-39, 39),
    theta_i=st.floats(-120, 120),
    theta_j=st.floats(-120, 120),
)
def test_messages_from_beliefs_are_finite_and_in_range(dtype, w, theta_i, theta_j):
    with np.errstate(over="ignore"):
        odds = np.exp(np.array([w], dtype))
        t, u = 1 / (1 + np.exp(-np.array([theta_j], dtype))), 1 / (1 + np.exp(dtype(theta_j)))
        on, off = 1 / (1 + np.exp(-dtype(theta_i))), 1 / (1 + np.exp(dtype(theta_i)))
    message = np.full(1, np.nan, dtype)
    scalar.odds_from_beliefs(odds, t, np.array([u], dtype), dtype(on), dtype(off), message)
    assert min(odds[0], 1) <= message[0] <= max(odds[0], 1)


def test_messages_from_beliefs_agree_with_the_log_form():
    rng = np.random.default_rng(0)
    energy = random_rbm(4, 7, 6, scale=2.0)
    theta_v, theta_h = rng.normal(0, 3, 7), rng.normal(0, 3, 6)
    odds, message = np.exp(energy.weights), np.empty((7, 6))
    t, u = 1 / (1 + np.exp(-theta_h)), 1 / (1 + np.exp(theta_h))
    for i in range(7):
        on, off = 1 / (1 + np.exp(-theta_v[i])), 1 / (1 + np.exp(theta_v[i]))
        scalar.odds_from_beliefs(odds[i], t, u, on, off, message[i])
    expected = [
        [rbm_log.message_from_beliefs(w, a, b) for w, b in zip(row, theta_h, strict=True)]
        for row, a in zip(energy.weights, theta_v, strict=True)
    ]
    np.testing.assert_allclose(np.log(message), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.skipif(JIT_DISABLED, reason="measures compiled code")
def test_a_start_from_beliefs_costs_a_few_iterations():
    """In processor time, against iterations of the same run; it was a hundred of them."""
    from time import process_time

    energy = random_rbm(5, 300, 200, n_models=20, scale=0.1)
    start = InferenceResult(log_odds=infer(energy, SumProduct(max_iter=5)).log_odds)

    def seconds(n_iter, **options):
        method, best = SumProduct(max_iter=n_iter, tol=0), np.inf
        for _ in range(5):
            before = process_time()
            infer(energy, method, **options)
            best = min(best, process_time() - before)
        return best

    assert seconds(1, init=start) < seconds(20)


# ------------------------------------------------------------------------- convergence


@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("method", ["sum_product", "tree_reweighted"])
def test_news_from_a_late_label(method, damping):
    """1 - 0 - 2: the first two have no field and hear of label 2 after their turn."""
    coupling = np.zeros((3, 3))
    coupling[0, 1:] = coupling[1:, 0] = 1.5
    energy = IsingEnergy(coupling, [[0.0, 0.0, 3.0]])
    result = infer(energy, method, returns=ALL, damping=damping)
    assert result.converged[0]
    expected = brute_force_ising(energy.coupling, energy.field[0])
    np.testing.assert_allclose(result.marginals[0], expected.marginals, atol=1e-5)
    np.testing.assert_allclose(result.log_partition[0], expected.log_partition, atol=1e-5)


@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("method", ["sum_product", "tree_reweighted"])
def test_news_through_saturated_units(method, damping):
    """The first iteration moves the hidden unit from sure to sure, the second turns v1 over."""
    energy = RBMEnergy([[30.0], [60.0]], [[50.0, -20.0]], [[-60.0]])
    result = infer(energy, method, returns=ALL, damping=damping)
    assert result.converged[0]
    expected = brute_force(energy.weights, energy.visible_bias[0], energy.hidden_bias[0])
    np.testing.assert_allclose(result.marginals[0], expected.marginals, atol=1e-5)
    np.testing.assert_allclose(result.log_partition[0], expected.log_partition, rtol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.floats(0.1, 500),
    bias=st.floats(0.1, 1000),
    damping=st.sampled_from([0.0, 0.3]),
    whole=st.booleans(),
)
def test_converged_on_trees_is_exact(dtype, seed, scale, bias, damping, whole):
    rng = np.random.default_rng(seed)
    n_labels = 6
    edges = np.zeros((n_labels, n_labels), bool)
    for i in range(1, n_labels):
        edges[i, rng.integers(i)] = True
    order = rng.permutation(n_labels)
    edges = (edges | edges.T)[order][:, order]
    coupling = np.triu(rng.uniform(-scale, scale, (n_labels, n_labels)), 1)
    field = rng.uniform(-bias, bias, (2, n_labels))
    if whole:
        coupling, field = np.round(coupling), np.round(field)
    energy = IsingEnergy(((coupling + coupling.T) * edges).astype(dtype), field.astype(dtype))
    atol = {np.float32: 2e-3, np.float64: 1e-5}[dtype]
    for method in (SumProduct(damping=damping), TreeReweighted(damping=damping)):
        result = infer(energy, method, returns=ALL)
        for n in np.flatnonzero(result.converged):
            expected = brute_force_ising(energy.coupling, energy.field[n])
            np.testing.assert_allclose(result.marginals[n], expected.marginals, atol=atol)
            np.testing.assert_allclose(
                result.log_partition[n], expected.log_partition, rtol=1e-4, atol=1e-4 * (1 + bias)
            )
    # The same tree as an RBM: one side of it visible.
    colour = _two_colours(edges)
    weights = (rng.uniform(-scale, scale, edges.shape) * edges)[colour][:, ~colour]
    b, c = field[:, colour], field[:, ~colour]
    energy = RBMEnergy(weights.astype(dtype), b.astype(dtype), c.astype(dtype))
    result = infer(energy, SumProduct(damping=damping), returns=ALL)
    if result.converged.all():
        for n, (b, c) in enumerate(zip(*energy.fields, strict=True)):
            expected = brute_force(energy.weights, b, c)
            np.testing.assert_allclose(result.marginals[n], expected.marginals, atol=atol)
            np.testing.assert_allclose(
                result.log_partition[n], expected.log_partition, rtol=1e-4, atol=1e-4 * (1 + bias)
            )


def _two_colours(edges):
    """Which labels are an even number of steps from label 0 of a tree."""
    even, odd = np.zeros(len(edges), bool), np.zeros(len(edges), bool)
    even[0] = True
    for _ in range(len(edges)):
        odd |= edges[even].any(0)
        even |= edges[odd].any(0)
    return even


# ------------------------------------------------------------------- exact, in parts


@pytest.mark.parametrize("kind", ENERGIES)
@pytest.mark.parametrize("clamped", [False, True])
def test_log_odds_beside_a_state(kind, clamped, monkeypatch):
    """Log-odds are max-marginals unless marginals are requested; they are always computed."""
    energy = ENERGIES[kind]
    clamp = random_clamp(np.random.default_rng(0), 4, energy.n_variables) if clamped else None
    empty = np.empty

    def poisoned(*args, **kwargs):
        array = empty(*args, **kwargs)
        array.fill(np.nan if array.dtype.kind == "f" else 77)
        return array

    infer(energy, "exact", returns=("map", *ALL))  # compiles
    monkeypatch.setattr(np, "empty", poisoned)
    best = infer(energy, "exact", returns="map", clamp=clamp)
    sums = infer(energy, "exact", returns=ALL, clamp=clamp)
    for extra in (("log_partition",), ("log_partition", "pairwise"), ("samples", "map_bound")):
        result = infer(energy, "exact", returns=("map", *extra), clamp=clamp)
        np.testing.assert_array_equal(result.log_odds, best.log_odds)
        np.testing.assert_array_equal(result.assignment, best.assignment)
    result = infer(energy, "exact", returns=("map", *ALL), clamp=clamp)
    np.testing.assert_array_equal(result.log_odds, sums.log_odds)
    np.testing.assert_array_equal(result.pairwise, sums.pairwise)
