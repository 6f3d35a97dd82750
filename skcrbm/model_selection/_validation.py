"""scikit-learn's scores and searches, for a y with NaN, columns of classes, or structures."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn import model_selection
from sklearn.base import is_classifier
from sklearn.model_selection import GroupKFold

from skcrbm.metrics import masked_scorer
from skcrbm.model_selection._kinds import split_target
from skcrbm.targets.groups import check_groups
from skcrbm.utils.documentation import documented
from skcrbm.utils.sklearn_private import routing_enabled
from skcrbm.utils.validation import check_order

_DATA = """\
estimator : estimator
    Estimator, which is cloned for each fit.
X : {array-like, sparse matrix} of shape (n_samples, n_features), or list
    Rows; for `ChainCRF`, `GraphCRF` and `GridCRF` a list of sequences, graphs or images.
y : array-like of shape (n_samples, n_outputs) or (n_samples,), list, or None, default=None
    Labels, as :func:`cross_val_predict` takes them. NaN in a 2-D y means not observed, if the
    estimator accepts it."""
_FOLDS = """\
cv : int, splitter or iterable, default=None
    Folds. If `cv` is an int, or None for 5 folds, they are made as in
    :func:`cross_val_predict`: a 2-D y gets the folds of :class:`MultilabelStratifiedKFold`."""
_SCORING = """\
scoring : str or callable, default=None
    Score; None calls the `score` of the estimator. For a 0/1 y, a name of a score means the
    score of the observed labels, :func:`skcrbm.metrics.masked_scorer`."""
_SEVERAL = _SCORING.replace("str or callable", "str, callable, list, tuple or dict")
_GROUPS = """
groups : array-like of shape (n_samples,), default=None
    Group of each row. If `cv` is None or an int, the rows of a group are in the same fold.
"""
_OPTIONS = """
**options
    Further arguments of scikit-learn's function, such as `n_jobs` and `params`."""
_SEARCH = f"""\
{_SEVERAL}
n_jobs : int, default=None
    Number of fits at the same time.
refit : bool, str or callable, default=True
    Whether the best candidate is fitted to all rows. With several scores, the name of the score
    that decides.
{_FOLDS}
verbose : int, default=0
    Higher numbers print more messages.
pre_dispatch : int or str, default="2*n_jobs"
    Number of fits that are sent to the workers ahead of time."""
_documented = documented(
    {
        "<difference>": """\
scikit-learn raises "Input y contains NaN." under the same name if y holds NaN and `cv` is a number,
or if `scoring` is the name of a score. This version does not.""",
        "<data>": _DATA,
        "<folds and score>": _GROUPS + _FOLDS + "\n" + _SCORING + _OPTIONS,
        "<folds and scores>": _GROUPS + _FOLDS + "\n" + _SEVERAL + _OPTIONS,
        "<search>": _SEARCH,
        "<scores of candidates>": """\
error_score : "raise" or float, default=nan
    Score of a candidate whose fit fails, or "raise".
return_train_score : bool, default=False
    Whether scores of the training rows are in `cv_results_`.""",
        "<errors>": """\
ValueError
    If y is invalid, or y holds NaN and a score has no version for observed labels.""",
        "<example>": """\
>>> import numpy as np
>>> from skcrbm import CRBMClassifier
>>> from skcrbm.datasets import make_structured_labels
>>> X, Y = make_structured_labels(60, n_labels=3, random_state=0)
>>> Y = np.where(np.random.RandomState(0).random_sample(Y.shape) < 0.2, np.nan, Y)
>>> model = CRBMClassifier(alpha=0.1, max_iter=5, random_state=0)""",
    }
)


def _prepared(estimator, X, y, groups, cv, scoring, params):
    """Return y, the folds and the scoring for a function of scikit-learn.

    A number of folds becomes a splitter, because scikit-learn looks at y to choose a splitter, and
    raises an error if y contains NaN. Names of scores of a 0/1 y become scorers of its observed
    labels. `params` are further arguments of `fit`.
    """
    check_order(X=X, y=y, **params)
    groups = None if groups is None else check_groups(groups, X)
    if y is None or not is_classifier(estimator):
        return y, cv, scoring
    target = split_target(estimator, y)
    if cv is None or isinstance(cv, Integral):
        cv = target.splitter(cv, groups)
        if target.kind == "columns of classes":  # the splitter takes numbers only
            cv = _SplitsOf(cv, target.stratify)
    if target.kind == "labels":
        scoring = _of_labels(scoring, bool(np.isnan(target.stratify).any()))
    return target.y, cv, scoring


