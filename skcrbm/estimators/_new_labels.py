"""Add labels to a fitted conditional RBM, for `partial_fit` with labels that appear later."""

from __future__ import annotations

import numpy as np

from skcrbm.estimators._base import Rows
from skcrbm.learning.data import crbm_params
from skcrbm.targets.kinds import MultilabelTargets
from skcrbm.targets.new_labels import names_with_new


def add_labels_to_targets(estimator, classes) -> None:
    """Add the labels in `classes` that the estimator does not know to its description of y."""
    targets = estimator._targets
    if not targets.indicator:
        return
    n_labels, names = names_with_new(targets, classes)
    if n_labels > targets.n_visible:
        estimator._targets = MultilabelTargets(n_labels, names)
        estimator.classes_ = estimator._targets.classes


def add_labels_to_model(estimator, rows: Rows, rng) -> None:
    """Add parameters for the labels of the rows that the model of the estimator lacks.

    The coefficients and couplings of a new label start at 0, and its intercept at the log-odds of
    its share of the rows. The label sets of earlier calls do not contain the new label.
    """
    n_known = len(estimator.visible_intercept_)
    n_new = rows.visible.shape[1] - n_known
    if n_new == 0:
        return
    start = crbm_params(rows.visible[:, n_known:], rows.weight, 0, 0, rng)
    dtype = estimator.visible_coef_.dtype
    intercept = start.visible_intercept.astype(dtype)
    sets = estimator.label_sets_
    progress = estimator._progress
    optimizer = progress.optimizer
    if optimizer is not None:
        optimizer = optimizer.with_more_rows((n_new, n_new, 0, n_new, 0))
    changes = {
        "weights_": _with_rows(estimator.weights_, n_new),
        "visible_coef_": _with_rows(estimator.visible_coef_, n_new),
        "visible_intercept_": np.concatenate([estimator.visible_intercept_, intercept]),
        "label_sets_": np.hstack([sets, np.zeros((len(sets), n_new), sets.dtype)]),
        # Drop the state of the objective, which describes only the earlier labels.
        "_progress": progress._replace(optimizer=optimizer, objective_key=(), state=None),
    }
    vars(estimator).update(changes)


def _with_rows(array, n_new):
    return np.concatenate([array, np.zeros((n_new, *array.shape[1:]), array.dtype)])
