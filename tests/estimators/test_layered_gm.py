"""LayeredGMClassifier."""

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from reference.cases import deep
from reference.dtypes import float32_test
from reference.layered_models import make_model
from reference.naive_layered import NaiveLayered
from reference.steps import first_step
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from skcrbm import LayeredGMClassifier
from skcrbm.energies import LayeredStructure
from skcrbm.energies.layered_structure import LayeredParams
from skcrbm.inference import TruncatedInference, infer
from skcrbm.layers import Conv2d, Dense, HardClamping, Local2d, Skip
from skcrbm.learning import Adam, Backpropagation, EarlyStopping, LossPlateau
from skcrbm.learning.data import Batch
from skcrbm.learning.truncated import TruncatedLikelihood, TruncatedMoments

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
    objective = TruncatedLikelihood(TruncatedInference(n_iter=4), smoothing)
    step = first_step(objective, model, batch)
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
        objective = TruncatedLikelihood(TruncatedInference(inference, n_iter=5))
        gradient = first_step(objective, model, batch).gradient
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
    analytic = first_step(
        TruncatedMoments(TruncatedInference(inference, n_iter=6)), model, batch, 0
    )
    backprop = first_step(
        TruncatedLikelihood(TruncatedInference(inference, n_iter=6)), model, batch, 0
    )
    np.testing.assert_allclose(analytic.loss, backprop.loss, rtol=1e-12)
    for mine, other in zip(analytic.gradient, backprop.gradient):
        np.testing.assert_allclose(mine, other, rtol=1e-8, atol=1e-10)


def test_analytic_gradient_needs_the_iteration_that_tells_hidden_nodes_about_the_output():
    """On a star: the output knows X from iteration 2 on, and its answer comes in iteration 3."""
    model = star_model()
    batch = batch_of(np.random.RandomState(0).random_sample((6, 4)), np.eye(3)[[0, 1, 2, 0, 1, 2]])
    for n_iter, same in ((2, False), (3, True)):
        analytic, backprop = (
            first_step(kind(TruncatedInference("sum_product", n_iter=n_iter)), model, batch, 0)
            for kind in (TruncatedMoments, TruncatedLikelihood)
        )
        np.testing.assert_allclose(analytic.loss, backprop.loss, rtol=1e-12)
        error = abs(analytic.gradient.input_weights - backprop.gradient.input_weights).max()
        assert (error < 1e-10) == same
        assert same or error > 0.01


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
        first_step(kind(TruncatedInference(inference, n_iter=6)), model, batch, 0)
        for kind in (TruncatedMoments, TruncatedLikelihood)
    ]
    difference = np.linalg.norm(steps[0].gradient.weights - steps[1].gradient.weights)
    assert difference > 1e-3 * np.linalg.norm(steps[1].gradient.weights)
    assert np.isfinite(difference)


