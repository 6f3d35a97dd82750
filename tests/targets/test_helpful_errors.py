"""Errors that name the argument that is wrong, and the way to write it."""

import numpy as np
import pandas as pd
import pytest
from reference.every_estimator import data_of, model_of

from skcrbm import ChainCRF, CRBMClassifier, LabelGraphCRF, LMBMClassifier, grid_graph
from skcrbm.calibration import CalibratedMarginals
from skcrbm.datasets import load_mediamill
from skcrbm.decoding import decode_marginals
from skcrbm.learning import Adam
from skcrbm.metrics import item_scorer


@pytest.mark.parametrize("name", ["CRBMClassifier", "ChainCRF", "RBM", "DecodedClassifier"])
def test_an_option_of_a_name(name):
    model = model_of(name)
    key, value = ("decode", "marginal") if name == "DecodedClassifier" else ("solver", "adam")
    model.set_params(**{key: value})
    with pytest.raises(ValueError, match=rf"^{key}__tol needs an object with options, but {key}="):
        model.set_params(**{f"{key}__tol": 0.1})
    if key == "solver":
        model.set_params(solver=Adam(), solver__learning_rate=0.1)
        assert model.solver.learning_rate == 0.1


def test_unknown_labels_are_not_off():
    X, y = data_of("CRBMClassifier", 20)
    model = model_of("CRBMClassifier").fit(X, y)
    with pytest.raises(ValueError, match=r"y_known .*np\.where\(y_known == -1, np\.nan, y_known\)"):
        model.predict(X, y_known=np.where(y == 1, 1, -1))
    with pytest.raises(ValueError, match="y_known must be an array or data frame with a row for"):
        model.predict(X, y_known=1)


@pytest.mark.parametrize("name", ["CRBMClassifier", "LMBMClassifier", "ChainCRF", "RBM"])
def test_tiny_weights(name):
    X, y = data_of(name, 20)
    args = (X,) if y is None else (X, y)
    with pytest.raises(
        ValueError, match="sample_weight is too small: the largest weight is 1e-310"
    ):
        model_of(name).fit(*args, sample_weight=np.full(20, 1e-310))


def test_names_of_data_sets():
    with pytest.raises(ValueError, match=r"variant should be one of .*got \['full'\]"):
        load_mediamill(variant=["full"])


def test_features_inside_of_features():
    """As in crfsuite, features inside of a feature get its key as a prefix."""
    nested = [
        [
            {"word": "a", "near": ["x", "y"], "none": []},
            {"word": "b", "next": {"share": 1.5, "word": "z", "deep": {"d"}}},
        ]
    ] * 4
    flat = [
        [
            {"word=a": 1, "near:x": True, "near:y": 1.0},
            {"word=b": 1, "next:share": 1.5, "next:word=z": 1, "next:deep:d": 1},
        ]
    ] * 4
    y = [["A", "B"]] * 4
    model, expected = (ChainCRF(alpha=0.1).fit(X, y) for X in (nested, flat))
    assert sorted(model.feature_names_in_) == sorted(flat[0][0] | flat[0][1])
    np.testing.assert_array_equal(model.coef_.toarray(), expected.coef_.toarray())
    np.testing.assert_array_equal(model.predict_proba(nested)[0], model.predict_proba(flat)[0])


def test_a_class_that_training_did_not_have():
    X = np.arange(12.0)[:, None] / 12
    y = np.array([["a", "x"], ["b", "y"], ["c", "x"]] * 4, object)
    model = LabelGraphCRF(alpha=0.1).fit(X, y)
    new = y.copy()
    new[0, 1] = "z"
    with pytest.warns(UserWarning, match="'z', which training did not have; it counts as wrong"):
        score = model.score(X, new)
    right = (model.predict(X) == new).all(axis=1)
    assert score == right.mean()


def test_tiny_weights_of_labels():
    X, y = data_of("CRBMClassifier", 20)
    with pytest.raises(ValueError, match="sample_weight is too small: the largest weight is 1e-3"):
        model_of("CRBMClassifier").fit(X, y, sample_weight=np.full(y.shape, 1e-310))


@pytest.mark.parametrize("name", ["ChainCRF", "GraphCRF", "GridCRF"])
def test_weights_of_rows_beside_weights_of_items(name):
    X, y = data_of(name, 3)
    weight = [1.0, *(np.ones(np.shape(labels)) for labels in y[1:])]
    with pytest.raises(ValueError, match=r" 0 of sample_weight should h"):
        model_of(name).fit(X, y, weight)


def test_arguments_in_a_wrong_form():
    X, y = data_of("CRBMClassifier", 20)
    for call, message in (
        (lambda: decode_marginals([[0.5], [0.5, 0.1]]), "proba must be a matrix, with rows of"),
        (lambda: CalibratedMarginals(model_of("CRBMClassifier"), cv=[]).fit(X, y), "no folds"),
        (lambda: grid_graph("a"), "image should hold numbers"),
        (lambda: item_scorer("f1_macro", labels="ab"), r"a list of classes, such as \['ab'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    "classifier", [CRBMClassifier(n_hidden=1, alpha=0.1), LMBMClassifier(C=1.0)]
)
def test_scores_of_labels_of_other_types_and_of_missing_labels(classifier):
    X, y = np.eye(6), np.array(["a", "b", "a", "a", "b", "a"])
    model = classifier.fit(X, y)
    right = model.score(X, y) * 6
    other = y.astype(object)
    other[0] = 7
    with pytest.warns(
        UserWarning, match="label 7, which training did not have; it counts as wrong"
    ):
        share = model.score(X, other)
    assert share == pytest.approx((right - (model.predict(X)[0] == "a")) / 6)
    for missing in (None, np.nan, pd.NA, pd.NaT):
        other[0] = missing
        for labels in (other, pd.Series(other)):
            with pytest.raises(ValueError, match="y contains NaN or None; only a 2-D indicator y"):
                model.score(X, labels)
    labels = pd.Series([*y[:5], pd.NA], dtype="string")
    with pytest.raises(ValueError, match="y contains NaN or None"):
        model.score(X, labels)
