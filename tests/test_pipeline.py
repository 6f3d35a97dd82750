"""Pipelines do not hide the model at their end: our own, and scikit-learn's in our tools."""

import pickle

import matplotlib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn import pipeline
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier, DecodedClassifier, LMBMClassifier
from skcrbm.decoding import ExpectedMetric
from skcrbm.ensemble import make_stacked
from skcrbm.inspection import ConvergenceDisplay, LabelDependencyDisplay
from skcrbm.pipeline import Pipeline, make_pipeline

matplotlib.use("Agg")

NAMES = ["Beach", "Sunset", "Fall", "Field"]


def crbm():
    return CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=10, random_state=0)


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(60, 5, n_classes=4, random_state=0)
    index = [f"row {i}" for i in range(len(X))]
    return pd.DataFrame(X, index), pd.DataFrame(Y, index, columns=NAMES)


@pytest.fixture(scope="module")
def models(data):
    """A pipeline, and the model and scaled rows inside of it."""
    X, Y = data
    whole = make_pipeline(StandardScaler(), crbm()).fit(X, Y)
    return whole, whole[-1], whole[0].transform(X)


def test_every_question_is_passed_on(data, models):
    X, Y = data
    whole, model, Z = models
    known = Y[["Fall"]].astype(float)
    known[10:] = np.nan
    equal = np.testing.assert_array_equal
    equal(whole.score_samples(X, Y), model.score_samples(Z, Y))
    equal(whole.score_samples(X, Y, known), model.score_samples(Z, Y, known))
    equal(whole.predict_pairwise_proba(X), model.predict_pairwise_proba(Z))
    for given in (None, known):
        options = {"y_known": given}
        equal(
            whole.sample(X, 3, random_state=0, **options),
            model.sample(Z, 3, random_state=0, **options),
        )
        equal(whole.predict_topk(X, k=2, **options).proba, model.predict_topk(Z, 2, given).proba)
        for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
            equal(getattr(whole, method)(X, **options), getattr(model, method)(Z, given))
    with sklearn.config_context(enable_metadata_routing=True):
        equal(whole.predict(X, y_known=known), model.predict(Z, known))
        equal(whole.predict(X), model.predict(Z))
    assert list(whole.label_names_) == NAMES


def test_the_rest_is_scikit_learns(data, models):
    X, Y = data
    whole = models[0]
    plain = pipeline.make_pipeline(StandardScaler(), crbm()).fit(X, Y)
    assert isinstance(whole, pipeline.Pipeline)
    np.testing.assert_array_equal(plain.predict(X), whole.predict(X))
    np.testing.assert_array_equal(plain.transform(X), whole.transform(X))
    assert plain.score(X, Y) == whole.score(X, Y)
    assert list(whole.named_steps) == ["standardscaler", "crbmclassifier"]
    copies = (clone(whole).fit(X, Y), pickle.loads(pickle.dumps(whole)))
    for copy in copies:
        np.testing.assert_array_equal(copy.predict_topk(X).proba, whole.predict_topk(X).proba)
    assert type(whole[:1]) is Pipeline
    search = GridSearchCV(whole, {"crbmclassifier__n_hidden": [0, 2]}, cv=KFold(2)).fit(X, Y)
    assert search.best_estimator_.sample(X, random_state=0).shape == (60, 1, 4)


def test_what_the_last_step_lacks_is_lacking(data):
    X, Y = data
    plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y["Fall"])
    for method in ("sample", "predict_topk", "score_samples", "set_label_output", "label_names_"):
        assert not hasattr(plain, method)
    assert not hasattr(make_pipeline(StandardScaler()), "predict")
    with pytest.raises(ValueError, match="y_known needs an estimator whose predict takes y_known"):
        plain.predict(X, y_known=Y)
    assert hasattr(make_pipeline(LMBMClassifier()), "predict_with_gap")
    assert not hasattr(make_pipeline(crbm()), "predict_with_gap")


