"""Make images of a few shapes, a factor graph that finds these shapes, and contours of digits."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from skcrbm.energies import AndFactors, FactorGraphEnergy, OrFactors
from skcrbm.utils.validation import check_count

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


def make_deconvolution(
    n_images: int = 100, random_state: int | np.random.RandomState | None = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw images with copies of four shapes at random places [1]_.

    The shapes are a square outline, a cross, a triangle and a diamond of 5 x 5 pixels. Each shape
    lies at each of 10 x 10 places with probability 0.01. Images with fewer than three shapes are
    drawn again.

    Parameters
    ----------
    n_images : int, default=100
        Number of images.
    random_state : int, RandomState or None, default=0
        Seed of the random numbers.

    Returns
    -------
    images : ndarray of int8 (n_images, 14, 14)
        0/1 images.
    features : ndarray of int8 (4, 5, 5)
        The shapes.
    locations : ndarray of int8 (n_images, 4, 10, 10)
        1 at the upper left corner of each shape.

    Raises
    ------
    ValueError
        If `n_images` is not an int of at least 1.

    References
    ----------
    .. [1] Lazaro-Gredilla, Dedieu and George (2021). Perturb-and-max-product: sampling and
       learning in discrete energy-based models. NeurIPS.

    Examples
    --------
    >>> from skcrbm.datasets import make_deconvolution
    >>> images, features, locations = make_deconvolution(3, random_state=0)
    >>> images.shape, locations.sum(axis=(1, 2, 3))
    ((3, 14, 14), array([4, 5, 7]))
    """
    n = check_count("n_images", n_images, 1)
    rng = check_random_state(random_state)
    rows = [line.split() for line in _SHAPES.split("\n") if line.strip()]
    features = np.array([[list(part) for part in shape] for shape in zip(*rows, strict=True)])
    features = (features == "#").astype(np.int8)
    locations = np.zeros((n, len(features), _PLACES, _PLACES), np.int8)
    for image in locations:
        while image.sum() < _MIN_SHAPES:
            image[...] = rng.random_sample(image.shape) < _P_LOCATION
    return _painted(locations, features), features, locations


def _painted(locations, features):
    """Return images on which copies of features, which are small 0/1 images, are painted.

    `features` (F, k, k) holds F features of k x k pixels. `locations` (n, F, h', w') marks by 1, in
    each of n images, the upper left corner of each copy of a feature. The images of the result have
    the height h' + k - 1 and the width w' + k - 1.
    """
    n, _, height, width = locations.shape
    size = features.shape[-1]
    images = np.zeros((n, height + size - 1, width + size - 1), np.int8)
    for image, feature, row, column in np.argwhere(locations):
        part = images[image, row : row + size, column : column + size]
        np.maximum(part, features[feature], out=part)
    return images


def deconvolution_energy(
    images: ArrayLike, n_features: int, feature_size: int, p_location: float, p_feature: float
) -> FactorGraphEnergy:
    """Make the factor graph that explains images by unknown shapes at unknown places [1]_.

    Pixel (r, c) of an image is 1 if and only if some shape has a pixel there. The factor graph
    therefore has, for each pixel, an OR over all shapes f and places (a, b). The inputs of the OR
    are the ANDs of "shape f lies at (a, b)" and "pixel (r - a, c - b) of shape f is 1". All images
    share the shapes, and a shape lies entirely within an image.

    Parameters
    ----------
    images : array-like (n, H, W)
        0/1 images.
    n_features : int
        Number F of shapes.
    feature_size : int
        Side k of a shape, at most H and W.
    p_location : float in (0, 1)
        Prior probability that a shape lies at a place.
    p_feature : float in (0, 1)
        Prior probability that a pixel of a shape is 1.

    Returns
    -------
    energy : FactorGraphEnergy
        Energy with a single model, in float32 if the images are float32, else in float64. Its
        variables are, each in C order, the locations (n, F, H - k + 1, W - k + 1), the features
        (F, k, k), the outputs of the ANDs (n, F, H - k + 1, W - k + 1, k, k) and the pixels
        (n, H, W), which have fields of +230 (for 1) and -230 (for 0).

    Raises
    ------
    ValueError
        If the images are not a 3-D array of 0 and 1, a shape does not fit into an image, or a
        number is out of range.

    References
    ----------
    .. [1] Lazaro-Gredilla, Dedieu and George (2021). Perturb-and-max-product: sampling and
       learning in discrete energy-based models. NeurIPS.

    Examples
    --------
    >>> from skcrbm.datasets import deconvolution_energy, make_deconvolution
    >>> images, _, _ = make_deconvolution(2, random_state=0)
    >>> energy = deconvolution_energy(images, 5, 6, 0.01, 0.25)
    >>> energy.n_variables, energy.factors
    (30542, (AndFactors(29160 factors of 58320 inputs), OrFactors(392 factors of 29160 inputs)))
    """
    images = _check_pictures(images)
    n, height, width = images.shape
    n_features = check_count("n_features", n_features, 1)
    size = check_count("feature_size", feature_size, 1)
    if size > min(height, width):
        raise ValueError(
            f"feature_size must be at most {min(height, width)}, the smaller side of the "
            f"images; got {size}"
        )
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
            np.full(location.size, _logit("p_location", p_location)),
            np.full(feature.size, _logit("p_feature", p_feature)),
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


def digit_contours(images: ArrayLike) -> np.ndarray:
    """Return the outlines of the figures on 0/1 images.

    The outline consists of the pixels directly above, below, left and right of a figure. A border
    of one pixel is added first, so that a figure that touches the edge has an outline, too [1]_.

    Parameters
    ----------
    images : array-like (n, H, W)
        0/1 images.

    Returns
    -------
    contours : ndarray of int8 (n, H + 2, W + 2)
        0/1 images of the outlines.

    Raises
    ------
    ValueError
        If the images are not a 3-D array of 0 and 1, or the array is empty.

    References
    ----------
    .. [1] Lazaro-Gredilla, Dedieu and George (2021). Perturb-and-max-product: sampling and
       learning in discrete energy-based models. NeurIPS.

    Examples
    --------
    >>> from skcrbm.datasets import digit_contours
    >>> digit_contours([[[0, 1, 1]]])
    array([[[0, 0, 1, 1, 0],
            [0, 1, 0, 0, 1],
            [0, 0, 1, 1, 0]]], dtype=int8)
    """
    figure = np.pad(_check_pictures(images) == 1, ((0, 0), (1, 1), (1, 1)))
    near = np.zeros_like(figure)
    near[:, 1:] |= figure[:, :-1]
    near[:, :-1] |= figure[:, 1:]
    near[:, :, 1:] |= figure[:, :, :-1]
    near[:, :, :-1] |= figure[:, :, 1:]
    return (near & ~figure).astype(np.int8)


def _check_pictures(images):
    images = np.asarray(images)
    if images.ndim != 3 or images.size == 0 or not np.isin(images, (0, 1)).all():
        raise ValueError(
            "images must be an array (n, H, W) of 0 and 1 that is not empty; binarise grey "
            f"images first, as in (images > 127); got shape {images.shape}"
        )
    return images


def _logit(name: str, p: float) -> float:
    if not isinstance(p, Real) or not 0 < p < 1:
        raise ValueError(f"{name} must be a probability between 0 and 1, got {p!r}")
    return np.log(p) - np.log1p(-p)
