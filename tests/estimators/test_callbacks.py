"""scikit-learn's callbacks see each epoch and the fitted model, and can stop the training."""

import subprocess
import sys

import numpy as np
import pytest
from reference.objects import objects
from sklearn.metrics import get_scorer

from skcrbm import (
    MSSVMCRBM,
    CRBMClassifier,
    DecodedClassifier,
    ImageCRBM,
    LayeredGMClassifier,
    LMBMClassifier,
)
from skcrbm.decoding import Threshold

try:
    from sklearn.callback import ScoringMonitor
except ImportError:
    ScoringMonitor = None

needs_callbacks = pytest.mark.skipif(
    ScoringMonitor is None, reason="scikit-learn has callbacks from version 1.9 on"
)


class Recorder:
    """Keeps a line per hook; `at_end(epoch number, fitted_estimator)` may stop or raise."""

    def __init__(self, at_end=lambda number, fitted: False):
        self.at_end = at_end
        self.events = []
        self.contexts = []
        self.data = []
        self.fitted = []
        self.n_epochs = 0

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        self.events.append(f"end {context.task_name}")
        self.contexts.append(context)
        self.data.append((X, y, metadata))
        self.fitted.append(fitted_estimator)
        if context.task_name != "epoch":
            return False
        self.n_epochs += 1
        return self.at_end(self.n_epochs, fitted_estimator)


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = rng.randn(60, 4)
    Y = (X[:, :3] + 0.5 * rng.randn(60, 3) > 0).astype(int)
    return X, Y


def quick(*callbacks, **options):
    small = {"n_hidden": 2, "max_iter": 4, "solver": "adam", "alpha": 0.1, "random_state": 0}
    model = CRBMClassifier(**objects(**{**small, **options}))
    return model.set_callbacks(*callbacks) if callbacks else model


def assert_same_model(a, b, X):
    np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))


@needs_callbacks
def test_hooks(data):
    X, Y = data
    recorder = Recorder()
    weight = np.ones(60)
    quick(recorder).fit(X, Y, sample_weight=weight)
    epochs = ["begin epoch", "end epoch"] * 4
    assert recorder.events == ["setup", "begin fit", *epochs, "end fit", "teardown"]
    root = recorder.contexts[-1]
    assert root.max_subtasks == 4
    assert [c.parent is root for c in recorder.contexts[:-1]] == [True] * 4
    assert [c.task_id for c in recorder.contexts[:-1]] == [0, 1, 2, 3]
    for seen_X, seen_y, metadata in recorder.data:
        assert seen_X is X
        assert seen_y is Y
        assert metadata["sample_weight"] is weight
    # A second fit starts over.
    recorder.events.clear()
    quick(recorder, max_iter=1).fit(X, Y)
    assert len(recorder.events) == 6


@needs_callbacks
@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
@pytest.mark.parametrize("target", ["multilabel", "multiclass", "binary"])
def test_fitted_estimator_is_that_of_the_epoch(data, target, solver):
    X, Y = data
    y = {"multilabel": Y, "multiclass": Y.sum(1), "binary": Y[:, 0]}[target]
    recorder = Recorder()
    model = quick(recorder, solver=solver).fit(X, y)
    for epoch, fitted in enumerate(recorder.fitted[:-1], start=1):
        assert type(fitted) is CRBMClassifier
        other = quick(max_iter=epoch, solver=solver).fit(X, y)
        assert_same_model(fitted, other, X)
        np.testing.assert_array_equal(fitted.predict(X), other.predict(X))
    assert_same_model(recorder.fitted[-1], model, X)


@needs_callbacks
def test_unused_estimators_cost_nothing(data, monkeypatch):
    """Fitted attributes are computed only for hooks that take `fitted_estimator`."""

    class Plain(Recorder):
        def on_fit_task_end(self, estimator, context):
            self.events.append(f"end {context.task_name}")

    calls = []
    original = CRBMClassifier._model_attributes
    monkeypatch.setattr(
        CRBMClassifier,
        "_model_attributes",
        lambda self, *args, **kwargs: calls.append(1) or original(self, *args, **kwargs),
    )
    quick(Plain()).fit(*data)
    assert len(calls) == 1  # for the model itself


