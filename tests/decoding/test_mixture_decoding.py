"""Decoding of RBMs as mixtures of products, against the general computation and enumeration."""

import numpy as np
import pytest
from reference.random_models import random_rbm
from scipy.special import logsumexp

from skcrbm.decoding import ExpectedMetric, Posterior
from skcrbm.decoding._model_expected import _Joint, _Mixture
from skcrbm.decoding._top_f1 import FIRST_LABELS, top_f1
from skcrbm.decoding.expected import inverse_nodes
from skcrbm.energies import IsingEnergy, OneHotRBMEnergy, RBMEnergy
from skcrbm.inference import Exact
from skcrbm.inference.rbm.mixture import LabelMixture, rows_of_small_mixtures

N = 7


def wide_rbm(n_labels, n_hidden=4, seed=0, scale=0.8, on=8.0):
    """An RBM in which about `on` labels of each row are on."""
    rng = np.random.default_rng(seed)
    fields = rng.normal(size=(N, n_labels)) * 1.5 - np.log(n_labels / on) - 1
    weights = rng.normal(size=(n_labels, n_hidden)) * scale
    return RBMEnergy(weights, fields, rng.normal(size=(N, n_hidden)))


def some_known(n_labels, seed=1):
    rng = np.random.default_rng(seed)
    known = rng.integers(0, 2, (N, n_labels)).astype(float)
    known[rng.random(known.shape) > 0.2] = np.nan
    return known


def posterior_of(energy, known=None, **options):
    sets = np.zeros((0, energy.n_visible), np.int8)
    return Posterior(energy, Exact(), known, sets, None, **options)


@pytest.mark.parametrize("n_hidden", [0, 1, 4])
@pytest.mark.parametrize("held", [False, True])
def test_expectations_are_the_general_ones(n_hidden, held):
    """With 20 labels all states of the hidden units count, so that only rounding differs."""
    n_labels = 20
    energy = random_rbm(3, n_labels, n_hidden, N, scale=1.5)
    posterior = posterior_of(energy, some_known(n_labels) if held else None)
    mixture, joint = _Mixture(posterior), _Joint(posterior)
    np.testing.assert_allclose(mixture.marginals, joint.marginals, atol=1e-12)
    np.testing.assert_allclose(mixture.log_partition, joint.log_partition, atol=1e-9)
    np.testing.assert_allclose(mixture.empty, joint.empty, atol=1e-12)
    every = np.tile(np.arange(n_labels), (N, 1))
    nodes = inverse_nodes(2 * n_labels)[0]
    np.testing.assert_allclose(mixture._labels.on(every), joint._on(nodes), atol=1e-9)
    candidates = np.random.default_rng(0).integers(0, 2, (N, 4, n_labels)).astype(float)
    candidates[:, :, 0] = 1
    # The general computation uses the exact quadrature of up to 24 labels.
    found, expected = mixture.jaccard(candidates), joint.jaccard(candidates)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.quick_cases(12)
@pytest.mark.parametrize("n_labels", [25, 60, 150])
@pytest.mark.parametrize("allow_empty", [True, False])
@pytest.mark.parametrize("on", [0.3, 6.0, 40.0])
def test_labels_are_the_general_ones(n_labels, allow_empty, on):
    for held in (None, some_known(n_labels)):
        posterior = posterior_of(wide_rbm(n_labels, on=on), held, allow_empty=allow_empty)
        mixture, joint = _Mixture(posterior), _Joint(posterior)
        for zero_division in (0.0, 1.0):
            found = mixture.best_f1(zero_division, allow_empty)
            np.testing.assert_array_equal(found, joint.best_f1(zero_division, allow_empty))


def test_bounds_hold_for_every_label_and_size():
    """The gains of all labels and the values of all sizes respect the bounds of `_top_f1`."""
    n_labels = 80
    energy = wide_rbm(n_labels)
    nodes, weight = inverse_nodes(2 * n_labels)
    mixture = LabelMixture(energy, nodes)
    every = np.tile(np.arange(n_labels), (N, 1))
    sizes = np.arange(1, n_labels + 1)
    gain = (2 * weight * nodes ** sizes[:, None]) @ mixture.on(every)  # (N, K, L)
    inverse = weight * nodes ** (sizes[:, None] - 1)
    for label in (0, 17, 79):
        p = mixture.marginals[:, label]
        limit = 2 * p[:, None] * mixture.inverse_of_fewest(p, inverse)
        assert (gain[:, :, label] <= limit * 1.0002).all()
        assert (gain[:, :, label] > 0.5 * limit).all()
    value = -(np.sort(-gain, axis=2).cumsum(axis=2))[:, sizes - 1, sizes - 1]
    mean = mixture.marginals.sum(axis=1, keepdims=True)
    top = -np.sort(-mixture.marginals, axis=1)
    outside = mean - top.cumsum(axis=1)
    bound = 2 * mean / (sizes + mean) - 2 * outside / (sizes + 1 + mixture.largest_mean[:, None])
    assert (value <= bound * 1.0002).all()


