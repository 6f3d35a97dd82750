"""y of binary images: (N, height, width), or flat as any indicator matrix."""

import math

import numpy as np

from skcrbm.metrics import masked_score
from skcrbm.targets._make import make_targets
from skcrbm.targets._multilabel import MultilabelTargets
from skcrbm.utils.labels import is_frame, with_dimensions


class ImageTargets(MultilabelTargets):
    """Binary images, whose predictions have the shape in which `fit` got them.

    Parameters
    ----------
    n_outputs : int
        Pixels of an image.
    names : ndarray (n_outputs,) or None, default=None
    shape : tuple of int, default=None
        (height, width); None: images are rows of pixels.
    """

    _saved = (*MultilabelTargets._saved, "shape")

    def __init__(self, n_outputs, names=None, shape=None):
        super().__init__(n_outputs, names)
        self.shape = (n_outputs,) if shape is None else shape

    def encode(self, y, dtype=np.float64):
        """Return y, flat or not, as (N, L) with NaN."""
        return super().encode(self._flat(y, "y"), dtype)

    def decode(self, visible):
        """Return 0/1 visible units (..., L) as images (..., *shape)."""
        return self._shaped(super().decode(visible))

    def decision(self, scores):
        """Return scores (N, L) as images (N, *shape)."""
        return self._shaped(scores)

    def proba(self, log_odds):
        """P(y_i = 1), (N, *shape)."""
        return self._shaped(super().proba(log_odds))

    def check_known(self, y_known, n_rows):
        """Known pixels (N, L) with NaN elsewhere, or None."""
        flat = self._flat(y_known, "y_known")
        if flat is not y_known and len(flat) != n_rows:
            raise ValueError(
                f"y_known must have shape {(n_rows, *self.shape)} or {(n_rows, self.n_visible)}, "
                f"got {np.shape(y_known)}"
            )
        return super().check_known(flat, n_rows)

    def accuracy(self, y, y_pred, sample_weight=None):
        """Share of the observed pixels that are right."""
        y_pred = np.reshape(y_pred, (len(y_pred), self.n_visible))
        loss = masked_score(
            "neg_hamming_loss", self.encode(y), y_pred=y_pred, sample_weight=sample_weight
        )
        return 1 + loss

    def framed(self, values, index):
        """Return a column for each pixel."""
        return super().framed(values.reshape(len(values), self.n_visible), index)

    def _flat(self, y, name):
        if not _is_images(y, name):
            return y
        shape = self.shape if len(self.shape) == 2 else None
        return flat_images(_binary(y, name), name, self.n_visible, shape)

    def _shaped(self, values):
        return values.reshape(*values.shape[:-1], *self.shape)


def make_image_targets(y, classes=None, estimator=None):
    """Do what `make_targets` does, also for images: an indicator matrix is flat images.

    Parameters
    ----------
    y, classes, estimator
        As of `make_targets`; y may be (N, height, width).

    Returns
    -------
    Targets
        `ImageTargets`, but of a 1-D y.
    """
    shape = None
    if _is_images(y, "y"):
        y = _binary(y, "y")
        shape = y.shape[1:]
        y = flat_images(y, "y")
        if y.shape[1] == 1:
            raise ValueError(
                f"y must hold images of more than one pixel, got shape {(len(y), *shape)}"
            )
    targets = make_targets(y, classes, estimator)
    return ImageTargets(targets.n_visible, targets.names, shape) if targets.multilabel else targets


def flat_images(images, name, n_pixels=None, shape=None):
    """Return images (N, height, width) as rows of pixels.

    Parameters
    ----------
    images : ndarray
    name : str
        Of the argument, for the error message.
    n_pixels : int, default=None
        Number of pixels that they should have; None: any.
    shape : tuple of int, default=None
        (height, width) that they should have; None: any.

    Returns
    -------
    ndarray (N, height * width)

    Raises
    ------
    ValueError
        If they have other dimensions, or no pixels.
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


def _is_images(y, name):
    return y is not None and not is_frame(y) and with_dimensions(y, name).ndim > 2


def _binary(images, name):
    """Return images as an ndarray; if they are grey, say what makes them binary."""
    images = np.asarray(images)
    if images.dtype.kind in "iuf" and not np.isin(images[~np.isnan(images)], (0, 1)).all():
        if np.isnan(images).any():  # which a comparison would make 0
            recipe = f"np.where(np.isnan({name}), np.nan, {name} > np.nanmax({name}) / 2)"
        else:
            recipe = f"{name} > {name}.max() / 2"
        raise ValueError(
            f"{name} must hold binary images, of 0, 1 and NaN where not observed; make grey ones "
            f"binary, as in {recipe}"
        )
    return images
