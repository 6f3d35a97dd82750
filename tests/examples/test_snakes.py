"""The program of the snakes: its images by hand, and a row of its table against a count."""

from itertools import pairwise

import numpy as np
import pytest

from examples.studies import snakes

# This test fits models with the program, which is slow.
pytestmark = pytest.mark.deep


def test_a_snake_is_a_path():
    rng = np.random.RandomState(1)
    for _ in range(20):
        colours, places = snakes.snake(rng)
        assert sorted(places[places > 0]) == list(range(1, 11))
        cells = [np.argwhere(places == place)[0] for place in range(1, 11)]
        for before, cell in pairwise(cells):
            step = snakes._STEPS[colours[tuple(cell)] - 1]
            np.testing.assert_array_equal(before + step, cell)
        graph = snakes.graph_of(colours)
        assert graph.nodes.shape == (colours.size, 45)
        assert graph.edge_features.shape == (len(graph.edges), 22)


def test_a_row_of_the_table(capsys):
    snakes.main(["--images", "40", "--only", "logistic"])
    row = capsys.readouterr().out.splitlines()[-1].split("|")
    rng = np.random.RandomState(0)
    images = [snakes.snake(rng) for _ in range(240)]
    X = [snakes.graph_of(colours) for colours, _ in images]
    y = [places.ravel() for _, places in images]
    found = snakes.Nodes().fit(X[:40], y[:40]).predict(X[40:])
    right = total = whole = 0
    for guess, truth in zip(found, y[40:]):
        right += (guess == truth)[truth > 0].sum()
        total += (truth > 0).sum()
        whole += int((guess == truth).all())
    assert float(row[2]) == pytest.approx(right / total, abs=6e-4)
    assert float(row[4]) == pytest.approx(whole / 200, abs=6e-4)
