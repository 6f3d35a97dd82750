"""Log-probabilities of draws from RBMs with few hidden units, against enumeration."""

import numpy as np
import pytest
from reference.random_models import random_rbm
from scipy.special import logsumexp

from skcrbm.energies import RBMEnergy
from skcrbm.inference.rbm.mixture import drawn_log_proba
from skcrbm.targets.label_sets import all_label_vectors

N, L = 6, 8


def enumerated(energy):
    """Return the log-probabilities (N, 2^L) of all label vectors."""
    log_weight = energy.log_weight_of_sets(all_label_vectors(energy.n_visible).astype(float))
    return log_weight - logsumexp(log_weight, axis=1, keepdims=True)


@pytest.mark.parametrize("n_hidden", [0, 1, 4])
def test_draws_follow_the_distribution(n_hidden):
    """The share of draws at each log-probability is the probability of its label vector."""
    n_draws = 4000
    energy = random_rbm(5, L, n_hidden, N, scale=1.0)
    drawn, own = drawn_log_proba(energy, n_draws, 0, None)
    assert own is None
    for found, log_p in zip(drawn, enumerated(energy)):
        order = np.argsort(log_p)
        place = np.searchsorted(log_p[order], found + 1e-9) - 1
        np.testing.assert_allclose(log_p[order][place], found, rtol=1e-10, atol=1e-10)
        share = np.bincount(place, minlength=len(order)) / n_draws
        proba = np.exp(log_p[order])
        assert (np.abs(share - proba) < 5 * np.sqrt(proba / n_draws) + 1 / n_draws).all()
        # The mass of the more probable vectors, and their number by the weights of the draws.
        above = proba[::-1].cumsum()[::-1] - proba
        mass = np.array([(found > own + 1e-9).mean() for own in log_p[order]])
        assert np.abs(mass - above).max() < 4 * 0.5 / np.sqrt(n_draws)
        inside = found > np.sort(log_p)[-40]
        assert (np.exp(-found) * inside).mean() == pytest.approx(39, rel=0.15)


def test_mean_over_seeds_is_unbiased():
    """Hidden states get rounded numbers of draws; the mean over seeds must not depend on that."""
    energy = random_rbm(2, L, 4, N, scale=1.0)
    log_p = enumerated(energy)
    own = np.median(log_p, axis=1)
    exact = (np.exp(log_p) * (log_p > own[:, None])).sum(axis=1)
    draws = [drawn_log_proba(energy, 7, seed, None)[0] for seed in range(800)]
    found = [(drawn > own[:, None]).mean(axis=1) for drawn in draws]
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - exact) < 4 * error + 1e-3).all()


def test_hidden_states_get_their_share_of_the_draws():
    """If the hidden unit decides all labels, the estimate has hardly any variance."""
    energy = RBMEnergy(np.full((L, 1), 80.0), np.full((1, L), -40.0), np.zeros((1, 1)))
    # All labels are off, or all are on: two vectors of probability 1/2.
    energy = RBMEnergy(energy.weights, energy.visible_bias, np.full((1, 1), -40.0 * L))
    for seed in range(20):
        drawn, _ = drawn_log_proba(energy, 101, seed, None)
        np.testing.assert_allclose(drawn, np.log(0.5), atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_given_labels_tie_with_equal_draws(dtype):
    """A given vector must not count as less probable than the same vector among the draws."""
    energy = random_rbm(1, L, 3, N, scale=3.0)
    energy = RBMEnergy(energy.weights.astype(dtype), *(f.astype(dtype) for f in energy.fields))
    best = all_label_vectors(L)[enumerated(energy).argmax(axis=1)]
    drawn, own = drawn_log_proba(energy, 500, 0, None, best)
    assert (drawn <= own[:, None] + 1e-9).all()
    assert (np.abs(drawn - own[:, None]) < 1e-9).any(axis=1).all()


def test_rows_have_the_same_draws_in_any_batch():
    energy = random_rbm(1, 30, 6, 40)
    labels = np.random.default_rng(0).integers(0, 2, (40, 30))
    drawn, own = drawn_log_proba(energy, 3000, 3, None, labels)
    again, same = drawn_log_proba(energy, 3000, 3, 2, labels)
    np.testing.assert_array_equal(again, drawn)
    np.testing.assert_array_equal(same, own)
    part, _ = drawn_log_proba(energy.rows([17]), 3000, 3, None)
    np.testing.assert_array_equal(part[0], drawn[17])
    other, _ = drawn_log_proba(energy, 3000, 4, None)
    assert (other != drawn).mean() > 0.9
    empty, none = drawn_log_proba(energy.rows(slice(0, 0)), 10, 0, None, labels[:0])
    assert empty.shape == (0, 10)
    assert none.shape == (0,)
