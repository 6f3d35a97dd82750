"""LayeredGMClassifier."""

import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from skcrbm import LayeredGMClassifier
from skcrbm.energies._layered import LayeredParams, LayeredStructure
from skcrbm.layers import Conv2d, Dense, Local2d
from skcrbm.learning import Batch
from skcrbm.learning._truncated import MomentMatching, TruncatedLikelihood
from tests.reference.naive_layered import NaiveLayered
from tests.test_layered import make_model

SMALL = (Dense(4, 3),)
IMAGE = {"input_shape": (8, 8), "layers": (Conv2d(3, 3, 2, padding=1), Local2d(2, 2, 1))}


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        60, n_features=5, n_informative=4, n_redundant=0, n_classes=3, random_state=0
    )
    return MinMaxScaler().fit_transform(X), y


def quick(**options):
    return LayeredGMClassifier(**{"layers": SMALL, "max_iter": 3, "random_state": 0, **options})


def labels(y):
    return np.column_stack([y == 0, y > 0, y == 1]).astype(int)


def batch_of(X, visible):
    return Batch(X, visible.astype(float), np.linspace(0.5, 2, len(X)), np.arange(len(X)))


# ---------------------------------------------------------------- objectives


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("net", ["dense", "labels"])
def test_loss_and_gradient(net, smoothing):
    model = make_model(net)
    X = np.random.RandomState(0).random_sample((6, model.structure.n_nodes[0]))
    visible = np.eye(3)[[0, 1, 2, 0, 1, 2]] if net == "dense" else labels(np.arange(6) % 3)[:, :2]
    visible = visible.astype(float)
    if net == "labels":
        visible[0, 1] = np.nan
    batch = batch_of(X, visible)
    objective = TruncatedLikelihood("tree_reweighted", "sequential", 4, smoothing)
    step = objective.step(model, batch, 0)
    np.testing.assert_allclose(step.loss, objective.loss(model, batch), rtol=1e-12)
    # The loss from the reference's beliefs.
    expected = 0.0
    for row in range(6):
        reference = NaiveLayered(model.structure, model.params, X[row])
        beliefs = reference.infer("tree_reweighted", "sequential", 4)
        for output in range(model.structure.n_nodes[-1]):
            log_p = np.log(softmax(beliefs[model.structure.depth, output]))
            if net == "dense":
                target = visible[row]
            else:
                target = np.array([1 - visible[row, output], visible[row, output]])
            target = (1 - smoothing) * target + smoothing / len(target)
            if not np.isnan(target).any():
                expected -= batch.weight[row] * (target * log_p).sum()
    np.testing.assert_allclose(step.loss, expected, rtol=1e-10)
    rng = np.random.RandomState(1)
    direction = LayeredParams(*(rng.normal(size=p.shape) for p in model.params))

    def value(h):
        params = LayeredParams(*(p + h * d for p, d in zip(model.params, direction)))
        return objective.loss(model._replace(params=params), batch)

    slope = (value(1e-6) - value(-1e-6)) / 2e-6
    mine = sum(g @ d for g, d in zip(step.gradient, direction))
    np.testing.assert_allclose(mine, slope, rtol=1e-6)


