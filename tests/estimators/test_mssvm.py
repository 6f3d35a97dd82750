"""Max-margin learning: MSSVM and LSSVM."""

import pickle

import numpy as np
import pytest
from reference.states import all_states
from reference.steps import first_step
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcrbm import MSSVMCRBM, CRBMClassifier
from skcrbm.energies import OneHotRBMEnergy
from skcrbm.energies.rbm import ConditionalRBM, CRBMParams
from skcrbm.inference import (
    ICM,
    BPChain,
    MaxProduct,
    MixedProduct,
    SimulatedAnnealing,
    SumProduct,
)
from skcrbm.inference.base import resolve_method
from skcrbm.learning import SGD, Adam
from skcrbm.learning.data import Batch
from skcrbm.learning.margins import MARGIN_OBJECTIVES, state_query
from skcrbm.learning.optimizers import PolynomialAverage

HIDDEN = ("marginal", "max")
SHAPES = ((4, 3), (4, 2), (3, 2), (4,), (3,))  # V = 4, H = 3, D = 2


def problem(seed=0, n=6, scale=1.0, energy_type=None):
    rng = np.random.default_rng(seed)
    params = CRBMParams(*(scale * rng.normal(size=shape) for shape in SHAPES))
    if energy_type is OneHotRBMEnergy:
        visible = np.eye(4)[rng.integers(4, size=n)]
    else:
        visible = (rng.random((n, 4)) < 0.5).astype(float)
    batch = Batch(rng.normal(size=(n, 2)), visible, rng.random(n) + 0.5, np.arange(n))
    model = ConditionalRBM(params) if energy_type is None else ConditionalRBM(params, energy_type)
    return model, batch


def objective(hidden, inference="exact"):
    return MARGIN_OBJECTIVES.get(hidden)(resolve_method(inference))


def flat(params):
    return np.concatenate([np.ravel(p) for p in params])


def unflat(vector):
    cuts = np.cumsum([np.prod(shape) for shape in SHAPES])[:-1]
    return CRBMParams(*(p.reshape(s) for p, s in zip(np.split(vector, cuts), SHAPES, strict=True)))


def scores(params, x, hidden):
    """s(v) of all 16 outputs by enumeration of the 8 hidden states."""
    v, h = all_states(4, float), all_states(3, float)
    b = params.visible_intercept + params.visible_coef @ x
    c = params.hidden_intercept + params.hidden_coef @ x
    joint = v @ params.weights @ h.T + (v @ b)[:, None] + h @ c
    return np.log(np.exp(joint).sum(1)) if hidden == "marginal" else joint.max(1)


def loss_by_enumeration(params, batch, hidden):
    total = 0.0
    for x, y, weight in zip(batch.X, batch.visible, batch.weight, strict=True):
        s, observed = scores(params, x, hidden), ~np.isnan(y)
        distance = (all_states(4, float) != y)[:, observed].sum(1)
        total += weight * ((s + distance).max() - s[distance == 0].max())
    return total


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("missing", [False, True])
def test_loss_and_gradient(hidden, missing):
    model, batch = problem()
    if missing:
        batch.visible[[0, 1, 4], [1, 3, 0]] = np.nan
    step = first_step(objective(hidden), model, batch, 0)
    np.testing.assert_allclose(step.loss, loss_by_enumeration(model.params, batch, hidden))
    assert step.n_converged == len(batch)
    # The loss is smooth where no two competitors tie: finite differences see its gradient.
    at, eps = flat(model.params), 1e-6
    for k, gradient in enumerate(flat(step.gradient)):
        shift = eps * (np.arange(len(at)) == k)
        up, down = (loss_by_enumeration(unflat(at + d), batch, hidden) for d in (shift, -shift))
        np.testing.assert_allclose(gradient, (up - down) / (2 * eps), rtol=1e-5, atol=1e-7)


