"""The program of the tables of tagged texts, on a few generated rows."""

import numpy as np
import pytest
from sklearn.base import clone
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


def test_the_table_has_a_row_per_model(rows):
    (row,) = rows.read().values()
    (line,) = [s for s in text_labels.report(rows.read()).splitlines() if "regression" in s]
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells[0] == "logistic regression"
    assert cells[1:] == [row[column] for column in text_labels.COLUMNS.values()]


def test_models_of_the_table_are_unfitted():
    for model in text_labels.MODELS.values():
        assert not hasattr(clone(model), "n_features_in_")


def test_shapes():
    """The generated texts are as their names say."""
    counts, _ = text_labels.shape("word counts")
    assert counts.max() > 1
    assert (counts.data == counts.data.round()).all()
    assert (text_labels.shape("words of 0 and 1")[0].data == 1).all()
    pieces, _ = text_labels.shape("character n-grams")
    assert pieces.nnz > 4 * counts.nnz
    X, _ = text_labels.shape("words and dense columns")
    spread = X[:, -20:].toarray().std(axis=0)
    assert spread.max() > 1e5 * spread.min()
    assert text_labels.shape("200 rows, 50,000 columns")[0].shape == (300, 50000)
    dependence = [
        np.corrcoef(text_labels.shape(name)[1].T)[np.triu_indices(20, 1)].std()
        for name in ("independent labels", "strong dependence")
    ]
    assert dependence[0] < 0.03
    assert dependence[1] > 5 * dependence[0]
    share = text_labels.shape("300 labels, power law")[1].mean(axis=0)
    assert share[:10].mean() > 10 * share[-100:].mean()


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


def test_differences_are_paired():
    first = np.random.default_rng(0).normal(0.5, 0.1, 200)
    rows = {
        f"langlog {model}": {
            "LRAP": f"{score:.4f}",
            "resampled LRAP": " ".join(f"{x:.5f}" for x in first + shift),
        }
        for model, score, shift in zip(text_labels.COMPARED, (0.5, 0.52), (0.0, 0.02), strict=True)
    }
    assert text_labels.differences(rows)[-1] == "| langlog | -0.0200 (0.0000) |"
    assert text_labels.differences({}) == []
