"""Define `make_stacked`, which makes a pipeline of forests and a conditional RBM."""

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.pipeline import make_union
from sklearn.utils import check_random_state
from sklearn.utils.validation import has_fit_parameter

from skcrbm.ensemble._out_of_bag import OutOfBagLogOdds
from skcrbm.estimators import CRBMClassifier
from skcrbm.pipeline import Pipeline, make_pipeline
from skcrbm.targets.weights import is_per_label
from skcrbm.utils.options import Integer
from skcrbm.utils.sklearn_private import HasMethods, StrOptions, routing_enabled, validate_params
from skcrbm.utils.warnings import warn_user

# `fit` warns if the held-out log-likelihood of the plain model is better than the log-likelihood of
# the stack by more than this share (1%). The share lies between the results on two data sets: on
# birds the plain model is better by 0.5% on held-out rows, but worse on test rows; on enron the
# plain model is better by 1.4% on held-out rows, and also better on test rows.
_MARGIN = 0.01


class StackedPipeline(Pipeline):
    """Stack whose `fit` passes `sample_weight` to all classifiers and to the last step."""

    def fit(self, X, y=None, sample_weight=None, **params):
        """Fit the stack.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            Labels.
        sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
            Weights of the rows or of single labels, for all parts of the stack. With metadata
            routing, only steps that request `sample_weight` get the weights.
        **params : dict
            Further parameters of the steps, as in scikit-learn's pipeline.

        Returns
        -------
        self : object
            This object.
        """
        if sample_weight is None:
            return super().fit(X, y, **params)
        if routing_enabled():
            return super().fit(X, y, sample_weight=sample_weight, **params)
        for _, part in getattr(self.steps[0][1], "transformer_list", []):
            if not has_fit_parameter(part, "sample_weight"):
                raise ValueError(
                    f"sample_weight is not supported by {type(part).__name__}.fit, which is one of "
                    "the estimators of the stack. Leave this estimator out, or enable metadata "
                    "routing, with which only the steps that request weights get them"
                )
            if not isinstance(part, OutOfBagLogOdds) and is_per_label(sample_weight):
                raise ValueError(
                    f"sample_weight must have shape (n_samples,) for the {type(part).__name__} of "
                    f"the stack, got {np.shape(sample_weight)}. Leave this estimator out, or "
                    "transform X before the stack, if weights belong to single labels"
                )
        weights = {f"{name}__sample_weight": sample_weight for name, _ in self.steps}
        return super().fit(X, y, **weights, **params)


class ComparedPipeline(StackedPipeline):
    """Stack that compares its held-out log-likelihood with the log-likelihood of a plain model.

    The plain model is a copy of the last step of the stack, fitted on X instead of log-odds. Both
    held-out log-likelihoods come from the search for the penalty, which holds out rows in folds.
    The comparison is fair, because the log-odds are out of bag: the forests have not seen the
    held-out rows either.
    """

    def fit(self, X, y=None, sample_weight=None, **params):
        """Fit the stack and the plain model, and warn if the plain model is better."""
        for name in ("plain_", "held_out_log_likelihood_"):
            self.__dict__.pop(name, None)
        super().fit(X, y, sample_weight, **params)
        prefix = f"{self.steps[-1][0]}__"
        others = not all(name.startswith(prefix) for name in params)
        searched = len(self[-1].alpha_path_["alpha"]) > 0  # else there are no held-out rows
        if others or not searched or _has_nan(X):
            return self
        options = {name.removeprefix(prefix): value for name, value in params.items()}
        if sample_weight is not None:
            options["sample_weight"] = sample_weight
        self.plain_ = clone(self[-1]).fit(X, y, **options)
        figures = {"stack": _held_out(self[-1]), "plain": _held_out(self.plain_)}
        self.held_out_log_likelihood_ = figures
        if figures["plain"] > figures["stack"] + _MARGIN * abs(figures["stack"]):
            warn_user(
                f"CRBMClassifier on X has a held-out log-likelihood of {figures['plain']:.3f} per "
                f"row, and the stack only {figures['stack']:.3f}; use CRBMClassifier alone, which "
                "is the attribute plain_ of this pipeline"
            )
        return self


def _has_nan(X):
    values = X.data if issparse(X) else np.asarray(X)
    return values.dtype.kind not in "biu" and bool(np.isnan(values.astype(float)).any())


def _held_out(model):
    """Return the best held-out log-likelihood in the search for alpha.

    Only entries of `alpha_path_` with the number of hidden units of the final model count.
    """
    path = model.alpha_path_
    chosen = path["n_hidden"] == model.n_hidden_
    return float(path["log_likelihood"][chosen if chosen.any() else slice(None)].max())


