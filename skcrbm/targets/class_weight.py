"""Convert the parameter `class_weight` to weights of labels or rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.validation import check_array

from skcrbm.utils.validation import NothingToLearnError


def row_weights(factors: np.ndarray, visible: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the row weights (N,) multiplied by class weights.

    Losses of whole rows, such as the hinge loss of a label vector, need a single weight per row. If
    `factors` is (N, V), the weight of a row is multiplied by the factors of all its observed
    labels, as in scikit-learn's forests. If `factors` is (N, 1), it holds the factor of each row.
    The weights are then scaled such that their sum stays the same.
    """
    if factors.shape[1] == 1:  # one factor for each row
        visible = visible[:, :1]
    with np.errstate(divide="ignore"):
        log = np.log(np.where(np.isnan(visible), 1.0, factors))
    total = log.sum(axis=1)  # sums of logarithms, because products of many factors overflow
    if total.max() == -np.inf:
        raise NothingToLearnError(
            "class_weight gives every row a weight of 0, so there is nothing to fit"
        )
    found = weight * np.exp(total - total.max())
    return found * (weight.sum() / found.sum())


def weights_by_label(
    class_weight: Any, visible: np.ndarray, weight: np.ndarray, names: np.ndarray | None = None
) -> np.ndarray:
    """Return a weight (N, L) for each label of each row of a 2-D y.

    `class_weight` is a list with a dict {0: weight, 1: weight} for each label, an array (L,) of
    weights of the positive class, a dict with the `names` (L,) of labels as keys, or "balanced",
    which uses the row weights `weight` (N,).
    """
    n_visible = visible.shape[1]
    if isinstance(class_weight, str):
        return np.column_stack([_balanced(column, weight) for column in visible.T])
    if isinstance(class_weight, dict):
        pairs = _pairs_by_name(class_weight, names)
    else:
        pairs = _pairs_in_order(class_weight, n_visible)
    if not (np.isfinite(pairs) & (pairs >= 0)).all():
        raise ValueError("class_weight must hold finite numbers that are not negative")
    return np.where(visible == 1, pairs[:, 1], pairs[:, 0])


def _pairs_by_name(class_weight, names):
    """Return the weights (L, 2) of the values 0 and 1 of each label.

    `class_weight` is a dict with names of labels as keys. Labels without a key have weights of 1.
    """
    if names is None:
        raise ValueError(
            "class_weight for 2-D y must be 'balanced', a list with a dict for each label, or the "
            "weights (n_outputs,) of the positive class; got a dict, which needs the names of the "
            "labels: pass y as a data frame"
        )
    place = {name: column for column, name in enumerate(names)}
    unknown = [name for name in class_weight if name not in place]
    if unknown:
        raise ValueError(
            f"class_weight holds names that are not labels of y: {unknown[:5]}; the labels are "
            f"{list(names)[:10]}{' and others' if len(names) > 10 else ''}"
        )
    pairs = np.ones((len(names), 2))
    for name, value in class_weight.items():
        if isinstance(value, dict):
            pairs[place[name]] = _pair(value)
        else:
            pairs[place[name], 1] = _number(value)
    return pairs


def _pairs_in_order(class_weight, n_visible):
    """Return the weights (L, 2) of the values 0 and 1 of each label.

    `class_weight` holds, in the order of the labels, L dicts, or L weights of the value 1.
    """
    are_dicts = {isinstance(w, dict) for w in class_weight}
    if len(are_dicts) == 2:
        raise ValueError("class_weight must hold a dict for each label or numbers, not both")
    if True in are_dicts:
        if len(class_weight) != n_visible:
            raise ValueError(
                f"class_weight must hold a dict for each of the {n_visible} labels, "
                f"got {len(class_weight)}"
            )
        return np.array([_pair(w) for w in class_weight])
    positive = check_array(
        class_weight,
        ensure_2d=False,
        ensure_min_samples=0,
        dtype=np.float64,
        input_name="class_weight",
    )
    if positive.shape != (n_visible,):
        raise ValueError(
            f"class_weight must have shape ({n_visible},), with the weight of the positive class "
            f"of each label; got {positive.shape}"
        )
    return np.column_stack([np.ones(n_visible), positive])


def _pair(value):
    """Return the weights of 0 and 1 from a dict; if a value has no entry, its weight is 1."""
    wrong = set(value) - {0, 1}
    if wrong:
        raise ValueError(f"class_weight holds keys that are not 0 or 1: {sorted(wrong, key=str)}")
    return _number(value.get(0, 1.0)), _number(value.get(1, 1.0))


def _number(value):
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"class_weight must hold numbers, got {value!r}") from error


def _balanced(column, weight):
    """Return weights (N,) that make the total weights of the values 0 and 1 in `column` equal."""
    mass = np.array([weight[column == 0].sum(), weight[column == 1].sum()])
    factor = np.divide(mass.sum(), 2.0 * mass, out=np.ones(2), where=mass > 0)
    return np.where(column == 1, factor[1], factor[0])


def weights_by_class(
    class_weight: Any, classes: np.ndarray, y: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return a weight (N, 1) for each row of a 1-D y, which depends on the class of the row.

    `class_weight` is "balanced" or a dict {class: weight}.
    """
    index = np.searchsorted(classes, y)
    if isinstance(class_weight, str):
        mass = np.bincount(index, weights=weight, minlength=len(classes))
        present = mass > 0
        factor = np.divide(mass.sum(), present.sum() * mass, out=np.ones_like(mass), where=present)
    elif isinstance(class_weight, dict):
        factor = compute_class_weight(class_weight, classes=classes, y=y)
        if not (np.isfinite(factor) & (factor >= 0)).all():
            raise ValueError("class_weight must hold finite numbers that are not negative")
    else:
        raise ValueError(
            "class_weight for 1-D y must be 'balanced' or a dict {class: weight}; "
            f"got {class_weight!r}"
        )
    return factor[index][:, None]


def refuse_balanced_weights(class_weight) -> None:
    """Raise a ValueError for ``class_weight="balanced"``, which `partial_fit` cannot support."""
    if isinstance(class_weight, str):
        raise ValueError(
            "partial_fit does not support class_weight='balanced', because it sees only a part of "
            "the rows; give the weights of the classes"
        )
