"""Decoding rules against enumeration of p(v | x), with and without known labels."""

import copy

import numpy as np
import pytest
from conftest import JIT_DISABLED
from reference.brute_force import brute_force
from reference.random_models import random_rbm
from reference.states import all_states
from scipy.special import expit

from skcrbm import CRBMClassifier
from skcrbm.decoding import Posterior, decoders_for
from skcrbm.decoding.rules import resolve_decoder
from skcrbm.energies import OneHotRBMEnergy, RBMEnergy
from skcrbm.inference import Exact, MaxProduct, MeanField, MixedProduct, SumProduct, infer
from skcrbm.inference.base import resolve_method
from skcrbm.targets.label_sets import distinct_rows

N, V, H = 12, 5, 3
RULES = [
    rule for rule in decoders_for(RBMEnergy) if rule != "threshold"
]  # which has tests of its own


def log_weight(energy, row, v):
    """Return -F(v) of a row, from the formula."""
    inputs = energy.hidden_bias[row] + v @ energy.weights
    return v @ energy.visible_bias[row] + np.log1p(np.exp(inputs)).sum()


def make_posterior(known=None, sets=None, method=None, seed=0):
    energy = random_rbm(seed, V, H, N, scale=2.0)
    if sets is None:
        sets = np.array([[0, 0, 0, 0, 0], [1, 0, 0, 1, 0], [0, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    return Posterior(energy, Exact() if method is None else method, known, sets, None)


def random_known(share, seed=1):
    rng = np.random.default_rng(seed)
    known = rng.integers(0, 2, (N, V)).astype(float)
    known[rng.random(known.shape) > share] = np.nan
    return known


def conditional_marginals(posterior):
    expected = np.empty((N, V))
    for n in range(N):
        clamp = np.full(V + H, np.nan)
        if posterior.known is not None:
            clamp[:V] = posterior.known[n]
        energy = posterior.energy
        fields = (energy.weights, energy.visible_bias[n], energy.hidden_bias[n])
        expected[n] = brute_force(*fields, clamp=clamp).marginals[:V]
    return expected


@pytest.mark.parametrize("known", [None, random_known(0.4), random_known(1.1), random_known(0.0)])
def test_marginal(known):
    posterior = make_posterior(known)
    expected = conditional_marginals(posterior)
    log_odds = posterior.log_odds()
    np.testing.assert_allclose(expit(log_odds), expected, atol=1e-12)
    if known is not None:
        np.testing.assert_array_equal(log_odds[known == 1], np.inf)
        np.testing.assert_array_equal(log_odds[known == 0], -np.inf)
    v = resolve_decoder("marginal").decode(posterior)
    np.testing.assert_array_equal(v, expected >= 0.5)
    assert 0 < v.mean() < 1


def test_ties_are_on():
    """A label is on if P >= 0.5, as documented."""
    energy = random_rbm(0, V, H, N, scale=0.0, bias_scale=0.0)
    posterior = Posterior(energy, Exact(), None, np.zeros((1, V)), None)
    np.testing.assert_array_equal(resolve_decoder("marginal").decode(posterior), 1)


def test_label_set():
    posterior = make_posterior()
    result = resolve_decoder("label_set").decode(posterior)
    sets = posterior.label_sets
    for n in range(N):
        scores = [log_weight(posterior.energy, n, v) for v in sets]
        np.testing.assert_array_equal(result[n], sets[np.argmax(scores)])
    assert len(np.unique(result, axis=0)) > 1


def test_label_set_over_all_vectors_is_the_most_probable_one():
    sets = all_states(V, np.int8)
    result = resolve_decoder("label_set").decode(make_posterior(sets=sets))
    posterior = make_posterior()
    for n in range(N):
        best = max(sets, key=lambda v, n=n: log_weight(posterior.energy, n, v))
        np.testing.assert_array_equal(result[n], best)


def test_label_set_with_consistent_sets():
    """The best of the sets that agree with the known outputs, not the best set overwritten."""
    known = np.full((N, V), np.nan)
    known[:, 0] = np.arange(N) % 2
    known[::3, 4] = 0
    posterior = make_posterior(known)
    result = resolve_decoder("label_set").decode(posterior)
    differs = 0
    for n in range(N):
        agrees = np.isnan(known[n]) | (posterior.label_sets == known[n])
        sets = posterior.label_sets[agrees.all(1)]
        assert len(sets)
        scores = [log_weight(posterior.energy, n, v) for v in sets]
        np.testing.assert_array_equal(result[n], sets[np.argmax(scores)])
        scores = [log_weight(posterior.energy, n, v) for v in posterior.label_sets]
        differs += not np.array_equal(result[n], posterior.label_sets[np.argmax(scores)])
    assert differs


def test_label_set_without_consistent_set():
    """All sets compete with the known outputs written over them."""
    known = np.full((N, V), np.nan)
    known[:, 0], known[:, 3] = 1, 0  # no set has these two
    known[0] = np.nan  # a row with consistent sets beside the others
    posterior = make_posterior(known)
    result = resolve_decoder("label_set").decode(posterior)
    for n in range(N):
        sets = np.where(np.isnan(known[n]), posterior.label_sets, known[n])
        scores = [log_weight(posterior.energy, n, v) for v in sets]
        np.testing.assert_array_equal(result[n], sets[np.argmax(scores)])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("method", [Exact(), SumProduct(), MeanField()], ids=lambda m: m.name)
def test_known_outputs_are_returned_as_given(rule, method):
    for share in (0.3, 0.7, 1.1):
        known = random_known(share)
        result = resolve_decoder(rule).decode(make_posterior(known, method=method))
        assert result.shape == (N, V)
        assert np.isin(result, (0, 1)).all()
        fixed = ~np.isnan(known)
        np.testing.assert_array_equal(result[fixed], known[fixed])


@pytest.mark.parametrize("rule", RULES)
def test_nothing_known_is_the_same_as_no_argument(rule):
    blank = resolve_decoder(rule).decode(make_posterior(np.full((N, V), np.nan)))
    np.testing.assert_array_equal(blank, resolve_decoder(rule).decode(make_posterior()))


def test_one_hot_marginals_decode_to_one_class():
    energy = random_rbm(0, V, H, N)
    one_hot = OneHotRBMEnergy(energy.weights, energy.visible_bias, energy.hidden_bias)
    v = resolve_decoder("marginal").decode(Posterior(one_hot, Exact(), None, np.eye(V), None))
    scores = [[log_weight(energy, n, e) for e in np.eye(V)] for n in range(N)]
    np.testing.assert_array_equal(v, np.eye(V)[np.argmax(scores, axis=1)])


# ------------------------------------------------------------- through the estimator


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.RandomState(0)
    X = rng.randn(150, 4)
    base = X @ rng.randn(4, 2) + 2 * rng.randn(150, 2)  # in the labels, and not in X
    Y = (base[:, [0, 0, 1, 1, 1]] + 0.3 * rng.randn(150, 5) > 0).astype(int)
    model = CRBMClassifier(n_hidden=3, max_iter=60, alpha=0.01, random_state=0).fit(X, Y)
    return model, X, Y


def decoding_by(fitted, rule):
    model, X, Y = fitted
    return copy.copy(model).set_params(decode=rule), X, Y


def brute_force_rows(model, X, known=None):
    """Marginals P(y_i = 1 | x, known) from the fitted attributes alone."""
    n_outputs = len(model.visible_intercept_)
    rows = []
    for n, x in enumerate(X):
        clamp = np.full(n_outputs + len(model.hidden_intercept_), np.nan)
        if known is not None:
            clamp[:n_outputs] = known[n]
        b = model.visible_intercept_ + model.visible_coef_ @ x
        c = model.hidden_intercept_ + model.hidden_coef_ @ x
        rows.append(brute_force(model.weights_, b, c, clamp=clamp).marginals[:n_outputs])
    return np.array(rows)


def known_half(Y, seed=0):
    known = Y.astype(float)
    known[np.random.RandomState(seed).random_sample(Y.shape) < 0.5] = np.nan
    return known


def test_predict_proba_conditions_on_known_labels(fitted):
    model, X, Y = fitted
    known = known_half(Y)
    proba = model.predict_proba(X[:20], y_known=known[:20])
    # float64 throughout; the two enumerations add up in other orders.
    np.testing.assert_allclose(proba, brute_force_rows(model, X[:20], known[:20]), atol=1e-9)
    fixed = ~np.isnan(known[:20])
    np.testing.assert_array_equal(proba[fixed], known[:20][fixed])
    assert np.abs(proba - model.predict_proba(X[:20]))[~fixed].max() > 0.05


@pytest.mark.parametrize("rule", RULES)
def test_known_labels_help_with_the_others(fitted, rule):
    model, X, Y = decoding_by(fitted, rule)
    known = known_half(Y)
    free = np.isnan(known)
    with_known = (model.predict(X, y_known=known) == Y)[free].mean()
    without = (model.predict(X) == Y)[free].mean()
    # Outputs 0, 1 and 2, 3, 4 are copies of two signals that X tells in part only.
    assert with_known > without + 0.05


def test_label_set_of_the_estimator_is_the_argmax_over_label_sets_seen(fitted):
    model, X, Y = decoding_by(fitted, "label_set")
    np.testing.assert_array_equal(model.label_sets_, np.unique(Y, axis=0))
    known = known_half(Y)[:40]
    for given in (None, known):
        result = model.predict(X[:40], y_known=given)
        for n, x in enumerate(X[:40]):
            sets = model.label_sets_
            if given is not None:
                agrees = (np.isnan(given[n]) | (sets == given[n])).all(axis=1)
                sets = sets[agrees]  # a row's own label set is among these
            b = model.visible_intercept_ + model.visible_coef_ @ x
            inputs = model.hidden_intercept_ + model.hidden_coef_ @ x + sets @ model.weights_
            scores = sets @ b + np.log1p(np.exp(inputs)).sum(axis=1)
            np.testing.assert_array_equal(result[n], sets[scores.argmax()])


def test_marginal_decode_is_the_mode_of_each_marginal(fitted):
    model, X, _ = fitted
    proba = brute_force_rows(model, X[:40])
    np.testing.assert_allclose(model.predict_proba(X[:40]), proba, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X[:40]), proba >= 0.5)
    np.testing.assert_allclose(
        model.decision_function(X[:40]), np.log(proba) - np.log1p(-proba), atol=1e-7
    )


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (np.zeros((3, 5)), r"y_known must have shape \(150, 5\), got \(3, 5\)"),
        (np.zeros((150, 4)), r"y_known must have shape \(150, 5\), got \(150, 4\)"),
        (np.zeros(150), r"y_known must have shape \(150, 5\)"),
        (np.full((150, 5), 2.0), "y_known must be a 0/1 indicator"),
        (np.full((150, 5), -1.0), r"y_known .*If -1 means unknown, put NaN in its place"),
        (np.full((150, 5), np.inf), "y_known .*infinity"),
        (np.full((150, 5), 0.5), "y_known .*other values"),
        (np.full((150, 5), "a"), "y_known .*strings"),
    ],
)
def test_bad_known_labels(fitted, known, message):
    model, X, _ = fitted
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(ValueError, match=message):
            method(X, y_known=known)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_known_labels_with_a_class_vector(n_classes):
    X = np.eye(6)
    model = CRBMClassifier(max_iter=1).fit(X, np.arange(6) % n_classes)
    with pytest.raises(ValueError, match="y_known is for 2-D indicator y"):
        model.predict(X, y_known=np.zeros((6, n_classes)))


