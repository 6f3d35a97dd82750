"""Predict rows out of fold, by models that were not fitted on these rows; y may hold NaN."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.utils import indexable

from skcrbm.model_selection._groups import MultilabelStratifiedGroupKFold
from skcrbm.model_selection._stratified import MultilabelStratifiedKFold
from skcrbm.targets.weights import (
    first_copies,
    folds_of_copies,
)
from skcrbm.targets.wrapped import explained_fit, is_frozen
from skcrbm.utils.sklearn_private import check_method_params, safe_indexing

# First words of the warning that an estimator issues if the user interrupts its fit and it keeps
# the parameters found so far. Cross-validation turns this warning into a KeyboardInterrupt, because
# it would otherwise go on to fit the other folds.
_INTERRUPTED = "Training interrupted"

#: Number of folds into which a search for a penalty splits the rows.
N_SEARCH_FOLDS = 5


def search_folds(
    labels: np.ndarray, origin: np.ndarray | None, n_held_out: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the folds (train, held out) of a search for a penalty, as arrays of row indices.

    The rows are split into `N_SEARCH_FOLDS` folds, and as many of them are returned as are needed
    for about `n_held_out` held-out rows, but at least one fold. `labels` (N, L) are the labels of
    the rows. If some rows are copies, `origin` (N,) holds the row from which each row was copied;
    the copies of a row stay together.
    """
    splitter = MultilabelStratifiedKFold(N_SEARCH_FOLDS, shuffle=True, random_state=seed)
    n_folds = int(np.clip(n_held_out // len(labels), 1, N_SEARCH_FOLDS))
    first = labels[first_copies(origin)]
    return folds_of_copies(list(splitter.split(first, first))[:n_folds], origin)


def resolve_cv(cv: Any, y: np.ndarray, groups: Any = None) -> Any:
    """Return a splitter for `cv`; an int, or None for 5 folds, becomes a stratified splitter.

    With `groups`, this splitter also keeps the rows of a group together.
    """
    if y.ndim == 2 and (cv is None or isinstance(cv, Integral)):
        kind = MultilabelStratifiedKFold if groups is None else MultilabelStratifiedGroupKFold
        return kind(5 if cv is None else int(cv))
    return for_groups(check_cv(cv, y, classifier=True), cv, groups)


def for_groups(splitter: Any, cv: Any, groups: Any) -> Any:
    """Return scikit-learn's splitter for `cv`, or its grouped kind if `cv` is a number."""
    if groups is None or not (cv is None or isinstance(cv, Integral)):
        return splitter
    kind = StratifiedGroupKFold if isinstance(splitter, StratifiedKFold) else GroupKFold
    return kind(splitter.get_n_splits())


def _splits(cv, X, y, groups):
    """Return the pairs (train, test) of `cv`; an error about too many folds names `cv`."""
    try:
        return list(resolve_cv(cv, y, groups).split(X, y, groups))
    except ValueError as error:
        if "n_splits" not in str(error):
            raise
        raise ValueError(
            f"cv={cv!r} makes more folds than the rows of y allow; give more rows or a smaller cv, "
            f"or freeze a fitted classifier with sklearn.frozen.FrozenEstimator: {error}"
        ) from error


def _fit_predict(estimator, X, y, train, test, respond, fit_params, beside):
    """Fit on the training rows, and call `respond` on the test rows."""
    params = check_method_params(X, fit_params, indices=train)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", _INTERRUPTED, UserWarning)
        try:
            rows = safe_indexing(X, train), safe_indexing(y, train)
            with explained_fit(estimator, X, y):
                model = clone(estimator).fit(*rows, **params)
        except UserWarning as warning:
            if not str(warning).startswith(_INTERRUPTED):
                raise
            raise KeyboardInterrupt from warning
    rows = [safe_indexing(X, test)] + [safe_indexing(array, test) for array in beside]
    return respond(model, *rows)


def out_of_fold(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any,
    respond: Callable[..., Any],
    groups: Any = None,
    stratify: np.ndarray | None = None,
    n_jobs: int | None = None,
    fit_params: dict | None = None,
    beside: Sequence = (),
) -> Any:
    """Return ``respond(model, rows)`` for all rows, with models that were not fitted on them.

    scikit-learn's `cross_val_predict` cannot be used, because it turns NaN in a 2-D y into an
    additional class.

    `y` (n,) or (n, L) holds the targets of the fits, and `stratify` the targets for the splitter,
    which are `y` by default. `respond` returns an array with a row for each row of X, or a list of
    such arrays. It must be a method or a function of a module, because it is sent to other
    processes. `fit_params` are parameters of `fit`; if a value has n rows, `fit` gets the training
    rows of the value. The arrays in `beside` have n rows each. `respond` gets them as further
    arguments, each with the rows that `respond` gets of X. `n_jobs` is the number of folds that are
    fitted at the same time.

    If the estimator is frozen, it is asked for all rows at once, and `cv` has no effect.

    A ValueError is raised if the test folds are not a partition of the rows, or if all training
    rows of a fold have weight 0. A KeyboardInterrupt is raised if a fit was interrupted, even if
    the estimator itself only warns.
    """
    X, _, groups = indexable(X, y, groups)
    if is_frozen(estimator):  # it has seen no row in a fit of a fold, so there is nothing to split
        with explained_fit(estimator, X, y):
            return respond(estimator, X, *beside)
    stratify = y if stratify is None else stratify
    splits = _splits(cv, X, stratify, groups)
    if not splits:
        raise ValueError(f"cv={cv!r} makes no folds")
    tests = np.concatenate([np.asarray(test) for _, test in splits])
    if not np.array_equal(np.sort(tests), np.arange(len(y))):
        raise ValueError("cv must put every row into exactly one test fold, as K-fold splits do")
    weight = (fit_params or {}).get("sample_weight")
    if np.ndim(weight) in (1, 2) and not all(
        np.any(np.asarray(weight)[train]) for train, _ in splits
    ):
        raise ValueError(
            f"sample_weight is zero for all training rows of a fold of cv={cv!r}: "
            "give more rows a positive weight, or use fewer folds"
        )
    if n_jobs is not None:  # at most a process for each fold
        n_jobs = min(n_jobs, len(splits))
    parts = Parallel(n_jobs=n_jobs)(
        delayed(_fit_predict)(estimator, X, y, train, test, respond, fit_params or {}, beside)
        for train, test in splits
    )
    order = np.argsort(tests)
    if isinstance(parts[0], list):
        return [np.concatenate(outputs)[order] for outputs in zip(*parts)]
    return np.concatenate(parts)[order]
