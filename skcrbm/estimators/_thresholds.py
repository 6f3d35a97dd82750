"""Thresholds on a learner's own marginals, by cross-validation within the training rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skcrbm.decoding.rules import Threshold, resolve_decoder
from skcrbm.model_selection import MultilabelStratifiedKFold
from skcrbm.model_selection.folds import out_of_fold
from skcrbm.utils.columns import SCALES
from skcrbm.utils.labels import ONE_VALUE
from skcrbm.utils.warnings import warn_user

_N_FOLDS = 5


def update_thresholds(
    estimator, fold_settings: Callable, weight, rng, interrupted: bool = False
) -> None:
    """Set `thresholds_` at the end of a fit whose `decode` is a `Threshold`, unless y is 1-D.

    `fold_settings` returns X, visible and changes for `cross_validated_thresholds`. After an
    interrupt, of the fit or of the folds, the thresholds are 0.5, with a warning, because the model
    was trained and has to predict.
    """
    if not estimator._targets.multilabel:
        return
    rule: Any = resolve_decoder(estimator.decode)
    try:
        if interrupted:
            raise KeyboardInterrupt
        X, visible, changes = fold_settings()
        estimator.thresholds_ = cross_validated_thresholds(
            estimator, rule, X, visible, weight, rng, changes
        )
    except KeyboardInterrupt:
        estimator.thresholds_ = np.full(estimator._targets.n_visible, 0.5)
        warn_user(
            "Interrupted before the cross-validation of the thresholds was done: the model is "
            "fitted, and thresholds_ are 0.5. Fit again to have them found."
        )


def cross_validated_thresholds(
    estimator, rule: Threshold, X, visible, weight, rng, changes: dict
) -> np.ndarray:
    """Return the thresholds (V,) that are best for the rule's metric on out-of-fold marginals.

    Copies of the estimator are fitted, each without a fold of the rows; the estimator itself is not
    changed. `visible` (N, V) holds 0/1 and NaN where not observed; `changes` are the parameters
    that differ in these fits, such as a penalty that was searched.

    Raises
    ------
    ValueError
        If fewer rows than folds have an observed label.
    KeyboardInterrupt
        If a fit was interrupted, although the model by itself would keep its parameters.
    """
    n_folds = int(rule.cv) if isinstance(rule.cv, Integral) else _N_FOLDS
    by_number = rule.cv is None or isinstance(rule.cv, Integral)
    n_rows = np.count_nonzero(~np.isnan(visible).all(axis=1))
    if by_number and n_rows < n_folds:
        raise ValueError(
            f"decode='threshold' needs at least {n_folds} rows of positive weight with an "
            f"observed label, for its cross-validation; got {n_rows}"
        )
    seed = rng.randint(np.iinfo(np.int32).max)
    cv = rule.cv
    if by_number:
        cv = MultilabelStratifiedKFold(n_folds, shuffle=True, random_state=seed)
    changes = {
        **changes,
        "decode": "marginal",
        "warm_start": False,
        "random_state": seed,
        "verbose": False,
    }
    kind = type(estimator)
    fresh = kind(**{**estimator.get_params(deep=False), **changes})  # without its callbacks
    with warnings.catch_warnings():  # the fit on all rows has warned
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", SCALES)
        warnings.filterwarnings("ignore", ONE_VALUE)
        proba = out_of_fold(
            fresh,
            X,
            visible,
            cv=cv,
            respond=kind.predict_proba,
            fit_params={"sample_weight": weight},
        )
    return rule.find(
        visible,
        proba,
        zero_division=1.0,
        sample_weight=weight,
        allow_empty=estimator.allow_empty_,
    )
