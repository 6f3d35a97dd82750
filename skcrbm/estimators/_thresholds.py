"""Thresholds on the marginals of a classifier, found by cross-validation on its training rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skcrbm.decoding.posterior import ZERO_DIVISION
from skcrbm.decoding.rules import Threshold, resolve_decoder
from skcrbm.model_selection import MultilabelStratifiedKFold
from skcrbm.model_selection.folds import out_of_fold, resolve_cv
from skcrbm.targets.indicator import ONE_VALUE
from skcrbm.targets.weights import (
    first_copies,
    folds_of_copies,
)
from skcrbm.utils.columns import SCALES
from skcrbm.utils.options import option_name
from skcrbm.utils.warnings import warn_user

# Default number of folds in the cross-validation of the thresholds.
_N_FOLDS = 5


def update_thresholds(
    estimator, fold_settings: Callable, weight, rng, interrupted: bool = False, origin=None
) -> None:
    """Set `thresholds_` at the end of a fit with ``decode="threshold"``, unless y is 1-D.

    `fold_settings` returns the arguments X, `visible` and `changes` of
    `cross_validated_thresholds`. `interrupted` is True if the user has interrupted the fit. In this
    case, or if the user interrupts the cross-validation, all thresholds are 0.5 and the function
    warns. It raises no error, because the model is trained and can predict.
    """
    if not estimator._targets.multilabel:
        return
    rule: Any = resolve_decoder(estimator.decode)
    try:
        if interrupted:
            raise KeyboardInterrupt
        X, visible, changes = fold_settings()
        estimator.thresholds_ = cross_validated_thresholds(
            estimator, rule, X, visible, weight, rng, changes, origin
        )
    except KeyboardInterrupt:
        estimator.thresholds_ = np.full(estimator._targets.n_visible, 0.5)
        warn_user(
            "Interrupted before the cross-validation of the thresholds was done. The model is "
            "fitted, but all thresholds_ are 0.5. Call fit again to find better thresholds."
        )


def copy_for_folds(estimator: Any, seed: int, **changes: Any) -> Any:
    """Return a copy of an estimator for fits to parts of its rows, without its callbacks.

    `changes` are values of parameters, such as the penalty that a search has found; names that the
    estimator does not have are ignored.
    """
    given = estimator.get_params(deep=False)
    common = {"decode": "marginal", "warm_start": False, "random_state": seed, "verbose": False}
    changes = {name: value for name, value in {**changes, **common}.items() if name in given}
    # The constructor is used instead of `clone`, so that the copy has no callbacks.
    return type(estimator)(**{**given, **changes})


@contextmanager
def without_repeated_warnings() -> Iterator[None]:
    """Do not show warnings that the fit on all rows shows, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", SCALES)
        warnings.filterwarnings("ignore", ONE_VALUE)
        yield


def cross_validated_thresholds(
    estimator, rule: Threshold, X, visible, weight, rng, changes: dict, origin=None
) -> np.ndarray:
    """Return the thresholds (V,) that are best for the metric of `rule` on out-of-fold marginals.

    For each fold, a copy of the estimator is fitted without the rows of the fold; the estimator
    itself does not change. `visible` (N, V) contains 0, 1 and NaN for missing labels. `changes`
    maps names of parameters to the values for the copies. For example, it replaces
    ``alpha="auto"`` by the penalty that was found, so that the copies do not search again. If some
    rows are copies, `origin` (N,) holds the index of the row from which each row was copied. All
    copies of a row are in the same fold.

    A ValueError is raised if fewer rows than folds have an observed label. If the user interrupts
    the fit of a copy, a KeyboardInterrupt is raised.
    """
    n_folds = int(rule.cv) if isinstance(rule.cv, Integral) else _N_FOLDS
    by_number = rule.cv is None or isinstance(rule.cv, Integral)
    n_rows = np.count_nonzero(~np.isnan(visible[first_copies(origin)]).all(axis=1))
    if by_number and n_rows < n_folds:
        raise ValueError(
            f"decode='threshold' needs at least {n_folds} rows of positive weight with an "
            f"observed label, one for each fold of its cross-validation; got {n_rows}"
        )
    seed = rng.randint(np.iinfo(np.int32).max)
    cv = rule.cv
    if by_number:
        cv = MultilabelStratifiedKFold(n_folds, shuffle=True, random_state=seed)
    fresh = copy_for_folds(estimator, seed, **changes)
    with without_repeated_warnings():
        if origin is not None:
            first = visible[first_copies(origin)]
            cv = folds_of_copies(resolve_cv(cv, visible).split(first, first), origin)
        proba = out_of_fold(
            fresh,
            X,
            visible,
            cv=cv,
            respond=type(estimator).predict_proba,
            fit_params={"sample_weight": weight},
        )
    return rule.find(
        visible,
        proba,
        zero_division=ZERO_DIVISION,
        sample_weight=weight,
        allow_empty=estimator.allow_empty_,
    )


def refuse_thresholds(decode) -> None:
    """Raise a ValueError for ``decode="threshold"``, which `partial_fit` does not support."""
    if option_name(decode) == "threshold":
        raise ValueError(
            "partial_fit does not support decode='threshold', because finding thresholds needs a "
            "cross-validation over all rows; use fit, or call skcrbm.decoding.fit_thresholds on "
            "held-out rows"
        )