def test_by_hand():
    """One output, one hidden unit, no input: every number fits on a line."""
    params = CRBMParams(*(np.array(p, float) for p in ([[2.0]], [[0.0]], [[0.0]], [-1.0], [0.5])))
    batch = Batch(np.zeros((1, 1)), np.zeros((1, 1)), np.ones(1), np.arange(1))
    soft = {v: -v + np.log1p(np.exp(2 * v + 0.5)) for v in (0, 1)}
    hard = {v: -v + max(0, 2 * v + 0.5) for v in (0, 1)}
    for hidden, s in (("marginal", soft), ("max", hard)):
        step = first_step(objective(hidden), ConditionalRBM(params), batch, 0)
        np.testing.assert_allclose(step.loss, 1 + s[1] - s[0])
        mean = {v: expit(2 * v + 0.5) if hidden == "marginal" else 1.0 for v in (0, 1)}
        np.testing.assert_allclose(step.gradient.weights, [[mean[1]]])
        np.testing.assert_allclose(step.gradient.visible_intercept, [1.0])
        np.testing.assert_allclose(step.gradient.hidden_intercept, [mean[1] - mean[0]])
    # With the label on, the margin is violated by 1 - (s(1) - s(0)) or not at all.
    on = Batch(batch.X, np.ones((1, 1)), batch.weight, batch.index)
    step = first_step(objective("max"), ConditionalRBM(params), on, 0)
    np.testing.assert_allclose(step.loss, max(0, 1 - (hard[1] - hard[0])))


@pytest.mark.parametrize("hidden", HIDDEN)
def test_no_loss_no_step(hidden):
    model, batch = problem(scale=0.1)
    x = np.hstack([batch.visible * 2 - 1])
    params = model.params._replace(
        visible_coef=10 * np.eye(4), hidden_coef=np.zeros((3, 4)), weights=model.params.weights
    )
    step = first_step(
        objective(hidden),
        ConditionalRBM(params),
        Batch(x, batch.visible, batch.weight, batch.index),
        0,
    )
    assert step.loss == 0
    assert not flat(step.gradient).any()


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("inference", [MixedProduct(), MaxProduct(damping=0.5), ICM()])
def test_approximate_decoding_bounds_the_loss_from_below(hidden, inference):
    for seed in range(10):
        model, batch = problem(seed, scale=1.5)
        approximate = first_step(objective(hidden, inference), model, batch, 0).loss
        exact = first_step(objective(hidden), model, batch, 0).loss
        assert 0 <= approximate <= exact + 1e-12
    assert exact > 0


@pytest.mark.parametrize("hidden", HIDDEN)
def test_classes_are_enumerated(hidden):
    model, batch = problem(energy_type=OneHotRBMEnergy)
    step = first_step(objective(hidden, "icm"), model, batch, 0)
    expected = 0.0
    one_hot = [8, 4, 2, 1]  # rows of `states` with one unit on, in order
    for x, y, weight in zip(batch.X, batch.visible, batch.weight, strict=True):
        s = scores(model.params, x, hidden)[one_hot]
        expected += weight * ((s + 1 - y).max() - s[y.argmax()])
    np.testing.assert_allclose(step.loss, expected)


def test_polynomial_average():
    class Params(tuple):
        def __new__(cls, *arrays):
            return super().__new__(cls, arrays)

    iterates = np.random.RandomState(0).randn(50, 3)
    for power in (0.0, 3.0):
        average = PolynomialAverage(power)
        for row in iterates:
            average.add(Params(row))
        # Iterate t of n has a weight proportional to (t + power - 1)! / (t - 1)!.
        t = np.arange(1, 51)
        weight = np.ones(50) if power == 0 else t * (t + 1) * (t + 2)
        expected = weight @ iterates / weight.sum()
        np.testing.assert_allclose(average.mean[0], expected)
        before = average.snapshot()[0].copy()
        kept = average.snapshot()
        average.add(Params(np.full(3, 100.0)))
        np.testing.assert_array_equal(kept[0], before)


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(120, n_features=6, n_classes=4, random_state=0)
    return StandardScaler().fit_transform(X), Y


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("inference", ["mixed_product", "max_product", "icm", "exact"])
@pytest.mark.parametrize("average", [True, False])
def test_training(data, hidden, inference, average):
    X, Y = data
    options = {"n_hidden": 3, "max_iter": 60, "alpha": 0.01, "random_state": 0}
    model = MSSVMCRBM(
        hidden=hidden, inference=inference, solver=Adam(average=average), **options
    ).fit(X, Y)
    assert model.loss_curve_[-1] < 0.7 * model.loss_curve_[0]
    assert model.inference_ == inference
    assert (model.predict(X) != Y).mean() < 0.25  # always the more frequent label: 0.45
    proba = model.predict_proba(X)
    assert ((proba > 0) & (proba < 1)).all()
    # The prediction is a local optimum, up to ties, on nearly all rows.
    assert ((model.decision_function(X) >= 0) == model.predict(X)).mean() > 0.9


