"""Define `Constrained`, which predicts labels that satisfy rules, with any classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from scipy.special import logit
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from skcrbm.constraints._contradictions import (
    conditions_of,
    contradiction,
    possible_rows,
    require_consistent,
    violations_message,
)
from skcrbm.constraints._counted_trees import counted_trees
from skcrbm.constraints._distributions import Counted, Eliminated, Impossible, Listed
from skcrbm.constraints._rules import LabelNumbers
from skcrbm.constraints._wide import Wide, wide_rules
from skcrbm.targets.classifier import (
    check_outer_fitted,
    label_output,
    score_with_known,
)
from skcrbm.targets.distribution import LabelDistribution, TopLabelSets
from skcrbm.targets.frames import framed_top
from skcrbm.targets.indicator import indicator_by_name
from skcrbm.targets.wrapped import WrappingClassifier, takes_known, wrapped_rows
from skcrbm.utils.fitting import all_or_nothing
from skcrbm.utils.limits import AUTO_ALL_LABEL_SETS, BLOCK_ENTRIES, MAX_ALL_LABEL_SETS
from skcrbm.utils.options import Integer, ProbabilisticClassifier, multilabel_tags
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.sklearn_private import StrOptions, fit_context
from skcrbm.utils.validation import check_count, check_same_rows, count_rows
from skcrbm.utils.warnings import warn_user

# Probabilities are clipped to this distance from 0 and 1. If a classifier were certain of labels
# that contradict a rule, no label vector would be possible.
_CLIP = 1e-9
# Number of rows whose labels are inferred together, to bound the memory.
_ROWS = 1000
# Largest k for which the k most probable labels are a candidate of `predict`.
_MOST_TOP = 32
_METRICS = {"expected_f1": "f1", "expected_jaccard": "jaccard"}


def _has_few_labels(model):
    """Return True if all label vectors of a fitted model can be enumerated."""
    targets = vars(model).get("_targets")
    return targets is not None and targets.n_visible <= MAX_ALL_LABEL_SETS


class Constrained(WrappingClassifier):
    """Multi-label classifier whose predictions satisfy rules between labels.

    The rules have no effect on the fit of the classifier. In prediction, the classifier's
    distribution over label vectors is restricted to the vectors that satisfy all rules, so that no
    prediction violates a rule. Probabilities, best label vectors and samples under the rules are
    exact, unless the rules overlap too much (`is_exact_`).

    Parameters
    ----------
    estimator : classifier
        Multi-label classifier with `predict_proba`. A fitted classifier inside
        ``sklearn.frozen.FrozenEstimator`` is not fitted again.
    rules : list of rules
        Rules from `skcrbm.constraints`, such as ``Implies("beach", "sea")``.
    decode : {"expected_f1", "expected_jaccard", "map", "marginal"}, default="expected_f1"
        Rule by which `predict` chooses one of the allowed label vectors. It should suit your
        metric:

        - "expected_f1" and "expected_jaccard": the vector with the largest expected F1 or Jaccard
          index, estimated from `n_samples` samples that satisfy the rules. The candidates are these
          samples, the most probable vector, and for each k up to 32 the k most probable labels, if
          they satisfy the rules.
        - "map": the most probable vector, for the subset accuracy.
        - "marginal": the vector with the largest expected number of correct labels, for the Hamming
          loss. If the labels with a probability above one half satisfy the rules, as in a
          hierarchy, the vector consists of these labels.

        The default is the default of `DecodedClassifier`. With many rare labels, "map" and
        "marginal" predict no label for most rows, because hardly any label has a probability above
        one half.
    n_samples : int, default=200
        Number of samples of each row for the expected metrics.
    random_state : int, RandomState or None, default=None
        Seed of the samples. `fit` chooses the seed, so that all predictions use the same samples.

    Attributes
    ----------
    estimator_ : classifier
        Fitted classifier.
    is_joint_ : bool
        True if the rules restrict the joint distribution of the classifier. False if they restrict
        a product of its probabilities, as if the labels were independent without the rules. The
        joint distribution is used if the classifier has one (`score_label_sets`) and there are at
        most 14 labels.
    is_exact_ : bool
        False if the rules overlap too much for exact answers, so that probabilities and samples are
        estimates.
    classes_ : ndarray (n_outputs,)
        Indices of the labels.
    label_names_ : ndarray of str (n_outputs,)
        Names of the labels, if y is a data frame with names.

    Notes
    -----
    If the joint distribution is not used, the labels are treated as independent before the rules
    are applied, with one exception: if a label has a parent in a `Hierarchy`, its probability given
    that the parent is on is ``p_label / p_parent`` (at most 1), where p are the predicted
    probabilities. Therefore the rules do not change probabilities that already agree with a tree of
    labels. If a label has several parents, only the first parent is used. A rule with the same
    meaning, such as ``Implies(child, parent)``, has the same effect as a `Hierarchy`.

    Known labels, `y_known`, change predictions in two ways. First, other labels may follow from the
    rules. For example, if a child is known to be on, its parents are on. Second, the classifier
    conditions its probabilities on the known labels if its `predict_proba` takes `y_known`, as in
    `CRBMClassifier`, `MSSVMCRBM` and `LMBMClassifier`. If the joint distribution is used, the
    answers are exact. Otherwise the rules restrict the product of the conditional
    probabilities P(label | x, y_known), as if the unknown labels were independent given x and the
    known labels. Other classifiers, such as forests, assume that labels are independent given x, so
    known labels change predictions through the rules alone. (`DecodedClassifier`, which has no
    rules, raises an error if it gets known labels for these classifiers, because the known labels
    would change nothing.)

    If the rules are trees of labels and counts, and no two counts share a label or a tree, all
    answers are computed from a table over labels and counts. The time is proportional to the number
    of labels times the largest count. For example, a tree of 1000 labels, the rule "at most 5 of
    1000 labels", or both together take some tenths of a millisecond per row.

    Other rules become tables of a factor graph, with counters for rules about numbers of labels,
    and variable elimination answers all questions exactly. The time is linear in the number of
    labels and quadratic in the counts, and grows exponentially with the treewidth of the graph. If
    a rule counts the labels of a hierarchy with several parents per label, the treewidth is about
    the depth of the hierarchy, because labels are counted in depth-first order. Without counts the
    treewidth may be too large, too, if many labels have several parents: it is too large for all
    4125 labels of a gene ontology, but not for its 1500 most frequent labels, which take 70
    milliseconds per row.

    If the treewidth is too large for elimination, `fit` warns and sets `is_exact_` to False. Best
    vectors then come from integer programs with at most 2000 nodes, and `predict_with_gap` returns
    a bound of their distance from the optimum. Probabilities and samples come from 2000 weighted
    draws of each row, from the top of the hierarchy to its bottom. Each weight is at most 1, so the
    sum of the weights bounds the error: predictions warn if the sum is below 20, and raise an error
    if it is below 1. If, in addition, implications form a cycle, an error is raised.

    `fit` raises a ValueError if no label vector satisfies all rules, and names rules that
    contradict each other. It warns if rows of y violate the rules. A row with missing labels can
    violate a rule, too, for example if a child is on and its parent is off.

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
        "estimator": [ProbabilisticClassifier()],
        "rules": "no_validation",  # `conditions_of` checks them
        "decode": [StrOptions({"map", "marginal", *_METRICS})],
        "n_samples": [Integer(1)],
        "random_state": ["random_state"],
    }

    _targets: Any
    _seed: int
    is_joint_: bool
    is_exact_: bool

    def __init__(
        self,
        estimator: Any,
        rules: Any,
        *,
        decode: str = "expected_f1",
        n_samples: int = 200,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.estimator = estimator
        self.rules = rules
        self.decode = decode
        self.n_samples = n_samples
        self.random_state = random_state

    def __sklearn_tags__(self):
        return multilabel_tags(super().__sklearn_tags__(), self.estimator)

    @all_or_nothing
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None, **fit_params):
        """Fit the classifier, and check the rules.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs of the classifier.
        y : array-like of shape (n_samples, n_outputs)
            0/1 labels. Missing labels may be NaN if the classifier supports them.
        sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
            Weights of the rows, or of single labels if the classifier supports them.
        **fit_params : dict
            Further arguments of the classifier's `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument is invalid, or the rules contradict each other.

        Warns
        -----
        UserWarning
            If rows of y violate the rules, or the rules overlap too much for exact answers.
        """
        labels = wrapped_rows(X, y, sample_weight, type(self).__name__, self, several=True)
        targets, visible = labels.targets, labels.visible
        numbers = LabelNumbers(targets.n_visible, targets.names)
        self._set_targets(targets)
        self._numbers = numbers
        self._conditions = conditions_of(self.rules, numbers)
        self._fitted_rules = list(self.rules)
        self._trees = counted_trees(self._conditions)
        self.is_exact_ = require_consistent(self.rules, numbers, self._conditions, visible)
        self._wide = None if self.is_exact_ else wide_rules(self._conditions)
        possible = possible_rows(self._conditions, visible)
        if not possible.all():
            warn_user(violations_message(self.rules, numbers, visible, possible))
        self._fit_wrapped(X, labels, fit_params)
        joint = LabelDistribution(self.estimator_, targets).is_joint
        self.is_joint_ = joint and targets.n_visible <= AUTO_ALL_LABEL_SETS
        self._seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
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
            If the known labels of a row contradict the rules. The message names the labels and the
            rule; ``satisfies(y_known)`` tells which rows are possible.
        """
        check_outer_fitted(self)
        self._validate_params()
        known = self._targets.check_known(y_known, X)
        if self.decode == "map":
            return np.concatenate(self._answers(X, known, lambda part: part.best()))
        if self.decode == "marginal":
            return np.concatenate(
                self._answers(X, known, lambda part: part.heaviest(2 * part.marginals() - 1))
            )
        answers = self._answers(X, known, lambda part: (part.best(), part.marginals()))
        best, proba = map(np.concatenate, zip(*answers))
        drawn = self._draw(X, known, self.n_samples, self._seed, alike=True)
        top = self._allowed_top(proba, best)
        return _best_of_samples(drawn, top, _METRICS[self.decode])

    def predict_with_gap(self, X, y_known=None):
        """Return the most probable label vectors, with a bound of their distance from the optimum.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        labels : ndarray of int (n_samples, n_outputs)
            Label vectors that satisfy the rules.
        objective : ndarray (n_samples,)
            If `is_joint_` is True, the negative logarithm of the probability of the labels under
            the rules, else the negative sum of the log-odds of the labels that are on.
        gap : ndarray (n_samples,)
            Upper bound of the difference between `objective` and the smallest objective; 0 if the
            labels are proven to be the most probable vector.
        """
        check_outer_fitted(self)

        def ask(part):
            if isinstance(part, Wide):
                labels, score, bound = part.certified()
                return labels, -score, bound - score
            labels = part.best()
            score = part.log_weight(labels)
            return labels, -score, np.zeros(len(score))

        answers = self._answers(X, self._targets.check_known(y_known, X), ask)
        return tuple(map(np.concatenate, zip(*answers)))

    score: ClassVar[Callable[..., float]] = score_with_known

    @label_output
    def predict_proba(self, X, y_known=None):
        """Return the probabilities P(y_i = 1 | x, rules) of shape (n_samples, n_outputs).

        Parameters
        ----------
        X, y_known
            As in `predict`.
        """
        check_outer_fitted(self)
        known = self._targets.check_known(y_known, X)
        proba = np.concatenate(self._answers(X, known, lambda part: part.marginals()))
        proba = np.clip(proba, 0, 1)  # sums of probabilities may exceed 1 by rounding
        return proba if known is None else np.where(np.isnan(known), proba, known)

    def sample(self, X, n_samples=1, y_known=None, random_state=None, *, return_log_proba=False):
        """Draw label vectors (n_samples_of_X, n_samples, n_outputs) that satisfy the rules.

        Parameters
        ----------
        X, y_known
            As in `predict`.
        n_samples : int, default=1
            Number of draws for each row.
        random_state : int, RandomState or None, default=None
            Seed of the draws.
        return_log_proba : bool, default=False
            If True, also return the log-probability of each draw under the rules, as an array
            (n_samples_of_X, n_samples).
        """
        check_outer_fitted(self)
        n_samples = check_count("n_samples", n_samples)
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        known = self._targets.check_known(y_known, X)
        if not return_log_proba:
            return self._draw(X, known, n_samples, seed)
        rng = np.random.RandomState(seed)

        def draw(part):
            drawn = part.draw(n_samples, rng)
            return drawn, part.log_proba_of_draws(drawn)

        return tuple(map(np.concatenate, zip(*self._answers(X, known, draw))))

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

            After `set_label_output`, both are data frames or series, as those of `CRBMClassifier`.
        """
        check_outer_fitted(self)
        k = check_count("k", k)
        answers = self._answers(X, self._targets.check_known(y_known, X), lambda part: part.top(k))
        labels, log_proba = map(np.concatenate, zip(*answers))
        top = TopLabelSets(labels, np.exp(log_proba))
        return framed_top(top, self._targets, self._label_container, X)

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
        check_same_rows(X, y)
        found = self._answers(X, None, lambda part: part.log_proba(labels[part.rows]))
        return np.where(self._conditions.satisfied(labels), np.concatenate(found), -np.inf)

    @available_if(_has_few_labels)
    def score_label_sets(self, X, label_sets, y_known=None):
        """Return the log-probabilities of several label vectors in each row.

        The log-probability of a vector that violates a rule or a known label is -inf. The method
        exists if there are at most 20 labels.

        Parameters
        ----------
        X, y_known
            As in `predict`.
        label_sets : array-like of shape (n_sets, n_outputs)
            Label vectors of 0 and 1, the same for all rows.

        Returns
        -------
        ndarray of shape (n_samples, n_sets)
        """
        check_outer_fitted(self)
        sets = self._complete(label_sets, "label_sets").astype(np.int64)
        known = self._targets.check_known(y_known, X)
        found = self._answers(X, known, lambda part: part.log_proba_of_sets(sets))
        return np.where(self._conditions.satisfied(sets), np.concatenate(found), -np.inf)

    def satisfies(self, y):
        """Return True (n_samples,) for the rows of y that satisfy the rules.

        Parameters
        ----------
        y : array-like of shape (n_samples, n_outputs)
            0/1 labels, and NaN for unknown labels. A row with unknown labels satisfies the rules if
            its unknown labels can be filled in such that the whole row does.
        """
        check_outer_fitted(self)
        return possible_rows(self._conditions, self._labels(y))

    def _labels(self, y, name="y"):
        """Validate y, and return an array (N rows, L labels) of 0, 1 and NaN."""
        n_labels = self._targets.n_visible
        labels = indicator_by_name(y, self._targets.names, n_labels, name)
        if labels.ndim != 2 or labels.shape[1] != n_labels:
            raise ValueError(f"{name} must have shape (n_samples, {n_labels}), got {labels.shape}")
        return labels

    def _complete(self, y, name="y"):
        """Validate y, and return it as 0/1 labels (N, L) without missing labels."""
        labels = self._labels(y, name)
        if np.isnan(labels).any():
            raise ValueError(f"{name} must be complete: it holds NaN, or lacks columns of labels")
        return labels

    def _allowed_top(self, proba, best):
        """Return C candidates for the label vector of each of N rows, as an array (N, C, L).

        The first candidate is the row of `best` (N, L). For each k from 1 to `_MOST_TOP` (at most
        L) there is a candidate in which the k most probable labels of the row are 1. If this vector
        violates the rules, the row of `best` takes its place.
        """
        n_labels = proba.shape[1]
        rank = np.argsort(np.argsort(-proba, axis=1, kind="stable"), axis=1)
        found = [best]
        for k in range(1, min(n_labels, _MOST_TOP) + 1):
            labels = (rank < k).astype(np.int64)
            found.append(np.where(self._conditions.satisfied(labels)[:, None], labels, best))
        return np.stack(found, axis=1)

    def _answers(self, X, known, ask):
        """Return a list with the result of ``ask(part)`` for each block of consecutive rows.

        `part` is an object that holds the label distribution, under the rules, of the rows of a
        block.
        """
        try:
            return [ask(part) for part in self._parts(X, known)]
        except Impossible as error:
            rows = np.flatnonzero(~possible_rows(self._conditions, known))
            others = f" and {len(rows) - 1} other rows" if len(rows) > 1 else ""
            why = contradiction(self._fitted_rules, self._numbers, known[rows[0]])
            raise Impossible(
                f"y_known contradicts the rules in row {rows[0]}{others}: {why}. "
                "satisfies(y_known) tells which rows are possible"
            ) from error

    def _parts(self, X, known):
        """Yield the label distribution under the rules for each block of rows."""
        if count_rows(X) == 0:
            raise ValueError("X has no rows; at least one row is needed")
        distribution = LabelDistribution(self.estimator_, self._targets)
        if self.is_joint_:
            allowed = self._conditions.enumerate()
            number = allowed @ (1 << np.arange(self._targets.n_visible)[::-1])
            for rows, log_p in distribution.tables(X, known):
                held = None if known is None else known[rows]
                yield Listed(rows, log_p[:, number], allowed, held)
            return
        proba = distribution.marginals(X, known if takes_known(self.estimator_) else None)
        for rows in row_chunks(len(proba), _ROWS):
            held = None if known is None else known[rows]
            log_odds = _fields(proba[rows], self._conditions.parent)
            if self._trees is not None:
                yield Counted(rows, self._trees, log_odds, held)
            elif self._wide is not None:
                yield Wide(rows, self._wide, log_odds, held)
            else:
                yield Eliminated(rows, self._conditions, log_odds, held)

    def _draws_and_log_proba(self, X, n_draws, seed):
        """Return draws (N, n_draws, L) for N rows of X, and their log-probabilities (N, n_draws).

        All rows use the same random numbers, so the draws of a row do not depend on other rows.
        """

        def draw(part):
            drawn = part.draw(n_draws, np.random.RandomState(seed), True)
            return drawn, part.log_proba_of_draws(drawn)

        return tuple(map(np.concatenate, zip(*self._answers(X, None, draw))))

    def _draw(self, X, known, n_samples, seed, alike=False):
        """Draw `n_samples` label vectors for each row.

        If `alike` is True, the same random numbers are used for all rows.
        """
        rng = np.random.RandomState(seed)

        def draw(part):
            return part.draw(n_samples, np.random.RandomState(seed) if alike else rng, alike)

        return np.concatenate(self._answers(X, known, draw))


def _fields(proba, parent):
    """Return the fields (log-odds) of L labels in n rows, given probabilities and parents.

    `proba` and the result are (n, L); `parent` (L,) is the parent of each label, or -1. The
    distribution without rules is the product of P(label) for labels without a parent, and of
    P(label | parent is 1) for labels with a parent. If the parent is 0, the label is 0 with
    probability 1. The field of a label is its log-odds given that its parent is 1, plus
    ``log P(child is 0 | label is 1)`` for each child: if the label is 0, this factor is missing,
    because its children are 0 for certain.
    """
    p = np.clip(proba, _CLIP, 1 - _CLIP)
    child = np.flatnonzero(parent >= 0)
    given = p.copy()
    given[:, child] = np.clip(p[:, child] / p[:, parent[child]], _CLIP, 1 - _CLIP)
    fields = logit(given)
    np.add.at(fields, (slice(None), parent[child]), np.log1p(-given[:, child]))
    return fields


def _best_of_samples(drawn, others, metric):
    """Return, for each of N rows, the candidate with the largest mean metric, as an array (N, L).

    `drawn` (N, S, L) holds S samples of the L labels of each row, over which the mean is taken. The
    candidates are these samples and the C label vectors of `others` (N, C, L).
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
