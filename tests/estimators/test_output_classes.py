"""CRBMClassifier with a y whose columns hold classes, held against enumeration."""

import itertools
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold

from skcrbm import CRBMClassifier, LayeredGMClassifier
from skcrbm.inference import infer
from skcrbm.model_selection import cross_val_predict

CLASSES = [["car", "van"], ["blue", "red", "white"], [2, 3, 5, 7], [1]]


def make_data(n=120, seed=0, missing=0.0):
    """Outputs of 2, 3, 4 and 1 classes that depend on x and on each other."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    first = (X[:, 0] + rng.normal(size=n) > 0).astype(int)
    second = np.argmax(X + np.eye(3)[2 * first] * 2 + rng.gumbel(size=(n, 3)), axis=1)
    third = (second + rng.integers(0, 2, n)) % 4
    third[:4] = range(4)
    codes = np.column_stack([first, second, third, np.zeros(n, int)])
    y = np.empty((n, 4), object)
    for i, classes in enumerate(CLASSES):
        y[:, i] = np.array(classes, object)[codes[:, i]]
    if missing:
        gaps = rng.random(y.shape) < missing
        gaps[:8] = False
        y[gaps] = None
    return X, y


def fitted(n_hidden, **options):
    X, y = make_data(missing=0.2)
    options = {"alpha": 0.01, "max_iter": 15, "random_state": 0, **options}
    return CRBMClassifier(n_hidden=n_hidden, **options).fit(X, y), X, y


def vectors():
    """All vectors of classes (M, 4), and their units (M, 8): 1 of two classes, 3, 4 and 0."""
    every = np.array(list(itertools.product(*CLASSES)), object)
    units = [every[:, 0] == "van"]
    units += [every[:, 1] == c for c in CLASSES[1]] + [every[:, 2] == c for c in CLASSES[2]]
    return every, np.column_stack(units).astype(float)


def naive_log_weights(model, X, hidden="sum"):
    """Log-weights (N, M) of all vectors, by a loop over the states of the hidden units."""
    _, units = vectors()
    b = X @ model.visible_coef_.T + model.visible_intercept_
    c = X @ model.hidden_coef_.T + model.hidden_intercept_
    parts = []
    for h in itertools.product((0, 1), repeat=model.weights_.shape[1]):
        h = np.array(h, float)
        parts.append((b + model.weights_ @ h) @ units.T + (c @ h)[:, None])
    return np.logaddexp.reduce(parts) if hidden == "sum" else np.max(parts, axis=0)


def agree(values, known):
    return np.array([[k is None or k == v for k, v in zip(known, row)] for row in values]).all(1)


@pytest.mark.parametrize("n_hidden", [0, 2, 6])  # 6: vectors of classes are enumerated
@pytest.mark.parametrize("given", [False, True])
def test_answers_are_those_of_enumeration(n_hidden, given):
    model, X, y = fitted(n_hidden)
    X, y = X[:12], y[:12].copy()
    every, _ = vectors()
    log_p = naive_log_weights(model, X)
    known = None
    if given:
        known = np.full(y.shape, None)
        known[::2, 0], known[1::2, 1], known[::3, 2] = "van", "red", 5
        for row, held in enumerate(known):
            log_p[row, ~agree(every, held)] = -np.inf
    log_p -= np.logaddexp.reduce(log_p, axis=1, keepdims=True)
    p = np.exp(log_p)
    found = model.predict_proba(X, y_known=known)
    logs = model.predict_log_proba(X, y_known=known)
    marginals = []
    for i, classes in enumerate(CLASSES):
        marginal = np.stack([p[:, every[:, i] == c].sum(axis=1) for c in classes], axis=1)
        np.testing.assert_allclose(found[i], marginal, atol=1e-10)
        np.testing.assert_allclose(np.exp(logs[i]), marginal, atol=1e-10)
        marginals.append(np.array(classes, object)[marginal.argmax(axis=1)])
    np.testing.assert_array_equal(model.predict(X, y_known=known), np.column_stack(marginals))
    top = model.predict_topk(X, 2, y_known=known)  # two kinds are left in row 3
    order = np.argsort(-log_p, axis=1, kind="stable")[:, :2]
    np.testing.assert_allclose(top.proba, np.take_along_axis(p, order, 1), atol=1e-10)
    np.testing.assert_array_equal(top.labels[:, 0], every[order[:, 0]])
    y[::2, 2] = None  # a missing class is summed out
    expected = [log_p[row, agree(every, held)] for row, held in enumerate(y)]
    expected = [np.logaddexp.reduce(part) if len(part) else -np.inf for part in expected]
    np.testing.assert_allclose(model.score_samples(X, y, y_known=known), expected, atol=1e-9)
    if not given:
        np.testing.assert_allclose(model.score_samples(X), 0.0)


@pytest.mark.parametrize("n_hidden", [2, 6])
def test_decoding_rules_are_those_of_enumeration(n_hidden):
    model, X, _ = fitted(n_hidden)
    every, _ = vectors()
    best = every[naive_log_weights(model, X).argmax(axis=1)]
    np.testing.assert_array_equal(model.set_params(decode="marginal_map").predict(X), best)
    best = every[naive_log_weights(model, X, "max").argmax(axis=1)]
    np.testing.assert_array_equal(model.set_params(decode="map").predict(X), best)


@pytest.mark.parametrize("method", ["exact", "gibbs"])
@pytest.mark.parametrize("n_hidden", [2, 6])
def test_samples(n_hidden, method):
    model, X, _ = fitted(n_hidden)
    drawn = model.sample(X[:3], 3000, method=method, random_state=0)
    assert drawn.shape == (3, 3000, 4)
    for i, proba in enumerate(model.predict_proba(X[:3])):
        share = np.stack([(drawn[:, :, i] == c).mean(axis=1) for c in CLASSES[i]], axis=1)
        np.testing.assert_allclose(share, proba, atol=0.1 if method == "gibbs" else 0.04)
    known = np.array([[None, "red", None, None]] * 3, object)
    assert (model.sample(X[:3], 20, y_known=known, random_state=0)[..., 1] == "red").all()


def test_targets_describe_the_units():
    """Vectors of classes are counted, and the units of three or more classes exclude each other."""
    model, _, _ = fitted(0)
    every, units = vectors()
    assert model._targets.n_bits == int(np.ceil(np.log2(len(every))))
    assert model._targets.exclusive.tolist() == [False] + [True] * 7
    assert len(model._targets.exclusive) == units.shape[1]


@pytest.mark.deep
def test_hidden_units_learn_the_dependence_of_outputs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1))
    first = rng.integers(0, 3, 400)
    y = np.column_stack([first + 3, (first + (rng.random(400) < 0.05)) % 3])
    model = CRBMClassifier(n_hidden=3, random_state=0).fit(X[:250], y[:250])
    alone = CRBMClassifier(n_hidden=0).fit(X[:250], y[:250])
    assert model.n_hidden_ == 3
    gain = model.score_samples(X[250:], y[250:]) - alone.score_samples(X[250:], y[250:])
    assert gain.mean() > 0.6  # the mutual information is log 3 - 0.2
    path = model.alpha_path_
    assert path["log_loss"][-1] == pytest.approx(2 * np.log(3), rel=0.05)
    assert -path["log_likelihood"][-1] < path["log_loss"][-1] - 0.6


def test_two_classes_are_a_label():
    X, _ = make_data()
    Y = (X[:, :2] + 0.5 * X[:, [2]] > 0).astype(int)
    names = np.array(["no", "yes"])[Y]
    model = CRBMClassifier(n_hidden=2, alpha=0.1, random_state=0)
    labels = clone(model).partial_fit(X, Y)
    classes = clone(model).partial_fit(X, names, classes=[["no", "yes"]] * 2)
    np.testing.assert_array_equal(classes.visible_coef_, labels.visible_coef_)
    np.testing.assert_array_equal(classes.weights_, labels.weights_)
    for i, proba in enumerate(classes.predict_proba(X)):
        np.testing.assert_allclose(proba[:, 1], labels.predict_proba(X)[:, i], atol=1e-12)
    np.testing.assert_array_equal(classes.predict(X) == "yes", labels.predict(X) == 1)


def test_messages_for_many_outputs_and_hidden_units():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    y = 1 + np.argmax(rng.normal(size=(60, 8, 3)) + 2 * X[:, None], axis=2)
    options = {"n_hidden": 11, "alpha": 0.1, "alpha_hidden": 0.3, "max_iter": 4, "random_state": 0}
    model = CRBMClassifier(**options).fit(X, y)
    assert model.inference_ == "sum_product"
    exact = clone(model).set_params(inference="exact", max_iter=1).fit(X, y)
    energy = model._posterior(X).energy
    messages = infer(energy, "sum_product", returns=("marginals", "statistics", "log_partition"))
    sums = infer(energy, "exact", returns=("marginals", "statistics", "log_partition"))
    np.testing.assert_allclose(messages.marginals, sums.marginals, atol=0.01)
    np.testing.assert_allclose(messages.statistics[0], sums.statistics[0], atol=0.6)
    np.testing.assert_allclose(messages.log_partition, sums.log_partition, atol=0.01)
    assert exact.inference_ == "exact"
    best = model.set_params(decode="map")._posterior(X)
    reached = energy.log_weight(best.infer("max_product", returns="map").assignment[:, :24], "max")
    top = infer(energy, "exact", returns=("map", "map_bound"))
    np.testing.assert_allclose(reached, top.map_bound, atol=0.5)
    assert model.predict(X).shape == (60, 8)
    with pytest.raises(ValueError, match="is larger than the number of candidates"):
        model.predict_topk(X[:2], 500, candidates="label_sets")
    state = infer(energy, "sum_product", return_state=True)
    again = infer(energy, "sum_product", init=state)
    assert again.n_iter.max() <= 2
    np.testing.assert_allclose(again.marginals, state.marginals, atol=1e-5)


@pytest.mark.parametrize("learning", ["cd", "pcd"])
def test_contrastive_rules_approach_maximum_likelihood(learning):
    X, y = make_data(300)
    options = {"n_hidden": 2, "alpha": 0.05, "random_state": 0}
    best = CRBMClassifier(**options).fit(X, y).score_samples(X, y).mean()
    start = CRBMClassifier(**options, max_iter=1).fit(X, y).score_samples(X, y).mean()
    model = CRBMClassifier(learning=learning, max_iter=40, **options).fit(X, y)
    assert model.score_samples(X, y).mean() > best - 0.25 * (best - start)


def test_weights_of_outputs_are_copies_of_rows():
    X, y = make_data(60)
    weight = np.ones(y.shape)
    weight[:20, 1] = 2
    weight[20:30, 2] = 0
    rows = np.concatenate([np.arange(60), np.arange(20)])
    copies = y[rows].copy()
    copies[60:, [0, 2, 3]] = None
    copies[20:30, 2] = None
    model = CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=300, random_state=0)
    weighted, copied = clone(model).fit(X, y, weight), clone(model).fit(X[rows], copies)
    for one, other in zip(weighted.predict_proba(X), copied.predict_proba(X), strict=True):
        np.testing.assert_allclose(one, other, atol=0.02)
    assert weighted.score(X, y, sample_weight=weight) <= 1


def test_data_frames_name_the_outputs():
    X, y = make_data(60)
    names = ["kind", "colour", "doors", "one"]
    frame = pd.DataFrame(y, columns=names)
    model = CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=10, random_state=0).fit(X, frame)
    assert model.label_names_.tolist() == names
    assert [classes.tolist() for classes in model.classes_] == CLASSES
    assert model._targets.visible_names().tolist()[:3] == [
        "kind=van",
        "colour=blue",
        "colour=red",
    ]
    known = pd.DataFrame({"colour": ["red"] * 60})
    assert (model.predict(X, y_known=known)[:, 1] == "red").all()
    given = model.predict(X, y_known=frame[["colour"]])
    right = (given == y)[:, [0, 2, 3]].all(axis=1).mean()
    assert model.score(X, frame[names[::-1]], y_known=frame[["colour"]]) == pytest.approx(right)
    model.set_label_output("pandas")
    assert list(model.predict(X).columns) == names
    assert list(model.predict_proba(X)[1].columns) == CLASSES[1]
    top = model.predict_topk(X[:2], 2)
    assert top.labels.shape == (4, 4)
    assert list(top.labels.columns) == names
    with pytest.raises(ValueError, match=r"columns that are not outputs .*'wheels'"):
        model.predict(X, y_known=known.rename(columns={"colour": "wheels"}))


def test_tools_of_scikit_learn():
    X, y = make_data(90)
    codes = np.column_stack([np.unique(c, return_inverse=True)[1] for c in y.T[:3]])
    model = CRBMClassifier(alpha=0.1, max_iter=8, random_state=0)
    search = GridSearchCV(model, {"n_hidden": [0, 2]}, cv=KFold(2)).fit(X, codes)
    assert search.best_score_ > 0.1
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    proba = cross_val_predict(model, X, y, cv=KFold(3), method="predict_proba")
    assert [part.shape for part in proba] == [(90, 2), (90, 3), (90, 4), (90, 1)]
    tags = model.__sklearn_tags__()
    assert tags.target_tags.multi_output
    assert tags.transformer_tags.preserves_dtype == ["float64", "float32"]


def test_errors_of_partial_fit_name_the_argument():
    X = np.zeros((4, 2))
    columns = [["a", "b"], ["x", "y"]]
    with pytest.raises(ValueError, match=r"^y holds sets, or lists of different lengths"):
        CRBMClassifier().partial_fit(X, [["a"], ["b", "x"]] * 2, classes=columns)
    y = np.array([["a", "x"], ["b", "y"], ["c", "x"], ["a", "y"]], object)
    for wrong in (["a", "b"], [{"a", "b"}, {"x", "y"}]):
        with pytest.raises(ValueError, match=r"^classes must be a list of 2 arrays"):
            LayeredGMClassifier().partial_fit(X, y, classes=wrong)
    with pytest.raises(ValueError, match="`classes` has the values of 3 labels, but y has 2"):
        CRBMClassifier().partial_fit(X, np.eye(4)[:, :2], classes=[[0, 1]] * 3)
    # Lists cannot be compared with 0 and 1 in a set.
    with pytest.raises(ValueError, match="column 0 of y holds the label 'a', which is not a class"):
        CRBMClassifier().partial_fit(X, y, classes=[[[1], [2]]] * 2)


def test_partial_fit_takes_the_classes_of_all_outputs():
    X, y = make_data(400, missing=0.1)
    classes = [np.array(c) for c in CLASSES]
    model = CRBMClassifier(n_hidden=2, alpha=0.01, random_state=0)
    few = (y[:40] != "white").all(axis=1)
    model.partial_fit(X[:40][few], y[:40][few], classes=classes)
    before = model.score_samples(X, y).mean()
    for _ in range(8):
        for start in range(0, 400, 80):
            model.partial_fit(X[start : start + 80], y[start : start + 80])
    model.partial_fit(X, y, classes=classes)
    assert model.score_samples(X, y).mean() > before + 0.5
    assert [c.tolist() for c in model.classes_] == CLASSES
    with pytest.raises(ValueError, match="classes of output 1 differ"):
        model.partial_fit(X, y, classes=[*classes[:1], np.array(["blue", "red"]), *classes[2:]])
    for wrong in (classes[:2], "abcd", 3, [[]] * 4):
        with pytest.raises(ValueError, match="classes must be a list of 4 arrays"):
            CRBMClassifier().partial_fit(X, y, classes=wrong)
    with pytest.raises(ValueError, match="column 1 of y"):
        CRBMClassifier().partial_fit(X[few.nonzero()[0]], y[:40][few]).partial_fit(X, y)
    labels = CRBMClassifier().partial_fit(X[:9], (X[:9, :2] > 0) * 1, classes=[[0, 1, 2], [0, 1]])
    assert [p.shape for p in labels.predict_proba(X)] == [(400, 3), (400, 2)]


def test_warm_start_and_stochastic_solvers():
    X, y = make_data(150)
    model = CRBMClassifier(
        n_hidden=2, solver="adam", max_iter=3, warm_start=True, early_stopping=True, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = model.fit(X, y).score_samples(X, y).mean()
        assert len(model.validation_scores_) <= 3
        assert model.set_params(max_iter=20).fit(X, y).score_samples(X, y).mean() > first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decode": "label_set"}, "decode must be one of 'marginal', 'marginal_map', 'map'"),
        ({"decode": "threshold"}, "decode must be one of"),
        ({"learning": "pmp"}, "needs 0/1 labels, but the columns of y hold classes"),
        ({"learning": "cd_percloss"}, "needs 0/1 labels"),
        ({"learning": "noisy_mle"}, "needs 0/1 labels"),
        ({"class_weight": "balanced"}, "class_weight is not supported"),
    ],
)
def test_options_that_need_labels_are_refused(options, message):
    X, y = make_data(50)
    with pytest.raises(ValueError, match=message):
        CRBMClassifier(alpha=0.1, **options).fit(X, y)


def test_clear_errors():
    model, X, y = fitted(0)
    with pytest.raises(ValueError, match="decision_function is not available"):
        model.decision_function(X)
    with pytest.raises(ValueError, match="whose columns hold classes"):
        model.predict_pairwise_proba(X)
    with pytest.raises(ValueError, match="column 1 of y"):
        model.score_samples(X[:1], [["van", "green", 2, 1]])
    with pytest.raises(ValueError, match="candidates must hold vectors of classes without missing"):
        model.predict_topk(X, 1, candidates=[["van", None, 2, 1]])
    y[:, 1] = None
    with pytest.raises(ValueError, match="no observed class"):
        CRBMClassifier().fit(X, y)
    with pytest.raises(ValueError, match="y must have a column with two or more classes"):
        CRBMClassifier().partial_fit(X[:1], [["a", "b"]], classes=[["a"], ["b"]])


@pytest.mark.parametrize(
    "y",
    [
        np.array([[0, 1], [1, 0], [0, -1]]),  # codes of missing labels
        np.array([[0, 1], [1, 0], [9, 1]]),
        [["a", "b"], ["b", "c"], ["c", "a"]],  # lists of labels
        np.array([["a", "b"], ["b", "c"], ["a", "c"]]),  # two values, as of a label
    ],
)
def test_labels_in_another_form_are_not_taken_for_classes(y):
    with pytest.raises(
        ValueError, match=r"holds the classes of an output, use LabelGraphCRF.*string"
    ):
        CRBMClassifier().fit(np.eye(3), y)


@pytest.mark.parametrize("values", [[1, 2, 3], [0, 2, 5]])
def test_numbers_are_classes(values):
    y = np.array(values)[[[0, 1], [1, 0], [2, 1], [1, 1]]]
    model = CRBMClassifier(n_hidden=0, alpha=0.1).fit(np.eye(4), y)
    assert [proba.shape for proba in model.predict_proba(np.eye(4))] == [(4, 3), (4, 2)]
    assert model.predict(np.eye(4)).dtype == y.dtype


def test_large_models_refuse_enumeration():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), rng.integers(0, 4, (20, 12))
    model = CRBMClassifier(
        n_hidden=2, alpha=1.0, max_iter=1, decode="marginal_map", random_state=0
    ).fit(X, y)
    with pytest.raises(ValueError, match=r"would enumerate 2\^24 vectors of classes"):
        model.predict(X)
    assert model.set_params(decode="map").predict(X).shape == (20, 12)
