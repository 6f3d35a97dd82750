"""What the multi-label benchmark makes of its fits."""

import csv
import importlib

import numpy as np
import pytest
from sklearn import metrics as skm

SCORES = {
    "Hamming": skm.hamming_loss,
    "subset": skm.accuracy_score,
    "Jaccard": lambda y, p: skm.jaccard_score(y, p, average="samples", zero_division=0),
    "F1": lambda y, p: skm.f1_score(y, p, average="samples", zero_division=0),
    "micro-F1": lambda y, p: skm.f1_score(y, p, average="micro", zero_division=0),
    "macro-F1": lambda y, p: skm.f1_score(y, p, average="macro", zero_division=0),
    "log loss": lambda y, p: skm.log_loss(y.ravel(), p.ravel(), labels=[0, 1]),
}
# Decoders, here of marginals by a threshold each.
DECODERS = {"marginal": 0.5, "expected_jaccard": 0.4, "expected_f1": 0.3}


@pytest.fixture(scope="module")
def program():
    pytest.importorskip("matplotlib")
    return importlib.import_module("examples.studies._benchmark_report")


def save(folder, method, Y, proba, decoders=tuple(DECODERS), data="pairs"):
    """A cell, whose every decoder has a threshold of its own."""
    arrays = {"truth": Y, "fit_seconds": 2.0}
    for name in decoders:
        arrays[f"labels {name}"] = (proba >= DECODERS.get(name, 0.5)).astype(np.int8)
        arrays[f"seconds {name}"] = 0.1
    if "labels" not in decoders:
        arrays["marginals"] = proba
    np.savez_compressed(folder / f"{data}__{method}.npz", **arrays)


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    Y = (rng.random((60, 4)) < [0.05, 0.3, 0.5, 0.6]).astype(int)
    Y[:4] = 0
    good, fair, bad = (np.clip((0.5 * Y + 0.25) + s * rng.normal(size=Y.shape), 0, 1) for s in
                       (0.1, 0.25, 0.6))  # fmt: skip
    return Y, good, fair, bad


def test_scores_and_intervals(program, tmp_path, problem):
    Y, good, fair, bad = problem
    for method, proba in {"mine": fair, "rival": good, "weak": bad, "truth": Y * 1.0}.items():
        save(tmp_path, method, Y, proba)
    methods = ["mine", "rival", "weak", "truth"]
    report = program.Report(tmp_path, ["pairs", "groups"], methods, {"mine"}, "truth")
    draws = np.random.default_rng(0).multinomial(60, np.full(60, 1 / 60), 2000)
    decoded = {name: lambda p, t=t: (p >= t) * 1 for name, t in DECODERS.items()}
    decoded["marginals"] = lambda p: p
    report.write(tmp_path / "out")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * (3 * 6 + 1)
    probas = {"mine": fair, "rival": good, "weak": bad, "truth": Y * 1.0}
    for row in rows:
        score, decode = SCORES[row["metric"]], decoded[row["decoder"]]
        value = score(Y, decode(probas[row["method"]]))
        assert float(row["score"]) == pytest.approx(value, abs=6e-6)
        if row["method"] != "mine":
            assert row["best_rival"] == row["gain"] == ""
            continue
        sign = -1 if row["metric"] in ("Hamming", "log loss") else 1
        rivals = {
            (m, d): score(Y, decoded[d](probas[m]))
            for m in ("rival", "weak")
            for d in decoded
            if (d == "marginals") == (row["metric"] == "log loss")
        }
        best = max(rivals, key=lambda key: sign * rivals[key])
        assert rivals[row["best_rival"], row["rival_decoder"]] == rivals[best]
        assert float(row["gain"]) == pytest.approx(sign * (value - rivals[best]), abs=6e-6)
        mine, theirs = (
            report.cells["pairs", method].scores[row["metric"], decoder]
            for method, decoder in (("mine", row["decoder"]), best)
        )
        for draw, found in zip(draws[:5], mine[1:], strict=False):
            copies = np.repeat(np.arange(60), draw)
            assert found == pytest.approx(score(Y[copies], decode(fair)[copies]))
        # Paired: both scores of a difference are of the same bootstrap sample.
        low, high = np.percentile(sign * (mine - theirs)[1:], [2.5, 97.5])
        assert float(row["gain_low"]) == pytest.approx(low, abs=6e-6)
        assert float(row["gain_high"]) == pytest.approx(high, abs=6e-6)
    text = (tmp_path / "out.md").read_text(encoding="utf-8")
    (mine,) = (line for line in text.splitlines() if line.startswith("| *mine* |"))
    assert "−" in mine
    assert "+" not in mine
    assert "| worse |" in text
    assert "| better |" not in text
    assert (tmp_path / "out.png").stat().st_size > 1000


def test_what_is_better_is_marked_so(program, tmp_path, problem):
    Y, good, _, bad = problem
    save(tmp_path, "mine", Y, good)
    save(tmp_path, "rival", Y, bad)
    report = program.Report(tmp_path, ["pairs"], ["mine", "rival"], {"mine"}, "truth")
    lines = list(report.markdown())
    (mine,) = (line for line in lines if line.startswith("| *mine* |"))
    assert mine.count(" +") >= 6
    assert "−" not in mine
    assert sum("| better |" in line for line in lines) >= 6


@pytest.mark.parametrize("done", [(), ("truth",), ("svm",), ("svm", "truth")])
def test_reports_on_what_is_there(program, tmp_path, problem, done):
    Y, good, *_ = problem
    for method in done:
        save(tmp_path, method, Y, good, ("labels",) if method == "svm" else tuple(DECODERS))
    report = program.Report(tmp_path, ["pairs"], ["mine", "svm", "truth"], {"mine"}, "truth")
    report.write(tmp_path / "out")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert len(lines) == 1 + sum(6 if method == "svm" else 19 for method in done)
