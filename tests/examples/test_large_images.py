"""The program about large images: its controls by hand, and a row of its table against a count."""

import numpy as np

from examples.studies import large_images
from skcrbm import GridCRF


def test_a_row_of_the_table_is_a_count_of_wrong_pixels(monkeypatch, capsys):
    y = large_images.blobs(12, 32, 0).astype(float)
    X = np.abs(y - (np.random.default_rng(1).random(y.shape) < 0.1))
    y[8:, :3] = np.nan
    rows = {"grid": GridCRF(max_iter=3), "median": large_images.Median()}
    monkeypatch.setitem(large_images.TASKS, "blobs", (lambda: (X[:8], y[:8], X[8:], y[8:]), rows))
    large_images.main(["--task", "blobs", "--only", "grid"])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "| grid" in line]
    found = GridCRF(max_iter=3).fit(X[:8], y[:8]).predict(X[8:])[:, 3:]
    assert line.split("|")[2].strip() == f"{100 * (found != y[8:, 3:]).mean():.2f}"
