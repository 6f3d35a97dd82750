"""Define `Constrained`, which predicts labels that satisfy rules, with any classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.base import BaseEstimator, MetaEstimatorMixin, _fit_context, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, StrOptions

from skcrbm.constraints._conditions import Conditions
from skcrbm.constraints._counted_trees import counted_trees
from skcrbm.constraints._distributions import Counted, Eliminated, Listed, is_possible
from skcrbm.constraints._rules import LabelNumbers, Rule
from skcrbm.targets.kinds import label_output
from skcrbm.targets.known import KnownLabelsMixin
from skcrbm.targets.multioutput import make_wrapped_targets
from skcrbm.utils.classifiers import check_outer_fitted, explained_fit
from skcrbm.utils.fitting import all_or_nothing
from skcrbm.utils.label_distribution import LabelDistribution
from skcrbm.utils.labels import in_rows_of, indicator_by_name
from skcrbm.utils.limits import AUTO_ALL_LABEL_SETS, BLOCK_ENTRIES
from skcrbm.utils.options import Integer, tags_of_inner
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.validation import check_count, check_same_length, count_rows
from skcrbm.utils.warnings import warn_user

# Probabilities are clipped to this distance from 0 and 1, so that a classifier that is certain of a
# label cannot contradict a rule.
_CLIP = 1e-9
# Number of rows whose labels are inferred together, to bound the memory.
_ROWS = 1000
# The k most probable labels are a candidate of `predict` for each k up to this number.
_MOST_TOP = 32
_METRICS = {"expected_f1": "f1", "expected_jaccard": "jaccard"}


class Constrained(KnownLabelsMixin, MetaEstimatorMixin, BaseEstimator):
    """Multi-label classifier whose predictions satisfy rules between labels.

    The classifier is fitted without changes. Its distribution of the label vectors of a row is then
    restricted to the vectors that satisfy all rules: probabilities, best label vectors and samples
    are computed exactly under the rules, so that no prediction violates a rule.

    Parameters
    ----------
    estimator : classifier
        Multi-label classifier with `predict_proba`. A fitted classifier inside
        ``sklearn.frozen.FrozenEstimator`` is not fitted again.
    rules : list of rules
        Rules from `skcrbm.constraints`, such as ``Implies("beach", "sea")``.
    decode : {"map", "expected_f1", "expected_jaccard"}, default="map"
        Choice of the predicted label vector among the allowed vectors: "map" is the most probable
        vector. The other rules choose the vector with the largest expected F1 or Jaccard index
        over `n_samples` samples under the rules. The candidates are these samples, the most
        probable vector, and, if they satisfy the rules, the k most probable labels for k up to 32.
    n_samples : int, default=200
        Number of samples of each row for the expected metrics.
    random_state : int, RandomState or None, default=None
        Seed of the samples, fixed in `fit`.

    Attributes
    ----------
    estimator_ : classifier
        Fitted classifier.
    is_joint_ : bool
        True if the joint distribution of the classifier is restricted, and False if its
        probabilities are combined as if the labels were independent without the rules. The joint
        distribution is used if the classifier has one (`score_label_sets`) and there are at most
        14 labels.
    classes_ : ndarray (n_outputs,)
        Indices of the labels.
    label_names_ : ndarray of str (n_outputs,)
        Names of the labels, if y is a data frame with names.

    Notes
    -----
    If the joint distribution is not used, the labels are independent without the rules, with one
    exception: a label with a parent in a `Hierarchy` has the probability
    ``P(label | parent on) = p_label / p_parent`` (at most 1) from the predicted probabilities p. So
    probabilities that agree with a tree of labels do not change, and a small probability of a child
    is not counted twice. If a label has several parents, the first parent counts.

    If the rules are trees of labels and counts, and no two counts share a label or a tree, all
    answers come from a table of the labels and their counts, in a time proportional to the number
    of labels times the count. With 1000 labels, a tree, "at most 5", or both together take some
    tenths of a millisecond per row.

    Other rules become tables of a factor graph, with counters for rules about numbers of labels,
    and variable elimination answers all questions exactly. The time is linear in the number of
    labels and quadratic in the counts, and grows exponentially with the width of the graph: rules
    that overlap too much are refused. A graph of labels with several parents and a count of its
    labels is as wide as the graph is deep, because labels are counted in depth-first order.

    `fit` raises a ValueError if no label vector satisfies all rules, and names rules that
    contradict each other. It warns if labels of y violate the rules.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.multiclass import OneVsRestClassifier
    >>> from skcrbm.constraints import Between, Constrained, Implies
    >>> from skcrbm.datasets import make_structured_labels
    >>> X, Y = make_structured_labels(300, n_labels=4, random_state=0)
    >>> Y[:, 1] |= Y[:, 0]  # label 0 implies label 1
    >>> rules = [Implies(0, 1), Between([0, 1, 2, 3], 0, 3)]
    >>> Y = Y[Y.sum(axis=1) <= 3]
    >>> model = Constrained(OneVsRestClassifier(LogisticRegression()), rules)
    >>> labels = model.fit(X[: len(Y)], Y).predict(X)
    >>> bool((labels[:, 0] <= labels[:, 1]).all())
    True
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict_proba"])],
        "rules": [list, tuple],
        "decode": [StrOptions({"map", *_METRICS})],
        "n_samples": [Integer(1)],
        "random_state": ["random_state"],
    }

    _targets: Any
    _seed: int
    is_joint_: bool

    def __init__(
        self,
        estimator: Any,
        rules: Any,
        *,
        decode: str = "map",
        n_samples: int = 200,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.estimator = estimator
        self.rules = rules
        self.decode = decode
        self.n_samples = n_samples
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        inner = tags_of_inner(self.estimator)
        if inner is not None:
            tags.input_tags = inner.input_tags
        return tags

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None, **fit_params):
        """Fit the classifier, and check the rules.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs of the classifier.
        y : array-like of shape (n_samples, n_outputs)
            0/1 labels. Missing labels may be NaN if the classifier supports them.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, for the classifier.
        **fit_params : dict
            Further arguments of the classifier's `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument is invalid, or the rules contradict each other.
        """
        targets = make_wrapped_targets(y, type(self).__name__, self)
        targets.require_multilabel(type(self).__name__)
        check_same_length(X, y, sample_weight)
        numbers = LabelNumbers(targets.n_visible, targets.names)
        self._targets = targets
        self._conditions = _conditions_of(self.rules, numbers)
        self._trees = counted_trees(self._conditions)
        _require_consistent(self.rules, numbers, self._conditions)
        y = targets.for_classifier(y)
        visible = targets.encode(y)
        complete = visible[~np.isnan(visible).any(axis=1)]
        n_violations = int((~self._conditions.satisfied(complete)).sum())
        if n_violations:
            warn_user(
                f"{n_violations} of {len(complete)} complete rows of y violate the rules; their "
                "labels have probability 0 under the fitted model"
            )
        if sample_weight is not None:
            fit_params = {**fit_params, "sample_weight": sample_weight}
        with explained_fit(self.estimator, y):
            self.estimator_ = clone(self.estimator).fit(X, y, **fit_params)
        self.classes_ = targets.classes
        joint = LabelDistribution(self.estimator_, targets.n_visible).is_joint
        self.is_joint_ = joint and targets.n_visible <= AUTO_ALL_LABEL_SETS
        self._seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        for name in ("n_features_in_", "feature_names_in_"):
            vars(self).pop(name, None)
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    # ----------------------------------------------------------------------------- predictions

    @label_output
    def predict(self, X, y_known=None):
        """Predict label vectors that satisfy the rules.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels that are known beforehand, and NaN for the other labels. Data frames are matched
            to the labels by column name.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)

        Raises
        ------
        ValueError
            If the known labels of a row contradict the rules.
        """
        check_outer_fitted(self)
        self._validate_params()
        known = self._known(X, y_known)
        parts = list(self._parts(X, known))
        best = np.concatenate([part.best() for part in parts])
        if self.decode == "map":
            return best
        proba = np.concatenate([part.marginals() for part in parts])
        drawn = self._draw(X, known, self.n_samples, self._seed)
        top = self._allowed_top(proba, best)
        return _best_of_samples(drawn, top, _METRICS[self.decode])

    @label_output
    def predict_proba(self, X, y_known=None):
        """Return the probabilities P(y_i = 1 | x, rules) of shape (n_samples, n_outputs).

        Parameters
        ----------
        X, y_known
            As in `predict`.
        """
        check_outer_fitted(self)
        known = self._known(X, y_known)
        return np.concatenate([part.marginals() for part in self._parts(X, known)])

    def sample(self, X, n_samples=1, y_known=None, random_state=None):
        """Draw label vectors (n_samples_of_X, n_samples, n_outputs) that satisfy the rules.

        Parameters
        ----------
        X, y_known
            As in `predict`.
        n_samples : int, default=1
            Number of draws for each row.
        random_state : int, RandomState or None, default=None
            Seed of the draws.
        """
        check_outer_fitted(self)
        n_samples = check_count("n_samples", n_samples)
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        return self._draw(X, self._known(X, y_known), n_samples, seed)

    def predict_topk(self, X, k=1, y_known=None):
        """Return the k most probable label vectors of each row that satisfy the rules.

        Parameters
        ----------
        X, y_known
            As in `predict`.
        k : int, default=1
            Number of label vectors for each row.

        Returns
        -------
        labels : ndarray of int (n_samples, k, n_outputs)
            Label vectors in descending order of their probabilities. If fewer than k vectors
            satisfy the rules, the last vectors are filled with -1.
        proba : ndarray (n_samples, k)
            Probabilities under the rules; 0 for vectors filled with -1.
        """
        check_outer_fitted(self)
        k = check_count("k", k)
        parts = [part.top(k) for part in self._parts(X, self._known(X, y_known))]
        labels, log_proba = map(np.concatenate, zip(*parts))
        return labels, np.exp(log_proba)

    def score_samples(self, X, y):
        """Return the log-probability (n_samples,) of the label vectors y.

        The log-probability of a vector that violates a rule is -inf.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs)
            Complete 0/1 labels.
        """
        check_outer_fitted(self)
        labels = self._complete(y)
        check_same_length(X, labels)
        parts = self._parts(X, None)
        found = [part.log_proba(labels[part.rows]) for part in parts]
        return np.where(self._conditions.satisfied(labels), np.concatenate(found), -np.inf)

    def satisfies(self, y):
        """Return True (n_samples,) for the rows of complete 0/1 labels that satisfy the rules."""
        check_outer_fitted(self)
        return self._conditions.satisfied(self._complete(y))

    def _complete(self, y):
        """Validate y, and return it as 0/1 labels (N, L) without missing labels."""
        n_labels = self._targets.n_visible
        labels = indicator_by_name(y, self._targets.names, n_labels)
        if labels.ndim != 2 or labels.shape[1] != n_labels:
            raise ValueError(f"y must have shape (n_samples, {n_labels}), got {labels.shape}")
        if np.isnan(labels).any():
            raise ValueError("y must be complete: it holds NaN, or lacks columns of labels")
        return labels

    def _allowed_top(self, proba, best):
        """Return candidates (N, C, L): `best` (N, L), and the k most probable labels of each row.

        There is a candidate for each k from 1 to `_MOST_TOP` (at most L). If the k most probable
        labels violate the rules, `best` takes their place.
        """
        n_labels = proba.shape[1]
        rank = np.argsort(np.argsort(-proba, axis=1, kind="stable"), axis=1)
        found = [best]
        for k in range(1, min(n_labels, _MOST_TOP) + 1):
            labels = (rank < k).astype(np.int64)
            found.append(np.where(self._conditions.satisfied(labels)[:, None], labels, best))
        return np.stack(found, axis=1)

    def _known(self, X, y_known):
        return self._targets.check_known(in_rows_of(y_known, X), count_rows(X))

    def _parts(self, X, known):
        """Yield the label distribution under the rules for one block of rows after the other."""
        if count_rows(X) == 0:
            raise ValueError("X has no rows; at least one row is needed")
        distribution = LabelDistribution(self.estimator_, self._targets.n_visible)
        if self.is_joint_:
            allowed = self._conditions.enumerate()
            number = allowed @ (1 << np.arange(self._targets.n_visible)[::-1])
            for rows, log_p in distribution.tables(X, known):
                held = None if known is None else known[rows]
                yield Listed(rows, log_p[:, number], allowed, held)
            return
        proba = distribution.marginals(X)
        if proba.shape[1] != self._targets.n_visible:
            raise ValueError(
                f"estimator predicts {proba.shape[1]} labels, but y in fit has "
                f"{self._targets.n_visible}"
            )
        for rows in row_chunks(len(proba), _ROWS):
            held = None if known is None else known[rows]
            log_odds = _fields(proba[rows], self._conditions.parent)
            if self._trees is not None:
                yield Counted(rows, self._trees, log_odds, held)
            else:
                yield Eliminated(rows, self._conditions, log_odds, held)

    def _draw(self, X, known, n_samples, seed):
        rng = np.random.RandomState(seed)
        parts = self._parts(X, known)
        return np.concatenate([part.draw(n_samples, rng) for part in parts])