def test_gradient_with_missing_inputs():
    model = make_model("conv", free=True)
    X = np.random.RandomState(0).random_sample((5, 9))
    X[np.random.RandomState(1).random_sample(X.shape) < 0.4] = np.nan
    batch = batch_of(X, np.eye(3)[[0, 1, 2, 0, 1]])
    for inference in ("mean_field", "sum_product", "tree_reweighted"):
        objective = TruncatedLikelihood(inference, "sequential", 5)
        gradient = objective.step(model, batch, 0).gradient
        unary = gradient.unaries[:9]
        h, k = 1e-6, 4
        change = np.zeros_like(model.params.unaries)
        change[k] = h
        up, down = (
            objective.loss(
                model._replace(params=model.params._replace(unaries=model.params.unaries + c)),
                batch,
            )
            for c in (change, -change)
        )
        np.testing.assert_allclose(unary[k], (up - down) / (2 * h), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("inference", ["sum_product", "tree_reweighted"])
@pytest.mark.parametrize("net", ["none", "star"])
def test_analytic_gradient_is_the_gradient_on_trees(net, inference):
    """Moments from exact inference give the gradient of the likelihood; so does backprop."""
    model = make_model("none") if net == "none" else star_model()
    X = np.random.RandomState(0).random_sample((6, 4))
    batch = batch_of(X, np.eye(3)[[0, 1, 2, 0, 1, 2]])
    analytic = MomentMatching(inference, "sequential", 6).step(model, batch, 0)
    backprop = TruncatedLikelihood(inference, "sequential", 6).step(model, batch, 0)
    np.testing.assert_allclose(analytic.loss, backprop.loss, rtol=1e-12)
    for mine, other in zip(analytic.gradient, backprop.gradient):
        np.testing.assert_allclose(mine, other, rtol=1e-8, atol=1e-10)


def star_model():
    deep = make_model("dense")
    structure = LayeredStructure((Dense(3, 3),), (4,), 2, 1, 3)
    rng = np.random.RandomState(5)
    sizes = (structure.connections[0].n_weights, structure.connections[1].n_weights)
    params = LayeredParams(*(rng.normal(size=s) for s in (*sizes, structure.unary_slices[-1].stop)))
    return deep._replace(params=params, structure=structure)


@pytest.mark.parametrize("inference", ["mean_field", "sum_product", "tree_reweighted"])
def test_analytic_gradient_is_off_on_loopy_graphs(inference):
    model = make_model("dense")
    X = np.random.RandomState(0).random_sample((6, 4))
    batch = batch_of(X, np.eye(3)[[0, 1, 2, 0, 1, 2]])
    steps = [
        kind(inference, "sequential", 6).step(model, batch, 0)
        for kind in (MomentMatching, TruncatedLikelihood)
    ]
    difference = np.linalg.norm(steps[0].gradient.weights - steps[1].gradient.weights)
    assert difference > 1e-3 * np.linalg.norm(steps[1].gradient.weights)
    assert np.isfinite(difference)


def test_objective_does_not_depend_on_chunks_or_threads():
    model = make_model("dense")
    X = np.random.RandomState(0).random_sample((150, 4))
    batch = batch_of(X, np.eye(3)[np.arange(150) % 3])
    steps = [
        TruncatedLikelihood("sum_product", "sequential", 4, 0.0, n).step(model, batch, 0)
        for n in (None, 3)
    ]
    for mine, other in zip(steps[0].gradient, steps[1].gradient):
        np.testing.assert_array_equal(mine, other)
    parts = [
        TruncatedLikelihood("sum_product", "sequential", 4).step(
            model, batch.rows(np.arange(a, b)), 0
        )
        for a, b in pairwise([0, 50, 51, 150])
    ]
    for k in range(3):
        total = sum(part.gradient[k] for part in parts)
        np.testing.assert_allclose(steps[0].gradient[k], total, rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------- estimator


def test_no_hidden_layer_is_logistic_regression(data):
    X, y = data
    alpha = 0.05
    model = quick(
        layers=(),
        n_inference_iter=1,
        alpha=alpha,
        max_iter=1500,
        n_iter_no_change=1500,
        learning_rate_init=0.02,
    )
    reference = LogisticRegression(C=1 / (alpha * len(y)), tol=1e-10, max_iter=5000)
    p = clone(model).fit(X, y > 0).predict_proba(X)
    np.testing.assert_allclose(p, reference.fit(X, y > 0).predict_proba(X), atol=1e-4)
    # Several classes: scores are against the first class, so hardly any penalty; Adam nears it.
    p = clone(model).set_params(alpha=1e-6).fit(X, y).predict_proba(X)
    reference.set_params(C=1 / (1e-6 * len(y)))
    np.testing.assert_allclose(p, reference.fit(X, y).predict_proba(X), atol=0.03)


@pytest.mark.compiled
@pytest.mark.parametrize("inference", ["mean_field", "sum_product", "tree_reweighted"])
@pytest.mark.parametrize("schedule", ["sequential", "parallel"])
def test_learns_digits(inference, schedule):
    X, y = load_digits(return_X_y=True)
    model = LayeredGMClassifier(
        layers=(Conv2d(6, 3, 2, padding=1), Dense(6, 4)),
        input_shape=(8, 8),
        inference=inference,
        schedule=schedule,
        max_iter=8,
        early_stopping=False,
        learning_rate_init=0.02,
        random_state=0,
    ).fit(X[:600] / 16, y[:600])
    assert model.loss_curve_[-1] < 0.7 * model.loss_curve_[0]
    assert model.score(X[600:900] / 16, y[600:900]) > 0.5


def test_attributes_and_shapes(data):
    X, y = data
    model = quick(layers=(Dense(4, 3), Dense(2))).fit(X, y)
    first, second, output = model.layers_
    assert first.pairwise.shape == (5, 4, 1, 2)
    assert first.unary.shape == (4, 2)
    assert second.pairwise.shape == (4, 2, 2, 1)
    assert output.pairwise.shape == (2, 1, 1, 2)
    assert output.layer == Dense(1, 3)
    assert model.input_unary_.shape == (5, 1)
    assert len(model.loss_curve_) == len(model.convergence_curve_) == model.n_iter_ == 3
    assert model.n_inference_iter_ == 5
    states = model.map_states(X)
    assert [s.shape for s in states] == [(60, 4), (60, 2), (60, 1)]
    assert states[0].max() <= 2
    conv = LayeredGMClassifier(**IMAGE, max_iter=1, random_state=0)
    X, y = load_digits(return_X_y=True)
    conv.fit(X[:40] / 16, y[:40])
    assert conv.layers_[0].pairwise.shape == (9, 1, 2)
    assert conv.layers_[1].pairwise.shape == (9 * 4, 2, 1)


@pytest.mark.parametrize("target", ["multiclass", "binary", "strings", "labels", "one class"])
def test_kinds_of_y(data, target):
    X, y = data
    y = {
        "multiclass": y,
        "binary": (y > 0).astype(int),
        "strings": np.array(["a", "b", "c"])[y],
        "labels": labels(y),
        "one class": np.zeros(len(y), int),
    }[target]
    model = quick().fit(X, y)
    p, score, prediction = model.predict_proba(X), model.decision_function(X), model.predict(X)
    assert prediction.shape == y.shape
    assert 0 <= model.score(X, y) <= 1
    if target == "labels":
        np.testing.assert_array_equal(prediction, p >= 0.5)
        np.testing.assert_array_equal(model.classes_, [[0, 1]] * 3)
        assert p.shape == score.shape == y.shape
    else:
        np.testing.assert_allclose(p.sum(1), 1)
        np.testing.assert_array_equal(prediction, model.classes_[p.argmax(1)])


def test_missing_labels(data):
    X, y = data
    Y = labels(y).astype(float)
    Y[::3, 0] = np.nan
    model = quick().fit(X, Y)
    assert np.isfinite(model.predict_proba(X)).all()
    np.testing.assert_array_equal(model.predict(X).shape, Y.shape)


def test_sample_weight_counts_copies(data):
    X, y = data
    weight = np.random.RandomState(0).randint(0, 3, len(y))
    one = quick().fit(X, y, sample_weight=weight)
    two = quick().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-8)


def test_one_result_for_any_number_of_threads(data):
    X, y = np.tile(data[0], (3, 1)), np.tile(data[1], 3)
    fits = [quick(n_jobs=n).fit(X, y) for n in (None, 2, 3)]
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0].predict_proba(X), other.predict_proba(X))
    part = fits[0].predict_proba(X[7:9])
    np.testing.assert_allclose(part, fits[0].predict_proba(X)[7:9], rtol=1e-10)