def test_decoding(data):
    X, Y = data
    model = MSSVMCRBM(n_hidden=3, max_iter=20, inference="exact", random_state=0).fit(X, Y)
    params = model._fitted_model().params
    best = [all_states(4, float)[scores(params, x, "marginal").argmax()] for x in X]
    np.testing.assert_array_equal(model.predict(X), best)
    np.testing.assert_array_equal(clone(model).set_params(decode="auto").fit(X, Y).predict(X), best)
    best = [all_states(4, float)[scores(params, x, "max").argmax()] for x in X]
    np.testing.assert_array_equal(model.set_params(decode="map").predict(X), best)
    marginal = (model.predict_proba(X) >= 0.5).astype(int)
    np.testing.assert_array_equal(model.set_params(decode="marginal").predict(X), marginal)
    chosen = model.set_params(decode="label_set").predict(X)
    assert {tuple(row) for row in chosen} <= {tuple(row) for row in Y}
    # Sums over all states: the marginals of the learned energy.
    weight = np.exp([scores(params, x, "marginal") for x in X])
    expected = weight @ all_states(4, float) / weight.sum(1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-9)


def test_decision_function_is_what_an_output_adds(data):
    X, Y = data
    for hidden in HIDDEN:
        model = MSSVMCRBM(
            n_hidden=3, hidden=hidden, max_iter=20, inference="exact", random_state=0
        ).fit(X, Y)
        decision, decoded = model.decision_function(X), model.predict(X)
        for x, field, v in zip(X[:20], decision, decoded, strict=False):
            s = dict(
                zip(
                    map(tuple, all_states(4, float)),
                    scores(model._fitted_model().params, x, hidden),
                    strict=True,
                )
            )
            for i in range(4):
                on, off = v.copy(), v.copy()
                on[i], off[i] = 1, 0
                np.testing.assert_allclose(field[i], s[tuple(on)] - s[tuple(off)], rtol=1e-8)
        assert ((decision >= 0) == decoded).all()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_one_dimensional_y(data, hidden):
    X, Y = data
    model = MSSVMCRBM(hidden=hidden, max_iter=150, alpha=0.01, random_state=0)
    binary = clone(model).fit(X, np.where(Y[:, 0], "yes", "no"))
    assert binary.inference_ == "exact"
    positive = binary.decision_function(X) >= 0
    np.testing.assert_array_equal(binary.predict(X), np.where(positive, "yes", "no"))
    np.testing.assert_allclose(binary.predict_proba(X)[:, 1], expit(binary.decision_function(X)))
    classes = clone(model).fit(X, Y.sum(1))
    decision = classes.decision_function(X)
    assert decision.shape == (120, 5)
    np.testing.assert_array_equal(classes.predict(X), classes.classes_[decision.argmax(1)])
    np.testing.assert_array_equal(classes.predict_proba(X).argmax(1), decision.argmax(1))
    assert classes.score(X, Y.sum(1)) >= 0.45  # the most frequent class: 0.32


def test_missing_and_known_labels(data):
    X, Y = data
    hidden_away = np.random.RandomState(0).rand(*Y.shape) < 0.3
    partly = np.where(hidden_away, np.nan, Y)
    model = MSSVMCRBM(n_hidden=3, max_iter=60, alpha=0.01, random_state=0).fit(X, partly)
    assert (model.predict(X) != Y)[hidden_away].mean() < 0.3  # by chance: 0.45
    predicted = model.predict(X, y_known=partly)
    np.testing.assert_array_equal(predicted[~hidden_away], Y[~hidden_away])
    decision = model.decision_function(X, y_known=partly)
    np.testing.assert_array_equal(decision[~hidden_away] > 0, Y[~hidden_away] == 1)
    assert np.isinf(decision[~hidden_away]).all()
    assert np.isfinite(decision[hidden_away]).all()


