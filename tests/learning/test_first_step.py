"""The first epoch of `partial_fit` on sparse words, whose columns have a small scale."""

from collections import namedtuple

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import f1_score

from skcrbm import CRBMClassifier
from skcrbm.learning.data import crbm_first_rates
from skcrbm.learning.optimizers import AdamSteps

pair = namedtuple("pair", ["a", "b"])


def documents(n=1000, n_words=400, n_labels=8):
    """TF-IDF weights of documents; each label makes 20 of the words more frequent."""
    rng = np.random.RandomState(0)
    Y = (rng.random_sample((n, n_labels)) < 0.2).astype(int)
    absent = np.full((n, n_words), 0.98)
    for k in range(n_labels):
        absent[:, 20 * k : 20 * (k + 1)] *= np.where(Y[:, [k]] == 1, 0.75, 1.0)
    X = sparse.csr_matrix((rng.random_sample((n, n_words)) > absent).astype(float))
    return TfidfTransformer().fit_transform(X), Y


def one_pass(X, Y, n_rows):
    """Micro-F1 of the other rows after a pass over the first rows: `CRBMClassifier`, SGD."""
    model = CRBMClassifier(random_state=0)
    others = [SGDClassifier(loss="log_loss", random_state=0) for _ in Y.T]
    for start in range(0, n_rows, 150):
        rows = slice(start, start + 150)
        model.partial_fit(X[rows], Y[rows])
        for other, y in zip(others, Y.T):
            other.partial_fit(X[rows], y[rows], classes=[0, 1])
    held_out = X[n_rows:]
    found = model.predict(held_out), np.column_stack([m.predict(held_out) for m in others])
    return [f1_score(Y[n_rows:], labels, average="micro") for labels in found]


@pytest.mark.parametrize("n_columns", [400, 8192])
def test_one_pass_over_words_learns_as_much_as_stochastic_gradients(n_columns):
    """Most of the columns of hashed words are empty, which must not change the steps."""
    X, Y = documents()
    indices = X.indices * (n_columns // 400)
    X = sparse.csr_matrix((X.data, indices, X.indptr), (len(Y), n_columns))
    mine, stochastic = one_pass(X, Y, 600)
    assert stochastic > 0.6
    assert mine > stochastic - 0.02


def test_one_pass_over_standardised_columns():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((1000, 30))
    Y = (X @ rng.standard_normal((30, 4)) + 2 * rng.standard_normal((1000, 4)) > 2).astype(int)
    mine, stochastic = one_pass(X, Y, 600)
    assert mine > stochastic - 0.02


def test_first_rates_decline_to_the_learning_rates():
    steps = AdamSteps((0.01, 0.01))
    steps.first_rates = (0.1, 0.0)
    params = pair(np.zeros(1), np.zeros(1))
    lengths = []
    for _ in range(1200):
        before, params = params, steps.update(params, pair(np.ones(1), np.ones(1)))
        lengths.append([float((a - b)[0]) for a, b in zip(before, params)])
    expected = np.maximum(0.01, 0.1 / np.sqrt(1 + np.arange(1200) / 10))
    np.testing.assert_allclose(np.array(lengths)[:, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(np.array(lengths)[:, 1], 0.01, rtol=1e-6)


def test_rows_of_zeros_and_the_scale_of_the_columns():
    X = np.zeros((20, 3))
    assert crbm_first_rates(X, np.ones(20)) == ()
    X = np.random.RandomState(0).randn(20, 3)
    rates = [crbm_first_rates(a, np.ones(20)).visible_coef for a in (X, 2 * X)]
    assert rates[0] == pytest.approx(2 * rates[1])
    sparse_rate = crbm_first_rates(sparse.csr_matrix(X), np.ones(20)).visible_coef
    assert sparse_rate == pytest.approx(rates[0])


def test_standardised_columns_keep_their_penalty():
    X = np.random.RandomState(0).randn(50, 3)
    X /= np.sqrt((X**2).mean())
    model = CRBMClassifier(random_state=0).partial_fit(X, (X[:, :2] > 0).astype(int))
    np.testing.assert_allclose(model.alpha_, 0.1)
    alpha = CRBMClassifier(random_state=0).partial_fit(0.1 * X, (X[:, :2] > 0).astype(int)).alpha_
    np.testing.assert_allclose(alpha, 0.001)
