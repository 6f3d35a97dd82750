"""The validation of y: which kind it is."""

import numpy as np

from skcrbm.targets._classes import BinaryTargets, MulticlassTargets, class_vector, distinct_classes
from skcrbm.targets._multilabel import MultilabelTargets
from skcrbm.utils.labels import indicator_with_nan, label_names_of, with_dimensions


def make_targets(y, classes=None, estimator=None):
    """Find out what kind of y this is.

    Parameters
    ----------
    y : array-like
    classes : array-like or None
        All classes, for `partial_fit` with 1-D y.
    estimator : object, default=None
        Whose `fit` got y, for the error messages.

    Returns
    -------
    Targets

    Raises
    ------
    ValueError
        On a y that is neither an indicator matrix nor a class vector.
    """
    if y is None:
        name = "This estimator" if estimator is None else type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    names = label_names_of(y)
    y = with_dimensions(y)
    if y.ndim == 2 and y.shape[1] != 1:
        if y.shape[1] == 0:
            raise ValueError("y must have at least one output, got shape (n_samples, 0)")
        indicator = indicator_with_nan(y, dtype=np.float32)
        if len(indicator) and np.isnan(indicator).all():
            raise ValueError("y holds no observed entry: all of it is NaN")
        targets = MultilabelTargets(y.shape[1], names)
        targets.check_classes(classes)
        return targets
    if y.ndim > 2:
        raise ValueError(
            f"y must have one or two dimensions, got {y.ndim}; use y.reshape(len(y), -1), or for "
            "binary images skcrbm.ImageCRBM, which takes them as they are"
        )
    y = class_vector(y, warn=False)  # encode will
    classes = np.unique(y) if classes is None else distinct_classes(classes)
    kind = BinaryTargets if len(classes) == 2 else MulticlassTargets
    return kind(classes, names)
