"""The program that shows how the defaults fare: splits, rivals, scores, intervals, tables."""

import csv
import importlib
import itertools
import sys

import numpy as np
import pytest
from sklearn import metrics as skm
from sklearn.linear_model import LogisticRegression

from examples._harness import Arrays
from examples.studies import _defaults_methods as methods
from examples.studies import _defaults_report as report

SKLEARN = {
    "Hamming": skm.hamming_loss,
    "subset": skm.accuracy_score,
    "Jaccard": lambda y, p: skm.jaccard_score(y, p, average="samples", zero_division=1),
    "F1": lambda y, p: skm.f1_score(y, p, average="samples", zero_division=1),
}


def one(metric, y, p):
    """Value of one label vector against another, from the definition of the metric."""
    both, either = (y & p).sum(), (y | p).sum()
    if metric == "F1":
        return 1.0 if either == 0 else 2 * both / (y.sum() + p.sum())
    return 1.0 if either == 0 else both / either


def best_by_enumeration(metric, vectors, weight, allow_empty):
    """The label vector of the largest expected metric under a distribution."""
    n_labels = vectors.shape[1]
    candidates = np.array(list(itertools.product([0, 1], repeat=n_labels)))
    candidates = candidates if allow_empty else candidates[1:]
    values = [weight @ [one(metric, y, c) for y in vectors] for c in candidates]
    return candidates[np.argmax(values)]


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    Y = (rng.random((40, 4)) < [0.05, 0.3, 0.5, 0.6]).astype(np.int8)
    Y[:4] = 0
    good, bad = (np.clip((0.5 * Y + 0.25) + s * rng.normal(size=Y.shape), 0.01, 0.99) for s in
                 (0.1, 0.6))  # fmt: skip
    return Y, good, bad


def fit_of(Y, has_empty=True, rows=None, **found):
    """Return the record that the benchmark keeps of a fit."""
    facts = {
        "fit_seconds": 2.0,
        "truth": Y.astype(np.int8),
        "rows": np.arange(len(Y)) if rows is None else rows,
        "n_trees": 20,
        "has_empty": has_empty,
        **{f"seconds {name}": 0.1 for name in ("marginals", "subset", "Jaccard", "F1")},
    }
    return {name: np.asarray(value) for name, value in (facts | found).items()}


# --- rivals ---------------------------------------------------------------------------------


def test_one_C_of_the_least_validation_log_loss():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6))
    Y = (X[:, :2] + rng.normal(size=(120, 2)) > 0).astype(int)
    model = methods.SearchedLogistic().fit(X, Y)
    train, held = methods.validation_split(X, Y)
    losses = {}
    for C in methods.SearchedLogistic.grid:
        p = np.column_stack(
            [LogisticRegression(C=C, max_iter=1000).fit(X[train], y[train]).predict_proba(X[held])
             [:, 1] for y in Y.T]
        )  # fmt: skip
        losses[C] = skm.log_loss(Y[held].ravel(), p.ravel())
    assert min(losses, key=losses.get) == model.C_
    expected = LogisticRegression(C=model.C_, max_iter=1000).fit(X, Y[:, 1]).predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected[:, 1])


# --- scores ---------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", report.DECODED)
def test_scores_of_labels_are_those_of_scikit_learn(problem, metric):
    Y, _, bad = problem
    labels = (bad >= 0.5).astype(int)
    assert ((labels.sum(axis=1) == 0) & (Y.sum(axis=1) == 0)).any()
    found = report.score_labels(metric, Y, labels)
    assert found.shape == (40,)
    assert found.mean() == pytest.approx(SKLEARN[metric](Y, labels))


def test_scores_of_probabilities(problem):
    Y, good, _ = problem
    scores = report.score_rows(fit_of(Y, marginals=good))
    expected = skm.log_loss(Y.ravel(), good.ravel())
    assert scores["log loss"].mean() == pytest.approx(expected)
    assert scores["log-likelihood"].mean() == pytest.approx(-4 * expected)
    joint = {f"labels {m}": Y for m in ("subset", "Jaccard", "F1")}
    fit = fit_of(Y, marginals=good, log_likelihood=np.arange(40.0), **joint)
    scores = report.score_rows(fit)
    np.testing.assert_array_equal(scores["log-likelihood"], np.arange(40))
    np.testing.assert_array_equal(scores["subset"], 1)
    alone = report.score_rows(fit, independent=True)
    assert alone["log-likelihood"].mean() == pytest.approx(-4 * expected)
    assert alone["subset"].mean() < 1


