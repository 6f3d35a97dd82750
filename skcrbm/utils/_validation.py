"""Array checks shared by everything that takes arrays from users."""

import numpy as np


def as_float_array(array, name, shape):
    """Return `array` as a C-contiguous float32 or float64 array of the given shape.

    Parameters
    ----------
    array : array-like
    name : str
        Argument name, for the error message.
    shape : str
        What the shape should be, for the error message; its rank is the number of
        comma-separated entries.

    Returns
    -------
    ndarray

    Raises
    ------
    ValueError
        If `array` has another rank, is not real and numeric, or is not finite.
    """
    try:
        result = np.asarray(array)
        if result.dtype.kind in "biu":
            result = result.astype(np.float64)
        if result.dtype not in (np.float32, np.float64):
            if result.dtype.kind == "c":
                raise TypeError("complex values")
            result = result.astype(np.float32 if result.dtype == np.float16 else np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a real array of shape {shape}: {error}") from error
    if result.ndim != shape.count(",") + (not shape.endswith(",)")):
        raise ValueError(f"{name} must have shape {shape}, got an array of shape {result.shape}")
    if not np.isfinite(result).all():
        raise ValueError(f"{name} must be finite, of shape {shape}; it contains NaN or infinity")
    return np.ascontiguousarray(result)


def as_row_fields(array, name, width, n_label, dtype=None):
    """Return fields as (N, width): a single (width,) row becomes (1, width).

    Raises
    ------
    ValueError
        If the last axis is not `width`, or values are not finite.
    """
    result = np.asarray(array)
    shape = f"({n_label},) or (N, {n_label}) with {n_label} = {width}"
    if result.ndim not in (1, 2) or result.shape[-1] != width:
        raise ValueError(f"{name} must have shape {shape}, got an array of shape {result.shape}")
    result = as_float_array(np.atleast_2d(result), name, "(N, width)")
    return result if dtype is None else result.astype(dtype, copy=False)
