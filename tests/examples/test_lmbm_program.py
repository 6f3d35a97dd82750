"""The program of the tables of large margin Boltzmann machines, on a few made-up rows."""

import itertools

import numpy as np
import pytest
from sklearn.utils import Bunch

from examples._harness import Rows, run_missing
from examples.papers import _lmbm_relaxed, lmbm_tables
from skcrbm import LMBMClassifier

# These tests fit models with the programs, which is slow.
pytestmark = pytest.mark.deep


@pytest.fixture
def data(monkeypatch):
    """Labels that depend on the inputs with much noise; a part of the rows has no label."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 4))
    Y = (X[:, :3] + X[:, 1:] + rng.normal(size=(160, 3)) > 0.5).astype(float)
    data = Bunch(X_train=X[:120], y_train=Y[:120], X_test=X[120:], y_test=Y[120:])
    monkeypatch.setattr(lmbm_tables, "DATA", {"scene": lambda: data})
    return data


def scores_row_by_row(truth, predicted):
    """Return H, A, P, R, F from sets of labels; a ratio 0 / 0 counts 0."""
    hamming, jaccard, precision, recall = [], [], [], []
    for y, p in zip(truth, predicted):
        y, p = set(np.flatnonzero(y)), set(np.flatnonzero(p))
        hamming.append(len(y ^ p) / truth.shape[1])
        jaccard.append(len(y & p) / len(y | p) if y | p else 0.0)
        recall.append(len(y & p) / len(y) if y else 0.0)
        if p:
            precision.append(len(y & p) / len(p))
    p, r = np.mean(precision), np.mean(recall)
    return np.mean(hamming), np.mean(jaccard), p, r, 2 * p * r / (p + r)


@pytest.mark.parametrize("row", ["ILSVM", "LMBMr", 'LMBMr, decode="map"'])
def test_scores_of_a_cell(row, data, tmp_path):
    store = Rows(tmp_path / "rows.csv")
    key = f"scene, {row}"
    run_missing([cell for cell in lmbm_tables.cells(True) if cell[0] == key], store)
    found = store.read()[key]
    pipeline = next(p for name, p, _ in lmbm_tables.rows_of("scene", data.X_train) if name == row)
    prefix = "model__estimator__" if row == "ILSVM" else "model__"
    chosen = dict(text.split("=") for text in found["chosen"].split(", "))
    pipeline.set_params(**{prefix + name: float(value) for name, value in chosen.items()})
    pipeline.fit(data.X_train[::4], data.y_train[::4].astype(int))
    expected = scores_row_by_row(data.y_test, pipeline.predict(data.X_test))
    assert 0 < min(expected) < max(expected) < 1
    assert [found[letter] for letter in "HAPRF"] == [f"{value:.4f}" for value in expected]
    shown = [f"{float(found[letter]):.3f}" for letter in "HAPRF"]
    cells = [line.split(" | ") for line in lmbm_tables.markdown(store.read()).splitlines()]
    line = next(line for line in cells if line[0] == f"| {row}")
    assert [text.split(" ")[0] for text in line[1:6]] == shown


def hinge_losses(field, coupling, margin):
    """Return the hinge losses of all label vectors, for a row, and the vectors."""
    vectors = np.array(list(itertools.product([0, 1], repeat=len(field))))
    signs = 2.0 * vectors - 1
    return np.maximum(margin - signs * (field + signs @ coupling), 0).sum(axis=1), vectors


def test_the_linear_program_finds_the_best_labels_if_it_is_tight():
    """Without pairs the relaxation is exact; with strong pairs it leaves labels at 1/2."""
    rng = np.random.default_rng(1)
    field = rng.normal(size=(30, 3))
    labels = _lmbm_relaxed.relaxed_labels(field, np.zeros((3, 3)), 5.0)
    np.testing.assert_array_equal(labels, field > 0)
    coupling = 3.0 * (1 - np.eye(3)) * np.array([[1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    losses, vectors = hinge_losses(np.full(3, 0.1), coupling, 1.0)
    assert vectors[losses.argmin()].any()
    assert not _lmbm_relaxed.relaxed_labels(np.full((1, 3), 0.1), coupling, 1.0).any()


def test_the_relaxed_machine_has_the_same_weights(data):
    options = {"C": 1.0, "pairwise_penalty": 1e6, "decode": "hinge", "random_state": 0}
    relaxed = _lmbm_relaxed.RelaxedLMBM(**options).fit(data.X_train, data.y_train)
    exact = LMBMClassifier(**options).fit(data.X_train, data.y_train)
    np.testing.assert_array_equal(relaxed.pairwise_coef_, exact.pairwise_coef_)
    np.testing.assert_array_equal(relaxed.predict(data.X_test), exact.predict(data.X_test))
