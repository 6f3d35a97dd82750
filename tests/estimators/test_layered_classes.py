"""LayeredGMClassifier with a y whose columns hold classes, held against enumeration."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold

from skcrbm import CRBMClassifier, LayeredGMClassifier
from skcrbm.energies import LayeredStructure
from skcrbm.energies.layered_model import InputCode, LayeredModel
from skcrbm.energies.layered_structure import LayeredParams
from skcrbm.inference import TruncatedInference, infer
from skcrbm.layers import Dense, Skip
from skcrbm.learning import Adam, AnalyticGradient, Backpropagation
from skcrbm.learning.data import Batch, Clock
from skcrbm.model_selection import cross_val_predict

CLASSES = [["car", "van"], ["blue", "red", "white"], [2, 3, 5, 7], [1]]
SIZES = np.array([2, 3, 4, 1])
HUB = (Dense(1, 3),)  # a single hidden node: outputs and hidden node are a tree


def make_data(n=150, seed=0, missing=0.0):
    """Outputs of 2, 3, 4 and 1 classes that depend on x and on each other."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    first = (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)
    second = np.argmax(X + 2 * np.eye(3)[2 * first] + 0.5 * rng.gumbel(size=(n, 3)), axis=1)
    third = second + (rng.random(n) < 0.2)
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


def make_model(layers=HUB, skips=(), seed=0):
    """A model with random scores, also in the places of the states that outputs lack."""
    structure = LayeredStructure(layers, (3,), 2, 4, 4, skips, SIZES)
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=c.n_weights) for c in structure.connections]
    unaries = [rng.normal(size=(n, s - 1)) for n, s in zip(structure.n_nodes, structure.n_states)]
    params = structure.params(unaries, weights)
    return LayeredModel(params, structure, InputCode(None, np.zeros(3, bool), np.ones(3, bool)))


def enumerated(model, x):
    """Probabilities of the classes of each output, by a loop over all states of all nodes."""
    s = model.structure
    unaries, weights = s.unaries(model.params), s.weights(model.params)
    hidden = [range(k) for n, k in zip(s.n_nodes[1:-1], s.n_states[1:-1]) for _ in range(n)]
    total = [np.zeros(k) for k in SIZES]
    for state in itertools.product(*hidden, *(range(k) for k in SIZES)):
        layers, first = [None], 0
        for n in s.n_nodes[1:]:
            layers.append(state[first : first + n])
            first += n
        score = 0.0
        for layer in range(1, s.depth + 1):
            score += sum(unaries[layer][i, k - 1] for i, k in enumerate(layers[layer]) if k)
        for c, flat in zip(s.connections, weights):
            matrix = flat.reshape(c.n_left, c.n_left_states - 1, c.n_right, c.n_right_states - 1)
            for j, k in enumerate(layers[c.target]):
                for i in range(c.n_left):
                    if k and c.source == 0:
                        score += x[i] * matrix[i, 0, j, k - 1]
                    elif k and layers[c.source][i]:
                        score += matrix[i, layers[c.source][i] - 1, j, k - 1]
        for i, k in enumerate(layers[-1]):
            total[i][k] += np.exp(score)
    return [t / t.sum() for t in total]


def as_estimator(model, inference):
    """A fitted estimator with the parameters of `model`."""
    X, y = make_data()
    estimator = LayeredGMClassifier(layers=(Dense(1, 3),), inference=inference, max_iter=1)
    estimator.fit(X, y)
    estimator._model = model
    return estimator


@pytest.mark.parametrize("method", ["sum_product", "tree_reweighted"])
def test_probabilities_equal_enumeration_on_a_tree(method):
    model = make_model()
    estimator = as_estimator(model, TruncatedInference(method, "parallel", 6))
    X = make_data(6, seed=1)[0]
    if method == "tree_reweighted":  # the edge of each left node is in a random tree only
        estimator = as_estimator(make_model(layers=()), "tree_reweighted")
        model = estimator._model
    found = estimator.predict_proba(X)
    logs = estimator.predict_log_proba(X)
    best = []
    expected = [enumerated(model, x) for x in X]
    for i, classes in enumerate(CLASSES):
        p = np.array([row[i] for row in expected])
        np.testing.assert_allclose(found[i], p, atol=1e-12)
        np.testing.assert_allclose(np.exp(logs[i]), p, atol=1e-12)
        best.append(np.array(classes, object)[p.argmax(axis=1)])
    np.testing.assert_array_equal(estimator.predict(X), np.column_stack(best))
    exact = infer(model.energy(X), "exact").marginals[:, :12].reshape(6, 4, 3)
    for i, k in enumerate(SIZES):
        np.testing.assert_allclose(exact[:, i, : k - 1], found[i][:, 1:], atol=1e-12)
        assert (exact[:, i, k - 1 :] == 0).all()


