"""class_weight: factors of the loss of each visible unit of each row."""

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.validation import check_array


def weights_by_label(class_weight, visible, weight):
    """Factors (N, L) of the loss of the labels of a 2-D y; (N, 1) where all are 1.

    Parameters
    ----------
    class_weight : None, "balanced", sequence of dict or array-like (L,)
        "balanced", a dict of 0 and 1 for each label, or weights of the positive class.
    visible : ndarray (N, L) of 0, 1 and NaN
    weight : ndarray (N,)
        Row weights, for "balanced".

    Raises
    ------
    ValueError
        If `class_weight` has another form.
    """
    n_rows, n_visible = visible.shape
    if class_weight is None:
        return np.ones((n_rows, 1))
    if isinstance(class_weight, str):
        return np.column_stack([_balanced(column, weight) for column in visible.T])
    if isinstance(class_weight, dict):
        raise ValueError(
            "class_weight for 2-D y must be 'balanced', a list of one dict per label, or the "
            "weights (n_outputs,) of the positive class; got a dict"
        )
    are_dicts = {isinstance(w, dict) for w in class_weight}
    if len(are_dicts) == 2:
        raise ValueError("class_weight must hold one dict per label or numbers, not both")
    if True in are_dicts:
        if len(class_weight) != n_visible:
            raise ValueError(
                f"class_weight must hold one dict for each of the {n_visible} labels, "
                f"got {len(class_weight)}"
            )
        wrong = {key for w in class_weight for key in w} - {0, 1}
        if wrong:
            raise ValueError(f"class_weight holds keys that are not 0 or 1: {sorted(wrong)}")
        pairs = np.array([[w.get(0, 1.0), w.get(1, 1.0)] for w in class_weight], np.float64)
    else:
        positive = check_array(
            class_weight,
            ensure_2d=False,
            ensure_min_samples=0,
            dtype=np.float64,
            input_name="class_weight",
        )
        if positive.shape != (n_visible,):
            raise ValueError(
                f"class_weight must have shape ({n_visible},), a weight of the positive class "
                f"of each label; got {positive.shape}"
            )
        pairs = np.column_stack([np.ones(n_visible), positive])
    if not (np.isfinite(pairs) & (pairs >= 0)).all():
        raise ValueError("class_weight must hold finite numbers that are not negative")
    return np.where(visible == 1, pairs[:, 1], pairs[:, 0])


def _balanced(column, weight):
    """Factors (N,): half of the observed weight for each class that is there."""
    mass = np.array([weight[column == 0].sum(), weight[column == 1].sum()])
    factor = np.divide(mass.sum(), 2.0 * mass, out=np.ones(2), where=mass > 0)
    return np.where(column == 1, factor[1], factor[0])


def weights_by_class(class_weight, classes, y, weight):
    """Factors (N, 1) of the loss of a 1-D y, the same for all units of a row.

    Parameters
    ----------
    class_weight : None, "balanced" or dict of class: weight
    classes : ndarray (K,)
    y : ndarray (N,)
    weight : ndarray (N,)
        Row weights, for "balanced".

    Raises
    ------
    ValueError
        If `class_weight` has another form.
    """
    if class_weight is None:
        return np.ones((len(y), 1))
    index = np.searchsorted(classes, y)
    if isinstance(class_weight, str):
        mass = np.bincount(index, weights=weight, minlength=len(classes))
        there = mass > 0
        factor = np.divide(mass.sum(), there.sum() * mass, out=np.ones_like(mass), where=there)
    elif isinstance(class_weight, dict):
        factor = compute_class_weight(class_weight, classes=classes, y=y)
        if not (np.isfinite(factor) & (factor >= 0)).all():
            raise ValueError("class_weight must hold finite numbers that are not negative")
    else:
        raise ValueError(
            "class_weight for 1-D y must be 'balanced' or a dict of class: weight; "
            f"got {class_weight!r}"
        )
    return factor[index][:, None]
