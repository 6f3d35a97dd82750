"""The benchmark of joint models and their controls: rows, choices, intervals, tables."""

import csv
import importlib
import sys

import numpy as np
import pytest

from examples._harness import Arrays
from examples.studies import _benchmark_methods as methods


@pytest.fixture(scope="module")
def report():
    pytest.importorskip("matplotlib")
    return importlib.import_module("examples.studies._benchmark_report")


def test_rows_to_choose_by_are_training_rows():
    _, _, train, test = methods.split("pairs", 1, True)
    X, _, X_test, Y_test, rows = methods.rows_of("pairs", 1, "validation", True)
    assert set(rows) <= set(train)
    assert len(X) + len(X_test) == len(train)
    assert not set(rows) & set(test)
    assert len(Y_test) == len(rows)
    *_, rows = methods.rows_of("pairs", 1, "test", True)
    np.testing.assert_array_equal(rows, test)


def fit_of(Y, p, rows):
    facts = {"fit_seconds": 2.0, "n_trees": 20, "has_empty": True}
    return {**facts, "truth": Y.astype(np.int8), "rows": rows, "marginals": p}


def stores(tmp_path, quality, n_seeds=3):
    """Fits whose marginals are as near to the truth as `quality`(method, part, seed) says."""
    found = {part: Arrays(tmp_path / part) for part in ("test", "validation")}
    for seed in range(n_seeds):
        rng = np.random.default_rng(seed)
        for part, store in found.items():
            Y = rng.integers(0, 2, (30, 4))
            rows = np.sort(rng.permutation(60)[:30])
            for method in methods.METHODS:
                q = quality(method, part, seed)
                store.add(f"pairs__{method}__seed {seed}", fit_of(Y, 0.5 + (Y - 0.5) * q, rows))
    return found


@pytest.mark.deep
def test_nothing_is_chosen_on_test_rows(report, tmp_path):
    """CRBM and chains are best in validation, LMBM and kernel SVM on test rows."""

    def quality(method, part, seed):
        good = {"validation": ("CRBM", "chains"), "test": ("LMBM", "kernel SVM")}[part]
        return 0.9 if method in good else 0.5

    fits = stores(tmp_path, quality)
    text = report.write(fits, tmp_path, ["pairs"], range(3))
    with (tmp_path / "multilabel_benchmark.csv").open(newline="") as file:
        means = {(r["method"], r["metric"]): float(r["mean"]) for r in csv.DictReader(file)}
    level = -np.log(0.75)  # of a quality of 0.5, on test rows
    for name in ("CRBM", "chains", "ours, chosen", "rival, chosen"):
        np.testing.assert_allclose(means[name, "log loss"], level, atol=1e-5)
    np.testing.assert_allclose(means["LMBM", "log loss"], -np.log(0.95), atol=1e-5)
    assert "| pairs | log loss | CRBM | 0.288 | chains | 0.288 | +0.000" in text
    assert (tmp_path / "multilabel_benchmark.png").stat().st_size > 10_000


@pytest.mark.deep
def test_the_program_runs_what_is_missing(tmp_path, monkeypatch, capsys, report):
    program = importlib.import_module("examples.studies.multilabel_benchmark")
    monkeypatch.setattr(program, "warm_up", lambda: None)
    words = ["--quick", "--results", tmp_path, "--only", "pairs", "logistic", "seed 1"]
    monkeypatch.setattr(sys, "argv", ["program", *map(str, words)])
    program.main()
    rivals = [m for m in methods.RIVALS if "logistic" in m]
    for part in ("test", "validation"):
        names = {path.name for path in (tmp_path / part).iterdir()}
        files = {f"pairs__{m}__seed_1.npz".replace(" ", "_") for m in rivals}
        assert names == files | {"quick_run"}
    assert "| logistic regression on forests |" in capsys.readouterr().out
    program.main()
    assert "fitted in" not in capsys.readouterr().out