@pytest.mark.parametrize("rule", [Backpropagation, AnalyticGradient])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_loss_is_the_cross_entropy_of_the_observed_classes(rule, smoothing):
    model = make_model()
    X, codes = make_data(5)[0], np.array([[1, 2, 3, 0]] * 5, float)
    codes[1, 2], codes[2, :2] = np.nan, np.nan
    batch = Batch(X, codes, np.arange(1.0, 6), np.arange(5))
    objective = rule(smoothing).layered(TruncatedInference("sum_product", "parallel", 6))
    step, _ = objective.step(model, batch, Clock(0, 0), None)
    expected = 0.0
    for x, row, weight in zip(X, codes, batch.weight):
        for p, code in zip(enumerated(model, x), row):
            if not np.isnan(code):
                target = (1 - smoothing) * np.eye(len(p))[int(code)] + smoothing / len(p)
                expected -= weight * target @ np.log(p)
    assert step.loss == pytest.approx(expected, rel=1e-12)
    assert objective.loss(model, batch) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("layers", [(), (Dense(2, 3),), (Dense(2), Dense(3, 3))])
@pytest.mark.parametrize("method", ["mean_field", "sum_product", "tree_reweighted"])
@pytest.mark.parametrize("schedule", ["sequential", "parallel"])
def test_gradient_equals_finite_differences(layers, method, schedule):
    skips = ((0, 2),) if len(layers) else ()
    model = make_model(layers, skips)
    X, codes = make_data(4)[0], np.array([[0, 1, 3, 0], [1, 0, 2, 0]] * 2, float)
    codes[1, 1] = np.nan
    batch = Batch(X, codes, np.array([1.0, 2, 0.5, 1]), np.arange(4))
    objective = Backpropagation(0.1).layered(TruncatedInference(method, schedule, n_iter=4))
    gradient = objective.step(model, batch, Clock(0, 0), None)[0].gradient
    rng = np.random.default_rng(2)
    for k in range(3):
        direction = rng.normal(size=model.params[k].shape)
        # Scores of states that an output lacks have no effect, so their gradient must be 0.
        pad = gradient._replace(**{gradient._fields[k]: direction})
        s = model.structure
        masked = s.params(s.unaries(pad), s.weights(pad))
        np.testing.assert_array_equal(gradient[k][masked[k] == 0], 0.0)

        def loss(h, k=k, direction=direction):
            arrays = [p + h * direction if m == k else p for m, p in enumerate(model.params)]
            return objective.loss(model._replace(params=LayeredParams(*arrays)), batch)

        slope = (loss(1e-6) - loss(-1e-6)) / 2e-6
        np.testing.assert_allclose(gradient[k] @ direction, slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("inference", ["sum_product", "mean_field"])
def test_analytic_gradient_is_the_gradient_on_a_tree(inference):
    """On a tree, the difference of moments is the gradient of the loss of a single output."""
    model = make_model(() if inference == "mean_field" else (Dense(1, 3),))
    X, codes = make_data(4)[0], np.full((4, 4), np.nan)
    codes[:, 2] = [0, 1, 3, 2]
    batch = Batch(X, codes, np.array([1.0, 2, 0.5, 1]), np.arange(4))
    truncated = TruncatedInference(inference, "parallel", 6)
    exact = Backpropagation().layered(truncated).step(model, batch, Clock(0, 0), None)[0]
    moments = AnalyticGradient().layered(truncated).step(model, batch, Clock(0, 0), None)[0]
    for one, other in zip(exact.gradient, moments.gradient):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_states_that_an_output_lacks_keep_scores_of_zero():
    X, y = make_data(missing=0.2)
    model = LayeredGMClassifier(
        layers=(Dense(3), Skip(0, 2)), alpha=0.01, max_iter=5, random_state=0
    ).fit(X, y)
    assert [c.tolist() for c in model.classes_] == CLASSES
    lacks = ~model._model.structure.possible[:, 1:]
    assert (model.layers_[-1].unary[lacks] == 0).all()
    assert (model.layers_[-1].pairwise[:, :, 0][:, lacks] == 0).all()
    assert (model.skip_weights_[0, 2][:, :, 0][:, lacks] == 0).all()
    assert (model.layers_[-1].unary[~lacks] != 0).all()
    states = model.map_states(X)[-1]
    assert (states < SIZES).all()
    proba = model.predict_proba(X)
    assert [p.shape for p in proba] == [(150, k) for k in SIZES]
    for p in proba:
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
    assert (proba[3] == 1).all()


def test_hidden_nodes_learn_classes_that_no_linear_score_tells():
    a, b = (part.ravel() for part in np.mgrid[:3, :3])
    X = np.tile(np.hstack([np.eye(3)[a], np.eye(3)[b]]), (20, 1))
    y = np.tile(np.column_stack([(a + b) % 3, (a - b) % 3]) + 3, (20, 1))
    settings = {"max_iter": 300, "solver": Adam(learning_rate=0.05), "random_state": 0}
    model = LayeredGMClassifier(layers=(Dense(8),), **settings).fit(X, y)
    assert model.score(X, y) > 0.95
    linear = LayeredGMClassifier(layers=(), **settings).fit(X, y)
    assert linear.score(X, y) < 0.5


def test_without_hidden_layers_outputs_are_logistic_regressions():
    X, y = make_data()
    settings = {
        "layers": (),
        "max_iter": 300,
        "solver": Adam(learning_rate=0.05),
        "early_stopping": False,
        "alpha": 0.01,
    }
    model = LayeredGMClassifier(**settings, random_state=0).fit(X, y)
    for i in (1, 2):
        alone = LayeredGMClassifier(**settings, random_state=0).fit(X, y[:, i].tolist())
        np.testing.assert_allclose(model.predict_proba(X)[i], alone.predict_proba(X), atol=0.03)
    crbm = CRBMClassifier(n_hidden=0, alpha=0.01).fit(X, y)
    assert abs(model.score(X, y) - crbm.score(X, y)) < 0.05


def test_frames_weights_tools_and_pickles():
    X, y = make_data(120, missing=0.1)
    names = ["kind", "colour", "doors", "one"]
    frame = pd.DataFrame(y, columns=names)
    model = LayeredGMClassifier(layers=(Dense(3),), max_iter=4, random_state=0).fit(X, frame)
    assert model.label_names_.tolist() == names
    assert model.score(X, frame[names[::-1]]) == model.score(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    model.set_label_output("pandas")
    assert list(model.predict(X).columns) == names
    assert list(model.predict_proba(X)[1].columns) == CLASSES[1]
    weight = np.ones(y.shape)
    weight[:30, 1] = 0
    hidden = y.copy()
    hidden[:30, 1] = None
    plain = LayeredGMClassifier(layers=(), max_iter=4, random_state=0)
    one, other = clone(plain).fit(X, y, weight), clone(plain).fit(X, hidden)
    np.testing.assert_allclose(one.predict_proba(X)[1], other.predict_proba(X)[1], atol=1e-10)
    codes = np.column_stack([np.unique(c, return_inverse=True)[1] for c in make_data()[1].T[:3]])
    X = make_data()[0]
    search = GridSearchCV(plain, {"layers": [(), (Dense(2),)]}, cv=KFold(2)).fit(X, codes)
    assert search.best_score_ > 0.2
    proba = cross_val_predict(plain, X, codes, cv=KFold(3), method="predict_proba")
    assert [part.shape for part in proba] == [(150, 2), (150, 3), (150, 4)]
    assert plain.__sklearn_tags__().target_tags.multi_output


def test_partial_fit_and_errors():
    X, y = make_data(200)
    model = LayeredGMClassifier(layers=(Dense(3),), random_state=0)
    few = (y[:40] != "white").all(axis=1)
    model.partial_fit(X[:40][few], y[:40][few], classes=CLASSES)
    before = model.score(X, y)
    for _ in range(20):
        model.partial_fit(X, y)
    assert model.score(X, y) > before
    with pytest.raises(ValueError, match="classes of output 1 differ"):
        model.partial_fit(X, y, classes=[*CLASSES[:1], ["blue", "red"], *CLASSES[2:]])
    with pytest.raises(ValueError, match="column 1 of y"):
        model.partial_fit(X, np.where(y == "red", "green", y))
    with pytest.raises(ValueError, match="decision_function is not available"):
        model.decision_function(X)
    with pytest.raises(ValueError, match="class_weight is not supported"):
        LayeredGMClassifier(class_weight="balanced").fit(X, y)
    with pytest.raises(ValueError, match="strings"):
        LayeredGMClassifier().fit(X, np.array([["1", "0"]] * 200))
    with pytest.raises(ValueError, match="holds no observed class"):
        LayeredGMClassifier().fit(X, np.column_stack([y, np.full(200, None)]))


def test_single_precision_and_sparse_inputs():
    X, y = make_data(100)
    X = np.maximum(X, 0)
    model = LayeredGMClassifier(layers=(), max_iter=5, random_state=0)
    dense, other = clone(model).fit(X, y), clone(model).fit(csr_array(X), y)
    single = clone(model).fit(X.astype(np.float32), y)
    for a, b, c in zip(*(m.predict_proba(X) for m in (dense, other, single))):
        np.testing.assert_allclose(a, b, atol=1e-10)
        np.testing.assert_allclose(a, c, atol=1e-4)
