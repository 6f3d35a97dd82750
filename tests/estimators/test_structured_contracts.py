"""What the random fields of sequences, graphs and images have in common: one contract for all."""

import gc

import numpy as np
import pytest

from skcrbm import ChainCRF, Graph, GraphCRF, GridCRF
from skcrbm.decoding import MAP, ExpectedMetric, LabelSet, Marginal, Threshold
from skcrbm.learning.structured.rows import RaggedBatch

PATH = [[0, 1], [1, 2], [2, 3]]


def data(kind, n=16):
    """Return the estimator of a kind with a stochastic solver, and its rows and labels."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n, 4, 2))
    y = [np.where(x[:, 0] > 0, "b", "a").astype(object) for x in values]
    options = {"solver": "adam", "max_iter": 3, "alpha": 0.1, "random_state": 0}
    if kind == "chain":
        return ChainCRF(**options), list(values), y
    if kind == "graph":
        return GraphCRF(**options), [Graph(x, PATH) for x in values], y
    images = [x.reshape(2, 2, 2) for x in values]
    return GridCRF(**options), images, [labels.reshape(2, 2) for labels in y]


def flat(parts):
    return np.concatenate([np.asarray(part).ravel() for part in parts])


KINDS = pytest.mark.parametrize("kind", ["chain", "graph", "grid"])


@KINDS
def test_training_needs_an_observed_label(kind):
    model, X, y = data(kind)
    with pytest.raises(ValueError, match="y holds no observed label"):
        model.fit(X, [None] * len(X))
    model.fit(X, y).set_params(warm_start=True)
    before = model.coef_.copy()
    with pytest.raises(ValueError, match=r"no observed label in any \w+ of positive weight"):
        model.fit(X, [None] * len(X))
    weight = np.zeros(len(X))
    weight[0] = 1
    for nothing in ([None] * len(X), [None, *y[1:]]):  # the rows with labels have weight 0
        model.partial_fit(X, nothing, sample_weight=weight)
        np.testing.assert_array_equal(model.coef_, before)
    model.partial_fit(X, [*y[:1], *[None] * (len(X) - 1)])
    assert not np.array_equal(model.coef_, before)


@KINDS
def test_labels_that_training_did_not_have(kind):
    model, X, y = data(kind)
    model.fit(X, y)
    new = [np.where(labels == "b", "c", labels) for labels in y]
    message = "y holds the label 'c', which is not a class of the model: 'a', 'b'"
    with pytest.raises(ValueError, match=message):
        model.set_params(warm_start=True).fit(X, new)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, new)
    with pytest.raises(ValueError, match="classes holds the label 'c'"):
        model.partial_fit(X, y, classes=["a", "c"])
    with pytest.raises(ValueError, match="y_known holds the label 'c'"):
        model.predict(X, y_known=new)
    with pytest.warns(UserWarning, match="'c', which training did not have; it counts as wrong"):
        share = model.score(X, new)
    assert share == np.mean(flat(model.predict(X)) == flat(new))
    with pytest.raises(ValueError, match="y holds the label 1, which is not a class"):
        model.score(X, [np.ones(labels.shape, int) for labels in y])


@KINDS
def test_log_probabilities_and_known_labels(kind):
    model, X, y = data(kind)
    model.fit(X, y)
    known = [labels.copy() for labels in y]
    for labels in known:
        labels.ravel()[1:] = None
    for proba, log_p in zip(
        model.predict_proba(X, y_known=known), model.predict_log_proba(X, y_known=known)
    ):
        assert np.isneginf(log_p).any()
        np.testing.assert_allclose(np.exp(log_p), proba, rtol=1e-12)
    right = flat(model.predict(X, y_known=known)) == flat(y)
    given = flat(known) != np.array(None)
    assert right[given].all()
    assert model.score(X, y, y_known=known) == right[~given].mean()
    weight = np.arange(1.0, len(X) + 1)
    expected = np.average(right[~given], weights=np.repeat(weight, 3))
    assert model.score(X, y, weight, known) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", ["chain", "graph"])
def test_decoding_rules(kind):
    model, X, y = data(kind)
    model.fit(X, y)
    for rule, name in ((MAP(), "map"), (Marginal(), "marginal")):
        by_name = flat(model.set_params(decode=name).predict(X))
        np.testing.assert_array_equal(flat(model.set_params(decode=rule).predict(X)), by_name)
    for rule in (ExpectedMetric("f1"), LabelSet(), Threshold(), "label_set", "hinge"):
        with pytest.raises(ValueError, match=r"'decode' .* one of 'map', 'marginal'") as error:
            model.set_params(decode=rule).predict(X)
        assert "such as MAP()" in str(error.value)
        with pytest.raises(ValueError, match=r"'decode' .* one of 'map', 'marginal'"):
            model.fit(X, y)
    with pytest.raises(ValueError, match="decode='marginal' needs probabilities"):
        type(model)(decode=Marginal(), learning="max_margin").fit(X, y)


def test_mean_field_has_no_answers_about_all_pixels_together():
    model, X, y = data("grid")
    model.fit(X, y)
    for name in ("sample", "predict_topk"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError) as error:
            getattr(model, name)
        assert "single pixels only; use factor_graph(image)" in str(error.value.__cause__)
    y[0][0, 1] = None
    log_p = model.predict_log_proba(X)
    expected = [
        sum(log_p[i][r, c, int(v == "b")] for (r, c), v in np.ndenumerate(y[i]) if v is not None)
        for i in range(len(X))
    ]
    np.testing.assert_allclose(model.score_samples(X, y), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", ["chain", "graph"])
def test_forbidden_labels(kind):
    model, X, _ = data(kind)
    y = [["a"] * 4, ["b"] * 4] * (len(X) // 2)
    model.set_params(forbidden=[("a", "b"), ("b", "a")]).fit(X, y)
    impossible = [["a", "b", None, None], *y[1:]]
    message = "{} 0 of X has no labels that agree with `forbidden` and with its labels in {}$"
    word = {"chain": "sequence", "graph": "graph"}[kind]
    with pytest.raises(ValueError, match=message.format(word, "y")):
        model.fit(X, impossible)
    for name in ("predict", "predict_proba", "sample"):
        with pytest.raises(ValueError, match=message.format(word, "y_known")):
            getattr(model, name)(X, y_known=impossible)
    with pytest.raises(ValueError, match=message.format(word, "y_known")):
        model.predict_topk(X, 1, y_known=impossible)
    likelihood = model.score_samples(X, impossible)
    assert likelihood[0] == -np.inf
    assert np.isfinite(likelihood[1:]).all()


@KINDS
def test_a_prediction_frees_its_arrays(kind):
    """A circle of references would keep them until the next garbage collection."""
    model, X, y = data(kind)
    model.fit(X, y).predict(X)
    gc.collect()
    gc.disable()
    try:
        model.predict(X)
        batches = [item for item in gc.get_objects() if isinstance(item, RaggedBatch)]
    finally:
        gc.enable()
    assert not batches