@validate_params(
    {
        "estimators": ["array-like", None],
        "final_estimator": [HasMethods(["fit", "predict"]), None],
        "n_estimators": [Integer(1)],
        "cv": ["cv_object", StrOptions({"oob"})],
        "compare": ["boolean"],
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
    compare=True,
    n_jobs=None,
    random_state=None,
):
    """Make a pipeline of classifiers and a conditional RBM that is fitted on their log-odds.

    The pipeline adds the dependence between labels to strong classifiers. By default three forests
    turn X into log-odds of the labels, with out-of-bag predictions for the training rows. From
    these log-odds a `CRBMClassifier` learns how reliable each forest is, and which labels occur
    together.

    Parameters
    ----------
    estimators : list or None, default=None
        Classifiers and transformers whose outputs are the inputs of the final estimator.
        Classifiers with `predict_proba` are wrapped in an `OutOfBagLogOdds`; transformers are used
        unchanged. None stands for three forests: extra trees and a random forest that are fitted on
        the labels, and extra trees that are fitted on the label sets. They need a 2-D y.
    final_estimator : estimator or None, default=None
        Model that is fitted on the log-odds. None stands for a `CRBMClassifier` with default
        parameters, which finds its own penalty.
    n_estimators : int, default=300
        Number of trees in each of the three default forests.
    cv : "oob", int, splitter or iterable, default="oob"
        How the wrapped classifiers predict the training rows, see `OutOfBagLogOdds`.
    compare : bool, default=True
        If True and both `estimators` and `final_estimator` are None, `fit` also fits a
        `CRBMClassifier` on X itself and warns if the held-out log-likelihood of this model is more
        than 1% better than the held-out log-likelihood of the stack. This takes 10 to 30% more
        time. The comparison is left out if X contains NaN, if `fit` gets parameters for other steps
        than the last, or if no rows are held out, because there are fewer than 40 rows or the final
        estimator has been given a penalty.
    n_jobs : int, default=None
        Number of threads of the default forests and of the default `CRBMClassifier`. If
        `estimators` is given, number of folds that are fitted in parallel.
    random_state : int, RandomState or None, default=None
        Seed from which the wrapped classifiers and the final estimator get their own seeds. None
        leaves their seeds unchanged.

    Returns
    -------
    pipeline : skcrbm.pipeline.Pipeline
        Pipeline of a `FeatureUnion` and the final estimator. Its `fit` takes `sample_weight` for
        all parts, and it has the prediction methods of the final estimator, such as `sample` and
        `predict_topk`, including their argument `y_known`. A fitted pipeline that has made the
        comparison has two more attributes: `plain_` is the `CRBMClassifier` that was fitted on X,
        and `held_out_log_likelihood_` is a dict with the log-likelihoods per row of "stack" and
        "plain".

    Raises
    ------
    ValueError
        If a parameter is invalid or the list is empty.

    See Also
    --------
    OutOfBagLogOdds : Compute the log-odds of a single classifier.
    sklearn.ensemble.StackingClassifier : Stack estimators by cross-validation for a 1-D y.

    Notes
    -----
    The default forests take NaN in y (missing labels) and weights of single labels, in `fit` with
    `sample_weight` of the shape of y; `OutOfBagLogOdds` tells how. The same holds for other forests
    of scikit-learn in `estimators`. For classifiers that support NaN themselves, choose folds as
    `cv`, as in ``make_stacked([CRBMClassifier(), ...], cv=5)``.

    The comparison uses the folds by which both models choose their penalty. The log-odds of the
    rows in these folds are out of bag. On data with many 0/1 columns, such as enron and medical,
    the plain model is often better.

    Boosted trees have no out-of-bag predictions, so use folds for them:
    ``make_stacked([OneVsRestClassifier(booster)], cv=5)``.

    With 20,000 rows and 1,131 label sets a fit of the stack takes 1.1 GB, because its trees keep
    only their splits and the label sets that occur in each leaf (see `OutOfBagLogOdds`).

    A fourth forest, a random forest that is fitted on the label sets, is left out on purpose: on
    the Yeast data it takes as long as the three others together and does not improve the
    predictions.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from skcrbm.ensemble import make_stacked
    >>> X, Y = make_multilabel_classification(n_samples=150, random_state=0)
    >>> stacked = make_stacked(n_estimators=50, compare=False, random_state=0).fit(X, Y)
    >>> stacked.predict_proba(X[:2]).shape
    (2, 5)
    """
    rng = None if random_state is None else check_random_state(random_state)

    def seed():
        return None if rng is None else rng.randint(np.iinfo(np.int32).max)

    compare = compare and estimators is None and final_estimator is None
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
    pipeline = make_pipeline(make_union(*parts), final_estimator)
    return (ComparedPipeline if compare else StackedPipeline)(pipeline.steps)


def _part(estimator, cv, n_jobs, seed):
    # A CRBMClassifier has the methods `predict_proba` and `transform`. Treat an estimator with both
    # methods as a classifier.
    is_classifier = hasattr(estimator, "predict_proba")
    if not hasattr(estimator, "fit") or not (is_classifier or hasattr(estimator, "transform")):
        raise ValueError(
            "estimators must hold classifiers with predict_proba, or transformers, got "
            f"{estimator!r}"
        )
    if not is_classifier:
        return clone(estimator)
    return OutOfBagLogOdds(clone(estimator), cv=cv, n_jobs=n_jobs, random_state=seed)