def test_sparse_and_pandas(data):
    X, y = data
    X = np.where(X < 0.4, 0, X)
    dense = quick().fit(X, y)
    for layers in (SMALL, ()):
        reference = quick(layers=layers).fit(X, y)
        rows = quick(layers=layers).fit(sparse.csr_matrix(X), y)
        np.testing.assert_allclose(
            rows.predict_proba(sparse.csr_matrix(X)), reference.predict_proba(X), rtol=1e-9
        )
    hard = quick(clamping="hard", thresholds=[0.3, 0.6])
    np.testing.assert_allclose(
        clone(hard).fit(sparse.csr_matrix(X), y).predict_proba(X),
        clone(hard).fit(X, y).predict_proba(X),
    )
    frame = pd.DataFrame(X, columns=list("abcde"))
    named = quick().fit(frame, y)
    np.testing.assert_array_equal(named.feature_names_in_, list("abcde"))
    np.testing.assert_array_equal(named.predict(frame), dense.predict(X))


def test_float32(data):
    X, y = data
    model = quick().fit(X.astype(np.float32), y)
    assert model.layers_[0].pairwise.dtype == np.float32
    assert model.predict_proba(X.astype(np.float32)).dtype == np.float32


def test_pickle_clone_partial_fit_and_warm_start(data):
    X, y = data
    model = quick(layers=[Dense(3)]).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(
        copy.partial_fit(X, y).predict_proba(X), model.partial_fit(X, y).predict_proba(X)
    )
    assert model.n_iter_ == 4
    assert len(model.loss_curve_) == 4
    assert clone(model).layers == [Dense(3)]
    warm = quick(warm_start=True).fit(X, y)
    before = warm.loss_curve_[-1]
    warm.fit(X, y)
    assert warm.loss_curve_[-1] < before
    with pytest.raises(ValueError, match="layers, input_shape, clamping or thresholds differ"):
        warm.set_params(layers=(Dense(5),)).fit(X, y)
    with pytest.raises(ValueError, match="does not support early_stopping=True"):
        quick(early_stopping=True).partial_fit(X, y)


