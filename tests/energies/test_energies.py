"""Energies: shapes, dtypes, conditioning, weights of states, and the conditional RBM."""

import pickle

import numpy as np
import pytest
from reference.brute_force import brute_force
from reference.random_models import random_clamp, random_ising, random_rbm
from reference.states import all_states
from scipy.sparse import csr_array, csr_matrix
from threadpoolctl import threadpool_limits

from skcrbm.energies import OneHotRBMEnergy, RBMEnergy
from skcrbm.energies.rbm import ConditionalRBM, CRBMParams
from skcrbm.inference import infer

DTYPES = [np.float32, np.float64]


# --------------------------------------------------------------------------- construction


def test_shapes_and_broadcasting():
    weights = np.ones((3, 2))
    for b, c, n in (
        (np.zeros(3), np.zeros(2), 1),
        (np.zeros((5, 3)), np.zeros(2), 5),
        (np.zeros(3), np.zeros((5, 2)), 5),
        (np.zeros((1, 3)), np.zeros((5, 2)), 5),
        (np.zeros((0, 3)), np.zeros(2), 0),
        (np.zeros(3), np.zeros((0, 2)), 0),
    ):
        energy = RBMEnergy(weights, b, c)
        assert energy.n_models == n
        assert energy.visible_bias.shape == (n, 3)
        assert energy.hidden_bias.shape == (n, 2)
        assert (energy.n_visible, energy.n_hidden, energy.n_variables) == (3, 2, 5)
        assert energy.fields[0] is energy.visible_bias


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ((np.float32, np.float32, np.float32), np.float32),
        ((np.float16, np.float16, np.float32), np.float32),
        ((np.float32, np.float64, np.float32), np.float64),
        ((np.float32, np.float32, np.int64), np.float64),
        ((bool, np.int8, np.uint8), np.float64),
        ((np.longdouble, np.float32, np.float32), np.float64),
        ((">f8", "<f8", ">f8"), np.float64),
        ((object, np.float64, np.float64), np.float64),
    ],
)
def test_dtype_follows_the_input(dtypes, expected):
    arrays = [np.ones(s, d) for s, d in zip(((2, 3), 2, 3), dtypes, strict=True)]
    energy = RBMEnergy(*arrays)
    assert energy.dtype == expected
    for a in (energy.weights, *energy.fields):
        assert a.dtype == expected
        assert a.dtype.isnative
        assert a.flags.c_contiguous
        assert a.flags.aligned
        assert a.flags.writeable
    result = infer(energy, "sum_product", returns=("marginals", "pairwise", "log_partition"))
    assert result.marginals.dtype == result.log_odds.dtype == result.pairwise.dtype == expected
    assert result.log_partition.dtype == np.float64


def test_lists_and_views_are_accepted():
    energy = RBMEnergy([[1, 2], [3, 4]], [0, 1], [[0, 1], [2, 3]])
    assert energy.dtype == np.float64
    wide = np.arange(24.0).reshape(4, 6)
    view = RBMEnergy(wide[::2, ::2].T, wide[0, :3], wide[:2, 0])
    np.testing.assert_array_equal(view.weights, wide[::2, ::2].T)


@pytest.mark.parametrize(
    ("weights", "b", "c", "match"),
    [
        (np.ones(3), np.ones(3), np.ones(1), r"weights must have shape \(V, H\).*\(3,\)"),
        (np.ones((2, 2, 2)), np.ones(2), np.ones(2), r"weights must have shape \(V, H\)"),
        (1.0, np.ones(2), np.ones(2), r"weights must have shape \(V, H\)"),
        (
            np.ones((3, 2)),
            np.ones(2),
            np.ones(2),
            r"visible_bias must have shape \(V,\) or \(N, V\) with V = 3, .*\(2,\)",
        ),
        (np.ones((3, 2)), np.ones((4, 2)), np.ones(2), r"visible_bias must .*V = 3.*\(4, 2\)"),
        (
            np.ones((3, 2)),
            np.ones(3),
            np.ones(3),
            r"hidden_bias must .*\(N, H\) with H = 2.*\(3,\)",
        ),
        (np.ones((3, 2)), np.ones((1, 1, 3)), np.ones(2), "visible_bias must have shape"),
        (np.ones((3, 2)), 1.0, np.ones(2), "visible_bias must have shape"),
        (np.ones((3, 2)), np.ones((4, 3)), np.ones((5, 2)), "visible_bias has 4 rows, .* has 5"),
        (np.ones((3, 2)), np.ones((5, 3)), np.ones((4, 2)), "hidden_bias has 4 rows, .* has 5"),
        ([[np.nan, 0]], [0], [0, 0], "weights must be finite, of shape .V, H.*NaN or inf"),
        ([[0, 0]], [np.inf], [0, 0], r"visible_bias must be finite, of shape \(V,\)"),
        ([[0, 0]], [0], [0, -np.inf], r"hidden_bias must be finite, of shape \(H,\)"),
        ([[1j, 0]], [0], [0, 0], "weights must be a real array of shape .V, H.*complex128"),
        ([[0, 0]], [0], [1j, 0], "hidden_bias must be a real array"),
        ([["1", "2"]], [0], [0, 0], "weights must be a real array"),
        ([[0, 0]], ["one"], [0, 0], "visible_bias must be a real array"),
        ([[0, 0]], [0], np.array(["a", 1], object), "hidden_bias must be a real array"),
        ([[0, 0]], [0], np.array([1, 2], "datetime64[s]"), "hidden_bias must be a real array"),
        ([[0, 0], [0]], [0], [0, 0], "weights must be a real array"),
        ([[0, 0]], [0], [[0, 0], [0]], "hidden_bias must be a real array"),
        ([[None, 0]], [0], [0, 0], "weights must be finite"),
    ],
)
def test_invalid_arrays(weights, b, c, match):
    with pytest.raises(ValueError, match=match):
        RBMEnergy(weights, b, c)