def test_going_on(data):
    """partial_fit goes on from the last iterate, not from the average that it reports."""
    X, Y = data
    for average in (True, False):
        solver = Adam(learning_rate=0.01, batch_size=16, average=average)
        options = {"solver": solver, "random_state": 0, "n_hidden": 3}
        options["alpha"] = 0.1  # with "auto" a whole fit scales the columns
        whole = MSSVMCRBM(max_iter=4, **options).fit(X, Y)
        parts = MSSVMCRBM(**options)
        for _ in range(4):
            parts.partial_fit(X, Y)
        np.testing.assert_array_equal(parts.weights_, whole.weights_)
        again = pickle.loads(pickle.dumps(parts)).partial_fit(X, Y)
        np.testing.assert_array_equal(again.weights_, parts.partial_fit(X, Y).weights_)


def test_pipeline_and_nested_parameters(data):
    X, Y = data
    model = make_pipeline(
        StandardScaler(), MSSVMCRBM(inference=MaxProduct(damping=0.5), hidden="max", max_iter=5)
    )
    model.set_params(mssvmcrbm__inference__damping=0.3).fit(X, Y)
    assert model[-1]._prediction_method.damping == 0.3
    # By name, message passing is damped.
    assert MSSVMCRBM(max_iter=1).fit(X, Y)._prediction_method.damping == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inference": SumProduct()}, "cannot find a best state, which max-margin learning needs"),
        (
            {"inference": ["icm", "guess"]},
            "inference must be one of 'exact', .*got 'guess'",
        ),
        ({"hidden": "mean"}, "'hidden' parameter of MSSVMCRBM must be a str among"),
    ],
)
def test_errors(data, options, message):
    X, Y = data
    with pytest.raises(ValueError, match=message):
        MSSVMCRBM(max_iter=1, **options).fit(X, Y).predict_proba(X)


def test_warns_when_decoding_does_not_converge(data):
    X, Y = data
    with pytest.warns(ConvergenceWarning, match="loss-augmented inference may have missed"):
        MSSVMCRBM(inference=MaxProduct(max_iter=1), max_iter=2, random_state=0).fit(X, Y)


def test_state_query():
    assert state_query(resolve_method("exact"), "map") == "map"
    assert state_query(resolve_method("icm"), "marginal_map") == "map"


def test_restarts_are_governed_by_random_state(data):
    X, Y = data
    for inference in (MixedProduct(n_restarts=3), ICM(n_restarts=3)):
        fits = [
            MSSVMCRBM(inference=inference, max_iter=3, random_state=0).fit(X, Y) for _ in range(2)
        ]
        np.testing.assert_array_equal(fits[0].weights_, fits[1].weights_)
        np.testing.assert_array_equal(fits[0].predict(X), fits[0].predict(X))
        assert inference.random_state is None


def test_a_fitted_model_keeps_its_inference(data):
    X, Y = data
    model = MSSVMCRBM(inference=MixedProduct(max_iter=20), max_iter=3, random_state=0).fit(X, Y)
    model.set_params(inference__max_iter=1, hidden="max")
    assert model._prediction_method.max_iter == model.n_inference_iter_ == 20
    assert model._decoding_rule() == "marginal_map"


def test_label_sets_go_by_the_trained_score(data):
    X, Y = data
    model = MSSVMCRBM(
        n_hidden=3, hidden="max", inference="exact", decode="label_set", max_iter=30, random_state=0
    ).fit(X, Y)
    index = (model.label_sets_ @ [8, 4, 2, 1]).astype(int)
    best = [scores(model._fitted_model().params, x, "max")[index].argmax() for x in X]
    np.testing.assert_array_equal(model.predict(X), model.label_sets_[best])


def test_many_outputs_decoded_by_another_query(data):
    X, _ = data
    rng = np.random.RandomState(0)
    Y = (X @ rng.randn(6, 25) > 0).astype(int)
    model = MSSVMCRBM(n_hidden=3, hidden="max", inference="exact", max_iter=5, random_state=0)
    model.fit(X, Y).set_params(decode="marginal_map")
    assert model.predict(X).shape == Y.shape


