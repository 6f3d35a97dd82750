"""Handle a y of binary images, of the shape (N, height, width) or (N, n_pixels)."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcrbm.metrics import masked_score
from skcrbm.targets.kinds import MultilabelTargets, Targets, make_targets
from skcrbm.utils.labels import binary_images, flat_images, is_images, without_known


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

    def check_known(self, y_known, n_rows):
        """Return the known pixels (N, L), with NaN for unknown pixels, or None."""
        flat = self._flat(y_known, "y_known")
        if flat is not y_known and len(flat) != n_rows:
            raise ValueError(
                f"y_known must have shape {(n_rows, *self.shape)} or {(n_rows, self.n_visible)}, "
                f"got {np.shape(y_known)}"
            )
        return super().check_known(flat, n_rows)

    def accuracy(self, y, y_pred, sample_weight=None, known=None):
        """Return the share of the observed pixels that are predicted correctly."""
        y = without_known(self.encode(y), known)
        y_pred = np.reshape(y_pred, (len(y_pred), self.n_visible))
        loss = masked_score("neg_hamming_loss", y, y_pred=y_pred, sample_weight=sample_weight)
        return 1 + loss

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
