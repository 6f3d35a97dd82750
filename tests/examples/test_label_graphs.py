"""The program of graphs over labels: a row of its table against the metrics of scikit-learn."""

import numpy as np
import pytest
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import accuracy_score, f1_score, hamming_loss, jaccard_score

from examples.studies import label_graphs
from skcrbm import LabelGraphCRF

# This test fits models with the program, which is slow.
pytestmark = pytest.mark.deep


def test_a_row_of_the_table():
    X, Y = make_multilabel_classification(200, random_state=0)
    split = X[:100], X[100:], Y[:100], Y[100:]
    cells = [float(cell) for cell in label_graphs.row_of(LabelGraphCRF(), *split)]
    model = LabelGraphCRF().fit(X[:100], Y[:100])

    def predict(rule):
        return model.set_params(decode=rule).predict(X[100:])

    options = {"average": "samples", "zero_division": 0}
    expected = [
        model.score_samples(X[100:], Y[100:]).mean(),
        accuracy_score(Y[100:], predict("map")),
        hamming_loss(Y[100:], predict("marginal")),
        jaccard_score(Y[100:], predict("expected_jaccard"), **options),
        f1_score(Y[100:], predict("expected_f1"), **options),
    ]
    np.testing.assert_allclose(cells[:5], expected, atol=6e-4)
