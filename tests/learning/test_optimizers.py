"""Optimisers by hand and by the text book."""

from typing import NamedTuple

import numpy as np
import pytest
from reference.objectives import optimizer_of


class Pair(NamedTuple):
    a: np.ndarray
    b: np.ndarray


def test_sgd_by_hand():
    sgd = optimizer_of("sgd", Pair(0.1, 0.5), momentum=0.0)
    start = Pair(np.array([1.0, 2.0]), np.array([[3.0]]))
    gradient = Pair(np.array([1.0, -1.0]), np.array([[2.0]]))
    new = sgd.update(start, gradient)
    np.testing.assert_allclose(new.a, [0.9, 2.1])
    np.testing.assert_allclose(new.b, [[2.0]])
    np.testing.assert_array_equal(start.a, [1.0, 2.0])  # the best epoch's parameters live on


def test_momentum_by_hand():
    sgd = optimizer_of("sgd", Pair(0.1, 0.1), momentum=0.5)
    p = Pair(np.array([0.0]), np.array([0.0]))
    expected = [-0.1, -0.25, -0.425]  # velocities -.1, -.15, -.175
    for value in expected:
        p = sgd.update(p, Pair(np.array([1.0]), np.array([0.0])))
        assert p.a[0] == pytest.approx(value)
        assert p.b[0] == 0


def test_adam_against_the_text_book():
    rng = np.random.default_rng(0)
    adam = optimizer_of("adam", Pair(0.01, 0.05), momentum=0.0)
    p = Pair(rng.normal(size=3), rng.normal(size=(2, 2)))
    q, m, s = list(p), [0.0, 0.0], [0.0, 0.0]
    for t in range(1, 8):
        # |gradient| >= 0.5: epsilon = 1e-8 plays no role, wherever it is put.
        gradient = Pair(*(np.sign(x) * (0.5 + rng.random(x.shape)) for x in q))
        p = adam.update(p, gradient)
        for k, rate in enumerate((0.01, 0.05)):
            m[k] = 0.9 * m[k] + 0.1 * gradient[k]
            s[k] = 0.999 * s[k] + 0.001 * gradient[k] ** 2
            unbiased = (m[k] / (1 - 0.9**t), s[k] / (1 - 0.999**t))
            q[k] = q[k] - rate * unbiased[0] / np.sqrt(unbiased[1])
            np.testing.assert_allclose(p[k], q[k], rtol=1e-5)


def test_adam_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    start = Pair(rng.normal(size=11).astype(np.float32), rng.normal(size=(7, 3)))
    gradients = [Pair(*(rng.normal(size=p.shape).astype(p.dtype) for p in start)) for _ in range(3)]
    ends = []
    for block in (10**6, 4):  # fewer than two rows of the second array, too
        monkeypatch.setattr("skcrbm.learning.optimizers._BLOCK", block)
        adam, p = optimizer_of("adam", Pair(0.1, 0.1), momentum=0.0), start
        for gradient in gradients:
            p = adam.update(p, gradient)
        ends.append(p)
    np.testing.assert_array_equal(ends[0].a, ends[1].a)
    np.testing.assert_array_equal(ends[0].b, ends[1].b)
    assert not np.array_equal(ends[1].b, start.b)


@pytest.mark.parametrize("solver", ["sgd", "adam"])
def test_optimizers_keep_the_dtype(solver):
    # A grid hands over numpy scalars, which would promote float32 to float64.
    optimizer = optimizer_of(solver, Pair(np.float64(0.1), np.float64(0.1)), momentum=0.9)
    p = Pair(np.zeros(2, np.float32), np.zeros(0, np.float32))
    for _ in range(2):
        p = optimizer.update(p, Pair(np.ones(2, np.float32), np.zeros(0, np.float32)))
    assert p.a.dtype == p.b.dtype == np.float32
