"""Thresholds of a learner's own marginals, by cross-validation within the training rows."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skcrbm.decoding import fit_thresholds
from skcrbm.model_selection import MultilabelStratifiedKFold
from skcrbm.model_selection._out_of_fold import out_of_fold

_N_FOLDS = 5


def cross_validated_thresholds(estimator, X, visible, weight, rng):
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

    Returns
    -------
    ndarray (V,)

    Raises
    ------
    ValueError
        If fewer rows than folds have an observed label.
    """
    n_rows = np.count_nonzero(~np.isnan(visible).all(axis=1))
    if n_rows < _N_FOLDS:
        raise ValueError(
            f"decode='threshold' needs at least {_N_FOLDS} rows of positive weight with an "
            f"observed label, for its cross-validation; got {n_rows}"
        )
    seed = rng.randint(np.iinfo(np.int32).max)
    changes = {
        "decode": "marginal",
        "warm_start": False,
        "random_state": seed,
        "verbose": False,
    }
    kind = type(estimator)
    fresh = kind(**{**estimator.get_params(deep=False), **changes})  # without its callbacks
    with warnings.catch_warnings():  # the fit on all rows has warned
        warnings.simplefilter("ignore", ConvergenceWarning)
        proba = out_of_fold(
            fresh,
            X,
            visible,
            cv=MultilabelStratifiedKFold(_N_FOLDS, shuffle=True, random_state=seed),
            respond=kind.predict_proba,
            fit_params={"sample_weight": weight},
        )
    return fit_thresholds(visible, proba, estimator.threshold_metric, sample_weight=weight)
