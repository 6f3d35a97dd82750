"""What the random fields of sequences, graphs, images and labels have in common: one contract."""

import gc
import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction import DictVectorizer, FeatureHasher

from skcrbm import ChainCRF, Graph, GraphCRF, GridCRF, LabelGraphCRF
from skcrbm.decoding import MAP, ExpectedMetric, LabelSet, Marginal, Threshold
from skcrbm.inference import infer
from skcrbm.learning.structured.chain import SequenceBatch
from skcrbm.learning.structured.outputs import OutputBatch
from skcrbm.learning.structured.rows import RaggedBatch, StructureSource
from skcrbm.pipeline import SequenceTransformer, make_pipeline
from skcrbm.utils.ragged import SequenceArrays

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
    if kind == "labels":
        return LabelGraphCRF(**options, graph=PATH), values.reshape(n, -1), np.array(y)
    images = [x.reshape(2, 2, 2) for x in values]
    return GridCRF(**options), images, [labels.reshape(2, 2) for labels in y]


def shaped(X, y):
    """Return labels in the form of X: a table for each row of a table, else a list."""
    return np.array(y, object) if getattr(X, "ndim", 3) == 2 else list(y)


def flat(parts):
    return np.concatenate([np.asarray(part).ravel() for part in parts])


ALL = pytest.mark.parametrize("kind", ["chain", "graph", "grid", "labels"])
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


@ALL
def test_labels_that_training_did_not_have(kind):
    model, X, y = data(kind)
    model.fit(X, y)
    new = shaped(X, [np.where(labels == "b", "c", labels) for labels in y])
    message = "holds the label 'c', which is not a class of the model: 'a', 'b'"
    with pytest.raises(ValueError, match=f"y {message}"):
        model.set_params(warm_start=True).fit(X, new)
    with pytest.raises(ValueError, match=f"y {message}"):
        model.partial_fit(X, new)
    with pytest.raises(ValueError, match=f"y {message}"):
        model.score_samples(X, new)
    with pytest.raises(ValueError, match=f"y_known {message}"):
        model.predict(X, y_known=new)
    with pytest.warns(UserWarning, match="'c', which training did not have; it counts as wrong"):
        share = model.score(X, new)
    right = [np.array_equal(p, t) for p, t in zip(model.predict(X), new)]
    assert share == np.mean(right if kind == "labels" else flat(model.predict(X)) == flat(new))
    with pytest.raises(ValueError, match="y holds the label 1, which is not a class"):
        model.score(X, shaped(X, [np.ones(labels.shape, int) for labels in y]))
    if kind != "labels":  # its classes are those of a 1-D y, or a list for each column
        with pytest.raises(ValueError, match="classes holds the label 'c'"):
            model.partial_fit(X, y, classes=["a", "c"])


def test_a_class_of_a_vector_that_training_did_not_have():
    """A 1-D y of classes warns as labels of items do, in every classifier."""
    X = np.arange(12.0)[:, None]
    y = np.array(["a", "b"] * 6)
    model = LabelGraphCRF(alpha=0.1, max_iter=50).fit(X, y)
    with pytest.warns(UserWarning, match="y holds the label 'c', which training did not have"):
        assert model.score(X, ["c"] * 12) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.score(X, y)


@ALL
def test_shapes_of_answers(kind):
    model, X, y = data(kind)
    model.fit(X, y)
    assert [np.shape(labels) for labels in model.predict(X)] == [labels.shape for labels in y]
    proba = model.predict_proba(X)
    if kind == "labels":  # as in scikit-learn's forests
        assert [part.shape for part in proba] == [(len(X), 2)] * 4
    else:
        assert [part.shape for part in proba] == [(*labels.shape, 2) for labels in y]
    for part in proba:
        np.testing.assert_allclose(part.sum(axis=-1), 1, rtol=1e-9)
    assert model.score_samples(X, y).shape == (len(X),)
    assert model.n_features_in_ == (8 if kind == "labels" else 2)
    if kind != "grid":
        assert [np.shape(draw) for draw in model.sample(X, 3, random_state=0)] == [(3, 4)] * len(X)


@ALL
@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_a_single_class_is_predicted_for_all_items(kind, solver):
    model, X, y = data(kind)
    same = shaped(X, [np.full(labels.shape, "a", object) for labels in y])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(solver=solver).fit(X, same)
    assert (flat(model.predict(X)) == "a").all()
    assert (flat(model.predict_proba(X)) == 1).all()
    assert (flat(model.set_params(decode="map").predict(X)) == "a").all()
    assert model.score(X, same) == 1
    np.testing.assert_allclose(model.score_samples(X, same), 0, atol=1e-12)
    if solver == "adam":
        streamed = clone(model).partial_fit(X, same)
        assert (flat(streamed.predict(X)) == "a").all()