class _SplitsOf(GroupKFold):  # which requests `groups` if metadata are routed
    """The splits that a splitter makes for a given y."""

    def __init__(self, splitter, y):
        super().__init__(splitter.get_n_splits())
        self.splitter, self.y = splitter, y

    def split(self, X, y=None, groups=None):
        yield from self.splitter.split(X, self.y, groups)


def _of_labels(scoring, has_gaps):
    """Return `scoring` with a scorer of the observed labels in place of each name of a score.

    If no label is missing, other names are names of scikit-learn. It would read a 0/1 y as classes
    for "neg_log_loss".
    """
    if isinstance(scoring, dict):
        return {name: _of_labels(value, has_gaps) for name, value in scoring.items()}
    if isinstance(scoring, (list, tuple, set)):
        return {name: _of_labels(name, has_gaps) for name in scoring}
    if not isinstance(scoring, str):
        return scoring
    try:
        return masked_scorer(scoring)
    except ValueError as error:
        if has_gaps:
            raise ValueError(f"scoring cannot ignore the NaN of y: its {error}") from error
        return scoring


def _call(function: Callable, estimator, X, y, groups, cv, scoring, options: dict) -> Any:
    """Call a function of scikit-learn with folds that fit y."""
    params = options.get("params") or {}
    if "groups" in params and not routing_enabled():
        raise ValueError("params holds groups, which `fit` does not take; pass them as groups=...")
    given = params.get("groups") if groups is None else groups
    y, cv, scoring = _prepared(estimator, X, y, given, cv, scoring, params)
    return function(estimator, X, y, groups=groups, cv=cv, scoring=scoring, **options)


@_documented
def cross_val_score(estimator, X, y=None, *, groups=None, cv=None, scoring=None, **options):
    """Score an estimator by cross-validation; y may hold NaN.

    <difference>

    Parameters
    ----------
    <data>
    <folds and score>

    Returns
    -------
    scores : ndarray of shape (n_folds,)
        Score of each fold.

    Raises
    ------
    <errors>

    See Also
    --------
    cross_validate, GridSearchCV : Several scores at once, and searches.

    Examples
    --------
    <example>
    >>> from skcrbm.model_selection import cross_val_score
    >>> cross_val_score(model, X, Y, cv=3, scoring="f1_micro").shape
    (3,)
    """
    return _call(model_selection.cross_val_score, estimator, X, y, groups, cv, scoring, options)


@_documented
def cross_validate(estimator, X, y=None, *, groups=None, cv=None, scoring=None, **options):
    """Measure scores and times by cross-validation; y may hold NaN.

    <difference>

    Parameters
    ----------
    <data>
    <folds and scores>

    Returns
    -------
    scores : dict
        Arrays with an entry for each fold: "fit_time", "score_time", and "test_score", or
        ``"test_"`` followed by the name of each of several scores.

    Raises
    ------
    <errors>

    See Also
    --------
    cross_val_score, GridSearchCV : A single score, and searches.

    Examples
    --------
    <example>
    >>> from skcrbm.model_selection import cross_validate
    >>> sorted(cross_validate(model, X, Y, cv=3, scoring=["f1_micro", "accuracy"]))
    ['fit_time', 'score_time', 'test_accuracy', 'test_f1_micro']
    """
    return _call(model_selection.cross_validate, estimator, X, y, groups, cv, scoring, options)


@_documented
def learning_curve(estimator, X, y=None, *, groups=None, cv=None, scoring=None, **options):
    """Score an estimator with growing parts of the training rows; y may hold NaN.

    <difference>

    Parameters
    ----------
    <data>
    <folds and score>

    Returns
    -------
    sizes, train_scores, test_scores : ndarray
        Numbers of training rows (n_sizes,), and scores (n_sizes, n_folds). Further arrays are as in
        scikit-learn.

    Raises
    ------
    <errors>

    See Also
    --------
    cross_validate, GridSearchCV : Several scores at once, and searches.

    Examples
    --------
    <example>
    >>> from skcrbm.model_selection import learning_curve
    >>> sizes, _, scores = learning_curve(model, X, Y, cv=3, train_sizes=[20, 40])
    >>> sizes, scores.shape
    (array([20, 40]), (2, 3))
    """
    return _call(model_selection.learning_curve, estimator, X, y, groups, cv, scoring, options)


