"""cross_val_predict: scikit-learn's where nothing is missing, and for y with NaN."""

import numpy as np
import pandas as pd
import pytest
from sklearn import model_selection
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import GroupKFold, KFold
from sklearn.neighbors import KNeighborsClassifier

from skcrbm import CRBMClassifier
from skcrbm.model_selection import MultilabelStratifiedKFold, cross_val_predict


def crbm():
    return CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=5, random_state=0)


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 3))
    return X, (X + rng.normal(size=X.shape) > 0).astype(int)


@pytest.mark.parametrize(
    "method", ["predict", "predict_proba", "predict_log_proba", "decision_function"]
)
def test_equals_scikit_learns_where_nothing_is_missing(data, method):
    X, Y = data
    expected = model_selection.cross_val_predict(crbm(), X, Y, cv=KFold(3), method=method)
    found = cross_val_predict(crbm(), X, Y, cv=KFold(3), method=method)
    np.testing.assert_array_equal(found, expected)
    one = cross_val_predict(crbm(), X, Y[:, 0], cv=3, method=method)
    np.testing.assert_array_equal(
        one, model_selection.cross_val_predict(crbm(), X, Y[:, 0], cv=3, method=method)
    )


def test_rows_of_a_group_stay_together(data):
    X, Y = data
    groups = np.arange(len(X)) % 7
    expected = model_selection.cross_val_predict(crbm(), X, Y, groups=groups, cv=GroupKFold(3))
    Y = Y.astype(float)
    found = cross_val_predict(crbm(), X, Y, groups=groups, cv=GroupKFold(3))
    np.testing.assert_array_equal(found, expected)
    Y[0, 0] = np.nan
    assert cross_val_predict(crbm(), X, Y, groups=groups, cv=GroupKFold(3)).shape == Y.shape
    with pytest.raises(ValueError, match="groups"):
        cross_val_predict(crbm(), X, Y, cv=GroupKFold(3))


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_nan_is_not_observed(data, method):
    X, Y = data
    Y = np.where(np.random.RandomState(1).random_sample(Y.shape) < 0.2, np.nan, Y)
    expected = np.empty(Y.shape)
    for train, test in MultilabelStratifiedKFold(3).split(X, Y):
        expected[test] = getattr(crbm().fit(X[train], Y[train]), method)(X[test])
    found = cross_val_predict(crbm(), X, Y, cv=3, method=method)
    np.testing.assert_array_equal(found, expected)
    assert np.isin(found, (0, 1)).all() == (method == "predict")
    # By names, in whatever container the model predicts.
    frame = pd.DataFrame(Y, columns=list("abc"))
    named = cross_val_predict(crbm().set_label_output("pandas"), X, frame, cv=3, method=method)
    assert type(named) is np.ndarray
    np.testing.assert_array_equal(named, expected)
    with pytest.raises(ValueError, match="NaN"):
        model_selection.cross_val_predict(crbm(), X, Y, cv=3, method=method)


def test_probabilities_of_classifiers_that_return_a_list(data):
    X, Y = data
    trees = ExtraTreesClassifier(5, random_state=0)
    expected = model_selection.cross_val_predict(trees, X, Y, cv=KFold(3), method="predict_proba")
    found = cross_val_predict(trees, X, Y, cv=KFold(3), method="predict_proba")
    np.testing.assert_array_equal(found, np.stack(expected)[:, :, 1].T)
    trees = ExtraTreesClassifier(50, min_samples_leaf=5, random_state=0)
    proba = cross_val_predict(trees, X, Y, cv=KFold(3), method="predict_proba")
    logs = cross_val_predict(trees, X, Y, cv=KFold(3), method="predict_log_proba")
    np.testing.assert_allclose(logs, np.log(proba))


def test_weights_go_to_the_training_rows(data):
    X, Y = data
    weight = np.arange(60.0) % 3
    params = {"params": {"sample_weight": weight}, "cv": KFold(3), "method": "predict_proba"}
    np.testing.assert_array_equal(
        cross_val_predict(crbm(), X, Y, **params),
        model_selection.cross_val_predict(crbm(), X, Y, **params),
    )


def test_what_is_refused(data):
    X, Y = data
    with pytest.raises(ValueError, match="every row into exactly one test fold"):
        cross_val_predict(KNeighborsClassifier(), X, Y, cv=[(range(10), range(10, 20))])
    with pytest.raises(ValueError, match="y must be a 0/1 indicator matrix"):
        cross_val_predict(crbm(), X, Y + 0.5)
    with pytest.raises(ValueError, match="'method' parameter of cross_val_predict must be a str"):
        cross_val_predict(crbm(), X, Y, method="transform")
