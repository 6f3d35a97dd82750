"""Coefficients as CSR matrices, without small entries."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import NotFittedError

from skcrbm import MSSVMCRBM, CRBMClassifier


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(80, n_features=400, random_state=0)
    return sparse.csr_matrix(X * (X > 3), dtype=np.float64), Y


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("estimator", [CRBMClassifier, MSSVMCRBM])
def test_without_a_threshold_predictions_stay(data, dtype, estimator):
    X, Y = data
    X = X.astype(dtype)
    model = estimator(n_hidden=2, random_state=0, max_iter=5, alpha=0.1).fit(X, Y)
    before, hidden = model.predict_proba(X), model.transform(X)
    assert model.sparsify() is model
    assert sparse.issparse(model.visible_coef_)
    assert model.visible_coef_.dtype == dtype
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    for rows in (X, X.toarray()):
        found = model.predict_proba(rows)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, before, atol=tolerance)
    np.testing.assert_allclose(model.transform(X), hidden, atol=tolerance)
    assert isinstance(model.densify().visible_coef_, np.ndarray)
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_small_entries_are_left_out_of_the_pickle(data):
    X, Y = data
    model = CRBMClassifier(n_hidden=0, random_state=0).fit(X, Y)
    coef, size, before = model.coef_.copy(), len(pickle.dumps(model)), model.predict_proba(X)
    threshold = np.quantile(np.abs(coef), 0.9)
    model.sparsify(threshold)
    np.testing.assert_array_equal(
        model.coef_.toarray(), np.where(np.abs(coef) > threshold, coef, 0)
    )
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert len(pickle.dumps(model)) < 0.6 * size
    assert np.abs(model.predict_proba(X) - before).mean() < 0.1


def test_training_continues(data):
    X, Y = data
    sparsified = CRBMClassifier(n_hidden=2, random_state=0).partial_fit(X, Y).sparsify()
    plain = CRBMClassifier(n_hidden=2, random_state=0).partial_fit(X, Y).partial_fit(X, Y)
    sparsified.partial_fit(X, Y)
    np.testing.assert_array_equal(sparsified.visible_coef_, plain.visible_coef_)


def test_errors(data):
    X, Y = data
    with pytest.raises(NotFittedError):
        CRBMClassifier().sparsify()
    # scikit-learn's checks call `sparsify` of estimators that have it before a fit, and read coef_.
    assert not hasattr(CRBMClassifier(), "sparsify")
    assert not hasattr(MSSVMCRBM(), "sparsify")
    model = CRBMClassifier(n_hidden=0, random_state=0).partial_fit(X, Y)
    for threshold in (-1.0, np.nan, np.inf, "small", None, [0.1]):
        with pytest.raises(ValueError, match="threshold must be"):
            model.sparsify(threshold)
