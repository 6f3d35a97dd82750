"""scikit-learn's cross_val_predict for a y with missing entries."""

from functools import partial

import numpy as np
from sklearn import model_selection
from sklearn.utils._param_validation import HasMethods, StrOptions, validate_params

from skcrbm.model_selection.folds import out_of_fold
from skcrbm.utils.classifiers import is_list_of_outputs, label_marginals, positive_columns
from skcrbm.utils.labels import indicator_with_nan, is_frame, with_dimensions
from skcrbm.utils.options import Integer


@validate_params(
    {
        "estimator": [HasMethods(["fit"])],
        "groups": ["array-like", None],
        "cv": ["cv_object"],
        "method": [
            StrOptions({"predict", "predict_proba", "predict_log_proba", "decision_function"})
        ],
        "n_jobs": [Integer(), None],
        "params": [dict, None],
    },
    prefer_skip_nested_validation=False,
)
def cross_val_predict(
    estimator, X, y, *, groups=None, cv=None, method="predict", n_jobs=None, params=None
):
    """Predict each row by a model that was fitted without this row; y may hold NaN.

    scikit-learn's function of this name treats NaN in y as an additional class, "2", and raises an
    error for NaN if `cv` is a number.

    Parameters
    ----------
    estimator : classifier
        Classifier, which is cloned for each fold.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows to predict.
    y : array-like of shape (n_samples, n_outputs) or (n_samples,)
        Labels. NaN in a 2-D y means not observed, if the estimator accepts it. A data frame is
        passed on with its names. A 1-D y goes to scikit-learn's function. `ImageCRBM` takes images
        (n_samples, height, width).
    groups : array-like of shape (n_samples,), default=None
        Groups for a splitter such as `GroupKFold`, which keeps rows of a group together.
    cv : int, splitter or iterable, default=None
        Folds that test each row once. An int stands for this number of folds by
        :class:`MultilabelStratifiedKFold`, and None for 5 folds.
    method : {"predict", "predict_proba", "predict_log_proba", "decision_function"}, \
default="predict"
        Method that predicts.
    n_jobs : int, default=None
        Number of folds fitted at the same time.
    params : dict, default=None
        Parameters of `fit`, such as `sample_weight`. Values with a row for each row of X are cut
        to the training rows.

    Returns
    -------
    predictions : ndarray of shape (n_samples, n_outputs), or as in scikit-learn for a 1-D y
        Predictions. "predict_proba" returns P(y_i = 1 | x), and "predict_log_proba" returns its
        logarithm, also for estimators whose own result is a list of arrays.

    Raises
    ------
    ValueError
        If y is invalid, or a row is not in exactly one test fold.

    See Also
    --------
    skcrbm.metrics.masked_scorer : Scorer for `cross_val_score` and searches, which accept a y with
        NaN if `cv` is a splitter.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.model_selection import cross_val_predict
    >>> X, Y = make_multilabel_classification(n_samples=150, random_state=0)
    >>> Y = np.where(np.random.RandomState(0).random_sample(Y.shape) < 0.2, np.nan, Y)
    >>> model = CRBMClassifier(alpha=0.1, random_state=0)
    >>> cross_val_predict(model, X, Y, cv=3, method="predict_proba").shape
    (150, 5)
    """
    y = y if is_frame(y) else with_dimensions(y)
    if len(y.shape) == 1 or y.shape[1:] == (1,):
        return model_selection.cross_val_predict(
            estimator, X, y, groups=groups, cv=cv, method=method, n_jobs=n_jobs, params=params
        )
    observed = indicator_with_nan(y)
    if not is_frame(y):
        y = observed if np.isnan(observed).any() else observed.astype(np.int64)
    return out_of_fold(
        estimator,
        X,
        y,
        cv=cv,
        groups=groups,
        respond=partial(_respond, method=method),
        stratify=observed,
        n_jobs=n_jobs,
        fit_params=params,
    )


def _respond(model, X, method):
    """Return the predictions (n, L) of a method; "predict_proba" returns P(y_i = 1 | x)."""
    answer = getattr(model, method)(X)
    images = isinstance(answer, np.ndarray) and answer.ndim == 3  # from `ImageCRBM`
    if method == "predict_proba" and not images:
        return label_marginals(answer, getattr(model, "classes_", None), "predict_proba(X)")
    if method == "predict_log_proba" and is_list_of_outputs(answer):
        return positive_columns(answer, name="predict_log_proba(X)")
    return np.asarray(answer)
