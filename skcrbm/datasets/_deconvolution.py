"""Images made of a few shapes, the factor graph that takes them apart, contours of digits."""

from numbers import Real

import numpy as np
from sklearn.utils import check_random_state

from skcrbm.datasets._checks import check_size
from skcrbm.energies import AndFactors, FactorGraphEnergy, OrFactors

_PLACES = 10  # along each side
_P_LOCATION = 0.01
_LEAST = 3  # shapes on an image
_CERTAIN = 230.0  # log-odds of a pixel that is seen
_SHAPES = """
    #####  ..#..  .....  ..#..
    #...#  ..#..  ..#..  .#.#.
    #...#  #####  .#.#.  #...#
    #...#  ..#..  #...#  .#.#.
    #####  ..#..  #####  ..#..
"""


def make_deconvolution(n_images=100, random_state=0):
    """Draw images on which four shapes are painted, each at places of its own [1]_.

    A square outline, a cross, a triangle and a diamond of 5 x 5 pixels; each of them lies
    at each of 10 x 10 places with probability 0.01. Images with less than three shapes are
    drawn again.

    Parameters
    ----------
    n_images : int, default=100
    random_state : int, RandomState or None, default=0

    Returns
    -------
    images : ndarray of int8 (n_images, 14, 14)
        0/1.
    features : ndarray of int8 (4, 5, 5)
    locations : ndarray of int8 (n_images, 4, 10, 10)
        1 where the upper left corner of a shape is.

    Raises
    ------
    ValueError
        If `n_images` is no int of at least 1.

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
    n = check_size("n_images", n_images, 1)
    rng = check_random_state(random_state)
    rows = [line.split() for line in _SHAPES.split("\n") if line.strip()]
    features = np.array([[list(part) for part in shape] for shape in zip(*rows, strict=True)])
    features = (features == "#").astype(np.int8)
    locations = np.zeros((n, len(features), _PLACES, _PLACES), np.int8)
    for image in locations:
        while image.sum() < _LEAST:
            image[...] = rng.random_sample(image.shape) < _P_LOCATION
    return _painted(locations, features), features, locations


def _painted(locations, features):
    """Images (n, h' + k - 1, w' + k - 1) of features (F, k, k) at locations (n, F, h', w')."""
    n, _, height, width = locations.shape
    size = features.shape[-1]
    images = np.zeros((n, height + size - 1, width + size - 1), np.int8)
    for image, feature, row, column in np.argwhere(locations):
        part = images[image, row : row + size, column : column + size]
        np.maximum(part, features[feature], out=part)
    return images


def deconvolution_energy(images, n_features, feature_size, p_location, p_feature):
    """Make the factor graph of unknown shapes at unknown places that explain images [1]_.

    Pixel (r, c) of an image is 1 if and only if some shape has a pixel there: it is an OR over all
    ANDs of "shape f lies at (a, b)" and "pixel (r - a, c - b) of shape f is on". The shapes are
    those of all images; a shape lies wholly within an image.

    Parameters
    ----------
    images : array-like (n, H, W)
        0/1.
    n_features : int
        Number F of shapes.
    feature_size : int
        Side k of a shape, at most H and W.
    p_location : float in (0, 1)
        Prior probability that a shape lies at a place.
    p_feature : float in (0, 1)
        Prior probability that a pixel of a shape is on.

    Returns
    -------
    FactorGraphEnergy
        One model, in float32 if the images are, else in float64. Its variables are, each in C
        order, the locations (n, F, H - k + 1, W - k + 1), the features (F, k, k), the outputs of
        the ANDs (n, F, H - k + 1, W - k + 1, k, k) and the pixels (n, H, W), which have fields
        of +230 (on) and -230 (off).

    Raises
    ------
    ValueError
        If the images are not 0/1 of this shape, a shape does not fit, or a number is out of
        range.

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
    n_features = check_size("n_features", n_features, 1)
    size = check_size("feature_size", feature_size, 1)
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
    # Which pixel the output of an AND belongs to.
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


def digit_contours(images):
    """Outlines of the figures on 0/1 images: pixels next to a figure, above, below or beside it.

    A border of one pixel is added first, so that figures may touch the edge [1]_.

    Parameters
    ----------
    images : array-like (n, H, W)
        0/1.

    Returns
    -------
    ndarray of int8 (n, H + 2, W + 2)

    Raises
    ------
    ValueError
        On another shape or other values.

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
            "images must be an array (n, H, W) of 0 and 1, none of them 0 long; binarise grey "
            f"images first, as in (images > 127); got shape {images.shape}"
        )
    return images


def _logit(name, p):
    if not isinstance(p, Real) or not 0 < p < 1:
        raise ValueError(f"{name} must be a probability between 0 and 1, got {p!r}")
    return np.log(p) - np.log1p(-p)
