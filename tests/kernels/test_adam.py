"""Adam on rows that are moved when they are needed, against Adam on all rows at each step."""

import copy
from typing import NamedTuple

import numpy as np
import pytest
from reference.objectives import optimizer_of

from skcrbm.utils.row_sparse import RowSparse

N_ROWS, WIDTH = 30, 3


class Pair(NamedTuple):
    rows: np.ndarray
    other: np.ndarray


class Twins:
    """Two optimisers: `late` gets gradients of few rows, `dense` gets them as full arrays."""

    def __init__(self, dtype=np.float64, scale=1.0):
        self.rng = np.random.default_rng(0)
        self.scale, self.dtype = scale, dtype
        self.late = optimizer_of("adam", Pair(0.01, 0.02), 0.0)
        self.dense = optimizer_of("adam", Pair(0.01, 0.02), 0.0)
        self.p = self.q = Pair(self.normal(N_ROWS * WIDTH), self.normal(2))

    def normal(self, *shape):
        return self.rng.normal(size=shape).astype(self.dtype)

    def step(self, rows):
        g = self.dtype(self.scale) * self.normal(len(rows), WIDTH)
        g, other = RowSparse(np.asarray(rows), g, N_ROWS), self.normal(2)
        self.p = self.late.ready(self.p, lambda: Pair(g.rows, None))
        # Rows that are read now are up to date.
        np.testing.assert_allclose(g.of(self.p.rows), g.of(self.q.rows), atol=self.tolerance)
        self.p = self.late.update(self.p, Pair(g, other))
        self.q = self.dense.update(self.q, Pair(g.toarray(), other))

    def step_all(self):
        g = Pair(self.normal(N_ROWS * WIDTH), self.normal(2))
        self.p = self.late.update(self.p, g)
        self.q = self.dense.update(self.q, g)

    @property
    def tolerance(self):
        return 1e-10 if self.dtype is np.float64 else 2e-5

    def check(self):
        self.p = self.late.keep(self.p)
        for a, b in zip(self.p, self.q, strict=True):
            np.testing.assert_allclose(a, b, atol=self.tolerance)
        for a, b in zip(
            [*self.late.first, *self.late.second],
            [*self.dense.first, *self.dense.second],
            strict=True,
        ):
            np.testing.assert_allclose(a, b, atol=self.tolerance)


def some_rows(rng, t):
    """Draw rows: the first come in every second step, the last in one step of a thousand."""
    rows = np.flatnonzero(rng.random(N_ROWS) < 0.5 ** np.linspace(1, 10, N_ROWS))
    return rows[rows > 9] if t % 7 == 0 else rows


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_late_rows_end_where_all_rows_do(dtype):
    twins, rng = Twins(dtype), np.random.default_rng(1)
    for t in range(900):  # longer than mean gradients move anything
        twins.step(some_rows(rng, t))
        if t % 300 == 299:
            twins.check()
    start = np.random.default_rng(0).normal(size=N_ROWS * WIDTH)
    assert abs(twins.p.rows - start).max() > 0.1


def test_rows_that_are_not_read_wait():
    twins = Twins()
    for k in range(3):
        twins.step([k])
    assert not np.allclose(twins.p.rows, twins.q.rows, atol=1e-4)
    twins.p = twins.late.ready(twins.p, lambda: Pair(np.array([0]), None))
    near = np.isclose(twins.p.rows, twins.q.rows, atol=twins.tolerance).reshape(N_ROWS, WIDTH)
    assert near.all(axis=1).tolist() == [True, False, True] + [True] * (N_ROWS - 3)
    twins.check()


def test_rows_of_each_step_move_bit_for_bit_as_arrays():
    twins = Twins(np.float32)
    for _ in range(5):
        twins.step(np.arange(N_ROWS))
    for a, b in zip(twins.late.keep(twins.p), twins.q, strict=True):
        np.testing.assert_array_equal(a, b)


def test_gradients_as_small_as_epsilon():
    # There the sum over missed steps is an approximation; the bound is the docstring's.
    twins, rng = Twins(scale=1e-8), np.random.default_rng(1)
    start = twins.q.rows
    for t in range(300):
        rows = some_rows(rng, t)
        g = RowSparse(rows, 1e-8 * rng.normal(size=(len(rows), WIDTH)), N_ROWS)
        twins.p = twins.late.update(twins.p, Pair(g, np.zeros(2)))
        twins.q = twins.dense.update(twins.q, Pair(g.toarray(), np.zeros(2)))
    moved = abs(twins.q.rows - start).max()
    assert moved > 1e-3
    np.testing.assert_allclose(twins.late.keep(twins.p).rows, twins.q.rows, atol=1e-4 * moved)


def test_what_is_kept_and_what_was_given_stay():
    twins = Twins()
    start = twins.p.rows.copy()
    given = twins.p
    twins.step([0, 3])
    twins.step([3])
    twins.check()
    kept, copied = twins.p, twins.p.rows.copy()
    twins.step([0, 1])
    twins.check()
    np.testing.assert_array_equal(given.rows, start)
    np.testing.assert_array_equal(kept.rows, copied)
    assert not np.array_equal(twins.p.rows, copied)


def test_arrays_and_rows_in_turns():
    twins = Twins()
    twins.step_all()  # before rows are told apart
    for k in range(12):
        twins.step([k, k + 3, 29])
        if k % 3 == 2:
            twins.step_all()
        if k % 5 == 3:  # the next step reads all
            twins.p = twins.late.ready(twins.p, [lambda: None, lambda: Pair(None, None)][k % 2])
            np.testing.assert_allclose(twins.p.rows, twins.q.rows, atol=twins.tolerance)
        if k % 4 == 1:
            twins.check()
    twins.check()


def test_from_other_parameters_on():
    # As after an interrupted epoch, the parameters go back to the end of the epoch before.
    twins = Twins()
    for k in range(6):
        twins.step([k, k + 1])
    twins.check()
    before = twins.p, twins.q
    for k in range(4):
        twins.step([2 * k])
    twins.p, twins.q = before
    for k in range(4):
        twins.step([k, 20])
    twins.check()


def test_a_copy_goes_on_by_itself():
    twins = Twins()
    for k in range(5):
        twins.step([k])
    twins.check()
    other = copy.deepcopy(twins)
    for _ in range(3):
        twins.step([2])
    for k in range(3):
        other.step([k + 3])
        other.check()


def test_other_optimizers_say_that_they_take_arrays():
    for options in ({"solver": "sgd"}, {"solver": "adam", "average": True}):
        optimizer = optimizer_of(rates=Pair(0.1, 0.1), **options)
        assert not optimizer.takes_rows
        given = Pair(np.ones(2), np.ones(1))
        assert optimizer.ready(given, None) is given
    assert optimizer_of("adam", Pair(0.1, 0.1), 0.0).takes_rows
