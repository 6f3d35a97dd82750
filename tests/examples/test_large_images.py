"""The program about large images: its controls by hand, and a row of its table against a count."""

import numpy as np

from examples.studies import large_images
from skcrbm import GridCRF


def test_windows_hold_the_neighbours_of_each_pixel():
    image = np.arange(30.0).reshape(5, 6)
    rows = large_images._windows(image)
    assert rows.shape == (30, 25)
    np.testing.assert_array_equal(rows[2 * 6 + 3], image[0:5, 1:6].ravel())
    assert rows[0, 0] == image.mean()


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