def test_objective_does_not_depend_on_chunks_or_threads():
    model = make_model("dense")
    X = np.random.RandomState(0).random_sample((150, 4))
    batch = batch_of(X, np.eye(3)[np.arange(150) % 3])
    steps = [
        first_step(
            TruncatedLikelihood(TruncatedInference("sum_product", n_iter=4), 0.0, n),
            model,
            batch,
            0,
        )
        for n in (None, 3)
    ]
    for mine, other in zip(steps[0].gradient, steps[1].gradient):
        np.testing.assert_array_equal(mine, other)
    parts = [
        first_step(
            TruncatedLikelihood(TruncatedInference("sum_product", n_iter=4)),
            model,
            batch.rows(np.arange(a, b)),
            0,
        )
        for a, b in pairwise([0, 50, 51, 150])
    ]
    for k in range(3):
        total = sum(part.gradient[k] for part in parts)
        np.testing.assert_allclose(steps[0].gradient[k], total, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", [TruncatedLikelihood, TruncatedMoments])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("method", ["sum_product", "tree_reweighted", "mean_field"])
@pytest.mark.parametrize("net", ["dense", "conv"])
def test_batch_is_the_sum_of_its_rows(net, method, missing, kind):
    # 13 rows are filled up to whole vectors, single ones go by states: other loops, same sums.
    model = make_model(net, free=missing)
    rng = np.random.RandomState(0)
    X = rng.random_sample((13, model.structure.n_nodes[0]))
    if missing:
        X[rng.random_sample(X.shape) < 0.3] = np.nan
    batch = batch_of(X, np.eye(3)[np.arange(13) % 3])
    objective = kind(TruncatedInference(method, n_iter=5))
    whole = first_step(objective, model, batch, 0)
    rows = [first_step(objective, model, batch.rows([i]), 0) for i in range(13)]
    assert whole.loss == pytest.approx(sum(row.loss for row in rows))
    assert whole.n_converged == sum(row.n_converged for row in rows)
    for k in range(3):
        total = sum(row.gradient[k] for row in rows)
        np.testing.assert_allclose(whole.gradient[k], total, rtol=1e-9, atol=1e-11)


# ---------------------------------------------------------------- estimator


def test_no_hidden_layer_is_logistic_regression(data):
    X, y = data
    alpha = 0.05
    model = quick(
        layers=(),
        inference=TruncatedInference(n_iter=1),
        alpha=alpha,
        max_iter=1500,
        early_stopping=LossPlateau(1500),
        solver=Adam(learning_rate=0.02),
    )
    reference = LogisticRegression(C=1 / (alpha * len(y)), tol=1e-10, max_iter=5000)
    p = clone(model).fit(X, y > 0).predict_proba(X)
    np.testing.assert_allclose(p, reference.fit(X, y > 0).predict_proba(X), atol=1e-4)
    # Several classes: scores are against the first class, so hardly any penalty; Adam nears it.
    p = clone(model).set_params(alpha=1e-6).fit(X, y).predict_proba(X)
    reference.set_params(C=1 / (1e-6 * len(y)))
    np.testing.assert_allclose(p, reference.fit(X, y).predict_proba(X), atol=0.03)


@pytest.mark.compiled
@pytest.mark.parametrize("inference", ["mean_field", deep("sum_product"), deep("tree_reweighted")])
@pytest.mark.parametrize("schedule", ["sequential", "parallel"])
def test_learns_digits(inference, schedule):
    X, y = load_digits(return_X_y=True)
    model = LayeredGMClassifier(
        layers=(Conv2d(6, 3, 2, padding=1), Dense(6, 4)),
        input_shape=(8, 8),
        inference=TruncatedInference(inference, schedule),
        max_iter=8,
        early_stopping=False,
        solver=Adam(learning_rate=0.02),
        random_state=0,
    ).fit(X[:600] / 16, y[:600])
    assert model.loss_curve_[-1] < 0.7 * model.loss_curve_[0]
    # Guessing gives .1. Sequential mean field depends on the start: .48 to .79 here.
    assert model.score(X[600:900] / 16, y[600:900]) > 0.35


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
        expected = p >= 0.5
        none = ~expected.any(axis=1)  # no row of fit is empty: then the best label goes on
        expected[none, p[none].argmax(axis=1)] = True
        np.testing.assert_array_equal(prediction, expected)
        np.testing.assert_array_equal(model.classes_, range(3))
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
    hard = quick(clamping=HardClamping([0.3, 0.6]))
    np.testing.assert_allclose(
        clone(hard).fit(sparse.csr_matrix(X), y).predict_proba(X),
        clone(hard).fit(X, y).predict_proba(X),
    )
    frame = pd.DataFrame(X, columns=list("abcde"))
    named = quick().fit(frame, y)
    np.testing.assert_array_equal(named.feature_names_in_, list("abcde"))
    np.testing.assert_array_equal(named.predict(frame), dense.predict(X))


@float32_test
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
    with pytest.raises(ValueError, match="but the model was fitted with"):
        warm.set_params(layers=(Dense(5),)).fit(X, y)
    with pytest.raises(ValueError, match="does not support early_stopping=True"):
        quick(early_stopping=True).partial_fit(X, y)


def test_partial_fit_goes_on_with_the_same_classes(data):
    X, y = data
    model = (
        quick().partial_fit(X, y, classes=[0, 1, 2]).partial_fit(X[:9], y[:9], classes=[2, 1, 0])
    )
    for classes in ([0, 1], [0, 1, 2, 3]):
        with pytest.raises(ValueError, match="differs from the classes of the first call"):
            model.partial_fit(X, y, classes=classes)
    with pytest.raises(ValueError, match=r"classes that the model does not know: \[3\]"):
        model.partial_fit(X, y + 1)


@pytest.fixture
def interrupt(monkeypatch):
    """Calls up: training raises KeyboardInterrupt in the given step, from 0."""

    def at(step):
        original, done = TruncatedLikelihood.step, []

        def interrupted(self, *args):
            if len(done) == step:
                raise KeyboardInterrupt
            done.append(1)
            return original(self, *args)

        monkeypatch.setattr(TruncatedLikelihood, "step", interrupted)

    return at


def test_interrupt_keeps_what_was_learned(data, interrupt, monkeypatch):
    X, y = data
    interrupt(2)
    with pytest.warns(UserWarning, match="interrupted; keeping what was learned") as caught:
        model = quick(max_iter=50).fit(X, y)
    assert caught[0].filename == __file__
    monkeypatch.undo()
    assert model.n_iter_ == len(model.loss_curve_) == 2
    np.testing.assert_array_equal(
        model.predict_proba(X), quick(max_iter=2).fit(X, y).predict_proba(X)
    )


def test_interrupt_in_the_first_epoch_propagates(data, interrupt, monkeypatch):
    X, y = data
    model = quick(solver=Adam(batch_size=10))
    interrupt(3)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    monkeypatch.undo()
    warm = quick(warm_start=True).fit(X, y)
    before = warm.predict_proba(X)
    interrupt(0)
    with pytest.raises(KeyboardInterrupt):
        warm.fit(X, y)
    np.testing.assert_array_equal(warm.predict_proba(X), before)


def test_callbacks_see_the_model_of_the_epoch(data):
    callback = pytest.importorskip("sklearn.callback")
    X, y = data
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = quick().set_callbacks(monitor).fit(X, y)
    scores = [quick(max_iter=n).fit(X, y).score(X, y) for n in (1, 2, 3)]
    epochs = [row for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    assert [row["accuracy"] for row in epochs] == scores
    assert model.score(X, y) == scores[-1]


def test_map_states_equal_enumeration(data):
    """With one hidden layer and one output the model is a tree; all nodes are maximised jointly."""
    X, y = data
    for options in ({}, {"inference": TruncatedInference("mean_field", "parallel")}):
        model = quick(
            max_iter=60, early_stopping=LossPlateau(60), solver=Adam(learning_rate=0.3), **options
        ).fit(X, y)
        hidden, output = model.map_states(X)
        assert len(np.unique(hidden)) > 1
        assert len(np.unique(output)) > 1
        for row in range(6):
            _, _, best = NaiveLayered(model._model.structure, model._model.params, X[row]).exact()
            assert [best[1, k] for k in range(4)] == hidden[row].tolist()
            assert best[2, 0] == output[row, 0]


def test_grid_search_and_pipeline(data):
    X, y = data
    grid = GridSearchCV(
        make_pipeline(MinMaxScaler(), quick(inference=TruncatedInference())),
        {
            "layeredgmclassifier__layers": [(Dense(2),), (Dense(3, 3),)],
            "layeredgmclassifier__inference__n_iter": [2, 3],
        },
        cv=KFold(2),
    ).fit(X, y)
    assert 0 <= grid.best_score_ <= 1
    assert cross_val_predict(quick(), X, y, method="predict_proba", cv=3).shape == (60, 3)


def test_early_stopping_keeps_the_best_epoch(data):
    X, y = data
    model = quick(
        early_stopping=EarlyStopping(validation_fraction=0.2, n_iter_no_change=2, refit=False),
        max_iter=30,
        solver=Adam(learning_rate=0.5),
    )
    model.fit(X, y)
    assert len(model.validation_scores_) == len(model.loss_curve_)
    assert model.n_iter_ == np.argmax(model.validation_scores_) + 1
    again = clone(model).set_params(early_stopping__refit=True).fit(X, y)
    assert again.n_iter_ == model.n_iter_
    assert len(again.loss_curve_) == model.n_iter_


@pytest.mark.compiled
def test_label_smoothing_tempers_probabilities(data):
    X, y = data
    sharp, soft = (
        quick(max_iter=200, early_stopping=LossPlateau(200), learning=Backpropagation(eps)).fit(
            X, y
        )
        for eps in (0.0, 0.5)
    )
    assert soft.predict_proba(X).max() < sharp.predict_proba(X).max()


def test_verbose(data, capsys):
    quick(verbose=2, max_iter=2).fit(*data)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("Epoch 1  loss")


@pytest.mark.parametrize("inference", ["mean_field", "sum_product", "tree_reweighted"])
@pytest.mark.parametrize(
    "net", [{"layers": (Dense(5), Dense(3, 3))}, IMAGE], ids=["dense", "local"]
)
def test_predictions_are_those_of_infer(net, inference):
    """Predictions equal `infer` on the energy given X, with T iterations and tol=0."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:150] / 16, y[:150]
    n_iter = len(net["layers"]) + 3
    for target in (y, (y[:, None] // [1, 2, 4]) % 2):
        model = LayeredGMClassifier(
            **net,
            inference=TruncatedInference(inference, n_iter=n_iter),
            max_iter=2,
            early_stopping=False,
            random_state=0,
        ).fit(X, target)
        energy = model._model.energy(X)
        found = infer(energy, inference, max_iter=n_iter, tol=0.0).marginals
        found = found[:, : energy.n_visible]
        expected = model.predict_proba(X)
        np.testing.assert_allclose(found, expected[:, -energy.n_visible :], rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="X must not contain NaN here"):
        model._model.energy(np.full((1, 64), np.nan))


def test_a_skip_adds_linear_scores():
    """Labels that a single hidden node cannot tell apart, and the input can."""
    rng = np.random.RandomState(0)
    X = rng.random_sample((200, 6))
    Y = (X[:, :5] > 0.5).astype(int)
    options = {"layers": (Dense(1),), "max_iter": 100, "solver": Adam(learning_rate=0.1)}
    options.update(early_stopping=False, random_state=0)
    plain = LayeredGMClassifier(**options).fit(X, Y)
    options["layers"] = (Dense(1), Skip(0, 2))
    model = LayeredGMClassifier(**options).fit(X, Y)
    assert plain.skip_weights_ == {}
    assert model.skip_weights_[0, 2].shape == (6, 5, 1, 1)
    assert (np.diagonal(model.skip_weights_[0, 2][:5, :, 0, 0]) > 1).all()
    assert (model.predict(X) == Y).mean() > 0.9 > (plain.predict(X) == Y).mean() + 0.05
    np.testing.assert_allclose(model.predict_proba(sparse.csr_matrix(X)), model.predict_proba(X))
    for inference in ("sum_product", "mean_field"):
        deep = LayeredGMClassifier(
            layers=(Dense(3), Dense(2), Skip(0, 3), Skip(1, 3)), inference=inference, max_iter=3
        ).fit(sparse.csr_matrix(X), Y)
        assert sorted(deep.skip_weights_) == [(0, 3), (1, 3)]
    model.set_params(layers=(Dense(1),), warm_start=True)
    with pytest.raises(ValueError, match="but the model was fitted with"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match="skips must hold different pairs"):
        LayeredGMClassifier(layers=(Dense(2), Skip(0, 3))).fit(X, Y)
    with pytest.raises(ValueError, match="upper must be"):
        Skip(0, 1)


def test_energy_with_skips():
    """Beliefs of a star with a skip are the exact marginals of its energy."""
    model = make_model("skips", seed=3)
    X = np.random.RandomState(0).random_sample((4, 3))
    energy = model.energy(X)
    reference = NaiveLayered(model.structure, model.params, X[2])
    log_z, marginals, _ = reference.exact()
    found = infer(energy, "exact", returns=("marginals", "log_partition"))
    assert found.log_partition[2] == pytest.approx(log_z)
    outputs = [marginals[4, k][1] for k in range(2)]
    np.testing.assert_allclose(found.marginals[2, :2], outputs)


def test_a_long_fit_warns_with_its_time():
    """The time grows with rows, edges, iterations and epochs."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 2)), rng.integers(0, 2, (20, 101))
    stop = LossPlateau(n_iter_no_change=1, tol=1e9)  # the fit ends after a few epochs
    model = LayeredGMClassifier(max_iter=20_000, early_stopping=stop, random_state=0)
    work = 20 * 5 * 100 * 101 * 4  # rows, iterations, edges, entries of the table of an edge
    minutes = 5e-9 * work * 20_000 / 60
    with pytest.warns(UserWarning, match=f"max_iter=20000 epochs {minutes:.0f} minutes"):
        model.fit(X, Y)
    for options in ({"max_iter": 1000}, {"inference": "mean_field"}, {"verbose": 1}):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="an epoch may take")
            clone(model).set_params(**options).fit(X, Y)


TARGETS = {
    "labels": np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]] * 5),
    "two classes": np.array(["no", "yes", "yes", "no"] * 5),
    "classes": np.array(["a", "b", "c", "a"] * 5),
    "columns": np.array([["red", 1], ["blue", 2], ["green", 1], ["red", 2]] * 5, object),
    "a single class": np.array([["red", 1], ["red", 2], ["red", 1], ["red", 3]] * 5, object),
}