@needs_callbacks
@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_stop(data, solver):
    X, Y = data
    recorder = Recorder(lambda number, fitted: number == 3)
    model = quick(recorder, max_iter=50, solver=solver).fit(X, Y)
    assert recorder.n_epochs == model.n_iter_ == 3
    assert recorder.events[-2:] == ["end fit", "teardown"]
    assert_same_model(model, quick(max_iter=3, solver=solver).fit(X, Y), X)


@needs_callbacks
def test_stop_with_early_stopping_keeps_the_best_epoch(data):
    X, Y = data
    options = {"early_stopping": True, "max_iter": 50, "n_iter_no_change": 50}
    recorder = Recorder(lambda number, fitted: number == 3)
    model = quick(recorder, **options).fit(X, Y)
    assert recorder.n_epochs == len(model.validation_scores_) == 3
    assert recorder.contexts[-1].max_subtasks is None  # nobody knows where the best epoch is
    stopped = quick(**{**options, "max_iter": 3}, refit=False).fit(X, Y)
    assert_same_model(model, stopped, X)


@needs_callbacks
@pytest.mark.parametrize("at", ["middle", "last"])
def test_stop_in_the_refit(data, at):
    """If the second run is cut short, the model of the first run is kept."""
    X, Y = data
    options = {"early_stopping": True, "max_iter": 6, "learning_rate": 1e-3}
    whole = quick(**options).fit(X, Y)
    first = quick(refit=False, **options).fit(X, Y)
    assert whole.n_iter_ == first.n_iter_ == 6
    recorder = Recorder(lambda number, fitted: number == (8 if at == "middle" else 12))
    model = quick(recorder, **options).fit(X, Y)
    assert recorder.n_epochs == (8 if at == "middle" else 12)
    assert_same_model(model, first if at == "middle" else whole, X)


@needs_callbacks
@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_interrupt_in_a_callback(data, solver):
    X, Y = data

    def at_end(number, fitted):
        if number == 3:
            raise KeyboardInterrupt
        return False

    recorder = Recorder(at_end)
    with pytest.warns(UserWarning, match="interrupted; keeping what was learned"):
        model = quick(recorder, max_iter=50, solver=solver).fit(X, Y)
    assert model.n_iter_ == 3
    assert recorder.events[-1] == "teardown"
    assert_same_model(model, quick(max_iter=3, solver=solver).fit(X, Y), X)


@needs_callbacks
def test_errors_of_callbacks_propagate(data):
    def at_end(number, fitted):
        raise RuntimeError("of the callback")

    recorder = Recorder(at_end)
    with pytest.raises(RuntimeError, match="of the callback"):
        quick(recorder).fit(*data)
    assert recorder.events[-1] == "teardown"


@needs_callbacks
@pytest.mark.filterwarnings("ignore:F-score is ill-defined")  # rows without a label
@pytest.mark.parametrize("scoring", ["accuracy", "f1_samples", "roc_auc"])
def test_scoring_monitor(data, scoring):
    X, Y = data
    monitor = ScoringMonitor(scoring=scoring)
    model = quick(monitor, max_iter=20).fit(X, Y)
    rows = monitor.get_logs().data
    epochs = [row for row in rows if row["task_name"] == "epoch"]
    assert len(epochs) == 20
    scores = [row[scoring] for row in epochs]
    assert scores[-1] > scores[0]
    assert scores[-1] == pytest.approx(get_scorer(scoring)(model, X, Y))


@needs_callbacks
def test_scoring_monitor_with_rows_of_weight_zero(data):
    """X, y and the weights that a callback sees have as many rows as each other."""
    X, Y = data
    monitor = ScoringMonitor(scoring="accuracy")
    weight = (np.arange(60) > 9).astype(float)
    model = quick(monitor).fit(X, Y, sample_weight=weight)
    scores = [r["accuracy"] for r in monitor.get_logs().data if r["task_name"] == "epoch"]
    assert scores[-1] == pytest.approx(model.score(X, Y, sample_weight=weight))


@needs_callbacks
@pytest.mark.parametrize("decode", ["marginal", "label_set"])
def test_fitted_estimator_where_no_row_is_complete(data, decode):
    X, Y = data
    Y = Y.astype(float)
    Y[np.arange(60), np.arange(60) % 3] = np.nan
    shapes = []
    recorder = Recorder(lambda number, fitted: shapes.append(fitted.predict(X).shape))
    model = quick(recorder, decode=decode).fit(X, Y)
    assert shapes == [(60, 3)] * 4
    np.testing.assert_array_equal(recorder.fitted[-2].label_sets_, model.label_sets_)