def test_frames_have_the_rows_of_x(data):
    X, Y = data
    whole = make_pipeline(StandardScaler(), SelectKBest(k=3), crbm()).set_label_output("pandas")
    whole.set_params(selectkbest__score_func=lambda X, Y: X.var(axis=0)).fit(X, Y)
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        frame = getattr(whole, method)(X)
        assert list(frame.columns) == NAMES
        assert frame.index.equals(X.index)
    top = whole.predict_topk(X, 2)
    assert list(top.labels.index[:3]) == [("row 0", 0), ("row 0", 1), ("row 1", 0)]
    assert top.proba.index.equals(top.labels.index)
    classes = make_pipeline(StandardScaler(), crbm()).fit(X, Y["Fall"]).set_label_output("pandas")
    assert classes.predict(X).index.equals(X.index)
    assert list(classes.predict_topk(X, 1).labels.index[:2]) == [("row 0", 0), ("row 1", 0)]


@pytest.mark.parametrize("make", [make_pipeline, pipeline.make_pipeline])
def test_draws_are_decoded_from_any_pipeline(data, make):
    X, Y = data
    options = {"decode": ExpectedMetric(n_samples=20), "random_state": 0}
    inside = DecodedClassifier(make(StandardScaler(), crbm()), **options).fit(X, Y)
    Z = StandardScaler().fit_transform(X)
    outside = DecodedClassifier(crbm(), **options).fit(Z, Y)
    np.testing.assert_array_equal(inside.predict(X), outside.predict(Z))
    search = GridSearchCV(make(StandardScaler(), crbm()), {}, cv=KFold(2))
    searched = DecodedClassifier(search, **options).fit(X, Y)
    np.testing.assert_array_equal(searched.predict(X), outside.predict(Z))
    wrong = DecodedClassifier(make(StandardScaler(), LogisticRegression()), **options)
    with pytest.raises(ValueError, match="last step of a Pipeline; LogisticRegression has no such"):
        wrong.fit(X, Y)


@pytest.mark.parametrize("make", [make_pipeline, pipeline.make_pipeline])
def test_displays_find_the_model(data, models, make):
    X, Y = data
    _, model, Z = models
    whole = make(StandardScaler(), crbm()).fit(X, Y)
    expected = LabelDependencyDisplay.from_estimator(model, Z)
    for found in (whole, GridSearchCV(whole, {}, cv=KFold(2)).fit(X, Y)):
        display = LabelDependencyDisplay.from_estimator(found, X)
        np.testing.assert_allclose(display.dependency, expected.dependency)
        ticks = [tick.get_text() for tick in display.ax_.get_yticklabels()]
        assert ticks == [NAMES[i] for i in display.order_]
    curve = ConvergenceDisplay.from_estimator(whole).values
    np.testing.assert_array_equal(curve, model.convergence_curve_)
    framed = LabelDependencyDisplay.from_estimator(whole.fit(X, Y), X, label_names="abcd")
    assert framed.label_names == "abcd"
    matplotlib.pyplot.close("all")


def test_stacked_models_answer_everything(data):
    X, Y = data
    stacked = make_stacked([crbm()], crbm(), cv=2, random_state=0).fit(X, Y)
    stacked.set_label_output("pandas")
    assert list(stacked.predict_topk(X, 2).labels.columns) == NAMES
    assert stacked.sample(X, 2, random_state=0).shape == (60, 2, 4)
    assert stacked.score_samples(X, Y).shape == (60,)
    known = Y[["Fall"]]
    pd.testing.assert_series_equal(stacked.predict(X, y_known=known)["Fall"], Y["Fall"])


def test_rows_of_several_levels(data):
    X, Y = data
    index = pd.MultiIndex.from_product([[1, 2], ["a", "b"]], names=["g", "i"])
    frame = pd.DataFrame(X.to_numpy()[:4], index)
    model = make_pipeline(StandardScaler(), CRBMClassifier(alpha=0.1, max_iter=2, random_state=0))
    model.fit(X, Y).set_label_output("pandas")
    pd.testing.assert_index_equal(model.predict(frame).index, index)
    top = model.predict_topk(frame, k=2)
    assert top.proba.index.names == ["g", "i", "rank"]
    assert top.proba.index.droplevel("rank")[::2].equals(index)
