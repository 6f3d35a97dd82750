"""Forests below a conditional RBM, in one call."""

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
    """Make a pipeline of classifiers' out-of-bag log-odds below a conditional RBM.

    What the labels' dependence is worth on top of strong classifiers: forests turn X into
    log-odds of the labels, honest about the rows that they were fitted on, and a
    `CRBMClassifier` learns from these how far to trust each and how labels go together.

    Parameters
    ----------
    estimators : list or None, default=None
        Classifiers with `predict_proba`, each made an `OutOfBagLogOdds`, or transformers such
        as that, taken as they are. None: three forests, extra trees and a random forest on the
        labels, and extra trees on the label sets, for 2-D y with every label observed.
    final_estimator : estimator or None, default=None
        What is fitted on the log-odds. None: `CRBMClassifier` with nothing set, which finds its
        own penalty; with 1-D y as well.
    n_estimators : int, default=300
        Trees of each of the three forests.
    cv : "oob", int, splitter or iterable, default="oob"
        Where the log-odds of the training rows come from, see `OutOfBagLogOdds`; for all
        `estimators` that are classifiers.
    n_jobs : int, default=None
        Threads of the forests, and of `CRBMClassifier`; with `estimators`, folds fitted at once.
    random_state : int, RandomState or None, default=None
        If given, decides the result: each part gets a seed from it, `estimators` that are
        classifiers and `final_estimator` too, where it has a `random_state`.

    Returns
    -------
    skcrbm.pipeline.Pipeline
        Of a `FeatureUnion` and the final estimator, whose `sample`, `predict_topk` and the like
        it has, with ``y_known``.

    Raises
    ------
    ValueError
        On a parameter of another kind, or an empty list.

    See Also
    --------
    OutOfBagLogOdds : The log-odds of one classifier.
    sklearn.ensemble.StackingClassifier : For 1-D y, from cross-validation.

    Notes
    -----
    NaN in y (not observed) goes through to the final estimator, but forests refuse it: give
    `estimators` that take it, with folds, as in
    ``make_stacked([CRBMClassifier(), ...], cv=5)``.

    A random forest on the label sets as a fourth one takes as long on Yeast as the three
    together, and brings nothing.

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
    # A classifier that is a transformer, too, as a CRBMClassifier is, counts as a classifier.
    is_classifier = hasattr(estimator, "predict_proba")
    if not hasattr(estimator, "fit") or not (is_classifier or hasattr(estimator, "transform")):
        raise ValueError(
            "estimators must hold classifiers with predict_proba, or transformers, got "
            f"{estimator!r}"
        )
    if not is_classifier:
        return clone(estimator)
    return OutOfBagLogOdds(clone(estimator), cv=cv, n_jobs=n_jobs, random_state=seed)