def test_inference_out_of_reach_fails_before_the_training(data):
    X, _ = data
    Y = np.random.RandomState(0).randint(2, size=(120, 30))
    for model in (
        MSSVMCRBM(n_hidden=25, inference=["mixed_product", "exact"]),
        CRBMClassifier(n_hidden=25, learning="cd", inference="exact"),
    ):
        with pytest.raises(ValueError, match="'exact' enumerates"):
            model.fit(X, Y)
        assert not hasattr(model, "visible_coef_")


@pytest.mark.parametrize("inference", [["milp"], ["icm", "ais"], [SumProduct(), BPChain()]])
def test_a_list_may_hold_methods_for_best_states_and_marginals_only(data, inference):
    with pytest.raises(ValueError, match=r"inference may contain 'exact', .*'gibbs'.*; got"):
        MSSVMCRBM(inference=inference).fit(*data)


def test_errors_about_a_list_name_the_methods_that_apply(data):
    with pytest.raises(ValueError, match=r"'gibbs_with_gradients'; got 'exakt'.*Did you mean"):
        MSSVMCRBM(inference=["exakt"]).fit(*data)
    with pytest.raises(TypeError, match="'gibbs_with_gradients' or a configured object"):
        MSSVMCRBM(inference=["exact", 3]).fit(*data)
    with pytest.raises(ValueError, match=r"a list of such methods .* as \[ICM\("):
        MSSVMCRBM(inference="sum_product").fit(*data)


def test_an_aborted_refit_leaves_no_optimiser(interrupted_refit):
    model, X, Y = interrupted_refit
    before = (model.predict(X) != Y).mean()
    model.set_params(early_stopping=False).partial_fit(X, Y)
    assert (model.predict(X) != Y).mean() < before + 0.05


@pytest.fixture
def interrupted_refit(data, monkeypatch):
    X, Y = data
    steps, refitting = [0], []
    original = MARGIN_OBJECTIVES.get("marginal").step

    def step(self, *arguments):
        steps[0] += bool(refitting)
        if steps[0] == 3:
            raise KeyboardInterrupt
        return original(self, *arguments)

    def remember(verbose, line):
        refitting.extend([line] if line.startswith("Best epoch") else [])

    monkeypatch.setattr(MARGIN_OBJECTIVES.get("marginal"), "step", step)
    monkeypatch.setattr("skcrbm.learning.fit.say", remember)
    model = MSSVMCRBM(early_stopping=True, solver=Adam(batch_size=16), max_iter=40, random_state=0)
    with pytest.warns(UserWarning, match="interrupted"):
        model.fit(X, Y)
    monkeypatch.undo()
    return model, X, Y


def test_partial_fit_that_fails_leaves_no_trace(data):
    X, Y = data
    model = MSSVMCRBM(solver=SGD(learning_rate=0.01), random_state=0).partial_fit(X, Y)
    expected = pickle.loads(pickle.dumps(model)).partial_fit(X, Y).weights_
    broken = pickle.loads(pickle.dumps(model))
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError):
        broken.partial_fit(X * 1e200, Y)
    np.testing.assert_array_equal(broken.visible_coef_, model.visible_coef_)
    assert abs(broken.partial_fit(X, Y).weights_ - expected).max() < 0.1
    # New settings take effect, and so do parameters set by hand.
    still = pickle.loads(pickle.dumps(model)).set_params(solver=SGD(learning_rate=1e-12))
    np.testing.assert_allclose(
        still.partial_fit(X, Y).visible_coef_, model.visible_coef_, atol=1e-9
    )
    edited = pickle.loads(pickle.dumps(model))
    edited.visible_coef_ = edited.visible_coef_ + 5
    assert (edited.partial_fit(X, Y).visible_coef_ > 4).all()


def test_annealing_by_name_has_the_budget_of_training():
    X, Y = make_multilabel_classification(n_samples=30, random_state=0)
    model = MSSVMCRBM(inference="simulated_annealing", max_iter=2, random_state=0).fit(X, Y)
    assert model._prediction_method.n_sweeps == 10
    own = clone(model).set_params(inference=SimulatedAnnealing(n_sweeps=3)).fit(X, Y)
    assert own._prediction_method.n_sweeps == 3
    assert model.score(X, Y) > 0
