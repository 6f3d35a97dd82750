"""X of estimators: their one call of scikit-learn's validation."""

import numpy as np
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _num_samples, validate_data

_FORM = "X must be a numeric array, data frame or sparse matrix (n_samples, n_features)"


def checked_features(estimator, X, *, allow_nan, reset, as_rows=None):
    """Return X as an ndarray or CSR matrix (N, D), float32 or float64, in C order.

    Parameters
    ----------
    estimator : estimator
        Gets `n_features_in_` and `feature_names_in_`, or has them.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    allow_nan, reset : bool
    as_rows : callable, default=None
        Makes rows of an ndarray X of more dimensions, which are refused without it.

    Raises
    ------
    ValueError, TypeError
        On any other X, naming it.
    """
    try:
        X = np.asarray(X) if isinstance(X, (list, tuple)) else X
        if getattr(X, "ndim", 2) > 2 and as_rows is not None:
            X = as_rows(np.asarray(X))
        if getattr(X, "ndim", 2) > 2:
            raise ValueError(
                f"{_FORM}, got {X.ndim} dimensions; use X.reshape(len(X), -1), or for images as "
                "outputs skcrbm.ImageCRBM, which takes them as they are"
            )
        if hold_dates(X):
            raise TypeError("it holds dates or times, which would silently be counts of a unit")
        with np.errstate(over="ignore", invalid="ignore"):  # of casts and sums: inf is refused
            return validate_data(
                estimator,
                X,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                order="C",
                ensure_all_finite="allow-nan" if allow_nan else True,
                reset=reset,
            )
    except (OverflowError, TypeError, ValueError) as error:
        if "X" in str(error):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{_FORM}: {error}") from error


def note_features(estimator, X):
    """Set `n_features_in_` and `feature_names_in_` of an estimator that passes X on as it is."""
    try:
        validate_data(estimator, X, skip_check_array=True)
    except (LookupError, TypeError, ValueError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{_FORM}: {error!r}") from error


def count_rows(X):
    """Return the number of rows of an X that is passed on as it is; a TypeError names it."""
    try:
        return _num_samples(X)
    except TypeError as error:
        raise TypeError(f"{_FORM}: {error}") from error


def check_same_length(X, y, *others):
    """Raise a TypeError or ValueError unless all have as many rows; None is left out."""
    try:
        check_consistent_length(X, y, *others)
    except TypeError as error:
        raise TypeError(f"X and y must be arrays with a row for each sample: {error}") from error


def hold_dates(values):
    """Whether there are dates or times in an array-like: casts to float take NumPy's for counts."""
    if hasattr(values, "dtypes") and hasattr(values, "columns"):  # a data frame, of any library
        kinds = {getattr(dtype, "kind", "") for dtype in values.dtypes}
    else:
        kinds = {getattr(getattr(values, "dtype", None), "kind", "")}
    if kinds & {"M", "m"}:
        return True
    elements = np.asarray(values, dtype=object).flat if "O" in kinds else ()
    return any(isinstance(value, (np.datetime64, np.timedelta64)) for value in elements)