def _fields(proba, parent):
    """Return the fields (n, L) of labels with probabilities (n, L), given the parents (L,).

    The distribution without rules is the product of P(label) for labels without a parent, and of
    P(label | parent on) for labels with a parent. If the parent is off, the label is off. So the
    field of the parent includes the log-probability that the label is off while the parent is on.
    """
    p = np.clip(proba, _CLIP, 1 - _CLIP)
    child = np.flatnonzero(parent >= 0)
    given = p.copy()
    given[:, child] = np.clip(p[:, child] / p[:, parent[child]], _CLIP, 1 - _CLIP)
    fields = logit(given)
    np.add.at(fields, (slice(None), parent[child]), np.log1p(-given[:, child]))
    return fields


def _conditions_of(rules, numbers) -> Conditions:
    """Return the conditions of the rules, or raise a ValueError if a rule is invalid."""
    conditions = Conditions(numbers.n_labels)
    for rule in rules:
        if not isinstance(rule, Rule):
            raise ValueError(
                f"rules should hold rules of skcrbm.constraints, such as Implies('a', 'b'); got "
                f"{rule!r}"
            )
        rule.add_to(conditions, numbers)
    return conditions


def _require_consistent(rules, numbers, conditions) -> None:
    """Raise a ValueError if the rules overlap too much for elimination, or if they contradict."""
    try:
        if is_possible(conditions):
            return
    except ValueError as error:
        raise ValueError(
            "rules overlap too much for exact answers; leave out rules that share many labels with "
            f"other rules, or shorten them. Cause: {error}"
        ) from error
    kept = list(rules)
    for rule in list(rules):  # leave out each rule that the contradiction does not need
        fewer = [r for r in kept if r is not rule]
        if not is_possible(_conditions_of(fewer, numbers)):
            kept = fewer
    named = "; ".join(map(repr, kept))
    raise ValueError(f"rules contradict each other: no label vector satisfies {named}")


def _best_of_samples(drawn, others, metric):
    """Return the best candidate (N, L), by its mean metric over the samples `drawn` (N, S, L).

    The candidates are `others` (N, C, L) and the samples.
    """
    n, n_samples, n_labels = drawn.shape
    result = np.empty((n, n_labels), np.int64)
    n_candidates = n_samples + others.shape[1]
    size = max(1, BLOCK_ENTRIES // (n_candidates * max(n_samples, n_labels)))
    for rows in row_chunks(n, size):
        judges = drawn[rows].astype(np.float64)
        candidates = np.concatenate([others[rows], drawn[rows]], axis=1).astype(np.float64)
        both = candidates @ judges.transpose(0, 2, 1)
        sizes = candidates.sum(axis=2)[:, :, None] + judges.sum(axis=2)[:, None, :]
        whole = sizes / 2 if metric == "f1" else sizes - both
        value = np.where(sizes > 0, both / np.maximum(whole, 0.5), 0.0).mean(axis=2)
        chosen = (value >= value.max(axis=1, keepdims=True) - 1e-12).argmax(axis=1)
        result[rows] = candidates[np.arange(len(chosen)), chosen]
    return result
