"""Labels as sparse matrices: y in `fit` and `score`, and predictions."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier

from skcrbm import MSSVMCRBM, CRBMClassifier, DecodedClassifier, LMBMClassifier
from skcrbm.metrics import masked_score

MODELS = {
    "crbm": CRBMClassifier(n_hidden=0, alpha=0.01, max_iter=10, random_state=0),
    "lmbm": LMBMClassifier(C=0.1, random_state=0),
    "mssvm": MSSVMCRBM(n_hidden=1, max_iter=2, alpha=0.01, random_state=0),
    "decoded": DecodedClassifier(OneVsRestClassifier(LogisticRegression())),
}


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(80, 6, n_classes=4, random_state=0)
    return (X - X.mean(axis=0)) / X.std(axis=0), Y


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array])
def test_the_same_model_and_labels(name, kind, data):
    X, Y = data
    dense = clone(MODELS[name]).fit(X, Y)
    model = clone(MODELS[name]).fit(X, kind(Y))
    np.testing.assert_array_equal(model.predict(X), dense.predict(X))
    score = model.score(X, kind(Y))
    labels = model.set_label_output("sparse").predict(X)
    assert sparse.issparse(labels)
    assert labels.format == "csr"
    np.testing.assert_array_equal(labels.toarray(), dense.predict(X))
    assert score == model.score(X, kind(Y)) == dense.score(X, Y)
    assert isinstance(model.predict_proba(X), np.ndarray)
    assert f1_score(sparse.csr_matrix(Y), labels, average="micro") == pytest.approx(
        f1_score(Y, dense.predict(X), average="micro")
    )
    assert masked_score("f1_micro", kind(Y), y_pred=labels) == pytest.approx(
        masked_score("f1_micro", Y, y_pred=dense.predict(X))
    )


def test_other_answers_stay_arrays(data):
    X, Y = data
    model = clone(MODELS["crbm"]).fit(X, sparse.csr_matrix(Y)).set_label_output("sparse")
    top = model.predict_topk(X[:3], 2)
    assert isinstance(top.labels, np.ndarray)
    found = clone(MODELS["lmbm"]).fit(X, Y).set_label_output("sparse").predict_with_gap(X[:3])
    assert sparse.issparse(found[0])
    classes = clone(MODELS["crbm"]).fit(X, Y[:, 0]).set_label_output("sparse").predict(X)
    assert isinstance(classes, np.ndarray)


def test_searches_take_sparse_labels(data):
    X, Y = data
    model = clone(MODELS["crbm"]).set_label_output("sparse")
    grid = {"alpha": [0.01, 1.0]}
    found = GridSearchCV(model, grid, cv=3).fit(X, sparse.csr_matrix(Y))
    expected = GridSearchCV(clone(MODELS["crbm"]), grid, cv=3).fit(X, Y)
    assert sparse.issparse(found.predict(X))
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_array_equal(found.cv_results_[name], expected.cv_results_[name])


def test_classes_that_are_no_numbers(data):
    X, Y = data
    words = np.array(["a", "b", "c"], object)[Y[:, :2] + Y[:, 1:3]]
    model = clone(MODELS["crbm"]).fit(X, words).set_label_output("sparse")
    with pytest.raises(ValueError, match="columns of y hold classes that are no numbers"):
        model.predict(X[:3])
    assert model.set_label_output("default").predict(X[:3]).shape == (3, 2)
