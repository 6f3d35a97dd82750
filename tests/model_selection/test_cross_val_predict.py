"""cross_val_predict: scikit-learn's where nothing is missing, and for y with NaN."""

import numpy as np
import pandas as pd
import pytest
from sklearn import model_selection
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import GroupKFold, KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from skcrbm import ChainCRF, CRBMClassifier, Graph, GraphCRF, GridCRF, ImageCRBM, LabelGraphCRF
from skcrbm.model_selection import MultilabelStratifiedKFold, cross_val_predict
from skcrbm.pipeline import SequenceTransformer, make_pipeline


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


def structures():
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(n, 2)) for n in (3, 5, 4, 6, 3, 4, 5, 3)]
    codes = [(x[:, 0] > 0).astype(int) + (x[:, 1] > 1) for x in rows]
    codes[-1][0] = 2
    names = [np.array(["a", "b", "c"])[path].tolist() for path in codes]
    images = [rng.normal(size=(n, 6)) for n in (5, 6, 7, 5, 6, 7, 5, 6)]
    pixels = [(x > 0).astype(int) for x in images]
    same = np.stack([x[:5, :5] for x in images])
    chain = make_pipeline(SequenceTransformer(StandardScaler()), ChainCRF(alpha=0.1))
    return {
        "chains": (chain, rows, names),
        "graphs": (GraphCRF(alpha=0.1), [Graph(x, [[0, 1]]) for x in rows], names),
        "images": (GridCRF(max_iter=3), images, pixels),
        "arrays_of_images": (GridCRF(max_iter=3), same, (same > 0).astype(int)),
        "binary_images": (ImageCRBM(max_iter=3), images, pixels),
    }


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("method", ["predict", "predict_proba"])
@pytest.mark.parametrize("kind", structures())
def test_sequences_graphs_and_images(kind, method):
    model, X, y = structures()[kind]
    found = cross_val_predict(model, X, y, cv=4, method=method)
    assert len(found) == len(X)
    for i in range(0, 8, 2):
        rest = [k for k in range(8) if k not in (i, i + 1)]
        if isinstance(X, np.ndarray):
            fitted = model.fit(X[rest], y[rest])
        else:
            fitted = model.fit([X[k] for k in rest], [y[k] for k in rest])
        expected = getattr(fitted, method)(X[i : i + 2])
        for own, wanted in zip(found[i : i + 2], expected):
            np.testing.assert_array_equal(own, wanted)
    if isinstance(X, np.ndarray):
        assert found.dtype != object
    groups = [0, 0, 1, 1, 2, 2, 2, 2]
    by_group = cross_val_predict(model, X, y, cv=GroupKFold(3), groups=groups, method=method)
    assert [np.shape(a) for a in by_group] == [np.shape(a) for a in found]


def test_classes_that_a_fold_lacks_have_the_probability_0():
    X = [np.ones((2, 1)) * i for i in range(4)]
    y = [["a", "b"], ["b", "a"], ["a", "c"], ["b", "a"]]
    found = cross_val_predict(ChainCRF(alpha=0.1), X, y, cv=4, method="predict_proba")
    assert [part.shape for part in found] == [(2, 3)] * 4
    assert (found[2][:, 2] == 0).all()
    assert all((found[i][:, 2] > 0).all() for i in (0, 1, 3))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("model", [LabelGraphCRF(alpha=0.1), ExtraTreesClassifier(5)])
def test_columns_of_classes(data, model):
    X, Y = data
    model = model.set_params(random_state=0)
    names = np.array(["no", "yes", "never"], object)
    y = names[np.column_stack([Y[:, 0] + Y[:, 1], Y[:, 2]])]
    y[5, 1] = "never"  # the model of the fold of this row does not know the class
    folds = KFold(3)
    labels = cross_val_predict(model, X, y, cv=folds)
    proba = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
    assert labels.shape == y.shape
    assert [part.shape for part in proba] == [(60, 3), (60, 3)]
    for train, test in folds.split(X):
        fitted = model.fit(X[train], y[train])
        np.testing.assert_array_equal(labels[test], fitted.predict(X[test]))
        for a, part in enumerate(fitted.predict_proba(X[test])):
            place = np.searchsorted(["never", "no", "yes"], fitted.classes_[a].astype(str))
            np.testing.assert_allclose(proba[a][test][:, place], part)
            assert proba[a][test].sum(axis=1) == pytest.approx(1)
    logs = cross_val_predict(model, X, y, cv=folds, method="predict_log_proba")
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(logs[1], np.log(proba[1]), atol=1e-12)
    if isinstance(model, LabelGraphCRF):
        y[7, 0] = None
        frame = pd.DataFrame(y, columns=["a", "b"])
        model = model.set_params(graph=[])
        named = cross_val_predict(model, X, frame, cv=3, method="predict_proba")
        for own, wanted in zip(named, cross_val_predict(model, X, y, cv=3, method="predict_proba")):
            np.testing.assert_array_equal(own, wanted)
        mixed = y.copy()
        mixed[0, 0] = 1
        with pytest.raises(ValueError, match="column 0 of y mixes labels of different types"):
            cross_val_predict(model, X, mixed, cv=3)


def test_what_is_refused(data):
    X, Y = data
    with pytest.raises(ValueError, match="every row into exactly one test fold"):
        cross_val_predict(KNeighborsClassifier(), X, Y, cv=[(range(10), range(10, 20))])
    with pytest.raises(ValueError, match="y must be a 0/1 indicator matrix"):
        cross_val_predict(crbm(), X, Y + 0.5)
    with pytest.raises(ValueError, match="'method' parameter of cross_val_predict must be a str"):
        cross_val_predict(crbm(), X, Y, method="transform")


class Neighbour(KNeighborsClassifier):
    """A classifier that names the group of the nearest training row."""

    def fit(self, X, y):
        super().fit(X, y)
        self.groups_ = X[:, 0]
        return self

    def predict(self, X):
        assert not set(X[:, 0]) & set(self.groups_), "a group is in both parts"
        return super().predict(X)


@pytest.mark.parametrize("form", ["labels", "vector", "column"])
@pytest.mark.parametrize("cv", [None, 3])
def test_a_number_of_folds_keeps_groups_together(form, cv):
    """The groups have an effect for every kind of y, also without a splitter of groups."""
    groups = np.repeat(np.arange(10), 4)
    X = np.column_stack([groups, np.random.RandomState(0).normal(size=40)])
    Y = np.random.RandomState(1).randint(0, 2, (40, 3))
    y = {"labels": Y, "vector": Y[:, 0], "column": Y[:, :1]}[form]
    model = Neighbour(1)
    cross_val_predict(model, X, y, cv=cv, groups=groups)
    with pytest.raises(AssertionError, match="both parts"):
        cross_val_predict(model, X, y, cv=cv)


def test_a_number_of_folds_keeps_groups_of_sequences_together():
    groups = np.array([0, 1, 2] * 4)
    X = [np.full((2, 1), g + 0.5) for g in groups]
    y = [[f"class {g}"] * 2 for g in groups]
    model = ChainCRF(alpha=0.1, max_iter=30)
    found = cross_val_predict(model, X, y, cv=3, groups=groups)
    assert not any((labels == truth).any() for labels, truth in zip(found, y))  # unseen classes
