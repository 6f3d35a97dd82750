"""Predictions as data frames of polars."""

import importlib.util
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier, DecodedClassifier, ImageCRBM, LMBMClassifier
from skcrbm.calibration import CalibratedMarginals
from skcrbm.pipeline import make_pipeline

pl = pytest.importorskip("polars")

NAMES = ["Beach", "Sunset", "Fall", "Field"]
CRBM = CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=5, random_state=0)
TREES = ExtraTreesClassifier(5, random_state=0)
MODELS = {
    "crbm": CRBM,
    "images": ImageCRBM(n_hidden=2, alpha=0.05, max_iter=2, random_state=0),
    "lmbm": LMBMClassifier(C=0.01, random_state=0),
    "decoded": DecodedClassifier(TREES),
    "calibrated": CalibratedMarginals(TREES, cv=2),
    "pipeline": make_pipeline(StandardScaler(), CRBM),
}


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(60, 5, n_classes=4, random_state=0)
    return pl.DataFrame(X), pl.DataFrame(Y, schema=NAMES)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_data_frames(data, name):
    X, Y = data
    model = clone(MODELS[name]).fit(X, Y)
    arrays = model.predict(X), model.predict_proba(X)
    model = pickle.loads(pickle.dumps(model.set_label_output("polars")))
    for array, frame in zip(arrays, (model.predict(X), model.predict_proba(X)), strict=True):
        assert isinstance(frame, pl.DataFrame)
        assert frame.columns == NAMES
        np.testing.assert_array_equal(frame.to_numpy(), array)
    assert model.predict(X[:1]).shape == (1, 4)
    assert model.score(X, Y.select(NAMES[::-1])) == model.score(X, Y)


def test_top_label_sets(data):
    X, Y = data
    model = clone(CRBM).fit(X, Y)
    arrays = model.predict_topk(X[:3], 2)
    top = model.set_label_output("polars").predict_topk(X[:3], 2)
    table = top.labels.with_columns(top.proba)
    assert table.columns == [*NAMES, "proba"]
    np.testing.assert_array_equal(table["proba"].to_numpy(), arrays.proba.ravel())
    np.testing.assert_array_equal(top.labels.to_numpy(), arrays.labels.reshape(6, 4))


def test_search_with_a_gap(data):
    X, Y = data
    model = clone(MODELS["lmbm"]).fit(X, Y).set_label_output("polars")
    labels, score, _ = model.predict_with_gap(X)
    assert labels.columns == NAMES
    assert isinstance(score, np.ndarray)


@pytest.mark.parametrize("classes", [["b", "a", "c"], [3, 1, 2]])
def test_classes_are_a_series(data, classes):
    X = data[0]
    y = pl.Series("place", [classes[i % 3] for i in range(60)])
    model = clone(CRBM).fit(X, y)
    expected = model.predict(X)
    found = model.set_label_output("polars").predict(X)
    assert isinstance(found, pl.Series)
    assert found.name == "place"
    assert found.dtype == y.dtype
    assert found.to_list() == expected.tolist()
    assert isinstance(model.predict_proba(X), np.ndarray)
    top = model.predict_topk(X[:2], 2)
    assert top.labels.to_list()[::2] == expected[:2].tolist()


def test_labels_without_names_have_their_numbers(data):
    X, Y = (frame.to_numpy() for frame in data)
    model = clone(CRBM).fit(X, Y).set_label_output("polars")
    assert model.predict(X).columns == ["0", "1", "2", "3"]
    assert clone(model).fit(X, Y[:, 0]).predict(X).name == ""


def test_polars_may_be_missing(data, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="requires polars"):
        clone(CRBM).set_label_output("polars")