def test_grid_search_and_pipeline(data):
    X, y = data
    grid = GridSearchCV(
        make_pipeline(MinMaxScaler(), quick()),
        {
            "layeredgmclassifier__layers": [(Dense(2),), (Dense(3, 3),)],
            "layeredgmclassifier__n_inference_iter": [2, 3],
        },
        cv=KFold(2),
    ).fit(X, y)
    assert 0 <= grid.best_score_ <= 1
    assert cross_val_predict(quick(), X, y, method="predict_proba", cv=3).shape == (60, 3)


def test_early_stopping_keeps_the_best_epoch(data):
    X, y = data
    model = quick(
        early_stopping=True, refit=False, max_iter=30, n_iter_no_change=2, learning_rate_init=0.5
    )
    model.fit(X, y)
    assert len(model.validation_scores_) == len(model.loss_curve_)
    assert model.n_iter_ == np.argmax(model.validation_scores_) + 1
    again = clone(model).set_params(refit=True).fit(X, y)
    assert again.n_iter_ == model.n_iter_
    assert len(again.loss_curve_) == model.n_iter_


@pytest.mark.compiled
def test_label_smoothing_tempers_probabilities(data):
    X, y = data
    sharp, soft = (
        quick(max_iter=200, n_iter_no_change=200, label_smoothing=eps).fit(X, y) for eps in (0, 0.5)
    )
    assert soft.predict_proba(X).max() < sharp.predict_proba(X).max()


def test_verbose(data, capsys):
    quick(verbose=1, max_iter=2).fit(*data)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("Epoch 1  loss")


# ---------------------------------------------------------------- inputs


def with_nan(X, share=0.3, seed=0):
    X = X.copy()
    X[np.random.RandomState(seed).random_sample(X.shape) < share] = np.nan
    return X


