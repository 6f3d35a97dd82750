"""Images of shapes, the factor graph that takes them apart, and contours."""

import itertools
import time

import numpy as np
import pytest
from scipy.ndimage import binary_dilation

from examples.papers._pmp_pictures import (
    deconvolution_energy,
    digit_contours,
    make_deconvolution,
)
from skcrbm.inference import infer


def naive_images(locations, features):
    n, _, height, width = locations.shape
    size = features.shape[-1]
    images = np.zeros((n, height + size - 1, width + size - 1), int)
    for i, f, a, b, u, v in np.ndindex(*locations.shape, size, size):
        images[i, a + u, b + v] |= locations[i, f, a, b] & features[f, u, v]
    return images


def naive_state(locations, features):
    """All variables of the factor graph, in the order that is documented."""
    both = locations[..., None, None] & features[:, None, None]
    images = naive_images(locations, features)
    return np.concatenate([part.ravel() for part in (locations, features, both, images)])


def test_images_of_shapes():
    images, features, locations = make_deconvolution(400, random_state=1)
    assert images.shape == (400, 14, 14)
    assert features.shape == (4, 5, 5)
    assert locations.shape == (400, 4, 10, 10)
    assert images.dtype == features.dtype == locations.dtype == np.int8
    np.testing.assert_array_equal(images[:5], naive_images(locations[:5], features))
    number = locations.sum(axis=(1, 2, 3))
    assert number.min() == 3
    # The number is near Poisson with a mean of 4; given that it is at least 3, it is 4.79 on
    # average, with a deviation of 1.6.
    assert abs(number.mean() - 4.79) < 4 * 1.6 / 20
    # The shapes: symmetric from left to right, all but the triangle from top to bottom.
    assert (features == features[:, :, ::-1]).all()
    assert (features == features[:, ::-1]).all(axis=(1, 2)).tolist() == [True, True, False, True]
    assert features.sum(axis=(1, 2)).tolist() == [16, 9, 10, 8]


def test_the_seed_decides():
    one, same, other = (make_deconvolution(5, random_state=s)[0] for s in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    np.testing.assert_array_equal(make_deconvolution(5)[0], one)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_the_graph_is_that_of_the_model(dtype):
    rng = np.random.RandomState(0)
    locations = (rng.uniform(size=(3, 2, 3, 4)) < 0.3).astype(np.int64)
    features = (rng.uniform(size=(2, 2, 2)) < 0.6).astype(np.int64)
    images = naive_images(locations, features)
    energy = deconvolution_energy(images.astype(dtype), 2, 2, 0.1, 0.25)
    assert energy.dtype == (np.float32 if dtype == np.float32 else np.float64)
    state = naive_state(locations, features)
    assert energy.n_variables == len(state)
    on, off = images.sum(), (1 - images).sum()
    expected = np.log(0.1 / 0.9) * locations.sum() + np.log(0.25 / 0.75) * features.sum()
    assert energy.score(state[None]) == pytest.approx(expected + 230 * on, rel=1e-6)
    assert off > 0
    assert (energy.field[0, -images.size :] == np.where(images.ravel(), 230, -230)).all()
    # Whatever is changed, an AND, an OR or a pixel is wrong, or the field speaks against it.
    for place in range(len(state)):
        changed = state.copy()
        changed[place] = 1 - changed[place]
        if place >= locations.size + features.size:
            assert energy.score(changed[None]) == -np.inf


def test_the_best_explanation_of_a_small_image():
    """Elimination finds the same best state as a search by hand over all shapes and places."""
    features = np.array([[[1, 1], [0, 1]]])
    locations = np.zeros((1, 1, 2, 3), int)
    locations[0, 0, 0, 0] = locations[0, 0, 1, 2] = 1
    images = naive_images(locations, features)
    energy = deconvolution_energy(images, 1, 2, 0.1, 0.4)
    best, score = None, -np.inf
    for bits in itertools.product((0, 1), repeat=10):
        at, what = np.array(bits[:6]).reshape(1, 1, 2, 3), np.array(bits[6:]).reshape(1, 2, 2)
        if np.array_equal(naive_images(at, what), images):
            here = np.log(1 / 9) * at.sum() + np.log(2 / 3) * what.sum()
            if here > score:
                best, score = naive_state(at, what), here
    found = infer(energy, "exact", returns="map").assignment
    np.testing.assert_array_equal(found[0], best)
    assert energy.score(found)[0] == pytest.approx(score + 230 * images.sum())


def test_the_full_size():
    images, _, _ = make_deconvolution()
    start = time.process_time()
    energy = deconvolution_energy(images, 5, 6, 0.01, 0.25)
    assert time.process_time() - start < 10
    assert [len(part) for part in energy.factors] == [1_458_000, 19_600]
    assert energy.n_variables == 40_680 + 1_458_000 + 19_600


def test_contours():
    rng = np.random.RandomState(0)
    images = rng.uniform(size=(4, 6, 5)) < 0.3
    contours = digit_contours(images)
    assert contours.shape == (4, 8, 7)
    assert contours.dtype == np.int8
    for image, contour in zip(images, contours, strict=True):
        padded = np.pad(image, 1)
        np.testing.assert_array_equal(contour, binary_dilation(padded) & ~padded)
