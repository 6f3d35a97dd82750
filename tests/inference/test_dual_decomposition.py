"""Dual decomposition of marginal MAP: bounds against enumeration and a linear program."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.random_models import random_clamp, random_rbm
from reference.states import all_states
from scipy.optimize import linprog

from skcrbm.energies import OneHotRBMEnergy, RBMEnergy
from skcrbm.inference import DualDecomposition, available_methods, infer


def best_log_weights(energy):
    """Highest log-weight (N,) of a visible state, in float64."""
    exact = RBMEnergy(*(part.astype(float) for part in (*energy.couplings, *energy.fields)))
    if energy.evidence is not None:
        exact = exact.condition(energy.evidence)
    return exact.log_weight_of_sets(all_states(energy.n_visible, float)).max(axis=1)


def log_weights(energy, found):
    return energy.log_weight(found.assignment[:, : energy.n_visible])


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 6), st.integers(0, 5)),
    scale=st.floats(0.01, 5),
    bias_scale=st.floats(0, 3),
    share=st.sampled_from([0.0, 0.4, 1.0]),
    dtype=st.sampled_from([np.float32, np.float64]),
    max_iter=st.sampled_from([1, 7, 100]),
    node_limit=st.sampled_from([1, 2, 5, 1000]),
)
def test_bounds_hold(seed, shape, scale, bias_scale, share, dtype, max_iter, node_limit):
    energy = random_rbm(seed, *shape, n_models=2, scale=scale, bias_scale=bias_scale, dtype=dtype)
    clamp = random_clamp(np.random.default_rng(seed), 2, sum(shape), share)
    conditioned = energy.condition(clamp)
    best = best_log_weights(conditioned)
    method = DualDecomposition(max_iter=max_iter, node_limit=node_limit)
    found = infer(energy, method, clamp=clamp)
    size = 1e-12 * (1 + np.abs(best))
    assert (found.map_bound >= best - size).all()
    assert (found.gap >= 0).all()
    assert found.map_bound.dtype == found.gap.dtype == np.float64
    # The log-weights of float32 models are rounded, the gap is not.
    rounding = 1e-5 if dtype == np.float32 else 1e-12
    below = best - log_weights(conditioned, found)
    np.testing.assert_allclose(
        found.gap, found.map_bound - best + below, atol=rounding * (1 + np.abs(best).max())
    )
    held = ~np.isnan(clamp)
    np.testing.assert_array_equal(found.assignment[held], clamp[held])
    if shape[1] <= 1 or share == 1:  # at most one part: the bound is exact
        np.testing.assert_allclose(found.map_bound, best, rtol=1e-12, atol=1e-12)
        assert found.converged.all()
    if node_limit == 1000:  # more than there are
        assert (found.gap <= 1.001e-6).all()
        assert found.converged.all()
    assert (found.converged | (found.gap > 1e-6)).all()


@pytest.mark.parametrize("scale", [0.2, 1.0, 5.0])
def test_attractive_couplings_leave_no_gap(scale):
    """Parts are supermodular, also after visible and hidden units change their signs."""
    rng = np.random.default_rng(0)
    weights = np.abs(rng.normal(0, scale, (8, 6)))
    weights *= np.outer(rng.choice([-1, 1], 8), rng.choice([-1, 1], 6))
    energy = RBMEnergy(weights, scale * rng.normal(size=(9, 8)), -weights.sum(axis=0) / 2)
    found = infer(energy, DualDecomposition(max_iter=5000, node_limit=1))
    np.testing.assert_allclose(found.map_bound, best_log_weights(energy), atol=2e-6)
    assert (found.gap <= 2e-6).all()
    assert found.converged.all()


def relaxation(energy, n):
    """Optimum of the program that is dual to the bound: distributions over v that agree on means.

    One distribution of 2^V probabilities for each hidden unit, and the means x of all of them.
    """
    states = all_states(energy.n_visible, float)
    k, v = states.shape
    h = energy.n_hidden
    gain = np.logaddexp(0, energy.hidden_bias[n] + states @ energy.weights)
    sums = np.kron(np.eye(h), np.ones(k))
    means = np.kron(np.eye(h), states.T)
    agree = np.hstack([means, -np.tile(np.eye(v), (h, 1))])
    constraints = np.vstack([np.hstack([sums, np.zeros((h, v))]), agree])
    right = np.concatenate([np.ones(h), np.zeros(h * v)])
    value = np.concatenate([gain.T.ravel(), energy.visible_bias[n]])
    return -linprog(-value, A_eq=constraints, b_eq=right, bounds=(0, 1)).fun


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_the_lowest_bound_is_that_of_the_linear_program(scale):
    gaps = []
    for seed in range(4):
        energy = random_rbm(seed, 5, 4, n_models=3, scale=scale, spread=0.0)
        found = infer(energy, DualDecomposition(max_iter=3000, tol=1e-8, node_limit=1))
        expected = np.array([relaxation(energy, n) for n in range(3)])
        assert (found.map_bound >= expected - 1e-8).all()
        np.testing.assert_allclose(found.map_bound, expected, atol=2e-5)
        assert found.converged.all()
        gaps.append(found.gap)
    if scale > 0.5:
        assert np.max(gaps) > 0.01, "none of these shows that a gap may stay"


def test_longer_is_never_worse():
    energy = random_rbm(5, 7, 6, n_models=6, scale=2.0, spread=0.0)
    last, score = np.full(6, np.inf), np.full(6, -np.inf)
    for max_iter in (1, 2, 3, 5, 10, 11, 30, 80, 200, 1000):
        found = infer(energy, DualDecomposition(max_iter=max_iter, tol=0.0, node_limit=1))
        assert (found.map_bound <= last).all()
        # A run rounds an extra time at its last step; a longer run does so at another step.
        if max_iter > 200:
            assert (log_weights(energy, found) >= score - 1e-9).all()
        last, score = found.map_bound, log_weights(energy, found)
        assert (found.n_iter <= max_iter).all()
    few = infer(energy, DualDecomposition(max_iter=2, node_limit=1))
    assert not few.converged.any()
    settled = infer(energy, DualDecomposition(node_limit=1))
    assert settled.converged.all()
    assert (settled.gap > 0.01).any()


def test_more_nodes_are_never_worse():
    energy = random_rbm(5, 9, 8, n_models=6, scale=2.0, spread=0.0)
    last, score = np.full(6, np.inf), np.full(6, -np.inf)
    for node_limit in (2, 3, 4, 6, 10, 20, 50, 1000):
        found = infer(energy, DualDecomposition(node_limit=node_limit))
        assert (found.map_bound <= last).all()
        assert (log_weights(energy, found) >= score - 1e-9).all()
        np.testing.assert_array_equal(found.converged, found.gap <= 1.001e-6)
        last, score = found.map_bound, log_weights(energy, found)
        if node_limit == 4:
            assert not found.converged.all()
    assert found.converged.all()
    np.testing.assert_allclose(found.map_bound, best_log_weights(energy), atol=2e-6)


def test_states_are_local_optima():
    energy = random_rbm(6, 9, 7, n_models=20, scale=1.5, bias_scale=0.3)
    found = infer(energy, DualDecomposition(max_iter=1, node_limit=1))
    visible = found.assignment[:, :9]
    gain = np.where(visible == 1, -1, 1) * energy.visible_log_odds(visible)
    assert gain.max() <= 1e-10
    mode = energy.hidden_given_visible(visible) > 0.5
    np.testing.assert_array_equal(found.assignment[:, 9:], mode)
    best = best_log_weights(energy)
    found = infer(energy, DualDecomposition(node_limit=1))
    assert (log_weights(energy, found) >= best - 1e-9).mean() >= 0.9


@pytest.mark.parametrize("scale", [1e-9, 1e6])
def test_any_scale(scale):
    energy = random_rbm(8, 5, 4, n_models=4)
    energy = RBMEnergy(*(scale * part for part in (energy.weights, *energy.fields)))
    best = best_log_weights(energy)
    found = infer(energy, "dual_decomposition")
    assert (found.map_bound >= best * (1 - 1e-12 * np.sign(best))).all()
    assert (found.map_bound <= best + 10 * scale).all()


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_weights_that_leave_log_2(share):
    """Small beside the rounding of a sum of softplus(0): the bound still holds."""
    rng = np.random.default_rng(0)
    for seed in range(20):
        energy = random_rbm(seed, 2, 6, n_models=3, scale=1e-12, bias_scale=1e-12)
        clamp = random_clamp(rng, 3, 8, share)
        states = all_states(2, float)
        found = infer(energy, "dual_decomposition", clamp=clamp)
        for n, bound in enumerate(found.map_bound):
            held_v, held_h = clamp[n, :2], clamp[n, 2:]
            allowed = states[(np.isnan(held_v) | (states == held_v)).all(axis=1)]
            inputs = allowed.astype(np.longdouble) @ energy.weights + energy.hidden_bias[n]
            hidden = np.where(
                np.isnan(held_h), np.log1p(np.exp(inputs)), np.where(held_h == 1, inputs, 0)
            )
            best = (allowed @ energy.visible_bias[n] + hidden.sum(axis=1)).max()
            assert bound >= best


def test_held_against_large_fields():
    """A unit is held on against a bias of -1e9: the bound holds up to the rounding of 1e9."""
    energy = RBMEnergy([[1.0, -2.0], [0.5, 1.5]], [-1e9, 0.3], [0.2, 0.1])
    clamp = [1, np.nan, np.nan, np.nan]
    best = best_log_weights(energy.condition(np.array([clamp])))
    found = infer(energy, "dual_decomposition", clamp=clamp)
    assert (found.map_bound >= best).all()
    assert (found.map_bound <= best + 1e-3).all()


def test_what_is_asked_and_what_is_refused():
    energy = random_rbm(9, 4, 3)
    assert infer(energy, "dual_decomposition", returns="marginal_map").map_bound is None
    alone = infer(energy, "dual_decomposition", returns="map_bound")
    np.testing.assert_array_equal(alone.gap, infer(energy, "dual_decomposition").gap)
    both = available_methods(energy, ("marginal_map", "map_bound"))
    assert both == ["exact", "dual_decomposition"]
    with pytest.raises(ValueError, match="cannot answer 'map'"):
        infer(energy, "dual_decomposition", returns="map")
    with pytest.raises(ValueError, match="does not work on OneHotRBMEnergy"):
        infer(OneHotRBMEnergy([[1.0], [0.5]], [0.0, 1.0], [0.0]), "dual_decomposition")
    with pytest.raises(ValueError, match="max_iter"):
        infer(energy, DualDecomposition(max_iter=0))
    with pytest.raises(ValueError, match="node_limit"):
        infer(energy, DualDecomposition(node_limit=0))
    with pytest.raises(ValueError, match="has no option 'damping'"):
        infer(energy, "dual_decomposition", damping=0.5)
