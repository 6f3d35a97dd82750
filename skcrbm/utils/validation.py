"""Array checks shared by everything that takes arrays from users."""

import numpy as np


def kernel_array(array, dtype=None):
    """Return `array` in the one layout for which kernels are compiled.

    C order, aligned and writable: a read-only array is another type to the compiler,
    which would take seconds to compile every kernel again.
    """
    array = np.asarray(array)
    if array.flags.carray and (dtype is None or array.dtype == dtype):
        return array  # as training asks thousands of times
    return np.require(array, dtype, "CAW")


def as_real(array, name, shape):
    """Return `array` as a float32 or float64 ndarray.

    Parameters
    ----------
    array : array-like
    name, shape : str
        Argument name and the shape it should have, for the error message.

    Returns
    -------
    ndarray

    Raises
    ------
    ValueError
        If `array` is ragged, or not real and numeric.
    """
    try:
        result = np.asarray(array)
        if result.dtype.kind in "cSUMm":
            raise TypeError(f"values of type {result.dtype}")
        if result.dtype in (np.float32, np.float64):
            return result
        return result.astype(np.float32 if result.dtype == np.float16 else np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a real array of shape {shape}: {error}") from error


def as_float_array(array, name, shape):
    """Return `array` as a float32 or float64 array of the given rank, ready for kernels.

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
    result = as_real(array, name, shape)
    if result.ndim != shape.count(",") + (not shape.endswith(",)")):
        raise ValueError(f"{name} must have shape {shape}, got an array of shape {result.shape}")
    return _finite(result, name, shape)


def as_row_fields(array, name, width, n_label):
    """Return fields as (N, width): a single (width,) row becomes (1, width).

    Raises
    ------
    ValueError
        If the last axis is not `width`, or values are not real and finite.
    """
    shape = f"({n_label},) or (N, {n_label}) with {n_label} = {width}"
    result = as_real(array, name, shape)
    if result.ndim not in (1, 2) or result.shape[-1] != width:
        raise ValueError(f"{name} must have shape {shape}, got an array of shape {result.shape}")
    return _finite(np.atleast_2d(result), name, shape)


def _finite(array, name, shape):
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, of shape {shape}; it contains NaN or infinity")
    return kernel_array(array)
