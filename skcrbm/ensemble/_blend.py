"""Define BlendedLabelSets, which mixes the label distributions of a stack and of its trees."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from skcrbm.decoding import apply_thresholds, decode_label_sets
from skcrbm.decoding.expected import jaccard
from skcrbm.decoding.posterior import ZERO_DIVISION
from skcrbm.ensemble._compact_forest import CompactForest
from skcrbm.ensemble._out_of_bag import OutOfBagLogOdds, weighted_labels
from skcrbm.ensemble._stacked import make_stacked
from skcrbm.model_selection.folds import out_of_fold
from skcrbm.pipeline import Pipeline
from skcrbm.targets.classifier import check_outer_fitted, label_output
from skcrbm.targets.indicator import indicator_by_name, require_complete
from skcrbm.targets.kinds import make_targets
from skcrbm.targets.label_sets import all_label_vectors, may_be_empty
from skcrbm.targets.wrapped import WrappingClassifier, marginals_of
from skcrbm.utils.fitting import all_or_nothing
from skcrbm.utils.limits import AUTO_ALL_LABEL_SETS, BLOCK_ENTRIES
from skcrbm.utils.options import Integer, check_parameters, multilabel_tags
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.sklearn_private import HasMethods, StrOptions, fit_context
from skcrbm.utils.validation import (
    check_count,
    check_order,
    check_same_rows,
    note_features,
    take_rows,
)

# Number of EM steps that optimise the weight of the mixture. The log-likelihood is a concave
# function of the weight, so EM finds the global maximum.
_EM_STEPS = 500
# Probability below which a label vector counts as impossible, so that logarithms are finite.
_TINY = np.finfo(np.float64).tiny


class _Parts(NamedTuple):
    """Predictions of the forests for n rows, from which both mixed distributions are computed."""

    inputs: Any  # log-odds that the forests give to the labels, the inputs of the stack's last step
    trees: np.ndarray  # (n, K): probabilities that the trees give to the K label sets seen in fit


class BlendedLabelSets(WrappingClassifier):
    """Mixture of the label distribution of a stack with the label distribution of its trees.

    A stack from `make_stacked` contains a forest that is fitted on the label sets: its leaves hold
    a distribution over the label sets seen in training. The conditional RBM of the stack has a
    smooth distribution over all label vectors. The probability of a label vector is the weighted
    mean of both, ``w p_stack(y | x) + (1 - w) p_trees(y | x)``. The weight maximises the likelihood
    of training rows that neither component has seen: the trees predict out of bag, and the RBM out
    of fold. The blend uses the trees of the stack, so that it needs no further forest.

    Parameters
    ----------
    estimator : Pipeline, default=None
        Stack, as `make_stacked` returns it, with an `OutOfBagLogOdds` of a forest on label sets
        (``label_powerset=True, cv="oob"``) among its inputs. None stands for
        ``make_stacked(compare=False)``.
    decode : {"marginal", "label_set", "expected_f1", "expected_jaccard"}, default="marginal"
        Rule by which `predict` chooses labels. "marginal": the labels with a probability of at
        least 1/2. "label_set": the most probable of the label sets seen in fit. "expected_f1": the
        label vector with the largest expected F1. "expected_jaccard": the label set seen in fit
        with the largest expected Jaccard index. Expectations are over all label vectors if there
        are at most 14 labels, otherwise over the label sets seen in fit. As in `ExpectedMetric`,
        an empty prediction for a row without labels has the score 0.
    cv : int, splitter or iterable, default=5
        Folds of the rows. To find the weight, the last step of the stack is fitted without each
        fold in turn.
    n_jobs : int, default=None
        Number of threads of the default stack, and of folds fitted at the same time.
    random_state : int, RandomState or None, default=None
        Seed of the default stack.

    Attributes
    ----------
    estimator_ : Pipeline
        Fitted stack.
    weight_ : float
        Weight w of the distribution of the stack, from 0 to 1.
    log_likelihoods_ : dict of float
        Log-likelihood per unseen training row of the "stack", the "trees" and the "blend". It is
        -inf for the trees if a label set occurs in a single row, because the trees that have not
        seen this row do not know the set.
    label_sets_ : ndarray (n_sets, n_outputs)
        Distinct label sets of y.
    allow_empty_ : bool
        True if `predict` may return rows without a positive label, because y has such rows.
    classes_ : ndarray (n_outputs,)
        Numbers of the labels.
    label_names_ : ndarray of str (n_outputs,)
        Names of the labels, if y is a data frame with names.

    Notes
    -----
    Known labels (`y_known`) are not supported. Rows of weight 0 are left out. Other weights of rows
    count as copies of the rows in the conditional RBM and in the weight of the mixture. In the
    forests they are close to copies, but not equal, because trees draw their rows at random.

    y may contain NaN (missing labels), and `sample_weight` may hold weights of single labels, for
    the stack as in `make_stacked`. The label sets of the trees, and the rows that determine the
    weight of the mixture, are the rows with complete labels, with the smallest label weight of each
    row. At least one row must be complete; the more rows are, the better are both.

    Examples
    --------
    >>> from skcrbm.datasets import make_structured_labels
    >>> from skcrbm.ensemble import BlendedLabelSets, make_stacked
    >>> X, Y = make_structured_labels(300, n_labels=4, random_state=0)
    >>> stack = make_stacked(n_estimators=50, compare=False, random_state=0)
    >>> blend = BlendedLabelSets(stack).fit(X[:200], Y[:200])
    >>> blend.predict_proba(X[200:]).shape, 0 <= blend.weight_ <= 1
    ((100, 4), True)
    """

    _saved = ("classes_", "_targets", "estimator_", "weight_", "label_sets_")
    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "decode": [StrOptions({"marginal", "label_set", "expected_f1", "expected_jaccard"})],
        "cv": ["cv_object"],
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
    }

    def __init__(self, estimator=None, *, decode="marginal", cv=5, n_jobs=None, random_state=None):
        self.estimator = estimator
        self.decode = decode
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self):
        return multilabel_tags(super().__sklearn_tags__(), self.estimator)

    @all_or_nothing
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None):
        """Fit the stack and find the weight.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples, n_outputs)
            0/1 labels; NaN marks missing labels.
        sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
            Weights of the rows, or of single labels; a label of weight 0 is a missing label.

        Returns
        -------
        self : object
            This object.

        Raises
        ------
        ValueError
            If y is invalid or has no complete row, or the stack contains no forest on label sets.
        """
        targets = make_targets(y, estimator=self)
        if not targets.multilabel:
            raise ValueError(
                "y must be a 0/1 indicator matrix (n_samples, n_outputs) with at least two columns "
                "for BlendedLabelSets; use another classifier for the classes of a 1-D y"
            )
        check_same_rows(X, y)
        check_order(X=X, y=y, sample_weight=sample_weight)
        note_features(self, X)
        y = targets.for_classifier(y)
        visible, weight = weighted_labels(targets, y, sample_weight)
        weight = np.ones(len(visible)) if weight is None else weight
        counted = weight.reshape(len(weight), -1) * ~np.isnan(visible)
        rows = np.flatnonzero(counted.any(axis=1))
        if np.isnan(visible).any():  # folds must not depend on the values of labels of weight 0
            y = targets.framed(visible, y.index) if hasattr(y, "iloc") else visible
        X, y = take_rows(X, rows), take_rows(y, rows)
        visible, weight = visible[rows], weight[rows]
        complete = np.flatnonzero(~np.isnan(visible).any(axis=1))
        if not len(complete):
            raise ValueError(
                "y must hold a row without NaN (not observed) and without labels of weight 0: "
                "BlendedLabelSets learns the label sets of its trees from complete rows"
            )
        params = {} if sample_weight is None else {"sample_weight": weight}
        stack: Any = self.estimator
        if stack is None:
            options = {"n_jobs": self.n_jobs, "random_state": self.random_state}
            stack = make_stacked(compare=False, **options)
        stack = Pipeline(clone(stack).steps) if isinstance(stack, Pipeline) else stack
        _label_set_part(stack)  # raises an error before the fit
        inputs = stack.steps[0][1].fit_transform(X, y, **params)
        final = clone(stack[-1])
        seen = out_of_fold(
            final,
            inputs,
            y,
            cv=self.cv,
            respond=_log_likelihoods,
            n_jobs=self.n_jobs,
            fit_params=params,
            beside=(visible,),
        )
        stack.steps[-1] = (stack.steps[-1][0], final.fit(inputs, y, **params))
        part = _label_set_part(stack)
        _, own = np.unique(visible[complete], axis=0, return_inverse=True)
        proba = part._set_probabilities(X, out_of_bag=True)[complete, own.ravel()]
        weight = weight if weight.ndim == 1 else weight.min(axis=1)
        used = ~np.isnan(proba)  # rows that at least one tree was fitted without
        seen, proba, weight = seen[complete][used], proba[used], weight[complete][used]
        self.weight_ = _best_weight(seen, proba, weight)
        with np.errstate(divide="ignore"):
            trees = np.log(proba)
            blend = np.logaddexp(np.log(self.weight_) + seen, np.log1p(-self.weight_) + trees)
        values = {"stack": seen, "trees": trees, "blend": blend}
        self.log_likelihoods_ = {
            name: float(np.average(value, weights=weight)) for name, value in values.items()
        }
        self.allow_empty_ = may_be_empty(visible)
        self._set_targets(targets)
        self.estimator_, self.label_sets_ = stack, part.label_sets_
        return self

    # ------------------------------------------------------------------ predictions

    def _parts(self, X) -> _Parts:
        check_outer_fitted(self)
        check_parameters(self, ["decode"])
        inputs = self.estimator_[:-1].transform(X)
        part = _label_set_part(self.estimator_)
        return _Parts(inputs, part._set_probabilities(X))

    @label_output
    def predict_proba(self, X):
        """Return P(y_i = 1 | x) of each label.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_outputs)
            Probabilities.
        """
        parts = self._parts(X)
        return self._marginals(parts)

    def _marginals(self, parts):
        stack = marginals_of(self._final, parts.inputs, None, self._targets)
        return self.weight_ * stack + (1 - self.weight_) * (parts.trees @ self.label_sets_)

    @property
    def _final(self):
        return self.estimator_[-1]

    @label_output
    def predict(self, X):
        """Predict labels by the rule `decode`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        labels : ndarray of shape (n_samples, n_outputs)
            0/1 labels.
        """
        parts = self._parts(X)
        if self.decode == "marginal":
            half = np.full(self.label_sets_.shape[1], 0.5)
            labels = apply_thresholds(self._marginals(parts), half, allow_empty=self.allow_empty_)
            return self._targets.decode(labels)
        few = self.label_sets_.shape[1] <= AUTO_ALL_LABEL_SETS
        every = all_label_vectors(self.label_sets_.shape[1]) if few else self.label_sets_
        sets = self.label_sets_ if self.decode == "label_set" else every
        value = None
        if self.decode == "expected_jaccard":
            value = jaccard(sets.astype(float), self.label_sets_.astype(float), ZERO_DIVISION)
        labels = np.empty((len(parts.trees), sets.shape[1]), np.int64)
        for rows in row_chunks(len(labels), max(1, BLOCK_ENTRIES // len(sets))):
            labels[rows] = self._decoded(_Parts(parts.inputs[rows], parts.trees[rows]), sets, value)
        return self._targets.decode(labels)

    def _decoded(self, parts, sets, value):
        """Return, for each row, the labels with the best expected metric, as an array (n, L)."""
        proba = np.exp(self._log_proba_of_sets(parts, sets))
        if self.decode == "expected_f1":
            options = {"zero_division": ZERO_DIVISION, "allow_empty": self.allow_empty_}
            return decode_label_sets(sets, proba, "f1_samples", **options)
        expected = proba if value is None else proba @ value
        return self.label_sets_[expected.argmax(axis=1)]

    def _log_proba_of_sets(self, parts, sets):
        """Return log p(y | x), an array (n, k), of k label sets (k, L) in each of n rows."""
        stack = np.asarray(self._final.score_label_sets(parts.inputs, sets))
        agree = _agreement(sets, self.label_sets_)
        return self._blended(stack, parts.trees @ agree.T)

    def _blended(self, log_stack, trees):
        with np.errstate(divide="ignore"):
            return np.logaddexp(
                np.log(self.weight_) + log_stack, np.log1p(-self.weight_) + np.log(trees)
            )

    def score_samples(self, X, y):
        """Return the log-likelihood of labels, log p(y | x), of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples, n_outputs)
            Labels. Missing labels (NaN) are summed out.

        Returns
        -------
        log_likelihood : ndarray of shape (n_samples,)
            Log-likelihood of each row.
        """
        parts = self._parts(X)
        visible = self._targets.encode(y)
        check_order(X=X, y=y)
        check_same_rows(parts.trees, visible)
        stack = np.asarray(self._final.score_samples(parts.inputs, visible))
        trees = (parts.trees * _agreement(visible, self.label_sets_)).sum(axis=1)
        return self._blended(stack, trees)

    def score_label_sets(self, X, label_sets):
        """Return the log-probabilities of several label vectors in each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        label_sets : array-like of shape (n_sets, n_outputs)
            Label vectors of 0 and 1.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_sets)
            Logarithms of p(y | x).
        """
        parts = self._parts(X)
        sets = indicator_by_name(
            label_sets, self._targets.names, self._targets.n_visible, "label_sets"
        )
        require_complete(sets, "label_sets must be complete")
        return self._log_proba_of_sets(parts, sets)

    def sample(self, X, n_samples=1, *, random_state=None):
        """Draw label vectors from p(y | x).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        n_samples : int, default=1
            Number of draws for each row.
        random_state : int, RandomState or None, default=None
            Seed of the draws.

        Returns
        -------
        labels : ndarray of shape (n_rows, n_samples, n_outputs)
            0/1 labels.
        """
        check_count("n_samples", n_samples)
        parts = self._parts(X)
        rng = check_random_state(random_state)
        seed = rng.randint(np.iinfo(np.int32).max)
        draws = np.array(self._final.sample(parts.inputs, n_samples, random_state=seed))
        from_trees = rng.random_sample(draws.shape[:2]) >= self.weight_
        total = parts.trees.cumsum(axis=1)
        level = rng.random_sample(draws.shape[:2]) * total[:, -1:]
        index = (total[:, None] <= level[..., None]).sum(axis=2).clip(max=total.shape[1] - 1)
        draws[from_trees] = self.label_sets_[index[from_trees]]
        return draws


def _label_set_part(stack) -> Any:
    """Return the `OutOfBagLogOdds` of a stack that fits its forest on label sets.

    A ValueError is raised if the stack has no such forest.
    """
    steps = getattr(stack, "steps", [("", None)])
    parts = [part for _, part in getattr(steps[0][1], "transformer_list", [])]
    for part in parts if len(steps) == 2 else []:
        if isinstance(part, OutOfBagLogOdds) and part.label_powerset and part.cv == "oob":
            fitted = getattr(part, "estimator_", None)
            if fitted is None or isinstance(fitted, CompactForest):
                return part
    raise ValueError(
        "estimator must be a pipeline from make_stacked, with an OutOfBagLogOdds of a forest with "
        'label_powerset=True and cv="oob" among its inputs'
    )


def _log_likelihoods(model, X, visible):
    """Return log p(y | x) of each held-out row, as an array (n,)."""
    return np.asarray(model.score_samples(X, visible))


def _agreement(labels, sets):
    """Return an array (n, K) that is 1 if row i of `labels` agrees with row k of `sets`, else 0.

    `labels` (n, L) and `sets` (K, L) hold label vectors. A missing label (NaN) agrees with 0 and
    with 1.
    """
    wrong = (labels == 1) @ (1.0 - sets.T) + (labels == 0) @ sets.T.astype(float)
    return (wrong == 0).astype(float)


def _best_weight(log_stack, trees, weight_of_rows):
    """Find, by EM, the weight of the stack for which the mixture has the largest likelihood.

    For each row, `log_stack` holds the log-probability that the stack gives to the labels of the
    row, and `trees` the probability that the trees give to them. `weight_of_rows` (n,) holds the
    weights of the rows.
    """
    weight = 0.5
    stack = np.exp(np.maximum(log_stack, np.log(_TINY)))
    for _ in range(_EM_STEPS):
        own = weight * stack
        share = own / (own + (1 - weight) * trees)
        weight = float(np.average(share, weights=weight_of_rows))
    return weight
