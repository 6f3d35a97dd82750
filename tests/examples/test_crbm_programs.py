"""The programs of the conditional RBMs' tables and figures, on a few small images."""

import numpy as np
import pytest

from examples.papers import crbm_figures, crbm_tables
from skcrbm import CRBMClassifier

SIZE = crbm_tables.SIZES["quick"]._replace(n_hidden=2, n_train=40, max_iter=3)


@pytest.fixture(autouse=True)
def images(monkeypatch):
    """16 pixels, of which a tenth is flipped."""

    def small(task, size):
        rng = np.random.default_rng(0)
        pairs = []
        for n_images in (size.n_train, 30, 30):
            clean = (rng.random((n_images, 1)) < [0.2, 0.8] * 8).astype(np.float32)
            pairs.append((np.abs(clean - (rng.random(clean.shape) < 0.1)), clean))
        return pairs

    for program in (crbm_tables, crbm_figures):
        monkeypatch.setattr(program, "task_images", small)


def run(tmp_path, settings=((0.05, 0), (0.15, 0)), method="CD-1"):
    result, files = crbm_tables.run("noisy", method, SIZE, 1, tmp_path, list(settings))
    result = {name: value for name, value in result.items() if "seconds" not in name}
    return result, list(files)


def test_an_interrupted_cell_goes_on_where_it_was(tmp_path, monkeypatch):
    expected, files = run(tmp_path / "whole")
    assert [file.exists() for file in files] == [True, True]
    partial_fit, calls = CRBMClassifier.partial_fit, []

    def interrupted(self, X, Y):
        calls.append(self.solver.learning_rate)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return partial_fit(self, X, Y)

    monkeypatch.setattr(CRBMClassifier, "partial_fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts")
    assert calls == [0.05] * 3 + [0.15] * 2
    found, _ = run(tmp_path / "parts")
    assert calls == [0.05] * 3 + [0.15] * 4
    assert found == expected


def test_rates_that_diverge_are_left_out_and_named_if_all_do(tmp_path, monkeypatch):
    partial_fit = CRBMClassifier.partial_fit

    def diverges(self, X, Y):
        if self.solver.learning_rate > 0.1:
            raise FloatingPointError("training diverged")
        return partial_fit(self, X, Y)

    monkeypatch.setattr(CRBMClassifier, "partial_fit", diverges)
    result, _ = run(tmp_path)
    assert result["rate"] == 0.05
    with pytest.raises(FloatingPointError, match=r"noisy, CD-1: each of \[\(0.15, 0\)\] diverges"):
        run(tmp_path, [(0.15, 0)])


def test_points_of_the_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(crbm_figures, "OUTPUT", tmp_path)
    rows = {}
    for method in ("LR", "CD-10", "MLE-BP", crbm_figures.STRICT):
        rows[method] = crbm_figures.run(8, method, SIZE)
        assert len(rows[method]["converged"].split()) == SIZE.max_iter
    picture = tmp_path / "picture.png"
    table = crbm_figures.report(picture, rows)
    assert picture.stat().st_size > 1000
    for method in ("LR", "CD-10", "MLE-BP"):
        every, changed = float(rows[method]["all"]), float(rows[method]["changed"])
        assert 0 < every < 50
        assert f"| {method} |  | {every:.2f} / {changed:.2f} |" in table