@pytest.mark.parametrize("options", [{}, {"clamping": "hard", "thresholds": [0.3, 0.6]}])
@pytest.mark.parametrize("inference", ["mean_field", "sum_product", "tree_reweighted"])
def test_missing_inputs(data, inference, options):
    X, y = data
    holes = with_nan(X)
    model = quick(inference=inference, **options).fit(holes, y)
    assert np.isfinite(model.predict_proba(holes)).all()
    filled = model.impute(holes)
    observed = ~np.isnan(holes)
    np.testing.assert_array_equal(filled[observed], holes[observed])
    assert ((filled[~observed] >= 0) & (filled[~observed] <= 1)).all()
    np.testing.assert_array_equal(np.isnan(holes), ~observed)  # left as it was
    rows = sparse.csr_matrix(np.where(np.isnan(holes), 7, holes))
    rows.data[rows.data == 7] = np.nan
    np.testing.assert_allclose(model.predict_proba(rows), model.predict_proba(holes), rtol=1e-9)
    np.testing.assert_allclose(model.impute(rows), filled, rtol=1e-9)
    # A complete row is the same whether others have holes or not.
    np.testing.assert_allclose(
        model.predict_proba(np.vstack([X[:1], holes[1:9]]))[0], model.predict_proba(X[:1])[0]
    )


def test_imputation_equals_the_reference(data):
    X, y = data
    holes = with_nan(X, seed=3)
    model = quick(layers=(Dense(3),)).fit(holes, y)
    filled = model.impute(holes)
    for row in range(3):
        missing = np.isnan(holes[row])
        reference = NaiveLayered(
            model._model.structure, model._model.params, np.nan_to_num(holes[row]), missing
        )
        beliefs = reference.infer("tree_reweighted", "sequential", 5)
        for i in np.flatnonzero(missing):
            np.testing.assert_allclose(filled[row, i], softmax(beliefs[0, i])[1], rtol=1e-9)


@pytest.mark.compiled
def test_imputation_finds_a_copied_feature():
    """Two equal features that decide y: each one's belief follows from the other's value."""
    rng = np.random.RandomState(0)
    x = rng.randint(0, 2, 400).astype(float)
    X = np.column_stack([x, x, rng.random_sample(400)])
    holes = X.copy()
    holes[::2, 0] = np.nan
    holes[1::4, 1] = np.nan
    model = quick(max_iter=150, n_iter_no_change=150, batch_size=400).fit(holes, x.astype(int))
    assert model.score(holes, x) > 0.98


def test_features_that_may_and_may_not_be_missing(data):
    X, y = data
    model = quick().fit(X, y)  # complete, in [0, 1]: may be missing later
    assert np.isfinite(model.predict_proba(with_nan(X))).all()
    assert np.isfinite(model.impute(with_nan(X))).all()
    wide = X * 10 - 3
    assert np.isfinite(quick().fit(wide, y).predict_proba(wide)).all()
    with pytest.raises(ValueError, match="MinMaxScaler"):
        quick().fit(wide, y).predict(with_nan(wide))
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]; scale X with MinMaxScaler"):
        quick().fit(with_nan(wide), y)
    with pytest.raises(ValueError, match="MinMaxScaler"):
        quick().fit(with_nan(X), y).predict(wide)
    with pytest.raises(ValueError, match="MinMaxScaler"):
        quick().fit(sparse.csr_matrix(with_nan(wide)), y)
    # Hard clamping has thresholds for any scale.
    hard = quick(clamping="hard", thresholds=2.0).fit(with_nan(wide), y)
    assert np.isfinite(hard.predict_proba(wide)).all()
    all_nan = X.copy()
    all_nan[:, 2] = np.nan
    assert np.isfinite(quick().fit(all_nan, y).predict_proba(X)).all()


