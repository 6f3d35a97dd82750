"""Joint queries and expected-metric decoding of the large margin machine, against enumeration."""

from copy import copy

import numpy as np
import pytest
from reference.states import all_states
from scipy.special import logsumexp

from skcrbm import LMBMClassifier
from skcrbm.decoding import ExpectedMetric, decode_label_sets

L = 4
VECTORS = all_states(L)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.RandomState(0)
    X = rng.randn(60, 3)
    base = X @ rng.randn(3, 2) + rng.randn(60, 2)
    Y = (base[:, [0, 0, 1, 1]] + 0.5 * rng.randn(60, L) > 0).astype(int)
    return LMBMClassifier(C=0.1, pairwise_penalty=5, decode="hinge", random_state=0).fit(X, Y), X, Y


def log_joint(model, X, known=None):
    y = 2.0 * VECTORS - 1
    fields = X @ model.visible_coef_.T + model.visible_intercept_
    score = fields @ y.T + 0.5 * ((y @ model.pairwise_coef_) * y).sum(axis=1)
    if known is not None:
        agrees = (np.isnan(known[:, None]) | (known[:, None] == VECTORS)).all(axis=2)
        score[~agrees] = -np.inf
    return score - logsumexp(score, axis=1, keepdims=True)


@pytest.mark.parametrize("with_known", [False, True])
def test_joint_queries(fitted, with_known):
    model, X, Y = fitted
    known = np.where(np.random.RandomState(1).random_sample(Y.shape) < 0.3, Y, np.nan)
    known = known if with_known else None
    joint = log_joint(model, X, known)
    log_p = model.score_samples(X, Y, y_known=known)
    np.testing.assert_allclose(log_p, joint[np.arange(60), Y @ [8, 4, 2, 1]], atol=1e-9)
    partly = Y.astype(float)
    partly[:, 1] = np.nan
    agrees = (np.isnan(partly[:, None]) | (partly[:, None] == VECTORS)).all(axis=2)
    expected = logsumexp(np.where(agrees, joint, -np.inf), axis=1)
    np.testing.assert_allclose(model.score_samples(X, partly, y_known=known), expected, atol=1e-9)
    labels, proba = model.predict_topk(X, 2, y_known=known)
    best = -np.sort(-joint, axis=1)[:, :2]
    np.testing.assert_allclose(proba, np.exp(best), atol=1e-9)
    pairs = model.predict_pairwise_proba(X, y_known=known)
    expected = np.einsum("nk,ki,kj->nij", np.exp(joint), VECTORS, VECTORS)
    np.testing.assert_allclose(pairs, expected, atol=1e-9)
    for method in ("exact", "gibbs"):
        draws = model.sample(X[:5], 2000, y_known=None if known is None else known[:5],
                             method=method, random_state=0)  # fmt: skip
        assert draws.shape == (5, 2000, L)
        marginals = expected[:5, np.arange(L), np.arange(L)]
        np.testing.assert_allclose(draws.mean(axis=1), marginals, atol=0.12)
        if known is not None:
            fixed = ~np.isnan(known[:5])
            np.testing.assert_array_equal(draws[:, 0][fixed], known[:5][fixed])
    if known is None:
        np.testing.assert_array_equal(labels[:, 0], model.set_params(decode="map").predict(X))
        model.set_params(decode="hinge")


