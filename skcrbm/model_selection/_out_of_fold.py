"""Predictions for rows that the model was not fitted on, for targets with NaN too."""

import warnings
from numbers import Integral

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _check_method_params

from skcrbm.model_selection._stratified import MultilabelStratifiedKFold

# The warning of an estimator that was interrupted and keeps what it has learned. Of one fold that
# is not what is asked for: the others would be fitted all the same.
_INTERRUPTED = "Training interrupted"


def resolve_cv(cv, y):
    """Return a splitter: for a number of folds, one that is stratified.

    Parameters
    ----------
    cv : int, splitter, iterable or None
        None is 5.
    y : ndarray (n,) or (n, L)
    """
    if y.ndim == 2 and (cv is None or isinstance(cv, Integral)):
        return MultilabelStratifiedKFold(5 if cv is None else cv)
    return check_cv(cv, y, classifier=True)


def _fit_predict(estimator, X, y, train, test, respond, fit_params):
    """Fit on the training rows; `respond` on the test rows."""
    params = _check_method_params(X, fit_params, indices=train)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", _INTERRUPTED, UserWarning)
        try:
            model = clone(estimator).fit(
                _safe_indexing(X, train), _safe_indexing(y, train), **params
            )
        except UserWarning as warning:
            if not str(warning).startswith(_INTERRUPTED):
                raise
            raise KeyboardInterrupt from warning
    return respond(model, _safe_indexing(X, test))


def out_of_fold(
    estimator, X, y, *, cv, respond, groups=None, stratify=None, n_jobs=None, fit_params=None
):
    """Return ``respond(model, rows)`` of the model that was fitted without these rows.

    scikit-learn's `cross_val_predict` turns NaN in a 2-D y into a class of its own.

    Parameters
    ----------
    estimator : estimator
    X : array-like, sparse matrix or data frame (n, D)
    y : ndarray (n,) or (n, L), or data frame
    cv : int, splitter, iterable or None
    respond : function of model and X that returns an array with a row for each of X
        A module's function or a method, so that other processes can be sent it.
    groups : array-like (n,), default=None
        For the splitter.
    stratify : ndarray (n,) or (n, L), default=None
        What the splitter gets as y, if not y.
    n_jobs : int, default=None
        Folds at once.
    fit_params : dict, default=None
        What has n rows is cut to the training rows, the rest passed on as it is.

    Raises
    ------
    ValueError
        If the test folds are not a partition of the rows, or all rows that a fold leaves to train
        on have weight 0.
    KeyboardInterrupt
        If a fit was interrupted, also where the estimator by itself would go on from there.
    """
    X, _, groups = indexable(X, y, groups)
    stratify = y if stratify is None else stratify
    splits = list(resolve_cv(cv, stratify).split(X, stratify, groups))
    tests = np.concatenate([np.asarray(test) for _, test in splits])
    if not np.array_equal(np.sort(tests), np.arange(len(y))):
        raise ValueError("cv must put every row into exactly one test fold, as K-fold splits do")
    weight = (fit_params or {}).get("sample_weight")
    if np.ndim(weight) == 1 and not all(np.any(weight[train]) for train, _ in splits):
        raise ValueError(
            f"sample_weight is zero for all rows that a fold of cv={cv!r} leaves to train on: "
            "weight more rows, or pass fewer folds"
        )
    if n_jobs is not None:  # no more processes than there are folds
        n_jobs = min(n_jobs, len(splits))
    parts = Parallel(n_jobs=n_jobs)(
        delayed(_fit_predict)(estimator, X, y, train, test, respond, fit_params or {})
        for train, test in splits
    )
    result = np.concatenate(parts)
    return result[np.argsort(tests)]