def test_unknown_rule_after_fit(fitted):
    model, X, _ = decoding_by(fitted, "lable_set")
    with pytest.raises(ValueError, match=r"'decode' parameter .*must be.*'lable_set'"):
        model.predict(X)


@pytest.mark.parametrize("shape", [(0, 4), (5, 9), (50, 3), (200, 70)])
def test_distinct_rows_are_sorted(shape):
    rows = (np.random.RandomState(0).uniform(size=shape) < 0.2).astype(float)
    expected = np.unique(rows, axis=0)
    found = distinct_rows(rows)
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, expected.reshape(-1, shape[1]))


def strongly_coupled(seed, n_visible, n_hidden, n_rows):
    """Models whose messages go astray, and all their visible states with -F and max -E."""
    rng = np.random.RandomState(seed)
    weights = rng.normal(0, 5, (n_visible, n_hidden))
    bias = rng.normal(0, 1, (n_rows, n_visible)) - weights.sum(axis=1) / 2
    energy = RBMEnergy(
        weights, bias, rng.normal(0, 1, (n_rows, n_hidden)) - weights.sum(axis=0) / 2
    )
    states = all_states(n_visible, np.int8)
    return energy, states


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "hidden", "passing"),
    [("marginal_map", "marginal", MixedProduct), ("map", "max", MaxProduct)],
)
def test_best_states_beyond_enumeration(name, hidden, passing):
    """Never worse than the label sets, local optima, nearly always the best; known labels stay."""
    n_rows = 10 if JIT_DISABLED else 40
    energy, states = strongly_coupled(0, 12, 11, n_rows)
    value = energy.log_weight_of_sets(states, hidden)
    sets = states[np.random.RandomState(1).permutation(len(states))[:30]]
    posterior = Posterior(energy, resolve_method("sum_product"), None, sets, None, hidden=hidden)
    found = resolve_decoder(name).decode(posterior)
    score = energy.log_weight(found, hidden)
    assert (score >= energy.log_weight_of_sets(sets, hidden).max(axis=1) - 1e-9).all()
    for i in range(12):
        flipped = found.copy()
        flipped[:, i] = 1 - flipped[:, i]
        assert (energy.log_weight(flipped, hidden) <= score + 1e-9).all()
    messages = infer(energy, passing(n_restarts=10, max_iter=50, random_state=0), returns=name)
    alone = energy.log_weight(messages.assignment[:, :12], hidden)
    assert (score >= alone - 1e-9).all()
    missed = value.max(axis=1) - score > 1e-9
    assert missed.mean() < 0.3
    if name == "marginal_map":
        assert (value.max(axis=1) - alone > 1e-9).mean() > missed.mean()
    known = np.full((n_rows, 12), np.nan)
    known[:, 3], known[::2, 5] = 1, 0
    given = resolve_decoder(name).decode(posterior._replace(known=known))
    np.testing.assert_array_equal(given[~np.isnan(known)], known[~np.isnan(known)])
    single = resolve_decoder(name).decode(
        posterior._replace(energy=energy.rows(slice(7, 8)), known=known[7:8])
    )
    np.testing.assert_array_equal(single, given[7:8])