def test_infinity_is_refused(data):
    X, y = data
    X = X.copy()
    X[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        quick().fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"layers": (Dense(3), Dense(3)), "n_inference_iter": 2},
            "n_inference_iter=2 is too small for 2 hidden layer.*n_inference_iter=3",
        ),
        ({"layers": (100,)}, r"layers must hold objects from skcrbm.layers such as Dense\(100\)"),
        ({"layers": 100}, "The 'layers' parameter"),
        ({"layers": (Conv2d(2, 3, 1),)}, "needs an image below it.*set input_shape"),
        ({"layers": (Dense(4), Local2d(2, 3, 1)), "input_shape": (5, 1)}, "no Dense layer before"),
        ({"layers": (Conv2d(2, 7, 1),), "input_shape": (5, 1)}, "does not fit"),
        ({"input_shape": (2, 2)}, r"input_shape=\(2, 2\) must be.*the 5 features"),
        ({"input_shape": (2.5, 2)}, "integers with the 5 features"),
        ({"thresholds": 0.5}, "thresholds are for clamping='hard'"),
        ({"clamping": "hard", "thresholds": [0.5, 0.2]}, "thresholds must increase"),
        ({"clamping": "hard", "thresholds": [0.5, np.nan]}, "thresholds must be a number"),
        ({"inference": "exact"}, "'inference' parameter"),
        ({"gradient": "cd"}, "'gradient' parameter"),
        ({"label_smoothing": 1.0}, "'label_smoothing' parameter"),
    ],
)
def test_errors(data, options, message):
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(*data)


def test_imputation_needs_two_iterations(data):
    X, y = data
    model = quick(layers=(), n_inference_iter=1).fit(X, y)
    with pytest.raises(ValueError, match="impute needs n_inference_iter of at least 2"):
        model.impute(with_nan(X))


def test_a_failed_fit_leaves_no_model(data):
    X, y = data
    model = quick().fit(X, y)
    with pytest.raises(ValueError, match="input_shape"):
        model.set_params(input_shape=(2, 2)).fit(X, y)
    assert not hasattr(model, "layers_")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dense(0),
        lambda: Dense(3, 1),
        lambda: Dense(2.5),
        lambda: Conv2d(2, 0, 1),
        lambda: Conv2d(2, 3, 0),
        lambda: Local2d(2, 3, 1, padding=-1),
        lambda: Local2d(2, (3, 3, 3), 1),
        lambda: Local2d(2, 3, 1, n_channels=0),
    ],
)
def test_invalid_layers(make):
    with pytest.raises(ValueError, match="must be an integer"):
        make()


def test_layers_have_no_state():
    layer = Conv2d(3, (5, 3), 2, n_channels=2, padding=1)
    assert layer == Conv2d(3, (5, 3), 2, 2, 1)
    assert hash(layer) == hash(Conv2d(3, (5, 3), 2, 2, 1))
    assert pickle.loads(pickle.dumps(layer)) == layer
    with pytest.raises(AttributeError):
        layer.stride = 1


def test_windows_join_the_pixels_they_should():
    """Edges against a loop over windows, with channels, a rectangle, stride and padding."""
    layer, below = Conv2d(2, (3, 2), (2, 1), n_channels=2, padding=(1, 0)), (5, 4, 3)
    height, width, channels = layer.shape(below)
    assert (height, width, channels) == (3, 3, 2)
    expected = set()
    for y in range(height):
        for x in range(width):
            for dy in range(3):
                for dx in range(2):
                    r, c = 2 * y + dy - 1, x + dx
                    if 0 <= r < 5 and 0 <= c < 4:
                        for a in range(3):
                            for b in range(2):
                                left = (r * 4 + c) * 3 + a
                                right = (y * 3 + x) * 2 + b
                                expected.add((left, right, ((dy * 2 + dx) * 3 + a) * 2 + b))
    edges = layer.edges(below)
    found = list(zip(edges.left.tolist(), edges.right.tolist(), edges.table.tolist()))
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert edges.n_tables == 36
    local = Local2d(2, (3, 2), (2, 1), 2, (1, 0)).edges(below)
    np.testing.assert_array_equal(local.left, edges.left)
    assert local.n_tables == len(local.left) == len(np.unique(local.table))