@ALL
def test_another_number_of_features(kind):
    model, X, y = data(kind)
    model.fit(X, y)
    wide = {
        "chain": [np.ones((4, 3))],
        "graph": [Graph(np.ones((4, 3)), PATH)],
        "grid": [np.ones((2, 2, 3))],
        "labels": np.ones((1, 3)),
    }[kind]
    message = rf"ha(s|ve) 3 (features|channels).* {model.n_features_in_}\b"
    for name in ("predict", "predict_proba"):
        with pytest.raises(ValueError, match=message):
            getattr(model, name)(wide)
    for name in ("score", "score_samples", "partial_fit"):
        with pytest.raises(ValueError, match=message):
            getattr(model, name)(wide, y[:1])


@ALL
def test_missing_labels(kind):
    """Missing labels are summed out, also if all labels of a row are missing."""
    model, X, y = data(kind)
    missing = [labels.copy() for labels in y]
    for i, labels in enumerate(missing):
        labels.ravel()[i % 4] = None
    missing[0][...] = None
    model.fit(X, shaped(X, missing))
    likelihood = model.score_samples(X, shaped(X, missing))
    assert likelihood[0] == 0
    assert (likelihood[1:] < 0).all()
    with pytest.raises(ValueError, match="no observed"):
        model.score(X, shaped(X, [np.full(labels.shape, None) for labels in y]))


@ALL
def test_numbers_of_rows_and_weights(kind):
    model, X, y = data(kind)
    for act in (model.fit, model.fit(X, y).score, model.score_samples):
        with pytest.raises(ValueError, match=r"3\b.*16|16\b.*3"):
            act(X, y[:3])
    for act in (model.fit, model.score):
        with pytest.raises(ValueError, match=r"3.*16|16.*3"):
            act(X, y, sample_weight=np.ones(3))
        with pytest.raises(ValueError, match="sample_weight"):
            act(X, y, sample_weight=-np.ones(16))
    with pytest.raises(ValueError, match=r"empty|0 sample"):
        model.predict(X[:0])


@ALL
def test_one_hot_labels(kind):
    model, X, y = data(kind)
    one_hot = [np.stack([labels == "a", labels == "b"], axis=-1).astype(int) for labels in y]
    one_hot = np.array(one_hot) if kind == "labels" else one_hot
    for form in (one_hot, [labels.tolist() for labels in one_hot]):
        with pytest.raises(ValueError, match=r"argmax\(") as error:
            model.fit(X, form)
        assert "one-hot" in str(error.value)


@pytest.mark.parametrize("kind", ["chain", "graph"])
def test_rows_all_of_whose_labels_are_forbidden(kind):
    """The error names `forbidden`, and no argument that was not given."""
    model, X, y = data(kind)
    if kind == "chain":
        single = [x[:1] for x in X]
    else:
        single = [Graph(graph.nodes[:1], []) for graph in X]
    model.set_params(forbidden=list(product("ab", "ab"))).fit(single, [v[:1] for v in y])
    message = r" 1 of X has no labels that agree with `forbidden`$"
    mixed = [single[0], X[0]]
    for name in ("predict", "predict_proba", "predict_log_proba", "sample"):
        with pytest.raises(ValueError, match=message):
            getattr(model, name)(mixed)
    with pytest.raises(ValueError, match=message):
        model.predict_topk(mixed, 2)
    for labels in ([y[0][:1], y[0]], [None, None]):  # the likelihood is not defined
        with pytest.raises(ValueError, match="1 of X has no labels that agree with `forbidden`"):
            model.score_samples(mixed, labels)
    with pytest.raises(ValueError, match=message):
        model.score(mixed, [y[0][:1], y[0]])


EMPTY = {
    "chain": (np.empty((0, 2)), [], np.empty((0, 7))),
    "graph": (Graph(np.empty((0, 2)), []), Graph([], []), Graph([], [], np.empty((0, 3)))),
    "grid": (np.empty((0, 2, 2)), np.empty((3, 0, 2)), np.empty((0, 0, 2))),
}


