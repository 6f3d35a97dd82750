"""Thresholds against a search over all cut points."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.random_models import random_rbm
from sklearn.base import clone

from skcrbm import MSSVMCRBM, CRBMClassifier, LMBMClassifier
from skcrbm.decoding import Posterior, Threshold, apply_thresholds, fit_thresholds
from skcrbm.decoding.rules import resolve_decoder
from skcrbm.inference import Exact
from skcrbm.metrics import masked_score
from skcrbm.utils.warnings import warn_user

METRICS = ("f1_samples", "jaccard_samples", "f1_micro", "f1_macro", "neg_hamming_loss")


def ratio(metric, tp, fp, fn):
    if tp + fp + fn == 0:
        return 1.0
    return tp / (tp + fp + fn) if metric.startswith("jaccard") else 2 * tp / (2 * tp + fp + fn)


def score(metric, y, v, weight):
    """From the definitions, over observed entries; 0 / 0 is 1."""
    observed = ~np.isnan(y) & (weight > 0)[:, None]
    w = np.where(observed, weight[:, None], 0.0)
    y = np.nan_to_num(y)
    cells = np.stack([y * v, (1 - y) * v, y * (1 - v)])
    if metric == "neg_hamming_loss":
        return -(w * (y != v)).sum() / w.sum()
    if metric == "f1_micro":
        return ratio(metric, *(cells * w).sum(axis=(1, 2)))
    if metric == "f1_macro":
        per_label = (cells * w).sum(axis=1).T
        return np.mean([ratio(metric, *c) for c, o in zip(per_label, observed.T) if o.any()])
    per_row = (cells * observed).sum(axis=2).T
    values = [ratio(metric, *cell) for cell in per_row]
    rows = observed.any(axis=1)
    return np.average(np.array(values)[rows], weights=weight[rows])


def cut_points(p):
    values = np.unique(p)
    return [0.0, *(values[:-1] + np.diff(values) / 2), 1.5]


def make_data(seed, n_rows, n_labels, missing, ties):
    rng = np.random.default_rng(seed)
    p = rng.random((n_rows, n_labels))
    p = np.round(p, 1) if ties else p
    y = (rng.random(p.shape) < p).astype(float)
    y[rng.random(p.shape) < missing] = np.nan
    y[0, 0] = 1
    weight = rng.integers(0, 3, n_rows).astype(float)
    weight[0] = 1
    return y, p, weight


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_labels=st.integers(1, 4),
    metric=st.sampled_from(METRICS),
    missing=st.sampled_from([0.0, 0.3]),
    ties=st.booleans(),
    weighted=st.booleans(),
)
def test_one_threshold(seed, n_labels, metric, missing, ties, weighted):
    y, p, weight = make_data(seed, 8, n_labels, missing, ties)
    given_weight = weight if weighted else None
    weight = weight if weighted else np.ones(8)
    thresholds = fit_thresholds(y, p, metric, per_label=False, sample_weight=given_weight)
    assert thresholds.shape == (n_labels,)
    assert len(set(thresholds)) == 1
    best = max(score(metric, y, p >= t, weight) for t in cut_points(p))
    assert score(metric, y, apply_thresholds(p, thresholds), weight) >= best - 1e-9


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_labels=st.integers(1, 4),
    metric=st.sampled_from(["f1_samples", "jaccard_samples"]),
    missing=st.sampled_from([0.0, 0.3]),
    ties=st.booleans(),
)
def test_one_threshold_and_a_label_in_each_row(seed, n_labels, metric, missing, ties):
    """The search counts the label that goes on if no label reaches the threshold."""
    y, p, weight = make_data(seed, 8, n_labels, missing, ties)
    p[-1] = 0
    options = {"allow_empty": False}
    thresholds = fit_thresholds(y, p, metric, sample_weight=weight, **options)

    def value(t):
        return score(metric, y, apply_thresholds(p, np.full(n_labels, t), **options), weight)

    found = apply_thresholds(p, thresholds, **options)
    if thresholds[0] > 0 and n_labels > 1:
        assert found[:-1].any(axis=1).all() or (p[:-1] == 0).all(axis=1).any()
        assert not found[-1].any()
    assert value(thresholds[0]) >= max(value(t) for t in cut_points(p)) - 1e-9


def test_label_that_comes_closest_to_its_threshold():
    p = [[0.3, 0.5, 0.1], [0.3, 0.6, 0.1], [0.0, 0.0, 0.0]]
    thresholds = [0.35, 0.7, 1.0]
    np.testing.assert_array_equal(apply_thresholds(p, thresholds), 0)
    found = apply_thresholds(p, thresholds, allow_empty=False)
    np.testing.assert_array_equal(found, [[1, 0, 0], [1, 0, 0], [0, 0, 0]])
    one = apply_thresholds(p, [0.7] * 3, allow_empty=False)
    np.testing.assert_array_equal(one, [[0, 1, 0], [0, 1, 0], [0, 0, 0]])
    np.testing.assert_array_equal(apply_thresholds([[0.1]], [0.5], allow_empty=False), 0)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_labels=st.integers(1, 3),
    metric=st.sampled_from(["f1_micro", "f1_macro", "neg_hamming_loss"]),
    missing=st.sampled_from([0.0, 0.3]),
    ties=st.booleans(),
)
def test_a_threshold_for_each_label(seed, n_labels, metric, missing, ties):
    y, p, weight = make_data(seed, 6, n_labels, missing, ties)
    thresholds = fit_thresholds(y, p, metric, per_label=True, sample_weight=weight)
    cuts = product(*(cut_points(column) for column in p.T))
    best = max(score(metric, y, p >= np.array(t), weight) for t in cuts)
    assert score(metric, y, apply_thresholds(p, thresholds), weight) >= best - 1e-9


@pytest.mark.parametrize("name", ["f1_samples", "jaccard_samples", "f1_micro", "f1_macro"])
def test_scores_are_those_of_the_package(name):
    rng = np.random.default_rng(0)
    y = np.vstack([np.ones((1, 4)), rng.integers(0, 2, (9, 4))]).astype(float)
    v = np.vstack([np.ones((1, 4)), rng.integers(0, 2, (9, 4))])
    y[(y.sum(axis=1) + v.sum(axis=1)) == 0, 0] = 1  # 0 / 0 counts otherwise there
    y[3, 2] = np.nan
    assert score(name, y, v, np.ones(10)) == pytest.approx(masked_score(name, y, y_pred=v))


def test_default_number_of_thresholds():
    y, p, _ = make_data(0, 50, 4, 0.1, False)
    for metric in METRICS:
        many = len(set(fit_thresholds(y, p, metric))) > 1
        assert many == (metric == "f1_macro")


def test_closest_to_one_half_of_equals():
    y = np.array([[1.0], [0.0]])
    for high, low, expected in ((0.9, 0.8, 0.85), (0.6, 0.1, 0.35), (1.0, 0.0, 0.5)):
        p = np.array([[high], [low]])
        for metric in ("neg_hamming_loss", "f1_macro", "f1_micro"):
            np.testing.assert_allclose(fit_thresholds(y, p, metric), expected)
    # Nothing is true: everything off.
    p = np.array([[0.6, 1.0], [0.2, 1.0]])
    for metric in METRICS:
        assert not apply_thresholds(p, fit_thresholds(np.zeros((2, 2)), p, metric)).any()
        assert apply_thresholds(p, fit_thresholds(np.ones((2, 2)), p, metric)).all()
    # A probability of 0 is not separated from entries that are on.
    assert apply_thresholds([[0.0]], fit_thresholds([[1]], [[0.0]], "neg_hamming_loss")).all()


def test_label_without_observed_entry():
    y = np.array([[1.0, np.nan], [0.0, np.nan]])
    p = np.array([[0.7, 0.3], [0.2, 0.9]])
    np.testing.assert_allclose(fit_thresholds(y, p, "f1_macro"), [0.45, 0.5])
    assert len(set(fit_thresholds(y, p, "f1_samples"))) == 1


def test_neighbouring_floats():
    low = 0.3
    high = np.nextafter(low, 1)
    thresholds = fit_thresholds([[1], [0]], [[high], [low]], "neg_hamming_loss")
    np.testing.assert_array_equal(apply_thresholds([[high], [low]], thresholds), [[1], [0]])


def test_the_same_threshold_for_all_labels():
    labels = apply_thresholds([[0.3, 0.6], [0.1, 0.2]], 0.3)
    np.testing.assert_array_equal(labels, [[1, 1], [0, 0]])
    with pytest.raises(ValueError, match="thresholds"):
        apply_thresholds([[0.3, 0.6]], np.nan)


def test_list_of_arrays():
    y, p, _ = make_data(1, 20, 3, 0.0, False)
    as_list = [np.column_stack([1 - q, q]) for q in p.T]
    np.testing.assert_allclose(fit_thresholds(y, as_list), fit_thresholds(y, p))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([[1]], [[0.1, 0.2]]), {}, r"proba must have the shape of y, \(1, 1\)"),
        (([[2]], [[0.1]]), {}, "y must be a 0/1 indicator"),
        (([[np.nan]], [[0.1]]), {}, "y holds no observed entry in the rows"),
        (([[1]], [[0.1]], "f1"), {}, "metric must be one of 'f1_samples'"),
        (([[1]], [[0.1]], "f1_samples"), {"per_label": True}, "takes a single threshold for all"),
        (([[1]], [[1.1]]), {}, r"proba must hold probabilities in \[0, 1\]"),
        (([[1]], [[0.1]]), {"sample_weight": [-1]}, "[Nn]egative"),
    ],
)
def test_refusals(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        fit_thresholds(*arguments, **options)
    with pytest.raises(ValueError, match="thresholds must have shape"):
        apply_thresholds([[0.1, 0.2]], [0.5])


def test_rule():
    energy = random_rbm(0, 4, 3, 10)
    known = np.full((10, 4), np.nan)
    known[:, 0], known[:, 1] = 1, 0
    thresholds = np.array([2.0, 0.0, 0.3, 0.7])  # for the known labels: never on, never off
    sets = np.zeros((1, 4), np.int8)
    for some in (None, known):
        posterior = Posterior(energy, Exact(), some, sets, None, thresholds=thresholds)
        p = 1 / (1 + np.exp(-posterior.log_odds()))
        expected = (p >= thresholds).astype(int)
        if some is not None:
            expected[:, 0], expected[:, 1] = 1, 0
        np.testing.assert_array_equal(resolve_decoder("threshold").decode(posterior), expected)


# ------------------------------------------------------------- fitted by an estimator


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    Y = (X @ rng.normal(size=(4, 5)) + rng.normal(size=(150, 5)) > 1).astype(float)
    return X, Y


def quick(kind=CRBMClassifier, **options):
    given = {"n_hidden": 2, "alpha": 0.02, "max_iter": 15, "random_state": 0}
    return kind(**{**given, "decode": "threshold", **options})


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", [CRBMClassifier, MSSVMCRBM])
@pytest.mark.parametrize("metric", ["f1_samples", "f1_macro"])
def test_fit_thresholds_by_cross_validation(data, kind, metric):
    X, Y = data
    model = quick(kind, decode=Threshold(metric)).fit(X, Y)
    plain = quick(kind, decode="marginal").fit(X, Y)
    # The fitted model does not depend on the decoding rule.
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert model.thresholds_.shape == (5,)
    assert len(set(model.thresholds_)) == (5 if metric == "f1_macro" else 1)
    proba = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict(X), proba >= model.thresholds_)
    again = quick(kind, decode=Threshold(metric)).fit(X, Y)
    np.testing.assert_array_equal(again.thresholds_, model.thresholds_)
    known = np.where(np.arange(5) < 2, Y, np.nan)
    np.testing.assert_array_equal(model.predict(X, y_known=known)[:, :2], Y[:, :2])


@pytest.mark.parametrize(
    "model", [quick(), quick(MSSVMCRBM), LMBMClassifier(decode="threshold")], ids=repr
)
def test_too_few_rows_for_thresholds(data, model):
    X, Y = data
    few = np.where(np.arange(len(Y))[:, None] < 4, Y, np.nan)
    for rows, weight in ((few[:4], None), (few, None), (Y, np.arange(len(Y)) < 4)):
        with pytest.raises(ValueError, match=r"decode='threshold' needs at least 5 rows .* got 4"):
            model.fit(X[: len(rows)], rows, sample_weight=weight)


def test_thresholds_help_their_metric(data):
    X, Y = data
    model = quick(max_iter=60, solver="adam", alpha=0.1).fit(X[:100], Y[:100])
    rare = masked_score("f1_samples", Y[100:], y_pred=model.predict(X[100:]))
    model.set_params(decode="marginal")
    assert rare > masked_score("f1_samples", Y[100:], y_pred=model.predict(X[100:])) + 0.02


def test_entries_not_observed(data):
    """Incomplete rows take part with their observed entries."""
    X, Y = data
    Y = np.where(np.random.default_rng(1).random(Y.shape) < 0.2, np.nan, Y)
    model = quick().fit(X, Y)
    assert (model.thresholds_ > 0).all()
    assert np.isin(model.predict(X), (0, 1)).all()


@pytest.mark.parametrize("kind", [CRBMClassifier, MSSVMCRBM])
def test_class_vector_needs_no_thresholds(data, kind):
    X, Y = data
    for y in (Y[:, 0], Y.sum(axis=1)):
        model = quick(kind).fit(X, y)
        assert not hasattr(model, "thresholds_")
        plain = quick(kind, decode="marginal").fit(X, y)
        np.testing.assert_array_equal(model.predict(X), plain.predict(X))


def test_continued_fits(data):
    X, Y = data
    with pytest.raises(ValueError, match="partial_fit does not support decode='threshold'"):
        quick().partial_fit(X, Y)
    model = quick(decode="marginal").fit(X, Y).set_params(decode="threshold")
    with pytest.raises(ValueError, match="set decode='threshold' and fit again"):
        model.predict(X)
    model = quick(warm_start=True, max_iter=3).fit(X, Y)
    first = model.thresholds_
    assert not np.array_equal(model.set_params(max_iter=30).fit(X, Y).thresholds_, first)
    model.set_params(decode="marginal").fit(X, Y)
    assert not hasattr(model, "thresholds_")
    model = quick(max_iter=3).fit(X, Y).set_params(decode="marginal").partial_fit(X, Y)
    assert not hasattr(model, "thresholds_")


@pytest.mark.parametrize("place", ["between the fits", "in a fit"])
@pytest.mark.parametrize(
    "model", [quick(), quick(MSSVMCRBM), LMBMClassifier(decode="threshold", random_state=0)]
)
def test_interrupted_cross_validation(data, monkeypatch, model, place):
    """The model is fitted, and decodes with thresholds of 0.5."""
    X, Y = data
    kind = type(model)
    calls = []

    def interrupted(self, *args, **kwargs):
        calls.append(self)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return inner(self, *args, **kwargs)

    if place == "between the fits":
        inner = kind.predict_proba
        monkeypatch.setattr(kind, "predict_proba", interrupted)
    else:  # a fit alone warns, and keeps the parameters so far
        inner = kind.fit

        def keeps(self, *args, **kwargs):
            try:
                return interrupted(self, *args, **kwargs)
            except KeyboardInterrupt:
                warn_user("Training interrupted; keeping what was learned so far.")
                return inner(self, *args, **kwargs)

        monkeypatch.setattr(kind, "fit", keeps)
    model = clone(model).set_params(max_iter=5)
    with pytest.warns(UserWarning, match="model is fitted, but all thresholds_ are 0.5"):
        model.fit(X, Y)
    assert len(calls) == 3
    monkeypatch.undo()
    np.testing.assert_array_equal(model.thresholds_, np.full(Y.shape[1], 0.5))
    plain = clone(model).set_params(decode="marginal").fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


def test_unknown_metric_in_fit(data):
    X, Y = data
    with pytest.raises(ValueError, match="'metric' parameter of Threshold"):
        quick(decode=Threshold("f1")).fit(X, Y)


def test_thresholds_are_read_by_label():
    P = pd.DataFrame(np.random.RandomState(0).rand(40, 3), columns=list("xyz"))
    expected = (P >= [0.2, 0.5, 0.8]).to_numpy().astype(int)
    for values in (pd.Series({"z": 0.8, "y": 0.5, "x": 0.2}), {"z": 0.8, "x": 0.2, "y": 0.5}):
        np.testing.assert_array_equal(apply_thresholds(P, values), expected)
    counted = pd.Series([0.2, 0.5, 0.8])
    np.testing.assert_array_equal(apply_thresholds(P, counted), expected)
    np.testing.assert_array_equal(apply_thresholds(P.to_numpy(), counted[::-1]), expected)
    for bad in ({"x": 0.2, "y": 0.5, "v": 0.8}, {"x": 0.2, "y": 0.5}):
        with pytest.raises(
            ValueError, match=r"thresholds has values for the labels .*'x', 'y', 'z'"
        ):
            apply_thresholds(P, bad)
