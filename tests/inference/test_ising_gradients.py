"""The compiled sweep of Gibbs with gradients against a sweep by `visible_log_odds`."""

import time

import numpy as np
import pytest

from skcrbm.datasets import make_ising_lattice
from skcrbm.energies import IsingEnergy, SparseIsingEnergy
from skcrbm.inference.any_energy._gibbs_with_gradients import (
    gradient_sweep,
    ising_gradient_sweep,
)
from skcrbm.inference.any_energy.gibbs import start_chains

KEY = np.uint64(7)


def make(kind, scale, n_models=3, width=9):
    rng = np.random.RandomState(0)
    half = np.triu(rng.normal(0, scale, (width, width)), 1) * (
        rng.uniform(size=(width, width)) < 0.6
    )
    field = rng.normal(size=(n_models, width)) * min(scale, 1)
    if kind == "dense":
        return IsingEnergy(half + half.T, field)
    edges = np.argwhere(half)
    return SparseIsingEnergy.from_edges(edges, half[edges[:, 0], edges[:, 1]], field)


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("scale", [0.3, 3.0, 300.0])  # beyond the range of exp, too
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_same_states(kind, scale, share):
    rng = np.random.RandomState(1)
    energy = make(kind, scale)
    shape = energy.n_models, energy.n_variables
    held = np.where(rng.uniform(size=shape) < share, rng.randint(2, size=shape), np.nan)
    energy = energy.condition(held)
    streams = np.arange(5)
    state = expected = start_chains(energy, 5, KEY, streams)
    for step in range(1, 12):
        expected, log_odds = gradient_sweep(energy, expected, KEY, streams, step)
        state, found = ising_gradient_sweep(energy, state, KEY, streams, step)
        np.testing.assert_array_equal(state, expected)
        np.testing.assert_allclose(found, log_odds, rtol=1e-9, atol=1e-9 * (1 + scale))


def test_streams_for_each_model_and_float32():
    energy = make("sparse", 0.5)
    single = energy.with_fields(energy.field.astype(np.float32))
    streams = np.arange(12)
    state = start_chains(energy, 4, KEY, streams)
    found, log_odds = ising_gradient_sweep(single, state, KEY, streams, 1)
    expected, _ = gradient_sweep(energy, state, KEY, streams, 1)
    assert log_odds.dtype == single.dtype
    assert np.mean(found == expected) > 0.9
    part = single.rows(slice(1, 3))
    np.testing.assert_array_equal(
        found[1:], ising_gradient_sweep(part, state[1:], KEY, streams[4:], 1)[0]
    )


@pytest.mark.compiled
def test_it_is_fast():
    energy = make_ising_lattice((20, 20), -0.2)
    streams = np.arange(10)
    state = start_chains(energy, 10, KEY, streams)
    ising_gradient_sweep(energy, state, KEY, streams, 1)
    start = time.process_time()
    for step in range(5):
        ising_gradient_sweep(energy, state, KEY, streams, step)
    assert time.process_time() - start < 1  # 20,000 flips; some 0.03 s on an idle core