def test_few_labels_of_many_are_enough():
    """The search for the best vector of 400 labels looks at few of them."""
    looked = []
    n_labels = 400
    nodes, weight = inverse_nodes(2 * n_labels)
    mixture = LabelMixture(wide_rbm(n_labels, scale=0.3), nodes)
    original = LabelMixture.on

    def counted(self, labels):
        looked.append(labels.shape[1])
        return original(self, labels)

    LabelMixture.on = counted
    try:
        top_f1(mixture, weight, 1.0, True)
    finally:
        LabelMixture.on = original
    assert looked[0] == FIRST_LABELS
    assert max(looked) < 200


def test_a_certain_label_and_extreme_fields():
    """Probabilities of 0 and 1, and products that underflow, give finite results."""
    n_labels = 300
    rng = np.random.default_rng(0)
    fields = rng.normal(size=(N, n_labels)) - 3
    fields[:, :250] = 60.0
    fields[:2, 250:] = -800.0
    energy = RBMEnergy(rng.normal(size=(n_labels, 2)), fields, np.zeros((N, 2)))
    mixture, joint = _Mixture(posterior_of(energy)), _Joint(posterior_of(energy))
    np.testing.assert_allclose(mixture.marginals, joint.marginals, atol=1e-6)
    assert (mixture.empty == 0).all()
    np.testing.assert_array_equal(mixture.best_f1(1.0, True), joint.best_f1(1.0, True))
    assert np.isfinite(mixture.jaccard((mixture.marginals > 0.5)[:, None].astype(float))).all()


def test_states_that_are_left_out_have_little_mass():
    energy = wide_rbm(100, n_hidden=6, scale=1.5)
    mixture = LabelMixture(energy, inverse_nodes(200)[0])
    assert (np.diff(mixture._start) < 64).any()
    states = (np.arange(64)[:, None] >> np.arange(6)) & 1
    inputs = energy.visible_bias[:, None] + states @ energy.weights.T
    log_weight = energy.hidden_bias @ states.T + np.logaddexp(0, inputs).sum(axis=2)
    proba = np.exp(log_weight - logsumexp(log_weight, axis=1, keepdims=True))
    for n in range(N):
        kept = mixture._state[mixture._start[n] : mixture._start[n + 1]]
        assert 1 - proba[n, kept].sum() <= 1e-6
    np.testing.assert_allclose(mixture.log_partition, logsumexp(log_weight, axis=1), rtol=1e-12)


def test_only_small_rbms_are_mixtures():
    assert rows_of_small_mixtures(wide_rbm(30)).all()
    others = [
        wide_rbm(30, scale=1000.0),
        random_rbm(0, 3, 4, N),
        OneHotRBMEnergy(np.zeros((3, 1)), np.zeros(3), np.zeros(1)),
        IsingEnergy(np.zeros((3, 3)), np.zeros((N, 3))),
    ]
    for energy in others:
        assert not rows_of_small_mixtures(energy).any()


@pytest.mark.parametrize("metric", ["f1", "jaccard"])
def test_a_row_with_a_large_field_changes_no_other_row(metric, monkeypatch):
    """The large field excludes its own row from the mixtures, but no other row."""
    energy = wide_rbm(30)
    fields = energy.visible_bias.copy()
    fields[1, 3] = 1e10
    large = RBMEnergy(energy.weights, fields, energy.hidden_bias)
    np.testing.assert_array_equal(rows_of_small_mixtures(large), np.arange(len(fields)) != 1)
    found = ExpectedMetric(metric).decode(posterior_of(large))
    for n in range(len(fields)):
        alone = ExpectedMetric(metric).decode(posterior_of(large.rows([n])))
        np.testing.assert_array_equal(found[n], alone[0])
    assert found[1, 3] == 1


def test_blocks_do_not_matter(monkeypatch):
    n_labels = 60
    nodes, weight = inverse_nodes(2 * n_labels)
    mixture = LabelMixture(wide_rbm(n_labels, on=30.0), nodes)
    found = top_f1(mixture, weight, 1.0, True)
    monkeypatch.setattr("skcrbm.decoding._top_f1.BLOCK_ENTRIES", 2 * FIRST_LABELS**2)
    np.testing.assert_array_equal(top_f1(mixture, weight, 1.0, True), found)


@pytest.mark.parametrize("metric", ["f1", "jaccard"])
def test_threads_do_not_matter(metric, monkeypatch):
    monkeypatch.setattr("skcrbm.decoding._model_expected.BLOCK_ENTRIES", 1)  # a row at a time
    posterior = posterior_of(wide_rbm(40), some_known(40))
    found = ExpectedMetric(metric).decode(posterior._replace(n_jobs=3))
    np.testing.assert_array_equal(found, ExpectedMetric(metric).decode(posterior))


def test_no_rows():
    energy = wide_rbm(30).rows(slice(0, 0))
    assert _Mixture(posterior_of(energy)).best_f1(1.0, True).shape == (0, 30)
