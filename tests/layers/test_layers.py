"""Dense, Local2d and Conv2d: their arguments, and which nodes they join."""

import pickle

import numpy as np
import pytest

from skcrbm.layers import Conv2d, Dense, Local2d


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dense(0),
        lambda: Dense(3, 1),
        lambda: Dense(2.5),
        lambda: Conv2d(2, 0, 1),
        lambda: Conv2d(2, 3, 0),
        lambda: Local2d(2, 3, 1, padding=-1),
        lambda: Local2d(2, (3, 3, 3), 1),
        lambda: Conv2d(2, [3, 3], 1),
        lambda: Conv2d(2, True, 1),
        lambda: Local2d(2, 3, 1, n_channels=0),
    ],
)
def test_invalid_layers(make):
    with pytest.raises(ValueError, match="must be an int"):
        make()


def test_layers_have_no_state():
    layer = Conv2d(3, (5, 3), 2, n_channels=2, padding=1)
    assert layer == Conv2d(3, (5, 3), 2, 2, 1)
    assert hash(layer) == hash(Conv2d(3, (5, 3), 2, 2, 1))
    assert pickle.loads(pickle.dumps(layer)) == layer
    with pytest.raises(AttributeError):
        layer.stride = 1


def test_windows_join_the_pixels_they_should():
    """Edges against a loop over windows, with channels, a rectangle, stride and padding."""
    layer, below = Conv2d(2, (3, 2), (2, 1), n_channels=2, padding=(1, 0)), (5, 4, 3)
    height, width, channels = layer.shape(below)
    assert (height, width, channels) == (3, 3, 2)
    expected = set()
    for y in range(height):
        for x in range(width):
            for dy in range(3):
                for dx in range(2):
                    r, c = 2 * y + dy - 1, x + dx
                    if 0 <= r < 5 and 0 <= c < 4:
                        for a in range(3):
                            for b in range(2):
                                left = (r * 4 + c) * 3 + a
                                right = (y * 3 + x) * 2 + b
                                expected.add((left, right, ((dy * 2 + dx) * 3 + a) * 2 + b))
    edges = layer.edges(below)
    found = list(zip(edges.left.tolist(), edges.right.tolist(), edges.table.tolist()))
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert edges.n_tables == 36
    local = Local2d(2, (3, 2), (2, 1), 2, (1, 0)).edges(below)
    np.testing.assert_array_equal(local.left, edges.left)
    assert local.n_tables == len(local.left) == len(np.unique(local.table))
