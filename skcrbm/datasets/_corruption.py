"""Corrupt images, to make the inputs of denoising and completion tasks."""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

_PATCH_SHARE = 3 / 7  # default side of the square, as a share of the shorter side of the image


def flip_pixels(
    X: ArrayLike, rate: float, *, random_state: int | np.random.RandomState | None = None
) -> np.ndarray:
    """Flip each pixel independently with a given probability, as in noisy MNIST [1]_.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_pixels) or (n_samples, height, width)
        0/1 images.
    rate : float in [0, 1]
        Probability that a pixel is flipped.
    random_state : int, RandomState or None, default=None
        Seed of the random numbers.

    Returns
    -------
    X_corrupted : ndarray
        Copy of X with the same shape and dtype.

    Raises
    ------
    ValueError
        If X is not 2-D or 3-D with values 0 and 1, or `rate` is not a probability.

    References
    ----------
    .. [1] Ping and Ihler (2017). Belief propagation in conditional RBMs for structured
       prediction. AISTATS. Section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.datasets import flip_pixels
    >>> clean = np.zeros((100, 64))
    >>> bool(0.05 < flip_pixels(clean, 0.1, random_state=0).mean() < 0.15)
    True
    """
    X = _check_images(X)
    if not isinstance(rate, Real) or not 0 <= rate <= 1:
        raise ValueError(f"rate must be a probability in [0, 1], got {rate!r}")
    flipped = check_random_state(random_state).random_sample(X.shape) < rate
    return np.where(flipped, 1 - X, X).astype(X.dtype)


def occlude_patch(
    X: ArrayLike,
    patch_size: int | None = None,
    *,
    value: int = 0,
    image_shape: tuple[int, int] | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> np.ndarray:
    """Cover a square at a random place of each image, as in occluded MNIST [1]_.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_pixels) or (n_samples, height, width)
        0/1 images.
    patch_size : int, default=None
        Side of the square, which lies entirely within the image. None means three sevenths of the
        shorter side, for example 12 of 28 pixels as in [1]_.
    value : {0, 1}, default=0
        Colour of the square.
    image_shape : tuple of int, default=None
        Height and width of the images. If None, a 3-D X gives the height and the width, and the
        images of a 2-D X are taken as square.
    random_state : int, RandomState or None, default=None
        Seed of the random numbers.

    Returns
    -------
    X_corrupted : ndarray
        Copy of X with the same shape and dtype.

    Raises
    ------
    ValueError
        If X is not 2-D or 3-D with values 0 and 1 and one column per pixel of `image_shape`, or
        the square does not fit.

    References
    ----------
    .. [1] Ping and Ihler (2017). Belief propagation in conditional RBMs for structured
       prediction. AISTATS. Section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.datasets import occlude_patch
    >>> occluded = occlude_patch(np.ones((3, 64)), 4, random_state=0)
    >>> (occluded == 0).sum(axis=1)
    array([16, 16, 16])
    """
    X = _check_images(X)
    n_pixels = math.prod(X.shape[1:])
    if image_shape is None:
        side = math.isqrt(n_pixels)
        image_shape = X.shape[1:] if X.ndim == 3 else (side, side)
        if math.prod(image_shape) != n_pixels:
            raise ValueError(
                f"X has {n_pixels} columns, which is not a square number; pass "
                "image_shape=(height, width)"
            )
    height, width = image_shape
    if n_pixels != height * width:
        raise ValueError(
            f"X has {n_pixels} pixels, but image_shape={tuple(image_shape)} has {height * width}"
        )
    if patch_size is None:
        patch_size = round(min(height, width) * _PATCH_SHARE)
    if not isinstance(patch_size, Integral) or not 0 <= patch_size <= min(height, width):
        raise ValueError(
            f"patch_size must be an integer from 0 to {min(height, width)}, got {patch_size!r}"
        )
    if value not in (0, 1):
        raise ValueError(f"value must be 0 or 1, got {value!r}")
    rng = check_random_state(random_state)
    top = rng.randint(height - patch_size + 1, size=(len(X), 1, 1))
    left = rng.randint(width - patch_size + 1, size=(len(X), 1, 1))
    row, column = np.arange(height)[:, None], np.arange(width)
    inside = (row >= top) & (row < top + patch_size)
    inside = inside & (column >= left) & (column < left + patch_size)
    return np.where(inside.reshape(X.shape), value, X).astype(X.dtype)


def _check_images(X):
    X = np.asarray(X)
    if X.ndim not in (2, 3) or not np.isin(X, (0, 1)).all():
        raise ValueError(
            "X must be an array (n_samples, n_pixels) or (n_samples, height, width) of 0 and 1; "
            "binarise grey images first, as in (X > 127)"
        )
    return X
