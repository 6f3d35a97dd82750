"""Exact answers of many rows are worked out in blocks: the same as of all rows at once."""

import tracemalloc
from dataclasses import fields

import numpy as np
import pytest

from skcrbm.energies import IsingEnergy, OneHotRBMEnergy, RBMEnergy
from skcrbm.inference import _exact_parts, infer

N = 40


def rbm(rng, kind=RBMEnergy, n_hidden=3):
    shapes = (5, n_hidden), (N, 5), (N, n_hidden)
    return kind(*(rng.normal(size=shape).astype(np.float32) for shape in shapes))


def ising(rng):
    coupling = np.triu(rng.normal(size=(4, 4)), 1).astype(np.float32)
    return IsingEnergy(coupling + coupling.T, rng.normal(size=(N, 4)).astype(np.float32))


ENERGIES = {
    "RBM": rbm,
    "no hidden units": lambda rng: rbm(rng, n_hidden=0),
    "one-hot": lambda rng: rbm(rng, OneHotRBMEnergy),
    "Ising": ising,
}


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
@pytest.mark.parametrize("kind", ENERGIES)
def test_blocks(kind, returns, pairwise, clamped, monkeypatch):
    rng = np.random.default_rng(0)
    energy = ENERGIES[kind](rng)
    if clamped:
        evidence = np.full((N, energy.n_variables), np.nan)
        held = rng.integers(1, 4, N)  # the first is free: of one-hot units one has to be on
        evidence[np.arange(N), held] = 0 if kind == "one-hot" else rng.integers(0, 2, N)
        energy = energy.condition(evidence)
    options = {"returns": returns, "pairwise": pairwise, "sample_weight": rng.random(N)}
    if "samples" in returns:
        options |= {"n_samples": 3, "random_state": 0}
    whole = infer(energy, "exact", **options)
    seen = []
    rows = type(energy).rows
    monkeypatch.setattr(
        type(energy), "rows", lambda self, index: seen.append(index) or rows(self, index)
    )
    monkeypatch.setattr(_exact_parts, "BLOCK_ENTRIES", 7 * 8 * energy.n_variables)
    parts = infer(energy, "exact", **options)
    assert kind == "one-hot" or len(seen) >= 6
    for name in [field.name for field in fields(whole)]:
        expected, found = getattr(whole, name), getattr(parts, name)
        if not isinstance(expected, tuple):
            expected, found = (expected,), (found,)
        for a, b in zip(expected, found, strict=True):
            assert getattr(a, "dtype", None) == getattr(b, "dtype", None), name
            if isinstance(a, np.ndarray):
                np.testing.assert_allclose(b, a, rtol=2e-6, atol=1e-6, err_msg=name)


def test_memory_is_that_of_the_answer():
    rng = np.random.default_rng(0)
    n = 200_000
    shapes = (10, 4), (n, 10), (n, 4)
    energy = RBMEnergy(*(rng.normal(size=shape).astype(np.float32) for shape in shapes))
    infer(energy.rows(slice(3)), "exact")
    tracemalloc.start()
    try:
        result = infer(energy, "exact")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.log_odds.dtype == np.float32
    # Log-odds and marginals, flags and counts, a mask of what is free, and a block.
    assert peak < n * (2 * 14 * 4 + 9 + 14 + 8 + 8) * 1.2 + 3e7
