"""partial_fit skips batches from which a model cannot learn; fit refuses them."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from skcrbm import MSSVMCRBM, CRBMClassifier, ImageCRBM, LayeredGMClassifier
from skcrbm.density import RBM, IsingModel, MarkovRandomField
from skcrbm.layers import Dense

rng = np.random.default_rng(0)
X = rng.standard_normal((20, 3))
Y = (X > 0).astype(float)
NOTHING = np.full(Y.shape, np.nan)
ZEROS = np.zeros(20)
CLASSIFIERS = [
    CRBMClassifier(n_hidden=1, alpha=0.1, random_state=0),
    MSSVMCRBM(n_hidden=1, random_state=0),
    ImageCRBM(n_hidden=1, alpha=0.1, random_state=0),
    LayeredGMClassifier(layers=(Dense(2),), random_state=0),
]
DENSITIES = [
    RBM(n_hidden=1, random_state=0),
    IsingModel(random_state=0),
    MarkovRandomField(random_state=0),
]


def name_of(value):
    return type(value).__name__


def partly_weighted():
    y = Y.copy()
    y[:5] = np.nan
    return X, y, None, np.where(np.isnan(y[:, 0]), 1.0, 0.0)


EMPTY = {
    "labels": (X, NOTHING),
    "weights": (X, Y, None, ZEROS),
    "labels with a weight": partly_weighted(),
}


@pytest.mark.parametrize("empty", list(EMPTY))
@pytest.mark.parametrize("model", CLASSIFIERS, ids=name_of)
def test_a_batch_without_labels_changes_nothing(model, empty):
    model = clone(model).partial_fit(X, Y)
    before = pickle.dumps(model)
    assert model.partial_fit(*EMPTY[empty]) is model
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("empty", list(EMPTY))
@pytest.mark.parametrize("model", CLASSIFIERS, ids=name_of)
def test_a_stream_may_begin_with_such_a_batch(model, empty):
    plain, late = clone(model).partial_fit(X, Y), clone(model)
    assert late.partial_fit(*EMPTY[empty]) is late
    assert not hasattr(late, "n_features_in_")
    late.partial_fit(X, Y)
    assert late.n_iter_ == plain.n_iter_
    np.testing.assert_array_equal(late.predict_proba(X), plain.predict_proba(X))


@pytest.mark.parametrize("model", CLASSIFIERS, ids=name_of)
def test_classes_without_a_weight_are_skipped(model):
    if "class_weight" not in model.get_params():
        pytest.skip("the model has no class_weight")
    y = Y[:, 0].astype(int)
    model = clone(model).set_params(class_weight={0: 1, 1: 0}).partial_fit(X, y)
    before = pickle.dumps(model)
    model.partial_fit(X[y == 1], y[y == 1])
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("model", CLASSIFIERS, ids=name_of)
def test_fit_refuses_rows_without_labels(model):
    for arguments in [(X, NOTHING), (*partly_weighted()[:2], partly_weighted()[3])]:
        with pytest.raises(ValueError, match="y holds no observed entry in the rows with a pos"):
            clone(model).fit(*arguments)
    warm = clone(model).set_params(warm_start=True, max_iter=1).fit(X, Y)
    with pytest.raises(ValueError, match="y holds no observed entry in the rows with a pos"):
        warm.fit(X, NOTHING)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=name_of)
def test_other_faults_of_a_batch_are_errors(model):
    model = clone(model).partial_fit(X, Y)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :2], NOTHING)
    with pytest.raises(ValueError, match="y must have shape"):
        model.partial_fit(X, NOTHING[:, :2])


@pytest.mark.parametrize("model", DENSITIES, ids=name_of)
def test_densities_skip_rows_without_entries(model):
    for arguments in [(NOTHING,), (Y, None, ZEROS)]:
        late = clone(model).partial_fit(*arguments)
        assert not hasattr(late, "n_features_in_")
        late.partial_fit(Y)
        before = pickle.dumps(late)
        assert late.partial_fit(*arguments) is late
        assert pickle.dumps(late) == before
