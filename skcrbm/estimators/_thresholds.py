"""Thresholds of a learner's own marginals, by cross-validation within the training rows."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skcrbm.decoding import fit_thresholds
from skcrbm.model_selection import MultilabelStratifiedKFold, out_of_fold
from skcrbm.utils.columns import SCALES
from skcrbm.utils.warnings import warn_user

_N_FOLDS = 5


def update_thresholds(estimator, settled, weight, rng, interrupted=False):
    """Set `thresholds_` at the end of a fit that is asked for them; drop those of another fit.

    After an interrupt they are 0.5, with a warning: the model was trained, and has to predict.

    Parameters
    ----------
    estimator, weight, rng
        As for `cross_validated_thresholds`.
    settled : callable
        Returns X, visible and changes, as there; asked only if thresholds are wanted.
    interrupted : bool, default=False
        Whether the fit was: then no further ones are begun.
    """
    vars(estimator).pop("thresholds_", None)
    if estimator.decode != "threshold" or not estimator._targets.multilabel:
        return
    try:
        if interrupted:
            raise KeyboardInterrupt
        X, visible, changes = settled()
        estimator.thresholds_ = cross_validated_thresholds(
            estimator, X, visible, weight, rng, changes
        )
    except KeyboardInterrupt:
        estimator.thresholds_ = np.full(estimator._targets.n_visible, 0.5)
        warn_user(
            "Interrupted before the cross-validation of the thresholds was done: the model is "
            "fitted, and thresholds_ are 0.5. Fit again to have them found."
        )


def cross_validated_thresholds(estimator, X, visible, weight, rng, changes=None):
    """Thresholds for `estimator.threshold_metric` on out-of-fold marginals.

    Parameters
    ----------
    estimator : BaseCRBM or LMBMClassifier
        Left as it is; copies of it are fitted, each without a fifth of the rows.
    X : ndarray or CSR matrix (N, D)
    visible : ndarray (N, V)
        0/1, NaN where not observed.
    weight : ndarray (N,)
    rng : RandomState
    changes : dict or None, default=None
        Hyperparameters of these fits that differ from the estimator's: what it has found.

    Returns
    -------
    ndarray (V,)

    Raises
    ------
    ValueError
        If fewer rows than folds have an observed label.
    KeyboardInterrupt
        If one of the fits was interrupted, which by itself would keep what it has learned.
    """
    n_rows = np.count_nonzero(~np.isnan(visible).all(axis=1))
    if n_rows < _N_FOLDS:
        raise ValueError(
            f"decode='threshold' needs at least {_N_FOLDS} rows of positive weight with an "
            f"observed label, for its cross-validation; got {n_rows}"
        )
    seed = rng.randint(np.iinfo(np.int32).max)
    changes = {
        **(changes or {}),
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
        proba = out_of_fold(
            fresh,
            X,
            visible,
            cv=MultilabelStratifiedKFold(_N_FOLDS, shuffle=True, random_state=seed),
            respond=kind.predict_proba,
            fit_params={"sample_weight": weight},
        )
    return fit_thresholds(
        visible,
        proba,
        estimator.threshold_metric,
        sample_weight=weight,
        allow_empty=estimator.allow_empty_,
    )