@needs_callbacks
@pytest.mark.parametrize("kind", [ImageCRBM, MSSVMCRBM, LayeredGMClassifier])
def test_other_estimators(data, kind):
    X, Y = data
    recorder = Recorder(lambda number, fitted: number == 2)
    model = kind(random_state=0).set_callbacks(recorder).fit(X, Y)
    assert model.n_iter_ == recorder.n_epochs == 2
    np.testing.assert_array_equal(recorder.fitted[1].predict(X), model.predict(X))


class PassRecorder(Recorder):
    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.events.append(f"end {context.task_name}")
        self.contexts.append(context)
        self.fitted.append(fitted_estimator)
        return context.task_name == "pass" and self.at_end(len(self.fitted), fitted_estimator)


@needs_callbacks
@pytest.mark.filterwarnings("error")
def test_passes_of_the_large_margin_machine(data):
    X, Y = data
    fixed = {"C": 1.0, "pairwise_penalty": 1.0, "random_state": 0}
    plain = LMBMClassifier(**fixed).fit(X, Y)
    recorder = PassRecorder()
    model = LMBMClassifier(**fixed).set_callbacks(recorder).fit(X, Y)
    np.testing.assert_array_equal(model.visible_coef_, plain.visible_coef_)
    passes = ["begin pass", "end pass"] * model.n_iter_
    assert recorder.events == ["setup", "begin fit", *passes, "end fit", "teardown"]
    assert recorder.contexts[-1].max_subtasks == 1000
    recorder = PassRecorder(lambda number, fitted: number == 3)
    stopped = LMBMClassifier(**fixed).set_callbacks(recorder).fit(X, Y)
    assert stopped.n_iter_ == 3
    np.testing.assert_array_equal(recorder.fitted[2].predict(X), stopped.predict(X))
    assert recorder.fitted[2].dual_gap_ == stopped.dual_gap_ > 0


class Propagated(PassRecorder):
    max_propagation_depth = 2


@needs_callbacks
@pytest.mark.parametrize("decode", ["expected_f1", Threshold(cv=2)], ids=repr)
def test_callbacks_of_a_decoded_classifier(data, decode):
    X, Y = data
    inner = quick(max_iter=3)
    recorder = Recorder()
    DecodedClassifier(inner, decode=decode).set_callbacks(recorder).fit(X, Y)
    tasks = ["begin fit-estimator", "end fit-estimator"]
    if isinstance(decode, Threshold):
        tasks += ["begin cross-validation", "end cross-validation"]
    assert recorder.events == ["setup", "begin fit", *tasks, "end fit", "teardown"]
    recorder = Propagated()
    model = DecodedClassifier(inner, decode=decode).set_callbacks(recorder).fit(X, Y)
    assert recorder.events.count("end epoch") == 3
    assert recorder.contexts[0].parent.parent is recorder.contexts[-1]
    assert not hasattr(model.estimator_, "_skl_callbacks")


WITHOUT_CALLBACKS = """
import sys
import sklearn.model_selection, sklearn.pipeline  # they need the module that is taken away
sys.modules["sklearn.callback"] = None
import numpy as np
from skcrbm import MSSVMCRBM, CRBMClassifier, DecodedClassifier, LayeredGMClassifier, LMBMClassifier
from skcrbm.utils import fitting
assert fitting.CallbackSupportMixin.__module__ == "skcrbm.utils.fitting"
rng = np.random.RandomState(0)
X, Y = rng.randn(40, 3), rng.randint(0, 2, (40, 2))
model = CRBMClassifier(n_hidden=2, max_iter=3, random_state=0).fit(X, Y)
assert not hasattr(model, "set_callbacks")
model.partial_fit(X, Y)
print(repr(model.decision_function(X).sum()))
"""


@pytest.mark.deep
def test_scikit_learn_without_callbacks():
    """With a scikit-learn that lacks callbacks, a fit has the same result."""
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_CALLBACKS], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    rng = np.random.RandomState(0)
    X, Y = rng.randn(40, 3), rng.randint(0, 2, (40, 2))
    model = CRBMClassifier(n_hidden=2, max_iter=3, random_state=0).fit(X, Y).partial_fit(X, Y)
    assert run.stdout.strip() == repr(model.decision_function(X).sum())