def test_rows_and_with_fields_share_the_couplings():
    energy = random_rbm(0, 3, 2, n_models=6)
    some = energy.rows([4, 1])
    assert some.weights is energy.weights
    np.testing.assert_array_equal(some.visible_bias, energy.visible_bias[[4, 1]])
    np.testing.assert_array_equal(some.hidden_bias, energy.hidden_bias[[4, 1]])
    assert energy.n_models == 6
    shifted = energy.with_fields(energy.visible_bias + 1, energy.hidden_bias)
    assert type(shifted) is RBMEnergy
    np.testing.assert_array_equal(shifted.visible_bias, energy.visible_bias + 1)
    single = random_rbm(0, 3, 2, dtype=np.float32).with_fields(np.ones((4, 3)), np.ones((4, 2)))
    assert single.dtype == np.float32
    copy = pickle.loads(pickle.dumps(energy))
    np.testing.assert_array_equal(copy.weights, energy.weights)


# ---------------------------------------------------------------- conditioning and weights


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["rbm", "ising"])
def test_folded_evidence(kind, dtype):
    """Fields of the free variables and the offset make up the score, held ones left out."""
    make = {"rbm": lambda: random_rbm(1, 4, 3, n_models=5, dtype=dtype)}
    make["ising"] = lambda: random_ising(1, 7, n_models=5, dtype=dtype)
    energy = make[kind]()
    clamp = random_clamp(np.random.default_rng(0), 5, 7, share=0.5)
    given = energy.condition(clamp)
    for old, new in zip(energy.fields, given.fields, strict=True):
        assert new is old  # evidence is carried, not folded into the fields
    fields, offset = given.fold_evidence()
    assert {field.dtype for field in fields} == {np.dtype(dtype)}
    assert offset.dtype == np.float64
    held = ~np.isnan(clamp)
    assert (np.hstack(fields)[held] == 0).all()
    folded = energy.with_fields(*fields)
    states = all_states(7)
    for state in states[:: 2**3 + 1]:
        full = np.where(held, np.nan_to_num(clamp), state)
        if kind == "rbm":
            rest = folded.score(np.where(held, 0, state))
        else:  # a label that is left out is neither -1 nor +1
            y = np.where(held, 0, 2 * state - 1)
            rest = (y * fields[0]).sum(1) + 0.5 * ((y @ energy.coupling) * y).sum(1)
        np.testing.assert_allclose(rest + offset, given.score(full), atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_weights(dtype):
    energy = random_rbm(2, 4, 3, n_models=3, scale=2.0, dtype=dtype)
    sets = all_states(4)
    table = energy.log_weight_of_sets(sets)
    assert table.shape == (3, 16)
    assert table.dtype == np.float64
    rtol = {np.float32: 1e-5, np.float64: 1e-12}[dtype]
    for n, (b, c) in enumerate(zip(*energy.fields, strict=True)):
        for k, v in enumerate(sets):
            clamp = np.concatenate([v, [np.nan] * 3])
            expected = brute_force(energy.weights, b, c, clamp)
            np.testing.assert_allclose(table[n, k], expected.log_partition, rtol=rtol, atol=rtol)
    visible = sets[[3, 9, 14]]
    np.testing.assert_allclose(
        energy.log_weight(visible), table[np.arange(3), [3, 9, 14]], rtol=rtol, atol=rtol
    )
    hidden = energy.hidden_given_visible(visible)
    assert hidden.dtype == dtype
    for n, v in enumerate(visible):
        clamp = np.concatenate([v, [np.nan] * 3])
        expected = brute_force(energy.weights, *(f[n] for f in energy.fields), clamp)
        np.testing.assert_allclose(hidden[n], expected.marginals[4:], rtol=10 * rtol)


def test_log_weight_of_saturated_hidden_units():
    energy = RBMEnergy(np.full((2, 1), 50.0, np.float32), np.zeros(2, "f4"), np.array([1e3], "f4"))
    np.testing.assert_allclose(energy.log_weight(np.ones((1, 2))), [1100.0])
    energy = energy.with_fields(np.zeros((1, 2)), np.array([[-1e3]]))
    np.testing.assert_allclose(energy.log_weight(np.ones((1, 2))), [0.0], atol=1e-30)


def test_marginal_modes():
    energy = random_rbm(3, 3, 1)
    log_odds = np.array([[0.0, -1e-9, 5.0], [-np.inf, np.inf, -3.0]])
    np.testing.assert_array_equal(energy.marginal_modes(log_odds), [[1, 0, 1], [0, 1, 0]])
    one_hot = OneHotRBMEnergy(energy.weights, *energy.fields)
    np.testing.assert_array_equal(
        one_hot.marginal_modes(np.array([[-3.0, -1.0, -2.0], [2.0, -9.0, -9.0]])),
        [[0, 1, 0], [1, 0, 0]],
    )


def test_bits_do_not_depend_on_blas_threads():
    """Large enough for BLAS to use several threads where there are any."""
    energy = random_rbm(4, 400, 300, n_models=100, scale=0.1, dtype=np.float32)
    clamp = random_clamp(np.random.default_rng(0), 100, 700)
    results = []
    for limit in (1, None):
        with threadpool_limits(limit):
            results.append(
                infer(
                    energy,
                    "mean_field",
                    max_iter=2,
                    clamp=clamp,
                    returns=("marginals", "pairwise", "log_partition"),
                )
            )
    for field in ("log_odds", "pairwise", "log_partition"):
        np.testing.assert_array_equal(*(getattr(r, field) for r in results))


# -------------------------------------------------------------------------------- one-hot


def test_one_hot_class_weights():
    rng = np.random.default_rng(5)
    weights, b, c = rng.normal(0, 2, (4, 3)), rng.normal(size=(2, 4)), rng.normal(size=(2, 3))
    energy = OneHotRBMEnergy(weights, b, c)
    table = energy.class_log_weights()
    for n in range(2):
        for k in range(4):
            expected = b[n, k] + np.logaddexp(0, weights[k] + c[n]).sum()
            np.testing.assert_allclose(table[n, k], expected, rtol=1e-13)
    assert type(energy.rows([1])) is OneHotRBMEnergy
    for impossible in ([1, 1, np.nan, np.nan], [0, 0, 0, 0]):
        with pytest.raises(ValueError, match="sets two of the units 0 to 3 to 1, or all"):
            energy.condition(np.tile([*impossible, *[np.nan] * 3], (2, 1)))


# ------------------------------------------------------------------------- conditional RBM


def conditional(rng, n_visible=3, n_hidden=2, n_features=4, energy_type=RBMEnergy):
    shapes = (
        (n_visible, n_hidden),
        (n_visible, n_features),
        (n_hidden, n_features),
        (n_visible,),
        (n_hidden,),
    )
    return ConditionalRBM(CRBMParams(*(rng.normal(size=s) for s in shapes)), energy_type)


@pytest.mark.parametrize("container", [np.asarray, csr_matrix, csr_array])
@pytest.mark.parametrize("energy_type", [RBMEnergy, OneHotRBMEnergy])
def test_conditional_energy(container, energy_type):
    rng = np.random.default_rng(6)
    model = conditional(rng, energy_type=energy_type)
    X = rng.normal(size=(5, 4)) * (rng.random((5, 4)) < 0.5)
    energy = model.energy(container(X))
    p = model.params
    assert type(energy) is energy_type
    for n in range(5):
        b = p.visible_intercept + p.visible_coef @ X[n]
        c = p.hidden_intercept + p.hidden_coef @ X[n]
        np.testing.assert_allclose(energy.visible_bias[n], b, rtol=1e-13)
        np.testing.assert_allclose(energy.hidden_bias[n], c, rtol=1e-13)
    np.testing.assert_array_equal(energy.weights, p.weights)


@pytest.mark.parametrize("container", [np.asarray, csr_matrix, csr_array])
def test_conditional_gradient_of_log_z(container):
    """The chain rule on the model's moments is the gradient of sum_n log Z_n."""
    rng = np.random.default_rng(7)
    model = conditional(rng)
    X = rng.normal(size=(4, 4)) * (rng.random((4, 4)) < 0.7)

    def log_z(params):
        energy = ConditionalRBM(params).energy(X)
        return infer(energy, "exact", returns="log_partition").log_partition.sum()

    result = infer(model.energy(X), "exact", returns=("marginals", "pairwise"))
    gradient = model.gradient(container(X), result.marginals, result.statistics)
    for k, (array, slope) in enumerate(zip(model.params, gradient, strict=True)):
        assert slope.shape == array.shape
        for index in np.ndindex(array.shape):
            sides = []
            for step in (1e-5, -1e-5):
                moved = array.copy()
                moved[index] += step
                sides.append(log_z(CRBMParams(*model.params[:k], moved, *model.params[k + 1 :])))
            numeric = (sides[0] - sides[1]) / 2e-5
            np.testing.assert_allclose(slope[index], numeric, rtol=1e-6, atol=1e-8)
