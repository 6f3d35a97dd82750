"""Validation of the targets, predictions and weights that a score compares."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array

from skcrbm.targets.indicator import ragged_text, require_observed, require_zero_or_one
from skcrbm.targets.names import in_order_of, is_frame, label_names_of
from skcrbm.targets.proba import is_list_of_outputs, positive_columns
from skcrbm.targets.weights import checked_label_weight, is_per_label, label_layers
from skcrbm.utils.validation import check_order, filled_with_nan, na_as_nan


def dense_2d(values: Any, name: str) -> np.ndarray:
    """Return values as an array (n, L); error messages refer to them as `name`."""
    try:
        array = check_array(
            na_as_nan(filled_with_nan(values)),
            accept_sparse=True,
            dtype=(np.float64, np.float32),  # pyright: ignore[reportArgumentType]  # also a sequence
            ensure_2d=False,
            allow_nd=True,
            ensure_all_finite=False,
            input_name=name,
        )
    except ValueError as error:
        if "inhomogeneous" in str(error):
            raise ValueError(ragged_text(name)) from error
        if "string" not in str(error):
            raise
        raise ValueError(
            f"{name} should hold numbers, and targets should be 0, 1 or NaN, but {name} holds "
            "strings. If each column holds the classes of an output, score one column at a time, "
            "for example with sklearn.metrics.classification_report"
        ) from error
    if array.ndim != 2:
        raise ValueError(f"{name} should have the shape (n_samples, n_labels), got {array.shape}")
    return array.toarray() if sp.issparse(array) else array


def _check_predictions(values, name, kind, observed, target):
    """Return the predictions as an array, after checking the entries where `observed` is True.

    All other entries are set to 0.
    """
    if kind != "labels" and is_list_of_outputs(values):
        values = positive_columns(values, name=name)
    array = dense_2d(values, name)
    if array.shape != observed.shape:
        raise ValueError(
            f"{name} should have the shape of {target}, {observed.shape}, got {array.shape}"
        )
    seen = array[observed]
    if kind == "labels":
        valid, wanted = np.isin(seen, (0, 1)).all(), "0 or 1"
    elif kind == "probabilities":
        valid, wanted = ((seen >= 0) & (seen <= 1)).all(), "in [0, 1]"
    else:
        valid, wanted = np.isfinite(seen).all(), "finite"
    if not valid:
        raise ValueError(f"{name} should be {wanted} for all observed entries of {target}")
    return np.where(observed, array, array.dtype.type(0))


def _check_weight(sample_weight, n_samples, target):
    if sample_weight is None:
        return np.ones(n_samples)
    wanted = (
        f"sample_weight should hold {n_samples} finite numbers of at least 0, a number for each "
        f"row of {target}"
    )
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:  # text, or a ragged list
        raise ValueError(f"{wanted}: {error}") from error
    if weight.shape != (n_samples,) or not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError(wanted)
    return weight


def check_scored(
    kind: str, y_true, values, argument: str, sample_weight, target: str = "y_true"
) -> tuple:
    """Validate targets, predictions and weights that a user has passed; return them as arrays.

    `kind` is the kind of the predictions `values`, such as "labels" (see `Score.needs`). Error
    messages refer to `values` by the name `argument`, and to `y_true` by the name `target`.

    Returns
    -------
    y, p : ndarray (n, L)
        Targets and predictions, 0 for entries that are not observed.
    observed : ndarray (n, L) of bool
        True for observed entries in rows of positive weight.
    weight : ndarray (n,)
        Weights of the rows.

    If single labels have weights, the n rows are weighted copies of the given rows, as described in
    `masked_score`.
    """
    check_order(**{target: y_true, argument: values}, sample_weight=sample_weight)
    if is_frame(values):
        names = label_names_of(y_true) if is_frame(y_true) else np.arange(values.shape[1])
        values = in_order_of(values, names, argument)
    y = dense_2d(y_true, target)
    observed = ~np.isnan(y)
    require_zero_or_one(y[observed], target)
    p = _check_predictions(values, argument, kind, observed, target)
    if is_per_label(sample_weight):
        weight = checked_label_weight(sample_weight, y.shape, label_names_of(y_true))
        row, y, weight = label_layers(np.where(observed, y, np.nan), weight)
        p, observed = p[row], ~np.isnan(y)
        require_observed(observed, target)
        return np.where(observed, y, 0.0), np.where(observed, p, 0.0), observed, weight
    weight = _check_weight(sample_weight, len(y), target)
    observed &= (weight > 0)[:, None]
    require_observed(observed, target)
    return np.where(observed, y, 0.0), p, observed, weight


def share_of_right_rows(y_true, y_pred, sample_weight) -> float:
    """Return the share of the rows in which all observed labels are predicted correctly.

    Rows without an observed label do not count.
    """
    y, p, observed, weight = check_scored("labels", y_true, y_pred, "y_pred", sample_weight, "y")
    rows = observed.any(axis=1)
    return float(np.average((y == p).all(axis=1)[rows], weights=weight[rows]))


def share_of_right_entries(y_true, y_pred, sample_weight) -> float:
    """Return the share of the observed labels that are predicted correctly."""
    y, p, observed, weight = check_scored("labels", y_true, y_pred, "y_pred", sample_weight, "y")
    weight = np.broadcast_to(weight[:, None], y.shape)[observed]
    return 1 - float(np.average(y[observed] != p[observed], weights=weight))
