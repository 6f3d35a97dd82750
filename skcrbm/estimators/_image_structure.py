"""Choose between dense weights and local weights that all positions share, for `ImageCRBM`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from skcrbm.estimators._grid_crf import GridCRF

# If structure="auto" and the images of y have more pixels than this number (32 x 32), the model is
# local. The number of dense weights grows with the square of the number of pixels, because each
# pixel of y has a weight for each pixel of X.
_MOST_DENSE_PIXELS = 1024


def is_local(structure: Any, X: Any, y: Any) -> bool:
    """Return True if `structure`, an option of `ImageCRBM`, selects the local model for X and y."""
    if structure == "dense":
        return False
    if structure != "auto":
        return True
    sizes, inputs = _shape_of(y), _shape_of(X)
    if sizes is None:  # images of different sizes
        return True
    same = inputs is None or inputs[:2] == sizes
    return len(sizes) == 2 and same and sizes[0] * sizes[1] > _MOST_DENSE_PIXELS


def _shape_of(images):
    """Return the shape that all images have, or None if the images differ in shape.

    The shape is () if all entries of the list are None.
    """
    objects = isinstance(images, np.ndarray) and images.ndim == 1 and images.dtype == object
    if not (objects or isinstance(images, (list, tuple))):
        return np.asarray(images).shape[1:]
    shapes = {np.shape(image)[:2] for image in images if image is not None}
    return shapes.pop() if len(shapes) == 1 else None if len(shapes) > 1 else ()


def local_model(structure: Any, estimator: Any, partial: bool) -> GridCRF:
    """Return an unfitted `GridCRF` with the settings of an `ImageCRBM`.

    `partial` is True in `partial_fit`, which needs a stochastic solver.
    """
    if isinstance(structure, GridCRF):
        copied: Any = clone(structure)
        return copied
    return GridCRF(
        solver="adam" if partial else "lbfgs",
        warm_start=estimator.warm_start,
        n_jobs=estimator.n_jobs,
        random_state=estimator.random_state,
        verbose=estimator.verbose,
    )
