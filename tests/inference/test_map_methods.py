"""max_product, mixed_product and icm: states, against enumeration and naive references."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.dtypes import DTYPES
from reference.naive_bp import max_message, message, naive_messages
from reference.random_models import random_clamp, random_rbm
from reference.states import all_states

from skcrbm.energies import RBMEnergy
from skcrbm.inference import ICM, MaxProduct, MixedProduct, infer

METHODS = {"max_product": MaxProduct, "mixed_product": MixedProduct, "icm": ICM}


def joint_scores(weights, b, c, v):
    """Score of the best joint state of each visible state v (K, V)."""
    return v @ b + np.maximum(0, v @ weights + c).sum(1)


def marginal_scores(weights, b, c, v):
    """-F(v) of each visible state."""
    return v @ b + np.logaddexp(0, v @ weights + c).sum(1)


SCORES = {"max_product": joint_scores, "mixed_product": marginal_scores, "icm": joint_scores}


def reached(name, energy, result):
    """Score of the assignments, and the score of the best states."""
    v_all = all_states(energy.n_visible, float)
    scores = []
    for n, (b, c) in enumerate(zip(*energy.fields, strict=True)):
        v = result.assignment[n, : energy.n_visible].astype(float)
        found = SCORES[name](energy.weights, b, c, v[None])[0]
        scores.append((found, SCORES[name](energy.weights, b, c, v_all).max()))
    return np.array(scores).T


def path(dtype):
    """Trees v0 - h0 - v1 - h1 - v2, four models."""
    rng = np.random.default_rng(3)
    weights = np.zeros((3, 2))
    for i, j in ((0, 0), (1, 0), (1, 1), (2, 1)):
        weights[i, j] = rng.normal(0, 2)
    b, c = rng.normal(0, 2, (4, 3)), rng.normal(0, 2, (4, 2))
    return RBMEnergy(weights.astype(dtype), b.astype(dtype), c.astype(dtype))


# ------------------------------------------------------------------- against references


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_iter", [1, 2, 3, 7])
@pytest.mark.parametrize("damping", [0.0, 0.4, 0.5])
@pytest.mark.parametrize("name", ["max_product", "mixed_product"])
@pytest.mark.parametrize("shape", [(5, 4), (4, 7), (1, 3)])
def test_beliefs_equal_naive(name, n_iter, damping, dtype, shape):
    energy = random_rbm(2, *shape, n_models=3, scale=1.5, dtype=dtype)
    method = METHODS[name](max_iter=n_iter, tol=0, damping=damping)
    result = infer(energy, method, return_trace=True)
    for n, (b, c) in enumerate(zip(*energy.fields, strict=True)):
        f = max_message if name == "max_product" else message
        theta_v, theta_h, _, _, trace, states = naive_messages(
            energy.weights, b, c, n_iter, damping, f, choose=name == "mixed_product"
        )
        expected = np.concatenate([theta_v, theta_h])
        tolerance = {np.float32: 2e-4, np.float64: 1e-11}[dtype]
        np.testing.assert_allclose(result.log_odds[n], expected, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(result.trace[n], trace, atol=tolerance)
        # The best of the visited states, not the last state.
        best = SCORES[name](energy.weights, b, c, np.array(states, float)).max()
        v = result.assignment[n, : shape[0]].astype(float)
        score = SCORES[name](energy.weights, b, c, v[None])[0]
        np.testing.assert_allclose(score, best, rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_mixed_product_in_logs_equals_odds(dtype, monkeypatch):
    energy = random_rbm(5, 9, 7, n_models=4, scale=1.0, dtype=dtype)
    method = MixedProduct(max_iter=5, tol=0)
    odds = infer(energy, method)
    none = {np.dtype(np.float32): 0.0, np.dtype(np.float64): 0.0}
    monkeypatch.setattr("skcrbm.inference.rbm._messages.LOG_RANGE", none)
    logs = infer(energy, method)
    np.testing.assert_array_equal(odds.assignment, logs.assignment)
    np.testing.assert_allclose(odds.log_odds, logs.log_odds, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_max_product_is_exact_on_trees(dtype):
    energy = path(dtype)
    result = infer(energy, MaxProduct(tol=1e-6))
    assert result.converged.all()
    found, best = reached("max_product", energy, result)
    np.testing.assert_allclose(found, best, rtol=1e-5)
    # Beliefs are max-marginals: best score with the unit on minus best score with it off.
    states = all_states(5, float)
    for n, (b, c) in enumerate(zip(*energy.fields, strict=True)):
        v, h = states[:, :3], states[:, 3:]
        scores = v @ b + h @ c + ((v @ energy.weights) * h).sum(1)
        for r in range(5):
            on = states[:, r] == 1
            expected = scores[on].max() - scores[~on].max()
            np.testing.assert_allclose(result.log_odds[n, r], expected, rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------ returned answers


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0.1, 1.0, 50.0])
def test_hidden_units_reply_best(name, dtype, scale):
    energy = random_rbm(7, 6, 5, n_models=8, scale=scale, bias_scale=3.0, dtype=dtype)
    result = infer(energy, name)
    assert result.assignment.dtype == np.int8
    assert result.marginals is None
    assert np.isfinite(result.log_odds).all()
    v = result.assignment[:, :6]
    inputs = v @ energy.weights + energy.hidden_bias
    clear = np.abs(inputs) > 1e-3
    np.testing.assert_array_equal(result.assignment[:, 6:][clear], (inputs > 0)[clear])


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_restarts_find_the_best_state(name, dtype):
    """Dense models of 8 x 6 units: 30 restarts are enough for every one of 40."""
    energy = random_rbm(8, 8, 6, n_models=40, scale=1.0, dtype=dtype)
    found, best = reached(name, energy, infer(energy, name, n_restarts=30, random_state=0))
    np.testing.assert_allclose(found, best, rtol=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_more_restarts_are_never_worse(name):
    energy = random_rbm(9, 12, 12, n_models=20, scale=1.5)
    last = -np.inf
    for n_restarts in (1, 2, 4, 8):
        result = infer(energy, name, n_restarts=n_restarts, random_state=1)
        found, best = reached(name, energy, result)
        assert (found >= last - 1e-9).all()
        assert (found <= best + 1e-9).all()
        last = found
    again = infer(energy, name, n_restarts=8, random_state=1)
    np.testing.assert_array_equal(again.assignment, result.assignment)


@pytest.mark.parametrize("name", METHODS)
def test_restarts_do_not_depend_on_the_batch(name):
    energy = random_rbm(10, 7, 6, n_models=9, scale=2.0)
    options = {"n_restarts": 4, "random_state": 3}
    whole = infer(energy, name, **options)
    for row in (0, 4, 8):
        alone = infer(energy.rows([row]), name, **options)
        np.testing.assert_array_equal(alone.assignment[0], whole.assignment[row])
    threads = infer(energy, name, n_jobs=2, **options)
    np.testing.assert_array_equal(threads.log_odds, whole.log_odds)


def test_icm_never_goes_down():
    energy = random_rbm(11, 15, 10, n_models=30, scale=1.0)
    last = -np.inf
    for max_iter in range(1, 8):
        result = infer(energy, ICM(max_iter=max_iter))
        score = energy.score(result.assignment)
        assert (score >= last - 1e-12).all()
        last = score
    done = infer(energy, "icm")
    assert done.converged.all()
    v, h = done.assignment[:, :15], done.assignment[:, 15:]
    np.testing.assert_array_equal(v, energy.visible_bias + h @ energy.weights.T > 0)
    np.testing.assert_array_equal(h, energy.hidden_bias + v @ energy.weights > 0)


def test_a_cycle_is_not_convergence():
    """Two visible units that are updated together, and never settle."""
    energy = RBMEnergy([[1.0, 8.0], [8.0, -6.0]], [-3.7, -5.7], [3.0, -2.0])
    result = infer(energy, MixedProduct(max_iter=50))
    assert not result.converged[0]
    assert result.n_iter[0] == 50
    restarted = infer(energy, MixedProduct(max_iter=50, n_restarts=10, random_state=0))
    found, best = reached("mixed_product", energy, restarted)
    np.testing.assert_allclose(found, best)
    assert restarted.converged[0]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_clamps_are_kept(name, dtype):
    rng = np.random.default_rng(12)
    energy = random_rbm(12, 6, 5, n_models=10, scale=1.0, dtype=dtype)
    clamp = random_clamp(rng, 10, 11)
    result = infer(energy, name, clamp=clamp, n_restarts=20, random_state=0)
    fixed = ~np.isnan(clamp)
    np.testing.assert_array_equal(result.assignment[fixed], clamp[fixed])
    states = all_states(11, float)
    for n, (b, c) in enumerate(zip(*energy.fields, strict=True)):
        kept = states[(states[:, fixed[n]] == clamp[n, fixed[n]]).all(1)]
        v, h = kept[:, :6], kept[:, 6:]
        scores = v @ b + h @ c + ((v @ energy.weights) * h).sum(1)
        found = result.assignment[n].astype(float)
        if name == "mixed_product":
            same = (v == found[:6]).all(1)
            groups = [scores[(v == u).all(1)] for u in np.unique(v, axis=0)]
            best = max(np.logaddexp.reduce(g) for g in groups)
            np.testing.assert_allclose(np.logaddexp.reduce(scores[same]), best, rtol=1e-5)
        else:
            score = scores[(kept == found).all(1)][0]
            np.testing.assert_allclose(score, scores.max(), rtol=1e-5)


@pytest.mark.parametrize("name", ["max_product", "mixed_product"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_warm_start_stays_at_the_fixed_point(name, dtype):
    energy = random_rbm(14, 8, 6, n_models=20, scale=1.0, bias_scale=2.0, dtype=dtype)
    cold = infer(energy, name, tol=1e-5, max_iter=300)
    assert cold.converged.mean() > 0.5
    warm = infer(energy, name, tol=1e-4, max_iter=300, init=cold)
    done = cold.converged
    # Where both ends of an edge are equally sure, their messages are not unique.
    assert np.median(warm.n_iter[done]) == 1
    assert warm.n_iter[done].sum() < cold.n_iter[done].sum()
    np.testing.assert_array_equal(warm.assignment[done], cold.assignment[done])


@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(0.01, 8))
def test_no_state_beats_the_optimum(seed, scale):
    energy = random_rbm(seed, 5, 4, n_models=2, scale=scale)
    for name in METHODS:
        found, best = reached(name, energy, infer(energy, name, max_iter=10))
        assert (found <= best + 1e-9 * (1 + np.abs(best))).all()


def test_marginals_are_refused():
    energy = random_rbm(0, 3, 2)
    with pytest.raises(ValueError, match=r"'max_product' cannot answer 'marginals'.*'sum_product'"):
        infer(energy, "max_product", returns=("marginals",))
    with pytest.raises(ValueError, match="not both"):
        infer(energy, "icm", returns=("map", "marginal_map"))
    with pytest.raises(ValueError, match=r"'icm' cannot answer 'marginal_map'.*'mixed_product'"):
        infer(energy, "icm", returns="marginal_map")
    with pytest.raises(ValueError, match="'icm' has no option 'damping'"):
        infer(energy, "icm", damping=0.5)
    with pytest.raises(ValueError, match="n_restarts"):
        infer(energy, "max_product", n_restarts=0)