@KINDS
def test_rows_without_items(kind):
    """They get empty answers, and the answers of the other rows stay as they are."""
    model, X, y = data(kind)
    weight = np.arange(len(X)) + 1.0
    model.fit(X, y, weight)
    empty = EMPTY[kind]
    nothing = [np.empty(np.shape(row)[:2], object) if kind == "grid" else [] for row in empty]
    mixed = [empty[0], X[0], empty[1], *X[1:], empty[2]]
    labels = [nothing[0], y[0], nothing[1], *y[1:], None]
    places = [1, *range(3, len(X) + 2)]
    names = [n for n in ("predict", "predict_proba", "predict_log_proba") if hasattr(model, n)]
    for name, known in product(names, (False, True)):
        answer = getattr(model, name)
        found = answer(mixed, y_known=labels) if known else answer(mixed)
        expected = answer(X, y_known=y) if known else answer(X)
        for value, other in zip(found[places], expected):
            if value.dtype.kind == "f":
                np.testing.assert_allclose(value, other, rtol=1e-9)
            else:
                np.testing.assert_array_equal(value, other)
        for rows in (found[[0, 2, -1]], answer(list(empty))):
            assert [np.size(row) for row in rows] == [0, 0, 0]
            assert all(row.dtype == found[1].dtype for row in rows)
            assert all(row.ndim == found[1].ndim for row in rows)
    likelihood = model.score_samples(mixed, labels)
    np.testing.assert_allclose(likelihood[places], model.score_samples(X, y), rtol=1e-9)
    assert (likelihood[[0, 2, -1]] == 0).all()
    assert model.score(mixed, labels) == model.score(X, y)
    if kind != "grid":
        drawn = model.sample(mixed, 3, random_state=0)
        assert [draw.shape for draw in drawn[[0, 2, -1]]] == [(3, 0)] * 3
        best = model.predict_topk(mixed, 2)
        assert [best[i].labels.shape for i in (0, 1, 2)] == [(1, 0), (2, 4), (1, 0)]
        assert best[0].log_proba.tolist() == [0.0]
    if kind == "graph":
        assert model.check_convergence(mixed).tolist() == [True] * len(mixed)
        found, objective, gap = model.predict_with_gap(mixed)
        assert (found[0].size, objective[0], gap[0]) == (0, 0.0, 0.0)
        np.testing.assert_array_equal(flat(found), flat(model.predict(X)))
    with pytest.raises(ValueError, match=r"the \w+ is empty; a factor graph needs"):
        model.factor_graph(empty[0])
    with pytest.raises(ValueError, match=r"all \w+s of X are empty"):
        model.fit(list(empty), nothing)
    before = model.coef_.copy()
    weights = np.full(len(mixed), 1e3)  # the weights of empty rows have no effect
    weights[places] = weight
    np.testing.assert_array_equal(model.fit(mixed, labels, weights).coef_, before)


@pytest.mark.parametrize("kind", ["chain", "graph"])
def test_weights_of_single_items(kind):
    """A row with several weights is the sum of copies in which the lighter labels are missing."""
    model, X, y = data(kind)
    model.set_params(solver="lbfgs", max_iter=100)
    rng = np.random.default_rng(1)
    weight = [rng.choice([0.0, 0.5, 2.0], 4) for _ in X]
    weight[0][:] = 3.0
    y[1][2] = None  # its weight has no effect
    rows, labels, weights = [], [], []
    for x, own, w in zip(X, y, weight):
        seen, below = own != np.array(None), 0.0
        for level in np.unique(w[seen & (w > 0)]):
            rows.append(x)
            labels.append(np.where(w >= level, own, None))
            weights.append(level - below)
            below = level
    expected = clone(model).fit(rows, labels, weights).coef_
    np.testing.assert_allclose(model.fit(X, y, weight).coef_, expected, rtol=1e-6)
    np.testing.assert_array_equal(model.fit(X, y, np.array(weight)).coef_, model.coef_)
    right = flat(model.predict(X)) == flat(y)
    seen = flat(y) != np.array(None)
    share = np.average(right[seen], weights=np.concatenate(weight)[seen])
    assert model.score(X, y, weight) == pytest.approx(share, rel=1e-12)
    per_row = rng.choice([0.0, 0.5, 2.0], len(X))
    equal = [np.full(4, w) for w in per_row]
    by_row = clone(model).fit(X, y, per_row)
    np.testing.assert_allclose(model.fit(X, y, equal).coef_, by_row.coef_, rtol=1e-9)
    assert model.score(X, y, equal) == by_row.score(X, y, per_row)


