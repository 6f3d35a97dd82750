"""The penalty of `partial_fit` depends on the number of different rows so far."""

import pickle

import numpy as np
import pytest
from scipy import sparse

from skcrbm import CRBMClassifier
from skcrbm.estimators._stream_penalty import StreamPenalty, _hash_rows


def test_rows_that_come_again_are_not_counted_again():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 7)) * (rng.random((200, 7)) < 0.5)
    X = X[X.any(axis=1)]
    counted = StreamPenalty(1.0)
    for _ in range(3):
        rng.shuffle(X)
        for kind in (np.asarray, sparse.csr_matrix, np.asfortranarray):
            for start in range(0, 200, 37):
                counted = counted.with_rows(kind(X[start : start + 37]))
    assert counted.n_rows == len(X)
    assert counted.alpha == 1.0


@pytest.mark.parametrize("n_rows", [1000, 20_000])
def test_estimated_number_of_rows(n_rows):
    """The standard error is 6 %, and the memory does not grow."""
    X = sparse.random(n_rows, 300, 0.02, format="csr", random_state=0)
    n_different = len({row.tobytes() for row in X.toarray()})
    counted = StreamPenalty(1.0)
    for start in range(0, n_rows, 5000):
        counted = counted.with_rows(X[start : start + 5000])
    assert len(counted.hashes) == 256
    assert counted.n_rows == pytest.approx(n_different, rel=0.2)
    assert counted.alpha == min(1.0, 2000 / counted.n_rows)


def test_different_rows_have_different_hash_values():
    """Narrow ranges of float32 projections do not limit the number of hash values."""
    X = np.unique(np.random.RandomState(0).randint(0, 10, (200_000, 6)), axis=0).astype(float)
    assert len(np.unique(_hash_rows(X))) == len(X)
    zeros = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, 0.0], [-0.0, -0.0]])
    assert len(np.unique(_hash_rows(zeros))) == 2


def stream(model, X, Y, size=1000):
    for start in range(0, len(Y), size):
        model.partial_fit(X[start : start + size], Y[start : start + size])
    return model


def test_penalty_of_a_stream():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 4))
    Y = (X @ rng.normal(size=(4, 2)) + rng.logistic(size=(6000, 2)) > 0).astype(int)
    first = CRBMClassifier(n_hidden=0, random_state=0).partial_fit(X[:1000], Y[:1000])
    assert first.alpha_ == pytest.approx(0.1, rel=0.01)
    again = stream(pickle.loads(pickle.dumps(first)), X[:1000], Y[:1000], 250)
    assert again.alpha_ == first.alpha_
    longer = stream(pickle.loads(pickle.dumps(first)), X[1000:], Y[1000:])
    assert longer.alpha_ == pytest.approx(first.alpha_ * 2000 / 6000, rel=0.2)
    # A penalty that is given or that `fit` has searched does not change.
    given = stream(CRBMClassifier(n_hidden=0, alpha=0.05, random_state=0), X, Y)
    assert given.alpha_ == 0.05
    searched = CRBMClassifier(n_hidden=0, random_state=0).fit(X[:500], Y[:500])
    alpha = searched.alpha_
    assert stream(searched, X, Y).alpha_ == alpha
