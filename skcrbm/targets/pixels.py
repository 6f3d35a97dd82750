"""Convert a list of images, and a list of the labels of their pixels, to flat arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skcrbm.targets.codes import TextOfMissingError, distinct_labels, find_classes, label_array
from skcrbm.utils.ragged import ImageArrays
from skcrbm.utils.validation import check_sample_weight, filled_with_nan, hold_dates

# Largest number of classes of pixels. The time of a fit grows with the square of the number, and
# images with more values are probably grey images.
_MOST_CLASSES = 100


class ImageRows:
    """Converter of a list of images into `ImageArrays` with standardised channels.

    A NaN is replaced by the mean of its channel. If training images contain NaN, an additional
    channel marks the pixels with NaN by 1 and all other pixels by 0.
    """

    index = None  # the channels have no names

    def __init__(self):
        self.mean = self.scale = np.empty(0)
        self.has_missing = False

    @property
    def n_channels(self) -> int:
        """Number of channels, including the channel that marks pixels with NaN."""
        return len(self.mean) + self.has_missing

    def fit_transform(self, X: Any, sample_weight: Any = None) -> ImageArrays:
        """Return the arrays, and store the mean and the standard deviation of each channel.

        `sample_weight` (n,) or images of weights are weights of the images or pixels. The weights
        of images, or the largest pixel weight of each image, weight these statistics.
        """
        values, start, shapes = _stacked(X)
        weight = pixel_weights(sample_weight, ImageArrays(values, start, shapes))
        lengths = np.diff(start)
        used = lengths > 0
        if not used.any():
            raise ValueError("all images of X are empty, so there is nothing to fit")
        largest = np.maximum.reduceat(weight, start[:-1][used])
        observed = ~np.isnan(values) * np.repeat(largest, lengths[used])
        self.has_missing = bool(np.isnan(values).any())
        total = np.maximum(observed.sum(axis=1), np.finfo(float).tiny)
        self.mean = (observed * np.nan_to_num(values)).sum(axis=1) / total
        away = np.nan_to_num(values - self.mean[:, None])
        # Divide by the largest value before squaring, so that the squares cannot overflow.
        largest = np.abs(away).max(axis=1)
        away /= np.where(largest > 0, largest, 1.0)[:, None]
        self.scale = largest * np.sqrt((observed * away * away).sum(axis=1) / total)
        self.scale[self.scale <= 1e-12 * np.abs(self.mean)] = 1.0
        return self._arrays(values, start, shapes)

    def transform(self, X: Any) -> ImageArrays:
        """Return the arrays; raise a ValueError if the channels differ from those in `fit`."""
        values, start, shapes = _stacked(X)
        if len(values) != len(self.mean):
            raise ValueError(
                f"the images of X have {len(values)} channels, but the model was fitted on images "
                f"with {len(self.mean)}"
            )
        if not self.has_missing and np.isnan(values).any():
            raise ValueError(
                "X contains NaN, but the images in fit did not, so the model has learned "
                "nothing about missing pixels; fit on images with NaN in some pixels"
            )
        return self._arrays(values, start, shapes)

    def _arrays(self, values, start, shapes):
        missing = np.isnan(values)
        scaled = np.where(missing, 0.0, (values - self.mean[:, None]) / self.scale[:, None])
        if self.has_missing:
            scaled = np.vstack([scaled, missing.any(axis=0)])
        return ImageArrays(scaled, start, shapes)


def _stacked(X):
    """Return the pixels (C, T) of all images, the start of each image, and the shapes."""
    if getattr(X, "ndim", 3) == 2:
        raise ValueError(
            f"X should be a list of images, got one array of shape {X.shape}; pass [X] for a "
            "single image, or reshape rows of pixels to (n_images, height, width)"
        )
    parts, shapes = [], []
    for i, image in enumerate(images_of(X, "X")):
        try:
            image = pixel_values(image)
        except (TypeError, ValueError) as error:
            raise ValueError(f"image {i} of X should hold numbers: {error}") from error
        if image.ndim not in (2, 3) or 0 in image.shape[2:]:
            raise ValueError(
                f"image {i} of X should have the shape (height, width) or (height, width, "
                f"n_channels), got {image.shape}"
            )
        if np.isinf(image).any():
            raise ValueError(f"image {i} of X contains infinity")
        shapes.append(image.shape[:2])
        part = image.reshape(shapes[-1][0] * shapes[-1][1], *(image.shape[2:] or (1,))).T
        if parts and len(part) != len(parts[0]):
            raise ValueError(
                f"image {i} of X has {len(part)} channels, but image 0 has {len(parts[0])}"
            )
        parts.append(part)
    start = np.concatenate([[0], np.cumsum([part.shape[1] for part in parts])])
    return np.concatenate(parts, axis=1), start, np.array(shapes)


def pixel_values(image: Any) -> np.ndarray:
    """Return an image as float64, with NaN for masked pixels."""
    if issparse(image):
        raise TypeError("sparse matrices are not supported; use image.toarray()")
    image = np.asarray(filled_with_nan(image))
    if image.dtype.kind == "c":
        raise TypeError("complex numbers are not supported")
    if image.dtype.kind in "SU":
        raise TypeError("strings are not supported")
    if hold_dates(image):
        raise TypeError("dates and times are not supported")
    return image.astype(np.float64, copy=False)


def images_of(values: Any, name: str) -> list:
    """Return images as a list, or raise a ValueError if they are not a list of images."""
    if isinstance(values, (str, bytes, dict)) or not isinstance(values, Iterable):
        raise ValueError(f"{name} should be a list of images, got {type(values).__name__}")
    images = list(values)
    if not images:
        raise ValueError(f"{name} is empty; it should hold at least one image")
    return images


# ------------------------------------------------------------------------------------- labels


def pixel_labels(y: Any, shapes: np.ndarray, name: str = "y") -> list[np.ndarray]:
    """Return the labels of each image as a flat array; missing labels are NaN or None.

    None in place of an image means that all labels of the image are missing. A ValueError is raised
    if the labels of an image have another shape than the image. `name` is the name of y in errors.
    """
    images = images_of(y, name)
    if len(images) != len(shapes):
        raise ValueError(f"{name} has {len(images)} images, but X has {len(shapes)}")
    found = []
    for i, (image, shape) in enumerate(zip(images, shapes.tolist())):
        if image is None:
            found.append(np.full(shape[0] * shape[1], np.nan))
            continue
        try:
            if issparse(image):
                raise ValueError("it is sparse; use labels.toarray()")
            labels = label_array(filled_with_nan(image), f"image {i} of {name}")
        except TextOfMissingError:
            raise
        except ValueError as error:
            raise ValueError(
                f"image {i} of {name} should be an array (height, width): {error}"
            ) from error
        if labels.dtype.kind == "c":
            raise ValueError(f"image {i} of {name} holds complex numbers, which cannot be classes")
        if list(labels.shape) != shape:
            one_hot = "; if the labels are one-hot, use labels.argmax(axis=2)"
            raise ValueError(
                f"image {i} of {name} should have the shape {tuple(shape)} of image {i} of X, got "
                f"{labels.shape}{one_hot if list(labels.shape[:-1]) == shape else ''}"
            )
        found.append(labels.ravel())
    return found


def pixel_weights(sample_weight: Any, arrays: ImageArrays) -> np.ndarray:
    """Return the weight (T,) of each pixel, from weights of images (n,) or images of weights.

    A ValueError is raised if the weights are negative, not numbers, all 0, or have a wrong shape.
    """
    shapes, of_pixels = arrays.shapes, False
    if isinstance(sample_weight, Iterator):
        raise ValueError(
            "sample_weight should be an array (n_images,) or a list of images, got "
            f"{type(sample_weight).__name__}; convert it to a list"
        )
    if isinstance(sample_weight, Iterable) and not isinstance(sample_weight, (str, bytes, dict)):
        of_pixels = any(isinstance(part, (list, tuple)) or np.ndim(part) for part in sample_weight)
    if not of_pixels:
        return np.repeat(check_sample_weight(sample_weight, shapes[:, :1]), np.diff(arrays.start))
    parts = pixel_labels(sample_weight, shapes, "sample_weight")
    for i, given in enumerate(sample_weight):
        try:
            if given is None or np.ma.is_masked(given):
                raise TypeError("it has missing or masked weights; use a weight of 0")
            parts[i] = pixel_values(parts[i])
        except (TypeError, ValueError) as error:
            raise ValueError(f"image {i} of sample_weight should hold numbers: {error}") from error
    weight = np.concatenate(parts)
    return check_sample_weight(weight, weight)


def without_weightless(labels: list[np.ndarray], weight: np.ndarray, start: np.ndarray):
    """Return the flat labels of each image, with None for labels of pixels of weight 0.

    The labels of an image without a pixel of positive weight are kept, because they are classes.
    """
    parts = np.split(weight > 0, start[1:-1])
    return [
        np.where(used, part.astype(object), None) if used.any() and not used.all() else part
        for part, used in zip(labels, parts, strict=True)
    ]


def pixel_classes(labels: Iterable[np.ndarray], name: str = "y", given: bool = False) -> np.ndarray:
    """Return the sorted distinct labels of all images, without missing labels.

    `given` is True if the labels are a list of classes.
    """
    distinct = set().union(*map(distinct_labels, labels))
    classes = find_classes(distinct, name, given)
    if len(classes) > _MOST_CLASSES:
        raise ValueError(
            f"{name} holds {len(classes)} classes, and at most {_MOST_CLASSES} are possible; if "
            f"its values are grey values, make them binary, as in {name} > 127"
        )
    # Integer labels in an array with NaN are floats. Convert them to integers again, unless they
    # are so large that float64 cannot hold them exactly.
    if classes.dtype.kind == "f" and abs(classes).max() < 2**53:
        classes = classes.astype(np.int64)
    return classes


def split_images(values: np.ndarray, arrays: ImageArrays) -> list[np.ndarray]:
    """Return values (T, ...) of all pixels as a list of images (height, width, ...)."""
    pairs = pairwise(arrays.start.tolist())
    return [
        values[a:b].reshape(*shape, *values.shape[1:])
        for (a, b), shape in zip(pairs, arrays.shapes.tolist())
    ]
