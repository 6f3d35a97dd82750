"""Add labels to a fitted conditional RBM, if a later call of `partial_fit` has new labels."""

from __future__ import annotations

import numpy as np

from skcrbm.estimators._base import Rows
from skcrbm.learning.data import crbm_params
from skcrbm.targets.kinds import MultilabelTargets
from skcrbm.targets.new_labels import names_with_new, refuse_unlisted_labels


def add_labels_to_targets(estimator, y, classes) -> None:
    """Add new labels in `classes` to the targets (the description of y) of an estimator.

    A ValueError is raised if y has columns of further labels, which `classes` does not list.
    """
    targets = estimator._targets
    if not targets.indicator:
        return
    n_labels, names = names_with_new(targets, classes)
    if n_labels > targets.n_visible:
        estimator._targets = MultilabelTargets(n_labels, names)
        estimator.classes_ = estimator._targets.classes
    refuse_unlisted_labels(estimator._targets, y, classes)


def add_labels_to_model(estimator, rows: Rows, rng) -> None:
    """Add parameters to the model of an estimator for new labels, the last columns of y.

    The coefficients and couplings of a new label are 0 at first. Its intercept is the log-odds of
    the share of `rows` that have the label. The label sets of earlier calls are extended by 0 for
    the new label.
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
        # Delete the state of the objective, such as Gibbs chains, because it lacks the new labels.
        "_progress": progress._replace(optimizer=optimizer, objective_key=(), state=None),
    }
    vars(estimator).update(changes)


def _with_rows(array, n_new):
    return np.concatenate([array, np.zeros((n_new, *array.shape[1:]), array.dtype)])
