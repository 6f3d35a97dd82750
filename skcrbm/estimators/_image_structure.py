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
    """Return the common shape of all images, or None if the images differ in shape.

    Entries of a list that are None are ignored. If all entries are None, the result is ().
    """
    objects = isinstance(images, np.ndarray) and images.ndim == 1 and images.dtype == object
    if not (objects or isinstance(images, (list, tuple))):
        return np.asarray(images).shape[1:]
    shapes = {np.shape(image)[:2] for image in images if image is not None}
    return shapes.pop() if len(shapes) == 1 else None if len(shapes) > 1 else ()


def local_model(structure: Any, estimator: Any, partial: bool) -> GridCRF:
    """Return an unfitted `GridCRF`, for an `ImageCRBM` with the parameter `structure`.

    If `structure` is a `GridCRF`, return a clone. Otherwise the new `GridCRF` gets `n_jobs`,
    `random_state`, `verbose` and `warm_start` from the `ImageCRBM`.

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
