"""Weights of rows, of single labels and of classes.

Learning rules support weights of rows and missing labels, but no weights of single labels.
`label_layers` replaces a row with label weights w_1, ..., w_L by copies: one for each distinct
positive weight t. The labels of weight at least t are observed in the copy, the other labels are
missing, and the weight of the copy is the difference between t and the next smaller weight (or 0).
Label i
is then observed in copies of total weight w_i. For example, a row with the label weights (1, 3)
becomes a copy of weight 1 with both labels, and a copy of weight 2 with only the second label. If
all weights of a row are equal, its only copy is the row itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import compute_class_weight
from sklearn.utils.validation import check_array

from skcrbm.targets.names import in_order_of, is_frame, label_names_of
from skcrbm.utils.validation import NothingToLearnError, require_normal


class LabelLayers(NamedTuple):
    """Copies of rows; the first copy of each row comes before all second copies, and so on."""

    row: np.ndarray  # (M,): number of the row of each copy
    visible: np.ndarray  # (M, V): labels of each copy, with NaN for missing labels
    weight: np.ndarray  # (M,): positive weight of each copy

    @property
    def origin(self) -> np.ndarray | None:
        """Index of the original row of each copy (M,), or None if no row has several copies."""
        return None if len(np.unique(self.row)) == len(self.row) else self.row


def is_per_label(sample_weight: Any) -> bool:
    """Return True if `sample_weight` is a matrix, with a weight for each label of each row."""
    if sample_weight is None or np.isscalar(sample_weight):
        return False
    if is_frame(sample_weight):
        return True
    ndim = getattr(sample_weight, "ndim", None)
    try:
        return (np.asarray(sample_weight).ndim if ndim is None else ndim) == 2
    except ValueError:  # a ragged list, which the validation of row weights refuses
        return False


def checked_label_weight(sample_weight: Any, shape: tuple, names: Any = None) -> np.ndarray:
    """Return weights of labels as a float64 array of the given shape (N, L).

    The columns of a data frame are matched with the `names` (L,) of the labels. A ValueError is
    raised if weights are negative or not finite.
    """
    wanted = f"sample_weight must have the shape of y, {shape}, or a weight per row, ({shape[0]},)"
    given = in_order_of(sample_weight, names, "sample_weight")
    try:
        if np.ma.is_masked(given):
            raise TypeError("it has masked entries; use a weight of 0")
        if sparse.issparse(given):
            raise TypeError("it is sparse; use sample_weight.toarray()")
        weight = np.asarray(given)
        if weight.dtype.kind not in "buifO":
            raise TypeError(f"its values are of type {weight.dtype}")
        weight = weight.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{wanted}: {error}") from error
    if weight.shape != tuple(shape):
        raise ValueError(f"{wanted}; got {weight.shape}")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError("sample_weight must hold finite numbers that are not negative")
    require_normal(weight)
    return weight


def label_weight_beside(
    sample_weight: Any, y: Any, n_rows: int, names: Any, n_labels: int, columns: Any = None
) -> np.ndarray:
    """Return label weights (N, n_labels) with their columns in the order of the model's labels.

    The columns of `sample_weight` have the same order as the columns of y. `columns` are the names
    of the columns of y. It is ignored if y is a data frame, which has its own names. If it is None
    and y is not a data frame, y has all labels in the order of the model. `names` are the names of
    the labels, or None. A label without a column in y gets the weight 0.
    """
    if is_frame(y):
        columns = label_names_of(y)
    place = None if names is None else {name: i for i, name in enumerate(names)}
    if columns is None or place is None or any(name not in place for name in columns):
        return checked_label_weight(sample_weight, (n_rows, n_labels), names)
    full = np.zeros((n_rows, n_labels))
    places = [place[name] for name in columns]
    full[:, places] = checked_label_weight(sample_weight, (n_rows, len(places)), columns)
    return full


def weight_beside(sample_weight: Any, y: Any, n_rows: int, names: Any, n_labels: int) -> Any:
    """Return row weights unchanged, and label weights in the order of the labels."""
    if not is_per_label(sample_weight):
        return sample_weight
    return label_weight_beside(sample_weight, y, n_rows, names, n_labels)


def label_layers(visible: np.ndarray, weight: np.ndarray) -> LabelLayers:
    """Return weighted copies of N rows, which replace the weights of single labels.

    `visible` (N, V) holds the labels, and `weight` (N, V) their weights. The weight of a missing
    label has no effect. A row without an observed label keeps a single copy, with the largest of
    its label weights. A NothingToLearnError is raised if all weights are 0.
    """
    missing = np.isnan(visible)
    weight = np.where(missing & ~missing.all(axis=1, keepdims=True), 0.0, weight)
    if missing.all(axis=1).any():
        empty = missing.all(axis=1)
        weight[empty] = weight[empty].max(axis=1, initial=0.0, keepdims=True)
    levels = np.sort(weight, axis=1)
    steps = np.diff(levels, axis=1, prepend=0.0)
    row, place = np.nonzero(steps > 0)
    if not len(row):
        raise NothingToLearnError("sample_weight is zero for every observed label of y")
    number = np.arange(len(row)) - np.searchsorted(row, row)  # 0 at the first copy of a row
    order = np.lexsort([row, number])
    row, place = row[order], place[order]
    observed = weight[row] >= levels[row, place][:, None]
    copies = np.where(observed, visible[row], np.asarray(np.nan, visible.dtype))
    return LabelLayers(row, copies, steps[row, place])


class ItemLayers(NamedTuple):
    """Copies of rows with different numbers of items, such as sequences."""

    row: np.ndarray  # (M,): number of the row of each copy
    labels: np.ndarray  # (T,): labels of the items of all copies
    weight: np.ndarray  # (M,): positive weight of each copy


def item_layers(
    labels: np.ndarray, weight: np.ndarray, start: np.ndarray, missing: int
) -> ItemLayers:
    """Return weighted copies of rows, which replace the weights of single items.

    `labels` (T,) and `weight` (T,) belong to the items of all rows, and `start` (n + 1,) holds the
    first item of each row. Items whose label is `missing` have no label. The copies have the same
    meaning as in `label_layers`, but the copies of a row follow each other. A row without a label
    keeps a single copy, with the largest of its weights. Rows without a positive weight are left
    out.
    """
    rows, parts, weights = [], [], []
    for row, (a, b) in enumerate(pairwise(start.tolist())):
        own, w = labels[a:b], weight[a:b]
        seen = own != missing
        levels = np.unique(w[seen]) if seen.any() else w.max(initial=0.0, keepdims=True)
        before = 0.0
        for level in levels[levels > 0].tolist():
            rows.append(row)
            parts.append(np.where(w >= level, own, missing))
            weights.append(level - before)
            before = level
    if not rows:
        raise NothingToLearnError("sample_weight is zero for every observed label of y")
    return ItemLayers(np.array(rows), np.concatenate(parts), np.array(weights))


# The array `origin` (n_copies,) holds the number of the row of each copy, or is None if no row has
# several copies.


def first_copies(origin: np.ndarray | None) -> np.ndarray | slice:
    """Return the positions of the first copy of each row, in the order of the rows."""
    return slice(None) if origin is None else np.unique(origin, return_index=True)[1]


def first_copy_of_each(origin: np.ndarray | None) -> np.ndarray | slice:
    """Return for each copy the position of the first copy of its row."""
    if origin is None:
        return slice(None)
    _, first, group = np.unique(origin, return_index=True, return_inverse=True)
    return first[group]


def count_rows_of(origin: np.ndarray | None, n_copies: int) -> int:
    """Return the number of rows that the `n_copies` copies belong to."""
    return n_copies if origin is None else len(np.unique(origin))


def folds_of_copies(
    folds: Iterable[Sequence[Any]], origin: np.ndarray | None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return folds (train, test) of copies, such that all copies of a row are in the same part.

    `folds` are pairs (train, test) of arrays with indices of rows, not of copies. For example, they
    are the folds of ``visible[first_copies(origin)]``.
    """
    if origin is None:
        return list(folds)
    rows, group = np.unique(origin, return_inverse=True)

    def copies(part):
        chosen = np.zeros(len(rows), bool)
        chosen[part] = True
        return np.flatnonzero(chosen[group])

    return [(copies(train), copies(test)) for train, test in folds]


def label_weights(visible: np.ndarray, weight: np.ndarray, origin: np.ndarray | None) -> np.ndarray:
    """Return the weights (n, V) of single labels, or `weight` unchanged if there are no copies.

    The weight of a label is the total weight of the copies in which the label is observed.
    """
    if origin is None:
        return weight
    rows, group = np.unique(origin, return_inverse=True)
    found = np.zeros((len(rows), visible.shape[1]))
    np.add.at(found, group, weight[:, None] * ~np.isnan(visible))
    return found


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
