"""Store images of different sizes in flat arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class ImageArrays(NamedTuple):
    """Pixels of all images of a list, row by row, stored one image after the other."""

    values: np.ndarray  # (C, T) values of the channels
    start: np.ndarray  # (n + 1,): image c has the pixels start[c] to start[c + 1] - 1
    shapes: np.ndarray  # (n, 2) height and width of each image

    def take(self, numbers: np.ndarray) -> tuple[ImageArrays, np.ndarray]:
        """Return the images with the indices `numbers`, and the indices of their pixels."""
        lengths = np.diff(self.start)[numbers]
        start = np.concatenate([[0], np.cumsum(lengths)])
        pixels = np.arange(start[-1]) + np.repeat(self.start[numbers] - start[:-1], lengths)
        return ImageArrays(self.values[:, pixels], start, self.shapes[numbers]), pixels