@pytest.mark.parametrize("form", TARGETS)
def test_likelihoods_and_samples_of_labels(form):
    """They agree with the probabilities of the single labels."""
    y = TARGETS[form]
    X = np.random.default_rng(0).uniform(size=(20, 3))
    model = LayeredGMClassifier(layers=(Dense(3),), max_iter=10, random_state=0).fit(X, y)
    log_p = model.predict_log_proba(X)
    if form == "labels":
        proba = model.predict_proba(X)
        expected = np.log(np.where(y == 1, proba, 1 - proba)).sum(axis=1)
    elif y.ndim == 1:
        expected = log_p[np.arange(20), np.searchsorted(model.classes_, y)]
    else:
        places = [np.searchsorted(c, y[:, i].astype(c.dtype)) for i, c in enumerate(model.classes_)]
        expected = sum(part[np.arange(20), k] for part, k in zip(log_p, places))
    np.testing.assert_allclose(model.score_samples(X, y), expected, rtol=1e-6, atol=1e-7)
    drawn = model.sample(X[:2], 4000, random_state=0)
    assert drawn.shape == (2, 4000, *y.shape[1:])
    np.testing.assert_array_equal(drawn[:1], model.sample(X[:1], 4000, random_state=0))
    for i in (0, 1):  # the share of draws that are equal to the labels of the row
        same = drawn[i] == y[i]
        share = (same if y.ndim == 1 else same.all(axis=1)).mean()
        assert share == pytest.approx(np.exp(expected[i]), abs=0.03)
    if y.ndim == 2:
        missing = y.astype(object)
        missing[0, 0], missing[1] = None, None
        likelihood = model.score_samples(X, missing)
        assert likelihood[0] >= expected[0] - 1e-9
        assert likelihood[1] == 0
    else:
        with pytest.raises(ValueError, match="classes that the model does not know"):
            model.score_samples(X, ["new", *y[1:]])
    with pytest.raises(ValueError, match="same number of rows"):
        model.score_samples(X, y[:3])
    with pytest.raises(ValueError, match="n_samples must be"):
        model.sample(X, 0)
