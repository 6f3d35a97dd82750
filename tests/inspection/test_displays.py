"""Training curves, reliability, labels that occur together, and label sets of a row."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import recall_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier, DecodedClassifier
from skcrbm.datasets import make_structured_labels
from skcrbm.inspection import (
    CooccurrenceDisplay,
    LabelConfusionDisplay,
    LabelSetsDisplay,
    ReliabilityDisplay,
    TrainingCurveDisplay,
)
from skcrbm.learning import EarlyStopping

X, Y = make_structured_labels(300, n_labels=4, random_state=0)
NAMES = ["sun", "snow", "beach", "town"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model():
    frame = pd.DataFrame(Y[:200], columns=NAMES)
    crbm = CRBMClassifier(n_hidden=2, alpha=0.05, max_iter=40, random_state=0)
    return make_pipeline(StandardScaler(), crbm).fit(X[:200], frame)


def test_training_curve(model):
    display = TrainingCurveDisplay.from_estimator(model, color="C3")
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), model[-1].loss_curve_)
    assert display.lines_[0].get_color() == "C3"
    assert display.score_ax_ is None
    stopping = EarlyStopping(n_iter_no_change=3, refit=False)
    options = {"alpha": 0.1, "solver": "adam", "max_iter": 6, "random_state": 0}
    held_out = CRBMClassifier(n_hidden=1, early_stopping=stopping, **options).fit(X, Y)
    display = TrainingCurveDisplay.from_estimator(held_out)
    np.testing.assert_array_equal(display.lines_[1].get_ydata(), held_out.validation_scores_)
    assert display.score_ax_.get_ylabel() == "validation score"


def test_reliability_of_labels_and_sets(model):
    test, y = X[200:], Y[200:].astype(float)
    y[0, 1] = np.nan
    display = ReliabilityDisplay.from_estimator(model, test, y, n_bins=5)
    proba = model.predict_proba(test)
    assert display.count[0].sum() == y.size - 1
    weights = display.count[0] / display.count[0].sum()
    assert weights @ display.probability[0] == pytest.approx(proba[~np.isnan(y)].mean())
    assert weights @ display.share[0] == pytest.approx(np.nanmean(y))
    each = ReliabilityDisplay.from_estimator(model, test, y, labels="each", n_bins=4)
    assert each.names == ["0", "1", "2", "3"]
    frame = pd.DataFrame(y, columns=NAMES)
    some = ReliabilityDisplay.from_estimator(model, test, frame, labels=["town", 0], n_bins=4)
    assert some.names == ["town", "sun"]
    np.testing.assert_array_equal(some.lines_[1].get_ydata(), each.share[0])
    sets = ReliabilityDisplay.from_estimator(model, test, y, labels="sets", n_bins=3)
    labels, best = model[-1].predict_topk(model[:-1].transform(test), k=1)
    assert sets.count[0].sum() == 99
    right = (labels[1:, 0] == y[1:]).all(axis=1).mean()
    assert np.average(sets.share[0], weights=sets.count[0]) == pytest.approx(right)
    average = np.average(sets.probability[0], weights=sets.count[0])
    assert average == pytest.approx(best[1:, 0].mean())
    assert "label set" in sets.ax_.get_xlabel()


def test_reliability_of_other_classifiers():
    forest = RandomForestClassifier(n_estimators=10, random_state=0).fit(X[:200], Y[:200])
    display = ReliabilityDisplay.from_estimator(forest, X[200:], Y[200:], strategy="uniform")
    assert ((display.probability[0] >= 0) & (display.probability[0] <= 1)).all()
    with pytest.raises(ValueError, match="no predict_topk, which labels='sets' needs"):
        ReliabilityDisplay.from_estimator(forest, X, Y, labels="sets")


def test_labels_that_occur_together():
    y = pd.DataFrame([[1, 1, 0], [1, np.nan, 0], [1, 0, 0]], columns=NAMES[:3])
    display = CooccurrenceDisplay.from_labels(y, vmax=0.5)
    np.testing.assert_allclose(display.share, [[1, 0.5, 0], [1, 1, 0], [np.nan] * 3])
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == NAMES[:3]
    assert display.image_.get_clim() == (0, 0.5)


def test_labels_that_are_predicted_in_place_of_others(model):
    rng = np.random.default_rng(0)
    true = np.where(rng.random((80, 3)) < 0.1, np.nan, rng.integers(0, 2, (80, 3)))
    predicted = rng.integers(0, 2, (80, 3))
    display = LabelConfusionDisplay.from_predictions(
        pd.DataFrame(true, columns=NAMES[:3]),
        pd.DataFrame(predicted[:, ::-1], columns=NAMES[2::-1]),
    )
    for i in range(3):
        rows = true[:, i] == 1
        assert display.share[i, i] == pytest.approx(predicted[rows, i].mean())
        for k in set(range(3)) - {i}:
            seen = rows & ~np.isnan(true[:, k])
            instead = (predicted[:, i] == 0) & (predicted[:, k] == 1) & (true[:, k] == 0)
            assert display.share[i, k] == pytest.approx(instead[seen].mean())
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == NAMES[:3]
    whole = LabelConfusionDisplay.from_estimator(model, X[200:], Y[200:])
    recall = recall_score(Y[200:], model.predict(X[200:]), average=None)
    np.testing.assert_allclose(np.diagonal(whole.share), recall)
    with pytest.raises(ValueError, match="y_pred must have the shape of y_true"):
        LabelConfusionDisplay.from_predictions(predicted, predicted[:, :2])


def test_most_probable_label_sets(model):
    display = LabelSetsDisplay.from_estimator(model, X[200:], row=3, k=4)
    sets, proba = model[-1].predict_topk(model[:-1].transform(X[200:]), k=4)
    np.testing.assert_array_equal(display.label_sets, sets[3])
    np.testing.assert_allclose([bar.get_width() for bar in display.bars_], proba[3])
    texts = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    expected = ", ".join(name for name, on in zip(NAMES, sets[3, 0]) if on) or "(no label)"
    assert texts[0] == expected
    known = np.full((100, 4), np.nan)
    known[:, 1] = 1
    given = LabelSetsDisplay.from_estimator(model, X[200:], k=2, y_known=known)
    assert all("snow" in text for text in given.set_names())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: LabelSetsDisplay.from_estimator(m, X, row=300), "row must be from 0 to 299"),
        (lambda m: LabelSetsDisplay([[1, 0]], [1], label_names=["a"]).plot(), "must have 2 ent"),
        (
            lambda m: ReliabilityDisplay.from_predictions(Y, Y[:, :2]),
            "y_prob should have the shape",
        ),
        (lambda m: ReliabilityDisplay.from_predictions(Y, Y, labels="all"), "labels must be"),
        (
            lambda m: ReliabilityDisplay.from_predictions(Y, Y, labels=["x"]),
            "'x', which is not a la",
        ),
        (lambda m: ReliabilityDisplay.from_predictions(Y, Y, strategy="even"), "strategy must be"),
        (lambda m: ReliabilityDisplay.from_predictions(Y, Y, n_bins=0), "n_bins"),
        (lambda m: ReliabilityDisplay.from_predictions(Y * np.nan, Y), "no observed entry"),
        (lambda m: CooccurrenceDisplay.from_labels(Y, label_names=["a"]), "must have 4 entries"),
    ],
)
def test_errors(model, call, message):
    with pytest.raises(ValueError, match=message):
        call(model)


def test_models_that_cannot_be_drawn():
    forest = DecodedClassifier(RandomForestClassifier(5, random_state=0)).fit(X, Y)
    with pytest.raises(ValueError, match="no loss_curve_"):
        TrainingCurveDisplay.from_estimator(forest)
    with pytest.raises(ValueError, match="RandomForestClassifier has no predict_topk"):
        LabelSetsDisplay.from_estimator(RandomForestClassifier(5).fit(X, Y), X)
    for display in (TrainingCurveDisplay, LabelSetsDisplay, ReliabilityDisplay):
        arguments = {TrainingCurveDisplay: (), LabelSetsDisplay: (X,)}.get(display, (X, Y))
        with pytest.raises(NotFittedError):
            display.from_estimator(CRBMClassifier(), *arguments)