@_documented
def validation_curve(
    estimator, X, y, *, param_name, param_range, groups=None, cv=None, scoring=None, **options
):
    """Score an estimator for several values of a parameter; y may hold NaN.

    <difference>

    Parameters
    ----------
    <data>
    param_name : str
        Name of the parameter.
    param_range : array-like of shape (n_values,)
        Values of the parameter.
    <folds and score>

    Returns
    -------
    train_scores, test_scores : ndarray of shape (n_values, n_folds)
        Scores.

    Raises
    ------
    <errors>

    See Also
    --------
    cross_validate, GridSearchCV : Several scores at once, and searches.

    Examples
    --------
    <example>
    >>> from skcrbm.model_selection import validation_curve
    >>> values = {"param_name": "alpha", "param_range": [0.1, 1.0]}
    >>> validation_curve(model, X, Y, cv=3, **values)[1].shape
    (2, 3)
    """
    options |= {"param_name": param_name, "param_range": param_range}
    return _call(model_selection.validation_curve, estimator, X, y, groups, cv, scoring, options)


@_documented
def permutation_test_score(estimator, X, y=None, *, groups=None, cv=None, scoring=None, **options):
    """Compare a score with the scores for permuted rows of y, which may hold NaN.

    <difference>

    Parameters
    ----------
    <data>
    <folds and score>

    Returns
    -------
    score, permutation_scores, pvalue : float, ndarray of shape (n_permutations,), float
        Mean score of the folds, mean scores for permuted y, and the p-value.

    Raises
    ------
    <errors>

    See Also
    --------
    cross_validate, GridSearchCV : Several scores at once, and searches.

    Examples
    --------
    <example>
    >>> from skcrbm.model_selection import permutation_test_score
    >>> score, others, p = permutation_test_score(model, X, Y, cv=3, n_permutations=2)
    >>> others.shape
    (2,)
    """
    return _call(
        model_selection.permutation_test_score, estimator, X, y, groups, cv, scoring, options
    )


class _SearchMixin:
    """Searches whose `fit` makes splits that fit y."""

    def fit(self, X, y=None, **params):
        """Fit the estimator with all candidates, and then with the best candidate.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list
            Rows.
        y : array-like of shape (n_samples, n_outputs) or (n_samples,), list, or None, default=None
            Labels; NaN in a 2-D y means not observed.
        **params : dict
            Parameters of `fit`, of the scorer and of the splitter, such as `sample_weight` and
            `groups`.

        Returns
        -------
        self : object
            The fitted search.
        """
        cv, scoring = self.cv, self.scoring
        groups = params.get("groups")
        try:
            y, self.cv, self.scoring = _prepared(self.estimator, X, y, groups, cv, scoring, params)
            return super().fit(X, y, **params)  # type: ignore[misc]
        finally:
            self.cv, self.scoring = cv, scoring


@_documented
class GridSearchCV(_SearchMixin, model_selection.GridSearchCV):
    """Search all combinations of values of parameters; y may hold NaN.

    <difference>

    Parameters
    ----------
    estimator : estimator
        Estimator, which is cloned for each fit.
    param_grid : dict or list of dict
        Values of each parameter.
    <search>
    <scores of candidates>

    Examples
    --------
    <example>
    >>> from skcrbm.model_selection import GridSearchCV
    >>> search = GridSearchCV(model, {"alpha": [0.1, 1.0]}, cv=3, scoring="f1_micro")
    >>> search.fit(X, Y).predict(X).shape
    (60, 3)
    """


@_documented
class RandomizedSearchCV(_SearchMixin, model_selection.RandomizedSearchCV):
    """Search random combinations of values of parameters; y may hold NaN.

    <difference>

    Parameters
    ----------
    estimator : estimator
        Estimator, which is cloned for each fit.
    param_distributions : dict or list of dict
        Values or distribution of each parameter.
    n_iter : int, default=10
        Number of combinations.
    <search>
    random_state : int, RandomState or None, default=None
        Seed of the combinations.
    <scores of candidates>

    Examples
    --------
    <example>
    >>> from skcrbm.model_selection import RandomizedSearchCV
    >>> search = RandomizedSearchCV(model, {"alpha": [0.1, 1.0]}, n_iter=2, cv=3)
    >>> search.fit(X, Y).predict(X).shape
    (60, 3)
    """
