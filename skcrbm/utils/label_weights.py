"""Replace weights of single labels by weighted copies of the rows.

Learning rules support weights of rows and missing labels, but no weights of single labels. This
module replaces a row with label weights w_1, ..., w_L by copies: one for each distinct positive
weight t. The labels of weight at least t are observed in the copy, the other labels are missing,
and the weight of the copy is the difference between t and the next smaller weight (or 0). Label i
is then observed in copies of total weight w_i. For example, a row with the label weights (1, 3)
becomes a copy of weight 1 with both labels, and a copy of weight 2 with only the second label. If
all weights of a row are equal, its only copy is the row itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skcrbm.utils.labels import in_order_of, is_frame, label_names_of
from skcrbm.utils.validation import NothingToLearnError, require_finite_sum


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
    require_finite_sum(weight)
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
