"""Images of Lazaro-Gredilla et al. (2021): copies of shapes, and the outlines of digits."""

import numpy as np
from sklearn.utils import check_random_state

from skcrbm.energies import AndFactors, FactorGraphEnergy, OrFactors

_PLACES = 10  # number of places of a shape along each side of an image
_P_LOCATION = 0.01  # probability that a shape lies at a place
_MIN_SHAPES = 3  # images with fewer shapes are drawn again
_CERTAIN = 230.0  # absolute log-odds (field) of an observed pixel
_SHAPES = """
    #####  ..#..  .....  ..#..
    #...#  ..#..  ..#..  .#.#.
    #...#  #####  .#.#.  #...#
    #...#  ..#..  #...#  .#.#.
    #####  ..#..  #####  ..#..
"""


def log_odds(p):
    """Return the log-odds of a probability."""
    return np.log(p) - np.log1p(-p)


def painted(locations, features):
    """Return 0/1 images (n, H, W) of shapes (F, k, k) at places (n, F, h, w)."""
    n, _, height, width = locations.shape
    size = features.shape[1]
    images = np.zeros((n, height + size - 1, width + size - 1), bool)
    for row in range(size):
        for column in range(size):
            on = features[:, row, column] == 1
            images[:, row : row + height, column : column + width] |= locations[:, on].any(axis=1)
    return images


def make_deconvolution(n_images=100, random_state=0):
    """Draw images with copies of four shapes at random places.

    The shapes are a square outline, a cross, a triangle and a diamond of 5 x 5 pixels. Each shape
    lies at each of 10 x 10 places with probability 0.01. Images with fewer than three shapes are
    drawn again. The result consists of the 0/1 images (n, 14, 14), the shapes (4, 5, 5), and the
    locations (n, 4, 10, 10), which are 1 at the upper left corner of each shape.
    """
    rng = check_random_state(random_state)
    rows = [line.split() for line in _SHAPES.split("\n") if line.strip()]
    features = np.array([[list(part) for part in shape] for shape in zip(*rows, strict=True)])
    features = (features == "#").astype(np.int8)
    locations = np.zeros((n_images, len(features), _PLACES, _PLACES), np.int8)
    for image in locations:
        while image.sum() < _MIN_SHAPES:
            image[...] = rng.random_sample(image.shape) < _P_LOCATION
    return painted(locations, features).astype(np.int8), features, locations


def deconvolution_energy(images, n_features, size, p_location, p_feature):
    """Make the factor graph that explains images by unknown shapes at unknown places.

    Pixel (r, c) of an image is 1 if and only if some shape has a pixel there. The factor graph
    therefore has, for each pixel, an OR over all shapes f and places (a, b). The inputs of the OR
    are the ANDs of "shape f lies at (a, b)" and "pixel (r - a, c - b) of shape f is 1". All images
    (n, H, W) share the F shapes of k x k pixels, and a shape lies entirely within an image.
    `p_location` and `p_feature` are the prior probabilities that a shape lies at a place, and that
    a pixel of a shape is 1.

    The variables are, each in C order, the locations (n, F, H - k + 1, W - k + 1), the features
    (F, k, k), the outputs of the ANDs (n, F, H - k + 1, W - k + 1, k, k) and the pixels (n, H, W),
    which have fields of +230 (for 1) and -230 (for 0).
    """
    images = np.asarray(images)
    n, height, width = images.shape
    shape = n, n_features, height - size + 1, width - size + 1, size, size
    location = np.arange(np.prod(shape[:4])).reshape(shape[:4])
    feature = location.size + np.arange(n_features * size**2).reshape(n_features, size, size)
    first = location.size + feature.size
    output = first + np.arange(np.prod(shape))
    inputs = np.empty((*shape, 2), np.int64)
    inputs[..., 0] = location[..., None, None]
    inputs[..., 1] = feature[:, None, None]
    # Index of the pixel that the output of each AND can switch on.
    image, row, column = np.ogrid[:n, : shape[2], : shape[3]]
    place = ((image * height + row) * width + column)[:, None, :, :, None, None]
    within = np.arange(size)[:, None] * width + np.arange(size)
    pixel = np.broadcast_to(place + within, shape).reshape(-1)
    of_pixel = np.cumsum(np.bincount(pixel, minlength=images.size))
    parts = np.split(output[np.argsort(pixel, kind="stable")], of_pixel[:-1])
    field = np.concatenate(
        [
            np.full(location.size, log_odds(p_location)),
            np.full(feature.size, log_odds(p_feature)),
            np.zeros(len(output)),
            np.where(images.reshape(-1) == 1, _CERTAIN, -_CERTAIN),
        ]
    )
    return FactorGraphEnergy(
        [
            AndFactors(inputs.reshape(-1, 2), output),
            OrFactors(parts, first + len(output) + np.arange(images.size)),
        ],
        field.astype(np.float32 if images.dtype == np.float32 else np.float64),
    )


def digit_contours(images):
    """Return the outlines (n, H + 2, W + 2) of the figures on 0/1 images (n, H, W).

    The outline consists of the pixels directly above, below, left and right of a figure. A border
    of one pixel is added first, so that a figure that touches the edge has an outline, too.
    """
    figure = np.pad(np.asarray(images) == 1, ((0, 0), (1, 1), (1, 1)))
    near = np.zeros_like(figure)
    near[:, 1:] |= figure[:, :-1]
    near[:, :-1] |= figure[:, 1:]
    near[:, :, 1:] |= figure[:, :, :-1]
    near[:, :, :-1] |= figure[:, :, 1:]
    return (near & ~figure).astype(np.int8)
