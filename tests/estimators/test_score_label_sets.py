"""Log-probabilities of several label vectors in each row."""

import numpy as np
import pandas as pd
import pytest

from skcrbm import CRBMClassifier, LMBMClassifier
from skcrbm.datasets import make_structured_labels
from skcrbm.pipeline import make_pipeline
from skcrbm.targets.label_sets import all_label_vectors

NAN = float("nan")


@pytest.mark.parametrize(
    "model", [CRBMClassifier(alpha=0.1, random_state=0), LMBMClassifier(C=0.1)]
)
def test_all_label_sets_agree_with_score_samples(model):
    X, Y = make_structured_labels(120, n_labels=4, random_state=0)
    model.fit(X, Y)
    vectors = all_label_vectors(4)
    log_p = model.score_label_sets(X[:9], vectors)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, atol=1e-6)
    for k in (0, 7, 15):
        one = model.score_samples(X[:9], np.tile(vectors[k], (9, 1)))
        np.testing.assert_allclose(log_p[:, k], one, atol=1e-6)
    known = np.full((9, 4), NAN)
    known[:, 1] = 1
    given = model.score_label_sets(X[:9], vectors, known)
    assert np.isneginf(given[:, vectors[:, 1] == 0]).all()
    np.testing.assert_allclose(np.exp(given).sum(axis=1), 1, atol=1e-6)
    piped = make_pipeline(model)
    np.testing.assert_array_equal(piped.score_label_sets(X[:9], vectors), log_p)


def test_label_sets_by_name_and_errors():
    X, Y = make_structured_labels(100, n_labels=3, random_state=0)
    model = CRBMClassifier(alpha=0.1, random_state=0).fit(X, pd.DataFrame(Y, columns=list("abc")))
    frame = pd.DataFrame([[1, 0, 0]], columns=list("cba"))
    np.testing.assert_array_equal(
        model.score_label_sets(X, frame), model.score_label_sets(X, [[0, 0, 1]])
    )
    with pytest.raises(ValueError, match="label_sets must be 0/1 vectors"):
        model.score_label_sets(X, [[0, 2, 1]])
    with pytest.raises(ValueError, match="score_label_sets is for 2-D y"):
        CRBMClassifier(alpha=0.1).fit(X, Y[:, 0]).score_label_sets(X, [[0]])
