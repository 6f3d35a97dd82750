"""The gate for y: what users pass, as 0/1 visible units with NaN where not observed."""

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from skcrbm.utils._indicator import indicator_with_nan


class IndicatorTargets:
    """2-D y: L binary outputs.

    Attributes
    ----------
    classes : ndarray (L, 2)
    """

    kind = "multilabel"

    def __init__(self, n_outputs):
        self.n_visible = n_outputs
        self.classes = np.tile(np.array([0, 1]), (n_outputs, 1))

    def encode(self, y):
        """Return y as (N, L) float with NaN; refuse another number of outputs."""
        if not hasattr(y, "ndim"):
            y = np.asarray(y)
        if y.ndim != 2 or y.shape[1] != self.n_visible:
            raise ValueError(
                f"y must have shape (n_samples, {self.n_visible}) as in the first fit, "
                f"got {y.shape}"
            )
        return indicator_with_nan(y)

    def decode(self, visible):
        """Labels (N, L) of 0/1 visible units."""
        return visible.astype(np.int64)


class ClassTargets:
    """1-D y: one binary unit for two classes, else a one-hot group of K units.

    Parameters
    ----------
    classes : ndarray (K,)
    """

    def __init__(self, classes):
        self.classes = classes
        self.kind = "binary" if len(classes) == 2 else "multiclass"
        self.n_visible = 1 if len(classes) == 2 else len(classes)

    def encode(self, y):
        """Return 0/1 visible units (N, 1) or one-hot (N, K); refuse new classes."""
        y = _class_vector(y, warn=True)
        unknown = np.setdiff1d(y, self.classes)
        if len(unknown):
            raise ValueError(f"y holds classes that were not given at first: {unknown.tolist()}")
        index = np.searchsorted(self.classes, y)
        if self.kind == "binary":
            return index[:, None].astype(np.float64)
        return np.eye(self.n_visible)[index]

    def decode(self, visible):
        """Labels (N,) of 0/1 visible units."""
        index = visible[:, 0] if self.kind == "binary" else visible.argmax(axis=1)
        return self.classes[np.asarray(index, dtype=np.intp)]


def _class_vector(y, warn):
    """1-D y, NaN refused; a column is taken, with scikit-learn's warning if asked for."""
    y = column_or_1d(y.toarray() if sparse.issparse(y) else y, warn=warn)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError(
            "y contains NaN or infinity; only a 2-D indicator y may hold NaN (not observed)"
        )
    if y.dtype == object and any(v is None or v != v for v in y):
        raise ValueError("y contains NaN or None; only a 2-D indicator y may hold NaN")
    try:
        check_classification_targets(y)
    except TypeError as error:
        raise ValueError(f"y must hold labels of one type, which can be sorted: {error}") from error
    return y


def make_targets(y, classes=None):
    """Find out what kind of y this is.

    Parameters
    ----------
    y : array-like
    classes : array-like or None
        All classes, for `partial_fit` with 1-D y.

    Returns
    -------
    IndicatorTargets or ClassTargets

    Raises
    ------
    ValueError
        On a y that is neither an indicator matrix nor a class vector.
    """
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    if not hasattr(y, "ndim"):
        y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] != 1:
        if y.shape[1] == 0:
            raise ValueError("y must have at least one output, got shape (n_samples, 0)")
        indicator = indicator_with_nan(y)
        if len(indicator) and np.isnan(indicator).all():
            raise ValueError("y holds no observed entry: all of it is NaN")
        return IndicatorTargets(y.shape[1])
    if y.ndim > 2:
        raise ValueError(f"y must have one or two dimensions, got {y.ndim}")
    y = _class_vector(y, warn=False)  # encode will
    return ClassTargets(np.unique(y if classes is None else classes))