@pytest.mark.parametrize("has_empty", [True, False])
def test_everyone_is_decoded_by_the_same_rules(problem, has_empty):
    Y, _, bad = problem
    p = bad * [0.2, 0.6, 0.6, 0.6]  # of which many are best left empty
    vectors = np.array(list(itertools.product([0, 1], repeat=4)))
    weight = np.where(vectors == 1, p[:, None], 1 - p[:, None]).prod(axis=2)
    by_marginals, found = report.labels_of(fit_of(Y, has_empty, marginals=p))
    np.testing.assert_array_equal(found, p)
    sets = {"sets": vectors.astype(np.int8), "sets_proba": weight}
    by_sets, _ = report.labels_of(fit_of(Y, has_empty, **sets))
    by_margins, _ = report.labels_of(fit_of(Y, has_empty, margins=np.log(p / (1 - p))))
    for metric in ("Jaccard", "F1"):
        best = [best_by_enumeration(metric, vectors, w, has_empty) for w in weight]
        np.testing.assert_array_equal(by_marginals[metric], best)
        np.testing.assert_array_equal(by_sets[metric], best)
    rows = np.arange(40)
    mode = vectors[weight.argmax(axis=1)]
    for found in (by_marginals, by_margins):
        np.testing.assert_array_equal(found["Hamming"], p >= 0.5)
        if has_empty:
            np.testing.assert_array_equal(found["subset"], mode)
        else:
            mode_with_one = vectors[1:][weight[:, 1:].argmax(axis=1)]
            np.testing.assert_array_equal(found["subset"], mode_with_one)
            assert found["subset"][rows, p.argmax(axis=1)].all()
    np.testing.assert_array_equal(by_sets["subset"], mode)
    assert (p < 0.5).all(axis=1).sum() > 5


# --- tables ---------------------------------------------------------------------------------


def stores(folder):
    return Arrays(folder / "fits"), Arrays(folder / "scores")


def test_gains_and_their_intervals(tmp_path, problem):
    """Rows are drawn with all their appearances in several splits."""
    Y, good, bad = problem
    fits, scores = stores(tmp_path)
    rows = [np.arange(25), np.arange(15, 40), np.arange(10, 35)]
    for seed, part in enumerate(rows):
        for method, p in (("CRBM", good), ("logistic regression", bad)):
            fit = fit_of(Y[part], rows=part, marginals=p[part])
            fits.add(f"pairs__{method}__seed {seed}", fit)
    found = report.Fits(fits, scores, ["pairs"], ["CRBM", "logistic regression"], range(4))
    assert found.seeds_of("pairs", "CRBM", "logistic regression") == [0, 1, 2]
    loss = {
        m: -np.log(np.where(Y == 1, p, 1 - p)).mean(axis=1) for m, p in (("g", good), ("b", bad))
    }
    for method, values in (("CRBM", loss["g"]), ("logistic regression", loss["b"])):
        expected = np.mean([values[part].mean() for part in rows])
        assert found.mean("pairs", method, "log loss") == pytest.approx(expected)
    gain, low, high = found.gains("pairs", "CRBM", "logistic regression")["log loss"]
    every = np.concatenate(rows)
    assert gain == pytest.approx((loss["b"] - loss["g"])[every].mean())
    rng = np.random.default_rng(1)
    means = []
    for _ in range(4000):
        drawn = rng.integers(40, size=40)
        index = np.concatenate([np.flatnonzero(every == row) for row in drawn])
        means.append((loss["b"] - loss["g"])[every[index]].mean())
    np.testing.assert_allclose([low, high], np.percentile(means, [2.5, 97.5]), rtol=0.1)
    assert report.verdict(low, high) == "better"
    against = found.gains("pairs", "logistic regression", "CRBM")["log loss"]
    np.testing.assert_allclose(against, [-gain, -high, -low])
    assert found.gains("pairs", "CRBM", "random forest") == {}
    text = report.write(found, tmp_path / "defaults")
    assert "| CRBM | logistic regression | 1 / 0 / 0 |" in text
    with (tmp_path / "defaults_gains.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    (row,) = (r for r in table if r["metric"] == "log loss" and r["rival"] == "logistic regression")
    assert float(row["gain"]) == pytest.approx(gain, abs=6e-6)
    assert float(row["low"]) == pytest.approx(low, abs=6e-6)
    with (tmp_path / "defaults.csv").open(newline="") as file:
        table = {(r["method"], r["metric"]): r for r in csv.DictReader(file)}
    row = table["CRBM", "log loss"]
    assert float(row["mean"]) == pytest.approx(found.mean("pairs", "CRBM", "log loss"), abs=6e-6)
    assert float(row["seed_0"]) == pytest.approx(loss["g"][:25].mean(), abs=6e-6)
    assert row["seeds"] == "3"


def run(monkeypatch, program, *words):
    monkeypatch.setattr(sys, "argv", ["program", *map(str, words)])
    importlib.import_module(program).main()


def test_the_program_runs_what_is_missing_and_reports(tmp_path, monkeypatch, capsys):
    program = "examples.studies.defaults_benchmark"
    words = ("--quick", "--rivals", "--results", tmp_path, "--only", "pairs", "seed 1")
    run(monkeypatch, program, *words)
    printed = capsys.readouterr().out
    names = sorted(path.name for path in (tmp_path / "fits").iterdir())
    files = [f"pairs__{m}__seed_1.npz".replace(" ", "_") for m in methods.RIVALS]
    assert names == sorted([*files, "quick_run"])
    assert "| pairs |" in printed
    assert printed.strip().endswith((tmp_path / "defaults.md").read_text().strip())
    run(monkeypatch, program, *words)
    assert "fitted in" not in capsys.readouterr().out
