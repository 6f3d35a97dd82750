"""What every `fit` does to its rows and to what an earlier one left."""

import functools
import sys

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from skcrbm.utils.features import hold_dates


def check_sample_weight(sample_weight, X):
    """Return the weights of rows, (N,) of float64.

    Parameters
    ----------
    sample_weight : array-like (N,), float or None
    X : array or sparse matrix with N rows

    Raises
    ------
    ValueError
        On weights that are negative, no numbers, or all 0.
    """
    try:
        given = np.asarray(sample_weight)
        if hold_dates(given):
            raise TypeError("they are dates or times")
        if given.dtype.kind in "buif" and not given.any():
            raise ValueError("sample_weight is zero for every row: there is nothing to fit")
        return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    except (OverflowError, TypeError, ValueError) as error:
        if "sample_weight" in str(error):
            raise
        raise ValueError(f"sample_weight must be numbers of shape (n_samples,): {error}") from error


def weighted_rows(arrays, sample_weight):
    """Validate the weights of rows, and leave out rows of weight 0.

    Parameters
    ----------
    arrays : tuple of ndarray or CSR matrix (N, ...)
    sample_weight : array-like (N,), float or None

    Returns
    -------
    arrays : tuple
    weight : ndarray (N,), float64, positive

    Raises
    ------
    ValueError
        As of `check_sample_weight`.
    """
    weight = check_sample_weight(sample_weight, arrays[0])
    keep = weight > 0
    if keep.all():
        return arrays, weight
    return tuple(array[keep] for array in arrays), weight[keep]


def all_or_nothing(fit):
    """Decorate a method that learns: if it raises, the estimator is as it was before the call.

    An interrupt counts as raising, and comes out as one: some compiled code that it strikes
    raises an error of its own. It is the outermost decorator: what others set for the time of the
    call must be gone by then.
    """

    @functools.wraps(fit)
    def whole(estimator, *args, **kwargs):
        before, handled = dict(vars(estimator)), sys.exc_info()[1]
        try:
            try:
                return fit(estimator, *args, **kwargs)
            except BaseException:
                estimator.__dict__ = before  # in one step: no state in between can be seen
                raise
        except BaseException as error:
            estimator.__dict__ = before  # again, as an interrupt may have come before it was done
            if isinstance(error, Exception) and _interrupted(error, handled):
                raise KeyboardInterrupt from error
            raise

    return whole


def _interrupted(error, handled):
    """Whether an error came of an interrupt; `handled` is what was handled before the call."""
    seen = [handled]  # causes may form a circle
    while error is not None and not any(error is other for other in seen):
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.append(error)
        error = error.__cause__ or error.__context__
    return False


def forget(estimator, state=()):
    """Drop fitted attributes: those that end in an underscore, and those named in `state`."""
    for name in [name for name in vars(estimator) if name.endswith("_") or name in state]:
        delattr(estimator, name)


def resolved(value, automatic):
    """Return a hyperparameter, or what "auto" stands for in its place."""
    return automatic if isinstance(value, str) else value
