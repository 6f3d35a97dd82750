"""Exact answers of many rows are worked out in blocks: the same as of all rows at once."""

import tracemalloc
from dataclasses import fields

import numpy as np
import pytest

from skcrbm.energies import RBMEnergy
from skcrbm.inference import infer
from skcrbm.inference.exact import rbm as _exact

N = 40


def rbm(rng, n_visible, n_hidden, n=N):
    shapes = (n_visible, n_hidden), (n, n_visible), (n, n_hidden)
    return RBMEnergy(*(rng.normal(size=shape).astype(np.float32) for shape in shapes))


@pytest.mark.parametrize("clamped", [False, True])
@pytest.mark.parametrize("pairwise", ["sum", "per_example"])
@pytest.mark.parametrize(
    "returns",
    [
        ("marginals", "statistics", "log_partition"),
        ("log_partition",),
        ("map", "marginals", "map_bound"),
        ("samples", "statistics"),
    ],
)
@pytest.mark.parametrize(("n_visible", "n_hidden"), [(5, 3), (3, 5), (5, 0)])
def test_blocks(n_visible, n_hidden, returns, pairwise, clamped, monkeypatch):
    rng = np.random.default_rng(0)
    energy = rbm(rng, n_visible, n_hidden)
    if clamped:
        evidence = rng.integers(0, 2, (N, energy.n_variables)).astype(float)
        evidence[rng.random(evidence.shape) < 0.6] = np.nan
        energy = energy.condition(evidence)
    options = {"returns": returns, "pairwise": pairwise, "sample_weight": rng.random(N)}
    if "samples" in returns:
        options |= {"n_samples": 3, "random_state": 0}
    whole = infer(energy, "exact", **options)
    seen = []
    rows = RBMEnergy.rows
    monkeypatch.setattr(RBMEnergy, "rows", lambda self, at: seen.append(at) or rows(self, at))
    monkeypatch.setattr(_exact, "BLOCK_ENTRIES", 4 * 8 * energy.n_variables)
    monkeypatch.setattr(_exact, "_LEAST_ROWS", 3)
    parts = infer(energy, "exact", **options)
    assert len(seen) >= 10
    for name in [field.name for field in fields(whole)]:
        expected, found = getattr(whole, name), getattr(parts, name)
        if not isinstance(expected, tuple):
            expected, found = (expected,), (found,)
        for a, b in zip(expected, found, strict=True):
            assert getattr(a, "dtype", None) == getattr(b, "dtype", None), name
            if isinstance(a, np.ndarray) and a.dtype.kind == "f":
                np.testing.assert_allclose(b, a, rtol=2e-6, atol=1e-6, err_msg=name)
            else:
                np.testing.assert_array_equal(b, a, err_msg=name)


@pytest.mark.deep
@pytest.mark.parametrize("pairwise", ["sum", "per_example"])
def test_memory_is_that_of_the_answer(pairwise):
    rng = np.random.default_rng(0)
    n, shape = (200_000, (10, 4)) if pairwise == "sum" else (20_000, (100, 4))
    energy = rbm(rng, *shape, n)
    options = {"returns": ("marginals", "statistics"), "pairwise": pairwise}
    infer(energy.rows(slice(3)), "exact", **options)
    tracemalloc.start()
    try:
        result = infer(energy, "exact", **options)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    answer = 2 * result.log_odds.nbytes + result.statistics[0].nbytes
    # Flags, counts, weights, and a mask of the free variables; a block with its partial answers.
    assert peak < 1.2 * (answer + n * (9 + sum(shape) + 8 + 8)) + 4e7