@pytest.mark.parametrize("kind", ["chain", "graph"])
def test_weights_of_single_items_are_checked(kind):
    model, X, y = data(kind)
    good = [np.ones(4)] * len(X)
    word = {"chain": "sequence", "graph": "graph"}[kind]
    for wrong, message in (
        (good[:3], rf"sample_weight has 3 {word}s, but X has 16"),
        ([*good[:-1], np.ones(3)], rf"{word} 15 of sample_weight .*\(4,\); got the shape \(3,\)"),
        ([*good[:-1], ["a"] * 4], rf"{word} 15 of sample_weight should hold a number"),
        ([*good[:-1], None], rf"{word} 15 of sample_weight .* use a weight of 0"),
        ([*good[:-1], -np.ones(4)], "Negative values"),
        ([*good[:-1], np.full(4, np.nan)], "NaN"),
        ([np.zeros(4)] * 16, "zero for every"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, y, sample_weight=wrong)
    model.partial_fit(X, y, ["a", "b"], [np.zeros(4)] * 16)  # nothing to learn: no error
    assert not hasattr(model, "classes_")
    uneven = [np.arange(4.0), *good[1:]]
    for rule in ("pseudo_likelihood", "max_margin"):
        with pytest.raises(ValueError, match=f"'{rule}' needs complete labels with equal weights"):
            type(model)(learning=rule).fit(X, y, uneven)
        type(model)(learning=rule, max_iter=2).fit(X, y, good)


@pytest.mark.parametrize("kind", ["chain", "labels"])
def test_copies_of_a_row_are_held_out_together(kind):
    rng = np.random.RandomState(0)
    path, start = rng.randint(0, 2, 40), np.arange(0, 41, 4)
    if kind == "chain":
        arrays = SequenceArrays(rng.normal(size=(40, 2)), start)
        batch = SequenceBatch.of(arrays, path, np.ones(10))
        batch = batch.with_item_weights(rng.choice([1.0, 2.0], 40))
    else:
        origin = np.repeat(np.arange(10), 2)
        batch = OutputBatch(np.zeros((20, 2)), path.reshape(20, 2), np.ones(20), origin)
    source = StructureSource(batch)
    assert len(batch) > source.n_originals == 10
    rest, held = source.split(0.3, rng)
    assert rest.n_originals == 7
    assert not set(rest.all.origin) & set(held.origin)
    parts = list(source.batches(rng, 4))
    assert [source.count_originals(part) for part in parts] == [4, 4, 2]
    assert sum(map(len, parts)) == len(batch)


def test_empty_sequences_in_pipelines():
    X = [[{"word": "a"}, {"word": "b"}], [], [{"word": "b"}]] * 3
    y = [["A", "B"], [], ["B"]] * 3
    for step in (
        SequenceTransformer(FeatureHasher(8)),
        SequenceTransformer(DictVectorizer()),
        None,
    ):
        model = make_pipeline(*filter(None, [step]), ChainCRF(alpha=0.1)).fit(X, y)
        assert [labels.tolist() for labels in model.predict(X[:3])] == y[:3]
        assert [labels.tolist() for labels in model.predict([[], []])] == [[], []]


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


@KINDS
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
        assert "choose sets of 0/1 labels, not classes, or sum over hidden" in str(error.value)
        with pytest.raises(ValueError, match=r"'decode' .* one of 'map', 'marginal'"):
            model.fit(X, y)
    if kind != "grid":
        with pytest.raises(ValueError, match="decode='marginal' needs probabilities"):
            type(model)(decode=Marginal(), learning="max_margin").fit(X, y)


def test_most_probable_labels_of_images():
    model, X, y = data("grid")
    model.fit(X, y).set_params(decode="map")
    known = [np.where([[True, False], [False, False]], labels, None) for labels in y]
    for given in (None, known):
        for labels, image, part in zip(model.predict(X, given), X, given or [None] * len(X)):
            known_codes = np.full((1, 4), np.nan)
            if part is not None:
                known_codes[0, 0] = part[0, 0] == "b"
            best = infer(model.factor_graph(image), "exact", returns="map", clamp=known_codes)
            np.testing.assert_array_equal(labels.ravel() == "b", best.assignment[0] == 1)
    threads = clone(model).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(flat(threads.predict(X)), flat(model.predict(X)))
    hidden = clone(model).set_params(n_hidden=1, decode="marginal").fit(X, y)
    hidden.set_params(decode=MAP())
    with pytest.raises(ValueError, match="decode='map' needs a model without hidden variables"):
        hidden.predict(X)
    with pytest.raises(ValueError, match="decode='map' needs a model without hidden variables"):
        hidden.fit(X, y)


def test_decoding_rules_of_labels_with_classes():
    model, X, y = data("labels")
    for rule in ("expected_f1", Threshold()):
        with pytest.raises(ValueError, match="choose sets of 0/1 labels, not classes"):
            clone(model).set_params(decode=rule).fit(X, y)


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
