"""The k best joint states, found by enumerating some variables: against all states, and large."""

import itertools

import numpy as np
import pytest
from reference.states import all_states

from skcrbm.energies import IsingEnergy, RBMEnergy
from skcrbm.energies.grouped_rbm import GroupedRBMEnergy
from skcrbm.inference import infer
from skcrbm.inference.exact.independent import k_best_joint, largest
from skcrbm.inference.methods.exact import Exact
from skcrbm.utils.categorical import OutputUnits


@pytest.mark.parametrize("seed", range(12))
def test_k_best_joint_states(seed):
    """Scores of small integers, which are often equal, and some impossible states."""
    rng = np.random.default_rng(seed)
    n_numbers, m, n_states = (int(n) for n in rng.integers((1, 0, 1), (6, 6, 4)))
    scores = rng.integers(-4, 4, (n_numbers, m, n_states)).astype(float)
    scores[rng.random(scores.shape) < 0.2] = -np.inf
    if m:
        scores[:, :, 0] = np.maximum(scores[:, :, 0], -9)
    own = rng.integers(-4, 4, n_numbers).astype(float)
    own[1:][rng.random(n_numbers - 1) < 0.3] = -np.inf
    top = own + scores.max(axis=2, initial=-np.inf).sum(axis=1)
    every = {
        (i, *states): own[i] + sum(row[s] for row, s in zip(scores[i], states, strict=True))
        for i in range(n_numbers)
        for states in itertools.product(range(n_states), repeat=m)
    }
    expected = np.sort([score for score in every.values() if score > -np.inf])[::-1]
    for k in (1, 3, 20, 2000):
        number, states, found = k_best_joint(top, lambda i: scores[i], k)
        np.testing.assert_array_equal(found, expected[:k])
        keys = [(i, *row) for i, row in zip(number.tolist(), states.tolist(), strict=True)]
        assert len(set(keys)) == len(keys)
        assert [every[key] for key in keys] == found.tolist()


def test_largest_values():
    values = np.array([2.0, 5.0, 2.0, -np.inf, 5.0, 2.0])
    assert largest(values, 4).tolist() == [1, 4, 0, 2]
    assert largest(values, 9).tolist() == [1, 4, 0, 2, 5, 3]


def make_rbm(n_visible, n_hidden, scale, dtype=np.float64, n=3):
    rng = np.random.default_rng(0)
    shapes = (n_visible, n_hidden), (n, n_visible), (n, n_hidden)
    return RBMEnergy(*((scale * rng.normal(size=shape)).astype(dtype) for shape in shapes))


def make_grouped(n_classes, n_hidden, scale, dtype):
    units = OutputUnits(n_classes)
    rbm = make_rbm(units.n_units, n_hidden, scale, dtype)
    return GroupedRBMEnergy(rbm.weights, *rbm.fields, units)


def make_ising(n_labels, scale, dtype):
    rbm = make_rbm(n_labels, n_labels, scale, dtype)
    coupling = np.triu(rbm.weights, 1)
    return IsingEnergy(coupling + coupling.T, rbm.visible_bias)


ENERGIES = {
    "RBM": lambda *args: make_rbm(7, 3, *args),
    "RBM, more hidden units": lambda *args: make_rbm(2, 8, *args),
    "RBM without hidden units": lambda *args: make_rbm(9, 0, *args),
    "grouped RBM": lambda *args: make_grouped((3, 2, 4, 1), 2, *args),
    "grouped RBM, few vectors": lambda *args: make_grouped((3, 2), 6, *args),
    "Ising": lambda *args: make_ising(9, *args),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("kind", ENERGIES)
def test_twenty_best_states(kind, scale, dtype):
    """Without fields and couplings all states are equal."""
    energy = ENERGIES[kind](scale, dtype)
    evidence = np.full((3, energy.n_variables), np.nan)
    evidence[1, -1], evidence[2, [0, -1]] = 1, (0, 1)
    states = all_states(energy.n_variables, np.int8)
    for given in (energy, energy.condition(evidence)):
        found = infer(given, "exact", returns="best_states", n_best=20)
        for n in range(3):
            scores = given.rows(np.full(len(states), n)).score(states)
            expected = np.sort(scores)[::-1][:20]
            np.testing.assert_allclose(found.best_scores[n], expected, rtol=1e-6)
            possible = found.best_states[n][expected > -np.inf]
            assert len(np.unique(possible, axis=0)) == (expected > -np.inf).sum()
            place = possible @ 2 ** np.arange(energy.n_variables)[::-1]
            np.testing.assert_array_equal(scores[place], found.best_scores[n][: len(place)])


def test_an_rbm_with_a_large_layer():
    """Each state is a best state given its hidden units, with changes of visible units."""
    energy = make_rbm(300, 6, 0.3, n=1)
    found = infer(energy, "exact", returns=("best_states", "map"), n_best=20)
    assert found.best_scores[0, 0] == pytest.approx(energy.score(found.assignment)[0], rel=1e-12)
    hidden = all_states(6)
    inputs = energy.visible_bias + hidden @ energy.weights.T
    best = np.hstack([inputs > 0, hidden]).astype(np.int8)
    # Of the changes of a best state, those of more than four units, and those of units after the
    # twentieth, come after twenty others.
    changes = [own for n in range(5) for own in itertools.combinations(range(20), n)]
    scores = []
    for state, x in zip(best, inputs, strict=True):
        losses = np.sort(abs(x)).tolist()
        lost = np.array([sum(losses[i] for i in own) for own in changes])
        scores.append(energy.score(state[None])[0] - lost)
    expected = np.sort(np.concatenate(scores))[::-1][:20]
    np.testing.assert_allclose(found.best_scores[0], expected, rtol=1e-9)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("n_visible", "n_hidden"), [(300, 12), (300, 19), (300, 20), (784, 16), (1000, 10), (16, 784)]
)
def test_large_rbms(n_visible, n_hidden):
    """The best states are at least as good as the best state with a change of a single unit."""
    energy = make_rbm(n_visible, n_hidden, 0.3, n=2)
    found = infer(energy, "exact", returns=("best_states", "map"), n_best=20)
    scores = found.best_scores
    np.testing.assert_allclose(scores[:, 0], energy.score(found.assignment), rtol=1e-12)
    assert (np.diff(scores, axis=1) <= 0).all()
    for n in range(2):
        assert len(np.unique(found.best_states[n], axis=0)) == 20
        flipped = found.assignment[n] ^ np.eye(energy.n_variables, dtype=np.int8)
        others = energy.rows(np.full(len(flipped), n)).score(flipped)
        others = np.sort(others)[::-1][:19]
        assert (scores[n, 1:] >= others - 1e-9).all()


def test_best_states_refuse_too_many_states():
    energy = make_rbm(8, 2, 1.0)
    with pytest.raises(ValueError, match="lower the number of states"):
        infer(energy, Exact(max_entries=99), returns="best_states", n_best=10)
    with pytest.raises(ValueError, match="smaller layer, which has 2 units"):
        infer(energy, Exact(max_units=1), returns="best_states")
