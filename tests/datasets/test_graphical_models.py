"""Graphical models of known distributions."""

import itertools

import numpy as np
import pytest

from skcrbm.datasets import (
    make_ising_lattice,
    make_random_factor_graph,
    make_random_ising,
    make_structured_sequences,
)


def test_random_factor_graphs():
    numbers, sizes, large = [], [], []
    for seed in range(40):
        energy = make_random_factor_graph(10, seed)
        assert energy.n_variables == 10
        assert energy.n_models == 1
        numbers.append(sum(map(len, energy.factors)))
        sizes += [g.variables.shape[1] for g in energy.tables for _ in g.variables]
        weights = np.exp(energy.log_potentials)
        assert weights.min() > 0
        assert weights.max() < 1001
        assert ((weights < 1) | (weights > 10)).all()
        large.append(np.mean(weights > 1))
        assert not energy.field.any()
    assert 10 <= min(numbers) <= 12
    assert 18 <= max(numbers) <= 20
    assert set(sizes) == {1, 2, 3, 4, 5, 6}
    assert abs(np.mean(large) - 0.5) < 0.02


def test_the_seed_decides():
    one, same, other = (make_random_factor_graph(9, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.log_potentials, same.log_potentials)
    assert not np.array_equal(one.log_potentials, other.log_potentials)


def test_structured_sequences():
    numbers = [10, 16, 26, 41, 64, 100, 157, 247, 388, 609, 956, 1501, 2357, 3701]
    for n, expected in zip(range(5, 33, 2), numbers, strict=True):
        scopes, sequences = make_structured_sequences(n)
        assert scopes.shape == ((n - 5) // 2 + 1, 5)
        assert sequences.shape == (expected, n)
        assert (sequences[:, scopes].sum(axis=2) == 3).all()
        assert len(np.unique(sequences, axis=0)) == expected
    scopes, sequences = make_structured_sequences(9)
    every = [
        s for s in itertools.product((0, 1), repeat=9) if (np.array(s)[scopes].sum(1) == 3).all()
    ]
    np.testing.assert_array_equal(sequences, every)


def naive_lattice_pairs(shape, periodic):
    pairs = set()
    for place in itertools.product(*map(range, shape)):
        for axis, side in enumerate(shape):
            other = list(place)
            other[axis] += 1
            if other[axis] == side:
                if not periodic:
                    continue
                other[axis] = 0
            ends = sorted(int(np.ravel_multi_index(p, shape)) for p in (place, other))
            if ends[0] != ends[1]:
                pairs.add(tuple(ends))
    return sorted(pairs)


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("shape", [(4, 5), (2, 3), (1, 4), (6,), (3, 2, 4), (1,)])
def test_lattices(shape, periodic):
    energy = make_ising_lattice(shape, 0.3, periodic=periodic)
    assert energy.couplings_are_sparse
    assert list(map(tuple, energy.edges.tolist())) == naive_lattice_pairs(shape, periodic)
    assert (energy.edge_coupling == 0.3).all()
    np.testing.assert_array_equal(energy.field, np.zeros((1, np.prod(shape))))


def test_random_ising():
    dense = make_random_ising(60, random_state=0)
    assert not dense.couplings_are_sparse
    pairs = dense.coupling[np.triu_indices(60, 1)]
    assert np.abs(pairs).max() <= 4
    assert abs(pairs.var() - 8 / 3) < 0.3  # of a sum of two numbers on [-2, 2]
    assert np.abs(dense.field).max() <= 0.1
    sparse = make_random_ising(400, mean_degree=4, random_state=0)
    assert sparse.couplings_are_sparse
    assert abs(2 * len(sparse.edges) / 400 - 4) < 0.5
    assert abs(sparse.edge_coupling.std() - 1) < 0.1
    assert (sparse.field == 0.1).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_random_factor_graph(5), "n_variables must be an int of at least 6"),
        (lambda: make_random_factor_graph(10.0), "n_variables must be an int"),
        (lambda: make_structured_sequences(8), "must be odd"),
        (lambda: make_structured_sequences(3), "at least 5"),
        (lambda: make_ising_lattice(4, 1.0), "shape must be a tuple"),
        (lambda: make_ising_lattice((4, 0), 1.0), "shape must be an int of at least 1"),
        (lambda: make_ising_lattice((4, 4), np.nan), "coupling must be a finite number"),
        (lambda: make_random_ising(0), "n_variables must be an int of at least 1"),
        (lambda: make_random_ising(5, mean_degree=6), "mean_degree must be a number from 0 to 5"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
