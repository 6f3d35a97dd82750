"""Where arrays lie in memory must not change a bit of the results.

The compiler guards vector loops by the distance between arrays and may otherwise run
them one element at a time; a sum that it may reorder then rounds differently.
"""

import numpy as np
import pytest
from reference.dtypes import DTYPES

from skcrbm.kernels import (
    layered_messages,
    perturbed_maxima,
    rbm_exact,
    rbm_log,
    rbm_odds,
    scalar,
)

pytestmark = pytest.mark.compiled


def scattered(arrays, rng):
    """Copies of `arrays` in one piece of memory, in random order with random gaps."""
    gaps = rng.randint(2, 40, len(arrays))
    memory = np.zeros(sum(a.size for a in arrays) + gaps.sum(), arrays[0].dtype)
    copies, start = [None] * len(arrays), 0
    for k in rng.permutation(len(arrays)):
        stop = start + arrays[k].size
        copies[k] = memory[start:stop].reshape(arrays[k].shape)
        copies[k][...] = arrays[k]
        start = stop + gaps[k]
    return copies


def assert_same_bits(call, arrays, n_times=30):
    rng = np.random.RandomState(0)
    outcomes = set()
    for _ in range(n_times):
        copies = scattered(arrays, rng)
        returned = call(*copies)
        outcomes.add(repr(returned) + "".join(c.tobytes().hex() for c in copies))
    assert len(outcomes) == 1


@pytest.mark.parametrize("n_states", [2, 4, 8, 16, 32])
def test_enumeration(n_states):
    rng = np.random.RandomState(n_states)
    row, stride = rbm_exact.ROW, rbm_exact.STRIDE
    product, rows = rng.rand(2 * row), np.exp(rng.randn(4 * stride))
    gain, t, weight = np.exp(rng.randn(4 * n_states)), rng.rand(8), rng.rand(2)
    assert_same_bits(
        lambda q, rows, t, u, w: rbm_exact._divide(q, 0, rows, 0, row, t, u, 0, 4, w, 0, n_states),
        [product, rows, t, 1 - t, weight],
    )
    assert_same_bits(
        lambda q, rows: rbm_exact._sum_off(q, 0, rows, 0, 0.3, 0.7, n_states), [product, rows]
    )
    assert_same_bits(
        lambda q, gain, t, u: rbm_exact._multiply(q, 0, gain, 0, t, u, 0, n_states),
        [product, gain, t, 1 - t],
    )
    assert_same_bits(lambda q: rbm_exact._total(q, 0, n_states), [product])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3), (4, 8), (2, 12), (3, 20), (2, 36)])
