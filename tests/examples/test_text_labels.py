"""The program of the tables of tagged texts, on a few generated rows."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, jaccard_score, label_ranking_average_precision_score

from examples._harness import Rows
from examples.studies import text_labels

# These tests fit models with the program, which is slow.
pytestmark = pytest.mark.deep


@pytest.fixture
def rows(tmp_path, monkeypatch):
    models = {"logistic regression": text_labels.MODELS["logistic regression"]}
    monkeypatch.setattr(text_labels, "MODELS", models)
    path = tmp_path / "rows.csv"
    text_labels.main(["--quick", "--only", "generated", "--results", str(path)])
    return Rows(path, quick=True)


def test_scores_of_a_cell(rows):
    (row,) = rows.read().values()
    X, Y, X_test, Y_test = text_labels.load("generated", quick=True)
    assert X.shape == (400, 20000)
    assert Y_test.shape == (200, 60)
    proba = np.zeros(Y_test.shape)
    for label in range(60):
        if Y[:, label].any():
            model = LogisticRegression(solver="liblinear").fit(X, Y[:, label])
            proba[:, label] = model.predict_proba(X_test)[:, 1]
    p = np.clip(proba, 1e-7, 1 - 1e-7)
    loss = -(Y_test * np.log(p) + (1 - Y_test) * np.log(1 - p)).sum() / p.size
    assert float(row["log_loss"]) == pytest.approx(loss, abs=6e-5)
    hits = [y[np.argsort(-q, kind="stable")[:3]].sum() / 3 for y, q in zip(Y_test, proba)]
    assert float(row["P@3"]) == pytest.approx(np.mean(hits), abs=6e-5)
    labels = proba >= 0.5
    both, either = (labels & (Y_test == 1)).sum(axis=1), (labels | (Y_test == 1)).sum(axis=1)
    jaccard = np.divide(both, either, out=np.zeros(200), where=either > 0).mean()
    assert float(row["marginal Jaccard"]) == pytest.approx(jaccard, abs=6e-5)
    assert float(row["marginal empty"]) == pytest.approx((~labels.any(axis=1)).mean(), abs=6e-4)
    assert float(row["expected_f1 F1"]) > float(row["marginal F1"])
    (line,) = [s for s in text_labels.report(rows.read()).splitlines() if "regression" in s]
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells[0] == "logistic regression"
    assert cells[1:] == [row[column] for column in text_labels.COLUMNS.values()]


def test_resampled_scores_are_scores_of_repeated_rows():
    rng = np.random.default_rng(0)
    Y, labels = rng.integers(0, 2, (2, 30, 5))
    Y[3], labels[3] = 0, 0
    proba = rng.random((30, 5))
    rules = {"expected_f1": labels, "expected_jaccard": 1 - labels}
    found = text_labels.resampled(Y, proba, rules)
    counts = np.random.RandomState(0).multinomial(30, np.full(30, 1 / 30), size=200)
    for sample in (0, 17):
        rows = np.repeat(np.arange(30), counts[sample])
        y, other = Y[rows], 1 - labels[rows]
        expected = {
            "log_loss": text_labels.log_loss(y, proba[rows]),
            "LRAP": label_ranking_average_precision_score(y, proba[rows]),
            "expected_jaccard Jaccard": jaccard_score(y, other, average="samples", zero_division=0),
        }
        for name, average in (("F1", "samples"), ("micro-F1", "micro"), ("macro-F1", "macro")):
            score = f1_score(y, labels[rows], average=average, zero_division=0)
            expected[f"expected_f1 {name}"] = score
        assert {key: scores[sample] for key, scores in found.items()} == pytest.approx(expected)
