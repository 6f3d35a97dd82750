"""Handle a y of binary images, of the shape (N, height, width) or (N, n_pixels)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skcrbm.targets.indicator import with_dimensions, without_known
from skcrbm.targets.kinds import MultilabelTargets, Targets, make_targets
from skcrbm.targets.names import is_frame
from skcrbm.targets.scored import share_of_right_entries
from skcrbm.utils.advice import supporting
from skcrbm.utils.validation import count_rows


def is_images(y: Any, name: str) -> bool:
    """Return True if y has more than two dimensions."""
    return y is not None and not is_frame(y) and with_dimensions(y, name).ndim > 2


def binary_images(images: Any, name: str) -> np.ndarray:
    """Return images as an ndarray, after checking that they are binary.

    A ValueError about grey images recommends a conversion.
    """
    images = np.asarray(with_dimensions(images, name))
    if images.dtype.kind in "iuf" and np.isin(images, (-1, 0, 1)).all() and (images < 0).any():
        raise ValueError(
            f"{name} must hold binary images of 0 and 1, with NaN for pixels that are not "
            f"observed, but it holds -1. If -1 means unknown, put NaN in its place, as in "
            f"np.where({name} == -1, np.nan, {name}); if it means off, use {name} == 1"
        )
    if images.dtype.kind in "iuf" and not np.isin(images[~np.isnan(images)], (0, 1)).all():
        if np.isnan(images).any():  # a plain comparison would turn NaN into 0
            recipe = f"np.where(np.isnan({name}), np.nan, {name} > np.nanmax({name}) / 2)"
        else:
            recipe = f"{name} > {name}.max() / 2"
        raise ValueError(
            f"{name} must hold binary images of 0 and 1, with NaN for pixels that are not "
            f"observed. Convert grey images, as in {recipe}; for classes of pixels use "
            f"{supporting('images of classes')}"
        )
    return images


def flat_images(
    images: np.ndarray,
    name: str,
    n_pixels: int | None = None,
    shape: tuple[int, int] | None = None,
) -> np.ndarray:
    """Return images (N, height, width) as rows of pixels (N, height * width).

    A ValueError is raised if the images have no pixels, if their number of pixels is not
    `n_pixels`, or if their size is not `shape`, (height, width). None allows any number or size.
    """
    found = images.shape[1:]
    pixels = math.prod(found)
    fits = shape in (None, found) and n_pixels in (None, pixels)
    if len(found) == 2 and pixels > 0 and fits:
        return images.reshape(len(images), pixels)
    if n_pixels is None:
        wanted = "(n_samples, height, width) or (n_samples, n_pixels)"
    elif shape is None:
        wanted = f"(n_samples, height, width) of {n_pixels} pixels or (n_samples, {n_pixels})"
    else:
        wanted = f"(n_samples, {shape[0]}, {shape[1]}) as in fit, or (n_samples, {n_pixels})"
    raise ValueError(f"{name} must have shape {wanted}, got {images.shape}")


def make_image_targets(y: Any, classes: Any = None, estimator: Any = None) -> Targets:
    """Return the `Targets` of a y that may be (N, height, width); see `make_targets`.

    The rows of a 2-D y are the pixels of images. The result is an `ImageTargets`, or if y is 1-D
    the result of `make_targets`.
    """
    shape = None
    if is_images(y, "y"):
        y = binary_images(y, "y")
        shape = y.shape[1:]
        y = flat_images(y, "y")
        if y.shape[1] == 1:
            raise ValueError(
                f"y must hold images of more than one pixel, got shape {(len(y), *shape)}"
            )
    targets = make_targets(y, classes, estimator)
    return ImageTargets(targets.n_visible, targets.names, shape) if targets.multilabel else targets


def flat_weights(sample_weight: Any) -> Any:
    """Return weights of pixels (N, height, width) as an array (N, n_pixels); keep other weights."""
    try:
        weight = np.asanyarray(sample_weight)
    except ValueError:  # a ragged list, which the validation of row weights refuses
        return sample_weight
    if weight.ndim < 3:
        return sample_weight
    if np.ma.is_masked(weight):
        raise ValueError("sample_weight must not have masked entries; use a weight of 0")
    return flat_images(np.asarray(weight), "sample_weight")


class ImageTargets(MultilabelTargets):
    """Targets of binary images; predictions have the shape of the images in `fit`.

    `n_outputs` is the number of pixels; `shape` is (height, width), or None if y is 2-D.
    """

    _saved = (*MultilabelTargets._saved, "shape")

    def __init__(self, n_outputs: int, names=None, shape: tuple[int, int] | None = None):
        super().__init__(n_outputs, names)
        self.shape = (n_outputs,) if shape is None else shape

    def encode(self, y, dtype=np.float64):
        """Return images, or rows of pixels, as an array (N, L) with NaN for missing pixels."""
        return super().encode(self._flat(y, "y"), dtype)

    def decode(self, visible):
        """Return 0/1 visible units (..., L) as images (..., *shape)."""
        return self._shaped(super().decode(visible))

    def decision(self, scores):
        """Return scores (N, L) as images (N, *shape)."""
        return self._shaped(scores)

    def proba(self, log_odds):
        """Return the probabilities P(y_i = 1) as images (N, *shape)."""
        return self._shaped(super().proba(log_odds))

    def log_proba(self, log_odds):
        """Return the log-probabilities log P(y_i = 1) as images (N, *shape)."""
        return self._shaped(super().log_proba(log_odds))

    def warn_of_one_value(self, visible):
        """Do nothing, because pixels that are always 0 or always 1 are common."""

    def check_known(self, y_known, X):
        """Return the known pixels (N, L), with NaN for unknown pixels, or None."""
        flat = self._flat(y_known, "y_known")
        n_rows = count_rows(X)
        if flat is not y_known and len(flat) != n_rows:
            raise ValueError(
                f"y_known must have shape {(n_rows, *self.shape)} or {(n_rows, self.n_visible)}, "
                f"got {np.shape(y_known)}"
            )
        return super().check_known(flat, X)

    def accuracy(self, y, y_pred, sample_weight=None, known=None):
        """Return the share of the observed pixels that are predicted correctly."""
        y = without_known(self.encode(y), known)
        y_pred = np.reshape(y_pred, (len(y_pred), self.n_visible))
        return share_of_right_entries(y, y_pred, sample_weight)

    def framed(self, values, index, container="pandas"):
        """Return a data frame with a column for each pixel."""
        return super().framed(values.reshape(len(values), self.n_visible), index, container)

    def _flat(self, y, name):
        if not is_images(y, name):
            return y
        shape = self.shape if len(self.shape) == 2 else None
        return flat_images(binary_images(y, name), name, self.n_visible, shape)

    def _shaped(self, values):
        return values.reshape(*values.shape[:-1], *self.shape)