def test_message_passing(dtype, shape):
    rng = np.random.RandomState(0)
    n_visible, n_hidden = shape
    weights, theta = rng.randn(*shape).astype(dtype), rng.randn(n_hidden).astype(dtype)
    odds, message = np.exp(weights), np.exp(rng.randn(*shape).astype(dtype))
    on, field = rng.rand(n_hidden).astype(dtype), rng.randn(n_visible).astype(dtype)
    on_i = rng.rand(n_visible).astype(dtype)
    rows, piece = np.arange(n_visible).astype(np.uintp), np.full(n_visible, n_hidden, np.uintp)
    ones, block = np.ones(n_hidden, dtype), np.zeros((4, n_hidden), dtype)
    bias_odds, ratio = np.exp(rng.randn(n_visible)), np.zeros(n_visible)
    held = np.empty(0, np.uintp)
    assert_same_bits(
        lambda e, m, t, u, ti, ui: rbm_odds._block_beliefs(
            e, m, t, u, rows, piece, bias_odds, ratio, ti, ui
        ),
        [odds, message, on, 1 - on, on_i, 1 - on_i],
    )
    assert_same_bits(
        lambda e, m, t, u, ti, ui, column: rbm_odds._block_messages(
            e, m, t, u, rows, ti, ui, False, column, dtype(1e-30)
        ),
        [odds, message, on, 1 - on, on_i, 1 - on_i, ones],
    )
    assert_same_bits(
        lambda e, m, t, u, ti, ui, column: rbm_odds._block_messages(
            e, m, t, u, rows, ti, ui, True, column, dtype(1e-30)
        ),
        [odds, message, on, 1 - on, on_i, 1 - on_i, ones],
    )
    assert_same_bits(
        lambda e, m, ti, ui, column: rbm_odds._block_choices(e, m, rows, ti, ui, True, column),
        [odds, message, on_i, 1 - on_i, ones],
    )
    assert_same_bits(
        lambda e, t, u, m: scalar.odds_from_beliefs(e[0], t, u, dtype(0.3), dtype(0.7), m[0]),
        [odds, on, 1 - on, message],
    )
    assert_same_bits(
        lambda w, b, v, h, m, total: rbm_log._sweep_max(w, b, v, h, m, rows, dtype(0.3), total),
        [weights, field, field, theta, message, ones],
    )
    assert_same_bits(
        lambda w, b, v, h, m, incoming: rbm_log._receive_sum(
            w, dtype(0.6), b, v, h, held, m, rows, incoming
        ),
        [weights, field, field, np.tile(theta, (4, 1)), message, block],
    )
    assert_same_bits(
        lambda w, v, m, incoming, total: rbm_log._send_sum(
            w, v, m, rows, dtype(0.3), dtype(0.7), incoming, total
        ),
        [weights, field, message, message, ones],
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 7, 20])
def test_layered_messages(dtype, n):
    rng = np.random.RandomState(n)
    l, k = 3, 4
    source, target = (np.ascontiguousarray(a) for a in np.divmod(np.arange(6), 3))
    pair, mask = np.arange(6), np.empty((0, n), dtype)

    def normal(*shape):
        return rng.normal(size=shape).astype(dtype)

    belief, reverse, total = normal(2, (l - 1) * n), normal(6, (l - 1) * n), normal(3, (k - 1) * n)
    table, shift = np.exp(-abs(normal(6, l, k - 1))), normal(6, k - 1)
    rho, weights = rng.rand(6).astype(dtype), normal(6, l - 1, k - 1)
    out, d_total = normal(6, (k - 1) * n), normal(3, (k - 1) * n)

    assert_same_bits(
        lambda b, r, w, s, p, o, t: layered_messages.send(
            b, r, layered_messages.Edges(w, s, source, target, pair, p), mask, o, t
        ),
        [belief, reverse, table, shift, rho, out, total],
        n_times=20,
    )
    assert_same_bits(
        lambda b, r, w, s, p, o, d, direct, db, dr, dw: layered_messages.send_vjp(
            b,
            r,
            layered_messages.Edges(w, s, source, target, pair, p),
            mask,
            o,
            d,
            direct,
            db,
            dr,
            dw,
        ),
        [belief, reverse, table, shift, rho, out, d_total, out, belief, reverse, weights],
        n_times=20,
    )
    assert_same_bits(
        lambda m, w, t: layered_messages.expected_fields(m, w, source, target, pair, t),
        [belief, weights, total],
        n_times=20,
    )
    assert_same_bits(
        lambda m, w, d, dm, dw: layered_messages.expected_fields_vjp(
            m, w, source, target, pair, d, dm, dw
        ),
        [belief, weights, d_total, belief, weights],
        n_times=20,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("triangle", [False, True])
def test_perturbed_pairs(triangle, dtype):
    rng = np.random.RandomState(0)
    rows, columns = (21, 21) if triangle else (9, 21)
    coupling = rng.normal(size=(rows, columns)).astype(dtype)
    field = rng.normal(size=(2, columns if triangle else rows + columns)).astype(dtype)
    message = np.zeros((2, 2, rows, columns), dtype)

    def call(coupling, field, message, belief):
        perturbed_maxima.pass_pairs(
            coupling, triangle, field, dtype(0), False, 3, dtype(0.5), message, belief
        )

    assert_same_bits(call, [coupling, field, message, np.zeros_like(field)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_perturbed_edges(dtype):
    rng = np.random.RandomState(0)
    edges = np.array([[0, 1], [0, 2], [1, 2]])
    field = rng.normal(size=(3, 21)).astype(dtype)

    def call(coupling, field, message, belief):
        perturbed_maxima.pass_edges(edges, coupling, field, 3, dtype(0.5), message, belief)

    arrays = [
        rng.normal(size=3).astype(dtype),
        field,
        np.zeros((6, 21), dtype),
        np.zeros_like(field),
    ]
    assert_same_bits(call, arrays)
