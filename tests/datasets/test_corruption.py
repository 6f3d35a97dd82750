"""Images with flipped or covered pixels."""

import numpy as np
import pytest

from skcrbm.datasets import flip_pixels, occlude_patch


def test_flip_pixels():
    X = np.random.RandomState(0).randint(2, size=(400, 100)).astype(np.float32)
    flipped = flip_pixels(X, 0.2, random_state=1)
    assert flipped.dtype == X.dtype
    # 40000 draws: five standard errors.
    assert abs((flipped != X).mean() - 0.2) < 5 * np.sqrt(0.2 * 0.8 / 40000)
    np.testing.assert_array_equal(flipped, flip_pixels(X, 0.2, random_state=1))
    np.testing.assert_array_equal(flip_pixels(X, 0), X)
    np.testing.assert_array_equal(flip_pixels(X, 1), 1 - X)


@pytest.mark.parametrize("value", [0, 1])
def test_occlude_patch(value):
    X = np.full((500, 28 * 28), 1 - value)
    occluded = occlude_patch(X, 12, value=value, random_state=0).reshape(-1, 28, 28)
    painted = occluded == value
    assert (painted.sum((1, 2)) == 144).all()
    rows, columns = painted.any(2), painted.any(1)
    assert (rows.sum(1) == 12).all()
    assert (columns.sum(1) == 12).all()
    # All 17 places along each side occur.
    assert len(np.unique(rows.argmax(1))) == len(np.unique(columns.argmax(1))) == 17
    np.testing.assert_array_equal(occlude_patch(X, 0), X)
    tall = occlude_patch(np.ones((3, 20)), 2, image_shape=(10, 2), random_state=0)
    assert ((tall == 0).sum(1) == 4).all()


def test_defaults_fit_the_image():
    digits = np.ones((5, 64), np.int8)
    occluded = occlude_patch(digits, random_state=0)
    assert ((occluded == 0).sum(1) == 9).all()  # 3 x 3 of 8 x 8
    assert (occlude_patch(np.ones((4, 784)), random_state=0) == 0).sum() == 4 * 12**2
    images = occlude_patch(digits.reshape(-1, 8, 8), random_state=0)
    np.testing.assert_array_equal(images.reshape(-1, 64), occluded)
    assert images.dtype == np.int8
    assert ((occlude_patch(np.ones((2, 4, 16)), 3) == 0).sum((1, 2)) == 9).all()
    flipped = flip_pixels(digits, 0.3, random_state=0)
    images = flip_pixels(digits.reshape(-1, 8, 8), 0.3, random_state=0)
    np.testing.assert_array_equal(images.reshape(-1, 64), flipped)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X: flip_pixels(X, 1.5), "rate must be a probability"),
        (lambda X: flip_pixels(X[0], 0.1), "X must be an array .n_samples, n_pixels. or"),
        (lambda X: flip_pixels(2 * X, 0.1), "binarise grey images"),
        (
            lambda X: occlude_patch(X[:, :15], 2),
            "15 columns, which is not a square number; pass image",
        ),
        (
            lambda X: occlude_patch(X, 2, image_shape=(5, 3)),
            "X has 16 pixels, but image_shape=.5, 3. has 15",
        ),
        (lambda X: occlude_patch(X, 5, image_shape=(4, 4)), "patch_size must be an integer from 0"),
        (lambda X: occlude_patch(X, 2, image_shape=(4, 4), value=2), "value must be 0 or 1"),
    ],
)
def test_corruption_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call(np.ones((3, 16)))