@pytest.mark.parametrize("metric", ["jaccard", "f1"])
def test_expected_metrics(fitted, metric):
    model, X, Y = fitted
    model.set_params(decode=ExpectedMetric(metric, zero_division=1.0))
    np.testing.assert_array_equal(model.label_sets_, np.unique(Y, axis=0))
    # The label sets seen; for F1 all label vectors.
    sets = model.label_sets_ if metric == "jaccard" else VECTORS
    weight = np.exp(log_joint(model, X)[:, sets @ [8, 4, 2, 1]])
    expected = decode_label_sets(sets, weight, metric)
    np.testing.assert_array_equal(model.predict(X), expected)
    assert model.decision_function(X).shape == Y.shape
    with pytest.raises(ValueError, match="predict_with_gap needs decode='hinge' or 'map'"):
        model.predict_with_gap(X)
    model.set_params(decode="hinge")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_class_vector(fitted, n_classes):
    _, X, Y = fitted
    y = Y[:, [0, 2]].sum(axis=1) % n_classes
    model = LMBMClassifier(C=0.1, random_state=0).fit(X, y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(np.exp(model.score_samples(X, y)), proba[np.arange(60), y])
    np.testing.assert_array_equal(model.predict_topk(X).labels[:, 0], model.predict(X))
    assert np.isin(model.sample(X, 3, random_state=0), np.arange(n_classes)).all()


def test_no_complete_row(fitted):
    _, X, Y = fitted
    Y = Y.astype(float)
    Y[np.arange(60), np.arange(60) % L] = np.nan
    model = LMBMClassifier(C=0.1, decode="label_set", random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="no row of y was complete in fit"):
        model.predict(X)


@pytest.mark.parametrize("decode", ["hinge", "map", "marginal", "label_set", "threshold"])
def test_known_labels_in_prediction(fitted, decode):
    """Prediction equals enumeration of the label vectors that agree with known labels."""
    model, X, Y = copy(fitted[0]), *fitted[1:]
    model.set_params(decode=decode)
    if decode == "threshold":
        model.fit(X, Y)
        assert model.thresholds_.shape == (L,)
    known = np.where(np.random.RandomState(1).random_sample(Y.shape) < 0.4, Y, np.nan)
    known[0] = np.nan
    joint = log_joint(model, X, known)
    proba = np.exp(joint) @ VECTORS
    np.testing.assert_allclose(model.predict_proba(X, y_known=known), proba, atol=1e-9)
    found = model.predict(X, y_known=known)
    given = ~np.isnan(known)
    np.testing.assert_array_equal(found[given], known[given])
    if decode == "hinge":
        y = 2.0 * VECTORS - 1
        margins = (X @ model.visible_coef_.T + model.visible_intercept_)[
            :, None
        ] + y @ model.pairwise_coef_
        loss = np.maximum(model.margin - y * margins, 0).sum(axis=2)
        loss[np.isneginf(joint)] = np.inf
        expected = VECTORS[loss.argmin(axis=1)]
        labels, objective, gap = model.predict_with_gap(X, y_known=known)
        np.testing.assert_array_equal(labels, found)
        np.testing.assert_allclose(objective, loss.min(axis=1))
        np.testing.assert_array_equal(gap, 0)
        signed = (X @ model.visible_coef_.T + model.visible_intercept_) + (
            2.0 * found - 1
        ) @ model.pairwise_coef_
        np.testing.assert_allclose(model.decision_function(X, y_known=known), signed)
    elif decode in ("map", "label_set"):
        if decode == "label_set":
            joint[:, ~(VECTORS[:, None] == model.label_sets_).all(axis=2).any(axis=1)] = -np.inf
        expected = VECTORS[joint.argmax(axis=1)]
        assert np.isfinite(joint).any(axis=1).all()
    elif decode == "marginal":
        expected = proba >= 0.5
    else:
        expected = np.where(given, known, proba >= model.thresholds_)
    np.testing.assert_array_equal(found, expected)
    assert (found != model.predict(X)).any()


def test_bad_known_labels(fitted):
    model, X, Y = fitted
    for method in (model.predict, model.predict_proba, model.predict_with_gap):
        with pytest.raises(ValueError, match=r"y_known must have shape \(60, 4\)"):
            method(X, y_known=Y[:, :2])
    binary = LMBMClassifier(random_state=0).fit(X, Y[:, 0])
    for method in (binary.predict, binary.predict_proba, binary.decision_function):
        with pytest.raises(ValueError, match="y_known is for 2-D indicator y"):
            method(X, y_known=Y)
