"""Forests whose log-odds are the inputs of a conditional RBM."""

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.pipeline import make_union
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, StrOptions, validate_params

from skcrbm.ensemble._out_of_bag import OutOfBagLogOdds
from skcrbm.estimators import CRBMClassifier
from skcrbm.pipeline import make_pipeline
from skcrbm.utils.options import Integer


@validate_params(
    {
        "estimators": ["array-like", None],
        "final_estimator": [HasMethods(["fit", "predict"]), None],
        "n_estimators": [Integer(1)],
        "cv": ["cv_object", StrOptions({"oob"})],
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_stacked(
    estimators=None,
    final_estimator=None,
    *,
    n_estimators=300,
    cv="oob",
    n_jobs=None,
    random_state=None,
):
    """Make a pipeline of classifiers and a conditional RBM on their out-of-bag log-odds.

    It adds the dependence of labels to strong classifiers. Forests turn X into log-odds of the
    labels, by trees that did not see the row, and a `CRBMClassifier` learns from the log-odds how
    reliable each forest is and how labels go together.

    Parameters
    ----------
    estimators : list or None, default=None
        Classifiers with `predict_proba`, each of which becomes an `OutOfBagLogOdds`, or
        transformers such as `OutOfBagLogOdds`, which are used unchanged. None stands for three
        forests: extra trees and a random forest on the labels, and extra trees on the label sets,
        for a 2-D y with every label observed.
    final_estimator : estimator or None, default=None
        Model fitted on the log-odds. None stands for a `CRBMClassifier` with default parameters,
        which finds its own penalty, for a 1-D y as well.
    n_estimators : int, default=300
        Number of trees in each of the three forests.
    cv : "oob", int, splitter or iterable, default="oob"
        Source of the log-odds of the training rows for all `estimators` that are classifiers, see
        `OutOfBagLogOdds`.
    n_jobs : int, default=None
        Number of threads of the forests and of `CRBMClassifier`; with `estimators`, number of
        folds fitted at the same time.
    random_state : int, RandomState or None, default=None
        Seed from which each part gets a seed, unless it is None: `estimators` that are classifiers,
        and `final_estimator` if it has a `random_state`.

    Returns
    -------
    pipeline : skcrbm.pipeline.Pipeline
        Pipeline of a `FeatureUnion` and the final estimator. It has the methods of the final
        estimator, such as `sample` and `predict_topk`, with ``y_known``.

    Raises
    ------
    ValueError
        If a parameter is invalid or the list is empty.

    See Also
    --------
    OutOfBagLogOdds : Log-odds of a single classifier.
    sklearn.ensemble.StackingClassifier : Stacking by cross-validation for a 1-D y.

    Notes
    -----
    NaN in y (not observed) reaches the final estimator, but forests refuse it: give `estimators`
    that accept it, with folds, as in
    ``make_stacked([CRBMClassifier(), ...], cv=5)``.

    A fourth forest, a random forest on the label sets, takes as long on Yeast as the three together
    and does not improve the predictions.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from skcrbm.ensemble import make_stacked
    >>> X, Y = make_multilabel_classification(n_samples=150, random_state=0)
    >>> stacked = make_stacked(n_estimators=50, random_state=0).fit(X, Y)
    >>> stacked.predict_proba(X[:2]).shape
    (2, 5)
    """
    rng = None if random_state is None else check_random_state(random_state)

    def seed():
        return None if rng is None else rng.randint(np.iinfo(np.int32).max)

    if estimators is None:
        options = {"n_estimators": n_estimators, "bootstrap": True, "n_jobs": n_jobs}
        parts = [
            OutOfBagLogOdds(forest(**options), label_powerset=powerset, cv=cv, random_state=seed())
            for forest, powerset in (
                (ExtraTreesClassifier, False),
                (ExtraTreesClassifier, True),
                (RandomForestClassifier, False),
            )
        ]
    else:
        parts = [_part(estimator, cv, n_jobs, seed()) for estimator in estimators]
        if not parts:
            raise ValueError("estimators is empty; give at least one classifier, or None")
    if final_estimator is None:
        final_estimator = CRBMClassifier(n_jobs=n_jobs, random_state=seed())
    else:
        final_estimator = clone(final_estimator)
        if rng is not None and "random_state" in final_estimator.get_params(deep=False):
            final_estimator.set_params(random_state=seed())
    return make_pipeline(make_union(*parts), final_estimator)


def _part(estimator, cv, n_jobs, seed):
    # A classifier that is also a transformer, such as a CRBMClassifier, counts as a classifier.
    is_classifier = hasattr(estimator, "predict_proba")
    if not hasattr(estimator, "fit") or not (is_classifier or hasattr(estimator, "transform")):
        raise ValueError(
            "estimators must hold classifiers with predict_proba, or transformers, got "
            f"{estimator!r}"
        )
    if not is_classifier:
        return clone(estimator)
    return OutOfBagLogOdds(clone(estimator), cv=cv, n_jobs=n_jobs, random_state=seed)
