"""Columns of X on other scales: brought to one inside, or one warning."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from skcrbm import (
    MSSVMCRBM,
    CRBMClassifier,
    LayeredGMClassifier,
    LMBMClassifier,
    SSVMClassifier,
)
from skcrbm.pipeline import make_pipeline
from skcrbm.utils.columns import warn_of_scales

# Those that take the columns of X as they are.
AS_GIVEN = {
    "crbm": CRBMClassifier(n_hidden=0, alpha=0.1, max_iter=3),
    "crbm_adam": CRBMClassifier(n_hidden=2, alpha=0.1, solver="adam", max_iter=2),
    "crbm_threshold": CRBMClassifier(n_hidden=0, alpha=0.1, max_iter=2, decode="threshold"),
    "mssvm": MSSVMCRBM(n_hidden=2, alpha=0.1, max_iter=2, inference="exact"),
    "lmbm": LMBMClassifier(C=0.01, pairwise_penalty=1.0, tol=0.1),
    "ssvm": SSVMClassifier(C=1e-3, max_iter=5),
    "layered": LayeredGMClassifier(max_iter=2),
}
SCALED_INSIDE = {
    "crbm": CRBMClassifier(n_hidden=0, max_iter=5, random_state=0),
    "mssvm": MSSVMCRBM(n_hidden=2, max_iter=2, inference="exact", random_state=0),
    "lmbm": LMBMClassifier(tol=0.1, random_state=0),
}
WARNING = "The columns of X have standard deviations that differ much, or are far from 1"


def said(function, *args):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function(*args)
    return [str(w.message) for w in found if WARNING in str(w.message)]


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 4))
    return X, (X[:, :2] + rng.normal(size=(60, 2)) > 0).astype(int)


@pytest.mark.parametrize("name", AS_GIVEN)
def test_one_warning(data, name):
    X, Y = data
    model = AS_GIVEN[name]
    kind = type(model).__name__
    assert not said(model.fit, X, Y)
    assert not said(make_pipeline(StandardScaler(), model).fit, 1000 * X, Y)
    for wild in (1000 * X, X * [1, 1, 1e-4, 1e-4], sparse.csr_matrix(1000 * X)):
        (message,) = said(model.fit, wild, Y)
        scaler = "MaxAbsScaler()" if sparse.issparse(wild) else "StandardScaler()"
        assert f"skcrbm.pipeline.make_pipeline({scaler}, {kind}())" in message


@pytest.mark.parametrize("name", SCALED_INSIDE)
def test_units_do_not_matter_where_columns_are_scaled_inside(data, name):
    X, Y = data
    expected = clone(SCALED_INSIDE[name]).fit(X, Y).predict_proba(X)
    units = np.array([2.0**10, 0.5, 2.0**-12, 64.0])  # powers of 2: the same bits
    model = clone(SCALED_INSIDE[name])
    assert not said(model.fit, X * units, Y)
    np.testing.assert_allclose(model.predict_proba(X * units), expected, rtol=1e-9)


def test_pieces_warn_once(data):
    X, Y = data
    model = CRBMClassifier(n_hidden=0)
    (warning,) = said(model.partial_fit, 1000 * X, Y)
    assert "Fit one StandardScaler() and scale all parts of X with it" in warning
    assert not said(model.partial_fit, 1000 * X, Y)


def test_what_is_wild():
    rng = np.random.RandomState(0)
    weight = np.ones(50)

    def warned(X):
        return len(said(warn_of_scales, X, weight, "Model"))

    normal = rng.normal(size=(50, 8))
    pixels = (rng.random_sample((50, 8)) < np.geomspace(0.02, 0.5, 8)).astype(float)
    for usual in (normal, 10 * normal, 0.1 * normal, pixels, np.ones((50, 3)), normal[:, :0]):
        assert not warned(usual)
        assert not warned(sparse.csr_matrix(usual))
    assert warned(100 * normal)
    assert warned(1e-3 * normal)
    assert warned(np.hstack([normal, 100 * normal[:, :1]]))  # one column is enough
    assert warned(255 * MinMaxScaler().fit_transform(normal))
    missing = np.where(rng.random_sample(normal.shape) < 0.1, np.nan, normal)
    missing[:, 0] = 1000 * normal[:, 0]
    assert warned(missing)
    assert not warned(missing[:, 1:])
