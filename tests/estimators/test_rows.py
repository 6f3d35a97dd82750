"""Every fit gives the same model for weights and copies, for any number of threads and storage."""

import inspect
import warnings

import numpy as np
import pytest
from reference.every_estimator import data_of, model_of, of_form
from scipy import sparse

# The other estimators of labels draw folds of the rows and fit the classifiers of users.
OWN = {
    *("CRBMClassifier", "MSSVMCRBM", "LMBMClassifier", "SSVMClassifier", "LabelGraphCRF"),
    *("LayeredGMClassifier", "DecodedClassifier", "Constrained"),
}
ROWS = [name for name in of_form("rows") if name in OWN]
FITTED = [*ROWS, *of_form("states", "images", "graphs", "grids"), "ChainCRF"]


def has(model, name):
    return name in inspect.signature(model.fit).parameters


def numbers(value):
    """Return the numbers of an answer, which may be a list or an object array of arrays."""
    nested = isinstance(value, (list, tuple)) or value.dtype == object
    return np.concatenate([np.ravel(part) for part in value]) if nested else np.ravel(value)


def answer(model, X):
    for name in ("predict_proba", "decision_function", "score_samples", "transform"):
        if hasattr(model, name):
            return numbers(getattr(model, name)(X))
    raise AssertionError(f"{model} has no answer")


def fitted(name, X, y, **options):
    model = model_of(name)
    weight = options.pop("sample_weight", None)
    model.set_params(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y) if weight is None else model.fit(X, y, sample_weight=weight)


def take(rows, index):
    return (
        rows
        if rows is None
        else [rows[i] for i in index]
        if isinstance(rows, list)
        else rows[index]
    )


@pytest.mark.parametrize("name", [n for n in FITTED if has(model_of(n), "sample_weight")])
def test_weights_are_copies(name):
    X, y = data_of(name)
    weight = np.arange(len(X)) % 3
    copies = np.repeat(np.arange(len(X)), weight)
    # The automatic penalty of images is searched in folds of rows.
    options = {"alpha": 1e-3} if name == "GridCRF" else {}
    one = fitted(name, X, y, sample_weight=weight, **options)
    other = fitted(name, take(X, copies), take(y, copies), **options)
    np.testing.assert_allclose(answer(one, X), answer(other, X), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [n for n in FITTED if "n_jobs" in model_of(n).get_params()])
def test_threads_do_not_change_a_bit(name):
    X, y = data_of(name, 300)
    one, two, three = (fitted(name, X, y, n_jobs=n) for n in (None, 2, 3))
    np.testing.assert_array_equal(answer(one, X), answer(two, X))
    np.testing.assert_array_equal(answer(one, X), answer(three, X))


@pytest.mark.parametrize("name", ROWS)
def test_sparse_rows_are_dense_rows(name):
    X, y = data_of(name)
    X[np.abs(X) < 0.5] = 0
    dense, csr = fitted(name, X, y), fitted(name, sparse.csr_array(X), y)
    np.testing.assert_allclose(answer(csr, sparse.csr_array(X)), answer(dense, X), atol=1e-6)
